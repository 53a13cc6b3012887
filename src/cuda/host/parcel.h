/* What a block of lanes needs on the device, in one piece of memory: room to compute in, and tables and lists that are
 * copied there, all in one go.
 *
 * Tables have addresses of other parts in them. So a parcel is packed twice by the same function: the first time it
 * only counts, and what it hands out leads nowhere. */
#ifndef FLI_CUDA_HOST_PARCEL_H
#define FLI_CUDA_HOST_PARCEL_H

#include "cuda/host/open.h"

typedef struct fli_parcel fli_parcel;

/* Room there, on a line of 256 bytes, with anything in it. */
void *fli_parcel_room(fli_parcel *p, size_t bytes);
/* A copy there of what is here. */
void *fli_parcel_put(fli_parcel *p, const void *here, size_t bytes);

/* Packs what the first `lanes` lanes of a block need. */
typedef void fli_parcel_fn(void *arg, size_t lanes, fli_parcel *p);

/* Memory there, and to pack in here, that grows with what is asked of it. */
typedef struct {
    char *there, *here;
    size_t there_room, here_room;
} fli_depot;

/* Packs and sends. `lanes` comes in as the most there can be; where their memory would be more than `limit` bytes or
 * than the device has, fewer are packed, at least one. What was packed before is gone. */
fl_status fli_depot_send(fl_ctx *ctx, fli_engine *e, fli_depot *d, fli_parcel_fn *pack, void *arg, double limit,
                         size_t *lanes);
void fli_depot_fini(fli_engine *e, fli_depot *d);

#endif
