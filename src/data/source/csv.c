/* Tables as text: one sample a line. All columns are numbers except those of the label (a number or a word) and of the
 * group. The first line may be a header. A field that is no number, an empty one included, is an error with its line.
 */
#include "data/label_names.h"
#include "data/load.h"
#include "data/source.h"
#include "format/stream.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    char *train, *test, *label, *group_column;
    int separator, header, task, storage;
    int64_t classes;
} params;

enum { STORAGE_AUTO, STORAGE_F32, STORAGE_F64 };
enum { HEADER_AUTO, HEADER_TRUE, HEADER_FALSE };

/* A file being read. */
typedef struct {
    fl_ctx *ctx;
    const params *p;
    const char *path;
    size_t line, first; /* the current line; the first line with a sample */
    char separator;
    int wide;                         /* features as doubles */
    size_t columns;                   /* of the first line; 0 before it */
    size_t label_at, group_at;        /* columns; SIZE_MAX: none */
    fli_label_names *labels, *groups; /* NULL: regression; no groups */
    fli_text *names;                  /* the training file's column names, a line each; empty without a header */
    fli_array field;                  /* char *: the fields of the current line */
    fli_array x, label, target, group;
} reader;

#define AT          "%s:%zu: " /* with r->path, r->line */
#define HEADER_HINT "; if this line is a header, say header: true"

static const char *field(const reader *r, size_t column) { return ((char **)r->field.p)[column]; }

/* ---- columns -------------------------------------------------------------------------------------------- */

/* True if the setting gives a column by its number, not by its name in the header. */
static int is_number(const char *column)
{
    size_t sign = *column == '-';
    return column[sign] && strspn(column + sign, "0123456789") == strlen(column + sign);
}

/* fl_name_fn: the fields of the first line */
static const char *column_name(const void *arg, size_t i)
{
    const reader *r = arg;
    return i < r->columns ? field(r, i) : NULL;
}

static fl_status no_such_name(const reader *r, const char *name, const char *noun)
{
    enum { SHOWN = 20 };
    char meant[FLI_MEANT_LEN];
    const char *near = fl_nearest(name, column_name, r);
    fli_text names;
    fli_text_init(&names, r->ctx);
    for (size_t c = 0; c < r->columns && c < SHOWN; c++)
        fli_text_addf(&names, "%s%s", c ? ", " : "", fli_quote(field(r, c)).s);
    fl_status s = fli_text_ok(&names);
    if (s == FL_OK)
        s = fli_fail(r->ctx, FL_EFORMAT, AT "no column is called %s for the %s, only %s%s%s", r->path, r->line,
                     fli_quote(name).s, noun, fli_text_get(&names), r->columns > SHOWN ? ", ..." : "",
                     near ? fli_meant(fli_quote(near).s, meant) : "");
    fli_text_fini(&names);
    return s;
}

/* Finds a column by the fields of the first line. Setting "-1" means `otherwise`. */
static fl_status find_column(const reader *r, const char *column, const char *noun, size_t otherwise, size_t *out)
{
    *out = otherwise;
    if (!strcmp(column, "-1")) return FL_OK;
    if (is_number(column)) {
        unsigned long long n = strtoull(column, NULL, 10);
        if (*column == '-' || n >= r->columns)
            return fli_fail(r->ctx, FL_EFORMAT, AT "there is no column %s for the %s, only 0 .. %zu", r->path, r->line,
                            column, noun, r->columns - 1);
        *out = (size_t)n;
        return FL_OK;
    }
    if (r->p->header == HEADER_FALSE)
        return fli_fail(r->ctx, FL_ECONFIG, "%s: the %s is called %s, but header is false: give the column's number",
                        r->path, noun, fli_quote(column).s);
    size_t twins = 0;
    for (size_t c = r->columns; c-- > 0;)
        if (!strcmp(field(r, c), column)) {
            *out = c;
            twins++;
        }
    if (twins > 1)
        return fli_fail(r->ctx, FL_EFORMAT, AT "%zu columns are called %s: give the number of the %s's column", r->path,
                        r->line, twins, fli_quote(column).s, noun);
    return twins ? FL_OK : no_such_name(r, column, noun);
}

/* Finds the columns of label and group in the first line. */
static fl_status set_columns(reader *r)
{
    r->columns = r->field.n;
    fl_status s = find_column(r, r->p->label, "label", r->columns - 1, &r->label_at);
    if (s == FL_OK) s = find_column(r, r->p->group_column, "group", SIZE_MAX, &r->group_at);
    if (s) return s;
    if (r->label_at == r->group_at)
        return fli_fail(r->ctx, FL_EFORMAT, AT "column %zu cannot be the label and the group", r->path, r->line,
                        r->label_at);
    if (r->columns < 2 + (size_t)(r->group_at != SIZE_MAX))
        return fli_fail(r->ctx, FL_EFORMAT, AT "no column is left for features: %zu in all (is the separator right?)",
                        r->path, r->line, r->columns);
    return FL_OK;
}

static int is_feature(const reader *r, size_t column) { return column != r->label_at && column != r->group_at; }

/* ---- the header ----------------------------------------------------------------------------------------- */

/* True for a header that pandas writes for columns without names: 0, 1, 2, ... It looks like a sample. */
static int counts_up(const reader *r)
{
    size_t c = 0;
    while (c < r->columns && is_number(field(r, c)) && strtoull(field(r, c), NULL, 10) == c) c++;
    return c == r->columns && c >= 3;
}

/* A first line without a number among its features is a header. A line with both words and numbers may be a header or
 * have a bad value; reading it as a sample fails with a question. */
static fl_status is_header(const reader *r, int *yes)
{
    double v;
    size_t words = 0, numbers = 0;
    *yes = r->p->header == HEADER_TRUE || !is_number(r->p->label) || !is_number(r->p->group_column);
    if (*yes || r->p->header == HEADER_FALSE) return FL_OK;
    if (counts_up(r))
        return fli_fail(r->ctx, FL_EFORMAT,
                        AT "counts 0, 1, 2, ... as a header without names does; say header: true, or header: false if "
                           "it is a sample",
                        r->path, r->line);
    for (size_t c = 0; c < r->columns; c++) {
        const char *wrong = is_feature(r, c) ? fli_number_read(field(r, c), DBL_MAX, &v) : NULL;
        numbers += is_feature(r, c) && (!wrong || strcmp(wrong, FLI_NO_NUMBER));
        words += wrong && !strcmp(wrong, FLI_NO_NUMBER) && *field(r, c);
    }
    *yes = words && !numbers;
    if (*yes) fli_log(r->ctx, FL_LOG_INFO, "%s: line %zu is taken as a header", r->path, r->line);
    return FL_OK;
}

/* The test file must have the training file's columns in the same order; only the header can show a difference. */
static fl_status check_names(const reader *r)
{
    fli_text names;
    fli_text_init(&names, r->ctx);
    for (size_t c = 0; c < r->columns; c++) fli_text_addf(&names, "%s\n", field(r, c));
    fl_status s = fli_text_ok(&names);
    if (!s && !r->names->n) {
        fli_text_add(r->names, fli_text_get(&names));
        s = fli_text_ok(r->names);
    } else if (!s && strcmp(fli_text_get(r->names), fli_text_get(&names)))
        s = fli_fail(r->ctx, FL_EFORMAT,
                     AT "the header is not that of %s: both need the same columns in the same order", r->path, r->line,
                     r->p->train);
    fli_text_fini(&names);
    return s;
}

/* A header of numbers is read as a sample. FL_EFORMAT if its label is the only word among numbers. */
static fl_status check_first_label(const reader *r, const fli_dataset *ds)
{
    const int32_t *label = r->label.p;
    double v;
    if (r->p->header != HEADER_AUTO || !r->labels || r->labels->classes || r->labels->words.n < 2 ||
        !fli_number_read(r->labels->words.word[0], DBL_MAX, &v))
        return FL_OK;
    for (size_t i = 1; i < r->labels->words.n; i++)
        if (fli_number_read(r->labels->words.word[i], DBL_MAX, &v)) return FL_OK;
    for (size_t i = 1; i < ds->n; i++)
        if (!label[i]) return FL_OK;
    return fli_fail(r->ctx, FL_EFORMAT,
                    "%s:%zu: the label %s is the only word among numbers; if this line is a header, say header: true, "
                    "else header: false",
                    r->path, r->first, fli_quote(r->labels->words.word[0]).s);
}

/* ---- fields into a sample ------------------------------------------------------------------------------- */

static fl_status read_number(const reader *r, size_t column, double largest, double *out)
{
    const char *wrong = fli_number_read(field(r, column), largest, out);
    if (!wrong) return FL_OK;
    int perhaps_header = r->line == r->first && r->p->header == HEADER_AUTO && !strcmp(wrong, FLI_NO_NUMBER);
    return fli_fail(r->ctx, FL_EFORMAT, AT "column %zu: %s %s%s", r->path, r->line, column,
                    fli_quote(field(r, column)).s, wrong, perhaps_header ? HEADER_HINT : "");
}

static fl_status add_features(reader *r)
{
    void *x;
    double v;
    size_t dim = r->columns - 1 - (r->group_at != SIZE_MAX), j = 0;
    fl_status s = fli_array_add(r->ctx, &r->x, dim, &x);
    for (size_t c = 0; s == FL_OK && c < r->columns; c++) {
        if (!is_feature(r, c)) continue;
        s = read_number(r, c, fli_largest_real(r->wide), &v);
        if (s == FL_OK) fli_store_real(x, r->wide, j++, v);
    }
    return s;
}

static fl_status add_answer(reader *r)
{
    void *room;
    fl_status s = fli_array_add(r->ctx, r->labels ? &r->label : &r->target, 1, &room);
    if (s) return s;
    if (!r->labels) return read_number(r, r->label_at, DBL_MAX, room);
    return fli_label_names_read(r->labels, field(r, r->label_at), (fli_origin){r->path, FLI_LINE, r->line}, room);
}

static fl_status add_sample(reader *r)
{
    void *room;
    fl_status s;
    if (r->field.n != r->columns)
        return fli_fail(r->ctx, FL_EFORMAT, AT "%zu fields where the first row has %zu", r->path, r->line, r->field.n,
                        r->columns);
    if ((s = add_features(r)) || (s = add_answer(r)) || !r->groups) return s;
    if ((s = fli_array_add(r->ctx, &r->group, 1, &room))) return s;
    return fli_label_names_read(r->groups, field(r, r->group_at), (fli_origin){r->path, FLI_LINE, r->line}, room);
}

/* ---- a file --------------------------------------------------------------------------------------------- */

static fl_status read_line(reader *r, char *line)
{
    int header = 0;
    fl_status s = fli_fields_split(r->ctx, line, r->separator, r->path, r->line, &r->field);
    if (s == FL_OK && !r->columns && (s = set_columns(r)) == FL_OK) s = is_header(r, &header);
    if (s == FL_OK && header) s = check_names(r);
    if (s || header) return s;
    if (!r->first) r->first = r->line;
    return add_sample(r);
}

static fl_status read_lines(reader *r, fli_stream *s)
{
    fl_status status;
    char *line;
    size_t length;
    while (!(status = fli_stream_line(s, &line, &length)) && line) {
        r->line++;
        if (line[strspn(line, " \t\r")] && (status = read_line(r, line))) return status;
    }
    if (status == FL_OK && !r->first)
        return fli_fail(r->ctx, FL_EFORMAT, "%s: has no samples in its %zu lines", r->path, r->line);
    return status;
}

static fl_status finish(reader *r, fli_dataset *ds)
{
    fl_status s;
    ds->n = r->labels ? r->label.n : r->target.n;
    ds->dim = r->x.n / ds->n;
    ds->shape[0] = ds->shape[1] = 1;
    ds->shape[2] = ds->dim;
    ds->kind = r->wide ? FLI_X_F64 : FLI_X_F32;
    if ((s = check_first_label(r, ds)) || (s = fli_load_origin(r->ctx, r->path, ds))) return s;
    if (r->labels && (s = fli_label_names_order(r->labels, r->label.p, ds->n))) return s;
    ds->classes = r->labels ? r->labels->classes : 0;
    if (r->groups) {
        if ((s = fli_label_names_order(r->groups, r->group.p, ds->n))) return s;
        ds->groups = r->groups->classes;
        if ((s = fli_array_take(r->ctx, &r->group, (void **)&ds->group))) return s;
    }
    if ((s = fli_array_take(r->ctx, &r->x, &ds->x))) return s;
    return r->labels ? fli_array_take(r->ctx, &r->label, (void **)&ds->label)
                     : fli_array_take(r->ctx, &r->target, (void **)&ds->target);
}

static fl_status load_part(fl_ctx *ctx, const fli_source_request *request, const char *name, fli_text *names,
                           fli_label_names *labels, fli_label_names *groups, fli_dataset **out)
{
    const params *p = request->params;
    fli_stream *s = NULL;
    int wide = p->storage == STORAGE_F64 || (p->storage == STORAGE_AUTO && request->wide);
    reader r = {.ctx = ctx,
                .p = p,
                .separator = ",;\t "[p->separator],
                .wide = wide,
                .names = names,
                .labels = labels,
                .groups = groups,
                .field = {.size = sizeof(char *)},
                .x = {.size = wide ? sizeof(double) : sizeof(float)},
                .label = {.size = sizeof(int32_t)},
                .target = {.size = sizeof(double)},
                .group = {.size = sizeof(int32_t)}};
    *out = fli_alloc(ctx, 1, sizeof **out);
    if (!*out) return FL_ENOMEM;
    fl_status status = fli_load_open_text(ctx, name, &s);
    if (status == FL_OK) {
        r.path = fli_stream_path(s);
        r.x.of = r.label.of = r.target.of = r.group.of = r.path;
        status = read_lines(&r, s);
    }
    if (status == FL_OK) status = finish(&r, *out);
    fli_array_fini(&r.field);
    fli_array_fini(&r.x);
    fli_array_fini(&r.label);
    fli_array_fini(&r.target);
    fli_array_fini(&r.group);
    fli_stream_close(s);
    return status;
}

static fl_status load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    const params *p = request->params;
    fli_dataset *a = NULL, *b = NULL;
    fli_label_names labels, groups;
    fli_text names;
    fli_label_names *classes = p->task == FLI_TASK_REGRESSION ? NULL : &labels;
    *train = *test = NULL;
    fli_label_names_init(&labels, ctx, (size_t)p->classes);
    if (p->task == FLI_TASK_AUTO)
        fli_label_names_guess(&labels, request->client, ", and label: COLUMN if the labels are in another column");
    fli_groups_init(&groups, ctx);
    fli_text_init(&names, ctx);
    fl_status status =
        load_part(ctx, request, p->train, &names, classes, strcmp(p->group_column, "-1") ? &groups : NULL, &a);
    if (status == FL_OK && *p->test) {
        status = load_part(ctx, request, p->test, &names, classes, NULL, &b);
        if (status == FL_OK) status = fli_load_check_test(ctx, p->test, a, b);
    }
    if (status == FL_OK && classes) status = fli_label_names_name(classes, p->train, a);
    fli_label_names_fini(&labels);
    fli_label_names_fini(&groups);
    fli_text_fini(&names);
    return fli_load_hand_out(status, a, b, train, test);
}

static const fl_key keys[] = {
    FLI_KEY_STRING(params, train, NULL, "file with the training samples"),
    FLI_KEY_STRING(params, test, "", "file with the test samples, same columns; '' for none"),
    FLI_KEY_CHOICE(params, separator, "comma", "comma|semicolon|tab|space",
                   "what separates the fields; space means any number of blanks"),
    FLI_KEY_CHOICE(params, header, "auto", "auto|true|false",
                   "whether the first line is a header; auto: it is if none of its features is a number"),
    FLI_KEY_STRING(params, label, "-1",
                   "column of the label or target: its number, from 0, or its name in the header; -1 for the last one"),
    FLI_KEY_STRING(
        params, group_column, "-1",
        "column with the owner of a training sample: its number, from 0, or its name in the header; -1 for none"),
    FLI_KEY_CHOICE(
        params, task, "auto", FLI_TASK_WORDS,
        "what the label column holds: one of a few labels (classes 0, 1, ... in ascending order of the numbers, or "
        "of the words by their bytes), or the value to predict" FLI_TASK_HELP),
    FLI_KEY_INT(params, classes, "0", 0, FLI_MOST_LABELS, FLI_CLASSES_HELP),
    FLI_KEY_CHOICE(params, storage, "auto", "auto|f32|f64",
                   "how the features are kept in memory; auto: in the precision of the model"),
    FLI_KEY_END,
};

const fli_source fli_source_csv = {
    .name = "csv",
    .title = "tables as text: numbers, and a label column of numbers or words",
    .needs = "a text file with one sample a line, plain or as .gz, .xz or .zip",
    .keys = keys,
    .params_size = sizeof(params),
    .load = load,
};
