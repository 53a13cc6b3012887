/* The asynchronous pool: items come out once, done; pausing waits for those under way. */
#include "fixture.h"

#include "base/pool.h"

#include <stdatomic.h>
#include <time.h>

enum { THREADS = 3, ITEMS = 100 };

typedef struct {
    atomic_int inside[THREADS], at_work, overlaps;
    atomic_int gate; /* 0: workers wait for it to open */
} observed;

typedef struct {
    int done;
} item;

static void work(void *arg, void *what, size_t worker)
{
    observed *w = arg;
    w->at_work++;
    if (atomic_fetch_add(&w->inside[worker], 1)) w->overlaps++;
    while (!w->gate) nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    ((item *)what)->done++;
    w->inside[worker]--;
    w->at_work--;
}

/* Every item that is given comes out once, done, in whatever portions it is given and taken. */
static void everything_comes_out(void **state)
{
    fixture *f = *state;
    observed w = {.gate = 1};
    fli_async_pool *p;
    item items[ITEMS] = {{0}};
    void *out[7];
    assert_ok(f->ctx, fli_async_pool_new(f->ctx, THREADS, work, &w, &p));
    size_t given = 0, came = 0;
    while (came < ITEMS) {
        for (size_t i = 0; i < 1 + came % 5 && given < ITEMS; i++)
            assert_ok(f->ctx, fli_async_pool_give(p, &items[given++]));
        size_t n = fli_async_pool_take(p, 10, out, 1 + came % 7);
        assert_true(n > 0);
        for (size_t i = 0; i < n; i++) assert_int_equal(((item *)out[i])->done, 1);
        came += n;
    }
    assert_int_equal(fli_async_pool_take(p, 0, out, 7), 0);
    for (size_t i = 0; i < ITEMS; i++) assert_int_equal(items[i].done, 1);
    assert_int_equal(w.overlaps, 0);
    assert_true(fli_async_pool_idle(p) > 0);
    fli_async_pool_free(p);
}

/* No worker begins before the first take, nor while the pool is paused; pausing waits for items under way. */
static void a_pause_waits_for_what_is_under_way(void **state)
{
    fixture *f = *state;
    observed w = {.gate = 0};
    fli_async_pool *p;
    item items[10] = {{0}};
    void *out[10];
    assert_ok(f->ctx, fli_async_pool_new(f->ctx, THREADS, work, &w, &p));
    for (size_t i = 0; i < 10; i++) assert_ok(f->ctx, fli_async_pool_give(p, &items[i]));
    fli_async_pool_rest(p);
    assert_int_equal(w.at_work, 0);
    assert_true(fli_async_pool_idle(p) == 0); /* a pause is not idle time */
    while (w.at_work < THREADS) assert_int_equal(fli_async_pool_take(p, 0.001, out, 10), 0);
    w.gate = 1;
    fli_async_pool_rest(p);
    int done = 0;
    for (size_t i = 0; i < 10; i++) done += items[i].done;
    assert_true(done >= THREADS && w.at_work == 0);
    for (size_t came = 0; came < 10;) came += fli_async_pool_take(p, 10, out, 10);
    fli_async_pool_free(p);
}

/* Items that have not begun are dropped. */
static void an_early_end(void **state)
{
    fixture *f = *state;
    observed w = {.gate = 1};
    fli_async_pool *p;
    item items[10] = {{0}};
    assert_ok(f->ctx, fli_async_pool_new(f->ctx, THREADS, work, &w, &p));
    for (size_t i = 0; i < 10; i++) assert_ok(f->ctx, fli_async_pool_give(p, &items[i]));
    fli_async_pool_free(p);
    for (size_t i = 0; i < 10; i++) assert_int_equal(items[i].done, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(everything_comes_out),
        FIXTURE_TEST(a_pause_waits_for_what_is_under_way),
        FIXTURE_TEST(an_early_end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
