/* Log lines of a federation over a network: one line per event, made of words key=value, with the time in UTC. The
 * program decides where they go. */
#ifndef FLI_NET_COMMON_LOG_H
#define FLI_NET_COMMON_LOG_H

#include "net/common/audit.h"

/* Counts lines that strangers can cause, so that they cannot fill a disk. */
typedef struct fli_net_limiter fli_net_limiter;
fl_status fli_net_limiter_new(fl_ctx *ctx, fli_net_limiter **out);
void fli_net_limiter_free(fli_net_limiter *limiter); /* NULL is fine */

typedef struct {
    void (*line)(void *arg, const char *line); /* without its line break; from any thread. NULL: lines go nowhere */
    void *arg;
    int quiet;                /* routine lines are left out */
    fli_net_limiter *limiter; /* NULL: no line is left out */
    fli_audit *audit;         /* gets its events as well, routine ones included; NULL: none */
} fli_net_log;

enum { FLI_NET_STAMP = 32, FLI_NET_OFTEN = 10 };
/* The current time in UTC, as log lines have it. */
void fli_net_stamp(char text[FLI_NET_STAMP]);

/* Writes "time=2026-01-31T12:00:00.123Z event=EVENT ...", where fmt gives more words key=value. */
void fli_net_say(const fli_net_log *log, const char *event, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same for routine events. */
void fli_net_note(const fli_net_log *log, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* The same for events that others can cause at will: at most FLI_NET_OFTEN lines a minute of each event. The limiter
 * keeps the pointer `event`: pass a string literal. */
void fli_net_say_bounded(const fli_net_log *log, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
/* Writes how many lines were left out: "event=left-out of=EVENT lines=N", for events whose minute is over, or for all
 * if `now`. Call it regularly, and with `now` at the end. */
void fli_net_flush(const fli_net_log *log, int now);

/* Makes text from another machine one word: in quotes, cut to n - 1 bytes, with '?' for each byte that is not printable
 * ASCII, and ' for each quote and backslash. Returns `out`. n >= 3. */
char *fli_net_quote(const char *text, char *out, size_t n);

#endif
