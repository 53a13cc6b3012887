/* Pseudo labels that x gives to unlabelled samples. */
#include "run/metric_list.h"

#include "model/latent.h"

#include <math.h>

static int has_pseudo_labels(const fli_metrics_settings *what, const fli_model *model)
{
    return (void)what, model->latent && !model->latent->every;
}

/* fli_term: 0 where a client was not asked. */
static double figure_of(const fli_client_figures *f, size_t figure) { return f->num[figure]; }

static double pseudo_accuracy(fli_moment *m)
{
    double n = fli_moment_sum(m, figure_of, FLI_FIGURE_PSEUDO_N);
    return n > 0 ? fli_moment_sum(m, figure_of, FLI_FIGURE_PSEUDO_HITS) / n : NAN;
}

const fli_metric fli_metric_pseudo_accuracy = {
    .is = {.name = "pseudo_accuracy",
           .title = "accuracy of the pseudo labels",
           .help = "share of the unlabelled samples with a pseudo label that x gives the right one (`semi`)",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"semi/pseudo_accuracy"},
                     [FL_VIEW_CHART] = {"pseudo-accuracy", 14},
                     [FL_VIEW_STUDY_FILES] = {"pseudo_accuracy"}}},
    .measure = pseudo_accuracy,
    .wanted = has_pseudo_labels,
    .asks = FLI_FIGURES_PSEUDO,
};
