/* Hyper-representation: the body of a network is the upper level, its last layer the lower one.
 *
 *     f = mean loss over validation samples,   g = mean loss over training samples + l2/2 ||last layer||^2
 *
 * Works with any model that has an exact Hessian-vector product and whose last layer is the tail of its parameter
 * vector. The product is only needed along the last layer. */
#include "bilevel/bilevel.h"

/* The lower level is the last layer: the last matrix and all parameters behind it. */
static fl_status setup(fl_ctx *ctx, fli_model *m, const void *params, fli_range *upper, fli_range *lower)
{
    size_t at = 0;
    (void)params;
    for (size_t i = 0; i < m->tensor_count; i++)
        if (m->tensors[i].cols) at = m->tensors[i].offset;
    if (!at || !m->desc->hvp)
        return fli_fail(ctx, FL_ECONFIG,
                        "bilevel.kind is hyper_representation, which needs a network with a layer below its last one "
                        "(mlp, say); model %s has no such body",
                        m->desc->name);
    *upper = (fli_range){0, at};
    *lower = (fli_range){at, m->space.n - at};
    return FL_OK;
}

static double loss(const fli_model *m, const void *z, const fli_batch *b, void *d, void *scratch)
{
    return m->desc->grad(m, z, b, d, NULL, scratch);
}

/* Because v is zero in the upper block, the Hessian times v is (g_xy v, g_yy v). */
static void product(const fli_model *m, const void *z, const fli_batch *b, const void *v, void *out, void *scratch)
{
    m->desc->hvp(m, z, b, v, out, scratch);
}

const fli_bilevel_desc fli_bilevel_representation = {
    .name = "hyper_representation",
    .title = "the body of a network above, its last layer below",
    .citation = "Franceschi et al., ICML 2018",
    .convex = 1, /* the networks here end in softmax regression */
    .setup = setup,
    .upper = loss,
    .lower = loss,
    .product = product,
};
