/* Metrics of the clients' own models: recomputed from the raw numbers, for methods that have such models and for those
 * that do not; and rows that come from elsewhere than a measurement. */
#include "fixture.h"

#include "run/state.h"

/* ---- FedDR by hand --------------------------------------------------------------------------------------- */

enum { DIM = 3, CLIENTS = 3, ROUNDS = 4, SAMPLES = 30 };

static const double lr = 0.05, decay = 0.3, eta = 0.5, alpha = 1.4;

/* Client 2 never has a turn, client 1 its first in round 2. */
static const char trace[] = "0\n0 1\n1\n0 1\n";
static const int takes_part[ROUNDS][CLIENTS] = {{1, 0, 0}, {1, 1, 0}, {0, 1, 0}, {1, 1, 0}};

typedef struct {
    double y[DIM], x[DIM];
    int touched;
} client;

typedef struct {
    client clients[CLIENTS];
    double start[DIM], xt[DIM], x[DIM];
    size_t rows;
} by_hand;

/* Mean of (a'x - b)^2/2 over samples; its gradient in g. */
static double loss_on(const fli_dataset *ds, const uint32_t *idx, size_t n, const double *x, double *g)
{
    double loss = 0, a[DIM];
    for (size_t c = 0; c < DIM; c++) g[c] = 0;
    for (size_t s = 0; s < n; s++) {
        double residual = -ds->target[idx[s]];
        fli_dataset_row(ds, idx[s], a);
        for (size_t c = 0; c < DIM; c++) residual += a[c] * x[c];
        loss += residual * residual / (2 * (double)n);
        for (size_t c = 0; c < DIM; c++) g[c] += residual * a[c] / (double)n;
    }
    return loss;
}

/* One round: everyone of it takes a single step with all of its samples. */
static void round_by_hand(by_hand *h, const fl_run *run, const int *cohort)
{
    double change[DIM] = {0};
    for (size_t i = 0; i < CLIENTS; i++) {
        client *k = &h->clients[i];
        double g[DIM];
        fli_view v;
        if (!cohort[i]) continue;
        if (!k->touched) {
            memcpy(k->y, h->start, sizeof k->y);
            memcpy(k->x, h->start, sizeof k->x);
            k->touched = 1;
        }
        assert_ok(run->ctx, fli_view_open(run->ctx, run->plan.fed, i, &v));
        loss_on(v.ds, v.train, v.n_train, k->x, g);
        fli_view_close(&v);
        for (size_t c = 0; c < DIM; c++) {
            double before = 2 * k->x[c] - k->y[c];
            k->y[c] += alpha * (h->x[c] - k->x[c]);
            k->x[c] -= lr * (g[c] + decay * k->x[c] + (k->x[c] - k->y[c]) / eta);
            change[c] += 2 * k->x[c] - k->y[c] - before;
        }
    }
    for (size_t c = 0; c < DIM; c++) h->x[c] = h->xt[c] += change[c] / CLIENTS;
}

/* Observer: the local metrics of every row. */
static void check_feddr(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    by_hand *h = arg;
    double train = 0, test = 0, tested = 0, g[DIM], model[DIM];
    assert_true(measured);
    assert_int_equal(fl_run_model(run, model, DIM), DIM);
    if (fl_row_round(row) == 0) {
        memcpy(h->start, model, sizeof model);
        memcpy(h->x, model, sizeof model);
        memcpy(h->xt, model, sizeof model);
    } else {
        round_by_hand(h, run, takes_part[fl_row_round(row) - 1]);
    }
    for (size_t c = 0; c < DIM; c++) assert_near(model[c], h->x[c], 1e-13);
    for (size_t i = 0; i < CLIENTS; i++) {
        const double *x = h->clients[i].touched ? h->clients[i].x : h->start;
        double square = 0;
        fli_view v;
        assert_ok(run->ctx, fli_view_open(run->ctx, run->plan.fed, i, &v));
        for (size_t c = 0; c < DIM; c++) square += x[c] * x[c];
        train += (loss_on(v.ds, v.train, v.n_train, x, g) + decay / 2 * square) / CLIENTS;
        test += (double)v.n_test * loss_on(v.ds, v.test, v.n_test, x, g);
        tested += (double)v.n_test;
        fli_view_close(&v);
    }
    assert_true(tested > 0);
    assert_near(fl_row_get(row, "local_train_loss"), train, 1e-13);
    assert_near(fl_row_get(row, "local_test_loss"), test / tested, 1e-13);
    assert_true(isnan(fl_row_get(row, "local_train_accuracy")) &&
                isnan(fl_row_get(row, "local_test_accuracy"))); /* a regression */
    if (fl_row_round(row) > 0)
        assert_true(fabs(fl_row_get(row, "local_train_loss") - fl_row_get(row, "train_loss")) > 1e-3);
    h->rows++;
}

static double value_at(size_t r, size_t c) { return (double)((int)(r * 7 + c * 5 + r * c) % 11 - 5) / 4; }

/* Three clients with 6, 10 and 14 samples, of which they keep some as their test part; the start model is not zero. */
static fl_run *small_regression(fixture *f, const char *more)
{
    char text[4096] = "", parts[512] = "{\"clients\": [[", yaml[1024];
    fl_run *run = NULL;
    for (size_t r = 0; r < SAMPLES; r++)
        for (size_t c = 0; c <= DIM; c++)
            snprintf(text + strlen(text), 32, "%.17g%s", value_at(r, c), c == DIM ? "\n" : ",");
    for (size_t r = 0; r < SAMPLES; r++)
        snprintf(parts + strlen(parts), 16, "%s%zu", r == 6 || r == 16 ? "], [" : r ? "," : "", r);
    strcat(parts, "]]}");
    fixture_write(f, "train.csv", text);
    fixture_write(f, "parts.json", parts);
    fixture_write(f, "trace", trace);
    snprintf(yaml, sizeof yaml,
             "data: {kind: csv, train: %s/train.csv, task: regression, storage: f64, test_fraction: 0.4}\n"
             "partition: {kind: file, path: %s/parts.json, clients: 3}\nprecision: f64\nrounds: %d\n"
             "model: {kind: least_squares, weight_decay: %g}\nparticipation: {kind: trace, path: %s/trace}\n"
             "local: {batch: 0, steps: 1, lr: %g}\n%s",
             f->folder, f->folder, ROUNDS, decay, f->folder, lr, more);
    fl_config *cfg = fixture_config(f, yaml);
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    return run;
}

static void own_models_of_feddr(void **state)
{
    fixture *f = *state;
    char more[256];
    by_hand h = {0};
    snprintf(more, sizeof more, "algorithm: {kind: feddr, eta: %g, alpha: %g}\nmetrics: {local: true}\n", eta, alpha);
    fl_run *run = small_regression(f, more);
    double *x = fli_exec_server(run->exec)[0];
    for (size_t c = 0; c < DIM; c++) x[c] = 0.5 - (double)c;
    assert_ok(f->ctx, fl_run_go(run, check_feddr, &h));
    assert_int_equal(h.rows, ROUNDS + 1);
    fl_run_free(run);
}

/* Valid until the next call. */
static const double *own_model(fixture *f, fl_run *run, size_t i)
{
    static double own[DIM];
    assert_ok(f->ctx, fli_exec_own_model(run->exec, (uint32_t)i, own, NULL));
    return own;
}

/* Which model it is, and that looking at it makes none. */
static void whose_model(void **state)
{
    fixture *f = *state;
    fl_run *run = small_regression(f, "algorithm: feddr\n");
    size_t vector = DIM * sizeof(double), spilled, before = fli_exec_state(run->exec, &spilled);
    const double *x = fli_exec_server(run->exec)[0], *own;
    for (size_t i = 0; i < CLIENTS; i++) assert_memory_equal(own_model(f, run, i), x, vector); /* nothing has begun */
    assert_int_equal(fli_exec_state(run->exec, &spilled), before);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    for (size_t i = 0; i < CLIENTS; i++) {
        own = own_model(f, run, i);
        assert_memory_not_equal(own, x, vector);
        for (size_t c = 0; c < DIM; c++) assert_true((own[c] == 0) == (i == 2)); /* the start model */
    }
    fl_run_free(run);
    run = small_regression(f, "algorithm: scaffold\n"); /* has client vectors, but none of them is a model */
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    for (size_t i = 0; i < CLIENTS; i++)
        assert_memory_equal(own_model(f, run, i), fli_exec_server(run->exec)[0], vector);
    fl_run_free(run);
}

/* ---- methods without own models -------------------------------------------------------------------------- */

static void global_model_stands_in(void **state)
{
    fixture *f = *state;
    const fl_row *rows, *alone;
    fl_run *run = small_regression(f, "metrics: {local: true}\n");
    fl_run *only = small_regression(f, "metrics: {local: true, test: false, train: false, clients: false}\n");
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_ok(f->ctx, fl_run_go(only, NULL, NULL));
    assert_int_equal(fl_run_rows(run, &rows), ROUNDS + 1);
    assert_int_equal(fl_run_rows(only, &alone), ROUNDS + 1);
    for (size_t i = 0; i <= ROUNDS; i++) {
        assert_true(fl_row_get(&rows[i], "local_train_loss") == fl_row_get(&rows[i], "train_loss") &&
                    fl_row_get(&rows[i], "local_test_loss") == fl_row_get(&rows[i], "test_loss"));
        assert_true(isfinite(fl_row_get(&rows[i], "local_train_loss")) &&
                    isfinite(fl_row_get(&rows[i], "local_test_loss")));
        assert_true(isnan(fl_row_get(&rows[i], "local_train_accuracy")) &&
                    isnan(fl_row_get(&rows[i], "local_test_accuracy")));
        assert_true(fl_row_get(&alone[i], "local_train_loss") == fl_row_get(&rows[i], "train_loss") &&
                    fl_row_get(&alone[i], "local_test_loss") == fl_row_get(&rows[i], "test_loss"));
        assert_true(isnan(fl_row_get(&alone[i], "train_loss")) && isnan(fl_row_get(&alone[i], "test_loss")) &&
                    isnan(fl_row_get(&alone[i], "client_q50")));
    }
    fl_run_free(run);
    fl_run_free(only);
}

/* Measuring own models changes nothing else, with any number of threads. */
static void beside_the_others(void **state)
{
    static const char yaml[] = "data: {kind: blobs, classes: 3, features: 4, samples: 120, test_samples: 60, "
                               "test_fraction: 0.2}\nrounds: 5\nmodel: softmax\npartition: {kind: iid, clients: 20}\n"
                               "participation: {kind: uniform, count: 4}\nlocal: {batch: 5, lr: 0.1}\n"
                               "algorithm: {kind: feddr, eta: 5}\nmetrics: {gradient: true}\n";
    fixture *f = *state;
    static const char *const sets[3][2] = {
        {"metrics.local=false", "threads=1"}, {"metrics.local=true", "threads=1"}, {"metrics.local=true", "threads=4"}};
    fl_run *runs[3];
    const fl_row *r[3];
    for (size_t i = 0; i < 3; i++) {
        fl_config *cfg = fixture_config(f, yaml);
        for (size_t k = 0; k < 2; k++) assert_ok(f->ctx, fl_config_set(cfg, sets[i][k]));
        assert_ok(f->ctx, fl_run_new(cfg, &runs[i]));
        assert_ok(f->ctx, fl_run_go(runs[i], NULL, NULL));
        assert_int_equal(fl_run_rows(runs[i], &r[i]), 6);
        fl_config_free(cfg);
    }
    for (size_t k = 0; k < 6; k++)
        for (size_t i = 1; i < 3; i++) {
            const fl_row *a = &r[0][k], *b = &r[i][k], *first = &r[1][k];
            assert_true(fl_row_get(a, "train_loss") == fl_row_get(b, "train_loss") &&
                        fl_row_get(a, "test_loss") == fl_row_get(b, "test_loss") &&
                        fl_row_get(a, "gradient2") == fl_row_get(b, "gradient2") &&
                        fl_row_get(a, "client_q50") == fl_row_get(b, "client_q50"));
            assert_true(isnan(fl_row_get(a, "local_train_loss")) && isnan(fl_row_get(a, "local_train_accuracy")));
            assert_true(isnan(fl_row_get(a, "local_test_loss")) && isnan(fl_row_get(a, "local_test_accuracy")));
            assert_true(fl_row_get(first, "local_train_loss") == fl_row_get(b, "local_train_loss"));
            assert_true(fl_row_get(first, "local_test_loss") == fl_row_get(b, "local_test_loss"));
            assert_true(fl_row_get(first, "local_test_accuracy") == fl_row_get(b, "local_test_accuracy"));
            assert_true(fl_row_get(b, "local_test_accuracy") >= 0 && fl_row_get(b, "local_test_accuracy") <= 1);
        }
    for (size_t i = 0; i < 3; i++) fl_run_free(runs[i]);
}

/* ---- accuracy -------------------------------------------------------------------------------------------- */

/* Two clients that contradict each other: alone each is right, together they know nothing. There is a test set, but no
 * own test part. */
static void own_models_of_fedpd(void **state)
{
    fixture *f = *state;
    char yaml[512];
    fl_run *run = NULL;
    fixture_write(f, "train.csv", "1,1\n-1,0\n1,0\n-1,1\n");
    fixture_write(f, "test.csv", "1,1\n-1,0\n1,1\n-1,0\n");
    fixture_write(f, "parts.json", "{\"clients\": [[0, 1], [2, 3]]}");
    snprintf(yaml, sizeof yaml,
             "data: {kind: csv, train: %s/train.csv, test: %s/test.csv}\npartition: {kind: file, path: %s/parts.json}\n"
             "model: logistic\nrounds: 1\nprecision: f64\nparticipation: everyone\nlocal: {batch: 0, lr: 1, steps: 1}\n"
             "algorithm: {kind: fedpd, eta: 100}\nmetrics: {local: true}\n",
             f->folder, f->folder, f->folder);
    fl_config *cfg = fixture_config(f, yaml);
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    const fl_row *r = fl_run_row(run);
    /* from 0 one step of size 1 along -f' = 1/2: x_0 = 1/2, x_1 = -1/2 */
    assert_near(fl_row_get(r, "local_train_loss"), log1p(exp(-0.5)), 1e-12);
    assert_true(fl_row_get(r, "local_train_accuracy") == 1);
    assert_near(fl_row_get(r, "train_loss"), log(2), 1e-12);
    assert_true(fl_row_get(r, "train_accuracy") == 0.5);
    assert_true(isfinite(fl_row_get(r, "test_loss")) && isnan(fl_row_get(r, "local_test_loss")) &&
                isnan(fl_row_get(r, "local_test_accuracy")));
    fl_run_free(run);
}

/* ---- rows from elsewhere --------------------------------------------------------------------------------- */

/* A metrics file from before there were these columns. */
static void old_files_can_be_read(void **state)
{
    fixture *f = *state;
    fl_row *rows;
    size_t n;
    const char *path = fixture_write(
        f, "metrics.jsonl",
        "{\"round\": 0, \"cohort\": 0, \"train_loss\": 0.5, \"test_accuracy\": null, \"seconds\": 0}\n"
        "{\"round\": 10, \"cohort\": 4, \"train_loss\": 0.25, \"test_accuracy\": 0.75, \"seconds\": 1.5, "
        "\"local_test_accuracy\": 0.875, \"simulated_seconds\": 12, \"staleness\": 2.5, \"staleness_max\": 7}\n");
    assert_ok(f->ctx, fli_rows_read(f->ctx, path, &rows, &n));
    assert_int_equal(n, 2);
    assert_true(fl_row_round(&rows[0]) == 0 && fl_row_get(&rows[0], "train_loss") == 0.5 &&
                isnan(fl_row_get(&rows[0], "test_accuracy")));
    assert_true(isnan(fl_row_get(&rows[0], "local_train_loss")) && isnan(fl_row_get(&rows[0], "local_train_accuracy")));
    assert_true(isnan(fl_row_get(&rows[0], "local_test_loss")) && isnan(fl_row_get(&rows[0], "local_test_accuracy")));
    assert_true(isnan(fl_row_get(&rows[0], "simulated_seconds")) && isnan(fl_row_get(&rows[0], "staleness")) &&
                isnan(fl_row_get(&rows[0], "staleness_max")));
    assert_true(fl_row_round(&rows[1]) == 10 && fl_row_get(&rows[1], "test_accuracy") == 0.75 &&
                fl_row_get(&rows[1], "seconds") == 1.5);
    assert_true(fl_row_get(&rows[1], "local_test_accuracy") == 0.875 &&
                fl_row_get(&rows[1], "simulated_seconds") == 12);
    assert_true(fl_row_get(&rows[1], "staleness") == 2.5 && fl_row_get(&rows[1], "staleness_max") == 7 &&
                isnan(fl_row_get(&rows[1], "local_test_loss")));
    fli_free(rows);
}

/* One full-batch step per client and round, of a second: the clock shows the round. Without devices there is no clock
 * to stop by. */
static void stop_after_simulated_time(void **state)
{
    fixture *f = *state;
    fl_config *cfg = fixture_config(
        f, "data: {kind: linreg}\npartition: {clients: 4}\nmodel: least_squares\nstop: {simulated: 1}\n");
    fl_run *run = NULL;
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "system.kind is none");
    fl_config_free(cfg);
    for (size_t end = 1; end < 4; end++) {
        char text[200];
        snprintf(text, sizeof text,
                 "system: {kind: constant, step_seconds: 0, turn_seconds: 1}\nstop: {simulated: %zu}\n", end);
        run = small_regression(f, text);
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        assert_int_equal(fl_run_stopped_by(run), FL_STOP_TIME);
        assert_near(fl_row_get(fl_run_row(run), "simulated_seconds"), (double)end, 0);
        assert_int_equal(fl_row_round(fl_run_row(run)), end);
        fl_run_free(run);
    }
    run = small_regression(f, "");
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_true(isnan(fl_row_get(fl_run_row(run), "simulated_seconds")) &&
                isnan(fl_row_get(fl_run_row(run), "staleness")));
    fl_run_free(run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(own_models_of_feddr),       FIXTURE_TEST(whose_model),
        FIXTURE_TEST(global_model_stands_in),    FIXTURE_TEST(beside_the_others),
        FIXTURE_TEST(own_models_of_fedpd),       FIXTURE_TEST(old_files_can_be_read),
        FIXTURE_TEST(stop_after_simulated_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
