/* Calls of a client to its server: one connection that is kept, requests and answers of bounded size.
 *
 * Only https, or http to this machine itself where that was asked for. The server has to show a certificate of the
 * authority given, for the host of the URL; nothing is redirected, and no proxy is taken from the environment. */
#ifndef FLI_NET_CLIENT_CALL_H
#define FLI_NET_CLIENT_CALL_H

#include "base/ctx.h"

#include <jansson.h>

typedef struct fli_call fli_call;

typedef struct {
    const char *url;                            /* https://HOST[:PORT] */
    const char *ca_path, *cert_path, *key_path; /* PEM; for https */
    const char *name;                           /* over plain http: who speaks */
    int64_t begins, ends;                       /* of the certificate, seconds since 1970; 0: not known */
    const char *instance;                       /* which of its processes does; NULL: not said */
    int plain;                                  /* http, to loopback alone, may be */
    const char *proxy;                          /* NULL: none */
    double connect_s, stall_s;                  /* at most for a connection; without a byte. 0: 20 s and 30 s */
    int (*stopping)(void *arg);                 /* looked at once a second; NULL: never */
    void *arg;
} fli_call_spec;

/* FL_ECONFIG with a sentence for a URL that is none of the above, */
fl_status fli_call_check(fl_ctx *ctx, const fli_call_spec *spec);
/* and so here. */
fl_status fli_call_new(fl_ctx *ctx, const fli_call_spec *spec, fli_call **out);
void fli_call_free(fli_call *c); /* NULL is fine */

typedef enum {
    FLI_CALL_DONE,    /* there is an answer in this protocol, whatever its code */
    FLI_CALL_AGAIN,   /* there is none, or one that says "later": another try may bring it */
    FLI_CALL_WRONG,   /* and never will: no fedloom server, no certificate to be trusted, another version */
    FLI_CALL_STOPPED, /* by `stopping` */
} fli_call_end;

typedef struct {
    long code;
    unsigned char *body; /* terminated, n bytes without that */
    size_t n;
    int cut;        /* it was longer than allowed: its beginning */
    unsigned retry; /* seconds after which to come again, if the server says so; 0: it does not */
} fli_heard;

/* GET path?wait=SECONDS, without a query if `wait` is negative; the server may take that long to begin its answer. Of
 * the answer at most `most` bytes are taken. The reply holds until the next call. */
fli_call_end fli_call_get(fli_call *c, const char *path, int wait, size_t most, fli_heard *out);
/* The answer is a small one. */
fli_call_end fli_call_post(fli_call *c, const char *path, const char *type, const void *body, size_t n, fli_heard *out);
/* Why the last call was not done, as a sentence. */
const char *fli_call_why(const fli_call *c);
/* For how many seconds a call that ended as FLI_CALL_WRONG is worth trying again, as what is wrong may be put right
 * there: a clock, a certificate, another process of this client's that has just ended. 0: it is not. */
double fli_call_passing(const fli_call *c);

/* What a reply in JSON says under a name of its top level, made printable; "" if it does not. */
void fli_heard_text(const fli_heard *r, const char *name, char *text, size_t n);
/* The same of true and false. */
int fli_heard_flag(const fli_heard *r, const char *name, int otherwise);
/* All of it, to be given back by json_decref; NULL: it is no JSON. */
json_t *fli_heard_json(const fli_heard *r);

#endif
