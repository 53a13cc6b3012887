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
#include "cuda/small_plan.h"

namespace
{

#ifndef FLI_SMALL_THREADS
#define FLI_SMALL_THREADS 512
#endif

enum { TILE = SMALL_TILE, WARP = SMALL_WARP, ROW_THREADS = 8, THREADS = FLI_SMALL_THREADS, THREADS_F64 = 256 };
#define NOWHERE SMALL_NOWHERE

static __device__ __forceinline__ uint32_t fours(uint32_t n) { return small_fours(n); }

/* n / d by small_per(d). */
static __device__ __forceinline__ uint32_t quotient(uint32_t n, uint32_t per_d)
{
    return per_d ? __umulhi(n, per_d) : n;
}

/* ---- tiles ----------------------------------------------------------------------------------------------- */

template <class T> struct quad {
    T v[TILE];
};

/* A thread's part in a product: one tile, or every `parts`th term of its sum. */
typedef struct {
    uint32_t tile, part, parts, lane;
    uint32_t away; /* lanes between the threads of a tile */
    int real;      /* 0: there are no tiles left, it goes along with the others of its warp */
} share;

/* All tiles of a product, each by `each(share)`. Warps take them in turn. */
template <class Each> static __device__ __forceinline__ void for_tiles(uint32_t tiles, uint32_t log, Each each)
{
    share s;
    s.lane = threadIdx.x % WARP;
    s.parts = 1u << log;
    s.away = WARP >> log;
    s.part = s.lane >> (SMALL_WARP_LOG - log);
    for (uint32_t first = (threadIdx.x / WARP) * s.away; first < tiles; first += (blockDim.x / WARP) * s.away) {
        uint32_t tile = first + (s.lane & (s.away - 1));
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
    if (s.parts == 1) {
        if (!s.real) return;
        emit(0, a[0]); /* not in a loop, which might not be unrolled: registers have no addresses */
        emit(1, a[1]);
        emit(2, a[2]);
        emit(3, a[3]);
        return;
    }
    quad<T> half[2], one[1];
    uint32_t row = s.lane & s.away ? 2 : 0;
    halve<T, 4>(a, s.lane, s.away, half);
    if (s.parts == 2) {
        if (!s.real) return;
        emit(row, half[0]);
        emit(row + 1, half[1]);
        return;
    }
    row += s.lane & 2 * s.away ? 1 : 0;
    halve<T, 2>(half, s.lane, 2 * s.away, one);
    for (uint32_t with = 4 * s.away; with < WARP; with *= 2)
        for (int j = 0; j < TILE; j++) one[0].v[j] += __shfl_xor_sync(0xffffffffu, one[0].v[j], (int)with);
    if (s.real && s.lane < 4 * s.away) emit(row, one[0]);
}

/* By the types that nvcc loads and stores in one piece. */
static __device__ __forceinline__ quad<float> quad_at(const float *p)
{
    const float4 a = *(const float4 *)p;
    return quad<float>{{a.x, a.y, a.z, a.w}};
}
static __device__ __forceinline__ quad<double> quad_at(const double *p)
{
    const double2 a = *(const double2 *)p, b = *(const double2 *)(p + 2);
    return quad<double>{{a.x, a.y, b.x, b.y}};
}
static __device__ __forceinline__ void put_quad(float *p, const quad<float> &a)
{
    *(float4 *)p = make_float4(a.v[0], a.v[1], a.v[2], a.v[3]);
}
static __device__ __forceinline__ void put_quad(double *p, const quad<double> &a)
{
    *(double2 *)p = make_double2(a.v[0], a.v[1]);
    *(double2 *)(p + 2) = make_double2(a.v[2], a.v[3]);
}

template <class T> static __device__ __forceinline__ void clear(quad<T> *a)
{
    for (int i = 0; i < TILE; i++)
        for (int j = 0; j < TILE; j++) a[i].v[j] = 0;
}

/* The rows of a mini-batch. */
typedef struct {
    uint32_t n, down, per_down; /* fours of them, and small_per of that */
} rows_here;

/* ---- the three products ---------------------------------------------------------------------------------- */

/* The outputs of a layer for n rows: to the inputs of the next, or to the errors of the last. */
template <class T>
static __device__ __forceinline__ void forward(const small_layer &l, const T *in, const T *w, const rows_here &r,
                                               T *out, uint32_t stride)
{
    uint32_t terms = fours(l.in + 1);
    const T one = l.one ? 1 : 0, least = l.relu ? (T)0 : -(T)INFINITY;
    for_tiles(r.down * fours(l.out), l.forward, [&](const share &s) {
        uint32_t right = quotient(s.tile, r.per_down), top = s.tile - right * r.down, unit = right * TILE;
        const T *a[TILE], *b[TILE];
        quad<T> sum[TILE];
        clear(sum);
        for (uint32_t i = 0; i < TILE; i++) {
            a[i] = in + min(top + i * r.down, r.n - 1) * l.stride;
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
            uint32_t row = top + i * r.down;
            if (row >= r.n) return;
            for (uint32_t j = 0; j < TILE; j++) {
                T rest = unit + j == l.out ? one : (T)0;
                v.v[j] = unit + j < l.out ? max(v.v[j], least) : rest;
            }
            put_quad(out + row * stride + unit, v);
        });
    });
}

/* The errors at the inputs of a layer. */
template <class T>
static __device__ __forceinline__ void backward(const small_layer &l, const T *error, const T *w, const T *in,
                                                const rows_here &r, T *below, uint32_t stride)
{
    uint32_t across = fours(l.in), terms = fours(l.out);
    const T least = l.masked ? (T)0 : -(T)INFINITY;
    for_tiles(r.down * across, l.backward, [&](const share &s) {
        uint32_t top = quotient(s.tile, l.per_below), left = (s.tile - top * across) * TILE;
        const T *d[TILE];
        quad<T> sum[TILE];
        clear(sum);
        for (uint32_t i = 0; i < TILE; i++) d[i] = error + min(top + i * r.down, r.n - 1) * l.error_stride;
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
            uint32_t row = top + i * r.down;
            if (row >= r.n) return;
            const quad<T> h = quad_at(in + row * l.stride + left);
            for (uint32_t j = 0; j < TILE; j++) v.v[j] = left + j < l.in && h.v[j] > least ? v.v[j] : (T)0;
            put_quad(below + row * stride + left, v);
        });
    });
}

/* The gradient of four units in four inputs at a time, by update(unit, input, it). */
template <class T, class Update>
static __device__ __forceinline__ void gradient(const small_layer &l, const T *error, const T *in, uint32_t n,
                                                Update update)
{
    uint32_t across = fours(l.in + 1);
    for_tiles(across * fours(l.out), l.step, [&](const share &s) {
        uint32_t up = quotient(s.tile, l.per_in), unit = up * TILE, left = (s.tile - up * across) * TILE;
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
static __device__ __forceinline__ uint32_t place_of(const small_layer &l, uint32_t unit, uint32_t i)
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
static __device__ __forceinline__ void step_quad(const small_plan &p, const small_layer &l, const fli_cuda_lane &lane,
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
        const quad<T> m = quad_at(memory + p.momentum + at);
        for (int j = 0; j < TILE; j++) d.v[j] += by.momentum * m.v[j];
        put_quad(memory + p.momentum + at, d);
    } else if (lane.buffer) {
        for (uint32_t j = 0; j < TILE; j++) {
            uint32_t to = place_of(l, unit, left + j);
            if (to != NOWHERE) d.v[j] = ((T *)lane.buffer)[to] = by.momentum * ((T *)lane.buffer)[to] + d.v[j];
        }
    }
    for (int j = 0; j < TILE; j++) z.v[j] -= by.lr * d.v[j];
    put_quad(memory + at, z);
}

/* ---- losses ---------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ float exp_of(float a) { return expf(a); }
static __device__ __forceinline__ double exp_of(double a) { return exp(a); }

/* Logits become errors of the mean cross-entropy, a row by eight threads of a warp. */
template <class T>
static __device__ __forceinline__ void softmax_errors(const small_layer &l, const int32_t *label, uint32_t n, T *z)
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
static __device__ __forceinline__ void logistic_errors(const small_layer &l, const int32_t *label, uint32_t n, T *z)
{
    for (uint32_t r = threadIdx.x; r < n; r += blockDim.x) {
        T logit = z[r * l.error_stride], e = exp_of(logit > 0 ? -logit : logit);
        T likely = (logit > 0 ? (T)1 : e) / (1 + e);
        z[r * l.error_stride] = (likely - (T)label[r]) / (T)n;
    }
}

/* ---- samples --------------------------------------------------------------------------------------------- */

/* How many rows the next mini-batch has. at: where in the epoch the one before it has ended. */
static __device__ __forceinline__ uint32_t next_rows(const fli_cuda_lane &lane, uint32_t *at)
{
    uint32_t from = *at < lane.n ? *at : 0, n = min(lane.size, lane.n - from);
    *at = from + n;
    return n;
}

/* The numbers of a step's n samples on their way to shared memory. */
static __device__ __forceinline__ void fetch_ids(const small_plan &p, const fli_cuda_lane &lane, uint32_t step,
                                                 uint32_t n, unsigned char *memory)
{
    if (step >= lane.steps) return;
    uint32_t *ids = (uint32_t *)(memory + p.ids) + step % 2 * p.batch;
    const uint32_t *from = lane.order + (size_t)step * lane.stride;
    for (uint32_t r = threadIdx.x; r < n; r += blockDim.x) fli_async4(ids + r, from + r, 1);
}

/* The samples themselves, as they are stored, and their labels. */
static __device__ __forceinline__ void fetch_rows(const small_plan &p, const fli_cuda_data &data, uint32_t step,
                                                  uint32_t n, unsigned char *memory)
{
    const uint32_t *ids = (const uint32_t *)(memory + p.ids) + step % 2 * p.batch;
    int32_t *labels = (int32_t *)(memory + p.labels) + step % 2 * p.batch;
    for (uint32_t r = threadIdx.x; r < n; r += blockDim.x) fli_async4(labels + r, data.label + ids[r], 1);
    if (p.raw == NOWHERE) return;
    for (uint32_t r = threadIdx.x >> p.fetch; r < n; r += blockDim.x >> p.fetch) {
        const unsigned char *from = (const unsigned char *)data.x + (size_t)ids[r] * p.row_bytes;
        unsigned char *to = memory + p.raw + r * p.row_bytes;
        uint32_t at = (threadIdx.x & ((1u << p.fetch) - 1)) * p.piece, by = p.piece << p.fetch;
        if (p.piece == 16)
            for (; at < p.row_bytes; at += by) fli_async16(to + at, from + at, 1);
        else
            for (; at < p.row_bytes; at += by) fli_async4(to + at, from + at, 1);
    }
}

/* Four stored values, of which `count` are there. */
template <class STORED>
static __device__ __forceinline__ void load_stored(const STORED *from, uint32_t count, STORED v[TILE])
{
    for (uint32_t j = 0; j < TILE; j++) v[j] = j < count ? from[j] : (STORED)0;
}
static __device__ __forceinline__ void load_stored(const uint8_t *from, uint32_t count, uint8_t v[TILE])
{
    uint32_t word = 0;
    if (count >= TILE && (size_t)from % 4 == 0)
        word = *(const uint32_t *)from;
    else
        for (uint32_t j = 0; j < TILE && j < count; j++) word |= (uint32_t)from[j] << (8 * j);
    for (uint32_t j = 0; j < TILE; j++) v[j] = (uint8_t)(word >> (8 * j));
}

/* Four features of a sample, normalised; behind the last stands the 1 of a layer with a bias. */
template <class T, class STORED>
static __device__ __forceinline__ quad<T> take_quad(const small_layer &l, const fli_cuda_data &data, const STORED *row,
                                                    uint32_t left, uint32_t run)
{
    STORED v[TILE];
    quad<T> q;
    load_stored(row + left, l.in - left, v);
    double scale = data.scale ? data.scale[0] : 1, shift = data.scale ? data.shift[0] : 0;
    for (uint32_t j = 0; j < TILE; j++) {
        uint32_t at = left + j;
        if (at >= l.in)
            q.v[j] = at == l.in && l.z_bias != NOWHERE ? 1 : 0;
        else if (!data.scale)
            q.v[j] = (T)v[j];
        else if (run >= l.in)
            q.v[j] = fli_scaled<T, STORED>(v[j], scale, shift, run == 1);
        else
            q.v[j] = fli_scaled<T, STORED>(v[j], data.scale[at / run], data.shift[at / run], run == 1);
    }
    return q;
}

/* Stored values become the inputs of the first layer. */
template <class T, class STORED>
static __device__ __forceinline__ void take_rows(const small_plan &p, const fli_cuda_data &data, uint32_t step,
                                                 uint32_t n, unsigned char *memory)
{
    const small_layer &l = p.layer[0];
    const uint32_t *ids = (const uint32_t *)(memory + p.ids) + step % 2 * p.batch;
    uint32_t run = fli_data_run(data), own = threadIdx.x & ((1u << p.take) - 1);
    for (uint32_t r = threadIdx.x >> p.take; r < n; r += blockDim.x >> p.take) {
        const unsigned char *row = p.raw != NOWHERE ? memory + p.raw + r * p.row_bytes
                                                    : (const unsigned char *)data.x + (size_t)ids[r] * p.row_bytes;
        T *x = (T *)memory + l.input + r * l.stride;
        for (uint32_t left = own * TILE; left < l.in; left += TILE << p.take)
            put_quad(x + left, take_quad<T, STORED>(l, data, (const STORED *)row, left, run));
    }
}

/* ---- turns ----------------------------------------------------------------------------------------------- */

/* Every number of the weights: what(its place in shared memory, its place in the lane's vectors or NOWHERE). */
template <class What> static __device__ __forceinline__ void for_weights(const small_plan &p, What what)
{
    for (uint32_t k = 0; k < p.depth; k++) {
        const small_layer &l = p.layer[k];
        uint32_t units = small_units(&p, k);
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
        const small_layer &l = p.layer[k];
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
    const rows_here rows = {n, fours(n), small_per(fours(n))};
    for (uint32_t k = 0; k < p.depth; k++) {
        const small_layer &l = p.layer[k];
        int last = k + 1 == p.depth;
        forward(l, memory + l.input, memory + l.weight, rows, memory + (last ? l.error : p.layer[k + 1].input),
                last ? l.error_stride : p.layer[k + 1].stride);
        __syncthreads();
    }
    const small_layer &top = p.layer[p.depth - 1];
    if (p.logistic)
        logistic_errors(top, label, n, memory + top.error);
    else
        softmax_errors(top, label, n, memory + top.error);
    __syncthreads();
    for (uint32_t k = p.depth - 1; k > 0; k--) {
        const small_layer &l = p.layer[k], &under = p.layer[k - 1];
        backward(l, memory + l.error, memory + l.weight, memory + l.input, rows, memory + under.error,
                 under.error_stride);
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
        const small_layer &l = p.layer[k];
        gradient(l, memory + l.error, memory + l.input, n, [&](uint32_t unit, uint32_t left, const quad<T> &g) {
            step_quad(p, l, lane, by, memory, unit, left, g);
        });
    }
}

template <class T, class STORED>
__global__ void __launch_bounds__(sizeof(T) == 8 ? THREADS_F64 : THREADS, 1)
    turns(const small_plan p, const fli_cuda_data data, const fli_cuda_lane *lanes)
{
    FLI_DYNAMIC(memory);
    const fli_cuda_lane lane = lanes[blockIdx.x];
    if (!lane.n || !lane.steps) return;
    uint32_t at = 0, n = next_rows(lane, &at), next = next_rows(lane, &at);
    begin_turn(p, lane, (T *)memory);
    fetch_ids(p, lane, 0, n, memory);
    fetch_ids(p, lane, 1, next, memory);
    fli_async_commit();
    fli_async_wait<0>();
    __syncthreads();
    fetch_rows(p, data, 0, n, memory);
    fli_async_commit();
    for (uint32_t step = 0; step < lane.steps; step++) {
        uint32_t after = next_rows(lane, &at);
        fli_async_wait<0>();
        __syncthreads();
        take_rows<T, STORED>(p, data, step, n, memory);
        __syncthreads();
        if (step + 1 < lane.steps) fetch_rows(p, data, step + 1, next, memory);
        fetch_ids(p, lane, step + 2, after, memory);
        fli_async_commit();
        errors_of(p, (const int32_t *)(memory + p.labels) + step % 2 * p.batch, n, (T *)memory);
        step_all(p, lane, step, n, (T *)memory);
        n = next;
        next = after;
    }
    __syncthreads();
    end_turn(p, lane, (const T *)memory);
}

template <class T, class STORED>
void launch(fli_stream s, const small_plan &p, const fli_cuda_data *data, const fli_cuda_lane *lane, uint32_t lanes)
{
    auto kernel = turns<T, STORED>;
    FLI_LAUNCH(s, kernel, lanes, sizeof(T) == 8 ? THREADS_F64 : THREADS, p.bytes, p, *data, lane);
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

static int plan_for(fli_cuda_type type, const fli_network *net, const fli_cuda_data *data, uint32_t batch,
                    small_plan *p)
{
    int wide = type == FLI_CUDA_F64;
    return small_plan_make(wide ? THREADS_F64 : THREADS, wide ? sizeof(double) : sizeof(float), net, data, batch, p);
}

int fli_cuda_small_fits(fli_cuda_type type, const fli_network *net, const fli_cuda_data *data, uint32_t batch)
{
    small_plan p;
    return plan_for(type, net, data, batch, &p);
}

void fli_cuda_small_turns(fli_stream s, fli_cuda_type type, const fli_network *net, const fli_cuda_data *data,
                          const fli_cuda_lane *lane, uint32_t lanes, uint32_t batch)
{
    small_plan p;
    if (!lanes || !plan_for(type, net, data, batch, &p)) return;
    if (type == FLI_CUDA_F64)
        launch_stored<double>(s, p, data, lane, lanes);
    else
        launch_stored<float>(s, p, data, lane, lanes);
}
