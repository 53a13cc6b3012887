/* Threads that work while whoever hands things over goes on. */
#include "fixture.h"

#include "base/pool.h"

#include <stdatomic.h>
#include <time.h>

enum { THREADS = 3, THINGS = 100 };

typedef struct {
    atomic_int inside[THREADS], at_work, overlaps;
    atomic_int gate; /* 0: whoever works waits for it to open */
} watch;

typedef struct {
    int done;
} thing;

static void work(void *arg, void *what, size_t worker)
{
    watch *w = arg;
    w->at_work++;
    if (atomic_fetch_add(&w->inside[worker], 1)) w->overlaps++;
    while (!w->gate) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    ((thing *)what)->done++;
    w->inside[worker]--;
    w->at_work--;
}

/* All that is given comes out once, done, however it is given and taken. */
static void everything_comes_out(void **state)
{
    fixture *f = *state;
    watch w = {.gate = 1};
    fli_async_pool *h;
    thing things[THINGS] = {{0}};
    void *out[7];
    assert_ok(f->ctx, fli_async_pool_new(f->ctx, THREADS, work, &w, &h));
    size_t given = 0, came = 0;
    while (came < THINGS) {
        for (size_t i = 0; i < 1 + came % 5 && given < THINGS; i++)
            assert_ok(f->ctx, fli_async_pool_give(h, &things[given++]));
        size_t n = fli_async_pool_take(h, 10, out, 1 + came % 7);
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++) assert_int_equal(((thing *)out[i])->done, 1);
        came += n;
    }
    assert_int_equal(fli_async_pool_take(h, 0, out, 7), 0);
    for (size_t i = 0; i < THINGS; i++) assert_int_equal(things[i].done, 1);
    assert_int_equal(w.overlaps, 0);
    assert_true(fli_async_pool_idle(h) > 0);
    fli_async_pool_free(h);
}

/* Nobody begins before somebody takes, nor while they rest; who has begun is waited for. */
static void they_rest(void **state)
{
    fixture *f = *state;
    watch w = {.gate = 0};
    fli_async_pool *h;
    thing things[10] = {{0}};
    void *out[10];
    assert_ok(f->ctx, fli_async_pool_new(f->ctx, THREADS, work, &w, &h));
    for (size_t i = 0; i < 10; i++) assert_ok(f->ctx, fli_async_pool_give(h, &things[i]));
    fli_async_pool_rest(h);
    assert_int_equal(w.at_work, 0);
    assert_true(fli_async_pool_idle(h) == 0); /* rest is not idleness */
    while (w.at_work < THREADS) assert_int_equal(fli_async_pool_take(h, 0.001, out, 10), 0);
    w.gate = 1;
    fli_async_pool_rest(h);
    int done = 0;
    for (size_t i = 0; i < 10; i++) done += things[i].done;
    assert_true(done >= THREADS && w.at_work == 0);
    for (size_t came = 0; came < 10;) came += fli_async_pool_take(h, 10, out, 10);
    fli_async_pool_free(h);
}

/* What has not begun is forgotten. */
static void an_early_end(void **state)
{
    fixture *f = *state;
    watch w = {.gate = 1};
    fli_async_pool *h;
    thing things[10] = {{0}};
    assert_ok(f->ctx, fli_async_pool_new(f->ctx, THREADS, work, &w, &h));
    for (size_t i = 0; i < 10; i++) assert_ok(f->ctx, fli_async_pool_give(h, &things[i]));
    fli_async_pool_free(h);
    for (size_t i = 0; i < 10; i++) assert_int_equal(things[i].done, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(everything_comes_out),
        FIXTURE_TEST(they_rest),
        FIXTURE_TEST(an_early_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
