/* The layout of a block's shared memory during a whole turn of a small network, and how its threads share the products;
 * and what small.cu and small_one.cuh have in common. The host makes one plan for all lanes. */
#ifndef FLI_CUDA_KERNELS_SMALL_PLAN_H
#define FLI_CUDA_KERNELS_SMALL_PLAN_H

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/sample.cuh"

/* ==== the plan: the layout ================================================================================ */

enum { SMALL_QUAD = 4, SMALL_TILE = 16, SMALL_WARP = 32, SMALL_WARP_LOG = 5 };
#define SMALL_NOWHERE 0xffffffffu

typedef struct {
    uint32_t in, out;
    uint32_t stride, error_stride; /* of the rows of weights and inputs, and of errors; in reals, like the next line */
    uint32_t weight, input, error; /* starts; errors are at the output; those of the last layer are logits first */
    uint32_t z_weight, z_bias;     /* in the lane's vectors; SMALL_NOWHERE: no bias */
    uint32_t masked;               /* inputs come from ReLU */
    uint32_t relu;                 /* after it */
    uint32_t per_out, per_below, per_in; /* small_per of the tiles of out, and of in without and with the bias */
    uint32_t tiles;                      /* of its gradient */
} small_layer;

typedef struct {
    uint32_t depth, batch, logistic;
    uint32_t term, momentum;   /* in reals: same size and order as the weights; SMALL_NOWHERE: in global memory */
    uint32_t weights;          /* reals of all layers */
    uint32_t ids, labels, raw; /* in bytes; raw SMALL_NOWHERE: samples are not fetched in advance */
    uint32_t row_bytes, piece; /* of a stored sample; of a copy */
    uint32_t fetch;            /* 2^fetch threads copy a sample */
    uint32_t per_quads;        /* small_per of the groups of four in a sample */
    uint32_t bytes;
    small_layer layer[FLI_NET_LAYERS_MAX];
} small_plan;

static inline __host__ __device__ uint32_t small_fours(uint32_t n) { return (n + SMALL_QUAD - 1) / SMALL_QUAD; }
static inline __host__ __device__ uint32_t small_tiles(uint32_t n) { return (n + SMALL_TILE - 1) / SMALL_TILE; }

/* 2^32 / d, rounded up, to divide by multiplying; 0 means d = 1. n / d is exact for n d < 2^32. */
static inline __host__ __device__ uint32_t small_per(uint32_t d) { return 0xffffffffu / d + 1; }

static inline uint32_t small_odd_stride(uint32_t n) { return SMALL_QUAD * (small_fours(n) | 1); }

/* log2 of the threads of a warp for a row of this many pieces. */
static inline uint32_t small_row_threads(uint32_t pieces)
{
    uint32_t log = 0;
    while (log < SMALL_WARP_LOG && 1u << log < pieces) log++;
    return log;
}

static inline void small_plan_layer(const fli_network *net, size_t k, small_layer *p)
{
    const fli_net_layer *l = &net->layer[k];
    p->in = (uint32_t)fli_net_in(l);
    p->out = (uint32_t)fli_net_out(l);
    p->stride = small_odd_stride(p->in + 1);
    p->error_stride = small_odd_stride(p->out);
    p->z_weight = (uint32_t)l->weight;
    p->z_bias = l->biased ? (uint32_t)l->bias : SMALL_NOWHERE;
    p->relu = l->relu != 0;
    p->masked = k && net->layer[k - 1].relu;
    p->per_out = small_per(small_tiles(p->out));
    p->per_below = small_per(small_tiles(p->in));
    p->per_in = small_per(small_tiles(p->in + 1));
    p->tiles = small_tiles(p->in + 1) * small_tiles(p->out);
}

/* Places weights, then what depends on the batch; returns their reals. */
static inline uint32_t small_plan_matrices(const fli_network *net, small_plan *p)
{
    uint32_t at = 0;
    for (uint32_t k = 0; k < p->depth; k++) {
        small_layer *l = &p->layer[k];
        small_plan_layer(net, k, l);
        l->weight = at;
        at += l->out * l->stride;
    }
    p->weights = at;
    for (uint32_t k = 0; k < p->depth; k++) {
        small_layer *l = &p->layer[k];
        l->input = at;
        l->error = at + p->batch * l->stride;
        at = l->error + p->batch * l->error_stride;
    }
    return at;
}

/* Places what may also be in global memory into the remaining room, in the order of its use. */
static inline void small_plan_rest(uint32_t real, const fli_cuda_data *data, size_t limit, small_plan *p)
{
    size_t row = data->length * (data->kind == 0 ? 1 : data->kind == 1 ? 4 : 8), raw = row * p->batch;
    size_t vector = (size_t)p->weights * real;
    p->row_bytes = (uint32_t)row;
    p->piece = row % 16 == 0 ? 16 : 4;
    p->fetch = small_row_threads(p->row_bytes / p->piece);
    p->per_quads = small_per(small_fours(p->layer[0].in));
    p->raw = p->term = p->momentum = SMALL_NOWHERE;
    if (row % 4 == 0 && p->bytes + raw <= limit) {
        p->raw = p->bytes;
        p->bytes += (uint32_t)((raw + 15) / 16 * 16);
    }
    if (p->bytes + vector <= limit) {
        p->term = p->bytes / real;
        p->bytes += (uint32_t)vector;
    }
    if (p->bytes + vector <= limit) {
        p->momentum = p->bytes / real;
        p->bytes += (uint32_t)vector;
    }
}

/* Makes the plan for reals of `real` bytes; 0 if nothing fits. */
static inline int small_plan_make(uint32_t real, const fli_network *net, const fli_cuda_data *data, uint32_t batch,
                                  small_plan *p)
{
    size_t limit = fli_shared_limit(), least = net->parameters + (size_t)batch * net->features;
    if (!batch || net->depth < 1 || least * real > limit || !fli_data_simple(data, 1)) return 0;
    for (size_t k = 0; k < net->depth; k++)
        if (net->layer[k].kind != FLI_NET_FC || (size_t)batch * fli_net_out(&net->layer[k]) * real > limit) return 0;
    p->depth = (uint32_t)net->depth;
    p->batch = batch;
    p->logistic = net->loss == FLI_NET_LOGISTIC;
    p->ids = small_plan_matrices(net, p) * real;
    p->labels = p->ids + 2 * batch * 4;
    p->bytes = (p->labels + 2 * batch * 4 + 15) / 16 * 16;
    if (p->bytes > limit) return 0;
    small_plan_rest(real, data, limit, p);
    return 1;
}

/* ==== shared by the kernels =============================================================================== */

namespace
{

enum { QUAD = SMALL_QUAD };
#define NOWHERE SMALL_NOWHERE

/* The rates of one step; `decay` is wd + rho. */
template <class T> struct step_rates {
    T lr, decay, times, momentum;
};

/* The vector that a step adds to the gradient, without `times`. */
template <class T> static __device__ __forceinline__ T term_of(const fli_cuda_lane &lane, uint32_t at)
{
    return lane.term ? __ldcg((const T *)lane.term + at) : (T)0;
}

static __device__ __forceinline__ float exp_of(float a) { return expf(a); }
static __device__ __forceinline__ double exp_of(double a) { return exp(a); }

/* The number of rows of the next mini-batch. *at: the position in the epoch after the one before. */
static __device__ __forceinline__ uint32_t next_rows(const fli_cuda_lane &lane, uint32_t *at)
{
    uint32_t from = *at < lane.n ? *at : 0, n = min(lane.size, lane.n - from);
    *at = from + n;
    return n;
}

/* The scaling of a data set's features, if it is the same for all features. */
template <class T> struct scaling {
    int alike, scaled;
    T scale, shift;
};

template <class T> static __device__ __forceinline__ scaling<T> scaling_of(const fli_cuda_data &data)
{
    uint32_t run = fli_data_run(data);
    scaling<T> by = {!data.scale || (data.segments == 1 && run > 1), data.scale != nullptr, 1, 0};
    if (by.alike && by.scaled) by.scale = (T)data.scale[0], by.shift = (T)data.shift[0];
    return by;
}

} // namespace

#endif
