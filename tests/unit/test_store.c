/* What clients keep between their turns. */
#include "fixture.h"

#include "base/pool.h"
#include "exec/store.h"

static fli_store *store_of(fixture *f, const fli_ops *ops, size_t n, size_t clients, size_t vectors, size_t scalars)
{
    fli_store *s = NULL;
    fli_space space = {ops, n};
    assert_ok(f->ctx, fli_store_new(f->ctx, &space, clients, vectors, scalars, &s));
    return s;
}

static void first_touch_is_zero_then_kept(void **state)
{
    fixture *f = *state;
    enum { DIM = 13 };
    fli_store *s = store_of(f, &fli_ops_f64, DIM, 5, 2, 3);
    fli_kept k;
    assert_int_equal(fli_store_bytes(s), 0);
    for (size_t round = 0; round < 3; round++)
        for (size_t c = 0; c < 5; c += 2) {
            assert_ok(f->ctx, fli_store_get(s, c, &k));
            assert_int_equal(k.first, round == 0);
            for (size_t v = 0; v < 2; v++) {
                double *x = k.vectors[v];
                assert_int_equal((uintptr_t)x % 64, 0);
                for (size_t i = 0; i < DIM; i++) {
                    assert_true(x[i] == (round ? (double)(round * 1000 + c * 100 + v * 50 + i) : 0));
                    x[i] = (double)((round + 1) * 1000 + c * 100 + v * 50 + i);
                }
            }
            for (size_t i = 0; i < 3; i++) {
                assert_true(k.scalars[i] == (round ? (double)(round + c + i) : 0));
                k.scalars[i] = (double)(round + 1 + c + i);
            }
        }
    fli_store_free(s);
}

static void memory_follows_the_touched(void **state)
{
    fixture *f = *state;
    enum { DIM = 1000 };
    fli_store *s = store_of(f, &fli_ops_f32, DIM, 1000000, 2, 0);
    fli_kept k;
    size_t one = 0;
    for (size_t c = 0; c < 10; c++) {
        assert_ok(f->ctx, fli_store_get(s, c * 99991, &k));
        if (!c) one = fli_store_bytes(s);
        assert_int_equal(fli_store_bytes(s), (c + 1) * one);
    }
    assert_true(one >= 2 * DIM * sizeof(float) && one < 2 * DIM * sizeof(float) + 512);
    assert_ok(f->ctx, fli_store_get(s, 0, &k));
    assert_int_equal(fli_store_bytes(s), 10 * one);
    fli_store_free(s);
}

static void nothing_to_keep(void **state)
{
    fixture *f = *state;
    fli_store *s = store_of(f, &fli_ops_f32, 10, 3, 0, 0);
    fli_kept k;
    assert_ok(f->ctx, fli_store_get(s, 2, &k));
    assert_int_equal(fli_store_bytes(s), 0);
    fli_store_free(s);
    fli_store_free(NULL);

    s = store_of(f, &fli_ops_f32, 10, 3, 0, 1); /* scalars alone */
    assert_ok(f->ctx, fli_store_get(s, 2, &k));
    assert_int_equal(k.first, 1);
    assert_true(k.scalars[0] == 0);
    fli_store_free(s);
}

/* A client that could not be touched for lack of memory is still untouched. */
static void out_of_memory(void **state)
{
    fixture *f = *state;
    fli_store *s = store_of(f, &fli_ops_f64, 10, 3, 1, 1);
    fli_kept k;
    fli_ctx_fail_alloc(f->ctx, 1);
    assert_fails(f->ctx, fli_store_get(s, 1, &k), FL_ENOMEM, "out of memory");
    assert_int_equal(fli_store_bytes(s), 0);
    assert_ok(f->ctx, fli_store_get(s, 1, &k));
    assert_int_equal(k.first, 1);
    fli_store_free(s);
    for (size_t i = 1; i <= 2; i++) {
        fli_ctx_fail_alloc(f->ctx, i);
        assert_fails(f->ctx, fli_store_new(f->ctx, &(fli_space){&fli_ops_f64, 10}, 3, 1, 1, &s), FL_ENOMEM,
                     "out of memory");
    }
    fli_ctx_fail_alloc(f->ctx, 0);
}

/* Looking does not touch. */
static void peeking(void **state)
{
    fixture *f = *state;
    fli_store *s = store_of(f, &fli_ops_f64, 10, 3, 2, 0), *none = store_of(f, &fli_ops_f64, 10, 3, 0, 0);
    fli_kept k;
    assert_null(fli_store_peek(s, 1));
    assert_null(fli_store_peek(none, 1));
    assert_int_equal(fli_store_bytes(s), 0);
    assert_ok(f->ctx, fli_store_get(s, 1, &k));
    assert_int_equal(k.first, 1);
    assert_ptr_equal(fli_store_peek(s, 1), k.vectors);
    assert_null(fli_store_peek(s, 0));
    fli_store_free(s);
    fli_store_free(none);
}

enum { MANY = 2000 };

static void touch(void *arg, size_t item, size_t worker)
{
    fli_kept k;
    (void)worker;
    if (fli_store_get(arg, item, &k)) return;
    ((double *)k.vectors[0])[0] += (double)item;
    k.scalars[0] += 1;
}

static void many_threads(void **state)
{
    fixture *f = *state;
    fli_store *s = store_of(f, &fli_ops_f64, 7, MANY, 1, 1);
    fli_pool *pool = NULL;
    fli_kept k;
    assert_ok(f->ctx, fli_pool_new(f->ctx, 4, &pool));
    for (int i = 0; i < 3; i++) fli_pool_run(pool, MANY, touch, s);
    for (size_t c = 0; c < MANY; c++) {
        assert_ok(f->ctx, fli_store_get(s, c, &k));
        assert_true(((double *)k.vectors[0])[0] == 3 * (double)c && k.scalars[0] == 3 && !k.first);
    }
    assert_int_equal(fli_store_bytes(s) % MANY, 0);
    fli_pool_free(pool);
    fli_store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(first_touch_is_zero_then_kept),
        FIXTURE_TEST(memory_follows_the_touched),
        FIXTURE_TEST(nothing_to_keep),
        FIXTURE_TEST(out_of_memory),
        FIXTURE_TEST(peeking),
        FIXTURE_TEST(many_threads),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
