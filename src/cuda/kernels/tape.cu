/* Plays tapes (device/tape.h). A thread takes a few neighbouring entries of a lane and goes through the lane's
 * operations with them. Its last result stays in registers, where the next operation mostly reads it.
 *
 * Rounding is that of vec/ops.h: a product is rounded before it is added, and sums go from the first term to the last.
 * So a tape gives the bits of the CPU. */
#include "cuda/kernels/kernel.cuh"
#include "cuda/kernels/kernels.h"

/* ---- reals: one, or as many as are loaded at once ---- */
template <class REAL, int V> struct pack {
    REAL v[V];
};

static __device__ __forceinline__ float times(float a, float b) { return __fmul_rn(a, b); }
static __device__ __forceinline__ double times(double a, double b) { return __dmul_rn(a, b); }
static __device__ __forceinline__ float plus(float a, float b) { return __fadd_rn(a, b); }
static __device__ __forceinline__ double plus(double a, double b) { return __dadd_rn(a, b); }

/* They bypass the multiprocessor's cache, because no other thread needs them. */
static __device__ __forceinline__ void get(const float *p, pack<float, 1> &to) { to.v[0] = __ldcg(p); }
static __device__ __forceinline__ void get(const double *p, pack<double, 1> &to) { to.v[0] = __ldcg(p); }
static __device__ __forceinline__ void get(const float *p, pack<float, 4> &to)
{
    float4 q = __ldcg((const float4 *)p);
    to = {{q.x, q.y, q.z, q.w}};
}
static __device__ __forceinline__ void get(const double *p, pack<double, 2> &to)
{
    double2 q = __ldcg((const double2 *)p);
    to = {{q.x, q.y}};
}
static __device__ __forceinline__ void put(float *p, const pack<float, 1> &v) { __stcg(p, v.v[0]); }
static __device__ __forceinline__ void put(double *p, const pack<double, 1> &v) { __stcg(p, v.v[0]); }
static __device__ __forceinline__ void put(float *p, const pack<float, 4> &v)
{
    __stcg((float4 *)p, make_float4(v.v[0], v.v[1], v.v[2], v.v[3]));
}
static __device__ __forceinline__ void put(double *p, const pack<double, 2> &v)
{
    __stcg((double2 *)p, make_double2(v.v[0], v.v[1]));
}

/* A thread's entries, from i on, if there are any. */
struct entries {
    size_t i;
    bool there;
};

template <class REAL, int V> static __device__ __forceinline__ pack<REAL, V> load(const void *x, entries at)
{
    pack<REAL, V> r = {};
    if (at.there) get((const REAL *)x + at.i, r);
    return r;
}
template <class REAL, int V> static __device__ __forceinline__ void store(void *out, entries at, const pack<REAL, V> &v)
{
    if (at.there) put((REAL *)out + at.i, v);
}

/* ---- operations ---- */
/* Terms of a sum: this many are loaded before the first is used. To save registers the compiler would load them one by
 * one, but it moves no load across a barrier. So all threads of a warp execute all operations. */
enum { FLIGHT = 8 };

template <class REAL, int V>
static __device__ __forceinline__ void add_terms(const fli_tape_term *term, uint32_t count, entries at,
                                                 pack<REAL, V> &y)
{
    uint32_t k = 0;
    for (; k + FLIGHT <= count; k += FLIGHT) {
        pack<REAL, V> x[FLIGHT];
        REAL a[FLIGHT];
#pragma unroll
        for (int j = 0; j < FLIGHT; j++) {
            x[j] = load<REAL, V>(term[k + j].x, at);
            a[j] = (REAL)term[k + j].a;
        }
        __syncwarp();
#pragma unroll
        for (int j = 0; j < FLIGHT; j++)
#pragma unroll
            for (int e = 0; e < V; e++) y.v[e] = plus(y.v[e], times(a[j], x[j].v[e]));
    }
    for (; k < count; k++) {
        pack<REAL, V> x = load<REAL, V>(term[k].x, at);
        for (int e = 0; e < V; e++) y.v[e] = plus(y.v[e], times((REAL)term[k].a, x.v[e]));
    }
}

/* All operations but sums, on values in registers: x and y are the operands, in order. */
template <class REAL, int V>
static __device__ __forceinline__ pack<REAL, V> value(const fli_tape_op &o, const pack<REAL, V> &x,
                                                      const pack<REAL, V> &y)
{
    const REAL a = (REAL)o.a, b = (REAL)o.b;
    pack<REAL, V> out = {};
#pragma unroll
    for (int e = 0; e < V; e++) switch (o.kind) {
        case FLI_TAPE_COPY: out.v[e] = x.v[e]; break;
        case FLI_TAPE_FILL: out.v[e] = a; break;
        case FLI_TAPE_AXPY: out.v[e] = plus(y.v[e], times(a, x.v[e])); break;
        case FLI_TAPE_LIN: out.v[e] = plus(times(a, x.v[e]), times(b, y.v[e])); break;
        default: out.v[e] = times(y.v[e], a); break;
        }
    return out;
}

/* What they are; NULL: nothing. */
static __device__ __forceinline__ const void *first_of(const fli_tape_op &o)
{
    return o.kind == FLI_TAPE_COPY || o.kind == FLI_TAPE_AXPY || o.kind == FLI_TAPE_LIN ? o.x : nullptr;
}
static __device__ __forceinline__ const void *second_of(const fli_tape_op &o)
{
    return o.kind == FLI_TAPE_LIN ? o.y : o.kind == FLI_TAPE_AXPY || o.kind == FLI_TAPE_SCALE ? o.out : nullptr;
}

/* A thread's entries, `stride` apart. The next operation is fetched early, and all loads of an operation overlap. */
template <class REAL, int V, int U>
static __device__ void go(const fli_tape_op *op, uint32_t count, const fli_tape_term *term, const entries (&mine)[U])
{
    const void *at = nullptr;
    pack<REAL, V> hand[U] = {};
    auto get_all = [&](const void *p, pack<REAL, V>(&to)[U]) {
#pragma unroll
        for (int u = 0; u < U; u++) {
            to[u] = hand[u];
            if (p && p != at) to[u] = load<REAL, V>(p, mine[u]);
        }
    };
    fli_tape_op o = op[0];
    for (uint32_t k = 0; k < count; k++) {
        pack<REAL, V> x[U], y[U];
        const fli_tape_op next = op[k + 1 < count ? k + 1 : k];
        if (o.kind == FLI_TAPE_SUM) {
            get_all(o.out, hand);
#pragma unroll
            for (int u = 0; u < U; u++) add_terms<REAL, V>(term + o.first, o.count, mine[u], hand[u]);
        } else {
            get_all(first_of(o), x);
            get_all(second_of(o), y);
            __syncwarp();
#pragma unroll
            for (int u = 0; u < U; u++) hand[u] = value<REAL, V>(o, x[u], y[u]);
        }
        at = o.out;
#pragma unroll
        for (int u = 0; u < U; u++) store<REAL, V>(o.out, mine[u], hand[u]);
        o = next;
    }
}

enum { THREADS = 64 };

/* A block has U times as many packs as threads. */
template <class REAL, int V, int U>
static __global__ void __launch_bounds__(THREADS)
    tape_kernel(size_t n, const fli_tape_op *op, const fli_tape_term *term, const uint32_t *begin, uint32_t lanes)
{
    const size_t first_pack = (size_t)blockIdx.x * THREADS * U + threadIdx.x, left = n % V;
    entries mine[U];
#pragma unroll
    for (int u = 0; u < U; u++) {
        size_t i = (first_pack + (size_t)u * THREADS) * V;
        mine[u] = entries{i, i + V <= n};
    }
    for (uint32_t lane = blockIdx.y; lane < lanes; lane += gridDim.y) {
        const fli_tape_op *first = op + begin[lane];
        uint32_t count = begin[lane + 1] - begin[lane];
        if (!count) continue;
        go<REAL, V, U>(first, count, term, mine);
        if (left && blockIdx.x == 0 && threadIdx.x < 32) {
            const entries rest[1] = {{n - left + threadIdx.x, threadIdx.x < left}};
            go<REAL, 1, 1>(first, count, term, rest);
        }
    }
}

/* ---- long sums of short vectors ---- */
/* With too few entries to keep the memory busy, a thread would wait for each term. So the warps of a block share the
 * loads of 32 entries, and the first warp adds them up in their order. */
enum { WARPS = 8, EACH = 16, TERMS = WARPS * EACH };

template <class REAL>
static __device__ void load_terms(const fli_tape_term *term, uint32_t count, entries at, REAL (*tile)[32])
{
    uint32_t warp = threadIdx.x / 32, t = threadIdx.x % 32;
    pack<REAL, 1> x[EACH];
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++) {
        uint32_t k = j * WARPS + warp;
        if (k < count) x[j] = load<REAL, 1>(term[k].x, at);
    }
    __syncwarp();
#pragma unroll
    for (uint32_t j = 0; j < EACH; j++) {
        uint32_t k = j * WARPS + warp;
        if (k < count) tile[k][t] = times((REAL)term[k].a, x[j].v[0]);
    }
}

template <class REAL>
static __device__ REAL add_shared_terms(const fli_tape_term *term, uint32_t count, entries at, REAL y, REAL (*tile)[32])
{
    for (uint32_t k = 0; k < count; k += TERMS) {
        uint32_t now = min(count - k, (uint32_t)TERMS);
        __syncthreads(); /* earlier results are visible, and the tile is free */
        load_terms(term + k, now, at, tile);
        __syncthreads();
        if (threadIdx.x < 32)
            for (uint32_t j = 0; j < now; j++) y = plus(y, tile[j][threadIdx.x]);
    }
    return y;
}

template <class REAL> static __device__ __forceinline__ pack<REAL, 1> load_or_zero(const void *x, entries at)
{
    return x ? load<REAL, 1>(x, at) : pack<REAL, 1>{};
}

template <class REAL>
static __global__ void __launch_bounds__(32 * WARPS)
    long_sums_kernel(size_t n, const fli_tape_op *op, const fli_tape_term *term, const uint32_t *begin)
{
    __shared__ REAL tile[TERMS][32];
    const size_t i = (size_t)blockIdx.x * 32 + threadIdx.x % 32;
    const entries read = {i, i < n}, mine = {i, i < n && threadIdx.x < 32};
    for (uint32_t k = begin[blockIdx.y]; k < begin[blockIdx.y + 1]; k++) {
        const fli_tape_op o = op[k];
        pack<REAL, 1> v;
        if (o.kind == FLI_TAPE_SUM)
            v = {{add_shared_terms(term + o.first, o.count, read, load<REAL, 1>(o.out, mine).v[0], tile)}};
        else
            v = value<REAL, 1>(o, load_or_zero<REAL>(first_of(o), mine), load_or_zero<REAL>(second_of(o), mine));
        store<REAL, 1>(o.out, mine, v);
    }
}

/* ---- launches ---- */
template <class REAL, int V, int U> static void launch(fli_cuda_stream s, const fli_cuda_tape *t)
{
    size_t packs = t->n < V ? 1 : t->n / V, each = (size_t)THREADS * U;
    dim3 grid((unsigned)((packs + each - 1) / each), min(t->lanes, (uint32_t)32768));
    FLI_LAUNCH(s, (tape_kernel<REAL, V, U>), grid, THREADS, 0, t->n, t->op, t->term, t->begin, t->lanes);
}

template <class REAL> static void play(fli_cuda_stream s, const fli_cuda_tape *t)
{
    enum { V = 16 / sizeof(REAL), FEW = 16384, LONG = 2 * FLIGHT, MANY = 1024 };
    if (t->longest_sum > LONG && t->lanes * ((t->n + V - 1) / V) < FEW)
        FLI_LAUNCH(s, long_sums_kernel<REAL>, dim3((unsigned)((t->n + 31) / 32), t->lanes), 32 * WARPS, 0, t->n, t->op,
                   t->term, t->begin);
    else if (t->aligned && t->longest_sum <= LONG && t->lanes > 1 && t->n / V >= MANY)
        launch<REAL, V, 4>(s, t);
    else if (t->aligned)
        launch<REAL, V, 1>(s, t);
    else
        launch<REAL, 1, 1>(s, t);
}

extern "C" void fli_cuda_play(fli_cuda_stream s, int wide, const fli_cuda_tape *t)
{
    if (!t->n || !t->lanes) return;
    if (wide)
        play<double>(s, t);
    else
        play<float>(s, t);
}
