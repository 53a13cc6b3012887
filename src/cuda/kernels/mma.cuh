/* Small matrix products by a warp on tensor cores: D (16 x 8) += A (16 x 8) B (8 x 8), the operands rounded to tf32,
 * which has ten bits behind the point, and products added up in single precision.
 *
 * With g = lane / 4 and t = lane % 4 a thread holds
 *     a[0..3] = A[g][t], A[g + 8][t], A[g][t + 4], A[g + 8][t + 4]
 *     b[0..1] = B[t][g], B[t + 4][g]
 *     d[0..3] = D[g][2 t], D[g][2 t + 1], D[g + 8][2 t], D[g + 8][2 t + 1]
 *
 * Single precision is three of those: a = hi + lo, each of ten bits and with 21 together, and a b is hi hi + hi lo + lo
 * hi, without a rest below 2^-21 of it. */
#ifndef FLI_CUDA_MMA_CUH
#define FLI_CUDA_MMA_CUH

#include "cuda/kernels/kernel.cuh"

#include <stdint.h>

#ifdef __CUDACC__
/* To the nearest tf32. */
static __device__ __forceinline__ uint32_t fli_tf32(float a)
{
    uint32_t r;
#if __CUDA_ARCH__ >= 900
    asm("cvt.rn.tf32.f32 %0, %1;\n" : "=r"(r) : "f"(a)); /* one instruction; the other is four */
#else
    asm("cvt.rna.tf32.f32 %0, %1;\n" : "=r"(r) : "f"(a));
#endif
    return r;
}

static __device__ __forceinline__ void fli_mma(float d[4], const uint32_t a[4], const uint32_t b[2])
{
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                 "{%0,%1,%2,%3};\n"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
}
#endif

static __device__ __forceinline__ void fli_split(float a, uint32_t *hi, uint32_t *lo)
{
    /* To the nearest, by adding half a unit of the last bit. A NaN may be lost in hi, but stays in lo. Tensor cores
     * ignore the bits that tf32 lacks, so lo may contain them. */
    *hi = (__float_as_uint(a) + 0x1000u) & 0xffffe000u;
    *lo = __float_as_uint(a - __uint_as_float(*hi));
}

/* Fragments; SPLIT: single precision, else tf32. */
template <int SPLIT> struct fli_frag_a {
    uint32_t hi[4], lo[SPLIT ? 4 : 1];
    __device__ __forceinline__ void set(int i, float v)
    {
        if (SPLIT)
            fli_split(v, &hi[i], &lo[SPLIT ? i : 0]);
        else
            hi[i] = fli_tf32(v);
    }
};
template <int SPLIT> struct fli_frag_b {
    uint32_t hi[2], lo[SPLIT ? 2 : 1];
    __device__ __forceinline__ void set(int i, float v)
    {
        if (SPLIT)
            fli_split(v, &hi[i], &lo[SPLIT ? i : 0]);
        else
            hi[i] = fli_tf32(v);
    }
};

template <int SPLIT>
static __device__ __forceinline__ void fli_mma_add(float d[4], const fli_frag_a<SPLIT> &a, const fli_frag_b<SPLIT> &b)
{
    if (SPLIT) {
        fli_mma(d, a.lo, b.hi);
        fli_mma(d, a.hi, b.lo);
    }
    fli_mma(d, a.hi, b.hi);
}
/* The same for N of the other side. Consecutive products are independent. */
template <int SPLIT, int N>
static __device__ __forceinline__ void fli_mma_add_all(float (*d)[4], const fli_frag_a<SPLIT> &a,
                                                       const fli_frag_b<SPLIT> *b)
{
    if (SPLIT) {
#pragma unroll
        for (int i = 0; i < N; i++) fli_mma(d[i], a.lo, b[i].hi);
#pragma unroll
        for (int i = 0; i < N; i++) fli_mma(d[i], a.hi, b[i].lo);
    }
#pragma unroll
    for (int i = 0; i < N; i++) fli_mma(d[i], a.hi, b[i].hi);
}

#endif
