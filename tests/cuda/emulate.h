/* CUDA for a C++ compiler: what kernels may use (src/cuda/kernels/kernel.cuh), on a processor. The threads of a block
 * are fibers that take turns on one host thread, and blocks run one after the other, those of a cluster together (their
 * static shared memory is one: such kernels have none). It is slow, and made for finding mistakes:
 *
 * - a thread runs until it meets a barrier, then another does. The order of the threads can be changed (order.h), so
 *   a missing barrier shows as a result that depends on it.
 * - a barrier, a shuffle or a product that not all its threads come to ends the program with a sentence.
 * - dynamic shared memory is NaN at first, and its end is guarded.
 * - an asynchronous copy makes its target NaN at once and copies when the thread waits for it. */
#ifndef FLI_CUDA_EMULATE_H
#define FLI_CUDA_EMULATE_H

#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define __global__
#define __device__
#define __host__
#define __constant__
#define __shared__      static
#define __forceinline__ inline
#define __noinline__    __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

/* ---- types ---- */
#define FLI_EMULATED_VECTOR2(type, of, bytes)                                                                          \
    struct __attribute__((aligned(bytes))) type {                                                                      \
        of x, y;                                                                                                       \
    };                                                                                                                 \
    static inline type make_##type(of x, of y) { return type{x, y}; }
#define FLI_EMULATED_VECTOR4(type, of, bytes)                                                                          \
    struct __attribute__((aligned(bytes))) type {                                                                      \
        of x, y, z, w;                                                                                                 \
    };                                                                                                                 \
    static inline type make_##type(of x, of y, of z, of w) { return type{x, y, z, w}; }
FLI_EMULATED_VECTOR2(int2, int, 8)
FLI_EMULATED_VECTOR2(uint2, unsigned, 8)
FLI_EMULATED_VECTOR2(float2, float, 8)
FLI_EMULATED_VECTOR2(double2, double, 16)
FLI_EMULATED_VECTOR4(int4, int, 16)
FLI_EMULATED_VECTOR4(uint4, unsigned, 16)
FLI_EMULATED_VECTOR4(float4, float, 16)
FLI_EMULATED_VECTOR4(uchar4, unsigned char, 4)

struct uint3 {
    unsigned x, y, z;
};
struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};

/* ---- where a thread is: set whenever another takes over ---- */
extern uint3 threadIdx, blockIdx;
extern dim3 blockDim, gridDim;
static constexpr int warpSize = 32;

/* ---- launches ---- */
void fli_emulated_launch(const char *kernel, dim3 grid, dim3 block, size_t bytes, int cluster, void (*body)(void *),
                         void *arg);
template <class Body>
static inline void fli_emulated_run(const char *kernel, dim3 grid, dim3 block, size_t bytes, int cluster, Body b)
{
    fli_emulated_launch(
        kernel, grid, block, bytes, cluster, [](void *arg) { (*(Body *)arg)(); }, &b);
}
#define FLI_LAUNCH_CLUSTER(stream, kernel, grid, block, bytes, cluster, ...)                                           \
    do {                                                                                                               \
        (void)(stream);                                                                                                \
        fli_emulated_run(#kernel, (grid), (block), (bytes), (int)(cluster), [&] { (kernel)(__VA_ARGS__); });           \
    } while (0)
#define FLI_LAUNCH(stream, kernel, grid, block, bytes, ...)                                                            \
    FLI_LAUNCH_CLUSTER(stream, kernel, grid, block, bytes, 1, __VA_ARGS__)

#define FLI_LAUNCH_EARLY FLI_LAUNCH
static inline void fli_overlap() {}

static inline size_t fli_shared_limit() { return 227 * 1024; } /* an H200's */
static inline unsigned fli_processors() { return 132; }
unsigned char *fli_emulated_shared(void);
#define FLI_DYNAMIC(name) unsigned char *const name = fli_emulated_shared()

/* ---- barriers ---- */
/* Until all threads of the block are at this line; the number of them that said something other than 0. */
int fli_emulated_barrier(int said, const char *file, int line);
static inline void __syncthreads(const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    fli_emulated_barrier(0, file, line);
}
static inline int __syncthreads_count(int p, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return fli_emulated_barrier(p, file, line);
}
static inline int __syncthreads_or(int p, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return fli_emulated_barrier(p, file, line) != 0;
}
static inline int __syncthreads_and(int p, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return fli_emulated_barrier(!p, file, line) == 0;
}

/* ---- clusters ---- */
static inline unsigned fli_cluster_limit() { return 8; }
template <class K> static inline unsigned fli_clusters_at_a_time(K, unsigned, size_t, unsigned cluster)
{
    return fli_processors() / cluster;
}
#define FLI_CLUSTERS 1
unsigned fli_cluster_rank(void);
void fli_cluster_sync(const char *file = __builtin_FILE(), int line = __builtin_LINE());
void *fli_emulated_neighbour(void *p, unsigned rank);
template <class T> static inline T *fli_cluster_at(T *p, unsigned rank)
{
    return (T *)fli_emulated_neighbour((void *)p, rank);
}

/* ---- warps ---- */
/* Until all lanes of the mask are at this line. Then `all`, once for all of them: it finds what lane i brought at
 * its[i], which is NULL for lanes that are not of the party. */
typedef void fli_emulated_party(void *const its[32]);
void fli_emulated_meet(unsigned mask, fli_emulated_party *all, void *mine, const char *file, int line);
int fli_emulated_lane(void);

static inline void __syncwarp(unsigned mask = 0xffffffffu, const char *file = __builtin_FILE(),
                              int line = __builtin_LINE())
{
    fli_emulated_meet(
        mask, [](void *const *) {}, &mask, file, line);
}

/* What a lane wants from which other; a lane that is not there gives NaN. */
template <class T> struct fli_emulated_wish {
    T value, got;
    int from;
};
template <class T> static inline T fli_emulated_shuffle(unsigned mask, T value, int from, const char *file, int line)
{
    fli_emulated_wish<T> w = {value, value, from};
    fli_emulated_meet(
        mask,
        [](void *const *its) {
            for (int i = 0; i < 32; i++) {
                fli_emulated_wish<T> *to = (fli_emulated_wish<T> *)its[i];
                if (!to) continue;
                const fli_emulated_wish<T> *of = (const fli_emulated_wish<T> *)its[to->from];
                if (of)
                    to->got = of->value;
                else
                    memset(&to->got, 0xff, sizeof to->got);
            }
        },
        &w, file, line);
    return w.got;
}
template <class T>
static inline T __shfl_sync(unsigned mask, T v, int lane, int width = 32, const char *file = __builtin_FILE(),
                            int line = __builtin_LINE())
{
    int base = fli_emulated_lane() & ~(width - 1);
    return fli_emulated_shuffle(mask, v, base + (lane & (width - 1)), file, line);
}
template <class T>
static inline T __shfl_xor_sync(unsigned mask, T v, int with, int width = 32, const char *file = __builtin_FILE(),
                                int line = __builtin_LINE())
{
    int own = fli_emulated_lane(), from = own ^ with;
    return fli_emulated_shuffle(mask, v, from < (own & ~(width - 1)) + width ? from : own, file, line);
}
template <class T>
static inline T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, const char *file = __builtin_FILE(),
                                 int line = __builtin_LINE())
{
    int own = fli_emulated_lane(), at = own & (width - 1);
    return fli_emulated_shuffle(mask, v, at + (int)by < width ? own + (int)by : own, file, line);
}
template <class T>
static inline T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, const char *file = __builtin_FILE(),
                               int line = __builtin_LINE())
{
    int own = fli_emulated_lane(), at = own & (width - 1);
    return fli_emulated_shuffle(mask, v, at >= (int)by ? own - (int)by : own, file, line);
}
unsigned __ballot_sync(unsigned mask, int p, const char *file = __builtin_FILE(), int line = __builtin_LINE());
static inline int __any_sync(unsigned mask, int p, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return __ballot_sync(mask, p, file, line) != 0;
}
static inline int __all_sync(unsigned mask, int p, const char *file = __builtin_FILE(), int line = __builtin_LINE())
{
    return __ballot_sync(mask, !p, file, line) == 0;
}

/* ---- asynchronous copies ---- */
void fli_emulated_copy(void *to, const void *from, int bytes, int there);
void fli_emulated_commit(void);
void fli_emulated_wait(int but);
static inline void fli_async16(void *to, const void *from, int there) { fli_emulated_copy(to, from, 16, there); }
static inline void fli_async4(void *to, const void *from, int there) { fli_emulated_copy(to, from, 4, there); }
static inline void fli_async_commit() { fli_emulated_commit(); }
template <int N> static inline void fli_async_wait() { fli_emulated_wait(N); }
static inline void fli_shared4(float *to, float4 v) { *(float4 *)to = v; }
static inline void fli_prefetch(const void *p) { (void)*(const volatile char *)p; } /* it must be there */

/* ---- products: mma.cuh says who holds what ---- */
uint32_t fli_tf32(float a);
void fli_emulated_mma(float d[4], const uint32_t a[4], const uint32_t b[2], const char *file, int line);
static inline void fli_mma(float d[4], const uint32_t a[4], const uint32_t b[2], const char *file = __builtin_FILE(),
                           int line = __builtin_LINE())
{
    fli_emulated_mma(d, a, b, file, line);
}

/* ---- arithmetic ---- */
template <class To, class From> static inline To fli_emulated_bits(From v)
{
    static_assert(sizeof(To) == sizeof(From), "as many bits");
    To r;
    memcpy(&r, &v, sizeof r);
    return r;
}
static inline float __uint_as_float(unsigned v) { return fli_emulated_bits<float>(v); }
static inline unsigned __float_as_uint(float v) { return fli_emulated_bits<unsigned>(v); }
static inline float __int_as_float(int v) { return fli_emulated_bits<float>(v); }
static inline int __float_as_int(float v) { return fli_emulated_bits<int>(v); }

template <class T> static inline T __ldg(const T *p) { return *p; }
template <class T> static inline T __ldcg(const T *p) { return *p; }
template <class T> static inline T __ldcs(const T *p) { return *p; }
template <class T> static inline void __stcg(T *p, T v) { *p = v; }
template <class T> static inline void __stcs(T *p, T v) { *p = v; }

#define FLI_EMULATED_LESSER(type)                                                                                      \
    static inline type min(type a, type b) { return b < a ? b : a; }                                                   \
    static inline type max(type a, type b) { return a < b ? b : a; }
FLI_EMULATED_LESSER(int)
FLI_EMULATED_LESSER(unsigned)
FLI_EMULATED_LESSER(long)
FLI_EMULATED_LESSER(unsigned long)
FLI_EMULATED_LESSER(long long)
FLI_EMULATED_LESSER(unsigned long long)
static inline float min(float a, float b) { return fminf(a, b); }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }

static inline float rsqrtf(float a) { return 1.0f / sqrtf(a); }
static inline double rsqrt(double a) { return 1.0 / sqrt(a); }
#define __expf expf /* math.h has taken these names */
#define __logf logf
static inline float __fdividef(float a, float b) { return a / b; }
/* Never made into one operation with what follows. */
static inline float __fadd_rn(float a, float b) { return a + b; }
static inline float __fsub_rn(float a, float b) { return a - b; }
static inline float __fmul_rn(float a, float b) { return a * b; }
static inline float __fdiv_rn(float a, float b) { return a / b; }
static inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
static inline double __dadd_rn(double a, double b) { return a + b; }
static inline double __dsub_rn(double a, double b) { return a - b; }
static inline double __dmul_rn(double a, double b) { return a * b; }
static inline double __ddiv_rn(double a, double b) { return a / b; }
static inline double __fma_rn(double a, double b, double c) { return fma(a, b, c); }
static inline unsigned __umulhi(unsigned a, unsigned b) { return (unsigned)((uint64_t)a * b >> 32); }
static inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b)
{
    __extension__ typedef unsigned __int128 wide;
    return (unsigned long long)((wide)a * b >> 64);
}
/* Byte i of the result is the one of b:a that the i-th four bits of `which` number. */
static inline unsigned __byte_perm(unsigned a, unsigned b, unsigned which)
{
    uint64_t both = (uint64_t)b << 32 | a;
    unsigned r = 0;
    for (unsigned i = 0; i < 4; i++) r |= (unsigned)(both >> (which >> 4 * i & 7) * 8 & 255) << 8 * i;
    return r;
}
static inline int __popc(unsigned a) { return __builtin_popcount(a); }
static inline int __clz(int a) { return a ? __builtin_clz((unsigned)a) : 32; }
/* Threads take turns: nobody comes in between. */
static inline unsigned atomicExch(unsigned *p, unsigned v)
{
    unsigned old = *p;
    *p = v;
    return old;
}
static inline int __ffs(int a) { return __builtin_ffs(a); }

#endif
