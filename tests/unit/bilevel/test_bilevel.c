/* Problems of two levels: blocks, derivatives against differences, the hypergradient against differences of Phi with
 * the lower level solved, and the split of a client's samples. */
#include "quadratic_levels.h"

#include "solver/curvature.h"
#include "metric/measure.h"

#include "solve.h"

/* ---- blocks ---------------------------------------------------------------------------------------------- */

static void blocks_must_cover_without_overlap(void **state)
{
    fl_ctx *ctx = ((fixture *)*state)->ctx;
    assert_ok(ctx, fli_blocks_check(ctx, 10, (fli_range){0, 7}, (fli_range){7, 3}));
    assert_fails(ctx, fli_blocks_check(ctx, 10, (fli_range){0, 8}, (fli_range){7, 3}), FL_ECONFIG, "overlap");
    assert_fails(ctx, fli_blocks_check(ctx, 10, (fli_range){2, 3}, (fli_range){0, 10}), FL_ECONFIG, "overlap");
    assert_fails(ctx, fli_blocks_check(ctx, 10, (fli_range){0, 6}, (fli_range){7, 3}), FL_ECONFIG, "miss");
    assert_fails(ctx, fli_blocks_check(ctx, 10, (fli_range){1, 6}, (fli_range){7, 3}), FL_ECONFIG, "miss");
    assert_fails(ctx, fli_blocks_check(ctx, 10, (fli_range){0, 7}, (fli_range){7, 2}), FL_ECONFIG, "miss");
    assert_fails(ctx, fli_blocks_check(ctx, 10, (fli_range){3, 7}, (fli_range){0, 3}), FL_ECONFIG, "miss");
    assert_fails(ctx, fli_blocks_check(ctx, 10, (fli_range){0, 10}, (fli_range){10, 0}), FL_ECONFIG, "lower");
    assert_fails(ctx, fli_blocks_check(ctx, 10, (fli_range){0, 0}, (fli_range){0, 10}), FL_ECONFIG, "upper");
}

/* ---- problems -------------------------------------------------------------------------------------------- */

enum { SAMPLES = 14, HELD = 5, MOST = 64 };

/* A problem with a batch for each level, all in memory. */
typedef struct {
    fl_ctx *ctx;
    fli_arena arena;
    fli_fed *fed;
    fli_model *m;
    fli_batch train, validation;
    void *scratch;
    size_t p, q;
} problem;

static const fli_bilevel_desc *kind_named(const char *name)
{
    for (const fli_bilevel_desc *const *d = fli_bilevel_list; *d; d++)
        if (!strcmp((*d)->name, name)) return *d;
    return &fli_bilevel_quadratic;
}

static void make_model(problem *k, const char *model, const char *kind, double l2)
{
    const fli_bilevel_desc *b = kind_named(kind);
    const fli_model_desc *d = model_named(model);
    const void *params = bound(k->ctx, &k->arena, d->keys, d->params_size, strcmp(model, "mlp") ? "" : "hidden=[4]");
    assert_ok(k->ctx, fli_model_new(k->ctx, d, params, &fli_ops_f64, k->fed->dim, k->fed->classes, 0, &k->m));
    assert_ok(k->ctx, fli_bilevel_give(k->ctx, k->m, b, bound(k->ctx, &k->arena, b->keys, b->params_size, ""),
                                       &(fli_bilevel_common){.l2 = l2}));
}

static void problem_init(problem *k, fl_ctx *ctx, const char *model, const char *kind, double l2)
{
    uint32_t idx[SAMPLES];
    *k = (problem){.ctx = ctx};
    fli_arena_init(&k->arena, ctx);
    if (!strcmp(kind, "quadratic")) {
        quadratic q[SAMPLES];
        fli_rng r;
        fli_rng_init(&r, 9, FLI_RNG_TEST, 0, 0);
        for (size_t i = 0; i < SAMPLES; i++) q[i] = quadratic_random(&r);
        k->fed = quadratic_fed(ctx, 1, SAMPLES, q);
        k->m = quadratic_model(ctx, &k->arena, l2);
    } else {
        size_t classes = !strcmp(model, "least_squares") ? 0 : !strcmp(model, "logistic") ? 2 : 3;
        k->fed = random_fed(ctx, 1, (size_t[]){SAMPLES}, 3, classes, 4);
        make_model(k, model, kind, l2);
    }
    assert_ok(ctx, fli_model_batch(ctx, k->m, SAMPLES, &k->train));
    assert_ok(ctx, fli_model_batch(ctx, k->m, SAMPLES, &k->validation));
    for (uint32_t i = 0; i < SAMPLES; i++) idx[i] = i;
    fli_batch_gather(&k->validation, k->fed->train, idx, HELD);
    fli_batch_gather(&k->train, k->fed->train, idx + HELD, SAMPLES - HELD);
    k->scratch = fli_alloc(ctx, fli_model_scratch(k->m, SAMPLES), 1);
    k->p = k->m->bilevel->upper;
    k->q = k->m->space.n - k->p;
    assert_true(k->p + k->q <= MOST);
}

static void problem_fini(problem *k)
{
    fli_batch_fini(&k->train);
    fli_batch_fini(&k->validation);
    fli_free(k->scratch);
    fli_model_free(k->m);
    fli_fed_free(k->fed);
    fli_arena_fini(&k->arena);
}

static double f_of(problem *k, const double *z, double *d)
{
    return fli_bilevel_upper(k->m, z, &k->validation, d, k->scratch);
}
static double g_of(problem *k, const double *z, double *d)
{
    return fli_bilevel_lower(k->m, z, &k->train, d, k->scratch);
}
static void product(problem *k, const double *z, const double *v, double *out)
{
    fli_bilevel_product(k->m, z, &k->train, v, out, k->scratch);
}

static const struct {
    const char *model, *kind;
    size_t upper, lower;
} all[] = {
    {"mlp", "hyper_representation", 3 * 4 + 4, 4 * 3 + 3},
    {"softmax", "regularization", 3, 3 * 3 + 3},
    {"logistic", "regularization", 3, 3},
    {"least_squares", "regularization", 3, 3},
    {"", "quadratic", UP, LOW},
};
enum { KINDS = sizeof all / sizeof *all };

static void random_point(size_t n, uint32_t which, double *z)
{
    fli_rng r;
    fli_rng_init(&r, 21, FLI_RNG_TEST, which, 0);
    for (size_t i = 0; i < n; i++) z[i] = 0.6 * fli_rng_normal(&r);
}

/* ---- derivatives ------------------------------------------------------------------------------------------ */

static double dot(size_t n, const double *a, const double *b)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += a[i] * b[i];
    return sum;
}

/* Values against their derivatives; then d/dz_j <grad_y g, v> against entry j of (g_xy v, g_yy v). */
static void derivatives_match_differences(void **state)
{
    const double h = 1e-6;
    for (size_t i = 0; i < KINDS; i++) {
        problem k;
        double z[MOST], v[MOST] = {0}, df[MOST], dg[MOST], hv[MOST], left[MOST], right[MOST];
        problem_init(&k, ((fixture *)*state)->ctx, all[i].model, all[i].kind, 0.3);
        assert_int_equal(k.p, all[i].upper);
        assert_int_equal(k.q, all[i].lower);
        random_point(k.p + k.q, 1, z);
        random_point(k.q, 2, v + k.p);
        assert_near(f_of(&k, z, df), f_of(&k, z, NULL), 1e-14);
        assert_near(g_of(&k, z, dg), g_of(&k, z, NULL), 1e-14);
        product(&k, z, v, hv);
        for (size_t j = 0; j < k.p + k.q; j++) {
            double at = z[j];
            z[j] = at + h;
            double f1 = f_of(&k, z, NULL), g1 = g_of(&k, z, right);
            z[j] = at - h;
            double f0 = f_of(&k, z, NULL), g0 = g_of(&k, z, left);
            z[j] = at;
            assert_near((f1 - f0) / (2 * h), df[j], 1e-8);
            if (j >= k.p) assert_near((g1 - g0) / (2 * h), dg[j], 1e-8);
            double slope = (dot(k.q, right + k.p, v + k.p) - dot(k.q, left + k.p, v + k.p)) / (2 * h);
            assert_near(slope, hv[j], 1e-7);
        }
        problem_fini(&k);
    }
}

static double largest_eigenvalue(size_t n, double hessian[MOST][MOST])
{
    double v[MOST], hv[MOST], norm = 0;
    random_point(n, 2, v);
    for (size_t it = 0; it < 5000; it++) {
        for (size_t j = 0; j < n; j++) hv[j] = dot(n, hessian[j], v);
        norm = sqrt(dot(n, hv, hv));
        for (size_t j = 0; j < n; j++) v[j] = hv[j] / norm;
    }
    return norm;
}

/* The largest eigenvalue of g_yy: against power iteration on a matrix that is made of differences of gradients. */
static void smoothness_is_the_largest_eigenvalue(void **state)
{
    const double h = 1e-6;
    for (size_t i = 0; i < KINDS; i++) {
        problem k;
        double z[MOST], left[MOST], right[MOST], hessian[MOST][MOST], l;
        problem_init(&k, ((fixture *)*state)->ctx, all[i].model, all[i].kind, 0.3);
        random_point(k.p + k.q, 1, z);
        for (size_t j = 0; j < k.q; j++) {
            double at = z[k.p + j];
            z[k.p + j] = at + h;
            g_of(&k, z, right);
            z[k.p + j] = at - h;
            g_of(&k, z, left);
            z[k.p + j] = at;
            for (size_t c = 0; c < k.q; c++) hessian[j][c] = (right[k.p + c] - left[k.p + c]) / (2 * h);
        }
        assert_ok(k.ctx, fli_smoothness(k.ctx, k.m, z, &k.train, k.train.n, 3, &l));
        assert_near(l, largest_eigenvalue(k.q, hessian), 1e-6);
        problem_fini(&k);
    }
}

/* The same of f by all parameters. */
static void curvature_above(void **state)
{
    const double h = 1e-5;
    for (size_t i = 0; i < KINDS; i++) {
        problem k;
        double z[MOST], left[MOST], right[MOST], hessian[MOST][MOST], l;
        problem_init(&k, ((fixture *)*state)->ctx, all[i].model, all[i].kind, 0.3);
        size_t n = k.p + k.q;
        random_point(n, 1, z);
        for (size_t j = 0; j < n; j++) {
            double at = z[j];
            z[j] = at + h;
            f_of(&k, z, right);
            z[j] = at - h;
            f_of(&k, z, left);
            z[j] = at;
            for (size_t c = 0; c < n; c++) hessian[j][c] = (right[c] - left[c]) / (2 * h);
        }
        assert_ok(k.ctx, fli_upper_smoothness(k.ctx, k.m, z, &k.validation, 3, &l));
        assert_near(l, largest_eigenvalue(n, hessian), 1e-5);
        problem_fini(&k);
    }
}

/* ---- the hypergradient ------------------------------------------------------------------------------------- */

/* g_yy d = b for the lower block by conjugate gradients; b and d have q entries. */
static void solve_hessian(problem *k, const double *z, const double *b, double *d)
{
    double r[MOST], dir[MOST] = {0}, hd[MOST], rr;
    memset(d, 0, k->q * sizeof *d);
    memcpy(r, b, k->q * sizeof *r);
    memcpy(dir + k->p, b, k->q * sizeof *r);
    rr = dot(k->q, r, r);
    for (size_t it = 0; it < 200 && rr > 1e-30; it++) {
        product(k, z, dir, hd);
        double a = rr / dot(k->q, dir + k->p, hd + k->p), last = rr;
        for (size_t j = 0; j < k->q; j++) d[j] += a * dir[k->p + j], r[j] -= a * hd[k->p + j];
        rr = dot(k->q, r, r);
        for (size_t j = 0; j < k->q; j++) dir[k->p + j] = r[j] + rr / last * dir[k->p + j];
    }
}

/* y <- y*(x), to a gradient of 1e-10, by Newton's method. */
static void solve_lower(problem *k, double *z)
{
    double g[MOST], d[MOST];
    for (size_t it = 0; it < 100; it++) {
        g_of(k, z, g);
        if (dot(k->q, g + k->p, g + k->p) < 1e-22) return;
        solve_hessian(k, z, g + k->p, d);
        for (size_t j = 0; j < k->q; j++) z[k->p + j] -= d[j];
    }
    fail_msg("the lower level was not solved");
}

static double phi(problem *k, double *z)
{
    solve_lower(k, z);
    return f_of(k, z, NULL);
}

static void the_hypergradient_matches_differences(void **state)
{
    const double h = 1e-5;
    for (size_t i = 0; i < KINDS; i++) {
        problem k;
        double z[MOST], v[MOST] = {0}, df[MOST], hv[MOST];
        problem_init(&k, ((fixture *)*state)->ctx, all[i].model, all[i].kind, 0.3);
        random_point(k.p + k.q, 1, z);
        solve_lower(&k, z);
        f_of(&k, z, df);
        solve_hessian(&k, z, df + k.p, v + k.p);
        product(&k, z, v, hv);
        for (size_t j = 0; j < k.p; j++) {
            double at = z[j];
            z[j] = at + h;
            double right = phi(&k, z);
            z[j] = at - h;
            double left = phi(&k, z);
            z[j] = at;
            assert_near((right - left) / (2 * h), df[j] - hv[j], 1e-7);
        }
        problem_fini(&k);
    }
}

/* ---- the hypergradient of a federation --------------------------------------------------------------------- */

static fli_exec *exec_of(fl_ctx *ctx, fli_arena *a, const fli_model *m, const fli_fed *fed, fli_setup *setup)
{
    const fl_method *algo = algo_named("simfbo");
    fli_exec *e = NULL;
    *setup = setup_of(m, fed, algo, bound(ctx, a, algo->keys, algo->params_size, ""));
    setup->seed = 77;
    fli_exec_spec spec = {.setup = setup, .threads = 1};
    assert_ok(ctx, fli_exec_new(ctx, &spec, &e));
    return e;
}

enum { FEDERATED = 20, EACH = 3 };

/* With these weights of single samples, which are those of their clients, and p_i where `weights` is NULL. */
static void check_quadratics(fixture *f, const quadratic *q, const double *w, const double *weights)
{
    const double l2 = 0.2;
    double z[UP + LOW], v[UP + LOW] = {0}, y[LOW], right[LOW], a[LOW * LOW], grad[UP], value = 0;
    fli_levels_solved found;
    fli_counts counts = {0};
    engine e;
    random_point(UP + LOW, 1, z);
    random_point(LOW, 2, v + UP);
    quadratic mean = quadratic_mean(FEDERATED * EACH, q, w);
    for (size_t i = 0; i < LOW; i++) mean.a[i * LOW + i] += l2;
    quadratic_lower(&mean, z, y);
    quadratic_gradient(&mean, z, grad);
    for (size_t i = 0; i < LOW; i++) {
        right[i] = y[i] - mean.t[i];
        for (size_t j = 0; j < UP; j++) right[i] += mean.e[j * LOW + i] * z[j];
    }
    memcpy(a, mean.a, sizeof a);
    solve_linear(LOW, a, right); /* v* */
    for (size_t i = 0; i < FEDERATED * EACH; i++) {
        double to_t = distance(LOW, y, q[i].t), to_s = distance(UP, z, q[i].s);
        value += w[i] * (to_t * to_t + to_s * to_s) / 2;
        for (size_t j = 0; j < UP; j++) value += w[i] * z[j] * dot(LOW, q[i].e + j * LOW, y);
    }
    levels_init(&e, f->ctx, quadratic_fed(f->ctx, FEDERATED, EACH, q), l2, "simfbo", "", 1, 1);
    assert_ok(f->ctx, fli_hypergradient(f->ctx, e.exec, z, v, weights, &counts, &found));
    assert_near(found.value, value, 1e-9);
    assert_near(found.hypergradient, sqrt(dot(UP, grad, grad)), 1e-9);
    assert_near(found.lower_distance, distance(LOW, z + UP, y), 1e-9);
    assert_near(found.system_distance, distance(LOW, v + UP, right), 1e-9);
    assert_true(counts.evaluation_up > 0 && counts.evaluation_down > 0 && counts.bytes_up == 0);
    assert_ok(f->ctx, fli_hypergradient(f->ctx, e.exec, z, NULL, weights, &counts, &found));
    assert_true(isnan(found.system_distance) && isfinite(found.hypergradient));
    engine_fini(&e);
}

/* Several clients with several samples each, against the closed form of their mean: for equal weights and others. */
static void hypergradient_of_quadratics(void **state)
{
    static quadratic q[FEDERATED * EACH];
    double w[FEDERATED * EACH], weights[FEDERATED], sum = 0;
    fli_rng r;
    fli_rng_init(&r, 8, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < FEDERATED * EACH; i++) q[i] = quadratic_random(&r), w[i] = 1.0 / (FEDERATED * EACH);
    check_quadratics(*state, q, w, NULL);
    for (size_t i = 0; i < FEDERATED; i++) sum += weights[i] = fli_rng_uniform(&r);
    for (size_t i = 0; i < FEDERATED; i++) weights[i] /= sum;
    for (size_t i = 0; i < FEDERATED * EACH; i++) w[i] = weights[i / EACH] / EACH;
    check_quadratics(*state, q, w, weights);
}

/* Against differences of Phi, with the lower level solved by the code above. */
static void hypergradient_of_runs(void **state)
{
    const double h = 1e-5;
    for (size_t i = 0; i < KINDS; i++) {
        problem k;
        double z[MOST], norm2 = 0;
        uint32_t idx[SAMPLES];
        fli_levels_solved found;
        fli_counts counts = {0};
        problem_init(&k, ((fixture *)*state)->ctx, all[i].model, all[i].kind, 0.3);
        for (uint32_t j = 0; j < SAMPLES; j++) idx[j] = j;
        fli_batch_gather(&k.validation, k.fed->train, idx, SAMPLES); /* validation: 0 */
        fli_batch_gather(&k.train, k.fed->train, idx, SAMPLES);
        fli_setup setup;
        fli_exec *e = exec_of(k.ctx, &k.arena, k.m, k.fed, &setup);
        random_point(k.p + k.q, 1, z);
        assert_ok(k.ctx, fli_hypergradient(k.ctx, e, z, NULL, NULL, &counts, &found));
        for (size_t j = 0; j < k.p; j++) {
            double at = z[j];
            z[j] = at + h;
            double right = phi(&k, z);
            z[j] = at - h;
            double left = phi(&k, z), slope = (right - left) / (2 * h);
            z[j] = at;
            norm2 += slope * slope;
        }
        assert_true(norm2 > 1e-6);
        assert_near(found.value, phi(&k, z), 1e-9);
        assert_near(found.hypergradient, sqrt(norm2), 1e-7);
        fli_exec_free(e);
        problem_fini(&k);
    }
}

static void count_unsolved(void *arg, fl_log_level level, const char *line)
{
    if (level == FL_LOG_WARNING && strstr(line, "could not be solved")) ++*(size_t *)arg;
}

/* A lower level without a minimiser. */
static void unsolved_lower_level(void **state)
{
    fixture *f = *state;
    quadratic q;
    double z[UP + LOW];
    size_t warnings = 0;
    fli_levels_solved found;
    fli_counts counts = {0};
    fli_rng r;
    engine e;
    fli_rng_init(&r, 8, FLI_RNG_TEST, 0, 0);
    q = quadratic_random(&r);
    for (size_t i = 0; i < LOW * LOW; i++) q.a[i] = -q.a[i];
    random_point(UP + LOW, 1, z);
    levels_init(&e, f->ctx, quadratic_fed(f->ctx, 1, 1, &q), 0, "simfbo", "", 0, 1);
    fl_ctx_on_log(f->ctx, count_unsolved, &warnings);
    assert_ok(f->ctx, fli_hypergradient(f->ctx, e.exec, z, z, NULL, &counts, &found));
    fl_ctx_on_log(f->ctx, NULL, NULL);
    assert_true(isnan(found.hypergradient) && isnan(found.lower_distance) && isnan(found.system_distance));
    assert_int_equal(warnings, 1);
    engine_fini(&e);
}

/* ---- the split --------------------------------------------------------------------------------------------- */

static void validation_counts(void **state)
{
    (void)state;
    assert_int_equal(fli_validation_count(0.2, 10), 2);
    assert_int_equal(fli_validation_count(0.2, 12), 2);
    assert_int_equal(fli_validation_count(0.2, 13), 3);
    assert_int_equal(fli_validation_count(0.2, 2), 1);
    assert_int_equal(fli_validation_count(0.9, 2), 1);
    assert_int_equal(fli_validation_count(0.9, 3), 2);
    assert_int_equal(fli_validation_count(0, 10), 0);
    assert_int_equal(fli_validation_count(0.5, 1), 0);
}

/* One piece of work of a client with this many samples, on a hyper-representation with validation samples. */
static void work(fixture *f, problem *k, solving *w, fl_level_work kind, uint32_t client, uint32_t round,
                 const double *z, double *out)
{
    fli_view view;
    fli_rng rng;
    fl_answer answer;
    fl_problem p = {.start = z, .steps = 1, .levels = {.work = kind}};
    fli_rng_init(&rng, 1, FLI_RNG_BATCH, round, client);
    assert_ok(f->ctx, fli_view_open(f->ctx, k->fed, 0, &view));
    w->task.seed = 77;
    w->task.client = client;
    assert_ok(f->ctx, solving_solve(f->ctx, w, &view, &p, &rng, NULL, &answer));
    memcpy(out, answer.z, (k->p + k->q) * sizeof *out);
    fli_view_close(&view);
}

/* Every sample is in one of the levels: their gradients, weighted by samples, make up that of all. The split lasts, and
 * is the client's own. More samples than are computed at a time. */
static void the_split_has_every_sample_once(void **state)
{
    fixture *f = *state;
    enum { N = 1500, V = 300 };
    problem k = {.ctx = f->ctx};
    solving w;
    double z[MOST], df[MOST], dg[MOST], again[MOST], other[MOST], whole[MOST];
    fli_arena_init(&k.arena, f->ctx);
    k.fed = random_fed(f->ctx, 1, (size_t[]){N}, 3, 3, 4);
    make_model(&k, "mlp", "hyper_representation", 0);
    ((fli_bilevel *)k.m->bilevel)->common.validation = 0.2;
    k.p = k.m->bilevel->upper;
    k.q = k.m->space.n - k.p;
    assert_ok(f->ctx, solving_init(f->ctx, &fli_solver_bilevel, k.m, &(fli_sgd_spec){0}, N, &w));
    random_point(k.p + k.q, 1, z);
    work(f, &k, &w, FL_WORK_UPPER_GRADIENT, 0, 0, z, df);
    work(f, &k, &w, FL_WORK_LOWER_GRADIENT, 0, 0, z, dg);
    fli_eval_loss(&w.eval, k.fed->train, k.fed->part.index, N, z, whole, NULL);
    for (size_t j = k.p; j < k.p + k.q; j++) assert_near((V * df[j] + (N - V) * dg[j]) / N, whole[j], 1e-13);
    assert_true(distance(k.q, df + k.p, dg + k.p) > 1e-4);
    work(f, &k, &w, FL_WORK_UPPER_GRADIENT, 0, 1, z, again);
    assert_true(distance(k.p + k.q, df, again) == 0);
    work(f, &k, &w, FL_WORK_UPPER_GRADIENT, 1, 0, z, other);
    assert_true(distance(k.p + k.q, df, other) > 1e-4);
    /* metrics see the same samples */
    fli_view view;
    assert_ok(f->ctx, fli_view_open(f->ctx, k.fed, 0, &view));
    fli_derivative d = {.work = FL_WORK_UPPER_GRADIENT, .z = z, .seed = 77};
    assert_ok(f->ctx, fli_derivative_over(f->ctx, &w.eval, &view, &d, other));
    assert_true(distance(k.p + k.q, df, other) == 0);
    d.work = FL_WORK_LOWER_GRADIENT;
    assert_ok(f->ctx, fli_derivative_over(f->ctx, &w.eval, &view, &d, other));
    assert_true(distance(k.p + k.q, dg, other) == 0);
    fli_view_close(&view);
    solving_fini(&w);
    fli_model_free(k.m);
    fli_fed_free(k.fed);
    fli_arena_fini(&k.arena);
}

static void coefficients_follow_their_list(void **state)
{
    (void)state;
    double values[] = {1, 0.5, 0.25};
    fl_coefs list = {values, 3, 1, 1}, one = {values, 1, 1, 1}, half = {values, 1, 0.5, 1}, scaled = {values, 3, 1, 4};
    assert_near(fli_coef(&list, 1), 0.5, 0);
    assert_near(fli_coef(&list, 9), 0.25, 0);
    assert_near(fli_coef(&half, 3), 0.125, 0);
    assert_near(fli_coef(&scaled, 1), 2, 0);
    assert_near(fli_coef_sum(&list, 5), 2.25, 0);
    assert_near(fli_coef_sum(&scaled, 5), 9, 0);
    assert_near(fli_coef_sum(&one, 5), 5, 0);
    assert_near(fli_coef_sum(&half, 4), 1.875, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(blocks_must_cover_without_overlap),
        FIXTURE_TEST(derivatives_match_differences),
        FIXTURE_TEST(the_hypergradient_matches_differences),
        FIXTURE_TEST(hypergradient_of_quadratics),
        FIXTURE_TEST(hypergradient_of_runs),
        FIXTURE_TEST(unsolved_lower_level),
        FIXTURE_TEST(smoothness_is_the_largest_eigenvalue),
        FIXTURE_TEST(curvature_above),
        FIXTURE_TEST(the_split_has_every_sample_once),
        FIXTURE_TEST(coefficients_follow_their_list),
        FIXTURE_TEST(validation_counts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
