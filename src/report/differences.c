/* The settings of the series: a table of those that differ, and a list of those that are the same for all.
 *
 * A resolved configuration is YAML in a fixed form: "key: value", with sections indented by two more spaces. So the
 * file is read line by line. */
#include "report/internal.h"

#include "base/number.h"

#include <string.h>

enum { DEEP = 4, NAME_LEN = 48, PATH_LEN = DEEP * (NAME_LEN + 1) };
enum { SIDE_BY_SIDE = 50 }; /* a table of more columns is useless, and slow to make */

typedef struct {
    char path[PATH_LEN]; /* "local.lr" */
    const char *value;
    size_t length; /* of the value */
} setting;

/* The settings of one series. */
typedef struct {
    setting *at;
    size_t n;
} settings;

/* ---- reading ------------------------------------------------------------------------------------------- */

static void join(char *path, char names[DEEP][NAME_LEN], size_t depth)
{
    size_t n = 0;
    for (size_t i = 0; i <= depth; i++)
        n += (size_t)fli_snprintf(path + n, PATH_LEN - n, "%s%s", i ? "." : "", names[i]);
}

static size_t lines_of(const char *text)
{
    size_t n = 1;
    for (; *text; text++) n += *text == '\n';
    return n;
}

static fl_status read_settings(fl_ctx *ctx, const char *text, settings *out)
{
    char names[DEEP][NAME_LEN] = {{0}}; /* the open sections, and the key */
    out->at = fli_alloc(ctx, lines_of(text), sizeof *out->at);
    if (!out->at) return FL_ENOMEM;
    for (size_t n; *text; text += n + (text[n] == '\n')) {
        size_t indent = strspn(text, " ");
        n = strcspn(text, "\n");
        const char *colon = memchr(text, ':', n);
        if (!colon || indent / 2 >= DEEP || colon < text + indent) continue;
        fli_snprintf(names[indent / 2], NAME_LEN, "%.*s", (int)(colon - text - (long)indent), text + indent);
        const char *value = colon + 1 + strspn(colon + 1, " ");
        if (value >= text + n) continue; /* a section begins */
        setting *s = &out->at[out->n++];
        *s = (setting){.value = value, .length = (size_t)(text + n - value)};
        join(s->path, names, indent / 2);
    }
    return FL_OK;
}

/* Configurations have nearly the same lines, so the search for a setting starts near its index in another one. */
static const setting *find(const settings *s, const char *path, size_t near)
{
    for (size_t i = 0; i < s->n; i++) {
        const setting *at = &s->at[(near + i) % s->n];
        if (!strcmp(at->path, path)) return at;
    }
    return NULL;
}

/* ---- comparing ----------------------------------------------------------------------------------------- */

/* The names of a run and of its folders are no settings of the method. */
static int is_setting(const char *path)
{
    static const char *const names[] = {"name", "output", "seed", "threads", "checkpoint_every"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(path, names[i])) return 0;
    return 1;
}

static int same(const setting *a, const setting *b)
{
    return a && b && a->length == b->length && !strncmp(a->value, b->value, a->length);
}

/* True if setting i of series k is the same in all series; *first: no earlier series has it. */
static int is_shared(const settings *all, size_t count, size_t k, size_t i, int *first)
{
    int shared = 1;
    *first = 1;
    for (size_t j = 0; j < count; j++) {
        const setting *other = find(&all[j], all[k].at[i].path, i);
        if (other && j < k) *first = 0;
        shared &= same(&all[k].at[i], other);
    }
    return shared;
}

/* ---- writing ------------------------------------------------------------------------------------------- */

static void add_row(fli_text *t, const fli_report *r, const settings *all, const char *path, size_t near)
{
    fli_text_add(t, "<tr><th scope=\"row\">");
    fli_markup_text(t, path);
    fli_text_add(t, "</th>");
    for (size_t k = 0; k < r->count; k++) {
        const setting *s = find(&all[k], path, near);
        fli_text_add(t, "<td data-label=\"");
        fli_markup_text(t, r->series[k].label);
        fli_text_add(t, "\">");
        if (s)
            fli_markup_some(t, s->value, s->length);
        else
            fli_text_add(t, "\xe2\x80\x93");
        fli_text_add(t, "</td>");
    }
    fli_text_add(t, "</tr>\n");
}

static void add_head(fli_text *t, const fli_report *r)
{
    fli_text_add(t, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" "
                    "aria-labelledby=\"settings\"><table>\n<thead><tr><th scope=\"col\">setting</th>");
    for (size_t k = 0; k < r->count; k++) {
        fli_text_add(t, "<th scope=\"col\">");
        fli_markup_text(t, r->series[k].label);
        fli_text_add(t, "</th>");
    }
    fli_text_add(t, "</tr></thead>\n<tbody>\n");
}

static void add_differences(fli_text *t, const fli_report *r, const settings *all)
{
    size_t some = 0;
    for (size_t k = 0; k < r->count; k++)
        for (size_t i = 0; i < all[k].n; i++) {
            int first, shared = is_shared(all, r->count, k, i, &first);
            if (shared || !first || !is_setting(all[k].at[i].path)) continue;
            if (!some++) add_head(t, r);
            add_row(t, r, all, all[k].at[i].path, i);
        }
    fli_text_add(t, some ? "</tbody></table></div>\n" : "<p>All settings are the same.</p>\n");
}

static void add_shared(fli_text *t, const fli_report *r, const settings *all)
{
    int first;
    fli_text_addf(t, "<details data-key=\"shared\"><summary id=\"shared\">%s</summary><pre tabindex=\"0\">",
                  r->count > 1 ? "What is the same for all" : "All settings");
    for (size_t i = 0; i < all[0].n; i++) {
        const setting *s = &all[0].at[i];
        if (r->count > 1 && (!is_setting(s->path) || !is_shared(all, r->count, 0, i, &first))) continue;
        fli_markup_text(t, s->path);
        fli_text_add(t, ": ");
        fli_markup_some(t, s->value, s->length);
        fli_text_add(t, "\n");
    }
    fli_text_add(t, "</pre></details>\n");
}

fl_status fli_differences_html(fli_text *t, const fli_report *r)
{
    fl_status status = FL_OK;
    if (!r->count || !r->series[0].config || !r->series[0].config[0] || r->count > SIDE_BY_SIDE) return FL_OK;
    settings *all = fli_alloc(t->ctx, r->count, sizeof *all);
    if (!all) return FL_ENOMEM;
    for (size_t k = 0; k < r->count && !status; k++)
        status = read_settings(t->ctx, r->series[k].config ? r->series[k].config : "", &all[k]);
    if (!status) {
        fli_text_addf(t, "<section class=\"configs\" aria-labelledby=\"settings\">\n<h2 id=\"settings\">%s</h2>\n",
                      r->count > 1 ? "What differs between the configurations" : "Settings");
        if (r->count > 1) add_differences(t, r, all);
        add_shared(t, r, all);
        fli_text_add(t, "</section>\n");
    }
    for (size_t k = 0; k < r->count; k++) fli_free(all[k].at);
    fli_free(all);
    return status;
}
