/* What lies where while a cluster of blocks takes a whole turn of a network with one or two hidden layers: wide.cu.
 * Made by the host, the same for all lanes and blocks. */
#ifndef FLI_CUDA_KERNELS_WIDE_PLAN_H
#define FLI_CUDA_KERNELS_WIDE_PLAN_H

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/sample.cuh"

enum {
    WIDE_ROWS = 64,
    WIDE_TILES_MOST = 7,
    WIDE_TILES_DEEP = 4,   /* of networks with two hidden layers, */
    WIDE_CHUNKS_DEEP = 16, /* and the inputs of the second, in sixteens */
    WIDE_CLASSES_MOST = 32,
    WIDE_HIDDEN = 2,
    WIDE_CLUSTER = 8,
    WIDE_GROUPS = 4, /* of warps that share a sum */
    WIDE_ROUND = 3   /* eights of units that are added up at a time */
};
#define WIDE_NOWHERE 0xffffffffu

/* A hidden layer. Places in shared memory are in bytes. */
typedef struct {
    uint32_t inputs, units;
    uint32_t per;              /* units of a block */
    uint32_t chunks, stride;   /* sixteens of inputs; floats of a row of weights */
    uint32_t z_weight, z_bias; /* in the lane's vectors; WIDE_NOWHERE: no bias */
    uint32_t relu;
    uint32_t w, b, b_grad;    /* weights, biases, and the gradient of these */
    uint32_t rows, row_bytes; /* the layer's inputs: stored samples, or the activations of all blocks */
    uint32_t h, h_stride;     /* activations of the block's units; in floats */
} wide_layer;

typedef struct {
    uint32_t hidden, classes, batch;
    uint32_t cluster, tiles;       /* blocks; eights of units that one computes with */
    uint32_t top_weight, top_bias; /* of the last layer, in the lane's vectors */
    uint32_t piece;                /* bytes of a copy */
    uint32_t d;                    /* errors of units; from here on there is also room for sums */
    uint32_t part[2];              /* of the logits, of even and odd steps */
    uint32_t top, error;           /* the last layer's weights, with the h_stride below it; errors of the logits */
    uint32_t b_top, m_top;         /* its biases, and their momentum */
    uint32_t w_sum, b_part;        /* sums of units' weights, and of their errors, by parts */
    uint32_t ids, labels;
    uint32_t bytes;
    wide_layer layer[WIDE_HIDDEN];
} wide_plan;

static inline uint32_t wide_larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

/* A row of so many floats, on lines of 16 bytes, an odd number of `of` (4 or 16) long. */
static inline uint32_t wide_odd(uint32_t n, uint32_t of) { return of * ((n + of - 1) / of | 1); }

static inline uint32_t wide_take(uint32_t *at, uint32_t bytes)
{
    uint32_t here = *at;
    *at += (bytes + 15) / 16 * 16;
    return here;
}

static inline void wide_plan_memory(wide_plan *p)
{
    wide_layer *last = &p->layer[p->hidden - 1];
    uint32_t at = 0, d = p->tiles * WIDE_ROWS * 8 * 4, tiles = p->tiles * 8 * 4;
    for (uint32_t k = 0; k < p->hidden; k++) p->layer[k].w = wide_take(&at, p->layer[k].per * p->layer[k].stride * 4);
    p->d = at;
    last->h = at + d;
    wide_take(&at, wide_larger(d + p->batch * last->h_stride * 4, WIDE_GROUPS * WIDE_ROWS * WIDE_ROUND * 8 * 4));
    for (uint32_t k = 0; k < p->hidden; k++) {
        wide_layer *l = &p->layer[k];
        if (l != last) l->h = wide_take(&at, p->batch * l->h_stride * 4);
        l->b = wide_take(&at, tiles);
        l->b_grad = wide_take(&at, tiles);
        l->rows = wide_take(&at, p->batch * l->row_bytes);
    }
    for (int i = 0; i < 2; i++) p->part[i] = wide_take(&at, p->batch * p->classes * 4);
    p->top = wide_take(&at, p->classes * last->h_stride * 4);
    p->error = wide_take(&at, p->classes * WIDE_ROWS * 4);
    p->b_top = wide_take(&at, p->classes * 4);
    p->m_top = wide_take(&at, p->classes * 4);
    p->w_sum = wide_take(&at, WIDE_GROUPS * tiles);
    p->b_part = wide_take(&at, p->hidden > 1 ? WIDE_ROWS / 16 * tiles : 0);
    p->ids = wide_take(&at, 2 * p->batch * 4);
    p->labels = wide_take(&at, 2 * p->batch * 4);
    p->bytes = at;
}

/* With so many blocks in a cluster; 0: that is no plan. */
static inline int wide_plan_split(wide_plan *p, uint32_t cluster, size_t limit)
{
    uint32_t tiles = 0;
    p->cluster = cluster;
    for (uint32_t k = 0; k < p->hidden; k++) {
        wide_layer *l = &p->layer[k];
        l->per = (l->units + cluster - 1) / cluster;
        l->h_stride = wide_odd(l->per, 4);
        if (l->per * (cluster - 1) >= l->units) return 0;
        tiles = wide_larger(tiles, (l->per + 7) / 8);
    }
    if (tiles > (p->hidden > 1 ? WIDE_TILES_DEEP : WIDE_TILES_MOST)) return 0;
    if (p->hidden > 1 && p->layer[1].chunks > WIDE_CHUNKS_DEEP) return 0;
    p->tiles = p->hidden > 1 ? WIDE_TILES_DEEP
               : tiles <= 2  ? 2
               : tiles <= 4  ? 4
               : tiles <= 5  ? 5
                             : WIDE_TILES_MOST; /* wide.cu is made for these */
    wide_plan_memory(p);
    return p->bytes <= limit;
}

static inline int wide_plan_layer(const fli_net_layer *l, int first, wide_layer *p)
{
    if (l->kind != FLI_NET_FC || l->weight % 4 || fli_net_in(l) % 4) return 0;
    p->inputs = (uint32_t)fli_net_in(l);
    p->units = (uint32_t)fli_net_out(l);
    p->chunks = (p->inputs + 15) / 16;
    p->stride = wide_odd(p->inputs, 16);
    p->row_bytes = p->stride * (first ? 1 : 4);
    p->z_weight = (uint32_t)l->weight;
    p->z_bias = l->biased ? (uint32_t)l->bias : WIDE_NOWHERE;
    p->relu = l->relu != 0;
    return 1;
}

static inline int wide_plan_network(const fli_network *net, wide_plan *p)
{
    if (net->depth < 2 || net->depth > WIDE_HIDDEN + 1 || net->parameters > 0x7fffffff) return 0;
    const fli_net_layer *top = &net->layer[net->depth - 1];
    if (net->loss != FLI_NET_SOFTMAX || net->classes > WIDE_CLASSES_MOST) return 0;
    if (top->kind != FLI_NET_FC || top->relu) return 0;
    p->hidden = (uint32_t)net->depth - 1;
    p->classes = (uint32_t)net->classes;
    p->top_weight = (uint32_t)top->weight;
    p->top_bias = top->biased ? (uint32_t)top->bias : WIDE_NOWHERE;
    for (uint32_t k = 0; k < p->hidden; k++)
        if (!wide_plan_layer(&net->layer[k], !k, &p->layer[k])) return 0;
    return 1;
}

/* Whether there is a plan with clusters of `cluster` blocks. */
static inline int wide_plan_make(const fli_network *net, const fli_cuda_data *data, uint32_t batch, uint32_t cluster,
                                 wide_plan *p)
{
    size_t limit = fli_shared_limit();
    uint32_t most = fli_cluster_limit();
    if (most > WIDE_CLUSTER) most = WIDE_CLUSTER;
    if (!cluster || cluster > most) return 0;
    if (!batch || batch > WIDE_ROWS || !fli_data_simple(data, 1) || data->kind != 0) return 0;
    if (data->scale && data->segments != 1) return 0;
    if (net->parameters > (size_t)cluster * limit || !wide_plan_network(net, p)) return 0;
    p->batch = batch;
    p->piece = p->layer[0].inputs % 16 ? 4 : 16;
    return wide_plan_split(p, cluster, limit);
}

#endif
