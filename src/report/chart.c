/* One chart: a quantity over another, a line per series with a band of one standard deviation, or between quantiles on
 * a logarithmic axis.
 *
 * A stand-alone chart carries its colours and its legend. A chart for the page carries classes (coloured by page.css),
 * and its legend is the page's; with JavaScript the page draws it anew (js/chart.js), for other axes and ranges. */
#include "report/chart.h"
#include "report/frame.h"
#include "report/series_style.h"
#include "report/markup.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDTH = 480, HEIGHT = 300, LEGEND_ROW = 16, KEY = 26 };

typedef struct {
    fli_frame f;
    const fli_report *r;
    const fl_metric *x, *y;
    const fli_line *lines; /* one per series */
    int empty;             /* no series has a point */
    double height;
} chart;

/* ---- ranges -------------------------------------------------------------------------------------------- */

static void include(double range[2], double v)
{
    if (v < range[0]) range[0] = v;
    if (v > range[1]) range[1] = v;
}

static int wants_log(const fl_metric *y, const double mean[2])
{
    if (!(mean[0] > 0)) return 0;
    return y->scale == FL_SCALE_LOG || (y->scale == FL_SCALE_WIDE && mean[1] / mean[0] > 1e3);
}

/* Mean minus deviation may be any tiny number, or below 0: on a logarithmic axis the band is between quantiles. */
static double low_of(const chart *c, const fli_point *p) { return c->f.ay.log ? p->q10 : p->low; }
static double high_of(const chart *c, const fli_point *p) { return c->f.ay.log ? p->q90 : p->high; }

static void set_axes(chart *c)
{
    double x[2] = {INFINITY, -INFINITY}, mean[2] = {INFINITY, -INFINITY}, all[2];
    for (size_t k = 0; k < c->r->count; k++)
        for (size_t i = 0; i < c->lines[k].count; i++) {
            include(x, c->lines[k].points[i].x);
            include(mean, c->lines[k].points[i].mean);
        }
    c->empty = x[0] > x[1];
    if (c->empty) x[0] = mean[0] = 0, x[1] = mean[1] = 1;
    c->f.ay.log = !c->empty && wants_log(c->y, mean);
    memcpy(all, mean, sizeof all);
    for (size_t k = 0; k < c->r->count; k++)
        for (size_t i = 0; i < c->lines[k].count; i++) {
            double low = low_of(c, &c->lines[k].points[i]);
            if (!c->f.ay.log || low > 0) include(all, low);
            include(all, high_of(c, &c->lines[k].points[i]));
        }
    fli_axis_init(&c->f.ax, c->x, x[0], x[1], 0, 0, 6);
    fli_axis_init(&c->f.ay, c->y, all[0], all[1], c->f.ay.log, 1, 6);
}

/* ---- legend of a stand-alone chart --------------------------------------------------------------------- */

enum { LABEL_MAX = 64 }; /* characters shown of a label: what fits one row */

static double entry_width(const fli_series *s) { return KEY + 6 + fli_frame_width(s->label, LABEL_MAX) + 14; }

/* Entries stand in columns if at least three fit side by side, else one after the other; 0: no columns. */
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

/* Lays the entries out in rows; draws them if `draw`. Returns the number of rows. */
static size_t legend(const chart *c, int draw)
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
            fli_text_addf(c->f.t, "<text x=\"%.1f\" y=\"%.1f\">", x + KEY + 6, y + 4);
            fli_markup_clip(c->f.t, s->label, LABEL_MAX);
            fli_text_add(c->f.t, "</text>\n");
        }
        x += width;
    }
    return rows;
}

static void lay_out(chart *c)
{
    c->f.left = 30 + fli_frame_label_width(&c->f.ay);
    if (c->f.for_page && c->f.left < 54) c->f.left = 54; /* charts one below the other line up */
    c->f.right = WIDTH - 16;
    c->f.top = 10;
    if (!c->f.for_page) c->f.top += (double)legend(c, 0) * LEGEND_ROW;
    c->height = HEIGHT - 10 + c->f.top;
    c->f.bottom = c->height - 40;
}

/* ---- frame --------------------------------------------------------------------------------------------- */

/* What it shows, and what the lines come to, for those who cannot see it. */
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
        const fli_line *l = &c->lines[k];
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
                  WIDTH, c->height, c->f.left, c->f.top, c->f.right, c->f.bottom, c->f.ay.log);
    add_description(c);
}

static void open_svg(const chart *c)
{
    fli_text *t = c->f.t;
    fli_text_add(t, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    fli_text_addf(t,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%.0f\" viewBox=\"0 0 %d %.0f\" "
                  "role=\"img\" font-family=\"Helvetica, Arial, sans-serif\" font-size=\"%d\" fill=\"#222\">\n",
                  WIDTH, c->height, WIDTH, c->height, FLI_FONT);
    add_description(c);
    fli_text_addf(t, "<rect width=\"%d\" height=\"%.0f\" fill=\"#fff\"/>\n", WIDTH, c->height);
}

static void draw_texts(const chart *c)
{
    fli_text *t = c->f.t;
    double middle = (c->f.top + c->f.bottom) / 2;
    fli_text_add(t, "<g text-anchor=\"middle\">\n");
    fli_frame_x_labels(&c->f);
    fli_text_addf(t, "\n<text class=\"title\" x=\"%.1f\" y=\"%.1f\">", (c->f.left + c->f.right) / 2, c->height - 7);
    fli_frame_title(t, c->x->title, &c->f.ax);
    fli_text_addf(t, "</text>\n<text class=\"title\" transform=\"translate(12 %.1f) rotate(-90)\">", middle);
    fli_frame_title(t, c->y->title, &c->f.ay);
    fli_text_add(t, "</text>\n");
    if (c->empty)
        fli_text_addf(t, "<text x=\"%.1f\" y=\"%.1f\">nothing measured yet</text>\n", (c->f.left + c->f.right) / 2,
                      middle);
    fli_text_add(t, "</g>\n<g text-anchor=\"end\">");
    fli_frame_y_labels(&c->f);
    fli_text_add(t, "</g>\n");
}

/* ---- series -------------------------------------------------------------------------------------------- */

static void add_xy(const chart *c, double x, double v)
{
    fli_markup_number(c->f.t, x);
    fli_text_add(c->f.t, " ");
    fli_markup_number(c->f.t, fli_frame_y(&c->f, v));
}

/* Points that share a column of the picture, as wide as a line: a long run has many. */
static size_t column_end(const chart *c, const fli_line *l, size_t i)
{
    double column = floor(fli_frame_x(&c->f, l->points[i].x));
    while (i < l->count && floor(fli_frame_x(&c->f, l->points[i].x)) == column) i++;
    return i;
}

/* Of a column only the first, least, greatest and last point are drawn, in their order: it looks the same. */
static void draw_line(const chart *c, size_t k)
{
    const fli_line *l = &c->lines[k];
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
            add_xy(c, fli_frame_x(&c->f, l->points[j].x), l->points[j].mean);
        }
    }
    fli_text_add(c->f.t, "\"/>");
}

static void draw_band(const chart *c, size_t k)
{
    const fli_line *l = &c->lines[k];
    size_t begin = 0, wide = 0;
    for (size_t i = 0; i < l->count; i++) wide += high_of(c, &l->points[i]) > low_of(c, &l->points[i]);
    if (wide == 0 || l->count < 2) return;
    fli_style_band(c->f.t, k, c->f.for_page);
    for (size_t i = 0, end; i < l->count; i = end) {
        double high = high_of(c, &l->points[i]);
        end = column_end(c, l, i);
        for (size_t j = i; j < end; j++) high = fmax(high, high_of(c, &l->points[j]));
        fli_text_add(c->f.t, i == 0 ? "M" : "L");
        add_xy(c, fli_frame_x(&c->f, l->points[i].x), high);
    }
    for (size_t end = l->count; end > 0; end = begin) {
        double low = low_of(c, &l->points[end - 1]), column = floor(fli_frame_x(&c->f, l->points[end - 1].x));
        for (begin = end; begin > 0 && floor(fli_frame_x(&c->f, l->points[begin - 1].x)) == column; begin--)
            low = fmin(low, low_of(c, &l->points[begin - 1]));
        fli_text_add(c->f.t, "L");
        add_xy(c, fli_frame_x(&c->f, l->points[begin].x), low);
    }
    fli_text_add(c->f.t, "z\"/>");
}

/* Few points are all marked; of many a handful, at other places for each series so that the marks do not meet. */
static void draw_marks(const chart *c, size_t k)
{
    const fli_line *l = &c->lines[k];
    double spacing = l->count <= 12 ? 0 : (c->f.right - c->f.left) / 6;
    double next = c->f.left + spacing * (0.15 + 0.8 * fmod((double)k * 0.381966, 1));
    int some = 0;
    fli_style_marks(c->f.t, k, c->f.for_page);
    for (size_t i = 0; i < l->count; i++) {
        double x = fli_frame_x(&c->f, l->points[i].x);
        if (x < next && (some || i + 1 < l->count)) continue;
        fli_style_marker(c->f.t, k, x, fli_frame_y(&c->f, l->points[i].mean));
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
                          const fli_line *lines, int for_page)
{
    chart c = {.f = {.t = t, .for_page = for_page}, .r = r, .x = x, .y = y, .lines = lines};
    set_axes(&c);
    lay_out(&c);
    if (for_page)
        open_page_svg(&c);
    else
        open_svg(&c);
    fli_frame_grid(&c.f);
    draw_series(&c);
    fli_frame_axes(&c.f);
    draw_texts(&c);
    if (!for_page) legend(&c, 1);
    fli_text_add(t, "</svg>\n");
    return fli_text_ok(t);
}

fl_status fli_chart_svg(fli_text *t, const fli_report *r, const fl_metric *x, const fl_metric *y, int for_page)
{
    fl_status status = FL_OK;
    fli_line *lines = fli_alloc(t->ctx, r->count, sizeof *lines);
    if (!lines) return FL_ENOMEM;
    for (size_t k = 0; k < r->count && !status; k++)
        status = fli_series_points(t->ctx, &r->series[k], x, y, &lines[k].points, &lines[k].count);
    if (!status) status = fli_chart_lines(t, r, x, y, lines, for_page);
    for (size_t k = 0; k < r->count; k++) fli_free(lines[k].points);
    fli_free(lines);
    return status;
}
