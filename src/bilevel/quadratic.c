/* The quadratic bilevel problem, for golden cases and tests: y*, v* and Phi have closed forms.
 *
 *     g = y'Ay/2 - y'(Bx + c),   f = ||y - t||^2/2 + rho/2 ||x - s||^2 + x'Ey
 *
 * with p upper and q lower parameters. A sample is one such problem: its features are A (q x q, symmetric), B (q x p),
 * c, t (q), s (p) and E (p x q), row-major, concatenated. A client's objective is the mean over its samples, so several
 * samples make the gradients stochastic. Up to constants, f and g are linear in the features, so the mean is a problem
 * of the same kind. */
#include "bilevel/bilevel.h"

typedef struct {
    int64_t upper, lower;
    double rho;
} params;

static const fl_key keys[] = {
    FLI_KEY_INT(params, upper, NULL, 1, 1000, "upper parameters"),
    FLI_KEY_INT(params, lower, NULL, 1, 1000, "lower parameters"),
    FLI_KEY_REAL(params, rho, "1", 0, FLI_NO_MAX, "of the upper objective"),
    FLI_KEY_END,
};

/* Pointers into the mean of the samples, and to x and y. */
typedef struct {
    size_t p, q;
    double rho;
    const fli_ops *ops;
    const void *a, *b, *c, *t, *s, *e;
    const void *x, *y;
    double t2, s2; /* means of ||t||^2 and ||s||^2 */
} parts;

static size_t mean_reals(const fli_model *m) { return fli_scratch_pad(m->features); }

static size_t scratch_for(const fli_model *m, size_t n)
{
    (void)n;
    return mean_reals(m) + fli_scratch_pad(m->features);
}

/* Averages the batch into scratch and returns the parts of the mean. */
static parts mean_of(const fli_model *m, const void *z, const fli_batch *b, void *scratch)
{
    const params *k = m->priv;
    const fli_ops *ops = m->space.ops;
    size_t p = (size_t)k->upper, q = (size_t)k->lower;
    parts r = {.p = p, .q = q, .rho = k->rho, .ops = ops, .x = z, .y = fli_cat(ops, z, p)};
    r.a = scratch;
    r.b = fli_cat(ops, r.a, q * q);
    r.c = fli_cat(ops, r.b, q * p);
    r.t = fli_cat(ops, r.c, q);
    r.s = fli_cat(ops, r.t, q);
    r.e = fli_cat(ops, r.s, p);
    ops->fill(m->features, 0, scratch);
    for (size_t i = 0; i < b->n; i++) {
        const void *row = fli_cat(ops, b->x, i * b->dim), *t = fli_cat(ops, row, q * q + q * p + q);
        const void *s = fli_cat(ops, t, q);
        ops->axpy(b->dim, 1.0 / (double)b->n, row, scratch);
        r.t2 += ops->dot(q, t, t) / (double)b->n;
        r.s2 += ops->dot(p, s, s) / (double)b->n;
    }
    return r;
}

static double upper(const fli_model *m, const void *z, const fli_batch *b, void *d, void *scratch)
{
    parts r = mean_of(m, z, b, scratch);
    const fli_ops *ops = r.ops;
    void *ey = fli_at(ops, scratch, mean_reals(m));
    /* Ey */
    ops->gemv(0, r.p, r.q, 1, r.e, r.q, r.y, 0, ey);
    double value = (ops->dot(r.q, r.y, r.y) + r.t2) / 2 - ops->dot(r.q, r.y, r.t) +
                   r.rho * ((ops->dot(r.p, r.x, r.x) + r.s2) / 2 - ops->dot(r.p, r.x, r.s)) + ops->dot(r.p, r.x, ey);
    if (!d) return value;
    void *dy = fli_at(ops, d, r.p);
    /* d_x = rho (x - s) + Ey */
    ops->lin(r.p, r.rho, r.x, -r.rho, r.s, d);
    ops->axpy(r.p, 1, ey, d);
    /* d_y = y - t + E'x */
    ops->lin(r.q, 1, r.y, -1, r.t, dy);
    ops->gemv(1, r.p, r.q, 1, r.e, r.q, r.x, 1, dy);
    return value;
}

static double lower(const fli_model *m, const void *z, const fli_batch *b, void *d, void *scratch)
{
    parts r = mean_of(m, z, b, scratch);
    const fli_ops *ops = r.ops;
    void *ay = fli_at(ops, scratch, mean_reals(m)), *bx = fli_at(ops, ay, r.q);
    ops->gemv(0, r.q, r.q, 1, r.a, r.q, r.y, 0, ay);
    /* Bx + c */
    ops->lin(r.q, 1, r.c, 0, r.c, bx);
    ops->gemv(0, r.q, r.p, 1, r.b, r.p, r.x, 1, bx);
    /* d_y = Ay - (Bx + c) */
    if (d) ops->lin(r.q, 1, ay, -1, bx, fli_at(ops, d, r.p));
    return ops->dot(r.q, r.y, ay) / 2 - ops->dot(r.q, r.y, bx);
}

static void product(const fli_model *m, const void *z, const fli_batch *b, const void *v, void *out, void *scratch)
{
    parts r = mean_of(m, z, b, scratch);
    const void *w = fli_cat(r.ops, v, r.p);
    /* (-B'v, Av) */
    r.ops->gemv(1, r.q, r.p, -1, r.b, r.p, w, 0, out);
    r.ops->gemv(0, r.q, r.q, 1, r.a, r.q, w, 0, fli_at(r.ops, out, r.p));
}

/* The model only provides the parameters; its loss is the upper objective. */
static double model_grad(const fli_model *m, const void *z, const fli_batch *b, void *g, size_t *correct, void *scratch)
{
    if (correct) *correct = 0;
    return upper(m, z, b, g, scratch);
}

static fl_status model_setup(fl_ctx *ctx, fli_model *m)
{
    const params *k = m->params;
    size_t p = (size_t)k->upper, q = (size_t)k->lower;
    if (m->features != q * q + 2 * q * p + 2 * q + p)
        return fli_fail(ctx, FL_ECONFIG,
                        "a quadratic bilevel problem with %zu upper and %zu lower parameters does not fit samples of "
                        "%zu numbers",
                        p, q, m->features);
    fl_tensor *t = fli_arena_alloc(&m->arena, 2, sizeof *t);
    if (!t) return FL_ENOMEM;
    t[0] = (fl_tensor){"x", 0, 1, {p}};
    t[1] = (fl_tensor){"y", p, 1, {q}};
    m->space.n = p + q;
    m->tensors = t;
    m->tensor_count = 2;
    m->priv = k;
    return FL_OK;
}

const fli_model_desc fli_model_quadratic_bilevel = {
    .name = "quadratic_bilevel",
    .title = "quadratic bilevel problem",
    .keys = keys,
    .params_size = sizeof(params),
    .setup = model_setup,
    .scratch = scratch_for,
    .grad = model_grad,
};

static fl_status setup(fl_ctx *ctx, fli_model *m, const void *unused, fli_range *up, fli_range *low)
{
    const params *k = m->params;
    (void)ctx;
    (void)unused;
    *up = (fli_range){0, (size_t)k->upper};
    *low = (fli_range){(size_t)k->upper, (size_t)k->lower};
    return FL_OK;
}

const fli_bilevel_desc fli_bilevel_quadratic = {
    .name = "quadratic",
    .title = "the quadratic of the golden cases",
    .setup = setup,
    .upper = upper,
    .lower = lower,
    .product = product,
};
