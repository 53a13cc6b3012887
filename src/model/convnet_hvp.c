/* Convolutional networks: the exact product with the Hessian.
 *
 * It is the derivative R{.} of the whole gradient along v = (V_l, c_l), as in dense.c. Filters are linear in input and
 * weights, pools in their input once the maxima are chosen, and neither they nor ReLU have curvature, so with the
 * notation of convnet.c
 *
 *     RZ = H_(l-1) * V_l + RH_(l-1) * W_l,   RH_l = (RZ where the maxima are + c_l) masked by H_l > 0
 *     R{df/db_l} = sum of RD_l,   R{df/dW_l} = correlation of H_(l-1) with RdZ and of RH_(l-1) with dZ
 *     RD_(l-1) = RdZ * adjoint of W_l + dZ * adjoint of V_l
 *
 * Up to the first stage where v is not zero all R-values are zero. They are left out there: along a direction within
 * the last layer, as bilevel problems ask for, the product costs one gradient and not four. */
#include "model/convnet.h"
#include "model/dense.h"

#include <string.h>

typedef struct {
    const fli_pass *p;
    const void *v;
    fli_sweep r;
    size_t live; /* first stage where v is not zero: RH_l is zero for the stages before it */
} r_pass;

static int is_zero(const void *x, size_t bytes)
{
    const char *c = x;
    return !bytes || (!c[0] && !memcmp(c, c + 1, bytes - 1));
}

static size_t first_live(const fli_pass *p, const void *v)
{
    size_t l = 0;
    for (; l < p->net->depth; l++) {
        const fli_stage *t = &p->net->stage[l];
        if (!is_zero(fli_cat(p->ops, v, t->weight), (t->weights + t->outs) * p->ops->size)) break;
    }
    return l;
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* ---- forward -------------------------------------------------------------------------------------------- */

/* Whether the input of stage l has R-values at all. */
static int live_below(const r_pass *r, size_t l) { return l > r->live; }

static void conv_forward(const r_pass *r, size_t l)
{
    const fli_pass *p = r->p;
    const fli_stage *t = &p->net->stage[l];
    const fli_conv_kind *kind = p->net->kind;
    const fli_ops *ops = p->ops;
    void *c = t->convolver;
    kind->pack(c, FLI_CONV_FORWARD, fli_cat(ops, r->v, t->weight), p->packed[0], p->work);
    kind->pack(c, FLI_CONV_FORWARD, fli_cat(ops, p->x, t->weight), p->packed[1], p->work);
    for (size_t at = 0, k; at < p->b->n; at += k) {
        k = least(p->b->n - at, FLI_CONV_PIECE);
        void *rh = fli_at(ops, r->r.h[l], at * t->out), *sum = t->pool.kernel ? p->piece[0] : rh;
        size_t z = t->outs * t->conv.in.out_height * t->conv.in.out_width;
        kind->forward(c, k, p->packed[0], fli_cat(ops, fli_stage_input(p, l), at * t->in), sum, p->work);
        if (live_below(r, l)) {
            kind->forward(c, k, p->packed[1], fli_cat(ops, r->r.h[l - 1], at * t->in), p->piece[1], p->work);
            ops->axpy(k * z, 1, p->piece[1], sum);
        }
        if (t->pool.kernel) ops->image->max_pick(&t->pool, k, sum, p->s.which[l] + at * t->out, rh);
        ops->add_bias(k * t->out / t->outs, t->outs, fli_cat(ops, r->v, t->bias), rh);
    }
}

static void fc_forward(const r_pass *r, size_t l)
{
    const fli_pass *p = r->p;
    const fli_stage *t = &p->net->stage[l];
    const fli_ops *ops = p->ops;
    size_t n = p->b->n;
    void *rh = r->r.h[l];
    ops->gemm(0, 1, n, t->outs, t->in, 1, fli_stage_input(p, l), t->in, fli_cat(ops, r->v, t->weight), t->in, 0, rh,
              t->outs);
    if (live_below(r, l))
        ops->gemm(0, 1, n, t->outs, t->in, 1, r->r.h[l - 1], t->in, fli_cat(ops, p->x, t->weight), t->in, 1, rh,
                  t->outs);
    ops->add_bias(n, t->outs, fli_cat(ops, r->v, t->bias), rh);
}

static void forward(const r_pass *r)
{
    const fli_pass *p = r->p;
    const fli_image_ops *image = p->ops->image;
    size_t n = p->b->n;
    for (size_t l = r->live; l < p->net->depth; l++) {
        const fli_stage *t = &p->net->stage[l];
        const void *in = l ? r->r.h[l - 1] : NULL;
        void *rh = r->r.h[l];
        switch (t->kind) {
        case FLI_STAGE_TURN: image->transpose(n, t->rows, t->cols, in, rh); break;
        case FLI_STAGE_CONV: conv_forward(r, l); break;
        case FLI_STAGE_MAX: image->max_pick(&t->pool, n, in, p->s.which[l], rh); break;
        case FLI_STAGE_MEAN: image->mean_pool(&t->pool, n, in, rh); break;
        case FLI_STAGE_FC: fc_forward(r, l); break;
        }
        if (t->relu) p->ops->relu_mask(n * t->out, p->s.h[l], rh);
    }
}

/* ---- backward ------------------------------------------------------------------------------------------- */

/* The errors and R-errors at a stage's output, and where those at its input go. below is NULL where no stage further
 * down has a use for it, rbelow at the first stage with parameters. */
typedef struct {
    void *d, *rd, *below, *rbelow;
} errors;

/* One piece of a convolution's backward pass: dz and rdz are the errors between filter and pool. */
static void conv_piece(const r_pass *r, size_t l, const errors *e, size_t at, size_t k, const void *dz, const void *rdz)
{
    const fli_pass *p = r->p;
    const fli_stage *t = &p->net->stage[l];
    const fli_conv_kind *kind = p->net->kind;
    const fli_ops *ops = p->ops;
    void *c = t->convolver;
    kind->gradient(c, k, fli_cat(ops, fli_stage_input(p, l), at * t->in), rdz, at > 0, p->packed[2], p->work);
    if (live_below(r, l)) kind->gradient(c, k, fli_cat(ops, r->r.h[l - 1], at * t->in), dz, 1, p->packed[2], p->work);
    if (!e->rbelow) return;
    void *rbelow = fli_at(ops, e->rbelow, at * t->in);
    kind->backward(c, k, p->packed[0], rdz, rbelow, p->work);
    if (l >= r->live) {
        kind->backward(c, k, p->packed[1], dz, p->image, p->work);
        ops->axpy(k * t->in, 1, p->image, rbelow);
    }
    if (e->below) kind->backward(c, k, p->packed[0], dz, fli_at(ops, e->below, at * t->in), p->work);
}

static void conv_backward(const r_pass *r, size_t l, const errors *e, void *out)
{
    const fli_pass *p = r->p;
    const fli_stage *t = &p->net->stage[l];
    const fli_conv_kind *kind = p->net->kind;
    const fli_ops *ops = p->ops;
    void *bias = fli_at(ops, out, t->bias);
    kind->pack(t->convolver, FLI_CONV_BACKWARD, fli_cat(ops, p->x, t->weight), p->packed[0], p->work);
    if (l >= r->live) kind->pack(t->convolver, FLI_CONV_BACKWARD, fli_cat(ops, r->v, t->weight), p->packed[1], p->work);
    for (size_t at = 0, k; at < p->b->n; at += k) {
        k = least(p->b->n - at, FLI_CONV_PIECE);
        const void *dz = e->d ? fli_cat(ops, e->d, at * t->out) : NULL, *rdz = fli_cat(ops, e->rd, at * t->out);
        ops->col_sum(k * t->out / t->outs, t->outs, rdz, at ? p->work : bias);
        if (at) ops->axpy(t->outs, 1, p->work, bias);
        if (t->pool.kernel) {
            const uint8_t *which = p->s.which[l] + at * t->out;
            ops->image->max_put(&t->pool, k, rdz, which, p->piece[1]);
            if (l >= r->live) ops->image->max_put(&t->pool, k, dz, which, p->piece[0]);
            dz = p->piece[0];
            rdz = p->piece[1];
        }
        conv_piece(r, l, e, at, k, dz, rdz);
    }
    kind->unpack(t->convolver, p->packed[2], fli_at(ops, out, t->weight), p->work);
}

static void fc_backward(const r_pass *r, size_t l, const errors *e, void *out)
{
    const fli_pass *p = r->p;
    const fli_stage *t = &p->net->stage[l];
    const fli_ops *ops = p->ops;
    size_t n = p->b->n, in = t->in, outs = t->outs;
    const void *w = fli_cat(ops, p->x, t->weight);
    void *gradient = fli_at(ops, out, t->weight);
    ops->gemm(1, 0, outs, in, n, 1, e->rd, outs, fli_stage_input(p, l), in, 0, gradient, in);
    if (live_below(r, l)) ops->gemm(1, 0, outs, in, n, 1, e->d, outs, r->r.h[l - 1], in, 1, gradient, in);
    ops->col_sum(n, outs, e->rd, fli_at(ops, out, t->bias));
    if (!e->rbelow) return;
    ops->gemm(0, 0, n, in, outs, 1, e->rd, outs, w, in, 0, e->rbelow, in);
    if (l >= r->live) ops->gemm(0, 0, n, in, outs, 1, e->d, outs, fli_cat(ops, r->v, t->weight), in, 1, e->rbelow, in);
    if (e->below) ops->gemm(0, 0, n, in, outs, 1, e->d, outs, w, in, 0, e->below, in);
}

/* A stage without parameters: the same linear map for both kinds of errors. */
static void plain_backward(const fli_pass *p, size_t l, const void *d, void *below)
{
    const fli_image_ops *image = p->ops->image;
    const fli_stage *t = &p->net->stage[l];
    if (!below) return;
    if (t->kind == FLI_STAGE_TURN) image->transpose(p->b->n, t->cols, t->rows, d, below);
    if (t->kind == FLI_STAGE_MAX) image->max_put(&t->pool, p->b->n, d, p->s.which[l], below);
    if (t->kind == FLI_STAGE_MEAN) image->mean_put(&t->pool, p->b->n, d, below);
}

static void backward(const r_pass *r, void *out)
{
    const fli_pass *p = r->p;
    size_t last = p->net->depth - 1;
    errors e = {.d = p->s.h[last], .rd = r->r.h[last]};
    for (size_t l = p->net->depth; l-- > p->net->first; e.d = e.below, e.rd = e.rbelow) {
        const fli_stage *t = &p->net->stage[l];
        e.rbelow = l > p->net->first ? r->r.error[l & 1] : NULL;
        e.below = e.rbelow && live_below(r, l) ? p->s.error[l & 1] : NULL;
        if (t->relu && e.d) p->ops->relu_mask(p->b->n * t->out, p->s.h[l], e.d);
        if (t->relu) p->ops->relu_mask(p->b->n * t->out, p->s.h[l], e.rd);
        if (t->kind == FLI_STAGE_CONV) {
            conv_backward(r, l, &e, out);
        } else if (t->kind == FLI_STAGE_FC) {
            fc_backward(r, l, &e, out);
        } else {
            plain_backward(p, l, e.d, e.below);
            plain_backward(p, l, e.rd, e.rbelow);
        }
    }
}

void fli_convnet_hvp(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *scratch)
{
    fli_pass p;
    fli_convnet_pass(m, x, b, scratch, &p);
    r_pass r = {.p = &p, .v = v, .live = first_live(&p, v)};
    size_t last = p.net->depth - 1;
    if (r.live > last) {
        fli_zero(&m->space, out);
        return;
    }
    fli_convnet_second(&p, &r.r);
    fli_convnet_forward(&p);
    forward(&r);
    fli_dense_output_r(p.ops, b->n, m->classes, b->label, p.s.h[last], r.r.h[last]);
    backward(&r, out);
}
