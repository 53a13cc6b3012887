/* All clients' samples in one place, and Newton's method on them: the rival that federated methods have for convex
 * problems. For
 *
 *     f(x) = (1/n) sum_j loss(a_j'x, b_j) + wd/2 ||x||^2
 *
 * with half the square of the difference as loss, or the logistic one, b in {0, 1}.
 *
 * Sparse samples stay sparse: a Hessian then costs the squares of the rows' non-zeros. */
#ifndef BENCH_POOLED_H
#define BENCH_POOLED_H

#include "data/federation/federation.h"

typedef struct {
    size_t n, k;
    int logistic;
    double wd;
    size_t *row;   /* n + 1 starts */
    uint32_t *col; /* NULL: all values are there, a is n x k */
    double *a;
    double *b;
    double *z, *r, *h;    /* n each: margins, slopes and curvatures of the losses */
    double *g, *d, *next; /* k each: gradient, direction, next point */
    double *hessian;      /* k x k */
    double *rows;         /* BLOCK x k, of dense samples */
    double bytes;         /* of the samples as the data set stores them */
} pooled;

fl_status pooled_init(fl_ctx *ctx, const fli_fed *fed, double wd, pooled *p);
void pooled_fini(pooled *p);

double pooled_value(pooled *p, const double *x);
/* The largest eigenvalue of the Hessian at 0, which for both losses is the largest anywhere. */
double pooled_smoothness(pooled *p);
/* From x = 0 until f(x) <= enough, or no further progress: steps taken. *value receives f(x). */
size_t pooled_newton(pooled *p, double enough, double *x, double *value);

#endif
