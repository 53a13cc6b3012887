#include "exec/footprint.h"

#include "exec/recall.h"

#include <math.h>

/* What the C library reserves for a thread's stack and heap: address space, hardly memory. */
#define THREAD_ROOM (0x1p23 + 0x1p27)

/* What a thread has to solve local problems with. */
static double solving_bytes(const fli_exec_spec *spec)
{
    const fli_solvers *all = &spec->solvers;
    fli_open how = {.model = spec->model, .sgd = spec->sgd, .largest = spec->fed->largest};
    double sum = fli_task_bytes(fli_solver_roomiest(all->at, all->count), spec->model);
    for (size_t i = 0; i < all->count; i++) sum += all->at[i]->bytes(all->at[i], &how);
    return sum;
}

fli_footprint fli_footprint_of(const fli_exec_spec *spec, size_t cohort, int async)
{
    const fli_algo *a = spec->algo;
    double vector = (double)fli_bytes(&spec->model->space), threads = (double)fli_pool_count(spec->threads);
    size_t block = fli_exec_block(spec->site, spec->threads);
    double at_work = (double)(async || cohort < block ? cohort : block);
    int apart = spec->executor && spec->executor->apart;
    size_t phases = a->rounds.phases ? a->rounds.phases(spec->params, 0) : 1;
    size_t server = fli_names_count(a->server) + fli_names_count(a->sums) + (fli_algo_shows_start(a) ? 1 : 0) +
                    fli_recall_vectors(a, spec->params, phases) * (apart ? cohort : 1);
    fli_footprint f = {
        .server = (double)server * vector + (spec->regularizer ? 2 * (double)spec->model->space.n * sizeof(double) : 0),
        .workers = threads * (fli_eval_bytes(spec->model) + solving_bytes(spec) + (double)a->work * vector),
        .turns = at_work * (double)(fli_parts_vectors(a->up) + (async ? fli_parts_vectors(a->down) : 0)) * vector,
        .state = (double)cohort * (double)fli_algo_client_vectors(a, spec->watch) * vector,
    };
    if (spec->memory) f.state = fmin(f.state, (double)spec->memory);
    f.total = f.server + f.workers + f.turns + f.state;
    return f;
}

double fli_footprint_address(size_t threads)
{
    return threads ? (double)threads * FLI_BLAS_BUFFER + (double)(threads - 1) * THREAD_ROOM : 0;
}
