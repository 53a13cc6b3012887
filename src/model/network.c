/* Models as layers, for devices: network.h. */
#include "model/convnet.h"
#include "model/dense.h"

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

static void add_conv(fli_network *net, const fli_stage *t)
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
        case FLI_STAGE_TURN: break; /* the order between layers is the device's own business */
        case FLI_STAGE_CONV: add_conv(net, t); break;
        case FLI_STAGE_MAX: add_window(net, FLI_NET_MAX_POOL, &t->pool, t->pool.channels); break;
        case FLI_STAGE_MEAN: add_window(net, FLI_NET_MEAN_POOL, &t->pool, t->pool.channels); break;
        case FLI_STAGE_FC: add_fc(net, t->in, t->out, t->relu, t->weight, t->bias); break;
        }
    }
    return 1;
}
