/* As dense_fused_step.cuh, for samples stored as bytes with at most one scale: the step of the first layer and, with
 * the new weights, the outputs for the next mini-batch. Samples are read where they are stored, a quarter of their size
 * as floats, and need no gathering.
 *
 * A byte is exact in tf32, so in single precision a product is two of those of mma.cuh, not three. The scale of samples
 * is applied to sums. The shift of samples is applied through sums, too: of a unit's errors in the gradient, of its
 * weights in the outputs.
 *
 * Weights and, where the step has one, their term come from global memory, two pieces ahead. Many lanes use the
 * samples, so these are in the cache: one piece ahead is enough, and leaves room for the term. */
#ifndef FLI_CUDA_DENSE_BYTES_CUH
#define FLI_CUDA_DENSE_BYTES_CUH

#include "cuda/kernels/dense_fused_step.cuh"

template <int KT_, int WU_, int WC_> struct fc_byte_chain {
    enum {
        KT = KT_,
        WU = WU_,
        WC = WC_,
        STAGES = 3, /* of weights and terms; samples have two */
        THREADS = 32 * WU * WC,
        ROWS = 8 * KT,
        TU = 16 * WU,
        TC = 32 * WC,
        E_STRIDE = (TU + 31) / 32 * 32 + 8,
        X_STRIDE = TC + 32,      /* bytes; strides without bank conflicts */
        NEXT_STRIDE = TC + 16,   /* the same for the other order of reading */
        X = ROWS * X_STRIDE / 4, /* floats */
        NEXT = ROWS * NEXT_STRIDE / 4,
        W = TU * TC,
        E = ROWS * E_STRIDE, /* at first in the place of the last stage of weights */
        SUM = TU + 4,
        SUMS = WC * (ROWS + 1) * SUM, /* finally in the place of the stages; one more row for sums of weights */
        ALL = STAGES * 2 * W + 2 * (X + NEXT),
        FLOATS = ALL + 2 * TU, /* and the new bias, and sums of errors */
        BLOCKS = 227 * 256 / (FLOATS + 256),
        FEWER = 12 / (WU * WC),
        RESIDENT = BLOCKS < FEWER ? BLOCKS : FEWER,
        ACROSS = TC / 16, /* threads that fetch a row's part of a piece */
        DOWN = THREADS / ACROSS,
        OWN = (ROWS + DOWN - 1) / DOWN /* rows of which a thread fetches parts */
    };
    static_assert(E <= 2 * W && SUMS <= ALL, "there is room");
};

/* Stored samples of a mini-batch: a thread's rows. */
template <int OWN> struct fc_samples {
    const unsigned char *row[OWN]; /* NULL: there is none */
};
template <class S>
static __device__ __forceinline__ void fc_find_samples(const fli_cuda_data &d, const fli_cuda_lane *lane, uint32_t step,
                                                       uint32_t rows, fc_samples<S::OWN> &x)
{
    const uint32_t *order = lane->order + (size_t)step * lane->stride;
#pragma unroll
    for (int i = 0; i < S::OWN; i++) {
        const uint32_t r = threadIdx.x / S::ACROSS + i * S::DOWN;
        x.row[i] = r < rows ? (const unsigned char *)d.x + (size_t)order[r] * d.length : NULL;
    }
}
/* Fetches their part of a piece; zeros for missing values. */
template <class S, int STRIDE>
static __device__ __forceinline__ void fc_fetch_samples(const fc_samples<S::OWN> &x, const void *any, uint32_t col,
                                                        uint32_t width, unsigned char *to)
{
    const uint32_t c = threadIdx.x % S::ACROSS * 16;
#pragma unroll
    for (int i = 0; i < S::OWN; i++) {
        const uint32_t r = threadIdx.x / S::ACROSS + i * S::DOWN;
        const int there = x.row[i] && col + c < width;
        if (r < S::ROWS) fli_async16(to + r * STRIDE + c, there ? x.row[i] + col + c : any, there);
    }
}

/* Byte i of a word. */
static __device__ __forceinline__ uint32_t fc_of_byte(uint32_t word, int i)
{
    return __float_as_uint(__uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440u + i)) - 8388608.0f);
}

/* sum[j] += the piece's products of errors and samples. */
template <int SPLIT, class S>
static __device__ __forceinline__ void fc_byte_gradient(const unsigned char *x, const float (*errors)[4],
                                                        float (*sum)[4])
{
    const uint32_t g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const unsigned char *from = x + t * S::X_STRIDE + threadIdx.x / 32 % S::WC * 32 + 4 * (g / 2 + g % 2 * 4);
#pragma unroll
    for (int k = 0; k < S::KT; k++) {
        const uint32_t upper = *(const uint32_t *)(from + 8 * k * S::X_STRIDE);
        const uint32_t lower = *(const uint32_t *)(from + (8 * k + 4) * S::X_STRIDE);
        fli_frag_a<SPLIT> a;
        uint32_t b[4][2];
#pragma unroll
        for (int e = 0; e < 4; e++) {
            if (SPLIT)
                a.set(e, errors[k][e]);
            else
                a.hi[e] = __float_as_uint(errors[k][e]);
        }
#pragma unroll
        for (int j = 0; j < 4; j++) b[j][0] = fc_of_byte(upper, j), b[j][1] = fc_of_byte(lower, j);
        if (SPLIT)
#pragma unroll
            for (int j = 0; j < 4; j++) fli_mma(sum[j], a.lo, b[j]);
#pragma unroll
        for (int j = 0; j < 4; j++) fli_mma(sum[j], a.hi, b[j]);
    }
}

/* The work of a block: units of a lane, and its samples. */
template <class S> struct fc_byte_run {
    fc_fused_cuts r; /* but without places of samples */
    fc_matrix term;  /* at NULL: none */
    fc_samples<S::OWN> in, next;
    const void *any;
    float scale, shift;
    float *memory;

    __device__ __forceinline__ float *weights(uint32_t i) const { return memory + i % S::STAGES * (2 * S::W); }
    __device__ __forceinline__ float *terms(uint32_t i) const { return weights(i) + S::W; }
    __device__ __forceinline__ unsigned char *samples(uint32_t i) const
    {
        return (unsigned char *)(memory + S::STAGES * 2 * S::W + i % 2 * (S::X + S::NEXT));
    }
    __device__ __forceinline__ unsigned char *next_samples(uint32_t i) const { return samples(i) + 4 * S::X; }

    __device__ __forceinline__ void weights_ahead(uint32_t i) const
    {
        if (i >= r.pieces) return;
        fc_fetch<along_k<S::TC>, 1, S::TU, S::TC, S::THREADS>(weights(i), r.w, r.unit, i * S::TC);
        if (term.at) fc_fetch<along_k<S::TC>, 1, S::TU, S::TC, S::THREADS>(terms(i), term, r.unit, i * S::TC);
    }
    __device__ __forceinline__ void samples_ahead(uint32_t i) const
    {
        if (i >= r.pieces) return;
        fc_fetch_samples<S, S::X_STRIDE>(in, any, i * S::TC, r.w.width, samples(i));
        if (r.next.rows) fc_fetch_samples<S, S::NEXT_STRIDE>(next, any, i * S::TC, r.w.width, next_samples(i));
    }
};

/* The new weights of a warp's units and 32 inputs of piece i, as fc_fused_step has them; 0 after the last input.
 * whole[half]: the thread's part of their sum. */
template <int SPLIT, class S>
static __device__ __forceinline__ void fc_byte_step(const fc_byte_run<S> &b, const fli_update<float> &u, size_t weight,
                                                    uint32_t i, const float (*errors)[4], const float *more,
                                                    float (*w)[2][4], float *whole)
{
    const fc_fused_cuts &r = b.r;
    const uint32_t warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    const uint32_t c = warp % S::WC * 32 + 4 * t, col = i * S::TC + c;
    float sum[4][4];
#pragma unroll
    for (int j = 0; j < 16; j++) sum[j / 4][j % 4] = 0;
    fc_byte_gradient<SPLIT, S>(b.samples(i), errors, sum);
#pragma unroll
    for (int half = 0; half < 2; half++) {
        const uint32_t unit = warp / S::WC * 16 + 8 * half + g;
        const size_t first = weight + (size_t)(r.unit + unit) * r.w.width + col;
        const int inside = r.unit + unit < r.w.rows;
        const size_t at[2] = {first, first + 16};
        const int there[2] = {inside && col < r.w.width, inside && col + 16 < r.w.width};
        float grad[2][4], term[2][4] = {};
#pragma unroll
        for (int q = 0; q < 2; q++) {
            const uint32_t place = along_k<S::TC>::at(unit, c + 16 * q);
            fli_load<4>(b.weights(i) + place, w[half][q]);
            if (b.term.at) fli_load<4>(b.terms(i) + place, term[q]);
#pragma unroll
            for (int j = 0; j < 4; j++) grad[q][j] = b.scale * sum[j][2 * half + q] + more[half];
        }
        u.template step<2, 4>(at, there, term, grad, w[half]);
#pragma unroll
        for (int q = 0; q < 2; q++) {
#pragma unroll
            for (int j = 0; j < 4; j++) w[half][q][j] = there[q] ? w[half][q][j] : 0.0f;
            whole[half] += (w[half][q][0] + w[half][q][1]) + (w[half][q][2] + w[half][q][3]);
        }
    }
}

/* sum[n] += those weights times the next samples. In single precision the sum of 32 inputs starts from 0, because
 * tensor cores do not round sums to the nearest. */
template <int SPLIT, class S>
static __device__ __forceinline__ void fc_byte_outputs(const unsigned char *next, const float (*w)[2][4],
                                                       float (*sum)[4])
{
    const uint32_t g = threadIdx.x % 32 / 4;
    const unsigned char *from = next + g * S::NEXT_STRIDE + threadIdx.x / 32 % S::WC * 32 + threadIdx.x % 4 * 4;
    uint32_t x[S::KT][2];
    float fresh[S::KT][4];
#pragma unroll
    for (int n = 0; n < S::KT; n++) {
        x[n][0] = *(const uint32_t *)(from + 8 * n * S::NEXT_STRIDE);
        x[n][1] = *(const uint32_t *)(from + 8 * n * S::NEXT_STRIDE + 16);
#pragma unroll
        for (int e = 0; e < 4; e++) fresh[n][e] = SPLIT ? 0.0f : sum[n][e];
    }
#pragma unroll
    for (int j = 0; j < 4; j++) {
        fli_frag_a<SPLIT> a;
#pragma unroll
        for (int e = 0; e < 4; e++) a.set(e, w[e % 2][e / 2][j]);
#pragma unroll
        for (int n0 = 0; n0 < S::KT; n0 += 4) { /* four products that do not depend on each other */
            uint32_t b[4][2];
#pragma unroll
            for (int n = n0; n < S::KT && n < n0 + 4; n++)
                b[n - n0][0] = fc_of_byte(x[n][0], j), b[n - n0][1] = fc_of_byte(x[n][1], j);
            if (SPLIT)
#pragma unroll
                for (int n = n0; n < S::KT && n < n0 + 4; n++) fli_mma(fresh[n], a.lo, b[n - n0]);
#pragma unroll
            for (int n = n0; n < S::KT && n < n0 + 4; n++) fli_mma(fresh[n], a.hi, b[n - n0]);
        }
    }
#pragma unroll
    for (int n = 0; n < S::KT; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) sum[n][e] = SPLIT ? sum[n][e] + fresh[n][e] : fresh[n][e];
}

/* The sums of all warps, scale, bias and ReLU: `to` has the next mini-batch's outputs. */
template <class S>
static __device__ __forceinline__ void fc_byte_finish(const fc_byte_run<S> &b, const fc_layer &l, const float (*sum)[4],
                                                      float *whole, const float *bias, float *to)
{
    const fc_fused_cuts &r = b.r;
    float *memory = b.memory;
    const uint32_t warp = threadIdx.x / 32, g = threadIdx.x % 32 / 4, t = threadIdx.x % 4;
    float *mine = memory + warp % S::WC * ((S::ROWS + 1) * S::SUM) + warp / S::WC * 16 + g;
#pragma unroll
    for (int n = 0; n < S::KT; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) mine[(8 * n + 2 * t + e % 2) * S::SUM + e / 2 * 8] = sum[n][e];
#pragma unroll
    for (int half = 0; half < 2; half++) {
        whole[half] += __shfl_xor_sync(0xffffffffu, whole[half], 1);
        whole[half] += __shfl_xor_sync(0xffffffffu, whole[half], 2);
        if (!t) mine[S::ROWS * S::SUM + 8 * half] = whole[half];
    }
    __syncthreads();
    for (uint32_t i = threadIdx.x; i < S::ROWS * S::TU; i += S::THREADS) {
        const uint32_t n = i / S::TU, m = i % S::TU;
        if (n >= r.next.rows || r.unit + m >= r.w.rows) continue;
        float v = 0, weights = 0;
#pragma unroll
        for (int w = 0; w < S::WC; w++) {
            v += memory[(w * (S::ROWS + 1) + n) * S::SUM + m];
            weights += memory[(w * (S::ROWS + 1) + S::ROWS) * S::SUM + m];
        }
        v = b.scale * v + (bias[m] + (b.shift != 0 ? b.shift * weights : 0.0f));
        to[(size_t)n * r.w.rows + r.unit + m] = l.relu && v < 0 ? 0 : v;
    }
}

/* Sets the block's work. Mini-batches b and next as in fc_fused_bytes. */
template <class S>
static __device__ __forceinline__ fc_byte_run<S>
fc_byte_run_of(const fli_cuda_batch &b, const fli_cuda_batch &next, uint32_t number, const fc_layer &l,
               const fli_cuda_data &d, const fli_update<float> &u, const float *error, float *memory)
{
    const fli_cuda_lane *lane = &b.lane[number];
    const uint32_t rows = fli_cuda_rows(lane, &b), after = number < next.lanes ? fli_cuda_rows(lane, &next) : 0;
    fc_byte_run<S> run;
    run.r = {{error + (size_t)number * b.room * l.units, rows, l.units},
             {NULL, rows, l.inputs},
             {NULL, after, l.inputs},
             {u.z + l.weight, l.units, l.inputs},
             blockIdx.x * S::TU,
             (l.inputs + S::TC - 1) / S::TC};
    run.term = {u.term ? u.term + l.weight : NULL, l.units, l.inputs};
    run.any = d.x;
    run.scale = d.scale ? (float)d.scale[0] : 1.0f;
    run.shift = d.scale ? (float)d.shift[0] : 0.0f;
    run.memory = memory;
    fc_find_samples<S>(d, lane, b.step, rows, run.in);
    fc_find_samples<S>(d, lane, next.step, after, run.next);
    return run;
}

/* Works on all pieces, the first of which are being fetched. `all`: the sum of the errors of the thread's first unit;
 * that of the other unit is 8 after it. */
template <int SPLIT, class S>
static __device__ __forceinline__ void fc_byte_pieces(const fc_byte_run<S> &b, const fli_update<float> &u,
                                                      size_t weight, const float (*errors)[4], const float *all,
                                                      float (*sum)[4], float *whole)
{
    const uint32_t warp = threadIdx.x / 32;
    const float more[2] = {b.shift != 0 ? b.shift * all[0] : 0.0f, b.shift != 0 ? b.shift * all[8] : 0.0f};
    const int busy = b.r.unit + warp / S::WC * 16 < b.r.w.rows;
    for (uint32_t i = 0; i < b.r.pieces; i++) {
        fli_async_wait<1>(); /* all but the weights of piece i + 1 */
        __syncthreads();
        b.samples_ahead(i + 1);
        fli_async_commit();
        b.weights_ahead(i + S::STAGES - 1);
        fli_async_commit();
        if (!busy || i * S::TC + warp % S::WC * 32 >= b.r.w.width) continue;
        float w[2][2][4];
        fc_byte_step<SPLIT, S>(b, u, weight, i, errors, more, w, whole);
        if (b.r.next.rows) fc_byte_outputs<SPLIT, S>(b.next_samples(i), w, sum);
    }
    fli_async_wait<0>();
    __syncthreads();
}

/* blockIdx: x cuts the units, y is the lane; the last lanes come first, because they are still in the cache. b, error:
 * of the step; next, out: of the following mini-batch, which fewer lanes may have. */
template <int SPLIT, class S>
__global__ void __launch_bounds__(S::THREADS, S::RESIDENT)
    fc_fused_bytes(fli_cuda_batch b, fli_cuda_batch next, fc_layer l, fli_cuda_data d, const float *error, float *out)
{
    FLI_DYNAMIC(bytes);
    float *memory = (float *)bytes, *bias = memory + S::ALL, *all_errors = bias + S::TU;
    const uint32_t lane = b.lanes - 1 - blockIdx.y;
    float a[S::KT][4], sum[S::KT][4], whole[2] = {0, 0};
    fli_update<float> u;
    u.init(&b.lane[lane], b.step, 0);
    u.gradient = NULL; /* tells the compiler */
    fli_overlap();
    const fc_byte_run<S> run = fc_byte_run_of<S>(b, next, lane, l, d, u, error, memory);
    float *errors = run.weights(S::STAGES - 1);
    fc_fetch<apart<S::E_STRIDE>, 1, S::ROWS, S::TU, S::THREADS>(errors, run.r.error, 0, run.r.unit);
    fli_async_commit();
    run.samples_ahead(0);
    for (uint32_t i = 0; i < S::STAGES - 1; i++) {
        run.weights_ahead(i);
        fli_async_commit();
    }
#pragma unroll
    for (int i = 0; i < 4 * S::KT; i++) sum[i / 4][i % 4] = 0;
    fli_async_wait<S::STAGES - 1>();
    __syncthreads();
    fc_errors<SPLIT, S>(errors, a);
    fc_fused_bias<S>(run.r, u, l, errors, bias, all_errors);
    __syncthreads();
    const float *all = all_errors + threadIdx.x / 32 / S::WC * 16 + threadIdx.x % 32 / 4;
    fc_byte_pieces<SPLIT, S>(run, u, l.weight, a, all, sum, whole);
    fc_byte_finish<S>(run, l, sum, whole, bias, out + (size_t)lane * b.room * l.units);
}

#endif
