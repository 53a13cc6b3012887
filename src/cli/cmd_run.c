/* fedloom run: one federation after the other, and a table at the end. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* What the command line asks for. */
typedef struct {
    words files, sets;
    const char *output, *algorithms;
    size_t threads;    /* 0: as configured */
    size_t checkpoint; /* every so many rounds; 0: as configured */
    int force, quiet;
} request;

/* What goes on. */
typedef struct {
    const request *req;
    fl_ctx *ctx;
    fl_run *run; /* the one under way */
    progress progress;
    summary *summary;
    int code;
} session;

/* ---- one run's configuration ----------------------------------------------------------------------------- */

/* Puts "<text><joint><more>" under a key. */
static fl_status put_joined(fl_config *cfg, const char *key, const char *text, const char *joint, const char *more)
{
    size_t size = strlen(text) + strlen(joint) + strlen(more) + 1;
    char *joined = malloc(size);
    if (!joined) return FL_ENOMEM;
    snprintf(joined, size, "%s%s%s", text, joint, more);
    fl_status s = settings_put(cfg, key, joined);
    free(joined);
    return s;
}

/* Several runs must not share a folder: each file gets its own below --output, each algorithm its own below that. */
static fl_status put_output(const request *req, fl_config *cfg, const char *name)
{
    if (!req->output) return FL_OK;
    if (req->files.n == 1) return settings_put(cfg, "output", req->output);
    return put_joined(cfg, "output", req->output, "/", name);
}

static fl_status put_algorithm(fl_config *cfg, const char *algorithm)
{
    fl_status s = settings_put(cfg, "algorithm", algorithm);
    if (!s) s = put_joined(cfg, "name", fl_config_get(cfg, "name"), "-", algorithm);
    const char *output = fl_config_get(cfg, "output");
    if (!s && *output) s = put_joined(cfg, "output", output, "/", algorithm);
    return s;
}

/* The configuration of one run; `algorithm` "" leaves the file's. Says what is wrong. */
static int configure(session *x, const char *file, const char *algorithm, fl_config **out)
{
    fl_config *cfg = NULL;
    char threads[40], every[60];
    int code = settings_open(x->ctx, file, &x->req->sets, &cfg);
    if (code) return code;
    snprintf(threads, sizeof threads, "threads=%zu", x->req->threads);
    snprintf(every, sizeof every, "checkpoint_every=%zu", x->req->checkpoint);
    fl_status s = put_output(x->req, cfg, fl_config_get(cfg, "name"));
    if (!s && x->req->threads) s = fl_config_set(cfg, threads);
    if (!s && x->req->checkpoint) s = fl_config_set(cfg, every);
    if (!s && *algorithm) s = put_algorithm(cfg, algorithm);
    if (!s) {
        *out = cfg;
        return CLI_OK;
    }
    say_error(x->ctx);
    fl_config_free(cfg);
    return settings_exit(s);
}

/* ---- one run --------------------------------------------------------------------------------------------- */

/* 0 when the next run may start: a run that fails (diverges, say) does not take the others with it. */
static int do_run(session *x, const char *file, const char *algorithm)
{
    fl_config *cfg = NULL;
    if (interrupt_seen()) return 1;
    int code = configure(x, file, algorithm, &cfg);
    fl_status s = code ? FL_OK : fl_run_new(cfg, &x->run);
    fl_config_free(cfg);
    if (!code && !s && !interrupt_watch(x->run)) s = carry_run(x->run, x->req->force, &x->progress, x->summary);
    interrupt_watch(NULL);
    if (s) {
        say_error(x->ctx);
        code = settings_exit(s);
    }
    fl_run_free(x->run);
    x->run = NULL;
    if (code && !x->code) x->code = code;
    return 0;
}

static void discard(void *unused, const char *text)
{
    (void)unused;
    (void)text;
}

/* A wrong key in the last file is better known before the first one has run. */
static int do_check(session *x, const char *file, const char *algorithm)
{
    fl_config *cfg = NULL;
    int code = configure(x, file, algorithm, &cfg);
    fl_status s = code ? FL_OK : fl_config_print(cfg, discard, NULL);
    if (s) say_error(x->ctx);
    fl_config_free(cfg);
    if (!code) code = settings_exit(s);
    if (code && !x->code) x->code = code;
    return 0;
}

/* ---- all of them ----------------------------------------------------------------------------------------- */

/* Calls `each` for every file and algorithm, until it returns non-zero. */
static void for_each(session *x, int (*each)(session *, const char *file, const char *algorithm))
{
    for (size_t i = 0; i < x->req->files.n; i++) {
        const char *list = x->req->algorithms ? x->req->algorithms : "";
        do {
            char name[64];
            size_t n = strcspn(list, ",");
            snprintf(name, sizeof name, "%.*s", (int)n, list);
            if (each(x, x->req->files.v[i], name)) return;
            list += n + (list[n] == ',');
        } while (*list);
    }
}

static int run_all(const request *req)
{
    session x = {.req = req, .ctx = fl_ctx_new(), .summary = summary_new()};
    if (!x.ctx || !x.summary) {
        say("out of memory");
        x.code = CLI_FAILED;
    } else {
        for_each(&x, do_check);
    }
    if (!x.code) {
        progress_init(&x.progress, req->quiet);
        fl_ctx_on_log(x.ctx, progress_log, &x.progress);
        interrupt_install(req->quiet);
        for_each(&x, do_run);
        if (!req->quiet) summary_print(x.summary, stdout);
        if (!x.code && interrupt_seen()) x.code = CLI_INTERRUPTED;
    }
    summary_free(x.summary);
    fl_ctx_free(x.ctx);
    return x.code;
}

static int run(int argc, char **argv)
{
    request req = {0};
    const option options[] = {
        {"--set", OPT_WORDS, &req.sets},
        {"--output", OPT_TEXT, &req.output},
        {"--algorithms", OPT_TEXT, &req.algorithms},
        {"--threads", OPT_COUNT, &req.threads},
        {"--checkpoint-every", OPT_COUNT, &req.checkpoint},
        {"--force", OPT_FLAG, &req.force},
        {"--quiet", OPT_FLAG, &req.quiet},
        {0},
    };
    int code = args_parse("run", options, argc, argv, &req.files);
    if (!code && !req.files.n) code = say_usage("run", "which FILE?");
    if (!code && req.algorithms && (strstr(req.algorithms, ",,") || *req.algorithms == ','))
        code = say_usage("run", "--algorithms is %s, which has an empty name in it", req.algorithms);
    if (!code) code = run_all(&req);
    args_free(&req.files);
    args_free(&req.sets);
    return code;
}

static const char help[] = "usage: fedloom run FILE... [--set KEY=VALUE ...] [--algorithms A,B,...]\n"
                           "                   [--output DIR] [--force] [--checkpoint-every K]\n"
                           "                   [--threads N] [--quiet]\n"
                           "\n"
                           "Runs the federation that a YAML file describes, several files one after the\n"
                           "other, and ends with a table: rounds, training loss, test accuracy, the first\n"
                           "round that reached each accuracy in `metrics.targets` (`> N`: none of the N\n"
                           "rounds did), megabytes uploaded, seconds. Below it stand, where measured, the\n"
                           "figures of the clients' own models, communications where they are not the\n"
                           "rounds, simulated time, the age of uploads, and how clusters agree with classes.\n"
                           "Progress goes to stderr, the table to stdout.\n"
                           "\n"
                           "The first Ctrl-C ends the run after the round under way, and what there is is\n"
                           "saved; the second ends it at once. With checkpoints the first one writes a\n"
                           "checkpoint instead, from which `fedloom resume` goes on.\n"
                           "\n"
                           "options:\n"
                           "  --set KEY=VALUE       overrides a key of the file, may be repeated: seed=7,\n"
                           "                        local.lr=0.1, 'model.hidden=[200, 100]'\n"
                           "  --algorithms A,B,...  runs every file once per method, to compare them; each\n"
                           "                        result goes to its own folder\n"
                           "  --output DIR          writes the results to DIR (DIR/NAME with several files,\n"
                           "                        and a folder per method below that)\n"
                           "  --force               replaces an earlier result in that folder\n"
                           "  --checkpoint-every K  keeps all that is needed to go on, every K rounds, in\n"
                           "                        DIR.checkpoint until the run is finished\n"
                           "  --threads N           works with N threads (default: as configured, else one\n"
                           "                        per processor); the results do not depend on it\n"
                           "  --quiet               says nothing but errors\n"
                           "\n"
                           "examples:\n"
                           "  fedloom run first.yaml\n"
                           "  fedloom run first.yaml --set rounds=50 --output results/first\n"
                           "  fedloom run first.yaml --set algorithm=fedprox --set algorithm.mu=0.1\n"
                           "  fedloom run first.yaml --algorithms fedavg,fedprox,scaffold\n"
                           "  fedloom run iid.yaml skewed.yaml --output results --force\n"
                           "  fedloom run first.yaml --output results/first --checkpoint-every 100\n"
                           "\n"
                           "exit codes: 0 success, 1 a run failed, 2 wrong usage or configuration, 130\n"
                           "interrupted\n"
                           "\n"
                           "`fedloom list` shows what a file can choose from, `fedloom config FILE` every\n"
                           "key with its value.\n";

const command cmd_run = {"run", "runs federations and compares them", help, run};
