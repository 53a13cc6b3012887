/* Which rank has which clients, where several processes make one run: contiguous parts of about the same number of
 * training samples. Every rank computes the same. */
#ifndef FLI_EXEC_SHARDS_H
#define FLI_EXEC_SHARDS_H

#include "base/ctx.h"

typedef struct {
    size_t ranks;
    size_t *first; /* ranks + 1: rank r has the clients first[r] .. first[r + 1] - 1, which may be none */
} fli_shards;

/* Training samples of a client, which counts as one of at least 1. */
typedef size_t fli_shard_size(const void *arg, size_t client);

/* No part differs from the mean by more than the largest client. Calls `size` twice for every client. */
fl_status fli_shards_init(fl_ctx *ctx, size_t ranks, size_t clients, fli_shard_size *size, const void *arg,
                          fli_shards *out);
void fli_shards_fini(fli_shards *s);

static inline size_t fli_shards_count(const fli_shards *s, size_t rank) { return s->first[rank + 1] - s->first[rank]; }
size_t fli_shards_owner(const fli_shards *s, size_t client); /* the rank that has it */

#endif
