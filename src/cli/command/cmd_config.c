/* fedloom config: checks a configuration and shows it resolved. */
#include "cli/cli.h"

static int run(int argc, char **argv)
{
    words plain = {0}, sets = {0};
    fl_ctx *ctx = NULL;
    fl_config *cfg = NULL;
    fl_status s;
    const option options[] = {{"--set", OPT_WORDS, &sets, TAKES_SETTING}, {0}};
    int code = args_parse("config", options, argc, argv, &plain);
    if (!code && plain.n != 1) code = say_usage("config", plain.n ? "give one FILE" : "which FILE?");
    if (!code && !(ctx = fl_ctx_new())) {
        say("out of memory");
        code = CLI_FAILED;
    }
    if (!code) code = settings_open(ctx, plain.v[0], &sets, &cfg);
    if (!code && (s = fl_config_print(cfg, say_out, NULL))) {
        say_error(ctx);
        code = settings_exit(s);
    }
    fl_config_free(cfg);
    fl_ctx_free(ctx);
    args_free(&plain);
    args_free(&sets);
    return code;
}

static const char help[] = "usage: fedloom config FILE [--set KEY=VALUE ...]\n"
                           "\n"
                           "Checks a configuration without loading any data, and prints it resolved: every\n"
                           "key with the value it has after defaults, file and --set. What is printed is a\n"
                           "complete configuration itself. All problems are reported at once, with line\n"
                           "and column.\n"
                           "\n"
                           "options:\n"
                           "  --set KEY=VALUE   overrides a key, as in `fedloom run`; may be repeated\n"
                           "\n"
                           "examples:\n"
                           "  fedloom config first.yaml\n"
                           "  fedloom config first.yaml --set algorithm=scaffold > second.yaml\n"
                           "\n"
                           "exit codes: 0 the configuration is valid, 2 it is not\n";

const command cmd_config = {"config",    "checks a configuration and prints it with every default filled in",
                            help,        run,
                            RANKS_FIRST, .takes = {TAKES_FILE}};
