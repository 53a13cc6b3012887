/* Asynchronous execution: a server that never waits. `at_work` clients are at work at any time, each from the model
 * that it got last. When one answers, the server absorbs its upload and sends the newest model to the next client.
 *
 * On the virtual clock a turn lasts as long as its device needs, and answers arrive in the order of simulated time: the
 * bits depend only on the seed, not on the number of threads. On the real clock clients are in other processes: one
 * thread sends to them and absorbs answers as they arrive; a lost client is replaced by another one. Checkpoints
 * contain the clients at work and the models from which they started. */
#ifndef FLI_ENGINE_ASYNC_H
#define FLI_ENGINE_ASYNC_H

#include "base/ctx.h"
#include "engine/engine.h"

#include <stdatomic.h>
#include <stddef.h>

typedef struct fli_async fli_async;

typedef struct {
    fli_exec *exec; /* borrowed; its method must have a pace */
    fl_pace pace;
    size_t clients;
    size_t at_work; /* clients at work at the same time */
    uint64_t seed;  /* of the draws of clients */
    int real;       /* use the real clock; needs an executor that sends */
    /* Sets steps, lr and probability of a turn that begins after `round` server steps. */
    void (*ask)(void *arg, fl_ask *ask);
    /* The simulated seconds of a turn. */
    double (*duration)(void *arg, const fl_ask *ask);
    /* Remote clients can go back by one turn only. So this is called before a client is sent out again whose last
     * answer is in no fli_async_save yet; it must call that function. NULL: clients never go back. */
    fl_status (*save)(void *arg);
    void *arg;
} fli_async_spec;

/* Counts since the last fli_async_count_take. */
typedef struct {
    size_t sent, arrived; /* models to clients, uploads from them */
    double down, up;      /* their bytes */
    double steps;         /* steps of the local solvers whose answers arrived */
    double staleness;     /* sum over arrivals */
    size_t staleness_max;
} fli_async_count;

/* FL_ECONFIG for a bound tau that cannot hold: with m clients at work an answer is up to (m - 1)/buffer server steps
 * old. */
fl_status fli_pace_check(fl_ctx *ctx, const fl_pace *pace, size_t at_work);
fl_status fli_async_new(fl_ctx *ctx, const fli_async_spec *spec, fli_async **out);
void fli_async_free(fli_async *a);
/* Before the first run, on the virtual clock: sets the time at which it begins. */
void fli_async_begin_at(fli_async *a, double seconds);
/* Continues until `steps` server steps are done in total, or *stop_requested. After a failure it fails again. */
fl_status fli_async_run(fli_async *a, size_t steps, const atomic_int *stop_requested);
/* On the real clock: later runs end at this time, by fli_clock_now, at the latest. */
void fli_async_limit(fli_async *a, double end);
size_t fli_async_steps(const fli_async *a); /* server steps done */
double fli_async_clock(const fli_async *a); /* simulated seconds; 0 on the real clock */
fli_async_count fli_async_count_take(fli_async *a);
/* Between runs: whether the client has begun a turn whose answer has not been absorbed, and the turn's number
 * (fl_ask.stream). If the client has worked, its state is ahead of the server's. */
int fli_async_away(const fli_async *a, uint32_t client, uint64_t *turn);

/* Between runs or from `save`: the clients at work, their models, their times, and complete uploads. The federation is
 * saved and loaded separately, and before. Load only before the first run; the clients at work are then sent out
 * again. */
void fli_async_save(fli_async *a, fli_saver *out);
fl_status fli_async_load(fli_async *a, fli_loader *in);

#endif
