#include "cuda/kernels/mma.cuh"
#include "test_emulate.h"

enum { THREADS = EMULATE_THREADS };

static __global__ void sum_kernel(const float *in, float *out, int barrier)
{
    __shared__ float part[THREADS];
    FLI_DYNAMIC(memory);
    float *scaled = (float *)memory;
    int t = (int)threadIdx.x;
    part[t] = in[blockIdx.x * THREADS + t];
    if (barrier) __syncthreads();
    scaled[t] = 2 * part[THREADS - 1 - t];
    for (int half = THREADS / 2; half % 2 == 0 || half == 3; half /= 2) {
        __syncthreads();
        if (t < half) scaled[t] += scaled[t + half];
    }
    __syncthreads();
    if (t == 0) out[blockIdx.x] = (scaled[0] + scaled[1] + scaled[2]) / 2;
}

extern "C" void emulate_sum(fli_cuda_stream s, const float *in, float *out, int barrier)
{
    FLI_LAUNCH(s, sum_kernel, EMULATE_BLOCKS, THREADS, THREADS * sizeof(float), in, out, barrier);
}

static __global__ void warp_kernel(const float *in, float *out)
{
    const unsigned all = 0xffffffffu;
    int t = (int)threadIdx.x;
    float v = in[t];
    out[t] = __shfl_sync(all, v, 31 - t);
    out[32 + t] = __shfl_xor_sync(all, v, 5);
    out[64 + t] = __shfl_down_sync(all, v, 3, 8);
    out[96 + t] = __shfl_up_sync(all, v, 2);
    out[128 + t] = (float)(__ballot_sync(all, t % 3 == 0) & 0xffffu);
    double sum = (double)v;
    for (int by = 16; by; by /= 2) sum += __shfl_xor_sync(all, sum, by);
    out[160 + t] = (float)sum;
    if (t < 16) out[192 + t] = __shfl_xor_sync(0xffffu, v, 1);
    __syncwarp();
    if (t >= 16) out[192 + t] = out[192 + 31 - t];
    out[224 + t] = (float)(__syncthreads_count(t < 7) + 100 * __syncthreads_or(t == 9));
}

extern "C" void emulate_warp(fli_cuda_stream s, const float *in, float *out)
{
    FLI_LAUNCH(s, warp_kernel, 1, 32, 0, in, out);
}

template <int SPLIT> static __global__ void product_kernel(const float *a, const float *b, float *d)
{
    int g = (int)threadIdx.x / 4, t = (int)threadIdx.x % 4;
    fli_frag_a<SPLIT> fa;
    fli_frag_b<SPLIT> fb;
    float fd[4] = {0, 0, 0, 0};
    for (int i = 0; i < 4; i++) fa.set(i, a[(g + 8 * (i % 2)) * 8 + t + 4 * (i / 2)]);
    for (int i = 0; i < 2; i++) fb.set(i, b[(t + 4 * i) * 8 + g]);
    fli_mma_add(fd, fa, fb);
    for (int i = 0; i < 4; i++) d[(g + 8 * (i / 2)) * 8 + 2 * t + i % 2] = fd[i];
}

extern "C" void emulate_product(fli_cuda_stream s, const float *a, const float *b, float *d, int split)
{
    if (split)
        FLI_LAUNCH(s, product_kernel<1>, 1, 32, 0, a, b, d);
    else
        FLI_LAUNCH(s, product_kernel<0>, 1, 32, 0, a, b, d);
}

static __global__ void async_kernel(const float *in, float *out, int n, int wait)
{
    FLI_DYNAMIC(memory);
    float *tile = (float *)memory;
    int t = (int)threadIdx.x;
    fli_async16(tile + 4 * t, in + 4 * t, 4 * t < n);
    fli_async_commit();
    if (t == 0) fli_async4(tile + 4 * THREADS, in, 0);
    fli_async_commit();
    if (wait) {
        fli_async_wait<1>();
        fli_async_wait<0>();
    }
    __syncthreads();
    for (int i = t; i < 4 * THREADS; i += THREADS) out[i] = tile[i] + tile[i + 1];
}

extern "C" void emulate_async(fli_cuda_stream s, const float *in, float *out, int n, int wait)
{
    FLI_LAUNCH(s, async_kernel, 1, THREADS, (4 * THREADS + 1) * sizeof(float), in, out, n, wait);
}

static __global__ void cluster_kernel(const float *in, float *out, int barrier)
{
    FLI_DYNAMIC(memory);
    float *tile = (float *)memory;
    unsigned t = threadIdx.x, before = (fli_cluster_rank() + EMULATE_BLOCKS - 1) % EMULATE_BLOCKS;
    tile[t] = in[blockIdx.x * THREADS + t];
    if (barrier) fli_cluster_sync();
    out[blockIdx.x * THREADS + t] = fli_cluster_at(tile, before)[t];
    fli_cluster_sync();
}

extern "C" int emulate_cluster(fli_cuda_stream s, const float *in, float *out, int barrier)
{
    if (fli_cluster_limit() < EMULATE_BLOCKS) return 0;
    FLI_LAUNCH_CLUSTER(s, cluster_kernel, 2 * EMULATE_BLOCKS, THREADS, THREADS * sizeof(float), EMULATE_BLOCKS, in, out,
                       barrier);
    return 1;
}

static __global__ void divergent_kernel(float *out)
{
    if (threadIdx.x < 32)
        __syncthreads();
    else
        __syncthreads();
    out[threadIdx.x] = 1;
}

extern "C" void emulate_divergent(fli_cuda_stream s, float *out) { FLI_LAUNCH(s, divergent_kernel, 1, 64, 0, out); }

static __global__ void early_end_kernel(float *out)
{
    if (threadIdx.x == 3) return;
    __syncthreads();
    out[threadIdx.x] = 1;
}

extern "C" void emulate_early_end(fli_cuda_stream s, float *out) { FLI_LAUNCH(s, early_end_kernel, 1, 64, 0, out); }

static __global__ void behind_kernel(float *out)
{
    FLI_DYNAMIC(memory);
    float *tile = (float *)memory;
    tile[threadIdx.x + 1] = 1; /* one too far */
    __syncthreads();
    out[threadIdx.x] = tile[threadIdx.x];
}

extern "C" void emulate_behind(fli_cuda_stream s, float *out)
{
    FLI_LAUNCH(s, behind_kernel, 1, 64, 64 * sizeof(float), out);
}
