#include "pooled.h"

#include <cblas.h>
#include <float.h>
#include <math.h>
#include <string.h>

enum { BLOCK = 256, MOST_STEPS = 100, HALVINGS = 60, POWERS = 300 };

void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void dpotrs_(const char *uplo, const int *n, const int *nrhs, const double *a, const int *lda, double *b,
             const int *ldb, int *info);

/* ---- the samples --------------------------------------------------------------------------------------- */

static fl_status take_rows(fl_ctx *ctx, const fli_fed *fed, pooled *p)
{
    const fli_dataset *ds = fed->train;
    size_t filled = 0;
    int sparse = 0;
    for (size_t i = 0; i < p->n; i++) {
        fli_dataset_row(ds, fed->part.index[i], p->d);
        for (size_t j = 0; j < p->k; j++) filled += p->d[j] != 0;
    }
    sparse = filled < p->n * p->k / 4;
    if (!sparse) filled = p->n * p->k;
    p->a = fli_alloc(ctx, filled, sizeof *p->a);
    p->row = fli_alloc(ctx, p->n + 1, sizeof *p->row);
    if (sparse) p->col = fli_alloc(ctx, filled, sizeof *p->col);
    if (!p->a || !p->row || (sparse && !p->col)) return FL_ENOMEM;
    for (size_t i = 0, at = 0; i < p->n; i++) {
        fli_dataset_row(ds, fed->part.index[i], p->d);
        for (size_t j = 0; j < p->k; j++) {
            if (sparse && p->d[j] == 0) continue;
            if (sparse) p->col[at] = (uint32_t)j;
            p->a[at++] = p->d[j];
        }
        p->row[i + 1] = at;
        p->b[i] = p->logistic ? ds->label[fed->part.index[i]] : ds->target[fed->part.index[i]];
    }
    return FL_OK;
}

fl_status pooled_init(fl_ctx *ctx, const fli_fed *fed, double wd, pooled *p)
{
    *p = (pooled){.n = fed->samples, .k = fed->dim, .logistic = fed->classes > 0, .wd = wd};
    double **vectors[] = {&p->b, &p->z, &p->r, &p->h, &p->g, &p->d, &p->next, &p->hessian, &p->rows};
    size_t n = p->n, k = p->k, sizes[] = {n, n, n, n, k, k, k, k * k, BLOCK * k};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        if (!(*vectors[i] = fli_alloc(ctx, sizes[i], sizeof(double)))) return FL_ENOMEM;
    p->bytes = (double)fli_dataset_bytes(fed->train) * (double)n / (double)fed->train->n;
    return take_rows(ctx, fed, p);
}

void pooled_fini(pooled *p)
{
    void *all[] = {p->row, p->col, p->a, p->b, p->z, p->r, p->h, p->g, p->d, p->next, p->hessian, p->rows};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) fli_free(all[i]);
}

/* ---- the objective ------------------------------------------------------------------------------------- */

/* z = A x */
static void multiply(pooled *p, const double *x)
{
    if (!p->col) {
        cblas_dgemv(CblasRowMajor, CblasNoTrans, (int)p->n, (int)p->k, 1, p->a, (int)p->k, x, 1, 0, p->z, 1);
        return;
    }
    for (size_t i = 0; i < p->n; i++) {
        double z = 0;
        for (size_t e = p->row[i]; e < p->row[i + 1]; e++) z += p->a[e] * x[p->col[e]];
        p->z[i] = z;
    }
}

double pooled_value(pooled *p, const double *x)
{
    double sum = 0;
    multiply(p, x);
    for (size_t i = 0; i < p->n; i++) {
        double z = p->z[i], e = z - p->b[i];
        sum += p->logistic ? log1p(exp(-fabs(z))) + fmax(z, 0) - p->b[i] * z : e * e / 2;
    }
    return sum / (double)p->n + p->wd / 2 * cblas_ddot((int)p->k, x, 1, x, 1);
}

/* g = A'r/n + wd x, where the margins are those of x */
static void slope(pooled *p, const double *x)
{
    for (size_t i = 0; i < p->n; i++) {
        double s = p->logistic ? 1 / (1 + exp(-p->z[i])) : p->z[i];
        p->r[i] = (s - p->b[i]) / (double)p->n;
        p->h[i] = (p->logistic ? s * (1 - s) : 1) / (double)p->n;
    }
    cblas_dcopy((int)p->k, x, 1, p->g, 1);
    cblas_dscal((int)p->k, p->wd, p->g, 1);
    if (!p->col) {
        cblas_dgemv(CblasRowMajor, CblasTrans, (int)p->n, (int)p->k, 1, p->a, (int)p->k, p->r, 1, 1, p->g, 1);
        return;
    }
    for (size_t i = 0; i < p->n; i++)
        for (size_t e = p->row[i]; e < p->row[i + 1]; e++) p->g[p->col[e]] += p->r[i] * p->a[e];
}

/* Upper triangle of A' diag(h) A + wd I, row-major. */
static void curvature(pooled *p)
{
    size_t k = p->k;
    memset(p->hessian, 0, k * k * sizeof *p->hessian);
    for (size_t i = 0; p->col && i < p->n; i++)
        for (size_t e = p->row[i]; e < p->row[i + 1]; e++) {
            double *to = p->hessian + p->col[e] * k, v = p->h[i] * p->a[e];
            for (size_t o = e; o < p->row[i + 1]; o++) to[p->col[o]] += v * p->a[o];
        }
    for (size_t from = 0; !p->col && from < p->n; from += BLOCK) {
        size_t m = p->n - from < BLOCK ? p->n - from : BLOCK;
        for (size_t i = 0; i < m; i++) {
            double root = sqrt(p->h[from + i]);
            for (size_t j = 0; j < k; j++) p->rows[i * k + j] = root * p->a[(from + i) * k + j];
        }
        cblas_dsyrk(CblasRowMajor, CblasUpper, CblasTrans, (int)k, (int)m, 1, p->rows, (int)k, 1, p->hessian, (int)k);
    }
    for (size_t j = 0; j < k; j++) p->hessian[j * k + j] += p->wd;
}

double pooled_smoothness(pooled *p)
{
    int k = (int)p->k;
    double norm = 0;
    memset(p->next, 0, p->k * sizeof *p->next);
    pooled_value(p, p->next);
    slope(p, p->next);
    curvature(p);
    for (size_t j = 0; j < p->k; j++) p->d[j] = 1 + 0.5 * sin((double)j);
    for (size_t i = 0; i < POWERS; i++) {
        cblas_dscal(k, 1 / cblas_dnrm2(k, p->d, 1), p->d, 1);
        cblas_dsymv(CblasRowMajor, CblasUpper, k, 1, p->hessian, k, p->d, 1, 0, p->next, 1);
        norm = cblas_dnrm2(k, p->next, 1);
        cblas_dcopy(k, p->next, 1, p->d, 1);
    }
    return norm;
}

/* ---- Newton -------------------------------------------------------------------------------------------- */

/* One step from x, whose margins are given, halved until f decreases enough; 0 if f does not decrease beyond
 * rounding. */
static int step(pooled *p, double *x, double *value)
{
    int k = (int)p->k, one = 1, info = 0;
    slope(p, x);
    curvature(p);
    cblas_dcopy(k, p->g, 1, p->d, 1);
    dpotrf_("L", &k, p->hessian, &k, &info); /* row-major upper is LAPACK's lower */
    if (info) return 0;
    dpotrs_("L", &k, &one, p->hessian, &k, p->d, &k, &info);
    double decrease = cblas_ddot(k, p->g, 1, p->d, 1), t = 1;
    if (!(decrease > DBL_EPSILON * fabs(*value))) return 0;
    for (size_t i = 0; i < HALVINGS; i++, t /= 2) {
        cblas_dcopy(k, x, 1, p->next, 1);
        cblas_daxpy(k, -t, p->d, 1, p->next, 1);
        double f = pooled_value(p, p->next);
        if (!(f <= *value - 1e-4 * t * decrease)) continue;
        cblas_dcopy(k, p->next, 1, x, 1);
        *value = f;
        return 1;
    }
    return 0;
}

size_t pooled_newton(pooled *p, double enough, double *x, double *value)
{
    size_t steps = 0;
    memset(x, 0, p->k * sizeof *x);
    *value = pooled_value(p, x);
    while (*value > enough && steps < MOST_STEPS && step(p, x, value)) steps++;
    return steps;
}
