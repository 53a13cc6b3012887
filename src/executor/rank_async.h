/* Turns on the real clock, where several ranks make a run together: each is taken by a thread of the rank that has the
 * client, while all ranks go on, and comes in at every rank, in the same order. */
#ifndef FLI_EXECUTOR_RANK_ASYNC_H
#define FLI_EXECUTOR_RANK_ASYNC_H

#include "message/codec.h"
#include "message/setup.h"
#include "ranks/ranks.h"

typedef struct fli_rank_async fli_rank_async;

/* All borrowed; must outlive it. */
typedef struct {
    const fli_setup *setup;
    size_t threads; /* of this rank */
    /* A turn of this rank's, on any of its threads. */
    void (*work)(void *arg, fli_exchange *x, size_t worker);
    void *arg;
} fli_rank_async_spec;

#endif
