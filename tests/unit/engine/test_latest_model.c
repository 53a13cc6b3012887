/* The newest model: its contents are read, whole, by many readers while one writes; and a reader that is stuck in the
 * middle does not hold up the others. */
#include "check.h"

#include "engine/async.h"

#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <time.h>

static int up(void **state)
{
    *state = fl_ctx_new();
    return *state ? 0 : -1;
}

static int down(void **state)
{
    fl_ctx_free(*state);
    return 0;
}

/* Contents whose every number is their version. */
static void fill(size_t n, size_t version, size_t *out)
{
    for (size_t i = 0; i < n; i++) out[i] = version;
}

/* How many of the numbers are not the version. */
static size_t torn(size_t n, const size_t *contents, size_t version)
{
    size_t wrong = 0;
    for (size_t i = 0; i < n; i++) wrong += contents[i] != version;
    return wrong;
}

static void newest_is_read(void **state)
{
    for (size_t readers = 0; readers < 4; readers++)
        for (size_t n = 1; n < 40; n += 13) {
            fli_latest *b = NULL;
            size_t in[40], out[40];
            assert_ok(*state, fli_latest_new(*state, n * sizeof *in, readers, &b));
            for (size_t v = 7; v < 30; v += 1 + v % 3) { /* versions are the caller's: any numbers */
                fill(n, v, in);
                fli_latest_write(b, in, v);
                fill(n, 99, in); /* contents are copied */
                for (int again = 0; again < 3; again++) {
                    fill(40, 0, out);
                    assert_int_equal(fli_latest_read(b, out), v);
                    assert_int_equal(torn(n, out, v), 0);
                    for (size_t i = n; i < 40; i++)
                        assert_int_equal(out[i], 0); /* and no more than there is room for */
                }
            }
            fli_latest_free(b);
        }
    fli_latest_free(NULL);
}

/* Sizes that are no multiple of a word or of a cache line. */
static void odd_sizes(void **state)
{
    for (size_t bytes = 1; bytes < 130; bytes++) {
        char in[130], out[130];
        fli_latest *b = NULL;
        assert_ok(*state, fli_latest_new(*state, bytes, 1, &b));
        for (size_t v = 0; v < 5; v++) {
            memset(in, 'a' + (int)v, sizeof in);
            memset(out, '-', sizeof out);
            fli_latest_write(b, in, v);
            assert_int_equal(fli_latest_read(b, out), v);
            assert_memory_equal(in, out, bytes);
            for (size_t i = bytes; i < 130; i++) assert_int_equal(out[i], '-');
        }
        fli_latest_free(b);
    }
}

static void out_of_memory(void **state)
{
    fl_ctx *ctx = *state;
    fli_latest *b = NULL;
    for (size_t k = 1; k < 3; k++) {
        fli_ctx_fail_alloc(ctx, k);
        assert_int_equal(fli_latest_new(ctx, 100, 3, &b), FL_ENOMEM);
        assert_null(b);
        fli_clear(ctx);
    }
    fli_ctx_fail_alloc(ctx, 0);
}

/* ---- threads ------------------------------------------------------------------------------------------- */

enum { MOST_READERS = 6 };

typedef struct {
    fli_latest *latest;
    size_t n; /* numbers per contents */
    atomic_int over;
} room;

typedef struct {
    room *in;
    pthread_t thread;
    size_t *contents;
    size_t reads, torn, backwards, last; /* what it saw */
    atomic_size_t done;                  /* reads, for others to look at */
} reader;

static void *read_on(void *arg)
{
    reader *r = arg;
    while (!r->in->over) {
        size_t v = fli_latest_read(r->in->latest, r->contents);
        r->torn += torn(r->in->n, r->contents, v) != 0;
        r->backwards += v < r->last;
        r->last = v;
        r->reads++;
        atomic_fetch_add(&r->done, 1);
    }
    return NULL;
}

static void readers_begin(fl_ctx *ctx, room *in, reader *r, size_t readers, size_t n)
{
    size_t *zero = calloc(n, sizeof *zero);
    *in = (room){.n = n};
    assert_ok(ctx, fli_latest_new(ctx, n * sizeof *zero, readers, &in->latest));
    fli_latest_write(in->latest, zero, 0);
    free(zero);
    for (size_t i = 0; i < readers; i++) {
        r[i] = (reader){.in = in, .contents = malloc(n * sizeof(size_t))};
        assert_int_equal(pthread_create(&r[i].thread, NULL, read_on, &r[i]), 0);
    }
}

static void readers_end(room *in, reader *r, size_t readers)
{
    in->over = 1;
    for (size_t i = 0; i < readers; i++) {
        pthread_join(r[i].thread, NULL);
        free(r[i].contents);
        assert_true(r[i].reads > 0);
        assert_int_equal(r[i].torn, 0);
        assert_int_equal(r[i].backwards, 0);
    }
    fli_latest_free(in->latest);
}

/* Small contents, so that writer and readers meet often, and contents of many cache lines. */
static void many_readers(void **state)
{
    static const size_t n[] = {1, 9, 2000};
    reader r[MOST_READERS];
    room in;
    for (size_t readers = 1; readers <= MOST_READERS; readers += 2 + readers / 3)
        for (size_t k = 0; k < 3; k++) {
            size_t *contents = malloc(n[k] * sizeof *contents), last = k == 2 ? 2000 : 20000;
            readers_begin(*state, &in, r, readers, n[k]);
            for (size_t v = 1; v <= last; v++) {
                fill(n[k], v, contents);
                fli_latest_write(in.latest, contents, v);
            }
            for (size_t i = 0; i < readers; i++) /* everyone sees the last one in the end */
                for (size_t seen = r[i].done; r[i].done < seen + 2;) sched_yield();
            readers_end(&in, r, readers);
            for (size_t i = 0; i < readers; i++) assert_int_equal(r[i].last, last);
            free(contents);
        }
}

/* ---- a reader that is stuck ------------------------------------------------------------------------------ */

static atomic_int stuck, held;

/* Holds a thread up where it is, most likely in the middle of copying, until it is let go. */
static void hold(int signal)
{
    (void)signal;
    atomic_fetch_add(&stuck, 1);
    while (held) nanosleep(&(struct timespec){0, 1000000}, NULL);
}

/* All readers are held up, each in front of another version; the writer goes on, and they have whole contents when they
 * are let go. */
static void writer_does_not_wait(void **state)
{
    enum { READERS = 4, N = 1 << 16, WRITES = 300 };
    struct sigaction action = {.sa_handler = hold}, before;
    reader r[READERS];
    room in;
    size_t *contents = malloc(N * sizeof *contents), v = 0;
    sigaction(SIGUSR1, &action, &before);
    for (int again = 0; again < 5; again++) {
        stuck = 0;
        held = 1;
        readers_begin(*state, &in, r, READERS, N);
        for (size_t i = 0; i < READERS; i++) {
            while (!r[i].done) sched_yield();
            assert_int_equal(pthread_kill(r[i].thread, SIGUSR1), 0);
            while (stuck < (int)i + 1) sched_yield();
            fill(N, ++v, contents);
            fli_latest_write(in.latest, contents, v);
        }
        for (size_t k = 0; k < WRITES; k++) {
            fill(N, ++v, contents);
            fli_latest_write(in.latest, contents, v);
        }
        assert_int_equal(stuck, READERS); /* still */
        held = 0;
        for (size_t i = 0; i < READERS; i++)
            for (size_t seen = r[i].done; r[i].done < seen + 2;) sched_yield();
        readers_end(&in, r, READERS);
        for (size_t i = 0; i < READERS; i++) assert_int_equal(r[i].last, v);
    }
    sigaction(SIGUSR1, &before, NULL);
    free(contents);
}

/* ---- readers that are interrupted anywhere --------------------------------------------------------------- */

static void pause_a_little(int signal)
{
    (void)signal;
    nanosleep(&(struct timespec){0, 20000}, NULL);
}

typedef struct {
    reader *readers;
    size_t count, times;
    atomic_int over;
} interrupter;

static void *interrupt(void *arg)
{
    interrupter *t = arg;
    for (size_t k = 0; k < t->times; k++) {
        pthread_kill(t->readers[k % t->count].thread, SIGUSR1);
        nanosleep(&(struct timespec){0, 10000}, NULL);
    }
    t->over = 1;
    return NULL;
}

/* Contents as short as a few cache lines, so that a reader often stops between finding the newest copy and taking hold
 * of it, and comes back when that copy is being written again. */
static void interrupted_readers(void **state)
{
    enum { READERS = 3, N = 64 };
    struct sigaction action = {.sa_handler = pause_a_little}, before;
    reader r[READERS];
    room in;
    interrupter t = {.readers = r, .count = READERS, .times = 6000};
    pthread_t thread;
    size_t contents[N], v = 0;
    sigaction(SIGUSR1, &action, &before);
    readers_begin(*state, &in, r, READERS, N);
    assert_int_equal(pthread_create(&thread, NULL, interrupt, &t), 0);
    while (!t.over) {
        fill(N, ++v, contents);
        fli_latest_write(in.latest, contents, v);
    }
    pthread_join(thread, NULL);
    readers_end(&in, r, READERS);
    sigaction(SIGUSR1, &before, NULL);
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, up, down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(newest_is_read),       TEST(odd_sizes),           TEST(out_of_memory), TEST(many_readers),
        TEST(writer_does_not_wait), TEST(interrupted_readers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
