/* Data on the device: the memory of a block of lanes with its tables, and data sets.
 *
 * Samples have the same type as on the host: bytes stay bytes, and a kernel normalises them when it reads them. Sparse
 * samples become dense with the same numbers: a scale per feature, no shift. */
#include "cuda/host/host.h"

#include <string.h>

/* ==== memory of a block of lanes ========================================================================== */

enum { LINE = 256 };
#define FREE_SHARE 0.9 /* of the device's free memory: leaves some for other programs */

struct fli_cuda_layout {
    char *there, *here; /* here NULL: only counts */
    size_t sent, kept;  /* bytes so far: copied, and reserved after the copied ones */
    size_t all_sent;
};

static size_t line_up(size_t bytes) { return (bytes + LINE - 1) / LINE * LINE; }

void *fli_cuda_layout_reserve(fli_cuda_layout *p, size_t bytes)
{
    char *at = p->there + p->all_sent + p->kept;
    p->kept += line_up(bytes);
    return at;
}

void *fli_cuda_layout_copy(fli_cuda_layout *p, const void *here, size_t bytes)
{
    char *at = p->there + p->sent;
    if (p->here && bytes) memcpy(p->here + p->sent, here, bytes);
    p->sent += line_up(bytes);
    return at;
}

/* Packs the first time, to count. */
static fli_cuda_layout count(fli_cuda_layout_fn *pack, void *arg, size_t lanes)
{
    fli_cuda_layout p = {.there = (char *)(uintptr_t)LINE};
    pack(arg, lanes, &p);
    return p;
}

/* The most bytes that may be allocated for a layout of this size. */
static double most_bytes(const fli_cuda_workspace *d, double bytes, double limit)
{
    double available;
    if (bytes > (double)d->there_room && !fli_cuda_free_memory(&available)) {
        available = FREE_SHARE * available + (double)d->there_room;
        if (available < limit) limit = available;
    }
    return limit;
}

/* Counts with fewer and fewer lanes until their layout fits. */
static fli_cuda_layout choose_lanes(const fli_cuda_workspace *d, fli_cuda_layout_fn *pack, void *arg, double limit,
                                    size_t *lanes)
{
    for (;;) {
        fli_cuda_layout p = count(pack, arg, *lanes);
        double bytes = (double)p.sent + (double)p.kept, most = most_bytes(d, bytes, limit);
        if (bytes <= most || *lanes == 1) return p;
        size_t fewer = (size_t)((double)*lanes * most / bytes);
        *lanes = fewer < 1 ? 1 : fewer < *lanes ? fewer : *lanes - 1;
    }
}

static fl_status grow(fl_ctx *ctx, fli_engine *e, fli_cuda_workspace *d, size_t there, size_t here)
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

fl_status fli_cuda_workspace_send(fl_ctx *ctx, fli_engine *e, fli_cuda_workspace *d, fli_cuda_layout_fn *pack,
                                  void *arg, double limit, size_t *lanes)
{
    fli_cuda_layout p = choose_lanes(d, pack, arg, limit, lanes);
    fl_status s = grow(ctx, e, d, p.sent + p.kept, p.sent);
    if (s) return s;
    p = (fli_cuda_layout){.there = d->there, .here = d->here, .all_sent = p.sent};
    pack(arg, *lanes, &p);
    if (p.sent) e->does->write(e, p.sent, d->here, d->there);
    return e->does->status(e, ctx); /* otherwise kernels would follow addresses that were not copied */
}

void fli_cuda_workspace_fini(fli_engine *e, fli_cuda_workspace *d)
{
    e->does->release(e, d->there);
    fli_free(d->here);
    *d = (fli_cuda_workspace){0};
}

/* ==== data sets =========================================================================================== */

struct fli_engine_data {
    fli_engine *engine;
    fli_cuda_data d;
    void *x, *label, *number, *scale, *shift; /* on the device; NULL: none */
    uint32_t *list;                           /* on the device: sample numbers */
    const uint32_t *list_here;
    size_t listed;
};

const fli_cuda_data *fli_cuda_engine_data(const fli_engine_data *d) { return &d->d; }

/* ---- sizes ----------------------------------------------------------------------------------------------- */

static size_t row_bytes(const fli_dataset *ds)
{
    return (fli_dataset_sparse(ds) ? ds->dim : fli_dataset_length(ds)) * fli_xkind_size(ds->kind);
}

static size_t scale_bytes(const fli_dataset *ds) { return ds->scale ? ds->segments * sizeof *ds->scale : 0; }

double fli_cuda_data_bytes(const fli_dataset *ds)
{
    double row = (double)row_bytes(ds) + (ds->label ? sizeof *ds->label : 0) + (ds->number ? sizeof *ds->number : 0) +
                 sizeof(uint32_t); /* in the list */
    return row * (double)ds->n + 2 * (double)scale_bytes(ds);
}

static fl_status check(fl_ctx *ctx, const fli_dataset *ds)
{
    if (!ds->dim) return fli_fail(ctx, FL_ECONFIG, "device: cuda computes with features, but these samples have none");
    if (!ds->label)
        return fli_fail(ctx, FL_ECONFIG, "device: cuda computes with classes, but these samples have other targets");
    if (row_bytes(ds) >= UINT32_MAX || (double)ds->n * (double)row_bytes(ds) >= 0x1p62)
        return fli_fail(ctx, FL_ECONFIG, "device: cuda holds rows of up to 4 GiB, but these have %zu features",
                        ds->dim);
    return FL_OK;
}

/* ---- upload ---------------------------------------------------------------------------------------------- */

static void *upload(fli_engine_data *d, fl_ctx *ctx, const void *here, size_t bytes)
{
    void *v = d->engine->does->alloc(d->engine, ctx, bytes);
    if (v && here) d->engine->does->write(d->engine, bytes, here, v);
    return v;
}

/* Rows first .. first + n - 1 of a sparse set, into zeros. */
static void spread_rows(const fli_dataset *ds, size_t first, size_t n, char *out)
{
    size_t size = fli_xkind_size(ds->kind);
    for (size_t i = 0; i < n; i++)
        for (size_t k = ds->row[first + i]; k < ds->row[first + i + 1]; k++)
            memcpy(out + (i * ds->dim + ds->col[k]) * size, (const char *)ds->x + k * size, size);
}

/* Makes a few rows at a time dense on the host. */
static fl_status upload_sparse(fli_engine_data *d, fl_ctx *ctx, const fli_dataset *ds)
{
    enum { PIECE = 1 << 22 };
    size_t row = row_bytes(ds), most = row < PIECE ? PIECE / row : 1;
    d->x = upload(d, ctx, NULL, ds->n * row);
    if (!d->x)
        return fli_fail_also(ctx, FL_ENOMEM, "sparse samples are dense there: %zu of %zu features take %.1f GiB", ds->n,
                             ds->dim, (double)ds->n * (double)row / 0x1p30);
    char *rows = fli_alloc(ctx, most, row);
    if (!rows) return FL_ENOMEM;
    for (size_t i = 0, n; i < ds->n; i += n) {
        n = ds->n - i < most ? ds->n - i : most;
        memset(rows, 0, n * row);
        spread_rows(ds, i, n, rows);
        d->engine->does->write(d->engine, n * row, rows, (char *)d->x + i * row);
    }
    fli_free(rows);
    return FL_OK;
}

static fl_status upload_all(fli_engine_data *d, fl_ctx *ctx, const fli_dataset *ds)
{
    if (fli_dataset_sparse(ds)) {
        fl_status s = upload_sparse(d, ctx, ds);
        if (s != FL_OK) return s;
    } else if (!(d->x = upload(d, ctx, ds->x, ds->n * row_bytes(ds)))) {
        return FL_ENOMEM;
    }
    if (!(d->label = upload(d, ctx, ds->label, ds->n * sizeof *ds->label))) return FL_ENOMEM;
    if (ds->number && !(d->number = upload(d, ctx, ds->number, ds->n * sizeof *ds->number))) return FL_ENOMEM;
    if (!ds->scale) return FL_OK;
    d->scale = upload(d, ctx, ds->scale, scale_bytes(ds));
    d->shift = upload(d, ctx, ds->shift, scale_bytes(ds)); /* zeros if there is none */
    return d->scale && d->shift ? FL_OK : FL_ENOMEM;
}

static void describe(fli_engine_data *d, const fli_dataset *ds)
{
    d->d = (fli_cuda_data){.x = d->x,
                           .label = d->label,
                           .n = ds->n,
                           .dim = ds->dim,
                           .length = row_bytes(ds) / fli_xkind_size(ds->kind),
                           .kind = ds->kind == FLI_X_U8                        ? 0
                                   : fli_xkind_size(ds->kind) == sizeof(float) ? 1
                                                                               : 2,
                           .segments = (uint32_t)ds->segments,
                           .each = (uint32_t)ds->each,
                           .augment = (uint32_t)ds->augment,
                           .still = ds->still,
                           .number = d->number,
                           .from = ds->from,
                           .scale = d->scale,
                           .shift = d->shift};
    for (int k = 0; k < 3; k++) d->d.shape[k] = (uint32_t)ds->shape[k];
    for (int k = 0; k < 2; k++) d->d.frame[k] = (uint32_t)ds->frame[k];
}

/* ---- slots ----------------------------------------------------------------------------------------------- */

fl_status fli_cuda_data_new(fli_engine *e, fl_ctx *ctx, const fli_dataset *ds, fli_engine_data **out)
{
    *out = NULL;
    fl_status s = check(ctx, ds);
    if (s != FL_OK) return s;
    fli_engine_data *d = fli_alloc(ctx, 1, sizeof *d);
    if (!d) return FL_ENOMEM;
    d->engine = e;
    s = upload_all(d, ctx, ds);
    if (s == FL_OK) s = e->does->status(e, ctx);
    if (s != FL_OK) {
        fli_cuda_data_free(d);
        return s;
    }
    describe(d, ds);
    *out = d;
    return FL_OK;
}

fl_status fli_cuda_data_list(fli_engine_data *d, fl_ctx *ctx, const uint32_t *samples, size_t n)
{
    d->engine->does->release(d->engine, d->list);
    d->list = n ? upload(d, ctx, samples, n * sizeof *samples) : NULL;
    d->list_here = samples;
    d->listed = d->list ? n : 0;
    return d->listed == n ? FL_OK : FL_ENOMEM;
}

const uint32_t *fli_cuda_engine_list(const fli_engine_data *d, const uint32_t *samples, size_t n)
{
    uintptr_t at = (uintptr_t)samples, from = (uintptr_t)d->list_here;
    if (at < from || at - from > d->listed * sizeof *samples) return NULL;
    size_t first = (at - from) / sizeof *samples;
    return d->listed - first >= n && n ? d->list + first : NULL;
}

void fli_cuda_data_free(fli_engine_data *d)
{
    if (!d) return;
    void *const there[] = {d->x, d->label, d->number, d->scale, d->shift, d->list};
    for (size_t k = 0; k < sizeof there / sizeof *there; k++) d->engine->does->release(d->engine, there[k]);
    fli_free(d);
}
