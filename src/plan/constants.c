/* The facts that theorems need, client by client.
 *
 * For linear models the smoothness constants L_i hold for every model x, and are over all of a client's samples
 * (solver/curvature.h). For networks no such constant exists; the code measures the largest |eigenvalue| of the Hessian
 * at the model that the run starts from, over a random part of the client's samples. Both are constants of the whole
 * f_i: with its unlabelled terms and weight decay. So are the moduli of strong convexity mu_i. */
#include "plan/constants.h"

#include "model/model.h"
#include "model/semi.h"
#include "solver/curvature.h"
#include "solver/minibatch.h"
#include "solver/two_level.h"

#include <math.h>
#include <string.h>

enum {
    BOUNDED = 1000, /* the most clients that are measured if L_i is a bound, */
    AT_START = 100, /* or if it is the curvature at the start */
};

/* Memory for measuring one client after the other. */
typedef struct {
    const fli_plan *plan;
    const fli_measured *known; /* curvatures that were measured before; may be NULL */
    int bounds;                /* L_i for all x, if the model has a bound; else at the start, for any model */
    fli_batch batch, upper;
    uint32_t *order, *pick, *rows;
    void *x, *y, *scratch, *slope;
} meter;

static fl_status meter_init(fl_ctx *ctx, const fli_plan *p, meter *m)
{
    const fl_space *space = &p->model->space;
    size_t most = 2 * FLI_MEASURED_SAMPLES, rows = p->model->latent ? p->model->latent->size(p->model) : 0;
    fl_status s = fli_model_batch(ctx, p->model, most, &m->batch);
    if (!s) s = fli_model_batch(ctx, p->model, most, &m->upper);
    if (s) return s;
    m->x = fli_alloc(ctx, space->n, space->ops->size);
    m->slope = fli_alloc(ctx, space->n, space->ops->size);
    m->scratch = fli_alloc(ctx, fli_model_scratch(p->model, most), 1);
    m->y = fli_alloc(ctx, FLI_MEASURED_SAMPLES * rows + 1, space->ops->size);
    m->order = fli_alloc(ctx, p->fed->largest + 1, sizeof *m->order);
    m->pick = fli_alloc(ctx, most, sizeof *m->pick);
    m->rows = fli_alloc(ctx, most, sizeof *m->rows);
    if (!m->x || !m->slope || !m->scratch || !m->y || !m->order || !m->pick || !m->rows) return FL_ENOMEM;
    if (!p->start) return fli_model_start_from(ctx, p->model, p->fed, (uint64_t)p->settings->top.seed, m->x);
    fli_copy(space, p->start, m->x);
    return FL_OK;
}

static void meter_fini(meter *m)
{
    fli_batch_fini(&m->batch);
    fli_batch_fini(&m->upper);
    fli_free(m->x);
    fli_free(m->slope);
    fli_free(m->scratch);
    fli_free(m->y);
    fli_free(m->order);
    fli_free(m->pick);
    fli_free(m->rows);
}

/* ---- facts from settings --------------------------------------------------------------------------------- */

/* The most and the fewest steps that a client may take in a round. */
static void steps_of(const fli_plan *p, const fli_view *v, fl_facts *f)
{
    const fli_local_work *e = &p->settings->local.work;
    fli_sgd_spec sgd = fli_settings_sgd(p->settings);
    size_t per_epoch = fli_objective_steps(p->model, &sgd, v->n_train, v->n_unlabelled),
           unit = e->steps ? 1 : per_epoch;
    if (p->setup.algo->rounds.steps) {
        f->steps = fli_algo_steps(p->setup.algo, p->setup.params, nextafter(1, 0));
        f->least_steps = fli_algo_steps(p->setup.algo, p->setup.params, 0);
        return;
    }
    f->steps = f->least_steps = fli_local_steps(e, (uint64_t)p->settings->top.seed, 0, f->client, per_epoch);
    if (e->uneven != FLI_UNEVEN_RANGE) return;
    f->steps = (size_t)e->range.v[1] * unit;
    f->least_steps = (size_t)e->range.v[0] * unit;
}

static int over_all(const fli_plan *p, const fli_view *v)
{
    fli_sgd_spec latent = fli_latent_spec(&p->setup.sgd);
    int pseudo = p->model->latent && !p->model->latent->every;
    return fli_batch_size(&p->setup.sgd, v->n_train) >= v->n_train && !v->ds->augment &&
           !(pseudo && fli_batch_size(&latent, v->n_unlabelled) < v->n_unlabelled);
}

/* The facts that follow from settings, without measuring. */
static fl_facts stated(const fli_plan *p, const double *weights, const fli_view *v, size_t client)
{
    const fli_settings *s = p->settings;
    int labels = p->model->latent && !p->model->latent->every;
    const fli_semi *semi = labels ? p->model->latent_params : NULL;
    fl_facts f = {
        .clients = p->fed->clients,
        .client = (uint32_t)client,
        .convex = (p->model->desc->traits & FLI_MODEL_CONVEX) != 0 && !labels, /* sum h ln h is not convex in x */
        .bounded = fli_bounded(p->model) && !v->ds->augment,
        .composite = p->setup.regularizer != NULL,
        .g_modulus = fli_regularizer_weak_convexity(p->setup.regularizer, s->regularizer.params),
        .model_traits = p->model->desc->traits,
        .momentum = s->local.momentum,
        .constant_lr = fli_settings_lr(&s->local, 1, 1) == fli_settings_lr(&s->local, 0, 1),
        .base_lr = s->local.lr,
        .lr = s->local.lr * fli_reals_at(&s->local.lr_factors, client),
        .weight = weights[client],
        .convexity = NAN,
        .sure_convexity = NAN,
        .upper_smoothness = NAN,
        .upper_slope = NAN,
        .second_block = p->model->latent != NULL,
        .label_entropy = semi ? semi->alpha_r : NAN,
        .confidence = semi && semi->labels == FLI_SEMI_CLOSED_FORM ? semi->confidence : 0,
        .planned = p->participation->desc->planned,
        .dropped = s->system.deadline > 0 || s->system.wait_for < 1,
        .uniform_cohort = p->participation->desc->everyone || !strcmp(p->participation->desc->name, "uniform"),
    };
    fli_participation_range(p->participation, client, &f.probability, &f.most_likely);
    f.full_batch = over_all(p, v);
    steps_of(p, v, &f);
    return f;
}

/* ---- one client ------------------------------------------------------------------------------------------ */

/* Draws at most FLI_MEASURED_SAMPLES of n samples, every choice equally likely; returns their number. */
static size_t draw(const meter *m, uint32_t client, const uint32_t *from, size_t n, uint32_t stream, uint32_t *out)
{
    size_t count = n < FLI_MEASURED_SAMPLES ? n : FLI_MEASURED_SAMPLES;
    fli_rng rng;
    fli_rng_init(&rng, (uint64_t)m->plan->settings->top.seed, FLI_RNG_PROBE, stream, client);
    fli_rng_sample(&rng, n, count, m->rows);
    for (size_t i = 0; i < count; i++) out[i] = from[m->rows[i]];
    return count;
}

enum { LABELLED = 2, UNLABELLED, HELD_OUT }; /* streams of draw */

/* The modulus that is added to a convex loss. */
static double certain_convexity(const fli_model *m, size_t samples)
{
    if (m->bilevel) return m->bilevel->desc->convex || m->desc->traits & FLI_MODEL_CONVEX ? m->bilevel->common.l2 : NAN;
    return m->desc->traits & FLI_MODEL_CONVEX && (!m->latent || m->latent->every) ? fli_model_decay(m, samples) : NAN;
}

static uint64_t seed_of(const meter *m) { return (uint64_t)m->plan->settings->top.seed; }

static fl_status measure_bounds(fl_ctx *ctx, meter *m, const fli_view *v, fl_facts *f)
{
    fl_status s = fli_smoothness_bound(ctx, m->plan->model, v, seed_of(m), &f->smoothness, &f->convexity);
    if (!f->convex) f->convexity = NAN;
    return s;
}

/* With pseudo labels: the batch has labelled samples, then others, with the labels that a first turn computes. */
static fl_status measure_pseudo(fl_ctx *ctx, meter *m, const fli_view *v, fl_facts *f)
{
    const fli_model *model = m->plan->model;
    const fli_ops *ops = model->space.ops;
    size_t plain = draw(m, f->client, v->train, v->n_train, LABELLED, m->pick), size = model->latent->size(model),
           rest = draw(m, f->client, v->unlabelled, v->n_unlabelled, UNLABELLED, m->pick + plain);
    ops->fill(rest * size, 1 / (double)size, m->y);
    fli_batch_gather(&m->batch, v->ds, m->pick + plain, rest);
    model->latent->improve(model, m->x, &m->batch, v->n_unlabelled, m->y, m->scratch);
    fli_batch_gather(&m->batch, v->ds, m->pick, plain + rest);
    return fli_pseudo_smoothness(ctx, model, m->x, &m->batch, plain, m->y, v->n_train, seed_of(m), &f->smoothness);
}

static fl_status measure_at_start(fl_ctx *ctx, meter *m, const fli_view *v, fl_facts *f)
{
    const fli_model *model = m->plan->model;
    size_t n = draw(m, f->client, v->train, v->n_train, LABELLED, m->pick);
    fli_batch_gather(&m->batch, v->ds, m->pick, n);
    fl_status s = fli_smoothness(ctx, model, m->x, &m->batch, v->n_train, seed_of(m), &f->smoothness);
    if (s || !f->convex || !m->plan->setup.algo->theory.check) return s;
    return fli_convexity(ctx, model, m->x, &m->batch, v->n_train, seed_of(m), f->smoothness, &f->convexity);
}

/* Two levels: f_i on its own samples, g_i on the others. */
static fl_status measure_levels(fl_ctx *ctx, meter *m, const fli_view *v, fl_facts *f)
{
    const fli_model *model = m->plan->model;
    size_t held = fli_levels_split(model, v, seed_of(m), f->client, m->order), n = v->n_train, shared = held ? held : n,
           at = model->bilevel->upper;
    fl_space lower = fli_lower_space(&model->space, at);
    fli_batch_gather(&m->batch, v->ds, m->pick, draw(m, f->client, m->order + held, n - held, LABELLED, m->pick));
    fl_status s = fli_smoothness(ctx, model, m->x, &m->batch, n, seed_of(m), &f->smoothness);
    if (!s && m->plan->setup.algo->theory.check)
        s = fli_convexity(ctx, model, m->x, &m->batch, n, seed_of(m), f->smoothness, &f->convexity);
    fli_batch_gather(&m->upper, v->ds, m->pick, draw(m, f->client, m->order, shared, HELD_OUT, m->pick));
    fli_bilevel_upper(model, m->x, &m->upper, m->slope, m->scratch);
    const void *slope = fli_cat(model->space.ops, m->slope, at);
    f->upper_slope = sqrt(fli_dot(&lower, slope, slope));
    if (!s && m->plan->setup.algo->theory.check)
        s = fli_upper_smoothness(ctx, model, m->x, &m->upper, seed_of(m), &f->upper_smoothness);
    return s;
}

/* Selects the measurement by the kind of objective. */
static fl_status measure_curvature(fl_ctx *ctx, meter *m, const fli_view *v, fl_facts *f)
{
    const fli_model *model = m->plan->model;
    int pseudo = model->latent && !model->latent->every && v->n_unlabelled;
    f->sure_convexity = certain_convexity(model, v->n_train);
    if (model->bilevel) return measure_levels(ctx, m, v, f);
    if (m->bounds && f->bounded) return measure_bounds(ctx, m, v, f);
    if (pseudo) return measure_pseudo(ctx, m, v, f);
    return measure_at_start(ctx, m, v, f);
}

/* Fills the batch with samples that have a y, and measures. */
static void measure_block(meter *m, const fli_view *v, fl_facts *f)
{
    const fli_model *model = m->plan->model;
    if (!model->latent) return;
    const uint32_t *from = model->latent->every ? v->train : v->unlabelled;
    size_t n = model->latent->every ? v->n_train : v->n_unlabelled;
    f->second_block = n > 0;
    if (!n) return;
    fli_batch_gather(&m->batch, v->ds, m->pick, draw(m, f->client, from, n, UNLABELLED, m->pick));
    f->block = model->latent->rule(model, m->x, &m->batch, n, m->scratch);
}

static void take_curvature(const fl_facts *known, fl_facts *f)
{
    f->smoothness = known->smoothness;
    f->convexity = known->convexity;
    f->sure_convexity = known->sure_convexity;
    f->upper_smoothness = known->upper_smoothness;
    f->upper_slope = known->upper_slope;
}

static fl_status measure_client(fl_ctx *ctx, meter *m, const double *weights, size_t client, const fl_facts *known,
                                fl_facts *f)
{
    const fli_plan *p = m->plan;
    fli_view v;
    fl_status s = fli_view_open(ctx, p->fed, client, &v);
    if (s) return s;
    *f = stated(p, weights, &v, client);
    if (known)
        take_curvature(known, f);
    else
        s = measure_curvature(ctx, m, &v, f);
    if (f->convexity < 1e-6 * f->smoothness) f->convexity = fmin(f->convexity, 0); /* it cannot be told from 0 */
    if (f->sure_convexity > f->convexity) f->convexity = f->sure_convexity;
    if (!s) measure_block(m, &v, f);
    fli_view_close(&v);
    return s ? s : fli_model_status(ctx, p->model, " at client %zu", client);
}

/* ---- all of them ----------------------------------------------------------------------------------------- */

static void add_to_all(fl_facts_all *a, const fl_facts *f)
{
    a->smoothness = fmax(a->smoothness, f->smoothness);
    a->least_smoothness = fmin(a->least_smoothness, f->smoothness);
    if (isnan(f->convexity) || !(a->convexity < f->convexity)) a->convexity = f->convexity;
    a->most_convexity = fmax(a->most_convexity, f->convexity);
    a->upper_smoothness = fmax(a->upper_smoothness, f->upper_smoothness);
    a->upper_slope = fmax(a->upper_slope, f->upper_slope);
    if (f->steps > a->steps) a->steps = f->steps;
    if (f->least_steps < a->least_steps) a->least_steps = f->least_steps;
    a->probability = fmin(a->probability, f->probability);
    a->lr = fmax(a->lr, f->lr);
    a->least_lr = fmin(a->least_lr, f->lr);
    a->reach = fmax(a->reach, f->lr * (double)f->steps);
    a->least_reach = fmin(a->least_reach, f->lr * (double)f->least_steps);
}

/* Adds the worst second block; the client with the largest L_i may have none. */
static void add_block(fl_facts *worst, const fl_facts *f)
{
    if (!f->second_block) return;
    if (!worst->second_block) worst->block = f->block;
    worst->second_block = 1;
    worst->block.lr = fmax(worst->block.lr, f->block.lr);
    worst->block.smoothness = fmax(worst->block.smoothness, f->block.smoothness);
    worst->block.drawn |= f->block.drawn;
}

static size_t fixed_cohort(const fli_participation *p)
{
    const char *name = p->desc->name;
    int fixed = p->desc->everyone || !strcmp(name, "uniform") || !strcmp(name, "weighted") || !strcmp(name, "cyclic");
    return fixed ? p->largest : 0;
}

static void gather_all(fli_measured *m)
{
    fl_facts_all *a = &m->all;
    const double *weights = a->weights;
    *a = (fl_facts_all){.least_smoothness = INFINITY,
                        .convexity = INFINITY,
                        .least_steps = SIZE_MAX,
                        .probability = 1,
                        .least_lr = INFINITY,
                        .least_reach = INFINITY,
                        .weights = weights,
                        .equal_weights = 1,
                        .each = m->client,
                        .count = m->measured,
                        .clients = m->plan->fed->clients,
                        .cohort = fixed_cohort(m->plan->participation)};
    for (size_t i = 1; i < a->clients; i++) a->equal_weights &= fabs(weights[i] - weights[0]) <= 1e-12 * weights[0];
    m->worst = m->client[0];
    for (size_t i = 0; i < m->measured; i++) {
        fl_facts *f = &m->client[i];
        f->all = a;
        add_to_all(a, f);
        a->mean_smoothness += f->smoothness / (double)m->measured;
        if (f->smoothness > m->worst.smoothness) m->worst = *f;
    }
    for (size_t i = 0; i < m->measured; i++) add_block(&m->worst, &m->client[i]);
    m->worst.all = a;
    m->worst.steps = a->steps;
    m->worst.least_steps = a->least_steps;
    m->worst.probability = a->probability;
    m->worst.convexity = a->convexity;
}

static double *weights_of(fl_ctx *ctx, const fli_plan *p)
{
    size_t n = p->fed->clients;
    double *w = fli_alloc(ctx, n, sizeof *w);
    for (size_t i = 0; w && i < n; i++) w[i] = fli_plan_weight(p, i);
    return w;
}

/* Chooses all clients, or as many as can be measured, every choice equally likely. */
static fl_status choose_clients(fl_ctx *ctx, const fli_plan *p, size_t most, uint32_t **chosen, size_t *count)
{
    size_t n = p->fed->clients;
    fli_rng rng;
    *count = n < most ? n : most;
    if (!(*chosen = fli_alloc(ctx, *count, sizeof **chosen))) return FL_ENOMEM;
    fli_rng_init(&rng, (uint64_t)p->settings->top.seed, FLI_RNG_PROBE, 1, 1);
    fli_rng_sample(&rng, n, *count, *chosen);
    return FL_OK;
}

static fl_status measure_all(fl_ctx *ctx, const fli_plan *p, meter *m, const uint32_t *chosen, size_t n,
                             fli_measured *out)
{
    fl_status s = meter_init(ctx, p, m);
    for (; out->measured < n && !s; out->measured++)
        s = measure_client(ctx, m, out->all.weights, chosen[out->measured],
                           m->known ? &m->known->client[out->measured] : NULL, &out->client[out->measured]);
    meter_fini(m);
    return s;
}

static fl_status measure(fl_ctx *ctx, const fli_plan *p, int bounds, const fli_measured *known, fli_measured *out)
{
    meter m = {.plan = p, .known = known, .bounds = bounds};
    uint32_t *chosen = NULL;
    size_t n = 0;
    *out = (fli_measured){.plan = p};
    fl_status s = fli_model_needs_hvp(ctx, p->model, "the smoothness of the objective");
    if (!s) s = choose_clients(ctx, p, bounds && fli_bounded(p->model) ? BOUNDED : AT_START, &chosen, &n);
    if (!s && (!(out->client = fli_alloc(ctx, n, sizeof *out->client)) || !(out->all.weights = weights_of(ctx, p))))
        s = FL_ENOMEM;
    if (!s) s = measure_all(ctx, p, &m, chosen, n, out);
    if (!s) gather_all(out);
    fli_free(chosen);
    return s;
}

fl_status fli_measure_facts(fl_ctx *ctx, const fli_plan *p, int bounds, fli_measured *out)
{
    return measure(ctx, p, bounds, NULL, out);
}

fl_status fli_measure_again(fl_ctx *ctx, const fli_plan *p, const fli_measured *known, fli_measured *out)
{
    return measure(ctx, p, 1, known, out);
}

void fli_measured_free(fli_measured *m)
{
    fli_free(m->client);
    fli_free((void *)m->all.weights);
    *m = (fli_measured){0};
}

/* ---- conditions ------------------------------------------------------------------------------------------ */

/* Conditions are monotone in the number of steps and in p_i, in either direction: so both ends are checked. */
void fli_ask_theory(const fli_plan *p, fli_theory_conditions *check, const fl_facts *f, fl_conditions *out)
{
    for (int k = 0; k < 4; k++) {
        fl_facts at = *f;
        if (k & 1) at.steps = f->least_steps;
        if (k & 2) at.probability = f->most_likely;
        if ((k & 1 && at.steps == f->steps) || (k & 2 && at.probability == f->probability)) continue;
        fli_algo_enter(p->setup.algo);
        check(p->setup.params, &at, out);
        fli_algo_leave(p->setup.algo);
    }
}

fl_status fli_theory_smoothness(const fli_plan *p, int bounds, double *largest)
{
    fli_measured facts;
    fl_status s = fli_measure_facts(p->ctx, p, bounds, &facts);
    *largest = facts.all.smoothness;
    fli_measured_free(&facts);
    return s;
}
