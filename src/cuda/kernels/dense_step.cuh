/* The gradient of a layer of units on tensor cores and the step, in one kernel: gradients stay in registers, and a
 * weight is read once and written once.
 *
 *     G[u][c] = sum over rows r of E[r][u] X[r][c]
 *
 * A warp has 16 units, and as fragments all their errors in up to 8 KT rows. A block is WU warps high and WC wide. It
 * goes along the inputs, 32 WC at a time, with X and the weights read asynchronously, STAGES pieces ahead. More rows
 * take several turns. Pieces are wide, because memory reads neighbouring lines faster.
 *
 * A warp's 32 inputs c are four tiles of 8: number n of tile j is input 4 (n / 2 + n % 2 * 4) + j. So a thread reads
 * four neighbours at once, and its part of G is two times four neighbours, 4 t and 16 + 4 t, of units g and g + 8; four
 * threads write 64 bytes without a gap. */
#ifndef FLI_CUDA_DENSE_STEP_CUH
#define FLI_CUDA_DENSE_STEP_CUH

#include "cuda/kernels/dense_product.cuh"
#include "cuda/kernels/update.cuh"

template <int KT_, int WU_, int WC_, int STAGES_> struct fc_stride {
    enum {
        KT = KT_,
        WU = WU_,
        WC = WC_,
        STAGES = STAGES_,
        THREADS = 32 * WU * WC,
        ROWS = 8 * KT,
        TU = 16 * WU,
        TC = 32 * WC,
        E_STRIDE = (TU + 31) / 32 * 32 + 8, /* strides without bank conflicts */
        X_STRIDE = TC + 4,
        E = ROWS * E_STRIDE, /* floats */
        X = ROWS * X_STRIDE,
        W = TU * TC,
        ONE = X + W,
        BLOCKS = 227 * 256 / (STAGES * ONE + E + 256), /* limit by a processor's shared memory, */
        FEWER = (KT > 2 ? 16 : 20) / (WU * WC),        /* registers */
        RESIDENT = BLOCKS < FEWER ? BLOCKS : FEWER
    };
    /* With several turns every stage has room for the errors of its rows. */
    static size_t bytes(uint32_t turns) { return 4 * ((size_t)STAGES * ONE + (turns > 1 ? STAGES : 1) * E); }
};

/* The work: pieces of 32 inputs of all blocks of units of all lanes, one list. A block takes a part of it. */
struct fc_work {
    uint32_t pieces, unit_blocks, turns; /* of rows */
};

/* A run of pieces of one lane's block of units. */
struct fc_run {
    fc_matrix error, in, w;
    uint32_t unit, piece, turns, count; /* the first unit, the first piece; count: pieces times turns */
    float *stages, *errors;
};

/* Prefetches a piece's terms of the step, which are read after its products: a thread has 16 of a row. */
template <class S>
static __device__ __forceinline__ void fc_terms_ahead(const fc_matrix &w, const fli_update<float> &u, size_t weight,
                                                      uint32_t row, uint32_t col)
{
    const uint32_t unit = row + threadIdx.x / (2 * S::WC), c = col + threadIdx.x % (2 * S::WC) * 16;
    if (unit >= w.rows || c >= w.width) return;
    const size_t at = weight + (size_t)unit * w.width + c;
    if (u.term) fli_prefetch(u.term + at);
    if (u.buffer) fli_prefetch(u.buffer + at);
}

/* Fetches number i of the run's pieces and turns. VEC: rows of inputs, weights and errors are aligned to 16 bytes. */
template <int VEC, class S>
static __device__ __forceinline__ void fc_ahead(const fc_run &r, const fli_update<float> &u, size_t weight, uint32_t i)
{
    if (i < r.count) {
        float *stage = r.stages + i % S::STAGES * S::ONE;
        uint32_t turn = i % r.turns, col = (r.piece + i / r.turns) * S::TC, row = turn * S::ROWS;
        if (r.turns > 1 || !i)
            fc_fetch<apart<S::E_STRIDE>, VEC, S::ROWS, S::TU, S::THREADS>(
                r.errors + (r.turns > 1 ? i % S::STAGES * S::E : 0), r.error, row, r.unit);
        fc_fetch<apart<S::X_STRIDE>, VEC, S::ROWS, S::TC, S::THREADS>(stage, r.in, row, col);
        if (turn == r.turns - 1) {
            fc_fetch<along_k<S::TC>, VEC, S::TU, S::TC, S::THREADS>(stage + S::X, r.w, r.unit, col);
            fc_terms_ahead<S>(r.w, u, weight, r.unit, col);
        }
    }
    fli_async_commit();
}

/* A warp's errors in the order of fragments: in single precision unrounded, and split at each use to save registers;
 * else rounded to tf32. */
template <int SPLIT, class S> static __device__ __forceinline__ void fc_errors(const float *errors, float (*a)[4])
{
    const uint32_t g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const float *from = errors + threadIdx.x / 32 / S::WC * 16 + g;
#pragma unroll
    for (int k = 0; k < S::KT; k++)
#pragma unroll
        for (int e = 0; e < 4; e++) {
            const float v = from[(8 * k + t + e / 2 * 4) * S::E_STRIDE + e % 2 * 8];
            a[k][e] = SPLIT ? v : __uint_as_float(fli_tf32(v));
        }
}

/* sum += the piece's products. */
template <int SPLIT, class S>
static __device__ __forceinline__ void fc_gradient(const float *x, const float (*errors)[4], float (*sum)[4])
{
    const uint32_t g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const float *from = x + t * S::X_STRIDE + threadIdx.x / 32 % S::WC * 32 + 4 * (g / 2 + g % 2 * 4);
#pragma unroll
    for (int k = 0; k < S::KT; k++) {
        const float4 p = *(const float4 *)(from + 8 * k * S::X_STRIDE);
        const float4 q = *(const float4 *)(from + (8 * k + 4) * S::X_STRIDE);
        const float upper[4] = {p.x, p.y, p.z, p.w}, lower[4] = {q.x, q.y, q.z, q.w};
        fli_frag_a<SPLIT> a;
        fli_frag_b<SPLIT> b[4];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (SPLIT)
                a.set(e, errors[k][e]);
            else
                a.hi[e] = __float_as_uint(errors[k][e]);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) {
            b[j].set(0, upper[j]);
            b[j].set(1, lower[j]);
        }
        fli_mma_add_all<SPLIT, 4>(sum, a, b);
    }
}

/* The step on a thread's 16 weights of a piece. */
template <int VEC, class S>
static __device__ __forceinline__ void fc_weights(const fc_run &r, const fli_update<float> &u, size_t weight,
                                                  uint32_t col, const float *w, const float (*sum)[4])
{
    const uint32_t warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const uint32_t c = warp % S::WC * 32 + 4 * t;
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t unit = warp / S::WC * 16 + 8 * half + g;
        const size_t first = weight + (size_t)(r.unit + unit) * r.w.width + col + c;
        const int inside = r.unit + unit < r.w.rows;
        float now[2][4], grad[2][4];
#pragma unroll
        for (int q = 0; q < 2; q++) {
            fli_load<4>(w + along_k<S::TC>::at(unit, c + 16 * q), now[q]);
#pragma unroll
            for (int j = 0; j < 4; j++) grad[q][j] = sum[j][2 * half + q];
        }
        if constexpr (VEC) {
            const size_t at[2] = {first, first + 16};
            const int there[2] = {inside && col + c < r.w.width, inside && col + c + 16 < r.w.width};
            u.template groups<2, 4>(at, there, grad, now);
        } else {
            for (int j = 0; j < 8; j++)
                if (inside && col + c + j / 4 * 16 + j % 4 < r.w.width)
                    u.template apply<1>(first + j / 4 * 16 + j % 4, &grad[j / 4][j % 4], &now[j / 4][j % 4]);
        }
    }
}

/* Sums of errors, a thread per unit: the bias. Called in all turns of the first piece. */
template <class S>
static __device__ __forceinline__ void fc_bias(const fc_run &r, const fli_update<float> &u, size_t bias, uint32_t turn,
                                               const float *errors, float *sum)
{
    if (threadIdx.x >= S::TU || r.unit + threadIdx.x >= r.w.rows) return;
    float v = turn ? *sum : 0;
    for (uint32_t i = 0; i < S::ROWS; i++) v += errors[i * S::E_STRIDE + threadIdx.x];
    *sum = v;
    if (turn < r.turns - 1) return;
    float now = u.z[bias + r.unit + threadIdx.x];
    u.template apply<1>(bias + r.unit + threadIdx.x, &v, &now);
}

template <int SPLIT, int VEC, class S>
static __device__ __forceinline__ void fc_run_pieces(const fc_run &r, const fli_update<float> &u, const fc_layer &l)
{
    float a[S::KT][4], sum[4][4], bias = 0;
    const uint32_t warp = threadIdx.x / 32;
    const int busy = r.unit + warp / S::WC * 16 < r.w.rows;
    for (uint32_t i = 0; i < S::STAGES - 1; i++) fc_ahead<VEC, S>(r, u, l.weight, i);
    for (uint32_t i = 0; i < r.count; i++) {
        fli_async_wait<S::STAGES - 2>();
        __syncthreads();
        fc_ahead<VEC, S>(r, u, l.weight, i + S::STAGES - 1);
        const uint32_t turn = i % r.turns, piece = r.piece + i / r.turns;
        const float *errors = r.errors + (r.turns > 1 ? i % S::STAGES * S::E : 0);
        const float *stage = r.stages + i % S::STAGES * S::ONE;
        if (r.turns > 1 || !i) fc_errors<SPLIT, S>(errors, a);
        if (!turn)
#pragma unroll
            for (int j = 0; j < 16; j++) sum[j / 4][j % 4] = 0;
        if (busy && piece * S::TC + warp % S::WC * 32 < r.w.width) {
            fc_gradient<SPLIT, S>(stage, a, sum);
            if (turn == r.turns - 1) fc_weights<VEC, S>(r, u, l.weight, piece * S::TC, stage + S::X, sum);
        }
        if (!piece && l.biased) fc_bias<S>(r, u, l.bias, turn, errors, &bias);
    }
    fli_async_wait<0>();
    __syncthreads();
}

/* error: rows of units; in: rows of inputs. The last lanes come first: their weights were read last, so some are still
 * in the cache. */
template <int SPLIT, int VEC, class S>
__global__ void __launch_bounds__(S::THREADS, S::RESIDENT)
    fc_step(fli_cuda_batch b, fc_layer l, fc_work work, const float *error, const float *in, int add)
{
    FLI_DYNAMIC(bytes);
    fli_overlap();
    const uint64_t all = (uint64_t)b.lanes * work.unit_blocks * work.pieces;
    uint64_t at = all * blockIdx.x / gridDim.x, end = all * (blockIdx.x + 1) / gridDim.x;
    while (at < end) {
        const uint32_t piece = at % work.pieces, block = at / work.pieces % work.unit_blocks;
        const uint32_t lane = b.lanes - 1 - (uint32_t)(at / work.pieces / work.unit_blocks);
        const uint32_t few = work.pieces - piece < end - at ? work.pieces - piece : (uint32_t)(end - at);
        const uint32_t count = fli_cuda_rows(&b.lane[lane], &b);
        const size_t first = (size_t)lane * b.room;
        fli_update<float> u;
        u.init(&b.lane[lane], b.step, add);
        const fc_run r = {{error + first * l.units, count, l.units},
                          {in + first * l.inputs, count, l.inputs},
                          {u.z + l.weight, l.units, l.inputs},
                          block * S::TU,
                          piece,
                          work.turns,
                          few * work.turns,
                          (float *)bytes,
                          (float *)bytes + S::STAGES * S::ONE};
        fc_run_pieces<SPLIT, VEC, S>(r, u, l);
        at += few;
    }
}

#endif
