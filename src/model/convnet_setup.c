/* From layers as described to the stages that are computed: shapes, places in the parameter vector, convolvers. */
#include "model/convnet.h"
#include "base/number.h"

typedef struct {
    fl_ctx *ctx;
    fli_model *m;
    fli_convnet *net;
    size_t shape[3]; /* channels, height, width at this point; images only */
    int images;      /* not yet flat */
    int last;        /* channels lie last */
    size_t width;    /* reals per sample at this point */
    size_t at;       /* next free place in the parameter vector */
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

static void turn(builder *b, int last)
{
    size_t pixels = b->shape[1] * b->shape[2];
    if (b->last == last) return;
    b->last = last;
    if (b->shape[0] == 1 || pixels == 1) return;
    fli_stage *t = add(b, FLI_STAGE_TURN, b->width);
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
    turn(b, 1);
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
    if (fli_scratch_pad(t->outs) > net->work) net->work = fli_scratch_pad(t->outs); /* sums of biases */
    if (t->in > net->image) net->image = t->in;
    return FL_OK;
}

/* A max pool behind a convolution becomes part of its stage. */
static fl_status add_pool(builder *b, const fli_layer *l, size_t number)
{
    fli_window w;
    fl_status s = window_fits(b, l, number, l->size, 0);
    if (s) return s;
    turn(b, 1);
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
    if (b->images) turn(b, 0);
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

/* Batches above this are computed in parts: what a network keeps of each sample is large, and nothing gets faster with
 * more of them. */
enum { PIECE = 64 };

fl_status fli_convnet_setup(fl_ctx *ctx, fli_model *m, const fli_layer *layers, size_t count)
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

void fli_convnet_fini(fli_model *m)
{
    const fli_convnet *net = m->priv;
    for (size_t l = 0; net && l < net->depth; l++)
        if (net->stage[l].kind == FLI_STAGE_CONV) net->kind->free(net->stage[l].convolver);
}
