/* The nearest point of a convex hull, by the weights of its corners: minimise ||W h - d||^2 over h on the simplex. */
#ifndef FLI_MODEL_SIMPLEX_LSQ_H
#define FLI_MODEL_SIMPLEX_LSQ_H

#include <stddef.h>

/* Doubles of work for k corners; at least 2 k. */
static inline size_t fli_simplex_lsq_work(size_t k) { return k * k + 2 * k; }

/* h = k weights, from G = W'W (k x k) and c = W'd. Corners and d may be relative to any common origin. If several h
 * give the nearest point, h is one of them. */
void fli_simplex_lsq_nearest(size_t k, const double *gram, const double *c, double *h, double *work);

#endif
