/* The exact minimiser of the local problem for least squares, in double:
 *
 *     z = (A'A/n + (wd + rho) I)^-1 r,   r = A'b/n + rho anchor - shift
 *
 * by the Cholesky factor of gram.c, whose order is the smaller one of samples and features, and which is kept between
 * the client's turns. If the factor would be too large to keep, conjugate gradients solve the problem. */
#include "solver/gram.h"
#include "solver/minibatch.h"

#include <cblas.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>

/* ==== conjugate gradients ================================================================================= */

/* For problems whose factor would be too large to keep:
 *
 *     H z = r,   H = A'A/n + lam I,   r = A'b/n + rho anchor - shift,   from p->start, until ||r - H z|| <= 1e-12 ||r||
 *
 * all in double. H is never formed: rows of A are read from the client's samples, a few at a time, so memory is a few
 * vectors during a turn and nothing afterwards. The residual of the recurrence drifts from the true one: when it is
 * small enough, the true one is computed, and if that is not, the iteration restarts from there. */

enum { PIECE = 1 << 18 }; /* doubles of A at a time: 2 MB */

static const double tolerance = 1e-12;

typedef struct {
    const fli_view *v;
    size_t n, k, rows; /* rows: of A at a time */
    double lam;
    double *a, *s;        /* rows x k; rows */
    double *rhs, *z;      /* k each */
    double *r, *dir, *hd; /* residual, direction, H dir */
    size_t steps, most;   /* products with H */
    const fli_halt *halt;
} equations;

static void equations_fini(equations *q)
{
    fli_free(q->a);
    fli_free(q->s);
    fli_free(q->rhs);
}

/* One block for all vectors of length k. */
static fl_status equations_init(fl_ctx *ctx, equations *q)
{
    q->a = fli_alloc(ctx, q->rows * q->k, sizeof *q->a);
    q->s = fli_alloc(ctx, q->rows, sizeof *q->s);
    q->rhs = fli_alloc(ctx, 5 * q->k, sizeof *q->rhs);
    if (!q->a || !q->s || !q->rhs) return FL_ENOMEM;
    q->z = q->rhs + q->k;
    q->r = q->z + q->k;
    q->dir = q->r + q->k;
    q->hd = q->dir + q->k;
    return FL_OK;
}

/* out += A'(A x)/n, or A'b/n if x is NULL */
static void add_product(const equations *q, const double *x, double *out)
{
    int k = (int)q->k;
    for (size_t at = 0; at < q->n; at += q->rows) {
        int rows = (int)(q->n - at < q->rows ? q->n - at : q->rows);
        for (int i = 0; i < rows; i++) {
            uint32_t sample = q->v->train[at + (size_t)i];
            fli_dataset_row(q->v->ds, sample, q->a + (size_t)i * q->k);
            if (!x) q->s[i] = q->v->ds->target[sample];
        }
        if (x) cblas_dgemv(CblasRowMajor, CblasNoTrans, rows, k, 1, q->a, k, x, 1, 0, q->s, 1);
        cblas_dgemv(CblasRowMajor, CblasTrans, rows, k, 1 / (double)q->n, q->a, k, q->s, 1, 1, out, 1);
    }
}

/* out = H x */
static void product(equations *q, const double *x, double *out)
{
    for (size_t j = 0; j < q->k; j++) out[j] = q->lam * x[j];
    add_product(q, x, out);
    q->steps++;
}

static void right_side(equations *q, const fl_space *space, const fl_problem *p)
{
    int k = (int)q->k;
    for (size_t j = 0; j < q->k; j++) q->rhs[j] = 0;
    add_product(q, NULL, q->rhs);
    if (p->anchor) {
        space->ops->to_f64(q->k, p->anchor, q->dir);
        cblas_daxpy(k, p->rho, q->dir, 1, q->rhs, 1);
    }
    if (p->shift) {
        space->ops->to_f64(q->k, p->shift, q->dir);
        cblas_daxpy(k, -1, q->dir, 1, q->rhs, 1);
    }
}

/* r = rhs - H z; returns its norm. */
static double residual(equations *q)
{
    product(q, q->z, q->r);
    cblas_dscal((int)q->k, -1, q->r, 1);
    cblas_daxpy((int)q->k, 1, q->rhs, 1, q->r, 1);
    return cblas_dnrm2((int)q->k, q->r, 1);
}

/* Iterates from the true residual in r until the recurrence's residual is small enough, or no progress is possible. */
static void iterate(equations *q, double goal)
{
    int k = (int)q->k;
    double rr = cblas_ddot(k, q->r, 1, q->r, 1);
    cblas_dcopy(k, q->r, 1, q->dir, 1);
    while (sqrt(rr) > goal && q->steps < q->most && !fli_halted(q->halt)) {
        product(q, q->dir, q->hd);
        double curvature = cblas_ddot(k, q->dir, 1, q->hd, 1), before = rr;
        if (!(curvature > 0)) return;
        cblas_daxpy(k, rr / curvature, q->dir, 1, q->z, 1);
        cblas_daxpy(k, -rr / curvature, q->hd, 1, q->r, 1);
        rr = cblas_ddot(k, q->r, 1, q->r, 1);
        if (!isfinite(rr)) return;
        cblas_dscal(k, rr / before, q->dir, 1);
        cblas_daxpy(k, 1, q->r, 1, q->dir, 1);
    }
}

/* Without rounding, `order` steps are enough. */
static size_t most_steps(const fl_problem *p, size_t order)
{
    return p->stop.most_steps ? p->stop.most_steps : 2 * order + 100;
}

/* Solves by conjugate gradients; lam is the sum of weight decay and rho. */
static fl_status cg_solve(fl_ctx *ctx, const fli_worker *w, fli_task *t, double lam)
{
    const fli_view *v = t->view;
    const fl_problem *p = &t->problem;
    const fl_space *space = &w->model->space;
    size_t n = v->n_train, k = space->n, rows = PIECE / k;
    if (k > INT_MAX)
        return fli_fail(ctx, FL_ECONFIG, "a client with %zu features is too large for the exact solver", k);
    rows = rows < 1 ? 1 : rows < n ? rows : n;
    equations q = {
        .v = v, .n = n, .k = k, .rows = rows, .lam = lam, .most = most_steps(p, n < k ? n : k), .halt = w->halt};
    fl_status s = equations_init(ctx, &q);
    if (s) goto done;
    right_side(&q, space, p);
    double goal = tolerance * cblas_dnrm2((int)k, q.rhs, 1), left, before = INFINITY;
    if (goal > 0) space->ops->to_f64(k, p->start, q.z); /* else z stays 0, which is the solution */
    left = residual(&q);
    while (left > goal && left < before / 2 && q.steps < q.most && !fli_halted(q.halt)) {
        before = left;
        iterate(&q, goal / 2);
        left = residual(&q);
    }
    space->ops->from_f64(k, q.z, t->z);
    t->answer = (fl_answer){.z = t->z,
                            .weight = (double)p->steps,
                            .steps = q.steps * fli_epoch_steps(&w->spec, n),
                            .missed = !(left <= goal)};
done:
    equations_fini(&q);
    return s;
}

/* ==== with a stored factor ================================================================================ */

enum { LARGEST = 2048 }; /* order of a stored factor: 32 MB */

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
    const fl_problem *p = &t->problem;
    const fl_space *space = &w->model->space;
    kept *c = *t->cache;
    fl_status s = c ? FL_OK : prepare(ctx, w->model, t->view, &c);
    if (s) return s;
    *t->cache = c;
    if (!fli_gram_definite(c->gram, rho))
        return fli_fail(ctx, FL_ECONFIG,
                        "a client's least-squares problem with %zu samples of %zu features has no unique minimiser; "
                        "give it a proximal term or weight decay",
                        t->view->n_train, w->model->features);
    /* r = A'b/n + rho anchor - shift; grad is free now */
    space->ops->from_f64(space->n, c->atb, w->grad);
    if (p->anchor) fli_axpy(space, rho, p->anchor, w->grad);
    if (p->shift) fli_axpy(space, -1, p->shift, w->grad);
    space->ops->to_f64(space->n, w->grad, c->r);
    if ((s = fli_gram_steps(ctx, c->gram, rho, 1, SIZE_MAX, c->r, c->z))) return s;
    space->ops->from_f64(space->n, c->z, t->z);
    t->answer = (fl_answer){.z = t->z, .weight = (double)p->steps, .steps = 1};
    return FL_OK;
}

fl_status fli_exact_solve(fl_ctx *ctx, fli_worker *w, fli_task *t, size_t limit)
{
    double rho = t->problem.anchor ? t->problem.rho : 0;
    if (!fli_gram_fits(t->view->n_train, w->model->features, limit))
        return cg_solve(ctx, w, t, fli_model_decay(w->model, t->view->n_train) + rho);
    return factored_solve(ctx, w, t, rho);
}

static int solve(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_answer *out, fl_failure *f)
{
    const fli_local *e = l->engine;
    (void)arg, (void)p, (void)z, (void)out, (void)f;
    return fli_exact_solve(e->ctx, e->worker, e->task, LARGEST);
}

const fl_solver fli_solver_exact = {
    .name = "exact",
    .solve = solve,
    .forget = forget,
    .engine = &(fli_solver_engine){.model_traits = FLI_MODEL_QUADRATIC, .models = "least squares"}};
