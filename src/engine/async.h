/* Asynchronous execution: a server that never waits. A number of clients is at work at any time, each from the model it
 * was last given; whenever one comes back its upload is absorbed, and the newest model goes out to the next client.
 *
 * On the virtual clock a turn lasts as long as its device needs, and answers come in the order of simulated time: same
 * seed, same order, same bits, whatever the number of threads. On the real clock clients are elsewhere: one thread
 * sends to them and takes what arrives, as it arrives; a client that is lost is left out, and another one takes its
 * place. Checkpoints hold the clients at work and the models that they started from. */
#ifndef FLI_ENGINE_ASYNC_H
#define FLI_ENGINE_ASYNC_H

#include "base/ctx.h"
#include "engine/engine.h"

#include <stdatomic.h>
#include <stddef.h>

typedef struct fli_async fli_async;

typedef struct {
    fli_exec *exec; /* borrowed, with a method that has a pace */
    fl_pace pace;
    size_t clients;
    size_t at_work; /* clients at work at the same time */
    uint64_t seed;  /* of cohorts */
    int real;       /* the real clock, of an executor that sends */
    /* Fills steps, lr and probability of a turn that begins after `round` server steps. */
    void (*ask)(void *arg, fl_ask *ask);
    /* How many simulated seconds it lasts. */
    double (*duration)(void *arg, const fl_ask *ask);
    /* Clients that are elsewhere can go back by one turn: before one is sent out again whose last answer no
     * fli_async_save has seen, this is called, which must. NULL: nothing is ever gone back to. */
    fl_status (*save)(void *arg);
    void *arg;
} fli_async_spec;

/* What happened since the last fli_async_count_take. */
typedef struct {
    size_t sent, arrived; /* models to clients, uploads from them, */
    double down, up;      /* and their bytes */
    double steps;         /* of the local solvers that arrived */
    double staleness;     /* sum over arrivals */
    size_t staleness_max;
} fli_async_count;

/* Refuses a bound tau that cannot be kept: with m clients at work somebody is up to (m - 1)/buffer server steps old. */
fl_status fli_pace_check(fl_ctx *ctx, const fl_pace *pace, size_t at_work);
fl_status fli_async_new(fl_ctx *ctx, const fli_async_spec *spec, fli_async **out);
void fli_async_free(fli_async *a);
/* Before anything runs, on the virtual clock: it begins at this many seconds. */
void fli_async_begin_at(fli_async *a, double seconds);
/* Continues until this many server steps are done in all, or *stop_requested. After a failure it only fails again. */
fl_status fli_async_run(fli_async *a, size_t steps, const atomic_int *stop_requested);
/* On the real clock: the runs that follow end when fli_clock_now() is `end`, at the latest. */
void fli_async_limit(fli_async *a, double end);
size_t fli_async_steps(const fli_async *a); /* done so far */
double fli_async_clock(const fli_async *a); /* simulated seconds; 0 on the real clock */
fli_async_count fli_async_count_take(fli_async *a);
/* Between runs: whether the client has begun a turn whose answer has not been absorbed, and its number
 * (fl_ask.stream); where the client has worked it is ahead of the server. */
int fli_async_away(const fli_async *a, uint32_t client, uint64_t *turn);

/* Between two runs or from `save`: who is at work, from which model and until when, and the uploads that are there. The
 * federation is saved and loaded separately, and before.
 * Loading is for one that has not run; who was at work then is sent out again. */
void fli_async_save(fli_async *a, fli_saver *out);
fl_status fli_async_load(fli_async *a, fli_loader *in);

#endif
