/* Convolutions as matrix products, one image at a time. With U the unfolded image (positions x kernel kernel channels)
 * and F the filter (outs x kernel kernel channels):   Z = U F',   dU = dZ F, folded back into dX,   dF = dZ' U. */
#include "model/conv.h"

#include "model/model.h"

typedef struct {
    fli_conv_shape s;
    const fli_ops *ops;
    size_t positions, taps; /* windows in an image, values in a window */
} plain;

static fl_status make(fl_ctx *ctx, const fli_conv_shape *s, const fli_ops *ops, void **out)
{
    plain *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    *c = (plain){.s = *s, .ops = ops};
    c->positions = s->in.out_height * s->in.out_width;
    c->taps = s->in.kernel * s->in.kernel * s->in.channels;
    *out = c;
    return FL_OK;
}

static size_t packed_reals(const void *c_)
{
    const plain *c = c_;
    return fli_scratch_pad(c->s.outs * c->taps);
}

static size_t work_reals(const void *c_)
{
    const plain *c = c_;
    return fli_scratch_pad(c->positions * c->taps);
}

static size_t image(const plain *c) { return c->s.in.channels * c->s.in.height * c->s.in.width; }

static void pack(const void *c_, fli_conv_way way, const void *w, void *packed, void *work)
{
    const plain *c = c_;
    (void)way;
    (void)work;
    c->ops->image->transpose(c->s.outs, c->s.in.channels, c->s.in.kernel * c->s.in.kernel, w, packed);
}

static void unpack(const void *c_, const void *packed, void *g, void *work)
{
    const plain *c = c_;
    (void)work;
    c->ops->image->transpose(c->s.outs, c->s.in.kernel * c->s.in.kernel, c->s.in.channels, packed, g);
}

static void forward(const void *c_, size_t n, const void *packed, const void *x, void *z, void *work)
{
    const plain *c = c_;
    size_t p = c->positions, t = c->taps, outs = c->s.outs;
    for (size_t i = 0; i < n; i++) {
        c->ops->image->unfold(&c->s.in, fli_cat(c->ops, x, i * image(c)), work);
        c->ops->gemm(0, 1, p, outs, t, 1, work, t, packed, t, 0, fli_at(c->ops, z, i * p * outs), outs);
    }
}

static void backward(const void *c_, size_t n, const void *packed, const void *dz, void *dx, void *work)
{
    const plain *c = c_;
    size_t p = c->positions, t = c->taps, outs = c->s.outs;
    for (size_t i = 0; i < n; i++) {
        c->ops->gemm(0, 0, p, t, outs, 1, fli_cat(c->ops, dz, i * p * outs), outs, packed, t, 0, work, t);
        c->ops->image->fold(&c->s.in, work, fli_at(c->ops, dx, i * image(c)));
    }
}

static void gradient(const void *c_, size_t n, const void *x, const void *dz, int more, void *packed, void *work)
{
    const plain *c = c_;
    size_t p = c->positions, t = c->taps, outs = c->s.outs;
    for (size_t i = 0; i < n; i++) {
        c->ops->image->unfold(&c->s.in, fli_cat(c->ops, x, i * image(c)), work);
        c->ops->gemm(1, 0, outs, t, p, 1, fli_cat(c->ops, dz, i * p * outs), outs, work, t, more || i ? 1 : 0, packed,
                     t);
    }
}

const fli_conv_kind fli_conv_plain = {
    .name = "plain",
    .make = make,
    .free = fli_free,
    .packed = packed_reals,
    .work = work_reals,
    .pack = pack,
    .forward = forward,
    .backward = backward,
    .gradient = gradient,
    .unpack = unpack,
};
