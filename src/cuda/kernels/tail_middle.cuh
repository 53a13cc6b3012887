/* What comes before and behind the tail where the layer below it is computed in the same kernel: see tail.cu. A block
 * has a lane, and all rows that the layer works on in shared memory. Its weights are not there: each is needed by one
 * warp, which reads it into registers, 16 units or 16 inputs at a time.
 *
 * Of 16 k a thread takes 4 t ... 4 t + 3, as in dense_product.cuh. */
#ifndef FLI_CUDA_TAIL_MIDDLE_CUH
#define FLI_CUDA_TAIL_MIDDLE_CUH

#include "cuda/kernels/dense_step.cuh"

/* KT: eights of rows. Strides that make few banks meet twice: 20 more than a multiple of 32. */
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

/* The layer's outputs, by a warp for 16 units: h (row by row, E_STRIDE apart), zeros behind the last row and unit. */
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

/* The layer's step, by a warp for 16 units: dense_step.cuh says which thread has what. */
template <int SPLIT, class C>
static __device__ __forceinline__ void middle_step(const fc_layer &l, const fli_update<float> &u, const float *x,
                                                   const float *error)
{
    const uint32_t unit = threadIdx.x / 32 * 16, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const int early = !SPLIT && u.term && !u.gradient; /* single precision has no registers for terms that wait */
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

#endif
