#include "bound.h"

#include "base/file.h"
#include "data/partition/partition.h"

static fl_ctx *ctx;
static fli_arena arena;
static char folder[] = "/tmp/fedloom-partition-XXXXXX";
static char logged[1024];

static void remember(void *arg, fl_log_level level, const char *line)
{
    (void)arg;
    (void)level;
    snprintf(logged, sizeof logged, "%s", line);
}

static int setup(void **state)
{
    (void)state;
    ctx = fl_ctx_new();
    fl_ctx_on_log(ctx, remember, NULL);
    fli_arena_init(&arena, ctx);
    return !mkdtemp(folder);
}

static int teardown(void **state)
{
    (void)state;
    fli_remove_folder(ctx, folder);
    fli_arena_fini(&arena);
    fl_ctx_free(ctx);
    return 0;
}

#define PARAMS(name, ...) bound(&arena, fli_partitioner_##name.keys, fli_partitioner_##name.params_size, __VA_ARGS__)

/* n samples, labels 0, 1, .., classes-1, 0, 1, ... */
static fli_dataset *labelled(size_t n, size_t classes)
{
    fli_dataset *ds;
    assert_ok(ctx, fli_dataset_new(ctx, FLI_X_U8, n, 1, classes, &ds));
    for (size_t i = 0; i < n; i++) ds->label[i] = (int32_t)(i % classes);
    return ds;
}

static fli_partition make(const fli_partitioner *p, const void *params, const fli_dataset *ds, uint64_t seed,
                          size_t clients)
{
    fli_partition part;
    assert_ok(ctx, fli_partition_make(ctx, p, params, ds, seed, clients, &part));
    return part;
}

static size_t size_of(const fli_partition *p, size_t i) { return p->start[i + 1] - p->start[i]; }

static size_t labels_of(const fli_partition *p, const fli_dataset *ds, size_t i)
{
    size_t count[64] = {0}, distinct = 0;
    for (size_t k = p->start[i]; k < p->start[i + 1]; k++) distinct += !count[ds->label[p->index[k]]]++;
    return distinct;
}

/* Mean over clients of the total variation distance between the client's label distribution and the uniform one:
 * 0: all alike, 1 - 1/classes: one label each. */
static double skew(const fli_partition *p, const fli_dataset *ds)
{
    double total = 0;
    for (size_t i = 0; i < p->clients; i++) {
        double count[64] = {0};
        for (size_t k = p->start[i]; k < p->start[i + 1]; k++) count[ds->label[p->index[k]]]++;
        for (size_t c = 0; c < ds->classes; c++)
            total += 0.5 * fabs(count[c] / (double)size_of(p, i) - 1 / (double)ds->classes);
    }
    return total / (double)p->clients;
}

static double skew_with(const fli_partitioner *p, const fli_dataset *ds, const char *alpha)
{
    fli_partition part = make(p, bound(&arena, p->keys, p->params_size, "alpha", alpha, NULL), ds, 5, 20);
    double v = skew(&part, ds);
    fli_partition_fini(&part);
    return v;
}

static void test_iid_parts_are_alike(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(1003, 10);
    fli_partition p = make(&fli_partitioner_iid, NULL, ds, 1, 10);
    for (size_t i = 0; i < 10; i++) assert_in_range(size_of(&p, i), 100, 101);
    assert_int_equal(p.start[10], 1003);
    assert_true(skew(&p, ds) < 0.2);
    for (size_t k = 1; k < p.start[1]; k++) assert_true(p.index[k - 1] < p.index[k]);
    fli_partition_fini(&p);
    fli_dataset_free(ds);
}

static void test_alpha_sets_the_dirichlet_skew(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(10000, 10);
    double small = skew_with(&fli_partitioner_dirichlet, ds, "0.1"),
           middle = skew_with(&fli_partitioner_dirichlet, ds, "1"),
           large = skew_with(&fli_partitioner_dirichlet, ds, "1000");
    assert_true(small > 0.6 && small > middle + 0.15 && middle > large + 0.15 && large < 0.1);
    fli_partition p =
        make(&fli_partitioner_dirichlet, PARAMS(dirichlet, "alpha", "0.3", "min_size", "40", NULL), ds, 2, 20);
    for (size_t i = 0; i < 20; i++) assert_true(size_of(&p, i) >= 40);
    assert_int_equal(p.start[20], 10000);
    fli_partition_fini(&p);
    /* an alpha that underflows in plain numbers */
    p = make(&fli_partitioner_dirichlet, PARAMS(dirichlet, "alpha", "1e-4", "min_size", "1", NULL), ds, 2, 10);
    for (size_t i = 0; i < 10; i++) assert_int_equal(size_of(&p, i), 1000);
    assert_near(skew(&p, ds), 0.9, 1e-9);
    fli_partition_fini(&p);
    fli_dataset_free(ds);
}

static void test_minimum_out_of_reach(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(1000, 10);
    fli_partition part;
    void *p = PARAMS(dirichlet, "alpha", "0.01", "min_size", "20", "retries", "30", NULL);
    fl_status s = fli_partition_make(ctx, &fli_partitioner_dirichlet, p, ds, 1, 50, &part);
    assert_fails(ctx, s, FL_ECONFIG,
                 "partition dirichlet: none of 30 attempts with alpha 0.01 gave all 50 clients min_size 20 samples, "
                 "the best one "
                 "left the smallest client with 0;");
    p = PARAMS(dirichlet, "min_size", "21", NULL);
    s = fli_partition_make(ctx, &fli_partitioner_dirichlet, p, ds, 1, 50, &part);
    assert_fails(ctx, s, FL_ECONFIG, "50 clients with min_size 21 need 1050 samples, but the data have 1000");
    p = PARAMS(quantity, "min_size", "20", "alpha", "1", "retries", "5", NULL);
    s = fli_partition_make(ctx, &fli_partitioner_quantity, p, ds, 1, 50, &part);
    assert_fails(ctx, s, FL_ECONFIG,
                 "partition quantity: none of 5 attempts with alpha 1 gave all 50 clients min_size 20");
    p = PARAMS(quantity, "min_size", "21", NULL);
    s = fli_partition_make(ctx, &fli_partitioner_quantity, p, ds, 1, 50, &part);
    assert_fails(ctx, s, FL_ECONFIG, "need 1050 samples");
    fli_dataset_free(ds);
}

static void test_mixture_parts_have_equal_size(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(10007, 10);
    fli_partition p = make(&fli_partitioner_mixture, PARAMS(mixture, "alpha", "0.2", NULL), ds, 1, 20);
    for (size_t i = 0; i < 20; i++) assert_int_equal(size_of(&p, i), 500);
    assert_int_equal(p.start[20], 10000);
    fli_partition_fini(&p);
    double small = skew_with(&fli_partitioner_mixture, ds, "0.1"),
           large = skew_with(&fli_partitioner_mixture, ds, "100");
    assert_true(small > 0.5 && large < 0.12);
    /* priors that are exactly one class: the draws end nevertheless */
    p = make(&fli_partitioner_mixture, PARAMS(mixture, "alpha", "1e-6", NULL), ds, 1, 20);
    for (size_t i = 0; i < 20; i++) assert_int_equal(size_of(&p, i), 500);
    fli_partition_fini(&p);
    fli_dataset_free(ds);
}

static void test_mixture_uneven_sizes(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(2000, 10);
    static const char *const sigma[] = {"0.5", "1.5", "5"};
    for (size_t v = 0; v < 3; v++) {
        fli_partition p = make(&fli_partitioner_mixture, PARAMS(mixture, "size_sigma", sigma[v], NULL), ds, 1, 100);
        size_t least = 2000, most = 0;
        for (size_t i = 0; i < 100; i++) {
            least = size_of(&p, i) < least ? size_of(&p, i) : least;
            most = size_of(&p, i) > most ? size_of(&p, i) : most;
        }
        assert_true(least >= 1 && most > (v == 0 ? 30u : 100u) && p.start[100] > 1850 && p.start[100] <= 2000);
        fli_partition_fini(&p);
    }
    fli_dataset_free(ds);
}

static void test_rank_owner(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(1000, 10);
    fli_partition part, p = make(&fli_partitioner_shards, PARAMS(shards, NULL), ds, 1, 50);
    for (size_t i = 0; i < 50; i++) {
        assert_int_equal(size_of(&p, i), 20);
        assert_in_range(labels_of(&p, ds, i), 1, 2); /* shards of 10 do not straddle labels of 100 */
    }
    fli_partition_fini(&p);
    p = make(&fli_partitioner_shards, PARAMS(shards, NULL), ds, 1, 7);
    for (size_t i = 0; i < 7; i++) assert_in_range(labels_of(&p, ds, i), 1, 4);
    fli_partition_fini(&p);
    void *many = PARAMS(shards, "shards_per_client", "21", NULL);
    assert_fails(ctx, fli_partition_make(ctx, &fli_partitioner_shards, many, ds, 1, 50, &part), FL_ECONFIG,
                 "need 1050 samples");
    fli_dataset_free(ds);
}

static void test_clients_have_the_wanted_labels(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(5000, 10);
    fli_partition part, p = make(&fli_partitioner_labels, PARAMS(labels, "labels", "3", NULL), ds, 1, 30);
    for (size_t i = 0; i < 30; i++) {
        size_t own = 0;
        assert_int_equal(labels_of(&p, ds, i), 3);
        for (size_t k = p.start[i]; k < p.start[i + 1]; k++) own += ds->label[p.index[k]] == (int32_t)(i % 10);
        assert_true(own > 0);
    }
    assert_int_equal(p.start[30], 5000);
    /* holders of a label have the same number of it, give or take one */
    for (int32_t c = 0; c < 10; c++) {
        size_t least = 5000, most = 0;
        for (size_t i = 0; i < 30; i++) {
            size_t n = 0;
            for (size_t k = p.start[i]; k < p.start[i + 1]; k++) n += ds->label[p.index[k]] == c;
            if (n && n < least) least = n;
            if (n > most) most = n;
        }
        assert_true(most - least <= 1);
    }
    fli_partition_fini(&p);

    logged[0] = 0;
    p = make(&fli_partitioner_labels, PARAMS(labels, "labels", "1", NULL), ds, 1, 4);
    assert_int_equal(p.start[4], 2000);
    assert_non_null(strstr(logged, "3000 of 5000 samples are left out"));
    fli_partition_fini(&p);
    p = make(&fli_partitioner_labels, PARAMS(labels, "labels", "10", NULL), ds, 1, 4);
    for (size_t i = 0; i < 4; i++) assert_int_equal(labels_of(&p, ds, i), 10);
    fli_partition_fini(&p);
    void *many = PARAMS(labels, "labels", "11", NULL);
    assert_fails(ctx, fli_partition_make(ctx, &fli_partitioner_labels, many, ds, 1, 4, &part), FL_ECONFIG,
                 "11 labels per client are requested, but the data have 10");
    fli_dataset_free(ds);
}

static void test_quantity_skews_sizes_alone(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(20000, 10);
    size_t spread[2];
    static const char *const alpha[] = {"0.5", "500"};
    for (size_t v = 0; v < 2; v++) {
        fli_partition p = make(&fli_partitioner_quantity, PARAMS(quantity, "alpha", alpha[v], NULL), ds, 1, 10);
        size_t least = 20000, most = 0;
        for (size_t i = 0; i < 10; i++) {
            least = size_of(&p, i) < least ? size_of(&p, i) : least;
            most = size_of(&p, i) > most ? size_of(&p, i) : most;
        }
        assert_true(least >= 10);
        assert_int_equal(p.start[10], 20000);
        assert_true(skew(&p, ds) < 0.25);
        spread[v] = most - least;
        fli_partition_fini(&p);
    }
    assert_true(spread[0] > 3000 && spread[1] < 1000);
    fli_dataset_free(ds);
}

/* Mean of d/(N d_i): 1 for equal parts. */
static double unevenness(const fli_partition *p)
{
    double sum = 0;
    for (size_t i = 0; i < p->clients; i++) sum += 1 / (double)size_of(p, i);
    return sum * (double)p->start[p->clients] / (double)(p->clients * p->clients);
}

static void test_cuts_keep_the_least_size(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(8992, 10);
    double uneven = 0;
    size_t least = 8992;
    for (uint64_t seed = 0; seed < 40; seed++) {
        fli_partition p = make(&fli_partitioner_cuts, PARAMS(cuts, NULL), ds, seed, 64);
        for (size_t i = 0; i < 64; i++) {
            assert_true((double)size_of(&p, i) > 0.1 * 8992 / 64);
            least = size_of(&p, i) < least ? size_of(&p, i) : least;
        }
        assert_int_equal(p.start[64], 8992);
        assert_true(skew(&p, ds) < 0.2); /* contents alike */
        uneven += unevenness(&p) / 40;
        fli_partition_fini(&p);
    }
    assert_int_equal(least, 15); /* the bound is reached: 0.1 * 8992/64 = 14.05 */
    assert_near(uneven, 2.0, 0.15);
    fli_dataset_free(ds);
}

/* All cuts that are allowed are equally likely: 7 samples, three clients with at least one each have 15 of them. */
static void test_cuts_are_equally_likely(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(7, 2);
    size_t count[8][8] = {{0}}, kinds = 0;
    for (uint64_t seed = 0; seed < 3000; seed++) {
        fli_partition p = make(&fli_partitioner_cuts, PARAMS(cuts, "least", "0", NULL), ds, seed, 3);
        count[size_of(&p, 0)][size_of(&p, 1)]++;
        fli_partition_fini(&p);
    }
    for (size_t a = 1; a <= 5; a++)
        for (size_t b = 1; a + b <= 6; b++, kinds++) assert_in_range(count[a][b], 140, 260); /* 200 expected */
    assert_int_equal(kinds, 15);
    fli_dataset_free(ds);
}

static void test_cuts_out_of_reach(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(9, 2);
    fli_partition part;
    fl_status s = fli_partition_make(ctx, &fli_partitioner_cuts, PARAMS(cuts, "least", "0.9", NULL), ds, 1, 6, &part);
    assert_fails(ctx, s, FL_ECONFIG, "partition cuts: 6 clients cannot all have more than 0.9 of the mean of 1.5");
    part = make(&fli_partitioner_cuts, PARAMS(cuts, "least", "0.9", NULL), ds, 1, 3);
    for (size_t i = 0; i < 3; i++) assert_int_equal(size_of(&part, i), 3); /* no choice is left */
    fli_partition_fini(&part);
    fli_dataset_free(ds);
}

static void test_natural_clients_are_the_groups(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(10, 2);
    fli_partition part;
    void *p = PARAMS(natural, NULL);
    assert_fails(ctx, fli_partition_make(ctx, &fli_partitioner_natural, p, ds, 1, 0, &part), FL_ECONFIG, "data.groups");
    static const int32_t group[10] = {2, 0, 2, 3, 0, 2, 3, 3, 2, 5}; /* 1 and 4 have nothing */
    ds->group = fli_alloc(ctx, 10, sizeof *ds->group);
    ds->groups = 6;
    memcpy(ds->group, group, sizeof group);
    logged[0] = 0;
    part = make(&fli_partitioner_natural, p, ds, 1, 0);
    assert_int_equal(part.clients, 4);
    static const uint32_t want[] = {1, 4, 0, 2, 5, 8, 3, 6, 7, 9};
    assert_memory_equal(part.index, want, sizeof want);
    assert_non_null(strstr(logged, "4 of the 6 groups"));
    fli_partition_fini(&part);
    part = make(&fli_partitioner_natural, p, ds, 1, 2);
    assert_int_equal(part.clients, 2);
    assert_memory_equal(part.index, want, 6 * sizeof *want);
    fli_partition_fini(&part);
    part = make(&fli_partitioner_natural, PARAMS(natural, "min_size", "3", NULL), ds, 1, 0);
    assert_int_equal(part.clients, 2);
    assert_memory_equal(part.index, want + 2, 7 * sizeof *want);
    fli_partition_fini(&part);
    assert_fails(ctx, fli_partition_make(ctx, &fli_partitioner_natural, p, ds, 1, 5, &part), FL_ECONFIG,
                 "only 4 of the 6 groups");
    p = PARAMS(natural, "min_size", "30", NULL);
    assert_fails(ctx, fli_partition_make(ctx, &fli_partitioner_natural, p, ds, 1, 0, &part), FL_ECONFIG,
                 "only 0 of the 6 groups in the data have min_size 30 samples");
    fli_dataset_free(ds);
}

/* ---- file -------------------------------------------------------------------------------------------------- */

static void *file_with(const char *text)
{
    char *path = fli_arena_alloc(&arena, 256, 1);
    snprintf(path, 256, "%s/partition.json", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fputs(text, f);
    fclose(f);
    return PARAMS(file, "path", path, NULL);
}

static void test_file_lists_become_clients(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(6, 2);
    static const uint32_t want[] = {3, 5, 0, 1, 2};
    static const char *const text[] = {"{\"clients\": [[5, 3], [0], [2, 1]]}",
                                       "{\"zoe\": [5, 3], \"1\": [0], \"ann\": [2, 1]}"};
    for (size_t v = 0; v < 2; v++) {
        fli_partition p = make(&fli_partitioner_file, file_with(text[v]), ds, 1, 0);
        assert_int_equal(p.clients, 3);
        assert_memory_equal(p.index, want, sizeof want);
        fli_partition_fini(&p);
        p = make(&fli_partitioner_file, file_with(text[v]), ds, 1, 2);
        assert_int_equal(p.clients, 2);
        assert_int_equal(p.start[2], 3);
        fli_partition_fini(&p);
    }
    fli_dataset_free(ds);
}

static void test_file_written_is_read(void **state)
{
    (void)state;
    fli_dataset *ds = labelled(500, 10);
    fli_partition a = make(&fli_partitioner_dirichlet, PARAMS(dirichlet, NULL), ds, 3, 8);
    void *p = file_with("");
    assert_ok(ctx, fli_partition_write(ctx, &a, *(char **)p));
    fli_partition b = make(&fli_partitioner_file, p, ds, 1, 0);
    assert_int_equal(b.clients, 8);
    assert_memory_equal(a.start, b.start, 9 * sizeof *a.start);
    assert_memory_equal(a.index, b.index, a.start[8] * sizeof *a.index);
    fli_partition_fini(&b);
    assert_fails(ctx, fli_partition_write(ctx, &a, "/nonexistent/p.json"), FL_EIO, "/nonexistent/p.json");
    fli_partition_fini(&a);
    fli_dataset_free(ds);
}

static void test_file_problems(void **state)
{
    (void)state;
    static const struct {
        const char *text, *message;
    } cases[] = {
        {"{\"clients\": [[1, 2], [3", "partition.json:1:"},
        {"[[1]]", "an object such as"},
        {"{}", "there are no clients"},
        {"{\"clients\": []}", "there are no clients"},
        {"{\"clients\": [[1], []]}", "client 1 has no samples"},
        {"{\"clients\": [[1], 7]}", "client 1 is not a list"},
        {"{\"clients\": [[1]], \"more\": 1}", "only \"clients\" is expected"},
        {"{\"clients\": [[1], [2, 1.5]]}", "client 1: entry 1 is not a whole number"},
        {"{\"clients\": [[1], [6]]}", "client 1: there is no sample 6, the data have 0 to 5"},
        {"{\"clients\": [[-1]]}", "client 0: there is no sample -1"},
        {"{\"clients\": [[99999999999999999999]]}", "partition.json:1:"},
        {"{\"clients\": [[0, 2], [1, 2]]}", "client 0 and client 1 both have sample 2"},
        {"{\"clients\": [[0, 2, 0]]}", "client 0 has sample 0 twice"},
        {"{\"ann\": [0], \"bob\": [1, 0]}", "client \"ann\" and client \"bob\" both have sample 0"},
        {"{\"ann\": [0], \"ann\": [1]}", "partition.json:1:"},
    };
    fli_dataset *ds = labelled(6, 2);
    fli_partition part;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        void *p = file_with(cases[i].text);
        assert_fails(ctx, fli_partition_make(ctx, &fli_partitioner_file, p, ds, 1, 0, &part), FL_EFORMAT,
                     cases[i].message);
        assert_null(part.start);
    }
    void *p = file_with("{\"clients\": [[1], [2]]}");
    assert_fails(ctx, fli_partition_make(ctx, &fli_partitioner_file, p, ds, 1, 3, &part), FL_ECONFIG,
                 "3 clients are requested, but the file has 2");
    p = PARAMS(file, "path", "/nonexistent/p.json", NULL);
    assert_fails(ctx, fli_partition_make(ctx, &fli_partitioner_file, p, ds, 1, 0, &part), FL_EIO,
                 "/nonexistent/p.json");
    p = PARAMS(file, "path", "/", NULL);
    assert_fails(ctx, fli_partition_make(ctx, &fli_partitioner_file, p, ds, 1, 0, &part), FL_EIO,
                 "/: the partition cannot be read: it is a folder, not a file");
    fli_dataset_free(ds);
}

static fl_status skips_one(fl_ctx *c, const void *params, const fli_dataset *ds, uint64_t seed, size_t *clients,
                           uint32_t *owner)
{
    (void)c;
    (void)params;
    (void)seed;
    for (size_t s = 0; s < ds->n; s++) owner[s] = s % *clients == 2 ? FLI_NOBODY : (uint32_t)(s % *clients);
    return FL_OK;
}

static void test_an_empty_client_is_named(void **state)
{
    (void)state;
    static const fli_partitioner odd = {.name = "odd", .assign = skips_one};
    fli_dataset *ds = labelled(12, 2);
    fli_partition part;
    assert_fails(ctx, fli_partition_make(ctx, &odd, NULL, ds, 1, 4, &part), FL_ECONFIG,
                 "partition odd: client 2 of 4 gets none of the 12 samples");
    assert_null(part.start);
    fli_dataset_free(ds);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_iid_parts_are_alike),
        cmocka_unit_test(test_alpha_sets_the_dirichlet_skew),
        cmocka_unit_test(test_minimum_out_of_reach),
        cmocka_unit_test(test_mixture_parts_have_equal_size),
        cmocka_unit_test(test_mixture_uneven_sizes),
        cmocka_unit_test(test_rank_owner),
        cmocka_unit_test(test_clients_have_the_wanted_labels),
        cmocka_unit_test(test_quantity_skews_sizes_alone),
        cmocka_unit_test(test_cuts_keep_the_least_size),
        cmocka_unit_test(test_cuts_are_equally_likely),
        cmocka_unit_test(test_cuts_out_of_reach),
        cmocka_unit_test(test_natural_clients_are_the_groups),
        cmocka_unit_test(test_file_lists_become_clients),
        cmocka_unit_test(test_file_written_is_read),
        cmocka_unit_test(test_file_problems),
        cmocka_unit_test(test_an_empty_client_is_named),
    };
    return cmocka_run_group_tests(tests, setup, teardown);
}
