#include "bound.h"

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

#define PARAMS(source, ...) bound(&arena, fli_source_##source.keys, fli_source_##source.params_size, __VA_ARGS__)

static void load(const fli_source *s, const void *p, uint64_t seed, fli_dataset **train, fli_dataset **test)
{
    *train = *test = NULL;
    assert_ok(ctx, s->load(ctx, &(fli_source_request){.params = p, .seed = seed}, train, test));
    assert_ok(ctx, fli_dataset_check(ctx, *train, s->name));
    if (*test) assert_ok(ctx, fli_dataset_check(ctx, *test, s->name));
}

/* ---- all generators --------------------------------------------------------------------------------------- */

static size_t bytes_of(const fli_dataset *ds)
{
    static const size_t size[] = {[FLI_X_U8] = 1, [FLI_X_F32] = 4, [FLI_X_F64] = 8};
    return ds->n * ds->dim * size[ds->kind];
}

static void test_same_seed_same_samples(void **state)
{
    (void)state;
    for (const fli_source *const *s = fli_source_list; *s; s++) {
        fli_dataset *a, *b, *c, *ta, *tb, *tc;
        if ((*s)->needs || !(*s)->load) continue;
        void *p = bound(&arena, (*s)->keys, (*s)->params_size, NULL);
        load(*s, p, 7, &a, &ta);
        load(*s, p, 7, &b, &tb);
        load(*s, p, 8, &c, &tc);
        assert_int_equal(a->n, b->n);
        assert_memory_equal(a->x, b->x, bytes_of(a));
        assert_true(a->n != c->n || memcmp(a->x, c->x, bytes_of(a)) != 0);
        if (ta) assert_memory_equal(ta->x, tb->x, bytes_of(ta));
        /* the test part is not the beginning of the training part */
        if (ta) assert_memory_not_equal(ta->x, a->x, bytes_of(ta) < bytes_of(a) ? bytes_of(ta) : bytes_of(a));
        fli_dataset *all[] = {a, b, c, ta, tb, tc};
        for (size_t i = 0; i < 6; i++) fli_dataset_free(all[i]);
    }
}

static void test_failing_allocations_are_reported(void **state)
{
    (void)state;
    for (const fli_source *const *s = fli_source_list; *s; s++) {
        if ((*s)->needs || !(*s)->load) continue;
        void *p = bound(&arena, (*s)->keys, (*s)->params_size, NULL);
        for (size_t k = 1;; k++) {
            fli_dataset *train = NULL, *test = NULL;
            fli_ctx_fail_alloc(ctx, k);
            fl_status status = (*s)->load(ctx, &(fli_source_request){.params = p, .seed = 1}, &train, &test);
            fli_ctx_fail_alloc(ctx, 0);
            if (status == FL_OK) {
                fli_dataset_free(train);
                fli_dataset_free(test);
                break;
            }
            assert_int_equal(status, FL_ENOMEM);
            assert_null(train);
            assert_null(test);
            assert_true(k < 20);
            fli_clear(ctx);
        }
    }
}

/* ---- synthetic -------------------------------------------------------------------------------------------- */

static void test_synthetic_on_demand_equals_load(void **state)
{
    (void)state;
    static const char *const iid[] = {"false", "true"};
    for (int v = 0; v < 2; v++) {
        const fli_source *s = &fli_source_synthetic;
        void *p = PARAMS(synthetic, "clients", "12", "iid", iid[v], NULL);
        fli_dataset *all, *test;
        load(s, p, 3, &all, &test);
        assert_null(test);
        assert_int_equal(all->groups, 12);
        assert_int_equal(s->clients(p), 12);
        size_t row = 0;
        for (uint32_t k = 0; k < 12; k++) {
            fli_dataset *one = NULL;
            assert_ok(ctx, s->client(ctx, p, 3, k, &one));
            assert_int_equal(one->n, s->client_size(p, 3, k));
            assert_memory_equal(one->x, (float *)all->x + row * 60, one->n * 60 * sizeof(float));
            assert_memory_equal(one->label, all->label + row, one->n * sizeof(int32_t));
            for (size_t i = 0; i < one->n; i++) assert_int_equal(all->group[row + i], k);
            row += one->n;
            fli_dataset_free(one);
        }
        assert_int_equal(row, all->n);
        fli_dataset_free(all);
    }
}

static void test_synthetic_sizes(void **state)
{
    (void)state;
    const fli_source *s = &fli_source_synthetic;
    void *p = PARAMS(synthetic, "clients", "4000", NULL), *f = PARAMS(synthetic, "sizes", "fixed", "size", "33", NULL);
    size_t below = 0, capped = 0;
    for (uint32_t k = 0; k < 4000; k++) {
        size_t n = s->client_size(p, 1, k);
        assert_in_range(n, 50, 5000);
        below += n < 50 + 54; /* int(e^4) = 54 is the median of what is added */
        capped += n == 5000;
    }
    assert_near((double)below / 4000, 0.5, 0.04);
    assert_near((double)capped / 4000, 0.0122, 0.006); /* P(4 + 2z >= ln 4950) = P(z >= 2.25) */
    assert_int_equal(s->client_size(f, 1, 9), 33);
}

/* Features of one client have the variances j^-1.2 around the client's own means. */
static void test_synthetic_moments(void **state)
{
    (void)state;
    void *p = PARAMS(synthetic, "sizes", "fixed", "size", "20000", NULL);
    fli_dataset *ds;
    assert_ok(ctx, fli_source_synthetic.client(ctx, p, 5, 2, &ds));
    const float *x = ds->x;
    for (size_t j = 0; j < 60; j += 7) {
        double sum = 0, sum2 = 0, n = (double)ds->n;
        for (size_t i = 0; i < ds->n; i++) sum += (double)x[i * 60 + j];
        for (size_t i = 0; i < ds->n; i++)
            sum2 += ((double)x[i * 60 + j] - sum / n) * ((double)x[i * 60 + j] - sum / n);
        double want = pow((double)j + 1, -1.2);
        assert_near(sum2 / n / want, 1, 0.05);
    }
    fli_dataset_free(ds);
}

/* The mean over clients of |mean of inputs| grows with beta; for iid all means are near 0. */
static double input_offset(const char *beta, const char *iid)
{
    void *p = PARAMS(synthetic, "clients", "40", "beta", beta, "iid", iid, "sizes", "fixed", "size", "200", NULL);
    double total = 0;
    for (uint32_t k = 0; k < 40; k++) {
        fli_dataset *ds;
        double sum = 0;
        assert_ok(ctx, fli_source_synthetic.client(ctx, p, 9, k, &ds));
        for (size_t i = 0; i < ds->n * ds->dim; i++) sum += (double)((float *)ds->x)[i];
        total += fabs(sum / (double)(ds->n * ds->dim));
        fli_dataset_free(ds);
    }
    return total / 40;
}

static void test_synthetic_heterogeneity(void **state)
{
    (void)state;
    double none = input_offset("0", "false"), much = input_offset("2", "false"), iid = input_offset("2", "true");
    assert_near(much, 2 * sqrt(2 / 3.14159265), 0.5); /* E|N(0, 2^2)| */
    assert_near(none, sqrt(2 / 3.14159265 / 60), 0.04);
    assert_true(iid < 0.02);
}

/* With iid, one linear rule labels all clients: a sample of one client gets the same label from what others show.
 * Here: no client's most frequent class may depend on the client as strongly as without iid. */
static double share_of_top_class(const char *iid)
{
    void *p = PARAMS(synthetic, "clients", "30", "iid", iid, "sizes", "fixed", "size", "200", NULL);
    double total = 0;
    for (uint32_t k = 0; k < 30; k++) {
        fli_dataset *ds;
        size_t count[10] = {0}, top = 0;
        assert_ok(ctx, fli_source_synthetic.client(ctx, p, 4, k, &ds));
        for (size_t i = 0; i < ds->n; i++) count[ds->label[i]]++;
        for (size_t c = 0; c < 10; c++) top = count[c] > top ? count[c] : top;
        total += (double)top / (double)ds->n;
        fli_dataset_free(ds);
    }
    return total / 30;
}

static void test_synthetic_labels(void **state)
{
    (void)state;
    assert_true(share_of_top_class("true") < 0.35);
    assert_true(share_of_top_class("false") > 0.6);
}

static void test_synthetic_too_large_to_keep(void **state)
{
    (void)state;
    void *p = PARAMS(synthetic, "clients", "1000", "sizes", "fixed", "size", "1e7", NULL);
    fli_dataset *train = NULL, *test = NULL;
    assert_fails(ctx, fli_source_synthetic.load(ctx, &(fli_source_request){.params = p, .seed = 1}, &train, &test),
                 FL_ECONFIG, "on demand");
}

/* ---- linreg ------------------------------------------------------------------------------------------------ */

static void test_linreg_mixes_three_distributions(void **state)
{
    (void)state;
    fli_dataset *ds, *test;
    load(&fli_source_linreg, PARAMS(linreg, NULL), 11, &ds, &test);
    assert_null(test);
    assert_int_equal(ds->groups, 64);
    assert_int_equal(ds->dim, 100);
    size_t size[64] = {0}, beyond5 = 0, within = 0;
    for (size_t i = 0; i < ds->n; i++) size[ds->group[i]]++;
    for (size_t k = 0; k < 64; k++) assert_in_range(size[k], 50, 150);
    assert_near((double)ds->n / 64, 100, 15);

    const double *x = ds->x;
    double sum = 0, sum2 = 0, targets2 = 0, cross = 0, count = (double)(ds->n * ds->dim);
    for (size_t i = 0; i < ds->n; i++) {
        double largest = 0, row2 = 0;
        for (size_t j = 0; j < 100; j++) {
            double v = x[i * 100 + j];
            sum += v;
            row2 += v * v;
            largest = fmax(largest, fabs(v));
        }
        sum2 += row2;
        targets2 += ds->target[i] * ds->target[i];
        cross += ds->target[i] * x[i * 100];
        within += row2 / 100 > 5; /* only uniform rows have variance 25/3 */
        beyond5 += largest > 5.5; /* only Student rows */
    }
    double variance = (1 + 5.0 / 3 + 25.0 / 3) / 3;
    assert_near(sum / count, 0, 0.03);
    assert_near(sum2 / count / variance, 1, 0.05);
    assert_near(targets2 / (double)ds->n / variance, 1, 0.08);
    assert_near(cross / (double)ds->n / variance, 0, 0.06);
    assert_near((double)within / (double)ds->n, 1.0 / 3, 0.02);
    assert_true(beyond5 > 0.03 * (double)ds->n);
    fli_dataset_free(ds);
}

static void test_linreg_shuffles_over_clients(void **state)
{
    (void)state;
    fli_dataset *ds, *test;
    load(&fli_source_linreg, PARAMS(linreg, "clients", "6", "min_size", "150", NULL), 2, &ds, &test);
    size_t uniform[6] = {0};
    assert_int_equal(ds->n, 900);
    for (size_t i = 0; i < ds->n; i++) {
        double row2 = 0;
        for (size_t j = 0; j < 100; j++) row2 += ((double *)ds->x)[i * 100 + j] * ((double *)ds->x)[i * 100 + j];
        uniform[ds->group[i]] += row2 / 100 > 5;
    }
    for (size_t k = 0; k < 6; k++) assert_in_range(uniform[k], 30, 70); /* 50 expected */
    fli_dataset_free(ds);
    void *p = PARAMS(linreg, "min_size", "200", NULL);
    assert_fails(ctx, fli_source_linreg.load(ctx, &(fli_source_request){.params = p, .seed = 1}, &ds, &test),
                 FL_ECONFIG, "min_size 200 is larger than max_size 150");
}

/* Rows of variance 25/3 are uniform, others with an entry beyond 5.5 Student's; of the 300 entries of a Student row one
 * at least is with probability 0.56. */
static void test_linreg_in_blocks(void **state)
{
    (void)state;
    double uniform = 0, beyond = 0;
    for (uint64_t seed = 1; seed <= 12; seed++) {
        fli_dataset *ds, *test;
        load(&fli_source_linreg, PARAMS(linreg, "features", "300", "mix", "blocks", NULL), seed, &ds, &test);
        size_t wide = 0, far = 0;
        for (size_t i = 0; i < ds->n; i++) {
            double largest = 0, row2 = 0;
            for (size_t j = 0; j < 300; j++) {
                double v = ((double *)ds->x)[i * 300 + j];
                row2 += v * v;
                largest = fmax(largest, fabs(v));
            }
            wide += row2 / 300 > 5;
            far += largest > 5.5;
        }
        uniform += (double)wide / (double)ds->n / 12;
        beyond += (double)far / (double)ds->n / 12;
        fli_dataset_free(ds);
    }
    assert_near(uniform, 0.31, 0.015);
    assert_near(beyond / 0.56, 0.28, 0.03);
}

/* ---- classifying by the nearest centroid ------------------------------------------------------------------- */

static double centroid_accuracy(const fli_dataset *train, const fli_dataset *test)
{
    size_t dim = train->dim, right = 0;
    double *centre = calloc(train->classes * dim, sizeof *centre), *row = calloc(dim, sizeof *row);
    size_t *count = calloc(train->classes, sizeof *count);
    for (size_t i = 0; i < train->n; i++) {
        fli_dataset_row(train, i, row);
        count[train->label[i]]++;
        for (size_t j = 0; j < dim; j++) centre[(size_t)train->label[i] * dim + j] += row[j];
    }
    for (size_t k = 0; k < train->classes; k++) {
        assert_true(count[k] > 0);
        for (size_t j = 0; j < dim; j++) centre[k * dim + j] /= (double)count[k];
    }
    for (size_t i = 0; i < test->n; i++) {
        double best = INFINITY;
        size_t guess = 0;
        fli_dataset_row(test, i, row);
        for (size_t k = 0; k < train->classes; k++) {
            double d = 0;
            for (size_t j = 0; j < dim; j++) d += (row[j] - centre[k * dim + j]) * (row[j] - centre[k * dim + j]);
            if (d < best) best = d, guess = k;
        }
        right += guess == (size_t)test->label[i];
    }
    free(centre);
    free(row);
    free(count);
    return (double)right / (double)test->n;
}

static double blobs_accuracy(const char *spread)
{
    fli_dataset *train, *test;
    load(&fli_source_blobs, PARAMS(blobs, "spread", spread, "features", "50", NULL), 1, &train, &test);
    double v = centroid_accuracy(train, test), sum2 = 0;
    for (size_t i = 0; i < train->n * 50; i++) sum2 += (double)((float *)train->x)[i] * (double)((float *)train->x)[i];
    assert_near(sum2 / (double)(train->n * 50), 1, 0.15);
    fli_dataset_free(train);
    fli_dataset_free(test);
    return v;
}

static void test_blobs_blur_with_their_spread(void **state)
{
    (void)state;
    assert_true(blobs_accuracy("0.05") == 1);
    double middle = blobs_accuracy("0.25");
    assert_true(middle > 0.8 && middle < 0.99);
    assert_true(blobs_accuracy("2") < 0.35);
}

static void test_digits_do_not_depend_on_count(void **state)
{
    (void)state;
    fli_dataset *train, *test;
    load(&fli_source_digits, PARAMS(digits, "samples", "2000", NULL), 1, &train, &test);
    assert_int_equal(train->kind, FLI_X_U8);
    assert_int_equal(train->dim, 784);
    assert_int_equal(train->shape[1], 28);
    double v = centroid_accuracy(train, test);
    assert_true(v > 0.45 && v < 0.9);
    fli_dataset_free(train);
    fli_dataset_free(test);
    /* image s does not depend on how many there are */
    fli_dataset *few, *none;
    load(&fli_source_digits, PARAMS(digits, "samples", "2000", NULL), 1, &train, &test);
    load(&fli_source_digits, PARAMS(digits, "samples", "20", "test_samples", "0", NULL), 1, &few, &none);
    assert_null(none);
    assert_memory_equal(few->x, train->x, 20 * 784);
    fli_dataset_free(few);
    fli_dataset_free(train);
    fli_dataset_free(test);
}

/* Without jitter and noise, a digit is one of its few glyphs, clear of the border. */
static void test_digits_plain(void **state)
{
    (void)state;
    fli_dataset *ds, *none;
    load(&fli_source_digits, PARAMS(digits, "samples", "30", "test_samples", "0", "jitter", "0", "noise", "0", NULL), 1,
         &ds, &none);
    const uint8_t *x = ds->x;
    assert_memory_equal(x, x + 10 * 784, 784); /* 0 has one glyph */
    assert_memory_equal(x + 8 * 784, x + 18 * 784, 784);
    for (size_t i = 0; i < 10; i++) {
        size_t ink = 0;
        for (size_t y = 0; y < 28; y++)
            for (size_t c = 0; c < 28; c++) {
                uint8_t v = x[i * 784 + y * 28 + c];
                ink += v > 128;
                if (y == 0 || y == 27 || c == 0 || c == 27) assert_int_equal(v, 0);
            }
        assert_in_range(ink, 25, 250);
    }
    assert_int_equal(x[14 * 28 + 14], 0);         /* 0 is hollow */
    assert_true(x[8 * 784 + 14 * 28 + 14] > 200); /* 8 crosses in the middle */
    fli_dataset_free(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_seed_same_samples),
        cmocka_unit_test(test_failing_allocations_are_reported),
        cmocka_unit_test(test_synthetic_on_demand_equals_load),
        cmocka_unit_test(test_synthetic_sizes),
        cmocka_unit_test(test_synthetic_moments),
        cmocka_unit_test(test_synthetic_heterogeneity),
        cmocka_unit_test(test_synthetic_labels),
        cmocka_unit_test(test_synthetic_too_large_to_keep),
        cmocka_unit_test(test_linreg_mixes_three_distributions),
        cmocka_unit_test(test_linreg_shuffles_over_clients),
        cmocka_unit_test(test_linreg_in_blocks),
        cmocka_unit_test(test_blobs_blur_with_their_spread),
        cmocka_unit_test(test_digits_do_not_depend_on_count),
        cmocka_unit_test(test_digits_plain),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
