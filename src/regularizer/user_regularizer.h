/* Registered regularisers (fl_regularizer), in a list of the whole process. */
#ifndef FLI_REGULARIZER_USER_REGULARIZER_H
#define FLI_REGULARIZER_USER_REGULARIZER_H

#include "regularizer/regularizer.h"

/* Refuses an incomplete regulariser; otherwise adds a copy to the list. The caller checks the name. */
fl_status fli_user_regularizer_add(fl_ctx *ctx, const fl_regularizer *g);
/* The regulariser of that name, and number k; NULL if there is none. */
const fl_regularizer *fli_user_regularizer(const char *name);
const fl_regularizer *fli_user_regularizer_at(size_t k);
int fli_user_regularizer_forget(const char *name); /* 0: there is none */
/* fli_item.bound of a registered regulariser. */
void fli_user_regularizer_bound(const void *g, void *params);

#endif
