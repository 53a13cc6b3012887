/* Rounds: pick the cohort -> broadcast -> execute -> absorb -> advance, on a virtual clock. A round lasts as long as its slowest
 * client; with a deadline, or when the server waits only for the fastest, who is late is dropped. A dropped client has received
 * the model, but neither its work nor its state counts: it is as if it had not been invited. */
#include "run/steps.h"

#include "base/clock.h"

#include <math.h>
#include <stdlib.h>

fl_status fli_rounds_prepare(fl_run *run)
{
    const fli_plan *p = &run->plan;
    size_t largest = fli_exec_warms_up(run->exec) ? p->fed->clients : p->participation->largest;
    run->cohort = fli_alloc(run->ctx, largest, sizeof *run->cohort);
    run->steps = fli_alloc(run->ctx, largest, sizeof *run->steps);
    run->lrs = fli_alloc(run->ctx, largest, sizeof *run->lrs);
    run->probabilities = fli_alloc(run->ctx, largest, sizeof *run->probabilities);
    run->durations = fli_alloc(run->ctx, 2 * largest, sizeof *run->durations);
    if (!run->cohort || !run->steps || !run->lrs || !run->probabilities || !run->durations) return FL_ENOMEM;
    run->news = 1;
    if (!p->system) run->now.simulated_seconds = NAN;
    return FL_OK;
}

fli_order fli_order_for(const fli_plan *p, size_t round, size_t turn, uint32_t client)
{
    const fli_local_settings *local = &p->settings.local;
    fli_sgd_spec sgd = fli_settings_sgd(&p->settings);
    size_t unlabelled = fli_fed_unlabelled(p->fed, client);
    size_t per_epoch = fli_objective_steps(p->model, &sgd, fli_fed_size(p->fed, client) - unlabelled, unlabelled);
    const fli_solver *solver = p->algo->solver ? p->algo->solver(p->settings.algorithm.params) : &fli_solver_sgd;
    return (fli_order){
        .steps = solver->one_pass
                     ? per_epoch
                     : fli_effort_steps(&local->effort, (uint64_t)p->settings.top.seed, turn, client, per_epoch),
        .lr = fli_schedule_lr(local, round) * fli_reals_at(&local->lr_factors, client),
        .probability = fli_participation_probability(p->participation, client),
    };
}

double fli_turn_bytes_down(const fli_plan *p)
{
    return (double)p->algo->down * (double)fli_bytes(&p->model->space) +
           (double)(p->algo->down_scalars * sizeof(double));
}

double fli_turn_bytes_up(const fli_plan *p, int warm_up)
{
    const fli_algo *a = p->algo;
    int survey = (a->traits & FLI_ALGO_SURVEY) != 0;
    double vectors = (double)fli_names_count(a->up) * (double)fli_bytes(&p->model->space);
    double scalars = (double)(a->up_scalars * sizeof(double));
    if (survey) return warm_up ? scalars : vectors;
    return vectors + scalars;
}

/* Whether those outside the cohort take a turn as well. */
static int bystanders(const fl_run *run) { return (run->plan.algo->traits & FLI_ALGO_BYSTANDERS) != 0; }

static int exchanges(const fl_run *run)
{
    const fli_algo *a = run->plan.algo;
    fli_rng rng;
    if (!a->exchanges) return 1;
    fli_rng_init(&rng, (uint64_t)run->plan.settings.top.seed, FLI_RNG_ALGO, (uint32_t)run->round, 0);
    return a->exchanges(run->plan.settings.algorithm.params, fli_rng_uniform(&rng));
}

/* Fills what a round asks of the m clients in run->cohort. */
static fli_round ask(fl_run *run, size_t m)
{
    for (size_t i = 0; i < m; i++) {
        fli_order order = fli_order_for(&run->plan, run->round, run->round, run->cohort[i]);
        run->steps[i] = order.steps;
        run->lrs[i] = order.lr;
        run->probabilities[i] = order.probability;
    }
    return (fli_round){
        .round = run->round,
        .clients = run->cohort,
        .steps = run->steps,
        .count = m,
        .lrs = run->lrs,
        .probabilities = run->probabilities,
        .news = run->news,
        .exchange = 1,
    };
}

/* How long each client of the round takes; returns the longest, of bystanders too. Not known without a clock. */
static double time_turns(fl_run *run, const fli_round *r)
{
    const fli_plan *p = &run->plan;
    if (!p->system) return NAN;
    double longest = 0, down = r->news ? fli_turn_bytes_down(p) : 0;
    double up = r->exchange ? fli_turn_bytes_up(p, !run->warm) : 0;
    for (size_t i = 0; i < r->count; i++) {
        run->durations[i] = fli_system_turn(p->system, r->round, r->clients[i], r->steps[i], down, up);
        longest = fmax(longest, run->durations[i]);
    }
    for (size_t i = 0; bystanders(run) && i < p->fed->clients; i++) {
        size_t steps = fli_order_for(p, r->round, r->round, (uint32_t)i).steps;
        longest = fmax(longest, fli_system_turn(p->system, r->round, (uint32_t)i, steps, down, up));
    }
    return longest;
}

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

/* The duration of the `wanted`-th fastest, and how many that take exactly as long are wanted. */
static double cut_after(fl_run *run, const fli_round *r, size_t wanted, size_t *ties)
{
    double *sorted = run->durations + r->count;
    memcpy(sorted, run->durations, r->count * sizeof *sorted);
    qsort(sorted, r->count, sizeof *sorted, ascending);
    double cut = sorted[wanted - 1];
    for (*ties = 0; *ties < wanted && sorted[wanted - 1 - *ties] == cut;) ++*ties;
    return cut;
}

/* Drops who is late, and returns how long the round lasts. Of clients that are equally fast the first in the cohort are kept. */
static double drop_late(fl_run *run, fli_round *r)
{
    const fli_system_common *c = &run->plan.settings.system;
    size_t wanted = (size_t)fmax(1, ceil(c->wait_for * (double)r->count - 1e-9)), kept = 0, ties = r->count;
    double deadline = c->deadline > 0 ? c->deadline : INFINITY, cut = time_turns(run, r);
    if (isnan(cut)) return cut;
    if (wanted < r->count) cut = cut_after(run, r, wanted, &ties);
    for (size_t i = 0; i < r->count; i++) {
        double d = run->durations[i];
        int behind = d > cut || (d == cut && !ties);
        if (d == cut && ties) ties--;
        if (behind || d > deadline) continue;
        run->cohort[kept] = run->cohort[i];
        run->steps[kept] = run->steps[i];
        run->lrs[kept] = run->lrs[i];
        run->probabilities[kept++] = run->probabilities[i];
    }
    r->count = kept;
    return fmin(cut, deadline);
}

static void count(fl_run *run, const fli_round *r, size_t invited, double simulated, double seconds)
{
    const fli_plan *p = &run->plan;
    double turns = (double)(bystanders(run) ? p->fed->clients : r->count);
    double told = (double)(bystanders(run) ? p->fed->clients : invited);
    if (r->exchange) run->now.bytes_up += turns * fli_turn_bytes_up(p, !run->warm);
    if (r->news) run->now.bytes_down += told * fli_turn_bytes_down(p);
    run->now.local_steps += fli_exec_spent(run->exec);
    run->now.simulated_seconds += simulated;
    run->now.seconds += seconds;
    run->now.cohort = r->count;
}

fl_status fli_rounds_warm_up(fl_run *run)
{
    double begin = fli_clock_now();
    size_t n = run->plan.fed->clients;
    for (size_t i = 0; i < n; i++) run->cohort[i] = (uint32_t)i;
    fli_round r = ask(run, n);
    fl_status s = fli_exec_warm_up(run->exec, &r);
    if (!s) count(run, &r, n, time_turns(run, &r), fli_clock_now() - begin);
    return s;
}

fl_status fli_rounds_next(fl_run *run)
{
    double begin = fli_clock_now();
    uint64_t seed = (uint64_t)run->plan.settings.top.seed;
    size_t invited = fli_participation_pick(run->plan.participation, seed, run->round, run->cohort);
    fli_round r = ask(run, invited);
    r.exchange = exchanges(run);
    double simulated = drop_late(run, &r);
    fl_status s = fli_exec_round(run->exec, &r);
    if (s) return s;
    count(run, &r, invited, simulated, fli_clock_now() - begin);
    run->news = r.exchange;
    run->empty += invited && !r.count;
    run->round++;
    return FL_OK;
}
