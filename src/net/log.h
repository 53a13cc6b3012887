/* Log lines of a federation over a network: one line per event, of words key=value, with the time in UTC. Where they go
 * is the program's business. */
#ifndef FLI_NET_LOG_H
#define FLI_NET_LOG_H

#include <stddef.h>

typedef struct {
    void (*line)(void *arg, const char *line); /* without its line break; from any thread. NULL: nobody listens */
    void *arg;
    int quiet; /* what is routine is left out */
} fli_net_log;

/* "time=2026-01-31T12:00:00.123Z event=EVENT ..."; the rest is words key=value. */
void fli_net_say(const fli_net_log *log, const char *event, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* The same for what is routine. */
void fli_net_note(const fli_net_log *log, const char *event, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* A text from anybody as one word: in quotes, cut to n - 1 bytes, every byte that is no printable ASCII as '?', every
 * quote and backslash as a plain mark. Returns `out`. n >= 3. */
char *fli_net_quote(const char *text, char *out, size_t n);

#endif
