/* The clients live in this process: a worker thread with one BLAS thread answers each ask, and messages are the
 * server's own vectors. */
#include "executor/executor.h"
#include "client/broadcast_cache.h"

#include <stdlib.h>

/* An exchange, its estimated effort, and its index in the list. */
typedef struct {
    fli_exchange *exchange;
    double effort;
    size_t place;
} item;

typedef struct {
    fl_ctx *ctx;
    fli_workers *workers;
    const fli_fed *fed;
    fli_clients *clients;
    const fli_site *site;       /* NULL: this processor */
    fli_broadcast_cache *cache; /* of all clients: those of a cohort get the same messages; NULL: nothing is kept */
    item *items;
    size_t room;
    const fli_on_filled *filled; /* of the current run */
} threads;

static void close_threads(void *executor)
{
    threads *t = executor;
    if (!t) return;
    fli_clients_free(t->clients);
    fli_broadcast_cache_free(t->cache);
    fli_free(t->items);
    fli_free(t);
}

static fl_status open_threads(fl_ctx *ctx, const fli_clients_spec *spec, fli_workers *workers, void **out)
{
    threads *t = fli_alloc(ctx, 1, sizeof *t);
    if (!t) return FL_ENOMEM;
    *t = (threads){.ctx = ctx, .workers = workers, .fed = spec->setup->fed};
    t->site = spec->site;
    fl_status s = fli_broadcast_cache_new(ctx, spec->setup, spec->site ? spec->site->place : NULL, &t->cache);
    if (!s) s = fli_clients_new(ctx, spec, workers->threads, workers->evals, &t->clients);
    if (s)
        close_threads(t);
    else
        *out = t;
    return s;
}

static fl_status join(void *executor, uint32_t client, int digest, fli_card *out)
{
    const threads *t = executor;
    return fli_card_make(t->ctx, t->fed, client, digest, out);
}

/* Sorts the longest turns first, so that at the end no thread still has a long one. */
static int longer(const void *a, const void *b)
{
    const item *x = a, *y = b;
    if (x->effort != y->effort) return x->effort > y->effort ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

/* fli_pool_fn */
static void work(void *arg, size_t place, size_t worker)
{
    threads *t = arg;
    const item *i = &t->items[place];
    fli_exchange *x = i->exchange;
    fli_clients_work(t->clients, &x, 1, worker);
    if (t->filled) t->filled->tell(t->filled->arg, i->place);
}

static fl_status make_room(threads *t, size_t n)
{
    if (n <= t->room) return FL_OK;
    fl_status s = fli_grow(t->ctx, (void **)&t->items, t->room, n, sizeof *t->items);
    if (!s) t->room = n;
    return s;
}

/* If clients keep parts of broadcasts: all clients of a round get the same message, which the cache's view replaces
 * while they work. */
static fl_status use_cache(threads *t, fli_exchange *const *list, size_t n)
{
    const fli_message *sent = list[0]->down;
    fl_status s = fli_broadcast_cache_take(t->cache, &list[0]->ask, sent);
    for (size_t i = 0; !s && i < n; i++) {
        if (list[i]->down != sent) s = fli_fail(t->ctx, FL_ESYSTEM, "clients of one round are sent different messages");
        list[i]->down = fli_broadcast_cache_view(t->cache);
    }
    return s;
}

/* A site takes many turns at once. The server's operations are recorded while it computes them. */
static void work_at_site(threads *t, fli_exchange *const *list, size_t n)
{
    fli_clients_work(t->clients, list, n, 0);
    for (size_t i = 0; t->filled && i < n; i++) t->filled->tell(t->filled->arg, i);
    fli_clients_settle(t->clients, 0);
}

static void work_on(threads *t, fli_exchange *const *list, size_t n)
{
    int sorted = 1;
    for (size_t i = 0; i < n; i++) {
        t->items[i] = (item){list[i], fli_clients_effort(t->clients, &list[i]->ask), i};
        sorted = sorted && (!i || t->items[i].effort <= t->items[i - 1].effort);
    }
    if (!sorted && t->workers->threads > 1) qsort(t->items, n, sizeof *t->items, longer);
    fli_pool_run(t->workers->pool, n, work, t);
}

static void run(void *executor, fli_exchange *const *list, size_t n, const fli_on_filled *filled)
{
    threads *t = executor;
    if (!n) return;
    t->filled = filled;
    int keeps = t->cache && list[0]->ask.kind == FLI_ASK_TURN;
    const fli_message *sent = list[0]->down;
    fl_status s = make_room(t, n);
    if (!s && keeps) s = use_cache(t, list, n);
    if (!s && t->site)
        work_at_site(t, list, n);
    else if (!s)
        work_on(t, list, n);
    for (size_t i = 0; i < n; i++) {
        if (s) list[i]->status = s;
        if (keeps) list[i]->down = sent;
    }
}

static double effort(const void *executor, const fl_ask *ask)
{
    return fli_clients_effort(((const threads *)executor)->clients, ask);
}

static size_t state(const void *executor, size_t *spilled)
{
    return fli_clients_state(((const threads *)executor)->clients, spilled);
}

static void save(void *executor, fli_saver *out) { fli_clients_save(((threads *)executor)->clients, out); }
static fl_status load(void *executor, fli_loader *in) { return fli_clients_load(((threads *)executor)->clients, in); }

static fl_status peek(void *executor, uint32_t client, size_t k, void *vector, double *scalars, int *there)
{
    return fli_clients_peek(((threads *)executor)->clients, client, k, vector, scalars, there);
}

const fli_executor fli_executor_threads = {
    .name = "threads",
    .title = "clients in this process, as many at a time as there are threads",
    .open = open_threads,
    .join = join,
    .run = run,
    .effort = effort,
    .state = state,
    .save = save,
    .load = load,
    .peek = peek,
    .close = close_threads,
};
