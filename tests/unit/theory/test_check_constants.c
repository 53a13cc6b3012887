/* Which constants `fl_check` goes by, and what it makes of cases in which others would promise too much: large samples
 * at the end of a file, unlabelled terms, start models, gamma_i that differ, cohorts that follow a plan, mini-batches
 * with a weight decay of their own. And the number of rounds that a theorem promises. */
#include "theory_problem.h"

#include <math.h>

static char *checked_yaml(fixture *f, const char *yaml)
{
    collected c = {0};
    fl_config *cfg = fixture_config(f, yaml);
    assert_ok(f->ctx, fl_check(cfg, collect_text, &c));
    fl_config_free(cfg);
    return c.s;
}

/* The ends of L_i. */
static void smoothness_of(const char *text, double *low, double *high)
{
    const char *line = strstr(text, "smoothness  L_i from ");
    assert_non_null(line);
    assert_int_equal(sscanf(line, "smoothness  L_i from %lf to %lf", low, high), 2);
}

/* 600 small rows, then 600 large ones: L_i is of all of them. */
static void all_samples_count(void **state)
{
    fixture *f = *state;
    enum { ROWS = 1200 };
    char *text = malloc(ROWS * 32), yaml[1200];
    size_t n = 0;
    for (size_t i = 0; i < ROWS; i++)
        n += (size_t)snprintf(text + n, 32, "%g,%g,1\n", i < 600 ? 0.1 : 20.0, i < 600 ? 0.1 : 0);
    fixture_write(f, "rows.csv", text);
    free(text);
    snprintf(yaml, sizeof yaml,
             "precision: f64\nmodel: least_squares\npartition: {kind: iid, clients: 1}\nparticipation: everyone\n"
             "data: {kind: csv, train: %s, task: regression}\nlocal: {batch: 0, steps: 1, lr: 0.01}\n"
             "algorithm: fedvra\n",
             fixture_path(f, "rows.csv"));
    double low, high;
    char *said = checked_yaml(f, yaml);
    smoothness_of(said, &low, &high);
    assert_near(high, (400 + 0.01) / 2, 0.1);
    assert_says(said, "for every model, over all samples");
    free(said);
}

#define BLOBS                                                                                                          \
    "precision: f64\ndata: {kind: blobs, samples: 300, classes: 5, features: 4%s}\n"                                   \
    "partition: {kind: iid, clients: 3}\nmodel: %s\nparticipation: everyone\n"                                         \
    "local: {batch: 0, steps: 2, lr: 0.01}\n%s\n"

static double largest(fixture *f, const char *data, const char *model, const char *more)
{
    char yaml[1600];
    double low, high;
    snprintf(yaml, sizeof yaml, BLOBS, data, model, more);
    char *said = checked_yaml(f, yaml);
    smoothness_of(said, &low, &high);
    free(said);
    return high;
}

/* The whole f_i: alpha_p and alpha_r, and weight decay; for a network as for softmax. */
static void all_terms_count(void **state)
{
    static const char *const models[] = {"softmax", "{kind: mlp, hidden: [4]}"};
    for (size_t k = 0; k < 2; k++) {
        double plain =
            largest(*state, ", unlabelled: 0.5", models[k], "algorithm: fedcpsl\nsemi: {labels: closed_form}");
        double pseudo = largest(*state, ", unlabelled: 0.5", models[k],
                                "algorithm: fedcpsl\nsemi: {labels: projected, alpha_p: 100}");
        double entropy = largest(*state, ", unlabelled: 0.5", models[k],
                                 "algorithm: fedcpsl\nsemi: {labels: projected, alpha_r: 100}");
        assert_true(pseudo > 5 * plain && entropy > 5 * plain);
    }
    double without = largest(*state, "", "softmax", "algorithm: feddr"),
           with = largest(*state, "", "{kind: softmax, weight_decay: 3}", "algorithm: feddr");
    assert_near(with, without + 3, 1e-3 * with);
}

/* A network's constants are those at the model that the run starts from, and every verdict says so; a linear model's
 * bound is the same for all. */
static void start_models_count(void **state)
{
    fixture *f = *state;
    static const char *const models[] = {"kind: mlp, hidden: [4]", "kind: softmax"};
    char out[600];
    snprintf(out, sizeof out, "%s", fixture_path(f, "trained"));
    for (size_t k = 0; k < 2; k++) {
        char yaml[2400], model[900];
        fl_run *run = NULL;
        snprintf(model, sizeof model, "{%s}", models[k]);
        snprintf(yaml, sizeof yaml, BLOBS "rounds: 30\noutput: %s%zu\n", "", model, "algorithm: fedavg", out, k);
        fl_config *cfg = fixture_config(f, yaml);
        assert_ok(f->ctx, fl_config_set(cfg, "local.lr=1"));
        assert_ok(f->ctx, fl_run_new(cfg, &run));
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        assert_ok(f->ctx, fl_run_save(run));
        fl_run_free(run);
        fl_config_free(cfg);
        double cold = largest(f, "", model, "algorithm: feddr");
        snprintf(model, sizeof model, "{%s, start: %s%zu/model.safetensors}", models[k], out, k);
        double warm = largest(f, "", model, "algorithm: feddr");
        if (k)
            assert_near(warm, cold, 1e-9 * cold);
        else
            assert_true(fabs(warm - cold) > 0.02 * cold);
    }
    static const char *const methods[] = {"fedvra", "fedadmm", "feddr", "fedgia", "fedlin", "scaffnew", "fedsplit"};
    for (size_t k = 0; k < sizeof methods / sizeof *methods; k++) {
        char yaml[1600], algorithm[100];
        snprintf(algorithm, sizeof algorithm, "algorithm: %s\nweights: uniform", methods[k]);
        snprintf(yaml, sizeof yaml, BLOBS, "", "{kind: mlp, hidden: [4]}", algorithm);
        char *said = checked_yaml(f, yaml);
        assert_says(said, "assumed  L_i            measured at the start model");
        free(said);
    }
}

/* Two clients of weight 1/100 and 99/100, for which (17) holds at both and P^r rises: what stands for it fails. */
static void gammas_that_differ(void **state)
{
    fixture *f = *state;
    char text[4000], yaml[1600];
    size_t n = 0;
    for (size_t i = 0; i < 100; i++)
        n +=
            (size_t)snprintf(text + n, sizeof text - n, "%d,%.6g,%.6g\n", i > 0, i ? sqrt(0.002) : 1.0, i ? 0.01 : 1.0);
    fixture_write(f, "two.csv", text);
    snprintf(yaml, sizeof yaml,
             "precision: f64\nmodel: least_squares\npartition: natural\nparticipation: everyone\nweights: samples\n"
             "data: {kind: csv, train: %s, group_column: 0, task: regression, storage: f64}\n"
             "local: {batch: 0, steps: 1, lr: 0.01}\n"
             "algorithm: {kind: fedvra, a: 1, d: 1, gamma: [26, 0.0366]}\n",
             fixture_path(f, "two.csv"));
    char *said = checked_yaml(f, yaml);
    assert_says(said, "printed  (17) ");
    assert_says(said, "FAILS    (17) averaged");
    assert_says(said, "the theorem does not apply");
    free(said);
    char *same = checked(f, "algorithm.gamma=[200, 200, 200, 200]"); /* a list of one value is one gamma */
    assert_silent(same, "averaged");
    free(same);
}

static void cohorts_that_are_not_drawn(void **state)
{
    char *said = checked(*state, "participation={kind: cyclic, count: 2}");
    assert_says(said, "FAILS    sampling       cohorts are drawn");
    free(said);
    said = checked(*state, "participation={kind: cyclic, count: 2}|algorithm={kind: feddr, solver: exact, eta: 0.01, "
                           "alpha: 1}");
    assert_says(said, "assumed  Assumption 3.1 ");
    free(said);
    said =
        checked(*state, "algorithm.a=balanced|algorithm.d=balanced|participation={kind: bernoulli, probability: 0.5}");
    assert_says(said, "FAILS    d_i "); /* cohorts of other weights */
    free(said);
    said = checked(*state, "algorithm.gamma=500|algorithm.a=1|algorithm.d=1|local.lr=2e-5|local.steps=20|"
                           "local.uneven=range|local.range=[10, 20]");
    assert_says(said, "left out (45) ");
    free(said);
}

/* Who is left out of a round although invited, p_i does not say. */
static void rounds_that_end_early(void **state)
{
    static const char *const methods[] = {"fedvra", "fedlin", "{kind: feddr, solver: exact, init: exact, alpha: 1}"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char set[300];
        snprintf(set, sizeof set, "algorithm=%s|system={kind: lognormal, wait_for: 0.5}", methods[i]);
        char *said = checked(*state, set);
        assert_says(said, "FAILS    wait_for ");
        assert_says(said, "system.wait_for = 1");
        free(said);
        snprintf(set, sizeof set, "algorithm=%s|system={kind: lognormal, deadline: 0.5}", methods[i]);
        said = checked(*state, set);
        assert_says(said, "assumed  p_i            no client is late: ");
        assert_silent(said, "wait_for");
        free(said);
    }
    char *said = checked(*state, "server={largest_norm: 3, beyond: clip}");
    assert_says(said, "assumed  server ");
    free(said);
    said = checked(*state, "server.quorum=0.2");
    assert_silent(said, "assumed  server ");
    free(said);
}

static void decay_of_mini_batches(void **state)
{
    static const char set[] = "model.weight_decay=0.1|model.weight_decay_by=batch|algorithm=fedadmm|";
    char more[300];
    snprintf(more, sizeof more, "%slocal.batch=1", set);
    char *said = checked(*state, more);
    assert_says(said, "FAILS    weight decay ");
    assert_says(said, "model.weight_decay_by = samples");
    free(said);
    snprintf(more, sizeof more, "%slocal.batch=0", set);
    said = checked(*state, more);
    assert_says(said, "holds    weight decay ");
    free(said);
}

/* More clients than are measured: a random choice, and the verdict says so. */
static void some_of_many_clients(void **state)
{
    char yaml[1600];
    snprintf(yaml, sizeof yaml,
             "data: {kind: blobs, samples: 600, classes: 3, features: 2}\npartition: {kind: iid, clients: 200}\n"
             "model: {kind: mlp, hidden: [2]}\nparticipation: {kind: uniform, count: 3}\n"
             "local: {batch: 0, steps: 1, lr: 1e-9}\nalgorithm: {kind: fedgia, t: 7}\n");
    char *said = checked_yaml(*state, yaml);
    assert_says(said, "(100 of 200 clients measured; ");
    assert_says(said, "assumed  clients        those that were not measured");
    assert_says(said, "all conditions hold at the clients that were measured: the theorem applies");
    assert_says(said, "no number of rounds: not all clients were measured");
    free(said);
}

/* (19) written out, and a run that is sooner; the numbers of the others are held against runs by test_promises. */
static void rounds_are_promised(void **state)
{
    fixture *f = *state;
    static const char set[] = "algorithm.gamma=500|algorithm.a=1|algorithm.d=1|local.lr=2e-5|local.steps=20";
    static const double hessians[N][3] = {{4, 1, 0.25}, {0.5, 2, 0.1}, {1, 0.2, 9}, {1.5, 6, 0.5}};
    double qt = 0, d1 = 0, value = 0, spread = 0, mean[3] = {0}, eps, most, ran;
    for (int t = 0; t < 20; t++) qt += pow(1 - 500 * 2e-5, t);
    double u = 500 * 2e-5 * qt;
    for (int i = 0; i < N;
         i++) { /* one sample sqrt(3 h) e_j with the target i + j for each j: f_i = mean (0 - (i + j))^2/2 */
        double slope2 = 0;
        for (int j = 0; j < 3; j++) {
            double g = -sqrt(3 * hessians[i][j]) * (i + j) / 3;
            value += (i + j) * (i + j) / 6.0 / N;
            slope2 += g * g;
            mean[j] += g / N;
        }
        spread += slope2 / N;
        d1 += 9 / (3 * u);
    }
    double p0 = value + 4 * spread / (500 * u), slope2 = mean[0] * mean[0] + mean[1] * mean[1] + mean[2] * mean[2];
    collected c = {0};
    fl_config *cfg = problem(f, set);
    assert_ok(f->ctx, fl_config_set(cfg, "rounds=4000"));
    assert_ok(f->ctx, fl_check_run(cfg, collect_text, &c));
    fl_config_free(cfg);
    const char *line = strstr(c.s, "a priori    [VRA] (19): ");
    if (!line) fail_msg("%s", c.s);
    line = strchr(strchr(line, '\n') + 1, '\n');
    assert_int_equal(sscanf(line, "%lf %lf %lf", &eps, &most, &ran), 3);
    assert_near(eps, slope2 * 1e-2, 1e-3 * eps);
    assert_near(most, 2 * d1 * p0 * 500 / eps, 2e-3 * most); /* beta = 1/gamma */
    assert_true(ran > 0 && ran < most);
    free(c.s);
    char *said = checked(f, "");
    assert_says(said, "no number of rounds: the theorem does not apply");
    free(said);
    said = checked(f, "algorithm.gamma=500|algorithm.a=1|algorithm.d=1|local.lr=2e-5|local.steps=20|local.batch=1");
    assert_says(said, "no number of rounds: steps are on mini-batches");
    free(said);
}

/* The same from a model that is not 0, where weight decay is a part of f_i and of its gradient. */
static void decay_counts_at_the_start(void **state)
{
    fixture *f = *state;
    char start[600], set[900];
    double x[8], decay = 0.5, u = 0, value = 0, spread = 0, mean[3] = {0}, x2 = 0, eps, most;
    fl_run *run = NULL;
    snprintf(start, sizeof start, "%s", fixture_path(f, "trained"));
    fl_config *cfg = problem(f, "algorithm=fedavg|local.lr=0.1|rounds=20");
    snprintf(set, sizeof set, "output=%s", start);
    assert_ok(f->ctx, fl_config_set(cfg, set));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_ok(f->ctx, fl_run_save(run));
    assert_int_equal(fl_run_model(run, x, 8), 3);
    fl_run_free(run);
    fl_config_free(cfg);
    for (int j = 0; j < 3; j++) x2 += x[j] * x[j];
    for (int t = 0; t < 20; t++) u += 500 * 2e-5 * pow(1 - 500 * 2e-5, t);
    for (int i = 0; i < N; i++)
        for (int j = 0; j < 3; j++) {
            double a = sqrt(3 * hessian[i][j]), error = a * x[j] - (i + j), g = a * error / 3 + decay * x[j];
            value += error * error / 6 / N;
            spread += g * g / N;
            mean[j] += g / N;
        }
    value += decay / 2 * x2;
    double p0 = value + 4 * spread / (500 * u), slope2 = mean[0] * mean[0] + mean[1] * mean[1] + mean[2] * mean[2];
    assert_true(decay * x2 > 0.1 * p0); /* the other sign would be seen */
    snprintf(set, sizeof set,
             "algorithm.gamma=500|algorithm.a=1|algorithm.d=1|local.lr=2e-5|local.steps=20|model={kind: least_squares, "
             "weight_decay: 0.5, start: %s/model.safetensors}",
             start);
    char *said = checked(f, set);
    const char *line = strstr(said, "a priori    [VRA] (19): ");
    if (!line) fail_msg("%s", said);
    line = strchr(strchr(line, '\n') + 1, '\n');
    if (sscanf(line, "%lf %lf", &eps, &most) != 2) fail_msg("%s", said);
    assert_near(eps, slope2 * 1e-2, 1e-3 * eps);
    assert_near(most, 2 * 3 * N / u * p0 * 500 / eps, 2e-3 * most);
    free(said);
}

/* The rounds until eps that [DR] Theorem A.1 promises to a small network with this regulariser. */
static double rounds_with(fixture *f, const char *regularizer)
{
    char yaml[1200];
    double eps, most;
    snprintf(yaml, sizeof yaml,
             "precision: f64\ndata: {kind: blobs, samples: 60}\npartition: {kind: iid, clients: 3}\n"
             "model: {kind: mlp, hidden: [3]}\nparticipation: everyone\nlocal: {lr: 0.01}\nregularizer: %s\n"
             "algorithm: {kind: feddr, alpha: 1, eta: 0.002, init: exact, solver: accurate, relative: 0.001}\n",
             regularizer);
    char *said = checked_yaml(f, yaml);
    const char *line = strstr(said, "a priori    [DR] Theorem A.1: rounds until");
    if (!line) fail_msg("%s", said);
    line = strchr(strchr(line, '\n') + 1, '\n');
    if (sscanf(line, "%lf %lf", &eps, &most) != 2) fail_msg("%s", said);
    free(said);
    return most;
}

/* They go by F at the start, so they grow with what the regulariser is at a model that is not 0. */
static void the_regulariser_counts_at_the_start(void **state)
{
    double none = rounds_with(*state, "none"), some = rounds_with(*state, "{kind: l1, weight: 0.1}");
    double more = rounds_with(*state, "{kind: l1, weight: 1}");
    assert_true(some > 1.05 * none); /* the numbers are printed with four digits */
    assert_near(more - none, 10 * (some - none), 0.05 * (more - none));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(all_samples_count),
        FIXTURE_TEST(all_terms_count),
        FIXTURE_TEST(start_models_count),
        FIXTURE_TEST(gammas_that_differ),
        FIXTURE_TEST(cohorts_that_are_not_drawn),
        FIXTURE_TEST(rounds_that_end_early),
        FIXTURE_TEST(decay_of_mini_batches),
        FIXTURE_TEST(some_of_many_clients),
        FIXTURE_TEST(rounds_are_promised),
        FIXTURE_TEST(decay_counts_at_the_start),
        FIXTURE_TEST(the_regulariser_counts_at_the_start),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
