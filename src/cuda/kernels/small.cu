/* Whole turns of small networks: a block takes a lane from its first step to its last, with weights, samples of the
 * mini-batch, activations and errors in shared memory. Only samples are fetched, those of the next step while this one
 * is computed.
 *
 * The three products of a layer forward H = A W' rows x out over in backward D' = D W rows x in over out step G = D' A
 * out x in over rows share one piece of code, for either orientation of a matrix. A warp makes tiles of 16 x 16
 * numbers, in single precision on tensor cores (mma.cuh): small_product.cuh. Networks with one hidden layer of few
 * units have a kernel of their own, small_one.cuh.
 *
 * An activation has one number more than the layer has inputs, a 1, and the weights of a unit one more, its bias. Rows
 * have room for an odd number of fours: threads that read neighbouring rows, or every other row, then use different
 * banks. */
#include "cuda/kernels/small_one.cuh"
#include "cuda/kernels/small_plan.h"
#include "cuda/kernels/small_product.cuh"

namespace
{

enum { ROW_THREADS = 8, THREADS = 512, THREADS_F64 = 256 };

template <class T> struct quad {
    T v[QUAD];
};
static __device__ __forceinline__ void put_quad(float *p, const quad<float> &a)
{
    fli_shared4(p, make_float4(a.v[0], a.v[1], a.v[2], a.v[3]));
}
static __device__ __forceinline__ void put_quad(double *p, const quad<double> &a)
{
    *(double2 *)p = make_double2(a.v[0], a.v[1]);
    *(double2 *)(p + 2) = make_double2(a.v[2], a.v[3]);
}

/* ---- passes ---------------------------------------------------------------------------------------------- */

/* Forward: the outputs of a layer for n rows, to the inputs of the next or the errors of the last. Backward: the errors
 * at the inputs of a layer, 0 where these were not greater than `least`. */
template <class T>
static __device__ __forceinline__ void pass_rows(const small_layer &l, T *memory, uint32_t n, int back, uint32_t out,
                                                 uint32_t stride)
{
    const uint32_t width = back ? l.in : l.out;
    const T least = (back ? l.masked : l.relu) ? (T)0 : -(T)INFINITY;
    const product x = {{back ? l.error : l.input, n, back ? l.error_stride : l.stride, 1},
                       {l.weight, width, back ? 1 : l.stride, back ? l.stride : 1},
                       back ? l.out : l.in + 1};
    const uint32_t parts = back ? 1 : parts_of(x);
    auto put = [&](uint32_t row, uint32_t column, pair<T> v, uint32_t which) {
        T *to = memory + out + row * stride + column;
        if (which) {
            const pair<T> before = pair_at(to);
            for (int c = 0; c < 2; c++) v.v[c] += before.v[c];
        }
        const pair<T> h = back ? pair_at(memory + l.input + row * l.stride + column) : v;
        for (int c = 0; c < 2; c++) v.v[c] = which + 1 == parts && h.v[c] <= least ? (T)0 : v.v[c];
        if (column + 1 < width)
            put_pair(to, v);
        else
            to[0] = v.v[0]; /* keeps the 1 that may follow the last output */
    };
    if (parts > 1)
        make_parts(memory, x, parts, put);
    else
        make_tiles(memory, x, back ? l.per_below : l.per_out,
                   [&](uint32_t row, uint32_t column, const pair<T> &v, uint32_t) { put(row, column, v, 0); });
}

/* ---- the step -------------------------------------------------------------------------------------------- */

/* Where number `i` of a unit's weights is in the lane's vectors: an input's weight, the bias, or NOWHERE. */
static __device__ __forceinline__ uint32_t place_of(const small_layer &l, uint32_t unit, uint32_t i)
{
    if (i < l.in) return l.z_weight + unit * l.in + i;
    return i == l.in && l.z_bias != NOWHERE ? l.z_bias + unit : NOWHERE;
}

/* The terms of a thread's weights of a tile, if they did not fit into shared memory: fetched before the tile's
 * products. */
template <class T> struct far_terms {
    pair<T> v[4]; /* in the order of emit_tile */

    __device__ __forceinline__ void ask(const small_layer &l, const fli_cuda_lane &lane, uint32_t top, uint32_t left)
    {
        const uint32_t g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
#pragma unroll
        for (uint32_t k = 0; k < 8; k++) {
            const uint32_t unit = top + g + k / 2 % 2 * HALF,
                           at = place_of(l, unit, left + k / 4 * HALF + 2 * t + k % 2);
            v[k / 2].v[k % 2] = unit < l.out && at != NOWHERE ? term_of<T>(lane, at) : 0;
        }
    }
};

/* Momentum of one weight, if it did not fit into shared memory. */
template <class T>
static __device__ __forceinline__ T momentum_far(const small_layer &l, const fli_cuda_lane &lane, T momentum,
                                                 uint32_t unit, uint32_t input, T d)
{
    uint32_t at = place_of(l, unit, input);
    if (at == NOWHERE) return d;
    return ((T *)lane.buffer)[at] = momentum * ((T *)lane.buffer)[at] + d;
}

/* z = z - lr m, m = momentum m + g + decay z + times term, for two weights of a unit; far: their terms if these are not
 * in shared memory. Numbers after the last weight of a row are not used. */
template <class T>
static __device__ __forceinline__ void step_pair(const small_plan &p, const small_layer &l, const fli_cuda_lane &lane,
                                                 const step_rates<T> &by, T *memory, uint32_t unit, uint32_t input,
                                                 const pair<T> &far, pair<T> d)
{
    uint32_t at = l.weight + unit * l.stride + input;
    pair<T> z = pair_at(memory + at);
    const pair<T> term = p.term != NOWHERE ? pair_at(memory + p.term + at) : far;
    for (int c = 0; c < 2; c++) d.v[c] += by.decay * z.v[c] + by.times * term.v[c];
    if (lane.buffer && p.momentum == NOWHERE) {
        for (uint32_t c = 0; c < 2; c++) d.v[c] = momentum_far(l, lane, by.momentum, unit, input + c, d.v[c]);
    } else if (lane.buffer) {
        const pair<T> m = pair_at(memory + p.momentum + at);
        for (int c = 0; c < 2; c++) d.v[c] += by.momentum * m.v[c];
        put_pair(memory + p.momentum + at, d);
    }
    for (int c = 0; c < 2; c++) z.v[c] -= by.lr * d.v[c];
    put_pair(memory + at, z);
}

/* ---- losses ---------------------------------------------------------------------------------------------- */

/* Logits become errors of the mean cross-entropy, a row by eight threads of a warp. */
template <class T>
static __device__ __forceinline__ void softmax_errors(const small_layer &l, const int32_t *label, uint32_t n, T *z)
{
    uint32_t own = threadIdx.x % ROW_THREADS, per_turn = blockDim.x / ROW_THREADS;
    T share_of_mean = (T)1 / (T)n;
#pragma unroll 1
    for (uint32_t first = 0; first < n; first += per_turn) {
        uint32_t r = first + threadIdx.x / ROW_THREADS;
        T *row = z + min(r, n - 1) * l.error_stride;
        T most = row[own < l.out ? own : 0], sum = 0;
#pragma unroll 1
        for (uint32_t c = own + ROW_THREADS; c < l.out; c += ROW_THREADS) most = max(most, row[c]);
        for (int k = 1; k < ROW_THREADS; k *= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, k));
#pragma unroll 1
        for (uint32_t c = own; c < l.out; c += ROW_THREADS) sum += exp_of(row[c] - most);
        for (int k = 1; k < ROW_THREADS; k *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
        if (r >= n) continue;
#pragma unroll 1
        for (uint32_t c = own; c < l.out; c += ROW_THREADS) {
            T e = exp_of(row[c] - most) / sum;
            row[c] = (c == (uint32_t)label[r] ? e - 1 : e) * share_of_mean;
        }
    }
}

template <class T>
static __device__ __forceinline__ void logistic_errors(const small_layer &l, const int32_t *label, uint32_t n, T *z)
{
#pragma unroll 1
    for (uint32_t r = threadIdx.x; r < n; r += blockDim.x) {
        T logit = z[r * l.error_stride], e = exp_of(logit > 0 ? -logit : logit);
        T likely = (logit > 0 ? (T)1 : e) / (1 + e);
        z[r * l.error_stride] = (likely - (T)label[r]) / (T)n;
    }
}

/* ---- samples --------------------------------------------------------------------------------------------- */

/* Fetches the numbers of a step's n samples to shared memory. */
static __device__ __forceinline__ void fetch_ids(const small_plan &p, const fli_cuda_lane &lane, uint32_t step,
                                                 uint32_t n, unsigned char *memory)
{
    if (step >= lane.steps) return;
    uint32_t *ids = (uint32_t *)(memory + p.ids) + step % 2 * p.batch;
    const uint32_t *from = lane.order + (size_t)step * lane.stride;
#pragma unroll 1
    for (uint32_t r = threadIdx.x; r < n; r += blockDim.x) fli_async4(ids + r, from + r, 1);
}

/* Fetches the stored samples and their labels. */
static __device__ __forceinline__ void fetch_rows(const small_plan &p, const fli_cuda_data &data, uint32_t step,
                                                  uint32_t n, unsigned char *memory)
{
    const uint32_t *ids = (const uint32_t *)(memory + p.ids) + step % 2 * p.batch;
    int32_t *labels = (int32_t *)(memory + p.labels) + step % 2 * p.batch;
#pragma unroll 1
    for (uint32_t r = threadIdx.x; r < n; r += blockDim.x) fli_async4(labels + r, data.label + ids[r], 1);
    if (p.raw == NOWHERE) return;
#pragma unroll 1
    for (uint32_t r = threadIdx.x >> p.fetch; r < n; r += blockDim.x >> p.fetch) {
        const unsigned char *from = (const unsigned char *)data.x + (size_t)ids[r] * p.row_bytes;
        unsigned char *to = memory + p.raw + r * p.row_bytes;
        uint32_t at = (threadIdx.x & ((1u << p.fetch) - 1)) * p.piece, by = p.piece << p.fetch;
        if (p.piece == 16)
#pragma unroll 1
            for (; at < p.row_bytes; at += by) fli_async16(to + at, from + at, 1);
        else
#pragma unroll 1
            for (; at < p.row_bytes; at += by) fli_async4(to + at, from + at, 1);
    }
}

/* Four stored values being fetched; from `count` on they repeat the last one. WORD: four bytes, aligned to 4. */
template <int WORD, class STORED> struct few {
    STORED v[QUAD];
    __device__ __forceinline__ void load(const STORED *from, uint32_t count)
    {
        for (uint32_t j = 0; j < QUAD; j++) v[j] = from[min(j, count - 1)];
    }
    template <class T> __device__ __forceinline__ T at(uint32_t j) const { return (T)v[j]; }
};
template <> struct few<1, uint8_t> {
    uint32_t word;
    __device__ __forceinline__ void load(const uint8_t *from, uint32_t) { word = *(const uint32_t *)from; }
    template <class T> __device__ __forceinline__ T at(uint32_t j) const { return (T)fli_byte(word, j); }
};

/* Four features of a sample, normalised; after the last comes the 1 of a layer with a bias. */
template <class T, class FEW>
static __device__ __forceinline__ quad<T> scale_quad(const small_layer &l, const scaling<T> &by, const FEW &v,
                                                     uint32_t left)
{
    quad<T> q;
    for (uint32_t j = 0; j < QUAD; j++) {
        const T value = v.template at<T>(j);
        q.v[j] = by.scaled ? fli_mul_add(value, by.scale, by.shift) : value;
    }
    if (left + QUAD > l.in)
        for (uint32_t j = 0; j < QUAD; j++)
            if (left + j >= l.in) q.v[j] = left + j == l.in && l.z_bias != NOWHERE ? 1 : 0;
    return q;
}

/* Samples whose features are scaled alike, four features by a thread, with several loads in flight. NEAR: they are in
 * shared memory, in rows of multiples of four bytes. A thread without work repeats the last four. */
template <int NEAR, class T, class STORED>
static __device__ __forceinline__ void take_alike(const small_plan &p, const fli_cuda_data &data, const scaling<T> &by,
                                                  const uint32_t *ids, uint32_t n, unsigned char *memory)
{
    constexpr uint32_t AT_ONCE = sizeof(STORED) == 8 ? 2 : 4;
    const small_layer &l = p.layer[0];
    const uint32_t quads = small_fours(l.in), last = n * quads - 1;
#pragma unroll 1
    for (uint32_t first = threadIdx.x; first <= last; first += AT_ONCE * blockDim.x) {
        few<NEAR, STORED> v[AT_ONCE];
        uint32_t row[AT_ONCE], left[AT_ONCE];
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++) {
            const uint32_t item = min(first + i * blockDim.x, last);
            row[i] = quotient(item, p.per_quads);
            left[i] = (item - row[i] * quads) * QUAD;
            const unsigned char *from = NEAR ? memory + p.raw + row[i] * p.row_bytes
                                             : (const unsigned char *)data.x + (size_t)ids[row[i]] * p.row_bytes;
            v[i].load((const STORED *)from + left[i], l.in - left[i]);
        }
#pragma unroll
        for (uint32_t i = 0; i < AT_ONCE; i++)
            put_quad((T *)memory + l.input + row[i] * l.stride + left[i], scale_quad(l, by, v[i], left[i]));
    }
}

/* Stored values become the inputs of the first layer. */
template <class T, class STORED>
static __device__ __forceinline__ void take_rows(const small_plan &p, const fli_cuda_data &data, const scaling<T> &by,
                                                 uint32_t step, uint32_t n, unsigned char *memory)
{
    const small_layer &l = p.layer[0];
    const uint32_t *ids = (const uint32_t *)(memory + p.ids) + step % 2 * p.batch, near = p.raw != NOWHERE;
    if (by.alike && near) return take_alike<1, T, STORED>(p, data, by, ids, n, memory);
    if (by.alike) return take_alike<0, T, STORED>(p, data, by, ids, n, memory);
#pragma unroll 1
    for (uint32_t r = threadIdx.x / WARP; r < n; r += blockDim.x / WARP) {
        const STORED *from = near ? (const STORED *)(memory + p.raw + r * p.row_bytes)
                                  : (const STORED *)((const unsigned char *)data.x + (size_t)ids[r] * p.row_bytes);
        T *x = (T *)memory + l.input + r * l.stride;
#pragma unroll 1
        for (uint32_t j = threadIdx.x % WARP; j < l.in; j += WARP)
            x[j] = fli_feature<T, STORED>(data, fli_data_run(data), from[j], j);
    }
}

/* ---- turns ----------------------------------------------------------------------------------------------- */

/* Every number of the weights: what(its place in shared memory, its place in the lane's vectors or NOWHERE). */
template <class What> static __device__ __forceinline__ void for_weights(const small_plan &p, What what)
{
#pragma unroll 1
    for (uint32_t k = 0; k < p.depth; k++) {
        const small_layer &l = p.layer[k];
/* loads from global memory overlap */
#pragma unroll 4
        for (uint32_t i = threadIdx.x; i < l.out * l.stride; i += blockDim.x) {
            uint32_t unit = i / l.stride, input = i - unit * l.stride;
            what(l.weight + i, place_of(l, unit, input));
        }
    }
}

/* Loads weights, terms of the step and momentum; sets the 1 at the end of activations. */
template <class T>
static __device__ __forceinline__ void begin_turn(const small_plan &p, const fli_cuda_lane &lane, T *memory)
{
    const T *start = (const T *)(lane.start ? lane.start : lane.z);
    for_weights(p, [&](uint32_t at, uint32_t from) {
        int there = from != NOWHERE;
        memory[at] = there ? __ldcg(start + from) : 0;
        if (p.term != NOWHERE) memory[p.term + at] = there ? term_of<T>(lane, from) : 0;
        if (p.momentum != NOWHERE)
            memory[p.momentum + at] = there && lane.buffer ? __ldcg((const T *)lane.buffer + from) : 0;
    });
#pragma unroll 1
    for (uint32_t k = 0; k < p.depth; k++) {
        const small_layer &l = p.layer[k];
#pragma unroll 1
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
    const uint32_t last = p.depth - 1;
#pragma unroll 1
    for (uint32_t i = 0; i <= 2 * last; i++) { /* forward, then backward */
        int back = i > last;
        uint32_t k = back ? 2 * last + 1 - i : i;
        const small_layer &l = p.layer[k], &to = p.layer[back ? k - 1 : k < last ? k + 1 : k];
        int inner = !back && k < last;
        pass_rows(l, memory, n, back, inner ? to.input : to.error, inner ? to.stride : to.error_stride);
        __syncthreads();
        if (i != last) continue;
        if (p.logistic)
            logistic_errors(l, label, n, memory + l.error);
        else
            softmax_errors(l, label, n, memory + l.error);
        __syncthreads();
    }
}

/* The gradient of every weight, and the step with it. The tiles of all layers are one list. */
template <class T>
static __device__ __forceinline__ void step_all(const small_plan &p, const fli_cuda_lane &lane, uint32_t step,
                                                uint32_t n, T *memory)
{
    step_rates<T> by;
    by.lr = (T)(lane.rates ? lane.rates[2 * step] : lane.lr);
    by.decay = (T)((lane.rates ? lane.rates[2 * step + 1] : lane.wd) + lane.rho);
    by.times = (T)lane.times;
    by.momentum = (T)lane.momentum;
    far_terms<T> far = {};
    uint32_t k = 0, tile = threadIdx.x / WARP;
#pragma unroll 1
    for (;; tile += blockDim.x / WARP) {
        for (; k < p.depth && tile >= p.layer[k].tiles; k++) tile -= p.layer[k].tiles;
        if (k == p.depth) return;
        const small_layer &l = p.layer[k];
        uint32_t down = quotient(tile, l.per_in), across = small_tiles(l.in + 1);
        const product x = {{l.error, l.out, 1, l.error_stride}, {l.input, l.in + 1, 1, l.stride}, n};
        const uint32_t top = down * TILE, left = (tile - down * across) * TILE;
        if (p.term == NOWHERE && lane.term) far.ask(l, lane, top, left);
        make_tile(memory, x, top, left, [&](uint32_t unit, uint32_t input, const pair<T> &g, uint32_t place) {
            step_pair(p, l, lane, by, memory, unit, input, far.v[place], g);
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
    const scaling<T> by = scaling_of<T>(data);
    uint32_t at = 0, n = next_rows(lane, &at), next = next_rows(lane, &at);
    begin_turn(p, lane, (T *)memory);
    fetch_ids(p, lane, 0, n, memory);
    fetch_ids(p, lane, 1, next, memory);
    fli_async_commit();
    fli_async_wait<0>();
    __syncthreads();
    fetch_rows(p, data, 0, n, memory);
    fli_async_commit();
#pragma unroll 1
    for (uint32_t step = 0; step < lane.steps; step++) {
        uint32_t after = next_rows(lane, &at);
        fli_async_wait<0>();
        __syncthreads();
        take_rows<T, STORED>(p, data, by, step, n, memory);
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
void launch(fli_cuda_stream s, const small_plan &p, const fli_cuda_data *data, const fli_cuda_lane *lane,
            uint32_t lanes)
{
    auto kernel = turns<T, STORED>;
    FLI_LAUNCH(s, kernel, lanes, sizeof(T) == 8 ? THREADS_F64 : THREADS, p.bytes, p, *data, lane);
}

template <class T>
void launch_stored(fli_cuda_stream s, const small_plan &p, const fli_cuda_data *data, const fli_cuda_lane *lane,
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
    return small_plan_make(type == FLI_CUDA_F64 ? sizeof(double) : sizeof(float), net, data, batch, p);
}

int fli_cuda_small_fits(fli_cuda_type type, const fli_network *net, const fli_cuda_data *data, uint32_t batch)
{
    small_plan p;
    return plan_for(type, net, data, batch, &p);
}

void fli_cuda_small_turns(fli_cuda_stream s, fli_cuda_type type, const fli_network *net, const fli_cuda_data *data,
                          const fli_cuda_lane *lane, uint32_t lanes, uint32_t batch)
{
    small_plan p;
    if (!lanes || !plan_for(type, net, data, batch, &p)) return;
    if (type != FLI_CUDA_F64 && one_fits(&p, data)) {
        if (data->kind == 0)
            one_launch<uint8_t>(s, p, data, lane, lanes);
        else
            one_launch<float>(s, p, data, lane, lanes);
    } else if (type == FLI_CUDA_F64)
        launch_stored<double>(s, p, data, lane, lanes);
    else
        launch_stored<float>(s, p, data, lane, lanes);
}
