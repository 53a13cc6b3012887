/* The end of a network in one kernel: the last layer's outputs, the softmax error of the rows, the error below it and
 * the layer's step. One block has one lane, and all that the layer works on in shared memory: as separate kernels these
 * are so small that starting them would take longer than computing them. */
#include "cuda/dense_product.cuh"
#include "cuda/update.cuh"

#include <math.h>

namespace
{

enum { THREADS = 512, WARP = 32, WARPS = THREADS / WARP, CLASSES_MOST = 64, SHARES_MOST = 8, MEMORY_MOST = 200 * 1024 };

__device__ __forceinline__ float real_exp(float v) { return expf(v); }
__device__ __forceinline__ double real_exp(double v) { return exp(v); }

/* How it lies in shared memory: inputs rows x wide, weights classes x wide (both with zeros behind the inputs), sums
 * of shares of the inputs, errors rows x slots (with zeros behind the classes). */
struct layout {
    uint32_t rows, inputs, classes;
    uint32_t wide, slots, shares;
};
layout layout_of(const fc_layer &l, uint32_t rows)
{
    layout y = {rows, l.inputs, l.units, 0, 0, 0};
    y.wide = (l.inputs + 3) / 4 * 4;
    if (y.wide / 4 % 2 == 0) y.wide += 4; /* so that eight rows meet no bank twice */
    y.slots = (l.units + 3) / 4 * 4;
    uint32_t tasks = (rows + WARP - 1) / WARP * (y.slots / 4);
    y.shares = 1;
    while (y.shares < SHARES_MOST && 2 * y.shares * tasks <= WARPS) y.shares *= 2;
    return y;
}
size_t reals_of(const layout &y)
{
    return (size_t)(y.rows + y.classes) * y.wide + (size_t)(y.shares + 1) * y.rows * y.slots;
}

template <typename T> struct shared {
    T *in, *weight, *part, *error;
};
template <typename T> __device__ shared<T> shared_of(const layout &y, T *memory)
{
    shared<T> s;
    s.in = memory;
    s.weight = s.in + (size_t)y.rows * y.wide;
    s.error = s.weight + (size_t)y.classes * y.wide;
    s.part = s.error + (size_t)y.rows * y.slots;
    return s;
}

/* `rows` rows there are, `all` have room: the others become zeros. */
template <typename T>
__device__ void bring(T *to, const T *from, uint32_t rows, uint32_t all, uint32_t inputs, uint32_t wide)
{
    if (sizeof(T) == 4 && inputs % 4 == 0 && (size_t)from % 16 == 0) {
        for (uint32_t i = threadIdx.x; i < all * (wide / 4); i += THREADS) {
            uint32_t r = i / (wide / 4), c = i % (wide / 4) * 4;
            int there = r < rows && c < inputs;
            fli_async16(to + (size_t)r * wide + c, there ? from + (size_t)r * inputs + c : from, there);
        }
    } else {
        for (uint32_t i = threadIdx.x; i < all * wide; i += THREADS) {
            uint32_t r = i / wide, c = i % wide;
            to[i] = r < rows && c < inputs ? from[(size_t)r * inputs + c] : 0;
        }
    }
}

/* part[share][row][class]: a warp has 32 rows, four classes and a share of the inputs. */
template <typename T> __device__ void outputs(const layout &y, const shared<T> &s)
{
    const uint32_t groups = (y.rows + WARP - 1) / WARP, fours = y.slots / 4, quads = (y.inputs + 3) / 4;
    for (uint32_t task = threadIdx.x / WARP; task < groups * fours * y.shares; task += WARPS) {
        uint32_t row = task % groups * WARP + threadIdx.x % WARP, c0 = task / groups % fours * 4;
        uint32_t share = task / groups / fours, end = quads * (share + 1) / y.shares;
        T sum[4] = {0, 0, 0, 0}, x[4], w[4];
        if (row >= y.rows) continue;
        for (uint32_t q = quads * share / y.shares; q < end; q++) {
            fli_load<4>(s.in + (size_t)row * y.wide + 4 * q, x);
#pragma unroll
            for (int c = 0; c < 4; c++) {
                uint32_t at = c0 + c < y.classes ? c0 + c : c0;
                fli_load<4>(s.weight + (size_t)at * y.wide + 4 * q, w);
                for (int j = 0; j < 4; j++) sum[c] += x[j] * w[j];
            }
        }
        for (int c = 0; c < 4; c++) s.part[((size_t)share * y.rows + row) * y.slots + c0 + c] = sum[c];
    }
}

/* A warp per row; a thread has every 32nd class, so two at most. */
template <typename T>
__device__ void row_error(const layout &y, const shared<T> &s, const T *bias, uint32_t row, uint32_t label, T factor)
{
    T z[2], top = (T)-INFINITY, sum = 0;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t c = threadIdx.x % WARP + i * WARP;
        z[i] = (T)-INFINITY;
        if (c >= y.classes) continue;
        z[i] = 0;
        for (uint32_t p = 0; p < y.shares; p++) z[i] += s.part[((size_t)p * y.rows + row) * y.slots + c];
        if (bias) z[i] += bias[c];
        top = z[i] > top ? z[i] : top;
    }
    for (int d = WARP / 2; d; d /= 2) {
        T other = __shfl_xor_sync(0xffffffffu, top, d);
        top = other > top ? other : top;
    }
#pragma unroll
    for (int i = 0; i < 2; i++) sum += z[i] = threadIdx.x % WARP + i * WARP < y.classes ? real_exp(z[i] - top) : (T)0;
    for (int d = WARP / 2; d; d /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    T inverse = 1 / sum;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        uint32_t c = threadIdx.x % WARP + i * WARP;
        if (c < y.slots)
            s.error[(size_t)row * y.slots + c] = c < y.classes ? (z[i] * inverse - (T)(c == label)) * factor : 0;
    }
}

template <typename T>
__device__ void errors(const layout &y, const shared<T> &s, const fli_cuda_batch &b, const fli_cuda_lane *lane,
                       const int32_t *labels, const T *bias, uint32_t count)
{
    T factor = (T)(1 / (double)fli_cuda_drawn(lane->n, lane->size, b.step));
    const uint32_t *order = lane->order + (size_t)b.step * lane->stride + b.first;
    for (uint32_t row = threadIdx.x / WARP; row < y.rows; row += WARPS) {
        if (row < count)
            row_error(y, s, bias, row, (uint32_t)labels[order[row]], factor);
        else
            for (uint32_t c = threadIdx.x % WARP; c < y.slots; c += WARP) s.error[(size_t)row * y.slots + c] = 0;
    }
}

/* A warp has 32 inputs and four rows. */
template <typename T>
__device__ void errors_below(const layout &y, const shared<T> &s, uint32_t count, int masked, T *below)
{
    const uint32_t groups = (y.inputs + WARP - 1) / WARP;
    for (uint32_t task = threadIdx.x / WARP; task < groups * ((count + 3) / 4); task += WARPS) {
        uint32_t k = task % groups * WARP + threadIdx.x % WARP, row = task / groups * 4;
        T sum[4] = {0, 0, 0, 0};
        if (k >= y.inputs) continue;
        for (uint32_t c = 0; c < y.classes; c++) {
            T w = s.weight[(size_t)c * y.wide + k];
#pragma unroll
            for (uint32_t j = 0; j < 4; j++)
                if (row + j < y.rows) sum[j] += s.error[(size_t)(row + j) * y.slots + c] * w;
        }
        for (uint32_t j = 0; j < 4 && row + j < count; j++)
            below[(size_t)(row + j) * y.inputs + k] =
                masked && !(s.in[(size_t)(row + j) * y.wide + k] > 0) ? 0 : sum[j];
    }
}

/* A warp has 32 inputs and four classes. */
template <typename T> __device__ void step(const layout &y, const shared<T> &s, const fli_update<T> &u, size_t weight)
{
    const uint32_t groups = (y.inputs + WARP - 1) / WARP;
    for (uint32_t task = threadIdx.x / WARP; task < groups * (y.slots / 4); task += WARPS) {
        uint32_t k = task % groups * WARP + threadIdx.x % WARP, c0 = task / groups * 4;
        T sum[4] = {0, 0, 0, 0}, e[4];
        if (k >= y.inputs) continue;
#pragma unroll 4
        for (uint32_t r = 0; r < y.rows; r++) {
            T x = s.in[(size_t)r * y.wide + k];
            fli_load<4>(s.error + (size_t)r * y.slots + c0, e);
            for (int j = 0; j < 4; j++) sum[j] += e[j] * x;
        }
        for (uint32_t j = 0; j < 4 && c0 + j < y.classes; j++) {
            T now = s.weight[(size_t)(c0 + j) * y.wide + k];
            u.template apply<1>(weight + (size_t)(c0 + j) * y.inputs + k, &sum[j], &now);
        }
    }
}

template <typename T>
__device__ void bias_step(const layout &y, const shared<T> &s, const fli_update<T> &u, size_t bias)
{
    uint32_t c = THREADS - 1 - threadIdx.x; /* the last warps have the least to do */
    if (c >= y.classes) return;
    T sum = 0, now = u.z[bias + c];
    for (uint32_t r = 0; r < y.rows; r++) sum += s.error[(size_t)r * y.slots + c];
    u.template apply<1>(bias + c, &sum, &now);
}

template <typename T>
__global__ void __launch_bounds__(THREADS)
    tail(fli_cuda_batch b, fc_layer l, layout y, const int32_t *labels, const T *in, int masked, T *below, int add)
{
    FLI_DYNAMIC(bytes);
    const fli_cuda_lane *lane = &b.lane[blockIdx.x];
    const uint32_t count = fli_cuda_rows(lane, &b);
    const size_t first = (size_t)blockIdx.x * b.room * y.inputs;
    const shared<T> s = shared_of(y, (T *)bytes);
    fli_update<T> u;
    u.init(lane, b.step, add);
    bring(s.in, in + first, count, y.rows, y.inputs, y.wide);
    bring(s.weight, (const T *)u.z + l.weight, y.classes, y.classes, y.inputs, y.wide);
    fli_async_commit();
    fli_async_wait<0>();
    __syncthreads();
    outputs(y, s);
    __syncthreads();
    errors(y, s, b, lane, labels, l.biased ? (const T *)u.z + l.bias : (const T *)NULL, count);
    __syncthreads();
    if (below) errors_below(y, s, count, masked, below + first);
    step(y, s, u, l.weight);
    if (l.biased) bias_step(y, s, u, l.bias);
}

template <typename T>
void launch(fli_stream s, const fli_net_layer *l, const fli_cuda_loss *loss, const fli_cuda_batch *b, const void *in,
            int masked, void *below, int add)
{
    const fc_layer of = fc_layer_of(l);
    const layout y = layout_of(of, b->most < b->room ? b->most : b->room);
    FLI_LAUNCH(s, tail<T>, dim3(b->lanes), dim3(THREADS), reals_of(y) * sizeof(T), *b, of, y, loss->label,
               (const T *)in, masked, (T *)below, add);
}

} // namespace

extern "C" int fli_cuda_fc_tail_fits(fli_cuda_type type, const fli_net_layer *l, const fli_cuda_loss *loss,
                                     uint32_t rows)
{
    size_t real = type == FLI_CUDA_F64 ? sizeof(double) : sizeof(float);
    if (l->kind != FLI_NET_FC || l->relu || loss->loss != FLI_NET_SOFTMAX || !rows) return 0;
    if (fli_net_out(l) > CLASSES_MOST || fli_net_out(l) != loss->classes) return 0;
    if ((rows + fli_net_out(l)) * fli_net_in(l) * real > MEMORY_MOST) return 0;
    return reals_of(layout_of(fc_layer_of(l), rows)) * real <= MEMORY_MOST;
}

extern "C" void fli_cuda_fc_tail(fli_stream s, fli_cuda_type type, const fli_net_layer *l, const fli_cuda_loss *loss,
                                 const fli_cuda_batch *b, const void *in, int masked, void *below, int add)
{
    if (type == FLI_CUDA_F64)
        launch<double>(s, l, loss, b, in, masked, below, add);
    else
        launch<float>(s, l, loss, b, in, masked, below, add);
}
