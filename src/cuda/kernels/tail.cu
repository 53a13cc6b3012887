/* The end of a network in one kernel: the last layer's outputs, the softmax error of the rows, the error below it and
 * the layer's step. One block has one lane, and all that the layer works on in shared memory: as separate kernels these
 * are so small that starting them would take longer than computing them.
 *
 * Its time is one of waiting, not of computing. So whatever is read from far is asked for at the beginning. Loops are
 * not unrolled, because instructions that are met once come from far, too. Products are made on tensor cores, in single
 * precision also for tf32: mma.cuh says which thread holds what, g and t are its words.
 *
 * Where there are many lanes the layer below it comes along, tail_two. */
#include "cuda/kernels/dense_product.cuh"
#include "cuda/kernels/tail_middle.cuh"
#include "cuda/kernels/update.cuh"

#include <math.h>

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

/* How it lies in shared memory: inputs `high` x wide, weights deep x wide, sums of `shares` of the inputs and errors,
 * both high x slots, the bias, the labels. What is behind rows, inputs and classes is zero. */
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

/* `rows` rows there are, `all` have room: the others become zeros. A warp has every 16th row. */
__device__ __forceinline__ void bring(float *to, const float *from, uint32_t rows, uint32_t all, const layout &y)
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

/* D += A B with the three parts of single precision apart, so that none waits for another. */
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

/* Labels of rows and the bias, which are not in a hurry. */
__device__ __forceinline__ void bring_rest(const layout &y, const shared &s, const fli_cuda_batch &b,
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

/* The row's errors, by eight threads; a thread has every eighth class. Rows from `count` on have none, and some threads
 * come along without a row. */
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

/* below = E W, whose rows are `stride` apart: a warp has 16 rows, and of the inputs every so many eight. It may take
 * the place of the inputs. */
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
    /* from the last warp on: the first ones have had more of the errors below */
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

/* What steps read beside the weights, on its way to the cache. */
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

__global__ void __launch_bounds__(THREADS) tail(fli_cuda_batch b, fc_layer l, layout y, const int32_t *labels,
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
    bring(s.in, in + first, count, y.high, y);
    bring(s.weight, u.z + l.weight, y.classes, y.deep, y);
    fli_async_commit();
    bring_rest(y, s, b, lane, labels, l.biased ? u.z + l.bias : NULL, count);
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
    tail_two(fli_cuda_batch b, fc_layer m, fc_layer l, layout y, const int32_t *labels, const float *in, int masked,
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
    bring(x, in + first, count, C::ROWS, of_x);
    bring(s.weight, u.z + l.weight, y.classes, y.deep, y);
    fli_async_commit();
    bring_rest(y, s, b, lane, labels, l.biased ? u.z + l.bias : NULL, count);
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
void launch_two(fli_cuda_stream s, const fc_layer &m, const fc_layer &l, const fli_cuda_loss *loss, const fli_cuda_batch *b,
                const float *in, int masked, float *below, int add)
{
    typedef middle_cut<KT> C;
    layout y = layout_of(l, C::ROWS);
    y.wide = C::E_STRIDE;
    auto kernel = tail_two<SPLIT, KT>;
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

extern "C" int fli_cuda_fc_tail_fits(fli_cuda_type type, const fli_net_layer *l, const fli_cuda_loss *loss,
                                     uint32_t rows)
{
    if (type == FLI_CUDA_F64 || l->kind != FLI_NET_FC || l->relu || loss->loss != FLI_NET_SOFTMAX || !rows) return 0;
    if (fli_net_out(l) > CLASSES_MOST || fli_net_out(l) != loss->classes) return 0;
    if (((size_t)rows + fli_net_out(l)) * fli_net_in(l) * sizeof(float) > MEMORY_MOST) return 0;
    return bytes_of(layout_of(fc_layer_of(l), rows)) <= MEMORY_MOST;
}

extern "C" void fli_cuda_fc_tail(fli_cuda_stream s, const fli_net_layer *l, const fli_cuda_loss *loss,
                                 const fli_cuda_batch *b, const void *in, int masked, void *below, int add)
{
    const fc_layer of = fc_layer_of(l);
    const layout y = layout_of(of, b->most < b->room ? b->most : b->room);
    FLI_LAUNCH_EARLY(s, tail, dim3(b->lanes), dim3(THREADS), bytes_of(y), *b, of, y, loss->label, (const float *)in,
                     masked, (float *)below, add);
}

extern "C" int fli_cuda_fc_tail_two_fits(fli_cuda_type type, const fli_net_layer *m, const fli_net_layer *l,
                                         const fli_cuda_loss *loss, uint32_t rows)
{
    typedef middle_cut<7> C;
    if (m->kind != FLI_NET_FC || rows > C::ROWS || !fli_cuda_fc_tail_fits(type, l, loss, rows)) return 0;
    if (fli_net_in(m) > C::MOST || fli_net_out(m) > C::MOST || fli_net_in(m) % 4 || m->weight % 4) return 0;
    layout y = layout_of(fc_layer_of(l), C::ROWS);
    y.wide = C::E_STRIDE;
    return bytes_of(y) + 4 * C::ROWS * C::X_STRIDE <= MEMORY_MOST;
}

extern "C" void fli_cuda_fc_tail_two(fli_cuda_stream s, fli_cuda_type type, const fli_net_layer *m, const fli_net_layer *l,
                                     const fli_cuda_loss *loss, const fli_cuda_batch *b, const void *in, int masked,
                                     void *below, int add)
{
    const fc_layer of_m = fc_layer_of(m), of_l = fc_layer_of(l);
    if (type == FLI_CUDA_F32) return two<1>(s, of_m, of_l, loss, b, (const float *)in, masked, (float *)below, add);
    two<0>(s, of_m, of_l, loss, b, (const float *)in, masked, (float *)below, add);
}
