/* Few labels: pseudo labels that x gives to unlabelled samples, and parts of the objective. */
#include "metric/metric_list.h"

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

static int wants_labelled(const fli_metrics_settings *what, const fli_model *model)
{
    return what->train && has_pseudo_labels(what, model);
}

static int wants_moves(const fli_metrics_settings *what, const fli_model *model)
{
    return what->gradient && has_pseudo_labels(what, model) && model->latent->kept;
}

/* fli_term: of clients that measured their training samples. */
static double weighted(const fli_client_figures *f, size_t figure)
{
    return (unsigned)f->num[FLI_FIGURE_HAS] & FLI_HAS_TRAIN ? f->weight * f->num[figure] : 0;
}

static double labelled_loss(fli_moment *m)
{
    return fli_moment_sum(m, weighted, FLI_FIGURE_LABELLED_LOSS) / fli_train_weight(m);
}

static double labels_move(fli_moment *m)
{
    return fli_moment_sum(m, weighted, FLI_FIGURE_LABELS_MOVE) / fli_train_weight(m);
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

const fli_metric fli_metric_labelled_loss = {
    .is = {.name = "labelled_loss",
           .title = "loss on labelled samples",
           .help = "the part of train_loss that is over labelled samples, without weight decay (`semi`)",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .shown = {[FL_VIEW_EVENTS] = {"semi/labelled_loss"}, [FL_VIEW_CHART] = {"labelled-loss", 15}}},
    .measure = labelled_loss,
    .wanted = wants_labelled,
    .asks = FLI_FIGURES_TRAIN,
};

const fli_metric fli_metric_labels_move = {
    .is = {.name = "labels_move",
           .title = "squared move of the pseudo labels",
           .help = "sum w_i ||nu_i+ - nu_i||^2, how far the next steps of all clients would take their pseudo labels "
                   "at x (`semi.labels: projected`); [CPSL]'s optimality gap (33), gradient2 + 31 L/64 times this, is "
                   "the column `gap`",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .digits = 3,
           .shown = {[FL_VIEW_EVENTS] = {"semi/labels_move"}, [FL_VIEW_CHART] = {"labels-move", 16}}},
    .measure = labels_move,
    .wanted = wants_moves,
    .asks = FLI_FIGURES_GRADIENT,
};
