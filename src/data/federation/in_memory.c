/* The source `memory`, and the partitioner for the holders that a program names. */
#include "data/federation/in_memory.h"

#include "base/ctx.h"
#include "data/load.h"
#include "data/source.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- structs that a program passes ----------------------------------------------------------------------- */

/* An array in one of the program's structs. */
typedef struct {
    const char *name;
    const void *p; /* NULL: not given */
    size_t alignment;
} array;

static fl_status check_alignment(fl_ctx *ctx, const char *what, const array *arrays, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if ((uintptr_t)arrays[i].p % arrays[i].alignment)
            return fli_fail(ctx, FL_ECONFIG, "%s: %s is at an address that is no multiple of %zu", what, arrays[i].name,
                            arrays[i].alignment);
    return FL_OK;
}

static const void *values_of(const fl_samples *s)
{
    return s->u8 ? (const void *)s->u8 : s->f32 ? (const void *)s->f32 : (const void *)s->f64;
}

static fl_status check_features(fl_ctx *ctx, const char *what, const fl_samples *s)
{
    int given = (s->u8 != NULL) + (s->f32 != NULL) + (s->f64 != NULL), sparse = s->row || s->col;
    if (given > 1) return fli_fail(ctx, FL_ECONFIG, "%s: only one of u8, f32 and f64 can be given", what);
    if (!given && s->dim)
        return fli_fail(ctx, FL_ECONFIG,
                        "%s: samples of %zu features need one of u8, f32 and f64; samples that are known by their "
                        "numbers alone have dim 0",
                        what, s->dim);
    if (given && !s->dim) return fli_fail(ctx, FL_ECONFIG, "%s: dim is 0, but there are features", what);
    if (given && s->n && s->dim > SIZE_MAX / sizeof(double) / s->n)
        return fli_fail(ctx, FL_ECONFIG, "%s: %zu samples of %zu features are more than any memory holds", what, s->n,
                        s->dim);
    if (sparse && (!s->row || !s->col))
        return fli_fail(ctx, FL_ECONFIG, "%s: sparse samples need both row and col", what);
    if (sparse && !s->f32 && !s->f64)
        return fli_fail(ctx, FL_ECONFIG, "%s: sparse samples need their values in f32 or f64", what);
    return FL_OK;
}

fl_status fli_samples_check(fl_ctx *ctx, const char *what, const fl_samples *s)
{
    const array arrays[] = {{"f32", s->f32, _Alignof(float)},
                            {"f64", s->f64, _Alignof(double)},
                            {"row", s->row, _Alignof(size_t)},
                            {"col", s->col, _Alignof(uint32_t)}};
    fl_status status = check_features(ctx, what, s);
    return status ? status : check_alignment(ctx, what, arrays, sizeof arrays / sizeof *arrays);
}

static fl_status check_answers(fl_ctx *ctx, const char *what, const fl_samples *s)
{
    if (s->label && s->target) return fli_fail(ctx, FL_ECONFIG, "%s: only one of label and target can be given", what);
    if (!s->label && !s->target && s->dim) return fli_fail(ctx, FL_ECONFIG, "%s: label or target is missing", what);
    if (s->label && (!s->classes || s->classes > INT32_MAX))
        return fli_fail(ctx, FL_ECONFIG, "%s: classes is %zu, but labels are from 0 to classes - 1", what, s->classes);
    if (!s->label && s->classes)
        return fli_fail(ctx, FL_ECONFIG, "%s: classes is %zu, but there are no labels", what, s->classes);
    return FL_OK;
}

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

/* Lengths are limited because names end up in messages, tables and model files. */
static fl_status check_names(fl_ctx *ctx, const char *what, const fl_samples *s)
{
    enum { LONGEST = 255 };
    if (!s->class_name) return FL_OK;
    if (!s->classes) return fli_fail(ctx, FL_ECONFIG, "%s: class_name is given, but there are no classes", what);
    const char **sorted = fli_alloc(ctx, s->classes, sizeof *sorted);
    fl_status status = sorted ? FL_OK : FL_ENOMEM;
    for (size_t i = 0; !status && i < s->classes; i++) {
        sorted[i] = s->class_name[i];
        if (!sorted[i] || !*sorted[i] || strnlen(sorted[i], LONGEST + 1) > LONGEST)
            status =
                fli_fail(ctx, FL_ECONFIG, "%s: class_name[%zu] must have between 1 and %d bytes", what, i, LONGEST);
    }
    if (!status) qsort(sorted, s->classes, sizeof *sorted, by_name);
    for (size_t i = 1; !status && i < s->classes; i++)
        if (!strcmp(sorted[i - 1], sorted[i]))
            status = fli_fail(ctx, FL_ECONFIG, "%s: two classes are called '%s'", what, sorted[i]);
    fli_free(sorted);
    return status;
}

static fl_status check_shape(fl_ctx *ctx, const char *what, const fl_samples *s)
{
    size_t c = s->shape[0], h = s->shape[1], w = s->shape[2];
    if (!c && !h && !w) return FL_OK;
    if (s->row) return fli_fail(ctx, FL_ECONFIG, "%s: sparse samples are no images: leave shape at zeros", what);
    /* c h w = dim, without a product that could overflow */
    if (!c || !h || !w || s->dim % c || s->dim / c % h || s->dim / c / h != w)
        return fli_fail(ctx, FL_ECONFIG, "%s: a shape of %zu x %zu x %zu does not hold %zu features", what, c, h, w,
                        s->dim);
    return FL_OK;
}

static fl_status take_samples(fl_ctx *ctx, const char *what, const fl_samples *given, fl_samples *out)
{
    fl_status s = fli_take_versioned(ctx, "fl_samples", given, given->size, out, sizeof *out);
    if (s) return s;
    if (!out->n || out->n >= UINT32_MAX)
        return fli_fail(ctx, FL_ECONFIG, "%s: n is %zu, but must be at least 1 and below %" PRIu32, what, out->n,
                        UINT32_MAX);
    const array arrays[] = {{"label", out->label, _Alignof(int32_t)}, {"target", out->target, _Alignof(double)}};
    s = fli_samples_check(ctx, what, out);
    if (!s) s = check_answers(ctx, what, out);
    if (!s) s = check_names(ctx, what, out);
    if (!s) s = check_shape(ctx, what, out);
    return s ? s : check_alignment(ctx, what, arrays, sizeof arrays / sizeof *arrays);
}

static fl_status take_holding(fl_ctx *ctx, const fl_holding *given, size_t n, fl_holding *out)
{
    fl_status s = fli_take_versioned(ctx, "fl_holding", given, given->size, out, sizeof *out);
    if (s) return s;
    if (out->start && out->owner)
        return fli_fail(ctx, FL_ECONFIG, "fl_holding: only one of start and owner can be given");
    if (!out->start && !out->owner && !out->weight)
        return fli_fail(ctx, FL_ECONFIG, "fl_holding: none of start, owner and weight is given");
    if (!out->clients || out->clients > n)
        return fli_fail(ctx, FL_ECONFIG,
                        "fl_holding: clients is %zu, but each of them holds at least one of %zu samples", out->clients,
                        n);
    const array arrays[] = {{"start", out->start, _Alignof(size_t)},
                            {"owner", out->owner, _Alignof(uint32_t)},
                            {"weight", out->weight, _Alignof(double)}};
    return check_alignment(ctx, "fl_holding", arrays, sizeof arrays / sizeof *arrays);
}

fl_status fli_memory_take(fl_ctx *ctx, const fl_samples *train, const fl_samples *test, const fl_holding *who,
                          fli_memory *out)
{
    fli_memory m = {0};
    if (train && test && !train->n) { /* a server, whose clients have the samples */
        fl_status alone = fli_take_versioned(ctx, "fl_samples", train, train->size, &m.train, sizeof m.train);
        if (!alone) alone = take_samples(ctx, "test samples", test, &m.test);
        if (!alone && who) alone = fli_fail(ctx, FL_ECONFIG, "fl_holding: there are no training samples to hold");
        if (!alone) *out = m;
        return alone;
    }
    if (!train) return fli_fail(ctx, FL_ECONFIG, "fl_config_data: there are no training samples");
    fl_status s = take_samples(ctx, "training samples", train, &m.train);
    if (!s && test) s = take_samples(ctx, "test samples", test, &m.test);
    if (!s && test && m.test.classes != m.train.classes)
        s = fli_fail(ctx, FL_ECONFIG, "the training samples have %zu classes, but the test samples %zu",
                     m.train.classes, m.test.classes);
    if (!s && test && memcmp(m.test.shape, m.train.shape, sizeof m.test.shape))
        s = fli_fail(ctx, FL_ECONFIG, "the training samples and the test samples have different shapes");
    if (!s && who) s = take_holding(ctx, who, m.train.n, &m.who);
    if (!s) *out = m;
    return s;
}

/* ---- as data sets ------------------------------------------------------------------------------------------ */

static fli_xkind kind_of(const fl_samples *s)
{
    if (s->row) return s->f64 ? FLI_X_CSR64 : FLI_X_CSR;
    return s->u8 ? FLI_X_U8 : s->f64 ? FLI_X_F64 : FLI_X_F32;
}

/* A data set owns its names, even if it borrows the samples. */
static fl_status copy_names(fl_ctx *ctx, const fl_samples *s, fli_dataset *ds)
{
    size_t bytes = 0;
    if (!s->class_name) return FL_OK;
    for (size_t i = 0; i < s->classes; i++) bytes += strlen(s->class_name[i]) + 1;
    if (!(ds->class_name = fli_alloc(ctx, s->classes * sizeof *ds->class_name + bytes, 1))) return FL_ENOMEM;
    char *at = (char *)(ds->class_name + s->classes);
    for (size_t i = 0; i < s->classes; i++) {
        size_t n = strlen(s->class_name[i]) + 1;
        ds->class_name[i] = memcpy(at, s->class_name[i], n);
        at += n;
    }
    return FL_OK;
}

fl_status fli_memory_borrow(fl_ctx *ctx, const fl_samples *s, fli_dataset **out)
{
    fli_dataset *ds = fli_alloc(ctx, 1, sizeof *ds);
    if (!ds) return FL_ENOMEM;
    *ds = (fli_dataset){.n = s->n,
                        .dim = s->dim,
                        .kind = kind_of(s),
                        .x = (void *)(uintptr_t)values_of(s),
                        .row = (size_t *)(uintptr_t)s->row,
                        .col = (uint32_t *)(uintptr_t)s->col,
                        .label = (int32_t *)(uintptr_t)s->label,
                        .target = (double *)(uintptr_t)s->target,
                        .borrows = FLI_BORROWS_SAMPLES | FLI_BORROWS_LABELS,
                        .classes = s->classes,
                        .shape = {1, 1, s->dim}};
    if (s->shape[0]) memcpy(ds->shape, s->shape, sizeof ds->shape);
    fl_status status = copy_names(ctx, s, ds);
    if (status)
        fli_dataset_free(ds);
    else
        *out = ds;
    return status;
}

static fl_status load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    fli_dataset *a = NULL, *b = NULL;
    if (!request->memory)
        return fli_fail(ctx, FL_ECONFIG,
                        "data.kind is memory: a program hands such samples over, by fl_config_data; a file cannot name "
                        "them");
    fl_status s = fli_memory_borrow(ctx, &request->memory->train, &a);
    if (!s && request->memory->test.size) s = fli_memory_borrow(ctx, &request->memory->test, &b);
    return fli_load_hand_out(s, a, b, train, test);
}

static const fl_key no_keys[] = {FLI_KEY_END};

const fli_source fli_source_memory = {
    .name = "memory",
    .title = "samples in the memory of a program that uses the library",
    .needs = "a program that hands its samples over, by fl_config_data; a file alone cannot choose it",
    .keys = no_keys,
    .load = load,
};

/* ---- who holds them ------------------------------------------------------------------------------------------ */

static fl_status by_start(fl_ctx *ctx, const fl_holding *h, size_t n, uint32_t *owner)
{
    for (size_t s = 0; s < n; s++) owner[s] = FLI_NOBODY;
    for (size_t i = 0; i < h->clients; i++) {
        if (h->start[i] >= h->start[i + 1] || h->start[i + 1] > n)
            return fli_fail(ctx, FL_ECONFIG,
                            "fl_holding: client %zu would hold samples from %zu up to but without %zu, of %zu", i,
                            h->start[i], h->start[i + 1], n);
        for (size_t s = h->start[i]; s < h->start[i + 1]; s++) owner[s] = (uint32_t)i;
    }
    return FL_OK;
}

static fl_status by_owner(fl_ctx *ctx, const fl_holding *h, size_t n, uint32_t *owner)
{
    for (size_t s = 0; s < n; s++) {
        if (h->owner[s] >= h->clients && h->owner[s] != FLI_NOBODY)
            return fli_fail(ctx, FL_ECONFIG, "fl_holding: sample %zu belongs to client %" PRIu32 ", one of only %zu", s,
                            h->owner[s], h->clients);
        owner[s] = h->owner[s];
    }
    return FL_OK;
}

static fl_status assign(fl_ctx *ctx, const void *params, const fli_dataset *ds, uint64_t seed, size_t *clients,
                        uint32_t *owner)
{
    const fl_holding *h = params;
    size_t free = 0;
    (void)seed;
    *clients = h->clients;
    fl_status s = h->start ? by_start(ctx, h, ds->n, owner) : by_owner(ctx, h, ds->n, owner);
    for (size_t k = 0; !s && k < ds->n; k++) free += owner[k] == FLI_NOBODY;
    if (free) fli_log(ctx, FL_LOG_INFO, "%zu of the %zu samples belong to no client", free, ds->n);
    return s;
}

const fli_partitioner fli_partitioner_holding = {
    .name = "fl_holding",
    .title = "holders of the samples that a program names",
    .keys = no_keys,
    .sets_clients = 1,
    .assign = assign,
};
