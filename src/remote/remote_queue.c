/* The queue has two sides: carriers take asks out and bring answers, the run puts asks in and waits for them. One lock
 * guards all of it; packets are written and read without the lock. */
#include "remote/remote_queue.h"

#include "base/number.h"
#include "base/os.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* Exchanges for which the run waits together. */
typedef struct {
    uint64_t number;             /* 0: asks that are sent one by one */
    const fli_on_filled *filled; /* called for each good answer; NULL: none */
    int gathers;                 /* missing clients are left out; 0: all must answer */
    size_t left;                 /* asks still awaited */
    size_t came;                 /* good answers */
    size_t held;                 /* asks that a carrier is packing or reading: the batch must wait for it */
    int over;                    /* the wait has ended: late answers are ignored */
    fl_status failed;            /* the wait was given up with this status */
    fl_failure why;              /* and for this reason */
} ask_batch;

typedef enum { ASK_WAITING, ASK_WRITING, ASK_OUT, ASK_READING, ASK_ANSWERED } ask_progress;

/* The reason why a client is left out. */
typedef enum { NOT_EXCLUDED, EXCLUDED_LATE, EXCLUDED_NOT_NEEDED, EXCLUDED_DROPPED, EXCLUDED_DECLINED } exclusion;

typedef struct queued_ask {
    fli_exchange *x;
    ask_batch *batch;
    size_t place; /* index in the batch */
    uint64_t number;
    ask_progress progress;
    exclusion left_out; /* if set, the run does not wait for its answer */
    /* only for asks that are sent one by one: */
    double until;    /* its deadline, by fli_clock_now */
    uint64_t order;  /* in which asks were answered or left out */
    uint64_t before; /* the client's `taken` before this answer */
    struct queued_ask *next;
} queued_ask;

/* The longest vector that a client has uploaded to this process. */
typedef struct {
    double norm; /* 0: none yet */
    uint64_t round;
} longest_upload;

/* A packed body, and everything on which it depends. */
typedef struct {
    uint64_t batch;
    const fli_message *down;
    uint64_t serial; /* of the message sent down */
    uint32_t kind, flags;
    unsigned moment;
    fli_shared_body *body; /* NULL: the place is free */
} kept_body;
enum { KEPT = 4 }; /* asks of a batch differ in flags: whether the client needs the start model */

struct fli_remote_queue {
    fl_ctx *ctx; /* the run's */
    fli_digest cards;
    uint64_t secret; /* 0: none */
    fli_admission rules;
    fli_clients_spec spec;
    fli_protocol protocol;
    fli_incoming_store *uploads;
    pthread_mutex_t lock; /* guards all up to `packing`, and every batch and queued ask */
    pthread_cond_t asked; /* there is an ask to carry, or the queue is closed */
    pthread_cond_t moved; /* a batch has come nearer to its end */
    queued_ask *first, **end;
    ask_batch singles; /* asks that are sent one by one */
    uint64_t batches;  /* number of the last batch */
    uint64_t numbers;  /* number of the last ask */
    uint64_t orders;
    longest_upload *longest; /* by client */
    uint64_t *taken;         /* by client: the number of its last turn that counts; 0: none */
    int partial_logged;      /* the warning that some clients are not measured was logged */
    int open, closed;
    pthread_mutex_t packing; /* guards `kept`; never held together with `lock` */
    kept_body kept[KEPT];
    size_t kept_next; /* the place that is used next */
};

/* ==== the carriers' side ================================================================================== */

/* ---- making and closing ----------------------------------------------------------------------------------- */

fl_status fli_remote_queue_new(fl_ctx *ctx, const fli_digest *cards, uint64_t secret, const fli_admission *rules,
                               fli_remote_queue **out)
{
    fli_remote_queue *q = fli_alloc(ctx, 1, sizeof *q);
    if (!q) return FL_ENOMEM;
    q->ctx = ctx;
    q->cards = *cards;
    q->secret = secret;
    q->rules = *rules;
    q->singles.gathers = 1;
    q->end = &q->first;
    int made = 0;
    if (!pthread_mutex_init(&q->lock, NULL)) made = 1;
    if (made == 1 && !fli_clock_cond(&q->asked)) made = 2;
    if (made == 2 && !fli_clock_cond(&q->moved)) made = 3;
    if (made == 3 && !pthread_mutex_init(&q->packing, NULL)) {
        *out = q;
        return FL_OK;
    }
    if (made > 2) pthread_cond_destroy(&q->moved);
    if (made > 1) pthread_cond_destroy(&q->asked);
    if (made > 0) pthread_mutex_destroy(&q->lock);
    fli_free(q);
    return fli_fail(ctx, FL_ESYSTEM, "a lock cannot be created");
}

static void release_kept(kept_body *k)
{
    fli_shared_body_release(k->body);
    k->body = NULL;
}

/* Packets that are being sent keep their own references. */
static void forget_bodies(fli_remote_queue *q)
{
    pthread_mutex_lock(&q->packing);
    for (size_t i = 0; i < KEPT; i++) release_kept(&q->kept[i]);
    pthread_mutex_unlock(&q->packing);
}

void fli_remote_queue_free(fli_remote_queue *q)
{
    if (!q) return;
    forget_bodies(q);
    fli_incoming_store_free(q->uploads);
    pthread_mutex_destroy(&q->packing);
    pthread_cond_destroy(&q->moved);
    pthread_cond_destroy(&q->asked);
    pthread_mutex_destroy(&q->lock);
    fli_free(q->taken);
    fli_free(q->longest);
    fli_free(q);
}

void fli_remote_queue_close(fli_remote_queue *q)
{
    pthread_mutex_lock(&q->lock);
    q->closed = 1;
    pthread_cond_broadcast(&q->asked);
    pthread_cond_broadcast(&q->moved);
    pthread_mutex_unlock(&q->lock);
}

/* ---- terms ----------------------------------------------------------------------------------------------- */

static fl_status write_terms(const fli_remote_queue *q, fl_ctx *ctx, uint32_t client, unsigned char **out, size_t *n)
{
    fli_terms terms;
    fli_terms_make(q->spec.setup, client, &terms);
    *n = fli_terms_bytes(&terms);
    if (!(*out = fli_alloc(ctx, *n, 1))) return FL_ENOMEM;
    fli_terms_write(&terms, *out);
    return FL_OK;
}

/* Computes the run's digest from what all clients are told and from their cards. A client knows all of that but the
 * others' cards, which it could find by guessing; with the secret it cannot. */
static fl_status identify(fli_remote_queue *q)
{
    unsigned char *terms;
    size_t n;
    fli_hash h;
    fl_status s = write_terms(q, q->ctx, 0, &terms, &n);
    if (s) return s;
    fli_hash_init(&h);
    fli_hash_bytes(&h, q->cards.byte, sizeof q->cards.byte);
    fli_hash_bytes(&h, terms, n);
    if (q->secret) fli_hash_count(&h, q->secret);
    q->protocol.run = fli_hash_end(&h);
    fli_free(terms);
    return FL_OK;
}

/* The run begins: sets what its clients work on. */
static fl_status begin_run(fl_ctx *ctx, fli_remote_queue *q, const fli_clients_spec *spec)
{
    q->ctx = ctx;
    q->spec = *spec;
    q->protocol = (fli_protocol){.setup = spec->setup};
    fl_status s = identify(q);
    if (s) return s;
    fli_free(q->taken);
    fli_free(q->longest);
    q->taken = fli_alloc(ctx, spec->setup->clients, sizeof *q->taken);
    q->longest = fli_alloc(ctx, spec->setup->clients, sizeof *q->longest);
    if (!q->taken || !q->longest) return FL_ENOMEM;
    fli_incoming_store_free(q->uploads);
    if ((s = fli_incoming_store_new(ctx, spec->folder, (size_t)q->rules.memory, &q->uploads))) return s;
    q->open = 1;
    return FL_OK;
}

fl_status fli_remote_queue_terms(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, fl_bytes *out)
{
    unsigned char *terms;
    size_t n;
    *out = (fl_bytes){NULL, 0};
    if (!q->open) return fli_fail(ctx, FL_ECONFIG, "there are no terms before the run has begun");
    fl_status s = write_terms(q, ctx, client, &terms, &n);
    if (s) return s;
    fli_packet p = {.kind = FLI_PACKET_TERMS, .client = client, .run = q->protocol.run, .body = terms, .body_bytes = n};
    s = fli_packet_write(ctx, &p, out);
    fli_free(terms);
    return s;
}

size_t fli_remote_queue_answer_bytes(const fli_remote_queue *q) { return fli_answer_bytes(q->spec.setup); }

/* ---- carriers -------------------------------------------------------------------------------------------- */

/* Waits until an ask has changed its state. Returns 0 if `until`, by fli_clock_now, has come. */
static int wait_for_change(fli_remote_queue *q, double until) { return !fli_clock_wait(&q->moved, &q->lock, until); }

/* Caller holds the lock. Whether the run still waits for the answer. */
static int is_awaited(const queued_ask *a)
{
    const ask_batch *b = a->batch;
    return a->progress != ASK_ANSWERED && !a->left_out && !b->over && !b->failed;
}

/* The run no longer waits for this ask. `why` goes to the log. */
static void leave_out_ask(fli_remote_queue *q, queued_ask *a, exclusion how, const char *why)
{
    a->left_out = how;
    a->order = ++q->orders;
    a->x->status = FL_EREFUSED;
    fli_snprintf(a->x->why.text, sizeof a->x->why.text, "%s", why);
    a->batch->left--;
    pthread_cond_broadcast(&q->moved);
    if (a->batch == &q->singles) pthread_cond_broadcast(&q->asked); /* a measurement of this client may be sent now */
}

/* Ends the wait for a batch. The first reason stays. */
static void give_up_batch(fli_remote_queue *q, ask_batch *b, fl_status status, const char *why)
{
    if (b->failed) return;
    b->failed = status;
    fli_snprintf(b->why.text, sizeof b->why.text, "%s", why);
    if (status == FL_ECALLBACK)
        fli_user_failure_note(q->spec.user_failure, &b->why); /* here, too, none is called any more */
    pthread_cond_broadcast(&q->moved);
}

/* The ask of this client for which the run waits; NULL: none. */
static queued_ask *find_client(const fli_remote_queue *q, uint32_t client)
{
    queued_ask *a = q->closed ? NULL : q->first;
    while (a && (a->x->ask.client != client || !is_awaited(a))) a = a->next;
    return a;
}

/* A client gets one ask at a time: its measurement waits until its turn is answered. */
static int must_wait(const fli_remote_queue *q, const queued_ask *a)
{
    return a->batch != &q->singles && q->singles.left && find_client(q, a->x->ask.client) != a;
}

static queued_ask *find_waiting(const fli_remote_queue *q)
{
    queued_ask *a = q->first;
    while (a && (a->progress != ASK_WAITING || !is_awaited(a) || must_wait(q, a))) a = a->next;
    return a;
}

/* The carrier has finished with the ask. The batch may have waited for that. */
static void release(fli_remote_queue *q, queued_ask *a, ask_progress now)
{
    a->progress = now;
    a->batch->held--;
    pthread_cond_broadcast(&q->moved);
}

/* Caller holds `packing`. The kept body that serves this ask; NULL: none. */
static fli_shared_body *find_body(const fli_remote_queue *q, const kept_body *is)
{
    for (const kept_body *k = q->kept; k < q->kept + KEPT; k++)
        if (k->body && k->batch == is->batch && k->down == is->down && k->serial == is->serial && k->kind == is->kind &&
            k->flags == is->flags && k->moment == is->moment)
            return k->body;
    return NULL;
}

/* Caller holds `packing`. Keeps a body. For asks that are sent one by one, bodies from before the last server step are
 * dropped. */
static void keep_body(fli_remote_queue *q, const kept_body *is)
{
    for (kept_body *k = q->kept; k < q->kept + KEPT; k++)
        if (k->batch == is->batch && k->serial != is->serial) release_kept(k);
    kept_body *place = &q->kept[q->kept_next++ % KEPT];
    release_kept(place);
    *place = *is;
}

/* The body of an ask, with a reference for the caller: a kept one of the same batch (one by one: of the same serial),
 * or a new one. The caller is packing the ask, so its batch and its message stay. */
static fl_status body_of(fli_remote_queue *q, fl_ctx *ctx, const queued_ask *a, fli_shared_body **out)
{
    const fl_ask *ask = &a->x->ask;
    fl_status s = FL_OK;
    *out = NULL;
    if (!(ask->flags & FLI_ASK_HAS_BODY)) return FL_OK;
    kept_body is = {a->batch->number,
                    a->x->down,
                    a->x->down->serial,
                    ask->kind,
                    ask->flags,
                    fli_algo_moment(q->spec.setup->algo, q->spec.setup->params, ask),
                    NULL};
    pthread_mutex_lock(&q->packing);
    is.body = find_body(q, &is);
    if (!is.body && !(s = fli_ask_body(ctx, q->spec.setup, a->x, &is.body))) keep_body(q, &is);
    if (!s) atomic_fetch_add(&is.body->users, 1);
    *out = is.body;
    pthread_mutex_unlock(&q->packing);
    return s;
}

static fl_status pack_ask(fli_remote_queue *q, fl_ctx *ctx, const queued_ask *a, uint64_t settled, fli_ask_packet *out)
{
    fl_status s = body_of(q, ctx, a, &out->body);
    if (!s) fli_ask_front(&q->protocol, a->number, settled, a->x, out);
    return s;
}

fl_status fli_remote_queue_next(fli_remote_queue *q, fl_ctx *ctx, double seconds, uint32_t *client, int *found,
                                fli_ask_packet *out)
{
    double until = fli_clock_now() + (seconds > 0 ? seconds : 0);
    fl_status s = FL_OK;
    queued_ask *a;
    *found = 0;
    out->body = NULL;
    pthread_mutex_lock(&q->lock);
    for (int late = 0; !s && !*found;) {
        while (!(a = find_waiting(q)) && !q->closed && !late) late = fli_clock_wait(&q->asked, &q->lock, until);
        if (q->closed) s = FL_EDONE;
        if (s || !a) break;
        *client = a->x->ask.client;
        uint64_t settled = q->taken[*client];
        a->progress = ASK_WRITING;
        a->batch->held++;
        pthread_mutex_unlock(&q->lock);
        s = pack_ask(q, ctx, a, settled, out);
        pthread_mutex_lock(&q->lock);
        *found = !s && !q->closed && is_awaited(a); /* the run may have given up the ask meanwhile */
        release(q, a, s ? ASK_WAITING : ASK_OUT);
        if (*found) continue;
        fli_shared_body_release(out->body);
        out->body = NULL;
    }
    pthread_mutex_unlock(&q->lock);
    return s;
}

/* Reserves the ask to which an answer belongs, so that no other carrier reads an answer to it. */
static fl_status claim_ask(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, uint64_t number, queued_ask **out)
{
    pthread_mutex_lock(&q->lock);
    queued_ask *a = find_client(q, client);
    if (a && (a->progress != ASK_OUT || a->number != number)) a = NULL;
    if (a) {
        a->progress = ASK_READING;
        a->batch->held++;
    }
    *out = a;
    pthread_mutex_unlock(&q->lock);
    if (a) return FL_OK;
    return fli_fail(ctx, FL_EMISMATCH, "client %u: this answer is not awaited, or no longer", client);
}

/* A failed turn ends the run now if all clients are needed or the rule says so. A model that is not finite is reported
 * by the server's side, which names the first such client of the cohort. */
static void note_failure(fli_remote_queue *q, const queued_ask *a)
{
    char why[sizeof a->x->why.text];
    fl_status s = a->x->status;
    int dropped = a->batch->gathers && (q->rules.failed == FLI_FAILED_DROP || s == FL_EREFUSED);
    if (!s || dropped || s == FL_EDIVERGED) return;
    fli_snprintf(why, sizeof why, "client %u: %s", a->x->ask.client,
                 *a->x->why.text ? a->x->why.text : fl_status_text(s));
    give_up_batch(q, a->batch, s, why);
}

static void note_length(fli_remote_queue *q, const fli_exchange *x)
{
    longest_upload *u = &q->longest[x->ask.client];
    if (x->ask.kind == FLI_ASK_TURN && x->norm > u->norm) *u = (longest_upload){x->norm, x->ask.round};
}

/* The answer is complete. One by one, every good answer counts at once. */
static void note_answer(fli_remote_queue *q, queued_ask *a)
{
    uint64_t *taken = &q->taken[a->x->ask.client];
    note_failure(q, a);
    a->order = ++q->orders;
    a->before = *taken;
    a->batch->left--;
    if (a->x->status) return;
    note_length(q, a->x);
    a->batch->came++;
    if (a->batch == &q->singles) *taken = a->number;
}

fl_status fli_remote_queue_upload(fli_remote_queue *q, fl_ctx *ctx, size_t n, fli_incoming **out)
{
    *out = NULL;
    if (!q->open) return fli_fail(ctx, FL_EMISMATCH, "no answer is awaited");
    return fli_incoming_new(q->uploads, ctx, n, out);
}

fl_status fli_remote_queue_answer(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, fli_incoming **answer)
{
    fli_packet p;
    queued_ask *a;
    fl_failure why;
    fl_status s = fli_packet_received(ctx, FLI_PACKET_ANSWER, *answer, &p);
    if (s) return s;
    if (!fli_digest_same(&p.run, &q->protocol.run))
        return fli_fail(ctx, FL_EMISMATCH, "client %u: this answer is of another run", client);
    if (p.client != client)
        return fli_fail(ctx, FL_EMISMATCH, "client %u: this answer is of client %u", client, p.client);
    if ((s = claim_ask(q, ctx, client, p.number, &a))) return s;
    s = fli_answer_read(ctx, q->spec.setup, &p, fli_incoming_lent(*answer), a->x);
    if (a->x->up.lent) *answer = NULL;
    int refused = !s && !a->x->status && (a->x->status = fli_admit(&q->rules, q->spec.setup, a->x));
    if (refused) fli_message_return(&a->x->up);
    const fli_on_filled *filled = a->batch->filled;
    if (!s && filled && !a->x->status) filled->tell(filled->arg, a->place);
    pthread_mutex_lock(&q->lock);
    why = a->x->why;
    if (!s) note_answer(q, a);
    if (a->batch == &q->singles) pthread_cond_broadcast(&q->asked); /* a measurement of this client may be sent now */
    release(q, a, s ? ASK_OUT : ASK_ANSWERED);
    pthread_mutex_unlock(&q->lock);
    return refused ? fli_fail(ctx, FL_EREFUSED, "client %u: %s", client, why.text) : s;
}

int fli_remote_queue_longest(fli_remote_queue *q, char *sentence, size_t n)
{
    size_t first = 0;
    double others = 0;
    pthread_mutex_lock(&q->lock);
    for (size_t i = 1; i < q->spec.setup->clients; i++)
        if (q->longest[i].norm > q->longest[first].norm) first = i;
    for (size_t i = 0; i < q->spec.setup->clients; i++)
        if (i != first) others = fmax(others, q->longest[i].norm);
    longest_upload u = q->longest[first];
    pthread_mutex_unlock(&q->lock);
    if (u.norm > 0)
        fli_snprintf(sentence, n,
                     "the longest upload came from client %zu, in round %llu: its norm is %.4g, and the longest of all "
                     "others %.4g (server.largest_norm bounds them)",
                     first, (unsigned long long)u.round + 1, u.norm, others);
    return u.norm > 0;
}

size_t fli_remote_queue_awaited(fli_remote_queue *q, uint32_t *clients, size_t most)
{
    size_t n = 0;
    pthread_mutex_lock(&q->lock);
    for (const queued_ask *a = q->closed ? NULL : q->first; a; a = a->next) {
        if (!is_awaited(a)) continue;
        if (clients && n < most) clients[n] = a->x->ask.client;
        n++;
    }
    pthread_mutex_unlock(&q->lock);
    return n;
}

/* The ask of a client for which the run waits, unless its answer is being read. */
static fl_status find_silent(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, queued_ask **out)
{
    queued_ask *a = find_client(q, client);
    *out = a && a->progress != ASK_READING ? a : NULL;
    return *out ? FL_OK : fli_fail(ctx, FL_EMISMATCH, "client %u: no answer of it is awaited", client);
}

static fl_status leave_out_client(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, exclusion how, const char *why)
{
    queued_ask *a;
    pthread_mutex_lock(&q->lock);
    fl_status s = find_silent(q, ctx, client, &a);
    if (!s && !a->batch->gathers)
        s = fli_fail(ctx, FL_EREFUSED, "client %u cannot be dropped: everybody's answer is needed here", client);
    /* a client may have two: a turn, and a measurement that waits for it */
    for (; !s && a; a = find_client(q, client))
        if (a->progress == ASK_READING || !a->batch->gathers)
            break;
        else
            leave_out_ask(q, a, how, why && *why ? why : "it was dropped");
    pthread_mutex_unlock(&q->lock);
    return s;
}

fl_status fli_remote_queue_drop(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, const char *why)
{
    return leave_out_client(q, ctx, client, EXCLUDED_DROPPED, why);
}

fl_status fli_remote_queue_refused(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, const char *why)
{
    return leave_out_client(q, ctx, client, EXCLUDED_DECLINED, why);
}

fl_status fli_remote_queue_lost(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, const char *why)
{
    queued_ask *a;
    char text[sizeof a->batch->why.text];
    fli_snprintf(text, sizeof text, "client %u: %s", client, why && *why ? why : "it was lost");
    pthread_mutex_lock(&q->lock);
    fl_status s = find_silent(q, ctx, client, &a);
    if (!s) give_up_batch(q, a->batch, FL_EIO, text);
    pthread_mutex_unlock(&q->lock);
    return s;
}

/* ==== the run's side ======================================================================================= */

/* ---- opening and closing ---------------------------------------------------------------------------------- */

static fl_status open_queue(fl_ctx *ctx, const fli_clients_spec *spec, fli_workers *workers, void **out)
{
    fli_remote_queue *q = spec->setup->remote_queue;
    (void)workers;
    *out = q;
    return begin_run(ctx, q, spec);
}

/* The caller who made the queue frees it. */
static void close_queue(void *executor) { ((fli_remote_queue *)executor)->open = 0; }

static fl_status join(void *executor, uint32_t client, int digest, fli_card *out)
{
    const fli_remote_queue *q = executor;
    return fli_card_make(q->ctx, q->spec.setup->fed, client, digest, out);
}

/* ---- queueing and waiting ----------------------------------------------------------------------------------- */

/* Returns what the exchanges borrowed for an earlier ask. */
static void return_uploads(fli_exchange *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++) fli_message_return(&list[i]->up);
}

static void enqueue(fli_remote_queue *q, ask_batch *b, fli_exchange *x, size_t place, queued_ask *a)
{
    *a = (queued_ask){.x = x, .batch = b, .place = place, .number = ++q->numbers, .until = INFINITY};
    x->status = FL_OK;
    x->why.text[0] = 0;
    b->left++;
    *q->end = a;
    q->end = &a->next;
}

/* A client sees the number of its own ask. In the order of the cohort it would reveal how many clients with lower
 * numbers take part. */
static void shuffle_numbers(const fli_remote_queue *q, queued_ask *asks, size_t n)
{
    fli_rng rng;
    fli_rng_init(&rng, q->secret, FLI_RNG_NUMBERS, (uint32_t)q->numbers, (uint32_t)(q->numbers >> 32));
    for (size_t i = n; i > 1; i--) {
        queued_ask *one = &asks[i - 1], *other = &asks[fli_rng_below(&rng, i)];
        uint64_t number = one->number;
        one->number = other->number;
        other->number = number;
    }
}

static void enqueue_all(fli_remote_queue *q, ask_batch *b, fli_exchange *const *list, queued_ask *asks, size_t n)
{
    b->number = ++q->batches;
    for (size_t i = 0; i < n; i++) enqueue(q, b, list[i], i, &asks[i]);
    if (q->secret) shuffle_numbers(q, asks, n);
    pthread_cond_broadcast(&q->asked);
}

static void dequeue_all(fli_remote_queue *q, const ask_batch *b)
{
    queued_ask **at = &q->first;
    while (*at)
        if ((*at)->batch == b)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    q->end = at;
}

static double deadline_of(const fli_remote_queue *q)
{
    return q->rules.deadline > 0 ? fli_clock_now() + q->rules.deadline : INFINITY;
}

/* Waits until all answers are in, `wanted` have arrived or the deadline has passed, and no carrier still holds an
 * ask. */
static void wait_for(fli_remote_queue *q, ask_batch *b, size_t wanted)
{
    double until = deadline_of(q);
    int early = 1;
    while (b->left && b->came < wanted && !b->failed && !q->closed && early) early = wait_for_change(q, until);
    b->over = b->gathers;
    while (b->held) pthread_cond_wait(&q->moved, &q->lock);
}

/* "3, 7, 9 and 4 more": the clients that are left out for that reason; with NOT_EXCLUDED those that are awaited. */
static size_t name_clients(const queued_ask *asks, size_t n, exclusion how, char *out, size_t room)
{
    enum { NAMED = 5 };
    size_t count = 0;
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (asks[i].left_out != how || asks[i].progress == ASK_ANSWERED) continue;
        size_t used = strlen(out);
        if (count++ < NAMED)
            fli_snprintf(out + used, room - used, "%s%u", count > 1 ? ", " : "", asks[i].x->ask.client);
    }
    size_t used = strlen(out);
    if (count > NAMED) fli_snprintf(out + used, room - used, " and %zu more", count - NAMED);
    return count;
}

/* ---- every client is needed ------------------------------------------------------------------------------- */

/* The deadline has passed: names the late clients. */
static void give_up_late(fli_remote_queue *q, ask_batch *b, const queued_ask *asks, size_t n)
{
    char who[128], why[400];
    size_t count = name_clients(asks, n, NOT_EXCLUDED, who, sizeof who);
    fli_snprintf(why, sizeof why,
                 "%zu of %zu clients have not answered within %g seconds (server.deadline), and all of them are "
                 "needed here: client%s %s",
                 count, n, q->rules.deadline, count > 1 ? "s" : "", who);
    give_up_batch(q, b, FL_EIO, why);
}

/* Unanswered asks fail for the batch's reason. Failed ones get the same reason, so that there is only one. */
static void fail_rest(const fli_remote_queue *q, const ask_batch *b, queued_ask *asks, size_t n)
{
    fl_status s = b->failed ? b->failed : q->closed && b->left ? FL_EDONE : FL_OK;
    fl_failure why = b->why;
    if (!s) return;
    if (!b->failed) fl_failed(&why, "the run was ended while clients were at work");
    for (size_t i = 0; i < n; i++)
        if (asks[i].progress != ASK_ANSWERED || asks[i].x->status) asks[i].x->status = s, asks[i].x->why = why;
}

/* The turns of these clients count from now on. */
static void take(fli_remote_queue *q, const queued_ask *asks, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const fl_ask *ask = &asks[i].x->ask;
        if (ask->kind == FLI_ASK_TURN && !asks[i].x->status) q->taken[ask->client] = asks[i].number;
    }
}

static void run(void *executor, fli_exchange *const *list, size_t n, const fli_on_filled *filled)
{
    fli_remote_queue *q = executor;
    ask_batch b = {.filled = filled};
    queued_ask *asks = n ? fli_alloc(q->ctx, n, sizeof *asks) : NULL;
    for (size_t i = 0; !asks && i < n; i++) list[i]->status = FL_ENOMEM;
    if (!asks) return;
    return_uploads(list, n);
    pthread_mutex_lock(&q->lock);
    enqueue_all(q, &b, list, asks, n);
    wait_for(q, &b, SIZE_MAX);
    if (b.left && !q->closed) give_up_late(q, &b, asks, n);
    dequeue_all(q, &b);
    fail_rest(q, &b, asks, n);
    if (!b.failed) take(q, asks, n);
    pthread_mutex_unlock(&q->lock);
    forget_bodies(q);
    fli_free(asks);
}

/* ---- missing clients are left out ------------------------------------------------------------------------- */

/* Leaves out the clients that have not answered when the wait is over. */
static void leave_out_rest(fli_remote_queue *q, ask_batch *b, queued_ask *asks, size_t n, size_t wanted)
{
    int enough = b->came >= wanted;
    for (size_t i = 0; i < n; i++)
        if (asks[i].progress != ASK_ANSWERED && !asks[i].left_out)
            leave_out_ask(q, &asks[i], enough ? EXCLUDED_NOT_NEEDED : EXCLUDED_LATE,
                          enough ? "enough others have answered (server.wait_for)"
                                 : "it has not answered in time (server.deadline)");
}

/* Whether a round with this many answers counts; if not, all clients count as missing. */
static int is_enough(const fli_remote_queue *q, const ask_batch *b, const queued_ask *asks, size_t n)
{
    if (asks->x->ask.kind != FLI_ASK_TURN || b->came >= fli_admission_least(&q->rules, n)) return 1;
    for (size_t i = 0; i < n; i++)
        if (!asks[i].x->status) asks[i].x->status = FL_EREFUSED;
    return 0;
}

/* The status that ends the run: of a failed turn, if there is no good answer or if the rule says so; else FL_OK. */
static fl_status verdict(const fli_remote_queue *q, const ask_batch *b, const queued_ask *asks, size_t n)
{
    fl_status first = FL_OK;
    if (b->failed) return b->failed;
    for (size_t i = 0; i < n; i++) {
        fl_status s = asks[i].x->status;
        if (s == FL_EDONE) return s;
        if (!first && s != FL_EREFUSED) first = s;
    }
    return b->came && q->rules.failed == FLI_FAILED_DROP ? FL_OK : first;
}

/* Names the client in the sentence that ends the run. Divergence is reported by the server's side. */
static void word_failure(fli_remote_queue *q, const queued_ask *asks, size_t n, fl_status status)
{
    size_t i = 0;
    while (i < n && asks[i].x->status != status) i++;
    if (i == n || status == FL_EDIVERGED || status == FL_EDONE) return;
    fli_exchange *x = asks[i].x;
    fl_failure why = x->why;
    fli_snprintf(x->why.text, sizeof x->why.text, "client %u: %.480s", x->ask.client,
                 why.text[0] ? why.text : fl_status_text(status));
    if (status == FL_ECALLBACK) fli_user_failure_note(q->spec.user_failure, &x->why);
}

/* What a client that is left out did wrong; NULL: nothing, it was late or not needed. */
static const char *failure_of(const queued_ask *a)
{
    const fli_exchange *x = a->x;
    if (a->left_out == EXCLUDED_LATE || a->left_out == EXCLUDED_NOT_NEEDED) return NULL;
    if (x->why.text[0]) return x->status ? x->why.text : NULL;
    return x->status && x->status != FL_EREFUSED ? fl_status_text(x->status) : NULL;
}

/* Logs a line for each client that did something wrong, and one for all late clients. */
static void log_turns(fli_remote_queue *q, const queued_ask *asks, size_t n, size_t came, int enough)
{
    enum { LINES = 8 };
    char who[128];
    size_t round = (size_t)asks->x->ask.round + 1, logged = 0;
    for (size_t i = 0; i < n; i++) {
        const char *why = failure_of(&asks[i]);
        if (why && logged++ < LINES)
            fli_log(q->ctx, FL_LOG_WARNING, "round %zu: client %u is left out: %s", round, asks[i].x->ask.client, why);
    }
    if (logged > LINES)
        fli_log(q->ctx, FL_LOG_WARNING, "round %zu: %zu more clients are left out", round, logged - LINES);
    size_t late = name_clients(asks, n, EXCLUDED_LATE, who, sizeof who);
    if (late)
        fli_log(q->ctx, FL_LOG_WARNING,
                "round %zu: %zu of %zu clients are left out, they have not answered within %g seconds: %s", round, late,
                n, q->rules.deadline, who);
    if (!enough)
        fli_log(q->ctx, FL_LOG_WARNING,
                "round %zu does not count: %zu of %zu clients have answered, and server.quorum asks for %zu", round,
                came, n, fli_admission_least(&q->rules, n));
}

/* Logs once per run that clients are not measured. */
static void log_figures(fli_remote_queue *q, const queued_ask *asks, size_t n, size_t came)
{
    size_t i = 0;
    if (came == n || q->partial_logged) return;
    q->partial_logged = 1;
    while (!asks[i].x->status) i++;
    fli_log(q->ctx, FL_LOG_WARNING,
            "%zu clients are not measured, such as client %u: %s; metrics are of those that answer (logged once)",
            n - came, asks[i].x->ask.client,
            asks[i].x->why.text[0] ? asks[i].x->why.text : fl_status_text(asks[i].x->status));
}

/* A round that all of its clients refuse would repeat itself with the next cohort: the cause is shared. */
static void give_up_refused(fli_remote_queue *q, ask_batch *b, const queued_ask *asks, size_t n)
{
    char why[sizeof b->why.text];
    for (size_t i = 0; i < n; i++)
        if (asks[i].left_out != EXCLUDED_DECLINED) return;
    fli_snprintf(why, sizeof why, "round %llu: every client that was asked refuses, such as client %u: %.400s",
                 (unsigned long long)asks->x->ask.round + 1, asks->x->ask.client, asks->x->why.text);
    give_up_batch(q, b, FL_EIO, why);
}

static fl_status gather(void *executor, fli_exchange *const *list, size_t n)
{
    fli_remote_queue *q = executor;
    ask_batch b = {.gathers = 1};
    if (!n) return FL_OK;
    queued_ask *asks = fli_alloc(q->ctx, n, sizeof *asks);
    if (!asks) return list[0]->status = FL_ENOMEM;
    return_uploads(list, n);
    int turns = list[0]->ask.kind == FLI_ASK_TURN;
    size_t wanted = turns ? fli_admission_wanted(&q->rules, n) : n;
    pthread_mutex_lock(&q->lock);
    enqueue_all(q, &b, list, asks, n);
    wait_for(q, &b, wanted);
    if (turns && !q->closed) give_up_refused(q, &b, asks, n);
    fail_rest(q, &b, asks, n);
    if (!b.failed && !q->closed) leave_out_rest(q, &b, asks, n, wanted);
    dequeue_all(q, &b);
    fl_status s = verdict(q, &b, asks, n);
    int enough = s ? 1 : is_enough(q, &b, asks, n);
    if (!s) take(q, asks, n);
    if (s && !b.failed) word_failure(q, asks, n, s);
    pthread_mutex_unlock(&q->lock);
    forget_bodies(q);
    if (!s && turns) log_turns(q, asks, n, b.came, enough);
    if (!s && !turns) log_figures(q, asks, n, b.came);
    fli_free(asks);
    return s;
}

/* ---- one by one ------------------------------------------------------------------------------------------ */

static fl_status send(void *executor, fli_exchange *x)
{
    fli_remote_queue *q = executor;
    queued_ask *a = fli_alloc(q->ctx, 1, sizeof *a);
    if (!a) return FL_ENOMEM;
    return_uploads(&x, 1);
    pthread_mutex_lock(&q->lock);
    enqueue(q, &q->singles, x, 0, a);
    a->until = deadline_of(q);
    pthread_cond_broadcast(&q->asked);
    pthread_mutex_unlock(&q->lock);
    return FL_OK;
}

/* Leaves out late clients. Returns the next deadline. */
static double leave_out_late(fli_remote_queue *q)
{
    double next = INFINITY, now = fli_clock_now();
    for (queued_ask *a = q->first; a; a = a->next) {
        if (a->batch != &q->singles || a->progress == ASK_READING || !is_awaited(a)) continue;
        if (a->until <= now)
            leave_out_ask(q, a, EXCLUDED_LATE, "it has not answered in time (server.deadline)");
        else
            next = fmin(next, a->until);
    }
    return next;
}

/* Removes the ask that was answered or left out first from the list; NULL: none was. */
static queued_ask *take_first(fli_remote_queue *q)
{
    queued_ask **best = NULL, **at;
    for (at = &q->first; *at; at = &(*at)->next) {
        const queued_ask *a = *at;
        int done = a->progress == ASK_ANSWERED || (a->left_out && a->progress != ASK_WRITING);
        if (a->batch == &q->singles && done && (!best || a->order < (*best)->order)) best = at;
    }
    if (!best) return NULL;
    queued_ask *a = *best;
    *best = a->next;
    for (at = best; *at;) at = &(*at)->next;
    q->end = at;
    return a;
}

static fl_status await(void *executor, double seconds, fli_exchange **out)
{
    fli_remote_queue *q = executor;
    queued_ask *a = NULL;
    double until = fli_clock_now() + seconds;
    *out = NULL;
    pthread_mutex_lock(&q->lock);
    for (int more = 1; more && !q->closed && !q->singles.failed;) {
        double next = leave_out_late(q);
        if ((a = take_first(q))) break;
        more = wait_for_change(q, fmin(until, next)) || fli_clock_now() < until;
    }
    fl_status s = q->closed ? FL_EDONE : q->singles.failed;
    pthread_mutex_unlock(&q->lock);
    if (a) *out = a->x;
    fli_free(a);
    if (*out && (*out)->status)
        fli_log(q->ctx, FL_LOG_WARNING, "client %u is left out: %s", (*out)->ask.client, (*out)->why.text);
    if (s == FL_EDONE) return fli_fail(q->ctx, s, "the run was ended while clients were at work");
    return s ? fli_fail(q->ctx, s, "%s", q->singles.why.text) : FL_OK;
}

/* Only called when no carrier uses the queue. */
static void withdraw(void *executor)
{
    fli_remote_queue *q = executor;
    for (queued_ask **at = &q->first, *a; (a = *at);)
        if (a->batch == &q->singles) {
            *at = a->next;
            fli_free(a);
        } else {
            at = &a->next;
        }
    q->end = &q->first;
    forget_bodies(q); /* a later message may have the same address and serial */
}

/* ---- checkpoints ----------------------------------------------------------------------------------------- */

/* Clients keep their state in their own processes. */
static size_t state(const void *executor, size_t *spilled)
{
    (void)executor;
    return *spilled = 0;
}

/* Swaps `taken` for turns that are answered but not yet taken by the run: they do not count in a checkpoint. A second
 * call swaps back. */
static void swap_untaken(fli_remote_queue *q)
{
    for (queued_ask *a = q->first; a; a = a->next) {
        if (a->batch != &q->singles || a->progress != ASK_ANSWERED) continue;
        uint64_t *taken = &q->taken[a->x->ask.client], now = *taken;
        *taken = a->before;
        a->before = now;
    }
}

static void save(void *executor, fli_saver *out)
{
    fli_remote_queue *q = executor;
    fli_save_part(out, "mailbox"); /* the name in the file format */
    pthread_mutex_lock(&q->lock);
    swap_untaken(q);
    fli_save_count(out, q->numbers);
    for (size_t i = 0; i < q->spec.setup->clients; i++) fli_save_count(out, q->taken[i]);
    swap_untaken(q);
    pthread_mutex_unlock(&q->lock);
}

/* Numbers are never used again: new ones start above all that were given since the checkpoint. */
static fl_status load(void *executor, fli_loader *in)
{
    fli_remote_queue *q = executor;
    fli_load_part(in, "mailbox");
    q->numbers = fli_load_count(in, UINT64_MAX >> 1);
    for (size_t i = 0; i < q->spec.setup->clients; i++) q->taken[i] = fli_load_count(in, q->numbers);
    q->numbers |= UINT32_MAX;
    return fli_loader_status(in);
}

const fli_executor fli_executor_remote = {
    .name = "mailbox",
    .title = "clients elsewhere: the program that runs the server carries messages to them and back",
    .lends = 1,
    .open = open_queue,
    .join = join,
    .run = run,
    .gather = gather,
    .send = send,
    .await = await,
    .withdraw = withdraw,
    .state = state,
    .save = save,
    .load = load,
    .close = close_queue,
};
