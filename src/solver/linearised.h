/* The linearised solver with its choice laid open. Private to this folder, its tests and benchmarks. */
#ifndef FLI_SOLVER_LINEARISED_H
#define FLI_SOLVER_LINEARISED_H

#include "solver/worker.h"

/* fli_solver_gram, with the patience of fli_gram_steps: 0 uses eigenvalues from the first step on, SIZE_MAX never. */
fl_status fli_linearised_gram(fl_ctx *ctx, fli_worker *w, fli_task *t, size_t patience);

#endif
