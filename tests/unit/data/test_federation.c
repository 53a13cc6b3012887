#include "bound.h"

#include "base/os.h"
#include "data/federation/federation.h"
#include "data/partition/partition.h"
#include "data/source.h"

static fl_ctx *ctx;
static fli_arena arena;

static int setup(void **state)
{
    (void)state;
    ctx = fl_ctx_new();
    fli_arena_init(&arena, ctx);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fli_arena_fini(&arena);
    fl_ctx_free(ctx);
    return 0;
}

#define SOURCE(name, ...)                                                                                              \
    .source = &fli_source_##name,                                                                                      \
    .source_params = bound(&arena, fli_source_##name.keys, fli_source_##name.params_size, __VA_ARGS__)
#define PARTITION(name, ...)                                                                                           \
    .partitioner = &fli_partitioner_##name,                                                                            \
    .partitioner_params = bound(&arena, fli_partitioner_##name.keys, fli_partitioner_##name.params_size, __VA_ARGS__)

/* Sizes add up, and every sample of every client is seen once. */
static void check_views(const fli_fed *fed, size_t stored)
{
    size_t total = 0, largest = 0;
    unsigned char *seen = calloc(stored ? stored : 1, 1);
    for (size_t i = 0; i < fed->clients; i++) {
        fli_view v;
        assert_ok(ctx, fli_view_open(ctx, fed, i, &v));
        size_t n = v.n_train + v.n_unlabelled;
        assert_int_equal(n, fli_fed_size(fed, i));
        assert_int_equal(v.n_unlabelled, fli_fed_unlabelled(fed, i));
        assert_true(v.n_train > 0);
        for (size_t k = 0; stored && k < v.n_train; k++) assert_false(seen[v.train[k]]++);
        for (size_t k = 0; stored && k < v.n_unlabelled; k++) assert_false(seen[v.unlabelled[k]]++);
        for (size_t k = 0; stored && k < v.n_test; k++) assert_false(seen[v.test[k]]++);
        total += n;
        largest = n > largest ? n : largest;
        fli_view_close(&v);
    }
    assert_int_equal(total, fed->samples);
    assert_int_equal(largest, fed->largest);
    free(seen);
}

static void test_every_stored_sample_is_seen(void **state)
{
    (void)state;
    fli_fed_spec spec = {SOURCE(blobs, NULL), PARTITION(dirichlet, NULL), .clients = 10, .seed = 3};
    fli_fed *fed;
    assert_ok(ctx, fli_fed_new(ctx, &spec, &fed));
    assert_int_equal(fed->clients, 10);
    assert_int_equal(fed->samples, 2000);
    assert_int_equal(fed->dim, 20);
    assert_int_equal(fed->classes, 10);
    assert_int_equal(fed->test->n, 500);
    check_views(fed, 2000);
    for (size_t i = 0; i < 10; i++) {
        fli_view v;
        assert_ok(ctx, fli_view_open(ctx, fed, i, &v));
        assert_int_equal(v.n_test, 0);
        for (size_t k = 1; k < v.n_train; k++) assert_true(v.train[k - 1] < v.train[k]);
        fli_view_close(&v);
    }
    fli_view v;
    assert_fails(ctx, fli_view_open(ctx, fed, 10, &v), FL_ECONFIG, "there is no client 10, the federation has 10");
    fli_fed_free(fed);
}

static void test_test_fraction(void **state)
{
    (void)state;
    static const struct {
        const char *samples;
        double fraction;
        size_t each, test;
    } cases[] = {
        {"1000", 0.29, 100, 29}, {"1000", 0.1, 100, 10}, {"90", 0.5, 9, 4}, {"20", 0.99, 2, 1}, {"10", 0.9, 1, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fli_fed_spec spec = {SOURCE(blobs, "samples", cases[c].samples, "test_samples", "0", NULL),
                             PARTITION(iid, NULL), .clients = 10, .seed = 3, .test_fraction = cases[c].fraction};
        fli_fed *fed;
        assert_ok(ctx, fli_fed_new(ctx, &spec, &fed));
        assert_null(fed->test);
        check_views(fed, fed->train->n);
        for (size_t i = 0; i < 10; i++) {
            fli_view v;
            assert_ok(ctx, fli_view_open(ctx, fed, i, &v));
            assert_int_equal(v.n_test, cases[c].test);
            assert_int_equal(v.n_train, cases[c].each - cases[c].test);
            fli_view_close(&v);
        }
        fli_fed_free(fed);
    }
    fli_fed_spec spec = {SOURCE(blobs, NULL), PARTITION(iid, NULL), .clients = 10, .test_fraction = 1};
    fli_fed *fed;
    assert_fails(ctx, fli_fed_new(ctx, &spec, &fed), FL_ECONFIG, "test fraction is 1");
}

/* The same federation, kept and made on demand, shows the same samples in the same order. */
static void test_on_demand_equals_stored(void **state)
{
    (void)state;
    fli_fed_spec spec = {SOURCE(synthetic, NULL), PARTITION(natural, NULL), .seed = 5, .test_fraction = 0.1};
    fli_fed *a, *b;
    assert_ok(ctx, fli_fed_new(ctx, &spec, &a));
    spec.on_demand = 1;
    assert_ok(ctx, fli_fed_new(ctx, &spec, &b));
    assert_null(b->train);
    assert_int_equal(a->clients, b->clients);
    assert_int_equal(a->samples, b->samples);
    assert_int_equal(a->largest, b->largest);
    assert_int_equal(a->dim, b->dim);
    assert_int_equal(a->classes, b->classes);
    check_views(b, 0);
    for (size_t i = 0; i < a->clients; i++) {
        fli_view u, v;
        assert_ok(ctx, fli_view_open(ctx, a, i, &u));
        assert_ok(ctx, fli_view_open(ctx, b, i, &v));
        assert_int_equal(u.n_train, v.n_train);
        assert_int_equal(u.n_test, v.n_test);
        assert_true(u.n_test > 0);
        for (size_t k = 0; k < u.n_train + u.n_test; k++) { /* the test part follows the training part */
            assert_int_equal(u.ds->label[u.train[k]], v.ds->label[v.train[k]]);
            assert_memory_equal((float *)u.ds->x + (size_t)u.train[k] * 60, (float *)v.ds->x + (size_t)v.train[k] * 60,
                                240);
        }
        fli_view_close(&u);
        fli_view_close(&v);
    }
    fli_fed_free(a);
    fli_fed_free(b);
}

static void test_on_demand_a_million(void **state)
{
    (void)state;
    fli_fed_spec spec = {SOURCE(synthetic, "clients", "1000000", NULL), .seed = 5, .test_fraction = 0.1,
                         .on_demand = 1};
    fli_fed *fed;
    double start = fli_clock_now();
    assert_ok(ctx, fli_fed_new(ctx, &spec, &fed));
    assert_true(fli_clock_now() - start < 20); /* a fraction of a second on any machine without sanitisers */
    assert_int_equal(fed->clients, 1000000);
    assert_int_equal(fed->largest, 4500);
    fli_view v;
    assert_ok(ctx, fli_view_open(ctx, fed, 999999, &v));
    assert_int_equal(v.n_train, fli_fed_size(fed, 999999));
    fli_view_close(&v);
    fli_fed_free(fed);
    spec.clients = 17;
    assert_ok(ctx, fli_fed_new(ctx, &spec, &fed));
    assert_int_equal(fed->clients, 17);
    fli_fed_free(fed);
}

static void test_on_demand_refusals(void **state)
{
    (void)state;
    fli_fed_spec spec = {SOURCE(blobs, NULL), PARTITION(iid, NULL), .clients = 10, .on_demand = 1};
    fli_fed *fed;
    assert_fails(ctx, fli_fed_new(ctx, &spec, &fed), FL_ECONFIG,
                 "data blobs cannot make its clients on demand; these can: synthetic");
    fli_fed_spec other = {SOURCE(synthetic, NULL), .clients = 31, .on_demand = 1};
    assert_fails(ctx, fli_fed_new(ctx, &other, &fed), FL_ECONFIG,
                 "31 clients are requested, but data synthetic makes 30");
    other.clients = 0;
    other.normalize = FLI_NORM_STANDARD;
    assert_fails(ctx, fli_fed_new(ctx, &other, &fed), FL_ECONFIG, "normalize must be auto or none");
}

static void test_bytes_are_divided_by_255(void **state)
{
    (void)state;
    fli_fed_spec spec = {SOURCE(digits, "samples", "200", "test_samples", "50", NULL), PARTITION(iid, NULL),
                         .clients = 5};
    fli_fed *fed;
    assert_ok(ctx, fli_fed_new(ctx, &spec, &fed));
    assert_int_equal(fed->train->kind, FLI_X_U8);
    assert_near(fed->train->scale[0], 1.0 / 255, 1e-18);
    assert_near(fed->test->scale[0], 1.0 / 255, 1e-18);
    fli_fed_free(fed);
}

/* ---- labels taken away ------------------------------------------------------------------------------------- */

/* Who lost its label, of all stored samples; also that exactly the unlabelled ones did, and what it was, by a
 * federation that has all. */
static unsigned char *hidden(const fli_fed *fed, const fli_fed *whole)
{
    unsigned char *out = calloc(fed->train->n, 1);
    for (size_t i = 0; i < fed->clients; i++) {
        fli_view v;
        assert_ok(ctx, fli_view_open(ctx, fed, i, &v));
        for (size_t k = 0; k < v.n_unlabelled; k++) out[v.unlabelled[k]] = 1;
        fli_view_close(&v);
    }
    for (size_t s = 0; s < fed->train->n; s++) {
        assert_int_equal(fed->train->label[s], out[s] ? -1 : whole->train->label[s]);
        assert_int_equal(fli_fed_truth(fed, (uint32_t)s), whole->train->label[s]);
        assert_int_equal(fli_fed_truth(whole, (uint32_t)s), whole->train->label[s]);
    }
    return out;
}

static int has(const uint32_t *v, size_t n, uint32_t sample)
{
    for (size_t k = 0; k < n; k++)
        if (v[k] == sample) return 1;
    return 0;
}

static void test_only_training_labels_are_hidden(void **state)
{
    (void)state;
    static const struct {
        const char *samples;
        double test, fraction;
        size_t labelled, unlabelled;
    } cases[] = {{"1000", 0.1, 0.9, 9, 81}, {"1000", 0, 0.29, 71, 29}, {"30", 0, 0.5, 2, 1}, {"30", 0, 0.99, 1, 2},
                 {"20", 0.5, 0.9, 1, 0},    {"10", 0, 0.9999, 1, 0},   {"90", 0, 0.1, 9, 0}};
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fli_fed_spec spec = {SOURCE(blobs, "samples", cases[c].samples, "test_samples", "20", NULL),
                             PARTITION(iid, NULL), .clients = 10, .seed = 3, .test_fraction = cases[c].test};
        fli_fed *whole, *fed;
        assert_ok(ctx, fli_fed_new(ctx, &spec, &whole));
        spec.unlabelled = cases[c].fraction;
        assert_ok(ctx, fli_fed_new(ctx, &spec, &fed));
        check_views(fed, fed->train->n);
        assert_int_equal(whole->samples, fed->samples);
        for (size_t i = 0; i < 10; i++) {
            fli_view u, v;
            assert_ok(ctx, fli_view_open(ctx, whole, i, &u));
            assert_ok(ctx, fli_view_open(ctx, fed, i, &v));
            assert_int_equal(u.n_unlabelled, 0);
            assert_int_equal(v.n_train, cases[c].labelled);
            assert_int_equal(v.n_unlabelled, cases[c].unlabelled);
            assert_int_equal(u.n_test, v.n_test); /* the test part stays as it was, labels and all */
            for (size_t k = 0; k < v.n_test; k++) assert_int_equal(u.test[k], v.test[k]);
            for (size_t k = 0; k < u.n_train; k++)
                assert_true(has(v.train, v.n_train, u.train[k]) != has(v.unlabelled, v.n_unlabelled, u.train[k]));
            fli_view_close(&u);
            fli_view_close(&v);
        }
        for (size_t k = 0; k < fed->test->n; k++) assert_true(fed->test->label[k] >= 0);
        free(hidden(fed, whole));
        fli_fed_free(whole);
        fli_fed_free(fed);
    }
}

/* A function of the seed and the client; not of who else is there, nor of the labels. */
static void test_unlabelled_is_drawn_by_client(void **state)
{
    (void)state;
    fli_fed_spec spec = {SOURCE(synthetic, NULL), PARTITION(natural, NULL), .seed = 5, .test_fraction = 0.2};
    fli_fed *whole, *fed, *again, *other, *few;
    assert_ok(ctx, fli_fed_new(ctx, &spec, &whole));
    spec.unlabelled = 0.7;
    assert_ok(ctx, fli_fed_new(ctx, &spec, &fed));
    assert_ok(ctx, fli_fed_new(ctx, &spec, &again));
    spec.clients = 4;
    assert_ok(ctx, fli_fed_new(ctx, &spec, &few));
    spec.clients = 0;
    spec.seed = 6;
    assert_ok(ctx, fli_fed_new(ctx, &spec, &other));
    size_t samples = fed->part.start[fed->clients];
    assert_memory_equal(fed->part.index, again->part.index, samples * sizeof(uint32_t));
    assert_memory_equal(fed->train->label, again->train->label, fed->train->n * sizeof(int32_t));
    for (size_t i = 0; i < 4; i++) {
        fli_view u, v;
        assert_ok(ctx, fli_view_open(ctx, fed, i, &u));
        assert_ok(ctx, fli_view_open(ctx, few, i, &v));
        assert_int_equal(u.n_unlabelled, v.n_unlabelled);
        assert_memory_equal(u.unlabelled, v.unlabelled, u.n_unlabelled * sizeof *u.unlabelled);
        fli_view_close(&u);
        fli_view_close(&v);
    }
    unsigned char *a = hidden(fed, whole);
    size_t first = fli_fed_size(fed, 0), early = 0, same = 0;
    for (size_t k = 0; k < first; k++) early += a[k];
    assert_true(early < first); /* not simply the first or the last ones as they are stored */
    for (size_t k = 0; k < 3; k++) same += fed->part.index[k] == other->part.index[k];
    assert_true(same < 3);
    free(a);
    fli_fed_free(whole);
    fli_fed_free(fed);
    fli_fed_free(again);
    fli_fed_free(few);
    fli_fed_free(other);
}

static void test_unlabelled_refusals(void **state)
{
    (void)state;
    static const double wrong[] = {1, 1.5, -0.1, NAN};
    fli_fed *fed;
    for (size_t k = 0; k < 4; k++) {
        fli_fed_spec spec = {SOURCE(blobs, NULL), PARTITION(iid, NULL), .clients = 10, .unlabelled = wrong[k]};
        assert_fails(ctx, fli_fed_new(ctx, &spec, &fed), FL_ECONFIG, "must be at least 0 and below 1");
        assert_null(fed);
    }
    fli_fed_spec regression = {SOURCE(linreg, NULL), PARTITION(natural, NULL), .unlabelled = 0.5};
    assert_fails(ctx, fli_fed_new(ctx, &regression, &fed), FL_ECONFIG,
                 "data.unlabelled is 0.5, but a regression has no labels");
    fli_fed_spec demand = {SOURCE(synthetic, NULL), .unlabelled = 0.5, .on_demand = 1};
    assert_fails(ctx, fli_fed_new(ctx, &demand, &fed), FL_ECONFIG, "data.unlabelled must be 0");
}

/* ---- taken parts ------------------------------------------------------------------------------------------- */

static fli_partition two_clients(uint32_t last)
{
    fli_partition p = {2, fli_alloc(ctx, 3, sizeof(size_t)), fli_alloc(ctx, 4, sizeof(uint32_t))};
    p.start[1] = 3;
    p.start[2] = 4;
    for (uint32_t k = 0; k < 3; k++) p.index[k] = k;
    p.index[3] = last;
    return p;
}

static fli_dataset *small(size_t dim, size_t classes)
{
    fli_dataset *ds;
    assert_ok(ctx, fli_dataset_new(ctx, FLI_X_F64, 5, dim, classes, &ds));
    return ds;
}

static void test_a_federation_takes_given_parts(void **state)
{
    (void)state;
    fli_fed *fed;
    fli_partition p = two_clients(4);
    assert_ok(ctx, fli_fed_take(ctx, small(3, 2), small(3, 4), &p, &fed));
    assert_null(p.start);
    assert_int_equal(fed->clients, 2);
    assert_int_equal(fed->samples, 4);
    assert_int_equal(fed->largest, 3);
    assert_int_equal(fed->classes, 4);
    assert_int_equal(fli_fed_size(fed, 1), 1);
    fli_fed_free(fed);
    fli_fed_free(NULL);
}

static void test_hidden_labels_are_still_known(void **state)
{
    (void)state;
    fli_fed *fed;
    fli_partition p = two_clients(4);
    fli_dataset *ds = small(3, 2);
    ds->label[1] = ds->label[2] = 1;
    assert_ok(ctx, fli_fed_take(ctx, ds, NULL, &p, &fed));
    assert_ok(ctx, fli_fed_hide(ctx, fed, (uint32_t[]){2, 0}));
    static const int32_t shown[] = {0, -1, -1, 0, 0}, truth[] = {0, 1, 1, 0, 0};
    for (uint32_t k = 0; k < 5; k++) {
        assert_int_equal(fed->train->label[k], shown[k]);
        assert_int_equal(fli_fed_truth(fed, k), truth[k]);
    }
    check_views(fed, 5);
    fli_fed_free(fed);
    p = two_clients(4);
    assert_ok(ctx, fli_fed_take(ctx, small(3, 2), NULL, &p, &fed));
    assert_fails(ctx, fli_fed_hide(ctx, fed, (uint32_t[]){2, 1}), FL_ECONFIG, "client 1 has no labelled sample");
    fli_fed_free(fed);
}

static void test_take_refuses(void **state)
{
    (void)state;
    fli_fed *fed;
    fli_partition p = two_clients(5);
    assert_fails(ctx, fli_fed_take(ctx, small(3, 2), NULL, &p, &fed), FL_ECONFIG,
                 "client 1 has sample 5, but there are only 5");
    assert_null(fed);
    p = two_clients(3);
    p.start[2] = 3;
    assert_fails(ctx, fli_fed_take(ctx, small(3, 2), NULL, &p, &fed), FL_ECONFIG, "client 1 has no samples");
    p = two_clients(3);
    assert_fails(ctx, fli_fed_take(ctx, small(3, 2), small(4, 2), &p, &fed), FL_EFORMAT,
                 "3 features, but the test samples 4");
    p = two_clients(3);
    assert_fails(ctx, fli_fed_take(ctx, small(3, 2), small(3, 0), &p, &fed), FL_EFORMAT, "both have classes");
    fli_dataset *sparse = small(3, 2);
    sparse->kind = FLI_X_CSR;
    p = two_clients(3);
    assert_fails(ctx, fli_fed_take(ctx, small(3, 2), sparse, &p, &fed), FL_EFORMAT, "both be sparse or both dense");
    fli_dataset *wrong = small(3, 2);
    wrong->label[2] = 2;
    p = two_clients(3);
    assert_fails(ctx, fli_fed_take(ctx, wrong, NULL, &p, &fed), FL_EFORMAT, "label 2");
}

/* ---- out of memory ----------------------------------------------------------------------------------------- */

static void torture(const fli_fed_spec *spec)
{
    for (size_t k = 1;; k++) {
        fli_fed *fed = NULL;
        fli_view v = {0};
        fli_ctx_fail_alloc(ctx, k);
        fl_status s = fli_fed_new(ctx, spec, &fed);
        if (!s) s = fli_view_open(ctx, fed, 1, &v);
        fli_ctx_fail_alloc(ctx, 0);
        if (!s) fli_view_close(&v);
        fli_fed_free(fed);
        if (!s) {
            assert_true(k > 5);
            return;
        }
        assert_int_equal(s, FL_ENOMEM);
        assert_true(k < 60);
        fli_clear(ctx);
    }
}

static void test_failing_allocations_are_reported(void **state)
{
    (void)state;
    fli_fed_spec stored = {SOURCE(blobs, NULL), PARTITION(mixture, NULL), .clients = 10, .test_fraction = 0.2,
                           .normalize = FLI_NORM_STANDARD};
    fli_fed_spec demand = {SOURCE(synthetic, NULL), .test_fraction = 0.2, .on_demand = 1};
    torture(&stored);
    torture(&demand);
    stored.unlabelled = 0.5;
    torture(&stored);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_stored_sample_is_seen),
        cmocka_unit_test(test_test_fraction),
        cmocka_unit_test(test_on_demand_equals_stored),
        cmocka_unit_test(test_on_demand_a_million),
        cmocka_unit_test(test_on_demand_refusals),
        cmocka_unit_test(test_bytes_are_divided_by_255),
        cmocka_unit_test(test_only_training_labels_are_hidden),
        cmocka_unit_test(test_unlabelled_is_drawn_by_client),
        cmocka_unit_test(test_unlabelled_refusals),
        cmocka_unit_test(test_a_federation_takes_given_parts),
        cmocka_unit_test(test_hidden_labels_are_still_known),
        cmocka_unit_test(test_take_refuses),
        cmocka_unit_test(test_failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
