/* The current ask of each client, between the run, which makes asks, and connections, which come and go. It knows no
 * HTTP: a waiting request is an opaque pointer, which goes back through `wake` when it can be answered.
 *
 * A thread takes asks from the server. An ask is kept, and handed out as often as its client fetches it, until it is
 * answered, refused, or no longer awaited. A client that has an ask and is silent for `silence` seconds is dropped from
 * the round, if the method can continue without it.
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
    const char *(*name)(void *arg, uint32_t client); /* the client's name for log lines */
    void (*wake)(void *arg, void *waiter); /* a waiting request can be answered; at most once per fli_dispatch_wait */
    /* Reports an event of a client ("dropped", "silent", "refused", "rejected" or "malformed") and its reason. May be
     * NULL. */
    void (*mishap)(void *arg, const char *what, uint32_t client, const char *why);
    void *arg;
} fli_dispatch_spec;

/* Starts the thread. Copies *spec. */
fl_status fli_dispatch_new(fl_ctx *ctx, const fli_dispatch_spec *spec, fli_dispatch **out);
/* Ends the thread, and wakes all requests; after it no request waits. */
void fli_dispatch_close(fli_dispatch *d);
void fli_dispatch_free(fli_dispatch *d); /* call fli_dispatch_close first; no other thread may use it */

/* Call when all clients have joined: the run begins, on the thread. */
void fli_dispatch_begin(fli_dispatch *d);
/* The same, and waits until the run has continued from the state of an earlier server, or has failed to: `ctx` then has
 * the sentence. */
fl_status fli_dispatch_resume(fli_dispatch *d, fl_ctx *ctx);
/* Makes the current round the last one. */
void fli_dispatch_drain(fli_dispatch *d);

/* Call when the run has ended and its result is safe: clients are then told that it is over. */
void fli_dispatch_finish(fli_dispatch *d);

fli_net_phase fli_dispatch_phase(fli_dispatch *d);
/* The status of the ended run, and the sentence of a failure; FL_OK while it runs. */
fl_status fli_dispatch_ending(fli_dispatch *d, char *sentence, size_t n);
/* Waits until the run has ended, at most this many seconds. Returns whether it has; it may return early. */
int fli_dispatch_ended(fli_dispatch *d, double seconds);
void fli_dispatch_client(fli_dispatch *d, uint32_t client, fli_net_client *out);
/* Notes that a client has confirmed that it knows that the run is over. Sending it the news is not enough: a reply may
 * be lost. */
void fli_dispatch_acknowledge(fli_dispatch *d, uint32_t client);
/* How many clients have not confirmed it; *first is the lowest of them. */
size_t fli_dispatch_unacknowledged(fli_dispatch *d, uint32_t *first);

/* ---- for connections ----------------------------------------------------------------------------------------- */

/* A posted ask, reference counted. Release it with fli_posted_ask_release, also when it is out of date. */
typedef struct {
    fli_ask_packet packet;
    uint64_t number;
    atomic_uint users;
} fli_posted_ask;
void fli_posted_ask_release(fli_posted_ask *p); /* NULL is fine */

/* The claim of a process to act as a client. The order matters: from FLI_CLAIM_LIVE on it is refused. */
typedef enum {
    FLI_CLAIM_KNOWN,      /* the process that acts already, or the first one */
    FLI_CLAIM_RESTARTED,  /* another process of the same folder: the client was restarted */
    FLI_CLAIM_REPLACED,   /* a process of another folder, and the one before is silent or has left */
    FLI_CLAIM_LIVE,       /* a process of another folder, and the one before is alive */
    FLI_CLAIM_SUPERSEDED, /* this process was replaced, and calls again */
} fli_process_claim;
/* The process that acts as the client: its address, and the seconds since it came and since it was heard. */
typedef struct {
    char address[FLI_ADDRESS_TEXT];
    double age, heard;
} fli_other_process;
enum { FLI_CLAIM_PASSES = 90 }; /* after these seconds an ended process no longer counts as alive */
fli_process_claim fli_dispatch_claim(fli_dispatch *d, uint32_t client, const fli_instance *instance,
                                     const char *address, fli_other_process *other);
/* Call when the acting process ends: any other one may then take its place at once. */
void fli_dispatch_leave(fli_dispatch *d, uint32_t client);
/* Call when anything arrives from a client. */
void fli_dispatch_heard_from(fli_dispatch *d, uint32_t client);
/* The current ask of the client, to be released; NULL: none. */
fli_posted_ask *fli_dispatch_ask(fli_dispatch *d, uint32_t client);
/* Registers `waiter`. It is woken when there is an ask for the client (with `terms`: when the run has begun), when the
 * run is over, when another request of this client waits, and after `seconds`. Returns 0 if there is news already;
 * `waiter` is then not registered. */
int fli_dispatch_wait(fli_dispatch *d, uint32_t client, int terms, double seconds, void *waiter);

/* Passes an answer to fli_server_answer. A repetition of the answer that was taken is FL_OK; a different answer to the
 * same ask is FL_EMISMATCH. */
fl_status fli_dispatch_answer(fli_dispatch *d, uint32_t client, fli_incoming **answer, char *sentence, size_t size);
/* The client refuses its ask. FL_EMISMATCH: that is not its current ask. number 0: it refuses the terms, and leaves;
 * this is only noted, and the server waits for it as for any silent client. */
fl_status fli_dispatch_refuse(fli_dispatch *d, uint32_t client, uint64_t number, const char *reason);
/* Whether the answer to that ask is still awaited; number 0: to any ask. */
int fli_dispatch_wanted(fli_dispatch *d, uint32_t client, uint64_t number);

#endif
