/* The Gram matrix of a client's samples as curvature: H = c A'A/n + l2 I, with c A'A/n at least the Hessian of a
 * generalised linear model (model.h) and l2 its weight decay. For this folder, its tests and benchmarks.
 *
 * H is k x k for k features. With fewer samples than features it is never formed: all is done with the n x n matrix
 * c AA'/n. */
#ifndef FLI_SOLVER_GRAM_H
#define FLI_SOLVER_GRAM_H

#include "base/rng.h"
#include "data/federation/federation.h"
#include "model/model.h"
#include "solver/worker.h"

typedef struct fli_gram fli_gram;

/* Whether it is small enough: neither the matrix nor, with fewer samples than features, the samples are larger than
 * limit x limit. */
int fli_gram_fits(size_t samples, size_t features, size_t limit);
fl_status fli_gram_new(fl_ctx *ctx, const fli_model *m, const fli_view *v, fli_gram **out);
void fli_gram_free(fli_gram *g);
size_t fli_gram_bytes(const fli_gram *g); /* held now */

/* ||H||, the largest eigenvalue, to 1e-9 or better. */
fl_status fli_gram_norm(fl_ctx *ctx, fli_gram *g, fli_rng *rng, double *norm);

/* Whether something is left of H + rho I in every direction after rounding. */
int fli_gram_definite(fli_gram *g, double rho);

/* `steps` >= 1 times:  y = (H + rho I)^-1 e,  e <- e - rho y.  Leaves the last y; e, in and out, and y have k entries.
 *
 * That is e <- [H (H + rho I)^-1]^steps e. One step after the other by a Cholesky factor, which is kept for the next
 * call with the same rho; or all at once by the eigenvalues, which cost as much as many steps: they are computed, and
 * then kept, once a client has taken or is about to take more than `patience` steps in all. */
fl_status fli_gram_steps(fl_ctx *ctx, fli_gram *g, double rho, size_t steps, size_t patience, double *e, double *y);
/* Steps taken one by one; SIZE_MAX: the eigenvalues are there. Set on a new one, it goes on as the other would have. */
size_t fli_gram_taken(const fli_gram *g);
void fli_gram_set_taken(fli_gram *g, size_t taken);
/* About this many steps cost what the eigenvalues cost. */
size_t fli_gram_patience(size_t samples, size_t features);

/* ==== solvers, with their choices as arguments ============================================================ */

/* The exact solver, with factors up to the order `limit`. */
fl_status fli_exact_solve(fl_ctx *ctx, fli_worker *w, fli_task *t, size_t limit);

/* fli_solver_gram, with the patience of fli_gram_steps: 0 uses eigenvalues from the first step on, SIZE_MAX never. */
fl_status fli_linearised_gram(fl_ctx *ctx, fli_worker *w, fli_task *t, size_t patience);

#endif
