#include "exec/mailbox.h"

#include "base/clock.h"
#include "base/number.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <string.h>

/* Exchanges that somebody waits for together. */
typedef struct {
    const fli_filled *filled; /* NULL: nobody wants to know */
    size_t left;              /* that are not answered */
    size_t held;              /* that a carrier reads or writes: until it has finished they must stay */
    fl_status failed;         /* there is no use in waiting for the rest, */
    fl_failure why;           /* and the reason */
} batch;

typedef enum { WAITING, WRITING, OUT, READING, ANSWERED } progress;

typedef struct letter {
    fli_exchange *x;
    batch *batch;
    size_t place; /* in the batch */
    uint64_t number, settled;
    progress progress;
    struct letter *next;
} letter;

struct fli_mailbox {
    fl_ctx *ctx; /* of the run */
    fli_digest cards;
    fli_clients_spec spec;
    fli_protocol protocol;
    pthread_mutex_t lock; /* guards all below, and every letter and batch */
    pthread_cond_t asked; /* there is a letter to carry, or it is closed */
    pthread_cond_t moved; /* a batch has come nearer to its end */
    letter *first, **end;
    uint64_t numbers; /* given to letters */
    uint64_t *taken;  /* of each client: the number of its last turn that was answered */
    int open, closed;
};

/* ---- life ------------------------------------------------------------------------------------------------ */

/* Waiting is by a clock that nobody sets. */
static int asked_init(pthread_cond_t *c)
{
    pthread_condattr_t a;
    if (pthread_condattr_init(&a)) return 1;
    int failed = pthread_condattr_setclock(&a, CLOCK_MONOTONIC) || pthread_cond_init(c, &a);
    pthread_condattr_destroy(&a);
    return failed;
}

fl_status fli_mailbox_new(fl_ctx *ctx, const fli_digest *cards, fli_mailbox **out)
{
    fli_mailbox *b = fli_alloc(ctx, 1, sizeof *b);
    if (!b) return FL_ENOMEM;
    b->ctx = ctx;
    b->cards = *cards;
    b->end = &b->first;
    int made = 0;
    if (!pthread_mutex_init(&b->lock, NULL)) made = 1;
    if (made == 1 && !asked_init(&b->asked)) made = 2;
    if (made == 2 && !pthread_cond_init(&b->moved, NULL)) made = 3;
    if (made == 3) {
        *out = b;
        return FL_OK;
    }
    if (made > 1) pthread_cond_destroy(&b->asked);
    if (made > 0) pthread_mutex_destroy(&b->lock);
    fli_free(b);
    return fli_fail(ctx, FL_ESYSTEM, "a lock cannot be created");
}

void fli_mailbox_free(fli_mailbox *b)
{
    if (!b) return;
    pthread_cond_destroy(&b->moved);
    pthread_cond_destroy(&b->asked);
    pthread_mutex_destroy(&b->lock);
    fli_free(b->taken);
    fli_free(b);
}

void fli_mailbox_close(fli_mailbox *b)
{
    pthread_mutex_lock(&b->lock);
    b->closed = 1;
    pthread_cond_broadcast(&b->asked);
    pthread_cond_broadcast(&b->moved);
    pthread_mutex_unlock(&b->lock);
}

/* ---- terms ----------------------------------------------------------------------------------------------- */

static fl_status write_terms(const fli_mailbox *b, fl_ctx *ctx, uint32_t client, unsigned char **out, size_t *n)
{
    fli_terms said;
    fli_terms_make(&b->spec, client, &said);
    *n = fli_terms_bytes(&said);
    if (!(*out = fli_alloc(ctx, *n, 1))) return FL_ENOMEM;
    fli_terms_write(&said, *out);
    return FL_OK;
}

/* Which run this is: what its clients are told, their numbers apart, and who they are. */
static fl_status identify(fli_mailbox *b)
{
    unsigned char *terms;
    size_t n;
    fli_hash h;
    fl_status s = write_terms(b, b->ctx, 0, &terms, &n);
    if (s) return s;
    fli_hash_init(&h);
    fli_hash_bytes(&h, b->cards.byte, sizeof b->cards.byte);
    fli_hash_bytes(&h, terms, n);
    b->protocol.run = fli_hash_end(&h);
    fli_free(terms);
    return FL_OK;
}

fl_status fli_mailbox_terms(fli_mailbox *b, fl_ctx *ctx, uint32_t client, fl_bytes *out)
{
    unsigned char *terms;
    size_t n;
    *out = (fl_bytes){NULL, 0};
    if (!b->open) return fli_fail(ctx, FL_ECONFIG, "there are no terms before the run has begun");
    fl_status s = write_terms(b, ctx, client, &terms, &n);
    if (s) return s;
    fli_packet p = {.kind = FLI_PACKET_TERMS, .client = client, .run = b->protocol.run, .body = terms, .body_bytes = n};
    s = fli_packet_write(ctx, &p, out);
    fli_free(terms);
    return s;
}

size_t fli_mailbox_answer_bytes(const fli_mailbox *b) { return fli_answer_bytes(&b->protocol); }

/* ---- carriers -------------------------------------------------------------------------------------------- */

/* Somebody may have waited for this letter alone. */
static void let_go(fli_mailbox *b, letter *l, progress now)
{
    l->progress = now;
    l->batch->held--;
    if (now == ANSWERED) l->batch->left--;
    pthread_cond_broadcast(&b->moved);
}

static letter *find_waiting(const fli_mailbox *b)
{
    letter *l = b->first;
    while (l && (l->progress != WAITING || l->batch->failed)) l = l->next;
    return l;
}

static struct timespec in_seconds(double seconds)
{
    const double longest = 1e9;
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    double whole, part = modf(seconds > 0 ? fmin(seconds, longest) : 0, &whole);
    t.tv_sec += (time_t)whole;
    t.tv_nsec += (long)(part * 1e9);
    if (t.tv_nsec >= 1000000000) t.tv_nsec -= 1000000000, t.tv_sec++;
    return t;
}

fl_status fli_mailbox_next(fli_mailbox *b, fl_ctx *ctx, double seconds, uint32_t *client, fl_bytes *out)
{
    struct timespec until = in_seconds(seconds);
    fl_status s = FL_OK;
    letter *l;
    *out = (fl_bytes){NULL, 0};
    pthread_mutex_lock(&b->lock);
    for (int late = 0; !s && !out->n;) {
        while (!(l = find_waiting(b)) && !b->closed && !late)
            late = pthread_cond_timedwait(&b->asked, &b->lock, &until) == ETIMEDOUT;
        if (b->closed) s = FL_EDONE;
        if (s || !l) break;
        *client = l->x->ask.client;
        l->progress = WRITING;
        l->batch->held++;
        pthread_mutex_unlock(&b->lock);
        s = fli_ask_pack(ctx, &b->protocol, l->number, l->settled, l->x, out);
        pthread_mutex_lock(&b->lock);
        int unwanted = !s && (b->closed || l->batch->failed); /* meanwhile */
        let_go(b, l, s ? WAITING : OUT);
        if (unwanted) fl_bytes_free(out);
    }
    pthread_mutex_unlock(&b->lock);
    return s;
}

static letter *find_client(const fli_mailbox *b, uint32_t client)
{
    letter *l = b->first;
    while (l && l->x->ask.client != client) l = l->next;
    return l;
}

/* Takes the letter that an answer is for out of everybody else's hands. */
static fl_status claim(fli_mailbox *b, fl_ctx *ctx, uint32_t client, uint64_t number, letter **out)
{
    pthread_mutex_lock(&b->lock);
    letter *l = b->closed ? NULL : find_client(b, client);
    if (l && (l->progress != OUT || l->number != number || l->batch->failed)) l = NULL;
    if (l) {
        l->progress = READING;
        l->batch->held++;
    }
    *out = l;
    pthread_mutex_unlock(&b->lock);
    if (l) return FL_OK;
    return fli_fail(ctx, FL_EMISMATCH, "client %u: nobody waits for this answer, or not any more", client);
}

/* Ends the wait for a batch; the first reason stays. */
static void give_up(fli_mailbox *b, batch *g, fl_status status, uint32_t client, const char *why)
{
    if (g->failed) return;
    g->failed = status;
    fli_snprintf(g->why.text, sizeof g->why.text, "client %u: %s", client, why);
    if (status == FL_ECALLBACK) fli_fault_note(b->spec.fault, &g->why); /* nor is anything of the user's called here */
}

/* A model that is no longer finite is for the server's side to word, and to name the first of those in the cohort;
 * anything else ends the run now. */
static void note_failure(fli_mailbox *b, const letter *l)
{
    fl_status s = l->x->status;
    const char *why = l->x->why.text;
    if (s && s != FL_EDIVERGED) give_up(b, l->batch, s, l->x->ask.client, *why ? why : fl_status_text(s));
}

fl_status fli_mailbox_answer(fli_mailbox *b, fl_ctx *ctx, uint32_t client, const void *answer, size_t n)
{
    fli_packet p;
    letter *l;
    fl_status s = fli_packet_read(ctx, FLI_PACKET_ANSWER, answer, n, &p);
    if (s) return s;
    if (!fli_digest_same(&p.run, &b->protocol.run))
        return fli_fail(ctx, FL_EMISMATCH, "client %u: this answer is of another run", client);
    if (p.client != client)
        return fli_fail(ctx, FL_EMISMATCH, "client %u: this answer is of client %u", client, p.client);
    if ((s = claim(b, ctx, client, p.number, &l))) return s;
    s = fli_answer_read(ctx, &b->protocol, &p, l->x);
    const fli_filled *filled = l->batch->filled;
    if (!s && filled && !l->x->status) filled->tell(filled->arg, l->place);
    pthread_mutex_lock(&b->lock);
    if (!s) note_failure(b, l);
    if (!s && !l->x->status && l->x->ask.kind == FLI_ASK_TURN) b->taken[client] = l->number;
    let_go(b, l, s ? OUT : ANSWERED);
    pthread_mutex_unlock(&b->lock);
    return s;
}

size_t fli_mailbox_awaited(fli_mailbox *b, uint32_t *clients, size_t most)
{
    size_t n = 0;
    pthread_mutex_lock(&b->lock);
    for (const letter *l = b->closed ? NULL : b->first; l; l = l->next) {
        if (l->progress == ANSWERED || l->batch->failed) continue;
        if (clients && n < most) clients[n] = l->x->ask.client;
        n++;
    }
    pthread_mutex_unlock(&b->lock);
    return n;
}

fl_status fli_mailbox_drop(fli_mailbox *b, fl_ctx *ctx, uint32_t client, const char *why)
{
    (void)b;
    return fli_fail(ctx, FL_EREFUSED, "client %u cannot be dropped: %s", client, why ? why : "");
}

fl_status fli_mailbox_lost(fli_mailbox *b, fl_ctx *ctx, uint32_t client, const char *why)
{
    fl_status s = FL_OK;
    pthread_mutex_lock(&b->lock);
    letter *l = b->closed ? NULL : find_client(b, client);
    if (l && l->progress != READING && l->progress != ANSWERED && !l->batch->failed) {
        give_up(b, l->batch, FL_EIO, client, why && *why ? why : "it was lost");
        pthread_cond_broadcast(&b->moved);
    } else {
        s = fli_fail(ctx, FL_EMISMATCH, "client %u: no answer of it is awaited", client);
    }
    pthread_mutex_unlock(&b->lock);
    return s;
}

/* ---- the executor ---------------------------------------------------------------------------------------- */

static fl_status open_mailbox(fl_ctx *ctx, const fli_clients_spec *spec, fli_crew *crew, void **out)
{
    fli_mailbox *b = spec->mailbox;
    (void)crew;
    b->ctx = ctx;
    b->spec = *spec;
    b->protocol = (fli_protocol){.model = spec->model,
                                 .algo = spec->algo,
                                 .params = spec->params,
                                 .classes = spec->fed->classes,
                                 .clients = spec->clients};
    fl_status s = identify(b);
    if (s) return s;
    fli_free(b->taken);
    if (!(b->taken = fli_alloc(ctx, spec->clients, sizeof *b->taken))) return FL_ENOMEM;
    b->open = 1;
    *out = b;
    return FL_OK;
}

/* The mailbox belongs to whoever made it. */
static void close_mailbox(void *executor) { ((fli_mailbox *)executor)->open = 0; }

static fl_status join(void *executor, uint32_t client, int digest, fli_card *out)
{
    const fli_mailbox *b = executor;
    return fli_card_make(b->ctx, b->spec.fed, client, digest, out);
}

static void post(fli_mailbox *b, batch *g, fli_exchange *const *list, letter *letters, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        letters[i] = (letter){
            .x = list[i], .batch = g, .place = i, .number = ++b->numbers, .settled = b->taken[list[i]->ask.client]};
        *b->end = &letters[i];
        b->end = &letters[i].next;
    }
    pthread_cond_broadcast(&b->asked);
}

static void unpost(fli_mailbox *b, const batch *g)
{
    letter **at = &b->first;
    while (*at)
        if ((*at)->batch == g)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    b->end = at;
}

/* What is not answered fails for the reason that there is; with it all that failed otherwise, so that there is one
 * reason. */
static void fail_rest(const batch *g, letter *letters, size_t n)
{
    fl_status s = g->failed ? g->failed : g->left ? FL_EDONE : FL_OK;
    fl_failure why = g->why;
    if (!s) return;
    if (!g->failed) fl_failed(&why, "the run was ended while clients were at work");
    for (size_t i = 0; i < n; i++)
        if (letters[i].progress != ANSWERED || letters[i].x->status) letters[i].x->status = s, letters[i].x->why = why;
}

static void run(void *executor, fli_exchange *const *list, size_t n, const fli_filled *filled)
{
    fli_mailbox *b = executor;
    batch g = {.filled = filled, .left = n};
    letter *letters = n ? fli_alloc(b->ctx, n, sizeof *letters) : NULL;
    for (size_t i = 0; !letters && i < n; i++) list[i]->status = FL_ENOMEM;
    if (!letters) return;
    pthread_mutex_lock(&b->lock);
    post(b, &g, list, letters, n);
    while ((g.left && !g.failed && !b->closed) || g.held) pthread_cond_wait(&b->moved, &b->lock);
    unpost(b, &g);
    fail_rest(&g, letters, n);
    pthread_mutex_unlock(&b->lock);
    fli_free(letters);
}

static void one(void *executor, fli_exchange *x, size_t worker)
{
    (void)worker;
    run(executor, &x, 1, NULL);
}

/* What clients keep they keep where they are. */
static size_t state(const void *executor, size_t *spilled)
{
    (void)executor;
    return *spilled = 0;
}

static void save(void *executor, fli_saver *out)
{
    (void)executor;
    (void)out;
}

static fl_status load(void *executor, fli_loader *in)
{
    (void)executor;
    return fli_loader_status(in);
}

const fli_executor fli_executor_mailbox = {
    .name = "mailbox",
    .title = "clients elsewhere: whoever runs the server carries messages to them and back",
    .open = open_mailbox,
    .join = join,
    .run = run,
    .one = one,
    .state = state,
    .save = save,
    .load = load,
    .close = close_mailbox,
};
