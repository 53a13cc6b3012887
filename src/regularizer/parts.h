/* What several regularisers are made of. */
#ifndef FLI_REGULARIZER_PARTS_H
#define FLI_REGULARIZER_PARTS_H

#include <math.h>
#include <stddef.h>

/* How far outside its set, relative to the size of the set, a point may be by rounding alone. */
#define FLI_REG_SLACK 1e-12

/* Soft threshold argmin_z t|z| + 1/2 (z - x)^2 for t >= 0: x moved by t towards 0, and 0 within t of it. Not a number
 * stays so. */
static inline double fli_soft(double x, double t) { return fabs(x) <= t ? 0 : x - copysign(t, x); }

/* ||x||_2 = *unit * (returned value), *unit a power of two near max|x_i|: neither the squares nor a use that divides by
 * *unit overflow, even where the norm itself does. */
double fli_norm_split(size_t n, const double *x, double *unit);

/* The largest entry; not a number if an entry is not finite. */
double fli_finite_max(size_t n, const double *x);

/* tau with sum_i max(y_i - tau, 0) = 1, for entries y <= 0 of which one is 0; those of -1 and below may be left out.
 * Destroys them. */
double fli_simplex_threshold(size_t n, double *y);

/* x <- the nearest point of {x >= 0, sum x = 1}; work: n */
void fli_simplex_nearest(size_t n, double *x, double *work);

#endif
