/* The description of a comparison for a reader: curves, a table, the partition, the configurations. All that draws or
 * writes (page, charts, event files) takes one. No code here runs or loads anything. */
#ifndef FLI_REPORT_REPORT_H
#define FLI_REPORT_REPORT_H

#include "base/text.h"

#include <stdint.h>

/* A client at the end of a run. */
typedef struct {
    uint32_t client;
    size_t samples;
    double accuracy; /* of the model that it would use, on its own samples; NaN: not measured */
} fli_client_end;

/* One run: the measured rows, oldest first. Few or none during the run. */
typedef struct {
    uint64_t seed;
    const fl_row *rows;
    size_t count;
    double begun; /* start, in seconds since 1970; 0: unknown */
    const fli_client_end *clients;
    size_t client_count; /* 0: unknown, or the run has not ended */
} fli_curve;

/* One method at one setting, over several seeds. */
typedef struct {
    const char *label;
    const fli_curve *curves;
    size_t count;
    const char *config; /* resolved configuration of the first seed, YAML */
    size_t row;         /* its row in the table; 0: none */
} fli_series;

/* A table of texts: row-major, `columns` cells per row; row 0 is the header. */
typedef struct {
    const char *const *cells;
    size_t rows, columns;
    const fl_better *better; /* per column: which numbers are better; NULL: none */
    /* The numbers behind the cells, in the unit shown: one per row below the header, column and seed; NaN if a seed has
     * none. NULL: unknown. */
    const double *values;
    size_t seeds;
    const unsigned char *chosen; /* per row below the header: this setting stands for its method; NULL: there is one
                                  * setting of each */
    size_t goal;                 /* the column by which methods are judged; 0: none */
    /* For the goal's column: the score of always answering the largest class of the test samples, and how far above it
     * a score may be by chance, for this number of samples. 0: unknown, or the goal is no accuracy. */
    double chance, chance_noise;
} fli_grid;

/* A line about the problem, such as "clients", "50 of 12 to 300 samples". */
typedef struct {
    const char *name, *value;
} fli_fact;

typedef struct {
    const char *title;
    const char *description; /* "" : none */
    const fli_series *series;
    size_t count;
    fli_grid table;
    /* Samples per client (rows) and class (columns) of the first seed; NULL for regression */
    const size_t *histogram;
    size_t clients, classes; /* clients shown, from client 0 on; classes */
    size_t all_clients;
    /* Samples per client as the clients of a server claim, which the server cannot count; NULL: samples are here. */
    const size_t *claims;
    size_t claim_count;
    const char *machine; /* one line */
    const fli_fact *facts;
    size_t fact_count;
    int live; /* the comparison is running; the served page refreshes itself */
    size_t runs_done, runs_planned;
    const char *stopped; /* stopped early, on request, as in "after round 30 of 50"; NULL: not, or still live */
} fli_report;

/* ---- curves -------------------------------------------------------------------------------------------- */

/* The views FL_VIEW_CHART and FL_VIEW_AXIS of a metric allow it on the y axis and on the x axis. Numbers with a unit
 * are shown in a suitable multiple: kB, MB, GB; ms, s, min, h. A share lies in 0..1, and so does its axis. */
static inline const char *fli_y_name(const fl_metric *m) { return m->shown[FL_VIEW_CHART].label; }
static inline const char *fli_x_name(const fl_metric *m) { return m->shown[FL_VIEW_AXIS].label; }

/* Mean and spread of a series over its runs at one measured row. The i-th rows of all runs belong together; runs
 * without an i-th row are left out, as are non-finite values, and points that would lie before the previous point. n is
 * the number of runs that remain (0: no point). */
typedef struct {
    size_t row;                /* index of the row */
    double x, mean, low, high; /* low, high: mean -+ one standard deviation over runs (equal to mean for one run) */
    double q10, q90;           /* quantiles over runs, always within the values: bands of logarithmic axes */
    size_t n;
} fli_curve_point;

/* The points of a series, in memory from fli_alloc that the caller frees; *count may be 0. */
fl_status fli_series_points(fl_ctx *ctx, const fli_series *s, const fl_metric *x, const fl_metric *y,
                            fli_curve_point **points, size_t *count);
/* True if some run has measured m; a metric that no run has measured is neither drawn nor offered. */
int fli_report_has(const fli_report *r, const fl_metric *m);

/* ---- output -------------------------------------------------------------------------------------------- */

/* One chart as a stand-alone SVG document (for_page 0), or as an element for the page (for_page 1: with classes and ids
 * instead of colours, so that the page's style, light and dark mode and legend apply). */
fl_status fli_chart_svg(fli_text *t, const fli_report *r, const fl_metric *x, const fl_metric *y, int for_page);

/* The whole page as self-contained HTML that loads nothing. */
fl_status fli_page_html(fli_text *t, const fli_report *r);

/* Writes the scalars of one run as a TensorBoard event file. A failure leaves no partial file. */
fl_status fli_events_write(fl_ctx *ctx, const char *folder, const fli_curve *curve);

/* ---- live ---------------------------------------------------------------------------------------------- */

/* Serves the newest page on 127.0.0.1 while a comparison runs. */
typedef struct fli_live fli_live;
/* port 0 picks a free port. */
fl_status fli_live_new(fl_ctx *ctx, uint16_t port, fli_live **out);
void fli_live_free(fli_live *l);
uint16_t fli_live_port(const fli_live *l);
/* Replaces the page by a copy of `html`, also while readers are served. */
fl_status fli_live_publish(fli_live *l, const char *html);

#endif
