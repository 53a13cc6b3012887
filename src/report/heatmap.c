#include "report/page.h"

#include "report/markup.h"

#include <math.h>

enum { LEVELS = 10, LEFT = 46, TOP = 4, BOTTOM = 40 };

typedef struct {
    fli_text *t;
    const fli_report *r;
    double cell_width, cell_height;
    size_t most; /* samples in the fullest cell */
} heatmap;

static size_t count_at(const heatmap *h, size_t client, size_t class)
{
    return h->r->histogram[client * h->r->classes + class];
}

/* 0 for none, else 1..LEVELS: even a single sample shows. */
static int level(const heatmap *h, size_t count)
{
    return count == 0 ? 0 : 1 + (int)((double)(LEVELS - 1) * (double)count / (double)h->most);
}

static double opacity(int l) { return 0.08 + 0.92 * (l - 1) / (LEVELS - 1); }

/* One path per level: far smaller than an element per cell. */
static void draw_level(const heatmap *h, int l)
{
    int open = 0;
    for (size_t i = 0; i < h->r->clients; i++)
        for (size_t j = 0; j < h->r->classes; j++) {
            if (level(h, count_at(h, i, j)) != l) continue;
            if (!open) fli_text_addf(h->t, "<path class=\"heat\" fill-opacity=\"%.2f\" d=\"", opacity(l));
            open = 1;
            fli_text_add(h->t, "M");
            fli_markup_number(h->t, LEFT + (double)i * h->cell_width);
            fli_text_add(h->t, " ");
            fli_markup_number(h->t, TOP + (double)j * h->cell_height);
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
            fli_text_addf(
                h->t, "<text%s x=\"%.1f\" y=\"%.1f\">%zu</text>", opacity(level(h, n)) > 0.5 ? " class=\"on\"" : "",
                LEFT + ((double)i + 0.5) * h->cell_width - 0.3, TOP + ((double)j + 0.5) * h->cell_height + 2.9, n);
        }
    fli_text_add(h->t, "</g>\n");
}

/* Labels need `room`, so only every n-th row or column is numbered; returns n. */
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
        fli_text_addf(h->t, "<text x=\"%.1f\" y=\"%.1f\">%zu</text>", LEFT + ((double)i + 0.5) * h->cell_width,
                      bottom + 14, i);
    fli_text_addf(h->t, "<text class=\"title\" x=\"%.1f\" y=\"%.1f\">client</text>", (LEFT + width) / 2, bottom + 32);
    fli_text_addf(h->t, "<text class=\"title\" transform=\"translate(12 %.1f) rotate(-90)\">class</text>",
                  (TOP + bottom) / 2);
    fli_text_add(h->t, "</g>\n<g text-anchor=\"end\">");
    for (size_t j = 0, e = label_every(h->cell_height, 13); j < h->r->classes; j += e)
        fli_text_addf(h->t, "<text x=\"%d\" y=\"%.1f\">%zu</text>", LEFT - 6,
                      TOP + ((double)j + 0.5) * h->cell_height + 3.8, j);
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
    double width = LEFT + h.cell_width * (double)r->clients + 4, bottom = TOP + h.cell_height * (double)r->classes;
    fli_text_add(
        t, "<section aria-labelledby=\"partition\">\n<h2 id=\"partition\">Who holds what</h2>\n<figure class=\"map\">");
    fli_text_add(t, "<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-labelledby=\"partition\">\n");
    fli_text_addf(t, "<svg id=\"heatmap\" viewBox=\"0 0 %.1f %.1f\" width=\"%.0f\" height=\"%.0f\" role=\"img\" ",
                  width, bottom + BOTTOM, width, bottom + BOTTOM);
    fli_text_addf(t, "data-cells=\"%d %d %.17g %.17g\" aria-label=\"samples per class and client\">\n", LEFT, TOP,
                  h.cell_width, h.cell_height);
    for (int l = 1; l <= LEVELS; l++) draw_level(&h, l);
    draw_counts(&h);
    draw_labels(&h, width, bottom);
    fli_text_add(t, "</svg></div>\n");
    caption(&h);
    fli_text_add(t, "</figure>\n</section>\n");
}
