/* What the host's code knows of an open device beyond the backend's slots: its stream, its memory, data sets on it, and
 * the memory in which blocks of lanes are computed. For this folder and its tests. */
#ifndef FLI_CUDA_HOST_HOST_H
#define FLI_CUDA_HOST_HOST_H

#include "base/ctx.h"
#include "cuda/kernels/kernels.h"
#include "cuda/runtime.h"
#include "device/engine.h"

#include <stdint.h>

/* ==== an open device ====================================================================================== */

/* The stream on which all happens, for the calling thread, which uses the device from now on: cuda_engine.c. */
fli_cuda_stream fli_cuda_engine_stream(fli_engine *e);
/* What kernels are given of a data set: data.c. */
const fli_cuda_data *fli_cuda_engine_data(const fli_engine_data *d);
/* Where samples are that are part of its list (fli_backend.data_list); NULL: they are not. */
const uint32_t *fli_cuda_engine_list(const fli_engine_data *d, const uint32_t *samples, size_t n);

/* ==== memory ============================================================================================== */

/* Memory on the device. CUDA takes its time to find some and waits for all work before it gives any back, so memory is
 * found in large pieces and what is given back is kept for the next that wants as much. All work is on one stream:
 * memory may therefore change hands while work on it is pending. */

typedef struct fli_cuda_heap fli_cuda_heap;

fli_cuda_heap *fli_cuda_heap_new(fl_ctx *ctx, fli_cuda_stream s);
void fli_cuda_heap_free(fli_cuda_heap *h); /* and all memory that it has found */
/* Zeroed, on a line of 256 bytes. 0, or an error of runtime.h's. */
int fli_cuda_heap_take(fli_cuda_heap *h, fl_ctx *ctx, size_t bytes, void **out);
void fli_cuda_heap_give(fli_cuda_heap *h, void *p);

/* ==== data sets =========================================================================================== */

/* Data sets on the device: the backend's slots data_new, data_list, data_free and data_bytes (device/engine.h). */

fl_status fli_cuda_data_new(fli_engine *e, fl_ctx *ctx, const fli_dataset *ds, fli_engine_data **out);
fl_status fli_cuda_data_list(fli_engine_data *d, fl_ctx *ctx, const uint32_t *samples, size_t n);
void fli_cuda_data_free(fli_engine_data *d);
double fli_cuda_data_bytes(const fli_dataset *ds);

/* ==== memory of a block of lanes ========================================================================== */

/* What a block of lanes needs on the device, in one piece of memory: room to compute in, and tables and lists that are
 * copied there, all in one go.
 *
 * Tables have addresses of other parts in them. So a layout is made twice by the same function: the first time it
 * only counts, and the addresses it hands out lead nowhere. */

typedef struct fli_cuda_layout fli_cuda_layout;

/* Room there, on a line of 256 bytes, with anything in it. */
void *fli_cuda_layout_reserve(fli_cuda_layout *p, size_t bytes);
/* A copy there of what is here. */
void *fli_cuda_layout_copy(fli_cuda_layout *p, const void *here, size_t bytes);

/* Packs what the first `lanes` lanes of a block need. */
typedef void fli_cuda_layout_fn(void *arg, size_t lanes, fli_cuda_layout *p);

/* Memory there, and to pack in here, that grows with what is asked of it. */
typedef struct {
    char *there, *here;
    size_t there_room, here_room;
} fli_cuda_workspace;

/* Packs and sends. `lanes` comes in as the most there can be; where their memory would be more than `limit` bytes or
 * than the device has, fewer are packed, at least one. What was packed before is gone. */
fl_status fli_cuda_workspace_send(fl_ctx *ctx, fli_engine *e, fli_cuda_workspace *d, fli_cuda_layout_fn *pack,
                                  void *arg, double limit, size_t *lanes);
void fli_cuda_workspace_fini(fli_engine *e, fli_cuda_workspace *d);

#endif
