/* fl_client from samples at hand, for tests. */
#ifndef FLI_HALF_CLIENT_H
#define FLI_HALF_CLIENT_H

#include "data/dataset.h"

#include "fedloom_halves.h"

/* Takes the samples if it succeeds. `wide`: as of a federation that computes in f64. */
fl_status fli_client_with(fl_ctx *ctx, fli_dataset *samples, int wide, fl_client **out);

#endif
