/* The exact minimiser of the local problem for least squares, in double:
 *
 *     z = (A'A/n + (wd + rho) I)^-1 r,   r = A'b/n + rho anchor - shift
 *
 * by the Cholesky factor of gram.c, of the smaller one of samples and features, which is kept between the client's
 * turns. What would be too much to keep is solved by conjugate gradients, cg.c. */
#include "solver/exact.h"

#include "solver/gram.h"

#include <cblas.h>
#include <stdint.h>

enum { LARGEST = 2048 }; /* order of a factor that is kept: 32 MB */

typedef struct {
    fli_gram *gram;
    double *atb;   /* A'b/n */
    double *r, *z; /* scratch */
} kept;

static void forget(void *cache)
{
    kept *c = cache;
    if (!c) return;
    fli_gram_free(c->gram);
    fli_free(c->atb);
    fli_free(c);
}

static fl_status prepare(fl_ctx *ctx, const fli_model *m, const fli_view *v, kept **out)
{
    size_t k = m->features;
    kept *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    fl_status s = fli_gram_new(ctx, m, v, &c->gram);
    if (!s && !(c->atb = fli_alloc(ctx, 3 * k, sizeof *c->atb))) s = FL_ENOMEM;
    if (s) {
        forget(c);
        return s;
    }
    c->r = c->atb + k;
    c->z = c->r + k;
    for (size_t i = 0; i < v->n_train; i++) {
        fli_dataset_row(v->ds, v->train[i], c->r);
        cblas_daxpy((int)k, v->ds->target[v->train[i]] / (double)v->n_train, c->r, 1, c->atb, 1);
    }
    *out = c;
    return FL_OK;
}

static fl_status factored_solve(fl_ctx *ctx, fli_worker *w, fli_task *t, double rho)
{
    const fli_problem *p = &t->problem;
    const fli_space *space = &w->model->space;
    kept *c = *t->cache;
    fl_status s = c ? FL_OK : prepare(ctx, w->model, t->view, &c);
    if (s) return s;
    *t->cache = c;
    if (!fli_gram_definite(c->gram, rho))
        return fli_fail(ctx, FL_ECONFIG,
                        "a client's least-squares problem with %zu samples of %zu features has no unique minimiser; "
                        "give it a proximal term or weight decay",
                        t->view->n_train, w->model->features);
    /* r = A'b/n + rho anchor - shift; grad is free here */
    space->ops->from_f64(space->n, c->atb, w->grad);
    if (p->anchor) fli_axpy(space, rho, p->anchor, w->grad);
    if (p->shift) fli_axpy(space, -1, p->shift, w->grad);
    space->ops->to_f64(space->n, w->grad, c->r);
    if ((s = fli_gram_steps(ctx, c->gram, rho, 1, SIZE_MAX, c->r, c->z))) return s;
    space->ops->from_f64(space->n, c->z, t->z);
    t->answer = (fli_answer){.z = t->z, .weight = (double)p->steps, .steps = 1};
    return FL_OK;
}

fl_status fli_exact_solve(fl_ctx *ctx, fli_worker *w, fli_task *t, size_t limit)
{
    double rho = t->problem.anchor ? t->problem.rho : 0;
    if (!fli_gram_fits(t->view->n_train, w->model->features, limit))
        return fli_cg_solve(ctx, w, t, fli_model_decay(w->model, t->view->n_train) + rho);
    return factored_solve(ctx, w, t, rho);
}

static fl_status solve_task(fl_ctx *ctx, fli_worker *w, fli_task *t) { return fli_exact_solve(ctx, w, t, LARGEST); }

static void solve(fl_ctx *ctx, void *instance, fli_task *const *tasks, size_t n)
{
    fli_worker_each(ctx, instance, tasks, n, solve_task);
}

const fli_solver fli_solver_exact = {.name = "exact",
                                     .model_traits = FLI_MODEL_QUADRATIC,
                                     .models = "least squares",
                                     .solve = solve,
                                     .forget = forget,
                                     FLI_WORKER_INSTANCE};
