#include "exec/exec.h"

#include <string.h>

#define WARM_UP UINT32_MAX /* stands for the round, in random streams */

/* What a thread has. */
typedef struct {
    fli_eval eval;
    void *instance; /* of the solver */
    fli_task task;
} worker_memory;

struct fli_exec {
    fl_ctx *ctx;
    fli_exec_spec spec;
    fli_space space;
    fli_arena arena; /* pointer tables */
    fli_pool *pool;
    worker_memory *workers;
    void ***work; /* per worker: the algorithm's scratch vectors */
    fli_store *store;
    const fli_solver *solver;
    void **caches;    /* the solver's, one per client; NULL: it keeps nothing */
    void *initial;    /* the start model, for methods whose clients know it */
    uint32_t *places; /* with bystanders: 1 + a client's place in the cohort, 0 for those outside */
    double *doubles;  /* 2 n, for the regulariser */
    int warm_up;      /* the turns under way are those before the first round */
    void **server, **sums, **past;
    double *scalar_sums, *scalars;
    int started;
    size_t phase, phases; /* the exchange under way */
    fli_server step;      /* the server's, under way */
    double spent;         /* inner steps of the last round */
    size_t uploads, missed;
    fli_job jobs[FLI_EXEC_BLOCK];   /* the block under way */
    size_t job_count;               /* those that have memory */
    uint32_t order[FLI_EXEC_BLOCK]; /* places of the block, most work first */
};

/* From one vector to the next: a whole number of cache lines. */
static size_t stride(const fli_exec *e) { return (fli_bytes(&e->space) + 63) / 64 * 64; }

/* `count` vectors in a pointer table; the vectors themselves are one allocation, table[0]. */
static fl_status vectors_new(fli_exec *e, size_t count, void ***out)
{
    size_t vector = stride(e);
    void **table = fli_arena_alloc(&e->arena, count + 1, sizeof *table);
    if (!table) return FL_ENOMEM;
    *out = table;
    if (!count) return FL_OK;
    table[0] = fli_alloc(e->ctx, count, vector);
    if (!table[0]) return FL_ENOMEM;
    for (size_t i = 1; i < count; i++) table[i] = (char *)table[0] + i * vector;
    return FL_OK;
}

static void vectors_free(void **table)
{
    if (table) fli_free(table[0]);
}

/* Makes the places that a cohort of this size needs and earlier ones did not. */
static fl_status jobs_for(fli_exec *e, size_t cohort)
{
    for (; e->job_count < FLI_EXEC_BLOCK && e->job_count < cohort; e->job_count++)
        if (fli_job_init(e, &e->jobs[e->job_count])) return FL_ENOMEM;
    return FL_OK;
}

static fl_status worker_init(fli_exec *e, worker_memory *w)
{
    const fli_model *m = e->spec.model;
    fl_status s = fli_eval_init(e->ctx, m, &w->eval);
    if (s) return s;
    fli_open how = {.model = m, .sgd = e->spec.sgd, .largest = e->spec.fed->largest, .eval = &w->eval};
    s = (*e->solver->open)(e->ctx, e->solver, &how, &w->instance); /* no file, as tools/check-layers.sh would think */
    return s ? s : fli_task_init(e->ctx, e->solver, m, &w->task);
}

static fl_status workers_new(fli_exec *e)
{
    size_t threads = fli_pool_threads(e->pool);
    fl_status s;
    e->workers = fli_arena_alloc(&e->arena, threads, sizeof *e->workers);
    e->work = fli_arena_alloc(&e->arena, threads, sizeof *e->work);
    if (!e->workers || !e->work) return FL_ENOMEM;
    for (size_t i = 0; i < threads; i++)
        if ((s = worker_init(e, &e->workers[i])) || (s = vectors_new(e, e->spec.algo->work, &e->work[i]))) return s;
    return FL_OK;
}

static fl_status check_blas(fli_exec *e)
{
    if (fli_pool_threads(e->pool) == 1 || fli_blas_thread_safe()) return FL_OK;
    return fli_fail(e->ctx, FL_ESYSTEM,
                    "this OpenBLAS is a serial build, which computes wrong numbers when called from several threads; "
                    "install its pthread flavour, or set threads to 1");
}

/* What only some methods need. */
static fl_status extras_new(fli_exec *e)
{
    size_t n = e->space.n;
    if (e->spec.algo->past && vectors_new(e, e->spec.algo->past(e->spec.params), &e->past)) return FL_ENOMEM;
    if (e->solver->forget && !(e->caches = fli_alloc(e->ctx, e->spec.fed->clients, sizeof *e->caches)))
        return FL_ENOMEM;
    if (e->spec.algo->traits & FLI_ALGO_INITIAL && !(e->initial = fli_alloc(e->ctx, n, e->space.ops->size)))
        return FL_ENOMEM;
    if (e->spec.algo->traits & FLI_ALGO_BYSTANDERS &&
        !(e->places = fli_alloc(e->ctx, e->spec.fed->clients, sizeof *e->places)))
        return FL_ENOMEM;
    if (e->spec.regularizer && !(e->doubles = fli_alloc(e->ctx, 2 * n, sizeof *e->doubles))) return FL_ENOMEM;
    return FL_OK;
}

/* fli_store_spec.left: a factor is kept as long as its client's state, and is had again from the samples. */
static void left_memory(void *exec, size_t client)
{
    fli_exec *e = exec;
    if (!e->caches || e->solver->save) return;
    e->solver->forget(e->caches[client]);
    e->caches[client] = NULL;
}

static fl_status state_new(fli_exec *e)
{
    const fli_algo *a = e->spec.algo;
    fli_store_spec spec = {
        .space = e->space,
        .clients = e->spec.fed->clients,
        .vectors = fli_names_count(a->client),
        .scalars = a->client_scalars,
        .budget = e->spec.memory,
        .folder = e->spec.folder,
        .left = left_memory,
        .arg = e,
    };
    return fli_store_new(e->ctx, &spec, &e->store);
}

fl_status fli_exec_new(fl_ctx *ctx, const fli_exec_spec *spec, fli_exec **out)
{
    const fli_algo *a = spec->algo;
    fl_status s;
    fli_exec *e = fli_alloc(ctx, 1, sizeof *e);
    if (!e) return FL_ENOMEM;
    e->ctx = ctx;
    e->spec = *spec;
    e->space = spec->model->space;
    e->solver = fli_solver_on(spec->model, a->solver ? a->solver(spec->params) : &fli_solver_sgd);
    fli_arena_init(&e->arena, ctx);
    if ((s = fli_pool_new(ctx, spec->threads, &e->pool)) || (s = check_blas(e)) || (s = workers_new(e)) ||
        (s = state_new(e)) || (s = vectors_new(e, fli_names_count(a->server), &e->server)) ||
        (s = vectors_new(e, fli_names_count(a->sums), &e->sums)) || (s = extras_new(e)) ||
        !(e->scalars = fli_arena_alloc(&e->arena, a->server_scalars + 1, sizeof(double))) ||
        !(e->scalar_sums = fli_arena_alloc(&e->arena, a->scalar_sums + 1, sizeof(double)))) {
        fli_exec_free(e);
        return s ? s : FL_ENOMEM;
    }
    *out = e;
    return FL_OK;
}

void fli_exec_free(fli_exec *e)
{
    if (!e) return;
    size_t threads = e->pool ? fli_pool_threads(e->pool) : 0;
    for (size_t i = 0; e->workers && e->work && i < threads; i++) {
        fli_task_fini(&e->workers[i].task);
        e->solver->close(e->workers[i].instance);
        fli_eval_fini(&e->workers[i].eval);
        vectors_free(e->work[i]);
    }
    for (size_t i = 0; i < FLI_EXEC_BLOCK; i++) fli_job_fini(&e->jobs[i]);
    vectors_free(e->server);
    vectors_free(e->sums);
    vectors_free(e->past);
    for (size_t i = 0; e->caches && i < e->spec.fed->clients; i++) e->solver->forget(e->caches[i]);
    fli_free(e->caches);
    fli_free(e->initial);
    fli_free(e->places);
    fli_free(e->doubles);
    fli_store_free(e->store);
    fli_pool_free(e->pool);
    fli_arena_fini(&e->arena);
    fli_free(e);
}

void *const *fli_exec_server(fli_exec *e) { return e->server; }
fli_pool *fli_exec_pool(fli_exec *e) { return e->pool; }
fli_eval *fli_exec_eval(fli_exec *e, size_t worker) { return &e->workers[worker].eval; }

size_t fli_exec_broadcast_bytes(const fli_exec *e) { return e->spec.algo->down * stride(e); }
fl_status fli_exec_broadcast_new(fli_exec *e, void ***out) { return vectors_new(e, e->spec.algo->down, out); }
void fli_exec_broadcast_free(void **vectors) { vectors_free(vectors); }

double fli_exec_weight(const fli_exec *e, size_t client)
{
    if (e->spec.weights) return e->spec.weights[client];
    if (e->spec.uniform) return 1 / (double)e->spec.fed->clients;
    return (double)fli_fed_size(e->spec.fed, client) / (double)e->spec.fed->samples;
}

static double weight_of(const void *exec, size_t client) { return fli_exec_weight(exec, client); }

/* ---- a client's turn ----------------------------------------------------------------------------------- */

fl_status fli_job_init(fli_exec *e, fli_job *job)
{
    const fli_algo *a = e->spec.algo;
    if (!job->up_scalars) job->up_scalars = fli_arena_alloc(&e->arena, a->up_scalars + 1, sizeof(double));
    return job->up_scalars ? vectors_new(e, fli_names_count(a->up), &job->up) : FL_ENOMEM;
}

void fli_job_fini(fli_job *job) { vectors_free(job->up); }

/* The turn, as far as it is known before the client works. */
static fli_turn turn_of(const fli_exec *e, const fli_job *job)
{
    return (fli_turn){
        .space = &e->space,
        .params = e->spec.params,
        .clients = e->spec.fed->clients,
        .cohort = job->cohort,
        .round = job->round,
        .client = job->client,
        .weight = fli_exec_weight(e, job->client),
        .lr = job->lr,
        .probability = job->probability,
        .steps = job->steps,
        .momentum = e->spec.sgd.momentum,
        .staleness = job->staleness,
        .news = job->news,
        .chosen = !job->bystander,
        .warm_up = e->warm_up,
        .initial = e->initial,
        .down = job->down,
        .down_scalars = e->scalars,
        .up = job->up,
        .up_scalars = job->up_scalars,
        .phase = job->phase,
        .phases = job->phases,
        .bilevel = e->spec.model->bilevel,
        .past = e->past,
    };
}

/* The mini-batches of a turn. Every phase of a round has its own. */
static fli_rng batches(const fli_exec *e, const fli_job *job)
{
    uint64_t seed = e->spec.seed;
    fli_rng rng;
    if (job->phase) {
        fli_rng_init(&rng, seed, FLI_RNG_ALGO, (uint32_t)job->phase, 1);
        seed = fli_rng_u64(&rng);
    }
    fli_rng_init(&rng, seed, FLI_RNG_BATCH, e->warm_up ? WARM_UP : (uint32_t)job->stream, job->client);
    return rng;
}

static fl_status work_with(fli_exec *e, fli_job *job, size_t worker, const fli_kept *kept)
{
    fli_turn t = turn_of(e, job);
    fli_view view;
    fl_status s = fli_view_open(e->ctx, e->spec.fed, t.client, &view);
    if (s) return s;
    t.state = kept->vectors;
    t.scalars = kept->scalars;
    t.first = kept->first;
    t.work = e->work[worker];

    fli_task *task = &e->workers[worker].task;
    fli_answer *answer = &task->answer;
    task->problem = (fli_problem){.lr = t.lr, .steps = t.steps};
    task->view = &view;
    task->rng = batches(e, job);
    task->cache = e->caches ? &e->caches[t.client] : NULL;
    task->seed = e->spec.seed;
    task->client = t.client;
    e->spec.algo->pose(&t, &task->problem);
    e->solver->solve(e->ctx, e->workers[worker].instance, &task, 1);
    s = task->status;
    if (!s) {
        job->own_diverged = answer->pair.own && !fli_finite(&e->space, answer->pair.own);
        if (job->own_diverged || !fli_finite(&e->space, answer->z) ||
            (answer->levels.v && !fli_finite(&e->space, answer->levels.v)))
            s = FL_EDIVERGED;
    }
    if (!s) e->spec.algo->answer(&t, answer);
    if (!s) {
        job->spent = answer->steps;
        job->missed = answer->missed;
    }
    fli_view_close(&view);
    return s;
}

static fl_status client_turn(fli_exec *e, fli_job *job, size_t worker)
{
    fli_kept kept;
    fl_status s = fli_store_get(e->store, job->client, &kept);
    if (s) return s;
    s = work_with(e, job, worker, &kept);
    if (kept.scalars) fli_store_release(e->store, job->client);
    return s;
}

void fli_exec_work(fli_exec *e, fli_job *job, size_t worker) { job->status = client_turn(e, job, worker); }

fl_status fli_exec_failed(const fli_exec *e, const fli_job *job)
{
    if (job->status != FL_EDIVERGED) return job->status;
    const fli_algo *a = e->spec.algo;
    const char *whose = job->own_diverged ? "own" : "local";
    const char *remedy = job->own_diverged && a->own_remedy ? a->own_remedy : a->remedy ? a->remedy : FLI_LOCAL_REMEDY;
    if (e->solver->one_pass || a->traits & FLI_ALGO_BILEVEL || job->own_diverged)
        return fli_fail(e->ctx, job->status,
                        "round %zu, client %u: the %s model is no longer finite; %s diverges, try %s", job->round + 1,
                        job->client, whose, a->name, remedy);
    return fli_fail(e->ctx, job->status,
                    "round %zu, client %u: the %s model is no longer finite after %zu steps of size %g; try %s",
                    job->round + 1, job->client, whose, job->steps, job->lr, remedy);
}

/* ---- the server's step --------------------------------------------------------------------------------- */

static void prox(const void *exec, double eta, void *x)
{
    const fli_exec *e = exec;
    const fli_regularizer *g = e->spec.regularizer;
    if (!g) return;
    e->space.ops->to_f64(e->space.n, x, e->doubles);
    g->prox(e->spec.regularizer_params, eta, e->space.n, e->doubles, e->doubles + e->space.n);
    e->space.ops->from_f64(e->space.n, e->doubles, x);
}

double fli_exec_regularizer(fli_exec *e)
{
    if (!e->spec.regularizer) return 0;
    e->space.ops->to_f64(e->space.n, e->server[0], e->doubles);
    return e->spec.regularizer->value(e->spec.regularizer_params, e->space.n, e->doubles);
}

/* Once, before the first turn of anybody. */
static void start(fli_exec *e)
{
    if (e->started) return;
    e->started = 1;
    if (e->initial) fli_copy(&e->space, e->server[0], e->initial);
    if (e->spec.algo->start) e->spec.algo->start(&e->step);
}

void fli_exec_resume_step(fli_exec *e, size_t round, size_t cohort, double cohort_weight)
{
    e->step = (fli_server){
        .space = &e->space,
        .params = e->spec.params,
        .clients = e->spec.fed->clients,
        .cohort = cohort,
        .round = round,
        .cohort_weight = cohort_weight,
        .vec = e->server,
        .sum = e->sums,
        .scalar_sum = e->scalar_sums,
        .warm_up = e->warm_up,
        .prox = prox,
        .prox_arg = e,
        .scalars = e->scalars,
        .weight = weight_of,
        .weight_arg = e,
        .model_traits = e->spec.model->desc->traits,
        .samples = e->spec.fed->samples,
        .phase = e->phase,
        .phases = e->phases,
        .bilevel = e->spec.model->bilevel,
        .past = e->past,
    };
}

void fli_exec_begin(fli_exec *e, size_t round, size_t cohort, double cohort_weight)
{
    const fli_algo *a = e->spec.algo;
    fli_exec_resume_step(e, round, cohort, cohort_weight);
    start(e);
    for (size_t i = 0; i < fli_names_count(a->sums); i++) fli_zero(&e->space, e->sums[i]);
    memset(e->scalar_sums, 0, a->scalar_sums * sizeof *e->scalar_sums);
}

void fli_exec_absorb(fli_exec *e, const fli_job *job)
{
    fli_turn t = turn_of(e, job);
    e->spec.algo->absorb(&e->step, &t);
    e->uploads++;
    e->missed += job->missed != 0;
}

fl_status fli_exec_advance(fli_exec *e)
{
    e->spec.algo->advance(&e->step);
    if (fli_finite(&e->space, e->server[0])) return FL_OK;
    return fli_fail(e->ctx, FL_EDIVERGED, "round %zu: the global model is no longer finite; %s diverges, try %s",
                    e->step.round + 1, e->spec.algo->name, fli_algo_remedy(e->spec.algo));
}

/* ---- a round ------------------------------------------------------------------------------------------- */

/* fli_pool_fn: runs one place of the block. */
static void block_item(void *arg, size_t item, size_t worker)
{
    fli_exec *e = arg;
    fli_exec_work(e, &e->jobs[e->order[item]], worker);
}

/* How long a turn takes, up to a factor: samples passed over. */
static double work_of(const fli_exec *e, const fli_job *job)
{
    size_t n = fli_fed_size(e->spec.fed, job->client);
    return e->solver->one_pass ? (double)n : (double)job->steps * (double)fli_batch_size(&e->spec.sgd, n);
}

/* Clients with the most work start first, so that no thread is left alone with a long one at the end. Only the order of work
 * changes: uploads are absorbed in the cohort's order. Insertion sort, for at most FLI_EXEC_BLOCK places. */
static void order_block(fli_exec *e, size_t count)
{
    double work[FLI_EXEC_BLOCK];
    for (size_t i = 0; i < count; i++) {
        size_t at = i;
        work[i] = work_of(e, &e->jobs[i]);
        for (; at > 0 && work[e->order[at - 1]] < work[i]; at--) e->order[at] = e->order[at - 1];
        e->order[at] = (uint32_t)i;
    }
}

/* What the round asks of the client at place `at` of its cohort. */
static void ask_member(const fli_exec *e, const fli_round *r, size_t at, fli_job *job)
{
    job->client = r->clients[at];
    job->steps = r->steps[at];
    job->lr = r->lrs ? r->lrs[at] : r->lr;
    job->probability = r->probabilities ? r->probabilities[at] : (double)r->count / (double)e->spec.fed->clients;
}

/* Turn `at` of the round: that of the cohort's client, or with bystanders that of the federation's. */
static void ask(const fli_exec *e, const fli_round *r, size_t at, fli_job *job)
{
    *job = (fli_job){.round = r->round,
                     .stream = r->round,
                     .cohort = r->count,
                     .news = r->news,
                     .phase = e->phase,
                     .phases = e->phases,
                     .up = job->up,
                     .up_scalars = job->up_scalars};
    if (!e->places)
        ask_member(e, r, at, job);
    else if (e->places[at])
        ask_member(e, r, e->places[at] - 1, job);
    else {
        job->client = (uint32_t)at;
        job->bystander = 1;
    }
    job->down = (const void *const *)e->server;
}

/* Of several clients that fail the first in the cohort is named, whoever was first in time. */
static fl_status run_block(fli_exec *e, const fli_round *r, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) ask(e, r, first + i, &e->jobs[i]);
    order_block(e, count);
    fli_pool_run(e->pool, count, block_item, e);
    for (size_t i = 0; i < count; i++)
        if (e->jobs[i].status) return fli_exec_failed(e, &e->jobs[i]);
    for (size_t i = 0; i < count; i++) e->spent += (double)e->jobs[i].spent;
    for (size_t i = 0; r->exchange && i < count; i++) fli_exec_absorb(e, &e->jobs[i]);
    return FL_OK;
}

/* Who is in the cohort, where that makes a difference; returns how many take a turn. */
static size_t note_places(fli_exec *e, const fli_round *r)
{
    if (!e->places) return r->count;
    memset(e->places, 0, e->spec.fed->clients * sizeof *e->places);
    for (size_t i = 0; i < r->count; i++) e->places[r->clients[i]] = (uint32_t)i + 1;
    return e->spec.fed->clients;
}

/* One exchange with the cohort. */
static fl_status run_phase(fli_exec *e, const fli_round *r, size_t turns, double weight)
{
    fl_status s = FL_OK;
    fli_exec_begin(e, r->round, r->count, weight);
    for (size_t at = 0; s == FL_OK && at < turns; at += FLI_EXEC_BLOCK)
        s = run_block(e, r, at, turns - at < FLI_EXEC_BLOCK ? turns - at : FLI_EXEC_BLOCK);
    /* nobody came: the model stays */
    if (s == FL_OK && turns && r->exchange) s = fli_exec_advance(e);
    return s;
}

fl_status fli_exec_round(fli_exec *e, const fli_round *r)
{
    double weight = 0;
    for (size_t i = 0; i < r->count; i++) weight += fli_exec_weight(e, r->clients[i]);
    e->spent = 0;
    e->phases = r->phases ? r->phases : 1;
    size_t turns = note_places(e, r);
    fl_status s = jobs_for(e, turns);
    for (e->phase = 0; s == FL_OK && e->phase < e->phases; e->phase++) s = run_phase(e, r, turns, weight);
    e->phase = 0;
    return s;
}

double fli_exec_spent(const fli_exec *e) { return e->spent; }

size_t fli_exec_missed(const fli_exec *e, size_t *uploads)
{
    *uploads = e->uploads;
    return e->missed;
}

int fli_exec_warms_up(const fli_exec *e) { return e->spec.algo->warms_up && e->spec.algo->warms_up(e->spec.params); }

fl_status fli_exec_warm_up(fli_exec *e, const fli_round *r)
{
    e->warm_up = 1;
    fl_status s = fli_exec_round(e, r);
    e->warm_up = 0;
    return s;
}

/* ---- the clients' own models ----------------------------------------------------------------------------- */

double fli_exec_own_mix(fli_exec *e, size_t client)
{
    const fli_algo *a = e->spec.algo;
    return a->own_mix ? a->own_mix(e->spec.params, client, fli_store_scalars(e->store, client)) : 1;
}

fl_status fli_exec_own_model(fli_exec *e, size_t client, const void **out)
{
    size_t own = e->spec.algo->own_model;
    void *const *kept = NULL;
    fl_status s = own ? fli_store_peek(e->store, client, &kept) : FL_OK;
    *out = kept ? kept[own - 1] : own && e->initial && e->started ? e->initial : e->server[0];
    return s;
}

void fli_exec_own_model_release(fli_exec *e, size_t client, const void *model)
{
    if (model != e->initial && model != e->server[0]) fli_store_release(e->store, client);
}

size_t fli_exec_state(const fli_exec *e, size_t *spilled)
{
    *spilled = fli_store_spilled(e->store);
    return fli_store_bytes(e->store);
}

/* ---- checkpoints ----------------------------------------------------------------------------------------- */

static void save_vectors(const fli_exec *e, void *const *vectors, size_t count, fli_saver *out)
{
    fli_save_count(out, count);
    for (size_t i = 0; i < count; i++) fli_save_bytes(out, vectors[i], fli_bytes(&e->space));
}

static void load_vectors(const fli_exec *e, void *const *vectors, size_t count, fli_loader *in)
{
    fli_load_equal(in, count, "does not fit this run: the method has another number of vectors");
    for (size_t i = 0; i < count; i++) fli_load_bytes(in, vectors[i], fli_bytes(&e->space));
}

static void save_reals(const double *v, size_t count, fli_saver *out)
{
    fli_save_count(out, count);
    fli_save_bytes(out, v, count * sizeof *v);
}

static void load_reals(double *v, size_t count, fli_loader *in)
{
    fli_load_equal(in, count, "does not fit this run: the method has another number of scalars");
    fli_load_bytes(in, v, count * sizeof *v);
}

static void save_caches(const fli_exec *e, fli_saver *out)
{
    size_t count = 0, clients = e->caches && e->solver->save ? e->spec.fed->clients : 0;
    for (size_t i = 0; i < clients; i++) count += e->caches[i] != NULL;
    fli_save_part(out, "solver");
    fli_save_count(out, count);
    for (size_t i = 0; i < clients; i++) {
        if (!e->caches[i]) continue;
        fli_save_count(out, i);
        e->solver->save(e->caches[i], out);
    }
}

static fl_status load_caches(fli_exec *e, fli_loader *in)
{
    size_t clients = e->spec.fed->clients;
    fl_status s = FL_OK;
    fli_load_part(in, "solver");
    for (uint64_t left = fli_load_count(in, e->caches && e->solver->load ? clients : 0); left && !s; left--) {
        size_t client = (size_t)fli_load_count(in, clients - 1);
        if (!(s = fli_loader_status(in)) && e->caches[client])
            s = fli_loader_refuse(in, "does not fit this run: a client is in it twice");
        if (!s) s = e->solver->load(e->ctx, in, &e->caches[client]);
    }
    return s ? s : fli_loader_status(in);
}

void fli_exec_save(fli_exec *e, fli_saver *out)
{
    const fli_algo *a = e->spec.algo;
    fli_save_part(out, "executor");
    fli_save_count(out, e->started != 0);
    fli_save_count(out, e->uploads);
    fli_save_count(out, e->missed);
    save_vectors(e, e->server, fli_names_count(a->server), out);
    save_reals(e->scalars, a->server_scalars, out);
    save_vectors(e, e->sums, fli_names_count(a->sums), out); /* an asynchronous step may be half done */
    save_reals(e->scalar_sums, a->scalar_sums, out);
    save_vectors(e, &e->initial, e->initial != NULL, out);
    fli_store_save(e->store, out);
    save_caches(e, out);
}

fl_status fli_exec_load(fli_exec *e, fli_loader *in)
{
    const fli_algo *a = e->spec.algo;
    fli_load_part(in, "executor");
    e->started = (int)fli_load_count(in, 1);
    e->uploads = (size_t)fli_load_count(in, SIZE_MAX);
    e->missed = (size_t)fli_load_count(in, e->uploads);
    load_vectors(e, e->server, fli_names_count(a->server), in);
    load_reals(e->scalars, a->server_scalars, in);
    load_vectors(e, e->sums, fli_names_count(a->sums), in);
    load_reals(e->scalar_sums, a->scalar_sums, in);
    load_vectors(e, &e->initial, e->initial != NULL, in);
    fl_status s = fli_store_load(e->store, in);
    return s ? s : load_caches(e, in);
}

void fli_job_save(const fli_exec *e, const fli_job *job, fli_saver *out)
{
    const fli_algo *a = e->spec.algo;
    fli_save_count(out, job->round);
    fli_save_count(out, job->stream);
    fli_save_count(out, job->client);
    fli_save_count(out, job->cohort);
    fli_save_count(out, job->steps);
    fli_save_real(out, job->lr);
    fli_save_real(out, job->probability);
    fli_save_count(out, job->news != 0);
    fli_save_count(out, job->bystander != 0);
    fli_save_count(out, job->staleness);
    fli_save_count(out, job->spent);
    fli_save_count(out, job->missed != 0);
    fli_save_count(out, (uint64_t)job->status);
    save_vectors(e, job->up, fli_names_count(a->up), out);
    save_reals(job->up_scalars, a->up_scalars, out);
}

void fli_job_load(const fli_exec *e, fli_job *job, fli_loader *in)
{
    const fli_algo *a = e->spec.algo;
    job->round = (size_t)fli_load_count(in, SIZE_MAX);
    job->stream = (size_t)fli_load_count(in, SIZE_MAX);
    job->client = (uint32_t)fli_load_count(in, e->spec.fed->clients - 1);
    job->cohort = (size_t)fli_load_count(in, SIZE_MAX);
    job->steps = (size_t)fli_load_count(in, SIZE_MAX);
    job->lr = fli_load_real(in);
    job->probability = fli_load_real(in);
    job->news = (int)fli_load_count(in, 1);
    job->bystander = (int)fli_load_count(in, 1);
    job->staleness = (size_t)fli_load_count(in, SIZE_MAX);
    job->spent = (size_t)fli_load_count(in, SIZE_MAX);
    job->missed = (int)fli_load_count(in, 1);
    job->status = (fl_status)fli_load_count(in, FL_ESYSTEM);
    load_vectors(e, job->up, fli_names_count(a->up), in);
    load_reals(job->up_scalars, a->up_scalars, in);
}
