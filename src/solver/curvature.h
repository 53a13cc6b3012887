/* Curvature: the largest |eigenvalue| of a symmetric matrix that is given by its products, and the curvature of a
 * client's objective, for theorems. */
#ifndef FLI_SOLVER_CURVATURE_H
#define FLI_SOLVER_CURVATURE_H

#include "base/ctx.h"
#include "base/rng.h"
#include "model/model.h"

/* ==== Lanczos' recurrence; for this folder and its tests ================================================== */

/* out = M v */
typedef void fli_product(void *arg, const double *v, double *out);

/* Stops when the estimate, which grows towards the eigenvalue, has changed by less than `tolerance` (relative) over the
 * last few products. FL_EDIVERGED if the matrix has entries that are not finite. */
fl_status fli_lanczos(fl_ctx *ctx, size_t n, fli_product *product, void *arg, double tolerance, fli_rng *rng,
                      double *largest);

/* ==== a client's objective ================================================================================ */

/* ---- at a point, over one batch ---- */

/* The largest |eigenvalue| of the batch Hessian at x, by Lanczos' recurrence, with the weight decay of a client that
 * has `samples` training samples in all. For a problem with two levels: of the lower objective by its own block. */
fl_status fli_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, size_t samples,
                         uint64_t seed, double *l);
/* Its smallest eigenvalue, given the largest |eigenvalue| l: the modulus of strong convexity if the Hessian is
 * positive. Uses Lanczos' recurrence on l - H, which approaches the value from above. If all eigenvalues lie within
 * 1e-6 l of each other, the result is accurate to that. */
fl_status fli_convexity(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, size_t samples,
                        uint64_t seed, double l, double *mu);
/* The same for the upper objective of two levels, by all parameters; products are differences of gradients. */
fl_status fli_upper_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, uint64_t seed,
                               double *l);
/* The same for f_i(x, y) in x, for a model with pseudo labels. The first `plain` rows of the batch have labels; y holds
 * the fixed pseudo labels of the other rows. Products are differences of gradients. */
fl_status fli_pseudo_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, size_t plain,
                                const void *y, size_t samples, uint64_t seed, double *l);

/* ---- for every x, over any number of samples ---- */

/* Whether a bound on the model's Hessian at all x is known: its predictor is linear, and there is one level. */
int fli_bounded(const fli_model *m);
/* That bound for a client's samples, matrix-free: the largest eigenvalue of
 *     c A'A/n + (c alpha_p + (3/4 + ln C) alpha_r) U'U/u + weight decay
 * with the n labelled samples A and, if the model has pseudo labels, the u others U. c is the curvature of the loss
 * (model.h), and 3/4 + ln C bounds that of sum h ln h in the logits of C classes: its product v'Hv is the mean, by h,
 * of (1 + ln h - sum h ln h)(v - mean v)^2, whose factor is at most 1 + ln C, while h ln h is at least -1/e. Without
 * pseudo labels the bound is reached in the limit. Unless NULL, *mu receives a modulus of strong convexity for all x:
 * exact for least squares, else the weight decay. */
fl_status fli_smoothness_bound(fl_ctx *ctx, const fli_model *m, const fli_view *v, uint64_t seed, double *l,
                               double *mu);

#endif
