/* The threads of this process, and for each of them memory to evaluate a model in. Used by executors whose clients live
 * in this process, and by the server for what it computes itself. Defined in client_figures.c. */
#ifndef FLI_CLIENT_WORKERS_H
#define FLI_CLIENT_WORKERS_H

#include "base/pool.h"
#include "solver/solver.h"

typedef struct {
    fli_pool *pool;
    fli_eval *evals; /* one per thread */
    size_t threads;
} fli_workers;

/* threads 0: one per processor. site NULL: here; else there is one thread, which evaluates there. */
fl_status fli_workers_init(fl_ctx *ctx, const fli_model *m, const fli_site *site, size_t threads, fli_workers *workers);
void fli_workers_fini(fli_workers *workers);

#endif
