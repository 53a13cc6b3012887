/* Mini-batches that are drawn there are those of the CPU, bit for bit. */
#include "device_memory.h"
#include "order.h"

#include "cuda/kernels/kernels.h"
#include "solver/minibatch.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    uint32_t n, size, rest_n, rest_size, steps, before; /* before: numbers taken from the stream already */
} turn;

static uint32_t sample_of(uint32_t i) { return i * 7 + 3; }

/* What the CPU draws: steps x size places, those that are not used are 0xffffffff. */
static void draw_here(const turn *t, fli_rng rng, uint32_t *order, uint32_t *rest)
{
    uint32_t *a = malloc((t->n + 1) * sizeof *a), *b = malloc((t->rest_n + 1) * sizeof *b);
    for (uint32_t i = 0; i < t->n; i++) a[i] = sample_of(i);
    for (uint32_t i = 0; i < t->rest_n; i++) b[i] = i;
    fli_sample_pass p = {.order = a, .n = t->n, .size = t->size};
    fli_sample_pass q = {.order = b, .n = t->rest_n, .size = t->rest_size};
    for (uint32_t k = 0; k < t->steps; k++) {
        fli_pass_next(&p, &rng);
        memcpy(order + (t->size < t->n ? k * t->size : 0), p.now, p.count * sizeof *order);
        assert_int_equal(p.count, fli_cuda_drawn(t->n, t->size, k));
        if (t->n) assert_int_equal(p.epoch, fli_cuda_epoch(t->n, t->size, k));
        if (!t->rest_n) continue;
        fli_pass_next(&q, &rng);
        memcpy(rest + (t->rest_size < t->rest_n ? k * t->rest_size : 0), q.now, q.count * sizeof *rest);
    }
    free(a);
    free(b);
}

static uint32_t *list_there(uint32_t n, int filled)
{
    uint32_t *v = malloc((n + 1) * sizeof *v);
    for (uint32_t i = 0; i <= n; i++) v[i] = filled ? sample_of(i) : UINT32_MAX;
    uint32_t *p = there((n + 1) * sizeof *v, v);
    free(v);
    return p;
}

static uint32_t most(uint32_t a, uint32_t b) { return a > b ? a : b; }

static fli_cuda_drawing drawing_of(const turn *t, const fli_rng *rng)
{
    fli_cuda_drawing d = {.n = t->n,
                          .size = t->size,
                          .rest_n = t->rest_n,
                          .rest_size = t->rest_size,
                          .steps = t->steps,
                          .left = rng->left};
    memcpy(d.key, rng->key, sizeof d.key);
    memcpy(d.ctr, rng->ctr, sizeof d.ctr);
    memcpy(d.out, rng->out, sizeof d.out);
    d.samples = list_there(t->n, 1);
    d.order = list_there(most(t->steps * t->size, t->n), 0);
    d.rest = list_there(most(t->steps * t->rest_size, t->rest_n), 0);
    d.work = list_there(FLI_CUDA_DRAW_WORK * (t->n + t->rest_n), 0);
    return d;
}

static void assert_same(const uint32_t *want, const uint32_t *at, uint32_t n)
{
    uint32_t *got = malloc((n + 1) * sizeof *got);
    here((n + 1) * sizeof *got, at, got);
    assert_memory_equal(got, want, n * sizeof *got);
    assert_int_equal(got[n], UINT32_MAX);
    free(got);
}

static void check_turn(const turn *t, const fli_rng *rng, const fli_cuda_drawing *d)
{
    uint32_t n = most(t->steps * t->size, t->n), m = most(t->steps * t->rest_size, t->rest_n);
    uint32_t *order = malloc((n + 1) * sizeof *order), *rest = malloc((m + 1) * sizeof *rest);
    memset(order, 0xff, (n + 1) * sizeof *order);
    memset(rest, 0xff, (m + 1) * sizeof *rest);
    draw_here(t, *rng, order, rest);
    assert_same(order, d->order, n);
    assert_same(rest, d->rest, m);
    free(order);
    free(rest);
}

enum { TURNS_MOST = 16 };

static void check_turns(const turn *t, const fli_rng *rng, uint32_t count)
{
    fli_cuda_drawing d[TURNS_MOST];
    for (uint32_t i = 0; i < count; i++) d[i] = drawing_of(&t[i], &rng[i]);
    fli_cuda_drawing *lanes = there(count * sizeof *d, d);
    fli_cuda_draw(stream(), lanes, count);
    for (uint32_t i = 0; i < count; i++) check_turn(&t[i], &rng[i], &d[i]);
    for (uint32_t i = 0; i < count; i++) {
        fli_cuda_release((void *)d[i].samples);
        fli_cuda_release(d[i].order);
        fli_cuda_release(d[i].rest);
        fli_cuda_release(d[i].work);
    }
    fli_cuda_release(lanes);
}

static fli_rng stream_of(const turn *t, uint32_t client)
{
    fli_rng r;
    fli_rng_init(&r, 0x123456789abcdefu, FLI_RNG_BATCH, 7, client);
    for (uint32_t i = 0; i < t->before; i++) fli_rng_u32(&r);
    return r;
}

/* n, size, rest_n, rest_size, steps, before */
static void test_orders_match_the_cpus(void **state)
{
    (void)state;
    static const turn t[] = {
        {600, 50, 0, 0, 24, 0},    {600, 50, 0, 0, 13, 2},   {1, 1, 0, 0, 3, 0},       {2, 1, 0, 0, 5, 1},
        {33, 8, 0, 0, 11, 3},      {64, 64, 0, 0, 4, 0},     {5, 9, 0, 0, 2, 0},       {1100, 100, 0, 0, 12, 4},
        {4200, 4000, 0, 0, 3, 0},  {31, 4, 17, 3, 20, 1},    {0, 0, 40, 7, 9, 0},      {40, 40, 40, 7, 9, 0},
        {100, 10, 100, 100, 5, 6}, {100, 10, 90, 15, 12, 0}, {9000, 4500, 0, 0, 2, 5}, {8100, 100, 200, 90, 4, 0},
    };
    enum { COUNT = sizeof t / sizeof *t };
    fli_rng rng[COUNT];
    for (uint32_t i = 0; i < COUNT; i++) rng[i] = stream_of(&t[i], i);
    for (fli_order o = FLI_ORDER_FORWARD; o < FLI_ORDERS; o++) {
        fli_emulated_order(o);
        check_turns(t, rng, COUNT);
    }
    fli_emulated_order(FLI_ORDER_FORWARD);
}

/* Every n: short shuffles are where swaps get in each other's way. */
static void test_short_ones(void **state)
{
    (void)state;
    for (uint32_t n = 2; n < 100; n += TURNS_MOST) {
        turn t[TURNS_MOST];
        fli_rng rng[TURNS_MOST];
        for (uint32_t i = 0; i < TURNS_MOST; i++) {
            t[i] = (turn){n + i, (n + i) / 2, 0, 0, 9, i % 5};
            rng[i] = stream_of(&t[i], n + i);
        }
        check_turns(t, rng, TURNS_MOST);
    }
}

/* The counter whose random bits are all 0, which no shuffle of n = 3 or 5 may use: Philox backwards. */
static void counter_of_zeros(const uint32_t key[2], uint32_t ctr[4])
{
    uint32_t c[4] = {0, 0, 0, 0};
    uint32_t i0 = 1, i1 = 1;      /* inverses of the two factors */
    for (int k = 0; k < 5; k++) { /* Newton: twice as many bits each time */
        i0 *= 2 - 0xD2511F53u * i0;
        i1 *= 2 - 0xCD9E8D57u * i1;
    }
    for (int r = 9; r >= 0; r--) {
        uint32_t k0 = key[0] + (uint32_t)r * 0x9E3779B9u, k1 = key[1] + (uint32_t)r * 0xBB67AE85u;
        uint32_t a = c[3] * i0, b = c[1] * i1; /* c0 and c2 before the round */
        uint32_t high0 = (uint32_t)((uint64_t)0xD2511F53u * a >> 32),
                 high1 = (uint32_t)((uint64_t)0xCD9E8D57u * b >> 32);
        uint32_t before[4] = {a, c[0] ^ high1 ^ k0, b, c[2] ^ high0 ^ k1};
        memcpy(c, before, sizeof c);
    }
    memcpy(ctr, c, sizeof c);
}

/* A stream in which two numbers are rejected: it is then drawn one by one. */
static void test_rejected_numbers_are_skipped(void **state)
{
    (void)state;
    const turn t[2] = {{100, 9, 0, 0, 25, 0}, {1100, 200, 50, 7, 9, 0}};
    fli_rng rng[2];
    for (int i = 0; i < 2; i++) {
        rng[i] = stream_of(&t[i], 3);
        counter_of_zeros(rng[i].key, rng[i].ctr);
        fli_rng look = rng[i];
        assert_true(fli_rng_u64(&look) == 0 && fli_rng_u64(&look) == 0);
        rng[i].ctr[0] -= i ? 300 : 11; /* zeros come up a while later */
    }
    check_turns(t, rng, 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_orders_match_the_cpus),
        cmocka_unit_test(test_short_ones),
        cmocka_unit_test(test_rejected_numbers_are_skipped),
    };
    return cmocka_run_group_tests(tests, stream_begin, stream_end);
}
