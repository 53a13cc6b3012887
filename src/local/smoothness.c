/* The largest |eigenvalue| of a batch Hessian, by power iteration on exact Hessian-vector products.
 *
 * With ||v|| = 1, ||Hv|| never exceeds the largest |eigenvalue| and never decreases from v to Hv/||Hv||, also when H is
 * indefinite; so the estimate approaches from below.
 *
 * Of a problem of two levels it is the Hessian of g by y: v and Hv are zero in the upper block. */
#include "local/smoothness.h"

#include "bilevel/bilevel.h"
#include "local/lanczos.h"

#include <math.h>

static void zero_upper(const fli_model *m, void *v)
{
    if (!m->bilevel) return;
    fli_space upper = fli_upper_space(&m->space, m->bilevel->upper);
    fli_zero(&upper, v);
}

/* v = a random unit vector */
static void probe(const fli_model *m, uint64_t seed, void *v)
{
    const fli_space *s = &m->space;
    double part[64];
    fli_rng r;
    fli_rng_init(&r, seed, FLI_RNG_PROBE, 0, 0);
    for (size_t i = 0; i < s->n; i += 64) {
        size_t k = s->n - i < 64 ? s->n - i : 64;
        for (size_t j = 0; j < k; j++) part[j] = fli_rng_normal(&r);
        s->ops->from_f64(k, part, fli_at(s->ops, v, i));
    }
    zero_upper(m, v);
    fli_scale(s, 1 / sqrt(fli_dot(s, v, v)), v);
}

static void product(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *hv, void *scratch)
{
    if (m->bilevel)
        fli_bilevel_product(m, x, b, v, hv, scratch);
    else
        fli_model_hvp(m, x, b, v, hv, scratch);
    zero_upper(m, hv);
}

fl_status fli_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, uint64_t seed,
                         size_t iterations, double tolerance, double *l)
{
    const fli_space *s = &m->space;
    fl_status status = FL_ENOMEM;
    double norm = 0, last;
    void *v = fli_alloc(ctx, s->n, s->ops->size), *hv = fli_alloc(ctx, s->n, s->ops->size);
    void *scratch = fli_alloc(ctx, fli_model_scratch(m, b->n), 1);
    if (!v || !hv || !scratch) goto done;
    probe(m, seed, v);
    for (size_t k = 0; k < iterations; k++) {
        last = norm;
        product(m, x, b, v, hv, scratch);
        norm = sqrt(fli_dot(s, hv, hv));
        if (!isfinite(norm)) {
            status =
                fli_fail(ctx, FL_EDIVERGED, "the Hessian of model %s has entries that are not finite (iteration %zu)",
                         m->desc->name, k + 1);
            goto done;
        }
        if (norm == 0 || (k && fabs(norm - last) <= tolerance * norm)) break;
        /* v = Hv / ||Hv|| */
        fli_lin(s, 1 / norm, hv, 0, hv, v);
    }
    *l = norm;
    status = FL_OK;
done:
    fli_free(scratch);
    fli_free(hv);
    fli_free(v);
    return status;
}

/* l - H on the block that the Hessian is of. */
typedef struct {
    const fli_model *m;
    const void *x;
    const fli_batch *b;
    double l;
    void *v, *hv, *scratch;
    size_t at, n; /* the block */
} shifted;

static void shifted_product(void *arg, const double *v, double *out)
{
    const shifted *p = arg;
    const fli_ops *ops = p->m->space.ops;
    ops->from_f64(p->n, v, fli_at(ops, p->v, p->at));
    product(p->m, p->x, p->b, p->v, p->hv, p->scratch);
    ops->to_f64(p->n, fli_cat(ops, p->hv, p->at), out);
    for (size_t i = 0; i < p->n; i++) out[i] = p->l * v[i] - out[i];
}

fl_status fli_convexity(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, uint64_t seed, double l,
                        double *mu)
{
    const fli_space *s = &m->space;
    size_t at = m->bilevel ? m->bilevel->upper : 0;
    shifted p = {.m = m, .x = x, .b = b, .l = l, .at = at, .n = s->n - at};
    fl_status status = FL_ENOMEM;
    double largest = 0;
    fli_rng rng;
    p.v = fli_alloc(ctx, s->n, s->ops->size);
    p.hv = fli_alloc(ctx, s->n, s->ops->size);
    p.scratch = fli_alloc(ctx, fli_model_scratch(m, b->n), 1);
    if (p.v && p.hv && p.scratch) {
        fli_zero(s, p.v);
        fli_rng_init(&rng, seed, FLI_RNG_PROBE, 1, 0);
        status = fli_lanczos(ctx, p.n, shifted_product, &p, 1e-6, &rng, &largest);
    }
    *mu = l - largest;
    fli_free(p.scratch);
    fli_free(p.hv);
    fli_free(p.v);
    return status;
}
