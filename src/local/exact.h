/* The two ways of the exact solver. Private to this folder and its tests. */
#ifndef FLI_LOCAL_EXACT_H
#define FLI_LOCAL_EXACT_H

#include "local/local.h"

/* The exact solver, with factors up to the order `limit`. */
fl_status fli_exact_solve(fl_ctx *ctx, fli_worker *w, const fli_view *v, const fli_problem *p, size_t limit,
                          void **cache, fli_answer *out);

/* By conjugate gradients; lam is the sum of weight decay and rho. See cg.c. */
fl_status fli_cg_solve(fl_ctx *ctx, fli_worker *w, const fli_view *v, const fli_problem *p, double lam,
                       fli_answer *out);

#endif
