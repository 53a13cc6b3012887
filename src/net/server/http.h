/* Requests over HTTP or HTTPS, as far as every page needs the same: who asks, which version it speaks, bodies and their
 * bounds, connections that are too slow, and requests that wait without a thread. What is answered is the business of
 * pages.c. */
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

/* A request with all of its body. */
typedef struct {
    char name[FLI_NET_NAME_MAX + 1]; /* "": not said */
    uint32_t client;                 /* FLI_NO_CLIENT: has not joined */
    fli_instance instance;           /* which of the client's processes asks, */
    char address[FLI_ADDRESS_TEXT];  /* and from where */
    const unsigned char *body;
    size_t n;
    fli_incoming *upload; /* instead, where there was room for one; a page that keeps it sets it to NULL */
    double wait;          /* seconds that it may still wait; 0: it must be answered now */
} fli_http_request;

typedef struct {
    unsigned code;     /* 0: the request waits (fli_http_hold), and its page is asked again when it is woken */
    const char *type;  /* of the body; NULL: there is none */
    const void *front; /* what comes before the body; NULL: nothing does */
    size_t front_n;
    const void *body;
    size_t n;
    void (*release)(void *owner); /* once it is sent */
    void *owner;
    unsigned retry;     /* seconds after which the client may come again; 0: not said */
    const char *policy; /* what a browser may do with it; NULL: not said */
    const char *allow;  /* methods, where another one was called; NULL: not said */
} fli_reply;

/* {"error": sentence} */
fli_reply fli_reply_error(unsigned code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same with code 403. `again`: for how many seconds it is worth trying again; 0: it is not. `by_clock`: because
 * of the time, which it then says. */
fli_reply fli_reply_refused(const char *sentence, double again, int by_clock);
/* A text that was made by malloc, which it takes; NULL: out of memory. */
fli_reply fli_reply_text(unsigned code, const char *type, char *text);
fli_reply fli_reply_json(char *text); /* code 200 */

enum {
    FLI_PAGE_JOINED = 1, /* for clients that have joined */
    FLI_PAGE_LOOK = 2,   /* for people and programs that look on, and for nobody else: they need not say a version, nor,
                          * over plain HTTP, a name */
    FLI_PAGE_BOTH = 4,   /* and for clients, all the same */
    FLI_PAGE_ACTS = 8,   /* a client takes part by it, one process at a time */
    FLI_PAGE_UPLOAD = 16 /* its body is an upload */
};

typedef struct {
    const char *method, *path; /* NULL ends a table */
    unsigned traits;
    size_t (*most)(void *arg); /* bytes of a body; NULL: there must be none */
    /* Must not wait for anything but short locks and the disk. */
    fli_reply (*answer)(void *arg, fli_http_request *r);
} fli_page;

/* The request waits from now on. Whoever wakes it, any thread, does so once: fli_http_wake. It may be at once. */
void fli_http_hold(fli_http_request *r);
void fli_http_wake(fli_http_request *r);

/* The log's line about an upload for which the disk has no room. */
void fli_http_upload_failed(const fli_net_log *log, const fli_http_request *r, const char *why);

/* ---- the server ----------------------------------------------------------------------------------------------- */

typedef struct {
    const fli_page *pages;
    void *arg;                       /* of pages and of what follows */
    struct sockaddr_storage address; /* port 0: any */
    const fli_tls_files *tls;        /* NULL: plain HTTP */
    fli_trust *trust;
    size_t clients;
    uint32_t (*find)(void *arg, const char *name);
    void (*heard)(void *arg, uint32_t client); /* something of a client has arrived */
    /* Whether this process may act as the client: NULL, or why not, in `sentence`, and for how many seconds it is
     * worth trying again. */
    const char *(*claim)(void *arg, uint32_t client, const fli_http_request *r, double *again, char *sentence,
                         size_t n);
    /* Room for an upload of n bytes; NULL: there is none now. */
    fli_incoming *(*upload)(void *arg, const fli_http_request *r, size_t n);
    size_t bodies;        /* most bytes of bodies under way but uploads, of all clients */
    size_t slowest;       /* bytes per second of long bodies: fli_http_due */
    unsigned per_address; /* most connections of one address; 0: any number */
    const fli_net_log *log;
    fli_net_counters *counters;
} fli_http_spec;

/* How much of a body of that length must have arrived after so many seconds; if not, its connection is cut. It takes
 * room from others, and the longer it is the more: a short one may take a minute, one that is longer than `slowest` in
 * a minute must come at that rate. */
double fli_http_due(size_t length, size_t slowest, double seconds);

/* Serves from now on, on threads of its own. */
fl_status fli_http_new(fl_ctx *ctx, const fli_http_spec *spec, fli_http **out);
/* All requests that wait must have been woken, and no page may hold any more. */
void fli_http_free(fli_http *h);
uint16_t fli_http_port(const fli_http *h);
unsigned fli_http_room(const fli_http *h); /* for how many connections */

#endif
