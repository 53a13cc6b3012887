/* npy and npz: every type and order, and every way a file can be wrong. */
#include "data_files.h"

typedef struct {
    uint8_t b[4096];
    size_t n;
} bytes;

/* ---- npy ------------------------------------------------------------------------------------------------ */

/* An NPY file of version `major`: the dictionary padded as numpy does, then the body. */
static const char *put_npy_as(scratch *d, const char *name, int major, const char *dict, const void *body, size_t n)
{
    bytes f = {.b = {0x93, 'N', 'U', 'M', 'P', 'Y', (uint8_t)major, 0}, .n = 8};
    size_t length = (strlen(dict) + 1 + 63) / 64 * 64;
    for (int i = 0; i < (major == 1 ? 2 : 4); i++) f.b[f.n++] = (uint8_t)(length >> 8 * i);
    memset(f.b + f.n, ' ', length);
    memcpy(f.b + f.n, dict, strlen(dict));
    f.n += length;
    f.b[f.n - 1] = '\n';
    memcpy(f.b + f.n, body, n);
    return put(d, name, f.b, f.n + n);
}

static const char *put_npy(scratch *d, const char *name, const char *type, const char *shape, const void *body,
                           size_t n)
{
    char dict[200];
    snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': %s, }", type, shape);
    return put_npy_as(d, name, 1, dict, body, n);
}

static void keep_note(void *arg, fl_log_level level, const char *line)
{
    assert_true(level == FL_LOG_INFO);
    snprintf(arg, 400, "%s", line);
}

static const float X[] = {1, 2, 3, 4.5f, -5, 6, 7, 8, 9, 10, 11, 12};
static const int64_t Y[] = {1, 0, 4};

static void npy_good(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    const char *x = put_npy(d, "x.npy", "<f4", "(3, 4)", X, sizeof X);
    const char *y = put_npy(d, "y.npy", "<i8", "(3,)", Y, sizeof Y);
    const char *tx = put_npy_as(d, "tx.npy", 2, "{\"shape\":(1,4),'descr':\"<f4\",'fortran_order':False}", X, 16);
    const char *ty = put_npy_as(d, "ty.npy", 3, "{'descr': '<i8', 'fortran_order': False, 'shape': (1, 1), }", Y, 8);
    const char *const *keys = KEYS("train_x", x, "train_y", y, "test_x", tx, "test_y", ty);
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_npy, keys, &train, &test));
    assert_true(train->n == 3 && train->dim == 4 && train->kind == FLI_X_F32 && train->classes == 3);
    assert_memory_equal(train->x, X, sizeof X);
    assert_memory_equal(train->label, ((const int32_t[]){1, 0, 2}), 12);
    assert_true(test->n == 1 && test->classes == 3 && test->label[0] == 1 && test->shape[2] == 4);
    fli_dataset_free(train);
    fli_dataset_free(test);
    torture_source(d->ctx, &fli_source_npy, keys);
}

/* The shapes that are images, and the types of features. */
static void npy_shapes(void **state)
{
    scratch *d = *state;
    static const struct {
        const char *type, *shape;
        size_t n, want[3];
        fli_xkind kind;
        size_t size;
    } cases[] = {{"|u1", "(2, 6)", 2, {1, 1, 6}, FLI_X_U8, 1},
                 {"<f4", "(1, 3, 4)", 1, {1, 3, 4}, FLI_X_F32, 4},
                 {"<f8", "(1, 3, 2, 2)", 1, {3, 2, 2}, FLI_X_F64, 8},
                 {"|u1", "(3, 2, 1, 2, 1)", 3, {1, 1, 4}, FLI_X_U8, 1}};
    static const uint8_t body[96] = {7}, labels[3] = {0};
    for (size_t i = 0; i < 4; i++) {
        fli_dataset *train, *test;
        char shape[16];
        snprintf(shape, sizeof shape, "(%zu,)", cases[i].n);
        const char *x = put_npy(d, "x.npy", cases[i].type, cases[i].shape, body, 12 * cases[i].size);
        const char *y = put_npy(d, "y.npy", "|u1", shape, labels, cases[i].n);
        assert_ok(d->ctx, load_source(d->ctx, &fli_source_npy, KEYS("train_x", x, "train_y", y), &train, &test));
        assert_null(test);
        assert_int_equal(train->kind, cases[i].kind);
        assert_int_equal(train->n, cases[i].n);
        assert_memory_equal(train->shape, cases[i].want, sizeof train->shape);
        assert_memory_equal(train->x, body, 12 * cases[i].size);
        assert_ok(d->ctx, fli_dataset_check(d->ctx, train, "train"));
        fli_dataset_free(train);
    }
}

/* The numbers 1, 0, 1 and, where the type has them, 2, -3 and a half, in every type and byte order. */
static const struct {
    const char *type;
    const char *values; /* hexadecimal, as they lie in the file */
    double want[3];
    fli_xkind kind;
} types[] = {
    {"|b1", "010001", {1, 0, 1}, FLI_X_F32},
    {"|u1", "0100ff", {1, 0, 255}, FLI_X_U8},
    {"|i1", "0100fd", {1, 0, -3}, FLI_X_F32},
    {"<i2", "01000000fdff", {1, 0, -3}, FLI_X_F32},
    {">i2", "00010000fffd", {1, 0, -3}, FLI_X_F32},
    {"<u2", "01000000fdff", {1, 0, 65533}, FLI_X_F32},
    {">u2", "00010000fffd", {1, 0, 65533}, FLI_X_F32},
    {"<i4", "0100000000000000fdffffff", {1, 0, -3}, FLI_X_F64},
    {">i4", "0000000100000000fffffffd", {1, 0, -3}, FLI_X_F64},
    {"<u4", "0100000000000000fdffffff", {1, 0, 4294967293}, FLI_X_F64},
    {"<i8", "01000000000000000000000000000000fdffffffffffffff", {1, 0, -3}, FLI_X_F64},
    {">i8", "00000000000000010000000000000000fffffffffffffffd", {1, 0, -3}, FLI_X_F64},
    {"<u8", "010000000000000000000000000000000000000000001000", {1, 0, 4503599627370496}, FLI_X_F64},
    {">u8", "000000000000000100000000000000000000000000000002", {1, 0, 2}, FLI_X_F64},
    {"<f2", "003c000000c2", {1, 0, -3}, FLI_X_F32},
    {">f2", "3c000000c200", {1, 0, -3}, FLI_X_F32},
    {"<f4", "0000803f00000000000040c0", {1, 0, -3}, FLI_X_F32},
    {">f4", "3f80000000000000c0400000", {1, 0, -3}, FLI_X_F32},
    {"<f8", "000000000000f03f000000000000000000000000000008c0", {1, 0, -3}, FLI_X_F64},
    {">f8", "3ff00000000000000000000000000000c008000000000000", {1, 0, -3}, FLI_X_F64},
};

static size_t unhex(const char *hex, uint8_t *out)
{
    size_t n = strlen(hex) / 2;
    for (size_t i = 0; i < n; i++) {
        unsigned v;
        assert_int_equal(sscanf(hex + 2 * i, "%2x", &v), 1);
        out[i] = (uint8_t)v;
    }
    return n;
}

static void npy_types(void **state)
{
    scratch *d = *state;
    const char *x = put_npy(d, "x.npy", "<f4", "(3, 4)", X, sizeof X);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        fli_dataset *train, *test;
        uint8_t raw[64];
        size_t n = unhex(types[i].values, raw);
        const char *y = put_npy(d, "y.npy", types[i].type, "(3,)", raw, n);
        const char *const *keys = KEYS("train_x", x, "train_y", y, "train_groups", y, "task", "regression");
        assert_ok(d->ctx, load_source(d->ctx, &fli_source_npy, keys, &train, &test));
        for (size_t k = 0; k < 3; k++) assert_near(train->target[k], types[i].want[k], 0);
        assert_true(train->groups == (types[i].want[2] == 1 ? 2 : 3));
        fli_dataset_free(train);

        assert_ok(d->ctx, load_source(d->ctx, &fli_source_npy, KEYS("train_x", x, "train_y", y), &train, &test));
        assert_int_equal(train->classes, types[i].want[2] == 1 ? 2 : 3);
        assert_true((train->label[1] < train->label[2]) == (types[i].want[2] > 0)); /* 0 against the third */
        fli_dataset_free(train);

        const char *f = put_npy(d, "f.npy", types[i].type, "(3, 1)", raw, n);
        assert_ok(d->ctx, load_source(d->ctx, &fli_source_npy, KEYS("train_x", f, "train_y", y), &train, &test));
        assert_int_equal(train->kind, types[i].kind);
        for (size_t k = 0; k < 3; k++) {
            double row[1];
            fli_dataset_row(train, k, row);
            assert_near(row[0], types[i].want[k], 0);
        }
        fli_dataset_free(train);
        torture_source(d->ctx, &fli_source_npy, keys);
    }
}

static void npy_halves(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    static const uint16_t h[] = {0x0001, 0x03ff, 0x0400, 0x7bff, 0x8001, 0x3555};
    static const double want[] = {0x1p-24, 1023 * 0x1p-24, 0x1p-14, 65504, -0x1p-24, 0.333251953125};
    const char *x = put_npy(d, "x.npy", "<f2", "(2, 3)", h, 12), *y = put_npy(d, "y.npy", "|b1", "(2,)", "\0\1", 2);
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_npy, KEYS("train_x", x, "train_y", y), &train, &test));
    for (size_t i = 0; i < 6; i++) assert_near((double)((float *)train->x)[i], want[i], 0);
    fli_dataset_free(train);
    put_npy(d, "x.npy", "<f2", "(2, 3)", ((const uint16_t[]){0, 0, 0, 0, 0x7c00, 0}), 12);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_npy, KEYS("train_x", x, "train_y", y), &train, &test),
                 FL_EFORMAT, "x.npy: sample 1, feature 1 is not finite");
}

/* The first index runs fastest. */
static void npy_fortran(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    static const char *const type[] = {"|u1", "<f4", ">i2"};
    static const size_t width[] = {1, 4, 2};
    for (size_t t = 0; t < 3; t++) {
        uint8_t raw[96] = {0};
        char dict[100];
        for (size_t i = 0; i < 2; i++) /* value 10 i + 3 j + k of shape (2, 3, 4) */
            for (size_t j = 0; j < 3; j++)
                for (size_t k = 0; k < 4; k++) {
                    uint8_t *p = raw + width[t] * (i + 2 * (j + 3 * k)), v = (uint8_t)(20 * i + 4 * j + k);
                    float f = v;
                    if (t == 1)
                        memcpy(p, &f, 4);
                    else
                        p[width[t] - 1] = v;
                }
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': True, 'shape': (2, 3, 4), }", type[t]);
        const char *x = put_npy_as(d, "x.npy", 1, dict, raw, 24 * width[t]);
        const char *y =
            put_npy_as(d, "y.npy", 1, "{'descr': '|u1', 'fortran_order': True, 'shape': (2,), }", "\0\1", 2);
        const char *const *keys = KEYS("train_x", x, "train_y", y);
        assert_ok(d->ctx, load_source(d->ctx, &fli_source_npy, keys, &train, &test));
        assert_true(train->shape[0] == 1 && train->shape[1] == 3 && train->shape[2] == 4);
        for (size_t i = 0; i < 2; i++) {
            double row[12];
            fli_dataset_row(train, i, row);
            for (size_t j = 0; j < 12; j++) assert_near(row[j], (double)(20 * i + j), 0);
        }
        fli_dataset_free(train);
    }
}

/* Labels as in every other loader: whole numbers in any type, 0, 1, ... in ascending order, with a note. */
static void npy_labels(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    char note[400] = "";
    const char *x = put_npy(d, "x.npy", "<f4", "(3, 4)", X, sizeof X);
    const char *y = put_npy(d, "y.npy", "<f8", "(3,)", ((const double[]){999999, -1, 3}), 24);
    fl_ctx_on_log(d->ctx, keep_note, note);
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_npy, KEYS("train_x", x, "train_y", y), &train, &test));
    fl_ctx_on_log(d->ctx, NULL, NULL);
    assert_int_equal(train->classes, 3);
    assert_memory_equal(train->label, ((const int32_t[]){2, 0, 1}), 12);
    assert_non_null(strstr(note, "y.npy: label '-1' is class 0, '3' is class 1, '999999' is class 2"));
    fli_dataset_free(train);
    y = put_npy(d, "y.npy", "<i4", "(3,)", ((const int32_t[]){2, 0, 2}), 12);
    assert_ok(d->ctx,
              load_source(d->ctx, &fli_source_npy, KEYS("train_x", x, "train_y", y, "classes", "5"), &train, &test));
    assert_int_equal(train->classes, 5);
    assert_memory_equal(train->label, ((const int32_t[]){2, 0, 2}), 12);
    fli_dataset_free(train);
}

static fl_status npy_load(scratch *d, const char *task)
{
    fli_dataset *train, *test;
    const char *const *keys = KEYS("train_x", at(d, "x.npy"), "train_y", at(d, "y.npy"), "task", task);
    fl_status s = load_source(d->ctx, &fli_source_npy, keys, &train, &test);
    fli_dataset_free(train);
    return s;
}

/* Puts a bad dictionary for x and expects a complaint with `text`. */
static void expect_bad_dict(scratch *d, const char *dict, const char *text)
{
    put_npy_as(d, "x.npy", 1, dict, X, sizeof X);
    assert_fails(d->ctx, npy_load(d, "classification"), FL_EFORMAT, text);
    assert_fails(d->ctx, npy_load(d, "classification"), FL_EFORMAT, "x.npy: ");
}

static void npy_bad_headers(void **state)
{
    scratch *d = *state;
    put_npy(d, "y.npy", "<i8", "(3,)", Y, sizeof Y);
    put_text(d, "x.npy", "\x93NUMPZ\1 and so on");
    assert_fails(d->ctx, npy_load(d, "classification"), FL_EFORMAT, "x.npy: does not start as an NPY file at offset 0");
    put(d, "x.npy", "\x93NUMPY\4\0", 8);
    assert_fails(d->ctx, npy_load(d, "classification"), FL_EFORMAT, "NPY version 4.0 at offset 6");
    put(d, "x.npy", "\x93NUMPY\1\0\x40\0{'descr'", 18);
    assert_fails(d->ctx, npy_load(d, "classification"), FL_EFORMAT, "x.npy: ends at offset 18");
    put(d, "x.npy", "\x93NUMPY\2\0\0\0\0\x40", 12);
    assert_fails(d->ctx, npy_load(d, "classification"), FL_EFORMAT, "the header length at offset 8 is 1073741824");
    static const char *const foreign[][2] = {{"<c8", "complex numbers"}, {"|O", "Python objects"}, {"<U5", "texts"},
                                             {"|S3", "texts"},           {"<M8[ns]", "dates"},     {"|V8", "records"},
                                             {"<f16", "floats"}};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        char dict[100], message[100];
        snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (3, 4), }", foreign[i][0]);
        snprintf(message, sizeof message, "holds %s of type '%s', but must be an array of", foreign[i][1],
                 foreign[i][0]);
        expect_bad_dict(d, dict, message);
    }
    expect_bad_dict(d, "{'descr': [('a[', '<f4'), ('b', [('c', '<i2')])], 'fortran_order': False, 'shape': (3,), }",
                    "holds records of type '[...]'");
    expect_bad_dict(d, "{'descr': [('a', '<f4'), 'fortran_order': False, 'shape': (3,), }", "not understood");
    expect_bad_dict(d, "{'descr': '', 'fortran_order': False, 'shape': (3, 4), }", "holds values of type ''");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, 'shape': (12,), }", "features have 1 dimensions");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, 'shape': (), }", "features have 0 dimensions");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, }", "not understood");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, x), }", "at offset 64: 'x), }");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': 0, 'shape': (3, 4), }", "not understood");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4)", "not understood");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), } rest", "not understood");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), 'more': 1}", "not understood");
    expect_bad_dict(d, "{'descr': 'a type with a long name', 'fortran_order': False, 'shape': (3, 4)}",
                    "not understood");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, 'shape': (1,1,1,1,1,1,1,1,12)}", "not understood");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, 'shape': (99999999999999999999999, 4)}",
                    "not understood");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, 'shape': (0, 4)}", "dimension 0 in the header is 0");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, 'shape': (9000000000000000, 9000000000000000)}",
                    "64 GiB");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 5)}", "12 bytes short of the values");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, 'shape': (1000, 1000000)}", "short of the values");
    expect_bad_dict(d, "{'descr': '<f4', 'fortran_order': False, 'shape': (2, 4)}",
                    "has bytes after its end at offset");
}

static void npy_bad_values(void **state)
{
    scratch *d = *state;
    float x[12] = {0};
    put_npy(d, "y.npy", "<i8", "(3,)", Y, sizeof Y);
    x[6] = NAN;
    put_npy(d, "x.npy", "<f4", "(3, 4)", x, sizeof x);
    assert_fails(d->ctx, npy_load(d, "classification"), FL_EFORMAT, "x.npy: sample 1, feature 2 is not finite");
    put_npy(d, "x.npy", "<f4", "(3, 4)", X, sizeof X);
    put_npy(d, "y.npy", "<i8", "(2,)", Y, 16);
    assert_fails(d->ctx, npy_load(d, "classification"), FL_EFORMAT, "y.npy: has 2 labels for 3 samples");
    put_npy(d, "y.npy", "<i8", "(3, 2)", Y, 24);
    assert_fails(d->ctx, npy_load(d, "classification"), FL_EFORMAT, "y.npy: labels have 2 dimensions");
    put_npy(d, "y.npy", "<U1", "(3,)", Y, 12);
    assert_fails(
        d->ctx, npy_load(d, "classification"), FL_EFORMAT,
        "y.npy: holds texts of type '<U1', but must be an array of integers, floats (16, 32 or 64 bits) or bools; "
        "convert it, for instance by numpy.unique");
    put_npy(d, "y.npy", "<i8", "(3,)", Y, 23);
    assert_fails(d->ctx, npy_load(d, "classification"), FL_EFORMAT, "1 bytes short of the values");
    put_npy(d, "y.npy", "<i8", "(3,)", ((const int64_t[]){0, 0, INT64_MAX}), 24);
    assert_fails(d->ctx, npy_load(d, "classification"), FL_EFORMAT,
                 "y.npy: sample 2: label 9.2233720368547758e+18 is not a whole number up to 2^53");
    put_npy(d, "y.npy", "<f8", "(3,)", ((const double[]){0, 1.5, INFINITY}), 24);
    assert_fails(d->ctx, npy_load(d, "classification"), FL_EFORMAT,
                 "sample 1: label 1.5 is not a whole number up to 2^53; for values to predict, say task: regression");
    assert_fails(d->ctx, npy_load(d, "regression"), FL_EFORMAT, "y.npy: sample 2 has target inf");
}

/* Whole numbers, but hardly classes. */
static void npy_values(void **state)
{
    enum { SAMPLES = 60 };
    scratch *d = *state;
    float x[SAMPLES];
    int64_t y[SAMPLES];
    for (int i = 0; i < SAMPLES; i++) {
        x[i] = (float)i;
        y[i] = 100 * (i % 30);
    }
    put_npy(d, "x.npy", "<f4", "(60, 1)", x, sizeof x);
    put_npy(d, "y.npy", "<i8", "(60,)", y, sizeof y);
    put_npy(d, "g.npy", "<i8", "(60,)", y, sizeof y);
    assert_fails(
        d->ctx, npy_load(d, "auto"), FL_EFORMAT,
        "y.npy: sample 29: label '2900' is the last of 30 different numbers in 60 samples, too many for classes");
    assert_ok(d->ctx, npy_load(d, "classification"));
}

static void npy_bad_test_part(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    const char *x = put_npy(d, "x.npy", "<f4", "(3, 4)", X, sizeof X), *y = put_npy(d, "y.npy", "<i8", "(3,)", Y, 24);
    const char *tx = put_npy(d, "tx.npy", "<f4", "(1, 3)", X, 12);
    const char *ty = put_npy(d, "ty.npy", "<i8", "(1,)", ((const int64_t[]){4}), 8);
    assert_fails(d->ctx,
                 load_source(d->ctx, &fli_source_npy, KEYS("train_x", x, "train_y", y, "test_x", tx), &train, &test),
                 FL_ECONFIG, "give both or neither");
    const char *const *keys = KEYS("train_x", x, "train_y", y, "test_x", tx, "test_y", ty);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_npy, keys, &train, &test), FL_EFORMAT,
                 "tx.npy: samples of 1 x 1 x 3 features");
    put_npy(d, "tx.npy", "<f4", "(1, 4)", X, 16);
    put_npy(d, "ty.npy", "<i8", "(1,)", ((const int64_t[]){5}), 8);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_npy, keys, &train, &test), FL_EFORMAT,
                 "ty.npy: sample 0: label '5' does not occur in the training data");
    assert_fails(d->ctx,
                 load_source(d->ctx, &fli_source_npy, KEYS("train_x", "/no/x.npy", "train_y", y), &train, &test),
                 FL_EIO, "/no/x.npy: no such file");
}

/* ---- npz ------------------------------------------------------------------------------------------------ */

/* What NumPy 2.4 wrote for x = numpy.arange(6, dtype="f4").reshape(3, 2) * 0.5, y = numpy.array([3, 1, 3]):
 * savez_compressed(...) and savez(...). */
static const char compressed[] =
    "504b03042d00000008000000210088e32ce1ffffffffffffffff05001400782e6e7079010010009800000000000000570000"
    "00000000009bec17ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9366a2aea3a09e965f54529498179f5f94920a12774bcc"
    "294e058a17672416a402f91ac63a0a469a3a0ab50a64032e0608b067606800e20340cce0c0c0a0e00000504b03042d000000"
    "08000000210041e9a67effffffffffffffff05001400792e6e70790100100098000000000000004c000000000000009bec17"
    "ea1b10c9c850c650ad9e925a9c5ca46ea5a06e9369a1aea3a09e965f54529498179f5f94920a12774bcc294e058a17672416"
    "a402f91ac63a9a3a0ab50a14002e6606086084d2303e00504b01022d032d00000008000000210088e32ce157000000980000"
    "00050000000000000000000000800100000000782e6e7079504b01022d032d00000008000000210041e9a67e4c0000009800"
    "000005000000000000000000000080018e000000792e6e7079504b0506000000000200020066000000110100000000";
static const char stored[] =
    "504b03042d00000000000000210088e32ce1ffffffffffffffff05001400782e6e7079010010009800000000000000980000"
    "0000000000934e554d5059010076007b276465736372273a20273c6634272c2027666f727472616e5f6f72646572273a2046"
    "616c73652c20277368617065273a2028332c2032292c207d2020202020202020202020202020202020202020202020202020"
    "20202020202020202020202020202020202020202020202020202020202020200a000000000000003f0000803f0000c03f00"
    "00004000002040504b03042d00000000000000210041e9a67effffffffffffffff05001400792e6e70790100100098000000"
    "000000009800000000000000934e554d5059010076007b276465736372273a20273c6938272c2027666f727472616e5f6f72"
    "646572273a2046616c73652c20277368617065273a2028332c292c207d202020202020202020202020202020202020202020"
    "2020202020202020202020202020202020202020202020202020202020202020202020202020200a03000000000000000100"
    "0000000000000300000000000000504b01022d032d00000000000000210088e32ce198000000980000000500000000000000"
    "00000000800100000000782e6e7079504b01022d032d00000000000000210041e9a67e980000009800000005000000000000"
    "00000000008001cf000000792e6e7079504b05060000000002000200660000009e0100000000";

static void npz_good(void **state)
{
    scratch *d = *state;
    const char *const hex[] = {compressed, stored};
    for (size_t i = 0; i < 2; i++) {
        fli_dataset *train, *test;
        uint8_t raw[1000];
        size_t n = unhex(hex[i], raw);
        char path[600];
        snprintf(path, sizeof path, "%s", put(d, "data.npz", raw, n));
        assert_fails(d->ctx, load_source(d->ctx, &fli_source_npz, KEYS("train", path, "test", path), &train, &test),
                     FL_ECONFIG, "data.train and data.test are the same array x");
        const char *const *keys = KEYS("train", path, "test", put(d, "test.npz", raw, n), "groups", "y");
        assert_ok(d->ctx, load_source(d->ctx, &fli_source_npz, keys, &train, &test));
        assert_true(train->n == 3 && train->dim == 2 && train->kind == FLI_X_F32 && train->classes == 2);
        assert_memory_equal(train->x, ((const float[]){0, 0.5f, 1, 1.5f, 2, 2.5f}), 24);
        assert_memory_equal(train->label, ((const int32_t[]){1, 0, 1}), 12);
        assert_memory_equal(test->label, ((const int32_t[]){1, 0, 1}), 12);
        assert_true(train->groups == 2 && train->group[1] == 0 && !test->group);
        fli_dataset_free(train);
        fli_dataset_free(test);
        torture_source(d->ctx, &fli_source_npz, keys);
        assert_fails(d->ctx, load_source(d->ctx, &fli_source_npz, KEYS("train", path, "x", "X"), &train, &test),
                     FL_EFORMAT, "data.npz: has no array 'X'; there are 'x', 'y'");
        assert_fails(d->ctx, load_source(d->ctx, &fli_source_npz, KEYS("train", path, "x", "y"), &train, &test),
                     FL_EFORMAT, "data.npz: array y: features have 1 dimensions");
        raw[n - 200] ^= 4; /* somewhere within y, or its description */
        put(d, "data.npz", raw, n);
        fl_status s = load_source(d->ctx, &fli_source_npz, KEYS("train", path), &train, &test);
        assert_int_equal(s, FL_EFORMAT);
        fli_clear(d->ctx);
    }
}

/* One archive for all, as Keras has MNIST. */
static void npz_names(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    static const char *const names[] = {"x_train.npy", "y_train.npy", "x_test.npy", "y_test.npy"};
    static const char *const dict[] = {"{'descr': '|u1', 'fortran_order': False, 'shape': (2, 2, 2)}",
                                       "{'descr': '|u1', 'fortran_order': False, 'shape': (2,)}",
                                       "{'descr': '|u1', 'fortran_order': False, 'shape': (1, 2, 2)}",
                                       "{'descr': '|u1', 'fortran_order': False, 'shape': (1,)}"};
    static const size_t size[] = {8, 2, 4, 1};
    zip_file *z = calloc(1, sizeof *z);
    for (size_t i = 0; i < 4; i++) {
        bytes f = {.b = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, (uint8_t)strlen(dict[i]), 0}, .n = 10};
        memcpy(f.b + f.n, dict[i], strlen(dict[i]));
        f.n += strlen(dict[i]);
        for (size_t k = 0; k < size[i]; k++) f.b[f.n++] = (uint8_t)(k + i * 10 - (i == 3 ? 20 : 0));
        zip_member(z, names[i], f.b, f.n, i % 2 ? 8 : 0, ZIP_64);
    }
    zip_end_as(z, 1);
    const char *path = put(d, "mnist.npz", z->b, z->n);
    const char *const *keys =
        KEYS("train", path, "test", path, "x", "x_train", "y", "y_train", "test_x", "x_test", "test_y", "y_test");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_npz, keys, &train, &test));
    assert_true(train->kind == FLI_X_U8 && train->n == 2 && train->shape[1] == 2 && test->n == 1);
    assert_true(((uint8_t *)test->x)[3] == 23 && test->label[0] == 0 && train->classes == 2);
    fli_dataset_free(train);
    fli_dataset_free(test);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_npz, KEYS("train", put_text(d, "t", "text")), &train, &test),
                 FL_EFORMAT, "t: is not a zip archive");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_npz, KEYS("train", "/no/x.npz"), &train, &test), FL_EIO,
                 "/no/x.npz: no such file");
    free(z);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(npy_good),          cmocka_unit_test(npy_shapes),     cmocka_unit_test(npy_types),
        cmocka_unit_test(npy_halves),        cmocka_unit_test(npy_fortran),    cmocka_unit_test(npy_labels),
        cmocka_unit_test(npy_bad_headers),   cmocka_unit_test(npy_bad_values), cmocka_unit_test(npy_values),
        cmocka_unit_test(npy_bad_test_part), cmocka_unit_test(npz_good),       cmocka_unit_test(npz_names),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
