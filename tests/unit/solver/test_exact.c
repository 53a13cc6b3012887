/* The exact solver for least squares: its answers against the optimality condition from the raw data, either way of
 * factoring, what it keeps between turns, how it fails, and conjugate gradients where a factor would be too large. */
#include "fixture.h"

#include "solver/gram.h"
#include "solve.h"

enum { DIM = 60 };

/* One client with n samples of k features, and the quadratic it stands for. */
typedef struct {
    fli_fed *fed;
    fli_model *model;
    fli_view view;
    solving exact;
    void *cache;
    size_t k;
    double wd, h[DIM * DIM], q[DIM];
} client;

static void client_take(client *c, fl_ctx *ctx, fli_fed *fed, const fli_ops *ops, double wd)
{
    memset(c, 0, sizeof *c);
    c->fed = fed;
    c->k = fed->dim;
    c->wd = wd;
    client_quadratic(ctx, fed, 0, wd, c->h, c->q);
    assert_ok(ctx, fli_model_new(ctx, model_named("least_squares"), NULL, ops, fed->dim, 0, wd, &c->model));
    assert_ok(ctx, fli_view_open(ctx, fed, 0, &c->view));
    assert_ok(ctx, solving_init(ctx, &fli_solver_exact, c->model, &(fli_sgd_spec){0}, fed->largest, &c->exact));
}

static void client_init(client *c, fl_ctx *ctx, size_t n, size_t k, const fli_ops *ops, double wd)
{
    client_take(c, ctx, random_fed(ctx, 1, &n, k, 0, 3 + n), ops, wd);
}

static void client_fini(client *c)
{
    fli_solver_exact.forget(c->cache);
    solving_fini(&c->exact);
    fli_view_close(&c->view);
    fli_model_free(c->model);
    fli_fed_free(c->fed);
}

static fl_status solve(client *c, fl_ctx *ctx, const fl_problem *p, double *z)
{
    fl_answer a = {0};
    fli_rng rng;
    fli_rng_init(&rng, 1, FLI_RNG_BATCH, 0, 0);
    fl_status s = solving_solve(ctx, &c->exact, &c->view, p, &rng, &c->cache, &a);
    if (!s) c->model->space.ops->to_f64(c->k, a.z, z);
    return s;
}

/* A vector of the model's precision, and what it holds as doubles. */
static void random_vector(const client *c, uint32_t stream, double *as_f64, void *out)
{
    fli_rng rng;
    fli_rng_init(&rng, 8, FLI_RNG_TEST, 1, stream);
    for (size_t i = 0; i < c->k; i++) as_f64[i] = fli_rng_normal(&rng);
    c->model->space.ops->from_f64(c->k, as_f64, out);
    c->model->space.ops->to_f64(c->k, out, as_f64);
}

/* The largest entry of grad f(z) + shift + rho (z - anchor). */
static double residual(const client *c, const double *z, double rho, const double *anchor, const double *shift)
{
    double worst = 0;
    for (size_t i = 0; i < c->k; i++) {
        double g = (shift ? shift[i] : 0) - c->q[i] + rho * (z[i] - anchor[i]);
        for (size_t j = 0; j < c->k; j++) g += c->h[i * c->k + j] * z[j];
        worst = fmax(worst, fabs(g));
    }
    return worst;
}

static void optimality_of(fl_ctx *ctx, size_t n, size_t k, const fli_ops *ops, double wd, double tolerance)
{
    client c;
    double anchor[DIM], shift[DIM], z[DIM], raw_anchor[DIM], raw_shift[DIM];
    static const double rhos[] = {0.01, 1, 70};
    client_init(&c, ctx, n, k, ops, wd);
    for (uint32_t t = 0; t < 6; t++) {
        random_vector(&c, 2 * t, anchor, raw_anchor);
        random_vector(&c, 2 * t + 1, shift, raw_shift);
        fl_problem p = {.start = raw_shift, .anchor = raw_anchor, .rho = rhos[t / 2], .steps = 9};
        if (t % 2) p.shift = raw_shift;
        assert_ok(ctx, solve(&c, ctx, &p, z));
        double r = residual(&c, z, p.rho, anchor, p.shift ? shift : NULL);
        if (!(r < tolerance * fmax(1, p.rho))) fail_msg("%zu x %zu, wd %g, rho %g: residual %g", n, k, wd, p.rho, r);
    }
    client_fini(&c);
}

static void exact_solutions_are_optimal(void **state)
{
    fixture *f = *state;
    static const size_t shapes[][2] = {{1, 1},  {7, 1},   {1, 5},    {4, 5},    {5, 5},    {6, 5},
                                       {40, 5}, {3, DIM}, {59, DIM}, {60, DIM}, {61, DIM}, {200, DIM}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int wd = 0; wd < 2; wd++) {
            optimality_of(f->ctx, shapes[i][0], shapes[i][1], &fli_ops_f64, 0.3 * wd, 1e-11);
            optimality_of(f->ctx, shapes[i][0], shapes[i][1], &fli_ops_f32, 0.3 * wd, 1e-4);
        }
}

/* With enough samples, or weight decay, no proximal term is needed. */
static void no_proximal_term(void **state)
{
    fixture *f = *state;
    static const struct {
        size_t n, k;
        double wd;
    } cases[] = {{40, 5, 0}, {4, 9, 0.2}, {9, 4, 0.2}};
    for (size_t i = 0; i < 3; i++) {
        client c;
        double z[DIM], zero[DIM] = {0};
        client_init(&c, f->ctx, cases[i].n, cases[i].k, &fli_ops_f64, cases[i].wd);
        assert_ok(f->ctx, solve(&c, f->ctx, &(fl_problem){.start = zero, .rho = 5 /* of no anchor */}, z));
        assert_true(residual(&c, z, 0, zero, NULL) < 1e-10);
        client_fini(&c);
    }
}

/* The same quadratic with one sample fewer than features, and with a sample of zeros more: one is solved by the
 * Woodbury identity, the other directly. */
static void both_ways_agree(void **state)
{
    fixture *f = *state;
    enum { K = 12 };
    size_t n = K - 1;
    client few, enough;
    double anchor[K], one[K], two[K];
    client_init(&few, f->ctx, n, K, &fli_ops_f64, 0.05);
    n = K;
    fli_fed *fed = random_fed(f->ctx, 1, &n, K, 0, 1);
    double grow = sqrt((double)K / (K - 1));
    for (size_t s = 0; s < K; s++) {
        double *row = (double *)fed->train->x + s * K;
        memset(row, 0, K * sizeof *row);
        fed->train->target[s] = 0;
        if (s == K - 1) continue;
        fli_dataset_row(few.view.ds, few.view.train[s], row);
        for (size_t j = 0; j < K; j++) row[j] *= grow;
        fed->train->target[s] = grow * few.view.ds->target[few.view.train[s]];
    }
    client_take(&enough, f->ctx, fed, &fli_ops_f64, 0.05);
    random_vector(&few, 0, anchor, one);
    for (double rho = 1e-3; rho < 1e3; rho *= 10) {
        fl_problem p = {.start = anchor, .anchor = anchor, .rho = rho};
        assert_ok(f->ctx, solve(&few, f->ctx, &p, one));
        assert_ok(f->ctx, solve(&enough, f->ctx, &p, two));
        for (size_t j = 0; j < K; j++) assert_near(one[j], two[j], 1e-10);
    }
    client_fini(&few);
    client_fini(&enough);
}

/* What is kept needs no memory to be used again, and does not answer for another rho. */
static void kept_between_turns(void **state)
{
    fixture *f = *state;
    for (size_t n = 4; n < 20; n += 9) { /* fewer samples than features, and more */
        client c;
        double anchor[8], raw[8], z[8], again[8];
        client_init(&c, f->ctx, n, 8, &fli_ops_f64, 0.1);
        random_vector(&c, 0, anchor, raw);
        fl_problem p = {.start = raw, .anchor = raw, .rho = 2};
        assert_ok(f->ctx, solve(&c, f->ctx, &p, z));
        fli_ctx_fail_alloc(f->ctx, 1);
        assert_ok(f->ctx, solve(&c, f->ctx, &p, again));
        assert_memory_equal(z, again, sizeof z);
        random_vector(&c, 1, anchor, raw); /* another problem with the same factor */
        assert_ok(f->ctx, solve(&c, f->ctx, &p, z));
        assert_true(residual(&c, z, 2, anchor, NULL) < 1e-12);
        p.rho = 3; /* another factor of the same matrix */
        assert_ok(f->ctx, solve(&c, f->ctx, &p, z));
        fli_ctx_fail_alloc(f->ctx, 0);
        assert_true(residual(&c, z, 3, anchor, NULL) < 1e-12);
        p.rho = 2; /* and back */
        assert_ok(f->ctx, solve(&c, f->ctx, &p, z));
        assert_true(residual(&c, z, 2, anchor, NULL) < 1e-12);
        client_fini(&c);
    }
}

static const char no_minimiser[] = "has no unique minimiser; give it a proximal term or weight decay";

static void refused_without_proximal_term(fl_ctx *ctx, fli_fed *fed)
{
    client c;
    double zero[DIM] = {0}, z[DIM];
    client_take(&c, ctx, fed, &fli_ops_f64, 0);
    fl_problem p = {.start = zero};
    assert_fails(ctx, solve(&c, ctx, &p, z), FL_ECONFIG, no_minimiser);
    p.anchor = zero;
    assert_fails(ctx, solve(&c, ctx, &p, z), FL_ECONFIG, no_minimiser); /* rho is 0 */
    p.rho = 0.5;
    assert_ok(ctx, solve(&c, ctx, &p, z));
    assert_true(residual(&c, z, 0.5, zero, NULL) < 1e-12);
    client_fini(&c);
}

static void singular_problems(void **state)
{
    fixture *f = *state;
    size_t n = 3;
    refused_without_proximal_term(f->ctx, random_fed(f->ctx, 1, &n, 7, 0, 1)); /* fewer samples than features */
    n = 9;
    fli_fed *fed = random_fed(f->ctx, 1, &n, 5, 0, 1);
    for (size_t s = 0; s < n; s++) ((double *)fed->train->x)[s * 5 + 2] = 0; /* a feature that is always 0 */
    refused_without_proximal_term(f->ctx, fed);
    fed = random_fed(f->ctx, 1, &n, 5, 0, 1);
    for (size_t s = 0; s < n; s++) { /* one that follows from two others, up to rounding */
        double *row = (double *)fed->train->x + s * 5;
        row[4] = 0.3 * row[0] - 1.7 * row[1];
    }
    refused_without_proximal_term(f->ctx, fed);
}

/* Every allocation fails in turn; what was had is given back (the address sanitizer watches). */
static void memory_may_run_out(void **state)
{
    fixture *f = *state;
    for (size_t n = 4; n < 20; n += 9) {
        client c;
        double zero[8] = {0}, z[8];
        size_t k = 0;
        fl_status s;
        client_init(&c, f->ctx, n, 8, &fli_ops_f64, 0);
        fl_problem p = {.start = zero, .anchor = zero, .rho = 1};
        do {
            fli_ctx_fail_alloc(f->ctx, ++k);
            s = solve(&c, f->ctx, &p, z);
            fli_ctx_fail_alloc(f->ctx, 0);
            if (s) {
                assert_int_equal(s, FL_ENOMEM);
                assert_null(c.cache);
                fli_clear(f->ctx);
            }
        } while (s && k < 100);
        assert_true(k > 4 && k < 100);
        assert_true(residual(&c, z, 1, zero, NULL) < 1e-12);
        client_fini(&c);
    }
    fli_solver_exact.forget(NULL);
}

/* ---- conjugate gradients --------------------------------------------------------------------------------- */

static fl_status solve_within(client *c, fl_ctx *ctx, const fl_problem *p, size_t limit, double *z, fl_answer *a)
{
    fli_task *t = solving_pose(&c->exact, &c->view, p, NULL, &c->cache);
    memset(&t->answer, 0x55, sizeof t->answer);
    fl_status s = fli_exact_solve(ctx, c->exact.instance, t, limit);
    *a = t->answer;
    if (!s) c->model->space.ops->to_f64(c->k, a->z, z);
    return s;
}

/* ||r - H z||/||r|| with r = q + rho anchor - shift */
static double relative_residual(const client *c, const double *z, double rho, const double *anchor, const double *shift)
{
    double left = 0, right = 0;
    for (size_t i = 0; i < c->k; i++) {
        double r = c->q[i] + rho * anchor[i] - shift[i], d = r - rho * z[i];
        for (size_t j = 0; j < c->k; j++) d -= c->h[i * c->k + j] * z[j];
        left += d * d;
        right += r * r;
    }
    return sqrt(left / right);
}

/* Just within the limit there is a factor; just outside, none, and the same solution. */
static void conjugate_gradients(fl_ctx *ctx, size_t n, size_t k, const fli_ops *ops, double wd, double rho)
{
    client c;
    fl_answer a;
    double anchor[DIM], shift[DIM], start[DIM], one[DIM], two[DIM], raw[3][DIM];
    size_t kept = n < k ? (size_t)ceil(sqrt((double)(n * k))) : k; /* the samples are kept too when they are few */
    client_init(&c, ctx, n, k, ops, wd);
    random_vector(&c, 0, anchor, raw[0]);
    random_vector(&c, 1, shift, raw[1]);
    random_vector(&c, 2, start, raw[2]);
    fl_problem p = {.start = raw[2], .anchor = raw[0], .shift = raw[1], .rho = rho, .steps = 9};
    assert_ok(ctx, solve_within(&c, ctx, &p, kept - 1, two, &a));
    assert_null(c.cache);
    assert_true(!a.missed && a.steps > 1 && a.steps <= 2 * k + 100 && a.weight == 9);
    size_t cold = a.steps;
    assert_ok(ctx, solve_within(&c, ctx, &p, kept, one, &a));
    assert_non_null(c.cache);
    assert_true(!a.missed && a.steps == 1);
    double off = distance(k, one, two), size = 1 + distance(k, one, (double[DIM]){0});
    double residual_left = relative_residual(&c, two, rho, anchor, shift);
    int f64 = ops == &fli_ops_f64;
    if (!(off < (f64 ? 1e-9 : 1e-4) * size) || (f64 && !(residual_left < 2e-12)))
        fail_msg("%zu x %zu, wd %g, rho %g: %g apart, residual %g", n, k, wd, rho, off, residual_left);
    ops->from_f64(k, one, raw[2]); /* from close by it takes fewer steps */
    assert_ok(ctx, solve_within(&c, ctx, &p, kept - 1, two, &a));
    assert_true(f64 ? a.steps < cold : a.steps <= cold);
    client_fini(&c);
}

static void too_large_for_a_factor(void **state)
{
    fixture *f = *state;
    static const size_t shapes[][2] = {{2, 2}, {7, 3}, {3, 7}, {40, DIM}, {60, DIM}, {9000, 30}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (double rho = 0.01; rho < 1000; rho *= 20) {
            conjugate_gradients(f->ctx, shapes[i][0], shapes[i][1], &fli_ops_f64, i % 2 ? 0.3 : 0, rho);
            conjugate_gradients(f->ctx, shapes[i][0], shapes[i][1], &fli_ops_f32, i % 2 ? 0.3 : 0, rho);
        }
}

/* Above the solver's own limit: 2100 features and as many samples, all but a few zero, so that the solution is
 * known. */
static void large_by_itself(void **state)
{
    enum { K = 2100 };
    fixture *f = *state;
    fli_dataset *ds = NULL;
    fli_partition part = {.clients = 1};
    fli_fed *fed = NULL;
    fli_model *model = NULL;
    solving exact;
    fli_view v;
    fl_answer a;
    fli_rng rng;
    void *cache = NULL;
    double *zero = calloc(K, sizeof *zero), rho = 0.5;
    assert_ok(f->ctx, fli_dataset_new(f->ctx, FLI_X_F64, K, K, 0, &ds));
    part.start = fli_alloc(f->ctx, 2, sizeof *part.start);
    part.index = fli_alloc(f->ctx, K, sizeof *part.index);
    part.start[1] = K;
    for (size_t s = 0; s < K; s++) {
        part.index[s] = (uint32_t)s;
        ((double *)ds->x)[s * K + s] = 10 + (double)(s % 5);
        ds->target[s] = sin((double)s);
    }
    assert_ok(f->ctx, fli_fed_take(f->ctx, ds, NULL, &part, &fed));
    assert_ok(f->ctx, fli_model_new(f->ctx, model_named("least_squares"), NULL, &fli_ops_f64, K, 0, 0, &model));
    assert_ok(f->ctx, solving_init(f->ctx, &fli_solver_exact, model, &(fli_sgd_spec){0}, K, &exact));
    assert_ok(f->ctx, fli_view_open(f->ctx, fed, 0, &v));
    fli_rng_init(&rng, 1, FLI_RNG_BATCH, 0, 0);
    fl_problem p = {.start = zero, .anchor = zero, .rho = rho};
    assert_ok(f->ctx, solving_solve(f->ctx, &exact, &v, &p, &rng, &cache, &a));
    assert_null(cache);
    assert_true(!a.missed && a.steps < 20); /* five eigenvalues */
    for (size_t s = 0; s < K; s++) {
        double d = 10 + (double)(s % 5);
        assert_near(((const double *)a.z)[s], d * sin((double)s) / K / (d * d / K + rho), 1e-12);
    }
    fli_view_close(&v);
    solving_fini(&exact);
    fli_model_free(model);
    fli_fed_free(fed);
    free(zero);
}

static void gradients_that_do_not_arrive(void **state)
{
    fixture *f = *state;
    client c;
    fl_answer a;
    double anchor[DIM], raw[DIM], zero[DIM] = {0}, z[DIM];
    client_init(&c, f->ctx, 100, DIM, &fli_ops_f64, 0);
    random_vector(&c, 0, anchor, raw);
    fl_problem p = {.start = zero, .anchor = raw, .rho = 1e-3, .stop.most_steps = 5};
    assert_ok(f->ctx, solve_within(&c, f->ctx, &p, 1, z, &a));
    assert_true(a.missed && a.steps >= 5 && a.steps <= 6);
    assert_true(relative_residual(&c, z, 1e-3, anchor, zero) > 1e-6);
    client_fini(&c);

    /* no right side: zero, from anywhere */
    client_init(&c, f->ctx, 9, 4, &fli_ops_f64, 0.5);
    for (size_t s = 0; s < 9; s++) c.fed->train->target[s] = 0;
    random_vector(&c, 0, anchor, raw);
    p = (fl_problem){.start = raw};
    assert_ok(f->ctx, solve_within(&c, f->ctx, &p, 1, z, &a));
    assert_true(!a.missed && distance(4, z, zero) == 0);
    client_fini(&c);
}

static void gradients_need_memory(void **state)
{
    fixture *f = *state;
    client c;
    fl_answer a;
    double zero[8] = {0}, z[8];
    size_t k = 0;
    fl_status s;
    client_init(&c, f->ctx, 20, 8, &fli_ops_f64, 0);
    fl_problem p = {.start = zero, .anchor = zero, .rho = 1};
    do {
        fli_ctx_fail_alloc(f->ctx, ++k);
        s = solve_within(&c, f->ctx, &p, 1, z, &a);
        fli_ctx_fail_alloc(f->ctx, 0);
        if (s) assert_int_equal(s, FL_ENOMEM);
        fli_clear(f->ctx);
    } while (s && k < 100);
    assert_true(k == 4);
    client_fini(&c);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(exact_solutions_are_optimal),
        FIXTURE_TEST(no_proximal_term),
        FIXTURE_TEST(both_ways_agree),
        FIXTURE_TEST(kept_between_turns),
        FIXTURE_TEST(singular_problems),
        FIXTURE_TEST(memory_may_run_out),
        FIXTURE_TEST(too_large_for_a_factor),
        FIXTURE_TEST(large_by_itself),
        FIXTURE_TEST(gradients_that_do_not_arrive),
        FIXTURE_TEST(gradients_need_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
