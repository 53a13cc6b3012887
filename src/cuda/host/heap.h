/* Memory on the device. CUDA takes its time to find some and waits for all work before it gives any back, so memory is
 * found in large pieces and what is given back is kept for whoever wants as much again. All work is on one stream:
 * memory may therefore change hands while work on it is pending. */
#ifndef FLI_CUDA_HOST_HEAP_H
#define FLI_CUDA_HOST_HEAP_H

#include "base/ctx.h"
#include "cuda/runtime.h"

#include <stdint.h>

typedef struct fli_cuda_heap fli_cuda_heap;

fli_cuda_heap *fli_cuda_heap_new(fl_ctx *ctx, fli_cuda_stream s);
void fli_cuda_heap_free(fli_cuda_heap *h); /* and all memory that it has found */
/* Zeroed, on a line of 256 bytes. 0, or an error of runtime.h's. */
int fli_cuda_heap_take(fli_cuda_heap *h, fl_ctx *ctx, size_t bytes, void **out);
void fli_cuda_heap_give(fli_cuda_heap *h, void *p);

#endif
