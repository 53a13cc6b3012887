/* The two ways of the exact solver. Private to this folder and its tests. */
#ifndef FLI_SOLVER_EXACT_H
#define FLI_SOLVER_EXACT_H

#include "solver/worker.h"

/* The exact solver, with factors up to the order `limit`. */
fl_status fli_exact_solve(fl_ctx *ctx, fli_worker *w, fli_task *t, size_t limit);

/* By conjugate gradients; lam is the sum of weight decay and rho. See cg.c. */
fl_status fli_cg_solve(fl_ctx *ctx, const fli_worker *w, fli_task *t, double lam);

#endif
