/* The layers of models as a network for devices (network.h), and as JSON for building the same network in another
 * library:
 *
 *   [{"name": "conv1", "kind": "conv", "in": 1, "out": 32, "window": 5, "stride": 1, "pad": 2, "activation": "relu"},
 *    {"kind": "max_pool", "window": 2}, {"kind": "flatten"},
 *    {"name": "fc1", "kind": "linear", "in": 6272, "out": 10, "activation": "softmax"}]
 *
 * A layer with parameters has the tensors NAME.weight and NAME.bias; without a name they are `weight` and `bias`. */
#include "model/cnn.h"
#include "model/dense.h"
#include "model/model.h"

#include <string.h>

/* ==== layers as JSON ====================================================================================== */

/* Starts a layer's object. Its name is the tensor's name without ".weight". */
static void begin_layer(fli_text *t, const fli_tensor *weight, const char *kind)
{
    const char *dot = strrchr(weight->name, '.');
    fli_text_add(t, t->n ? ", {" : "[{");
    if (dot) fli_text_addf(t, "\"name\": \"%.*s\", ", (int)(dot - weight->name), weight->name);
    fli_text_addf(t, "\"kind\": \"%s\"", kind);
}

static void add_linear(fli_text *t, const fli_tensor *weight, size_t in, size_t out, const char *activation)
{
    begin_layer(t, weight, "linear");
    fli_text_addf(t, ", \"in\": %zu, \"out\": %zu, \"activation\": \"%s\"}", in, out, activation);
}

static void add_unweighted(fli_text *t, const char *kind, size_t window)
{
    fli_text_addf(t, "%s{\"kind\": \"%s\"", t->n ? ", " : "[", kind);
    if (window) fli_text_addf(t, ", \"window\": %zu", window);
    fli_text_add(t, "}");
}

static const char *behind(int relu) { return relu ? "relu" : "softmax"; }

void fli_linear_layers(const fli_model *m, const char *activation, fli_text *t)
{
    fli_text_addf(t, "[{\"kind\": \"linear\", \"in\": %zu, \"out\": 1, \"bias\": false, \"activation\": \"%s\"}]",
                  m->features, activation);
}

void fli_dense_layers(const fli_model *m, fli_text *t)
{
    const fli_dense *d = m->priv;
    for (size_t l = 0; l < d->depth; l++)
        add_linear(t, &m->tensors[2 * l], d->layer[l].in, d->layer[l].out, behind(l + 1 < d->depth));
    fli_text_add(t, "]");
}

static void add_conv(fli_text *t, const fli_tensor *weight, const fli_stage *a)
{
    const fli_window *w = &a->conv.in;
    begin_layer(t, weight, "conv");
    fli_text_addf(t, ", \"in\": %zu, \"out\": %zu, \"window\": %zu, \"stride\": %zu, \"pad\": %zu", w->channels,
                  a->outs, w->kernel, w->stride, w->pad);
    fli_text_addf(t, ", \"activation\": \"%s\"}", behind(a->relu));
    if (a->pool.kernel) add_unweighted(t, "max_pool", a->pool.kernel);
}

void fli_convnet_layers(const fli_model *m, fli_text *t)
{
    const fli_convnet *net = m->priv;
    const fli_tensor *weight = m->tensors;
    int flat = 0;
    for (size_t l = 0; l < net->depth; l++) {
        const fli_stage *a = &net->stage[l];
        switch (a->kind) {
        case FLI_STAGE_REORDER: break;
        case FLI_STAGE_MAX: add_unweighted(t, "max_pool", a->pool.kernel); break;
        case FLI_STAGE_MEAN: add_unweighted(t, "mean_pool", a->pool.kernel); break;
        case FLI_STAGE_CONV: add_conv(t, weight, a); break;
        case FLI_STAGE_FC:
            if (!flat++) add_unweighted(t, "flatten", 0);
            add_linear(t, weight, a->in, a->out, behind(a->relu));
            break;
        }
        if (a->outs) weight += 2;
    }
    fli_text_add(t, "]");
}

/* ==== networks for devices ================================================================================ */

static fli_net_layer *add(fli_network *net, fli_net_kind kind)
{
    fli_net_layer *l = &net->layer[net->depth++];
    *l = (fli_net_layer){.kind = kind};
    return l;
}

static void set_shape(size_t shape[3], size_t channels, size_t height, size_t width)
{
    shape[0] = channels;
    shape[1] = height;
    shape[2] = width;
}

static void set_parameters(fli_net_layer *l, int relu, size_t weight, size_t bias)
{
    l->relu = relu;
    l->weight = weight;
    l->bias = bias;
    l->biased = 1;
}

static void add_fc(fli_network *net, size_t in, size_t out, int relu, size_t weight, size_t bias)
{
    fli_net_layer *l = add(net, FLI_NET_FC);
    set_shape(l->in, in, 1, 1);
    set_shape(l->out, out, 1, 1);
    set_parameters(l, relu, weight, bias);
}

static fli_network softmax_of(const fli_model *m)
{
    return (fli_network){
        .loss = FLI_NET_SOFTMAX, .parameters = m->space.n, .features = m->features, .classes = m->classes};
}

int fli_dense_network(const fli_model *m, fli_network *net)
{
    const fli_dense *d = m->priv;
    *net = softmax_of(m);
    for (size_t l = 0; l < d->depth; l++) {
        const fli_dense_layer *a = &d->layer[l];
        add_fc(net, a->in, a->out, l + 1 < d->depth, a->weight, a->bias);
    }
    return 1;
}

static fli_net_layer *add_window(fli_network *net, fli_net_kind kind, const fli_window *w, size_t outs)
{
    fli_net_layer *l = add(net, kind);
    set_shape(l->in, w->channels, w->height, w->width);
    set_shape(l->out, outs, w->out_height, w->out_width);
    l->kernel = w->kernel;
    l->stride = w->stride;
    l->pad = w->pad;
    return l;
}

static void add_conv_layer(fli_network *net, const fli_stage *t)
{
    fli_net_layer *l = add_window(net, FLI_NET_CONV, &t->conv.in, t->outs);
    set_parameters(l, t->relu, t->weight, t->bias);
    if (t->pool.kernel) add_window(net, FLI_NET_MAX_POOL, &t->pool, t->outs);
}

int fli_convnet_network(const fli_model *m, fli_network *net)
{
    const fli_convnet *stages = m->priv;
    *net = softmax_of(m);
    for (size_t i = 0; i < stages->depth; i++) {
        const fli_stage *t = &stages->stage[i];
        switch (t->kind) {
        case FLI_STAGE_REORDER: break; /* devices choose their own order */
        case FLI_STAGE_CONV: add_conv_layer(net, t); break;
        case FLI_STAGE_MAX: add_window(net, FLI_NET_MAX_POOL, &t->pool, t->pool.channels); break;
        case FLI_STAGE_MEAN: add_window(net, FLI_NET_MEAN_POOL, &t->pool, t->pool.channels); break;
        case FLI_STAGE_FC: add_fc(net, t->in, t->out, t->relu, t->weight, t->bias); break;
        }
    }
    return 1;
}
