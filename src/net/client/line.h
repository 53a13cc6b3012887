/* A client's line to its server: calls that are tried again until they are answered. */
#ifndef FLI_NET_CLIENT_LINE_H
#define FLI_NET_CLIENT_LINE_H

#include "net/client/backoff.h"
#include "net/client/call.h"
#include "net/common/log.h"

typedef struct {
    fl_ctx *ctx;
    fli_call *call;
    fli_backoff backoff;
    double patience; /* seconds without an answer after which to give up; 0: never */
    const fli_net_log *log;
    void (*tell)(void *arg, const char *line);
    int (*stopping)(void *arg);
    void *arg;
    int broken;    /* a call had to be tried again: the server may be another process now. For the owner to reset */
    int finishing; /* a stop waits for the call under way, for a few seconds */
    /* private */
    double told, stop_seen;
    double wrong_since; /* when something that may pass was wrong first; 0: nothing is */
} fli_line;

/* What `stopping` of its call must be, with the line as argument. */
int fli_line_stopping(void *line);

/* What is wrong at the server and may pass is tried again for as long as fli_call_passing says, or as patience lasts if
 * that is shorter.
 *
 * FL_OK: there is a reply, with code 200, 204, 400, 409, 410, 411, 413 or 422. FL_EDONE: it was stopped. FL_EIO:
 * patience is at its end. FL_EREFUSED: the server will not have us, or is none. */
fl_status fli_line_get(fli_line *l, const char *path, int wait, size_t most, fli_heard *out);
fl_status fli_line_post(fli_line *l, const char *path, const char *type, const void *body, size_t n, fli_heard *out);
/* A pause, longer each time until fli_backoff_reset; FL_EDONE if it was stopped. */
fl_status fli_line_pause(fli_line *l);

#endif
