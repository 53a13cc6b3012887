/* Who has which clients, where a run is made by several ranks: runs of clients with about as many samples each. */
#ifndef FLI_EXEC_SHARDS_H
#define FLI_EXEC_SHARDS_H

#include "base/ctx.h"

typedef struct {
    size_t ranks;
    size_t *first; /* ranks + 1: rank r has clients first[r] up to, but without, first[r + 1] */
} fli_shards;

/* `size` says how many samples a client has. */
fl_status fli_shards_init(fl_ctx *ctx, size_t ranks, size_t clients, size_t (*size)(const void *arg, size_t client),
                          const void *arg, fli_shards *out);
void fli_shards_fini(fli_shards *s);
size_t fli_shards_owner(const fli_shards *s, size_t client);

#endif
