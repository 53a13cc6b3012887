/* What holds for every partitioner in the list. */
#include "bound.h"

#include "base/file.h"
#include "data/partition/partition.h"

enum { SAMPLES = 600, CLASSES = 5, GROUPS = 9 };

static fl_ctx *ctx;
static fli_arena arena;
static char folder[] = "/tmp/fedloom-conform-XXXXXX", path[64];

/* A partition for `file` to read: GROUPS clients. */
static int write_file(void)
{
    snprintf(path, sizeof path, "%s/p.json", folder);
    FILE *f = fopen(path, "w");
    if (!f) return 1;
    fprintf(f, "{\"clients\": [");
    for (int i = 0; i < GROUPS; i++) fprintf(f, "%s[%d, %d]", i ? "," : "", i, i + 100);
    fprintf(f, "]}");
    return fclose(f);
}

static int setup(void **state)
{
    (void)state;
    ctx = fl_ctx_new();
    fli_arena_init(&arena, ctx);
    return !mkdtemp(folder) || write_file();
}

static int teardown(void **state)
{
    (void)state;
    fli_remove_folder(ctx, folder);
    fli_arena_fini(&arena);
    fl_ctx_free(ctx);
    return 0;
}

static void *params_of(const fli_partitioner *p)
{
    int file = p == &fli_partitioner_file;
    return bound(&arena, p->keys, p->params_size, file ? "path" : NULL, path, NULL);
}

static fli_dataset *data(size_t classes)
{
    fli_dataset *ds;
    assert_ok(ctx, fli_dataset_new(ctx, FLI_X_F32, SAMPLES, 1, classes, &ds));
    ds->group = fli_alloc(ctx, SAMPLES, sizeof *ds->group);
    ds->groups = GROUPS;
    for (size_t i = 0; i < SAMPLES; i++) {
        if (classes) ds->label[i] = (int32_t)(i * i % classes);
        ds->group[i] = (int32_t)(i * 7 % GROUPS);
    }
    return ds;
}

static int same(const fli_partition *a, const fli_partition *b)
{
    return a->clients == b->clients && !memcmp(a->start, b->start, (a->clients + 1) * sizeof *a->start) &&
           !memcmp(a->index, b->index, a->start[a->clients] * sizeof *a->index);
}

static int is_random(const fli_partitioner *p) { return p != &fli_partitioner_natural && p != &fli_partitioner_file; }

static void test_every_partition_is_one(void **state)
{
    (void)state;
    fli_dataset *ds = data(CLASSES);
    for (const fli_partitioner *const *p = fli_partitioner_list; *p; p++)
        for (size_t clients = (*p)->sets_clients ? 0 : 1; clients <= GROUPS; clients += 4) {
            fli_partition a;
            unsigned char owned[SAMPLES] = {0};
            assert_ok(ctx, fli_partition_make(ctx, *p, params_of(*p), ds, 3, clients, &a));
            assert_int_equal(a.clients, clients ? clients : GROUPS);
            assert_int_equal(a.start[0], 0);
            for (size_t i = 0; i < a.clients; i++) {
                assert_true(a.start[i] < a.start[i + 1]);
                for (size_t k = a.start[i]; k < a.start[i + 1]; k++) {
                    assert_true(a.index[k] < SAMPLES);
                    assert_false(owned[a.index[k]]++);
                    assert_true(k == a.start[i] || a.index[k - 1] < a.index[k]);
                }
            }
            fli_partition_fini(&a);
        }
    fli_dataset_free(ds);
}

static void test_a_function_of_the_seed(void **state)
{
    (void)state;
    fli_dataset *ds = data(CLASSES);
    for (const fli_partitioner *const *p = fli_partitioner_list; *p; p++) {
        fli_partition a, b, c;
        assert_ok(ctx, fli_partition_make(ctx, *p, params_of(*p), ds, 3, 6, &a));
        assert_ok(ctx, fli_partition_make(ctx, *p, params_of(*p), ds, 3, 6, &b));
        assert_ok(ctx, fli_partition_make(ctx, *p, params_of(*p), ds, 4, 6, &c));
        assert_true(same(&a, &b));
        assert_int_equal(same(&a, &c), !is_random(*p));
        fli_partition_fini(&a);
        fli_partition_fini(&b);
        fli_partition_fini(&c);
    }
    fli_dataset_free(ds);
}

static void test_impossible_partitions_are_refused(void **state)
{
    (void)state;
    fli_dataset *ds = data(CLASSES), *numbers = data(0);
    for (const fli_partitioner *const *p = fli_partitioner_list; *p; p++) {
        fli_partition a;
        void *params = params_of(*p);
        assert_fails(ctx, fli_partition_make(ctx, *p, params, ds, 3, SAMPLES + 1, &a), FL_ECONFIG,
                     "601 clients cannot share 600 samples");
        assert_null(a.start);
        if (!(*p)->sets_clients)
            assert_fails(ctx, fli_partition_make(ctx, *p, params, ds, 3, 0, &a), FL_ECONFIG, "number of clients");
        if ((*p)->needs_labels) {
            assert_fails(ctx, fli_partition_make(ctx, *p, params, numbers, 3, 6, &a), FL_ECONFIG, (*p)->name);
        } else {
            assert_ok(ctx, fli_partition_make(ctx, *p, params, numbers, 3, 6, &a));
            fli_partition_fini(&a);
        }
    }
    fli_dataset_free(ds);
    fli_dataset_free(numbers);
}

static void test_failing_allocations_are_reported(void **state)
{
    (void)state;
    fli_dataset *ds = data(CLASSES);
    for (const fli_partitioner *const *p = fli_partitioner_list; *p; p++) {
        void *params = params_of(*p);
        for (size_t k = 1;; k++) {
            fli_partition a;
            fli_ctx_fail_alloc(ctx, k);
            fl_status s = fli_partition_make(ctx, *p, params, ds, 3, 6, &a);
            fli_ctx_fail_alloc(ctx, 0);
            if (s == FL_OK) {
                assert_true(k > 3); /* owners, starts and indices at least */
                fli_partition_fini(&a);
                break;
            }
            assert_int_equal(s, FL_ENOMEM);
            assert_null(a.start);
            assert_true(k < 30);
            fli_clear(ctx);
        }
    }
    fli_dataset_free(ds);
}

static void test_descriptors_are_complete(void **state)
{
    (void)state;
    for (const fli_partitioner *const *p = fli_partitioner_list; *p; p++) {
        assert_non_null((*p)->name);
        assert_non_null((*p)->title);
        assert_non_null((*p)->assign);
        assert_int_equal(!(*p)->keys, !(*p)->params_size);
        for (const fli_partitioner *const *q = fli_partitioner_list; q < p; q++)
            assert_string_not_equal((*p)->name, (*q)->name);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_partition_is_one),
        cmocka_unit_test(test_a_function_of_the_seed),
        cmocka_unit_test(test_impossible_partitions_are_refused),
        cmocka_unit_test(test_failing_allocations_are_reported),
        cmocka_unit_test(test_descriptors_are_complete),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
