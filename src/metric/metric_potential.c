/* Potentials of methods (fli_potential): their value, and the largest rise of one that theory says never rises. */
#include "metric/metric_list.h"

#include <math.h>

static const fli_potential *potential_of(const fli_exec *exec)
{
    return &fli_exec_spec_of(exec)->algo->theory.potential;
}

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
