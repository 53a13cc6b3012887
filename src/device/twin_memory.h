/* Memory of the twin: addresses that nobody can follow, as those of a device, and where it really lies. */
#ifndef FLI_DEVICE_TWIN_MEMORY_H
#define FLI_DEVICE_TWIN_MEMORY_H

#include "base/ctx.h"

typedef struct {
    char *there; /* pages that may neither be read nor written */
    char *here;
    size_t bytes;
} fli_twin_block;

typedef struct {
    fli_twin_block *block; /* by address */
    size_t count, room;
} fli_twin_memory;

/* Zeroed; NULL: FL_ENOMEM. */
void *fli_twin_alloc(fli_twin_memory *m, fl_ctx *ctx, size_t bytes);
void fli_twin_release(fli_twin_memory *m, void *there);
void fli_twin_memory_fini(fli_twin_memory *m);

/* Where an address there, or one behind it in the same piece, really lies; NULL for NULL and for what is not there. */
void *fli_twin_here(const fli_twin_memory *m, const void *there);

#endif
