/* A federation that keeps the samples of some clients alone shows those as before. */
#include "bound.h"
#include "context.h"

#include "base/file.h"
#include "data/federation/federation.h"
#include "data/partition/partition.h"
#include "data/source.h"

enum { CLIENTS = 7 };

static void *params(context *c, const fl_key *keys, size_t size) { return bound(&c->arena, keys, size, NULL); }

/* Some of them. */
typedef struct {
    uint32_t client[CLIENTS];
    size_t n;
} some;

/* ---- what stays ------------------------------------------------------------------------------------------- */

/* Samples of a list: values, answers and numbers. */
static void same_samples(const fli_fed *whole, const uint32_t *a, const fli_fed *kept, const uint32_t *b, size_t n)
{
    const fli_dataset *all = whole->train, *own = kept->train;
    double *row = malloc((2 * all->dim + 1) * sizeof *row);
    for (size_t k = 0; k < n; k++) {
        assert_true(b[k] < own->n);
        fli_dataset_row(all, a[k], row);
        fli_dataset_row(own, b[k], row + all->dim);
        assert_memory_equal(row, row + all->dim, all->dim * sizeof *row);
        assert_int_equal(fli_dataset_number(own, b[k]), a[k]);
        if (all->label) assert_int_equal(own->label[b[k]], all->label[a[k]]);
        if (all->label) assert_int_equal(fli_fed_truth(kept, b[k]), fli_fed_truth(whole, a[k]));
        if (all->target) assert_true(own->target[b[k]] == all->target[a[k]]);
        if (all->group) assert_int_equal(own->group[b[k]], all->group[a[k]]);
    }
    free(row);
}

static void same_client(fl_ctx *ctx, const fli_fed *whole, const fli_fed *kept, size_t client)
{
    fli_view a, b;
    fli_digest x, y;
    assert_ok(ctx, fli_view_open(ctx, whole, client, &a));
    assert_ok(ctx, fli_view_open(ctx, kept, client, &b));
    assert_int_equal(a.n_train, b.n_train);
    assert_int_equal(a.n_unlabelled, b.n_unlabelled);
    assert_int_equal(a.n_test, b.n_test);
    same_samples(whole, a.train, kept, b.train, a.n_train);
    same_samples(whole, a.unlabelled, kept, b.unlabelled, a.n_unlabelled);
    same_samples(whole, a.test, kept, b.test, a.n_test);
    fli_view_close(&a);
    fli_view_close(&b);
    assert_ok(ctx, fli_digest_client(ctx, whole, client, &x));
    assert_ok(ctx, fli_digest_client(ctx, kept, client, &y));
    assert_memory_equal(&x, &y, sizeof x);
}

static void same_sizes(const fli_fed *a, const fli_fed *b)
{
    assert_int_equal(a->clients, b->clients);
    assert_int_equal(a->samples, b->samples);
    assert_int_equal(a->largest, b->largest);
    for (size_t i = 0; i < a->clients; i++) {
        assert_int_equal(fli_fed_size(a, i), fli_fed_size(b, i));
        assert_int_equal(fli_fed_unlabelled(a, i), fli_fed_unlabelled(b, i));
        assert_int_equal(fli_fed_tests(a, i), fli_fed_tests(b, i));
    }
}

/* What is the whole, and what is kept of the same. */
static void compare(fl_ctx *ctx, const fli_fed *whole, const fli_fed *kept, const some *p)
{
    fli_view v;
    double large, as_large;
    size_t place = 0;
    same_sizes(whole, kept);
    assert_int_equal(kept->here, p->n);
    for (size_t i = 0; i < whole->clients; i++) {
        if (place < p->n && p->client[place] == i) {
            same_client(ctx, whole, kept, i);
            assert_int_equal(fli_fed_place(kept, i), place);
            assert_int_equal(fli_fed_at(kept, place++), i);
        } else {
            assert_fails(ctx, fli_view_open(ctx, kept, i, &v), FL_ECONFIG, "are not here");
            assert_true(fli_fed_place(kept, i) >= kept->here);
        }
    }
    assert_ok(ctx, fli_fed_magnitude(ctx, whole, &large));
    assert_ok(ctx, fli_fed_magnitude(ctx, kept, &as_large));
    assert_true(large == as_large);
}

static const some parts[] = {{{0, 1, 2}, 3}, {{3, 4}, 2}, {{5, 6}, 2},
                             {{1, 4, 6}, 3}, {{0}, 0},    {{0, 1, 2, 3, 4, 5, 6}, 7}};
enum { PARTS = sizeof parts / sizeof *parts };

static void keep(fl_ctx *ctx, fli_fed *fed, const some *p) { assert_ok(ctx, fli_fed_keep(ctx, fed, p->client, p->n)); }

static fli_fed *make(fl_ctx *ctx, const fli_fed_spec *spec)
{
    fli_fed *fed;
    assert_ok(ctx, fli_fed_new(ctx, spec, &fed));
    assert_int_equal(fed->clients, CLIENTS);
    return fed;
}

static void every_part(fl_ctx *ctx, const fli_fed_spec *spec)
{
    fli_fed *whole = make(ctx, spec);
    for (size_t p = 0; p < PARTS; p++) {
        fli_fed *kept = make(ctx, spec);
        keep(ctx, kept, &parts[p]);
        compare(ctx, whole, kept, &parts[p]);
        assert_int_equal(kept->train->n, fli_fed_listed(kept));
        if (kept->test) assert_int_equal(kept->test->n, whole->test->n);
        fli_fed_free(kept);
    }
    fli_fed_free(whole);
}

/* ---- every kind ------------------------------------------------------------------------------------------- */

/* Three samples for each client; the others belong to nobody. */
static const char *write_partition(char *folder)
{
    static char path[64];
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/p.json", folder);
    FILE *f = fopen(path, "w");
    assert_non_null(f);
    fprintf(f, "{\"clients\": [");
    for (int i = 0; i < CLIENTS; i++) fprintf(f, "%s[%d, %d, %d]", i ? "," : "", 2 * i, 40 - i, 60 + 3 * i);
    fprintf(f, "]}");
    assert_int_equal(fclose(f), 0);
    return path;
}

static void test_every_partitioner(void **state)
{
    context *c = *state;
    char folder[] = "/tmp/fedloom-keep-XXXXXX";
    const char *path = write_partition(folder);
    for (const fli_partitioner *const *p = fli_partitioner_list; *p; p++) {
        int file = *p == &fli_partitioner_file;
        fli_fed_spec spec = {
            .source = &fli_source_synthetic,
            .source_params =
                bound(&c->arena, fli_source_synthetic.keys, fli_source_synthetic.params_size, "clients", "7", NULL),
            .partitioner = *p,
            .partitioner_params = bound(&c->arena, (*p)->keys, (*p)->params_size, file ? "path" : NULL, path, NULL),
            .clients = (*p)->sets_clients ? 0 : CLIENTS,
            .seed = 3,
            .test_fraction = 0.3,
            .unlabelled = 0.4};
        every_part(c->ctx, &spec);
    }
    fli_remove_folder(c->ctx, folder);
}

static void test_every_generator(void **state)
{
    context *c = *state;
    for (const fli_source *const *s = fli_source_list; *s; s++) {
        if ((*s)->needs) continue;
        fli_fed_spec spec = {.source = *s,
                             .source_params = params(c, (*s)->keys, (*s)->params_size),
                             .partitioner = &fli_partitioner_quantity,
                             .partitioner_params =
                                 params(c, fli_partitioner_quantity.keys, fli_partitioner_quantity.params_size),
                             .clients = CLIENTS,
                             .seed = 3,
                             .test_fraction = 0.2};
        every_part(c->ctx, &spec);
    }
}

/* Rows of 0 to 3 values. The last of them is nobody's. */
static fli_fed *sparse(fl_ctx *ctx, fli_xkind kind)
{
    enum { N = 4 * CLIENTS + 1, DIM = 5 };
    fli_dataset *ds;
    fli_fed *fed;
    assert_ok(ctx, fli_dataset_new(ctx, kind == FLI_X_CSR ? FLI_X_F32 : FLI_X_F64, N, DIM, 3, &ds));
    ds->kind = kind;
    ds->row = fli_alloc(ctx, N + 1, sizeof *ds->row);
    ds->col = fli_alloc(ctx, N * DIM, sizeof *ds->col);
    for (size_t i = 0, at = 0; i < N; i++) {
        for (uint32_t j = 0; j < (i + 3) % 4; j++, at++) {
            ds->col[at] = j + 1;
            if (kind == FLI_X_CSR)
                ((float *)ds->x)[at] = (float)(i + 1) / 7;
            else
                ((double *)ds->x)[at] = (double)(i + 1) / 7;
        }
        ds->row[i + 1] = at;
        ds->label[i] = (int32_t)(i % 3);
    }
    fli_partition part = {CLIENTS, fli_alloc(ctx, CLIENTS + 1, sizeof(size_t)), fli_alloc(ctx, N, sizeof(uint32_t))};
    for (size_t i = 0; i <= CLIENTS; i++) part.start[i] = 4 * i;
    for (size_t k = 0; k < 4 * CLIENTS; k++) part.index[k] = (uint32_t)(k * 5 % (4 * CLIENTS));
    assert_ok(ctx, fli_fed_take(ctx, ds, NULL, &part, &fed));
    uint32_t hidden[CLIENTS] = {0, 1, 2, 3, 0, 1, 2};
    assert_ok(ctx, fli_fed_hide(ctx, fed, hidden));
    return fed;
}

static void test_sparse_samples(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    for (int wide = 0; wide < 2; wide++) {
        fli_xkind kind = wide ? FLI_X_CSR64 : FLI_X_CSR;
        fli_fed *whole = sparse(ctx, kind);
        for (size_t p = 0; p < PARTS; p++) {
            fli_fed *kept = sparse(ctx, kind);
            keep(ctx, kept, &parts[p]);
            compare(ctx, whole, kept, &parts[p]);
            assert_true(fli_dataset_stored(kept->train) < fli_dataset_stored(whole->train));
            fli_fed_free(kept);
        }
        fli_fed_free(whole);
    }
}

/* ---- random changes of images ----------------------------------------------------------------------------- */

static void augmented(fl_ctx *ctx, const fli_fed *fed, size_t client, float *out)
{
    fli_view v;
    fli_batch b;
    fli_rng turn;
    assert_ok(ctx, fli_view_open(ctx, fed, client, &v));
    assert_ok(ctx, fli_batch_init(ctx, &fli_ops_f32, fed->dim, v.n_train, &b));
    fli_rng_init(&turn, 7, FLI_RNG_BATCH, 2, (uint32_t)client);
    fli_batch_gather_answers(&b, v.ds, v.train, v.n_train);
    fli_batch_augment(&b, v.ds, v.train, &turn, 1);
    memcpy(out, b.x, v.n_train * fed->dim * sizeof *out);
    fli_batch_fini(&b);
    fli_view_close(&v);
}

static void test_augmentation_goes_by_the_number(void **state)
{
    context *c = *state;
    for (int crop = 0; crop < 2; crop++) {
        fli_fed_spec spec = {.source = &fli_source_digits,
                             .source_params = params(c, fli_source_digits.keys, fli_source_digits.params_size),
                             .partitioner = &fli_partitioner_iid,
                             .partitioner_params = params(c, fli_partitioner_iid.keys, fli_partitioner_iid.params_size),
                             .clients = CLIENTS,
                             .seed = 3,
                             .crop = crop ? 6 : 0,
                             .augment = crop ? FLI_AUGMENT_CROP : FLI_AUGMENT_CIFAR};
        fli_fed *whole = make(c->ctx, &spec), *kept = make(c->ctx, &spec);
        const some p = {{2, 5}, 2};
        keep(c->ctx, kept, &p);
        compare(c->ctx, whole, kept, &p);
        size_t n = fli_fed_size(whole, 5) * whole->dim;
        float *a = malloc(n * sizeof *a), *b = malloc(n * sizeof *b);
        augmented(c->ctx, whole, 5, a);
        augmented(c->ctx, kept, 5, b);
        assert_memory_equal(a, b, n * sizeof *a);
        free(a);
        free(b);
        fli_fed_free(whole);
        fli_fed_free(kept);
    }
}

/* Objectives of users know a sample by its number. */
static void test_batches_have_numbers(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    fli_fed *whole = sparse(ctx, FLI_X_CSR), *kept = sparse(ctx, FLI_X_CSR);
    keep(ctx, kept, &(some){{1, 4}, 2});
    for (int dense = 0; dense < 2; dense++) {
        fli_batch a, b;
        fli_view v, w;
        assert_ok(ctx, (dense ? fli_batch_init : fli_batch_init_sparse)(ctx, &fli_ops_f64, kept->dim, 4, &a));
        assert_ok(ctx, (dense ? fli_batch_init : fli_batch_init_sparse)(ctx, &fli_ops_f64, kept->dim, 4, &b));
        assert_ok(ctx, fli_view_open(ctx, whole, 4, &v));
        assert_ok(ctx, fli_view_open(ctx, kept, 4, &w));
        fli_batch_gather(&a, v.ds, v.train, v.n_train);
        fli_batch_gather(&b, w.ds, w.train, w.n_train);
        assert_memory_equal(a.sample, b.sample, v.n_train * sizeof *a.sample);
        assert_memory_not_equal(v.train, w.train, v.n_train * sizeof *v.train);
        fli_batch_fini(&a);
        fli_batch_fini(&b);
    }
    fli_fed_free(whole);
    fli_fed_free(kept);
}

/* ---- memory ------------------------------------------------------------------------------------------------- */

static void test_memory_goes_back(void **state)
{
    context *c = *state;
    fli_fed_spec spec = {.source = &fli_source_blobs,
                         .source_params = params(c, fli_source_blobs.keys, fli_source_blobs.params_size),
                         .partitioner = &fli_partitioner_iid,
                         .partitioner_params = params(c, fli_partitioner_iid.keys, fli_partitioner_iid.params_size),
                         .clients = CLIENTS,
                         .seed = 3,
                         .unlabelled = 0.5};
    fli_fed *fed = make(c->ctx, &spec);
    size_t before = fli_dataset_bytes(fed->train), number = sizeof(uint32_t);
    size_t each = before / fed->train->n;
    keep(c->ctx, fed, &(some){{2}, 1});
    assert_int_equal(fli_dataset_bytes(fed->train), fli_fed_size(fed, 2) * (each + number));
    fli_fed_free(fed);
}

static void test_a_part_of_the_test_set(void **state)
{
    context *c = *state;
    static const size_t ranges[][2] = {{0, 100}, {3, 40}, {40, 41}, {7, 7}};
    fli_fed_spec spec = {.source = &fli_source_digits,
                         .source_params = bound(&c->arena, fli_source_digits.keys, fli_source_digits.params_size,
                                                "test_samples", "100", NULL),
                         .partitioner = &fli_partitioner_iid,
                         .partitioner_params = params(c, fli_partitioner_iid.keys, fli_partitioner_iid.params_size),
                         .clients = CLIENTS,
                         .seed = 3};
    fli_fed *whole = make(c->ctx, &spec);
    double *a = malloc(whole->dim * sizeof *a), *b = malloc(whole->dim * sizeof *b);
    assert_true(whole->tests == 100 && !whole->test_first);
    for (size_t k = 0; k < sizeof ranges / sizeof *ranges; k++) {
        fli_fed *kept = make(c->ctx, &spec);
        size_t from = ranges[k][0], to = ranges[k][1];
        assert_ok(c->ctx, fli_fed_keep_tests(c->ctx, kept, from, to));
        assert_true(kept->tests == 100 && kept->test_first == from && kept->test->n == to - from);
        for (size_t i = from; i < to; i++) {
            fli_dataset_row(whole->test, i, a);
            fli_dataset_row(kept->test, i - from, b);
            assert_memory_equal(a, b, whole->dim * sizeof *a);
            assert_int_equal(kept->test->label[i - from], whole->test->label[i]);
            assert_int_equal(fli_dataset_number(kept->test, i - from), i);
        }
        fli_fed_free(kept);
    }
    free(a);
    free(b);
    fli_fed_free(whole);
}

/* What nobody holds goes, too. */
static void test_all_clients_are_kept(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    fli_fed *whole = sparse(ctx, FLI_X_CSR), *kept = sparse(ctx, FLI_X_CSR);
    assert_ok(ctx, fli_fed_keep(ctx, kept, NULL, 0));
    compare(ctx, whole, kept, &parts[PARTS - 1]);
    assert_int_equal(kept->train->n, whole->train->n - 1);
    fli_fed_free(whole);
    fli_fed_free(kept);
}

/* Arrays of a program stay as they are. */
static void test_borrowed_samples(void **state)
{
    context *c = *state;
    enum { N = 4 * CLIENTS };
    double x[N], w[CLIENTS] = {1, 2, 3, 4, 5, 6, 7};
    int32_t label[N];
    uint32_t owner[N];
    for (size_t i = 0; i < N; i++) {
        x[i] = (double)i;
        label[i] = (int32_t)(i % 2);
        owner[i] = (uint32_t)(i % CLIENTS);
    }
    fli_memory m = {.train = {.size = sizeof(fl_samples), .n = N, .dim = 1, .f64 = x, .label = label, .classes = 2},
                    .who = {.size = sizeof(fl_holding), .clients = CLIENTS, .owner = owner, .weight = w}};
    fli_fed_spec spec = {.source = &fli_source_memory,
                         .memory = &m,
                         .partitioner = &fli_partitioner_holding,
                         .partitioner_params = &m.who,
                         .seed = 3,
                         .unlabelled = 0.5};
    fli_fed *whole = make(c->ctx, &spec), *kept = make(c->ctx, &spec);
    const some p = {{1, 3, 4}, 3};
    keep(c->ctx, kept, &p);
    compare(c->ctx, whole, kept, &p);
    assert_ptr_equal(kept->train->x, x);
    assert_memory_equal(kept->weight, whole->weight, sizeof w);
    fli_fed_free(whole);
    fli_fed_free(kept);
}

static void test_on_demand_any_client_can_be_seen(void **state)
{
    context *c = *state;
    fli_fed_spec spec = {.source = &fli_source_synthetic,
                         .source_params = params(c, fli_source_synthetic.keys, fli_source_synthetic.params_size),
                         .clients = CLIENTS,
                         .seed = 3,
                         .on_demand = 1};
    fli_fed *fed = make(c->ctx, &spec);
    keep(c->ctx, fed, &(some){{2}, 1});
    assert_int_equal(fed->here, CLIENTS);
    for (size_t i = 0; i < CLIENTS; i++) {
        fli_view v;
        assert_ok(c->ctx, fli_view_open(c->ctx, fed, i, &v));
        fli_view_close(&v);
    }
    fli_fed_free(fed);
}

static void test_failing_allocations_are_reported(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    fl_status s = FL_ENOMEM;
    for (size_t k = 1; s; k++) {
        assert_true(k < 20);
        fli_fed *fed = sparse(ctx, FLI_X_CSR);
        fli_ctx_fail_alloc(ctx, k);
        s = fli_fed_keep(ctx, fed, (const uint32_t[]){2, 5}, 2);
        fli_ctx_fail_alloc(ctx, 0);
        if (s) assert_int_equal(s, FL_ENOMEM);
        fli_clear(ctx);
        fli_fed_free(fed);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTEXT_TEST(test_every_partitioner),
        CONTEXT_TEST(test_every_generator),
        CONTEXT_TEST(test_sparse_samples),
        CONTEXT_TEST(test_augmentation_goes_by_the_number),
        CONTEXT_TEST(test_batches_have_numbers),
        CONTEXT_TEST(test_memory_goes_back),
        CONTEXT_TEST(test_a_part_of_the_test_set),
        CONTEXT_TEST(test_all_clients_are_kept),
        CONTEXT_TEST(test_borrowed_samples),
        CONTEXT_TEST(test_on_demand_any_client_can_be_seen),
        CONTEXT_TEST(test_failing_allocations_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
