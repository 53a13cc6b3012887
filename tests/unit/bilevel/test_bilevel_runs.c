/* Runs of methods for two levels: what is sent, what steps and samples their keys mean, and what is refused. */
#include "quadratic_levels.h"

/* ---- one random term --------------------------------------------------------------------------------------- */

/* FedNest's x is linear in what stands for the inverse Hessian: the mean over the N + 1 random lengths is that of the
 * whole sum. */
static void random_terms(void **state)
{
    fixture *f = *state;
    enum { N = 4, NEUMANN = 6 };
    quadratic q[N];
    fli_rng r;
    double mean[UP] = {0};
    const double *x;
    engine e;
    fli_rng_init(&r, 5, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < N; i++) q[i] = quadratic_random(&r);
    for (size_t n = 0; n <= NEUMANN; n++) {
        levels_init(&e, f->ctx, quadratic_fed(f->ctx, N, 1, q), 0, "fednest", "estimate=random;neumann=6;ell=4;tau=1",
                    0, 1);
        levels_round(&e, e.everyone, N, 2 + n + 3);
        x = fli_exec_server(e.exec)[0];
        for (size_t j = 0; j < UP; j++) mean[j] += x[j] / (NEUMANN + 1);
        engine_fini(&e);
    }
    levels_init(&e, f->ctx, quadratic_fed(f->ctx, N, 1, q), 0, "fednest", "neumann=6;ell=4;tau=1", 0, 1);
    levels_round(&e, e.everyone, N, 2 + NEUMANN + 3);
    x = fli_exec_server(e.exec)[0];
    assert_true(distance(UP, x, (double[UP]){0}) > 1e-4);
    assert_near(distance(UP, x, mean), 0, 1e-14);
    engine_fini(&e);
}

/* ---- what is sent ------------------------------------------------------------------------------------------ */

static const char base[] = "seed: 5\nrounds: 4\nthreads: 2\nprecision: f64\nmodel: softmax\n"
                           "data: {kind: blobs, classes: 3, features: 4, samples: 90, test_samples: 30}\n"
                           "partition: {kind: iid, clients: 9}\nparticipation: {kind: uniform, count: 3}\n"
                           "bilevel: regularization\nlocal: {batch: 4, steps: 7}\n"
                           "system: {kind: constant, step_seconds: 1, turn_seconds: 0.5}\n";

static fl_run *run_of(fixture *f, const char *assignment)
{
    fl_run *run = NULL;
    fl_config *cfg = fixture_config(f, base);
    assert_ok(f->ctx, fl_config_set(cfg, assignment));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    return run;
}

/* In blocks per client and round: x has 4 parameters, y 15. */
static const struct {
    const char *algorithm;
    double exchanges, up_x, up_y, up_numbers, down_x, down_y;
    double seconds; /* of steps */
    double steps;   /* computed */
} sent[] = {
    {"simfbo", 1, 1, 2, 1, 1, 2, 3 * 7, 3 * 7}, /* of g, of f, a product */
    {"{kind: simfbo, radius: 5}", 1, 1, 2, 0, 1, 2, 3 * 7, 3 * 7},
    {"shrofbo", 1, 1, 2, 2, 1, 2, 3 * 7, 3 * 7},
    /* T = 2, N = 3: 2 x (G, y), p, 3 products, h, x; steps are variance reduced, h has a product */
    {"{kind: fednest, inner_rounds: 2, neumann: 3, tau: 3}", 10, 2, 8, 0, 2, 9, 2 * (1 + 6) + 1 + 3 + 2 + 6, 26},
    {"{kind: fednest, inner_rounds: 1, neumann: 0}", 5, 2, 3, 0, 2, 4, 1 + 14 + 1 + 2 + 14, 32},
    {"{kind: lfednest, inner_rounds: 3, neumann: 2, tau: 2}", 4, 1, 3, 0, 1, 4, 3 * 2 + 2 * 4, 14},
    {"{kind: fbo-aggitd, inner_rounds: 4}", 9, 5, 9, 0, 1, 9, 9, 9},
    /* two mini-batches of training samples, one of validation samples; a cohort of its own is sent (x, y) */
    {"{kind: fednest, neumann: 2, inner_epochs: 3, outer_steps: 2, anchor: full, cohort: level}", 7, 2, 5, 0, 3, 6,
     2 + 2 * 6 + 1 + 2 * 2 + 3 + 4, 26},
    {"{kind: fednest, inner_rounds: 2, neumann: 0, tau: 1, cohort: each}", 7, 2, 5, 0, 4, 6, 2 * (1 + 2) + 1 + 2 + 2,
     11},
    {"{kind: lfednest, inner_rounds: 2, neumann: 1, inner_steps: 3, outer_epochs: 2, anchor: full, cohort: each}", 3, 1,
     2, 0, 3, 3, 2 * 3 + 2 * (1 + 2 * 2), 16},
};

static void communications_and_bytes_are_counted(void **state)
{
    for (size_t i = 0; i < sizeof sent / sizeof *sent; i++) {
        char text[160];
        const fl_row *rows;
        snprintf(text, sizeof text, "algorithm=%s", sent[i].algorithm);
        fl_run *run = run_of(*state, text);
        assert_int_equal(fl_run_parameters(run), 4 + 15);
        assert_int_equal(fl_run_rows(run, &rows), 5);
        for (size_t r = 0; r < 5; r++) {
            double rounds = (double)r;
            assert_true(fl_row_get(&rows[r], "communications") == rounds * sent[i].exchanges);
            assert_true(fl_row_get(&rows[r], "bytes_up") ==
                        8 * 3 * rounds * (4 * sent[i].up_x + 15 * sent[i].up_y + sent[i].up_numbers));
            assert_true(fl_row_get(&rows[r], "bytes_down") ==
                        8 * 3 * rounds * (4 * sent[i].down_x + 15 * sent[i].down_y));
            assert_near(fl_row_get(&rows[r], "simulated_seconds"), rounds * (sent[i].seconds + 0.5 * sent[i].exchanges),
                        1e-9);
            assert_true(fl_row_get(&rows[r], "local_steps") == 3 * rounds * sent[i].steps);
        }
        fl_run_free(run);
    }
}

/* One random term: between 2T + 3 and 2T + N + 3 exchanges. */
static void random_communications(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    const fl_row *rows;
    size_t seen[6] = {0};
    fl_config *cfg = fixture_config(f, base);
    assert_ok(f->ctx, fl_config_set(cfg, "algorithm={kind: fednest, neumann: 5, estimate: random, tau: 1}"));
    assert_ok(f->ctx, fl_config_set(cfg, "rounds=120"));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    size_t n = fl_run_rows(run, &rows);
    for (size_t r = 1; r < n; r++) {
        double d = fl_row_get(&rows[r], "communications") - fl_row_get(&rows[r - 1], "communications");
        assert_true(d >= 5 && d <= 10);
        seen[(size_t)d - 5]++;
    }
    for (size_t i = 0; i < 6; i++) assert_in_range(seen[i], 4, 40); /* 20 expected */
    fl_run_free(run);
    fl_config_free(cfg);
}

/* ---- inner and outer work apart ----------------------------------------------------------------------------- */

/* The model at the end of a run, of `base` with an algorithm and other settings; NULL: none. */
static void model_of(fixture *f, const char *algorithm, const char *more, double model[4 + 15])
{
    fl_run *run = NULL;
    char text[256];
    fl_config *cfg = fixture_config(f, base);
    snprintf(text, sizeof text, "algorithm=%s", algorithm);
    assert_ok(f->ctx, fl_config_set(cfg, text));
    if (more) assert_ok(f->ctx, fl_config_set(cfg, more));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_int_equal(fl_run_model(run, model, 4 + 15), 4 + 15);
    fl_run_free(run);
    fl_config_free(cfg);
}

static double apart(fixture *f, const char *one, const char *other, const char *more)
{
    double a[4 + 15], b[4 + 15];
    model_of(f, one, more, a);
    model_of(f, other, more, b);
    return distance(4 + 15, a, b);
}

/* An epoch of the lower level has two mini-batches here, of the upper level one. */
static void inner_and_outer_work(void **state)
{
    static const char *const methods[] = {"fednest, ell: 10, lr_in: 0.3", "lfednest, ell: 10, lr_in: 0.3"};
    for (size_t i = 0; i < 2; i++) {
        char tau[128], steps[128], epochs[128], outer[128];
        snprintf(tau, sizeof tau, "{kind: %s, tau: 4}", methods[i]);
        snprintf(steps, sizeof steps, "{kind: %s, inner_steps: 4, outer_steps: 4}", methods[i]);
        snprintf(epochs, sizeof epochs, "{kind: %s, inner_epochs: 2, outer_epochs: 4}", methods[i]);
        snprintf(outer, sizeof outer, "{kind: %s, tau: 4, outer_steps: 1}", methods[i]);
        assert_true(apart(*state, tau, steps, NULL) == 0);
        assert_true(apart(*state, tau, epochs, NULL) == 0);
        assert_true(apart(*state, tau, outer, NULL) > 1e-6);
    }
}

/* With everyone in every round a new cohort is the old one; with some, the other level sees others. */
static void cohorts_of_a_round(void **state)
{
    static const char *const methods[] = {"fednest, inner_rounds: 2, tau: 3, ell: 10, lr_in: 0.3",
                                          "lfednest, inner_rounds: 2, tau: 3, ell: 10, lr_in: 0.3"};
    static const char *const ways[] = {"round", "level", "each"};
    for (size_t i = 0; i < 2; i++)
        for (size_t w = 1; w < 3; w++) {
            char one[160], other[160], before[160];
            snprintf(one, sizeof one, "{kind: %s}", methods[i]);
            snprintf(other, sizeof other, "{kind: %s, cohort: %s}", methods[i], ways[w]);
            snprintf(before, sizeof before, "{kind: %s, cohort: %s}", methods[i], ways[w - 1]);
            assert_true(apart(*state, one, other, "participation=everyone") == 0);
            assert_true(apart(*state, other, other, NULL) == 0);
            assert_true(apart(*state, before, other, NULL) > 1e-6);
        }
}

/* One variance-reduced step goes along the averaged gradient: with that over all samples the size of mini-batches does
 * not matter. */
static void anchors_over_all_samples(void **state)
{
    fixture *f = *state;
    enum { N = 3, EACH = 5 };
    static const char *const params[] = {"tau=1;neumann=3;ell=4;anchor=full", "tau=1;neumann=3;ell=4"};
    quadratic q[N * EACH];
    fli_rng r;
    double x[2][2][UP + LOW];
    fli_rng_init(&r, 6, FLI_RNG_TEST, 0, 0);
    for (size_t i = 0; i < N * EACH; i++) q[i] = quadratic_random(&r);
    for (size_t i = 0; i < 4; i++) {
        engine e;
        levels_init(&e, f->ctx, quadratic_fed(f->ctx, N, EACH, q), 0, "fednest", params[i / 2], i % 2, 1);
        for (size_t k = 0; k < 3; k++) levels_round(&e, e.everyone, N, 2 + 3 + 3);
        memcpy(x[i / 2][i % 2], fli_exec_server(e.exec)[0], sizeof x[0][0]);
        engine_fini(&e);
    }
    assert_near(distance(UP + LOW, x[0][0], x[0][1]), 0, 1e-14);
    assert_near(distance(UP + LOW, x[0][0], x[1][0]), 0, 1e-14);
    assert_true(distance(UP + LOW, x[1][0], x[1][1]) > 1e-4);
}

/* Coefficients by client and by round, against the same said in other ways: base has 9 clients and 4 rounds. */
static void coefficients_by_client_and_round(void **state)
{
    static const char *const methods[] = {"simfbo", "shrofbo"};
    for (size_t i = 0; i < 2; i++) {
        char plain[160], clients[160], rounds[160], late[160], uneven[160];
        snprintf(plain, sizeof plain, "{kind: %s, coef: 0.5}", methods[i]);
        snprintf(clients, sizeof clients, "{kind: %s, coef_steps: 1, coef: [%s]}", methods[i],
                 ".5, .5, .5, .5, .5, .5, .5, .5, .5");
        snprintf(uneven, sizeof uneven, "{kind: %s, coef_steps: 1, coef: [%s]}", methods[i],
                 ".5, .6, .5, .6, .5, .6, .5, .6, .5");
        snprintf(rounds, sizeof rounds, "{kind: %s, coef_rounds: [0.5, 0.5]}", methods[i]);
        snprintf(late, sizeof late, "{kind: %s, coef_rounds: [0.5, 0.5, 0.5, 1]}", methods[i]);
        assert_true(apart(*state, plain, clients, NULL) == 0);
        assert_true(apart(*state, plain, rounds, NULL) == 0);
        assert_true(apart(*state, plain, uneven, NULL) > 1e-6);
        assert_true(apart(*state, plain, late, NULL) > 1e-6);
        assert_true(apart(*state, plain, late, "rounds=3") == 0);
    }
}

/* Both kinds learn, with every method. */
static void every_bilevel_method_learns(void **state)
{
    static const char *const settings[] = {"{kind: simfbo, lr_y: 0.1, server_lr_y: 0.3}",
                                           "{kind: shrofbo, server_lr_y: 0.1}",
                                           "{kind: fednest, tau: 3, lr_in: 0.3, lr_out: 0.1, ell: 10}",
                                           "{kind: lfednest, tau: 3, lr_in: 0.3, lr_out: 0.1, ell: 10}",
                                           "{kind: fbo-aggitd, inner_rounds: 5, lr_in: 0.3, lr_out: 0.1}"};
    fixture *f = *state;
    for (size_t i = 0; i < 10; i++) {
        fl_run *run = NULL;
        const fl_row *rows;
        char text[128];
        fl_config *cfg = fixture_config(f, base);
        snprintf(text, sizeof text, "algorithm=%s", settings[i / 2]);
        assert_ok(f->ctx, fl_config_set(cfg, text));
        assert_ok(f->ctx, fl_config_set(cfg, "rounds=60"));
        if (i % 2) assert_ok(f->ctx, fl_config_set(cfg, "model={kind: mlp, hidden: [8]}"));
        if (i % 2) assert_ok(f->ctx, fl_config_set(cfg, "bilevel=hyper_representation"));
        assert_ok(f->ctx, fl_run_new(cfg, &run));
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        size_t n = fl_run_rows(run, &rows);
        if (!(fl_row_get(&rows[n - 1], "train_loss") < 0.7 * fl_row_get(&rows[0], "train_loss")))
            fail_msg("%s: %g after %g", text, fl_row_get(&rows[n - 1], "train_loss"),
                     fl_row_get(&rows[0], "train_loss"));
        fl_run_free(run);
        fl_config_free(cfg);
    }
}

/* ---- what is refused ----------------------------------------------------------------------------------------- */

static fl_status refused(fixture *f, const char *assignments)
{
    fl_run *run = NULL;
    char text[256], *save = NULL;
    fl_config *cfg = fixture_config(f, base);
    snprintf(text, sizeof text, "%s", assignments);
    fl_status s = FL_OK;
    for (char *a = strtok_r(text, ";", &save); !s && a; a = strtok_r(NULL, ";", &save)) s = fl_config_set(cfg, a);
    if (!s) s = fl_run_new(cfg, &run);
    fl_config_free(cfg);
    fl_run_free(run);
    return s;
}

static void impossible_settings_are_refused(void **state)
{
    static const struct {
        const char *assignments, *text;
    } cases[] = {
        {"algorithm=simfbo;bilevel=none", "two-level problems"},
        {"algorithm=fedavg", "one level only"},
        {"algorithm=simfbo;bilevel=hyper_representation", "softmax has no such body"},
        {"algorithm=simfbo;model={kind: mlp, hidden: [3]}", "one weight per feature"},
        {"algorithm=simfbo;model.weight_decay=0.1", "bilevel.l2"},
        {"algorithm=simfbo;local.momentum=0.5", "local.momentum"},
        {"algorithm={kind: simfbo, radius: 0}", "algorithm.radius"},
        {"algorithm={kind: shrofbo, radius: -1}", "algorithm.radius"},
        {"algorithm={kind: simfbo, radius: [1, 2]}", "one number or auto"},
        {"algorithm={kind: simfbo, coef: []}", "algorithm.coef is empty"},
        {"algorithm={kind: simfbo, coef: [1, 0]}", "algorithm.coef"},
        {"algorithm={kind: simfbo, coef_decay: 1.5}", "algorithm.coef_decay"},
        {"algorithm={kind: simfbo, coef_rounds: []}", "algorithm.coef_rounds is empty"},
        {"algorithm={kind: simfbo, coef_rounds: [1, 0]}", "algorithm.coef_rounds"},
        {"algorithm={kind: shrofbo, coef: [1, 2, 3], coef_steps: 2}", "9 clients it needs 18"},
        {"algorithm=fedavg;bilevel=none;metrics.hypergradient=true", "two levels"},
        {"algorithm=fednest;system.deadline=3", "several times in a round"},
        {"algorithm={kind: fednest, inner_steps: 2, inner_epochs: 1}", "exclude each other"},
        {"algorithm={kind: lfednest, outer_steps: 2, outer_epochs: 1}", "exclude each other"},
        {"algorithm={kind: fednest, anchor: all}", "algorithm.anchor"},
        {"algorithm={kind: lfednest, cohort: both}", "algorithm.cohort"},
        {"algorithm=simfbo;bilevel.validation=0.95", "bilevel.validation"},
        {"algorithm=simfbo;partition.clients=90", "single training sample"},
        {"algorithm=simfbo;data.unlabelled=0.9", "single training sample with a label"},
        {"algorithm=simfbo;metrics.gradient=true;stop.gradient2=1e-6", "bilevel problem"},
        {"algorithm=simfbo;regularizer={kind: l1, weight: 1}", "regularizer.kind must be none"},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        assert_fails(f->ctx, refused(f, cases[i].assignments), FL_ECONFIG, cases[i].text);
    assert_ok(f->ctx, refused(f, "algorithm=simfbo;partition.clients=90;bilevel.validation=0"));
}

static void count_warning(void *arg, fl_log_level level, const char *line)
{
    if (level == FL_LOG_WARNING && strstr(line, "strongly convex")) ++*(size_t *)arg;
}

static void warns_without_l2(void **state)
{
    fixture *f = *state;
    size_t warnings = 0;
    fl_ctx_on_log(f->ctx, count_warning, &warnings);
    assert_ok(f->ctx, refused(f, "algorithm=simfbo"));
    assert_int_equal(warnings, 0);
    assert_ok(f->ctx, refused(f, "algorithm=simfbo;bilevel.l2=0"));
    assert_int_equal(warnings, 1);
    fl_ctx_on_log(f->ctx, NULL, NULL);
}

/* A run that leaves the finite range says which method's steps are to blame. */
static void divergence_names_the_step_sizes(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    fl_config *cfg = fixture_config(f, base);
    assert_ok(f->ctx, fl_config_set(cfg, "algorithm={kind: simfbo, server_lr_x: 1e200, lr_x: 1e200}"));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_fails(f->ctx, fl_run_go(run, NULL, NULL), FL_EDIVERGED, "try smaller algorithm.lr_x, lr_y, lr_v");
    fl_run_free(run);
    fl_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(random_terms),
        FIXTURE_TEST(communications_and_bytes_are_counted),
        FIXTURE_TEST(random_communications),
        FIXTURE_TEST(inner_and_outer_work),
        FIXTURE_TEST(cohorts_of_a_round),
        FIXTURE_TEST(anchors_over_all_samples),
        FIXTURE_TEST(coefficients_by_client_and_round),
        FIXTURE_TEST(every_bilevel_method_learns),
        FIXTURE_TEST(impossible_settings_are_refused),
        FIXTURE_TEST(warns_without_l2),
        FIXTURE_TEST(divergence_names_the_step_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
