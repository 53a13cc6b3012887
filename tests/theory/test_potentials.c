/* Potentials of methods as metrics: FedVRA's P^r against its formula and along a run, that measuring changes nothing,
 * through every executor and after a checkpoint, and what is said of one that rises. That V_eta and the Lagrangian are
 * what the papers say is in test_feddr.c and test_fedgia.c. */
#include "runs.h"

#define LINREG                                                                                                         \
    "seed: 3\nrounds: 30\nthreads: 2\nprecision: f64\ndata: {kind: linreg, clients: 6, features: 4}\n"                 \
    "model: {kind: least_squares, weight_decay: 0.1}\nparticipation: everyone\nlocal: {batch: 0, steps: 3, lr: "       \
    "0.002}\n"                                                                                                         \
    "metrics: {potential: true}\n"

/* Settings in which theory promises descent; those of fedvra and fedadmm are those of `fedloom check`. */
static const char *const promised[] = {
    ("algorithm={kind: feddr, eta: 0.02, alpha: 1, solver: exact, init: exact};participation={kind: uniform, count: 2};"
     "regularizer={kind: l1, weight: 0.2}"),
    "algorithm={kind: fedgia, t: 6.1, variant: gram};participation={kind: uniform, count: 2}",
    "algorithm={kind: fedgia, t: 7, variant: diagonal}",
    "algorithm={kind: fedvra, a: 1, d: 1, gamma: 1400};local.lr=0.00005",
    "algorithm={kind: fedadmm, gamma: 1400};local.lr=0.00005",
    ("algorithm={kind: asyncfeddr, eta: 0.02, alpha: 0.3, tau: 5, solver: exact, init: exact};"
     "system={kind: lognormal, sigma: 1, jitter: 0.5};regularizer={kind: l1, weight: 0.2}"),
};
enum { PROMISED = sizeof promised / sizeof *promised };

typedef struct {
    size_t warnings;
    char line[512];
} logged;

static void keep_warning(void *arg, fl_log_level level, const char *line)
{
    logged *l = arg;
    if (level != FL_LOG_WARNING || !strstr(line, "potential")) return;
    l->warnings++;
    snprintf(l->line, sizeof l->line, "%s", line);
}

static void falls_where_promised(void **state)
{
    fixture *f = *state;
    for (size_t k = 0; k < PROMISED; k++) {
        const fl_row *rows;
        logged l = {0};
        fl_ctx_on_log(f->ctx, keep_warning, &l);
        fl_run *run = run_done(f, LINREG, promised[k]);
        size_t n = fl_run_rows(run, &rows), after = run->plan.setup.algo->theory.potential.after;
        for (size_t i = 0; i < n; i++) {
            double v = fl_row_get(&rows[i], "potential"), before = i ? fl_row_get(&rows[i - 1], "potential") : NAN;
            if (!(fl_row_get(&rows[i], "potential_rise") == 0)) fail_msg("%s: no promise, or a rise", promised[k]);
            if (i > after && !(v < before)) fail_msg("%s: %.17g after %.17g, row %zu", promised[k], v, before, i);
        }
        assert_int_equal(l.warnings, 0);
        fl_run_free(run);
    }
}

/* No promise where a round may go on without clients that are invited: P^r then rises within Theorem 1's conditions. */
static void none_where_clients_are_dropped(void **state)
{
    static const char *const dropping[] = {"{kind: linear, slowest: 9, wait_for: 0.2}",
                                           "{kind: linear, slowest: 9, deadline: 2}"};
    fixture *f = *state;
    for (size_t k = 0; k < sizeof dropping / sizeof *dropping; k++) {
        const fl_row *rows;
        char set[300];
        logged l = {0};
        snprintf(set, sizeof set, "%s;rounds=8000;system=%s", promised[3], dropping[k]);
        fl_ctx_on_log(f->ctx, keep_warning, &l);
        fl_run *run = run_done(f, LINREG, set);
        size_t n = fl_run_rows(run, &rows), rises = 0;
        for (size_t i = 1; i < n; i++)
            rises += fl_row_get(&rows[i], "potential") > fl_row_get(&rows[i - 1], "potential");
        if (!rises || !isnan(fl_row_get(&rows[n - 1], "potential_rise")) || l.warnings)
            fail_msg("%s: %zu rises, %s", dropping[k], rises, l.line);
        fl_run_free(run);
    }
}

/* Weight decay over a client's samples is weight decay, where all clients have as many. */
static void decay_by_samples(void **state)
{
    fixture *f = *state;
    static const char *const methods[] = {"algorithm={kind: feddr, eta: 0.03, solver: exact, init: exact}",
                                          "algorithm={kind: fedvra, gamma: 1, a: 1, d: 1}", "algorithm=fedgia"};
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
        double last[2];
        for (int by = 0; by < 2; by++) {
            char set[400];
            snprintf(set, sizeof set,
                     "%s;data={kind: linreg, clients: 6, features: 4, min_size: 50, max_size: 50};rounds=5;"
                     "model.weight_decay=%s;model.weight_decay_by=%s",
                     methods[k], by ? "20" : "0.4", by ? "samples" : "nothing");
            fl_run *run = run_done(f, LINREG, set);
            last[by] = fl_row_get(fl_run_row(run), "potential");
            fl_run_free(run);
        }
        assert_near(last[0], last[1], 1e-9 * fabs(last[0]));
    }
}

/* No conditions: the promise that the settings do not keep. */
static void anything(const void *params, const fl_facts *f, fl_conditions *out)
{
    (void)params;
    (void)f;
    (void)out;
}

/* A promise that is not kept is said, with the first round in which it was not; without one nothing is. */
static void rises_are_said(void **state)
{
    static const char bad[] = "algorithm={kind: feddr, eta: 300, alpha: 1.9, solver: exact, init: exact}";
    fixture *f = *state;
    for (int promise = 0; promise < 2; promise++) {
        const fl_row *rows;
        logged l = {0};
        char round[64];
        fl_ctx_on_log(f->ctx, keep_warning, &l);
        fl_run *run = run_new(f, LINREG, bad);
        fl_method other = *run->plan.setup.algo;
        other.theory.potential.falls = promise ? anything : other.theory.potential.falls;
        run->plan.setup.algo = &other;
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        size_t n = fl_run_rows(run, &rows), first = 1;
        while (first < n && !(fl_row_get(&rows[first], "potential") > fl_row_get(&rows[first - 1], "potential")))
            first++;
        assert_true(first < n);
        assert_int_equal(l.warnings, promise);
        snprintf(round, sizeof round, "first rose in round %zu,", first);
        if (promise && !strstr(l.line, round)) fail_msg("%s: not in %s", round, l.line);
        double rise = fl_row_get(&rows[n - 1], "potential_rise");
        assert_true(promise ? rise >= fl_row_get(&rows[first], "potential") - fl_row_get(&rows[first - 1], "potential")
                            : isnan(rise));
        fl_run_free(run);
    }
}

static void assert_same(const fl_run *a, const fl_run *b, const char *column)
{
    const fl_row *x, *y;
    size_t n = fl_run_rows(a, &x);
    assert_int_equal(fl_run_rows(b, &y), n);
    for (size_t i = 0; i < n; i++) {
        double v = fl_row_get(&x[i], column), w = fl_row_get(&y[i], column);
        if (v != w && !(isnan(v) && isnan(w))) fail_msg("%s, row %zu: %.17g and %.17g", column, i, v, w);
    }
}

/* The same numbers through every executor, with and without sampling; and nothing else changes. */
static void leaves_no_trace(void **state)
{
    static const char *const others[] = {"train_loss", "bytes_up", "bytes_down", "local_steps"};
    fixture *f = *state;
    for (size_t k = 0; k < PROMISED; k++)
        for (int lazy = 0; lazy < 2; lazy++) {
            char set[3][512];
            fl_run *runs[3];
            static const char *const how[] = {"executor=threads", "executor=loopback", "metrics.potential=false"};
            for (size_t i = 0; i < 3; i++) {
                snprintf(set[i], sizeof set[i], "%s;rounds=6;precision=f32;%s%s", promised[k], how[i],
                         !lazy                          ? ""
                         : strstr(promised[k], "async") ? ";participation={kind: uniform, count: 2}"
                                                        : ";participation={kind: cyclic, count: 1}");
                if (lazy && strstr(set[i], "init: exact")) memcpy(strstr(set[i], "init: exact"), "init:  lazy", 11);
                runs[i] = run_done(f, LINREG, set[i]);
            }
            assert_same(runs[0], runs[1], "potential");
            assert_same(runs[0], runs[1], "evaluation_bytes_up");
            assert_same(runs[0], runs[1], "evaluation_bytes_down");
            for (size_t c = 0; c < 4; c++) {
                assert_same(runs[0], runs[1], others[c]);
                assert_same(runs[0], runs[2], others[c]);
            }
            assert_true(isfinite(fl_row_get(fl_run_row(runs[0]), "potential")));
            assert_true(isnan(fl_row_get(fl_run_row(runs[2]), "potential")));
            for (size_t i = 0; i < 3; i++) fl_run_free(runs[i]);
        }
}

/* What there is at the start: x_i = x and lam_i = 0, so that V_eta and the Lagrangian are f(x) + g(x), and P^0 is
 * f + 4/(gamma p a gamma lr Qt) mean ||grad f_i||^2. */
static void where_they_start(void **state)
{
    static const char *const plain[] = {"algorithm={kind: feddr, init: lazy};rounds=1",
                                        "algorithm={kind: fedgia};rounds=1"};
    fixture *f = *state;
    const fl_row *rows;
    for (size_t k = 0; k < 2; k++) {
        fl_run *run = run_done(f, LINREG, plain[k]);
        fl_run_rows(run, &rows);
        double v = fl_row_get(rows, "potential"), want = fl_row_get(rows, "train_loss");
        assert_true(fabs(v - want) < 1e-12 * want);
        fl_run_free(run);
    }
    double p[2], gamma[] = {2, 4};
    for (size_t k = 0; k < 2; k++) { /* with one step Qt = 1, so that P^0 - f falls with gamma^2 */
        char set[128];
        snprintf(set, sizeof set, "algorithm={kind: fedvra, a: 1, d: 1, gamma: %g};local.steps=1;rounds=1", gamma[k]);
        fl_run *run = run_done(f, LINREG, set);
        fl_run_rows(run, &rows);
        p[k] = fl_row_get(rows, "potential") - fl_row_get(rows, "train_loss");
        fl_run_free(run);
    }
    assert_true(p[1] > 0 && fabs(p[0] / p[1] - 4) < 1e-10);
}

static void a_missing_potential_is_refused(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, LINREG, "algorithm=fedavg");
    assert_int_equal(fl_run_new(cfg, &run), FL_ECONFIG);
    assert_non_null(strstr(fl_ctx_error(f->ctx), "no potential of algorithm fedavg is known here"));
    fl_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(falls_where_promised),
                                       FIXTURE_TEST(none_where_clients_are_dropped),
                                       FIXTURE_TEST(decay_by_samples),
                                       FIXTURE_TEST(rises_are_said),
                                       FIXTURE_TEST(leaves_no_trace),
                                       FIXTURE_TEST(where_they_start),
                                       FIXTURE_TEST(a_missing_potential_is_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
