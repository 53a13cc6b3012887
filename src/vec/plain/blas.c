/* The BLAS and LAPACK functions that fedloom needs, in plain C, for small clients (FEDLOOM_BLAS=OFF). Models' products
 * use fedloom's own kernels in any build (tile.c); these serve the rest, and are slower. */
#include "vec/ops.h"

#include "base/number.h"

#include <cblas.h>
#include <float.h>
#include <math.h>

/* ---- products ------------------------------------------------------------------------------------------- */

#define REAL  float
#define GEMM  cblas_sgemm
#define GEMV  cblas_sgemv
#define DOT   dot_f32
#define SCALE scale_f32
#include "vec/plain/product.inc"
#undef REAL
#undef GEMM
#undef GEMV
#undef DOT
#undef SCALE
#define REAL  double
#define GEMM  cblas_dgemm
#define GEMV  cblas_dgemv
#define DOT   dot_f64
#define SCALE scale_f64
#include "vec/plain/product.inc"

/* ---- vectors -------------------------------------------------------------------------------------------- */

double cblas_ddot(int n, const double *x, int step_x, const double *y, int step_y)
{
    (void)step_y;
    return dot_f64((size_t)n, x, (size_t)step_x, y);
}

/* Scales the values, because their squares may overflow. */
double cblas_dnrm2(int n, const double *x, int step)
{
    double most = 0, sum = 0;
    (void)step;
    for (int i = 0; i < n; i++)
        if (!(fabs(x[i]) <= most)) most = fabs(x[i]);
    if (!(most > 0) || !isfinite(most)) return most;
    for (int i = 0; i < n; i++) sum += x[i] / most * (x[i] / most);
    return most * sqrt(sum);
}

void cblas_daxpy(int n, double alpha, const double *x, int step_x, double *y, int step_y)
{
    (void)step_x, (void)step_y;
    for (int i = 0; i < n; i++) y[i] += alpha * x[i];
}

void cblas_dscal(int n, double alpha, double *x, int step)
{
    (void)step;
    for (int i = 0; i < n; i++) x[i] *= alpha;
}

void cblas_dcopy(int n, const double *x, int step_x, double *y, int step_y)
{
    (void)step_x, (void)step_y;
    for (int i = 0; i < n; i++) y[i] = x[i];
}

/* ---- symmetric matrices ----------------------------------------------------------------------------------- */

void cblas_dsyrk(CBLAS_ORDER order, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, int n, int k, double alpha, const double *a,
                 int lda, double beta, double *c, int ldc)
{
    size_t last = (size_t)n, rows = (size_t)k, step = (size_t)lda;
    (void)order, (void)uplo;
    for (size_t i = 0; i < last; i++) {
        double *to = c + i * (size_t)ldc;
        scale_f64(last - i, beta, to + i);
        if (trans == CblasNoTrans)
            for (size_t j = i; j < last; j++) to[j] += alpha * dot_f64(rows, a + i * step, 1, a + j * step);
        else
            for (size_t t = 0; t < rows; t++) {
                const double *from = a + t * step, w = alpha * from[i];
                for (size_t j = i; j < last; j++) to[j] += w * from[j];
            }
    }
}

void cblas_dsymv(CBLAS_ORDER order, CBLAS_UPLO uplo, int n, double alpha, const double *a, int lda, const double *x,
                 int step_x, double beta, double *y, int step_y)
{
    size_t last = (size_t)n;
    (void)order, (void)uplo, (void)step_x, (void)step_y;
    scale_f64(last, beta, y);
    for (size_t i = 0; i < last; i++) {
        const double *row = a + i * (size_t)lda;
        y[i] += alpha * row[i] * x[i];
        for (size_t j = i + 1; j < last; j++) {
            y[i] += alpha * row[j] * x[j];
            y[j] += alpha * row[j] * x[i];
        }
    }
}

/* Solves R x = b or R' x = b by columns of R. */
void cblas_dtrsv(CBLAS_ORDER order, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, int n, const double *a,
                 int lda, double *x, int step)
{
    size_t last = (size_t)n;
    (void)order, (void)uplo, (void)diag, (void)step;
    for (size_t k = 0; k < last; k++) {
        size_t i = trans == CblasTrans ? k : last - 1 - k;
        const double *column = a + i * (size_t)lda;
        if (trans == CblasTrans) x[i] -= dot_f64(i, column, 1, x);
        x[i] /= column[i];
        if (trans == CblasNoTrans)
            for (size_t j = 0; j < i; j++) x[j] -= x[i] * column[j];
    }
}

/* ---- LAPACK ----------------------------------------------------------------------------------------------- */

void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);
void dsyevd_(const char *job, const char *uplo, const int *n, double *a, const int *lda, double *values, double *work,
             const int *lwork, int *iwork, const int *liwork, int *info);

/* Computes the upper triangle R of R'R = A, column by column. */
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info)
{
    size_t step = (size_t)*lda;
    (void)uplo;
    *info = 0;
    for (size_t j = 0; j < (size_t)*n; j++) {
        double *column = a + j * step;
        for (size_t i = 0; i < j; i++) column[i] = (column[i] - dot_f64(i, a + i * step, 1, column)) / a[i * step + i];
        double left = column[j] - dot_f64(j, column, 1, column);
        if (!(left > 0)) {
            *info = (int)j + 1;
            return;
        }
        column[j] = sqrt(left);
    }
}

/* Rotates the plane of p and q so that their off-diagonal element becomes 0; rows of `v` are the rotated unit
 * vectors. */
static void rotate(size_t n, double *a, double *v, size_t p, size_t q)
{
    double theta = (a[q * n + q] - a[p * n + p]) / (2 * a[p * n + q]);
    double t = copysign(1, theta) / (fabs(theta) + hypot(theta, 1)), c = 1 / hypot(t, 1), s = t * c;
    for (size_t k = 0; k < n; k++) {
        double x = a[k * n + p], y = a[k * n + q];
        a[k * n + p] = c * x - s * y;
        a[k * n + q] = s * x + c * y;
    }
    for (size_t k = 0; k < n; k++) {
        double x = a[p * n + k], y = a[q * n + k], u = v[p * n + k], w = v[q * n + k];
        a[p * n + k] = c * x - s * y;
        a[q * n + k] = s * x + c * y;
        v[p * n + k] = c * u - s * w;
        v[q * n + k] = s * u + c * w;
    }
    a[p * n + q] = a[q * n + p] = 0;
}

/* True if the off-diagonal elements are 0 up to rounding. */
static int is_diagonal(size_t n, const double *a)
{
    double off = 0, all = 0;
    for (size_t i = 0; i < n * n; i++) {
        all += a[i] * a[i];
        if (i % (n + 1)) off += a[i] * a[i];
    }
    return sqrt(off) <= DBL_EPSILON * (double)n * sqrt(all);
}

/* Jacobi's method: eigenvalues ascend, and column i (here a row) is the eigenvector of value i. `work`: n * n. */
void dsyevd_(const char *job, const char *uplo, const int *order, double *a, const int *lda, double *values,
             double *work, const int *lwork, int *iwork, const int *liwork, int *info)
{
    enum { SWEEPS = 60 };
    size_t n = (size_t)*order;
    double *v = work;
    (void)job, (void)uplo, (void)lda, (void)lwork, (void)iwork, (void)liwork;
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < n; j++) {
            v[i * n + j] = i == j;
            if (j > i) a[j * n + i] = a[i * n + j]; /* "L" of columns is the upper triangle of rows */
        }
    int sweeps = 0;
    for (; sweeps < SWEEPS && !is_diagonal(n, a); sweeps++)
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++)
                if (fabs(a[p * n + q]) > 0) rotate(n, a, v, p, q);
    *info = sweeps == SWEEPS;
    for (size_t i = 0; i < n; i++) values[i] = a[i * n + i];
    for (size_t i = 0; i < n; i++) { /* by ascending value */
        size_t least = i;
        for (size_t j = i + 1; j < n; j++)
            if (values[j] < values[least]) least = j;
        for (size_t k = 0; k < n && least != i; k++) {
            double keep = v[i * n + k];
            v[i * n + k] = v[least * n + k];
            v[least * n + k] = keep;
        }
        double keep = values[i];
        values[i] = values[least];
        values[least] = keep;
    }
    for (size_t i = 0; i < n * n; i++) a[i] = v[i];
}

/* ---- the library as a whole ------------------------------------------------------------------------------ */

void fli_blas_look_again(const char *core) { (void)core; }

const char *fli_blas_library(void) { return "plain loops"; }

void fli_blas_name(char *out, size_t room) { fli_snprintf(out, room, "%s", fli_blas_library()); }

fl_status fli_blas_prepare(fl_ctx *ctx)
{
    (void)ctx;
    return FL_OK;
}

int fli_blas_thread_safe(void) { return 1; }
