/* Metrics of the run and of the global model: counters (rounds, bytes, work, time), loss, accuracy and gradient of x,
 * optimality gaps, two-level problems, potentials. Each is a row: see metric.h. */
#include "metric/metric.h"
#include "model/model.h"

#include <math.h>

/* ==== counters ============================================================================================= */

const fli_metric fli_metric_round = {
    .is = {.name = "round",
           .title = "rounds",
           .help = "rounds so far; for asynchronous methods: server steps",
           .unit = FL_UNIT_COUNT,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_AXIS] = {"rounds"},
                     [FL_VIEW_RUN] = {"rounds"},
                     [FL_VIEW_STUDY_FILES] = {"rounds", 3},
                     [FL_VIEW_TARGET] = {"rounds"},
                     [FL_VIEW_TARGET_FILES] = {"rounds"},
                     [FL_VIEW_PAPER] = {"rounds"}}},
    .count = FLI_COUNTED(round),
};

const fli_metric fli_metric_cohort = {
    .is = {.name = "cohort",
           .title = "clients in the last round",
           .help = "clients that took part in the last round",
           .unit = FL_UNIT_COUNT,
           .shown = {[FL_VIEW_EVENTS] = {"clients/cohort"}}},
    .count = FLI_COUNTED(cohort),
};

const fli_metric fli_metric_bytes_up = {
    .is = {.name = "bytes_up",
           .title = "uploaded by all clients",
           .help = "from all clients since the start",
           .unit = FL_UNIT_BYTES,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"communication/bytes_up"},
                     [FL_VIEW_AXIS] = {"bytes"},
                     [FL_VIEW_RUN] = {"MB up", 51},
                     [FL_VIEW_STUDY] = {"MB up", 51},
                     [FL_VIEW_STUDY_FILES] = {"megabytes_up", 4},
                     [FL_VIEW_TARGET] = {"MB"},
                     [FL_VIEW_TARGET_FILES] = {"megabytes"}}},
    .count = FLI_COUNTED(bytes_up),
};

const fli_metric fli_metric_bytes_down = {
    .is = {.name = "bytes_down",
           .title = "downloaded by all clients",
           .help = "to all clients since the start",
           .unit = FL_UNIT_BYTES,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"communication/bytes_down"}}},
    .count = FLI_COUNTED(bytes_down),
};

const fli_metric fli_metric_local_steps = {
    .is = {.name = "local_steps",
           .title = "local steps of all clients",
           .help = "of all clients since the start: gradients of mini-batches; one over all samples counts as an epoch",
           .unit = FL_UNIT_COUNT,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"work/local_steps"}}},
    .count = FLI_COUNTED(local_steps),
};

const fli_metric fli_metric_seconds = {
    .is = {.name = "seconds",
           .title = "time",
           .help = "spent in rounds, not counting measurements",
           .unit = FL_UNIT_SECONDS,
           .better = FL_BETTER_LOW,
           .digits = 1,
           .shown = {[FL_VIEW_EVENTS] = {"work/seconds"},
                     [FL_VIEW_AXIS] = {"seconds"},
                     [FL_VIEW_RUN] = {"seconds", 52},
                     [FL_VIEW_STUDY] = {"seconds", 54},
                     [FL_VIEW_STUDY_FILES] = {"seconds", 5},
                     [FL_VIEW_PAPER] = {"seconds"}}},
    .count = FLI_COUNTED(seconds),
};

const fli_metric fli_metric_simulated_seconds = {
    .is = {.name = "simulated_seconds",
           .title = "simulated time",
           .help = "of the virtual clock (`system`)",
           .unit = FL_UNIT_SECONDS,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"work/simulated_seconds"},
                     [FL_VIEW_AXIS] = {"simulated"},
                     [FL_VIEW_NOTE] = {"simulated time:"},
                     [FL_VIEW_STUDY] = {"sim. s", 52},
                     [FL_VIEW_STUDY_FILES] = {"simulated_seconds"},
                     [FL_VIEW_TARGET] = {"sim. s"},
                     [FL_VIEW_TARGET_FILES] = {"simulated"}}},
    .count = FLI_COUNTED(simulated_seconds),
};

const fli_metric fli_metric_staleness = {
    .is = {.name = "staleness",
           .title = "staleness of uploads, mean",
           .help = "for asynchronous methods: mean age of the uploads since the last line, in server steps,",
           .better = FL_BETTER_LOW,
           .digits = 3,
           .shown = {[FL_VIEW_EVENTS] = {"async/staleness"},
                     [FL_VIEW_CHART] = {"staleness", 15},
                     [FL_VIEW_NOTE] = {"age of the newest uploads, in server updates: mean"}}},
    .count = FLI_COUNTED(staleness),
};

const fli_metric fli_metric_staleness_max = {
    .is = {.name = "staleness_max",
           .title = "staleness of uploads, largest",
           .help = "and the largest",
           .unit = FL_UNIT_COUNT,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"async/staleness_max"},
                     [FL_VIEW_NOTE] = {"age of the newest uploads, in server updates: largest"}}},
    .count = FLI_COUNTED(staleness_max),
};

/* It has no direction: the value depends on the machines, so it does not judge a method. */
const fli_metric fli_metric_idle = {
    .is = {.name = "idle",
           .title = "time that processes wait for each other, mean",
           .help = "of a run by several processes: the share of the time in rounds since the last line that a process "
                   "waited for the others, mean over processes,",
           .unit = FL_UNIT_SHARE,
           .shown = {[FL_VIEW_EVENTS] = {"work/idle"}}},
    .count = FLI_COUNTED(idle),
};

const fli_metric fli_metric_idle_most = {
    .is = {.name = "idle_most",
           .title = "time that processes wait for each other, largest",
           .help = "and the largest",
           .unit = FL_UNIT_SHARE,
           .shown = {[FL_VIEW_EVENTS] = {"work/idle_most"}}},
    .count = FLI_COUNTED(idle_most),
};

const fli_metric fli_metric_communications = {
    .is = {.name = "communications",
           .title = "communications",
           .help = "exchanges of the server with a cohort since the start; several per round for some methods",
           .unit = FL_UNIT_COUNT,
           .better = FL_BETTER_LOW,
           .beyond_round = 1,
           .shown = {[FL_VIEW_EVENTS] = {"communication/round_trips"},
                     [FL_VIEW_AXIS] = {"communications"},
                     [FL_VIEW_NOTE] = {"communications:", 2},
                     [FL_VIEW_STUDY] = {"comm.", 53},
                     [FL_VIEW_STUDY_FILES] = {"communications"},
                     [FL_VIEW_TARGET] = {"comm."},
                     [FL_VIEW_TARGET_FILES] = {"communications"}}},
    .count = FLI_COUNTED(communications),
};

const fli_metric fli_metric_evaluation_bytes_up = {
    .is = {.name = "evaluation_bytes_up",
           .title = "uploaded for metrics",
           .help = "from the clients that were asked for metrics, since the start; not in bytes_up",
           .unit = FL_UNIT_BYTES,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"communication/evaluation_bytes_up"}}},
    .count = FLI_COUNTED(evaluation_up),
};

const fli_metric fli_metric_evaluation_bytes_down = {
    .is = {.name = "evaluation_bytes_down",
           .title = "downloaded for metrics",
           .help = "to them: the models that they measure; not in bytes_down",
           .unit = FL_UNIT_BYTES,
           .better = FL_BETTER_LOW,
           .shown = {[FL_VIEW_EVENTS] = {"communication/evaluation_bytes_down"}}},
    .count = FLI_COUNTED(evaluation_down),
};

/* ==== the global model ===================================================================================== */

/* Of x: loss, accuracy, gradient, regulariser. */

static double train_accuracy(fli_measurement *m) { return fli_train_accuracy(m, 0); }
static double test_loss(fli_measurement *m) { return fli_test_loss(m, 0); }
static double test_accuracy(fli_measurement *m) { return fli_test_accuracy(m, 0); }

static double gradient2(fli_measurement *m)
{
    double weight = fli_train_weight(m);
    return fli_dot(m->space, m->gradient, m->gradient) / (weight * weight);
}

static double regularizer(fli_measurement *m)
{
    int none = !fli_exec_setup(m->exec)->regularizer;
    return none ? NAN : fli_server_state_regularizer(fli_exec_server_state(m->exec));
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
    .mean = FLI_FIGURE_TRAIN_LOSS,
    .wanted = {offsetof(fli_metrics_settings, train)},
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
    .wanted = {offsetof(fli_metrics_settings, train)},
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
    .wanted = {offsetof(fli_metrics_settings, test)},
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
    .wanted = {offsetof(fli_metrics_settings, test)},
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
    .wanted = {offsetof(fli_metrics_settings, gradient)},
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

/* ==== gradient mapping ===================================================================================== */

/* The gradient mapping of a composite problem f + g,
 *
 *   G_eta(x) = (x - prox_{eta g}(x - eta grad f(x)))/eta,
 *
 * which is 0 exactly where x is stationary, for any eta (of a g that is not convex, for short ones). Without g it is
 * the gradient. ||G_eta(x)|| falls in eta and eta ||G_eta(x)|| rises, so values for different eta cannot be compared;
 * the default is the eta in which the method's own theorem is stated. */

static double eta_of(const fli_measurement *m)
{
    const fli_setup *setup = fli_exec_setup(m->exec);
    if (m->what->mapping_eta > 0) return m->what->mapping_eta;
    if (!setup->algo->theory.mapping_eta) return 1;
    fli_algo_enter(setup->algo);
    double eta = setup->algo->theory.mapping_eta(setup->params);
    fli_algo_leave(setup->algo);
    return eta;
}

/* In double, as regularisers are. `step` has n entries: y = x - eta grad f(x), then its prox; `work` has 2 n. */
static double mapping_at(const fli_measurement *m, const void *gradient, double eta, double *step, double *work)
{
    const fli_setup *setup = fli_exec_setup(m->exec);
    const fl_space *s = m->space;
    double *x = work, weight = fli_train_weight(m), sum = 0;
    fli_vector_read(s, fli_bytes(s), gradient, work);
    s->ops->to_f64(s->n, work, step);
    s->ops->to_f64(s->n, fli_exec_server(m->exec)[0], x);
    for (size_t i = 0; i < s->n; i++) step[i] = x[i] - eta * (step[i] / weight);
    setup->regularizer->prox(setup->regularizer_params, eta, s->n, step, work + s->n);
    for (size_t i = 0; i < s->n; i++) sum += (x[i] - step[i]) * (x[i] - step[i]);
    return sqrt(sum) / eta;
}

/* ||G_eta(x)||, from the sum of w_i grad f_i; NaN if out of memory, which is noted as a failure. */
static double mapping_norm(fli_measurement *m, const void *gradient, double eta)
{
    const fl_space *s = m->space;
    if (!fli_exec_setup(m->exec)->regularizer) return sqrt(fli_dot(s, gradient, gradient)) / fli_train_weight(m);
    double *room = fli_alloc(m->ctx, s->n, 3 * sizeof *room);
    if (!room) m->status = FL_ENOMEM;
    double norm = room ? mapping_at(m, gradient, eta, room, room + s->n) : NAN;
    fli_free(room);
    return norm;
}

static double mapping(fli_measurement *m) { return mapping_norm(m, m->gradient, eta_of(m)); }

const fli_metric fli_metric_gradient_mapping = {
    .is = {.name = "gradient_mapping",
           .title = "norm of the gradient mapping",
           .help = "||G_eta(x)||, 0 where f + g is stationary; ||grad f(x)|| without a regulariser "
                   "(`metrics.gradient_mapping`)",
           .better = FL_BETTER_LOW,
           .scale = FL_SCALE_LOG,
           .digits = 3,
           .shown = {[FL_VIEW_EVENTS] = {"gradient/mapping"},
                     [FL_VIEW_CHART] = {"gradient-mapping"},
                     [FL_VIEW_PROGRESS] = {"|G|", 32},
                     [FL_VIEW_STUDY] = {"||G||"},
                     [FL_VIEW_STUDY_FILES] = {"gradient_mapping"},
                     [FL_VIEW_PAPER] = {"mapping"}}},
    .measure = mapping,
    .wanted = {offsetof(fli_metrics_settings, gradient_mapping)},
    .asks = FLI_FIGURES_GRADIENT,
};

/* ==== optimality gaps ====================================================================================== */

/* Optimality gaps that theorems on problems with a second block bound (fl_gap): 0 where x and all y_i are stationary
 * together. */

static const fl_gap *gap_of(const fli_exec *exec) { return &fli_exec_setup(exec)->algo->theory.gap; }

static int has_second_block(const fli_metrics_settings *what, const fli_model *model)
{
    return (void)what, model->latent != NULL;
}

/* ||grad f||^2, or the squared gradient mapping with the gap's step length. */
static double slope(fli_measurement *m, const fl_gap *g)
{
    const void *gradient = g->ahead ? m->ahead : m->gradient;
    double eta = g->eta ? fli_server_state_gap_eta(fli_exec_server_state(m->exec)) : 0, weight = fli_train_weight(m);
    if (g->eta) return eta > 0 ? pow(mapping_norm(m, gradient, eta), 2) : NAN;
    return fli_dot(m->space, gradient, gradient) / (weight * weight);
}

/* Memberships, and pseudo labels with a closed form, are not improved by steps, so clients have no step length. */
static double gap(fli_measurement *m)
{
    const fl_gap *g = gap_of(m->exec);
    const fli_latent *latent = m->model->latent;
    if (!g->name || !m->gradient || !latent->kept || latent->every) return NAN;
    double moves = fli_weighted_mean(m, FLI_FIGURE_LABELS_MOVE);
    double slopes = g->ahead ? fli_weighted_mean(m, FLI_FIGURE_LABELS_SLOPE) : 0;
    double square = slope(m, g);
    const fl_method *a = fli_exec_setup(m->exec)->algo;
    fli_algo_enter(a);
    double value = g->value(square, moves, slopes, m->smoothness);
    fli_algo_leave(a);
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
    .wanted = {offsetof(fli_metrics_settings, gradient)},
    .fits = has_second_block,
    .asks = FLI_FIGURES_GRADIENT | FLI_FIGURES_AHEAD,
};

/* ==== two-level problems =================================================================================== */

/* The distance of x from a stationary point of Phi, and of y and v from their solutions. */

static int has_two_levels(const fli_metrics_settings *what, const fli_model *model)
{
    return (void)what, model->bilevel != NULL;
}

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
    .at = offsetof(fli_measurement, levels.hypergradient),
    .wanted = {offsetof(fli_metrics_settings, hypergradient)},
    .fits = has_two_levels,
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
    .at = offsetof(fli_measurement, levels.lower_distance),
    .wanted = {offsetof(fli_metrics_settings, hypergradient)},
    .fits = has_two_levels,
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
    .at = offsetof(fli_measurement, levels.system_distance),
    .wanted = {offsetof(fli_metrics_settings, hypergradient)},
    .fits = has_two_levels,
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
    .at = offsetof(fli_measurement, levels.weighted),
    .wanted = {offsetof(fli_metrics_settings, hypergradient)},
    .fits = has_two_levels,
};

/* ==== potentials =========================================================================================== */

/* Potentials of methods (fl_potential): their value, and the largest rise of one that never rises by its theory. */

static const fl_potential *potential_of(const fli_exec *exec) { return &fli_exec_setup(exec)->algo->theory.potential; }

/* fli_term */
static double weight(const fli_client_figures *f, size_t term) { return (void)term, f->weight; }
static double weighted_term(const fli_client_figures *f, size_t term) { return f->weight * f->potential[term]; }

/* If only some clients are measured, their contributions stand for all. */
static double potential(fli_measurement *m)
{
    double sum[FL_POTENTIAL_TERMS];
    if (potential_of(m->exec)->levels) return m->levels.potential;
    if (!potential_of(m->exec)->name || !m->count) return NAN;
    for (size_t k = 0; k < FL_POTENTIAL_TERMS; k++)
        sum[k] = fli_measurement_sum(m, weighted_term, k) / fli_measurement_sum(m, weight, k);
    double value = fli_server_state_potential(fli_exec_server_state(m->exec), sum);
    return isfinite(value) ? value : NAN;
}

const fli_metric fli_metric_potential = {
    .is = {.name = "potential",
           .title = "the method's potential",
           .help = "the function that the method's theorem shows to fall (`metrics.potential`)",
           .better = FL_BETTER_NEITHER, /* other methods and parameters have other potentials */
           .scale = FL_SCALE_WIDE,
           .shown = {[FL_VIEW_EVENTS] = {"theory/potential"},
                     [FL_VIEW_CHART] = {"potential"},
                     [FL_VIEW_STUDY] = {"potential"},
                     [FL_VIEW_STUDY_FILES] = {"potential"}}},
    .measure = potential,
    .wanted = {offsetof(fli_metrics_settings, potential)},
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
    .count = FLI_COUNTED(potential_rise),
};
