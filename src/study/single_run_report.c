/* Reports and charts of single runs: one in memory, or result folders. Each becomes a method of a comparison with one
 * seed, all of whose trials are done, and is then written as a comparison is. */
#include "base/file.h"
#include "run/output.h"
#include "study/study.h"

#include <string.h>
#include <time.h>

/* ---- a comparison without an experiment ---------------------------------------------------------------- */

static fl_status make_study(fl_ctx *ctx, size_t count, fl_study **out)
{
    fl_study *s = fli_alloc(ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    s->ctx = ctx;
    atomic_init(&s->stop_requested, 0);
    pthread_mutex_init(&s->lock, NULL);
    fli_arena_init(&s->x.arena, ctx);
    s->x.ctx = ctx;
    s->x.name = s->x.description = s->x.output = "";
    s->x.seeds = 1;
    s->claim.ctx = ctx;
    s->x.methods = fli_arena_alloc(&s->x.arena, count, sizeof *s->x.methods);
    s->x.trials = fli_arena_alloc(&s->x.arena, count, sizeof *s->x.trials);
    s->outcomes = fli_alloc(ctx, count, sizeof *s->outcomes);
    if (!s->x.methods || !s->x.trials || !s->outcomes) {
        fl_study_free(s);
        return FL_ENOMEM;
    }
    s->x.method_count = s->x.count = count;
    *out = s;
    return FL_OK;
}

/* What a run is called, and how it was set. */
static fl_status add_run(fl_study *s, size_t i, const char *label, const fli_settings *settings)
{
    fli_text config;
    fli_text_init(&config, s->ctx);
    fli_settings_print(&config, settings);
    fli_method *m = &s->x.methods[i];
    fli_trial *t = &s->x.trials[i];
    *m = (fli_method){.label = fli_arena_strdup(&s->x.arena, label), .settings = 1};
    *t = (fli_trial){
        .method = i, .seed = (uint64_t)settings->top.seed, .setting_text = "", .bound = t->bound, .settings = settings};
    t->config = fli_arena_strdup(&s->x.arena, fli_text_get(&config));
    t->rounds = (size_t)settings->top.rounds;
    int failed = config.failed || !m->label || !t->config;
    fli_text_fini(&config);
    if (i == 0) {
        s->goal = fli_metric_goal(&settings->metrics);
        s->targets = &settings->metrics.targets;
    }
    s->outcomes[i].state = FLI_TRIAL_DONE;
    return failed ? FL_ENOMEM : FL_OK;
}

/* ---- a run in memory ----------------------------------------------------------------------------------- */

static fl_status copy_rows(fl_study *s, const fl_run *run)
{
    const fl_row *rows;
    fli_outcome *o = &s->outcomes[0];
    size_t n = fl_run_rows(run, &rows);
    o->rows = fli_alloc(s->ctx, n, sizeof *o->rows);
    if (!o->rows) return FL_ENOMEM;
    if (n) memcpy(o->rows, rows, n * sizeof *rows);
    o->count = o->capacity = n;
    return FL_OK;
}

static fl_status copy_clients(fl_study *s, const fl_run *run)
{
    const fli_client_figures *f;
    fli_outcome *o = &s->outcomes[0];
    size_t n = fli_measure_clients(run->measure, &f);
    o->end_known = 1;
    o->parameters = fl_run_parameters(run);
    o->clients = fli_alloc(s->ctx, n, sizeof *o->clients);
    if (!o->clients) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        double own = f[i].own_accuracy;
        o->clients[i] = (fli_client_end){f[i].client, f[i].samples, own == own ? own : f[i].accuracy};
    }
    o->client_count = n;
    return FL_OK;
}

/* The clients of a server are the only ones who can count their samples. */
static fl_status copy_claims(fl_study *s, const fl_run *run)
{
    const fli_fed *fed = run->plan.fed;
    if (!run->plan.setup.remote_queue) return FL_OK;
    size_t *claims = fli_alloc(s->ctx, fed->clients, sizeof *claims);
    if (!claims) return FL_ENOMEM;
    for (size_t i = 0; i < fed->clients; i++) claims[i] = fli_fed_size(fed, i);
    s->histogram.claims = claims;
    return FL_OK;
}

static fl_status fill_study(fl_study *s, const fl_run *run)
{
    fl_status status = add_run(s, 0, fl_run_algorithm(run), run->plan.settings);
    s->x.name = fl_run_name(run);
    s->options.command = run->command;
    s->ended = time(NULL);
    if (!status && run->stopped == FL_STOP_ASKED) {
        s->stopped = fli_strf(s->ctx, "after round %zu of %zu", run->round, fl_run_rounds(run));
        if (!s->stopped) status = FL_ENOMEM;
    }
    if (!status) status = copy_rows(s, run);
    if (!status) status = copy_clients(s, run);
    if (!status && run->plan.fed) status = fli_label_counts_take(s->ctx, run->plan.fed, &s->histogram);
    if (!status && run->plan.fed) status = copy_claims(s, run);
    return status;
}

/* What fl_run has as `page`. */
static fl_status run_page(fli_text *t, const fl_run *run)
{
    fli_arena a;
    fli_report report;
    fl_study *s = NULL;
    fl_status status = make_study(run->ctx, 1, &s);
    if (status) return status;
    fli_arena_init(&a, run->ctx);
    status = fill_study(s, run);
    if (!status) status = fli_study_report(s, &a, &report);
    if (!status) status = fli_page_html(t, &report);
    fli_arena_fini(&a);
    fl_study_free(s);
    return status;
}

fl_status fl_run_with_report(fl_run *run, const char *command)
{
    fli_clear(run->ctx);
    char *copy = command ? fli_strdup(run->ctx, command) : NULL;
    if (command && !copy) return FL_ENOMEM;
    fli_free(run->command);
    run->command = copy;
    run->page = run_page;
    return FL_OK;
}

static fl_status write_events(fl_run *run, const char *folder)
{
    const fl_row *rows;
    size_t n = fl_run_rows(run, &rows);
    fli_curve curve = {(uint64_t)run->plan.settings->top.seed, rows, n};
    return fli_events_write(run->ctx, folder, &curve);
}

fl_status fl_run_events(fl_run *run, const char *folder)
{
    fli_clear(run->ctx);
    fl_status status = fli_ranks_first(&run->plan.ranks) ? write_events(run, folder) : FL_OK;
    return fli_ranks_agree(run->ctx, &run->plan.ranks, status);
}

/* ---- result folders ------------------------------------------------------------------------------------ */

struct fl_curves {
    fl_study *study;
};

static fl_status read_config(fl_study *s, const char *folder, fli_bound **out)
{
    fl_config *cfg = fl_config_new(s->ctx);
    char *path = fli_strf(s->ctx, "%s/config.yaml", folder);
    fl_status status = cfg && path ? fl_config_load(cfg, path) : FL_ENOMEM;
    if (!status) status = fli_config_hold(cfg, out);
    fli_free(path);
    fl_config_free(cfg);
    return status;
}

static fl_status read_folder(fl_study *s, size_t i, const char *folder)
{
    fli_bound **bound = &s->x.trials[i].bound;
    fli_outcome *o = &s->outcomes[i];
    char *path = fli_strf(s->ctx, "%s/metrics.jsonl", folder);
    fl_status status = path ? FL_OK : FL_ENOMEM;
    if (!status && !fli_path_kind(path))
        status = fli_fail(s->ctx, FL_EIO, "%s: is not the result of a run: there is no metrics.jsonl in it", folder);
    if (!status) status = read_config(s, folder, bound);
    if (!status) status = fli_rows_read(s->ctx, path, &o->rows, &o->count);
    o->capacity = o->count;
    fli_free(path);
    if (status) return status;
    const fli_settings *settings = &(*bound)->settings;
    return add_run(s, i, *settings->top.name ? settings->top.name : folder, settings);
}

fl_status fl_curves_read(fl_ctx *ctx, const char *const *folders, size_t count, fl_curves **out)
{
    fli_clear(ctx);
    if (!count) return fli_fail(ctx, FL_ECONFIG, "no result folder was named");
    fl_curves *c = fli_alloc(ctx, 1, sizeof *c);
    fl_status status = c ? make_study(ctx, count, &c->study) : FL_ENOMEM;
    for (size_t i = 0; i < count && !status; i++) status = read_folder(c->study, i, folders[i]);
    if (status)
        fl_curves_free(c);
    else
        *out = c;
    return status;
}

void fl_curves_free(fl_curves *c)
{
    if (c) fl_study_free(c->study);
    fli_free(c);
}

fl_status fl_curves_plot(fl_curves *c, const char *x, const char *y, fl_text_fn *out, void *arg)
{
    return fl_study_plot(c->study, x, y, out, arg);
}

const char *fl_curves_quantity(const fl_curves *c, int axis, size_t k) { return fl_study_quantity(c->study, axis, k); }
