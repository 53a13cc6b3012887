/* The largest |eigenvalue| of a Hessian, and bounds on it for every model, against spectra known otherwise. */
#include "fixture.h"

#include "solver/curvature.h"

enum { ROWS = 30, COLS = 12 };

static const fli_model_desc *find(const char *name)
{
    for (const fli_model_desc *const *p = fli_model_list; *p; p++)
        if (!strcmp((*p)->name, name)) return *p;
    fail_msg("there is no model %s", name);
    return NULL;
}

/* a <- (I - 2 q q'/q'q) a on `rows` entries that lie `stride` apart */
static void reflect(size_t rows, size_t stride, const double *q, double *a)
{
    double qq = 0, qa = 0;
    for (size_t i = 0; i < rows; i++) {
        qq += q[i] * q[i];
        qa += q[i] * a[i * stride];
    }
    for (size_t i = 0; i < rows; i++) a[i * stride] -= 2 * qa / qq * q[i];
}

/* A (ROWS x COLS) with singular values top, 0.8 top, 0.8^2 top, ...: a diagonal matrix between two reflections. */
static void matrix_with_spectrum(double top, uint32_t seed, double *a)
{
    double p[ROWS], q[COLS], sigma = top;
    fli_rng r;
    fli_rng_init(&r, seed, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < ROWS; i++) p[i] = fli_rng_normal(&r);
    for (size_t j = 0; j < COLS; j++) q[j] = fli_rng_normal(&r);
    memset(a, 0, ROWS * COLS * sizeof *a);
    for (size_t j = 0; j < COLS; j++, sigma *= 0.8) a[j * COLS + j] = sigma;
    for (size_t j = 0; j < COLS; j++) reflect(ROWS, COLS, p, a + j);
    for (size_t i = 0; i < ROWS; i++) reflect(COLS, 1, q, a + i * COLS);
}

typedef struct {
    fl_ctx *ctx;
    fli_model *m;
    double a[ROWS * COLS], target[ROWS], x[COLS];
    float narrow[ROWS * COLS], narrow_x[COLS];
    int32_t label[ROWS];
    fli_batch b;
} linear;

static void open_linear(linear *t, const char *model, const fli_ops *ops, double top, double wd)
{
    const fli_model_desc *desc = find(model);
    memset(t, 0, sizeof *t);
    t->ctx = fl_ctx_new();
    matrix_with_spectrum(top, 1, t->a);
    fli_ops_f32.from_f64(ROWS * COLS, t->a, t->narrow);
    for (size_t i = 0; i < ROWS; i++) t->label[i] = i % 3 == 0;
    t->b = (fli_batch){.ops = ops, .n = ROWS, .dim = COLS, .capacity = ROWS, .label = t->label, .target = t->target};
    t->b.x = ops == &fli_ops_f64 ? (void *)t->a : t->narrow;
    size_t classes = desc->traits & FLI_MODEL_CLASSIFIER ? 2 : 0;
    assert_ok(t->ctx, fli_model_new(t->ctx, desc, NULL, ops, COLS, classes, wd, &t->m));
}

static void close_linear(linear *t)
{
    fli_model_free(t->m);
    fl_ctx_free(t->ctx);
}

static void test_least_squares(void **state)
{
    (void)state;
    linear t;
    double l, top = 5, wd = 0.25, want = top * top / ROWS + wd;
    open_linear(&t, "least_squares", &fli_ops_f64, top, wd);
    assert_ok(t.ctx, fli_smoothness(t.ctx, t.m, t.x, &t.b, t.b.n, 7, &l));
    assert_near(l, want, 1e-10 * want);

    /* the same number twice, and another one for another seed, which agrees */
    double again, other;
    assert_ok(t.ctx, fli_smoothness(t.ctx, t.m, t.x, &t.b, t.b.n, 7, &again));
    assert_ok(t.ctx, fli_smoothness(t.ctx, t.m, t.x, &t.b, t.b.n, 8, &other));
    assert_true(l == again);
    assert_near(other, want, 1e-10 * want);
    close_linear(&t);
}

/* The smallest eigenvalue: sigma_min^2/d plus the weight decay, also where it is far below the largest. */
static void test_convexity_is_the_smallest_eigenvalue(void **state)
{
    (void)state;
    for (double wd = 0; wd <= 0.25; wd += 0.25) {
        linear t;
        double l, mu, top = 5, least = top * pow(0.8, COLS - 1), want = least * least / ROWS + wd;
        open_linear(&t, "least_squares", &fli_ops_f64, top, wd);
        assert_ok(t.ctx, fli_smoothness(t.ctx, t.m, t.x, &t.b, t.b.n, 7, &l));
        assert_ok(t.ctx, fli_convexity(t.ctx, t.m, t.x, &t.b, t.b.n, 7, l, &mu));
        assert_near(mu, want, 1e-6 * l);
        assert_ok(t.ctx, fli_convexity(t.ctx, t.m, t.x, &t.b, t.b.n, 7, 0.99 * l, &mu)); /* L itself is an estimate */
        assert_near(mu, want, 1e-6 * l);
        close_linear(&t);
    }
}

static void test_single_precision(void **state)
{
    (void)state;
    linear t;
    double l, want = 25.0 / ROWS;
    open_linear(&t, "least_squares", &fli_ops_f32, 5, 0);
    assert_ok(t.ctx, fli_smoothness(t.ctx, t.m, t.narrow_x, &t.b, t.b.n, 7, &l));
    assert_near(l, want, 1e-5 * want);
    close_linear(&t);
}

/* The Hessian is A' diag(s (1-s)) A/d with s (1-s) <= 1/4, and equality at x = 0. */
static void test_logistic_bound(void **state)
{
    (void)state;
    linear t;
    double l, top = 6, bound = top * top / (4 * ROWS);
    fli_rng r;
    open_linear(&t, "logistic", &fli_ops_f64, top, 0);
    assert_ok(t.ctx, fli_smoothness(t.ctx, t.m, t.x, &t.b, t.b.n, 2, &l));
    assert_near(l, bound, 1e-10 * bound);
    fli_rng_init(&r, 4, FLI_RNG_TEST, 0, 0);
    for (int k = 0; k < 20; k++) {
        for (size_t j = 0; j < COLS; j++) t.x[j] = 3 * fli_rng_normal(&r);
        assert_ok(t.ctx, fli_smoothness(t.ctx, t.m, t.x, &t.b, t.b.n, 2, &l));
        assert_true(l > 0 && l < bound);
    }
    close_linear(&t);
}

static void test_zero_data_have_zero_smoothness(void **state)
{
    (void)state;
    linear t;
    double l = -1;
    open_linear(&t, "least_squares", &fli_ops_f64, 0, 0); /* A = 0 */
    assert_ok(t.ctx, fli_smoothness(t.ctx, t.m, t.x, &t.b, t.b.n, 7, &l));
    assert_true(l == 0);
    t.a[5] = INFINITY;
    assert_fails(t.ctx, fli_smoothness(t.ctx, t.m, t.x, &t.b, t.b.n, 7, &l), FL_EDIVERGED, "not finite");
    close_linear(&t);
}

/* The extreme eigenvalues of a symmetric n x n matrix by cyclic Jacobi rotations; destroys it. */
static void jacobi(size_t n, double *h, double *low, double *high)
{
    for (int sweep = 0; sweep < 60; sweep++)
        for (size_t p = 0; p < n; p++)
            for (size_t q = p + 1; q < n; q++) {
                if (fabs(h[p * n + q]) < 1e-300) continue;
                double theta = 0.5 * atan2(2 * h[p * n + q], h[q * n + q] - h[p * n + p]);
                double c = cos(theta), s = sin(theta);
                for (size_t k = 0; k < n; k++) {
                    double a = h[k * n + p], b = h[k * n + q];
                    h[k * n + p] = c * a - s * b;
                    h[k * n + q] = s * a + c * b;
                }
                for (size_t k = 0; k < n; k++) {
                    double a = h[p * n + k], b = h[q * n + k];
                    h[p * n + k] = c * a - s * b;
                    h[q * n + k] = s * a + c * b;
                }
            }
    *low = *high = h[0];
    for (size_t i = 1; i < n; i++) {
        *low = fmin(*low, h[i * n + i]);
        *high = fmax(*high, h[i * n + i]);
    }
}

/* An indefinite Hessian: a small perceptron's, written out column by column. */
static void test_negative_curvature_counts_as_well(void **state)
{
    (void)state;
    fl_ctx *ctx = fl_ctx_new();
    fli_arena arena;
    fli_arena_init(&arena, ctx);
    const fli_model_desc *desc = find("mlp");
    fli_node *map = fli_node_new(&arena, FLI_NODE_MAP, NULL, NULL);
    fli_node_append(map, fli_node_new(&arena, FLI_NODE_SCALAR, "hidden", "4"));
    fli_table table = {desc->keys, fli_alloc(ctx, 1, desc->params_size)};
    assert_ok(ctx, fli_bind(ctx, &arena, "model", map, NULL, &table, 1));

    fli_model *m = NULL;
    assert_ok(ctx, fli_model_new(ctx, desc, table.out, &fli_ops_f64, 3, 3, 0.01, &m));
    double a[15], l, low, high;
    int32_t label[5] = {0, 2, 1, 1, 0};
    fli_rng r;
    fli_rng_init(&r, 9, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < 15; i++) a[i] = fli_rng_normal(&r);
    fli_batch b = {.ops = &fli_ops_f64, .n = 5, .dim = 3, .capacity = 5, .x = a, .label = label};
    size_t n = m->space.n;
    double *x = fli_alloc(ctx, n, sizeof *x), *e = fli_alloc(ctx, n, sizeof *e), *h = fli_alloc(ctx, n * n, sizeof *h);
    void *scratch = fli_alloc(ctx, fli_model_scratch(m, 5), 1);
    for (size_t i = 0; i < n; i++) x[i] = fli_rng_normal(&r);
    for (size_t i = 0; i < n; i++) {
        e[i] = 1;
        fli_model_hvp(m, x, &b, e, h + i * n, scratch);
        e[i] = 0;
    }
    jacobi(n, h, &low, &high);
    assert_true(low < -1e-3 && high > 1e-3);
    double want = fmax(-low, high);
    assert_ok(ctx, fli_smoothness(ctx, m, x, &b, b.n, 3, &l));
    assert_near(l, want, 1e-8 * want);
    fli_free(scratch);
    fli_free(h);
    fli_free(e);
    fli_free(x);
    fli_free(table.out);
    fli_model_free(m);
    fli_arena_fini(&arena);
    fl_ctx_free(ctx);
}

/* ---- bounds for every model ------------------------------------------------------------------------------ */

enum { SAMPLES = 40, FEATURES = 5 };

typedef struct {
    fli_fed *fed;
    fli_model *m;
    fli_semi semi;
    fli_view v;
    fli_batch b;
    size_t plain;
    double x[FEATURES * FEATURES + FEATURES], y[SAMPLES * FEATURES];
} labelled;

/* A client with SAMPLES samples of which the last `unlabelled` have no label. */
static void open_labelled(labelled *t, fl_ctx *ctx, const char *model, size_t classes, size_t unlabelled, double wd)
{
    size_t n = SAMPLES;
    memset(t, 0, sizeof *t);
    t->fed = random_fed(ctx, 1, &n, FEATURES, classes, 11 + classes);
    if (unlabelled) assert_ok(ctx, fli_fed_hide(ctx, t->fed, (const uint32_t[]){(uint32_t)unlabelled}));
    assert_ok(ctx, fli_model_new(ctx, model_named(model), NULL, &fli_ops_f64, FEATURES, classes, wd, &t->m));
    t->semi = (fli_semi){.labels = FLI_SEMI_PROJECTED, .alpha_p = 0.7, .alpha_r = 1.3, .label_steps = 1};
    if (unlabelled) assert_ok(ctx, fli_model_use_semi(ctx, t->m, &t->semi));
    assert_ok(ctx, fli_view_open(ctx, t->fed, 0, &t->v));
    assert_ok(ctx, fli_batch_init(ctx, &fli_ops_f64, FEATURES, SAMPLES, &t->b));
    t->plain = t->v.n_train;
    fli_batch_gather(&t->b, t->v.ds, t->fed->part.index, SAMPLES);
}

static void close_labelled(labelled *t)
{
    fli_batch_fini(&t->b);
    fli_view_close(&t->v);
    fli_model_free(t->m);
    fli_fed_free(t->fed);
}

/* Random models, from flat to very sure, and random rows of labels on the simplex. */
static void randomise(labelled *t, fli_rng *r)
{
    double scale = pow(10, fli_rng_range(r, -1.5, 1.5));
    for (size_t i = 0; i < t->m->space.n; i++) t->x[i] = scale * fli_rng_normal(r);
    for (size_t i = 0; i < SAMPLES; i++) fli_rng_dirichlet(r, 0.3, t->m->classes, t->y + i * t->m->classes);
}

/* No model, whatever its labels, curves more than the bound; least squares exactly as much. */
static void bounds_hold(void **state)
{
    fl_ctx *ctx = ((fixture *)*state)->ctx;
    static const struct {
        const char *model;
        size_t classes, unlabelled;
    } cases[] = {{"least_squares", 0, 0}, {"logistic", 2, 0}, {"softmax", 2, 0}, {"softmax", 3, 0},
                 {"softmax", 5, 0},       {"softmax", 2, 25}, {"softmax", 5, 25}};
    fli_rng r;
    fli_rng_init(&r, 3, FLI_RNG_TEST, 0, 0);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        labelled t;
        double bound, mu, l, closest = 0;
        open_labelled(&t, ctx, cases[k].model, cases[k].classes, cases[k].unlabelled, 0.05);
        assert_true(fli_bounded(t.m));
        assert_ok(ctx, fli_smoothness_bound(ctx, t.m, &t.v, 5, &bound, &mu));
        for (size_t i = 0; i < 200; i++) {
            randomise(&t, &r);
            if (cases[k].unlabelled)
                assert_ok(ctx, fli_pseudo_smoothness(ctx, t.m, t.x, &t.b, t.plain, t.y, t.plain, 7, &l));
            else
                assert_ok(ctx, fli_smoothness(ctx, t.m, t.x, &t.b, t.plain, 7, &l));
            if (l > bound * (1 + 1e-5)) fail_msg("%s: %g is above %g", cases[k].model, l, bound);
            closest = fmax(closest, l / bound);
        }
        if (!cases[k].classes) assert_true(closest > 1 - 1e-8);
        if (!cases[k].unlabelled) assert_true(closest > 0.3); /* no idle bound */
        assert_true(mu >= 0.05 && (cases[k].classes == 0) == (mu > 0.0501));
        close_labelled(&t);
    }
}

/* Two classes that share all samples, of five: the curvature there is the bound, 5/2 times that of a model of zeros. */
static void softmax_bound_is_reached(void **state)
{
    fl_ctx *ctx = ((fixture *)*state)->ctx;
    labelled t;
    double bound, at_zero, there;
    open_labelled(&t, ctx, "softmax", 5, 0, 0);
    assert_ok(ctx, fli_smoothness_bound(ctx, t.m, &t.v, 5, &bound, NULL));
    assert_ok(ctx, fli_smoothness(ctx, t.m, t.x, &t.b, t.plain, 7, &at_zero));
    for (size_t c = 2; c < 5; c++) t.x[5 * FEATURES + c] = -40;
    assert_ok(ctx, fli_smoothness(ctx, t.m, t.x, &t.b, t.plain, 7, &there));
    assert_near(there, bound, 1e-9 * bound);
    assert_near(there, 2.5 * at_zero, 1e-9 * there);
    close_labelled(&t);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_least_squares),
        cmocka_unit_test(test_convexity_is_the_smallest_eigenvalue),
        cmocka_unit_test(test_single_precision),
        cmocka_unit_test(test_logistic_bound),
        cmocka_unit_test(test_zero_data_have_zero_smoothness),
        cmocka_unit_test(test_negative_curvature_counts_as_well),
        FIXTURE_TEST(bounds_hold),
        FIXTURE_TEST(softmax_bound_is_reached),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
