/* idx, cifar10: good files of every form, and every way a file can be wrong. */
#include "data_files.h"

/* ---- idx ------------------------------------------------------------------------------------------------ */

/* An IDX file in memory: header of the given type and sizes, then a body of `body` bytes, byte i being f(i) = i * 7 mod
 * 251. */
typedef struct {
    uint8_t b[4096];
    size_t n;
} bytes;

static bytes idx_file(uint8_t type, size_t dims, const uint32_t *size, size_t body)
{
    bytes f = {.b = {0, 0, type, (uint8_t)dims}, .n = 4};
    for (size_t i = 0; i < dims; i++)
        for (int shift = 24; shift >= 0; shift -= 8) f.b[f.n++] = (uint8_t)(size[i] >> shift);
    for (size_t i = 0; i < body; i++) f.b[f.n++] = (uint8_t)(i * 7 % 251);
    return f;
}

#define DIMS(...)                                                                                                      \
    (const uint32_t[]) { __VA_ARGS__ }

static bytes label_file(size_t n, const uint8_t *labels)
{
    bytes f = idx_file(8, 1, DIMS((uint32_t)n), 0);
    memcpy(f.b + f.n, labels, n);
    f.n += n;
    return f;
}

static void put_bytes(scratch *d, const char *name, bytes f) { put(d, name, f.b, f.n); }

/* 5 training images of 2 x 3 with labels 0 2 1 2 0, and 2 test images. */
static void put_small_set(scratch *d)
{
    put_bytes(d, "train-images-idx3-ubyte", idx_file(8, 3, DIMS(5, 2, 3), 30));
    put_bytes(d, "train-labels-idx1-ubyte", label_file(5, (const uint8_t[]){0, 2, 1, 2, 0}));
    put_bytes(d, "t10k-images-idx3-ubyte", idx_file(8, 3, DIMS(2, 2, 3), 12));
    put_bytes(d, "t10k-labels-idx1-ubyte", label_file(2, (const uint8_t[]){2, 0}));
}

static void idx_good(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    put_small_set(d);
    bytes labels = label_file(2, (const uint8_t[]){2, 0}), images = idx_file(8, 3, DIMS(2, 2, 3), 12);
    assert_int_equal(unlink(at(d, "t10k-labels-idx1-ubyte")), 0);
    assert_int_equal(unlink(at(d, "t10k-images-idx3-ubyte")), 0);
    put_gz(d, "t10k-images-idx3-ubyte.gz", images.b, images.n);
    put_xz(d, "t10k-labels-idx1-ubyte.xz", labels.b, labels.n);
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_idx, KEYS("dir", d->dir), &train, &test));
    assert_ok(d->ctx, fli_dataset_check(d->ctx, train, "train"));
    assert_ok(d->ctx, fli_dataset_check(d->ctx, test, "test"));
    assert_true(train->kind == FLI_X_U8 && train->n == 5 && train->dim == 6 && train->classes == 3 && !train->group);
    assert_true(train->shape[0] == 1 && train->shape[1] == 2 && train->shape[2] == 3);
    for (size_t i = 0; i < 30; i++) assert_int_equal(((uint8_t *)train->x)[i], i * 7 % 251);
    assert_memory_equal(train->label, ((const int32_t[]){0, 2, 1, 2, 0}), 5 * sizeof(int32_t));
    assert_true(test->n == 2 && test->classes == 3 && test->label[0] == 2 && test->label[1] == 0);
    fli_dataset_free(train);
    fli_dataset_free(test);
    torture_source(d->ctx, &fli_source_idx, KEYS("dir", d->dir));
    unlink(at(d, "t10k-images-idx3-ubyte.gz"));
    unlink(at(d, "t10k-labels-idx1-ubyte.xz"));
}

/* limit keeps the first ones, and the number of classes is the file's. */
static void idx_limits_and_flat(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    put_small_set(d);
    put_bytes(d, "flat", idx_file(8, 2, DIMS(5, 6), 30));
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_idx,
                                  KEYS("dir", d->dir, "train_images", "flat", "limit", "1", "test_images", "",
                                       "test_labels", ""),
                                  &train, &test));
    assert_null(test);
    assert_true(train->n == 1 && train->dim == 6 && train->classes == 3);
    assert_true(train->shape[0] == 1 && train->shape[1] == 1 && train->shape[2] == 6);
    fli_dataset_free(train);
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_idx, KEYS("dir", d->dir, "limit", "99", "test_limit", "1"),
                                  &train, &test));
    assert_true(train->n == 5 && test->n == 1);
    fli_dataset_free(train);
    fli_dataset_free(test);
}

/* Ids 300, -4, 300, 70000, -4 become 1 0 1 2 0. */
static void idx_groups(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    static const int32_t id[] = {300, -4, 300, 70000, -4}, want[] = {1, 0, 1, 2, 0};
    bytes f = idx_file(0x0C, 2, DIMS(5, 3), 0);
    for (size_t i = 0; i < 5; i++)
        for (size_t c = 0; c < 3; c++) {
            uint32_t v = c == 1 ? (uint32_t)id[i] : 99;
            for (int shift = 24; shift >= 0; shift -= 8) f.b[f.n++] = (uint8_t)(v >> shift);
        }
    put_small_set(d);
    put_gz(d, "owners.gz", f.b, f.n);
    const char *const *keys = KEYS("dir", d->dir, "groups", "owners", "groups_column", "1");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_idx, keys, &train, &test));
    assert_int_equal(train->groups, 3);
    assert_memory_equal(train->group, want, sizeof want);
    assert_null(test->group);
    fli_dataset_free(train);
    fli_dataset_free(test);
    torture_source(d->ctx, &fli_source_idx, keys);
    /* only the owners of the samples that are kept count */
    keys = KEYS("dir", d->dir, "groups", "owners", "groups_column", "1", "limit", "2");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_idx, keys, &train, &test));
    assert_true(train->groups == 2 && train->group[0] == 1 && train->group[1] == 0);
    fli_dataset_free(train);
    fli_dataset_free(test);
    keys = KEYS("dir", d->dir, "groups", "owners", "groups_column", "3");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_idx, keys, &train, &test), FL_EFORMAT,
                 "owners.gz: has columns 0 .. 2, but groups_column is 3");
    f.b[7] = 4; /* rows */
    put_gz(d, "owners.gz", f.b, f.n - 12);
    keys = KEYS("dir", d->dir, "groups", "owners");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_idx, keys, &train, &test), FL_EFORMAT,
                 "owners.gz: has 4 rows, but there are 5 training images");
    keys = KEYS("dir", d->dir, "groups", "train-labels-idx1-ubyte");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_idx, keys, &train, &test), FL_EFORMAT,
                 "has values of IDX type 0x08 at offset 2 where 0x0c (32-bit integers) is expected");
}

/* Loads with one file replaced. */
static fl_status idx_with(scratch *d, const char *name, bytes f)
{
    fli_dataset *train, *test;
    put_small_set(d);
    put_bytes(d, name, f);
    fl_status s = load_source(d->ctx, &fli_source_idx, KEYS("dir", d->dir), &train, &test);
    if (s == FL_OK) {
        fli_dataset_free(train);
        fli_dataset_free(test);
    }
    return s;
}

/* Floats and doubles, big-endian, come out as they are; a limit keeps the first ones; NaN and infinity are refused. */
static void idx_reals(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    static const double value[] = {0.1, -1.5e-30, 3, 1e30, 0, -7.25};
    for (int wide = 0; wide < 2; wide++) {
        bytes f = idx_file(wide ? 0x0E : 0x0D, 2, DIMS(3, 2), 0);
        for (size_t i = 0; i < 6; i++) {
            float narrow = (float)value[i];
            uint32_t bits32;
            uint64_t bits;
            memcpy(&bits32, &narrow, 4);
            memcpy(&bits, &value[i], 8);
            if (!wide) bits = bits32;
            for (int shift = wide ? 56 : 24; shift >= 0; shift -= 8) f.b[f.n++] = (uint8_t)(bits >> shift);
        }
        put_bytes(d, "reals", f);
        put_bytes(d, "labels", label_file(3, (const uint8_t[]){0, 1, 0}));
        const char *const *keys = KEYS("dir", d->dir, "train_images", "reals", "train_labels", "labels", "test_images",
                                       "reals", "test_labels", "labels", "test_limit", "1");
        assert_ok(d->ctx, load_source(d->ctx, &fli_source_idx, keys, &train, &test));
        assert_ok(d->ctx, fli_dataset_check(d->ctx, train, "train"));
        assert_true(train->kind == (wide ? FLI_X_F64 : FLI_X_F32) && train->n == 3 && train->dim == 2 && test->n == 1);
        for (size_t i = 0; i < 3; i++) {
            double row[2];
            fli_dataset_row(train, i, row);
            for (size_t j = 0; j < 2; j++)
                assert_true(row[j] == (wide ? value[2 * i + j] : (double)(float)value[2 * i + j]));
        }
        fli_dataset_free(train);
        fli_dataset_free(test);
        torture_source(d->ctx, &fli_source_idx, keys);
        size_t element = wide ? 8 : 4;
        memset(f.b + f.n - element, 0x7f, element);
        f.b[f.n - element + 1] = 0xff; /* a NaN */
        for (int infinite = 0; infinite < 3; infinite++) {
            put_bytes(d, "reals", f);
            assert_fails(d->ctx, load_source(d->ctx, &fli_source_idx, keys, &train, &test), FL_EFORMAT,
                         "reals: value 1 of image 2 is not finite");
            memset(f.b + f.n - element, 0, element);
            f.b[f.n - element] = infinite ? 0xff : 0x7f; /* and of either sign */
            f.b[f.n - element + 1] = wide ? 0xf0 : 0x80;
        }
    }
}

static void idx_bad(void **state)
{
    scratch *d = *state;
    static const char *const images = "train-images-idx3-ubyte", *const labels = "train-labels-idx1-ubyte";
    bytes f = idx_file(8, 3, DIMS(5, 2, 3), 30);
    f.b[1] = 9;
    assert_fails(d->ctx, idx_with(d, images, f), FL_EFORMAT, "train-images-idx3-ubyte: starts with 0x0009 at offset 0");
    assert_fails(d->ctx, idx_with(d, images, (bytes){.n = 3}), FL_EFORMAT, "ends at offset 3, 1 bytes short of an IDX");
    assert_fails(d->ctx, idx_with(d, images, (bytes){.n = 0}), FL_EFORMAT, "ends at offset 0");
    assert_fails(d->ctx, idx_with(d, images, idx_file(0x0B, 3, DIMS(5, 2, 3), 60)), FL_EFORMAT,
                 "IDX type 0x0b at offset 2 where 0x08 (bytes), 0x0d (floats) or 0x0e (doubles) is expected");
    assert_fails(d->ctx, idx_with(d, images, idx_file(0, 3, DIMS(5, 2, 3), 60)), FL_EFORMAT, "IDX type 0x00");
    assert_fails(d->ctx, idx_with(d, labels, idx_file(0x0D, 1, DIMS(5), 20)), FL_EFORMAT,
                 "IDX type 0x0d at offset 2 where 0x08 (bytes) is expected");
    assert_fails(d->ctx, idx_with(d, images, idx_file(0x0D, 3, DIMS(5, 2, 3), 119)), FL_EFORMAT, "1 bytes short");
    assert_fails(d->ctx, idx_with(d, images, idx_file(8, 4, DIMS(5, 2, 3, 1), 30)), FL_EFORMAT,
                 "has 4 dimensions at offset 3 where 2 to 3");
    assert_fails(d->ctx, idx_with(d, images, idx_file(8, 1, DIMS(5), 5)), FL_EFORMAT, "has 1 dimensions");
    f = idx_file(8, 3, DIMS(5, 2, 3), 0);
    f.n = 10;
    assert_fails(d->ctx, idx_with(d, images, f), FL_EFORMAT, "ends at offset 10, 2 bytes short of the sizes");
    assert_fails(d->ctx, idx_with(d, images, idx_file(8, 3, DIMS(5, 0, 3), 0)), FL_EFORMAT,
                 "dimension 1 in the header is 0");
    assert_fails(d->ctx, idx_with(d, images, idx_file(8, 3, DIMS(5, UINT32_MAX, UINT32_MAX), 0)), FL_EFORMAT,
                 "dimension 2 in the header is 4294967295, which makes over 64 GiB");
    assert_fails(d->ctx, idx_with(d, images, idx_file(8, 2, DIMS(UINT32_MAX, 1), 0)), FL_EFORMAT,
                 "4294967295 samples are too many");
    /* 60 GiB promised, 30 bytes there: must fail without taking the memory */
    assert_fails(d->ctx, idx_with(d, images, idx_file(8, 3, DIMS(60, 1 << 15, 1 << 15), 30)), FL_EFORMAT,
                 "train-images-idx3-ubyte: ends at offset 46");
    assert_fails(d->ctx, idx_with(d, images, idx_file(8, 3, DIMS(5, 2, 3), 29)), FL_EFORMAT,
                 "ends at offset 45, 1 bytes short of the images its header promises");
    assert_fails(d->ctx, idx_with(d, images, idx_file(8, 3, DIMS(5, 2, 3), 31)), FL_EFORMAT,
                 "has bytes after its end at offset 46");
    assert_fails(d->ctx, idx_with(d, labels, label_file(4, (const uint8_t[]){0, 1, 2, 0})), FL_EFORMAT,
                 "train-labels-idx1-ubyte: has 4 labels, but train-images-idx3-ubyte has 5 images");
    assert_fails(d->ctx, idx_with(d, labels, idx_file(8, 1, DIMS(5), 4)), FL_EFORMAT, "ends at offset 12");
    assert_fails(d->ctx, idx_with(d, labels, idx_file(8, 1, DIMS(5), 6)), FL_EFORMAT, "after its end at offset 13");
    assert_fails(d->ctx, idx_with(d, labels, idx_file(8, 2, DIMS(5, 1), 5)), FL_EFORMAT, "has 2 dimensions");
}

static void idx_bad_test_part(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    assert_fails(d->ctx, idx_with(d, "t10k-labels-idx1-ubyte", label_file(2, (const uint8_t[]){1, 3})), FL_EFORMAT,
                 "t10k-labels-idx1-ubyte: sample 1: label '3' does not occur in the training data; where");
    assert_fails(d->ctx, idx_with(d, "t10k-images-idx3-ubyte", idx_file(8, 3, DIMS(2, 3, 2), 12)), FL_EFORMAT,
                 "t10k-images-idx3-ubyte: samples of 1 x 3 x 2 features, but those for training are 1 x 2 x 3");
    put_small_set(d);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_idx, KEYS("dir", d->dir, "test_images", ""), &train, &test),
                 FL_ECONFIG, "give both or neither");
    assert_fails(
        d->ctx, load_source(d->ctx, &fli_source_idx, KEYS("dir", d->dir, "test_images", "no-such-file"), &train, &test),
        FL_EIO, "/no-such-file: no such file");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_idx, KEYS("dir", d->dir, "limit", "-1"), &train, &test),
                 FL_ECONFIG, "limit");
}

/* ---- cifar10 -------------------------------------------------------------------------------------------- */

enum { RECORD = 3073 };

/* `count` records with labels first, first + 1, ... and pixels (record + position) mod 256. */
static uint8_t *records(size_t count, uint8_t first)
{
    uint8_t *p = malloc(count * RECORD + 1);
    for (size_t r = 0; r < count; r++) {
        p[r * RECORD] = (uint8_t)(first + r);
        for (size_t i = 1; i < RECORD; i++) p[r * RECORD + i] = (uint8_t)(r + i);
    }
    p[count * RECORD] = 0;
    return p;
}

static void cifar_good(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    uint8_t *a = records(3, 0), *b = records(2, 8);
    put(d, "data_batch_1.bin", a, 3 * RECORD);
    put_gz(d, "data_batch_2.bin.gz", b, 2 * RECORD);
    put_xz(d, "test_batch.bin.xz", b, RECORD);
    const char *const *keys = KEYS("dir", d->dir, "batches", "2");
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_cifar10, keys, &train, &test));
    assert_ok(d->ctx, fli_dataset_check(d->ctx, train, "train"));
    assert_true(train->n == 5 && train->dim == 3072 && train->classes == 10 && train->kind == FLI_X_U8);
    assert_true(train->shape[0] == 3 && train->shape[1] == 32 && train->shape[2] == 32);
    assert_memory_equal(train->label, ((const int32_t[]){0, 1, 2, 8, 9}), 5 * sizeof(int32_t));
    for (size_t r = 0; r < 5; r++)
        assert_memory_equal((uint8_t *)train->x + r * 3072, (r < 3 ? a + r * RECORD : b + (r - 3) * RECORD) + 1, 3072);
    assert_true(test->n == 1 && test->classes == 10 && test->label[0] == 8);
    fli_dataset_free(train);
    fli_dataset_free(test);
    torture_source(d->ctx, &fli_source_cifar10, keys);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_cifar10, KEYS("dir", d->dir, "batches", "3"), &train, &test),
                 FL_EIO, "data_batch_3.bin: no such file");
    free(a);
    free(b);
}

static void cifar_bad(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    uint8_t *a = records(3, 8); /* the last label is 10 */
    const char *const *keys = KEYS("dir", d->dir, "batches", "1");
    put(d, "data_batch_1.bin", a, 3 * RECORD);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_cifar10, keys, &train, &test), FL_EFORMAT,
                 "data_batch_1.bin: record 2 at offset 6146 has label 10, not in 0 .. 9");
    put(d, "data_batch_1.bin", a, 2 * RECORD + 1);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_cifar10, keys, &train, &test), FL_EFORMAT,
                 "data_batch_1.bin: has 6147 bytes, not a positive multiple of 3073");
    put(d, "data_batch_1.bin", a, 0);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_cifar10, keys, &train, &test), FL_EFORMAT, "has 0 bytes");
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_cifar10, KEYS("batches", "6"), &train, &test), FL_ECONFIG,
                 "dir is missing");
    free(a);
}

/* EMNIST's letters are 1 to 26: as elsewhere, labels become 0, 1, ...; a number of classes leaves them as they are. */
static void idx_classes(void **state)
{
    scratch *d = *state;
    fli_dataset *train, *test;
    put_small_set(d);
    put_bytes(d, "train-labels-idx1-ubyte", label_file(5, (const uint8_t[]){1, 7, 3, 1, 7}));
    put_bytes(d, "t10k-labels-idx1-ubyte", label_file(2, (const uint8_t[]){7, 1}));
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_idx, KEYS("dir", d->dir, "limit", "1"), &train, &test));
    assert_true(train->classes == 3 && train->n == 1 && train->label[0] == 0 && test->classes == 3);
    assert_memory_equal(test->label, ((const int32_t[]){2, 0}), 8);
    fli_dataset_free(train);
    fli_dataset_free(test);
    put_bytes(d, "t10k-labels-idx1-ubyte", label_file(2, (const uint8_t[]){7, 4})); /* 4 is not in training */
    assert_ok(d->ctx, load_source(d->ctx, &fli_source_idx, KEYS("dir", d->dir, "classes", "8"), &train, &test));
    assert_true(train->classes == 8 && train->label[1] == 7 && test->classes == 8 && test->label[1] == 4);
    fli_dataset_free(train);
    fli_dataset_free(test);
    assert_fails(d->ctx, load_source(d->ctx, &fli_source_idx, KEYS("dir", d->dir, "classes", "7"), &train, &test),
                 FL_EFORMAT,
                 "train-labels-idx1-ubyte: sample 1: label '7' is not a whole number in 0 .. 6, as classes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(idx_good),   cmocka_unit_test(idx_limits_and_flat), cmocka_unit_test(idx_groups),
        cmocka_unit_test(idx_bad),    cmocka_unit_test(idx_reals),           cmocka_unit_test(idx_bad_test_part),
        cmocka_unit_test(cifar_good), cmocka_unit_test(cifar_bad),           cmocka_unit_test(idx_classes),
    };
    return cmocka_run_group_tests(tests, scratch_setup, scratch_teardown);
}
