#include "model/linear.h"

fl_status fli_linear_setup(fl_ctx *ctx, fli_model *m)
{
    (void)ctx;
    fli_tensor *t = fli_arena_alloc(&m->arena, 1, sizeof *t);
    if (!t) return FL_ENOMEM;
    *t = (fli_tensor){.name = "weight", .rows = m->features};
    m->space.n = m->features;
    m->tensors = t;
    m->tensor_count = 1;
    return FL_OK;
}
