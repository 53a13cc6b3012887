/* The largest |eigenvalue| of a batch Hessian, by power iteration on exact Hessian-vector products.
 *
 * With ||v|| = 1, ||Hv|| never exceeds the largest |eigenvalue| and never decreases from v to Hv/||Hv||, also when H
 * is indefinite; so the estimate approaches from below.
 *
 * Of a problem of two levels it is the Hessian of g by y, where v and Hv are zero in the upper block, or that of f,
 * whose products are differences of gradients. */
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

/* What products with the Hessian are made of. */
typedef struct hessian hessian;
struct hessian {
    const fli_model *m;
    const void *x;
    const fli_batch *b;
    void *scratch;
    void (*product)(const hessian *h, const void *v, void *hv);
    void *point, *gradient; /* spare vectors of products by differences */
    int lower;              /* of the lower block alone */
    double decay;           /* weight decay of a single level */
};

/* v = a random unit vector */
static void probe(const hessian *h, uint64_t seed, void *v)
{
    const fli_space *s = &h->m->space;
    double part[64];
    fli_rng r;
    fli_rng_init(&r, seed, FLI_RNG_PROBE, 0, 0);
    for (size_t i = 0; i < s->n; i += 64) {
        size_t k = s->n - i < 64 ? s->n - i : 64;
        for (size_t j = 0; j < k; j++) part[j] = fli_rng_normal(&r);
        s->ops->from_f64(k, part, fli_at(s->ops, v, i));
    }
    if (h->lower) zero_upper(h->m, v);
    fli_scale(s, 1 / sqrt(fli_dot(s, v, v)), v);
}

static void product(const hessian *h, const void *v, void *hv)
{
    if (h->m->bilevel)
        fli_bilevel_product(h->m, h->x, h->b, v, hv, h->scratch);
    else {
        h->m->desc->hvp(h->m, h->x, h->b, v, hv, h->scratch);
        if (h->decay > 0) fli_axpy(&h->m->space, h->decay, v, hv);
    }
    zero_upper(h->m, hv);
}

/* (grad f(x + e v) - grad f(x - e v))/2e, for ||v|| = 1. */
static void upper_product(const hessian *h, const void *v, void *hv)
{
    const fli_space *s = &h->m->space;
    double e = s->ops->size == sizeof(double) ? 1e-5 : 1e-2;
    fli_lin(s, 1, h->x, e, v, h->point);
    fli_bilevel_upper(h->m, h->point, h->b, hv, h->scratch);
    fli_lin(s, 1, h->x, -e, v, h->point);
    fli_bilevel_upper(h->m, h->point, h->b, h->gradient, h->scratch);
    fli_lin(s, 0.5 / e, hv, -0.5 / e, h->gradient, hv);
}

static fl_status iterate(fl_ctx *ctx, const hessian *h, uint64_t seed, size_t iterations, double tolerance, void *v,
                         void *hv, double *l)
{
    const fli_space *s = &h->m->space;
    double norm = 0, last;
    probe(h, seed, v);
    for (size_t k = 0; k < iterations; k++) {
        last = norm;
        h->product(h, v, hv);
        norm = sqrt(fli_dot(s, hv, hv));
        if (!isfinite(norm))
            return fli_fail(ctx, FL_EDIVERGED,
                            "the Hessian of model %s has entries that are not finite (iteration %zu)", h->m->desc->name,
                            k + 1);
        if (norm == 0 || (k && fabs(norm - last) <= tolerance * norm)) break;
        /* v = Hv / ||Hv|| */
        fli_lin(s, 1 / norm, hv, 0, hv, v);
    }
    *l = norm;
    return FL_OK;
}

/* With memory for the products. */
static fl_status largest(fl_ctx *ctx, hessian *h, uint64_t seed, size_t iterations, double tolerance, double *l)
{
    const fli_space *s = &h->m->space;
    size_t stride = (fli_bytes(s) + 63) / 64 * 64;
    unsigned char *vectors = fli_alloc(ctx, 4, stride);
    fl_status status = FL_ENOMEM;
    h->scratch = fli_alloc(ctx, fli_model_scratch(h->m, h->b->n), 1);
    if (vectors && h->scratch) {
        h->point = vectors + 2 * stride;
        h->gradient = vectors + 3 * stride;
        status = iterate(ctx, h, seed, iterations, tolerance, vectors, vectors + stride, l);
    }
    fli_free(h->scratch);
    fli_free(vectors);
    return status;
}

fl_status fli_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, size_t samples,
                         uint64_t seed, size_t iterations, double tolerance, double *l)
{
    hessian h = {.m = m, .x = x, .b = b, .product = product, .lower = 1, .decay = fli_model_decay(m, samples)};
    return largest(ctx, &h, seed, iterations, tolerance, l);
}

fl_status fli_upper_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, uint64_t seed,
                               size_t iterations, double tolerance, double *l)
{
    hessian h = {.m = m, .x = x, .b = b, .product = upper_product};
    return largest(ctx, &h, seed, iterations, tolerance, l);
}

/* l - H on the block that the Hessian is of. */
typedef struct {
    hessian h;
    double l;
    void *v, *hv;
    size_t at, n; /* the block */
} shifted;

static void shifted_product(void *arg, const double *v, double *out)
{
    const shifted *p = arg;
    const fli_ops *ops = p->h.m->space.ops;
    ops->from_f64(p->n, v, fli_at(ops, p->v, p->at));
    product(&p->h, p->v, p->hv);
    ops->to_f64(p->n, fli_cat(ops, p->hv, p->at), out);
    for (size_t i = 0; i < p->n; i++) out[i] = p->l * v[i] - out[i];
}

fl_status fli_convexity(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, size_t samples,
                        uint64_t seed, double l, double *mu)
{
    const fli_space *s = &m->space;
    size_t at = m->bilevel ? m->bilevel->upper : 0;
    shifted p = {.h = {.m = m, .x = x, .b = b, .decay = fli_model_decay(m, samples)}, .l = l, .at = at, .n = s->n - at};
    fl_status status = FL_ENOMEM;
    double largest = 0;
    fli_rng rng;
    p.v = fli_alloc(ctx, s->n, s->ops->size);
    p.hv = fli_alloc(ctx, s->n, s->ops->size);
    p.h.scratch = fli_alloc(ctx, fli_model_scratch(m, b->n), 1);
    if (p.v && p.hv && p.h.scratch) {
        fli_zero(s, p.v);
        fli_rng_init(&rng, seed, FLI_RNG_PROBE, 1, 0);
        status = fli_lanczos(ctx, p.n, shifted_product, &p, 1e-6, &rng, &largest);
    }
    *mu = l - largest;
    fli_free(p.h.scratch);
    fli_free(p.hv);
    fli_free(p.v);
    return status;
}
