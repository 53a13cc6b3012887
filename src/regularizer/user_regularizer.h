/* Regularisers that users register (fl_regularizer), in a list of the whole process. */
#ifndef FLI_REGULARIZER_USER_REGULARIZER_H
#define FLI_REGULARIZER_USER_REGULARIZER_H

#include "regularizer/regularizer.h"

/* Refuses what is not whole, else adds a copy to the list. The name is the caller's to check. */
fl_status fli_user_regularizer_add(fl_ctx *ctx, const fl_regularizer *g);
/* By name, and number k; NULL: there is none. */
const fl_regularizer *fli_user_regularizer(const char *name);
const fl_regularizer *fli_user_regularizer_at(size_t k);
int fli_user_regularizer_forget(const char *name); /* 0: there is none */
/* fli_item.bound of one of them */
void fli_user_regularizer_bound(const void *g, void *params);

#endif
