#include "engine/footprint.h"

#include "client/recall.h"

#include <math.h>

/* What the C library reserves for a thread's stack and heap: address space, hardly memory. */
#define THREAD_ROOM (0x1p23 + 0x1p27)

static size_t server_vectors(const fli_exec_spec *spec, size_t cohort)
{
    const fli_algo *a = spec->algo;
    int apart = spec->executor && spec->executor->apart;
    size_t phases = a->rounds.phases ? a->rounds.phases(spec->params, 0) : 1;
    int remembers = fli_coordinator_remembers(a, spec->params, spec->watch) > 0;
    return fli_names_count(a->server) + fli_names_count(a->sums) + (fli_algo_shows_start(a) ? 1 : 0) +
           (remembers ? 1 : 0) + fli_recall_vectors(a, spec->params, phases) * (apart ? cohort : 1);
}

/* Of a client at work. */
static size_t turn_vectors(const fli_algo *a, int async)
{
    return fli_parts_vectors(a->up) + (async ? fli_parts_vectors(a->down) : 0);
}

static double state_bytes(const fli_exec_spec *spec, size_t cohort)
{
    double all =
        (double)(cohort * fli_algo_client_vectors(spec->algo, spec->watch)) * (double)fli_bytes(&spec->model->space);
    return spec->memory ? fmin(all, (double)spec->memory) : all;
}

/* What a thread has to solve local problems with. */
static double solving_bytes(const fli_model *m, const fli_solvers *all, const fli_sgd_spec *sgd, size_t largest)
{
    fli_open how = {.model = m, .sgd = *sgd, .largest = largest};
    double sum = fli_task_bytes(fli_solver_roomiest(all->at, all->count), m);
    for (size_t i = 0; i < all->count; i++) sum += all->at[i]->bytes(all->at[i], &how);
    return sum;
}

fli_footprint fli_footprint_of(const fli_exec_spec *spec, size_t cohort, int async)
{
    const fli_algo *a = spec->algo;
    double vector = (double)fli_bytes(&spec->model->space), threads = (double)fli_pool_count(spec->threads);
    size_t block = fli_exec_block(spec);
    /* Clients that are elsewhere solve there: what one claims to have must not take memory here. */
    double solving = spec->mailbox ? 0 : solving_bytes(spec->model, &spec->solvers, &spec->sgd, spec->fed->largest);
    double at_work = (double)(async || cohort < block ? cohort : block);
    fli_footprint f = {
        .server = (double)server_vectors(spec, cohort) * vector +
                  (spec->regularizer ? 2 * (double)spec->model->space.n * sizeof(double) : 0),
        .workers = threads * (fli_eval_bytes(spec->model) + solving + (double)a->work * vector),
        .turns = at_work * (double)turn_vectors(a, async) * vector,
        .state = state_bytes(spec, cohort),
    };
    f.total = f.server + f.workers + f.turns + f.state;
    return f;
}

/* A site takes at most as many turns at a time as it has lanes, but nobody knows yet how many those are. */
double fli_footprint_there(const fli_exec_spec *spec, size_t cohort, int async)
{
    const fli_algo *a = spec->algo;
    const fli_solvers *all = &spec->solvers;
    double vector = (double)fli_vector_stride(&spec->model->space);
    double turn = fli_task_bytes(fli_solver_roomiest(all->at, all->count), spec->model) +
                  (double)(a->work + turn_vectors(a, async)) * vector;
    return (double)server_vectors(spec, cohort) * vector + (double)cohort * turn + state_bytes(spec, cohort);
}

double fli_footprint_address(size_t threads)
{
    return threads ? (double)threads * FLI_BLAS_BUFFER + (double)(threads - 1) * THREAD_ROOM : 0;
}

double fli_footprint_client(const fli_clients_spec *spec, size_t samples)
{
    const fli_algo *a = spec->algo;
    size_t phases = a->rounds.phases ? a->rounds.phases(spec->params, 0) : 1;
    size_t kept = fli_algo_client_vectors(a, spec->watch) + fli_recall_vectors(a, spec->params, phases);
    /* what it keeps is there as often as it may go back; the start model comes beside what is sent */
    size_t vectors = 3 * kept + a->work + turn_vectors(a, 1) + 1;
    return (double)vectors * (double)fli_bytes(&spec->model->space) + fli_eval_bytes(spec->model) +
           solving_bytes(spec->model, &spec->solvers, &spec->sgd, samples);
}
