/* fedloom compare: several methods, settings and seeds on one problem. */
#include "cli/cli.h"

#include <stdlib.h>

static int run_files(const words *files, study_request *req, const char *output)
{
    fl_ctx *ctx = fl_ctx_new();
    int worst = CLI_OK;
    char folder[4096];
    if (!ctx) {
        say("out of memory");
        return CLI_FAILED;
    }
    fl_ctx_on_log(ctx, req->quiet ? say_warning : say_log, NULL);
    interrupt_install(req->quiet);
    interrupt_context(ctx);
    for (size_t i = 0; i < files->n && !interrupt_seen(); i++) {
        if (output && files->n > 1) { /* each file gets its own folder below */
            snprintf(folder, sizeof folder, "%s/%zu", output, i + 1);
            req->options.output = folder;
        } else
            req->options.output = output;
        int code = study_run(ctx, files->v[i], req);
        if (code > worst) worst = code;
    }
    interrupt_context(NULL);
    fl_ctx_free(ctx);
    return worst;
}

static int run(int argc, char **argv)
{
    study_request req = {.options.size = sizeof req.options};
    words files = {0};
    size_t port = 0;
    const char *output = NULL;
    const option options[] = {
        {"--seeds", OPT_COUNT, &req.options.seeds},
        {"--tune", OPT_COUNT, &req.budget},
        {"--jobs", OPT_COUNT, &req.options.jobs},
        {"--set", OPT_WORDS, &req.sets, TAKES_SETTING},
        {"--data", OPT_TEXT, &req.options.data, TAKES_FOLDER},
        {"--output", OPT_TEXT, &output, TAKES_FOLDER},
        {"--tensorboard", OPT_TEXT, &req.options.tensorboard, TAKES_FOLDER},
        {"--watch", OPT_FLAG, &req.watch},
        {"--port", OPT_COUNT, &port},
        {"--quick", OPT_FLAG, &req.options.quick},
        {"--force", OPT_FLAG, &req.options.force},
        {"--quiet", OPT_FLAG, &req.quiet},
        {"--format", OPT_FORMAT, &req.json},
        {0},
    };
    int code = args_parse("compare", options, argc, argv, &files);
    char *command_line = command_line_text("compare", argc, argv);
    req.options.command = command_line;
    if (!code && !files.n) code = say_usage("compare", "which FILE?");
    if (!code && req.json && files.n > 1)
        code = say_usage("compare", "--format json is one document, so give one FILE");
    if (!code && port && !req.watch) code = say_usage("compare", "--port goes with --watch");
    if (!code && port > UINT16_MAX)
        code = say_usage("compare", "--port is %zu, but must be at most %d", port, UINT16_MAX);
    req.port = (uint16_t)port;
    if (!code) code = run_files(&files, &req, output);
    args_free(&files);
    args_free(&req.sets);
    free(command_line);
    return code;
}

static const char help[] = "usage: fedloom compare FILE... [--seeds N] [--tune BUDGET] [--jobs N]\n"
                           "                       [--set KEY=VALUE ...]\n"
                           "                       [--output DIR] [--watch [--port N]] [--tensorboard DIR]\n"
                           "                       [--data DIR] [--quick] [--force] [--quiet]\n"
                           "                       [--format table|json]\n"
                           "\n"
                           "Runs several methods on one problem, over seeds, and ends with a table: means\n"
                           "and deviations of final accuracy and loss, rounds, megabytes and, with a\n"
                           "virtual clock, simulated seconds to each target.\n"
                           "\n"
                           "An experiment file is a configuration as for `fedloom run`, plus\n"
                           "\n"
                           "  seeds: 3                      # seed, seed + 1, seed + 2\n"
                           "  methods:                      # each overrides common keys with its own\n"
                           "    - {label: FedAvg, algorithm: fedavg}\n"
                           "    - {label: FedProx, algorithm: {kind: fedprox, mu: 0.1}}\n"
                           "  grid:                         # optional: every combination, for every method\n"
                           "    local.lr: [0.01, 0.1]\n"
                           "  points:                       # or these settings, one by one\n"
                           "    - {local.lr: 0.1, model.weight_decay: 1e-3}\n"
                           "\n"
                           "All methods see the same data, partition and start model of a seed. With a\n"
                           "grid or points the best setting of each method is marked with * and drawn in\n"
                           "the report.\n"
                           "\n"
                           "The output folder (the file's `output`, else results/NAME) receives\n"
                           "results.csv, results.md, results.json, report.html (open it in a browser) and\n"
                           "a result folder per run below runs/. After Ctrl-C or a kill, the same command\n"
                           "continues: complete runs with the same settings and data are not run again.\n"
                           "Finished runs with other settings or data are replaced only with --force; files\n"
                           "that no comparison has written are never replaced. One process at a time works\n"
                           "in an output folder.\n"
                           "\n"
                           "options:\n"
                           "  --seeds N            how many seeds, instead of the file's number\n"
                           "  --tune BUDGET        tunes every method first, with BUDGET runs each, as\n"
                           "                       `fedloom tune` does, into the folder tune of the output;\n"
                           "                       then compares the winners\n"
                           "  --jobs N             N runs at a time (default: one per processor)\n"
                           "  --set KEY=VALUE      overrides a common key; may be repeated. algorithm.KEY\n"
                           "                       applies to the methods that have such a key\n"
                           "  --output DIR         where to write (with several files DIR/1, DIR/2, ...)\n"
                           "  --watch              serves the report on this machine while it grows;\n"
                           "                       --port N chooses the port\n"
                           "  --tensorboard DIR    also writes event files for TensorBoard, one per run,\n"
                           "                       when the run has finished\n"
                           "  --data DIR           what ${data} in the file stands for (or set FEDLOOM_DATA)\n"
                           "  --quick              applies the file's `quick` part: a smaller version\n"
                           "  --force              replaces finished runs with other settings or data\n"
                           "  --quiet              no progress; tables, warnings and errors stay\n"
                           "  --format FORMAT      table, or json: what results.json has. With --tune that\n"
                           "                       is what was compared; tune/tried.csv has what was tried\n"
                           "\n"
                           "examples:\n"
                           "  fedloom compare examples/compare.yaml\n"
                           "  fedloom compare examples/compare.yaml --seeds 5 --watch\n"
                           "  fedloom compare examples/compare.yaml --tune 20\n"
                           "  fedloom compare examples/compare.yaml --set local.lr=0.02 --output results/b\n"
                           "\n"
                           "exit codes: 0 success, 1 a run failed, 2 wrong usage or configuration, 130\n"
                           "interrupted\n";

const command cmd_compare = {"compare", "compares methods over seeds: a table and a report", help, run,
                             .takes = {TAKES_FILE, TAKES_FILE}};
