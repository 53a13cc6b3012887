/* Whole turns of networks with one hidden layer that is too large for the shared memory of a block: a cluster of blocks
 * takes a lane from its first step to its last, and each has some of the units, their weights in its shared memory. Only
 * samples travel, as bytes, and the blocks' parts of the logits.
 *
 * Products with the samples are made on tensor cores. A byte is a number of tf32 as it is; so in single precision only
 * weights and errors have a high and a low part, and a product is two of those of mma.cuh, not three. The scale of the
 * samples is applied to sums; what is added to each value comes in by the sum of a unit's weights.
 *
 *     forward    rows x units    over inputs: warps share the rows, and the inputs in WIDE_GROUPS groups
 *     step       inputs x units  over rows: warps share the inputs, 16 at a time
 *
 * Weights: a row of inputs per unit, 16 floats more than a multiple of 32 long, so that neighbouring units are 16 banks
 * apart; and in units 2, 3, 6, 7 ... neighbouring pairs of fours are exchanged. Forward, threads read fours of inputs of
 * eight units; in the step pairs of inputs of units t and t + 4: neither meets a bank twice. */
#include "cuda/mma.cuh"
#include "cuda/wide_plan.h"

namespace
{

enum { WARP = 32, GROUPS = WIDE_GROUPS, ROUND = WIDE_ROUND, ROW_THREADS = 4 };
#define NOWHERE WIDE_NOWHERE

/* What a block knows of its part. */
typedef struct {
    uint32_t first, units;        /* of the hidden layer */
    uint32_t n;                   /* rows of this step */
    float scale, shift;           /* of samples */
    const float *add, *anchor;    /* the lane's vectors */
    float *buffer;
    float lr, decay, rho, momentum;
} part;

static __device__ __forceinline__ float of_byte(uint32_t word, uint32_t i)
{
    return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440u + i)) - 8388608.0f;
}

/* The place of chunk `four` (of four inputs) of 16 in a unit's row. */
static __device__ __forceinline__ uint32_t four_at(uint32_t unit, uint32_t four) { return (four ^ (unit & 2)) * 4; }

/* Weight number `at`, which is z and has the gradient g; m: its momentum, or NULL.
 * d = g + decay z + add - rho anchor; m = momentum m + d; z = z - lr m. */
static __device__ __forceinline__ float moved(const part &a, uint32_t at, float *m, float z, float g)
{
    g += a.decay * z;
    if (a.add) g += a.add[at];
    if (a.anchor) g -= a.rho * a.anchor[at];
    if (m) g = *m = a.momentum * *m + g;
    return z - a.lr * g;
}

/* ---- forward --------------------------------------------------------------------------------------------- */

/* sum += X W' of 16 inputs, MT times 16 rows. In single precision the sum of 16 products is made anew and then added,
 * as tensor cores do not round what they add up to the nearest. */
template <int SPLIT, int MT>
static __device__ __forceinline__ void multiply(const uint32_t (*x)[MT][4], const float4 &w, float (*sum)[4])
{
    float fresh[MT][4];
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int e = 0; e < 4; e++) fresh[m][e] = SPLIT ? 0.0f : sum[m][e];
#pragma unroll
    for (int p = 0; p < 2; p++) {
        fli_frag_b<SPLIT> b;
        b.set(0, p ? w.z : w.x);
        b.set(1, p ? w.w : w.y);
        if (SPLIT) {
#pragma unroll
            for (int m = 0; m < MT; m++) fli_mma(fresh[m], x[p][m], b.lo);
        }
#pragma unroll
        for (int m = 0; m < MT; m++) fli_mma(fresh[m], x[p][m], b.hi);
    }
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int e = 0; e < 4; e++) sum[m][e] = SPLIT ? sum[m][e] + fresh[m][e] : fresh[m][e];
}

/* A warp's part of the inputs of all units, for its rows. */
template <int SPLIT, int NT, int MT>
static __device__ __forceinline__ void forward(const wide_plan &p, const part &a, unsigned char *memory,
                                               float (*sum)[MT][4])
{
    const uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP;
    const uint32_t group = warp % GROUPS, top = warp / GROUPS * MT * 16;
    const unsigned char *x = memory + p.x + 4 * t;
    const float *w = (const float *)(memory + p.w);
    uint32_t row[MT][2], at[NT];
    float whole[NT];
#pragma unroll
    for (int n = 0; n < NT; n++) {
        uint32_t unit = min(8u * n + g, a.units - 1);
        at[n] = unit * p.w_stride + four_at(unit, t);
        whole[n] = 0;
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int e = 0; e < 4; e++) sum[n][m][e] = 0;
    }
#pragma unroll
    for (int m = 0; m < MT; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) row[m][half] = min(top + 16 * m + 8 * half + g, p.batch - 1) * p.x_stride;
    for (uint32_t q = group; q < p.chunks; q += GROUPS) {
        uint32_t v[2][MT][4];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                const uint32_t word = *(const uint32_t *)(x + row[m][half] + 16 * q);
#pragma unroll
                for (int i = 0; i < 4; i++) v[i / 2][m][i % 2 * 2 + half] = __float_as_uint(of_byte(word, i));
            }
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const float4 y = *(const float4 *)(w + at[n] + 16 * q);
            whole[n] += (y.x + y.y) + (y.z + y.w);
            multiply<SPLIT, MT>(v, y, sum[n]);
        }
    }
    float *w_sum = (float *)(memory + p.w_sum) + group * NT * 8;
#pragma unroll
    for (int n = 0; n < NT; n++) {
        whole[n] += __shfl_xor_sync(0xffffffffu, whole[n], 1);
        whole[n] += __shfl_xor_sync(0xffffffffu, whole[n], 2);
        if (!top && !t) w_sum[8 * n + g] = whole[n];
    }
}

/* Adds up what the groups have, some units at a time, and makes activations of it. */
template <int NT, int MT, int THREADS>
static __device__ __forceinline__ void activate(const wide_plan &p, const part &a, unsigned char *memory,
                                                const float (*sum)[MT][4])
{
    constexpr int ROUNDS = (NT + ROUND - 1) / ROUND, WIDTH = 8 * ROUND, PAIRS = WIDE_ROWS * WIDTH / 2;
    constexpr int OWN = (PAIRS + THREADS - 1) / THREADS;
    const uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP;
    const uint32_t group = warp % GROUPS, top = warp / GROUPS * MT * 16;
    float *room = (float *)(memory + p.d);
    float2 done[ROUNDS][OWN];
#pragma unroll
    for (int r = 0; r < ROUNDS; r++) {
#pragma unroll
        for (int n = r * ROUND; n < NT && n < (r + 1) * ROUND; n++)
#pragma unroll
            for (int m = 0; m < MT; m++) {
                float *to = room + (group * WIDE_ROWS + top + 16 * m + g) * WIDTH + 8 * (n - r * ROUND) + 2 * t;
                *(float2 *)to = make_float2(sum[n][m][0], sum[n][m][1]);
                *(float2 *)(to + 8 * WIDTH) = make_float2(sum[n][m][2], sum[n][m][3]);
            }
        __syncthreads();
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const float *from = room + 2 * min(threadIdx.x + i * THREADS, PAIRS - 1u);
            float2 s = make_float2(0, 0);
#pragma unroll
            for (int k = 0; k < GROUPS; k++) {
                const float2 v = *(const float2 *)(from + k * WIDE_ROWS * WIDTH);
                s.x += v.x;
                s.y += v.y;
            }
            done[r][i] = s;
        }
        __syncthreads();
    }
    const float *bias = (const float *)(memory + p.b), *w_sum = (const float *)(memory + p.w_sum);
    float *h = (float *)(memory + p.h);
    const float least = p.relu ? 0.0f : -INFINITY;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++)
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            uint32_t pair = threadIdx.x + i * THREADS, row = pair / (WIDTH / 2);
            uint32_t unit = r * WIDTH + (pair - row * (WIDTH / 2)) * 2;
#pragma unroll
            for (int e = 0; e < 2; e++, unit++) {
                if (row >= a.n || unit >= a.units) continue;
                float z = a.scale * (e ? done[r][i].y : done[r][i].x) + bias[unit], whole = 0;
                for (int k = 0; k < GROUPS; k++) whole += w_sum[k * NT * 8 + unit];
                if (a.shift != 0) z += a.shift * whole;
                h[row * p.h_stride + unit] = z < least ? least : z; /* a NaN stays one */
            }
        }
}

/* ---- the last layer -------------------------------------------------------------------------------------- */

/* What the block's units give to the logits. */
static __device__ __forceinline__ void part_of_logits(const wide_plan &p, const part &a, uint32_t step,
                                                      unsigned char *memory)
{
    const float *h = (const float *)(memory + p.h), *top = (const float *)(memory + p.top);
    float *to = (float *)(memory + p.part[step % 2]);
    for (uint32_t i = threadIdx.x; i < WIDE_ROWS * p.classes; i += blockDim.x) {
        uint32_t row = i % WIDE_ROWS, c = i / WIDE_ROWS, u = 0;
        if (row >= a.n) continue;
        float s[4] = {0, 0, 0, 0};
        for (; u + 4 <= a.units; u += 4) {
            const float4 x = *(const float4 *)(h + row * p.h_stride + u), y = *(const float4 *)(top + c * p.h_stride + u);
            s[0] += x.x * y.x, s[1] += x.y * y.y, s[2] += x.z * y.z, s[3] += x.w * y.w;
        }
        for (; u < a.units; u++) s[0] += h[row * p.h_stride + u] * top[c * p.h_stride + u];
        to[row * p.classes + c] = (s[0] + s[1]) + (s[2] + s[3]);
    }
}

/* Where row `row` stands in a column of errors: rows t, t + 4, t + 8, t + 12 of 16 side by side. */
static __device__ __forceinline__ uint32_t place_of(uint32_t row) { return (row & ~15u) + row % 4 * 4 + row / 4 % 4; }

/* Errors of the logits, which every block computes for itself; a row by four threads of a warp. */
static __device__ __forceinline__ void softmax_errors(const wide_plan &p, const part &a, uint32_t step,
                                                      unsigned char *memory)
{
    constexpr int OWN = WIDE_CLASSES_MOST / ROW_THREADS;
    const uint32_t own = threadIdx.x % ROW_THREADS;
    const float *from = (const float *)(memory + p.part[step % 2]), *bias = (const float *)(memory + p.b_top);
    const int32_t *label = (const int32_t *)(memory + p.labels) + step % 2 * p.batch;
    float *error = (float *)(memory + p.error);
    for (uint32_t row = threadIdx.x / ROW_THREADS; row < WIDE_ROWS; row += blockDim.x / ROW_THREADS) {
        float z[OWN], most = -INFINITY, sum = 0;
        const int there = row < a.n;
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            uint32_t c = own + i * ROW_THREADS;
            z[i] = there && c < p.classes ? bias[c] : -INFINITY;
        }
        for (uint32_t k = 0; k < p.cluster; k++) {
            const float *its = fli_cluster_at(from, k) + row * p.classes;
#pragma unroll
            for (int i = 0; i < OWN; i++) {
                uint32_t c = own + i * ROW_THREADS;
                if (there && c < p.classes) z[i] += its[c];
            }
        }
#pragma unroll
        for (int i = 0; i < OWN; i++) most = max(most, z[i]);
        for (int k = 1; k < ROW_THREADS; k *= 2) most = max(most, __shfl_xor_sync(0xffffffffu, most, k));
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            uint32_t c = own + i * ROW_THREADS;
            if (!there || c >= p.classes) continue;
            z[i] = expf(z[i] - most);
            sum += z[i];
        }
        for (int k = 1; k < ROW_THREADS; k *= 2) sum += __shfl_xor_sync(0xffffffffu, sum, k);
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            uint32_t c = own + i * ROW_THREADS;
            if (c >= p.classes) continue;
            float e = there ? (z[i] / sum - (c == (uint32_t)label[row] ? 1.0f : 0.0f)) / (float)a.n : 0.0f;
            error[c * WIDE_ROWS + place_of(row)] = e;
        }
    }
}

/* Errors of the block's units, in the order in which tensor cores take them: of 16 rows and 8 units thread (g, t) has
 * rows t, t + 4, t + 8, t + 12 of unit g / 2 + 4 (g % 2). And their sums, the gradient of the bias. */
template <int NT>
static __device__ __forceinline__ void unit_errors(const wide_plan &p, const part &a, unsigned char *memory)
{
    constexpr int DOWN = WIDE_ROWS / 16;
    const float *h = (const float *)(memory + p.h), *top = (const float *)(memory + p.top);
    const float *error = (const float *)(memory + p.error);
    float4 *d = (float4 *)(memory + p.d);
    float *b_grad = (float *)(memory + p.b_grad);
    const uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    for (uint32_t n = threadIdx.x / WARP; n < NT; n += blockDim.x / WARP) {
        const uint32_t unit = 8 * n + g / 2 + 4 * (g % 2), in = min(unit, a.units - 1);
        float s[DOWN][4], all = 0;
#pragma unroll
        for (int k = 0; k < DOWN; k++)
#pragma unroll
            for (int j = 0; j < 4; j++) s[k][j] = 0;
        for (uint32_t c = 0; c < p.classes; c++) {
            const float w = top[c * p.h_stride + in];
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
                uint32_t row = 16 * k + t + 4 * j;
                int on = row < a.n && unit < a.units && (!p.relu || h[row * p.h_stride + in] > 0);
                s[k][j] = on ? s[k][j] : 0.0f;
                all += s[k][j];
            }
            d[(k * NT + n) * WARP + lane] = make_float4(s[k][0], s[k][1], s[k][2], s[k][3]);
        }
        all += __shfl_xor_sync(0xffffffffu, all, 1);
        all += __shfl_xor_sync(0xffffffffu, all, 2);
        if (!t) b_grad[unit] = all;
    }
}

/* The gradient of the last layer in the block's units; a thread has one unit and some classes. */
template <int THREADS> struct top_gradient {
    enum { ACROSS = 64, UP = THREADS / ACROSS, OWN = WIDE_CLASSES_MOST / UP };
    float g[OWN], bias;

    __device__ __forceinline__ void make(const wide_plan &p, const part &a, unsigned char *memory)
    {
        const float *h = (const float *)(memory + p.h), *error = (const float *)(memory + p.error);
        const uint32_t unit = min(threadIdx.x % ACROSS, a.units - 1), first = threadIdx.x / ACROSS;
#pragma unroll
        for (int i = 0; i < OWN; i++) g[i] = 0;
        bias = 0;
        for (uint32_t q = 0; q < WIDE_ROWS / 4 && q / 4 * 16 < a.n; q++) {
            float x[4];
#pragma unroll
            for (int j = 0; j < 4; j++) x[j] = h[min(q / 4 * 16 + q % 4 + 4 * j, a.n - 1) * p.h_stride + unit];
#pragma unroll
            for (int i = 0; i < OWN; i++) {
                if (first + i * UP >= p.classes) continue;
                const float4 e = *(const float4 *)(error + (first + i * UP) * WIDE_ROWS + 4 * q);
                g[i] += (e.x * x[0] + e.y * x[1]) + (e.z * x[2] + e.w * x[3]);
            }
        }
        if (threadIdx.x < p.classes)
            for (uint32_t r = 0; r < WIDE_ROWS; r++) bias += error[threadIdx.x * WIDE_ROWS + r];
    }

    /* Behind a barrier: nobody needs the old weights any more. */
    __device__ __forceinline__ void step(const wide_plan &p, const part &a, unsigned char *memory) const
    {
        float *top = (float *)(memory + p.top), *b = (float *)(memory + p.b_top), *m = (float *)(memory + p.m_top);
        const uint32_t unit = threadIdx.x % ACROSS, first = threadIdx.x / ACROSS;
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            uint32_t c = first + i * UP;
            if (c >= p.classes || unit >= a.units) continue;
            const uint32_t at = p.top_weight + c * p.units + a.first + unit;
            float *w = top + c * p.h_stride + unit;
            *w = moved(a, at, a.buffer ? a.buffer + at : NULL, *w, g[i]);
        }
        if (threadIdx.x >= p.classes || p.top_bias == NOWHERE) return;
        /* every block has all of these, and their momentum */
        b += threadIdx.x;
        *b = moved(a, p.top_bias + threadIdx.x, a.buffer ? m + threadIdx.x : NULL, *b, bias);
    }
};

/* ---- the step of the first layer ------------------------------------------------------------------------- */

/* A vector's values at the weights of 16 inputs that a thread has, for each: use(n, element, value). */
template <int NT, class Use>
static __device__ __forceinline__ void for_pairs(const wide_plan &p, const part &a, const float *v, uint32_t input,
                                                 Use use)
{
    const uint32_t t = threadIdx.x % 4;
    float2 got[NT][2];
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            uint32_t unit = 8 * n + t + 4 * e;
            got[n][e] = make_float2(0, 0);
            if (unit < a.units && input < p.inputs)
                got[n][e] = *(const float2 *)(v + p.weight + (size_t)(a.first + unit) * p.inputs + input);
        }
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            use(n, e, got[n][e].x);
            use(n, 2 + e, got[n][e].y);
        }
}

/* z by the gradient g of 16 inputs, from 16 chunk on. */
template <int NT>
static __device__ __forceinline__ void step_chunk(const wide_plan &p, const part &a, unsigned char *memory,
                                                  uint32_t chunk, float (*g)[4])
{
    const uint32_t lane = threadIdx.x % WARP, i = lane / 4, t = lane % 4, input = 16 * chunk + 2 * i;
    const float *b_grad = (const float *)(memory + p.b_grad);
    float *w = (float *)(memory + p.w) + 16 * chunk + four_at(t, i / 2) + i % 2 * 2;
    if (a.add) for_pairs<NT>(p, a, a.add, input, [&](int n, int e, float v) { g[n][e] += v; });
    if (a.anchor) for_pairs<NT>(p, a, a.anchor, input, [&](int n, int e, float v) { g[n][e] -= a.rho * v; });
    if (a.buffer) {
        float old[NT][4];
        for_pairs<NT>(p, a, a.buffer, input, [&](int n, int e, float v) { old[n][e] = a.momentum * v; });
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) g[n][e] += old[n][e];
    }
#pragma unroll
    for (int n = 0; n < NT; n++)
#pragma unroll
        for (int e = 0; e < 2; e++) {
            const uint32_t unit = 8 * n + t + 4 * e;
            if (unit >= a.units || input >= p.inputs) continue;
            float2 *at = (float2 *)(w + unit * p.w_stride), z = *at;
            float2 d = make_float2(g[n][e] + a.decay * z.x, g[n][2 + e] + a.decay * z.y);
            if (a.shift != 0) {
                d.x += a.shift * b_grad[unit];
                d.y += a.shift * b_grad[unit];
            }
            if (a.buffer) *(float2 *)(a.buffer + p.weight + (size_t)(a.first + unit) * p.inputs + input) = d;
            *at = make_float2(z.x - a.lr * d.x, z.y - a.lr * d.y);
        }
}

/* The gradient of CHUNKS chunks, `apart` from each other, and the step with it. */
template <int SPLIT, int NT, int CHUNKS>
static __device__ __forceinline__ void step_chunks(const wide_plan &p, const part &a, unsigned char *memory,
                                                   uint32_t chunk, uint32_t apart)
{
    const uint32_t lane = threadIdx.x % WARP, i = lane / 4, t = lane % 4;
    const unsigned char *x = memory + p.x + 16 * chunk + 2 * i;
    const float4 *d = (const float4 *)(memory + p.d) + lane;
    float sum[CHUNKS][NT][4];
#pragma unroll
    for (int c = 0; c < CHUNKS; c++)
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) sum[c][n][e] = 0;
    for (uint32_t k = 0; 16 * k < a.n; k++) {
        uint32_t v[CHUNKS][2][4];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const unsigned char *row = x + min(16 * k + t + 4 * j, p.batch - 1) * p.x_stride;
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                uint32_t two = *(const uint16_t *)(row + 16 * c * apart);
                v[c][j / 2][j % 2 * 2] = __float_as_uint(of_byte(two, 0));
                v[c][j / 2][j % 2 * 2 + 1] = __float_as_uint(of_byte(two, 1));
            }
        }
#pragma unroll
        for (int n = 0; n < NT; n++) {
            const float4 y = d[(k * NT + n) * WARP];
            float fresh[CHUNKS][4];
#pragma unroll
            for (int c = 0; c < CHUNKS; c++)
#pragma unroll
                for (int e = 0; e < 4; e++) fresh[c][e] = SPLIT ? 0.0f : sum[c][n][e];
#pragma unroll
            for (int h = 0; h < 2; h++) {
                fli_frag_b<SPLIT> b;
                b.set(0, h ? y.z : y.x);
                b.set(1, h ? y.w : y.y);
                if (SPLIT) {
#pragma unroll
                    for (int c = 0; c < CHUNKS; c++) fli_mma(fresh[c], v[c][h], b.lo);
                }
#pragma unroll
                for (int c = 0; c < CHUNKS; c++) fli_mma(fresh[c], v[c][h], b.hi);
            }
#pragma unroll
            for (int c = 0; c < CHUNKS; c++)
#pragma unroll
                for (int e = 0; e < 4; e++) sum[c][n][e] = SPLIT ? sum[c][n][e] + fresh[c][e] : fresh[c][e];
        }
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) sum[c][n][e] *= a.scale;
        step_chunk<NT>(p, a, memory, chunk + c * apart, sum[c]);
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
static __device__ __forceinline__ void fetch_ids(const wide_plan &p, const fli_cuda_lane &lane, uint32_t step,
                                                 uint32_t n, unsigned char *memory)
{
    if (step >= lane.steps) return;
    uint32_t *ids = (uint32_t *)(memory + p.ids) + step % 2 * p.batch;
    const uint32_t *from = lane.order + (size_t)step * lane.stride;
    for (uint32_t r = threadIdx.x; r < n; r += blockDim.x) fli_async4(ids + r, from + r, 1);
}

static __device__ __forceinline__ void fetch_labels(const wide_plan &p, const fli_cuda_data &data, uint32_t step,
                                                    uint32_t n, unsigned char *memory)
{
    const uint32_t *ids = (const uint32_t *)(memory + p.ids) + step % 2 * p.batch;
    int32_t *labels = (int32_t *)(memory + p.labels) + step % 2 * p.batch;
    for (uint32_t r = threadIdx.x; r < n; r += blockDim.x) fli_async4(labels + r, data.label + ids[r], 1);
}

/* 16 inputs of all n rows, by a warp. */
static __device__ __forceinline__ void fetch_chunk(const wide_plan &p, const fli_cuda_data &data, uint32_t step,
                                                   uint32_t n, uint32_t chunk, unsigned char *memory)
{
    const uint32_t *ids = (const uint32_t *)(memory + p.ids) + step % 2 * p.batch;
    for (uint32_t r = threadIdx.x % WARP; r < n; r += WARP) {
        const unsigned char *from = (const unsigned char *)data.x + (size_t)ids[r] * p.inputs + 16 * chunk;
        unsigned char *to = memory + p.x + r * p.x_stride + 16 * chunk;
        if (p.piece == 16)
            fli_async16(to, from, 1);
        else
            for (uint32_t i = 0; i < 16 && 16 * chunk + i < p.inputs; i += 4) fli_async4(to + i, from + i, 1);
    }
}

/* ---- turns ----------------------------------------------------------------------------------------------- */

/* Every weight of the block: what(its place in shared memory, as a float; its place in the lane's vectors). */
template <class What>
static __device__ __forceinline__ void for_weights(const wide_plan &p, const part &a, What what)
{
    for (uint32_t i = threadIdx.x; i < a.units * p.inputs; i += blockDim.x) {
        uint32_t unit = i / p.inputs, in = i - unit * p.inputs;
        what(p.w / 4 + unit * p.w_stride + (in & ~15u) + four_at(unit, in / 4 % 4) + in % 4,
             p.weight + a.first * p.inputs + i);
    }
    for (uint32_t i = threadIdx.x; i < p.classes * a.units; i += blockDim.x) {
        uint32_t c = i / a.units, unit = i - c * a.units;
        what(p.top / 4 + c * p.h_stride + unit, p.top_weight + c * p.units + a.first + unit);
    }
    if (p.bias != NOWHERE)
        for (uint32_t i = threadIdx.x; i < a.units; i += blockDim.x) what(p.b / 4 + i, p.bias + a.first + i);
}

static __device__ __forceinline__ void begin_turn(const wide_plan &p, const part &a, const fli_cuda_lane &lane,
                                                  unsigned char *memory)
{
    const float *z = (const float *)lane.z;
    float *to = (float *)memory;
    for (uint32_t i = threadIdx.x; i < a.units * (p.w_stride - p.inputs); i += blockDim.x) {
        uint32_t unit = i / (p.w_stride - p.inputs), in = p.inputs + i - unit * (p.w_stride - p.inputs);
        to[p.w / 4 + unit * p.w_stride + (in & ~15u) + four_at(unit, in / 4 % 4) + in % 4] = 0;
    }
    for (uint32_t i = threadIdx.x; i < p.batch * p.x_stride / 4; i += blockDim.x) ((uint32_t *)(memory + p.x))[i] = 0;
    for (uint32_t i = threadIdx.x; i < p.tiles * 8; i += blockDim.x) to[p.b / 4 + i] = 0;
    for (uint32_t i = threadIdx.x; i < p.classes; i += blockDim.x) {
        int there = p.top_bias != NOWHERE;
        to[p.b_top / 4 + i] = there ? z[p.top_bias + i] : 0;
        to[p.m_top / 4 + i] = there && a.buffer ? a.buffer[p.top_bias + i] : 0;
    }
    __syncthreads();
    for_weights(p, a, [&](uint32_t at, uint32_t from) { to[at] = z[from]; });
}

static __device__ __forceinline__ void end_turn(const wide_plan &p, const part &a, const fli_cuda_lane &lane,
                                                const unsigned char *memory)
{
    float *z = (float *)lane.z;
    const float *from = (const float *)memory;
    for_weights(p, a, [&](uint32_t at, uint32_t to) { z[to] = from[at]; });
    if (a.first || p.top_bias == NOWHERE) return;
    for (uint32_t i = threadIdx.x; i < p.classes; i += blockDim.x) {
        z[p.top_bias + i] = from[p.b_top / 4 + i];
        if (a.buffer) a.buffer[p.top_bias + i] = from[p.m_top / 4 + i];
    }
}

static __device__ __forceinline__ part part_of(const wide_plan &p, const fli_cuda_data &data, const fli_cuda_lane &lane)
{
    part a;
    a.first = fli_cluster_rank() * p.per;
    a.units = min(p.per, p.units - a.first);
    a.scale = data.scale ? (float)data.scale[0] : 1.0f;
    a.shift = data.scale ? (float)data.shift[0] : 0.0f;
    a.add = (const float *)lane.shift;
    a.anchor = (const float *)lane.anchor;
    a.buffer = (float *)lane.buffer;
    a.rho = a.anchor ? (float)lane.rho : 0.0f;
    a.momentum = (float)lane.momentum;
    return a;
}

static __device__ __forceinline__ void set_rates(const fli_cuda_lane &lane, uint32_t step, part *a)
{
    a->lr = (float)(lane.rates ? lane.rates[2 * (size_t)step] : lane.lr);
    a->decay = (float)(lane.rates ? lane.rates[2 * (size_t)step + 1] : lane.wd) + a->rho;
}

/* Errors of the units from the samples. */
template <int SPLIT, int NT, int MT, int THREADS>
static __device__ __forceinline__ void errors_of(const wide_plan &p, const part &a, uint32_t step,
                                                 unsigned char *memory)
{
    {
        float sum[NT][MT][4];
        forward<SPLIT, NT, MT>(p, a, memory, sum);
        activate<NT, MT, THREADS>(p, a, memory, sum);
    }
    __syncthreads();
    part_of_logits(p, a, step, memory);
    fli_cluster_sync();
    softmax_errors(p, a, step, memory);
    __syncthreads();
    unit_errors<NT>(p, a, memory);
    top_gradient<THREADS> top;
    top.make(p, a, memory);
    __syncthreads();
    top.step(p, a, memory);
    if (p.bias == NOWHERE || threadIdx.x >= a.units) return;
    const uint32_t at = p.bias + a.first + threadIdx.x;
    float *b = (float *)(memory + p.b) + threadIdx.x, g = ((const float *)(memory + p.b_grad))[threadIdx.x];
    *b = moved(a, at, a.buffer ? a.buffer + at : NULL, *b, g);
}

template <int SPLIT, int NT, int MT, int ACROSS>
__global__ void __launch_bounds__(WARP *GROUPS *ACROSS, 1)
    turns(const wide_plan p, const fli_cuda_data data, const fli_cuda_lane *lanes)
{
#if FLI_CLUSTERS
    constexpr uint32_t WARPS = GROUPS * ACROSS;
    FLI_DYNAMIC(memory);
    const fli_cuda_lane lane = lanes[blockIdx.x / p.cluster];
    if (!lane.n || !lane.steps) return;
    const uint32_t warp = threadIdx.x / WARP;
    part a = part_of(p, data, lane);
    uint32_t at = 0, next = next_rows(lane, &at), after = next_rows(lane, &at);
    begin_turn(p, a, lane, memory);
    fetch_ids(p, lane, 0, next, memory);
    fetch_ids(p, lane, 1, after, memory);
    fli_async_commit();
    fli_async_wait<0>();
    __syncthreads();
    fetch_labels(p, data, 0, next, memory);
    for (uint32_t c = warp; c < p.chunks; c += WARPS) fetch_chunk(p, data, 0, next, c, memory);
    fli_async_commit();
    for (uint32_t step = 0; step < lane.steps; step++) {
        a.n = next;
        next = after;
        after = next_rows(lane, &at);
        set_rates(lane, step, &a);
        fli_async_wait<0>();
        __syncthreads();
        fetch_ids(p, lane, step + 2, after, memory);
        errors_of<SPLIT, NT, MT, WARPS * WARP>(p, a, step, memory);
        const int more = step + 1 < lane.steps;
        if (more) fetch_labels(p, data, step + 1, next, memory);
        for (uint32_t c = warp; c < p.chunks; c += 2 * WARPS) {
            const int two = c + WARPS < p.chunks;
            if (two)
                step_chunks<SPLIT, NT, 2>(p, a, memory, c, WARPS);
            else
                step_chunks<SPLIT, NT, 1>(p, a, memory, c, WARPS);
            __syncwarp();
            if (more) fetch_chunk(p, data, step + 1, next, c, memory);
            if (more && two) fetch_chunk(p, data, step + 1, next, c + WARPS, memory);
        }
        fli_async_commit();
    }
    __syncthreads();
    end_turn(p, a, lane, memory);
    fli_cluster_sync(); /* nobody leaves while others read its part of the logits */
#endif
}

uint32_t forced_cluster, forced_warps;

template <int SPLIT, int NT>
void launch(fli_stream s, const wide_plan &p, const fli_cuda_data *data, const fli_cuda_lane *lane, uint32_t lanes)
{
    auto eight = turns<SPLIT, NT, 2, 2>, sixteen = turns<SPLIT, NT, 1, 4>;
    if (forced_warps == 16)
        FLI_LAUNCH_CLUSTER(s, sixteen, lanes * p.cluster, 512, p.bytes, p.cluster, p, *data, lane);
    else
        FLI_LAUNCH_CLUSTER(s, eight, lanes * p.cluster, 256, p.bytes, p.cluster, p, *data, lane);
}

template <int SPLIT>
void launch_tiles(fli_stream s, const wide_plan &p, const fli_cuda_data *data, const fli_cuda_lane *lane,
                  uint32_t lanes)
{
    if (p.tiles == 2)
        launch<SPLIT, 2>(s, p, data, lane, lanes);
    else if (p.tiles == 4)
        launch<SPLIT, 4>(s, p, data, lane, lanes);
    else if (p.tiles == 5)
        launch<SPLIT, 5>(s, p, data, lane, lanes);
    else
        launch<SPLIT, WIDE_TILES_MOST>(s, p, data, lane, lanes);
}

} // namespace

void fli_cuda_wide_force(uint32_t cluster, uint32_t warps)
{
    forced_cluster = cluster;
    forced_warps = warps;
}

int fli_cuda_wide_fits(fli_cuda_type type, const fli_network *net, const fli_cuda_data *data, uint32_t batch)
{
    wide_plan p;
    return type != FLI_CUDA_F64 && wide_plan_make(net, data, batch, forced_cluster, &p);
}

void fli_cuda_wide_turns(fli_stream s, fli_cuda_type type, const fli_network *net, const fli_cuda_data *data,
                         const fli_cuda_lane *lane, uint32_t lanes, uint32_t batch)
{
    wide_plan p;
    if (!lanes || type == FLI_CUDA_F64 || !wide_plan_make(net, data, batch, forced_cluster, &p)) return;
    if (type == FLI_CUDA_TF32)
        launch_tiles<0>(s, p, data, lane, lanes);
    else
        launch_tiles<1>(s, p, data, lane, lanes);
}
