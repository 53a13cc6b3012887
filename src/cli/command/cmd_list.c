/* fedloom list: kinds, things and keys, as a table, JSON, Markdown or manual pages. */
#include "cli/cli.h"

#include <string.h>

/* ---- manual page ------------------------------------------------------------------------------------------------- */

/* The manual page fedloom(1), made from the texts of `fedloom help`: the overview, and the help of every command.
 *
 * It relies on a few conventions of the help: empty lines separate paragraphs; the one that begins with "usage:" and
 * indented lines are set unchanged; but below "options:" a line is a name, two or more spaces and its meaning, whose
 * further lines are indented deeper. */

enum { OPTION_INDENT = 2 };

/* Prints n characters, none as a request or an escape. Text in `backticks` is set bold. */
static void put_text(const char *s, size_t n)
{
    int bold = 0;
    if (n && (*s == '.' || *s == '\'')) fputs("\\&", stdout);
    for (size_t i = 0; i < n; i++) switch (s[i]) {
        case '`':
            bold = !bold;
            fputs(bold ? "\\fB" : "\\fR", stdout);
            break;
        case '\\': fputs("\\e", stdout); break;
        case '-': fputs("\\-", stdout); break;
        case '\'': fputs("\\(aq", stdout); break;
        case '^': fputs("\\(ha", stdout); break;
        case '~': fputs("\\(ti", stdout); break;
        default: putchar(s[i]);
        }
    if (bold) fputs("\\fR", stdout);
}

static size_t indent_of(const char *line) { return strspn(line, " "); }

/* One line of "options:": the name and the first words, or more words. */
static void put_option_line(const char *line, size_t n)
{
    size_t indent = indent_of(line);
    const char *gap = strstr(line + indent, "  ");
    if (indent == OPTION_INDENT && gap && gap < line + n) {
        fputs(".TP\n\\fB", stdout);
        put_text(line + indent, (size_t)(gap - line) - indent);
        fputs("\\fR\n", stdout);
        indent = (size_t)(gap - line) + indent_of(gap);
    }
    put_text(line + indent, n - indent);
    putchar('\n');
}

typedef enum { PROSE, VERBATIM, OPTIONS } setting;

/* One paragraph, line by line; prose is filled, indented lines are not. */
static void put_block(const char *s, size_t size)
{
    setting now = PROSE, indented = strncmp(s, "options:", 8) ? VERBATIM : OPTIONS;
    int usage = !strncmp(s, "usage:", 6);
    fputs(".PP\n", stdout);
    for (const char *end = s + size; s < end;) {
        size_t n = strcspn(s, "\n");
        setting next = usage ? VERBATIM : *s == ' ' ? indented : PROSE;
        if (next == VERBATIM && now != VERBATIM) fputs(".nf\n", stdout);
        if (next != VERBATIM && now == VERBATIM) fputs(".fi\n", stdout);
        now = next;
        if (now == OPTIONS)
            put_option_line(s, n);
        else {
            put_text(s, n);
            putchar('\n');
        }
        s += n + 1;
    }
    if (now == VERBATIM) fputs(".fi\n", stdout);
}

/* The length of the paragraph at s, its last line break included. */
static size_t block_size(const char *s)
{
    const char *end = strstr(s, "\n\n");
    return end ? (size_t)(end - s) + 1 : strlen(s);
}

static void put_blocks(const char *s)
{
    while (*(s += strspn(s, "\n"))) {
        size_t n = block_size(s);
        put_block(s, n);
        s += n;
    }
}

/* Prints the manual page fedloom(1), made from the overview and all help texts. */
static void print_manual(void)
{
    fputs(".\\\" Printed by `fedloom list --man 1`; `make docs` renews it.\n"
          ".TH FEDLOOM 1 \"\" \"fedloom " FL_VERSION "\" \"User Commands\"\n"
          ".SH NAME\n"
          "fedloom \\- a federated optimisation engine\n"
          ".SH SYNOPSIS\n"
          ".B fedloom\n"
          ".I COMMAND\n"
          "\\&...\n"
          ".SH DESCRIPTION\n",
          stdout);
    put_text(overview_text, strlen(overview_text));
    put_blocks(overview_end);
    fputs(".SH COMMANDS\n", stdout);
    for (size_t i = 0; command_at(i); i++) {
        printf(".SS %s\n", command_at(i)->name);
        put_text(command_at(i)->summary, strlen(command_at(i)->summary));
        putchar('\n');
        put_blocks(command_at(i)->help);
    }
    fputs(".SH SEE ALSO\n.BR fedloom\\-config (5)\n", stdout);
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

/* The options. */
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
    print_manual();
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
