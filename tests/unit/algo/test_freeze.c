/* FedCPSL's last rounds with the global model as it is ([CPSL] Remark 3): own models go on, nothing is sent up. */
#include "fixture.h"

#include "run/state.h"

enum { P = 4 * 3 + 3, CLIENTS = 6, MOST = 40 };

static fl_run *run_of(fixture *f, const char *semi, int rounds, int freeze_after, const char *executor)
{
    char yaml[1000];
    fl_run *run = NULL;
    snprintf(
        yaml, sizeof yaml,
        "data: {kind: blobs, classes: 3, features: 4, samples: 240, test_fraction: 0.2, unlabelled: 0.5}\n"
        "precision: f64\nrounds: %d\nmodel: softmax\npartition: {kind: dirichlet, clients: %d, alpha: 1}\n"
        "participation: {kind: uniform, count: 3}\nlocal: {batch: 8, lr: 0.1, momentum: 0.5}\n"
        "algorithm: {kind: fedcpsl, freeze_after: %d}\nsemi: {labels: %s}\nmetrics: {local: true, gradient: true}\n"
        "executor: %s\n",
        rounds, CLIENTS, freeze_after, semi, executor);
    fl_config *cfg = fixture_config(f, yaml);
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    return run;
}

static void own_models_go_on(void **state)
{
    enum { FREEZE = 5 };
    fixture *f = *state;
    double at_freeze[P], later[P];
    const fl_row *rows;
    fl_run *run = run_of(f, "closed_form", FREEZE, 0, "threads");
    assert_int_equal(fl_run_model(run, at_freeze, P), P);
    fl_run_free(run);
    run = run_of(f, "closed_form", MOST, FREEZE, "threads");
    assert_int_equal(fl_run_model(run, later, P), P);
    assert_memory_equal(at_freeze, later, sizeof later);
    assert_int_equal(fl_run_rows(run, &rows), MOST + 1);
    for (size_t r = FREEZE + 1; r <= MOST; r++) {
        const fl_row *now = &rows[r], *then = &rows[FREEZE];
        assert_true(fl_row_get(now, "train_loss") == fl_row_get(then, "train_loss"));
        assert_true(fl_row_get(now, "bytes_up") == fl_row_get(then, "bytes_up"));
        assert_true(fl_row_get(now, "communications") == FREEZE);
        assert_true(fl_row_get(now, "bytes_down") > fl_row_get(now - 1, "bytes_down")); /* others are asked */
        assert_true(fl_row_get(now, "local_train_loss") != fl_row_get(now - 1, "local_train_loss"));
    }
    assert_true(fl_row_get(&rows[MOST], "local_train_loss") < 0.8 * fl_row_get(&rows[FREEZE], "local_train_loss"));
    fl_run_free(run);
}

/* The same through bytes, where a client has nothing but what it was sent. */
static void nothing_else_is_needed(void **state)
{
    static const char *const labels[] = {"none", "closed_form", "projected"};
    fixture *f = *state;
    for (size_t i = 0; i < 3; i++) {
        fl_run *plain = run_of(f, labels[i], 8, 3, "threads"), *sent = run_of(f, labels[i], 8, 3, "loopback");
        const fl_row *a = fl_run_row(plain), *b = fl_run_row(sent);
        assert_true(fl_row_get(a, "local_train_loss") == fl_row_get(b, "local_train_loss"));
        assert_true(fl_row_get(a, "bytes_down") == fl_row_get(b, "bytes_down"));
        fl_run_free(plain);
        fl_run_free(sent);
    }
}

static void never_by_default(void **state)
{
    fixture *f = *state;
    fl_run *never = run_of(f, "closed_form", 6, 0, "threads"), *later = run_of(f, "closed_form", 6, 6, "threads");
    const fl_row *a = fl_run_row(never), *b = fl_run_row(later);
    assert_true(fl_row_get(a, "train_loss") == fl_row_get(b, "train_loss"));
    assert_true(fl_row_get(a, "bytes_up") == fl_row_get(b, "bytes_up") && fl_row_get(a, "bytes_up") > 0);
    fl_run_free(never);
    fl_run_free(later);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(own_models_go_on),
        FIXTURE_TEST(nothing_else_is_needed),
        FIXTURE_TEST(never_by_default),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
