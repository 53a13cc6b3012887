/* Numbers out of vectors. Each block has a share of the entries and writes one answer; the host combines the answers in
 * the order of the blocks. The number of blocks depends on the length alone. */
#include "cuda/kernels/kernel.cuh"
#include "cuda/kernels/kernels.h"

enum { THREADS = 256 };

/* ---- dot ---- */
/* The sum of the block's values, valid in thread 0. */
static __device__ double block_sum(double v)
{
    __shared__ double part[THREADS / 32];
    for (int by = 16; by; by /= 2) v += __shfl_xor_sync(0xffffffffu, v, by);
    if (threadIdx.x % 32 == 0) part[threadIdx.x / 32] = v;
    __syncthreads();
    double sum = 0;
    for (int w = 0; w < THREADS / 32; w++) sum += part[w];
    return sum;
}

template <class REAL>
static __global__ void __launch_bounds__(THREADS) dot_kernel(size_t n, const REAL *x, const REAL *y, double *out)
{
    enum { SUMS = 4 };
    double v[SUMS] = {0, 0, 0, 0};
    const size_t stride = (size_t)gridDim.x * THREADS;
    size_t i = (size_t)blockIdx.x * THREADS + threadIdx.x;
    for (; i + (SUMS - 1) * stride < n; i += SUMS * stride)
#pragma unroll
        for (int j = 0; j < SUMS; j++) v[j] += (double)x[i + j * stride] * (double)y[i + j * stride];
    for (; i < n; i += stride) v[0] += (double)x[i] * (double)y[i];
    double sum = block_sum((v[0] + v[1]) + (v[2] + v[3]));
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" unsigned fli_cuda_dot_parts(size_t n)
{
    size_t blocks = (n + 4 * THREADS - 1) / (4 * THREADS);
    if (blocks > FLI_CUDA_DOT_MOST) return FLI_CUDA_DOT_MOST;
    return blocks ? (unsigned)blocks : 1;
}

extern "C" void fli_cuda_dot(fli_cuda_stream s, int wide, size_t n, const void *x, const void *y, double *out)
{
    unsigned blocks = fli_cuda_dot_parts(n);
    if (wide)
        FLI_LAUNCH(s, dot_kernel<double>, blocks, THREADS, 0, n, (const double *)x, (const double *)y, out);
    else
        FLI_LAUNCH(s, dot_kernel<float>, blocks, THREADS, 0, n, (const float *)x, (const float *)y, out);
}

/* ---- finite ---- */
/* x - x is 0 for a finite x and NaN otherwise; a sum keeps the NaN. */
template <class REAL>
static __global__ void __launch_bounds__(THREADS) finite_kernel(size_t n, const void *const *vector, unsigned char *out)
{
    enum { V = 16 / sizeof(REAL) };
    struct alignas(16) pack {
        REAL v[V];
    };
    const REAL *x = (const REAL *)vector[blockIdx.y];
    const size_t stride = (size_t)gridDim.x * THREADS, first = (size_t)blockIdx.x * THREADS + threadIdx.x;
    const size_t packs = (size_t)x % sizeof(pack) ? 0 : n / V;
    REAL sum = 0;
#pragma unroll 4
    for (size_t i = first; i < packs; i += stride) {
        pack p = ((const pack *)x)[i];
        for (int e = 0; e < V; e++) sum += p.v[e] - p.v[e];
    }
    for (size_t i = packs * V + first; i < n; i += stride) sum += x[i] - x[i];
    int bad = __syncthreads_or(sum != 0);
    if (threadIdx.x == 0) out[(size_t)blockIdx.y * gridDim.x + blockIdx.x] = bad ? 0 : 1;
}

extern "C" void fli_cuda_finite(fli_cuda_stream s, int wide, size_t n, unsigned count, const void *const *x,
                                unsigned char *out)
{
    dim3 grid(FLI_CUDA_FINITE_PARTS, count);
    if (wide)
        FLI_LAUNCH(s, finite_kernel<double>, grid, THREADS, 0, n, x, out);
    else
        FLI_LAUNCH(s, finite_kernel<float>, grid, THREADS, 0, n, x, out);
}
