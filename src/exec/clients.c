#include "exec/clients.h"

#include "exec/evaluate.h"
#include "exec/store.h"

#include <inttypes.h>
#include <string.h>

#define WARM_UP UINT32_MAX /* stands for the round, in random streams */

/* A turn under way, from pose to answer. */
typedef struct {
    fli_task task;
    fli_turn turn;
    fli_view view;
    fli_kept kept;
    fli_message work; /* the algorithm's scratch vectors */
    fli_exchange *exchange;
    fl_failure failure;
} turn_slot;

/* What a thread works with. */
typedef struct {
    fli_eval *eval;
    void *instances[FLI_STAGES]; /* of the solvers */
    turn_slot *slots;
} workspace;

struct fli_clients {
    fl_ctx *ctx;
    fli_clients_spec spec;
    fli_space space;
    fli_solvers solvers;       /* of the method's stages, each once, */
    void **caches[FLI_STAGES]; /* and what each keeps, per client that is here; NULL: nothing */
    fli_store *store;
    workspace *spaces;
    size_t count;
    fli_evaluate_side evaluates;
    fli_fault own_fault, *fault;
};

/* ---- life ------------------------------------------------------------------------------------------------ */

static fl_status slots_new(fli_clients *c, workspace *w)
{
    const fli_solver *roomiest = fli_solver_roomiest(c->solvers.at, c->solvers.count);
    fl_status s = FL_OK;
    w->slots = fli_alloc(c->ctx, c->spec.together, sizeof *w->slots);
    if (!w->slots) return FL_ENOMEM;
    for (size_t i = 0; !s && i < c->spec.together; i++) {
        s = fli_task_init(c->ctx, roomiest, c->spec.model, &w->slots[i].task);
        if (!s) s = fli_message_init(c->ctx, &c->space, c->spec.algo->work, 0, &w->slots[i].work);
    }
    return s;
}

static fl_status workspaces_new(fli_clients *c, fli_eval *evals)
{
    fl_status s = FL_OK;
    c->spaces = fli_alloc(c->ctx, c->count, sizeof *c->spaces);
    if (!c->spaces) return FL_ENOMEM;
    for (size_t i = 0; !s && i < c->count; i++) {
        fli_open how = {c->spec.model, c->spec.sgd, c->spec.fed->largest, &evals[i]};
        c->spaces[i].eval = &evals[i];
        for (size_t k = 0; !s && k < c->solvers.count; k++)
            s = c->solvers.at[k]->open(c->ctx, c->solvers.at[k], &how, &c->spaces[i].instances[k]);
        if (!s) s = slots_new(c, &c->spaces[i]);
    }
    return s;
}

/* fli_store_spec.left: a factor is kept as long as its client's state, and is computed again from the samples. */
static void left_memory(void *clients, size_t client)
{
    fli_clients *c = clients;
    for (size_t k = 0; k < c->solvers.count; k++) {
        if (!c->caches[k] || c->solvers.at[k]->save) continue;
        void **cache = &c->caches[k][fli_fed_place(c->spec.fed, client)];
        c->solvers.at[k]->forget(*cache);
        *cache = NULL;
    }
}

static fl_status state_new(fli_clients *c)
{
    fli_store_spec spec = {
        .space = c->space,
        .clients = c->spec.clients,
        .vectors = fli_algo_client_vectors(c->spec.algo, c->spec.watch),
        .scalars = fli_algo_client_scalars(c->spec.algo, c->spec.watch),
        .budget = c->spec.memory,
        .folder = c->spec.folder,
        .left = left_memory,
        .arg = c,
    };
    for (size_t k = 0; k < c->solvers.count; k++)
        if (c->solvers.at[k]->forget &&
            !(c->caches[k] = fli_alloc(c->ctx, fli_fed_here(c->spec.fed), sizeof **c->caches)))
            return FL_ENOMEM;
    return fli_store_new(c->ctx, &spec, &c->store);
}

/* Per client: where a solver keeps the second block. Clients of asynchronous methods are at work when others are
 * looked at, so nobody looks there. */
static void *const *second_block(const fli_clients *c)
{
    if (c->spec.algo->async.pace) return NULL;
    for (size_t k = 0; k < c->solvers.count; k++)
        if (c->solvers.at[k]->second_block) return c->caches[k];
    return NULL;
}

fl_status fli_clients_new(fl_ctx *ctx, const fli_clients_spec *spec, size_t workspaces, fli_eval *evals,
                          fli_clients **out)
{
    fl_status s;
    fli_clients *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    c->ctx = ctx;
    c->spec = *spec;
    c->fault = spec->fault ? spec->fault : &c->own_fault;
    if (!c->spec.together) c->spec.together = 1;
    if (c->spec.together > FLI_TOGETHER) c->spec.together = FLI_TOGETHER;
    c->space = spec->model->space;
    c->solvers = spec->solvers;
    c->count = workspaces;
    if ((s = workspaces_new(c, evals)) || (s = state_new(c))) {
        fli_clients_free(c);
        return s;
    }
    c->evaluates = (fli_evaluate_side){ctx,      spec->model, spec->fed,       spec->algo, spec->params,
                                       c->store, spec->seed,  second_block(c), spec->watch};
    *out = c;
    return FL_OK;
}

static void workspace_free(const fli_clients *c, workspace *w)
{
    for (size_t i = 0; w->slots && i < c->spec.together; i++) {
        fli_task_fini(&w->slots[i].task);
        fli_message_fini(&w->slots[i].work);
    }
    fli_free(w->slots);
    for (size_t k = 0; k < c->solvers.count; k++)
        if (w->instances[k] && c->solvers.at[k]->close) c->solvers.at[k]->close(w->instances[k]);
}

void fli_clients_free(fli_clients *c)
{
    if (!c) return;
    for (size_t i = 0; c->spaces && i < c->count; i++) workspace_free(c, &c->spaces[i]);
    fli_free(c->spaces);
    for (size_t k = 0; k < c->solvers.count; k++) {
        for (size_t i = 0; c->caches[k] && i < fli_fed_here(c->spec.fed); i++)
            c->solvers.at[k]->forget(c->caches[k][i]);
        fli_free(c->caches[k]);
    }
    fli_store_free(c->store);
    fli_free(c);
}

/* ---- a turn ---------------------------------------------------------------------------------------------- */

/* Which of the solvers an ask is for. */
static size_t solver_of(const fli_clients *c, const fli_ask *ask)
{
    return c->solvers.of[fli_algo_stage(c->spec.algo, c->spec.params, ask)];
}

/* The mini-batches of a turn. Every phase of a round has its own. */
static fli_rng batches(const fli_clients *c, const fli_ask *ask)
{
    uint64_t seed = c->spec.seed;
    fli_rng rng;
    if (ask->phase) {
        fli_rng_init(&rng, seed, FLI_RNG_ALGO, ask->phase, 1);
        seed = fli_rng_u64(&rng);
    }
    uint32_t stream = ask->flags & FLI_ASK_WARM_UP ? WARM_UP : (uint32_t)ask->stream;
    fli_rng_init(&rng, seed, FLI_RNG_BATCH, stream, ask->client);
    return rng;
}

static fli_turn turn_of(const fli_clients *c, turn_slot *t)
{
    const fli_ask *ask = &t->exchange->ask;
    const fli_message *down = t->exchange->down;
    return (fli_turn){
        .space = &c->space,
        .params = c->spec.params,
        .ask = ask,
        .clients = c->spec.clients,
        .stage = fli_algo_stage(c->spec.algo, c->spec.params, ask),
        .first = t->kept.first,
        .initial = ask->flags & FLI_ASK_FIRST ? down->start : NULL,
        .down = (const void *const *)down->vec,
        .down_scalars = down->num,
        .history = down->history,
        .state = t->kept.vectors,
        .scalars = t->kept.scalars,
        .watched = c->spec.watch,
        .work = t->work.vec,
        .up = t->exchange->up.vec,
        .up_scalars = t->exchange->up.num,
        .failure = &t->failure,
    };
}

/* After a call of the method's. */
static fl_status called(fli_clients *c, turn_slot *t, const char *call)
{
    fli_exchange *x = t->exchange;
    if (!fli_has_failed(&t->failure)) return FL_OK;
    x->why = t->failure;
    fli_fault_word(&x->why, c->spec.algo, call, &x->ask, (size_t)x->ask.round);
    fli_fault_note(c->fault, &x->why);
    return FL_ECALLBACK;
}

/* Before it: nothing more is called once one has failed. */
static fl_status may_call(const fli_clients *c, turn_slot *t)
{
    t->failure.text[0] = 0;
    if (!fli_fault_there(c->fault)) return FL_OK;
    t->exchange->why = c->fault->first;
    return FL_ECALLBACK;
}

/* The client's part is over, or will not be. */
static void end_turn(fli_clients *c, turn_slot *t)
{
    fli_view_close(&t->view);
    if (t->kept.scalars) fli_store_release(c->store, t->exchange->ask.client);
}

static void pose(fli_clients *c, turn_slot *t, fli_exchange *x, void **caches)
{
    uint32_t client = x->ask.client;
    t->exchange = x;
    x->own_diverged = 0;
    x->why.text[0] = 0;
    if ((x->status = may_call(c, t))) return;
    if ((x->status = fli_store_get(c->store, client, &t->kept))) return;
    if ((x->status = fli_view_open(c->ctx, c->spec.fed, client, &t->view))) {
        if (t->kept.scalars) fli_store_release(c->store, client);
        return;
    }
    for (size_t i = 0; c->spec.poison && i < c->spec.algo->work; i++)
        memset(t->work.vec[i], 0xff, fli_bytes(&c->space));
    t->turn = turn_of(c, t);
    memset(&t->task.problem, 0, sizeof t->task.problem); /* all members of its union */
    t->task.problem.lr = x->ask.lr;
    t->task.problem.steps = (size_t)x->ask.steps;
    t->task.view = &t->view;
    t->task.rng = batches(c, &x->ask);
    t->task.cache = caches ? &caches[fli_fed_place(c->spec.fed, client)] : NULL;
    t->task.taken = x->ask.round * x->ask.steps;
    t->task.round = x->ask.round;
    t->task.seed = c->spec.seed;
    t->task.client = client;
    c->spec.algo->pose(&t->turn, &t->task.problem);
    if ((x->status = called(c, t, "pose"))) end_turn(c, t);
}

/* Whether objective or solver have failed. */
static fl_status solved(fli_clients *c, turn_slot *t)
{
    fli_exchange *x = t->exchange;
    fl_status s = fli_model_why(c->spec.model, &x->why, " at client %" PRIu32 ", round %" PRIu64, x->ask.client,
                                x->ask.round + 1);
    if (s || !(s = t->task.status)) return s;
    if (s == FL_ECALLBACK) x->why = t->task.why;
    return s;
}

static fl_status check(fli_clients *c, turn_slot *t)
{
    const fli_answer *a = &t->task.answer;
    fl_status s = solved(c, t);
    if (s == FL_ECALLBACK) fli_fault_note(c->fault, &t->exchange->why);
    if (s) return s;
    t->exchange->own_diverged = a->pair.own && !fli_finite(&c->space, a->pair.own);
    int finite = fli_finite(&c->space, a->z) && (!a->levels.v || fli_finite(&c->space, a->levels.v)) &&
                 (!a->gradient || fli_finite(&c->space, a->gradient));
    return finite && !t->exchange->own_diverged ? FL_OK : FL_EDIVERGED;
}

static void answer(fli_clients *c, turn_slot *t)
{
    fli_exchange *x = t->exchange;
    if (!(x->status = check(c, t)) && !(x->status = may_call(c, t))) {
        c->spec.algo->answer(&t->turn, &t->task.answer);
        x->status = called(c, t, "answer");
        x->spent = t->task.answer.steps;
        x->missed = t->task.answer.missed;
    }
    end_turn(c, t);
}

/* At most as many as there are tasks, all for one solver. */
static void take_turns(fli_clients *c, fli_exchange *const *list, size_t n, workspace *w)
{
    fli_task *tasks[FLI_TOGETHER] = {0};
    size_t posed = 0, which = solver_of(c, &list[0]->ask);
    for (size_t i = 0; i < n; i++) {
        pose(c, &w->slots[posed], list[i], c->caches[which]);
        if (!list[i]->status) tasks[posed] = &w->slots[posed].task, posed++;
    }
    c->solvers.at[which]->solve(c->ctx, w->instances[which], tasks, posed);
    for (size_t i = 0; i < posed; i++) answer(c, &w->slots[i]);
}

static fl_status measure(fli_clients *c, fli_exchange *x, fli_eval *eval)
{
    x->why.text[0] = 0;
    fl_status s = fli_evaluate(&c->evaluates, eval, x);
    if (s || !(s = fli_model_why(c->spec.model, &x->why, " when client %" PRIu32 " was measured", x->ask.client)))
        return s;
    fli_fault_note(c->fault, &x->why);
    return s;
}

static int same_solver(const fli_clients *c, const fli_exchange *a, const fli_exchange *b)
{
    return b->ask.kind == FLI_ASK_TURN && solver_of(c, &a->ask) == solver_of(c, &b->ask);
}

void fli_clients_work(fli_clients *c, fli_exchange *const *list, size_t n, size_t place)
{
    workspace *w = &c->spaces[place];
    size_t turns = 0;
    for (size_t at = 0; at < n; at += turns) {
        if (list[at]->ask.kind != FLI_ASK_TURN) {
            list[at]->status = measure(c, list[at], w->eval);
            turns = 1;
            continue;
        }
        for (turns = 1; at + turns < n && turns < c->spec.together && same_solver(c, list[at], list[at + turns]);)
            turns++;
        take_turns(c, list + at, turns, w);
    }
}

double fli_clients_effort(const fli_clients *c, const fli_ask *ask)
{
    size_t n = fli_fed_size(c->spec.fed, ask->client);
    if (ask->kind != FLI_ASK_TURN) return (double)n;
    size_t per_epoch = fli_epoch_steps(&c->spec.sgd, n);
    size_t cost = fli_solver_cost(c->solvers.at[solver_of(c, ask)], (size_t)ask->steps, per_epoch);
    return (double)cost * (double)fli_batch_size(&c->spec.sgd, n);
}

size_t fli_clients_state(const fli_clients *c, size_t *spilled)
{
    *spilled = fli_store_spilled(c->store);
    return fli_store_bytes(c->store);
}

fl_status fli_clients_peek(fli_clients *c, uint32_t client, size_t k, void *vector, double *scalars, int *there)
{
    void *const *kept;
    fl_status s = fli_store_peek(c->store, client, &kept);
    *there = !s && kept;
    if (!*there) return s;
    if (vector) fli_copy(&c->space, kept[k], vector);
    if (scalars) memcpy(scalars, fli_store_scalars(c->store, client), c->spec.algo->client_scalars * sizeof *scalars);
    fli_store_release(c->store, client);
    return FL_OK;
}

/* ---- checkpoints ----------------------------------------------------------------------------------------- */

static void save_caches(const fli_clients *c, size_t which, fli_saver *out)
{
    const fli_solver *solver = c->solvers.at[which];
    void *const *caches = c->caches[which];
    size_t count = 0, clients = caches && solver->save ? fli_fed_here(c->spec.fed) : 0;
    for (size_t i = 0; i < clients; i++) count += caches[i] != NULL;
    fli_save_part(out, "solver");
    fli_save_count(out, count);
    for (size_t i = 0; i < clients; i++) {
        if (!caches[i]) continue;
        fli_save_count(out, c->spec.fed->first + i);
        solver->save(caches[i], out);
    }
}

static fl_status load_caches(fli_clients *c, size_t which, fli_loader *in)
{
    const fli_solver *solver = c->solvers.at[which];
    void **caches = c->caches[which];
    size_t first = c->spec.fed->first, clients = fli_fed_here(c->spec.fed);
    fl_status s = FL_OK;
    fli_load_part(in, "solver");
    for (uint64_t left = fli_load_count(in, caches && solver->load ? clients : 0); left && !s; left--) {
        size_t client = (size_t)fli_load_count(in, first + clients - 1);
        if (!(s = fli_loader_status(in)) && (client < first || caches[client - first]))
            s = fli_loader_refuse(in, "does not fit this run: a client is in it twice, or not here");
        if (!s) s = solver->load(c->ctx, in, &caches[client - first]);
    }
    return s ? s : fli_loader_status(in);
}

void fli_clients_save(fli_clients *c, fli_saver *out)
{
    fli_store_save(c->store, out);
    for (size_t k = 0; k < c->solvers.count; k++) save_caches(c, k, out);
}

fl_status fli_clients_load(fli_clients *c, fli_loader *in)
{
    fl_status s = fli_store_load(c->store, in);
    for (size_t k = 0; !s && k < c->solvers.count; k++) s = load_caches(c, k, in);
    return s;
}
