/* Two-level problems: how far x is from a stationary point of Phi, and y and v from where they should be. */
#include "metric/metric_list.h"

static int wants_levels(const fli_metrics_settings *what, const fli_model *model)
{
    return what->hypergradient && model->bilevel;
}

static double hypergradient(fli_moment *m) { return m->levels.hypergradient; }
static double lower_distance(fli_moment *m) { return m->levels.lower_distance; }
static double system_distance(fli_moment *m) { return m->levels.system_distance; }

static double weighted_hypergradient(fli_moment *m) { return m->levels.weighted; }

const fli_metric fli_metric_hypergradient = {
    .is = {.name = "hypergradient",
           .title = "norm of the hypergradient",
           .help =
               "||grad Phi(x)|| of a bilevel problem, with y*(x) and v*(x) found by conjugate gradients on the exact "
               "Hessian of the lower level",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .digits = 3,
           .shown = {[FL_VIEW_EVENTS] = {"bilevel/hypergradient"},
                     [FL_VIEW_CHART] = {"hypergradient", 16},
                     [FL_VIEW_PROGRESS] = {"|grad Phi|", 32},
                     [FL_VIEW_STUDY] = {"||grad Phi||"},
                     [FL_VIEW_STUDY_FILES] = {"hypergradient"}}},
    .measure = hypergradient,
    .wanted = wants_levels,
};

const fli_metric fli_metric_lower_distance = {
    .is = {.name = "lower_distance",
           .title = "distance of y from the lower level's solution",
           .help = "||y - y*(x)|| of a bilevel problem",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .digits = 3,
           .shown = {[FL_VIEW_EVENTS] = {"bilevel/lower_distance"},
                     [FL_VIEW_CHART] = {"lower-distance", 17},
                     [FL_VIEW_STUDY] = {"||y - y*(x)||"},
                     [FL_VIEW_STUDY_FILES] = {"lower_distance"}}},
    .measure = lower_distance,
    .wanted = wants_levels,
};

const fli_metric fli_metric_system_distance = {
    .is = {.name = "system_distance",
           .title = "distance of v from the linear system's solution",
           .help = "||v - v*(x)|| of a bilevel problem, for methods whose server has a v",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .digits = 3,
           .shown = {[FL_VIEW_EVENTS] = {"bilevel/system_distance"},
                     [FL_VIEW_CHART] = {"system-distance", 18},
                     [FL_VIEW_STUDY] = {"||v - v*(x)||"},
                     [FL_VIEW_STUDY_FILES] = {"system_distance"}}},
    .measure = system_distance,
    .wanted = wants_levels,
};

const fli_metric fli_metric_weighted_hypergradient = {
    .is = {.name = "weighted_hypergradient",
           .title = "norm of the hypergradient, clients weighed as the method does",
           .help = "||grad Phi~(x)||, with the weights with which the method's steps count: those of simfbo are "
                   "proportional to p_i ||a_i||_1, with the mean of ||a_i||_1 over rounds, so that unequal work makes "
                   "another problem of it; of the others p_i, and this is the hypergradient",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .digits = 3,
           .shown = {[FL_VIEW_EVENTS] = {"bilevel/weighted_hypergradient"},
                     [FL_VIEW_CHART] = {"weighted-hypergradient", 17},
                     [FL_VIEW_STUDY_FILES] = {"weighted_hypergradient"}}},
    .measure = weighted_hypergradient,
    .wanted = wants_levels,
};
