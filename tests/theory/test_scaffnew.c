/* Scaffnew: how many steps a round has, that its control variates add up to zero, and the linear rate of Theorem 3.6 to
 * the exact optimum of clients that differ, where FedAvg with the same steps stops short of it. */
#include "fixture.h"

#include "run/state.h"

enum { DIM = 4, N = 6 };
static const size_t sizes[N] = {8, 12, 20, 9, 15, 30};
static const double L2 = 0.3;

/* ---- steps ----------------------------------------------------------------------------------------------- */

static const void *with_p(fixture *f, fli_arena *arena, double p)
{
    const fl_method *a = algo_named("scaffnew");
    char text[40];
    snprintf(text, sizeof text, "p=%.17g", p);
    return bound(f->ctx, arena, a->keys, a->params_size, text);
}

/* P(Q > k) = (1 - p)^k, over coins that are spread evenly; more coin, more steps. */
static void step_counts_are_geometric(void **state)
{
    fixture *f = *state;
    const fl_method *a = algo_named("scaffnew");
    static const double ps[] = {1, 0.5, 0.1, 1e-5};
    enum { COINS = 100000 };
    fli_arena arena;
    fli_arena_init(&arena, f->ctx);
    for (size_t i = 0; i < 4; i++) {
        const void *params = with_p(f, &arena, ps[i]);
        size_t beyond[5] = {0}, before = 1;
        for (size_t c = 0; c < COINS; c++) {
            size_t q = a->rounds.steps(params, (double)c / COINS);
            assert_true(q >= before);
            before = q;
            for (size_t k = 0; k < 5; k++) beyond[k] += q > k;
        }
        for (size_t k = 0; k < 5; k++) assert_near((double)beyond[k] / COINS, pow(1 - ps[i], (double)k), 2.0 / COINS);
        assert_int_equal(a->rounds.steps(params, 0), 1);
        assert_true((double)a->rounds.steps(params, nextafter(1, 0)) < 40 / ps[i]);
    }
    fli_arena_fini(&arena);
}

/* In a run: the same for everyone in a round, not the same in all rounds, 1/p on average, whatever `local` says. */
static void steps_of_a_run(void **state)
{
    fixture *f = *state;
    enum { ROUNDS = 400 };
    fl_run *run = NULL;
    size_t sum = 0, first = 0, others = 0;
    fl_config *cfg = fixture_config(f, "algorithm: {kind: scaffnew, p: 0.25}\nmodel: softmax\nrounds: 400\n"
                                       "data: {kind: blobs, samples: 60, classes: 3, features: 4}\n"
                                       "partition: {kind: iid, clients: 3}\nparticipation: everyone\n"
                                       "local: {batch: 4, epochs: 7, uneven: range, range: [5, 9]}\n"
                                       "metrics: {train: false, test: false, every: 400}\n");
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    for (size_t r = 0; r < ROUNDS; r++) {
        fli_card card = fli_exec_card(run->exec, 0);
        size_t q = (size_t)fli_ask_for(&run->plan.ask_params, &card, r, r, 0).steps;
        for (uint32_t i = 1; i < 3; i++) assert_int_equal(fli_ask_for(&run->plan.ask_params, &card, r, r, i).steps, q);
        if (!r) first = q;
        others += q != first;
        sum += q;
    }
    assert_true(others > ROUNDS / 4);
    assert_near((double)sum / ROUNDS, 4, 5 * sqrt(12.0 / ROUNDS)); /* five deviations: variance (1 - p)/p^2 */
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_true(fl_row_get(fl_run_row(run), "local_steps") == 3 * (double)sum);
    fl_run_free(run);
}

/* ---- control variates ------------------------------------------------------------------------------------ */

/* -h_i of every client while it takes its steps. */
static double seen[N][DIM];

static int watch_pose(const fl_turn *t, fl_problem *p)
{
    algo_named("scaffnew")->pose(t, p);
    memcpy(seen[t->ask.client], p->shift, sizeof seen[t->ask.client]);
    return 0;
}

static void steps_drawn(engine *e, fli_rng *rng)
{
    const fli_setup *s = fli_exec_setup(e->exec);
    size_t q = algo_named("scaffnew")->rounds.steps(s->params, fli_rng_uniform(rng));
    for (size_t i = 0; i < N; i++) e->steps[i] = q;
}

static void add_up_to_zero(void **state)
{
    fixture *f = *state;
    fl_method spy = *algo_named("scaffnew");
    spy.pose = watch_pose;
    for (int momentum = 0; momentum < 2; momentum++) {
        engine e;
        fli_rng rng;
        double largest = 0;
        engine_init(&e, f->ctx, random_fed(f->ctx, N, sizes, DIM, 0, 11), "least_squares", &fli_ops_f64, L2, &spy,
                    "p=0.2", 0, (fli_sgd_spec){5, momentum ? 0.5 : 0}, 1);
        fli_rng_init(&rng, 3, FLI_RNG_TEST, 0, 0);
        for (size_t r = 0; r < 60; r++) {
            steps_drawn(&e, &rng);
            engine_round(&e, e.everyone, N, r < 30 ? 0.02 : 0.01); /* a schedule changes nothing */
            for (size_t j = 0; j < DIM; j++) {
                double sum = 0;
                for (size_t i = 0; i < N; i++) sum += seen[i][j], largest = fmax(largest, fabs(seen[i][j]));
                assert_near(sum, 0, 1e-12);
            }
        }
        assert_true(largest > 0.1); /* not 0 = 0 */
        engine_fini(&e);
    }
}

/* ---- the rate -------------------------------------------------------------------------------------------- */

/* The optimum of the mean, and the largest trace of a Hessian, which is at least L. */
static double problem(fixture *f, fli_fed *fed, double *optimum)
{
    double a[DIM * DIM] = {0}, h[DIM * DIM], q[DIM], largest = 0;
    memset(optimum, 0, DIM * sizeof *optimum);
    for (size_t i = 0; i < N; i++) {
        double trace = 0;
        client_quadratic(f->ctx, fed, i, L2, h, q);
        for (size_t j = 0; j < DIM * DIM; j++) a[j] += h[j];
        for (size_t j = 0; j < DIM; j++) optimum[j] += q[j], trace += h[j * (DIM + 1)];
        largest = fmax(largest, trace);
    }
    solve_linear(DIM, a, optimum);
    return largest;
}

/* Distances from the optimum, from one hundred rounds to the next. */
static void distances(fixture *f, const char *name, const char *params, size_t count, double *d)
{
    engine e;
    fli_rng rng;
    double optimum[DIM];
    fli_fed *fed = random_fed(f->ctx, N, sizes, DIM, 0, 11);
    double lr = 1 / problem(f, fed, optimum);
    fli_arena arena;
    fli_arena_init(&arena, f->ctx);
    const void *p = with_p(f, &arena, 0.3);
    engine_init(&e, f->ctx, fed, "least_squares", &fli_ops_f64, L2, algo_named(name), params, 1, (fli_sgd_spec){0, 0},
                1);
    fli_rng_init(&rng, 5, FLI_RNG_TEST, 0, 0);
    for (size_t k = 0; k < count; k++) {
        double *x = engine_vector(&e, 0);
        d[k] = distance(DIM, x, optimum);
        free(x);
        for (size_t r = 0; r < 100; r++) {
            size_t q = algo_named("scaffnew")->rounds.steps(p, fli_rng_uniform(&rng));
            for (size_t i = 0; i < N; i++) e.steps[i] = q;
            engine_round(&e, e.everyone, N, lr);
        }
    }
    fli_arena_fini(&arena);
    engine_fini(&e);
}

/* A hundred rounds are more than 250 steps, each of which is promised a factor of 1 - min(lr mu, p^2) for the squared
 * distance: with lr mu >= 0.3/20, a factor of 6 in a hundred rounds. */
static void linear_rate(void **state)
{
    double d[4], stalled[4];
    distances(*state, "scaffnew", "p=0.3", 4, d);
    for (size_t k = 0; k + 1 < 4; k++)
        if (!(d[k + 1] < d[k] / 6 || d[k + 1] < 1e-12)) fail_msg("%g after %g", d[k + 1], d[k]);
    assert_true(d[3] < 1e-9);
    distances(*state, "fedavg", "", 4, stalled);
    assert_true(stalled[3] > 1e-2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(step_counts_are_geometric), FIXTURE_TEST(steps_of_a_run),
                                       FIXTURE_TEST(add_up_to_zero), FIXTURE_TEST(linear_rate)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
