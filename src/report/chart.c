/* All pictures, as SVG: a chart of lines with bands, for a page or alone; the heat map of labels per client; panels of
 * dots for a tuning. axis.c computes ticks, series_style.c has colours and markers.
 *
 * A chart of lines shows one quantity against another, a line per series with a band of one standard deviation, or
 * between quantiles on a logarithmic axis. A stand-alone chart has colours and a legend. A chart for the page has
 * classes, which page.css colours, and uses the page's legend. With JavaScript the page redraws it for any axes and
 * ranges (js/chart.js). */
#include "report/internal.h"

#include "base/number.h"
#include "report/report.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ==== parts of all charts =================================================================================== */

/* Position of a value. */
static double frame_x(const fli_frame *f, double v)
{
    return f->left + (f->right - f->left) * fli_axis_place(&f->ax, v);
}

static double frame_y(const fli_frame *f, double v)
{
    return f->bottom - (f->bottom - f->top) * fli_axis_place(&f->ay, v);
}

/* ---- text ---------------------------------------------------------------------------------------------- */

/* Writes a label with a raised exponent and typographic minus signs. */
static void add_label(fli_text *t, const char *s)
{
    int raised = 0;
    for (; *s; s++) {
        if (*s == '^' && !raised) {
            fli_text_add(t, "<tspan dy=\"-4\" font-size=\"8\">");
            raised = 1;
        } else if (*s == '-') {
            fli_text_add(t, "\xe2\x88\x92");
        } else {
            fli_text_addn(t, s, 1);
        }
    }
    if (raised) fli_text_add(t, "</tspan>");
}

/* Writes an axis' title with its unit, and "log scale" if it is logarithmic. */
static void frame_title(fli_text *t, const char *title, const fli_axis *a)
{
    fli_markup_text(t, title);
    if (a->unit[0]) {
        fli_text_add(t, strncmp(a->unit, "10^", 3) ? " (" : " (in ");
        add_label(t, a->unit);
        fli_text_add(t, strchr(a->unit, '^') ? "<tspan dy=\"4\">)</tspan>" : ")");
    }
    if (a->log) fli_text_add(t, ", log scale");
}

/* Estimates the width of at most `most` characters in a sans-serif font by kinds of letters, enough to leave room. */
static double frame_width(const char *s, size_t most)
{
    double width = 0;
    for (size_t n = 0; *s && n < most; s++) {
        if (((unsigned char)*s & 0xc0) == 0x80) continue; /* within a character */
        n++;
        width += strchr("ijlft.,:;|!'()[] ", *s) ? 0.32
                 : strchr("mwMW@%", *s)          ? 0.85
                 : *s >= 'A' && *s <= 'Z'        ? 0.7
                                                 : 0.56;
    }
    return width * FLI_FONT;
}

/* Width of an axis' widest label. */
static double frame_label_width(const fli_axis *a)
{
    double widest = 0;
    for (size_t i = 0; i < a->count; i++) widest = fmax(widest, frame_width(a->ticks[i].label, SIZE_MAX));
    return widest;
}

/* ---- lines --------------------------------------------------------------------------------------------- */

/* Writes the path of all major or minor ticks or grid lines. `x`: of the x axis, else of the y axis. */
static void tick_path(const fli_frame *f, int x, int major, double out, double in)
{
    const fli_axis *a = x ? &f->ax : &f->ay;
    for (size_t i = 0; i < a->count; i++) {
        if ((a->ticks[i].label[0] != 0) != major) continue;
        if (x)
            fli_text_addf(f->t, "M%.1f %.1fV%.1f", frame_x(f, a->ticks[i].value), f->bottom + out, f->bottom - in);
        else
            fli_text_addf(f->t, "M%.1f %.1fH%.1f", f->left - out, frame_y(f, a->ticks[i].value), f->left + in);
    }
}

static void frame_grid(const fli_frame *f)
{
    fli_text *t = f->t;
    fli_text_add(t, f->for_page ? "<path class=\"grid\" d=\"" : "<path stroke=\"#e0e0e0\" stroke-width=\"0.6\" d=\"");
    tick_path(f, 1, 1, 0, f->bottom - f->top);
    tick_path(f, 0, 1, 0, f->right - f->left);
    fli_text_add(t, "\"/>\n");
}

static void frame_axes(const fli_frame *f)
{
    fli_text *t = f->t;
    fli_text_add(t, f->for_page ? "<path class=\"axis\" d=\""
                                : "<path fill=\"none\" stroke=\"#444\" stroke-width=\"0.8\" d=\"");
    fli_text_addf(t, "M%.1f %.1fV%.1fH%.1f", f->left, f->top, f->bottom, f->right);
    for (int x = 0; x < 2; x++) {
        tick_path(f, x, 1, 4, 0);
        tick_path(f, x, 0, 2, 0);
    }
    fli_text_add(t, "\"/>\n");
}

static void frame_x_labels(const fli_frame *f)
{
    for (size_t i = 0; i < f->ax.count; i++) {
        fli_text_addf(f->t, "<text x=\"%.1f\" y=\"%.1f\">", frame_x(f, f->ax.ticks[i].value), f->bottom + 16);
        add_label(f->t, f->ax.ticks[i].label);
        fli_text_add(f->t, "</text>");
    }
}

/* Writes the labels of the ticks; the caller opens a group that anchors texts at their end. */
static void frame_y_labels(const fli_frame *f)
{
    for (size_t i = 0; i < f->ay.count; i++) {
        if (!f->ay.ticks[i].label[0]) continue;
        fli_text_addf(f->t, "<text x=\"%.1f\" y=\"%.1f\">", f->left - 7, frame_y(f, f->ay.ticks[i].value) + 3.8);
        add_label(f->t, f->ay.ticks[i].label);
        fli_text_add(f->t, "</text>");
    }
}

/* ==== one chart of lines ==================================================================================== */

enum { CHART_WIDTH = 480, CHART_HEIGHT = 300, LEGEND_ROW = 16, KEY_WIDTH = 26 };

typedef struct {
    fli_frame f;
    const fli_report *r;
    const fl_metric *x, *y;
    const fli_chart_line *lines; /* one per series */
    int empty;                   /* no series has a point */
    double height;
} chart;

/* ---- ranges -------------------------------------------------------------------------------------------- */

static void widen(double range[2], double v)
{
    if (v < range[0]) range[0] = v;
    if (v > range[1]) range[1] = v;
}

static int wants_log(const fl_metric *y, const double mean[2])
{
    if (!(mean[0] > 0)) return 0;
    return y->scale == FL_SCALE_LOG || (y->scale == FL_SCALE_WIDE && mean[1] / mean[0] > 1e3);
}

/* On a logarithmic axis the band lies between quantiles, because mean minus deviation may be tiny or below 0. */
static double low_of(const chart *c, const fli_curve_point *p) { return c->f.ay.log ? p->q10 : p->low; }
static double high_of(const chart *c, const fli_curve_point *p) { return c->f.ay.log ? p->q90 : p->high; }

static void set_axes(chart *c)
{
    double x[2] = {INFINITY, -INFINITY}, mean[2] = {INFINITY, -INFINITY}, all[2];
    for (size_t k = 0; k < c->r->count; k++)
        for (size_t i = 0; i < c->lines[k].count; i++) {
            widen(x, c->lines[k].points[i].x);
            widen(mean, c->lines[k].points[i].mean);
        }
    c->empty = x[0] > x[1];
    if (c->empty) x[0] = mean[0] = 0, x[1] = mean[1] = 1;
    c->f.ay.log = !c->empty && wants_log(c->y, mean);
    memcpy(all, mean, sizeof all);
    for (size_t k = 0; k < c->r->count; k++)
        for (size_t i = 0; i < c->lines[k].count; i++) {
            double low = low_of(c, &c->lines[k].points[i]);
            if (!c->f.ay.log || low > 0) widen(all, low);
            widen(all, high_of(c, &c->lines[k].points[i]));
        }
    fli_axis_init(&c->f.ax, c->x, x[0], x[1], 0, 0, 6);
    fli_axis_init(&c->f.ay, c->y, all[0], all[1], c->f.ay.log, 1, 6);
}

/* ---- legend of a stand-alone chart --------------------------------------------------------------------- */

enum { LABEL_MAX = 64 }; /* characters of a label that fit into one row */

static double entry_width(const fli_series *s) { return KEY_WIDTH + 6 + frame_width(s->label, LABEL_MAX) + 14; }

/* Width of a column of entries; 0: entries follow each other, because one row or fewer than three columns hold them. */
static double column_width(const chart *c)
{
    double widest = 1, all = 0, room = c->f.right + 14 - c->f.left;
    for (size_t k = 0; k < c->r->count; k++) {
        double width = entry_width(&c->r->series[k]);
        widest = fmax(widest, width);
        all += width;
    }
    return all > room && floor(room / widest) >= 3 ? room / floor(room / widest) : 0;
}

/* Places the entries in rows, and draws them if `draw`. Returns the number of rows. */
static size_t lay_out_legend(const chart *c, int draw)
{
    double x = c->f.left, column = column_width(c);
    size_t rows = 0;
    for (size_t k = 0; k < c->r->count; k++) {
        const fli_series *s = &c->r->series[k];
        double width = column > 0 ? column : entry_width(s);
        if (rows == 0 || x + width > c->f.right + 14.5) {
            rows++;
            x = c->f.left;
        }
        if (draw) {
            double y = 2 + (double)rows * LEGEND_ROW - LEGEND_ROW / 2.0;
            fli_style_key(c->f.t, k, x, y, 0);
            fli_text_addf(c->f.t, "<text x=\"%.1f\" y=\"%.1f\">", x + KEY_WIDTH + 6, y + 4);
            fli_markup_clip(c->f.t, s->label, LABEL_MAX);
            fli_text_add(c->f.t, "</text>\n");
        }
        x += width;
    }
    return rows;
}

static void lay_out(chart *c)
{
    c->f.left = 30 + frame_label_width(&c->f.ay);
    if (c->f.for_page && c->f.left < 54) c->f.left = 54; /* aligns charts below each other */
    c->f.right = CHART_WIDTH - 16;
    c->f.top = 10;
    if (!c->f.for_page) c->f.top += (double)lay_out_legend(c, 0) * LEGEND_ROW;
    c->height = CHART_HEIGHT - 10 + c->f.top;
    c->f.bottom = c->height - 40;
}

/* ---- around the lines ---------------------------------------------------------------------------------- */

/* Describes the chart and its lines in text, for readers who cannot see it. */
static void add_description(const chart *c)
{
    fli_text *t = c->f.t;
    fli_text_add(t, "<title>");
    if (!c->f.for_page && c->r->title[0]) {
        fli_markup_text(t, c->r->title);
        fli_text_add(t, ": ");
    }
    fli_markup_text(t, c->y->title);
    fli_text_add(t, " against ");
    fli_markup_text(t, c->x->title);
    fli_text_addf(t, "</title>\n<desc>%s axis.", c->f.ay.log ? "Logarithmic" : "Linear");
    for (size_t k = 0; k < c->r->count; k++) {
        const fli_chart_line *l = &c->lines[k];
        if (!l->count) continue;
        fli_text_add(t, " ");
        fli_markup_text(t, c->r->series[k].label);
        fli_text_addf(t, ": from %.4g to %.4g.", l->points[0].mean, l->points[l->count - 1].mean);
    }
    fli_text_add(t, "</desc>\n");
}

static void open_page_svg(const chart *c)
{
    fli_text_addf(c->f.t,
                  "<svg viewBox=\"0 0 %d %.0f\" role=\"img\" data-box=\"%.1f %.1f %.1f %.1f\" data-log=\"%d\">\n",
                  CHART_WIDTH, c->height, c->f.left, c->f.top, c->f.right, c->f.bottom, c->f.ay.log);
    add_description(c);
}

static void open_svg(const chart *c)
{
    fli_text *t = c->f.t;
    fli_text_add(t, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    fli_text_addf(t,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
                  "role=\"img\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"%d\" fill=\"#222\">\n",
                  CHART_WIDTH, c->height, CHART_WIDTH, c->height, FLI_FONT);
    add_description(c);
    fli_text_addf(t, "<rect width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n", CHART_WIDTH, c->height);
}

static void draw_texts(const chart *c)
{
    fli_text *t = c->f.t;
    double middle = (c->f.top + c->f.bottom) / 2;
    fli_text_add(t, "<g text-anchor=\"middle\">\n");
    frame_x_labels(&c->f);
    fli_text_addf(t, "\n<text class=\"title\" x=\"%.1f\" y=\"%.1f\">", (c->f.left + c->f.right) / 2, c->height - 7);
    frame_title(t, c->x->title, &c->f.ax);
    fli_text_addf(t, "</text>\n<text class=\"title\" transform=\"translate(12 %.1f) rotate(-90)\">", middle);
    frame_title(t, c->y->title, &c->f.ay);
    fli_text_add(t, "</text>\n");
    if (c->empty)
        fli_text_addf(t, "<text x=\"%.1f\" y=\"%.1f\">nothing measured yet</text>\n", (c->f.left + c->f.right) / 2,
                      middle);
    fli_text_add(t, "</g>\n<g text-anchor=\"end\">");
    frame_y_labels(&c->f);
    fli_text_add(t, "</g>\n");
}

/* ---- series -------------------------------------------------------------------------------------------- */

static void add_xy(const chart *c, double x, double v)
{
    fli_markup_number(c->f.t, x);
    fli_text_add(c->f.t, " ");
    fli_markup_number(c->f.t, frame_y(&c->f, v));
}

/* First point after i in another column of the picture; a column is as wide as a line. A long run has many points. */
static size_t column_end(const chart *c, const fli_chart_line *l, size_t i)
{
    double column = floor(frame_x(&c->f, l->points[i].x));
    while (i < l->count && floor(frame_x(&c->f, l->points[i].x)) == column) i++;
    return i;
}

/* Of each column, draws only the first, least, greatest and last point, in order: the line looks the same. */
static void draw_line(const chart *c, size_t k)
{
    const fli_chart_line *l = &c->lines[k];
    fli_style_line(c->f.t, k, c->f.for_page);
    for (size_t i = 0, end; i < l->count; i = end) {
        size_t least = i, greatest = i;
        end = column_end(c, l, i);
        for (size_t j = i; j < end; j++) {
            if (l->points[j].mean < l->points[least].mean) least = j;
            if (l->points[j].mean > l->points[greatest].mean) greatest = j;
        }
        for (size_t j = i; j < end; j++) {
            if (j != i && j != least && j != greatest && j != end - 1) continue;
            fli_text_add(c->f.t, j == 0 ? "M" : "L");
            add_xy(c, frame_x(&c->f, l->points[j].x), l->points[j].mean);
        }
    }
    fli_text_add(c->f.t, "\"/>");
}

static void draw_band(const chart *c, size_t k)
{
    const fli_chart_line *l = &c->lines[k];
    size_t begin = 0, wide = 0;
    for (size_t i = 0; i < l->count; i++) wide += high_of(c, &l->points[i]) > low_of(c, &l->points[i]);
    if (wide == 0 || l->count < 2) return;
    fli_style_band(c->f.t, k, c->f.for_page);
    for (size_t i = 0, end; i < l->count; i = end) {
        double high = high_of(c, &l->points[i]);
        end = column_end(c, l, i);
        for (size_t j = i; j < end; j++) high = fmax(high, high_of(c, &l->points[j]));
        fli_text_add(c->f.t, i == 0 ? "M" : "L");
        add_xy(c, frame_x(&c->f, l->points[i].x), high);
    }
    for (size_t end = l->count; end > 0; end = begin) {
        double low = low_of(c, &l->points[end - 1]), column = floor(frame_x(&c->f, l->points[end - 1].x));
        for (begin = end; begin > 0 && floor(frame_x(&c->f, l->points[begin - 1].x)) == column; begin--)
            low = fmin(low, low_of(c, &l->points[begin - 1]));
        fli_text_add(c->f.t, "L");
        add_xy(c, frame_x(&c->f, l->points[begin].x), low);
    }
    fli_text_add(c->f.t, "z\"/>");
}

/* Marks all points if they are few, else a few of them, at different positions per series so that marks do not
 * overlap. */
static void draw_marks(const chart *c, size_t k)
{
    const fli_chart_line *l = &c->lines[k];
    double spacing = l->count <= 12 ? 0 : (c->f.right - c->f.left) / 6;
    double next = c->f.left + spacing * (0.15 + 0.8 * fmod((double)k * 0.381966, 1));
    int some = 0;
    fli_style_marks(c->f.t, k, c->f.for_page);
    for (size_t i = 0; i < l->count; i++) {
        double x = frame_x(&c->f, l->points[i].x);
        if (x < next && (some || i + 1 < l->count)) continue;
        fli_style_marker(c->f.t, k, x, frame_y(&c->f, l->points[i].mean));
        while (spacing > 0 && next <= x) next += spacing;
        some = 1;
    }
    fli_text_add(c->f.t, "\"/>");
}

static void draw_series(const chart *c)
{
    for (size_t k = 0; k < c->r->count; k++) {
        if (c->lines[k].count == 0) continue;
        if (c->f.for_page)
            fli_text_addf(c->f.t, "<g class=\"series c%zu\" data-series=\"%zu\">", fli_style_colour(k), k);
        else
            fli_text_add(c->f.t, "<g>");
        draw_band(c, k);
        draw_line(c, k);
        draw_marks(c, k);
        fli_text_add(c->f.t, "</g>\n");
    }
}

fl_status fli_chart_lines(fli_text *t, const fli_report *r, const fl_metric *x, const fl_metric *y,
                          const fli_chart_line *lines, int for_page)
{
    chart c = {.f = {.t = t, .for_page = for_page}, .r = r, .x = x, .y = y, .lines = lines};
    set_axes(&c);
    lay_out(&c);
    if (for_page)
        open_page_svg(&c);
    else
        open_svg(&c);
    frame_grid(&c.f);
    draw_series(&c);
    frame_axes(&c.f);
    draw_texts(&c);
    if (!for_page) lay_out_legend(&c, 1);
    fli_text_add(t, "</svg>\n");
    return fli_text_ok(t);
}

fl_status fli_chart_svg(fli_text *t, const fli_report *r, const fl_metric *x, const fl_metric *y, int for_page)
{
    fl_status status = FL_OK;
    fli_chart_line *lines = fli_alloc(t->ctx, r->count, sizeof *lines);
    if (!lines) return FL_ENOMEM;
    for (size_t k = 0; k < r->count && !status; k++)
        status = fli_series_points(t->ctx, &r->series[k], x, y, &lines[k].points, &lines[k].count);
    if (!status) status = fli_chart_lines(t, r, x, y, lines, for_page);
    for (size_t k = 0; k < r->count; k++) fli_free(lines[k].points);
    fli_free(lines);
    return status;
}

/* ==== from rows to the points of a line ===================================================================== */

/* Mean and spread over the runs of a series. */

/* The values of one row over runs. */
typedef struct {
    double *v; /* room for one per run */
    size_t n;
} sample;

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* The quantile of sorted values, interpolated between neighbours. */
static double quantile(const sample *s, double q)
{
    size_t i = (size_t)(q * (double)(s->n - 1));
    double part = q * (double)(s->n - 1) - (double)i;
    if (i + 1 >= s->n) return s->v[s->n - 1];
    return (1 - part) * s->v[i] + part * s->v[i + 1]; /* without a difference, which might overflow */
}

/* Two passes, because the values of converged runs differ in their last digits only. */
static void spread(fli_curve_point *p, sample *s)
{
    double squares = 0;
    for (size_t k = 0; k < s->n; k++) squares += (s->v[k] - p->mean) * (s->v[k] - p->mean);
    double deviation = s->n > 1 ? sqrt(squares / (double)(s->n - 1)) : 0;
    if (!isfinite(deviation)) deviation = 0; /* a diverging run: the square overflows before the value */
    p->low = p->mean - deviation;
    p->high = p->mean + deviation;
    qsort(s->v, s->n, sizeof *s->v, ascending);
    p->q10 = quantile(s, 0.1);
    p->q90 = quantile(s, 0.9);
}

/* The point of row `i`, over the runs that have it, for the metrics at indices x and y. */
static fli_curve_point point_at(const fli_series *s, size_t x, size_t y, size_t i, double *room)
{
    fli_curve_point p = {.row = i};
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
                            fli_curve_point **points, size_t *count)
{
    size_t rows = longest(s), n = 0, at_x = fl_metric_place(x), at_y = fl_metric_place(y);
    *points = NULL;
    *count = 0;
    fli_curve_point *p = fli_alloc(ctx, rows, sizeof *p);
    double *room = fli_alloc(ctx, s->count, sizeof *room);
    if (!p || !room) {
        fli_free(p);
        fli_free(room);
        return FL_ENOMEM;
    }
    for (size_t i = 0; i < rows; i++) {
        fli_curve_point at = point_at(s, at_x, at_y, i, room);
        /* After a run has ended, the mean x of the others may lie before the last point; a curve must not turn back. */
        int back = n > 0 && at.x < p[n - 1].x;
        if (at.n > 0 && !back) p[n++] = at;
    }
    fli_free(room);
    *points = p;
    *count = n;
    return FL_OK;
}

/* True if the row has a value of this metric. */
static int has_value(const fl_row *row, const fl_metric *m, size_t place)
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
                if (has_value(&r->series[k].curves[c].rows[i], m, place)) return 1;
    return 0;
}

/* ==== heat map: labels per client =========================================================================== */

enum { LEVELS = 10, MAP_LEFT = 46, MAP_TOP = 4, MAP_BOTTOM = 40 };

typedef struct {
    fli_text *t;
    const fli_report *r;
    double cell_width, cell_height;
    size_t most; /* samples in the largest cell */
} heatmap;

static size_t count_at(const heatmap *h, size_t client, size_t class)
{
    return h->r->histogram[client * h->r->classes + class];
}

/* 0 for no samples, else 1..LEVELS, so that a single sample is visible. */
static int heat_level(const heatmap *h, size_t count)
{
    return count == 0 ? 0 : 1 + (int)((double)(LEVELS - 1) * (double)count / (double)h->most);
}

static double opacity(int l) { return 0.08 + 0.92 * (l - 1) / (LEVELS - 1); }

/* One path per level is far smaller than one element per cell. */
static void draw_level(const heatmap *h, int l)
{
    int open = 0;
    for (size_t i = 0; i < h->r->clients; i++)
        for (size_t j = 0; j < h->r->classes; j++) {
            if (heat_level(h, count_at(h, i, j)) != l) continue;
            if (!open) fli_text_addf(h->t, "<path class=\"heat\" fill-opacity=\"%.2f\" d=\"", opacity(l));
            open = 1;
            fli_text_add(h->t, "M");
            fli_markup_number(h->t, MAP_LEFT + (double)i * h->cell_width);
            fli_text_add(h->t, " ");
            fli_markup_number(h->t, MAP_TOP + (double)j * h->cell_height);
            fli_text_addf(h->t, "h%.1fv%.1fh-%.1fz", h->cell_width - 0.6, h->cell_height - 0.6, h->cell_width - 0.6);
        }
    if (open) fli_text_add(h->t, "\"/>\n");
}

static void draw_counts(const heatmap *h)
{
    if (h->cell_width < 30 || h->cell_height < 15 || h->most > 99999) return;
    fli_text_add(h->t, "<g class=\"count\" text-anchor=\"middle\">");
    for (size_t i = 0; i < h->r->clients; i++)
        for (size_t j = 0; j < h->r->classes; j++) {
            size_t n = count_at(h, i, j);
            if (n == 0) continue;
            fli_text_addf(h->t, "<text%s x=\"%.1f\" y=\"%.1f\">%zu</text>",
                          opacity(heat_level(h, n)) > 0.5 ? " class=\"on\"" : "",
                          MAP_LEFT + ((double)i + 0.5) * h->cell_width - 0.3,
                          MAP_TOP + ((double)j + 0.5) * h->cell_height + 2.9, n);
        }
    fli_text_add(h->t, "</g>\n");
}

/* Labels need `room`, so only every n-th row or column is labelled; returns n. */
static size_t label_every(double cell, double room)
{
    static const size_t every[] = {1, 2, 5, 10, 20, 50, 100, 200, 500, 1000};
    size_t i = 0;
    while (i + 1 < sizeof every / sizeof *every && cell * (double)every[i] < room) i++;
    return every[i];
}

static void draw_labels(const heatmap *h, double width, double bottom)
{
    fli_text_add(h->t, "<g text-anchor=\"middle\">");
    for (size_t i = 0, e = label_every(h->cell_width, 26); i < h->r->clients; i += e)
        fli_text_addf(h->t, "<text x=\"%.1f\" y=\"%.1f\">%zu</text>", MAP_LEFT + ((double)i + 0.5) * h->cell_width,
                      bottom + 14, i);
    fli_text_addf(h->t, "<text class=\"title\" x=\"%.1f\" y=\"%.1f\">client</text>", (MAP_LEFT + width) / 2,
                  bottom + 32);
    fli_text_addf(h->t, "<text class=\"title\" transform=\"translate(12 %.1f) rotate(-90)\">class</text>",
                  (MAP_TOP + bottom) / 2);
    fli_text_add(h->t, "</g>\n<g text-anchor=\"end\">");
    for (size_t j = 0, e = label_every(h->cell_height, 13); j < h->r->classes; j += e)
        fli_text_addf(h->t, "<text x=\"%d\" y=\"%.1f\">%zu</text>", MAP_LEFT - 6,
                      MAP_TOP + ((double)j + 0.5) * h->cell_height + 3.8, j);
    fli_text_add(h->t, "</g>\n");
}

static void caption(const heatmap *h)
{
    fli_text_add(h->t, "<figcaption>");
    if (h->r->clients < h->r->all_clients)
        fli_text_addf(h->t, "The first %zu of %zu clients", h->r->clients, h->r->all_clients);
    else
        fli_text_addf(h->t, "All %zu clients", h->r->clients);
    fli_text_addf(h->t, ", first seed; the fullest cell holds %zu samples. ", h->most);
    fli_text_add(
        h->t, "<span class=\"ramp\">1 <svg viewBox=\"0 0 100 10\" width=\"100\" height=\"10\" aria-hidden=\"true\">");
    for (int l = 1; l <= LEVELS; l++)
        fli_text_addf(h->t, "<rect class=\"heat\" x=\"%d\" width=\"10\" height=\"10\" fill-opacity=\"%.2f\"/>",
                      10 * (l - 1), opacity(l));
    fli_text_addf(h->t, "</svg> %zu</span></figcaption>\n", h->most);
}

void fli_heatmap_svg(fli_text *t, const fli_report *r)
{
    heatmap h = {.t = t, .r = r};
    if (!r->histogram || r->clients == 0 || r->classes == 0) return;
    for (size_t i = 0; i < r->clients * r->classes; i++)
        if (r->histogram[i] > h.most) h.most = r->histogram[i];
    if (h.most == 0) return;
    h.cell_width = fmax(2.5, fmin(34, 900.0 / (double)r->clients));
    h.cell_height = fmax(6, fmin(20, 420.0 / (double)r->classes));
    double width = MAP_LEFT + h.cell_width * (double)r->clients + 4,
           bottom = MAP_TOP + h.cell_height * (double)r->classes;
    fli_text_add(
        t, "<section aria-labelledby=\"partition\">\n<h2 id=\"partition\">Who holds what</h2>\n<figure class=\"map\">");
    fli_text_add(t, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"partition\">\n");
    fli_text_addf(t, "<svg id=\"heatmap\" viewBox=\"0 0 %.1f %.1f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" ",
                  width, bottom + MAP_BOTTOM, width, bottom + MAP_BOTTOM);
    fli_text_addf(t, "data-cells=\"%d %d %.17g %.17g\" aria-label=\"samples per class and client\">\n", MAP_LEFT,
                  MAP_TOP, h.cell_width, h.cell_height);
    for (int l = 1; l <= LEVELS; l++) draw_level(&h, l);
    draw_counts(&h);
    draw_labels(&h, width, bottom);
    fli_text_add(t, "</svg></div>\n");
    caption(&h);
    fli_text_add(t, "</figure>\n</section>\n");
}

/* ==== panels: small charts of dots ========================================================================== */

enum { PANEL_WIDTH = 300, PANEL_HEIGHT = 210, PANELS_TOP = 26, TITLE_MAX = 40, WORD_MAX = 12 };

static const char ink[] = "#0072b2", winner[] = "#d55e00", grey[] = "#888888";

/* ---- axes ---------------------------------------------------------------------------------------------- */

/* Makes one tick per choice; word_labels writes the words, which come from a file. */
static void word_axis(fli_axis *a, const fli_panel *p)
{
    *a = (fli_axis){.lo = -0.5, .hi = (double)p->word_count - 0.5, .divisor = 1};
    for (size_t i = 0; i < p->word_count && a->count < FLI_TICKS_MAX; i++) {
        a->ticks[a->count++] = (fli_tick){.value = (double)i, .label = " "};
    }
}

static void x_axis(fli_axis *a, const fli_panel *p)
{
    static const fl_metric number = {.name = "setting", .title = "setting"};
    double range[2] = {p->from, p->to};
    if (p->words) {
        word_axis(a, p);
        return;
    }
    for (size_t i = 0; i < p->count; i++)
        if (isfinite(p->dots[i].x) && (!p->log || p->dots[i].x > 0)) widen(range, p->dots[i].x);
    fli_axis_init(a, &number, range[0], range[1], p->log, 0, 4);
}

/* The y axis that all panels of a row share. */
static void y_axis(fli_axis *a, const fl_metric *y, const fli_panel *row, size_t columns)
{
    double range[2] = {INFINITY, -INFINITY};
    for (size_t k = 0; k < columns; k++)
        for (size_t i = 0; row[k].x_title && i < row[k].count; i++)
            if (isfinite(row[k].dots[i].y)) widen(range, row[k].dots[i].y);
    if (range[0] > range[1]) range[0] = 0, range[1] = 1;
    int log = range[0] > 0 && (y->scale == FL_SCALE_LOG || (y->scale == FL_SCALE_WIDE && range[1] / range[0] > 1e3));
    fli_axis_init(a, y, range[0], range[1], log, 1, 5);
}

/* ---- dots ---------------------------------------------------------------------------------------------- */

static void circle(fli_text *t, double x, double y, double r, const char *fill, const char *stroke, double width)
{
    fli_text_addf(t, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"%.1f\" fill=\"%s\" stroke=\"%s\" stroke-width=\"%.1f\"/>", x,
                  y, r, fill, stroke, width);
}

static void diamond(fli_text *t, double x, double y, const char *fill, const char *stroke)
{
    fli_text_addf(t, "<path d=\"M%.1f %.1fl5 5l-5 5l-5 -5z\" fill=\"%s\" stroke=\"%s\" stroke-width=\"1.2\"/>", x,
                  y - 5, fill, stroke);
}

static void cross(fli_text *t, double x, double y)
{
    fli_text_addf(t, "<path d=\"M%.1f %.1fl6 6m0 -6l-6 6\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.2\"/>", x - 3,
                  y - 3, grey);
}

/* Dots of later rungs are larger and filled. */
static void draw_plain_dot(fli_text *t, double x, double y, size_t rung, size_t rungs)
{
    circle(t, x, y, rung + 1 == rungs ? 4 : 3, rung ? ink : "#fff", ink, 1.1);
}

/* A configured setting that is no number has no position on the axis, so it is a line. */
static void draw_level_line(const fli_frame *f, const fli_panel_dot *d)
{
    double y = frame_y(f, d->y);
    fli_text_addf(f->t,
                  "<path d=\"M%.1f %.1fH%.1f\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.1\" "
                  "stroke-dasharray=\"6 2.5\"/>",
                  f->left, y, f->right, d->mark == FLI_DOT_WINNER ? winner : "#333333");
}

static void draw_dot(const fli_frame *f, const fli_panel_dot *d, size_t rungs)
{
    double x = isfinite(d->x) ? frame_x(f, d->x) : f->left, y = isfinite(d->y) ? frame_y(f, d->y) : f->top;
    if (!isfinite(d->y)) {
        cross(f->t, x, f->top + 5);
        return;
    }
    if (!isfinite(d->x)) {
        draw_level_line(f, d);
        return;
    }
    if (d->mark == FLI_DOT_OWN)
        diamond(f->t, x, y, "#fff", "#333333");
    else if (d->mark == FLI_DOT_WINNER)
        circle(f->t, x, y, 4.5, winner, winner, 1.1);
    else
        draw_plain_dot(f->t, x, y, d->rung, rungs);
}

/* Draws marked dots last, so that nothing hides them. */
static void draw_dots(const fli_frame *f, const fli_panel *p, size_t rungs)
{
    static const fli_dot_mark order[] = {FLI_DOT_PLAIN, FLI_DOT_OWN, FLI_DOT_WINNER};
    for (size_t m = 0; m < sizeof order / sizeof *order; m++)
        for (size_t i = 0; i < p->count; i++)
            if (p->dots[i].mark == order[m]) draw_dot(f, &p->dots[i], rungs);
    fli_text_add(f->t, "\n");
}

static void word_labels(const fli_frame *f, const fli_panel *p)
{
    for (size_t i = 0; i < f->ax.count; i++) {
        fli_text_addf(f->t, "<text x=\"%.1f\" y=\"%.1f\">", frame_x(f, f->ax.ticks[i].value), f->bottom + 16);
        fli_markup_clip(f->t, p->words[i], WORD_MAX);
        fli_text_add(f->t, "</text>");
    }
}

/* ---- one panel, and a row of them ---------------------------------------------------------------------- */

static void draw_panel(fli_frame *f, const fli_panels *all, const fli_panel *p, int first)
{
    fli_text *t = f->t;
    x_axis(&f->ax, p);
    frame_grid(f);
    draw_dots(f, p, all->rungs);
    frame_axes(f);
    fli_text_add(t, "<g text-anchor=\"middle\">");
    if (p->words)
        word_labels(f, p);
    else
        frame_x_labels(f);
    fli_text_addf(t, "\n<text x=\"%.1f\" y=\"%.1f\">", (f->left + f->right) / 2, f->bottom + 32);
    frame_title(t, p->x_title, &f->ax);
    fli_text_addf(t, "</text>\n<text x=\"%.1f\" y=\"%.1f\" font-weight=\"bold\">", (f->left + f->right) / 2,
                  f->top - 7);
    fli_markup_clip(t, p->title, TITLE_MAX);
    fli_text_add(t, "</text>\n");
    if (first) {
        fli_text_addf(t, "<text transform=\"translate(%.1f %.1f) rotate(-90)\">",
                      f->left - 20 - frame_label_width(&f->ay), (f->top + f->bottom) / 2);
        frame_title(t, all->y_title, &f->ay);
        fli_text_add(t, "</text>\n");
    }
    fli_text_add(t, "</g><g text-anchor=\"end\">");
    frame_y_labels(f);
    fli_text_add(t, "</g>\n");
}

static void draw_row(fli_text *t, const fli_panels *p, size_t row)
{
    const fli_panel *panels = p->panels + row * p->columns;
    fli_frame f = {.t = t, .top = PANELS_TOP + (double)row * PANEL_HEIGHT + 24};
    f.bottom = f.top + PANEL_HEIGHT - 70;
    size_t left = p->count - row * p->columns, columns = left < p->columns ? left : p->columns;
    y_axis(&f.ay, p->y, panels, columns);
    for (size_t k = 0; k < columns; k++) {
        if (!panels[k].x_title) continue;
        f.left = (double)k * PANEL_WIDTH + 64;
        f.right = (double)(k + 1) * PANEL_WIDTH - 12;
        draw_panel(&f, p, &panels[k], k == 0);
    }
}

/* ---- legend -------------------------------------------------------------------------------------------- */

static double panels_legend_entry(fli_text *t, double x, const char *words)
{
    fli_text_addf(t, "<text x=\"%.1f\" y=\"17.8\">%s</text>\n", x + 9, words);
    return x + 9 + frame_width(words, SIZE_MAX) + 16;
}

static void draw_panels_legend(fli_text *t, const fli_panels *p)
{
    char words[64];
    double x = 16, y = 14;
    circle(t, x, y, 4.5, winner, winner, 1.1);
    x = panels_legend_entry(t, x, "best");
    diamond(t, x, y, "#fff", "#333333");
    x = panels_legend_entry(t, x, "as it was");
    for (size_t i = 0; i < p->rungs; i++) {
        if (i && i + 1 < p->rungs) continue; /* those between look alike and are left out */
        draw_plain_dot(t, x, y, i, p->rungs);
        fli_snprintf(words, sizeof words, "%zu seed%s", p->seeds[i], p->seeds[i] == 1 ? "" : "s");
        x = panels_legend_entry(t, x, words);
    }
    cross(t, x, y);
    panels_legend_entry(t, x, "diverged or not reached");
}

fl_status fli_panels_svg(fli_text *t, const fli_panels *p)
{
    size_t rows = p->columns ? (p->count + p->columns - 1) / p->columns : 0;
    double width = fmax((double)p->columns * PANEL_WIDTH, 440), height = PANELS_TOP + (double)rows * PANEL_HEIGHT + 4;
    fli_text_add(t, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    fli_text_addf(t,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
                  "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"%d\" fill=\"#222\">\n<title>",
                  width, height, width, height, FLI_FONT);
    fli_markup_text(t, p->title);
    fli_text_addf(t, "</title>\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", width, height);
    draw_panels_legend(t, p);
    for (size_t r = 0; r < rows; r++) draw_row(t, p, r);
    fli_text_add(t, "</svg>\n");
    return fli_text_ok(t);
}
