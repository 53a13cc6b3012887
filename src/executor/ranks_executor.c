/* The executor of a run over several ranks (processes), all of which make the same run. Each rank has some of the
 * clients and takes their turns on its threads, as `threads` does. Meanwhile it sends their results to the other ranks:
 * the outcomes, the numbers of uploads, and the entries of vectors that each rank needs. After a list has been run,
 * every rank knows what it needs of every exchange, as if it had taken all turns itself. */
#include "base/number.h"
#include "executor/executor.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Small uploads travel in batches of about BATCH_BYTES. Vectors of which a rank gets LONG_BYTES or more travel on their
 * own, from their place at one rank to that at the other, without a copy. After BATCH_NUMBERS the numbers of batches
 * start again. */
enum { BATCH_BYTES = 1 << 16, LONG_BYTES = 1 << 14, BATCH_NUMBERS = 32768 };

/* The executor of this rank's own turns. */
static const fli_executor *const local = &fli_executor_threads;

/* An exchange of the list: its index there, its rank, its batch. */
typedef struct {
    size_t place;
    uint32_t rank;
    size_t batch;
    double effort;
} turn;

/* A batch: some turns of one rank. */
typedef struct {
    size_t first, count; /* a range of `turns` */
    uint32_t rank, number;
    atomic_size_t left;   /* of this rank: turns not yet taken */
    size_t coming;        /* of another rank: messages that have not arrived */
    unsigned char *bytes; /* what comes; of what goes: for each of the other ranks, one after the other */
    int sent;
} batch;

typedef struct {
    fl_ctx *ctx;
    const fli_setup *setup;
    int moves, at_site;
    void *here;           /* the executor of this rank's clients */
    pthread_mutex_t lock; /* guards calls of the table, `broken` and `coming` */
    fl_status broken;     /* the first failure of the table: the other ranks cannot be reached */
    /* the current list: */
    fli_exchange *const *list;
    size_t n;
    const fli_on_filled *filled;
    fli_entries whole;
    turn *turns; /* of the list, sorted by rank */
    fli_exchange **mine;
    size_t mine_from, mine_count; /* this rank's range of `turns` */
    batch *batches;
    size_t count; /* number of batches */
    size_t room;  /* length of turns, mine and batches */
    unsigned char *bytes;
    size_t bytes_room;
    int vectors_apart; /* vectors travel on their own, not in batches */
    size_t coming;     /* messages that have not arrived */
} ranks_executor;

/* ---- life ------------------------------------------------------------------------------------------------ */

static void close_ranks(void *executor)
{
    ranks_executor *s = executor;
    if (!s) return;
    if (s->here) local->close(s->here);
    pthread_mutex_destroy(&s->lock);
    fli_free(s->turns);
    fli_free(s->batches);
    fli_free(s->mine);
    fli_free(s->bytes);
    fli_free(s);
}

/* Whether any rank may take a client's turn: it then depends only on the ask, the broadcast and samples that every rank
 * can make. */
static int may_move(const fli_clients_spec *spec)
{
    const fl_method *a = spec->setup->algo;
    if (spec->setup->fed->train || fli_algo_client_vectors(a, spec->setup->measure_potential) ||
        fli_algo_client_scalars(a, spec->setup->measure_potential))
        return 0;
    for (size_t k = 0; k < spec->setup->solvers.count; k++)
        if (spec->setup->solvers.at[k]->forget) return 0;
    return 1;
}

static fl_status open_ranks(fl_ctx *ctx, const fli_clients_spec *spec, fli_workers *workers, void **out)
{
    ranks_executor *s = fli_alloc(ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    s->ctx = ctx;
    s->setup = spec->setup;
    s->moves = may_move(spec);
    s->at_site = spec->site != NULL;
    s->whole = (fli_entries){0, spec->setup->model->space.n};
    pthread_mutex_init(&s->lock, NULL);
    fl_status status = local->open(ctx, spec, workers, &s->here);
    if (status)
        close_ranks(s);
    else
        *out = s;
    return status;
}

static fl_status join(void *executor, uint32_t client, int digest, fli_card *out)
{
    return local->join(((ranks_executor *)executor)->here, client, digest, out);
}

/* ---- which rank takes which turn -------------------------------------------------------------------------- */

/* Sorts the longest first. */
static int longer(const void *a, const void *b)
{
    const turn *x = a, *y = b;
    if (x->effort != y->effort) return x->effort > y->effort ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static int by_rank(const void *a, const void *b)
{
    const turn *x = a, *y = b;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return x->place < y->place ? -1 : x->place > y->place;
}

static fl_status make_room(ranks_executor *s, size_t n)
{
    if (n <= s->room) return FL_OK;
    fl_status status = fli_grow(s->ctx, (void **)&s->turns, 0, n, sizeof *s->turns);
    if (!status) status = fli_grow(s->ctx, (void **)&s->batches, 0, n, sizeof *s->batches);
    if (!status) status = fli_grow(s->ctx, (void **)&s->mine, 0, n, sizeof *s->mine);
    s->room = status ? 0 : n;
    return status;
}

/* Deals turns that may move to the ranks, longest first and in alternating order, so that every rank gets about as much
 * work. */
static void deal(ranks_executor *s, size_t n)
{
    size_t ranks = s->setup->ranks->count;
    for (size_t i = 0; i < n; i++) s->turns[i].effort = local->effort(s->here, &s->list[s->turns[i].place]->ask);
    qsort(s->turns, n, sizeof *s->turns, longer);
    for (size_t i = 0; i < n; i++) {
        size_t at = i % ranks;
        s->turns[i].rank = (uint32_t)(i / ranks % 2 ? ranks - 1 - at : at);
    }
}

/* Assigns the turns of the list to ranks. This depends on the list alone, so all ranks assign them equally. */
static fl_status take_list(ranks_executor *s, fli_exchange *const *list, size_t n)
{
    fl_status status = make_room(s, n);
    if (status) return status;
    s->list = list;
    s->n = n;
    for (size_t i = 0; i < n; i++)
        s->turns[i] = (turn){.place = i, .rank = s->setup->rank_owner->owner[list[i]->ask.client]};
    if (s->moves && list[0]->ask.kind == FLI_ASK_TURN) deal(s, n);
    qsort(s->turns, n, sizeof *s->turns, by_rank);
    s->mine_from = s->mine_count = 0;
    for (size_t i = 0; i < n; i++) {
        const turn *t = &s->turns[i];
        list[t->place]->rank = t->rank;
        s->mine_from += t->rank < s->setup->ranks->rank;
        if (t->rank == s->setup->ranks->rank) s->mine[s->mine_count++] = list[t->place];
    }
    return FL_OK;
}

/* ---- batches --------------------------------------------------------------------------------------------- */

/* The entries of vectors that a rank needs. */
static fli_entries range_at(const ranks_executor *s, uint32_t rank)
{
    return s->filled && s->filled->ranges ? s->filled->ranges[rank] : s->whole;
}

/* Those of them that are in a batch. */
static fli_entries packed_at(const ranks_executor *s, uint32_t rank)
{
    return s->vectors_apart ? (fli_entries){0, 0} : range_at(s, rank);
}

/* Bytes of an exchange in a batch for a rank. */
static size_t exchange_bytes(const ranks_executor *s, const fli_exchange *x, uint32_t to)
{
    fli_wire w;
    if (!(x->ask.flags & FLI_ASK_REPLY)) return FLI_OUTCOME_BYTES;
    fli_wire_of(s->setup, &x->ask, &w);
    return FLI_OUTCOME_BYTES + fli_wire_slice_bytes(w.up, w.moment, s->setup->model, packed_at(s, to));
}

static const fli_exchange *exchange_at(const ranks_executor *s, size_t at) { return s->list[s->turns[at].place]; }

static size_t batch_bytes(const ranks_executor *s, const batch *p, uint32_t to)
{
    size_t sum = 0;
    for (size_t i = 0; i < p->count; i++) sum += exchange_bytes(s, exchange_at(s, p->first + i), to);
    return sum;
}

/* The number of turns in each batch of a list. */
static size_t turns_per_batch(const ranks_executor *s)
{
    fli_wire w;
    fli_wire_of(s->setup, &s->list[0]->ask, &w);
    size_t bytes = FLI_OUTCOME_BYTES + fli_wire_up(&w, s->setup->model, &s->list[0]->ask);
    if (s->filled && s->filled->ranges) bytes = bytes / s->setup->ranks->count + 1;
    return BATCH_BYTES / bytes ? BATCH_BYTES / bytes : 1;
}

/* At a site the vectors are not in plain memory, so they are packed. */
static int sends_vectors_apart(const ranks_executor *s)
{
    size_t bytes = fli_bytes(&s->setup->model->space);
    return !s->at_site && (s->filled && s->filled->ranges ? bytes / s->setup->ranks->count : bytes) >= LONG_BYTES;
}

static void make_batches(ranks_executor *s)
{
    size_t each = turns_per_batch(s), number = 0;
    s->vectors_apart = sends_vectors_apart(s);
    s->count = 0;
    for (size_t i = 0; i < s->n; i++) {
        batch *last = s->count ? &s->batches[s->count - 1] : NULL;
        if (!last || last->rank != s->turns[i].rank || last->count == each) {
            number = last && last->rank == s->turns[i].rank ? number + 1 : 0;
            last = &s->batches[s->count++];
            *last = (batch){.first = i, .rank = s->turns[i].rank, .number = (uint32_t)(number % BATCH_NUMBERS)};
        }
        s->turns[i].batch = s->count - 1;
        atomic_store(&last->left, ++last->count);
    }
}

/* Makes room for the bytes of all batches. */
static fl_status make_bytes(ranks_executor *s)
{
    size_t all = 0, own = s->setup->ranks->rank;
    for (int placed = 0; placed < 2; placed++) {
        all = 0;
        for (size_t i = 0; i < s->count; i++) {
            batch *p = &s->batches[i];
            if (placed) p->bytes = s->bytes + all;
            for (uint32_t to = 0; to < s->setup->ranks->count; to++)
                if (p->rank == own ? to != own : to == own) all += batch_bytes(s, p, to);
        }
        if (placed || all <= s->bytes_room) continue;
        fl_status status = fli_grow(s->ctx, (void **)&s->bytes, 0, all, 1);
        if (status) return status;
        s->bytes_room = all;
    }
    return FL_OK;
}

/* Keeps the first failure of the table; after it none of its functions is called. Caller holds the lock, or there is
 * one thread. */
static void note(ranks_executor *s, fl_status status)
{
    if (!s->broken) s->broken = status;
}

/* A batch from one rank to another, with the vectors that follow it. */
typedef struct {
    ranks_executor *s;
    batch *p;
    uint32_t other;
} route;

/* fli_wire_piece; callers hold the lock, here and below */
static fl_status expect_piece(void *arg, void *bytes, size_t n)
{
    const route *way = arg;
    const fl_ranks *r = way->s->setup->ranks;
    way->p->coming++;
    way->s->coming++;
    return r->expect(r->arg, way->other, way->p->number, bytes, n, (size_t)(way->p - way->s->batches));
}

static fl_status send_piece(void *arg, void *bytes, size_t n)
{
    const route *way = arg;
    const fl_ranks *r = way->s->setup->ranks;
    return r->send(r->arg, way->other, way->p->number, bytes, n);
}

/* Calls `visit` for the vectors that follow the batch to rank `to`. */
static fl_status follow(route *way, uint32_t to, fli_wire_piece *visit)
{
    const ranks_executor *s = way->s;
    fl_status status = FL_OK;
    for (size_t i = 0; s->vectors_apart && !status && i < way->p->count; i++) {
        const fli_exchange *x = exchange_at(s, way->p->first + i);
        fli_wire w;
        if (!(x->ask.flags & FLI_ASK_REPLY)) continue;
        fli_wire_of(s->setup, &x->ask, &w);
        status = fli_wire_slice_pieces(w.up, w.moment, s->setup->model, range_at(s, to), &x->up, visit, way);
    }
    return status;
}

static void expect_batches(ranks_executor *s)
{
    uint32_t own = s->setup->ranks->rank;
    s->coming = 0;
    for (size_t i = 0; !s->broken && i < s->count; i++) {
        batch *p = &s->batches[i];
        route way = {s, p, p->rank};
        if (p->rank == own) continue;
        note(s, expect_piece(&way, p->bytes, batch_bytes(s, p, own)));
        if (!s->broken) note(s, follow(&way, own, expect_piece));
    }
}

/* Packs the results of a batch of this rank for another one. Returns the end of the bytes. */
static unsigned char *pack(const ranks_executor *s, const batch *p, uint32_t to, unsigned char *out)
{
    for (size_t i = 0; i < p->count; i++) {
        const fli_exchange *x = exchange_at(s, p->first + i);
        size_t bytes = exchange_bytes(s, x, to);
        fli_wire w;
        fli_wire_of(s->setup, &x->ask, &w);
        fli_outcome_write(x, out);
        if (!x->status && bytes > FLI_OUTCOME_BYTES)
            fli_wire_slice_write(w.up, w.moment, s->setup->model, packed_at(s, to), &x->up, out + FLI_OUTCOME_BYTES);
        out += bytes;
    }
    return out;
}

/* Called by the thread that has taken the last turn of the batch. Only the calls of the table hold the lock, not the
 * packing. */
static void send_batch(ranks_executor *s, batch *p)
{
    const fl_ranks *r = s->setup->ranks;
    unsigned char *at = p->bytes;
    if (p->sent) return;
    p->sent = 1;
    for (uint32_t to = 0; to < r->count; to++) {
        if (to == r->rank) continue;
        unsigned char *end = pack(s, p, to, at);
        route way = {s, p, to};
        pthread_mutex_lock(&s->lock);
        if (!s->broken) note(s, send_piece(&way, at, (size_t)(end - at)));
        if (!s->broken) note(s, follow(&way, to, send_piece));
        pthread_mutex_unlock(&s->lock);
        at = end;
    }
}

/* Returns FL_ESYSTEM if the bytes are not a valid batch. */
static fl_status unpack(ranks_executor *s, const batch *p)
{
    const unsigned char *in = p->bytes;
    fl_status status = FL_OK;
    for (size_t i = 0; i < p->count; i++) {
        size_t place = s->turns[p->first + i].place;
        fli_exchange *x = s->list[place];
        size_t bytes = exchange_bytes(s, x, s->setup->ranks->rank);
        fli_wire w;
        fli_wire_of(s->setup, &x->ask, &w);
        x->why.text[0] = 0;
        if (fli_outcome_read(in, x)) status = FL_ESYSTEM;
        if (!x->status && bytes > FLI_OUTCOME_BYTES)
            fli_wire_slice_read(w.up, w.moment, s->setup->model, packed_at(s, s->setup->ranks->rank),
                                in + FLI_OUTCOME_BYTES, &x->up, NULL);
        in += bytes;
        if (s->filled) s->filled->tell(s->filled->arg, place);
    }
    return status;
}

/* The next batch that has arrived completely, which only the caller then uses; NULL: none. */
static batch *next_batch(ranks_executor *s, int wait)
{
    batch *whole = NULL;
    size_t which = 0;
    pthread_mutex_lock(&s->lock);
    for (int there = 1; there && !whole && s->coming && !s->broken;) {
        note(s, s->setup->ranks->arrived(s->setup->ranks->arg, wait, &which, &there));
        if (s->broken || !there) break;
        s->coming--;
        if (!--s->batches[which].coming) whole = &s->batches[which];
    }
    pthread_mutex_unlock(&s->lock);
    return whole;
}

/* Unpacks the batches that have arrived; `wait`: until all have. */
static void receive(ranks_executor *s, int wait)
{
    for (const batch *p; (p = next_batch(s, wait));) {
        fl_status status = unpack(s, p);
        if (!status) continue;
        pthread_mutex_lock(&s->lock);
        note(s, status);
        pthread_mutex_unlock(&s->lock);
    }
}

/* fli_on_filled.tell of this rank's turns. At a site their outcomes are not known yet. */
static void turn_taken(void *executor, size_t place)
{
    ranks_executor *s = executor;
    const turn *t = &s->turns[s->mine_from + place];
    batch *p = &s->batches[t->batch];
    int last = atomic_fetch_sub(&p->left, 1) == 1;
    if (last && !s->at_site) {
        send_batch(s, p);
        receive(s, 0);
    }
    if (s->filled) s->filled->tell(s->filled->arg, t->place);
}

/* ---- a list ---------------------------------------------------------------------------------------------- */

/* All ranks know by now which turns have failed. Only the rank that took the turn has the sentence, in the exchange or
 * in its context; it shares it with the others. */
static void share_sentences(ranks_executor *s)
{
    const fl_ranks *r = s->setup->ranks;
    for (size_t i = 0; !s->broken && i < s->n; i++) {
        fli_exchange *x = s->list[i];
        if (!x->status) continue;
        if (x->rank == r->rank && !fli_has_failed(&x->why))
            memcpy(x->why.text, fl_ctx_error(s->ctx), strnlen(fl_ctx_error(s->ctx), sizeof x->why.text - 1));
        note(s, fli_ranks_share(s->ctx, r, x->rank, &x->why, sizeof x->why));
    }
}

static void wait_for_others(ranks_executor *s)
{
    receive(s, 1);
    if (!s->broken) note(s, s->setup->ranks->flush(s->setup->ranks->arg));
}

static void run(void *executor, fli_exchange *const *list, size_t n, const fli_on_filled *filled)
{
    ranks_executor *s = executor;
    if (!n) return;
    fl_status status = take_list(s, list, n);
    s->filled = filled;
    if (!status) make_batches(s);
    if (!status) status = make_bytes(s);
    if (!status) {
        expect_batches(s);
        local->run(s->here, s->mine, s->mine_count, &(fli_on_filled){turn_taken, s, NULL});
        for (size_t i = 0; i < s->count; i++)
            if (s->batches[i].rank == s->setup->ranks->rank) send_batch(s, &s->batches[i]);
        wait_for_others(s);
        share_sentences(s);
        status = s->broken;
    }
    for (size_t i = 0; status && i < n; i++) {
        list[i]->status = status;
        if (s->broken)
            fli_snprintf(list[i]->why.text, sizeof list[i]->why.text,
                         "the other processes of this run cannot be reached");
    }
}

/* ---- state ------------------------------------------------------------------------------------------------- */

static size_t state(const void *executor, size_t *spilled)
{
    return local->state(((const ranks_executor *)executor)->here, spilled);
}

/* Of the clients of this rank. */
static void save(void *executor, fli_saver *out) { local->save(((ranks_executor *)executor)->here, out); }
static fl_status load(void *executor, fli_loader *in) { return local->load(((ranks_executor *)executor)->here, in); }

static fl_status peek(void *executor, uint32_t client, size_t k, void *vector, double *scalars, int *there)
{
    ranks_executor *s = executor;
    uint32_t owner = s->setup->rank_owner->owner[client];
    fl_status status = FL_OK;
    *there = 0;
    if (owner == s->setup->ranks->rank) status = local->peek(s->here, client, k, vector, scalars, there);
    if ((status = fli_ranks_agree(s->ctx, s->setup->ranks, status))) return status;
    status = fli_ranks_share(s->ctx, s->setup->ranks, owner, there, sizeof *there);
    if (!status && *there && vector)
        status = fli_ranks_share(s->ctx, s->setup->ranks, owner, vector, fli_bytes(&s->setup->model->space));
    if (!status && *there && scalars)
        status =
            fli_ranks_share(s->ctx, s->setup->ranks, owner, scalars, s->setup->algo->client_scalars * sizeof *scalars);
    return status;
}

const fli_executor fli_executor_ranks = {
    .name = "ranks",
    .title = "clients at several processes, each of which takes the turns of its own on its threads",
    .open = open_ranks,
    .join = join,
    .run = run,
    .state = state,
    .save = save,
    .load = load,
    .peek = peek,
    .close = close_ranks,
};
