/* One block of a cluster in a whole turn of a network with one or two hidden layers (wide.cu): the plan of its shared
 * memory, the products of a hidden layer, of which it has some units, and the last layer.
 *
 *     forward    rows x units     over inputs: warps share the rows, and the inputs in WIDE_GROUPS groups
 *     step       inputs x units   over rows: warps share the inputs, 16 at a time
 *     below      rows x inputs    over the block's units: these units' part of the errors of the layer below
 *
 * Inputs are bytes, of stored samples, or floats. A byte is exact in tf32; so in single precision only weights and
 * errors have a high and a low part, and a product is two of those of mma.cuh, not three. The scale of samples is
 * applied to sums, and their shift through the sum of a unit's weights.
 *
 * Weights: a row of inputs per unit, 16 floats more than a multiple of 32 long, so that neighbouring units are 16 banks
 * apart; and of units 2, 3, 6, 7 ... fours of inputs change places with the next but one. Forward, threads read fours
 * of inputs of eight units; in the others, pairs of inputs of units t or t + 4: both without bank conflicts. */
#ifndef FLI_CUDA_KERNELS_WIDE_CUH
#define FLI_CUDA_KERNELS_WIDE_CUH

#include "cuda/kernels/kernels.h"
#include "cuda/kernels/mma.cuh"
#include "cuda/kernels/sample.cuh"

/* ==== the plan: the layout ================================================================================ */

/* Made by the host, the same for all lanes and blocks. */

enum {
    WIDE_ROWS = 64,
    WIDE_TILES_MOST = 7,
    WIDE_TILES_DEEP = 4,   /* of networks with two hidden layers, */
    WIDE_CHUNKS_DEEP = 16, /* and the inputs of the second, in sixteens */
    WIDE_CLASSES_MOST = 32,
    WIDE_HIDDEN = 2,
    WIDE_CLUSTER = 8,
    WIDE_GROUPS = 4, /* of warps that share a sum */
    WIDE_ROUND = 3   /* eights of units added up at a time */
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
    uint32_t cluster, tiles;       /* blocks; eights of units of a block */
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

/* The length of a row of this many floats, aligned to 16 bytes: an odd multiple of `of` (4 or 16). */
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

/* Plans with this number of blocks per cluster; 0: not possible. */
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

/* ==== the products of a hidden layer ====================================================================== */

namespace
{

enum { WARP = 32, GROUPS = WIDE_GROUPS, ROUND = WIDE_ROUND, DOWN = WIDE_ROWS / 16 };
#define NOWHERE WIDE_NOWHERE

/* A block's data of a step. */
typedef struct {
    uint32_t n;         /* rows */
    float scale, shift; /* of samples */
    const float *term;  /* the lane's vectors */
    float *buffer;
    float lr, decay, times, momentum;
} wide_step;

/* The block's units of a layer. */
typedef struct {
    uint32_t first, count;
} wide_units;

static __device__ __forceinline__ wide_units units_of(const wide_layer &l)
{
    wide_units u;
    u.first = fli_cluster_rank() * l.per;
    u.count = min(l.per, l.units - u.first);
    return u;
}

/* The term's value for a weight, in global memory: fetch it some time before its use. */
static __device__ __forceinline__ float term_at(const wide_step &a, uint32_t at, int there)
{
    return a.term && there ? a.term[at] : 0.0f;
}

/* A weight, which is z and has the gradient g; m: its momentum, or NULL.
 * d = g + decay z + times term; m = momentum m + d; z = z - lr m. */
static __device__ __forceinline__ float moved(const wide_step &a, float term, float *m, float z, float g)
{
    g += a.decay * z + a.times * term;
    if (m) g = *m = a.momentum * *m + g;
    return z - a.lr * g;
}

/* The place of four `four` of 16 inputs in a unit's row. */
static __device__ __forceinline__ uint32_t four_at(uint32_t unit, uint32_t four) { return (four ^ (unit & 2)) * 4; }
static __device__ __forceinline__ uint32_t weight_at(const wide_layer &l, uint32_t unit, uint32_t in)
{
    return l.w / 4 + unit * l.stride + (in & ~15u) + four_at(unit, in / 4 % 4) + in % 4;
}

template <int COUNT, class Each> static __device__ __forceinline__ void for_each(Each each)
{
#pragma unroll
    for (int i = 0; i < COUNT; i++) each(i);
}

/* ---- operands -------------------------------------------------------------------------------------------- */

/* Inputs of a product. LOW: they have a low part. */
template <int BYTES, int SPLIT> struct wide_rows {
    enum { LOW = SPLIT && !BYTES, SIZE = BYTES ? 1 : 4 };
    uint32_t hi[4], lo[LOW ? 4 : 1];

    __device__ __forceinline__ void set(int i, float v)
    {
        if (LOW)
            fli_split(v, &hi[i], &lo[LOW ? i : 0]);
        else
            hi[i] = BYTES ? __float_as_uint(v) : fli_tf32(v);
    }
    /* Two or four neighbouring values. */
    static __device__ __forceinline__ void two(const unsigned char *from, float v[2])
    {
        if (BYTES) {
            const uint32_t word = *(const uint16_t *)from;
            v[0] = fli_byte(word, 0), v[1] = fli_byte(word, 1);
        } else {
            const float2 q = *(const float2 *)from;
            v[0] = q.x, v[1] = q.y;
        }
    }
    static __device__ __forceinline__ void four(const unsigned char *from, float v[4])
    {
        if (BYTES) {
            const uint32_t word = *(const uint32_t *)from;
#pragma unroll
            for (int i = 0; i < 4; i++) v[i] = fli_byte(word, i);
        } else {
            const float4 q = *(const float4 *)from;
            v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
        }
    }
};

/* sum[n][m] += x[.][m] y[n], of 16 k: x[0], x[1] are the k 0 and 1, 2 and 3 of each thread; y its four values of the
 * other operand. Independent products are issued first, then those that depend on them. In single precision the sum of
 * 16 products starts from 0 and is added afterwards, because tensor cores do not round sums to the nearest. */
template <int SPLIT, int MT, int NT, class Rows>
static __device__ __forceinline__ void multiply(const Rows (*x)[MT], const float4 *y, float (*sum)[MT][4])
{
    float fresh[NT][MT][4];
    for_each<NT * MT * 4>([&](int i) {
        const int n = i / 4 / MT, m = i / 4 % MT, e = i % 4;
        fresh[n][m][e] = SPLIT ? 0.0f : sum[n][m][e];
    });
#pragma unroll
    for (int p = 0; p < 2; p++) {
        fli_frag_b<SPLIT> b[NT];
#pragma unroll
        for (int n = 0; n < NT; n++) {
            b[n].set(0, p ? y[n].z : y[n].x);
            b[n].set(1, p ? y[n].w : y[n].y);
        }
        if (Rows::LOW) for_each<NT * MT>([&](int i) { fli_mma(fresh[i / MT][i % MT], x[p][i % MT].lo, b[i / MT].hi); });
        if (SPLIT) for_each<NT * MT>([&](int i) { fli_mma(fresh[i / MT][i % MT], x[p][i % MT].hi, b[i / MT].lo); });
        for_each<NT * MT>([&](int i) { fli_mma(fresh[i / MT][i % MT], x[p][i % MT].hi, b[i / MT].hi); });
    }
    for_each<NT * MT * 4>([&](int i) {
        const int n = i / 4 / MT, m = i / 4 % MT, e = i % 4;
        sum[n][m][e] = SPLIT ? sum[n][m][e] + fresh[n][m][e] : fresh[n][m][e];
    });
}

/* The same for NT of y, which y_at(n) reads, two at a time. */
template <int SPLIT, int MT, int NT, class Rows, class At>
static __device__ __forceinline__ void multiply_all(const Rows (*x)[MT], At y_at, float (*sum)[MT][4])
{
#pragma unroll
    for (int n = 0; n + 1 < NT; n += 2) {
        const float4 y[2] = {y_at(n), y_at(n + 1)};
        multiply<SPLIT, MT, 2>(x, y, sum + n);
    }
    if (NT % 2) {
        const float4 y = y_at(NT - 1);
        multiply<SPLIT, MT, 1>(x, &y, sum + NT - 1);
    }
}

template <int COUNT> static __device__ __forceinline__ void clear(float (*sum)[4])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) sum[i][e] = 0;
}

/* ---- forward --------------------------------------------------------------------------------------------- */

/* A warp's part of the inputs of all units, for its MT times 16 rows. */
template <int BYTES, int SPLIT, int NT, int MT>
static __device__ __forceinline__ void forward(const wide_plan &p, const wide_layer &l, unsigned char *memory,
                                               float (*sum)[MT][4])
{
    typedef wide_rows<BYTES, SPLIT> operand;
    const uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP;
    const uint32_t group = warp % GROUPS, top = warp / GROUPS * MT * 16, units = units_of(l).count;
    const unsigned char *x = memory + l.rows + 4 * t * operand::SIZE;
    const float *w = (const float *)(memory + l.w);
    uint32_t row[MT][2], at[NT];
    float whole[NT];
#pragma unroll
    for (int n = 0; n < NT; n++) {
        uint32_t unit = min(8u * n + g, units - 1);
        at[n] = unit * l.stride + four_at(unit, t);
        whole[n] = 0;
        clear<MT>(sum[n]);
    }
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) row[i / 2][i % 2] = min(top + 8 * i + g, p.batch - 1) * l.row_bytes;
    for (uint32_t q = group; q < l.chunks; q += GROUPS) {
        operand v[2][MT];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float got[4];
                operand::four(x + row[m][half] + 16 * q * operand::SIZE, got);
#pragma unroll
                for (int i = 0; i < 4; i++) v[i / 2][m].set(i % 2 * 2 + half, got[i]);
            }
        multiply_all<SPLIT, MT, NT>(
            v,
            [&](int n) {
                const float4 y = *(const float4 *)(w + at[n] + 16 * q);
                if (BYTES) whole[n] += (y.x + y.y) + (y.z + y.w);
                return y;
            },
            sum);
    }
    if (!BYTES) return;
    float *w_sum = (float *)(memory + p.w_sum) + group * NT * 8;
#pragma unroll
    for (int n = 0; n < NT; n++) {
        whole[n] += __shfl_xor_sync(0xffffffffu, whole[n], 1);
        whole[n] += __shfl_xor_sync(0xffffffffu, whole[n], 2);
        if (!top && !t) w_sum[8 * n + g] = whole[n];
    }
}

/* What is added to a unit's products: its bias, and the samples' shift times the sum of its weights. After a barrier it
 * is in the place of the first part of these sums. */
template <int NT>
static __device__ __forceinline__ void make_constants(const wide_plan &p, const wide_layer &l, const wide_step &a,
                                                      unsigned char *memory)
{
    float *w_sum = (float *)(memory + p.w_sum) + threadIdx.x, whole = 0;
    if (threadIdx.x >= NT * 8) return;
    for (int k = 0; k < GROUPS; k++) whole += w_sum[k * NT * 8];
    *w_sum = ((const float *)(memory + l.b))[threadIdx.x] + (a.shift != 0 ? a.shift * whole : 0.0f);
}

/* Adds up the groups' sums, some units at a time, and computes activations. */
template <int BYTES, int NT, int MT, int THREADS>
static __device__ __forceinline__ void activate(const wide_plan &p, const wide_layer &l, const wide_step &a,
                                                unsigned char *memory, const float (*sum)[MT][4])
{
    constexpr int ROUNDS = (NT + ROUND - 1) / ROUND, WIDTH = 8 * ROUND, PAIRS = WIDE_ROWS * WIDTH / 2;
    constexpr int OWN = (PAIRS + THREADS - 1) / THREADS;
    const uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP;
    const uint32_t group = warp % GROUPS, top = warp / GROUPS * MT * 16, units = units_of(l).count;
    float *room = (float *)(memory + p.d), *h = (float *)(memory + l.h);
    float2 done[ROUNDS][OWN];
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
#pragma unroll
        for (int n = r * ROUND; n < NT && n < (r + 1) * ROUND; n++)
#pragma unroll
            for (int m = 0; m < MT; m++) {
                float *to = room + (group * WIDE_ROWS + top + 16 * m + g) * WIDTH + 8 * (n - r * ROUND) + 2 * t;
                *(float2 *)to = make_float2(sum[n][m][0], sum[n][m][1]);
                *(float2 *)(to + 8 * WIDTH) = make_float2(sum[n][m][2], sum[n][m][3]);
            }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const float *from = room + 2 * min(threadIdx.x + i * THREADS, PAIRS - 1u);
            float2 s = make_float2(0, 0);
#pragma unroll
            for (int k = 0; k < GROUPS; k++) {
                const float2 v = *(const float2 *)(from + k * WIDE_ROWS * WIDTH);
                s.x += v.x;
                s.y += v.y;
            }
            done[r][i] = s;
        }
        if (BYTES && !r) make_constants<NT>(p, l, a, memory);
        __syncthreads();
    }
    const float *constant = (const float *)(memory + (BYTES ? p.w_sum : l.b));
    const float scale = BYTES ? a.scale : 1.0f, least = l.relu ? 0.0f : -INFINITY;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++)
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const uint32_t pair = threadIdx.x + i * THREADS, row = pair / (WIDTH / 2);
            const uint32_t unit = r * WIDTH + (pair - row * (WIDTH / 2)) * 2;
            const float2 c = *(const float2 *)(constant + min(unit, 8u * NT - 2));
            const float z[2] = {scale * done[r][i].x + c.x, scale * done[r][i].y + c.y};
            float *to = h + row * l.h_stride + unit;
            if (row < a.n && unit < units) to[0] = z[0] < least ? least : z[0]; /* a NaN stays one */
            if (row < a.n && unit + 1 < units) to[1] = z[1] < least ? least : z[1];
        }
}

/* ---- errors below ---------------------------------------------------------------------------------------- */

/* Errors of units are stored in the order in which `step` reads them: of 16 rows k and 8 units n thread (g, t) has rows
 * t, t + 4, t + 8, t + 12 of unit g / 2 + 4 (g % 2). The place of a row and a unit: */
template <int NT> static __device__ __forceinline__ uint32_t error_at(uint32_t row, uint32_t unit)
{
    uint32_t lane = (unit % 4 * 2 + unit / 4 % 2) * 4 + row % 4;
    return ((row / 16 * NT + unit / 8) * WARP + lane) * 4 + row / 4 % 4;
}

/* 16 MT rows from `top` on of this block's part of the errors at 16 inputs. Row g of tile m, or g + 8 with `half`, has
 * inputs 4 t + i in sum[m][i % 2][2 half + i / 2]. */
template <int SPLIT, int NT, int MT>
static __device__ __forceinline__ void below(const wide_plan &p, const wide_layer &l, const unsigned char *memory,
                                             uint32_t chunk, uint32_t top, float (*sum)[2][4])
{
    const uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, units = units_of(l).count;
    const float *d = (const float *)(memory + p.d);
    const float *w = (const float *)(memory + l.w) + 16 * chunk + g % 2 * 2;
#pragma unroll
    for (int m = 0; m < MT; m++) clear<2>(sum[m]);
#pragma unroll
    for (int n = 0; n < NT; n++) {
        fli_frag_b<SPLIT> b[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t unit = 8 * n + t + 4 * half;
            const float2 v =
                unit < units ? *(const float2 *)(w + unit * l.stride + four_at(unit, g / 2)) : make_float2(0, 0);
            b[0].set(half, v.x);
            b[1].set(half, v.y);
        }
#pragma unroll
        for (int m = 0; m < MT; m++) {
            fli_frag_a<SPLIT> a;
#pragma unroll
            for (int i = 0; i < 4; i++) a.set(i, d[error_at<NT>(top + 16 * m + g + i % 2 * 8, 8 * n + t + i / 2 * 4)]);
#pragma unroll
            for (int i = 0; i < 2; i++) fli_mma_add<SPLIT>(sum[m][i], a, b[i]);
        }
    }
}

/* ---- the step -------------------------------------------------------------------------------------------- */

/* A vector's values at a thread's weights of 16 inputs; v NULL: zeros. */
template <int NT>
static __device__ __forceinline__ void load_pairs(const wide_layer &l, const float *v, uint32_t chunk, float2 (*got)[2])
{
    const uint32_t lane = threadIdx.x % WARP, t = lane % 4, input = 16 * chunk + lane / 4 * 2;
    const wide_units u = units_of(l);
    const float *from = v + l.z_weight + (size_t)u.first * l.inputs + input;
    for_each<2 * NT>([&](int k) {
        const uint32_t unit = 4 * k + t;
        got[k / 2][k % 2] = make_float2(0, 0);
        if (v && unit < u.count && input < l.inputs) got[k / 2][k % 2] = *(const float2 *)(from + unit * l.inputs);
    });
}
/* g += by * v */
template <int NT> static __device__ __forceinline__ void add_pairs(float by, const float2 (*v)[2], float (*g)[4])
{
    for_each<2 * NT>([&](int k) {
        g[k / 2][k % 2] += by * v[k / 2][k % 2].x;
        g[k / 2][k % 2 + 2] += by * v[k / 2][k % 2].y;
    });
}

/* The step of the weights of 16 inputs with gradient g. All are read before any is written, so that a thread waits
 * once. */
template <int BYTES, int NT>
static __device__ __forceinline__ void step_chunk(const wide_layer &l, const wide_step &a, unsigned char *memory,
                                                  uint32_t chunk, float (*g)[4])
{
    const uint32_t lane = threadIdx.x % WARP, i = lane / 4, t = lane % 4, input = 16 * chunk + 2 * i;
    const wide_units u = units_of(l);
    const float *b_grad = (const float *)(memory + l.b_grad) + t;
    float *w = (float *)(memory + l.w) + 16 * chunk + i % 2 * 2;
    float2 z[NT][2];
    if (a.buffer) {
        load_pairs<NT>(l, a.buffer, chunk, z);
        add_pairs<NT>(a.momentum, z, g);
    }
    for_each<2 * NT>([&](int k) {
        const uint32_t unit = min(4 * k + t, u.count - 1);
        z[k / 2][k % 2] = *(const float2 *)(w + unit * l.stride + four_at(unit, i / 2));
    });
    for_each<2 * NT>([&](int k) {
        const float2 was = z[k / 2][k % 2];
        const float more = BYTES && a.shift != 0 ? a.shift * b_grad[4 * k] : 0.0f;
        float *d = g[k / 2] + k % 2;
        d[0] += a.decay * was.x + more;
        d[2] += a.decay * was.y + more;
        z[k / 2][k % 2] = make_float2(was.x - a.lr * d[0], was.y - a.lr * d[2]);
    });
    if (input >= l.inputs) return;
    for_each<2 * NT>([&](int k) {
        const uint32_t unit = 4 * k + t;
        if (unit < u.count) *(float2 *)(w + unit * l.stride + four_at(t, i / 2)) = z[k / 2][k % 2];
    });
    if (!a.buffer) return;
    float *m = a.buffer + l.z_weight + (size_t)u.first * l.inputs + input;
    for_each<2 * NT>([&](int k) {
        const uint32_t unit = 4 * k + t;
        const float *d = g[k / 2] + k % 2;
        if (unit < u.count) *(float2 *)(m + unit * l.inputs) = make_float2(d[0], d[2]);
    });
}

/* The gradient of CHUNKS sixteens of inputs, `apart` from each other, and the step. Its term, in global memory, is
 * fetched during the products. */
template <int BYTES, int SPLIT, int NT, int CHUNKS>
static __device__ __forceinline__ void step_chunks(const wide_plan &p, const wide_layer &l, const wide_step &a,
                                                   unsigned char *memory, uint32_t chunk, uint32_t apart)
{
    typedef wide_rows<BYTES, SPLIT> operand;
    const uint32_t lane = threadIdx.x % WARP, i = lane / 4, t = lane % 4;
    const unsigned char *x = memory + l.rows + (16 * chunk + 2 * i) * operand::SIZE;
    const float4 *d = (const float4 *)(memory + p.d) + lane;
    float sum[NT][CHUNKS][4], g[NT][4];
    float2 term[CHUNKS][NT][2];
    for_each<CHUNKS>([&](int c) { load_pairs<NT>(l, a.term, chunk + c * apart, term[c]); });
#pragma unroll
    for (int n = 0; n < NT; n++) clear<CHUNKS>(sum[n]);
    for (uint32_t k = 0; 16 * k < a.n; k++) {
        operand v[2][CHUNKS];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const unsigned char *row = x + min(16 * k + t + 4 * j, p.batch - 1) * l.row_bytes;
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                float two[2];
                operand::two(row + 16 * c * apart * operand::SIZE, two);
                v[j / 2][c].set(j % 2 * 2, two[0]);
                v[j / 2][c].set(j % 2 * 2 + 1, two[1]);
            }
        }
        multiply_all<SPLIT, CHUNKS, NT>(
            v, [&](int n) { return d[(k * NT + n) * WARP]; }, sum);
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) g[n][e] = BYTES ? sum[n][c][e] * a.scale : sum[n][c][e];
        add_pairs<NT>(a.times, term[c], g);
        step_chunk<BYTES, NT>(l, a, memory, chunk + c * apart, g);
    }
}

/* The step of the biases, one per thread, with term_at and the gradient in b_grad. */
static __device__ __forceinline__ float bias_term(const wide_layer &l, const wide_step &a)
{
    const wide_units u = units_of(l);
    return term_at(a, l.z_bias + u.first + threadIdx.x, l.z_bias != NOWHERE && threadIdx.x < u.count);
}
static __device__ __forceinline__ void step_bias(const wide_layer &l, const wide_step &a, float term,
                                                 unsigned char *memory)
{
    const wide_units u = units_of(l);
    if (l.z_bias == NOWHERE || threadIdx.x >= u.count) return;
    const uint32_t at = l.z_bias + u.first + threadIdx.x;
    float *b = (float *)(memory + l.b) + threadIdx.x, g = ((const float *)(memory + l.b_grad))[threadIdx.x];
    *b = moved(a, term, a.buffer ? a.buffer + at : NULL, *b, g);
}

} // namespace

/* ==== the last layer and softmax ========================================================================== */

/* A block has the weights of all classes from its own units of the layer below, and, like every other block, the biases
 * of all classes. */

namespace
{

enum { ROW_THREADS = 4 };

/* The part of the logits from the block's units; a thread has one row and some classes. */
template <int THREADS>
static __device__ __forceinline__ void part_of_logits(const wide_plan &p, const wide_step &a, uint32_t step,
                                                      unsigned char *memory)
{
    constexpr uint32_t UP = THREADS / WIDE_ROWS, OWN = WIDE_CLASSES_MOST / UP;
    const wide_layer &l = p.layer[p.hidden - 1];
    const uint32_t units = units_of(l).count, row = threadIdx.x % WIDE_ROWS, first = threadIdx.x / WIDE_ROWS;
    const float *h = (const float *)(memory + l.h) + min(row, a.n - 1) * l.h_stride;
    const float *top = (const float *)(memory + p.top) + first * l.h_stride;
    float *to = (float *)(memory + p.part[step % 2]) + row * p.classes + first, s[OWN][4];
    clear<OWN>(s);
#pragma unroll 2
    for (uint32_t u = 0; u < units; u += 4) { /* weights after the last unit are 0 */
        const float4 x = *(const float4 *)(h + u);
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            if (first + i * UP >= p.classes) break;
            const float4 y = *(const float4 *)(top + i * UP * l.h_stride + u);
            s[i][0] += x.x * y.x, s[i][1] += x.y * y.y, s[i][2] += x.z * y.z, s[i][3] += x.w * y.w;
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++)
        if (row < a.n && first + i * UP < p.classes) to[i * UP] = (s[i][0] + s[i][1]) + (s[i][2] + s[i][3]);
}

/* The place of row `row` in a column of errors: rows t, t + 4, t + 8, t + 12 of 16 are neighbours. */
static __device__ __forceinline__ uint32_t place_of(uint32_t row) { return (row & ~15u) + row % 4 * 4 + row / 4 % 4; }

/* Errors of the logits, which every block computes for itself; a row by four threads of a warp. */
static __device__ __forceinline__ void softmax_errors(const wide_plan &p, const wide_step &a, uint32_t step,
                                                      unsigned char *memory)
{
    constexpr int OWN = WIDE_CLASSES_MOST / ROW_THREADS;
    const uint32_t own = threadIdx.x % ROW_THREADS;
    const float *from = (const float *)(memory + p.part[step % 2]), *bias = (const float *)(memory + p.b_top);
    const int32_t *label = (const int32_t *)(memory + p.labels) + step % 2 * p.batch;
    float *error = (float *)(memory + p.error);
    for (uint32_t row = threadIdx.x / ROW_THREADS; row < WIDE_ROWS; row += blockDim.x / ROW_THREADS) {
        const uint32_t there = min(row, a.n - 1);
        float z[OWN], most = -INFINITY, sum = 0;
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) z[i] = bias[min(own + i * ROW_THREADS, p.classes - 1)];
#pragma unroll 4
        for (uint32_t k = 0; k < p.cluster; k++) {
            const float *its = fli_cluster_at(from, k) + there * p.classes;
#pragma unroll
            for (uint32_t i = 0; i < OWN; i++)
                if (i * ROW_THREADS < p.classes) z[i] += its[min(own + i * ROW_THREADS, p.classes - 1)];
        }
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            if (own + i * ROW_THREADS >= p.classes) z[i] = -INFINITY;
            most = max(most, z[i]);
        }
        for (int k = 1; k < ROW_THREADS; k *= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, k));
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            if (i * ROW_THREADS < p.classes) z[i] = expf(z[i] - most);
            if (own + i * ROW_THREADS < p.classes) sum += z[i];
        }
        for (int k = 1; k < ROW_THREADS; k *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
        const float share = 1.0f / (float)a.n, whole = 1.0f / sum;
        const uint32_t correct = (uint32_t)label[there];
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            const uint32_t c = own + i * ROW_THREADS;
            if (c >= p.classes) break;
            const float e = z[i] * whole;
            error[c * WIDE_ROWS + place_of(row)] = row < a.n ? (c == correct ? e - 1 : e) * share : 0.0f;
        }
    }
}

/* Errors of the block's units of the last hidden layer, and their sums, the gradient of the bias. */
template <int NT>
static __device__ __forceinline__ void unit_errors(const wide_plan &p, const wide_step &a, unsigned char *memory)
{
    const wide_layer &l = p.layer[p.hidden - 1];
    const uint32_t units = units_of(l).count, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const float *h = (const float *)(memory + l.h), *top = (const float *)(memory + p.top);
    const float *error = (const float *)(memory + p.error);
    float4 *d = (float4 *)(memory + p.d);
    const float least = l.relu ? 0.0f : -INFINITY;
    for (uint32_t n = threadIdx.x / WARP; n < NT; n += blockDim.x / WARP) {
        const uint32_t unit = 8 * n + g / 2 + 4 * (g % 2), in = min(unit, units - 1);
        float s[DOWN][4], all = 0;
        clear<DOWN>(s);
        for (uint32_t c = 0; c < p.classes; c++) {
            const float w = top[c * l.h_stride + in];
#pragma unroll
            for (int k = 0; k < DOWN; k++) {
                const float4 e = *(const float4 *)(error + c * WIDE_ROWS + 16 * k + 4 * t);
                s[k][0] += e.x * w, s[k][1] += e.y * w, s[k][2] += e.z * w, s[k][3] += e.w * w;
            }
        }
#pragma unroll
        for (int k = 0; k < DOWN; k++) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const uint32_t row = 16 * k + t + 4 * j;
                const float active = h[min(row, a.n - 1) * l.h_stride + in];
                s[k][j] = row < a.n && unit < units && active > least ? s[k][j] : 0.0f;
                all += s[k][j];
            }
            d[(k * NT + n) * WARP + lane] = make_float4(s[k][0], s[k][1], s[k][2], s[k][3]);
        }
        all += __shfl_xor_sync(0xffffffffu, all, 1);
        all += __shfl_xor_sync(0xffffffffu, all, 2);
        if (!t) ((float *)(memory + l.b_grad))[unit] = all;
    }
}

/* The gradient of the last layer in the block's units; a thread has one unit and some classes. */
template <int THREADS> struct top_gradient {
    enum { ACROSS = 64, UP = THREADS / ACROSS, OWN = WIDE_CLASSES_MOST / UP };
    float g[OWN], bias; /* bias: thread i of warp w has that of class w + i (warps) */
    float term[OWN], bias_term;

    /* Whether its number i exists, and its place in the lane's vectors. */
    static __device__ __forceinline__ uint32_t class_of(int i) { return threadIdx.x / ACROSS + i * UP; }
    static __device__ __forceinline__ int has(const wide_plan &p, int i)
    {
        return class_of(i) < p.classes && threadIdx.x % ACROSS < units_of(p.layer[p.hidden - 1]).count;
    }
    static __device__ __forceinline__ uint32_t place(const wide_plan &p, int i)
    {
        const wide_layer &l = p.layer[p.hidden - 1];
        return p.top_weight + class_of(i) * l.units + units_of(l).first + threadIdx.x % ACROSS;
    }
    static __device__ __forceinline__ uint32_t bias_class()
    {
        return threadIdx.x / WARP + threadIdx.x % WARP * (THREADS / WARP);
    }

    __device__ __forceinline__ void ask(const wide_plan &p, const wide_step &a)
    {
        for_each<OWN>([&](int i) { term[i] = term_at(a, place(p, i), has(p, i)); });
        bias_term = term_at(a, p.top_bias + bias_class(), bias_class() < p.classes && p.top_bias != NOWHERE);
    }

    __device__ __forceinline__ void make(const wide_plan &p, const wide_step &a, unsigned char *memory)
    {
        const wide_layer &l = p.layer[p.hidden - 1];
        const float *h = (const float *)(memory + l.h), *error = (const float *)(memory + p.error);
        const uint32_t unit = min(threadIdx.x % ACROSS, units_of(l).count - 1), first = threadIdx.x / ACROSS;
#pragma unroll
        for (int i = 0; i < OWN; i++) g[i] = 0;
        bias = 0;
        for (uint32_t q = 0; q < WIDE_ROWS / 4 && q / 4 * 16 < a.n; q++) {
            float x[4];
#pragma unroll
            for (int j = 0; j < 4; j++) x[j] = h[min(q / 4 * 16 + q % 4 + 4 * j, a.n - 1) * l.h_stride + unit];
#pragma unroll
            for (int i = 0; i < OWN; i++) {
                if (first + i * UP >= p.classes) break;
                const float4 e = *(const float4 *)(error + (first + i * UP) * WIDE_ROWS + 4 * q);
                g[i] += (e.x * x[0] + e.y * x[1]) + (e.z * x[2] + e.w * x[3]);
            }
        }
        for (uint32_t c = threadIdx.x / WARP, i = 0; c < p.classes; c += THREADS / WARP, i++) {
            const float *from = error + c * WIDE_ROWS + threadIdx.x % WARP;
            float all = from[0] + from[WARP];
            for (int k = 1; k < WARP; k *= 2) all += __shfl_xor_sync(0xffffffffu, all, k);
            if (threadIdx.x % WARP == i) bias = all;
        }
    }

    /* After a barrier: the old weights are no longer needed. */
    __device__ __forceinline__ void step(const wide_plan &p, const wide_step &a, unsigned char *memory) const
    {
        const wide_layer &l = p.layer[p.hidden - 1];
        float *top = (float *)(memory + p.top), *b = (float *)(memory + p.b_top), *m = (float *)(memory + p.m_top);
        for_each<OWN>([&](int i) {
            if (!has(p, i)) return;
            float *w = top + class_of(i) * l.h_stride + threadIdx.x % ACROSS;
            *w = moved(a, term[i], a.buffer ? a.buffer + place(p, i) : NULL, *w, g[i]);
        });
        const uint32_t c = bias_class();
        if (c >= p.classes || p.top_bias == NOWHERE) return;
        /* every block has all biases and their momentum */
        b[c] = moved(a, bias_term, a.buffer ? m + c : NULL, b[c], bias);
    }
};

} // namespace

#endif
