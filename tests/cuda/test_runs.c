/* Whole runs with `device: cuda` come to what the same runs come to on the CPU, but for rounding, and are the same when
 * they are run again. */
#include "outcome.h"
#include "runs.h"

static const char base[] =
    "rounds: 2\nseed: 3\nthreads: 1\nmodel: softmax\nalgorithm: fedavg\n"
    "data: {kind: blobs, classes: 4, features: 6, samples: 120, test_samples: 30, test_fraction: 0.2}\n"
    "partition: {kind: dirichlet, clients: 6, alpha: 1}\nparticipation: {kind: uniform, count: 4}\n"
    "local: {batch: 5, lr: 0.1}\nmetrics: {gradient: true}\n";

static outcome run_on(fixture *f, const char *device, const char *set)
{
    char all[1024];
    snprintf(all, sizeof all, "%s;device=%s", set, device);
    fl_run *run = run_done(f, base, all);
    outcome o = outcome_of(run);
    fl_run_free(run);
    return o;
}

/* The largest difference of two models, beside their largest entry. */
static double difference(const outcome *a, const outcome *b)
{
    double most = 0, largest = 0;
    assert_int_equal(a->parameters, b->parameters);
    for (size_t i = 0; i < a->parameters; i++) {
        most = fmax(most, fabs(a->model[i] - b->model[i]));
        largest = fmax(largest, fabs(a->model[i]));
        assert_true(isfinite(b->model[i]));
    }
    assert_true(largest > 0);
    return most / largest;
}

static void near_rows(const outcome *a, const outcome *b, double tolerance, const char *set)
{
    static const char *const metrics[] = {"train_loss", "test_loss"};
    assert_int_equal(a->count, b->count);
    for (size_t r = 0; r < a->count; r++)
        for (size_t k = 0; k < 2; k++) {
            double x = fl_row_get(&a->rows[r], metrics[k]), y = fl_row_get(&b->rows[r], metrics[k]);
            if (!(fabs(x - y) <= tolerance * (1 + fabs(x))) && !(isnan(x) && isnan(y)))
                fail_msg("%s: %s of row %zu is %.9g, expected %.9g", set, metrics[k], r, y, x);
        }
}

static void agree(fixture *f, const char *set, double tolerance)
{
    outcome here = run_on(f, "cpu", set), there = run_on(f, "cuda", set), again = run_on(f, "cuda", set);
    double d = difference(&here, &there);
    if (!(d <= tolerance)) fail_msg("%s: models differ by %g", set, d);
    near_rows(&here, &there, tolerance, set);
    assert_true(same(&there, &again));
    outcome_free(&here);
    outcome_free(&there);
    outcome_free(&again);
}

static void single_precision(void **state)
{
    static const char *const sets[] = {
        "model={kind: softmax, weight_decay: 0.01}",
        "model={kind: mlp, hidden: [9, 5]};local.momentum=0.8;algorithm=scaffold",
        "data.classes=2;model=logistic;local.schedule=sqrt;algorithm=fedprox",
        "model={kind: mlp, hidden: [7]};algorithm={kind: apfl, mix: auto}",
        "model=softmax;data.unlabelled=0.6;semi={labels: closed_form, alpha_p: 0.5, alpha_r: 0.4};algorithm=fedcpsl",
        "model=softmax;algorithm=feddyn;local.batch=0;local.steps=4",
        "model={kind: mlp, hidden: [5]};algorithm=fedbuff;system={kind: lognormal, jitter: 0.3}",
    };
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) agree(*state, sets[k], 1e-5);
}

static void double_precision(void **state)
{
    static const char *const sets[] = {
        "precision=f64;model={kind: mlp, hidden: [9, 5]};local.momentum=0.8;algorithm=scaffold",
        "precision=f64;model=softmax;algorithm=fedvra",
    };
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) agree(*state, sets[k], 1e-12);
}

static void images(void **state)
{
    agree(*state,
          "data={kind: digits, samples: 60, test_samples: 20, augment: cifar};metrics.gradient=false;rounds=1;"
          "model={kind: cnn, layers: \"conv 5x5 stride 2, pool 2, conv 6x3 same, fc 8\"}",
          1e-4);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(single_precision),
        FIXTURE_TEST(double_precision),
        FIXTURE_TEST(images),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
