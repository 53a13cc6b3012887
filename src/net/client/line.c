#include "net/client/line.h"

#include "base/clock.h"
#include "base/number.h"

#include <math.h>
#include <time.h>

static const double last_words = 5;   /* seconds for the call under way when the program is to end */
static const double tell_every = 60;  /* seconds between two lines about a server that is away */
static const double longest_nap = .1; /* seconds between two looks at `stopping` */

int fli_line_stopping(void *line)
{
    fli_line *l = line;
    if (!l->stopping || !l->stopping(l->arg)) return 0;
    if (l->stop_seen <= 0) l->stop_seen = fli_clock_now();
    return !l->finishing || fli_clock_now() > l->stop_seen + last_words;
}

static fl_status nap(fli_line *l, double seconds)
{
    for (double end = fli_clock_now() + seconds, left; (left = end - fli_clock_now()) > 0;) {
        if (fli_line_stopping(l)) return FL_EDONE;
        if (left > longest_nap) left = longest_nap;
        nanosleep(&(struct timespec){0, (long)(1e9 * left)}, NULL);
    }
    return fli_line_stopping(l) ? FL_EDONE : FL_OK;
}

fl_status fli_line_pause(fli_line *l) { return nap(l, fli_backoff_next(&l->backoff, 0)); }

/* The first failure in a row is said, and then one now and then. */
static void say_away(fli_line *l)
{
    char quoted[300], line[500], end[80] = "patience=none stop=\"Ctrl-C, or --patience SECONDS\"";
    double now = fli_clock_now(), waited = fli_backoff_for(&l->backoff);
    if (l->backoff.tries && now < l->told + tell_every) return;
    l->told = now;
    if (l->patience > 0) fli_snprintf(end, sizeof end, "patience=%g", l->patience);
    fli_net_say(l->log, "away", "seconds=%.0f %s why=%s", waited, end,
                fli_net_quote(fli_call_why(l->call), quoted, sizeof quoted));
    if (!l->tell) return;
    if (l->patience > 0)
        fli_snprintf(end, sizeof end, "gives up after %g s", l->patience);
    else
        fli_snprintf(end, sizeof end, "Ctrl-C ends it, --patience SECONDS sets a limit");
    fli_snprintf(line, sizeof line, "%.300s; no answer for %.0f s, trying again (%s)", fli_call_why(l->call), waited,
                 end);
    l->tell(l->arg, line);
}

/* One line says that it is tried again, and until when. */
static void say_wrong(fli_line *l, double seconds)
{
    char quoted[300], line[500], until[32];
    struct tm utc;
    time_t end = time(NULL) + (time_t)seconds;
    gmtime_r(&end, &utc);
    strftime(until, sizeof until, "%Y-%m-%dT%H:%M:%SZ", &utc);
    fli_net_say(l->log, "wrong", "until=%s why=%s", until, fli_net_quote(fli_call_why(l->call), quoted, sizeof quoted));
    fli_snprintf(line, sizeof line, "%.350s; trying again until %s", fli_call_why(l->call), until);
    if (l->tell) l->tell(l->arg, line);
}

/* The same of something that is wrong: FL_EBUSY as long as it may pass. */
static fl_status settle_wrong(fli_line *l)
{
    double seconds = fli_call_passing(l->call), now = fli_clock_now();
    if (l->patience > 0) seconds = fmin(seconds, l->patience);
    if (seconds > 0 && l->wrong_since <= 0) {
        l->wrong_since = now;
        say_wrong(l, seconds);
    }
    if (seconds <= 0 || now >= l->wrong_since + seconds)
        return fli_fail(l->ctx, FL_EREFUSED, "%s", fli_call_why(l->call));
    l->broken = 1;
    fl_status s = nap(l, fli_backoff_next(&l->backoff, 0));
    return s ? s : FL_EBUSY;
}

/* What becomes of a call that ended like this; FL_EBUSY: it is tried again. */
static fl_status settle(fli_line *l, fli_call_end end, const fli_heard *heard)
{
    switch (end) {
    case FLI_CALL_DONE:
        fli_backoff_reset(&l->backoff);
        l->wrong_since = 0;
        return FL_OK;
    case FLI_CALL_STOPPED: return FL_EDONE;
    case FLI_CALL_WRONG: return settle_wrong(l);
    case FLI_CALL_AGAIN: break;
    }
    fli_clear(l->ctx);
    l->broken = 1;
    say_away(l);
    if (l->patience > 0 && fli_backoff_for(&l->backoff) > l->patience)
        return fli_fail(l->ctx, FL_EIO, "no answer for %g seconds: %s", l->patience, fli_call_why(l->call));
    fl_status s = nap(l, fli_backoff_next(&l->backoff, heard->retry));
    return s ? s : FL_EBUSY;
}

fl_status fli_line_get(fli_line *l, const char *path, int wait, size_t most, fli_heard *out)
{
    fl_status s;
    do s = settle(l, fli_call_get(l->call, path, wait, most, out), out);
    while (s == FL_EBUSY);
    return s;
}

fl_status fli_line_post(fli_line *l, const char *path, const char *type, const void *body, size_t n, fli_heard *out)
{
    fl_status s;
    do s = settle(l, fli_call_post(l->call, path, type, body, n, out), out);
    while (s == FL_EBUSY);
    return s;
}
