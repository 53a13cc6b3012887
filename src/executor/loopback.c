/* The proof that a turn can be sent: everything between server and clients becomes bytes and is read again, and the
 * clients get nothing else. A message down arrives in separate memory, which is NaN except for what was sent, and is
 * unmapped when the answer has been written; the server gets the answer in the same way. Each client has its own
 * broadcast cache. Exchanges are handled in reverse and several at a time, because the order must not matter. It is
 * slow, and has the bits of `threads`. */
#include "executor/executor.h"
#include "client/broadcast_cache.h"
#include "message/codec.h"

#include <string.h>
#include <sys/mman.h>

enum { TOGETHER = 3 };

/* An exchange as its client sees it. */
typedef struct {
    fli_exchange own;
    fli_wire parts;
    fli_message inbox;
    unsigned char *region; /* mapped for this exchange: the inbox, and the answer */
    size_t bytes, used;
} delivery;

typedef struct {
    fl_ctx *ctx;
    const fli_setup *server; /* the server's */
    fli_setup setup;         /* what the clients have made from the terms */
    void *built;             /* by the builder: owns what `setup` points to */
    fli_fed fed;             /* the clients' samples, without the server's test set */
    fli_eval eval;
    fli_clients *clients;
    fli_broadcast_cache **caches; /* by client, within a round, if clients keep anything */
} loopback;

/* ---- joining --------------------------------------------------------------------------------------------- */

/* Sends the terms as bytes. The client writes what it has read, which must be the same bytes. */
static fl_status send_terms(loopback *l, uint32_t client, fli_terms *received)
{
    fli_terms sent;
    fli_terms_make(l->server, client, &sent);
    size_t n = fli_terms_bytes(&sent);
    unsigned char *wire = fli_alloc(l->ctx, 2, n);
    if (!wire) return FL_ENOMEM;
    fli_terms_write(&sent, wire);
    fl_status s = fli_terms_read(l->ctx, wire, n, received);
    if (!s && fli_terms_bytes(received) == n) fli_terms_write(received, wire + n);
    if (!s && memcmp(wire, wire + n, n))
        s = fli_fail(l->ctx, FL_EFORMAT, "client %u: it was told something else than was sent", client);
    fli_free(wire);
    return s;
}

/* The clients make model and method from the terms of the first one; all terms are equal but for the client's number.
 * Without a builder, in tests of parts, the clients use the server's. */
static fl_status exchange_terms(loopback *l)
{
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i < l->server->clients; i++) {
        fli_terms received = {0};
        s = send_terms(l, (uint32_t)i, &received);
        if (!s && !i && l->server->builder) s = l->server->builder->make(l->ctx, &received, &l->setup, &l->built);
        fli_terms_fini(&received);
    }
    return s;
}

static fl_status join(void *executor, uint32_t client, int digest, fli_card *out)
{
    loopback *l = executor;
    unsigned char wire[FLI_CARD_BYTES];
    fli_card own;
    fl_status s = fli_card_make(l->ctx, l->setup.fed, client, digest, &own);
    if (s) return s;
    fli_card_write(&own, wire);
    return fli_card_read(l->ctx, wire, out);
}

static void close_loopback(void *executor)
{
    loopback *l = executor;
    if (!l) return;
    fli_clients_free(l->clients);
    fli_eval_fini(&l->eval);
    for (size_t i = 0; l->caches && i < l->setup.clients; i++) fli_broadcast_cache_free(l->caches[i]);
    fli_free(l->caches);
    if (l->built) l->server->builder->free(l->built);
    fli_free(l);
}

static fl_status open_loopback(fl_ctx *ctx, const fli_clients_spec *spec, fli_workers *workers, void **out)
{
    loopback *l = fli_alloc(ctx, 1, sizeof *l);
    (void)workers;
    if (!l) return FL_ENOMEM;
    l->ctx = ctx;
    l->server = spec->setup;
    l->setup = *spec->setup;
    l->fed = *spec->setup->fed;
    l->fed.test = NULL;
    l->setup.fed = &l->fed;
    fli_clients_spec own = *spec;
    own.setup = &l->setup;
    own.together = TOGETHER;
    own.poison = 1;
    fl_status s = exchange_terms(l);
    if (!s) s = fli_eval_init(ctx, l->setup.model, &l->eval);
    if (!s) s = fli_clients_new(ctx, &own, 1, &l->eval, &l->clients);
    if (!s && !(l->caches = fli_alloc(ctx, spec->setup->clients, sizeof *l->caches))) s = FL_ENOMEM;
    if (s)
        close_loopback(l);
    else
        *out = l;
    return s;
}

/* ---- an exchange ----------------------------------------------------------------------------------------- */

static void *take(delivery *d, size_t bytes)
{
    void *p = d->region + d->used;
    d->used += (bytes + 63) / 64 * 64;
    return p;
}

/* A message in the region; every value is NaN. */
static fli_message unwritten(loopback *l, delivery *d, size_t vectors, size_t numbers)
{
    size_t stride = fli_vector_stride(&l->setup.model->space);
    fli_message m = {.vec = take(d, vectors * sizeof *m.vec), .num = take(d, numbers * sizeof *m.num)};
    for (size_t i = 0; i < vectors; i++) m.vec[i] = take(d, stride);
    return m;
}

/* Includes the tables; every part is rounded up. */
static size_t message_bytes(const loopback *l, const fl_part *parts)
{
    size_t vectors = fli_parts_vectors(parts), stride = fli_vector_stride(&l->setup.model->space);
    return vectors * stride + (vectors + 8) * sizeof(void *) + (fli_parts_numbers(parts) + 8) * sizeof(double) + 128;
}

static fl_status map_region(loopback *l, delivery *d)
{
    d->used = 0;
    d->bytes = message_bytes(l, d->parts.down) + message_bytes(l, d->parts.up) +
               fli_vector_stride(&l->setup.model->space) + 64;
    d->region = mmap(NULL, d->bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (d->region == MAP_FAILED) {
        d->region = NULL;
        return fli_fail(l->ctx, FL_ENOMEM, "out of memory: a message of %zu bytes cannot be mapped", d->bytes);
    }
    memset(d->region, 0xff, d->bytes);
    return FL_OK;
}

static void unmap_region(delivery *d)
{
    if (d->region) munmap(d->region, d->bytes);
    d->region = NULL;
}

/* Replaces the parts that were not sent by those that the client has kept. */
static fl_status use_cache(loopback *l, delivery *d)
{
    uint32_t client = d->own.ask.client;
    d->own.down = &d->inbox;
    if (d->own.ask.kind != FLI_ASK_TURN) return FL_OK;
    if (!l->caches[client]) {
        fl_status s = fli_broadcast_cache_new(l->ctx, &l->setup, NULL, &l->caches[client]);
        if (s || !l->caches[client]) return s; /* the method keeps nothing */
    }
    d->own.down = fli_broadcast_cache_view(l->caches[client]);
    return fli_broadcast_cache_take(l->caches[client], &d->own.ask, &d->inbox);
}

/* Passes the ask and the message down on, as bytes. */
static fl_status deliver(loopback *l, const fli_exchange *x, delivery *d)
{
    const fli_model *m = l->setup.model;
    unsigned char ask[FLI_ASK_BYTES];
    *d = (delivery){0};
    fl_ask sent = fli_algo_tell(l->setup.algo, &x->ask);
    fli_ask_write(&sent, ask);
    fli_ask_read(ask, &d->own.ask);
    const char *wrong = fli_ask_wrong(&d->own.ask, l->setup.clients);
    if (wrong)
        return fli_fail(l->ctx, FL_EFORMAT, "client %u: it is asked for something impossible: %s", x->ask.client,
                        wrong);
    fli_wire_of(&l->setup, &d->own.ask, &d->parts);
    size_t bytes = fli_wire_down(&d->parts, m, &d->own.ask);
    unsigned char *wire = fli_alloc(l->ctx, bytes, 1);
    fl_status s = wire ? map_region(l, d) : FL_ENOMEM;
    if (!s) {
        d->inbox = unwritten(l, d, fli_parts_vectors(d->parts.down), fli_parts_numbers(d->parts.down));
        d->own.up = unwritten(l, d, fli_parts_vectors(d->parts.up), fli_parts_numbers(d->parts.up));
        void *start = take(d, fli_bytes(&m->space));
        if (bytes) fli_wire_write(d->parts.down, d->parts.moment, m, x->down, wire);
        if (bytes) s = fli_wire_read(l->ctx, d->parts.down, d->parts.moment, m, wire, bytes, &d->inbox, start);
        if (!s) s = use_cache(l, d);
    }
    fli_free(wire);
    return s;
}

/* Forgets what a client has kept of the round if this was the last exchange with its cohort. */
static void forget_cohort(loopback *l, const fl_ask *ask)
{
    uint32_t client = ask->client;
    size_t end = fli_algo_cohort_end(l->setup.algo, l->setup.params, ask->phase, ask->phases);
    if (ask->kind != FLI_ASK_TURN || ask->phase + 1 < end) return;
    fli_broadcast_cache_free(l->caches[client]);
    l->caches[client] = NULL;
}

/* Passes the answer on, as bytes; what is not sent is NaN at the server. */
static fl_status collect(loopback *l, delivery *d, fli_exchange *x)
{
    const fli_model *m = l->setup.model;
    unsigned char outcome[FLI_OUTCOME_BYTES];
    fli_outcome_write(&d->own, outcome);
    fl_status s = fli_outcome_read(outcome, x);
    x->why = d->own.why;
    if (s) fli_fail(l->ctx, s, "client %u: its report of its turn is impossible", x->ask.client);
    size_t bytes = s || x->status ? 0 : fli_wire_up(&d->parts, m, &d->own.ask);
    unsigned char *wire = fli_alloc(l->ctx, bytes, 1);
    if (wire && bytes) fli_wire_write(d->parts.up, d->parts.moment, m, &d->own.up, wire);
    unmap_region(d);
    for (size_t i = 0; i < fli_parts_vectors(d->parts.up); i++) memset(x->up.vec[i], 0xff, fli_bytes(&m->space));
    memset(x->up.num, 0xff, fli_parts_numbers(d->parts.up) * sizeof *x->up.num);
    forget_cohort(l, &x->ask);
    if (!wire) s = FL_ENOMEM;
    if (!s && bytes) s = fli_wire_read(l->ctx, d->parts.up, d->parts.moment, m, wire, bytes, &x->up, NULL);
    fli_free(wire);
    return s;
}

static void run_some(loopback *l, fli_exchange *const *list, size_t n)
{
    delivery slots[TOGETHER];
    fli_exchange *own[TOGETHER] = {0};
    size_t ready = 0, place[TOGETHER];
    for (size_t i = 0; i < n; i++) {
        if ((list[i]->status = deliver(l, list[i], &slots[i]))) {
            unmap_region(&slots[i]);
            continue;
        }
        place[ready] = i;
        own[ready++] = &slots[i].own;
    }
    fli_clients_work(l->clients, own, ready, 0);
    for (size_t i = 0; i < ready; i++) {
        fl_status s = collect(l, &slots[place[i]], list[place[i]]);
        if (s) list[place[i]]->status = s;
    }
}

static void run(void *executor, fli_exchange *const *list, size_t n, const fli_on_filled *filled)
{
    fli_exchange *some[TOGETHER];
    while (n) {
        size_t count = 0;
        while (n && count < TOGETHER) some[count++] = list[--n];
        run_some(executor, some, count);
        for (size_t i = 0; filled && i < count; i++) filled->tell(filled->arg, n + i);
    }
}

static size_t state(const void *executor, size_t *spilled)
{
    return fli_clients_state(((const loopback *)executor)->clients, spilled);
}

static void save(void *executor, fli_saver *out) { fli_clients_save(((loopback *)executor)->clients, out); }
static fl_status load(void *executor, fli_loader *in) { return fli_clients_load(((loopback *)executor)->clients, in); }

static fl_status peek(void *executor, uint32_t client, size_t k, void *vector, double *scalars, int *there)
{
    return fli_clients_peek(((loopback *)executor)->clients, client, k, vector, scalars, there);
}

const fli_executor fli_executor_loopback = {
    .name = "loopback",
    .title = "every message as bytes and back, on one thread: slow, to prove that nothing else is needed",
    .apart = 1,
    .open = open_loopback,
    .join = join,
    .run = run,
    .state = state,
    .save = save,
    .load = load,
    .peek = peek,
    .close = close_loopback,
};
