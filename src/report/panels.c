#include "report/panels.h"

#include "base/number.h"
#include "report/frame.h"
#include "report/markup.h"

#include <math.h>
#include <string.h>

enum { WIDTH = 300, HEIGHT = 210, LEGEND = 26, TITLE_MAX = 40, WORD_MAX = 12 };

static const char ink[] = "#0072b2", winner[] = "#d55e00", lost[] = "#888888";

/* ---- axes ---------------------------------------------------------------------------------------------- */

static void include(double range[2], double v)
{
    if (v < range[0]) range[0] = v;
    if (v > range[1]) range[1] = v;
}

/* One tick per choice; its word comes from a file and is written by word_labels. */
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
        if (isfinite(p->dots[i].x) && (!p->log || p->dots[i].x > 0)) include(range, p->dots[i].x);
    fli_axis_init(a, &number, range[0], range[1], p->log, 0, 4);
}

/* Of all panels of a row. */
static void y_axis(fli_axis *a, const fl_metric *y, const fli_panel *row, size_t columns)
{
    double range[2] = {INFINITY, -INFINITY};
    for (size_t k = 0; k < columns; k++)
        for (size_t i = 0; row[k].x_title && i < row[k].count; i++)
            if (isfinite(row[k].dots[i].y)) include(range, row[k].dots[i].y);
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
                  y - 3, lost);
}

/* The later its rung, the larger and the fuller. */
static void plain(fli_text *t, double x, double y, size_t rung, size_t rungs)
{
    circle(t, x, y, rung + 1 == rungs ? 4 : 3, rung ? ink : "#fff", ink, 1.1);
}

/* The setting as it was has no place on the axis when it is no number. */
static void level(const fli_frame *f, const fli_spot *d)
{
    double y = fli_frame_y(f, d->y);
    fli_text_addf(f->t,
                  "<path d=\"M%.1f %.1fH%.1f\" fill=\"none\" stroke=\"%s\" stroke-width=\"1.1\" "
                  "stroke-dasharray=\"6 2.5\"/>",
                  f->left, y, f->right, d->mark == FLI_SPOT_WINNER ? winner : "#333333");
}

static void draw_dot(const fli_frame *f, const fli_spot *d, size_t rungs)
{
    double x = isfinite(d->x) ? fli_frame_x(f, d->x) : f->left, y = isfinite(d->y) ? fli_frame_y(f, d->y) : f->top;
    if (!isfinite(d->y)) {
        cross(f->t, x, f->top + 5);
        return;
    }
    if (!isfinite(d->x)) {
        level(f, d);
        return;
    }
    if (d->mark == FLI_SPOT_OWN)
        diamond(f->t, x, y, "#fff", "#333333");
    else if (d->mark == FLI_SPOT_WINNER)
        circle(f->t, x, y, 4.5, winner, winner, 1.1);
    else
        plain(f->t, x, y, d->rung, rungs);
}

/* The marked ones last, so that nothing hides them. */
static void draw_dots(const fli_frame *f, const fli_panel *p, size_t rungs)
{
    static const fli_spot_mark order[] = {FLI_SPOT_PLAIN, FLI_SPOT_OWN, FLI_SPOT_WINNER};
    for (size_t m = 0; m < sizeof order / sizeof *order; m++)
        for (size_t i = 0; i < p->count; i++)
            if (p->dots[i].mark == order[m]) draw_dot(f, &p->dots[i], rungs);
    fli_text_add(f->t, "\n");
}

static void word_labels(const fli_frame *f, const fli_panel *p)
{
    for (size_t i = 0; i < f->ax.count; i++) {
        fli_text_addf(f->t, "<text x=\"%.1f\" y=\"%.1f\">", fli_frame_x(f, f->ax.ticks[i].value), f->bottom + 16);
        fli_markup_clip(f->t, p->words[i], WORD_MAX);
        fli_text_add(f->t, "</text>");
    }
}

/* ---- panels -------------------------------------------------------------------------------------------- */

static void draw_panel(fli_frame *f, const fli_panels *all, const fli_panel *p, int first)
{
    fli_text *t = f->t;
    x_axis(&f->ax, p);
    fli_frame_grid(f);
    draw_dots(f, p, all->rungs);
    fli_frame_axes(f);
    fli_text_add(t, "<g text-anchor=\"middle\">");
    if (p->words)
        word_labels(f, p);
    else
        fli_frame_x_labels(f);
    fli_text_addf(t, "\n<text x=\"%.1f\" y=\"%.1f\">", (f->left + f->right) / 2, f->bottom + 32);
    fli_frame_title(t, p->x_title, &f->ax);
    fli_text_addf(t, "</text>\n<text x=\"%.1f\" y=\"%.1f\" font-weight=\"bold\">", (f->left + f->right) / 2,
                  f->top - 7);
    fli_markup_clip(t, p->title, TITLE_MAX);
    fli_text_add(t, "</text>\n");
    if (first) {
        fli_text_addf(t, "<text transform=\"translate(%.1f %.1f) rotate(-90)\">",
                      f->left - 20 - fli_frame_label_width(&f->ay), (f->top + f->bottom) / 2);
        fli_frame_title(t, all->y_title, &f->ay);
        fli_text_add(t, "</text>\n");
    }
    fli_text_add(t, "</g><g text-anchor=\"end\">");
    fli_frame_y_labels(f);
    fli_text_add(t, "</g>\n");
}

static void draw_row(fli_text *t, const fli_panels *p, size_t row)
{
    const fli_panel *panels = p->panels + row * p->columns;
    fli_frame f = {.t = t, .top = LEGEND + (double)row * HEIGHT + 24};
    f.bottom = f.top + HEIGHT - 70;
    size_t left = p->count - row * p->columns, columns = left < p->columns ? left : p->columns;
    y_axis(&f.ay, p->y, panels, columns);
    for (size_t k = 0; k < columns; k++) {
        if (!panels[k].x_title) continue;
        f.left = (double)k * WIDTH + 64;
        f.right = (double)(k + 1) * WIDTH - 12;
        draw_panel(&f, p, &panels[k], k == 0);
    }
}

/* ---- legend -------------------------------------------------------------------------------------------- */

static double entry(fli_text *t, double x, const char *words)
{
    fli_text_addf(t, "<text x=\"%.1f\" y=\"17.8\">%s</text>\n", x + 9, words);
    return x + 9 + fli_frame_width(words, SIZE_MAX) + 16;
}

static void legend(fli_text *t, const fli_panels *p)
{
    char words[64];
    double x = 16, y = 14;
    circle(t, x, y, 4.5, winner, winner, 1.1);
    x = entry(t, x, "best");
    diamond(t, x, y, "#fff", "#333333");
    x = entry(t, x, "as it was");
    for (size_t i = 0; i < p->rungs; i++) {
        if (i && i + 1 < p->rungs) continue; /* those between look alike */
        plain(t, x, y, i, p->rungs);
        fli_snprintf(words, sizeof words, "%zu seed%s", p->seeds[i], p->seeds[i] == 1 ? "" : "s");
        x = entry(t, x, words);
    }
    cross(t, x, y);
    entry(t, x, "diverged, or never there");
}

fl_status fli_panels_svg(fli_text *t, const fli_panels *p)
{
    size_t rows = p->columns ? (p->count + p->columns - 1) / p->columns : 0;
    double width = fmax((double)p->columns * WIDTH, 440), height = LEGEND + (double)rows * HEIGHT + 4;
    fli_text_add(t, "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    fli_text_addf(t,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%.0f\" height=\"%.0f\" viewBox=\"0 0 %.0f %.0f\" "
                  "font-family=\"Helvetica, Arial, sans-serif\" font-size=\"%d\" fill=\"#222\">\n<title>",
                  width, height, width, height, FLI_FONT);
    fli_markup_text(t, p->title);
    fli_text_addf(t, "</title>\n<rect width=\"%.0f\" height=\"%.0f\" fill=\"#fff\"/>\n", width, height);
    legend(t, p);
    for (size_t r = 0; r < rows; r++) draw_row(t, p, r);
    fli_text_add(t, "</svg>\n");
    return fli_text_ok(t);
}
