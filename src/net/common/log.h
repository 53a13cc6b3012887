/* Log lines of a federation over a network: one line per event, of words key=value, with the time in UTC. Where they go
 * is the program's business. */
#ifndef FLI_NET_COMMON_LOG_H
#define FLI_NET_COMMON_LOG_H

#include "net/common/audit.h"

/* Counts lines that strangers can cause, so that they do not fill a disk. */
typedef struct fli_net_limiter fli_net_limiter;
fl_status fli_net_limiter_new(fl_ctx *ctx, fli_net_limiter **out);
void fli_net_limiter_free(fli_net_limiter *limiter); /* NULL is fine */

typedef struct {
    void (*line)(void *arg, const char *line); /* without its line break; from any thread. NULL: lines go nowhere */
    void *arg;
    int quiet;                /* what is routine is left out */
    fli_net_limiter *limiter; /* NULL: everything is said */
    fli_audit *audit;         /* where what concerns it is entered as well, also what is routine; NULL: nowhere */
} fli_net_log;

enum { FLI_NET_STAMP = 32, FLI_NET_OFTEN = 10 };
/* The time in UTC, as it is in the lines. */
void fli_net_stamp(char text[FLI_NET_STAMP]);

/* "time=2026-01-31T12:00:00.123Z event=EVENT ..."; the rest is words key=value. */
void fli_net_say(const fli_net_log *log, const char *event, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same for what is routine. */
void fli_net_note(const fli_net_log *log, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for what others can cause as often as they like: FLI_NET_OFTEN lines a minute of each event, a constant. */
void fli_net_say_bounded(const fli_net_log *log, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Says how many of those were left out: "event=left-out of=EVENT lines=N". To be called from time to time, when it
 * waits for a minute to be over, and at the end, with `now`. */
void fli_net_flush(const fli_net_log *log, int now);

/* A text from anybody as one word: in quotes, cut to n - 1 bytes, every byte that is no printable ASCII as '?', every
 * quote and backslash as a plain mark. Returns `out`. n >= 3. */
char *fli_net_quote(const char *text, char *out, size_t n);

#endif
