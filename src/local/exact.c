/* The exact minimiser of the local problem for least squares, in double:
 *
 *     z = (A'A/n + lam I)^-1 r,   lam = wd + rho,   r = A'b/n + rho anchor - shift
 *
 * With no more features than samples, the k x k matrix is factored. With fewer samples than features the Woodbury identity needs
 * only an n x n factor:  z = (r - A' (A A'/n + lam I)^-1 A r / n) / lam.  Either factor depends on the client's data and lam alone, so it
 * is kept between the client's turns. What would be too much to keep is solved by conjugate gradients, cg.c. */
#include "local/exact.h"

#include <cblas.h>
#include <float.h>
#include <limits.h>
#include <math.h>

/* LAPACK's Cholesky factorisation and solution, as OpenBLAS exports them. */
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void dpotrs_(const char *uplo, const int *n, const int *nrhs, const double *a, const int *lda, double *b,
             const int *ldb, int *info);

enum { LARGEST = 2048 }; /* order of a factor that is kept: 32 MB */

typedef struct {
    size_t n, k, order; /* order: of the factor */
    double lam;
    double *factor; /* order x order */
    double *a;      /* n x k; NULL when it is not needed again */
    double *atb;    /* A'b/n */
    double *r, *s;  /* scratch: k and n */
} factored;

static void forget(void *cache)
{
    factored *f = cache;
    if (!f) return;
    fli_free(f->factor);
    fli_free(f->a);
    fli_free(f->atb);
    fli_free(f->r);
    fli_free(f->s);
    fli_free(f);
}

static fl_status allocate(fl_ctx *ctx, factored *f)
{
    f->factor = fli_alloc(ctx, f->order * f->order, sizeof(double));
    f->a = fli_alloc(ctx, f->n * f->k, sizeof(double));
    f->atb = fli_alloc(ctx, f->k, sizeof(double));
    f->r = fli_alloc(ctx, f->k, sizeof(double));
    f->s = fli_alloc(ctx, f->n, sizeof(double));
    return f->factor && f->a && f->atb && f->r && f->s ? FL_OK : FL_ENOMEM;
}

/* Whether nothing is left of a direction after rounding. With fewer samples than features, the directions outside the samples' span have
 * lam and nothing else. */
static int singular(const factored *f)
{
    double least = f->order < f->k ? f->lam : INFINITY, most = 0;
    for (size_t i = 0; i < f->order; i++) {
        double d = f->factor[i * f->order + i] * f->factor[i * f->order + i];
        least = fmin(least, d);
        most = fmax(most, d);
    }
    return least <= (double)f->order * DBL_EPSILON * most;
}

/* Forms A, A'b/n and the matrix, and factors it. Row-major upper is LAPACK's lower. */
static fl_status factor(fl_ctx *ctx, const fli_view *v, factored *f)
{
    int n = (int)f->n, k = (int)f->k, order = (int)f->order, info = 0;
    for (size_t i = 0; i < f->n; i++) {
        fli_dataset_row(v->ds, v->train[i], f->a + i * f->k);
        f->s[i] = v->ds->target[v->train[i]];
    }
    cblas_dgemv(CblasRowMajor, CblasTrans, n, k, 1.0 / n, f->a, k, f->s, 1, 0, f->atb, 1);
    if (f->order == f->k)
        cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, k, n, 1.0 / n, f->a, k, 0, f->factor, k);
    else
        cblas_dsyrk(CblasRowMajor, CblasUpper, CblasNoTrans, n, k, 1.0 / n, f->a, k, 0, f->factor, n);
    for (size_t i = 0; i < f->order; i++) f->factor[i * f->order + i] += f->lam;
    dpotrf_("L", &order, f->factor, &order, &info);
    if (info || singular(f))
        return fli_fail(ctx, FL_ECONFIG,
                        "a client's least-squares problem with %zu samples of %zu features has no unique minimiser; "
                        "give it a proximal term or weight decay",
                        f->n, f->k);
    if (f->order == f->k) {
        fli_free(f->a);
        f->a = NULL;
    }
    return FL_OK;
}

static fl_status prepare(fl_ctx *ctx, const fli_view *v, size_t features, double lam, factored **out)
{
    fl_status s;
    size_t order = features <= v->n_train ? features : v->n_train;
    factored *f = fli_alloc(ctx, 1, sizeof *f);
    if (!f) return FL_ENOMEM;
    *f = (factored){.n = v->n_train, .k = features, .order = order, .lam = lam};
    if ((s = allocate(ctx, f)) || (s = factor(ctx, v, f)))
        forget(f);
    else
        *out = f;
    return s;
}

/* r <- (A'A/n + lam I)^-1 r */
static void apply(const factored *f)
{
    int n = (int)f->n, k = (int)f->k, one = 1, info = 0;
    if (f->order == f->k) {
        dpotrs_("L", &k, &one, f->factor, &k, f->r, &k, &info);
        return;
    }
    cblas_dgemv(CblasRowMajor, CblasNoTrans, n, k, 1, f->a, k, f->r, 1, 0, f->s, 1);
    dpotrs_("L", &n, &one, f->factor, &n, f->s, &n, &info);
    cblas_dgemv(CblasRowMajor, CblasTrans, n, k, -1.0 / n / f->lam, f->a, k, f->s, 1, 1 / f->lam, f->r, 1);
}

/* What is kept: the factor, and with fewer samples than features the samples too. */
static int too_large(size_t n, size_t k, size_t limit)
{
    if (n > INT_MAX || k > INT_MAX) return 1;
    return (n < k ? n : k) > limit || (n < k && n * k > limit * limit);
}

static fl_status factored_solve(fl_ctx *ctx, fli_worker *w, const fli_view *v, const fli_problem *p, double lam,
                                void **cache, fli_answer *out)
{
    const fli_space *space = &w->model->space;
    factored *f = *cache;
    fl_status s = FL_OK;
    if (!f || f->lam != lam) {
        forget(f);
        *cache = f = NULL;
        if ((s = prepare(ctx, v, w->model->features, lam, &f))) return s;
        *cache = f;
    }
    /* r = A'b/n + rho anchor - shift; grad and part are free here */
    space->ops->from_f64(space->n, f->atb, w->grad);
    if (p->anchor) fli_axpy(space, p->rho, p->anchor, w->grad);
    if (p->shift) fli_axpy(space, -1, p->shift, w->grad);
    space->ops->to_f64(space->n, w->grad, f->r);
    apply(f);
    space->ops->from_f64(space->n, f->r, w->z);
    *out = (fli_answer){.z = w->z, .weight = (double)p->steps, .steps = 1};
    return FL_OK;
}

fl_status fli_exact_solve(fl_ctx *ctx, fli_worker *w, const fli_view *v, const fli_problem *p, size_t limit,
                          void **cache, fli_answer *out)
{
    double lam = w->model->weight_decay + (p->anchor ? p->rho : 0);
    if (too_large(v->n_train, w->model->features, limit)) return fli_cg_solve(ctx, w, v, p, lam, out);
    return factored_solve(ctx, w, v, p, lam, cache, out);
}

static fl_status solve(fl_ctx *ctx, fli_worker *w, const fli_view *v, const fli_problem *p, fli_rng *rng, void **cache,
                       fli_answer *out)
{
    (void)rng;
    return fli_exact_solve(ctx, w, v, p, LARGEST, cache, out);
}

const fli_solver fli_solver_exact = {
    .name = "exact", .model_traits = FLI_MODEL_QUADRATIC, .models = "least squares", .solve = solve, .forget = forget};
