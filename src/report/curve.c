/* From rows to curves: mean and spread over the runs of a series. */
#include "report/report.h"

#include <math.h>

/* Mean and spread of row `i` over the runs that have it, of the metrics at places x and y. Two passes: the values of
 * converged runs differ in their last digits only. */
static fli_point point_at(const fli_series *s, size_t x, size_t y, size_t i)
{
    fli_point p = {.row = i};
    double squares = 0;
    for (int pass = 0; pass < 2; pass++) {
        for (size_t k = 0; k < s->count; k++) {
            if (i >= s->curves[k].count) continue;
            const double *value = s->curves[k].rows[i].value;
            double u = value[x], v = value[y];
            if (!isfinite(u) || !isfinite(v)) continue;
            if (pass == 0) {
                p.n++;
                p.x += (u - p.x) / (double)p.n;
                p.mean += v / (double)p.n - p.mean / (double)p.n;
            } else {
                squares += (v - p.mean) * (v - p.mean);
            }
        }
    }
    double spread = p.n > 1 ? sqrt(squares / (double)(p.n - 1)) : 0;
    if (!isfinite(spread)) spread = 0; /* a run on its way to infinity: the square overflowed before the value did */
    p.low = p.mean - spread;
    p.high = p.mean + spread;
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
    if (!p) return FL_ENOMEM;
    for (size_t i = 0; i < rows; i++) {
        fli_point at = point_at(s, at_x, at_y, i);
        /* where a run has ended, the mean place of the others may lie before the last point: a curve does not turn
         * back */
        int back = n > 0 && at.x < p[n - 1].x;
        if (at.n > 0 && !back) p[n++] = at;
    }
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
