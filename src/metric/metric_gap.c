/* Optimality gaps that theorems on problems with a second block bound (fli_gap): 0 where x and all y_i are stationary
 * together. */
#include "metric/metric_list.h"

#include "model/latent.h"

#include <math.h>

static const fli_gap *gap_of(const fli_exec *exec) { return &fli_exec_spec_of(exec)->algo->theory.gap; }

static int wants_gap(const fli_metrics_settings *what, const fli_model *model)
{
    return what->gradient && model->latent;
}

/* fli_term: of clients that measured their training samples. */
static double weighted(const fli_client_figures *f, size_t figure)
{
    return (unsigned)f->num[FLI_FIGURE_HAS] & FLI_HAS_TRAIN ? f->weight * f->num[figure] : 0;
}

/* ||grad f||^2, or the square of the gradient mapping of the length that the gap has. */
static double slope(fli_moment *m, const fli_gap *g)
{
    const void *gradient = g->ahead ? m->ahead : m->gradient;
    double eta = g->eta ? fli_coordinator_gap_eta(fli_exec_coordinator(m->exec)) : 0, weight = fli_train_weight(m);
    if (g->eta) return eta > 0 ? pow(fli_mapping_norm(m, gradient, eta), 2) : NAN;
    return fli_dot(m->space, gradient, gradient) / (weight * weight);
}

/* Memberships, and pseudo labels that have a closed form, are not improved by steps whose length clients could say. */
static double gap(fli_moment *m)
{
    const fli_gap *g = gap_of(m->exec);
    const fli_latent *latent = m->model->latent;
    if (!g->name || !m->gradient || !latent->kept || latent->every) return NAN;
    double weight = fli_train_weight(m), moves = fli_moment_sum(m, weighted, FLI_FIGURE_LABELS_MOVE) / weight;
    double slopes = g->ahead ? fli_moment_sum(m, weighted, FLI_FIGURE_LABELS_SLOPE) / weight : 0;
    double value = g->value(slope(m, g), moves, slopes, m->smoothness);
    return isfinite(value) ? value : NAN;
}

const fli_metric fli_metric_gap = {
    .is = {.name = "gap",
           .title = "the method's optimality gap",
           .help = "what the method's theorem bounds where clients have pseudo labels (`metrics.gradient`, "
                   "`semi.labels: projected`): of fedcpsl [CPSL]'s (33), with the largest L_i that `fedloom check` "
                   "measures; of fedvra-u [VRA]'s (98), with the pseudo labels y+ of a next turn of all clients, but "
                   "not with `semi.label_batch`. 0 where x and all pseudo labels are stationary",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .digits = 3,
           .shown = {[FL_VIEW_EVENTS] = {"theory/gap"},
                     [FL_VIEW_CHART] = {"gap"},
                     [FL_VIEW_STUDY] = {"gap"},
                     [FL_VIEW_STUDY_FILES] = {"gap"}}},
    .measure = gap,
    .wanted = wants_gap,
    .asks = FLI_FIGURES_GRADIENT | FLI_FIGURES_AHEAD,
};
