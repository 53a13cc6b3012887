#include "net/client/heartbeat.h"

#include "base/number.h"
#include "base/os.h"
#include "net/common/protocol.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { LOOKS = 4 }; /* per second, whether the work is to be stopped */

struct fli_heartbeat {
    fl_ctx *ctx; /* of the thread */
    fli_http_call *call;
    fli_heartbeat_spec spec;
    int (*stopping)(void *arg); /* the client's */
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_int ending;
    /* behind the lock */
    uint64_t number; /* 0: the client rests */
    double due;      /* of the next beat, by fli_clock_now */
    int stopped;
};

static int is_ending(void *pulse) { return atomic_load(&((fli_heartbeat *)pulse)->ending); }

/* Whether the server said that it does not need the answer. Nothing comes of a beat that fails: there is another one,
 * and the client's own calls say what is wrong. */
static int beat(fli_heartbeat *p, uint64_t number)
{
    char body[64];
    fli_http_answer reply;
    int n = fli_snprintf(body, sizeof body, "{\"number\": %llu}", (unsigned long long)number);
    fli_http_call_end end = fli_http_call_post(p->call, FLI_NET_ALIVE, "application/json", body, (size_t)n, &reply);
    fli_clear(p->ctx);
    return end == FLI_CALL_DONE && reply.code == 200 && !fli_http_answer_flag(&reply, "wanted", 1);
}

/* Behind the lock, and so not once the client has said that it rests. */
static void stop_work(fli_heartbeat *p)
{
    if (!p->stopped) p->spec.stop(p->spec.worker);
    p->stopped = 1;
}

/* A moment of work, behind the lock. */
static void attend(fli_heartbeat *p)
{
    uint64_t number = p->number;
    fli_clock_wait(&p->changed, &p->lock, fli_clock_now() + 1.0 / LOOKS);
    if (is_ending(p) || p->number != number) return;
    if (p->stopping && p->stopping(p->arg)) stop_work(p);
    if (p->stopped || fli_clock_now() < p->due) return;
    p->due = fli_clock_now() + p->spec.every;
    pthread_mutex_unlock(&p->lock);
    int unwanted = beat(p, number);
    pthread_mutex_lock(&p->lock);
    if (unwanted && p->number == number) stop_work(p);
}

static void *go(void *pulse)
{
    fli_heartbeat *p = pulse;
    pthread_mutex_lock(&p->lock);
    while (!is_ending(p))
        if (p->number)
            attend(p);
        else
            pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
    return NULL;
}

/* Signals are the main thread's: it sleeps, and has to be woken. */
static int start(fli_heartbeat *p)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&p->thread, NULL, go, p);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

fl_status fli_heartbeat_new(fl_ctx *ctx, const fli_http_call_spec *call, const fli_heartbeat_spec *spec,
                            fli_heartbeat **out)
{
    fli_heartbeat *p = fli_alloc(ctx, 1, sizeof *p);
    if (!p) return FL_ENOMEM;
    p->spec = *spec;
    p->stopping = call->stopping;
    p->arg = call->arg;
    fli_http_call_spec own = *call;
    own.stopping = is_ending;
    own.arg = p;
    own.connect_s = own.stall_s = spec->every;
    fl_status s = (p->ctx = fl_ctx_new()) ? fli_http_call_new(p->ctx, &own, &p->call) : FL_ENOMEM;
    if (s) {
        fli_fail(ctx, s, "%s", p->ctx ? fl_ctx_error(p->ctx) : "out of memory");
        goto failed;
    }
    pthread_mutex_init(&p->lock, NULL);
    fli_clock_cond(&p->changed);
    if (!start(p)) {
        *out = p;
        return FL_OK;
    }
    s = fli_fail(ctx, FL_ESYSTEM, "no thread can be started");
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
failed:
    fli_http_call_free(p->call);
    fl_ctx_free(p->ctx);
    fli_free(p);
    return s;
}

void fli_heartbeat_free(fli_heartbeat *p)
{
    if (!p) return;
    pthread_mutex_lock(&p->lock);
    atomic_store(&p->ending, 1);
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    pthread_join(p->thread, NULL);
    pthread_cond_destroy(&p->changed);
    pthread_mutex_destroy(&p->lock);
    fli_http_call_free(p->call);
    fl_ctx_free(p->ctx);
    fli_free(p);
}

static int set(fli_heartbeat *p, uint64_t number)
{
    pthread_mutex_lock(&p->lock);
    int stopped = p->stopped;
    p->number = number;
    p->stopped = 0;
    p->due = fli_clock_now() + p->spec.every;
    pthread_cond_signal(&p->changed);
    pthread_mutex_unlock(&p->lock);
    return stopped;
}

void fli_heartbeat_work(fli_heartbeat *p, uint64_t number) { set(p, number); }
int fli_heartbeat_rest(fli_heartbeat *p) { return set(p, 0); }
