/* Parameters that are `auto` until a run is planned: eta of Douglas-Rachford methods, by the rule of its help, and with
 * it convergence that needs no other setting. */
#include "runs.h"

#include "algo/family_dr.h"

#define LINREG                                                                                                         \
    "seed: 3\nrounds: 3\nthreads: 2\nprecision: f64\ndata: {kind: linreg, clients: 6, features: 4}\n"                  \
    "model: least_squares\nmetrics: {gradient_mapping: true, test: false, clients: false}\n"

static double eta_of(const fl_run *run) { return fli_dr_eta(run->plan.setup.params); }

/* lr times the mean number of steps of all clients; with momentum they go 1/(1 - momentum) as far. */
static void by_work(void **state)
{
    static const char *const methods[] = {"feddr", "fedsplit", "asyncfeddr"};
    fixture *f = *state;
    for (size_t k = 0; k < 3; k++) {
        char set[200];
        double sum = 0;
        snprintf(set, sizeof set,
                 "algorithm=%s;local.lr=0.03;local.batch=7;local.epochs=2;participation=everyone;system=constant",
                 methods[k]);
        fl_run *run = run_new(f, LINREG, set);
        for (size_t i = 0; i < 6; i++) sum += 0.03 * (double)(2 * ((fli_fed_size(run->plan.fed, i) + 6) / 7));
        assert_true(fabs(eta_of(run) - sum / 6) < 1e-14);
        fl_run_free(run);
        strcat(set, ";local.momentum=0.75;local.steps=5");
        run = run_new(f, LINREG, set);
        assert_true(fabs(eta_of(run) - 0.6) < 1e-14);
        fl_run_free(run);
    }
}

/* 10/L, with the L that `fedloom check` prints; 1/L without convexity, and less where f_i may curve downwards more. */
static void by_smoothness(void **state)
{
    fixture *f = *state;
    collected text = {0};
    fl_config *cfg = config_of(f, LINREG, "algorithm={kind: feddr, solver: exact}");
    assert_ok(f->ctx, fl_check(cfg, collect_text, &text));
    fl_config_free(cfg);
    double least, l;
    assert_int_equal(sscanf(strstr(text.s, "L_i from "), "L_i from %lf to %lf", &least, &l), 2);
    free(text.s);
    fl_run *run = run_new(f, LINREG, "algorithm={kind: feddr, solver: exact}");
    assert_true(fabs(eta_of(run) * l / 10 - 1) < 1e-3);
    fl_run_free(run);
    static const char mlp[] = "data={kind: blobs, samples: 60};partition={kind: iid, clients: 3};"
                              "model={kind: mlp, hidden: [3]};algorithm={kind: feddr, solver: accurate, relative: 0.1";
    char set[300];
    double etas[2];
    for (size_t k = 0; k < 2; k++) {
        snprintf(set, sizeof set, "%s, weak_convexity: %g}", mlp, k ? 1e4 : 0.);
        run = run_new(f, LINREG, set);
        etas[k] = eta_of(run);
        fl_run_free(run);
    }
    assert_true(etas[0] > 1e-4 && isfinite(etas[0]) && etas[1] == 0.5e-4);
}

/* The configuration beside a result says `auto`, so that it is found again; running it gives the same bits, and so do
 * clients that were told as text. */
static void is_repeatable(void **state)
{
    fixture *f = *state;
    for (int exact = 0; exact < 2; exact++) {
        double x[3][4];
        static const char *const how[] = {"threads=1", "executor=loopback", "threads=2"};
        for (size_t k = 0; k < 3; k++) {
            char set[300];
            fli_text text;
            snprintf(set, sizeof set, "algorithm={kind: feddr, solver: %s};%s", exact ? "exact" : "sgd", how[k]);
            fl_run *run = run_done(f, LINREG, set);
            assert_int_equal(fl_run_model(run, x[k], 4), 4);
            fli_text_init(&text, f->ctx);
            fli_settings_print_key(&text, run->plan.settings, "algorithm.eta");
            assert_string_equal(fli_text_get(&text), "auto");
            fli_text_fini(&text);
            fl_run_free(run);
        }
        assert_memory_equal(x[0], x[1], sizeof x[0]);
        assert_memory_equal(x[0], x[2], sizeof x[0]);
    }
    char set[100];
    fl_run *run = run_new(f, LINREG, "algorithm=feddr"), *given;
    snprintf(set, sizeof set, "algorithm={kind: feddr, eta: %.17g}", eta_of(run));
    given = run_new(f, LINREG, set);
    assert_true(eta_of(run) == eta_of(given) && given->plan.setup.params == given->plan.settings->algorithm.params);
    fl_run_free(run);
    fl_run_free(given);
}

/* Whatever the scale of the data: eta follows, and the gradient mapping shrinks by four orders of magnitude. */
static void the_gradient_mapping_shrinks(void **state)
{
    static const char *const sets[] = {
        "algorithm={kind: feddr, solver: exact};participation=everyone",
        "algorithm={kind: feddr, solver: exact}",
        "algorithm=feddr;participation=everyone;local={batch: 0, steps: 20, lr: 0.05}",
        ("algorithm={kind: asyncfeddr, solver: exact};system=lognormal;participation=everyone;rounds=2400;"
         "metrics.every=2400"),
        "algorithm={kind: feddr, solver: exact};participation=everyone;regularizer={kind: l1, weight: 0.1}",
    };
    fixture *f = *state;
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        char set[400];
        const fl_row *rows;
        snprintf(set, sizeof set, "rounds=400;metrics.every=400;participation={kind: uniform, count: 3};%s", sets[k]);
        fl_run *run = run_done(f, LINREG, set);
        size_t n = fl_run_rows(run, &rows);
        double begin = fl_row_get(rows, "gradient_mapping"), end = fl_row_get(&rows[n - 1], "gradient_mapping");
        if (!(end < 1e-4 * begin)) fail_msg("%s: from %g to %g only", sets[k], begin, end);
        fl_run_free(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(by_work), FIXTURE_TEST(by_smoothness), FIXTURE_TEST(is_repeatable),
                                       FIXTURE_TEST(the_gradient_mapping_shrinks)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
