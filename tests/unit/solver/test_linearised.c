/* The linearised solvers: their steps against the same steps written out with dense matrices from the raw data; either
 * way of taking them, either matrix; what is kept, what it costs; and Lanczos' estimate of an eigenvalue. */
#include "fixture.h"

#include "solver/gram.h"
#include "solver/curvature.h"
#include "solve.h"

enum { DIM = 40 };

/* One client, with the curvature of its problem from the raw data. */
typedef struct {
    fli_fed *fed;
    fli_model *model;
    fli_view view;
    solving gram, diagonal;
    void *cache;
    size_t k;
    double *h; /* k x k: c A'A/n + wd I */
} client;

static void client_take(client *c, fl_ctx *ctx, fli_fed *fed, const char *model, const fli_ops *ops, double wd)
{
    memset(c, 0, sizeof *c);
    c->fed = fed;
    c->k = fed->dim;
    c->h = calloc(c->k * c->k, sizeof *c->h);
    assert_ok(ctx, fli_model_new(ctx, model_named(model), NULL, ops, fed->dim, fed->classes, wd, &c->model));
    assert_ok(ctx, fli_view_open(ctx, fed, 0, &c->view));
    fli_sgd_spec sgd = {0};
    assert_ok(ctx, solving_init(ctx, &fli_solver_gram, c->model, &sgd, fed->largest, &c->gram));
    assert_ok(ctx, solving_init(ctx, &fli_solver_diagonal, c->model, &sgd, fed->largest, &c->diagonal));
    double scale = (strcmp(model, "logistic") ? 1 : 0.25) / (double)c->view.n_train;
    double *row = malloc(c->k * sizeof *row);
    for (size_t s = 0; s < c->view.n_train; s++) {
        fli_dataset_row(c->view.ds, c->view.train[s], row);
        for (size_t i = 0; i < c->k; i++)
            for (size_t j = 0; j < c->k; j++) c->h[i * c->k + j] += scale * row[i] * row[j];
    }
    for (size_t i = 0; i < c->k; i++) c->h[i * c->k + i] += wd;
    free(row);
}

static void client_init(client *c, fl_ctx *ctx, size_t n, size_t k, const char *model, const fli_ops *ops, double wd)
{
    client_take(c, ctx, random_fed(ctx, 1, &n, k, strcmp(model, "logistic") ? 0 : 2, 3 + n), model, ops, wd);
}

static void client_fini(client *c)
{
    fli_solver_gram.forget(c->cache);
    solving_fini(&c->gram);
    solving_fini(&c->diagonal);
    fli_view_close(&c->view);
    fli_model_free(c->model);
    fli_fed_free(c->fed);
    free(c->h);
}

/* The gradient with weight decay, sample by sample. */
static void gradient_by_hand(const client *c, double wd, const double *x, double *g)
{
    double row[DIM], n = (double)c->view.n_train;
    for (size_t i = 0; i < c->k; i++) g[i] = wd * x[i];
    for (size_t s = 0; s < c->view.n_train; s++) {
        uint32_t at = c->view.train[s];
        double dot = 0, off;
        fli_dataset_row(c->view.ds, at, row);
        for (size_t i = 0; i < c->k; i++) dot += row[i] * x[i];
        off = c->view.ds->target ? dot - c->view.ds->target[at] : 1 / (1 + exp(-dot)) - c->view.ds->label[at];
        for (size_t i = 0; i < c->k; i++) g[i] += off * row[i] / n;
    }
}

/* The largest eigenvalue of a symmetric positive matrix, by very many steps of power iteration. */
static double norm_by_hand(size_t n, const double *h)
{
    double *v = malloc(n * sizeof *v), *w = malloc(n * sizeof *w), norm = 0;
    for (size_t i = 0; i < n; i++) v[i] = 1 + (double)(i % 7);
    for (size_t k = 0; k < 20000; k++) {
        for (size_t i = 0; i < n; i++) {
            w[i] = 0;
            for (size_t j = 0; j < n; j++) w[i] += h[i * n + j] * v[j];
        }
        double before = norm;
        norm = sqrt(distance(n, w, (double[64]){0}) * distance(n, w, (double[64]){0}));
        for (size_t i = 0; i < n; i++) v[i] = w[i] / norm;
        if (k > 100 && fabs(norm - before) < 1e-16 * norm) break;
    }
    free(v);
    free(w);
    return norm;
}

enum { DIAGONAL, ONE_BY_ONE, AT_ONCE, AS_IT_COMES, WAYS };

static fl_status solve(client *c, fl_ctx *ctx, int way, const fl_problem *p, fl_answer *a)
{
    fli_rng rng;
    fli_rng_init(&rng, 1, FLI_RNG_BATCH, 0, 0);
    if (way == DIAGONAL) return solving_solve(ctx, &c->diagonal, &c->view, p, &rng, &c->cache, a);
    if (way == AS_IT_COMES) return solving_solve(ctx, &c->gram, &c->view, p, &rng, &c->cache, a);
    fli_task *t = solving_pose(&c->gram, &c->view, p, &rng, &c->cache);
    fl_status s = fli_linearised_gram(ctx, c->gram.instance, t, way == AT_ONCE ? 0 : SIZE_MAX);
    *a = t->answer;
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

/* z and the multiplier after `steps` steps, one after the other with a dense solution each. */
static void steps_by_hand(const client *c, int way, double wd, double rho, size_t steps, const double *x,
                          const double *shift, double *z, double *multiplier)
{
    size_t k = c->k;
    double g[DIM], a[DIM * DIM], y[DIM], l = way == DIAGONAL ? norm_by_hand(k, c->h) : 0;
    gradient_by_hand(c, wd, x, g);
    memcpy(multiplier, shift, k * sizeof *shift);
    for (size_t s = 0; s < steps; s++) {
        for (size_t i = 0; i < k * k; i++)
            a[i] = (way == DIAGONAL ? i % (k + 1) ? 0 : l : c->h[i]) + (i % (k + 1) ? 0 : rho);
        for (size_t i = 0; i < k; i++) y[i] = g[i] + multiplier[i];
        solve_linear(k, a, y);
        for (size_t i = 0; i < k; i++) {
            z[i] = x[i] - y[i];
            multiplier[i] += rho * (z[i] - x[i]);
        }
    }
}

/* Lemma B.1 (34), times N: g + multiplier + H (z - x) = 0. The largest entry. */
static double stationarity(const client *c, double wd, const double *x, const double *z, const double *multiplier)
{
    double g[DIM], worst = 0;
    gradient_by_hand(c, wd, x, g);
    for (size_t i = 0; i < c->k; i++) {
        double left = g[i] + multiplier[i];
        for (size_t j = 0; j < c->k; j++) left += c->h[i * c->k + j] * (z[j] - x[j]);
        worst = fmax(worst, fabs(left));
    }
    return worst;
}

static void case_of(fl_ctx *ctx, size_t n, size_t k, const char *model, const fli_ops *ops, double wd, double rho)
{
    static const size_t counts[] = {1, 2, 3, 10, 70};
    double x[DIM], shift[DIM], raw[2][DIM], z[DIM], m[DIM], got_z[DIM], got_m[DIM];
    double tolerance = ops == &fli_ops_f64 ? 1e-10 : 2e-4;
    for (int way = 0; way < WAYS; way++) {
        client c;
        client_init(&c, ctx, n, k, model, ops, wd);
        random_vector(&c, 0, x, raw[0]);
        random_vector(&c, 1, shift, raw[1]);
        for (size_t i = 0; i < 5; i++) {
            fl_answer a;
            fl_problem p = {.start = raw[0], .shift = raw[1], .rho = rho, .steps = counts[i]};
            steps_by_hand(&c, way, wd, rho, counts[i], x, shift, z, m);
            assert_ok(ctx, solve(&c, ctx, way, &p, &a));
            assert_int_equal(a.steps, 1);
            ops->to_f64(k, a.z, got_z);
            ops->to_f64(k, a.linearised.multiplier, got_m);
            double off = distance(k, z, got_z) + distance(k, m, got_m) / fmax(1, rho);
            if (!(off < tolerance * (double)k))
                fail_msg("%s %zu x %zu, wd %g, rho %g, way %d, %zu steps: off by %g", model, n, k, wd, rho, way,
                         counts[i], off);
            if (way != DIAGONAL && ops == &fli_ops_f64) assert_true(stationarity(&c, wd, x, got_z, got_m) < 1e-9);
        }
        client_fini(&c);
    }
}

static void as_by_hand(void **state)
{
    fixture *f = *state;
    static const size_t shapes[][2] = {{1, 1}, {7, 2}, {2, 7}, {5, 5}, {9, DIM}, {39, DIM}, {40, DIM}, {700, 9}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++)
        for (int wd = 0; wd < 2; wd++)
            for (double rho = 0.02; rho < 100; rho *= 15) {
                size_t n = shapes[i][0], k = shapes[i][1];
                case_of(f->ctx, n, k, "least_squares", &fli_ops_f64, 0.3 * wd, rho);
                case_of(f->ctx, n, k, "least_squares", &fli_ops_f32, 0.3 * wd, rho);
                if (k > 1) case_of(f->ctx, n, k, "logistic", &fli_ops_f64, 0.3 * wd, rho);
            }
}

/* No steps: the limit of many. */
static void the_limit(void **state)
{
    fixture *f = *state;
    for (int way = 0; way < WAYS; way++) {
        client c;
        fl_answer a;
        double x[8], shift[8], raw[2][8], g[8];
        client_init(&c, f->ctx, 5, 8, "logistic", &fli_ops_f64, 0.1);
        random_vector(&c, 0, x, raw[0]);
        random_vector(&c, 1, shift, raw[1]);
        gradient_by_hand(&c, 0.1, x, g);
        fl_problem p = {.start = raw[0], .shift = raw[1], .rho = 0.3};
        for (p.steps = 0; p.steps <= 3000; p.steps += 3000) {
            assert_ok(f->ctx, solve(&c, f->ctx, way, &p, &a));
            for (size_t i = 0; i < 8; i++) assert_near(((const double *)a.linearised.multiplier)[i], -g[i], 1e-13);
            for (size_t i = 0; i < 8; i++) assert_near(((const double *)a.z)[i], x[i], 1e-13);
        }
        client_fini(&c);
    }
}

/* The same curvature from one sample fewer than features, and with a sample of zeros more: one is done in the order of
 * the samples, the other in that of the features. */
static void both_orders_agree(void **state)
{
    fixture *f = *state;
    enum { K = 12 };
    size_t n = K;
    client few, enough;
    client_init(&few, f->ctx, K - 1, K, "least_squares", &fli_ops_f64, 0.05);
    fli_fed *fed = random_fed(f->ctx, 1, &n, K, 0, 1);
    for (size_t s = 0; s < K; s++) {
        double *row = (double *)fed->train->x + s * K;
        memset(row, 0, K * sizeof *row);
        if (s < K - 1) fli_dataset_row(few.view.ds, few.view.train[s], row);
        for (size_t j = 0; j < K; j++) row[j] *= sqrt((double)K / (K - 1));
    }
    client_take(&enough, f->ctx, fed, "least_squares", &fli_ops_f64, 0.05);
    for (int at_once = 0; at_once < 2; at_once++)
        for (double rho = 1e-3; rho < 1e3; rho *= 10) {
            fli_gram *one = NULL, *two = NULL;
            double e[2][K], y[2][K];
            size_t patience = at_once ? 0 : SIZE_MAX;
            assert_ok(f->ctx, fli_gram_new(f->ctx, few.model, &few.view, &one));
            assert_ok(f->ctx, fli_gram_new(f->ctx, enough.model, &enough.view, &two));
            for (size_t j = 0; j < K; j++) e[0][j] = e[1][j] = cos(3 * (double)j);
            assert_ok(f->ctx, fli_gram_steps(f->ctx, one, rho, 6, patience, e[0], y[0]));
            assert_ok(f->ctx, fli_gram_steps(f->ctx, two, rho, 6, patience, e[1], y[1]));
            for (size_t j = 0; j < K; j++) {
                assert_near(e[0][j], e[1][j], 1e-12);
                assert_near(rho * y[0][j], rho * y[1][j], 1e-12);
            }
            fli_gram_free(one);
            fli_gram_free(two);
        }
    client_fini(&few);
    client_fini(&enough);
}

/* Four samples of 20,000 features: a matrix of that order would have 3.2 GB. */
static void few_samples_need_little(void **state)
{
    fixture *f = *state;
    enum { K = 20000, N = 4 };
    fli_dataset *ds = NULL;
    fli_partition part = {.clients = 1};
    fli_fed *fed = NULL;
    fli_model *model = NULL;
    fli_view v;
    fli_gram *g = NULL;
    fli_rng rng;
    double *e = calloc(K, sizeof *e), *y = calloc(K, sizeof *y), norm;
    assert_ok(f->ctx, fli_dataset_new(f->ctx, FLI_X_F64, N, K, 0, &ds));
    part.start = fli_alloc(f->ctx, 2, sizeof *part.start);
    part.index = fli_alloc(f->ctx, N, sizeof *part.index);
    part.start[1] = N;
    for (size_t s = 0; s < N; s++) part.index[s] = (uint32_t)s;
    for (size_t s = 0; s < N; s++) ((double *)ds->x)[s * K + 100 * s] = 2 * (double)(s + 1);
    assert_ok(f->ctx, fli_fed_take(f->ctx, ds, NULL, &part, &fed));
    assert_ok(f->ctx, fli_model_new(f->ctx, model_named("least_squares"), NULL, &fli_ops_f64, K, 0, 0, &model));
    assert_ok(f->ctx, fli_view_open(f->ctx, fed, 0, &v));
    fli_rng_init(&rng, 1, FLI_RNG_TEST, 0, 0);
    for (int at_once = 0; at_once < 2; at_once++) {
        assert_ok(f->ctx, fli_gram_new(f->ctx, model, &v, &g));
        assert_ok(f->ctx, fli_gram_norm(f->ctx, g, &rng, &norm));
        assert_near(norm, 16, 1e-12); /* 8^2/4 */
        for (size_t i = 0; i < K; i++) e[i] = 1;
        assert_ok(f->ctx, fli_gram_steps(f->ctx, g, 0.5, 3, at_once ? 0 : SIZE_MAX, e, y));
        for (size_t i = 0; i < K; i++) {
            double h = i % 100 || i >= 100 * N ? 0 : pow((double)(i / 100 + 1), 2), q = h / (h + 0.5);
            assert_near(e[i], q * q * q, 1e-13);
            assert_near(y[i], q * q / (h + 0.5), 1e-13);
        }
        assert_true(fli_gram_bytes(g) >= N * K * sizeof(double));
        assert_true(fli_gram_bytes(g) < N * K * sizeof(double) + 2048);
        fli_gram_free(g);
    }
    fli_view_close(&v);
    fli_model_free(model);
    fli_fed_free(fed);
    free(e);
    free(y);
}

/* After the first turn no memory is asked for, until there were so many steps that eigenvalues pay; then once more. */
static void kept_between_turns(void **state)
{
    fixture *f = *state;
    for (size_t n = 4; n < 20; n += 9) {
        client c;
        fl_answer a;
        double x[8], shift[8], raw[2][8], z[8], m[8];
        size_t turns = 0;
        client_init(&c, f->ctx, n, 8, "least_squares", &fli_ops_f64, 0.1);
        random_vector(&c, 0, x, raw[0]);
        random_vector(&c, 1, shift, raw[1]);
        fl_problem p = {.start = raw[0], .shift = raw[1], .rho = 2, .steps = 5};
        assert_ok(f->ctx, solve(&c, f->ctx, AS_IT_COMES, &p, &a));
        fli_ctx_fail_alloc(f->ctx, 1);
        for (; !solve(&c, f->ctx, AS_IT_COMES, &p, &a); turns++) assert_true(turns < 100);
        assert_int_equal(turns, fli_gram_patience(n, 8) / 5 - 1);
        fli_ctx_fail_alloc(f->ctx, 0);
        fli_clear(f->ctx);
        assert_ok(f->ctx, solve(&c, f->ctx, AS_IT_COMES, &p, &a));
        fli_ctx_fail_alloc(f->ctx, 1);
        for (p.rho = 2; p.rho < 5; p.rho++) { /* eigenvalues are good for any rho */
            assert_ok(f->ctx, solve(&c, f->ctx, AS_IT_COMES, &p, &a));
            steps_by_hand(&c, AS_IT_COMES, 0.1, p.rho, 5, x, shift, z, m);
            assert_true(distance(8, z, a.z) < 1e-12 && distance(8, m, a.linearised.multiplier) < 1e-12);
        }
        fli_ctx_fail_alloc(f->ctx, 0);
        client_fini(&c);
    }
}

static void memory_may_run_out(void **state)
{
    fixture *f = *state;
    for (int way = 0; way < WAYS; way++)
        for (size_t n = 4; n < 20; n += 9) {
            client c;
            fl_answer a;
            double zero[8] = {0};
            size_t k = 0;
            fl_status s;
            client_init(&c, f->ctx, n, 8, "least_squares", &fli_ops_f64, 0);
            fl_problem p = {.start = zero, .shift = zero, .rho = 1, .steps = 3};
            do {
                fli_ctx_fail_alloc(f->ctx, ++k);
                s = solve(&c, f->ctx, way, &p, &a);
                fli_ctx_fail_alloc(f->ctx, 0);
                if (s) assert_int_equal(s, FL_ENOMEM);
                if (s && way != AT_ONCE) assert_null(c.cache);
                fli_clear(f->ctx);
                fli_solver_gram.forget(c.cache);
                c.cache = NULL;
            } while (s && k < 100);
            assert_true(k > 4 && k < 100);
            client_fini(&c);
        }
    fli_solver_gram.forget(NULL);
}

static void too_large(void **state)
{
    fixture *f = *state;
    void *cache = NULL;
    assert_true(fli_gram_fits(1 << 20, 2048, 2048) && fli_gram_fits(2, 2048 * 1024, 2048));
    assert_false(fli_gram_fits(2049, 2049, 2048) || fli_gram_fits(3, 2048 * 1024, 2048));
    assert_false(fli_gram_fits((size_t)1 << 40, 2, 2048));
    fli_model model = *(fli_model[]){{.features = 5000}};
    fli_view view = {.n_train = 3000};
    double start = 0, z; /* the refusal comes before either is used */
    fli_task task = {.view = &view, .cache = &cache, .problem.start = &start, .z = &z};
    fli_solver_run(f->ctx, &fli_solver_gram, &(fli_worker){.model = &model}, (fli_task *[]){&task}, 1);
    assert_fails(f->ctx, task.status, FL_ECONFIG,
                 "3000 samples of 5000 features is too large for the gram variant; use diagonal");
    assert_null(cache);
}

/* ---- curvature ------------------------------------------------------------------------------------------- */

static double curvature_of(client *c, fl_ctx *ctx, int way)
{
    fl_answer a;
    double *zero = calloc(c->model->space.n, sizeof *zero);
    assert_ok(ctx, solve(c, ctx, way, &(fl_problem){.start = zero, .steps = 3}, &a));
    assert_int_equal(a.steps, 0);
    free(zero);
    return a.linearised.curvature;
}

static void curvature_of_glms(void **state)
{
    fixture *f = *state;
    static const char *const models[] = {"least_squares", "logistic"};
    for (size_t i = 0; i < 2; i++)
        for (size_t n = 3; n < 1500; n = n * 5 - 2)
            for (int way = 0; way < WAYS; way++) {
                client c;
                client_init(&c, f->ctx, n, 20, models[i], &fli_ops_f64, 0.2);
                double want = norm_by_hand(20, c.h);
                assert_near(curvature_of(&c, f->ctx, way), want, 1e-9 * want);
                client_fini(&c);
            }
}

/* Too large to be formed for its norm alone, and a model that has no Gram matrix: by products with the Hessian. */
static void curvature_by_products(void **state)
{
    fixture *f = *state;
    enum { N = 700, K = 600 };
    client c;
    fli_dataset *ds = NULL;
    fli_partition part = {.clients = 1};
    fli_fed *fed = NULL;
    fli_rng rng;
    double formed;
    assert_ok(f->ctx, fli_dataset_new(f->ctx, FLI_X_F64, N, K, 2, &ds));
    part.start = fli_alloc(f->ctx, 2, sizeof *part.start);
    part.index = fli_alloc(f->ctx, N, sizeof *part.index);
    part.start[1] = N;
    fli_rng_init(&rng, 5, FLI_RNG_TEST, 0, 0);
    for (size_t s = 0; s < N; s++) part.index[s] = (uint32_t)s, ds->label[s] = s % 2;
    for (size_t s = 0; s < N * K; s++) ((double *)ds->x)[s] = fli_rng_normal(&rng);
    assert_ok(f->ctx, fli_fed_take(f->ctx, ds, NULL, &part, &fed));
    client_take(&c, f->ctx, fed, "logistic", &fli_ops_f64, 0.2);
    fli_gram *g = NULL;
    assert_ok(f->ctx, fli_gram_new(f->ctx, c.model, &c.view, &g));
    assert_ok(f->ctx, fli_gram_norm(f->ctx, g, &rng, &formed));
    fli_gram_free(g);
    assert_near(curvature_of(&c, f->ctx, DIAGONAL), formed, 1e-6 * formed);
    client_fini(&c);

    size_t n = 300; /* softmax: a bound for every model, which the curvature at zero is C/2 below */
    fli_batch batch;
    double want, zero[64] = {0};
    client_take(&c, f->ctx, random_fed(f->ctx, 1, &n, 8, 3, 2), "softmax", &fli_ops_f64, 0);
    assert_ok(f->ctx, fli_batch_init(f->ctx, &fli_ops_f64, 8, n, &batch));
    fli_batch_gather(&batch, c.view.ds, c.view.train, n);
    assert_ok(f->ctx, fli_smoothness(f->ctx, c.model, zero, &batch, batch.n, 1, &want));
    assert_near(curvature_of(&c, f->ctx, DIAGONAL), 1.5 * want, 1e-6 * want);
    fli_batch_fini(&batch);
    client_fini(&c);
}

/* ---- Lanczos --------------------------------------------------------------------------------------------- */

typedef struct {
    size_t n;
    const double *d;
} diagonal_matrix;

static void diagonal_product(void *arg, const double *v, double *out)
{
    const diagonal_matrix *m = arg;
    for (size_t i = 0; i < m->n; i++) out[i] = m->d[i] * v[i];
}

static void lanczos_finds_the_largest_eigenvalue(void **state)
{
    fixture *f = *state;
    double d[500], got;
    fli_rng rng;
    fli_rng_init(&rng, 3, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < 500; i++) d[i] = (double)i / 500;
    const struct {
        size_t n;
        double last, want; /* what takes the place of the last entry */
    } cases[] = {{500, 0.999, 0.999}, {500, 1.2, 1.2}, {500, -1.1, 1.1}, {500, -0.3, 0.996}, {2, -7, 7},
                 {1, 5, 5},           {1, -5, 5},      {1, 0, 0},        {3, 1e-30, 0.002}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        double keep = d[cases[i].n - 1];
        d[cases[i].n - 1] = cases[i].last;
        diagonal_matrix m = {cases[i].n, d};
        assert_ok(f->ctx, fli_lanczos(f->ctx, m.n, diagonal_product, &m, 1e-13, &rng, &got));
        assert_near(got, cases[i].want, 1e-11 * cases[i].want);
        d[cases[i].n - 1] = keep;
    }
    d[3] = NAN;
    assert_fails(f->ctx, fli_lanczos(f->ctx, 9, diagonal_product, &(diagonal_matrix){9, d}, 1e-13, &rng, &got),
                 FL_EDIVERGED, "not finite");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(as_by_hand),
        FIXTURE_TEST(the_limit),
        FIXTURE_TEST(both_orders_agree),
        FIXTURE_TEST(few_samples_need_little),
        FIXTURE_TEST(kept_between_turns),
        FIXTURE_TEST(memory_may_run_out),
        FIXTURE_TEST(too_large),
        FIXTURE_TEST(curvature_of_glms),
        FIXTURE_TEST(curvature_by_products),
        FIXTURE_TEST(lanczos_finds_the_largest_eigenvalue),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
