/* Curvature by products with a matrix that is never formed.
 *
 * Lanczos' recurrence starts from a random vector, without reorthogonalisation. The loss of orthogonality produces
 * copies of eigenvalues that were found already, which does not disturb the extreme ones. It needs three vectors for
 * any number of steps (Paige, 1971). If the largest eigenvalues are close together, as those of Gram matrices of noise
 * are, power iteration would need the square of that number of steps. */
#include "solver/curvature.h"

#include "bilevel/bilevel.h"
#include "model/semi.h"

#include <cblas.h>
#include <float.h>
#include <math.h>

/* ==== Lanczos' recurrence ================================================================================= */

enum {
    LANCZOS_STEPS = 240, /* products */
    EVERY = 8            /* the estimate is checked after this many of them */
};

typedef struct {
    size_t size;
    double a[LANCZOS_STEPS], b[LANCZOS_STEPS]; /* diagonal; b[i] couples i and i+1 */
} tridiagonal;

/* Whether x exceeds all eigenvalues of sign * T: the pivots of sign T - x are then all negative. */
static int above(const tridiagonal *t, double sign, double x)
{
    double pivot = sign * t->a[0] - x;
    for (size_t i = 1; i < t->size && pivot < 0; i++) pivot = sign * t->a[i] - x - t->b[i - 1] * t->b[i - 1] / pivot;
    return pivot < 0;
}

/* The largest eigenvalue of sign * T by bisection between `least` or the largest diagonal entry, and Gershgorin's
 * bound. If it is below `least`, returns any value below that. */
static double largest_of(const tridiagonal *t, double sign, double least)
{
    double lo = least, hi = -INFINITY;
    for (size_t i = 0; i < t->size; i++) {
        double around = (i ? fabs(t->b[i - 1]) : 0) + (i + 1 < t->size ? fabs(t->b[i]) : 0);
        lo = fmax(lo, sign * t->a[i]);
        hi = fmax(hi, sign * t->a[i] + around);
    }
    for (size_t k = 0; k < 60 && hi - lo > 8 * DBL_EPSILON * fabs(hi); k++) {
        double middle = lo + (hi - lo) / 2;
        if (above(t, sign, middle))
            hi = middle;
        else
            lo = middle;
    }
    return hi;
}

/* w = M v - beta v_before, t gets its next row; returns ||w|| after removing the part along v. */
static double lanczos_step(tridiagonal *t, size_t n, const double *v, const double *before, double *w)
{
    int k = (int)n;
    if (t->size) cblas_daxpy(k, -t->b[t->size - 1], before, 1, w, 1);
    t->a[t->size] = cblas_ddot(k, w, 1, v, 1);
    cblas_daxpy(k, -t->a[t->size], v, 1, w, 1);
    t->b[t->size] = cblas_dnrm2(k, w, 1);
    return t->b[t->size++];
}

/* The largest |eigenvalue| of T; NaN if an entry is not finite. `before`: the estimate so far. */
static double estimate(const tridiagonal *t, double before)
{
    for (size_t i = 0; i < t->size; i++)
        if (!isfinite(t->a[i]) || !isfinite(t->b[i])) return NAN;
    double up = fmax(before, largest_of(t, 1, before));
    return fmax(up, largest_of(t, -1, up));
}

static double lanczos(size_t n, fli_product *product, void *arg, double tolerance, double *v, double *before, double *w)
{
    tridiagonal t = {0};
    double found = 0, scale = 0;
    while (t.size < LANCZOS_STEPS) {
        product(arg, v, w);
        double left = lanczos_step(&t, n, v, before, w);
        scale = fmax(scale, fmax(fabs(t.a[t.size - 1]), left));
        int over = !(left > 1e-14 * scale); /* the Krylov space is exhausted */
        if (over || t.size % EVERY == 0 || t.size == LANCZOS_STEPS) {
            double last = found;
            found = estimate(&t, last);
            if (over || !(found - last > tolerance * found)) break;
        }
        double *oldest = before;
        before = v;
        v = w;
        w = oldest;
        cblas_dscal((int)n, 1 / left, v, 1);
    }
    return found;
}

fl_status fli_lanczos(fl_ctx *ctx, size_t n, fli_product *product, void *arg, double tolerance, fli_rng *rng,
                      double *largest)
{
    double *memory = fli_alloc(ctx, 3 * n, sizeof *memory);
    if (!memory) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) memory[i] = fli_rng_normal(rng);
    cblas_dscal((int)n, 1 / cblas_dnrm2((int)n, memory, 1), memory, 1);
    *largest = lanczos(n, product, arg, tolerance, memory, memory + n, memory + 2 * n);
    fli_free(memory);
    if (isfinite(*largest)) return FL_OK;
    return fli_fail(ctx, FL_EDIVERGED, "a client's Hessian has entries that are not finite");
}

/* ==== a client's objective ================================================================================ */

/* Extreme eigenvalues by Lanczos' recurrence on products with a Hessian that is never formed.
 *
 * Products at a point are exact if the model offers them; otherwise power iteration uses differences of gradients. For
 * a problem with two levels the Hessian is that of g by y, where v and Hv are zero in the upper block, or that of f;
 * products with f, and for objectives with pseudo labels, are such differences.
 *
 * With a linear predictor z = W a (a has a constant feature if the model has intercepts) and a loss whose Hessian in z
 * is at most c, the Hessian is at most c lambda_max(A'A/n) for every x. The bound is reached: by least squares
 * everywhere (c = 1), by logistic regression at zero (c = 1/4), by softmax regression in the limit in which two classes
 * share all samples (c = 1/2; the curvature of diag p - pp' at p = (1/2, 1/2, 0, ...), where p = 1/C has 1/C). */

enum { PIECE = 512 }; /* samples at a time, for bounds over all of them */

/* ---- at a point ------------------------------------------------------------------------------------------ */

/* The data of products with the Hessian: of the block that begins at `at`, with n entries. */
typedef struct hessian hessian;
struct hessian {
    const fli_model *m;
    const void *x;
    const fli_batch *b;
    size_t at, n;
    void (*product)(const hessian *h, const void *v, void *hv);
    double decay, shift; /* weight decay of a single level; unless shift is 0, eigenvalues are those of shift - H */
    size_t plain;        /* pseudo labels: rows that have labels, */
    const void *y;       /* and the others' labels */
    void *v, *hv, *point, *gradient, *scratch;
};

static void exact_product(const hessian *h, const void *v, void *hv)
{
    if (h->m->bilevel)
        fli_bilevel_product(h->m, h->x, h->b, v, hv, h->scratch);
    else
        h->m->desc->hvp(h->m, h->x, h->b, v, hv, h->scratch);
}

/* A gradient; products are differences of two. */
static void gradient_at(const hessian *h, const void *z, void *g)
{
    const fli_model *m = h->m;
    if (m->bilevel)
        fli_bilevel_upper(m, z, h->b, g, h->scratch);
    else
        m->latent->grad(m, z, h->b, h->plain, h->y, g, h->scratch);
}

/* (grad f(x + e v) - grad f(x - e v))/2e, for ||v|| = 1. In single precision e is just large enough that an entry of x,
 * which changes by about e/sqrt(n), keeps some digits of the change; so few ReLU change sides. */
static void difference(const hessian *h, const void *v, void *hv)
{
    const fl_space *s = &h->m->space;
    double e = s->ops->size == sizeof(double) ? 1e-5 : fmin(1e-2, fmax(1e-3, 1e-4 * sqrt((double)s->n)));
    fli_lin(s, 1, h->x, -e, v, h->point);
    gradient_at(h, h->point, h->gradient);
    fli_lin(s, 1, h->x, e, v, h->point);
    gradient_at(h, h->point, hv);
    fli_lin(s, 0.5 / e, hv, -0.5 / e, h->gradient, hv);
}

/* fli_product */
static void block_product(void *arg, const double *v, double *out)
{
    const hessian *h = arg;
    const fli_ops *ops = h->m->space.ops;
    ops->from_f64(h->n, v, fli_at(ops, h->v, h->at));
    h->product(h, h->v, h->hv);
    ops->to_f64(h->n, fli_cat(ops, h->hv, h->at), out);
    for (size_t i = 0; i < h->n; i++) out[i] += h->decay * v[i];
    for (size_t i = 0; i < h->n && h->shift > 0; i++) out[i] = h->shift * v[i] - out[i];
}

/* Power iteration, which suffers less than Lanczos' recurrence from differences across a kink: with ||v|| = 1, ||Hv||
 * never exceeds the largest |eigenvalue|, and never decreases from v to Hv/||Hv||. */
static fl_status by_powers(fl_ctx *ctx, const hessian *h, fli_rng *rng, double tolerance, double *l)
{
    enum { MOST = 300 };
    const fl_space *s = &h->m->space;
    double part[64], norm = 0, last;
    for (size_t i = 0; i < s->n; i += 64) {
        size_t k = s->n - i < 64 ? s->n - i : 64;
        for (size_t j = 0; j < k; j++) part[j] = fli_rng_normal(rng);
        s->ops->from_f64(k, part, fli_at(s->ops, h->v, i));
    }
    fli_scale(s, 1 / sqrt(fli_dot(s, h->v, h->v)), h->v);
    for (size_t k = 0; k < MOST; k++) {
        last = norm;
        h->product(h, h->v, h->hv);
        fli_axpy(s, h->decay, h->v, h->hv);
        norm = sqrt(fli_dot(s, h->hv, h->hv));
        if (!isfinite(norm)) return fli_fail(ctx, FL_EDIVERGED, "a client's Hessian has entries that are not finite");
        if (norm == 0 || (k && fabs(norm - last) <= tolerance * norm)) break;
        fli_lin(s, 1 / norm, h->hv, 0, h->hv, h->v);
    }
    *l = norm;
    return FL_OK;
}

/* Allocates memory for the products. The seed's stream 0 is for the largest eigenvalue, 1 for the smallest. */
static fl_status largest_eigenvalue(fl_ctx *ctx, hessian *h, uint64_t seed, uint32_t stream, double tolerance,
                                    double *l)
{
    const fl_space *s = &h->m->space;
    size_t stride = (fli_bytes(s) + 63) / 64 * 64;
    unsigned char *vectors = fli_alloc(ctx, 4, stride);
    fl_status status = FL_ENOMEM;
    fli_rng rng;
    fli_rng_init(&rng, seed, FLI_RNG_PROBE, stream, 0);
    h->scratch = fli_alloc(ctx, fli_model_scratch(h->m, h->b->n), 1);
    if (vectors && h->scratch) {
        h->v = vectors;
        h->hv = vectors + stride;
        h->point = vectors + 2 * stride;
        h->gradient = vectors + 3 * stride;
        fli_zero(s, h->v);
        status = h->product == difference ? by_powers(ctx, h, &rng, tolerance, l)
                                          : fli_lanczos(ctx, h->n, block_product, h, tolerance, &rng, l);
    }
    fli_free(h->scratch);
    fli_free(vectors);
    return status;
}

static hessian lower_hessian(const fli_model *m, const void *x, const fli_batch *b, size_t samples)
{
    size_t at = m->bilevel ? m->bilevel->upper : 0;
    return (hessian){.m = m,
                     .x = x,
                     .b = b,
                     .at = at,
                     .n = m->space.n - at,
                     .product = exact_product,
                     .decay = m->bilevel ? 0 : fli_model_decay(m, samples)};
}

fl_status fli_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, size_t samples,
                         uint64_t seed, double *l)
{
    hessian h = lower_hessian(m, x, b, samples);
    return largest_eigenvalue(ctx, &h, seed, 0, 1e-9, l);
}

fl_status fli_convexity(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, size_t samples,
                        uint64_t seed, double l, double *mu)
{
    hessian h = lower_hessian(m, x, b, samples);
    double top = 0;
    h.shift = l;
    fl_status s = l > 0 ? largest_eigenvalue(ctx, &h, seed, 1, 1e-6, &top) : FL_OK;
    *mu = l - top;
    return s;
}

fl_status fli_upper_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, uint64_t seed,
                               double *l)
{
    hessian h = {.m = m, .x = x, .b = b, .n = m->space.n, .product = difference};
    return largest_eigenvalue(ctx, &h, seed, 0, 1e-7, l);
}

fl_status fli_pseudo_smoothness(fl_ctx *ctx, const fli_model *m, const void *x, const fli_batch *b, size_t plain,
                                const void *y, size_t samples, uint64_t seed, double *l)
{
    hessian h = {.m = m, .x = x, .b = b, .n = m->space.n, .product = difference, .plain = plain, .y = y};
    h.decay = fli_model_decay(m, samples);
    return largest_eigenvalue(ctx, &h, seed, 0, 1e-7, l);
}

/* ---- for every x ----------------------------------------------------------------------------------------- */

/* The sum over both kinds of samples of weight A'A/n, with a constant feature if the model has intercepts. */
typedef struct {
    const fli_model *m;
    const fli_view *v;
    double weight, pseudo; /* of labelled and of unlabelled samples */
    size_t n;              /* features, the constant one included */
    fli_batch b;
    void *w, *z, *g; /* a vector of features, of samples, of features */
    double *sum;     /* the samples' in double */
} gram;

static void gram_piece(gram *p, const uint32_t *idx, size_t n, double weight, const double *v, double *out)
{
    const fli_ops *ops = p->m->space.ops;
    size_t k = p->m->features;
    double total = 0;
    fli_batch_gather(&p->b, p->v->ds, idx, n);
    fli_batch_mul(&p->b, 1, p->w, p->z);
    ops->to_f64(n, p->z, p->sum);
    for (size_t i = 0; i < n; i++) p->sum[i] += p->n > k ? v[k] : 0;
    for (size_t i = 0; i < n; i++) total += p->sum[i];
    ops->from_f64(n, p->sum, p->z);
    fli_batch_tmul(&p->b, 1, weight, p->z, p->g);
    ops->to_f64(k, p->g, p->sum);
    for (size_t i = 0; i < k; i++) out[i] += p->sum[i];
    if (p->n > k) out[k] += weight * total;
}

static void gram_part(gram *p, const uint32_t *idx, size_t n, double weight, const double *v, double *out)
{
    for (size_t at = 0; at < n && weight > 0; at += PIECE)
        gram_piece(p, idx + at, n - at < PIECE ? n - at : PIECE, weight / (double)n, v, out);
}

/* fli_product */
static void gram_product(void *arg, const double *v, double *out)
{
    gram *p = arg;
    p->m->space.ops->from_f64(p->m->features, v, p->w);
    for (size_t i = 0; i < p->n; i++) out[i] = 0;
    gram_part(p, p->v->train, p->v->n_train, p->weight, v, out);
    gram_part(p, p->v->unlabelled, p->v->n_unlabelled, p->pseudo, v, out);
}

/* l - gram; its largest eigenvalue is l minus the smallest one of the Gram matrix. */
typedef struct {
    gram *p;
    double l;
} shifted;

static void shifted_product(void *arg, const double *v, double *out)
{
    const shifted *s = arg;
    gram_product(s->p, v, out);
    for (size_t i = 0; i < s->p->n; i++) out[i] = s->l * v[i] - out[i];
}

int fli_bounded(const fli_model *m) { return m->desc->curvature > 0 && !m->bilevel; }

static size_t linear_features(const fli_model *m) { return m->features + ((m->desc->traits & FLI_MODEL_SOFTMAX) != 0); }

/* The weight of the unlabelled samples, as in the header. */
static double pseudo_weight(const fli_model *m)
{
    if (!m->latent || m->latent->every) return 0;
    const fli_semi *s = m->latent_params;
    return m->desc->curvature * s->alpha_p + (0.75 + log((double)m->classes)) * s->alpha_r;
}

static fl_status gram_init(fl_ctx *ctx, const fli_model *m, const fli_view *v, gram *p)
{
    size_t size = m->space.ops->size, longest = m->features > PIECE ? m->features : PIECE;
    *p = (gram){.m = m, .v = v, .weight = m->desc->curvature, .pseudo = pseudo_weight(m), .n = linear_features(m)};
    fl_status s = fli_model_batch(ctx, m, PIECE, &p->b);
    if (s) return s;
    p->w = fli_alloc(ctx, m->features, size);
    p->z = fli_alloc(ctx, PIECE, size);
    p->g = fli_alloc(ctx, m->features, size);
    p->sum = fli_alloc(ctx, longest, sizeof *p->sum);
    return p->w && p->z && p->g && p->sum ? FL_OK : FL_ENOMEM;
}

static void gram_fini(gram *p)
{
    fli_batch_fini(&p->b);
    fli_free(p->w);
    fli_free(p->z);
    fli_free(p->g);
    fli_free(p->sum);
}

fl_status fli_smoothness_bound(fl_ctx *ctx, const fli_model *m, const fli_view *v, uint64_t seed, double *l, double *mu)
{
    gram p;
    double decay = fli_model_decay(m, v->n_train), top = 0;
    fli_rng rng;
    fl_status s = gram_init(ctx, m, v, &p);
    fli_rng_init(&rng, seed, FLI_RNG_PROBE, 0, 0);
    if (!s) s = fli_lanczos(ctx, p.n, gram_product, &p, 1e-9, &rng, &top);
    *l = top + decay;
    if (mu) *mu = decay;
    if (!s && mu && m->desc->traits & FLI_MODEL_QUADRATIC && top > 0) {
        double rest = 0;
        fli_rng_init(&rng, seed, FLI_RNG_PROBE, 1, 0);
        s = fli_lanczos(ctx, p.n, shifted_product, &(shifted){&p, top}, 1e-6, &rng, &rest);
        *mu += fmax(0, top - rest);
    }
    gram_fini(&p);
    return s;
}
