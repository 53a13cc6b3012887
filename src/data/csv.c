/* Tables as text: one sample a line, numbers in all columns but the label's (a number or a word) and the group's. A field may
 * stand in double quotes, without line breaks in it. */
#include "data/names.h"
#include "data/load.h"
#include "data/source.h"

#include <float.h>
#include <inttypes.h>
#include <string.h>

enum { MOST_CLASSES = 1000 };
#define MOST_GROUPS ((size_t)INT32_MAX)

typedef struct {
    char *train, *test;
    int separator, header, task, storage;
    int64_t label, group_column;
} params;

enum { STORAGE_F32, STORAGE_F64 };

/* A file being read. */
typedef struct {
    fl_ctx *ctx;
    const params *p;
    const char *path;
    size_t line;
    char separator;
    size_t columns;              /* of the first row; 0 before it */
    size_t label_at, group_at;   /* columns; SIZE_MAX: none */
    fli_labels *labels, *groups; /* NULL: regression; no groups */
    fli_array field;             /* char *: of the current line */
    fli_array x, label, target, group;
} reader;

#define AT "%s:%zu: " /* with r->path, r->line */

/* ---- a line into fields --------------------------------------------------------------------------------- */

static int is_blank(const reader *r, char c) { return c == ' ' || (c == '\t' && r->separator != '\t'); }

/* Undoubles the quotes of a field whose opening quote is at p; *end is behind the closing one. */
static fl_status unquote(reader *r, char *p, char **end)
{
    char *to = p;
    char *from = p + 1;
    for (; *from; from++) {
        if (*from == '"' && from[1] != '"') break;
        if (*from == '"') from++;
        *to++ = *from;
    }
    if (!*from)
        return fli_fail(r->ctx, FL_EFORMAT, AT "field %zu has an opening quote, but no closing one", r->path, r->line,
                        r->field.n - 1);
    *to = 0;
    for (from++; is_blank(r, *from); from++) continue;
    if (*from && *from != r->separator)
        return fli_fail(r->ctx, FL_EFORMAT, AT "field %zu goes on behind its closing quote with %s", r->path, r->line,
                        r->field.n - 1, fli_show(from).s);
    *end = from;
    return FL_OK;
}

/* One field from *p on; *p is then behind the separator, NULL at the end of the line. */
static fl_status next_field(reader *r, char **p)
{
    void *room;
    char *start = *p, *end = start;
    fl_status s = fli_array_add(r->ctx, &r->field, 1, &room);
    if (s) return s;
    while (is_blank(r, *start)) start++;
    *(char **)room = start;
    if (*start == '"') {
        if ((s = unquote(r, start, &end))) return s;
        *p = *end ? end + 1 : NULL;
        return FL_OK;
    }
    end = strchrnul(start, r->separator);
    *p = *end ? end + 1 : NULL;
    while (end > start && is_blank(r, end[-1])) end--;
    *end = 0;
    return FL_OK;
}

/* Blanks in any number between the fields. */
static fl_status split_blanks(reader *r, char *line)
{
    char *save = NULL;
    for (char *t = strtok_r(line, " \t", &save); t; t = strtok_r(NULL, " \t", &save)) {
        void *room;
        fl_status s = fli_array_add(r->ctx, &r->field, 1, &room);
        if (s) return s;
        *(char **)room = t;
    }
    return FL_OK;
}

static fl_status split(reader *r, char *line)
{
    r->field.n = 0;
    if (r->separator == ' ') return split_blanks(r, line);
    while (line) {
        fl_status s = next_field(r, &line);
        if (s) return s;
    }
    return FL_OK;
}

/* ---- fields into a sample ------------------------------------------------------------------------------- */

/* The first row fixes where everything is. */
static fl_status set_columns(reader *r)
{
    const params *p = r->p;
    r->columns = r->field.n;
    r->label_at = p->label < 0 ? r->columns - 1 : (size_t)p->label;
    r->group_at = p->group_column < 0 ? SIZE_MAX : (size_t)p->group_column;
    if (r->label_at >= r->columns || (r->group_at != SIZE_MAX && r->group_at >= r->columns))
        return fli_fail(r->ctx, FL_EFORMAT, AT "there is no column %zu for the %s, only 0 .. %zu", r->path, r->line,
                        r->label_at >= r->columns ? r->label_at : r->group_at,
                        r->label_at >= r->columns ? "label" : "group", r->columns - 1);
    if (r->label_at == r->group_at)
        return fli_fail(r->ctx, FL_EFORMAT, AT "column %zu cannot be the label and the group", r->path, r->line,
                        r->label_at);
    if (r->columns < 2 + (size_t)(r->group_at != SIZE_MAX))
        return fli_fail(r->ctx, FL_EFORMAT, AT "no column is left for features: %zu in all (is the separator right?)",
                        r->path, r->line, r->columns);
    return FL_OK;
}

static fl_status read_number(const reader *r, size_t column, double largest, double *out)
{
    const char *text = ((char **)r->field.p)[column];
    const char *wrong = fli_number_read(text, largest, out);
    if (!wrong) return FL_OK;
    return fli_fail(r->ctx, FL_EFORMAT, AT "column %zu: %s %s", r->path, r->line, column, fli_show(text).s, wrong);
}

static fl_status add_features(reader *r)
{
    void *x;
    double v, largest = r->p->storage == STORAGE_F64 ? DBL_MAX : (double)FLT_MAX;
    size_t dim = r->columns - 1 - (r->group_at != SIZE_MAX), j = 0;
    fl_status s = fli_array_add(r->ctx, &r->x, dim, &x);
    for (size_t c = 0; s == FL_OK && c < r->columns; c++) {
        if (c == r->label_at || c == r->group_at) continue;
        if ((s = read_number(r, c, largest, &v))) return s;
        if (r->p->storage == STORAGE_F64)
            ((double *)x)[j++] = v;
        else
            ((float *)x)[j++] = (float)v;
    }
    return s;
}

static fl_status add_answer(reader *r)
{
    void *room;
    fl_status s = fli_array_add(r->ctx, r->labels ? &r->label : &r->target, 1, &room);
    if (s) return s;
    if (!r->labels) return read_number(r, r->label_at, DBL_MAX, room);
    return fli_labels_read(r->labels, ((char **)r->field.p)[r->label_at], r->path, r->line, room);
}

static fl_status read_row(reader *r, char *line)
{
    void *room;
    fl_status s = split(r, line);
    if (s == FL_OK && !r->columns) s = set_columns(r);
    if (s) return s;
    if (r->field.n != r->columns)
        return fli_fail(r->ctx, FL_EFORMAT, AT "%zu fields where the first row has %zu", r->path, r->line, r->field.n,
                        r->columns);
    if ((s = add_features(r)) || (s = add_answer(r)) || !r->groups) return s;
    if ((s = fli_array_add(r->ctx, &r->group, 1, &room))) return s;
    return fli_labels_read(r->groups, ((char **)r->field.p)[r->group_at], r->path, r->line, room);
}

/* ---- a file --------------------------------------------------------------------------------------------- */

static fl_status read_rows(reader *r, fli_stream *s)
{
    fl_status status;
    char *line;
    size_t length;
    int skip = r->p->header;
    while (!(status = fli_stream_line(s, &line, &length)) && line) {
        r->line++;
        if (!line[strspn(line, " \t\r")]) continue;
        if (skip)
            skip = 0;
        else if ((status = read_row(r, line)))
            return status;
    }
    if (status == FL_OK && !r->columns)
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
    ds->kind = r->p->storage == STORAGE_F64 ? FLI_X_F64 : FLI_X_F32;
    if (r->labels && !r->labels->classes && (s = fli_labels_order(r->labels, r->label.p, ds->n))) return s;
    ds->classes = r->labels ? r->labels->classes : 0;
    if (r->groups) {
        if ((s = fli_labels_order(r->groups, r->group.p, ds->n))) return s;
        ds->groups = r->groups->classes;
        if ((s = fli_array_take(r->ctx, &r->group, (void **)&ds->group))) return s;
    }
    if ((s = fli_array_take(r->ctx, &r->x, &ds->x))) return s;
    return r->labels ? fli_array_take(r->ctx, &r->label, (void **)&ds->label)
                     : fli_array_take(r->ctx, &r->target, (void **)&ds->target);
}

static fl_status load_part(fl_ctx *ctx, const params *p, const char *name, fli_labels *labels, fli_labels *groups,
                           fli_dataset **out)
{
    fli_stream *s = NULL;
    reader r = {.ctx = ctx,
                .p = p,
                .separator = ",;\t "[p->separator],
                .labels = labels,
                .groups = groups,
                .field = {.size = sizeof(char *)},
                .x = {.size = p->storage == STORAGE_F64 ? sizeof(double) : sizeof(float)},
                .label = {.size = sizeof(int32_t)},
                .target = {.size = sizeof(double)},
                .group = {.size = sizeof(int32_t)}};
    *out = fli_alloc(ctx, 1, sizeof **out);
    if (!*out) return FL_ENOMEM;
    fl_status status = fli_load_open_text(ctx, name, &s);
    if (status == FL_OK) {
        r.path = fli_stream_path(s);
        status = read_rows(&r, s);
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

static fl_status load(fl_ctx *ctx, const fli_request *ask, fli_dataset **train, fli_dataset **test)
{
    const params *p = ask->params;
    fli_dataset *a = NULL, *b = NULL;
    fli_labels labels, groups;
    fli_labels *classes = p->task == FLI_TASK_CLASSIFICATION ? &labels : NULL;
    *train = *test = NULL;
    fli_labels_init(&labels, ctx, "label", MOST_CLASSES);
    fli_labels_init(&groups, ctx, "group", MOST_GROUPS);
    fl_status status = load_part(ctx, p, p->train, classes, p->group_column < 0 ? NULL : &groups, &a);
    if (status == FL_OK && *p->test) {
        status = load_part(ctx, p, p->test, classes, NULL, &b);
        if (status == FL_OK) status = fli_load_check_test(ctx, p->test, a, b);
    }
    if (status == FL_OK && classes) status = fli_labels_log(classes, p->train);
    fli_labels_fini(&labels);
    fli_labels_fini(&groups);
    return fli_load_hand_out(status, a, b, train, test);
}

static const fli_key keys[] = {
    FLI_KEY_STRING(params, train, NULL, "file with the training samples"),
    FLI_KEY_STRING(params, test, "", "file with the test samples, same columns; '' for none"),
    FLI_KEY_CHOICE(params, separator, "comma", "comma|semicolon|tab|space",
                   "what stands between the fields; space means any number of blanks"),
    FLI_KEY_BOOL(params, header, "false", "skip the first line"),
    FLI_KEY_INT(params, label, "-1", -1, 1e9, "column of the label or target, from 0; -1 for the last one"),
    FLI_KEY_INT(params, group_column, "-1", -1, 1e9,
                "column, from 0, that says whose a training sample is; -1 for none"),
    FLI_KEY_CHOICE(
        params, task, "classification", FLI_TASK_WORDS,
        "what the label column holds: one of a few labels (classes 0, 1, ... in ascending order of the numbers, or "
        "of the words by their bytes), or the value to predict"),
    FLI_KEY_CHOICE(params, storage, "f32", "f32|f64", "how the features are kept in memory"),
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
