/* What is known of the bilevel methods, on quadratics whose solutions are known: with unequal local work SimFBO goes to
 * the solution of another problem and ShroFBO to the right one, noise averages out over the participants, v stays
 * within its radius, and FedNest and FBO-AggITD find the hypergradient that LFedNest misses. */
#include "quadratic_levels.h"

#include "metric/measure.h"

enum { CLIENTS = 5 };

static void draw(size_t n, uint64_t seed, quadratic *q)
{
    fli_rng r;
    fli_rng_init(&r, seed, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < n; i++) q[i] = quadratic_random(&r);
}

static void solution_with(const quadratic *q, const double *w, double *x)
{
    quadratic mean = quadratic_mean(CLIENTS, q, w);
    quadratic_solution(&mean, x);
}

/* ---- unequal work --------------------------------------------------------------------------------------- */

/* Local steps so small that nobody drifts: only what uploads weigh is left. */
#define STILL "lr_y=1e-9;lr_v=1e-9;lr_x=1e-9;radius=100;"

/* ||grad Phi~||, with weights proportional to what the method says that turns weigh; else ||grad Phi||. */
static double slope_by_work(engine *e)
{
    const fli_setup *s = fli_exec_setup(e->exec);
    double weights[CLIENTS], sum = 0;
    void *const *server = fli_exec_server(e->exec);
    fli_levels_solved found;
    fli_counts counts = {0};
    int by_work = s->algo->levels.work != NULL;
    for (size_t i = 0; by_work && i < CLIENTS; i++) sum += weights[i] = s->algo->levels.work(s->params, i, e->steps[i]);
    for (size_t i = 0; by_work && i < CLIENTS; i++) weights[i] /= sum;
    assert_ok(e->ctx,
              fli_hypergradient(e->ctx, e->exec, server[0], server[1], by_work ? weights : NULL, &counts, &found));
    return found.hypergradient;
}

static void run_uneven(fixture *f, const quadratic *q, const char *algo, const char *params, const size_t *steps,
                       double *x)
{
    engine e;
    levels_init(&e, f->ctx, quadratic_fed(f->ctx, CLIENTS, 1, q), 0, algo, params, 0, 1);
    memcpy(e.steps, steps, CLIENTS * sizeof *steps);
    for (size_t r = 0; r < 6000; r++) levels_round(&e, e.everyone, CLIENTS, 1);
    memcpy(x, fli_exec_server(e.exec)[0], UP * sizeof *x);
    assert_near(slope_by_work(&e), 0, 1e-5); /* it ends where that vanishes */
    engine_fini(&e);
}

static void unequal_work(void **state)
{
    /* sum_k a_k for a_k = 1, for a_k = 0.5^k, and for two steps with a_k of each client's own */
    static const double lengths[3][CLIENTS] = {
        {1, 2, 4, 7, 10}, {1, 1.5, 1.875, 1.984375, 1.998046875}, {2, 3, 4, 5, 11}};
    static const char *const coef[3] = {"", ";coef_decay=0.5", ";coef_steps=2;coef=[1, 1, 2, 1, 2, 2, 1, 4, 10, 1]"};
    static const size_t steps[3][CLIENTS] = {{1, 2, 4, 7, 10}, {1, 2, 4, 7, 10}, {2, 2, 2, 2, 2}};
    quadratic q[CLIENTS];
    draw(CLIENTS, 3, q);
    for (size_t k = 0; k < 3; k++) {
        double w[CLIENTS], p[CLIENTS], total = 0, wrong[UP], right[UP], x[UP];
        char text[200];
        for (size_t i = 0; i < CLIENTS; i++) total += lengths[k][i];
        for (size_t i = 0; i < CLIENTS; i++) w[i] = lengths[k][i] / total, p[i] = 1.0 / CLIENTS;
        solution_with(q, w, wrong);
        solution_with(q, p, right);
        assert_true(distance(UP, wrong, right) > 0.02);
        snprintf(text, sizeof text, STILL "server_lr_y=0.04;server_lr_v=0.04;server_lr_x=0.01%s", coef[k]);
        run_uneven(*state, q, "simfbo", text, steps[k], x);
        assert_near(distance(UP, x, wrong), 0, 1e-6);
        run_uneven(*state, q, "shrofbo", text, steps[k], x);
        assert_near(distance(UP, x, right), 0, 1e-6);
    }
}

/* ---- noise ---------------------------------------------------------------------------------------------- */

/* The mean squared distance to the solution, once a run has settled around it, with this many of 32 equal clients per
 * round. */
static double spread(fixture *f, size_t participants, uint64_t seed)
{
    enum { N = 32, EACH = 8, ROUNDS = 6000, SETTLED = 1000 };
    static quadratic q[N * EACH];
    double p[EACH], x[UP], sum = 0;
    uint32_t who[N];
    engine e;
    for (size_t i = 0; i < EACH; i++) p[i] = 1.0 / EACH;
    draw(EACH, 11, q);
    quadratic mean = quadratic_mean(EACH, q, p);
    quadratic_solution(&mean, x);
    for (size_t i = EACH; i < N * EACH; i++) q[i] = q[i % EACH];
    levels_init(&e, f->ctx, quadratic_fed(f->ctx, N, EACH, q), 0, "simfbo",
                "lr_y=0.05;lr_v=0.05;lr_x=0.02;server_lr_y=0.05;server_lr_v=0.05;server_lr_x=0.02;radius=100", 1, seed);
    for (size_t r = 0; r < ROUNDS; r++) {
        fli_rng rng;
        fli_rng_init(&rng, seed, FLI_RNG_TEST, (uint32_t)r, 1);
        fli_rng_sample(&rng, N, participants, who);
        levels_round(&e, who, participants, 1);
        double d = distance(UP, fli_exec_server(e.exec)[0], x);
        if (r >= SETTLED) sum += d * d / (ROUNDS - SETTLED);
    }
    engine_fini(&e);
    return sum;
}

static void linear_speed_up(void **state)
{
    double two = spread(*state, 2, 5), eight = spread(*state, 8, 6), all = spread(*state, 32, 7);
    assert_true(two > 0 && two / eight > 4 / 1.4 && two / eight < 4 * 1.4);
    assert_true(eight / all > 4 / 1.4 && eight / all < 4 * 1.4);
}

/* ---- the radius ------------------------------------------------------------------------------------------ */

static double norm_of_v(engine *e)
{
    const double *v = (const double *)fli_exec_server(e->exec)[1] + UP;
    double zero[LOW] = {0};
    return distance(LOW, v, zero);
}

static void radius_holds(void **state)
{
    fixture *f = *state;
    quadratic q[CLIENTS];
    double most = 0;
    engine e;
    draw(CLIENTS, 3, q);
    levels_init(&e, f->ctx, quadratic_fed(f->ctx, CLIENTS, 1, q), 0, "simfbo", "radius=0.25", 0, 1);
    for (size_t r = 0; r < 200; r++) {
        levels_round(&e, e.everyone, CLIENTS, 1);
        most = fmax(most, norm_of_v(&e));
    }
    assert_true(most <= 0.25 * (1 + 1e-12) && most > 0.2499);
    engine_fini(&e);
    /* auto: v is never longer than what the lemma says of v*, and here never has to be cut */
    engine unbounded, bounded;
    levels_init(&unbounded, f->ctx, quadratic_fed(f->ctx, CLIENTS, 1, q), 0.5, "shrofbo", "radius=1e9", 0, 1);
    levels_init(&bounded, f->ctx, quadratic_fed(f->ctx, CLIENTS, 1, q), 0.5, "shrofbo", "", 0, 1);
    for (size_t r = 0; r < 200; r++) {
        levels_round(&unbounded, unbounded.everyone, CLIENTS, 1);
        levels_round(&bounded, bounded.everyone, CLIENTS, 1);
    }
    assert_true(distance(UP + LOW, fli_exec_server(unbounded.exec)[0], fli_exec_server(bounded.exec)[0]) == 0);
    engine_fini(&unbounded);
    engine_fini(&bounded);
}

/* ---- the nested methods ---------------------------------------------------------------------------------- */

static double far_from_solution(fixture *f, const char *algo, const char *params, size_t phases)
{
    quadratic q[CLIENTS];
    double p[CLIENTS], x[UP];
    engine e;
    draw(CLIENTS, 3, q);
    for (size_t i = 0; i < CLIENTS; i++) p[i] = 1.0 / CLIENTS;
    solution_with(q, p, x);
    levels_init(&e, f->ctx, quadratic_fed(f->ctx, CLIENTS, 1, q), 0, algo, params, 0, 1);
    for (size_t r = 0; r < 800; r++) levels_round(&e, e.everyone, CLIENTS, phases);
    double d = distance(UP, fli_exec_server(e.exec)[0], x);
    engine_fini(&e);
    return d;
}

static void nested_methods(void **state)
{
    /* T = 2, N = 60, tau = 2: the sum is the inverse up to 1e-9 */
    double nest = far_from_solution(*state, "fednest", "lr_in=0.2;lr_out=0.05;inner_rounds=2;tau=2;neumann=60;ell=3",
                                    2 * 2 + 60 + 3);
    double light =
        far_from_solution(*state, "lfednest", "lr_in=0.2;lr_out=0.05;inner_rounds=2;tau=2;neumann=60;ell=3", 2 + 1);
    double itd = far_from_solution(*state, "fbo-aggitd", "lr_in=0.4;lr_out=0.05;inner_rounds=40", 2 * 40 + 1);
    assert_true(nest < 1e-6);
    assert_true(itd < 1e-6);
    assert_true(light > 1e-2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(unequal_work),
        FIXTURE_TEST(linear_speed_up),
        FIXTURE_TEST(radius_holds),
        FIXTURE_TEST(nested_methods),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
