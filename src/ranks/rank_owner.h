/* Which rank has which clients, where several processes make one run: parts of about the same number of training
 * samples, in which neighbours are not together. Every rank computes the same. */
#ifndef FLI_RANKS_RANK_OWNER_H
#define FLI_RANKS_RANK_OWNER_H

#include "base/ctx.h"

#include <stdint.h>

typedef struct {
    size_t clients, samples;
} fli_rank_clients;

typedef struct fli_rank_owner {
    size_t ranks, clients;
    fli_rank_clients *of; /* what each rank has */
    uint32_t *owner;      /* the rank that has a client */
} fli_rank_owner;

/* Training samples of a client, which counts as one of at least 1. All of them together must fit a size_t. */
typedef size_t fli_rank_clients_size(const void *arg, size_t client);

/* No two parts differ by more than the largest client. Calls `size` once for every client. */
fl_status fli_rank_owner_init(fl_ctx *ctx, size_t ranks, size_t clients, fli_rank_clients_size *size, const void *arg,
                              fli_rank_owner *out);
void fli_rank_owner_fini(fli_rank_owner *s);

/* The clients of a rank, in ascending order; there is room for all of them. */
void fli_rank_owner_list(const fli_rank_owner *s, size_t rank, uint32_t *out);

#endif
