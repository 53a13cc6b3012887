#include "exec/footprint.h"

#include "exec/recall.h"

#include <math.h>

/* What the C library reserves for a thread's stack and heap: address space, hardly memory. */
#define THREAD_ROOM (0x1p23 + 0x1p27)

fli_footprint fli_footprint_of(const fli_exec_spec *spec, size_t cohort, int async)
{
    const fli_algo *a = spec->algo;
    const fli_solver *solver = fli_algo_solver(a, spec->params, spec->model);
    double vector = (double)fli_bytes(&spec->model->space), threads = (double)fli_pool_count(spec->threads);
    size_t block = fli_exec_block(spec->threads);
    double at_work = (double)(async || cohort < block ? cohort : block);
    int apart = spec->executor && spec->executor->apart;
    size_t phases = a->rounds.phases ? a->rounds.phases(spec->params, 0) : 1;
    size_t server = fli_names_count(a->server) + fli_names_count(a->sums) + (fli_algo_shows_start(a) ? 1 : 0) +
                    fli_recall_vectors(a, spec->params, phases) * (apart ? cohort : 1);
    fli_open how = {.model = spec->model, .sgd = spec->sgd, .largest = spec->fed->largest};
    fli_footprint f = {
        .server = (double)server * vector + (spec->regularizer ? 2 * (double)spec->model->space.n * sizeof(double) : 0),
        .workers = threads * (fli_eval_bytes(spec->model) + solver->bytes(solver, &how) +
                              fli_task_bytes(solver, spec->model) + (double)a->work * vector),
        .turns = at_work * (double)(fli_parts_vectors(a->up) + (async ? fli_parts_vectors(a->down) : 0)) * vector,
        .state = (double)cohort * (double)fli_names_count(a->client) * vector,
    };
    if (spec->memory) f.state = fmin(f.state, (double)spec->memory);
    f.total = f.server + f.workers + f.turns + f.state;
    return f;
}

double fli_footprint_address(size_t threads)
{
    return threads ? (double)threads * FLI_BLAS_BUFFER + (double)(threads - 1) * THREAD_ROOM : 0;
}
