/* Clients divided among ranks. */
#include "context.h"

#include "ranks/rank_owner.h"

#include <stdlib.h>

typedef struct {
    const size_t *size; /* NULL: all have one sample */
} sizes;

static size_t size_of(const void *arg, size_t client)
{
    const sizes *s = arg;
    return s->size ? s->size[client] : 1;
}

static size_t samples_of(const size_t *size, size_t client) { return size && size[client] ? size[client] : 1; }

static fli_rank_owner divide(fl_ctx *ctx, size_t ranks, size_t clients, const size_t *size)
{
    fli_rank_owner s;
    const sizes all = {size};
    uint32_t *list = malloc(clients * sizeof *list);
    size_t listed = 0;
    assert_ok(ctx, fli_rank_owner_init(ctx, ranks, clients, size_of, &all, &s));
    for (size_t r = 0; r < ranks; r++) {
        size_t samples = 0;
        assert_true(s.of[r].clients <= clients);
        fli_rank_owner_list(&s, r, list);
        for (size_t k = 0; k < s.of[r].clients; k++) {
            assert_int_equal(s.owner[list[k]], r);
            assert_true(!k || list[k - 1] < list[k]);
            samples += samples_of(size, list[k]);
        }
        assert_int_equal(s.of[r].samples, samples);
        listed += s.of[r].clients;
    }
    assert_int_equal(listed, clients);
    free(list);
    return s;
}

static void test_parts_are_balanced_within_the_largest_client(void **state)
{
    enum { CLIENTS = 997 };
    fl_ctx *ctx = ((context *)*state)->ctx;
    size_t size[CLIENTS], largest = 0;
    for (size_t i = 0; i < CLIENTS; i++) {
        size[i] = i * i * 7919 % 300; /* some have none, and still take turns */
        if (samples_of(size, i) > largest) largest = samples_of(size, i);
    }
    for (size_t ranks = 1; ranks <= 40; ranks++) {
        fli_rank_owner s = divide(ctx, ranks, CLIENTS, size);
        size_t most = 0, least = SIZE_MAX;
        for (size_t r = 0; r < ranks; r++) {
            if (s.of[r].samples > most) most = s.of[r].samples;
            if (s.of[r].samples < least) least = s.of[r].samples;
        }
        assert_true(most - least <= largest);
        fli_rank_owner_fini(&s);
    }
}

static void test_equal_clients_are_divided_evenly(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    fli_rank_owner s = divide(ctx, 4, 12, NULL);
    for (size_t r = 0; r < 4; r++) assert_int_equal(s.of[r].clients, 3);
    fli_rank_owner_fini(&s);
}

/* Neighbours, and clients at any distance, are spread over the ranks. */
static void test_regular_choices_of_clients_are_spread(void **state)
{
    enum { CLIENTS = 100000, CHOSEN = 400 };
    fl_ctx *ctx = ((context *)*state)->ctx;
    for (size_t ranks = 2; ranks <= 8; ranks++) {
        fli_rank_owner s = divide(ctx, ranks, CLIENTS, NULL);
        for (size_t step = 1; step <= 200; step++) {
            size_t count[8] = {0}, fair = CHOSEN / ranks;
            for (size_t k = 0; k < CHOSEN; k++) count[s.owner[k * step]]++;
            for (size_t r = 0; r < ranks; r++) assert_true(2 * count[r] > fair && count[r] < 2 * fair);
        }
        fli_rank_owner_fini(&s);
    }
}

static void test_more_ranks_than_clients(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    fli_rank_owner s = divide(ctx, 8, 3, NULL);
    for (size_t r = 0; r < 8; r++) assert_true(s.of[r].clients <= 1);
    fli_rank_owner_fini(&s);
}

/* Who has it gets no other before the rest have caught up. */
static void test_one_giant_client(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    const size_t size[] = {1, 1, 1000000, 1, 1, 1, 1, 1, 1};
    fli_rank_owner s = divide(ctx, 4, 9, size);
    assert_true(s.of[s.owner[2]].clients <= 2);
    fli_rank_owner_fini(&s);
}

static void test_without_memory(void **state)
{
    fl_ctx *ctx = ((context *)*state)->ctx;
    fli_rank_owner s;
    const sizes all = {NULL};
    for (size_t k = 1; k <= 4; k++) {
        fli_ctx_fail_alloc(ctx, k);
        assert_int_equal(fli_rank_owner_init(ctx, 2, 4, size_of, &all, &s), FL_ENOMEM);
        fli_ctx_fail_alloc(ctx, 0);
        fli_clear(ctx);
        fli_rank_owner_fini(&s);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        CONTEXT_TEST(test_parts_are_balanced_within_the_largest_client),
        CONTEXT_TEST(test_equal_clients_are_divided_evenly),
        CONTEXT_TEST(test_regular_choices_of_clients_are_spread),
        CONTEXT_TEST(test_more_ranks_than_clients),
        CONTEXT_TEST(test_one_giant_client),
        CONTEXT_TEST(test_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
