/* runtime.h on CUDA. */
#include "cuda/runtime.h"
#include "base/number.h"

#include <cuda_runtime_api.h>

int fli_cuda_count(int *devices)
{
    *devices = 0;
    cudaError_t code = cudaGetDeviceCount(devices);
    cudaGetLastError(); /* clears the error: this function handles it */
    return (int)code;
}
int fli_cuda_use(int device) { return (int)cudaSetDevice(device); }

int fli_cuda_describe(int device, char *name, size_t room, double *memory, int *major, int *minor, int *processors,
                      int *driver)
{
    struct cudaDeviceProp p;
    cudaError_t code = cudaGetDeviceProperties(&p, device);
    if (!code) code = cudaDriverGetVersion(driver);
    if (code) return (int)code;
    fli_snprintf(name, room, "%s", p.name);
    *memory = (double)p.totalGlobalMem;
    *major = p.major;
    *minor = p.minor;
    *processors = p.multiProcessorCount;
    return 0;
}

int fli_cuda_free_memory(double *bytes)
{
    size_t left = 0, all = 0;
    cudaError_t code = cudaMemGetInfo(&left, &all);
    *bytes = (double)left;
    return (int)code;
}
const char *fli_cuda_error(int code) { return cudaGetErrorString((cudaError_t)code); }

int fli_cuda_stream_new(fli_cuda_stream *out) { return (int)cudaStreamCreateWithFlags(out, cudaStreamNonBlocking); }
void fli_cuda_stream_free(fli_cuda_stream s)
{
    if (s) cudaStreamDestroy(s);
}
int fli_cuda_wait(fli_cuda_stream s) { return (int)cudaStreamSynchronize(s); }
int fli_cuda_last(void) { return (int)cudaGetLastError(); }

int fli_cuda_alloc(size_t bytes, void **out) { return (int)cudaMalloc(out, bytes); }
void fli_cuda_release(void *p) { cudaFree(p); }
int fli_cuda_pinned(size_t bytes, void **out) { return (int)cudaMallocHost(out, bytes); }
void fli_cuda_unpin(void *p) { cudaFreeHost(p); }
int fli_cuda_upload(fli_cuda_stream s, void *there, const void *here, size_t bytes)
{
    return (int)cudaMemcpyAsync(there, here, bytes, cudaMemcpyHostToDevice, s);
}
int fli_cuda_download(fli_cuda_stream s, void *here, const void *there, size_t bytes)
{
    return (int)cudaMemcpyAsync(here, there, bytes, cudaMemcpyDeviceToHost, s);
}
int fli_cuda_move(fli_cuda_stream s, void *to, const void *from, size_t bytes)
{
    return (int)cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, s);
}
int fli_cuda_zero(fli_cuda_stream s, void *there, size_t bytes) { return (int)cudaMemsetAsync(there, 0, bytes, s); }
