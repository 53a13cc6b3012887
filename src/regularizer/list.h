/* The regularisers there are. To add one: its file, a line here, a line in list.c. */
#ifndef FLI_REGULARIZER_LIST_H
#define FLI_REGULARIZER_LIST_H

#include "regularizer/regularizer.h"

extern const fli_regularizer fli_reg_none;
extern const fli_regularizer fli_reg_l1;
extern const fli_regularizer fli_reg_l2;
extern const fli_regularizer fli_reg_elastic;
extern const fli_regularizer fli_reg_group;
extern const fli_regularizer fli_reg_nonnegative;
extern const fli_regularizer fli_reg_box;
extern const fli_regularizer fli_reg_ball;
extern const fli_regularizer fli_reg_simplex;
extern const fli_regularizer fli_reg_mcp;
extern const fli_regularizer fli_reg_linf;

#endif
