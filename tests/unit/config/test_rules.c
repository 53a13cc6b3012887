/* Rules between keys: each is broken by its own example and by nothing else, and all that are broken are reported. */
#include "fixture.h"
#include "own_methods.h"

#include "fedloom_extend.h"
#include "config/config.h"
#include "config/settings.h"

/* Plans a run of these settings over the ones that break no rule. */
static fl_status planned(fixture *f, const char *over)
{
    fl_run *run = NULL;
    fl_config *cfg = fixture_config_named(f, "base.yaml", fli_rules_base);
    assert_ok(f->ctx, fl_config_load(cfg, fixture_write(f, "over.yaml", over)));
    fl_status s = fl_run_new(cfg, &run);
    fl_run_free(run);
    fl_config_free(cfg);
    return s;
}

static size_t lines(const char *text)
{
    size_t n = *text != 0;
    for (; *text; text++) n += *text == '\n';
    return n;
}

/* Whether the text has all of the sentence, in order, but for the values. */
static int says(const char *text, const char *sentence)
{
    for (const char *c = sentence; *c;) {
        char part[400];
        size_t n = strcspn(c, "{");
        assert_true(n < sizeof part);
        memcpy(part, c, n);
        part[n] = 0;
        if (!(text = strstr(text, part))) return 0;
        text += n;
        c += n;
        if (*c) c += strcspn(c, "}") + 1;
    }
    return 1;
}

static size_t check_examples(fixture *f, const fli_rule *rules)
{
    size_t n = 0;
    for (const fli_rule *r = rules; r->keys; r++, n++) {
        if (!*r->example) fail_msg("rule %zu (%s) has no example", n, r->keys);
        fl_status s = planned(f, r->example);
        const char *text = fl_ctx_error(f->ctx);
        if (s != FL_ECONFIG) fail_msg("rule %zu (%s): status %d, \"%s\"", n, r->keys, (int)s, text);
        if (lines(text) != 1) fail_msg("rule %zu (%s) is not all that is broken: \"%s\"", n, r->keys, text);
        if (!strstr(text, ".yaml:")) fail_msg("rule %zu (%s) has no place: \"%s\"", n, r->keys, text);
        if (!r->check && !says(text, r->sentence)) fail_msg("rule %zu (%s) says \"%s\"", n, r->keys, text);
    }
    return n;
}

static int nothing(void *arg, uint32_t client, size_t real, const void *x, void *g, double *loss, fl_failure *f)
{
    (void)arg, (void)client, (void)real, (void)x, (void)g, (void)f;
    *loss = 0;
    return 0;
}

static int stay(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f)
{
    (void)arg, (void)l, (void)p, (void)z, (void)out, (void)f;
    return 0;
}

/* What examples speak of and does not come with fedloom. */
static void register_own(fl_ctx *ctx)
{
    fl_objective whole = {.size = sizeof whole, .name = "whole", .parameters = 1, .client = nothing};
    fl_solver idle = {.size = sizeof idle, .name = "idle", .solve = stay};
    fl_method toucher = own_scaffold;
    toucher.name = "toucher";
    toucher.traits |= FL_METHOD_TOUCHES;
    assert_ok(ctx, fl_objective_register(ctx, &whole));
    assert_ok(ctx, fl_solver_register(ctx, &idle));
    assert_ok(ctx, fl_method_register(ctx, &toucher));
}

static void every_example_breaks_its_rule(void **state)
{
    fixture *f = *state;
    register_own(f->ctx);
    assert_ok(f->ctx, planned(f, "name: base"));
    assert_true(check_examples(f, fli_settings_rules) >= 43);
    assert_true(check_examples(f, fli_data_rules) >= 17);
    assert_ok(f->ctx, fl_forget(f->ctx, "model", "whole"));
    assert_ok(f->ctx, fl_forget(f->ctx, "solver", "idle"));
    assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", "toucher"));
}

/* Sections and keys of rules are those there are: a misspelt one would be asked for in vain. */
static void keys_are_keys(void **state)
{
    fixture *f = *state;
    const fli_rule *const tables[] = {fli_settings_rules, fli_data_rules};
    fli_settings s;
    fli_arena arena;
    fl_config *cfg = fixture_config(f, fli_rules_base);
    fli_arena_init(&arena, f->ctx);
    assert_ok(f->ctx, fli_settings_bind(f->ctx, &arena, cfg->root, &s));
    for (size_t t = 0; t < 2; t++)
        for (const fli_rule *r = tables[t]; r->keys; r++) {
            char copy[200], *save = NULL;
            snprintf(copy, sizeof copy, "%s", r->keys);
            for (char *key = strtok_r(copy, " ", &save); key; key = strtok_r(NULL, " ", &save)) {
                key[strcspn(key, "!=<>")] = 0; /* without the value that breaks the rule */
                /* a method's own keys are not there with another method */
                if (!strncmp(key, "algorithm.", 10) || !strcmp(key, "participation.count")) continue;
                if (!fli_settings_default(&s, key) && strcmp(key, "data.kind") && strcmp(key, "model.kind"))
                    fail_msg("%s is not a key", key);
            }
        }
    fli_arena_fini(&arena);
    fl_config_free(cfg);
}

/* The settings must be refused with exactly these lines, each beginning at its place in over.yaml. */
static void check_lines(fixture *f, const char *over, const char *const *parts, size_t count)
{
    assert_int_equal(planned(f, over), FL_ECONFIG);
    const char *text = fl_ctx_error(f->ctx);
    if (lines(text) != count) fail_msg("%zu lines are not %zu: \"%s\"", lines(text), count, text);
    for (size_t i = 0; i < count; i++) {
        char line[600];
        snprintf(line, sizeof line, "/over.yaml:%s", parts[i]);
        if (!strstr(text, line)) fail_msg("\"%s\" lacks \"%s\"", text, line);
    }
}

static void four_conflicts_at_once(void **state)
{
    static const char *const parts[] = {
        "2:8: stop.gradient2 needs metrics.gradient to be true (stop.gradient2 is 1e-06)",
        "3:1: algorithm feddyn weighs clients equally, but weights is samples",
        "5:1: clock is real, but algorithm feddyn works in rounds; leave clock virtual",
        "6:23: system.deadline, system.wait_for and stop.simulated need to know how long turns last, but system.kind "
        "is "
        "none; `fedloom list system` shows what there is (system.wait_for is 0.5)",
    };
    check_lines(*state,
                "name: four\nstop: {gradient2: 1e-6}\nweights: samples\nalgorithm: feddyn\nclock: real\n"
                "system: {deadline: 0, wait_for: 0.5}\n",
                parts, 4);
}

/* Conflicts are said beside mistakes in single keys, but none about sections in which there are such mistakes. */
static void conflicts_beside_mistakes(void **state)
{
    static const char *const parts[] = {
        "1:16: local.epoches is not a key; did you mean local.epochs?",
        "2:11: metrics.every is -1, but must be",
        "4:19: stop.diverged is 0.5, but must be above 1",
    };
    check_lines(*state,
                "local: {lr: 1, epoches: 3, uneven: speeds, speeds: []}\nmetrics: {every: -1}\n"
                "regularizer: none\nstop: {target: 0, diverged: 0.5, gradient2: 1}\n",
                parts, 3);
    /* a section's name that is not known may have been meant to be any */
    static const char *const word[] = {"1:1: algoritm is not a key; did you mean algorithm?"};
    check_lines(*state, "algoritm: fedasync\nclock: real\nstop: {diverged: 0.5}\n", word, 1);
}

static void a_missing_kind_is_no_conflict(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    fl_config *cfg = fixture_config(f, "model: softmax\nalgorithm: fedasync\nclock: real\noutput: somewhere\n"
                                       "checkpoint_every: 3\n");
    assert_int_equal(fl_run_new(cfg, &run), FL_ECONFIG);
    assert_non_null(strstr(fl_ctx_error(f->ctx), "data.kind is missing"));
    assert_int_equal(lines(fl_ctx_error(f->ctx)), 1);
    fl_config_free(cfg);
}

static void conflicts_with_the_data(void **state)
{
    static const char *const parts[] = {
        "1:36: participation.count is 9, but there are only 4 clients",
        "2:11: metrics.targets and stop.target need test samples",
        "3:9: local.lr_factors has 3 values, but there are 4 clients",
        "4:27: algorithm.gamma has 2 values, but there are 4 clients",
        "4:42: algorithm.a has 3 values, but there are 4 clients",
    };
    check_lines(*state,
                "participation: {kind: uniform,     count: 9}\nmetrics: {targets: [0.5]}\n"
                "local: {lr_factors: [1, 2, 3]}\nalgorithm: {kind: fedvra, gamma: [1, 1], a: [1, 2, 3]}\n"
                "data: {test_samples: 0}\n",
                parts, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_example_breaks_its_rule), FIXTURE_TEST(keys_are_keys),
        FIXTURE_TEST(four_conflicts_at_once),        FIXTURE_TEST(conflicts_beside_mistakes),
        FIXTURE_TEST(a_missing_kind_is_no_conflict), FIXTURE_TEST(conflicts_with_the_data),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
