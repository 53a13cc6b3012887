#include "net/client/heartbeat.h"

#include "base/number.h"
#include "base/os.h"
#include "net/common/protocol.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

enum { LOOKS = 4 }; /* per second, how often `stopping` is called */

struct fli_heartbeat {
    fl_ctx *ctx; /* used by the thread only */
    fli_http_call *call;
    fli_heartbeat_spec spec;
    int (*stopping)(void *arg); /* from the client's fli_http_call_spec */
    void *arg;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    atomic_int ending;
    /* guarded by `lock`: */
    uint64_t number; /* of the ask; 0: the client rests */
    double due;      /* time of the next beat, by fli_clock_now */
    int stopped;
};

static int is_ending(void *heartbeat) { return atomic_load(&((fli_heartbeat *)heartbeat)->ending); }

/* Whether the server says that it does not need the answer. A failed beat is ignored: the next one follows, and the
 * client's own calls report errors. */
static int beat(fli_heartbeat *h, uint64_t number)
{
    char body[64];
    fli_http_answer reply;
    int n = fli_snprintf(body, sizeof body, "{\"number\": %llu}", (unsigned long long)number);
    fli_http_call_end end = fli_http_call_post(h->call, FLI_NET_ALIVE, "application/json", body, (size_t)n, &reply);
    fli_clear(h->ctx);
    return end == FLI_CALL_DONE && reply.code == 200 && !fli_http_answer_flag(&reply, "wanted", 1);
}

/* Caller holds the lock, so the client has not come to rest. */
static void stop_work(fli_heartbeat *h)
{
    if (!h->stopped) h->spec.stop(h->spec.worker);
    h->stopped = 1;
}

/* Caller holds the lock; called LOOKS times a second while the client works. Stops the work, or sends a beat. */
static void check_work(fli_heartbeat *h)
{
    uint64_t number = h->number;
    fli_clock_wait(&h->changed, &h->lock, fli_clock_now() + 1.0 / LOOKS);
    if (is_ending(h) || h->number != number) return;
    if (h->stopping && h->stopping(h->arg)) stop_work(h);
    if (h->stopped || fli_clock_now() < h->due) return;
    h->due = fli_clock_now() + h->spec.every;
    pthread_mutex_unlock(&h->lock);
    int unwanted = beat(h, number);
    pthread_mutex_lock(&h->lock);
    if (unwanted && h->number == number) stop_work(h);
}

static void *go(void *heartbeat)
{
    fli_heartbeat *h = heartbeat;
    pthread_mutex_lock(&h->lock);
    while (!is_ending(h))
        if (h->number)
            check_work(h);
        else
            pthread_cond_wait(&h->changed, &h->lock);
    pthread_mutex_unlock(&h->lock);
    return NULL;
}

/* Blocks all signals in the new thread: they must wake the main thread, which sleeps. */
static int start(fli_heartbeat *h)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&h->thread, NULL, go, h);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return failed;
}

fl_status fli_heartbeat_new(fl_ctx *ctx, const fli_http_call_spec *call, const fli_heartbeat_spec *spec,
                            fli_heartbeat **out)
{
    fli_heartbeat *h = fli_alloc(ctx, 1, sizeof *h);
    if (!h) return FL_ENOMEM;
    h->spec = *spec;
    h->stopping = call->stopping;
    h->arg = call->arg;
    fli_http_call_spec own = *call;
    own.stopping = is_ending;
    own.arg = h;
    own.connect_s = own.stall_s = spec->every;
    fl_status s = (h->ctx = fl_ctx_new()) ? fli_http_call_new(h->ctx, &own, &h->call) : FL_ENOMEM;
    if (s) {
        fli_fail(ctx, s, "%s", h->ctx ? fl_ctx_error(h->ctx) : "out of memory");
        goto failed;
    }
    pthread_mutex_init(&h->lock, NULL);
    fli_clock_cond(&h->changed);
    if (!start(h)) {
        *out = h;
        return FL_OK;
    }
    s = fli_fail(ctx, FL_ESYSTEM, "no thread can be started");
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
failed:
    fli_http_call_free(h->call);
    fl_ctx_free(h->ctx);
    fli_free(h);
    return s;
}

void fli_heartbeat_free(fli_heartbeat *h)
{
    if (!h) return;
    pthread_mutex_lock(&h->lock);
    atomic_store(&h->ending, 1);
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
    pthread_join(h->thread, NULL);
    pthread_cond_destroy(&h->changed);
    pthread_mutex_destroy(&h->lock);
    fli_http_call_free(h->call);
    fl_ctx_free(h->ctx);
    fli_free(h);
}

static int set(fli_heartbeat *h, uint64_t number)
{
    pthread_mutex_lock(&h->lock);
    int stopped = h->stopped;
    h->number = number;
    h->stopped = 0;
    h->due = fli_clock_now() + h->spec.every;
    pthread_cond_signal(&h->changed);
    pthread_mutex_unlock(&h->lock);
    return stopped;
}

void fli_heartbeat_work(fli_heartbeat *h, uint64_t number) { set(h, number); }
int fli_heartbeat_rest(fli_heartbeat *h) { return set(h, 0); }
