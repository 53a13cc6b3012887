/* fedloom resume: continues a run from its last checkpoint. */
#include "cli/cli.h"

#include <stdlib.h>

typedef struct {
    const char *folder;
    size_t threads;     /* 0: as configured */
    const char *device; /* NULL: as configured */
    int quiet, json;
    run_options how;
} request;

static fl_status make(fl_ctx *ctx, const request *req, fl_run **out)
{
    char threads[40], device[100];
    fl_config *cfg = fl_config_new(ctx);
    fl_status s = cfg ? fl_config_resume(cfg, req->folder) : FL_ENOMEM;
    snprintf(threads, sizeof threads, "threads=%zu", req->threads);
    if (!s && req->threads) s = fl_config_set(cfg, threads);
    snprintf(device, sizeof device, "device=%s", req->device ? req->device : "");
    if (!s && req->device) s = fl_config_set(cfg, device);
    if (!s) s = fl_config_ranks(cfg, ranks_table());
    if (!s) s = fl_run_resume(cfg, out);
    fl_config_free(cfg);
    return s;
}

static int resume(const request *req, fl_ctx *ctx, run_table *sum)
{
    fl_run *run = NULL;
    progress p;
    progress_init(&p, req->quiet);
    fl_ctx_on_log(ctx, progress_log, &p);
    ranks_signals(req->quiet);
    interrupt_context(ctx);
    fl_status s = make(ctx, req, &run);
    if (!s && !req->quiet) say("%s: continuing after round %zu", fl_run_name(run), fl_run_round(run));
    int code = s ? CLI_OK : events_check(req->how.tensorboard, fl_run_name(run));
    if (!s && !code && !interrupt_watch(run)) s = run_and_save(run, &req->how, &p, sum);
    interrupt_watch(NULL);
    interrupt_context(NULL);
    if (s) say_error(ctx);
    int reports = run && !code && ranks_first();
    if (reports && !req->json) run_table_print(sum, stdout);
    if (reports && req->json) code = run_table_json(sum);
    fl_run_free(run);
    if (s == FL_EDONE || code) return code;
    return s ? settings_exit(s) : interrupt_seen() ? CLI_INTERRUPTED : CLI_OK;
}

static int run(int argc, char **argv)
{
    request req = {0};
    words plain = {0};
    const option options[] = {
        {"--threads", OPT_COUNT, &req.threads},
        {"--device", OPT_TEXT, &req.device, TAKES_DEVICE},
        {"--tensorboard", OPT_TEXT, &req.how.tensorboard, TAKES_FOLDER},
        {"--force", OPT_FLAG, &req.how.force},
        {"--quiet", OPT_FLAG, &req.quiet},
        {"--format", OPT_FORMAT, &req.json},
        {0},
    };
    int code = args_parse("resume", options, argc, argv, &plain);
    char *command_line = command_line_text("resume", argc, argv);
    req.how.command_line = command_line;
    req.quiet |= !ranks_first();
    if (!code && plain.n != 1) code = say_usage("resume", plain.n ? "one DIR at a time" : "which DIR?");
    if (!code) {
        fl_ctx *ctx = fl_ctx_new();
        run_table *sum = run_table_new();
        req.folder = plain.v[0];
        if (ctx && sum)
            code = resume(&req, ctx, sum);
        else {
            say("out of memory");
            code = CLI_FAILED;
        }
        run_table_free(sum);
        fl_ctx_free(ctx);
    }
    args_free(&plain);
    free(command_line);
    return code;
}

static const char help[] = "usage: fedloom resume DIR [--threads N] [--device NAME] [--tensorboard DIR]\n"
                           "                      [--force] [--quiet] [--format table|json]\n"
                           "\n"
                           "Continues a run that was stopped or killed, from its last complete checkpoint.\n"
                           "DIR is the run's output folder, or that of its checkpoints, DIR.checkpoint. The\n"
                           "result has the same bits as if the run had never been stopped, unless it goes on\n"
                           "on another device. A checkpoint is refused if it was made by another version of\n"
                           "the program, if settings or data (values, labels, who holds what) have changed\n"
                           "since, or while another process works with it.\n"
                           "\n"
                           "`fedloom run --checkpoint-every K` writes checkpoints, and so does the key\n"
                           "checkpoint_every of a configuration. The last two are kept, and removed when the\n"
                           "run is finished.\n"
                           "\n"
                           "options:\n"
                           "  --threads N        uses N threads (default: as at the start)\n"
                           "  --device NAME      goes on there (`fedloom list devices`; default: as at the\n"
                           "                     start)\n"
                           "  --tensorboard DIR  also writes an event file for TensorBoard, to DIR/NAME\n"
                           "  --force            replaces an earlier result in DIR\n"
                           "  --quiet            no progress; the table, warnings and errors stay\n"
                           "  --format FORMAT    table, or json, as for `fedloom run`\n"
                           "\n"
                           "examples:\n"
                           "  fedloom run long.yaml --output results/long --checkpoint-every 100\n"
                           "  fedloom resume results/long\n"
                           "  fedloom resume results/long.checkpoint --threads 8\n"
                           "\n"
                           "exit codes: 0 success, 1 the run failed, 2 wrong usage or configuration, 130\n"
                           "interrupted\n";

const command cmd_resume = {
    "resume", "continues a run from its checkpoints", help, run, RANKS_ALL, .takes = {TAKES_FOLDER}};
