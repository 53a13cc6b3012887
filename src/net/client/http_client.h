/* A client's connection to its server, over HTTP or HTTPS: one call, the pause between tries, and calls that are
 * repeated until they are answered. */
#ifndef FLI_NET_CLIENT_HTTP_CLIENT_H
#define FLI_NET_CLIENT_HTTP_CLIENT_H

#include "base/ctx.h"
#include "net/common/log.h"

#include <jansson.h>
#include <stdint.h>

/* ==== the pause between tries ===================================================================================== */

/* Exponential backoff with full jitter: after a server's restart its thousand clients do not all call at once. */

typedef struct {
    uint64_t random; /* state of the generator, seeded from the system's entropy; not 0 */
    unsigned tries;  /* failed tries in a row */
    double since;    /* time of the first of them, by fli_clock_now */
} fli_http_backoff;

void fli_http_backoff_init(fli_http_backoff *b);
enum { FLI_BACKOFF_SERVER_MAX = 60 }; /* most seconds that a server may ask for */
/* Call after a failed try. Returns the seconds until the next one: `least`, which the server has asked for, plus a
 * random part between 0 and a bound that doubles from 0.5 to 30. */
double fli_http_backoff_next(fli_http_backoff *b, double least);
/* Seconds since the first of the failed tries in a row; 0: the last try did not fail. */
double fli_http_backoff_for(const fli_http_backoff *b);
/* Call after a successful try. */
void fli_http_backoff_reset(fli_http_backoff *b);

/* ==== one call ==================================================================================================== */

/* One persistent connection; requests and replies of bounded size.
 *
 * Only https, or with `plain` http to this machine. The server must show a certificate of the given authority for the
 * host of the URL. Redirections are not followed, and no proxy is taken from the environment. */

typedef struct fli_http_call fli_http_call;

typedef struct {
    const char *url;                            /* https://HOST[:PORT] */
    const char *ca_path, *cert_path, *key_path; /* PEM; for https */
    const char *name;                           /* the client's name, sent over plain http */
    int64_t begins, ends;                       /* dates of the certificate, seconds since 1970; 0: not known */
    const char *instance;                       /* FLI_NET_INSTANCE of this process; NULL: not sent */
    int plain;                                  /* allows http, to loopback only */
    const char *proxy;                          /* NULL: none */
    double connect_s, stall_s;                  /* most seconds to connect, and without a byte; 0: 20 s and 30 s */
    int (*stopping)(void *arg);                 /* called once a second; not 0 ends the call. NULL: never */
    void *arg;
} fli_http_call_spec;

/* Checks `spec`: FL_ECONFIG with a sentence if the URL is not as above. */
fl_status fli_http_call_check(fl_ctx *ctx, const fli_http_call_spec *spec);
/* Makes a connection; fails as fli_http_call_check does. */
fl_status fli_http_call_new(fl_ctx *ctx, const fli_http_call_spec *spec, fli_http_call **out);
void fli_http_call_free(fli_http_call *c); /* NULL is fine */

typedef enum {
    FLI_CALL_DONE,    /* a reply of this protocol, whatever its code */
    FLI_CALL_AGAIN,   /* no reply, or one that says "later": worth another try */
    FLI_CALL_WRONG,   /* not a fedloom server, a certificate that fails the check, another version, or refused */
    FLI_CALL_STOPPED, /* `stopping` returned not 0 */
} fli_http_call_end;

typedef struct {
    long code;
    unsigned char *body; /* n bytes, then a zero */
    size_t n;
    int cut;        /* longer than allowed: only the beginning is here */
    unsigned retry; /* seconds after which the server asks to try again; 0: it does not say */
} fli_http_answer;

/* GET path?wait=SECONDS, without a query if `wait` is negative; the server may take that long to begin its reply. Takes
 * at most `most` bytes of the body. The reply is valid until the next call. */
fli_http_call_end fli_http_call_get(fli_http_call *c, const char *path, int wait, size_t most, fli_http_answer *out);
/* POST; the reply may have at most FLI_NET_SMALL_BODY bytes. */
fli_http_call_end fli_http_call_post(fli_http_call *c, const char *path, const char *type, const void *body, size_t n,
                                     fli_http_answer *out);
/* Why the last call did not end as FLI_CALL_DONE, as a sentence. */
const char *fli_http_call_why(const fli_http_call *c);

/* Copies the text of a top-level member of a JSON reply, made printable; "" if there is none. */
void fli_http_answer_text(const fli_http_answer *r, const char *name, char *text, size_t n);
/* The value of a top-level boolean of a JSON reply; `otherwise` if there is none. */
int fli_http_answer_flag(const fli_http_answer *r, const char *name, int otherwise);
/* The reply as JSON; release it with json_decref. NULL: it is not JSON. */
json_t *fli_http_answer_json(const fli_http_answer *r);

/* ==== calls with retries ========================================================================================== */

typedef struct {
    fl_ctx *ctx;
    fli_http_call *call;
    fli_http_backoff backoff;
    double patience; /* seconds without an answer after which to give up; 0: never */
    const fli_net_log *log;
    void (*tell)(void *arg, const char *line);
    int (*stopping)(void *arg);
    void *arg;
    int broken;    /* set when a call had to be repeated: the server may be another process now. The owner resets it */
    int finishing; /* while set, a stop waits a few seconds for the call under way */
    /* private */
    double told_at, stop_seen;
    double wrong_since; /* time of the first error that may pass; 0: none now */
} fli_retry;

/* Must be `stopping` of `call`, with the fli_retry as its argument. */
int fli_retry_stopping(void *retry);

/* Call until there is a reply. An error at the server that may pass (FLI_CALL_WRONG) is tried again for at most five
 * minutes, or until the patience ends if that is earlier.
 *
 * FL_OK: there is a reply, with code 200, 204, 400, 409, 410, 411, 413 or 422. FL_EDONE: `stopping` ended it. FL_EIO:
 * the patience has ended. FL_EREFUSED: the server refuses this client, or is not a fedloom server. */
fl_status fli_retry_get(fli_retry *r, const char *path, int wait, size_t most, fli_http_answer *out);
fl_status fli_retry_post(fli_retry *r, const char *path, const char *type, const void *body, size_t n,
                         fli_http_answer *out);
/* A pause, longer each time until fli_http_backoff_reset; FL_EDONE: `stopping` ended it. */
fl_status fli_retry_pause(fli_retry *r);

#endif
