/* Same seed, same bits: for every algorithm that is listed, whatever the number of threads and whichever the executor.
 * `loopback` gives clients nothing but bytes, so what agrees with it can be sent. */
#include "many_settings.h"
#include "outcome.h"

/* Runs the base configuration with assignments on top, separated by ';'. */
static outcome run_of(fixture *f, const char *assignments)
{
    fl_run *run = NULL;
    char text[800], *save = NULL;
    fl_config *cfg = fixture_config(f, many_base);
    snprintf(text, sizeof text, "%s", assignments);
    for (char *a = strtok_r(text, ";", &save); a; a = strtok_r(NULL, ";", &save))
        assert_ok(f->ctx, fl_config_set(cfg, a));
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    outcome o = outcome_of(run);
    fl_run_free(run);
    fl_config_free(cfg);
    return o;
}

static void settings(char *out, size_t size, const fl_method *a, const char *model, const char *precision, int seed,
                     int threads)
{
    snprintf(out, size, "algorithm=%s;participation=%s;model=%s;precision=%s;seed=%d;threads=%d%s", a->name,
             a->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 7}", model, precision, seed, threads,
             levels_for(a, model));
}

static void threads_of(fixture *f, const fl_method *a, const char *model, const char *precision)
{
    static const int threads[] = {1, 2, 3, 8};
    char text[512];
    settings(text, sizeof text, a, model, precision, 3, 1);
    outcome first = run_of(f, text);
    for (size_t i = 0; i < first.parameters; i++) assert_true(isfinite(first.model[i]));
    assert_int_equal(first.count, 5);
    for (size_t t = 0; t < 4; t++) {
        settings(text, sizeof text, a, model, precision, 3, threads[t]);
        outcome again = run_of(f, text);
        if (!same(&first, &again))
            fail_msg("%s, %s, %s: %d threads give other bits", a->name, model, precision, threads[t]);
        outcome_free(&again);
    }
    settings(text, sizeof text, a, model, precision, 3, 1);
    strcat(text, ";executor=loopback");
    outcome sent = run_of(f, text);
    if (!same(&first, &sent)) fail_msg("%s, %s, %s: loopback gives other bits", a->name, model, precision);
    outcome_free(&sent);
    settings(text, sizeof text, a, model, precision, 4, 1);
    outcome other = run_of(f, text);
    if (!memcmp(first.model, other.model, first.parameters * sizeof *first.model))
        fail_msg("%s, %s, %s: another seed gives the same model", a->name, model, precision);
    outcome_free(&other);
    outcome_free(&first);
}

static void every_algorithm(void **state)
{
    fixture *f = *state;
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        threads_of(f, *a, "softmax", "f32");
        threads_of(f, *a, "softmax", "f64");
        threads_of(f, *a, "{kind: mlp, hidden: [9, 5]}", "f32");
        threads_of(f, *a, "{kind: mlp, hidden: [9, 5], weight_decay: 0.01}", "f64");
    }
}

/* f32 and f64 start from the same point and go the same way, up to rounding. */
static void precisions_agree(void **state)
{
    fixture *f = *state;
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        char text[512];
        settings(text, sizeof text, *a, "softmax", "f32", 3, 2);
        outcome single = run_of(f, text);
        settings(text, sizeof text, *a, "softmax", "f64", 3, 2);
        outcome twofold = run_of(f, text);
        for (size_t i = 0; i < single.parameters; i++) assert_near(single.model[i], twofold.model[i], 1e-4);
        assert_memory_not_equal(single.model, twofold.model, single.parameters * sizeof(double));
        outcome_free(&single);
        outcome_free(&twofold);
    }
}

/* Runs with 1, 3 and 8 threads, and with messages as bytes; all must agree. */
static void threads_agree(void *fixture_of, const char *assignments)
{
    fixture *f = fixture_of;
    static const char *const ways[] = {"threads=1", "threads=3", "threads=8", "executor=loopback"};
    outcome o[4];
    for (int w = 0; w < 4; w++) {
        char text[512];
        snprintf(text, sizeof text, "%s;%s", assignments, ways[w]);
        o[w] = run_of(f, text);
        if (!same(&o[0], &o[w])) fail_msg("%s: %s gives other bits", assignments, ways[w]);
    }
    for (int w = 0; w < 4; w++) outcome_free(&o[w]);
}

static void other_settings(void **state) { each_other(threads_agree, *state); }
static void pseudo_labels(void **state) { each_pseudo(*state, threads_agree, *state); }
static void simulated_time(void **state) { each_simulated(threads_agree, *state); }

/* Speeds decide the order, so they decide the model. */
static void speeds_matter(void **state)
{
    fixture *f = *state;
    outcome a = run_of(f, "algorithm=fedasync;model=softmax;rounds=40;participation=everyone");
    outcome b = run_of(f, SPEEDS "algorithm=fedasync;model=softmax;rounds=40;participation=everyone");
    assert_memory_not_equal(a.model, b.model, a.parameters * sizeof *a.model);
    outcome_free(&a);
    outcome_free(&b);
}

/* ---- sparse data ------------------------------------------------------------------------------------------ */

/* Every model gives the same run on the same data, sparse or dense, up to rounding; and the same bits with any number
 * of threads. */
static void sparse_data(void **state)
{
    fixture *f = *state;
    char path[512], text[2][800];
    write_libsvm(f, path);
    for (size_t k = 0; k < SPARSE; k++) {
        static const char *const storage[] = {"sparse", "dense"};
        outcome o[2];
        for (size_t i = 0; i < 2; i++) {
            sparse_settings(text[i], sizeof text[i], path, storage[i], k);
            o[i] = run_of(f, text[i]);
        }
        threads_agree(f, text[0]);
        assert_int_equal(o[0].parameters, o[1].parameters);
        double moved = 0;
        for (size_t j = 0; j < o[0].parameters; j++) {
            moved = fmax(moved, fabs(o[0].model[j]));
            assert_near(o[0].model[j], o[1].model[j], 1e-12 * (1 + fabs(o[1].model[j])));
        }
        assert_true(moved > 1e-3);
        for (size_t j = 0; j < o[0].count; j++)
            assert_near(fl_row_get(&o[0].rows[j], "train_loss"), fl_row_get(&o[1].rows[j], "train_loss"),
                        1e-12 * (1 + fl_row_get(&o[1].rows[j], "train_loss")));
        outcome_free(&o[0]);
        outcome_free(&o[1]);
    }
}

/* ---- more clients than the executor takes at a time ------------------------------------------------------ */

/* 150 clients, one full-batch step each: x = -lr sum w_i grad f_i(0) by hand. */
static void large_cohort(void **state)
{
    fixture *f = *state;
    enum { CLIENTS = 150, DIM = 5 };
    size_t size[CLIENTS];
    for (size_t i = 0; i < CLIENTS; i++) size[i] = 1 + i % 4;
    for (size_t threads = 1; threads < 4; threads += 2) {
        engine e;
        double want[DIM] = {0}, h[DIM * DIM], q[DIM];
        fli_fed *fed = random_fed(f->ctx, CLIENTS, size, DIM, 0, 1);
        engine_init(&e, f->ctx, fed, "least_squares", &fli_ops_f64, 0, algo_named("fedavg"), "", 0,
                    (fli_sgd_spec){0, 0}, threads);
        for (size_t i = 0; i < CLIENTS; i++) {
            client_quadratic(f->ctx, fed, i, 0, h, q);
            for (size_t j = 0; j < DIM; j++) want[j] += 0.1 * (double)size[i] / (double)fed->samples * q[j];
        }
        engine_rounds(&e, 1, 1, 0.1);
        double *x = engine_vector(&e, 0);
        for (size_t j = 0; j < DIM; j++) assert_near(x[j], want[j], 1e-14);
        free(x);
        engine_fini(&e);
    }
}

static void large_cohort_threads(void **state) { each_large(threads_agree, *state); }

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_algorithm),      FIXTURE_TEST(precisions_agree), FIXTURE_TEST(other_settings),
        FIXTURE_TEST(simulated_time),       FIXTURE_TEST(speeds_matter),    FIXTURE_TEST(large_cohort),
        FIXTURE_TEST(large_cohort_threads), FIXTURE_TEST(sparse_data),      FIXTURE_TEST(pseudo_labels),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
