/* Threads that work on independent items: a known number of them, until all are done.
 *
 * Items go to workers as these become free, so which worker does which item varies from run to run: results may depend
 * on the item, never on the worker's number. */
#ifndef FLI_BASE_POOL_H
#define FLI_BASE_POOL_H

#include "base/ctx.h"

typedef struct fli_pool fli_pool;

/* The number of threads that is meant: 0 stands for one per online processor. */
size_t fli_pool_count(size_t threads);
/* The calling thread is one of them. */
fl_status fli_pool_new(fl_ctx *ctx, size_t threads, fli_pool **out);
void fli_pool_free(fli_pool *pool);
size_t fli_pool_threads(const fli_pool *pool);

/* `worker` is 0 .. threads-1 and names a workspace; no two calls with the same worker overlap. */
typedef void fli_pool_fn(void *arg, size_t item, size_t worker);
/* Runs fn for items 0 .. count-1 and returns when all are done. Not reentrant. */
void fli_pool_run(fli_pool *pool, size_t count, fli_pool_fn *fn, void *arg);

#endif
