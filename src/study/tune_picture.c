/* What was tried, as a picture. */
#include "study/tune.h"

#include "base/number.h"
#include "report/panels.h"
#include "study/variants.h"

#include <math.h>
#include <string.h>

/* Which of a range's values a candidate has; NaN: none of them. */
static double choice_of(const fli_span *r, const char *text, fl_ctx *ctx)
{
    double at = NAN, k = 0;
    for (const fli_node *v = r->values->first; v; v = v->next, k++) {
        fli_text words;
        fli_text_init(&words, ctx);
        fli_value_words(&words, v);
        if (isnan(at) && !strcmp(fli_text_get(&words), text)) at = k;
        fli_text_fini(&words);
    }
    return at;
}

static double x_of(const fl_tune *t, const fli_contest *c, const fli_candidate *k, const fli_span *r)
{
    char *end;
    fli_text text;
    fli_text_init(&text, t->ctx);
    fli_candidate_value(c, k, r->key, &text);
    double x = r->values ? choice_of(r, fli_text_get(&text), t->ctx) : fli_strtod(fli_text_get(&text), &end);
    if (!r->values && (*end || !text.n || (r->log && !(x > 0)))) x = NAN;
    fli_text_fini(&text);
    return x;
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
        words[out->word_count++] = fli_arena_strdup(a, fli_text_get(&text));
        fli_text_fini(&text);
        if (!words[out->word_count - 1]) return FL_ENOMEM;
    }
    out->words = words;
    return FL_OK;
}

static fl_status make_panel(fl_tune *t, fli_arena *a, const fli_contest *c, const fli_span *r, fli_panel *out)
{
    fli_spot *dots = fli_arena_alloc(a, c->count, sizeof *dots);
    if (!dots) return FL_ENOMEM;
    *out = (fli_panel){.title = c->method->label, .x_title = r->key, .from = r->from, .to = r->to, .log = r->log};
    for (size_t i = 0; i < c->count; i++) {
        const fli_candidate *k = &c->candidates[i];
        fli_spot_mark mark = k->standing == 1 ? FLI_SPOT_WINNER : i ? FLI_SPOT_PLAIN : FLI_SPOT_OWN;
        dots[i] = (fli_spot){x_of(t, c, k, r), y_of(t, k), k->rung, mark};
    }
    out->dots = dots;
    out->count = c->count;
    return r->values ? words_of(t, a, r, out) : FL_OK;
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
