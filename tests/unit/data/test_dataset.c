#include "check.h"

#include "data/dataset.h"

/* 3 samples of 6 features, each kind holding the same numbers. */
static const double VALUES[3][6] = {{0, 1, 2, 0, 0, 255}, {7, 0, 0, 0, 9, 0}, {0, 0, 0, 0, 0, 0}};

static fli_dataset *dense(fl_ctx *ctx, fli_xkind kind, size_t classes)
{
    fli_dataset *ds;
    assert_ok(ctx, fli_dataset_new(ctx, kind, 3, 6, classes, &ds));
    for (size_t i = 0; i < 18; i++) {
        double v = VALUES[i / 6][i % 6];
        if (kind == FLI_X_U8) ((uint8_t *)ds->x)[i] = (uint8_t)v;
        if (kind == FLI_X_F32) ((float *)ds->x)[i] = (float)v;
        if (kind == FLI_X_F64) ((double *)ds->x)[i] = v;
    }
    return ds;
}

static fli_dataset *sparse(fl_ctx *ctx)
{
    fli_dataset *ds = fli_alloc(ctx, 1, sizeof *ds);
    *ds = (fli_dataset){.n = 3, .dim = 6, .kind = FLI_X_CSR, .classes = 2, .shape = {1, 1, 6}};
    ds->x = fli_alloc(ctx, 5, sizeof(float));
    ds->row = fli_alloc(ctx, 4, sizeof *ds->row);
    ds->col = fli_alloc(ctx, 5, sizeof *ds->col);
    ds->label = fli_alloc(ctx, 3, sizeof *ds->label);
    size_t k = 0;
    for (size_t i = 0; i < 3; i++) {
        for (uint32_t j = 0; j < 6; j++)
            if (VALUES[i][j] != 0) {
                ((float *)ds->x)[k] = (float)VALUES[i][j];
                ds->col[k++] = j;
            }
        ds->row[i + 1] = k;
    }
    return ds;
}

/* The same with doubles. */
static fli_dataset *sparse_wide(fl_ctx *ctx)
{
    fli_dataset *ds = sparse(ctx);
    double *x = fli_alloc(ctx, 5, sizeof *x);
    for (size_t k = 0; k < 5; k++) x[k] = (double)((float *)ds->x)[k];
    fli_free(ds->x);
    ds->x = x;
    ds->kind = FLI_X_CSR64;
    return ds;
}

static void normalise(fl_ctx *ctx, fli_dataset *ds, size_t segments)
{
    ds->segments = segments;
    ds->scale = fli_alloc(ctx, segments, sizeof(double));
    ds->shift = fli_alloc(ctx, segments, sizeof(double));
    for (size_t s = 0; s < segments; s++) {
        ds->scale[s] = 0.5 + (double)s;
        ds->shift[s] = fli_dataset_sparse(ds) ? 0 : 0.25 - (double)s;
    }
}

static double expected(const fli_dataset *ds, size_t i, size_t j)
{
    if (!ds->scale) return VALUES[i][j];
    size_t s = j / (6 / ds->segments);
    return VALUES[i][j] * ds->scale[s] + ds->shift[s];
}

static double real_at(const fli_ops *ops, const void *p, size_t i)
{
    double v;
    ops->to_f64(1, (const char *)p + i * ops->size, &v);
    return v;
}

/* Rows and batches of every kind, with and without normalisation, in both precisions. */
static void rows_and_batches(void **state)
{
    fl_ctx *ctx = *state;
    const uint32_t idx[] = {2, 0, 1, 0};
    for (size_t k = 0; k < 5 * 4; k++) {
        static const size_t segments[] = {0, 1, 3, 6};
        fli_xkind kind = (fli_xkind)(k / 4);
        fli_dataset *ds = kind == FLI_X_CSR     ? sparse(ctx)
                          : kind == FLI_X_CSR64 ? sparse_wide(ctx)
                                                : dense(ctx, kind, 2);
        if (fli_dataset_sparse(ds) && segments[k % 4] % 6) { /* one scale per feature, or none */
            fli_dataset_free(ds);
            continue;
        }
        if (segments[k % 4]) normalise(ctx, ds, segments[k % 4]);
        for (size_t i = 0; i < 3; i++) ds->label[i] = i % 2;
        assert_ok(ctx, fli_dataset_check(ctx, ds, "it"));
        double row[6];
        for (size_t i = 0; i < 3; i++) {
            fli_dataset_row(ds, i, row);
            for (size_t j = 0; j < 6; j++) assert_near(row[j], expected(ds, i, j), 1e-12);
        }
        for (size_t o = 0; fli_ops_list[o]; o++) {
            fli_batch b;
            assert_ok(ctx, fli_batch_init(ctx, fli_ops_list[o], 6, 5, &b));
            for (int again = 0; again < 2; again++) fli_batch_gather(&b, ds, idx, 4);
            assert_int_equal(b.n, 4);
            for (size_t r = 0; r < 4; r++) {
                assert_int_equal(b.label[r], idx[r] % 2);
                for (size_t j = 0; j < 6; j++)
                    assert_near(real_at(b.ops, b.x, r * 6 + j), expected(ds, idx[r], j), 1e-4);
            }
            fli_batch_fini(&b);
        }
        fli_dataset_free(ds);
    }
}

/* A sparse batch must not show the batch before it. */
static void sparse_rows_are_cleared(void **state)
{
    fl_ctx *ctx = *state;
    fli_dataset *ds = sparse(ctx);
    fli_batch b;
    const uint32_t first[] = {0, 1}, second[] = {2, 2};
    assert_ok(ctx, fli_batch_init(ctx, &fli_ops_f32, 6, 2, &b));
    fli_batch_gather(&b, ds, first, 2);
    fli_batch_gather(&b, ds, second, 2);
    for (size_t i = 0; i < 12; i++) assert_true(((float *)b.x)[i] == 0);
    fli_batch_fini(&b);
    fli_dataset_free(ds);
}

/* Both products of a sparse batch against those of a dense one over the same rows, some of them twice. */
static void sparse_batches(void **state)
{
    fl_ctx *ctx = *state;
    const uint32_t idx[] = {1, 0, 2, 0};
    for (size_t k = 0; k < 8; k++) {
        const fli_ops *ops = fli_ops_list[k % 2];
        size_t outs = k / 2 % 2 ? 3 : 1;
        fli_dataset *ds = sparse(ctx);
        fli_batch a, b;
        double w[18], d[12], want[18], got[18];
        char rw[144], rd[96], r[2][144];
        if (k / 4) normalise(ctx, ds, 6);
        for (size_t i = 0; i < 18; i++) w[i] = (double)(i * 5 % 7) - 3;
        for (size_t i = 0; i < 12; i++) d[i] = (double)(i * 3 % 5) - 2;
        ops->from_f64(18, w, rw);
        ops->from_f64(12, d, rd);
        assert_ok(ctx, fli_batch_init(ctx, ops, 6, 4, &a));
        assert_ok(ctx, fli_batch_init_sparse(ctx, ops, 6, 4, &b));
        assert_null(b.x);
        for (size_t i = 0; i < 3; i++) ds->label[i] = i % 2;
        fli_batch_gather(&a, ds, idx, 4);
        fli_batch_gather(&b, ds, (const uint32_t[]){2, 2, 2}, 3);
        fli_batch_gather(&b, ds, idx, 4);
        assert_int_equal(b.n, 4);
        for (size_t i = 0; i < 4; i++) assert_int_equal(b.label[i], idx[i] % 2);
        fli_batch_mul(&a, outs, rw, r[0]);
        fli_batch_mul(&b, outs, rw, r[1]);
        ops->to_f64(4 * outs, r[0], want);
        ops->to_f64(4 * outs, r[1], got);
        for (size_t i = 0; i < 4 * outs; i++) {
            double sum = 0; /* by the definition, too */
            for (size_t j = 0; j < 6; j++) sum += expected(ds, idx[i / outs], j) * w[i % outs * 6 + j];
            assert_near(got[i], sum, 1e-12);
            assert_near(got[i], want[i], 1e-12);
        }
        memset(r[1], 0xFF, sizeof r[1]); /* NaNs: it must be overwritten */
        fli_batch_tmul(&a, outs, 0.5, rd, r[0]);
        fli_batch_tmul(&b, outs, 0.5, rd, r[1]);
        ops->to_f64(6 * outs, r[0], want);
        ops->to_f64(6 * outs, r[1], got);
        for (size_t i = 0; i < 6 * outs; i++) assert_near(got[i], want[i], 1e-12);
        assert_true(got[1] != 0);
        fli_batch_fini(&a);
        fli_batch_fini(&b);
        fli_dataset_free(ds);
    }
}

static void densify_and_sizes(void **state)
{
    fl_ctx *ctx = *state;
    fli_dataset *ds = sparse(ctx), *want = dense(ctx, FLI_X_F32, 2);
    assert_int_equal(fli_dataset_stored(ds), 5);
    assert_int_equal(fli_dataset_bytes(ds), 5 * (4 + 4) + 4 * sizeof(size_t) + 3 * 4);
    assert_int_equal(fli_dataset_stored(want), 18);
    assert_int_equal(fli_dataset_bytes(want), 18 * 4 + 3 * 4);
    fli_ctx_fail_alloc(ctx, 1);
    assert_fails(ctx, fli_dataset_densify(ctx, ds), FL_ENOMEM, "out of memory");
    assert_ok(ctx, fli_dataset_check(ctx, ds, "still sparse"));
    assert_ok(ctx, fli_dataset_densify(ctx, ds));
    assert_true(ds->kind == FLI_X_F32 && !ds->row && !ds->col);
    assert_memory_equal(ds->x, want->x, 18 * sizeof(float));
    assert_ok(ctx, fli_dataset_check(ctx, ds, "dense"));
    fli_dataset_free(ds);
    fli_dataset_free(want);
    ds = sparse_wide(ctx);
    want = dense(ctx, FLI_X_F64, 2);
    ((double *)ds->x)[0] = ((double *)want->x)[ds->col[0]] = 0.1; /* nothing is rounded on the way */
    assert_int_equal(fli_dataset_bytes(ds), 5 * (8 + 4) + 4 * sizeof(size_t) + 3 * 4);
    assert_ok(ctx, fli_dataset_densify(ctx, ds));
    assert_true(ds->kind == FLI_X_F64);
    assert_memory_equal(ds->x, want->x, 18 * sizeof(double));
    fli_dataset_free(ds);
    fli_dataset_free(want);
    ds = sparse(ctx);
    ds->dim = SIZE_MAX / 8;
    assert_fails(ctx, fli_dataset_densify(ctx, ds), FL_ENOMEM, "too large to be dense");
    fli_dataset_free(ds);
}

/* What f32 cannot hold, after normalisation, is refused with its place. */
static void too_large_for_f32(void **state)
{
    fl_ctx *ctx = *state;
    fli_dataset *ds = dense(ctx, FLI_X_F64, 2);
    assert_ok(ctx, fli_dataset_check_f32(ctx, ds, "it"));
    ((double *)ds->x)[8] = -1e39;
    assert_ok(ctx, fli_dataset_check(ctx, ds, "it"));
    assert_fails(ctx, fli_dataset_check_f32(ctx, ds, "it"), FL_EFORMAT,
                 "it: sample 1, feature 2 is -1e+39, too large for precision f32; precision: f64 keeps it");
    normalise(ctx, ds, 6);
    for (size_t j = 0; j < 6; j++) ds->scale[j] = 0.1;
    assert_ok(ctx, fli_dataset_check_f32(ctx, ds, "scaled into range"));
    fli_dataset_free(ds);
    ds = sparse_wide(ctx);
    ((double *)ds->x)[4] = 1e300;
    assert_fails(ctx, fli_dataset_check_f32(ctx, ds, "it"), FL_EFORMAT, "it: sample 1, feature 4 is 1e+300");
    fli_dataset_free(ds);
    ds = dense(ctx, FLI_X_U8, 0);
    ds->target[1] = 3.5e38;
    assert_fails(ctx, fli_dataset_check_f32(ctx, ds, "it"), FL_EFORMAT, "it: sample 1 has a target that is 3.5e+38");
    fli_dataset_free(ds);
}

static void targets_are_gathered_by_index(void **state)
{
    fl_ctx *ctx = *state;
    enum { N = 150 }; /* more than the pieces targets are gathered in */
    fli_dataset *ds;
    uint32_t idx[N];
    assert_ok(ctx, fli_dataset_new(ctx, FLI_X_F64, N, 2, 0, &ds));
    assert_null(ds->label);
    for (size_t i = 0; i < N; i++) {
        ds->target[i] = 1.5 * (double)i - 20;
        idx[i] = (uint32_t)((i * 7) % N);
    }
    for (size_t o = 0; fli_ops_list[o]; o++)
        for (size_t n = 63; n <= N; n += 29) {
            fli_batch b;
            assert_ok(ctx, fli_batch_init(ctx, fli_ops_list[o], 2, N, &b));
            fli_batch_gather(&b, ds, idx, n);
            for (size_t i = 0; i < n; i++) assert_near(real_at(b.ops, b.target, i), ds->target[idx[i]], 0);
            fli_batch_fini(&b);
        }
    fli_dataset_free(ds);
}

static void new_is_empty_and_bounded(void **state)
{
    fl_ctx *ctx = *state;
    fli_dataset *ds;
    assert_ok(ctx, fli_dataset_new(ctx, FLI_X_U8, 2, 12, 3, &ds));
    assert_true(ds->n == 2 && ds->dim == 12 && ds->classes == 3 && !ds->target && !ds->group && !ds->scale);
    assert_true(ds->shape[0] == 1 && ds->shape[1] == 1 && ds->shape[2] == 12);
    for (size_t i = 0; i < 24; i++) assert_int_equal(((uint8_t *)ds->x)[i], 0);
    fli_dataset_free(ds);
    assert_fails(ctx, fli_dataset_new(ctx, FLI_X_F64, 1000, SIZE_MAX / 1000, 3, &ds), FL_ENOMEM, "too large");
    assert_fails(ctx, fli_dataset_new(ctx, FLI_X_F64, UINT32_MAX, 1, 3, &ds), FL_ENOMEM, "4294967295 samples");
    assert_null(ds);
    fli_batch b;
    assert_fails(ctx, fli_batch_init(ctx, &fli_ops_f64, SIZE_MAX / 8, 3, &b), FL_ENOMEM, "too large");
    for (size_t k = 1; k <= 3; k++) {
        fli_ctx_fail_alloc(ctx, k);
        assert_fails(ctx, fli_dataset_new(ctx, FLI_X_U8, 2, 12, k == 2, &ds), FL_ENOMEM, "out of memory");
        fli_ctx_fail_alloc(ctx, k);
        assert_fails(ctx, fli_batch_init(ctx, &fli_ops_f32, 3, 4, &b), FL_ENOMEM, "out of memory");
        fli_ctx_fail_alloc(ctx, k);
        assert_fails(ctx, fli_batch_init_sparse(ctx, &fli_ops_f32, 3, 4, &b), FL_ENOMEM, "out of memory");
    }
    fli_dataset_free(NULL);
}

static void checks_labels_targets_groups(void **state)
{
    fl_ctx *ctx = *state;
    fli_dataset *ds = dense(ctx, FLI_X_U8, 2);
    ds->label[1] = 2;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "set: sample 1 has label 2, not in 0 .. 1");
    ds->label[1] = -1;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "sample 1 has label -1");
    ds->label[1] = 1;
    ds->group = fli_alloc(ctx, 3, sizeof *ds->group);
    ds->groups = 4;
    assert_ok(ctx, fli_dataset_check(ctx, ds, "set"));
    ds->group[2] = 4;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "sample 2 is in group 4");
    fli_dataset_free(ds);
    ds = dense(ctx, FLI_X_F32, 0);
    assert_ok(ctx, fli_dataset_check(ctx, ds, "set"));
    ds->target[2] = INFINITY;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "sample 2 has target inf");
    ds->target[2] = 0;
    ds->classes = 2;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "either labels and classes or targets");
    fli_dataset_free(ds);
}

static void checks_values_and_sizes(void **state)
{
    fl_ctx *ctx = *state;
    fli_dataset *ds = dense(ctx, FLI_X_F32, 2);
    ((float *)ds->x)[8] = NAN;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "set: sample 1, feature 2 is not finite");
    ((float *)ds->x)[8] = 0;
    ds->shape[1] = 2;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "1 x 2 x 6 does not hold 6 features");
    ds->shape[1] = 1;
    normalise(ctx, ds, 4);
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "4 normalisation segments do not fit 6 features");
    ds->segments = 2;
    ds->n = 0;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "set: has 0 samples of 6 features");
    fli_dataset_free(ds);
    ds = dense(ctx, FLI_X_F64, 2);
    ((double *)ds->x)[17] = -INFINITY;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "sample 2, feature 5 is not finite");
    fli_dataset_free(ds);
}

static void checks_sparse(void **state)
{
    fl_ctx *ctx = *state;
    fli_dataset *ds = sparse(ctx);
    assert_ok(ctx, fli_dataset_check(ctx, ds, "set"));
    ds->col[4] = 6;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "sample 1: feature 6");
    ds->col[4] = 0; /* the same as the one before */
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "sample 1: feature 0 is out of order");
    ds->col[4] = 4;
    ((float *)ds->x)[4] = NAN;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "sample 1, feature 4 is not finite");
    ((float *)ds->x)[4] = 9;
    normalise(ctx, ds, 6);
    ds->segments = 3;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "one by one, not in 3 segments");
    ds->segments = 6;
    ds->shift[0] = 0.5;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "not shifted by 0.5");
    ds->shift[0] = 0;
    ds->row[2] = 1;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "sparse row 1 ends before it starts");
    ds->row[0] = 1;
    assert_fails(ctx, fli_dataset_check(ctx, ds, "set"), FL_EFORMAT, "do not start at 0");
    fli_dataset_free(ds);
}

static int setup(void **state)
{
    *state = fl_ctx_new();
    return 0;
}

static int teardown(void **state)
{
    fl_ctx_free(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_and_batches),         cmocka_unit_test(sparse_rows_are_cleared),
        cmocka_unit_test(sparse_batches),           cmocka_unit_test(densify_and_sizes),
        cmocka_unit_test(too_large_for_f32),        cmocka_unit_test(targets_are_gathered_by_index),
        cmocka_unit_test(new_is_empty_and_bounded), cmocka_unit_test(checks_labels_targets_groups),
        cmocka_unit_test(checks_values_and_sizes),  cmocka_unit_test(checks_sparse),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
