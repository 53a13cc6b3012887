/* Clients divided among ranks. */
#include "context.h"

#include "exec/shards.h"

typedef struct {
    const size_t *size; /* NULL: all have one sample */
} sizes;

static size_t size_of(const void *arg, size_t client)
{
    const sizes *s = arg;
    return s->size ? s->size[client] : 1;
}

static fli_shards divide(fl_ctx *ctx, size_t ranks, size_t clients, const size_t *size)
{
    fli_shards s;
    const sizes all = {size};
    assert_ok(ctx, fli_shards_init(ctx, ranks, clients, size_of, &all, &s));
    assert_int_equal(s.first[0], 0);
    assert_int_equal(s.first[ranks], clients);
    for (size_t r = 0; r < ranks; r++) {
        assert_true(s.first[r] <= s.first[r + 1]);
        for (size_t i = s.first[r]; i < s.first[r + 1]; i++) assert_int_equal(fli_shards_owner(&s, i), r);
    }
    return s;
}

static void test_parts_are_balanced_within_the_largest_client(void **state)
{
    enum { CLIENTS = 997 };
    fl_ctx *ctx = ((context *)*state)->ctx;
    size_t size[CLIENTS], total = 0, largest = 0;
    for (size_t i = 0; i < CLIENTS; i++) {
        size[i] = i * i * 7919 % 300;
        size_t n = size[i] ? size[i] : 1; /* a client without samples still takes turns */
        total += n;
        if (n > largest) largest = n;
    }
    for (size_t ranks = 1; ranks <= 40; ranks++) {
        fli_shards s = divide(ctx, ranks, CLIENTS, size);
        for (size_t r = 0; r < ranks; r++) {
            size_t part = 0;
            for (size_t i = s.first[r]; i < s.first[r + 1]; i++) part += size[i] ? size[i] : 1;
            assert_true(ranks * part <= total + ranks * largest);
            assert_true(ranks * (part + largest) >= total);
        }
        fli_shards_fini(&s);
    }
}

static void test_equal_clients_are_divided_evenly(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    fli_shards s = divide(ctx, 4, 12, NULL);
    for (size_t r = 0; r < 4; r++) assert_int_equal(fli_shards_count(&s, r), 3);
    fli_shards_fini(&s);
}

static void test_more_ranks_than_clients(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    fli_shards s = divide(ctx, 8, 3, NULL);
    for (size_t r = 0; r < 8; r++) assert_true(fli_shards_count(&s, r) <= 1);
    fli_shards_fini(&s);
}

static void test_one_giant_client(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    const size_t size[] = {1, 1, 1000000, 1, 1};
    fli_shards s = divide(ctx, 4, 5, size);
    assert_true(fli_shards_owner(&s, 0) < fli_shards_owner(&s, 2));
    assert_true(fli_shards_owner(&s, 2) < fli_shards_owner(&s, 4));
    fli_shards_fini(&s);
}

/* Sizes whose sum times the number of ranks takes more than 64 bits. */
static void test_sizes_beyond_64_bits(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    const size_t size[] = {SIZE_MAX, SIZE_MAX, SIZE_MAX, SIZE_MAX};
    fli_shards s = divide(ctx, 2, 4, size);
    assert_int_equal(s.first[1], 2);
    fli_shards_fini(&s);
}

static void test_without_memory(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    fli_shards s;
    const sizes all = {NULL};
    fli_ctx_fail_alloc(ctx, 1);
    assert_int_equal(fli_shards_init(ctx, 2, 4, size_of, &all, &s), FL_ENOMEM);
    fli_ctx_fail_alloc(ctx, 0);
    fli_shards_fini(&s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTEXT_TEST(test_parts_are_balanced_within_the_largest_client),
        CONTEXT_TEST(test_equal_clients_are_divided_evenly),
        CONTEXT_TEST(test_more_ranks_than_clients),
        CONTEXT_TEST(test_one_giant_client),
        CONTEXT_TEST(test_sizes_beyond_64_bits),
        CONTEXT_TEST(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
