/* The end of a network in one kernel: the last layer's outputs, the softmax error of the rows, the error below it and
 * the layer's step. One block has one lane, with all the layer's data in shared memory: separate kernels would be so
 * small that launching them would take longer than computing.
 *
 * Most of its time is waiting. So all reads from global memory are issued at the beginning, and loops are not unrolled,
 * because instructions that run once have to be fetched, too. Products are made on tensor cores, in single precision
 * also for tf32: mma.cuh defines which thread holds what, with g and t.
 *
 * With many lanes the kernel includes the layer below: last_two. */
#include "cuda/kernels/dense_product.cuh"
#include "cuda/kernels/dense_step.cuh"
#include "cuda/kernels/update.cuh"

#include <math.h>

/* ==== the layer below the last one ======================================================================== */

/* The work before and after the last layer if the same kernel computes the layer below. A block has a lane, with all
 * its rows in shared memory. The weights stay in global memory: one warp needs each of them and reads it into
 * registers, 16 units or 16 inputs at a time.
 *
 * Of 16 k a thread takes 4 t ... 4 t + 3, as in dense_product.cuh. */

/* KT: eights of rows. Strides with few bank conflicts: 20 more than a multiple of 32. */
template <int KT_> struct middle_cut {
    enum { KT = KT_, ROWS = 8 * KT, MOST = 240, X_STRIDE = 244, E_STRIDE = 244, WC = 1 };
};

/* sum[n] += 16 k of 16 rows of A and all rows of `rows`, which are `stride` apart. */
template <int SPLIT, class C, int STRIDE>
static __device__ __forceinline__ void middle_multiply(const fc_quads<1> &a, const float *rows, float (*sum)[1][4])
{
    constexpr int FIRST = C::KT > 4 ? (C::KT + 1) / 2 : C::KT;
    const float *from = rows + threadIdx.x % 32 / 4 * STRIDE + threadIdx.x % 4 * 4;
    float4 b[FIRST];
#pragma unroll
    for (int n = 0; n < FIRST; n++) b[n] = *(const float4 *)(from + 8 * n * STRIDE);
    fc_multiply<SPLIT, 1, FIRST>(a, b, sum);
    if constexpr (FIRST < C::KT) {
#pragma unroll
        for (int n = FIRST; n < C::KT; n++) b[n - FIRST] = *(const float4 *)(from + 8 * n * STRIDE);
        fc_multiply<SPLIT, 1, C::KT - FIRST>(a, b, sum + FIRST);
    }
}

/* Weights of units `unit` + g and + 8, inputs k + 4 t ...; or of inputs `in` + 2 g and + 1, units k + 4 t ... */
static __device__ __forceinline__ void middle_forward_a(const fc_matrix &w, uint32_t unit, uint32_t k, fc_quads<1> &a)
{
    const uint32_t g = threadIdx.x % 32 / 4, c = k + threadIdx.x % 4 * 4;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t u = unit + g + 8 * half;
        float4 v = make_float4(0, 0, 0, 0);
        if (u < w.rows && c < w.width) v = *(const float4 *)(w.at + (size_t)u * w.width + c);
        a.q[0][half][0] = v.x, a.q[0][half][1] = v.y, a.q[0][half][2] = v.z, a.q[0][half][3] = v.w;
    }
}
static __device__ __forceinline__ void middle_back_a(const fc_matrix &w, uint32_t in, uint32_t k, fc_quads<1> &a)
{
    const uint32_t c = in + threadIdx.x % 32 / 4 * 2, u = k + threadIdx.x % 4 * 4;
#pragma unroll
    for (int j = 0; j < 4; j++) {
        float2 v = make_float2(0, 0);
        if (u + j < w.rows && c < w.width) v = *(const float2 *)(w.at + (size_t)(u + j) * w.width + c);
        a.q[0][0][j] = v.x, a.q[0][1][j] = v.y;
    }
}

/* A warp's sums over all `width` k: next_a(k, a) reads 16 of A, AHEAD pieces before they are used. */
template <int SPLIT, class C, int STRIDE, class A>
static __device__ __forceinline__ void middle_sums(uint32_t width, const float *rows, A next_a, float (*sum)[1][4])
{
    constexpr int AHEAD = 3;
    fc_quads<1> a[AHEAD];
#pragma unroll
    for (int i = 0; i < C::KT * 4; i++) sum[i / 4][0][i % 4] = 0;
#pragma unroll
    for (int i = 0; i < AHEAD; i++) next_a(16 * i, a[i]);
    for (uint32_t k = 0; k < width; k += 16 * AHEAD)
#pragma unroll
        for (int i = 0; i < AHEAD; i++) {
            if (k + 16 * i < width) middle_multiply<SPLIT, C, STRIDE>(a[i], rows + k + 16 * i, sum);
            next_a(k + 16 * (i + AHEAD), a[i]);
        }
}

/* The layer's outputs, by a warp for 16 units: h (row by row, E_STRIDE apart), zeros after the last row and unit. */
template <int SPLIT, class C>
static __device__ __forceinline__ void middle_forward(const fc_layer &l, const float *z, const float *x, uint32_t count,
                                                      float *h)
{
    const uint32_t unit = threadIdx.x / 32 * 16, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const fc_matrix w = {z + l.weight, l.units, l.inputs};
    float sum[C::KT][1][4];
    if (unit >= l.units) return;
    middle_sums<SPLIT, C, C::X_STRIDE>(
        l.inputs, x, [&](uint32_t k, fc_quads<1> &a) { middle_forward_a(w, unit, k, a); }, sum);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t u = unit + g + 8 * half;
        const float bias = l.biased && u < l.units ? z[l.bias + u] : 0;
#pragma unroll
        for (int i = 0; i < 2 * C::KT; i++) {
            const uint32_t row = 8 * (i / 2) + 2 * t + i % 2;
            const float v = sum[i / 2][0][2 * half + i % 2] + bias;
            h[row * C::E_STRIDE + u] = row >= count || u >= l.units || (l.relu && v < 0) ? 0 : v;
        }
    }
}

/* The errors at the layer's inputs, by a warp for 16 of them. */
template <int SPLIT, class C>
static __device__ __forceinline__ void middle_back(const fc_layer &l, const float *z, const float *x,
                                                   const float *error, uint32_t count, int masked, float *below)
{
    const uint32_t in = threadIdx.x / 32 * 16, c = in + threadIdx.x % 32 / 4 * 2, t = threadIdx.x % 4;
    const fc_matrix w = {z + l.weight, l.units, l.inputs};
    float sum[C::KT][1][4];
    if (in >= l.inputs) return;
    middle_sums<SPLIT, C, C::E_STRIDE>(
        l.units, error, [&](uint32_t k, fc_quads<1> &a) { middle_back_a(w, in, k, a); }, sum);
#pragma unroll
    for (int i = 0; i < 2 * C::KT; i++) {
        const uint32_t row = 8 * (i / 2) + 2 * t + i % 2;
        if (row >= count || c >= l.inputs) continue;
        float2 v = make_float2(sum[i / 2][0][i % 2], sum[i / 2][0][2 + i % 2]);
        const float *h = x + row * C::X_STRIDE + c;
        if (masked && !(h[0] > 0)) v.x = 0;
        if (masked && !(h[1] > 0)) v.y = 0;
        *(float2 *)(below + (size_t)row * l.inputs + c) = v;
    }
}

/* The layer's step, by a warp for 16 units: threads have the same parts as in dense_step.cuh. */
template <int SPLIT, class C>
static __device__ __forceinline__ void middle_step(const fc_layer &l, const fli_update<float> &u, const float *x,
                                                   const float *error)
{
    const uint32_t unit = threadIdx.x / 32 * 16, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int early = !SPLIT && u.term && !u.gradient; /* single precision has no free registers for early terms */
    float a[C::KT][4];
    if (unit >= l.units) return;
    fc_errors<SPLIT, C>(error, a);
#pragma unroll 1
    for (uint32_t col = 0; col < l.inputs; col += 32) {
        float sum[4][4], now[2][2][4], term[2][2][4] = {};
        size_t at[2][2];
        int there[2][2];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            const uint32_t n = unit + g + i / 2 * 8, c = col + 4 * t + i % 2 * 16;
            at[i / 2][i % 2] = l.weight + (size_t)n * l.inputs + c;
            there[i / 2][i % 2] = n < l.units && c < l.inputs;
        }
#pragma unroll
        for (int half = 0; half < 2; half++) {
            fli_update<float>::template read<2, 4>(u.z, at[half], there[half], now[half]);
            if (early) fli_update<float>::template read<2, 4>(u.term, at[half], there[half], term[half]);
        }
#pragma unroll
        for (int j = 0; j < 16; j++) sum[j / 4][j % 4] = 0;
        fc_gradient<SPLIT, C>(x + col, a, sum);
#pragma unroll
        for (int half = 0; half < 2; half++) {
            float grad[2][4];
#pragma unroll
            for (int j = 0; j < 8; j++) grad[j / 4][j % 4] = sum[j % 4][2 * half + j / 4];
            if (early)
                u.template step<2, 4>(at[half], there[half], term[half], grad, now[half]);
            else
                u.template groups<2, 4>(at[half], there[half], grad, now[half]);
        }
    }
}

/* The step of its bias, a thread per unit. */
template <class C>
static __device__ __forceinline__ void middle_bias(const fc_layer &l, const fli_update<float> &u, const float *error)
{
    if (threadIdx.x >= l.units || !l.biased) return;
    float v = 0, now = u.z[l.bias + threadIdx.x];
#pragma unroll 4
    for (uint32_t r = 0; r < C::ROWS; r++) v += error[r * C::E_STRIDE + threadIdx.x];
    u.template apply<1>(l.bias + threadIdx.x, &v, &now);
}

/* ==== the last layer ====================================================================================== */

namespace
{

enum {
    THREADS = 512,
    WARP = 32,
    WARPS = THREADS / WARP,
    PARTY = 8, /* threads that share a row in softmax */
    CLASSES_MOST = 64,
    SHARES_MOST = 4,
    MEMORY_MOST = 200 * 1024
};

/* The layout of shared memory: inputs `high` x wide, weights deep x wide, sums of `shares` of the inputs and errors,
 * both high x slots, the bias, the labels. Entries beyond rows, inputs and classes are zero. */
struct layout {
    uint32_t rows, inputs, classes;
    uint32_t high, wide, deep, slots, shares;
};
__host__ __device__ uint32_t up(uint32_t n, uint32_t to) { return (n + to - 1) / to * to; }
layout layout_of(const fc_layer &l, uint32_t rows)
{
    layout y = {rows, l.inputs, l.units, up(rows, 16), up(l.inputs, 8) + 4, up(l.units, 8), up(l.units, 16) + 8, 1};
    while (y.shares < SHARES_MOST && 2 * y.shares * (y.high / 16) <= WARPS) y.shares *= 2;
    return y;
}
size_t bytes_of(const layout &y)
{
    return 4 * ((size_t)(y.high + y.deep) * y.wide + (size_t)(y.shares + 1) * y.high * y.slots + y.deep + y.high);
}

struct shared {
    float *in, *weight, *part, *error, *bias;
    uint32_t *label;
};
__device__ __forceinline__ shared shared_of(const layout &y, float *memory)
{
    shared s;
    s.in = memory;
    s.weight = s.in + y.high * y.wide;
    s.error = s.weight + y.deep * y.wide;
    s.part = s.error + y.high * y.slots;
    s.bias = s.part + y.shares * y.high * y.slots;
    s.label = (uint32_t *)(s.bias + y.deep);
    return s;
}

/* Fetches `rows` rows, and sets the rest of the `all` rows to zero. A warp has every 16th row. */
__device__ __forceinline__ void load_matrix(float *to, const float *from, uint32_t rows, uint32_t all, const layout &y)
{
    const int vec = y.inputs % 4 == 0 && (size_t)from % 16 == 0;
#pragma unroll 1
    for (uint32_t r = threadIdx.x / WARP; r < all; r += WARPS) {
        float *row = to + r * y.wide;
        const float *at = from + (size_t)r * y.inputs;
        if (vec)
#pragma unroll 1
            for (uint32_t c = threadIdx.x % WARP * 4; c < y.wide; c += WARP * 4)
                fli_async16(row + c, at + c, r < rows && c < y.inputs);
        else
#pragma unroll 1
            for (uint32_t c = threadIdx.x % WARP; c < y.wide; c += WARP)
                fli_async4(row + c, at + c, r < rows && c < y.inputs);
    }
}

/* D += A B with separate sums for the three parts of single precision, which are independent. */
struct sums {
    float part[3][4];
    __device__ __forceinline__ void clear()
    {
#pragma unroll
        for (int i = 0; i < 12; i++) part[i / 4][i % 4] = 0;
    }
    __device__ __forceinline__ void add(const fli_frag_a<1> &a, const fli_frag_b<1> &b)
    {
        fli_mma(part[0], a.lo, b.hi);
        fli_mma(part[1], a.hi, b.lo);
        fli_mma(part[2], a.hi, b.hi);
    }
    __device__ __forceinline__ float total(int i) const { return part[0][i] + part[1][i] + part[2][i]; }
};

/* Fragments from shared memory: entries are `across` apart along the rows of A or columns of B, `along` along k. */
__device__ __forceinline__ fli_frag_a<1> frag_a(const float *at, uint32_t across, uint32_t along)
{
    fli_frag_a<1> a;
#pragma unroll
    for (int i = 0; i < 4; i++) a.set(i, at[i % 2 * 8 * across + i / 2 * 4 * along]);
    return a;
}
__device__ __forceinline__ fli_frag_b<1> frag_b(const float *at, uint32_t along)
{
    fli_frag_b<1> b;
#pragma unroll
    for (int i = 0; i < 2; i++) b.set(i, at[i * 4 * along]);
    return b;
}

/* Labels of rows and the bias, which are needed last. */
__device__ __forceinline__ void load_rest(const layout &y, const shared &s, const fli_cuda_batch &b,
                                          const fli_cuda_lane *lane, const int32_t *labels, const float *bias,
                                          uint32_t count)
{
    const uint32_t *order = lane->order + (size_t)b.step * lane->stride + b.first;
#pragma unroll 1
    for (uint32_t r = threadIdx.x; r < count; r += THREADS) s.label[r] = (uint32_t)labels[order[r]];
    const uint32_t c = THREADS - 1 - threadIdx.x;
    if (c < y.deep) s.bias[c] = bias && c < y.classes ? bias[c] : 0;
}

/* part[share][row][class]: a warp has 16 rows and a share of the inputs. */
__device__ __forceinline__ void outputs(const layout &y, const shared &s)
{
    const uint32_t tiles = y.high / 16, eights = (y.inputs + 7) / 8, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
#pragma unroll 1
    for (uint32_t task = threadIdx.x / WARP; task < tiles * y.shares; task += WARPS) {
        const uint32_t row = task % tiles * 16 + g, share = task / tiles, end = eights * (share + 1) / y.shares;
        float *to = s.part + (share * y.high + row) * y.slots + 2 * t;
#pragma unroll 1
        for (uint32_t c = 0; c < y.deep; c += 8, to += 8) {
            sums d;
            d.clear();
#pragma unroll 2
            for (uint32_t e = eights * share / y.shares; e < end; e++)
                d.add(frag_a(s.in + row * y.wide + 8 * e + t, y.wide, 1),
                      frag_b(s.weight + (c + g) * y.wide + 8 * e + t, 1));
#pragma unroll
            for (int i = 0; i < 4; i++) to[i / 2 * 8 * y.slots + i % 2] = d.total(i);
        }
    }
}

/* The row's errors, by eight threads; a thread has every eighth class. Rows from `count` on have no error; some threads
 * take part without a row. */
__device__ __forceinline__ void row_error(const layout &y, const shared &s, uint32_t number, uint32_t count,
                                          float factor)
{
    const uint32_t own = threadIdx.x % PARTY, classes = number < count ? y.classes : 0;
    float *e = s.error + number * y.slots, top = -INFINITY, sum = 0;
#pragma unroll 1
    for (uint32_t c = own; c < classes; c += PARTY) {
        float z = s.bias[c];
#pragma unroll 1
        for (uint32_t p = 0; p < y.shares; p++) z += s.part[(p * y.high + number) * y.slots + c];
        e[c] = z;
        top = z > top ? z : top;
    }
    for (int d = PARTY / 2; d; d /= 2) {
        const float other = __shfl_xor_sync(0xffffffffu, top, d);
        top = other > top ? other : top;
    }
#pragma unroll 1
    for (uint32_t c = own; c < classes; c += PARTY) sum += e[c] = expf(e[c] - top);
    for (int d = PARTY / 2; d; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if (number >= y.high) return;
    const float inverse = 1 / sum;
#pragma unroll 1
    for (uint32_t c = own; c < up(y.classes, 16); c += PARTY)
        e[c] = c < classes ? (e[c] * inverse - (float)(c == s.label[number])) * factor : 0;
}

/* From inputs to the errors of all rows. */
__device__ __forceinline__ void logit_errors(const layout &y, const shared &s, uint32_t count, float factor)
{
    outputs(y, s);
    __syncthreads();
#pragma unroll 1
    for (uint32_t row = threadIdx.x / PARTY; row < up(y.high, THREADS / PARTY); row += THREADS / PARTY)
        row_error(y, s, row, count, factor);
    __syncthreads();
}

/* below = E W, whose rows are `stride` apart: a warp has 16 rows, and every few eights of the inputs. The result may
 * overwrite the inputs. */
__device__ __forceinline__ void errors_below(const layout &y, const shared &s, uint32_t count, int masked, float *below,
                                             uint32_t stride)
{
    const uint32_t tiles = y.high / 16, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
#pragma unroll 1
    for (uint32_t task = threadIdx.x / WARP; task < tiles * ((y.inputs + 7) / 8); task += WARPS) {
        const uint32_t row = task % tiles * 16 + g, k0 = task / tiles * 8;
        sums d;
        d.clear();
#pragma unroll 2
        for (uint32_t c = 0; c < y.deep; c += 8)
            d.add(frag_a(s.error + row * y.slots + c + t, y.slots, 1),
                  frag_b(s.weight + (c + t) * y.wide + k0 + g, y.wide));
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t r = row + i / 2 * 8, k = k0 + 2 * t + i % 2;
            if (r < count && k < y.inputs)
                below[(size_t)r * stride + k] = masked && !(s.in[r * y.wide + k] > 0) ? 0 : d.total(i);
        }
    }
}

/* The step with E' X: a warp has 16 classes and eight inputs. */
__device__ __forceinline__ void step(const layout &y, const shared &s, const fli_update<float> &u, size_t weight)
{
    const uint32_t eights = (y.inputs + 7) / 8, g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    /* from the last warp on: the first ones computed more of the errors below */
#pragma unroll 1
    for (uint32_t task = WARPS - 1 - threadIdx.x / WARP; task < eights * ((y.classes + 15) / 16); task += WARPS) {
        const uint32_t k0 = task % eights * 8, c0 = task / eights * 16;
        sums d;
        d.clear();
#pragma unroll 2
        for (uint32_t r = 0; r < y.high; r += 8)
            d.add(frag_a(s.error + (r + t) * y.slots + c0 + g, 1, y.slots),
                  frag_b(s.in + (r + t) * y.wide + k0 + g, y.wide));
        size_t at[4];
        int there[4];
        float now[4][1], grad[4][1];
#pragma unroll
        for (uint32_t i = 0; i < 4; i++) {
            const uint32_t c = c0 + g + i / 2 * 8, k = k0 + 2 * t + i % 2;
            there[i] = c < y.classes && k < y.inputs;
            at[i] = weight + (size_t)c * y.inputs + k;
            now[i][0] = there[i] ? s.weight[c * y.wide + k] : 0;
            grad[i][0] = d.total(i);
        }
        u.template groups<4, 1>(at, there, grad, now);
    }
}

/* Prefetches what steps read besides the weights. */
__device__ __forceinline__ void terms_ahead(const fli_update<float> &u, size_t first, uint32_t count)
{
    enum { LINE = 32 };
#pragma unroll 1
    for (uint32_t i = LINE * threadIdx.x; i < count; i += LINE * THREADS) {
        if (u.term) fli_prefetch(u.term + first + i);
        if (u.buffer) fli_prefetch(u.buffer + first + i);
    }
}

__device__ __forceinline__ void bias_step(const layout &y, const shared &s, const fli_update<float> &u, size_t bias)
{
    if (threadIdx.x >= y.classes) return;
    float sum = 0;
#pragma unroll 4
    for (uint32_t r = 0; r < y.high; r++) sum += s.error[r * y.slots + threadIdx.x];
    u.template apply<1>(bias + threadIdx.x, &sum, &s.bias[threadIdx.x]);
}

__global__ void __launch_bounds__(THREADS) last_layer(fli_cuda_batch b, fc_layer l, layout y, const int32_t *labels,
                                                      const float *in, int masked, float *below, int add)
{
    FLI_DYNAMIC(bytes);
    const fli_cuda_lane *lane = &b.lane[blockIdx.x];
    const uint32_t count = fli_cuda_rows(lane, &b);
    const size_t first = (size_t)blockIdx.x * b.room * y.inputs;
    const shared s = shared_of(y, (float *)bytes);
    fli_update<float> u;
    u.init(lane, b.step, add);
    fli_overlap();
    load_matrix(s.in, in + first, count, y.high, y);
    load_matrix(s.weight, u.z + l.weight, y.classes, y.deep, y);
    fli_async_commit();
    load_rest(y, s, b, lane, labels, l.biased ? u.z + l.bias : NULL, count);
    terms_ahead(u, l.weight, y.classes * y.inputs);
    const float factor = (float)(1 / (double)fli_cuda_drawn(lane->n, lane->size, b.step));
    fli_async_wait<0>();
    __syncthreads();
    logit_errors(y, s, count, factor);
    if (below) errors_below(y, s, count, masked, below + first, y.inputs);
    step(y, s, u, l.weight);
    if (l.biased) bias_step(y, s, u, l.bias);
}

/* The same with layer m below it: `in` and `below` are those of m, masked says whether `below` is. */
template <int SPLIT, int KT>
__global__ void __launch_bounds__(THREADS)
    last_two(fli_cuda_batch b, fc_layer m, fc_layer l, layout y, const int32_t *labels, const float *in, int masked,
             float *below, int add)
{
    typedef middle_cut<KT> C;
    FLI_DYNAMIC(bytes);
    const fli_cuda_lane *lane = &b.lane[blockIdx.x];
    const uint32_t count = fli_cuda_rows(lane, &b);
    const size_t first = (size_t)blockIdx.x * b.room * m.inputs;
    float *x = (float *)bytes;
    const shared s = shared_of(y, x + C::ROWS * C::X_STRIDE);
    layout of_x = y;
    of_x.inputs = m.inputs;
    fli_update<float> u;
    u.init(lane, b.step, add);
    fli_overlap();
    load_matrix(x, in + first, count, C::ROWS, of_x);
    load_matrix(s.weight, u.z + l.weight, y.classes, y.deep, y);
    fli_async_commit();
    load_rest(y, s, b, lane, labels, l.biased ? u.z + l.bias : NULL, count);
    terms_ahead(u, l.weight, y.classes * y.inputs);
    terms_ahead(u, m.weight, m.units * m.inputs);
    for (uint32_t i = C::ROWS * y.wide + threadIdx.x; i < y.high * y.wide; i += THREADS) s.in[i] = 0;
    const float factor = (float)(1 / (double)fli_cuda_drawn(lane->n, lane->size, b.step));
    fli_async_wait<0>();
    __syncthreads();
    middle_forward<SPLIT, C>(m, u.z, x, count, s.in);
    __syncthreads();
    logit_errors(y, s, count, factor);
    step(y, s, u, l.weight);
    if (l.biased) bias_step(y, s, u, l.bias);
    __syncthreads();
    errors_below(y, s, count, m.relu, s.in, y.wide);
    __syncthreads();
    if (below) middle_back<SPLIT, C>(m, u.z, x, s.in, count, masked, below + first);
    __syncthreads();
    middle_step<SPLIT, C>(m, u, x, s.in);
    middle_bias<C>(m, u, s.in);
}

template <int SPLIT, int KT>
void launch_two(fli_cuda_stream s, const fc_layer &m, const fc_layer &l, const fli_cuda_loss *loss,
                const fli_cuda_batch *b, const float *in, int masked, float *below, int add)
{
    typedef middle_cut<KT> C;
    layout y = layout_of(l, C::ROWS);
    y.wide = C::E_STRIDE;
    auto kernel = last_two<SPLIT, KT>;
    FLI_LAUNCH_EARLY(s, kernel, dim3(b->lanes), dim3(THREADS), bytes_of(y) + 4 * C::ROWS * C::X_STRIDE, *b, m, l, y,
                     loss->label, in, masked, below, add);
}

template <int SPLIT>
void two(fli_cuda_stream s, const fc_layer &m, const fc_layer &l, const fli_cuda_loss *loss, const fli_cuda_batch *b,
         const float *in, int masked, float *below, int add)
{
    if (b->most <= middle_cut<4>::ROWS || b->room <= middle_cut<4>::ROWS)
        launch_two<SPLIT, 4>(s, m, l, loss, b, in, masked, below, add);
    else
        launch_two<SPLIT, 7>(s, m, l, loss, b, in, masked, below, add);
}

} // namespace

extern "C" int fli_cuda_fc_last_fits(fli_cuda_type type, const fli_net_layer *l, const fli_cuda_loss *loss,
                                     uint32_t rows)
{
    if (type == FLI_CUDA_F64 || l->kind != FLI_NET_FC || l->relu || loss->loss != FLI_NET_SOFTMAX || !rows) return 0;
    if (fli_net_out(l) > CLASSES_MOST || fli_net_out(l) != loss->classes) return 0;
    if (((size_t)rows + fli_net_out(l)) * fli_net_in(l) * sizeof(float) > MEMORY_MOST) return 0;
    return bytes_of(layout_of(fc_layer_of(l), rows)) <= MEMORY_MOST;
}

extern "C" void fli_cuda_fc_last(fli_cuda_stream s, const fli_net_layer *l, const fli_cuda_loss *loss,
                                 const fli_cuda_batch *b, const void *in, int masked, void *below, int add)
{
    const fc_layer of = fc_layer_of(l);
    const layout y = layout_of(of, b->most < b->room ? b->most : b->room);
    FLI_LAUNCH_EARLY(s, last_layer, dim3(b->lanes), dim3(THREADS), bytes_of(y), *b, of, y, loss->label,
                     (const float *)in, masked, (float *)below, add);
}

extern "C" int fli_cuda_fc_last_two_fits(fli_cuda_type type, const fli_net_layer *m, const fli_net_layer *l,
                                         const fli_cuda_loss *loss, uint32_t rows)
{
    typedef middle_cut<7> C;
    if (m->kind != FLI_NET_FC || rows > C::ROWS || !fli_cuda_fc_last_fits(type, l, loss, rows)) return 0;
    if (fli_net_in(m) > C::MOST || fli_net_out(m) > C::MOST || fli_net_in(m) % 4 || m->weight % 4) return 0;
    layout y = layout_of(fc_layer_of(l), C::ROWS);
    y.wide = C::E_STRIDE;
    return bytes_of(y) + 4 * C::ROWS * C::X_STRIDE <= MEMORY_MOST;
}

extern "C" void fli_cuda_fc_last_two(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *m,
                                     const fli_net_layer *l, const fli_cuda_loss *loss, const fli_cuda_batch *b,
                                     const void *in, int masked, void *below, int add)
{
    const fc_layer of_m = fc_layer_of(m), of_l = fc_layer_of(l);
    if (type == FLI_CUDA_F32) return two<1>(s, of_m, of_l, loss, b, (const float *)in, masked, (float *)below, add);
    two<0>(s, of_m, of_l, loss, b, (const float *)in, masked, (float *)below, add);
}
