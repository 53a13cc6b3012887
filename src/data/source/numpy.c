/* The values of NumPy's arrays, of whatever type and order they are, and a data set out of them. */
#include "data/source/numpy.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ---- values --------------------------------------------------------------------------------------------- */

static uint64_t bits_at(const fli_numpy *a, const uint8_t *p)
{
    uint64_t v = 0;
    for (size_t i = 0; i < a->width; i++) v = v << 8 | p[a->swapped ? i : a->width - 1 - i];
    return v;
}

/* Half precision: a sign, 5 bits of exponent, 10 of fraction. */
static double half(uint64_t bits)
{
    int exponent = (int)(bits >> 10 & 31);
    double fraction = (double)(bits & 1023);
    double v = exponent == 31  ? (fraction > 0 ? (double)NAN : (double)INFINITY)
               : exponent == 0 ? ldexp(fraction, -24)
                               : ldexp(1024 + fraction, exponent - 25);
    return bits >> 15 ? -v : v;
}

static double number_at(const fli_numpy *a, const uint8_t *p)
{
    uint64_t bits = bits_at(a, p);
    uint32_t low = (uint32_t)bits;
    float f;
    double d;
    switch (a->kind) {
    case 'b': return bits != 0;
    case 'u': return (double)bits;
    case 'i': return (double)((int64_t)(bits << (64 - 8 * a->width)) >> (64 - 8 * a->width));
    default: break;
    }
    if (a->width == 2) return half(bits);
    memcpy(&f, &low, sizeof f);
    memcpy(&d, &bits, sizeof d);
    return a->width == 4 ? (double)f : d;
}

/* Where the next value is in the file, when they are taken with the last index running fastest. */
typedef struct {
    const fli_numpy *a;
    uint64_t index[FLI_NUMPY_DIMS], stride[FLI_NUMPY_DIMS];
    size_t at;
} walk;

static void walk_init(walk *w, const fli_numpy *a)
{
    *w = (walk){.a = a};
    uint64_t stride = 1;
    for (size_t i = 0; i < a->dims; i++) {
        size_t k = a->fortran ? i : a->dims - 1 - i;
        w->stride[k] = stride;
        stride *= a->size[k];
    }
}

static void walk_on(walk *w)
{
    for (size_t k = w->a->dims; k-- > 0;) {
        w->at += w->stride[k];
        if (++w->index[k] < w->a->size[k]) return;
        w->at -= w->index[k] * w->stride[k];
        w->index[k] = 0;
    }
}

static const char promised[] = "the values its header promises";

/* Reads the n values behind the header, as numbers in the order in which the last index runs fastest. */
static fl_status read_numbers(fl_ctx *ctx, fli_stream *s, const fli_numpy *a, size_t n, double **out)
{
    void *raw = NULL;
    walk w;
    *out = NULL;
    fl_status status = fli_load_body(ctx, s, n * a->width, promised, &raw);
    if (status == FL_OK) status = fli_stream_end(s);
    if (status == FL_OK && !(*out = fli_alloc(ctx, n, sizeof **out))) status = FL_ENOMEM;
    walk_init(&w, a);
    for (size_t i = 0; status == FL_OK && i < n; i++, walk_on(&w))
        (*out)[i] = number_at(a, (const uint8_t *)raw + w.at * a->width);
    fli_free(raw);
    return status;
}

static fli_xkind kind_of(const fli_numpy *a)
{
    if (a->kind == 'u' && a->width == 1) return FLI_X_U8;
    return a->width == 8 || (a->width == 4 && a->kind != 'f') ? FLI_X_F64 : FLI_X_F32;
}

static size_t stored_size(const fli_numpy *a) { return fli_xkind_size(kind_of(a)); }

/* As the file has them. */
static int as_they_are(const fli_numpy *a)
{
    return !a->swapped && !a->fortran && (a->kind == 'f' || kind_of(a) == FLI_X_U8) && stored_size(a) == a->width;
}

/* u1 stays bytes; bool, i1, i2, u2, f2 and f4 become floats, which hold them exactly; i4, u4, i8, u8 and f8 become
 * doubles. */
static fl_status convert(fl_ctx *ctx, const fli_numpy *a, size_t n, const uint8_t *raw, fli_dataset *ds)
{
    walk w;
    if (!(ds->x = fli_alloc(ctx, n, stored_size(a)))) return FL_ENOMEM;
    walk_init(&w, a);
    for (size_t i = 0; i < n; i++, walk_on(&w)) {
        const uint8_t *p = raw + w.at * a->width;
        if (ds->kind == FLI_X_U8)
            ((uint8_t *)ds->x)[i] = *p;
        else
            fli_store_real(ds->x, ds->kind == FLI_X_F64, i, number_at(a, p));
    }
    return FL_OK;
}

/* Reads the n values behind the header as features. */
static fl_status read_features(fl_ctx *ctx, fli_stream *s, const fli_numpy *a, size_t n, int map, fli_dataset *ds)
{
    void *raw = NULL;
    fl_status status;
    ds->kind = kind_of(a);
    if (as_they_are(a)) {
        status = fli_load_values(ctx, s, n * a->width, a->width, promised, map, ds);
        return status ? status : fli_stream_end(s);
    }
    status = fli_load_body(ctx, s, n * a->width, promised, &raw);
    if (status == FL_OK) status = fli_stream_end(s);
    if (status == FL_OK) status = convert(ctx, a, n, raw, ds);
    fli_free(raw);
    return status;
}

/* ---- arrays into a data set ----------------------------------------------------------------------------- */

static fl_status open_array(fl_ctx *ctx, const fli_array_place *at, fli_stream **out)
{
    char *path = NULL;
    if (!at->member) return fli_load_open_npy(ctx, at->file, out);
    *out = NULL;
    fl_status s = fli_find_file(ctx, "", at->file, &path);
    if (s == FL_OK) s = fli_stream_open_array(ctx, path, at->member, out);
    fli_free(path);
    return s;
}

/* (n, d), (n, h, w) or (n, c, h, w); more dimensions are flattened. */
static void set_shape(fli_dataset *ds, const fli_numpy *a)
{
    ds->shape[0] = a->dims == 4 ? (size_t)a->size[1] : 1;
    ds->shape[1] = a->dims == 3 || a->dims == 4 ? (size_t)a->size[a->dims - 2] : 1;
    ds->shape[2] = ds->dim / (ds->shape[0] * ds->shape[1]);
}

static fl_status read_x(fl_ctx *ctx, fli_stream *s, int map, fli_dataset *ds)
{
    fli_numpy a;
    size_t values;
    fl_status status = fli_numpy_header(ctx, s, &a);
    if (status) return status;
    if (a.dims < 2)
        return fli_fail(ctx, FL_EFORMAT, "%s: features have %zu dimensions, but need 2 or more", fli_stream_path(s),
                        a.dims);
    size_t size = a.width > stored_size(&a) ? a.width : stored_size(&a);
    if ((status = fli_load_volume(ctx, fli_stream_path(s), a.size, a.dims, size, &values))) return status;
    ds->n = (size_t)a.size[0];
    ds->dim = values / ds->n;
    set_shape(ds, &a);
    status = fli_load_origin(ctx, fli_stream_path(s), ds);
    return status ? status : read_features(ctx, s, &a, values, map, ds);
}

static fl_status load_x(fl_ctx *ctx, const fli_array_set *set, fli_dataset *ds)
{
    fli_stream *s = NULL;
    fl_status status = open_array(ctx, &set->x, &s);
    if (status == FL_OK) status = read_x(ctx, s, set->map, ds);
    fli_stream_close(s);
    return status;
}

/* The numbers of an array that must have one for each of n samples. */
static fl_status read_column(fl_ctx *ctx, fli_stream *s, size_t n, const char *noun, double **out)
{
    fli_numpy a;
    size_t values;
    const char *path = fli_stream_path(s);
    fl_status status = fli_numpy_header(ctx, s, &a);
    if (status) return status;
    if (a.dims != 1 && !(a.dims == 2 && a.size[1] == 1))
        return fli_fail(ctx, FL_EFORMAT, "%s: %s have %zu dimensions, but must be one column", path, noun, a.dims);
    if (a.size[0] != n)
        return fli_fail(ctx, FL_EFORMAT, "%s: has %" PRIu64 " %s for %zu samples", path, a.size[0], noun, n);
    if ((status = fli_load_volume(ctx, path, a.size, a.dims, sizeof **out, &values))) return status;
    return read_numbers(ctx, s, &a, values, out);
}

static fl_status number_all(fl_ctx *ctx, const char *path, const double *v, size_t n, fli_labels *labels, int32_t **out)
{
    fl_status status = FL_OK;
    if (!(*out = fli_alloc(ctx, n, sizeof **out))) return FL_ENOMEM;
    for (size_t i = 0; status == FL_OK && i < n; i++)
        status = fli_labels_read_number(labels, v[i], (fli_place){path, FLI_SAMPLE, i}, &(*out)[i]);
    return status ? status : fli_labels_order(labels, *out, n);
}

/* labels NULL: the numbers are values to predict. */
static fl_status load_y(fl_ctx *ctx, const fli_array_place *at, fli_labels *labels, fli_dataset *ds)
{
    fli_stream *s = NULL;
    double *v = NULL;
    fl_status status = open_array(ctx, at, &s);
    if (status == FL_OK) status = read_column(ctx, s, ds->n, labels ? "labels" : "targets", &v);
    for (size_t i = 0; status == FL_OK && !labels && i < ds->n; i++)
        if (!isfinite(v[i]))
            status = fli_fail(ctx, FL_EFORMAT, "%s: sample %zu has target %g, which is not finite", fli_stream_path(s),
                              i, v[i]);
    if (status == FL_OK && labels) {
        status = number_all(ctx, fli_stream_path(s), v, ds->n, labels, &ds->label);
        ds->classes = labels->classes;
    } else if (status == FL_OK) {
        ds->target = v;
        v = NULL;
    }
    fli_free(v);
    fli_stream_close(s);
    return status;
}

static fl_status load_groups(fl_ctx *ctx, const fli_array_place *at, fli_dataset *ds)
{
    fli_stream *s = NULL;
    fli_labels ids;
    double *v = NULL;
    if (!*at->file) return FL_OK;
    fli_groups_init(&ids, ctx);
    fl_status status = open_array(ctx, at, &s);
    if (status == FL_OK) status = read_column(ctx, s, ds->n, "groups", &v);
    if (status == FL_OK) status = number_all(ctx, fli_stream_path(s), v, ds->n, &ids, &ds->group);
    ds->groups = ids.classes;
    fli_labels_fini(&ids);
    fli_free(v);
    fli_stream_close(s);
    return status;
}

static fl_status load_part(fl_ctx *ctx, const fli_array_set *set, fli_labels *labels, fli_dataset **out)
{
    *out = fli_alloc(ctx, 1, sizeof **out);
    if (!*out) return FL_ENOMEM;
    fl_status status = load_x(ctx, set, *out);
    if (status == FL_OK) status = load_y(ctx, &set->y, labels, *out);
    if (status == FL_OK) status = load_groups(ctx, &set->groups, *out);
    return status ? status : fli_dataset_check(ctx, *out, (*out)->origin);
}

fl_status fli_numpy_load(fl_ctx *ctx, const fli_array_set *train, const fli_array_set *test, int task, size_t classes,
                         fli_dataset **a, fli_dataset **b)
{
    fli_labels labels, *used = task == FLI_TASK_REGRESSION ? NULL : &labels;
    fli_dataset *first = NULL, *second = NULL;
    fli_labels_init(&labels, ctx, classes);
    if (task == FLI_TASK_AUTO) fli_labels_guess(&labels, train->client, "");
    fl_status status = load_part(ctx, train, used, &first);
    if (status == FL_OK && *test->x.file) {
        status = load_part(ctx, test, used, &second);
        if (status == FL_OK) status = fli_load_check_test(ctx, test->x.file, first, second);
    }
    if (status == FL_OK && used) status = fli_labels_name(used, train->y.file, first);
    fli_labels_fini(&labels);
    return fli_load_hand_out(status, first, second, a, b);
}
