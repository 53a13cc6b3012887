/* Metrics of an objective of one's own: columns of its runs, and of no others. */
#include "own.h"

static const char *const columns[] = {"weight_sum", "last_bias", NULL}, *const others[] = {"other", "last_bias", NULL};

static void register_measuring(fixture *f, own_arg *arg, const char *name, const char *const *metrics)
{
    fl_objective o = own_softmax(arg);
    o.name = name;
    o.metrics = metrics;
    o.measure = own_measure;
    assert_ok(f->ctx, fl_objective_register(f->ctx, &o));
}

/* The text of a result file of a finished run with these settings. */
static char *result_file(fixture *f, const char *set, const char *folder, const char *file)
{
    char all[600], path[200];
    snprintf(all, sizeof all, "%s;output=%s/%s", set, f->folder, folder);
    fl_run *run = run_done(f, SMALL, all);
    assert_ok(f->ctx, fl_run_save(run));
    fl_run_free(run);
    snprintf(path, sizeof path, "%s/%s", folder, file);
    return read_whole(fixture_path(f, path), NULL);
}

static int count_lines(const char *text, const char *word)
{
    int n = 0;
    for (const char *at = text; (at = strstr(at, word)); at++) n++;
    return n;
}

static void own_columns(void **state)
{
    fixture *f = *state;
    own_arg arg = {.start = 0.5};
    const fl_row *rows;
    char *before = result_file(f, "name=x", "before", "metrics.csv");
    register_measuring(f, &arg, "second", others); /* whatever else is registered */
    register_measuring(f, &arg, "own_softmax", columns);
    char *after = result_file(f, "name=x", "after", "metrics.csv");
    assert_int_equal(strcspn(before, "\n"), strcspn(after, "\n")); /* other runs' files stay as they were */
    assert_memory_equal(before, after, strcspn(before, "\n"));
    free(before);
    free(after);
    char *csv = result_file(f, OWN, "csv", "metrics.csv"), *jsonl = result_file(f, OWN, "jsonl", "metrics.jsonl");
    csv[strcspn(csv, "\n")] = 0;
    assert_non_null(strstr(csv, ",gap,local_gradient2,weight_sum,last_bias"));
    assert_null(strstr(csv, "other"));
    assert_int_equal(count_lines(jsonl, "\"weight_sum\": "), 7);
    assert_int_equal(count_lines(jsonl, "\"other\": "), 0);
    free(csv);
    free(jsonl);
    fl_run *run = run_done(f, SMALL, OWN);
    double x[OWN_PARAMETERS], sum = 0;
    size_t n = fl_run_rows(run, &rows);
    fl_run_model(run, x, OWN_PARAMETERS);
    for (size_t k = 0; k < OWN_PARAMETERS; k++) sum += fabs(x[k]);
    assert_near(fl_row_get(&rows[n - 1], "weight_sum"), sum, 1e-6);
    assert_true(fl_row_get(&rows[n - 1], "last_bias") == x[OWN_PARAMETERS - 1]);
    assert_true(fl_row_get(&rows[0], "weight_sum") == 0);
    assert_true(isnan(fl_row_get(&rows[n - 1], "other")));
    fl_run_free(run);
    arg.fail_measure = 1;
    own_fails(f, OWN, FL_ECALLBACK, "objective own_softmax failed when its metrics were taken, round 0: no ruler");
    own_forget(f);
    assert_ok(f->ctx, fl_forget(f->ctx, "model", "second"));
}

static void columns_go_on(void **state)
{
    fixture *f = *state;
    own_arg arg = {0};
    char set[400];
    fl_run *second = NULL;
    const fl_row *a, *b;
    register_measuring(f, &arg, "own_softmax", columns);
    snprintf(set, sizeof set, OWN ";checkpoint_every=2;output=%s/columns", f->folder);
    fl_run *first = run_new(f, SMALL, set);
    assert_ok(f->ctx, fl_run_go(first, own_stop_after_three, first));
    assert_int_equal(fl_run_round(first), 3);
    fl_run_free(first);
    register_measuring(f, &arg, "third", (const char *const[]){"yet_another", NULL});
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_resume(cfg, fixture_path(f, "columns")));
    assert_ok(f->ctx, fl_run_resume(cfg, &second));
    assert_ok(f->ctx, fl_run_go(second, NULL, NULL));
    fl_run *whole = run_done(f, SMALL, OWN);
    size_t n = fl_run_rows(whole, &a);
    assert_int_equal(fl_run_rows(second, &b), n);
    for (size_t i = 0; i < n; i++) {
        assert_true(fl_row_get(&a[i], "weight_sum") == fl_row_get(&b[i], "weight_sum"));
        assert_true(isnan(fl_row_get(&b[i], "yet_another")));
    }
    fl_run_free(second);
    fl_run_free(whole);
    fl_config_free(cfg);
    own_forget(f);
    assert_ok(f->ctx, fl_forget(f->ctx, "model", "third"));
}

static char *file_of(const char *folder, const char *name)
{
    char path[400];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    char *text = read_whole(path, NULL);
    assert_non_null(text);
    return text;
}

/* Two methods on an own objective: tables, charts and files have its metrics. */
static void comparisons_show_own_metrics(void **state)
{
    fixture *f = *state;
    own_arg arg = {0};
    collected text = {0};
    fl_study *study = NULL;
    register_measuring(f, &arg, "own_softmax", columns);
    fl_config *cfg =
        config_of(f, SMALL, OWN ";rounds=2;methods=[{label: a, algorithm: fedavg}, {label: b, algorithm: scaffold}]");
    char folder[300];
    snprintf(folder, sizeof folder, "%s/study", f->folder);
    assert_ok(f->ctx,
              fl_study_new(cfg, &(fl_study_options){.size = sizeof(fl_study_options), .output = folder}, &study));
    assert_ok(f->ctx, fl_study_go(study, NULL, NULL));
    assert_ok(f->ctx, fl_study_table(study, keep_text, &text));
    assert_non_null(strstr(text.s, "weight_sum"));
    assert_ok(f->ctx, fl_study_plot(study, "rounds", "weight_sum", keep_text, &text));
    assert_ok(f->ctx, fl_study_write(study));
    char *csv = file_of(folder, "results.csv"), *json = file_of(folder, "results.json");
    assert_non_null(strstr(csv, ",weight_sum_mean,weight_sum_std"));
    assert_null(strstr(csv, "yet_another")); /* of another objective, though of the same process */
    assert_non_null(strstr(json, "\"weight_sum\": {\"mean\": "));
    free(csv);
    free(json);
    fl_study_free(study);
    /* finished runs are taken over, with those columns */
    assert_ok(f->ctx,
              fl_study_new(cfg, &(fl_study_options){.size = sizeof(fl_study_options), .output = folder}, &study));
    assert_ok(f->ctx, fl_study_table(study, keep_text, &text));
    assert_non_null(strstr(text.s, "weight_sum"));
    fl_study_free(study);
    fl_config_free(cfg);
    free(text.s);
    own_forget(f);
}

static void names_of_metrics(void **state)
{
    fixture *f = *state;
    own_arg arg = {0};
    static char many[4][8][32];
    static const char *const bad[][3] = {{"train_loss"}, {"gradient"}, {"two words"}, {"a", "a"}};
    static const char *const why[] = {"metric train_loss comes with", "metric gradient comes with",
                                      "a metric is called", "metric a is named twice"};
    fl_objective o = own_softmax(&arg);
    o.measure = own_measure;
    for (size_t k = 0; k < 4; k++) {
        o.metrics = bad[k];
        assert_fails(f->ctx, fl_objective_register(f->ctx, &o), FL_ECONFIG, why[k]);
    }
    fl_status s = FL_OK;
    for (int k = 0; k < 4 && !s; k++) {
        const char *names[9] = {NULL};
        for (int i = 0; i < 8; i++) {
            snprintf(many[k][i], sizeof many[k][i], "m%d_%d", k, i);
            names[i] = many[k][i];
        }
        o.metrics = names;
        s = fl_objective_register(f->ctx, &o);
    }
    assert_fails(f->ctx, s, FL_ECONFIG, "a process has room for");
    own_forget(f);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(own_columns), FIXTURE_TEST(columns_go_on), FIXTURE_TEST(comparisons_show_own_metrics),
        FIXTURE_TEST(names_of_metrics), /* the last: it fills the list */
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
