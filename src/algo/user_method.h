/* Methods that users register (fedloom_extend.h), as descriptors like those of list.c. */
#ifndef FLI_ALGO_USER_METHOD_H
#define FLI_ALGO_USER_METHOD_H

#include "algo/algo.h"

/* Number i of those that come with fedloom and then of those that users registered; NULL past the last. *by_user: it is
 * one of the latter. */
const fli_algo *fli_algo_at(size_t i, int *by_user);
const fli_algo *fli_user_method_named(const char *name); /* a user's; NULL: there is none */
/* Refuses an incomplete method, else adds a copy to the list. The caller checks the name. */
fl_status fli_user_method_add(fl_ctx *ctx, const fl_method *m);
/* The solver that a method names so, one of fedloom's or a user's; NULL: there is none. */
const fli_solver *fli_user_solver_named(const char *name);
/* Takes a user's method out of the list; 0: there was none of that name. */
int fli_user_method_forget(const char *name);

#endif
