/* NumPy's .npy arrays: a header in Python syntax ({'descr': '<f4', 'fortran_order': False, 'shape': (60000, 784), }), then the
 * values. Features stay in the type they come in. */
#include "data/load.h"
#include "data/source.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "values are read as they lie in the file");

enum { MOST_DIMS = 8, LONGEST_HEADER = 1 << 20, LONGEST_TYPE = 15 };

typedef struct {
    char *train_x, *train_y, *test_x, *test_y;
    int task;
} params;

typedef struct {
    char type[LONGEST_TYPE + 1];
    int fortran;
    size_t dims;
    uint64_t size[MOST_DIMS];
} header;

/* ---- the header ----------------------------------------------------------------------------------------- */

/* A place in the header's text. */
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

/* 'text' or "text" of at most LONGEST_TYPE characters. */
static int take_string(cursor *c, char *out)
{
    skip_blanks(c);
    char quote = *c->p;
    if (quote != '\'' && quote != '"') return 0;
    size_t n = 0;
    for (c->p++; *c->p && *c->p != quote && n < LONGEST_TYPE; c->p++) out[n++] = *c->p;
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
static int take_shape(cursor *c, header *h)
{
    if (!take(c, "(")) return 0;
    for (h->dims = 0; !take(c, ")"); h->dims++) {
        if (h->dims == MOST_DIMS || !take_size(c, &h->size[h->dims])) return 0;
        if (!take(c, ",")) {
            h->dims++;
            return take(c, ")");
        }
    }
    return 1;
}

/* One pair of the dictionary; `seen` gets a bit for its key. */
static int take_pair(cursor *c, header *h, unsigned *seen)
{
    char key[LONGEST_TYPE + 1];
    if (!take_string(c, key) || !take(c, ":")) return 0;
    if (!strcmp(key, "descr")) {
        *seen |= 1;
        return take_string(c, h->type);
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

static int parse_header(cursor *c, header *h)
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

/* The text after the magic, terminated. */
static fl_status read_header_text(fl_ctx *ctx, fli_stream *s, char **text, size_t *length)
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

static fl_status read_header(fl_ctx *ctx, fli_stream *s, header *h)
{
    char *text = NULL;
    size_t length = 0;
    fl_status status = read_header_text(ctx, s, &text, &length);
    memset(h, 0, sizeof *h);
    if (status == FL_OK) {
        cursor c = {text};
        if (!parse_header(&c, h) || c.p != text + length)
            status =
                fli_fail(ctx, FL_EFORMAT, "%s: the NPY header is not understood at offset %" PRIu64 ": %s",
                         fli_stream_path(s), fli_stream_offset(s) - length + (uint64_t)(c.p - text), fli_show(c.p).s);
        else if (h->fortran)
            status = fli_fail(ctx, FL_EFORMAT, "%s: fortran_order is True; only C order is read (np.ascontiguousarray)",
                              fli_stream_path(s));
    }
    fli_free(text);
    return status;
}

/* ---- features ------------------------------------------------------------------------------------------- */

/* (n, d), (n, h, w) or (n, c, h, w); more dimensions are flattened. */
static void set_shape(fli_dataset *ds, const header *h)
{
    ds->shape[0] = h->dims == 4 ? (size_t)h->size[1] : 1;
    ds->shape[1] = h->dims == 3 || h->dims == 4 ? (size_t)h->size[h->dims - 2] : 1;
    ds->shape[2] = ds->dim / (ds->shape[0] * ds->shape[1]);
}

static fl_status load_x(fl_ctx *ctx, const char *name, fli_dataset *ds)
{
    static const struct {
        const char *type;
        fli_xkind kind;
        size_t size;
    } known[] = {{"|u1", FLI_X_U8, 1}, {"<f4", FLI_X_F32, 4}, {"<f8", FLI_X_F64, 8}};
    fli_stream *s = NULL;
    header h;
    size_t k = 0, values;
    fl_status status = fli_load_open_npy(ctx, name, &s);
    if (status == FL_OK) status = read_header(ctx, s, &h);
    if (status) goto done;
    while (k < 3 && strcmp(h.type, known[k].type)) k++;
    if (k == 3)
        status = fli_fail(ctx, FL_EFORMAT, "%s: features are of type %s, not |u1, <f4 or <f8", fli_stream_path(s),
                          fli_show(h.type).s);
    else if (h.dims < 2)
        status = fli_fail(ctx, FL_EFORMAT, "%s: features have %zu dimensions, but need 2 or more", fli_stream_path(s),
                          h.dims);
    else
        status = fli_load_volume(ctx, fli_stream_path(s), h.size, h.dims, known[k].size, &values);
    if (status) goto done;
    ds->kind = known[k].kind;
    ds->n = (size_t)h.size[0];
    ds->dim = values / ds->n;
    set_shape(ds, &h);
    status = fli_load_body(ctx, s, values * known[k].size, "the values its header promises", &ds->x);
    if (status == FL_OK) status = fli_stream_end(s);
done:
    fli_stream_close(s);
    return status;
}

/* ---- labels and targets --------------------------------------------------------------------------------- */

static double get_u1(const char *p) { return *(const uint8_t *)p; }
static double get_i1(const char *p) { return *(const int8_t *)p; }
#define GET(name, type)                                                                                                \
    static double name(const char *p)                                                                                  \
    {                                                                                                                  \
        type v;                                                                                                        \
        memcpy(&v, p, sizeof v);                                                                                       \
        return (double)v;                                                                                              \
    }
GET(get_i2, int16_t)
GET(get_i4, int32_t)
GET(get_i8, int64_t)
GET(get_f4, float)
GET(get_f8, double)

typedef struct {
    const char *type;
    size_t size;
    double (*get)(const char *p);
} y_type;

static const y_type *find_y_type(const char *type)
{
    static const y_type known[] = {{"|u1", 1, get_u1}, {"|i1", 1, get_i1}, {"<i2", 2, get_i2}, {"<i4", 4, get_i4},
                                   {"<i8", 8, get_i8}, {"<f4", 4, get_f4}, {"<f8", 8, get_f8}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(type, known[i].type)) return &known[i];
    return NULL;
}

/* The raw values of a file that must have one for each of ds->n samples. */
static fl_status read_y(fl_ctx *ctx, fli_stream *s, size_t n, const y_type **type, void **raw)
{
    header h;
    size_t values;
    const char *path = fli_stream_path(s);
    fl_status status = read_header(ctx, s, &h);
    if (status) return status;
    *type = find_y_type(h.type);
    if (!*type)
        return fli_fail(ctx, FL_EFORMAT, "%s: labels are of type %s, not |u1, |i1, <i2, <i4, <i8, <f4 or <f8", path,
                        fli_show(h.type).s);
    if (h.dims != 1 && !(h.dims == 2 && h.size[1] == 1))
        return fli_fail(ctx, FL_EFORMAT, "%s: labels have %zu dimensions, but must be one column", path, h.dims);
    if (h.size[0] != n)
        return fli_fail(ctx, FL_EFORMAT, "%s: has %" PRIu64 " labels for %zu samples", path, h.size[0], n);
    if ((status = fli_load_volume(ctx, path, h.size, h.dims, (*type)->size, &values))) return status;
    status = fli_load_body(ctx, s, values * (*type)->size, "the values its header promises", raw);
    return status ? status : fli_stream_end(s);
}

static fl_status convert_labels(fl_ctx *ctx, const char *path, const y_type *type, const char *raw, fli_dataset *ds)
{
    ds->label = fli_alloc(ctx, ds->n, sizeof *ds->label);
    if (!ds->label) return FL_ENOMEM;
    for (size_t i = 0; i < ds->n; i++) {
        double v = type->get(raw + i * type->size);
        if (!(v >= 0 && v < FLI_MOST_LABELS) || v != floor(v))
            return fli_fail(ctx, FL_EFORMAT, "%s: sample %zu has label %g, not a whole number in 0 .. %d", path, i, v,
                            FLI_MOST_LABELS - 1);
        ds->label[i] = (int32_t)v;
    }
    fli_load_count_classes(ds);
    return FL_OK;
}

static fl_status convert_targets(fl_ctx *ctx, const char *path, const y_type *type, const char *raw, fli_dataset *ds)
{
    ds->target = fli_alloc(ctx, ds->n, sizeof *ds->target);
    if (!ds->target) return FL_ENOMEM;
    for (size_t i = 0; i < ds->n; i++) {
        ds->target[i] = type->get(raw + i * type->size);
        if (!isfinite(ds->target[i]))
            return fli_fail(ctx, FL_EFORMAT, "%s: sample %zu has target %g, which is not finite", path, i,
                            ds->target[i]);
    }
    return FL_OK;
}

static fl_status load_y(fl_ctx *ctx, const char *name, int task, fli_dataset *ds)
{
    fli_stream *s = NULL;
    const y_type *type = NULL;
    void *raw = NULL;
    fl_status status = fli_load_open_npy(ctx, name, &s);
    if (status == FL_OK) status = read_y(ctx, s, ds->n, &type, &raw);
    if (status == FL_OK)
        status = task == FLI_TASK_CLASSIFICATION ? convert_labels(ctx, fli_stream_path(s), type, raw, ds)
                                                 : convert_targets(ctx, fli_stream_path(s), type, raw, ds);
    fli_free(raw);
    fli_stream_close(s);
    return status;
}

/* ---- the source ----------------------------------------------------------------------------------------- */

static fl_status load_part(fl_ctx *ctx, const char *x, const char *y, int task, fli_dataset **out)
{
    *out = fli_alloc(ctx, 1, sizeof **out);
    if (!*out) return FL_ENOMEM;
    fl_status status = load_x(ctx, x, *out);
    if (status == FL_OK) status = load_y(ctx, y, task, *out);
    return status ? status : fli_dataset_check(ctx, *out, x);
}

static fl_status load(fl_ctx *ctx, const fli_request *ask, fli_dataset **train, fli_dataset **test)
{
    const params *p = ask->params;
    fli_dataset *a = NULL, *b = NULL;
    *train = *test = NULL;
    if (!*p->test_x != !*p->test_y)
        return fli_fail(ctx, FL_ECONFIG, "test_x is '%s' and test_y is '%s': give both or neither", p->test_x,
                        p->test_y);
    fl_status status = load_part(ctx, p->train_x, p->train_y, p->task, &a);
    if (status == FL_OK && *p->test_x) {
        status = load_part(ctx, p->test_x, p->test_y, p->task, &b);
        if (status == FL_OK) status = fli_load_check_test(ctx, p->test_x, a, b);
    }
    return fli_load_hand_out(status, a, b, train, test);
}

static const fli_key keys[] = {
    FLI_KEY_STRING(params, train_x, NULL, "training features: n x d, n x h x w or n x c x h x w of |u1, <f4 or <f8"),
    FLI_KEY_STRING(params, train_y, NULL, "training labels 0, 1, ... or targets: n numbers"),
    FLI_KEY_STRING(params, test_x, "", "test features; '' for no test set"),
    FLI_KEY_STRING(params, test_y, "", "test labels or targets; '' for no test set"),
    FLI_KEY_CHOICE(params, task, "classification", FLI_TASK_WORDS,
                   "what the y files hold: labels 0, 1, ..., or the values to predict"),
    FLI_KEY_END,
};

const fli_source fli_source_npy = {
    .name = "npy",
    .title = "NumPy arrays: one file of features, one of labels or targets",
    .needs = "the files named by train_x and train_y as numpy.save writes them, plain or as .gz, .xz or .zip",
    .keys = keys,
    .params_size = sizeof(params),
    .load = load,
};
