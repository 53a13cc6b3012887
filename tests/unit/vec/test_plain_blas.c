/* What takes the place of OpenBLAS in a client without it computes the same, up to rounding. */
#include "check.h"

#include "base/rng.h"
#include "vec/ops.h"

#include <math.h>

/* Both are here, side by side. */
#include <cblas.h>
void dpotrf_(const char *uplo, const int *n, double *a, const int *lda, int *info);

#define cblas_sgemm          plain_sgemm
#define cblas_dgemm          plain_dgemm
#define cblas_sgemv          plain_sgemv
#define cblas_dgemv          plain_dgemv
#define cblas_dsyrk          plain_dsyrk
#define cblas_dsymv          plain_dsymv
#define cblas_dtrsv          plain_dtrsv
#define cblas_ddot           plain_ddot
#define cblas_dnrm2          plain_dnrm2
#define cblas_daxpy          plain_daxpy
#define cblas_dscal          plain_dscal
#define cblas_dcopy          plain_dcopy
#define dpotrf_              plain_dpotrf
#define dsyevd_              plain_dsyevd
#define fli_blas_look_again  plain_look_again
#define fli_blas_name        plain_name
#define fli_blas_library     plain_library
#define fli_blas_prepare     plain_prepare
#define fli_blas_thread_safe plain_thread_safe
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmissing-prototypes"
#define CBLAS_ORDER     enum CBLAS_ORDER
#define CBLAS_TRANSPOSE enum CBLAS_TRANSPOSE
#define CBLAS_UPLO      enum CBLAS_UPLO
#define CBLAS_DIAG      enum CBLAS_DIAG
#include "vec/plain/blas.c"
#pragma GCC diagnostic pop
#undef CBLAS_ORDER
#undef CBLAS_TRANSPOSE
#undef CBLAS_UPLO
#undef CBLAS_DIAG
#undef cblas_sgemm
#undef cblas_dgemm
#undef cblas_sgemv
#undef cblas_dgemv
#undef cblas_dsyrk
#undef cblas_dsymv
#undef cblas_dtrsv
#undef cblas_ddot
#undef cblas_dnrm2
#undef cblas_daxpy
#undef cblas_dscal
#undef cblas_dcopy
#undef dpotrf_

enum { MOST = 40, SQUARE = MOST * MOST };

typedef struct {
    double a[SQUARE], b[SQUARE], c[SQUARE], d[SQUARE], x[MOST], y[MOST], z[MOST];
    float fa[SQUARE], fb[SQUARE], fc[SQUARE], fd[SQUARE];
} numbers;

static void draw(numbers *t, uint64_t seed)
{
    fli_rng r;
    fli_rng_init(&r, seed, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < SQUARE; i++) {
        t->fa[i] = (float)(t->a[i] = fli_rng_normal(&r));
        t->fb[i] = (float)(t->b[i] = fli_rng_normal(&r));
        t->fd[i] = t->fc[i] = (float)(t->d[i] = t->c[i] = fli_rng_normal(&r));
    }
    for (size_t i = 0; i < MOST; i++) {
        t->x[i] = fli_rng_normal(&r);
        t->z[i] = t->y[i] = fli_rng_normal(&r);
    }
}

static void close_to(const double *got, const double *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs(got[i] - want[i]) <= 1e-11 * (1 + fabs(want[i])))) fail_msg("%zu: %g, not %g", i, got[i], want[i]);
}

static void close_f32(const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (!(fabs((double)got[i] - (double)want[i]) <= 1e-4))
            fail_msg("%zu: %g, not %g", i, (double)got[i], (double)want[i]);
}

static const int sizes[] = {1, 2, 7, 8, 9, 33, MOST};
enum { SIZES = sizeof sizes / sizeof *sizes };

static void plain_products_match_the_library(void **state)
{
    static numbers t;
    (void)state;
    for (size_t k = 0; k < 4 * SIZES * SIZES * 2; k++) {
        enum CBLAS_TRANSPOSE ta = k & 1 ? CblasTrans : CblasNoTrans, tb = k & 2 ? CblasTrans : CblasNoTrans;
        int m = sizes[k / 8 % SIZES], n = sizes[k / 8 / SIZES], inner = sizes[(k / 8 + k) % SIZES];
        double alpha = 1.25, beta = k & 4 ? 0.5 : 0;
        draw(&t, k);
        plain_dgemm(CblasRowMajor, ta, tb, m, n, inner, alpha, t.a, MOST, t.b, MOST, beta, t.c, MOST);
        cblas_dgemm(CblasRowMajor, ta, tb, m, n, inner, alpha, t.a, MOST, t.b, MOST, beta, t.d, MOST);
        close_to(t.c, t.d, SQUARE);
        plain_sgemm(CblasRowMajor, ta, tb, m, n, inner, (float)alpha, t.fa, MOST, t.fb, MOST, (float)beta, t.fc, MOST);
        cblas_sgemm(CblasRowMajor, ta, tb, m, n, inner, (float)alpha, t.fa, MOST, t.fb, MOST, (float)beta, t.fd, MOST);
        close_f32(t.fc, t.fd, SQUARE);
        plain_dgemv(CblasRowMajor, ta, m, n, alpha, t.a, MOST, t.x, 1, beta, t.y, 1);
        cblas_dgemv(CblasRowMajor, ta, m, n, alpha, t.a, MOST, t.x, 1, beta, t.z, 1);
        close_to(t.y, t.z, MOST);
        plain_sgemv(CblasRowMajor, ta, m, n, (float)alpha, t.fa, MOST, t.fb, 1, (float)beta, t.fc, 1);
        cblas_sgemv(CblasRowMajor, ta, m, n, (float)alpha, t.fa, MOST, t.fb, 1, (float)beta, t.fd, 1);
        close_f32(t.fc, t.fd, SQUARE);
    }
}

static void plain_vectors_match_the_library(void **state)
{
    static numbers t;
    (void)state;
    for (size_t k = 0; k < SIZES; k++) {
        int n = sizes[k];
        double got[2], want[2];
        draw(&t, k);
        got[0] = plain_ddot(n, t.a, 1, t.b, 1), want[0] = cblas_ddot(n, t.a, 1, t.b, 1);
        got[1] = plain_dnrm2(n, t.a, 1), want[1] = cblas_dnrm2(n, t.a, 1);
        close_to(got, want, 2);
        plain_daxpy(n, 0.3, t.a, 1, t.c, 1), cblas_daxpy(n, 0.3, t.a, 1, t.d, 1);
        plain_dscal(n, 0.7, t.c, 1), cblas_dscal(n, 0.7, t.d, 1);
        close_to(t.c, t.d, SQUARE);
        plain_dcopy(n, t.a, 1, t.c, 1), cblas_dcopy(n, t.a, 1, t.d, 1);
        close_to(t.c, t.d, SQUARE);
    }
    double large[3] = {3e200, 0, 4e200}, none[2] = {0, 0};
    assert_true(fabs(plain_dnrm2(3, large, 1) / 5e200 - 1) < 1e-15);
    assert_true(plain_dnrm2(2, none, 1) <= 0);
}

static void symmetric_matrices(void **state)
{
    static numbers t;
    (void)state;
    for (size_t k = 0; k < 2 * SIZES; k++) {
        enum CBLAS_TRANSPOSE trans = k & 1 ? CblasTrans : CblasNoTrans;
        int n = sizes[k / 2], info[2], order = MOST;
        draw(&t, k);
        for (size_t i = 0; i < SQUARE; i++) t.d[i] = t.c[i] = i % (MOST + 1) ? 0 : 1;
        plain_dsyrk(CblasRowMajor, CblasUpper, trans, n, 9, 0.5, t.a, MOST, 1, t.c, MOST);
        cblas_dsyrk(CblasRowMajor, CblasUpper, trans, n, 9, 0.5, t.a, MOST, 1, t.d, MOST);
        close_to(t.c, t.d, SQUARE);
        plain_dsymv(CblasRowMajor, CblasUpper, n, 1.5, t.c, MOST, t.x, 1, 0.5, t.y, 1);
        cblas_dsymv(CblasRowMajor, CblasUpper, n, 1.5, t.c, MOST, t.x, 1, 0.5, t.z, 1);
        close_to(t.y, t.z, MOST);
        for (size_t i = 0; i < MOST; i++) /* as column-major matrices they need the other triangle */
            for (size_t j = 0; j < i; j++) t.c[i * MOST + j] = t.d[i * MOST + j] = t.c[j * MOST + i];
        plain_dpotrf("U", &n, t.c, &order, &info[0]);
        dpotrf_("U", &n, t.d, &order, &info[1]);
        assert_int_equal(info[0], 0);
        assert_int_equal(info[1], 0);
        close_to(t.c, t.d, SQUARE);
        plain_dtrsv(CblasColMajor, CblasUpper, trans, CblasNonUnit, n, t.c, MOST, t.y, 1);
        cblas_dtrsv(CblasColMajor, CblasUpper, trans, CblasNonUnit, n, t.d, MOST, t.z, 1);
        close_to(t.y, t.z, MOST);
        t.c[0] = -1;
        plain_dpotrf("U", &n, t.c, &order, &info[0]);
        assert_int_equal(info[0], 1);
    }
}

/* A v = value v, values grow, and vectors are as long as 1. */
static void eigenvectors_satisfy_their_equation(void **state)
{
    static numbers t;
    static double work[2 * SQUARE + 6 * MOST + 1];
    int iwork[5 * MOST + 3], lwork = sizeof work / sizeof *work, liwork = 5 * MOST + 3, info;
    (void)state;
    for (size_t k = 0; k < SIZES; k++) {
        int order = sizes[k];
        size_t n = (size_t)order;
        draw(&t, k);
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < n; j++) t.c[i * n + j] = t.d[i * n + j] = t.a[i < j ? i * n + j : j * n + i];
        for (size_t i = 0; i < n; i++)
            for (size_t j = 0; j < i; j++) t.c[i * n + j] = 77; /* nobody looks there */
        plain_dsyevd("V", "L", &order, t.c, &order, t.x, work, &lwork, iwork, &liwork, &info);
        assert_int_equal(info, 0);
        for (size_t i = 0; i < n; i++) {
            cblas_dgemv(CblasRowMajor, CblasNoTrans, order, order, 1, t.d, order, t.c + i * n, 1, 0, t.y, 1);
            for (size_t j = 0; j < n; j++) t.z[j] = t.x[i] * t.c[i * n + j];
            close_to(t.y, t.z, n);
            assert_true(fabs(cblas_dnrm2(order, t.c + i * n, 1) - 1) < 1e-12);
            if (i) assert_true(t.x[i] >= t.x[i - 1]);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(plain_products_match_the_library), cmocka_unit_test(plain_vectors_match_the_library),
        cmocka_unit_test(symmetric_matrices), cmocka_unit_test(eigenvectors_satisfy_their_equation)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
