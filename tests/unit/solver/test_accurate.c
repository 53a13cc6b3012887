/* The solver that works to an accuracy: against the exact one on least squares, against gradients of the local problem
 * written down here for logistic regression and a network, both rules, and what it says when it does not get there. */
#include "fixture.h"

#include "solve.h"

enum { DIM = 6, HIDDEN = 5, CLASSES = 3, MOST = HIDDEN * (DIM + 1) + CLASSES * (HIDDEN + 1), MANY = 64 };

/* One client, and a problem in the model's precision and as doubles. */
typedef struct {
    fli_arena arena;
    fli_fed *fed;
    fli_model *model;
    fli_model_desc counting;
    fli_view view;
    solving solver[3]; /* accurate, exact, SGD */
    void *cache;
    size_t p; /* parameters */
    double start[MANY], anchor[MANY], shift[MANY];
    double raw[3][MANY];
    fl_problem problem;
} client;

static const fl_solver *const solvers[] = {&fli_solver_accurate, &fli_solver_exact, &fli_solver_sgd};

static size_t gradients;

static const fli_model_desc *counted;

static double counting_grad(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct,
                            void *scratch)
{
    gradients++;
    return counted->grad(m, x, b, g, correct, scratch);
}

/* A random vector in the model's precision, and what it then holds. */
static void random_vector(client *c, uint32_t stream, double scale, double *as_f64, void *out)
{
    fli_rng rng;
    fli_rng_init(&rng, 8, FLI_RNG_TEST, 1, stream);
    for (size_t i = 0; i < c->p; i++) as_f64[i] = scale * fli_rng_normal(&rng);
    c->model->space.ops->from_f64(c->p, as_f64, out);
    c->model->space.ops->to_f64(c->p, out, as_f64);
}

/* n samples; the local problem has every term. */
static void client_init(client *c, fl_ctx *ctx, const char *model, size_t n, size_t dim, const fli_ops *ops, double wd,
                        double rho)
{
    const fli_model_desc *d = model_named(model);
    size_t classes = !strcmp(model, "least_squares") ? 0 : !strcmp(model, "logistic") ? 2 : CLASSES;
    memset(c, 0, sizeof *c);
    fli_arena_init(&c->arena, ctx);
    c->fed = random_fed(ctx, 1, &n, dim, classes, 3 + n);
    const void *params = bound(ctx, &c->arena, d->keys, d->params_size, strcmp(model, "mlp") ? "" : "hidden=[5]");
    counted = d;
    c->counting = *d;
    c->counting.grad = counting_grad;
    assert_ok(ctx, fli_model_new(ctx, &c->counting, params, ops, dim, classes, wd, &c->model));
    assert_ok(ctx, fli_view_open(ctx, c->fed, 0, &c->view));
    for (size_t i = 0; i < 3; i++)
        assert_ok(ctx, solving_init(ctx, solvers[i], c->model, &(fli_sgd_spec){0}, c->fed->largest, &c->solver[i]));
    c->p = c->model->space.n;
    assert_true(c->p <= MANY);
    random_vector(c, 0, 0.7, c->start, c->raw[0]);
    random_vector(c, 1, 0.7, c->anchor, c->raw[1]);
    random_vector(c, 2, 0.1, c->shift, c->raw[2]);
    c->problem =
        (fl_problem){.start = c->raw[0], .anchor = c->raw[1], .shift = c->raw[2], .rho = rho, .stop.modulus = rho};
}

static void client_fini(client *c)
{
    fli_solver_exact.forget(c->cache);
    for (size_t i = 0; i < 3; i++) solving_fini(&c->solver[i]);
    fli_view_close(&c->view);
    fli_model_free(c->model);
    fli_fed_free(c->fed);
    fli_arena_fini(&c->arena);
}

static fl_answer solve(client *c, fl_ctx *ctx, const fl_solver *solver, double *z)
{
    fl_answer a;
    fli_rng rng;
    size_t i = 0;
    while (solvers[i] != solver) i++;
    memset(&c->solver[i].task.answer, 0x55, sizeof a);
    fli_rng_init(&rng, 1, FLI_RNG_BATCH, 0, 0);
    gradients = 0;
    assert_ok(ctx, solving_solve(ctx, &c->solver[i], &c->view, &c->problem, &rng, &c->cache, &a));
    c->model->space.ops->to_f64(c->p, a.z, z);
    return a;
}

static double length(const client *c, const double *x)
{
    static const double zero[MANY];
    return distance(c->p, x, zero);
}

/* ---- least squares: the exact solver knows ---------------------------------------------------------------- */

static void against_exact(void **state)
{
    fixture *f = *state;
    static const size_t sizes[] = {3, 40, 1300}; /* the last in pieces */
    static const double rhos[] = {0.02, 1, 30}, rules[][2] = {{1e-2, 0}, {1e-9, 0}, {0, 0.3}, {0, 1e-7}, {1e-3, 0.01}};
    for (size_t s = 0; s < 3; s++)
        for (size_t r = 0; r < 3; r++)
            for (size_t k = 0; k < 5; k++) {
                client c;
                double want[MANY], z[MANY];
                client_init(&c, f->ctx, "least_squares", sizes[s], DIM, &fli_ops_f64, s == 1 ? 0.1 : 0, rhos[r]);
                c.problem.stop.accuracy = rules[k][0];
                c.problem.stop.relative = rules[k][1];
                c.problem.stop.most_steps = 300;
                solve(&c, f->ctx, &fli_solver_exact, want);
                fl_answer a = solve(&c, f->ctx, &fli_solver_accurate, z);
                double off = distance(c.p, z, want), moved = distance(c.p, z, c.start);
                assert_int_equal(a.missed, 0);
                if (rules[k][0] > 0) assert_true(off <= rules[k][0]);
                if (rules[k][1] > 0) assert_true(off <= rules[k][1] * moved);
                assert_true(moved > 0.05);
                assert_true(a.steps > 1 && a.steps < 100);
                assert_int_equal(gradients, a.steps * ((sizes[s] + 255) / 256));
                client_fini(&c);
            }
}

/* A looser rule takes fewer steps: it does stop when it may. */
static void stops_when_it_may(void **state)
{
    fixture *f = *state;
    client c;
    double z[MANY];
    size_t last = 0;
    client_init(&c, f->ctx, "least_squares", 40, DIM, &fli_ops_f64, 0, 0.1);
    for (double accuracy = 10; accuracy > 1e-11; accuracy /= 1000) {
        c.problem.stop.accuracy = accuracy;
        fl_answer a = solve(&c, f->ctx, &fli_solver_accurate, z);
        assert_true(!a.missed && a.steps > last);
        last = a.steps;
    }
    c.problem.stop.accuracy = 1000; /* the start will do */
    fl_answer a = solve(&c, f->ctx, &fli_solver_accurate, z);
    assert_true(!a.missed && a.steps == 1);
    assert_memory_equal(z, c.start, c.p * sizeof *z);
    client_fini(&c);
}

/* Without an anchor, without anything: then the problem is f_i itself. */
static void bare_problem(void **state)
{
    fixture *f = *state;
    client c;
    double want[MANY], z[MANY];
    client_init(&c, f->ctx, "least_squares", 60, DIM, &fli_ops_f64, 0, 1);
    c.problem =
        (fl_problem){.start = c.raw[0], .rho = 7 /* of no anchor */, .stop = {.accuracy = 1e-8, .modulus = 0.1}};
    solve(&c, f->ctx, &fli_solver_exact, want);
    assert_int_equal(solve(&c, f->ctx, &fli_solver_accurate, z).missed, 0);
    assert_true(distance(c.p, z, want) < 1e-8);
    c.problem.stop.accuracy = 0; /* nothing asked for: as far as it goes, and nothing is missed */
    assert_int_equal(solve(&c, f->ctx, &fli_solver_accurate, z).missed, 0);
    assert_true(distance(c.p, z, want) < 1e-12);
    client_fini(&c);
}

/* ---- logistic regression and a network: the gradient from scratch ---------------------------------------- */

static void logistic_gradient(const client *c, const double *z, double *g)
{
    for (size_t s = 0; s < c->view.n_train; s++) {
        double row[MANY], t = 0;
        fli_dataset_row(c->view.ds, c->view.train[s], row);
        for (size_t j = 0; j < DIM; j++) t += row[j] * z[j];
        double d = (1 / (1 + exp(-t)) - c->view.ds->label[c->view.train[s]]) / (double)c->view.n_train;
        for (size_t j = 0; j < DIM; j++) g[j] += d * row[j];
    }
}

static void mlp_gradient(const client *c, const double *z, double *g)
{
    size_t b1 = HIDDEN * DIM, w2 = b1 + HIDDEN, b2 = w2 + CLASSES * HIDDEN;
    for (size_t s = 0; s < c->view.n_train; s++) {
        double x[MANY], h[HIDDEN], e[HIDDEN] = {0}, o[CLASSES], sum = 0;
        size_t label = (size_t)c->view.ds->label[c->view.train[s]];
        fli_dataset_row(c->view.ds, c->view.train[s], x);
        for (size_t i = 0; i < HIDDEN; i++) {
            h[i] = z[b1 + i];
            for (size_t j = 0; j < DIM; j++) h[i] += z[i * DIM + j] * x[j];
            h[i] = fmax(h[i], 0);
        }
        for (size_t k = 0; k < CLASSES; k++) {
            o[k] = z[b2 + k];
            for (size_t i = 0; i < HIDDEN; i++) o[k] += z[w2 + k * HIDDEN + i] * h[i];
            sum += exp(o[k]);
        }
        for (size_t k = 0; k < CLASSES; k++) {
            double d = (exp(o[k]) / sum - (k == label)) / (double)c->view.n_train;
            g[b2 + k] += d;
            for (size_t i = 0; i < HIDDEN; i++) {
                g[w2 + k * HIDDEN + i] += d * h[i];
                e[i] += d * z[w2 + k * HIDDEN + i];
            }
        }
        for (size_t i = 0; i < HIDDEN; i++) {
            if (h[i] <= 0) continue;
            g[b1 + i] += e[i];
            for (size_t j = 0; j < DIM; j++) g[i * DIM + j] += e[i] * x[j];
        }
    }
}

/* ||grad phi(z)|| */
static double slope(const client *c, const double *z, double wd)
{
    double g[MANY] = {0};
    if (c->p == DIM)
        logistic_gradient(c, z, g);
    else
        mlp_gradient(c, z, g);
    for (size_t i = 0; i < c->p; i++) g[i] += wd * z[i] + c->shift[i] + c->problem.rho * (z[i] - c->anchor[i]);
    return length(c, g);
}

/* How close a unit of the network is to its kink at any sample. */
static double nearest_kink(const client *c, const double *z)
{
    double nearest = INFINITY;
    for (size_t s = 0; s < c->view.n_train; s++) {
        double x[MANY];
        fli_dataset_row(c->view.ds, c->view.train[s], x);
        for (size_t i = 0; i < HIDDEN; i++) {
            double h = z[HIDDEN * DIM + i];
            for (size_t j = 0; j < DIM; j++) h += z[i * DIM + j] * x[j];
            nearest = fmin(nearest, fabs(h));
        }
    }
    return nearest;
}

/* Whether the gradient is as small as it had to be; says so if the solver has another opinion. */
static int small_enough(client *c, fl_ctx *ctx, double wd)
{
    double z[MANY];
    fl_answer a = solve(c, ctx, &fli_solver_accurate, z);
    double most = c->problem.stop.accuracy + c->problem.stop.relative * distance(c->p, z, c->start),
           got = slope(c, z, wd);
    int small = got <= c->problem.stop.modulus * most * (1 + 1e-6) + 1e-14;
    if (a.missed == small)
        fail_msg("%s, %zu samples, accuracy %g, relative %g: missed %d, gradient %g after %zu steps",
                 c->model->desc->name, c->view.n_train, c->problem.stop.accuracy, c->problem.stop.relative, a.missed,
                 got, a.steps);
    if (!small) assert_true(c->p > DIM && nearest_kink(c, z) < 1e-10);
    return small;
}

static void other_models(void **state)
{
    fixture *f = *state;
    static const char *const models[] = {"logistic", "mlp"};
    static const size_t sizes[] = {9, 70, 700};
    for (int m = 0; m < 2; m++) {
        int reached = 0, asked = 0;
        for (size_t s = 0; s < 3; s++)
            for (int wd = 0; wd < 2; wd++)
                for (double accuracy = 0.1; accuracy > 1e-11; accuracy /= 100, asked += 2) {
                    client c;
                    client_init(&c, f->ctx, models[m], sizes[s], DIM, &fli_ops_f64, 0.2 * wd, 0.5);
                    assert_true(slope(&c, c.start, 0.2 * wd) > 0.3);
                    c.problem.stop.modulus = 0.25; /* L_- = 0.25 */
                    c.problem.stop.accuracy = accuracy;
                    c.problem.stop.most_steps = 2000;
                    reached += small_enough(&c, f->ctx, 0.2 * wd);
                    c.problem.stop.accuracy = 0; /* the other rule */
                    c.problem.stop.relative = accuracy;
                    reached += small_enough(&c, f->ctx, 0.2 * wd);
                    client_fini(&c);
                }
        /* a ReLU network may have its minimiser at a kink, where no gradient is small; then it goes there */
        if (reached < (m ? asked / 4 : asked)) fail_msg("%s: reached %d of %d", models[m], reached, asked);
    }
}

/* ---- not getting there ------------------------------------------------------------------------------------ */

static void steps_run_out(void **state)
{
    fixture *f = *state;
    client c;
    double z[MANY];
    client_init(&c, f->ctx, "mlp", 70, DIM, &fli_ops_f64, 0, 0.05);
    double before = INFINITY, at;
    for (size_t most = 1; most <= 16; most *= 2) {
        c.problem.stop.accuracy = 1e-9;
        c.problem.stop.most_steps = most;
        fl_answer a = solve(&c, f->ctx, &fli_solver_accurate, z);
        assert_true(a.missed && a.steps == most);
        assert_int_equal(gradients, most);
        at = slope(&c, z, 0);
        if (most == 1) assert_memory_equal(z, c.start, c.p * sizeof *z);
        if (most == 16) assert_true(at < before / 3);
        if (most == 1) before = at;
    }
    client_fini(&c);
}

/* No number of steps gives more than the arithmetic has. */
static void precision_runs_out(void **state)
{
    fixture *f = *state;
    static const fli_ops *const ops[] = {&fli_ops_f64, &fli_ops_f32};
    static const char *const models[] = {"least_squares", "logistic", "mlp"};
    for (int o = 0; o < 2; o++)
        for (int m = 0; m < 3; m++) {
            client c;
            double z[MANY], want[MANY];
            client_init(&c, f->ctx, models[m], 70, DIM, ops[o], 0.1, 1);
            c.problem.stop.accuracy = 1e-30;
            fl_answer a = solve(&c, f->ctx, &fli_solver_accurate, z);
            assert_true(a.missed && a.steps < 2000);
            if (m == 0) {
                solve(&c, f->ctx, &fli_solver_exact, want);
                assert_true(distance(c.p, z, want) < (o ? 1e-5 : 1e-13));
            } else {
                assert_true(slope(&c, z, 0.1) < (o ? 1e-5 : 1e-13));
            }
            client_fini(&c);
        }
}

static void single_precision(void **state)
{
    fixture *f = *state;
    for (double accuracy = 0.1; accuracy > 1e-5; accuracy /= 10) {
        client c;
        double z[MANY], want[MANY];
        client_init(&c, f->ctx, "least_squares", 600, DIM, &fli_ops_f32, 0.1, 1);
        c.problem.stop.accuracy = accuracy;
        solve(&c, f->ctx, &fli_solver_exact, want);
        fl_answer a = solve(&c, f->ctx, &fli_solver_accurate, z);
        assert_true(!a.missed && distance(c.p, z, want) <= accuracy + 1e-6);
        c.problem.stop.accuracy = 0;
        c.problem.stop.relative = accuracy;
        a = solve(&c, f->ctx, &fli_solver_accurate, z);
        assert_true(!a.missed && distance(c.p, z, want) <= accuracy * distance(c.p, z, c.start) + 1e-6);
        client_fini(&c);
    }
}

/* Without a modulus nothing is certain, and a start that is no number is nobody's accuracy. */
static void never_certain(void **state)
{
    fixture *f = *state;
    client c;
    double z[MANY];
    client_init(&c, f->ctx, "least_squares", 40, DIM, &fli_ops_f64, 0, 1);
    c.problem.stop.accuracy = 0.5;
    c.problem.stop.modulus = 0;
    assert_int_equal(solve(&c, f->ctx, &fli_solver_accurate, z).missed, 1);
    c.problem.stop.modulus = 1;
    c.raw[0][2] = INFINITY;
    fl_answer a = solve(&c, f->ctx, &fli_solver_accurate, z);
    assert_true(a.missed && a.steps == 1);
    client_fini(&c);
}

/* What the other solvers say of themselves. */
static void others_report(void **state)
{
    fixture *f = *state;
    client c;
    double z[MANY];
    client_init(&c, f->ctx, "least_squares", 40, DIM, &fli_ops_f64, 0, 1);
    c.problem.steps = 7;
    c.problem.lr = 0.01;
    c.problem.stop.accuracy = 1e-30;
    fl_answer a = solve(&c, f->ctx, &fli_solver_sgd, z);
    assert_true(a.steps == 7 && gradients == 7 && !a.missed);
    a = solve(&c, f->ctx, &fli_solver_exact, z);
    assert_true(a.steps == 1 && gradients == 0 && !a.missed);
    client_fini(&c);
}

/* The same bits whatever the worker did before. */
static void no_memory_of_other_turns(void **state)
{
    fixture *f = *state;
    client c;
    double z[MANY], again[MANY], other[MANY];
    client_init(&c, f->ctx, "mlp", 70, DIM, &fli_ops_f32, 0, 0.5);
    c.problem.stop.accuracy = 1e-3;
    fl_answer a = solve(&c, f->ctx, &fli_solver_accurate, z);
    size_t steps = a.steps;
    c.problem.start = c.raw[1];
    c.problem.stop.most_steps = 9;
    solve(&c, f->ctx, &fli_solver_accurate, other);
    c.problem.start = c.raw[0];
    c.problem.stop.most_steps = 0;
    a = solve(&c, f->ctx, &fli_solver_accurate, again);
    assert_memory_equal(z, again, c.p * sizeof *z);
    assert_int_equal(a.steps, steps);
    client_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(against_exact),    FIXTURE_TEST(stops_when_it_may),
        FIXTURE_TEST(bare_problem),     FIXTURE_TEST(other_models),
        FIXTURE_TEST(steps_run_out),    FIXTURE_TEST(precision_runs_out),
        FIXTURE_TEST(single_precision), FIXTURE_TEST(never_certain),
        FIXTURE_TEST(others_report),    FIXTURE_TEST(no_memory_of_other_turns),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
