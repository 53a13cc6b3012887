/* Methods of the user's (fedloom_extend.h), as descriptors like those of list.h. */
#ifndef FLI_ALGO_OWN_H
#define FLI_ALGO_OWN_H

#include "algo/algo.h"

/* Number i of those that come with fedloom and then of those that users registered; NULL past the last. *own: it is one
 * of the latter. */
const fli_algo *fli_algo_at(size_t i, int *own);
const fli_algo *fli_own_method_named(const char *name); /* a user's; NULL: there is none */
/* Refuses what is not whole, else adds a copy to the list. The name is the caller's to check. */
fl_status fli_own_method_add(fl_ctx *ctx, const fl_method *m);
/* The solver that a method names so, one of fedloom's or a user's; NULL: there is none. */
const fli_solver *fli_own_solver_named(const char *name);
/* Takes a user's method out of the list; 0: there was none of that name. */
int fli_own_method_forget(const char *name);

#endif
