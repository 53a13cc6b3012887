/* What was tried, as a picture. */
#include "study/tune.h"

#include "base/number.h"
#include "report/panels.h"
#include "study/variants.h"

#include <math.h>
#include <string.h>

/* Which of the panel's words a text is; NaN: none of them. */
static double choice_of(const fli_panel *p, const char *text)
{
    for (size_t k = 0; k < p->word_count; k++)
        if (!strcmp(p->words[k], text)) return (double)k;
    return NAN;
}

static fl_status x_of(fl_tune *t, const fli_contest *c, const fli_candidate *k, const fli_panel *p, double *out)
{
    char *end;
    fli_text text;
    fli_text_init(&text, t->ctx);
    fli_candidate_value(c, k, p->x_title, &text);
    *out = fli_strtod(fli_text_get(&text), &end);
    if (*end || !text.n || (p->log && !(*out > 0))) *out = NAN;
    if (p->words) *out = choice_of(p, fli_text_get(&text));
    fl_status s = fli_text_ok(&text);
    fli_text_fini(&text);
    return s;
}

static double y_of(const fl_tune *t, const fli_candidate *k)
{
    const fli_stat *st = t->goal.cost ? &k->score.cost : &k->score.value;
    return st->n && !k->score.failed ? st->mean : NAN;
}

static fl_status words_of(fl_tune *t, fli_arena *a, const fli_span *r, fli_panel *out)
{
    const char **words = fli_arena_alloc(a, r->count, sizeof *words);
    if (!words) return FL_ENOMEM;
    for (const fli_node *v = r->values->first; v; v = v->next) {
        fli_text text;
        fli_text_init(&text, t->ctx);
        fli_value_words(&text, v);
        const char *word = text.failed ? NULL : fli_arena_strdup(a, fli_text_get(&text));
        fli_text_fini(&text);
        if (!word) return FL_ENOMEM;
        words[out->word_count++] = word;
    }
    out->words = words;
    return FL_OK;
}

static fl_status make_panel(fl_tune *t, fli_arena *a, const fli_contest *c, const fli_span *r, fli_panel *out)
{
    fli_spot *dots = fli_arena_alloc(a, c->count, sizeof *dots);
    if (!dots) return FL_ENOMEM;
    *out = (fli_panel){.title = c->method->label, .x_title = r->key, .from = r->from, .to = r->to, .log = r->log};
    fl_status s = r->values ? words_of(t, a, r, out) : FL_OK;
    for (size_t i = 0; i < c->count && !s; i++) {
        const fli_candidate *k = &c->candidates[i];
        dots[i] = (fli_spot){.y = y_of(t, k), .rung = k->rung};
        dots[i].mark = k->standing == 1 ? FLI_SPOT_WINNER : i ? FLI_SPOT_PLAIN : FLI_SPOT_OWN;
        s = x_of(t, c, k, out, &dots[i].x);
    }
    out->dots = dots;
    out->count = c->count;
    return s;
}

fl_status fli_tune_picture(fl_tune *t, fli_arena *a, fli_text *out)
{
    fl_status s = FL_OK;
    fli_text goal;
    fli_panels p = {.title = t->x.name, .seeds = t->seeds_at, .rungs = t->rungs};
    p.y = t->goal.cost ? &t->goal.cost->is : &t->goal.value->is;
    for (size_t i = 0; i < t->x.method_count; i++)
        if (t->contests[i].range_count > p.columns) p.columns = t->contests[i].range_count;
    p.count = t->x.method_count * p.columns;
    fli_panel *panels = fli_arena_alloc(a, p.count, sizeof *panels);
    if (!panels) return FL_ENOMEM;
    for (size_t i = 0; i < t->x.method_count; i++)
        for (size_t j = 0; j < t->contests[i].range_count && !s; j++)
            s = make_panel(t, a, &t->contests[i], &t->contests[i].ranges[j], &panels[i * p.columns + j]);
    p.panels = panels;
    fli_text_init(&goal, t->ctx);
    fli_goal_words(&goal, &t->goal);
    p.y_title = fli_text_get(&goal);
    if (!s) s = fli_text_ok(&goal);
    if (!s) s = fli_panels_svg(out, &p);
    fli_text_fini(&goal);
    return s;
}
