/* The reference as the manual page fedloom-config(5), in the man macros. */
#include "describe/reference.h"
#include "base/number.h"

/* Text for a line of its own: nothing in it is a request or an escape. What stands in `backticks` is set bold. */
static void add_text(fli_text *t, const char *s)
{
    int bold = 0;
    if (*s == '.' || *s == '\'') fli_text_add(t, "\\&");
    for (; *s; s++) switch (*s) {
        case '`':
            bold = !bold;
            fli_text_add(t, bold ? "\\fB" : "\\fR");
            break;
        case '\\': fli_text_add(t, "\\e"); break;
        case '-': fli_text_add(t, "\\-"); break;
        case '\'': fli_text_add(t, "\\(aq"); break;
        case '^': fli_text_add(t, "\\(ha"); break;
        case '~': fli_text_add(t, "\\(ti"); break;
        case '\n': fli_text_add(t, s[1] == '.' || s[1] == '\'' ? "\n\\&" : "\n"); break;
        default: fli_text_addn(t, s, 1);
        }
}

static void begin(fli_text *t)
{
    fli_text_add(t, ".\\\" Printed by `fedloom list --man 5`; `make docs` renews it.\n"
                    ".TH FEDLOOM\\-CONFIG 5 \"\" \"fedloom " FL_VERSION "\" \"File Formats\"\n"
                    ".SH NAME\n"
                    "fedloom\\-config \\- the configuration of a federation\n"
                    ".SH DESCRIPTION\n"
                    "A configuration is a YAML file: keys at the top and in sections.\n"
                    "On the command line,\n"
                    ".B \\-\\-set section.key=value\n"
                    "overrides a key of the file.\n"
                    ".B section: NAME\n"
                    "is short for\n"
                    ".BR \"section: {kind: NAME}\" .\n"
                    ".B fedloom config FILE\n"
                    "shows a file with every default filled in.\n");
}

static void end(fli_text *t) { fli_text_add(t, ".SH SEE ALSO\n.BR fedloom (1)\n"); }

/* Parts are set in capitals, as manual pages do. */
static void heading(fli_text *t, int level, const char *text)
{
    fli_text_add(t, level == 1 ? ".SH " : ".SS ");
    for (; *text; text++) {
        char c = level == 1 ? fli_upper(*text) : *text;
        if (c == '-') fli_text_add(t, "\\");
        fli_text_addn(t, &c, 1);
    }
    fli_text_add(t, "\n");
}

static void paragraph(fli_text *t, const char *text)
{
    add_text(t, text);
    fli_text_add(t, "\n");
}

static void facts_begin(fli_text *t) { (void)t; }

static void fact(fli_text *t, const char *label, const char *text)
{
    fli_text_add(t, ".br\n");
    add_text(t, label);
    fli_text_add(t, ": ");
    add_text(t, text);
    fli_text_add(t, "\n");
}

static void example(fli_text *t, const char *lines)
{
    fli_text_add(t, ".PP\n.nf\n");
    add_text(t, lines);
    fli_text_add(t, ".fi\n");
}

static void keys_begin(fli_text *t) { (void)t; }

static void key(fli_text *t, const fli_key *row)
{
    fli_text type;
    fli_text_init(&type, t->ctx);
    fli_key_print_type(&type, row);
    fli_text_addf(t, ".TP\n.B %s\n", row->name);
    add_text(t, row->help);
    fli_text_add(t, "\n.br\n");
    add_text(t, fli_text_get(&type));
    fli_text_add(t, row->def ? "; default: " : "; ");
    add_text(t, fli_reference_default(row));
    fli_text_add(t, "\n");
    if (fli_text_ok(&type)) t->failed = 1;
    fli_text_fini(&type);
}

static void keys_end(fli_text *t) { (void)t; }

const fli_reference_style fli_reference_man = {
    .begin = begin,
    .end = end,
    .heading = heading,
    .paragraph = paragraph,
    .facts_begin = facts_begin,
    .fact = fact,
    .example = example,
    .keys_begin = keys_begin,
    .key = key,
    .keys_end = keys_end,
};
