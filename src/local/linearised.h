/* The linearised solver with its choice laid open. Private to this folder, its tests and benchmarks. */
#ifndef FLI_LOCAL_LINEARISED_H
#define FLI_LOCAL_LINEARISED_H

#include "local/local.h"

/* fli_solver_gram, with the patience of fli_gram_steps: 0 uses eigenvalues from the first step on, SIZE_MAX never. */
fl_status fli_linearised_gram(fl_ctx *ctx, fli_worker *w, const fli_view *v, const fli_problem *p, size_t patience,
                              fli_rng *rng, void **cache, fli_answer *out);

#endif
