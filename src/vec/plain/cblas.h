/* The part of BLAS that fedloom calls, for builds without OpenBLAS (FEDLOOM_BLAS=OFF): blas.c. */
#ifndef FLI_PLAIN_CBLAS_H
#define FLI_PLAIN_CBLAS_H

typedef int blasint;
typedef enum { CblasRowMajor = 101, CblasColMajor = 102 } CBLAS_ORDER;
typedef enum { CblasNoTrans = 111, CblasTrans = 112 } CBLAS_TRANSPOSE;
typedef enum { CblasUpper = 121, CblasLower = 122 } CBLAS_UPLO;
typedef enum { CblasNonUnit = 131, CblasUnit = 132 } CBLAS_DIAG;

/* Implemented for contiguous rows (CblasRowMajor) and contiguous vectors alone. */
void cblas_sgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, float alpha,
                 const float *a, int lda, const float *b, int ldb, float beta, float *c, int ldc);
void cblas_dgemm(CBLAS_ORDER order, CBLAS_TRANSPOSE ta, CBLAS_TRANSPOSE tb, int m, int n, int k, double alpha,
                 const double *a, int lda, const double *b, int ldb, double beta, double *c, int ldc);
void cblas_sgemv(CBLAS_ORDER order, CBLAS_TRANSPOSE ta, int m, int n, float alpha, const float *a, int lda,
                 const float *x, int step_x, float beta, float *y, int step_y);
void cblas_dgemv(CBLAS_ORDER order, CBLAS_TRANSPOSE ta, int m, int n, double alpha, const double *a, int lda,
                 const double *x, int step_x, double beta, double *y, int step_y);
/* Read and write the upper triangle alone. */
void cblas_dsyrk(CBLAS_ORDER order, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, int n, int k, double alpha, const double *a,
                 int lda, double beta, double *c, int ldc);
void cblas_dsymv(CBLAS_ORDER order, CBLAS_UPLO uplo, int n, double alpha, const double *a, int lda, const double *x,
                 int step_x, double beta, double *y, int step_y);
/* For the upper triangle and contiguous columns (CblasColMajor). */
void cblas_dtrsv(CBLAS_ORDER order, CBLAS_UPLO uplo, CBLAS_TRANSPOSE trans, CBLAS_DIAG diag, int n, const double *a,
                 int lda, double *x, int step);
double cblas_ddot(int n, const double *x, int step_x, const double *y, int step_y);
double cblas_dnrm2(int n, const double *x, int step);
void cblas_daxpy(int n, double alpha, const double *x, int step_x, double *y, int step_y);
void cblas_dscal(int n, double alpha, double *x, int step);
void cblas_dcopy(int n, const double *x, int step_x, double *y, int step_y);

#endif
