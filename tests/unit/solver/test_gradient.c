/* The solvers that answer with the gradient at the start: its value from the raw data, that SGD beside it takes the
 * steps it takes alone, and what either costs. */
#include "fixture.h"

#include "solve.h"

enum { DIM = 5, LARGE = 700 }; /* more samples than are computed at a time */

typedef struct {
    fl_ctx *ctx;
    fli_fed *fed;
    fli_model *model;
    fli_view view;
    double h[DIM * DIM], q[DIM];
} client;

static void client_init(client *c, fl_ctx *ctx, size_t n, double wd)
{
    *c = (client){.ctx = ctx, .fed = random_fed(ctx, 1, &n, DIM, 0, n)};
    client_quadratic(ctx, c->fed, 0, wd, c->h, c->q);
    assert_ok(ctx, fli_model_new(ctx, model_named("least_squares"), NULL, &fli_ops_f64, DIM, 0, wd, &c->model));
    assert_ok(ctx, fli_view_open(ctx, c->fed, 0, &c->view));
}

static void client_fini(client *c)
{
    fli_view_close(&c->view);
    fli_model_free(c->model);
    fli_fed_free(c->fed);
}

typedef struct {
    double z[DIM], gradient[DIM], weight;
    size_t steps;
    int has_gradient;
} result;

static const double start[DIM] = {0.3, -1, 2, 0.5, -0.7}, shift[DIM] = {1, 2, -1, 0, 0.5};

static result solve(const client *c, const fl_solver *solver, fli_sgd_spec sgd, size_t steps)
{
    solving s;
    fl_answer a;
    fli_rng rng;
    result out = {.weight = 0};
    fl_problem p = {.start = start, .shift = shift, .anchor = shift, .rho = 0.3, .lr = 0.02, .steps = steps};
    fli_rng_init(&rng, 4, FLI_RNG_BATCH, 0, 0);
    assert_ok(c->ctx, solving_init(c->ctx, solver, c->model, &sgd, c->fed->largest, &s));
    assert_ok(c->ctx, solving_solve(c->ctx, &s, &c->view, &p, &rng, NULL, &a));
    memcpy(out.z, a.z, sizeof out.z);
    out.has_gradient = a.gradient != NULL;
    if (a.gradient) memcpy(out.gradient, a.gradient, sizeof out.gradient);
    out.weight = a.weight;
    out.steps = a.steps;
    solving_fini(&s);
    return out;
}

/* grad f_i(start) = h start - q, without shift and proximal term. */
static void check_gradient(const client *c, const result *r)
{
    assert_true(r->has_gradient);
    for (size_t i = 0; i < DIM; i++) {
        double want = -c->q[i];
        for (size_t j = 0; j < DIM; j++) want += c->h[i * DIM + j] * start[j];
        assert_near(r->gradient[i], want, 1e-12);
    }
}

static void at_the_start(void **state)
{
    fixture *f = *state;
    static const size_t sizes[] = {1, 23, LARGE};
    static const fli_sgd_spec specs[] = {{0, 0}, {4, 0}, {7, 0.9}, {.fraction = 0.3}};
    for (size_t k = 0; k < 12; k++) {
        client c;
        fli_sgd_spec sgd = specs[k % 4];
        size_t n = sizes[k / 4], epoch = fli_epoch_steps(&sgd, n);
        client_init(&c, f->ctx, n, k % 2 ? 0.1 : 0);
        result alone = solve(&c, &fli_solver_gradient, sgd, 9), both = solve(&c, &fli_solver_sgd_gradient, sgd, 9),
               plain = solve(&c, &fli_solver_sgd, sgd, 9);
        check_gradient(&c, &alone);
        check_gradient(&c, &both);
        assert_memory_equal(alone.z, start, sizeof start);
        assert_int_equal(alone.steps, epoch);
        assert_memory_equal(both.z, plain.z, sizeof both.z);
        assert_true(both.weight == plain.weight && !plain.has_gradient);
        assert_int_equal(both.steps, plain.steps + epoch);
        client_fini(&c);
    }
}

static void every_solver_has_its_cost(void **state)
{
    (void)state;
    assert_int_equal(fli_solver_cost(&fli_solver_sgd, 9, 4), 9);
    assert_int_equal(fli_solver_cost(&fli_solver_gradient, 9, 4), 4);
    assert_int_equal(fli_solver_cost(&fli_solver_sgd_gradient, 9, 4), 13);
    assert_int_equal(fli_solver_cost(&fli_solver_diagonal, 9, 4), 4);
    assert_int_equal(fli_solver_cost(&fli_solver_exact, 9, 4), 9);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(at_the_start), FIXTURE_TEST(every_solver_has_its_cost)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
