/* The step of the first layer of units and, with the new weights, the outputs for the next mini-batch, in one kernel.
 * So the weights, by far the largest part of what a step reads and writes, are read once.
 *
 * As in dense_step.cuh a block has WU times 16 units and goes along the inputs, 32 WC at a time, and a warp has 16
 * units and 32 inputs of a piece. The step leaves its new weights in registers, and these are what the thread needs of
 * A in D = A B: units by inputs. Product j of the piece has the inputs 4 t + j and 16 + 4 t + j. The sums of the WC
 * warps that share units are added at the end, in order. */
#ifndef FLI_CUDA_KERNELS_DENSE_FUSED_STEP_CUH
#define FLI_CUDA_KERNELS_DENSE_FUSED_STEP_CUH

#include "cuda/kernels/dense_step.cuh"

template <int KT_, int WU_, int WC_, int STAGES_> struct fc_chain {
    enum {
        KT = KT_,
        WU = WU_,
        WC = WC_,
        STAGES = STAGES_,
        THREADS = 32 * WU * WC,
        ROWS = 8 * KT,
        TU = 16 * WU,
        TC = 32 * WC,
        E_STRIDE = (TU + 31) / 32 * 32 + 8,
        X_STRIDE = TC + 4,
        X = ROWS * X_STRIDE, /* floats: the samples of the step, */
        NEXT = ROWS * TC,    /* the next ones, */
        W = TU * TC,
        ONE = X + NEXT + W,
        E = ROWS * E_STRIDE, /* at first in the place of the last stage */
        SUM = TU + 4,
        SUMS = WC * ROWS * SUM, /* finally in the place of the stages */
        ALL = (STAGES - 1) * ONE + (ONE > E ? ONE : E),
        FLOATS = (ALL > SUMS ? ALL : SUMS) + TU, /* and the new bias */
        BLOCKS = 227 * 256 / (FLOATS + 256),
        FEWER = 12 / (WU * WC) > 1 ? 12 / (WU * WC)
                : WU *WC > 8       ? 1
                                   : 2,
        RESIDENT = BLOCKS < FEWER ? BLOCKS : FEWER
    };
};

/* A lane's block of units. */
struct fc_fused_cuts {
    fc_matrix error, in, next, w;
    uint32_t unit, pieces;
};

template <class S>
static __device__ __forceinline__ void fc_fused_ahead(const fc_fused_cuts &r, const fli_update<float> &u, size_t weight,
                                                      float *memory, uint32_t i)
{
    if (i < r.pieces) {
        float *stage = memory + i % S::STAGES * S::ONE;
        fc_fetch<along_k<S::TC>, 1, S::TU, S::TC, S::THREADS>(stage + S::X + S::NEXT, r.w, r.unit, i * S::TC);
        fc_terms_ahead<S>(r.w, u, weight, r.unit, i * S::TC);
        fc_fetch<apart<S::X_STRIDE>, 1, S::ROWS, S::TC, S::THREADS>(stage, r.in, 0, i * S::TC);
        if (r.next.rows) fc_fetch<along_k<S::TC>, 1, S::ROWS, S::TC, S::THREADS>(stage + S::X, r.next, 0, i * S::TC);
    }
    fli_async_commit();
}

/* The new weights of a warp's units and 32 inputs: w[half][q], units g + 8 half, inputs 16 q + 4 t ... */
template <int SPLIT, class S>
static __device__ __forceinline__ void fc_fused_step(const fc_fused_cuts &r, const fli_update<float> &u, size_t weight,
                                                     uint32_t col, const float *stage, const float (*errors)[4],
                                                     float (*w)[2][4])
{
    const uint32_t warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const uint32_t c = warp % S::WC * 32 + 4 * t;
    const float *tile = stage + S::X + S::NEXT;
    float sum[4][4];
#pragma unroll
    for (int j = 0; j < 16; j++) sum[j / 4][j % 4] = 0;
    fc_gradient<SPLIT, S>(stage, errors, sum);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t unit = warp / S::WC * 16 + 8 * half + g;
        const size_t first = weight + (size_t)(r.unit + unit) * r.w.width + col + c;
        const int inside = r.unit + unit < r.w.rows;
        const size_t at[2] = {first, first + 16};
        const int there[2] = {inside && col + c < r.w.width, inside && col + c + 16 < r.w.width};
        float grad[2][4];
#pragma unroll
        for (int q = 0; q < 2; q++) {
            fli_load<4>(tile + along_k<S::TC>::at(unit, c + 16 * q), w[half][q]);
#pragma unroll
            for (int j = 0; j < 4; j++) grad[q][j] = sum[j][2 * half + q];
        }
        u.template groups<2, 4>(at, there, grad, w[half]);
    }
}

/* sum[n] += those weights times the next samples. In single precision the sum of 32 inputs starts from 0, because
 * tensor cores do not round sums to the nearest. */
template <int SPLIT, class S>
static __device__ __forceinline__ void fc_fused_outputs(const float *next, const float (*w)[2][4], float (*sum)[4])
{
    const uint32_t g = threadIdx.x % 32 / 4, c = threadIdx.x / 32 % S::WC * 32 + threadIdx.x % 4 * 4;
    fli_frag_a<SPLIT> a[4];
#pragma unroll
    for (int j = 0; j < 4; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) a[j].set(e, w[e % 2][e / 2][j]);
#pragma unroll
    for (int n = 0; n < S::KT; n++) {
        float p[4], q[4], fresh[4];
        fli_load<4>(next + along_k<S::TC>::at(8 * n + g, c), p);
        fli_load<4>(next + along_k<S::TC>::at(8 * n + g, c + 16), q);
#pragma unroll
        for (int e = 0; e < 4; e++) fresh[e] = SPLIT ? 0.0f : sum[n][e];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            fli_frag_b<SPLIT> b;
            b.set(0, p[j]);
            b.set(1, q[j]);
            fli_mma_add<SPLIT>(fresh, a[j], b);
        }
#pragma unroll
        for (int e = 0; e < 4; e++) sum[n][e] = SPLIT ? sum[n][e] + fresh[e] : fresh[e];
    }
}

/* The step of the bias, a thread per unit, which stays in `now` for the outputs. all_errors: also receives the sums of
 * units' errors; NULL: not needed. */
template <class S>
static __device__ __forceinline__ void fc_fused_bias(const fc_fused_cuts &r, const fli_update<float> &u,
                                                     const fc_layer &l, const float *errors, float *now,
                                                     float *all_errors)
{
    if (threadIdx.x >= S::TU) return;
    const size_t at[1] = {l.bias + r.unit + threadIdx.x};
    const int there[1] = {l.biased && r.unit + threadIdx.x < r.w.rows};
    float v[1][1] = {{0}}, was[1][1] = {{there[0] ? u.z[at[0]] : 0}};
#pragma unroll 8
    for (uint32_t i = 0; i < S::ROWS; i++) v[0][0] += errors[i * S::E_STRIDE + threadIdx.x];
    if (all_errors) all_errors[threadIdx.x] = v[0][0];
    u.template groups<1, 1>(at, there, v, was);
    now[threadIdx.x] = there[0] ? was[0][0] : 0;
}

/* The sums of all warps, bias and ReLU: `to` has the next mini-batch's outputs. */
template <class S>
static __device__ __forceinline__ void fc_fused_finish(const fc_fused_cuts &r, const fc_layer &l, const float (*sum)[4],
                                                       float *memory, const float *bias, float *to)
{
    const uint32_t warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    float *mine = memory + warp % S::WC * (S::ROWS * S::SUM) + warp / S::WC * 16 + g;
#pragma unroll
    for (int n = 0; n < S::KT; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) mine[(8 * n + 2 * t + e % 2) * S::SUM + e / 2 * 8] = sum[n][e];
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < S::ROWS * S::TU; i += S::THREADS) {
        const uint32_t n = i / S::TU, m = i % S::TU;
        if (n >= r.next.rows || r.unit + m >= r.w.rows) continue;
        float v = bias[m];
#pragma unroll
        for (int w = 0; w < S::WC; w++) v += memory[(w * S::ROWS + n) * S::SUM + m];
        to[(size_t)n * r.w.rows + r.unit + m] = l.relu && v < 0 ? 0 : v;
    }
}

/* blockIdx: x cuts the units, y is the lane; the last lanes come first, because they are still in the cache. b, error,
 * in: of the step; next, x, out: of the following mini-batch, which fewer lanes may have. */
template <int SPLIT, class S>
__global__ void __launch_bounds__(S::THREADS, S::RESIDENT)
    fc_fused(fli_cuda_batch b, fli_cuda_batch next, fc_layer l, const float *error, const float *in, const float *x,
             float *out)
{
    FLI_DYNAMIC(bytes);
    float *memory = (float *)bytes, *bias = memory + S::FLOATS - S::TU, *errors = memory + (S::STAGES - 1) * S::ONE;
    const uint32_t lane = b.lanes - 1 - blockIdx.y, warp = threadIdx.x / 32;
    const size_t first = (size_t)lane * b.room;
    fli_update<float> u;
    u.init(&b.lane[lane], b.step, 0);
    u.gradient = NULL; /* tells the compiler */
    const fc_fused_cuts r = {
        {error + first * l.units, fli_cuda_rows(&b.lane[lane], &b), l.units},
        {in + first * l.inputs, fli_cuda_rows(&b.lane[lane], &b), l.inputs},
        {x + first * l.inputs, lane < next.lanes ? fli_cuda_rows(&b.lane[lane], &next) : 0, l.inputs},
        {u.z + l.weight, l.units, l.inputs},
        blockIdx.x * S::TU,
        (l.inputs + S::TC - 1) / S::TC};
    float a[S::KT][4], sum[S::KT][4];
#pragma unroll
    for (int i = 0; i < 4 * S::KT; i++) sum[i / 4][i % 4] = 0;
    fli_overlap();
    fc_fetch<apart<S::E_STRIDE>, 1, S::ROWS, S::TU, S::THREADS>(errors, r.error, 0, r.unit);
    fli_async_commit();
    for (uint32_t i = 0; i < S::STAGES - 1; i++) fc_fused_ahead<S>(r, u, l.weight, memory, i);
    fli_async_wait<S::STAGES - 1>();
    __syncthreads();
    fc_errors<SPLIT, S>(errors, a);
    fc_fused_bias<S>(r, u, l, errors, bias, NULL);
    for (uint32_t i = 0; i < r.pieces; i++) {
        fli_async_wait<S::STAGES - 2>();
        __syncthreads();
        fc_fused_ahead<S>(r, u, l.weight, memory, i + S::STAGES - 1);
        const float *stage = memory + i % S::STAGES * S::ONE;
        if (r.unit + warp / S::WC * 16 >= r.w.rows || i * S::TC + warp % S::WC * 32 >= r.w.width) continue;
        float w[2][2][4];
        fc_fused_step<SPLIT, S>(r, u, l.weight, i * S::TC, stage, a, w);
        if (r.next.rows) fc_fused_outputs<SPLIT, S>(stage + S::X, w, sum);
    }
    fli_async_wait<0>();
    __syncthreads();
    fc_fused_finish<S>(r, l, sum, memory, bias, out + first * l.units);
}

#endif
