/* How the k-th series looks: colour, dash pattern, marker. Markers and dashes tell series apart in print and to
 * colour-blind readers. */
#ifndef FLI_REPORT_SERIES_STYLE_H
#define FLI_REPORT_SERIES_STYLE_H

#include "base/text.h"

enum { FLI_COLOURS = 10, FLI_DASHES = 7, FLI_MARKERS = 7 };

typedef struct {
    const char *light, *dark; /* on white, on the page's dark ground */
} fli_colour;

extern const fli_colour fli_colours[FLI_COLOURS];
extern const char *const fli_dashes[FLI_DASHES];   /* values of stroke-dasharray */
extern const char *const fli_markers[FLI_MARKERS]; /* path data, from the marker's middle */

size_t fli_style_colour(size_t k);
size_t fli_style_dash(size_t k);
/* Adds the marker of series k at (x, y) to the data of a path. */
void fli_style_marker(fli_text *t, size_t k, double x, double y);

/* The elements of series k, whose shape is the `d` of a path that the caller adds and closes with "\"/>". With
 * for_page they carry classes, else colours. */
void fli_style_line(fli_text *t, size_t k, int for_page);
void fli_style_marks(fli_text *t, size_t k, int for_page);
void fli_style_band(fli_text *t, size_t k, int for_page);
/* A piece of line with its marker, 26 units wide from x, centred on y: the key in a legend. */
void fli_style_key(fli_text *t, size_t k, double x, double y, int for_page);

#endif
