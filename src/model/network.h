/* A model's computation for devices: layers, one after the other, with their offsets in the parameter vector, and a
 * loss behind the last. A model with fli_model_desc.network runs on devices. */
#ifndef FLI_MODEL_NETWORK_H
#define FLI_MODEL_NETWORK_H

#include <stddef.h>

typedef enum { FLI_NET_FC, FLI_NET_CONV, FLI_NET_MAX_POOL, FLI_NET_MEAN_POOL } fli_net_kind;

/* Samples, and images before a fully connected layer, have channels first, which fixes the order of weights. Between
 * convolutions and pools the device chooses the order. Weights of CONV: out channel, in channel, row, column; of FC:
 * unit, input. */
typedef struct {
    fli_net_kind kind;
    int relu;                   /* ReLU behind it; FC and CONV */
    size_t in[3], out[3];       /* channels, height, width; FC: units, 1, 1 */
    size_t kernel, stride, pad; /* CONV; pools: kernel alone, stride = kernel, no pad, incomplete windows left out */
    size_t weight, bias;        /* FC and CONV: offsets in the parameter vector */
    int biased;                 /* has a bias */
} fli_net_layer;

typedef enum {
    FLI_NET_SOFTMAX, /* mean cross-entropy; the last layer has a unit per class */
    FLI_NET_LOGISTIC /* two classes by one unit */
} fli_net_loss;

enum { FLI_NET_LAYERS_MAX = 40 };

typedef struct fli_network {
    fli_net_loss loss;
    size_t parameters, features, classes;
    size_t depth;
    fli_net_layer layer[FLI_NET_LAYERS_MAX];
} fli_network;

static inline size_t fli_net_in(const fli_net_layer *l) { return l->in[0] * l->in[1] * l->in[2]; }
static inline size_t fli_net_out(const fli_net_layer *l) { return l->out[0] * l->out[1] * l->out[2]; }

#endif
