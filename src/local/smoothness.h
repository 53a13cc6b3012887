#ifndef FLI_LOCAL_SMOOTHNESS_H
#define FLI_LOCAL_SMOOTHNESS_H

#include "model/model.h"

/* The largest |eigenvalue| of the batch Hessian at x by power iteration (weight decay included), to a relative change
 * of `tolerance` or `iterations`, whichever comes first: for a quadratic or a GLM at its worst point, the smoothness
 * constant. Of a problem of two levels: of the lower objective by its own block. */
fl_status fli_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, uint64_t seed,
                         size_t iterations, double tolerance, double *l);

#endif
