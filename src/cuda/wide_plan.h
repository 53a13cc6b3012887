/* What lies where while a cluster of blocks takes a whole turn of a network with one hidden layer: wide.cu. Made by the
 * host, the same for all lanes and blocks. */
#ifndef FLI_CUDA_WIDE_PLAN_H
#define FLI_CUDA_WIDE_PLAN_H

#include "cuda/kernels.h"
#include "cuda/sample.cuh"

enum { WIDE_ROWS = 64, WIDE_TILES_MOST = 7, WIDE_CLASSES_MOST = 32, WIDE_GROUPS = 4, WIDE_ROUND = 3 };
#define WIDE_NOWHERE 0xffffffffu

typedef struct {
    uint32_t inputs, units, classes, batch;
    uint32_t cluster, per, tiles;       /* blocks; units of each of them, and eights of units that it computes with */
    uint32_t chunks;                    /* sixteens of inputs */
    uint32_t w_stride, x_stride;        /* floats, bytes */
    uint32_t h_stride;                  /* of activations, and of the last layer's weights */
    uint32_t weight, bias;              /* in the lane's vectors; WIDE_NOWHERE: no bias */
    uint32_t top_weight, top_bias;
    uint32_t relu, piece;               /* bytes of a copy */
    /* in bytes, in shared memory: */
    uint32_t w, x;                      /* weights and stored samples */
    uint32_t d, h;                      /* errors of the units, activations; both are also room for sums */
    uint32_t part[2];                   /* of the logits, of even and odd steps */
    uint32_t top, error;                /* the last layer's weights; errors of the logits */
    uint32_t b, b_top, m_top;           /* biases; momentum of the last ones */
    uint32_t b_grad, w_sum;             /* the gradient of biases; sums of the units' weights, by parts */
    uint32_t ids, labels;
    uint32_t bytes;
} wide_plan;

static inline uint32_t wide_up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }
static inline uint32_t wide_larger(uint32_t a, uint32_t b) { return a > b ? a : b; }

static inline uint32_t wide_take(uint32_t *at, uint32_t bytes)
{
    uint32_t here = *at;
    *at += wide_up(bytes, 16);
    return here;
}

static inline void wide_plan_memory(wide_plan *p)
{
    uint32_t at = 0, top = p->classes * p->h_stride * 4, part = p->batch * p->classes * 4;
    uint32_t d = p->tiles * WIDE_ROWS * 8 * 4, h = p->batch * p->h_stride * 4;
    uint32_t sums = WIDE_GROUPS * WIDE_ROWS * WIDE_ROUND * 8 * 4;
    p->w = wide_take(&at, p->per * p->w_stride * 4);
    p->d = at;
    p->h = p->d + d;
    wide_take(&at, wide_larger(d + h, sums));
    p->part[0] = wide_take(&at, part);
    p->part[1] = wide_take(&at, part);
    p->top = wide_take(&at, top);
    p->error = wide_take(&at, p->classes * WIDE_ROWS * 4);
    p->b = wide_take(&at, p->tiles * 8 * 4);
    p->b_top = wide_take(&at, p->classes * 4);
    p->m_top = wide_take(&at, p->classes * 4);
    p->b_grad = wide_take(&at, p->tiles * 8 * 4);
    p->w_sum = wide_take(&at, WIDE_GROUPS * p->tiles * 8 * 4);
    p->ids = wide_take(&at, 2 * p->batch * 4);
    p->labels = wide_take(&at, 2 * p->batch * 4);
    p->x = wide_take(&at, p->batch * p->x_stride);
    p->bytes = at;
}

/* With so many blocks in a cluster; 0: that is no plan. */
static inline int wide_plan_split(wide_plan *p, uint32_t cluster, size_t limit)
{
    p->cluster = cluster;
    p->per = (p->units + cluster - 1) / cluster;
    uint32_t tiles = (p->per + 7) / 8;
    if (tiles > WIDE_TILES_MOST || p->per * (cluster - 1) >= p->units) return 0;
    p->tiles = tiles <= 2 ? 2 : tiles <= 4 ? 4 : tiles <= 5 ? 5 : WIDE_TILES_MOST; /* wide.cu is made for these */
    p->h_stride = 4 * ((p->per + 3) / 4 | 1);
    wide_plan_memory(p);
    return p->bytes <= limit;
}

static inline int wide_plan_network(const fli_network *net, wide_plan *p)
{
    if (net->depth != 2 || net->loss != FLI_NET_SOFTMAX || net->classes > WIDE_CLASSES_MOST) return 0;
    const fli_net_layer *l = &net->layer[0], *top = &net->layer[1];
    if (l->kind != FLI_NET_FC || top->kind != FLI_NET_FC || top->relu || net->parameters > 0x7fffffff) return 0;
    if (l->weight % 4 || net->features % 4) return 0;
    p->inputs = (uint32_t)net->features;
    p->units = (uint32_t)fli_net_out(l);
    p->classes = (uint32_t)net->classes;
    p->weight = (uint32_t)l->weight;
    p->bias = l->biased ? (uint32_t)l->bias : WIDE_NOWHERE;
    p->top_weight = (uint32_t)top->weight;
    p->top_bias = top->biased ? (uint32_t)top->bias : WIDE_NOWHERE;
    p->relu = l->relu != 0;
    return 1;
}

/* Whether there is a plan, with clusters of `cluster` blocks; 0: of as few as will do. */
static inline int wide_plan_make(const fli_network *net, const fli_cuda_data *data, uint32_t batch, uint32_t cluster,
                                 wide_plan *p)
{
    size_t limit = fli_shared_limit();
    uint32_t most = fli_cluster_limit();
    if (!batch || batch > WIDE_ROWS || !fli_data_simple(data, 1) || data->kind != 0) return 0;
    if (data->scale && data->segments != 1) return 0;
    if (net->parameters > (size_t)most * limit || !wide_plan_network(net, p)) return 0;
    p->batch = batch;
    p->chunks = (p->inputs + 15) / 16;
    p->x_stride = 16 * (p->chunks | 1);
    p->w_stride = 16 * (p->chunks | 1);
    p->piece = p->inputs % 16 ? 4 : 16;
    if (cluster) return cluster <= most && wide_plan_split(p, cluster, limit);
    for (cluster = 2; cluster <= most; cluster++)
        if (wide_plan_split(p, cluster, limit)) return 1;
    return 0;
}

#endif
