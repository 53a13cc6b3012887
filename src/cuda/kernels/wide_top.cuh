/* The last layer of a wide turn, and softmax: see wide.cu. A block has the weights of all classes from its own units of
 * the layer below, and the biases of all classes, as every other block has. */
#ifndef FLI_CUDA_WIDE_TOP_CUH
#define FLI_CUDA_WIDE_TOP_CUH

#include "cuda/kernels/wide.cuh"

namespace
{

enum { ROW_THREADS = 4 };

/* What the block's units give to the logits; a thread has one row and some classes. */
template <int THREADS>
static __device__ __forceinline__ void part_of_logits(const wide_plan &p, const wide_step &a, uint32_t step,
                                                      unsigned char *memory)
{
    constexpr uint32_t UP = THREADS / WIDE_ROWS, OWN = WIDE_CLASSES_MOST / UP;
    const wide_layer &l = p.layer[p.hidden - 1];
    const uint32_t units = units_of(l).count, row = threadIdx.x % WIDE_ROWS, first = threadIdx.x / WIDE_ROWS;
    const float *h = (const float *)(memory + l.h) + min(row, a.n - 1) * l.h_stride;
    const float *top = (const float *)(memory + p.top) + first * l.h_stride;
    float *to = (float *)(memory + p.part[step % 2]) + row * p.classes + first, s[OWN][4];
    clear<OWN>(s);
#pragma unroll 2
    for (uint32_t u = 0; u < units; u += 4) { /* weights behind the last unit are 0 */
        const float4 x = *(const float4 *)(h + u);
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            if (first + i * UP >= p.classes) break;
            const float4 y = *(const float4 *)(top + i * UP * l.h_stride + u);
            s[i][0] += x.x * y.x, s[i][1] += x.y * y.y, s[i][2] += x.z * y.z, s[i][3] += x.w * y.w;
        }
    }
#pragma unroll
    for (uint32_t i = 0; i < OWN; i++)
        if (row < a.n && first + i * UP < p.classes) to[i * UP] = (s[i][0] + s[i][1]) + (s[i][2] + s[i][3]);
}

/* Where row `row` stands in a column of errors: rows t, t + 4, t + 8, t + 12 of 16 side by side. */
static __device__ __forceinline__ uint32_t place_of(uint32_t row) { return (row & ~15u) + row % 4 * 4 + row / 4 % 4; }

/* Errors of the logits, which every block computes for itself; a row by four threads of a warp. */
static __device__ __forceinline__ void softmax_errors(const wide_plan &p, const wide_step &a, uint32_t step,
                                                      unsigned char *memory)
{
    constexpr int OWN = WIDE_CLASSES_MOST / ROW_THREADS;
    const uint32_t own = threadIdx.x % ROW_THREADS;
    const float *from = (const float *)(memory + p.part[step % 2]), *bias = (const float *)(memory + p.b_top);
    const int32_t *label = (const int32_t *)(memory + p.labels) + step % 2 * p.batch;
    float *error = (float *)(memory + p.error);
    for (uint32_t row = threadIdx.x / ROW_THREADS; row < WIDE_ROWS; row += blockDim.x / ROW_THREADS) {
        const uint32_t there = min(row, a.n - 1);
        float z[OWN], most = -INFINITY, sum = 0;
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) z[i] = bias[min(own + i * ROW_THREADS, p.classes - 1)];
#pragma unroll 4
        for (uint32_t k = 0; k < p.cluster; k++) {
            const float *its = fli_cluster_at(from, k) + there * p.classes;
#pragma unroll
            for (uint32_t i = 0; i < OWN; i++)
                if (i * ROW_THREADS < p.classes) z[i] += its[min(own + i * ROW_THREADS, p.classes - 1)];
        }
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            if (own + i * ROW_THREADS >= p.classes) z[i] = -INFINITY;
            most = max(most, z[i]);
        }
        for (int k = 1; k < ROW_THREADS; k *= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, k));
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            if (i * ROW_THREADS < p.classes) z[i] = expf(z[i] - most);
            if (own + i * ROW_THREADS < p.classes) sum += z[i];
        }
        for (int k = 1; k < ROW_THREADS; k *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
        const float share = 1.0f / (float)a.n, whole = 1.0f / sum;
        const uint32_t correct = (uint32_t)label[there];
#pragma unroll
        for (uint32_t i = 0; i < OWN; i++) {
            const uint32_t c = own + i * ROW_THREADS;
            if (c >= p.classes) break;
            const float e = z[i] * whole;
            error[c * WIDE_ROWS + place_of(row)] = row < a.n ? (c == correct ? e - 1 : e) * share : 0.0f;
        }
    }
}

/* Errors of the block's units of the last hidden layer, and their sums, the gradient of the bias. */
template <int NT>
static __device__ __forceinline__ void unit_errors(const wide_plan &p, const wide_step &a, unsigned char *memory)
{
    const wide_layer &l = p.layer[p.hidden - 1];
    const uint32_t units = units_of(l).count, lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const float *h = (const float *)(memory + l.h), *top = (const float *)(memory + p.top);
    const float *error = (const float *)(memory + p.error);
    float4 *d = (float4 *)(memory + p.d);
    const float least = l.relu ? 0.0f : -INFINITY;
    for (uint32_t n = threadIdx.x / WARP; n < NT; n += blockDim.x / WARP) {
        const uint32_t unit = 8 * n + g / 2 + 4 * (g % 2), in = min(unit, units - 1);
        float s[DOWN][4], all = 0;
        clear<DOWN>(s);
        for (uint32_t c = 0; c < p.classes; c++) {
            const float w = top[c * l.h_stride + in];
#pragma unroll
            for (int k = 0; k < DOWN; k++) {
                const float4 e = *(const float4 *)(error + c * WIDE_ROWS + 16 * k + 4 * t);
                s[k][0] += e.x * w, s[k][1] += e.y * w, s[k][2] += e.z * w, s[k][3] += e.w * w;
            }
        }
#pragma unroll
        for (int k = 0; k < DOWN; k++) {
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const uint32_t row = 16 * k + t + 4 * j;
                const float active = h[min(row, a.n - 1) * l.h_stride + in];
                s[k][j] = row < a.n && unit < units && active > least ? s[k][j] : 0.0f;
                all += s[k][j];
            }
            d[(k * NT + n) * WARP + lane] = make_float4(s[k][0], s[k][1], s[k][2], s[k][3]);
        }
        all += __shfl_xor_sync(0xffffffffu, all, 1);
        all += __shfl_xor_sync(0xffffffffu, all, 2);
        if (!t) ((float *)(memory + l.b_grad))[unit] = all;
    }
}

/* The gradient of the last layer in the block's units; a thread has one unit and some classes. */
template <int THREADS> struct top_gradient {
    enum { ACROSS = 64, UP = THREADS / ACROSS, OWN = WIDE_CLASSES_MOST / UP };
    float g[OWN], bias; /* bias: thread i of warp w has that of class w + i (warps) */
    float term[OWN], bias_term;

    /* Whether its number i is there, and where in the lane's vectors. */
    static __device__ __forceinline__ uint32_t class_of(int i) { return threadIdx.x / ACROSS + i * UP; }
    static __device__ __forceinline__ int has(const wide_plan &p, int i)
    {
        return class_of(i) < p.classes && threadIdx.x % ACROSS < units_of(p.layer[p.hidden - 1]).count;
    }
    static __device__ __forceinline__ uint32_t place(const wide_plan &p, int i)
    {
        const wide_layer &l = p.layer[p.hidden - 1];
        return p.top_weight + class_of(i) * l.units + units_of(l).first + threadIdx.x % ACROSS;
    }
    static __device__ __forceinline__ uint32_t bias_class()
    {
        return threadIdx.x / WARP + threadIdx.x % WARP * (THREADS / WARP);
    }

    __device__ __forceinline__ void ask(const wide_plan &p, const wide_step &a)
    {
        for_each<OWN>([&](int i) { term[i] = term_at(a, place(p, i), has(p, i)); });
        bias_term = term_at(a, p.top_bias + bias_class(), bias_class() < p.classes && p.top_bias != NOWHERE);
    }

    __device__ __forceinline__ void make(const wide_plan &p, const wide_step &a, unsigned char *memory)
    {
        const wide_layer &l = p.layer[p.hidden - 1];
        const float *h = (const float *)(memory + l.h), *error = (const float *)(memory + p.error);
        const uint32_t unit = min(threadIdx.x % ACROSS, units_of(l).count - 1), first = threadIdx.x / ACROSS;
#pragma unroll
        for (int i = 0; i < OWN; i++) g[i] = 0;
        bias = 0;
        for (uint32_t q = 0; q < WIDE_ROWS / 4 && q / 4 * 16 < a.n; q++) {
            float x[4];
#pragma unroll
            for (int j = 0; j < 4; j++) x[j] = h[min(q / 4 * 16 + q % 4 + 4 * j, a.n - 1) * l.h_stride + unit];
#pragma unroll
            for (int i = 0; i < OWN; i++) {
                if (first + i * UP >= p.classes) break;
                const float4 e = *(const float4 *)(error + (first + i * UP) * WIDE_ROWS + 4 * q);
                g[i] += (e.x * x[0] + e.y * x[1]) + (e.z * x[2] + e.w * x[3]);
            }
        }
        for (uint32_t c = threadIdx.x / WARP, i = 0; c < p.classes; c += THREADS / WARP, i++) {
            const float *from = error + c * WIDE_ROWS + threadIdx.x % WARP;
            float all = from[0] + from[WARP];
            for (int k = 1; k < WARP; k *= 2) all += __shfl_xor_sync(0xffffffffu, all, k);
            if (threadIdx.x % WARP == i) bias = all;
        }
    }

    /* Behind a barrier: nobody needs the old weights any more. */
    __device__ __forceinline__ void step(const wide_plan &p, const wide_step &a, unsigned char *memory) const
    {
        const wide_layer &l = p.layer[p.hidden - 1];
        float *top = (float *)(memory + p.top), *b = (float *)(memory + p.b_top), *m = (float *)(memory + p.m_top);
        for_each<OWN>([&](int i) {
            if (!has(p, i)) return;
            float *w = top + class_of(i) * l.h_stride + threadIdx.x % ACROSS;
            *w = moved(a, term[i], a.buffer ? a.buffer + place(p, i) : NULL, *w, g[i]);
        });
        const uint32_t c = bias_class();
        if (c >= p.classes || p.top_bias == NOWHERE) return;
        /* every block has all of these, and their momentum */
        b[c] = moved(a, bias_term, a.buffer ? m + c : NULL, b[c], bias);
    }
};

} // namespace

#endif
