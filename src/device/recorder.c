/* Recording operations on vectors.
 *
 * Sums over clients are most of what a server does: y += a_i x_i for a hundred i, often into two or three targets in
 * turn. An axpy therefore joins the operation that last wrote its target, if that was one of the same sum, and nothing
 * that came later has read the target or written what is to be added: then it may as well have been done there. Who
 * last read and wrote an address is in a table, so that this costs the same however many operations lie between. */
#include "device/recorder.h"

#include <string.h>

enum { NOBODY = 0 }; /* instead of the number of an operation, which count from 1 */

typedef struct {
    const void *at;
    uint32_t read, write; /* the last operation that did, of the tape that is being recorded */
    uint32_t tape;        /* the number of that tape: entries of former ones are empty */
} touch;

struct fli_recorder {
    fli_place place;
    fl_ctx *ctx;
    fli_engine *engine;
    fl_status failed; /* no memory to record in */
    fli_tape tape;
    uint32_t *owner;      /* tape.terms_room: whose the terms are; they are brought into that order at the end */
    fli_tape_term *drawn; /* the same room: terms in the order in which they came */
    touch *touched;       /* open addressing; room is a power of two, at most half of it in use */
    size_t touched_room, touched_count;
    uint32_t number;  /* of the tape */
    size_t now, next; /* lanes: of the last operation, and of the next; NO_LANE outside of them */
    char *plain;      /* for maps */
    size_t plain_room;
};

#define NO_LANE SIZE_MAX

/* ---- room ----------------------------------------------------------------------------------------------- */

static int grow(fli_recorder *r, void *p, size_t *room, size_t wanted, size_t size)
{
    void **array = p;
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

static int room_for_terms(fli_recorder *r, size_t wanted)
{
    size_t owners = r->tape.terms_room, drawn = r->tape.terms_room;
    if (wanted <= r->tape.terms_room) return 1;
    return grow(r, &r->owner, &owners, wanted, sizeof *r->owner) &&
           grow(r, &r->drawn, &drawn, wanted, sizeof *r->drawn) &&
           grow(r, &r->tape.term, &r->tape.terms_room, wanted, sizeof *r->tape.term);
}

/* ---- who touched what ----------------------------------------------------------------------------------- */

static touch *look_up(const fli_recorder *r, const void *at)
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
        if (old[i].tape == r->number) *look_up(r, old[i].at) = old[i];
    fli_free(old);
    return 1;
}

/* The entry of an address, made where there is none; valid until the next call. There is always room for some more:
 * begin_op sees to that. */
static touch *touch_of(fli_recorder *r, const void *at)
{
    touch *t = look_up(r, at);
    if (t->tape != r->number) {
        *t = (touch){.at = at, .tape = r->number};
        r->touched_count++;
    }
    return t;
}

static void note_read(fli_recorder *r, const void *at, uint32_t op)
{
    touch *t = touch_of(r, at);
    if (t->read < op) t->read = op;
}

/* ---- the tape ------------------------------------------------------------------------------------------- */

/* Terms next to those of the same sum, in the order in which they came. */
static void sort_terms(fli_recorder *r)
{
    fli_tape *t = &r->tape;
    uint32_t at = 0;
    for (size_t i = 0; i < t->count; i++) {
        if (t->op[i].kind != FLI_TAPE_SUM) continue;
        t->op[i].first = at;
        at += t->op[i].count;
        t->op[i].count = 0;
    }
    for (size_t i = 0; i < t->terms; i++) {
        fli_tape_op *o = &t->op[r->owner[i]];
        t->term[o->first + o->count++] = r->drawn[i];
    }
}

static void erase(fli_recorder *r)
{
    r->tape.count = r->tape.terms = r->tape.lanes = 0;
    r->touched_count = 0;
    r->now = NO_LANE;
    if (++r->number) return;
    memset(r->touched, 0, r->touched_room * sizeof *r->touched); /* the numbers begin anew */
    r->number = 1;
}

void fli_recorder_play(fli_recorder *r)
{
    fli_tape *t = &r->tape;
    if (!t->count) return;
    sort_terms(r);
    t->begin[t->lanes] = (uint32_t)t->count;
    if (!r->failed) r->engine->does->play(r->engine, t);
    erase(r);
}

/* The tape ready for one more operation of this kind, in the lane it belongs to. 0: it cannot be recorded. */
static int begin_op(fli_recorder *r, const fli_ops *ops, size_t n)
{
    fli_tape *t = &r->tape;
    if (r->failed || !n) return 0;
    if (t->count && (t->ops != ops || t->n != n)) fli_recorder_play(r);
    /* lanes do not see each other, but they see what was before them, and what comes behind sees them */
    if (t->count && r->now != r->next && (r->now == NO_LANE || r->next == NO_LANE || r->next < r->now))
        fli_recorder_play(r);
    if (!grow(r, &t->op, &t->room, t->count + 1, sizeof *t->op)) return 0;
    if (!grow(r, &t->begin, &t->lanes_room, t->lanes + 2, sizeof *t->begin)) return 0;
    if (2 * (r->touched_count + 3) > r->touched_room && !rehash(r)) return 0;
    if (!t->count || r->now != r->next) t->begin[t->lanes++] = (uint32_t)t->count;
    t->ops = ops;
    t->n = n;
    r->now = r->next;
    return 1;
}

/* Behind begin_op. */
static void add_op(fli_recorder *r, const fli_tape_op *op)
{
    uint32_t number = (uint32_t)r->tape.count + 1;
    r->tape.op[r->tape.count++] = *op;
    if (op->x) note_read(r, op->x, number);
    if (op->y) note_read(r, op->y, number);
    touch_of(r, op->out)->write = number;
}

static void record(fli_recorder *r, const fli_ops *ops, size_t n, const fli_tape_op *op)
{
    if (begin_op(r, ops, n)) add_op(r, op);
}

/* ---- sums ----------------------------------------------------------------------------------------------- */

static void add_term(fli_recorder *r, uint32_t number, double a, const void *x)
{
    r->drawn[r->tape.terms] = (fli_tape_term){a, x};
    r->owner[r->tape.terms++] = number - 1;
    r->tape.op[number - 1].count++;
}

/* The operation that an axpy may join; NOBODY: none. */
static uint32_t sum_to_join(fli_recorder *r, const void *x, const void *y)
{
    const touch *target = touch_of(r, y);
    uint32_t number = target->write;
    if (number == NOBODY || number <= r->tape.begin[r->tape.lanes - 1] || target->read > number) return NOBODY;
    const fli_tape_op *op = &r->tape.op[number - 1];
    if (op->kind != FLI_TAPE_AXPY && op->kind != FLI_TAPE_SUM) return NOBODY;
    return touch_of(r, x)->write < number && x != y ? number : NOBODY;
}

static void join_sum(fli_recorder *r, uint32_t number, double a, const void *x)
{
    fli_tape_op *op = &r->tape.op[number - 1];
    if (op->kind == FLI_TAPE_AXPY) {
        op->kind = FLI_TAPE_SUM;
        add_term(r, number, op->a, op->x);
        op->x = NULL;
    }
    add_term(r, number, a, x);
    note_read(r, x, number);
}

/* ---- fli_place_ops -------------------------------------------------------------------------------------- */

static fli_recorder *of(fli_place *p) { return (fli_recorder *)p; }

static void axpy(fli_place *p, const fli_ops *ops, size_t n, double a, const void *x, void *y)
{
    fli_recorder *r = of(p);
    if (!begin_op(r, ops, n) || !room_for_terms(r, r->tape.terms + 2)) return;
    uint32_t number = sum_to_join(r, x, y);
    if (number)
        join_sum(r, number, a, x);
    else
        add_op(r, &(fli_tape_op){.kind = FLI_TAPE_AXPY, .a = a, .x = x, .out = y});
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

/* What is recorded may still use it. */
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

/* Functions of one entry that only the processor here knows: all entries come here, and go back. */
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
    fli_recorder_play(r);
    return n ? r->engine->does->dot(r->engine, ops, n, x, y) : 0;
}

static void finite(fli_place *p, const fli_ops *ops, size_t n, size_t count, const void *const *x, unsigned char *out)
{
    fli_recorder *r = of(p);
    fli_recorder_play(r);
    if (count) r->engine->does->finite(r->engine, ops, n, count, x, out);
}

static void lane(fli_place *p, size_t i) { of(p)->next = i; }
static void join(fli_place *p) { of(p)->next = NO_LANE; }

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
    .lane = lane,
    .join = join,
    .status = status,
};

/* ---- life ----------------------------------------------------------------------------------------------- */

fl_status fli_recorder_new(fl_ctx *ctx, fli_engine *e, fli_recorder **out)
{
    fli_recorder *r = fli_alloc(ctx, 1, sizeof *r);
    if (!r) return FL_ENOMEM;
    *r = (fli_recorder){.place = {&place_ops}, .ctx = ctx, .engine = e, .next = NO_LANE, .touched_room = 64};
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
    fli_free(r->owner);
    fli_free(r->drawn);
    fli_free(r->touched);
    fli_free(r->plain);
    fli_free(r);
}

fli_place *fli_recorder_place(fli_recorder *r) { return &r->place; }
