/* Semi-supervised losses between a classifier's logits and its pullback, for one model and for a personalised pair.
 * Rows of logits become rows of derivatives in place, in double precision: there are few classes, and logarithms of
 * probabilities need the digits.
 *
 * With p = softmax(z), for one row:
 *     d/dz of -sum nu log p        = p sum(nu) - nu
 *     d/dz of  sum p log(C p)      = p (log p - sum p log p)
 *     d/dz of  L(q), q = mix p + (1 - mix) h  = mix (p u - p sum p u),  u = dL/dq
 * In L(q) = -sum nu log q, p u = -nu p/q: the quotient is at most 1/mix, whereas 1/q is unbounded. A row of nu may be
 * all zeros: no pseudo label. Pseudo labels in closed form are nu ~ p^(alpha_p/alpha_r); for alpha_r -> 0 they are the
 * largest class alone. */
#include "model/semi.h"

#include "regularizer/regularizer.h"

#include <math.h>
#include <string.h>

enum { TINY_LOG = -700 }; /* e^-700 is still a normal double */

/* Rows of doubles for one sample. */
typedef struct {
    double *z, *p, *nu, *work;
} row;

static size_t row_reals(const fli_model *m) { return 4 * m->classes * sizeof(double) / m->space.ops->size; }

static row rows_at(const fli_model *m, void *extra)
{
    double *d = extra;
    return (row){d, d + m->classes, d + 2 * m->classes, d + 3 * m->classes};
}

/* z <- log softmax(z), p <- softmax(z) */
static void log_softmax(size_t classes, double *z, double *p)
{
    double top = z[0], sum = 0;
    for (size_t k = 1; k < classes; k++) top = fmax(top, z[k]);
    for (size_t k = 0; k < classes; k++) sum += exp(z[k] - top);
    double lse = top + log(sum);
    for (size_t k = 0; k < classes; k++) {
        z[k] -= lse;
        p[k] = exp(z[k]);
    }
}

/* ---- one model ----------------------------------------------------------------------------------------- */

/* r holds log h, h and nu. r->work = scale times the derivative of the unlabelled terms; returns their value without
 * KL(nu). */
static double unlabelled_row(const fli_semi *s, size_t classes, double scale, const row *r)
{
    double entropy = 0, cross = 0, mass = 0;
    for (size_t k = 0; k < classes; k++) {
        entropy += r->p[k] * r->z[k];
        if (r->nu[k] > 0) cross -= r->nu[k] * r->z[k];
        mass += r->nu[k];
    }
    for (size_t k = 0; k < classes; k++)
        r->work[k] = scale * (s->alpha_p * (r->p[k] * mass - r->nu[k]) + s->alpha_r * r->p[k] * (r->z[k] - entropy));
    return s->alpha_p * cross + s->alpha_r * (entropy + log((double)classes));
}

/* KL(nu, 1/C); 0 for a row without pseudo label. */
static double label_entropy(size_t classes, const double *nu)
{
    double sum = 0, mass = 0;
    for (size_t k = 0; k < classes; k++) {
        if (nu[k] > 0) sum += nu[k] * log(nu[k]);
        mass += nu[k];
    }
    return sum + mass * log((double)classes);
}

/* Turns the rows of logits at x into derivatives of f_i; returns f_i on the batch. */
static double model_rows(const fli_model *m, const fli_batch *b, size_t plain, const void *y, const row *r, void *z)
{
    const fli_ops *ops = m->space.ops;
    const fli_semi *s = m->latent_params;
    size_t classes = m->classes, rest = b->n - plain, hits;
    double loss = 0, unlabelled = 0;
    if (plain) loss = ops->softmax_xent(plain, classes, b->label, 1 / (double)plain, z, &hits) / (double)plain;
    for (size_t i = 0; i < rest; i++) {
        void *at = fli_at(ops, z, (plain + i) * classes);
        ops->to_f64(classes, at, r->z);
        ops->to_f64(classes, fli_cat(ops, y, i * classes), r->nu);
        log_softmax(classes, r->z, r->p);
        unlabelled += unlabelled_row(s, classes, 1 / (double)rest, r) + s->alpha_r * label_entropy(classes, r->nu);
        ops->from_f64(classes, r->work, at);
    }
    return loss + (rest ? unlabelled / (double)rest : 0);
}

static double semi_grad(const fli_model *m, const void *x, const fli_batch *b, size_t plain, const void *y, void *g,
                        void *scratch)
{
    row r = rows_at(m, fli_latent_extra(m, b->n, scratch));
    void *z = m->desc->logits(m, x, b, scratch);
    double loss = model_rows(m, b, plain, y, &r, z);
    if (g) m->desc->pullback(m, x, b, g, scratch);
    return loss;
}

/* ---- pseudo labels ------------------------------------------------------------------------------------- */

static size_t semi_size(const fli_model *m) { return m->classes; }
static size_t semi_scratch(const fli_model *m, size_t n)
{
    (void)n;
    return row_reals(m);
}

/* (7a): computes nu; r holds log h and h. */
static void closed_form(const fli_semi *s, size_t classes, const row *r)
{
    size_t best = 0;
    for (size_t k = 1; k < classes; k++)
        if (r->z[k] > r->z[best]) best = k;
    memset(r->nu, 0, classes * sizeof *r->nu);
    if (r->p[best] < s->confidence) return;
    double sharpness = s->alpha_p / s->alpha_r;
    if (!isfinite(sharpness)) {
        r->nu[best] = 1;
        return;
    }
    for (size_t k = 0; k < classes; k++) r->work[k] = sharpness * (r->z[k] - r->z[best]);
    log_softmax(classes, r->work, r->nu);
}

/* (10), with the projection that keeps nu on the simplex. The automatic step size is one over the curvature at the
 * centre, C alpha_r/|U|; without entropy terms the curvature is 0, and alpha_p replaces alpha_r. */
static double step_size(const fli_semi *s, size_t classes, double all)
{
    double curved = s->alpha_r > 0 ? s->alpha_r : s->alpha_p;
    return s->label_lr > 0 ? s->label_lr : curved > 0 ? all / ((double)classes * curved) : 0;
}

static void projected_steps(const fli_semi *s, size_t classes, double all, int64_t steps, const row *r)
{
    double c = 1 + log((double)classes), lr = step_size(s, classes, all);
    for (int64_t step = 0; step < steps; step++) {
        for (size_t k = 0; k < classes; k++)
            r->nu[k] -= lr / all * (s->alpha_r * (log(fmax(r->nu[k], 1e-12)) + c) - s->alpha_p * r->z[k]);
        fli_simplex_nearest(classes, r->nu, r->work);
    }
}

/* Improves one row nu from its logits in r->z. */
static void improve_row(const fli_model *m, size_t all, int64_t steps, const row *r, void *nu)
{
    const fli_ops *ops = m->space.ops;
    const fli_semi *s = m->latent_params;
    log_softmax(m->classes, r->z, r->p);
    if (s->labels == FLI_SEMI_PROJECTED) {
        ops->to_f64(m->classes, nu, r->nu);
        projected_steps(s, m->classes, (double)all, steps, r);
    } else {
        closed_form(s, m->classes, r);
    }
    ops->from_f64(m->classes, r->nu, nu);
}

void fli_semi_improve(const fli_model *m, size_t n, const double *logits, size_t all, int64_t steps, void *y,
                      double *work)
{
    row r = rows_at(m, work);
    for (size_t i = 0; i < n; i++) {
        memcpy(r.z, logits + i * m->classes, m->classes * sizeof *r.z);
        improve_row(m, all, steps, &r, fli_at(m->space.ops, y, i * m->classes));
    }
}

/* Improves the rows of the batch, whose samples are some of `all`. */
static void improve_rows(const fli_model *m, const void *x, const fli_batch *b, size_t all, int64_t steps, void *y,
                         void *scratch)
{
    const fli_ops *ops = m->space.ops;
    void *z = m->desc->logits(m, x, b, scratch);
    row r = rows_at(m, fli_latent_extra(m, b->n, scratch));
    for (size_t i = 0; i < b->n; i++) {
        ops->to_f64(m->classes, fli_cat(ops, z, i * m->classes), r.z);
        improve_row(m, all, steps, &r, fli_at(ops, y, i * m->classes));
    }
}

static void semi_improve(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *y, void *scratch)
{
    improve_rows(m, x, b, all, ((const fli_semi *)m->latent_params)->label_steps, y, scratch);
}

static void semi_step(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *y, void *scratch)
{
    improve_rows(m, x, b, all, 1, y, scratch);
}

static size_t semi_batch(const fli_model *m, size_t *steps)
{
    const fli_semi *s = m->latent_params;
    *steps = (size_t)s->label_steps;
    return (size_t)s->label_batch;
}

/* The curvature is that of the entropy term, alpha_r/(nu |U|), at the centre of the simplex. */
static fl_latent_steps semi_rule(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *scratch)
{
    const fli_semi *s = m->latent_params;
    int steps = s->labels == FLI_SEMI_PROJECTED;
    (void)x;
    (void)b;
    (void)scratch;
    int drawn = steps && s->label_batch && (size_t)s->label_batch < all;
    double in_step = drawn ? (double)s->label_batch : (double)all;
    return (fl_latent_steps){.steps = steps ? (size_t)s->label_steps : 0,
                             .lr = steps ? step_size(s, m->classes, in_step) : NAN,
                             .smoothness = (double)m->classes * s->alpha_r / (double)all,
                             .drawn = drawn};
}

static const fli_latent closed = {
    .size = semi_size, .scratch = semi_scratch, .improve = semi_improve, .grad = semi_grad, .rule = semi_rule};
static const fli_latent projected = {.kept = 1,
                                     .size = semi_size,
                                     .scratch = semi_scratch,
                                     .improve = semi_improve,
                                     .batch = semi_batch,
                                     .step = semi_step,
                                     .grad = semi_grad,
                                     .rule = semi_rule};

fl_status fli_model_use_semi(fl_ctx *ctx, fli_model *m, const fli_semi *s)
{
    if (s->labels == FLI_SEMI_NONE) return FL_OK;
    if (!m->desc->logits || m->latent)
        return fli_fail(ctx, FL_ECONFIG,
                        "semi.labels needs a classifier that gives class probabilities, such as softmax or mlp; model "
                        "%s does not",
                        m->desc->name);
    m->latent = s->labels == FLI_SEMI_PROJECTED ? &projected : &closed;
    m->latent_params = s;
    return FL_OK;
}

/* ---- the pair ------------------------------------------------------------------------------------------ */

size_t fli_pair_scratch(const fli_model *m, size_t n) { return fli_scratch_pad(n * m->classes) + row_reals(m); }

/* Returns the probabilities of logits z, in the scratch behind the model's own. z stays. */
static void *probabilities(const fli_model *m, size_t n, const void *z, void *scratch)
{
    void *h = fli_latent_extra(m, n, scratch);
    memcpy(h, z, n * m->classes * m->space.ops->size);
    m->space.ops->softmax(n, m->classes, h);
    return h;
}

static row pair_rows(const fli_model *m, size_t n, void *scratch)
{
    void *h = fli_latent_extra(m, n, scratch);
    return rows_at(m, fli_at(m->space.ops, h, fli_scratch_pad(n * m->classes)));
}

/* In: r->z = the own model's logits, nu = h(x). Out: z = log q of the mixture q, work = p/q, p = the own model's
 * probabilities. If both models give a class a probability that underflows, p/q is as for a larger p. */
static void mixture(double mix, size_t classes, const row *r)
{
    log_softmax(classes, r->z, r->p);
    for (size_t k = 0; k < classes; k++) {
        double q = mix * r->p[k] + (1 - mix) * r->nu[k];
        r->z[k] = fmax(log(q), TINY_LOG);
        r->work[k] = q > 0 ? r->p[k] / q : mix > 0 ? 1 / mix : 0;
    }
}

/* work: p u in, factor (p u - p sum p u) out. */
static void through_mixture(double factor, size_t classes, const row *r)
{
    double sum = 0;
    for (size_t k = 0; k < classes; k++) sum += r->work[k];
    for (size_t k = 0; k < classes; k++) r->work[k] = factor * (r->work[k] - r->p[k] * sum);
}

/* work: p/q in, p u out; also in unlabelled_slope. */
static void labelled_slope(size_t classes, size_t label, const row *r)
{
    double ratio = r->work[label];
    memset(r->work, 0, classes * sizeof *r->work);
    r->work[label] = -ratio;
}

static void unlabelled_slope(const fli_semi *s, size_t classes, const row *r)
{
    double c = 1 + log((double)classes);
    for (size_t k = 0; k < classes; k++)
        r->work[k] = s->alpha_r * r->p[k] * (r->z[k] + c) - s->alpha_p * r->nu[k] * r->work[k];
}

/* Turns the rows of the own model's logits into derivatives of F_i. */
static void mixed_rows(const fli_model *m, double mix, const fli_batch *b, size_t plain, const void *y, const void *h,
                       const row *r, void *z)
{
    const fli_ops *ops = m->space.ops;
    size_t classes = m->classes, rest = b->n - plain;
    for (size_t i = 0; i < b->n; i++) {
        void *at = fli_at(ops, z, i * classes);
        ops->to_f64(classes, at, r->z);
        ops->to_f64(classes, fli_cat(ops, h, i * classes), r->nu);
        mixture(mix, classes, r);
        if (i < plain) {
            labelled_slope(classes, (size_t)b->label[i], r);
        } else {
            ops->to_f64(classes, fli_cat(ops, y, (i - plain) * classes), r->nu);
            unlabelled_slope(m->latent_params, classes, r);
        }
        through_mixture(mix / (double)(i < plain ? plain : rest), classes, r);
        ops->from_f64(classes, r->work, at);
    }
}

void fli_pair_grad(const fli_model *m, const void *x, const void *own, double mix, const fli_batch *b, size_t plain,
                   const void *y, void *g, void *own_g, void *scratch)
{
    row r = pair_rows(m, b->n, scratch);
    void *z = m->desc->logits(m, x, b, scratch), *h = probabilities(m, b->n, z, scratch);
    if (g) {
        model_rows(m, b, plain, y, &r, z);
        m->desc->pullback(m, x, b, g, scratch);
    }
    z = m->desc->logits(m, own, b, scratch);
    mixed_rows(m, mix, b, plain, y, h, &r, z);
    m->desc->pullback(m, own, b, own_g, scratch);
}

static size_t likeliest_of(size_t classes, const double *log_q)
{
    size_t best = 0;
    for (size_t k = 1; k < classes; k++)
        if (log_q[k] > log_q[best]) best = k;
    return best;
}

/* The unlabelled terms of F_i on one row; r->z = log q. */
static double mixed_value(const fli_model *m, const void *nu, const row *r)
{
    const fli_semi *s = m->latent_params;
    for (size_t k = 0; k < m->classes; k++) r->p[k] = exp(r->z[k]);
    m->space.ops->to_f64(m->classes, nu, r->nu);
    return unlabelled_row(s, m->classes, 1, r) + s->alpha_r * label_entropy(m->classes, r->nu);
}

double fli_pair_loss(const fli_model *m, const void *x, const void *own, double mix, const fli_batch *b, size_t plain,
                     const void *y, size_t *correct, void *scratch)
{
    const fli_ops *ops = m->space.ops;
    size_t classes = m->classes, rest = b->n - plain, hits = 0;
    double loss = 0, unlabelled = 0;
    row r = pair_rows(m, b->n, scratch);
    void *z = m->desc->logits(m, x, b, scratch), *h = probabilities(m, b->n, z, scratch);
    z = m->desc->logits(m, own, b, scratch);
    for (size_t i = 0; i < b->n; i++) {
        ops->to_f64(classes, fli_cat(ops, z, i * classes), r.z);
        ops->to_f64(classes, fli_cat(ops, h, i * classes), r.nu);
        mixture(mix, classes, &r);
        if (i < plain) {
            loss -= r.z[b->label[i]];
            hits += likeliest_of(classes, r.z) == (size_t)b->label[i];
        } else {
            unlabelled += mixed_value(m, fli_cat(ops, y, (i - plain) * classes), &r);
        }
    }
    *correct = hits;
    return (plain ? loss / (double)plain : 0) + (rest ? unlabelled / (double)rest : 0);
}

size_t fli_likeliest(const fli_model *m, const void *z, double *probability)
{
    double best = -INFINITY, sum = 0, v;
    size_t at = 0;
    for (size_t k = 0; k < m->classes; k++) {
        m->space.ops->to_f64(1, fli_cat(m->space.ops, z, k), &v);
        if (v > best) {
            best = v;
            at = k;
        }
    }
    for (size_t k = 0; k < m->classes; k++) {
        m->space.ops->to_f64(1, fli_cat(m->space.ops, z, k), &v);
        sum += exp(v - best);
    }
    *probability = 1 / sum;
    return at;
}
