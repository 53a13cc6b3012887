/* Whole turns of networks whose weights are too large for the shared memory of a block: a cluster of blocks takes a
 * lane from its first step to its last. Each has some units of every hidden layer, their weights in its shared memory,
 * and what the last layer makes of its units. Only samples travel, as bytes, and what blocks have to tell each other:
 *
 * - their part of the logits; each then adds them up, in the same order, and has the errors of all rows;
 * - with two hidden layers, the activations of the first, and at the way back their part of its errors.
 *
 * They read it from each other's shared memory, behind a barrier of the cluster. Nobody writes there before the next
 * one, which is why parts of logits, where there may be one in a step, have two places in turn. */
#include "cuda/wide.cuh"

#include <stdio.h>

namespace
{

enum { ROW_THREADS = 4, CLUSTER = WIDE_CLUSTER };
enum { DEEP_LANES = 32 }; /* clusters of eight: an H200 runs 16 of them at a time */

/* ---- the last layer -------------------------------------------------------------------------------------- */

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
        const wide_units u = units_of(l);
        float *top = (float *)(memory + p.top), *b = (float *)(memory + p.b_top), *m = (float *)(memory + p.m_top);
        const uint32_t unit = threadIdx.x % ACROSS, first = threadIdx.x / ACROSS;
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            uint32_t c = first + i * UP;
            if (c >= p.classes || unit >= u.count) continue;
            const uint32_t at = p.top_weight + c * l.units + u.first + unit;
            float *w = top + c * l.h_stride + unit;
            *w = moved(a, at, a.buffer ? a.buffer + at : NULL, *w, g[i]);
        }
        const uint32_t c = threadIdx.x / WARP + threadIdx.x % WARP * (THREADS / WARP);
        if (c >= p.classes || p.top_bias == NOWHERE) return;
        /* every block has all of these, and their momentum */
        b[c] = moved(a, p.top_bias + c, a.buffer ? m + c : NULL, b[c], bias);
    }
};

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
    const wide_layer &l = p.layer[0];
    const uint32_t *ids = (const uint32_t *)(memory + p.ids) + step % 2 * p.batch;
    for (uint32_t r = threadIdx.x % WARP; r < n; r += WARP) {
        const unsigned char *from = (const unsigned char *)data.x + (size_t)ids[r] * l.inputs + 16 * chunk;
        unsigned char *to = memory + l.rows + r * l.row_bytes + 16 * chunk;
        if (p.piece == 16)
            fli_async16(to, from, 1);
        else
            for (uint32_t i = 0; i < 16 && 16 * chunk + i < l.inputs; i += 4) fli_async4(to + i, from + i, 1);
    }
}

/* ---- two hidden layers ----------------------------------------------------------------------------------- */

/* The first layer's activations, of all blocks: the inputs of the second. A thread has one unit of each block, and reads
 * of all before it writes. */
static __device__ __forceinline__ void collect_rows(const wide_plan &p, const wide_step &a, unsigned char *memory)
{
    const wide_layer &l = p.layer[0], &above = p.layer[1];
    const float *h = (const float *)(memory + l.h);
    float *to = (float *)(memory + above.rows);
    const uint32_t lane = threadIdx.x % WARP;
#pragma unroll 2
    for (uint32_t r = threadIdx.x / WARP; r < a.n; r += blockDim.x / WARP) {
        float v[CLUSTER];
#pragma unroll
        for (uint32_t k = 0; k < CLUSTER; k++) {
            const float *its = fli_cluster_at(h, min(k, p.cluster - 1)) + r * l.h_stride;
            v[k] = its[min(lane, l.per - 1)];
        }
#pragma unroll
        for (uint32_t k = 0; k < CLUSTER; k++)
            if (k < p.cluster && lane < l.per && k * l.per + lane < l.units)
                to[r * above.stride + k * l.per + lane] = v[k];
    }
}

/* This block's part of the errors below its second layer stays in registers until nobody needs the activations, whose
 * place it takes. An item is 16 inputs and half of the rows. */
template <int SPLIT, int NT, int WARPS> struct errors_below {
    enum { HALF = DOWN / 2, OWN = 2 * WIDE_CHUNKS_DEEP / WARPS };
    float sum[OWN][HALF][2][4];

    __device__ __forceinline__ void make(const wide_plan &p, const unsigned char *memory)
    {
        const wide_layer &l = p.layer[1];
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const uint32_t item = threadIdx.x / WARP + i * WARPS;
            if (item < 2 * l.chunks) below<SPLIT, NT, HALF>(p, l, memory, item / 2, item % 2 * HALF * 16, sum[i]);
        }
    }
    __device__ __forceinline__ void put(const wide_plan &p, unsigned char *memory) const
    {
        const wide_layer &l = p.layer[1];
        const uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
#pragma unroll
        for (int i = 0; i < OWN; i++) {
            const uint32_t item = threadIdx.x / WARP + i * WARPS;
            if (item >= 2 * l.chunks) continue;
#pragma unroll
            for (int j = 0; j < 2 * HALF; j++) {
                const uint32_t row = item % 2 * HALF * 16 + 8 * j + g;
                const float(*v)[4] = sum[i][j / 2];
                float *to = (float *)(memory + l.rows) + row * l.stride + item / 2 * 16 + 4 * t;
                const int h = j % 2 * 2;
                if (row < p.batch) *(float4 *)to = make_float4(v[0][h], v[1][h], v[0][h + 1], v[1][h + 1]);
            }
        }
    }
};

/* Adds up the parts for this block's units of the first layer, 16 rows and 8 units by a warp. */
template <int NT>
static __device__ __forceinline__ void first_errors(const wide_plan &p, const wide_step &a, unsigned char *memory)
{
    const wide_layer &l = p.layer[0], &above = p.layer[1];
    const wide_units u = units_of(l);
    const uint32_t lane = threadIdx.x % WARP, g = lane / 4, t = lane % 4;
    const float *h = (const float *)(memory + l.h), *from = (const float *)(memory + above.rows);
    float *b_part = (float *)(memory + p.b_part);
    const float least = l.relu ? 0.0f : -INFINITY;
    for (uint32_t item = threadIdx.x / WARP; item < DOWN * NT; item += blockDim.x / WARP) {
        const uint32_t k = item / NT, n = item % NT, unit = 8 * n + g / 2 + 4 * (g % 2), in = min(unit, u.count - 1);
        float s[4] = {0, 0, 0, 0}, all = 0;
        float its[CLUSTER][4];
#pragma unroll
        for (uint32_t c = 0; c < CLUSTER; c++)
#pragma unroll
            for (int j = 0; j < 4; j++)
                its[c][j] = fli_cluster_at(
                    from, min(c, p.cluster - 1))[min(16 * k + t + 4 * j, p.batch - 1) * above.stride + u.first + in];
#pragma unroll
        for (uint32_t c = 0; c < CLUSTER; c++)
#pragma unroll
            for (int j = 0; j < 4; j++) s[j] += c < p.cluster ? its[c][j] : 0.0f;
#pragma unroll
        for (int j = 0; j < 4; j++) {
            const uint32_t row = 16 * k + t + 4 * j;
            const float active = h[min(row, a.n - 1) * l.h_stride + in];
            s[j] = row < a.n && unit < u.count && active > least ? s[j] : 0.0f;
            all += s[j];
        }
        ((float4 *)(memory + p.d))[(k * NT + n) * WARP + lane] = make_float4(s[0], s[1], s[2], s[3]);
        all += __shfl_xor_sync(0xffffffffu, all, 1);
        all += __shfl_xor_sync(0xffffffffu, all, 2);
        if (!t) b_part[k * NT * 8 + unit] = all;
    }
    __syncthreads();
    if (threadIdx.x >= NT * 8) return;
    float all = 0;
    for (uint32_t k = 0; k < DOWN; k++) all += b_part[k * NT * 8 + threadIdx.x];
    ((float *)(memory + l.b_grad))[threadIdx.x] = all;
}

/* From the errors of the second layer to those of the first, and the step of the second. */
template <int SPLIT, int NT, int WARPS>
static __device__ __forceinline__ void second_layer_back(const wide_plan &p, const wide_step &a, unsigned char *memory)
{
    const wide_layer &l = p.layer[1];
    errors_below<SPLIT, NT, WARPS> back;
    back.make(p, memory);
    __syncthreads();
    for (uint32_t c = threadIdx.x / WARP; c < l.chunks; c += WARPS)
        step_chunks<0, SPLIT, NT, 1>(p, l, a, memory, c, WARPS);
    step_bias(l, a, memory);
    __syncthreads();
    back.put(p, memory);
    fli_cluster_sync();
    first_errors<NT>(p, a, memory);
    __syncthreads();
}

/* ---- turns ----------------------------------------------------------------------------------------------- */

/* All that the block has of the lane's vectors: what(its place in shared memory, as a float; that in the vectors), for
 * four weights of a unit side by side by `fours`, for others by `ones`. */
template <class Fours, class Ones>
static __device__ __forceinline__ void for_weights(const wide_plan &p, Fours fours, Ones ones)
{
    for (uint32_t k = 0; k < p.hidden; k++) {
        const wide_layer &l = p.layer[k];
        const wide_units u = units_of(l);
        const uint32_t across = l.inputs / 4;
#pragma unroll 8
        for (uint32_t i = threadIdx.x; i < u.count * across; i += blockDim.x) {
            uint32_t unit = i / across;
            fours(weight_at(l, unit, (i - unit * across) * 4), l.z_weight + u.first * l.inputs + 4 * i);
        }
        if (l.z_bias == NOWHERE) continue;
        for (uint32_t i = threadIdx.x; i < u.count; i += blockDim.x) ones(l.b / 4 + i, l.z_bias + u.first + i);
    }
    const wide_layer &l = p.layer[p.hidden - 1];
    const wide_units u = units_of(l);
    for (uint32_t i = threadIdx.x; i < p.classes * u.count; i += blockDim.x) {
        uint32_t c = i / u.count, unit = i - c * u.count;
        ones(p.top / 4 + c * l.h_stride + unit, p.top_weight + c * l.units + u.first + unit);
    }
}

static __device__ __forceinline__ void begin_turn(const wide_plan &p, const wide_step &a, const fli_cuda_lane &lane,
                                                  unsigned char *memory)
{
    const float *z = (const float *)(lane.start ? lane.start : lane.z);
    float *to = (float *)memory;
    for (uint32_t i = threadIdx.x; i < p.bytes / 16; i += blockDim.x) /* what is never written stays 0 */
        ((float4 *)memory)[i] = make_float4(0, 0, 0, 0);
    __syncthreads();
    for_weights(
        p, [&](uint32_t at, uint32_t from) { fli_async16(to + at, z + from, 1); },
        [&](uint32_t at, uint32_t from) { fli_async4(to + at, z + from, 1); });
    fli_async_commit();
    fli_async_wait<0>();
    if (p.top_bias == NOWHERE) return;
    for (uint32_t i = threadIdx.x; i < p.classes; i += blockDim.x) {
        to[p.b_top / 4 + i] = z[p.top_bias + i];
        if (a.buffer) to[p.m_top / 4 + i] = a.buffer[p.top_bias + i];
    }
}

static __device__ __forceinline__ void end_turn(const wide_plan &p, const wide_step &a, const fli_cuda_lane &lane,
                                                const unsigned char *memory)
{
    float *z = (float *)lane.z;
    const float *from = (const float *)memory;
    for_weights(
        p, [&](uint32_t at, uint32_t to) { *(float4 *)(z + to) = *(const float4 *)(from + at); },
        [&](uint32_t at, uint32_t to) { z[to] = from[at]; });
    if (fli_cluster_rank() || p.top_bias == NOWHERE) return;
    for (uint32_t i = threadIdx.x; i < p.classes; i += blockDim.x) {
        z[p.top_bias + i] = from[p.b_top / 4 + i];
        if (a.buffer) a.buffer[p.top_bias + i] = from[p.m_top / 4 + i];
    }
}

static __device__ __forceinline__ wide_step step_of(const fli_cuda_data &data, const fli_cuda_lane &lane)
{
    wide_step a;
    a.scale = data.scale ? (float)data.scale[0] : 1.0f;
    a.shift = data.scale ? (float)data.shift[0] : 0.0f;
    a.add = (const float *)lane.shift;
    a.anchor = (const float *)lane.anchor;
    a.buffer = (float *)lane.buffer;
    a.rho = a.anchor ? (float)lane.rho : 0.0f;
    a.momentum = (float)lane.momentum;
    return a;
}

static __device__ __forceinline__ void set_rates(const fli_cuda_lane &lane, uint32_t step, wide_step *a)
{
    a->lr = (float)(lane.rates ? lane.rates[2 * (size_t)step] : lane.lr);
    a->decay = (float)(lane.rates ? lane.rates[2 * (size_t)step + 1] : lane.wd) + a->rho;
}

/* With FLI_WIDE_CLOCK, for measurements, the first block says how long the parts of its steps take. */
struct wide_clock {
#if defined(FLI_WIDE_CLOCK) && defined(__CUDACC__)
    enum { PARTS = 12 };
    long long sum[PARTS], last;
    __device__ void begin()
    {
        for (int i = 0; i < PARTS; i++) sum[i] = 0;
        last = clock64();
    }
    __device__ void mark(int i)
    {
        long long now = clock64();
        sum[i] += now - last;
        last = now;
    }
    __device__ void say(uint32_t steps) const
    {
        if (blockIdx.x || threadIdx.x) return;
        for (int i = 0; i < PARTS; i++) printf(" %d: %lld", i, sum[i] / steps);
        printf("\n");
    }
#else
    __device__ __forceinline__ void begin() {}
    __device__ __forceinline__ void mark(int) {}
    __device__ __forceinline__ void say(uint32_t) const {}
#endif
};

template <int BYTES, int SPLIT, int NT, int MT, int THREADS>
static __device__ __forceinline__ void activations(const wide_plan &p, const wide_layer &l, const wide_step &a,
                                                   unsigned char *memory, wide_clock *clock)
{
    float sum[NT][MT][4];
    forward<BYTES, SPLIT, NT, MT>(p, l, memory, sum);
    clock->mark(1);
    activate<BYTES, NT, MT, THREADS>(p, l, a, memory, sum);
    clock->mark(2);
}

/* From the samples to the errors of the first layer's units; the other layers take their step. */
template <int HIDDEN, int SPLIT, int NT, int MT, int WARPS>
static __device__ __forceinline__ void errors_of(const wide_plan &p, const wide_step &a, uint32_t step,
                                                 unsigned char *memory, wide_clock *clock)
{
    activations<1, SPLIT, NT, MT, WARPS * WARP>(p, p.layer[0], a, memory, clock);
    if (HIDDEN == 2) {
        fli_cluster_sync();
        collect_rows(p, a, memory);
        __syncthreads();
        clock->mark(3);
        activations<0, SPLIT, NT, MT, WARPS * WARP>(p, p.layer[1], a, memory, clock);
    }
    __syncthreads();
    part_of_logits<WARPS * WARP>(p, a, step, memory);
    clock->mark(4);
    fli_cluster_sync();
    clock->mark(5);
    softmax_errors(p, a, step, memory);
    __syncthreads();
    clock->mark(6);
    unit_errors<NT>(p, a, memory);
    {
        top_gradient<WARPS * WARP> top;
        top.make(p, a, memory);
        __syncthreads();
        top.step(p, a, memory);
    }
    clock->mark(7);
    if (HIDDEN == 2) second_layer_back<SPLIT, NT, WARPS>(p, a, memory);
    step_bias(p.layer[0], a, memory);
    clock->mark(8);
}

template <int HIDDEN, int SPLIT, int NT, int MT, int ACROSS>
__global__ void __launch_bounds__(WARP *GROUPS *ACROSS, 1)
    turns(const wide_plan p, const fli_cuda_data data, const fli_cuda_lane *lanes)
{
#if FLI_CLUSTERS
    constexpr uint32_t WARPS = GROUPS * ACROSS;
    FLI_DYNAMIC(memory);
    const fli_cuda_lane lane = lanes[blockIdx.x / p.cluster];
    const uint32_t warp = threadIdx.x / WARP, chunks = p.layer[0].chunks;
    wide_step a = step_of(data, lane);
    uint32_t at = 0, next = next_rows(lane, &at), after = next_rows(lane, &at);
    begin_turn(p, a, lane, memory);
    if (!lane.n || !lane.steps) {
        __syncthreads();
        return end_turn(p, a, lane, memory);
    }
    fetch_ids(p, lane, 0, next, memory);
    fetch_ids(p, lane, 1, after, memory);
    fli_async_commit();
    fli_async_wait<0>();
    __syncthreads();
    fetch_labels(p, data, 0, next, memory);
    for (uint32_t c = warp; c < chunks; c += WARPS) fetch_chunk(p, data, 0, next, c, memory);
    fli_async_commit();
    wide_clock clock;
    clock.begin();
    for (uint32_t step = 0; step < lane.steps; step++) {
        const int more = step + 1 < lane.steps;
        a.n = next;
        next = after;
        after = next_rows(lane, &at);
        set_rates(lane, step, &a);
        fli_async_wait<0>();
        __syncthreads();
        clock.mark(0);
        fetch_ids(p, lane, step + 2, after, memory);
        errors_of<HIDDEN, SPLIT, NT, MT, WARPS>(p, a, step, memory, &clock);
        if (more) fetch_labels(p, data, step + 1, next, memory);
        for (uint32_t c = warp; c < chunks; c += 2 * WARPS) {
            const int two = c + WARPS < chunks;
            if (two)
                step_chunks<1, SPLIT, NT, 2>(p, p.layer[0], a, memory, c, WARPS);
            else
                step_chunks<1, SPLIT, NT, 1>(p, p.layer[0], a, memory, c, WARPS);
            __syncwarp(); /* the next samples come where these were */
            if (more) fetch_chunk(p, data, step + 1, next, c, memory);
            if (more && two) fetch_chunk(p, data, step + 1, next, c + WARPS, memory);
        }
        fli_async_commit();
        clock.mark(9);
    }
    __syncthreads();
    clock.say(lane.steps);
    end_turn(p, a, lane, memory);
    fli_cluster_sync(); /* nobody leaves while others read its memory */
#endif
}

uint32_t forced_cluster, forced_warps;

template <int HIDDEN, int SPLIT, int NT>
void launch(fli_stream s, const wide_plan &p, const fli_cuda_data *data, const fli_cuda_lane *lane, uint32_t lanes)
{
    auto few = turns<HIDDEN, SPLIT, NT, 1, 2>, eight = turns<HIDDEN, SPLIT, NT, 2, 2>,
         sixteen = turns<HIDDEN, SPLIT, NT, 1, 4>;
    if (p.batch <= 32)
        FLI_LAUNCH_CLUSTER(s, few, lanes * p.cluster, 256, p.bytes, p.cluster, p, *data, lane);
    else if (forced_warps == 16)
        FLI_LAUNCH_CLUSTER(s, sixteen, lanes * p.cluster, 512, p.bytes, p.cluster, p, *data, lane);
    else
        FLI_LAUNCH_CLUSTER(s, eight, lanes * p.cluster, 256, p.bytes, p.cluster, p, *data, lane);
}

template <int SPLIT>
void launch_tiles(fli_stream s, const wide_plan &p, const fli_cuda_data *data, const fli_cuda_lane *lane,
                  uint32_t lanes)
{
    if (p.hidden == 2)
        launch<2, SPLIT, WIDE_TILES_DEEP>(s, p, data, lane, lanes);
    else if (p.tiles == 2)
        launch<1, SPLIT, 2>(s, p, data, lane, lanes);
    else if (p.tiles == 4)
        launch<1, SPLIT, 4>(s, p, data, lane, lanes);
    else if (p.tiles == 5)
        launch<1, SPLIT, 5>(s, p, data, lane, lanes);
    else
        launch<1, SPLIT, WIDE_TILES_MOST>(s, p, data, lane, lanes);
}

} // namespace

void fli_cuda_wide_force(uint32_t cluster, uint32_t warps)
{
    forced_cluster = cluster;
    forced_warps = warps;
}

int fli_cuda_wide_fits(fli_cuda_type type, const fli_network *net, const fli_cuda_data *data, uint32_t batch,
                       uint32_t lanes)
{
    wide_plan p;
    if (type == FLI_CUDA_F64 || !wide_plan_make(net, data, batch, forced_cluster, &p)) return 0;
    return p.hidden == 1 || lanes <= DEEP_LANES;
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
