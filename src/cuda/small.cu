/* Whole turns of small networks: a block takes a lane from its first step to its last, with weights, samples of the
 * mini-batch, activations and errors in shared memory. Only samples travel, and those of the next step come while this
 * one is computed.
 *
 * All three products of a layer are made of tiles of 4 x 4 numbers, one thread each, by loads of four numbers:
 *     forward    H = A W'   rows x out  over in
 *     backward   D' = D W   rows x in   over out
 *     step       G = D' A   out x in    over rows
 * so no matrix has to be turned around. Where there are fewer tiles than threads, 2 to 32 threads of a warp share the
 * sum of a tile and add their parts up with shuffles.
 *
 * An activation has one number more than the layer has inputs, a 1, and the weights of a unit one more, its bias. Rows
 * are padded with zeros to whole fours, and to an odd number of them: threads that read from neighbouring rows then
 * meet in no bank. Zeros stay zeros by themselves: their gradient is 0. */
#include "cuda/kernels.h"
#include "cuda/sample.cuh"

namespace
{

#ifndef FLI_SMALL_THREADS
#define FLI_SMALL_THREADS 512
#endif

enum { TILE = 4, WARP = 32, ROW_THREADS = 8 };
#define NOWHERE 0xffffffffu

template <class T> struct block_of {
    enum { threads = sizeof(T) == 4 ? FLI_SMALL_THREADS : 256 };
};

/* ---- the plan: what lies where in shared memory ---------------------------------------------------------- */

typedef struct {
    uint32_t in, out;
    uint32_t stride, error_stride; /* of the rows of weights and inputs, and of errors; in reals, like these: */
    uint32_t weight, input, error; /* where they start; errors are those at the output, and the last are logits first */
    uint32_t z_weight, z_bias;     /* in the lane's vectors; NOWHERE: no bias */
    uint32_t masked;               /* the inputs come from ReLU */
    uint32_t relu;                 /* behind it */
    uint32_t one;                  /* what stands behind the outputs: the 1 of a next layer with a bias */
} layer_plan;

typedef struct {
    uint32_t depth, batch, logistic;
    uint32_t term, momentum;   /* in reals: of the size and the order of the weights; NOWHERE: in global memory */
    uint32_t weights;          /* reals of all layers */
    uint32_t ids, labels, raw; /* in bytes; raw NOWHERE: samples do not come in advance */
    uint32_t row_bytes, piece; /* of a stored sample; of a copy */
    uint32_t bytes;
    layer_plan layer[FLI_NET_LAYERS_MAX];
} small_plan;

__host__ __device__ inline uint32_t fours(uint32_t n) { return (n + TILE - 1) / TILE; }
uint32_t odd_stride(uint32_t n) { return TILE * (fours(n) | 1); }

size_t stored_bytes(const fli_cuda_data *d) { return d->kind == 0 ? 1 : d->kind == 1 ? 4 : 8; }

void plan_layer(const fli_network *net, size_t k, layer_plan *p)
{
    const fli_net_layer *l = &net->layer[k];
    p->in = (uint32_t)fli_net_in(l);
    p->out = (uint32_t)fli_net_out(l);
    p->stride = odd_stride(p->in + 1);
    p->error_stride = odd_stride(p->out);
    p->z_weight = (uint32_t)l->weight;
    p->z_bias = l->biased ? (uint32_t)l->bias : NOWHERE;
    p->relu = l->relu != 0;
    p->masked = k && net->layer[k - 1].relu;
    p->one = k + 1 < net->depth && net->layer[k + 1].biased;
}

/* Weights first, then what depends on the batch. Backward passes read weights in whole fours of units. */
uint32_t plan_matrices(const fli_network *net, uint32_t batch, small_plan *p)
{
    uint32_t at = 0;
    for (uint32_t k = 0; k < p->depth; k++) {
        layer_plan *l = &p->layer[k];
        plan_layer(net, k, l);
        l->weight = at;
        at += (k ? TILE * fours(l->out) : l->out) * l->stride;
    }
    p->weights = at;
    for (uint32_t k = 0; k < p->depth; k++) {
        layer_plan *l = &p->layer[k];
        l->input = at;
        l->error = at + batch * l->stride;
        at = l->error + batch * l->error_stride;
    }
    return at;
}

/* What may lie elsewhere takes what room is left, in the order of its use. */
void plan_rest(uint32_t real, const fli_cuda_data *data, size_t limit, small_plan *p)
{
    size_t row = data->length * stored_bytes(data), vector = (size_t)p->weights * real, raw = row * p->batch;
    p->row_bytes = (uint32_t)row;
    p->piece = row % 16 == 0 ? 16 : 4;
    p->raw = p->term = p->momentum = NOWHERE;
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

/* Whether there is a plan. */
int plan_small(fli_cuda_type type, const fli_network *net, const fli_cuda_data *data, uint32_t batch, small_plan *p)
{
    uint32_t real = type == FLI_CUDA_F64 ? 8 : 4;
    size_t limit = fli_shared_limit(), least = net->parameters + (size_t)batch * net->features;
    if (!batch || net->depth < 1 || least * real > limit || !fli_data_simple(data, 1)) return 0;
    for (size_t k = 0; k < net->depth; k++)
        if (net->layer[k].kind != FLI_NET_FC || (size_t)batch * fli_net_out(&net->layer[k]) * real > limit) return 0;
    p->depth = (uint32_t)net->depth;
    p->batch = batch;
    p->logistic = net->loss == FLI_NET_LOGISTIC;
    p->ids = plan_matrices(net, batch, p) * real;
    p->labels = p->ids + 2 * batch * 4;
    p->bytes = (p->labels + 2 * batch * 4 + 15) / 16 * 16;
    if (p->bytes > limit) return 0;
    plan_rest(real, data, limit, p);
    return 1;
}

/* ---- tiles ----------------------------------------------------------------------------------------------- */

template <class T> struct __align__(16) quad { T v[TILE]; };

/* A thread's part in a product: one tile, or a part of its sum. */
typedef struct {
    uint32_t tile, part, parts, lane;
    int real; /* 0: there are no tiles left, it goes along with the others of its warp */
} share;

/* Into how many parts the sums of so many tiles are divided, each of `terms` terms. */
static __device__ __forceinline__ uint32_t parts_for(uint32_t tiles, uint32_t terms)
{
    uint32_t parts = 1;
    while (parts < WARP && 2 * parts * tiles <= blockDim.x && 2 * parts <= terms) parts *= 2;
    return parts;
}

/* All tiles of a product, each by `each(share)`. Warps take them in turn. */
template <class Each> static __device__ __forceinline__ void for_tiles(uint32_t tiles, uint32_t terms, Each each)
{
    share s;
    s.parts = parts_for(tiles, terms);
    s.lane = threadIdx.x % WARP;
    uint32_t group = WARP / s.parts;
    s.part = s.lane / group;
    for (uint32_t first = threadIdx.x / WARP * group; first < tiles; first += blockDim.x / WARP * group) {
        uint32_t tile = first + s.lane % group;
        s.real = tile < tiles;
        s.tile = s.real ? tile : tiles - 1;
        each(s);
    }
}

/* Halves of a tile are exchanged with the thread `with` lanes away: both keep the sums of one. */
template <class T, int ROWS>
static __device__ __forceinline__ void halve(const quad<T> *a, uint32_t lane, uint32_t with, quad<T> *half)
{
    int high = (lane & with) != 0;
    for (int i = 0; i < ROWS / 2; i++)
        for (int j = 0; j < TILE; j++) {
            T keep = high ? a[i + ROWS / 2].v[j] : a[i].v[j], give = high ? a[i].v[j] : a[i + ROWS / 2].v[j];
            half[i].v[j] = keep + __shfl_xor_sync(0xffffffffu, give, (int)with);
        }
}

/* Adds up the parts of a tile; emit(i, row i of it) is called for each of its rows, by one of the threads. */
template <class T, class Emit>
static __device__ __forceinline__ void collect(const quad<T> *a, const share &s, Emit emit)
{
    uint32_t away = WARP / s.parts;
    if (s.parts == 1) {
        for (uint32_t i = 0; i < TILE; i++)
            if (s.real) emit(i, a[i]);
        return;
    }
    quad<T> half[2], one[1];
    uint32_t row = s.lane & away ? 2 : 0;
    halve<T, 4>(a, s.lane, away, half);
    if (s.parts == 2) {
        for (uint32_t i = 0; i < 2; i++)
            if (s.real) emit(row + i, half[i]);
        return;
    }
    row += s.lane & 2 * away ? 1 : 0;
    halve<T, 2>(half, s.lane, 2 * away, one);
    for (uint32_t with = 4 * away; with < WARP; with *= 2)
        for (int j = 0; j < TILE; j++) one[0].v[j] += __shfl_xor_sync(0xffffffffu, one[0].v[j], (int)with);
    if (s.real && s.lane < 4 * away) emit(row, one[0]);
}

template <class T> static __device__ __forceinline__ const quad<T> &quad_at(const T *p) { return *(const quad<T> *)p; }

template <class T> static __device__ __forceinline__ void clear(quad<T> *a)
{
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++) a[i].v[j] = 0;
}

/* ---- the three products ---------------------------------------------------------------------------------- */

/* The outputs of a layer for n rows: to the inputs of the next, or to the errors of the last. */
template <class T>
static __device__ __forceinline__ void forward(const layer_plan &l, const T *in, const T *w, uint32_t n, T *out,
                                               uint32_t stride)
{
    uint32_t down = fours(n), terms = fours(l.in + 1);
    for_tiles(down * fours(l.out), terms, [&](const share &s) {
        uint32_t top = s.tile % down, unit = s.tile / down * TILE;
        const T *a[TILE], *b[TILE];
        quad<T> sum[TILE];
        clear(sum);
        for (uint32_t i = 0; i < TILE; i++) {
            a[i] = in + min(top + i * down, n - 1) * l.stride;
            b[i] = w + min(unit + i, l.out - 1) * l.stride;
        }
        for (uint32_t q = s.part; q < terms; q += s.parts) {
            quad<T> x[TILE];
            for (int i = 0; i < TILE; i++) x[i] = quad_at(a[i] + q * TILE);
            for (int j = 0; j < TILE; j++) {
                const quad<T> y = quad_at(b[j] + q * TILE);
                for (int i = 0; i < TILE; i++)
                    for (int c = 0; c < TILE; c++) sum[i].v[j] += x[i].v[c] * y.v[c];
            }
        }
        collect(sum, s, [&](uint32_t i, quad<T> v) {
            uint32_t row = top + i * down;
            if (row >= n) return;
            for (uint32_t j = 0; j < TILE; j++) {
                if (l.relu && !(v.v[j] > 0)) v.v[j] = 0;
                if (unit + j >= l.out) v.v[j] = unit + j == l.out ? (T)l.one : 0;
            }
            *(quad<T> *)(out + row * stride + unit) = v;
        });
    });
}

/* The errors at the inputs of a layer. */
template <class T>
static __device__ __forceinline__ void backward(const layer_plan &l, const T *error, const T *w, const T *in,
                                                uint32_t n, T *below, uint32_t stride)
{
    uint32_t down = fours(n), across = fours(l.in), terms = fours(l.out);
    for_tiles(down * across, terms, [&](const share &s) {
        uint32_t top = s.tile / across, left = s.tile % across * TILE;
        const T *d[TILE];
        quad<T> sum[TILE];
        clear(sum);
        for (uint32_t i = 0; i < TILE; i++) d[i] = error + min(top + i * down, n - 1) * l.error_stride;
        for (uint32_t q = s.part; q < terms; q += s.parts) {
            quad<T> y[TILE];
            for (uint32_t c = 0; c < TILE; c++) y[c] = quad_at(w + (q * TILE + c) * l.stride + left);
            for (int i = 0; i < TILE; i++) {
                const quad<T> x = quad_at(d[i] + q * TILE);
                for (int c = 0; c < TILE; c++)
                    for (int j = 0; j < TILE; j++) sum[i].v[j] += x.v[c] * y[c].v[j];
            }
        }
        collect(sum, s, [&](uint32_t i, quad<T> v) {
            uint32_t row = top + i * down;
            if (row >= n) return;
            const quad<T> h = quad_at(in + row * l.stride + left);
            for (uint32_t j = 0; j < TILE; j++)
                if (left + j >= l.in || (l.masked && !(h.v[j] > 0))) v.v[j] = 0;
            *(quad<T> *)(below + row * stride + left) = v;
        });
    });
}

/* The gradient of four units in four inputs at a time, by update(unit, input, it). */
template <class T, class Update>
static __device__ __forceinline__ void gradient(const layer_plan &l, const T *error, const T *in, uint32_t n,
                                                Update update)
{
    uint32_t across = fours(l.in + 1);
    for_tiles(across * fours(l.out), n, [&](const share &s) {
        uint32_t unit = s.tile / across * TILE, left = s.tile % across * TILE;
        quad<T> sum[TILE];
        clear(sum);
        for (uint32_t r = s.part; r < n; r += s.parts) {
            const quad<T> d = quad_at(error + r * l.error_stride + unit), x = quad_at(in + r * l.stride + left);
            for (int i = 0; i < TILE; i++)
                for (int j = 0; j < TILE; j++) sum[i].v[j] += d.v[i] * x.v[j];
        }
        collect(sum, s, [&](uint32_t i, const quad<T> &g) {
            if (unit + i < l.out) update(unit + i, left, g);
        });
    });
}

/* ---- the step -------------------------------------------------------------------------------------------- */

/* Where number `i` of a unit's weights is in the lane's vectors: an input's weight, the bias, or NOWHERE. */
static __device__ __forceinline__ uint32_t place_of(const layer_plan &l, uint32_t unit, uint32_t i)
{
    if (i < l.in) return l.z_weight + unit * l.in + i;
    return i == l.in && l.z_bias != NOWHERE ? l.z_bias + unit : NOWHERE;
}

/* Of one step; `decay` is wd, with rho where there is an anchor. */
template <class T> struct step_rates {
    T lr, decay, rho, momentum;
};

template <class T> static __device__ __forceinline__ T term_of(const fli_cuda_lane &lane, uint32_t at, T rho)
{
    T shift = lane.shift ? ((const T *)lane.shift)[at] : 0;
    return lane.anchor ? shift - rho * ((const T *)lane.anchor)[at] : shift;
}

/* z = z - lr m, m = momentum m + g + decay z + term, for four weights of a unit. */
template <class T>
static __device__ __forceinline__ void step_quad(const small_plan &p, const layer_plan &l, const fli_cuda_lane &lane,
                                                 const step_rates<T> &by, T *memory, uint32_t unit, uint32_t left,
                                                 quad<T> d)
{
    uint32_t at = l.weight + unit * l.stride + left;
    quad<T> z = quad_at(memory + at);
    for (int j = 0; j < TILE; j++) d.v[j] += by.decay * z.v[j];
    if (p.term != NOWHERE) {
        const quad<T> c = quad_at(memory + p.term + at);
        for (int j = 0; j < TILE; j++) d.v[j] += c.v[j];
    } else if (lane.shift || lane.anchor) {
        for (uint32_t j = 0; j < TILE; j++) {
            uint32_t from = place_of(l, unit, left + j);
            if (from != NOWHERE) d.v[j] += term_of(lane, from, by.rho);
        }
    }
    if (lane.buffer && p.momentum != NOWHERE) {
        quad<T> *m = (quad<T> *)(memory + p.momentum + at);
        for (int j = 0; j < TILE; j++) d.v[j] += by.momentum * m->v[j];
        *m = d;
    } else if (lane.buffer) {
        for (uint32_t j = 0; j < TILE; j++) {
            uint32_t to = place_of(l, unit, left + j);
            if (to != NOWHERE) d.v[j] = ((T *)lane.buffer)[to] = by.momentum * ((T *)lane.buffer)[to] + d.v[j];
        }
    }
    for (int j = 0; j < TILE; j++) z.v[j] -= by.lr * d.v[j];
    *(quad<T> *)(memory + at) = z;
}

/* ---- losses ---------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ float exp_of(float a) { return expf(a); }
static __device__ __forceinline__ double exp_of(double a) { return exp(a); }

/* Logits become errors of the mean cross-entropy, a row by eight threads of a warp. */
template <class T>
static __device__ __forceinline__ void softmax_errors(const layer_plan &l, const int32_t *label, uint32_t n, T *z)
{
    uint32_t own = threadIdx.x % ROW_THREADS, per_turn = blockDim.x / ROW_THREADS;
    T share_of_mean = (T)1 / (T)n;
    for (uint32_t first = 0; first < n; first += per_turn) {
        uint32_t r = first + threadIdx.x / ROW_THREADS;
        T *row = z + min(r, n - 1) * l.error_stride;
        T most = row[own < l.out ? own : 0], sum = 0;
        for (uint32_t c = own + ROW_THREADS; c < l.out; c += ROW_THREADS) most = max(most, row[c]);
        for (int k = 1; k < ROW_THREADS; k *= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, k));
        for (uint32_t c = own; c < l.out; c += ROW_THREADS) sum += exp_of(row[c] - most);
        for (int k = 1; k < ROW_THREADS; k *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
        if (r >= n) continue;
        for (uint32_t c = own; c < l.out; c += ROW_THREADS) {
            T e = exp_of(row[c] - most) / sum;
            row[c] = (c == (uint32_t)label[r] ? e - 1 : e) * share_of_mean;
        }
    }
}

template <class T>
static __device__ __forceinline__ void logistic_errors(const layer_plan &l, const int32_t *label, uint32_t n, T *z)
{
    for (uint32_t r = threadIdx.x; r < n; r += blockDim.x) {
        T logit = z[r * l.error_stride], e = exp_of(logit > 0 ? -logit : logit);
        T likely = (logit > 0 ? (T)1 : e) / (1 + e);
        z[r * l.error_stride] = (likely - (T)label[r]) / (T)n;
    }
}

/* ---- samples --------------------------------------------------------------------------------------------- */

/* The numbers of a step's samples on their way to shared memory. */
static __device__ __forceinline__ void fetch_ids(const small_plan &p, const fli_cuda_lane &lane, uint32_t step,
                                                 unsigned char *memory)
{
    if (step >= lane.steps) return;
    uint32_t n = fli_rows_plain(&lane, step), *ids = (uint32_t *)(memory + p.ids) + step % 2 * p.batch;
    const uint32_t *from = lane.order + (size_t)step * lane.stride;
    for (uint32_t r = threadIdx.x; r < n; r += blockDim.x) fli_async4(ids + r, from + r, 1);
}

/* The samples themselves, as they are stored, and their labels. */
static __device__ __forceinline__ void fetch_rows(const small_plan &p, const fli_cuda_data &data,
                                                  const fli_cuda_lane &lane, uint32_t step, unsigned char *memory)
{
    if (step >= lane.steps) return;
    uint32_t n = fli_rows_plain(&lane, step);
    const uint32_t *ids = (const uint32_t *)(memory + p.ids) + step % 2 * p.batch;
    int32_t *labels = (int32_t *)(memory + p.labels) + step % 2 * p.batch;
    for (uint32_t r = threadIdx.x; r < n; r += blockDim.x) fli_async4(labels + r, data.label + ids[r], 1);
    if (p.raw == NOWHERE) return;
    uint32_t pieces = p.row_bytes / p.piece;
    for (uint32_t i = threadIdx.x; i < n * pieces; i += blockDim.x) {
        uint32_t r = i / pieces, at = (i - r * pieces) * p.piece;
        const unsigned char *from = (const unsigned char *)data.x + (size_t)ids[r] * p.row_bytes + at;
        unsigned char *to = memory + p.raw + r * p.row_bytes + at;
        if (p.piece == 16)
            fli_async16(to, from, 1);
        else
            fli_async4(to, from, 1);
    }
}

/* Stored values become the inputs of the first layer, four at a time. */
template <class T, class STORED>
static __device__ __forceinline__ void take_rows(const small_plan &p, const fli_cuda_data &data, uint32_t n,
                                                 const uint32_t *ids, unsigned char *memory)
{
    const layer_plan &l = p.layer[0];
    T *x = (T *)memory + l.input, one = l.z_bias != NOWHERE ? 1 : 0;
    uint32_t across = fours(l.in), run = fli_data_run(data), uniform = run >= l.in;
    double scale = data.scale ? data.scale[0] : 1, shift = data.scale ? data.shift[0] : 0;
    for (uint32_t i = threadIdx.x; i < n * across; i += blockDim.x) {
        uint32_t r = i / across, left = (i - r * across) * TILE;
        const STORED *row =
            (const STORED *)(p.raw != NOWHERE ? memory + p.raw + r * p.row_bytes
                                              : (const unsigned char *)data.x + (size_t)ids[r] * p.row_bytes);
        quad<T> v;
        for (uint32_t j = 0; j < TILE; j++) {
            uint32_t at = left + j, s = uniform ? 0 : at / run;
            if (at >= l.in)
                v.v[j] = at == l.in ? one : 0;
            else if (!data.scale)
                v.v[j] = (T)row[at];
            else
                v.v[j] = fli_scaled<T, STORED>(row[at], uniform ? scale : data.scale[s],
                                               uniform ? shift : data.shift[s], run == 1);
        }
        *(quad<T> *)(x + r * l.stride + left) = v;
    }
}

/* ---- turns ----------------------------------------------------------------------------------------------- */

/* Every number of the weights: what(its place in shared memory, its place in the lane's vectors or NOWHERE). */
template <class What> static __device__ __forceinline__ void for_weights(const small_plan &p, What what)
{
    for (uint32_t k = 0; k < p.depth; k++) {
        const layer_plan &l = p.layer[k];
        uint32_t units = k ? TILE * fours(l.out) : l.out;
        for (uint32_t i = threadIdx.x; i < units * l.stride; i += blockDim.x) {
            uint32_t unit = i / l.stride, input = i - unit * l.stride;
            what(l.weight + i, unit < l.out ? place_of(l, unit, input) : NOWHERE);
        }
    }
}

/* Weights, what a step adds to the gradient, momentum; and activations whose last number is 1. */
template <class T>
static __device__ __forceinline__ void begin_turn(const small_plan &p, const fli_cuda_lane &lane, T *memory)
{
    for_weights(p, [&](uint32_t at, uint32_t from) {
        int there = from != NOWHERE;
        memory[at] = there ? ((const T *)lane.z)[from] : 0;
        if (p.term != NOWHERE) memory[p.term + at] = there ? term_of(lane, from, (T)lane.rho) : 0;
        if (p.momentum != NOWHERE) memory[p.momentum + at] = there && lane.buffer ? ((T *)lane.buffer)[from] : 0;
    });
    for (uint32_t k = 0; k < p.depth; k++) {
        const layer_plan &l = p.layer[k];
        for (uint32_t i = threadIdx.x; i < p.batch * l.stride; i += blockDim.x)
            memory[l.input + i] = i % l.stride == l.in && l.z_bias != NOWHERE ? 1 : 0;
    }
}

template <class T>
static __device__ __forceinline__ void end_turn(const small_plan &p, const fli_cuda_lane &lane, const T *memory)
{
    for_weights(p, [&](uint32_t at, uint32_t to) {
        if (to == NOWHERE) return;
        ((T *)lane.z)[to] = memory[at];
        if (lane.buffer && p.momentum != NOWHERE) ((T *)lane.buffer)[to] = memory[p.momentum + at];
    });
}

/* From the inputs of the first layer, n rows, to the errors of all of them. */
template <class T>
static __device__ __forceinline__ void errors_of(const small_plan &p, const int32_t *label, uint32_t n, T *memory)
{
    for (uint32_t k = 0; k < p.depth; k++) {
        const layer_plan &l = p.layer[k];
        int last = k + 1 == p.depth;
        forward(l, memory + l.input, memory + l.weight, n, memory + (last ? l.error : p.layer[k + 1].input),
                last ? l.error_stride : p.layer[k + 1].stride);
        __syncthreads();
    }
    const layer_plan &top = p.layer[p.depth - 1];
    if (p.logistic)
        logistic_errors(top, label, n, memory + top.error);
    else
        softmax_errors(top, label, n, memory + top.error);
    __syncthreads();
    for (uint32_t k = p.depth - 1; k > 0; k--) {
        const layer_plan &l = p.layer[k], &under = p.layer[k - 1];
        backward(l, memory + l.error, memory + l.weight, memory + l.input, n, memory + under.error, under.error_stride);
        __syncthreads();
    }
}

template <class T>
static __device__ __forceinline__ void step_all(const small_plan &p, const fli_cuda_lane &lane, uint32_t step,
                                                uint32_t n, T *memory)
{
    step_rates<T> by;
    by.rho = lane.anchor ? (T)lane.rho : 0;
    by.lr = (T)(lane.rates ? lane.rates[2 * step] : lane.lr);
    by.decay = (T)(lane.rates ? lane.rates[2 * step + 1] : lane.wd) + by.rho;
    by.momentum = (T)lane.momentum;
    for (uint32_t k = 0; k < p.depth; k++) {
        const layer_plan &l = p.layer[k];
        gradient(l, memory + l.error, memory + l.input, n, [&](uint32_t unit, uint32_t left, const quad<T> &g) {
            step_quad(p, l, lane, by, memory, unit, left, g);
        });
    }
}

template <class T, class STORED>
__global__ void __launch_bounds__(block_of<T>::threads, 1)
    turns(const small_plan p, const fli_cuda_data data, const fli_cuda_lane *lanes)
{
    FLI_DYNAMIC(memory);
    const fli_cuda_lane &lane = lanes[blockIdx.x];
    if (!lane.n) return;
    begin_turn(p, lane, (T *)memory);
    fetch_ids(p, lane, 0, memory);
    fetch_ids(p, lane, 1, memory);
    fli_async_commit();
    fli_async_wait<0>();
    __syncthreads();
    fetch_rows(p, data, lane, 0, memory);
    fli_async_commit();
    for (uint32_t step = 0; step < lane.steps; step++) {
        uint32_t n = fli_rows_plain(&lane, step), turn = step % 2 * p.batch;
        fli_async_wait<0>();
        __syncthreads();
        take_rows<T, STORED>(p, data, n, (const uint32_t *)(memory + p.ids) + turn, memory);
        __syncthreads();
        fetch_rows(p, data, lane, step + 1, memory);
        fetch_ids(p, lane, step + 2, memory);
        fli_async_commit();
        errors_of(p, (const int32_t *)(memory + p.labels) + turn, n, (T *)memory);
        step_all(p, lane, step, n, (T *)memory);
    }
    __syncthreads();
    end_turn(p, lane, (const T *)memory);
}

template <class T, class STORED>
void launch(fli_stream s, const small_plan &p, const fli_cuda_data *data, const fli_cuda_lane *lane, uint32_t lanes)
{
    auto kernel = turns<T, STORED>;
    FLI_LAUNCH(s, kernel, lanes, block_of<T>::threads, p.bytes, p, *data, lane);
}

template <class T>
void launch_stored(fli_stream s, const small_plan &p, const fli_cuda_data *data, const fli_cuda_lane *lane,
                   uint32_t lanes)
{
    if (data->kind == 0)
        launch<T, uint8_t>(s, p, data, lane, lanes);
    else if (data->kind == 1)
        launch<T, float>(s, p, data, lane, lanes);
    else
        launch<T, double>(s, p, data, lane, lanes);
}

} // namespace

int fli_cuda_small_fits(fli_cuda_type type, const fli_network *net, const fli_cuda_data *data, uint32_t batch)
{
    small_plan p;
    return plan_small(type, net, data, batch, &p);
}

void fli_cuda_small_turns(fli_stream s, fli_cuda_type type, const fli_network *net, const fli_cuda_data *data,
                          const fli_cuda_lane *lane, uint32_t lanes, uint32_t batch)
{
    small_plan p;
    if (!lanes || !plan_small(type, net, data, batch, &p)) return;
    if (type == FLI_CUDA_F64)
        launch_stored<double>(s, p, data, lane, lanes);
    else
        launch_stored<float>(s, p, data, lane, lanes);
}
