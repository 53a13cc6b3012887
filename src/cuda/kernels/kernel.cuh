/* What kernels are written with. Where nvcc compiles them this is CUDA itself. Elsewhere (tests/cuda/emulate.h) a C++
 * compiler does, and a block's threads take turns on one processor: slow, but the same code, so that what it computes
 * can be tested where there is no GPU. Kernels therefore use what is named here and in emulate.h, and nothing else:
 * threadIdx, blockIdx, blockDim, gridDim, __syncthreads, __syncwarp, __shfl_*_sync, atomicExch, the calls below
 * and those of mma.cuh. */
#ifndef FLI_CUDA_KERNEL_CUH
#define FLI_CUDA_KERNEL_CUH

#include "cuda/runtime.h"

#ifdef __CUDACC__
#include <cuda_runtime.h>

/* kernel<<<grid, block, bytes, stream>>>(...); more than 48 KiB of dynamic shared memory are allowed first. */
#define FLI_LAUNCH(stream, kernel, grid, block, bytes, ...)                                                            \
    do {                                                                                                               \
        if ((bytes) > 48 * 1024)                                                                                       \
            cudaFuncSetAttribute((const void *)(kernel), cudaFuncAttributeMaxDynamicSharedMemorySize, (int)(bytes));   \
        (kernel)<<<(grid), (block), (bytes), (stream)>>>(__VA_ARGS__);                                                 \
    } while (0)
/* The same, but its blocks may begin while the kernel before it on the stream ends: its threads call fli_overlap()
 * before they touch anything that an earlier kernel has written, or may still read. Where the GPU cannot do that, it
 * waits. */
#ifndef FLI_EARLY_MAJOR
#define FLI_EARLY_MAJOR 9 /* of the compute capability from which on they can */
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
/* Lets the next kernel begin if it was launched early, and waits until those before this one are done. All threads call
 * it, once. */
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
/* How many such clusters the device in use runs at a time when it has nothing else to do: processors are in groups, and
 * a cluster is in one of them. */
template <class... P>
static inline unsigned fli_clusters_at_a_time(void (*kernel)(P...), unsigned block, size_t bytes, unsigned cluster)
{
    int count = 0;
    cudaLaunchAttribute size;
    cudaLaunchConfig_t how = fli_cluster_launch(kernel, cluster, block, bytes, cluster, &size);
    return cudaOccupancyMaxActiveClusters(&count, kernel, &how) == cudaSuccess && count > 0 ? (unsigned)count : 0;
}
/* Blocks that a cluster can have on the device in use; 0: there are no clusters. */
static inline unsigned fli_cluster_limit()
{
    int device = 0, there = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&there, cudaDevAttrClusterLaunch, device);
    return there ? 8 : 0;
}
/* Multiprocessors of the device in use: for how work is cut, where that changes no result. */
static inline unsigned fli_processors()
{
    int device = 0, count = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device);
    return count > 0 ? (unsigned)count : 1;
}
/* The most dynamic shared memory that a block can have on the device in use. */
static inline size_t fli_shared_limit()
{
    int device = 0, bytes = 0;
    cudaGetDevice(&device);
    cudaDeviceGetAttribute(&bytes, cudaDevAttrMaxSharedMemoryPerBlockOptin, device);
    return bytes > 0 ? (size_t)bytes : 0;
}
/* The block's dynamic shared memory, on a line of 16 bytes. */
#define FLI_DYNAMIC(name) extern __shared__ __align__(16) unsigned char name[]

/* 16 bytes (both addresses on a line of 16) or 4 from global to shared memory while the thread goes on. Where `there`
 * is 0, zeros are written and nothing is read. */
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
/* All but the last N groups that this thread has committed are there. */
template <int N> static __device__ __forceinline__ void fli_async_wait()
{
    asm volatile("cp.async.wait_group %0;\n" ::"n"(N));
}
/* To shared memory, on a line of 16 bytes: a plain assignment may become four. */
static __device__ __forceinline__ void fli_shared4(float *to, float4 v)
{
    unsigned int s = (unsigned int)__cvta_generic_to_shared(to);
    asm volatile("st.shared.v4.f32 [%0], {%1, %2, %3, %4};\n" ::"r"(s), "f"(v.x), "f"(v.y), "f"(v.z), "f"(v.w)
                 : "memory");
}
/* Asks for the line at p to be brought nearer, if it is not there already: it will be read soon. */
static __device__ __forceinline__ void fli_prefetch(const void *p)
{
    asm volatile("prefetch.global.L2 [%0];\n" ::"l"(p));
}

/* Whether the device that is compiled for has clusters. Where it has none, the calls below do nothing of use. */
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
/* Until all threads of the cluster are here; what they have written before, all of them see behind it. */
static __device__ __forceinline__ void fli_cluster_sync()
{
#if FLI_CLUSTERS
    asm volatile("barrier.cluster.arrive.release.aligned;\nbarrier.cluster.wait.acquire.aligned;\n" ::: "memory");
#endif
}
/* Where what is at p, in the block's shared memory, is in that of block `rank` of the cluster. */
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
