/* Weight decay divided by each client's samples: methods with different solvers, the train loss and the gradient agree
 * with sum w_i [1/(2 n_i) ||A_i x - b_i||^2 + wd/(2 n_i) ||x||^2], computed here from the samples. */
#include "runs.h"

enum { DIM = 4, CLIENTS = 5 };

static const double wd = 3;
static const char base[] = "rounds: 4000\nthreads: 1\nprecision: f64\nseed: 3\n"
                           "data: {kind: linreg, clients: 5, features: 4, min_size: 2, max_size: 12}\n"
                           "model: {kind: least_squares, weight_decay: 3, weight_decay_by: samples}\n"
                           "local: {steps: 1, batch: 0, lr: 0.02}\nparticipation: everyone\n"
                           "metrics: {every: 1000, gradient: true, test: false}\nstop: {gradient2: 1e-22}\n";

typedef struct {
    double h[DIM][DIM], g[DIM], square; /* f(x) = square + 1/2 x'Hx - g'x */
} quadratic;

static quadratic objective(fixture *f, const fl_run *run)
{
    quadratic q = {0};
    const fli_fed *fed = run->plan.fed;
    for (size_t i = 0; i < CLIENTS; i++) {
        fli_view v;
        assert_ok(f->ctx, fli_view_open(f->ctx, fed, i, &v));
        double n = (double)v.n_train, w = run->plan.setup.uniform ? 1.0 / CLIENTS : n / (double)fed->samples, a[DIM];
        for (size_t s = 0; s < v.n_train; s++) {
            double b = v.ds->target[v.train[s]];
            fli_dataset_row(v.ds, v.train[s], a);
            q.square += w * b * b / (2 * n);
            for (size_t j = 0; j < DIM; j++) {
                q.g[j] += w * a[j] * b / n;
                for (size_t k = 0; k < DIM; k++) q.h[j][k] += w * a[j] * a[k] / n;
            }
        }
        for (size_t j = 0; j < DIM; j++) q.h[j][j] += w * wd / n;
        fli_view_close(&v);
    }
    return q;
}

static double value(const quadratic *q, const double *x, double *gradient2)
{
    double f = q->square;
    *gradient2 = 0;
    for (size_t j = 0; j < DIM; j++) {
        double hx = 0;
        for (size_t k = 0; k < DIM; k++) hx += q->h[j][k] * x[k];
        f += x[j] * (hx / 2 - q->g[j]);
        *gradient2 += (hx - q->g[j]) * (hx - q->g[j]);
    }
    return f;
}

/* By every solver that there is for least squares. */
static const char *const methods[] = {
    "algorithm=local-sgd;weights=uniform",
    "algorithm=local-sgd;weights=samples",
    "algorithm=fedlin;weights=samples", /* its corrections have the decay of the gradient's own code */
    "algorithm={kind: fedgia, variant: gram, t: 6}",
    "algorithm={kind: fedgia, variant: diagonal, t: 6}",
    "algorithm={kind: feddr, alpha: 1, eta: 1, solver: exact}",
    "algorithm={kind: feddr, alpha: 1, eta: 1, solver: accurate, accuracy: 1e-13}",
};

/* Before the end, where nothing vanishes. */
static void metrics_include_the_weight_decay(void **state)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char set[256];
        double gradient2;
        snprintf(set, sizeof set, "%s;rounds=3", methods[i]);
        fl_run *run = run_done(*state, base, set);
        quadratic q = objective(*state, run);
        double f = value(&q, fli_exec_server(run->exec)[0], &gradient2);
        assert_true(gradient2 > 1e-6);
        assert_near(fl_row_get(fl_run_row(run), "train_loss") / f, 1, 1e-13);
        assert_near(fl_row_get(fl_run_row(run), "gradient2") / gradient2, 1, 1e-11);
        fl_run_free(run);
    }
}

static void methods_minimise_with_weight_decay(void **state)
{
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        double gradient2;
        fl_run *run = run_done(*state, base, methods[i]);
        quadratic q = objective(*state, run);
        value(&q, fli_exec_server(run->exec)[0], &gradient2);
        if (!(gradient2 < 1e-20)) fail_msg("%s: ||grad f||^2 = %g at its end", methods[i], gradient2);
        fl_run_free(run);
    }
}

/* A step on a mini-batch may take that for everything: then a client with all of its samples in it is as before. */
static void by_batch(void **state)
{
    fl_run *samples = run_done(*state, base, "rounds=5");
    fl_run *whole = run_done(*state, base, "rounds=5;model.weight_decay_by=batch");
    fl_run *parts = run_done(*state, base, "rounds=5;model.weight_decay_by=batch;local.batch=1");
    fl_run *plain = run_done(*state, base, "rounds=5;local.batch=1");
    fl_run *strong = run_done(*state, base, "rounds=5;local.batch=1;model.weight_decay_by=nothing");
    size_t bytes = DIM * sizeof(double);
    assert_memory_equal(fli_exec_server(samples->exec)[0], fli_exec_server(whole->exec)[0], bytes);
    assert_memory_equal(fli_exec_server(parts->exec)[0], fli_exec_server(strong->exec)[0], bytes);
    assert_memory_not_equal(fli_exec_server(parts->exec)[0], fli_exec_server(plain->exec)[0], bytes);
    assert_true(fl_row_get(fl_run_row(parts), "train_loss") != fl_row_get(fl_run_row(strong), "train_loss"));
    fl_run *all[] = {samples, whole, parts, plain, strong};
    for (size_t i = 0; i < 5; i++) fl_run_free(all[i]);
}

/* The measured L_i have wd/n_i, not wd: of which only 512 samples are looked at. */
static void in_check(void **state)
{
    fixture *f = *state;
    collected out = {0};
    fl_config *cfg = config_of(f, base,
                               "data={kind: linreg, clients: 2, features: 4, min_size: 600, max_size: 600};"
                               "model.weight_decay=6e6;algorithm=fedlin");
    assert_ok(f->ctx, fl_check(cfg, collect_text, &out));
    double least = 0, most = 0;
    const char *at = strstr(out.s, "L_i from ");
    assert_true(at && sscanf(at, "L_i from %lf to %lf", &least, &most) == 2);
    assert_near(least / 1e4, 1, 0.002); /* 6e6/600 and the samples' own, which is below 20 */
    assert_near(most / 1e4, 1, 0.002);
    free(out.s);
    fl_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(metrics_include_the_weight_decay),
        FIXTURE_TEST(methods_minimise_with_weight_decay),
        FIXTURE_TEST(by_batch),
        FIXTURE_TEST(in_check),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
