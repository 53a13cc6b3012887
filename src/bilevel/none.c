/* A single level: what every method but the bilevel ones is for. */
#include "bilevel/bilevel.h"

const fli_bilevel_desc fli_bilevel_none = {
    .name = "none",
    .title = "one level: an ordinary problem",
};
