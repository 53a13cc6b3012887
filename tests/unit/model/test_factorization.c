/* Clustering by matrix factorisation: values and derivatives against plain loops, the exact memberships against their
 * optimality conditions, the start, and whole runs. */
#include "fixture.h"

#include "engine/engine.h"
#include "model/simplex_lsq.h"
#include "model/model.h"
#include "run/state.h"

enum { F = 5, K = 3, N = 7 };

typedef struct {
    fl_ctx *ctx;
    fli_arena arena;
    fli_model *m;
    double w[F * K], x[N * F], y[N * K], g[F * K];
    fli_batch b;
    void *scratch;
} problem;

static void problem_init(problem *p, const char *settings)
{
    fli_rng r;
    const fli_model_desc *d = model_named("factorization");
    memset(p, 0, sizeof *p);
    p->ctx = fl_ctx_new();
    fli_arena_init(&p->arena, p->ctx);
    fli_rng_init(&r, 3, FLI_RNG_TEST, 0, 0);
    char text[128];
    snprintf(text, sizeof text, "rank=%d;%s", (int)K, settings);
    const void *params = bound(p->ctx, &p->arena, d->keys, d->params_size, text);
    assert_ok(p->ctx, fli_model_new(p->ctx, d, params, &fli_ops_f64, F, 0, 0, &p->m));
    for (size_t i = 0; i < F * K; i++) p->w[i] = fli_rng_uniform(&r);
    for (size_t i = 0; i < N * F; i++) p->x[i] = 2 * fli_rng_uniform(&r);
    for (size_t i = 0; i < N; i++) {
        double sum = 0;
        for (size_t k = 0; k < K; k++) sum += p->y[i * K + k] = fli_rng_uniform(&r);
        for (size_t k = 0; k < K; k++) p->y[i * K + k] /= sum;
    }
    p->b = (fli_batch){.ops = &fli_ops_f64, .n = N, .dim = F, .capacity = N, .x = p->x};
    p->scratch = fli_alloc(p->ctx, fli_model_scratch(p->m, N), 1);
    assert_non_null(p->scratch);
}

static void problem_fini(problem *p)
{
    fli_free(p->scratch);
    fli_model_free(p->m);
    fli_arena_fini(&p->arena);
    fl_ctx_free(p->ctx);
}

/* 1/(2 N) sum_i ||d_i - W h_i||^2 */
static double plain_loss(const double *w, const double *x, const double *y)
{
    double sum = 0;
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < F; j++) {
            double v = x[i * F + j];
            for (size_t k = 0; k < K; k++) v -= w[j * K + k] * y[i * K + k];
            sum += v * v;
        }
    return sum / (2.0 * N);
}

/* ---- derivatives --------------------------------------------------------------------------------------- */

static void gradient_in_w(void **state)
{
    (void)state;
    problem p;
    problem_init(&p, "");
    double loss = p.m->latent->grad(p.m, p.w, &p.b, 0, p.y, p.g, p.scratch);
    assert_near(loss, plain_loss(p.w, p.x, p.y), 1e-14);
    for (size_t i = 0; i < F * K; i++) {
        double keep = p.w[i], h = 1e-4;
        p.w[i] = keep + h;
        double up = plain_loss(p.w, p.x, p.y);
        p.w[i] = keep - h;
        double down = plain_loss(p.w, p.x, p.y);
        p.w[i] = keep;
        assert_near(p.g[i], (up - down) / (2 * h), 1e-10); /* quadratic: differences are exact */
    }
    assert_near(p.m->latent->grad(p.m, p.w, &p.b, 0, p.y, NULL, p.scratch), loss, 0);
    problem_fini(&p);
}

/* One short step that stays inside the simplex moves h by the gradient in h, less its mean: the projection onto sum h =
 * 1. */
static void gradient_in_h(void **state)
{
    (void)state;
    problem p;
    double was[N * K];
    const double lr = 1e-3;
    problem_init(&p, "membership_steps=1;membership_lr=1e-3");
    memcpy(was, p.y, sizeof was);
    p.m->latent->improve(p.m, p.w, &p.b, 2 * N, p.y, p.scratch); /* these are half of the client's samples */
    for (size_t i = 0; i < N; i++) {
        double slope[K], mean = 0;
        for (size_t k = 0; k < K; k++) {
            double h = 1e-4, keep = was[i * K + k];
            was[i * K + k] = keep + h;
            double up = plain_loss(p.w, p.x, was);
            was[i * K + k] = keep - h;
            double down = plain_loss(p.w, p.x, was);
            was[i * K + k] = keep;
            slope[k] = (up - down) / (2 * h) / 2; /* a mean over 2 N */
            mean += slope[k] / K;
        }
        for (size_t k = 0; k < K; k++) assert_near(p.y[i * K + k], was[i * K + k] - lr * (slope[k] - mean), 1e-12);
    }
    problem_fini(&p);
}

/* Hessian in W at the best memberships: V H H'/N, by hand. */
static void hessian_at_fixed_memberships(void **state)
{
    (void)state;
    problem p;
    double h[N * K], v[F * K], out[F * K];
    problem_init(&p, "membership_steps=0");
    p.m->latent->improve(p.m, p.w, &p.b, N, h, p.scratch);
    for (size_t i = 0; i < F * K; i++) v[i] = cos((double)i);
    p.m->desc->hvp(p.m, p.w, &p.b, v, out, p.scratch);
    for (size_t j = 0; j < F; j++)
        for (size_t k = 0; k < K; k++) {
            double want = 0;
            for (size_t i = 0; i < N; i++) {
                double vh = 0;
                for (size_t l = 0; l < K; l++) vh += v[j * K + l] * h[i * K + l];
                want += vh * h[i * K + k] / N;
            }
            assert_near(out[j * K + k], want, 1e-13);
        }
    problem_fini(&p);
}

/* ---- memberships --------------------------------------------------------------------------------------- */

static void check_simplex(const double *y, size_t n, size_t k, double slack)
{
    for (size_t i = 0; i < n; i++) {
        double sum = 0;
        for (size_t j = 0; j < k; j++) {
            assert_true(y[i * k + j] >= 0);
            sum += y[i * k + j];
        }
        assert_near(sum, 1, slack);
    }
}

/* Steps of the automatic size never make it worse, keep to the simplex, and arrive at the exact answer. */
static void steps_lead_to_the_best(void **state)
{
    (void)state;
    problem p, q;
    double best[N * K], last;
    problem_init(&p, "membership_steps=1");
    problem_init(&q, "membership_steps=0");
    memset(best, 0xFF, sizeof best);
    q.m->latent->improve(q.m, q.w, &q.b, N, best, q.scratch);
    check_simplex(best, N, K, 1e-14);
    last = plain_loss(p.w, p.x, p.y);
    for (size_t step = 0; step < 5000; step++) {
        p.m->latent->improve(p.m, p.w, &p.b, N, p.y, p.scratch);
        check_simplex(p.y, N, K, 1e-14);
        double now = plain_loss(p.w, p.x, p.y);
        assert_true(now <= last + 1e-15);
        last = now;
    }
    assert_near(last, plain_loss(p.w, p.x, best), 1e-12);
    for (size_t i = 0; i < N * K; i++) assert_near(p.y[i], best[i], 1e-6);
    assert_near(p.m->desc->grad(p.m, p.w, &p.b, NULL, NULL, p.scratch), last, 1e-12);
    problem_fini(&p);
    problem_fini(&q);
}

/* Optimality: no corner has a smaller derivative than those in use. More corners than dimensions, equal ones, far from
 * the origin. */
static void nearest_point_is_optimal(void **state)
{
    (void)state;
    enum { MOST = 12, DIM = 6 };
    fli_rng r;
    fli_rng_init(&r, 5, FLI_RNG_TEST, 0, 0);
    for (size_t trial = 0; trial < 3000; trial++) {
        size_t k = 1 + fli_rng_below(&r, MOST), dim = 1 + fli_rng_below(&r, DIM);
        double w[MOST][DIM], d[DIM], gram[MOST * MOST], c[MOST], h[MOST], work[MOST * MOST + 2 * MOST];
        double offset = trial % 3 == 2 ? 100 : 0, scale = trial % 5 == 4 ? 1e-6 : 1, level = 0, top = 0;
        assert_true(fli_simplex_lsq_work(k) <= sizeof work / sizeof *work);
        for (size_t i = 0; i < k; i++)
            for (size_t j = 0; j < dim; j++)
                w[i][j] = i && fli_rng_below(&r, 8) == 0 ? w[0][j] : scale * (fli_rng_normal(&r) + offset);
        for (size_t j = 0; j < dim; j++) d[j] = scale * (fli_rng_normal(&r) + offset);
        for (size_t i = 0; i < k; i++) {
            c[i] = 0;
            for (size_t j = 0; j < dim; j++) c[i] += w[i][j] * d[j];
            for (size_t l = 0; l < k; l++) {
                gram[i * k + l] = 0;
                for (size_t j = 0; j < dim; j++) gram[i * k + l] += w[i][j] * w[l][j];
                top = fmax(top, gram[i * k + l]);
            }
        }
        fli_simplex_lsq_nearest(k, gram, c, h, work);
        check_simplex(h, 1, k, 1e-12);
        double slope[MOST], least = INFINITY;
        for (size_t i = 0; i < k; i++) {
            slope[i] = -c[i];
            for (size_t l = 0; l < k; l++) slope[i] += gram[i * k + l] * h[l];
            level += h[i] * slope[i];
            least = fmin(least, slope[i]);
        }
        if (!(least >= level - 1e-11 * (top + scale * scale)))
            fail_msg("trial %zu: %zu corners in %zu dimensions: %g below %g", trial, k, dim, least, level);
    }
}

static void nearest_point_of_nonsense(void **state)
{
    (void)state;
    double gram[9] = {NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN, NAN}, c[3] = {NAN, 1, 2}, h[3], work[15];
    fli_simplex_lsq_nearest(3, gram, c, h, work); /* ends */
    for (size_t i = 0; i < 9; i++) gram[i] = 0;
    for (size_t i = 0; i < 3; i++) c[i] = 0;
    fli_simplex_lsq_nearest(3, gram, c, h, work);
    check_simplex(h, 1, 3, 0);
}

/* A common offset of samples and columns changes nothing. */
static void offset_does_not_matter(void **state)
{
    (void)state;
    problem p;
    double moved[N * K];
    problem_init(&p, "membership_steps=4");
    memcpy(moved, p.y, sizeof moved);
    p.m->latent->improve(p.m, p.w, &p.b, N, p.y, p.scratch);
    for (size_t i = 0; i < N * F; i++) p.x[i] += 64;
    for (size_t i = 0; i < F * K; i++) p.w[i] += 64;
    p.m->latent->improve(p.m, p.w, &p.b, N, moved, p.scratch);
    for (size_t i = 0; i < N * K; i++) assert_near(p.y[i], moved[i], 1e-10);
    problem_fini(&p);
}

static void cluster_is_the_largest_share(void **state)
{
    (void)state;
    problem p;
    uint32_t found[N];
    problem_init(&p, "");
    for (size_t i = 0; i < N; i++) /* samples near the columns 0, 1, 2, 0, ... */
        for (size_t j = 0; j < F; j++) p.x[i * F + j] = p.w[j * K + i % K] + 0.01 * (double)(j % 2);
    p.m->desc->clusters(p.m, p.w, &p.b, found, p.scratch);
    for (size_t i = 0; i < N; i++) assert_int_equal(found[i], i % K);
    problem_fini(&p);
}

/* ---- the start ----------------------------------------------------------------------------------------- */

/* Every column is a sample; far groups are all found; the seed decides. */
static void start_is_samples(void **state)
{
    fixture *f = *state;
    const size_t sizes[] = {9, 1, 6, 20};
    fli_fed *fed = random_fed(f->ctx, 4, sizes, F, 0, 2);
    fli_arena arena;
    fli_model *m = NULL;
    double a[F * K], b[F * K], c[F * K];
    const fli_model_desc *d = model_named("factorization");
    double *x = fed->train->x;
    fli_arena_init(&arena, f->ctx);
    for (size_t i = 0; i < 36; i++) x[i * F] += 1e4 * (double)(i % K);
    const void *params = bound(f->ctx, &arena, d->keys, d->params_size, "rank=3");
    assert_ok(f->ctx, fli_model_new(f->ctx, d, params, &fli_ops_f64, F, 0, 0, &m));
    assert_ok(f->ctx, fli_model_start_from(f->ctx, m, fed, 1, a));
    assert_ok(f->ctx, fli_model_start_from(f->ctx, m, fed, 1, b));
    assert_ok(f->ctx, fli_model_start_from(f->ctx, m, fed, 2, c));
    assert_memory_equal(a, b, sizeof a);
    assert_memory_not_equal(a, c, sizeof a);
    int groups = 0;
    for (size_t k = 0; k < K; k++) {
        size_t found = 0;
        for (size_t i = 0; i < 36; i++) {
            size_t same = 0;
            for (size_t j = 0; j < F; j++) same += a[j * K + k] == x[i * F + j];
            if (same == F) groups |= 1 << i % K;
            found += same == F;
        }
        assert_int_equal(found, 1);
    }
    assert_int_equal(groups, 7);
    for (size_t k = 1;; k++) { /* each allocation fails in turn */
        fli_ctx_fail_alloc(f->ctx, k);
        fl_status s = fli_model_start_from(f->ctx, m, fed, 1, b);
        fli_ctx_fail_alloc(f->ctx, 0);
        fli_clear(f->ctx);
        if (!s) break;
        assert_int_equal(s, FL_ENOMEM);
        assert_true(k < 20);
    }
    fli_model_free(m);
    params = bound(f->ctx, &arena, d->keys, d->params_size, "rank=37");
    assert_ok(f->ctx, fli_model_new(f->ctx, d, params, &fli_ops_f64, F, 0, 0, &m));
    double *large = malloc(F * 37 * sizeof *large);
    assert_fails(f->ctx, fli_model_start_from(f->ctx, m, fed, 1, large), FL_ECONFIG, "model.rank is 37");
    free(large);
    fli_model_free(m);
    fli_fed_free(fed);
    fli_arena_fini(&arena);
}

/* A sample that is like a chosen one lies at distance 0 and is not chosen again, however many of its kind there are and
 * whatever the samples beside it are: of three kinds each is chosen once. */
static void start_has_no_kind_twice(void **state)
{
    fixture *f = *state;
    static const double kinds[3][2] = {{0, 0}, {0, 0.001}, {1000, 0}};
    const size_t sizes[] = {30, 30};
    const fli_model_desc *d = model_named("factorization");
    fli_fed *fed = random_fed(f->ctx, 2, sizes, 2, 0, 2);
    fli_arena arena;
    fli_model *m = NULL;
    fli_arena_init(&arena, f->ctx);
    for (size_t i = 0; i < 60; i++) memcpy((double *)fed->train->x + 2 * i, kinds[i * 7 % 11 % 3], sizeof *kinds);
    const void *params = bound(f->ctx, &arena, d->keys, d->params_size, "rank=3");
    assert_ok(f->ctx, fli_model_new(f->ctx, d, params, &fli_ops_f64, 2, 0, 0, &m));
    for (uint64_t seed = 1; seed <= 10; seed++) {
        double w[2 * 3];
        unsigned seen = 0;
        assert_ok(f->ctx, fli_model_start_from(f->ctx, m, fed, seed, w));
        for (size_t k = 0; k < 3; k++)
            for (size_t j = 0; j < 3; j++)
                if (w[k] == kinds[j][0] && w[3 + k] == kinds[j][1]) seen |= 1u << j;
        assert_int_equal(seen, 7);
    }
    fli_model_free(m);
    fli_fed_free(fed);
    fli_arena_fini(&arena);
}

/* ---- whole runs ---------------------------------------------------------------------------------------- */

#define BLOBS                                                                                                          \
    "rounds: 12\ndata: {kind: blobs, classes: 4, features: 6, samples: 200, test_samples: 40, spread: 0.05, "          \
    "normalize: given, mean: -5, std: 1}\npartition: {kind: shards, clients: 10}\n"                                    \
    "model: {kind: factorization, rank: 4}\nlocal: {epochs: 2, batch: 5, lr: 0.5}\n"                                   \
    "participation: {kind: uniform, count: 4}\n"

static fl_run *run_of(fixture *f, const char *yaml, const char *more)
{
    char text[2048];
    fl_run *run = NULL;
    snprintf(text, sizeof text, "%s%s", yaml, more);
    fl_config *cfg = fixture_config(f, text);
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    return run;
}

static void finds_the_blobs(void **state)
{
    fixture *f = *state;
    static const char *const methods[] = {"fedvra-u", "fedavg", "fedprox"};
    for (size_t i = 0; i < 3; i++) {
        char more[128];
        const fl_row *rows;
        snprintf(more, sizeof more, "regularizer: nonnegative\nalgorithm: %s\n", methods[i]);
        fl_run *run = run_of(f, BLOBS, more);
        size_t n = fl_run_rows(run, &rows);
        assert_true(fl_row_get(&rows[n - 1], "train_loss") < 0.9 * fl_row_get(&rows[0], "train_loss"));
        assert_true(fl_row_get(&rows[n - 1], "cluster_accuracy") > 0.7 &&
                    fl_row_get(&rows[n - 1], "cluster_accuracy") <= 1);
        assert_true(fl_row_get(&rows[n - 1], "cluster_nmi") > 0.7 && fl_row_get(&rows[n - 1], "cluster_nmi") <= 1);
        assert_true(isnan(fl_row_get(&rows[n - 1], "train_accuracy")) &&
                    isnan(fl_row_get(&rows[n - 1], "test_accuracy")));
        assert_true(isfinite(fl_row_get(&rows[n - 1], "test_loss")));
        fl_run_free(run);
    }
}

static void same_for_any_number_of_threads(void **state)
{
    fixture *f = *state;
    static const char *const more[] = {"regularizer: nonnegative\nalgorithm: fedvra-u\nthreads: 1\n",
                                       "regularizer: nonnegative\nalgorithm: fedvra-u\nthreads: 3\n"};
    double x[2][24];
    fl_row last[2];
    for (size_t i = 0; i < 2; i++) {
        fl_run *run = run_of(f, BLOBS, more[i]);
        assert_int_equal(fl_run_model(run, x[i], 24), 24);
        last[i] = *fl_run_row(run);
        fl_run_free(run);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_true(fl_row_get(&last[0], "train_loss") == fl_row_get(&last[1], "train_loss") &&
                fl_row_get(&last[0], "cluster_nmi") == fl_row_get(&last[1], "cluster_nmi"));
    assert_true(fl_row_get(&last[0], "cluster_accuracy") == fl_row_get(&last[1], "cluster_accuracy"));
}

/* A file with other labels, or with targets in their place, gives the same model; only the figures about labels
 * differ. */
static void labels_are_not_read(void **state)
{
    fixture *f = *state;
    double x[3][6];
    fl_row last[3];
    for (size_t v = 0; v < 3; v++) {
        char text[4096] = "", more[512];
        for (int i = 0; i < 60; i++) {
            int group = i % 2, label = v == 1 ? (i / 7) % 2 : group;
            snprintf(text + strlen(text), sizeof text - strlen(text), "%d,%d,%g,%g,%g\n", i % 5, label,
                     1 + 3.0 * group + 0.01 * (i % 7), 2 - group + 0.02 * (i % 3), 0.5 + 0.03 * (i % 11));
        }
        fixture_write(f, "data.csv", text);
        snprintf(more, sizeof more,
                 "rounds: 5\ndata: {kind: csv, train: %s/data.csv, group_column: 0, label: 1, task: %s}\n"
                 "partition: {kind: natural}\nmodel: {kind: factorization, rank: 2}\nregularizer: nonnegative\n"
                 "algorithm: fedvra-u\nlocal: {steps: 4, batch: 4, lr: 0.5}\n",
                 f->folder, v == 2 ? "regression" : "classification");
        fl_run *run = run_of(f, more, "");
        assert_int_equal(fl_run_model(run, x[v], 6), 6);
        last[v] = *fl_run_row(run);
        fl_run_free(run);
    }
    assert_memory_equal(x[0], x[1], sizeof x[0]);
    assert_memory_equal(x[0], x[2], sizeof x[0]);
    assert_true(fl_row_get(&last[0], "train_loss") == fl_row_get(&last[1], "train_loss"));
    assert_true(fl_row_get(&last[0], "cluster_accuracy") == 1 && fl_row_get(&last[0], "cluster_nmi") == 1);
    assert_true(fl_row_get(&last[1], "cluster_accuracy") < 0.8 && fl_row_get(&last[1], "cluster_nmi") < 0.2);
    assert_true(isnan(fl_row_get(&last[2], "cluster_accuracy")) && isnan(fl_row_get(&last[2], "cluster_nmi")));
}

typedef struct {
    char text[512];
} heard;

static void listen(void *arg, fl_log_level level, const char *line)
{
    heard *h = arg;
    if (level == FL_LOG_WARNING) snprintf(h->text, sizeof h->text, "%s", line);
}

static void impossible_factorizations_are_refused(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *more, *says;
    } cases[] = {
        {"data.unlabelled=0.5", "data.unlabelled must be 0"},
        {"model.rank=0", "model.rank"},
        {"model.rank=201", "model.rank is 201, but there are only 200"},
        {"metrics.targets=[0.5]", "predicts no labels"},
        {"semi.labels=closed_form", "semi.labels"},
        {"algorithm=apfl", "factorization"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fl_run *run = NULL;
        fl_config *cfg = fixture_config(f, BLOBS "regularizer: none\nalgorithm: fedavg\n");
        assert_ok(f->ctx, fl_config_set(cfg, cases[i].more));
        assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, cases[i].says);
        fl_config_free(cfg);
    }
    heard h = {""};
    fl_ctx_on_log(f->ctx, listen, &h);
    fl_run_free(run_of(f, BLOBS, "algorithm: scaffold\n"));
    assert_non_null(strstr(h.text, "W >= 0"));
    h.text[0] = 0;
    fl_run_free(run_of(f, BLOBS, "algorithm: fedvra-u\nregularizer: nonnegative\n"));
    assert_string_equal(h.text, "");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(gradient_in_w),
        cmocka_unit_test(gradient_in_h),
        cmocka_unit_test(hessian_at_fixed_memberships),
        cmocka_unit_test(steps_lead_to_the_best),
        cmocka_unit_test(nearest_point_is_optimal),
        cmocka_unit_test(nearest_point_of_nonsense),
        cmocka_unit_test(offset_does_not_matter),
        cmocka_unit_test(cluster_is_the_largest_share),
        FIXTURE_TEST(start_is_samples),
        FIXTURE_TEST(start_has_no_kind_twice),
        FIXTURE_TEST(finds_the_blobs),
        FIXTURE_TEST(same_for_any_number_of_threads),
        FIXTURE_TEST(labels_are_not_read),
        FIXTURE_TEST(impossible_factorizations_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
