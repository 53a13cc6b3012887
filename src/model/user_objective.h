/* Users' objectives (fl_objective) as models: one descriptor each, in a process-wide list besides list.c. */
#ifndef FLI_MODEL_USER_OBJECTIVE_H
#define FLI_MODEL_USER_OBJECTIVE_H

#include "fedloom_extend.h"
#include "model/model.h"

enum { FLI_USER_METRICS = 8 }; /* metrics of an objective, at most */

/* FL_ECONFIG for an incomplete objective. The caller checks names, except those of tensors. */
fl_status fli_user_objective_check(fl_ctx *ctx, const fl_objective *o);
/* Adds a copy of a checked objective to the list. */
fl_status fli_user_objective_add(fl_ctx *ctx, const fl_objective *o);
/* Descriptor number k, in the order of first registration; NULL past the last. */
const fli_model_desc *fli_user_model_at(size_t k);
const fli_model_desc *fli_user_model_named(const char *name);
int fli_user_model_forget(const char *name); /* returns 0 if there is none */

/* True for an objective that computes whole clients: a client's only sample has the client's number. */
int fli_model_by_client(const fli_model *m);

#endif
