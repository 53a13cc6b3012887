/* NumPy arrays as samples: parses the header, converts values of any type and order, builds a data set from several
 * arrays. The sources `npy` (an array per file) and `npz` (several in one archive). */
#include "data/source/numpy.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

/* ==== the header ============================================================================================ */

/* In Python syntax: {'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784), }. */

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are read as they lie in the file");

enum { LONGEST_HEADER = 1 << 20 };

/* ---- the text ------------------------------------------------------------------------------------------- */

/* A position in the header's text. */
typedef struct {
    const char *p;
} cursor;

static void skip_blanks(cursor *c) { c->p += strspn(c->p, " \t\n\r"); }

static int take(cursor *c, const char *word)
{
    skip_blanks(c);
    size_t n = strlen(word);
    if (strncmp(c->p, word, n)) return 0;
    c->p += n;
    return 1;
}

/* 'text' or "text" of at most FLI_NUMPY_TYPE characters. */
static int take_string(cursor *c, char *out)
{
    skip_blanks(c);
    char quote = *c->p;
    if (quote != '\'' && quote != '"') return 0;
    size_t n = 0;
    for (c->p++; *c->p && *c->p != quote && n < FLI_NUMPY_TYPE; c->p++) out[n++] = *c->p;
    out[n] = 0;
    return *c->p == quote ? (c->p++, 1) : 0;
}

static int take_size(cursor *c, uint64_t *out)
{
    skip_blanks(c);
    uint64_t v = 0;
    const char *start = c->p;
    for (; *c->p >= '0' && *c->p <= '9' && v < UINT64_MAX / 100; c->p++) v = 10 * v + (uint64_t)(*c->p - '0');
    *out = v;
    return c->p > start && (*c->p < '0' || *c->p > '9');
}

/* (), (3,) or (3, 4) */
static int take_shape(cursor *c, fli_numpy *h)
{
    if (!take(c, "(")) return 0;
    for (h->dims = 0; !take(c, ")"); h->dims++) {
        if (h->dims == FLI_NUMPY_DIMS || !take_size(c, &h->size[h->dims])) return 0;
        if (!take(c, ",")) {
            h->dims++;
            return take(c, ")");
        }
    }
    return 1;
}

/* A type with named fields is a list. It is skipped, so that the error can name it. */
static int take_fields(cursor *c, fli_numpy *h)
{
    size_t depth = 0;
    char quote = 0;
    skip_blanks(c);
    if (*c->p != '[') return 0;
    do {
        if (!*c->p) return 0;
        if (quote)
            quote = *c->p == quote ? 0 : quote;
        else if (*c->p == '\'' || *c->p == '"')
            quote = *c->p;
        else
            depth += (size_t)(*c->p == '[') - (size_t)(*c->p == ']');
        c->p++;
    } while (depth);
    strcpy(h->type, "[...]");
    return 1;
}

/* One pair of the dictionary; `seen` gets a bit for its key. */
static int take_pair(cursor *c, fli_numpy *h, unsigned *seen)
{
    char key[FLI_NUMPY_TYPE + 1];
    if (!take_string(c, key) || !take(c, ":")) return 0;
    if (!strcmp(key, "descr")) {
        *seen |= 1;
        return take_fields(c, h) || take_string(c, h->type);
    }
    if (!strcmp(key, "fortran_order")) {
        *seen |= 2;
        h->fortran = take(c, "True");
        return h->fortran || take(c, "False");
    }
    if (strcmp(key, "shape")) return 0;
    *seen |= 4;
    return take_shape(c, h);
}

static int parse(cursor *c, fli_numpy *h)
{
    unsigned seen = 0;
    int more = 1;
    if (!take(c, "{")) return 0;
    while (more && !take(c, "}")) {
        if (!take_pair(c, h, &seen)) return 0;
        more = take(c, ",");
        if (!more && !take(c, "}")) return 0;
    }
    skip_blanks(c);
    return seen == 7 && !*c->p;
}

/* Reads the text after the magic and terminates it. */
static fl_status read_text(fl_ctx *ctx, fli_stream *s, char **text, size_t *length)
{
    uint8_t b[8], l[4] = {0};
    const char *path = fli_stream_path(s);
    fl_status status = fli_stream_need(s, b, 8, "an NPY header");
    if (status) return status;
    if (memcmp(b, "\x93NUMPY", 6))
        return fli_fail(ctx, FL_EFORMAT, "%s: does not start as an NPY file at offset 0", path);
    if (b[6] < 1 || b[6] > 3 || b[7])
        return fli_fail(ctx, FL_EFORMAT, "%s: is of NPY version %u.%u at offset 6, not 1.0, 2.0 or 3.0", path, b[6],
                        b[7]);
    if ((status = fli_stream_need(s, l, b[6] == 1 ? 2 : 4, "the length of the NPY header"))) return status;
    *length = l[0] | (size_t)l[1] << 8 | (size_t)l[2] << 16 | (size_t)l[3] << 24;
    if (*length > LONGEST_HEADER)
        return fli_fail(ctx, FL_EFORMAT, "%s: the header length at offset 8 is %zu, more than 1 MiB", path, *length);
    *text = fli_alloc(ctx, *length + 1, 1);
    return *text ? fli_stream_need(s, *text, *length, "the NPY header") : FL_ENOMEM;
}

/* ---- the type ------------------------------------------------------------------------------------------- */

/* What values of a refused type are, for the error. */
static const char *kind_name(const char *type)
{
    static const struct {
        char kind;
        const char *what;
    } known[] = {{'c', "complex numbers"}, {'O', "Python objects"}, {'S', "texts"},    {'a', "texts"},
                 {'U', "texts"},           {'T', "texts"},          {'M', "dates"},    {'m', "time spans"},
                 {'V', "records"},         {'f', "floats"},         {'i', "integers"}, {'u', "integers"}};
    if (*type == '[') return "records";
    for (size_t i = 0; *type && i < sizeof known / sizeof *known; i++)
        if (type[1] == known[i].kind) return known[i].what;
    return "values";
}

/* Splits a type into byte order ('<' the host's, '>' the other, '|' and '=' either), kind and width. */
static int read_type(fli_numpy *h)
{
    const char *t = h->type;
    static const char *const widths[] = {"b1", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8"};
    if (!*t || !strchr("<>|=", *t)) return 0;
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++)
        if (!strcmp(t + 1, widths[i])) h->kind = t[1];
    h->width = h->kind ? (size_t)(t[2] - '0') : 0;
    h->swapped = *t == '>' && h->width > 1;
    return h->kind != 0;
}

/* Reads the header. FL_EFORMAT for types other than real numbers, with the type's name. */
static fl_status read_header(fl_ctx *ctx, fli_stream *s, fli_numpy *h)
{
    char *text = NULL;
    size_t length = 0;
    fl_status status = read_text(ctx, s, &text, &length);
    memset(h, 0, sizeof *h);
    if (status == FL_OK) {
        cursor c = {text};
        if (!parse(&c, h) || c.p != text + length)
            status =
                fli_fail(ctx, FL_EFORMAT, "%s: the NPY header is not understood at offset %" PRIu64 ": %s",
                         fli_stream_path(s), fli_stream_offset(s) - length + (uint64_t)(c.p - text), fli_quote(c.p).s);
        else if (!read_type(h))
            status = fli_fail(ctx, FL_EFORMAT,
                              "%s: holds %s of type %s, but must be an array " FLI_NUMPY_TYPES
                              "; convert it, for instance by %s",
                              fli_stream_path(s), kind_name(h->type), fli_quote(h->type).s,
                              strcmp(kind_name(h->type), "texts") ? ".astype(\"float32\")"
                                                                  : "numpy.unique(labels, return_inverse=True)[1]");
    }
    fli_free(text);
    return status;
}

/* ==== values and data sets ================================================================================== */

/* ---- values --------------------------------------------------------------------------------------------- */

static uint64_t bits_at(const fli_numpy *a, const uint8_t *p)
{
    uint64_t v = 0;
    for (size_t i = 0; i < a->width; i++) v = v << 8 | p[a->swapped ? i : a->width - 1 - i];
    return v;
}

/* A half-precision float: a sign, 5 bits of exponent, 10 of fraction. */
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

/* Iterates over the values with the last index running fastest; `at` is the position in the file. */
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

/* Reads the n values behind the header as doubles, the last index running fastest. */
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

/* True if the file's bytes are what the data set stores. */
static int stored_alike(const fli_numpy *a)
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
    if (stored_alike(a)) {
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
    fl_status status = read_header(ctx, s, &a);
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

/* Reads an array that must have one number for each of n samples. */
static fl_status read_column(fl_ctx *ctx, fli_stream *s, size_t n, const char *noun, double **out)
{
    fli_numpy a;
    size_t values;
    const char *path = fli_stream_path(s);
    fl_status status = read_header(ctx, s, &a);
    if (status) return status;
    if (a.dims != 1 && !(a.dims == 2 && a.size[1] == 1))
        return fli_fail(ctx, FL_EFORMAT, "%s: %s have %zu dimensions, but must be one column", path, noun, a.dims);
    if (a.size[0] != n)
        return fli_fail(ctx, FL_EFORMAT, "%s: has %" PRIu64 " %s for %zu samples", path, a.size[0], noun, n);
    if ((status = fli_load_volume(ctx, path, a.size, a.dims, sizeof **out, &values))) return status;
    return read_numbers(ctx, s, &a, values, out);
}

static fl_status number_all(fl_ctx *ctx, const char *path, const double *v, size_t n, fli_label_names *labels,
                            int32_t **out)
{
    fl_status status = FL_OK;
    if (!(*out = fli_alloc(ctx, n, sizeof **out))) return FL_ENOMEM;
    for (size_t i = 0; status == FL_OK && i < n; i++)
        status = fli_label_names_read_number(labels, v[i], (fli_origin){path, FLI_SAMPLE, i}, &(*out)[i]);
    return status ? status : fli_label_names_order(labels, *out, n);
}

/* labels NULL: the numbers are targets. */
static fl_status load_y(fl_ctx *ctx, const fli_array_place *at, fli_label_names *labels, fli_dataset *ds)
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
    fli_label_names ids;
    double *v = NULL;
    if (!*at->file) return FL_OK;
    fli_groups_init(&ids, ctx);
    fl_status status = open_array(ctx, at, &s);
    if (status == FL_OK) status = read_column(ctx, s, ds->n, "groups", &v);
    if (status == FL_OK) status = number_all(ctx, fli_stream_path(s), v, ds->n, &ids, &ds->group);
    ds->groups = ids.classes;
    fli_label_names_fini(&ids);
    fli_free(v);
    fli_stream_close(s);
    return status;
}

static fl_status load_part(fl_ctx *ctx, const fli_array_set *set, fli_label_names *labels, fli_dataset **out)
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
    fli_label_names labels, *used = task == FLI_TASK_REGRESSION ? NULL : &labels;
    fli_dataset *first = NULL, *second = NULL;
    fli_label_names_init(&labels, ctx, classes);
    if (task == FLI_TASK_AUTO) fli_label_names_guess(&labels, train->client, "");
    fl_status status = load_part(ctx, train, used, &first);
    if (status == FL_OK && *test->x.file) {
        status = load_part(ctx, test, used, &second);
        if (status == FL_OK) status = fli_load_check_test(ctx, test->x.file, first, second);
    }
    if (status == FL_OK && used) status = fli_label_names_name(used, train->y.file, first);
    fli_label_names_fini(&labels);
    return fli_load_hand_out(status, first, second, a, b);
}

/* ==== the source npy ======================================================================================== */

typedef struct {
    char *train_x, *train_y, *train_groups, *test_x, *test_y;
    int task;
    int64_t classes;
} npy_params;

static fl_status npy_load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    const npy_params *p = request->params;
    *train = *test = NULL;
    if (!*p->test_x != !*p->test_y)
        return fli_fail(ctx, FL_ECONFIG, "test_x is '%s' and test_y is '%s': give both or neither", p->test_x,
                        p->test_y);
    fli_array_set a = {{p->train_x, NULL},
                       {p->train_y, NULL},
                       {p->train_groups, NULL},
                       .map = request->map,
                       .client = request->client};
    fli_array_set b = {{p->test_x, NULL}, {p->test_y, NULL}, {"", NULL}};
    return fli_numpy_load(ctx, &a, &b, p->task, (size_t)p->classes, train, test);
}

static const fl_key npy_keys[] = {
    FLI_KEY_STRING(npy_params, train_x, NULL,
                   "training features: n x d, n x h x w or n x c x h x w " FLI_NUMPY_TYPES
                   "; `normalize` treats only u1 as bytes"),
    FLI_KEY_STRING(npy_params, train_y, NULL, "training labels or targets: n numbers"),
    FLI_KEY_STRING(npy_params, train_groups, "", "n whole numbers, the owner of each training sample; '' for none"),
    FLI_KEY_STRING(npy_params, test_x, "", "test features; '' for no test set"),
    FLI_KEY_STRING(npy_params, test_y, "", "test labels or targets; '' for no test set"),
    FLI_KEY_CHOICE(npy_params, task, "auto", FLI_TASK_WORDS,
                   "what the y files hold: labels, which are whole numbers, or the values to predict" FLI_TASK_HELP),
    FLI_KEY_INT(npy_params, classes, "0", 0, FLI_MOST_LABELS, FLI_CLASSES_HELP),
    FLI_KEY_END,
};

const fli_source fli_source_npy = {
    .name = "npy",
    .title = "NumPy arrays: one file of features, one of labels or targets",
    .needs = "the files named by train_x and train_y as numpy.save writes them, plain or as .gz, .xz or .zip",
    .keys = npy_keys,
    .params_size = sizeof(npy_params),
    .load = npy_load,
};

/* ==== the source npz ======================================================================================== */

typedef struct {
    char *train, *test, *x, *y, *groups, *test_x, *test_y;
    int task;
    int64_t classes;
} npz_params;

static const char *or_else(const char *name, const char *otherwise) { return *name ? name : otherwise; }

static fl_status npz_load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    const npz_params *p = request->params;
    *train = *test = NULL;
    if (!strcmp(p->train, p->test) && !strcmp(or_else(p->test_x, p->x), p->x))
        return fli_fail(ctx, FL_ECONFIG,
                        "%s: data.train and data.test are the same array %s; name another one in data.test_x", p->train,
                        p->x);
    fli_array_set a = {
        {p->train, p->x}, {p->train, p->y}, {*p->groups ? p->train : "", p->groups}, .client = request->client};
    fli_array_set b = {{p->test, or_else(p->test_x, p->x)}, {p->test, or_else(p->test_y, p->y)}, {"", NULL}};
    return fli_numpy_load(ctx, &a, &b, p->task, (size_t)p->classes, train, test);
}

static const fl_key npz_keys[] = {
    FLI_KEY_STRING(npz_params, train, NULL, "archive with the training samples"),
    FLI_KEY_STRING(npz_params, test, "", "archive with the test samples, which may be the same one; '' for none"),
    FLI_KEY_STRING(npz_params, x, "x",
                   "name of the array of features: n x d, n x h x w or n x c x h x w " FLI_NUMPY_TYPES
                   "; `normalize` treats only u1 as bytes"),
    FLI_KEY_STRING(npz_params, y, "y", "name of the array of labels or targets: n numbers"),
    FLI_KEY_STRING(npz_params, groups, "",
                   "name of an array of n whole numbers, the owner of each training sample; '' for none"),
    FLI_KEY_STRING(npz_params, test_x, "", "name of the array of test features; '' for the name in x"),
    FLI_KEY_STRING(npz_params, test_y, "", "name of the array of test labels or targets; '' for the name in y"),
    FLI_KEY_CHOICE(npz_params, task, "auto", FLI_TASK_WORDS,
                   "what the array y holds: labels, which are whole numbers, or the values to predict" FLI_TASK_HELP),
    FLI_KEY_INT(npz_params, classes, "0", 0, FLI_MOST_LABELS, FLI_CLASSES_HELP),
    FLI_KEY_END,
};

const fli_source fli_source_npz = {
    .name = "npz",
    .title = "NumPy archives: features and labels or targets as arrays of one .npz file",
    .needs = "a file as numpy.savez or numpy.savez_compressed writes it, with arrays called x and y or as the keys "
             "name them",
    .keys = npz_keys,
    .params_size = sizeof(npz_params),
    .load = npz_load,
};
