/* How a run goes forward: a round (fli_rounds_next), or for asynchronous methods a server step (fli_arrivals_next).
 *
 * A round: pick the cohort -> broadcast -> execute -> absorb -> advance, on a virtual clock. A round lasts as long as
 * its slowest client; with a deadline, or when the server waits only for the fastest, late clients are dropped. A
 * dropped client has received the model, but neither its work nor its state counts: it is as if it had not been
 * invited. */
#include "base/os.h"
#include "run/state.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

fl_status fli_rounds_prepare(fl_run *run)
{
    const fli_plan *p = &run->plan;
    size_t largest = fli_exec_warms_up(run->exec) ? p->fed->clients : p->participation->largest;
    run->cohort = fli_alloc(run->ctx, largest, sizeof *run->cohort);
    run->asks = fli_alloc(run->ctx, largest, sizeof *run->asks);
    run->durations = fli_alloc(run->ctx, 2 * largest, sizeof *run->durations);
    if (!run->cohort || !run->asks || !run->durations) return FL_ENOMEM;
    run->broadcast_is_new = 1;
    if (!p->system) run->counts.simulated_seconds = NAN;
    return FL_OK;
}

static double seconds_of(const fl_run *run, const fli_ask *set_asks)
{
    fli_card card = fli_exec_card(run->exec, set_asks->client);
    return fli_ask_seconds(&run->plan.ask_params, &card, set_asks);
}

/* Whether those outside the cohort take a turn as well. */
static int bystanders(const fl_run *run) { return (run->plan.algo->traits & FLI_ALGO_BYSTANDERS) != 0; }

/* How often the round's cohort and the server meet; 0: not at all. */
static size_t exchanges(const fl_run *run)
{
    const fli_algo *a = run->plan.algo;
    const void *params = run->plan.params;
    double coin = fli_ask_params_coin(&run->plan.ask_params, run->round);
    if (a->rounds.exchanges && !a->rounds.exchanges(params, run->round, coin)) return 0;
    return a->rounds.phases ? a->rounds.phases(params, coin) : 1;
}

static fli_ask ask_client(const fl_run *run, uint32_t client)
{
    fli_card card = fli_exec_card(run->exec, client);
    return fli_ask_for(&run->plan.ask_params, &card, run->round, run->round, client);
}

/* Asks the m clients in run->cohort, in the phases of a round that are theirs. */
static void set_asks(fl_run *run, size_t m, fli_round *r)
{
    for (size_t i = 0; i < m; i++) run->asks[i] = ask_client(run, run->cohort[i]);
    r->round = run->round;
    r->asks = run->asks;
    r->count = m;
}

/* Where bystanders take a turn as well, the longest turn of everybody: it goes by what they would be asked. */
static double time_everybody(const fl_run *run, const fli_round *r, size_t phase)
{
    double longest = 0;
    for (size_t i = 0; bystanders(run) && i < run->plan.fed->clients; i++) {
        fli_ask own = ask_client(run, (uint32_t)i), at = fli_round_ask(run->exec, r, &own, phase);
        longest = fmax(longest, seconds_of(run, &at));
    }
    return longest;
}

/* How long each client of the round takes; returns how long the round does, every phase of which waits for the slowest,
 * bystander or not. Not known without a clock. */
static double time_turns(fl_run *run, const fli_round *r)
{
    double whole = 0;
    if (!run->plan.system) return NAN;
    for (size_t i = 0; i < r->count; i++) run->durations[i] = 0;
    for (size_t phase = r->from; phase < r->until; phase++) {
        double longest = time_everybody(run, r, phase);
        for (size_t i = 0; i < r->count; i++) {
            fli_ask at = fli_round_ask(run->exec, r, &r->asks[i], phase);
            double d = seconds_of(run, &at);
            run->durations[i] += d;
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
    double *sorted = run->durations + r->count;
    memcpy(sorted, run->durations, r->count * sizeof *sorted);
    qsort(sorted, r->count, sizeof *sorted, ascending);
    double cut = sorted[wanted - 1];
    for (*ties = 0; *ties < wanted && sorted[wanted - 1 - *ties] == cut;) ++*ties;
    return cut;
}

/* Bytes that a client of the round was sent in vain. */
static double sent_to(const fl_run *run, const fli_round *r, const fli_ask *own)
{
    double sum = 0;
    for (size_t phase = r->from; phase < r->until; phase++) {
        fli_ask at = fli_round_ask(run->exec, r, own, phase);
        sum += (double)fli_exec_bytes_down(run->exec, &at);
    }
    return sum;
}

/* Drops who is late, and returns how long the round lasts. Of clients that are equally fast the first in the cohort
 * are kept. *lost: bytes that those were sent who were dropped. */
static double drop_late(fl_run *run, fli_round *r, double *lost)
{
    const fli_system_common *c = &run->plan.settings.system;
    size_t wanted = (size_t)fmax(1, ceil(c->wait_for * (double)r->count - 1e-9)), kept = 0, ties = r->count;
    double deadline = c->deadline > 0 ? c->deadline : INFINITY, cut = time_turns(run, r);
    *lost = 0;
    if (isnan(cut)) return cut;
    if (wanted < r->count) cut = cut_after(run, r, wanted, &ties);
    for (size_t i = 0; i < r->count; i++) {
        double d = run->durations[i];
        int behind = d > cut || (d == cut && !ties);
        if (d == cut && ties) ties--;
        if (behind || d > deadline)
            *lost += sent_to(run, r, &run->asks[i]);
        else
            run->asks[kept++] = run->asks[i];
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

fl_status fli_rounds_warm_up(fl_run *run)
{
    double begin = fli_clock_now();
    size_t n = run->plan.fed->clients;
    for (size_t i = 0; i < n; i++) run->cohort[i] = (uint32_t)i;
    fli_round r = {.flags = FLI_ASK_HAS_BODY | FLI_ASK_REPLY | FLI_ASK_WARM_UP, .phases = 1, .until = 1};
    set_asks(run, n, &r);
    double simulated = time_turns(run, &r);
    fl_status s = fli_exec_round(run->exec, &r);
    if (!s) count_round(run, &r, simulated, fli_clock_now() - begin);
    if (!s && run->async && !isnan(simulated)) fli_async_begin_at(run->async, simulated);
    return s;
}

/* The first round without clients is logged; how many there were is logged when the run ends (run.c). */
static void note_empty(fl_run *run, size_t invited, size_t came)
{
    if (came) run->empty_row = 0;
    if (came || bystanders(run)) return;
    run->empty_row++;
    if (!run->empty++)
        fli_log(run->ctx, FL_LOG_WARNING,
                "round %zu: %s, so the model stays as it is; the end of the run says how often", run->round + 1,
                invited ? "nobody answers in time" : "nobody takes part");
}

/* Clients that are other programs may all be cut off, or unable to go on: a run that went on without them would end
 * with the model of long ago, as if all were well. A last round to which chance invites nobody would be the same again. */
static fl_status check_empty(const fl_run *run, size_t invited)
{
    enum { MOST = 10 };
    size_t rounds = (size_t)run->plan.settings.top.rounds, most = rounds < MOST ? rounds : MOST;
    if (!run->plan.remote_queue || !run->empty_row) return FL_OK;
    if (invited && run->round == rounds)
        return fli_fail(run->ctx, FL_EIO,
                        "round %zu: no answer has come that counts, and it is the last one, so the run does not end",
                        run->round);
    if (run->empty_row < most) return FL_OK;
    return fli_fail(run->ctx, FL_EIO,
                    "round %zu: in %zu rounds in a row no answer has come that counts, so the run does not go on",
                    run->round, run->empty_row);
}

/* What the cohort that is met from this phase on is drawn by. */
static uint64_t seed_of(const fl_run *run, size_t phase)
{
    uint64_t seed = fli_settings_cohort_seed(&run->plan.settings);
    fli_rng rng;
    if (!phase) return seed;
    fli_rng_init(&rng, seed, FLI_RNG_ALGO, (uint32_t)phase, 2);
    return fli_rng_u64(&rng);
}

/* The exchanges of a round that one cohort has, from r->from on; all of them, for most methods. *invited += how many
 * were asked, *came += how many came. */
static fl_status run_cohort(fl_run *run, fli_round *r, size_t *invited, size_t *came)
{
    double begin = fli_clock_now(), lost;
    const fli_plan *p = &run->plan;
    size_t m = fli_participation_pick(p->participation, seed_of(run, r->from), run->round, run->cohort);
    r->until = fli_algo_cohort_end(p->algo, p->params, r->from, r->phases);
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

fl_status fli_rounds_next(fl_run *run)
{
    size_t meetings = exchanges(run), invited = 0, came = 0;
    fl_status s = FL_OK;
    fli_round r = {.flags = (run->broadcast_is_new ? FLI_ASK_HAS_BODY : 0) | (meetings ? FLI_ASK_REPLY : 0),
                   .phases = meetings ? meetings : 1};
    for (; !s && r.from < r.phases; r.from = r.until) s = run_cohort(run, &r, &invited, &came);
    if (s) return s;
    /* methods that need everyone keep what they have of the model: nothing is sent again that has not changed */
    run->broadcast_is_new = meetings > 0 || !(run->plan.algo->traits & FLI_ALGO_EVERYONE);
    note_empty(run, invited, came);
    run->round++;
    return check_empty(run, invited);
}

/* ==== asynchronous methods: from one upload to the next ===================================================== */

/* A server step takes the place of a round. */

/* fli_async_spec.ask */
static void ask_next(void *arg, fli_ask *out)
{
    const fl_run *run = arg;
    fli_card card = fli_exec_card(run->exec, out->client);
    fli_ask own = fli_ask_for(&run->plan.ask_params, &card, (size_t)out->round, (size_t)out->stream, out->client);
    out->steps = own.steps;
    out->lr = own.lr;
    out->probability = own.probability;
}

/* fli_async_spec.duration */
static double duration(void *arg, const fli_ask *what)
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
        .seed = fli_settings_cohort_seed(&p->settings),
        .real = p->settings.top.clock == FLI_CLOCK_REAL,
        .ask = ask_next,
        .duration = duration,
        .save = p->remote_queue && p->settings.top.checkpoint_every ? save : NULL,
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
    if (p->settings.top.clock == FLI_CLOCK_VIRTUAL) run->counts.simulated_seconds = fli_async_clock(run->async);
    run->arrived += (double)c.arrived;
    run->ages += c.staleness;
    run->oldest = fmax(run->oldest, (double)c.staleness_max);
    run->counts.staleness = run->arrived > 0 ? run->ages / run->arrived : NAN;
    run->counts.staleness_max = run->arrived > 0 ? run->oldest : NAN;
}

fl_status fli_arrivals_next(fl_run *run)
{
    double begin = fli_clock_now();
    const fli_settings *s = &run->plan.settings;
    size_t every = (size_t)s->metrics.every, until = run->round + 1;
    int real = s->top.clock == FLI_CLOCK_REAL;
    /* Stopping the threads after every server step would make them wait for each other. */
    if (real && !run->plan.remote_queue) until = (run->round / every + 1) * every;
    if (until > (size_t)s->top.rounds) until = (size_t)s->top.rounds;
    if (s->stop.seconds > 0) fli_async_limit(run->async, begin + s->stop.seconds - run->counts.seconds);
    /* A checkpoint is made between server steps, so that who goes on from it measures what would have been measured. */
    static const atomic_int never = 0;
    int whole = !real && (s->top.checkpoint_every || fli_ranked(&run->plan.ranks)); /* ranks stop together as well */
    fl_status status = fli_async_run(run->async, until, whole ? &never : &run->stop_requested);
    if (status) return status;
    count_arrivals(run, fli_clock_now() - begin);
    size_t before = run->round;
    run->round = fli_async_steps(run->async);
    run->counts.cohort = run->round > before ? (double)run->plan.pace.buffer : 0;
    run->counts.communications += (double)(run->round - before);
    return FL_OK;
}
