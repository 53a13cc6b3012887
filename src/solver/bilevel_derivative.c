/* Derivatives of a bilevel problem over all of a client's samples: what metrics are made of. The samples of either
 * level are those of the client's turns. */
#include "solver/bilevel_work.h"

#include "solver/pieces.h"

/* One piece of the samples; of an upper gradient, the mean of f. */
static double piece(const fli_model *m, const fli_derivative *d, const void *direction, fli_eval *e)
{
    if (d->work == FLI_WORK_UPPER_GRADIENT) return fli_bilevel_upper(m, d->z, &e->batch, e->part, e->scratch);
    if (d->work == FLI_WORK_LOWER_GRADIENT)
        fli_bilevel_lower(m, d->z, &e->batch, e->part, e->scratch);
    else
        fli_bilevel_product(m, d->z, &e->batch, direction, e->part, e->scratch);
    return 0;
}

fl_status fli_derivative_over(fl_ctx *ctx, fli_eval *e, const fli_view *view, const fli_derivative *d, void *out)
{
    const fli_model *m = e->model;
    const fli_ops *ops = m->space.ops;
    size_t n = view->n_train, p = m->bilevel->upper;
    double value = 0;
    fli_space upper = fli_upper_space(&m->space, p), lower = fli_lower_space(&m->space, p);
    uint32_t *order = fli_alloc(ctx, n, sizeof *order);
    void *direction = fli_alloc(ctx, m->space.n, ops->size); /* zero in the upper block */
    fl_status s = order && direction ? FL_OK : FL_ENOMEM;
    if (s) goto done;
    if (d->v) fli_copy(&lower, fli_cat(ops, d->v, p), fli_at(ops, direction, p));
    size_t held = fli_levels_split(m, view, d->seed, d->client, order);
    fli_pieces at = fli_pieces_of(e, view->ds, order + held, n - held);
    if (held && d->work == FLI_WORK_UPPER_GRADIENT) at = fli_pieces_of(e, view->ds, order, held);
    fli_zero(&m->space, out);
    while (fli_pieces_next(&at)) {
        value += fli_pieces_share(&at) * piece(m, d, direction, e);
        fli_pieces_add(&at, out);
    }
    if (d->work == FLI_WORK_LOWER_GRADIENT) fli_zero(&upper, out);
    if (d->value) *d->value = value;
done:
    fli_free(order);
    fli_free(direction);
    return s;
}
