#include "client/clients.h"

#include "algo/user_method.h"
#include "client/store.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#define WARM_UP UINT32_MAX /* stands for the round, in random streams */

/* The most vectors of an answer. */
enum { ANSWERED = 4 };

/* A turn under way, from pose to answer. */
typedef struct {
    fli_task task;
    int finite, own_finite; /* whether the answer is finite, and the own model in it */
    fl_turn turn;
    fli_view view;
    fli_client_state kept;
    fli_message work;     /* the method's scratch vectors */
    const void **seen;    /* the server's vectors as the method may see them, for methods that do not see all */
    double *seen_numbers; /* the same for numbers (fli_method_hide) */
    fli_exchange *exchange;
    fl_failure failure;
} turn_slot;

/* What one call works with. */
typedef struct {
    fli_eval *eval;
    void *instances[FL_STAGES]; /* of the solvers */
    turn_slot *slots;           /* spec.together of them */
    size_t ready;               /* slots that have memory */
    turn_slot **turns;          /* slots under way */
    fli_task **tasks;           /* their tasks */
    const void **answered;      /* all vectors of their answers */
    unsigned char *finite;      /* whether those are finite */
    size_t open;                /* turns whose finite flags are still pending */
} workspace;

struct fli_clients {
    fl_ctx *ctx;
    fli_clients_spec spec;
    const fli_setup *setup;
    fl_space space;
    fli_solvers solvers;      /* of the method's stages, each solver once */
    void **caches[FL_STAGES]; /* by solver and client here: what the solver keeps; NULL: nothing */
    fli_store *store;
    workspace *spaces;
    size_t count;
    fli_evaluate_side evaluates;
    fli_user_failure own_failure, *failure; /* where failures of user functions are recorded */
    atomic_flag warned;                     /* that a solver does not report its weight */
};

/* ---- life ------------------------------------------------------------------------------------------------ */

static fl_status make_seen(fli_clients *c, turn_slot *t)
{
    const fl_method *a = c->setup->algo;
    if (!fli_method_hides(a)) return FL_OK;
    t->seen = fli_alloc(c->ctx, fli_names_count(a->server), sizeof *t->seen);
    t->seen_numbers = fli_alloc(c->ctx, a->server_scalars + 1, sizeof *t->seen_numbers);
    return t->seen && t->seen_numbers ? FL_OK : FL_ENOMEM;
}

/* Makes sure that the first n slots have memory. */
static fl_status make_ready(fli_clients *c, workspace *w, size_t n)
{
    const fl_solver *roomiest = fli_solver_roomiest(c->solvers.at, c->solvers.count);
    for (; w->ready < n; w->ready++) {
        turn_slot *t = &w->slots[w->ready];
        fl_status s = fli_task_init(c->ctx, roomiest, &c->space, &t->task);
        if (!s && (s = fli_message_init(c->ctx, &c->space, c->setup->algo->work, 0, &t->work))) fli_task_fini(&t->task);
        if (s || (s = make_seen(c, t))) return s;
    }
    return FL_OK;
}

/* A site solves more turns together than most cohorts have: there, slots get memory when they are first used. */
static fl_status slots_new(fli_clients *c, workspace *w)
{
    size_t n = c->spec.together;
    w->slots = fli_alloc(c->ctx, n, sizeof *w->slots);
    w->turns = fli_alloc(c->ctx, n, sizeof *w->turns);
    w->tasks = fli_alloc(c->ctx, n, sizeof *w->tasks);
    w->answered = fli_alloc(c->ctx, n, ANSWERED * sizeof *w->answered);
    w->finite = fli_alloc(c->ctx, n, ANSWERED);
    if (!w->slots || !w->turns || !w->tasks || !w->answered || !w->finite) return FL_ENOMEM;
    return make_ready(c, w, c->spec.site ? 0 : n);
}

static fl_status workspaces_new(fli_clients *c, fli_eval *evals)
{
    fl_status s = FL_OK;
    c->spaces = fli_alloc(c->ctx, c->count, sizeof *c->spaces);
    if (!c->spaces) return FL_ENOMEM;
    for (size_t i = 0; !s && i < c->count; i++) {
        fli_open how = {c->setup->model, c->setup->sgd, c->setup->fed->largest, &evals[i], c->spec.halt};
        c->spaces[i].eval = &evals[i];
        for (size_t k = 0; !s && k < c->solvers.count; k++)
            s = fli_solver_open(c->ctx, c->solvers.at[k], &how, &c->spaces[i].instances[k]);
        if (!s) s = slots_new(c, &c->spaces[i]);
    }
    return s;
}

static void forget(const fli_clients *c, size_t which, void *cache)
{
    const fl_solver *s = c->solvers.at[which];
    if (!cache) return;
    fli_registry_enter(s->traits);
    s->forget(cache);
    fli_registry_leave(s->traits);
}

/* fli_store_spec.left: a cached factor leaves memory with its client's state. It can be computed again. */
static void left_memory(void *clients, size_t client)
{
    fli_clients *c = clients;
    for (size_t k = 0; k < c->solvers.count; k++) {
        if (!c->caches[k] || fli_solver_engine_of(c->solvers.at[k])->save) continue;
        void **cache = &c->caches[k][fli_fed_place(c->setup->fed, client)];
        forget(c, k, *cache);
        *cache = NULL;
    }
}

/* fli_store_spec.here: with several ranks, each has only some of the clients. */
static int is_here(const void *clients, size_t client)
{
    const fli_setup *setup = ((const fli_clients *)clients)->setup;
    return !setup->rank_owner || setup->rank_owner->owner[client] == setup->ranks->rank;
}

static fl_status state_new(fli_clients *c)
{
    fli_store_spec spec = {
        .space = c->space,
        .clients = c->setup->clients,
        .vectors = fli_algo_client_vectors(c->setup->algo, c->setup->measure_potential),
        .scalars = fli_algo_client_scalars(c->setup->algo, c->setup->measure_potential),
        .budget = c->spec.memory,
        .folder = c->spec.folder,
        .left = left_memory,
        .here = is_here,
        .arg = c,
    };
    for (size_t k = 0; k < c->solvers.count; k++)
        if (c->solvers.at[k]->forget && !(c->caches[k] = fli_alloc(c->ctx, c->setup->fed->here, sizeof **c->caches)))
            return FL_ENOMEM;
    return fli_store_new(c->ctx, &spec, &c->store);
}

/* By client: where a solver keeps the second block; NULL: hidden. Clients of asynchronous methods may be at work while
 * others are measured, so theirs is hidden. */
static void *const *second_block(const fli_clients *c)
{
    if (fli_algo_is_async(c->setup->algo)) return NULL;
    for (size_t k = 0; k < c->solvers.count; k++)
        if (c->solvers.at[k]->traits & FLI_SOLVER_SECOND_BLOCK) return c->caches[k];
    return NULL;
}

/* At a site, its solvers replace those that the method asks for. */
static fl_status solvers_there(fli_clients *c)
{
    for (size_t k = 0; c->spec.site && k < c->solvers.count; k++) {
        const fl_solver *there = c->spec.site->solver(c->solvers.at[k]);
        if (!there)
            return fli_fail(c->ctx, FL_ECONFIG, "algorithm %s: there is no %s solver where the run is computed",
                            c->setup->algo->name, c->solvers.at[k]->name);
        c->solvers.at[k] = there;
    }
    return FL_OK;
}

fl_status fli_clients_new(fl_ctx *ctx, const fli_clients_spec *spec, size_t workspaces, fli_eval *evals,
                          fli_clients **out)
{
    fl_status s;
    fli_clients *c = fli_alloc(ctx, 1, sizeof *c);
    if (!c) return FL_ENOMEM;
    c->ctx = ctx;
    c->spec = *spec;
    c->setup = spec->setup;
    c->failure = spec->user_failure ? spec->user_failure : &c->own_failure;
    if (spec->site) c->spec.together = spec->site->lanes;
    if (!c->spec.together) c->spec.together = 1;
    c->space = spec->setup->model->space;
    c->space.place = spec->site ? spec->site->place : NULL;
    c->solvers = spec->setup->solvers;
    c->count = workspaces;
    if ((s = solvers_there(c)) || (s = workspaces_new(c, evals)) || (s = state_new(c))) {
        fli_clients_free(c);
        return s;
    }
    c->evaluates = (fli_evaluate_side){
        .ctx = ctx, .setup = spec->setup, .space = c->space, .store = c->store, .kept = second_block(c)};
    *out = c;
    return FL_OK;
}

static void workspace_free(const fli_clients *c, workspace *w)
{
    for (size_t i = 0; i < w->ready; i++) {
        fli_task_fini(&w->slots[i].task);
        fli_message_fini(&w->slots[i].work);
        fli_free(w->slots[i].seen);
        fli_free(w->slots[i].seen_numbers);
    }
    fli_free(w->slots);
    fli_free(w->turns);
    fli_free(w->tasks);
    fli_free(w->answered);
    fli_free(w->finite);
    for (size_t k = 0; k < c->solvers.count; k++) fli_solver_close(c->solvers.at[k], w->instances[k]);
}

void fli_clients_free(fli_clients *c)
{
    if (!c) return;
    for (size_t i = 0; c->spaces && i < c->count; i++) workspace_free(c, &c->spaces[i]);
    fli_free(c->spaces);
    for (size_t k = 0; k < c->solvers.count; k++) {
        for (size_t i = 0; c->caches[k] && i < c->setup->fed->here; i++) forget(c, k, c->caches[k][i]);
        fli_free(c->caches[k]);
    }
    fli_store_free(c->store);
    fli_free(c);
}

/* ---- a turn ---------------------------------------------------------------------------------------------- */

/* Which of the solvers an ask needs. */
static size_t solver_of(const fli_clients *c, const fl_ask *ask)
{
    return c->solvers.of[fli_algo_stage(c->setup->algo, c->setup->params, ask->phase, ask->phases)];
}

/* The random stream of a turn's mini-batches. Every phase of a round has its own. */
static fli_rng batches(const fli_clients *c, const fl_ask *ask)
{
    uint64_t seed = c->setup->seed;
    fli_rng rng;
    if (ask->phase) {
        fli_rng_init(&rng, seed, FLI_RNG_ALGO, ask->phase, 1);
        seed = fli_rng_u64(&rng);
    }
    uint32_t stream = ask->warm_up ? WARM_UP : (uint32_t)ask->stream;
    fli_rng_init(&rng, seed, FLI_RNG_BATCH, stream, ask->client);
    return rng;
}

static fl_turn turn_of(const fli_clients *c, turn_slot *t)
{
    const fl_ask *ask = &t->exchange->ask;
    const fli_message *down = t->exchange->down;
    const fl_method *a = c->setup->algo;
    fl_turn turn = {
        .space = c->space,
        .arg = fli_method_arg(a, c->setup->params),
        .bound = c->setup->params,
        .ask = *ask,
        .clients = c->setup->clients,
        .stage = fli_algo_stage(a, c->setup->params, ask->phase, ask->phases),
        .first = t->kept.first,
        .sent = (ask->flags & FLI_ASK_HAS_BODY) != 0,
        .initial = ask->flags & FLI_ASK_FIRST ? down->start : NULL,
        .down = (const void *const *)down->vec,
        .down_scalars = down->num,
        .history = down->history,
        .state = t->kept.vectors,
        .scalars = t->kept.scalars,
        .watched = c->setup->measure_potential,
        .work = t->work.vec,
        .up = t->exchange->up.vec,
        .up_scalars = t->exchange->up.num,
        .failure = &t->failure,
    };
    if (t->seen)
        fli_method_hide(a, fli_names_count(a->server), t->seen, t->seen_numbers, t->work.vec[a->work - 1], &turn);
    return turn;
}

/* Call after a function of the method: records its failure. */
static fl_status check_call(fli_clients *c, turn_slot *t, const char *call)
{
    fli_exchange *x = t->exchange;
    if (!fli_has_failed(&t->failure)) return FL_OK;
    x->why = t->failure;
    fli_user_failure_word(&x->why, c->setup->algo, call, &x->ask, (size_t)x->ask.round);
    fli_user_failure_note(c->failure, &x->why);
    return FL_ECALLBACK;
}

/* Call before a function of the method: none is called once one has failed. */
static fl_status may_call(const fli_clients *c, turn_slot *t)
{
    t->failure.text[0] = 0;
    if (!fli_user_failure_there(c->failure)) return FL_OK;
    t->exchange->why = c->failure->first;
    return FL_ECALLBACK;
}

/* Releases the samples and the state: the turn has ended or failed. */
static void end_turn(fli_clients *c, turn_slot *t)
{
    fli_view_close(&t->view);
    if (t->kept.scalars) fli_store_release(c->store, t->exchange->ask.client);
}

/* Gets the client's state and its samples. */
static fl_status begin_turn(fli_clients *c, turn_slot *t, fli_exchange *x)
{
    uint32_t client = x->ask.client;
    t->exchange = x;
    x->own_diverged = 0;
    x->why.text[0] = 0;
    fl_status s = fli_store_get(c->store, client, &t->kept);
    if (s) return s;
    s = fli_view_open(c->ctx, c->setup->fed, client, &t->view);
    if (s && t->kept.scalars) fli_store_release(c->store, client);
    return s;
}

static void pose(fli_clients *c, turn_slot *t, void **caches)
{
    fli_exchange *x = t->exchange;
    uint32_t client = x->ask.client;
    for (size_t i = 0; c->spec.poison && i < c->setup->algo->work; i++) fli_fill(&c->space, NAN, t->work.vec[i]);
    t->turn = turn_of(c, t);
    memset(&t->task.problem, 0, sizeof t->task.problem); /* every variant of its union */
    t->task.problem.lr = x->ask.lr;
    t->task.problem.steps = (size_t)x->ask.steps;
    t->task.view = &t->view;
    t->task.rng = batches(c, &x->ask);
    t->task.cache = caches ? &caches[fli_fed_place(c->setup->fed, client)] : NULL;
    t->task.taken = x->ask.round * x->ask.steps;
    t->task.round = x->ask.round;
    t->task.seed = c->setup->seed;
    t->task.client = client;
    if (!(x->status = may_call(c, t))) {
        fli_algo_pose(c->setup->algo, &t->turn, &t->task.problem);
        x->status = check_call(c, t, "pose");
    }
    if (x->status) end_turn(c, t);
}

/* Whether the objective or the solver has failed. */
static fl_status solver_status(fli_clients *c, turn_slot *t)
{
    fli_exchange *x = t->exchange;
    fl_status s = fli_model_why(c->setup->model, &x->why, " at client %" PRIu32 ", round %" PRIu64, x->ask.client,
                                x->ask.round + 1);
    if (s || !(s = t->task.status)) return s;
    if (s == FL_ECALLBACK) x->why = t->task.why;
    return s;
}

/* All vectors of an answer; the own model comes last. */
static size_t vectors_of(const turn_slot *t, const void **out)
{
    const fl_answer *a = &t->task.answer;
    const void *all[ANSWERED] = {a->z, a->levels.v, a->gradient, a->pair.own};
    size_t n = 0;
    for (size_t k = 0; !t->task.status && k < ANSWERED; k++)
        if (all[k]) out[n++] = all[k];
    return n;
}

/* Reads the finite flags of these turns' answers. */
static void note_finite(const fli_clients *c, workspace *w, size_t turns)
{
    fli_found(&c->space);
    const unsigned char *finite = w->finite;
    for (size_t i = 0; i < turns; i++) {
        turn_slot *t = w->turns[i];
        size_t n = vectors_of(t, w->answered);
        t->finite = 1;
        for (size_t k = 0; k < n; k++) t->finite = t->finite && finite[k];
        t->own_finite = !n || !t->task.answer.pair.own || finite[n - 1];
        finite += n;
    }
}

/* Checks all answers at once. At a site they count as finite until fli_clients_settle. */
static void find_finite(const fli_clients *c, workspace *w, size_t turns)
{
    size_t count = 0;
    for (size_t i = 0; i < turns; i++) count += vectors_of(w->turns[i], w->answered + count);
    if (count) fli_finite_soon(&c->space, count, w->answered, w->finite);
    if (!c->spec.site) {
        note_finite(c, w, turns);
        return;
    }
    for (size_t i = 0; i < turns; i++) w->turns[i]->finite = w->turns[i]->own_finite = 1;
    w->open = turns;
}

/* A device that has failed must not count as divergence. */
static fl_status finite_status(const fli_clients *c, turn_slot *t)
{
    fl_status s = t->finite ? FL_OK : fli_space_status(&c->space, c->ctx);
    if (s) return s;
    t->exchange->own_diverged = !t->own_finite;
    return t->finite ? FL_OK : FL_EDIVERGED;
}

static fl_status check(fli_clients *c, turn_slot *t)
{
    fl_status s = solver_status(c, t);
    if (s == FL_ECALLBACK) fli_user_failure_note(c->failure, &t->exchange->why);
    return s ? s : finite_status(c, t);
}

static void warn_of_weight(fli_clients *c, const turn_slot *t)
{
    const fl_method *a = c->setup->algo;
    const fl_solver *s = c->solvers.at[solver_of(c, &t->exchange->ask)];
    if (!(s->traits & FLI_SOLVER_REGISTERED) || t->task.answer.weighed ||
        !(a->traits & (FL_METHOD_PLAIN_SGD | FL_METHOD_NORMALISES)))
        return;
    if (!atomic_flag_test_and_set(&c->warned))
        fli_log(c->ctx, FL_LOG_WARNING,
                "%s %s: solver %s has not said the weight of its gradients, so the %s may be wrong", a->name,
                a->traits & FL_METHOD_PLAIN_SGD ? "is defined for plain SGD" : "divides by the weight of the gradients",
                s->name, a->traits & FL_METHOD_PLAIN_SGD ? "corrections" : "average");
}

static void answer(fli_clients *c, turn_slot *t)
{
    fli_exchange *x = t->exchange;
    if (!(x->status = check(c, t)) && !(x->status = may_call(c, t))) {
        warn_of_weight(c, t);
        fli_algo_answer(c->setup->algo, &t->turn, &t->task.answer);
        x->status = check_call(c, t, "answer");
        x->spent = t->task.answer.steps;
        x->missed = t->task.answer.missed;
    }
}

/* At a place, operations on vectors belong to turn i until fli_place_ops.join; after it they belong to all turns. */
static void lane(const fli_clients *c, size_t i)
{
    fli_place *place = c->space.place;
    if (place) place->does->lane(place, i);
}

static void join(const fli_clients *c)
{
    fli_place *place = c->space.place;
    if (place) place->does->join(place);
}

/* Begins and poses these turns. Returns how many have to be solved. */
static size_t pose_all(fli_clients *c, fli_exchange *const *list, size_t n, workspace *w, void **caches)
{
    size_t begun = 0, posed = 0;
    fl_status room = make_ready(c, w, n);
    for (size_t i = 0; i < n; i++) {
        list[i]->status = room ? room : begin_turn(c, &w->slots[begun], list[i]);
        if (!list[i]->status) begun++;
    }
    for (size_t i = 0; i < begun; i++) {
        turn_slot *t = &w->slots[i];
        lane(c, i);
        pose(c, t, caches);
        if (t->exchange->status) continue;
        w->tasks[posed] = &t->task;
        w->turns[posed++] = t;
    }
    join(c);
    return posed;
}

void fli_clients_settle(fli_clients *c, size_t place)
{
    workspace *w = &c->spaces[place];
    if (w->open) note_finite(c, w, w->open);
    for (size_t i = 0; i < w->open; i++) {
        turn_slot *t = w->turns[i];
        if (!t->exchange->status) t->exchange->status = finite_status(c, t);
    }
    w->open = 0;
}

/* Carries out at most spec.together turns, all with one solver. */
static void take_turns(fli_clients *c, fli_exchange *const *list, size_t n, size_t place)
{
    workspace *w = &c->spaces[place];
    fli_clients_settle(c, place);
    size_t which = solver_of(c, &list[0]->ask);
    size_t posed = pose_all(c, list, n, w, c->caches[which]);
    if (!posed) return;
    fli_solver_run(c->ctx, c->solvers.at[which], w->instances[which], w->tasks, posed);
    find_finite(c, w, posed);
    for (size_t i = 0; i < posed; i++) {
        lane(c, i);
        answer(c, w->turns[i]);
    }
    join(c);
    for (size_t i = 0; i < posed; i++) end_turn(c, w->turns[i]);
}

static void measure(fli_clients *c, fli_exchange *const *list, size_t n, fli_eval *eval)
{
    fli_evaluate(&c->evaluates, eval, list, n);
    for (size_t i = 0; i < n; i++) {
        fli_exchange *x = list[i];
        x->why.text[0] = 0;
        if (x->status) continue;
        x->status = fli_model_why(c->setup->model, &x->why, " when client %" PRIu32 " was measured", x->ask.client);
        if (x->status) fli_user_failure_note(c->failure, &x->why);
    }
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
            for (turns = 1; c->spec.site && at + turns < n && list[at + turns]->ask.kind != FLI_ASK_TURN;) turns++;
            measure(c, list + at, turns, w->eval);
            continue;
        }
        for (turns = 1; at + turns < n && turns < c->spec.together && same_solver(c, list[at], list[at + turns]);)
            turns++;
        take_turns(c, list + at, turns, place);
    }
}

double fli_clients_effort(const fli_clients *c, const fl_ask *ask)
{
    size_t n = fli_fed_size(c->setup->fed, ask->client);
    if (ask->kind != FLI_ASK_TURN) return (double)n;
    size_t per_epoch = fli_epoch_steps(&c->setup->sgd, n);
    size_t cost = fli_solver_cost(c->solvers.at[solver_of(c, ask)], (size_t)ask->steps, per_epoch);
    return (double)cost * (double)fli_batch_size(&c->setup->sgd, n);
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
    if (vector) fli_vector_read(&c->space, fli_bytes(&c->space), kept[k], vector);
    if (scalars) memcpy(scalars, fli_store_scalars(c->store, client), c->setup->algo->client_scalars * sizeof *scalars);
    fli_store_release(c->store, client);
    return FL_OK;
}

/* ---- checkpoints ----------------------------------------------------------------------------------------- */

static void save_caches(const fli_clients *c, size_t which, fli_saver *out)
{
    void (*save)(const void *cache, fli_saver *out) = fli_solver_engine_of(c->solvers.at[which])->save;
    void *const *caches = c->caches[which];
    size_t count = 0, clients = caches && save ? c->setup->fed->here : 0;
    for (size_t i = 0; i < clients; i++) count += caches[i] != NULL;
    fli_save_part(out, "solver");
    fli_save_count(out, count);
    for (size_t i = 0; i < clients; i++) {
        if (!caches[i]) continue;
        fli_save_count(out, fli_fed_at(c->setup->fed, i));
        save(caches[i], out);
    }
}

/* Also reads past the cache of a client of another rank. */
static fl_status load_cache(fli_clients *c, size_t which, size_t client, fli_loader *in)
{
    void *other = NULL, **cache = &other;
    if (is_here(c, client)) cache = &c->caches[which][fli_fed_place(c->setup->fed, client)];
    if (*cache) return fli_loader_refuse(in, "does not fit this run: a client is in it twice");
    fl_status s = fli_solver_engine_of(c->solvers.at[which])->load(c->ctx, in, cache);
    forget(c, which, other);
    return s;
}

static fl_status load_caches(fli_clients *c, size_t which, fli_loader *in)
{
    const fli_fed *fed = c->setup->fed;
    int saved = c->caches[which] && fli_solver_engine_of(c->solvers.at[which])->load;
    size_t first = c->setup->rank_owner ? 0 : fed->first, clients = c->setup->rank_owner ? fed->clients : fed->here;
    fl_status s = FL_OK;
    fli_load_part(in, "solver");
    for (uint64_t left = fli_load_count(in, saved ? clients : 0); left && !s; left--) {
        size_t client = (size_t)fli_load_count(in, first + clients - 1);
        if (!(s = fli_loader_status(in)) && client < first)
            s = fli_loader_refuse(in, "does not fit this run: a client is not here");
        if (!s) s = load_cache(c, which, client, in);
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
