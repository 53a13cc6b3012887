/* With U = c A'A/n, H = U + l2 I and K = c AA'/n, for any function f
 *
 *     f(H) = f(l2) I + (c/n) A' g(K) A,   g(s) = (f(s + l2) - f(l2))/s
 *
 * which reduces everything to the order of the smaller one of U and K. For the steps e <- e - rho (H + rho I)^-1 e,
 * with lam = l2 + rho and fewer samples than features,
 *
 *     e_j = (l2/lam)^j e_0 + A'w_j,   s_j = A e_j,   u_j = (K + lam I)^-1 s_j
 *     s_j+1 = s_j - rho u_j,   w_j+1 = (l2/lam) w_j + rho c/(n lam) u_j,   y_j = (e_j - (c/n) A'u_j)/lam
 *
 * so that A is needed only at the beginning and at the end, for any number of steps. All in double. */
#include "solver/gram.h"

#include "solver/curvature.h"

#include <cblas.h>
#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdint.h>
#include <string.h>

/* LAPACK, as OpenBLAS exports it. Its matrices are column-major: the upper triangle here is the lower one there. */
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void dsyevd_(const char *job, const char *uplo, const int *n, double *a, const int *lda, double *values, double *work,
             const int *lwork, int *iwork, const int *liwork, int *info);

enum { PIECE = 1 << 15 }; /* doubles of A at a time, if A is not stored: a quarter of a MB */

struct fli_gram {
    size_t n, k, order; /* samples, features, the smaller one */
    double scale, l2;   /* c/n */
    /* order x order: U or K above the diagonal; on it and below, after factorisation, the factor of m + lam I */
    double *m;
    double *diagonal; /* of U or K */
    double *a;        /* n x k; NULL with at least as many samples as features */
    double rho;       /* of the factor; negative: not factored */
    double *vectors;  /* order x order, one eigenvector per row; NULL: not computed */
    double *values;
    double *s, *u, *w; /* scratch, order each */
    size_t taken;      /* steps taken one by one */
};

int fli_gram_fits(size_t n, size_t k, size_t limit)
{
    if (n > INT_MAX || k > INT_MAX) return 0;
    return (n < k ? n : k) <= limit && (n >= k || n * k <= limit * limit);
}

void fli_gram_free(fli_gram *g)
{
    if (!g) return;
    fli_free(g->m);
    fli_free(g->diagonal);
    fli_free(g->a);
    fli_free(g->vectors);
    fli_free(g);
}

size_t fli_gram_bytes(const fli_gram *g)
{
    size_t reals = g->order * g->order + 5 * g->order + (g->a ? g->n * g->k : 0);
    return sizeof *g + sizeof(double) * (reals + (g->vectors ? g->order * g->order : 0));
}

size_t fli_gram_taken(const fli_gram *g) { return g->vectors ? SIZE_MAX : g->taken; }
void fli_gram_set_taken(fli_gram *g, size_t taken) { g->taken = taken; }

/* Measured: 75 at order 20, 120 at 50, 190 at 100, 250 at 200, 930 at 500, 510 at 1000. */
size_t fli_gram_patience(size_t samples, size_t features) { return 64 + (samples < features ? samples : features); }

/* ---- forming it ---------------------------------------------------------------------------------------- */

static void rows_into(const fli_view *v, size_t first, size_t count, size_t k, double *out)
{
    for (size_t i = 0; i < count; i++) fli_dataset_row(v->ds, v->train[first + i], out + i * k);
}

/* Forms U, a few samples at a time. */
static fl_status form_features(fl_ctx *ctx, const fli_view *v, fli_gram *g)
{
    int k = (int)g->k;
    size_t rows = PIECE / g->k < 16 ? 16 : PIECE / g->k;
    if (rows > g->n) rows = g->n;
    double *a = fli_alloc(ctx, rows * g->k, sizeof *a);
    if (!a) return FL_ENOMEM;
    for (size_t at = 0; at < g->n; at += rows) {
        size_t count = g->n - at < rows ? g->n - at : rows;
        rows_into(v, at, count, g->k, a);
        cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, k, (int)count, g->scale, a, k, 1, g->m, k);
    }
    fli_free(a);
    return FL_OK;
}

/* Forms K, and stores A. */
static fl_status form_samples(fl_ctx *ctx, const fli_view *v, fli_gram *g)
{
    int n = (int)g->n, k = (int)g->k;
    if (!(g->a = fli_alloc(ctx, g->n * g->k, sizeof *g->a))) return FL_ENOMEM;
    rows_into(v, 0, g->n, g->k, g->a);
    cblas_dsyrk(CblasRowMajor, CblasUpper, CblasNoTrans, n, k, g->scale, g->a, k, 0, g->m, n);
    return FL_OK;
}

fl_status fli_gram_new(fl_ctx *ctx, const fli_model *m, const fli_view *v, fli_gram **out)
{
    size_t n = v->n_train, k = m->features, order = n < k ? n : k;
    fl_status s = FL_ENOMEM;
    fli_gram *g = fli_alloc(ctx, 1, sizeof *g);
    if (!g) return FL_ENOMEM;
    *g = (fli_gram){.n = n,
                    .k = k,
                    .order = order,
                    .scale = m->desc->curvature / (double)n,
                    .l2 = fli_model_decay(m, n),
                    .rho = -1};
    g->m = fli_alloc(ctx, order * order, sizeof *g->m);
    g->diagonal = fli_alloc(ctx, 5 * order, sizeof *g->diagonal);
    if (g->m && g->diagonal) s = n < k ? form_samples(ctx, v, g) : form_features(ctx, v, g);
    if (s) {
        fli_gram_free(g);
        return s;
    }
    g->values = g->diagonal + order;
    g->s = g->values + order;
    g->u = g->s + order;
    g->w = g->u + order;
    for (size_t i = 0; i < order; i++) g->diagonal[i] = g->m[i * order + i];
    *out = g;
    return FL_OK;
}

/* ---- its norm ------------------------------------------------------------------------------------------ */

/* fli_product: out = m v, independent of the current diagonal */
static void product(void *arg, const double *v, double *out)
{
    const fli_gram *g = arg;
    int order = (int)g->order;
    cblas_dsymv(CblasRowMajor, CblasUpper, order, 1, g->m, order, v, 1, 0, out, 1);
    for (size_t i = 0; g->rho >= 0 && i < g->order; i++) out[i] += (g->diagonal[i] - g->m[i * g->order + i]) * v[i];
}

fl_status fli_gram_norm(fl_ctx *ctx, fli_gram *g, fli_rng *rng, double *norm)
{
    fl_status s = fli_lanczos(ctx, g->order, product, g, 1e-10, rng, norm);
    if (!s) *norm += g->l2;
    return s;
}

/* ---- step by step -------------------------------------------------------------------------------------- */

/* The Cholesky factor of m + lam I, below the diagonal; returns 0 if it does not exist. */
static int factor(fli_gram *g, double rho)
{
    int order = (int)g->order, info = 0;
    size_t n = g->order;
    if (g->rho == rho) return 1;
    for (size_t i = 0; i < n; i++) {
        for (size_t j = 0; j < i; j++) g->m[i * n + j] = g->m[j * n + i];
        g->m[i * n + i] = g->diagonal[i] + g->l2 + rho;
    }
    g->rho = rho;
    dpotrf_("U", &order, g->m, &order, &info);
    if (info) g->rho = -1;
    return !info;
}

int fli_gram_definite(fli_gram *g, double rho)
{
    double most = 0, least = INFINITY;
    if (!factor(g, rho)) return 0;
    /* with fewer samples than features, directions outside the samples' span have the eigenvalue lam */
    if (g->n < g->k) least = g->l2 + rho;
    for (size_t i = 0; i < g->order; i++) {
        double d = g->m[i * g->order + i] * g->m[i * g->order + i];
        least = fmin(least, d);
        most = fmax(most, d);
    }
    return least > (double)g->order * DBL_EPSILON * most;
}

/* u <- (m + lam I)^-1 u */
static void apply(const fli_gram *g, double *u)
{
    int n = (int)g->order;
    cblas_dtrsv(CblasColMajor, CblasUpper, CblasTrans, CblasNonUnit, n, g->m, n, u, 1);
    cblas_dtrsv(CblasColMajor, CblasUpper, CblasNoTrans, CblasNonUnit, n, g->m, n, u, 1);
}

static void one_by_one_features(const fli_gram *g, double rho, size_t steps, double *e, double *y)
{
    int k = (int)g->k;
    for (size_t j = 0; j < steps; j++) {
        cblas_dcopy(k, e, 1, y, 1);
        apply(g, y);
        cblas_daxpy(k, -rho, y, 1, e, 1);
    }
}

/* y = a e + A'w */
static void back(const fli_gram *g, double a, const double *e, const double *w, double *y)
{
    int n = (int)g->n, k = (int)g->k;
    if (y != e) cblas_dcopy(k, e, 1, y, 1);
    cblas_dgemv(CblasRowMajor, CblasTrans, n, k, 1, g->a, k, w, 1, a, y, 1);
}

static void one_by_one_samples(const fli_gram *g, double rho, size_t steps, double *e, double *y)
{
    int n = (int)g->n, k = (int)g->k;
    double lam = g->l2 + rho, q = g->l2 / lam, a = 1;
    memset(g->w, 0, g->n * sizeof *g->w);
    cblas_dgemv(CblasRowMajor, CblasNoTrans, n, k, 1, g->a, k, e, 1, 0, g->s, 1);
    for (size_t j = 0; j < steps; j++) {
        cblas_dcopy(n, g->s, 1, g->u, 1);
        apply(g, g->u);
        if (j + 1 == steps) break;
        cblas_daxpy(n, -rho, g->u, 1, g->s, 1);
        cblas_dscal(n, q, g->w, 1);
        cblas_daxpy(n, rho * g->scale / lam, g->u, 1, g->w, 1);
        a *= q;
    }
    /* the last step: y = (a e + A'(w - (c/n) u))/lam, e <- e - rho y with e = a e + A'w */
    for (size_t i = 0; i < g->n; i++) g->s[i] = (g->w[i] - g->scale * g->u[i]) / lam;
    back(g, a / lam, e, g->s, y);
    back(g, a, e, g->w, e);
    cblas_daxpy(k, -rho, y, 1, e, 1);
}

/* ---- all at once --------------------------------------------------------------------------------------- */

static fl_status decompose(fl_ctx *ctx, fli_gram *g)
{
    int order = (int)g->order, info = 0, lwork = 1 + 6 * order + 2 * order * order, liwork = 3 + 5 * order;
    size_t n = g->order;
    fl_status s = FL_ENOMEM;
    double *vectors = fli_alloc(ctx, n * n, sizeof *vectors), *work = fli_alloc(ctx, (size_t)lwork, sizeof *work);
    int *iwork = fli_alloc(ctx, (size_t)liwork, sizeof *iwork);
    if (!vectors || !work || !iwork) goto done;
    memcpy(vectors, g->m, n * n * sizeof *vectors);
    for (size_t i = 0; i < n; i++) vectors[i * n + i] = g->diagonal[i];
    dsyevd_("V", "L", &order, vectors, &order, g->values, work, &lwork, iwork, &liwork, &info);
    s = info ? fli_fail(ctx, FL_EDIVERGED, "the eigenvalues of a client's Gram matrix were not found") : FL_OK;
    if (s) goto done;
    for (size_t i = 0; i < n; i++) g->values[i] = fmax(0, g->values[i]); /* up to rounding */
    g->vectors = vectors;
    vectors = NULL;
done:
    fli_free(vectors);
    fli_free(work);
    fli_free(iwork);
    return s;
}

/* The factors of e's component along an eigenvector of H with eigenvalue h, and of y's. */
typedef struct {
    double e, y;
} factors;

static factors factors_of(double h, double rho, size_t steps)
{
    double q = h / (h + rho), before = pow(q, (double)(steps - 1));
    return (factors){.e = before * q, .y = before / (h + rho)};
}

static void at_once_features(const fli_gram *g, double rho, size_t steps, double *e, double *y)
{
    int k = (int)g->k;
    cblas_dgemv(CblasRowMajor, CblasNoTrans, k, k, 1, g->vectors, k, e, 1, 0, g->s, 1);
    for (size_t i = 0; i < g->k; i++) {
        factors f = factors_of(g->values[i] + g->l2, rho, steps);
        g->u[i] = f.y * g->s[i];
        g->s[i] *= f.e;
    }
    cblas_dgemv(CblasRowMajor, CblasTrans, k, k, 1, g->vectors, k, g->u, 1, 0, y, 1);
    cblas_dgemv(CblasRowMajor, CblasTrans, k, k, 1, g->vectors, k, g->s, 1, 0, e, 1);
}

static void at_once_samples(const fli_gram *g, double rho, size_t steps, double *e, double *y)
{
    int n = (int)g->n, k = (int)g->k;
    factors outside = factors_of(g->l2, rho, steps);
    cblas_dgemv(CblasRowMajor, CblasNoTrans, n, k, 1, g->a, k, e, 1, 0, g->w, 1);
    cblas_dgemv(CblasRowMajor, CblasNoTrans, n, n, 1, g->vectors, n, g->w, 1, 0, g->s, 1);
    for (size_t i = 0; i < g->n; i++) {
        double value = g->values[i], c = value > 0 ? g->scale * g->s[i] / value : 0;
        factors f = factors_of(value + g->l2, rho, steps);
        g->u[i] = c * (f.y - outside.y);
        g->s[i] = c * (f.e - outside.e);
    }
    cblas_dgemv(CblasRowMajor, CblasTrans, n, n, 1, g->vectors, n, g->u, 1, 0, g->w, 1);
    back(g, outside.y, e, g->w, y);
    cblas_dgemv(CblasRowMajor, CblasTrans, n, n, 1, g->vectors, n, g->s, 1, 0, g->w, 1);
    back(g, outside.e, e, g->w, e);
}

fl_status fli_gram_steps(fl_ctx *ctx, fli_gram *g, double rho, size_t steps, size_t patience, double *e, double *y)
{
    int few = g->n < g->k;
    fl_status s = FL_OK;
    if (!g->vectors && (g->taken > patience || steps > patience - g->taken)) s = decompose(ctx, g);
    if (s) return s;
    if (g->vectors) {
        (few ? at_once_samples : at_once_features)(g, rho, steps, e, y);
        return FL_OK;
    }
    if (!factor(g, rho))
        return fli_fail(ctx, FL_ECONFIG, "a client's Gram matrix plus %g I has no Cholesky factor", rho);
    g->taken += steps;
    (few ? one_by_one_samples : one_by_one_features)(g, rho, steps, e, y);
    return FL_OK;
}
