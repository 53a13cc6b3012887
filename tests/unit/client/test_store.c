/* What clients keep between their turns. */
#include "fixture.h"

#include "base/pool.h"
#include "client/store.h"

#include <signal.h>
#include <sys/resource.h>

static fli_store *store_with(fixture *f, fli_store_spec spec)
{
    fli_store *s = NULL;
    assert_ok(f->ctx, fli_store_new(f->ctx, &spec, &s));
    return s;
}

static fli_store *store_of(fixture *f, const fli_ops *ops, size_t n, size_t clients, size_t vectors, size_t scalars)
{
    return store_with(
        f, (fli_store_spec){
               .space = fli_space_of(ops, n, NULL), .clients = clients, .vectors = vectors, .scalars = scalars});
}

static void first_touch_is_zero_then_kept(void **state)
{
    fixture *f = *state;
    enum { DIM = 13 };
    fli_store *s = store_of(f, &fli_ops_f64, DIM, 5, 2, 3);
    fli_client_state k;
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
    fli_client_state k;
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
    fli_client_state k;
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
    fli_client_state k;
    fli_ctx_fail_alloc(f->ctx, 1);
    assert_fails(f->ctx, fli_store_get(s, 1, &k), FL_ENOMEM, "out of memory");
    assert_int_equal(fli_store_bytes(s), 0);
    assert_ok(f->ctx, fli_store_get(s, 1, &k));
    assert_int_equal(k.first, 1);
    fli_store_free(s);
    fli_store_spec spec = {
        .space = fli_space_of(&fli_ops_f64, 10, NULL), .clients = 3, .vectors = 1, .scalars = 1, .budget = 1 << 20};
    fli_ctx_fail_alloc(f->ctx, 1);
    assert_fails(f->ctx, fli_store_new(f->ctx, &spec, &s), FL_ENOMEM, "out of memory");
    for (size_t budget = 0; budget <= 1 << 20; budget += 1 << 20)
        for (size_t i = 1; i <= 2; i++) { /* the entry, and its slot */
            spec.budget = budget;
            s = store_with(f, spec);
            fli_ctx_fail_alloc(f->ctx, i);
            assert_fails(f->ctx, fli_store_get(s, 1, &k), FL_ENOMEM, "out of memory");
            assert_int_equal(fli_store_bytes(s), 0);
            fli_ctx_fail_alloc(f->ctx, 0);
            assert_ok(f->ctx, fli_store_get(s, 1, &k));
            assert_int_equal(k.first, 1);
            fli_store_release(s, 1);
            fli_store_free(s);
        }
}

static void *const *peek(fixture *f, fli_store *s, size_t client)
{
    void *const *vectors;
    assert_ok(f->ctx, fli_store_peek(s, client, &vectors));
    return vectors;
}

/* Looking does not touch. */
/* Those who were never asked for cost nothing, not even a pointer. */
static void a_hundred_million_clients(void **state)
{
    enum { CLIENTS = 100000000, TOUCHED = 10000, STEP = CLIENTS / TOUCHED };
    fixture *f = *state;
    for (size_t budget = 0; budget <= 1 << 16; budget += 1 << 16) {
        struct rusage before, after;
        fli_store_spec spec = {.space = fli_space_of(&fli_ops_f64, 1, NULL),
                               .clients = CLIENTS,
                               .scalars = 1,
                               .budget = budget,
                               .folder = f->folder};
        fli_client_state k;
        getrusage(RUSAGE_SELF, &before);
        fli_store *s = store_with(f, spec);
        for (size_t turn = 0; turn < 2; turn++)
            for (size_t i = 0; i < TOUCHED; i++) {
                size_t client = CLIENTS - 1 - i * STEP;
                assert_ok(f->ctx, fli_store_get(s, client, &k));
                assert_int_equal(k.first, !turn);
                assert_true(k.scalars[0] == (turn ? (double)client : 0));
                k.scalars[0] = (double)client;
                fli_store_release(s, client);
            }
        getrusage(RUSAGE_SELF, &after);
        assert_null(peek(f, s, 0));
        assert_true(after.ru_maxrss - before.ru_maxrss < 100 * 1024);
        fli_store_free(s);
    }
}

static void peeking_creates_no_state(void **state)
{
    fixture *f = *state;
    fli_store *s = store_of(f, &fli_ops_f64, 10, 3, 2, 0), *none = store_of(f, &fli_ops_f64, 10, 3, 0, 0);
    fli_client_state k;
    assert_null(peek(f, s, 1));
    assert_null(peek(f, none, 1));
    assert_int_equal(fli_store_bytes(s), 0);
    assert_ok(f->ctx, fli_store_get(s, 1, &k));
    assert_int_equal(k.first, 1);
    assert_ptr_equal(peek(f, s, 1), k.vectors);
    assert_null(peek(f, s, 0));
    fli_store_free(s);
    fli_store_free(none);
}

enum { MANY = 2000 };

static void touch(void *arg, size_t item, size_t worker)
{
    fli_client_state k;
    (void)worker;
    if (fli_store_get(arg, item, &k)) return;
    ((double *)k.vectors[0])[0] += (double)item;
    k.scalars[0] += 1;
    fli_store_release(arg, item);
}

/* Also with room for ten, and for none. */
static void many_threads_with(fixture *f, size_t budget)
{
    fli_store *s = store_with(f, (fli_store_spec){.space = fli_space_of(&fli_ops_f64, 7, NULL),
                                                  .clients = MANY,
                                                  .vectors = 1,
                                                  .scalars = 1,
                                                  .budget = budget,
                                                  .folder = f->folder});
    fli_pool *pool = NULL;
    fli_client_state k;
    assert_ok(f->ctx, fli_pool_new(f->ctx, 4, &pool));
    for (int i = 0; i < 3; i++) fli_pool_run(pool, MANY, touch, s);
    for (size_t c = 0; c < MANY; c++) {
        assert_ok(f->ctx, fli_store_get(s, c, &k));
        assert_true(((double *)k.vectors[0])[0] == 3 * (double)c && k.scalars[0] == 3 && !k.first);
        fli_store_release(s, c);
    }
    if (budget)
        assert_true(fli_store_bytes(s) <= 2560 && fli_store_spilled(s) >= (MANY - 10) * 128);
    else
        assert_int_equal(fli_store_bytes(s) % MANY, 0);
    fli_pool_free(pool);
    fli_store_free(s);
}

static void many_threads(void **state)
{
    many_threads_with(*state, 0);
    many_threads_with(*state, 2560);
    many_threads_with(*state, 1);
}

/* ---- under a budget --------------------------------------------------------------------------------------- */

enum { DIM = 100, CLIENTS = 40, HELD = 5 };

typedef struct {
    size_t left[CLIENTS];
} leavers;

static void leave(void *arg, size_t client) { ((leavers *)arg)->left[client]++; }

static fli_store *small_store(fixture *f, leavers *l)
{
    fli_store_spec spec = {.space = fli_space_of(&fli_ops_f64, DIM, NULL),
                           .clients = CLIENTS,
                           .vectors = 2,
                           .scalars = 3,
                           .folder = f->folder,
                           .left = leave,
                           .arg = l};
    fli_store *s = store_with(f, spec);
    fli_client_state k;
    assert_ok(f->ctx, fli_store_get(s, 0, &k)); /* to see how large an entry is */
    spec.budget = HELD * fli_store_bytes(s) + 100;
    fli_store_free(s);
    return store_with(f, spec);
}

/* One client's turn: what it finds must be what it left. */
static void turn(fixture *f, fli_store *s, size_t client, size_t *visits)
{
    fli_client_state k;
    assert_ok(f->ctx, fli_store_get(s, client, &k));
    assert_int_equal(k.first, visits[client] == 0);
    for (size_t v = 0; v < 2; v++)
        for (size_t i = 0; i < DIM; i++) {
            double *x = (double *)k.vectors[v] + i;
            assert_true(*x == (visits[client] ? (double)(client * 1000 + visits[client] * 100 + v * 50 + i) : 0));
            *x = (double)(client * 1000 + (visits[client] + 1) * 100 + v * 50 + i);
        }
    for (size_t i = 0; i < 3; i++) {
        assert_true(k.scalars[i] == (visits[client] ? (double)(visits[client] + i) : 0));
        k.scalars[i] = (double)(visits[client] + 1 + i);
    }
    visits[client]++;
    fli_store_release(s, client);
}

static void budget_is_kept(void **state)
{
    fixture *f = *state;
    leavers l = {{0}};
    size_t visits[CLIENTS] = {0}, one, gone = 0;
    fli_store *s = small_store(f, &l);
    fli_rng rng;
    fli_rng_init(&rng, 1, FLI_RNG_TEST, 0, 0);
    turn(f, s, 7, visits);
    one = fli_store_bytes(s);
    for (int i = 0; i < 2000; i++) {
        turn(f, s, (size_t)fli_rng_below(&rng, CLIENTS), visits);
        assert_true(fli_store_bytes(s) <= HELD * one);
    }
    assert_int_equal(fli_store_bytes(s), HELD * one);
    for (size_t i = 0; i < CLIENTS; i++) gone += l.left[i];
    assert_true(gone > 1000);
    assert_true(fli_store_spilled(s) >= (CLIENTS - HELD) * (2 * DIM + 3) * sizeof(double));
    assert_true(fli_store_spilled(s) <= CLIENTS * one);
    fli_store_free(s);
}

/* Who was seen last stays; who is in use stays whatever the budget says. */
static void the_longest_unseen_goes(void **state)
{
    fixture *f = *state;
    leavers l = {{0}};
    size_t visits[CLIENTS] = {0};
    fli_store *s = small_store(f, &l);
    fli_client_state k[HELD + 2];
    for (size_t c = 0; c < HELD; c++) turn(f, s, c, visits);
    turn(f, s, 0, visits); /* now 1 is the oldest */
    turn(f, s, 10, visits);
    assert_int_equal(l.left[1], 1);
    assert_int_equal(l.left[0], 0);
    void *const *seen = peek(f, s, 1); /* looked at from the file: 2 goes */
    assert_true(((double *)seen[0])[3] == 1000 + 100 + 3);
    fli_store_release(s, 1);
    assert_int_equal(l.left[2], 1);
    assert_null(peek(f, s, 30));
    for (size_t c = 0; c < HELD + 2; c++) assert_ok(f->ctx, fli_store_get(s, 20 + c, &k[c]));
    for (size_t c = 0; c < HELD + 2; c++) ((double *)k[c].vectors[0])[0] = (double)c;
    for (size_t c = 0; c < HELD + 2; c++) {
        assert_true(((double *)k[c].vectors[0])[0] == (double)c);
        fli_store_release(s, 20 + c);
    }
    fli_store_free(s);
}

/* A disk that is full, or a folder that is not there: the client that was to go is still whole. */
static void full_disk(void **state)
{
    fixture *f = *state;
    leavers l = {{0}};
    size_t visits[CLIENTS] = {0};
    struct rlimit before, small = {4000, 0};
    fli_store *s = small_store(f, &l);
    fli_client_state k;
    for (size_t c = 0; c < HELD; c++) turn(f, s, c, visits);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
    turn(f, s, 10, visits); /* 0 goes: one entry fits */
    fl_status status = FL_OK;
    for (size_t c = 11; c < 14 && !status; c++) status = fli_store_get(s, c, &k);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_fails(f->ctx, status, FL_EIO, "client state beyond `memory` cannot be written here");
    fli_clear(f->ctx);
    for (size_t c = 0; c < HELD; c++) turn(f, s, c, visits);
    turn(f, s, 10, visits);
    fli_store_free(s);

    fli_store_spec spec = {
        .space = fli_space_of(&fli_ops_f64, DIM, NULL), .clients = 3, .vectors = 1, .budget = 1, .folder = "/nowhere"};
    s = store_with(f, spec);
    assert_ok(f->ctx, fli_store_get(s, 0, &k));
    fli_store_release(s, 0);
    assert_fails(f->ctx, fli_store_get(s, 1, &k), FL_EIO, "/nowhere");
    fli_store_free(s);
}

/* From a store with a budget into one without, and the other way round. */
static void saved_and_loaded(void **state)
{
    fixture *f = *state;
    leavers l = {{0}};
    size_t visits[CLIENTS] = {0};
    fli_saver *out = NULL;
    fli_loader *in = NULL;
    fli_store *s = small_store(f, &l);
    for (size_t c = 0; c < CLIENTS; c += 3) turn(f, s, c, visits);
    assert_ok(f->ctx, fli_saver_open(f->ctx, fixture_path(f, "state"), &out));
    fli_store_save(s, out);
    assert_ok(f->ctx, fli_saver_close(out, NULL));
    fli_store_free(s);
    for (int i = 0; i < 2; i++) {
        size_t again[CLIENTS];
        memcpy(again, visits, sizeof again);
        s = i ? store_of(f, &fli_ops_f64, DIM, CLIENTS, 2, 3) : small_store(f, &l);
        assert_ok(f->ctx, fli_loader_open(f->ctx, fixture_path(f, "state"), &in));
        assert_ok(f->ctx, fli_store_load(s, in));
        assert_ok(f->ctx, fli_loader_end(in));
        fli_loader_close(in);
        for (size_t c = 0; c < CLIENTS; c++) turn(f, s, c, again);
        fli_store_free(s);
    }
}

static int is_even(const void *arg, size_t client)
{
    (void)arg;
    return client % 2 == 0;
}

/* What is loaded of others' clients takes no memory, neither here nor in a file. */
static void others_are_passed_over(void **state)
{
    fixture *f = *state;
    size_t visits[CLIENTS] = {0};
    fli_saver *out = NULL;
    fli_loader *in = NULL;
    fli_store *s = store_of(f, &fli_ops_f64, DIM, CLIENTS, 2, 3);
    for (size_t c = 0; c < 6; c++) turn(f, s, c, visits);
    size_t all = fli_store_bytes(s);
    assert_ok(f->ctx, fli_saver_open(f->ctx, fixture_path(f, "state"), &out));
    fli_store_save(s, out);
    assert_ok(f->ctx, fli_saver_close(out, NULL));
    fli_store_free(s);
    s = store_with(f, (fli_store_spec){.space = fli_space_of(&fli_ops_f64, DIM, NULL),
                                       .clients = CLIENTS,
                                       .vectors = 2,
                                       .scalars = 3,
                                       .here = is_even});
    assert_ok(f->ctx, fli_loader_open(f->ctx, fixture_path(f, "state"), &in));
    assert_ok(f->ctx, fli_store_load(s, in));
    assert_ok(f->ctx, fli_loader_end(in));
    fli_loader_close(in);
    assert_int_equal(fli_store_bytes(s), all / 2);
    for (size_t c = 0; c < 6; c += 2) turn(f, s, c, visits);
    fli_store_free(s);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(first_touch_is_zero_then_kept),
        FIXTURE_TEST(memory_follows_the_touched),
        FIXTURE_TEST(nothing_to_keep),
        FIXTURE_TEST(out_of_memory),
        FIXTURE_TEST(a_hundred_million_clients),
        FIXTURE_TEST(peeking_creates_no_state),
        FIXTURE_TEST(many_threads),
        FIXTURE_TEST(budget_is_kept),
        FIXTURE_TEST(the_longest_unseen_goes),
        FIXTURE_TEST(full_disk),
        FIXTURE_TEST(saved_and_loaded),
        FIXTURE_TEST(others_are_passed_over),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
