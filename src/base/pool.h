/* A thread pool for independent items. Items are handed out as workers become free, so which worker does which item
 * varies from run to run: results may depend on the item's number, never on the worker's. */
#ifndef FLI_BASE_POOL_H
#define FLI_BASE_POOL_H

#include "base/ctx.h"

/* ==== pool ================================================================================================== */

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

/* ==== hands ================================================================================================= */

/* Threads that work on things one by one while whoever hands them over goes on: what is given in comes out when it is
 * done. They begin when somebody takes, and may be made to rest in between. */

typedef struct fli_async_pool fli_async_pool;

/* `worker` is 0 .. threads-1; no two calls with the same worker overlap. */
typedef void fli_async_pool_fn(void *arg, void *thing, size_t worker);

fl_status fli_async_pool_new(fl_ctx *ctx, size_t threads, fli_async_pool_fn *fn, void *arg, fli_async_pool **out);
/* What is under way is waited for; the rest is forgotten. */
void fli_async_pool_free(fli_async_pool *h);

/* By one thread, as are all below. */
fl_status fli_async_pool_give(fli_async_pool *h, void *thing);
/* Up to `most` things that are done, in the order in which they were; waits so many seconds for the first. */
size_t fli_async_pool_take(fli_async_pool *h, double seconds, void **things, size_t most);
/* Returns when nobody is at work; nobody begins until somebody takes again. */
void fli_async_pool_rest(fli_async_pool *h);
/* Seconds that a thread had nothing to do while they did not rest, mean over the threads. */
double fli_async_pool_idle(fli_async_pool *h);

#endif
