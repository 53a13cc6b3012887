/* The ranks look together, again and again: each says which of its turns are done, and then they come in at all of
 * them. Whoever has something to say comes at once, the others after a millisecond at the latest. */
#include "executor/influx.h"

#include "base/clock.h"
#include "base/hands.h"

#include <math.h>
#include <string.h>

enum { AT_ONCE = 8 };
static const double glance = 0.001;

/* What a rank has to say. */
typedef struct {
    uint32_t over; /* by the clock of the first rank nobody is waited for any longer */
    uint32_t count, slot[AT_ONCE];
} notice;

struct fli_influx {
    fl_ctx *ctx;
    fli_influx_spec spec;
    fli_hands *hands;
    /* turns under way, at the same places everywhere; NULL: a place is free */
    fli_exchange **slots;
    size_t room;
    notice *notices; /* of each rank, */
    size_t *where;   /* where they lie, */
    size_t *at;      /* and where its uploads do */
    unsigned char *bytes;
    size_t bytes_room;
    fli_exchange **ready; /* that have come in */
    size_t first, count;
};

/* fli_hands_fn */
static void work(void *influx, void *exchange, size_t worker)
{
    const fli_influx *f = influx;
    f->spec.work(f->spec.arg, exchange, worker);
}

fl_status fli_influx_new(fl_ctx *ctx, const fli_influx_spec *spec, fli_influx **out)
{
    size_t ranks = spec->ranks->count;
    fli_influx *f = fli_alloc(ctx, 1, sizeof *f);
    if (!f) return FL_ENOMEM;
    f->ctx = ctx;
    f->spec = *spec;
    f->notices = fli_alloc(ctx, ranks, sizeof *f->notices);
    f->where = fli_alloc(ctx, ranks + 1, sizeof *f->where);
    f->at = fli_alloc(ctx, ranks + 1, sizeof *f->at);
    f->ready = fli_alloc(ctx, ranks, AT_ONCE * sizeof *f->ready);
    fl_status s = f->notices && f->where && f->at && f->ready ? FL_OK : FL_ENOMEM;
    for (size_t i = 0; !s && i <= ranks; i++) f->where[i] = i * sizeof *f->notices;
    if (!s) s = fli_hands_new(ctx, spec->threads, work, f, &f->hands);
    if (s)
        fli_influx_free(f);
    else
        *out = f;
    return s;
}

void fli_influx_free(fli_influx *f)
{
    if (!f) return;
    fli_hands_free(f->hands);
    fli_free(f->slots);
    fli_free(f->notices);
    fli_free(f->where);
    fli_free(f->at);
    fli_free(f->bytes);
    fli_free(f->ready);
    fli_free(f);
}

void fli_influx_rest(fli_influx *f) { fli_hands_rest(f->hands); }
double fli_influx_idle(fli_influx *f) { return fli_hands_idle(f->hands); }

/* ---- out ------------------------------------------------------------------------------------------------- */

uint32_t fli_influx_lightest(const fli_influx *f)
{
    uint32_t best = 0;
    size_t least = SIZE_MAX;
    for (uint32_t r = 0; r < f->spec.ranks->count; r++) {
        size_t n = 0;
        for (size_t i = 0; i < f->room; i++) n += f->slots[i] && f->slots[i]->rank == r;
        if (n < least) best = r, least = n;
    }
    return best;
}

/* The place of an exchange; of NULL: the first that is free, or the end. */
static size_t slot_of(const fli_influx *f, const fli_exchange *x)
{
    size_t i = 0;
    while (i < f->room && f->slots[i] != x) i++;
    return i;
}

fl_status fli_influx_send(fli_influx *f, fli_exchange *x)
{
    size_t slot = slot_of(f, NULL), more = 2 * f->room + 8;
    if (slot == f->room) {
        fl_status s = fli_grow(f->ctx, (void **)&f->slots, f->room, more, sizeof *f->slots);
        if (s) return s;
        f->room = more;
    }
    f->slots[slot] = x;
    return x->rank == f->spec.ranks->rank ? fli_hands_give(f->hands, x) : FL_OK;
}

/* ---- in -------------------------------------------------------------------------------------------------- */

static size_t up_bytes(const fli_influx *f, const fli_exchange *x, fli_wire *w)
{
    fli_wire_of(f->spec.model, f->spec.classes, f->spec.algo, f->spec.params, &x->ask, w);
    return fli_wire_bytes(w->up, w->moment, f->spec.model);
}

static fl_status room_for_uploads(fli_influx *f)
{
    fli_wire w;
    size_t ranks = f->spec.ranks->count;
    f->at[0] = 0;
    for (size_t r = 0; r < ranks; r++) {
        f->at[r + 1] = f->at[r];
        for (size_t i = 0; i < f->notices[r].count; i++)
            f->at[r + 1] += FLI_OUTCOME_BYTES + up_bytes(f, f->slots[f->notices[r].slot[i]], &w);
    }
    if (f->at[ranks] <= f->bytes_room) return FL_OK;
    fl_status s = fli_grow(f->ctx, (void **)&f->bytes, 0, f->at[ranks], 1);
    f->bytes_room = s ? 0 : f->at[ranks];
    return s;
}

static unsigned char *write_upload(const fli_influx *f, const fli_exchange *x, unsigned char *out)
{
    fli_wire w;
    size_t bytes = up_bytes(f, x, &w);
    fli_outcome_write(x, out);
    if (!x->status) fli_wire_write(w.up, w.moment, f->spec.model, &x->up, out + FLI_OUTCOME_BYTES);
    return out + FLI_OUTCOME_BYTES + bytes;
}

static fl_status read_upload(const fli_influx *f, fli_exchange *x, const unsigned char *in, size_t *bytes)
{
    fli_wire w;
    *bytes = FLI_OUTCOME_BYTES + up_bytes(f, x, &w);
    x->why.text[0] = 0;
    fl_status s = fli_outcome_read(in, x);
    if (s || x->status) return s;
    return fli_wire_read(f->ctx, w.up, w.moment, f->spec.model, in + FLI_OUTCOME_BYTES, *bytes - FLI_OUTCOME_BYTES,
                         &x->up, NULL);
}

/* What a rank has said is done comes in. */
static fl_status come_in(fli_influx *f, uint32_t rank)
{
    const notice *n = &f->notices[rank];
    const unsigned char *in = f->bytes + f->at[rank];
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i < n->count; i++) {
        fli_exchange *x = f->slots[n->slot[i]];
        size_t bytes = 0;
        if (rank != f->spec.ranks->rank) s = read_upload(f, x, in, &bytes);
        in += bytes;
        if (!s && x->status) s = fli_share_sentence(f->ctx, f->spec.ranks, x);
        f->slots[n->slot[i]] = NULL;
        f->ready[f->count++] = x;
    }
    return s;
}

static void write_own(fli_influx *f)
{
    uint32_t own = f->spec.ranks->rank;
    unsigned char *out = f->bytes + f->at[own];
    for (size_t i = 0; i < f->notices[own].count; i++) out = write_upload(f, f->slots[f->notices[own].slot[i]], out);
}

static fl_status look(fli_influx *f, double until)
{
    const fl_ranks *r = f->spec.ranks;
    void *done[AT_ONCE];
    notice *own = &f->notices[r->rank];
    own->count = (uint32_t)fli_hands_take(f->hands, fmin(glance, until - fli_clock_now()), done, AT_ONCE);
    for (size_t i = 0; i < own->count; i++) own->slot[i] = (uint32_t)slot_of(f, done[i]);
    own->over = fli_clock_now() >= until;
    fl_status s = fli_ranks_gather(f->ctx, r, f->notices, f->where);
    if (!s) s = room_for_uploads(f);
    if (s || !f->at[r->count]) return s;
    write_own(f);
    s = fli_ranks_gather(f->ctx, r, f->bytes, f->at);
    f->first = f->count = 0;
    for (uint32_t i = 0; !s && i < r->count; i++) s = come_in(f, i);
    return s;
}

fl_status fli_influx_await(fli_influx *f, double seconds, fli_exchange **out)
{
    double until = fli_clock_now() + seconds;
    fl_status s = FL_OK;
    *out = NULL;
    for (int over = 0; !s && !over && f->first == f->count; over = f->notices[0].over != 0) s = look(f, until);
    if (!s && f->first < f->count) *out = f->ready[f->first++];
    return s;
}

fl_status fli_share_sentence(fl_ctx *ctx, const fl_ranks *r, fli_exchange *x)
{
    if (x->rank == r->rank && !fli_has_failed(&x->why))
        memcpy(x->why.text, fl_ctx_error(ctx), strnlen(fl_ctx_error(ctx), sizeof x->why.text - 1));
    return fli_ranks_share(ctx, r, x->rank, &x->why, sizeof x->why);
}
