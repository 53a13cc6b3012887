/* Metrics of clients one by one: the global model x on each client's own samples, the clients' own models, pseudo
 * labels, and how equally clients are served. Each is a row: see metric.h. */
#include "metric/metric.h"
#include "model/model.h"

#include <math.h>

/* ==== the global model on each client ====================================================================== */

/* The number that this many percent are at or below; NaN if there are none. */
static double quantile(fli_sorted s, size_t percent) { return s.n ? s.v[(s.n - 1) * percent / 100] : NAN; }

static double q10(fli_measurement *m) { return quantile(m->accuracies, 10); }
static double q50(fli_measurement *m) { return quantile(m->accuracies, 50); }
static double q90(fli_measurement *m) { return quantile(m->accuracies, 90); }

const fli_metric fli_metric_client_q10 = {
    .is = {.name = "client_q10",
           .title = "client accuracy, 10% quantile",
           .help = "accuracy of x on each client's own samples: a tenth of the clients are at or below this,",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"clients/q10"}, [FL_VIEW_CHART] = {"client-accuracy-q10", 11}}},
    .measure = q10,
    .wanted = {offsetof(fli_metrics_settings, clients)},
    .asks = FLI_FIGURES_EITHER,
};

const fli_metric fli_metric_client_q50 = {
    .is = {.name = "client_q50",
           .title = "client accuracy, median",
           .help = "half of them,",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"clients/q50"}, [FL_VIEW_CHART] = {"client-accuracy", 10}}},
    .measure = q50,
    .wanted = {offsetof(fli_metrics_settings, clients)},
    .asks = FLI_FIGURES_EITHER,
};

const fli_metric fli_metric_client_q90 = {
    .is = {.name = "client_q90",
           .title = "client accuracy, 90% quantile",
           .help = "nine in ten",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"clients/q90"}}},
    .measure = q90,
    .wanted = {offsetof(fli_metrics_settings, clients)},
    .asks = FLI_FIGURES_EITHER,
};

/* ==== the clients' own models ============================================================================== */

/* Each model on its own client's samples; x if a method's clients have none. */

/* With few labels the objective needs a pass over many more samples. */
static int is_cheap(const fli_metrics_settings *what, const fli_model *model)
{
    return what->train || !model->latent_params;
}

static int has_one_level(const fli_metrics_settings *what, const fli_model *model)
{
    return (void)what, !model->bilevel;
}

static double train_accuracy(fli_measurement *m) { return fli_train_accuracy(m, 1); }
static double test_loss(fli_measurement *m) { return fli_test_loss(m, 1); }
static double test_accuracy(fli_measurement *m) { return fli_test_accuracy(m, 1); }
static double own_q10(fli_measurement *m) { return quantile(m->own_accuracies, 10); }
static double own_q50(fli_measurement *m) { return quantile(m->own_accuracies, 50); }
static double own_q90(fli_measurement *m) { return quantile(m->own_accuracies, 90); }

static double worst_tenth(fli_measurement *m)
{
    size_t worst = (m->own_accuracies.n + 9) / 10;
    double mean = 0;
    for (size_t i = 0; i < worst; i++) mean += m->own_accuracies.v[i] / (double)worst;
    return worst ? mean : NAN;
}

const fli_metric fli_metric_local_train_loss = {
    .is =
        {.name = "local_train_loss",
         .title = "training loss of the clients' own models",
         .help =
             "of each client's own model on its own training samples (`metrics.local`), where a client mixes its model "
             "with x of the mixture; with `semi` as train_loss, and only beside it (`metrics.train`); x where clients "
             "have no models of their own",
         .better = FL_BETTER_LOW,
         .scale = FL_SCALE_LOG,
         .shown = {[FL_VIEW_EVENTS] = {"local/train_loss"},
                   [FL_VIEW_CHART] = {"local-train-loss", 8},
                   [FL_VIEW_NOTE] = {"the clients' own models: train loss", 1}}},
    .mean = FLI_FIGURE_OWN_TRAIN_LOSS,
    .wanted = {offsetof(fli_metrics_settings, local)},
    .fits = is_cheap,
    .asks = FLI_FIGURES_OWN | FLI_FIGURES_OWN_TRAIN,
};

const fli_metric fli_metric_local_train_accuracy = {
    .is = {.name = "local_train_accuracy",
           .title = "training accuracy of the clients' own models",
           .help = "share of labelled training samples that a client's own model gets right",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"local/train_accuracy"},
                     [FL_VIEW_CHART] = {"local-train-accuracy", 9},
                     [FL_VIEW_NOTE] = {"the clients' own models: train acc.", 1}}},
    .measure = train_accuracy,
    .wanted = {offsetof(fli_metrics_settings, local)},
    .fits = is_cheap,
    .asks = FLI_FIGURES_OWN | FLI_FIGURES_OWN_TRAIN,
};

const fli_metric fli_metric_local_test_loss = {
    .is = {.name = "local_test_loss",
           .title = "test loss of the clients' own models",
           .help = "the same on the clients' own test parts",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .shown = {[FL_VIEW_EVENTS] = {"local/test_loss"},
                     [FL_VIEW_CHART] = {"local-test-loss", 7},
                     [FL_VIEW_NOTE] = {"the clients' own models: test loss", 1}}},
    .measure = test_loss,
    .wanted = {offsetof(fli_metrics_settings, local)},
    .asks = FLI_FIGURES_OWN,
};

const fli_metric fli_metric_local_test_accuracy = {
    .is = {.name = "local_test_accuracy",
           .title = "test accuracy of the clients' own models",
           .help = "on the clients' own test parts; a client that mixes its model with x is judged by the mixture",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"local/test_accuracy"},
                     [FL_VIEW_CHART] = {"local-test-accuracy", 6},
                     [FL_VIEW_NOTE] = {"the clients' own models: test acc.", 1},
                     [FL_VIEW_STUDY] = {"own models acc. %", 2},
                     [FL_VIEW_STUDY_FILES] = {"local_test_accuracy"},
                     [FL_VIEW_PAPER] = {"own accuracy"}}},
    .measure = test_accuracy,
    .wanted = {offsetof(fli_metrics_settings, local)},
    .asks = FLI_FIGURES_OWN,
};

const fli_metric fli_metric_local_q10 = {
    .is = {.name = "local_q10",
           .title = "own models' accuracy, 10% quantile",
           .help = "accuracy of each client's own model on its own test part: a tenth of the clients are at or below "
                   "this,",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"local/q10"}}},
    .measure = own_q10,
    .wanted = {offsetof(fli_metrics_settings, local)},
    .asks = FLI_FIGURES_OWN,
};

const fli_metric fli_metric_local_q50 = {
    .is = {.name = "local_q50",
           .title = "own models' accuracy, median",
           .help = "half of them,",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"local/q50"}}},
    .measure = own_q50,
    .wanted = {offsetof(fli_metrics_settings, local)},
    .asks = FLI_FIGURES_OWN,
};

const fli_metric fli_metric_local_q90 = {
    .is = {.name = "local_q90",
           .title = "own models' accuracy, 90% quantile",
           .help = "nine in ten,",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"local/q90"}}},
    .measure = own_q90,
    .wanted = {offsetof(fli_metrics_settings, local)},
    .asks = FLI_FIGURES_OWN,
};

const fli_metric fli_metric_local_worst = {
    .is = {.name = "local_worst",
           .title = "own models' accuracy, worst tenth of the clients",
           .help = "and the mean of the worst tenth",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"local/worst_tenth"},
                     [FL_VIEW_CHART] = {"local-worst", 13},
                     [FL_VIEW_STUDY_FILES] = {"local_worst"}}},
    .measure = worst_tenth,
    .wanted = {offsetof(fli_metrics_settings, local)},
    .asks = FLI_FIGURES_OWN,
};

const fli_metric fli_metric_local_gradient2 = {
    .is = {.name = "local_gradient2",
           .title = "squared gradient norm of the clients' own models",
           .help = "sum w_i ||grad F_i||^2, with F_i the objective that client i's own model is trained on "
                   "(local_train_loss) and its gradient in that model (`metrics.gradient` and `metrics.local`): the "
                   "gap of [CPSL]'s Theorem 2",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .digits = 3,
           .shown = {[FL_VIEW_EVENTS] = {"local/gradient_norm2"}, [FL_VIEW_CHART] = {"local-gradient"}}},
    .mean = FLI_FIGURE_OWN_GRADIENT2,
    .wanted = {offsetof(fli_metrics_settings, gradient), offsetof(fli_metrics_settings, local)},
    .fits = has_one_level,
    .asks = FLI_FIGURES_OWN | FLI_FIGURES_OWN_GRADIENT,
};

/* ==== few labels =========================================================================================== */

/* The pseudo labels that x gives to unlabelled samples, and parts of the objective. */

static int has_pseudo_labels(const fli_metrics_settings *what, const fli_model *model)
{
    return (void)what, model->latent && !model->latent->every;
}

/* fli_term: 0 for a client that was not asked. */
static double figure_of(const fli_client_figures *f, size_t figure) { return f->num[figure]; }

static double pseudo_accuracy(fli_measurement *m)
{
    double n = fli_measurement_sum(m, figure_of, FLI_FIGURE_PSEUDO_N);
    return n > 0 ? fli_measurement_sum(m, figure_of, FLI_FIGURE_PSEUDO_HITS) / n : NAN;
}

static int keeps_pseudo_labels(const fli_metrics_settings *what, const fli_model *model)
{
    return has_pseudo_labels(what, model) && model->latent->kept;
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
    .fits = has_pseudo_labels,
    .asks = FLI_FIGURES_PSEUDO,
};

const fli_metric fli_metric_labelled_loss = {
    .is = {.name = "labelled_loss",
           .title = "loss on labelled samples",
           .help = "the part of train_loss that is over labelled samples, without weight decay (`semi`)",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .shown = {[FL_VIEW_EVENTS] = {"semi/labelled_loss"}, [FL_VIEW_CHART] = {"labelled-loss", 15}}},
    .mean = FLI_FIGURE_LABELLED_LOSS,
    .wanted = {offsetof(fli_metrics_settings, train)},
    .fits = has_pseudo_labels,
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
    .mean = FLI_FIGURE_LABELS_MOVE,
    .wanted = {offsetof(fli_metrics_settings, gradient)},
    .fits = keeps_pseudo_labels,
    .asks = FLI_FIGURES_GRADIENT,
};

/* ==== how equally clients are served ======================================================================= */

/* The standard deviation over clients of the accuracy of the model that each of them uses. Clients count equally,
 * whatever their number of samples, and they are the whole population: the divisor is their number. */

/* Uses two passes: accuracies of clients that are served equally differ only in their last digits. */
static double deviation(fli_measurement *m)
{
    fli_sorted a = m->own_accuracies;
    double mean = 0, squares = 0;
    for (size_t i = 0; i < a.n; i++) mean += a.v[i] / (double)a.n;
    for (size_t i = 0; i < a.n; i++) squares += (a.v[i] - mean) * (a.v[i] - mean);
    return a.n ? sqrt(squares / (double)a.n) : NAN;
}

const fli_metric fli_metric_local_std = {
    .is = {.name = "local_std",
           .title = "own models' accuracy, standard deviation over clients",
           .help = "standard deviation over clients of the accuracy of each client's own model on its own test part "
                   "(`metrics.local`): 0 where all are served alike",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"local/std"},
                     [FL_VIEW_CHART] = {"local-std"},
                     [FL_VIEW_NOTE] = {"the clients' own models: deviation", 1},
                     [FL_VIEW_STUDY] = {"own acc. deviation %"},
                     [FL_VIEW_STUDY_FILES] = {"local_std"},
                     [FL_VIEW_PAPER] = {"deviation"}}},
    .measure = deviation,
    .wanted = {offsetof(fli_metrics_settings, local)},
    .asks = FLI_FIGURES_OWN,
};
