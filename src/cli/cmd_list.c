/* fedloom list: what there is. */
#include "cli.h"

static int run(int argc, char **argv)
{
    words plain = {0};
    fl_ctx *ctx = NULL;
    const option options[] = {{0}};
    int code = args_parse("list", options, argc, argv, &plain);
    if (!code && plain.n > 2) code = say_usage("list", "%s: one argument too many", plain.v[2]);
    if (!code && !(ctx = fl_ctx_new())) {
        say("out of memory");
        code = CLI_FAILED;
    }
    if (!code && fl_list(ctx, plain.n > 0 ? plain.v[0] : NULL, plain.n > 1 ? plain.v[1] : NULL, say_out, NULL)) {
        say_error(ctx);
        code = CLI_USAGE;
    }
    args_free(&plain);
    fl_ctx_free(ctx);
    return code;
}

static const char help[] = "usage: fedloom list [KIND [NAME]]\n"
                           "\n"
                           "Shows what a configuration can choose from. Without arguments: the kinds of\n"
                           "things there are. With a KIND: all things of that kind. With a NAME as well:\n"
                           "that one, with where it is from, how to select it and every key it takes\n"
                           "(type, range, default, meaning).\n"
                           "\n"
                           "examples:\n"
                           "  fedloom list                         the kinds\n"
                           "  fedloom list algorithms              the federated methods\n"
                           "  fedloom list algorithm scaffold      one of them, with its keys\n"
                           "  fedloom list settings                the keys that do not depend on a choice\n";

const command cmd_list = {"list", "what there is to choose from: algorithms, models, data, ...", help, run};
