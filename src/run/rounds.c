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

static double load_bytes(const fli_plan *p, const fli_load *l)
{
    const fli_model *m = p->model;
    size_t upper = m->bilevel ? m->bilevel->upper : m->space.n;
    return (double)(l->upper * upper + l->lower * (m->space.n - upper)) * (double)m->space.ops->size +
           (double)(l->scalars * sizeof(double));
}

static double table_bytes_down(const fli_plan *p)
{
    return (double)p->algo->down * (double)fli_bytes(&p->model->space) +
           (double)(p->algo->down_scalars * sizeof(double));
}

static double table_bytes_up(const fli_plan *p, int warm_up)
{
    const fli_algo *a = p->algo;
    int survey = (a->traits & FLI_ALGO_SURVEY) != 0;
    double vectors = (double)fli_names_count(a->up) * (double)fli_bytes(&p->model->space);
    double scalars = (double)(a->up_scalars * sizeof(double));
    if (survey) return warm_up ? scalars : vectors;
    return vectors + scalars;
}

fli_charge fli_exchange_charge(const fli_plan *p, size_t phase, size_t phases, int warm_up, size_t steps)
{
    const fli_algo *a = p->algo;
    if (!a->phase) return (fli_charge){table_bytes_down(p), table_bytes_up(p, warm_up), steps};
    fli_phase f = a->phase(p->settings.algorithm.params, phase, phases, steps);
    return (fli_charge){load_bytes(p, &f.down), load_bytes(p, &f.up), f.steps};
}

/* Whether those outside the cohort take a turn as well. */
static int bystanders(const fl_run *run) { return (run->plan.algo->traits & FLI_ALGO_BYSTANDERS) != 0; }

/* How often the round's cohort and the server meet; 0: not at all. */
static size_t exchanges(const fl_run *run)
{
    const fli_algo *a = run->plan.algo;
    const void *params = run->plan.settings.algorithm.params;
    fli_rng rng;
    fli_rng_init(&rng, (uint64_t)run->plan.settings.top.seed, FLI_RNG_ALGO, (uint32_t)run->round, 0);
    double coin = fli_rng_uniform(&rng);
    if (a->exchanges && !a->exchanges(params, coin)) return 0;
    return a->phases ? a->phases(params, coin) : 1;
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
        .phases = 1,
    };
}

/* How long a client's turn in one phase takes. */
static double time_turn(const fl_run *run, const fli_round *r, size_t phase, uint32_t client, size_t steps)
{
    const fli_plan *p = &run->plan;
    fli_charge c = fli_exchange_charge(p, phase, r->phases, !run->warm, steps);
    return fli_system_turn(p->system, r->round, client, c.steps, r->news ? c.down : 0, r->exchange ? c.up : 0);
}

/* How long each client of the round takes; returns how long the round does, every phase of which waits for the slowest, bystander or not.
 * Not known without a clock. */
static double time_turns(fl_run *run, const fli_round *r)
{
    const fli_plan *p = &run->plan;
    double whole = 0;
    if (!p->system) return NAN;
    for (size_t i = 0; i < r->count; i++) run->durations[i] = 0;
    for (size_t phase = 0; phase < r->phases; phase++) {
        double longest = 0;
        for (size_t i = 0; i < r->count; i++) {
            double d = time_turn(run, r, phase, r->clients[i], r->steps[i]);
            run->durations[i] += d;
            longest = fmax(longest, d);
        }
        for (size_t i = 0; bystanders(run) && i < p->fed->clients; i++) {
            size_t steps = fli_order_for(p, r->round, r->round, (uint32_t)i).steps;
            longest = fmax(longest, time_turn(run, r, phase, (uint32_t)i, steps));
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
    for (size_t phase = 0; phase < r->phases; phase++) {
        fli_charge c = fli_exchange_charge(p, phase, r->phases, !run->warm, 0);
        if (r->exchange) run->now.bytes_up += turns * c.up;
        if (r->news) run->now.bytes_down += told * c.down;
    }
    if (r->exchange) run->now.communications += (double)r->phases;
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

/* A round without anybody is said when it first happens; how many there were, when the run ends (run.c). */
static void note_empty(fl_run *run, size_t invited, size_t came)
{
    if (came || bystanders(run)) return;
    if (!run->empty++)
        fli_log(run->ctx, FL_LOG_WARNING,
                "round %zu: %s, so the model stays as it is; the end of the run says how often", run->round + 1,
                invited ? "nobody answers in time" : "nobody takes part");
}

fl_status fli_rounds_next(fl_run *run)
{
    double begin = fli_clock_now();
    uint64_t seed = (uint64_t)run->plan.settings.top.seed;
    size_t invited = fli_participation_pick(run->plan.participation, seed, run->round, run->cohort);
    fli_round r = ask(run, invited);
    size_t meetings = exchanges(run);
    r.exchange = meetings > 0;
    r.phases = meetings ? meetings : 1;
    double simulated = drop_late(run, &r);
    fl_status s = fli_exec_round(run->exec, &r);
    if (s) return s;
    count(run, &r, invited, simulated, fli_clock_now() - begin);
    run->news = r.exchange;
    note_empty(run, invited, r.count);
    run->round++;
    return FL_OK;
}
