/* What the papers prove, on heterogeneous quadratics in double precision: who reaches the optimum of sum w_i f_i and
 * who does not. Optima and fixed points are computed here by elimination, from the raw data. */
#include "fixture.h"

#include "algo/algo.h"

enum { DIM = 4, N = 6 };
static const size_t sizes[N] = {8, 12, 20, 9, 15, 30};

typedef struct {
    double h[N][DIM * DIM], q[N][DIM], w[N];
    double optimum[DIM]; /* of sum w_i f_i */
} quadratics;

/* Solves sum_i weight_i B_i (h_i x - q_i) = 0. B_i = b[i], or the identity. */
static void fixed_point(const quadratics *p, const double *weight, double (*b)[DIM * DIM], double *x)
{
    double a[DIM * DIM] = {0};
    memset(x, 0, DIM * sizeof *x);
    for (size_t i = 0; i < N; i++)
        for (size_t r = 0; r < DIM; r++)
            for (size_t k = 0; k < DIM; k++) {
                double c = weight[i] * (b ? b[i][r * DIM + k] : r == k);
                x[r] += c * p->q[i][k];
                for (size_t j = 0; j < DIM; j++) a[r * DIM + j] += c * p->h[i][k * DIM + j];
            }
    solve_linear(DIM, a, x);
}

static fli_fed *quadratics_of(fixture *f, int uniform, double l2, quadratics *p)
{
    fli_fed *fed = random_fed(f->ctx, N, sizes, DIM, 0, 11);
    for (size_t i = 0; i < N; i++) {
        client_quadratic(f->ctx, fed, i, l2, p->h[i], p->q[i]);
        p->w[i] = uniform ? 1.0 / N : (double)sizes[i] / (double)fed->samples;
    }
    fixed_point(p, p->w, NULL, p->optimum);
    return fed;
}

/* Q steps of gradient descent from x end at x - lr B (h x - q) with B = sum_{t<Q} (I - lr h)^t. */
static void accumulated(const double *h, double lr, size_t q, double *b)
{
    double power[DIM * DIM], next[DIM * DIM];
    memset(b, 0, DIM * DIM * sizeof *b);
    for (size_t i = 0; i < DIM * DIM; i++) power[i] = i % (DIM + 1) == 0;
    for (size_t t = 0; t < q; t++) {
        for (size_t i = 0; i < DIM * DIM; i++) b[i] += power[i];
        for (size_t r = 0; r < DIM; r++)
            for (size_t c = 0; c < DIM; c++) {
                next[r * DIM + c] = power[r * DIM + c];
                for (size_t k = 0; k < DIM; k++) next[r * DIM + c] -= lr * h[r * DIM + k] * power[k * DIM + c];
            }
        memcpy(power, next, sizeof power);
    }
}

/* An engine on the quadratics; the weights follow the method. */
static void start(engine *e, fixture *f, const fl_method *a, const char *params, double l2, quadratics *p)
{
    fli_fed *fed = quadratics_of(f, a->traits & FL_METHOD_UNIFORM, l2, p);
    engine_init(e, f->ctx, fed, "least_squares", &fli_ops_f64, l2, a, params, 0, (fli_sgd_spec){0, 0}, 1);
}

static double away(engine *e, const double *from)
{
    double *x = engine_vector(e, 0), d = distance(DIM, x, from);
    free(x);
    return d;
}

/* ---- everyone takes part --------------------------------------------------------------------------------- */

static void fedavg_stalls(void **state)
{
    fixture *f = *state;
    engine e;
    quadratics p;
    double b[N][DIM * DIM], limit[DIM];
    start(&e, f, algo_named("fedavg"), "", 0.1, &p);
    engine_rounds(&e, 400, 10, 0.1);
    double d = away(&e, p.optimum);
    assert_true(d > 1e-2);
    engine_rounds(&e, 400, 10, 0.1);
    assert_near(away(&e, p.optimum), d, 1e-9); /* it has converged: to something else, */
    for (size_t i = 0; i < N; i++) accumulated(p.h[i], 0.1, 10, b[i]);
    fixed_point(&p, p.w, b, limit);
    assert_true(away(&e, limit) < 1e-9); /* namely here */
    engine_fini(&e);
}

static void fedavg_with_one_step_converges(void **state)
{
    fixture *f = *state;
    engine e;
    quadratics p;
    start(&e, f, algo_named("fedavg"), "", 0.1, &p);
    engine_rounds(&e, 1500, 1, 0.2);
    assert_true(away(&e, p.optimum) < 1e-9);
    engine_fini(&e);
}

static void corrected_methods_converge(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *name, *params;
        size_t steps;
        double lr;
    } cases[] = {
        {"scaffold", "", 10, 0.05},
        {"vrl-sgd", "", 10, 0.05},
        {"fedlin", "", 10, 0.05},
        {"scaffnew", "p=0.1", 10, 0.05},
        {"feddyn", "alpha=0.5", 40, 0.1},
        {"fedpd", "eta=0.5", 40, 0.1},
        {"scaffold", "server_lr=0.5", 5, 0.1},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        engine e;
        quadratics p;
        start(&e, f, algo_named(cases[i].name), cases[i].params, 0.1, &p);
        double begin = away(&e, p.optimum);
        assert_true(begin > 0.1);
        engine_rounds(&e, 1500, cases[i].steps, cases[i].lr);
        double d = away(&e, p.optimum);
        if (!(d < 1e-7)) fail_msg("%s %s: still %g from the optimum", cases[i].name, cases[i].params, d);
        engine_fini(&e);
    }
}

/* Clients that take different numbers of steps. (VRL-SGD is only defined for equal ones: its D_i no longer add up to
 * 0.) */
static void uneven_steps(void **state)
{
    fixture *f = *state;
    static const char *const names[] = {"scaffold", "fedlin", "fedavg"};
    for (size_t k = 0; k < 3; k++) {
        engine e;
        quadratics p;
        start(&e, f, algo_named(names[k]), "", 0.1, &p);
        for (size_t i = 0; i < N; i++) e.steps[i] = 1 + 2 * i;
        engine_rounds(&e, 1500, 0, 0.05);
        double d = away(&e, p.optimum);
        if (k < 2 ? !(d < 1e-7) : !(d > 1e-2)) fail_msg("%s: %g from the optimum", names[k], d);
        engine_fini(&e);
    }
}

/* ---- a sample takes part --------------------------------------------------------------------------------- */

static void sampled(fixture *f, const char *name, const char *params, size_t steps, double lr, size_t rounds, double *d)
{
    engine e;
    quadratics p;
    fli_rng rng;
    uint32_t cohort[N];
    start(&e, f, algo_named(name), params, 0.1, &p);
    for (size_t i = 0; i < N; i++) e.steps[i] = steps;
    fli_rng_init(&rng, 2, FLI_RNG_TEST, 0, 0);
    for (size_t r = 0; r < rounds; r++) {
        fli_rng_sample(&rng, N, 3, cohort);
        engine_round(&e, cohort, 3, lr);
    }
    *d = away(&e, p.optimum);
    engine_fini(&e);
}

static void corrected_methods_converge_under_sampling(void **state)
{
    double d;
    sampled(*state, "scaffold", "", 5, 0.05, 6000, &d);
    assert_true(d < 1e-7);
    sampled(*state, "feddyn", "alpha=0.5", 40, 0.1, 6000, &d);
    assert_true(d < 1e-7);
    sampled(*state, "fedavg", "", 5, 0.05, 3000, &d);
    assert_true(d > 1e-2);
}

/* ---- unequal numbers of steps: FedNova ------------------------------------------------------------------- */

static void fednova_has_the_right_fixed_point(void **state)
{
    fixture *f = *state;
    static const double lr = 0.002;
    double at[2], limit[DIM];
    for (int nova = 0; nova < 2; nova++) {
        engine e;
        quadratics p;
        double b[N][DIM * DIM], weight[N];
        start(&e, f, algo_named(nova ? "fednova" : "fedavg"), "", 0.1, &p);
        for (size_t i = 0; i < N; i++) e.steps[i] = 1 + 3 * i;
        engine_rounds(&e, 12000, 0, lr);
        at[nova] = away(&e, p.optimum);
        for (size_t i = 0; i < N; i++) {
            accumulated(p.h[i], lr, e.steps[i], b[i]);
            weight[i] = nova ? p.w[i] / (double)e.steps[i] : p.w[i];
        }
        fixed_point(&p, weight, b, limit);
        assert_true(away(&e, limit) < 1e-9);
        if (!nova) { /* for small steps, FedAvg minimises sum w_i Q_i f_i instead */
            for (size_t i = 0; i < N; i++) weight[i] = p.w[i] * (double)e.steps[i];
            fixed_point(&p, weight, NULL, limit);
            assert_true(away(&e, limit) < 0.1 * at[0]);
        }
        engine_fini(&e);
    }
    assert_true(at[0] > 0.05);
    assert_true(at[1] < 0.1 * at[0]);
}

/* ---- invariants ---------------------------------------------------------------------------------------- */

/* The algorithm under observation, and the clients' first vector after each turn. */
static const fl_method *watched;
static double seen[N][DIM];

static int watch_answer(const fl_turn *t, const fl_answer *a)
{
    watched->answer(t, a);
    memcpy(seen[t->ask.client], t->state[0], sizeof seen[t->ask.client]);
    return 0;
}

/* Runs with random cohorts of random efforts; after every round the server's second vector must be sum weight_i
 * seen_i. */
static void invariant(fixture *f, const char *name, const char *params, double sign)
{
    engine e;
    quadratics p;
    fli_rng rng;
    uint32_t cohort[N];
    double largest = 0;
    watched = algo_named(name);
    fl_method spy = *watched;
    spy.answer = watch_answer;
    memset(seen, 0, sizeof seen);
    start(&e, f, &spy, params, 0.1, &p);
    fli_rng_init(&rng, 3, FLI_RNG_TEST, 0, 0);
    for (size_t r = 0; r < 50; r++) {
        size_t m = 1 + (size_t)fli_rng_below(&rng, N);
        double want[DIM] = {0};
        fli_rng_sample(&rng, N, m, cohort);
        for (size_t i = 0; i < N; i++) e.steps[i] = 1 + (size_t)fli_rng_below(&rng, 7);
        engine_round(&e, cohort, m, 0.05);
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < DIM; j++) want[j] += sign * p.w[i] * seen[i][j];
        double *c = engine_vector(&e, 1);
        for (size_t j = 0; j < DIM; j++) assert_near(c[j], want[j], 1e-12);
        for (size_t j = 0; j < DIM; j++) largest = fmax(largest, fabs(c[j]));
        free(c);
    }
    assert_true(largest > 0.01); /* not 0 = 0 */
    engine_fini(&e);
}

static void control_variates_add_up(void **state)
{
    invariant(*state, "scaffold", "", 1); /* c = sum w_i c_i */
    invariant(*state, "scaffold", "server_lr=2", 1);
    invariant(*state, "feddyn", "alpha=0.7", -1); /* h = mean h_i; the client keeps -h_i */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(fedavg_stalls),
        FIXTURE_TEST(fedavg_with_one_step_converges),
        FIXTURE_TEST(corrected_methods_converge),
        FIXTURE_TEST(uneven_steps),
        FIXTURE_TEST(corrected_methods_converge_under_sampling),
        FIXTURE_TEST(fednova_has_the_right_fixed_point),
        FIXTURE_TEST(control_variates_add_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
