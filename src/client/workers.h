/* The threads of this process, each with memory to evaluate a model. Executors whose clients live in this process use
 * them, and so does the server for its own computations. The engine makes them. */
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
