#include "cuda/host/parcel.h"

#include <string.h>

enum { LINE = 256 };
#define FREE_SHARE 0.9 /* of the device's free memory: others may want some */

struct fli_parcel {
    char *there, *here; /* here NULL: it only counts */
    size_t sent, kept;  /* bytes so far: copied there, and room behind all of that */
    size_t all_sent;
};

static size_t line_up(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

void *fli_parcel_room(fli_parcel *p, size_t bytes)
{
    char *at = p->there + p->all_sent + p->kept;
    p->kept += line_up(bytes);
    return at;
}

void *fli_parcel_put(fli_parcel *p, const void *here, size_t bytes)
{
    char *at = p->there + p->sent;
    if (p->here && bytes) memcpy(p->here + p->sent, here, bytes);
    p->sent += line_up(bytes);
    return at;
}

/* The first time. */
static fli_parcel count(fli_parcel_fn *pack, void *arg, size_t lanes)
{
    fli_parcel p = {.there = (char *)(uintptr_t)LINE};
    pack(arg, lanes, &p);
    return p;
}

/* What may be taken for a parcel of this size. */
static double most_bytes(const fli_depot *d, double bytes, double limit)
{
    double available;
    if (bytes > (double)d->there_room && !fli_cuda_free_memory(&available)) {
        available = FREE_SHARE * available + (double)d->there_room;
        if (available < limit) limit = available;
    }
    return limit;
}

/* Counts for as many lanes as there may be. */
static fli_parcel choose_lanes(const fli_depot *d, fli_parcel_fn *pack, void *arg, double limit, size_t *lanes)
{
    for (;;) {
        fli_parcel p = count(pack, arg, *lanes);
        double bytes = (double)p.sent + (double)p.kept, most = most_bytes(d, bytes, limit);
        if (bytes <= most || *lanes == 1) return p;
        size_t fewer = (size_t)((double)*lanes * most / bytes);
        *lanes = fewer < 1 ? 1 : fewer < *lanes ? fewer : *lanes - 1;
    }
}

static fl_status grow(fl_ctx *ctx, fli_engine *e, fli_depot *d, size_t there, size_t here)
{
    if (there > d->there_room) {
        e->does->release(e, d->there);
        d->there_room = 0;
        d->there = e->does->alloc(e, ctx, there);
        if (!d->there) return FL_ENOMEM;
        d->there_room = there;
    }
    if (here > d->here_room) {
        fli_free(d->here);
        d->here_room = 0;
        d->here = fli_alloc(ctx, here, 1);
        if (!d->here) return FL_ENOMEM;
        d->here_room = here;
    }
    return FL_OK;
}

fl_status fli_depot_send(fl_ctx *ctx, fli_engine *e, fli_depot *d, fli_parcel_fn *pack, void *arg, double limit,
                         size_t *lanes)
{
    fli_parcel p = choose_lanes(d, pack, arg, limit, lanes);
    fl_status s = grow(ctx, e, d, p.sent + p.kept, p.sent);
    if (s) return s;
    p = (fli_parcel){.there = d->there, .here = d->here, .all_sent = p.sent};
    pack(arg, *lanes, &p);
    if (p.sent) e->does->write(e, p.sent, d->here, d->there);
    return e->does->status(e, ctx); /* kernels would follow addresses that never arrived */
}

void fli_depot_fini(fli_engine *e, fli_depot *d)
{
    e->does->release(e, d->there);
    fli_free(d->here);
    *d = (fli_depot){0};
}
