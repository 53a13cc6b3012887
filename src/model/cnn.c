/* Convolutional network: convolutions and pools over images, then fully connected layers; ReLU, mean cross-entropy.
 * Reads the layers, builds the stages, computes forward, backward and Hessian-vector products. conv.h has the
 * convolutions.
 *
 * Networks of papers, as layers:
 *     McMahan et al. 2017, MNIST        conv 32x5 same, pool 2, conv 64x5 same, pool 2, fc 512
 *     the same, CIFAR-10 (24 x 24)      conv 64x5 same, pool 2, conv 64x5 same, pool 2, fc 384, fc 192
 *     Acar et al. (FedDyn), CIFAR-10    conv 64x5, pool 2, conv 64x5, pool 2, fc 384, fc 192
 *     LeCun et al. (LeNet-5, 7 layers)  conv 6x5, pool 2, conv 16x5, pool 2, fc 120, fc 84 */
#include "model/cnn.h"

#include "base/number.h"
#include "model/dense.h"
#include "model/model.h"

#include <string.h>

/* ==== reading the layers ================================================================================== */

/* Every error names the layer. */

typedef struct {
    fl_ctx *ctx;
    const char *at, *end; /* the rest of the current layer's text */
    size_t number;        /* of the layer, from 1 */
    fli_layer *layer;
} reader;

static fl_status complain(reader *r, const char *what)
{
    return fli_fail(r->ctx, FL_ECONFIG, "model.layers, layer %zu, \"%.*s\": %s", r->number, r->layer->length,
                    r->layer->text, what);
}

static int blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }

static void skip_blanks(reader *r)
{
    while (r->at < r->end && blank(*r->at)) r->at++;
}

/* Consumes the next word and returns 1 if it is w. */
static int word(reader *r, const char *w)
{
    size_t n = strlen(w);
    skip_blanks(r);
    if ((size_t)(r->end - r->at) < n || memcmp(r->at, w, n)) return 0;
    if (r->at + n < r->end && !blank(r->at[n])) return 0;
    r->at += n;
    return 1;
}

/* Consumes a number of 1 to 6 digits. */
static int number(reader *r, size_t *out)
{
    const char *start;
    size_t v = 0;
    skip_blanks(r);
    for (start = r->at; r->at < r->end && *r->at >= '0' && *r->at <= '9' && r->at - start < 6; r->at++)
        v = 10 * v + (size_t)(*r->at - '0');
    *out = v;
    return r->at > start;
}

static fl_status in_range(reader *r, const char *what, size_t v, size_t low, size_t high)
{
    if (v >= low && v <= high) return FL_OK;
    return fli_fail(r->ctx, FL_ECONFIG, "model.layers, layer %zu, \"%.*s\": %s is %zu, but must be %zu to %zu",
                    r->number, r->layer->length, r->layer->text, what, v, low, high);
}

static fl_status read_options(reader *r)
{
    fli_layer *l = r->layer;
    fl_status s = FL_OK;
    while (!s && (skip_blanks(r), r->at < r->end)) {
        if (word(r, "stride")) {
            if (!number(r, &l->stride)) return complain(r, "stride needs a number, such as stride 2");
            s = in_range(r, "the stride", l->stride, 1, 64);
        } else if (word(r, "pad")) {
            if (!number(r, &l->pad)) return complain(r, "pad needs a number, such as pad 2");
            s = in_range(r, "the padding", l->pad, 0, l->kernel - 1);
        } else if (word(r, "same")) {
            if (l->kernel % 2 == 0) return complain(r, "same needs a window of odd size");
            l->pad = (l->kernel - 1) / 2;
        } else {
            return complain(r, "a convolution is conv CxK, then stride S, and pad P or same");
        }
    }
    return s;
}

static fl_status read_conv(reader *r)
{
    fli_layer *l = r->layer;
    l->kind = FLI_LAYER_CONV;
    l->stride = 1;
    if (!number(r, &l->size) || r->at == r->end || *r->at++ != 'x' || !number(r, &l->kernel))
        return complain(r, "a convolution is given as filters x window, such as conv 64x5");
    fl_status s = in_range(r, "the number of filters", l->size, 1, 65536);
    if (!s) s = in_range(r, "the window", l->kernel, 1, 64);
    return s ? s : read_options(r);
}

static fl_status read_sized(reader *r, fli_layer_kind kind, const char *what, size_t most)
{
    r->layer->kind = kind;
    if (!number(r, &r->layer->size)) return complain(r, "needs a number behind it, as in pool 2 or fc 100");
    skip_blanks(r);
    if (r->at < r->end) return complain(r, "takes one number and nothing else");
    return in_range(r, what, r->layer->size, 1, most);
}

static fl_status read_layer(reader *r)
{
    if (word(r, "conv")) return read_conv(r);
    if (word(r, "pool")) return read_sized(r, FLI_LAYER_MAX_POOL, "the window", 16);
    if (word(r, "avgpool")) return read_sized(r, FLI_LAYER_MEAN_POOL, "the window", 16);
    if (word(r, "fc")) return read_sized(r, FLI_LAYER_FC, "the number of units", 65536);
    return complain(r, "a layer is conv, pool, avgpool or fc");
}

fl_status fli_layers_read(fl_ctx *ctx, const char *line, fli_layer *out, size_t *count)
{
    *count = 0;
    for (const char *p = line;; p++) {
        if (*count == FLI_LAYERS_MAX)
            return fli_fail(ctx, FL_ECONFIG, "model.layers has more than %d layers", (int)FLI_LAYERS_MAX);
        const char *end = p + strcspn(p, ",");
        reader r = {.ctx = ctx, .at = p, .end = end, .number = *count + 1, .layer = &out[*count]};
        skip_blanks(&r);
        while (end > r.at && blank(end[-1])) end--;
        *r.layer = (fli_layer){.text = r.at, .length = (int)(end - r.at > 60 ? 60 : end - r.at)};
        r.end = end;
        if (r.at == end)
            return fli_fail(ctx, FL_ECONFIG, "model.layers: there is nothing where layer %zu should be", r.number);
        fl_status s = read_layer(&r);
        if (s) return s;
        ++*count;
        p += strcspn(p, ",");
        if (!*p) return FL_OK;
    }
}

/* ==== from layers to stages =============================================================================== */

/* State while stages are added: shape, next offset in the parameter vector. */
typedef struct {
    fl_ctx *ctx;
    fli_model *m;
    fli_convnet *net;
    size_t shape[3]; /* channels, height, width after the last stage; images only */
    int images;      /* not flattened yet */
    int last;        /* channels are last */
    size_t width;    /* reals per sample after the last stage */
    size_t at;       /* next offset in the parameter vector */
} builder;

static fli_stage *add(builder *b, fli_stage_kind kind, size_t out)
{
    fli_stage *t = &b->net->stage[b->net->depth++];
    *t = (fli_stage){.kind = kind, .in = b->width, .out = out};
    b->width = out;
    return t;
}

static void add_parameters(builder *b, fli_stage *t, size_t outs, size_t fan_in)
{
    t->outs = outs;
    t->weights = outs * fan_in;
    t->weight = b->at;
    t->bias = b->at + t->weights;
    b->at += t->weights + outs;
}

static void reorder(builder *b, int last)
{
    size_t pixels = b->shape[1] * b->shape[2];
    if (b->last == last) return;
    b->last = last;
    if (b->shape[0] == 1 || pixels == 1) return;
    fli_stage *t = add(b, FLI_STAGE_REORDER, b->width);
    t->rows = last ? b->shape[0] : pixels;
    t->cols = last ? pixels : b->shape[0];
}

static fl_status window_fits(builder *b, const fli_layer *l, size_t number, size_t kernel, size_t pad)
{
    if (!b->images)
        return fli_fail(b->ctx, FL_ECONFIG,
                        "model.layers, layer %zu, \"%.*s\": convolutions and pools must come before the first fc",
                        number, l->length, l->text);
    if (b->shape[1] + 2 * pad >= kernel && b->shape[2] + 2 * pad >= kernel) return FL_OK;
    return fli_fail(b->ctx, FL_ECONFIG,
                    "model.layers, layer %zu, \"%.*s\": a window of %zu x %zu does not fit into an image of %zu x %zu",
                    number, l->length, l->text, kernel, kernel, b->shape[1], b->shape[2]);
}

static void set_shape(builder *b, size_t channels, const fli_window *w)
{
    b->shape[0] = channels;
    b->shape[1] = w->out_height;
    b->shape[2] = w->out_width;
    b->width = channels * w->out_height * w->out_width;
}

static fl_status add_conv(builder *b, const fli_layer *l, size_t number)
{
    fli_convnet *net = b->net;
    fl_status s = window_fits(b, l, number, l->kernel, l->pad);
    if (s) return s;
    reorder(b, 1);
    fli_stage *t = add(b, FLI_STAGE_CONV, 0);
    t->relu = 1;
    t->conv.outs = l->size;
    fli_window_init(&t->conv.in, b->shape[0], b->shape[1], b->shape[2], l->kernel, l->stride, l->pad);
    add_parameters(b, t, l->size, b->shape[0] * l->kernel * l->kernel);
    set_shape(b, l->size, &t->conv.in);
    t->out = b->width;
    if (t->out > net->piece) net->piece = t->out;
    if ((s = net->kind->make(b->ctx, &t->conv, b->m->space.ops, &t->convolver))) return s;
    size_t packed = net->kind->packed(t->convolver), work = net->kind->work(t->convolver);
    if (packed > net->packed) net->packed = packed;
    if (work > net->work) net->work = work;
    if (fli_scratch_pad(t->outs) > net->work) net->work = fli_scratch_pad(t->outs); /* for sums of biases */
    if (t->in > net->image) net->image = t->in;
    return FL_OK;
}

/* A max pool directly behind a convolution becomes part of its stage. */
static fl_status add_pool(builder *b, const fli_layer *l, size_t number)
{
    fli_window w;
    fl_status s = window_fits(b, l, number, l->size, 0);
    if (s) return s;
    reorder(b, 1);
    fli_window_init(&w, b->shape[0], b->shape[1], b->shape[2], l->size, l->size, 0);
    size_t out = w.channels * w.out_height * w.out_width;
    fli_stage *t = b->net->depth ? &b->net->stage[b->net->depth - 1] : NULL;
    if (l->kind == FLI_LAYER_MAX_POOL && t && t->kind == FLI_STAGE_CONV && !t->pool.kernel)
        t->out = out;
    else
        t = add(b, l->kind == FLI_LAYER_MAX_POOL ? FLI_STAGE_MAX : FLI_STAGE_MEAN, out);
    t->pool = w;
    set_shape(b, w.channels, &w);
    return FL_OK;
}

static void add_fc(builder *b, size_t units, int relu)
{
    if (b->images) reorder(b, 0);
    b->images = 0;
    size_t fan_in = b->width;
    fli_stage *t = add(b, FLI_STAGE_FC, units);
    t->relu = relu;
    add_parameters(b, t, units, fan_in);
}

/* ---- tensors -------------------------------------------------------------------------------------------- */

static fl_status name_tensors(builder *b)
{
    const fli_convnet *net = b->net;
    fli_tensor *t = fli_arena_alloc(&b->m->arena, 2 * net->depth, sizeof *t);
    size_t count = 0, convs = 0, fcs = 0;
    if (!t) return FL_ENOMEM;
    for (size_t l = 0; l < net->depth; l++) {
        const fli_stage *a = &net->stage[l];
        if (!a->outs) continue;
        int conv = a->kind == FLI_STAGE_CONV;
        const char *kind = conv ? "conv" : "fc";
        unsigned number = (unsigned)(conv ? ++convs : ++fcs);
        t[count] = (fli_tensor){.offset = a->weight, .rows = a->outs, .cols = fli_stage_fan_in(a)};
        t[count].kernel = conv ? a->conv.in.kernel : 0;
        t[count + 1] = (fli_tensor){.offset = a->bias, .rows = a->outs};
        fli_snprintf(t[count].name, sizeof t->name, "%s%u.weight", kind, number);
        fli_snprintf(t[count + 1].name, sizeof t->name, "%s%u.bias", kind, number);
        count += 2;
    }
    b->m->tensors = t;
    b->m->tensor_count = count;
    return FL_OK;
}

/* ---- all ------------------------------------------------------------------------------------------------ */

static fl_status add_layers(builder *b, const fli_layer *layers, size_t count)
{
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i < count; i++) switch (layers[i].kind) {
        case FLI_LAYER_CONV: s = add_conv(b, &layers[i], i + 1); break;
        case FLI_LAYER_MAX_POOL:
        case FLI_LAYER_MEAN_POOL: s = add_pool(b, &layers[i], i + 1); break;
        case FLI_LAYER_FC: add_fc(b, layers[i].size, 1); break;
        }
    if (!s) add_fc(b, b->m->classes, 0);
    return s;
}

/* Larger batches are computed in parts: a network needs much memory per sample, and larger batches are not faster. */
enum { PIECE = 64 };

/* Builds the stages for images of m->shape; sets m->space.n, m->priv, the tensors and m->piece. convnet_fini frees what
 * it made, also after a failure. */
static fl_status convnet_setup(fl_ctx *ctx, fli_model *m, const fli_layer *layers, size_t count)
{
    fli_convnet *net = fli_arena_alloc(&m->arena, 1, sizeof *net);
    if (!net) return FL_ENOMEM;
    m->priv = net;
    m->piece = PIECE;
    net->kind = fli_conv_onednn && m->space.ops == &fli_ops_f32 ? fli_conv_onednn : &fli_conv_plain;
    builder b = {.ctx = ctx, .m = m, .net = net, .images = 1, .width = m->features};
    for (size_t i = 0; i < 3; i++) b.shape[i] = m->shape[i];
    fl_status s = add_layers(&b, layers, count);
    if (!s) s = name_tensors(&b);
    if (s) return s;
    while (!net->stage[net->first].outs) net->first++;
    for (size_t l = net->first + 1; l < net->depth; l++)
        if (net->stage[l].in > net->error) net->error = net->stage[l].in;
    m->space.n = b.at;
    return FL_OK;
}

static void convnet_fini(fli_model *m)
{
    const fli_convnet *net = m->priv;
    for (size_t l = 0; net && l < net->depth; l++)
        if (net->stage[l].kind == FLI_STAGE_CONV) net->kind->free(net->stage[l].convolver);
}

/* ==== forward and backward ================================================================================ */

/* Stages l = 1 .. L; H_0 is the batch. A stage with filters is Z = H_(l-1) * W_l (a convolution), P = max pool of Z, or
 * Z itself, H_l = max(0, P + b_l) with one bias per channel. Every step but ReLU and the choice of the maxima is linear
 * in its input and in its weights, so each has an adjoint, and the chain of the adjoints is the gradient. With D_l the
 * error at H_l, masked where H_l is 0,
 *
 *     df/db_l = sum of D_l over samples and pixels,   dZ = D_l at the positions of the maxima, else 0,
 *     df/dW_l = correlation of H_(l-1) with dZ,   D_(l-1) = dZ * adjoint of W_l
 *
 * Fully connected stages are as in dense.c. A convolution processes the batch in pieces, from filter to ReLU: the
 * values between filter and pool are many and needed only once, so they stay in the cache. */

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
static size_t convnet_scratch(const fli_model *m, size_t n)
{
    const fli_convnet *net = m->priv;
    size_t k = least(n, FLI_CONV_PIECE);
    return 2 * sweep_reals(net, m->space.ops, n) + 2 * fli_scratch_pad(k * net->piece) +
           fli_scratch_pad(k * net->image) + 3 * net->packed + net->work;
}

static void convnet_pass(const fli_model *m, const void *x, const fli_batch *b, void *scratch, fli_pass *p)
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

/* Carves a second sweep, for R-values, from the scratch behind the pass. */
static void r_sweep_init(const fli_pass *p, fli_sweep *r)
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

static void convnet_forward(const fli_pass *p)
{
    const fli_image_ops *image = p->ops->image;
    size_t n = p->b->n;
    for (size_t l = 0; l < p->net->depth; l++) {
        const fli_stage *t = &p->net->stage[l];
        const void *in = fli_stage_input(p, l);
        switch (t->kind) {
        case FLI_STAGE_REORDER: image->transpose(n, t->rows, t->cols, in, p->s.h[l]); break;
        case FLI_STAGE_CONV: conv_forward(p, l); break;
        case FLI_STAGE_MAX: image->max_pool(&t->pool, n, in, p->s.which[l], p->s.h[l]); break;
        case FLI_STAGE_MEAN: image->mean_pool(&t->pool, n, in, p->s.h[l]); break;
        case FLI_STAGE_FC: fc_forward(p, l); break;
        }
    }
}

/* ---- backward ------------------------------------------------------------------------------------------- */

/* d: the error at the stage's output. below: the error at its input, or NULL if it is not needed. */
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

/* Starts from the error of the logits, in the last h. */
static void convnet_backward(const fli_pass *p, void *g)
{
    const fli_image_ops *image = p->ops->image;
    size_t n = p->b->n;
    void *d = p->s.h[p->net->depth - 1];
    for (size_t l = p->net->depth; l-- > p->net->first;) {
        const fli_stage *t = &p->net->stage[l];
        void *below = l > p->net->first ? p->s.error[l & 1] : NULL;
        if (t->relu) p->ops->relu_mask(n * t->out, p->s.h[l], d);
        switch (t->kind) {
        case FLI_STAGE_REORDER: image->transpose(n, t->cols, t->rows, d, below); break;
        case FLI_STAGE_CONV: conv_backward(p, l, d, below, g); break;
        case FLI_STAGE_MAX: image->max_put(&t->pool, n, d, p->s.which[l], below); break;
        case FLI_STAGE_MEAN: image->mean_put(&t->pool, n, d, below); break;
        case FLI_STAGE_FC: fc_backward(p, l, d, below, g); break;
        }
        d = below;
    }
}

/* ---- slots ---------------------------------------------------------------------------------------------- */

static void *convnet_logits(const fli_model *m, const void *x, const fli_batch *b, void *scratch)
{
    fli_pass p;
    convnet_pass(m, x, b, scratch, &p);
    convnet_forward(&p);
    return p.s.h[p.net->depth - 1];
}

static void convnet_pullback(const fli_model *m, const void *x, const fli_batch *b, void *g, void *scratch)
{
    fli_pass p;
    convnet_pass(m, x, b, scratch, &p);
    convnet_backward(&p, g);
}

static double convnet_grad(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct,
                           void *scratch)
{
    const fli_ops *ops = m->space.ops;
    double n = (double)b->n, loss;
    size_t hits;
    void *z = convnet_logits(m, x, b, scratch);
    if (g) {
        loss = ops->softmax_xent(b->n, m->classes, b->label, 1 / n, z, &hits);
        convnet_pullback(m, x, b, g, scratch);
    } else {
        loss = ops->softmax_loss(b->n, m->classes, b->label, z, &hits);
    }
    if (correct) *correct = hits;
    return loss / n;
}

/* ==== the product with the Hessian ======================================================================== */

/* The product is the derivative R{.} of the whole gradient along v = (V_l, c_l), as in dense.c. Filters are linear in
 * input and weights, pools in their input once the maxima are chosen, and neither they nor ReLU have curvature, so with
 * the notation above
 *
 *     RZ = H_(l-1) * V_l + RH_(l-1) * W_l,   RH_l = (RZ at the maxima + c_l) masked by H_l > 0
 *     R{df/db_l} = sum of RD_l,   R{df/dW_l} = correlation of H_(l-1) with RdZ and of RH_(l-1) with dZ
 *     RD_(l-1) = RdZ * adjoint of W_l + dZ * adjoint of V_l
 *
 * Up to the first stage where v is not zero all R-values are zero, and are not computed. So along a direction within
 * the last layer, as in bilevel problems, the product costs one gradient instead of four. */

typedef struct {
    const fli_pass *p;
    const void *v;
    fli_sweep r;
    size_t live; /* first stage where v is not zero; RH_l is zero before it */
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

/* ---- forward -------------------------------------------------------------------------------------------- */

/* True if the input of stage l can have R-values other than zero. */
static int live_below(const r_pass *r, size_t l) { return l > r->live; }

static void conv_forward_r(const r_pass *r, size_t l)
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

static void fc_forward_r(const r_pass *r, size_t l)
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

static void forward_r(const r_pass *r)
{
    const fli_pass *p = r->p;
    const fli_image_ops *image = p->ops->image;
    size_t n = p->b->n;
    for (size_t l = r->live; l < p->net->depth; l++) {
        const fli_stage *t = &p->net->stage[l];
        const void *in = l ? r->r.h[l - 1] : NULL;
        void *rh = r->r.h[l];
        switch (t->kind) {
        case FLI_STAGE_REORDER: image->transpose(n, t->rows, t->cols, in, rh); break;
        case FLI_STAGE_CONV: conv_forward_r(r, l); break;
        case FLI_STAGE_MAX: image->max_pick(&t->pool, n, in, p->s.which[l], rh); break;
        case FLI_STAGE_MEAN: image->mean_pool(&t->pool, n, in, rh); break;
        case FLI_STAGE_FC: fc_forward_r(r, l); break;
        }
        if (t->relu) p->ops->relu_mask(n * t->out, p->s.h[l], rh);
    }
}

/* ---- backward ------------------------------------------------------------------------------------------- */

/* The errors and R-errors at a stage's output, and room for those at its input: below NULL if no earlier stage needs
 * it, rbelow NULL at the first stage with parameters. */
typedef struct {
    void *d, *rd, *below, *rbelow;
} errors;

/* Backward pass of one piece of a convolution: dz and rdz are the errors between filter and pool. */
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

static void conv_backward_r(const r_pass *r, size_t l, const errors *e, void *out)
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

static void fc_backward_r(const r_pass *r, size_t l, const errors *e, void *out)
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

/* A stage without parameters applies the same linear map to errors and R-errors. */
static void plain_backward(const fli_pass *p, size_t l, const void *d, void *below)
{
    const fli_image_ops *image = p->ops->image;
    const fli_stage *t = &p->net->stage[l];
    if (!below) return;
    if (t->kind == FLI_STAGE_REORDER) image->transpose(p->b->n, t->cols, t->rows, d, below);
    if (t->kind == FLI_STAGE_MAX) image->max_put(&t->pool, p->b->n, d, p->s.which[l], below);
    if (t->kind == FLI_STAGE_MEAN) image->mean_put(&t->pool, p->b->n, d, below);
}

static void backward_r(const r_pass *r, void *out)
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
            conv_backward_r(r, l, &e, out);
        } else if (t->kind == FLI_STAGE_FC) {
            fc_backward_r(r, l, &e, out);
        } else {
            plain_backward(p, l, e.d, e.below);
            plain_backward(p, l, e.rd, e.rbelow);
        }
    }
}

static void convnet_hvp(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *scratch)
{
    fli_pass p;
    convnet_pass(m, x, b, scratch, &p);
    r_pass r = {.p = &p, .v = v, .live = first_live(&p, v)};
    size_t last = p.net->depth - 1;
    if (r.live > last) {
        fli_zero(&m->space, out);
        return;
    }
    r_sweep_init(&p, &r.r);
    convnet_forward(&p);
    forward_r(&r);
    fli_dense_output_r(p.ops, b->n, m->classes, b->label, p.s.h[last], r.r.h[last]);
    backward_r(&r, out);
}

/* ==== the model =========================================================================================== */

typedef struct {
    char *layers;
    int init; /* fli_init_rule */
} cnn_params;

static const fl_key keys[] = {
    FLI_KEY_STRING(
        cnn_params, layers, "conv 64x5, pool 2, conv 64x5, pool 2, fc 384, fc 192",
        "what lies between the image and the output layer: conv CxK [stride S] [pad P | same] for C filters of "
        "K x K, pool K and avgpool K for the largest and the mean of each K x K, fc N for N fully connected "
        "units; ReLU follows every conv and fc"),
    FLI_KEY_CHOICE(cnn_params, init, "pytorch", FLI_START_WORDS, FLI_START_HELP),
    FLI_KEY_END,
};

static fl_status setup(fl_ctx *ctx, fli_model *m)
{
    const cnn_params *p = m->params;
    fli_layer layers[FLI_LAYERS_MAX];
    size_t count;
    fl_status s = fli_layers_read(ctx, p->layers, layers, &count);
    return s ? s : convnet_setup(ctx, m, layers, count);
}

static void init(const fli_model *m, fli_rng *r, double *x)
{
    const fli_convnet *net = m->priv;
    const cnn_params *p = m->params;
    for (size_t l = 0; l < net->depth; l++) {
        const fli_stage *t = &net->stage[l];
        if (!t->outs) continue;
        size_t taps = t->kind == FLI_STAGE_CONV ? t->conv.in.kernel * t->conv.in.kernel : 1;
        fli_init_layer((fli_init_rule)p->init, fli_stage_fan_in(t), t->outs * taps, t->weights, t->outs, r,
                       x + t->weight, x + t->bias);
    }
}

const char *fl_convolutions(void) { return fli_conv_onednn ? fli_conv_library() : fli_blas_library(); }

const fli_model_desc fli_model_cnn = {
    .name = "cnn",
    .title = "convolutional network with ReLU, for images",
    .traits = FLI_MODEL_CLASSIFIER | FLI_MODEL_SOFTMAX | FLI_MODEL_IMAGES | FLI_MODEL_NONNEGATIVE,
    .keys = keys,
    .params_size = sizeof(cnn_params),
    .setup = setup,
    .scratch = convnet_scratch,
    .init = init,
    .grad = convnet_grad,
    .logits = convnet_logits,
    .pullback = convnet_pullback,
    .hvp = convnet_hvp,
    .fini = convnet_fini,
    .network = fli_convnet_network,
    .layers = fli_convnet_layers,
};
