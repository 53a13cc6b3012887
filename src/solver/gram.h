/* The Gram matrix of a client's samples as curvature: H = c A'A/n + l2 I, with c A'A/n at least the Hessian of a
 * generalised linear model (model.h) and l2 its weight decay. For this folder, its tests and benchmarks.
 *
 * H is k x k for k features. With fewer samples than features it is never formed: all computations use the n x n matrix
 * c AA'/n. */
#ifndef FLI_SOLVER_GRAM_H
#define FLI_SOLVER_GRAM_H

#include "base/rng.h"
#include "data/federation/federation.h"
#include "model/model.h"
#include "solver/worker.h"

typedef struct fli_gram fli_gram;

/* Whether it is small enough: the matrix and, with fewer samples than features, the samples have at most limit x limit
 * entries. */
int fli_gram_fits(size_t samples, size_t features, size_t limit);
fl_status fli_gram_new(fl_ctx *ctx, const fli_model *m, const fli_view *v, fli_gram **out);
void fli_gram_free(fli_gram *g);
size_t fli_gram_bytes(const fli_gram *g); /* current size */

/* ||H||, the largest eigenvalue, to 1e-9 or better. */
fl_status fli_gram_norm(fl_ctx *ctx, fli_gram *g, fli_rng *rng, double *norm);

/* Whether H + rho I is positive in every direction after rounding. */
int fli_gram_definite(fli_gram *g, double rho);

/* `steps` >= 1 times:  y = (H + rho I)^-1 e,  e <- e - rho y.  Leaves the last y; e (in and out) and y have k entries.
 *
 * That is e <- [H (H + rho I)^-1]^steps e. It takes single steps with a Cholesky factor, which is kept for the next
 * call with the same rho; or all at once with the eigenvalues, which cost as much as many steps. They are computed and
 * kept as soon as a client has taken, or is about to take, more than `patience` steps in all. */
fl_status fli_gram_steps(fl_ctx *ctx, fli_gram *g, double rho, size_t steps, size_t patience, double *e, double *y);
/* The number of single steps taken; SIZE_MAX: the eigenvalues exist. Set on a new object, it continues like the old. */
size_t fli_gram_taken(const fli_gram *g);
void fli_gram_set_taken(fli_gram *g, size_t taken);
/* The number of single steps that cost about as much as the eigenvalues. */
size_t fli_gram_patience(size_t samples, size_t features);

/* ==== solvers with explicit limits ======================================================================== */

/* The exact solver, with stored factors up to the order `limit`. */
fl_status fli_exact_solve(fl_ctx *ctx, fli_worker *w, fli_task *t, size_t limit);

/* fli_solver_gram, with the patience of fli_gram_steps: 0 uses eigenvalues from the first step on, SIZE_MAX never. */
fl_status fli_linearised_gram(fl_ctx *ctx, fli_worker *w, fli_task *t, size_t patience);

#endif
