/* fedloom list: what there is. */
#include "cli/cli.h"

/* What the options ask for. */
typedef struct {
    int markdown, json;
    size_t man; /* the manual's section; 0: none */
} request;

/* A whole document instead of a listing. */
static int check_document(const request *r, const words *plain)
{
    if (r->markdown && r->man) return say_usage("list", "give --markdown or --man, not both");
    if (r->json) return say_usage("list", "--format json is for listings, not for %s", r->man ? "--man" : "--markdown");
    if (plain->n)
        return say_usage("list", "%s: with %s everything is listed", plain->v[0], r->man ? "--man" : "--markdown");
    if (r->man && r->man != 1 && r->man != 5) return say_usage("list", "--man is %zu, but must be 1 or 5", r->man);
    return CLI_OK;
}

static fl_status list(fl_ctx *ctx, const request *r, const words *plain)
{
    if (r->markdown) return fl_reference(ctx, FL_REFERENCE_MARKDOWN, say_out, NULL);
    if (r->man == 5) return fl_reference(ctx, FL_REFERENCE_MAN, say_out, NULL);
    fl_ctx_format(ctx, r->json ? FL_FORMAT_JSON : FL_FORMAT_TEXT);
    if (!r->man)
        return fl_list(ctx, plain->n > 0 ? plain->v[0] : NULL, plain->n > 1 ? plain->v[1] : NULL, say_out, NULL);
    manual_print();
    return FL_OK;
}

static int run(int argc, char **argv)
{
    words plain = {0};
    request r = {0};
    fl_ctx *ctx = NULL;
    const option options[] = {{"--markdown", OPT_FLAG, &r.markdown},
                              {"--man", OPT_COUNT, &r.man, TAKES_PAGE},
                              {"--format", OPT_FORMAT, &r.json},
                              {0}};
    int code = args_parse("list", options, argc, argv, &plain);
    if (!code && plain.n > 2) code = say_usage("list", "%s: one argument too many", plain.v[2]);
    if (!code && (r.markdown || r.man)) code = check_document(&r, &plain);
    if (!code && !(ctx = fl_ctx_new())) {
        say("out of memory");
        code = CLI_FAILED;
    }
    if (!code && list(ctx, &r, &plain)) {
        say_error(ctx);
        code = CLI_USAGE;
    }
    args_free(&plain);
    fl_ctx_free(ctx);
    return code;
}

static const char help[] = "usage: fedloom list [KIND [NAME]] [--format table|json]\n"
                           "       fedloom list --markdown | --man 1 | --man 5\n"
                           "\n"
                           "Shows what a configuration can choose from. Without arguments: the kinds of\n"
                           "things there are. With a KIND: all things of that kind. With a NAME as well:\n"
                           "that one, with where it is from, what it needs, what it keeps and sends, how to\n"
                           "select it and every key it takes (type, range, default, meaning).\n"
                           "\n"
                           "options:\n"
                           "  --format FORMAT  table, or json\n"
                           "  --markdown       everything as one page of Markdown\n"
                           "  --man 1          the manual page fedloom(1): the commands\n"
                           "  --man 5          the manual page fedloom-config(5): everything a file can say\n"
                           "\n"
                           "examples:\n"
                           "  fedloom list                         the kinds\n"
                           "  fedloom list algorithms              the federated methods\n"
                           "  fedloom list algorithm scaffold      one of them, with its keys\n"
                           "  fedloom list settings                the keys that do not depend on a choice\n"
                           "  fedloom list devices                 where runs can be computed here\n"
                           "  fedloom list --man 5 | man -l -      the whole reference, to read\n";

const command cmd_list = {"list",      "what there is to choose from: algorithms, models, data, ...",
                          help,        run,
                          RANKS_FIRST, .takes = {TAKES_KIND, TAKES_NAME}};
