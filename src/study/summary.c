/* Statistics over seeds, and the tables made of them. */
#include "study/study.h"

#include <math.h>
#include <string.h>

/* ---- statistics ---------------------------------------------------------------------------------------- */

void fli_stat_take(fli_stat *st, double v)
{
    if (!isfinite(v)) return;
    double delta = v - st->mean; /* Welford: std holds the sum of squares until fli_stat_finish */
    st->mean += delta / (double)++st->n;
    st->std += delta * (v - st->mean);
}

void fli_stat_finish(fli_stat *st) { st->std = st->n > 1 ? sqrt(st->std / (double)(st->n - 1)) : 0; }

/* As in tables and files: megabytes instead of bytes. */
static void take_row(fli_stat *stats, const fl_row *row)
{
    const fli_metric *m;
    for (size_t k = 0; (m = fli_metric_at(k)); k++)
        fli_stat_take(&stats[k], m->is.unit == FL_UNIT_BYTES ? row->value[k] / 1e6 : row->value[k]);
}

static void finish_all(fli_stat *stats)
{
    for (size_t k = 0; k < FL_METRICS_MAX; k++) fli_stat_finish(&stats[k]);
}

const fli_stat *fli_summary_stat(const fli_summary *row, const fl_metric *metric)
{
    return &row->at_end[fl_metric_place(metric)];
}

static void summarise(const fli_results *r, fli_summary *row)
{
    for (size_t i = row->first; i < r->count; i += fli_results_stride(r)) {
        const fli_outcome *o = &r->outcomes[i];
        row->failed += o->state == FLI_TRIAL_FAILED;
        if (o->state != FLI_TRIAL_DONE || !o->count) continue;
        row->seeds++;
        take_row(row->at_end, &o->rows[o->count - 1]);
    }
    finish_all(row->at_end);
}

/* Compares by the metric of targets, or by the loss if that is unknown. A setting without results loses to one with
 * results, and one with failed runs to one without. */
static int better(const fli_results *r, const fli_summary *a, const fli_summary *b)
{
    const fli_metric *const by[] = {r->goal, &fli_metric_train_loss};
    if (!a->seeds != !b->seeds) return a->seeds > 0;
    if (a->failed != b->failed) return a->failed < b->failed;
    for (size_t i = 0; i < sizeof by / sizeof *by; i++) {
        const fli_stat *first = fli_summary_stat(a, &by[i]->is), *second = fli_summary_stat(b, &by[i]->is);
        if (first->n && second->n) return fl_metric_beats(&by[i]->is, first->mean, second->mean);
    }
    return a->seeds > b->seeds;
}

static void mark_best(const fli_results *r, fli_summary *rows, size_t count)
{
    for (size_t i = 0; i < count;) {
        size_t best = i, j = i;
        for (; j < count && rows[j].method == rows[i].method; j++)
            if (better(r, &rows[j], &rows[best])) best = j;
        rows[best].best = 1;
        i = j;
    }
}

fl_status fli_results_summaries(const fli_results *r, fli_arena *a, fli_summary **out, size_t *count)
{
    size_t n = fli_results_stride(r); /* the first seed's trials stand for the rows */
    *out = fli_arena_alloc(a, n, sizeof **out);
    *count = n;
    if (!*out) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        (*out)[i] = (fli_summary){.method = r->trials[i].method, .setting = r->trials[i].setting, .first = i};
        summarise(r, &(*out)[i]);
    }
    mark_best(r, *out, n);
    return FL_OK;
}

/* The row in which a finished run first reached a target; NULL: it did not. */
static const fl_row *reached_at(const fli_results *r, const fli_outcome *o, double target)
{
    for (size_t k = 0; o->state == FLI_TRIAL_DONE && k < o->count; k++)
        if (fli_metric_reaches(r->goal, fli_row_get(&o->rows[k], r->goal), target)) return &o->rows[k];
    return NULL;
}

size_t fli_results_to_target(const fli_results *r, const fli_summary *row, double target, fli_stat out[FL_METRICS_MAX])
{
    size_t reached = 0;
    memset(out, 0, FL_METRICS_MAX * sizeof *out);
    for (size_t i = row->first; i < r->count; i += fli_results_stride(r)) {
        const fl_row *at = reached_at(r, &r->outcomes[i], target);
        if (!at) continue;
        take_row(out, at);
        reached++;
    }
    finish_all(out);
    return reached;
}

/* ---- the table for a reader ---------------------------------------------------------------------------- */

/* Three significant digits: small models exchange kilobytes, fast devices need milliseconds. */
static int cost_digits(double v) { return v >= 99.5 ? 0 : v >= 9.95 ? 1 : v >= 0.995 ? 2 : 4; }

void fli_target_text(fli_text *t, const fli_results *r, const fli_summary *row, double target, const fl_metric *cost)
{
    fli_stat to[FL_METRICS_MAX];
    size_t reached = fli_results_to_target(r, row, target, to);
    const fli_stat *st = reached ? &to[fl_metric_place(cost)] : fli_summary_stat(row, cost);
    if (!st->n) return;
    if (!reached) fli_text_add(t, "> ");
    fli_text_addf(t, "%.*f", cost->unit == FL_UNIT_COUNT ? 0 : cost_digits(st->mean), st->mean);
    if (reached && reached < row->seeds) fli_text_addf(t, " (%zu/%zu)", reached, row->seeds);
}

void fli_stat_text(fli_text *t, const fli_stat *st, double factor, int digits)
{
    if (!st->n) return;
    fli_text_addf(t, "%.*f", digits, st->mean * factor);
    if (st->n > 1) fli_text_addf(t, " ± %.*f", digits, st->std * factor);
}

/* Numbers without a unit span orders of magnitude. */
static void add_plain(fli_text *t, const fli_stat *st)
{
    if (!st->n) return;
    fli_text_addf(t, "%.4g", st->mean);
    if (st->n > 1) fli_text_addf(t, " ± %.2g", st->std);
}

void fli_stat_words(fli_text *t, const fl_metric *m, const fli_stat *st)
{
    if (m->unit == FL_UNIT_NONE)
        add_plain(t, st);
    else if (m->unit == FL_UNIT_SHARE)
        fli_stat_text(t, st, 100, 2);
    else if (m->unit == FL_UNIT_SCORE)
        fli_stat_text(t, st, 1, 3);
    else if (m->unit == FL_UNIT_COUNT || m->digits)
        fli_stat_text(t, st, 1, m->digits);
    else if (st->n)
        fli_text_addf(t, "%.*f", cost_digits(st->mean), st->mean);
}

/* The cells of a table under construction. */
typedef struct {
    fli_arena *arena;
    const char **cells;
    size_t n;
    fli_text text; /* the cell being written */
    int failed;
} builder;

static void end_cell(builder *b)
{
    b->cells[b->n] = fli_arena_strdup(b->arena, fli_text_get(&b->text));
    b->failed |= !b->cells[b->n] || b->text.failed;
    b->n++;
    b->text.n = 0;
    if (b->text.s) b->text.s[0] = 0;
}

/* A column of the table: of the method, its setting, its seeds, or of a metric. */
typedef enum { METHOD, SETTING, SEEDS, AT_END, TO_TARGET } column_kind;
typedef struct {
    column_kind kind;
    const fl_metric *metric;
    double target;
} column;

/* All columns, and the rows that fill them. */
typedef struct {
    const fli_results *of;
    const fli_summary *rows;
    size_t count; /* of rows */
    int settings; /* some method has several settings */
    column *columns;
    size_t n;
} layout;

/* Whether any row has a value of a metric. */
static int tells(const layout *l, const fl_metric *m)
{
    for (size_t i = 0; i < l->count; i++) {
        const fli_stat *st = fli_summary_stat(&l->rows[i], m),
                       *rounds = fli_summary_stat(&l->rows[i], &fli_metric_round.is);
        if (st->n && (!m->beyond_round || st->mean > rounds->mean)) return 1;
    }
    return 0;
}

/* Adds a view's metrics of which some row has a value: before the costs of targets or, with `late`, after. */
static void add_metrics(layout *l, fl_view view, int late, column c)
{
    for (size_t k = 0; (c.metric = fl_metric_shown(view, k)); k++)
        if ((c.metric->shown[view].order > FL_ORDER_MIDDLE) == late && tells(l, c.metric)) l->columns[l->n++] = c;
}

static fl_status lay_out(layout *l, fli_arena *a)
{
    const fl_reals *targets = l->of->targets;
    l->columns = fli_arena_alloc(a, SEEDS + 1 + (targets->n + 1) * FL_METRICS_MAX, sizeof *l->columns);
    if (!l->columns) return FL_ENOMEM;
    for (size_t i = 0; i < l->count; i++) l->settings |= l->of->methods[l->rows[i].method].settings > 1;
    l->columns[l->n++] = (column){.kind = METHOD};
    if (l->settings) l->columns[l->n++] = (column){.kind = SETTING};
    l->columns[l->n++] = (column){.kind = SEEDS};
    add_metrics(l, FL_VIEW_STUDY, 0, (column){.kind = AT_END});
    for (size_t k = 0; k < targets->n; k++)
        add_metrics(l, FL_VIEW_TARGET, 0, (column){.kind = TO_TARGET, .target = targets->v[k]});
    add_metrics(l, FL_VIEW_STUDY, 1, (column){.kind = AT_END});
    return FL_OK;
}

static void head(fli_text *t, const column *c)
{
    static const char *const own[] = {[METHOD] = "method", [SETTING] = "setting", [SEEDS] = "seeds"};
    if (c->kind == TO_TARGET)
        fli_text_addf(t, "%s to %g", c->metric->shown[FL_VIEW_TARGET].label, c->target);
    else
        fli_text_add(t, c->kind == AT_END ? c->metric->shown[FL_VIEW_STUDY].label : own[c->kind]);
}

static void body(fli_text *t, const layout *l, const column *c, const fli_summary *row)
{
    switch (c->kind) {
    case METHOD: fli_text_add(t, l->of->methods[row->method].label); break;
    case SETTING: fli_text_add(t, l->of->trials[row->first].setting_text); break;
    case SEEDS: fli_text_addf(t, row->failed ? "%zu, %zu failed" : "%zu", row->seeds, row->failed); break;
    case AT_END: fli_stat_words(t, c->metric, fli_summary_stat(row, c->metric)); break;
    case TO_TARGET: fli_target_text(t, l->of, row, c->target, c->metric); break;
    }
}

/* A trial's number for a column, in the unit of the table; NaN: none. */
static double number(const fli_results *r, const column *c, size_t trial)
{
    const fli_outcome *o = &r->outcomes[trial];
    const fl_row *row = c->kind == TO_TARGET                                          ? reached_at(r, o, c->target)
                        : c->kind == AT_END && o->state == FLI_TRIAL_DONE && o->count ? &o->rows[o->count - 1]
                                                                                      : NULL;
    if (!row) return NAN;
    double v = fl_row_value(row, c->metric);
    return c->metric->unit == FL_UNIT_BYTES ? v / 1e6 : c->metric->unit == FL_UNIT_SHARE ? 100 * v : v;
}

/* The accuracy of always guessing the largest class, in percent, and two of its standard errors. */
static void set_chance(const fli_histogram *h, fli_grid *g)
{
    if (!h->tested) return;
    g->chance = 100 * h->chance;
    g->chance_noise = 200 * sqrt(h->chance * (1 - h->chance) / (double)h->tested);
}

/* The numbers behind the cells, the rows that represent their methods, and the column by which methods are compared. */
static fl_status add_numbers(const layout *l, fli_arena *a, fli_grid *g)
{
    const fli_results *r = l->of;
    double *values = fli_arena_alloc(a, l->count * l->n * r->seeds, sizeof *values);
    unsigned char *chosen = fli_arena_alloc(a, l->count, 1);
    if (!values || !chosen) return FL_ENOMEM;
    for (size_t i = 0; i < l->count; i++) {
        chosen[i] = (unsigned char)l->rows[i].best;
        for (size_t k = 0; k < l->n; k++)
            for (size_t seed = 0; seed < r->seeds; seed++)
                values[(i * l->n + k) * r->seeds + seed] =
                    number(r, &l->columns[k], l->rows[i].first + seed * fli_results_stride(r));
    }
    for (size_t k = l->n; k--;) /* the loss, if accuracy is unknown */
        if (l->columns[k].kind == AT_END && l->columns[k].metric == &fli_metric_train_loss.is) g->goal = k;
    for (size_t k = 0; k < l->n; k++)
        if (l->columns[k].kind == AT_END && l->columns[k].metric == &r->goal->is) g->goal = k;
    if (g->goal && l->columns[g->goal].metric == &fli_metric_test_accuracy.is) set_chance(r->histogram, g);
    g->values = values;
    g->seeds = r->seeds;
    g->chosen = l->settings ? chosen : NULL;
    return FL_OK;
}

fl_status fli_results_grid(const fli_results *r, fli_arena *a, fli_grid *out)
{
    fli_summary *rows;
    layout l = {.of = r};
    fl_status status = fli_results_summaries(r, a, &rows, &l.count);
    l.rows = rows;
    if (!status) status = lay_out(&l, a);
    if (status) return status;
    builder b = {.arena = a, .cells = fli_arena_alloc(a, (l.count + 1) * l.n, sizeof *b.cells)};
    fl_better *best = fli_arena_alloc(a, l.n, sizeof *best);
    if (!b.cells || !best) return FL_ENOMEM;
    fli_text_init(&b.text, r->ctx);
    for (size_t k = 0; k < l.n; k++) {
        best[k] = l.columns[k].metric ? l.columns[k].metric->better : FL_BETTER_NEITHER;
        head(&b.text, &l.columns[k]);
        end_cell(&b);
    }
    for (size_t i = 0; i < l.count; i++)
        for (size_t k = 0; k < l.n; k++) {
            body(&b.text, &l, &l.columns[k], &rows[i]);
            end_cell(&b);
        }
    fli_text_fini(&b.text);
    *out = (fli_grid){b.cells, l.count + 1, l.n, best};
    return b.failed ? FL_ENOMEM : add_numbers(&l, a, out);
}

/* ---- renderings ---------------------------------------------------------------------------------------- */

/* Characters on the screen, not bytes: "±" is one. */
static size_t width(const char *s)
{
    size_t n = 0;
    for (; *s; s++) n += ((unsigned char)*s & 0xC0) != 0x80;
    return n;
}

void fli_grid_text(fli_text *t, const fli_grid *g)
{
    size_t *most = fli_alloc(t->ctx, g->columns, sizeof *most);
    if (!most) t->failed = 1;
    for (size_t k = 0; most && k < g->rows * g->columns; k++)
        if (width(g->cells[k]) > most[k % g->columns]) most[k % g->columns] = width(g->cells[k]);
    for (size_t r = 0; most && r < g->rows; r++) {
        for (size_t c = 0; c < g->columns; c++) {
            const char *text = g->cells[r * g->columns + c];
            int pad = (int)(most[c] - width(text));
            if (c == 0)
                fli_text_addf(t, "%s%*s", text, pad, "");
            else
                fli_text_addf(t, "  %*s%s", pad, "", text);
        }
        fli_text_add(t, "\n");
    }
    fli_free(most);
}

/* Quoted. A spreadsheet reads a field that begins with one of these characters as a formula, even in quotes, unless an
 * apostrophe precedes it. */
void fli_csv_text(fli_text *t, const char *s)
{
    fli_text_add(t, *s && strchr("=+-@\t\r", *s) ? "\"'" : "\"");
    for (; *s; s++) fli_text_addf(t, *s == '"' ? "\"%c" : "%c", *s);
    fli_text_add(t, "\"");
}

void fli_stat_csv(fli_text *t, const fli_stat *st)
{
    if (st->n)
        fli_text_addf(t, ",%.10g,%.10g", st->mean, st->std);
    else
        fli_text_add(t, ",,");
}

void fli_stat_json(fli_json *j, const char *key, const fli_stat *st)
{
    if (!st->n) {
        fli_json_text(j, key, NULL);
        return;
    }
    fli_json_map(j, key);
    fli_json_real(j, "mean", st->mean);
    fli_json_real(j, "std", st->std);
    fli_json_whole(j, "n", st->n);
    fli_json_end(j);
}
