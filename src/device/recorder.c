/* The place of vectors on a device: operations are recorded, and played later.
 *
 * A table has the last reader and writer on this tape for every address. It answers two questions, for any number of
 * operations in between.
 *
 * The first: must the tape be played? Lanes are played side by side. An operation that reads an address that another
 * lane has written on the same tape, or writes one that another has read or written, has to wait: the tape is played
 * first. Operations outside of lanes, such as the server's, count as a lane of their own.
 *
 * The second: may an axpy join an earlier sum? Most of a server's work is sums over clients: y += a_i x_i for a hundred
 * i, often into two or three targets in turn. An axpy joins the operation that last wrote its target, if that was an
 * axpy of the same sum, and no later operation has read the target or written the vector to be added: the result is
 * then the same. */
#include "device/device.h"

#include <string.h>

enum { NO_OP = 0 };   /* operations count from 1 */
enum { NO_LANE = 0 }; /* lane i of the caller's is i + 1 */
#define SEVERAL UINT32_MAX

typedef struct {
    const void *at;
    uint32_t tape;           /* the number of the tape that this entry is for: entries of former ones count as empty */
    uint32_t read, write;    /* the last operation that did, or NO_OP */
    uint32_t reader, writer; /* their lanes; SEVERAL: several lanes have read it */
} touch;

struct fli_recorder {
    fli_place place;
    fl_ctx *ctx;
    fli_engine *engine;
    fl_status failed; /* out of memory while recording */
    fli_tape tape;    /* what the engine gets: operations by lanes, terms by operations */
    /* in the order of recording, with the same capacity as the tape: */
    fli_tape_op *op;
    uint32_t *op_lane;
    fli_tape_term *term;
    uint32_t *owner;    /* tape.lanes_room: a lane's number of operations; while sorting, the index for its next one */
    uint32_t *lane_ops; /* tape.lanes_room: a lane's number of operations; then the index for its next one */
    touch *touched;     /* open addressing; the capacity is a power of two, at most half used */
    size_t touched_room, touched_count;
    uint32_t number;    /* of the tape */
    uint32_t lane, top; /* the current lane, and the largest on the tape */
    char *plain;        /* host memory for maps */
    size_t plain_room;
};

/* ---- room ----------------------------------------------------------------------------------------------- */

static int grow(fli_recorder *r, void *array, size_t *room, size_t wanted, size_t size)
{
    size_t more = *room ? 2 * *room : 64;
    while (more < wanted) more *= 2;
    if (wanted <= *room) return 1;
    if (fli_grow(r->ctx, array, *room, more, size)) {
        r->failed = FL_ENOMEM;
        return 0;
    }
    *room = more;
    return 1;
}

static int room_for_op(fli_recorder *r)
{
    size_t wanted = r->tape.count + 1, a = r->tape.room, b = a;
    return wanted <= r->tape.room ||
           (grow(r, &r->op, &a, wanted, sizeof *r->op) && grow(r, &r->op_lane, &b, wanted, sizeof *r->op_lane) &&
            grow(r, &r->tape.op, &r->tape.room, wanted, sizeof *r->tape.op));
}

static int room_for_terms(fli_recorder *r)
{
    size_t wanted = r->tape.terms + 2, a = r->tape.terms_room, b = a;
    return wanted <= r->tape.terms_room ||
           (grow(r, &r->owner, &a, wanted, sizeof *r->owner) && grow(r, &r->term, &b, wanted, sizeof *r->term) &&
            grow(r, &r->tape.term, &r->tape.terms_room, wanted, sizeof *r->tape.term));
}

static int room_for_lane(fli_recorder *r)
{
    size_t wanted = (size_t)r->lane + 2, a = r->tape.lanes_room;
    return wanted <= r->tape.lanes_room ||
           (grow(r, &r->lane_ops, &a, wanted, sizeof *r->lane_ops) &&
            grow(r, &r->tape.begin, &r->tape.lanes_room, wanted, sizeof *r->tape.begin));
}

/* ---- readers and writers -------------------------------------------------------------------------------- */

static touch *find_touch(const fli_recorder *r, const void *at)
{
    size_t mask = r->touched_room - 1;
    size_t i = (size_t)(((uint64_t)(uintptr_t)at >> 6) * 0x9e3779b97f4a7c15u >> 32) & mask;
    while (r->touched[i].tape == r->number && r->touched[i].at != at) i = (i + 1) & mask;
    return &r->touched[i];
}

static int rehash(fli_recorder *r)
{
    touch *old = r->touched;
    size_t room = r->touched_room;
    touch *more = fli_alloc(r->ctx, 2 * room, sizeof *more);
    if (!more) {
        r->failed = FL_ENOMEM;
        return 0;
    }
    r->touched = more;
    r->touched_room = 2 * room;
    for (size_t i = 0; i < room; i++)
        if (old[i].tape == r->number) *find_touch(r, old[i].at) = old[i];
    fli_free(old);
    return 1;
}

/* The entry of an address, made if it does not exist; NULL for NULL. Entries do not move until the next operation
 * begins, which makes room for its own. */
static touch *touch_of(fli_recorder *r, const void *at)
{
    touch *t = at ? find_touch(r, at) : NULL;
    if (t && t->tape != r->number) {
        *t = (touch){.at = at, .tape = r->number};
        r->touched_count++;
    }
    return t;
}

static void note_read(fli_recorder *r, touch *t, uint32_t op)
{
    if (!t) return;
    t->reader = t->read == NO_OP || t->reader == r->lane ? r->lane : SEVERAL;
    if (t->read < op) t->read = op;
}

static void note_write(fli_recorder *r, touch *t, uint32_t op)
{
    t->write = op;
    t->writer = r->lane;
}

/* Whether the current lane may read, or write, the address on this tape. */
static int may_read(const fli_recorder *r, const touch *t) { return !t || t->write == NO_OP || t->writer == r->lane; }
static int may_write(const fli_recorder *r, const touch *t)
{
    return may_read(r, t) && (t->read == NO_OP || t->reader == r->lane);
}

/* ---- the tape ------------------------------------------------------------------------------------------- */

/* Sorts terms by sum; within a sum they keep their order. */
static void sort_terms(fli_recorder *r)
{
    fli_tape *t = &r->tape;
    uint32_t at = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (r->op[i].kind != FLI_TAPE_SUM) continue;
        r->op[i].first = at;
        at += r->op[i].count;
        r->op[i].count = 0;
    }
    for (size_t i = 0; i < t->terms; i++) {
        fli_tape_op *o = &r->op[r->owner[i]];
        t->term[o->first + o->count++] = r->term[i];
    }
}

/* Sorts operations by lane; within a lane they keep their order. Lanes without operations are left out. */
static void sort_ops(fli_recorder *r)
{
    fli_tape *t = &r->tape;
    uint32_t at = 0;
    t->lanes = 0;
    for (size_t i = 0; i <= r->top; i++) {
        uint32_t count = r->lane_ops[i];
        if (count) t->begin[t->lanes++] = at;
        r->lane_ops[i] = at;
        at += count;
    }
    t->begin[t->lanes] = at;
    for (size_t i = 0; i < t->count; i++) t->op[r->lane_ops[r->op_lane[i]]++] = r->op[i];
}

static void erase(fli_recorder *r)
{
    r->tape.count = r->tape.terms = 0;
    r->touched_count = 0;
    if (r->lane_ops) memset(r->lane_ops, 0, ((size_t)r->top + 1) * sizeof *r->lane_ops);
    r->top = 0;
    if (++r->number) return;
    memset(r->touched, 0, r->touched_room * sizeof *r->touched); /* tape numbers start again */
    r->number = 1;
}

void fli_recorder_play(fli_recorder *r)
{
    if (!r->tape.count) return;
    sort_terms(r);
    sort_ops(r);
    if (!r->failed) r->engine->does->play(r->engine, &r->tape);
    erase(r);
}

void fli_recorder_settle(fli_recorder *r, size_t n, const void *const *v, size_t count)
{
    int touched = r->tape.count && r->tape.n != n;
    for (size_t i = 0; r->tape.count && !touched && i < count; i++)
        touched = v[i] && find_touch(r, v[i])->tape == r->number;
    if (touched) fli_recorder_play(r);
}

/* The table entries of an operation's addresses. */
typedef struct {
    touch *x, *y, *out;
} touches;

/* Prepares the tape for an operation of this kind in the current lane. Returns 0 if it cannot be recorded. */
static int begin_op(fli_recorder *r, const fli_ops *ops, size_t n, const fli_tape_op *op, touches *t)
{
    if (r->failed || !n) return 0;
    if (r->tape.count && (r->tape.ops != ops || r->tape.n != n)) fli_recorder_play(r);
    if (!room_for_op(r) || !room_for_terms(r) || !room_for_lane(r)) return 0;
    if (2 * (r->touched_count + 3) > r->touched_room && !rehash(r)) return 0;
    for (int again = 0; again < 2; again++) {
        *t = (touches){touch_of(r, op->x), touch_of(r, op->y), touch_of(r, op->out)};
        if (may_read(r, t->x) && may_read(r, t->y) && may_write(r, t->out)) break;
        fli_recorder_play(r);
    }
    r->tape.ops = ops;
    r->tape.n = n;
    return 1;
}

static void add_op(fli_recorder *r, const fli_tape_op *op, const touches *t)
{
    uint32_t number = (uint32_t)r->tape.count + 1;
    r->op_lane[r->tape.count] = r->lane;
    r->op[r->tape.count++] = *op;
    r->lane_ops[r->lane]++;
    if (r->top < r->lane) r->top = r->lane;
    note_read(r, t->x, number);
    note_read(r, t->y, number);
    note_write(r, t->out, number);
}

static void record(fli_recorder *r, const fli_ops *ops, size_t n, const fli_tape_op *op)
{
    touches t;
    if (begin_op(r, ops, n, op, &t)) add_op(r, op, &t);
}

/* ---- sums ----------------------------------------------------------------------------------------------- */

static void add_term(fli_recorder *r, uint32_t number, double a, const void *x)
{
    r->term[r->tape.terms] = (fli_tape_term){a, x};
    r->owner[r->tape.terms++] = number - 1;
    r->op[number - 1].count++;
}

/* Whether an axpy may join the operation that last wrote its target. That operation is of the same lane: otherwise the
 * tape would have been played. */
static int may_join(const fli_recorder *r, const touches *t)
{
    uint32_t number = t->out->write;
    if (number == NO_OP || t->out->read > number || t->x->write >= number) return 0;
    const fli_tape_op *op = &r->op[number - 1];
    return op->kind == FLI_TAPE_AXPY || op->kind == FLI_TAPE_SUM;
}

static void join_sum(fli_recorder *r, const fli_tape_op *axpy, const touches *t)
{
    uint32_t number = t->out->write;
    fli_tape_op *op = &r->op[number - 1];
    if (op->kind == FLI_TAPE_AXPY) {
        op->kind = FLI_TAPE_SUM;
        add_term(r, number, op->a, op->x);
        op->x = NULL;
    }
    add_term(r, number, axpy->a, axpy->x);
    note_read(r, t->x, number);
}

/* ---- fli_place_ops -------------------------------------------------------------------------------------- */

static fli_recorder *of(fli_place *p) { return (fli_recorder *)p; }

static void axpy(fli_place *p, const fli_ops *ops, size_t n, double a, const void *x, void *y)
{
    fli_recorder *r = of(p);
    const fli_tape_op op = {.kind = FLI_TAPE_AXPY, .a = a, .x = x, .out = y};
    touches t;
    if (!begin_op(r, ops, n, &op, &t)) return;
    if (may_join(r, &t))
        join_sum(r, &op, &t);
    else
        add_op(r, &op, &t);
}

static void copy(fli_place *p, const fli_ops *ops, size_t n, const void *x, void *y)
{
    if (x != y) record(of(p), ops, n, &(fli_tape_op){.kind = FLI_TAPE_COPY, .x = x, .out = y});
}

static void fill(fli_place *p, const fli_ops *ops, size_t n, double a, void *y)
{
    record(of(p), ops, n, &(fli_tape_op){.kind = FLI_TAPE_FILL, .a = a, .out = y});
}

static void lin(fli_place *p, const fli_ops *ops, size_t n, double a, const void *x, double b, const void *y, void *out)
{
    record(of(p), ops, n, &(fli_tape_op){.kind = FLI_TAPE_LIN, .a = a, .b = b, .x = x, .y = y, .out = out});
}

static void scale(fli_place *p, const fli_ops *ops, size_t n, double a, void *y)
{
    record(of(p), ops, n, &(fli_tape_op){.kind = FLI_TAPE_SCALE, .a = a, .out = y});
}

static void *place_alloc(fli_place *p, fl_ctx *ctx, size_t bytes)
{
    fli_engine *e = of(p)->engine;
    return e->does->alloc(e, ctx, bytes);
}

/* Recorded operations may still use the vector. */
static void place_release(fli_place *p, void *v)
{
    fli_recorder *r = of(p);
    if (!v) return;
    fli_recorder_play(r);
    r->engine->does->release(r->engine, v);
}

static void place_read(fli_place *p, size_t bytes, const void *v, void *here)
{
    fli_recorder *r = of(p);
    fli_recorder_play(r);
    if (bytes) r->engine->does->read(r->engine, bytes, v, here);
}

static void place_write(fli_place *p, size_t bytes, const void *here, void *v)
{
    fli_recorder *r = of(p);
    fli_recorder_play(r);
    if (bytes) r->engine->does->write(r->engine, bytes, here, v);
}

/* Elementwise host functions: copies all entries to the host, applies the function, copies them back. */
static void map(fli_place *p, const fli_ops *ops, size_t n, size_t vectors, void *const *x, fli_map_fn *fn,
                const void *arg)
{
    fli_recorder *r = of(p);
    void *plain[FLI_MAP_MOST];
    size_t bytes = n * ops->size;
    fli_recorder_play(r);
    if (r->failed || !n || !grow(r, &r->plain, &r->plain_room, vectors * bytes, 1)) return;
    for (size_t k = 0; k < vectors; k++) {
        plain[k] = r->plain + k * bytes;
        r->engine->does->read(r->engine, bytes, x[k], plain[k]);
    }
    ops->map(n, vectors, plain, fn, arg);
    for (size_t k = 0; k < vectors; k++) r->engine->does->write(r->engine, bytes, plain[k], x[k]);
}

static double dot(fli_place *p, const fli_ops *ops, size_t n, const void *x, const void *y)
{
    fli_recorder *r = of(p);
    fli_recorder_settle(r, n, (const void *const[]){x, y}, 2);
    return n ? r->engine->does->dot(r->engine, ops, n, x, y) : 0;
}

static void finite(fli_place *p, const fli_ops *ops, size_t n, size_t count, const void *const *x, unsigned char *out)
{
    fli_recorder *r = of(p);
    fli_recorder_settle(r, n, x, count);
    if (count) r->engine->does->finite(r->engine, ops, n, count, x, out);
}

static void finite_soon(fli_place *p, const fli_ops *ops, size_t n, size_t count, const void *const *x,
                        unsigned char *out)
{
    const fli_recorder *r = of(p);
    if (!r->engine->does->finite_soon) {
        finite(p, ops, n, count, x, out);
        return;
    }
    fli_recorder_settle(of(p), n, x, count);
    if (count) r->engine->does->finite_soon(r->engine, ops, n, count, x, out);
}

static void found(fli_place *p)
{
    fli_engine *e = of(p)->engine;
    if (e->does->found) e->does->found(e);
}

static void lane(fli_place *p, size_t i) { of(p)->lane = (uint32_t)i + 1; }
static void join(fli_place *p) { of(p)->lane = NO_LANE; }

static fl_status status(fli_place *p, fl_ctx *ctx)
{
    fli_recorder *r = of(p);
    fli_recorder_play(r);
    if (r->failed) return fli_fail(ctx, r->failed, "out of memory");
    return r->engine->does->status(r->engine, ctx);
}

static const fli_place_ops place_ops = {
    .alloc = place_alloc,
    .release = place_release,
    .read = place_read,
    .write = place_write,
    .copy = copy,
    .fill = fill,
    .axpy = axpy,
    .lin = lin,
    .scale = scale,
    .map = map,
    .dot = dot,
    .finite = finite,
    .finite_soon = finite_soon,
    .found = found,
    .lane = lane,
    .join = join,
    .status = status,
};

/* ---- life ----------------------------------------------------------------------------------------------- */

fl_status fli_recorder_new(fl_ctx *ctx, fli_engine *e, fli_recorder **out)
{
    fli_recorder *r = fli_alloc(ctx, 1, sizeof *r);
    if (!r) return FL_ENOMEM;
    *r = (fli_recorder){.place = {&place_ops}, .ctx = ctx, .engine = e, .lane = NO_LANE, .touched_room = 64};
    if (!(r->touched = fli_alloc(ctx, r->touched_room, sizeof *r->touched))) {
        fli_recorder_free(r);
        return FL_ENOMEM;
    }
    erase(r);
    *out = r;
    return FL_OK;
}

void fli_recorder_free(fli_recorder *r)
{
    if (!r) return;
    if (r->touched) fli_recorder_play(r);
    fli_free(r->tape.op);
    fli_free(r->tape.term);
    fli_free(r->tape.begin);
    fli_free(r->op);
    fli_free(r->op_lane);
    fli_free(r->term);
    fli_free(r->owner);
    fli_free(r->lane_ops);
    fli_free(r->touched);
    fli_free(r->plain);
    fli_free(r);
}

fli_place *fli_recorder_place(fli_recorder *r) { return &r->place; }
