/* Samples that stay in their file until it is known which of them are needed. */
#include "data_files.h"

#include "base/memory.h"
#include "bound.h"
#include "data/federation/federation.h"

enum { N = 6, DIM = 4 };

/* An NPY file whose values begin `behind` bytes behind a multiple of 64. */
static const char *put_array(scratch *d, const char *name, const char *type, size_t width, size_t behind,
                             const void *body, size_t n)
{
    uint8_t b[1024] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0};
    size_t head = 128 + behind, length = head - 10;
    b[8] = (uint8_t)length;
    b[9] = (uint8_t)(length >> 8);
    memset(b + 10, ' ', length);
    char dict[128];
    int k = snprintf(dict, sizeof dict, "{'descr': '%s', 'fortran_order': False, 'shape': (%d, %d), }", type, N, DIM);
    memcpy(b + 10, dict, (size_t)k);
    b[head - 1] = '\n';
    memcpy(b + head, body, n * width);
    return put(d, name, b, head + n * width);
}

static const char *put_labels(scratch *d)
{
    const uint8_t y[] = {0, 1, 0, 1, 2, 2};
    uint8_t b[128 + N] = {0x93, 'N', 'U', 'M', 'P', 'Y', 1, 0, 118};
    memset(b + 10, ' ', 118);
    const char *dict = "{'descr': '|u1', 'fortran_order': False, 'shape': (6,), }";
    memcpy(b + 10, dict, strlen(dict));
    b[127] = '\n';
    memcpy(b + 128, y, N);
    return put(d, "y.npy", b, sizeof b);
}

static fl_status load(scratch *d, const char *x, int mapped, fli_dataset **train)
{
    fli_dataset *test;
    load_mapped = mapped;
    fl_status s = load_source(d->ctx, &fli_source_npy, KEYS("train_x", x, "train_y", put_labels(d)), train, &test);
    load_mapped = 0;
    return s;
}

/* Mapped or read, the samples are the same. */
static void check_array(scratch *d, const char *path, size_t width, const void *body, int expected)
{
    fli_dataset *ds;
    for (int mapped = 0; mapped < 2; mapped++) {
        assert_ok(d->ctx, load(d, path, mapped, &ds));
        assert_int_equal(ds->map.base != NULL, mapped && expected);
        assert_memory_equal(ds->x, body, N * DIM * width);
        fli_dataset_free(ds);
    }
}

static void values(float *f, double *g, uint8_t *b)
{
    for (size_t i = 0; i < N * DIM; i++) {
        f[i] = (float)i / 3;
        g[i] = (double)i / 7;
        b[i] = (uint8_t)(i * 11);
    }
}

static void aligned_arrays_are_mapped(void **state)
{
    scratch *d = *state;
    float f[N * DIM];
    double g[N * DIM];
    uint8_t b[N * DIM];
    values(f, g, b);
    check_array(d, put_array(d, "f.npy", "<f4", 4, 0, f, N * DIM), 4, f, 1);
    check_array(d, put_array(d, "g.npy", "<f8", 8, 0, g, N * DIM), 8, g, 1);
    check_array(d, put_array(d, "b.npy", "|u1", 1, 0, b, N * DIM), 1, b, 1);
    check_array(d, put_array(d, "b3.npy", "|u1", 1, 3, b, N * DIM), 1, b, 1);
    check_array(d, put_array(d, "f4.npy", "<f4", 4, 4, f, N * DIM), 4, f, 1);
    /* where floats and doubles cannot lie */
    check_array(d, put_array(d, "f2.npy", "<f4", 4, 2, f, N * DIM), 4, f, 0);
    check_array(d, put_array(d, "g4.npy", "<f8", 8, 4, g, N * DIM), 8, g, 0);
}

static void other_types_are_read(void **state)
{
    scratch *d = *state;
    int16_t in[N * DIM];
    float out[N * DIM];
    for (int i = 0; i < N * DIM; i++) out[i] = in[i] = (int16_t)(i - 9);
    check_array(d, put_array(d, "i.npy", "<i2", 2, 0, in, N * DIM), 4, out, 0);
}

static void packed_files_are_read(void **state)
{
    scratch *d = *state;
    uint8_t b[N * DIM];
    float f[N * DIM];
    double g[N * DIM];
    char *plain;
    size_t n, packed;
    values(f, g, b);
    assert_ok(d->ctx, fli_file_read(d->ctx, put_array(d, "b.npy", "|u1", 1, 0, b, N * DIM), 1 << 20, &plain, &n));
    uint8_t *gz = pack_gz(plain, n, &packed);
    check_array(d, put(d, "b.npy.gz", gz, packed), 1, b, 0);
    free(gz);
    fli_free(plain);
}

/* What is wrong is said as of files that are read. */
static void wrong_lengths(void **state)
{
    scratch *d = *state;
    float f[N * DIM + 1] = {0};
    fli_dataset *ds;
    const char *shorter = put_array(d, "short.npy", "<f4", 4, 0, f, N * DIM - 1);
    const char *longer = put_array(d, "long.npy", "<f4", 4, 0, f, N * DIM + 1);
    for (int mapped = 0; mapped < 2; mapped++) {
        assert_fails(d->ctx, load(d, shorter, mapped, &ds), FL_EFORMAT, "4 bytes short of the values");
        assert_fails(d->ctx, load(d, longer, mapped, &ds), FL_EFORMAT, "has bytes after its end at offset 224");
    }
}

static void training_images_are_mapped(void **state)
{
    scratch *d = *state;
    uint8_t x[16 + N * DIM] = {0, 0, 8, 3, 0, 0, 0, N, 0, 0, 0, 2, 0, 0, 0, 2}, y[8 + N] = {0, 0, 8, 1, 0, 0, 0, N};
    for (size_t i = 0; i < N * DIM; i++) x[16 + i] = (uint8_t)(7 * i);
    for (size_t i = 0; i < N; i++) y[8 + i] = (uint8_t)(i % 3);
    put(d, "x", x, sizeof x);
    put(d, "y", y, sizeof y);
    for (int limit = 0; limit < 2; limit++) {
        fli_dataset *train, *test;
        load_mapped = 1;
        const char *const *keys = KEYS("dir", d->dir, "train_images", "x", "train_labels", "y", "test_images", "x",
                                       "test_labels", "y", "limit", limit ? "4" : "0");
        assert_ok(d->ctx, load_source(d->ctx, &fli_source_idx, keys, &train, &test));
        load_mapped = 0;
        assert_non_null(train->map.base);
        assert_null(test->map.base); /* it is used to the end of a run */
        assert_int_equal(train->n, limit ? 4 : N);
        assert_memory_equal(train->x, x + 16, train->n * DIM);
        assert_memory_equal(test->x, x + 16, N * DIM);
        fli_dataset_free(train);
        fli_dataset_free(test);
    }
}

/* Once it is known who is here, nothing is mapped any more: not even if all are. */
static void kept_samples_are_in_memory(void **state)
{
    scratch *d = *state;
    fli_arena arena;
    float f[N * DIM];
    double g[N * DIM];
    uint8_t b[N * DIM];
    values(f, g, b);
    fli_arena_init(&arena, d->ctx);
    const char *x = put_array(d, "f.npy", "<f4", 4, 0, f, N * DIM), *y = put_labels(d);
    fli_fed_spec spec = {
        .source = &fli_source_npy,
        .source_params =
            bound(&arena, fli_source_npy.keys, fli_source_npy.params_size, "train_x", x, "train_y", y, NULL),
        .partitioner = &fli_partitioner_iid,
        .partitioner_params = bound(&arena, fli_partitioner_iid.keys, fli_partitioner_iid.params_size, NULL),
        .clients = 3,
        .seed = 1,
        .map = 1};
    for (size_t here = 0; here <= 3; here++) {
        fli_fed *fed;
        assert_ok(d->ctx, fli_fed_new(d->ctx, &spec, &fed));
        assert_non_null(fed->train->map.base);
        assert_ok(d->ctx, fli_fed_keep(d->ctx, fed, (const uint32_t[]){0, 1, 2}, here));
        assert_null(fed->train->map.base);
        assert_int_equal(fed->train->n, 2 * here);
        for (uint32_t i = 0; i < fed->train->n; i++)
            assert_memory_equal((const float *)fed->train->x + i * DIM, f + fli_dataset_number(fed->train, i) * DIM,
                                DIM * sizeof *f);
        fli_fed_free(fed);
    }
    fli_arena_fini(&arena);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(aligned_arrays_are_mapped, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(other_types_are_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(packed_files_are_read, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(wrong_lengths, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(training_images_are_mapped, scratch_setup, scratch_teardown),
        cmocka_unit_test_setup_teardown(kept_samples_are_in_memory, scratch_setup, scratch_teardown),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
