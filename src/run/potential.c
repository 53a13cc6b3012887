/* What theory promises of a run: whether its potential rises although it should not, and the largest L_i that optimality
 * gaps have. Either is found out once, when a run begins, with the constants that `fedloom check` measures. */
#include "metric/metric_list.h"
#include "run/run.h"
#include "plan/theory_facts.h"

#include <math.h>

fl_status fli_potential_begin(fl_run *run)
{
    int falls = 0, all = (size_t)run->plan.settings.metrics.max_clients >= run->plan.fed->clients;
    if (run->plan.mailbox) return FL_OK; /* constants are measured on samples, and those are elsewhere */
    if (!run->plan.exec.watch || !all || !isnan(run->counts.potential_rise)) return FL_OK;
    fl_status s = fli_theory_falls(&run->plan, &falls);
    if (!s && falls) run->counts.potential_rise = 0;
    return s;
}

/* Sums over samples have about as many digits as that, of the largest terms there were. */
static double rounding(const fl_run *run, double scale)
{
    static const double digits[] = {
        [FLI_PRECISION_F32] = 2e-5, [FLI_PRECISION_F64] = 1e-11, [FLI_PRECISION_TF32] = 5e-3};
    return digits[run->plan.settings.top.precision] * scale;
}

void fli_potential_note(fl_run *run, const fl_row *before)
{
    const fli_metric *m = &fli_metric_potential;
    size_t after = run->plan.algo->theory.potential.after;
    if (isnan(run->counts.potential_rise)) return;
    run->counts.potential_rise = before ? fli_row_get(before, &fli_metric_potential_rise) : 0;
    if (before && fl_row_round(before) >= after) {
        double now = fli_row_get(&run->now, m), last = fli_row_get(before, m);
        double scale = fmax(fmax(fabs(now), fabs(last)), fabs(fli_row_get(&run->rows[0], m)));
        if (now - last > rounding(run, scale))
            run->counts.potential_rise = fmax(run->counts.potential_rise, now - last);
    }
    fli_row_count(&run->now, &run->counts);
}

void fli_potential_report(const fl_run *run)
{
    size_t i = 0;
    while (i < run->row_count && !(fli_row_get(&run->rows[i], &fli_metric_potential_rise) > 0)) i++;
    if (i == run->row_count) return;
    fli_log(run->ctx, FL_LOG_WARNING,
            "the potential, %s, first rose in round %zu, and by %.3g at most, although theory promises that it never "
            "does with these settings and the constants that `fedloom check` measures",
            run->plan.algo->theory.potential.name, fl_row_round(&run->rows[i]), run->counts.potential_rise);
}

/* ---- gaps ------------------------------------------------------------------------------------------------- */

fl_status fli_gap_begin(fl_run *run)
{
    double smoothness = NAN;
    if (run->plan.mailbox || !fli_plan_needs_smoothness(&run->plan))
        return FL_OK; /* samples are elsewhere, or no matter */
    fl_status s = fli_theory_smoothness(&run->plan, 1, &smoothness);
    fli_measure_smooth(run->measure, smoothness);
    return s;
}
