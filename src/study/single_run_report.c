/* Pages and charts of runs outside of a comparison: of one in memory, or of result folders. Each appears as a method
 * with one finished seed. */
#include "base/file.h"
#include "base/number.h"
#include "run/output.h"
#include "study/study.h"

#include <string.h>
#include <time.h>

/* Fills in a run's label and settings; texts are allocated in the arena. */
static fl_status describe_run(fl_ctx *ctx, fli_arena *a, const char *label, const fli_settings *settings, fli_method *m,
                              fli_trial *t)
{
    fli_text config;
    fli_text_init(&config, ctx);
    fli_settings_print(&config, settings);
    *m = (fli_method){.label = fli_arena_strdup(a, label), .settings = 1};
    *t = (fli_trial){.seed = (uint64_t)settings->top.seed, .setting_text = "", .bound = t->bound, .settings = settings};
    t->config = fli_arena_strdup(a, fli_text_get(&config));
    int failed = config.failed || !m->label || !t->config;
    fli_text_fini(&config);
    return failed ? FL_ENOMEM : FL_OK;
}

/* ---- a run in memory ----------------------------------------------------------------------------------- */

static fl_status take_clients(const fl_run *run, fli_arena *a, fli_outcome *o)
{
    const fli_client_figures *f;
    size_t n = fli_measure_clients(run->measure, &f);
    o->clients = fli_arena_alloc(a, n, sizeof *o->clients);
    if (!o->clients) return FL_ENOMEM;
    for (size_t i = 0; i < n; i++) {
        double own = f[i].own_accuracy;
        o->clients[i] = (fli_client_end){f[i].client, f[i].samples, own == own ? own : f[i].accuracy};
    }
    o->client_count = n;
    return FL_OK;
}

/* With clients in other programs, takes the sizes that they report: only they can count their samples. */
static fl_status take_claims(const fl_run *run, fli_arena *a, fli_histogram *h)
{
    const fli_fed *fed = run->plan.fed;
    if (!run->plan.setup.remote_queue) return FL_OK;
    h->claims = fli_arena_alloc(a, fed->clients, sizeof *h->claims);
    for (size_t i = 0; h->claims && i < fed->clients; i++) h->claims[i] = fli_fed_size(fed, i);
    return h->claims ? FL_OK : FL_ENOMEM;
}

static fl_status make_page(const fl_run *run, const char *command, fli_arena *a, fli_histogram *h, fli_text *t)
{
    const fli_settings *settings = run->plan.settings;
    char stopped[80];
    fli_method method;
    fli_trial trial = {0};
    fli_outcome outcome = {.state = FLI_TRIAL_DONE,
                           .rows = run->rows.at,
                           .count = run->rows.count,
                           .end_known = 1,
                           .parameters = fl_run_parameters(run)};
    fli_results r = {.ctx = run->ctx,
                     .title = fl_run_name(run),
                     .description = "",
                     .methods = &method,
                     .trials = &trial,
                     .outcomes = &outcome,
                     .count = 1,
                     .seeds = 1,
                     .histogram = h,
                     .goal = fli_metric_goal(&settings->metrics),
                     .targets = &settings->metrics.targets,
                     .command = command,
                     .stopped = run->stop.why == FL_STOP_ASKED ? stopped : NULL,
                     .ended = time(NULL)};
    fli_snprintf(stopped, sizeof stopped, "after round %zu of %zu", run->round, fl_run_rounds(run));
    fl_status status = describe_run(run->ctx, a, fl_run_algorithm(run), settings, &method, &trial);
    if (!status) status = take_clients(run, a, &outcome);
    if (!status && run->plan.fed) status = fli_label_counts_take(run->ctx, run->plan.fed, h);
    if (!status && run->plan.fed) status = take_claims(run, a, h);
    return status ? status : fli_results_page(&r, a, t);
}

static fl_status save_here(fl_run *run, const char *command)
{
    fli_arena a;
    fli_text page;
    fli_histogram h = {0};
    fli_arena_init(&a, run->ctx);
    fli_text_init(&page, run->ctx);
    fl_status status = make_page(run, command, &a, &h, &page);
    if (!status) status = fli_text_ok(&page);
    status = status ? fli_result_give_up(run, status) : fli_result_save(run, &page);
    fli_text_fini(&page);
    fli_arena_fini(&a);
    fli_free(h.count);
    return status;
}

fl_status fl_run_save_with_report(fl_run *run, const char *command)
{
    fli_clear(run->ctx);
    fl_status status = fli_ranks_first(&run->plan.ranks) ? save_here(run, command) : FL_OK;
    return fli_ranks_agree(run->ctx, &run->plan.ranks, status);
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

/* Has no histogram, since the samples are not loaded. */
struct fl_curves {
    fli_results results;
    fli_histogram none;
    fli_arena arena; /* all but rows */
    fli_method *methods;
    fli_trial *trials;
};

static fl_status read_config(fl_ctx *ctx, const char *folder, fli_bound **out)
{
    fl_config *cfg = fl_config_new(ctx);
    char *path = fli_strf(ctx, "%s/config.yaml", folder);
    fl_status status = cfg && path ? fl_config_load(cfg, path) : FL_ENOMEM;
    if (!status) status = fli_config_hold(cfg, out);
    fli_free(path);
    fl_config_free(cfg);
    return status;
}

static fl_status read_folder(fl_curves *c, size_t i, const char *folder)
{
    fl_ctx *ctx = c->results.ctx;
    fli_bound **bound = &c->trials[i].bound;
    fli_outcome *o = &c->results.outcomes[i];
    char *path = fli_strf(ctx, "%s/metrics.jsonl", folder);
    fl_status status = path ? FL_OK : FL_ENOMEM;
    if (!status && !fli_path_kind(path))
        status = fli_fail(ctx, FL_EIO, "%s: is not the result of a run: there is no metrics.jsonl in it", folder);
    if (!status) status = read_config(ctx, folder, bound);
    if (!status) status = fli_rows_read(ctx, path, &o->rows, &o->count);
    fli_free(path);
    if (status) return status;
    const fli_settings *settings = &(*bound)->settings;
    o->state = FLI_TRIAL_DONE;
    if (i == 0) {
        c->results.goal = fli_metric_goal(&settings->metrics);
        c->results.targets = &settings->metrics.targets;
    }
    status = describe_run(ctx, &c->arena, *settings->top.name ? settings->top.name : folder, settings, &c->methods[i],
                          &c->trials[i]);
    c->trials[i].method = i;
    return status;
}

static fl_status begin_curves(fl_curves *c, fl_ctx *ctx, size_t count)
{
    fli_arena_init(&c->arena, ctx);
    c->methods = fli_arena_alloc(&c->arena, count, sizeof *c->methods);
    c->trials = fli_arena_alloc(&c->arena, count, sizeof *c->trials);
    c->results = (fli_results){.ctx = ctx,
                               .title = "",
                               .description = "",
                               .methods = c->methods,
                               .trials = c->trials,
                               .outcomes = fli_arena_alloc(&c->arena, count, sizeof *c->results.outcomes),
                               .seeds = 1,
                               .histogram = &c->none};
    if (!c->methods || !c->trials || !c->results.outcomes) return FL_ENOMEM;
    c->results.count = count;
    return FL_OK;
}

fl_status fl_curves_read(fl_ctx *ctx, const char *const *folders, size_t count, fl_curves **out)
{
    fli_clear(ctx);
    if (!count) return fli_fail(ctx, FL_ECONFIG, "no result folder was named");
    fl_curves *c = fli_alloc(ctx, 1, sizeof *c);
    fl_status status = c ? begin_curves(c, ctx, count) : FL_ENOMEM;
    for (size_t i = 0; i < count && !status; i++) status = read_folder(c, i, folders[i]);
    if (status)
        fl_curves_free(c);
    else
        *out = c;
    return status;
}

void fl_curves_free(fl_curves *c)
{
    if (!c) return;
    for (size_t i = 0; i < c->results.count; i++) {
        fli_free(c->results.outcomes[i].rows);
        fli_bound_release(c->trials[i].bound);
    }
    fli_arena_fini(&c->arena);
    fli_free(c);
}

fl_status fl_curves_plot(fl_curves *c, const char *x, const char *y, fl_text_fn *out, void *arg)
{
    return fli_results_plot(&c->results, x, y, out, arg);
}

const char *fl_curves_quantity(const fl_curves *c, int axis, size_t k)
{
    return fli_results_quantity(&c->results, axis, k);
}
