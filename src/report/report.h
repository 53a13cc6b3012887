/* What a comparison looks like to a reader: curves, a table, the partition, the configurations. Everything that
 * draws or writes (page, plots, event files) takes one of these. Nothing here runs or loads anything. */
#ifndef FLI_REPORT_REPORT_H
#define FLI_REPORT_REPORT_H

#include "base/text.h"

#include <stdint.h>

/* A client at the end of a run. */
typedef struct {
    uint32_t client;
    size_t samples;
    double accuracy; /* of the model it would use, on its own samples; NaN: not measured */
} fli_client_end;

/* One run: the measured rows, oldest first. May be short, or empty, while the run is under way. */
typedef struct {
    uint64_t seed;
    const fl_row *rows;
    size_t count;
    double begun; /* seconds since 1970; 0: not known */
    const fli_client_end *clients;
    size_t client_count; /* 0: not known, or it has not ended */
} fli_curve;

/* One method at one setting, over seeds. */
typedef struct {
    const char *label;
    const fli_curve *curves;
    size_t count;
    const char *config; /* resolved configuration of the first seed, YAML */
    size_t row;         /* of the table; 0: none */
} fli_series;

/* A table of texts: row-major, `columns` cells per row; the header is row 0. */
typedef struct {
    const char *const *cells;
    size_t rows, columns;
    const fl_better *better; /* per column: which numbers are the best ones; NULL: none are */
    /* The numbers behind the cells, in the unit shown: a number per row below the header, column and seed; NaN where a
     * seed has none. NULL: not known. */
    const double *values;
    size_t seeds;
    const unsigned char *chosen; /* per row below the header: this setting stands for its method; NULL: there is one
                                  * setting of each */
    size_t goal;                 /* the column that methods are judged by; 0: none */
    /* Of the goal's column: what a model has that always answers the largest class of the test samples, and how far
     * above that, in so many samples, may be chance; 0: not known, or the goal is no accuracy. */
    double chance, chance_noise;
} fli_grid;

/* A line about the problem: "clients", "50 of 12 to 300 samples". */
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
    size_t clients, classes; /* number of clients shown, from the first */
    size_t all_clients;
    /* Samples per client as the clients of a server say, which nobody else can count; NULL: samples are here. */
    const size_t *claims;
    size_t claim_count;
    const char *machine; /* one line */
    const fli_fact *facts;
    size_t fact_count;
    int live; /* the page is served while the comparison runs, and refreshes itself */
    size_t runs_done, runs_planned;
    const char *stopped; /* unless it is live: it ended early, on request, "after round 30 of 50"; NULL: it did not */
} fli_report;

/* ---- curves -------------------------------------------------------------------------------------------- */

/* What can be on the y axis and on the x axis is a view of the metrics each: FL_VIEW_CHART, FL_VIEW_AXIS. Numbers with
 * a unit are shown in the multiple that suits them: kB, MB, GB; ms, s, min, h. A share lies in 0..1, and so does its
 * axis. */
static inline const char *fli_y_name(const fl_metric *m) { return m->shown[FL_VIEW_CHART].label; }
static inline const char *fli_x_name(const fl_metric *m) { return m->shown[FL_VIEW_AXIS].label; }

/* Mean and spread of a series over its runs at one measured row: rows are matched by their place, runs that are shorter
 * drop out. Non-finite values drop out, and points that would lie before the one before them. n is the number of runs
 * that remain (0: no point). */
typedef struct {
    size_t row;                /* its place */
    double x, mean, low, high; /* low, high: mean -+ one standard deviation over runs (equal to mean for one run) */
    double q10, q90;           /* quantiles over runs, which lie between the values: bands of logarithmic axes */
    size_t n;
} fli_curve_point;

/* The points of a series; memory from fli_alloc, to be freed by the caller; *count may be 0. */
fl_status fli_series_points(fl_ctx *ctx, const fli_series *s, const fl_metric *x, const fl_metric *y,
                            fli_curve_point **points, size_t *count);
/* Whether anybody measured this, as y or as x: what nobody did is neither drawn nor offered. */
int fli_report_has(const fli_report *r, const fl_metric *m);

/* ---- output -------------------------------------------------------------------------------------------- */

/* One chart as a stand-alone SVG document (for_page 0) or as an element for the page (for_page 1: classes and ids
 * instead of colours, so that the page's style, its light and dark mode and its legend apply). */
fl_status fli_chart_svg(fli_text *t, const fli_report *r, const fl_metric *x, const fl_metric *y, int for_page);

/* The whole page: self-contained HTML, no request leaves it. */
fl_status fli_page_html(fli_text *t, const fli_report *r);

/* TensorBoard event file: the scalars of one run. Written whole or not at all. */
fl_status fli_events_write(fl_ctx *ctx, const char *folder, const fli_curve *curve);

/* ---- live ---------------------------------------------------------------------------------------------- */

/* Serves the newest page on 127.0.0.1 while a comparison runs. */
typedef struct fli_live fli_live;
/* port 0: any free one. */
fl_status fli_live_new(fl_ctx *ctx, uint16_t port, fli_live **out);
void fli_live_free(fli_live *l);
uint16_t fli_live_port(const fli_live *l);
/* Replaces the page. Copies `html`. Safe while readers are served. */
fl_status fli_live_publish(fli_live *l, const char *html);

#endif
