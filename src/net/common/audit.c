#include "net/common/audit.h"

#include "base/os.h"
#include "base/file.h"
#include "base/number.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

enum { LINE = 4096, TAIL = 2 + FLI_DIGEST_TEXT - 1 + 2 }; /* "HEX"} and the line break */
static const char before[] = ", \"before\": ";
static const double sync_every = 1; /* seconds: a flush per line would delay rounds that drop many clients */

/* Events of the log that say who takes part, and how the federation is served. */
static const char *const events[] = {
    "started",      "setting",  "joined",    "not-joined",    "restarted", "replaced", "duplicate",
    "refused",      "rejected", "malformed", "contradiction", "dropped",   "silent",   "revoked",
    "unauthorized", "left-out", "draining",  "paused",        "over",      "untold",
};

struct fli_audit {
    fl_ctx *ctx; /* only used while the file is opened */
    char *path;
    int fd;
    pthread_mutex_t lock; /* guards all below, and the file */
    uint64_t length;      /* bytes of the file's whole lines */
    uint64_t lost;        /* lines that could not be written */
    int torn;             /* the file has more bytes: the beginning of a line whose write failed */
    double synced;
    fli_digest last;
};

/* ---- reading ------------------------------------------------------------------------------------------------- */

/* Whether a line of n bytes, line break included, ends with the digest `last` of the line before it. */
static int follows(const char *line, size_t n, const fli_digest *last)
{
    char want[sizeof before + TAIL + 1], hex[FLI_DIGEST_TEXT];
    fli_digest_print(last, hex);
    size_t m = (size_t)fli_snprintf(want, sizeof want, "%s\"%s\"}\n", before, hex);
    return n > m && *line == '{' && !memcmp(line + n - m, want, m);
}

/* A line that does not fit into LINE bytes was not written by this code: it counts as broken. */
static void take_line(fli_audit_sums *s, const char *line, size_t n, uint64_t length, const fli_digest *digest)
{
    s->lines++;
    s->bytes += length;
    if (!s->broken && (length > n || !follows(line, n, &s->last))) s->broken = s->lines;
    s->last = *digest;
}

fl_status fli_audit_look(fl_ctx *ctx, const char *path, fli_audit_sums *out)
{
    char line[LINE];
    size_t n = 0;
    uint64_t size, length = 0;
    fli_hash h;
    FILE *f = fli_plain_open(ctx, path, &size);
    memset(out, 0, sizeof *out);
    if (!f) return FL_EIO;
    fli_hash_init(&h);
    for (int c; (c = getc(f)) != EOF;) {
        char byte = (char)c;
        fli_hash_bytes(&h, &byte, 1);
        if (n < sizeof line) line[n++] = byte;
        length++;
        if (c != '\n') continue;
        fli_digest digest = fli_hash_end(&h);
        take_line(out, line, n, length, &digest);
        n = 0;
        length = 0;
        fli_hash_init(&h);
    }
    out->half = length > 0;
    int broken = ferror(f);
    fclose(f);
    return broken ? fli_fail(ctx, FL_EIO, "%s: cannot be read", path) : FL_OK;
}

void fli_audit_wrong(const char *path, const fli_audit_sums *s, char *sentence, size_t n)
{
    if (s->broken > 1)
        fli_snprintf(sentence, n,
                     "%s:%llu: does not follow from the line before it: one of the two was changed, or lines were "
                     "removed or put in between",
                     path, (unsigned long long)s->broken);
    else
        fli_snprintf(sentence, n,
                     "%s:1: is not the first line of an audit file: lines before it were removed, or it "
                     "was changed",
                     path);
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

static int is_entered(const char *event)
{
    for (size_t i = 0; i < sizeof events / sizeof *events; i++)
        if (!strcmp(events[i], event)) return 1;
    return 0;
}

/* Appends a word key=value of the log as `, "key": value`. Returns the next word. fli_net_quote leaves no quotes within
 * quotes. */
static const char *put_word(char *out, size_t *n, size_t size, const char *word)
{
    size_t key = strcspn(word, "= "), quoted;
    const char *value = word + key + (word[key] == '=');
    value += quoted = *value == '"';
    size_t length = strcspn(value, quoted ? "\"" : " ");
    int plain =
        !quoted && length && length < 16 && strspn(value, "0123456789") >= length && (*value != '0' || length == 1);
    const char *mark = plain ? "" : "\"";
    if (*n + key + length + 16 < size) {
        *n += (size_t)fli_snprintf(out + *n, size - *n, ", \"%.*s\": %s", (int)key, word, mark);
        for (size_t i = 0; i < length; i++)
            out[(*n)++] = value[i] < ' ' || value[i] > '~' || strchr("\"\\", value[i]) ? '?' : value[i];
        *n += (size_t)fli_snprintf(out + *n, size - *n, "%s", mark);
    }
    const char *next = value + length;
    next += quoted && *next;
    return next + strspn(next, " ");
}

/* Caller holds the lock. Writes the whole line or nothing. */
static int append(fli_audit *a, const char *line, size_t n)
{
    if (a->torn && ftruncate(a->fd, (off_t)a->length)) return 0;
    a->torn = 0;
    if (pwrite(a->fd, line, n, (off_t)a->length) != (ssize_t)n) {
        a->torn = ftruncate(a->fd, (off_t)a->length) != 0;
        return 0;
    }
    fli_hash h;
    fli_hash_init(&h);
    fli_hash_bytes(&h, line, n);
    a->last = fli_hash_end(&h);
    a->length += n;
    return 1;
}

/* Caller holds the lock. */
static int enter(fli_audit *a, const char *time, const char *event, const char *words)
{
    char line[LINE], hex[FLI_DIGEST_TEXT];
    size_t room = sizeof line - sizeof before - TAIL - 1;
    size_t n = (size_t)fli_snprintf(line, room, "{\"time\": \"%s\", \"event\": \"%s\"", time, event);
    while (*words) words = put_word(line, &n, room, words);
    fli_digest_print(&a->last, hex);
    n += (size_t)fli_snprintf(line + n, sizeof line - n, "%s\"%s\"}\n", before, hex);
    return append(a, line, n);
}

void fli_audit_enter(fli_audit *a, const char *time, const char *event, const char *words)
{
    char count[40];
    if (!is_entered(event)) return;
    pthread_mutex_lock(&a->lock);
    fli_snprintf(count, sizeof count, "lines=%llu", (unsigned long long)a->lost);
    if (a->lost && enter(a, time, "lost", count)) a->lost = 0;
    if (a->lost || !enter(a, time, event, words)) a->lost++;
    double now = fli_clock_now();
    if (now >= a->synced + sync_every) {
        fdatasync(a->fd);
        a->synced = now;
    }
    pthread_mutex_unlock(&a->lock);
}

/* ---- life ---------------------------------------------------------------------------------------------------- */

static fl_status take_up(fli_audit *a)
{
    char sentence[400];
    fli_audit_sums sums;
    if (!fli_path_kind(a->path)) return FL_OK;
    fl_status s = fli_audit_look(a->ctx, a->path, &sums);
    if (s) return s;
    a->length = sums.bytes;
    a->last = sums.last;
    if (!sums.broken) return FL_OK;
    fli_audit_wrong(a->path, &sums, sentence, sizeof sentence);
    fli_log(a->ctx, FL_LOG_WARNING, "%s", sentence);
    return FL_OK;
}

fl_status fli_audit_open(fl_ctx *ctx, const char *path, fli_audit **out)
{
    fli_audit *a = *out = fli_alloc(ctx, 1, sizeof *a);
    if (!a) return FL_ENOMEM;
    a->ctx = ctx;
    a->fd = -1;
    pthread_mutex_init(&a->lock, NULL);
    fl_status s = (a->path = fli_strdup(ctx, path)) ? take_up(a) : FL_ENOMEM;
    if (!s) a->fd = fli_fd_open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    if (!s && (a->fd < 0 || ftruncate(a->fd, (off_t)a->length)))
        s = fli_fail(ctx, FL_EIO, "%s: cannot be written: %s", path, strerror(errno));
    if (!s) return FL_OK;
    fli_audit_close(a);
    *out = NULL;
    return s;
}

void fli_audit_close(fli_audit *a)
{
    if (!a) return;
    if (a->fd >= 0) {
        fdatasync(a->fd);
        close(a->fd);
    }
    pthread_mutex_destroy(&a->lock);
    fli_free(a->path);
    fli_free(a);
}
