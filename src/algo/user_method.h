/* Registered methods (fedloom_extend.h): copies of the users' structs, in a list beside that of list.c. */
#ifndef FLI_ALGO_USER_METHOD_H
#define FLI_ALGO_USER_METHOD_H

#include "algo/algo.h"
#include "base/memory.h"

/* Number i of the built-in and then the registered methods; NULL past the last. *by_user: it is registered. */
const fl_method *fli_algo_at(size_t i, int *by_user);
const fl_method *fli_user_method_named(const char *name); /* the registered method, or NULL */
/* Refuses an incomplete method; otherwise adds a copy to the list. The caller checks the name. */
fl_status fli_user_method_add(fl_ctx *ctx, const fl_method *m);
/* Removes a registered method from the list; returns 0 if there is none of that name. */
int fli_user_method_forget(const char *name);

/* ==== parameters ========================================================================================== */

/* A header before the parameters of a registered method holds the other data that its functions get. */
size_t fli_method_head(const fl_method *a); /* its bytes; 0 for built-in methods */
/* Call it after binding parameters, also after a failure: sets the values as the method's functions see them. */
void fli_method_bound(const fl_method *a, void *params);
/* A copy of bound parameters; NULL: FL_ENOMEM. */
void *fli_method_params_copy(fli_arena *arena, const fl_method *a, const void *params);
/* fl_turn.arg and fl_coordinator.arg */
void *fli_method_arg(const fl_method *a, const void *params);
/* Refuses parameters that are invalid only together. */
fl_status fli_method_validate(fl_ctx *ctx, const fl_method *a, const void *params, size_t clients);
/* Begins and ends a run, or a client of a remote federation. `end` may be called without `begin`. */
fl_status fli_method_begin(fl_ctx *ctx, const fl_method *a, void *params);
void fli_method_end(const fl_method *a, void *params);

/* Registered methods see NaN in place of server vectors and scalars that clients are never sent. `turn` gets `vec` and
 * `num`, with room for all of the server's, and the vector `nothing`, also in place of those from number `vectors`
 * on. */
int fli_method_hides(const fl_method *a);
void fli_method_hide(const fl_method *a, size_t vectors, const void **vec, double *num, void *nothing, fl_turn *turn);

#endif
