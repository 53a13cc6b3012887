/* Threads that work on a known number of independent items until all are done.
 *
 * Free workers take the next item, so the worker of an item varies from run to run: results may depend on the item,
 * never on the worker's number. */
#ifndef FLI_BASE_POOL_H
#define FLI_BASE_POOL_H

#include "base/ctx.h"

typedef struct fli_pool fli_pool;

/* The number of threads: 0 stands for one per online processor. */
size_t fli_pool_count(size_t threads);
/* The calling thread is one of them. */
fl_status fli_pool_new(fl_ctx *ctx, size_t threads, fli_pool **out);
void fli_pool_free(fli_pool *pool);
size_t fli_pool_threads(const fli_pool *pool);

/* `worker` is 0 .. threads-1 and selects a workspace; calls with the same worker never overlap. */
typedef void fli_pool_fn(void *arg, size_t item, size_t worker);
/* Runs fn for items 0 .. count-1 and returns when all are done. Not reentrant. */
void fli_pool_run(fli_pool *pool, size_t count, fli_pool_fn *fn, void *arg);

#endif
