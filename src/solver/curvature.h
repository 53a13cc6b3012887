/* Curvature: the largest |eigenvalue| of a symmetric matrix that is known by its products alone, and how much one
 * client's objective curves, for theorems that ask. */
#ifndef FLI_SOLVER_CURVATURE_H
#define FLI_SOLVER_CURVATURE_H

#include "base/ctx.h"
#include "base/rng.h"
#include "model/model.h"

/* ==== Lanczos' recurrence; for this folder and its tests ================================================== */

/* out = M v */
typedef void fli_product(void *arg, const double *v, double *out);

/* Ends when the estimate, which grows towards the eigenvalue, has changed by less than `tolerance` (relative) over the
 * last few products. FL_EDIVERGED if the matrix has entries that are not finite. */
fl_status fli_lanczos(fl_ctx *ctx, size_t n, fli_product *product, void *arg, double tolerance, fli_rng *rng,
                      double *largest);

/* ==== a client's objective ================================================================================ */

/* ---- at a point, over one batch ---- */

/* The largest |eigenvalue| of the batch Hessian at x, by Lanczos' recurrence, with the weight decay of a client that
 * has this many training samples in all. Of a problem of two levels: of the lower objective by its own block. */
fl_status fli_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, size_t samples,
                         uint64_t seed, double *l);
/* Its smallest eigenvalue, given the largest |eigenvalue| l: the modulus of strong convexity where the Hessian is
 * positive. Lanczos' recurrence for l - H, which comes close from above; where all eigenvalues are within 1e-6 l of
 * another, no closer than that. */
fl_status fli_convexity(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, size_t samples,
                        uint64_t seed, double l, double *mu);
/* Of the upper objective of a problem of two levels, by all parameters; products are differences of gradients. */
fl_status fli_upper_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, uint64_t seed,
                               double *l);
/* Of f_i(x, y) in x for a model with pseudo labels. The first `plain` rows of the batch have labels; y holds the pseudo
 * labels of the other rows, which are kept fixed. Products are differences of gradients. */
fl_status fli_pseudo_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, size_t plain,
                                const void *y, size_t samples, uint64_t seed, double *l);

/* ---- for every x, over any number of samples ---- */

/* Whether the model's Hessian has a bound at all x that is known: its predictor is linear, and there is one level. */
int fli_bounded(const fli_model *m);
/* That bound for a client's samples, matrix-free: the largest eigenvalue of
 *     c A'A/n + (c alpha_p + (3/4 + ln C) alpha_r) U'U/u + weight decay
 * with the n labelled samples A and, where the model has pseudo labels, the u others U; c is the curvature of the loss
 * (model.h), and 3/4 + ln C bounds that of sum h ln h in the logits of C classes: its product v'Hv is the mean, by h,
 * of (1 + ln h - sum h ln h)(v - mean v)^2, of which the factor is at most 1 + ln C and h ln h at least -1/e. Without
 * pseudo labels the bound is reached in the limit. `mu` unless NULL: a modulus of strong convexity that holds for all
 * x, exact for least squares, else weight decay. */
fl_status fli_smoothness_bound(fl_ctx *ctx, const fli_model *m, const fli_view *v, uint64_t seed, double *l,
                               double *mu);

#endif
