/* Who is asked what, without any network: connections here are numbers that are marked when they are woken. */
#include "net/federation.h"

#include "base/os.h"
#include "net/server/dispatch.h"
#include "net/common/packet_peek.h"

#include <stdatomic.h>
#include <unistd.h>

/* ---- the clock ------------------------------------------------------------------------------------------------ */

/* Seconds that the library's clock is ahead: calls of it come here (CMakeLists.txt), so that time passes when a test
 * says so, however slow the machine is. */
static _Atomic double ahead;

double __real_fli_clock_now(void);
double __wrap_fli_clock_now(void);
int __real_fli_clock_wait(pthread_cond_t *c, pthread_mutex_t *lock, double until);
int __wrap_fli_clock_wait(pthread_cond_t *c, pthread_mutex_t *lock, double until);

double __wrap_fli_clock_now(void) { return __real_fli_clock_now() + atomic_load(&ahead); }

int __wrap_fli_clock_wait(pthread_cond_t *c, pthread_mutex_t *lock, double until)
{
    return __real_fli_clock_wait(c, lock, until - atomic_load(&ahead));
}

static void pass_time(double seconds) { atomic_store(&ahead, atomic_load(&ahead) + seconds); }

/* ---- the moment after the run has taken an answer --------------------------------------------------------------- */

static void (*taken)(void *);
static void *taken_arg;

fl_status __real_fli_server_answer(fl_server *s, uint32_t client, fli_incoming **answer);
fl_status __wrap_fli_server_answer(fl_server *s, uint32_t client, fli_incoming **answer);

fl_status __wrap_fli_server_answer(fl_server *s, uint32_t client, fli_incoming **answer)
{
    fl_status status = __real_fli_server_answer(s, client, answer);
    if (taken) taken(taken_arg);
    return status;
}

/* ---- a server without a network ------------------------------------------------------------------------------- */

typedef struct {
    federation t;
    fl_server *server;
    fl_config *cfg;
    fli_dispatch *dispatch;
    fli_net_counters counters;
    fli_net_log log;
    fl_ctx *ctx[CLIENTS];
    fl_client *client[CLIENTS];
    atomic_int woken[CLIENTS];
    char lines[4096]; /* of the log */
    pthread_mutex_t lock;
} stage;

static void wake(void *arg, void *who)
{
    (void)arg;
    atomic_fetch_add((atomic_int *)who, 1);
}

static void keep_line(void *arg, const char *line)
{
    stage *d = arg;
    pthread_mutex_lock(&d->lock);
    strncat(d->lines, line, sizeof d->lines - strlen(d->lines) - 1);
    pthread_mutex_unlock(&d->lock);
}

static int logged(stage *d, const char *part)
{
    int n = 0;
    pthread_mutex_lock(&d->lock);
    for (const char *at = d->lines; (at = strstr(at, part)); at++) n++;
    pthread_mutex_unlock(&d->lock);
    return n;
}

static const char *no_name(void *arg, uint32_t client)
{
    (void)arg, (void)client;
    return "somebody";
}

static void up(stage *d, fixture *f, const char *settings, double silence)
{
    memset(d, 0, sizeof *d);
    pthread_mutex_init(&d->lock, NULL);
    federation_init(&d->t, f, settings);
    d->cfg = server_config(&d->t, settings);
    d->log = (fli_net_log){keep_line, d, 0};
    assert_ok(f->ctx, fl_server_new(d->cfg, &d->server));
    fli_dispatch_spec spec = {.server = d->server,
                              .clients = CLIENTS,
                              .silence = silence,
                              .log = &d->log,
                              .counters = &d->counters,
                              .name = no_name,
                              .wake = wake,
                              .arg = d};
    assert_ok(f->ctx, fli_dispatch_new(f->ctx, &spec, &d->dispatch));
    for (uint32_t i = 0; i < CLIENTS; i++) {
        fl_bytes card;
        assert_non_null(d->ctx[i] = fl_ctx_new());
        fl_config *cfg = fl_config_new(d->ctx[i]);
        fl_samples mine = samples_of(&d->t, i, 1);
        assert_ok(d->ctx[i], fl_config_data(cfg, &mine, NULL, NULL));
        assert_ok(d->ctx[i], fl_client_new(cfg, &d->client[i]));
        assert_ok(d->ctx[i], fl_client_card(d->client[i], 0, &card));
        assert_ok(f->ctx, fl_server_join(d->server, i, card.data, card.n));
        fl_bytes_free(&card);
        fl_config_free(cfg);
    }
}

static void down(stage *d)
{
    fli_dispatch_close(d->dispatch);
    fli_dispatch_free(d->dispatch);
    fl_server_free(d->server);
    for (size_t i = 0; i < CLIENTS; i++) {
        fl_client_free(d->client[i]);
        fl_ctx_free(d->ctx[i]);
    }
    fl_config_free(d->cfg);
    pthread_mutex_destroy(&d->lock);
}

/* Waits for something that another thread does, a long while at most. */
#define EVENTUALLY(what)                                                                                               \
    do {                                                                                                               \
        double until_ = __real_fli_clock_now() + 30;                                                                   \
        while (!(what) && __real_fli_clock_now() < until_) usleep(1000);                                               \
        assert_true(what);                                                                                             \
    } while (0)

static void begin(stage *d)
{
    fli_dispatch_begin(d->dispatch);
    EVENTUALLY(fli_dispatch_phase(d->dispatch) == FLI_NET_RUNNING);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        fl_bytes terms;
        assert_ok(d->t.f->ctx, fl_server_terms(d->server, i, &terms));
        assert_ok(d->ctx[i], fl_client_accept(d->client[i], terms.data, terms.n));
        fl_bytes_free(&terms);
    }
}

static fli_posted_ask *ask_of(stage *d, uint32_t i)
{
    double until = fli_clock_now() + 30;
    fli_posted_ask *p;
    while (!(p = fli_dispatch_ask(d->dispatch, i)) && fli_clock_now() < until) usleep(1000);
    assert_non_null(p);
    return p;
}

/* In one piece, as its client has it. */
static fl_bytes bytes_of(stage *d, uint32_t i, const fli_posted_ask *p)
{
    fl_bytes all;
    fli_ask_packet packet = p->packet;
    if (packet.body) atomic_fetch_add(&packet.body->users, 1);
    assert_ok(d->ctx[i], fli_ask_join(d->ctx[i], &packet, &all));
    return all;
}

static void work(stage *d, uint32_t i, fl_client *client, const fli_posted_ask *p, fl_bytes *answer)
{
    fl_bytes ask = bytes_of(d, i, p);
    assert_ok(d->ctx[i], fl_client_work(client, ask.data, ask.n, answer));
    fl_bytes_free(&ask);
}

/* An answer as it comes in. */
static fl_status hand_over(stage *d, uint32_t i, const void *bytes, size_t n, char *why, size_t size)
{
    fli_incoming *upload;
    assert_int_equal(fli_server_upload(d->server, n, &upload), FL_OK);
    assert_int_equal(fli_incoming_add(upload, bytes, n), FL_OK);
    fl_status s = fli_dispatch_answer(d->dispatch, i, &upload, why, size);
    fli_incoming_free(upload);
    return s;
}

/* The run may have ended meanwhile: then the answer is of no use. */
static void answer_ask(stage *d, uint32_t i, const fli_posted_ask *p)
{
    char why[200];
    fl_bytes answer;
    work(d, i, d->client[i], p, &answer);
    fl_status s = hand_over(d, i, answer.data, answer.n, why, sizeof why);
    if (s != FL_EMISMATCH) assert_int_equal(s, FL_OK);
    fl_bytes_free(&answer);
}

/* Answers everything until the run has ended, but as `mute`, if there is such a client, refuses. */
static void go_on_without(stage *d, uint32_t mute)
{
    for (double until = fli_clock_now() + 60; !fli_dispatch_ended(d->dispatch, 0) && fli_clock_now() < until;)
        for (uint32_t i = 0; i < CLIENTS; i++) {
            fli_posted_ask *p = fli_dispatch_ask(d->dispatch, i);
            if (!p) continue;
            fli_dispatch_heard_from(d->dispatch, i);
            if (i == mute)
                fli_dispatch_refuse(d->dispatch, i, p->number, "too \"much\"\n for me");
            else
                answer_ask(d, i, p);
            fli_posted_ask_release(p);
        }
    assert_true(fli_dispatch_ended(d->dispatch, 0));
}

static void go_on(stage *d) { go_on_without(d, CLIENTS); }

/* Answers the ask of a client, if it is one to take a turn or not; 1: it has such a one. */
static int answer_if(stage *d, uint32_t i, int turn)
{
    fli_peeked_ask g = {0};
    fli_posted_ask *p = fli_dispatch_ask(d->dispatch, i);
    if (!p) return 0;
    fl_bytes ask = bytes_of(d, i, p);
    assert_ok(d->ctx[i], fli_peek_ask(d->ctx[i], ask.data, ask.n, &g));
    fl_bytes_free(&ask);
    if (g.turn == turn) answer_ask(d, i, p);
    fli_posted_ask_release(p);
    return g.turn == turn;
}

/* How many are at work; all who are to be measured before that are. */
static size_t turns_out(stage *d)
{
    size_t n = 0;
    for (uint32_t i = 0; i < CLIENTS; i++) n += !answer_if(d, i, 0) && fli_dispatch_wanted(d->dispatch, i, 0);
    return n;
}

/* Asynchronous: three are at work, and all are to be measured. Nobody's ask is taken back. */
static void at_work_and_to_be_measured(void **state)
{
    stage d;
    up(&d, *state, "algorithm=fedasync;clock=real;participation={kind: uniform, count: 4}", 60);
    begin(&d);
    EVENTUALLY(turns_out(&d) == 4);
    uint32_t last = fli_dispatch_wanted(d.dispatch, CLIENTS - 1, 0) ? CLIENTS - 1 : CLIENTS - 2;
    assert_true(answer_if(&d, last, 1));
    EVENTUALLY(fli_dispatch_wanted(d.dispatch, last, 0));
    assert_true(fl_server_awaited(d.server, NULL, 0) > CLIENTS);
    usleep(700000); /* it is looked four times a second who is not awaited any more */
    assert_true(fli_dispatch_wanted(d.dispatch, last, 0));
    go_on(&d);
    down(&d);
}

static void waiting_ends_when_something_comes(void **state)
{
    stage d;
    up(&d, *state, "participation=everyone", 60);
    assert_int_equal(fli_dispatch_phase(d.dispatch), FLI_NET_JOINING);
    assert_null(fli_dispatch_ask(d.dispatch, 0));
    assert_true(fli_dispatch_wait(d.dispatch, 0, 0, 30, &d.woken[0]));
    assert_true(fli_dispatch_wait(d.dispatch, 1, 1, 30, &d.woken[1]));
    assert_true(fli_dispatch_wait(d.dispatch, 2, 0, 0.01, &d.woken[2]));
    assert_int_equal(atomic_load(&d.counters.waiting), 3);
    EVENTUALLY(atomic_load(&d.woken[2]) == 1); /* its time is over */
    atomic_int second = 0;
    assert_true(fli_dispatch_wait(d.dispatch, 0, 0, 30, &second));
    assert_int_equal(atomic_load(&d.woken[0]), 1); /* another one waits in its place */
    begin(&d);
    EVENTUALLY(atomic_load(&d.woken[1]) == 1 && atomic_load(&second) == 1);
    fli_posted_ask *p = ask_of(&d, 0), *again = ask_of(&d, 0);
    assert_ptr_equal(p, again);
    assert_false(fli_dispatch_wait(d.dispatch, 0, 0, 30, &second)); /* there is an ask */
    assert_false(fli_dispatch_wait(d.dispatch, 0, 1, 30, &second)); /* there are terms */
    assert_true(fli_dispatch_wanted(d.dispatch, 0, p->number));
    assert_true(fli_dispatch_wanted(d.dispatch, 0, 0));
    assert_false(fli_dispatch_wanted(d.dispatch, 0, p->number + 1000));
    fli_posted_ask_release(again);
    go_on(&d);
    fl_bytes sent = bytes_of(&d, 0, p); /* who sends it still has it */
    assert_true(sent.n > sizeof p->packet.front);
    fl_bytes_free(&sent);
    fli_posted_ask_release(p);
    assert_int_equal(fli_dispatch_phase(d.dispatch), FLI_NET_SAVING);
    atomic_store(&second, 0);
    assert_true(fli_dispatch_wait(d.dispatch, 3, 0, 30, &second)); /* the result is not safe yet */
    fli_dispatch_finish(d.dispatch);
    EVENTUALLY(atomic_load(&second) == 1);
    uint32_t first;
    assert_int_equal(fli_dispatch_unacknowledged(d.dispatch, &first), CLIENTS);
    assert_int_equal(first, 0);
    fli_dispatch_acknowledge(d.dispatch, 0);
    assert_int_equal(fli_dispatch_unacknowledged(d.dispatch, &first), CLIENTS - 1);
    assert_int_equal(first, 1);
    assert_int_equal(atomic_load(&d.counters.waiting), 0);
    down(&d);
}

static void a_valid_answer_counts_once(void **state)
{
    stage d;
    char why[200];
    fl_bytes answer;
    fli_net_client seen;
    up(&d, *state, "participation=everyone", 60);
    begin(&d);
    fli_posted_ask *p = ask_of(&d, 2);
    uint64_t number = p->number;
    work(&d, 2, d.client[2], p, &answer);
    fli_posted_ask_release(p);
    assert_int_equal(hand_over(&d, 3, answer.data, answer.n, why, sizeof why), FL_EMISMATCH);
    assert_int_equal(hand_over(&d, 2, answer.data, answer.n - 1, why, sizeof why), FL_EFORMAT);
    assert_int_equal(hand_over(&d, 2, answer.data, 5, why, sizeof why), FL_EFORMAT);
    assert_true(fli_dispatch_wanted(d.dispatch, 2, number));
    assert_int_equal(hand_over(&d, 2, answer.data, answer.n, why, sizeof why), FL_OK);
    assert_int_equal(hand_over(&d, 2, answer.data, answer.n, why, sizeof why), FL_OK);
    fli_dispatch_client(d.dispatch, 2, &seen);
    assert_int_equal(seen.answers, 1);
    assert_int_equal(atomic_load(&d.counters.repeated), 1);
    assert_int_equal(atomic_load(&d.counters.malformed), 2);
    assert_int_equal(atomic_load(&d.counters.late), 1);
    assert_true(logged(&d, "event=malformed client=2 name=somebody reason="));
    assert_int_equal(fli_dispatch_refuse(d.dispatch, 2, number, "late"), FL_EMISMATCH);
    fl_bytes_free(&answer);
    go_on(&d);
    double got[2000];
    assert_int_equal(fl_run_model(fl_server_run(d.server), got, 2000), d.t.parameters);
    assert_memory_equal(got, d.t.want, d.t.parameters * sizeof *got);
    down(&d);
}

/* The same ask answered twice, from other samples. */
static void another_answer(void **state)
{
    stage d;
    char why[400];
    fl_bytes answer, other;
    up(&d, *state, "participation=everyone;metrics={train: false, clients: false}", 60);
    begin(&d);
    EVENTUALLY(turns_out(&d) == CLIENTS);
    fli_posted_ask *p = ask_of(&d, 2);
    fl_config *cfg = fl_config_new(d.ctx[2]);
    fl_samples wrong = samples_of(&d.t, 3, 1);
    fl_client *twin;
    fl_bytes terms;
    assert_ok(d.ctx[2], fl_config_data(cfg, &wrong, NULL, NULL));
    assert_ok(d.ctx[2], fl_client_new(cfg, &twin));
    assert_ok(d.t.f->ctx, fl_server_terms(d.server, 2, &terms));
    assert_ok(d.ctx[2], fl_client_accept(twin, terms.data, terms.n));
    work(&d, 2, twin, p, &other);
    work(&d, 2, d.client[2], p, &answer);
    assert_int_equal(hand_over(&d, 2, answer.data, answer.n, why, sizeof why), FL_OK);
    assert_int_equal(hand_over(&d, 2, other.data, other.n, why, sizeof why), FL_EMISMATCH);
    assert_non_null(strstr(why, "has been answered otherwise: the answer that was taken has the digest "));
    assert_true(logged(&d, "event=contradiction client=2 name=somebody number="));
    assert_int_equal(hand_over(&d, 2, answer.data, answer.n, why, sizeof why), FL_OK);
    assert_int_equal(atomic_load(&d.counters.repeated), 1);
    fli_posted_ask_release(p);
    fl_bytes_free(&terms);
    fl_bytes_free(&answer);
    fl_bytes_free(&other);
    fl_client_free(twin);
    fl_config_free(cfg);
    go_on(&d);
    down(&d);
}

static fli_process_claim claim(stage *d, uint64_t folder, uint64_t process, fli_other_process *other)
{
    char from[32];
    const fli_instance who = {folder, process};
    snprintf(from, sizeof from, "host%llu", (unsigned long long)process);
    return fli_dispatch_claim(d->dispatch, 1, &who, from, other);
}

/* One process at a time acts as a client. */
static void one_process_acts_as_a_client(void **state)
{
    stage d;
    fli_other_process other;
    atomic_int woken = 0;
    up(&d, *state, "participation=everyone", 60);
    assert_int_equal(claim(&d, 7, 1, &other), FLI_CLAIM_KNOWN);
    assert_int_equal(claim(&d, 7, 1, &other), FLI_CLAIM_KNOWN);
    assert_int_equal(claim(&d, 8, 2, &other), FLI_CLAIM_LIVE); /* heard just now */
    assert_string_equal(other.address, "host1");
    assert_true(other.age >= 0 && other.age < 10 && other.heard <= other.age);
    assert_int_equal(claim(&d, 0, 0, &other), FLI_CLAIM_LIVE); /* one that does not say which it is */
    assert_int_equal(claim(&d, 7, 3, &other), FLI_CLAIM_RESTARTED);
    assert_int_equal(claim(&d, 7, 1, &other), FLI_CLAIM_SUPERSEDED);
    assert_string_equal(other.address, "host3");
    assert_int_equal(claim(&d, 7, 3, &other), FLI_CLAIM_KNOWN);
    assert_true(fli_dispatch_wait(d.dispatch, 1, 0, 30, &woken)); /* whoever waits is there */
    assert_int_equal(claim(&d, 8, 2, &other), FLI_CLAIM_LIVE);
    fli_dispatch_leave(d.dispatch, 1);
    assert_int_equal(claim(&d, 8, 2, &other), FLI_CLAIM_REPLACED);
    assert_string_equal(other.address, "host3");
    assert_int_equal(claim(&d, 7, 3, &other), FLI_CLAIM_SUPERSEDED);
    for (uint64_t process = 10; process < 20; process++)
        assert_int_equal(claim(&d, 8, process, &other), FLI_CLAIM_RESTARTED);
    assert_int_equal(claim(&d, 8, 18, &other), FLI_CLAIM_SUPERSEDED);
    down(&d);
}

/* A method that needs everyone cannot go on without one; a server that starts again can. */
static void refusal_of_one_that_is_needed(void **state)
{
    stage d;
    char why[300];
    up(&d, *state, "algorithm={kind: fedpd, eta: 0.1};participation=everyone;metrics={train: false, clients: false}",
       60);
    begin(&d);
    go_on_without(&d, 1); /* a measurement does without */
    assert_int_equal(fli_dispatch_phase(d.dispatch), FLI_NET_PAUSED);
    assert_int_equal(fli_dispatch_ending(d.dispatch, why, sizeof why), FL_EIO);
    assert_non_null(strstr(why, "client 1: it refuses what it was asked: \"too 'much'? for me\""));
    assert_true(logged(&d, "event=refused client=1 name=somebody number="));
    down(&d);
}

/* A round goes on without a client that refuses, or that is not heard while it has something to do. */
static void refused_and_silent(void **state)
{
    stage d;
    fli_net_client seen;
    up(&d, *state, "algorithm=fedavg;participation=everyone;rounds=2;metrics={train: false, clients: false}", 0.3);
    begin(&d);
    fli_posted_ask *p = ask_of(&d, 1);
    assert_int_equal(fli_dispatch_refuse(d.dispatch, 1, p->number, "too much"), FL_OK);
    assert_false(fli_dispatch_wanted(d.dispatch, 1, p->number));
    fli_posted_ask_release(p);
    p = ask_of(&d, 4);
    uint64_t number = p->number;
    fli_posted_ask_release(p);
    EVENTUALLY(!fli_dispatch_wanted(d.dispatch, 4, number)); /* nobody has said anything: all are silent */
    assert_true(logged(&d, "event=dropped client=4 name=somebody silence=0"));
    fli_dispatch_client(d.dispatch, 4, &seen);
    assert_true(seen.dropped >= 1);
    fli_dispatch_client(d.dispatch, 1, &seen);
    assert_int_equal(seen.refused, 1);
    assert_int_equal(fli_dispatch_refuse(d.dispatch, 1, 0, "not these terms"), FL_OK);
    assert_true(logged(&d, "event=refused client=1 name=somebody number=0 reason=\"not these terms\""));
    fli_dispatch_client(d.dispatch, 1, &seen);
    assert_int_equal(seen.refused, 2);
    go_on(&d);
    assert_int_equal(fli_dispatch_phase(d.dispatch), FLI_NET_SAVING);
    down(&d);
}

/* Answers to what a client is asked that are none, this many. */
static void answer_badly(stage *d, uint32_t who, int times)
{
    char why[200];
    for (int i = 0; i < times; i++) assert_int_equal(hand_over(d, who, "no answer", 9, why, sizeof why), FL_EFORMAT);
}

/* A client whose answers are none is heard all the time, and would be waited for in vain. */
static void repeated_malformed_answers_drop_a_client(void **state)
{
    stage d;
    fli_net_client seen;
    up(&d, *state, "algorithm=fedavg;participation=everyone;rounds=2;metrics={train: false, clients: false}", 60);
    begin(&d);
    fli_posted_ask *p = ask_of(&d, 2);
    uint64_t number = p->number;
    fli_posted_ask_release(p);
    answer_badly(&d, 2, 7);
    assert_true(fli_dispatch_wanted(d.dispatch, 2, number));
    answer_badly(&d, 2, 1);
    assert_false(fli_dispatch_wanted(d.dispatch, 2, number));
    assert_true(logged(&d, "event=dropped client=2 name=somebody reason=malformed"));
    fli_dispatch_client(d.dispatch, 2, &seen);
    assert_int_equal(seen.dropped, 1);
    double until = fli_clock_now() + 30;
    for (uint32_t i = 0; !fli_dispatch_wanted(d.dispatch, 2, 0) && fli_clock_now() < until; i = (i + 1) % CLIENTS)
        if (i != 2 && !answer_if(&d, i, 0)) answer_if(&d, i, 1);
    assert_true(fli_dispatch_wanted(d.dispatch, 2, 0));
    answer_badly(&d, 2, 7); /* a new ask is counted from the start */
    go_on(&d);
    assert_int_equal(fli_dispatch_phase(d.dispatch), FLI_NET_SAVING);
    fli_dispatch_client(d.dispatch, 2, &seen);
    assert_int_equal(seen.dropped, 1);
    down(&d);
}

/* Where everyone is needed the run stops with its name. */
static void malformed_of_one_that_is_needed(void **state)
{
    stage d;
    char why[400];
    up(&d, *state, "algorithm={kind: fedpd, eta: 0.1};participation=everyone;metrics={train: false, clients: false}",
       60);
    begin(&d);
    double until = fli_clock_now() + 60;
    for (uint32_t i = 0; !fli_dispatch_ended(d.dispatch, 0) && fli_clock_now() < until; i = (i + 1) % CLIENTS) {
        if (i == 1 && fli_dispatch_wanted(d.dispatch, i, 0))
            answer_badly(&d, i, 8);
        else if (i != 1 && !answer_if(&d, i, 0))
            answer_if(&d, i, 1);
    }
    assert_int_equal(fli_dispatch_phase(d.dispatch), FLI_NET_PAUSED);
    assert_int_equal(fli_dispatch_ending(d.dispatch, why, sizeof why), FL_EIO);
    assert_non_null(strstr(why, "client 1: 8 of its answers to one ask were malformed, the last one: "));
    down(&d);
}

/* A client may work for as long as it likes while it is heard of. */
static void long_turns_are_not_silence(void **state)
{
    stage d;
    uint64_t number[CLIENTS];
    fli_net_client seen;
    up(&d, *state, "algorithm=fedavg;participation=everyone;rounds=1;metrics={train: false, clients: false}", 1000);
    begin(&d);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        fli_posted_ask *p = ask_of(&d, i);
        number[i] = p->number;
        fli_posted_ask_release(p);
    }
    for (int again = 0; again < 5; again++) {
        pass_time(900);
        for (uint32_t i = 0; i < CLIENTS; i++)
            if (i != 4 || !again) fli_dispatch_heard_from(d.dispatch, i);
    }
    EVENTUALLY(
        !fli_dispatch_wanted(d.dispatch, 4, number[4])); /* all were looked at after it was too late for this one */
    for (uint32_t i = 0; i < CLIENTS; i++) {
        fli_dispatch_client(d.dispatch, i, &seen);
        assert_int_equal(seen.dropped, i == 4);
        assert_int_equal(fli_dispatch_wanted(d.dispatch, i, number[i]), i != 4);
    }
    go_on(&d);
    assert_int_equal(fli_dispatch_phase(d.dispatch), FLI_NET_SAVING);
    down(&d);
}

/* The thread has looked who is silent, from the beginning to the end of a look. Client 0 has nothing to do. */
static void looked(stage *d)
{
    for (int i = 0; i < 2; i++) {
        atomic_int woken = 0;
        assert_true(fli_dispatch_wait(d->dispatch, 0, 0, 0, &woken));
        EVENTUALLY(atomic_load(&woken));
    }
}

static void look_meanwhile(void *arg) { looked(arg); }

/* Between the moment when the run has an answer and the one when that is noted here, the ask is not awaited any more:
 * its client is not late for that. */
static void taken_is_not_late(void **state)
{
    stage d;
    fli_net_client seen;
    up(&d, *state, "algorithm=fedavg;participation=everyone;rounds=1;metrics={train: false, clients: false}", 1000);
    begin(&d);
    EVENTUALLY(turns_out(&d) == CLIENTS);
    assert_true(answer_if(&d, 0, 1));
    taken_arg = &d;
    taken = look_meanwhile;
    assert_true(answer_if(&d, 1, 1));
    taken = NULL;
    fli_dispatch_client(d.dispatch, 1, &seen);
    assert_int_equal(seen.dropped, 0);
    assert_true(seen.took >= 0 && atomic_load(&d.counters.dropped) == 0);
    go_on(&d);
    down(&d);
}

/* A client that is needed is waited for, and its silence is a line in the log each time that it has lasted so long. */
static void silence_of_one_that_is_needed(void **state)
{
    stage d;
    up(&d, *state, "algorithm={kind: fedpd, eta: 0.1};participation=everyone;metrics={train: false, clients: false}",
       1000);
    begin(&d);
    EVENTUALLY(turns_out(&d) == CLIENTS);
    assert_true(answer_if(&d, 0, 1));
    for (int times = 1; times < 4; times++) {
        pass_time(1001);
        EVENTUALLY(logged(&d, "event=silent client=4") == times);
        looked(&d);
        looked(&d);
        assert_int_equal(logged(&d, "event=silent client=4"), times);
        assert_true(fli_dispatch_wanted(d.dispatch, 4, 0));
    }
    go_on(&d);
    assert_int_equal(fli_dispatch_phase(d.dispatch), FLI_NET_SAVING);
    down(&d);
}

/* A deadline is the run's; who missed it is counted here, and may be asked again at once. */
static void a_late_client_is_dropped(void **state)
{
    stage d;
    fli_net_client seen;
    up(&d, *state,
       "algorithm=fedavg;participation=everyone;rounds=2;metrics={train: false, clients: false};server.deadline=0.3",
       60);
    begin(&d);
    fli_posted_ask *p = ask_of(&d, 4);
    uint64_t number = p->number;
    fli_posted_ask_release(p);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        int done = i == 4;
        EVENTUALLY((done = done || answer_if(&d, i, 1)));
    }
    EVENTUALLY(!fli_dispatch_wanted(d.dispatch, 4, number));
    EVENTUALLY(logged(&d, "event=dropped client=4 name=somebody reason=late"));
    fli_dispatch_client(d.dispatch, 4, &seen);
    assert_true(seen.dropped >= 1);
    down(&d);
}

static void draining_ends_with_the_round(void **state)
{
    stage d;
    up(&d, *state, "participation=everyone;rounds=1000", 60);
    begin(&d);
    fli_posted_ask_release(ask_of(&d, 0));
    fli_dispatch_drain(d.dispatch);
    assert_int_equal(fli_dispatch_phase(d.dispatch), FLI_NET_DRAINING);
    go_on(&d); /* the round under way */
    assert_true(fl_run_round(fl_server_run(d.server)) < 1000);
    assert_int_equal(fl_run_stopped_by(fl_server_run(d.server)), FL_STOP_ASKED);
    down(&d);
}

static void closed_while_all_wait(void **state)
{
    stage d;
    up(&d, *state, "", 60);
    for (uint32_t i = 0; i < CLIENTS; i++) assert_true(fli_dispatch_wait(d.dispatch, i, 0, 30, &d.woken[i]));
    fli_dispatch_close(d.dispatch);
    for (uint32_t i = 0; i < CLIENTS; i++) assert_int_equal(atomic_load(&d.woken[i]), 1);
    assert_false(fli_dispatch_wait(d.dispatch, 0, 0, 30, &d.woken[0]));
    fli_dispatch_free(d.dispatch);
    fl_server_free(d.server);
    for (size_t i = 0; i < CLIENTS; i++) {
        fl_client_free(d.client[i]);
        fl_ctx_free(d.ctx[i]);
    }
    fl_config_free(d.cfg);
    pthread_mutex_destroy(&d.lock);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(waiting_ends_when_something_comes),
                                       FIXTURE_TEST(a_valid_answer_counts_once),
                                       FIXTURE_TEST(another_answer),
                                       FIXTURE_TEST(one_process_acts_as_a_client),
                                       FIXTURE_TEST(at_work_and_to_be_measured),
                                       FIXTURE_TEST(refusal_of_one_that_is_needed),
                                       FIXTURE_TEST(refused_and_silent),
                                       FIXTURE_TEST(repeated_malformed_answers_drop_a_client),
                                       FIXTURE_TEST(malformed_of_one_that_is_needed),
                                       FIXTURE_TEST(long_turns_are_not_silence),
                                       FIXTURE_TEST(silence_of_one_that_is_needed),
                                       FIXTURE_TEST(taken_is_not_late),
                                       FIXTURE_TEST(a_late_client_is_dropped),
                                       FIXTURE_TEST(draining_ends_with_the_round),
                                       FIXTURE_TEST(closed_while_all_wait)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
