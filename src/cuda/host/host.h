/* An open device inside the host code: its stream, its memory, its data sets, and the memory of blocks of lanes. For
 * this folder and its tests. */
#ifndef FLI_CUDA_HOST_HOST_H
#define FLI_CUDA_HOST_HOST_H

#include "base/ctx.h"
#include "cuda/kernels/kernels.h"
#include "cuda/runtime.h"
#include "device/engine.h"

#include <stdint.h>

/* ==== an open device ====================================================================================== */

/* The stream of all work; the calling thread uses the device from now on (cuda_engine.c). */
fli_cuda_stream fli_cuda_engine_stream(fli_engine *e);
/* A data set as kernels see it (data.c). */
const fli_cuda_data *fli_cuda_engine_data(const fli_engine_data *d);
/* The device's address of `samples` if they are part of the set's list (fli_backend.data_list); else NULL. */
const uint32_t *fli_cuda_engine_list(const fli_engine_data *d, const uint32_t *samples, size_t n);

/* ==== memory ============================================================================================== */

/* Memory on the device. CUDA allocates slowly, and waits for all work before it frees. So memory is allocated in large
 * pieces, and freed pieces are kept for the next request of that size. All work is on one stream, so memory may be
 * reused while work on it is pending. */

typedef struct fli_cuda_heap fli_cuda_heap;

fli_cuda_heap *fli_cuda_heap_new(fl_ctx *ctx, fli_cuda_stream s);
void fli_cuda_heap_free(fli_cuda_heap *h); /* frees all its memory, too */
/* *out is zeroed and aligned to 256 bytes. Returns 0 or an error number of runtime.h. */
int fli_cuda_heap_take(fli_cuda_heap *h, fl_ctx *ctx, size_t bytes, void **out);
void fli_cuda_heap_give(fli_cuda_heap *h, void *p);

/* ==== data sets =========================================================================================== */

/* Data sets on the device: the backend's slots data_new, data_list, data_free and data_bytes (device/engine.h). */

fl_status fli_cuda_data_new(fli_engine *e, fl_ctx *ctx, const fli_dataset *ds, fli_engine_data **out);
fl_status fli_cuda_data_list(fli_engine_data *d, fl_ctx *ctx, const uint32_t *samples, size_t n);
void fli_cuda_data_free(fli_engine_data *d);
double fli_cuda_data_bytes(const fli_dataset *ds);

/* ==== memory of a block of lanes ========================================================================== */

/* The memory of a block of lanes on the device, in one piece: room to compute in, and tables and lists, which are
 * copied there in one operation.
 *
 * Tables contain addresses of other parts. So the same function makes a layout twice: the first time only to count,
 * with invalid addresses. */

typedef struct fli_cuda_layout fli_cuda_layout;

/* Reserves uninitialised memory, aligned to 256 bytes. */
void *fli_cuda_layout_reserve(fli_cuda_layout *p, size_t bytes);
/* Reserves memory and copies `here` into it. */
void *fli_cuda_layout_copy(fli_cuda_layout *p, const void *here, size_t bytes);

/* Packs the memory of the first `lanes` lanes of a block. */
typedef void fli_cuda_layout_fn(void *arg, size_t lanes, fli_cuda_layout *p);

/* Memory on the device and, for packing, on the host; both grow on demand. */
typedef struct {
    char *there, *here;
    size_t there_room, here_room;
} fli_cuda_workspace;

/* Packs and sends a layout, which replaces the one before. *lanes: the most lanes; reduced, to at least one, if their
 * memory would exceed `limit` bytes or the device's. */
fl_status fli_cuda_workspace_send(fl_ctx *ctx, fli_engine *e, fli_cuda_workspace *d, fli_cuda_layout_fn *pack,
                                  void *arg, double limit, size_t *lanes);
void fli_cuda_workspace_fini(fli_engine *e, fli_cuda_workspace *d);

#endif
