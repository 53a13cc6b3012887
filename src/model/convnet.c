/* Convolutional networks: forward and backward.
 *
 * Stages l = 1 .. L, H_0 the batch; a stage with filters is Z = H_(l-1) * W_l (a convolution), P = max pool of Z, or Z
 * itself, H_l = max(0, P + b_l) with one bias per channel. Every step but ReLU and the choice of the maxima is linear
 * in its input and in its weights, so each has an adjoint, and the chain of the adjoints is the gradient: with D_l the
 * error at H_l, masked where H_l is 0,
 *
 *     df/db_l = sum of D_l over samples and pixels,   dZ = D_l put where the maxima were,
 *     df/dW_l = correlation of H_(l-1) with dZ,   D_(l-1) = dZ * adjoint of W_l
 *
 * Fully connected stages are as in dense.c. A convolution goes through the batch in pieces, from filter to ReLU: what
 * lies between filter and pool is large, is needed only once, and so never leaves the cache. */
#include "model/convnet.h"

/* ---- scratch -------------------------------------------------------------------------------------------- */

static size_t bytes_as_reals(const fli_ops *ops, size_t bytes)
{
    return fli_scratch_pad((bytes + ops->size - 1) / ops->size);
}

static int has_places(const fli_stage *t)
{
    return t->kind == FLI_STAGE_MAX || (t->kind == FLI_STAGE_CONV && t->pool.kernel);
}

static size_t sweep_reals(const fli_convnet *net, const fli_ops *ops, size_t n)
{
    size_t reals = 2 * fli_scratch_pad(n * net->error);
    for (size_t l = 0; l < net->depth; l++) {
        reals += fli_scratch_pad(n * net->stage[l].out);
        if (has_places(&net->stage[l])) reals += bytes_as_reals(ops, n * net->stage[l].out);
    }
    return reals;
}

static void *sweep_init(const fli_convnet *net, const fli_ops *ops, size_t n, void *at, fli_sweep *s)
{
    for (size_t l = 0; l < net->depth; l++) {
        s->h[l] = at;
        at = fli_at(ops, at, fli_scratch_pad(n * net->stage[l].out));
        if (!has_places(&net->stage[l])) continue;
        s->which[l] = at;
        at = fli_at(ops, at, bytes_as_reals(ops, n * net->stage[l].out));
    }
    s->error[0] = at;
    s->error[1] = fli_at(ops, at, fli_scratch_pad(n * net->error));
    return fli_at(ops, at, 2 * fli_scratch_pad(n * net->error));
}

static size_t least(size_t a, size_t b) { return a < b ? a : b; }

/* The gradient needs one sweep, the Hessian-vector product a second one for the R-values. */
size_t fli_convnet_scratch(const fli_model *m, size_t n)
{
    const fli_convnet *net = m->priv;
    size_t k = least(n, FLI_CONV_PIECE);
    return 2 * sweep_reals(net, m->space.ops, n) + 2 * fli_scratch_pad(k * net->piece) +
           fli_scratch_pad(k * net->image) + 3 * net->packed + net->work;
}

void fli_convnet_pass(const fli_model *m, const void *x, const fli_batch *b, void *scratch, fli_pass *p)
{
    const fli_ops *ops = m->space.ops;
    const fli_convnet *net = m->priv;
    size_t k = least(b->n, FLI_CONV_PIECE);
    *p = (fli_pass){.m = m, .net = net, .ops = ops, .x = x, .b = b};
    char *at = sweep_init(net, ops, b->n, scratch, &p->s);
    for (size_t i = 0; i < 3; i++, at = fli_at(ops, at, net->packed)) p->packed[i] = at;
    for (size_t i = 0; i < 2; i++, at = fli_at(ops, at, fli_scratch_pad(k * net->piece))) p->piece[i] = at;
    p->image = at;
    p->work = fli_at(ops, at, fli_scratch_pad(k * net->image));
}

void fli_convnet_second(const fli_pass *p, fli_sweep *r)
{
    sweep_init(p->net, p->ops, p->b->n, fli_at(p->ops, p->work, p->net->work), r);
}

/* ---- forward -------------------------------------------------------------------------------------------- */

static void conv_forward(const fli_pass *p, size_t l)
{
    const fli_stage *t = &p->net->stage[l];
    const fli_conv_kind *kind = p->net->kind;
    const fli_ops *ops = p->ops;
    kind->pack(t->convolver, FLI_CONV_FORWARD, fli_cat(ops, p->x, t->weight), p->packed[0], p->work);
    for (size_t at = 0, k; at < p->b->n; at += k) {
        k = least(p->b->n - at, FLI_CONV_PIECE);
        void *h = fli_at(ops, p->s.h[l], at * t->out), *z = t->pool.kernel ? p->piece[0] : h;
        kind->forward(t->convolver, k, p->packed[0], fli_cat(ops, fli_stage_input(p, l), at * t->in), z, p->work);
        if (t->pool.kernel) ops->image->max_pool(&t->pool, k, z, p->s.which[l] + at * t->out, h);
        ops->add_bias_relu(k * t->out / t->outs, t->outs, fli_cat(ops, p->x, t->bias), h);
    }
}

static void fc_forward(const fli_pass *p, size_t l)
{
    const fli_stage *t = &p->net->stage[l];
    const fli_ops *ops = p->ops;
    const void *bias = fli_cat(ops, p->x, t->bias);
    ops->gemm(0, 1, p->b->n, t->outs, t->in, 1, fli_stage_input(p, l), t->in, fli_cat(ops, p->x, t->weight), t->in, 0,
              p->s.h[l], t->outs);
    if (t->relu)
        ops->add_bias_relu(p->b->n, t->outs, bias, p->s.h[l]);
    else
        ops->add_bias(p->b->n, t->outs, bias, p->s.h[l]);
}

void fli_convnet_forward(const fli_pass *p)
{
    const fli_image_ops *image = p->ops->image;
    size_t n = p->b->n;
    for (size_t l = 0; l < p->net->depth; l++) {
        const fli_stage *t = &p->net->stage[l];
        const void *in = fli_stage_input(p, l);
        switch (t->kind) {
        case FLI_STAGE_TURN: image->transpose(n, t->rows, t->cols, in, p->s.h[l]); break;
        case FLI_STAGE_CONV: conv_forward(p, l); break;
        case FLI_STAGE_MAX: image->max_pool(&t->pool, n, in, p->s.which[l], p->s.h[l]); break;
        case FLI_STAGE_MEAN: image->mean_pool(&t->pool, n, in, p->s.h[l]); break;
        case FLI_STAGE_FC: fc_forward(p, l); break;
        }
    }
}

/* ---- backward ------------------------------------------------------------------------------------------- */

/* d: the error at the stage's output; below NULL: nobody asks for the one at its input. */
static void conv_backward(const fli_pass *p, size_t l, const void *d, void *below, void *g)
{
    const fli_stage *t = &p->net->stage[l];
    const fli_conv_kind *kind = p->net->kind;
    const fli_ops *ops = p->ops;
    void *bias = fli_at(ops, g, t->bias);
    if (below) kind->pack(t->convolver, FLI_CONV_BACKWARD, fli_cat(ops, p->x, t->weight), p->packed[0], p->work);
    for (size_t at = 0, k; at < p->b->n; at += k) {
        k = least(p->b->n - at, FLI_CONV_PIECE);
        const void *dz = fli_cat(ops, d, at * t->out);
        ops->col_sum(k * t->out / t->outs, t->outs, dz, at ? p->work : bias);
        if (at) ops->axpy(t->outs, 1, p->work, bias);
        if (t->pool.kernel) {
            ops->image->max_put(&t->pool, k, dz, p->s.which[l] + at * t->out, p->piece[0]);
            dz = p->piece[0];
        }
        kind->gradient(t->convolver, k, fli_cat(ops, fli_stage_input(p, l), at * t->in), dz, at > 0, p->packed[1],
                       p->work);
        if (below) kind->backward(t->convolver, k, p->packed[0], dz, fli_at(ops, below, at * t->in), p->work);
    }
    kind->unpack(t->convolver, p->packed[1], fli_at(ops, g, t->weight), p->work);
}

static void fc_backward(const fli_pass *p, size_t l, const void *d, void *below, void *g)
{
    const fli_stage *t = &p->net->stage[l];
    const fli_ops *ops = p->ops;
    ops->gemm(1, 0, t->outs, t->in, p->b->n, 1, d, t->outs, fli_stage_input(p, l), t->in, 0, fli_at(ops, g, t->weight),
              t->in);
    ops->col_sum(p->b->n, t->outs, d, fli_at(ops, g, t->bias));
    if (!below) return;
    ops->gemm(0, 0, p->b->n, t->in, t->outs, 1, d, t->outs, fli_cat(ops, p->x, t->weight), t->in, 0, below, t->in);
}

/* From the error of the logits in the last h. */
static void backward(const fli_pass *p, void *g)
{
    const fli_image_ops *image = p->ops->image;
    size_t n = p->b->n;
    void *d = p->s.h[p->net->depth - 1];
    for (size_t l = p->net->depth; l-- > p->net->first;) {
        const fli_stage *t = &p->net->stage[l];
        void *below = l > p->net->first ? p->s.error[l & 1] : NULL;
        if (t->relu) p->ops->relu_mask(n * t->out, p->s.h[l], d);
        switch (t->kind) {
        case FLI_STAGE_TURN: image->transpose(n, t->cols, t->rows, d, below); break;
        case FLI_STAGE_CONV: conv_backward(p, l, d, below, g); break;
        case FLI_STAGE_MAX: image->max_put(&t->pool, n, d, p->s.which[l], below); break;
        case FLI_STAGE_MEAN: image->mean_put(&t->pool, n, d, below); break;
        case FLI_STAGE_FC: fc_backward(p, l, d, below, g); break;
        }
        d = below;
    }
}

/* ---- slots ---------------------------------------------------------------------------------------------- */

void *fli_convnet_logits(const fli_model *m, const void *x, const fli_batch *b, void *scratch)
{
    fli_pass p;
    fli_convnet_pass(m, x, b, scratch, &p);
    fli_convnet_forward(&p);
    return p.s.h[p.net->depth - 1];
}

void fli_convnet_pullback(const fli_model *m, const void *x, const fli_batch *b, void *g, void *scratch)
{
    fli_pass p;
    fli_convnet_pass(m, x, b, scratch, &p);
    backward(&p, g);
}

double fli_convnet_grad(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct, void *scratch)
{
    const fli_ops *ops = m->space.ops;
    double n = (double)b->n, loss;
    size_t hits;
    void *z = fli_convnet_logits(m, x, b, scratch);
    if (g) {
        loss = ops->softmax_xent(b->n, m->classes, b->label, 1 / n, z, &hits);
        fli_convnet_pullback(m, x, b, g, scratch);
    } else {
        loss = ops->softmax_loss(b->n, m->classes, b->label, z, &hits);
    }
    if (correct) *correct = hits;
    return loss / n;
}
