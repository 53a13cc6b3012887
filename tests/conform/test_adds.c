/* FL_METHOD_ADDS: what absorbing adds to the server's sums does not depend on what is there already, and nothing else
 * changes. So sums over parts of a cohort add up to the sums over all of it, up to rounding. */
#include "runs.h"

#include "algo/algo.h"

static const char base[] = "rounds: 3\nseed: 3\nthreads: 1\n"
                           "data: {kind: blobs, classes: 4, features: 6, samples: 120, test_samples: 50}\n"
                           "partition: {kind: iid, clients: 10}\nsystem: {kind: lognormal, jitter: 0.3}\n"
                           "local: {batch: 5, lr: 0.1, uneven: range, range: [1, 3]}\nprecision: f64\n"
                           "model: {kind: mlp, hidden: [3]}\n";

/* The method under test, and what was found. One thread absorbs, into the only slice. */
static const fl_method *watched;
static size_t absorbed, depends, changes;

static double *numbers_of(const fl_coordinator *s, void *const *vec, size_t vectors, const double *scalars,
                          size_t count)
{
    size_t n = s->space.n;
    double *out = calloc(vectors * n + count + 1, sizeof *out);
    for (size_t i = 0; i < vectors; i++) memcpy(out + i * n, vec[i], n * sizeof *out);
    if (count) memcpy(out + vectors * n, scalars, count * sizeof *out);
    return out;
}

/* What the method adds to sums that are zero: the scalar sums behind the vectors. To be freed. */
static double *added_to_nothing(const fl_coordinator *s, const fl_upload *t, size_t sums)
{
    void *vec[8];
    size_t n = s->space.n;
    assert_true(sums <= 8);
    double *out = calloc(sums * n + watched->scalar_sums + 1, sizeof *out);
    for (size_t i = 0; i < sums; i++) vec[i] = out + i * n;
    fl_coordinator empty = *s;
    empty.sum = vec;
    empty.scalar_sum = out + sums * n;
    watched->absorb(&empty, t);
    return out;
}

static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    size_t n = s->space.n, vectors = fli_names_count(watched->server), sums = fli_names_count(watched->sums);
    size_t kept = vectors * n + watched->server_scalars, all = sums * n + watched->scalar_sums;
    double *server = numbers_of(s, s->vec, vectors, s->scalars, watched->server_scalars);
    double *before = numbers_of(s, s->sum, sums, s->scalar_sum, watched->scalar_sums);
    double *alone = added_to_nothing(s, t, sums);
    watched->absorb(s, t);
    double *after = numbers_of(s, s->sum, sums, s->scalar_sum, watched->scalar_sums);
    double *server_after = numbers_of(s, s->vec, vectors, s->scalars, watched->server_scalars);
    for (size_t i = 0; i < all; i++)
        depends += fabs(after[i] - before[i] - alone[i]) > 1e-14 * (fabs(before[i]) + fabs(alone[i]));
    changes += memcmp(server, server_after, kept * sizeof *server) != 0;
    absorbed++;
    free(server);
    free(before);
    free(alone);
    free(after);
    free(server_after);
    return 0;
}

static void watch(fixture *f, const fl_method *a)
{
    char set[400];
    fl_method copy = *a;
    snprintf(set, sizeof set, "algorithm=%s;participation=%s%s", a->name,
             a->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 7}",
             a->traits & FL_METHOD_BILEVEL ? ";bilevel=hyper_representation" : "");
    fl_run *run = run_new(f, base, set);
    fli_exec_spec spec = *fli_exec_spec_of(run->exec);
    spec.slice = SIZE_MAX;
    watched = a;
    absorbed = depends = changes = 0;
    copy.absorb = absorb;
    fli_setup setup = *spec.setup;
    setup.algo = &copy;
    spec.setup = &setup;
    run_anew(f, run, &spec);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    fl_run_free(run);
    assert_true(absorbed >= 3);
}

static void who_adds_only_adds(void **state)
{
    size_t count = 0;
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        if (!((*a)->traits & FL_METHOD_ADDS)) continue;
        watch(*state, *a);
        count++;
        if (depends) fail_msg("%s: what absorb adds depends on what is there", (*a)->name);
        if (changes) fail_msg("%s: absorb changes the server's vectors or scalars", (*a)->name);
    }
    assert_true(count >= 20);
}

static int keeps_the_largest(const fl_coordinator *s, const fl_upload *t)
{
    double *sum = s->sum[0];
    const double *up = t->up[0];
    for (size_t i = 0; i < s->space.n; i++) sum[i] = fmax(sum[i], up[i]);
    return 0;
}

/* What would be seen of a method that says so and does not. */
static void others_are_found_out(void **state)
{
    watch(*state, algo_named("fedasync"));
    assert_true(changes > 0);
    watch(*state, algo_named("fedgia")); /* the largest number of all clients is the server's */
    assert_true(changes > 0);
    fl_method largest = *algo_named("fedavg");
    largest.absorb = keeps_the_largest;
    watch(*state, &largest);
    assert_true(depends > 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(who_adds_only_adds),
        FIXTURE_TEST(others_are_found_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
