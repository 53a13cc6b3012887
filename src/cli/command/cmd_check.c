/* fedloom check: whether the method's theory applies to this federation; with --fix, settings for which it does. */
#include "cli/cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    words files, sets;
    const char *output, *data;
    int fix, run, json;
} request;

/* Collects the configuration in memory, so that a file is opened only when the text is complete. */
static void collect(void *arg, const char *text)
{
    char **all = arg;
    if (!(*all = strdup(text))) say("out of memory");
}

static int write_file(const char *path, const char *text)
{
    FILE *f = fopen(path, "w");
    int failed = !f || fputs(text, f) == EOF;
    if (f && fclose(f)) failed = 1;
    if (failed) {
        say("%s: cannot be written", path);
        return CLI_FAILED;
    }
    say_path("wrote ", path);
    return CLI_OK;
}

/* If the configuration goes to stdout, the report goes to stderr. */
static void report_beside(void *unused, const char *text)
{
    (void)unused;
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        n = strcspn(text, "\n");
        if (n) say("%.*s", (int)n, text);
    }
}

/* fl_text_fn: say_out, with coloured verdicts at the beginning of lines. */
static void say_verdicts(void *unused, const char *text)
{
    static const struct {
        const char *word;
        tone tone;
    } verdicts[] = {{"holds ", TONE_GOOD}, {"FAILS ", TONE_BAD}, {"assumed ", TONE_CARE}};
    (void)unused;
    for (size_t n; *text; text += n) {
        n = strcspn(text, "\n") + 1;
        if (!text[n - 1]) n--;
        for (size_t i = 0; i < sizeof verdicts / sizeof *verdicts; i++) {
            size_t word = strlen(verdicts[i].word);
            if (strncmp(text, verdicts[i].word, word)) continue;
            printf("%s%s%s", tone_on(stdout, verdicts[i].tone), verdicts[i].word, tone_off(stdout));
            text += word;
            n -= word;
            break;
        }
        say_some(text, n);
    }
}

static fl_status fix(fl_config *cfg, const request *req, char **text, size_t *left)
{
    fl_study_options options = {.size = sizeof options, .data = req->data};
    fl_text_fn *report = req->output ? say_out : report_beside;
    if (fl_config_is_experiment(cfg)) return fl_study_check(cfg, &options, report, NULL, collect, text, left);
    return fl_check_fix(cfg, report, NULL, collect, text, left);
}

static int write_fixed(fl_ctx *ctx, fl_config *cfg, const request *req)
{
    char *text = NULL;
    size_t left = 0;
    fl_status s = fix(cfg, req, &text, &left);
    int code = settings_exit(s);
    if (s) say_error(ctx);
    if (!code && !text) code = CLI_FAILED;
    if (!code && req->output)
        code = write_file(req->output, text);
    else if (!code)
        say_out(NULL, text);
    free(text);
    return code ? code : left ? CLI_FAILED : CLI_OK;
}

static int check(fl_ctx *ctx, fl_config *cfg, const request *req)
{
    fl_study_options options = {.size = sizeof options, .data = req->data};
    size_t failing;
    fl_ctx_on_log(ctx, say_log, NULL);
    fl_ctx_format(ctx, req->json ? FL_FORMAT_JSON : FL_FORMAT_TEXT);
    if (req->fix) return write_fixed(ctx, cfg, req);
    int experiment = fl_config_is_experiment(cfg);
    if (experiment && req->run) return say_usage("check", "--run is for one configuration, not for an experiment");
    fl_status s = experiment ? fl_study_check(cfg, &options, say_verdicts, NULL, NULL, NULL, &failing)
                  : req->run ? fl_check_run(cfg, say_verdicts, NULL)
                             : fl_check(cfg, say_verdicts, NULL);
    if (s) say_error(ctx);
    return settings_exit(s);
}

static int run(int argc, char **argv)
{
    request req = {0};
    const option options[] = {{"--set", OPT_WORDS, &req.sets, TAKES_SETTING},
                              {"--fix", OPT_FLAG, &req.fix},
                              {"--run", OPT_FLAG, &req.run},
                              {"-o", OPT_TEXT, &req.output, TAKES_FILE},
                              {"--output", OPT_TEXT, &req.output, TAKES_FILE},
                              {"--data", OPT_TEXT, &req.data, TAKES_FOLDER},
                              {"--format", OPT_FORMAT, &req.json},
                              {0}};
    fl_config *cfg = NULL;
    fl_ctx *ctx = fl_ctx_new();
    int code = ctx ? args_parse("check", options, argc, argv, &req.files) : CLI_FAILED;
    if (!code && req.files.n != 1) code = say_usage("check", "give one FILE");
    if (!code && req.output && !req.fix) code = say_usage("check", "-o is for what --fix writes");
    if (!code && req.run && req.fix)
        code = say_usage("check", "--run is for what is checked, and --fix writes a configuration");
    if (!code && req.json && req.fix)
        code = say_usage("check", "--format json is for what is checked, and --fix writes a configuration");
    if (!code) code = settings_open(ctx, req.files.v[0], &req.sets, &cfg);
    if (!code) code = check(ctx, cfg, &req);
    fl_config_free(cfg);
    args_free(&req.files);
    args_free(&req.sets);
    fl_ctx_free(ctx);
    return code;
}

static const char help[] = "usage: fedloom check FILE [--fix [-o OUT] | --run] [--data DIR]\n"
                           "                     [--set KEY=VALUE ...] [--format table|json]\n"
                           "\n"
                           "Measures the clients' smoothness constants L_i and says which conditions of the\n"
                           "method's convergence theorem hold, by how much each fails, what it assumes that\n"
                           "cannot be measured, a setting that would satisfy all conditions and, where they\n"
                           "hold, after how many rounds at most the theorem promises a small gradient. For\n"
                           "linear models L_i holds for every model; for networks it is measured at the\n"
                           "start model, and the verdict says so. Of an experiment it checks every method.\n"
                           "\n"
                           "options:\n"
                           "  --fix             writes a complete configuration that satisfies the\n"
                           "                    conditions, with a comment at every key that was changed:\n"
                           "                    what it was, and which condition asked for another value.\n"
                           "                    It is checked again. Conditions that no setting satisfies\n"
                           "                    are named. Of an experiment it writes the experiment, where\n"
                           "                    what a method has to change is among its own keys.\n"
                           "  --output OUT      where --fix writes it, -o for short; otherwise it goes to\n"
                           "                    stdout, and the messages to stderr\n"
                           "  --run             also runs the configuration, and prints beside that number\n"
                           "                    in which round the gradient was that small\n"
                           "  --data DIR        what ${data} stands for in an experiment; otherwise the\n"
                           "                    environment's FEDLOOM_DATA\n"
                           "  --set KEY=VALUE   overrides a key, as in `fedloom run`; may be repeated\n"
                           "  --format FORMAT   table, or json: the same with all digits\n"
                           "\n"
                           "examples:\n"
                           "  fedloom check federation.yaml\n"
                           "  fedloom check federation.yaml --set algorithm=fedvra --set local.lr=0.01\n"
                           "  fedloom check federation.yaml --fix -o by-theory.yaml\n"
                           "  fedloom check by-theory.yaml --run\n"
                           "\n"
                           "exit codes: 0 the check was made, and with --fix: all conditions hold now; 1 it\n"
                           "failed, or conditions are left that no setting satisfies; 2 the configuration\n"
                           "is not valid\n";

const command cmd_check = {
    "check", "which conditions of the method's theorem hold here", help, run, RANKS_FIRST, .takes = {TAKES_FILE}};
