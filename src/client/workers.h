/* The threads of this process, and for each of them memory to evaluate a model in. Used by executors whose clients live
 * in this process, and by the server for what it computes itself. The engine makes them. */
#ifndef FLI_CLIENT_WORKERS_H
#define FLI_CLIENT_WORKERS_H

#include "base/pool.h"
#include "solver/solver.h"

typedef struct {
    fli_pool *pool;
    fli_eval *evals; /* one per thread */
    size_t threads;
} fli_workers;

#endif
