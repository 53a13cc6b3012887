/* What the scripts draw from:
 *
 *   {"axes": [{"name", "title", "unit"}, ...],           what can be on the x axis
 *    "units": {"bytes": [[from, divisor, "kB"], ...]}, "colours": n, "dashes": [...], "markers": [...],
 *    "series": [{"label", "seeds": [...]}, ...],
 *    "charts": {"test-accuracy": {"title", "unit", "scale", "series": [{"x": [[...], ...], "runs": [[...], ...]}]}},
 *    "heat": {"classes": n, "counts": [...]}}
 *
 * A chart's "x" has a list per axis, with null where there is no place; it is the name of an earlier chart if it is the
 * same there. "runs" has a list per seed. A chart with an axis of its own has "axis": {"name", "title", "unit"} and one
 * list. */
#include "report/page_data.h"

#include "report/axis.h"
#include "report/markup.h"
#include "report/page.h"
#include "report/series_style.h"

#include <math.h>
#include <string.h>

/* Points kept per line: more than the pixels of a chart if there is room, else fewer, so that a page of dozens of
 * series stays within a few megabytes. */
enum { KEPT_MAX = 600, KEPT_MIN = 100, NUMBERS_MAX = 250000 };

/* The x axes: rounds, and what else anybody measured; NULL past the last. Asked once, for all series. */
enum { AXES_MAX = 8 };

typedef struct {
    const fli_report *r;
    const fl_metric *axes[AXES_MAX + 1];
    size_t axis_count, kept;
    const fl_metric **first; /* per series: the first chart that has all its rows */
} writer;

void fli_data_number(fli_text *t, double v)
{
    if (isfinite(v))
        fli_text_addf(t, "%.6g", v);
    else
        fli_text_add(t, "null");
}

void fli_data_about(fli_text *t, const fl_metric *m)
{
    static const char *const units[] = {
        [FL_UNIT_NONE] = "none",   [FL_UNIT_SHARE] = "share", [FL_UNIT_SCORE] = "score",
        [FL_UNIT_COUNT] = "count", [FL_UNIT_BYTES] = "bytes", [FL_UNIT_SECONDS] = "seconds"};
    static const char *const scales[] = {
        [FL_SCALE_LINEAR] = "linear", [FL_SCALE_LOG] = "log", [FL_SCALE_WIDE] = "wide"};
    fli_text_add(t, "\"title\":");
    fli_markup_json(t, m->title);
    fli_text_addf(t, ",\"unit\":\"%s\",\"scale\":\"%s\"", units[m->unit], scales[m->scale]);
}

/* ---- thinning ------------------------------------------------------------------------------------------ */

/* Of every stretch of points the first, least, greatest and last stay, so no peak is lost. Returns how many do. */
static size_t thin(fli_point *p, size_t count, size_t most)
{
    size_t n = 0, stretch = (count * 4 + most - 1) / most;
    if (count <= most) return count;
    for (size_t i = 0; i < count; i += stretch) {
        size_t end = i + stretch < count ? i + stretch : count, least = i, greatest = i;
        for (size_t j = i; j < end; j++) {
            if (p[j].mean < p[least].mean) least = j;
            if (p[j].mean > p[greatest].mean) greatest = j;
        }
        for (size_t j = i; j < end; j++)
            if (j == i || j == least || j == greatest || j + 1 == end) p[n++] = p[j];
    }
    return n;
}

/* ---- one line ------------------------------------------------------------------------------------------ */

/* Where the points lie on an axis, in their order; some may have no place there. */
static fl_status add_places(fli_text *t, const fli_series *s, const fl_metric *x, const fl_metric *y,
                            const fli_point *points, size_t count)
{
    fli_point *there;
    size_t n, k = 0;
    fl_status status = fli_series_points(t->ctx, s, x, y, &there, &n);
    if (status) return status;
    fli_text_add(t, "[");
    for (size_t i = 0; i < count; i++) {
        while (k < n && there[k].row < points[i].row) k++;
        if (i) fli_text_add(t, ",");
        fli_data_number(t, k < n && there[k].row == points[i].row ? there[k].x : NAN);
    }
    fli_text_add(t, "]");
    fli_free(there);
    return FL_OK;
}

static void add_run(fli_text *t, const fli_curve *c, const fl_metric *y, const fli_point *points, size_t count)
{
    fli_text_add(t, "[");
    for (size_t i = 0; i < count; i++) {
        if (i) fli_text_add(t, ",");
        fli_data_number(t, points[i].row < c->count ? fl_row_value(&c->rows[points[i].row], y) : NAN);
    }
    fli_text_add(t, "]");
}

/* Charts that have a point in every row lie at the same places. */
static int has_all_rows(writer *w, size_t k, const fl_metric *y, size_t count)
{
    size_t rows = 0;
    const fli_series *s = &w->r->series[k];
    for (size_t c = 0; c < s->count; c++)
        if (s->curves[c].count > rows) rows = s->curves[c].count;
    if (count < rows || count > w->kept) return 0;
    if (!w->first[k]) w->first[k] = y;
    return 1;
}

static fl_status add_line(fli_text *t, writer *w, size_t k, const fl_metric *y)
{
    const fli_series *s = &w->r->series[k];
    fli_point *points;
    size_t count;
    fl_status status = fli_series_points(t->ctx, s, w->axes[0], y, &points, &count);
    if (status) return status;
    fli_text_add(t, "{\"x\":");
    if (has_all_rows(w, k, y, count) && w->first[k] != y)
        fli_text_addf(t, "\"%s\"", fli_y_name(w->first[k]));
    else {
        count = thin(points, count, w->kept);
        for (size_t i = 0; w->axes[i] && !status; i++) {
            fli_text_add(t, i ? "," : "[");
            status = add_places(t, s, w->axes[i], y, points, count);
        }
        fli_text_add(t, "]");
    }
    fli_text_add(t, ",\"runs\":[");
    for (size_t c = 0; c < s->count; c++) {
        if (c) fli_text_add(t, ",");
        add_run(t, &s->curves[c], y, points, count);
    }
    fli_text_add(t, "]}");
    fli_free(points);
    return status;
}

/* ---- all of them --------------------------------------------------------------------------------------- */

static fl_status add_charts(fli_text *t, writer *w)
{
    int some = 0;
    const fl_metric *y;
    for (size_t at = 0; (y = fl_metric_shown(FL_VIEW_CHART, at)); at++) {
        if (!fli_report_has(w->r, y)) continue;
        fli_text_addf(t, "%s\n\"%s\":{", some++ ? "," : "", fli_y_name(y));
        fli_data_about(t, y);
        fli_text_add(t, ",\"series\":[");
        for (size_t k = 0; k < w->r->count; k++) {
            if (k > 0) fli_text_add(t, ",\n");
            fl_status status = add_line(t, w, k, y);
            if (status) return status;
        }
        fli_text_add(t, "]}");
    }
    return fli_clients_data(t, w->r, some);
}

static void add_axes(fli_text *t, const writer *w)
{
    fli_text_add(t, "\"axes\":[");
    for (size_t i = 0; w->axes[i]; i++) {
        fli_text_addf(t, "%s{\"name\":\"%s\",", i ? "," : "", fli_x_name(w->axes[i]));
        fli_data_about(t, w->axes[i]);
        fli_text_add(t, "}");
    }
    fli_text_add(t, "]");
}

static void add_words(fli_text *t, const char *name, const char *const *words, size_t n)
{
    fli_text_addf(t, ",\n\"%s\":[", name);
    for (size_t i = 0; i < n; i++) fli_text_addf(t, "%s\"%s\"", i ? "," : "", words[i]);
    fli_text_add(t, "]");
}

static void add_series(fli_text *t, const fli_report *r)
{
    fli_text_add(t, ",\n\"series\":[");
    for (size_t k = 0; k < r->count; k++) {
        fli_text_add(t, k ? ",{\"label\":" : "{\"label\":");
        fli_markup_json(t, r->series[k].label);
        fli_text_add(t, ",\"seeds\":[");
        for (size_t c = 0; c < r->series[k].count; c++) /* as text: they may have more digits than a number there */
            fli_text_addf(t, "%s\"%llu\"", c ? "," : "", (unsigned long long)r->series[k].curves[c].seed);
        fli_text_add(t, "]}");
    }
    fli_text_add(t, "]");
}

static void add_heat(fli_text *t, const fli_report *r)
{
    fli_text_addf(t, ",\n\"heat\":{\"classes\":%zu,\"counts\":[", r->histogram ? r->classes : 0);
    for (size_t i = 0; r->histogram && i < r->clients * r->classes; i++)
        fli_text_addf(t, "%s%zu", i ? "," : "", r->histogram[i]);
    fli_text_add(t, "]}");
}

static void prepare(writer *w)
{
    const fl_metric *m;
    size_t charts = 0, seeds = 1, numbers;
    w->axes[w->axis_count++] = fl_metric_shown(FL_VIEW_AXIS, 0);
    for (size_t k = 1; w->axis_count < AXES_MAX && (m = fl_metric_shown(FL_VIEW_AXIS, k)); k++)
        if (fli_report_has(w->r, m)) w->axes[w->axis_count++] = m;
    for (size_t k = 0; (m = fl_metric_shown(FL_VIEW_CHART, k)); k++) charts += fli_report_has(w->r, m) != 0;
    for (size_t k = 0; k < w->r->count; k++)
        if (w->r->series[k].count > seeds) seeds = w->r->series[k].count;
    numbers = (charts + 1) * (w->r->count + 1) * (w->axis_count + seeds);
    w->kept = NUMBERS_MAX / numbers < KEPT_MIN   ? KEPT_MIN
              : NUMBERS_MAX / numbers > KEPT_MAX ? KEPT_MAX
                                                 : NUMBERS_MAX / numbers;
}

fl_status fli_page_data(fli_text *t, const fli_report *r)
{
    writer w = {.r = r, .first = fli_alloc(t->ctx, r->count, sizeof *w.first)};
    if (!w.first) return FL_ENOMEM;
    prepare(&w);
    fli_text_add(t, "{");
    add_axes(t, &w);
    fli_text_add(t, ",\n\"units\":");
    fli_axis_units(t);
    fli_text_addf(t, ",\n\"colours\":%d", FLI_COLOURS);
    add_words(t, "dashes", fli_dashes, FLI_DASHES);
    add_words(t, "markers", fli_markers, FLI_MARKERS);
    add_series(t, r);
    fli_text_add(t, ",\n\"charts\":{");
    fl_status status = add_charts(t, &w);
    fli_text_add(t, "}");
    add_heat(t, r);
    fli_text_add(t, "}\n");
    fli_free(w.first);
    return status ? status : fli_text_ok(t);
}
