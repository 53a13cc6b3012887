/* What surrounds the data of a chart: the box, grid lines, axes with their labels. Drawn as SVG. */
#ifndef FLI_REPORT_FRAME_H
#define FLI_REPORT_FRAME_H

#include "report/axis.h"

enum { FLI_FONT = 11 }; /* size, in the chart's units */

typedef struct {
    fli_text *t;
    int for_page; /* classes instead of colours */
    fli_axis ax, ay;
    double left, right, top, bottom;
} fli_frame;

/* Where a value lies. */
double fli_frame_x(const fli_frame *f, double v);
double fli_frame_y(const fli_frame *f, double v);

void fli_frame_grid(const fli_frame *f);
void fli_frame_axes(const fli_frame *f);
/* The labels of the ticks; the caller opens a group whose texts are anchored in the middle, or at their end. */
void fli_frame_x_labels(const fli_frame *f);
void fli_frame_y_labels(const fli_frame *f);
/* An axis' title with its unit, and a word if it is logarithmic. */
void fli_frame_title(fli_text *t, const char *title, const fli_axis *a);

/* Width of at most `most` characters in a sans-serif font: a guess by kind of letter is enough to leave room. */
double fli_frame_width(const char *text, size_t most);
/* Of an axis' widest label. */
double fli_frame_label_width(const fli_axis *a);

#endif
