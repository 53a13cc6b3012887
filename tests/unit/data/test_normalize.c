#include "check.h"

#include "data/federation/federation.h"

static fl_ctx *ctx;

static int setup(void **state)
{
    (void)state;
    ctx = fl_ctx_new();
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    fl_ctx_free(ctx);
    return 0;
}

enum { N = 40, DIM = 12 };

/* Feature 5 is constant. */
static double raw(size_t i, size_t j)
{
    return j == 5 ? 3 : (double)((i * 37 + j * 11 + i * j) % 200) + 10 * (double)j;
}

static fli_dataset *data(fli_xkind kind)
{
    fli_dataset *ds;
    assert_ok(ctx, fli_dataset_new(ctx, kind, N, DIM, 2, &ds));
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < DIM; j++) {
            size_t at = i * DIM + j;
            double v = kind == FLI_X_U8 ? fmod(raw(i, j), 256) : raw(i, j) - 100;
            if (kind == FLI_X_U8) ((uint8_t *)ds->x)[at] = (uint8_t)v;
            if (kind == FLI_X_F32) ((float *)ds->x)[at] = (float)v;
            if (kind == FLI_X_F64) ((double *)ds->x)[at] = v;
        }
    return ds;
}

/* The non-zeros of every third cell of the F64 data; feature 7 is never there. */
static fli_dataset *sparse(void)
{
    fli_dataset *ds = fli_alloc(ctx, 1, sizeof *ds);
    *ds = (fli_dataset){.n = N, .dim = DIM, .kind = FLI_X_CSR, .classes = 2, .shape = {1, 1, DIM}};
    ds->x = fli_alloc(ctx, N * DIM, sizeof(float));
    ds->row = fli_alloc(ctx, N + 1, sizeof *ds->row);
    ds->col = fli_alloc(ctx, N * DIM, sizeof *ds->col);
    ds->label = fli_alloc(ctx, N, sizeof *ds->label);
    size_t k = 0;
    for (size_t i = 0; i < N; i++) {
        for (size_t j = 0; j < DIM; j++)
            if ((i + j) % 3 == 0 && j != 7) {
                ((float *)ds->x)[k] = (float)(raw(i, j) - 100);
                ds->col[k++] = (uint32_t)j;
            }
        ds->row[i + 1] = k;
    }
    return ds;
}

/* Column statistics of what a user of the set sees. */
static void column(const fli_dataset *ds, size_t from, size_t to, double *mean, double *std, double *largest)
{
    double row[DIM], sum = 0, sum2 = 0, count = (double)(ds->n * (to - from));
    *largest = 0;
    for (size_t i = 0; i < ds->n; i++) {
        fli_dataset_row(ds, i, row);
        for (size_t j = from; j < to; j++) {
            sum += row[j];
            sum2 += row[j] * row[j];
            *largest = fmax(*largest, fabs(row[j]));
        }
    }
    *mean = sum / count;
    *std = sqrt(fmax(0, sum2 / count - *mean * *mean));
}

static const fl_reals none = {0, NULL};

static void normalize(int how, fli_dataset *train, fli_dataset *test)
{
    assert_ok(ctx, fli_normalize_sets(ctx, how, &none, &none, train, test));
    assert_ok(ctx, fli_dataset_check(ctx, train, "normalised"));
}

static void test_auto_and_none(void **state)
{
    (void)state;
    fli_dataset *u8 = data(FLI_X_U8), *plain = data(FLI_X_U8), *f32 = data(FLI_X_F32), *csr = sparse(),
                *test = data(FLI_X_U8);
    double row[DIM];
    normalize(FLI_NORM_AUTO, u8, test);
    fli_dataset_row(u8, 3, row);
    assert_near(row[4], ((uint8_t *)u8->x)[3 * DIM + 4] / 255.0, 1e-15);
    fli_dataset_row(test, 3, row);
    assert_near(row[4], ((uint8_t *)u8->x)[3 * DIM + 4] / 255.0, 1e-15);
    normalize(FLI_NORM_NONE, plain, NULL);
    fli_dataset_row(plain, 3, row);
    assert_true(row[4] == ((uint8_t *)u8->x)[3 * DIM + 4]);
    normalize(FLI_NORM_AUTO, f32, NULL);
    normalize(FLI_NORM_AUTO, csr, NULL);
    assert_null(f32->scale);
    assert_null(csr->scale);
    fli_dataset *all[] = {u8, plain, f32, csr, test};
    for (size_t i = 0; i < 5; i++) fli_dataset_free(all[i]);
}

/* The sparse set with doubles that no float can say. */
static fli_dataset *sparse_wide(void)
{
    fli_dataset *ds = sparse();
    double *x = fli_alloc(ctx, N * DIM, sizeof *x);
    for (size_t k = 0; k < ds->row[N]; k++) x[k] = (double)((float *)ds->x)[k] * (1 + 1e-12);
    fli_free(ds->x);
    ds->x = x;
    ds->kind = FLI_X_CSR64;
    return ds;
}

static void test_unit_makes_the_largest_one(void **state)
{
    (void)state;
    fli_dataset *sets[] = {data(FLI_X_F32), data(FLI_X_F64), sparse(), sparse_wide()}, *u8 = data(FLI_X_U8);
    for (size_t v = 0; v < 4; v++) {
        normalize(FLI_NORM_UNIT, sets[v], NULL);
        for (size_t j = 0; j < DIM; j++) {
            double mean, std, largest;
            column(sets[v], j, j + 1, &mean, &std, &largest);
            assert_near(largest, v >= 2 && j == 7 ? 0 : 1, 1e-15);
        }
        fli_dataset_free(sets[v]);
    }
    normalize(FLI_NORM_UNIT, u8, NULL);
    assert_int_equal(u8->segments, 1);
    assert_near(u8->scale[0], 1.0 / 255, 1e-18);
    fli_dataset_free(u8);
}

static void test_standard_per_feature(void **state)
{
    (void)state;
    for (fli_xkind kind = FLI_X_U8; kind <= FLI_X_F64; kind++) {
        fli_dataset *ds = data(kind);
        normalize(FLI_NORM_STANDARD, ds, NULL);
        assert_int_equal(ds->segments, DIM);
        for (size_t j = 0; j < DIM; j++) {
            double mean, std, largest;
            column(ds, j, j + 1, &mean, &std, &largest);
            assert_near(mean, 0, 1e-12);
            assert_near(std, j == 5 ? 0 : 1, 1e-7);
        }
        assert_true(ds->scale[5] == 1);
        fli_dataset_free(ds);
    }
}

static void test_standard_per_channel(void **state)
{
    (void)state;
    fli_dataset *ds = data(FLI_X_U8);
    ds->shape[0] = 3, ds->shape[1] = ds->shape[2] = 2;
    normalize(FLI_NORM_STANDARD, ds, NULL);
    assert_int_equal(ds->segments, 3);
    for (size_t c = 0; c < 3; c++) {
        double mean, std, largest;
        column(ds, 4 * c, 4 * c + 4, &mean, &std, &largest);
        assert_near(mean, 0, 1e-12);
        assert_near(std, 1, 1e-12);
    }
    fli_dataset_free(ds);
}

/* Centring would fill sparse data up; the message says what to do instead. */
static void test_standard_sparse(void **state)
{
    (void)state;
    fli_dataset *ds = sparse();
    assert_fails(ctx, fli_normalize_sets(ctx, FLI_NORM_STANDARD, &none, &none, ds, NULL), FL_ECONFIG,
                 "normalize standard would shift the zeros of sparse data; use unit or columns, or storage: dense");
    assert_null(ds->scale);
    fli_dataset_free(ds);
}

/* Every column has norm 1 over the training samples, and a test set is scaled by the same numbers. */
static void test_columns_get_norm_one(void **state)
{
    (void)state;
    fli_dataset *sets[] = {data(FLI_X_U8), data(FLI_X_F32), data(FLI_X_F64), sparse(), sparse_wide()}, *test = sparse();
    for (size_t v = 0; v < 5; v++) {
        normalize(FLI_NORM_COLUMNS, sets[v], v == 3 ? test : NULL);
        assert_int_equal(sets[v]->segments, DIM);
        for (size_t j = 0; j < DIM; j++) {
            double sum = 0, row[DIM];
            for (size_t i = 0; i < N; i++) {
                fli_dataset_row(sets[v], i, row);
                sum += row[j] * row[j];
            }
            assert_near(sum, v >= 3 && j == 7 ? 0 : 1, 1e-14);
            assert_true(sets[v]->shift[j] == 0);
        }
    }
    assert_true(sets[3]->scale[7] == 1); /* a feature that is never there */
    assert_memory_equal(sets[3]->scale, test->scale, DIM * sizeof(double));
    for (size_t v = 0; v < 5; v++) fli_dataset_free(sets[v]);
    fli_dataset_free(test);
}

static void test_test_set_gets_the_same(void **state)
{
    (void)state;
    fli_dataset *train = data(FLI_X_F64), *test = data(FLI_X_F64);
    for (size_t i = 0; i < N * DIM; i++) ((double *)test->x)[i] += 1000;
    normalize(FLI_NORM_STANDARD, train, test);
    assert_memory_equal(train->scale, test->scale, DIM * sizeof(double));
    assert_memory_equal(train->shift, test->shift, DIM * sizeof(double));
    assert_true(train->scale != test->scale);
    fli_dataset_free(test);
    test = data(FLI_X_F32);
    normalize(FLI_NORM_AUTO, train, test); /* f64 and f32 go together */
    fli_dataset *bytes = data(FLI_X_U8);
    assert_fails(ctx, fli_normalize_sets(ctx, FLI_NORM_AUTO, &none, &none, bytes, test), FL_EFORMAT,
                 "the test samples (12 features, f32) are not stored like the training samples (12 features, bytes)");
    fli_dataset_free(bytes);
    fli_dataset_free(train);
    fli_dataset_free(test);
}

static void test_given_numbers_shift_and_scale(void **state)
{
    (void)state;
    double one[] = {0.5}, three[] = {0.25, 0.5, 0.75}, zero[] = {0}, row[DIM];
    fl_reals m = {3, three}, s = {1, one}, z = {1, zero};
    fli_dataset *u8 = data(FLI_X_U8), *f64 = data(FLI_X_F64), *csr = sparse();
    u8->shape[0] = 3, u8->shape[1] = u8->shape[2] = 2;
    assert_ok(ctx, fli_normalize_sets(ctx, FLI_NORM_GIVEN, &m, &s, u8, NULL));
    fli_dataset_row(u8, 9, row);
    for (size_t j = 0; j < DIM; j++)
        assert_near(row[j], (((uint8_t *)u8->x)[9 * DIM + j] / 255.0 - three[j / 4]) / 0.5, 1e-12);
    assert_fails(ctx, fli_normalize_sets(ctx, FLI_NORM_GIVEN, &m, &s, f64, NULL), FL_ECONFIG,
                 "mean has 3 values, but the data take 1 or 12");
    assert_fails(ctx, fli_normalize_sets(ctx, FLI_NORM_GIVEN, &none, &s, f64, NULL), FL_ECONFIG, "mean has 0 values");
    assert_fails(ctx, fli_normalize_sets(ctx, FLI_NORM_GIVEN, &s, &z, f64, NULL), FL_ECONFIG, "std is 0");
    assert_fails(ctx, fli_normalize_sets(ctx, FLI_NORM_GIVEN, &s, &s, csr, NULL), FL_ECONFIG, "sparse");
    assert_ok(ctx, fli_normalize_sets(ctx, FLI_NORM_GIVEN, &s, &s, f64, NULL));
    fli_dataset_row(f64, 9, row);
    for (size_t j = 0; j < DIM; j++) assert_near(row[j], (((double *)f64->x)[9 * DIM + j] - 0.5) / 0.5, 1e-12);
    fli_dataset_free(u8);
    fli_dataset_free(f64);
    fli_dataset_free(csr);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_auto_and_none),          cmocka_unit_test(test_unit_makes_the_largest_one),
        cmocka_unit_test(test_standard_per_feature),   cmocka_unit_test(test_standard_per_channel),
        cmocka_unit_test(test_standard_sparse),        cmocka_unit_test(test_columns_get_norm_one),
        cmocka_unit_test(test_test_set_gets_the_same), cmocka_unit_test(test_given_numbers_shift_and_scale),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
