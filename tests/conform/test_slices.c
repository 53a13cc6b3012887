/* The server's vectors are cut into slices, which several threads absorb into while others still train: every method
 * has the same bits with slices of a few entries as with none, whatever the number of threads. */
#include "runs.h"

#include "algo/algo.h"

static const char base[] = "rounds: 4\nseed: 3\nthreads: 3\n"
                           "data: {kind: blobs, classes: 4, features: 6, samples: 400, test_samples: 50}\n"
                           "partition: {kind: iid, clients: 40}\nsystem: {kind: lognormal, jitter: 0.3}\n"
                           "local: {batch: 5, lr: 0.1, uneven: range, range: [1, 3]}\n";

/* The model at the end, of a run by this method with slices of this many entries; to be freed. */
static double *model_of(fixture *f, const fl_method *a, const char *more, size_t slice, size_t *n)
{
    char set[400];
    snprintf(set, sizeof set, "algorithm=%s;participation=%s;%s%s", a->name,
             a->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 30}",
             a->traits & FL_METHOD_BILEVEL ? "bilevel=hyper_representation;" : "", more);
    fl_run *run = run_new(f, base, set);
    fli_exec_spec spec = *fli_exec_spec_of(run->exec);
    spec.slice = slice;
    fli_setup setup = *spec.setup;
    setup.algo = a;
    spec.setup = &setup;
    run_anew(f, run, &spec);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    *n = fl_run_parameters(run);
    double *x = malloc(*n * sizeof *x);
    assert_int_equal(fl_run_model(run, x, *n), *n);
    fl_run_free(run);
    return x;
}

/* Whether slices of 3 and of 16 entries end where none at all does. */
static int same_bits(fixture *f, const fl_method *a, const char *more)
{
    size_t n, m;
    double *whole = model_of(f, a, more, SIZE_MAX, &n);
    int same = 1;
    for (size_t slice = 3; slice <= 16; slice += 13) {
        double *sliced = model_of(f, a, more, slice, &m);
        assert_true(m == n && n > 2 * slice);
        same = same && !memcmp(whole, sliced, n * sizeof *whole);
        free(sliced);
    }
    free(whole);
    return same;
}

static void every_algorithm(void **state)
{
    static const char *const ways[] = {"model={kind: mlp, hidden: [9]}",
                                       "model={kind: mlp, hidden: [9]};precision=f64"};
    for (const fl_method *const *a = fli_algo_list; *a; a++)
        for (size_t k = 0; k < 2; k++)
            if (!same_bits(*state, *a, ways[k])) fail_msg("%s, %s: slices give other bits", (*a)->name, ways[k]);
}

/* A prox may look at all entries: here it is the projection onto a ball. */
static void with_a_regulariser(void **state)
{
    for (const fl_method *const *a = fli_algo_list; *a; a++)
        if ((*a)->traits & FL_METHOD_COMPOSITE)
            assert_true(same_bits(*state, *a, "model={kind: mlp, hidden: [9]};regularizer={kind: l2_ball, radius: 1}"));
}

/* Clients that fail in the middle of a cohort: the first in the cohort is named, whoever was first in time. */
static void a_failing_client(void **state)
{
    fixture *f = *state;
    char said[2][400];
    for (size_t k = 0; k < 2; k++) {
        char set[300];
        snprintf(
            set, sizeof set,
            "participation=everyone;model={kind: mlp, hidden: [9]};threads=%d;local={lr: 0.1, batch: 5, lr_factors: "
            "[1,1,1,1,1,1,1,1,1,1,1,1e30,1,1,1e30,1,1,1,1,1,1,1,1,1,1e30,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1]}",
            k ? 8 : 1);
        fl_run *run = run_new(f, base, set);
        fli_exec_spec spec = *fli_exec_spec_of(run->exec);
        spec.slice = k ? 3 : SIZE_MAX;
        run_anew(f, run, &spec);
        assert_int_equal(fl_run_go(run, NULL, NULL), FL_EDIVERGED);
        snprintf(said[k], sizeof said[k], "%s", fl_ctx_error(f->ctx));
        assert_non_null(strstr(said[k], "round 1, client 11:"));
        fl_run_free(run);
    }
    assert_string_equal(said[0], said[1]);
}

/* A step of the server's that is too long is noticed in the round itself, whichever slice it is in. */
static void slices_that_are_not_finite(void **state)
{
    fixture *f = *state;
    for (size_t k = 0; k < 2; k++) {
        fl_run *run =
            run_new(f, base, "model=softmax;participation=everyone;algorithm={kind: fedavg, server_lr: 1e40}");
        fli_exec_spec spec = *fli_exec_spec_of(run->exec);
        spec.slice = k ? 3 : SIZE_MAX;
        run_anew(f, run, &spec);
        assert_fails(f->ctx, fl_run_go(run, NULL, NULL), FL_EDIVERGED, "round 1: the global model is no longer finite");
        fl_run_free(run);
    }
}

/* ---- methods that break the rule are found ---------------------------------------------------------------- */

static const fl_method *honest(void)
{
    for (const fl_method *const *a = fli_algo_list;; a++)
        if (!fli_algo_is_async(*a) && !((*a)->traits & (FL_METHOD_BILEVEL | FL_METHOD_EVERYONE)) && (*a)->sums)
            return *a;
}

static int absorb_by_length(const fl_coordinator *s, const fl_upload *t)
{
    honest()->absorb(s, t);
    fli_scale(&s->space, 1 / (1 + fli_dot(&s->space, s->sum[0], s->sum[0])), s->sum[0]);
    return 0;
}

static int advance_by_length(const fl_coordinator *s)
{
    honest()->advance(s);
    fli_scale(&s->space, 1 / (1 + fli_dot(&s->space, s->vec[0], s->vec[0])), s->vec[0]);
    return 0;
}

static void inner_products_are_found(void **state)
{
    const char *model = "model={kind: mlp, hidden: [9]}";
    fl_method a = *honest();
    assert_true(same_bits(*state, &a, model));
    a.absorb = absorb_by_length;
    assert_false(same_bits(*state, &a, model));
    a = *honest();
    a.advance = advance_by_length;
    assert_false(same_bits(*state, &a, model));
    a.traits |= FL_METHOD_WHOLE_ADVANCE; /* which is how one says so */
    assert_true(same_bits(*state, &a, model));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_algorithm),          FIXTURE_TEST(with_a_regulariser),
        FIXTURE_TEST(a_failing_client),         FIXTURE_TEST(slices_that_are_not_finite),
        FIXTURE_TEST(inner_products_are_found),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
