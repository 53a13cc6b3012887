/* The facts that theorems ask for. The smoothness constants L_i are the largest eigenvalues of the clients' Hessians at
 * the start model, by power iteration. For least squares that is L_i itself; for logistic and softmax regression, which
 * start at zero, where their curvature is largest or nearly so, it is close; for networks it is an estimate at one
 * point. Pseudo labels have no part in it. The moduli of strong convexity mu_i are the smallest eigenvalues. */
#include "run/theory_facts.h"

#include "local/smoothness.h"
#include "model/latent.h"

#include <math.h>
#include <string.h>

enum {
    CLIENTS = 100,    /* at most this many are measured, evenly spaced */
    ITERATIONS = 100, /* of power iteration */
};

typedef struct {
    const fli_plan *plan;
    fli_batch batch;
    void *x, *scratch;
} meter;

static fl_status meter_init(fl_ctx *ctx, const fli_plan *p, meter *m)
{
    const fli_space *space = &p->model->space;
    *m = (meter){.plan = p};
    fl_status s = fli_model_batch(ctx, p->model, FLI_MEASURED_SAMPLES, &m->batch);
    if (s) return s;
    m->x = fli_alloc(ctx, space->n, space->ops->size);
    m->scratch = fli_alloc(ctx, fli_model_scratch(p->model, FLI_MEASURED_SAMPLES), 1);
    if (!m->x || !m->scratch) return FL_ENOMEM;
    return fli_model_start_from(ctx, p->model, p->fed, (uint64_t)p->settings.top.seed, m->x);
}

static void meter_fini(meter *m)
{
    fli_batch_fini(&m->batch);
    fli_free(m->x);
    fli_free(m->scratch);
}

/* ---- one client ------------------------------------------------------------------------------------------ */

/* The most and fewest steps a client may take in a round. */
static void steps_of(const fli_plan *p, const fli_view *v, fli_facts *f)
{
    const fli_local_work *e = &p->settings.local.work;
    fli_sgd_spec sgd = fli_settings_sgd(&p->settings);
    size_t per_epoch = fli_objective_steps(p->model, &sgd, v->n_train, v->n_unlabelled),
           unit = e->steps ? 1 : per_epoch;
    if (p->algo->rounds.steps) {
        f->steps = p->algo->rounds.steps(p->params, nextafter(1, 0));
        f->least_steps = p->algo->rounds.steps(p->params, 0);
        return;
    }
    f->steps = f->least_steps = fli_local_steps(e, (uint64_t)p->settings.top.seed, 0, f->client, per_epoch);
    if (e->uneven != FLI_UNEVEN_RANGE) return;
    f->steps = (size_t)e->range.v[1] * unit;
    f->least_steps = (size_t)e->range.v[0] * unit;
}

/* What settings say, without measuring. */
static fli_facts stated(const fli_plan *p, const double *weights, const fli_view *v, size_t client)
{
    const fli_settings *s = &p->settings;
    fli_facts f = {
        .clients = p->fed->clients,
        .client = (uint32_t)client,
        .convex = (p->model->desc->traits & FLI_MODEL_CONVEX) != 0,
        .composite = p->regularizer != NULL,
        .g_modulus = fli_regularizer_weak_convexity(p->regularizer, s->regularizer.params),
        .model_traits = p->model->desc->traits,
        .momentum = s->local.momentum,
        .constant_lr = fli_settings_lr(&s->local, 1, 1) == fli_settings_lr(&s->local, 0, 1),
        .base_lr = s->local.lr,
        .lr = s->local.lr * fli_reals_at(&s->local.lr_factors, client),
        .weight = weights[client],
        .convexity = NAN,
        .sure_convexity = NAN,
        .upper_smoothness = NAN,
        .second_block = p->model->latent != NULL,
        .uniform_cohort = p->participation->desc->everyone || !strcmp(p->participation->desc->name, "uniform"),
    };
    fli_participation_range(p->participation, client, &f.probability, &f.most_likely);
    f.full_batch = fli_batch_size(&p->asking.sgd, v->n_train) >= v->n_train && !v->ds->augment;
    steps_of(p, v, &f);
    return f;
}

/* What is added to a convex loss. */
static double certain_convexity(const fli_model *m, size_t samples)
{
    if (m->bilevel) return m->bilevel->desc->convex || m->desc->traits & FLI_MODEL_CONVEX ? m->bilevel->common.l2 : NAN;
    return m->desc->traits & FLI_MODEL_CONVEX ? fli_model_decay(m, samples) : NAN;
}

static fl_status measure_convexity(fl_ctx *ctx, meter *m, const fli_view *v, fli_facts *f)
{
    const fli_model *model = m->plan->model;
    f->sure_convexity = certain_convexity(model, v->n_train);
    if ((!f->convex && !model->bilevel) || !m->plan->algo->theory.check) return FL_OK;
    fl_status s = fli_convexity(ctx, model, m->x, &m->batch, v->n_train, (uint64_t)m->plan->settings.top.seed,
                                f->smoothness, &f->convexity);
    if (fabs(f->convexity) < 1e-6 * f->smoothness) f->convexity = 0; /* it cannot be told from that */
    if (f->sure_convexity > f->convexity) f->convexity = f->sure_convexity;
    return s;
}

static fl_status measure_upper(fl_ctx *ctx, meter *m, fli_facts *f)
{
    const fli_model *model = m->plan->model;
    if (!model->bilevel || !m->plan->algo->theory.check) return FL_OK;
    return fli_upper_smoothness(ctx, model, m->x, &m->batch, (uint64_t)m->plan->settings.top.seed, ITERATIONS, 1e-4,
                                &f->upper_smoothness);
}

/* The batch is filled with samples that have a y. */
static void measure_block(meter *m, const fli_view *v, fli_facts *f)
{
    const fli_model *model = m->plan->model;
    if (!model->latent) return;
    size_t n = model->latent->every ? v->n_train : v->n_unlabelled;
    f->second_block = n > 0;
    if (!n) return;
    fli_batch_gather(&m->batch, v->ds, model->latent->every ? v->train : v->unlabelled,
                     n < FLI_MEASURED_SAMPLES ? n : FLI_MEASURED_SAMPLES);
    f->block = model->latent->rule(model, m->x, &m->batch, n, m->scratch);
}

static fl_status measure_client(fl_ctx *ctx, meter *m, const double *weights, size_t client, fli_facts *f)
{
    const fli_plan *p = m->plan;
    fli_view v;
    fl_status s = fli_view_open(ctx, p->fed, client, &v);
    if (s) return s;
    *f = stated(p, weights, &v, client);
    fli_batch_gather(&m->batch, v.ds, v.train, v.n_train < FLI_MEASURED_SAMPLES ? v.n_train : FLI_MEASURED_SAMPLES);
    s = fli_smoothness(ctx, p->model, m->x, &m->batch, v.n_train, (uint64_t)p->settings.top.seed, ITERATIONS, 1e-4,
                       &f->smoothness);
    if (!s) s = measure_convexity(ctx, m, &v, f);
    if (!s) s = measure_upper(ctx, m, f);
    if (!s) measure_block(m, &v, f);
    fli_view_close(&v);
    return s ? s : fli_model_status(ctx, p->model, " at client %zu", client);
}

/* ---- all of them ----------------------------------------------------------------------------------------- */

static void add_to_all(fli_facts_all *a, const fli_facts *f)
{
    a->smoothness = fmax(a->smoothness, f->smoothness);
    a->least_smoothness = fmin(a->least_smoothness, f->smoothness);
    if (isnan(f->convexity) || !(a->convexity < f->convexity)) a->convexity = f->convexity;
    a->most_convexity = fmax(a->most_convexity, f->convexity);
    a->upper_smoothness = fmax(a->upper_smoothness, f->upper_smoothness);
    if (f->steps > a->steps) a->steps = f->steps;
    if (f->least_steps < a->least_steps) a->least_steps = f->least_steps;
    a->probability = fmin(a->probability, f->probability);
    a->reach = fmax(a->reach, f->lr * (double)f->steps);
    a->least_reach = fmin(a->least_reach, f->lr * (double)f->least_steps);
}

/* The worst second block; the client with the largest L_i may have none. */
static void add_block(fli_facts *worst, const fli_facts *f)
{
    if (!f->second_block) return;
    if (!worst->second_block) worst->block = f->block;
    worst->second_block = 1;
    worst->block.lr = fmax(worst->block.lr, f->block.lr);
    worst->block.smoothness = fmax(worst->block.smoothness, f->block.smoothness);
}

static void gather_all(fli_measured *m)
{
    fli_facts_all *a = &m->all;
    const double *weights = a->weights;
    *a = (fli_facts_all){.least_smoothness = INFINITY,
                         .convexity = INFINITY,
                         .least_steps = SIZE_MAX,
                         .probability = 1,
                         .least_reach = INFINITY,
                         .weights = weights};
    m->worst = m->client[0];
    for (size_t i = 0; i < m->measured; i++) {
        fli_facts *f = &m->client[i];
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

fl_status fli_measure_facts(fl_ctx *ctx, const fli_plan *p, fli_measured *out)
{
    size_t n = p->fed->clients < CLIENTS ? p->fed->clients : CLIENTS;
    meter m;
    fl_status hessian = fli_model_needs_hvp(ctx, p->model, "the smoothness of the objective");
    *out = (fli_measured){.plan = p, .client = fli_alloc(ctx, n, sizeof *out->client)};
    out->all.weights = weights_of(ctx, p);
    if (hessian) return hessian;
    if (!out->client || !out->all.weights) return FL_ENOMEM;
    fl_status s = meter_init(ctx, p, &m);
    for (; out->measured < n && !s; out->measured++)
        s = measure_client(ctx, &m, out->all.weights, out->measured * p->fed->clients / n, &out->client[out->measured]);
    meter_fini(&m);
    if (!s) gather_all(out);
    return s;
}

void fli_measured_free(fli_measured *m)
{
    fli_free(m->client);
    fli_free((void *)m->all.weights);
    *m = (fli_measured){0};
}
