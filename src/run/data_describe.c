/* What `fedloom data` shows: the data set, and who holds what. */
#include "data/partition.h"
#include "run/plan.h"

#include <string.h>

enum { MOST_CLASSES = 40 }; /* wider histograms help nobody */

static void add_memory(fli_text *t, size_t bytes)
{
    double kib = (double)bytes / 1024;
    fli_text_addf(t, ", %.1f %s in memory", kib < 1024 ? kib : kib / 1024, kib < 1024 ? "KiB" : "MiB");
}

static void about(fli_text *t, const fli_plan *p)
{
    const fli_fed *f = p->fed;
    const fli_dataset *ds = f->train;
    static const char *const stored[] = {"bytes", "f32", "f64", "sparse f32", "sparse f64"};
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
    if (f->dim) fli_text_addf(t, "; %s", ds ? stored[ds->kind] : "made on demand");
    if (ds && fli_dataset_sparse(ds))
        fli_text_addf(t, ", %.3g %% non-zero",
                      100 * (double)fli_dataset_stored(ds) / ((double)ds->n * (double)ds->dim));
    if (ds) add_memory(t, fli_dataset_bytes(ds) + (f->test ? fli_dataset_bytes(f->test) : 0));
    fli_text_add(t, "\n");
    if (f->test) fli_text_addf(t, "test set   %zu samples\n", f->test->n);
    fli_text_addf(t, "partition  %s: %zu clients\n", p->settings.partitioner.item.name, f->clients);
}

static void sizes(fli_text *t, const fli_fed *f)
{
    size_t least = SIZE_MAX, most = 0;
    for (size_t i = 0; i < f->clients; i++) {
        size_t n = fli_fed_size(f, i);
        if (n < least) least = n;
        if (n > most) most = n;
    }
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

static fl_status client_row(fl_ctx *ctx, fli_text *t, const fli_fed *f, size_t client, size_t *count)
{
    fli_view v;
    fl_status s = fli_view_open(ctx, f, client, &v);
    if (s) return s;
    size_t n =
        v.n_train + v.n_unlabelled; /* labelled ones first; what the labels of the others were is no secret here */
    fli_text_addf(t, "%8zu %8zu", client, v.n_train);
    if (f->truth) fli_text_addf(t, " %10zu", v.n_unlabelled);
    fli_text_addf(t, " %6zu", v.n_test);
    if (f->classes) {
        memset(count, 0, f->classes * sizeof *count);
        for (size_t i = 0; i < n; i++) count[i < v.n_train ? v.ds->label[v.train[i]] : fli_fed_truth(f, v.train[i])]++;
        fli_text_add(t, "  |");
        if (f->classes <= MOST_CLASSES) histogram(t, count, f->classes, n);
        fli_text_add(t, "| ");
        for (size_t c = 0; c < f->classes && f->classes <= MOST_CLASSES; c++) fli_text_addf(t, " %zu", count[c]);
    }
    fli_text_add(t, "\n");
    fli_view_close(&v);
    return FL_OK;
}

static fl_status describe(fl_ctx *ctx, fli_text *t, const fli_plan *p, size_t rows)
{
    const fli_fed *f = p->fed;
    fl_status s = FL_OK;
    size_t *count = fli_alloc(ctx, f->classes, sizeof *count);
    if (!count) return FL_ENOMEM;
    about(t, p);
    sizes(t, f);
    if (rows > f->clients) rows = f->clients;
    if (rows)
        fli_text_addf(t, "\n%8s %8s%s %6s%s\n", "client", f->truth ? "labelled" : "train",
                      f->truth ? " unlabelled" : "", "test", f->classes ? "   samples per class" : "");
    for (size_t i = 0; !s && i < rows; i++) s = client_row(ctx, t, f, i, count);
    if (rows < f->clients) fli_text_addf(t, "     ... and %zu more clients\n", f->clients - rows);
    fli_free(count);
    return s ? s : fli_text_ok(t);
}

fl_status fl_data_describe(fl_config *cfg, size_t clients, const char *partition_json, fl_text_fn *out, void *arg)
{
    fli_plan plan;
    fli_text text;
    fli_clear(cfg->ctx);
    fli_text_init(&text, cfg->ctx);
    fl_status s = fli_plan_data(cfg, NULL, &plan);
    if (!s) s = describe(cfg->ctx, &text, &plan, clients);
    if (!s) out(arg, fli_text_get(&text));
    if (!s && partition_json && !plan.fed->train)
        s = fli_fail(cfg->ctx, FL_ECONFIG, "data made on demand have no partition to write");
    if (!s && partition_json) s = fli_partition_write(cfg->ctx, &plan.fed->part, partition_json);
    fli_plan_fini(&plan);
    fli_text_fini(&text);
    return s;
}
