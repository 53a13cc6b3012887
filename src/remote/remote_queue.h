/* An executor whose clients are elsewhere: its exchanges lie in a mailbox until somebody carries them, as packets, to
 * their clients and brings the answers back. Carriers may be any threads, and as many as one likes; answers may come in
 * any order. The run waits, in one of the functions of fli_executor_remote, until what it asked for is there or, where
 * that is allowed, until it goes on without. What a client did counts when the run has taken it: every ask says which
 * turn of its client was the last that does. */
#ifndef FLI_REMOTE_REMOTE_QUEUE_H
#define FLI_REMOTE_REMOTE_QUEUE_H

#include "executor/executor.h"
#include "remote/admission.h"

#include <pthread.h>

/* ==== mailbox =============================================================================================== */

typedef struct fli_remote_queue fli_remote_queue;

/* `cards`: what the clients said when they joined, as a digest; it is part of the run's identity. `secret`: a number
 * that clients do not know, so that neither the identity nor the numbers of asks tell them of others; 0: none. */
fl_status fli_remote_queue_new(fl_ctx *ctx, const fli_digest *cards, uint64_t secret, const fli_admission *rules,
                               fli_remote_queue **out);
void fli_remote_queue_free(fli_remote_queue *b); /* nobody may be in it any more */

/* What follows is safe from any thread; sentences go to `ctx`. */

/* What a client is told. Once the executor is open. */
fl_status fli_remote_queue_terms(fli_remote_queue *b, fl_ctx *ctx, uint32_t client, fl_bytes *out);
/* The next ask, waiting for one at most this long; out->n is 0 if there was none. FL_EDONE: the mailbox is closed. */
fl_status fli_remote_queue_next(fli_remote_queue *b, fl_ctx *ctx, double seconds, uint32_t *client, fl_bytes *out);
/* FL_EMISMATCH: nobody waits for this answer; FL_EFORMAT: it cannot be. Neither changes anything. FL_EREFUSED: it is
 * not let in, and nobody waits for it any more. */
fl_status fli_remote_queue_answer(fli_remote_queue *b, fl_ctx *ctx, uint32_t client, const void *answer, size_t n);
/* See fl_server_answer_bytes, fl_server_awaited, fl_server_drop and fl_server_refused. */
size_t fli_remote_queue_answer_bytes(const fli_remote_queue *b);
size_t fli_remote_queue_awaited(fli_remote_queue *b, uint32_t *clients, size_t most);
fl_status fli_remote_queue_drop(fli_remote_queue *b, fl_ctx *ctx, uint32_t client, const char *why);
fl_status fli_remote_queue_refused(fli_remote_queue *b, fl_ctx *ctx, uint32_t client, const char *why);
/* Says who has uploaded the longest vector to this process; 0: nobody has uploaded any. */
int fli_remote_queue_longest(fli_remote_queue *b, char *sentence, size_t n);
/* That client will not answer: its exchange, and those with it, fail with FL_EIO and this sentence. */
fl_status fli_remote_queue_lost(fli_remote_queue *b, fl_ctx *ctx, uint32_t client, const char *why);
/* Who waits in the mailbox goes away: asks that are out and all later ones fail with FL_EDONE. */
void fli_remote_queue_close(fli_remote_queue *b);

/* Its mailbox is spec->mailbox. It is in no list: no file can choose it. */
extern const fli_executor fli_executor_remote;

/* ==== mailbox inside ======================================================================================== */

/* What a mailbox is made of: for mailbox.c, where carriers come and go, and mailbox_run.c, where the run waits. */

/* Exchanges that somebody waits for together. */
typedef struct {
    const fli_filled *filled; /* NULL: nobody wants to know */
    int gathers;              /* who does not come is left out; else everybody must come */
    size_t left;              /* that are awaited */
    size_t came;              /* that are answered, and well */
    size_t held;              /* that a carrier reads or writes: until it has finished they must stay */
    int over;                 /* nobody is waited for any more */
    fl_status failed;         /* there is no use in waiting for the rest, */
    fl_failure why;           /* and the reason */
} fli_ask_batch;

typedef enum { FLI_WAITING, FLI_WRITING, FLI_OUT, FLI_READING, FLI_ANSWERED } fli_progress;

/* Why a client is left out. */
typedef enum { FLI_NOT_LEFT_OUT, FLI_LATE, FLI_NOT_NEEDED, FLI_DROPPED, FLI_DECLINED } fli_left_out;

typedef struct fli_queued_ask {
    fli_exchange *x;
    fli_ask_batch *batch;
    size_t place; /* in the batch */
    uint64_t number;
    fli_progress progress;
    fli_left_out left_out; /* then nobody waits for its answer any more */
    /* those that are sent one by one: */
    double until;    /* fli_clock_now() of its deadline */
    uint64_t order;  /* in which they were answered or dropped */
    uint64_t before; /* what counted of the client before this answer did */
    struct fli_queued_ask *next;
} fli_queued_ask;

/* The longest vector that a client has uploaded to this process. */
typedef struct {
    double norm; /* 0: none has come */
    uint64_t round;
} fli_longest;

struct fli_remote_queue {
    fl_ctx *ctx; /* of the run */
    fli_digest cards;
    uint64_t secret; /* 0: there is none */
    fli_admission rules;
    fli_clients_spec spec;
    fli_protocol protocol;
    pthread_mutex_t lock; /* guards all below, and every letter and batch */
    pthread_cond_t asked; /* there is a letter to carry, or it is closed */
    pthread_cond_t moved; /* a batch has come nearer to its end */
    fli_queued_ask *first, **end;
    fli_ask_batch loose; /* those that are sent one by one */
    uint64_t numbers;    /* given to letters */
    uint64_t orders;
    fli_longest *longest; /* of each client */
    uint64_t *taken;      /* of each client: the number of its last turn that counts; 0: none */
    int said;             /* that not everybody is measured */
    int open, closed;
};

/* Behind the lock, all of these. Whether somebody waits for its answer. */
int fli_queued_ask_awaited(const fli_queued_ask *l);

#endif
