/* A thread that runs while a client computes. It tells the server that the client is alive, and stops the client's work
 * when the server does not need the answer any more or the program is to end. */
#ifndef FLI_NET_CLIENT_HEARTBEAT_H
#define FLI_NET_CLIENT_HEARTBEAT_H

#include "net/client/http_client.h"

typedef struct fli_heartbeat fli_heartbeat;

typedef struct {
    double every;               /* seconds between two beats, and before the first */
    void (*stop)(void *worker); /* ends the work under way; called on the thread */
    void *worker;
} fli_heartbeat_spec;

/* Opens its own connection and context. fli_heartbeat_free ends its calls; call->stopping, the client's, ends the
 * work. */
fl_status fli_heartbeat_new(fl_ctx *ctx, const fli_http_call_spec *call, const fli_heartbeat_spec *spec,
                            fli_heartbeat **out);
void fli_heartbeat_free(fli_heartbeat *h); /* NULL is fine */

/* The client begins to work on the ask of that number. */
void fli_heartbeat_work(fli_heartbeat *h, uint64_t number);
/* The client has finished. Returns whether `stop` was called, maybe too late for this turn. */
int fli_heartbeat_rest(fli_heartbeat *h);

#endif
