/* fedloom check: does the method's theory apply to this federation? */
#include "cli.h"

static int run(int argc, char **argv)
{
    words files = {0}, sets = {0};
    const option options[] = {{"--set", OPT_WORDS, &sets}, {0}};
    fl_config *cfg = NULL;
    fl_ctx *ctx = fl_ctx_new();
    int code = ctx ? args_parse("check", options, argc, argv, &files) : CLI_FAILED;
    if (!code && files.n != 1) code = say_usage("check", "give one FILE");
    if (!code) code = settings_open(ctx, files.v[0], &sets, &cfg);
    if (!code) {
        fl_ctx_on_log(ctx, say_log, NULL);
        fl_status s = fl_check(cfg, say_out, NULL);
        if (s) say_error(ctx);
        code = settings_exit(s);
    }
    fl_config_free(cfg);
    args_free(&files);
    args_free(&sets);
    fl_ctx_free(ctx);
    return code;
}

static const char help[] = "usage: fedloom check FILE [--set KEY=VALUE ...]\n"
                           "\n"
                           "Measures the clients' smoothness constants L_i at the start model and says\n"
                           "which step-size conditions of the method's convergence theorem hold, by how\n"
                           "much each fails, what it assumes that cannot be measured, and a setting that\n"
                           "would satisfy all conditions.\n"
                           "\n"
                           "examples:\n"
                           "  fedloom check federation.yaml\n"
                           "  fedloom check federation.yaml --set algorithm=fedvra --set local.lr=0.01\n";

const command cmd_check = {"check", "which conditions of the method's theorem hold here", help, run};
