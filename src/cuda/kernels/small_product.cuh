/* Products of matrices in shared memory, by a block: small.cu. */
#ifndef FLI_CUDA_SMALL_PRODUCT_CUH
#define FLI_CUDA_SMALL_PRODUCT_CUH

#include "cuda/kernels/mma.cuh"
#include "cuda/kernels/small_plan.h"

namespace
{

enum { TILE = SMALL_TILE, HALF = TILE / 2, WARP = SMALL_WARP, FEW_TERMS = 64, PART_TERMS = 32 };

/* n / d by small_per(d). */
static __device__ __forceinline__ uint32_t quotient(uint32_t n, uint32_t per_d)
{
    return per_d ? __umulhi(n, per_d) : n;
}

template <class T> struct pair {
    T v[2];
};

/* By the types that nvcc loads and stores in one piece. */
static __device__ __forceinline__ pair<float> pair_at(const float *p)
{
    const float2 a = *(const float2 *)p;
    return pair<float>{{a.x, a.y}};
}
static __device__ __forceinline__ pair<double> pair_at(const double *p)
{
    const double2 a = *(const double2 *)p;
    return pair<double>{{a.x, a.y}};
}
static __device__ __forceinline__ void put_pair(float *p, const pair<float> &a)
{
    *(float2 *)p = make_float2(a.v[0], a.v[1]);
}
static __device__ __forceinline__ void put_pair(double *p, const pair<double> &a)
{
    *(double2 *)p = make_double2(a.v[0], a.v[1]);
}

/* A factor: its entry k of vector i, of `count`, is number at + i * by + k * by_k of shared memory. */
typedef struct {
    uint32_t at, count, by, by_k;
} factor;

/* The scalar products of a's vectors with b's, each of `terms` terms. */
typedef struct {
    factor a, b;
    uint32_t terms;
} product;

/* A thread's part of a tile, as in fli_mma: of row g + 8 i and column half j the columns 2 t and 2 t + 1, in v[j][2 i]
 * and the next, with g = lane / 4 and t = lane % 4. */
template <class T> struct part {
    T v[2][4];
};

/* A vector's entry k; vectors beyond the last repeat the last. */
static __device__ __forceinline__ uint32_t entry_of(const factor &f, uint32_t vector, uint32_t k)
{
    return f.at + min(vector, f.count - 1) * f.by + k * f.by_k;
}

/* Sums in single precision, as three products in tf32, each with its own sum. Tensor cores truncate sums, so they add
 * up only a few terms of the large products. */
struct split_sums {
    float sum[3][2][4], total[2][4];

    /* Eight more terms: v[0 .. 3] of a, then two of b for each half. */
    __device__ __forceinline__ void add(const float v[8])
    {
        fli_frag_a<1> f;
        fli_frag_b<1> h[2];
#pragma unroll
        for (int i = 0; i < 4; i++) {
            f.set(i, v[i]);
            h[i / 2].set(i % 2, v[4 + i]);
        }
#pragma unroll
        for (int j = 0; j < 2; j++) {
            fli_mma(sum[0][j], f.lo, h[j].hi);
            fli_mma(sum[1][j], f.hi, h[j].lo);
            fli_mma(sum[2][j], f.hi, h[j].hi);
        }
    }
    __device__ __forceinline__ void fold()
    {
#pragma unroll
        for (int c = 0; c < 8; c++) {
            total[c / 4][c % 4] += sum[2][c / 4][c % 4];
            sum[2][c / 4][c % 4] = 0;
        }
    }
    __device__ __forceinline__ void end(part<float> *out)
    {
        fold();
#pragma unroll
        for (int c = 0; c < 8; c++)
            out->v[c / 4][c % 4] = total[c / 4][c % 4] + (sum[0][c / 4][c % 4] + sum[1][c / 4][c % 4]);
    }
};

/* The place of a thread's part of eight terms: two vectors of a and two of b, two terms of each. */
struct term_places {
    uint32_t a, low_a, second_a, b, low_b, second_b;

    /* Missing entries are not read and are 0. */
    __device__ __forceinline__ void load(const float *memory, int first, int second, float v[8]) const
    {
        const uint32_t at[8] = {a, a + low_a,    a + second_a, a + low_a + second_a,
                                b, b + second_b, b + low_b,    b + low_b + second_b};
#pragma unroll
        for (int i = 0; i < 8; i++) v[i] = ((i < 4 ? i / 2 : i % 2) ? second : first) ? memory[at[i]] : 0;
    }
};

/* Complete groups of eight terms, and then the rest. */
static __device__ __forceinline__ void multiply(const float *memory, const product &x, uint32_t top, uint32_t left,
                                                part<float> *out)
{
    const uint32_t g = threadIdx.x % WARP / 4, t = threadIdx.x % 4, full = x.terms / 8 * 8;
    /* The order of terms is free. Along rows t and t + 4, across them 2 t and 2 t + 1: no bank conflicts. */
    const uint32_t across = x.a.by_k > 1, slot = across ? 2 * t : t, gap = across ? 1 : 4;
    const uint32_t a = entry_of(x.a, top + g, slot), b = entry_of(x.b, left + g, slot);
    term_places at = {a, entry_of(x.a, top + g + HALF, slot) - a,  gap * x.a.by_k,
                      b, entry_of(x.b, left + g + HALF, slot) - b, gap * x.b.by_k};
    split_sums s = {};
    float v[8];
#pragma unroll 4
    for (uint32_t k = 0; k < full; k += 8, at.a += 8 * x.a.by_k, at.b += 8 * x.b.by_k) {
        at.load(memory, 1, 1, v);
        s.add(v);
        if (k % FEW_TERMS == FEW_TERMS - 8) s.fold();
    }
    if (full < x.terms) {
        at.load(memory, full + slot < x.terms, full + slot + gap < x.terms, v);
        s.add(v);
    }
    s.end(out);
}

static __device__ __forceinline__ void multiply(const double *memory, const product &x, uint32_t top, uint32_t left,
                                                part<double> *out)
{
    const uint32_t g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
    uint32_t a[2], b[2][2];
    for (uint32_t i = 0; i < 2; i++) {
        a[i] = entry_of(x.a, top + g + HALF * i, 0);
        for (uint32_t c = 0; c < 2; c++) b[i][c] = entry_of(x.b, left + HALF * i + 2 * t + c, 0);
    }
    *out = part<double>{};
#pragma unroll 2
    for (uint32_t k = 0; k < x.terms; k++)
#pragma unroll
        for (int c = 0; c < 8; c++)
            out->v[c / 4][c % 4] += memory[a[c / 2 % 2] + k * x.a.by_k] * memory[b[c / 4][c % 2] + k * x.b.by_k];
}

/* emit(row, column, its number and the next column's, which of the thread's four that is) by the threads that have
 * them. Columns are even; the next one may be outside. */
template <class T, class Emit>
static __device__ __forceinline__ void emit_tile(const product &x, uint32_t top, uint32_t left, const part<T> &mine,
                                                 Emit emit)
{
    const uint32_t g = threadIdx.x % WARP / 4, t = threadIdx.x % 4;
#pragma unroll
    for (uint32_t j = 0; j < 2; j++)
#pragma unroll
        for (uint32_t i = 0; i < 2; i++) {
            uint32_t row = top + g + HALF * i, column = left + HALF * j + 2 * t;
            if (row < x.a.count && column < x.b.count)
                emit(row, column, pair<T>{{mine.v[j][2 * i], mine.v[j][2 * i + 1]}}, 2 * j + i);
        }
}

/* A tile of a product. */
template <class T, class Emit>
static __device__ __forceinline__ void make_tile(const T *memory, const product &x, uint32_t top, uint32_t left,
                                                 Emit emit)
{
    part<T> mine;
    multiply(memory, x, top, left, &mine);
    emit_tile(x, top, left, mine, emit);
}

/* The number of parts into which a product's sums are divided if it has fewer tiles than warps. */
static __device__ __forceinline__ uint32_t parts_of(const product &x)
{
    const uint32_t tiles = small_tiles(x.a.count) * small_tiles(x.b.count);
    return max(1u, min(blockDim.x / WARP / tiles, x.terms / PART_TERMS));
}

/* All tiles, a part of a tile by each warp, which has one or none. Those of a tile emit one after the other:
 * emit(row, column, numbers, which part). All threads of the block come here. */
template <class T, class Emit>
static __device__ __forceinline__ void make_parts(const T *memory, const product &x, uint32_t parts, Emit emit)
{
    const uint32_t across = small_tiles(x.b.count), tiles = small_tiles(x.a.count) * across;
    const uint32_t own = threadIdx.x / WARP / tiles, tile = threadIdx.x / WARP - own * tiles, down = tile / across;
    const uint32_t top = down * TILE, left = (tile - down * across) * TILE;
    const uint32_t most = (x.terms / parts + 8) / 8 * 8, from = own * most; /* parts * most >= terms */
    part<T> mine = {};
    if (own < parts && from < x.terms) {
        product y = x;
        y.a.at += from * x.a.by_k;
        y.b.at += from * x.b.by_k;
        y.terms = min(most, x.terms - from);
        multiply(memory, y, top, left, &mine);
    }
#pragma unroll 1
    for (uint32_t turn = 0; turn < parts; turn++) {
        if (turn) __syncthreads();
        if (own == turn)
            emit_tile(x, top, left, mine,
                      [&](uint32_t row, uint32_t column, const pair<T> &v, uint32_t) { emit(row, column, v, turn); });
    }
}

/* All tiles, by the warps in turn; per_across: small_per of the tiles of b's vectors. */
template <class T, class Emit>
static __device__ __forceinline__ void make_tiles(const T *memory, const product &x, uint32_t per_across, Emit emit)
{
    uint32_t across = small_tiles(x.b.count), tiles = small_tiles(x.a.count) * across;
#pragma unroll 1
    for (uint32_t tile = threadIdx.x / WARP; tile < tiles; tile += blockDim.x / WARP) {
        uint32_t down = quotient(tile, per_across);
        make_tile(memory, x, down * TILE, (tile - down * across) * TILE, emit);
    }
}

} // namespace

#endif
