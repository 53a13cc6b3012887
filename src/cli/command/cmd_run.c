/* fedloom run: runs one after the other, and a table at the end. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

/* The command line. */
typedef struct {
    words files, sets;
    const char *output, *algorithms;
    size_t threads;    /* 0: as configured */
    size_t checkpoint; /* rounds between checkpoints; 0: as configured */
    int quiet, json;
    run_options how;
} request;

/* The state of the command. */
typedef struct {
    const request *req;
    fl_ctx *ctx;
    fl_config **plans; /* of all runs, in order; each file is read once */
    size_t count, capacity;
    fl_run *run; /* the current one */
    progress progress;
    run_table *table;
    int over; /* no further run: another process uses a folder, or ranks lost contact */
    int code;
} session;

/* ---- --set with --algorithms ------------------------------------------------------------------------------ */

/* Name i of --algorithms; 0 past the last. */
static int algorithm_at(const request *req, size_t i, char *name, size_t size)
{
    const char *list = req->algorithms;
    for (; *list && i; i--) {
        list += strcspn(list, ",");
        list += *list == ',';
    }
    snprintf(name, size, "%.*s", (int)strcspn(list, ","), list);
    return *list != 0;
}

/* Whether an assignment is to a method's own key: "algorithm.KEY=...". */
static int method_key(const char *assignment, char *key, size_t size)
{
    const char *at = assignment + strspn(assignment, " \t");
    size_t n = strcspn(at, "= \t");
    if (strncmp(at, "algorithm.", 10) || n - 10 >= size) return 0;
    snprintf(key, size, "%.*s", (int)(n - 10), at + 10);
    return 1;
}

/* Counts the methods that have the key, and lists the names of the others, with commas. */
static size_t with_key(const request *req, const char *key, char *without, size_t size)
{
    char name[64];
    size_t with = 0, used = 0;
    *without = 0;
    for (size_t i = 0; algorithm_at(req, i, name, sizeof name); i++) {
        if (fl_kind_has_key("algorithm", name, key))
            with++;
        else if (used < size)
            used += (size_t)snprintf(without + used, size - used, "%s%s", used ? ", " : "", name);
    }
    return with;
}

/* Whether to skip an assignment for this method: a key that only some methods have is set for these. If no method has
 * it, checking the configuration reports it. */
static int goes_without(const request *req, const char *algorithm, const char *assignment)
{
    char key[64], without[8];
    return method_key(assignment, key, sizeof key) && !fl_kind_has_key("algorithm", algorithm, key) &&
           with_key(req, key, without, sizeof without);
}

/* Logs the skipped keys, once. */
static void say_without(const request *req)
{
    char key[64], without[512];
    for (size_t i = 0; req->algorithms && i < req->sets.n; i++)
        if (method_key(req->sets.v[i], key, sizeof key) && with_key(req, key, without, sizeof without) && *without)
            say("warning: --set %s holds for the methods that have algorithm.%s; these have not: %s", req->sets.v[i],
                key, without);
}

/* Applies the assignments for a method. */
static fl_status finish_settings(const request *req, fl_config *cfg, const char *file, const char *algorithm)
{
    words own = {0, calloc(req->sets.n + 1, sizeof *own.v)};
    if (!own.v) return FL_ENOMEM;
    for (size_t i = 0; i < req->sets.n; i++)
        if (!*algorithm || !goes_without(req, algorithm, req->sets.v[i])) own.v[own.n++] = req->sets.v[i];
    fl_status s = settings_finish(cfg, file, &own);
    free(own.v);
    return s;
}

/* ---- one run's configuration ----------------------------------------------------------------------------- */

/* Sets a key to "<text><joint><more>". */
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
static fl_status put_output(const request *req, fl_config *cfg)
{
    if (!req->output) return FL_OK;
    if (req->files.n == 1) return settings_put(cfg, "output", req->output);
    return put_joined(cfg, "output", req->output, "/", fl_config_get(cfg, "name"));
}

/* Appends the method's name to those of run and folder. */
static fl_status put_algorithm(fl_config *cfg, const char *algorithm)
{
    fl_status s = put_joined(cfg, "name", fl_config_get(cfg, "name"), "-", algorithm);
    const char *output = fl_config_get(cfg, "output");
    if (!s && *output) s = put_joined(cfg, "output", output, "/", algorithm);
    return s;
}

/* Refuses a name that would lead out of the folder in which it becomes a folder. */
static int check_name(const request *req, const fl_config *cfg, const char *file)
{
    const char *name = fl_config_get(cfg, "name");
    if (!req->output || req->files.n == 1 || (!strchr(name, '/') && strcmp(name, ".") && strcmp(name, "..")))
        return CLI_OK;
    say("%s: name is %s, which cannot be a folder below %s; give the run a name without a slash", file, name,
        req->output);
    return CLI_USAGE;
}

/* --set may change the method's keys, but not the method. */
static int check_method(const fl_config *cfg, const char *algorithm)
{
    const char *kind = fl_config_get(cfg, "algorithm.kind");
    if (!*kind) kind = fl_config_get(cfg, "algorithm");
    if (!*algorithm || !strcmp(kind, algorithm)) return CLI_OK;
    return say_usage("run", "--set and --algorithms both choose the method: %s and %s", *kind ? kind : "none",
                     algorithm);
}

/* Applies the other options, which override file, method and --set. */
static fl_status put_options(const request *req, fl_config *cfg, const char *algorithm)
{
    char threads[40], every[60];
    snprintf(threads, sizeof threads, "threads=%zu", req->threads);
    snprintf(every, sizeof every, "checkpoint_every=%zu", req->checkpoint);
    fl_status s = put_output(req, cfg);
    if (!s && req->threads) s = fl_config_set(cfg, threads);
    if (!s && req->checkpoint) s = fl_config_set(cfg, every);
    if (!s && *algorithm) s = put_algorithm(cfg, algorithm);
    return s;
}

/* Completes and checks the configuration of one run; `algorithm` "" keeps the file's. Prints errors. */
static int configure(session *x, fl_config *cfg, const char *file, const char *algorithm)
{
    int code;
    fl_status s = *algorithm ? settings_put(cfg, "algorithm", algorithm) : FL_OK;
    if (!s) s = finish_settings(x->req, cfg, file, algorithm);
    if (!s && ((code = check_name(x->req, cfg, file)) || (code = check_method(cfg, algorithm)))) return code;
    if (!s) s = put_options(x->req, cfg, algorithm);
    if (!s) s = fl_config_check(cfg);
    if (!s) return CLI_OK;
    say_error(x->ctx);
    if (*algorithm) say("(this is %s of --algorithms)", algorithm);
    return settings_exit(s);
}

/* ---- all configurations, before the first run ------------------------------------------------------------ */

static int check_folder(const session *x, const fl_config *cfg)
{
    const char *output = fl_config_get(cfg, "output");
    for (size_t i = 0; *output && i < x->count; i++)
        if (!strcmp(output, fl_config_get(x->plans[i], "output"))) {
            say("two of these runs would write to %s; give them different names", output);
            return CLI_USAGE;
        }
    return CLI_OK;
}

/* The same for event files. */
static int check_events(const session *x, const fl_config *cfg)
{
    const char *folder = x->req->how.tensorboard, *name = fl_config_get(cfg, "name");
    int code = events_check(folder, name);
    for (size_t i = 0; folder && !code && i < x->count; i++)
        if (!strcmp(name, fl_config_get(x->plans[i], "name"))) {
            say("two of these runs would write events to %s/%s; give them different names", folder, name);
            code = CLI_USAGE;
        }
    return code;
}

static int keep(session *x, fl_config *cfg)
{
    if (x->count == x->capacity) {
        size_t more = x->capacity ? 2 * x->capacity : 16;
        fl_config **plans = realloc(x->plans, more * sizeof *plans);
        if (!plans) return 0;
        x->plans = plans;
        x->capacity = more;
    }
    x->plans[x->count++] = cfg;
    return 1;
}

/* Takes ownership of the configuration; NULL: out of memory. */
static void plan_run(session *x, fl_config *cfg, const char *file, const char *algorithm)
{
    int code = cfg ? configure(x, cfg, file, algorithm) : CLI_FAILED;
    if (!code) code = check_folder(x, cfg);
    if (!code) code = check_events(x, cfg);
    int kept = !code && keep(x, cfg);
    if (!cfg || (!code && !kept)) {
        say("out of memory");
        code = CLI_FAILED;
    }
    if (!kept) fl_config_free(cfg);
    if (code && !x->code) x->code = code;
}

/* Reads a file only once: it may be a pipe, or change later. */
static void plan_file(session *x, const char *file)
{
    char name[64];
    fl_config *base = NULL;
    int code = settings_load(x->ctx, file, &base);
    if (code && !x->code) x->code = code;
    if (code) return;
    if (!x->req->algorithms || !*x->req->algorithms) {
        plan_run(x, base, file, "");
        return;
    }
    for (size_t i = 0; algorithm_at(x->req, i, name, sizeof name); i++) plan_run(x, fl_config_copy(base), file, name);
    fl_config_free(base);
}

/* ---- the runs -------------------------------------------------------------------------------------------- */

/* A run that fails, such as by divergence, does not end the others. */
static void do_run(session *x, fl_config *cfg)
{
    fl_status s = fl_config_ranks(cfg, ranks_table());
    if (!s) s = fl_run_new(cfg, &x->run);
    if (!s && !interrupt_watch(x->run)) s = run_and_save(x->run, &x->req->how, &x->progress, x->table);
    interrupt_watch(NULL);
    if (s) say_error(x->ctx);
    int code = s ? ranks_failed(settings_exit(s)) : CLI_OK;
    if (!x->code) x->code = code;
    x->over = s == FL_EBUSY || (s == FL_ESYSTEM && ranks_table());
    fl_run_free(x->run);
    x->run = NULL;
}

/* Prints the table or the document; returns the exit code. */
static int report(const session *x)
{
    if (x->req->json) {
        int code = run_table_json(x->table);
        return x->code ? x->code : code;
    }
    run_table_print(x->table, stdout);
    return x->code;
}

static int run_all(const request *req)
{
    session x = {.req = req, .ctx = fl_ctx_new(), .table = run_table_new()};
    if (!x.ctx || !x.table) {
        say("out of memory");
        x.code = CLI_FAILED;
    }
    say_without(req);
    for (size_t i = 0; x.ctx && x.table && i < req->files.n; i++) plan_file(&x, req->files.v[i]);
    if (!x.code) {
        progress_init(&x.progress, req->quiet);
        fl_ctx_on_log(x.ctx, progress_log, &x.progress);
        ranks_signals(req->quiet);
        interrupt_context(x.ctx);
        for (size_t i = 0; i < x.count && !interrupt_seen() && !x.over; i++) do_run(&x, x.plans[i]);
        if (ranks_first()) x.code = report(&x);
        if (!x.code && interrupt_seen()) x.code = CLI_INTERRUPTED;
        interrupt_context(NULL);
    }
    for (size_t i = 0; i < x.count; i++) fl_config_free(x.plans[i]);
    free(x.plans);
    run_table_free(x.table);
    fl_ctx_free(x.ctx);
    return x.code;
}

static int run(int argc, char **argv)
{
    request req = {0};
    const option options[] = {
        {"--set", OPT_WORDS, &req.sets, TAKES_SETTING},
        {"--output", OPT_TEXT, &req.output, TAKES_FOLDER},
        {"--algorithms", OPT_TEXT, &req.algorithms, TAKES_METHODS},
        {"--threads", OPT_COUNT, &req.threads},
        {"--checkpoint-every", OPT_COUNT, &req.checkpoint},
        {"--tensorboard", OPT_TEXT, &req.how.tensorboard, TAKES_FOLDER},
        {"--force", OPT_FLAG, &req.how.force},
        {"--quiet", OPT_FLAG, &req.quiet},
        {"--format", OPT_FORMAT, &req.json},
        {0},
    };
    int code = args_parse("run", options, argc, argv, &req.files);
    char *command_line = command_line_text("run", argc, argv);
    req.how.command_line = command_line;
    req.quiet |= !ranks_first();
    if (!code && !req.files.n) code = say_usage("run", "which FILE?");
    if (!code && req.algorithms && (strstr(req.algorithms, ",,") || *req.algorithms == ','))
        code = say_usage("run", "--algorithms is %s, which has an empty name in it", req.algorithms);
    if (!code) code = run_all(&req);
    args_free(&req.files);
    args_free(&req.sets);
    free(command_line);
    return code;
}

static const char help[] = "usage: fedloom run FILE... [--set KEY=VALUE ...] [--algorithms A,B,...]\n"
                           "                   [--output DIR] [--force] [--checkpoint-every K]\n"
                           "                   [--tensorboard DIR] [--threads N] [--quiet]\n"
                           "                   [--format table|json]\n"
                           "\n"
                           "Runs the federation that a YAML file describes, several files one after the\n"
                           "other, and ends with a table: rounds, training loss, test accuracy, the first\n"
                           "round that reached each accuracy in `metrics.targets` (`> N`: none of the N\n"
                           "rounds did), megabytes uploaded, seconds. Below it, where measured, are the\n"
                           "figures of the clients' own models, communications if they differ from rounds,\n"
                           "simulated time, the age of uploads, and how clusters agree with classes.\n"
                           "Progress goes to stderr, the table to stdout. The output folder has, beside\n"
                           "metrics and model, report.html: the run as a page for a browser.\n"
                           "\n"
                           "The first Ctrl-C (or SIGTERM, or SIGHUP) ends the run after the current round\n"
                           "and saves what there is; a second Ctrl-C ends it at once. With checkpoints the\n"
                           "first one writes a checkpoint instead, and `fedloom resume` continues from it.\n"
                           "\n"
                           "`mpirun -n 8 fedloom run FILE` makes one run with eight processes, on one or on\n"
                           "several machines, and gives the same result; docs/cluster.md has more. There\n"
                           "SIGUSR1 ends the run after the current round, as it does in one process, and\n"
                           "Ctrl-C at once.\n"
                           "\n"
                           "A FILE is read once, and may be a pipe: `generate | fedloom run /dev/stdin`.\n"
                           "\n"
                           "options:\n"
                           "  --set KEY=VALUE       overrides a key of the file, may be repeated: seed=7,\n"
                           "                        local.lr=0.1, 'model.hidden=[200, 100]'\n"
                           "  --algorithms A,B,...  runs every file once per method, to compare them; each\n"
                           "                        result goes to its own folder. --set applies to each;\n"
                           "                        algorithm.KEY to those that have such a key\n"
                           "  --output DIR          writes the results to DIR (DIR/NAME with several files,\n"
                           "                        and a folder per method below that)\n"
                           "  --force               replaces an earlier result in that folder\n"
                           "  --checkpoint-every K  saves what is needed to continue, every K rounds, in\n"
                           "                        DIR.checkpoint until the run is finished\n"
                           "  --tensorboard DIR     also writes event files for TensorBoard, to DIR/NAME,\n"
                           "                        when a run has ended\n"
                           "  --threads N           uses N threads (default: as configured, else one\n"
                           "                        per processor); the results do not depend on it\n"
                           "  --quiet               no progress; the table, warnings and errors stay\n"
                           "  --format FORMAT       table, or json: every metric of the last line measured\n"
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

const command cmd_run = {"run",     "runs federations and compares them", help, run,
                         RANKS_ALL, .takes = {TAKES_FILE, TAKES_FILE}};
