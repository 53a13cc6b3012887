/* Potentials of methods (fli_potential) as metrics: their value, and whether they rise where theory promises that they
 * never do. The promise is looked at once, when a run begins, with the constants that `fedloom check` measures. */
#include "run/metric_list.h"
#include "run/run.h"
#include "run/theory_check.h"

#include <math.h>

static const fli_potential *potential_of(const fli_exec *exec)
{
    return &fli_exec_spec_of(exec)->algo->theory.potential;
}

/* ---- metrics ----------------------------------------------------------------------------------------------- */

static int wants_potential(const fli_metrics_settings *what, const fli_model *model)
{
    return (void)model, what->potential;
}

/* fli_term */
static double weight(const fli_client_figures *f, size_t term) { return (void)term, f->weight; }
static double weighted(const fli_client_figures *f, size_t term) { return f->weight * f->potential[term]; }

/* Where only some clients are measured, what they contribute stands for all. */
static double potential(fli_moment *m)
{
    double sum[FLI_POTENTIAL_TERMS];
    if (potential_of(m->exec)->levels) return m->levels.potential;
    if (!potential_of(m->exec)->name || !m->count) return NAN;
    for (size_t k = 0; k < FLI_POTENTIAL_TERMS; k++)
        sum[k] = fli_moment_sum(m, weighted, k) / fli_moment_sum(m, weight, k);
    double value = fli_coordinator_potential(fli_exec_coordinator(m->exec), sum);
    return isfinite(value) ? value : NAN;
}

static double get_rise(const fli_counts *c) { return c->potential_rise; }

const fli_metric fli_metric_potential = {
    .is = {.name = "potential",
           .title = "the method's potential",
           .help = "the function that the method's theorem shows to fall (`metrics.potential`)",
           .better = FL_BETTER_NEITHER, /* methods, and other parameters, have other potentials */
           .scale = FL_SCALE_WIDE,
           .shown = {[FL_VIEW_EVENTS] = {"theory/potential"},
                     [FL_VIEW_CHART] = {"potential"},
                     [FL_VIEW_STUDY] = {"potential"},
                     [FL_VIEW_STUDY_FILES] = {"potential"}}},
    .measure = potential,
    .wanted = wants_potential,
    .asks = FLI_FIGURES_POTENTIAL,
};

const fli_metric fli_metric_potential_rise = {
    .is = {.name = "potential_rise",
           .title = "the potential's largest rise",
           .help = "where theory promises that the potential never rises: by how much it did at most, rounding apart, "
                   "from one measurement to the next; nothing where theory promises nothing",
           .better = FL_BETTER_LOW,
           .digits = 3,
           .shown = {[FL_VIEW_EVENTS] = {"theory/potential_rise"},
                     [FL_VIEW_STUDY] = {"potential rose by"},
                     [FL_VIEW_STUDY_FILES] = {"potential_rise"}}},
    .count = get_rise,
};

/* ---- the promise ------------------------------------------------------------------------------------------- */

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
