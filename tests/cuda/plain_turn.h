/* A client's turn in plain C and double precision, for networks of FC layers: what kernels are held to. */
#ifndef FLI_TEST_PLAIN_TURN_H
#define FLI_TEST_PLAIN_TURN_H

#include "cuda/kernels/kernels.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* All in plain memory; vectors of net->parameters doubles. */
typedef struct {
    const fli_network *net;
    const double *x;      /* samples x features, normalised */
    const int32_t *label; /* of the samples */
    const uint32_t *order;
    uint32_t n, size, stride, steps;
    const double *shift, *anchor, *rates; /* NULL: none */
    double lr, wd, rho, momentum;
    double *z, *buffer; /* buffer NULL: no momentum */
} plain_turn;

/* A network of FC layers with ReLU between them; size: depth + 1 widths. Returns it with a LOGISTIC loss where the last
 * is 1. */
static inline fli_network plain_network(const size_t *size, size_t depth, int biased)
{
    fli_network net = {.loss = size[depth] == 1 ? FLI_NET_LOGISTIC : FLI_NET_SOFTMAX,
                       .features = size[0],
                       .classes = size[depth] == 1 ? 2 : size[depth],
                       .depth = depth};
    for (size_t k = 0; k < depth; k++) {
        fli_net_layer *l = &net.layer[k];
        *l = (fli_net_layer){.kind = FLI_NET_FC,
                             .relu = k + 1 < depth,
                             .in = {size[k], 1, 1},
                             .out = {size[k + 1], 1, 1},
                             .weight = net.parameters,
                             .biased = biased};
        l->bias = l->weight + size[k] * size[k + 1];
        net.parameters = l->bias + (biased ? size[k + 1] : 0);
    }
    return net;
}

static inline void plain_forward(const fli_net_layer *l, const double *z, const double *in, double *out)
{
    size_t n = fli_net_in(l), units = fli_net_out(l);
    for (size_t u = 0; u < units; u++) {
        double sum = l->biased ? z[l->bias + u] : 0;
        for (size_t i = 0; i < n; i++) sum += z[l->weight + u * n + i] * in[i];
        out[u] = l->relu && sum < 0 ? 0 : sum;
    }
}

/* Logits become the error of one row. */
static inline void plain_error(const fli_network *net, int32_t label, double *z)
{
    size_t units = fli_net_out(&net->layer[net->depth - 1]);
    double most = z[0], sum = 0;
    if (net->loss == FLI_NET_LOGISTIC) {
        z[0] = 1 / (1 + exp(-z[0])) - label;
        return;
    }
    for (size_t u = 1; u < units; u++) most = fmax(most, z[u]);
    for (size_t u = 0; u < units; u++) sum += z[u] = exp(z[u] - most);
    for (size_t u = 0; u < units; u++) z[u] = z[u] / sum - (u == (size_t)label);
}

/* Adds `share` times the gradient of a row; h: the inputs of every layer and the error behind the last. */
static inline void plain_backward(const fli_network *net, const double *z, double **h, double share, double *g)
{
    for (size_t k = net->depth; k-- > 0;) {
        const fli_net_layer *l = &net->layer[k];
        size_t n = fli_net_in(l), units = fli_net_out(l);
        const double *in = h[k], *error = h[k + 1];
        double *below = calloc(n, sizeof *below);
        for (size_t u = 0; u < units; u++) {
            if (l->biased) g[l->bias + u] += share * error[u];
            for (size_t i = 0; i < n; i++) {
                g[l->weight + u * n + i] += share * error[u] * in[i];
                if (!k || !net->layer[k - 1].relu || in[i] > 0) below[i] += error[u] * z[l->weight + u * n + i];
            }
        }
        if (k) memcpy(h[k], below, n * sizeof *below);
        free(below);
    }
}

static inline void plain_gradient(const plain_turn *t, const uint32_t *rows, uint32_t n, double *g)
{
    const fli_network *net = t->net;
    double *h[FLI_NET_LAYERS_MAX + 1];
    for (size_t k = 0; k <= net->depth; k++)
        h[k] = malloc((k ? fli_net_out(&net->layer[k - 1]) : net->features) * sizeof(double));
    memset(g, 0, net->parameters * sizeof *g);
    for (uint32_t r = 0; r < n; r++) {
        memcpy(h[0], t->x + rows[r] * net->features, net->features * sizeof(double));
        for (size_t k = 0; k < net->depth; k++) plain_forward(&net->layer[k], t->z, h[k], h[k + 1]);
        plain_error(net, t->label[rows[r]], h[net->depth]);
        plain_backward(net, t->z, h, 1.0 / n, g);
    }
    for (size_t k = 0; k <= net->depth; k++) free(h[k]);
}

static inline void plain_turn_run(const plain_turn *t)
{
    double *g = malloc(t->net->parameters * sizeof *g);
    for (uint32_t k = 0; k < t->steps && t->n; k++) {
        double lr = t->rates ? t->rates[2 * k] : t->lr, wd = t->rates ? t->rates[2 * k + 1] : t->wd;
        plain_gradient(t, t->order + (size_t)k * t->stride, fli_cuda_drawn(t->n, t->size, k), g);
        for (size_t i = 0; i < t->net->parameters; i++) {
            double d = g[i] + wd * t->z[i] + (t->shift ? t->shift[i] : 0);
            if (t->anchor) d += t->rho * (t->z[i] - t->anchor[i]);
            if (t->buffer) d = t->buffer[i] = t->momentum * t->buffer[i] + d;
            t->z[i] -= lr * d;
        }
    }
    free(g);
}

#endif
