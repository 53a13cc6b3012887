/* A client's connection to its server, over HTTP or HTTPS: one call, the pause before another try, and calls that are
 * tried again until they are answered. */
#ifndef FLI_NET_CLIENT_HTTP_CLIENT_H
#define FLI_NET_CLIENT_HTTP_CLIENT_H

#include "base/ctx.h"
#include "net/common/log.h"

#include <jansson.h>
#include <stdint.h>

/* ==== the pause before the next try =============================================================================== */

/* Exponential backoff with full jitter, so that a thousand clients of a server that comes back do not come back
 * together. */

typedef struct {
    uint64_t random; /* state of the generator, from the system's entropy; not 0 */
    unsigned tries;  /* in a row that failed */
    double since;    /* when the first of them was, by fli_clock_now */
} fli_http_backoff;

void fli_http_backoff_init(fli_http_backoff *b);
enum { FLI_BACKOFF_SERVER_MAX = 60 }; /* seconds that the server may ask for */
/* After a try that failed: seconds until the next, `least`, which the server has asked for, plus a random part between
 * 0 and a bound that doubles from 0.5 to 30. */
double fli_http_backoff_next(fli_http_backoff *b, double least);
/* Seconds since the first of the tries in a row that failed; 0: the last one did not fail. */
double fli_http_backoff_for(const fli_http_backoff *b);
/* It worked. */
void fli_http_backoff_reset(fli_http_backoff *b);

/* ==== one call ==================================================================================================== */

/* One connection that is kept, requests and answers of bounded size.
 *
 * Only https, or http to this machine itself where that was asked for. The server has to show a certificate of the
 * authority given, for the host of the URL; nothing is redirected, and no proxy is taken from the environment. */

typedef struct fli_http_call fli_http_call;

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
} fli_http_call_spec;

/* FL_ECONFIG with a sentence for a URL that is none of the above, */
fl_status fli_http_call_check(fl_ctx *ctx, const fli_http_call_spec *spec);
/* and so here. */
fl_status fli_http_call_new(fl_ctx *ctx, const fli_http_call_spec *spec, fli_http_call **out);
void fli_http_call_free(fli_http_call *c); /* NULL is fine */

typedef enum {
    FLI_CALL_DONE,    /* there is an answer in this protocol, whatever its code */
    FLI_CALL_AGAIN,   /* there is none, or one that says "later": another try may bring it */
    FLI_CALL_WRONG,   /* and never will: no fedloom server, no certificate to be trusted, another version */
    FLI_CALL_STOPPED, /* by `stopping` */
} fli_http_call_end;

typedef struct {
    long code;
    unsigned char *body; /* terminated, n bytes without that */
    size_t n;
    int cut;        /* it was longer than allowed: its beginning */
    unsigned retry; /* seconds after which to come again, if the server says so; 0: it does not */
} fli_http_answer;

/* GET path?wait=SECONDS, without a query if `wait` is negative; the server may take that long to begin its answer. Of
 * the answer at most `most` bytes are taken. The reply holds until the next call. */
fli_http_call_end fli_http_call_get(fli_http_call *c, const char *path, int wait, size_t most, fli_http_answer *out);
/* The answer is a small one. */
fli_http_call_end fli_http_call_post(fli_http_call *c, const char *path, const char *type, const void *body, size_t n,
                                     fli_http_answer *out);
/* Why the last call was not done, as a sentence. */
const char *fli_http_call_why(const fli_http_call *c);

/* What a reply in JSON says under a name of its top level, made printable; "" if it does not. */
void fli_http_answer_text(const fli_http_answer *r, const char *name, char *text, size_t n);
/* The same of true and false. */
int fli_http_answer_flag(const fli_http_answer *r, const char *name, int otherwise);
/* All of it, to be given back by json_decref; NULL: it is no JSON. */
json_t *fli_http_answer_json(const fli_http_answer *r);

/* ==== calls that are tried again ================================================================================== */

typedef struct {
    fl_ctx *ctx;
    fli_http_call *call;
    fli_http_backoff backoff;
    double patience; /* seconds without an answer after which to give up; 0: never */
    const fli_net_log *log;
    void (*tell)(void *arg, const char *line);
    int (*stopping)(void *arg);
    void *arg;
    int broken;    /* a call had to be tried again: the server may be another process now. For the owner to reset */
    int finishing; /* a stop waits for the call under way, for a few seconds */
    /* private */
    double told_at, stop_seen;
    double wrong_since; /* when something that may pass was wrong first; 0: nothing is */
} fli_retry;

/* What `stopping` of its call must be, with the fli_retry as argument. */
int fli_retry_stopping(void *retry);

/* What is wrong at the server and may pass (FLI_CALL_WRONG) is tried again for some minutes at most, or as long as
 * patience lasts if that is shorter.
 *
 * FL_OK: there is a reply, with code 200, 204, 400, 409, 410, 411, 413 or 422. FL_EDONE: it was stopped. FL_EIO:
 * patience is at its end. FL_EREFUSED: the server will not have us, or is none. */
fl_status fli_retry_get(fli_retry *r, const char *path, int wait, size_t most, fli_http_answer *out);
fl_status fli_retry_post(fli_retry *r, const char *path, const char *type, const void *body, size_t n,
                         fli_http_answer *out);
/* A pause, longer each time until fli_http_backoff_reset; FL_EDONE if it was stopped. */
fl_status fli_retry_pause(fli_retry *r);

#endif
