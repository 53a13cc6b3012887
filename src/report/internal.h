/* What the files of report/ share: axes, escaping, parts of charts, styles, the test for noise, parts of the page. For
 * report/ and its tests; others include report.h. */
#ifndef FLI_REPORT_INTERNAL_H
#define FLI_REPORT_INTERNAL_H

#include "base/text.h"
#include "report/report.h"

/* ==== axes: axis.c ========================================================================================== */

/* An axis: the range it shows, linear or logarithmic, and its ticks with their labels. No drawing. */

enum { FLI_TICKS_MAX = 128 };

typedef struct {
    double value;
    char label[32]; /* "" for a minor tick; what follows a '^' is an exponent: "10^-3" */
} fli_tick;

typedef struct {
    double lo, hi; /* lo < hi, both finite; lo > 0 if log */
    int log;
    fli_tick ticks[FLI_TICKS_MAX];
    size_t count;
    double divisor; /* labels show value / divisor ... */
    char unit[16];  /* ... in this unit: "MB", "10^-5" for a common factor, "" for none */
} fli_axis;

/* The axis for values from lo to hi (any finite numbers, in order). `round_out` moves the ends out to a tick, else
 * they stay where the values end. About `wanted` labelled ticks. */
void fli_axis_init(fli_axis *a, const fl_metric *q, double lo, double hi, int log, int round_out, size_t wanted);
/* Where a value lies: 0 at lo, 1 at hi; values outside are moved to the nearer end. */
double fli_axis_place(const fli_axis *a, double v);
/* The multiples that numbers with a unit are shown in, as JSON: {"bytes": [[from, divisor, "kB"], ...], ...}. */
void fli_axis_units(fli_text *t);

/* ==== text for XML, HTML and JSON: markup.c ================================================================= */

/* Everything that is not our own text goes through these. */

/* Text or attribute value: & < > " ' as entities. What XML cannot carry (control characters, broken UTF-8) becomes
 * U+FFFD. */
void fli_markup_text(fli_text *t, const char *s);
/* The first `n` bytes of such a text. */
void fli_markup_some(fli_text *t, const char *s, size_t n);
/* A JSON string with its quotes, safe inside <script>: no '<', '>' or '&' remains. */
void fli_markup_json(fli_text *t, const char *s);
/* A coordinate: one decimal, none if it is 0. */
void fli_markup_number(fli_text *t, double v);
/* Characters (not bytes) of a UTF-8 text; a broken byte counts as one. */
size_t fli_markup_length(const char *s);
/* The first `n` characters, escaped; an ellipsis takes the last place if the text is longer. */
void fli_markup_clip(fli_text *t, const char *s, size_t n);

/* ==== charts: chart.c ======================================================================================= */

/* What surrounds the data of a chart: the box, grid lines, axes with their labels. Drawn as SVG. */

enum { FLI_FONT = 11 }; /* size, in the chart's units */

typedef struct {
    fli_text *t;
    int for_page; /* classes instead of colours */
    fli_axis ax, ay;
    double left, right, top, bottom;
} fli_frame;

/* A chart of lines that are there already, whatever they were made from. */

typedef struct {
    fli_curve_point *points;
    size_t count;
} fli_chart_line;

/* As fli_chart_svg, with a line per series of the report; of x and y only title, unit and scale are looked at. */
fl_status fli_chart_lines(fli_text *t, const fli_report *r, const fl_metric *x, const fl_metric *y,
                          const fli_chart_line *lines, int for_page);

/* ==== colours, dashes, markers: series_style.c ============================================================== */

/* How the k-th series looks: colour, dash pattern, marker. Markers and dashes tell series apart in print and to
 * colour-blind readers. */

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
/* The key of series k, as a small picture of its own for the page. */
void fli_page_key(fli_text *t, size_t k);

/* ==== panels of dots: chart.c =============================================================================== */

/* Small charts side by side: dots of a quantity against a setting, a row of panels per method. What was tried in a
 * tuning looks like this. */

typedef enum { FLI_DOT_PLAIN, FLI_DOT_OWN, FLI_DOT_WINNER } fli_dot_mark;

typedef struct {
    double x, y;       /* y NaN: it never got there; x NaN: the setting is no number, the dot is a level line */
    size_t rung;       /* the later, the stronger the dot */
    fli_dot_mark mark; /* the setting as it was, the best one, or any other */
} fli_panel_dot;

typedef struct {
    const char *title;        /* above it; "" : none */
    const char *x_title;      /* the setting */
    double from, to;          /* its range; dots outside widen it */
    int log;                  /* a logarithmic x axis */
    const char *const *words; /* choices instead of numbers: x counts them from 0; NULL: numbers */
    size_t word_count;
    const fli_panel_dot *dots;
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

/* ==== differences beyond noise: table.c ===================================================================== */

/* Whether a difference is more than noise. Runs of one seed share data, partition and cohorts, so two methods are
 * compared seed by seed: what makes a seed easy or hard for both cancels. */

typedef struct {
    size_t n;    /* seeds that both have */
    double mean; /* of the differences a - b */
    double half; /* half of its 95 % interval, by Student's t; infinite for fewer than two seeds */
} fli_paired;

fli_paired fli_noise_paired(const double *a, const double *b, size_t seeds);
/* Whether the interval leaves 0 out. */
int fli_noise_apart(const fli_paired *p);

/* How a row of a table stands in a column, among those that have a number for every seed. */
typedef enum {
    FLI_RANK_NONE, /* nothing is said: a number is missing, there is no direction, or noise cannot be judged */
    FLI_RANK_BEST, /* better than every other row, beyond noise */
    FLI_RANK_TIED, /* the best, or one that cannot be told from it */
    FLI_RANK_BEHIND
} fli_rank;

/* ==== parts of the page ===================================================================================== */

/* All of them are HTML or SVG for use within the page only. */

/* page.css and the files in js/, turned into C by the build (cmake/embed.cmake); terminated. */
extern const char fli_page_css[], fli_js_axis[], fli_js_chart[], fli_js_read[], fli_js_save[], fli_js_page[],
    fli_js_live[];

/* Who leads, in a sentence. Nothing if the table has no goal, or no row has a number there. */
void fli_verdict_html(fli_text *t, const fli_report *r);
/* The results table, and what its signs mean. Nothing for an empty grid. */
void fli_table_html(fli_text *t, const fli_report *r);
/* Samples per class and client, as a heat map: clients across, classes down. Nothing without a histogram. */
void fli_heatmap_svg(fli_text *t, const fli_report *r);
/* In which settings the configurations differ, and what they share. Nothing without configurations, or for too many. */
fl_status fli_differences_html(fli_text *t, const fli_report *r);

#endif
