/* Settings of many kinds over several ranks: the bits of one process, and the same sentence where they fail. */
#include "ranked.h"
#include "saboteur.h"

/* look_fn; arg is the fixture. */
static void like_one(void *arg, const char *settings)
{
    task one = run_of(settings, 1, 0);
    (void)arg;
    if (one.status) fail_msg("%s: %s", settings, one.why);
    for (uint32_t ranks = 2; ranks <= 3; ranks++) {
        task many = run_of(settings, ranks, ranks == 2 ? 7 : 0);
        if (many.status) fail_msg("%s: %u ranks: %s", settings, ranks, many.why);
        if (!same(&one.out, &many.out)) fail_msg("%s: %u ranks give other bits", settings, ranks);
        outcome_free(&many.out);
    }
    outcome_free(&one.out);
}

static void other_settings(void **state) { each_other(like_one, *state); }
static void simulated_time(void **state) { each_simulated(like_one, *state); }
static void pseudo_labels(void **state) { each_pseudo(*state, like_one, *state); }
static void large_cohorts(void **state) { each_large(like_one, *state); }

static void sparse_data(void **state)
{
    char path[512], text[800];
    write_libsvm(*state, path);
    for (size_t k = 0; k < SPARSE; k++) {
        sparse_settings(text, sizeof text, path, "sparse", k);
        like_one(*state, text);
    }
}

/* Vectors that nobody here may follow. */
static void on_a_device(void **state)
{
    like_one(*state, "device=twin;threads=1;model=softmax;algorithm=scaffold");
    like_one(*state, "device=twin;threads=1;model={kind: mlp, hidden: [9]};algorithm=feddr;participation=everyone;"
                     "regularizer={kind: l1, weight: 0.01}");
    like_one(*state, "device=twin;threads=1;model=softmax;algorithm={kind: fedbuff, buffer: 3};rounds=20");
}

/* ---- what fails -------------------------------------------------------------------------------------------- */

/* The sentence of one process, at every rank of several. */
static void says(const char *settings, fl_status status, const char *sentence)
{
    task one = run_of(settings, 1, 0);
    for (uint32_t ranks = 1; ranks <= MOST; ranks++) {
        task t = run_of(settings, ranks, 7);
        if (t.status != status || !strstr(t.why, sentence))
            fail_msg("%s: %u ranks: %d, %s", settings, ranks, t.status, t.why);
        if (strcmp(t.why, one.why)) fail_msg("%s: %u ranks: %s; one process: %s", settings, ranks, t.why, one.why);
    }
}

#define DIVERGE "model={kind: mlp, hidden: [5]};participation=everyone;local={batch: 5, lr: 0.1, lr_factors: "

static void who_diverges(void **state)
{
    (void)state;
    /* of several clients the first in the cohort, wherever it is */
    says(DIVERGE "[1,1,1,1,1,1,1,1,1e30,1,1e30,1]}", FL_EDIVERGED, "round 1, client 8: the local model");
    says(DIVERGE "[1,1,1,1e30,1,1,1,1,1e30,1,1,1]};algorithm=scaffold;threads=2", FL_EDIVERGED, "round 1, client 3: ");
    says(DIVERGE "[1,1,1,1e30,1,1,1,1,1e30,1,1,1]};model.hidden=[150, 100]", FL_EDIVERGED, "round 1, client 3: ");
    says("model={kind: mlp, hidden: [5]};algorithm=fedasync;participation=everyone;local.lr=1e30", FL_EDIVERGED,
         "the local model");
    /* the model of all: the server's step is too long */
    says("model=softmax;algorithm={kind: scaffold, server_lr: 1e300};rounds=9", FL_EDIVERGED, "the global model");
    says("model=softmax;algorithm={kind: scaffold, server_lr: 30};rounds=90;metrics.every=5;stop.diverged=3",
         FL_EDIVERGED, "the training loss");
}

static void a_users_method(void **state)
{
    static const char *const said[][2] = {
        {"start", "method bad failed in start, round 1: the disk is on fire"},
        {"pose", "method bad failed in pose, client 3, round 3: the disk is on fire"},
        {"answer", "method bad failed in answer, client 3, round 3: the disk is on fire"},
        {"absorb", "method bad failed in absorb, client 3, round 3: the disk is on fire"},
        {"advance", "method bad failed in advance, round 1: the disk is on fire"}};
    fixture *f = *state;
    for (size_t k = 0; k < 5; k++) {
        saboteur s = {.where = said[k][0], .client = 3, .round = 2};
        fl_method m = bad_method(&s);
        assert_ok(f->ctx, fl_method_register(f->ctx, &m));
        says("algorithm=bad;model=softmax;participation=everyone", FL_ECALLBACK, said[k][1]);
        says("algorithm=bad;model=softmax;participation=everyone;threads=2", FL_ECALLBACK, said[k][1]);
        assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", "bad"));
    }
}

static void a_users_asynchronous_method(void **state)
{
    static const char *const said[][2] = {{"start", "method bad failed in start"},
                                          {"pose", "method bad failed in pose, client 3"},
                                          {"absorb", "method bad failed in absorb"}};
    fixture *f = *state;
    for (size_t k = 0; k < 3; k++) {
        saboteur s = {.where = said[k][0], .client = 3, .any = 1};
        fl_method m = bad_async_method(&s);
        assert_ok(f->ctx, fl_method_register(f->ctx, &m));
        says("algorithm=bad;model=softmax;rounds=900;metrics.every=50", FL_ECALLBACK, said[k][1]);
        assert_ok(f->ctx, fl_forget(f->ctx, "algorithm", "bad"));
    }
}

/* A solver that fails at one client: at the others nobody knows why. */
static int bad_solve(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_solution *out, fl_failure *f)
{
    (void)arg, (void)p, (void)z, (void)out;
    if (l->client != 10) return 0;
    fl_failed(f, "no steps today");
    return 1;
}

static void a_users_solver(void **state)
{
    fixture *f = *state;
    fl_solver bad = {.size = sizeof bad, .name = "bad", .title = "fails", .solve = bad_solve};
    assert_ok(f->ctx, fl_solver_register(f->ctx, &bad));
    says("local.solver=bad;model=softmax;participation=everyone", FL_ECALLBACK, "client 10");
    says("local.solver=bad;model=softmax;algorithm=fedasync;rounds=300;metrics.every=30", FL_ECALLBACK,
         "no steps today");
    assert_ok(f->ctx, fl_forget(f->ctx, "solver", "bad"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(other_settings), FIXTURE_TEST(simulated_time),
        FIXTURE_TEST(pseudo_labels),  FIXTURE_TEST(large_cohorts),
        FIXTURE_TEST(sparse_data),    FIXTURE_TEST(who_diverges),
        FIXTURE_TEST(a_users_method), FIXTURE_TEST(a_users_asynchronous_method),
        FIXTURE_TEST(a_users_solver), FIXTURE_TEST(on_a_device),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
