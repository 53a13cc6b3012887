/* The heart: go forward (a round, or an upload) -> metrics row -> observers -> stop test. Before it, what watches over
 * a run (divergence, potential), its device, and the accessors of the public header; how it goes forward is in
 * rounds.c. */
#include "base/number.h"
#include "metric/metric.h"
#include "plan/constants.h"
#include "run/output.h"
#include "run/state.h"
#include "vec/kernels.h"

#include <float.h>
#include <math.h>
#include <string.h>

/* ==== divergence ============================================================================================ */

enum { FAR = 10 }; /* times the start: a warning */

/* The loss that is watched: the training loss where it is measured. */
static double watched_loss(const fl_run *run, const fl_row *row)
{
    return fli_row_get(row, run->plan.settings.metrics.train ? &fli_metric_train_loss : &fli_metric_test_loss);
}

static fl_status diverged(fl_run *run, double loss, double start)
{
    const fli_algo *a = run->plan.algo;
    const char *which = run->plan.settings.metrics.train ? "training" : "test";
    if (!isfinite(loss) && !run->round)
        return fli_fail(run->ctx, FL_EDIVERGED,
                        "round 0: the %s loss of the start model is not finite, before anything was trained", which);
    if (!isfinite(loss))
        return fli_fail(run->ctx, FL_EDIVERGED, "round %zu: the %s loss is no longer finite; %s diverges, try %s",
                        run->round, which, a->name, fli_algo_remedy(a));
    return fli_fail(run->ctx, FL_EDIVERGED,
                    "round %zu: the %s loss is %.4g, which is %.3g times the %.4g it began with; %s diverges, try %s "
                    "(stop.diverged is %g)",
                    run->round, which, loss, loss / start, start, a->name, fli_algo_remedy(a),
                    run->plan.settings.stop.diverged);
}

/* Warns once when the loss is FAR times its start, and fails with FL_EDIVERGED beyond stop.diverged. A loss of 0 at the
 * start gives no measure: then only numbers that are not finite end the run. */
static fl_status check_loss(fl_run *run)
{
    double most = run->plan.settings.stop.diverged, loss = watched_loss(run, &run->now);
    double start = watched_loss(run, &run->rows[0]);
    if (!fli_measure_heard(run->measure)) return FL_OK;
    if (run->plan.regularizer && run->row_count > 1) /* where it begins a constraint may not hold yet */
        start = fmax(start, watched_loss(run, &run->rows[1]));
    int measured = run->plan.settings.metrics.train || (run->row_count > 1 && !isnan(start));
    if (isinf(loss) || (isnan(loss) && measured)) return diverged(run, loss, start);
    if (!(start > 0)) return FL_OK;
    if (most > 0 && loss > most * start) return diverged(run, loss, start);
    if (!(loss > FAR * start)) return FL_OK;
    if (!run->loss_warned)
        fli_log(run->ctx, FL_LOG_WARNING, "round %zu: the loss is %.4g, %.3g times what it began with; %s may need %s",
                run->round, loss, loss / start, run->plan.algo->name, fli_algo_remedy(run->plan.algo));
    run->loss_warned = 1;
    return FL_OK;
}

/* Features of very different sizes leave no step that suits them: that is not the method's fault. */
static fl_status explain_divergence(fl_run *run)
{
    enum { LARGE = 10000 };
    double largest;
    if (!fli_fed_magnitude(run->ctx, run->plan.fed, &largest) && largest > LARGE)
        fli_fail_also(run->ctx, FL_EDIVERGED,
                      "features are as large as %.3g: data.normalize, for instance unit or standard, scales them",
                      largest);
    return FL_EDIVERGED;
}

/* ==== potential and optimality gap ========================================================================== */

/* What theory promises of a run: whether its potential rises although it should not, and the largest L_i that
 * optimality gaps have. Either is found out once, when a run begins, with the constants that `fedloom check` measures.
 * */

/* Before the first measurement: does theory promise that the potential never rises? */
static fl_status potential_begin(fl_run *run)
{
    int falls = 0, all = (size_t)run->plan.settings.metrics.max_clients >= run->plan.fed->clients;
    if (run->plan.remote_queue) return FL_OK; /* constants are measured on samples, and those are at the clients */
    if (!run->plan.exec.measure_potential || !all || !isnan(run->counts.potential_rise)) return FL_OK;
    fl_status s = fli_theory_falls(&run->plan, &falls);
    if (!s && falls) run->counts.potential_rise = 0;
    return s;
}

/* Sums over samples have about as many digits as that, of the largest terms there were. */
static double rounding(const fl_run *run, double scale)
{
    static const double digits[] = {
        [FLI_PRECISION_F32] = 2e-5, [FLI_PRECISION_F64] = 1e-11, [FLI_PRECISION_TF32] = 5e-3};
    return digits[run->plan.settings.top.precision] * scale;
}

/* Holds a new row against the one before it, if any. */
static void potential_note(fl_run *run, const fl_row *before)
{
    const fli_metric *m = &fli_metric_potential;
    size_t after = run->plan.algo->theory.potential.after;
    if (isnan(run->counts.potential_rise)) return;
    run->counts.potential_rise = before ? fli_row_get(before, &fli_metric_potential_rise) : 0;
    if (before && fl_row_round(before) >= after) {
        double now = fli_row_get(&run->now, m), last = fli_row_get(before, m);
        double scale = fmax(fmax(fabs(now), fabs(last)), fabs(fli_row_get(&run->rows[0], m)));
        if (now - last > rounding(run, scale))
            run->counts.potential_rise = fmax(run->counts.potential_rise, now - last);
    }
    fli_row_count(&run->now, &run->counts);
}

/* Warns at the end of a run if the potential rose although theory promises that it does not. */
static void potential_report(const fl_run *run)
{
    size_t i = 0;
    while (i < run->row_count && !(fli_row_get(&run->rows[i], &fli_metric_potential_rise) > 0)) i++;
    if (i == run->row_count) return;
    fli_log(run->ctx, FL_LOG_WARNING,
            "the potential, %s, first rose in round %zu, and by %.3g at most, although theory promises that it never "
            "does with these settings and the constants that `fedloom check` measures",
            run->plan.algo->theory.potential.name, fl_row_round(&run->rows[i]), run->counts.potential_rise);
}

/* What the method's optimality gap is made of besides what clients measure (metric/global_rows.c), before the first
 * measurement. */
static fl_status gap_begin(fl_run *run)
{
    double smoothness = NAN;
    if (run->plan.remote_queue || !fli_plan_needs_smoothness(&run->plan))
        return FL_OK; /* samples are at the clients, or no matter */
    fl_status s = fli_theory_smoothness(&run->plan, 1, &smoothness);
    fli_measure_smooth(run->measure, smoothness);
    return s;
}

/* ==== the device ============================================================================================ */

/* Where `memory` is auto and clients may come to keep more than half of what is free there, that half is the budget:
 * the rest goes to plain memory, instead of ending the run when the device is full. */
static fl_status limit_client_state(const fl_run *run, const fli_device_spec *d, fli_exec_spec *spec)
{
    fli_engine_info now;
    double each =
        (double)(fli_algo_client_vectors(spec->algo, spec->measure_potential) * fli_bytes(&spec->model->space));
    if (spec->memory || each == 0) return FL_OK;
    fl_status s = d->backend->describe(run->ctx, d->which, &now);
    if (!s && each * (double)spec->fed->clients > now.free / 2) spec->memory = (size_t)(now.free / 2);
    return s;
}

/* Opens the device of the plan and puts it into the spec; for device: cpu nothing happens. */
static fl_status open_device(fl_run *run, fli_exec_spec *spec)
{
    const fli_plan *p = &run->plan;
    fli_device_spec d = {.tf32 = p->settings.top.precision == FLI_PRECISION_TF32,
                         .model = p->model,
                         .fed = p->fed,
                         .sgd = spec->sgd,
                         .memory = p->bytes_on_device};
    if (!fli_settings_on_device(&p->settings)) return FL_OK;
    if (p->remote_queue)
        return fli_fail(
            run->ctx, FL_ECONFIG,
            "device is %s, but the clients are in other processes, and all turns are theirs; it must be cpu",
            p->settings.top.device);
    fl_status s = fli_device_find(run->ctx, p->settings.top.device, &d.backend, &d.which);
    if (!s && fli_ranked(&p->ranks))
        d.which = fli_device_of_rank(p->settings.top.device, d.backend, d.which, p->ranks.local);
    if (!s) s = fli_device_new(run->ctx, &d, &run->device);
    if (!s) s = limit_client_state(run, &d, spec);
    if (s) return s;
    run->site = fli_device_site(run->device);
    spec->site = &run->site;
    return FL_OK;
}

fl_status fli_run_same_kernels(fl_ctx *ctx, const fl_ranks *ranks, const char own[FLI_COMPUTED_WITH])
{
    if (!fli_ranked(ranks)) return FL_OK;
    char(*all)[FLI_COMPUTED_WITH] = fli_alloc(ctx, ranks->count, sizeof *all);
    size_t *at = fli_alloc(ctx, ranks->count + 1, sizeof *at);
    fl_status s = all && at ? FL_OK : FL_ENOMEM;
    if (!s) {
        for (uint32_t r = 0; r <= ranks->count; r++) at[r] = r * sizeof *all;
        memcpy(all[ranks->rank], own, sizeof *all);
        s = fli_ranks_gather(ctx, ranks, all, at);
    }
    for (uint32_t r = 1; !s && r < ranks->count; r++)
        if (strcmp(all[r], all[0]))
            s = fli_fail(ctx, FL_ECONFIG,
                         "rank %u computes with kernels for %s, but rank 0 with those for %s: the last digits would "
                         "depend on who has which client; FEDLOOM_KERNELS, such as v2, and OPENBLAS_CORETYPE in the "
                         "environment of all of them make processors alike",
                         r, all[r], all[0]);
    fli_free(all);
    fli_free(at);
    return s;
}

void fli_run_computed_with(const fl_run *run, char out[FLI_COMPUTED_WITH])
{
    if (run->device)
        fli_snprintf(out, FLI_COMPUTED_WITH, "%s on %s", fli_kernels_all(), fli_device_name(run->device));
    else
        fli_snprintf(out, FLI_COMPUTED_WITH, "%s", fli_kernels_all());
}

/* ==== accessors ============================================================================================= */

/* ---- what it is, and how far ---------------------------------------------------------------------------- */

const char *fl_run_name(const fl_run *run) { return run->plan.settings.top.name; }
const char *fl_run_output(const fl_run *run) { return run->plan.settings.top.output; }
const char *fl_run_algorithm(const fl_run *run) { return run->plan.algo->name; }
size_t fl_run_rounds(const fl_run *run) { return (size_t)run->plan.settings.top.rounds; }
size_t fl_run_round(const fl_run *run) { return run->round; }
int fl_run_checkpointed(const fl_run *run) { return run->checkpoint && run->checkpoint_round == run->round; }
size_t fl_run_clients(const fl_run *run) { return run->plan.fed->clients; }
double fl_run_memory(const fl_run *run) { return run->plan.memory; }
size_t fl_run_parameters(const fl_run *run) { return run->plan.model->space.n; }
fl_stop fl_run_stopped_by(const fl_run *run) { return run->stopped; }

const char *fl_stop_text(fl_stop stop)
{
    static const char *const text[] = {"not finished", "rounds", "target", "gradient", "time", "asked"};
    return (size_t)stop < sizeof text / sizeof *text ? text[stop] : "unknown";
}

const fl_row *fl_run_row(const fl_run *run) { return run->row_count ? &run->rows[run->row_count - 1] : NULL; }

size_t fl_run_rows(const fl_run *run, const fl_row **rows)
{
    *rows = run->rows;
    return run->row_count;
}

int fl_run_target(const fl_run *run, size_t k, double *accuracy, size_t *round)
{
    const fli_reals *targets = &run->plan.settings.metrics.targets;
    if (k >= targets->n) return 0;
    *accuracy = targets->v[k];
    *round = run->target_round[k];
    return 1;
}

/* ---- vectors --------------------------------------------------------------------------------------------- */

size_t fl_run_model(const fl_run *run, double *out, size_t capacity)
{
    const fli_space *s = &run->plan.model->space;
    size_t n = s->n < capacity ? s->n : capacity;
    if (out) s->ops->to_f64(n, fli_exec_server(run->exec)[0], out);
    return s->n;
}

fl_status fl_run_start(fl_run *run, const double *x, size_t n)
{
    const fli_space *space = &run->plan.model->space;
    void *model = fli_exec_server(run->exec)[0];
    fli_clear(run->ctx);
    if (run->started || run->round || run->warm_up_done)
        return fli_fail(run->ctx, FL_ECONFIG, "fl_run_start: the run has begun, its start model is no longer needed");
    if (!x || n != space->n)
        return fli_fail(run->ctx, FL_ECONFIG, "fl_run_start: the model has %zu parameters, not %zu", space->n,
                        x ? n : 0);
    for (size_t i = 0; i < n; i++)
        if (!isfinite(x[i]) || (space->ops->size == sizeof(float) && fabs(x[i]) > (double)FLT_MAX))
            return fli_fail(run->ctx, FL_ECONFIG, "fl_run_start: parameter %zu is %g, which precision %s does not hold",
                            i, x[i], space->ops->size == sizeof(float) ? "f32" : "f64");
    space->ops->from_f64(n, x, model);
    fli_exec_server_changed(run->exec);
    return FL_OK;
}

static fl_vector vector_of(const fl_run *run, const char *name, const void *data)
{
    const fli_space *s = &run->plan.model->space;
    return (fl_vector){.name = name, .data = data, .n = s->n, .real = s->ops->size};
}

int fl_run_vector(const fl_run *run, size_t k, fl_vector *out)
{
    const fli_algo *a = run->plan.algo;
    if (k >= fli_names_count(a->server)) return 0;
    *out = vector_of(run, a->server[k], fli_exec_server(run->exec)[k]);
    return 1;
}

int fl_run_client_vector(fl_run *run, size_t client, size_t k, fl_vector *out)
{
    const fli_algo *a = run->plan.algo;
    const fli_space *s = &run->plan.model->space;
    int there = 0;
    fli_clear(run->ctx);
    if (k >= fli_names_count(a->client)) return 0;
    if (!run->peek_buffer && !(run->peek_buffer = fli_alloc(run->ctx, s->n, s->ops->size))) return -1;
    if (fli_exec_peek(run->exec, client, k, run->peek_buffer, NULL, &there)) return -1;
    *out = vector_of(run, a->client[k], there ? run->peek_buffer : NULL);
    return 1;
}

size_t fl_run_client_scalars(fl_run *run, size_t client, double *out, size_t capacity)
{
    size_t n = run->plan.algo->client_scalars;
    int there = 0;
    fli_clear(run->ctx);
    double *all = fli_alloc(run->ctx, n, sizeof *all);
    fl_status s = all ? fli_exec_peek(run->exec, client, 0, NULL, all, &there) : FL_ENOMEM;
    if (!s && there && out) memcpy(out, all, (n < capacity ? n : capacity) * sizeof *out);
    fli_free(all);
    return s ? SIZE_MAX : there ? n : 0;
}

int fl_run_tensor(const fl_run *run, size_t k, fl_tensor *out)
{
    const fli_model *m = run->plan.model;
    if (k >= m->tensor_count) return 0;
    const fli_tensor *t = &m->tensors[k];
    *out = (fl_tensor){.name = t->name, .offset = t->offset};
    out->dims = fli_tensor_shape(t, out->shape);
    return 1;
}

/* ==== the run =============================================================================================== */

/* ---- life ---------------------------------------------------------------------------------------------- */

/* What changes, in the state before the first round. */
static fl_status set_up(fl_run *run)
{
    const fli_plan *p = &run->plan;
    size_t targets = p->settings.metrics.targets.n;
    fli_exec_spec spec = p->exec;
    fl_status status = fli_ranks_agree(run->ctx, &p->ranks, open_device(run, &spec));
    fli_run_computed_with(run, run->kernels);
    if (!status) status = fli_run_same_kernels(run->ctx, &p->ranks, run->kernels);
    if (!status) status = fli_exec_new(run->ctx, &spec, &run->exec);
    if (!status)
        status =
            fli_measure_new(run->ctx, run->exec, p->model, p->fed, &p->settings.metrics, &p->ask_params, &run->measure);
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
    if (!s) s = fli_ranks_agree(cfg->ctx, &cfg->ranks, set_up(run));
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
    fli_free(run->peek_buffer);
    fli_free(run->cohort);
    fli_free(run->asks);
    fli_free(run->durations);
    fli_free(run->times_spent);
    fli_free(run->rows);
    fli_free(run->target_round);
    fli_folder_unlock(run);
    fli_free(run->checkpoints);
    fli_free(run->command);
    fli_free(run);
}

void fl_run_stop(fl_run *run) { run->stop_requested = 1; }

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
    const void *x = fli_server_state_vectors(fli_exec_server_state(run->exec))[0];
    run->counts.round = (double)run->round;
    fl_status s = fli_measure_take(run->measure, x, &run->counts, &run->now);
    if (s) return s;
    if (run->row_count == run->row_capacity) {
        size_t more = run->row_capacity ? 2 * run->row_capacity : 64;
        if ((s = fli_grow(run->ctx, (void **)&run->rows, run->row_count, more, sizeof *run->rows))) return s;
        run->row_capacity = more;
    }
    potential_note(run, kept ? &run->rows[kept - 1] : NULL);
    run->row_count = kept;
    run->rows[run->row_count++] = run->now;
    run->arrived = run->ages = run->oldest = 0;
    if ((s = check_loss(run))) return s;
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
    size_t uploads, missed = fli_server_state_missed(fli_exec_server_state(run->exec), &uploads);
    if (missed)
        fli_log(run->ctx, FL_LOG_WARNING,
                "%zu of %zu local problems were not solved to their accuracy: the solver ran out of steps "
                "(algorithm.most_steps) or of digits",
                missed, uploads);
}

/* ---- going forward ------------------------------------------------------------------------------------- */

/* Where ranks make the run together, all of them stop if one is asked to, and all go by the clock of the first. */
static fl_status agree_on_stop(fl_run *run)
{
    const fl_ranks *ranks = &run->plan.ranks;
    double most[] = {run->stop_requested, fli_ranks_first(ranks) ? run->counts.seconds : 0};
    fl_status s = fli_ranks_most(run->ctx, ranks, most, 2);
    run->stop_agreed = most[0] > 0;
    run->counts.seconds = most[1];
    return s;
}

/* After a round: whether the run ends here, a checkpoint, a row of metrics, the observer. *asked: a stop was
 * requested. */
static fl_status complete_round_once(fl_run *run, fl_observer_fn *observer, void *arg, int *asked)
{
    size_t every = (size_t)run->plan.settings.metrics.every;
    fl_status s = agree_on_stop(run);
    if (s) return s;
    int before = run->stop_agreed;
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
    if ((s = agree_on_stop(run))) return s;
    *asked = run->stop_agreed; /* by the observer, or while measuring */
    if (stop == FL_STOP_NONE && *asked && due) run->stopped = FL_STOP_ASKED;
    return FL_OK;
}

/* The end of a run, once. */
static fl_status finish(fl_run *run)
{
    size_t every = (size_t)run->plan.settings.metrics.every;
    report_missed(run);
    potential_report(run);
    fl_status s = report_state(run);
    if (s) return s;
    fli_idle_report(run);
    /* asked to stop by the observer: this round's row is taken, and will be taken again */
    return run->stopped == FL_STOP_ASKED && run->round % every == 0 ? fli_checkpoint_due(run, 1) : FL_OK;
}

/* A stop that is asked for where no row was due is looked at again, with a row. */
static fl_status complete_round(fl_run *run, fl_observer_fn *observer, void *arg)
{
    int asked = 0;
    fl_status s = complete_round_once(run, observer, arg, &asked);
    if (!s && run->stopped == FL_STOP_NONE && asked) s = complete_round_once(run, observer, arg, &asked);
    return s || run->stopped == FL_STOP_NONE ? s : finish(run);
}

/* What comes before the first round, and after a checkpoint. */
static fl_status begin_run(fl_run *run, fl_observer_fn *observer, void *arg)
{
    fl_status s = run->plan.settings.top.checkpoint_every ? fli_checkpoint_prepare(run) : FL_OK;
    if (s || run->started) return s;
    run->started = 1;
    if (!run->warm_up_done && fli_exec_warms_up(run->exec)) {
        fli_idle_begin(run);
        s = fli_rounds_warm_up(run);
        fli_idle_end(run);
    }
    run->warm_up_done = !s;
    if (!s) s = potential_begin(run);
    if (!s) s = gap_begin(run);
    return s ? s : complete_round(run, observer, arg);
}

/* A round, unless a stop was requested. */
static fl_status next_round(fl_run *run, fl_observer_fn *observer, void *arg)
{
    int asked = fli_ranked(&run->plan.ranks) ? run->stop_agreed : run->stop_requested;
    fl_status s = FL_OK;
    if (!asked) {
        fli_idle_begin(run);
        s = run->async ? fli_arrivals_next(run) : fli_rounds_next(run);
        fli_idle_end(run);
    }
    return s ? s : complete_round(run, observer, arg);
}

/* At most `most` rounds. What fails within leaves a run that cannot go on. */
static fl_status run_rounds(fl_run *run, size_t most, fl_observer_fn *observer, void *arg)
{
    fli_clear(run->ctx);
    if (run->failed)
        return fli_fail(run->ctx, run->failed, "the run has failed in round %zu, and cannot go on", run->round + 1);
    fl_status s = begin_run(run, observer, arg);
    while (!s && most-- && run->stopped == FL_STOP_NONE) s = next_round(run, observer, arg);
    if (run->started) run->failed = s;
    if (s != FL_EDIVERGED) return s;
    s = fli_result_keep_metrics(run, explain_divergence(run)); /* which is rank 0's business, and all say the same */
    return fli_ranks_agree(run->ctx, &run->plan.ranks, s);
}

fl_status fl_run_go(fl_run *run, fl_observer_fn *observer, void *arg)
{
    return run_rounds(run, SIZE_MAX, observer, arg);
}

fl_status fl_run_step(fl_run *run, int *more)
{
    fl_status s = run_rounds(run, 1, NULL, NULL);
    if (more) *more = !s && run->stopped == FL_STOP_NONE;
    return s;
}
