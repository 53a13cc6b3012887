/* Products of a hidden layer by one block of a cluster, which has some of its units: see wide.cu.
 *
 *     forward    rows x units     over inputs: warps share the rows, and the inputs in WIDE_GROUPS groups
 *     step       inputs x units   over rows: warps share the inputs, 16 at a time
 *     below      rows x inputs    over the block's units: errors of the layer below, as far as these units make them
 *
 * Inputs are bytes, of stored samples, or floats. A byte is a number of tf32 as it is; so in single precision only
 * weights and errors have a high and a low part, and a product is two of those of mma.cuh, not three. The scale of
 * samples is applied to sums; what is added to each value comes in by the sum of a unit's weights.
 *
 * Weights: a row of inputs per unit, 16 floats more than a multiple of 32 long, so that neighbouring units are 16 banks
 * apart; and of units 2, 3, 6, 7 ... fours of inputs change places with the next but one. Forward, threads read fours
 * of inputs of eight units; in the others pairs of inputs of units t or t + 4: neither meets a bank twice. */
#ifndef FLI_CUDA_WIDE_CUH
#define FLI_CUDA_WIDE_CUH

#include "cuda/kernels/mma.cuh"
#include "cuda/kernels/wide_plan.h"

namespace
{

enum { WARP = 32, GROUPS = WIDE_GROUPS, ROUND = WIDE_ROUND, DOWN = WIDE_ROWS / 16 };
#define NOWHERE WIDE_NOWHERE

/* What a block knows of a step. */
typedef struct {
    uint32_t n;         /* rows */
    float scale, shift; /* of samples */
    const float *term;  /* the lane's vectors */
    float *buffer;
    float lr, decay, times, momentum;
} wide_step;

/* The block's units of a layer. */
typedef struct {
    uint32_t first, count;
} wide_units;

static __device__ __forceinline__ wide_units units_of(const wide_layer &l)
{
    wide_units u;
    u.first = fli_cluster_rank() * l.per;
    u.count = min(l.per, l.units - u.first);
    return u;
}

/* The term's value for a weight. It is far away: to be asked for some time before it is used. */
static __device__ __forceinline__ float term_at(const wide_step &a, uint32_t at, int there)
{
    return a.term && there ? a.term[at] : 0.0f;
}

/* A weight, which is z and has the gradient g; m: its momentum, or NULL.
 * d = g + decay z + times term; m = momentum m + d; z = z - lr m. */
static __device__ __forceinline__ float moved(const wide_step &a, float term, float *m, float z, float g)
{
    g += a.decay * z + a.times * term;
    if (m) g = *m = a.momentum * *m + g;
    return z - a.lr * g;
}

/* The place of four `four` of 16 inputs in a unit's row. */
static __device__ __forceinline__ uint32_t four_at(uint32_t unit, uint32_t four) { return (four ^ (unit & 2)) * 4; }
static __device__ __forceinline__ uint32_t weight_at(const wide_layer &l, uint32_t unit, uint32_t in)
{
    return l.w / 4 + unit * l.stride + (in & ~15u) + four_at(unit, in / 4 % 4) + in % 4;
}

template <int COUNT, class Each> static __device__ __forceinline__ void for_each(Each each)
{
#pragma unroll
    for (int i = 0; i < COUNT; i++) each(i);
}

/* ---- operands -------------------------------------------------------------------------------------------- */

/* Inputs of a product. LOW: they have a low part. */
template <int BYTES, int SPLIT> struct wide_rows {
    enum { LOW = SPLIT && !BYTES, SIZE = BYTES ? 1 : 4 };
    uint32_t hi[4], lo[LOW ? 4 : 1];

    __device__ __forceinline__ void set(int i, float v)
    {
        if (LOW)
            fli_split(v, &hi[i], &lo[LOW ? i : 0]);
        else
            hi[i] = BYTES ? __float_as_uint(v) : fli_tf32(v);
    }
    /* Two, or four, values that lie side by side. */
    static __device__ __forceinline__ void two(const unsigned char *from, float v[2])
    {
        if (BYTES) {
            const uint32_t word = *(const uint16_t *)from;
            v[0] = fli_byte(word, 0), v[1] = fli_byte(word, 1);
        } else {
            const float2 q = *(const float2 *)from;
            v[0] = q.x, v[1] = q.y;
        }
    }
    static __device__ __forceinline__ void four(const unsigned char *from, float v[4])
    {
        if (BYTES) {
            const uint32_t word = *(const uint32_t *)from;
#pragma unroll
            for (int i = 0; i < 4; i++) v[i] = fli_byte(word, i);
        } else {
            const float4 q = *(const float4 *)from;
            v[0] = q.x, v[1] = q.y, v[2] = q.z, v[3] = q.w;
        }
    }
};

/* sum[n][m] += x[.][m] y[n], of 16 k: x[0], x[1] are the k 0 and 1, 2 and 3 of each thread; y its four values of the
 * other operand. Products that do not wait for each other come first one by one, then those behind them. In single
 * precision the sum of 16 products is made anew and then added, as tensor cores do not round what they add up to the
 * nearest. */
template <int SPLIT, int MT, int NT, class Rows>
static __device__ __forceinline__ void multiply(const Rows (*x)[MT], const float4 *y, float (*sum)[MT][4])
{
    float fresh[NT][MT][4];
    for_each<NT * MT * 4>([&](int i) {
        const int n = i / 4 / MT, m = i / 4 % MT, e = i % 4;
        fresh[n][m][e] = SPLIT ? 0.0f : sum[n][m][e];
    });
#pragma unroll
    for (int p = 0; p < 2; p++) {
        fli_frag_b<SPLIT> b[NT];
#pragma unroll
        for (int n = 0; n < NT; n++) {
            b[n].set(0, p ? y[n].z : y[n].x);
            b[n].set(1, p ? y[n].w : y[n].y);
        }
        if (Rows::LOW) for_each<NT * MT>([&](int i) { fli_mma(fresh[i / MT][i % MT], x[p][i % MT].lo, b[i / MT].hi); });
        if (SPLIT) for_each<NT * MT>([&](int i) { fli_mma(fresh[i / MT][i % MT], x[p][i % MT].hi, b[i / MT].lo); });
        for_each<NT * MT>([&](int i) { fli_mma(fresh[i / MT][i % MT], x[p][i % MT].hi, b[i / MT].hi); });
    }
    for_each<NT * MT * 4>([&](int i) {
        const int n = i / 4 / MT, m = i / 4 % MT, e = i % 4;
        sum[n][m][e] = SPLIT ? sum[n][m][e] + fresh[n][m][e] : fresh[n][m][e];
    });
}

/* The same for NT of y, which y_at(n) reads, two at a time. */
template <int SPLIT, int MT, int NT, class Rows, class At>
static __device__ __forceinline__ void multiply_all(const Rows (*x)[MT], At y_at, float (*sum)[MT][4])
{
#pragma unroll
    for (int n = 0; n + 1 < NT; n += 2) {
        const float4 y[2] = {y_at(n), y_at(n + 1)};
        multiply<SPLIT, MT, 2>(x, y, sum + n);
    }
    if (NT % 2) {
        const float4 y = y_at(NT - 1);
        multiply<SPLIT, MT, 1>(x, &y, sum + NT - 1);
    }
}

template <int COUNT> static __device__ __forceinline__ void clear(float (*sum)[4])
{
#pragma unroll
    for (int i = 0; i < COUNT; i++)
#pragma unroll
        for (int e = 0; e < 4; e++) sum[i][e] = 0;
}

/* ---- forward --------------------------------------------------------------------------------------------- */

/* A warp's part of the inputs of all units, for its MT times 16 rows. */
template <int BYTES, int SPLIT, int NT, int MT>
static __device__ __forceinline__ void forward(const wide_plan &p, const wide_layer &l, unsigned char *memory,
                                               float (*sum)[MT][4])
{
    typedef wide_rows<BYTES, SPLIT> operand;
    const uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP;
    const uint32_t group = warp % GROUPS, top = warp / GROUPS * MT * 16, units = units_of(l).count;
    const unsigned char *x = memory + l.rows + 4 * t * operand::SIZE;
    const float *w = (const float *)(memory + l.w);
    uint32_t row[MT][2], at[NT];
    float whole[NT];
#pragma unroll
    for (int n = 0; n < NT; n++) {
        uint32_t unit = min(8u * n + g, units - 1);
        at[n] = unit * l.stride + four_at(unit, t);
        whole[n] = 0;
        clear<MT>(sum[n]);
    }
#pragma unroll
    for (int i = 0; i < 2 * MT; i++) row[i / 2][i % 2] = min(top + 8 * i + g, p.batch - 1) * l.row_bytes;
    for (uint32_t q = group; q < l.chunks; q += GROUPS) {
        operand v[2][MT];
#pragma unroll
        for (int m = 0; m < MT; m++)
#pragma unroll
            for (int half = 0; half < 2; half++) {
                float got[4];
                operand::four(x + row[m][half] + 16 * q * operand::SIZE, got);
#pragma unroll
                for (int i = 0; i < 4; i++) v[i / 2][m].set(i % 2 * 2 + half, got[i]);
            }
        multiply_all<SPLIT, MT, NT>(
            v,
            [&](int n) {
                const float4 y = *(const float4 *)(w + at[n] + 16 * q);
                if (BYTES) whole[n] += (y.x + y.y) + (y.z + y.w);
                return y;
            },
            sum);
    }
    if (!BYTES) return;
    float *w_sum = (float *)(memory + p.w_sum) + group * NT * 8;
#pragma unroll
    for (int n = 0; n < NT; n++) {
        whole[n] += __shfl_xor_sync(0xffffffffu, whole[n], 1);
        whole[n] += __shfl_xor_sync(0xffffffffu, whole[n], 2);
        if (!top && !t) w_sum[8 * n + g] = whole[n];
    }
}

/* What is added to a unit's products: its bias, and by the sum of its weights what is added to each sample. Behind a
 * barrier it is where the first part of these sums was. */
template <int NT>
static __device__ __forceinline__ void make_constants(const wide_plan &p, const wide_layer &l, const wide_step &a,
                                                      unsigned char *memory)
{
    float *w_sum = (float *)(memory + p.w_sum) + threadIdx.x, whole = 0;
    if (threadIdx.x >= NT * 8) return;
    for (int k = 0; k < GROUPS; k++) whole += w_sum[k * NT * 8];
    *w_sum = ((const float *)(memory + l.b))[threadIdx.x] + (a.shift != 0 ? a.shift * whole : 0.0f);
}

/* Adds up what the groups have, some units at a time, and makes activations of it. */
template <int BYTES, int NT, int MT, int THREADS>
static __device__ __forceinline__ void activate(const wide_plan &p, const wide_layer &l, const wide_step &a,
                                                unsigned char *memory, const float (*sum)[MT][4])
{
    constexpr int ROUNDS = (NT + ROUND - 1) / ROUND, WIDTH = 8 * ROUND, PAIRS = WIDE_ROWS * WIDTH / 2;
    constexpr int OWN = (PAIRS + THREADS - 1) / THREADS;
    const uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, warp = threadIdx.x / WARP;
    const uint32_t group = warp % GROUPS, top = warp / GROUPS * MT * 16, units = units_of(l).count;
    float *room = (float *)(memory + p.d), *h = (float *)(memory + l.h);
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
        if (BYTES && !r) make_constants<NT>(p, l, a, memory);
        __syncthreads();
    }
    const float *constant = (const float *)(memory + (BYTES ? p.w_sum : l.b));
    const float scale = BYTES ? a.scale : 1.0f, least = l.relu ? 0.0f : -INFINITY;
#pragma unroll
    for (int r = 0; r < ROUNDS; r++)
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const uint32_t pair = threadIdx.x + i * THREADS, row = pair / (WIDTH / 2);
            const uint32_t unit = r * WIDTH + (pair - row * (WIDTH / 2)) * 2;
            const float2 c = *(const float2 *)(constant + min(unit, 8u * NT - 2));
            const float z[2] = {scale * done[r][i].x + c.x, scale * done[r][i].y + c.y};
            float *to = h + row * l.h_stride + unit;
            if (row < a.n && unit < units) to[0] = z[0] < least ? least : z[0]; /* a NaN stays one */
            if (row < a.n && unit + 1 < units) to[1] = z[1] < least ? least : z[1];
        }
}

/* ---- errors below ---------------------------------------------------------------------------------------- */

/* Errors of units lie in the order in which `step` takes them: of 16 rows k and 8 units n thread (g, t) has rows t,
 * t + 4, t + 8, t + 12 of unit g / 2 + 4 (g % 2). Where that of a row and a unit is: */
template <int NT> static __device__ __forceinline__ uint32_t error_at(uint32_t row, uint32_t unit)
{
    uint32_t lane = (unit % 4 * 2 + unit / 4 % 2) * 4 + row % 4;
    return ((row / 16 * NT + unit / 8) * WARP + lane) * 4 + row / 4 % 4;
}

/* 16 MT rows from `top` on of the errors at 16 inputs, as the block's units make them. Row g of tile m, or g + 8 with
 * `half`, has inputs 4 t + i in sum[m][i % 2][2 half + i / 2]. */
template <int SPLIT, int NT, int MT>
static __device__ __forceinline__ void below(const wide_plan &p, const wide_layer &l, const unsigned char *memory,
                                             uint32_t chunk, uint32_t top, float (*sum)[2][4])
{
    const uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4, units = units_of(l).count;
    const float *d = (const float *)(memory + p.d);
    const float *w = (const float *)(memory + l.w) + 16 * chunk + g % 2 * 2;
#pragma unroll
    for (int m = 0; m < MT; m++) clear<2>(sum[m]);
#pragma unroll
    for (int n = 0; n < NT; n++) {
        fli_frag_b<SPLIT> b[2];
#pragma unroll
        for (int half = 0; half < 2; half++) {
            const uint32_t unit = 8 * n + t + 4 * half;
            const float2 v =
                unit < units ? *(const float2 *)(w + unit * l.stride + four_at(unit, g / 2)) : make_float2(0, 0);
            b[0].set(half, v.x);
            b[1].set(half, v.y);
        }
#pragma unroll
        for (int m = 0; m < MT; m++) {
            fli_frag_a<SPLIT> a;
#pragma unroll
            for (int i = 0; i < 4; i++) a.set(i, d[error_at<NT>(top + 16 * m + g + i % 2 * 8, 8 * n + t + i / 2 * 4)]);
#pragma unroll
            for (int i = 0; i < 2; i++) fli_mma_add<SPLIT>(sum[m][i], a, b[i]);
        }
    }
}

/* ---- the step -------------------------------------------------------------------------------------------- */

/* A vector's values at the weights of a sixteen of inputs that a thread has; v NULL: zeros. */
template <int NT>
static __device__ __forceinline__ void load_pairs(const wide_layer &l, const float *v, uint32_t chunk, float2 (*got)[2])
{
    const uint32_t lane = threadIdx.x % WARP, t = lane % 4, input = 16 * chunk + lane / 4 * 2;
    const wide_units u = units_of(l);
    const float *from = v + l.z_weight + (size_t)u.first * l.inputs + input;
    for_each<2 * NT>([&](int k) {
        const uint32_t unit = 4 * k + t;
        got[k / 2][k % 2] = make_float2(0, 0);
        if (v && unit < u.count && input < l.inputs) got[k / 2][k % 2] = *(const float2 *)(from + unit * l.inputs);
    });
}
/* g += by * v */
template <int NT> static __device__ __forceinline__ void add_pairs(float by, const float2 (*v)[2], float (*g)[4])
{
    for_each<2 * NT>([&](int k) {
        g[k / 2][k % 2] += by * v[k / 2][k % 2].x;
        g[k / 2][k % 2 + 2] += by * v[k / 2][k % 2].y;
    });
}

/* The weights of 16 inputs, by their gradient g. All are read before any is written, so that a thread waits once. */
template <int BYTES, int NT>
static __device__ __forceinline__ void step_chunk(const wide_layer &l, const wide_step &a, unsigned char *memory,
                                                  uint32_t chunk, float (*g)[4])
{
    const uint32_t lane = threadIdx.x % WARP, i = lane / 4, t = lane % 4, input = 16 * chunk + 2 * i;
    const wide_units u = units_of(l);
    const float *b_grad = (const float *)(memory + l.b_grad) + t;
    float *w = (float *)(memory + l.w) + 16 * chunk + i % 2 * 2;
    float2 z[NT][2];
    if (a.buffer) {
        load_pairs<NT>(l, a.buffer, chunk, z);
        add_pairs<NT>(a.momentum, z, g);
    }
    for_each<2 * NT>([&](int k) {
        const uint32_t unit = min(4 * k + t, u.count - 1);
        z[k / 2][k % 2] = *(const float2 *)(w + unit * l.stride + four_at(unit, i / 2));
    });
    for_each<2 * NT>([&](int k) {
        const float2 was = z[k / 2][k % 2];
        const float more = BYTES && a.shift != 0 ? a.shift * b_grad[4 * k] : 0.0f;
        float *d = g[k / 2] + k % 2;
        d[0] += a.decay * was.x + more;
        d[2] += a.decay * was.y + more;
        z[k / 2][k % 2] = make_float2(was.x - a.lr * d[0], was.y - a.lr * d[2]);
    });
    if (input >= l.inputs) return;
    for_each<2 * NT>([&](int k) {
        const uint32_t unit = 4 * k + t;
        if (unit < u.count) *(float2 *)(w + unit * l.stride + four_at(t, i / 2)) = z[k / 2][k % 2];
    });
    if (!a.buffer) return;
    float *m = a.buffer + l.z_weight + (size_t)u.first * l.inputs + input;
    for_each<2 * NT>([&](int k) {
        const uint32_t unit = 4 * k + t;
        const float *d = g[k / 2] + k % 2;
        if (unit < u.count) *(float2 *)(m + unit * l.inputs) = make_float2(d[0], d[2]);
    });
}

/* The gradient of CHUNKS sixteens of inputs, `apart` from each other, and the step with it. Its term, which is far
 * away, is on its way while the products are made. */
template <int BYTES, int SPLIT, int NT, int CHUNKS>
static __device__ __forceinline__ void step_chunks(const wide_plan &p, const wide_layer &l, const wide_step &a,
                                                   unsigned char *memory, uint32_t chunk, uint32_t apart)
{
    typedef wide_rows<BYTES, SPLIT> operand;
    const uint32_t lane = threadIdx.x % WARP, i = lane / 4, t = lane % 4;
    const unsigned char *x = memory + l.rows + (16 * chunk + 2 * i) * operand::SIZE;
    const float4 *d = (const float4 *)(memory + p.d) + lane;
    float sum[NT][CHUNKS][4], g[NT][4];
    float2 term[CHUNKS][NT][2];
    for_each<CHUNKS>([&](int c) { load_pairs<NT>(l, a.term, chunk + c * apart, term[c]); });
#pragma unroll
    for (int n = 0; n < NT; n++) clear<CHUNKS>(sum[n]);
    for (uint32_t k = 0; 16 * k < a.n; k++) {
        operand v[2][CHUNKS];
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const unsigned char *row = x + min(16 * k + t + 4 * j, p.batch - 1) * l.row_bytes;
#pragma unroll
            for (int c = 0; c < CHUNKS; c++) {
                float two[2];
                operand::two(row + 16 * c * apart * operand::SIZE, two);
                v[j / 2][c].set(j % 2 * 2, two[0]);
                v[j / 2][c].set(j % 2 * 2 + 1, two[1]);
            }
        }
        multiply_all<SPLIT, CHUNKS, NT>(
            v, [&](int n) { return d[(k * NT + n) * WARP]; }, sum);
    }
#pragma unroll
    for (int c = 0; c < CHUNKS; c++) {
#pragma unroll
        for (int n = 0; n < NT; n++)
#pragma unroll
            for (int e = 0; e < 4; e++) g[n][e] = BYTES ? sum[n][c][e] * a.scale : sum[n][c][e];
        add_pairs<NT>(a.times, term[c], g);
        step_chunk<BYTES, NT>(l, a, memory, chunk + c * apart, g);
    }
}

/* The biases, a thread each: what term_at says of it, and the step by the gradient in b_grad. */
static __device__ __forceinline__ float bias_term(const wide_layer &l, const wide_step &a)
{
    const wide_units u = units_of(l);
    return term_at(a, l.z_bias + u.first + threadIdx.x, l.z_bias != NOWHERE && threadIdx.x < u.count);
}
static __device__ __forceinline__ void step_bias(const wide_layer &l, const wide_step &a, float term,
                                                 unsigned char *memory)
{
    const wide_units u = units_of(l);
    if (l.z_bias == NOWHERE || threadIdx.x >= u.count) return;
    const uint32_t at = l.z_bias + u.first + threadIdx.x;
    float *b = (float *)(memory + l.b) + threadIdx.x, g = ((const float *)(memory + l.b_grad))[threadIdx.x];
    *b = moved(a, term, a.buffer ? a.buffer + at : NULL, *b, g);
}

} // namespace

#endif
