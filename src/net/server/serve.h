/* A federation's server over HTTPS: clients fetch the asks of an fl_server, and send their answers to it. */
#ifndef FLI_NET_SERVER_SERVE_H
#define FLI_NET_SERVER_SERVE_H

#include "base/ctx.h"
#include "net/common/log.h"

#include "fedloom_halves.h"

typedef struct fli_serve fli_serve;

typedef struct {
    const char *listen;   /* "HOST:PORT"; NULL: all addresses, with `insecure` 127.0.0.1; port 0: any free one */
    const char *certs;    /* folder of the server's certificate; NULL: none */
    int insecure;         /* plain HTTP on loopback */
    const char *roster;   /* file with the clients' names; NULL: numbers in the order of joining */
    double silence;       /* seconds after which a silent client is dropped; 0: 60 */
    size_t bodies;        /* most bytes of the bodies being received; 0: 1 GiB */
    size_t slowest;       /* bytes per second at which long bodies must arrive; 0: 64 KiB */
    unsigned per_address; /* most connections of one address; 0: no limit */
    fli_net_log log;
} fli_serve_options;

/* Starts to serve, with the context of the configuration; the run begins when all clients have joined. What a restarted
 * server needs is stored beside the configuration's `output`, and so is the audit file (OUTPUT.audit.jsonl), which
 * stays. Without an `output` nothing is stored. FL_ECONFIG with a sentence for an option or a configuration that is
 * wrong. */
fl_status fli_serve_new(fl_ctx *ctx, fl_config *cfg, const fli_serve_options *options, fli_serve **out);
/* Ends everything at once; NULL is fine. */
void fli_serve_free(fli_serve *s);
uint16_t fli_serve_port(const fli_serve *s);
unsigned fli_serve_room(const fli_serve *s); /* the number of connections that it accepts */

/* The log of this server, with its audit file. */
const fli_net_log *fli_serve_log(const fli_serve *s);

/* Waits until the run has ended, at most this many seconds. Returns whether it has; it may return early. */
int fli_serve_wait(fli_serve *s, double seconds);
/* Makes the current round the last one of this process. */
void fli_serve_drain(fli_serve *s);
/* How the run ended: FL_OK, or a failure with its sentence in the configuration's context. *paused: a restarted server
 * continues it. */
fl_status fli_serve_ending(fli_serve *s, int *paused);
/* The run, whose result the caller saves; NULL: there is none, or an earlier server has saved it. */
fl_run *fli_serve_run(fli_serve *s);
/* Call when the result is saved, or there is none: clients are then told that the run is over. */
void fli_serve_finish(fli_serve *s);
/* How many clients have not confirmed that they know it; *first is the name of the first. Waits until there are none,
 * for `seconds` at most, or until `stopping` returns not 0; `stopping` may be NULL. */
size_t fli_serve_unacknowledged(fli_serve *s, double seconds, int (*stopping)(void *arg), void *arg,
                                const char **first);
/* Deletes the folder of this federation. A server that is started again can no longer tell clients that the run is
 * over. */
fl_status fli_serve_forget(fli_serve *s);

#endif
