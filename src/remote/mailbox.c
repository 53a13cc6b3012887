#include "remote/mailbox_inside.h"

#include "base/clock.h"
#include "base/number.h"

#include <math.h>

/* ---- life ------------------------------------------------------------------------------------------------ */

fl_status fli_mailbox_new(fl_ctx *ctx, const fli_digest *cards, uint64_t secret, const fli_admission *rules,
                          fli_mailbox **out)
{
    fli_mailbox *b = fli_alloc(ctx, 1, sizeof *b);
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

void fli_mailbox_free(fli_mailbox *b)
{
    if (!b) return;
    pthread_cond_destroy(&b->moved);
    pthread_cond_destroy(&b->asked);
    pthread_mutex_destroy(&b->lock);
    fli_free(b->taken);
    fli_free(b->longest);
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

/* Which run this is: what its clients are told, their numbers apart, and who they are. A client knows all of it but
 * the others' cards, which it could find by trying; not so together with the secret. */
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
    if (b->secret) fli_hash_count(&h, b->secret);
    b->protocol.run = fli_hash_end(&h);
    fli_free(terms);
    return FL_OK;
}

fl_status fli_mailbox_open(fl_ctx *ctx, fli_mailbox *b, const fli_clients_spec *spec)
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

int fli_mailbox_wait(fli_mailbox *b, double until) { return !fli_clock_wait(&b->moved, &b->lock, until); }

int fli_letter_awaited(const fli_letter *l)
{
    const fli_pile *g = l->batch;
    return l->progress != FLI_ANSWERED && !l->left_out && !g->over && !g->failed;
}

void fli_letter_leave_out(fli_mailbox *b, fli_letter *l, fli_left_out how, const char *why)
{
    l->left_out = how;
    l->order = ++b->orders;
    l->x->status = FL_EREFUSED;
    fli_snprintf(l->x->why.text, sizeof l->x->why.text, "%s", why);
    l->batch->left--;
    pthread_cond_broadcast(&b->moved);
    if (l->batch == &b->loose) pthread_cond_broadcast(&b->asked); /* it may be measured now */
}

void fli_pile_give_up(fli_mailbox *b, fli_pile *g, fl_status status, const char *why)
{
    if (g->failed) return;
    g->failed = status;
    fli_snprintf(g->why.text, sizeof g->why.text, "%s", why);
    if (status == FL_ECALLBACK) fli_fault_note(b->spec.fault, &g->why); /* nor is anything of the user's called here */
    pthread_cond_broadcast(&b->moved);
}

/* Of those that somebody waits for; NULL: there is none. */
static fli_letter *find_client(const fli_mailbox *b, uint32_t client)
{
    fli_letter *l = b->closed ? NULL : b->first;
    while (l && (l->x->ask.client != client || !fli_letter_awaited(l))) l = l->next;
    return l;
}

/* A client is asked for one thing at a time: one that is at work is measured when it has come back. */
static int must_wait(const fli_mailbox *b, const fli_letter *l)
{
    return l->batch != &b->loose && b->loose.left && find_client(b, l->x->ask.client) != l;
}

static fli_letter *find_waiting(const fli_mailbox *b)
{
    fli_letter *l = b->first;
    while (l && (l->progress != FLI_WAITING || !fli_letter_awaited(l) || must_wait(b, l))) l = l->next;
    return l;
}

/* The carrier has finished with it. Somebody may have waited for this letter alone. */
static void let_go(fli_mailbox *b, fli_letter *l, fli_progress now)
{
    l->progress = now;
    l->batch->held--;
    pthread_cond_broadcast(&b->moved);
}

fl_status fli_mailbox_next(fli_mailbox *b, fl_ctx *ctx, double seconds, uint32_t *client, fl_bytes *out)
{
    double until = fli_clock_now() + (seconds > 0 ? seconds : 0);
    fl_status s = FL_OK;
    fli_letter *l;
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
        int unwanted = !s && (b->closed || !fli_letter_awaited(l)); /* meanwhile */
        let_go(b, l, s ? FLI_WAITING : FLI_OUT);
        if (unwanted) fl_bytes_free(out);
    }
    pthread_mutex_unlock(&b->lock);
    return s;
}

/* Takes the letter that an answer is for out of everybody else's hands. */
static fl_status claim(fli_mailbox *b, fl_ctx *ctx, uint32_t client, uint64_t number, fli_letter **out)
{
    pthread_mutex_lock(&b->lock);
    fli_letter *l = find_client(b, client);
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
static void note_failure(fli_mailbox *b, const fli_letter *l)
{
    char why[sizeof l->x->why.text];
    fl_status s = l->x->status;
    int dropped = l->batch->gathers && (b->rules.failed == FLI_FAILED_DROP || s == FL_EREFUSED);
    if (!s || dropped || s == FL_EDIVERGED) return;
    fli_snprintf(why, sizeof why, "client %u: %s", l->x->ask.client,
                 *l->x->why.text ? l->x->why.text : fl_status_text(s));
    fli_pile_give_up(b, l->batch, s, why);
}

static void note_length(fli_mailbox *b, const fli_exchange *x)
{
    fli_longest *u = &b->longest[x->ask.client];
    if (x->ask.kind == FLI_ASK_TURN && x->norm > u->norm) *u = (fli_longest){x->norm, x->ask.round};
}

/* It is there. Of those that are sent one by one all that come count. */
static void note_answer(fli_mailbox *b, fli_letter *l)
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

fl_status fli_mailbox_answer(fli_mailbox *b, fl_ctx *ctx, uint32_t client, const void *answer, size_t n)
{
    fli_packet p;
    fli_letter *l;
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

int fli_mailbox_longest(fli_mailbox *b, char *sentence, size_t n)
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

size_t fli_mailbox_awaited(fli_mailbox *b, uint32_t *clients, size_t most)
{
    size_t n = 0;
    pthread_mutex_lock(&b->lock);
    for (const fli_letter *l = b->closed ? NULL : b->first; l; l = l->next) {
        if (!fli_letter_awaited(l)) continue;
        if (clients && n < most) clients[n] = l->x->ask.client;
        n++;
    }
    pthread_mutex_unlock(&b->lock);
    return n;
}

/* A client that somebody waits for, and whose answer is not being read. */
static fl_status find_silent(fli_mailbox *b, fl_ctx *ctx, uint32_t client, fli_letter **out)
{
    fli_letter *l = find_client(b, client);
    *out = l && l->progress != FLI_READING ? l : NULL;
    return *out ? FL_OK : fli_fail(ctx, FL_EMISMATCH, "client %u: no answer of it is awaited", client);
}

static fl_status leave_out(fli_mailbox *b, fl_ctx *ctx, uint32_t client, fli_left_out how, const char *why)
{
    fli_letter *l;
    pthread_mutex_lock(&b->lock);
    fl_status s = find_silent(b, ctx, client, &l);
    if (!s && !l->batch->gathers)
        s = fli_fail(ctx, FL_EREFUSED, "client %u cannot be dropped: everybody's answer is needed here", client);
    /* it may be measured while it is at work */
    for (; !s && l; l = find_client(b, client))
        if (l->progress == FLI_READING || !l->batch->gathers)
            break;
        else
            fli_letter_leave_out(b, l, how, why && *why ? why : "it was dropped");
    pthread_mutex_unlock(&b->lock);
    return s;
}

fl_status fli_mailbox_drop(fli_mailbox *b, fl_ctx *ctx, uint32_t client, const char *why)
{
    return leave_out(b, ctx, client, FLI_DROPPED, why);
}

fl_status fli_mailbox_refused(fli_mailbox *b, fl_ctx *ctx, uint32_t client, const char *why)
{
    return leave_out(b, ctx, client, FLI_DECLINED, why);
}

fl_status fli_mailbox_lost(fli_mailbox *b, fl_ctx *ctx, uint32_t client, const char *why)
{
    fli_letter *l;
    char text[sizeof l->batch->why.text];
    fli_snprintf(text, sizeof text, "client %u: %s", client, why && *why ? why : "it was lost");
    pthread_mutex_lock(&b->lock);
    fl_status s = find_silent(b, ctx, client, &l);
    if (!s) fli_pile_give_up(b, l->batch, FL_EIO, text);
    pthread_mutex_unlock(&b->lock);
    return s;
}
