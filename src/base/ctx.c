#include "base/ctx.h"

#include "base/number.h"
#include "base/os.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* ==== errors, log, allocation =============================================================================== */

enum { ERROR_MAX = 8192, LINE_MAX_LEN = 1024, ALIGN = 64 };

struct fl_ctx {
    pthread_mutex_t lock; /* guards error and log: workers may fail at the same time */
    char error[ERROR_MAX];
    fl_log_fn *log;
    void *log_arg;
    int quiet;             /* suppresses the log */
    int json;              /* tables are JSON */
    atomic_size_t fail_in; /* 0: off */
    fl_ctx *instead;       /* see fli_ctx_follow; NULL: this context */
    atomic_int stopped;    /* fl_ctx_stop was called */
    int stoppable;
    const fl_ctx *stops_with; /* see fli_ctx_stop_with; NULL: none */
};

static fl_ctx *followed(fl_ctx *ctx) { return ctx->instead ? ctx->instead : ctx; }

const char *fl_status_text(fl_status status)
{
    static const char *const text[] = {
#define TEXT(name, sentence) sentence,
        FL_STATUS_LIST(TEXT)
#undef TEXT
    };
    return (size_t)status < sizeof text / sizeof *text ? text[status] : "unknown status";
}

fl_ctx *fl_ctx_new(void)
{
    fl_ctx *ctx = calloc(1, sizeof *ctx);
    if (!ctx) return NULL;
    if (pthread_mutex_init(&ctx->lock, NULL)) {
        free(ctx);
        return NULL;
    }
    atomic_init(&ctx->fail_in, 0);
    atomic_init(&ctx->stopped, 0);
    return ctx;
}

void fl_ctx_free(fl_ctx *ctx)
{
    if (!ctx) return;
    pthread_mutex_destroy(&ctx->lock);
    free(ctx);
}

const char *fl_ctx_error(const fl_ctx *ctx) { return (ctx->instead ? ctx->instead : ctx)->error; }

void fl_ctx_format(fl_ctx *ctx, fl_format format) { ctx->json = format == FL_FORMAT_JSON; }

int fli_wants_json(const fl_ctx *ctx) { return ctx->json; }

void fl_ctx_on_log(fl_ctx *ctx, fl_log_fn *fn, void *arg)
{
    ctx->log = fn;
    ctx->log_arg = arg;
}

void fl_ctx_stop(fl_ctx *ctx) { atomic_store(&ctx->stopped, 1); }

int fli_ctx_stopped(const fl_ctx *ctx)
{
    return ctx->stoppable &&
           (atomic_load(&ctx->stopped) || (ctx->stops_with && atomic_load(&ctx->stops_with->stopped)));
}

void fli_ctx_stoppable(fl_ctx *ctx, int on) { ctx->stoppable = on; }

void fli_ctx_stop_with(fl_ctx *ctx, const fl_ctx *other) { ctx->stops_with = other; }

fl_status fli_fail(fl_ctx *ctx, fl_status status, const char *fmt, ...)
{
    va_list ap;
    ctx = followed(ctx);
    va_start(ap, fmt);
    pthread_mutex_lock(&ctx->lock);
    if (!ctx->error[0]) fli_vsnprintf(ctx->error, ERROR_MAX, fmt, ap);
    pthread_mutex_unlock(&ctx->lock);
    va_end(ap);
    return status;
}

static fl_status fail_also_list(fl_ctx *ctx, fl_status status, const char *fmt, va_list ap)
{
    ctx = followed(ctx);
    pthread_mutex_lock(&ctx->lock);
    size_t used = strlen(ctx->error);
    if (used && used + 1 < ERROR_MAX) ctx->error[used++] = '\n';
    fli_vsnprintf(ctx->error + used, ERROR_MAX - used, fmt, ap);
    pthread_mutex_unlock(&ctx->lock);
    return status;
}

fl_status fli_fail_also(fl_ctx *ctx, fl_status status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fail_also_list(ctx, status, fmt, ap);
    va_end(ap);
    return status;
}

void fli_clear(fl_ctx *ctx)
{
    ctx = followed(ctx);
    pthread_mutex_lock(&ctx->lock);
    ctx->error[0] = 0;
    pthread_mutex_unlock(&ctx->lock);
}

void fli_log(fl_ctx *ctx, fl_log_level level, const char *fmt, ...)
{
    char line[LINE_MAX_LEN];
    va_list ap;
    ctx = followed(ctx);
    if (!ctx->log || ctx->quiet) return;
    va_start(ap, fmt);
    fli_vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    pthread_mutex_lock(&ctx->lock);
    ctx->log(ctx->log_arg, level, line);
    pthread_mutex_unlock(&ctx->lock);
}

void fli_log_quiet(fl_ctx *ctx, int quiet) { ctx->quiet = quiet; }

void fli_ctx_follow(fl_ctx *ctx, fl_ctx *other) { ctx->instead = other; }

void fli_ctx_fail_alloc(fl_ctx *ctx, size_t k) { atomic_store(&ctx->fail_in, k); }

/* Whether a torture test wants this allocation to fail. */
static int wants_failure(fl_ctx *ctx)
{
    size_t left = atomic_load(&ctx->fail_in);
    while (left && !atomic_compare_exchange_weak(&ctx->fail_in, &left, left - 1)) {
    }
    return left == 1;
}

/* Whether the machine has this much memory at all. The system grants more than there is, and kills the process that
 * uses it. */
static int there_is(double bytes)
{
    enum { SMALL = 1 << 30 };
    return bytes < SMALL || bytes <= fli_limit_memory().bytes;
}

static void *allocate(fl_ctx *ctx, size_t count, size_t size, int clear)
{
    void *p = NULL;
    if (!wants_failure(ctx) && (!size || count <= (PTRDIFF_MAX - ALIGN) / size) &&
        there_is((double)count * (double)size)) {
        size_t bytes = (count * size + ALIGN - 1) / ALIGN * ALIGN;
        p = aligned_alloc(ALIGN, bytes ? bytes : ALIGN);
        if (p && clear) fli_zero_pages(p, bytes ? bytes : ALIGN);
        if (p) return p;
    }
    fli_fail(ctx, FL_ENOMEM, "out of memory: no room for %zu x %zu bytes", count, size);
    return NULL;
}

void *fli_alloc(fl_ctx *ctx, size_t count, size_t size) { return allocate(ctx, count, size, 1); }
void *fli_alloc_unset(fl_ctx *ctx, size_t count, size_t size) { return allocate(ctx, count, size, 0); }

fl_status fli_grow(fl_ctx *ctx, void **p, size_t old, size_t count, size_t size)
{
    void *q = fli_alloc(ctx, count, size);
    if (!q) return FL_ENOMEM;
    if (*p) memcpy(q, *p, (old < count ? old : count) * size);
    fli_free(*p);
    *p = q;
    return FL_OK;
}

void fli_free(void *p) { free(p); }

char *fli_strdup(fl_ctx *ctx, const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = fli_alloc(ctx, n, 1);
    return copy ? memcpy(copy, s, n) : NULL;
}

char *fli_strf(fl_ctx *ctx, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = fli_vsnprintf(NULL, 0, fmt, ap);
    va_end(ap);
    if (n < 0) {
        fli_fail(ctx, FL_ESYSTEM, "a text could not be formatted");
        return NULL;
    }
    char *s = fli_alloc(ctx, (size_t)n + 1, 1);
    if (!s) return NULL;
    va_start(ap, fmt);
    fli_vsnprintf(s, (size_t)n + 1, fmt, ap);
    va_end(ap);
    return s;
}

/* ==== versioned structs ===================================================================================== */

enum {
    SMALLEST = 2 * sizeof(size_t), /* the size and one more member */
    MOST_ADDED = 4096              /* bytes that later versions may add; a larger size means that it was not set */
};

fl_status fli_take_versioned(fl_ctx *ctx, const char *what, const void *given, size_t size, void *into,
                             size_t into_size)
{
    memset(into, 0, into_size);
    /* All of them are aligned like size_t, so a valid size is a multiple of that. */
    if (size < SMALLEST || size % sizeof(size_t) || size > into_size + MOST_ADDED)
        return fli_fail(ctx, FL_ECONFIG, "%s.size is %zu, but must be sizeof(%s), which is %zu in this version", what,
                        size, what, into_size);
    const uint8_t *bytes = given;
    for (size_t i = into_size; i < size; i++)
        if (bytes[i])
            return fli_fail(ctx, FL_ECONFIG,
                            "%s has %zu bytes, and something is set beyond the %zu that this version (%s) knows", what,
                            size, into_size, FL_VERSION);
    memcpy(into, given, size < into_size ? size : into_size);
    return FL_OK;
}
