/* fedloom tune: the best settings of every method, within the same budget. */
#include "cli/cli.h"

#include <string.h>

typedef struct {
    fl_tune_options options;
    fl_study_options study;
    words sets;
    const char *algorithms;
    int quiet, json;
} request;

/* "a,b" becomes "methods=[{algorithm: a}, {algorithm: b}]". */
static fl_status choose_methods(fl_config *cfg, const char *names)
{
    char text[4096] = "methods=[";
    for (size_t n; *names; names += n + (names[n] == ',')) {
        size_t used = strlen(text);
        n = strcspn(names, ",");
        snprintf(text + used, sizeof text - used, "{algorithm: '%.*s'}%s", (int)n, names, names[n] ? ", " : "");
    }
    size_t used = strlen(text);
    snprintf(text + used, sizeof text - used, "]");
    return fl_config_set(cfg, text);
}

static int tune(const char *file, const request *req)
{
    fl_config *cfg = NULL;
    fl_ctx *ctx = fl_ctx_new();
    if (!ctx) {
        say("out of memory");
        return CLI_FAILED;
    }
    fl_ctx_on_log(ctx, req->quiet ? say_warning : say_log, NULL);
    fl_ctx_format(ctx, req->json ? FL_FORMAT_JSON : FL_FORMAT_TEXT);
    interrupt_install(req->quiet);
    interrupt_context(ctx);
    int code = settings_open(ctx, file, &req->sets, &cfg);
    if (!code && req->algorithms && choose_methods(cfg, req->algorithms)) {
        say_error(ctx);
        code = CLI_USAGE;
    }
    if (!code) code = tuning_run(ctx, cfg, &req->options, req->json ? say_out : say_table, req->quiet, NULL);
    interrupt_context(NULL);
    fl_config_free(cfg);
    fl_ctx_free(ctx);
    return code;
}

static int has_empty_name(const char *list)
{
    size_t n = strlen(list);
    return !n || *list == ',' || list[n - 1] == ',' || strstr(list, ",,") || strpbrk(list, "'\n") || n > 2000;
}

static int run(int argc, char **argv)
{
    request req = {.options = {.size = sizeof req.options, .study = &req.study}, .study.size = sizeof req.study};
    words files = {0};
    fl_study_options *study = &req.study;
    const option options[] = {
        {"--budget", OPT_COUNT, &req.options.budget},
        {"--seeds", OPT_COUNT, &study->seeds},
        {"--jobs", OPT_COUNT, &study->jobs},
        {"--set", OPT_WORDS, &req.sets, TAKES_SETTING},
        {"--algorithms", OPT_TEXT, &req.algorithms, TAKES_METHODS},
        {"--data", OPT_TEXT, &study->data, TAKES_FOLDER},
        {"--output", OPT_TEXT, &study->output, TAKES_FOLDER},
        {"--quick", OPT_FLAG, &study->quick},
        {"--force", OPT_FLAG, &study->force},
        {"--quiet", OPT_FLAG, &req.quiet},
        {"--format", OPT_FORMAT, &req.json},
        {0},
    };
    int code = args_parse("tune", options, argc, argv, &files);
    if (!code && files.n != 1) code = say_usage("tune", files.n ? "one FILE at a time" : "which FILE?");
    if (!code && req.algorithms && has_empty_name(req.algorithms))
        code = say_usage("tune", "--algorithms is %s, which is not a list of names", req.algorithms);
    if (!code) code = tune(files.v[0], &req);
    args_free(&files);
    args_free(&req.sets);
    return code;
}

static const char help[] = "usage: fedloom tune FILE [--budget N] [--seeds N] [--algorithms A,B,...]\n"
                           "                    [--jobs N] [--set KEY=VALUE ...] [--output DIR]\n"
                           "                    [--data DIR] [--quick] [--force] [--quiet]\n"
                           "                    [--format table|json]\n"
                           "\n"
                           "Finds good step sizes and parameters for every method of an experiment, with\n"
                           "the same budget for each, so that methods can be compared fairly.\n"
                           "\n"
                           "FILE is an experiment as for `fedloom compare`, or a configuration as for\n"
                           "`fedloom run`. It may say what is tried, for all methods or in a method:\n"
                           "\n"
                           "  tune:\n"
                           "    local.lr: {from: 0.001, to: 1, log: true}  # log: evenly over powers of ten\n"
                           "    local.batch: {values: [10, 50]}            # any key that --set takes\n"
                           "    algorithm.mu: fixed                        # not tried\n"
                           "    goal: train_loss                           # what is best; see below\n"
                           "    seeds: 3                                   # tuning seeds\n"
                           "    budget: 20                                 # runs per method\n"
                           "\n"
                           "Beyond that every method has ranges of its own: `fedloom list algorithm NAME`\n"
                           "shows them. A range for all methods holds for those that have such a key.\n"
                           "\n"
                           "The budget counts full-length runs with one seed. The first setting is the\n"
                           "file's own, the others fill the ranges evenly. All of them run with one seed,\n"
                           "the best third goes on to three seeds, a third of those to nine, and so on up\n"
                           "to `seeds`; the file's own setting always goes on beside them. As many\n"
                           "settings are tried as the budget has room for: 20 runs and 3 seeds are 11\n"
                           "settings with one seed, and two more seeds for the best 3 and the file's own.\n"
                           "Tuning seeds begin at the file's seed + 1000000, so nothing is chosen by the\n"
                           "seeds that `fedloom compare` reports.\n"
                           "\n"
                           "The goal is a metric at the end of a run, or what it takes to reach a target:\n"
                           "`rounds to 0.9`, `communications to 0.5 of test_loss`. Without one it is\n"
                           "rounds to the file's highest target, ties and misses by the final value;\n"
                           "without targets the final test accuracy, or else the training loss. Metrics of\n"
                           "the test set are computed on the test samples themselves, since there is no\n"
                           "third set: `goal: train_loss` chooses without them. A setting that diverges is\n"
                           "the worst; a method whose settings all diverge has no winner, which is printed\n"
                           "at the end.\n"
                           "\n"
                           "The output folder (tune in that of `fedloom compare`) receives tried.csv, the\n"
                           "picture tried.svg, METHOD.yaml for each winner (for `fedloom run`), best.yaml\n"
                           "with all of them (for `fedloom compare`), and a result folder per run below\n"
                           "trials/. After Ctrl-C or a kill the same command continues, and ends with the\n"
                           "same winners. Winners of an earlier tuning there are removed, unless they were\n"
                           "changed since; the folder of a comparison is refused.\n"
                           "\n"
                           "options:\n"
                           "  --budget N           runs per method, instead of the file's number\n"
                           "  --seeds N            tuning seeds, instead of the file's number\n"
                           "  --algorithms A,B,... these methods, instead of the file's\n"
                           "  --jobs N             N runs at a time (default: one per processor)\n"
                           "  --set KEY=VALUE      overrides a common key; may be repeated. A range is\n"
                           "                       tune.KEY: --set 'tune.local.lr={from: 0.1, to: 1}'\n"
                           "  --output DIR         where to write\n"
                           "  --data DIR           what ${data} in the file stands for (or set FEDLOOM_DATA)\n"
                           "  --quick              applies the file's `quick` part: a smaller version\n"
                           "  --force              replaces finished runs with other settings or data\n"
                           "  --quiet              no progress; the table, warnings and errors stay\n"
                           "  --format FORMAT      table, or json\n"
                           "\n"
                           "examples:\n"
                           "  fedloom tune examples/tune.yaml\n"
                           "  fedloom tune examples/compare.yaml --budget 30 --output results/tuned\n"
                           "  fedloom run results/tuned/fedprox.yaml\n"
                           "  fedloom compare results/tuned/best.yaml\n"
                           "\n"
                           "exit codes: 0 success, 1 a run failed, 2 wrong usage or configuration, 130\n"
                           "interrupted\n";

const command cmd_tune = {"tune", "finds every method's best settings, with the same budget for each", help, run,
                          .takes = {TAKES_FILE}};
