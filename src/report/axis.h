/* An axis: the range it shows, linear or logarithmic, and its ticks with their labels. No drawing. */
#ifndef FLI_REPORT_AXIS_H
#define FLI_REPORT_AXIS_H

#include "report/report.h"

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

#endif
