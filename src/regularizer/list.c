/* All regularisers. */
#include "regularizer/regularizer.h"

/* clang-format off */
const fli_regularizer *const fli_regularizer_list[] = {
    &fli_reg_none,
    &fli_reg_l1,
    &fli_reg_l2,
    &fli_reg_elastic,
    &fli_reg_group,
    &fli_reg_nonnegative,
    &fli_reg_box,
    &fli_reg_ball,
    &fli_reg_simplex,
    &fli_reg_mcp,
    &fli_reg_linf,
    NULL,
};
/* clang-format on */
