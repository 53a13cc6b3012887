/* fedloom serve: the server of a federation whose clients join over a network. */
#include "cli/cli.h"

#include "net/server/serve.h"

#include <stdlib.h>
#include <string.h>

/* The command line. */
typedef struct {
    words files, sets;
    const char *output;
    const char *command_line; /* for the report */
    fli_serve_options serve;
    double grace;               /* seconds to wait until clients have heard that the run is over */
    size_t bodies, per_address; /* MiB; connections */
    int quiet;
} request;

/* One write per line, so that lines of several threads do not mix. */
static void log_line(void *unused, const char *line)
{
    (void)unused;
    fprintf(stderr, "%s\n", line);
}

/* For fl_ctx_on_log: prints such a line. */
static void log_note(void *log, fl_log_level level, const char *line)
{
    char word[512];
    fli_net_quote(line, word, sizeof word);
    if (level == FL_LOG_WARNING)
        fli_net_say(log, "warning", "text=%s", word);
    else
        fli_net_note(log, "note", "text=%s", word);
}

/* By default a killed server continues when it is started again; the file may change that. */
static fl_status put_options(const request *req, fl_config *cfg)
{
    fl_status s = req->output ? settings_put(cfg, "output", req->output) : FL_OK;
    if (!s && !*fl_config_get(cfg, "checkpoint_every")) s = fl_config_set(cfg, "checkpoint_every=1");
    return s;
}

/* Writes the result of a run that has ended. *over: nothing is left to do, and clients may leave. */
static int conclude(fl_ctx *ctx, fli_serve *s, const request *req, int *over)
{
    int paused;
    fl_status status = fli_serve_ending(s, &paused);
    fl_run *run = fli_serve_run(s);
    int interrupted = paused && !status;
    if (!status && !paused && run) status = fl_run_save_with_report(run, req->command_line);
    if (!status && !paused && run && !req->quiet) say("results and report.html are in %s", fl_run_output(run));
    if (status) say_error(ctx);
    if (status == FL_EIO && !paused) paused = 1; /* the result could not be written; try again */
    if (paused && (!status || status == FL_EIO))
        say("the run stands still; the same command goes on with it");
    else if (paused)
        say("the run stands still and nothing of it is lost; once this is corrected, the same command goes on with it");
    *over = !paused;
    return interrupted ? CLI_INTERRUPTED : settings_exit(status);
}

/* Whether a signal arrived after the run had ended. */
static int came_now(void *before) { return interrupt_seen() != *(const int *)before; }

/* Waits until all clients know that the run is over, for at most --grace seconds, or until a signal. If some clients do
 * not know and there is a result, keeps the files with which the same command can tell them later. */
static void take_leave(fl_ctx *ctx, fli_serve *s, const request *req, int ok)
{
    const char *first;
    int before = interrupt_seen();
    fli_serve_finish(s);
    size_t left = fli_serve_unacknowledged(s, req->grace, came_now, &before, &first);
    if (left) fli_net_say(fli_serve_log(s), "untold", "clients=%zu first=%s grace=%g", left, first, req->grace);
    if (left && ok) say("the same command tells the clients that have not heard that the run is over");
    if ((!left || !ok) && fli_serve_forget(s)) say_error(ctx);
}

static int serve(fl_ctx *ctx, fl_config *cfg, const request *req)
{
    fli_serve *s;
    int over, draining = 0;
    fl_status status = fli_serve_new(ctx, cfg, &req->serve, &s);
    if (status) return say_error(ctx), settings_exit(status);
    fli_net_say(&req->serve.log, "serving", "port=%u room=%u", (unsigned)fli_serve_port(s), fli_serve_room(s));
    while (!fli_serve_wait(s, 0.2))
        if (interrupt_seen() && !draining) {
            draining = 1;
            fli_net_say(fli_serve_log(s), "draining", "by=signal");
            fli_serve_drain(s);
        }
    int code = conclude(ctx, s, req, &over);
    fli_net_say(fli_serve_log(s), over ? "over" : "paused", "code=%d", code);
    if (over) take_leave(ctx, s, req, code == CLI_OK);
    fli_serve_free(s);
    return code;
}

static int prepare(request *req)
{
    fl_ctx *ctx = fl_ctx_new();
    fl_config *cfg = NULL;
    if (!ctx) return say("out of memory"), CLI_FAILED;
    req->serve.log = (fli_net_log){log_line, NULL, req->quiet};
    fl_ctx_on_log(ctx, log_note, &req->serve.log);
    int code = settings_open(ctx, req->files.v[0], &req->sets, &cfg);
    fl_status s = code ? FL_OK : put_options(req, cfg);
    if (s) say_error(ctx);
    if (s) code = settings_exit(s);
    if (!code && !*fl_config_get(cfg, "output"))
        code = say_usage("serve", "where to? --output DIR, or `output` in %s, says where the result goes",
                         req->files.v[0]);
    if (!code) interrupt_install(req->quiet);
    if (!code) code = serve(ctx, cfg, req);
    fl_config_free(cfg);
    fl_ctx_free(ctx);
    return code;
}

static int run(int argc, char **argv)
{
    request req = {.grace = 60};
    const option options[] = {
        {"--set", OPT_WORDS, &req.sets, TAKES_SETTING},
        {"--output", OPT_TEXT, &req.output, TAKES_FOLDER},
        {"--listen", OPT_TEXT, &req.serve.listen},
        {"--certs", OPT_TEXT, &req.serve.certs, TAKES_FOLDER},
        {"--insecure-http", OPT_FLAG, &req.serve.insecure},
        {"--roster", OPT_TEXT, &req.serve.roster, TAKES_FILE},
        {"--silence", OPT_REAL, &req.serve.silence},
        {"--grace", OPT_REAL, &req.grace},
        {"--bodies", OPT_COUNT, &req.bodies},
        {"--slowest", OPT_COUNT, &req.serve.slowest},
        {"--per-address", OPT_COUNT, &req.per_address},
        {"--quiet", OPT_FLAG, &req.quiet},
        {0},
    };
    int code = args_parse("serve", options, argc, argv, &req.files);
    if (!code && req.files.n != 1) code = say_usage("serve", req.files.n ? "one FILE at a time" : "which FILE?");
    if (!code && (req.bodies > 1 << 20 || req.per_address > 1 << 20))
        code = say_usage("serve", "--bodies and --per-address are %d at most", 1 << 20);
    req.serve.bodies = req.bodies << 20;
    req.serve.per_address = (unsigned)req.per_address;
    char *command_line = command_line_text("serve", argc, argv);
    req.command_line = command_line;
    if (!code) code = prepare(&req);
    free(command_line);
    args_free(&req.files);
    args_free(&req.sets);
    return code;
}

static const char help[] = "usage: fedloom serve FILE --output DIR (--certs DIR | --insecure-http)\n"
                           "                     [--listen HOST:PORT] [--roster FILE] [--silence SECONDS]\n"
                           "                     [--grace SECONDS] [--set KEY=VALUE ...] [--bodies MIB]\n"
                           "                     [--slowest BYTES] [--per-address N] [--quiet]\n"
                           "\n"
                           "Runs a federation whose clients are elsewhere and join over HTTPS, with\n"
                           "`fedloom join`. FILE describes it as for `fedloom run`, but has no samples:\n"
                           "`data: {kind: joined, shape: [1, 28, 28], classes: 10}` says what the clients'\n"
                           "samples look like, `partition.clients` how many clients there are. The run\n"
                           "begins when all have joined. The result is that of a simulation of the same\n"
                           "federation, bit by bit, if no client is dropped. Cohorts are drawn by a\n"
                           "seed of their own, which clients are not told: participation.seed, drawn for\n"
                           "this run if it is not set. The simulation finds it in the result's config.yaml.\n"
                           "\n"
                           "Every client needs a certificate of its own (`fedloom cert`), and acts under\n"
                           "the name in it. Plain HTTP is for trying things out, on this machine alone.\n"
                           "\n"
                           "The server may be killed at any moment: started again with the same command\n"
                           "it knows who has joined and goes on with the round that was under way. What it\n"
                           "needs for that is in DIR.server and DIR.checkpoint until the run is over. The\n"
                           "first Ctrl-C (or SIGTERM) ends it after the round under way, so that it can\n"
                           "go on later; a second one ends it at once.\n"
                           "\n"
                           "When the result is safe the server tells the clients that the run is over, and\n"
                           "ends as soon as all have said that they know. For those that are cut off just\n"
                           "then it stays a while (--grace); after that the same command tells them.\n"
                           "\n"
                           "Who joined, was refused, dropped or revoked, and which settings changed at a\n"
                           "restart is also in DIR.audit.jsonl, which stays: `fedloom audit`.\n"
                           "\n"
                           "What happens goes to stderr, a line per event: time=... event=... and what\n"
                           "belongs to it as key=value. `fedloom status` shows how it stands, and so does a\n"
                           "browser at the same URL; /metrics is for Prometheus, /healthz says `ok`.\n"
                           "\n"
                           "options:\n"
                           "  --output DIR        the result's folder, as for `fedloom run`. Its report.html\n"
                           "                      shows how many samples each client claims\n"
                           "  --certs DIR         the server's folder that `fedloom cert server` has made\n"
                           "  --insecure-http     plain HTTP, on 127.0.0.1 unless --listen says otherwise\n"
                           "  --listen HOST:PORT  where to listen (default: all addresses, port 8443;\n"
                           "                      port 0: a free one, which is logged)\n"
                           "  --roster FILE       the clients' names, one per line, in the order of their\n"
                           "                      numbers; no others may join. Without it numbers are\n"
                           "                      given in the order of joining\n"
                           "  --silence SECONDS   a client that has something to do and is not heard for\n"
                           "                      this long is dropped from the round (default: 60)\n"
                           "  --grace SECONDS     how long to stay, after the result is safe, for clients\n"
                           "                      that have not heard of the end (default: 60)\n"
                           "  --bodies MIB        memory for bodies of requests but answers, for which there\n"
                           "                      is server.memory (default: 1024); a client that comes\n"
                           "                      when it is full is told to come again\n"
                           "  --slowest BYTES     per second, at which long uploads must come (default:\n"
                           "                      65536); any may take a minute. Slower ones are cut,\n"
                           "                      which frees their memory for others\n"
                           "  --per-address N     most connections of one address (default: any number)\n"
                           "  --set KEY=VALUE     overrides a key of the file, may be repeated\n"
                           "  --quiet             no lines for what is routine\n"
                           "\n"
                           "examples:\n"
                           "  fedloom serve server.yaml --output results/one --certs certs/server\n"
                           "  fedloom serve server.yaml --output results/one --insecure-http\n"
                           "\n"
                           "exit codes: 0 success, 1 the run failed, 2 wrong usage or configuration, 130\n"
                           "interrupted\n";

const command cmd_serve = {"serve", "the server of a federation over a network", help, run, .takes = {TAKES_FILE}};
