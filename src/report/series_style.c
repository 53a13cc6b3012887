/* The style of series: colours, dashes, markers, and the elements that have them. */
#include "report/internal.h"

/* The colours of Okabe and Ito without the yellow and the second blue, darkened where they are too faint for thin lines
 * on white; then hues between them. No two are shades of one colour. */
const fli_colour fli_colours[FLI_COLOURS] = {
    {"#0072b2", "#57aef0"}, {"#d55e00", "#ff8f52"}, {"#009e73", "#33c99b"}, {"#c5649a", "#eb9fcb"},
    {"#bd8200", "#f0b83c"}, {"#333333", "#d9dbde"}, {"#7a52c7", "#b79bff"}, {"#c0182c", "#ff7a85"},
    {"#6f7d00", "#c3d13e"}, {"#00838f", "#52d3e0"},
};

/* The first is solid and lies below the others: where lines coincide, it shows through their gaps. */
const char *const fli_dashes[FLI_DASHES] = {"none", "7 5", "2 3", "10 3 2 3", "14 6", "4 3 1.5 3 1.5 3", "4 4"};

const char *const fli_markers[FLI_MARKERS] = {
    "m-2.4 0a2.4 2.4 0 1 0 4.8 0a2.4 2.4 0 1 0 -4.8 0z", /* circle */
    "m-2.2 -2.2h4.4v4.4h-4.4z",                          /* square */
    "m0 -2.9l2.8 4.9h-5.6z",                             /* triangle */
    "m0 -3.1l3.1 3.1l-3.1 3.1l-3.1 -3.1z",               /* diamond */
    "m0 2.9l2.8 -4.9h-5.6z",                             /* triangle, point down */
    "m-2.9 0h5.8m-2.9 -2.9v5.8",                         /* plus */
    "m-2.3 -2.3l4.6 4.6m0 -4.6l-4.6 4.6",                /* cross */
};

/* The numbers of colours and dashes are coprime, so pairs repeat late. */
size_t fli_style_colour(size_t k) { return k % FLI_COLOURS; }
size_t fli_style_dash(size_t k) { return k % FLI_DASHES; }

void fli_style_marker(fli_text *t, size_t k, double x, double y)
{
    fli_text_add(t, "M");
    fli_markup_number(t, x);
    fli_text_add(t, " ");
    fli_markup_number(t, y);
    fli_text_add(t, fli_markers[k % FLI_MARKERS]);
}

void fli_style_line(fli_text *t, size_t k, int for_page)
{
    if (for_page) {
        fli_text_addf(t, "<path class=\"line d%zu\" d=\"", fli_style_dash(k));
        return;
    }
    fli_text_addf(t, "<path fill=\"none\" stroke=\"%s\" stroke-width=\"1.4\" stroke-linejoin=\"round\"",
                  fli_colours[fli_style_colour(k)].light);
    if (fli_style_dash(k) > 0) fli_text_addf(t, " stroke-dasharray=\"%s\"", fli_dashes[fli_style_dash(k)]);
    fli_text_add(t, " d=\"");
}

void fli_style_marks(fli_text *t, size_t k, int for_page)
{
    if (for_page)
        fli_text_add(t, "<path class=\"mark\" d=\"");
    else
        fli_text_addf(t, "<path fill=\"#fff\" stroke=\"%s\" stroke-width=\"1.1\" d=\"",
                      fli_colours[fli_style_colour(k)].light);
}

void fli_style_band(fli_text *t, size_t k, int for_page)
{
    if (for_page)
        fli_text_add(t, "<path class=\"band\" d=\"");
    else
        fli_text_addf(t, "<path fill=\"%s\" fill-opacity=\"0.16\" d=\"", fli_colours[fli_style_colour(k)].light);
}

void fli_style_key(fli_text *t, size_t k, double x, double y, int for_page)
{
    fli_style_line(t, k, for_page);
    fli_text_add(t, "M");
    fli_markup_number(t, x);
    fli_text_add(t, " ");
    fli_markup_number(t, y);
    fli_text_add(t, "h26\"/>");
    fli_style_marks(t, k, for_page);
    fli_style_marker(t, k, x + 13, y);
    fli_text_add(t, "\"/>");
}

void fli_page_key(fli_text *t, size_t k)
{
    fli_text_addf(t, "<svg class=\"key c%zu\" viewBox=\"0 0 26 12\" width=\"26\" height=\"12\" aria-hidden=\"true\">",
                  fli_style_colour(k));
    fli_style_key(t, k, 0, 6, 1);
    fli_text_add(t, "</svg>");
}
