/* Declarations that the files of report/ share: axes, escaping, charts, styles, the test for noise, parts of the page.
 * For report/ and its tests; other code includes report.h. */
#ifndef FLI_REPORT_INTERNAL_H
#define FLI_REPORT_INTERNAL_H

#include "base/text.h"
#include "report/report.h"

/* ==== axes: axis.c ========================================================================================== */

/* An axis: the range it shows, linear or logarithmic, and its ticks with their labels. No drawing. */

enum { FLI_TICKS_MAX = 128 };

typedef struct {
    double value;
    char label[32]; /* "" for a minor tick; text behind a '^' is an exponent: "10^-3" */
} fli_tick;

typedef struct {
    double lo, hi; /* lo < hi, both finite; lo > 0 if log */
    int log;
    fli_tick ticks[FLI_TICKS_MAX];
    size_t count;
    double divisor; /* labels show value / divisor */
    char unit[16];  /* in this unit: "MB"; "10^-5" for a common factor; "" for none */
} fli_axis;

/* The axis for values from lo to hi, finite, lo <= hi, with about `wanted` labelled ticks. `round_out` extends the ends
 * to ticks; else the axis ends where the values end. */
void fli_axis_init(fli_axis *a, const fl_metric *q, double lo, double hi, int log, int round_out, size_t wanted);
/* Position of a value: 0 at lo, 1 at hi. Values outside have the position of the nearer end. */
double fli_axis_place(const fli_axis *a, double v);
/* The multiples of units, as JSON: {"bytes": [[from, divisor, "kB"], ...], ...}. */
void fli_axis_units(fli_text *t);

/* ==== text for XML, HTML and JSON: markup.c ================================================================= */

/* All text from outside is written by these functions. */

/* Writes a text or an attribute value: & < > " ' become entities. Characters that XML does not allow (control
 * characters, broken UTF-8) become U+FFFD. */
void fli_markup_text(fli_text *t, const char *s);
/* The same for the first `n` bytes. */
void fli_markup_some(fli_text *t, const char *s, size_t n);
/* Writes a JSON string with its quotes, safe inside <script>: it has no '<', '>' or '&'. */
void fli_markup_json(fli_text *t, const char *s);
/* Writes a coordinate with one decimal, or none if that is 0. */
void fli_markup_number(fli_text *t, double v);
/* Number of characters of a UTF-8 text; a broken byte counts as one. */
size_t fli_markup_length(const char *s);
/* Writes the first `n` characters, escaped; the last one is an ellipsis if the text is longer. */
void fli_markup_clip(fli_text *t, const char *s, size_t n);

/* ==== charts: chart.c ======================================================================================= */

/* The frame around a chart's data: box, grid lines, axes with their labels. Drawn as SVG. */

enum { FLI_FONT = 11 }; /* font size, in the chart's units */

typedef struct {
    fli_text *t;
    int for_page; /* classes instead of colours */
    fli_axis ax, ay;
    double left, right, top, bottom;
} fli_frame;

/* A chart of lines from given points. */

typedef struct {
    fli_curve_point *points;
    size_t count;
} fli_chart_line;

/* As fli_chart_svg, with one line per series of the report; of x and y it uses title, unit and scale. */
fl_status fli_chart_lines(fli_text *t, const fli_report *r, const fl_metric *x, const fl_metric *y,
                          const fli_chart_line *lines, int for_page);

/* ==== colours, dashes, markers: series_style.c ============================================================== */

/* The style of the k-th series: colour, dash pattern, marker. Markers and dashes distinguish series in print and for
 * colour-blind readers. */

enum { FLI_COLOURS = 10, FLI_DASHES = 7, FLI_MARKERS = 7 };

typedef struct {
    const char *light, *dark; /* on white; on the page's dark background */
} fli_colour;

extern const fli_colour fli_colours[FLI_COLOURS];
extern const char *const fli_dashes[FLI_DASHES];   /* values of stroke-dasharray */
extern const char *const fli_markers[FLI_MARKERS]; /* path data, relative to the marker's centre */

size_t fli_style_colour(size_t k);
size_t fli_style_dash(size_t k);
/* Adds the marker of series k at (x, y) to the data of a path. */
void fli_style_marker(fli_text *t, size_t k, double x, double y);

/* Open an element of series k, a path whose `d` the caller writes and closes with "\"/>". for_page: the element has
 * classes instead of colours. */
void fli_style_line(fli_text *t, size_t k, int for_page);
void fli_style_marks(fli_text *t, size_t k, int for_page);
void fli_style_band(fli_text *t, size_t k, int for_page);
/* The key in a legend: a line with its marker, 26 units wide from x, centred on y. */
void fli_style_key(fli_text *t, size_t k, double x, double y, int for_page);
/* The key of series k as a separate SVG for the page. */
void fli_page_key(fli_text *t, size_t k);

/* ==== panels of dots: chart.c =============================================================================== */

/* Small charts side by side, which show a tuning's trials: dots of a quantity against a setting, a row of panels per
 * method. */

typedef enum { FLI_DOT_PLAIN, FLI_DOT_OWN, FLI_DOT_WINNER } fli_dot_mark;

typedef struct {
    double x, y;       /* y NaN: never reached; x NaN: the setting is no number, the dot is a level line */
    size_t rung;       /* drawn stronger for later rungs */
    fli_dot_mark mark; /* OWN: the configured setting, WINNER: the best one, PLAIN: any other */
} fli_panel_dot;

typedef struct {
    const char *title;        /* above the panel; "": none */
    const char *x_title;      /* the setting */
    double from, to;          /* the setting's range; dots outside extend it */
    int log;                  /* a logarithmic x axis */
    const char *const *words; /* choices: x is an index into them; NULL: x is a number */
    size_t word_count;
    const fli_panel_dot *dots;
    size_t count;
} fli_panel;

typedef struct {
    const char *title;
    const fl_metric *y;
    const char *y_title;
    size_t columns;          /* panels per row */
    const fli_panel *panels; /* row by row; x_title NULL: the position stays empty */
    size_t count;
    const size_t *seeds; /* number of seeds in each rung, for the legend */
    size_t rungs;
} fli_panels;

/* A stand-alone SVG document. Panels of a row share the y axis. */
fl_status fli_panels_svg(fli_text *t, const fli_panels *p);

/* ==== differences beyond noise: table.c ===================================================================== */

/* Is a difference more than noise? Runs of one seed share data, partition and cohorts, so two methods are compared
 * within seeds: the difficulty of a seed affects both and cancels. */

typedef struct {
    size_t n;    /* seeds with both numbers */
    double mean; /* of the differences a - b */
    double half; /* half the width of the 95 % interval, by Student's t; infinite for fewer than two seeds */
} fli_paired;

fli_paired fli_noise_paired(const double *a, const double *b, size_t seeds);
/* True if the interval excludes 0. */
int fli_noise_apart(const fli_paired *p);

/* The rank of a table's row in a column, among rows with a number for every seed. */
typedef enum {
    FLI_RANK_NONE, /* not ranked: a number is missing, no direction is better, or noise cannot be judged */
    FLI_RANK_BEST, /* better than every other row beyond noise */
    FLI_RANK_TIED, /* the best, or not distinguishable from it */
    FLI_RANK_BEHIND
} fli_rank;

/* ==== parts of the page ===================================================================================== */

/* HTML or SVG for use within the page alone. */

/* page.css and the files of js/, embedded by the build (cmake/embed.cmake); NUL-terminated. */
extern const char fli_page_css[], fli_js_axis[], fli_js_chart[], fli_js_read[], fli_js_save[], fli_js_page[],
    fli_js_live[];

/* A sentence on which method leads. Nothing if the table has no goal, or no row has a number there. */
void fli_verdict_html(fli_text *t, const fli_report *r);
/* The results table, and an explanation of its marks. Nothing for an empty grid. */
void fli_table_html(fli_text *t, const fli_report *r);
/* Samples per class (rows) and client (columns), as a heat map. Nothing without a histogram. */
void fli_heatmap_svg(fli_text *t, const fli_report *r);
/* The settings that differ between configurations, and those that are the same. Nothing without configurations, or for
 * too many. */
fl_status fli_differences_html(fli_text *t, const fli_report *r);

#endif
