/* `fedloom data`: shows the data set and which client has which labels, as text or as JSON; with --export it writes the
 * federation as files for clients that join over the network. */
#include "base/number.h"
#include "data/partition/partition.h"
#include "format/json.h"
#include "format/yaml.h"
#include "format/zip.h"
#include "plan/plan.h"
#include "study/experiment.h"

#include <stdlib.h>
#include <string.h>

/* ==== looking at data ======================================================================================= */

enum { MOST_CLASSES = 40 }; /* wider histograms are unreadable */

static void add_memory(fli_text *t, size_t bytes)
{
    double kib = (double)bytes / 1024;
    fli_text_addf(t, ", %.1f %s in memory", kib < 1024 ? kib : kib / 1024, kib < 1024 ? "KiB" : "MiB");
}

static size_t bytes_of(const fli_fed *f)
{
    return fli_dataset_bytes(f->train) + (f->test ? fli_dataset_bytes(f->test) : 0);
}

static const char *stored_as(const fli_dataset *ds)
{
    static const char *const stored[] = {"bytes", "f32", "f64", "sparse f32", "sparse f64"};
    return ds ? stored[ds->kind] : "made on demand";
}

static void about(fli_text *t, const fli_plan *p)
{
    const fli_fed *f = p->fed;
    const fli_dataset *ds = f->train;
    fli_text_addf(t, "data       %s: %zu training samples, ", p->settings->source.item.name, f->samples);
    if (f->dim)
        fli_text_addf(t, "%zu features", f->dim);
    else
        fli_text_add(t, "known by their numbers alone");
    if (f->classes)
        fli_text_addf(t, ", %zu classes", f->classes);
    else if (!ds || ds->target)
        fli_text_add(t, ", regression");
    if (ds && ds->shape[1] > 1) fli_text_addf(t, ", images %zux%zux%zu", ds->shape[0], ds->shape[1], ds->shape[2]);
    if (ds && ds->frame[0]) fli_text_addf(t, " of %zux%zu", ds->frame[0], ds->frame[1]);
    if (f->dim) fli_text_addf(t, "; %s", stored_as(ds));
    if (ds && fli_dataset_sparse(ds))
        fli_text_addf(t, ", %.3g %% non-zero",
                      100 * (double)fli_dataset_stored(ds) / ((double)ds->n * (double)ds->dim));
    if (ds) add_memory(t, bytes_of(f));
    fli_text_add(t, "\n");
    if (f->test) fli_text_addf(t, "test set   %zu samples\n", f->tests);
    fli_text_addf(t, "partition  %s: %zu clients\n", p->settings->partitioner.item.name, f->clients);
}

static void extremes(const fli_fed *f, size_t *least, size_t *most)
{
    *least = SIZE_MAX;
    *most = 0;
    for (size_t i = 0; i < f->clients; i++) {
        size_t n = fli_fed_size(f, i);
        if (n < *least) *least = n;
        if (n > *most) *most = n;
    }
}

static void sizes(fli_text *t, const fli_fed *f)
{
    size_t least, most;
    extremes(f, &least, &most);
    fli_text_addf(t, "samples    %zu to %zu per client, %.1f on average\n", least, most,
                  (double)f->samples / (double)f->clients);
}

/* One character per class: its share of the client's samples. */
static void histogram(fli_text *t, const size_t *count, size_t classes, size_t n)
{
    static const char *const shade[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                        "\u2585", "\u2586", "\u2587", "\u2588"};
    for (size_t c = 0; c < classes; c++) {
        size_t level = n ? (count[c] * 8 + n - 1) / n : 0; /* any nonzero count is visible */
        fli_text_add(t, shade[level]);
    }
}

/* Counts a client's samples of each class: first labelled ones, then the unlabelled ones by their true labels. */
static void count_classes(const fli_fed *f, const fli_view *v, size_t *count)
{
    memset(count, 0, f->classes * sizeof *count);
    for (size_t i = 0; f->classes && i < v->n_train + v->n_unlabelled; i++)
        count[i < v->n_train ? v->ds->label[v->train[i]] : fli_fed_truth(f, v->train[i])]++;
}

static fl_status client_row(fl_ctx *ctx, fli_text *t, const fli_fed *f, size_t client, size_t *count)
{
    fli_view v;
    fl_status s = fli_view_open(ctx, f, client, &v);
    if (s) return s;
    size_t n = v.n_train + v.n_unlabelled;
    fli_text_addf(t, "%8zu %8zu", client, v.n_train);
    if (f->truth) fli_text_addf(t, " %10zu", v.n_unlabelled);
    fli_text_addf(t, " %6zu", v.n_test);
    if (f->classes) {
        count_classes(f, &v, count);
        fli_text_add(t, "  |");
        if (f->classes <= MOST_CLASSES) histogram(t, count, f->classes, n);
        fli_text_add(t, "| ");
        for (size_t c = 0; c < f->classes && f->classes <= MOST_CLASSES; c++) fli_text_addf(t, " %zu", count[c]);
    }
    fli_text_add(t, "\n");
    fli_view_close(&v);
    return FL_OK;
}

static fl_status print(fl_ctx *ctx, fli_text *t, const fli_plan *p, size_t rows, size_t *count)
{
    const fli_fed *f = p->fed;
    fl_status s = FL_OK;
    about(t, p);
    sizes(t, f);
    if (rows)
        fli_text_addf(t, "\n%8s %8s%s %6s%s\n", "client", f->truth ? "labelled" : "train",
                      f->truth ? " unlabelled" : "", "test", f->classes ? "   samples per class" : "");
    for (size_t i = 0; !s && i < rows; i++) s = client_row(ctx, t, f, i, count);
    if (rows < f->clients) fli_text_addf(t, "     ... and %zu more clients\n", f->clients - rows);
    return s;
}

/* ---- as JSON ----------------------------------------------------------------------------------------------- */

static void put_data(fli_json *j, const fli_plan *p)
{
    const fli_fed *f = p->fed;
    const fli_dataset *ds = f->train;
    fli_json_map(j, "data");
    fli_json_text(j, "kind", p->settings->source.item.name);
    fli_json_whole(j, "train_samples", f->samples);
    fli_json_whole(j, "test_samples", f->tests);
    fli_json_whole(j, "features", f->dim);
    fli_json_whole(j, "classes", f->classes); /* 0: regression */
    if (ds && ds->shape[1] > 1) {
        fli_json_list(j, "shape");
        for (size_t i = 0; i < 3; i++) fli_json_whole(j, NULL, ds->shape[i]);
        fli_json_end(j);
    }
    fli_json_text(j, "stored", stored_as(ds));
    if (ds) fli_json_whole(j, "bytes", bytes_of(f));
    fli_json_end(j);
}

static void put_partition(fli_json *j, const fli_plan *p)
{
    size_t least, most;
    extremes(p->fed, &least, &most);
    fli_json_map(j, "partition");
    fli_json_text(j, "kind", p->settings->partitioner.item.name);
    fli_json_whole(j, "clients", p->fed->clients);
    fli_json_whole(j, "least_samples", least);
    fli_json_whole(j, "most_samples", most);
    fli_json_real(j, "mean_samples", (double)p->fed->samples / (double)p->fed->clients);
    fli_json_end(j);
}

static fl_status put_client(fl_ctx *ctx, fli_json *j, const fli_fed *f, size_t client, size_t *count)
{
    fli_view v;
    fl_status s = fli_view_open(ctx, f, client, &v);
    if (s) return s;
    fli_json_map(j, NULL);
    fli_json_whole(j, "client", client);
    fli_json_whole(j, "train", v.n_train);
    if (f->truth) fli_json_whole(j, "unlabelled", v.n_unlabelled);
    fli_json_whole(j, "test", v.n_test);
    count_classes(f, &v, count);
    if (f->classes) fli_json_list(j, "samples_per_class");
    for (size_t c = 0; c < f->classes; c++) fli_json_whole(j, NULL, count[c]);
    if (f->classes) fli_json_end(j);
    fli_json_end(j);
    fli_view_close(&v);
    return FL_OK;
}

static fl_status put(fl_ctx *ctx, fli_text *t, const fli_plan *p, size_t rows, size_t *count)
{
    fl_status s = FL_OK;
    fli_json j;
    fli_json_init(&j, t);
    fli_json_map(&j, NULL);
    put_data(&j, p);
    put_partition(&j, p);
    fli_json_list(&j, "clients");
    for (size_t i = 0; !s && i < rows; i++) s = put_client(ctx, &j, p->fed, i, count);
    fli_json_end(&j);
    fli_json_end(&j);
    return s;
}

/* ---- either ------------------------------------------------------------------------------------------------- */

static fl_status describe(fl_ctx *ctx, fli_text *t, const fli_plan *p, size_t rows)
{
    size_t *count = fli_alloc(ctx, p->fed->classes, sizeof *count);
    if (!count) return FL_ENOMEM;
    if (rows > p->fed->clients) rows = p->fed->clients;
    fl_status s = (fli_wants_json(ctx) ? put : print)(ctx, t, p, rows, count);
    fli_free(count);
    return s ? s : fli_text_ok(t);
}

fl_status fl_data_describe(fl_config *cfg, const char *data, size_t clients, const char *partition_json,
                           fl_text_fn *out, void *arg)
{
    fli_plan plan = {0};
    fli_text text;
    fl_config *shared = NULL;
    fli_clear(cfg->ctx);
    fli_text_init(&text, cfg->ctx);
    fl_status s = fl_config_is_experiment(cfg) ? fli_experiment_data(cfg, data, &shared) : FL_OK;
    int planned = !s;
    if (!s) s = fli_plan_data(shared ? shared : cfg, NULL, &plan);
    if (!s) s = describe(cfg->ctx, &text, &plan, clients);
    if (!s) out(arg, fli_text_get(&text));
    if (!s && partition_json && !plan.fed->train)
        s = fli_fail(cfg->ctx, FL_ECONFIG, "data made on demand have no partition to write");
    if (!s && partition_json) s = fli_partition_write(cfg->ctx, &plan.fed->part, partition_json);
    if (planned) fli_plan_fini(&plan);
    fl_config_free(shared);
    fli_text_fini(&text);
    return s;
}

/* ==== exporting clients ===================================================================================== */

/* `fedloom data FILE --export FOLDER`: writes a simulated federation as files for a server and for clients that join.
 *
 *     server.yaml            the settings for the server, whose samples are at its clients
 *     roster                 the clients' names, in the order of their numbers
 *     test.npz               the server's test set, if there is one
 *     clients/NAME.npz       a client's samples, as stored and in their order, with all labels; sparse ones as NAME.svm
 *     clients/NAME.yaml      the settings that read them
 *
 * Each client draws its test part and the samples that lose their labels by the same rules, so the federation has the
 * bits of the simulation. */

enum { PATH = 4096, LABEL = 32 };

typedef struct {
    fl_ctx *ctx;
    const char *folder;
    const fli_plan *plan;
    const fli_fed *fed;
    const fli_dataset *all;
    int digits; /* of a client's number */
} export;

/* ---- samples --------------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* A client's samples in the order of the whole set, from which both sides draw its parts. */
static uint32_t *list_samples(const export *e, size_t client, size_t *n)
{
    const fli_partition *p = &e->fed->part;
    size_t from = p->start[client];
    *n = p->start[client + 1] - from;
    uint32_t *list = fli_alloc(e->ctx, *n, sizeof *list);
    if (!list) return NULL;
    memcpy(list, p->index + from, *n * sizeof *list);
    qsort(list, *n, sizeof *list, ascending);
    return list;
}

/* The class of a sample, even if the client will not see it. */
static int32_t label_of(const export *e, const fli_dataset *ds, uint32_t i)
{
    return ds == e->all ? fli_fed_truth(e->fed, i) : ds->label[i];
}

static void whole_shape(const fli_dataset *ds, size_t shape[3])
{
    memcpy(shape, ds->shape, sizeof ds->shape);
    for (int k = 0; k < 2 && ds->frame[k]; k++) shape[1 + k] = ds->frame[k];
}

static fl_status write_dense(const export *e, const fli_dataset *ds, const uint32_t *list, size_t n, const char *path)
{
    size_t width = fli_xkind_size(ds->kind), row = fli_dataset_length(ds) * width, shape[3];
    char *x = fli_alloc(e->ctx, n, row);
    int32_t *label = ds->label ? fli_alloc(e->ctx, n, sizeof *label) : NULL;
    double *target = ds->target ? fli_alloc(e->ctx, n, sizeof *target) : NULL;
    fl_status s = x && (label || target) ? FL_OK : FL_ENOMEM;
    for (size_t i = 0; !s && i < n; i++) {
        memcpy(x + i * row, (const char *)ds->x + list[i] * row, row);
        if (label) label[i] = label_of(e, ds, list[i]);
        if (target) target[i] = ds->target[list[i]];
    }
    whole_shape(ds, shape);
    int image = shape[1] > 1 || shape[0] > 1;
    fli_npz_array arrays[] = {
        {"x", ds->kind == FLI_X_U8 ? 'u' : 'f', width, image ? 4 : 2, {n, shape[0], shape[1], shape[2]}, x},
        {"y", label ? 'i' : 'f', label ? sizeof *label : sizeof *target, 1, {n}, label ? (void *)label : target},
    };
    if (!image) arrays[0].size[1] = fli_dataset_length(ds);
    if (!s) s = fli_npz_write(e->ctx, path, arrays, 2);
    fli_free(x);
    fli_free(label);
    fli_free(target);
    return s;
}

static void put_sparse_row(const export *e, const fli_dataset *ds, uint32_t i, fli_writer *out)
{
    if (ds->label)
        fli_writer_printf(out, "%d", (int)label_of(e, ds, i));
    else
        fli_writer_printf(out, "%.17g", ds->target[i]);
    for (size_t k = ds->row[i]; k < ds->row[i + 1]; k++)
        if (ds->kind == FLI_X_CSR64)
            fli_writer_printf(out, " %u:%.17g", ds->col[k] + 1, ((const double *)ds->x)[k]);
        else
            fli_writer_printf(out, " %u:%.9g", ds->col[k] + 1, (double)((const float *)ds->x)[k]);
    fli_writer_text(out, "\n");
}

static fl_status write_sparse(const export *e, const fli_dataset *ds, const uint32_t *list, size_t n, const char *path)
{
    fli_writer out;
    fl_status s = fli_writer_open(e->ctx, path, &out);
    if (s) return s;
    for (size_t i = 0; i < n; i++) put_sparse_row(e, ds, list[i], &out);
    return fli_writer_close(&out);
}

static fl_status write_samples(const export *e, const fli_dataset *ds, const uint32_t *list, size_t n, const char *path)
{
    return fli_dataset_sparse(ds) ? write_sparse(e, ds, list, n, path) : write_dense(e, ds, list, n, path);
}

static const char *suffix(const export *e) { return fli_dataset_sparse(e->all) ? "svm" : "npz"; }

/* ---- settings -------------------------------------------------------------------------------------------- */

/* The settings that read an exported file, except its name. */
static void describe_file(const export *e, fli_text *t)
{
    if (!e->all->classes) fli_text_add(t, ", task: regression");
    if (e->all->classes) fli_text_addf(t, ", classes: %zu", e->all->classes);
    if (fli_dataset_sparse(e->all)) fli_text_addf(t, ", features: %zu, storage: sparse", e->all->dim);
}

static void add_reals(fli_text *t, const char *name, const double *v, size_t n)
{
    fli_text_addf(t, ", %s: [", name);
    for (size_t i = 0; i < n; i++) fli_text_addf(t, i ? ", %.17g" : "%.17g", v[i]);
    fli_text_add(t, "]");
}

/* Writes scaling that depends on the samples as the resulting numbers. */
static void describe_scaling(const export *e, fli_text *t)
{
    static const char *const words[] = {[FLI_NORM_AUTO] = "auto", [FLI_NORM_NONE] = "none", [FLI_NORM_IMAGE] = "image"};
    int how = e->plan->settings->data.normalize;
    const fli_dataset *ds = e->all;
    if (how == FLI_NORM_AUTO || how == FLI_NORM_NONE || how == FLI_NORM_IMAGE) {
        fli_text_addf(t, ", normalize: %s", words[how]);
        return;
    }
    int shifts = 0;
    for (size_t g = 0; g < ds->segments; g++) shifts |= ds->shift[g] != 0;
    fli_text_add(t, ", normalize: affine");
    add_reals(t, "scale", ds->scale, ds->segments);
    if (shifts) add_reals(t, "shift", ds->shift, ds->segments);
}

/* Leaves out all names if one contains a separator: labels are numbers in exported files anyway. */
static void describe_classes(const export *e, fli_text *t)
{
    char *const *name = e->all->class_name;
    fli_text_addf(t, ", classes: %zu", e->all->classes);
    for (size_t i = 0; name && i < e->all->classes; i++)
        if (strpbrk(name[i], ",\"\\\n")) name = NULL;
    for (size_t i = 0; name && i < e->all->classes; i++)
        fli_text_addf(t, "%s%s", i ? ", " : ", class_names: \"", name[i]);
    if (name) fli_text_add(t, "\"");
}

static void describe_data(const export *e, const char *test, fli_text *t)
{
    static const char *const augment[] = {
        [FLI_AUGMENT_NONE] = "none", [FLI_AUGMENT_CIFAR] = "cifar", [FLI_AUGMENT_CROP] = "crop"};
    const fli_data_settings *d = &e->plan->settings->data;
    size_t shape[3];
    whole_shape(e->all, shape);
    fli_text_addf(t, "data={kind: joined, shape: [%zu, %zu, %zu]", shape[0], shape[1], shape[2]);
    describe_classes(e, t);
    if (test) {
        fli_text_add(t, ", test: ");
        fli_text_json(t, test);
    }
    describe_scaling(e, t);
    fli_text_addf(t, ", test_fraction: %.17g, unlabelled: %.17g, crop: %d, augment: %s", d->test_fraction,
                  d->unlabelled, (int)d->crop, augment[e->all->augment]); /* images augmented once: none */
    if (e->all->augment) fli_text_addf(t, ", augment_share: %.17g", d->augment_share);
    fli_text_add(t, "}");
}

static fl_status write_text(const export *e, const char *path, const fli_text *t)
{
    fl_status s = fli_text_ok(t);
    return s ? s : fli_file_replace(e->ctx, path, fli_text_get(t), t->n);
}

static fl_status write_server(const export *e, fl_config *cfg, const char *test)
{
    char path[PATH], partition[100];
    fli_text t;
    fl_config *server = fl_config_copy(cfg);
    if (!server) return FL_ENOMEM;
    fli_text_init(&t, e->ctx);
    describe_data(e, test, &t);
    fli_snprintf(partition, sizeof partition, "partition={clients: %zu}", e->fed->clients);
    fl_status s = fli_text_ok(&t);
    if (!s) s = fl_config_set(server, fli_text_get(&t));
    if (!s) s = fl_config_set(server, partition);
    fli_text_fini(&t);
    fli_text_init(&t, e->ctx);
    if (!s) {
        fli_yaml_print(&t, server->root, NULL, 0);
        fli_snprintf(path, sizeof path, "%s/server.yaml", e->folder);
        s = write_text(e, path, &t);
    }
    fli_text_fini(&t);
    fl_config_free(server);
    return s;
}

/* ---- all of it ------------------------------------------------------------------------------------------- */

static fl_status write_client(const export *e, size_t client, fli_text *roster)
{
    char name[LABEL], path[PATH];
    size_t n;
    fli_text t;
    fli_snprintf(name, sizeof name, "client-%0*zu", e->digits, client);
    fli_text_addf(roster, "%s\n", name);
    fli_snprintf(path, sizeof path, "%s/clients/%s.%s", e->folder, name, suffix(e));
    uint32_t *list = list_samples(e, client, &n);
    fl_status s = list ? write_samples(e, e->all, list, n, path) : FL_ENOMEM;
    fli_free(list);
    if (s) return s;
    fli_text_init(&t, e->ctx);
    fli_text_addf(&t, "data: {kind: %s, train: ", fli_dataset_sparse(e->all) ? "libsvm" : "npz");
    fli_text_json(&t, path);
    describe_file(e, &t);
    fli_text_add(&t, "}\n");
    fli_snprintf(path, sizeof path, "%s/clients/%s.yaml", e->folder, name);
    s = write_text(e, path, &t);
    fli_text_fini(&t);
    return s;
}

static fl_status write_clients(const export *e)
{
    char path[PATH];
    fli_text roster;
    fl_status s = FL_OK;
    fli_text_init(&roster, e->ctx);
    for (size_t i = 0; !s && i < e->fed->clients; i++) s = write_client(e, i, &roster);
    fli_snprintf(path, sizeof path, "%s/roster", e->folder);
    if (!s) s = write_text(e, path, &roster);
    fli_text_fini(&roster);
    return s;
}

static fl_status write_test(const export *e, const char *path)
{
    const fli_dataset *test = e->fed->test;
    uint32_t *list = fli_alloc(e->ctx, test->n, sizeof *list);
    if (!list) return FL_ENOMEM;
    for (size_t i = 0; i < test->n; i++) list[i] = (uint32_t)i;
    fl_status s = write_samples(e, test, list, test->n, path);
    fli_free(list);
    return s;
}

static fl_status check(const export *e)
{
    if (!e->all) return fli_fail(e->ctx, FL_ECONFIG, "data made on demand have no samples to export (data.on_demand)");
    if (!e->all->dim) return fli_fail(e->ctx, FL_ECONFIG, "samples without features cannot be exported");
    if (e->fed->weight)
        return fli_fail(e->ctx, FL_ECONFIG, "clients' weights that come with the data cannot be given to a server");
    if (strlen(e->folder) > PATH - 100) return fli_fail(e->ctx, FL_ECONFIG, "the folder's name is too long");
    if (fli_path_kind(e->folder))
        return fli_fail(e->ctx, FL_EIO, "%s: is there already; name a folder that is not", e->folder);
    return FL_OK;
}

static fl_status export_all(const export *e, fl_config *cfg)
{
    char path[PATH];
    fl_status s = check(e);
    if (s) return s;
    fli_snprintf(path, sizeof path, "%s/clients", e->folder);
    s = fli_make_folders(e->ctx, path);
    if (!s) s = write_clients(e);
    fli_snprintf(path, sizeof path, "%s/test.%s", e->folder, suffix(e));
    if (!s && e->fed->test) s = write_test(e, path);
    return s ? s : write_server(e, cfg, e->fed->test ? path : NULL);
}

fl_status fl_data_export(fl_config *cfg, const char *folder)
{
    fli_plan plan;
    fli_clear(cfg->ctx);
    fl_status s = fli_plan_data(cfg, NULL, &plan);
    if (!s) {
        export e = {
            .ctx = cfg->ctx, .folder = folder, .plan = &plan, .fed = plan.fed, .all = plan.fed->train, .digits = 1};
        for (size_t n = plan.fed->clients - 1; n >= 10; n /= 10) e.digits++;
        s = export_all(&e, cfg);
    }
    fli_plan_fini(&plan);
    return s;
}
