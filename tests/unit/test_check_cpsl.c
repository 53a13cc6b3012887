/* What [CPSL]'s theorems ask for: Theorem 1 of all methods with its control variates, Theorem 2 of FedCPSL, which has
 * own models, and one over four times the smoothness of pseudo labels' steps. */
#include "fixture.h"

#include "algo/conditions.h"
#include "algo/list.h"
#include "model/semi.h"

static const fli_condition_seen *find(const fli_conditions *c, fli_condition_kind kind, const char *name)
{
    for (size_t i = 0; i < c->count; i++)
        if (c->seen[i].kind == kind && !strcmp(c->seen[i].name, name)) return &c->seen[i];
    return NULL;
}

static void assert_bound(const fli_conditions *c, const char *name, double have, double most)
{
    const fli_condition_seen *s = find(c, FLI_CONDITION_BOUND, name);
    if (!s) fail_msg("%s is missing", name);
    assert_near(s->have, have, 1e-14);
    assert_near(s->most, most, 1e-12 * most);
    assert_int_equal(s->failing != 0, have > most);
}

/* Two of eight clients, 3 to 10 steps; labels by projected steps. */
static const fli_facts facts = {.clients = 8,
                                .client = 1,
                                .smoothness = 2,
                                .lr = 0.01,
                                .probability = 0.25,
                                .weight = 0.125,
                                .steps = 10,
                                .least_steps = 3,
                                .momentum = 0.5,
                                .uniform_cohort = 1,
                                .second_block = 1,
                                .block = {.steps = 1, .lr = 0.1, .smoothness = 0.5}};

static fli_conditions conditions_of(fixture *f, const fli_algo *a, const char *params, const fli_facts *facts_)
{
    fli_conditions c = {.count = 0};
    fli_arena arena;
    fli_arena_init(&arena, f->ctx);
    a->theory.check(bound(f->ctx, &arena, a->keys, a->params_size, params), facts_, &c);
    fli_arena_fini(&arena);
    return c;
}

/* (15) */
static double weight_of(double gamma, double q)
{
    return q / (1 - gamma) - gamma * (1 - pow(gamma, q)) / ((1 - gamma) * (1 - gamma));
}

static void first_theorem(void **state)
{
    double qt = weight_of(0.5, 10);
    fli_conditions c = conditions_of(*state, &fli_algo_fedshvrp, "server_lr=7", &facts);
    assert_bound(&c, "(34) first", 0.01, 0.25 / (48 * 7 * 2));
    assert_bound(&c, "(34) second", 0.01, 1 / (8 * 2 * qt));
    assert_bound(&c, "(34) third", 0.01, 3 * 7 * 4 / (100 * 2 * qt * qt));
    assert_bound(&c, "(34) fourth", 0.01, 0.25 / (32 * 7 * 2) / sqrt(1 + 2 * 4));
    assert_bound(&c, "eta_v", 0.1, 1.0 / 8);
    assert_int_equal(c.count, 7);
}

static void second_theorem(void **state)
{
    fli_conditions c = conditions_of(*state, &fli_algo_fedcpsl, "mix=[1, 0.6, 1, 1, 1, 1, 1, 1]", &facts);
    assert_bound(&c, "(36) second", 0.01, 0.25 / (48 * 10 * 1.25 * 0.4 * 2)); /* server_lr is the number of steps */
    assert_bound(&c, "(37) first", 0.02, 1 / (2 * weight_of(0.5, 10) * 2));
    assert_bound(&c, "(37) third", 0.02, 0.01 * 4 / weight_of(0.5, 3));
    assert_bound(&c, "(38)", 1.25 * 0.4 * 2, 11 * 2.0 / 8 + 11 * 0.25 / 2);
    assert_non_null(find(&c, FLI_CONDITION_ASSUMED, "L_F"));
    assert_non_null(find(&c, FLI_CONDITION_ASSUMED, "D_0"));
    c = conditions_of(*state, &fli_algo_fedcpsl, "mix=1;lr_local=0.5;server_lr=7", &facts); /* then D_0 is 0 */
    assert_bound(&c, "(37) first", 0.5, 1 / (2 * weight_of(0.5, 10) * 2));
    assert_null(find(&c, FLI_CONDITION_ASSUMED, "D_0"));
    assert_int_equal(find(&c, FLI_CONDITION_BOUND, "(36) second")->failing, 0);
    assert_null(find(&c, FLI_CONDITION_ASSUMED, "pseudo labels"));
}

static void sampling(void **state)
{
    fli_facts f = facts;
    fli_conditions c = conditions_of(*state, &fli_algo_fedshvrp, "", &f);
    assert_int_equal(find(&c, FLI_CONDITION_REQUIRED, "sampling")->failing, 0);
    f.uniform_cohort = 0;
    c = conditions_of(*state, &fli_algo_fedshvrp, "", &f);
    assert_int_equal(find(&c, FLI_CONDITION_REQUIRED, "sampling")->failing, 1);
}

static void pseudo_labels(void **state)
{
    fli_facts f = facts;
    f.block.lr = 0.3;
    f.block.smoothness = 5; /* more than the model has */
    f.block.steps = 2;
    fli_conditions c = conditions_of(*state, &fli_algo_fedshvrp, "", &f);
    assert_bound(&c, "eta_v", 0.3, 1.0 / 20);
    assert_int_equal(find(&c, FLI_CONDITION_REQUIRED, "(10)")->failing, 1);
    f.block.steps = 0; /* closed form */
    c = conditions_of(*state, &fli_algo_fedshvrp, "", &f);
    assert_null(find(&c, FLI_CONDITION_BOUND, "eta_v"));
    assert_non_null(find(&c, FLI_CONDITION_ASSUMED, "pseudo labels"));
    f.second_block = 0;
    c = conditions_of(*state, &fli_algo_fedshvrp, "", &f);
    assert_int_equal(c.count, 5);
}

/* What `fedloom check` knows of a client's labels: 40 of its 80 samples have none, and there are 3 classes. */
static void labels_are_looked_up(void **state)
{
    static const struct {
        const char *semi, *says;
    } cases[] = {
        {"{labels: projected, label_lr: 0.25}", "0.25 <= "},
        {"{labels: projected, alpha_r: 0.5}", "26.67 <= "}, /* 40/(3 0.5) */
        {"{labels: projected, alpha_r: 1000, label_lr: 1}", "1 <= 0.003333"},
        {"{labels: closed_form}", "assumed  pseudo labels"},
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

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(first_theorem), FIXTURE_TEST(second_theorem),       FIXTURE_TEST(sampling),
        FIXTURE_TEST(pseudo_labels), FIXTURE_TEST(labels_are_looked_up),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
