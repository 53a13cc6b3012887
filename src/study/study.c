/* A comparison's life: its output folder, which one process at a time writes; finished runs of an earlier call, which
 * are reused; and the trials, which share data. Running them is in trials.c, statistics in summary.c. */
#include "study/study.h"

#include "base/file.h"
#include "base/number.h"
#include "run/output.h"

#include <errno.h>
#include <jansson.h>
#include <math.h>
#include <string.h>
#include <unistd.h>

/* ==== the output folder ===================================================================================== */

fl_status fli_output_claim_take(fli_output_claim *c)
{
    fl_status status = c->lock ? FL_OK : fli_lock_take(c->ctx, c->folder, &c->lock);
    return status ? status : fli_make_folders(c->ctx, c->folder);
}

void fli_output_claim_leave(fli_output_claim *c)
{
    fli_lock_leave(c->lock);
    c->lock = NULL;
}

static fl_status not_ours(const fli_output_claim *c, const char *path)
{
    return fli_fail(c->ctx, FL_EIO,
                    "%s: was not written by fedloom, or was changed since; move it away, or choose another output",
                    path);
}

/* The existing manifest, or an empty one. Refuses a file of that name that is not a manifest: it is not this
 * program's. */
static fl_status read_manifest(const fli_output_claim *c, fli_manifest *m)
{
    char *path = fli_strf(c->ctx, "%s/%s", c->folder, FLI_MANIFEST_NAME);
    fli_manifest_init(m, c->ctx);
    fl_status status = path ? FL_OK : FL_ENOMEM;
    if (!status && fli_path_kind(path)) status = fli_manifest_read(m, c->folder);
    if (status && status != FL_ENOMEM) {
        fli_clear(c->ctx);
        status = not_ours(c, path);
    }
    fli_free(path);
    return status;
}

static fl_status check_file(const fli_output_claim *c, const fli_manifest *m, const char *name)
{
    int ours = 1;
    fl_status status = FL_OK;
    char *path = fli_strf(c->ctx, "%s/%s", c->folder, name);
    if (!path) return FL_ENOMEM;
    if (fli_path_kind(path)) status = fli_manifest_knows(m, c->folder, name, &ours);
    if (!status && !ours) status = not_ours(c, path);
    fli_free(path);
    return status;
}

static fl_status check_kind(const fli_output_claim *c, const fli_manifest *m, const char *sign)
{
    if (!m->count || fli_manifest_lists(m, sign)) return FL_OK;
    return fli_fail(c->ctx, FL_EIO, "%s: has results of another kind (%s); choose another output", c->folder,
                    m->file[0].name);
}

fl_status fli_output_claim_check(const fli_output_claim *c, const char *const *names)
{
    fli_manifest m;
    fl_status status = read_manifest(c, &m);
    if (!status) status = check_kind(c, &m, names[0]);
    for (; *names && !status; names++) status = check_file(c, &m, *names);
    fli_manifest_fini(&m);
    return status;
}

/* Adds the files' new contents. */
static fl_status add_files(fli_manifest *m, const char *const *names, const fli_text *texts)
{
    fl_status status = FL_OK;
    for (size_t i = 0; names[i] && !status; i++) {
        fli_hash h;
        fli_hash_init(&h);
        fli_hash_bytes(&h, fli_text_get(&texts[i]), texts[i].n);
        fli_digest digest = fli_hash_end(&h);
        status = fli_manifest_add_known(m, names[i], texts[i].n, &digest);
    }
    return status;
}

static fl_status replace_files(const fli_output_claim *c, const char *const *names, const fli_text *texts)
{
    fl_status status = FL_OK;
    for (size_t i = 0; names[i] && !status; i++) {
        char *path = fli_strf(c->ctx, "%s/%s", c->folder, names[i]);
        status = path ? fli_file_replace(c->ctx, path, fli_text_get(&texts[i]), texts[i].n) : FL_ENOMEM;
        fli_free(path);
    }
    return status;
}

/* Removes what the old manifest lists and the new one does not, unless it was changed since. */
static fl_status remove_stale(const fli_output_claim *c, const fli_manifest *old, const fli_manifest *new)
{
    fl_status status = FL_OK;
    for (size_t i = 0; i < old->count && !status; i++) {
        int ours = 0;
        const char *name = old->file[i].name;
        if (fli_manifest_lists(new, name)) continue;
        char *path = fli_strf(c->ctx, "%s/%s", c->folder, name);
        status = path ? fli_manifest_knows(old, c->folder, name, &ours) : FL_ENOMEM;
        if (!status && ours && unlink(path))
            status = fli_fail(c->ctx, FL_EIO, "%s: cannot be removed: %s", path, strerror(errno));
        else if (!status && ours)
            fli_log(c->ctx, FL_LOG_INFO, "%s: is not among the results any more, and was removed", path);
        fli_free(path);
    }
    return status;
}

/* Writes a manifest of the old and the new files first: if the program is killed, the files in the folder are still
 * known as its own. */
fl_status fli_output_claim_write(const fli_output_claim *c, const char *const *names, const fli_text *texts)
{
    fli_manifest both, new;
    fl_status status = fli_output_claim_check(c, names);
    if (status) return status;
    fli_manifest_init(&new, c->ctx);
    status = read_manifest(c, &both);
    if (!status) status = add_files(&both, names, texts);
    if (!status) status = add_files(&new, names, texts);
    if (!status) status = fli_manifest_write(&both, c->folder);
    if (!status) status = replace_files(c, names, texts);
    if (!status) status = remove_stale(c, &both, &new);
    if (!status) status = fli_manifest_write(&new, c->folder);
    fli_manifest_fini(&both);
    fli_manifest_fini(&new);
    return status;
}

/* ==== finished runs of an earlier call ====================================================================== */

/* A finished trial is an ordinary result folder. After an interruption, complete results with the right settings and
 * data count as done. Other finished runs are replaced only on request. */

static fl_status read_rows(fl_ctx *ctx, const char *folder, fli_outcome *o)
{
    char *path = fli_strf(ctx, "%s/metrics.jsonl", folder);
    fl_status status = path ? fli_rows_read(ctx, path, &o->rows, &o->count) : FL_ENOMEM;
    fli_free(path);
    o->capacity = o->count;
    return status;
}

/* Whether the rows' rounds increase, up to at most the last round. */
static int in_order(const fli_trial *t, const fli_outcome *o)
{
    for (size_t i = 0; i < o->count; i++)
        if (fl_row_round(&o->rows[i]) > t->rounds || (i && fl_row_round(&o->rows[i]) <= fl_row_round(&o->rows[i - 1])))
            return 0;
    return o->count > 0;
}

/* Classifies a trial's folder. `samples`: the current digest of its samples; NULL: data are not compared. */
static fl_status look_at_result(fl_study *s, const fli_trial *t, const fli_digest *samples, fli_existing_result *out)
{
    fli_digest data;
    fl_status status = samples ? fli_plan_digest(s->ctx, t->settings, samples, &data) : FL_OK;
    return status ? status : fli_existing_result_find(s->ctx, t->folder, t->settings, samples ? &data : NULL, out);
}

/* Marks a trial that has to be run. */
static void mark_open(fli_outcome *o, fli_existing_result existing)
{
    fli_free(o->rows);
    fli_free(o->clients);
    *o = (fli_outcome){.data = o->data, .existing = existing};
}

/* Looks into an open trial's folder and reuses its result, if it has the right settings. */
static fl_status take_finished(fl_study *s, size_t i)
{
    const fli_trial *t = &s->x.trials[i];
    fli_outcome *o = &s->outcomes[i];
    if (o->state != FLI_TRIAL_OPEN) return FL_OK;
    fl_status status = look_at_result(s, t, NULL, &o->existing);
    if (status || o->existing != FLI_EXISTING_SAME) return status;
    fli_free(o->rows); /* of a stopped run */
    status = read_rows(s->ctx, t->folder, o);
    if (!status && in_order(t, o)) {
        o->state = FLI_TRIAL_DONE;
        return FL_OK;
    }
    mark_open(o, FLI_EXISTING_BROKEN);
    if (status != FL_ENOMEM) fli_clear(s->ctx);
    return status == FL_ENOMEM ? status : FL_OK;
}

/* ---- the data they were made from ------------------------------------------------------------------------- */

/* If the data are gone, a result is still good for a table: warns and keeps it. */
static fl_status data_unreadable(fl_study *s, const char *place, fli_existing_result *existing)
{
    fli_log(s->ctx, FL_LOG_WARNING, "%s: it is not known whether it was made from the current data: %s", place,
            fl_ctx_error(s->ctx));
    fli_clear(s->ctx);
    *existing = FLI_EXISTING_SAME;
    return FL_OK;
}

static fl_status check_trials(fl_study *s, size_t shared, const fli_digest *samples)
{
    fl_status status = FL_OK;
    for (size_t i = 0; i < s->x.count && !status; i++) {
        fli_existing_result existing;
        fli_outcome *o = &s->outcomes[i];
        if (o->data != shared || o->state != FLI_TRIAL_DONE || o->checked) continue;
        status = look_at_result(s, &s->x.trials[i], samples, &existing);
        if (status == FL_EIO) status = data_unreadable(s, s->x.trials[i].folder, &existing);
        o->checked = !status;
        if (!status && existing != FLI_EXISTING_SAME) mark_open(o, existing);
    }
    return status;
}

/* The first reused trial of shared data that was not checked yet; x.count if there is none. */
static size_t unchecked(const fl_study *s, size_t shared)
{
    for (size_t i = 0; i < s->x.count; i++)
        if (s->outcomes[i].data == shared && s->outcomes[i].state == FLI_TRIAL_DONE && !s->outcomes[i].checked)
            return i;
    return s->x.count;
}

static fl_status check_data(fl_study *s, size_t shared)
{
    size_t first = unchecked(s, shared);
    fli_plan plan;
    fli_existing_result unused;
    if (first == s->x.count) return FL_OK;
    fl_status status = fli_plan_data(s->x.trials[first].cfg, NULL, &plan);
    if (status && status != FL_ENOMEM && status != FL_ESTOPPED)
        status = data_unreadable(s, s->x.output, &unused);
    else if (!status) {
        status = check_trials(s, shared, &plan.samples);
        if (!status && !shared && !s->histogram.all_clients)
            status = fli_label_counts_take(s->ctx, plan.fed, &s->histogram);
    }
    fli_plan_fini(&plan);
    return status;
}

/* ---- results to replace ------------------------------------------------------------------------------------ */

static size_t count_existing(const fl_study *s, fli_existing_result existing, const char **first)
{
    size_t n = 0;
    for (size_t i = 0; i < s->x.count; i++)
        if (s->outcomes[i].state == FLI_TRIAL_OPEN && s->outcomes[i].existing == existing && !n++)
            *first = s->x.trials[i].folder;
    return n;
}

static fl_status check_replaced(fl_study *s)
{
    static const struct {
        fli_existing_result existing;
        int keep; /* unless replacing was requested */
        const char *what;
    } rows[] = {{FLI_EXISTING_UNKNOWN, 1, "is a result without a manifest, or cannot be read"},
                {FLI_EXISTING_OTHER_VERSION, 1, "is a result of another version of fedloom"},
                {FLI_EXISTING_OTHER_SETTINGS, 1, "is a finished run with other settings"},
                {FLI_EXISTING_OTHER_DATA, 1, "is a finished run from data that have changed since"},
                {FLI_EXISTING_STOPPED, 0, "is from a run that was stopped"},
                {FLI_EXISTING_BROKEN, 0, "is not a complete result"}};
    fl_status status = FL_OK;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const char *first = NULL, *what = rows[k].what;
        size_t n = count_existing(s, rows[k].existing, &first);
        if (!n) continue;
        if (rows[k].keep && !s->options.force)
            status = fli_fail_also(s->ctx, FL_EIO,
                                   "%s: %s (%zu such here); choose another output, or ask to replace them (--force)",
                                   first, what, n);
        else
            fli_log(s->ctx, FL_LOG_INFO, "%s: %s (%zu such here), and is run again", first, what, n);
    }
    return status;
}

fl_status fli_finished_runs_settle(fl_study *s)
{
    fl_status status = FL_OK;
    for (size_t i = 0; i < s->x.count && !status; i++) status = take_finished(s, i); /* another process may have run */
    for (size_t k = 0; k < s->shared_count && !status; k++) status = check_data(s, k);
    for (size_t i = 0; i < s->x.count && !status; i++) /* left by a run that was killed just before its end */
        if (s->outcomes[i].state == FLI_TRIAL_DONE) status = fli_checkpoint_clear(s->ctx, s->x.trials[i].folder);
    return status ? status : check_replaced(s);
}

/* ==== the end of a finished run ============================================================================= */

/* Reads the end of a finished run from its result: clients.csv and the number of parameters. */

enum { MOST_BYTES = 1 << 26 };

/* Cell `k` of a line of numbers; NaN if empty. */
static double number(const char *line, size_t k)
{
    char *end;
    for (; k; k--) {
        line += strcspn(line, ",\n");
        if (*line == ',') line++;
    }
    double v = fli_strtod(line, &end);
    return end == line || *line == '\n' ? NAN : v;
}

static size_t count(const char *line, size_t k)
{
    double v = number(line, k);
    return v >= 0 && v < 4e9 ? (size_t)v : 0;
}

static size_t lines_of(const char *text)
{
    size_t n = 0;
    while ((text = strchr(text, '\n'))) n++, text++;
    return n;
}

/* client,samples,train_loss,accuracy,own_accuracy,own_mix: if clients have models of their own, takes the accuracy of
 * these. */
static fl_status take_clients(fl_ctx *ctx, const char *text, fli_outcome *o)
{
    size_t lines = lines_of(text);
    if (lines < 2) return FL_OK;
    o->clients = fli_alloc(ctx, lines - 1, sizeof *o->clients);
    if (!o->clients) return FL_ENOMEM;
    for (const char *line = strchr(text, '\n') + 1; *line && o->client_count < lines - 1;) {
        double own = number(line, 4);
        o->clients[o->client_count++] =
            (fli_client_end){(uint32_t)count(line, 0), count(line, 1), isfinite(own) ? own : number(line, 3)};
        line += strcspn(line, "\n");
        line += *line == '\n';
    }
    return FL_OK;
}

static void take_parameters(const char *text, size_t n, fli_outcome *o)
{
    json_error_t e;
    locale_t before = fli_locale_enter();
    json_t *json = json_loadb(text, n, 0, &e);
    fli_locale_leave(before);
    json_int_t count = json_integer_value(json_object_get(json, "parameters"));
    o->parameters = count > 0 ? (size_t)count : 0;
    json_decref(json);
}

static fl_status read_file(fl_ctx *ctx, const char *folder, const char *name, char **text, size_t *n)
{
    char *path = fli_strf(ctx, "%s/%s", folder, name);
    fl_status status = path ? fli_file_read(ctx, path, MOST_BYTES, text, n) : FL_ENOMEM;
    fli_free(path);
    return status;
}

void fli_result_end_load(fl_ctx *ctx, const fli_trial *t, fli_outcome *o)
{
    char *clients = NULL, *result = NULL;
    size_t n;
    if (o->end_known || o->state != FLI_TRIAL_DONE || !t->folder) return;
    o->end_known = 1;
    if (!read_file(ctx, t->folder, "clients.csv", &clients, &n)) take_clients(ctx, clients, o);
    if (!read_file(ctx, t->folder, "result.json", &result, &n)) take_parameters(result, n, o);
    fli_free(clients);
    fli_free(result);
    fli_clear(ctx);
}

/* ==== the comparison ======================================================================================== */

/* ---- life ---------------------------------------------------------------------------------------------- */

static fl_status share_data(fl_study *s)
{
    s->shared = fli_alloc(s->ctx, s->x.count, sizeof *s->shared);
    if (!s->shared) return FL_ENOMEM;
    for (size_t i = 0; i < s->x.count; i++) {
        size_t k = 0;
        while (k < s->shared_count && strcmp(s->shared[k].key, s->x.trials[i].data_key)) k++;
        if (k == s->shared_count) {
            s->shared[s->shared_count++].key = s->x.trials[i].data_key;
            pthread_mutex_init(&s->shared[k].lock, NULL);
        }
        s->outcomes[i].data = k;
    }
    return FL_OK;
}

static fl_status keep_texts(fl_study *s, const fl_study_options *o)
{
    if (o->tensorboard) s->options.tensorboard = fli_arena_strdup(&s->x.arena, o->tensorboard);
    if (o->command) s->options.command = fli_arena_strdup(&s->x.arena, o->command);
    return !s->options.tensorboard == !o->tensorboard && !s->options.command == !o->command ? FL_OK : FL_ENOMEM;
}

fl_status fl_study_new(fl_config *cfg, const fl_study_options *options, fl_study **out)
{
    fl_study_options o;
    fli_clear(cfg->ctx);
    fl_status status = fli_study_options_take(cfg->ctx, options, &o);
    if (status) return status;
    fl_study *s = fli_alloc(cfg->ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    s->ctx = cfg->ctx;
    s->options = (fl_study_options){.jobs = o.jobs, .force = o.force};
    atomic_init(&s->stop_requested, 0);
    pthread_mutex_init(&s->lock, NULL);
    if ((status = fli_experiment_init(cfg, &o, &s->x))) goto failed;
    if ((status = keep_texts(s, &o))) goto failed;
    s->claim = (fli_output_claim){s->ctx, s->x.output, NULL};
    const fli_metrics_settings *metrics = &s->x.trials[0].settings->metrics;
    s->goal = fli_metric_goal(metrics);
    s->targets = &metrics->targets;
    s->outcomes = fli_alloc(s->ctx, s->x.count, sizeof *s->outcomes);
    if (!s->outcomes || share_data(s)) {
        status = FL_ENOMEM;
        goto failed;
    }
    for (size_t i = 0; i < s->x.count; i++)
        if ((status = take_finished(s, i))) goto failed;
    *out = s;
    return FL_OK;
failed:
    fl_study_free(s);
    return status;
}

void fli_shared_unload(fli_shared *d)
{
    if (d->loaded) fli_plan_fini(&d->plan);
    fl_config_free(d->cfg);
    fl_ctx_free(d->ctx);
    d->loaded = 0;
    d->cfg = NULL;
    d->ctx = NULL;
}

void fl_study_free(fl_study *s)
{
    if (!s) return;
    fli_live_free(s->live);
    fli_output_claim_leave(&s->claim);
    for (size_t i = 0; s->outcomes && i < s->x.count; i++) {
        fli_free(s->outcomes[i].rows);
        fli_free(s->outcomes[i].error);
        fli_free(s->outcomes[i].clients);
    }
    for (size_t k = 0; k < s->shared_count; k++) {
        fli_shared_unload(&s->shared[k]);
        pthread_mutex_destroy(&s->shared[k].lock);
    }
    fli_free(s->histogram.count);
    fli_free(s->shared);
    fli_free(s->outcomes);
    fli_experiment_fini(&s->x);
    pthread_mutex_destroy(&s->lock);
    fli_free(s);
}

void fl_study_stop(fl_study *s) { s->stop_requested = 1; }

const char *fl_study_output(const fl_study *s) { return s->x.output; }

size_t fl_study_runs(const fl_study *s, size_t *done)
{
    *done = 0;
    for (size_t i = 0; i < s->x.count; i++) *done += s->outcomes[i].state == FLI_TRIAL_DONE;
    return s->x.count;
}

fli_results fli_study_results(const fl_study *s)
{
    return (fli_results){
        .ctx = s->ctx,
        .title = s->x.name,
        .description = s->x.description,
        .methods = s->x.methods,
        .trials = s->x.trials,
        .outcomes = s->outcomes,
        .count = s->x.count,
        .seeds = s->x.seeds,
        .histogram = &s->histogram,
        .goal = s->goal,
        .targets = s->targets,
        .command = s->options.command,
        .was_stopped = s->was_stopped,
    };
}
