/* fl_reference: every kind, every thing, every key, from the tables that the parser reads. docs/reference.md and the
 * manual page are printed by it, so they cannot say anything else than the program does. */
#include "describe/reference.h"

#include "config/registry.h"
#include "describe/list.h"
#include "run/run.h"
#include "config/settings.h"

#include <string.h>

typedef struct {
    fl_ctx *ctx;
    fli_text *t;
    const fli_reference_style *style;
} page;

const char *fli_reference_default(const fli_key *row)
{
    return !row->def ? "must be given" : *row->def ? row->def : "none";
}

static void add_keys(const page *p, const fli_key *rows)
{
    for (const fli_key *row = rows; row && row->name; row++) p->style->key(p->t, row);
}

/* The key `kind` as a row like any other: one of the things there are. */
static fl_status add_kind_key(const page *p, const fli_section *s)
{
    fli_text words;
    fli_item item;
    fli_text_init(&words, p->ctx);
    for (size_t i = 0; s->kind->item(i, &item) && !item.own; i++)
        fli_text_addf(&words, "%s%s", i ? "|" : "", item.name);
    fli_key row = {"kind", FLI_CHOICE, 0, s->fallback, 0, 0, fli_text_get(&words), s->kind->title};
    fl_status status = fli_text_ok(&words);
    if (!status) p->style->key(p->t, &row);
    fli_text_fini(&words);
    return status;
}

static fl_status add_settings(const page *p)
{
    fl_status status = FL_OK;
    fli_section s;
    p->style->heading(p->t, 1, "settings");
    p->style->paragraph(p->t,
                        "The keys that do not depend on a choice. A section whose `kind` is chosen also takes the "
                        "keys of that kind.");
    for (size_t i = 0; !status && fli_settings_section(i, &s); i++) {
        p->style->heading(p->t, 2, *s.name ? s.name : s.title);
        if (*s.name) p->style->paragraph(p->t, s.title);
        p->style->keys_begin(p->t);
        if (s.kind) status = add_kind_key(p, &s);
        add_keys(p, s.keys);
        p->style->keys_end(p->t);
    }
    return status;
}

/* fli_fact_fn */
static void add_fact(void *arg, const char *label, const char *text)
{
    const page *p = arg;
    p->style->fact(p->t, label, text);
}

static fl_status add_facts(const page *p, const fli_item *item)
{
    page copy = *p;
    p->style->facts_begin(p->t);
    return fli_list_facts(p->ctx, item, add_fact, &copy);
}

static fl_status add_example(const page *p, const fli_kind *kind, const fli_item *item)
{
    fli_text lines;
    fli_text_init(&lines, p->ctx);
    fli_list_example(&lines, kind, item);
    fl_status status = fli_text_ok(&lines);
    if (!status) p->style->example(p->t, fli_text_get(&lines));
    fli_text_fini(&lines);
    return status;
}

static fl_status add_item(const page *p, const fli_kind *kind, const fli_item *item)
{
    char *name = fli_strf(p->ctx, "%s: %s", kind->section, item->name);
    if (!name) return FL_ENOMEM;
    p->style->heading(p->t, 2, name);
    fli_free(name);
    p->style->paragraph(p->t, item->title);
    fl_status status = add_facts(p, item);
    if (!status) status = add_example(p, kind, item);
    if (status || !item->keys || !item->keys->name) return status;
    p->style->keys_begin(p->t);
    add_keys(p, item->keys);
    p->style->keys_end(p->t);
    return FL_OK;
}

static fl_status add_kind(const page *p, const fli_kind *kind)
{
    fl_status status = FL_OK;
    fli_item item;
    p->style->heading(p->t, 1, kind->plural);
    p->style->paragraph(p->t, kind->title);
    for (size_t i = 0; !status && kind->item(i, &item) && !item.own; i++) status = add_item(p, kind, &item);
    return status;
}

static void add_columns(const page *p)
{
    size_t k = 0;
    p->style->heading(p->t, 1, "columns");
    p->style->paragraph(p->t, "What a line of `metrics.csv` and `metrics.jsonl` says; empty or null where it was not "
                              "measured or does not exist.");
    p->style->facts_begin(p->t);
    for (const fl_metric *m; k < fli_metrics_count() && (m = fl_metric_at(k)); k++)
        p->style->fact(p->t, m->name, m->help);
}

fl_status fl_reference(fl_ctx *ctx, fl_reference_format format, fl_text_fn *out, void *arg)
{
    static const fli_reference_style *const styles[] = {&fli_reference_markdown, &fli_reference_man};
    fli_text t;
    fli_clear(ctx);
    if ((size_t)format >= sizeof styles / sizeof *styles)
        return fli_fail(ctx, FL_ECONFIG, "there is no format %d of the reference", (int)format);
    fli_text_init(&t, ctx);
    page p = {ctx, &t, styles[format]};
    p.style->begin(&t);
    fl_status s = add_settings(&p);
    for (const fli_kind *kind = fli_kinds; !s && kind->section; kind++) s = add_kind(&p, kind);
    fli_reference_notes(&t, p.style);
    add_columns(&p);
    p.style->end(&t);
    if (!s) s = fli_text_ok(&t);
    if (!s) out(arg, fli_text_get(&t));
    fli_text_fini(&t);
    return s;
}
