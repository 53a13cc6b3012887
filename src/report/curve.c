/* From rows to curves: mean and spread over the runs of a series. */
#include "report/report.h"

#include <math.h>
#include <stdlib.h>

/* The values of one row over runs, and what is made of them. */
typedef struct {
    double *v; /* room for one per run */
    size_t n;
} sample;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* Of values in order, interpolated between neighbours. */
static double quantile(const sample *s, double q)
{
    size_t i = (size_t)(q * (double)(s->n - 1));
    double part = q * (double)(s->n - 1) - (double)i;
    if (i + 1 >= s->n) return s->v[s->n - 1];
    return (1 - part) * s->v[i] + part * s->v[i + 1]; /* no difference, which might overflow */
}

/* Two passes: the values of converged runs differ in their last digits only. */
static void spread(fli_point *p, sample *s)
{
    double squares = 0;
    for (size_t k = 0; k < s->n; k++) squares += (s->v[k] - p->mean) * (s->v[k] - p->mean);
    double deviation = s->n > 1 ? sqrt(squares / (double)(s->n - 1)) : 0;
    if (!isfinite(deviation)) deviation = 0; /* a run on its way to infinity: the square overflowed before the value */
    p->low = p->mean - deviation;
    p->high = p->mean + deviation;
    qsort(s->v, s->n, sizeof *s->v, ascending);
    p->q10 = quantile(s, 0.1);
    p->q90 = quantile(s, 0.9);
}

/* Row `i` over the runs that have it, of the metrics at places x and y. */
static fli_point point_at(const fli_series *s, size_t x, size_t y, size_t i, double *room)
{
    fli_point p = {.row = i};
    sample values = {room, 0};
    for (size_t k = 0; k < s->count; k++) {
        if (i >= s->curves[k].count) continue;
        const double *value = s->curves[k].rows[i].value;
        double u = value[x], v = value[y];
        if (!isfinite(u) || !isfinite(v)) continue;
        values.v[values.n++] = v;
        p.x += (u - p.x) / (double)values.n;
        p.mean += v / (double)values.n - p.mean / (double)values.n;
    }
    p.n = values.n;
    if (p.n) spread(&p, &values);
    return p;
}

static size_t longest(const fli_series *s)
{
    size_t n = 0;
    for (size_t k = 0; k < s->count; k++)
        if (s->curves[k].count > n) n = s->curves[k].count;
    return n;
}

fl_status fli_series_points(fl_ctx *ctx, const fli_series *s, const fl_metric *x, const fl_metric *y,
                            fli_point **points, size_t *count)
{
    size_t rows = longest(s), n = 0, at_x = fl_metric_place(x), at_y = fl_metric_place(y);
    *points = NULL;
    *count = 0;
    fli_point *p = fli_alloc(ctx, rows, sizeof *p);
    double *room = fli_alloc(ctx, s->count, sizeof *room);
    if (!p || !room) {
        fli_free(p);
        fli_free(room);
        return FL_ENOMEM;
    }
    for (size_t i = 0; i < rows; i++) {
        fli_point at = point_at(s, at_x, at_y, i, room);
        /* where a run has ended, the mean place of the others may lie before the last point: a curve does not turn
         * back */
        int back = n > 0 && at.x < p[n - 1].x;
        if (at.n > 0 && !back) p[n++] = at;
    }
    fli_free(room);
    *points = p;
    *count = n;
    return FL_OK;
}

/* Whether a row says something by this metric. */
static int tells(const fl_row *row, const fl_metric *m, size_t place)
{
    double v = row->value[place];
    return isfinite(v) && (!m->beyond_round || v > (double)fl_row_round(row));
}

int fli_report_has(const fli_report *r, const fl_metric *m)
{
    size_t place = fl_metric_place(m);
    for (size_t k = 0; k < r->count; k++)
        for (size_t c = 0; c < r->series[k].count; c++)
            for (size_t i = 0; i < r->series[k].curves[c].count; i++)
                if (tells(&r->series[k].curves[c].rows[i], m, place)) return 1;
    return 0;
}
