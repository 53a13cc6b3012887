/* The parts of CUDA's runtime that the host's code needs, in plain C. runtime.c implements them with CUDA; tests/cuda
 * implements them without a GPU, so that this folder runs, slowly, on any processor (tests/cuda/emulate.h). */
#ifndef FLI_CUDA_RUNTIME_H
#define FLI_CUDA_RUNTIME_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct CUstream_st *fli_cuda_stream;

/* All return 0 or a number that fli_cuda_error explains. A later call reports a kernel's failure. */
int fli_cuda_count(int *devices);
int fli_cuda_use(int device); /* for the calling thread */
int fli_cuda_describe(int device, char *name, size_t room, double *memory, int *major, int *minor, int *processors,
                      int *driver);
int fli_cuda_free_memory(double *bytes);
const char *fli_cuda_error(int code);

int fli_cuda_stream_new(fli_cuda_stream *out);
void fli_cuda_stream_free(fli_cuda_stream s);
int fli_cuda_wait(fli_cuda_stream s); /* waits until all work on the stream is done */
int fli_cuda_last(void);              /* returns and clears the error of the last launches */

int fli_cuda_alloc(size_t bytes, void **out);
void fli_cuda_release(void *p);
int fli_cuda_pinned(size_t bytes, void **out); /* host memory for asynchronous copies */
void fli_cuda_unpin(void *p);
int fli_cuda_upload(fli_cuda_stream s, void *there, const void *here, size_t bytes);
int fli_cuda_download(fli_cuda_stream s, void *here, const void *there, size_t bytes);
int fli_cuda_move(fli_cuda_stream s, void *to, const void *from, size_t bytes);
int fli_cuda_zero(fli_cuda_stream s, void *there, size_t bytes);

#ifdef __cplusplus
}
#endif

#endif
