#include "data/federation/remote_data.h"

#include "base/number.h"
#include "data/label_names.h"
#include "data/load.h"
#include "data/source.h"
#include "data/source/numpy.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- the source ------------------------------------------------------------------------------------------ */

typedef struct {
    fl_ints shape;
    int64_t classes;
    char *class_names, *test;
} joined_params;

static const fl_key keys[] = {
    {"shape", FL_KEY_INTS, "[]", 0, 1e9, NULL,
     "of the clients' samples, to be given: the number of features, or channels, height and width of images; 0: "
     "samples are known by their numbers alone",
     offsetof(joined_params, shape)},
    FLI_KEY_INT(joined_params, classes, "0", 0, 1e6, "labels are 0 to classes - 1; 0: numbers instead of labels"),
    FLI_KEY_STRING(joined_params, class_names, "",
                   "labels as the clients' files write them, in the order of the classes, separated by commas; empty: "
                   "they are 0, 1, ..."),
    FLI_KEY_STRING(joined_params, test, "",
                   "the server's test set: an .npz file with arrays x and y, or for sparse samples a text file of "
                   "LIBSVM's, from index 1; '' for none"),
    FLI_KEY_END,
};

static fl_status load(fl_ctx *ctx, const fli_source_request *request, fli_dataset **train, fli_dataset **test)
{
    (void)request;
    *train = *test = NULL;
    return fli_fail(ctx, FL_ECONFIG,
                    "data.kind is joined: the samples are at the clients, which join a server (fl_server_new)");
}

const fli_source fli_source_joined = {
    .name = "joined",
    .title = "samples at the clients, which join a server",
    .needs = "a program that is the server, by fl_server_new",
    .keys = keys,
    .params_size = sizeof(joined_params),
    .load = load,
};

/* ---- what samples look like ------------------------------------------------------------------------------- */

int fli_is_joined(const fli_fed_spec *spec) { return spec->source == &fli_source_joined; }

static fl_status check_spec(fl_ctx *ctx, const fli_fed_spec *spec)
{
    static const char *const ways[] = {
        [FLI_NORM_UNIT] = "unit", [FLI_NORM_STANDARD] = "standard", [FLI_NORM_COLUMNS] = "columns"};
    int how = spec->normalize;
    if (how == FLI_NORM_UNIT || how == FLI_NORM_STANDARD || how == FLI_NORM_COLUMNS)
        return fli_fail(ctx, FL_ECONFIG,
                        "data.normalize is %s, which needs the samples of all clients, but the server has none; use "
                        "given with mean and std, or auto, none or image",
                        ways[how]);
    if (spec->on_demand)
        return fli_fail(ctx, FL_ECONFIG, "data.kind is joined: clients have their samples, so on_demand must be false");
    if (!spec->clients)
        return fli_fail(ctx, FL_ECONFIG, "data.kind is joined: partition.clients must say how many clients there are");
    return FL_OK;
}

fl_status fli_joined_shape(fl_ctx *ctx, const fli_fed_spec *spec, fli_data_shape *out)
{
    const joined_params *p = spec->source_params;
    const int64_t *v = p->shape.v;
    fl_status s = check_spec(ctx, spec);
    if (s) return s;
    if (p->shape.n != 1 && p->shape.n != 3)
        return fli_fail(ctx, FL_ECONFIG,
                        "data.shape has %zu numbers, but should be features, or channels, height and width",
                        p->shape.n);
    *out = (fli_data_shape){.shape = {1, 1, (size_t)v[0]}, .classes = (size_t)p->classes};
    for (size_t k = 0; p->shape.n == 3 && k < 3; k++) out->shape[k] = (size_t)v[k];
    if ((double)out->shape[0] * (double)out->shape[1] * (double)out->shape[2] > 1e9)
        return fli_fail(ctx, FL_ECONFIG, "data.shape has more than 1e9 features");
    return FL_OK;
}

static size_t features(const size_t shape[3]) { return shape[0] * shape[1] * shape[2]; }
static int is_row(const size_t shape[3]) { return shape[0] == 1 && shape[1] == 1; }
static int is_sparse(fli_xkind kind) { return kind == FLI_X_CSR || kind == FLI_X_CSR64; }

/* A row of the right length fits, because a client's file format may not know images. */
static int shape_fits(const size_t all[3], const size_t own[3])
{
    return features(all) == features(own) && (is_row(own) || !memcmp(all, own, 3 * sizeof *own));
}

const char *fli_joined_wrong(const fli_data_shape *all, const fli_data_shape *first, const fli_data_shape *client)
{
    if (!client->samples) return "it has no samples";
    if (!shape_fits(all->shape, client->shape)) return "its samples have another shape";
    if (!all->classes != !client->classes)
        return all->classes ? "its samples have numbers, and no labels" : "its samples have labels, and no numbers";
    if (first && is_sparse(first->kind) != is_sparse(client->kind))
        return "its samples are sparse, and those of others are dense, or the other way round";
    if (first && (first->kind == FLI_X_U8) != (client->kind == FLI_X_U8))
        return "its samples are bytes, and those of others are not, or the other way round";
    return NULL;
}

/* ---- the server's ------------------------------------------------------------------------------------------ */

/* Sets the class names from a comma-separated list; "" sets none. */
static fl_status set_class_names(fl_ctx *ctx, const char *names, fli_dataset *ds)
{
    size_t n = strlen(names), count = 1;
    if (!n) return FL_OK;
    for (const char *c = names; *c; c++) count += *c == ',';
    if (count != ds->classes)
        return fli_fail(ctx, FL_ECONFIG, "data.class_names has %zu names, but data.classes is %zu", count, ds->classes);
    if (!(ds->class_name = fli_alloc(ctx, count * sizeof(char *) + n + 1, 1))) return FL_ENOMEM;
    char *at = memcpy(ds->class_name + count, names, n + 1);
    for (size_t i = 0; i < count; i++) {
        at += strspn(at, " ");
        char *end = at + strcspn(at, ",");
        ds->class_name[i] = at;
        at = end + 1;
        do *end = 0;
        while (end-- > ds->class_name[i] && *end == ' ');
    }
    return FL_OK;
}

fl_status fli_joined_test(fl_ctx *ctx, const fli_fed_spec *spec, const fli_data_shape *first, fli_dataset **out)
{
    const joined_params *p = spec->source_params;
    const fli_array_set file = {{p->test, "x"}, {p->test, "y"}, {"", NULL}},
                        no_file = {{"", NULL}, {"", NULL}, {"", NULL}};
    fli_dataset *none = NULL;
    fli_data_shape all;
    *out = NULL;
    if (!*p->test) return FL_OK;
    fl_status s = fli_joined_shape(ctx, spec, &all);
    if (s) return s;
    if (is_sparse(first->kind)) return fli_libsvm_read(ctx, p->test, features(all.shape), all.classes, spec->wide, out);
    int task = all.classes ? FLI_TASK_CLASSIFICATION : FLI_TASK_REGRESSION;
    if ((s = fli_numpy_load(ctx, &file, &no_file, task, all.classes, out, &none))) return s;
    if (features((*out)->shape) == features(all.shape)) {
        memcpy((*out)->shape, all.shape, sizeof all.shape);
        return FL_OK;
    }
    s = fli_fail(ctx, FL_EMISMATCH, "%s: its samples have %zu features, but data.shape says %zu", p->test,
                 features((*out)->shape), features(all.shape));
    fli_dataset_free(*out);
    *out = NULL;
    return s;
}

/* A data set without samples that has the shape, kind and classes of the clients' samples. */
static fl_status empty_set(fl_ctx *ctx, const fli_fed_spec *spec, const fli_data_shape *all, fli_dataset **out)
{
    fli_xkind dense = all->kind == FLI_X_CSR ? FLI_X_F32 : all->kind == FLI_X_CSR64 ? FLI_X_F64 : all->kind;
    const joined_params *p = spec->source_params;
    fli_dataset *ds;
    fl_status s = fli_dataset_new(ctx, dense, 0, features(all->shape), all->classes, &ds);
    if (s) return s;
    memcpy(ds->shape, all->shape, sizeof ds->shape);
    ds->kind = all->kind;
    if (is_sparse(ds->kind)) {
        ds->row = fli_alloc(ctx, 1, sizeof *ds->row);
        ds->col = fli_alloc(ctx, 1, sizeof *ds->col);
        if (!ds->row || !ds->col) s = FL_ENOMEM;
    }
    if (!s) s = set_class_names(ctx, p->class_names, ds);
    if (s)
        fli_dataset_free(ds);
    else
        *out = ds;
    return s;
}

static fl_status note_sizes(fl_ctx *ctx, const fli_fed_spec *spec, const fli_data_shape *clients, fli_fed *fed)
{
    size_t n = spec->clients;
    fed->part.start = fli_alloc(ctx, n + 1, sizeof *fed->part.start);
    fed->test_count = fli_alloc(ctx, n, sizeof *fed->test_count);
    fed->unlabelled_count = spec->unlabelled > 0 ? fli_alloc(ctx, n, sizeof *fed->unlabelled_count) : NULL;
    if (!fed->part.start || !fed->test_count || (spec->unlabelled > 0 && !fed->unlabelled_count)) return FL_ENOMEM;
    fed->part.clients = fed->clients = n;
    for (size_t i = 0; i < n; i++) {
        fed->part.start[i + 1] = fed->part.start[i] + clients[i].samples;
        if (spec->test_fraction > 0)
            fed->test_count[i] = (uint32_t)fli_fed_share(spec->test_fraction, clients[i].samples);
        size_t left = clients[i].samples - fed->test_count[i];
        if (fed->unlabelled_count) fed->unlabelled_count[i] = (uint32_t)fli_fed_share(spec->unlabelled, left);
        fed->samples += left;
        if (left > fed->largest) fed->largest = left;
    }
    return FL_OK;
}

fl_status fli_fed_joined(fl_ctx *ctx, const fli_fed_spec *spec, const fli_data_shape *clients, fli_dataset *test,
                         fli_fed **out)
{
    fli_data_shape all;
    fli_fed *fed = fli_alloc(ctx, 1, sizeof *fed);
    fl_status s = fed ? fli_joined_shape(ctx, spec, &all) : FL_ENOMEM;
    if (fed)
        *fed = (fli_fed){.test = test,
                         .tests = test ? test->n : 0,
                         .seed = spec->seed,
                         .test_fraction = spec->test_fraction,
                         .magnitude = NAN};
    if (!s) {
        all.kind = clients[0].kind;
        s = empty_set(ctx, spec, &all, &fed->train);
    }
    if (test) test->test = 1;
    if (!s && test) s = fli_dataset_check(ctx, test, "test data");
    if (!s) s = fli_fed_prepare(ctx, spec, fed->train, test);
    if (!s) s = note_sizes(ctx, spec, clients, fed);
    if (!s && spec->unlabelled > 0 && !all.classes)
        s = fli_fail(ctx, FL_ECONFIG, "data.unlabelled is %g, but a regression has no labels", spec->unlabelled);
    if (s) {
        if (!fed) fli_dataset_free(test);
        fli_fed_free(fed);
        return s;
    }
    fed->dim = fed->train->dim;
    fed->classes = all.classes;
    *out = fed;
    return FL_OK;
}

/* ---- a client's --------------------------------------------------------------------------------------------- */

/* The federation's class with this name; -1: none. */
static int32_t class_of(const fli_common *all, const char *name)
{
    for (size_t i = 0; all->class_name && i < all->classes; i++)
        if (!strcmp(all->class_name[i], name)) return (int32_t)i;
    if (all->class_name) return -1;
    char *end;
    double v = fli_strtod(name, &end);
    return *name && !*end && v >= 0 && v < (double)all->classes && v == (double)(int32_t)v ? (int32_t)v : -1;
}

/* Appends names with commas between them, at most as many as a sentence has room for. */
static void list_names(fli_text *t, char *const *names, size_t n)
{
    enum { MOST = 10 };
    for (size_t i = 0; i < n && i < MOST; i++) {
        fli_quoted name = fli_quote(names[i]);
        fli_text_addf(t, "%s%.*s", i ? ", " : "", (int)strlen(name.s) - 2, name.s + 1);
    }
    if (n > MOST) fli_text_add(t, ", ...");
}

static fl_status unknown_class(fl_ctx *ctx, const fli_common *all, const fli_dataset *ds, const char *name)
{
    fli_text t;
    fli_text_init(&t, ctx);
    if (all->class_name) {
        fli_text_add(&t, "the classes of the federation are ");
        list_names(&t, all->class_name, all->classes);
        fli_text_add(&t, " (data.class_names at the server)");
    } else {
        fli_text_addf(&t, "the labels of the federation are 0 to %zu; others have to be named at the server, by ",
                      all->classes - 1);
        fli_text_add(&t, "data.class_names: \"");
        if (ds->class_name && ds->classes == all->classes)
            list_names(&t, ds->class_name, ds->classes);
        else
            fli_text_add(&t, "...");
        fli_text_add(&t, "\"");
    }
    fl_status s = fli_text_ok(&t);
    if (!s)
        s = fli_fail(ctx, FL_EMISMATCH, "some samples are labelled %s, but %s", fli_quote(name).s, fli_text_get(&t));
    fli_text_fini(&t);
    return s;
}

/* out[c] = the federation's class for class c of the file, -1 if it has none; from fli_alloc. *out is NULL if the file
 * names no classes: its labels are the federation's numbers. */
static fl_status find_classes(fl_ctx *ctx, const fli_common *all, const fli_dataset *ds, int32_t **out)
{
    *out = NULL;
    if (!ds->class_name) return FL_OK;
    if (!(*out = fli_alloc(ctx, ds->classes, sizeof **out))) return FL_ENOMEM;
    for (size_t i = 0; i < ds->classes; i++) (*out)[i] = class_of(all, ds->class_name[i]);
    return FL_OK;
}

static int32_t class_in_federation(const fli_common *all, const int32_t *to, int32_t label)
{
    return to ? to[label] : (size_t)label < all->classes ? label : -1;
}

static fl_status check_labels(fl_ctx *ctx, const fli_common *all, const fli_dataset *ds, const int32_t *to)
{
    char number[32];
    for (size_t i = 0; i < ds->n; i++)
        if (class_in_federation(all, to, ds->label[i]) < 0) {
            fli_snprintf(number, sizeof number, "%d", (int)ds->label[i]);
            return unknown_class(ctx, all, ds, to ? ds->class_name[ds->label[i]] : number);
        }
    return FL_OK;
}

fl_status fli_joined_labels(fl_ctx *ctx, const fli_common *all, const fli_dataset *ds)
{
    int32_t *to;
    if (!ds->label) return FL_OK;
    fl_status s = find_classes(ctx, all, ds, &to);
    if (!s) s = check_labels(ctx, all, ds, to);
    fli_free(to);
    return s;
}

/* Replaces the file's classes by the federation's classes of the same name. Numbers stay. */
static fl_status map_labels(fl_ctx *ctx, const fli_common *all, fli_dataset *ds)
{
    int32_t *to;
    fl_status s = find_classes(ctx, all, ds, &to);
    if (!s) s = check_labels(ctx, all, ds, to);
    if (!s && to) s = fli_label_names_note(ctx, ds, to);
    for (size_t i = 0; to && !s && i < ds->n; i++) /* borrowed labels have no names, and stay */
        if (to[ds->label[i]] != ds->label[i]) ds->label[i] = to[ds->label[i]];
    fli_free(to);
    return s;
}

static fl_status fit_to_federation(fl_ctx *ctx, const fli_common *all, fli_dataset *ds)
{
    fli_data_shape own = {.samples = ds->n, .classes = ds->classes, .kind = ds->kind},
                   theirs = {.classes = all->classes};
    memcpy(own.shape, ds->shape, sizeof own.shape);
    memcpy(theirs.shape, all->shape, sizeof theirs.shape);
    const char *wrong = fli_joined_wrong(&theirs, NULL, &own);
    if (wrong)
        return fli_fail(ctx, FL_EMISMATCH,
                        "this client does not fit the federation: %s (%zu x %zu x %zu and %zu classes here, %zu x %zu "
                        "x %zu and %zu there)",
                        wrong, own.shape[0], own.shape[1], own.shape[2], own.classes, all->shape[0], all->shape[1],
                        all->shape[2], all->classes);
    fl_status s = ds->label ? map_labels(ctx, all, ds) : FL_OK;
    memcpy(ds->shape, all->shape, sizeof ds->shape);
    ds->classes = all->classes;
    ds->from = all->before;
    fli_free(ds->class_name);
    ds->class_name = NULL;
    return s;
}

static fl_status hold_all(fl_ctx *ctx, fli_fed *fed)
{
    size_t n = fed->train->n;
    fed->part.clients = 1;
    fed->part.start = fli_alloc(ctx, 2, sizeof *fed->part.start);
    fed->part.index = fli_alloc(ctx, n, sizeof *fed->part.index);
    if (!fed->part.start || !fed->part.index) return FL_ENOMEM;
    fed->part.start[1] = n;
    for (size_t i = 0; i < n; i++) fed->part.index[i] = (uint32_t)i;
    return FL_OK;
}

fl_status fli_fed_member(fl_ctx *ctx, const fli_fed_spec *spec, const fli_common *all, uint32_t client,
                         fli_dataset *own, fli_fed **out)
{
    fl_status s = fli_dataset_check(ctx, own, own->origin ? own->origin : "the samples");
    if (!s) s = fit_to_federation(ctx, all, own);
    if (!s) s = fli_fed_prepare(ctx, spec, own, NULL);
    fli_fed *fed = s ? NULL : fli_alloc(ctx, 1, sizeof *fed);
    if (!fed) {
        fli_dataset_free(own);
        return s ? s : FL_ENOMEM;
    }
    *fed = (fli_fed){.train = own,
                     .first = client,
                     .here = 1,
                     .known = client,
                     .clients = spec->clients,
                     .dim = own->dim,
                     .classes = all->classes,
                     .seed = spec->seed,
                     .test_fraction = spec->test_fraction,
                     .magnitude = NAN};
    s = hold_all(ctx, fed);
    if (!s) s = fli_fed_split(ctx, spec->unlabelled, fed);
    if (!s) s = fli_fed_freeze(ctx, spec, fed);
    if (s)
        fli_fed_free(fed);
    else
        *out = fed;
    return s;
}
