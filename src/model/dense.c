/* Fully connected networks: forward, backward, and the exact Hessian-vector product.
 *
 * Layers l = 1 .. L, samples in rows: H_0 = X (n x features), Z_l = H_(l-1) W_l' + 1 b_l', H_l = max(0, Z_l) for l < L,
 * and f = mean cross-entropy of softmax(Z_L). With P = softmax(Z_L), Y the one-hot labels, D_L = (P - Y)/n:
 *
 *     df/dW_l = D_l' H_(l-1),   df/db_l = D_l' 1,   D_(l-1) = (D_l W_l) where H_(l-1) > 0, else 0
 *
 * The product with the Hessian is the derivative R{.} of all that along v = (V_l, c_l) (Pearlmutter: Fast exact
 * multiplication by the Hessian, Neural Computation 6, 1994); ReLU has no curvature, so its mask just carries over:
 *
 *     RZ_l = H_(l-1) V_l' + RH_(l-1) W_l' + 1 c_l',   RD_L = P (RZ_L - <P, RZ_L>)/n row by row,
 *     R{df/dW_l} = RD_l' H_(l-1) + D_l' RH_(l-1),   RD_(l-1) = (RD_l W_l + D_l V_l) masked alike
 *
 * Every step is a matrix product and one fused pass. Layers count from 0 in the code. */
#include "model/dense.h"
#include "base/number.h"

/* ---- layout -------------------------------------------------------------------------------------------- */

static fl_status name_tensors(fli_model *m, const fli_dense *d, int numbered, fl_tensor *t)
{
    for (size_t l = 0; l < d->depth; l++, t += 2) {
        const fli_dense_layer *a = &d->layer[l];
        t[0] = (fl_tensor){"weight", a->weight, 2, {a->out, a->in}};
        t[1] = (fl_tensor){"bias", a->bias, 1, {a->out}};
        if (!numbered && d->depth == 1) continue;
        if (!fli_tensor_named(m, &t[0], "layer%u.weight", (unsigned)l + 1) ||
            !fli_tensor_named(m, &t[1], "layer%u.bias", (unsigned)l + 1))
            return FL_ENOMEM;
    }
    return FL_OK;
}

fl_status fli_dense_setup(fl_ctx *ctx, fli_model *m, const int64_t *hidden, size_t hidden_count, int numbered)
{
    if (hidden_count > FLI_DENSE_HIDDEN_MAX)
        return fli_fail(ctx, FL_ECONFIG, "model %s is given %zu hidden layers, but can have at most %d", m->desc->name,
                        hidden_count, (int)FLI_DENSE_HIDDEN_MAX);
    fli_dense *d = fli_arena_alloc(&m->arena, 1, sizeof *d);
    fl_tensor *t = fli_arena_alloc(&m->arena, 2 * (hidden_count + 1), sizeof *t);
    if (!d || !t) return FL_ENOMEM;
    size_t at = 0, in = m->features;
    d->depth = hidden_count + 1;
    for (size_t l = 0; l < d->depth; l++) {
        size_t out = l < hidden_count ? (size_t)hidden[l] : m->classes;
        d->layer[l] = (fli_dense_layer){.in = in, .out = out, .weight = at, .bias = at + in * out};
        if (l && d->delta_max[l & 1] < in) d->delta_max[l & 1] = in;
        at += in * out + out;
        in = out;
    }
    m->space.n = at;
    m->priv = d;
    m->tensors = t;
    m->tensor_count = 2 * d->depth;
    return name_tensors(m, d, numbered, t);
}

/* ---- scratch ------------------------------------------------------------------------------------------- */

/* The intermediate values of one sweep, carved from scratch. */
typedef struct {
    void *h[FLI_DENSE_HIDDEN_MAX + 1]; /* h[l]: n x layer l's out; the last holds the logits, then their error */
    void *delta[2];                    /* error at the input of layer l is in delta[l & 1]: n x layer l's in */
} sweep;

static size_t sweep_reals(const fli_dense *d, size_t n)
{
    size_t reals = fli_scratch_pad(n * d->delta_max[0]) + fli_scratch_pad(n * d->delta_max[1]);
    for (size_t l = 0; l < d->depth; l++) reals += fli_scratch_pad(n * d->layer[l].out);
    return reals;
}

static void sweep_init(const fli_dense *d, const fli_ops *ops, size_t n, void *scratch, sweep *s)
{
    for (size_t l = 0; l < d->depth; l++) {
        s->h[l] = scratch;
        scratch = fli_at(ops, scratch, fli_scratch_pad(n * d->layer[l].out));
    }
    s->delta[0] = scratch;
    s->delta[1] = fli_at(ops, scratch, fli_scratch_pad(n * d->delta_max[0]));
}

/* The gradient needs one sweep, the Hessian-vector product a second one for the R-values. */
size_t fli_dense_scratch(const fli_model *m, size_t n) { return 2 * sweep_reals(m->priv, n); }

/* ---- matrix products in the shapes of one layer -------------------------------------------------------- */

/* Z = H W' + beta Z */
static void into_layer(const fli_ops *ops, const fli_dense_layer *a, size_t n, const void *h, const void *w,
                       double beta, void *z)
{
    ops->gemm(0, 1, n, a->out, a->in, 1, h, a->in, w, a->in, beta, z, a->out);
}

/* E = D W + beta E */
static void out_of_layer(const fli_ops *ops, const fli_dense_layer *a, size_t n, const void *d, const void *w,
                         double beta, void *e)
{
    ops->gemm(0, 0, n, a->in, a->out, 1, d, a->out, w, a->in, beta, e, a->in);
}

/* G = D' H; h NULL: H is the batch */
static void weight_grad(const fli_batch *b, const fli_dense_layer *a, const void *d, const void *h, void *g)
{
    if (h)
        b->ops->gemm(1, 0, a->out, a->in, b->n, 1, d, a->out, h, a->in, 0, g, a->in);
    else
        fli_batch_tmul(b, a->out, 1, d, g);
}

/* ---- gradient ------------------------------------------------------------------------------------------ */

/* The input of layer l; NULL for a sparse batch. */
static const void *input_of(const fli_batch *b, const sweep *s, size_t l) { return l ? s->h[l - 1] : b->x; }

static void forward(const fli_model *m, const void *x, const fli_batch *b, sweep *s)
{
    const fli_ops *ops = m->space.ops;
    const fli_dense *d = m->priv;
    for (size_t l = 0; l < d->depth; l++) {
        const fli_dense_layer *a = &d->layer[l];
        const void *bias = fli_cat(ops, x, a->bias), *w = fli_cat(ops, x, a->weight), *h = input_of(b, s, l);
        int relu = l + 1 < d->depth;
        if (h) {
            ops->layer(b->n, a->in, a->out, h, w, relu, s->h[l]);
            continue;
        }
        fli_batch_mul(b, a->out, w, s->h[l]);
        if (relu)
            ops->add_bias_relu(b->n, a->out, bias, s->h[l]);
        else
            ops->add_bias(b->n, a->out, bias, s->h[l]);
    }
}

/* The error at the input of layer l > 0, from the error at its output. */
static const void *error_below(const fli_model *m, const void *x, size_t n, size_t l, const void *delta, const sweep *s)
{
    const fli_dense_layer *a = &((const fli_dense *)m->priv)->layer[l];
    m->space.ops->layer_back(n, a->in, a->out, delta, fli_cat(m->space.ops, x, a->weight), s->h[l - 1],
                             s->delta[l & 1]);
    return s->delta[l & 1];
}

static void layer_gradient(const fli_batch *b, const fli_dense_layer *a, const void *delta, const void *h, void *g)
{
    const fli_ops *ops = b->ops;
    if (h) {
        ops->layer_grad(b->n, a->in, a->out, delta, h, fli_at(ops, g, a->weight));
        return;
    }
    fli_batch_tmul(b, a->out, 1, delta, fli_at(ops, g, a->weight));
    ops->col_sum(b->n, a->out, delta, fli_at(ops, g, a->bias));
}

/* Starts from the error of the logits, in the last s->h. */
static void backward(const fli_model *m, const void *x, const fli_batch *b, const sweep *s, void *g)
{
    const fli_dense *d = m->priv;
    const void *delta = s->h[d->depth - 1];
    for (size_t l = d->depth; l-- > 0;) {
        layer_gradient(b, &d->layer[l], delta, input_of(b, s, l), g);
        if (l) delta = error_below(m, x, b->n, l, delta, s);
    }
}

void *fli_dense_logits(const fli_model *m, const void *x, const fli_batch *b, void *scratch)
{
    const fli_dense *d = m->priv;
    sweep s;
    sweep_init(d, m->space.ops, b->n, scratch, &s);
    forward(m, x, b, &s);
    return s.h[d->depth - 1];
}

void fli_dense_pullback(const fli_model *m, const void *x, const fli_batch *b, void *g, void *scratch)
{
    sweep s;
    sweep_init(m->priv, m->space.ops, b->n, scratch, &s);
    backward(m, x, b, &s, g);
}

double fli_dense_grad(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct, void *scratch)
{
    const fli_ops *ops = m->space.ops;
    double n = (double)b->n, loss;
    size_t hits;
    void *z = fli_dense_logits(m, x, b, scratch);
    if (g) {
        loss = ops->softmax_xent(b->n, m->classes, b->label, 1 / n, z, &hits);
        fli_dense_pullback(m, x, b, g, scratch);
    } else {
        loss = ops->softmax_loss(b->n, m->classes, b->label, z, &hits);
    }
    if (correct) *correct = hits;
    return loss / n;
}

/* ---- a step -------------------------------------------------------------------------------------------- */

/* The same step for the parameters from `at` on. */
static fli_sgd_step step_from(const fli_ops *ops, const fli_sgd_step *step, size_t at)
{
    fli_sgd_step s = *step;
    if (s.shift) s.shift = fli_cat(ops, s.shift, at);
    if (s.anchor) s.anchor = fli_cat(ops, s.anchor, at);
    if (s.buffer) s.buffer = fli_at(ops, s.buffer, at);
    return s;
}

/* From the top layer down: the error passes through weights before they change. Each gradient is applied at once. */
static void backward_step(const fli_model *m, const fli_batch *b, const sweep *s, const fli_sgd_step *step, void *g,
                          void *z)
{
    const fli_ops *ops = m->space.ops;
    const fli_dense *d = m->priv;
    const void *delta = s->h[d->depth - 1];
    for (size_t l = d->depth; l-- > 0;) {
        const fli_dense_layer *a = &d->layer[l];
        const void *h = input_of(b, s, l), *below = l ? error_below(m, z, b->n, l, delta, s) : NULL;
        void *room = fli_at(ops, g, a->weight), *w = fli_at(ops, z, a->weight);
        fli_sgd_step part = step_from(ops, step, a->weight);
        if (h) {
            ops->layer_step(b->n, a->in, a->out, delta, h, &part, room, w);
        } else {
            layer_gradient(b, a, delta, h, g);
            part.grad = room;
            ops->sgd(a->in * a->out + a->out, &part, w);
        }
        delta = below;
    }
}

void fli_dense_step(const fli_model *m, const fli_batch *b, const fli_sgd_step *step, void *g, void *z, void *scratch)
{
    sweep s;
    void *logits = fli_dense_logits(m, z, b, scratch);
    m->space.ops->softmax_error(b->n, m->classes, b->label, 1 / (double)b->n, logits);
    sweep_init(m->priv, m->space.ops, b->n, scratch, &s);
    backward_step(m, b, &s, step, g, z);
}

/* ---- Hessian-vector product ---------------------------------------------------------------------------- */

/* r = R{s} along v, up to the logits. */
static void forward_r(const fli_model *m, const void *x, const fli_batch *b, const void *v, const sweep *s, sweep *r)
{
    const fli_ops *ops = m->space.ops;
    const fli_dense *d = m->priv;
    for (size_t l = 0; l < d->depth; l++) {
        const fli_dense_layer *a = &d->layer[l];
        const void *dw = fli_cat(ops, v, a->weight);
        if (l) {
            into_layer(ops, a, b->n, s->h[l - 1], dw, 0, r->h[l]);
            into_layer(ops, a, b->n, r->h[l - 1], fli_cat(ops, x, a->weight), 1, r->h[l]);
        } else {
            fli_batch_mul(b, a->out, dw, r->h[l]);
        }
        ops->add_bias(b->n, a->out, fli_cat(ops, v, a->bias), r->h[l]);
        if (l + 1 < d->depth) ops->relu_mask(b->n * a->out, s->h[l], r->h[l]);
    }
}

void fli_dense_output_r(const fli_ops *ops, size_t n, size_t classes, const int32_t *label, void *z, void *rz)
{
    double p[64], rp[64];
    ops->softmax(n, classes, z);
    for (size_t i = 0; i < n; i++) {
        void *row = fli_at(ops, z, i * classes), *rrow = fli_at(ops, rz, i * classes);
        double mean = ops->dot(classes, row, rrow);
        for (size_t c = 0; c < classes; c += 64) {
            size_t k = classes - c < 64 ? classes - c : 64;
            ops->to_f64(k, fli_at(ops, row, c), p);
            ops->to_f64(k, fli_at(ops, rrow, c), rp);
            for (size_t j = 0; j < k; j++) {
                rp[j] = p[j] * (rp[j] - mean) / (double)n;
                p[j] = (p[j] - (c + j == (size_t)label[i])) / (double)n;
            }
            ops->from_f64(k, p, fli_at(ops, row, c));
            ops->from_f64(k, rp, fli_at(ops, rrow, c));
        }
    }
}

/* As backward, for both sweeps at once; writes the R-gradient alone. */
static void backward_r(const fli_model *m, const void *x, const fli_batch *b, const void *v, const sweep *s,
                       const sweep *r, void *out)
{
    const fli_ops *ops = m->space.ops;
    const fli_dense *d = m->priv;
    const void *delta = s->h[d->depth - 1], *rdelta = r->h[d->depth - 1];
    for (size_t l = d->depth; l-- > 0;) {
        const fli_dense_layer *a = &d->layer[l];
        const void *w = fli_cat(ops, x, a->weight);
        weight_grad(b, a, rdelta, l ? s->h[l - 1] : NULL, fli_at(ops, out, a->weight));
        ops->col_sum(b->n, a->out, rdelta, fli_at(ops, out, a->bias));
        if (!l) break;
        /* + D' RH */
        ops->gemm(1, 0, a->out, a->in, b->n, 1, delta, a->out, r->h[l - 1], a->in, 1, fli_at(ops, out, a->weight),
                  a->in);
        void *below = s->delta[l & 1], *rbelow = r->delta[l & 1];
        out_of_layer(ops, a, b->n, rdelta, w, 0, rbelow);
        out_of_layer(ops, a, b->n, delta, fli_cat(ops, v, a->weight), 1, rbelow);
        out_of_layer(ops, a, b->n, delta, w, 0, below);
        ops->relu_mask(b->n * a->in, s->h[l - 1], rbelow);
        ops->relu_mask(b->n * a->in, s->h[l - 1], below);
        delta = below;
        rdelta = rbelow;
    }
}

void fli_dense_hvp(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *scratch)
{
    const fli_ops *ops = m->space.ops;
    const fli_dense *d = m->priv;
    sweep s, r;
    sweep_init(d, ops, b->n, scratch, &s);
    sweep_init(d, ops, b->n, fli_at(ops, scratch, sweep_reals(d, b->n)), &r);
    forward(m, x, b, &s);
    forward_r(m, x, b, v, &s, &r);
    fli_dense_output_r(ops, b->n, m->classes, b->label, s.h[d->depth - 1], r.h[d->depth - 1]);
    backward_r(m, x, b, v, &s, &r, out);
}
