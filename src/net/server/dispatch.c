#include "net/server/dispatch.h"

#include "base/os.h"
#include "base/digest.h"
#include "base/number.h"

#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define TICK 0.25 /* seconds between two looks at who has waited long enough */

enum {
    SENTENCE = 1024,
    WORD = 300,
    GONE = 4,
    MALFORMED_MOST = 8 /* malformed answers to one ask after which its client is dropped */
};
static const double live_s = 20; /* seconds of silence after which a process of another folder may replace this one */

/* The process that acts as a client. */
typedef struct {
    int known, left; /* known: there was one; left: it has said that it ends */
    fli_instance is;
    char address[FLI_ADDRESS_TEXT];
    double came;
    uint64_t gone[GONE]; /* the last GONE processes that were replaced */
    unsigned replaced;   /* number of replacements */
} active_process;

/* State of a client. */
typedef struct {
    fli_posted_ask *ask; /* NULL: none */
    uint64_t answered;   /* number of the last ask that was answered */
    fli_digest answer;   /* digest of that answer */
    active_process process;
    double heard, asked; /* 0: never */
    void *waiter;        /* its waiting request; NULL: none */
    double until;
    int fetched;      /* the ask was handed out */
    int acknowledged; /* it has confirmed that it knows that the run is over */
    int awaited;      /* used only within forget_unwanted */
    int handed;       /* calls of fl_server_answer under way */
    int malformed;    /* malformed answers to the current ask */
    fli_net_client counted;
} slot;

struct fli_dispatch {
    fli_dispatch_spec spec;
    pthread_t thread;
    pthread_mutex_t lock; /* guards all below */
    pthread_cond_t moved; /* the phase has changed, or is to change */
    slot *slots;
    void **woken;     /* clients entries, used by the thread only */
    uint32_t *listed; /* 2 * clients entries: a client may be asked for a turn and a measurement */
    fli_net_phase phase;
    int begin_wanted, stopping; /* begin the run; end it after the current round */
    int closed;
    fl_status status;
    char sentence[SENTENCE];
};

void fli_posted_ask_release(fli_posted_ask *p)
{
    if (!p || atomic_fetch_sub(&p->users, 1) > 1) return;
    fli_shared_body_release(p->packet.body);
    free(p);
}

static const char *name_of(const fli_dispatch *d, uint32_t client)
{
    const char *name = d->spec.name ? d->spec.name(d->spec.arg, client) : NULL;
    return name ? name : "?";
}

static void report_mishap(fli_dispatch *d, const char *what, uint32_t client, const char *why)
{
    if (d->spec.mishap) d->spec.mishap(d->spec.arg, what, client, why);
}

/* ---- requests that wait ------------------------------------------------------------------------------------------ */

/* Caller holds the lock. Detaches and returns the suspended request of this client. */
static void *take_waiting(fli_dispatch *d, slot *s)
{
    void *waiter = s->waiter;
    s->waiter = NULL;
    if (waiter) atomic_fetch_sub(&d->spec.counters->waiting, 1);
    return waiter;
}

/* Caller does not hold the lock: a woken request may call again at once. */
static void wake(fli_dispatch *d, void *waiter)
{
    if (waiter) d->spec.wake(d->spec.arg, waiter);
}

/* Wakes all requests that may wait until `now` at most; INFINITY: all. Runs on the thread, or after its end, as it uses
 * `woken`. */
static void wake_until(fli_dispatch *d, double now)
{
    size_t n = 0;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->spec.clients; i++)
        if (d->slots[i].waiter && d->slots[i].until <= now) d->woken[n++] = take_waiting(d, &d->slots[i]);
    pthread_mutex_unlock(&d->lock);
    while (n) wake(d, d->woken[--n]);
}

static int has_terms(fli_net_phase phase) { return phase != FLI_NET_JOINING && phase != FLI_NET_PAUSED; }

static int has_news(const fli_dispatch *d, const slot *s, int terms)
{
    return d->closed || d->phase == FLI_NET_OVER || (terms ? has_terms(d->phase) : s->ask != NULL);
}

int fli_dispatch_wait(fli_dispatch *d, uint32_t client, int terms, double seconds, void *waiter)
{
    slot *s = &d->slots[client];
    void *before = NULL;
    pthread_mutex_lock(&d->lock);
    int waits = !has_news(d, s, terms);
    if (waits) {
        before = take_waiting(d, s);
        s->waiter = waiter;
        s->until = fli_clock_now() + seconds;
        atomic_fetch_add(&d->spec.counters->waiting, 1);
    }
    pthread_mutex_unlock(&d->lock);
    wake(d, before);
    return waits;
}

/* ---- asks ---------------------------------------------------------------------------------------------------- */

/* Caller holds the lock. */
static fli_posted_ask *take_ask(slot *s)
{
    fli_posted_ask *p = s->ask;
    s->ask = NULL;
    s->asked = 0;
    s->fetched = 0;
    s->malformed = 0;
    return p;
}

/* The run has continued without an answer of this client. */
static void note_late(fli_dispatch *d, uint32_t client)
{
    atomic_fetch_add(&d->spec.counters->dropped, 1);
    fli_net_say(d->spec.log, "dropped", "client=%u name=%s reason=late", client, name_of(d, client));
    report_mishap(d, "dropped", client, "its answer did not come in time");
}

static void post(fli_dispatch *d, uint32_t client, fli_posted_ask *p)
{
    slot *s = &d->slots[client];
    pthread_mutex_lock(&d->lock);
    fli_posted_ask *before = take_ask(s);
    int late = before && !s->handed;
    s->counted.dropped += (unsigned)late;
    s->ask = p;
    s->asked = fli_clock_now();
    void *waiter = take_waiting(d, s);
    pthread_mutex_unlock(&d->lock);
    atomic_fetch_add(&d->spec.counters->asks, 1);
    fli_posted_ask_release(before);
    if (late) note_late(d, client);
    wake(d, waiter);
}

fli_posted_ask *fli_dispatch_ask(fli_dispatch *d, uint32_t client)
{
    pthread_mutex_lock(&d->lock);
    fli_posted_ask *p = d->slots[client].ask;
    if (p) atomic_fetch_add(&p->users, 1);
    if (p) d->slots[client].fetched = 1;
    pthread_mutex_unlock(&d->lock);
    if (p) atomic_fetch_add(&d->spec.counters->deliveries, 1);
    return p;
}

int fli_dispatch_wanted(fli_dispatch *d, uint32_t client, uint64_t number)
{
    pthread_mutex_lock(&d->lock);
    const fli_posted_ask *p = d->slots[client].ask;
    int wanted = p && (!number || p->number == number);
    pthread_mutex_unlock(&d->lock);
    return wanted;
}

void fli_dispatch_heard_from(fli_dispatch *d, uint32_t client)
{
    pthread_mutex_lock(&d->lock);
    d->slots[client].heard = fli_clock_now();
    pthread_mutex_unlock(&d->lock);
}

/* ---- processes ----------------------------------------------------------------------------------------------- */

static int is_gone(const active_process *t, uint64_t process)
{
    for (unsigned i = 0; process && i < GONE; i++)
        if (t->gone[i] == process) return 1;
    return 0;
}

static void take_over(active_process *t, const fli_instance *instance, const char *address, double now)
{
    if (t->known) t->gone[t->replaced++ % GONE] = t->is.process;
    t->known = 1;
    t->left = 0;
    t->is = *instance;
    t->came = now;
    fli_snprintf(t->address, sizeof t->address, "%s", address);
}

/* A restarted process is accepted at once, because its folder's number is the same. So is a process with a copy of the
 * folder; the earlier process is then refused at its next request. */
static fli_process_claim judge(const slot *s, const fli_instance *instance, double now)
{
    const active_process *t = &s->process;
    if (is_gone(t, instance->process)) return FLI_CLAIM_SUPERSEDED;
    if (!t->known || (t->is.folder == instance->folder && t->is.process == instance->process)) return FLI_CLAIM_KNOWN;
    if (instance->folder && t->is.folder == instance->folder) return FLI_CLAIM_RESTARTED;
    return !t->left && (s->waiter || now - s->heard < live_s) ? FLI_CLAIM_LIVE : FLI_CLAIM_REPLACED;
}

fli_process_claim fli_dispatch_claim(fli_dispatch *d, uint32_t client, const fli_instance *instance,
                                     const char *address, fli_other_process *other)
{
    slot *s = &d->slots[client];
    pthread_mutex_lock(&d->lock);
    double now = fli_clock_now();
    fli_process_claim is = judge(s, instance, now);
    *other = (fli_other_process){.age = now - s->process.came, .heard = now - s->heard};
    memcpy(other->address, s->process.address, sizeof other->address);
    if (is < FLI_CLAIM_LIVE && (is != FLI_CLAIM_KNOWN || !s->process.known)) {
        take_over(&s->process, instance, address, now);
        s->heard = now;
    }
    pthread_mutex_unlock(&d->lock);
    return is;
}

void fli_dispatch_leave(fli_dispatch *d, uint32_t client)
{
    pthread_mutex_lock(&d->lock);
    d->slots[client].process.left = 1;
    pthread_mutex_unlock(&d->lock);
}

/* ---- answers ------------------------------------------------------------------------------------------------- */

/* The digest of an answer's first bytes. They contain a checksum of the whole, which is verified before an answer is
 * taken. */
static fli_digest digest_of(const unsigned char *front, size_t n)
{
    fli_hash h;
    fli_hash_init(&h);
    fli_hash_bytes(&h, front, n);
    return fli_hash_end(&h);
}

static void note_answer(fli_dispatch *d, uint32_t client, uint64_t number, const fli_digest *answer)
{
    slot *s = &d->slots[client];
    fli_posted_ask *p = NULL;
    double took = 0;
    pthread_mutex_lock(&d->lock);
    s->answered = number;
    s->answer = *answer;
    s->counted.answers++;
    if (s->ask && s->ask->number == number) { /* the run may have posted the next ask already */
        took = s->counted.took = fli_clock_now() - s->asked;
        s->counted.longest = fmax(s->counted.longest, took);
        p = take_ask(s);
    }
    pthread_mutex_unlock(&d->lock);
    fli_posted_ask_release(p);
    atomic_fetch_add(&d->spec.counters->answers, 1);
    fli_net_note(d->spec.log, "answered", "client=%u name=%s number=%llu seconds=%.3f", client, name_of(d, client),
                 (unsigned long long)number, took);
}

/* Removes the ask, which is not awaited any more. */
static void forget_ask(fli_dispatch *d, uint32_t client, uint64_t number)
{
    slot *s = &d->slots[client];
    pthread_mutex_lock(&d->lock);
    fli_posted_ask *p = s->ask && s->ask->number == number ? take_ask(s) : NULL;
    pthread_mutex_unlock(&d->lock);
    fli_posted_ask_release(p);
}

static void note_rejection(fli_dispatch *d, uint32_t client, uint64_t number, const char *sentence)
{
    char word[WORD];
    pthread_mutex_lock(&d->lock);
    d->slots[client].counted.rejected++;
    pthread_mutex_unlock(&d->lock);
    forget_ask(d, client, number);
    atomic_fetch_add(&d->spec.counters->rejected, 1);
    fli_net_say(d->spec.log, "rejected", "client=%u name=%s number=%llu reason=%s", client, name_of(d, client),
                (unsigned long long)number, fli_net_quote(sentence, word, sizeof word));
    report_mishap(d, "rejected", client, sentence);
}

/* Whether this is the answer that was taken, sent again. A different answer to the same ask comes from another process,
 * or was computed from something else; `sentence` then says so. */
static int was_taken(fli_dispatch *d, uint32_t client, uint64_t number, const fli_digest *answer, char *sentence,
                     size_t size)
{
    char taken[FLI_DIGEST_TEXT], came[FLI_DIGEST_TEXT], word[WORD];
    const slot *s = &d->slots[client];
    pthread_mutex_lock(&d->lock);
    int answered = number && s->answered == number;
    int same = answered && fli_digest_same(&s->answer, answer);
    fli_digest_print(&s->answer, taken);
    pthread_mutex_unlock(&d->lock);
    if (same) atomic_fetch_add(&d->spec.counters->repeated, 1);
    if (same || !answered) return same;
    fli_digest_print(answer, came);
    fli_snprintf(
        sentence, size,
        "ask %llu has been answered otherwise: the answer that was taken has the digest %.16s, this one %.16s; "
        "two processes may have one certificate",
        (unsigned long long)number, taken, came);
    fli_net_say_bounded(d->spec.log, "contradiction", "client=%u name=%s number=%llu reason=%s", client,
                        name_of(d, client), (unsigned long long)number, fli_net_quote(sentence, word, sizeof word));
    report_mishap(d, "contradiction", client, sentence);
    return 0;
}

/* Counts the call as `handed`: meanwhile the run may have taken the answer, so forget_unwanted must ignore this
 * client. */
static fl_status hand_in(fli_dispatch *d, uint32_t client, fli_incoming **answer, uint64_t number,
                         const fli_digest *digest)
{
    slot *s = &d->slots[client];
    pthread_mutex_lock(&d->lock);
    s->handed++;
    pthread_mutex_unlock(&d->lock);
    fl_status status = fli_server_answer(d->spec.server, client, answer);
    if (!status) note_answer(d, client, number, digest);
    pthread_mutex_lock(&d->lock);
    s->handed--;
    pthread_mutex_unlock(&d->lock);
    return status;
}

/* Counts a malformed answer. At MALFORMED_MOST takes the ask back and returns it; else NULL. */
static fli_posted_ask *count_malformed(fli_dispatch *d, uint32_t client)
{
    slot *s = &d->slots[client];
    pthread_mutex_lock(&d->lock);
    fli_posted_ask *p = s->ask && ++s->malformed >= MALFORMED_MOST ? take_ask(s) : NULL;
    pthread_mutex_unlock(&d->lock);
    return p;
}

/* A client that sends malformed answers counts as alive, so only this limit ends the wait for it. */
static void note_malformed(fli_dispatch *d, uint32_t client, const char *sentence)
{
    char word[WORD], why[WORD + 64];
    atomic_fetch_add(&d->spec.counters->malformed, 1);
    fli_net_say_bounded(d->spec.log, "malformed", "client=%u name=%s reason=%s", client, name_of(d, client),
                        fli_net_quote(sentence, word, sizeof word));
    report_mishap(d, "malformed", client, sentence);
    fli_posted_ask *p = count_malformed(d, client);
    if (!p) return;
    fli_posted_ask_release(p);
    fli_snprintf(why, sizeof why, "%d of its answers to one ask were malformed, the last one: %s", MALFORMED_MOST,
                 fli_net_quote(sentence, word, sizeof word));
    fl_status s = fl_server_drop(d->spec.server, client, why);
    if (s == FL_EREFUSED) s = fl_server_lost(d->spec.server, client, why);
    if (s) return; /* the run does not await it any more */
    pthread_mutex_lock(&d->lock);
    d->slots[client].counted.dropped++;
    pthread_mutex_unlock(&d->lock);
    atomic_fetch_add(&d->spec.counters->dropped, 1);
    fli_net_say(d->spec.log, "dropped", "client=%u name=%s reason=malformed", client, name_of(d, client));
    report_mishap(d, "dropped", client, why);
}

fl_status fli_dispatch_answer(fli_dispatch *d, uint32_t client, fli_incoming **answer, char *sentence, size_t size)
{
    size_t n;
    const unsigned char *front = fli_incoming_front(*answer, &n);
    uint64_t number = fli_packet_number(front, n);
    fli_digest digest = digest_of(front, n);
    fl_status s = hand_in(d, client, answer, number, &digest);
    if (!s) return FL_OK;
    fli_snprintf(sentence, size, "%s", fl_server_error(d->spec.server));
    if (s == FL_EMISMATCH && was_taken(d, client, number, &digest, sentence, size)) return FL_OK;
    if (s == FL_EREFUSED) {
        note_rejection(d, client, number, sentence);
    } else if (s == FL_EMISMATCH) {
        atomic_fetch_add(&d->spec.counters->late, 1);
        forget_ask(d, client, number);
    } else if (s == FL_EFORMAT) {
        note_malformed(d, client, sentence);
    }
    return s;
}

/* A client can refuse the terms any number of times, so those lines are bounded. */
static void note_refusal(fli_dispatch *d, uint32_t client, uint64_t number, const char *reason)
{
    char word[WORD];
    (number ? fli_net_say : fli_net_say_bounded)(d->spec.log, "refused", "client=%u name=%s number=%llu reason=%s",
                                                 client, name_of(d, client), (unsigned long long)number,
                                                 fli_net_quote(reason, word, sizeof word));
    report_mishap(d, "refused", client, reason);
    pthread_mutex_lock(&d->lock);
    d->slots[client].counted.refused++;
    pthread_mutex_unlock(&d->lock);
    atomic_fetch_add(&d->spec.counters->refused, 1);
}

fl_status fli_dispatch_refuse(fli_dispatch *d, uint32_t client, uint64_t number, const char *reason)
{
    char word[WORD], why[WORD + 32];
    if (number && !fli_dispatch_wanted(d, client, number)) return FL_EMISMATCH;
    note_refusal(d, client, number, reason);
    if (!number) return FL_OK;
    fli_snprintf(why, sizeof why, "it refuses what it was asked: %s", fli_net_quote(reason, word, sizeof word));
    forget_ask(d, client, number); /* first, so that it is not counted as late */
    fl_status s = fl_server_refused(d->spec.server, client, why);
    return s == FL_EREFUSED ? fl_server_lost(d->spec.server, client, why) : s;
}

/* ---- the thread: silence -------------------------------------------------------------------------------------- */

/* Lists the clients that have an ask and were silent for too long. */
static size_t find_silent(fli_dispatch *d, double now)
{
    size_t n = 0;
    pthread_mutex_lock(&d->lock);
    for (size_t i = 0; i < d->spec.clients; i++) {
        const slot *s = &d->slots[i];
        if (s->ask && !s->waiter && now - fmax(s->asked, s->heard) > d->spec.silence) d->listed[n++] = (uint32_t)i;
    }
    pthread_mutex_unlock(&d->lock);
    return n;
}

static void drop(fli_dispatch *d, uint32_t client)
{
    slot *s = &d->slots[client];
    char why[100];
    fli_snprintf(why, sizeof why, "nothing was heard of it for %.0f s", d->spec.silence);
    fl_status status = fl_server_drop(d->spec.server, client, why);
    pthread_mutex_lock(&d->lock);
    fli_posted_ask *p = status == FL_EREFUSED ? NULL : take_ask(s);
    if (status == FL_EREFUSED) s->heard = fli_clock_now(); /* reported again after another `silence` */
    if (!status) s->counted.dropped++;
    pthread_mutex_unlock(&d->lock);
    fli_posted_ask_release(p);
    if (!status) atomic_fetch_add(&d->spec.counters->dropped, 1);
    if (status && status != FL_EREFUSED) return;
    fli_net_say(d->spec.log, status ? "silent" : "dropped", "client=%u name=%s silence=%.0f", client,
                name_of(d, client), d->spec.silence);
    report_mishap(d, status ? "silent" : "dropped", client, why);
}

/* Removes asks that the run does not await any more: it has reached its deadline, or has enough other answers. Runs on
 * the thread that posts asks, so every ask here was posted before fl_server_awaited was called. */
static void forget_unwanted(fli_dispatch *d)
{
    size_t most = 2 * d->spec.clients, n = fl_server_awaited(d->spec.server, d->listed, most);
    if (n > most) return; /* cannot happen; but an unlisted client would lose its ask */
    pthread_mutex_lock(&d->lock);
    for (size_t k = 0; k < n; k++) d->slots[d->listed[k]].awaited = 1;
    n = 0;
    for (size_t i = 0; i < d->spec.clients; i++) {
        slot *s = &d->slots[i];
        int unwanted = s->ask && !s->awaited && !s->handed;
        s->awaited = 0;
        if (!unwanted) continue;
        fli_posted_ask_release(take_ask(s));
        s->counted.dropped++;
        d->listed[n++] = (uint32_t)i;
    }
    pthread_mutex_unlock(&d->lock);
    while (n) note_late(d, d->listed[--n]);
}

/* ---- the thread: the run --------------------------------------------------------------------------------------- */

/* Whether a restarted server can continue. A method that has diverged would diverge again. A failure before this
 * process has asked any client is due to how it was started, such as another setting or a damaged checkpoint: the
 * earlier run is intact, and its clients must not be told that it is over. */
static int can_resume(const fli_dispatch *d, fl_status s)
{
    return !atomic_load(&d->spec.counters->asks) || s == FL_EIO || s == FL_ENOMEM || s == FL_ESYSTEM || s == FL_EBUSY;
}

static void end(fli_dispatch *d, fl_status status, const char *sentence, int paused)
{
    pthread_mutex_lock(&d->lock);
    d->status = status;
    d->phase = paused ? FLI_NET_PAUSED : FLI_NET_SAVING;
    fli_snprintf(d->sentence, sizeof d->sentence, "%s", sentence);
    for (size_t i = 0; i < d->spec.clients; i++) fli_posted_ask_release(take_ask(&d->slots[i]));
    pthread_cond_broadcast(&d->moved);
    pthread_mutex_unlock(&d->lock);
}

static void begin(fli_dispatch *d)
{
    fl_status s = fl_server_begin(d->spec.server);
    if (s == FL_EDONE) { /* an earlier server has finished the run */
        end(d, FL_OK, "", 0);
        return;
    }
    if (s) {
        end(d, s, fl_server_error(d->spec.server), can_resume(d, s));
        return;
    }
    pthread_mutex_lock(&d->lock);
    d->phase = d->stopping ? FLI_NET_DRAINING : FLI_NET_RUNNING;
    pthread_cond_broadcast(&d->moved);
    pthread_mutex_unlock(&d->lock);
    wake_until(d, INFINITY);
}

/* The run has ended: it is complete, was stopped, or has failed. */
static void note_end(fli_dispatch *d, fl_status s)
{
    fl_run *run = fl_server_run(d->spec.server);
    if (s != FL_EDONE)
        end(d, s, fl_server_error(d->spec.server), can_resume(d, s));
    else
        end(d, FL_OK, "", run && fl_run_stopped_by(run) == FL_STOP_ASKED && fl_run_checkpointed(run));
}

static void post_next_ask(fli_dispatch *d)
{
    uint32_t client;
    int found;
    fli_ask_packet packet;
    fl_status s = fli_server_next(d->spec.server, TICK, &client, &found, &packet);
    if (s) note_end(d, s);
    if (s || !found) return;
    fli_posted_ask *p = calloc(1, sizeof *p);
    if (!p) {
        fli_shared_body_release(packet.body);
        fl_server_lost(d->spec.server, client, "out of memory for what it is asked");
        return;
    }
    p->packet = packet;
    p->number = fli_packet_number(packet.front, sizeof packet.front);
    atomic_init(&p->users, 1);
    post(d, client, p);
}

static void check_clients(fli_dispatch *d)
{
    double now = fli_clock_now();
    wake_until(d, now);
    fli_net_flush(d->spec.log, 0);
    fli_net_phase phase = fli_dispatch_phase(d);
    if (phase != FLI_NET_RUNNING && phase != FLI_NET_DRAINING) return;
    forget_unwanted(d);
    for (size_t n = find_silent(d, now); n;) drop(d, d->listed[--n]);
}

static void *run_thread(void *dispatch)
{
    fli_dispatch *d = dispatch;
    for (double looked = 0;;) {
        pthread_mutex_lock(&d->lock);
        int joining = d->phase == FLI_NET_JOINING;
        if (!d->closed && (joining ? !d->begin_wanted && !d->stopping : d->phase >= FLI_NET_SAVING))
            fli_clock_wait(&d->moved, &d->lock, fli_clock_now() + TICK);
        int closed = d->closed, stopping = d->stopping, wanted = d->begin_wanted;
        fli_net_phase phase = d->phase;
        pthread_mutex_unlock(&d->lock);
        if (closed) return NULL;
        if (phase == FLI_NET_JOINING && stopping)
            end(d, FL_OK, "", 1);
        else if (phase == FLI_NET_JOINING && wanted)
            begin(d);
        else if (phase == FLI_NET_RUNNING || phase == FLI_NET_DRAINING)
            post_next_ask(d);
        if (phase != FLI_NET_OVER && fli_clock_now() - looked < TICK) continue;
        check_clients(d);
        looked = fli_clock_now();
    }
}

void fli_dispatch_begin(fli_dispatch *d)
{
    pthread_mutex_lock(&d->lock);
    d->begin_wanted = 1;
    pthread_cond_broadcast(&d->moved);
    pthread_mutex_unlock(&d->lock);
}

fl_status fli_dispatch_resume(fli_dispatch *d, fl_ctx *ctx)
{
    fli_dispatch_begin(d);
    pthread_mutex_lock(&d->lock);
    while (d->phase == FLI_NET_JOINING) fli_clock_wait(&d->moved, &d->lock, INFINITY);
    fl_status s = d->status;
    if (s) fli_fail(ctx, s, "%s", d->sentence);
    pthread_mutex_unlock(&d->lock);
    return s;
}

void fli_dispatch_drain(fli_dispatch *d)
{
    pthread_mutex_lock(&d->lock);
    d->stopping = 1;
    if (d->phase == FLI_NET_RUNNING) d->phase = FLI_NET_DRAINING;
    pthread_cond_broadcast(&d->moved);
    pthread_mutex_unlock(&d->lock);
    fl_server_stop(d->spec.server);
}

void fli_dispatch_finish(fli_dispatch *d)
{
    pthread_mutex_lock(&d->lock);
    d->phase = FLI_NET_OVER;
    for (size_t i = 0; i < d->spec.clients; i++) d->slots[i].until = 0; /* the thread wakes them */
    pthread_cond_broadcast(&d->moved);
    pthread_mutex_unlock(&d->lock);
}

/* ---- how it stands --------------------------------------------------------------------------------------------- */

fli_net_phase fli_dispatch_phase(fli_dispatch *d)
{
    pthread_mutex_lock(&d->lock);
    fli_net_phase phase = d->phase;
    pthread_mutex_unlock(&d->lock);
    return phase;
}

fl_status fli_dispatch_ending(fli_dispatch *d, char *sentence, size_t n)
{
    pthread_mutex_lock(&d->lock);
    fl_status s = d->status;
    fli_snprintf(sentence, n, "%s", d->sentence);
    pthread_mutex_unlock(&d->lock);
    return s;
}

int fli_dispatch_ended(fli_dispatch *d, double seconds)
{
    pthread_mutex_lock(&d->lock);
    if (d->phase < FLI_NET_SAVING) fli_clock_wait(&d->moved, &d->lock, fli_clock_now() + seconds);
    int ended = d->phase >= FLI_NET_SAVING;
    pthread_mutex_unlock(&d->lock);
    return ended;
}

size_t fli_dispatch_unacknowledged(fli_dispatch *d, uint32_t *first)
{
    size_t n = 0;
    pthread_mutex_lock(&d->lock);
    for (size_t i = d->spec.clients; i-- > 0;) {
        if (d->slots[i].acknowledged) continue;
        *first = (uint32_t)i;
        n++;
    }
    pthread_mutex_unlock(&d->lock);
    return n;
}

void fli_dispatch_acknowledge(fli_dispatch *d, uint32_t client)
{
    pthread_mutex_lock(&d->lock);
    d->slots[client].acknowledged = 1;
    pthread_mutex_unlock(&d->lock);
}

void fli_dispatch_client(fli_dispatch *d, uint32_t client, fli_net_client *out)
{
    pthread_mutex_lock(&d->lock);
    double now = fli_clock_now(); /* after the lock: not before any time that it is compared with */
    const slot *s = &d->slots[client];
    *out = s->counted;
    out->heard = s->heard > 0 ? now - s->heard : -1;
    out->asked = s->ask ? now - s->asked : -1;
    out->waiting = s->waiter != NULL;
    out->fetched = s->fetched;
    pthread_mutex_unlock(&d->lock);
}

/* ---- life -------------------------------------------------------------------------------------------------------- */

static void free_parts(fli_dispatch *d)
{
    for (size_t i = 0; d->slots && i < d->spec.clients; i++) fli_posted_ask_release(d->slots[i].ask);
    fli_free(d->slots);
    fli_free(d->woken);
    fli_free(d->listed);
    fli_free(d);
}

fl_status fli_dispatch_new(fl_ctx *ctx, const fli_dispatch_spec *spec, fli_dispatch **out)
{
    fli_dispatch *d = fli_alloc(ctx, 1, sizeof *d);
    *out = NULL;
    if (!d) return FL_ENOMEM;
    d->spec = *spec;
    d->slots = fli_alloc(ctx, spec->clients, sizeof *d->slots);
    d->woken = fli_alloc(ctx, spec->clients, sizeof *d->woken);
    d->listed = fli_alloc(ctx, 2 * spec->clients, sizeof *d->listed);
    int made = d->slots && d->woken && d->listed ? 1 : 0;
    if (made == 1 && !pthread_mutex_init(&d->lock, NULL)) made = 2;
    if (made == 2 && !fli_clock_cond(&d->moved)) made = 3;
    if (made == 3 && !pthread_create(&d->thread, NULL, run_thread, d)) {
        *out = d;
        return FL_OK;
    }
    if (made > 2) pthread_cond_destroy(&d->moved);
    if (made > 1) pthread_mutex_destroy(&d->lock);
    free_parts(d);
    return made ? fli_fail(ctx, FL_ESYSTEM, "a lock or a thread cannot be created") : FL_ENOMEM;
}

void fli_dispatch_close(fli_dispatch *d)
{
    pthread_mutex_lock(&d->lock);
    d->closed = 1;
    pthread_cond_broadcast(&d->moved);
    pthread_mutex_unlock(&d->lock);
    pthread_join(d->thread, NULL);
    wake_until(d, INFINITY);
}

void fli_dispatch_free(fli_dispatch *d)
{
    if (!d) return;
    pthread_cond_destroy(&d->moved);
    pthread_mutex_destroy(&d->lock);
    free_parts(d);
}
