/* The reference as Markdown (GitHub's tables). */
#include "describe/reference.h"
#include "base/number.h"

/* Text whose special characters mean themselves; what stands in `backticks` is code, as it is. */
static void add_text(fli_text *t, const char *s)
{
    int code = 0;
    for (; *s; s++) {
        if (*s == '`')
            code = !code;
        else if (*s == '|' || (!code && (*s == '*' || *s == '\\' || *s == '[' || *s == ']')))
            fli_text_add(t, "\\");
        if (*s == '<' && !code)
            fli_text_add(t, "&lt;");
        else
            fli_text_addn(t, s, 1);
    }
}

static void begin(fli_text *t)
{
    fli_text_add(
        t, "# Reference\n\n"
           "Everything a configuration can say. A configuration is a YAML file; keys of a section are written "
           "below it or, with\n"
           "`--set section.key=value`, on the command line. `section: NAME` is short for `section: {kind: NAME}`. "
           "`fedloom config FILE` shows a file\n"
           "with every default filled in.\n\n"
           "This page is printed by `fedloom list --markdown` from the tables that the program itself reads; "
           "`make docs` renews it.\n");
}

static void end(fli_text *t) { (void)t; }

/* One empty line before what comes next, not two. */
static void gap(fli_text *t)
{
    if (t->n > 1 && t->s[t->n - 2] != '\n') fli_text_add(t, "\n");
}

static void heading(fli_text *t, int level, const char *text)
{
    char first[2] = {level == 1 ? fli_upper(*text) : *text, 0};
    gap(t);
    fli_text_addf(t, "%s %s", level == 1 ? "##" : "###", first);
    add_text(t, text + 1);
    fli_text_add(t, "\n");
}

static void paragraph(fli_text *t, const char *text)
{
    gap(t);
    add_text(t, text);
    fli_text_add(t, "\n");
}

static void fact(fli_text *t, const char *label, const char *text)
{
    fli_text_addf(t, "- %s: ", label);
    add_text(t, text);
    fli_text_add(t, "\n");
}

static void example(fli_text *t, const char *lines)
{
    gap(t);
    fli_text_addf(t, "```yaml\n%s```\n", lines);
}

static void keys_begin(fli_text *t)
{
    gap(t);
    fli_text_add(t, "| key | type and range | default | meaning |\n|---|---|---|---|\n");
}

static void key(fli_text *t, const fli_key *row)
{
    fli_text type;
    fli_text_init(&type, t->ctx);
    fli_key_print_type(&type, row);
    fli_text_addf(t, "| `%s` | ", row->name);
    add_text(t, fli_text_get(&type));
    fli_text_addf(t, row->def && *row->def ? " | `%s` | " : " | %s | ", fli_reference_default(row));
    add_text(t, row->help);
    fli_text_add(t, " |\n");
    if (fli_text_ok(&type)) t->failed = 1;
    fli_text_fini(&type);
}

static void keys_end(fli_text *t) { (void)t; }

const fli_reference_style fli_reference_markdown = {
    .begin = begin,
    .end = end,
    .heading = heading,
    .paragraph = paragraph,
    .facts_begin = gap,
    .fact = fact,
    .example = example,
    .keys_begin = keys_begin,
    .key = key,
    .keys_end = keys_end,
};
