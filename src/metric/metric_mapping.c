/* The gradient mapping of a composite problem f + g,
 *
 *   G_eta(x) = (x - prox_{eta g}(x - eta grad f(x)))/eta,
 *
 * which is 0 exactly where x is stationary, for any eta (of a g that is not convex, for short ones). Without g it is
 * the gradient. ||G_eta(x)|| falls in eta and eta ||G_eta(x)|| rises, so that values for different eta cannot be
 * compared; the default is the eta in which the method's own theorem is stated. */
#include "metric/metric_list.h"

#include <math.h>

static int wants_mapping(const fli_metrics_settings *what, const fli_model *model)
{
    return (void)model, what->gradient_mapping;
}

static double eta_of(const fli_moment *m)
{
    const fli_exec_spec *spec = fli_exec_spec_of(m->exec);
    if (m->what->mapping_eta > 0) return m->what->mapping_eta;
    return spec->algo->theory.mapping_eta ? spec->algo->theory.mapping_eta(spec->params) : 1;
}

/* In double, as regularisers are. `step` has n entries: y = x - eta grad f(x), then its prox; `work` has 2 n. */
static double mapping_at(const fli_moment *m, const void *gradient, double eta, double *step, double *work)
{
    const fli_exec_spec *spec = fli_exec_spec_of(m->exec);
    const fli_space *s = m->space;
    double *x = work, weight = fli_train_weight(m), sum = 0;
    fli_vector_read(s, fli_bytes(s), gradient, work);
    s->ops->to_f64(s->n, work, step);
    s->ops->to_f64(s->n, fli_exec_server(m->exec)[0], x);
    for (size_t i = 0; i < s->n; i++) step[i] = x[i] - eta * (step[i] / weight);
    spec->regularizer->prox(spec->regularizer_params, eta, s->n, step, work + s->n);
    for (size_t i = 0; i < s->n; i++) sum += (x[i] - step[i]) * (x[i] - step[i]);
    return sqrt(sum) / eta;
}

double fli_mapping_norm(fli_moment *m, const void *gradient, double eta)
{
    const fli_space *s = m->space;
    if (!fli_exec_spec_of(m->exec)->regularizer) return sqrt(fli_dot(s, gradient, gradient)) / fli_train_weight(m);
    double *room = fli_alloc(m->ctx, s->n, 3 * sizeof *room);
    if (!room) m->status = FL_ENOMEM;
    double norm = room ? mapping_at(m, gradient, eta, room, room + s->n) : NAN;
    fli_free(room);
    return norm;
}

static double mapping(fli_moment *m) { return fli_mapping_norm(m, m->gradient, eta_of(m)); }

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
    .wanted = wants_mapping,
    .asks = FLI_FIGURES_GRADIENT,
};
