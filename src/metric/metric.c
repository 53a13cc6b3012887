/* Rows of metrics, and the list as programs see it. */
#include "metric/metric.h"

#include "metric/metric_list.h"

#include <math.h>
#include <string.h>

/* ---- the list ---------------------------------------------------------------------------------------------- */

const fl_metric *fl_metric_at(size_t k)
{
    const fli_metric *m = fli_metric_at(k);
    return m ? &m->is : NULL;
}

const fl_metric *fl_metric_find(const char *name)
{
    const fl_metric *m = NULL;
    for (size_t k = 0; name && (m = fl_metric_at(k)) && strcmp(m->name, name);) k++;
    return m;
}

size_t fl_metric_place(const fl_metric *metric)
{
    size_t k = 0;
    while (fli_metrics[k] && &fli_metrics[k]->is != metric) k++; /* rows are read often, and mostly these */
    if (fli_metrics[k]) return k;
    for (const fl_metric *m; (m = fl_metric_at(k)) && m != metric;) k++;
    return k;
}

static int order_in(const fl_metric *m, fl_view view)
{
    return m->shown[view].order ? m->shown[view].order : FL_ORDER_MIDDLE;
}

/* Whether list entry a comes before b in a view. */
static int before(size_t a, size_t b, fl_view view)
{
    int first = order_in(fl_metric_at(a), view), second = order_in(fl_metric_at(b), view);
    return first < second || (first == second && a < b);
}

const fl_metric *fl_metric_shown(fl_view view, size_t k)
{
    const fl_metric *m, *other;
    if ((unsigned)view >= FL_VIEWS) return NULL;
    for (size_t i = 0; (m = fl_metric_at(i)); i++) {
        size_t earlier = 0;
        if (!m->shown[view].label) continue;
        for (size_t j = 0; (other = fl_metric_at(j)); j++) earlier += other->shown[view].label && before(j, i, view);
        if (earlier == k) return m;
    }
    return NULL;
}

/* ---- directions -------------------------------------------------------------------------------------------- */

int fl_metric_beats(const fl_metric *metric, double a, double b)
{
    return metric->better == FL_BETTER_HIGH ? a > b : metric->better == FL_BETTER_LOW ? a < b : 0;
}

int fli_metric_reaches(const fli_metric *metric, double v, double wished)
{
    return v == wished || fl_metric_beats(&metric->is, v, wished);
}

const fli_metric *fli_metric_goal(const fli_metrics_settings *what)
{
    return what->goal == FLI_GOAL_LOCAL ? &fli_metric_local_test_accuracy : &fli_metric_test_accuracy;
}

/* ---- rows -------------------------------------------------------------------------------------------------- */

double fl_row_value(const fl_row *row, const fl_metric *metric)
{
    size_t k = row && metric ? fl_metric_place(metric) : FL_METRICS_MAX;
    return k < FL_METRICS_MAX && fl_metric_at(k) ? row->value[k] : NAN;
}

double fl_row_get(const fl_row *row, const char *name) { return fl_row_value(row, fl_metric_find(name)); }
double fli_row_get(const fl_row *row, const fli_metric *metric) { return fl_row_value(row, &metric->is); }

/* A file may say anything. */
size_t fl_row_round(const fl_row *row)
{
    double v = fli_row_get(row, &fli_metric_round);
    return v >= 0x1p53 ? SIZE_MAX : v > 0 ? (size_t)v : 0;
}

void fli_row_count(fl_row *row, const fli_counts *c)
{
    for (size_t k = 0; fli_metrics[k]; k++)
        if (fli_metrics[k]->count) row->value[k] = fli_metrics[k]->count(c);
}

fl_status fli_row_measure(fl_row *row, const fli_metrics_settings *what, fli_moment *m)
{
    m->status = FL_OK;
    for (size_t k = 0; fli_metrics[k] && !m->status; k++) {
        const fli_metric *metric = fli_metrics[k];
        if (!metric->measure) continue;
        int wanted = !metric->wanted || metric->wanted(what, m->model);
        row->value[k] = wanted ? metric->measure(m) : NAN;
    }
    return m->status ? m->status : fli_row_measure_own(row, m);
}
