/* Ranks that have the samples of their own clients alone make the same run, whatever the samples are. */
#include "ranked.h"

#include "base/file.h"

static char folder[] = "/tmp/fedloom-ranks-XXXXXX";

/* So many samples are stored, by all ranks together. */
static void held(const char *settings, size_t samples, size_t tests)
{
    task t = run_of(settings, 4, 0);
    if (t.status) fail_msg("%s: %s", settings, t.why);
    assert_int_equal(t.stored, samples);
    assert_int_equal(t.tests, tests);
    outcome_free(&t.out);
}

static void every_sample_is_held_once(void **state)
{
    (void)state;
    held("model=softmax", 240, 50);
    held("model=softmax;partition={kind: iid, clients: 2}", 240, 50);
    held("model=softmax;data={kind: synthetic, clients: 12, on_demand: true};partition=natural", 0, 0);
}

/* What is made or promised from the samples of all. */
static void some_runs_need_all_samples(void **state)
{
    (void)state;
    static const char by_samples[] = "model={kind: factorization, rank: 2};algorithm=fedvra-u;regularizer=nonnegative";
    held("algorithm=fedvra;model=softmax;metrics.potential=true", 4 * 240, 50);
    held(by_samples, 4 * 240, 50);
    same_over_ranks(by_samples);
    same_over_ranks("algorithm=fedvra;model=softmax;metrics.potential=true;participation=everyone");
}

static void every_kind_of_samples(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "data={kind: digits, samples: 200, test_samples: 40, augment: cifar};model=softmax",
        "data={kind: digits, samples: 200, test_samples: 40, augment: crop, crop: 6, normalize: image};model=softmax",
        "data={kind: digits, samples: 200, test_samples: 40, augment: crop, crop: 6, augment_once: true};model=softmax",
        "data={kind: digits, samples: 200, test_samples: 40, normalize: standard};model=softmax",
        "data={kind: blobs, samples: 240, unlabelled: 0.5};semi.labels=projected;algorithm=fedvra-u;model=softmax",
        "data={kind: blobs, samples: 240};partition={kind: dirichlet, clients: 12, alpha: 0.2};model=softmax",
        "data={kind: blobs, samples: 240};partition={kind: iid, clients: 3};model=softmax",
        "data={kind: linreg, clients: 12, features: 3, test_fraction: 0.3};partition=natural;model=least_squares",
        "data={kind: synthetic, clients: 12};partition=natural;model=softmax",
        "device=twin;data={kind: digits, samples: 200, augment: cifar};partition={kind: iid, clients: 3};model=softmax",
        "data={kind: synthetic, clients: 12, on_demand: true};partition=natural;model=softmax",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) same_over_ranks(cases[i]);
}

static const char *file(const char *name, const void *data, size_t n)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(data, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
    return path;
}

/* Sparse text, and bytes that ranks map. */
static void files_are_shared_by_ranks(void **state)
{
    (void)state;
    enum { N = 60, SIDE = 3, DIM = SIDE * SIDE };
    uint8_t x[16 + N * DIM] = {0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, SIDE, 0, 0, 0, SIDE},
                       y[8 + N] = {0, 0, 8, 1, 0, 0, 0, N};
    char text[N * 32] = "", set[512];
    for (size_t i = 0; i < N; i++) {
        y[8 + i] = (uint8_t)(i % 3);
        for (size_t j = 0; j < DIM; j++) x[16 + i * DIM + j] = (uint8_t)(i * 37 + j * j * 11);
        snprintf(text + strlen(text), 32, "%zu %zu:%.3f 9:1\n", i % 3, i % 7 + 1, (double)i / 7);
    }
    file("x", x, sizeof x);
    file("y", y, sizeof y);
    snprintf(
        set, sizeof set,
        "data={kind: idx, dir: %s, train_images: x, train_labels: y, test_images: x, test_labels: y};model=softmax",
        folder);
    same_over_ranks(set);
    held(set, N, N);
    snprintf(set, sizeof set, "data={kind: libsvm, train: %s, normalize: unit};model=softmax",
             file("text", text, strlen(text)));
    same_over_ranks(set);
    held(set, N, 0);
}

/* Why it diverged is told by the features of all, on every rank. */
static void same_explanation(void **state)
{
    (void)state;
    const char *set =
        "algorithm=fedavg;model=softmax;local.lr=1e30;data.normalize=affine;data.scale=[1e6];stop.diverged=2";
    task one = run_of(set, 1, 0);
    assert_int_equal(one.status, FL_EDIVERGED);
    assert_non_null(strstr(one.why, "features are as large as"));
    for (uint32_t ranks = 2; ranks <= MOST; ranks++) assert_string_equal(run_of(set, ranks, 0).why, one.why);
}

/* A file that one of them does not have ends them all. */
static void one_cannot_read(void **state)
{
    (void)state;
    task tasks[3] = {{.settings = "model=softmax"},
                     {.settings = "model=softmax;data={kind: libsvm, train: /nowhere}"},
                     {.settings = "model=softmax"}};
    void *args[3] = {&tasks[0], &tasks[1], &tasks[2]};
    team_run(3, make_run, args);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(tasks[i].status, FL_EIO);
        assert_non_null(strstr(tasks[i].why, "/nowhere"));
    }
}

static int up(void **state)
{
    (void)state;
    return !mkdtemp(folder);
}

static int down(void **state)
{
    (void)state;
    fl_ctx *ctx = fl_ctx_new();
    fl_status s = fli_remove_folder(ctx, folder);
    fl_ctx_free(ctx);
    return s != FL_OK;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_sample_is_held_once), cmocka_unit_test(some_runs_need_all_samples),
        cmocka_unit_test(every_kind_of_samples),     cmocka_unit_test(files_are_shared_by_ranks),
        cmocka_unit_test(same_explanation),          cmocka_unit_test(one_cannot_read),
    };
    return cmocka_run_group_tests(tests, up, down);
}
