/* Kernels that show what emulate.h does. All read and write global memory. */
#ifndef FLI_TEST_EMULATE_H
#define FLI_TEST_EMULATE_H

#include "cuda/runtime.h"

#ifdef __cplusplus
extern "C" {
#endif

enum { EMULATE_THREADS = 96, EMULATE_BLOCKS = 3 };

/* out[block] = sum of in[block * EMULATE_THREADS ...], through shared memory; the barrier may be left out. */
void emulate_sum(fli_cuda_stream s, const float *in, float *out, int barrier);
/* Of a warp of 32: rows of out, 32 wide, are shuffles by index, xor, down, up, a ballot and a sum of doubles. */
void emulate_warp(fli_cuda_stream s, const float *in, float *out);
/* d (16 x 8) = a (16 x 8) b (8 x 8). */
void emulate_product(fli_cuda_stream s, const float *a, const float *b, float *d, int split);
/* out[i] = in[i] + in[i + 1] of 4 * EMULATE_THREADS values, copied to shared memory while threads go on; the wait may
 * be left out. Behind `n` there are zeros. */
void emulate_async(fli_cuda_stream s, const float *in, float *out, int n, int wait);
/* Two clusters of EMULATE_BLOCKS blocks: out[block * EMULATE_THREADS + i] = in[...] of the block before it in its
 * cluster, read from that one's shared memory; the barrier may be left out. 0: the device has no clusters. */
int emulate_cluster(fli_cuda_stream s, const float *in, float *out, int barrier);
/* What ends the program where it is emulated. */
void emulate_divergent(fli_cuda_stream s, float *out);
void emulate_early_end(fli_cuda_stream s, float *out);
void emulate_behind(fli_cuda_stream s, float *out);

#ifdef __cplusplus
}
#endif

#endif
