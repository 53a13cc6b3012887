/* Golden cases: trajectories computed by an independent float64 implementation. A case names an objective, the clients'
 * data, a method with its parameters, and for every round who takes part and how many full-batch steps each takes; the
 * global model after every round must agree. It is planned like any other run (golden.h) and works on the same
 * executors; given are the clients' weights, the start, and in each ask who, how many steps and how likely. */
#include "extend/verify.h"

#include "extend/golden.h"
#include "plan/plan.h"

#include <math.h>
#include <string.h>

typedef struct {
    fli_golden golden;
    fli_plan plan;
    fli_exec *exec;
    double *weights;
    double *expected; /* one model, and as much for v */
    fli_ask *asks;    /* of a round, one per client at most */
    double tolerance, *error;
} verifier;

static fl_status bad(const verifier *v, const char *what) { return fli_golden_bad(&v->golden, what); }
static const json_t *given(const verifier *v, const char *key) { return json_object_get(v->golden.json, key); }
static const json_t *expected(const verifier *v, const char *key) { return json_object_get(given(v, "expect"), key); }
static size_t clients(const verifier *v) { return v->plan.fed->clients; }
static size_t parameters(const verifier *v) { return v->plan.model->space.n; }
static size_t upper(const verifier *v) { return fli_model_upper(v->plan.model); }

/* ---- beginning ------------------------------------------------------------------------------------------- */

/* A model: of two levels, the upper block and the lower one. */
static int read_model(const verifier *v, const json_t *x, const json_t *y, double *out)
{
    size_t n = parameters(v), p = upper(v);
    return fli_golden_numbers(x, p, out) && (p == n || fli_golden_numbers(y, n - p, out + p));
}

/* The lower block of v, where the method has a v. */
static double *lower_v(const verifier *v)
{
    size_t which = v->plan.algo->levels.v;
    return which ? (double *)fli_exec_server(v->exec)[which - 1] + upper(v) : NULL;
}

static fl_status set_start(verifier *v)
{
    const json_t *v0 = given(v, "v0");
    if (!read_model(v, given(v, "x0"), given(v, "y0"), fli_exec_server(v->exec)[0]))
        return bad(v, "\"x0\" does not fit the model, or \"y0\" does not");
    if (v0 && (!lower_v(v) || !fli_golden_numbers(v0, parameters(v) - upper(v), lower_v(v))))
        return bad(v, "\"v0\" does not fit the problem");
    return FL_OK;
}

static int steps_matter(const verifier *v)
{
    const fli_solvers *all = &v->plan.solvers;
    int any = 0;
    for (size_t i = 0; i < all->count; i++) any |= all->at[i]->counts_steps;
    return any;
}

static fl_status begin(verifier *v)
{
    fl_ctx *ctx = v->golden.ctx;
    const json_t *lr = json_object_get(given(v, "params"), "lr");
    fl_status s = fli_plan_data(v->golden.cfg, &(fli_plan){.fed = v->golden.fed}, &v->plan);
    if (!s) s = fli_plan_finish(&v->plan, v->golden.cfg);
    if (s) return s;
    if (steps_matter(v) && (!lr || json_is_null(lr) || json_is_object(lr))) return bad(v, "\"params.lr\" is missing");
    v->weights = fli_alloc(ctx, clients(v), sizeof *v->weights);
    v->asks = fli_alloc(ctx, clients(v), sizeof *v->asks);
    v->expected = fli_alloc(ctx, 2 * parameters(v), sizeof *v->expected);
    if (!v->weights || !v->asks || !v->expected) return FL_ENOMEM;
    if (!fli_golden_numbers(given(v, "weights"), clients(v), v->weights)) return bad(v, "\"weights\" do not fit");
    v->plan.exec.weights = v->weights;
    s = fli_exec_new(ctx, &v->plan.exec, &v->exec);
    return s ? s : set_start(v);
}

/* ---- asking: the one place where a case says more than settings can ---------------------------------------- */

/* What the plan would ask, but with the case's number of steps, where it has one, and its chance to take part. */
static int make_ask(const verifier *v, json_int_t client, const json_t *steps, size_t round, double probability,
                    fli_ask *out)
{
    json_int_t count = json_integer_value(steps);
    if (client < 0 || (size_t)client >= clients(v) || (steps && (count < 1 || count > 1000000))) return 0;
    fli_card card = fli_exec_card(v->exec, (uint32_t)client);
    *out = fli_ask_for(&v->plan.asking, &card, round, round, (uint32_t)client);
    if (steps) out->steps = (uint64_t)count;
    out->probability = probability;
    return 1;
}

static fl_status read_round(verifier *v, const json_t *round, fli_round *r)
{
    const json_t *who = json_object_get(round, "clients"), *steps = json_object_get(round, "steps");
    const json_t *talk = json_object_get(round, "communicate");
    const fli_algo *a = v->plan.algo;
    size_t m = json_array_size(who);
    if (!m || m > clients(v) || ((steps || steps_matter(v)) && json_array_size(steps) != m))
        return bad(v, "a round's \"clients\" and \"steps\" do not fit together");
    for (size_t i = 0; i < m; i++)
        if (!make_ask(v, json_integer_value(json_array_get(who, i)), json_array_get(steps, i), r->round,
                      (double)m / (double)clients(v), &v->asks[i]))
            return bad(v, "a round names an impossible client or number of steps");
    r->asks = v->asks;
    r->count = m;
    r->phases = a->rounds.phases ? a->rounds.phases(v->plan.params, 0) : 1;
    r->flags = (r->flags & FLI_ASK_CHANGED) | (!talk || json_is_true(talk) ? FLI_ASK_REPLY : 0);
    return FL_OK;
}

/* ---- comparing ------------------------------------------------------------------------------------------- */

/* The largest difference, relative to the largest expected entry. */
static double difference(size_t n, const double *x, const double *wanted)
{
    double worst = 0, top = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i])) return INFINITY;
        if (fabs(x[i] - wanted[i]) > worst) worst = fabs(x[i] - wanted[i]);
        if (fabs(wanted[i]) > top) top = fabs(wanted[i]);
    }
    return worst > 0 ? worst / top : 0;
}

static void note_difference(verifier *v, double d, const char *which, size_t number)
{
    if (d > v->tolerance && *v->error <= v->tolerance)
        fli_fail(v->golden.ctx, FL_EMISMATCH, "%s: differs by %.3g (relative) %s %zu", v->golden.path, d, which,
                 number);
    if (d > *v->error) *v->error = d;
}

/* The model after a round, and v where it is expected. */
static fl_status compare(verifier *v, size_t round)
{
    const json_t *vs = expected(v, "v");
    size_t n = parameters(v), lower = n - upper(v);
    if (!read_model(v, json_array_get(expected(v, "x"), round), json_array_get(expected(v, "y"), round), v->expected))
        return bad(v, "\"expect.x\" does not fit the model, or \"expect.y\" does not");
    double d = difference(n, fli_exec_server(v->exec)[0], v->expected);
    if (vs && (!lower_v(v) || !fli_golden_numbers(json_array_get(vs, round), lower, v->expected)))
        return bad(v, "\"expect.v\" does not fit the problem");
    if (vs) d = fmax(d, difference(lower, lower_v(v), v->expected));
    note_difference(v, d, "after round", round + 1);
    return FL_OK;
}

/* The clients' own models at the end, where the case has them. */
static fl_status compare_own(verifier *v)
{
    const json_t *expect = expected(v, "localized");
    double *own = v->expected + parameters(v);
    if (expect && json_array_size(expect) != clients(v))
        return bad(v, "\"expect.localized\" does not have one model per client");
    for (size_t i = 0; expect && i < clients(v); i++) {
        fl_status s = fli_exec_own_model(v->exec, (uint32_t)i, own, NULL);
        if (s) return s;
        if (!read_model(v, json_array_get(expect, i), NULL, v->expected))
            return bad(v, "\"expect.localized\" does not fit the model");
        note_difference(v, difference(parameters(v), own, v->expected), "in the own model of client", i);
    }
    return FL_OK;
}

/* ---- rounds ---------------------------------------------------------------------------------------------- */

/* The turns of all clients before the first round, as the plan asks for them. */
static fl_status warm_up(verifier *v)
{
    for (size_t i = 0; i < clients(v); i++) make_ask(v, (json_int_t)i, NULL, 0, 1, &v->asks[i]);
    return fli_exec_round(
        v->exec,
        &(fli_round){.flags = FLI_ASK_CHANGED | FLI_ASK_REPLY | FLI_ASK_WARM_UP, .asks = v->asks, .count = clients(v)});
}

static fl_status run_rounds(verifier *v, const json_t *rounds)
{
    fli_round r = {.flags = FLI_ASK_CHANGED};
    fl_status s = FL_OK;
    for (r.round = 0; !s && r.round < json_array_size(rounds); r.round++) {
        s = read_round(v, json_array_get(rounds, r.round), &r);
        if (!s) s = fli_exec_round(v->exec, &r);
        if (!s) s = compare(v, r.round);
        r.flags = r.flags & FLI_ASK_REPLY ? FLI_ASK_CHANGED : 0;
    }
    return s;
}

/* ---- events of asynchronous methods ------------------------------------------------------------------------ */

/* A server step that takes a single upload. */
static void begin_step(verifier *v, size_t step)
{
    fli_step next = {.round = step, .cohort = 1, .cohort_weight = 1 / (double)clients(v)};
    fli_coordinator_begin(fli_exec_coordinator(v->exec), &next);
}

/* One client, working from the model of `delay` server steps before the newest. `history` has the start model and the
 * model after every step so far, one after the other. */
static fl_status run_event(verifier *v, const json_t *event, size_t step, void **history, fli_exchange *x)
{
    fli_coordinator *server = fli_exec_coordinator(v->exec);
    const json_t *delay = json_object_get(event, "delay"), *steps = json_object_get(event, "steps"),
                 *who = json_object_get(event, "client");
    json_int_t client = json_is_integer(who) ? json_integer_value(who) : -1;
    json_int_t late = json_is_integer(delay) ? json_integer_value(delay) : -1;
    if (late < 0 || (size_t)late > step || !steps || !make_ask(v, client, steps, step, 1 / (double)clients(v), &x->ask))
        return bad(v, "an event's \"client\", \"delay\" or \"steps\" is impossible");
    fli_message down = {.vec = &history[step - (size_t)late], .start = fli_coordinator_broadcast(server)->start};
    x->ask.cohort = x->ask.phases = 1;
    x->ask.flags = FLI_ASK_CHANGED | FLI_ASK_REPLY;
    x->down = &down;
    fli_coordinator_address(server, &x->ask);
    fli_coordinator_note(server, &x->ask);
    fli_exec_run(v->exec, &x, 1);
    if (x->status) return fli_coordinator_failed(server, x);
    fli_coordinator_absorb(server, x, (size_t)late);
    fl_status s = fli_coordinator_advance(server, NULL);
    if (s) return s;
    begin_step(v, step + 1);
    fli_copy(&v->plan.model->space, fli_exec_server(v->exec)[0], history[step + 1]);
    return FL_OK;
}

static fl_status run_events(verifier *v, const json_t *events)
{
    size_t count = json_array_size(events);
    const fli_space *space = &v->plan.model->space;
    fli_arena arena;
    fli_exchange x = {0};
    if (v->plan.pace.buffer > 1) return bad(v, "events are server steps, so a buffer must be 1");
    fli_arena_init(&arena, v->golden.ctx);
    void **history = fli_arena_alloc(&arena, count + 1, sizeof *history);
    fl_status s = history ? fli_exec_upload_new(v->exec, &x.up) : FL_ENOMEM;
    for (size_t i = 0; !s && i <= count; i++)
        if (!(history[i] = fli_arena_alloc(&arena, 1, fli_bytes(space)))) s = FL_ENOMEM;
    if (!s) {
        fli_copy(space, fli_exec_server(v->exec)[0], history[0]);
        begin_step(v, 0);
    }
    for (size_t i = 0; !s && i < count; i++) {
        s = run_event(v, json_array_get(events, i), i, history, &x);
        if (!s) s = compare(v, i);
    }
    fli_message_fini(&x.up);
    fli_arena_fini(&arena);
    return s;
}

/* ---- the whole ------------------------------------------------------------------------------------------- */

static fl_status run_case(verifier *v)
{
    const json_t *rounds = given(v, "rounds");
    size_t count = json_array_size(rounds);
    if (!count || json_array_size(expected(v, "x")) != count)
        return bad(v, "\"rounds\" and \"expect.x\" do not fit together");
    *v->error = 0;
    fl_status s = fli_exec_warms_up(v->exec) ? warm_up(v) : FL_OK; /* server steps, too, may begin with turns of all */
    if (!s) s = v->plan.pace.buffer ? run_events(v, rounds) : run_rounds(v, rounds);
    if (!s) s = compare_own(v);
    return s ? s : *v->error <= v->tolerance ? FL_OK : FL_EMISMATCH;
}

fl_status fl_verify(fl_ctx *ctx, const char *path, double tolerance, double *error)
{
    return fli_verify_on(ctx, &fli_executor_threads, path, tolerance, error);
}

fl_status fli_verify_on(fl_ctx *ctx, const fli_executor *executor, const char *path, double tolerance, double *error)
{
    verifier v = {.tolerance = tolerance, .error = error};
    fli_clear(ctx);
    *error = NAN;
    fl_status s = fli_golden_read(ctx, path, executor->name, &v.golden);
    if (!s) {
        s = begin(&v);
        if (!s) s = run_case(&v);
        fli_exec_free(v.exec);
        fli_plan_fini(&v.plan);
    }
    fli_free(v.weights);
    fli_free(v.asks);
    fli_free(v.expected);
    fli_golden_fini(&v.golden);
    return s;
}
