/* From one upload to the next: asynchronous methods. A server step takes the place of a round. */
#include "run/advance.h"

#include "base/clock.h"

#include <math.h>

/* fli_async_spec.ask */
static void ask(void *arg, fli_ask *out)
{
    const fl_run *run = arg;
    fli_card card = fli_exec_card(run->exec, out->client);
    fli_ask own = fli_ask_for(&run->plan.asking, &card, (size_t)out->round, (size_t)out->stream, out->client);
    out->steps = own.steps;
    out->lr = own.lr;
    out->probability = own.probability;
}

/* fli_async_spec.duration */
static double duration(void *arg, const fli_ask *what)
{
    const fl_run *run = arg;
    fli_card card = fli_exec_card(run->exec, what->client);
    return fli_ask_seconds(&run->plan.asking, &card, what);
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
        .ask = ask,
        .duration = duration,
        .save = p->mailbox && p->settings.top.checkpoint_every ? save : NULL,
        .arg = run,
    };
    if (spec.real) run->counts.simulated_seconds = NAN;
    fl_status s = fli_async_new(run->ctx, &spec, &run->async);
    fli_measure_follow(run->measure, run->async);
    return s;
}

static void count(fl_run *run, double seconds)
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
    if (real && !run->plan.mailbox) until = (run->round / every + 1) * every;
    if (until > (size_t)s->top.rounds) until = (size_t)s->top.rounds;
    if (s->stop.seconds > 0) fli_async_limit(run->async, begin + s->stop.seconds - run->counts.seconds);
    /* A checkpoint is made between server steps, so that who goes on from it measures what would have been measured. */
    static const atomic_int never = 0;
    int whole = !real && (s->top.checkpoint_every || fli_ranked(&run->plan.ranks)); /* ranks stop together as well */
    fl_status status = fli_async_run(run->async, until, whole ? &never : &run->asked);
    if (status) return status;
    count(run, fli_clock_now() - begin);
    size_t before = run->round;
    run->round = fli_async_steps(run->async);
    run->counts.cohort = run->round > before ? (double)run->plan.pace.buffer : 0;
    run->counts.communications += (double)(run->round - before);
    return FL_OK;
}
