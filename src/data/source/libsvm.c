/* LIBSVM (svmlight) text: one sample a line, `label index:value index:value ...`, indices from 1 (or 0) and ascending,
 * zeros left out. `#` starts a comment; `qid:N` behind the label is the query that a sample belongs to. Samples stay
 * sparse if that takes less memory. */
#include "data/source.h"

#include "data/label_names.h"
#include "data/load.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

typedef struct {
    char *train, *test;
    int64_t features, classes;
    int task, storage, index, groups;
} params;

enum { STORAGE_AUTO, STORAGE_SPARSE, STORAGE_DENSE };
enum { INDEX_ONE, INDEX_ZERO };
enum { GROUPS_NONE, GROUPS_QID };

/* A file being read. */
typedef struct {
    fl_ctx *ctx;
    const params *p;
    const char *path;
    size_t line;
    uint32_t base;                    /* the first index, 0 or 1 */
    uint32_t features;                /* most features allowed */
    uint32_t needed;                  /* largest index so far, as a number of features */
    size_t needed_line;               /* the line of that index */
    const fli_dataset *train;         /* when the test part is read */
    int wide;                         /* values as doubles */
    fli_label_names *labels, *groups; /* NULL: regression; qid is ignored */
    fli_array row, col, value, label, target, group;
} reader;

#define AT "%s:%zu: " /* with r->path, r->line */

static fl_status add_answer(reader *r, const char *text)
{
    void *room;
    fl_status s = fli_array_add(r->ctx, r->labels ? &r->label : &r->target, 1, &room);
    if (s) return s;
    double v;
    const char *wrong = fli_number_read(text, DBL_MAX, &v);
    if (wrong) return fli_fail(r->ctx, FL_EFORMAT, AT "the label %s %s", r->path, r->line, fli_quote(text).s, wrong);
    if (r->labels) return fli_label_names_read(r->labels, text, (fli_origin){r->path, FLI_LINE, r->line}, room);
    *(double *)room = v;
    return FL_OK;
}

/* Reads the index before the colon, which must be at least `next`. */
static fl_status read_index(reader *r, const char *token, const char *colon, uint32_t next, uint32_t *out)
{
    uint64_t index = 0;
    const char *p = token;
    while (p < colon && *p >= '0' && *p <= '9' && index <= UINT32_MAX) index = 10 * index + (uint64_t)(*p++ - '0');
    if (p == token || (p < colon && index <= UINT32_MAX))
        return fli_fail(r->ctx, FL_EFORMAT, AT "%s does not start with a whole number and a colon", r->path, r->line,
                        fli_quote(token).s);
    if (index < r->base)
        return fli_fail(r->ctx, FL_EFORMAT,
                        AT "index 0, but indices start at 1; if they start at 0 in this file, say index: zero", r->path,
                        r->line);
    index -= r->base;
    if (index >= r->features)
        return fli_fail(r->ctx, FL_EFORMAT, AT "index %" PRIu64 " is above the %" PRIu32 " features", r->path, r->line,
                        index + r->base, r->features);
    if (index < next)
        return fli_fail(r->ctx, FL_EFORMAT, AT "index %" PRIu64 " %s index %" PRIu32 "; indices must ascend", r->path,
                        r->line, index + r->base, index + 1 == next ? "repeats" : "follows", next - 1 + r->base);
    *out = (uint32_t)index;
    return FL_OK;
}

static fl_status add_feature(reader *r, const char *token, uint32_t *next)
{
    const char *colon = strchr(token, ':');
    uint32_t feature = 0;
    double v;
    void *col, *value;
    if (!colon) return fli_fail(r->ctx, FL_EFORMAT, AT "%s is not index:value", r->path, r->line, fli_quote(token).s);
    fl_status s = read_index(r, token, colon, *next, &feature);
    if (s) return s;
    const char *wrong = fli_number_read(colon + 1, fli_largest_real(r->wide), &v);
    if (wrong)
        return fli_fail(r->ctx, FL_EFORMAT, AT "the value %s of index %" PRIu32 " %s", r->path, r->line,
                        fli_quote(colon + 1).s, feature + r->base, wrong);
    if ((s = fli_array_add(r->ctx, &r->col, 1, &col)) || (s = fli_array_add(r->ctx, &r->value, 1, &value))) return s;
    *(uint32_t *)col = feature;
    fli_store_real(value, r->wide, 0, v);
    *next = feature + 1;
    if (*next > r->needed) {
        r->needed = *next;
        r->needed_line = r->line;
    }
    return FL_OK;
}

/* Reads `qid:N`, if the token is one (*is_query); it becomes the sample's group if `groups` is qid. */
static fl_status add_query(reader *r, const char *token, int *is_query)
{
    void *room;
    *is_query = token && !strncmp(token, "qid:", 4);
    if (!r->groups) return FL_OK;
    if (!*is_query)
        return fli_fail(r->ctx, FL_EFORMAT, AT "no qid:N after the label, but groups is qid", r->path, r->line);
    fl_status s = fli_array_add(r->ctx, &r->group, 1, &room);
    return s ? s : fli_label_names_read(r->groups, token + 4, (fli_origin){r->path, FLI_LINE, r->line}, room);
}

static fl_status read_row(reader *r, char *line)
{
    static const char blank[] = " \t\r\v\f";
    char *save = NULL;
    uint32_t next = 0;
    int is_query = 0;
    void *end;
    line[strcspn(line, "#")] = 0;
    char *token = strtok_r(line, blank, &save);
    if (!token) return FL_OK;
    fl_status s = add_answer(r, token);
    token = strtok_r(NULL, blank, &save);
    if (s == FL_OK) s = add_query(r, token, &is_query);
    if (is_query) token = strtok_r(NULL, blank, &save);
    for (; s == FL_OK && token; token = strtok_r(NULL, blank, &save)) s = add_feature(r, token, &next);
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

/* The largest index sets the size of the model. One far above the number of values is probably a typing error. */
static fl_status check_needed(const reader *r)
{
    enum { FEW = 1 << 16, PER_VALUE = 10 };
    size_t values = r->value.n + (r->train ? fli_dataset_stored(r->train) : 0);
    int known = r->train && r->needed <= r->train->dim;
    if (r->p->features || known || r->needed <= FEW || r->needed / PER_VALUE <= values) return FL_OK;
    return fli_fail(r->ctx, FL_EFORMAT,
                    "%s:%zu: index %" PRIu32 " would make %" PRIu32
                    " features out of %zu values in %zu samples; if that "
                    "is intended, say features: %" PRIu32,
                    r->path, r->needed_line, r->needed - 1 + r->base, r->needed, values, r->row.n - 1, r->needed);
}

/* Moves what was read into a data set. Its dim is the file's own; set_all_features makes both parts alike. */
static fl_status finish(reader *r, fli_dataset *ds)
{
    fl_status s = check_needed(r);
    ds->kind = r->wide ? FLI_X_CSR64 : FLI_X_CSR;
    ds->n = r->row.n - 1;
    ds->dim = r->needed;
    if (s || (s = fli_load_origin(r->ctx, r->path, ds))) return s;
    if (r->labels && (s = fli_label_names_order(r->labels, r->label.p, ds->n))) return s;
    ds->classes = r->labels ? r->labels->classes : 0;
    if (r->groups) {
        if ((s = fli_label_names_order(r->groups, r->group.p, ds->n))) return s;
        ds->groups = r->groups->classes;
        if ((s = fli_array_take(r->ctx, &r->group, (void **)&ds->group))) return s;
    }
    if ((s = fli_array_take(r->ctx, &r->row, (void **)&ds->row)) ||
        (s = fli_array_take(r->ctx, &r->col, (void **)&ds->col)) || (s = fli_array_take(r->ctx, &r->value, &ds->x)))
        return s;
    return r->labels ? fli_array_take(r->ctx, &r->label, (void **)&ds->label)
                     : fli_array_take(r->ctx, &r->target, (void **)&ds->target);
}

static fl_status load_part(fl_ctx *ctx, const fli_source_request *request, const char *name, const fli_dataset *train,
                           fli_label_names *labels, fli_label_names *groups, fli_dataset **out)
{
    const params *p = request->params;
    fli_stream *s = NULL;
    reader r = {.ctx = ctx,
                .p = p,
                .base = p->index == INDEX_ONE,
                .features = p->features ? (uint32_t)p->features : INT32_MAX,
                .wide = request->wide,
                .train = train,
                .labels = labels,
                .groups = groups,
                .row = {.size = sizeof(size_t)},
                .col = {.size = sizeof(uint32_t)},
                .value = {.size = request->wide ? sizeof(double) : sizeof(float)},
                .label = {.size = sizeof(int32_t)},
                .target = {.size = sizeof(double)},
                .group = {.size = sizeof(int32_t)}};
    *out = fli_alloc(ctx, 1, sizeof **out);
    if (!*out) return FL_ENOMEM;
    fl_status status = fli_load_open_text(ctx, name, &s);
    if (status == FL_OK) {
        r.path = fli_stream_path(s);
        r.row.of = r.col.of = r.value.of = r.label.of = r.target.of = r.group.of = r.path;
        status = read_rows(&r, s);
    }
    if (status == FL_OK) status = finish(&r, *out);
    fli_array_fini(&r.row);
    fli_array_fini(&r.col);
    fli_array_fini(&r.value);
    fli_array_fini(&r.label);
    fli_array_fini(&r.target);
    fli_array_fini(&r.group);
    fli_stream_close(s);
    return status;
}

static void set_features(fli_dataset *ds, size_t dim)
{
    ds->dim = dim;
    ds->shape[0] = ds->shape[1] = 1;
    ds->shape[2] = dim;
}

/* Dense, a value takes one real. Sparse, it takes a real and an index, and each row takes a start. */
static int smaller_dense(const fli_dataset *a, const fli_dataset *b)
{
    double rows = (double)a->n + (b ? (double)b->n : 0), real = a->kind == FLI_X_CSR64 ? sizeof(double) : sizeof(float);
    double values = (double)fli_dataset_stored(a) + (b ? (double)fli_dataset_stored(b) : 0);
    double sparse = values * (real + sizeof *a->col) + rows * sizeof *a->row;
    return rows * (double)a->dim * real <= sparse;
}

/* Stores both parts dense or both sparse. */
static fl_status store(fl_ctx *ctx, int storage, fli_dataset *a, fli_dataset *b)
{
    if (storage == STORAGE_SPARSE || (storage == STORAGE_AUTO && !smaller_dense(a, b))) return FL_OK;
    fl_status s = fli_dataset_densify(ctx, a);
    return s || !b ? s : fli_dataset_densify(ctx, b);
}

/* Gives both parts the number of features of the larger one, or the configured number. */
static fl_status set_all_features(fl_ctx *ctx, const params *p, fli_dataset *a, fli_dataset *b)
{
    size_t dim = p->features ? (size_t)p->features : b && b->dim > a->dim ? b->dim : a->dim;
    if (!dim) return fli_fail(ctx, FL_EFORMAT, "%s: has no features in any of its samples", p->train);
    set_features(a, dim);
    if (b) set_features(b, dim);
    return FL_OK;
}

static fl_status load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    const params *p = request->params;
    fli_dataset *a = NULL, *b = NULL;
    fli_label_names labels, groups, *classes = p->task == FLI_TASK_REGRESSION ? NULL : &labels;
    *train = *test = NULL;
    fli_label_names_init(&labels, ctx, (size_t)p->classes);
    if (p->task == FLI_TASK_AUTO) fli_label_names_guess(&labels, request->client, "");
    fli_groups_init(&groups, ctx);
    fl_status status = load_part(ctx, request, p->train, NULL, classes, p->groups == GROUPS_QID ? &groups : NULL, &a);
    if (status == FL_OK && *p->test) status = load_part(ctx, request, p->test, a, classes, NULL, &b);
    if (status == FL_OK) status = set_all_features(ctx, p, a, b);
    if (status == FL_OK) status = store(ctx, p->storage, a, b);
    if (status == FL_OK && classes) status = fli_label_names_name(classes, p->train, a);
    fli_label_names_fini(&labels);
    fli_label_names_fini(&groups);
    return fli_load_hand_out(status, a, b, train, test);
}

fl_status fli_libsvm_read(fl_ctx *ctx, const char *path, size_t features, size_t classes, int wide, fli_dataset **out)
{
    fli_dataset *none;
    params p = {.train = (char *)path,
                .test = (char *)"",
                .features = (int64_t)features,
                .classes = (int64_t)classes,
                .task = classes ? FLI_TASK_CLASSIFICATION : FLI_TASK_REGRESSION,
                .storage = STORAGE_SPARSE};
    return load(ctx, &(fli_source_request){.params = &p, .wide = wide}, out, &none);
}

static const fl_key keys[] = {
    FLI_KEY_STRING(params, train, NULL, "file with the training samples"),
    FLI_KEY_STRING(params, test, "", "file with the test samples; '' for none"),
    FLI_KEY_CHOICE(params, index, "one", "one|zero", "the smallest possible index; scikit-learn starts at zero"),
    FLI_KEY_INT(params, features, "0", 0, INT32_MAX,
                "number of features; 0: the largest index in the files, unless it is far above the number of values"),
    FLI_KEY_CHOICE(
        params, task, "auto", FLI_TASK_WORDS,
        "what the first number of a line is: one of a few labels (classes 0, 1, ... in ascending order), or the "
        "value to predict" FLI_TASK_HELP),
    FLI_KEY_INT(params, classes, "0", 0, FLI_MOST_LABELS, FLI_CLASSES_HELP),
    FLI_KEY_CHOICE(params, groups, "none", "none|qid",
                   "qid: the number in `qid:N` is the owner of a training sample; none: it is ignored"),
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
