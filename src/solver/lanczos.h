/* The largest |eigenvalue| of a symmetric matrix that is known by its products alone. Private to this folder and its
 * tests. */
#ifndef FLI_SOLVER_LANCZOS_H
#define FLI_SOLVER_LANCZOS_H

#include "base/ctx.h"
#include "base/rng.h"

/* out = M v */
typedef void fli_product(void *arg, const double *v, double *out);

/* Ends when the estimate, which grows towards the eigenvalue, has changed by less than `tolerance` (relative) over the
 * last few products. FL_EDIVERGED if the matrix has entries that are not finite. */
fl_status fli_lanczos(fl_ctx *ctx, size_t n, fli_product *product, void *arg, double tolerance, fli_rng *rng,
                      double *largest);

#endif
