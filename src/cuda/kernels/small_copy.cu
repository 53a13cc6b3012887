/* Short copies from pinned memory by a kernel. CUDA's copies use another engine of the GPU, for which the work before
 * and after them on the stream waits: some microseconds each. */
#include "cuda/kernels/kernel.cuh"
#include "cuda/kernels/kernels.h"

enum { THREADS = 128 };

static __global__ void __launch_bounds__(THREADS) small_copy_kernel(uint4 *there, const uint4 *here, uint32_t count)
{
    uint32_t i = blockIdx.x * THREADS + threadIdx.x;
    if (i < count) there[i] = here[i];
}

extern "C" void fli_cuda_copy_small(fli_cuda_stream s, void *there, const void *here, size_t bytes)
{
    uint32_t count = (uint32_t)(bytes / sizeof(uint4));
    if (count)
        FLI_LAUNCH(s, small_copy_kernel, (count + THREADS - 1) / THREADS, THREADS, 0, (uint4 *)there,
                   (const uint4 *)here, count);
}
