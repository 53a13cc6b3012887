/* The heart: go forward (a round, or an upload) -> metrics row -> observers -> stop test. What others may see of a run
 * is in inside.c. */
#include "run/checkpoint.h"
#include "run/folder.h"
#include "run/idle.h"
#include "run/advance.h"
#include "metric/metric_list.h"
#include "run/on_device.h"

#include <math.h>

/* ---- life ---------------------------------------------------------------------------------------------- */

/* What changes, in the state before the first round. */
static fl_status start(fl_run *run)
{
    const fli_plan *p = &run->plan;
    size_t targets = p->settings.metrics.targets.n;
    fli_exec_spec spec = p->exec;
    fl_status status = fli_ranks_agree(run->ctx, &p->ranks, fli_run_open_device(run, &spec));
    fli_run_computed_with(run, run->kernels);
    if (!status) status = fli_run_same_kernels(run->ctx, &p->ranks, run->kernels);
    if (!status) status = fli_exec_new(run->ctx, &spec, &run->exec);
    if (!status)
        status =
            fli_measure_new(run->ctx, run->exec, p->model, p->fed, &p->settings.metrics, &p->asking, &run->measure);
    if (status) return status;
    run->target_round = fli_alloc(run->ctx, targets, sizeof *run->target_round);
    if (!run->target_round) return FL_ENOMEM;
    for (size_t i = 0; i < targets; i++) run->target_round[i] = SIZE_MAX;
    run->counts.staleness = run->counts.staleness_max = run->counts.potential_rise = NAN;
    run->counts.idle = run->counts.idle_most = NAN;
    /* Arrivals, too, may begin with turns of everyone. */
    if (!p->pace.buffer || fli_exec_warms_up(run->exec)) status = fli_rounds_prepare(run);
    if (!status && p->pace.buffer) status = fli_arrivals_prepare(run);
    if (status) return status;
    void *x = fli_exec_server(run->exec)[0];
    if (p->start)
        fli_copy(&p->model->space, p->start, x);
    else
        status = fli_model_start_from(run->ctx, p->model, p->fed, p->exec.seed, x);
    fli_exec_server_changed(run->exec);
    return status;
}

fl_status fl_run_new(fl_config *cfg, fl_run **out) { return fli_run_new(cfg, NULL, out); }

fl_status fli_run_new(fl_config *cfg, const fli_plan *data, fl_run **out)
{
    fli_clear(cfg->ctx);
    fl_run *run = fli_alloc(cfg->ctx, 1, sizeof *run);
    if (!run) return FL_ENOMEM;
    run->ctx = cfg->ctx;
    run->checkpoint_round = SIZE_MAX;
    /* ranks may have other files, or less memory, than each other */
    fl_status s = fli_ranks_agree(cfg->ctx, &cfg->ranks, fli_plan_make(cfg, data, &run->plan));
    if (!s) s = fli_ranks_agree(cfg->ctx, &cfg->ranks, start(run));
    if (!s && run->plan.settled && !data) /* a comparison has many runs, and says it in their results alone */
        fli_log(run->ctx, FL_LOG_INFO, "%s: %s", run->plan.algo->name, run->plan.settled);
    if (s)
        fl_run_free(run);
    else
        *out = run;
    return s;
}

void fl_run_free(fl_run *run)
{
    if (!run) return;
    fli_folder_discard(run);
    fli_measure_free(run->measure);
    fli_async_free(run->async);
    fli_exec_free(run->exec);
    fli_device_free(run->device);
    fli_plan_fini(&run->plan);
    fli_free(run->seen);
    fli_free(run->cohort);
    fli_free(run->asks);
    fli_free(run->durations);
    fli_free(run->spells);
    fli_free(run->rows);
    fli_free(run->target_round);
    fli_folder_unlock(run);
    fli_free(run->checkpoints);
    fli_free(run->command);
    fli_free(run);
}

void fl_run_stop(fl_run *run) { run->asked = 1; }

/* ---- measuring and stopping ---------------------------------------------------------------------------- */

/* Whether what targets are about is as good as this. */
static int reaches(const fl_run *run, double target)
{
    const fli_metric *goal = fli_metric_goal(&run->plan.settings.metrics);
    return fli_metric_reaches(goal, fli_row_get(&run->now, goal), target);
}

/* Metrics of a round may be taken twice: an asynchronous run that was interrupted may have taken uploads, but no step,
 * since its last row, and a run that goes on from a checkpoint measures what the last one did before it stopped. The
 * earlier row goes when the new one is there, and so does what its measurement sent. Returns how many rows stay. */
static size_t rows_before(fl_run *run)
{
    size_t kept = run->row_count;
    if (kept && fl_row_round(&run->rows[kept - 1]) == run->round) kept--;
    const fl_row *last = kept ? &run->rows[kept - 1] : NULL;
    run->counts.evaluation_up = last ? fli_row_get(last, &fli_metric_evaluation_bytes_up) : 0;
    run->counts.evaluation_down = last ? fli_row_get(last, &fli_metric_evaluation_bytes_down) : 0;
    return kept;
}

static fl_status measure(fl_run *run)
{
    const fli_reals *targets = &run->plan.settings.metrics.targets;
    size_t kept = rows_before(run);
    const void *x = fli_coordinator_vectors(fli_exec_coordinator(run->exec))[0];
    run->counts.round = (double)run->round;
    fl_status s = fli_measure_take(run->measure, x, &run->counts, &run->now);
    if (s) return s;
    if (run->row_count == run->row_capacity) {
        size_t more = run->row_capacity ? 2 * run->row_capacity : 64;
        if ((s = fli_grow(run->ctx, (void **)&run->rows, run->row_count, more, sizeof *run->rows))) return s;
        run->row_capacity = more;
    }
    fli_potential_note(run, kept ? &run->rows[kept - 1] : NULL);
    run->row_count = kept;
    run->rows[run->row_count++] = run->now;
    run->arrived = run->ages = run->oldest = 0;
    if ((s = fli_run_check_loss(run))) return s;
    for (size_t i = 0; i < targets->n; i++)
        if (run->target_round[i] == SIZE_MAX && reaches(run, targets->v[i])) run->target_round[i] = run->round;
    return FL_OK;
}

/* Rules that can be judged after any round. */
static fl_stop stop_now(const fl_run *run, int asked)
{
    const fli_stop_settings *stop = &run->plan.settings.stop;
    if (asked) return FL_STOP_ASKED;
    if (stop->seconds > 0 && run->counts.seconds >= stop->seconds) return FL_STOP_TIME;
    if (stop->simulated > 0 && run->counts.simulated_seconds >= stop->simulated) return FL_STOP_TIME;
    if (run->round >= (size_t)run->plan.settings.top.rounds) return FL_STOP_ROUNDS;
    return FL_STOP_NONE;
}

/* Rules that need fresh metrics. */
static fl_stop stop_measured(const fl_run *run)
{
    const fli_stop_settings *stop = &run->plan.settings.stop;
    if (stop->target > 0 && reaches(run, stop->target)) return FL_STOP_TARGET;
    double gradient2 = fli_row_get(&run->now, &fli_metric_gradient2);
    if (stop->gradient2 > 0 && fli_metric_reaches(&fli_metric_gradient2, gradient2, stop->gradient2))
        return FL_STOP_GRADIENT;
    double mapping = fli_row_get(&run->now, &fli_metric_gradient_mapping);
    if (stop->gradient_mapping > 0 && fli_metric_reaches(&fli_metric_gradient_mapping, mapping, stop->gradient_mapping))
        return FL_STOP_GRADIENT;
    return FL_STOP_NONE;
}

/* Client state that did not fit, at any rank, for those who choose `memory`. */
static fl_status report_state(const fl_run *run)
{
    size_t spilled, held = fli_exec_state(run->exec, &spilled);
    double bytes[] = {(double)held, (double)spilled};
    const fl_ranks *ranks = &run->plan.ranks;
    fl_status s = fli_ranked(ranks) ? fli_ranks_add(run->ctx, ranks, bytes, 2, sizeof *bytes) : FL_OK;
    if (s || bytes[1] == 0) return s;
    if (run->device)
        fli_log(run->ctx, FL_LOG_INFO, "client state: %.1f MiB on the device, %.1f MiB in plain memory",
                bytes[0] / 0x1p20, bytes[1] / 0x1p20);
    else
        fli_log(run->ctx, FL_LOG_INFO, "client state: %.1f MiB in memory, %.1f MiB in a temporary file in %s",
                bytes[0] / 0x1p20, bytes[1] / 0x1p20, run->plan.exec.folder);
    return FL_OK;
}

static void report_missed(const fl_run *run)
{
    if (run->empty)
        fli_log(run->ctx, FL_LOG_WARNING,
                "in %zu of %zu rounds nobody took part or answered in time: the model stayed as it was", run->empty,
                run->round);
    size_t uploads, missed = fli_coordinator_missed(fli_exec_coordinator(run->exec), &uploads);
    if (missed)
        fli_log(run->ctx, FL_LOG_WARNING,
                "%zu of %zu local problems were not solved to their accuracy: the solver ran out of steps "
                "(algorithm.most_steps) or of digits",
                missed, uploads);
}

/* ---- going forward ------------------------------------------------------------------------------------- */

/* Where ranks make the run together, all of them stop if one is asked to, and all go by the clock of the first. */
static fl_status hear(fl_run *run)
{
    const fl_ranks *ranks = &run->plan.ranks;
    double most[] = {run->asked, fli_ranks_first(ranks) ? run->counts.seconds : 0};
    fl_status s = fli_ranks_most(run->ctx, ranks, most, 2);
    run->heard = most[0] > 0;
    run->counts.seconds = most[1];
    return s;
}

/* After a round: whether the run ends here, a checkpoint, a row of metrics, the observer. *asked: somebody wants no
 * further round. */
static fl_status look_once(fl_run *run, fl_observer_fn *observer, void *arg, int *asked)
{
    size_t every = (size_t)run->plan.settings.metrics.every;
    fl_status s = hear(run);
    if (s) return s;
    int before = run->heard;
    fl_stop stop = stop_now(run, before);
    int due = stop != FL_STOP_NONE || run->round % every == 0;
    s = fli_checkpoint_due(run, before); /* before a row that only the stop asks for */
    if (!s && due) s = fli_idle_take(run);
    if (!s && due) s = measure(run);
    if (s) return s;
    if (due && stop_measured(run) != FL_STOP_NONE) stop = stop_measured(run);
    run->counts.round = (double)run->round;
    fli_row_count(&run->now, &run->counts);
    run->stopped = stop;
    if (observer) observer(arg, run, &run->now, due);
    if ((s = hear(run))) return s;
    *asked = run->heard; /* by the observer, or while measuring */
    if (stop == FL_STOP_NONE && *asked && due) run->stopped = FL_STOP_ASKED;
    return FL_OK;
}

/* The end of a run, once. */
static fl_status finish(fl_run *run)
{
    size_t every = (size_t)run->plan.settings.metrics.every;
    report_missed(run);
    fli_potential_report(run);
    fl_status s = report_state(run);
    if (s) return s;
    fli_idle_report(run);
    /* asked to stop by the observer: this round's row is taken, and will be taken again */
    return run->stopped == FL_STOP_ASKED && run->round % every == 0 ? fli_checkpoint_due(run, 1) : FL_OK;
}

/* A stop that is asked for where no row was due is looked at again, with a row. */
static fl_status look(fl_run *run, fl_observer_fn *observer, void *arg)
{
    int asked = 0;
    fl_status s = look_once(run, observer, arg, &asked);
    if (!s && run->stopped == FL_STOP_NONE && asked) s = look_once(run, observer, arg, &asked);
    return s || run->stopped == FL_STOP_NONE ? s : finish(run);
}

/* What comes before the first round, and after a checkpoint. */
static fl_status begin(fl_run *run, fl_observer_fn *observer, void *arg)
{
    fl_status s = run->plan.settings.top.checkpoint_every ? fli_checkpoint_prepare(run) : FL_OK;
    if (s || run->begun) return s;
    run->begun = 1;
    if (!run->warm && fli_exec_warms_up(run->exec)) {
        fli_idle_begin(run);
        s = fli_rounds_warm_up(run);
        fli_idle_end(run);
    }
    run->warm = !s;
    if (!s) s = fli_potential_begin(run);
    if (!s) s = fli_gap_begin(run);
    return s ? s : look(run, observer, arg);
}

/* A round, unless somebody wants no further one. */
static fl_status advance(fl_run *run, fl_observer_fn *observer, void *arg)
{
    int asked = fli_ranked(&run->plan.ranks) ? run->heard : run->asked;
    fl_status s = FL_OK;
    if (!asked) {
        fli_idle_begin(run);
        s = run->async ? fli_arrivals_next(run) : fli_rounds_next(run);
        fli_idle_end(run);
    }
    return s ? s : look(run, observer, arg);
}

/* At most so many rounds. What fails within leaves a run that cannot go on. */
static fl_status go(fl_run *run, size_t most, fl_observer_fn *observer, void *arg)
{
    fli_clear(run->ctx);
    if (run->failed)
        return fli_fail(run->ctx, run->failed, "the run has failed in round %zu, and cannot go on", run->round + 1);
    fl_status s = begin(run, observer, arg);
    while (!s && most-- && run->stopped == FL_STOP_NONE) s = advance(run, observer, arg);
    if (run->begun) run->failed = s;
    if (s != FL_EDIVERGED) return s;
    s = fli_result_keep_metrics(run, fli_run_explain(run)); /* which is rank 0's business, and all say the same */
    return fli_ranks_agree(run->ctx, &run->plan.ranks, s);
}

fl_status fl_run_go(fl_run *run, fl_observer_fn *observer, void *arg) { return go(run, SIZE_MAX, observer, arg); }

fl_status fl_run_step(fl_run *run, int *more)
{
    fl_status s = go(run, 1, NULL, NULL);
    if (more) *more = !s && run->stopped == FL_STOP_NONE;
    return s;
}
