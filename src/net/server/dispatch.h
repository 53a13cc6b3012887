/* Who is asked what: between the run, which has asks, and connections of clients, which come and go. Nothing of HTTP is
 * in here: a request that waits is a pointer, which is handed back when it may be answered.
 *
 * A thread takes asks from the server. An ask is kept, and handed out as often as its client wants it, until it is
 * answered, refused, or no longer awaited. A client that has an ask and says nothing for `silence` seconds is dropped
 * from the round, if the method can do without.
 *
 * Safe from any thread. */
#ifndef FLI_NET_SERVER_DISPATCH_H
#define FLI_NET_SERVER_DISPATCH_H

#include "base/ctx.h"
#include "net/common/protocol.h"
#include "net/common/log.h"
#include "net/server/state.h"

#include "half/server.h"

#include "fedloom_halves.h"

typedef struct fli_dispatch fli_dispatch;

typedef struct {
    fl_server *server;
    size_t clients;
    double silence; /* seconds */
    const fli_net_log *log;
    fli_net_counters *counters;
    const char *(*name)(void *arg, uint32_t client); /* for the log */
    void (*wake)(void *arg, void *waiter); /* a request may be answered; called at most once per fli_dispatch_wait */
    /* Something went wrong with a client: "dropped", "silent", "refused", "rejected" or "malformed", and why. NULL:
     * nobody is told. */
    void (*mishap)(void *arg, const char *what, uint32_t client, const char *why);
    void *arg;
} fli_dispatch_spec;

/* Starts the thread. `spec` is copied. */
fl_status fli_dispatch_new(fl_ctx *ctx, const fli_dispatch_spec *spec, fli_dispatch **out);
/* Ends it, and wakes everybody; nobody waits any more from here on. */
void fli_dispatch_close(fli_dispatch *d);
void fli_dispatch_free(fli_dispatch *d); /* closed, and nobody uses it any more */

/* Everybody has joined: the run begins, on the thread. */
void fli_dispatch_begin(fli_dispatch *d);
/* The same, and waits until the run goes on from what an earlier server has left of it, or cannot: with that failure's
 * sentence in `ctx`. */
fl_status fli_dispatch_resume(fli_dispatch *d, fl_ctx *ctx);
/* The round under way is the last one. */
void fli_dispatch_drain(fli_dispatch *d);

/* The run has ended and its result is safe: clients are told that it is over. */
void fli_dispatch_finish(fli_dispatch *d);

fli_net_phase fli_dispatch_phase(fli_dispatch *d);
/* How it ended, once it has: FL_OK, or what failed, and a sentence. */
fl_status fli_dispatch_ending(fli_dispatch *d, char *sentence, size_t n);
/* Waits until it has ended, at most this long; 0: it has not. */
int fli_dispatch_ended(fli_dispatch *d, double seconds);
void fli_dispatch_client(fli_dispatch *d, uint32_t client, fli_net_client *out);
/* A client has confirmed that it knows that the run is over. Nothing else counts: what it was sent may be lost. */
void fli_dispatch_acknowledge(fli_dispatch *d, uint32_t client);
/* How many have not confirmed it, and the first of them. */
size_t fli_dispatch_unacknowledged(fli_dispatch *d, uint32_t *first);

/* ---- for connections ----------------------------------------------------------------------------------------- */

/* An ask that was sent; given back by fli_posted_ask_release, also when it is out of date. */
typedef struct {
    fli_ask_packet packet;
    uint64_t number;
    atomic_uint users;
} fli_posted_ask;
void fli_posted_ask_release(fli_posted_ask *p); /* NULL is fine */

/* Which process acts as a client. The order matters: from FLI_CLAIM_LIVE on it may not. */
typedef enum {
    FLI_CLAIM_KNOWN,      /* the one that did before, or the first */
    FLI_CLAIM_RESTARTED,  /* another one of the same folder: it was started again */
    FLI_CLAIM_REPLACED,   /* one of another folder, as nothing is heard of the one before */
    FLI_CLAIM_LIVE,       /* one of another folder, and the one before is at work */
    FLI_CLAIM_SUPERSEDED, /* it was replaced, and is still there */
} fli_process_claim;
/* The other process, and how many seconds ago it came and was heard. */
typedef struct {
    char address[FLI_ADDRESS_TEXT];
    double age, heard;
} fli_other_process;
enum { FLI_CLAIM_PASSES = 90 }; /* seconds after which a process that has ended does not count as live */
fli_process_claim fli_dispatch_claim(fli_dispatch *d, uint32_t client, const fli_instance *instance,
                                     const char *address, fli_other_process *other);
/* The process that acts as this client ends: any other one may take its place at once. */
void fli_dispatch_leave(fli_dispatch *d, uint32_t client);
/* A client is there. */
void fli_dispatch_heard_from(fli_dispatch *d, uint32_t client);
/* The ask that waits for this client; NULL: none does. */
fli_posted_ask *fli_dispatch_ask(fli_dispatch *d, uint32_t client);
/* `waiter` is woken when there is an ask for the client (or, with `terms`, when the run has begun), when it is over,
 * when another connection waits for the same client, and after this many seconds. 0: there is news already; `waiter`
 * is not woken. */
int fli_dispatch_wait(fli_dispatch *d, uint32_t client, int terms, double seconds, void *waiter);

/* As fli_server_answer; the same answer again is taken again, another one to the same ask is not: FL_EMISMATCH. */
fl_status fli_dispatch_answer(fli_dispatch *d, uint32_t client, fli_incoming **answer, char *sentence, size_t size);
/* The client will not answer that ask. FL_EMISMATCH: that is not what it was asked. 0: it will not have the terms, and
 * goes; that is noted, and it is waited for like any client that is away. */
fl_status fli_dispatch_refuse(fli_dispatch *d, uint32_t client, uint64_t number, const char *reason);
/* Whether the answer to that ask is still awaited; 0: to any. */
int fli_dispatch_wanted(fli_dispatch *d, uint32_t client, uint64_t number);

#endif
