/* All bilevel problems that a configuration can name. */
#include "bilevel/bilevel.h"

extern const fli_bilevel_desc fli_bilevel_none, fli_bilevel_representation, fli_bilevel_regularization;

const fli_bilevel_desc *const fli_bilevel_list[] = {
    &fli_bilevel_none,
    &fli_bilevel_representation,
    &fli_bilevel_regularization,
    NULL,
};
