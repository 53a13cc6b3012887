/* Tuning: budgets, boxes, candidates, who goes on, and what is left at the end. */
#include "studies.h"

#include "study/tune.h"

#include <math.h>

#define BOX "tune: {local.lr: {from: 0.01, to: 1, log: true}}\n"

static fl_status tune_try(fixture *f, fl_config *cfg, const char *name, size_t budget, size_t seeds, fl_tune **out)
{
    char folder[200];
    snprintf(folder, sizeof folder, "%s/%s", f->folder, name);
    fl_study_options study = {.size = sizeof study, .seeds = seeds, .output = folder};
    return fl_tune_new(cfg, &(fl_tune_options){.size = sizeof(fl_tune_options), .budget = budget, .study = &study},
                       out);
}

static fl_tune *tune_new_in(fixture *f, const char *name, const char *yaml, size_t budget, size_t seeds)
{
    fl_tune *t = NULL;
    fl_config *cfg = config_of(f, yaml);
    assert_ok(f->ctx, tune_try(f, cfg, name, budget, seeds, &t));
    fl_config_free(cfg); /* a tuning does not need its configuration */
    return t;
}

static fl_tune *tune_new(fixture *f, const char *yaml, size_t budget, size_t seeds)
{
    return tune_new_in(f, "out", yaml, budget, seeds);
}

/* What the rungs cost is at most the budget, and a candidate more would not fit. */
static void tuning_stays_within_its_budget(void **state)
{
    fixture *f = *state;
    static const struct {
        size_t budget, seeds, candidates, rungs, last;
    } cases[] = {{6, 3, 2, 2, 2},    {7, 3, 3, 2, 2},   {12, 3, 6, 2, 3},  {20, 3, 11, 2, 4},
                 {20, 1, 20, 1, 20}, {20, 2, 14, 2, 5}, {40, 9, 14, 3, 2}, {19, 9, 3, 3, 2}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fl_tune *t = tune_new(f, PROBLEM BOX, cases[i].budget, cases[i].seeds);
        size_t cost = 0;
        for (size_t r = 0; r < t->rungs; r++)
            cost += t->candidates_at[r] * (t->seeds_at[r] - (r ? t->seeds_at[r - 1] : 0));
        assert_true(cost <= cases[i].budget);
        assert_int_equal(t->candidates_at[0], cases[i].candidates);
        assert_int_equal(t->rungs, cases[i].rungs);
        assert_int_equal(t->candidates_at[t->rungs - 1], cases[i].last);
        assert_int_equal(t->seeds_at[t->rungs - 1], cases[i].seeds);
        assert_int_equal(t->tuned[0].count, cases[i].candidates);
        fl_tune_free(t);
    }
    fl_tune *t = NULL;
    fl_config *cfg = config_of(f, PROBLEM BOX);
    assert_fails(f->ctx, tune_try(f, cfg, "out", 17, 9, &t), FL_ECONFIG,
                 "a budget of 17 runs per method is too small: two settings over 9 seeds take 18");
    fl_config_free(cfg);
}

static double value_of(fl_tune *t, size_t candidate, const char *key)
{
    fli_text text;
    fli_text_init(&text, t->ctx);
    fli_candidate_value(&t->tuned[0], &t->tuned[0].candidates[candidate], key, &text);
    double v = atof(fli_text_get(&text));
    fli_text_fini(&text);
    return v;
}

/* Candidates stay within the box and fill it: no quarter of a range is empty. A larger budget adds to a smaller one. */
static void candidates_fill_the_box(void **state)
{
    fixture *f = *state;
    const char *yaml = PROBLEM "algorithm: fedprox\n" BOX;
    fl_tune *t = tune_new(f, yaml, 20, 1), *larger = tune_new(f, yaml, 30, 1);
    static const char *const keys[] = {"local.lr", "algorithm.mu"};
    assert_int_equal(t->tuned[0].range_count, 2);
    assert_null(t->tuned[0].candidates[0].point->first); /* the file's own */
    assert_true(value_of(t, 0, "local.lr") == 0.1);
    for (size_t j = 0; j < 2; j++) {
        int quarter[4] = {0};
        const fli_span *r = &t->tuned[0].ranges[j];
        assert_string_equal(r->key, keys[j]);
        for (size_t i = 1; i < t->tuned[0].count; i++) {
            double v = value_of(t, i, keys[j]), at = fli_span_place(r, v);
            assert_true(at >= 0 && at <= 1 && v == value_of(larger, i, keys[j]));
            quarter[at >= 1 ? 3 : (int)(4 * at)]++;
        }
        for (size_t q = 0; q < 4; q++) assert_true(quarter[q] >= 3);
    }
    fl_tune_free(t);
    fl_tune_free(larger);
}

/* A setting is tried once, however many the budget would allow. */
static void settings_that_are_different(void **state)
{
    fl_tune *t = tune_new(
        *state, PROBLEM "tune: {local.lr: fixed, local.schedule: [sqrt, constant], local.batch: [5, 6, 7]}\n", 20, 1);
    const fli_tuned *c = &t->tuned[0];
    assert_int_equal(c->count, 6);
    for (size_t i = 0; i < c->count; i++)
        for (size_t k = 0; k < i; k++) assert_string_not_equal(c->candidates[i].values, c->candidates[k].values);
    fl_tune_free(t);
}

/* So many that each list of them is an allocation of its own. */
static void out_of_memory_for_many(void **state)
{
    fixture *f = *state;
    fl_tune *t = tune_new(f, PROBLEM BOX, 6, 1);
    for (size_t k = 1; k <= 2; k++) {
        fli_ctx_fail_alloc(f->ctx, k);
        fl_status s = fli_tune_candidates(t, &t->tuned[0], 10000);
        fli_ctx_fail_alloc(f->ctx, 0);
        assert_int_equal(s, FL_ENOMEM);
    }
    fl_tune_free(t);
}

/* The method's own ranges, under the file's, under those of a method in the file. */
static void specific_ranges_replace_general_ones(void **state)
{
    fixture *f = *state;
    fl_tune *t =
        tune_new(f,
                 PROBLEM "tune: {local.lr: {from: 0.2, to: 0.4}, algorithm: {mu: {from: 2, to: 3}}}\nmethods:\n"
                         "- {label: a, algorithm: fedavg}\n- {label: b, algorithm: fedprox}\n"
                         "- {label: c, algorithm: fedprox, tune: {local.lr: fixed, algorithm.mu: [7, 8], "
                         "local.batch: {from: 1, to: 4}}}\n",
                 6, 3);
    const fli_tuned *c = t->tuned;
    assert_int_equal(c[0].range_count, 1);
    assert_true(c[0].ranges[0].from == 0.2 && c[0].ranges[0].to == 0.4 && !c[0].ranges[0].log);
    assert_int_equal(c[1].range_count, 2);
    assert_true(c[1].ranges[1].from == 2 && c[1].ranges[1].to == 3);
    assert_int_equal(c[2].range_count, 2);
    assert_string_equal(c[2].ranges[0].key, "algorithm.mu");
    assert_int_equal(c[2].ranges[0].count, 2);
    assert_true(c[2].ranges[1].whole);
    fl_tune_free(t);
}

/* ---- carried out ---------------------------------------------------------------------------------------- */

static fl_tune *tuned_in(fixture *f, const char *name, const char *yaml, size_t budget, size_t seeds)
{
    fl_tune *t = tune_new_in(f, name, yaml, budget, seeds);
    assert_false(fl_tune_done(t));
    assert_fails(f->ctx, fl_tune_write(t), FL_ECONFIG, "the tuning is not finished");
    assert_ok(f->ctx, fl_tune_go(t, NULL, NULL));
    assert_true(fl_tune_done(t));
    return t;
}

static fl_tune *tuned(fixture *f, const char *yaml, size_t budget, size_t seeds)
{
    return tuned_in(f, "out", yaml, budget, seeds);
}

/* Standings are 1, 2, ..., the later rung before the earlier one; the winner is as good as the file's own setting. */
static void every_candidate_has_its_standing(void **state)
{
    fixture *f = *state;
    fl_tune *t = tuned(f, PROBLEM "metrics: {targets: []}\nalgorithm: fedprox\n" BOX, 12, 3);
    const fli_tuned *c = &t->tuned[0];
    unsigned seen = 0;
    for (size_t i = 0; i < c->count; i++) {
        seen |= 1u << c->candidates[i].place;
        for (size_t j = 0; j < c->count; j++)
            if (c->candidates[i].rung > c->candidates[j].rung)
                assert_true(c->candidates[i].place < c->candidates[j].place);
    }
    assert_int_equal(seen, 0x7E);
    assert_int_equal(c->runs, 12);
    assert_int_equal(c->candidates[0].rung, 1);
    assert_int_equal(c->candidates[0].score.seeds, 3);
    assert_false(fli_goal_beats(&t->goal, &c->candidates[0].score, &fli_tuned_winner(c)->score));
    assert_true(t->goal.value == &fli_metric_test_accuracy && !t->goal.cost);
    fl_tune_free(t);
}

/* Targets are the goal where there are any. */
static void targets_are_the_first_goal(void **state)
{
    fixture *f = *state;
    fl_tune *t = tuned(f, PROBLEM BOX, 6, 3);
    assert_true(t->goal.cost == &fli_metric_round && t->goal.target == 0.999);
    fl_tune_free(t);
    t = tuned_in(f, "regress", REGRESS BOX, 6, 3); /* no accuracy there */
    assert_true(t->goal.value == &fli_metric_train_loss);
    fl_tune_free(t);
    t = tune_new_in(f, "untested", PROBLEM "metrics: {test: false, targets: []}\ntune: {goal: test_loss}\n", 6, 3);
    assert_fails(f->ctx, fl_tune_go(t, NULL, NULL), FL_ECONFIG, "chosen by test_loss, which these runs do not measure");
    fl_tune_free(t);
}

static fli_score score(size_t failed, size_t reached, double cost, double value, double loss)
{
    fli_score s = {.seeds = 3, .failed = failed, .reached = reached};
    fli_stat_take(&s.cost, cost);
    fli_stat_take(&s.value, value);
    fli_stat_take(&s.loss, loss);
    return s;
}

/* Each comes before all that follow it. */
static void scores_are_ordered(void **state)
{
    const fli_goal to = {&fli_metric_test_accuracy, &fli_metric_round, 0.9},
                   end = {&fli_metric_test_accuracy, NULL, NAN};
    const fli_score by_cost[] = {score(0, 3, 10, 0.5, 1),  score(0, 3, 11, 0.9, 1),  score(0, 2, 1, 0.9, 1),
                                 score(0, 0, NAN, 0.9, 1), score(0, 0, NAN, 0.8, 1), score(0, 0, NAN, 0.8, 2),
                                 score(0, 0, NAN, NAN, 1), score(1, 3, 1, 1, 1),     score(3, 0, NAN, NAN, NAN)};
    const fli_score by_value[] = {score(0, 0, NAN, 0.9, 2), score(0, 3, 1, 0.8, 1), score(1, 3, 1, 0.9, 1)};
    (void)state;
    for (size_t i = 0; i < sizeof by_cost / sizeof *by_cost; i++)
        for (size_t j = 0; j < sizeof by_cost / sizeof *by_cost; j++)
            assert_int_equal(fli_goal_beats(&to, &by_cost[i], &by_cost[j]), i < j);
    for (size_t i = 0; i < 3; i++)
        for (size_t j = 0; j < 3; j++) assert_int_equal(fli_goal_beats(&end, &by_value[i], &by_value[j]), i < j);
}

static void stop_at_once(void *tune, const fl_study_progress *p)
{
    (void)p;
    fl_tune_stop(tune);
}

/* Stopped at any moment, it goes on to the same end. */
static void stopped_and_resumed(void **state)
{
    fixture *f = *state;
    fl_tune *t = tune_new(f, PROBLEM TWO BOX, 6, 3);
    size_t stops = 0;
    while (!fl_tune_done(t) && stops++ < 3) assert_ok(f->ctx, fl_tune_go(t, stop_at_once, t));
    assert_false(fl_tune_done(t));
    assert_ok(f->ctx, fl_tune_go(t, NULL, NULL));
    assert_true(fl_tune_done(t));
    assert_ok(f->ctx, fl_tune_write(t));
    char *first = read_whole(fixture_path(f, "out/tried.csv"), NULL);
    fl_tune_free(t);
    t = tuned(f, PROBLEM TWO BOX, 6, 3);
    assert_ok(f->ctx, fl_tune_write(t));
    char *second = read_whole(fixture_path(f, "out/tried.csv"), NULL);
    assert_string_equal(first, second);
    free(first);
    free(second);
    fl_tune_free(t);
}

/* The winners as an experiment: each method has its best setting, and the tuning can be gone. */
static void winners_become_an_experiment(void **state)
{
    fixture *f = *state;
    char lr[64];
    fl_config *cfg = NULL;
    fl_study *s = NULL;
    fl_tune *t = tuned(f, PROBLEM TWO "tune: {local.lr: {from: 0.3, to: 0.4}, goal: train_loss}\n", 6, 3);
    size_t best = (size_t)(fli_tuned_winner(&t->tuned[0]) - t->tuned[0].candidates);
    snprintf(lr, sizeof lr, "\n  lr: %g\n", value_of(t, best, "local.lr"));
    assert_ok(f->ctx, fl_tune_winners(t, &cfg));
    fl_tune_free(t);
    assert_ok(f->ctx, fl_study_new(cfg, NULL, &s));
    assert_int_equal(s->x.count, 2);
    assert_non_null(strstr(s->x.trials[0].config, lr));
    assert_non_null(strstr(s->x.description, "Settings were tuned with a budget of 6 runs for every method"));
    assert_non_null(strstr(s->x.description, "halving over the seeds 1000001 to 1000003, chosen by training loss"));
    assert_non_null(strstr(s->x.description, "FedAvg: local.lr 0.3 to 0.4"));
    fl_study_free(s);
    fl_config_free(cfg);
}

static fl_status everything(fixture *f, fl_config *file)
{
    fl_tune *t = NULL;
    fl_config *cfg = NULL;
    collected c = {0};
    fl_status s = tune_try(f, file, "out", 6, 0, &t);
    if (!s) s = fl_tune_go(t, NULL, NULL);
    if (!s) s = fl_tune_write(t);
    if (!s) s = fl_tune_table(t, collect_text, &c);
    if (!s) s = fl_tune_winners(t, &cfg);
    free(c.s);
    fl_config_free(cfg);
    fl_tune_free(t);
    return s;
}

/* Every allocation fails in turn, with all runs there. */
static void out_of_memory(void **state)
{
    fixture *f = *state;
    fl_config *file = config_of(f, PROBLEM "rounds: 1\n" TWO "tune: {local.schedule: [sqrt, constant]}\n");
    assert_ok(f->ctx, everything(f, file));
    for (size_t k = 1, fine = 0; fine < 50; k += 1 + k / 100) {
        assert_true(k < 1000000);
        fli_clear(f->ctx);
        fli_ctx_fail_alloc(f->ctx, k);
        fl_status status = everything(f, file);
        fli_ctx_fail_alloc(f->ctx, 0);
        fine = status ? 0 : fine + 1;
        if (status && (status != FL_ENOMEM || !strstr(fl_ctx_error(f->ctx), "out of memory")))
            fail_msg("allocation %zu: status %d (%s)", k, (int)status, fl_ctx_error(f->ctx));
    }
    fl_config_free(file);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(tuning_stays_within_its_budget),
        FIXTURE_TEST(candidates_fill_the_box),
        FIXTURE_TEST(settings_that_are_different),
        FIXTURE_TEST(out_of_memory_for_many),
        FIXTURE_TEST(specific_ranges_replace_general_ones),
        FIXTURE_TEST(every_candidate_has_its_standing),
        FIXTURE_TEST(targets_are_the_first_goal),
        cmocka_unit_test(scores_are_ordered),
        FIXTURE_TEST(stopped_and_resumed),
        FIXTURE_TEST(winners_become_an_experiment),
        FIXTURE_TEST(out_of_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
