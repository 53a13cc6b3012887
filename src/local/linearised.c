/* The local problem with f_i replaced by a quadratic that lies above it and touches it at x = start, and its multiplier:
 *
 *     g = grad f_i(x), once;  then p->steps times
 *     z = x - (H_i + rho I)^-1 (g + shift),   shift <- shift + rho (z - x)
 *
 * z minimises <g, z> + 1/2 ||z - x||^2_{H_i} + <shift, z> + rho/2 ||z - x||^2. The steps need no gradient: with e = g + shift and
 * y = (H_i + rho I)^-1 e they are e <- e - rho y, and in the end z = x - y and shift = e - g. In the limit of many, which p->steps = 0 asks
 * for, e = 0: shift = -g and z = x.
 *
 * H_i is the Gram matrix (gram.c), or L_i I, L_i being the largest eigenvalue of that matrix or, of models that have none, of the Hessian over
 * the client's samples at the model of its first turn. Whichever it is: computed once, and kept. */
#include "local/linearised.h"

#include "local/gram.h"
#include "local/lanczos.h"

#include <math.h>
#include <stdint.h>

enum {
    LARGEST = 2048, /* order of a Gram matrix that is kept: 32 MB */
    FORMED = 512    /* up to here its norm is cheaper to have from the matrix than from products with the samples */
};
enum { MULTIPLIER, VECTORS }; /* of the worker */

typedef struct {
    double curvature; /* ||H_i||; not known: negative */
    fli_gram *gram;   /* diagonal: NULL; also before the first turn after a checkpoint */
    size_t taken;     /* steps by then */
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

/* What the first turn found, from a random start and at that turn's model, and how far the client is from eigenvalues. */
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

/* ---- the gradient, and what both ways share -------------------------------------------------------------- */

static void gradient(fli_worker *w, const fli_view *v, const void *x)
{
    fli_worker_eval(w, v->ds, v->train, v->n_train, x, w->grad, NULL);
    if (w->model->weight_decay > 0) fli_axpy(&w->model->space, w->model->weight_decay, x, w->grad);
}

static fli_answer answer(const fli_worker *w, const kept *c, size_t gradients)
{
    return (fli_answer){
        .z = w->z, .linearised = {fli_worker_vector(w, MULTIPLIER), c->curvature}, .weight = 1, .steps = gradients};
}

/* The limit of many steps. */
static void settle(fli_worker *w, const fli_problem *p)
{
    const fli_space *s = &w->model->space;
    fli_copy(s, p->start, w->z);
    fli_lin(s, -1, w->grad, 0, w->grad, fli_worker_vector(w, MULTIPLIER));
}

/* rho = 0: the curvature was all that is wanted. */
static fli_answer measured(fli_worker *w, const kept *c, const fli_problem *p)
{
    fli_copy(&w->model->space, p->start, w->z);
    fli_zero(&w->model->space, fli_worker_vector(w, MULTIPLIER));
    return answer(w, c, 0);
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
static void steps_done(fli_worker *w, const kept *c, const fli_problem *p)
{
    const fli_space *s = &w->model->space;
    void *multiplier = fli_worker_vector(w, MULTIPLIER);
    s->ops->from_f64(s->n, c->y, w->z);
    fli_lin(s, 1, p->start, -1, w->z, w->z);
    s->ops->to_f64(s->n, w->grad, c->y);
    for (size_t i = 0; i < s->n; i++) c->e[i] -= c->y[i];
    s->ops->from_f64(s->n, c->e, multiplier);
}

fl_status fli_linearised_gram(fl_ctx *ctx, fli_worker *w, const fli_view *v, const fli_problem *p, size_t patience,
                              fli_rng *rng, void **cache, fli_answer *out)
{
    const fli_space *space = &w->model->space;
    kept *c = *cache;
    fl_status s = c && c->gram ? FL_OK : gram_new(ctx, w, v, cache);
    if (s) return s;
    c = *cache;
    if (!(p->rho > 0)) {
        if (c->curvature < 0 && (s = fli_gram_norm(ctx, c->gram, rng, &c->curvature))) return s;
        *out = measured(w, c, p);
        return FL_OK;
    }
    gradient(w, v, p->start);
    if (p->steps) {
        space->ops->to_f64(space->n, w->grad, c->e);
        space->ops->to_f64(space->n, p->shift, c->y);
        for (size_t i = 0; i < space->n; i++) c->e[i] += c->y[i];
        if ((s = fli_gram_steps(ctx, c->gram, p->rho, p->steps, patience, c->e, c->y))) return s;
        steps_done(w, c, p);
    } else {
        settle(w, p);
    }
    *out = answer(w, c, 1);
    return FL_OK;
}

static fl_status solve_gram(fl_ctx *ctx, fli_worker *w, const fli_view *v, const fli_problem *p, fli_rng *rng,
                            void **cache, fli_answer *out)
{
    return fli_linearised_gram(ctx, w, v, p, fli_gram_patience(v->n_train, w->model->features), rng, cache, out);
}

/* ---- diagonal -------------------------------------------------------------------------------------------- */

typedef struct {
    fli_worker *w;
    const fli_view *v;
    const void *at;
} hessian;

/* fli_product: the Hessian over all of the client's samples, a batch at a time, in the model's precision */
static void hessian_product(void *arg, const double *x, double *out)
{
    const hessian *h = arg;
    fli_worker *w = h->w;
    const fli_model *m = w->model;
    size_t n = h->v->n_train;
    void *direction = fli_worker_vector(w, MULTIPLIER);
    m->space.ops->from_f64(m->space.n, x, direction);
    fli_zero(&m->space, w->grad);
    for (size_t at = 0; at < n; at += w->batch.n) {
        size_t piece = n - at < w->batch.capacity ? n - at : w->batch.capacity;
        fli_batch_gather(&w->batch, h->v->ds, h->v->train + at, piece);
        m->desc->hvp(m, h->at, &w->batch, direction, w->part, w->scratch);
        fli_axpy(&m->space, (double)piece / (double)n, w->part, w->grad);
    }
    if (m->weight_decay > 0) fli_axpy(&m->space, m->weight_decay, direction, w->grad);
    m->space.ops->to_f64(m->space.n, w->grad, out);
}

/* ||H_i|| at x. The Hessian of a generalised linear model is largest at zero, where it is its Gram matrix. */
static fl_status largest_curvature(fl_ctx *ctx, fli_worker *w, const fli_view *v, const void *x, fli_rng *rng,
                                   double *l)
{
    const fli_model *m = w->model;
    fli_gram *g = NULL;
    int glm = (m->desc->traits & FLI_MODEL_GLM) != 0;
    if (glm && (v->n_train <= FORMED || m->features <= FORMED) && fli_gram_fits(v->n_train, m->features, LARGEST)) {
        fl_status s = fli_gram_new(ctx, m, v, &g);
        if (!s) s = fli_gram_norm(ctx, g, rng, l);
        fli_gram_free(g);
        return s;
    }
    if (glm) fli_zero(&m->space, w->z);
    return fli_lanczos(ctx, m->space.n, hessian_product, &(hessian){w, v, glm ? w->z : x}, 1e-7, rng, l);
}

/* e <- q^steps e with q = L/(L + rho), and the last y = q^(steps-1) e/(L + rho) */
static void shrink(fli_worker *w, const fli_problem *p, double l)
{
    const fli_space *s = &w->model->space;
    void *e = fli_worker_vector(w, MULTIPLIER);
    double q = l / (l + p->rho), before = pow(q, (double)(p->steps - 1));
    fli_lin(s, 1, w->grad, 1, p->shift, e);
    fli_lin(s, 1, p->start, -before / (l + p->rho), e, w->z);
    fli_lin(s, before * q, e, -1, w->grad, e);
}

static fl_status diagonal_new(fl_ctx *ctx, fli_worker *w, const fli_view *v, const void *x, fli_rng *rng, void **cache)
{
    kept *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    fl_status s = largest_curvature(ctx, w, v, x, rng, &c->curvature);
    if (s)
        forget(c);
    else
        *cache = c;
    return s;
}

static fl_status solve_diagonal(fl_ctx *ctx, fli_worker *w, const fli_view *v, const fli_problem *p, fli_rng *rng,
                                void **cache, fli_answer *out)
{
    fl_status s = *cache ? FL_OK : diagonal_new(ctx, w, v, p->start, rng, cache);
    if (s) return s;
    const kept *c = *cache;
    if (!(p->rho > 0)) {
        *out = measured(w, c, p);
        return FL_OK;
    }
    gradient(w, v, p->start);
    if (p->steps)
        shrink(w, p, c->curvature);
    else
        settle(w, p);
    *out = answer(w, c, 1);
    return FL_OK;
}

const fli_solver fli_solver_gram = {.name = "gram",
                                    .model_traits = FLI_MODEL_GLM,
                                    .models = "least squares and logistic regression",
                                    .vectors = VECTORS,
                                    .one_pass = 1,
                                    .solve = solve_gram,
                                    .forget = forget,
                                    .save = save,
                                    .load = load};

const fli_solver fli_solver_diagonal = {.name = "diagonal",
                                        .vectors = VECTORS,
                                        .one_pass = 1,
                                        .solve = solve_diagonal,
                                        .forget = forget,
                                        .save = save,
                                        .load = load};
