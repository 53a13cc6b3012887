/* How a run goes forward: a round, or for asynchronous methods a server step -> metrics row -> observers -> stop test.
 *
 * A round: pick the cohort -> broadcast -> execute -> absorb -> advance, on a virtual clock. A round lasts as long as
 * its slowest client; with a deadline, or when the server waits only for the fastest, late clients are dropped. A
 * dropped client has received the model, but its work and its state do not count, as if it had not been invited. */
#include "base/os.h"
#include "metric/metric.h"
#include "plan/constants.h"
#include "run/output.h"
#include "run/state.h"
#include "solver/curvature.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

fl_status fli_rounds_prepare(fl_run *run)
{
    const fli_plan *p = &run->plan;
    size_t largest = fli_exec_warms_up(run->exec) ? p->fed->clients : p->participation->largest;
    run->under_way.cohort = fli_alloc(run->ctx, largest, sizeof *run->under_way.cohort);
    run->under_way.asks = fli_alloc(run->ctx, largest, sizeof *run->under_way.asks);
    run->under_way.durations = fli_alloc(run->ctx, 2 * largest, sizeof *run->under_way.durations);
    if (!run->under_way.cohort || !run->under_way.asks || !run->under_way.durations) return FL_ENOMEM;
    run->broadcast_is_new = 1;
    if (!p->system) run->counts.simulated_seconds = NAN;
    return FL_OK;
}

static double seconds_of(const fl_run *run, const fl_ask *set_asks)
{
    fli_card card = fli_exec_card(run->exec, set_asks->client);
    return fli_ask_seconds(&run->plan.ask_params, &card, set_asks);
}

/* Whether clients outside the cohort take a turn as well. */
static int bystanders(const fl_run *run) { return (run->plan.setup.algo->traits & FL_METHOD_BYSTANDERS) != 0; }

/* Number of exchanges between the round's cohort and the server; may be 0. */
static size_t exchanges(const fl_run *run)
{
    const fl_method *a = run->plan.setup.algo;
    const void *params = run->plan.setup.params;
    double coin = fli_ask_params_coin(&run->plan.ask_params, run->round);
    if (!fli_algo_exchanges(a, params, run->round, coin)) return 0;
    return fli_algo_phases(a, params, coin);
}

static fl_ask ask_client(const fl_run *run, uint32_t client)
{
    fli_card card = fli_exec_card(run->exec, client);
    return fli_ask_for(&run->plan.ask_params, &card, run->round, run->round, client);
}

/* Asks the m clients in run->under_way.cohort, in the phases of a round that are theirs. */
static void set_asks(fl_run *run, size_t m, fli_round *r)
{
    for (size_t i = 0; i < m; i++) run->under_way.asks[i] = ask_client(run, run->under_way.cohort[i]);
    r->round = run->round;
    r->asks = run->under_way.asks;
    r->count = m;
}

/* With bystanders: the longest turn of all clients, computed from what each would be asked. */
static double time_everybody(const fl_run *run, const fli_round *r, size_t phase)
{
    double longest = 0;
    for (size_t i = 0; bystanders(run) && i < run->plan.fed->clients; i++) {
        fl_ask own = ask_client(run, (uint32_t)i), at = fli_round_ask(run->exec, r, &own, phase);
        longest = fmax(longest, seconds_of(run, &at));
    }
    return longest;
}

/* Computes the duration of each client's turn. Returns the round's duration: each of its phases waits for the slowest
 * client, bystanders included. NaN without a clock. */
static double time_turns(fl_run *run, const fli_round *r)
{
    double whole = 0;
    if (!run->plan.system) return NAN;
    for (size_t i = 0; i < r->count; i++) run->under_way.durations[i] = 0;
    for (size_t phase = r->from; phase < r->until; phase++) {
        double longest = time_everybody(run, r, phase);
        for (size_t i = 0; i < r->count; i++) {
            fl_ask at = fli_round_ask(run->exec, r, &r->asks[i], phase);
            double d = seconds_of(run, &at);
            run->under_way.durations[i] += d;
            longest = fmax(longest, d);
        }
        whole += longest;
    }
    return whole;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The duration of the `wanted`-th fastest, and how many that take exactly as long are wanted. */
static double cut_after(fl_run *run, const fli_round *r, size_t wanted, size_t *ties)
{
    double *sorted = run->under_way.durations + r->count;
    memcpy(sorted, run->under_way.durations, r->count * sizeof *sorted);
    qsort(sorted, r->count, sizeof *sorted, ascending);
    double cut = sorted[wanted - 1];
    for (*ties = 0; *ties < wanted && sorted[wanted - 1 - *ties] == cut;) ++*ties;
    return cut;
}

/* Bytes sent to a client of the round that is then dropped. */
static double sent_to(const fl_run *run, const fli_round *r, const fl_ask *own)
{
    double sum = 0;
    for (size_t phase = r->from; phase < r->until; phase++) {
        fl_ask at = fli_round_ask(run->exec, r, own, phase);
        sum += (double)fli_exec_bytes_down(run->exec, &at);
    }
    return sum;
}

/* Drops late clients and returns the round's duration. Among equally fast clients the first in the cohort stay. *lost:
 * bytes sent to dropped clients. */
static double drop_late(fl_run *run, fli_round *r, double *lost)
{
    const fli_system_common *c = &run->plan.settings->system;
    size_t wanted = (size_t)fmax(1, ceil(c->wait_for * (double)r->count - 1e-9)), kept = 0, ties = r->count;
    double deadline = c->deadline > 0 ? c->deadline : INFINITY, cut = time_turns(run, r);
    *lost = 0;
    if (isnan(cut)) return cut;
    if (wanted < r->count) cut = cut_after(run, r, wanted, &ties);
    for (size_t i = 0; i < r->count; i++) {
        double d = run->under_way.durations[i];
        int behind = d > cut || (d == cut && !ties);
        if (d == cut && ties) ties--;
        if (behind || d > deadline)
            *lost += sent_to(run, r, &run->under_way.asks[i]);
        else
            run->under_way.asks[kept++] = run->under_way.asks[i];
    }
    r->count = kept;
    return fmin(cut, deadline);
}

static void count_round(fl_run *run, const fli_round *r, double simulated, double seconds)
{
    fli_spent spent = fli_exec_spent(run->exec);
    if (r->flags & FLI_ASK_REPLY) run->counts.communications += (double)(r->until - r->from);
    run->counts.bytes_down += spent.down;
    run->counts.bytes_up += spent.up;
    run->counts.local_steps += spent.steps;
    run->counts.simulated_seconds += simulated;
    run->counts.seconds += seconds;
    run->counts.cohort = (double)spent.came;
}

static fl_status warm_up(fl_run *run)
{
    double begin = fli_clock_now();
    size_t n = run->plan.fed->clients;
    for (size_t i = 0; i < n; i++) run->under_way.cohort[i] = (uint32_t)i;
    fli_round r = {.flags = FLI_ASK_HAS_BODY | FLI_ASK_REPLY, .warm_up = 1, .phases = 1, .until = 1};
    set_asks(run, n, &r);
    double simulated = time_turns(run, &r);
    fl_status s = fli_exec_round(run->exec, &r);
    if (!s) count_round(run, &r, simulated, fli_clock_now() - begin);
    if (!s && run->async && !isnan(simulated)) fli_async_begin_at(run->async, simulated);
    return s;
}

/* The first round without clients is logged; how many there were is logged when the run ends. */
static void note_empty(fl_run *run, size_t invited, size_t came)
{
    if (came) run->empty.in_a_row = 0;
    if (came || bystanders(run)) return;
    run->empty.in_a_row++;
    if (!run->empty.count++)
        fli_log(run->ctx, FL_LOG_WARNING,
                "round %zu: %s, so the model does not change; the end of the run says how often", run->round + 1,
                invited ? "no client answers in time" : "no client takes part");
}

/* Fails if the last rounds were empty. Clients in other programs may all be disconnected, or unable to continue:
 * without this, the run would end with an old model and report success. A last round to which chance invites no client
 * is no failure: a restarted server would draw it again. */
static fl_status check_empty(const fl_run *run, size_t invited)
{
    enum { MOST = 10 };
    size_t rounds = (size_t)run->plan.settings->top.rounds, most = rounds < MOST ? rounds : MOST;
    if (!run->plan.setup.remote_queue || !run->empty.in_a_row) return FL_OK;
    if (invited && run->round == rounds)
        return fli_fail(run->ctx, FL_EIO,
                        "round %zu: no answer has come that counts, and it is the last one, so the run does not end",
                        run->round);
    if (run->empty.in_a_row < most) return FL_OK;
    return fli_fail(run->ctx, FL_EIO,
                    "round %zu: in %zu rounds in a row no answer has come that counts, so the run does not go on",
                    run->round, run->empty.in_a_row);
}

/* The seed of cohorts. */
static uint64_t cohort_seed(const fli_settings *s)
{
    return (uint64_t)(s->participation.seed ? s->participation.seed : s->top.seed);
}

/* The seed of the cohort that begins at this phase. */
static uint64_t seed_of(const fl_run *run, size_t phase)
{
    uint64_t seed = cohort_seed(run->plan.settings);
    fli_rng rng;
    if (!phase) return seed;
    fli_rng_init(&rng, seed, FLI_RNG_ALGO, (uint32_t)phase, 2);
    return fli_rng_u64(&rng);
}

/* Runs the exchanges of a round with one cohort, from r->from on (for most methods, all of them). Adds the number of
 * clients asked to *invited, and the number that answered to *came. */
static fl_status run_cohort(fl_run *run, fli_round *r, size_t *invited, size_t *came)
{
    double begin = fli_clock_now(), lost;
    const fli_plan *p = &run->plan;
    size_t m = fli_participation_pick(p->participation, seed_of(run, r->from), run->round, run->under_way.cohort);
    r->until = fli_algo_cohort_end(p->setup.algo, p->setup.params, r->from, r->phases);
    set_asks(run, m, r);
    double simulated = drop_late(run, r, &lost);
    fl_status s = fli_exec_round(run->exec, r);
    if (s) return s;
    run->counts.bytes_down += lost;
    count_round(run, r, simulated, fli_clock_now() - begin);
    *invited += m;
    *came += fli_exec_spent(run->exec).came;
    return FL_OK;
}

static fl_status run_round(fl_run *run)
{
    size_t meetings = exchanges(run), invited = 0, came = 0;
    fl_status s = FL_OK;
    fli_round r = {.flags = (run->broadcast_is_new ? FLI_ASK_HAS_BODY : 0) | (meetings ? FLI_ASK_REPLY : 0),
                   .phases = meetings ? meetings : 1};
    for (; !s && r.from < r.phases; r.from = r.until) s = run_cohort(run, &r, &invited, &came);
    if (s) return s;
    /* clients of methods that need everyone keep the model: what has not changed is not sent again */
    run->broadcast_is_new = meetings > 0 || !(run->plan.setup.algo->traits & FL_METHOD_EVERYONE);
    note_empty(run, invited, came);
    run->round++;
    return check_empty(run, invited);
}

/* ==== asynchronous methods: from one upload to the next ===================================================== */

/* A server step takes the place of a round. */

/* fli_async_spec.ask */
static void ask_next(void *arg, fl_ask *out)
{
    const fl_run *run = arg;
    fli_card card = fli_exec_card(run->exec, out->client);
    fl_ask own = fli_ask_for(&run->plan.ask_params, &card, (size_t)out->round, (size_t)out->stream, out->client);
    out->steps = own.steps;
    out->lr = own.lr;
    out->probability = own.probability;
}

/* fli_async_spec.duration */
static double duration(void *arg, const fl_ask *what)
{
    const fl_run *run = arg;
    fli_card card = fli_exec_card(run->exec, what->client);
    return fli_ask_seconds(&run->plan.ask_params, &card, what);
}

/* fli_async_spec.save */
static fl_status save(void *arg) { return fl_run_checkpoint(arg); }

fl_status fli_arrivals_prepare(fl_run *run)
{
    const fli_plan *p = &run->plan;
    fli_async_spec spec = {
        .exec = run->exec,
        .pace = p->pace,
        .clients = p->fed->clients,
        .at_work = p->at_work,
        .seed = cohort_seed(p->settings),
        .real = p->settings->top.clock == FLI_CLOCK_REAL,
        .ask = ask_next,
        .duration = duration,
        .save = p->setup.remote_queue && p->settings->top.checkpoint_every ? save : NULL,
        .arg = run,
    };
    if (spec.real) run->counts.simulated_seconds = NAN;
    fl_status s = fli_async_new(run->ctx, &spec, &run->async);
    fli_measure_follow(run->measure, run->async);
    return s;
}

static void count_arrivals(fl_run *run, double seconds)
{
    const fli_plan *p = &run->plan;
    fli_async_count c = fli_async_count_take(run->async);
    run->counts.bytes_down += c.down;
    run->counts.bytes_up += c.up;
    run->counts.local_steps += c.steps;
    run->counts.seconds += seconds;
    if (p->settings->top.clock == FLI_CLOCK_VIRTUAL) run->counts.simulated_seconds = fli_async_clock(run->async);
    run->arrivals.count += (double)c.arrived;
    run->arrivals.ages += c.staleness;
    run->arrivals.oldest = fmax(run->arrivals.oldest, (double)c.staleness_max);
    run->counts.staleness = run->arrivals.count > 0 ? run->arrivals.ages / run->arrivals.count : NAN;
    run->counts.staleness_max = run->arrivals.count > 0 ? run->arrivals.oldest : NAN;
}

/* One server step. */
static fl_status run_arrivals(fl_run *run)
{
    double begin = fli_clock_now();
    const fli_settings *s = run->plan.settings;
    int real = s->top.clock == FLI_CLOCK_REAL;
    if (s->stop.seconds > 0) fli_async_limit(run->async, begin + s->stop.seconds - run->counts.seconds);
    /* Checkpoints are made between server steps, so that a resumed run measures what this one would have measured. */
    static const atomic_int never = 0;
    int whole = !real && (s->top.checkpoint_every || fli_ranked(&run->plan.ranks)); /* ranks have to stop together */
    fl_status status = fli_async_run(run->async, run->round + 1, whole ? &never : &run->stop.requested);
    if (status) return status;
    count_arrivals(run, fli_clock_now() - begin);
    size_t before = run->round;
    run->round = fli_async_steps(run->async);
    run->counts.cohort = run->round > before ? (double)run->plan.pace.buffer : 0;
    run->counts.communications += (double)(run->round - before);
    return FL_OK;
}

/* ==== divergence ============================================================================================ */

enum { FAR = 10 }; /* times the start: a warning */

/* The loss to watch: the training loss if it is measured. */
static double watched_loss(const fl_run *run, const fl_row *row)
{
    return fli_row_get(row, run->plan.settings->metrics.train ? &fli_metric_train_loss : &fli_metric_test_loss);
}

static fl_status diverged(fl_run *run, double loss, double start)
{
    const fl_method *a = run->plan.setup.algo;
    const char *which = run->plan.settings->metrics.train ? "training" : "test";
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
                    run->plan.settings->stop.diverged);
}

/* Warns once when the loss is FAR times its start, and fails with FL_EDIVERGED beyond stop.diverged. With a loss of 0
 * at the start, only numbers that are not finite end the run. */
static fl_status check_loss(fl_run *run)
{
    double most = run->plan.settings->stop.diverged, loss = watched_loss(run, &run->now);
    double start = watched_loss(run, &run->rows.at[0]);
    if (!fli_measure_heard(run->measure)) return FL_OK;
    if (run->plan.setup.regularizer && run->rows.count > 1) /* the start may violate a constraint */
        start = fmax(start, watched_loss(run, &run->rows.at[1]));
    int measured = run->plan.settings->metrics.train || (run->rows.count > 1 && !isnan(start));
    if (isinf(loss) || (isnan(loss) && measured)) return diverged(run, loss, start);
    if (!(start > 0)) return FL_OK;
    if (most > 0 && loss > most * start) return diverged(run, loss, start);
    if (!(loss > FAR * start)) return FL_OK;
    if (!run->loss_warned)
        fli_log(run->ctx, FL_LOG_WARNING, "round %zu: the loss is %.4g, %.3g times what it began with; %s may need %s",
                run->round, loss, loss / start, run->plan.setup.algo->name, fli_algo_remedy(run->plan.setup.algo));
    run->loss_warned = 1;
    return FL_OK;
}

/* No step size suits features of very different scales: then the error says so, instead of blaming the method. */
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

/* What theory says about a run: whether its potential rises although it should not, and the largest L_i, which
 * optimality gaps need. Both are determined once, when a run begins, with the constants that `fedloom check`
 * measures. */

/* Only constants that hold for every model and every client make a promise; a curvature measured at the start does
 * not. */
static int falls_surely(const fli_plan *p, const fli_measured *facts)
{
    fl_conditions found = {.count = 0};
    int falls = facts->measured == p->fed->clients;
    for (size_t i = 0; i < facts->measured; i++) {
        falls &= facts->client[i].bounded;
        fli_ask_theory(p, p->setup.algo->theory.potential.falls, &facts->client[i], &found);
    }
    fli_algo_enter(p->setup.algo);
    if (p->setup.algo->theory.check_all) p->setup.algo->theory.check_all(p->setup.params, &facts->all, &found);
    fli_algo_leave(p->setup.algo);
    for (size_t i = 0; i < found.count; i++) falls &= !fli_condition_fails(&found.seen[i]);
    return falls && !found.full;
}

/* Whether theory promises that the method's potential never rises: all its conditions hold at all clients, with
 * constants that hold for every model. */
static fl_status potential_falls(const fli_plan *p, int *falls)
{
    fli_measured facts;
    *falls = 0;
    if (!p->setup.algo->theory.potential.falls || !p->model->desc->hvp || !fli_bounded(p->model)) return FL_OK;
    fl_status s = fli_measure_facts(p->ctx, p, 1, &facts);
    if (!s) *falls = falls_surely(p, &facts);
    fli_measured_free(&facts);
    return s;
}

/* Before the first measurement: does theory promise that the potential never rises? */
static fl_status potential_begin(fl_run *run)
{
    int falls = 0, all = (size_t)run->plan.settings->metrics.max_clients >= run->plan.fed->clients;
    if (run->plan.setup.remote_queue)
        return FL_OK; /* measuring constants needs the samples, which are at the clients */
    if (!run->plan.setup.measure_potential || !all || !isnan(run->counts.potential_rise)) return FL_OK;
    fl_status s = potential_falls(&run->plan, &falls);
    if (!s && falls) run->counts.potential_rise = 0;
    return s;
}

/* The rounding error of sums over samples, from the size of the largest terms. */
static double rounding(const fl_run *run, double scale)
{
    static const double digits[] = {
        [FLI_PRECISION_F32] = 2e-5, [FLI_PRECISION_F64] = 1e-11, [FLI_PRECISION_TF32] = 5e-3};
    return digits[run->plan.settings->top.precision] * scale;
}

/* Compares a new row with the one before it, if any. */
static void potential_note(fl_run *run, const fl_row *before)
{
    const fli_metric *m = &fli_metric_potential;
    size_t after = run->plan.setup.algo->theory.potential.after;
    if (isnan(run->counts.potential_rise)) return;
    run->counts.potential_rise = before ? fli_row_get(before, &fli_metric_potential_rise) : 0;
    if (before && fl_row_round(before) >= after) {
        double now = fli_row_get(&run->now, m), last = fli_row_get(before, m);
        double scale = fmax(fmax(fabs(now), fabs(last)), fabs(fli_row_get(&run->rows.at[0], m)));
        if (now - last > rounding(run, scale))
            run->counts.potential_rise = fmax(run->counts.potential_rise, now - last);
    }
    fli_row_count(&run->now, &run->counts);
}

/* Warns at the end of a run if the potential rose although theory promises that it does not. */
static void potential_report(const fl_run *run)
{
    size_t i = 0;
    while (i < run->rows.count && !(fli_row_get(&run->rows.at[i], &fli_metric_potential_rise) > 0)) i++;
    if (i == run->rows.count) return;
    fli_log(run->ctx, FL_LOG_WARNING,
            "the potential, %s, first rose in round %zu, and by %.3g at most, although theory promises that it never "
            "does with these settings and the constants that `fedloom check` measures",
            run->plan.setup.algo->theory.potential.name, fl_row_round(&run->rows.at[i]), run->counts.potential_rise);
}

/* Before the first measurement: the server's constant in the method's optimality gap (metric/global_rows.c). */
static fl_status gap_begin(fl_run *run)
{
    double smoothness = NAN;
    if (run->plan.setup.remote_queue || !fli_plan_needs_smoothness(&run->plan))
        return FL_OK; /* samples are at the clients, or not needed */
    fl_status s = fli_theory_smoothness(&run->plan, 1, &smoothness);
    fli_measure_smooth(run->measure, smoothness);
    return s;
}

/* ==== waiting ranks ========================================================================================= */

/* How much of a run's time its ranks wait for each other: the columns `idle` and `idle_most`, and ranks.csv. A single
 * process has none of these. */

static void idle_begin(fl_run *run)
{
    run->rank_times.own.seconds -= fli_clock_now();
    run->rank_times.own.waited -= run->plan.timed_ranks.seconds;
}

/* Call these before and after the run goes forward. */
static void idle_end(fl_run *run)
{
    run->rank_times.own.seconds += fli_clock_now();
    run->rank_times.own.waited += run->plan.timed_ranks.seconds;
}

static double idle_share(const fli_time_spent *s) { return s->seconds > 0 ? s->waited / s->seconds : 0; }

/* Gathers this rank's times with those of all ranks. */
static fl_status gather(fl_run *run, fli_time_spent *all)
{
    const fl_ranks *r = &run->plan.ranks;
    size_t *at = fli_alloc(run->ctx, r->count + 1, sizeof *at);
    if (!at) return FL_ENOMEM;
    for (uint32_t i = 0; i <= r->count; i++) at[i] = i * sizeof *all;
    all[r->rank] = run->rank_times.own;
    fl_status s = fli_ranks_gather(run->ctx, r, all, at);
    fli_free(at);
    return s;
}

/* On every rank, before a row, whose columns cover the time since the last row. */
static fl_status idle_take(fl_run *run)
{
    const fl_ranks *r = &run->plan.ranks;
    if (!fli_ranked(r)) return FL_OK;
    if (!run->rank_times.of && !(run->rank_times.of = fli_alloc(run->ctx, r->count, sizeof *run->rank_times.of)))
        return FL_ENOMEM;
    fli_time_spent *now = fli_alloc(run->ctx, r->count, sizeof *now);
    fl_status s = now ? gather(run, now) : FL_ENOMEM;
    double sum = 0, most = 0, passed = 0;
    for (uint32_t i = 0; !s && i < r->count; i++) {
        sum += idle_share(&now[i]);
        most = fmax(most, idle_share(&now[i]));
        passed += now[i].seconds;
        run->rank_times.of[i].seconds += now[i].seconds;
        run->rank_times.of[i].waited += now[i].waited;
    }
    run->counts.idle = passed > 0 ? sum / r->count : NAN;
    run->counts.idle_most = passed > 0 ? most : NAN;
    run->rank_times.own = (fli_time_spent){0};
    fli_free(now);
    return s;
}

/* Logs the times at the end of a run. */
static void idle_report(const fl_run *run)
{
    uint32_t count = run->plan.ranks.count, worst = 0;
    double sum = 0;
    if (!run->rank_times.of) return;
    for (uint32_t i = 0; i < count; i++) {
        sum += idle_share(&run->rank_times.of[i]);
        if (idle_share(&run->rank_times.of[i]) > idle_share(&run->rank_times.of[worst])) worst = i;
    }
    fli_log(run->ctx, FL_LOG_INFO, "%u ranks: idle %.1f%% of the time, rank %u the most, %.1f%%", count,
            100 * sum / count, worst, 100 * idle_share(&run->rank_times.of[worst]));
}

/* ==== measuring and stopping ============================================================================= */

/* Whether the metric of targets has reached this value. */
static int reaches(const fl_run *run, double target)
{
    const fli_metric *goal = fli_metric_goal(&run->plan.settings->metrics);
    return fli_metric_reaches(goal, fli_row_get(&run->now, goal), target);
}

/* A round may be measured twice: an interrupted asynchronous run may have absorbed uploads since its last row without a
 * step, and a resumed run measures again what was measured before it stopped. The new row replaces the earlier one,
 * with the bytes of that measurement. Returns the number of rows that stay. */
static size_t rows_before(fl_run *run)
{
    size_t kept = run->rows.count;
    if (kept && fl_row_round(&run->rows.at[kept - 1]) == run->round) kept--;
    const fl_row *last = kept ? &run->rows.at[kept - 1] : NULL;
    run->counts.evaluation_up = last ? fli_row_get(last, &fli_metric_evaluation_bytes_up) : 0;
    run->counts.evaluation_down = last ? fli_row_get(last, &fli_metric_evaluation_bytes_down) : 0;
    return kept;
}

static fl_status measure(fl_run *run)
{
    const fl_reals *targets = &run->plan.settings->metrics.targets;
    size_t kept = rows_before(run);
    const void *x = fli_server_state_vectors(fli_exec_server_state(run->exec))[0];
    run->counts.round = (double)run->round;
    fl_status s = fli_measure_take(run->measure, x, &run->counts, &run->now);
    if (s) return s;
    if (run->rows.count == run->rows.capacity) {
        size_t more = run->rows.capacity ? 2 * run->rows.capacity : 64;
        if ((s = fli_grow(run->ctx, (void **)&run->rows.at, run->rows.count, more, sizeof *run->rows.at))) return s;
        run->rows.capacity = more;
    }
    potential_note(run, kept ? &run->rows.at[kept - 1] : NULL);
    run->rows.count = kept;
    run->rows.at[run->rows.count++] = run->now;
    run->arrivals.count = run->arrivals.ages = run->arrivals.oldest = 0;
    if ((s = check_loss(run))) return s;
    for (size_t i = 0; i < targets->n; i++)
        if (run->target_round[i] == SIZE_MAX && reaches(run, targets->v[i])) run->target_round[i] = run->round;
    return FL_OK;
}

/* Stop rules that need no metrics. */
static fl_stop stop_now(const fl_run *run, int asked)
{
    const fli_stop_settings *stop = &run->plan.settings->stop;
    if (asked) return FL_STOP_ASKED;
    if (stop->seconds > 0 && run->counts.seconds >= stop->seconds) return FL_STOP_TIME;
    if (stop->simulated > 0 && run->counts.simulated_seconds >= stop->simulated) return FL_STOP_TIME;
    if (run->round >= (size_t)run->plan.settings->top.rounds) return FL_STOP_ROUNDS;
    return FL_STOP_NONE;
}

/* Stop rules that need a new row of metrics. */
static fl_stop stop_measured(const fl_run *run)
{
    const fli_stop_settings *stop = &run->plan.settings->stop;
    if (stop->target > 0 && reaches(run, stop->target)) return FL_STOP_TARGET;
    double gradient2 = fli_row_get(&run->now, &fli_metric_gradient2);
    if (stop->gradient2 > 0 && fli_metric_reaches(&fli_metric_gradient2, gradient2, stop->gradient2))
        return FL_STOP_GRADIENT;
    double mapping = fli_row_get(&run->now, &fli_metric_gradient_mapping);
    if (stop->gradient_mapping > 0 && fli_metric_reaches(&fli_metric_gradient_mapping, mapping, stop->gradient_mapping))
        return FL_STOP_GRADIENT;
    return FL_STOP_NONE;
}

/* Logs how much client state did not fit into `memory`, summed over ranks. */
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
    if (run->empty.count)
        fli_log(run->ctx, FL_LOG_WARNING,
                "in %zu of %zu rounds no client took part or answered in time: the model did not change",
                run->empty.count, run->round);
    size_t uploads, missed = fli_server_state_missed(fli_exec_server_state(run->exec), &uploads);
    if (missed)
        fli_log(run->ctx, FL_LOG_WARNING,
                "%zu of %zu local problems were not solved to their accuracy: the solver ran out of steps "
                "(algorithm.most_steps) or of digits",
                missed, uploads);
}

/* ==== going forward ====================================================================================== */

/* Ranks stop together if one is asked to, and all use the clock of rank 0. */
static fl_status agree_on_stop(fl_run *run)
{
    const fl_ranks *ranks = &run->plan.ranks;
    double most[] = {run->stop.requested, fli_ranks_first(ranks) ? run->counts.seconds : 0};
    fl_status s = fli_ranks_most(run->ctx, ranks, most, 2);
    run->stop.agreed = most[0] > 0;
    run->counts.seconds = most[1];
    return s;
}

/* Whether a checkpoint is due at this round. Clients in other programs may have had a turn before the first round. */
static int is_due(const fl_run *run)
{
    return run->plan.setup.remote_queue ||
           (run->round && run->round % (size_t)run->plan.settings->top.checkpoint_every == 0);
}

/* Before a round: writes a checkpoint if one is due, or if a stop was requested. A full disk is logged; it ends the run
 * only if the clients are other programs, because these must not be ahead of the state to which the server can
 * return. */
static fl_status write_if_due(fl_run *run, int asked)
{
    const fli_top_settings *top = &run->plan.settings->top;
    int never = !top->checkpoint_every || run->checkpoints.round == run->round;
    if (never || run->round >= (size_t)top->rounds || !(asked || is_due(run))) return FL_OK;
    fl_status s = fl_run_checkpoint(run);
    if (s != FL_EIO || run->plan.setup.remote_queue) return s;
    fli_log(run->ctx, FL_LOG_WARNING, "no checkpoint after round %zu: %s", run->round, fl_ctx_error(run->ctx));
    fli_clear(run->ctx);
    return FL_OK;
}

/* After a round: stop rules, a checkpoint, a row of metrics, the observer. *asked: a stop was requested. */
static fl_status complete_round_once(fl_run *run, fl_observer_fn *observer, void *arg, int *asked)
{
    size_t every = (size_t)run->plan.settings->metrics.every;
    fl_status s = agree_on_stop(run);
    if (s) return s;
    int before = run->stop.agreed;
    fl_stop stop = stop_now(run, before);
    int due = stop != FL_STOP_NONE || run->round % every == 0;
    s = write_if_due(run, before); /* before a row that is written only because of the stop */
    if (!s && due) s = idle_take(run);
    if (!s && due) s = measure(run);
    if (s) return s;
    if (due && stop_measured(run) != FL_STOP_NONE) stop = stop_measured(run);
    run->counts.round = (double)run->round;
    fli_row_count(&run->now, &run->counts);
    run->stop.why = stop;
    if (observer) observer(arg, run, &run->now, due);
    if ((s = agree_on_stop(run))) return s;
    *asked = run->stop.agreed; /* requested by the observer, or while measuring */
    if (stop == FL_STOP_NONE && *asked && due) run->stop.why = FL_STOP_ASKED;
    return FL_OK;
}

/* The end of a run, once. */
static fl_status finish(fl_run *run)
{
    size_t every = (size_t)run->plan.settings->metrics.every;
    report_missed(run);
    potential_report(run);
    fl_status s = report_state(run);
    if (s) return s;
    idle_report(run);
    /* the observer asked to stop: a resumed run measures this round's row again */
    return run->stop.why == FL_STOP_ASKED && run->round % every == 0 ? write_if_due(run, 1) : FL_OK;
}

/* If a stop was requested at a round without a row, completes the round a second time, with a row. */
static fl_status complete_round(fl_run *run, fl_observer_fn *observer, void *arg)
{
    int asked = 0;
    fl_status s = complete_round_once(run, observer, arg, &asked);
    if (!s && run->stop.why == FL_STOP_NONE && asked) s = complete_round_once(run, observer, arg, &asked);
    return s || run->stop.why == FL_STOP_NONE ? s : finish(run);
}

/* The beginning of a run, new or resumed. */
static fl_status begin_run(fl_run *run, fl_observer_fn *observer, void *arg)
{
    fl_status s = run->plan.settings->top.checkpoint_every ? fli_checkpoint_prepare(run) : FL_OK;
    if (s || run->started) return s;
    run->started = 1;
    if (!run->warm_up_done && fli_exec_warms_up(run->exec)) {
        idle_begin(run);
        s = warm_up(run);
        idle_end(run);
    }
    run->warm_up_done = !s;
    if (!s) s = potential_begin(run);
    if (!s) s = gap_begin(run);
    return s ? s : complete_round(run, observer, arg);
}

/* A round, unless a stop was requested. */
static fl_status next_round(fl_run *run, fl_observer_fn *observer, void *arg)
{
    int asked = fli_ranked(&run->plan.ranks) ? run->stop.agreed : run->stop.requested;
    fl_status s = FL_OK;
    if (!asked) {
        idle_begin(run);
        s = run->async ? run_arrivals(run) : run_round(run);
        idle_end(run);
    }
    return s ? s : complete_round(run, observer, arg);
}

/* Runs at most `most` rounds. After a failure the run cannot continue. */
static fl_status run_rounds(fl_run *run, size_t most, fl_observer_fn *observer, void *arg)
{
    fli_clear(run->ctx);
    if (run->failed)
        return fli_fail(run->ctx, run->failed, "the run has failed in round %zu, and cannot go on", run->round + 1);
    fl_status s = begin_run(run, observer, arg);
    while (!s && most-- && run->stop.why == FL_STOP_NONE) s = next_round(run, observer, arg);
    if (run->started) run->failed = s;
    if (s != FL_EDIVERGED) return s;
    s = fli_result_keep_metrics(run, explain_divergence(run)); /* rank 0 writes the file; all ranks report the same */
    return fli_ranks_agree(run->ctx, &run->plan.ranks, s);
}

fl_status fl_run_go(fl_run *run, fl_observer_fn *observer, void *arg)
{
    return run_rounds(run, SIZE_MAX, observer, arg);
}

fl_status fl_run_step(fl_run *run, int *more)
{
    fl_status s = run_rounds(run, 1, NULL, NULL);
    if (more) *more = !s && run->stop.why == FL_STOP_NONE;
    return s;
}
