/* The heart: pick the cohort -> broadcast -> execute -> absorb -> advance -> metrics row -> observers -> stop test. */
#include "run/run.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>

/* ---- life ---------------------------------------------------------------------------------------------- */

static fl_status start(fl_run *run)
{
    fli_plan *p = &run->plan;
    const fli_settings *s = &p->settings;
    size_t largest, targets = s->metrics.targets.n;
    fl_status status = fli_plan_finish(p);
    if (status) return status;
    fli_exec_spec spec = {
        .model = p->model,
        .fed = p->fed,
        .algo = p->algo,
        .params = s->algorithm.params,
        .uniform = p->uniform,
        .regularizer = p->regularizer,
        .regularizer_params = s->regularizer.params,
        .seed = (uint64_t)s->top.seed,
        .sgd = fli_settings_sgd(s),
        .threads = (size_t)s->top.threads,
    };
    if ((status = fli_exec_new(run->ctx, &spec, &run->exec)) ||
        (status = fli_measure_new(run->ctx, run->exec, p->model, p->fed, &s->metrics, &run->measure)))
        return status;
    largest = fli_exec_warms_up(run->exec) ? p->fed->clients : p->participation->largest;
    run->cohort = fli_alloc(run->ctx, largest, sizeof *run->cohort);
    run->steps = fli_alloc(run->ctx, largest, sizeof *run->steps);
    run->lrs = fli_alloc(run->ctx, largest, sizeof *run->lrs);
    run->probabilities = fli_alloc(run->ctx, largest, sizeof *run->probabilities);
    run->target_round = fli_alloc(run->ctx, targets, sizeof *run->target_round);
    if (!run->cohort || !run->steps || !run->lrs || !run->probabilities || !run->target_round) return FL_ENOMEM;
    for (size_t i = 0; i < targets; i++) run->target_round[i] = SIZE_MAX;
    run->news = 1;
    return fli_model_start(run->ctx, p->model, spec.seed, fli_exec_server(run->exec)[0]);
}

fl_status fl_run_new(fl_config *cfg, fl_run **out) { return fli_run_new(cfg, NULL, out); }

fl_status fli_run_new(fl_config *cfg, const fli_plan *data, fl_run **out)
{
    fli_clear(cfg->ctx);
    fl_run *run = fli_alloc(cfg->ctx, 1, sizeof *run);
    if (!run) return FL_ENOMEM;
    run->ctx = cfg->ctx;
    fl_status s = fli_plan_data(cfg, data, &run->plan);
    if (!s) s = start(run);
    if (s)
        fl_run_free(run);
    else
        *out = run;
    return s;
}

void fl_run_free(fl_run *run)
{
    if (!run) return;
    fli_result_discard(run);
    fli_measure_free(run->measure);
    fli_exec_free(run->exec);
    fli_plan_fini(&run->plan);
    fli_free(run->cohort);
    fli_free(run->steps);
    fli_free(run->lrs);
    fli_free(run->probabilities);
    fli_free(run->rows);
    fli_free(run->target_round);
    fli_free(run);
}

void fl_run_stop(fl_run *run) { run->asked = 1; }

/* ---- one round ----------------------------------------------------------------------------------------- */

static int exchanges(const fl_run *run)
{
    const fli_algo *a = run->plan.algo;
    fli_rng rng;
    if (!a->exchanges) return 1;
    fli_rng_init(&rng, (uint64_t)run->plan.settings.top.seed, FLI_RNG_ALGO, (uint32_t)run->round, 0);
    return a->exchanges(run->plan.settings.algorithm.params, fli_rng_uniform(&rng));
}

static void count(fl_run *run, const fli_round *r, double seconds)
{
    const fli_algo *a = run->plan.algo;
    double vector = (double)fli_bytes(&run->plan.model->space), m = (double)r->count;
    if (r->exchange)
        run->now.bytes_up += m * ((double)fli_names_count(a->up) * vector + (double)(a->up_scalars * sizeof(double)));
    if (r->news) run->now.bytes_down += m * (double)a->down * vector;
    for (size_t i = 0; i < r->count; i++) run->now.local_steps += (double)r->steps[i];
    run->now.seconds += seconds;
    run->now.cohort = r->count;
}

/* Fills what a round asks of the m clients in run->cohort. */
static fli_round ask(fl_run *run, size_t m)
{
    const fli_plan *p = &run->plan;
    const fli_local_settings *local = &p->settings.local;
    uint64_t seed = (uint64_t)p->settings.top.seed;
    fli_sgd_spec sgd = fli_settings_sgd(&p->settings);
    double lr = fli_schedule_lr(local, run->round);
    for (size_t i = 0; i < m; i++) {
        size_t per_epoch = fli_epoch_steps(&sgd, fli_fed_size(p->fed, run->cohort[i]));
        run->steps[i] = fli_effort_steps(&local->effort, seed, run->round, run->cohort[i], per_epoch);
        run->lrs[i] = lr * fli_reals_at(&local->lr_factors, run->cohort[i]);
        run->probabilities[i] = fli_participation_probability(p->participation, run->cohort[i]);
    }
    return (fli_round){
        .round = run->round,
        .clients = run->cohort,
        .steps = run->steps,
        .count = m,
        .lr = lr,
        .lrs = run->lrs,
        .probabilities = run->probabilities,
        .news = run->news,
        .exchange = 1,
    };
}

/* The turns that some methods ask of everyone before the first round. */
static fl_status warm_up(fl_run *run)
{
    double begin = fli_clock_now();
    size_t n = run->plan.fed->clients;
    for (size_t i = 0; i < n; i++) run->cohort[i] = (uint32_t)i;
    fli_round r = ask(run, n);
    fl_status s = fli_exec_warm_up(run->exec, &r);
    if (!s) count(run, &r, fli_clock_now() - begin);
    return s;
}

static fl_status one_round(fl_run *run)
{
    double begin = fli_clock_now();
    size_t m =
        fli_participation_pick(run->plan.participation, (uint64_t)run->plan.settings.top.seed, run->round, run->cohort);
    fli_round r = ask(run, m);
    r.exchange = exchanges(run);
    fl_status s = fli_exec_round(run->exec, &r);
    if (s) return s;
    count(run, &r, fli_clock_now() - begin);
    run->news = r.exchange;
    run->round++;
    return FL_OK;
}

/* ---- measuring and stopping ---------------------------------------------------------------------------- */

static fl_status measure(fl_run *run)
{
    const fli_reals *targets = &run->plan.settings.metrics.targets;
    run->now.round = run->round;
    run->now.regularizer = run->plan.regularizer ? fli_exec_regularizer(run->exec) : NAN;
    fl_status s = fli_measure_take(run->measure, fli_exec_server(run->exec)[0], &run->now);
    if (s) return s;
    if (run->row_count == run->row_capacity) {
        size_t more = run->row_capacity ? 2 * run->row_capacity : 64;
        if ((s = fli_grow(run->ctx, (void **)&run->rows, run->row_count, more, sizeof *run->rows))) return s;
        run->row_capacity = more;
    }
    run->rows[run->row_count++] = run->now;
    for (size_t i = 0; i < targets->n; i++)
        if (run->target_round[i] == SIZE_MAX && run->now.test_accuracy >= targets->v[i])
            run->target_round[i] = run->round;
    return FL_OK;
}

/* Rules that can be judged after any round. */
static fl_stop stop_now(const fl_run *run)
{
    const fli_stop_settings *stop = &run->plan.settings.stop;
    if (run->asked) return FL_STOP_ASKED;
    if (stop->seconds > 0 && run->now.seconds >= stop->seconds) return FL_STOP_TIME;
    if (run->round >= (size_t)run->plan.settings.top.rounds) return FL_STOP_ROUNDS;
    return FL_STOP_NONE;
}

/* Rules that need fresh metrics. */
static fl_stop stop_measured(const fl_run *run)
{
    const fli_stop_settings *stop = &run->plan.settings.stop;
    if (stop->target > 0 && run->now.test_accuracy >= stop->target) return FL_STOP_TARGET;
    if (stop->gradient2 > 0 && run->now.gradient2 <= stop->gradient2) return FL_STOP_GRADIENT;
    return FL_STOP_NONE;
}

fl_status fl_run_go(fl_run *run, fl_observer_fn *observer, void *arg)
{
    size_t every = (size_t)run->plan.settings.metrics.every;
    fli_clear(run->ctx);
    if (!run->warm && fli_exec_warms_up(run->exec)) {
        fl_status s = warm_up(run);
        if (s) return s;
    }
    run->warm = 1;
    while (run->stopped == FL_STOP_NONE) {
        fl_stop stop = stop_now(run);
        int due = stop != FL_STOP_NONE || run->round % every == 0;
        fl_status s = due ? measure(run) : FL_OK;
        if (s) return s;
        if (due && stop_measured(run) != FL_STOP_NONE) stop = stop_measured(run);
        run->now.round = run->round;
        run->stopped = stop;
        if (observer) observer(arg, run, &run->now, due);
        int asked = run->asked; /* by the observer, or while measuring: no further round begins */
        if (stop == FL_STOP_NONE && asked && due) run->stopped = FL_STOP_ASKED;
        if (stop == FL_STOP_NONE && !asked && (s = one_round(run))) return s;
    }
    return FL_OK;
}

/* ---- looking at a run ---------------------------------------------------------------------------------- */

const char *fl_run_name(const fl_run *run) { return run->plan.settings.top.name; }
const char *fl_run_output(const fl_run *run) { return run->plan.settings.top.output; }
const char *fl_run_algorithm(const fl_run *run) { return run->plan.algo->name; }
size_t fl_run_rounds(const fl_run *run) { return (size_t)run->plan.settings.top.rounds; }
size_t fl_run_clients(const fl_run *run) { return run->plan.fed->clients; }
size_t fl_run_parameters(const fl_run *run) { return run->plan.model->space.n; }
fl_stop fl_run_stopped_by(const fl_run *run) { return run->stopped; }

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

size_t fl_run_model(const fl_run *run, double *out, size_t capacity)
{
    const fli_space *s = &run->plan.model->space;
    size_t n = s->n < capacity ? s->n : capacity;
    if (out) s->ops->to_f64(n, fli_exec_server(run->exec)[0], out);
    return s->n;
}
