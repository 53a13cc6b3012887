/* A federation's server over HTTPS: fl_server, whose asks and answers clients fetch and bring. */
#ifndef FLI_NET_SERVER_SERVE_H
#define FLI_NET_SERVER_SERVE_H

#include "base/ctx.h"
#include "net/common/log.h"

#include "fedloom_halves.h"

typedef struct fli_serve fli_serve;

typedef struct {
    const char *listen;   /* "HOST:PORT"; NULL: all addresses of this machine, with `insecure` 127.0.0.1; port 0: any */
    const char *certs;    /* folder of the server's certificate; NULL: none */
    int insecure;         /* plain HTTP, to be reached from this machine alone */
    const char *roster;   /* file with the clients' names; NULL: numbers in the order of joining */
    double silence;       /* seconds; 0: 60 */
    size_t bodies;        /* most bytes of bodies under way; 0: 1 GiB */
    size_t slowest;       /* bytes per second at which long bodies must arrive; 0: 64 KiB */
    unsigned per_address; /* most connections of an address; 0: any number */
    fli_net_log log;
} fli_serve_options;

/* Serves from now on, with the context that the configuration was made from; begins the run as soon as everybody has
 * joined. What is needed to go on after a restart is kept beside the configuration's `output`, and so is an audit file
 * (OUTPUT.audit.jsonl), which stays; without one nothing is.
 * FL_ECONFIG with a sentence for what cannot be served. */
fl_status fli_serve_new(fl_ctx *ctx, fl_config *cfg, const fli_serve_options *options, fli_serve **out);
/* Ends everything at once. */
void fli_serve_free(fli_serve *s);
uint16_t fli_serve_port(const fli_serve *s);
unsigned fli_serve_room(const fli_serve *s); /* for how many connections */

/* Where lines about this server go, its audit file among it. */
const fli_net_log *fli_serve_log(const fli_serve *s);

/* Waits until the run has ended, at most this long; 0: it has not. */
int fli_serve_wait(fli_serve *s, double seconds);
/* The round under way is the last one for now. */
void fli_serve_drain(fli_serve *s);
/* How it ended: FL_OK, or what failed, with a sentence in the configuration's context. *paused: a server that is
 * started again goes on. */
fl_status fli_serve_ending(fli_serve *s, int *paused);
/* The run, to be saved; NULL: there is none, or an earlier server has saved it. */
fl_run *fli_serve_run(fli_serve *s);
/* After the result was saved, or where there is none: clients are told that it is over, whenever they ask. */
void fli_serve_finish(fli_serve *s);
/* How many clients have not confirmed that they know it, and the name of the first. Waits until there are none, at most
 * this long, or until `stopping` says so; NULL: it is not stopped. */
size_t fli_serve_unacknowledged(fli_serve *s, double seconds, int (*stopping)(void *arg), void *arg,
                                const char **first);
/* Deletes the folder of this federation. A server that is started again can no longer tell clients that the run is
 * over. */
fl_status fli_serve_forget(fli_serve *s);

#endif
