/* The gradient mapping (4) of [DR] as a metric and as a stop rule: against the formula written down once more from the
 * raw samples, for composite and plain problems, through every executor. */
#include "runs.h"

#include "data/federation/federation.h"

#define LINREG                                                                                                         \
    "seed: 3\nrounds: 12\nthreads: 2\nprecision: f64\ndata: {kind: linreg, clients: 6, features: 4}\n"                 \
    "model: {kind: least_squares, weight_decay: 0.1}\nparticipation: everyone\n"                                       \
    "metrics: {gradient: true, gradient_mapping: true}\n"
enum { MOST = 8 };

/* grad f(x) = (1/N) sum of the clients' mean gradients and 0.1 x; the model's last entry is its bias. */
static void plain_gradient(const fl_run *run, const double *x, size_t n, double *out)
{
    const fli_fed *fed = run->plan.fed;
    for (size_t k = 0; k < n; k++) out[k] = 0.1 * x[k];
    for (size_t i = 0; i < fed->clients; i++) {
        fli_view v;
        assert_int_equal(fli_view_open(run->ctx, fed, i, &v), FL_OK);
        for (size_t s = 0; s < v.n_train; s++) {
            double a[MOST];
            fli_dataset_row(v.ds, v.train[s], a);
            double error = -v.ds->target[v.train[s]], share = 1 / ((double)v.n_train * (double)fed->clients);
            for (size_t k = 0; k < n; k++) error += x[k] * (k < fed->dim ? a[k] : 1);
            for (size_t k = 0; k < n; k++) out[k] += error * share * (k < fed->dim ? a[k] : 1);
        }
        fli_view_close(&v);
    }
}

/* ||x - prox_{eta g}(x - eta grad f(x))||/eta for g = weight ||x||_1 */
static double mapping(const double *x, const double *gradient, size_t n, double eta, double weight)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++) {
        double y = x[k] - eta * gradient[k];
        y = y > eta * weight ? y - eta * weight : y < -eta * weight ? y + eta * weight : 0;
        sum += (x[k] - y) * (x[k] - y);
    }
    return sqrt(sum) / eta;
}

static void is_what_it_says(void **state)
{
    static const struct {
        const char *set;
        double eta, weight; /* what follows from it */
    } cases[] = {
        {"algorithm={kind: feddr, eta: 0.4};regularizer={kind: l1, weight: 0.3}", 0.4, 0.3},
        {"algorithm={kind: feddr, eta: 0.4};regularizer={kind: l1, weight: 0.3};metrics.mapping_eta=0.05", 0.05, 0.3},
        {"algorithm=fedavg;weights=uniform;regularizer={kind: l1, weight: 0.3}", 1, 0.3}, /* it has no eta */
        {"algorithm={kind: feddr, eta: 0.4}", 0.4, 0},
        {"algorithm=fedavg;weights=uniform;metrics.gradient=false", 1, 0},
    };
    fixture *f = *state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++)
        for (int loopback = 0; loopback < 2; loopback++) {
            char set[256];
            double x[MOST], gradient[MOST];
            snprintf(set, sizeof set, "%s;executor=%s", cases[c].set, loopback ? "loopback" : "threads");
            fl_run *run = run_done(f, LINREG, set);
            size_t n = fl_run_model(run, x, MOST);
            assert_true(n <= MOST);
            plain_gradient(run, x, n, gradient);
            double want = mapping(x, gradient, n, cases[c].eta, cases[c].weight);
            double got = fl_row_get(fl_run_row(run), "gradient_mapping");
            if (!(fabs(got - want) < 1e-12 * (1 + want))) fail_msg("%s: %.15g instead of %.15g", set, got, want);
            double gradient2 = fl_row_get(fl_run_row(run), "gradient2");
            if (cases[c].weight == 0 && !isnan(gradient2)) assert_true(fabs(got * got - gradient2) < 1e-12);
            assert_true(want > 1e-9); /* there was something to compare */
            fl_run_free(run);
        }
}

/* With a regulariser, whose f has no vanishing gradient at the optimum; and not before the mapping is that small. */
static void stops_a_run(void **state)
{
    fixture *f = *state;
    const fl_row *rows;
    fl_run *run = run_done(f, LINREG,
                           "rounds=2000;algorithm={kind: feddr, eta: 0.4, alpha: 1, solver: exact};"
                           "regularizer={kind: l1, weight: 0.3};stop.gradient_mapping=1e-6");
    size_t n = fl_run_rows(run, &rows);
    assert_int_equal(fl_run_stopped_by(run), FL_STOP_GRADIENT);
    assert_true(n > 5 && n < 2000);
    assert_true(fl_row_get(&rows[n - 1], "gradient_mapping") <= 1e-6);
    assert_true(fl_row_get(&rows[n - 2], "gradient_mapping") > 1e-6);
    assert_true(fl_row_get(&rows[n - 1], "gradient2") > 1e-3);
    fl_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(is_what_it_says), FIXTURE_TEST(stops_a_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
