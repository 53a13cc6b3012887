/* LIBSVM (svmlight) text: one sample a line, `label index:value index:value ...`, indices from 1 and ascending, zeros left out,
 * `#` starts a comment. Kept sparse where that takes less memory. */
#include "data/names.h"
#include "data/load.h"
#include "data/source.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

enum { MOST_CLASSES = 1000 };

typedef struct {
    char *train, *test;
    int64_t features;
    int task, storage;
} params;

enum { STORAGE_AUTO, STORAGE_SPARSE, STORAGE_DENSE };

/* A file being read. */
typedef struct {
    fl_ctx *ctx;
    const char *path;
    size_t line;
    uint32_t features;  /* largest index allowed */
    uint32_t largest;   /* largest index seen */
    fli_labels *labels; /* NULL: regression */
    fli_array row, col, value, label, target;
} reader;

#define AT "%s:%zu: " /* with r->path, r->line */

static fl_status add_answer(reader *r, const char *text)
{
    void *room;
    fl_status s = fli_array_add(r->ctx, r->labels ? &r->label : &r->target, 1, &room);
    if (s) return s;
    double v;
    const char *wrong = fli_number_read(text, DBL_MAX, &v);
    if (wrong) return fli_fail(r->ctx, FL_EFORMAT, AT "the label %s %s", r->path, r->line, fli_show(text).s, wrong);
    if (r->labels) return fli_labels_read(r->labels, text, r->path, r->line, room);
    *(double *)room = v;
    return FL_OK;
}

/* The number before the colon; `last` is the one before it in this row, 0 if none. */
static fl_status read_index(reader *r, const char *token, const char *colon, uint32_t last, uint32_t *out)
{
    uint64_t index = 0;
    const char *p = token;
    while (p < colon && *p >= '0' && *p <= '9' && index <= UINT32_MAX) index = 10 * index + (uint64_t)(*p++ - '0');
    if (p == token || (p < colon && index <= UINT32_MAX))
        return fli_fail(r->ctx, FL_EFORMAT, AT "%s does not start with a whole number and a colon", r->path, r->line,
                        fli_show(token).s);
    if (!index) return fli_fail(r->ctx, FL_EFORMAT, AT "index 0; indices start at 1", r->path, r->line);
    if (index > r->features)
        return fli_fail(r->ctx, FL_EFORMAT, AT "index %" PRIu64 " is above the %" PRIu32 " features", r->path, r->line,
                        index, r->features);
    if (index <= last)
        return fli_fail(r->ctx, FL_EFORMAT, AT "index %" PRIu64 " %s index %" PRIu32 "; indices must ascend", r->path,
                        r->line, index, index == last ? "repeats" : "follows", last);
    *out = (uint32_t)index;
    return FL_OK;
}

static fl_status add_feature(reader *r, const char *token, uint32_t *last)
{
    const char *colon = strchr(token, ':');
    uint32_t index = 0;
    double v;
    void *col, *value;
    if (!colon) return fli_fail(r->ctx, FL_EFORMAT, AT "%s is not index:value", r->path, r->line, fli_show(token).s);
    fl_status s = read_index(r, token, colon, *last, &index);
    if (s) return s;
    const char *wrong = fli_number_read(colon + 1, (double)FLT_MAX, &v);
    if (wrong)
        return fli_fail(r->ctx, FL_EFORMAT, AT "the value %s of index %" PRIu32 " %s", r->path, r->line,
                        fli_show(colon + 1).s, index, wrong);
    if ((s = fli_array_add(r->ctx, &r->col, 1, &col)) || (s = fli_array_add(r->ctx, &r->value, 1, &value))) return s;
    *(uint32_t *)col = index - 1;
    *(float *)value = (float)v;
    *last = index;
    if (index > r->largest) r->largest = index;
    return FL_OK;
}

static fl_status read_row(reader *r, char *line)
{
    static const char blank[] = " \t\r\v\f";
    char *save = NULL;
    uint32_t last = 0;
    void *end;
    line[strcspn(line, "#")] = 0;
    char *token = strtok_r(line, blank, &save);
    if (!token) return FL_OK;
    fl_status s = add_answer(r, token);
    while (s == FL_OK && (token = strtok_r(NULL, blank, &save))) s = add_feature(r, token, &last);
    if (s == FL_OK) s = fli_array_add(r->ctx, &r->row, 1, &end);
    if (s == FL_OK) *(size_t *)end = r->col.n;
    return s;
}

static fl_status read_rows(reader *r, fli_stream *s)
{
    fl_status status;
    char *line;
    size_t length;
    void *start;
    if ((status = fli_array_add(r->ctx, &r->row, 1, &start))) return status;
    while (!(status = fli_stream_line(s, &line, &length)) && line) {
        r->line++;
        if ((status = read_row(r, line))) return status;
    }
    if (status == FL_OK && r->row.n < 2)
        return fli_fail(r->ctx, FL_EFORMAT, "%s: has no samples in its %zu lines", r->path, r->line);
    return status;
}

/* Moves what was read into a data set; its dim is the largest index for now. */
static fl_status finish(reader *r, fli_dataset *ds)
{
    fl_status s;
    ds->kind = FLI_X_CSR;
    ds->n = r->row.n - 1;
    ds->dim = r->largest;
    if (r->labels && !r->labels->classes && (s = fli_labels_order(r->labels, r->label.p, ds->n))) return s;
    ds->classes = r->labels ? r->labels->classes : 0;
    if ((s = fli_array_take(r->ctx, &r->row, (void **)&ds->row)) ||
        (s = fli_array_take(r->ctx, &r->col, (void **)&ds->col)) || (s = fli_array_take(r->ctx, &r->value, &ds->x)))
        return s;
    return r->labels ? fli_array_take(r->ctx, &r->label, (void **)&ds->label)
                     : fli_array_take(r->ctx, &r->target, (void **)&ds->target);
}

static fl_status load_part(fl_ctx *ctx, const char *name, uint32_t features, fli_labels *labels, fli_dataset **out)
{
    fli_stream *s = NULL;
    reader r = {.ctx = ctx,
                .features = features,
                .labels = labels,
                .row = {.size = sizeof(size_t)},
                .col = {.size = sizeof(uint32_t)},
                .value = {.size = sizeof(float)},
                .label = {.size = sizeof(int32_t)},
                .target = {.size = sizeof(double)}};
    *out = fli_alloc(ctx, 1, sizeof **out);
    if (!*out) return FL_ENOMEM;
    fl_status status = fli_load_open_text(ctx, name, &s);
    if (status == FL_OK) {
        r.path = fli_stream_path(s);
        status = read_rows(&r, s);
    }
    if (status == FL_OK) status = finish(&r, *out);
    fli_array_fini(&r.row);
    fli_array_fini(&r.col);
    fli_array_fini(&r.value);
    fli_array_fini(&r.label);
    fli_array_fini(&r.target);
    fli_stream_close(s);
    return status;
}

static void set_features(fli_dataset *ds, size_t dim)
{
    ds->dim = dim;
    ds->shape[0] = ds->shape[1] = 1;
    ds->shape[2] = dim;
}

/* A value takes 4 bytes when dense; when sparse, 8 with its index, and each row its start. */
static int smaller_dense(const fli_dataset *a, const fli_dataset *b)
{
    double rows = (double)a->n + (b ? (double)b->n : 0);
    double values = (double)fli_dataset_stored(a) + (b ? (double)fli_dataset_stored(b) : 0);
    double sparse = values * (sizeof(float) + sizeof *a->col) + rows * sizeof *a->row;
    return rows * (double)a->dim * sizeof(float) <= sparse;
}

/* Both parts are stored alike. */
static fl_status store(fl_ctx *ctx, int storage, fli_dataset *a, fli_dataset *b)
{
    if (storage == STORAGE_SPARSE || (storage == STORAGE_AUTO && !smaller_dense(a, b))) return FL_OK;
    fl_status s = fli_dataset_densify(ctx, a);
    return s || !b ? s : fli_dataset_densify(ctx, b);
}

static fl_status load(fl_ctx *ctx, const fli_request *ask, fli_dataset **train, fli_dataset **test)
{
    const params *p = ask->params;
    fli_dataset *a = NULL, *b = NULL;
    fli_labels labels, *classes = p->task == FLI_TASK_CLASSIFICATION ? &labels : NULL;
    uint32_t most = p->features ? (uint32_t)p->features : INT32_MAX;
    *train = *test = NULL;
    fli_labels_init(&labels, ctx, "label", MOST_CLASSES);
    fl_status status = load_part(ctx, p->train, most, classes, &a);
    if (status == FL_OK && *p->test) status = load_part(ctx, p->test, most, classes, &b);
    if (status == FL_OK) {
        size_t dim = p->features ? most : b && b->dim > a->dim ? b->dim : a->dim;
        if (!dim) status = fli_fail(ctx, FL_EFORMAT, "%s: has no features in any of its samples", p->train);
        set_features(a, dim);
        if (b) set_features(b, dim);
    }
    if (status == FL_OK) status = store(ctx, p->storage, a, b);
    if (status == FL_OK && classes) status = fli_labels_log(classes, p->train);
    fli_labels_fini(&labels);
    return fli_load_hand_out(status, a, b, train, test);
}

static const fli_key keys[] = {
    FLI_KEY_STRING(params, train, NULL, "file with the training samples"),
    FLI_KEY_STRING(params, test, "", "file with the test samples; '' for none"),
    FLI_KEY_INT(params, features, "0", 0, INT32_MAX, "number of features; 0 for the largest index in the files"),
    FLI_KEY_CHOICE(
        params, task, "classification", FLI_TASK_WORDS,
        "what the first number of a line is: one of a few labels (classes 0, 1, ... in ascending order), or the "
        "value to predict"),
    FLI_KEY_CHOICE(params, storage, "auto", "auto|sparse|dense",
                   "how the features are kept in memory; auto: sparse if that takes less"),
    FLI_KEY_END,
};

const fli_source fli_source_libsvm = {
    .name = "libsvm",
    .title = "sparse samples as text, in the format of LIBSVM and svmlight",
    .citation = "C.-C. Chang, C.-J. Lin: LIBSVM: a library for support vector machines, 2011",
    .needs = "a text file with lines `label index:value index:value ...`, plain or as .gz, .xz or .zip",
    .keys = keys,
    .params_size = sizeof(params),
    .load = load,
};
