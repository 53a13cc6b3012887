/* Asynchronous runs on one of two clocks: an event queue on a virtual clock, or remote clients on the real clock, which
 * one thread serves. Both share the bookkeeping: a `flight` is a turn under way; flights that started from one model
 * share it. */
#include "engine/async.h"

#include "base/os.h"
#include "message/exchange.h"

#include <math.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

/* ==== clients at work ====================================================================================== */

/* A model that was sent. Clients that got the same one share it. It does not change while one of them is at work: they
 * read it, on any thread, while the server writes the next one. The dual-memory server of [DR] B.1 has one copy to read
 * and one to write; here there is a copy per model in use, so a slow reader neither delays the server nor sees half a
 * model. */
typedef struct sent_model {
    struct sent_model *next; /* in the list of unused ones */
    size_t users, version;
    fli_message model;
} sent_model;

/* The turn of a client at work, or one whose answer has not been absorbed. */
typedef struct flight {
    fli_exchange x;
    struct flight *before, *after; /* in the order of sending */
    size_t version;                /* number of server steps when it was sent */
    size_t number;                 /* its number among all turns that were ever sent */
    double arrival;                /* virtual clock */
    size_t place;                  /* index in the queue */
    sent_model *from;
    int worked;
    int taken; /* real clock: it was sent and is not answered */
} flight;

/* The virtual clock: when answers arrive. */
typedef struct {
    double clock;
    flight **queue; /* heap: earliest arrival first */
    size_t queued;
    fli_exchange **todo;
} virtual_clock;

/* The real clock: when a run ends, and failures. */
typedef struct {
    size_t until;
    size_t lost; /* failed turns in a row */
    double end;  /* by fli_clock_now */
    const atomic_int *stop_requested;
} real_clock;

struct fli_async {
    fl_ctx *ctx;
    fli_async_spec spec;
    fli_carried_by by;
    fl_space space;
    const fl_method *algo;
    flight *flights; /* at_work of them */
    flight *oldest, *newest;
    size_t version;      /* server steps done */
    size_t sent;         /* turns ever begun */
    size_t held;         /* uploads absorbed since the last server step */
    unsigned char *busy; /* a bit per client: at work */
    uint64_t *answered;  /* by client, if there is `save`: 1 + `saves` at its last answer; 0: none */
    uint64_t saves;
    sent_model *copies; /* all of them, for freeing: at most one per flight and the newest */
    size_t copy_count;
    sent_model *spare, *current;
    size_t vectors, numbers, bytes; /* of a model that is sent; bytes: of its vectors */
    fli_async_count count;
    virtual_clock arrivals;
    real_clock real;
    fl_status status; /* the failure that ended the run, on either clock */
};

static inline int is_remote(const fli_async *a) { return a->spec.real && a->by.executor->send; }
static inline int is_busy(const fli_async *a, size_t client) { return a->busy[client / 8] >> client % 8 & 1; }
static inline void flip_busy(fli_async *a, size_t client) { a->busy[client / 8] ^= (unsigned char)(1u << client % 8); }

/* The current server step. */
static inline fli_step step_of(const fli_async *a)
{
    size_t buffer = a->spec.pace.buffer;
    return (fli_step){.round = a->version, .cohort = buffer, .cohort_weight = (double)buffer / (double)a->spec.clients};
}

/* ==== the clocks =========================================================================================== */

/* ---- the next client ----------------------------------------------------------------------------------- */

/* A random idle client, all equally likely; a function of the seed, the number of the turn and the busy clients. If all
 * are at work, the one that has just answered. */
static uint32_t next_client(const fli_async *a, const flight *back)
{
    fli_rng rng;
    size_t client;
    if (a->spec.at_work == a->spec.clients && back) return back->x.ask.client;
    fli_rng_init(&rng, a->spec.seed, FLI_RNG_COHORT, (uint32_t)a->sent, 1);
    do client = fli_rng_below(&rng, a->spec.clients);
    while (is_busy(a, client));
    return (uint32_t)client;
}

/* Begins the flight's next turn, except for its model. */
static void begin(fli_async *a, flight *f, uint32_t client)
{
    fli_server_state *server = fli_exec_server_state(a->spec.exec);
    f->version = a->version;
    f->number = a->sent++;
    f->x.ask = (fl_ask){
        .round = a->version,
        .stream = f->number,
        .client = client,
        .cohort = (uint32_t)a->spec.pace.buffer,
        .phases = 1,
        .flags = FLI_ASK_HAS_BODY | FLI_ASK_REPLY,
    };
    a->spec.ask(a->spec.arg, &f->x.ask);
    fli_server_state_address(server, &f->x.ask);
    fli_server_state_note(server, &f->x.ask);
    a->count.down += (double)fli_exec_bytes_down(a->spec.exec, &f->x.ask);
    f->worked = f->taken = 0;
    flip_busy(a, client);
    f->before = a->newest;
    f->after = NULL;
    *(a->newest ? &a->newest->after : &a->oldest) = f;
    a->newest = f;
    a->count.sent++;
}

/* ---- clients that can go back by one turn ------------------------------------------------------------------ */

static void note_answer(fli_async *a, const flight *f)
{
    if (a->answered) a->answered[f->x.ask.client] = a->saves + 1;
}

/* Call before these turns are sent: saves if a client's last answer is in no save yet. */
static fl_status save_before_sending(fli_async *a, fli_exchange *const *list, size_t n)
{
    for (size_t i = 0; a->answered && i < n; i++)
        if (a->answered[list[i]->ask.client] > a->saves) return a->spec.save(a->spec.arg);
    return FL_OK;
}

/* ---- answers ------------------------------------------------------------------------------------ */

/* Whether f's answer may be absorbed now without making an older flight's answer older than tau. Each flight that was
 * sent before f is then absorbed one place later; the test assumes that they follow in the order of sending. */
static int may_absorb(const fli_async *a, const flight *f)
{
    size_t later = 1, tau = a->spec.pace.tau, buffer = a->spec.pace.buffer;
    if (!tau) return 1;
    for (const flight *g = a->oldest; g != f; g = g->after, later++)
        if (a->version + (a->held + later) / buffer > g->version + tau) return 0;
    return 1;
}

/* The client of f is no longer at work. */
static void end_flight(fli_async *a, flight *f)
{
    *(f->before ? &f->before->after : &a->oldest) = f->after;
    *(f->after ? &f->after->before : &a->newest) = f->before;
    flip_busy(a, f->x.ask.client);
}

/* Absorbs f's answer; the server advances when the buffer is full. */
static fl_status absorb_answer(fli_async *a, flight *f)
{
    fli_server_state *server = fli_exec_server_state(a->spec.exec);
    fl_status s = f->x.status;
    if (s) return fli_server_state_failed(server, &f->x);
    size_t staleness = a->version - f->version;
    a->count.arrived++;
    a->count.steps += (double)f->x.spent;
    a->count.staleness += (double)staleness;
    if (staleness > a->count.staleness_max) a->count.staleness_max = staleness;
    a->count.up += (double)fli_exec_bytes_up(a->spec.exec, &f->x.ask);
    fli_server_state_absorb(server, &f->x, staleness);
    if ((s = fli_server_state_status(server))) return s;
    end_flight(a, f);
    if (++a->held < a->spec.pace.buffer) return FL_OK;
    a->held = 0;
    if ((s = fli_server_state_advance(server, NULL))) return s;
    a->version++;
    fli_step step = step_of(a);
    fli_server_state_begin(server, &step);
    return FL_OK;
}

/* ---- the virtual clock --------------------------------------------------------------------------------- */

static int sooner(const flight *f, const flight *g)
{
    return f->arrival != g->arrival ? f->arrival < g->arrival : f->number < g->number;
}

static void put(fli_async *a, flight *f, size_t place)
{
    a->arrivals.queue[place] = f;
    f->place = place;
}

/* Restores the heap's order: moves f up or down from `place`. */
static void place_in_queue(fli_async *a, flight *f, size_t place)
{
    for (; place && sooner(f, a->arrivals.queue[(place - 1) / 2]); place = (place - 1) / 2)
        put(a, a->arrivals.queue[(place - 1) / 2], place);
    for (size_t child; (child = 2 * place + 1) < a->arrivals.queued; place = child) {
        if (child + 1 < a->arrivals.queued && sooner(a->arrivals.queue[child + 1], a->arrivals.queue[child])) child++;
        if (!sooner(a->arrivals.queue[child], f)) break;
        put(a, a->arrivals.queue[child], place);
    }
    put(a, f, place);
}

/* Adds f to the queue of the virtual clock. */
static void enqueue(fli_async *a, flight *f) { place_in_queue(a, f, a->arrivals.queued++); }

static void dequeue(fli_async *a, flight *f)
{
    flight *last = a->arrivals.queue[--a->arrivals.queued];
    if (last != f) place_in_queue(a, last, f->place);
}

static void release_model(fli_async *a, sent_model *c)
{
    if (--c->users) return;
    c->next = a->spare;
    a->spare = c;
}

/* Copies what is sent beside the vectors of the server's present model. */
static void copy_scalars(fli_async *a, sent_model *c)
{
    const fli_message *now = fli_server_state_broadcast(fli_exec_server_state(a->spec.exec));
    memcpy(c->model.num, now->num, a->numbers * sizeof *now->num);
    c->model.start = now->start;
}

/* The serial of a sent model: remote clients that get one model share its packet. In this process copies are
 * overwritten, so there is none. */
static uint64_t serial_of(const fli_async *a, size_t version) { return is_remote(a) ? version + 1 : 0; }

/* The server's present model, for one more client. A spare copy always exists: see `copies`. */
static sent_model *present_model(fli_async *a)
{
    void *const *server = fli_server_state_vectors(fli_exec_server_state(a->spec.exec));
    if (!a->current || a->current->version != a->version) {
        if (a->current) release_model(a, a->current);
        sent_model *c = a->spare;
        a->spare = c->next;
        *c = (sent_model){.users = 1, .version = a->version, .model = c->model};
        for (size_t v = 0; v < a->vectors; v++) fli_copy(&a->space, server[v], c->model.vec[v]);
        copy_scalars(a, c);
        c->model.serial = serial_of(a, c->version);
        a->current = c;
    }
    a->current->users++;
    return a->current;
}

/* Begins a turn from the server's present model. */
static void begin_now(fli_async *a, flight *f, uint32_t client)
{
    begin(a, f, client);
    f->from = present_model(a);
    f->x.down = &f->from->model;
}

static void send(fli_async *a, flight *f, uint32_t client)
{
    begin_now(a, f, client);
    f->arrival = a->arrivals.clock + a->spec.duration(a->spec.arg, &f->x.ask);
    enqueue(a, f);
}

/* Computes all turns under way: their models are known, and no other turn changes their clients' state. */
static fl_status work_all(fli_async *a)
{
    size_t n = 0;
    for (flight *f = a->oldest; f; f = f->after)
        if (!f->worked) a->arrivals.todo[n++] = &f->x;
    fl_status s = save_before_sending(a, a->arrivals.todo, n);
    if (s) return s;
    fli_exec_run(a->spec.exec, a->arrivals.todo, n);
    for (flight *f = a->oldest; f; f = f->after) {
        if (!f->worked) note_answer(a, f);
        f->worked = 1;
    }
    /* A client that diverges is reported when its answer is absorbed; other failures at once. */
    for (size_t i = 0; i < n; i++)
        if (a->arrivals.todo[i]->status && a->arrivals.todo[i]->status != FL_EDIVERGED)
            return fli_server_state_failed(fli_exec_server_state(a->spec.exec), a->arrivals.todo[i]);
    return FL_OK;
}

static fl_status run_virtual(fli_async *a, size_t steps, const atomic_int *stop_requested)
{
    while (a->version < steps && !*stop_requested) {
        /* The server waits for the oldest answer if another one would make it too old. */
        flight *f = may_absorb(a, a->arrivals.queue[0]) ? a->arrivals.queue[0] : a->oldest;
        fl_status s = f->worked ? FL_OK : work_all(a);
        if (s) return s;
        a->arrivals.clock = fmax(a->arrivals.clock, f->arrival);
        dequeue(a, f);
        if ((s = absorb_answer(a, f))) return s;
        release_model(a, f->from);
        send(a, f, next_client(a, f));
    }
    return FL_OK;
}

/* ---- the real clock ------------------------------------------------------------------------------------ */

static int goes_on(const fli_async *a)
{
    return !a->status && a->version < a->real.until && !*a->real.stop_requested && fli_clock_now() < a->real.end;
}

/* Sends the turns that have begun and were not sent yet. */
static fl_status send_out(fli_async *a)
{
    fl_status s = FL_OK;
    for (flight *f = a->oldest; !s && f; f = f->after) {
        if (f->taken || f->worked) continue;
        if (!(s = save_before_sending(a, &(fli_exchange *){&f->x}, 1))) s = a->by.executor->send(a->by.self, &f->x);
        f->taken = 1;
    }
    return s;
}

/* Another client takes over f. */
static void replace(fli_async *a, flight *f)
{
    release_model(a, f->from);
    begin_now(a, f, next_client(a, f));
}

/* Drops a client that does not answer or has failed: its turn leaves no trace. Too many failures in a row end the run,
 * because the clients are then not the cause. */
static fl_status drop_client(fli_async *a, flight *f)
{
    fli_server_state *server = fli_exec_server_state(a->spec.exec);
    if (f->x.status != FL_EREFUSED && ++a->real.lost >= 2 * a->spec.at_work)
        return fli_server_state_failed(server, &f->x);
    fli_server_state_forget(server, &f->x.ask);
    end_flight(a, f);
    replace(a, f);
    return FL_OK;
}

/* Handles an answer, or the failure of a turn. */
static fl_status take_answer(fli_async *a, flight *f)
{
    f->taken = 0;
    f->worked = !f->x.status;
    if (f->x.status) return drop_client(a, f);
    note_answer(a, f);
    a->real.lost = 0;
    return fli_message_own(a->ctx, &a->space, &f->x.up); /* a checkpoint needs all vectors */
}

/* Absorbs the waiting answers that may be absorbed, in the order of sending. */
static fl_status take_in(fli_async *a, size_t steps)
{
    for (flight *f = a->oldest, *next; f && a->version < steps; f = next) {
        next = f->after;
        if (!f->worked || !may_absorb(a, f)) continue;
        fl_status s = absorb_answer(a, f);
        if (s) return s;
        replace(a, f);
        next = a->oldest; /* another one may be absorbed now */
    }
    return FL_OK;
}

/* Sends a model as soon as an answer has come. Turns under way stay so when this returns. */
static fl_status run_real(fli_async *a, size_t steps, const atomic_int *stop_requested)
{
    const double patience = 0.1; /* seconds after which a request to stop is noticed */
    fli_exchange *x = NULL;
    fl_status s = FL_OK;
    a->real.until = steps;
    a->real.stop_requested = stop_requested;
    while (!s && goes_on(a)) {
        if ((s = take_in(a, steps)) || a->version >= steps || (s = send_out(a))) break;
        s = a->by.executor->await(a->by.self, patience, &x);
        if (!s && x) s = take_answer(a, (flight *)((char *)x - offsetof(flight, x)));
    }
    return s ? s : fli_server_state_status(fli_exec_server_state(a->spec.exec));
}

/* ---- life ---------------------------------------------------------------------------------------------- */

static fl_status copies_new(fli_async *a)
{
    a->copy_count = a->spec.at_work + 1;
    a->copies = fli_alloc(a->ctx, a->copy_count, sizeof *a->copies);
    if (!a->copies) return FL_ENOMEM;
    for (size_t i = 0; i < a->copy_count; i++) {
        if (fli_message_init(a->ctx, &a->space, a->vectors, a->numbers, &a->copies[i].model)) return FL_ENOMEM;
        a->copies[i].next = a->spare;
        a->spare = &a->copies[i];
    }
    return FL_OK;
}

static fl_status clock_new(fli_async *a)
{
    size_t m = a->spec.at_work;
    if (a->spec.real) return FL_OK;
    a->arrivals.queue = fli_alloc(a->ctx, m, sizeof *a->arrivals.queue);
    a->arrivals.todo = fli_alloc(a->ctx, m, sizeof *a->arrivals.todo);
    return a->arrivals.queue && a->arrivals.todo ? FL_OK : FL_ENOMEM;
}

fl_status fli_pace_check(fl_ctx *ctx, const fl_pace *pace, size_t at_work)
{
    size_t oldest = (at_work - 1 + pace->buffer - 1) / pace->buffer;
    if (!pace->tau || pace->tau >= oldest) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG,
                    "algorithm.tau is %zu, but with %zu clients at work some upload may be %zu server steps old; raise "
                    "it, or let fewer work at the same time (participation.count)",
                    pace->tau, at_work, oldest);
}

fl_status fli_async_new(fl_ctx *ctx, const fli_async_spec *spec, fli_async **out)
{
    fl_status s = FL_OK;
    fli_async *a = fli_alloc(ctx, 1, sizeof *a);
    if (!a) return FL_ENOMEM;
    a->ctx = ctx;
    a->spec = *spec;
    a->real.end = INFINITY;
    a->by = fli_exec_carried_by(spec->exec);
    a->space = *fli_exec_space(spec->exec);
    a->algo = fli_exec_setup(spec->exec)->algo;
    a->vectors = fli_parts_vectors(a->algo->down);
    a->numbers = fli_parts_numbers(a->algo->down);
    a->bytes = fli_server_state_broadcast_bytes(fli_exec_server_state(spec->exec));
    size_t m = spec->at_work;
    s = fli_pace_check(ctx, &spec->pace, m);
    a->flights = fli_alloc(ctx, m, sizeof *a->flights);
    a->busy = fli_alloc(ctx, spec->clients / 8 + 1, 1);
    if (!s && (!a->flights || !a->busy)) s = FL_ENOMEM;
    if (!s && spec->save && !(a->answered = fli_alloc(ctx, spec->clients, sizeof *a->answered))) s = FL_ENOMEM;
    for (size_t i = 0; !s && i < m; i++) s = fli_exec_upload_new(spec->exec, &a->flights[i].x.up);
    if (!s) s = copies_new(a);
    if (!s) s = clock_new(a);
    if (s)
        fli_async_free(a);
    else
        *out = a;
    return s;
}

void fli_async_free(fli_async *a)
{
    if (!a) return;
    if (a->spec.real) a->by.executor->withdraw(a->by.self);
    for (size_t i = 0; a->flights && i < a->spec.at_work; i++) fli_message_fini(&a->flights[i].x.up);
    for (size_t i = 0; a->copies && i < a->copy_count; i++) fli_message_fini(&a->copies[i].model);
    fli_free(a->flights);
    fli_free(a->busy);
    fli_free(a->answered);
    fli_free(a->copies);
    fli_free(a->arrivals.queue);
    fli_free(a->arrivals.todo);
    fli_free(a);
}

/* Sends the first models. Beginning the first server step calls the method's `start`. */
static void send_first_models(fli_async *a)
{
    fli_step step = step_of(a);
    fli_server_state_begin(fli_exec_server_state(a->spec.exec), &step);
    for (size_t i = 0; i < a->spec.at_work; i++) {
        uint32_t client = a->spec.at_work == a->spec.clients ? (uint32_t)i : next_client(a, NULL);
        if (a->spec.real)
            begin_now(a, &a->flights[i], client);
        else
            send(a, &a->flights[i], client);
    }
}

fl_status fli_async_run(fli_async *a, size_t steps, const atomic_int *stop_requested)
{
    if (a->status) return fli_fail(a->ctx, a->status, "the run has failed already");
    if (!a->sent) send_first_models(a);
    if ((a->status = fli_server_state_status(fli_exec_server_state(a->spec.exec)))) return a->status;
    a->status = a->spec.real ? run_real(a, steps, stop_requested) : run_virtual(a, steps, stop_requested);
    fl_status site = fli_exec_status(a->spec.exec); /* after a failure the site's numbers may be anything */
    return site ? a->status = site : a->status;
}

void fli_async_begin_at(fli_async *a, double seconds) { a->arrivals.clock = seconds; }
void fli_async_limit(fli_async *a, double end) { a->real.end = end; }
size_t fli_async_steps(const fli_async *a) { return a->version; }
double fli_async_clock(const fli_async *a) { return a->arrivals.clock; }

int fli_async_away(const fli_async *a, uint32_t client, uint64_t *turn)
{
    if (!is_busy(a, client)) return 0;
    const flight *f = a->oldest;
    while (f && f->x.ask.client != client) f = f->after;
    if (f) *turn = f->x.ask.stream;
    return f != NULL;
}

fli_async_count fli_async_count_take(fli_async *a)
{
    fli_async_count count = a->count;
    a->count = (fli_async_count){0};
    return count;
}

/* ==== checkpoints ========================================================================================== */

/* Saves the ask and, if `there`, the upload and the outcome; not what was sent down. exchange_load returns whether they
 * are there. */
static void exchange_save(const fl_space *s, const fl_method *a, const fli_exchange *x, int there, fli_saver *out)
{
    unsigned char ask[FLI_ASK_BYTES], outcome[FLI_OUTCOME_BYTES];
    fli_ask_write(&x->ask, ask);
    fli_save_bytes(out, ask, sizeof ask);
    fli_save_count(out, there != 0);
    if (!there) return;
    fli_save_message(s, &x->up, fli_parts_vectors(a->up), fli_parts_numbers(a->up), out);
    fli_outcome_write(x, outcome);
    fli_save_bytes(out, outcome, sizeof outcome);
}

/* An upload that is not complete is not saved: a thread may be writing it. */
static void save_flight(const fli_async *a, const flight *f, fli_saver *out)
{
    exchange_save(&a->space, a->algo, &f->x, f->worked, out);
    fli_save_count(out, f->version);
    fli_save_count(out, f->number);
    fli_save_real(out, f->arrival);
    fli_save_count(out, (uint64_t)(f->from - a->copies));
}

void fli_async_save(fli_async *a, fli_saver *out)
{
    size_t flying = 0;
    for (const flight *f = a->oldest; f; f = f->after) flying++;
    a->saves++;
    fli_save_part(out, "arrivals");
    fli_save_count(out, a->version);
    fli_save_count(out, a->sent);
    fli_save_count(out, a->held);
    fli_save_real(out, a->arrivals.clock);
    fli_save_bytes(out, &a->count, sizeof a->count);
    fli_save_count(out, flying);
    for (const flight *f = a->oldest; f; f = f->after) save_flight(a, f, out);
    fli_save_count(out, a->current ? (uint64_t)(a->current - a->copies) : a->copy_count);
    for (size_t i = 0; i < a->copy_count; i++) {
        fli_save_count(out, a->copies[i].users != 0);
        if (!a->copies[i].users) continue;
        fli_save_count(out, a->copies[i].version);
        fli_save_piece(&a->space, a->copies[i].model.vec[0], a->bytes, out);
        fli_save_reals(a->copies[i].model.num, a->numbers, out);
    }
}

static int exchange_load(fl_ctx *ctx, const fl_space *s, const fl_method *a, size_t clients, fli_exchange *x,
                         fli_loader *in)
{
    unsigned char ask[FLI_ASK_BYTES], outcome[FLI_OUTCOME_BYTES];
    fli_load_bytes(in, ask, sizeof ask);
    fli_ask_read(ask, &x->ask);
    if (fli_ask_wrong(&x->ask, clients) || x->ask.kind != FLI_ASK_TURN || x->ask.phases != 1)
        fli_loader_refuse(in, "does not fit this run: a client has an impossible task");
    if (!fli_load_count(in, 1)) return 0;
    if (fli_message_own(ctx, s, &x->up)) {
        fli_loader_refuse(in, "does not fit into memory");
        return 0;
    }
    fli_load_message(s, &x->up, fli_parts_vectors(a->up), fli_parts_numbers(a->up), in);
    fli_load_bytes(in, outcome, sizeof outcome);
    if (fli_outcome_read(outcome, x)) fli_loader_refuse(in, "does not fit this run: a turn has an impossible outcome");
    return 1;
}

static fl_status load_flight(fli_async *a, flight *f, fli_loader *in)
{
    f->worked = exchange_load(a->ctx, &a->space, a->algo, a->spec.clients, &f->x, in);
    f->version = (size_t)fli_load_count(in, a->version);
    f->number = (size_t)fli_load_count(in, a->sent);
    f->arrival = fli_load_real(in);
    f->from = &a->copies[fli_load_count(in, a->copy_count - 1)];
    if (!fli_loader_status(in) && (is_busy(a, f->x.ask.client) || !isfinite(f->arrival)))
        fli_loader_refuse(in, "does not fit this run: a client at work is impossible");
    if (fli_loader_status(in)) return fli_loader_status(in);
    f->x.down = &f->from->model;
    f->from->users++;
    flip_busy(a, f->x.ask.client);
    f->before = a->newest;
    *(a->newest ? &a->newest->after : &a->oldest) = f;
    a->newest = f;
    if (!a->spec.real) enqueue(a, f);
    return FL_OK;
}

/* Loads the models that were sent; those without users are spare. */
static void load_copies(fli_async *a, fli_loader *in)
{
    size_t current = (size_t)fli_load_count(in, a->copy_count);
    a->current = current < a->copy_count ? &a->copies[current] : NULL;
    if (a->current) a->current->users++;
    a->spare = NULL;
    for (size_t i = 0; i < a->copy_count; i++) {
        sent_model *c = &a->copies[i];
        if ((int)fli_load_count(in, 1) != (c->users != 0))
            fli_loader_refuse(in, "does not fit this run: a model that went out is missing");
        if (!c->users) {
            c->next = a->spare;
            a->spare = c;
            continue;
        }
        c->version = (size_t)fli_load_count(in, a->version);
        c->model.serial = serial_of(a, c->version);
        fli_load_piece(&a->space, c->model.vec[0], a->bytes, in);
        fli_load_reals(c->model.num, a->numbers, in);
        c->model.start = fli_server_state_broadcast(fli_exec_server_state(a->spec.exec))->start;
    }
}

fl_status fli_async_load(fli_async *a, fli_loader *in)
{
    fl_status s = FL_OK;
    fli_load_part(in, "arrivals");
    a->version = (size_t)fli_load_count(in, SIZE_MAX);
    a->sent = (size_t)fli_load_count(in, SIZE_MAX);
    a->held = (size_t)fli_load_count(in, a->spec.pace.buffer - 1);
    a->arrivals.clock = fli_load_real(in);
    fli_load_bytes(in, &a->count, sizeof a->count);
    size_t flying = (size_t)fli_load_count(in, a->spec.at_work);
    if (flying != (a->sent ? a->spec.at_work : 0))
        fli_loader_refuse(in, "does not fit this run: another number of clients is at work");
    for (size_t i = 0; i < flying && !s; i++) s = load_flight(a, &a->flights[i], in);
    if (s) return s;
    load_copies(a, in);
    if ((s = fli_loader_status(in)) || !a->sent) return s;
    fli_step step = step_of(a);
    fli_server_state_resume(fli_exec_server_state(a->spec.exec), &step);
    return FL_OK;
}
