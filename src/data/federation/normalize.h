/* Scaling of features, kept beside the samples and applied when a batch is gathered: samples stay as stored. */
#ifndef FLI_DATA_FEDERATION_NORMALIZE_H
#define FLI_DATA_FEDERATION_NORMALIZE_H

#include "data/federation/fed.h"

/* Sets segments, scale and shift of train, from train's own samples, and the same on test (which may be NULL). `how`
 * is an fli_normalize. `first` and `second` are mean and std for FLI_NORM_GIVEN, scale and shift for FLI_NORM_AFFINE.
 * Both sets must be as loaded, without scale. */
fl_status fli_normalize_sets(fl_ctx *ctx, int how, const fli_reals *first, const fli_reals *second, fli_dataset *train,
                             fli_dataset *test);

#endif
