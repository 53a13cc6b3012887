#include "net/common/log.h"

#include "base/os.h"
#include "base/number.h"

#include <pthread.h>
#include <string.h>
#include <time.h>

enum { LINE = 1024 }; /* bytes */

char *fli_net_quote(const char *text, char *out, size_t n)
{
    size_t k = 0;
    out[k++] = '"';
    for (; *text && k < n - 2; text++) {
        char c = *text;
        out[k++] = c == '"' || c == '\\' ? '\'' : c < ' ' || c > '~' ? '?' : c;
    }
    out[k++] = '"';
    out[k] = 0;
    return out;
}

void fli_net_stamp(char text[FLI_NET_STAMP])
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    fli_snprintf(text, FLI_NET_STAMP, "%04d-%02d-%02dT%02d:%02d:%02d.%03dZ", utc.tm_year + 1900, utc.tm_mon + 1,
                 utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec, (int)(now.tv_nsec / 1000000));
}

__attribute__((format(printf, 4, 0))) static void write_line(const fli_net_log *log, int said, const char *event,
                                                             const char *fmt, va_list ap)
{
    char line[LINE], time[FLI_NET_STAMP];
    fli_net_stamp(time);
    size_t n = (size_t)fli_snprintf(line, sizeof line, "time=%s event=%s%s", time, event, *fmt ? " " : "");
    if (n < sizeof line) fli_vsnprintf(line + n, sizeof line - n, fmt, ap);
    if (said && log->line) log->line(log->arg, line);
    if (log->audit) fli_audit_enter(log->audit, time, event, n < sizeof line ? line + n : "");
}

static int listens(const fli_net_log *log) { return log->line || log->audit; }

void fli_net_say(const fli_net_log *log, const char *event, const char *fmt, ...)
{
    va_list ap;
    if (!listens(log)) return;
    va_start(ap, fmt);
    write_line(log, 1, event, fmt, ap);
    va_end(ap);
}

void fli_net_note(const fli_net_log *log, const char *event, const char *fmt, ...)
{
    va_list ap;
    if (!listens(log)) return;
    va_start(ap, fmt);
    write_line(log, !log->quiet, event, fmt, ap);
    va_end(ap);
}

/* ---- lines that strangers cause ------------------------------------------------------------------------------ */

enum { EVENTS = 16, MINUTE = 60 };

typedef struct {
    const char *event; /* NULL: none yet */
    double begun;      /* start of the current minute */
    unsigned said;     /* lines written in it */
    uint64_t left;     /* lines left out in it */
} event_count;

struct fli_net_limiter {
    pthread_mutex_t lock; /* guards all below */
    event_count kinds[EVENTS];
};

fl_status fli_net_limiter_new(fl_ctx *ctx, fli_net_limiter **out)
{
    fli_net_limiter *l = *out = fli_alloc(ctx, 1, sizeof *l);
    if (!l) return FL_ENOMEM;
    if (!pthread_mutex_init(&l->lock, NULL)) return FL_OK;
    fli_free(l);
    *out = NULL;
    return fli_fail(ctx, FL_ESYSTEM, "a lock cannot be created");
}

void fli_net_limiter_free(fli_net_limiter *l)
{
    if (!l) return;
    pthread_mutex_destroy(&l->lock);
    fli_free(l);
}

/* Caller holds the lock. NULL: the table is full; such events are not bounded. */
static event_count *find(fli_net_limiter *l, const char *event)
{
    for (size_t i = 0; i < EVENTS; i++) {
        event_count *k = &l->kinds[i];
        if (!k->event) k->event = event;
        if (!strcmp(k->event, event)) return k;
    }
    return NULL;
}

/* Caller holds the lock. If the minute is over, or `early`, starts another one and returns how many lines were left out
 * of the old one; else 0. */
static uint64_t turn_minute(event_count *k, int early)
{
    uint64_t left = k->left;
    double now = fli_clock_now();
    if (!early && now - k->begun < MINUTE) return 0;
    k->begun = now;
    k->said = 0;
    k->left = 0;
    return left;
}

static void say_left(const fli_net_log *log, const char *event, uint64_t left)
{
    if (left) fli_net_say(log, "left-out", "of=%s lines=%llu", event, (unsigned long long)left);
}

/* Whether a line of this event may be written now. */
static int is_allowed(const fli_net_log *log, const char *event)
{
    fli_net_limiter *l = log->limiter;
    if (!l) return 1;
    pthread_mutex_lock(&l->lock);
    event_count *k = find(l, event);
    uint64_t left = k ? turn_minute(k, 0) : 0;
    int may = !k || k->said < FLI_NET_OFTEN;
    if (k && may) k->said++;
    if (k && !may) k->left++;
    pthread_mutex_unlock(&l->lock);
    say_left(log, event, left);
    return may;
}

void fli_net_say_bounded(const fli_net_log *log, const char *event, const char *fmt, ...)
{
    va_list ap;
    if (!listens(log) || !is_allowed(log, event)) return;
    va_start(ap, fmt);
    write_line(log, 1, event, fmt, ap);
    va_end(ap);
}

void fli_net_flush(const fli_net_log *log, int now)
{
    fli_net_limiter *l = log->limiter;
    for (size_t i = 0; l && listens(log) && i < EVENTS; i++) {
        event_count *k = &l->kinds[i];
        pthread_mutex_lock(&l->lock);
        const char *event = k->event;
        uint64_t left = event && k->left ? turn_minute(k, now) : 0;
        pthread_mutex_unlock(&l->lock);
        say_left(log, event, left);
    }
}
