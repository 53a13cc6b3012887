/* Methods that users register (fedloom_extend.h): copies of what they give, in a list beside that of list.c. */
#ifndef FLI_ALGO_USER_METHOD_H
#define FLI_ALGO_USER_METHOD_H

#include "algo/algo.h"
#include "base/memory.h"

/* Number i of those that come with fedloom and then of those that users registered; NULL past the last. *by_user: it
 * is one of the latter. */
const fl_method *fli_algo_at(size_t i, int *by_user);
const fl_method *fli_user_method_named(const char *name); /* a user's; NULL: there is none */
/* Refuses an incomplete method, else adds a copy to the list. The caller checks the name. */
fl_status fli_user_method_add(fl_ctx *ctx, const fl_method *m);
/* Takes a user's method out of the list; 0: there was none of that name. */
int fli_user_method_forget(const char *name);

/* ==== parameters ========================================================================================== */

/* Before the parameters of a registered method lies what its functions are handed beside them. */
size_t fli_method_head(const fl_method *a); /* bytes of that; 0 for methods that come with fedloom */
/* After parameters have been bound, or could not be: the values as the method's functions see them. */
void fli_method_bound(const fl_method *a, void *params);
/* A copy of bound parameters; NULL: FL_ENOMEM. */
void *fli_method_params_copy(fli_arena *arena, const fl_method *a, const void *params);
/* fl_turn.arg and fl_coordinator.arg */
void *fli_method_arg(const fl_method *a, const void *params);
/* What no single row of the table can refuse. */
fl_status fli_method_validate(fl_ctx *ctx, const fl_method *a, const void *params, size_t clients);
/* Around the life of a run, or of a client that is elsewhere. `end` may be called without `begin`. */
fl_status fli_method_begin(fl_ctx *ctx, const fl_method *a, void *params);
void fli_method_end(const fl_method *a, void *params);

/* Registered methods with server vectors or scalars that clients are never sent see NaN there: `turn` is given `vec`
 * and `num`, with room for all of the server's, and the vector `nothing`, also for those from number `vectors` on. */
int fli_method_hides(const fl_method *a);
void fli_method_hide(const fl_method *a, size_t vectors, const void **vec, double *num, void *nothing, fl_turn *turn);

#endif
