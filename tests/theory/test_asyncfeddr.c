/* asyncFedDR: sure descent under delays (Lemma B.2), and the composite optimum. Which of the three functions that the
 * paper calls (62) descends is found out here, too. */
#include "composite.h"
#include "runs.h"

#include "engine/async.h"

/* ---- turns with chosen delays ---------------------------------------------------------------------------- */

enum { STEPS = 600 };

/* Server steps one by one: `history` has xbar after every one of them. */
typedef struct {
    engine e;
    quadratics p;
    fli_exchange x;
    size_t step;
    double history[STEPS + 1][DIM];
} steps;

static void begin_step(steps *s)
{
    fli_step next = {.round = s->step, .cohort = 1, .cohort_weight = 1.0 / N};
    fli_server_state_begin(fli_exec_server_state(s->e.exec), &next);
}

static void steps_begin(steps *s, fixture *f, const char *params, const term *g, const double *x0)
{
    memset(s, 0, sizeof *s);
    start(&s->e, f, "asyncfeddr", params, g, x0, 1, &s->p);
    memcpy(s->history[0], server(&s->e, 0), sizeof s->history[0]);
    assert_ok(f->ctx, fli_exec_upload_new(s->e.exec, &s->x.up));
    begin_step(s);
}

static void steps_end(steps *s)
{
    fli_message_fini(&s->x.up);
    engine_fini(&s->e);
}

/* The client comes back with a turn that began `delay` server steps ago. */
static void step(steps *s, uint32_t client, size_t delay)
{
    fli_server_state *c = fli_exec_server_state(s->e.exec);
    fli_exchange *x = &s->x;
    assert_true(delay <= s->step && s->step < STEPS);
    fli_message down = {.vec = (void *[]){s->history[s->step - delay]}, .start = fli_server_state_broadcast(c)->start};
    x->ask = (fl_ask){.client = client,
                      .round = s->step,
                      .stream = s->step,
                      .steps = 1,
                      .lr = 0.05,
                      .cohort = 1,
                      .phases = 1,
                      .flags = FLI_ASK_HAS_BODY | FLI_ASK_REPLY};
    x->down = &down;
    fli_server_state_address(c, &x->ask);
    fli_server_state_note(c, &x->ask);
    fli_exec_run(s->e.exec, &x, 1);
    assert_int_equal(x->status, FL_OK);
    fli_server_state_absorb(c, x, delay);
    assert_ok(s->e.ctx, fli_server_state_advance(c, NULL));
    s->step++;
    begin_step(s);
    memcpy(s->history[s->step], server(&s->e, 0), sizeof s->history[0]);
}

/* A random client and a random delay of at most tau, often tau itself. */
static void random_step(steps *s, fli_rng *rng, size_t tau)
{
    uint32_t client = (uint32_t)fli_rng_below(rng, N);
    size_t delay = fli_rng_below(rng, 2) ? tau : fli_rng_below(rng, tau + 1);
    step(s, client, delay < s->step ? delay : s->step);
}

/* xt is the mean of all 2 x_i - y_i and xbar its prox, whatever the delays and however good the local solutions. */
static void mean_of_reflections(void **state)
{
    static const double x0[DIM] = {0.5, -1, 0.3, 2, -0.4};
    static const char *const params[] = {"eta=0.3;solver=exact;alpha=0.7", "eta=0.3;solver=sgd"};
    for (size_t k = 0; k < 2; k++) {
        steps s;
        fli_rng rng;
        fli_rng_init(&rng, 1, FLI_RNG_TEST, 0, 0);
        steps_begin(&s, *state, params[k], &l1, x0);
        for (size_t t = 0; t < 200; t++) {
            double mean[DIM] = {0};
            random_step(&s, &rng, 9);
            for (size_t i = 0; i < N; i++)
                for (size_t d = 0; d < DIM; d++) mean[d] += (2 * seen_x[i][d] - seen_y[i][d]) / N;
            for (size_t d = 0; d < DIM; d++) assert_near(server(&s.e, 1)[d], mean[d], 1e-12);
            g_prox(&l1, 0.3, mean);
            for (size_t d = 0; d < DIM; d++) assert_near(server(&s.e, 0)[d], mean[d], 1e-12);
        }
        steps_end(&s);
    }
}

/* ---- Lemma B.2 ------------------------------------------------------------------------------------------- */

/* (63). The closed form of eta has 12 c where the paper prints 4 c: it is the root of what is written before it. */
static double largest_alpha(double n, double tau)
{
    return 2 * tau * tau <= n ? 1 : 2 / (2 + (2 * tau * tau - n) / (n * n));
}

static double largest_eta(double n, double tau, double alpha, double l)
{
    double c = 2 * tau * tau <= n ? 0 : (2 * tau * tau - n) / (n * n);
    return (sqrt(16 - 8 * alpha - (7 + 12 * c + 4 * c * c) * alpha * alpha) - alpha) / (2 * l * (2 + (1 + c) * alpha));
}

static double rho_of(double n, double tau, double alpha, double eta, double l)
{
    double le = l * eta, plain = 2 * (1 - alpha) - (2 + alpha) * le * le - le * alpha;
    if (2 * tau * tau <= n) return plain / (alpha * eta * n);
    return (n * n * plain - alpha * (1 + le * le) * (2 * tau * tau - n)) / (alpha * eta * n * n * n);
}

/* sum over l = k - tau ... k - 1 of (l - (k - tau) + 1) ||xbar^{l+1} - xbar^l||^2, `width` numbers per xbar */
static double memory(const double *xbar, size_t width, size_t k, size_t tau)
{
    double sum = 0;
    for (size_t l = k > tau ? k - tau : 0; l < k; l++)
        sum += (double)(l + tau + 1 - k) * pow(distance(width, xbar + l * width, xbar + (l + 1) * width), 2);
    return sum;
}

/* (21), y_i = x_i + eta grad f_i(x_i), of everyone: by how much it is missed */
static double without_21(const quadratics *p, double eta)
{
    double worst = 0, g[DIM];
    for (size_t i = 0; i < N; i++) {
        gradient(p, i, seen_x[i], g);
        for (size_t k = 0; k < DIM; k++) worst = fmax(worst, fabs(seen_y[i][k] - seen_x[i][k] - eta * g[k]));
    }
    return worst;
}

/* z = prox_{eta f_i}(y): (h + 1/eta) z = q + y/eta */
static void prox_of(const quadratics *p, size_t i, double eta, const double *y, double *z)
{
    double m[DIM * DIM];
    memcpy(m, p->h[i], sizeof m);
    for (size_t k = 0; k < DIM; k++) {
        m[k * DIM + k] += 1 / eta;
        z[k] = p->q[i][k] + y[k] / eta;
    }
    solve_linear(DIM, m, z);
}

/* By how much (64) is missed at worst in random steps with eta = share times the largest; with share > 1 by how much
 * the function increases. From an exact start, without which (21) is false of those who have not had a turn. The first
 * step counts only where 2 tau^2 <= n: else (61) takes x0 for the prox of the first xt, which it is not. */
static double descent(fixture *f, const term *g, size_t tau, double alpha_share, double eta_share)
{
    static steps s;
    fli_rng rng;
    char params[128];
    quadratics p;
    fli_fed_free(quadratics_of(f->ctx, &p));
    double t = (double)tau, alpha = alpha_share * largest_alpha(N, t);
    double eta = eta_share * largest_eta(N, t, alpha, p.l), rho = rho_of(N, t, alpha, eta, p.l);
    assert_true((rho > 0) == (eta_share < 1)); /* (63) is rho > 0, solved for eta */
    snprintf(params, sizeof params, "eta=%.17g;alpha=%.17g;solver=exact;init=exact;tau=%zu", eta, alpha, tau);
    fli_rng_init(&rng, 2, FLI_RNG_TEST, 0, (uint32_t)tau);
    steps_begin(&s, f, params, g, NULL);
    assert_true(without_21(&p, eta) < 1e-12);
    double missed = -INFINITY, first = 0, v = 0;
    while (s.step < STEPS) {
        double before[N][DIM], moved = 0;
        v = lyapunov(&p, g, eta, server(&s.e, 0)) + t / (N * eta) * memory(s.history[0], DIM, s.step, tau);
        int counts = s.step || 2 * tau * tau <= N;
        if (!s.step) first = v;
        if (s.step % 50 < 3) assert_near(engine_potential(&s.e, 0.05), v, 1e-12 * fmax(1, fabs(v))); /* the metric */
        memcpy(before, seen_x, sizeof before);
        random_step(&s, &rng, tau);
        for (size_t i = 0; i < N; i++) moved += pow(distance(DIM, before[i], seen_x[i]), 2);
        double next = lyapunov(&p, g, eta, server(&s.e, 0)) + t / (N * eta) * memory(s.history[0], DIM, s.step, tau);
        if (counts) missed = fmax(missed, next - v + (eta_share < 1 ? rho / 2 * moved : 0));
        v = next;
    }
    if (eta_share < 1) assert_true(v < first - 1e-3);
    steps_end(&s);
    return missed;
}

static void sure_descent(void **state)
{
    static const term *const terms[] = {&none, &l1, &box, &ball};
    static const size_t taus[] = {1, 3, 5, 20}; /* with 6 clients the first is the case 2 tau^2 <= n */
    for (size_t k = 0; k < sizeof terms / sizeof *terms; k++)
        for (size_t t = 0; t < 4; t++)
            for (double a = 0.99; a > 0.3; a -= 0.3)
                for (double e = 0.99; e > 0.1; e /= 4) {
                    double missed = descent(*state, terms[k], taus[t], a, e);
                    if (!(missed < 1e-12))
                        fail_msg("%s, tau %zu, %g and %g of what is allowed: (64) is missed by %g", terms[k]->name,
                                 taus[t], a, e, missed);
                }
    /* far outside the condition the function increases: the test can tell */
    assert_true(descent(*state, &none, 5, 0.99, 200) > 1e-3);
}

/* Who comes back in step k: clients as fast as each other come in the order of their numbers if all are at work, at
 * most N - 1 steps late; where one is, it is drawn, and never late. */
static size_t who_comes(size_t k, int alone)
{
    fli_rng rng;
    fli_rng_init(&rng, 3, FLI_RNG_COHORT, (uint32_t)k, 1);
    return alone ? fli_rng_below(&rng, N) : k % N;
}

/* What the metric says of x_i that the server has not heard of: nothing. Clients that have worked already count as they
 * were, and those in their first turn, which has not come yet, with x0. Everything is followed here. */
static void clients_ahead(void **state)
{
    enum { TAU = 7, RUN = 40 };
    static const char yaml[] = "seed: 3\nrounds: 40\nthreads: 2\nprecision: f64\nparticipation: everyone\n"
                               "model: {kind: least_squares, weight_decay: 0.1}\nsystem: constant\n"
                               "data: {kind: linreg, clients: 6, features: 5}\nregularizer: {kind: l1, weight: 0.3}\n"
                               "algorithm: {kind: asyncfeddr, eta: 0.02, alpha: 0.7, tau: 7, solver: exact}\n"
                               "local: {batch: 0}\nmetrics: {potential: true}\n";
    const double eta = 0.02, alpha = 0.7;
    fixture *f = *state;
    for (int way = 0; way < 3; way++) {
        int lazy = way > 0, alone = way > 1;
        fl_run *run = run_done(f, yaml,
                               alone  ? "participation={kind: uniform, count: 1}"
                               : lazy ? ""
                                      : "algorithm.init=exact");
        static double bar[RUN + 1][DIM], x[N][DIM], y[N][DIM];
        quadratics p;
        const fl_row *rows;
        memset(bar, 0, sizeof bar);
        memset(x, 0, sizeof x);
        memset(y, 0, sizeof y);
        quadratics_from(f->ctx, run->plan.fed, &p);
        for (size_t i = 0; i < N && !lazy; i++) prox_of(&p, i, eta, y[i], x[i]);
        assert_int_equal(fl_run_rows(run, &rows), RUN + 1);
        for (size_t k = 0; k <= RUN; k++) {
            memcpy(seen_x, x, sizeof x);
            double v = lyapunov(&p, &l1, eta, bar[k]) + TAU / (N * eta) * memory(bar[0], DIM, k, TAU);
            double have = fl_row_get(&rows[k], "potential");
            if (!(fabs(have - v) <= 1e-12 * fmax(1, fabs(v)))) fail_msg("step %zu: %.17g and %.17g", k, have, v);
            if (k == RUN) break;
            size_t i = who_comes(k, alone);
            const double *from = bar[alone ? k : k < N ? 0 : k + 1 - N]; /* as of when it had come back */
            for (size_t d = 0; d < DIM; d++) y[i][d] += alpha * (from[d] - x[i][d]);
            prox_of(&p, i, eta, y[i], x[i]);
            for (size_t d = 0; d < DIM; d++)
                for (size_t j = 0; j < N; j++) bar[k + 1][d] += (2 * x[j][d] - y[j][d]) / N;
            g_prox(&l1, eta, bar[k + 1]);
        }
        fl_run_free(run);
    }
}

/* Without a bound on the delay, and with one beyond what is remembered, there is no such function. */
static void no_memory(void **state)
{
    fixture *f = *state;
    static const char yaml[] = "seed: 3\nrounds: 5\nmodel: least_squares\nsystem: constant\n"
                               "data: {kind: linreg, clients: 6, features: 4}\nmetrics: {potential: true}\n"
                               "algorithm: {kind: asyncfeddr, eta: 0.02, solver: exact}\n";
    static const char *const taus[] = {"algorithm.tau=0", "algorithm.tau=65537", "algorithm.tau=65536"};
    for (size_t i = 0; i < 3; i++) {
        fl_run *run = run_done(f, yaml, taus[i]);
        assert_true(isnan(fl_row_get(fl_run_row(run), "potential")) == (i < 2));
        fl_run_free(run);
    }
}

/* A lazy start is none that (21) is true of. */
static void lazy_start(void **state)
{
    static steps s;
    quadratics p;
    fli_fed_free(quadratics_of(((fixture *)*state)->ctx, &p));
    steps_begin(&s, *state, "eta=0.3;solver=exact;init=lazy", &none, NULL);
    step(&s, 0, 0);
    assert_true(without_21(&p, 0.3) > 1e-3);
    for (uint32_t i = 1; i < N; i++) step(&s, i, 1);
    assert_true(without_21(&p, 0.3) < 1e-12);
    steps_end(&s);
}

/* The paper has three factors of the sum in (62): 1/(n eta) in the statement of Lemma B.2, tau/(eta n^2) in its proof,
 * and tau/(n eta) in (53), which the proof refers to. Only the last one is right. The first two increase here, well
 * inside (63): 32 clients with f_i(x) = h x^2/2; tau = 4 of them pull xbar down by equal steps, and a fifth, with the
 * oldest delay allowed, goes up to where xbar was. Along a straight line ||xbar^{k-tau} - xbar^k||^2 is tau times the
 * sum of the squared steps, and that tau is what the other two lack. */
static void which_function(void **state)
{
    enum { CLIENTS = 32, TAU = 4 };
    const double n = CLIENTS, tau = TAU, alpha = 0.9, l = 1, eta = 0.1 * largest_eta(n, tau, alpha, l), u = l * eta;
    const double factor[] = {tau / (n * eta), 1 / (n * eta), tau / (eta * n * n)};
    double x[CLIENTS] = {0}, bar[TAU + 2] = {0}, v[3][2] = {{0}}, moved = 0;
    (void)state;
    assert_true(alpha < largest_alpha(n, tau) && rho_of(n, tau, alpha, eta, l) > 0);
    for (size_t i = 1; i <= TAU; i++) x[i] = n;
    for (size_t i = 0; i < CLIENTS; i++) bar[0] += (1 - u) * x[i] / n; /* xh_i = 2 x_i - y_i, y_i = (1 + u) x_i */
    x[0] = bar[0] / (1 - (1 - u) / n) - tau / (2 - alpha);
    bar[0] += (1 - u) * x[0] / n;
    for (size_t k = 0; k <= TAU; k++) { /* clients 1 ... tau without delay, client 0 with delay tau */
        size_t i = (k + 1) % (TAU + 1);
        double y = (1 + u) * x[i] + alpha * ((i ? bar[k] : bar[0]) - x[i]), old = x[i];
        for (size_t c = 0; c < 3 && !i; c++) v[c][0] = factor[c] * memory(bar, 1, k, TAU);
        for (size_t j = 0; j < CLIENTS && !i; j++)
            for (size_t c = 0; c < 3; c++)
                v[c][0] += (l * x[j] * x[j] / 2 + l * x[j] * (bar[k] - x[j]) + pow(bar[k] - x[j], 2) / (2 * eta)) / n;
        x[i] = y / (1 + u);
        bar[k + 1] = bar[k] + (1 - u) * (x[i] - old) / n;
        moved = x[i] - old;
    }
    for (size_t c = 0; c < 3; c++) {
        v[c][1] = factor[c] * memory(bar, 1, TAU + 1, TAU);
        for (size_t j = 0; j < CLIENTS; j++)
            v[c][1] +=
                (l * x[j] * x[j] / 2 + l * x[j] * (bar[TAU + 1] - x[j]) + pow(bar[TAU + 1] - x[j], 2) / (2 * eta)) / n;
    }
    assert_true(v[0][1] <= v[0][0] - rho_of(n, tau, alpha, eta, l) / 2 * moved * moved);
    assert_true(v[1][1] > 1.001 * v[1][0]);
    assert_true(v[2][1] > 1.001 * v[2][0]);
}

/* ---- the optimum, by the event engine -------------------------------------------------------------------- */

static void ask(void *arg, fl_ask *out)
{
    (void)arg;
    out->steps = 400; /* for SGD; with full batches it is gradient descent */
    out->lr = 0.05;
    out->probability = 1;
}

/* Of any length, client 0 ten times slower. */
static double random_duration(void *arg, const fl_ask *what)
{
    fli_rng rng;
    (void)arg;
    fli_rng_init(&rng, 9, FLI_RNG_TEST, (uint32_t)what->stream, what->client);
    return exp(1.5 * fli_rng_normal(&rng)) * (what->client ? 1 : 10);
}

static double same_duration(void *arg, const fl_ask *what)
{
    (void)arg;
    (void)what;
    return 1;
}

static fli_async *begin_async(engine *e, const char *params, size_t at_work,
                              double (*duration)(void *arg, const fl_ask *what))
{
    fli_async *a = NULL;
    fli_async_spec spec = {
        .exec = e->exec,
        .pace = spy.async.pace(bound(e->ctx, &e->arena, spy.keys, spy.params_size, params)),
        .clients = N,
        .at_work = at_work,
        .seed = 3,
        .ask = ask,
        .duration = duration,
    };
    assert_ok(e->ctx, fli_async_new(e->ctx, &spec, &a));
    return a;
}

static void reaches(fixture *f, const char *params, const term *g, size_t at_work, double tolerance)
{
    engine e;
    quadratics p;
    double want[DIM];
    atomic_int asked = 0;
    start(&e, f, "asyncfeddr", params, g, NULL, 1, &p);
    optimum(&p, g, want);
    fli_async *a = begin_async(&e, params, at_work, random_duration);
    assert_ok(f->ctx, fli_async_run(a, 6000, &asked));
    const double *x = server(&e, 0);
    double mapping = gradient_mapping(&p, g, 0.1, x), d = distance(DIM, x, want);
    if (!(mapping < 10 * tolerance && d < tolerance))
        fail_msg("%s, %s, %zu at work: gradient mapping %g, %g from the optimum", params, g->name, at_work, mapping, d);
    for (size_t k = 0; k < DIM; k++) { /* what is on the edge is there exactly */
        if (g == &l1) assert_int_equal(x[k] == 0, want[k] == 0);
        if (g == &box) assert_int_equal(x[k] == g->a || x[k] == g->b, want[k] == g->a || want[k] == g->b);
    }
    assert_true(fli_async_count_take(a).staleness_max >= (at_work > 1 ? at_work - 1 : 0));
    fli_async_free(a);
    engine_fini(&e);
}

static void composite_optimum(void **state)
{
    static const term *const terms[] = {&none, &l1, &box, &ball};
    for (size_t k = 0; k < sizeof terms / sizeof *terms; k++) {
        reaches(*state, "eta=0.2;alpha=0.9;tau=8;solver=exact", terms[k], N, 1e-8);
        reaches(*state, "eta=0.2;alpha=1;solver=exact", terms[k], N, 1e-8); /* no bound: the default */
        reaches(*state, "eta=0.2;alpha=0.9;solver=exact", terms[k], 3, 1e-8);
        reaches(*state, "eta=0.2;alpha=0.9;solver=exact", terms[k], 1, 1e-8);
        reaches(*state, "eta=0.2;alpha=0.9;tau=2;solver=exact", terms[k], 3, 1e-8);
        reaches(*state, "eta=0.2;alpha=0.9;solver=sgd", terms[k], N, 1e-6);
    }
}

/* ---- FedDR ----------------------------------------------------------------------------------------------- */

/* The l1 problem is not trivial. */
static void some_zeros(void **state)
{
    quadratics p;
    double want[DIM];
    size_t zeros = 0;
    fli_fed_free(quadratics_of(((fixture *)*state)->ctx, &p));
    optimum(&p, &l1, want);
    for (size_t k = 0; k < DIM; k++) zeros += want[k] == 0;
    assert_true(zeros > 0 && zeros < DIM);
}

/* Everyone equally fast: n server steps are like a round of FedDR, except that the server moves within it. The models
 * differ on the way and meet in the end; so do the clients' x_i. */
static void like_feddr(void **state)
{
    enum { ROUNDS = 1500 };
    fixture *f = *state;
    engine e;
    quadratics p;
    atomic_int asked = 0;
    double early[DIM], last[DIM], x[N][DIM];
    start(&e, f, "feddr", "eta=0.2;alpha=0.9;solver=exact", &l1, NULL, 1, &p);
    for (size_t r = 0; r < ROUNDS; r++) {
        engine_round(&e, e.everyone, N, 0.05);
        if (r == 2) memcpy(early, server(&e, 0), sizeof early);
    }
    memcpy(last, server(&e, 0), sizeof last);
    memcpy(x, seen_x, sizeof x);
    engine_fini(&e);
    start(&e, f, "asyncfeddr", "eta=0.2;alpha=0.9;solver=exact", &l1, NULL, 1, &p);
    fli_async *a = begin_async(&e, "", N, same_duration);
    /* the first n answers are FedDR's first round: all from x0, absorbed one by one */
    assert_ok(f->ctx, fli_async_run(a, N, &asked));
    assert_true(fli_async_clock(a) == 1);
    assert_ok(f->ctx, fli_async_run(a, 3 * N, &asked));
    assert_true(fli_async_clock(a) == 3);
    assert_true(distance(DIM, early, server(&e, 0)) > 1e-3);
    assert_ok(f->ctx, fli_async_run(a, ROUNDS * N, &asked));
    assert_true(distance(DIM, last, server(&e, 0)) < 1e-9);
    for (size_t i = 0; i < N; i++) assert_true(distance(DIM, x[i], seen_x[i]) < 1e-8);
    fli_async_free(a);
    engine_fini(&e);
}

/* The first round itself is the same: everyone works from x0, and the sum does not care about the order. */
static void first_round(void **state)
{
    fixture *f = *state;
    engine e;
    quadratics p;
    atomic_int asked = 0;
    double xt[DIM];
    start(&e, f, "feddr", "eta=0.2;alpha=0.9;solver=exact", &none, NULL, 1, &p);
    engine_round(&e, e.everyone, N, 0.05);
    memcpy(xt, server(&e, 1), sizeof xt);
    engine_fini(&e);
    start(&e, f, "asyncfeddr", "eta=0.2;alpha=0.9;solver=exact", &none, NULL, 1, &p);
    fli_async *a = begin_async(&e, "", N, same_duration);
    assert_ok(f->ctx, fli_async_run(a, N, &asked));
    for (size_t k = 0; k < DIM; k++) assert_near(server(&e, 1)[k], xt[k], 1e-14);
    assert_true(distance(DIM, xt, (double[DIM]){0}) > 0.01);
    fli_async_free(a);
    engine_fini(&e);
}

/* Before the first server step everyone computes a prox: an exchange with everyone, on the virtual clock like any
 * other, and the same through every executor. */
static void exact_start_of_a_run(void **state)
{
    static const char yaml[] = "seed: 3\nrounds: 40\nthreads: 2\nprecision: f64\nmodel: least_squares\n"
                               "data: {kind: linreg, clients: 6, features: 4}\nparticipation: everyone\n"
                               "algorithm: {kind: asyncfeddr, eta: 0.2, solver: exact}\nsystem: {kind: lognormal}\n";
    fixture *f = *state;
    fl_run *lazy = run_done(f, yaml, ""), *exact = run_done(f, yaml, "algorithm.init=exact");
    fl_run *apart = run_done(f, yaml, "algorithm.init=exact;executor=loopback;threads=1");
    const fl_row *a, *b, *c;
    size_t n = fl_run_rows(lazy, &a);
    double vector = 4 * sizeof(double);
    assert_int_equal(fl_run_rows(exact, &b), n);
    assert_int_equal(fl_run_rows(apart, &c), n);
    assert_true(fl_row_get(b, "bytes_up") == 6 * vector && fl_row_get(a, "bytes_up") == 0);
    assert_true(fl_row_get(b, "simulated_seconds") > 0);
    for (size_t i = 0; i < n; i++) {
        assert_true(fl_row_get(&b[i], "communications") == fl_row_get(&a[i], "communications") + 1);
        assert_true(i == 0 || fl_row_get(&b[i], "simulated_seconds") >= fl_row_get(&b[i - 1], "simulated_seconds"));
        assert_true(fl_row_get(&b[i], "train_loss") == fl_row_get(&c[i], "train_loss"));
        assert_true(fl_row_get(&b[i], "simulated_seconds") == fl_row_get(&c[i], "simulated_seconds"));
    }
    assert_true(fl_row_get(&b[n - 1], "train_loss") != fl_row_get(&a[n - 1], "train_loss"));
    fl_run_free(lazy);
    fl_run_free(exact);
    fl_run_free(apart);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(mean_of_reflections), FIXTURE_TEST(sure_descent), FIXTURE_TEST(which_function),
        FIXTURE_TEST(composite_optimum),   FIXTURE_TEST(some_zeros),   FIXTURE_TEST(like_feddr),
        FIXTURE_TEST(first_round),         FIXTURE_TEST(lazy_start),   FIXTURE_TEST(exact_start_of_a_run),
        FIXTURE_TEST(clients_ahead),       FIXTURE_TEST(no_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
