/* The global model x: loss, accuracy, gradient, regulariser. */
#include "metric/metric_list.h"

#include <math.h>

static int wants_train(const fli_metrics_settings *what, const fli_model *model) { return (void)model, what->train; }
static int wants_test(const fli_metrics_settings *what, const fli_model *model) { return (void)model, what->test; }
static int wants_gradient(const fli_metrics_settings *what, const fli_model *model)
{
    return (void)model, what->gradient;
}

static double train_loss(fli_moment *m) { return fli_train_loss(m, 0); }
static double train_accuracy(fli_moment *m) { return fli_train_accuracy(m, 0); }
static double test_loss(fli_moment *m) { return fli_test_loss(m, 0); }
static double test_accuracy(fli_moment *m) { return fli_test_accuracy(m, 0); }

static double gradient2(fli_moment *m)
{
    double weight = fli_train_weight(m);
    return fli_dot(m->space, m->gradient, m->gradient) / (weight * weight);
}

static double regularizer(fli_moment *m)
{
    int none = !fli_exec_spec_of(m->exec)->regularizer;
    return none ? NAN : fli_coordinator_regularizer(fli_exec_coordinator(m->exec));
}

const fli_metric fli_metric_train_loss = {
    .is = {.name = "train_loss",
           .title = "training loss",
           .help =
               "f(x), weight decay included; with `semi` f(x, nu), pseudo labels and entropies included, at the pseudo "
               "labels that clients have: those of their last turn where they keep them (projected), else those "
               "that x gives",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .shown = {[FL_VIEW_EVENTS] = {"train/loss"},
                     [FL_VIEW_CHART] = {"train-loss", 2},
                     [FL_VIEW_PROGRESS] = {"train loss", 21},
                     [FL_VIEW_RUN] = {"train loss"},
                     [FL_VIEW_STUDY] = {"train loss"},
                     [FL_VIEW_STUDY_FILES] = {"train_loss", 2},
                     [FL_VIEW_PAPER] = {"loss"}}},
    .measure = train_loss,
    .wanted = wants_train,
    .asks = FLI_FIGURES_TRAIN,
};

const fli_metric fli_metric_train_accuracy = {
    .is = {.name = "train_accuracy",
           .title = "training accuracy",
           .help = "of the global model x, weighted as f is",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"train/accuracy"},
                     [FL_VIEW_CHART] = {"train-accuracy", 5},
                     [FL_VIEW_PROGRESS] = {"train acc.", 12}}},
    .measure = train_accuracy,
    .wanted = wants_train,
    .asks = FLI_FIGURES_TRAIN,
};

const fli_metric fli_metric_test_loss = {
    .is = {.name = "test_loss",
           .title = "test loss",
           .help = "mean over the test samples, without weight decay",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .shown = {[FL_VIEW_EVENTS] = {"test/loss"},
                     [FL_VIEW_CHART] = {"test-loss", 3},
                     [FL_VIEW_PROGRESS] = {"test loss", 22}}},
    .measure = test_loss,
    .wanted = wants_test,
    .asks = FLI_FIGURES_TEST,
};

const fli_metric fli_metric_test_accuracy = {
    .is = {.name = "test_accuracy",
           .title = "test accuracy",
           .help = "on the test set or, without one, on the clients' own test parts",
           .unit = FL_UNIT_SHARE,
           .better = FL_BETTER_HIGH,
           .shown = {[FL_VIEW_EVENTS] = {"test/accuracy"},
                     [FL_VIEW_CHART] = {"test-accuracy", 1},
                     [FL_VIEW_PROGRESS] = {"test acc.", 11},
                     [FL_VIEW_RUN] = {"test acc."},
                     [FL_VIEW_STUDY] = {"test accuracy %", 1},
                     [FL_VIEW_STUDY_FILES] = {"test_accuracy", 1},
                     [FL_VIEW_PAPER] = {"accuracy"}}},
    .measure = test_accuracy,
    .wanted = wants_test,
    .asks = FLI_FIGURES_TEST,
};

const fli_metric fli_metric_gradient2 = {
    .is = {.name = "gradient2",
           .title = "squared gradient norm",
           .help = "||grad f(x)||^2, of the f of train_loss",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .digits = 3,
           .shown = {[FL_VIEW_EVENTS] = {"gradient/norm2"},
                     [FL_VIEW_CHART] = {"gradient", 4},
                     [FL_VIEW_PROGRESS] = {"|grad|^2", 31}}},
    .measure = gradient2,
    .wanted = wants_gradient,
    .asks = FLI_FIGURES_GRADIENT,
};

const fli_metric fli_metric_regularizer = {
    .is = {.name = "regularizer",
           .title = "regulariser g(x)",
           .help = "g(x) of a composite problem",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_WIDE,
           .shown = {[FL_VIEW_EVENTS] = {"train/regularizer"}, [FL_VIEW_CHART] = {"regularizer", 12}}},
    .measure = regularizer,
};
