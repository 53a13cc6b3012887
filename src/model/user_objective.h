/* Objectives of users (fl_objective) as models: one descriptor each, in a list of the whole process beside list.c. */
#ifndef FLI_MODEL_USER_OBJECTIVE_H
#define FLI_MODEL_USER_OBJECTIVE_H

#include "fedloom_extend.h"
#include "model/model.h"

enum { FLI_USER_METRICS = 8 }; /* that an objective may have */

/* Refuses what is not whole. Names are the caller's to check, but for those of tensors. */
fl_status fli_user_objective_check(fl_ctx *ctx, const fl_objective *o);
/* Adds a copy of one that was checked to the list. */
fl_status fli_user_objective_add(fl_ctx *ctx, const fl_objective *o);
/* Number k, in the order of first registration; NULL past the last. */
const fli_model_desc *fli_user_model_at(size_t k);
const fli_model_desc *fli_user_model_named(const char *name);
int fli_user_model_forget(const char *name); /* 0: there is none */

/* Whether the model is an objective that is asked for whole clients, whose only sample has the client's number. */
int fli_model_by_client(const fli_model *m);

#endif
