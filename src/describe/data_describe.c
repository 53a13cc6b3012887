/* What `fedloom data` shows: the data set, and who holds what; as text or as JSON. */
#include "format/json.h"
#include "data/partition/partition.h"
#include "plan/plan.h"

#include <string.h>

enum { MOST_CLASSES = 40 }; /* wider histograms help nobody */

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
    fli_text_addf(t, "data       %s: %zu training samples, ", p->settings.source.item.name, f->samples);
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
    fli_text_addf(t, "partition  %s: %zu clients\n", p->settings.partitioner.item.name, f->clients);
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
        size_t level = n ? (count[c] * 8 + n - 1) / n : 0; /* anything present is visible */
        fli_text_add(t, shade[level]);
    }
}

/* How many of each class a client has; labelled ones first; what the labels of the others were is no secret here. */
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
    fli_json_text(j, "kind", p->settings.source.item.name);
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
    fli_json_text(j, "kind", p->settings.partitioner.item.name);
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

fl_status fl_data_describe(fl_config *cfg, size_t clients, const char *partition_json, fl_text_fn *out, void *arg)
{
    fli_plan plan = {0};
    fli_text text;
    fli_arena arena;
    fl_config shared = *cfg;
    fli_clear(cfg->ctx);
    fli_text_init(&text, cfg->ctx);
    fli_arena_init(&arena, cfg->ctx);
    shared.root = fli_without_experiment_keys(&arena, cfg->root); /* runs of an experiment have their data in common */
    fl_status s = shared.root ? fli_plan_data(&shared, NULL, &plan) : FL_ENOMEM;
    if (!s) s = describe(cfg->ctx, &text, &plan, clients);
    if (!s) out(arg, fli_text_get(&text));
    if (!s && partition_json && !plan.fed->train)
        s = fli_fail(cfg->ctx, FL_ECONFIG, "data made on demand have no partition to write");
    if (!s && partition_json) s = fli_partition_write(cfg->ctx, &plan.fed->part, partition_json);
    if (shared.root) fli_plan_fini(&plan);
    fli_arena_fini(&arena);
    fli_text_fini(&text);
    return s;
}
