/* Threads that work on independent items. The pool does a known number of items and returns when all are done; the
 * asynchronous pool takes items one by one and hands them back as they are done, while its caller goes on.
 *
 * Items go to workers as these become free, so which worker does which item varies from run to run: results may depend
 * on the item, never on the worker's number. */
#ifndef FLI_BASE_POOL_H
#define FLI_BASE_POOL_H

#include "base/ctx.h"

/* ==== the pool ============================================================================================== */

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

/* ==== the asynchronous pool ================================================================================= */

/* Its threads begin to work with the first fli_async_pool_take, and can be paused. All calls come from one thread. */

typedef struct fli_async_pool fli_async_pool;

/* `worker` is 0 .. threads-1; no two calls with the same worker overlap. */
typedef void fli_async_pool_fn(void *arg, void *item, size_t worker);

fl_status fli_async_pool_new(fl_ctx *ctx, size_t threads, fli_async_pool_fn *fn, void *arg, fli_async_pool **out);
/* Waits for the items under way; the others are dropped. */
void fli_async_pool_free(fli_async_pool *p);

fl_status fli_async_pool_give(fli_async_pool *p, void *item);
/* Up to `most` items that are done, in the order in which they were done; waits up to `seconds` for the first. */
size_t fli_async_pool_take(fli_async_pool *p, double seconds, void **items, size_t most);
/* Pauses the pool: returns when no thread is at work, and none begins before the next fli_async_pool_take. */
void fli_async_pool_rest(fli_async_pool *p);
/* Mean idle seconds per thread, time paused by fli_async_pool_rest excluded. */
double fli_async_pool_idle(fli_async_pool *p);

#endif
