/* The parts of CUDA that kernels may use. nvcc takes them from CUDA. A C++ compiler takes them from an emulator
 * (tests/cuda/emulate.h), in which a block's threads take turns on one processor: slow, but it tests the same code
 * without a GPU. So kernels use only what is named here and in emulate.h: threadIdx, blockIdx, blockDim, gridDim,
 * __syncthreads, __syncwarp, __shfl_*_sync, atomicExch, the calls below and those of mma.cuh. */
#ifndef FLI_CUDA_KERNEL_CUH
#define FLI_CUDA_KERNEL_CUH

#include "cuda/runtime.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>

/* kernel<<<grid, block, bytes, stream>>>(...); allows more than 48 KiB of dynamic shared memory first. */
#define FLI_LAUNCH(stream, kernel, grid, block, bytes, ...)                                                            \
    do {                                                                                                               \
        if ((bytes) > 48 * 1024)                                                                                       \
            cudaFuncSetAttribute((const void *)(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes));   \
        (kernel)<<<(grid), (block), (bytes), (stream)>>>(__VA_ARGS__);                                                 \
    } while (0)
/* The same, but its blocks may begin while the kernel before it on the stream ends. Its threads call fli_overlap()
 * before they access anything that an earlier kernel has written or may still read. On GPUs without this the kernel
 * waits. */
#ifndef FLI_EARLY_MAJOR
#define FLI_EARLY_MAJOR 9 /* first compute capability that supports it */
#endif
template <class... WANTED, class... GIVEN>
static inline void fli_launch_early(cudaStream_t stream, void (*kernel)(WANTED...), dim3 grid, dim3 block, size_t bytes,
                                    GIVEN... given)
{
    static int major = -1;
    int device = 0;
    if (major < 0 &&
        (cudaGetDevice(&device) || cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device)))
        major = 0;
    if (bytes > 48 * 1024)
        cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    cudaLaunchAttribute early = {};
    early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    early.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = grid, config.blockDim = block, config.dynamicSmemBytes = bytes, config.stream = stream;
    config.attrs = &early, config.numAttrs = major >= FLI_EARLY_MAJOR;
    cudaLaunchKernelEx(&config, kernel, WANTED(given)...);
}
#define FLI_LAUNCH_EARLY(...) fli_launch_early(__VA_ARGS__)
/* Lets the next kernel begin if it was launched early, and waits for the kernels before this one. All threads call it
 * once. */
static __device__ __forceinline__ void fli_overlap()
{
#if __CUDA_ARCH__ >= 900
    asm volatile("griddepcontrol.launch_dependents;\n" ::);
    asm volatile("griddepcontrol.wait;\n" ::: "memory");
#endif
}
/* A launch with neighbouring blocks in clusters of `cluster`. `size` belongs to it. */
template <class... P>
static inline cudaLaunchConfig_t fli_cluster_launch(void (*kernel)(P...), dim3 grid, dim3 block, size_t bytes,
                                                    unsigned cluster, cudaLaunchAttribute *size)
{
    cudaLaunchConfig_t how = {};
    *size = {};
    size->id = cudaLaunchAttributeClusterDimension;
    size->val.clusterDim.x = cluster;
    size->val.clusterDim.y = size->val.clusterDim.z = 1;
    how.gridDim = grid;
    how.blockDim = block;
    how.dynamicSmemBytes = bytes;
    how.attrs = size;
    how.numAttrs = 1;
    cudaFuncSetAttribute((const void *)kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, (int)bytes);
    return how;
}
/* The same as FLI_LAUNCH with such clusters, whose blocks run at the same time and can read each other's shared memory.
 */
template <class... P, class... A>
static inline void fli_launch_cluster(fli_cuda_stream stream, void (*kernel)(P...), dim3 grid, dim3 block, size_t bytes,
                                      unsigned cluster, A... args)
{
    cudaLaunchAttribute size;
    cudaLaunchConfig_t how = fli_cluster_launch(kernel, grid, block, bytes, cluster, &size);
    how.stream = stream;
    cudaLaunchKernelEx(&how, kernel, args...);
}
#define FLI_LAUNCH_CLUSTER(stream, kernel, grid, block, bytes, cluster, ...)                                           \
    fli_launch_cluster((stream), (kernel), (grid), (block), (bytes), (cluster), __VA_ARGS__)
/* How many such clusters the current device runs at a time when it is idle: processors are in groups, and a cluster
 * stays in one group. */
template <class... P>
static inline unsigned fli_clusters_at_a_time(void (*kernel)(P...), unsigned block, size_t bytes, unsigned cluster)
{
    int count = 0;
    cudaLaunchAttribute size;
    cudaLaunchConfig_t how = fli_cluster_launch(kernel, cluster, block, bytes, cluster, &size);
    return cudaOccupancyMaxActiveClusters(&count, kernel, &how) == cudaSuccess && count > 0 ? (unsigned)count : 0;
}
/* The most blocks of a cluster on the current device; 0: no clusters. */
static inline unsigned fli_cluster_limit()
{
    int device = 0, there = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&there, cudaDevAttrClusterLaunch, device);
    return there ? 8 : 0;
}
/* Multiprocessors of the current device, to divide work where that changes no result. */
static inline unsigned fli_processors()
{
    int device = 0, count = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count > 0 ? (unsigned)count : 1;
}
/* The most dynamic shared memory of a block on the current device. */
static inline size_t fli_shared_limit()
{
    int device = 0, bytes = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return bytes > 0 ? (size_t)bytes : 0;
}
/* The block's dynamic shared memory, aligned to 16 bytes. */
#define FLI_DYNAMIC(name) extern __shared__ __align__(16) unsigned char name[]

/* Copies 16 bytes (both addresses aligned to 16) or 4 from global to shared memory while the thread continues. If
 * `there` is 0, writes zeros and reads nothing. */
static __device__ __forceinline__ void fli_async16(void *to, const void *from, int there)
{
    unsigned int s = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;\n" ::"r"(s), "l"(from), "r"(there ? 16 : 0));
}
static __device__ __forceinline__ void fli_async4(void *to, const void *from, int there)
{
    unsigned int s = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;\n" ::"r"(s), "l"(from), "r"(there ? 4 : 0));
}
static __device__ __forceinline__ void fli_async_commit() { asm volatile("cp.async.commit_group;\n" ::); }
/* Waits until all but the last N groups that this thread committed have arrived. */
template <int N> static __device__ __forceinline__ void fli_async_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}
/* Stores to shared memory, aligned to 16 bytes, at once: a plain assignment may become four stores. */
static __device__ __forceinline__ void fli_shared4(float *to, float4 v)
{
    unsigned int s = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(s), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}
/* Prefetches the cache line at p. */
static __device__ __forceinline__ void fli_prefetch(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];\n" ::"l"(p));
}

/* Whether the target device has clusters; otherwise the calls below have no effect. */
#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ >= 900
#define FLI_CLUSTERS 1
#else
#define FLI_CLUSTERS 0
#endif
/* The block's place in its cluster. */
static __device__ __forceinline__ unsigned fli_cluster_rank()
{
    unsigned rank = 0;
#if FLI_CLUSTERS
    asm("mov.u32 %0, %%cluster_ctarank;\n" : "=r"(rank));
#endif
    return rank;
}
/* Waits for all threads of the cluster; afterwards they see what each has written before. */
static __device__ __forceinline__ void fli_cluster_sync()
{
#if FLI_CLUSTERS
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
#endif
}
/* The address in the shared memory of the cluster's block `rank` that corresponds to p in this block's. */
template <class T> static __device__ __forceinline__ T *fli_cluster_at(T *p, unsigned rank)
{
    unsigned long long at = (unsigned long long)p;
#if FLI_CLUSTERS
    asm("mapa.u64 %0, %1, %2;\n" : "=l"(at) : "l"((unsigned long long)p), "r"(rank));
#endif
    return (T *)at;
}
#else
#include "emulate.h"
#endif

#endif
