#include "report/frame.h"

#include "report/markup.h"

#include <math.h>
#include <string.h>

double fli_frame_x(const fli_frame *f, double v) { return f->left + (f->right - f->left) * fli_axis_place(&f->ax, v); }
double fli_frame_y(const fli_frame *f, double v)
{
    return f->bottom - (f->bottom - f->top) * fli_axis_place(&f->ay, v);
}

/* ---- text ---------------------------------------------------------------------------------------------- */

/* A label with its exponent raised and its minus signs in the right length. */
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

void fli_frame_title(fli_text *t, const char *title, const fli_axis *a)
{
    fli_markup_text(t, title);
    if (a->unit[0]) {
        fli_text_add(t, strncmp(a->unit, "10^", 3) ? " (" : " (in ");
        add_label(t, a->unit);
        fli_text_add(t, strchr(a->unit, '^') ? "<tspan dy=\"4\">)</tspan>" : ")");
    }
    if (a->log) fli_text_add(t, ", log scale");
}

double fli_frame_width(const char *s, size_t most)
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

double fli_frame_label_width(const fli_axis *a)
{
    double widest = 0;
    for (size_t i = 0; i < a->count; i++) widest = fmax(widest, fli_frame_width(a->ticks[i].label, SIZE_MAX));
    return widest;
}

/* ---- lines --------------------------------------------------------------------------------------------- */

/* The path of all grid lines or tick marks of one kind; `x`: of the x axis. */
static void tick_path(const fli_frame *f, int x, int major, double out, double in)
{
    const fli_axis *a = x ? &f->ax : &f->ay;
    for (size_t i = 0; i < a->count; i++) {
        if ((a->ticks[i].label[0] != 0) != major) continue;
        if (x)
            fli_text_addf(f->t, "M%.1f %.1fV%.1f", fli_frame_x(f, a->ticks[i].value), f->bottom + out, f->bottom - in);
        else
            fli_text_addf(f->t, "M%.1f %.1fH%.1f", f->left - out, fli_frame_y(f, a->ticks[i].value), f->left + in);
    }
}

void fli_frame_grid(const fli_frame *f)
{
    fli_text *t = f->t;
    fli_text_add(t, f->for_page ? "<path class=\"grid\" d=\"" : "<path stroke=\"#e0e0e0\" stroke-width=\"0.6\" d=\"");
    tick_path(f, 1, 1, 0, f->bottom - f->top);
    tick_path(f, 0, 1, 0, f->right - f->left);
    fli_text_add(t, "\"/>\n");
}

void fli_frame_axes(const fli_frame *f)
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

void fli_frame_x_labels(const fli_frame *f)
{
    for (size_t i = 0; i < f->ax.count; i++) {
        fli_text_addf(f->t, "<text x=\"%.1f\" y=\"%.1f\">", fli_frame_x(f, f->ax.ticks[i].value), f->bottom + 16);
        add_label(f->t, f->ax.ticks[i].label);
        fli_text_add(f->t, "</text>");
    }
}

void fli_frame_y_labels(const fli_frame *f)
{
    for (size_t i = 0; i < f->ay.count; i++) {
        if (!f->ay.ticks[i].label[0]) continue;
        fli_text_addf(f->t, "<text x=\"%.1f\" y=\"%.1f\">", f->left - 7, fli_frame_y(f, f->ay.ticks[i].value) + 3.8);
        add_label(f->t, f->ay.ticks[i].label);
        fli_text_add(f->t, "</text>");
    }
}
