#include "remote/remote_queue.h"

#include "base/number.h"
#include "base/os.h"

#include <math.h>
#include <string.h>

/* ==== remote queue ========================================================================================== */

/* ---- life ------------------------------------------------------------------------------------------------ */

fl_status fli_remote_queue_new(fl_ctx *ctx, const fli_digest *cards, uint64_t secret, const fli_admission *rules,
                               fli_remote_queue **out)
{
    fli_remote_queue *b = fli_alloc(ctx, 1, sizeof *b);
    if (!b) return FL_ENOMEM;
    b->ctx = ctx;
    b->cards = *cards;
    b->secret = secret;
    b->rules = *rules;
    b->loose.gathers = 1;
    b->end = &b->first;
    int made = 0;
    if (!pthread_mutex_init(&b->lock, NULL)) made = 1;
    if (made == 1 && !fli_clock_cond(&b->asked)) made = 2;
    if (made == 2 && !fli_clock_cond(&b->moved)) made = 3;
    if (made == 3) {
        *out = b;
        return FL_OK;
    }
    if (made > 1) pthread_cond_destroy(&b->asked);
    if (made > 0) pthread_mutex_destroy(&b->lock);
    fli_free(b);
    return fli_fail(ctx, FL_ESYSTEM, "a lock cannot be created");
}

void fli_remote_queue_free(fli_remote_queue *b)
{
    if (!b) return;
    pthread_cond_destroy(&b->moved);
    pthread_cond_destroy(&b->asked);
    pthread_mutex_destroy(&b->lock);
    fli_free(b->taken);
    fli_free(b->longest);
    fli_free(b);
}

void fli_remote_queue_close(fli_remote_queue *b)
{
    pthread_mutex_lock(&b->lock);
    b->closed = 1;
    pthread_cond_broadcast(&b->asked);
    pthread_cond_broadcast(&b->moved);
    pthread_mutex_unlock(&b->lock);
}

/* ---- terms ----------------------------------------------------------------------------------------------- */

static fl_status write_terms(const fli_remote_queue *b, fl_ctx *ctx, uint32_t client, unsigned char **out, size_t *n)
{
    fli_terms said;
    fli_terms_make(&b->spec, client, &said);
    *n = fli_terms_bytes(&said);
    if (!(*out = fli_alloc(ctx, *n, 1))) return FL_ENOMEM;
    fli_terms_write(&said, *out);
    return FL_OK;
}

/* Which run this is: what its clients are told, their numbers apart, and who they are. A client knows all of it but
 * the others' cards, which it could find by trying; not so together with the secret. */
static fl_status identify(fli_remote_queue *b)
{
    unsigned char *terms;
    size_t n;
    fli_hash h;
    fl_status s = write_terms(b, b->ctx, 0, &terms, &n);
    if (s) return s;
    fli_hash_init(&h);
    fli_hash_bytes(&h, b->cards.byte, sizeof b->cards.byte);
    fli_hash_bytes(&h, terms, n);
    if (b->secret) fli_hash_count(&h, b->secret);
    b->protocol.run = fli_hash_end(&h);
    fli_free(terms);
    return FL_OK;
}

/* There is a run: its clients are asked for this. */
static fl_status mailbox_open(fl_ctx *ctx, fli_remote_queue *b, const fli_clients_spec *spec)
{
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
    fli_free(b->longest);
    b->taken = fli_alloc(ctx, spec->clients, sizeof *b->taken);
    b->longest = fli_alloc(ctx, spec->clients, sizeof *b->longest);
    if (!b->taken || !b->longest) return FL_ENOMEM;
    b->open = 1;
    return FL_OK;
}

fl_status fli_remote_queue_terms(fli_remote_queue *b, fl_ctx *ctx, uint32_t client, fl_bytes *out)
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

size_t fli_remote_queue_answer_bytes(const fli_remote_queue *b) { return fli_answer_bytes(&b->protocol); }

/* ---- carriers -------------------------------------------------------------------------------------------- */

/* Waits until something has moved, at most until fli_clock_now() is that; 0: it is. */
static int mailbox_wait(fli_remote_queue *b, double until) { return !fli_clock_wait(&b->moved, &b->lock, until); }

int fli_queued_ask_awaited(const fli_queued_ask *l)
{
    const fli_ask_batch *g = l->batch;
    return l->progress != FLI_ANSWERED && !l->left_out && !g->over && !g->failed;
}

/* Nobody waits for it any more; a sentence for the log. */
static void letter_leave_out(fli_remote_queue *b, fli_queued_ask *l, fli_left_out how, const char *why)
{
    l->left_out = how;
    l->order = ++b->orders;
    l->x->status = FL_EREFUSED;
    fli_snprintf(l->x->why.text, sizeof l->x->why.text, "%s", why);
    l->batch->left--;
    pthread_cond_broadcast(&b->moved);
    if (l->batch == &b->loose) pthread_cond_broadcast(&b->asked); /* it may be measured now */
}

/* Ends the wait for a batch; the first reason stays. */
static void pile_give_up(fli_remote_queue *b, fli_ask_batch *g, fl_status status, const char *why)
{
    if (g->failed) return;
    g->failed = status;
    fli_snprintf(g->why.text, sizeof g->why.text, "%s", why);
    if (status == FL_ECALLBACK)
        fli_user_failure_note(b->spec.fault, &g->why); /* nor is anything of the user's called here */
    pthread_cond_broadcast(&b->moved);
}

/* Of those that somebody waits for; NULL: there is none. */
static fli_queued_ask *find_client(const fli_remote_queue *b, uint32_t client)
{
    fli_queued_ask *l = b->closed ? NULL : b->first;
    while (l && (l->x->ask.client != client || !fli_queued_ask_awaited(l))) l = l->next;
    return l;
}

/* A client is asked for one thing at a time: one that is at work is measured when it has come back. */
static int must_wait(const fli_remote_queue *b, const fli_queued_ask *l)
{
    return l->batch != &b->loose && b->loose.left && find_client(b, l->x->ask.client) != l;
}

static fli_queued_ask *find_waiting(const fli_remote_queue *b)
{
    fli_queued_ask *l = b->first;
    while (l && (l->progress != FLI_WAITING || !fli_queued_ask_awaited(l) || must_wait(b, l))) l = l->next;
    return l;
}

/* The carrier has finished with it. Somebody may have waited for this letter alone. */
static void let_go(fli_remote_queue *b, fli_queued_ask *l, fli_progress now)
{
    l->progress = now;
    l->batch->held--;
    pthread_cond_broadcast(&b->moved);
}

fl_status fli_remote_queue_next(fli_remote_queue *b, fl_ctx *ctx, double seconds, uint32_t *client, fl_bytes *out)
{
    double until = fli_clock_now() + (seconds > 0 ? seconds : 0);
    fl_status s = FL_OK;
    fli_queued_ask *l;
    *out = (fl_bytes){NULL, 0};
    pthread_mutex_lock(&b->lock);
    for (int late = 0; !s && !out->n;) {
        while (!(l = find_waiting(b)) && !b->closed && !late) late = fli_clock_wait(&b->asked, &b->lock, until);
        if (b->closed) s = FL_EDONE;
        if (s || !l) break;
        *client = l->x->ask.client;
        uint64_t settled = b->taken[*client];
        l->progress = FLI_WRITING;
        l->batch->held++;
        pthread_mutex_unlock(&b->lock);
        s = fli_ask_pack(ctx, &b->protocol, l->number, settled, l->x, out);
        pthread_mutex_lock(&b->lock);
        int unwanted = !s && (b->closed || !fli_queued_ask_awaited(l)); /* meanwhile */
        let_go(b, l, s ? FLI_WAITING : FLI_OUT);
        if (unwanted) fl_bytes_free(out);
    }
    pthread_mutex_unlock(&b->lock);
    return s;
}

/* Takes the letter that an answer is for out of everybody else's hands. */
static fl_status claim(fli_remote_queue *b, fl_ctx *ctx, uint32_t client, uint64_t number, fli_queued_ask **out)
{
    pthread_mutex_lock(&b->lock);
    fli_queued_ask *l = find_client(b, client);
    if (l && (l->progress != FLI_OUT || l->number != number)) l = NULL;
    if (l) {
        l->progress = FLI_READING;
        l->batch->held++;
    }
    *out = l;
    pthread_mutex_unlock(&b->lock);
    if (l) return FL_OK;
    return fli_fail(ctx, FL_EMISMATCH, "client %u: nobody waits for this answer, or not any more", client);
}

/* Where everybody must come, or that is the rule, a turn that failed ends the run now; but a model that is no longer
 * finite is for the server's side to word, and to name the first of those in the cohort. */
static void note_failure(fli_remote_queue *b, const fli_queued_ask *l)
{
    char why[sizeof l->x->why.text];
    fl_status s = l->x->status;
    int dropped = l->batch->gathers && (b->rules.failed == FLI_FAILED_DROP || s == FL_EREFUSED);
    if (!s || dropped || s == FL_EDIVERGED) return;
    fli_snprintf(why, sizeof why, "client %u: %s", l->x->ask.client,
                 *l->x->why.text ? l->x->why.text : fl_status_text(s));
    pile_give_up(b, l->batch, s, why);
}

static void note_length(fli_remote_queue *b, const fli_exchange *x)
{
    fli_longest *u = &b->longest[x->ask.client];
    if (x->ask.kind == FLI_ASK_TURN && x->norm > u->norm) *u = (fli_longest){x->norm, x->ask.round};
}

/* It is there. Of those that are sent one by one all that come count. */
static void note_answer(fli_remote_queue *b, fli_queued_ask *l)
{
    uint64_t *taken = &b->taken[l->x->ask.client];
    note_failure(b, l);
    l->order = ++b->orders;
    l->before = *taken;
    l->batch->left--;
    if (l->x->status) return;
    note_length(b, l->x);
    l->batch->came++;
    if (l->batch == &b->loose) *taken = l->number;
}

fl_status fli_remote_queue_answer(fli_remote_queue *b, fl_ctx *ctx, uint32_t client, const void *answer, size_t n)
{
    fli_packet p;
    fli_queued_ask *l;
    fl_failure why;
    fl_status s = fli_packet_read(ctx, FLI_PACKET_ANSWER, answer, n, &p);
    if (s) return s;
    if (!fli_digest_same(&p.run, &b->protocol.run))
        return fli_fail(ctx, FL_EMISMATCH, "client %u: this answer is of another run", client);
    if (p.client != client)
        return fli_fail(ctx, FL_EMISMATCH, "client %u: this answer is of client %u", client, p.client);
    if ((s = claim(b, ctx, client, p.number, &l))) return s;
    s = fli_answer_read(ctx, &b->protocol, &p, l->x);
    int refused = !s && !l->x->status && (l->x->status = fli_admit(&b->rules, &b->protocol, l->x));
    const fli_filled *filled = l->batch->filled;
    if (!s && filled && !l->x->status) filled->tell(filled->arg, l->place);
    pthread_mutex_lock(&b->lock);
    why = l->x->why;
    if (!s) note_answer(b, l);
    if (l->batch == &b->loose) pthread_cond_broadcast(&b->asked); /* it may be measured now */
    let_go(b, l, s ? FLI_OUT : FLI_ANSWERED);
    pthread_mutex_unlock(&b->lock);
    return refused ? fli_fail(ctx, FL_EREFUSED, "client %u: %s", client, why.text) : s;
}

int fli_remote_queue_longest(fli_remote_queue *b, char *sentence, size_t n)
{
    size_t first = 0;
    double others = 0;
    pthread_mutex_lock(&b->lock);
    for (size_t i = 1; i < b->spec.clients; i++)
        if (b->longest[i].norm > b->longest[first].norm) first = i;
    for (size_t i = 0; i < b->spec.clients; i++)
        if (i != first) others = fmax(others, b->longest[i].norm);
    fli_longest u = b->longest[first];
    pthread_mutex_unlock(&b->lock);
    if (u.norm > 0)
        fli_snprintf(sentence, n,
                     "the longest upload came from client %zu, in round %llu: its norm is %.4g, and the longest of all "
                     "others %.4g (server.largest_norm bounds them)",
                     first, (unsigned long long)u.round + 1, u.norm, others);
    return u.norm > 0;
}

size_t fli_remote_queue_awaited(fli_remote_queue *b, uint32_t *clients, size_t most)
{
    size_t n = 0;
    pthread_mutex_lock(&b->lock);
    for (const fli_queued_ask *l = b->closed ? NULL : b->first; l; l = l->next) {
        if (!fli_queued_ask_awaited(l)) continue;
        if (clients && n < most) clients[n] = l->x->ask.client;
        n++;
    }
    pthread_mutex_unlock(&b->lock);
    return n;
}

/* A client that somebody waits for, and whose answer is not being read. */
static fl_status find_silent(fli_remote_queue *b, fl_ctx *ctx, uint32_t client, fli_queued_ask **out)
{
    fli_queued_ask *l = find_client(b, client);
    *out = l && l->progress != FLI_READING ? l : NULL;
    return *out ? FL_OK : fli_fail(ctx, FL_EMISMATCH, "client %u: no answer of it is awaited", client);
}

static fl_status leave_out(fli_remote_queue *b, fl_ctx *ctx, uint32_t client, fli_left_out how, const char *why)
{
    fli_queued_ask *l;
    pthread_mutex_lock(&b->lock);
    fl_status s = find_silent(b, ctx, client, &l);
    if (!s && !l->batch->gathers)
        s = fli_fail(ctx, FL_EREFUSED, "client %u cannot be dropped: everybody's answer is needed here", client);
    /* it may be measured while it is at work */
    for (; !s && l; l = find_client(b, client))
        if (l->progress == FLI_READING || !l->batch->gathers)
            break;
        else
            letter_leave_out(b, l, how, why && *why ? why : "it was dropped");
    pthread_mutex_unlock(&b->lock);
    return s;
}

fl_status fli_remote_queue_drop(fli_remote_queue *b, fl_ctx *ctx, uint32_t client, const char *why)
{
    return leave_out(b, ctx, client, FLI_DROPPED, why);
}

fl_status fli_remote_queue_refused(fli_remote_queue *b, fl_ctx *ctx, uint32_t client, const char *why)
{
    return leave_out(b, ctx, client, FLI_DECLINED, why);
}

fl_status fli_remote_queue_lost(fli_remote_queue *b, fl_ctx *ctx, uint32_t client, const char *why)
{
    fli_queued_ask *l;
    char text[sizeof l->batch->why.text];
    fli_snprintf(text, sizeof text, "client %u: %s", client, why && *why ? why : "it was lost");
    pthread_mutex_lock(&b->lock);
    fl_status s = find_silent(b, ctx, client, &l);
    if (!s) pile_give_up(b, l->batch, FL_EIO, text);
    pthread_mutex_unlock(&b->lock);
    return s;
}

/* ==== remote round ========================================================================================== */

/* The run's side of a mailbox: exchanges are put in, and waited for. */

/* ---- life ------------------------------------------------------------------------------------------------ */

static fl_status open_mailbox(fl_ctx *ctx, const fli_clients_spec *spec, fli_workers *crew, void **out)
{
    fli_remote_queue *b = spec->remote_queue;
    (void)crew;
    *out = b;
    return mailbox_open(ctx, b, spec);
}

/* The mailbox belongs to whoever made it. */
static void close_mailbox(void *executor) { ((fli_remote_queue *)executor)->open = 0; }

static fl_status join(void *executor, uint32_t client, int digest, fli_card *out)
{
    const fli_remote_queue *b = executor;
    return fli_card_make(b->ctx, b->spec.fed, client, digest, out);
}

/* ---- letters --------------------------------------------------------------------------------------------- */

static void post(fli_remote_queue *b, fli_ask_batch *g, fli_exchange *x, size_t place, fli_queued_ask *l)
{
    *l = (fli_queued_ask){.x = x, .batch = g, .place = place, .number = ++b->numbers, .until = INFINITY};
    x->status = FL_OK;
    x->why.text[0] = 0;
    g->left++;
    *b->end = l;
    b->end = &l->next;
}

/* A client sees the number of its own ask; in the order of the cohort that would say how many with lower numbers than
 * its own take part. */
static void shuffle_numbers(const fli_remote_queue *b, fli_queued_ask *letters, size_t n)
{
    fli_rng rng;
    fli_rng_init(&rng, b->secret, FLI_RNG_NUMBERS, (uint32_t)b->numbers, (uint32_t)(b->numbers >> 32));
    for (size_t i = n; i > 1; i--) {
        fli_queued_ask *one = &letters[i - 1], *other = &letters[fli_rng_below(&rng, i)];
        uint64_t number = one->number;
        one->number = other->number;
        other->number = number;
    }
}

static void post_all(fli_remote_queue *b, fli_ask_batch *g, fli_exchange *const *list, fli_queued_ask *letters,
                     size_t n)
{
    for (size_t i = 0; i < n; i++) post(b, g, list[i], i, &letters[i]);
    if (b->secret) shuffle_numbers(b, letters, n);
    pthread_cond_broadcast(&b->asked);
}

static void unpost(fli_remote_queue *b, const fli_ask_batch *g)
{
    fli_queued_ask **at = &b->first;
    while (*at)
        if ((*at)->batch == g)
            *at = (*at)->next;
        else
            at = &(*at)->next;
    b->end = at;
}

static double deadline_of(const fli_remote_queue *b)
{
    return b->rules.deadline > 0 ? fli_clock_now() + b->rules.deadline : INFINITY;
}

/* Until nobody is awaited, so many have come, or it is too late, and no carrier has any of it in hand. */
static void wait_for(fli_remote_queue *b, fli_ask_batch *g, size_t wanted)
{
    double until = deadline_of(b);
    int early = 1;
    while (g->left && g->came < wanted && !g->failed && !b->closed && early) early = mailbox_wait(b, until);
    g->over = g->gathers;
    while (g->held) pthread_cond_wait(&b->moved, &b->lock);
}

/* "3, 7, 9 and 4 more": those that are left out for that reason, or with FLI_NOT_LEFT_OUT those that are awaited. */
static size_t name_clients(const fli_queued_ask *letters, size_t n, fli_left_out how, char *out, size_t room)
{
    enum { NAMED = 5 };
    size_t count = 0;
    *out = 0;
    for (size_t i = 0; i < n; i++) {
        if (letters[i].left_out != how || letters[i].progress == FLI_ANSWERED) continue;
        size_t used = strlen(out);
        if (count++ < NAMED)
            fli_snprintf(out + used, room - used, "%s%u", count > 1 ? ", " : "", letters[i].x->ask.client);
    }
    size_t used = strlen(out);
    if (count > NAMED) fli_snprintf(out + used, room - used, " and %zu more", count - NAMED);
    return count;
}

/* ---- everybody is needed --------------------------------------------------------------------------------- */

/* The deadline has passed. */
static void give_up_on(fli_remote_queue *b, fli_ask_batch *g, const fli_queued_ask *letters, size_t n)
{
    char who[128], why[400];
    size_t count = name_clients(letters, n, FLI_NOT_LEFT_OUT, who, sizeof who);
    fli_snprintf(why, sizeof why,
                 "%zu of %zu clients have not answered within %g seconds (server.deadline), and all of them are "
                 "needed here: client%s %s",
                 count, n, b->rules.deadline, count > 1 ? "s" : "", who);
    pile_give_up(b, g, FL_EIO, why);
}

/* What is not answered fails for the reason that there is; with it all that failed otherwise, so that there is one
 * reason. */
static void fail_rest(const fli_remote_queue *b, const fli_ask_batch *g, fli_queued_ask *letters, size_t n)
{
    fl_status s = g->failed ? g->failed : b->closed && g->left ? FL_EDONE : FL_OK;
    fl_failure why = g->why;
    if (!s) return;
    if (!g->failed) fl_failed(&why, "the run was ended while clients were at work");
    for (size_t i = 0; i < n; i++)
        if (letters[i].progress != FLI_ANSWERED || letters[i].x->status)
            letters[i].x->status = s, letters[i].x->why = why;
}

/* What these clients did counts from now on. */
static void take(fli_remote_queue *b, const fli_queued_ask *letters, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        const fli_ask *ask = &letters[i].x->ask;
        if (ask->kind == FLI_ASK_TURN && !letters[i].x->status) b->taken[ask->client] = letters[i].number;
    }
}

static void run(void *executor, fli_exchange *const *list, size_t n, const fli_filled *filled)
{
    fli_remote_queue *b = executor;
    fli_ask_batch g = {.filled = filled};
    fli_queued_ask *letters = n ? fli_alloc(b->ctx, n, sizeof *letters) : NULL;
    for (size_t i = 0; !letters && i < n; i++) list[i]->status = FL_ENOMEM;
    if (!letters) return;
    pthread_mutex_lock(&b->lock);
    post_all(b, &g, list, letters, n);
    wait_for(b, &g, SIZE_MAX);
    if (g.left && !b->closed) give_up_on(b, &g, letters, n);
    unpost(b, &g);
    fail_rest(b, &g, letters, n);
    if (!g.failed) take(b, letters, n);
    pthread_mutex_unlock(&b->lock);
    fli_free(letters);
}

/* ---- who does not come is left out ------------------------------------------------------------------------ */

/* Those that have not answered when nobody is waited for any more. */
static void leave_out_rest(fli_remote_queue *b, fli_ask_batch *g, fli_queued_ask *letters, size_t n, size_t wanted)
{
    int enough = g->came >= wanted;
    for (size_t i = 0; i < n; i++)
        if (letters[i].progress != FLI_ANSWERED && !letters[i].left_out)
            letter_leave_out(b, &letters[i], enough ? FLI_NOT_NEEDED : FLI_LATE,
                             enough ? "enough others have answered (server.wait_for)"
                                    : "it has not answered in time (server.deadline)");
}

/* Whether a round with so few counts; if not, nobody has come. */
static int is_enough(const fli_remote_queue *b, const fli_ask_batch *g, const fli_queued_ask *letters, size_t n)
{
    if (letters->x->ask.kind != FLI_ASK_TURN || g->came >= fli_admission_least(&b->rules, n)) return 1;
    for (size_t i = 0; i < n; i++)
        if (!letters[i].x->status) letters[i].x->status = FL_EREFUSED;
    return 0;
}

/* What ends the run: a turn that failed if nobody came, or if the rule says so. */
static fl_status verdict(const fli_remote_queue *b, const fli_ask_batch *g, const fli_queued_ask *letters, size_t n)
{
    fl_status first = FL_OK;
    if (g->failed) return g->failed;
    for (size_t i = 0; i < n; i++) {
        fl_status s = letters[i].x->status;
        if (s == FL_EDONE) return s;
        if (!first && s != FL_EREFUSED) first = s;
    }
    return g->came && b->rules.failed == FLI_FAILED_DROP ? FL_OK : first;
}

/* So that it can be said of the whole run. Divergence is for the server's side to word. */
static void word_failure(fli_remote_queue *b, const fli_queued_ask *letters, size_t n, fl_status status)
{
    size_t i = 0;
    while (i < n && letters[i].x->status != status) i++;
    if (i == n || status == FL_EDIVERGED || status == FL_EDONE) return;
    fli_exchange *x = letters[i].x;
    fl_failure why = x->why;
    fli_snprintf(x->why.text, sizeof x->why.text, "client %u: %.480s", x->ask.client,
                 why.text[0] ? why.text : fl_status_text(status));
    if (status == FL_ECALLBACK) fli_user_failure_note(b->spec.fault, &x->why);
}

/* What a client did wrong that is left out for it; NULL: nothing. */
static const char *fault_of(const fli_queued_ask *l)
{
    const fli_exchange *x = l->x;
    if (l->left_out == FLI_LATE || l->left_out == FLI_NOT_NEEDED) return NULL;
    if (x->why.text[0]) return x->status ? x->why.text : NULL;
    return x->status && x->status != FL_EREFUSED ? fl_status_text(x->status) : NULL;
}

/* A line for each client that did something wrong, one for all that were late. */
static void say_turns(fli_remote_queue *b, const fli_queued_ask *letters, size_t n, size_t came, int enough)
{
    enum { LINES = 8 };
    char who[128];
    size_t round = (size_t)letters->x->ask.round + 1, said = 0;
    for (size_t i = 0; i < n; i++) {
        const char *why = fault_of(&letters[i]);
        if (why && said++ < LINES)
            fli_log(b->ctx, FL_LOG_WARNING, "round %zu: client %u is left out: %s", round, letters[i].x->ask.client,
                    why);
    }
    if (said > LINES) fli_log(b->ctx, FL_LOG_WARNING, "round %zu: %zu more clients are left out", round, said - LINES);
    size_t late = name_clients(letters, n, FLI_LATE, who, sizeof who);
    if (late)
        fli_log(b->ctx, FL_LOG_WARNING,
                "round %zu: %zu of %zu clients are left out, they have not answered within %g seconds: %s", round, late,
                n, b->rules.deadline, who);
    if (!enough)
        fli_log(b->ctx, FL_LOG_WARNING,
                "round %zu does not count: %zu of %zu clients have answered, and server.quorum asks for %zu", round,
                came, n, fli_admission_least(&b->rules, n));
}

/* Once in a run. */
static void say_figures(fli_remote_queue *b, const fli_queued_ask *letters, size_t n, size_t came)
{
    size_t i = 0;
    if (came == n || b->said) return;
    b->said = 1;
    while (!letters[i].x->status) i++;
    fli_log(b->ctx, FL_LOG_WARNING,
            "%zu clients are not measured, such as client %u: %s; metrics are of those who answer, and this is said "
            "once",
            n - came, letters[i].x->ask.client,
            letters[i].x->why.text[0] ? letters[i].x->why.text : fl_status_text(letters[i].x->status));
}

/* A round that all of its clients refuse would repeat itself with the next cohort: the cause is shared. */
static void give_up_refused(fli_remote_queue *b, fli_ask_batch *g, const fli_queued_ask *letters, size_t n)
{
    char why[sizeof g->why.text];
    for (size_t i = 0; i < n; i++)
        if (letters[i].left_out != FLI_DECLINED) return;
    fli_snprintf(why, sizeof why, "round %llu: every client that was asked refuses, such as client %u: %.400s",
                 (unsigned long long)letters->x->ask.round + 1, letters->x->ask.client, letters->x->why.text);
    pile_give_up(b, g, FL_EIO, why);
}

static fl_status gather(void *executor, fli_exchange *const *list, size_t n)
{
    fli_remote_queue *b = executor;
    fli_ask_batch g = {.gathers = 1};
    if (!n) return FL_OK;
    fli_queued_ask *letters = fli_alloc(b->ctx, n, sizeof *letters);
    if (!letters) return list[0]->status = FL_ENOMEM;
    int turns = list[0]->ask.kind == FLI_ASK_TURN;
    size_t wanted = turns ? fli_admission_wanted(&b->rules, n) : n;
    pthread_mutex_lock(&b->lock);
    post_all(b, &g, list, letters, n);
    wait_for(b, &g, wanted);
    if (turns && !b->closed) give_up_refused(b, &g, letters, n);
    fail_rest(b, &g, letters, n);
    if (!g.failed && !b->closed) leave_out_rest(b, &g, letters, n, wanted);
    unpost(b, &g);
    fl_status s = verdict(b, &g, letters, n);
    int enough = s ? 1 : is_enough(b, &g, letters, n);
    if (!s) take(b, letters, n);
    if (s && !g.failed) word_failure(b, letters, n, s);
    pthread_mutex_unlock(&b->lock);
    if (!s && turns) say_turns(b, letters, n, g.came, enough);
    if (!s && !turns) say_figures(b, letters, n, g.came);
    fli_free(letters);
    return s;
}

/* ---- one by one ------------------------------------------------------------------------------------------ */

static fl_status send(void *executor, fli_exchange *x)
{
    fli_remote_queue *b = executor;
    fli_queued_ask *l = fli_alloc(b->ctx, 1, sizeof *l);
    if (!l) return FL_ENOMEM;
    pthread_mutex_lock(&b->lock);
    post(b, &b->loose, x, 0, l);
    l->until = deadline_of(b);
    pthread_cond_broadcast(&b->asked);
    pthread_mutex_unlock(&b->lock);
    return FL_OK;
}

/* Leaves out who is late; returns when the next one will be. */
static double look_for_late(fli_remote_queue *b)
{
    double next = INFINITY, now = fli_clock_now();
    for (fli_queued_ask *l = b->first; l; l = l->next) {
        if (l->batch != &b->loose || l->progress == FLI_READING || !fli_queued_ask_awaited(l)) continue;
        if (l->until <= now)
            letter_leave_out(b, l, FLI_LATE, "it has not answered in time (server.deadline)");
        else
            next = fmin(next, l->until);
    }
    return next;
}

/* The one that was answered or left out first, out of the list; NULL: none is. */
static fli_queued_ask *take_out(fli_remote_queue *b)
{
    fli_queued_ask **best = NULL, **at;
    for (at = &b->first; *at; at = &(*at)->next) {
        const fli_queued_ask *l = *at;
        int done = l->progress == FLI_ANSWERED || (l->left_out && l->progress != FLI_WRITING);
        if (l->batch == &b->loose && done && (!best || l->order < (*best)->order)) best = at;
    }
    if (!best) return NULL;
    fli_queued_ask *l = *best;
    *best = l->next;
    for (at = best; *at;) at = &(*at)->next;
    b->end = at;
    return l;
}

static fl_status await(void *executor, double seconds, fli_exchange **out)
{
    fli_remote_queue *b = executor;
    fli_queued_ask *l = NULL;
    double until = fli_clock_now() + seconds;
    *out = NULL;
    pthread_mutex_lock(&b->lock);
    for (int more = 1; more && !b->closed && !b->loose.failed;) {
        double next = look_for_late(b);
        if ((l = take_out(b))) break;
        more = mailbox_wait(b, fmin(until, next)) || fli_clock_now() < until;
    }
    fl_status s = b->closed ? FL_EDONE : b->loose.failed;
    pthread_mutex_unlock(&b->lock);
    if (l) *out = l->x;
    fli_free(l);
    if (*out && (*out)->status)
        fli_log(b->ctx, FL_LOG_WARNING, "client %u is left out: %s", (*out)->ask.client, (*out)->why.text);
    if (s == FL_EDONE) return fli_fail(b->ctx, s, "the run was ended while clients were at work");
    return s ? fli_fail(b->ctx, s, "%s", b->loose.why.text) : FL_OK;
}

/* Nobody is inside any more. */
static void withdraw(void *executor)
{
    fli_remote_queue *b = executor;
    for (fli_queued_ask **at = &b->first, *l; (l = *at);)
        if (l->batch == &b->loose) {
            *at = l->next;
            fli_free(l);
        } else {
            at = &l->next;
        }
    b->end = &b->first;
}

/* ---- checkpoints ----------------------------------------------------------------------------------------- */

/* What clients keep they keep where they are. */
static size_t state(const void *executor, size_t *spilled)
{
    (void)executor;
    return *spilled = 0;
}

/* Turns that are answered and not taken out yet: as if they did not count, and back. */
static void swap_untaken(fli_remote_queue *b)
{
    for (fli_queued_ask *l = b->first; l; l = l->next) {
        if (l->batch != &b->loose || l->progress != FLI_ANSWERED) continue;
        uint64_t *taken = &b->taken[l->x->ask.client], now = *taken;
        *taken = l->before;
        l->before = now;
    }
}

static void save(void *executor, fli_saver *out)
{
    fli_remote_queue *b = executor;
    fli_save_part(out, "mailbox");
    pthread_mutex_lock(&b->lock);
    swap_untaken(b);
    fli_save_count(out, b->numbers);
    for (size_t i = 0; i < b->spec.clients; i++) fli_save_count(out, b->taken[i]);
    swap_untaken(b);
    pthread_mutex_unlock(&b->lock);
}

/* Numbers are never used for another ask: those given since the checkpoint are behind the new ones. */
static fl_status load(void *executor, fli_loader *in)
{
    fli_remote_queue *b = executor;
    fli_load_part(in, "mailbox");
    b->numbers = fli_load_count(in, UINT64_MAX >> 1);
    for (size_t i = 0; i < b->spec.clients; i++) b->taken[i] = fli_load_count(in, b->numbers);
    b->numbers |= UINT32_MAX;
    return fli_loader_status(in);
}

const fli_executor fli_executor_remote = {
    .name = "mailbox",
    .title = "clients elsewhere: whoever runs the server carries messages to them and back",
    .open = open_mailbox,
    .join = join,
    .run = run,
    .gather = gather,
    .send = send,
    .await = await,
    .withdraw = withdraw,
    .state = state,
    .save = save,
    .load = load,
    .close = close_mailbox,
};
