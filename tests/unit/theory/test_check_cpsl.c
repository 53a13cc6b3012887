/* What [CPSL]'s theorems ask for: Theorem 1 of all methods with its control variates, Theorem 2 of FedCPSL, which has
 * own models, and one over four times the smoothness of pseudo labels' steps. */
#include "fixture.h"

#include "algo/theory.h"
#include "algo/algo.h"
#include "model/semi.h"
#include "theory/check.h"

static const fli_condition_seen *find(const fl_conditions *c, fli_condition_kind kind, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->seen[i].kind == kind && !strcmp(c->seen[i].name, name)) return &c->seen[i];
    return NULL;
}

static void assert_bound(const fl_conditions *c, const char *name, double have, double most)
{
    const fli_condition_seen *s = find(c, FLI_CONDITION_BOUND, name);
    if (!s) fail_msg("%s is missing", name);
    assert_near(s->have, have, 1e-14);
    assert_near(s->most, most, 1e-12 * most);
    assert_int_equal(s->failing != 0, have > most);
}

/* Two of eight clients, 3 to 10 steps; labels by projected steps. One client is steep and takes few steps, the others
 * are flat and take many: the theorems have the largest of each. */
enum { CLIENTS = 8 };
typedef struct {
    fl_facts each[CLIENTS];
    double weights[CLIENTS];
    fl_facts_all all;
} federation;

static void federation_init(federation *x)
{
    memset(x, 0, sizeof *x);
    for (uint32_t i = 0; i < CLIENTS; i++) {
        x->weights[i] = 1.0 / CLIENTS;
        x->each[i] = (fl_facts){.clients = CLIENTS,
                                .client = i,
                                .smoothness = i == 1 ? 2 : 0.125,
                                .lr = 0.01,
                                .probability = 0.25,
                                .weight = 0.125,
                                .steps = i == 1 ? 3 : 10,
                                .least_steps = 3,
                                .momentum = 0.5,
                                .constant_lr = 1,
                                .uniform_cohort = 1,
                                .second_block = 1,
                                .label_entropy = 0.1,
                                .block = {.steps = 1, .lr = 0.1, .smoothness = 0.0625},
                                .all = &x->all};
    }
    x->all = (fl_facts_all){.smoothness = 2,
                            .steps = 10,
                            .least_steps = 3,
                            .probability = 0.25,
                            .lr = 0.01,
                            .least_lr = 0.01,
                            .weights = x->weights,
                            .equal_weights = 1,
                            .each = x->each,
                            .count = CLIENTS,
                            .clients = CLIENTS,
                            .cohort = 2};
}

static fl_conditions conditions_of(fixture *f, const fl_method *a, const char *params, const federation *x)
{
    fl_conditions c = {.count = 0};
    fli_arena arena;
    fli_arena_init(&arena, f->ctx);
    const void *p = bound(f->ctx, &arena, a->keys, a->params_size, params);
    for (size_t i = 0; i < CLIENTS; i++) a->theory.check(p, &x->each[i], &c);
    a->theory.check_all(p, &x->all, &c);
    fli_arena_fini(&arena);
    return c;
}

/* (15) */
static double weight_of(double gamma, double q)
{
    return q / (1 - gamma) - gamma * (1 - pow(gamma, q)) / ((1 - gamma) * (1 - gamma));
}

static int fails(const fl_conditions *c, const char *name)
{
    const fli_condition_seen *s = find(c, FLI_CONDITION_REQUIRED, name);
    if (!s) fail_msg("%s is missing", name);
    return s->failing != 0;
}

static void first_theorem(void **state)
{
    federation x;
    double qt = weight_of(0.5, 10);
    federation_init(&x);
    fl_conditions c = conditions_of(*state, &fli_algo_fedshvrp, "server_lr=7", &x);
    assert_bound(&c, "(34) first", 0.01, 0.25 / (48 * 7 * 2));
    assert_bound(&c, "(34) second", 0.01, 1 / (8 * 2 * qt));
    assert_bound(&c, "(34) third", 0.01, 3 * 7 * 4 / (100 * 2 * qt * qt));
    assert_bound(&c, "(34) fourth", 0.01, 0.25 / (32 * 7 * 2) / sqrt(1 + 2 * 4));
    assert_bound(&c, "eta_v", 0.1, 1.0 / 8);
    assert_false(fails(&c, "server_lr") || fails(&c, "step sizes") || fails(&c, "Assumption 2") || fails(&c, "(4)"));
    /* as many steps as the cohort has in the mean: either end, wherever it hurts, and no constant */
    c = conditions_of(*state, &fli_algo_fedshvrp, "", &x);
    assert_bound(&c, "(34) first", 0.01, 0.25 / (48 * 10 * 2));
    assert_bound(&c, "(34) third", 0.01, 3 * 3 * 4 / (100 * 2 * qt * qt));
    assert_true(fails(&c, "server_lr"));
}

static void what_theorem_1_is_not_about(void **state)
{
    federation x;
    federation_init(&x);
    for (size_t i = 0; i < CLIENTS; i++) x.each[i].label_entropy = 0;
    fl_conditions c = conditions_of(*state, &fli_algo_fedcpsl, "", &x);
    assert_true(fails(&c, "Assumption 2"));
    federation_init(&x);
    x.each[3].confidence = 0.9;
    c = conditions_of(*state, &fli_algo_fedcpsl, "", &x);
    assert_true(fails(&c, "(4)"));
    federation_init(&x);
    x.each[3].constant_lr = 0;
    c = conditions_of(*state, &fli_algo_fedcpsl, "", &x);
    assert_true(fails(&c, "step sizes"));
    federation_init(&x);
    x.all.least_lr = 0.005;
    c = conditions_of(*state, &fli_algo_fedcpsl, "", &x);
    assert_true(fails(&c, "step sizes"));
    federation_init(&x);
    x.each[0].uniform_cohort = 0;
    c = conditions_of(*state, &fli_algo_fedshvrp, "", &x);
    assert_true(fails(&c, "sampling"));
}

/* Own models that are mixed with the global one have no theorem, since cross-entropy has no L~. */
static void second_theorem(void **state)
{
    federation x;
    federation_init(&x);
    fl_conditions c = conditions_of(*state, &fli_algo_fedcpsl, "mix=[1, 0.6, 1, 1, 1, 1, 1, 1]", &x);
    assert_non_null(find(&c, FLI_CONDITION_OUTSIDE, "Theorem 2"));
    assert_null(find(&c, FLI_CONDITION_BOUND, "(37) first"));
    c = conditions_of(*state, &fli_algo_fedcpsl, "mix=1;lr_local=0.5;server_lr=7", &x); /* (d) has L~, too */
    assert_non_null(find(&c, FLI_CONDITION_OUTSIDE, "Theorem 2"));
    for (size_t i = 0; i < CLIENTS; i++) x.each[i].second_block = 0;
    c = conditions_of(*state, &fli_algo_fedcpsl, "mix=1;lr_local=0.5;server_lr=7", &x); /* then D_0 is 0 */
    assert_null(find(&c, FLI_CONDITION_OUTSIDE, "Theorem 2"));
    assert_null(find(&c, FLI_CONDITION_BOUND, "(36) second"));
    assert_null(find(&c, FLI_CONDITION_BOUND, "(38)"));
    assert_bound(&c, "(37) first", 0.5, 1 / (2 * weight_of(0.5, 10) * 2));
    assert_bound(&c, "(37) third", 0.5, 0.01 * 4 / weight_of(0.5, 3));
    c = conditions_of(*state, &fli_algo_fedcpsl, "mix=1;lr_local=0.5;server_lr=0.25", &x); /* (132) has lr server_lr */
    assert_bound(&c, "(37) third", 0.5, 0.25 * 0.01 * 4 / weight_of(0.5, 3));
    federation_init(&x);
    c = conditions_of(*state, &fli_algo_fedcpsl, "mix=0;server_lr=7", &x);
    assert_bound(&c, "(36) second", 0.01, 0.25 / (48 * 7 * 1.25 * 2));
    assert_bound(&c, "(37) first", 0.02, 1 / (2 * weight_of(0.5, 10) * 2));
}

static void pseudo_labels(void **state)
{
    federation x;
    federation_init(&x);
    x.each[4].block = (fl_latent_steps){.lr = 0.3, .smoothness = 5, .steps = 2}; /* steeper than the model is */
    fl_conditions c = conditions_of(*state, &fli_algo_fedshvrp, "server_lr=7", &x);
    assert_bound(&c, "eta_v", 0.3, 1.0 / 20);
    assert_bound(&c, "(34) second", 0.01, 1 / (8 * 5 * weight_of(0.5, 10)));
    assert_true(fails(&c, "(10)"));
    for (size_t i = 0; i < CLIENTS; i++) x.each[i].block.steps = 0; /* closed form */
    c = conditions_of(*state, &fli_algo_fedshvrp, "", &x);
    assert_null(find(&c, FLI_CONDITION_BOUND, "eta_v"));
    assert_non_null(find(&c, FLI_CONDITION_ASSUMED, "pseudo labels"));
    for (size_t i = 0; i < CLIENTS; i++) x.each[i].second_block = 0;
    c = conditions_of(*state, &fli_algo_fedshvrp, "", &x);
    assert_null(find(&c, FLI_CONDITION_REQUIRED, "Assumption 2"));
    assert_null(find(&c, FLI_CONDITION_ASSUMED, "L in nu"));
}

/* What `fedloom check` knows of a client's labels: 40 of its 80 samples have none, and there are 3 classes. */
static void labels_are_looked_up(void **state)
{
    static const struct {
        const char *semi, *says;
    } cases[] = {
        {"{labels: projected, label_lr: 0.25}", "0.25 <= "},
        {"{labels: projected, alpha_r: 0.5}", "26.67 <= "},                     /* 40/(3 0.5) */
        {"{labels: projected, alpha_r: 0.5, confidence: 0.5}", "holds    (4)"}, /* of labels in closed form */
        {"{labels: closed_form, confidence: 0.5}", "FAILS    (4)"},
        {"{labels: projected, alpha_r: 0}", "FAILS    Assumption 2"},
        {"{labels: closed_form}", "assumed  pseudo labels"},
        {"{labels: projected, label_batch: 39}", "FAILS    (10)"}, /* a step of the theorem is over all 40 */
        {"{labels: projected, label_batch: 40}", "holds    (10)"},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        collected c = {0};
        char yaml[600];
        snprintf(yaml, sizeof yaml,
                 "data: {kind: blobs, classes: 3, features: 4, samples: 320, unlabelled: 0.5}\nmodel: softmax\n"
                 "partition: {kind: iid, clients: 4}\nparticipation: {kind: uniform, count: 2}\n"
                 "algorithm: fedcpsl\nsemi: %s\n",
                 cases[i].semi);
        fl_config *cfg = fixture_config(f, yaml);
        assert_ok(f->ctx, fl_check(cfg, collect_text, &c));
        fl_config_free(cfg);
        if (!strstr(c.s, cases[i].says)) fail_msg("\"%s\" is not in:\n%s", cases[i].says, c.s);
        free(c.s);
    }
}

/* Advice for all clients goes by the longest step that any of them takes in its labels. */
static void longest_label_steps_count(void **state)
{
    fixture *f = *state;
    fli_check c;
    double least = INFINITY, most = 0;
    fl_config *cfg = fixture_config(
        f, "data: {kind: blobs, classes: 3, features: 4, samples: 320, unlabelled: 0.5}\nmodel: softmax\n"
           "partition: {kind: quantity, clients: 4}\nparticipation: {kind: uniform, count: 2}\n"
           "algorithm: fedcpsl\nsemi: {labels: projected, alpha_r: 0.5}\n");
    assert_ok(f->ctx, fli_check_make(cfg, NULL, &c));
    for (size_t i = 0; i < c.facts.measured; i++) {
        least = fmin(least, c.facts.client[i].block.lr);
        most = fmax(most, c.facts.client[i].block.lr);
    }
    assert_true(least < most);
    assert_near(c.facts.worst.block.lr, most, 0);
    fli_check_fini(&c);
    fl_config_free(cfg);
}

/* What stops the global model, or makes steps stochastic, ends what Theorem 1 says of its gradient. */
static void numbers_of_rounds(void **state)
{
    static const char yaml[] =
        "data: {kind: blobs, classes: 3, features: 4, samples: 120, unlabelled: 0.5}\npartition: {kind: iid, clients: "
        "4}\nmodel: softmax\nparticipation: everyone\nsemi: {labels: closed_form}\nlocal: {batch: 0, steps: 2, lr: "
        "1e-6}\nalgorithm: fedcpsl\n";
    static const struct {
        const char *set, *says;
    } cases[] = {
        {"local.batch=15", "until the mean of ||grad f(x, nu)||^2"}, /* 15 samples of either kind */
        {"semi.batch=14", "no number of rounds: steps are on mini-batches"},
        {"algorithm={kind: fedcpsl, mix: auto}", "FAILS    mix "}, /* a fifth of the samples is never trained on */
        {"algorithm={kind: fedcpsl, mix: auto}", "algorithm.mix = 0.75"},
        {"algorithm={kind: fedcpsl, mix: dissimilarity}", "until the mean of ||grad f(x, nu)||^2"},
        {"algorithm.freeze_after=1", "left out freeze_after   the rounds after algorithm.freeze_after"},
        {"algorithm.freeze_after=1", "no number of rounds: the global model does not change after"},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        collected c = {0};
        fl_config *cfg = fixture_config(f, yaml);
        assert_ok(f->ctx, fl_config_set(cfg, cases[i].set));
        assert_ok(f->ctx, fl_check(cfg, collect_text, &c));
        fl_config_free(cfg);
        if (!strstr(c.s, cases[i].says)) fail_msg("%s: \"%s\" is not in:\n%s", cases[i].set, cases[i].says, c.s);
        free(c.s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(first_theorem),        FIXTURE_TEST(what_theorem_1_is_not_about),
        FIXTURE_TEST(second_theorem),       FIXTURE_TEST(pseudo_labels),
        FIXTURE_TEST(labels_are_looked_up), FIXTURE_TEST(longest_label_steps_count),
        FIXTURE_TEST(numbers_of_rounds),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
