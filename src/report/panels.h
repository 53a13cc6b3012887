/* Small charts side by side: dots of a quantity against a setting, a row of panels per method. What was tried in a
 * tuning looks like this. */
#ifndef FLI_REPORT_PANELS_H
#define FLI_REPORT_PANELS_H

#include "report/report.h"

typedef enum { FLI_SPOT_PLAIN, FLI_SPOT_OWN, FLI_SPOT_WINNER } fli_spot_mark;

typedef struct {
    double x, y;        /* y NaN: it never got there; x NaN: the setting is no number, the dot is a level line */
    size_t rung;        /* the later, the stronger the dot */
    fli_spot_mark mark; /* the setting as it was, the best one, or any other */
} fli_spot;

typedef struct {
    const char *title;        /* above it; "" : none */
    const char *x_title;      /* the setting */
    double from, to;          /* its range; dots outside widen it */
    int log;                  /* a logarithmic x axis */
    const char *const *words; /* choices instead of numbers: x counts them from 0; NULL: numbers */
    size_t word_count;
    const fli_spot *dots;
    size_t count;
} fli_panel;

typedef struct {
    const char *title;
    const fl_metric *y;
    const char *y_title;
    size_t columns;          /* panels per row */
    const fli_panel *panels; /* row by row; x_title NULL: the place stays empty */
    size_t count;
    const size_t *seeds; /* of each rung, for the legend */
    size_t rungs;
} fli_panels;

/* A stand-alone SVG document. Panels of a row share the y axis. */
fl_status fli_panels_svg(fli_text *t, const fli_panels *p);

#endif
