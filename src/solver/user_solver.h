/* Registered local solvers (fl_solver), in a list of the whole process. */
#ifndef FLI_SOLVER_USER_SOLVER_H
#define FLI_SOLVER_USER_SOLVER_H

#include "fedloom_extend.h"
#include "solver/solver.h"

/* Refuses an incomplete solver; otherwise adds a copy to the list. The caller checks the name. */
fl_status fli_user_solver_add(fl_ctx *ctx, const fl_solver *s);
/* The solver of that name, and number k; NULL if there is none. */
const fl_solver *fli_user_solver(const char *name);
const fl_solver *fli_user_solver_at(size_t k);
int fli_user_solver_forget(const char *name); /* 0: there is none */

#endif
