/* The experiments on FEMNIST, whose data are not to be had here, on made-up data of the same shape: they are read, all
 * their methods run, and a model learns something. */
#include "leaf.h"
#include "studies.h"

static fl_study *reproduce(fixture *f, const char *name, const char *const *sets, fl_status expected)
{
    char path[512], output[200];
    fl_study *s = NULL;
    fl_config *cfg = fl_config_new(f->ctx);
    snprintf(path, sizeof path, "%s/../experiments/%s.yaml", TEST_ROOT, name);
    snprintf(output, sizeof output, "%s/%s", f->folder, name);
    assert_ok(f->ctx, fl_config_load(cfg, path));
    for (; sets && *sets; sets++) assert_ok(f->ctx, fl_config_set(cfg, *sets));
    fl_study_options o = {.size = sizeof o, .output = output, .data = f->folder, .quick = 1, .jobs = 1};
    if (fl_study_new(cfg, &o, &s) != expected) fail_msg("%s", fl_ctx_error(f->ctx));
    fl_config_free(cfg);
    return s;
}

static void composite_experiments_run_to_the_end(void **state)
{
    static const char *const names[] = {"dr-femnist-lr", "dr-femnist-epochs", "dr-femnist-users"};
    static const char *const sets[] = {"rounds=1", "local.epochs=1", "threads=1", "model.hidden=[4]", NULL};
    static const leaf_shape shape = {.users = 100, .classes = 26, .least = 2, .most = 4};
    fixture *f = *state;
    leaf_write(f, "femnist", &shape);
    for (size_t k = 0; k < 3; k++) {
        fl_study *s = reproduce(f, names[k], sets, FL_OK);
        size_t done, all = fl_study_runs(s, &done);
        assert_int_equal(all, 11);
        for (size_t i = 0; i < all; i++) assert_ok(f->ctx, fl_config_set(s->x.trials[i].cfg, "rounds=1"));
        assert_ok(f->ctx, fl_study_go(s, NULL, NULL));
        fl_study_runs(s, &done);
        assert_int_equal(done, all);
        fl_study_free(s);
    }
}

static void asynchronous_methods_reduce_the_loss(void **state)
{
    static const leaf_shape shape = {.users = 24, .classes = 62, .least = 20, .most = 40};
    static const char *const sets[] = {"stop.simulated=45", "threads=1", "local.lr=0.05", "model.hidden=[16]", NULL};
    fixture *f = *state;
    leaf_write(f, "femnist-62", &shape);
    fl_study *s = reproduce(f, "dr-femnist-async", sets, FL_OK);
    size_t done, all = fl_study_runs(s, &done);
    assert_ok(f->ctx, fl_study_go(s, NULL, NULL));
    fl_study_runs(s, &done);
    assert_int_equal(done, all);
    for (size_t i = 0; i < all; i++) {
        const fl_row *rows = s->outcomes[i].rows;
        double begin = fl_row_get(rows, "train_loss"), end = fl_row_get(&rows[s->outcomes[i].count - 1], "train_loss");
        if (!(end < 0.95 * begin)) fail_msg("method %zu: from %g to %g", i, begin, end);
    }
    fl_study_free(s);
}

/* Without the data it is said which are missing, and where they are published. */
static void not_there(void **state)
{
    fixture *f = *state;
    assert_null(reproduce(f, "dr-femnist-async", NULL, FL_EIO));
    assert_non_null(strstr(fl_ctx_error(f->ctx), "femnist-62/train"));
    assert_non_null(strstr(fl_ctx_error(f->ctx), "leaf.cmu.edu"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(composite_experiments_run_to_the_end),
                                       FIXTURE_TEST(asynchronous_methods_reduce_the_loss), FIXTURE_TEST(not_there)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
