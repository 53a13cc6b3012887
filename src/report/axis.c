/* Range, scale, ticks and units of an axis: numbers alone, no drawing. The page does the same in js/axis.js.
 *
 * Linear axes have ticks at 1, 2 or 5 times a power of ten. Logarithmic axes have ticks at powers of ten. If the range
 * has too few of these, ticks are at 1, 2, 5 times a power or, in a range so narrow that it looks linear, at the linear
 * positions. */
#include "report/internal.h"
#include "base/number.h"

#include <math.h>
#include <string.h>

/* Larger values are drawn here, so that the difference of any two does not overflow. */
static const double largest = 8e307;
/* Smaller ranges have no room for ticks between denormal numbers. */
static const double smallest = 1e-300;

static double clamp(double v, double lo, double hi) { return v < lo ? lo : v > hi ? hi : v; }

double fli_axis_place(const fli_axis *a, double v)
{
    if (!a->log) return clamp((clamp(v, -largest, largest) - a->lo) / (a->hi - a->lo), 0, 1);
    if (!(v > a->lo)) return 0;
    return clamp((log10(v) - log10(a->lo)) / (log10(a->hi) - log10(a->lo)), 0, 1);
}

/* The number nearest to `v` that is 1, 2 or 5 times a power of ten. */
static double nice_step(double v)
{
    double power = pow(10, floor(log10(v))), m = v / power;
    return (m < 1.4 ? 1 : m < 3.2 ? 2 : m < 7.1 ? 5 : 10) * power;
}

/* Makes the range visible: a constant gets room on both sides. */
static void widen(double *lo, double *hi, int log)
{
    double middle = *lo + (*hi - *lo) / 2, size = fmax(fabs(*lo), fabs(*hi));
    if (*hi - *lo > 1e-9 * size && *hi - *lo > smallest) return;
    if (log) {
        *lo = middle / 2;
        *hi = middle * 2;
    } else if (size < smallest) {
        *lo = 0;
        *hi = 1;
    } else {
        *lo = middle - 0.1 * size;
        *hi = middle + 0.1 * size;
    }
}

/* ---- units --------------------------------------------------------------------------------------------- */

/* The multiples of units. The last row of a unit whose `from` the largest value reaches is used. */
typedef struct {
    fl_unit unit;
    double from, divisor;
    const char *name;
} unit_row;

static const unit_row units[] = {
    {FL_UNIT_BYTES, 0, 1, "bytes"},     {FL_UNIT_BYTES, 1e3, 1e3, "kB"},   {FL_UNIT_BYTES, 1e6, 1e6, "MB"},
    {FL_UNIT_BYTES, 1e9, 1e9, "GB"},    {FL_UNIT_BYTES, 1e12, 1e12, "TB"}, {FL_UNIT_BYTES, 1e15, 1e15, "PB"},
    {FL_UNIT_SECONDS, 0, 1e-3, "ms"},   {FL_UNIT_SECONDS, 1, 1, "s"},      {FL_UNIT_SECONDS, 600, 60, "min"},
    {FL_UNIT_SECONDS, 7200, 3600, "h"},
};

void fli_axis_units(fli_text *t)
{
    for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
        int opens = !i || units[i].unit != units[i - 1].unit;
        if (opens) fli_text_addf(t, "%s\"%s\":[", i ? "]," : "{", units[i].unit == FL_UNIT_BYTES ? "bytes" : "seconds");
        fli_text_addf(t, "%s[%g,%g,\"%s\"]", opens ? "" : ",", units[i].from, units[i].divisor, units[i].name);
    }
    fli_text_add(t, "]}");
}

static void choose_unit(fli_axis *a, fl_unit unit)
{
    double size = fmax(fabs(a->lo), fabs(a->hi));
    a->divisor = 1;
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (units[i].unit == unit && (size >= units[i].from || units[i].from == 0)) {
            a->divisor = units[i].divisor;
            fli_snprintf(a->unit, sizeof a->unit, "%s", units[i].name);
        }
}

/* Numbers too long to write share a power of ten, which the title mentions. */
static void factor_out(fli_axis *a)
{
    double size = fmax(fabs(a->lo), fabs(a->hi)) / a->divisor;
    if (a->unit[0] || (size >= 1e-2 && size < 1e6)) return;
    int e = (int)floor(log10(size) + 1e-9);
    if (e > 307) e = 307;
    a->divisor *= pow(10, e);
    fli_snprintf(a->unit, sizeof a->unit, "10^%d", e);
}

/* ---- ticks --------------------------------------------------------------------------------------------- */

static void add_tick(fli_axis *a, double v, const char *label)
{
    double slack = a->log ? 0 : 1e-9 * (a->hi - a->lo);
    if (a->count == FLI_TICKS_MAX || v < a->lo - slack || v > a->hi + slack) return;
    fli_tick *k = &a->ticks[a->count++];
    k->value = v;
    fli_snprintf(k->label, sizeof k->label, "%s", label);
}

/* Sets ticks at multiples of a step, in the unit shown. */
static void tick_evenly(fli_axis *a, int round_out, size_t wanted, int whole)
{
    double lo = a->lo / a->divisor, hi = a->hi / a->divisor;
    double step = nice_step((hi - lo) / (double)wanted);
    if (whole && step < 1) step = 1;
    double first = ceil(lo / step - 1e-9), last = floor(hi / step + 1e-9);
    if (round_out) {
        first = floor(lo / step + 1e-9);
        last = ceil(hi / step - 1e-9);
        a->lo = clamp(first * step * a->divisor, -largest, largest);
        a->hi = clamp(last * step * a->divisor, -largest, largest);
    }
    int decimals = (int)clamp(-floor(log10(step) + 1e-9), 0, 12);
    for (double i = first; i <= last; i++) {
        char label[32]; /* a factored number has few digits before the point */
        fli_snprintf(label, sizeof label, "%.*f", decimals, i == 0 ? 0 : i * step);
        add_tick(a, i * step * a->divisor, label);
    }
}

/* m * 10^e, in full if all labels of the axis can be (`plain`). */
static void log_label(char *label, size_t size, int m, int e, int plain)
{
    if (plain)
        fli_snprintf(label, size, "%.*f", e < 0 ? -e : 0, m * pow(10, e));
    else if (m == 1)
        fli_snprintf(label, size, "10^%d", e);
    else
        fli_snprintf(label, size,
                     "%d\xc2\xb7"
                     "10^%d",
                     m, e);
}

static void tick_powers(fli_axis *a, size_t wanted)
{
    static const int strides[] = {1, 2, 3, 5, 10, 20, 50, 100, 200};
    int from = (int)floor(log10(a->lo)), to = (int)ceil(log10(a->hi)), stride = 1;
    int inside = (int)floor(log10(a->hi) + 1e-9) - (int)ceil(log10(a->lo) - 1e-9) + 1;
    int fine = inside < 3, plain = a->lo >= 1e-3 && a->hi < 1e5;
    for (size_t i = 0; i < sizeof strides / sizeof *strides && (size_t)((to - from) / stride) > wanted + 2; i++)
        stride = strides[i];
    for (int e = from; e <= to; e++)
        for (int m = 1; m <= 9; m++) {
            char label[32] = "";
            int labelled = fine ? m == 1 || m == 2 || m == 5 : m == 1 && e % stride == 0;
            if (m > 1 && stride > 1) break;
            if (labelled) log_label(label, sizeof label, m, e, plain);
            add_tick(a, m * pow(10, e), label);
        }
}

void fli_axis_init(fli_axis *a, const fl_metric *q, double lo, double hi, int log, int round_out, size_t wanted)
{
    memset(a, 0, sizeof *a);
    lo = clamp(lo, -largest, largest);
    hi = clamp(hi, -largest, largest);
    if (log) {
        lo = fmax(lo, smallest);
        hi = fmax(hi, smallest);
    }
    widen(&lo, &hi, log);
    if (q->unit == FL_UNIT_SHARE && lo < 1 && hi > 0) {
        lo = fmax(lo, 0);
        hi = fmin(hi, 1);
    }
    if (log && round_out) {
        double room = 0.03 * (log10(hi) - log10(lo));
        lo = pow(10, log10(lo) - room);
        hi = pow(10, fmin(log10(hi) + room, 307.9));
    }
    a->lo = lo;
    a->hi = hi;
    a->log = log;
    a->divisor = 1;
    choose_unit(a, q->unit);
    if (log && hi / lo >= 10) {
        tick_powers(a, wanted);
        return;
    }
    factor_out(a);
    tick_evenly(a, round_out && !log, wanted, q->unit == FL_UNIT_COUNT);
}
