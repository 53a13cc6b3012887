/* The reference: complete, in every format, and whole or not at all. */
#include "check.h"

#include "base/text.h"
#include "config/registry.h"
#include "config/settings.h"

typedef struct {
    fl_ctx *ctx;
    char *text;
} page;

static void collect(void *arg, const char *text)
{
    page *p = arg;
    assert_null(p->text);
    p->text = strdup(text);
}

static int setup(void **state)
{
    page *p = calloc(1, sizeof *p);
    p->ctx = fl_ctx_new();
    *state = p;
    return 0;
}

static int teardown(void **state)
{
    page *p = *state;
    free(p->text);
    fl_ctx_free(p->ctx);
    free(p);
    return 0;
}

static void load(page *p, fl_reference_format format)
{
    free(p->text);
    p->text = NULL;
    assert_ok(p->ctx, fl_reference(p->ctx, format, collect, p));
}

/* Every row of `keys` stands between `from` and the next thing (`next`), in the order of the table. */
static void has_keys(const char *from, const char *next, const char *shape, const fl_key *keys)
{
    char row[128];
    const char *end = strstr(from + 1, next);
    for (const fl_key *k = keys; k && k->name; k++) {
        snprintf(row, sizeof row, shape, k->name);
        const char *at = strstr(from, row);
        if (!at || (end && at > end)) fail_msg("%s is not in the reference", k->name);
        from = at;
    }
}

/* The formats differ in their headings and rows only. */
static void is_complete(page *p, const char *heading, const char *next, const char *shape)
{
    char text[128];
    fli_item item;
    fli_section s;
    for (const fli_kind *kind = fli_kinds; kind->section; kind++)
        for (size_t i = 0; kind->item(i, &item); i++) {
            snprintf(text, sizeof text, heading, kind->section, ": ", item.name);
            /* headings of the manual escape the hyphen, as in vrl-sgd */
            char *dash = strchr(text, '-');
            if (dash && heading[0] == '.') memmove(dash + 1, dash, strlen(dash) + 1), *dash = '\\';
            const char *at = strstr(p->text, text);
            if (!at) fail_msg("%s is not in the reference", text);
            has_keys(at, next, shape, item.keys);
        }
    for (size_t i = 0; fli_settings_section(i, &s); i++) {
        snprintf(text, sizeof text, heading, *s.name ? s.name : s.title, "", "");
        const char *at = strstr(p->text, text);
        if (!at) fail_msg("%s is not in the reference", text);
        has_keys(at, next, shape, s.keys);
    }
}

static void markdown_is_complete(void **state)
{
    page *p = *state;
    load(p, FL_REFERENCE_MARKDOWN);
    is_complete(p, "### %s%s%s\n", "\n### ", "\n| `%s` | ");
    assert_null(strstr(p->text, "\n\n\n"));
}

/* A table's rows have four cells each: no bar of a formula splits one. */
static void markdown_tables_are_regular(void **state)
{
    page *p = *state;
    load(p, FL_REFERENCE_MARKDOWN);
    size_t rows = 0;
    for (const char *line = p->text; *line; line += strcspn(line, "\n") + 1) {
        size_t bars = 0, n = strcspn(line, "\n");
        if (*line != '|') continue;
        for (size_t i = 0; i < n; i++) bars += line[i] == '|' && (!i || line[i - 1] != '\\');
        if (bars != 5) fail_msg("%.*s", (int)n, line);
        rows++;
    }
    assert_true(rows > 50);
}

static void manual_is_complete(void **state)
{
    page *p = *state;
    load(p, FL_REFERENCE_MAN);
    is_complete(p, ".SS %s%s%s\n", "\n.SS ", "\n.B %s\n");
}

/* A line begins with a control character only where a macro of ours is meant. */
static void manual_has_known_macros_only(void **state)
{
    static const char *const known[] = {".\\\" ", ".TH ",  ".SH ",  ".SS ",  ".B ",  ".BR ",
                                        ".TP\n",  ".br\n", ".PP\n", ".nf\n", ".fi\n"};
    page *p = *state;
    load(p, FL_REFERENCE_MAN);
    for (const char *line = p->text; *line; line += strcspn(line, "\n") + 1) {
        size_t i = 0, n = sizeof known / sizeof *known;
        assert_true(*line != '\'');
        if (*line != '.') continue;
        while (i < n && strncmp(line, known[i], strlen(known[i]))) i++;
        if (i == n) fail_msg("%.40s", line);
    }
}

static void every_allocation_may_fail(void **state)
{
    page *p = *state;
    for (int format = FL_REFERENCE_MARKDOWN; format <= FL_REFERENCE_MAN; format++) {
        fl_status s = FL_ENOMEM;
        free(p->text);
        p->text = NULL;
        for (size_t k = 1; s == FL_ENOMEM && k < 10000; k++) {
            assert_null(p->text);
            fli_ctx_fail_alloc(p->ctx, k);
            s = fl_reference(p->ctx, (fl_reference_format)format, collect, p);
            fli_ctx_fail_alloc(p->ctx, 0);
        }
        assert_int_equal(s, FL_OK);
        assert_non_null(p->text);
    }
    assert_fails(p->ctx, fl_reference(p->ctx, (fl_reference_format)7, collect, p), FL_ECONFIG, "no format 7");
}

/* Kinds of things, and what `list` has beside them. */
static void misspelt_lists(void **state)
{
    page *p = *state;
    assert_fails(p->ctx, fl_list(p->ctx, "algorithsm", NULL, collect, p), FL_ECONFIG, "did you mean algorithms?");
    assert_fails(p->ctx, fl_list(p->ctx, "setings", NULL, collect, p), FL_ECONFIG, "did you mean settings?");
    assert_fails(p->ctx, fl_list(p->ctx, "devises", NULL, collect, p), FL_ECONFIG, "did you mean devices?");
}

#define PAGE(test) cmocka_unit_test_setup_teardown(test, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        PAGE(markdown_is_complete),         PAGE(markdown_tables_are_regular), PAGE(manual_is_complete),
        PAGE(manual_has_known_macros_only), PAGE(every_allocation_may_fail),   PAGE(misspelt_lists),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
