#include "net/log.h"

#include "base/number.h"

#include <string.h>
#include <time.h>

enum { LINE = 1024 };

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

static size_t stamp(char *line, size_t n)
{
    struct timespec now;
    struct tm utc;
    clock_gettime(CLOCK_REALTIME, &now);
    gmtime_r(&now.tv_sec, &utc);
    return (size_t)fli_snprintf(line, n, "time=%04d-%02d-%02dT%02d:%02d:%02d.%03dZ ", utc.tm_year + 1900,
                                utc.tm_mon + 1, utc.tm_mday, utc.tm_hour, utc.tm_min, utc.tm_sec,
                                (int)(now.tv_nsec / 1000000));
}

__attribute__((format(printf, 3, 0))) static void write_line(const fli_net_log *log, const char *event, const char *fmt,
                                                             va_list ap)
{
    char line[LINE];
    size_t n = stamp(line, sizeof line);
    n += (size_t)fli_snprintf(line + n, sizeof line - n, "event=%s%s", event, *fmt ? " " : "");
    if (n < sizeof line) fli_vsnprintf(line + n, sizeof line - n, fmt, ap);
    log->line(log->arg, line);
}

void fli_net_say(const fli_net_log *log, const char *event, const char *fmt, ...)
{
    va_list ap;
    if (!log->line) return;
    va_start(ap, fmt);
    write_line(log, event, fmt, ap);
    va_end(ap);
}

void fli_net_note(const fli_net_log *log, const char *event, const char *fmt, ...)
{
    va_list ap;
    if (!log->line || log->quiet) return;
    va_start(ap, fmt);
    write_line(log, event, fmt, ap);
    va_end(ap);
}
