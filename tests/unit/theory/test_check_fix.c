/* `fl_check_fix`: settings changed until the theorem applies, for every method that has one. */
#include "theory_problem.h"

#include "algo/theory.h"

/* Settings that no theorem likes, where a method has the key. */
static const char *bad_settings(const fl_method *a)
{
    static char set[600];
    static const struct {
        const char *key, *value;
    } bad[] = {{"eta", "50"},  {"alpha", "1.95"}, {"tau", "0"},     {"gamma", "0.001"}, {"lr_y", "90"},
               {"lr_v", "90"}, {"lr_x", "90"},    {"ell", "0.001"}, {"lr_local", "90"}, {"accuracy_power", "0.1"}};
    const char *problem_of = a->traits & FL_METHOD_BILEVEL ? "bilevel={kind: regularization, validation: 0.4}|"
                             : a->traits & FL_METHOD_BLOCKS
                                 ? "model=softmax|data={kind: blobs, samples: 120, unlabelled: 0.5}|partition={kind: "
                                   "iid, clients: 4}|semi={labels: projected, label_lr: 1000}|"
                                 : "";
    size_t n = (size_t)snprintf(
        set, sizeof set,
        "local.lr=90|local.batch=1|local.schedule=sqrt|local.uneven=range|local.range=[2, 5]|system=lognormal|%s%s",
        problem_of, a->traits & FL_METHOD_EVERYONE ? "" : "participation={kind: uniform, count: 2}|");
    n += (size_t)snprintf(set + n, sizeof set - n, "algorithm={kind: %s", a->name);
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
        if (fl_kind_has_key("algorithm", a->name, bad[i].key) &&
            (strcmp(a->name, "fedsplit") || strcmp(bad[i].key, "alpha"))) /* whose alpha is always 2 */
            n += (size_t)snprintf(set + n, sizeof set - n, ", %s: %s", bad[i].key, bad[i].value);
    snprintf(set + n, sizeof set - n, "}");
    return set;
}

/* Every method of the five papers has a theorem, and settings that satisfy it. */
static void theorems_of_the_papers(void **state)
{
    static const char *const names[] = {"fedvra", "fedvra-u", "fedadmm", "feddr",  "asyncfeddr",
                                        "fedgia", "fedcpsl",  "simfbo",  "shrofbo"};
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const fl_method *const *a = fli_algo_list;
        while (*a && strcmp((*a)->name, names[i])) a++;
        assert_non_null(*a);
        if (!(*a)->theory.check || !(*a)->theory.fix)
            fail_msg("%s has no conditions, or no settings for them", names[i]);
    }
}

/* The rows of `check`, all of them at once. */
static void advice_holds(fixture *f, const char *set, const char *text)
{
    char more[2400];
    const char *at = strstr(text, "a setting that satisfies all of them: ");
    if (!at) fail_msg("%s: no advice\n%s", set, text);
    assert_silent(text, "no setting satisfies"); /* of two rows for one key, either is for what the other was for */
    size_t n = (size_t)snprintf(more, sizeof more, "%s", set);
    for (at = strstr(at, ": ") + 2; *at != '\n'; at += *at == ',' ? 2 : 0) {
        const char *equals = strstr(at, " = ");
        size_t key = (size_t)(equals - at), value = strcspn(equals + 3, " ,\n"), open = 0;
        n += (size_t)snprintf(more + n, sizeof more - n, "|%.*s=%.*s", (int)key, at, (int)value, equals + 3);
        at = equals + 3 + value;
        for (at += *at == ' '; *at == '(' || open; at++) open += (*at == '(') - (*at == ')'); /* why */
    }
    char *after = checked(f, more);
    if (!strstr(after, "the theorem applies")) fail_msg("%s\n%s\n%s", more, text, after);
    free(after);
}

/* From settings that fail, on a convex problem, all conditions of every method can be made to hold; and what the file
 * says is what is checked. */
static void fixes_satisfy_every_method(void **state)
{
    fixture *f = *state;
    size_t seen = 0;
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        if (!(*a)->theory.check || !(*a)->theory.fix) continue;
        const char *set = bad_settings(*a);
        char *before = checked(f, set), *report;
        size_t left;
        assert_says(before, "FAILS ");
        advice_holds(f, set, before);
        char *file = fixed(f, set, &report, &left), *after = checked_file(f, file);
        if (left || strstr(after, "FAILS ")) fail_msg("%s: %zu left\n%s\n%s\n%s", set, left, before, report, after);
        assert_says(report, "changed  ");
        assert_says(after, "the theorem applies");
        seen++;
        free(before);
        free(file);
        free(report);
        free(after);
    }
    assert_true(seen >= 13);
}

/* Settings beside those that a condition is about may have to give way: a step that is as long as eta: auto whatever
 * it is, a preset whose d depends on the cohort, work that is drawn anew in every round. */
static void others_give_way(void **state)
{
    static const char levels[] =
        "bilevel={kind: regularization, validation: 0.4}|local.uneven=range|local.range=[1, 5]|";
    static const char *const sets[] = {
        "algorithm=fedsplit|local.steps=1|local.schedule=sqrt",
        "algorithm={kind: feddr, alpha: 1}|local.steps=1|local.lr=0.03",
        "algorithm={kind: fedvra, preset: feddyn}|weights=uniform|participation={kind: bernoulli, probability: 0.4}",
        "algorithm=shrofbo|model=least_squares",
    };
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) {
        char set[400], *report;
        size_t left;
        snprintf(set, sizeof set, "%s%s", strstr(sets[k], "fbo") ? levels : "", sets[k]);
        char *before = checked(*state, set);
        assert_says(before, "FAILS ");
        advice_holds(*state, set, before);
        char *file = fixed(*state, set, &report, &left);
        if (left) fail_msg("%s\n%s\n%s", set, before, report);
        free(before);
        free(report);
        free(file);
    }
}

/* A setting that can stay is advised as it is, and factors of clients' step sizes become 1 where advice chooses one
 * step size for all of them. */
static void advice_keeps_what_is_set(void **state)
{
    static const char advice[] = "a setting that satisfies all of them: algorithm.a = 3, algorithm.d = 2, ";
    char *text = checked(*state, "");
    assert_says(text, advice);
    assert_says(text, ", local.lr = ");
    assert_silent(text, "local.lr_factors");
    free(text);
    text = checked(*state, "local.lr_factors=[2, 2, 2, 2]");
    assert_says(text, advice);
    assert_says(text, ", local.lr_factors = 1\n");
    free(text);
}

/* What no setting satisfies is named and counted, and the rest is fixed. */
static void fixes_name_what_is_left(void **state)
{
    fixture *f = *state;
    static const char set[] = "algorithm={kind: scaffnew, p: 0.5}|model={kind: mlp, hidden: [3]}|local.lr=80|"
                              "data={kind: blobs, samples: 60}|partition={kind: iid, clients: 3}|weights=uniform";
    char *report, *text = checked(f, set);
    size_t left;
    assert_says(text, "a setting that satisfies the others: local.lr = ");
    assert_says(text, "no setting satisfies: convexity\n");
    free(text);
    char *file = fixed(f, set, &report, &left);
    assert_int_equal(left, 1);
    assert_says(report, "changed  local.lr = ");
    assert_says(report, "left     convexity: f_i convex; no setting for this one\n");
    assert_says(report, "conditions fail: the theorem does not apply\n");
    free(report);
    free(file);
    file = fixed(f, "algorithm=fedavg", &report, &left); /* no theorem, nothing to do */
    assert_int_equal(left, 0);
    assert_silent(file, "  # was");
    assert_says(report, "no step-size conditions are known here for this method\n");
    free(report);
    free(file);
}

/* Numbers are rounded to the safe side, and names stand for those that go on. */
static void fix_rows(void **state)
{
    fl_conditions c = {.count = 0};
    fl_fixes x = {.found = &c};
    fl_facts f = {.client = 0};
    (void)state;
    fl_condition(&c, "(1) first", "a formula", &f, 3, 2);
    fl_condition(&c, "(1) second", "a formula", &f, 8, 2);
    fl_condition(&c, "(12)", "a formula", &f, 90, 2);
    fl_fix_most(&x, "a", "k", 1 / 3.0, NULL);
    fl_fix_least(&x, "a", "k", 1 / 3.0, NULL);
    fl_fix_most(&x, "a", "k", 6.1, NULL);
    fl_fix_most(&x, "a", "k", INFINITY, NULL);
    fl_fix_most(&x, "a", "k", 0, NULL);
    fl_fix_shrink(&x, "(0)|(1)", "k", 2, NULL);
    fl_fix_grow(&x, "(1)", "k", 2, NULL);
    static const char *const values[] = {"0.3333", "0.3334", "6.1", "0.5", "8"};
    assert_int_equal(x.count, 5);
    for (size_t i = 0; i < 5; i++) assert_string_equal(x.at[i].value, values[i]);
    const fli_fix row = {.conditions = "Lemma 1|(1)|(18)"};
    assert_true(fli_fix_is_for(&row, "(18)") && fli_fix_is_for(&row, "(18) third") && fli_fix_is_for(&row, "Lemma 1"));
    assert_false(fli_fix_is_for(&row, "(17)") || fli_fix_is_for(&row, "Lemma 12") || fli_fix_is_for(&row, "(1"));
}

/* ---- experiments --------------------------------------------------------------------------------------- */

static const char experiment[] =
    "name: e\ndescription: \"two: words, and a 'quote'\"\nseeds: 2\nrounds: 3\ndata: {kind: blobs, samples: 200}\n"
    "partition: {kind: iid, clients: 5}\nmodel: softmax\nparticipation: {kind: uniform, count: 2}\n"
    "local: {steps: 3, lr: 0.5}\nmethods:\n"
    "  - {label: FedAvg, algorithm: fedavg}\n"
    "  - {label: FedDR, algorithm: {kind: feddr, eta: 100}}\n"
    "  - {label: FedLin, algorithm: fedlin, local: {lr_factors: [1, 2, 1, 1, 1]}}\n";

/* The text of a check, or of a fix if `file` is not NULL. */
static char *studied(fixture *f, const char *text, char **file, size_t *left)
{
    collected said = {0}, written = {0};
    fl_config *cfg = fixture_config_named(f, "e.yaml", text);
    assert_true(fl_config_is_experiment(cfg));
    assert_ok(f->ctx, fl_study_check(cfg, NULL, collect_text, &said, file ? collect_text : NULL, &written, left));
    fl_config_free(cfg);
    if (file) *file = written.s;
    assert_non_null(said.s);
    return said.s;
}

/* Methods are fixed by keys of their own; what they share stays. */
static void experiments_are_fixed_by_method(void **state)
{
    fixture *f = *state;
    char *file;
    size_t left;
    char *said = studied(f, experiment, NULL, &left);
    assert_int_equal(left, 4); /* (33); FedLin's bound, participation and step sizes */
    assert_says(said, "FedAvg\nmethod      fedavg");
    assert_says(said, "\nFedDR\nmethod      feddr");
    free(said);
    said = studied(f, experiment, &file, &left);
    assert_int_equal(left, 0);
    assert_says(said, "\nFedDR\nchanged  algorithm.alpha = 1, was 1.95: asked for by (33)\n");
    assert_says(file, "\nlocal:\n  steps: 3\n  lr: 0.5\n");
    assert_says(file, "    participation: everyone  # was uniform, asked for by participation\n");
    assert_says(file, "      alpha: 1  # was 1.95, asked for by (33)\n");
    free(said);
    said = studied(f, file, NULL, &left);
    assert_int_equal(left, 0);
    assert_silent(said, "FAILS ");
    free(said);
    free(file);
}

/* A grid asks for its values: they stay, and what fails is counted. */
static void grids_stay(void **state)
{
    fixture *f = *state;
    char text[1000], *file;
    size_t left;
    snprintf(text, sizeof text, "%s%s", experiment,
             "  - {label: G, algorithm: {kind: feddr, alpha: 1, solver: accurate, accuracy: 0.1, accuracy_power: 1}, "
             "grid: {algorithm.eta: [0.001, 10, 20]}}\n");
    char *said = studied(f, text, &file, &left);
    assert_int_equal(left, 2);
    assert_says(said, "\nG (eta=0.001)\nchecked again: all conditions hold");
    assert_says(said, "\nG (eta=10)\nleft     (33): eta < (2 - alpha)/(2 L_i), p_i > 0\n");
    assert_says(said, "methods with a grid or points are left as they are\n");
    assert_says(file, "algorithm.eta: [0.001, 10, 20]\n");
    free(said);
    free(file);
}

static void memory_may_run_out(void **state)
{
    fixture *f = *state;
    size_t k = 1;
    for (int done = 0; !done; k += 1 + k / 16) {
        collected file = {0}, said = {0};
        size_t left;
        fl_config *cfg = problem(f, "algorithm.gamma=200");
        fli_ctx_fail_alloc(f->ctx, k);
        fl_status s = fl_check_fix(cfg, collect_text, &said, collect_text, &file, &left);
        fli_ctx_fail_alloc(f->ctx, 0);
        done = s == FL_OK;
        if (!done) {
            assert_int_equal(s, FL_ENOMEM);
            assert_null(file.s);
        }
        free(file.s);
        free(said.s);
        fl_config_free(cfg);
        fli_clear(f->ctx);
    }
    assert_true(k > 100);
}

static void count_lines(void *arg, fl_log_level level, const char *line)
{
    (void)level;
    (void)line;
    ++*(size_t *)arg;
}

/* What a person should know is said once, however often it is looked at. */
static void warnings_come_once(void **state)
{
    fixture *f = *state;
    size_t lines = 0, left;
    char *report;
    fl_ctx_on_log(f->ctx, count_lines, &lines);
    free(fixed(f, "algorithm={kind: fedvra, preset: scaffold}", &report, &left));
    fl_ctx_on_log(f->ctx, NULL, NULL);
    free(report);
    assert_int_equal(lines, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(fix_rows),
        FIXTURE_TEST(theorems_of_the_papers),
        FIXTURE_TEST(fixes_satisfy_every_method),
        FIXTURE_TEST(others_give_way),
        FIXTURE_TEST(advice_keeps_what_is_set),
        FIXTURE_TEST(fixes_name_what_is_left),
        FIXTURE_TEST(experiments_are_fixed_by_method),
        FIXTURE_TEST(grids_stay),
        FIXTURE_TEST(memory_may_run_out),
        FIXTURE_TEST(warnings_come_once),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
