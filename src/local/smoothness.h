#ifndef FLI_LOCAL_SMOOTHNESS_H
#define FLI_LOCAL_SMOOTHNESS_H

#include "model/model.h"

/* The largest |eigenvalue| of the batch Hessian at x by power iteration, with the weight decay of a client that has
 * this many training samples in all, to a relative change of `tolerance` or `iterations`, whichever comes first: for
 * a quadratic or a GLM at its worst point, the smoothness constant. Of a problem of two levels: of the lower
 * objective by its own block. */
fl_status fli_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, size_t samples,
                         uint64_t seed, size_t iterations, double tolerance, double *l);
/* Its smallest eigenvalue, given the largest |eigenvalue| l: the modulus of strong convexity where the Hessian is
 * positive. Lanczos' recurrence for l - H, which comes close from above; where all eigenvalues are within 1e-6 l of
 * another, no closer than that. */
fl_status fli_convexity(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, size_t samples,
                        uint64_t seed, double l, double *mu);

/* The same of the upper objective of a problem of two levels, by all parameters: products are differences of gradients.
 */
fl_status fli_upper_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, uint64_t seed,
                               size_t iterations, double tolerance, double *l);

#endif
