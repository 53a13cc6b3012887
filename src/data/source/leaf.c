/* LEAF, a benchmark for federated learning: JSON files
 *     {"users": [u, ...], "num_samples": [n, ...], "user_data": {u: {"x": [[...], ...], "y": [...]}, ...}}
 * A folder of them is one data set. Every user is a group, in the order of first appearance. */
#include "base/file.h"
#include "base/number.h"
#include "data/label_names.h"
#include "data/load.h"
#include "data/source.h"

#include <jansson.h>
#include <math.h>
#include <string.h>
#include <sys/stat.h>

typedef struct {
    char *train, *test;
    int64_t classes;
} params;

/* A train or test part being read. */
typedef struct {
    fl_ctx *ctx;
    fli_words *users; /* of the training part */
    fli_label_names *labels;
    int wide;         /* features as doubles */
    int is_test;      /* users must be known from the training part */
    const char *path; /* the current file */
    size_t dim;       /* 0 before the first sample */
    fli_array seen;   /* char per user: has data in this part */
    fli_array x, label, group;
} reader;

/* ---- samples -------------------------------------------------------------------------------------------- */

static fl_status add_row(reader *r, const char *user, size_t i, const json_t *row)
{
    void *room;
    size_t n = json_array_size(row); /* 0 if it is not a list */
    if (!n)
        return fli_fail(r->ctx, FL_EFORMAT, "%s: user %s, x[%zu] is not a list of numbers", r->path, fli_quote(user).s,
                        i);
    if (r->dim && n != r->dim)
        return fli_fail(r->ctx, FL_EFORMAT, "%s: user %s, x[%zu] has %zu features where the first sample has %zu",
                        r->path, fli_quote(user).s, i, n, r->dim);
    r->dim = n;
    fl_status s = fli_array_add(r->ctx, &r->x, n, &room);
    for (size_t j = 0; s == FL_OK && j < n; j++) {
        const json_t *v = json_array_get(row, j);
        if (!json_is_number(v))
            return fli_fail(r->ctx, FL_EFORMAT, "%s: user %s, x[%zu][%zu] is not a number", r->path, fli_quote(user).s,
                            i, j);
        double value = json_number_value(v);
        if (fabs(value) > fli_largest_real(r->wide))
            return fli_fail(r->ctx, FL_EFORMAT,
                            "%s: user %s, x[%zu][%zu] is %g, too large for precision f32; precision: f64 keeps it",
                            r->path, fli_quote(user).s, i, j, value);
        fli_store_real(room, r->wide, j, value);
    }
    return s;
}

static fl_status add_label(reader *r, const char *user, size_t i, const json_t *y, uint32_t group)
{
    void *label, *owner;
    char unit[80];
    if (!json_is_number(y) && !json_is_string(y))
        return fli_fail(r->ctx, FL_EFORMAT, "%s: user %s, y[%zu] is neither a number nor a text", r->path,
                        fli_quote(user).s, i);
    fl_status s = fli_array_add(r->ctx, &r->label, 1, &label);
    if (s == FL_OK) s = fli_array_add(r->ctx, &r->group, 1, &owner);
    if (s) return s;
    *(int32_t *)owner = (int32_t)group;
    fli_snprintf(unit, sizeof unit, ": user %s, y ", fli_quote(user).s);
    fli_origin at = {r->path, unit, i};
    return json_is_string(y) ? fli_label_names_read(r->labels, json_string_value(y), at, label)
                             : fli_label_names_read_number(r->labels, json_number_value(y), at, label);
}

/* ---- users ---------------------------------------------------------------------------------------------- */

/* The user's number. A user occurs once per part, and test users must be training users. */
static fl_status number_user(reader *r, const char *user, uint32_t *number)
{
    fl_status s = FL_OK;
    void *room;
    if (!r->is_test)
        s = fli_words_add(r->users, user, number);
    else if (!fli_words_find(r->users, user, number))
        s = fli_fail(r->ctx, FL_EFORMAT, "%s: user %s does not occur in the training data", r->path, fli_quote(user).s);
    if (s == FL_OK && r->users->n > r->seen.n) s = fli_array_add(r->ctx, &r->seen, r->users->n - r->seen.n, &room);
    if (s) return s;
    char *seen = (char *)r->seen.p + *number;
    if (*seen) return fli_fail(r->ctx, FL_EFORMAT, "%s: user %s occurs twice", r->path, fli_quote(user).s);
    *seen = 1;
    return FL_OK;
}

static fl_status add_user(reader *r, const char *user, const json_t *count, const json_t *data)
{
    uint32_t number = 0;
    const json_t *x = json_object_get(data, "x"), *y = json_object_get(data, "y");
    size_t n = json_array_size(x);
    fl_status s = number_user(r, user, &number);
    if (s) return s;
    if (!json_is_array(x) || !json_is_array(y))
        return fli_fail(r->ctx, FL_EFORMAT, "%s: user_data of %s lacks a list x or a list y", r->path,
                        fli_quote(user).s);
    if (json_array_size(y) != n)
        return fli_fail(r->ctx, FL_EFORMAT, "%s: user %s has %zu samples, but %zu labels", r->path, fli_quote(user).s,
                        n, json_array_size(y));
    if (!json_is_integer(count) || json_integer_value(count) != (json_int_t)n)
        return fli_fail(r->ctx, FL_EFORMAT, "%s: user %s has %zu samples, but num_samples says otherwise", r->path,
                        fli_quote(user).s, n);
    if (!n && !r->is_test)
        return fli_fail(r->ctx, FL_EFORMAT, "%s: user %s has no samples", r->path, fli_quote(user).s);
    for (size_t i = 0; s == FL_OK && i < n; i++) {
        s = add_row(r, user, i, json_array_get(x, i));
        if (s == FL_OK) s = add_label(r, user, i, json_array_get(y, i), number);
    }
    return s;
}

static fl_status add_document(reader *r, const json_t *root)
{
    const json_t *users = json_object_get(root, "users"), *counts = json_object_get(root, "num_samples"),
                 *data = json_object_get(root, "user_data");
    fl_status s = FL_OK;
    if (!json_is_array(users) || !json_is_array(counts) || !json_is_object(data))
        return fli_fail(r->ctx, FL_EFORMAT, "%s: lacks %s", r->path,
                        !json_is_array(users)    ? "a list \"users\""
                        : !json_is_array(counts) ? "a list \"num_samples\""
                                                 : "a map \"user_data\"");
    size_t n = json_array_size(users);
    if (json_array_size(counts) != n || json_object_size(data) != n)
        return fli_fail(r->ctx, FL_EFORMAT, "%s: has %zu users, %zu num_samples and %zu user_data", r->path, n,
                        json_array_size(counts), json_object_size(data));
    for (size_t i = 0; s == FL_OK && i < n; i++) {
        const char *user = json_string_value(json_array_get(users, i));
        if (!user) return fli_fail(r->ctx, FL_EFORMAT, "%s: users[%zu] is not a text", r->path, i);
        s = add_user(r, user, json_array_get(counts, i), json_object_get(data, user));
    }
    return s;
}

/* ---- files ---------------------------------------------------------------------------------------------- */

/* The argument of feed, through which jansson reads. */
typedef struct {
    fli_stream *stream;
    fl_status status;
} input;

static size_t feed(void *buffer, size_t n, void *arg)
{
    input *in = arg;
    size_t got = 0;
    in->status = fli_stream_read(in->stream, buffer, n, &got);
    return in->status ? (size_t)-1 : got;
}

static fl_status read_file(reader *r, const char *path)
{
    input in = {NULL, FL_OK};
    json_error_t error;
    fl_status s = fli_load_open_text(r->ctx, path, &in.stream);
    if (s) return s;
    path = r->path = fli_stream_path(in.stream);
    locale_t before = fli_locale_enter();
    json_t *root = json_load_callback(feed, &in, JSON_REJECT_DUPLICATES, &error);
    fli_locale_leave(before);
    if (in.status)
        s = in.status;
    else if (!root)
        s = fli_fail(r->ctx, FL_EFORMAT, "%s:%d:%d: not valid JSON: %s", path, error.line, error.column,
                     fli_quote(error.text).s);
    else
        s = add_document(r, root);
    json_decref(root);
    fli_stream_close(in.stream);
    return s;
}

static int ends_with(const char *name, const char *ending)
{
    size_t n = strlen(name), m = strlen(ending);
    return n > m && !strcmp(name + n - m, ending);
}

static int is_json_name(const char *name)
{
    return ends_with(name, ".json") || ends_with(name, ".json.gz") || ends_with(name, ".json.xz");
}

static fl_status read_named(reader *r, const char *folder, const char *name)
{
    char *path = fli_strf(r->ctx, "%s/%s", folder, name);
    fl_status s = path ? read_file(r, path) : FL_ENOMEM;
    fli_free(path);
    return s;
}

static fl_status read_folder(reader *r, const char *path)
{
    fli_listing list;
    size_t files = 0;
    fl_status s = fli_listing_read(r->ctx, path, &list);
    for (size_t i = 0; s == FL_OK && i < list.n; i++) {
        if (!is_json_name(list.name[i])) continue;
        s = read_named(r, path, list.name[i]);
        files++;
    }
    if (s == FL_OK && !files) s = fli_fail(r->ctx, FL_EIO, "%s: there is no *.json in this folder", path);
    fli_listing_fini(&list);
    return s;
}

static fl_status read_place(reader *r, const char *name)
{
    struct stat st;
    return !stat(name, &st) && S_ISDIR(st.st_mode) ? read_folder(r, name) : read_file(r, name);
}

/* ---- the source ----------------------------------------------------------------------------------------- */

static fl_status finish(reader *r, const char *name, fli_dataset *ds)
{
    fl_status s;
    *ds = (fli_dataset){.n = r->label.n,
                        .dim = r->dim,
                        .kind = r->wide ? FLI_X_F64 : FLI_X_F32,
                        .groups = r->users->n,
                        .shape = {1, 1, r->dim}};
    if ((s = fli_load_origin(r->ctx, name, ds)) || (s = fli_label_names_order(r->labels, r->label.p, ds->n))) return s;
    ds->classes = r->labels->classes;
    if ((s = fli_array_take(r->ctx, &r->x, &ds->x)) || (s = fli_array_take(r->ctx, &r->label, (void **)&ds->label)))
        return s;
    return fli_array_take(r->ctx, &r->group, (void **)&ds->group);
}

static fl_status load_part(fl_ctx *ctx, const char *name, int wide, int is_test, fli_words *users,
                           fli_label_names *labels, fli_dataset **out)
{
    reader r = {.ctx = ctx,
                .users = users,
                .labels = labels,
                .wide = wide,
                .is_test = is_test,
                .seen = {.size = 1},
                .x = {.size = wide ? sizeof(double) : sizeof(float)},
                .label = {.size = sizeof(int32_t)},
                .group = {.size = sizeof(int32_t)}};
    *out = fli_alloc(ctx, 1, sizeof **out);
    if (!*out) return FL_ENOMEM;
    fl_status s = read_place(&r, name);
    if (s == FL_OK && !r.label.n) s = fli_fail(ctx, FL_EFORMAT, "%s: has no samples", name);
    if (s == FL_OK) s = finish(&r, name, *out);
    fli_array_fini(&r.seen);
    fli_array_fini(&r.x);
    fli_array_fini(&r.label);
    fli_array_fini(&r.group);
    return s;
}

static fl_status load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    const params *p = request->params;
    fli_dataset *a = NULL, *b = NULL;
    fli_words users;
    fli_label_names labels;
    *train = *test = NULL;
    fli_words_init(&users, ctx);
    fli_label_names_init(&labels, ctx, (size_t)p->classes);
    fl_status s = load_part(ctx, p->train, request->wide, 0, &users, &labels, &a);
    if (s == FL_OK && *p->test) {
        s = load_part(ctx, p->test, request->wide, 1, &users, &labels, &b);
        if (s == FL_OK) s = fli_load_check_test(ctx, p->test, a, b);
    }
    if (s == FL_OK) s = fli_label_names_name(&labels, p->train, a);
    fli_words_fini(&users);
    fli_label_names_fini(&labels);
    return fli_load_hand_out(s, a, b, train, test);
}

static const fl_key keys[] = {
    FLI_KEY_STRING(params, train, NULL, "JSON file, or folder of *.json, with the training samples"),
    FLI_KEY_STRING(params, test, "", "JSON file, or folder of *.json, with the test samples; '' for none"),
    FLI_KEY_INT(params, classes, "0", 0, FLI_MOST_LABELS, FLI_CLASSES_HELP),
    FLI_KEY_END,
};

const fli_source fli_source_leaf = {
    .name = "leaf",
    .title = "federated data in the JSON format of LEAF, one group per user",
    .citation = "S. Caldas et al.: LEAF: A Benchmark for Federated Settings, 2018",
    .needs = "a JSON file, or a folder of *.json read in name order, with users, num_samples and user_data of numbers, "
             "plain "
             "or as .gz, .xz or .zip",
    .keys = keys,
    .params_size = sizeof(params),
    .load = load,
};
