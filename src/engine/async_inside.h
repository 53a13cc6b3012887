/* What a fli_async is made of: for async.c, and async_save.c, which has its checkpoints. */
#ifndef FLI_ENGINE_ASYNC_INSIDE_H
#define FLI_ENGINE_ASYNC_INSIDE_H

#include "engine/async.h"
#include "engine/latest_model.h"

#include <pthread.h>

/* A model that went out. Clients that were sent the same one share it. */
typedef struct fli_sent_model {
    struct fli_sent_model *next; /* of those nobody uses */
    size_t users, version;
    fli_message model;
} fli_sent_model;

/* A client at work, or one whose answer has not been absorbed. */
typedef struct fli_flight {
    fli_exchange x;
    struct fli_flight *before, *after; /* in the order in which they were sent out */
    size_t version;                    /* server steps when it was sent out, */
    size_t read;                       /* and of the model it got: on the real clock that may be newer */
    size_t number;                     /* which one it is, of all that were ever sent out */
    double arrival;                    /* virtual clock */
    size_t place;                      /* in the queue */
    fli_sent_model *from;
    int worked;
    int taken; /* real clock: a thread sees to it; elsewhere: it was sent */
} fli_flight;

struct fli_async {
    fl_ctx *ctx;
    fli_async_spec spec;
    fli_space space;
    const fli_algo *algo;
    fli_flight *flights; /* at_work of them */
    fli_flight *oldest, *newest;
    size_t version;      /* server steps done */
    size_t sent;         /* turns ever begun */
    size_t held;         /* uploads absorbed since the last server step */
    unsigned char *busy; /* a bit per client */
    uint64_t *answered;  /* with `save`, per client: saves there had been when its last answer came, and one; 0: none */
    uint64_t saves;
    fli_sent_model *copies; /* all, for freeing: at most one per flight and the newest */
    size_t copy_count;
    fli_sent_model *spare, *current;
    size_t vectors, numbers, bytes; /* of a model that goes out; bytes: of its vectors */
    fli_async_count count;
    /* virtual clock */
    double clock;
    fli_flight **queue; /* heap: earliest arrival first */
    size_t queued;
    fli_exchange **todo;
    /* real clock */
    pthread_mutex_t lock;
    pthread_cond_t moved; /* the server, or the end of the run */
    int lockable;
    fli_latest *latest;
    size_t until;
    size_t lost;   /* elsewhere: turns in a row that have failed */
    size_t unseen; /* ranks: answers since they last looked at each other */
    double idle;   /* see fli_async_idle */
    double end;    /* of fli_clock_now() */
    const atomic_int *asked;
    fl_status status; /* what ended it, on either clock */
};

static inline int fli_async_busy(const fli_async *a, size_t client) { return a->busy[client / 8] >> client % 8 & 1; }
static inline void fli_async_flip(fli_async *a, size_t client)
{
    a->busy[client / 8] ^= (unsigned char)(1u << client % 8);
}

/* The one under way. */
static inline fli_step fli_async_step(const fli_async *a)
{
    size_t buffer = a->spec.pace.buffer;
    return (fli_step){.round = a->version, .cohort = buffer, .cohort_weight = (double)buffer / (double)a->spec.clients};
}

/* Into the queue of the virtual clock. */
void fli_async_enqueue(fli_async *a, fli_flight *f);

#endif
