/* Whole turns of networks with one small hidden layer and softmax, in single precision: small.cu for shapes known to
 * the compiler. Matrices have the sizes below, with zeros if the network is smaller, so no code tests for the end.
 *
 * A step has three phases, with a barrier after each:
 *     forward   a warp makes 16 rows x 8 units of the hidden layer
 *     last      four warps take 16 rows each through the last layer, the loss and back to the hidden layer; the others
 *               normalise the samples of the next step, which every thread has asked for a phase before
 *     step      a warp makes the gradient of 16 x 8 weights, which are in its registers for the whole turn, and writes
 *               a copy of them for the other phases
 *
 * Products are sums over neighbours in a row (of samples and weights) or over rows (gradients). In a warp's products on
 * tensor cores (mma.cuh) a thread has the terms 2 t and 2 t + 1 of eight in the first case, t and t + 4 in the second:
 * with strides of 8 more than a multiple of 32, or 8 less, threads use different banks. */
#ifndef FLI_CUDA_SMALL_ONE_CUH
#define FLI_CUDA_SMALL_ONE_CUH

#include "cuda/kernels/mma.cuh"
#include "cuda/kernels/small_plan.h"

namespace
{

enum {
    ONE_ROWS = 64,
    ONE_IN = 64, /* with the bias, which is the last */
    ONE_HIDDEN = 32,
    ONE_OUT = 16,
    ONE_BIAS_IN = ONE_IN - 1,
    ONE_BIAS_HIDDEN = ONE_HIDDEN, /* in a row of hidden activations */
    ONE_WARPS = 16,
    ONE_LAST_WARPS = ONE_ROWS / 16,
    ONE_THREADS = ONE_WARPS * 32,
    ONE_QUADS = ONE_IN / QUAD, /* threads per row of samples */
    ONE_TAKERS = ONE_THREADS - 32 * ONE_LAST_WARPS,
    ONE_TAKE_ROWS = ONE_TAKERS / ONE_QUADS, /* at once */
    ONE_TAKES = (ONE_ROWS + ONE_TAKE_ROWS - 1) / ONE_TAKE_ROWS,
    IN_STRIDE = ONE_IN + 8,
    HIDDEN_STRIDE = ONE_HIDDEN + 8, /* room for the bias */
    OUT_STRIDE = ONE_OUT + 8
};

typedef struct {
    float x[2][ONE_ROWS * IN_STRIDE]; /* samples of this step and the next */
    float h[ONE_ROWS * HIDDEN_STRIDE];
    float error_h[ONE_ROWS * HIDDEN_STRIDE], error[ONE_ROWS * OUT_STRIDE];
    float below[ONE_HIDDEN * IN_STRIDE], above[ONE_OUT * HIDDEN_STRIDE]; /* weights of the two layers, unit by unit */
} one_memory;

/* ---- products -------------------------------------------------------------------------------------------- */

/* The thread's place in a warp's products: lane = 4 g + t. */
struct one_seat {
    uint32_t warp, g, t;
};

/* Of 16 x 8 sums; separate for small and large products, because tensor cores truncate. */
struct one_sums {
    float v[3][4];
    __device__ __forceinline__ float at(int c) const { return v[2][c] + (v[0][c] + v[1][c]); }
};

/* Eight more terms. */
static __device__ __forceinline__ void one_add(one_sums *s, const fli_frag_a<1> &a, float b0, float b1)
{
    fli_frag_b<1> b;
    b.set(0, b0);
    b.set(1, b1);
    fli_mma(s->v[0], a.lo, b.hi);
    fli_mma(s->v[1], a.hi, b.lo);
    fli_mma(s->v[2], a.hi, b.hi);
}

static __device__ __forceinline__ fli_frag_a<1> one_left(float a0, float a1, float a2, float a3)
{
    fli_frag_a<1> a;
    a.set(0, a0);
    a.set(1, a1);
    a.set(2, a2);
    a.set(3, a3);
    return a;
}

/* Sixteen rows of a with 8 PARTS rows of b, over TERMS neighbours. */
template <int TERMS, int STRIDE, int PARTS>
static __device__ __forceinline__ void one_along(const one_seat &me, const float *a, const float *b, one_sums s[PARTS])
{
    a += me.g * STRIDE + 2 * me.t;
    b += me.g * STRIDE + 2 * me.t;
#pragma unroll
    for (int k = 0; k < TERMS; k += 8) {
        const float2 top = *(const float2 *)(a + k), low = *(const float2 *)(a + 8 * STRIDE + k);
        const fli_frag_a<1> left = one_left(top.x, low.x, top.y, low.y);
#pragma unroll
        for (int j = 0; j < PARTS; j++) {
            const float2 right = *(const float2 *)(b + 8 * j * STRIDE + k);
            one_add(&s[j], left, right.x, right.y);
        }
    }
}

/* Sixteen columns of a with eight of b, over ROWS rows. */
template <int ROWS, int A_STRIDE, int B_STRIDE>
static __device__ __forceinline__ void one_across(const one_seat &me, const float *a, const float *b, one_sums *s)
{
    a += me.t * A_STRIDE + me.g;
    b += me.t * B_STRIDE + me.g;
#pragma unroll
    for (int k = 0; k < ROWS; k += 8) {
        const float *p = a + k * A_STRIDE, *q = b + k * B_STRIDE;
        one_add(s, one_left(p[0], p[8], p[4 * A_STRIDE], p[4 * A_STRIDE + 8]), q[0], q[4 * B_STRIDE]);
    }
}

/* ---- samples --------------------------------------------------------------------------------------------- */

/* Four stored values being fetched, `count` of them valid. */
template <class STORED> struct one_quad {
    STORED v[QUAD];
    __device__ __forceinline__ void load(const STORED *from, uint32_t count)
    {
        for (uint32_t j = 0; j < QUAD; j++) v[j] = j < count ? from[j] : (STORED)0;
    }
    __device__ __forceinline__ float at(int j) const { return (float)v[j]; }
};
template <> struct one_quad<uint8_t> {
    uint32_t word;
    __device__ __forceinline__ void load(const uint8_t *from, uint32_t count)
    {
        word = 0;
        if (count >= QUAD && (size_t)from % 4 == 0) {
            word = *(const uint32_t *)from;
            return;
        }
        for (uint32_t j = 0; j < QUAD && j < count; j++) word |= (uint32_t)from[j] << (8 * j);
    }
    __device__ __forceinline__ float at(int j) const { return (float)(word >> (8 * j) & 0xff); }
};

/* What a thread fetches for the next steps: samples, or the labels of two rows of the last layer. */
template <class STORED> struct one_coming {
    uint32_t row[ONE_TAKES], id[ONE_TAKES];
    uint32_t left; /* of its four features */
    one_quad<STORED> x[ONE_TAKES];
    int32_t label[ONE_TAKES];
};

template <class STORED> static __device__ __forceinline__ void one_places(const one_seat &me, one_coming<STORED> *c)
{
    const uint32_t taker = threadIdx.x - 32 * ONE_LAST_WARPS;
    c->left = threadIdx.x % ONE_QUADS * QUAD;
#pragma unroll
    for (uint32_t j = 0; j < ONE_TAKES; j++) {
        c->row[j] = me.warp >= ONE_LAST_WARPS ? taker / ONE_QUADS + j * ONE_TAKE_ROWS
                    : j < 2                   ? me.warp * 16 + me.g + 8 * j
                                              : (uint32_t)ONE_ROWS;
        c->id[j] = 0;
        c->label[j] = 0;
    }
}

/* Fetches the sample numbers of step `step`. */
template <class STORED>
static __device__ __forceinline__ void one_ask(const fli_cuda_lane &lane, uint32_t step, uint32_t n,
                                               one_coming<STORED> *c)
{
    if (step >= lane.steps) return;
#pragma unroll
    for (int j = 0; j < ONE_TAKES; j++)
        if (c->row[j] < n) c->id[j] = lane.order[(size_t)step * lane.stride + c->row[j]];
}

/* Their values, or their labels. */
template <class STORED>
static __device__ __forceinline__ void one_fetch(const one_seat &me, const small_layer &l, const fli_cuda_data &data,
                                                 uint32_t n, one_coming<STORED> *c)
{
#pragma unroll
    for (int j = 0; j < ONE_TAKES; j++) {
        if (c->row[j] >= n) continue;
        if (me.warp < ONE_LAST_WARPS)
            c->label[j] = data.label[c->id[j]];
        else if (c->left < l.in)
            c->x[j].load((const STORED *)data.x + (size_t)c->id[j] * l.in + c->left, l.in - c->left);
    }
}

/* Turns the values into inputs; zeros without samples. */
template <class STORED>
static __device__ __forceinline__ void one_take(const small_layer &l, const scaling<float> &by, uint32_t n,
                                                const one_coming<STORED> &c, float *x)
{
#pragma unroll
    for (int j = 0; j < ONE_TAKES; j++) {
        if (c.row[j] >= ONE_ROWS) continue;
        float v[QUAD];
#pragma unroll
        for (uint32_t i = 0; i < QUAD; i++) {
            const float stored = c.x[j].at((int)i),
                        value = by.scaled ? fli_mul_add(stored, by.scale, by.shift) : stored;
            const float behind = c.left + i == ONE_BIAS_IN && l.z_bias != NOWHERE ? 1 : 0;
            v[i] = c.row[j] >= n ? 0 : c.left + i < l.in ? value : behind;
        }
        *(float4 *)(x + c.row[j] * IN_STRIDE + c.left) = make_float4(v[0], v[1], v[2], v[3]);
    }
}

/* ---- phases ---------------------------------------------------------------------------------------------- */

static __device__ __forceinline__ void one_forward(const one_seat &me, const float *x, float least, one_memory *m)
{
    const uint32_t top = me.warp % 4 * 16, unit = me.warp / 4 * 8;
    one_sums s[1] = {};
    one_along<ONE_IN, IN_STRIDE, 1>(me, x + top * IN_STRIDE, m->below + unit * IN_STRIDE, s);
    float *to = m->h + (top + me.g) * HIDDEN_STRIDE + unit + 2 * me.t;
#pragma unroll
    for (int i = 0; i < 2; i++) {
        const float first = s[0].at(2 * i), second = s[0].at(2 * i + 1);
        *(float2 *)(to + 8 * i * HIDDEN_STRIDE) = make_float2(first <= least ? 0 : first, second <= least ? 0 : second);
    }
}

/* The logits of a row, of which a thread has those at 2 t, 2 t + 1, and 8 after these, become errors. */
static __device__ __forceinline__ void one_softmax(const one_seat &me, uint32_t out, uint32_t label, float share,
                                                   float *z[4])
{
    float most = -INFINITY, sum = 0, e[4];
    int there[4];
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) {
        there[c] = 2 * me.t + c % 2 + c / 2 * 8 < out;
        most = there[c] ? max(most, *z[c]) : most;
    }
    most = max(most, __shfl_xor_sync(0xffffffffu, most, 1));
    most = max(most, __shfl_xor_sync(0xffffffffu, most, 2));
#pragma unroll
    for (int c = 0; c < 4; c++) {
        e[c] = there[c] ? exp_of(*z[c] - most) : 0;
        sum += e[c];
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    sum += __shfl_xor_sync(0xffffffffu, sum, 2);
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) {
        const float likely = e[c] / sum;
        *z[c] = share == 0 ? 0 : (2 * me.t + c % 2 + c / 2 * 8 == label ? likely - 1 : likely) * share;
    }
}

/* The errors of 16 rows at the last layer, in registers as sums are; and in shared memory. */
static __device__ __forceinline__ void one_loss(const one_seat &me, uint32_t out, const int32_t *label, uint32_t n,
                                                one_memory *m, float z[2][4])
{
    const uint32_t top = me.warp * 16;
    one_sums s[2] = {};
    one_along<ONE_HIDDEN, HIDDEN_STRIDE, 2>(me, m->h + top * HIDDEN_STRIDE, m->above, s);
#pragma unroll
    for (uint32_t c = 0; c < 8; c++)
        z[c / 4][c % 4] =
            s[c / 4].at(c % 4) + m->above[(c / 4 * 8 + 2 * me.t + c % 2) * HIDDEN_STRIDE + ONE_BIAS_HIDDEN];
#pragma unroll
    for (uint32_t i = 0; i < 2; i++) {
        const uint32_t row = top + me.g + 8 * i;
        float *own[4] = {&z[0][2 * i], &z[0][2 * i + 1], &z[1][2 * i], &z[1][2 * i + 1]};
        one_softmax(me, out, (uint32_t)label[i], row < n ? 1 / (float)n : 0, own);
        float *to = m->error + row * OUT_STRIDE + 2 * me.t;
        *(float2 *)to = make_float2(*own[0], *own[1]);
        *(float2 *)(to + 8) = make_float2(*own[2], *own[3]);
    }
}

/* From errors of the last layer to those of the hidden one. The sum over outputs uses them in the order of the
 * registers. */
static __device__ __forceinline__ void one_back(const one_seat &me, const float z[2][4], float least, one_memory *m)
{
    one_sums s[ONE_HIDDEN / 8] = {};
#pragma unroll
    for (int k = 0; k < 2; k++) {
        const fli_frag_a<1> left = one_left(z[k][0], z[k][2], z[k][1], z[k][3]);
        const float *w = m->above + (8 * k + 2 * me.t) * HIDDEN_STRIDE + me.g;
#pragma unroll
        for (int j = 0; j < ONE_HIDDEN / 8; j++) one_add(&s[j], left, w[8 * j], w[HIDDEN_STRIDE + 8 * j]);
    }
#pragma unroll
    for (uint32_t c = 0; c < ONE_HIDDEN / 4; c++) {
        const uint32_t i = c % 2, at = (me.warp * 16 + me.g + 8 * i) * HIDDEN_STRIDE + c / 2 * 8 + 2 * me.t;
        const float2 h = *(const float2 *)(m->h + at);
        *(float2 *)(m->error_h + at) =
            make_float2(h.x <= least ? 0 : s[c / 2].at((int)(2 * i)), h.y <= least ? 0 : s[c / 2].at((int)(2 * i + 1)));
    }
}

/* ---- weights --------------------------------------------------------------------------------------------- */

/* Of which weights a warp makes the gradient: from unit `top` and input `left` on. bias: the input that is a 1. */
struct one_tile {
    uint32_t top, left, bias;
};
static __device__ __forceinline__ one_tile one_below(const one_seat &me)
{
    return one_tile{me.warp % 2 * 16, me.warp / 2 * 8, ONE_BIAS_IN};
}
static __device__ __forceinline__ one_tile one_above(const one_seat &me)
{
    return one_tile{0, me.warp * 8, ONE_BIAS_HIDDEN};
}

/* Where weight c of a thread's four is in the lane's vectors, or NOWHERE. */
static __device__ __forceinline__ uint32_t one_place(const one_seat &me, const small_layer &l, const one_tile &tile,
                                                     uint32_t c)
{
    const uint32_t unit = tile.top + me.g + c / 2 * 8, input = tile.left + 2 * me.t + c % 2;
    if (unit >= l.out) return NOWHERE;
    if (input < l.in) return l.z_weight + unit * l.in + input;
    return input == tile.bias && l.z_bias != NOWHERE ? l.z_bias + unit : NOWHERE;
}

/* The four weights, as sums are; what every step adds to their gradient; momentum. */
struct one_own {
    float z[4], term[4], momentum[4];
};

template <int STRIDE>
static __device__ __forceinline__ void one_copy(const one_seat &me, const one_tile &tile, const one_own &o,
                                                float *weights)
{
    float *to = weights + (tile.top + me.g) * STRIDE + tile.left + 2 * me.t;
    *(float2 *)to = make_float2(o.z[0], o.z[1]);
    *(float2 *)(to + 8 * STRIDE) = make_float2(o.z[2], o.z[3]);
}

static __device__ __forceinline__ one_own one_begin(const one_seat &me, const small_layer &l, const one_tile &tile,
                                                    const fli_cuda_lane &lane)
{
    const float *start = (const float *)(lane.start ? lane.start : lane.z);
    one_own o;
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) {
        const uint32_t at = one_place(me, l, tile, c);
        const int there = at != NOWHERE;
        o.z[c] = there ? __ldcg(start + at) : 0;
        o.term[c] = there ? term_of<float>(lane, at) : 0;
        o.momentum[c] = there && lane.buffer ? __ldcg((const float *)lane.buffer + at) : 0;
    }
    return o;
}

/* z = z - lr m, m = momentum m + g + decay z + times term. */
static __device__ __forceinline__ void one_step(const step_rates<float> &by, const one_sums &gradient, one_own *o)
{
#pragma unroll
    for (int c = 0; c < 4; c++) {
        o->momentum[c] = by.momentum * o->momentum[c] + (gradient.at(c) + by.decay * o->z[c] + by.times * o->term[c]);
        o->z[c] -= by.lr * o->momentum[c];
    }
}

static __device__ __forceinline__ void one_end(const one_seat &me, const small_layer &l, const one_tile &tile,
                                               const fli_cuda_lane &lane, const one_own &o)
{
#pragma unroll
    for (uint32_t c = 0; c < 4; c++) {
        const uint32_t at = one_place(me, l, tile, c);
        if (at == NOWHERE) continue;
        ((float *)lane.z)[at] = o.z[c];
        if (lane.buffer) ((float *)lane.buffer)[at] = o.momentum[c];
    }
}

/* ---- turns ----------------------------------------------------------------------------------------------- */

/* Fetches lr and wd of a step early: they are used when the gradient is complete. */
struct one_pace {
    double lr, wd;
};
static __device__ __forceinline__ one_pace one_pace_of(const fli_cuda_lane *lane, const double *rates, uint32_t step)
{
    const double *lr = rates ? rates + 2 * step : &lane->lr, *wd = rates ? rates + 2 * step + 1 : &lane->wd;
    return one_pace{*lr, *wd};
}

static __device__ __forceinline__ step_rates<float> one_rates(const fli_cuda_lane &lane, const one_pace &pace)
{
    step_rates<float> by;
    by.lr = (float)pace.lr;
    by.times = (float)lane.times;
    by.decay = (float)(pace.wd + lane.rho);
    by.momentum = lane.buffer ? (float)lane.momentum : 0;
    return by;
}

/* Warps that have weights of the last layer. */
enum { ONE_ABOVE = HIDDEN_STRIDE / 8 };

template <int ROWS>
static __device__ __forceinline__ void one_gradients(const one_seat &me, const step_rates<float> &by, const float *x,
                                                     one_memory *m, one_own *below, one_own *above)
{
    one_sums s = {}, more = {};
    one_across<ROWS, HIDDEN_STRIDE, IN_STRIDE>(me, m->error_h + me.warp % 2 * 16, x + me.warp / 2 * 8, &s);
    if (me.warp < ONE_ABOVE) one_across<ROWS, OUT_STRIDE, HIDDEN_STRIDE>(me, m->error, m->h + me.warp * 8, &more);
    one_step(by, s, below);
    one_copy<IN_STRIDE>(me, one_below(me), *below, m->below);
    if (me.warp >= ONE_ABOVE) return;
    one_step(by, more, above);
    one_copy<HIDDEN_STRIDE>(me, one_above(me), *above, m->above);
}

/* Loads weights, and sets the 1 after the hidden activations. */
static __device__ __forceinline__ void one_begin_all(const one_seat &me, const small_plan &p, const fli_cuda_lane &lane,
                                                     one_memory *m, one_own *below, one_own *above)
{
    *below = one_begin(me, p.layer[0], one_below(me), lane);
    one_copy<IN_STRIDE>(me, one_below(me), *below, m->below);
    if (me.warp < ONE_ABOVE) {
        *above = one_begin(me, p.layer[1], one_above(me), lane);
        one_copy<HIDDEN_STRIDE>(me, one_above(me), *above, m->above);
    }
    const uint32_t row = threadIdx.x / 8, column = ONE_HIDDEN + threadIdx.x % 8;
    m->h[row * HIDDEN_STRIDE + column] = column == ONE_BIAS_HIDDEN && p.layer[1].z_bias != NOWHERE ? 1 : 0;
}

/* The first samples and the numbers of the next ones; weights. */
template <class STORED>
static __device__ __forceinline__ void one_first(const one_seat &me, const small_plan &p, const fli_cuda_data &data,
                                                 const fli_cuda_lane &lane, uint32_t n, uint32_t next, one_memory *m,
                                                 one_coming<STORED> *coming, one_own *below, one_own *above)
{
    one_places(me, coming);
    one_ask(lane, 0, n, coming);
    one_fetch(me, p.layer[0], data, n, coming);
    one_ask(lane, 1, next, coming);
    one_begin_all(me, p, lane, m, below, above);
    if (me.warp >= ONE_LAST_WARPS) one_take(p.layer[0], scaling_of<float>(data), n, *coming, m->x[0]);
    __syncthreads();
}

/* From logits to the errors of the hidden layer. */
static __device__ __forceinline__ void one_last(const one_seat &me, uint32_t out, const int32_t label[2], uint32_t n,
                                                float least, one_memory *m)
{
    float z[2][4];
    one_loss(me, out, label, n, m, z);
    one_back(me, z, least, m);
}

/* ROWS: at least those of a mini-batch. */
template <class STORED, int ROWS>
__global__ void __launch_bounds__(ONE_THREADS, 1)
    one_turns(const small_plan p, const fli_cuda_data data, const fli_cuda_lane *lanes)
{
    FLI_DYNAMIC(memory);
    one_memory *m = (one_memory *)memory;
    const fli_cuda_lane lane = lanes[blockIdx.x];
    if (!lane.n || !lane.steps) return;
    const one_seat me = {threadIdx.x / 32, threadIdx.x % 32 / 4, threadIdx.x % 4};
    const scaling<float> scale = scaling_of<float>(data);
    const float least = p.layer[0].relu ? 0 : -INFINITY;
    uint32_t at = 0, n = next_rows(lane, &at), next = next_rows(lane, &at);
    one_coming<STORED> coming = {};
    one_own below, above;
    one_first(me, p, data, lane, n, next, m, &coming, &below, &above);
#pragma unroll 1
    for (uint32_t step = 0; step < lane.steps; step++) {
        const uint32_t after = next_rows(lane, &at);
        const float *x = m->x[step % 2];
        const int32_t label[2] = {coming.label[0], coming.label[1]};
        const one_pace pace = one_pace_of(lanes + blockIdx.x, lane.rates, step);
        if (step + 1 < lane.steps) one_fetch(me, p.layer[0], data, next, &coming);
        one_ask(lane, step + 2, after, &coming);
        one_forward(me, x, least, m);
        __syncthreads();
        if (me.warp < ONE_LAST_WARPS)
            one_last(me, p.layer[1].out, label, n, least, m);
        else
            one_take(p.layer[0], scale, next, coming, m->x[(step + 1) % 2]);
        __syncthreads();
        one_gradients<ROWS>(me, one_rates(lane, pace), x, m, &below, &above);
        __syncthreads();
        n = next;
        next = after;
    }
    one_end(me, p.layer[0], one_below(me), lane, below);
    if (me.warp < ONE_ABOVE) one_end(me, p.layer[1], one_above(me), lane, above);
}

template <class STORED>
void one_launch(fli_cuda_stream s, const small_plan &p, const fli_cuda_data *data, const fli_cuda_lane *lane,
                uint32_t lanes)
{
    auto kernel = p.batch <= 56 ? one_turns<STORED, 56> : one_turns<STORED, 64>;
    FLI_LAUNCH(s, kernel, lanes, ONE_THREADS, sizeof(one_memory), p, *data, lane);
}

} // namespace

/* Whether a network has such a shape; every GPU has sizeof(one_memory). */
static int one_fits(const small_plan *p, const fli_cuda_data *data)
{
    const small_layer *l = p->layer;
    if (p->depth != 2 || p->logistic || p->batch > ONE_ROWS || data->kind > 1) return 0;
    if (data->scale && (data->segments != 1 || data->length < 2)) return 0;
    return l[0].in < ONE_IN && l[0].out <= ONE_HIDDEN && l[1].out <= ONE_OUT && !l[1].relu && data->length == l[0].in;
}

#endif
