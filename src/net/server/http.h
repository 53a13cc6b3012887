/* Requests over HTTP or HTTPS: the checks that all pages share (certificates and names, versions, bodies and their
 * bounds), slow connections, and requests that wait without a thread. pages.c makes the replies. */
#ifndef FLI_NET_SERVER_HTTP_H
#define FLI_NET_SERVER_HTTP_H

#include "base/ctx.h"
#include "net/cert/trust.h"
#include "net/common/log.h"
#include "net/common/protocol.h"
#include "net/server/roster.h"
#include "net/server/state.h"
#include "remote/incoming.h"

#include <sys/socket.h>

typedef struct fli_http fli_http;

/* ---- pages -------------------------------------------------------------------------------------------------- */

/* A complete request. */
typedef struct {
    char name[FLI_NET_NAME_MAX + 1]; /* "": unknown */
    uint32_t client;                 /* FLI_NO_CLIENT: has not joined */
    fli_instance instance;           /* which of the client's processes calls */
    char address[FLI_ADDRESS_TEXT];  /* its address */
    const unsigned char *body;
    size_t n;
    fli_incoming *upload; /* instead of `body` if there was room; a page that takes it sets it to NULL */
    double wait;          /* most seconds that it may still wait; 0: reply now */
} fli_http_request;

typedef struct {
    unsigned code;     /* 0: the request waits (fli_http_hold), and its page is called again when it is woken */
    const char *type;  /* of the body; NULL: no body */
    const void *front; /* sent before the body; NULL: nothing */
    size_t front_n;
    const void *body;
    size_t n;
    void (*release)(void *owner); /* called when the reply has been sent; NULL: nothing to free */
    void *owner;
    unsigned retry;     /* Retry-After in seconds; 0: none */
    const char *policy; /* Content-Security-Policy; NULL: none */
    const char *allow;  /* for code 405: the allowed methods; NULL: none */
} fli_reply;

/* {"error": sentence} */
fli_reply fli_reply_error(unsigned code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same with code 403. `again`: seconds for which it is worth trying again; 0: it is final. `by_clock`: because of
 * the time, which the reply then contains. */
fli_reply fli_reply_refused(const char *sentence, double again, int by_clock);
/* Takes over `text`, which malloc has made. NULL means out of memory: 503. */
fli_reply fli_reply_text(unsigned code, const char *type, char *text);
fli_reply fli_reply_json(char *text); /* code 200 */

enum {
    FLI_PAGE_JOINED = 1, /* only for clients that have joined */
    FLI_PAGE_LOOK = 2,   /* for viewers and no clients; needs neither version nor, over plain HTTP, a name */
    FLI_PAGE_BOTH = 4,   /* with FLI_PAGE_LOOK: for clients, too */
    FLI_PAGE_ACTS = 8,   /* a client takes part by it; only one process at a time may */
    FLI_PAGE_UPLOAD = 16 /* its body is an upload */
};

typedef struct {
    const char *method, *path; /* NULL ends a table */
    unsigned traits;
    size_t (*most)(void *arg); /* most bytes of the body; NULL: no body allowed */
    /* Makes the reply. May block only on short locks and the disk. */
    fli_reply (*answer)(void *arg, fli_http_request *r);
} fli_page;

/* Suspends the request. One thread then wakes it, once, with fli_http_wake; that may happen at once. */
void fli_http_hold(fli_http_request *r);
void fli_http_wake(fli_http_request *r);

/* Logs that the disk has no room for an upload. */
void fli_http_upload_failed(const fli_net_log *log, const fli_http_request *r, const char *why);

/* ---- the server ----------------------------------------------------------------------------------------------- */

typedef struct {
    const fli_page *pages;
    void *arg;                       /* argument of pages and of the functions below */
    struct sockaddr_storage address; /* port 0: any free one */
    const fli_tls_files *tls;        /* NULL: plain HTTP */
    fli_trust *trust;
    size_t clients;
    uint32_t (*find)(void *arg, const char *name);
    void (*heard)(void *arg, uint32_t client); /* called when anything of a client has arrived */
    /* Whether this process may act as the client: NULL, or the reason why not, in `sentence`; *again: for how many
     * seconds it is worth trying again. */
    const char *(*claim)(void *arg, uint32_t client, const fli_http_request *r, double *again, char *sentence,
                         size_t n);
    /* Room for an upload of n bytes; NULL: none now. */
    fli_incoming *(*upload)(void *arg, const fli_http_request *r, size_t n);
    size_t bodies;        /* most bytes of the bodies being received, uploads excluded */
    size_t slowest;       /* least bytes per second of long bodies: fli_http_due */
    unsigned per_address; /* most connections of one address; 0: no limit */
    const fli_net_log *log;
    fli_net_counters *counters;
} fli_http_spec;

/* The bytes of a body of that length that must have arrived after this many seconds; otherwise its connection is cut,
 * because a body takes room from others. None are due for 10 s, then length / 60 or `slowest` per second, whichever is
 * less: a short body may take a minute, a long one must come at `slowest`. */
double fli_http_due(size_t length, size_t slowest, double seconds);

/* Starts to serve, on its own threads. */
fl_status fli_http_new(fl_ctx *ctx, const fli_http_spec *spec, fli_http **out);
/* All waiting requests must have been woken before, and no page may hold another one. */
void fli_http_free(fli_http *h);
uint16_t fli_http_port(const fli_http *h);
unsigned fli_http_room(const fli_http *h); /* the number of connections that it accepts */

#endif
