/* The local problem with f_i replaced by a quadratic that bounds it from above and touches it at x = start, and its
 * multiplier:
 *
 *     g = grad f_i(x), once;  then p->steps times
 *     z = x - (H_i + rho I)^-1 (g + shift),   shift <- shift + rho (z - x)
 *
 * z minimises <g, z> + 1/2 ||z - x||^2_{H_i} + <shift, z> + rho/2 ||z - x||^2. The steps need no gradient: with
 * e = g + shift and y = (H_i + rho I)^-1 e they are e <- e - rho y, and at the end z = x - y and shift = e - g. In the
 * limit of infinitely many steps (p->steps = 0) e = 0: shift = -g and z = x.
 *
 * H_i is the Gram matrix (gram.c), or L_i I. L_i is the largest eigenvalue of that matrix, for softmax regression a
 * bound on its Hessian at every model (curvature.h), for other models the largest eigenvalue of the Hessian over the
 * client's samples at the model of its first turn. H_i is computed once and kept. */
#include "solver/gram.h"

#include "solver/curvature.h"
#include "solver/minibatch.h"

#include <math.h>
#include <stdint.h>

enum {
    LARGEST = 2048, /* order of a stored Gram matrix: 32 MB */
    FORMED = 512    /* up to this order its norm is cheaper from the matrix than from products with the samples */
};
enum { MULTIPLIER, ANSWERS }; /* of the task */

typedef struct {
    double curvature; /* ||H_i||; negative: unknown */
    fli_gram *gram;   /* NULL for diagonal, and before the first turn after a checkpoint */
    size_t taken;     /* steps before this turn */
    double *e, *y;    /* gram: scratch */
} kept;

static void forget(void *cache)
{
    kept *c = cache;
    if (!c) return;
    fli_gram_free(c->gram);
    fli_free(c->e);
    fli_free(c);
}

/* Saves what the first turn computed, from a random start and at that turn's model, and the number of steps that
 * decides about eigenvalues. */
static void save(const void *cache, fli_saver *out)
{
    const kept *c = cache;
    fli_save_real(out, c->curvature);
    fli_save_count(out, c->gram ? fli_gram_taken(c->gram) : c->taken);
}

static fl_status load(fl_ctx *ctx, fli_loader *in, void **cache)
{
    kept *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    c->curvature = fli_load_real(in);
    c->taken = (size_t)fli_load_count(in, SIZE_MAX);
    *cache = c;
    return fli_loader_status(in);
}

/* ---- common ---------------------------------------------------------------------------------------------- */

static fl_answer answer(const fli_task *t, const kept *c, size_t gradients)
{
    return (fl_answer){
        .z = t->z, .linearised = {fli_task_vector(t, MULTIPLIER), c->curvature}, .weight = 1, .steps = gradients};
}

/* The limit of infinitely many steps. */
static void settle(const fli_worker *w, fli_task *t)
{
    const fl_space *s = &w->model->space;
    fli_copy(s, t->problem.start, t->z);
    fli_lin(s, -1, w->grad, 0, w->grad, fli_task_vector(t, MULTIPLIER));
}

/* rho = 0: the answer is the curvature alone. */
static fl_answer measured(const fl_space *s, fli_task *t, const kept *c)
{
    fli_copy(s, t->problem.start, t->z);
    fli_zero(s, fli_task_vector(t, MULTIPLIER));
    return answer(t, c, 0);
}

/* ---- gram ------------------------------------------------------------------------------------------------ */

static fl_status gram_new(fl_ctx *ctx, const fli_worker *w, const fli_view *v, void **cache)
{
    size_t k = w->model->features;
    fl_status s = FL_ENOMEM;
    if (!fli_gram_fits(v->n_train, k, LARGEST))
        return fli_fail(ctx, FL_ECONFIG,
                        "a client with %zu samples of %zu features is too large for the gram variant; use diagonal",
                        v->n_train, k);
    kept *c = fli_alloc(ctx, 1, sizeof *c), *saved = *cache;
    if (!c) return FL_ENOMEM;
    c->e = fli_alloc(ctx, 2 * k, sizeof *c->e);
    if (c->e) s = fli_gram_new(ctx, w->model, v, &c->gram);
    if (s) {
        forget(c);
        return s;
    }
    c->y = c->e + k;
    c->curvature = saved ? saved->curvature : -1;
    fli_gram_set_taken(c->gram, saved ? saved->taken : 0);
    forget(saved);
    *cache = c;
    return FL_OK;
}

/* z = x - y, the multiplier e - g; y and e in double */
static void steps_done(const fli_worker *w, fli_task *t, const kept *c)
{
    const fl_space *s = &w->model->space;
    s->ops->from_f64(s->n, c->y, t->z);
    fli_lin(s, 1, t->problem.start, -1, t->z, t->z);
    s->ops->to_f64(s->n, w->grad, c->y);
    for (size_t i = 0; i < s->n; i++) c->e[i] -= c->y[i];
    s->ops->from_f64(s->n, c->e, fli_task_vector(t, MULTIPLIER));
}

fl_status fli_linearised_gram(fl_ctx *ctx, fli_worker *w, fli_task *t, size_t patience)
{
    const fl_space *space = &w->model->space;
    const fl_problem *p = &t->problem;
    kept *c = *t->cache;
    fl_status s = c && c->gram ? FL_OK : gram_new(ctx, w, t->view, t->cache);
    if (s) return s;
    c = *t->cache;
    if (!(p->rho > 0)) {
        if (c->curvature < 0 && (s = fli_gram_norm(ctx, c->gram, &t->rng, &c->curvature))) return s;
        t->answer = measured(space, t, c);
        return FL_OK;
    }
    size_t spent = fli_start_gradient(w, t, w->grad);
    if (p->steps) {
        space->ops->to_f64(space->n, w->grad, c->e);
        space->ops->to_f64(space->n, p->shift, c->y);
        for (size_t i = 0; i < space->n; i++) c->e[i] += c->y[i];
        if ((s = fli_gram_steps(ctx, c->gram, p->rho, p->steps, patience, c->e, c->y))) return s;
        steps_done(w, t, c);
    } else {
        settle(w, t);
    }
    t->answer = answer(t, c, spent);
    return FL_OK;
}

static int solve_gram(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_answer *out, fl_failure *f)
{
    const fli_local *e = l->engine;
    (void)arg, (void)p, (void)z, (void)out, (void)f;
    return fli_linearised_gram(e->ctx, e->worker, e->task, fli_gram_patience(l->samples, e->worker->model->features));
}

/* ---- diagonal -------------------------------------------------------------------------------------------- */

typedef struct {
    fli_worker *w;
    const fli_task *t; /* its vectors are free before it has an answer */
    const void *at;
} hessian;

/* fli_product: the Hessian over all of the client's samples, a batch at a time, in the model's precision */
static void hessian_product(void *arg, const double *x, double *out)
{
    const hessian *h = arg;
    fli_worker *w = h->w;
    const fli_model *m = w->model;
    const fli_view *v = h->t->view;
    void *direction = fli_task_vector(h->t, MULTIPLIER);
    fli_pieces p = fli_pieces_of(w->eval, v->ds, v->train, v->n_train);
    m->space.ops->from_f64(m->space.n, x, direction);
    fli_zero(&m->space, w->grad);
    while (fli_pieces_next(&p)) {
        m->desc->hvp(m, h->at, &w->eval->batch, direction, w->eval->part, w->eval->scratch);
        fli_pieces_add(&p, w->grad);
    }
    if (m->weight_decay > 0) fli_axpy(&m->space, fli_model_decay(m, v->n_train), direction, w->grad);
    m->space.ops->to_f64(m->space.n, w->grad, out);
}

/* ||H_i||: for generalised linear models the bound on the Hessian at every x, from the Gram matrix; for other models
 * the Hessian at the start. */
static fl_status largest_curvature(fl_ctx *ctx, fli_worker *w, fli_task *t, double *l)
{
    const fli_model *m = w->model;
    const fli_view *v = t->view;
    fli_gram *g = NULL;
    int glm = (m->desc->traits & FLI_MODEL_GLM) != 0;
    if (glm && (v->n_train <= FORMED || m->features <= FORMED) && fli_gram_fits(v->n_train, m->features, LARGEST)) {
        fl_status s = fli_gram_new(ctx, m, v, &g);
        if (!s) s = fli_gram_norm(ctx, g, &t->rng, l);
        fli_gram_free(g);
        return s;
    }
    if (fli_bounded(m)) return fli_smoothness_bound(ctx, m, v, t->seed, l, NULL);
    hessian h = {w, t, t->problem.start};
    return fli_lanczos(ctx, m->space.n, hessian_product, &h, 1e-7, &t->rng, l);
}

/* e <- q^steps e with q = L/(L + rho), and the last y = q^(steps-1) e/(L + rho) */
static void shrink(const fli_worker *w, fli_task *t, double l)
{
    const fl_space *s = &w->model->space;
    const fl_problem *p = &t->problem;
    void *e = fli_task_vector(t, MULTIPLIER);
    double q = l / (l + p->rho), before = pow(q, (double)(p->steps - 1));
    fli_lin(s, 1, w->grad, 1, p->shift, e);
    fli_lin(s, 1, p->start, -before / (l + p->rho), e, t->z);
    fli_lin(s, before * q, e, -1, w->grad, e);
}

static fl_status diagonal_new(fl_ctx *ctx, fli_worker *w, fli_task *t)
{
    kept *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    fl_status s = largest_curvature(ctx, w, t, &c->curvature);
    if (s)
        forget(c);
    else
        *t->cache = c;
    return s;
}

static int solve_diagonal(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_answer *out, fl_failure *f)
{
    const fli_local *e = l->engine;
    fli_worker *w = e->worker;
    fli_task *t = e->task;
    (void)arg, (void)z, (void)f;
    fl_status s = *l->kept ? FL_OK : diagonal_new(e->ctx, w, t);
    if (s) return s;
    const kept *c = *l->kept;
    if (!(p->rho > 0)) {
        *out = measured(&l->space, t, c);
        return FL_OK;
    }
    size_t spent = fli_start_gradient(w, t, w->grad);
    if (p->steps)
        shrink(w, t, c->curvature);
    else
        settle(w, t);
    *out = answer(t, c, spent);
    return FL_OK;
}

const fl_solver fli_solver_gram = {
    .name = "gram",
    .traits = FL_SOLVER_FULL_GRADIENT | FL_SOLVER_READS_RHO,
    .solve = solve_gram,
    .vectors = ANSWERS,
    .forget = forget,
    .engine = &(fli_solver_engine){
        .model_traits = FLI_MODEL_GLM, .models = "least squares and logistic regression", .save = save, .load = load}};

const fl_solver fli_solver_diagonal = {.name = "diagonal",
                                       .traits = FL_SOLVER_FULL_GRADIENT | FL_SOLVER_READS_RHO | FLI_SOLVER_HESSIAN,
                                       .solve = solve_diagonal,
                                       .vectors = ANSWERS,
                                       .forget = forget,
                                       .engine = &(fli_solver_engine){.save = save, .load = load}};
