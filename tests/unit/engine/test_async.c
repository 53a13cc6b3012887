/* Asynchronous runs on the virtual clock: the order of events by hand, models by a simulation of its own, the bound on
 * ages, stopping, failing, threads. tests/unit/half and tests/unit/server have the real clock. */
#include "fixture.h"

#include "algo/algo.h"
#include "engine/async.h"

#include <stdatomic.h>

enum { MOST = 64, EVENTS = 512 };

/* ---- a method, watched ----------------------------------------------------------------------------------- */

typedef struct {
    uint32_t client;
    size_t age;
} arrival;

static const fl_method *watched;
static fl_method spy;
static atomic_int working[MOST]; /* turns of each client under way, from pose to answer */
static atomic_int twice;         /* times a client had two at once */
static arrival arrivals[EVENTS];
static size_t arrived; /* also when there is no room for more */

static int spy_pose(const fl_turn *t, fl_problem *p)
{
    if (atomic_fetch_add(&working[t->ask.client], 1)) atomic_fetch_add(&twice, 1);
    watched->pose(t, p);
    return 0;
}

static int spy_answer(const fl_turn *t, const fl_answer *a)
{
    watched->answer(t, a);
    atomic_fetch_sub(&working[t->ask.client], 1);
    return 0;
}

static int spy_absorb(const fl_coordinator *s, const fl_upload *t)
{
    if (arrived < EVENTS) arrivals[arrived] = (arrival){t->ask.client, t->staleness};
    arrived++;
    watched->absorb(s, t);
    return 0;
}

/* ---- a federation with an asynchronous executor ---------------------------------------------------------- */

typedef struct {
    size_t clients, at_work, dim, threads, steps;
    double lr;
    const char *method, *params;
    const fli_ops *ops;
    fli_sgd_spec sgd;
    const double *seconds; /* per client; NULL: by the function */
    double (*duration)(uint32_t client, size_t number);
} plan;

typedef struct {
    plan plan;
    engine engine;
    fli_async *async;
    fli_async_spec spec;
    atomic_int asked;
    size_t stop_at;         /* asks to stop when this many turns have begun; 0: never */
    uint32_t diverges;      /* this client's step size is far too large */
    size_t turns[MOST];     /* begun, per client */
    uint32_t begun[EVENTS]; /* in this order */
    size_t rounds[EVENTS];  /* server steps by then */
    size_t count, misnumbered;
} rig;

static void rig_ask(void *arg, fl_ask *ask)
{
    rig *r = arg;
    ask->steps = r->plan.steps + ask->client % 2;
    ask->lr = ask->client == r->diverges ? 1e200 : r->plan.lr;
    ask->probability = 1;
    r->turns[ask->client]++;
    if (r->count < EVENTS) {
        r->begun[r->count] = ask->client;
        r->rounds[r->count] = (size_t)ask->round;
    }
    r->count++;
    r->misnumbered += ask->stream + 1 != r->count;
    if (r->stop_at && r->count == r->stop_at) r->asked = 1;
}

static double rig_duration(void *arg, const fl_ask *ask)
{
    const plan *p = &((rig *)arg)->plan;
    return p->seconds ? p->seconds[ask->client] : p->duration(ask->client, (size_t)ask->stream);
}

/* Everything but the asynchronous part itself. */
static void rig_prepare(rig *r, fl_ctx *ctx, plan p)
{
    size_t size[MOST];
    if (!p.dim) p.dim = 1;
    if (!p.threads) p.threads = 1;
    if (!p.steps) p.steps = 2;
    if (!p.at_work) p.at_work = p.clients;
    if (!p.ops) p.ops = &fli_ops_f64;
    if (!(p.lr > 0)) p.lr = 0.1;
    memset(r, 0, sizeof *r);
    r->plan = p;
    r->diverges = UINT32_MAX;
    for (size_t i = 0; i < p.clients; i++) size[i] = 4 + i % 3;
    watched = algo_named(p.method);
    spy = *watched;
    spy.pose = spy_pose;
    spy.answer = spy_answer;
    spy.absorb = spy_absorb;
    for (size_t i = 0; i < MOST; i++) working[i] = 0;
    twice = 0;
    arrived = 0;
    engine_init(&r->engine, ctx, random_fed(ctx, p.clients, size, p.dim, 0, 3), "least_squares", p.ops, 0.01, &spy,
                p.params, 1, p.sgd, p.threads);
    r->spec = (fli_async_spec){
        .exec = r->engine.exec,
        .pace = spy.async.pace(bound(ctx, &r->engine.arena, spy.keys, spy.params_size, p.params)),
        .clients = p.clients,
        .at_work = p.at_work,
        .seed = 5,
        .ask = rig_ask,
        .duration = rig_duration,
        .arg = r,
    };
}

static void rig_init(rig *r, fl_ctx *ctx, plan p)
{
    rig_prepare(r, ctx, p);
    assert_ok(ctx, fli_async_new(ctx, &r->spec, &r->async));
}

static void rig_fini(rig *r)
{
    fli_async_free(r->async);
    engine_fini(&r->engine);
}

static void rig_run(rig *r, size_t steps)
{
    assert_ok(r->engine.ctx, fli_async_run(r->async, steps, &r->asked));
    assert_int_equal(fli_async_steps(r->async), steps);
    assert_int_equal(r->misnumbered, 0);
}

/* ---- the order of events, by hand ------------------------------------------------------------------------ */

static const double by_hand[] = {1, 2.5, 4};
/* Client 0 is back at 1, 2, 3, 4, 5; client 1 at 2.5 and 5; client 2 at 4. Of two that are back at the same time the
 * one that was sent out first comes first: at 4 client 2 (sent at 0), at 5 client 1 (sent at 2.5). */
static const uint32_t order[] = {0, 0, 1, 0, 2, 0, 1, 0};
static const double when[] = {1, 2, 2.5, 3, 4, 4, 5, 5};

static void order_by_hand(void **state)
{
    fixture *f = *state;
    static const size_t age[] = {0, 0, 2, 1, 4, 1, 3, 1};
    rig r;
    rig_init(&r, f->ctx, (plan){.clients = 3, .method = "fedasync", .params = "", .seconds = by_hand});
    assert_true(fli_async_clock(r.async) == 0);
    for (size_t k = 0; k < 8; k++) {
        rig_run(&r, k + 1);
        fli_async_count c = fli_async_count_take(r.async);
        assert_true(fli_async_clock(r.async) == when[k]);
        assert_int_equal(arrived, k + 1);
        assert_int_equal(arrivals[k].client, order[k]);
        assert_int_equal(arrivals[k].age, age[k]);
        assert_int_equal(c.arrived, 1);
        assert_int_equal(c.sent, k ? 1 : 4);
        assert_true(c.steps == 2 + order[k] % 2);
        assert_true(c.staleness == (double)age[k]);
        assert_int_equal(c.staleness_max, age[k]);
        assert_int_equal(r.begun[3 + k], order[k]); /* who came back is sent out again */
        assert_int_equal(r.rounds[3 + k], k + 1);   /* with the newest model */
    }
    rig_run(&r, 8); /* nothing left to do */
    assert_int_equal(arrived, 8);
    assert_int_equal(fli_async_count_take(r.async).arrived, 0);
    rig_fini(&r);
}

/* Two uploads per server step: the same arrivals, other ages. */
static void buffer_by_hand(void **state)
{
    fixture *f = *state;
    static const size_t age[] = {0, 0, 1, 0, 2, 0, 2, 0};
    rig r;
    rig_init(&r, f->ctx, (plan){.clients = 3, .method = "fedbuff", .params = "buffer=2", .seconds = by_hand});
    for (size_t k = 0; k < 4; k++) {
        rig_run(&r, k + 1);
        fli_async_count c = fli_async_count_take(r.async);
        assert_true(fli_async_clock(r.async) == when[2 * k + 1]);
        assert_int_equal(c.arrived, 2);
        assert_int_equal(c.sent, k ? 2 : 5);
        assert_int_equal(arrived, 2 * k + 2);
        assert_true(c.staleness == (double)(age[2 * k] + age[2 * k + 1]));
        for (size_t j = 2 * k; j < 2 * k + 2; j++) {
            assert_int_equal(arrivals[j].client, order[j]);
            assert_int_equal(arrivals[j].age, age[j]);
        }
    }
    rig_fini(&r);
}

/* Everyone equally fast: in the order of sending, over and over. */
static void ties_follow_the_sending_order(void **state)
{
    fixture *f = *state;
    static const double same[] = {2, 2, 2, 2, 2};
    rig r;
    rig_init(&r, f->ctx, (plan){.clients = 5, .method = "fedasync", .params = "", .seconds = same});
    rig_run(&r, 50);
    for (size_t k = 0; k < 50; k++) {
        assert_int_equal(arrivals[k].client, k % 5);
        assert_int_equal(arrivals[k].age, k < 5 ? k : 4);
    }
    assert_true(fli_async_clock(r.async) == 20);
    rig_fini(&r);
}

/* ---- models, by a simulation of its own ------------------------------------------------------------------ */

enum { DIM = 3 };

typedef struct {
    uint32_t client;
    size_t version, number;
    double back, x[DIM];
} out_there;

/* Durations that repeat often enough to make ties. */
static double uneven(uint32_t client, size_t number) { return (double)(1 + (client * 7 + number * 5) % 11) / 4; }

/* z <- this many steps of gradient descent on f_i + rho/2 ||z - x||^2, from x */
static void descend(fixture *f, const fli_fed *fed, uint32_t client, double rho, double lr, const double *x, double *z)
{
    double h[DIM * DIM], q[DIM], g[DIM];
    client_quadratic(f->ctx, fed, client, 0.01, h, q);
    memcpy(z, x, DIM * sizeof *z);
    for (size_t s = 0; s < 2 + client % 2; s++) {
        for (size_t i = 0; i < DIM; i++) {
            g[i] = -q[i] + rho * (z[i] - x[i]);
            for (size_t j = 0; j < DIM; j++) g[i] += h[i * DIM + j] * z[j];
        }
        for (size_t i = 0; i < DIM; i++) z[i] -= lr * g[i];
    }
}

/* The server's part: fedasync alpha 0.7, rho 0.2, power 0.5; fedbuff server_lr 0.8, power 1, K uploads. */
static void absorb_by_hand(int buff, size_t buffer, double age, const out_there *o, const double *z, double *sum,
                           double *x)
{
    double a = 0.7 / sqrt(age + 1);
    for (size_t i = 0; i < DIM; i++)
        if (buff)
            sum[i] += (z[i] - o->x[i]) / (1 + age) * 0.8 / (double)buffer;
        else
            x[i] += a * (z[i] - x[i]);
}

/* Everyone at work; compares the model after every server step. */
static void simulate(fixture *f, const char *method, const char *params, size_t buffer, size_t threads)
{
    enum { CLIENTS = 4, STEPS = 60 };
    int buff = !strcmp(method, "fedbuff");
    out_there out[CLIENTS];
    double x[DIM] = {0}, sum[DIM] = {0}, z[DIM], clock = 0;
    size_t number = 0, held = 0, oldest = 0;
    rig r;
    rig_init(&r, f->ctx,
             (plan){.clients = CLIENTS,
                    .dim = DIM,
                    .method = method,
                    .params = params,
                    .duration = uneven,
                    .threads = threads});
    for (uint32_t i = 0; i < CLIENTS; i++, number++)
        out[i] = (out_there){.client = i, .number = number, .back = uneven(i, number)};
    for (size_t version = 0; version < STEPS;) {
        size_t next = 0;
        for (size_t i = 1; i < CLIENTS; i++)
            if (out[i].back < out[next].back || (out[i].back == out[next].back && out[i].number < out[next].number))
                next = i;
        out_there *o = &out[next];
        size_t age = version - o->version;
        oldest = age > oldest ? age : oldest;
        clock = o->back;
        descend(f, r.engine.fed, o->client, buff ? 0 : 0.2, 0.1, o->x, z);
        absorb_by_hand(buff, buffer, (double)age, o, z, sum, x);
        if (++held == buffer) {
            held = 0;
            version++;
            for (size_t i = 0; i < DIM && buff; i++) x[i] += sum[i];
            memset(sum, 0, sizeof sum);
            rig_run(&r, version);
            const double *have = fli_exec_server(r.engine.exec)[0];
            for (size_t i = 0; i < DIM; i++) assert_near(have[i], x[i], 1e-13);
            assert_near(fli_async_clock(r.async), clock, 1e-12);
        }
        *o = (out_there){o->client, version, number, clock + uneven(o->client, number), {0}};
        memcpy(o->x, x, sizeof x);
        number++;
    }
    assert_true(oldest >= 2 && oldest == fli_async_count_take(r.async).staleness_max);
    assert_true(distance(DIM, x, (double[DIM]){0}) > 0.1);
    rig_fini(&r);
}

static void models_by_simulation(void **state)
{
    simulate(*state, "fedasync", "alpha=0.7;rho=0.2", 1, 1);
    simulate(*state, "fedasync", "alpha=0.7;rho=0.2", 1, 3);
    simulate(*state, "fedbuff", "buffer=1;server_lr=0.8;power=1", 1, 1);
    simulate(*state, "fedbuff", "buffer=3;server_lr=0.8;power=1", 3, 2);
    simulate(*state, "fedbuff", "buffer=2;server_lr=0.8;power=1", 2, 1);
}

/* FedAsync's other two ways of lowering a share, at chosen ages: x = (1 - a) x + a x_i. */
static void shares_follow_the_staleness_rule(void **state)
{
    fixture *f = *state;
    static const char *const params[] = {"alpha=0.5;staleness=constant", "alpha=0.5;staleness=hinge;hinge=2;slope=3",
                                         "alpha=0.5;power=2", "alpha=0.5;staleness=hinge;hinge=0;slope=0.5"};
    static const double want[4][4] = {{0.5, 0.5, 0.5, 0.5},
                                      {0.5, 0.5, 0.5 / 4, 0.5 / 10},
                                      {0.5, 0.5 / 9, 0.5 / 16, 0.5 / 36},
                                      {0.5, 0.5 / 2, 0.5 / 2.5, 0.5 / 3.5}};
    static const size_t age[] = {0, 2, 3, 5};
    for (size_t k = 0; k < 4; k++)
        for (size_t j = 0; j < 4; j++) {
            rig r;
            rig_init(&r, f->ctx, (plan){.clients = 1, .method = "fedasync", .params = params[k], .seconds = by_hand});
            double one = 1, zero = 0, *x = fli_exec_server(r.engine.exec)[0];
            fli_server_state *server = fli_exec_server_state(r.engine.exec);
            fli_exchange upload = {.up = {.vec = (void *[]){&zero}}};
            *x = one;
            fli_server_state_begin(server, &(fli_step){.cohort = 1, .cohort_weight = 1});
            fli_server_state_absorb(server, &upload, age[j]);
            assert_near(*x, 1 - want[k][j], 1e-15);
            rig_fini(&r);
        }
}

/* ---- who is at work -------------------------------------------------------------------------------------- */

static void some_at_work(void **state)
{
    fixture *f = *state;
    enum { CLIENTS = 9 };
    for (size_t m = 1; m <= CLIENTS; m++) {
        rig r;
        double back[CLIENTS], begin[EVENTS];
        size_t late[CLIENTS] = {0};
        rig_init(&r, f->ctx,
                 (plan){.clients = CLIENTS, .at_work = m, .method = "fedasync", .params = "", .duration = uneven});
        for (size_t i = 0; i < CLIENTS; i++) back[i] = -1; /* idle */
        for (size_t k = 0; k < 400; k++) {
            rig_run(&r, k + 1);
            for (size_t i = 0; i < m && !k; i++) begin[i] = 0;
            begin[m + k] = fli_async_clock(r.async);
            for (size_t j = k ? m + k : 0; j <= m + k; j++) { /* those that have set out since */
                uint32_t client = r.begun[j];
                if (j >= m) {
                    assert_true(back[arrivals[k].client] == begin[j]); /* back when it said it would be */
                    back[arrivals[k].client] = -1;
                }
                if (!(back[client] < 0)) fail_msg("client %u is sent out twice", client);
                back[client] = begin[j] + uneven(client, j);
            }
            for (size_t i = 0; i < CLIENTS; i++)
                if (!(back[i] < 0 || back[i] >= fli_async_clock(r.async))) fail_msg("client %zu is forgotten", i);
            late[arrivals[k].client]++;
        }
        for (size_t i = 0; i < CLIENTS; i++) assert_true(late[i] > 10);
        assert_int_equal(twice, 0);
        rig_fini(&r);
    }
}

/* The next client is any idle one, all equally likely: with one at work and equal speeds, within five standard
 * deviations. */
static void drawn_equally(void **state)
{
    fixture *f = *state;
    enum { CLIENTS = 6, STEPS = 6000 };
    static const double same[CLIENTS] = {1, 1, 1, 1, 1, 1};
    for (size_t m = 1; m < CLIENTS; m += 2) {
        rig r;
        rig_init(&r, f->ctx,
                 (plan){.clients = CLIENTS, .at_work = m, .method = "fedasync", .params = "", .seconds = same});
        rig_run(&r, STEPS);
        for (size_t i = 0; i < CLIENTS; i++)
            assert_near((double)r.turns[i], STEPS / 6.0, 5 * sqrt(STEPS * (1 / 6.0) * (5 / 6.0)));
        rig_fini(&r);
    }
}

/* ---- the bound on ages ----------------------------------------------------------------------------------- */

/* One client needs a thousand seconds. Before the second answer of client 0 the server waits for it: the answer would
 * make it 3 steps old. After that all are there, and come in the order of sending. */
static void slow_client(void **state)
{
    fixture *f = *state;
    static const double seconds[] = {1, 1.125, 1000};
    static const uint32_t who[] = {0, 1, 2, 0, 1};
    static const double at[] = {1, 1.125, 1000, 1000, 1000};
    rig r;
    rig_init(&r, f->ctx, (plan){.clients = 3, .method = "fedasync", .params = "tau=2", .seconds = seconds});
    for (size_t k = 0; k < 5; k++) {
        rig_run(&r, k + 1);
        assert_int_equal(arrivals[k].client, who[k]);
        assert_true(fli_async_clock(r.async) == at[k]);
        assert_true(arrivals[k].age <= 2);
    }
    rig_run(&r, 30); /* the slow one is waited for after every other two */
    for (size_t k = 2; k < 30; k++) {
        assert_int_equal(arrivals[k].age, 2);
        assert_int_equal(arrivals[k].client, who[2 + (k - 2) % 3]);
    }
    assert_true(fli_async_clock(r.async) == 10000);
    rig_fini(&r);
}

static double wild(uint32_t client, size_t number)
{
    fli_rng rng;
    fli_rng_init(&rng, 17, FLI_RNG_TEST, (uint32_t)number, client);
    return client == 1 ? 50 : exp(2 * fli_rng_normal(&rng));
}

/* No age is above tau, for any number at work and any buffer, as long as tau can be kept; whatever is below is
 * refused. */
static void ages_are_bounded(void **state)
{
    fixture *f = *state;
    for (size_t m = 1; m <= 7; m += 2)
        for (size_t buffer = 1; buffer <= 8; buffer += 1 + buffer / 2) {
            size_t least = (m - 1 + buffer - 1) / buffer;
            for (size_t tau = 1; tau <= least + 2; tau++) {
                rig r;
                char params[64];
                snprintf(params, sizeof params, "buffer=%zu;tau=%zu", buffer, tau);
                rig_prepare(
                    &r, f->ctx,
                    (plan){.clients = 7, .at_work = m, .method = "fedbuff", .params = params, .duration = wild});
                if (tau < least) {
                    char says[64];
                    snprintf(says, sizeof says, "algorithm.tau is %zu, but with %zu clients", tau, m);
                    assert_fails(f->ctx, fli_async_new(f->ctx, &r.spec, &r.async), FL_ECONFIG, says);
                    assert_null(r.async);
                } else {
                    assert_ok(f->ctx, fli_async_new(f->ctx, &r.spec, &r.async));
                    rig_run(&r, 200);
                    size_t oldest = fli_async_count_take(r.async).staleness_max;
                    assert_true(oldest <= tau);
                    if (m == 7 && tau <= least + 1) assert_int_equal(oldest, tau); /* and the bound is made use of */
                    for (size_t i = 0; i < 7; i++) assert_true(r.turns[i] > 0);
                }
                rig_fini(&r);
            }
        }
}

/* A bound that nobody comes near changes nothing. */
static void loose_bound(void **state)
{
    fixture *f = *state;
    rig a, b;
    arrival first[200];
    double clock;
    rig_init(&a, f->ctx, (plan){.clients = 7, .method = "fedasync", .params = "", .duration = wild});
    rig_run(&a, 200);
    memcpy(first, arrivals, sizeof first);
    clock = fli_async_clock(a.async);
    assert_true(fli_async_count_take(a.async).staleness_max < 190);
    rig_init(&b, f->ctx, (plan){.clients = 7, .method = "fedasync", .params = "tau=200", .duration = wild});
    rig_run(&b, 200);
    assert_true(fli_async_clock(b.async) == clock);
    for (size_t k = 0; k < 200; k++) assert_int_equal(arrivals[k].client, first[k].client);
    rig_fini(&a);
    rig_fini(&b);
}

/* ---- stopping, failing, threads -------------------------------------------------------------------------- */

static void a_stopped_run_goes_on_unchanged(void **state)
{
    fixture *f = *state;
    rig r;
    rig_init(&r, f->ctx, (plan){.clients = 5, .method = "fedasync", .params = "", .duration = uneven});
    r.asked = 1;
    assert_ok(f->ctx, fli_async_run(r.async, 10, &r.asked)); /* asked before it began */
    assert_int_equal(fli_async_steps(r.async), 0);
    assert_int_equal(arrived, 0);
    r.asked = 0;
    r.stop_at = 12; /* in the middle */
    assert_ok(f->ctx, fli_async_run(r.async, 100, &r.asked));
    assert_int_equal(fli_async_steps(r.async), 7);
    assert_int_equal(arrived, fli_async_steps(r.async));
    r.asked = 0;
    rig_run(&r, 40); /* and on */
    double stopped = *(double *)fli_exec_server(r.engine.exec)[0];
    assert_int_equal(arrived, 40);
    rig_fini(&r);
    rig_init(&r, f->ctx, (plan){.clients = 5, .method = "fedasync", .params = "", .duration = uneven});
    rig_run(&r, 40);
    assert_true(stopped == *(double *)fli_exec_server(r.engine.exec)[0]); /* as if nobody had asked */
    rig_fini(&r);
}

/* A client that diverges fails when its answer is due, not before: the same sentence for any number of threads, the
 * same server steps before it; and the run stays failed. */
static void divergence_fails_when_it_is_due(void **state)
{
    fixture *f = *state;
    for (size_t threads = 1; threads <= 3; threads++) {
        rig r;
        rig_init(&r, f->ctx,
                 (plan){.clients = 3, .method = "fedasync", .params = "", .seconds = by_hand, .threads = threads});
        r.diverges = 2;
        assert_fails(f->ctx, fli_async_run(r.async, 20, &r.asked), FL_EDIVERGED,
                     "round 1, client 2: the local model is no longer finite after 2 steps of size 1e+200; try a "
                     "smaller local.lr or algorithm.rho");
        assert_int_equal(fli_async_steps(r.async), 4); /* client 2 is the fifth to arrive */
        assert_true(fli_async_clock(r.async) == 4);
        assert_fails(f->ctx, fli_async_run(r.async, 20, &r.asked), FL_EDIVERGED, "failed already");
        assert_int_equal(fli_async_steps(r.async), 4);
        rig_fini(&r);
    }
}

/* One at work, and the global model is what diverges: nothing is left in the queue. */
static void diverging_server(void **state)
{
    fixture *f = *state;
    rig r;
    rig_init(&r, f->ctx,
             (plan){.clients = 1, .method = "fedbuff", .params = "buffer=1;server_lr=1e300", .duration = uneven});
    assert_fails(f->ctx, fli_async_run(r.async, 100, &r.asked), FL_EDIVERGED, "no longer finite");
    assert_fails(f->ctx, fli_async_run(r.async, 100, &r.asked), FL_EDIVERGED, "failed already");
    rig_fini(&r);
}

/* Mini-batches, both precisions, all three methods, all or some at work, with and without bounds. */
static void same_bits(fixture *f, const char *method, const char *params, size_t at_work, const fli_ops *ops)
{
    double first[5], clock = 0;
    for (size_t threads = 1; threads <= 3; threads++) {
        rig r;
        rig_init(&r, f->ctx,
                 (plan){.clients = 11,
                        .at_work = at_work,
                        .dim = 5,
                        .method = method,
                        .params = params,
                        .ops = ops,
                        .duration = wild,
                        .sgd = {.batch = 2},
                        .threads = threads});
        for (size_t k = 20; k <= 60; k += 20) rig_run(&r, k);
        double *x = engine_vector(&r.engine, 0);
        if (threads == 1) {
            memcpy(first, x, sizeof first);
            clock = fli_async_clock(r.async);
            assert_true(distance(5, x, (double[5]){0}) > 0.05);
        }
        if (memcmp(first, x, sizeof first) || clock != fli_async_clock(r.async))
            fail_msg("%s, %zu at work: %zu threads give other bits", method, at_work, threads);
        assert_int_equal(twice, 0);
        free(x);
        rig_fini(&r);
    }
}

static void threads_agree(void **state)
{
    static const struct {
        const char *method, *params;
    } cases[] = {{"fedasync", ""},          {"fedasync", "tau=10"},
                 {"fedbuff", "buffer=4"},   {"fedbuff", "buffer=3;tau=4"},
                 {"asyncfeddr", "eta=0.5"}, {"asyncfeddr", "eta=0.5;alpha=0.8;tau=10;solver=exact"}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (size_t m = 4; m <= 11; m += 7) {
            same_bits(*state, cases[c].method, cases[c].params, m, &fli_ops_f64);
            same_bits(*state, cases[c].method, cases[c].params, m, &fli_ops_f32);
        }
}

/* Every allocation fails in turn: always FL_ENOMEM, or an answer that was never needed. */
static void memory_may_run_out(void **state)
{
    fixture *f = *state;
    size_t failures = 0;
    for (size_t k = 1; k < 80; k++) {
        rig r;
        rig_prepare(&r, f->ctx,
                    (plan){.clients = 4,
                           .dim = 2,
                           .method = "asyncfeddr",
                           .params = "solver=exact",
                           .duration = uneven,
                           .threads = 1 + k % 2});
        fli_ctx_fail_alloc(f->ctx, k);
        fl_status s = fli_async_new(f->ctx, &r.spec, &r.async);
        if (!s) s = fli_async_run(r.async, 12, &r.asked);
        fli_ctx_fail_alloc(f->ctx, 0);
        if (s) {
            failures++;
            assert_int_equal(s, FL_ENOMEM);
            assert_non_null(strstr(fl_ctx_error(f->ctx), "out of memory"));
        }
        fli_clear(f->ctx);
        rig_fini(&r);
    }
    assert_true(failures > 10 && failures < 79);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(order_by_hand),
        FIXTURE_TEST(buffer_by_hand),
        FIXTURE_TEST(ties_follow_the_sending_order),
        FIXTURE_TEST(models_by_simulation),
        FIXTURE_TEST(shares_follow_the_staleness_rule),
        FIXTURE_TEST(some_at_work),
        FIXTURE_TEST(drawn_equally),
        FIXTURE_TEST(slow_client),
        FIXTURE_TEST(ages_are_bounded),
        FIXTURE_TEST(loose_bound),
        FIXTURE_TEST(a_stopped_run_goes_on_unchanged),
        FIXTURE_TEST(divergence_fails_when_it_is_due),
        FIXTURE_TEST(diverging_server),
        FIXTURE_TEST(threads_agree),
        FIXTURE_TEST(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
