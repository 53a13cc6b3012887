/* Whole turns of networks whose weights are too large for the shared memory of a block: a cluster of blocks takes a
 * lane from its first step to its last. Each block has some units of every hidden layer with their weights in its
 * shared memory, and the last layer's part for its units. Only samples are fetched, as bytes, and blocks exchange:
 *
 * - their part of the logits; each block adds them up in the same order, and computes the errors of all rows;
 * - with two hidden layers, the activations of the first and, backward, their part of its errors.
 *
 * They read each other's shared memory after a barrier of the cluster, and do not write there before the next barrier.
 * A step may have only one barrier, so parts of logits alternate between two places.
 *
 * A cluster's speed grows less than its number of blocks. So it has the largest number with which all lanes run at the
 * same time. With too many lanes for that, layer by layer (train.c) is faster than lanes in waves. */
#include "cuda/kernels/wide.cuh"

namespace
{

enum { CLUSTER = WIDE_CLUSTER };

/* ---- samples --------------------------------------------------------------------------------------------- */

/* The number of rows of the next mini-batch. *at: the position in the epoch after the one before. */
static __device__ __forceinline__ uint32_t next_rows(const fli_cuda_lane &lane, uint32_t *at)
{
    uint32_t from = *at < lane.n ? *at : 0, n = min(lane.size, lane.n - from);
    *at = from + n;
    return n;
}

/* Fetches the numbers of a step's n samples to shared memory. */
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

/* The first layer's activations, of all blocks: the inputs of the second. A thread has one unit of each block, and
 * reads of all before it writes. */
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

/* This block's part of the errors below its second layer stays in registers until no block needs the activations, whose
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
    const float term = bias_term(l, a);
    errors_below<SPLIT, NT, WARPS> back;
    back.make(p, memory);
    __syncthreads();
    for (uint32_t c = threadIdx.x / WARP; c < l.chunks; c += WARPS)
        step_chunks<0, SPLIT, NT, 1>(p, l, a, memory, c, WARPS);
    step_bias(l, a, term, memory);
    __syncthreads();
    back.put(p, memory);
    fli_cluster_sync();
    first_errors<NT>(p, a, memory);
    __syncthreads();
}

/* ---- turns ----------------------------------------------------------------------------------------------- */

/* Visits the block's part of the lane's vectors: what(its place in shared memory, as a float; that in the vectors), for
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

static __device__ __forceinline__ void begin_turn(const wide_plan &p, const fli_cuda_lane &lane, unsigned char *memory)
{
    const float *z = (const float *)(lane.start ? lane.start : lane.z);
    float *to = (float *)memory;
    for (uint32_t i = threadIdx.x; i < p.bytes / 16; i += blockDim.x) /* bytes that are never written stay 0 */
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
        if (lane.buffer) to[p.m_top / 4 + i] = ((const float *)lane.buffer)[p.top_bias + i];
    }
}

static __device__ __forceinline__ void end_turn(const wide_plan &p, const fli_cuda_lane &lane,
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
        if (lane.buffer) ((float *)lane.buffer)[p.top_bias + i] = from[p.m_top / 4 + i];
    }
}

static __device__ __forceinline__ wide_step step_of(const fli_cuda_data &data, const fli_cuda_lane &lane)
{
    wide_step a;
    a.scale = data.scale ? (float)data.scale[0] : 1.0f;
    a.shift = data.scale ? (float)data.shift[0] : 0.0f;
    a.term = (const float *)lane.term;
    a.buffer = (float *)lane.buffer;
    a.times = (float)lane.times;
    a.momentum = (float)lane.momentum;
    return a;
}

static __device__ __forceinline__ void set_rates(const fli_cuda_lane &lane, uint32_t step, wide_step *a)
{
    a->lr = (float)(lane.rates ? lane.rates[2 * (size_t)step] : lane.lr);
    a->decay = (float)((lane.rates ? lane.rates[2 * (size_t)step + 1] : lane.wd) + lane.rho);
}

template <int BYTES, int SPLIT, int NT, int MT, int THREADS>
static __device__ __forceinline__ void activations(const wide_plan &p, const wide_layer &l, const wide_step &a,
                                                   unsigned char *memory)
{
    float sum[NT][MT][4];
    forward<BYTES, SPLIT, NT, MT>(p, l, memory, sum);
    activate<BYTES, NT, MT, THREADS>(p, l, a, memory, sum);
}

/* From the samples to the errors of the first layer's units; the other layers make their step. */
template <int HIDDEN, int SPLIT, int NT, int MT, int WARPS>
static __device__ __forceinline__ void errors_of(const wide_plan &p, const wide_step &a, uint32_t step,
                                                 unsigned char *memory)
{
    activations<1, SPLIT, NT, MT, WARPS * WARP>(p, p.layer[0], a, memory);
    if (HIDDEN == 2) {
        fli_cluster_sync();
        collect_rows(p, a, memory);
        __syncthreads();
        activations<0, SPLIT, NT, MT, WARPS * WARP>(p, p.layer[1], a, memory);
    }
    __syncthreads();
    part_of_logits<WARPS * WARP>(p, a, step, memory);
    fli_cluster_sync();
    softmax_errors(p, a, step, memory);
    __syncthreads();
    const float term = bias_term(p.layer[0], a);
    unit_errors<NT>(p, a, memory);
    {
        top_gradient<WARPS * WARP> top;
        top.ask(p, a);
        top.make(p, a, memory);
        __syncthreads();
        top.step(p, a, memory);
    }
    if (HIDDEN == 2) second_layer_back<SPLIT, NT, WARPS>(p, a, memory);
    step_bias(p.layer[0], a, term, memory);
}

/* The step of the first layer; then fetches the next samples into the place of these. */
template <int SPLIT, int NT, int WARPS>
static __device__ __forceinline__ void step_first(const wide_plan &p, const wide_step &a, const fli_cuda_data &data,
                                                  uint32_t next_step, uint32_t next, unsigned char *memory)
{
    const wide_layer &l = p.layer[0];
    for (uint32_t c = threadIdx.x / WARP; c < l.chunks; c += 2 * WARPS) {
        const int two = c + WARPS < l.chunks;
        if (two)
            step_chunks<1, SPLIT, NT, 2>(p, l, a, memory, c, WARPS);
        else
            step_chunks<1, SPLIT, NT, 1>(p, l, a, memory, c, WARPS);
        __syncwarp();
        fetch_chunk(p, data, next_step, next, c, memory);
        if (two) fetch_chunk(p, data, next_step, next, c + WARPS, memory);
    }
}

/* The numbers of the samples of the first two steps, n and `next` of them; then the first ones. */
static __device__ __forceinline__ void fetch_first(const wide_plan &p, const fli_cuda_data &data,
                                                   const fli_cuda_lane &lane, uint32_t n, uint32_t next,
                                                   unsigned char *memory)
{
    fetch_ids(p, lane, 0, n, memory);
    fetch_ids(p, lane, 1, next, memory);
    fli_async_commit();
    fli_async_wait<0>();
    __syncthreads();
    fetch_labels(p, data, 0, n, memory);
    for (uint32_t c = threadIdx.x / WARP; c < p.layer[0].chunks; c += blockDim.x / WARP)
        fetch_chunk(p, data, 0, n, c, memory);
    fli_async_commit();
}

template <int HIDDEN, int SPLIT, int NT, int MT, int WARPS>
static __device__ __forceinline__ void turn(const wide_plan &p, const fli_cuda_data &data, const fli_cuda_lane &lane,
                                            unsigned char *memory)
{
    wide_step a = step_of(data, lane);
    uint32_t at = 0, next = next_rows(lane, &at), after = next_rows(lane, &at);
    fetch_first(p, data, lane, next, after, memory);
    for (uint32_t step = 0; step < lane.steps; step++) {
        a.n = next;
        next = step + 1 < lane.steps ? after : 0;
        after = next_rows(lane, &at);
        set_rates(lane, step, &a);
        fli_async_wait<0>();
        __syncthreads();
        fetch_ids(p, lane, step + 2, after, memory);
        errors_of<HIDDEN, SPLIT, NT, MT, WARPS>(p, a, step, memory);
        fetch_labels(p, data, step + 1, next, memory);
        step_first<SPLIT, NT, WARPS>(p, a, data, step + 1, next, memory);
        fli_async_commit();
    }
    fli_cluster_sync(); /* a block must not end while others read its memory */
}

template <int HIDDEN, int SPLIT, int NT, int MT, int ACROSS>
__global__ void __launch_bounds__(WARP *GROUPS *ACROSS, 1)
    turns(const wide_plan p, const fli_cuda_data data, const fli_cuda_lane *lanes)
{
    if (!FLI_CLUSTERS) return;
    FLI_DYNAMIC(memory);
    const fli_cuda_lane lane = lanes[blockIdx.x / p.cluster];
    begin_turn(p, lane, memory);
    __syncthreads();
    if (lane.n && lane.steps) turn<HIDDEN, SPLIT, NT, MT, GROUPS * ACROSS>(p, data, lane, memory);
    __syncthreads();
    end_turn(p, lane, memory);
}

uint32_t forced_cluster, forced_warps;

/* use(kernel, threads of a block): the kernel for a plan. */
template <int HIDDEN, int SPLIT, int NT, class USE> void with_warps(const wide_plan &p, USE use)
{
    if (p.batch <= 32)
        use(turns<HIDDEN, SPLIT, NT, 1, 2>, 256);
    else if (forced_warps == 16)
        use(turns<HIDDEN, SPLIT, NT, 1, 4>, 512);
    else
        use(turns<HIDDEN, SPLIT, NT, 2, 2>, 256);
}
template <int SPLIT, class USE> void with_tiles(const wide_plan &p, USE use)
{
    if (p.hidden == 2)
        with_warps<2, SPLIT, WIDE_TILES_DEEP>(p, use);
    else if (p.tiles == 2)
        with_warps<1, SPLIT, 2>(p, use);
    else if (p.tiles == 4)
        with_warps<1, SPLIT, 4>(p, use);
    else if (p.tiles == 5)
        with_warps<1, SPLIT, 5>(p, use);
    else
        with_warps<1, SPLIT, WIDE_TILES_MOST>(p, use);
}
template <class USE> void with_kernel(fli_cuda_type type, const wide_plan &p, USE use)
{
    if (type == FLI_CUDA_TF32)
        with_tiles<0>(p, use);
    else
        with_tiles<1>(p, use);
}

uint32_t clusters_at_a_time(fli_cuda_type type, const wide_plan &p)
{
    uint32_t count = 0;
    with_kernel(type, p, [&](auto kernel, uint32_t threads) {
        count = fli_clusters_at_a_time(kernel, threads, p.bytes, p.cluster);
    });
    return count;
}

} // namespace

void fli_cuda_wide_force(uint32_t cluster, uint32_t warps)
{
    forced_cluster = cluster;
    forced_warps = warps;
}

uint32_t fli_cuda_wide_cluster(fli_cuda_type type, const fli_network *net, const fli_cuda_data *data, uint32_t batch,
                               uint32_t lanes)
{
    wide_plan p;
    if (type == FLI_CUDA_F64) return 0;
    if (forced_cluster) return wide_plan_make(net, data, batch, forced_cluster, &p) ? forced_cluster : 0;
    for (uint32_t cluster = CLUSTER; cluster > 1; cluster--) {
        if ((uint64_t)lanes * cluster > fli_processors()) continue; /* more blocks than processors: no need to test */
        if (wide_plan_make(net, data, batch, cluster, &p) && clusters_at_a_time(type, p) >= lanes) return cluster;
    }
    return 0;
}

void fli_cuda_wide_turns(fli_cuda_stream s, fli_cuda_type type, const fli_network *net, const fli_cuda_data *data,
                         const fli_cuda_lane *lane, uint32_t lanes, uint32_t batch, uint32_t cluster)
{
    wide_plan p;
    if (!lanes || type == FLI_CUDA_F64 || !wide_plan_make(net, data, batch, cluster, &p)) return;
    with_kernel(type, p, [&](auto kernel, uint32_t threads) {
        FLI_LAUNCH_CLUSTER(s, kernel, lanes * p.cluster, threads, p.bytes, p.cluster, p, *data, lane);
    });
}
