/* The files of a result: their contents, their columns, the manifest. output_folder.c publishes the folder. */
#include "base/file.h"
#include "base/number.h"
#include "base/os.h"
#include "format/stream.h"
#include "model_file/model_file.h"
#include "run/output.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

/* ==== model.safetensors ===================================================================================== */

/* The metadata of a model file; model_file/model_file.h lists them. */

enum { NOTES = 20, LONGEST = 1024 }; /* scales that are written as text, at most */

typedef struct {
    fl_ctx *ctx;
    fli_tensor_note note[NOTES];
    fli_text text[NOTES]; /* the values */
    size_t count;
    fli_tensor_entry scaling[2];
    size_t scalings;
} notes;

static fli_text *add(notes *n, const char *key)
{
    fli_text *t = &n->text[n->count];
    n->note[n->count++].key = key;
    fli_text_init(t, n->ctx);
    return t;
}

static void add_reals(notes *n, const char *key, const char *tensor, const double *v, size_t count)
{
    if (count > LONGEST) {
        n->scaling[n->scalings++] =
            (fli_tensor_entry){.name = tensor, .dtype = "F64", .dims = 1, .shape = {count}, .data = v};
        return;
    }
    fli_text *t = add(n, key);
    for (size_t i = 0; i < count; i++) fli_text_addf(t, "%s%.17g", i ? ", " : "[", v[i]);
    fli_text_add(t, "]");
}

/* `samples`: a data set with the shape of those trained on; NULL: samples are made on demand, as plain rows. */
static void add_samples(notes *n, const fli_dataset *samples, const fli_model *m)
{
    const size_t *shape = m->shape, *frame = samples && samples->frame[0] ? samples->frame : m->shape + 1;
    fli_text_addf(add(n, "shape"), "[%zu, %zu, %zu]", shape[0], frame[0], frame[1]);
    if (!samples) return;
    if (samples->frame[0]) fli_text_addf(add(n, "crop"), "%zu", shape[1]);
    if (samples->each) fli_text_add(add(n, "normalize"), "image");
    if (samples->each || !samples->scale) return;
    size_t runs = fli_dataset_sparse(samples) ? samples->dim : samples->segments;
    add_reals(n, "scale", FLI_SCALE_TENSOR, samples->scale, runs);
    if (samples->shift && !fli_dataset_sparse(samples)) add_reals(n, "shift", FLI_SHIFT_TENSOR, samples->shift, runs);
}

static void add_classes(notes *n, const fli_dataset *samples, const fli_model *m)
{
    fli_text_addf(add(n, "classes"), "%zu", m->classes);
    if (!samples || !samples->class_name || samples->classes != m->classes) return;
    fli_text *t = add(n, "class_names");
    for (size_t i = 0; i < m->classes; i++) {
        fli_text_add(t, i ? ", " : "[");
        fli_text_json(t, samples->class_name[i]);
    }
    fli_text_add(t, "]");
}

static void add_model(notes *n, const fli_settings *s, const fli_model *m)
{
    fli_text_add(add(n, "format"), "fedloom");
    fli_text_add(add(n, "version"), FL_VERSION);
    fli_text_add(add(n, "model"), s->objective.item.name);
    fli_settings_print_kind(add(n, "settings"), &s->objective);
    if (m->desc->layers && !m->bilevel) m->desc->layers(m, add(n, "layers"));
    fli_text_addf(add(n, "parameters"), "%zu", m->space.n);
    fli_text_add(add(n, "precision"), m->space.ops->size == sizeof(float) ? "f32" : "f64");
    if (m->bilevel) fli_text_add(add(n, "bilevel"), s->levels.item.name);
}

static void add_origin(notes *n, const fl_run *run)
{
    char digest[FLI_DIGEST_TEXT];
    fli_digest_print(&run->plan.data, digest);
    fli_text_add(add(n, "algorithm"), run->plan.setup.algo->name);
    fli_text_addf(add(n, "round"), "%zu", run->round);
    fli_text_addf(add(n, "seed"), "%llu", (unsigned long long)run->plan.setup.seed);
    fli_text_add(add(n, "data"), digest);
}

/* The global model of a run, as model_file/model_file.h describes. */
static fl_status write_model_file(fl_run *run, const char *path)
{
    const fli_model *m = run->plan.model;
    const fli_dataset *samples = run->plan.fed->train;
    notes n = {.ctx = run->ctx};
    fl_status s = FL_OK;
    add_model(&n, run->plan.settings, m);
    add_samples(&n, samples, m);
    add_classes(&n, samples, m);
    add_origin(&n, run);
    for (size_t i = 0; i < n.count; i++) {
        n.note[i].value = fli_text_get(&n.text[i]);
        if (fli_text_ok(&n.text[i])) s = FL_ENOMEM;
    }
    fli_tensor_list metadata = {n.note, n.count, n.scaling, n.scalings};
    if (!s) s = fli_model_file_write(run->ctx, path, m, fli_exec_server(run->exec)[0], &metadata);
    for (size_t i = 0; i < n.count; i++) fli_text_fini(&n.text[i]);
    return s;
}

/* ==== the other files ======================================================================================= */

/* A number, or `missing` when it was not measured. */
static void add_number(fli_text *t, double v, const char *missing)
{
    if (isfinite(v))
        fli_text_addf(t, "%.17g", v);
    else
        fli_text_add(t, missing);
}

static void add_object(fli_text *t, const fl_row *row, const fli_columns *c)
{
    for (size_t k = 0; k < c->n; k++) {
        fli_text_addf(t, "%s\"%s\": ", k ? ", " : "{", fli_metric_at(c->at[k])->is.name);
        add_number(t, row->value[c->at[k]], "null");
    }
    fli_text_add(t, "}");
}

static void metrics_csv(fli_text *t, const fl_run *run)
{
    fli_columns c = fli_columns_of(run->plan.model);
    for (size_t k = 0; k < c.n; k++) fli_text_addf(t, "%s%s", k ? "," : "", fli_metric_at(c.at[k])->is.name);
    for (size_t i = 0; i < run->rows.count; i++)
        for (size_t k = 0; k < c.n; k++) {
            fli_text_add(t, k ? "," : "\n");
            add_number(t, run->rows.at[i].value[c.at[k]], "");
        }
    fli_text_add(t, "\n");
}

static void metrics_jsonl(fli_text *t, const fl_run *run)
{
    fli_columns c = fli_columns_of(run->plan.model);
    for (size_t i = 0; i < run->rows.count; i++) {
        add_object(t, &run->rows.at[i], &c);
        fli_text_add(t, "\n");
    }
}

static void clients_csv(fli_text *t, const fl_run *run)
{
    const fli_client_figures *f;
    size_t n = fli_measure_clients(run->measure, &f);
    fli_text_add(t, "client,samples,train_loss,accuracy,own_accuracy,own_mix\n");
    for (size_t i = 0; i < n; i++) {
        fli_text_addf(t, "%u,%zu,", f[i].client, f[i].samples);
        add_number(t, f[i].loss, "");
        fli_text_add(t, ",");
        add_number(t, f[i].accuracy, "");
        fli_text_add(t, ",");
        add_number(t, f[i].own_accuracy, "");
        fli_text_add(t, ",");
        add_number(t, f[i].own_mix, "");
        fli_text_add(t, "\n");
    }
}

static void idle_csv(fli_text *t, const fl_run *run)
{
    const fli_plan *p = &run->plan;
    fli_text_add(t, "rank,clients,samples,seconds_at_work,seconds_idle\n");
    for (uint32_t i = 0; run->rank_times.of && i < p->ranks.count; i++) {
        const fli_time_spent *s = &run->rank_times.of[i];
        fli_text_addf(t, "%u,%zu,%zu,%.6f,%.6f\n", i, p->rank_owner.of[i].clients, p->rank_owner.of[i].samples,
                      s->seconds - s->waited, s->waited);
    }
}

static void config_yaml(fli_text *t, const fl_run *run) { fli_settings_print(t, run->plan.settings); }

static void result_json(fli_text *t, const fl_run *run)
{
    double accuracy;
    size_t round;
    fli_columns c = fli_columns_of(run->plan.model);
    fli_text_addf(t, "{\n  \"fedloom\": \"%s\",\n  \"name\": ", FL_VERSION);
    fli_text_json(t, fl_run_name(run));
    fli_text_addf(t, ",\n  \"algorithm\": \"%s\",\n  \"stopped_by\": \"%s\",\n", fl_run_algorithm(run),
                  fl_stop_text(run->stop.why));
    if (run->plan.settled) {
        fli_text_add(t, "  \"settled\": ");
        fli_text_json(t, run->plan.settled);
        fli_text_add(t, ",\n");
    }
    fli_text_addf(t, "  \"clients\": %zu,\n  \"parameters\": %zu,\n  \"rounds\": %zu,\n  \"planned_rounds\": %zu,\n",
                  fl_run_clients(run), fl_run_parameters(run), run->round, fl_run_rounds(run));
    fli_text_add(t, "  \"targets\": [");
    for (size_t k = 0; fl_run_target(run, k, &accuracy, &round); k++) {
        fli_text_addf(t, "%s{\"test_accuracy\": %.17g, \"round\": ", k ? ", " : "", accuracy);
        if (round == SIZE_MAX)
            fli_text_add(t, "null}");
        else
            fli_text_addf(t, "%zu}", round);
    }
    fli_text_add(t, "],\n  \"final\": ");
    if (run->rows.count)
        add_object(t, fl_run_row(run), &c);
    else
        fli_text_add(t, "null");
    fli_text_add(t, "\n}\n");
}

static fl_status read_row(fl_ctx *ctx, const char *path, size_t line, const char *text, fl_row *row)
{
    json_error_t e;
    locale_t before = fli_locale_enter();
    json_t *json = json_loads(text, 0, &e);
    fli_locale_leave(before);
    if (!json) return fli_fail(ctx, FL_EFORMAT, "%s:%zu:%d: %s", path, line, e.column, e.text);
    const fli_metric *m;
    fli_row_clear_user(row);
    for (size_t k = 0; (m = fli_metric_at(k)); k++) {
        const json_t *v = json_object_get(json, m->is.name);
        row->value[k] = json_is_number(v) ? json_number_value(v) : NAN;
    }
    json_decref(json);
    return FL_OK;
}

fl_status fli_rows_read(fl_ctx *ctx, const char *path, fl_row **rows, size_t *count)
{
    fli_stream *in = NULL;
    char *text;
    size_t length, capacity = 0;
    *rows = NULL;
    *count = 0;
    fl_status s = fli_stream_open(ctx, path, &in);
    while (!s && !(s = fli_stream_line(in, &text, &length)) && text) {
        if (*count == capacity) {
            capacity = capacity ? 2 * capacity : 64;
            s = fli_grow(ctx, (void **)rows, *count, capacity, sizeof **rows);
        }
        if (!s) s = read_row(ctx, path, *count + 1, text, &(*rows)[*count]);
        if (!s) ++*count;
    }
    fli_stream_close(in);
    if (!s) return FL_OK;
    fli_free(*rows);
    *rows = NULL;
    *count = 0;
    return s;
}

static int of_ranks(const fl_run *run) { return fli_ranked(&run->plan.ranks); }

/* The text files of a result: one line each. */
static const struct {
    const char *name;
    void (*write)(fli_text *t, const fl_run *run);
    int (*wanted)(const fl_run *run); /* NULL: every result has it */
} files[] = {
    {"config.yaml", config_yaml, NULL}, {"metrics.csv", metrics_csv, NULL}, {"metrics.jsonl", metrics_jsonl, NULL},
    {"clients.csv", clients_csv, NULL}, {"result.json", result_json, NULL}, {"ranks.csv", idle_csv, of_ranks},
};
enum { FILES = sizeof files / sizeof *files };

static int is_written(const fl_run *run, size_t file) { return !files[file].wanted || files[file].wanted(run); }

static const char model_name[] = "model.safetensors", page_name[] = "report.html";

static fl_status write_text(fl_run *run, const char *name, const fli_text *text)
{
    fli_writer out;
    char *path = fli_strf(run->ctx, "%s/%s", run->saving.partial, name);
    fl_status s = path ? fli_writer_open(run->ctx, path, &out) : FL_ENOMEM;
    if (!s) {
        fli_writer_text(&out, fli_text_get(text));
        s = fli_writer_close(&out);
    }
    fli_free(path);
    return s;
}

static fl_status write_file(fl_run *run, size_t file)
{
    fli_text text;
    fli_text_init(&text, run->ctx);
    files[file].write(&text, run);
    fl_status s = fli_text_ok(&text);
    if (!s) s = write_text(run, files[file].name, &text);
    fli_text_fini(&text);
    return s;
}

static fl_status write_model(fl_run *run)
{
    char *path = fli_strf(run->ctx, "%s/%s", run->saving.partial, model_name);
    if (!path) return FL_ENOMEM;
    fl_status s = write_model_file(run, path);
    fli_free(path);
    return s;
}

int fli_result_is_ours(const char *name)
{
    for (size_t i = 0; i < FILES; i++)
        if (!strcmp(files[i].name, name)) return 1;
    return !strcmp(name, model_name) || !strcmp(name, page_name) || !strcmp(name, FLI_MANIFEST_NAME);
}

static fl_status write_manifest(fl_run *run, int with_page)
{
    fli_manifest m;
    fli_manifest_init(&m, run->ctx);
    m.has_data = 1;
    m.data = run->plan.data;
    m.kernels = run->kernels;
    m.stopped_by = fl_stop_text(run->stop.why);
    m.rounds = run->round;
    m.planned = fl_run_rounds(run);
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i < FILES; i++)
        if (is_written(run, i)) s = fli_manifest_add(&m, run->saving.partial, files[i].name);
    if (!s && with_page) s = fli_manifest_add(&m, run->saving.partial, page_name);
    if (!s && run->plan.settings->top.output_model) s = fli_manifest_add(&m, run->saving.partial, model_name);
    if (!s) s = fli_manifest_write(&m, run->saving.partial);
    fli_manifest_fini(&m);
    return s;
}

fl_status fli_result_check(fl_ctx *ctx, const char *folder, fli_manifest *m)
{
    fl_status s = fli_manifest_read(m, folder);
    for (size_t i = 0; !s && i < FILES; i++)
        if (!files[i].wanted && !fli_manifest_lists(m, files[i].name))
            s = fli_fail(ctx, FL_EMISMATCH, "%s: %s does not list %s", folder, FLI_MANIFEST_NAME, files[i].name);
    return s ? s : fli_manifest_check(m, folder);
}

/* ---- the metrics of a run without a result ----------------------------------------------------------------- */

static char *unfinished_name(const fl_run *run)
{
    return fli_strf(run->ctx, "%.*s.unfinished.csv", (int)fli_path_length(fl_run_output(run)), fl_run_output(run));
}

/* Whether a file begins like metrics.csv; any other is neither removed nor replaced. */
static int is_metrics(const char *path)
{
    char begin[64], want[64];
    fli_snprintf(want, sizeof want, "%s,%s,%s,", fli_metrics[0]->is.name, fli_metrics[1]->is.name,
                 fli_metrics[2]->is.name);
    FILE *f = fli_path_kind(path) == 2 ? fli_file_open(path, O_RDONLY | O_NONBLOCK | O_NOFOLLOW) : NULL;
    size_t n = f ? fread(begin, 1, strlen(want), f) : 0;
    if (f) fclose(f);
    return n == strlen(want) && !memcmp(begin, want, n);
}

void fli_result_forget_unfinished(fl_run *run)
{
    char *path = unfinished_name(run);
    if (path && is_metrics(path)) unlink(path);
    fli_free(path);
}

fl_status fli_result_keep_metrics(fl_run *run, fl_status why)
{
    fli_text text;
    char *path = run->saving.lock && run->rows.count ? unfinished_name(run) : NULL;
    if (!path) return why;
    fli_text_init(&text, run->ctx);
    metrics_csv(&text, run);
    fl_status s = fli_text_ok(&text);
    if (!s && fli_path_kind(path) && !is_metrics(path)) s = FL_EIO;
    if (!s) s = fli_file_replace(run->ctx, path, fli_text_get(&text), text.n);
    fli_fail_also(run->ctx, why, s ? "the metrics so far could not be kept in %s" : "the metrics so far are in %s",
                  path);
    fli_text_fini(&text);
    fli_free(path);
    return why;
}

/* ---- saving ------------------------------------------------------------------------------------------------ */

static fl_status write_files(fl_run *run, const fli_text *page)
{
    fl_status s = FL_OK;
    for (size_t i = 0; !s && i < FILES; i++)
        if (is_written(run, i)) s = write_file(run, i);
    if (!s && page) s = write_text(run, page_name, page);
    if (!s && run->plan.settings->top.output_model) s = write_model(run);
    return s ? s : write_manifest(run, page != NULL);
}

fl_status fl_run_save_model(fl_run *run, const char *path)
{
    fli_clear(run->ctx);
    fl_status s = fli_ranks_first(&run->plan.ranks) ? write_model_file(run, path) : FL_OK;
    return fli_ranks_agree(run->ctx, &run->plan.ranks, s);
}

/* Rank 0: the run is finished, removes them. */
static fl_status remove_checkpoints(fl_run *run)
{
    if (!run->checkpoints.ready) return FL_OK;
    run->checkpoints.ready = 0;
    return fli_checkpoint_clear(run->ctx, fl_run_output(run));
}

fl_status fli_result_give_up(fl_run *run, fl_status why)
{
    fli_folder_discard(run); /* this also makes room on a full disk */
    fli_result_keep_metrics(run, why);
    if (!run->checkpoints.ready) fli_folder_unlock(run);
    return why;
}

fl_status fli_result_save(fl_run *run, const fli_text *page)
{
    fl_status s = run->saving.partial ? FL_OK : fl_run_prepare_save(run, 0);
    if (s) return s;
    if (!(s = write_files(run, page))) s = fli_folder_publish(run);
    if (s) return fli_result_give_up(run, s);
    if (run->stop.why != FL_STOP_NONE && run->stop.why != FL_STOP_ASKED) s = remove_checkpoints(run);
    fli_folder_unlock(run);
    return s;
}

fl_status fl_run_save(fl_run *run)
{
    fli_clear(run->ctx);
    fl_status s = fli_ranks_first(&run->plan.ranks) ? fli_result_save(run, NULL) : FL_OK;
    return fli_ranks_agree(run->ctx, &run->plan.ranks, s);
}
