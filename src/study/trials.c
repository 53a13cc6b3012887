/* Running a comparison. Worker threads take trials in order (seed by seed), each with its own context; trials of one
 * seed share the loaded data and the partition. */
#include "study/study.h"

#include "base/file.h"
#include "base/number.h"
#include "base/os.h"
#include "run/output.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- one trial ----------------------------------------------------------------------------------------- */

/* A worker's turn at one trial. */
typedef struct {
    fl_study *s;
    size_t trial;
    fl_run *run;
    fl_status status; /* of storing its metrics */
} job;

/* Loads a trial's data, unless another trial has. */
static fl_status load_shared(fl_study *s, fli_shared *d, const fl_config *cfg)
{
    fl_status status = FL_OK;
    pthread_mutex_lock(&d->lock);
    if (!d->loaded) {
        fli_shared_unload(d);
        d->cfg = (d->ctx = fl_ctx_new()) ? fli_config_copy(d->ctx, cfg) : NULL;
        if (d->cfg) {
            fli_ctx_stop_with(d->ctx, s->ctx);
            status = d->status = fli_plan_data(d->cfg, NULL, &d->plan);
            d->plan.runs = s->jobs;
            d->loaded = 1; /* also after a failure: fli_plan_fini frees what there is */
        } else
            status = FL_ENOMEM;
        pthread_mutex_lock(&s->lock);
        if (!status && d == s->shared && !s->histogram.all_clients)
            status = fli_label_counts_take(d->ctx, d->plan.fed, &s->histogram);
        pthread_mutex_unlock(&s->lock);
    } else
        status = d->status; /* the trial that tried to load them has reported why */
    pthread_mutex_unlock(&d->lock);
    return status;
}

static void release_shared(fli_shared *d)
{
    pthread_mutex_lock(&d->lock);
    if (!--d->users) fli_shared_unload(d);
    pthread_mutex_unlock(&d->lock);
}

/* Caller holds the lock. Tells the observer and, at intervals, the live page. */
static void notify(fl_study *s, size_t trial, int ended)
{
    const fli_trial *t = &s->x.trials[trial];
    const fli_outcome *o = &s->outcomes[trial];
    double now = fli_clock_now();
    fl_study_progress p = {
        .label = s->x.methods[t->method].label,
        .setting = t->setting_text,
        .seed = t->seed,
        .round = o->round,
        .rounds = t->rounds,
        .ended = ended,
        .row = o->count ? &o->rows[o->count - 1] : NULL,
        .error = o->error,
        .total = s->x.count,
        .fraction = s->rounds_planned ? (double)s->rounds_done / (double)s->rounds_planned : 1,
        .seconds = now - s->begun,
    };
    for (size_t i = 0; i < s->x.count; i++) {
        p.done += s->outcomes[i].state == FLI_TRIAL_DONE;
        p.failed += s->outcomes[i].state == FLI_TRIAL_FAILED;
    }
    if (s->observer) s->observer(s->arg, &p);
    if (!s->live || (now - s->published < 1 && o->state == FLI_TRIAL_RUNNING)) return;
    s->published = now;
    fli_arena a;
    fli_report report;
    fli_text html;
    fli_arena_init(&a, s->ctx);
    fli_text_init(&html, s->ctx);
    const fli_results r = fli_study_results(s);
    int made = !fli_results_report(&r, &a, &report);
    report.live = 1;
    if (made && !fli_page_html(&html, &report)) fli_live_publish(s->live, fli_text_get(&html));
    fli_text_fini(&html);
    fli_arena_fini(&a);
}

static fl_status keep_row(fl_study *s, fli_outcome *o, const fl_row *row)
{
    if (o->count == o->capacity) {
        size_t more = o->capacity ? 2 * o->capacity : 64;
        fl_status status = fli_grow(s->ctx, (void **)&o->rows, o->count, more, sizeof *o->rows);
        if (status) return status;
        o->capacity = more;
    }
    o->rows[o->count++] = *row;
    return FL_OK;
}

static void observe(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    job *j = arg;
    fl_study *s = j->s;
    fli_outcome *o = &s->outcomes[j->trial];
    (void)run;
    pthread_mutex_lock(&s->lock);
    s->rounds_done += fl_row_round(row) - o->round;
    o->round = fl_row_round(row);
    if (measured && !j->status && (j->status = keep_row(s, o, row))) fl_run_stop(j->run);
    notify(s, j->trial, 0);
    pthread_mutex_unlock(&s->lock);
    if (s->stop_requested) fl_run_stop(j->run); /* perhaps by the observer just now */
}

static fl_status set_threads(fl_study *s, fl_config *cfg)
{
    char text[40];
    if (atoi(fl_config_get(cfg, "threads")) > 0) return FL_OK; /* the file takes precedence */
    fli_snprintf(text, sizeof text, "threads=%zu", s->threads);
    return fl_config_set(cfg, text);
}

/* Copies a resumed run's rows, except that of its current round, which is measured again. */
static fl_status keep_rows(job *j)
{
    const fl_row *rows;
    fl_study *s = j->s;
    fli_outcome *o = &s->outcomes[j->trial];
    fl_status status = FL_OK;
    size_t n = fl_run_rows(j->run, &rows);
    pthread_mutex_lock(&s->lock);
    for (size_t i = 0; i < n && !status && fl_row_round(&rows[i]) < fl_run_round(j->run); i++)
        status = keep_row(s, o, &rows[i]);
    o->round = fl_run_round(j->run);
    s->rounds_done += o->round;
    pthread_mutex_unlock(&s->lock);
    return status;
}

/* Makes the trial's run, from its checkpoint if there is a matching one. */
static fl_status make_run(job *j, fl_ctx *ctx, fl_config *cfg, const fli_plan *data)
{
    fl_status status = fli_run_new(cfg, data, &j->run);
    if (status || !fli_checkpoint_exists(j->run)) return status;
    status = fli_checkpoint_take(j->run);
    if (!status) return keep_rows(j);
    if (status == FL_ENOMEM) return status;
    fli_log(j->s->ctx, FL_LOG_INFO, "%s; the run starts again", fl_ctx_error(ctx));
    fl_run_free(j->run);
    j->run = NULL;
    fli_clear(ctx);
    return fli_run_new(cfg, data, &j->run);
}

static fl_status run_trial(job *j, fl_ctx *ctx)
{
    fl_study *s = j->s;
    const fli_trial *t = &s->x.trials[j->trial];
    fli_shared *d = &s->shared[s->outcomes[j->trial].data];
    fl_config *cfg = fli_config_copy(ctx, t->cfg);
    fl_status status = cfg ? set_threads(s, cfg) : FL_ENOMEM;
    if (!status && (status = load_shared(s, d, cfg)))
        fli_fail(ctx, status, "%s", d->ctx && *fl_ctx_error(d->ctx) ? fl_ctx_error(d->ctx) : fl_status_text(status));
    if (!status) status = make_run(j, ctx, cfg, &d->plan);
    if (!status) status = fl_run_prepare_save(j->run, 1);
    if (!status) status = fl_run_go(j->run, observe, j);
    if (!status) status = j->status;
    if (!status && fl_run_stopped_by(j->run) != FL_STOP_ASKED) status = fl_run_save(j->run);
    fl_config_free(cfg);
    return status;
}

static fl_status write_events(fl_study *s, fl_ctx *ctx, size_t trial)
{
    const fli_trial *t = &s->x.trials[trial];
    const fli_outcome *o = &s->outcomes[trial];
    fli_curve curve = {t->seed, o->rows, o->count};
    char *folder = fli_strf(ctx, "%s/%s", s->options.tensorboard, t->folder + strlen(s->x.output) + strlen("/runs/"));
    fl_status status = folder ? fli_make_folders(ctx, folder) : FL_ENOMEM;
    if (!status) status = fli_events_write(ctx, folder, &curve);
    fli_free(folder);
    return status;
}

/* Caller holds the lock. Records the trial's outcome. */
static void finish_trial(job *j, fl_ctx *ctx, fl_status status)
{
    fl_study *s = j->s;
    fli_outcome *o = &s->outcomes[j->trial];
    int stopped = status ? status == FL_ESTOPPED : fl_run_stopped_by(j->run) == FL_STOP_ASKED;
    if (status == FL_ESTOPPED) s->stop_requested = 1;
    if (stopped) status = FL_OK;
    s->rounds_done += s->x.trials[j->trial].rounds - o->round; /* a rule or a failure may have ended it early */
    if (!status && !stopped) {
        o->state = FLI_TRIAL_DONE;
        o->checked = 1;
        return;
    }
    o->count = 0; /* metrics of an unfinished run do not count */
    o->round = 0;
    o->state = status ? FLI_TRIAL_FAILED : FLI_TRIAL_OPEN;
    o->status = status;
    if (status) o->error = fli_strdup(s->ctx, ctx && *fl_ctx_error(ctx) ? fl_ctx_error(ctx) : fl_status_text(status));
}

/* fl_log_fn: forwards a run's log lines to the study's log. */
static void forward_log(void *study, fl_log_level level, const char *line)
{
    fli_log(((fl_study *)study)->ctx, level, "%s", line);
}

/* fli_pool_fn: runs trial `item`, if it is open. */
static void trial_item(void *arg, size_t item, size_t worker)
{
    fl_study *s = arg;
    fli_outcome *o = &s->outcomes[item];
    job j = {s, item, NULL, FL_OK};
    (void)worker;
    if (o->state != FLI_TRIAL_OPEN) return;
    if (!s->stop_requested) {
        fl_ctx *ctx = fl_ctx_new();
        if (ctx && item < fli_study_stride(s))
            fl_ctx_on_log(ctx, forward_log, s); /* log lines of the first seed alone */
        pthread_mutex_lock(&s->lock);
        o->state = FLI_TRIAL_RUNNING;
        pthread_mutex_unlock(&s->lock);
        fl_status status = ctx ? run_trial(&j, ctx) : FL_ENOMEM;
        pthread_mutex_lock(&s->lock);
        finish_trial(&j, ctx, status);
        if (o->state == FLI_TRIAL_DONE && s->options.tensorboard && write_events(s, ctx, item))
            o->error = fli_strdup(s->ctx, fl_ctx_error(ctx));
        notify(s, item, o->state == FLI_TRIAL_DONE || o->state == FLI_TRIAL_FAILED);
        pthread_mutex_unlock(&s->lock);
        fl_run_free(j.run);
        fl_ctx_free(ctx);
    }
    release_shared(&s->shared[o->data]);
}

/* ---- all of them --------------------------------------------------------------------------------------- */

/* Counts the trials to run, and divides the processors between jobs. */
static size_t prepare(fl_study *s)
{
    size_t open = 0, jobs = fli_pool_count(s->options.jobs);
    s->rounds_planned = s->rounds_done = 0;
    for (size_t k = 0; k < s->shared_count; k++) s->shared[k].users = 0;
    for (size_t i = 0; i < s->x.count; i++) {
        fli_outcome *o = &s->outcomes[i];
        if (o->state == FLI_TRIAL_FAILED) {
            fli_free(o->error);
            *o = (fli_outcome){.data = o->data, .rows = o->rows, .capacity = o->capacity};
        }
        if (o->state != FLI_TRIAL_OPEN) continue;
        open++;
        s->rounds_planned += s->x.trials[i].rounds;
        s->shared[o->data].users++;
    }
    if (jobs > open) jobs = open ? open : 1;
    s->jobs = jobs;
    s->threads = fli_pool_count(0) / jobs;
    if (!s->threads) s->threads = 1;
    return jobs;
}

fl_status fl_study_watch(fl_study *s, uint16_t *port)
{
    fli_clear(s->ctx);
    if (s->live) return fli_fail(s->ctx, FL_ECONFIG, "this comparison is being watched already");
    fl_status status = fli_live_new(s->ctx, *port, &s->live);
    if (!status) *port = fli_live_port(s->live);
    return status;
}

fl_status fl_study_go(fl_study *s, fl_study_fn *observer, void *arg)
{
    fli_pool *pool = NULL;
    fli_clear(s->ctx);
    s->observer = observer;
    s->arg = arg;
    s->begun = fli_clock_now();
    fl_status status = fli_output_claim_take(&s->claim);
    if (!status) status = fli_output_claim_check(&s->claim, fli_study_files);
    if (!status) status = fli_finished_runs_settle(s);
    for (size_t i = 0; i < s->x.count && !status && s->options.tensorboard; i++) /* reused trials have curves, too */
        if (s->outcomes[i].state == FLI_TRIAL_DONE) status = write_events(s, s->ctx, i);
    if (!status) status = fli_pool_new(s->ctx, prepare(s), &pool);
    if (status) return status;
    if (s->live && s->x.count) {
        pthread_mutex_lock(&s->lock);
        notify(s, 0, 0);
        pthread_mutex_unlock(&s->lock);
    }
    fli_pool_run(pool, s->x.count, trial_item, s);
    fli_pool_free(pool);
    s->was_stopped = s->stop_requested;
    s->stop_requested = 0; /* the request was carried out; the comparison can continue later */
    return FL_OK;
}
