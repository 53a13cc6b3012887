/* Assigns clients to ranks if several processes share a run: each rank gets about the same number of training samples,
 * and neighbouring clients go to different ranks. Every rank computes the same assignment. */
#ifndef FLI_RANKS_RANK_OWNER_H
#define FLI_RANKS_RANK_OWNER_H

#include "base/ctx.h"

#include <stdint.h>

typedef struct {
    size_t clients, samples;
} fli_rank_clients;

typedef struct fli_rank_owner {
    size_t ranks, clients;
    fli_rank_clients *of; /* per rank: its clients and their samples */
    uint32_t *owner;      /* per client: its rank */
} fli_rank_owner;

/* Training samples of a client; 0 counts as 1. The sum over all clients must fit a size_t. */
typedef size_t fli_rank_clients_size(const void *arg, size_t client);

/* The samples of two ranks differ by at most the largest client. Calls `size` once per client. */
fl_status fli_rank_owner_init(fl_ctx *ctx, size_t ranks, size_t clients, fli_rank_clients_size *size, const void *arg,
                              fli_rank_owner *out);
void fli_rank_owner_fini(fli_rank_owner *s);

/* out = the clients of a rank, ascending; it has room for all clients of the rank. */
void fli_rank_owner_list(const fli_rank_owner *s, size_t rank, uint32_t *out);

#endif
