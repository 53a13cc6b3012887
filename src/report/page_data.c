/* {"x": [title, ...], "colours": n, "series": [label, ...], "values": {"test-accuracy": [{"x": [[...], ...], "mean":
 * [...], "std": [...]}, ...], ...}, "heat": {"classes": n, "counts": [...]}} Keys of "values" are quantities, its
 * entries series; "x" in them holds one list per x axis that anybody measured, null where this series did not. */
#include "report/page.h"

#include "report/series_style.h"
#include "report/markup.h"

#include <math.h>

/* Points kept per series: more than the pixels of a chart, few enough for a page with dozens of series. */
enum { KEPT_MAX = 600 };

/* The x axes: rounds, and what else anybody measured; NULL past the last. Asked once, for all series. */
enum { AXES_MAX = 8 };
typedef const fl_metric *axes[AXES_MAX + 1];

typedef double point_fn(const fli_point *p);
static double get_x(const fli_point *p) { return p->x; }
static double get_mean(const fli_point *p) { return p->mean; }
static double get_std(const fli_point *p) { return p->high - p->mean; }

/* Every k-th point, and always the last. */
static void add_numbers(fli_text *t, const fli_point *p, size_t count, point_fn *get)
{
    size_t stride = 1 + (count > 0 ? (count - 1) / KEPT_MAX : 0);
    fli_text_add(t, "[");
    for (size_t i = (count + stride - 1) % stride; i < count; i += stride) {
        double v = get(&p[i]);
        if (i >= stride) fli_text_add(t, ",");
        if (isfinite(v))
            fli_text_addf(t, "%.6g", v);
        else
            fli_text_add(t, "null");
    }
    fli_text_add(t, "]");
}

/* Moves the points of a curve to another x axis, on which some of them may have no place: NaN. */
static fl_status move_points(fl_ctx *ctx, const fli_series *s, const fl_metric *x, const fl_metric *y,
                             fli_point *points, size_t count)
{
    fli_point *there;
    size_t n, k = 0;
    fl_status status = fli_series_points(ctx, s, x, y, &there, &n);
    if (status) return status;
    for (size_t i = 0; i < count; i++) {
        int found = k < n && there[k].row == points[i].row;
        points[i].x = found ? there[k++].x : NAN;
    }
    fli_free(there);
    return FL_OK;
}

/* Only the x differs between the axes: a point exists where the measured quantity does, and rounds always are. */
static fl_status add_series(fli_text *t, const fli_series *s, const axes all, const fl_metric *y)
{
    fli_point *points;
    size_t count;
    fl_status status = fli_series_points(t->ctx, s, all[0], y, &points, &count);
    if (status) return status;
    fli_text_add(t, "{\"x\":[");
    for (size_t i = 0; all[i] && !status; i++) {
        if (i) fli_text_add(t, ",");
        status = move_points(t->ctx, s, all[i], y, points, count);
        add_numbers(t, points, count, get_x);
    }
    fli_text_add(t, "],\"mean\":");
    add_numbers(t, points, count, get_mean);
    fli_text_add(t, ",\"std\":");
    add_numbers(t, points, count, get_std);
    fli_text_add(t, "}");
    fli_free(points);
    return status;
}

static fl_status add_values(fli_text *t, const fli_report *r, const axes all)
{
    int some = 0;
    const fl_metric *y;
    for (size_t at = 0; (y = fl_metric_shown(FL_VIEW_CHART, at)); at++) {
        if (!fli_report_has(r, y)) continue;
        fli_text_addf(t, "%s\n\"%s\":[", some ? "," : "", fli_y_name(y));
        for (size_t k = 0; k < r->count; k++) {
            if (k > 0) fli_text_add(t, ",\n");
            fl_status status = add_series(t, &r->series[k], all, y);
            if (status) return status;
        }
        fli_text_add(t, "]");
        some = 1;
    }
    return FL_OK;
}

fl_status fli_page_data(fli_text *t, const fli_report *r)
{
    axes all = {fl_metric_shown(FL_VIEW_AXIS, 0)};
    const fl_metric *x;
    for (size_t k = 1, n = 1; n < AXES_MAX && (x = fl_metric_shown(FL_VIEW_AXIS, k)); k++)
        if (fli_report_has(r, x)) all[n++] = x;
    fli_text_add(t, "{\"x\":[");
    for (size_t i = 0; all[i]; i++) {
        if (i) fli_text_add(t, ",");
        fli_markup_json(t, all[i]->title);
    }
    fli_text_addf(t, "],\n\"colours\":%d,\n\"series\":[", FLI_COLOURS);
    for (size_t k = 0; k < r->count; k++) {
        if (k > 0) fli_text_add(t, ",");
        fli_markup_json(t, r->series[k].label);
    }
    fli_text_add(t, "],\n\"values\":{");
    fl_status status = add_values(t, r, all);
    if (status) return status;
    fli_text_addf(t, "},\n\"heat\":{\"classes\":%zu,\"counts\":[", r->histogram ? r->classes : 0);
    for (size_t i = 0; r->histogram && i < r->clients * r->classes; i++)
        fli_text_addf(t, "%s%zu", i ? "," : "", r->histogram[i]);
    fli_text_add(t, "]}}\n");
    return fli_text_ok(t);
}
