/* A thread beside a client that computes: it tells the server that the client is still there, and stops the client's
 * work when the server does not need it any more or the program is to end. */
#ifndef FLI_NET_CLIENT_HEARTBEAT_H
#define FLI_NET_CLIENT_HEARTBEAT_H

#include "net/client/http_client.h"

typedef struct fli_heartbeat fli_heartbeat;

typedef struct {
    double every;               /* seconds between two beats; the first comes as late */
    void (*stop)(void *worker); /* ends the work under way; from the thread */
    void *worker;
} fli_heartbeat_spec;

/* Has a connection and a context of its own. Calls end when it does; what stops those of the client stops its work. */
fl_status fli_heartbeat_new(fl_ctx *ctx, const fli_http_call_spec *call, const fli_heartbeat_spec *spec,
                            fli_heartbeat **out);
void fli_heartbeat_free(fli_heartbeat *h); /* NULL is fine */

/* From here to fli_heartbeat_rest the client works on that ask. */
void fli_heartbeat_work(fli_heartbeat *h, uint64_t number);
/* Whether it was stopped meanwhile; that may have come too late for this piece of work. */
int fli_heartbeat_rest(fli_heartbeat *h);

#endif
