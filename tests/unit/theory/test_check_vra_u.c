/* `check` of FedVRA-U: Theorem 2's conditions (27) to (29), written out again here, on what the check measured, and
 * what stands for them with everyone in every round. */
#include "fixture.h"

#define BASE                                                                                                           \
    "data: {kind: blobs, classes: 3, features: 4, samples: 240, test_samples: 0, unlabelled: 0.5}\n"                   \
    "partition: {kind: iid, clients: 4}\nmodel: softmax\nweights: uniform\n"                                           \
    "semi: {labels: projected, label_lr: 0.5, label_steps: 3, alpha_p: 0.1, alpha_r: 0.3}\n"                           \
    "participation: {kind: uniform, count: 2}\nlocal: {steps: 4, batch: 10, lr: 0.02}\n"                               \
    "algorithm: {kind: fedvra-u, gamma: 3, a: 2, d: 1.5}\n"

static void add(void *arg, const char *text)
{
    char **all = arg;
    size_t n = *all ? strlen(*all) : 0;
    *all = realloc(*all, n + strlen(text) + 1);
    strcpy(*all + n, text);
}

/* What the check prints; settings are separated by |. */
static char *checked(fixture *f, const char *settings)
{
    char list[600], *text = NULL, *save = NULL;
    fl_config *cfg = fixture_config(f, BASE);
    snprintf(list, sizeof list, "%s", settings);
    for (char *one = strtok_r(list, "|", &save); one; one = strtok_r(NULL, "|", &save))
        assert_ok(f->ctx, fl_config_set(cfg, one));
    assert_ok(f->ctx, fl_check(cfg, add, &text));
    fl_config_free(cfg);
    return text;
}

/* The two sides of a condition where it is tightest; returns whether it holds. */
static int sides(const char *text, const char *name, double *have, double *most)
{
    char key[40];
    snprintf(key, sizeof key, " %-14s ", name);
    const char *at = strstr(text, key);
    if (!at) fail_msg("no %s in:\n%s", name, text);
    const char *line = at;
    while (line > text && line[-1] != '\n') line--;
    at = strstr(at, "tightest at client");
    assert_non_null(at);
    assert_int_equal(sscanf(at, "tightest at client %*u: %lf <= %lf", have, most), 2);
    return !strncmp(line, "holds", 5);
}

static double smoothness(const char *text)
{
    double low, high;
    assert_int_equal(sscanf(strstr(text, "L_i from"), "L_i from %lf to %lf", &low, &high), 2);
    return high;
}

static void conditions_are_the_papers(void **state)
{
    char *text = checked(*state, "");
    double l = smoothness(text), p = 0.5, gamma = 3, a = 2, d = 1.5, lr = 0.02, qt = 0, have, most;
    for (int t = 0; t < 4; t++) qt += pow(1 - gamma * lr, t);
    assert_true(l > 3 * 0.3 / 30); /* larger than the curvature in the labels */
    assert_null(strstr(text, "(17)"));
    sides(text, "(27)", &have, &most);
    assert_near(have, l / 2 + 9 * l / (p * a * gamma * lr * qt * sqrt(1 - p)), 2e-3 * have);
    assert_near(most, gamma, 1e-9);
    sides(text, "(28) first", &have, &most);
    assert_near(most, 1 / (sqrt(6) * qt * l), 2e-3 * most);
    sides(text, "(28) second", &have, &most);
    assert_near(have, 0.06, 1e-9);
    assert_true(sides(text, "(28) third", &have, &most));
    assert_near(most, 1 / ((a + d) * gamma * qt), 1e-3 * most);
    assert_false(sides(text, "(29)", &have, &most));
    assert_near(have, l + 4 / gamma * 3 * l * l * (1 + 400 / pow(a * gamma * lr * qt, 2)), 5e-3 * have);
    assert_near(most, 2, 1e-9);
    double u = p * a * gamma * lr * qt; /* the y-part of (146), of which half of 1/lr_y has to be left */
    assert_false(sides(text, "(29) as (146)", &have, &most));
    assert_near(have, l + 4 / gamma * 3 * l * l * (1 + pow(4 + u, 2) / (u * u * (1 - p))), 5e-3 * have);
    assert_near(most, 2, 1e-9);
    free(text);
}

/* The entropy terms count, and so does where labels bend more than the loss: with few unlabelled samples. */
static void labels_count(void **state)
{
    char *text = checked(*state, "");
    double low = smoothness(text);
    free(text);
    text = checked(*state, "semi.alpha_r=500");
    assert_true(smoothness(text) > 100 * low);
    free(text);
    text = checked(*state, "semi.alpha_p=500");
    assert_true(smoothness(text) > 30 * low);
    free(text);
}

/* The paper wants p_i < 1; with everyone other constants do. */
static void everyone_has_other_constants(void **state)
{
    char *text = checked(*state, "participation=everyone");
    double l = smoothness(text), gamma = 3, a = 2, lr = 0.02, qt = 0, have, most;
    for (int t = 0; t < 4; t++) qt += pow(1 - gamma * lr, t);
    double u = a * gamma * lr * qt;
    assert_non_null(strstr(text, "holds    p_i            0 < p_i"));
    assert_false(sides(text, "(27) for p = 1", &have, &most));
    assert_near(have, l / 2 + 17 * l / u, 2e-3 * have);
    assert_false(sides(text, "(29) for p = 1", &have, &most));
    assert_near(have, l + 4 / gamma * 3 * l * l * (32 + 5 * u) / (u * u), 5e-3 * have);
    free(text);
}

/* What cannot be computed is assumed; without a second block nothing is said of it. */
static void what_cannot_be_computed_is_assumed(void **state)
{
    char *text = checked(*state, "semi.labels=closed_form");
    assert_non_null(strstr(text, "assumed  (29)"));
    free(text);
    text = checked(*state, "semi.labels=closed_form|semi.confidence=0.5"); /* samples without a label: not in Y_i */
    assert_non_null(strstr(text, "FAILS    (25)"));
    free(text);
    text = checked(*state, "semi.labels=none");
    assert_null(strstr(text, "(25)"));
    assert_null(strstr(text, "(29)"));
    assert_non_null(strstr(text, "(27)"));
    free(text);
    text = checked(*state, "semi.labels=none|data.unlabelled=0|model={kind: factorization, rank: 2}|regularizer="
                           "nonnegative");
    assert_non_null(strstr(text, "(29)           L_i + 4 beta")); /* memberships take steps */
    free(text);
}

/* Theorem 1, and those of other methods, are about f_i(x). */
static void one_block(void **state)
{
    static const char *const methods[] = {"{kind: fedvra, gamma: 300, a: 1, d: 1}", "{kind: fedadmm, gamma: 300}",
                                          "{kind: feddr, eta: 0.01, alpha: 1}"};
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        char set[300];
        snprintf(set, sizeof set, "participation=everyone|local.lr=1e-5|local.batch=0|algorithm=%s", methods[i]);
        char *text = checked(*state, set);
        assert_non_null(strstr(text, "FAILS    one block "));
        assert_non_null(strstr(text, "semi.labels = none"));
        free(text);
        snprintf(set, sizeof set, "semi.labels=none|participation=everyone|local.lr=1e-5|algorithm=%s", methods[i]);
        text = checked(*state, set);
        assert_null(strstr(text, "one block"));
        free(text);
    }
    char *text = checked(*state, "semi.labels=none|data.unlabelled=0|model={kind: factorization, rank: 2}|algorithm="
                                 "fedadmm");
    assert_non_null(strstr(text, "no setting satisfies: one block")); /* memberships */
    free(text);
    text = checked(*state, "");
    assert_null(strstr(text, "one block"));
    free(text);
}

/* The configuration that --fix writes satisfies the theorem. */
static void fixes_hold(void **state)
{
    fixture *f = *state;
    static const char *const cases[] = {"semi.label_lr=0.4",
                                        "semi.labels=closed_form",
                                        "semi.labels=closed_form|semi.confidence=0.9",
                                        "participation.count=1|local.steps=9",
                                        "semi.alpha_r=500",
                                        "participation=everyone",
                                        "local.momentum=0.5",
                                        ("semi.labels=none|data.unlabelled=0|model={kind: factorization, rank: 2}|"
                                         "regularizer=nonnegative")};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char list[600], *report = NULL, *file = NULL, *save = NULL;
        size_t left;
        fl_config *cfg = fixture_config(f, BASE);
        snprintf(list, sizeof list, "%s", cases[i]);
        for (char *one = strtok_r(list, "|", &save); one; one = strtok_r(NULL, "|", &save))
            assert_ok(f->ctx, fl_config_set(cfg, one));
        assert_ok(f->ctx, fl_check_fix(cfg, add, &report, add, &file, &left));
        if (left) fail_msg("%s: %zu left\n%s", cases[i], left, report);
        fl_config_free(cfg);
        free(report);
        free(file);
    }
}

/* label_lr depends on gamma, which is fixed first: it becomes smaller by what is still needed after that, not before.
 * */
static void label_steps_become_no_shorter_than_needed(void **state)
{
    fixture *f = *state;
    static const char *const sets[] = {"participation=everyone", "participation={kind: uniform, count: 2}"};
    static const char *const names[] = {"(29) for p = 1", "(29) as (146)"};
    for (size_t i = 0; i < 2; i++) {
        char *report = NULL, *file = NULL, *text = NULL, advice[40];
        double have, most;
        size_t left;
        fl_config *cfg = fixture_config(f, BASE);
        assert_ok(f->ctx, fl_config_set(cfg, sets[i]));
        assert_ok(f->ctx, fl_config_set(cfg, "algorithm.gamma=0.001"));
        assert_ok(f->ctx, fl_check(cfg, add, &text));
        assert_ok(f->ctx, fl_check_fix(cfg, add, &report, add, &file, &left));
        fl_config_free(cfg);
        cfg = fl_config_new(f->ctx);
        assert_ok(f->ctx, fl_config_text(cfg, file, NULL));
        snprintf(advice, sizeof advice, "semi.label_lr = %s", fl_config_get(cfg, "semi.label_lr"));
        assert_non_null(strstr(text, advice)); /* without --fix the same value is advised */
        free(text);
        text = NULL;
        assert_ok(f->ctx, fl_check(cfg, add, &text));
        assert_true(sides(text, names[i], &have, &most));
        if (!(most < 2 * have)) fail_msg("%s: %g <= %g\n%s", names[i], have, most, report);
        fl_config_free(cfg);
        free(text);
        free(report);
        free(file);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(conditions_are_the_papers),
        FIXTURE_TEST(labels_count),
        FIXTURE_TEST(everyone_has_other_constants),
        FIXTURE_TEST(what_cannot_be_computed_is_assumed),
        FIXTURE_TEST(one_block),
        FIXTURE_TEST(fixes_hold),
        FIXTURE_TEST(label_steps_become_no_shorter_than_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
