/* A run in steps: the bits of one that goes by itself, whoever looks in between; and what can be seen there. */
#include "runs.h"

#include "algo/algo.h"

static const char base[] =
    "rounds: 7\nthreads: 2\ndata: {kind: blobs, classes: 3, features: 5, samples: 120, test_samples: 40}\n"
    "partition: {kind: iid, clients: 6}\nsystem: {kind: lognormal, sigma: 1, jitter: 0.3}\n"
    "local: {batch: 5, lr: 0.05, steps: 3}\nmodel: {kind: mlp, hidden: [4]}\nmetrics: {every: 3}\n";

static const char *needs(const fl_method *a)
{
    static char text[256];
    snprintf(text, sizeof text, "algorithm=%s;participation=%s%s", a->name,
             a->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 3}", levels_for(a, "mlp"));
    return text;
}

static void assert_same(const char *what, const fl_run *a, const fl_run *b)
{
    double x[256], y[256];
    const fl_row *of_a, *of_b;
    size_t n = fl_run_model(a, x, 256), rows = fl_run_rows(a, &of_a);
    assert_true(n <= 256 && n == fl_run_model(b, y, 256));
    if (fl_run_round(a) != fl_run_round(b) || rows != fl_run_rows(b, &of_b)) fail_msg("%s: other rounds", what);
    if (memcmp(x, y, n * sizeof *x)) fail_msg("%s: another model", what);
    for (size_t i = 0; i < rows; i++)
        for (size_t k = 0; fl_metric_at(k); k++)
            if (strcmp(fl_metric_at(k)->name, "seconds") &&
                memcmp(&of_a[i].value[k], &of_b[i].value[k], sizeof(double)))
                fail_msg("%s: %s of row %zu is %g and %g", what, fl_metric_at(k)->name, i, of_a[i].value[k],
                         of_b[i].value[k]);
}

/* Looks at everything there is, and returns how many vectors there were. */
static size_t look_around(fl_run *run)
{
    fl_vector v;
    size_t seen = 0;
    double scalars[8];
    for (size_t k = 0; fl_run_vector(run, k, &v); k++) {
        assert_true(v.data && v.n == fl_run_parameters(run) && v.real == 4 && *v.name);
        seen++;
    }
    for (size_t i = 0; i < fl_run_clients(run); i++) {
        for (size_t k = 0; fl_run_client_vector(run, i, k, &v) == 1; k++) seen += v.data != NULL;
        assert_true(fl_run_client_scalars(run, i, scalars, 8) < 8);
    }
    return seen;
}

/* ---- steps ------------------------------------------------------------------------------------------------- */

static void every_method_in_steps(void **state)
{
    fixture *f = *state;
    for (size_t i = 0; fli_algo_list[i]; i++) {
        const char *set = needs(fli_algo_list[i]);
        fl_run *whole = run_done(f, base, set), *run = run_new(f, base, set);
        int more = 1;
        size_t steps = 0;
        for (; more; steps++) {
            assert_ok(f->ctx, fl_run_step(run, &more));
            assert_int_equal(fl_run_round(run), steps + 1);
            assert_true(look_around(run) >= 1);
        }
        assert_int_equal(steps, 7);
        assert_same(fli_algo_list[i]->name, whole, run);
        assert_ok(f->ctx, fl_run_step(run, &more)); /* there is nothing to do any more */
        assert_true(!more && fl_run_round(run) == 7 && fl_run_stopped_by(run) == FL_STOP_ROUNDS);
        fl_run_free(run);
        fl_run_free(whole);
    }
}

static void count_rounds(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    size_t *seen = arg;
    (void)row;
    (void)measured;
    assert_true(fl_run_round(run) == 3 + ++*seen);
}

static void steps_and_then_goes(void **state)
{
    fixture *f = *state;
    static const char *const sets[] = {"algorithm=scaffold", "algorithm=fedbuff"};
    for (size_t i = 0; i < 2; i++) {
        fl_run *whole = run_done(f, base, sets[i]), *run = run_new(f, base, sets[i]);
        size_t seen = 0;
        const fl_row *rows;
        assert_ok(f->ctx, fl_run_step(run, NULL));
        assert_int_equal(fl_run_rows(run, &rows), 1); /* that of the start */
        assert_ok(f->ctx, fl_run_step(run, NULL));
        assert_ok(f->ctx, fl_run_step(run, NULL));
        assert_int_equal(fl_run_rows(run, &rows), 2);
        assert_ok(f->ctx, fl_run_go(run, count_rounds, &seen));
        assert_int_equal(seen, 4);
        assert_same(sets[i], whole, run);
        fl_run_free(run);
        fl_run_free(whole);
    }
    fl_run *none = run_new(f, base, "rounds=0");
    int more = 1;
    assert_ok(f->ctx, fl_run_step(none, &more));
    assert_true(!more && fl_run_round(none) == 0 && fl_run_row(none));
    fl_run_free(none);
}

static void checkpoints_as_it_steps(void **state)
{
    fixture *f = *state;
    char set[300];
    fl_run *whole = run_done(f, base, "algorithm=scaffold"), *again = NULL;
    snprintf(set, sizeof set, "algorithm=scaffold;checkpoint_every=2;output=%s/out", f->folder);
    fl_run *run = run_new(f, base, set);
    for (int i = 0; i < 5; i++) {
        assert_ok(f->ctx, fl_run_step(run, NULL));
        assert_int_equal(fl_run_checkpointed(run), (i + 1) % 2 == 0);
    }
    fl_run_free(run);
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_resume(cfg, fixture_path(f, "out")));
    assert_ok(f->ctx, fl_run_resume(cfg, &again));
    assert_int_equal(fl_run_round(again), 4);
    for (int more = 1; more;) assert_ok(f->ctx, fl_run_step(again, &more));
    assert_same("resumed", whole, again);
    assert_ok(f->ctx, fl_run_save(again));
    fl_run_free(again);
    fl_run_free(whole);
    fl_config_free(cfg);
}

/* A result may go elsewhere than the configuration said, and more than once. */
static void saves_elsewhere(void **state)
{
    fixture *f = *state;
    char set[300];
    fl_model *model = NULL;
    fl_run *run = run_done(f, base, "algorithm=scaffold");
    for (int i = 0; i < 2; i++) {
        char *place = strdup(fixture_path(f, i ? "one" : "two"));
        assert_ok(f->ctx, fl_run_set_output(run, place));
        assert_string_equal(fl_run_output(run), place);
        assert_ok(f->ctx, fl_run_save(run));
        assert_int_equal(fl_run_save(run), FL_EIO);
        free(place);
    }
    assert_ok(f->ctx, fl_run_save_model(run, fixture_path(f, "alone.safetensors")));
    assert_ok(f->ctx, fl_model_load(f->ctx, fixture_path(f, "alone.safetensors"), &model));
    assert_int_equal(fl_model_about(model)->parameters, fl_run_parameters(run));
    assert_int_equal(fl_run_save_model(run, fixture_path(f, "no/such/folder")), FL_EIO);
    fl_model_free(model);
    fl_run_free(run);
    snprintf(set, sizeof set, "checkpoint_every=2;output=%s/out", f->folder);
    run = run_new(f, base, set);
    assert_int_equal(fl_run_set_output(run, fixture_path(f, "other")), FL_ECONFIG);
    fl_run_free(run);
}

static void stops_between_steps(void **state)
{
    fixture *f = *state;
    char set[300];
    int more = 1;
    snprintf(set, sizeof set, "checkpoint_every=100;output=%s/out", f->folder);
    fl_run *run = run_new(f, base, set);
    assert_ok(f->ctx, fl_run_step(run, &more));
    assert_ok(f->ctx, fl_run_step(run, &more));
    assert_true(more && fl_row_round(fl_run_row(run)) == 0);
    fl_run_stop(run);
    assert_ok(f->ctx, fl_run_step(run, &more)); /* no further round, but its row and a checkpoint */
    assert_true(!more && fl_run_round(run) == 2 && fl_run_stopped_by(run) == FL_STOP_ASKED);
    assert_true(fl_row_round(fl_run_row(run)) == 2 && fl_run_checkpointed(run));
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_int_equal(fl_run_round(run), 2);
    fl_run_free(run);
}

static void does_not_go_on_after_a_failure(void **state)
{
    fixture *f = *state;
    fl_run *run =
        run_new(f, "data: {kind: linreg, clients: 3, features: 3}\nmodel: least_squares\nlocal: {lr: 1e200}\n", "");
    int more = 1;
    fl_status s = FL_OK;
    while (!s && more) s = fl_run_step(run, &more);
    assert_int_equal(s, FL_EDIVERGED);
    assert_int_equal(more, 0);
    size_t round = fl_run_round(run);
    assert_fails(f->ctx, fl_run_step(run, &more), FL_EDIVERGED, "cannot go on");
    assert_fails(f->ctx, fl_run_go(run, NULL, NULL), FL_EDIVERGED, "cannot go on");
    assert_int_equal(fl_run_round(run), round);
    fl_run_free(run);
}

/* ---- the start model ------------------------------------------------------------------------------------------ */

/* Given the start model that it has anyway, a run is the same; also of methods that remember it. */
static void the_same_start(void **state)
{
    fixture *f = *state;
    double x[256];
    for (size_t i = 0; fli_algo_list[i]; i++) {
        const char *set = needs(fli_algo_list[i]);
        fl_run *whole = run_done(f, base, set), *run = run_new(f, base, set);
        size_t n = fl_run_model(run, x, 256);
        double *zero = calloc(n, sizeof *zero);
        assert_ok(f->ctx, fl_run_start(run, zero, n)); /* the last one counts */
        assert_ok(f->ctx, fl_run_start(run, x, n));
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        assert_same(fli_algo_list[i]->name, whole, run);
        free(zero);
        fl_run_free(run);
        fl_run_free(whole);
    }
}

/* A run that starts where another has ended measures there what that has measured; the clients of both executors know
 * it. */
static void starts_elsewhere(void **state)
{
    fixture *f = *state;
    static const char *const sets[] = {"algorithm=fedavg;precision=f64", "algorithm=feddr;precision=f64",
                                       "algorithm=fedasync;precision=f64",
                                       "algorithm=vrl-sgd;participation=everyone;precision=f64"};
    for (size_t i = 0; i < 4; i++) {
        char apart[200];
        double x[256];
        snprintf(apart, sizeof apart, "%s;executor=loopback", sets[i]);
        fl_run *first = run_done(f, base, sets[i]), *a = run_new(f, base, sets[i]), *b = run_new(f, base, apart);
        size_t n = fl_run_model(first, x, 256);
        assert_ok(f->ctx, fl_run_start(a, x, n));
        assert_ok(f->ctx, fl_run_start(b, x, n));
        assert_ok(f->ctx, fl_run_go(a, NULL, NULL));
        assert_ok(f->ctx, fl_run_go(b, NULL, NULL));
        assert_true(fl_row_get(&a->rows.at[0], "train_loss") == fl_row_get(fl_run_row(first), "train_loss"));
        assert_same(sets[i], a, b);
        fl_run_free(a);
        fl_run_free(b);
        fl_run_free(first);
    }
}

/* Checkpoints know where a run has started, although its settings do not. */
static void resumes_from_elsewhere(void **state)
{
    fixture *f = *state;
    char set[300];
    double x[256];
    fl_run *whole = run_new(f, base, "algorithm=feddr"), *run, *again = NULL;
    size_t n = fl_run_model(whole, x, 256);
    for (size_t i = 0; i < n; i++) x[i] = (double)((int)(i % 7) - 3) / 8;
    snprintf(set, sizeof set, "algorithm=feddr;checkpoint_every=2;output=%s/out", f->folder);
    run = run_new(f, base, set);
    assert_ok(f->ctx, fl_run_start(whole, x, n));
    assert_ok(f->ctx, fl_run_start(run, x, n));
    assert_ok(f->ctx, fl_run_go(whole, NULL, NULL));
    assert_ok(f->ctx, fl_run_step(run, NULL));
    assert_ok(f->ctx, fl_run_step(run, NULL));
    fl_run_free(run);
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_resume(cfg, fixture_path(f, "out")));
    assert_ok(f->ctx, fl_run_resume(cfg, &again));
    assert_fails(f->ctx, fl_run_start(again, x, n), FL_ECONFIG, "has begun");
    assert_ok(f->ctx, fl_run_go(again, NULL, NULL));
    assert_same("resumed from elsewhere", whole, again);
    fl_run_free(again);
    fl_run_free(whole);
    fl_config_free(cfg);
}

static void refuses_start_models(void **state)
{
    fixture *f = *state;
    fl_run *run = run_new(f, base, "");
    size_t n = fl_run_parameters(run);
    double *x = calloc(n + 1, sizeof *x);
    assert_fails(f->ctx, fl_run_start(run, x, n + 1), FL_ECONFIG, "parameters, not");
    assert_fails(f->ctx, fl_run_start(run, x, 0), FL_ECONFIG, "parameters, not 0");
    assert_fails(f->ctx, fl_run_start(run, NULL, n), FL_ECONFIG, "parameters, not 0");
    x[3] = NAN;
    assert_fails(f->ctx, fl_run_start(run, x, n), FL_ECONFIG, "parameter 3 is nan");
    x[3] = -1e39;
    assert_fails(f->ctx, fl_run_start(run, x, n), FL_ECONFIG, "parameter 3 is -1e+39, which precision f32");
    x[3] = 0;
    assert_ok(f->ctx, fl_run_step(run, NULL));
    assert_fails(f->ctx, fl_run_start(run, x, n), FL_ECONFIG, "has begun");
    fl_run_free(run);
    free(x);
}

/* ---- what can be seen ------------------------------------------------------------------------------------ */

/* SCAFFOLD keeps c = sum w_i c_i. However the clients' state is kept, it can be seen. */
static void control_variates(void **state)
{
    static const char *const ways[] = {"threads=2", "memory=1KiB", "executor=loopback",
                                       "executor=loopback;memory=1KiB"};
    fixture *f = *state;
    static double seen[4][64];
    for (size_t w = 0; w < 4; w++) {
        char set[200];
        fl_vector v;
        double sum[64] = {0};
        snprintf(set, sizeof set,
                 "algorithm=scaffold;precision=f64;model=softmax;participation={kind: uniform, count: 3};%s", ways[w]);
        fl_run *run = run_new(f, base, set);
        size_t n = fl_run_parameters(run);
        assert_true(n <= 64);
        assert_true(fl_run_client_vector(run, 0, 0, &v) == 1 && !v.data && !strcmp(v.name, "c_i")); /* no turn yet */
        for (int i = 0; i < 4; i++) assert_ok(f->ctx, fl_run_step(run, NULL));
        for (size_t i = 0; i < fl_run_clients(run); i++) {
            assert_int_equal(fl_run_client_vector(run, i, 0, &v), 1);
            assert_true(v.n == n && v.real == 8);
            for (size_t j = 0; j < n && v.data; j++)
                sum[j] += ((const double *)v.data)[j] / 6; /* all have 20 samples */
        }
        assert_true(fl_run_vector(run, 0, &v) && !strcmp(v.name, "x"));
        assert_true(fl_run_vector(run, 1, &v) && !strcmp(v.name, "c"));
        double norm = 0;
        for (size_t j = 0; j < n; j++) {
            assert_near(sum[j], ((const double *)v.data)[j], 1e-14);
            norm += fabs(sum[j]);
        }
        assert_true(norm > 0.01);
        memcpy(seen[w], sum, sizeof sum);
        assert_memory_equal(seen[0], seen[w], sizeof sum);
        assert_false(fl_run_vector(run, 2, &v));
        assert_int_equal(fl_run_client_vector(run, 0, 1, &v), 0);
        assert_int_equal(fl_run_client_vector(run, 6, 0, &v), -1);
        assert_non_null(strstr(fl_ctx_error(f->ctx), "there is no client 6"));
        assert_true(fl_run_client_scalars(run, 0, NULL, 0) == 0); /* it has none */
        assert_true(fl_run_client_scalars(run, 6, NULL, 0) == SIZE_MAX);
        fl_run_free(run);
    }
}

/* VRL-SGD remembers when a client was last there. */
static void scalars_of_clients(void **state)
{
    fixture *f = *state;
    fl_run *run = run_new(f, base, "algorithm=vrl-sgd;participation=everyone");
    double v[2] = {-1, -1};
    assert_true(fl_run_client_scalars(run, 2, v, 2) == 0 && v[0] == -1);
    assert_ok(f->ctx, fl_run_step(run, NULL));
    assert_true(fl_run_client_scalars(run, 2, NULL, 0) == 1 && fl_run_client_scalars(run, 2, v, 0) == 1 && v[0] == -1);
    assert_true(fl_run_client_scalars(run, 2, v, 2) == 1 && v[0] >= 0 && v[1] == -1);
    fl_run_free(run);
}

static void tensors_cover_all_parameters(void **state)
{
    static const struct {
        const char *set, *first;
        size_t count, dims;
    } cases[] = {{"model={kind: mlp, hidden: [4]}", "layer1.weight", 4, 2},
                 {"model=softmax", "weight", 2, 2},
                 {"model=cnn;data={kind: digits, samples: 120}", "conv1.weight", 10, 4}};
    fixture *f = *state;
    for (size_t i = 0; i < 3; i++) {
        fl_run *run = run_new(f, base, cases[i].set);
        fl_tensor t;
        size_t at = 0, k = 0;
        for (; fl_run_tensor(run, k, &t); k++) {
            size_t n = 1;
            assert_int_equal(t.offset, at);
            for (size_t d = 0; d < t.dims; d++) n *= t.shape[d];
            for (size_t d = t.dims; d < 4; d++) assert_int_equal(t.shape[d], 0);
            at += n;
            if (k) continue;
            assert_string_equal(t.name, cases[i].first);
            assert_int_equal(t.dims, cases[i].dims);
        }
        assert_int_equal(k, cases[i].count);
        assert_int_equal(at, fl_run_parameters(run));
        fl_run_free(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_method_in_steps),
        FIXTURE_TEST(steps_and_then_goes),
        FIXTURE_TEST(checkpoints_as_it_steps),
        FIXTURE_TEST(saves_elsewhere),
        FIXTURE_TEST(stops_between_steps),
        FIXTURE_TEST(does_not_go_on_after_a_failure),
        FIXTURE_TEST(the_same_start),
        FIXTURE_TEST(starts_elsewhere),
        FIXTURE_TEST(resumes_from_elsewhere),
        FIXTURE_TEST(refuses_start_models),
        FIXTURE_TEST(control_variates),
        FIXTURE_TEST(scalars_of_clients),
        FIXTURE_TEST(tensors_cover_all_parameters),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
