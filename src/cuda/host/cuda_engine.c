/* The backend `cuda`: an open GPU, with one stream on which everything happens in order. Models and data are in net.c
 * and data.c.
 *
 * The first error that CUDA reports stays. From then on nothing is computed, results are NaN, and `status` has the
 * sentence. */
#include "base/number.h"
#include "cuda/host/host.h"
#include "cuda/host/net.h"

#include <math.h>
#include <string.h>

enum { RING = 4 << 20, LINE = 256, SHORT = 64 << 10, ERROR_ROOM = 160, OLDEST = 8 };
enum { NO_MEMORY = 2, NO_DRIVER = 35, NO_DEVICE = 100 }; /* CUDA's error numbers */

/* A ring of pinned memory, which CUDA reads while the host continues, and as much memory on the device. Both are used
 * in order; after the end the beginning is used again, once the stream has caught up. */
typedef struct {
    char *here, *there;
    size_t room, at;
} ring;

/* Pinned memory for results; kernels write to it, too. */
typedef struct {
    char *here;
    size_t room;
} pinned;

typedef struct {
    fli_engine engine;
    int which, failed;
    char sentence[ERROR_ROOM];
    fli_cuda_stream stream;
    fli_cuda_heap *heap;
    ring out;
    pinned answer, flags;
    unsigned char *finite; /* where the answers in `flags` for `asked` vectors go */
    size_t asked;
} gpu;

static gpu *of(fli_engine *e) { return (gpu *)e; }

/* ---- errors ---- */
static int ok(gpu *g, const char *doing, int code)
{
    if (!code) return 1;
    if (!g->failed) fli_snprintf(g->sentence, sizeof g->sentence, "%s: %s", doing, fli_cuda_error(code));
    g->failed = g->failed ? g->failed : code;
    return 0;
}

/* Whether the GPU still works; the calling thread uses the device from now on. */
static int ready(gpu *g) { return !g->failed && ok(g, "using the GPU", fli_cuda_use(g->which)); }

static int launched(gpu *g, const char *doing) { return ok(g, doing, fli_cuda_last()); }

static fl_status status(fli_engine *e, fl_ctx *ctx)
{
    gpu *g = of(e);
    if (ready(g)) launched(g, "kernels");
    if (!g->failed) return FL_OK;
    return fli_fail(ctx, g->failed == NO_MEMORY ? FL_ENOMEM : FL_ESYSTEM, "the GPU failed: %s", g->sentence);
}

/* ---- both ways ---- */
static size_t on_line(size_t bytes) { return (bytes + 15) / 16 * 16; }

static void ring_fini(ring *r)
{
    if (r->here) fli_cuda_unpin(r->here);
    if (r->there) fli_cuda_release(r->there);
    *r = (ring){0};
}

static int ring_init(ring *r, size_t room)
{
    void *here = NULL, *there = NULL;
    int code = fli_cuda_pinned(room, &here);
    if (!code) code = fli_cuda_alloc(room, &there);
    *r = (ring){here, there, room, 0};
    if (code) ring_fini(r);
    return code;
}

/* Reserves bytes in the ring, *here and *there; 0: the GPU has failed. */
static int reserve(gpu *g, size_t bytes, char **here, char **there)
{
    ring *r = &g->out;
    bytes = (bytes + LINE - 1) / LINE * LINE;
    if (r->at + bytes > r->room) {
        if (!ok(g, "waiting", fli_cuda_wait(g->stream))) return 0;
        r->at = 0;
    }
    if (bytes > r->room) {
        ring_fini(r);
        if (!ok(g, "memory for tapes", ring_init(r, 2 * bytes))) return 0;
    }
    *here = r->here + r->at;
    *there = r->there + r->at;
    r->at += bytes;
    return 1;
}

/* Copies from the host's ring to `to`, which is aligned to 16 bytes and has room for multiples of 16. */
static int send(gpu *g, const char *doing, void *to, const char *here, size_t bytes)
{
    if (bytes > SHORT) return ok(g, doing, fli_cuda_upload(g->stream, to, here, bytes));
    fli_cuda_copy_small(g->stream, to, here, on_line(bytes));
    return launched(g, doing);
}

/* Makes room for results of this size. */
static int need(gpu *g, pinned *p, size_t bytes)
{
    void *here = NULL;
    if (bytes <= p->room) return 1;
    if (!ok(g, "waiting", fli_cuda_wait(g->stream))) return 0;
    if (p->here) fli_cuda_unpin(p->here);
    *p = (pinned){0};
    if (!ok(g, "memory for answers", fli_cuda_pinned(bytes, &here))) return 0;
    *p = (pinned){here, bytes};
    return 1;
}

/* Waits until the kernels have written their results to pinned memory. */
static int answered(gpu *g, const char *doing) { return launched(g, doing) && ok(g, doing, fli_cuda_wait(g->stream)); }

static void gpu_write(fli_engine *e, size_t bytes, const void *from, void *v)
{
    gpu *g = of(e);
    char *here, *there;
    if (!bytes || !ready(g)) return;
    if (bytes > RING / 4) { /* large copies are CUDA's */
        ok(g, "writing", fli_cuda_upload(g->stream, v, from, bytes));
        ok(g, "writing", fli_cuda_wait(g->stream));
    } else if (reserve(g, bytes, &here, &there)) {
        memcpy(here, from, bytes);
        if (((uintptr_t)v | bytes) % 16 == 0)
            send(g, "writing", v, here, bytes);
        else
            ok(g, "writing", fli_cuda_upload(g->stream, v, here, bytes));
    }
}

static void gpu_read(fli_engine *e, size_t bytes, const void *v, void *to)
{
    gpu *g = of(e);
    int done = 0;
    if (!bytes) return;
    if (ready(g) && bytes > RING)
        done = launched(g, "reading") && ok(g, "reading", fli_cuda_download(g->stream, to, v, bytes)) &&
               ok(g, "reading", fli_cuda_wait(g->stream));
    else if (!g->failed && need(g, &g->answer, bytes) &&
             (done =
                  ok(g, "reading", fli_cuda_download(g->stream, g->answer.here, v, bytes)) && answered(g, "reading")))
        memcpy(to, g->answer.here, bytes);
    if (!done) memset(to, 0xff, bytes); /* NaN */
}

/* ---- memory ---- */
static void *take(fli_engine *e, fl_ctx *ctx, size_t bytes)
{
    gpu *g = of(e);
    void *p = NULL;
    double left = 0;
    if (!ready(g)) {
        status(e, ctx);
        return NULL;
    }
    int code = fli_cuda_heap_take(g->heap, ctx, bytes, &p);
    if (!code) return p;
    if (code != NO_MEMORY) {
        ok(g, "memory", code);
        status(e, ctx);
        return NULL;
    }
    fli_cuda_free_memory(&left);
    fli_fail(ctx, FL_ENOMEM, "the GPU has no memory left for %.0f MB, of %.0f MB that are free", (double)bytes * 1e-6,
             left * 1e-6);
    return NULL;
}

static void give(fli_engine *e, void *v) { fli_cuda_heap_give(of(e)->heap, v); }

/* ---- tapes ---- */
static void *append(char **at, const void *from, size_t bytes)
{
    void *to = *at;
    if (bytes) memcpy(to, from, bytes);
    *at += on_line(bytes);
    return to;
}

/* The addresses of all vectors, combined by "or", to see their alignment. */
static uintptr_t low_bits(const fli_tape *t)
{
    uintptr_t all = 0;
    for (size_t i = 0; i < t->count; i++)
        all |= (uintptr_t)t->op[i].x | (uintptr_t)t->op[i].y | (uintptr_t)t->op[i].out;
    for (size_t i = 0; i < t->terms; i++) all |= (uintptr_t)t->term[i].x;
    return all;
}

static uint32_t longest_sum(const fli_tape *t)
{
    uint32_t most = 0;
    for (size_t i = 0; i < t->count; i++)
        if (t->op[i].kind == FLI_TAPE_SUM && t->op[i].count > most) most = t->op[i].count;
    return most;
}

static void play(fli_engine *e, const fli_tape *t)
{
    gpu *g = of(e);
    size_t ops = t->count * sizeof *t->op, terms = t->terms * sizeof *t->term;
    size_t begin = (t->lanes + 1) * sizeof *t->begin, bytes = on_line(ops) + on_line(terms) + on_line(begin);
    char *here, *there;
    if (!t->count || !t->n || !ready(g) || !reserve(g, bytes, &here, &there)) return;
    char *at = here;
    fli_cuda_tape there_tape = {
        .n = t->n, .lanes = (uint32_t)t->lanes, .longest_sum = longest_sum(t), .aligned = low_bits(t) % 16 == 0};
    there_tape.op = (void *)(there + ((char *)append(&at, t->op, ops) - here));
    there_tape.term = (void *)(there + ((char *)append(&at, t->term, terms) - here));
    there_tape.begin = (void *)(there + ((char *)append(&at, t->begin, begin) - here));
    if (!send(g, "a tape", there, here, bytes)) return;
    fli_cuda_play(g->stream, t->ops->size == sizeof(double), &there_tape);
    launched(g, "a tape");
}

/* ---- answers ---- */
static double dot(fli_engine *e, const fli_ops *ops, size_t n, const void *x, const void *y)
{
    gpu *g = of(e);
    unsigned parts = fli_cuda_dot_parts(n);
    double sum = 0;
    if (!n) return 0;
    if (!ready(g) || !need(g, &g->answer, parts * sizeof sum)) return (double)NAN;
    fli_cuda_dot(g->stream, ops->size == sizeof(double), n, x, y, (double *)(void *)g->answer.here);
    if (!answered(g, "a scalar product")) return (double)NAN;
    for (unsigned i = 0; i < parts; i++) sum += ((double *)(void *)g->answer.here)[i];
    return sum;
}

/* Delivers the answers that were requested for later. */
static void found(fli_engine *e)
{
    enum { PARTS = FLI_CUDA_FINITE_PARTS };
    gpu *g = of(e);
    size_t count = g->asked;
    g->asked = 0;
    if (!count || !ready(g) || !answered(g, "looking for NaN")) return;
    for (size_t i = 0; i < count; i++) g->finite[i] = !memchr(g->flags.here + i * PARTS, 0, PARTS);
}

static void finite_soon(fli_engine *e, const fli_ops *ops, size_t n, size_t count, const void *const *x,
                        unsigned char *out)
{
    gpu *g = of(e);
    char *here, *there;
    size_t bytes = count * sizeof *x;
    found(e);
    memset(out, 0, count);
    if (!ready(g) || !need(g, &g->flags, count * FLI_CUDA_FINITE_PARTS) || !reserve(g, bytes, &here, &there)) return;
    memcpy(here, x, bytes);
    fli_cuda_finite(g->stream, ops->size == sizeof(double), n, (unsigned)count, (const void *const *)(void *)here,
                    (unsigned char *)g->flags.here);
    g->finite = out;
    g->asked = count;
}

static void finite_all(fli_engine *e, const fli_ops *ops, size_t n, size_t count, const void *const *x,
                       unsigned char *out)
{
    enum { MOST = 32768 }; /* per launch */
    for (size_t i = 0; i < count; i += MOST) {
        finite_soon(e, ops, n, count - i < MOST ? count - i : MOST, x + i, out + i);
        found(e);
    }
}

/* ---- devices ---- */
static size_t count(char *why, size_t room)
{
    int devices = 0, code = fli_cuda_count(&devices);
    if (code == NO_DRIVER || code == NO_DEVICE || (!code && devices <= 0))
        fli_snprintf(why, room, "there is no GPU with a driver for CUDA here (%s)", fli_cuda_error(code));
    else if (code)
        fli_snprintf(why, room, "%s", fli_cuda_error(code));
    return code || devices < 0 ? 0 : (size_t)devices;
}

/* Describes a GPU; the kernels must support its compute capability. */
static fl_status look_at(fl_ctx *ctx, size_t which, fli_engine_info *out)
{
    int major = 0, minor = 0, processors = 0, driver = 0;
    int code = fli_cuda_use((int)which);
    if (!code)
        code = fli_cuda_describe((int)which, out->name, sizeof out->name, &out->memory, &major, &minor, &processors,
                                 &driver);
    if (!code) code = fli_cuda_free_memory(&out->free);
    if (code) {
        fli_cuda_last();
        return fli_fail(ctx, FL_ESYSTEM, "GPU %zu: %s", which, fli_cuda_error(code));
    }
    fli_snprintf(out->more, sizeof out->more, "compute capability %d.%d, driver %d.%d", major, minor, driver / 1000,
                 driver % 1000 / 10);
    if (major < OLDEST)
        return fli_fail(ctx, FL_ECONFIG, "%s: compute capability %d.%d, but %d.0 or later is needed", out->name, major,
                        minor, OLDEST);
    return FL_OK;
}

static fl_status describe(fl_ctx *ctx, size_t which, fli_engine_info *out)
{
    fl_status s = look_at(ctx, which, out);
    if (s != FL_ECONFIG) return s;
    fli_clear(ctx); /* only callers that use the device need the error */
    return FL_OK;
}

static void gpu_close(fli_engine *e)
{
    gpu *g = of(e);
    if (!g) return;
    fli_cuda_use(g->which);
    if (g->stream) fli_cuda_wait(g->stream);
    fli_cuda_heap_free(g->heap);
    ring_fini(&g->out);
    if (g->answer.here) fli_cuda_unpin(g->answer.here);
    if (g->flags.here) fli_cuda_unpin(g->flags.here);
    fli_cuda_stream_free(g->stream);
    fli_cuda_last();
    fli_free(g);
}

static fl_status gpu_open(fl_ctx *ctx, size_t which, fli_engine **out)
{
    fli_engine_info info;
    fl_status s = look_at(ctx, which, &info);
    if (s) return s;
    gpu *g = fli_alloc(ctx, 1, sizeof *g);
    if (!g) return FL_ENOMEM;
    *g = (gpu){.engine = {&fli_backend_cuda}, .which = (int)which};
    if (ok(g, "a stream", fli_cuda_stream_new(&g->stream)) && ok(g, "memory for tapes", ring_init(&g->out, RING)))
        need(g, &g->answer, RING / 64);
    if (!g->failed) g->heap = fli_cuda_heap_new(ctx, g->stream);
    if (g->heap) {
        *out = &g->engine;
        return FL_OK;
    }
    s = g->failed ? status(&g->engine, ctx) : FL_ENOMEM;
    gpu_close(&g->engine);
    return s;
}

fli_cuda_stream fli_cuda_engine_stream(fli_engine *e)
{
    ready(of(e));
    return of(e)->stream;
}

const fli_backend fli_backend_cuda = {
    .name = "cuda",
    .title = "NVIDIA GPUs, by CUDA",
    .count = count,
    .describe = describe,
    .open = gpu_open,
    .close = gpu_close,
    .alloc = take,
    .release = give,
    .read = gpu_read,
    .write = gpu_write,
    .play = play,
    .dot = dot,
    .finite = finite_all,
    .finite_soon = finite_soon,
    .found = found,
    .status = status,
    .net_new = fli_cuda_net_new,
    .net_free = fli_cuda_net_free,
    .net_bytes = fli_cuda_net_bytes,
    .data_new = fli_cuda_data_new,
    .data_list = fli_cuda_data_list,
    .data_free = fli_cuda_data_free,
    .data_bytes = fli_cuda_data_bytes,
    .train = fli_cuda_train,
    .evaluate = fli_cuda_evaluate,
    .outputs = fli_cuda_outputs,
};
