#include "engine/engine.h"

#include "client/broadcast_cache.h"
#include "message/codec.h"
#include "server/server_state.h"

#include <math.h>
#include <string.h>

struct fli_exec {
    fl_ctx *ctx;
    fli_exec_spec spec;
    const fli_setup *setup;
    fl_space space;
    void **mirror; /* copy of the server's vectors in plain memory; NULL: they are in plain memory */
    fli_workers workers;
    fli_server_state *server;
    const fli_executor *executor;
    void *clients;           /* the executor's */
    uint32_t *places;        /* with bystanders: 1 + a client's index in the cohort, 0 outside it */
    fli_exchange *exchanges; /* of the current block */
    fli_exchange **list;
    size_t block;                  /* most exchanges under way together, unless they are gathered */
    size_t room;                   /* length of exchanges and list */
    size_t rooms;                  /* exchanges that have memory */
    fli_intake *intake;            /* absorbs their uploads */
    fli_entries *ranges;           /* of the server's entries, one per rank; NULL: one process */
    fli_spent spent;               /* by the last round */
    fli_user_failure user_failure; /* of both sides */
};

/* ---- life ------------------------------------------------------------------------------------------------ */

fli_card fli_exec_card(const fli_exec *e, uint32_t client)
{
    fli_card card = {0};
    e->executor->join(e->clients, client, 0, &card);
    return card;
}

/* fli_server_state_spec.size. At a site, where all clients are here, a card per call would take noticeable time. */
static size_t size_of(const void *exec, size_t client)
{
    const fli_exec *e = exec;
    return e->spec.site ? fli_fed_size(e->setup->fed, client) : (size_t)fli_exec_card(e, (uint32_t)client).samples;
}

static fl_status clients_new(fli_exec *e)
{
    const fli_exec_spec *s = &e->spec;
    fli_clients_spec spec = {
        .setup = s->setup,
        .memory = s->memory,
        .folder = s->folder,
        .site = s->site,
        .user_failure = &e->user_failure,
    };
    return e->executor->open(e->ctx, &spec, &e->workers, &e->clients);
}

static fl_status server_new(fli_exec *e)
{
    const fli_exec_spec *s = &e->spec;
    fli_server_state_spec spec = {
        .setup = s->setup,
        .place = e->space.place,
        .samples = s->setup->fed->samples,
        .size = size_of,
        .arg = e,
        .slice = s->slice,
        .after_absorb = s->after_absorb,
        .user_failure = &e->user_failure,
    };
    if (s->setup->algo->traits & FL_METHOD_BYSTANDERS &&
        !(e->places = fli_alloc(e->ctx, s->setup->fed->clients, sizeof *e->places)))
        return FL_ENOMEM;
    return fli_server_state_new(e->ctx, &spec, &e->server);
}

/* Turns per thread and block: with several, threads wait little for each other at the block's end. */
enum { LEAST = 64, EACH = 8 };
static size_t turns_at_a_time(const fli_exec_spec *s)
{
    return s->site ? s->site->lanes : fli_pool_count(s->threads) * EACH;
}

/* Ranks wait for each other at the end of a block, and the shares of turns differ by chance. So with ranks a block is
 * the whole cohort, unless its uploads exceed this many bytes. */
enum { UPLOADS = 128 << 20 };
static size_t room_for_uploads(const fli_exec_spec *s)
{
    size_t vectors = fli_parts_vectors(s->setup->algo->up) * fli_vector_stride(&s->setup->model->space);
    return UPLOADS / (sizeof(fli_exchange) + vectors);
}

/* The block if each rank should have `each` turns in it. */
static size_t block_of(const fli_exec_spec *s, size_t each)
{
    size_t all = fli_ranked(s->setup->ranks) ? each * s->setup->ranks->count : each;
    if (fli_ranked(s->setup->ranks) && !s->site && all < room_for_uploads(s)) all = room_for_uploads(s);
    return all > LEAST || (s->site && !fli_ranked(s->setup->ranks)) ? all : LEAST;
}

/* A cohort runs in blocks of this many clients, because uploads wait in memory to be absorbed, and every client of a
 * large federation may take part. At a site: the number of its lanes. */
static size_t block_size(const fli_exec_spec *spec) { return block_of(spec, turns_at_a_time(spec)); }

/* Makes blocks equal on all ranks. */
static fl_status agree_on_block(fli_exec *e)
{
    double each = (double)turns_at_a_time(&e->spec);
    fl_status s = fli_ranks_most(e->ctx, e->setup->ranks, &each, 1);
    e->block = block_of(&e->spec, (size_t)each);
    return s;
}

static fl_status ranges_new(fli_exec *e)
{
    const fl_ranks *r = e->setup->ranks;
    if (!fli_ranked(r)) return FL_OK;
    if (!(e->ranges = fli_alloc(e->ctx, r->count, sizeof *e->ranges))) return FL_ENOMEM;
    for (uint32_t i = 0; i < r->count; i++) e->ranges[i] = fli_server_state_range(e->server, i);
    return FL_OK;
}

static fl_status block_new(fli_exec *e)
{
    fl_status s = agree_on_block(e);
    return s ? s : fli_intake_new(e->ctx, e->server, e->block, &e->intake);
}

static fl_status mirror_new(fli_exec *e)
{
    size_t vectors = fli_names_count(e->setup->algo->server), stride = fli_vector_stride(&e->space);
    if (!e->space.place) return FL_OK;
    e->mirror = fli_alloc(e->ctx, vectors, sizeof *e->mirror);
    if (!e->mirror || !(e->mirror[0] = fli_alloc(e->ctx, vectors, stride))) return FL_ENOMEM;
    for (size_t i = 1; i < vectors; i++) e->mirror[i] = (char *)e->mirror[0] + i * stride;
    return FL_OK;
}

static fl_status check_blas(fl_ctx *ctx, size_t threads)
{
    if (threads == 1 || fli_blas_thread_safe()) return FL_OK;
    return fli_fail(ctx, FL_ESYSTEM,
                    "this OpenBLAS is a serial build, which computes wrong numbers when called from several threads; "
                    "install its pthread flavour, or set threads to 1");
}

static void workers_fini(fli_workers *workers)
{
    for (size_t i = 0; workers->evals && i < workers->threads; i++) fli_eval_fini(&workers->evals[i]);
    fli_free(workers->evals);
    fli_pool_free(workers->pool);
    *workers = (fli_workers){0};
}

/* threads 0: one per processor. At a site there is one thread, and the site evaluates. */
static fl_status workers_init(fl_ctx *ctx, const fli_model *m, const fli_site *site, size_t threads,
                              fli_workers *workers)
{
    *workers = (fli_workers){0};
    fl_status s = fli_pool_new(ctx, site ? 1 : threads, &workers->pool);
    if (s) return s;
    workers->threads = fli_pool_threads(workers->pool);
    s = check_blas(ctx, workers->threads);
    if (!s && !(workers->evals = fli_alloc(ctx, workers->threads, sizeof *workers->evals))) s = FL_ENOMEM;
    for (size_t i = 0; !s && i < workers->threads; i++) {
        s = fli_eval_init(ctx, m, &workers->evals[i]);
        workers->evals[i].elsewhere = site ? site->elsewhere : NULL;
    }
    if (s) workers_fini(workers);
    return s;
}

/* This may fail on a single rank. */
static fl_status sides_new(fli_exec *e)
{
    const fli_exec_spec *spec = &e->spec;
    fl_status s = workers_init(e->ctx, spec->setup->model, spec->site, spec->threads, &e->workers);
    if (!s) s = clients_new(e);
    if (!s) s = server_new(e);
    return s ? s : ranges_new(e);
}

fl_status fli_exec_new(fl_ctx *ctx, const fli_exec_spec *spec, fli_exec **out)
{
    fli_exec *e = fli_alloc(ctx, 1, sizeof *e);
    if (!e) return FL_ENOMEM;
    e->ctx = ctx;
    e->spec = *spec;
    e->setup = spec->setup;
    e->executor = spec->executor ? spec->executor : &fli_executor_threads;
    e->space = spec->setup->model->space;
    e->space.place = spec->site ? spec->site->place : NULL;
    fl_status s = fli_ranks_agree(ctx, spec->setup->ranks, sides_new(e)); /* from here on all ranks act together */
    if (s || (s = block_new(e)) || (s = mirror_new(e))) {
        fli_exec_free(e);
        return s;
    }
    *out = e;
    return FL_OK;
}

void fli_exec_free(fli_exec *e)
{
    if (!e) return;
    for (size_t i = 0; i < e->rooms; i++) fli_message_fini(&e->exchanges[i].up);
    fli_free(e->exchanges);
    fli_free(e->list);
    fli_intake_free(e->intake);
    fli_server_state_free(e->server);
    if (e->clients) e->executor->close(e->clients);
    workers_fini(&e->workers);
    fli_free(e->places);
    fli_free(e->ranges);
    if (e->mirror) fli_free(e->mirror[0]);
    fli_free(e->mirror);
    fli_free(e);
}

const fli_setup *fli_exec_setup(const fli_exec *e) { return e->setup; }
const fli_exec_spec *fli_exec_spec_of(const fli_exec *e) { return &e->spec; }
fli_server_state *fli_exec_server_state(fli_exec *e) { return e->server; }
fli_workers *fli_exec_workers(fli_exec *e) { return &e->workers; }
const fl_space *fli_exec_space(const fli_exec *e) { return &e->space; }

/* The mirror is contiguous, as the vectors are. */
static size_t mirror_bytes(const fli_exec *e)
{
    return fli_names_count(e->setup->algo->server) * fli_vector_stride(&e->space);
}

void *const *fli_exec_server(fli_exec *e)
{
    void *const *vec = fli_server_state_vectors(e->server);
    if (!e->mirror) return vec;
    fli_vector_read(&e->space, mirror_bytes(e), vec[0], e->mirror[0]);
    return e->mirror;
}

void fli_exec_server_changed(fli_exec *e)
{
    if (!e->mirror) return;
    fli_vector_write(&e->space, mirror_bytes(e), e->mirror[0], fli_server_state_vectors(e->server)[0]);
}

fl_status fli_exec_status(const fli_exec *e)
{
    const fli_site *site = e->spec.site;
    if (!site) return FL_OK;
    fl_status s = site->place->does->status(site->place, e->ctx);
    return s ? s : site->elsewhere->status(site->elsewhere->arg, e->ctx);
}

/* ---- exchanges ------------------------------------------------------------------------------------------- */

fl_status fli_exec_upload_new(fli_exec *e, fli_message *up)
{
    const fl_method *a = e->setup->algo;
    if (e->executor->lends && !e->space.place)
        return fli_message_borrower(e->ctx, fli_parts_vectors(a->up), fli_parts_numbers(a->up), up);
    return fli_upload_init(e->ctx, &e->space, a, up);
}

void fli_exec_run(fli_exec *e, fli_exchange *const *list, size_t n) { e->executor->run(e->clients, list, n, NULL); }

fl_status fli_exec_gather(fli_exec *e, fli_exchange *const *list, size_t n)
{
    fl_status s = FL_OK;
    size_t i = 0;
    if (e->executor->gather) {
        s = e->executor->gather(e->clients, list, n);
    } else {
        fli_exec_run(e, list, n);
        for (i = 0; !s && i < n; i++) s = list[i]->status;
    }
    for (i = 0; s && i < n; i++)
        if (list[i]->status == s) return fli_server_state_failed(e->server, list[i]);
    return s;
}

fli_carried_by fli_exec_carried_by(const fli_exec *e) { return (fli_carried_by){e->executor, e->clients}; }

size_t fli_exec_bytes_down(const fli_exec *e, const fl_ask *ask)
{
    fli_wire w;
    fli_wire_of(e->setup, ask, &w);
    return fli_wire_down(&w, e->setup->model, ask);
}

size_t fli_exec_bytes_up(const fli_exec *e, const fl_ask *ask)
{
    fli_wire w;
    fli_wire_of(e->setup, ask, &w);
    return fli_wire_up(&w, e->setup->model, ask);
}

fl_status fli_exec_own_model(fli_exec *e, uint32_t client, void *out, double *mix)
{
    double share = NAN;
    size_t bytes = fli_bytes(&e->space);
    void *there = e->space.place ? fli_vector_alloc(e->ctx, &e->space, bytes) : out;
    if (!there) return FL_ENOMEM;
    fli_exchange x = {.ask = {.kind = FLI_ASK_OWN_MODEL, .client = client, .flags = FLI_ASK_HAS_BODY | FLI_ASK_REPLY},
                      .down = fli_server_state_broadcast(e->server),
                      .up = {.vec = &there, .num = &share}};
    fli_server_state_address(e->server, &x.ask);
    fli_exec_run(e, &(fli_exchange *){&x}, 1);
    if (mix) *mix = share;
    if (there != out) {
        fli_vector_read(&e->space, bytes, there, out);
        fli_vector_free(&e->space, there);
    }
    return x.status ? fli_server_state_failed(e->server, &x) : fli_exec_status(e);
}

/* ---- a round --------------------------------------------------------------------------------------------- */

/* Grows the memory of exchanges to this many. */
static fl_status make_room(fli_exec *e, size_t count)
{
    if (count > e->room) {
        fl_status s = fli_grow(e->ctx, (void **)&e->exchanges, e->room, count, sizeof *e->exchanges);
        if (!s) s = fli_grow(e->ctx, (void **)&e->list, e->room, count, sizeof *e->list);
        if (s) return s;
        e->room = count;
    }
    for (; e->rooms < count; e->rooms++) {
        fl_status s = fli_exec_upload_new(e, &e->exchanges[e->rooms].up);
        if (s) return s;
    }
    for (size_t i = 0; i < count; i++) e->list[i] = &e->exchanges[i];
    return FL_OK;
}

fl_ask fli_round_ask(const fli_exec *e, const fli_round *r, const fl_ask *own, size_t phase)
{
    fl_ask ask = *own;
    ask.round = r->round;
    ask.cohort = (uint32_t)r->count;
    ask.phase = (uint32_t)phase;
    ask.phases = (uint32_t)(r->phases ? r->phases : 1);
    ask.warm_up = r->warm_up;
    ask.flags |= r->flags;
    fli_server_state_address(e->server, &ask);
    return ask;
}

/* Turn `at` of the round: of that client of the cohort, or with bystanders of the federation. */
static fl_ask turn_at(const fli_exec *e, const fli_round *r, size_t at)
{
    if (!e->places) return r->asks[at];
    if (e->places[at]) return r->asks[e->places[at] - 1];
    return (fl_ask){.client = (uint32_t)at, .stream = r->round, .bystander = 1};
}

/* Adds up the bytes of the block. Asks of one phase with equal flags send equal bytes. */
static void count_bytes(fli_exec *e, size_t count)
{
    double down = 0, up = 0;
    for (size_t i = 0; i < count; i++) {
        const fl_ask *ask = &e->exchanges[i].ask;
        if (!i || ask->flags != e->exchanges[i - 1].ask.flags) {
            down = (double)fli_exec_bytes_down(e, ask);
            up = (double)fli_exec_bytes_up(e, ask);
        }
        e->spent.down += down;
        if (!e->exchanges[i].status) e->spent.up += up; /* missing clients cost bytes down only */
    }
}

static void ask_block(fli_exec *e, const fli_round *r, size_t phase, size_t first, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        fl_ask turn = turn_at(e, r, first + i);
        e->exchanges[i].ask = fli_round_ask(e, r, &turn, phase);
        e->exchanges[i].down = fli_server_state_broadcast(e->server);
    }
}

/* Counts an exchange that has succeeded. */
static void note_turn(fli_exec *e, const fli_exchange *x)
{
    e->spent.steps += (double)x->spent;
    fli_server_state_note(e->server, &x->ask);
    if (x->ask.flags & FLI_ASK_REPLY) fli_server_state_count(e->server, x);
}

/* Of several failed clients, the error names the first one in the cohort, not the first in time. */
static fl_status run_block(fli_exec *e, const fli_round *r, size_t phase, size_t first, size_t count)
{
    int reply = (r->flags & FLI_ASK_REPLY) != 0;
    ask_block(e, r, phase, first, count);
    fli_intake_open(e->intake, e->list, count);
    e->executor->run(e->clients, e->list, count,
                     reply ? &(fli_on_filled){fli_intake_filled, e->intake, e->ranges} : NULL);
    for (size_t i = 0; i < count; i++)
        if (e->exchanges[i].status) return fli_server_state_failed(e->server, &e->exchanges[i]);
    if (reply) fli_intake_close(e->intake, e->workers.pool);
    /* a single rank may have failed: ranks agree when the server advances */
    fl_status s = e->ranges ? FL_OK : fli_server_state_status(e->server);
    if (s) return s;
    for (size_t i = 0; i < count; i++) note_turn(e, &e->exchanges[i]);
    count_bytes(e, count);
    return FL_OK;
}

/* Notes the cohort's clients, for methods with bystanders. Returns the number of turns. */
static size_t note_places(fli_exec *e, const fli_round *r)
{
    if (!e->places) return r->count;
    memset(e->places, 0, e->setup->fed->clients * sizeof *e->places);
    for (size_t i = 0; i < r->count; i++) e->places[r->asks[i].client] = (uint32_t)i + 1;
    return e->setup->fed->clients;
}

/* One exchange with the cohort. */
static fl_status run_phase(fli_exec *e, const fli_round *r, const fli_step *step, size_t turns)
{
    fli_server_state_begin(e->server, step);
    fl_status s = fli_server_state_status(e->server);
    for (size_t at = 0; s == FL_OK && at < turns; at += e->block)
        s = run_block(e, r, step->phase, at, turns - at < e->block ? turns - at : e->block);
    /* without clients the model stays */
    if (s == FL_OK && turns && r->flags & FLI_ASK_REPLY) s = fli_server_state_advance(e->server, e->workers.pool);
    return s;
}

/* ---- a round that may go on without some clients ----------------------------------------------------------- */

/* True if the round can proceed without missing clients: a single exchange, and no method that needs everyone. */
static int may_go_on_without_some(const fli_exec *e, const fli_round *r)
{
    const unsigned needed = FL_METHOD_EVERYONE | FL_METHOD_BYSTANDERS;
    return e->executor->gather && r->phases <= 1 && !(e->setup->algo->traits & needed) && !r->warm_up;
}

/* Moves the answered exchanges to the front, in the cohort's order, and sets the step's cohort to them. Returns their
 * number. */
static size_t keep_answered(fli_exec *e, size_t count, fli_step *step)
{
    size_t came = 0;
    step->cohort_weight = 0;
    for (size_t i = 0; i < count; i++) {
        if (e->exchanges[i].status) continue;
        step->cohort_weight += e->exchanges[i].ask.weight;
        e->list[came++] = &e->exchanges[i];
    }
    for (size_t i = 0; i < came; i++) e->list[i]->ask.cohort = (uint32_t)came;
    return step->cohort = came;
}

/* Waits for all answers first: what a method does with them depends on their number. */
static fl_status gather_phase(fli_exec *e, const fli_round *r, fli_step *step)
{
    int reply = (r->flags & FLI_ASK_REPLY) != 0;
    fli_server_state_begin(e->server, step); /* fixes the broadcast */
    fl_status s = fli_server_state_status(e->server);
    if (s) return s;
    ask_block(e, r, 0, 0, r->count);
    if ((s = fli_exec_gather(e, e->list, r->count))) return s;
    count_bytes(e, r->count);
    size_t came = e->spent.came = keep_answered(e, r->count, step);
    if (came < r->count) fli_server_state_begin(e->server, step);
    if (reply && came) fli_intake_all(e->intake, e->list, came, e->workers.pool);
    if ((s = fli_server_state_status(e->server))) return s;
    for (size_t i = 0; i < came; i++) note_turn(e, e->list[i]);
    return reply && came ? fli_server_state_advance(e->server, e->workers.pool) : FL_OK;
}

fl_status fli_exec_round(fli_exec *e, const fli_round *r)
{
    fli_step step = {.round = r->round,
                     .cohort = r->count,
                     .phase = r->from,
                     .phases = r->phases ? r->phases : 1,
                     .warm_up = r->warm_up,
                     .spread = e->ranges != NULL};
    size_t until = r->until ? r->until : step.phases;
    for (size_t i = 0; i < r->count; i++) step.cohort_weight += fli_server_state_weight(e->server, r->asks[i].client);
    e->spent = (fli_spent){.came = r->count};
    size_t turns = note_places(e, r);
    int gathers = may_go_on_without_some(e, r);
    fl_status s = make_room(e, gathers || turns < e->block ? turns : e->block);
    if (s == FL_OK && gathers)
        s = gather_phase(e, r, &step);
    else
        for (; s == FL_OK && step.phase < until; step.phase++) s = run_phase(e, r, &step, turns);
    fl_status site = fli_exec_status(e); /* first: after a failure the site's numbers may be anything */
    return site ? site : s;
}

int fli_exec_warms_up(const fli_exec *e) { return fli_algo_warms_up(e->setup->algo, e->setup->params); }
fli_spent fli_exec_spent(const fli_exec *e) { return e->spent; }

/* ---- state ------------------------------------------------------------------------------------------------ */

size_t fli_exec_state(const fli_exec *e, size_t *spilled) { return e->executor->state(e->clients, spilled); }

fl_status fli_exec_peek(fli_exec *e, size_t client, size_t k, void *vector, double *scalars, int *there)
{
    *there = 0;
    if (client >= e->setup->fed->clients)
        return fli_fail(e->ctx, FL_ECONFIG, "there is no client %zu, the federation has %zu", client,
                        e->setup->fed->clients);
    if (!e->executor->peek)
        return fli_fail(e->ctx, FL_ECONFIG, "executor %s: what clients keep is not known here", e->executor->name);
    return e->executor->peek(e->clients, (uint32_t)client, k, vector, scalars, there);
}

void fli_exec_save_clients(fli_exec *e, fli_saver *out)
{
    e->executor->save(e->clients, out);
    fl_status s = fli_exec_status(e);
    if (s) fli_saver_fail(out, s);
}

fl_status fli_exec_load_clients(fli_exec *e, fli_loader *in) { return e->executor->load(e->clients, in); }

void fli_exec_save(fli_exec *e, fli_saver *out)
{
    fli_server_state_save(e->server, out);
    fli_exec_save_clients(e, out);
}

fl_status fli_exec_load(fli_exec *e, fli_loader *in)
{
    fli_server_state_load(e->server, in);
    return fli_exec_load_clients(e, in);
}

/* ==== memory =============================================================================================== */

static size_t server_vectors(const fli_exec_spec *spec, size_t cohort)
{
    const fl_method *a = spec->setup->algo;
    int apart = spec->executor && spec->executor->apart;
    size_t phases = fli_algo_phases(a, spec->setup->params, 0);
    int remembers = fli_server_state_remembers(a, spec->setup->params, spec->setup->measure_potential) > 0;
    return fli_names_count(a->server) + fli_names_count(a->sums) + (fli_algo_shows_start(a) ? 1 : 0) +
           (remembers ? 1 : 0) + fli_broadcast_cache_vectors(a, spec->setup->params, phases) * (apart ? cohort : 1);
}

/* Vectors per client at work. */
static size_t turn_vectors(const fl_method *a, int async)
{
    return fli_parts_vectors(a->up) + (async ? fli_parts_vectors(a->down) : 0);
}

static double state_bytes(const fli_exec_spec *spec, size_t cohort)
{
    double all = (double)(cohort * fli_algo_client_vectors(spec->setup->algo, spec->setup->measure_potential)) *
                 (double)fli_bytes(&spec->setup->model->space);
    return spec->memory ? fmin(all, (double)spec->memory) : all;
}

/* The memory of a thread's solvers. */
static double solving_bytes(const fli_model *m, const fli_solvers *all, const fli_sgd_spec *sgd, size_t largest)
{
    fli_open how = {.model = m, .sgd = *sgd, .largest = largest};
    double sum = fli_task_bytes(fli_solver_roomiest(all->at, all->count), m);
    for (size_t i = 0; i < all->count; i++) sum += fli_solver_bytes(all->at[i], &how);
    return sum;
}

fli_footprint fli_footprint_of(const fli_exec_spec *spec, size_t cohort, int async)
{
    const fl_method *a = spec->setup->algo;
    double vector = (double)fli_bytes(&spec->setup->model->space), threads = (double)fli_pool_count(spec->threads);
    size_t block = block_size(spec);
    /* Remote clients solve elsewhere: the samples that one claims must not take memory here. */
    double solving = spec->setup->remote_queue ? 0
                                               : solving_bytes(spec->setup->model, &spec->setup->solvers,
                                                               &spec->setup->sgd, spec->setup->fed->largest);
    double at_work = (double)(async || cohort < block ? cohort : block);
    fli_footprint f = {
        .server = (double)server_vectors(spec, cohort) * vector +
                  (spec->setup->regularizer ? 2 * (double)spec->setup->model->space.n * sizeof(double) : 0),
        .workers = threads * (fli_eval_bytes(spec->setup->model) + solving + (double)a->work * vector),
        .turns = at_work * (double)turn_vectors(a, async) * vector,
        .state = state_bytes(spec, cohort),
    };
    f.total = f.server + f.workers + f.turns + f.state;
    return f;
}

/* The site takes at most as many turns at a time as it has lanes, but their number is not known yet. */
double fli_footprint_there(const fli_exec_spec *spec, size_t cohort, int async)
{
    const fl_method *a = spec->setup->algo;
    const fli_solvers *all = &spec->setup->solvers;
    double vector = (double)fli_vector_stride(&spec->setup->model->space);
    double turn = fli_task_bytes(fli_solver_roomiest(all->at, all->count), spec->setup->model) +
                  (double)(a->work + turn_vectors(a, async)) * vector;
    return (double)server_vectors(spec, cohort) * vector + (double)cohort * turn + state_bytes(spec, cohort);
}

double fli_footprint_client(const fli_clients_spec *spec, size_t samples)
{
    const fl_method *a = spec->setup->algo;
    size_t phases = fli_algo_phases(a, spec->setup->params, 0);
    size_t kept = fli_algo_client_vectors(a, spec->setup->measure_potential) +
                  fli_broadcast_cache_vectors(a, spec->setup->params, phases);
    /* the client may store its state three times, to go back; the start model comes beside what is sent */
    size_t vectors = 3 * kept + a->work + turn_vectors(a, 1) + 1;
    return (double)vectors * (double)fli_bytes(&spec->setup->model->space) + fli_eval_bytes(spec->setup->model) +
           solving_bytes(spec->setup->model, &spec->setup->solvers, &spec->setup->sgd, samples);
}
