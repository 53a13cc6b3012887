/* What all bilevel problems share: the blocks and the l2 term of the lower level; and the problem with a single
 * level. */
#include "bilevel/bilevel.h"

/* ==== a single level ====================================================================================== */

/* For all methods but the bilevel ones. */

const fli_bilevel_desc fli_bilevel_none = {
    .name = "none",
    .title = "one level: an ordinary problem",
};

/* ==== two levels ========================================================================================== */

fl_status fli_blocks_check(fl_ctx *ctx, size_t n, fli_range upper, fli_range lower)
{
    if (!upper.n || !lower.n)
        return fli_fail(ctx, FL_ECONFIG, "a bilevel problem needs parameters in both levels, but the %s one has none",
                        upper.n ? "lower" : "upper");
    if (upper.at + upper.n > lower.at && lower.at + lower.n > upper.at)
        return fli_fail(ctx, FL_ECONFIG,
                        "the levels of a bilevel problem overlap: the upper one has parameters %zu to %zu, the lower "
                        "one %zu to %zu",
                        upper.at, upper.at + upper.n - 1, lower.at, lower.at + lower.n - 1);
    if (upper.at != 0 || lower.at != upper.n || lower.at + lower.n != n)
        return fli_fail(ctx, FL_ECONFIG,
                        "the levels of a bilevel problem miss parameters: the upper one has %zu from %zu on, the lower "
                        "one %zu from %zu on, of %zu in all",
                        upper.n, upper.at, lower.n, lower.at, n);
    return FL_OK;
}

fl_status fli_bilevel_give(fl_ctx *ctx, fli_model *m, const fli_bilevel_desc *desc, const void *params,
                           const fli_bilevel_common *common)
{
    fli_range upper, lower;
    fli_bilevel *b = fli_arena_alloc(&m->arena, 1, sizeof *b);
    if (!b) return FL_ENOMEM;
    fl_status s = desc->setup(ctx, m, params, &upper, &lower);
    if (!s) s = fli_blocks_check(ctx, m->space.n, upper, lower);
    if (s) return s;
    *b = (fli_bilevel){.desc = desc, .params = params, .common = *common, .upper = upper.n};
    m->bilevel = b;
    return FL_OK;
}

double fli_bilevel_upper(const fli_model *m, const void *z, const fli_batch *b, void *d, void *scratch)
{
    return m->bilevel->desc->upper(m, z, b, d, scratch);
}

double fli_bilevel_lower(const fli_model *m, const void *z, const fli_batch *b, void *d, void *scratch)
{
    const fli_bilevel *p = m->bilevel;
    const fli_ops *ops = m->space.ops;
    fl_space lower = fli_lower_space(&m->space, p->upper);
    const void *y = fli_cat(ops, z, p->upper);
    double l2 = p->common.l2, loss = p->desc->lower(m, z, b, d, scratch);
    if (l2 == 0) return loss;
    if (d) fli_axpy(&lower, l2, y, fli_at(ops, d, p->upper));
    return loss + l2 / 2 * fli_dot(&lower, y, y);
}

void fli_bilevel_product(const fli_model *m, const void *z, const fli_batch *b, const void *v, void *out, void *scratch)
{
    const fli_bilevel *p = m->bilevel;
    const fli_ops *ops = m->space.ops;
    fl_space lower = fli_lower_space(&m->space, p->upper);
    p->desc->product(m, z, b, v, out, scratch);
    if (p->common.l2 != 0) fli_axpy(&lower, p->common.l2, fli_cat(ops, v, p->upper), fli_at(ops, out, p->upper));
}
