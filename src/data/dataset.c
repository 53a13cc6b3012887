/* Data sets: memory, parts, the checks that later stages rely on, and mini-batches. */
#include "data/dataset.h"

#include "base/os.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <string.h>

size_t fli_xkind_size(fli_xkind kind)
{
    static const size_t size[] = {[FLI_X_U8] = 1,
                                  [FLI_X_F32] = sizeof(float),
                                  [FLI_X_F64] = sizeof(double),
                                  [FLI_X_CSR] = sizeof(float),
                                  [FLI_X_CSR64] = sizeof(double)};
    return size[kind];
}

fl_status fli_dataset_new(fl_ctx *ctx, fli_xkind kind, size_t n, size_t dim, size_t classes, fli_dataset **out)
{
    *out = NULL;
    double bytes = (double)n * ((double)dim * (double)fli_xkind_size(kind) + sizeof(double));
    fli_limit limit = fli_limit_memory();
    if (n >= UINT32_MAX)
        return fli_fail(ctx, FL_ENOMEM,
                        "out of memory: a data set of %zu samples is too large, they are counted in 32 bits", n);
    if (bytes > limit.bytes)
        return fli_fail(
            ctx, FL_ENOMEM,
            "out of memory: a data set of %zu samples of %zu features is too large: it takes %.1f GiB, but %s "
            "is %.1f GiB",
            n, dim, bytes / 0x1p30, limit.what, limit.bytes / 0x1p30);
    fli_dataset *ds = fli_alloc(ctx, 1, sizeof *ds);
    if (!ds) return FL_ENOMEM;
    *ds = (fli_dataset){.n = n, .dim = dim, .kind = kind, .classes = classes, .shape = {1, 1, dim}};
    ds->x = fli_alloc(ctx, n * dim, fli_xkind_size(kind));
    if (classes)
        ds->label = fli_alloc(ctx, n, sizeof *ds->label);
    else
        ds->target = fli_alloc(ctx, n, sizeof *ds->target);
    if (!ds->x || (!ds->label && !ds->target)) {
        fli_dataset_free(ds);
        return FL_ENOMEM;
    }
    *out = ds;
    return FL_OK;
}

static void free_values(fli_dataset *ds)
{
    if (ds->map.base)
        fli_mapping_close(&ds->map);
    else
        fli_free(ds->x);
    ds->x = NULL;
}

void fli_dataset_free(fli_dataset *ds)
{
    if (!ds) return;
    if (!(ds->borrows & FLI_BORROWS_SAMPLES)) {
        free_values(ds);
        fli_free(ds->row);
        fli_free(ds->col);
        fli_free(ds->target);
    }
    if (!(ds->borrows & FLI_BORROWS_LABELS)) fli_free(ds->label);
    fli_free(ds->group);
    fli_free(ds->number);
    fli_free(ds->scale);
    fli_free(ds->shift);
    fli_free(ds->origin);
    fli_free(ds->class_name);
    fli_free(ds->named_in);
    fli_free(ds);
}

fl_status fli_dataset_densify(fl_ctx *ctx, fli_dataset *ds)
{
    if (ds->dim > SIZE_MAX / sizeof(double) / ds->n)
        return fli_fail(ctx, FL_ENOMEM,
                        "out of memory: %zu samples of %zu features are too large to be dense; keep them sparse", ds->n,
                        ds->dim);
    size_t size = fli_xkind_size(ds->kind);
    char *x = fli_alloc(ctx, ds->n * ds->dim, size);
    if (!x) return FL_ENOMEM;
    for (size_t i = 0; i < ds->n; i++)
        for (size_t k = ds->row[i]; k < ds->row[i + 1]; k++)
            memcpy(x + (i * ds->dim + ds->col[k]) * size, (const char *)ds->x + k * size, size);
    fli_free(ds->x);
    fli_free(ds->row);
    fli_free(ds->col);
    ds->x = x;
    ds->row = NULL;
    ds->col = NULL;
    ds->kind = ds->kind == FLI_X_CSR64 ? FLI_X_F64 : FLI_X_F32;
    return FL_OK;
}

/* ---- parts of a set -------------------------------------------------------------------------------------- */

/* A new array with the elements which[0 .. n-1] of `array`, `size` bytes each. */
static void *picked(fl_ctx *ctx, const uint32_t *which, size_t n, size_t size, const void *array)
{
    char *out = fli_alloc(ctx, n, size);
    for (size_t i = 0; out && i < n; i++) memcpy(out + i * size, (const char *)array + which[i] * size, size);
    return out;
}

/* Replaces *array by these elements of it. NULL stays NULL. */
static fl_status pick(fl_ctx *ctx, const uint32_t *which, size_t n, size_t size, void **array)
{
    void *out = *array ? picked(ctx, which, n, size, *array) : NULL;
    if (*array && !out) return FL_ENOMEM;
    fli_free(*array);
    *array = out;
    return FL_OK;
}

static fl_status pick_dense(fl_ctx *ctx, const uint32_t *which, size_t n, fli_dataset *ds)
{
    void *x = picked(ctx, which, n, fli_dataset_length(ds) * fli_xkind_size(ds->kind), ds->x);
    if (!x) return FL_ENOMEM;
    free_values(ds);
    ds->x = x;
    return FL_OK;
}

static fl_status pick_sparse(fl_ctx *ctx, const uint32_t *which, size_t n, fli_dataset *ds)
{
    size_t size = fli_xkind_size(ds->kind), values = 0, at = 0;
    for (size_t i = 0; i < n; i++) values += ds->row[which[i] + 1] - ds->row[which[i]];
    size_t *row = fli_alloc(ctx, n + 1, sizeof *row);
    uint32_t *col = fli_alloc(ctx, values, sizeof *col);
    char *x = fli_alloc(ctx, values, size);
    if (!row || !col || !x) {
        fli_free(row);
        fli_free(col);
        fli_free(x);
        return FL_ENOMEM;
    }
    for (size_t i = 0; i < n; i++) {
        size_t from = ds->row[which[i]], count = ds->row[which[i] + 1] - from;
        memcpy(col + at, ds->col + from, count * sizeof *col);
        memcpy(x + at * size, (const char *)ds->x + from * size, count * size);
        row[i + 1] = at += count;
    }
    fli_free(ds->row);
    fli_free(ds->col);
    fli_free(ds->x);
    ds->row = row;
    ds->col = col;
    ds->x = x;
    return FL_OK;
}

static fl_status number_all(fl_ctx *ctx, fli_dataset *ds)
{
    if (ds->number) return FL_OK;
    uint32_t *number = fli_alloc(ctx, ds->n, sizeof *number);
    if (!number) return FL_ENOMEM;
    for (size_t i = 0; i < ds->n; i++) number[i] = ds->from + (uint32_t)i;
    ds->number = number;
    return FL_OK;
}

fl_status fli_dataset_keep(fl_ctx *ctx, fli_dataset *ds, const uint32_t *samples, size_t n)
{
    int all = n == ds->n;
    if (all && !ds->map.base) return FL_OK;
    fl_status s = fli_dataset_sparse(ds) ? pick_sparse(ctx, samples, n, ds) : pick_dense(ctx, samples, n, ds);
    if (s || all) return s;
    s = number_all(ctx, ds);
    if (!s) s = pick(ctx, samples, n, sizeof *ds->number, (void **)&ds->number);
    if (!s) s = pick(ctx, samples, n, sizeof *ds->label, (void **)&ds->label);
    if (!s) s = pick(ctx, samples, n, sizeof *ds->target, (void **)&ds->target);
    if (!s) s = pick(ctx, samples, n, sizeof *ds->group, (void **)&ds->group);
    ds->n = n;
    return s;
}

/* ---- what models see -------------------------------------------------------------------------------------- */

fl_status fli_dataset_crop(fl_ctx *ctx, size_t size, fli_dataset *ds)
{
    if (fli_dataset_sparse(ds) || ds->shape[1] < 2 || ds->shape[2] < 2)
        return fli_fail(ctx, FL_ECONFIG, "data.crop is for images, but the data has samples of %zu features in a row",
                        ds->dim);
    if (size > ds->shape[1] || size > ds->shape[2])
        return fli_fail(ctx, FL_ECONFIG, "data.crop is %zu, but the images have only %zu x %zu pixels", size,
                        ds->shape[1], ds->shape[2]);
    for (int k = 0; k < 2; k++) {
        ds->frame[k] = ds->shape[1 + k];
        ds->shape[1 + k] = size;
    }
    ds->dim = ds->shape[0] * size * size;
    return FL_OK;
}

size_t fli_dataset_length(const fli_dataset *ds)
{
    return ds->frame[0] ? ds->shape[0] * ds->frame[0] * ds->frame[1] : ds->dim;
}

size_t fli_dataset_stored(const fli_dataset *ds)
{
    return fli_dataset_sparse(ds) ? ds->row[ds->n] : ds->n * fli_dataset_length(ds);
}

size_t fli_dataset_bytes(const fli_dataset *ds)
{
    size_t bytes = fli_dataset_stored(ds) * fli_xkind_size(ds->kind);
    if (fli_dataset_sparse(ds)) bytes += ds->row[ds->n] * sizeof *ds->col + (ds->n + 1) * sizeof *ds->row;
    if (ds->label) bytes += ds->n * sizeof *ds->label;
    if (ds->target) bytes += ds->n * sizeof *ds->target;
    if (ds->group) bytes += ds->n * sizeof *ds->group;
    if (ds->number) bytes += ds->n * sizeof *ds->number;
    return bytes;
}

/* A stored value, not normalised. */
static double stored_value(const fli_dataset *ds, size_t at)
{
    switch (ds->kind) {
    case FLI_X_U8: return ((const uint8_t *)ds->x)[at];
    case FLI_X_F32:
    case FLI_X_CSR: return (double)((const float *)ds->x)[at];
    default: return ((const double *)ds->x)[at];
    }
}

/* Sparse rows are scaled only: a shift would make every zero a non-zero. */
static double sparse_scale(const fli_dataset *ds, size_t feature) { return ds->scale ? ds->scale[feature] : 1; }

/* ---- checks --------------------------------------------------------------------------------------------- */

static fl_status check_sizes(fl_ctx *ctx, const fli_dataset *ds, const char *name)
{
    if (!ds->n || !ds->dim != !ds->x)
        return fli_fail(ctx, FL_EFORMAT, "%s: has %zu samples of %zu features", name, ds->n, ds->dim);
    if (ds->n >= UINT32_MAX) return fli_fail(ctx, FL_EFORMAT, "%s: has %zu samples, too many to index", name, ds->n);
    if (ds->shape[0] * ds->shape[1] * ds->shape[2] != ds->dim)
        return fli_fail(ctx, FL_EFORMAT, "%s: a shape of %zu x %zu x %zu does not hold %zu features", name,
                        ds->shape[0], ds->shape[1], ds->shape[2], ds->dim);
    if (ds->scale && (!ds->segments || ds->dim % ds->segments || (!ds->shift && !fli_dataset_sparse(ds))))
        return fli_fail(ctx, FL_EFORMAT, "%s: %zu normalisation segments do not fit %zu features", name, ds->segments,
                        ds->dim);
    if (fli_dataset_sparse(ds) && ds->scale && ds->segments != ds->dim)
        return fli_fail(ctx, FL_EFORMAT, "%s: sparse features are scaled one by one, not in %zu segments", name,
                        ds->segments);
    for (size_t k = 0; fli_dataset_sparse(ds) && ds->scale && ds->shift && k < ds->segments; k++)
        if (ds->shift[k] != 0)
            return fli_fail(ctx, FL_EFORMAT, "%s: sparse features can be scaled, but not shifted by %g", name,
                            ds->shift[k]);
    if ((ds->dim ? !ds->label == !ds->target : ds->label && ds->target) || !ds->label != !ds->classes)
        return fli_fail(ctx, FL_EFORMAT, "%s: must have either labels and classes or targets", name);
    return FL_OK;
}

static fl_status check_answers(fl_ctx *ctx, const fli_dataset *ds, const char *name)
{
    for (size_t i = 0; i < ds->n; i++) {
        if (ds->label && (ds->label[i] < 0 || (size_t)ds->label[i] >= ds->classes))
            return fli_fail(ctx, FL_EFORMAT, "%s: sample %zu has label %" PRId32 ", not in 0 .. %zu", name, i,
                            ds->label[i], ds->classes - 1);
        if (ds->target && !isfinite(ds->target[i]))
            return fli_fail(ctx, FL_EFORMAT, "%s: sample %zu has target %g, which is not finite", name, i,
                            ds->target[i]);
        if (ds->group && (ds->group[i] < 0 || (size_t)ds->group[i] >= ds->groups))
            return fli_fail(ctx, FL_EFORMAT, "%s: sample %zu is in group %" PRId32 ", one of only %zu", name, i,
                            ds->group[i], ds->groups);
    }
    return FL_OK;
}

static fl_status check_rows(fl_ctx *ctx, const fli_dataset *ds, const char *name)
{
    if (!ds->row || ds->row[0]) return fli_fail(ctx, FL_EFORMAT, "%s: the sparse rows do not start at 0", name);
    for (size_t i = 0; i < ds->n; i++) {
        if (ds->row[i + 1] < ds->row[i])
            return fli_fail(ctx, FL_EFORMAT, "%s: sparse row %zu ends before it starts", name, i);
        if (ds->row[i + 1] - ds->row[i] > ds->dim) /* before col is read that far */
            return fli_fail(ctx, FL_EFORMAT, "%s: sparse row %zu has %zu values, of only %zu features", name, i,
                            ds->row[i + 1] - ds->row[i], ds->dim);
        for (size_t k = ds->row[i]; k < ds->row[i + 1]; k++)
            if (ds->col[k] >= ds->dim || (k > ds->row[i] && ds->col[k] <= ds->col[k - 1]))
                return fli_fail(ctx, FL_EFORMAT, "%s: sample %zu: feature %" PRIu32 " is out of order or not below %zu",
                                name, i, ds->col[k], ds->dim);
    }
    return FL_OK;
}

/* Index of the first of n values that is not finite; n if all are. */
static size_t first_not_finite(const fli_dataset *ds, size_t n)
{
    const float *f = ds->x;
    const double *d = ds->x;
    size_t i = 0;
    if (ds->kind == FLI_X_U8) return n;
    if (ds->kind == FLI_X_F64 || ds->kind == FLI_X_CSR64)
        while (i < n && isfinite(d[i])) i++;
    else
        while (i < n && isfinite(f[i])) i++;
    return i;
}

static fl_status check_values(fl_ctx *ctx, const fli_dataset *ds, const char *name)
{
    size_t n = fli_dataset_stored(ds), bad = first_not_finite(ds, n), sample = 0;
    if (bad == n) return FL_OK;
    if (fli_dataset_sparse(ds)) {
        while (ds->row[sample + 1] <= bad) sample++;
        return fli_fail(ctx, FL_EFORMAT, "%s: sample %zu, feature %" PRIu32 " is not finite", name, sample,
                        ds->col[bad]);
    }
    return fli_fail(ctx, FL_EFORMAT, "%s: sample %zu, feature %zu is not finite", name, bad / ds->dim, bad % ds->dim);
}

fl_status fli_dataset_check(fl_ctx *ctx, const fli_dataset *ds, const char *name)
{
    fl_status s = check_sizes(ctx, ds, name);
    if (s == FL_OK) s = check_answers(ctx, ds, name);
    if (s == FL_OK && fli_dataset_sparse(ds)) s = check_rows(ctx, ds, name);
    if (s == FL_OK) s = check_values(ctx, ds, name);
    return s;
}

/* Stored value `at`, normalised; for sparse sets `at` counts the stored values. */
static double normalised(const fli_dataset *ds, size_t at)
{
    double v = stored_value(ds, at);
    if (!ds->scale) return v;
    if (fli_dataset_sparse(ds)) return v * ds->scale[ds->col[at]];
    size_t segment = at % ds->dim / (ds->dim / ds->segments);
    return v * ds->scale[segment] + ds->shift[segment];
}

static double largest_of(const double *v, size_t n)
{
    double most = 0;
    for (size_t i = 0; v && i < n; i++) most = fmax(most, fabs(v[i]));
    return most;
}

/* An upper bound of all normalised magnitudes. It usually shows that f32 is enough without computing every value. */
static double bound(const fli_dataset *ds)
{
    size_t n = fli_dataset_stored(ds);
    double most = 0;
    for (size_t i = 0; i < n; i++) most = fmax(most, fabs(stored_value(ds, i)));
    return ds->scale ? most * largest_of(ds->scale, ds->segments) + largest_of(ds->shift, ds->segments) : most;
}

#define TOO_LARGE "is %g, too large for precision f32; precision: f64 keeps it"

static fl_status check_f32_values(fl_ctx *ctx, const fli_dataset *ds, const char *name)
{
    size_t n = fli_dataset_stored(ds), k = 0, sample = 0;
    if (ds->kind == FLI_X_U8 || (!ds->scale && (ds->kind == FLI_X_F32 || ds->kind == FLI_X_CSR))) return FL_OK;
    if (ds->each) return FL_OK; /* no image is further from its mean than sqrt(dim) deviations */
    if (bound(ds) <= (double)FLT_MAX) return FL_OK;
    while (k < n && fabs(normalised(ds, k)) <= (double)FLT_MAX) k++;
    if (k == n) return FL_OK;
    if (!fli_dataset_sparse(ds))
        return fli_fail(ctx, FL_EFORMAT, "%s: sample %zu, feature %zu " TOO_LARGE, name, k / ds->dim, k % ds->dim,
                        normalised(ds, k));
    while (ds->row[sample + 1] <= k) sample++;
    return fli_fail(ctx, FL_EFORMAT, "%s: sample %zu, feature %" PRIu32 " " TOO_LARGE, name, sample, ds->col[k],
                    normalised(ds, k));
}

fl_status fli_dataset_check_f32(fl_ctx *ctx, const fli_dataset *ds, const char *name)
{
    for (size_t i = 0; ds->target && i < ds->n; i++)
        if (!(fabs(ds->target[i]) <= (double)FLT_MAX))
            return fli_fail(ctx, FL_EFORMAT, "%s: sample %zu has a target that " TOO_LARGE, name, i, ds->target[i]);
    return check_f32_values(ctx, ds, name);
}

/* ---- looking at samples --------------------------------------------------------------------------------- */

void fli_dataset_row(const fli_dataset *ds, size_t i, double *out)
{
    if (fli_dataset_sparse(ds)) {
        memset(out, 0, ds->dim * sizeof *out);
        for (size_t k = ds->row[i]; k < ds->row[i + 1]; k++)
            out[ds->col[k]] = stored_value(ds, k) * sparse_scale(ds, ds->col[k]);
        return;
    }
    if (fli_images_need_gather(ds)) {
        const uint32_t sample = (uint32_t)i;
        fli_images_gather(&fli_ops_f64, ds, &sample, 1, out);
        return;
    }
    for (size_t j = 0; j < ds->dim; j++) {
        out[j] = stored_value(ds, i * ds->dim + j);
        if (!ds->scale) continue;
        size_t segment = j / (ds->dim / ds->segments);
        out[j] = out[j] * ds->scale[segment] + ds->shift[segment];
    }
}

fl_status fli_dataset_magnitude(fl_ctx *ctx, const fli_dataset *ds, double *out)
{
    *out = 0;
    double *row = fli_alloc(ctx, ds->dim, sizeof *row);
    if (!row) return FL_ENOMEM;
    for (size_t i = 0; i < ds->n; i++) {
        fli_dataset_row(ds, i, row);
        *out = fmax(*out, largest_of(row, ds->dim));
    }
    fli_free(row);
    return FL_OK;
}

/* ---- batches -------------------------------------------------------------------------------------------- */

fl_status fli_batch_init(fl_ctx *ctx, const fli_ops *ops, size_t dim, size_t capacity, fli_batch *b)
{
    *b = (fli_batch){.ops = ops, .dim = dim, .capacity = capacity};
    if (capacity && dim > SIZE_MAX / ops->size / capacity)
        return fli_fail(ctx, FL_ENOMEM, "out of memory: a batch of %zu samples of %zu features is too large", capacity,
                        dim);
    b->x = fli_alloc(ctx, capacity * dim, ops->size);
    b->label = fli_alloc(ctx, capacity, sizeof *b->label);
    b->target = fli_alloc(ctx, capacity, ops->size);
    b->number = fli_alloc(ctx, capacity, sizeof *b->number);
    if (b->x && b->label && b->target && b->number) return FL_OK;
    fli_batch_fini(b);
    return FL_ENOMEM;
}

fl_status fli_batch_init_sparse(fl_ctx *ctx, const fli_ops *ops, size_t dim, size_t capacity, fli_batch *b)
{
    *b = (fli_batch){.ops = ops, .dim = dim, .capacity = capacity};
    b->idx = fli_alloc(ctx, capacity, sizeof *b->idx);
    b->label = fli_alloc(ctx, capacity, sizeof *b->label);
    b->target = fli_alloc(ctx, capacity, ops->size);
    b->number = fli_alloc(ctx, capacity, sizeof *b->number);
    if (b->idx && b->label && b->target && b->number) return FL_OK;
    fli_batch_fini(b);
    return FL_ENOMEM;
}

void fli_batch_fini(fli_batch *b)
{
    fli_free(b->x);
    fli_free(b->idx);
    fli_free(b->label);
    fli_free(b->target);
    fli_free(b->number);
    *b = (fli_batch){0};
}

/* A sparse batch lists rows; it copies none. */
static void point_at_rows(fli_batch *b, const fli_dataset *ds, const uint32_t *idx)
{
    memcpy(b->idx, idx, b->n * sizeof *b->idx);
    b->csr = (fli_csr){.row = ds->row,
                       .col = ds->col,
                       .value = ds->x,
                       .wide = ds->kind == FLI_X_CSR64,
                       .idx = b->idx,
                       .scale = ds->scale};
}

static void gather_csr(fli_batch *b, const fli_dataset *ds, const uint32_t *idx)
{
    memset(b->x, 0, b->n * b->dim * b->ops->size);
    for (size_t r = 0; r < b->n; r++)
        for (size_t k = ds->row[idx[r]]; k < ds->row[idx[r] + 1]; k++) {
            size_t at = r * b->dim + ds->col[k];
            double v = stored_value(ds, k) * sparse_scale(ds, ds->col[k]);
            if (b->ops->size == sizeof(float))
                ((float *)b->x)[at] = (float)v;
            else
                ((double *)b->x)[at] = v;
        }
}

static void gather_targets(fli_batch *b, const fli_dataset *ds, const uint32_t *idx)
{
    enum { PIECE = 64 };
    double piece[PIECE];
    for (size_t i = 0; i < b->n;) {
        size_t k = 0;
        for (; k < PIECE && i + k < b->n; k++) piece[k] = ds->target[idx[i + k]];
        b->ops->from_f64(k, piece, (char *)b->target + i * b->ops->size);
        i += k;
    }
}

static void gather_dense(fli_batch *b, const fli_dataset *ds, const uint32_t *idx)
{
    const fli_ops *ops = b->ops;
    if (!ds->dim) return; /* samples without features */
    if (fli_images_need_gather(ds)) {
        fli_images_gather(ops, ds, idx, b->n, b->x);
        return;
    }
    switch (ds->kind) {
    case FLI_X_U8: ops->gather_u8(b->n, ds->dim, ds->x, idx, ds->segments, ds->scale, ds->shift, b->x); break;
    case FLI_X_F32: ops->gather_f32(b->n, ds->dim, ds->x, idx, ds->segments, ds->scale, ds->shift, b->x); break;
    case FLI_X_F64: ops->gather_f64(b->n, ds->dim, ds->x, idx, ds->segments, ds->scale, ds->shift, b->x); break;
    case FLI_X_CSR:
    case FLI_X_CSR64: gather_csr(b, ds, idx); break;
    }
}

void fli_batch_gather_answers(fli_batch *b, const fli_dataset *ds, const uint32_t *idx, size_t n)
{
    b->n = n;
    b->from = ds;
    b->sample = ds->number ? b->number : idx;
    for (size_t i = 0; ds->number && i < n; i++) b->number[i] = ds->number[idx[i]];
    if (ds->label)
        for (size_t i = 0; i < n; i++) b->label[i] = ds->label[idx[i]];
    if (ds->target) gather_targets(b, ds, idx);
}

void fli_batch_gather(fli_batch *b, const fli_dataset *ds, const uint32_t *idx, size_t n)
{
    fli_batch_gather_answers(b, ds, idx, n);
    if (b->idx)
        point_at_rows(b, ds, idx);
    else
        gather_dense(b, ds, idx);
}

/* One output is a matrix-vector product, for which BLAS has a faster routine. */
void fli_batch_mul(const fli_batch *b, size_t outs, const void *w, void *z)
{
    if (b->idx)
        b->ops->csr_mul(b->n, b->dim, outs, &b->csr, w, z);
    else if (outs == 1)
        b->ops->gemv(0, b->n, b->dim, 1, b->x, b->dim, w, 0, z);
    else
        b->ops->gemm(0, 1, b->n, outs, b->dim, 1, b->x, b->dim, w, b->dim, 0, z, outs);
}

void fli_batch_tmul(const fli_batch *b, size_t outs, double alpha, const void *d, void *g)
{
    if (b->idx)
        b->ops->csr_tmul(b->n, b->dim, outs, alpha, &b->csr, d, g);
    else if (outs == 1)
        b->ops->gemv(1, b->n, b->dim, alpha, b->x, b->dim, d, 0, g);
    else
        b->ops->gemm(1, 0, outs, b->dim, b->n, alpha, d, outs, b->x, b->dim, 0, g, b->dim);
}
