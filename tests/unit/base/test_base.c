/* The ground floor: context, memory, text, arena, files, thread pool. */
#include "check.h"
#include "base/memory.h"
#include "base/os.h"
#include "base/file.h"
#include "base/pool.h"
#include "base/ctx.h"
#include "base/text.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>

static int setup(void **state)
{
    *state = fl_ctx_new();
    return *state ? 0 : -1;
}

static int teardown(void **state)
{
    fl_ctx_free(*state);
    return 0;
}

/* ---- context ------------------------------------------------------------------------------------------- */

static void keeps_first_error(void **state)
{
    fl_ctx *ctx = *state;
    assert_string_equal(fl_ctx_error(ctx), "");
    assert_int_equal(fli_fail(ctx, FL_EIO, "first %d", 1), FL_EIO);
    assert_int_equal(fli_fail(ctx, FL_ECONFIG, "second"), FL_ECONFIG);
    assert_string_equal(fl_ctx_error(ctx), "first 1");
    assert_int_equal(fli_fail_also(ctx, FL_EFORMAT, "also %s", "this"), FL_EFORMAT);
    assert_string_equal(fl_ctx_error(ctx), "first 1\nalso this");
    fli_clear(ctx);
    assert_string_equal(fl_ctx_error(ctx), "");
    fli_fail_also(ctx, FL_EIO, "alone");
    assert_string_equal(fl_ctx_error(ctx), "alone");
}

static void bounds_errors(void **state)
{
    fl_ctx *ctx = *state;
    for (int i = 0; i < 10000; i++) fli_fail_also(ctx, FL_EIO, "sentence number %d", i);
    size_t n = strlen(fl_ctx_error(ctx));
    assert_true(n > 1000 && n < 100000);
    assert_memory_equal(fl_ctx_error(ctx), "sentence number 0\nsentence number 1\n", 36);
}

static void *fail_often(void *ctx)
{
    for (int i = 0; i < 1000; i++) fli_fail(ctx, FL_EIO, "x%dx", i);
    return NULL;
}

static void fails_in_threads(void **state)
{
    fl_ctx *ctx = *state;
    pthread_t thread[4];
    for (int i = 0; i < 4; i++) assert_int_equal(pthread_create(&thread[i], NULL, fail_often, ctx), 0);
    for (int i = 0; i < 4; i++) pthread_join(thread[i], NULL);
    assert_string_equal(fl_ctx_error(ctx), "x0x"); /* whichever thread came first, its first one */
}

static void names_statuses(void **state)
{
    (void)state;
    assert_string_equal(fl_status_text(FL_OK), "success");
    assert_string_equal(fl_status_text(FL_ESYSTEM), "the operating system refused something");
    assert_string_equal(fl_status_text((fl_status)99), "unknown status");
    assert_string_equal(fl_status_text((fl_status)-1), "unknown status");
}

static void remember_line(void *arg, fl_log_level level, const char *line)
{
    snprintf(arg, 100, "%d %s", (int)level, line);
}

static void log_lines_reach_the_callback(void **state)
{
    fl_ctx *ctx = *state;
    char line[100] = "";
    fli_log(ctx, FL_LOG_INFO, "into the void");
    fl_ctx_on_log(ctx, remember_line, line);
    fli_log(ctx, FL_LOG_WARNING, "careful: %d", 7);
    assert_string_equal(line, "1 careful: 7");
}

/* ---- memory -------------------------------------------------------------------------------------------- */

static void allocated_memory_is_aligned_and_zero(void **state)
{
    fl_ctx *ctx = *state;
    for (size_t n = 0; n < 300; n += 7) {
        unsigned char *p = fli_alloc(ctx, n, 1);
        assert_non_null(p);
        assert_int_equal((uintptr_t)p % 64, 0);
        for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0);
        fli_free(p);
    }
    assert_null(fli_alloc(ctx, SIZE_MAX / 2, 4));
    assert_non_null(strstr(fl_ctx_error(ctx), "out of memory"));
    fli_clear(ctx);
    assert_null(fli_alloc(ctx, SIZE_MAX, 1));
    fli_free(NULL);
}

static void growing_keeps_the_contents(void **state)
{
    fl_ctx *ctx = *state;
    int *v = NULL;
    assert_ok(ctx, fli_grow(ctx, (void **)&v, 0, 3, sizeof *v));
    v[0] = 1, v[1] = 2, v[2] = 3;
    assert_ok(ctx, fli_grow(ctx, (void **)&v, 3, 1000, sizeof *v));
    assert_int_equal(v[2], 3);
    assert_int_equal(v[3], 0);
    assert_int_equal(v[999], 0);
    fli_ctx_fail_alloc(ctx, 1);
    assert_int_equal(fli_grow(ctx, (void **)&v, 1000, 2000, sizeof *v), FL_ENOMEM);
    assert_int_equal(v[2], 3); /* still there */
    fli_free(v);
}

/* What is taken out of an array is memory of its size alone, and never NULL. */
static void arrays_are_taken(void **state)
{
    enum { MANY = 1000 };
    fl_ctx *ctx = *state;
    void *room, *out = NULL;
    fli_array a = {.size = 1};
    assert_ok(ctx, fli_array_take(ctx, &a, &out)); /* nothing was added */
    assert_non_null(out);
    fli_free(out);
    for (size_t n = 1; n <= MANY; n++) {
        assert_ok(ctx, fli_array_add(ctx, &a, 1, &room));
        *(unsigned char *)room = (unsigned char)n;
    }
    assert_true(a.capacity > MANY);
    fli_ctx_fail_alloc(ctx, 1);
    assert_int_equal(fli_array_take(ctx, &a, &out), FL_ENOMEM); /* the spare room is given back by a copy */
    fli_ctx_fail_alloc(ctx, 0);
    fli_clear(ctx);
    assert_int_equal(a.n, MANY);
    assert_ok(ctx, fli_array_take(ctx, &a, &out));
    for (size_t n = 1; n <= MANY; n++) assert_int_equal(((unsigned char *)out)[n - 1], (unsigned char)n);
    assert_null(a.p);
    assert_int_equal(a.n, 0);
    fli_free(out);
}

static void fails_on_demand(void **state)
{
    fl_ctx *ctx = *state;
    fli_ctx_fail_alloc(ctx, 3);
    void *a = fli_alloc(ctx, 1, 1), *b = fli_alloc(ctx, 1, 1), *c = fli_alloc(ctx, 1, 1), *d = fli_alloc(ctx, 1, 1);
    assert_non_null(a);
    assert_non_null(b);
    assert_null(c);
    assert_non_null(d);
    fli_free(a), fli_free(b), fli_free(d);
    fli_ctx_fail_alloc(ctx, 1);
    assert_null(fli_strf(ctx, "%d", 1));
    fli_ctx_fail_alloc(ctx, 1);
    fli_ctx_fail_alloc(ctx, 0);
    char *s = fli_strf(ctx, "%s-%03d", "a", 7);
    assert_string_equal(s, "a-007");
    fli_free(s);
}

static void arena_gives_separate_memory(void **state)
{
    fl_ctx *ctx = *state;
    fli_arena a;
    fli_arena_init(&a, ctx);
    unsigned char *piece[500];
    size_t size[500];
    for (size_t i = 0; i < 500; i++) {
        size[i] = i * 37 % 701 + (i == 250 ? 100000 : 0);
        piece[i] = fli_arena_alloc(&a, size[i], 1);
        assert_non_null(piece[i]);
        assert_int_equal((uintptr_t)piece[i] % _Alignof(max_align_t), 0);
        for (size_t k = 0; k < size[i]; k++) assert_int_equal(piece[i][k], 0);
        memset(piece[i], (int)(i % 251 + 1), size[i]);
    }
    for (size_t i = 0; i < 500; i++)
        for (size_t k = 0; k < size[i]; k++) assert_int_equal(piece[i][k], i % 251 + 1);
    assert_string_equal(fli_arena_strdup(&a, "copied"), "copied");
    assert_null(fli_arena_alloc(&a, SIZE_MAX / 2, 8));
    assert_null(fli_arena_alloc(&a, SIZE_MAX, SIZE_MAX));
    fli_arena_fini(&a);
    fli_arena_fini(&a); /* twice is harmless */
}

/* ---- text ---------------------------------------------------------------------------------------------- */

static void builds_text(void **state)
{
    fl_ctx *ctx = *state;
    fli_text t;
    char expected[12000] = "";
    fli_text_init(&t, ctx);
    assert_string_equal(fli_text_get(&t), "");
    for (int i = 0; i < 1000; i++) {
        size_t n = strlen(expected);
        snprintf(expected + n, sizeof expected - n, "%d, ", i);
        fli_text_addf(&t, "%d", i);
        fli_text_addn(&t, ", and so on", 2);
    }
    fli_text_add(&t, "");
    assert_string_equal(fli_text_get(&t), expected);
    assert_int_equal(t.n, strlen(expected));
    assert_ok(ctx, fli_text_ok(&t));
    fli_text_fini(&t);

    fli_text_init(&t, ctx);
    fli_ctx_fail_alloc(ctx, 1);
    fli_text_add(&t, "lost");
    fli_text_add(&t, "also lost");
    assert_int_equal(fli_text_ok(&t), FL_ENOMEM);
    assert_string_equal(fli_text_get(&t), "");
    fli_text_fini(&t);
}

static const char *word_at(const void *arg, size_t i)
{
    (void)arg;
    static const char *const words[] = {"fedavg", "fedprox", "scaffold", "feddyn", "lr", "batch", "participation"};
    return i < sizeof words / sizeof *words ? words[i] : NULL;
}

static void guesses_words(void **state)
{
    static const struct {
        const char *word, *near;
    } cases[] = {{"fedavg", "fedavg"},      {"fedvag", "fedavg"},    {"FedAvg", "fedavg"}, {"SCAFFOLD", "scaffold"},
                 {"fedproxx", "fedprox"},   {"scafold", "scaffold"}, {"lrr", "lr"},        {"bacth", "batch"},
                 {"part", "participation"}, {"zebra", NULL},         {"", NULL},           {"x", NULL},
                 {"feddy", "feddyn"},       {"BACTH", "batch"},      {"RL", "lr"}};
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        const char *near = fl_nearest(cases[i].word, word_at, NULL);
        if (cases[i].near) {
            if (!near) fail_msg("nothing near %s", cases[i].word);
            assert_string_equal(near, cases[i].near);
        } else if (near)
            fail_msg("%s is said to be near %s", near, cases[i].word);
    }
    char longest[300];
    memset(longest, 'a', sizeof longest - 1);
    longest[sizeof longest - 1] = 0;
    assert_null(fl_nearest(longest, word_at, NULL));
}

/* ---- files --------------------------------------------------------------------------------------------- */

static void slurp(const char *path, char *buf, size_t size)
{
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    buf[fread(buf, 1, size - 1, f)] = 0;
    fclose(f);
}

static void writes_files(void **state)
{
    fl_ctx *ctx = *state;
    char dir[] = "/tmp/fedloom-base-XXXXXX", path[64], text[64];
    fli_writer out;
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    assert_ok(ctx, fli_writer_open(ctx, path, &out));
    fli_writer_text(&out, "text ");
    fli_writer_bytes(&out, "by\0tes", 2);
    fli_writer_bytes(&out, NULL, 0);
    fli_writer_printf(&out, " %d", 42);
    assert_ok(ctx, fli_writer_close(&out));
    slurp(path, text, sizeof text);
    assert_string_equal(text, "text by 42");
    assert_int_equal(fli_path_kind(path), 2);
    assert_int_equal(fli_path_kind(dir), 1);
    assert_ok(ctx, fli_remove_folder(ctx, dir));
    assert_int_equal(fli_path_kind(dir), 0);
    assert_fails(ctx, fli_writer_open(ctx, path, &out), FL_EIO, "cannot be written: No such file");
    for (size_t k = 1; k <= 1; k++) {
        fli_ctx_fail_alloc(ctx, k);
        assert_fails(ctx, fli_writer_open(ctx, path, &out), FL_ENOMEM, "out of memory");
    }
}

/* All of it and nothing beside it is zero, and of a large piece no page is in memory. */
static void zeros_without_pages(void **state)
{
    enum { MOST = (1 << 25) + 40000 };
    static const size_t sizes[] = {0, 1, 5000, (1 << 25) - 1, 1 << 25, MOST - 5000};
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    unsigned char *all = fli_alloc(*state, MOST, 1), resident[MOST / 4096];
    assert_non_null(all);
    assert_int_equal(mincore(all + page - (uintptr_t)all % page, MOST - page, resident), 0);
    assert_int_equal(resident[0] & 1, 0); /* nor did this take any */
    for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
        size_t n = sizes[k], from = k * 800 + 3, zeros = 0, pages = 0;
        memset(all, 7, MOST);
        fli_zero_pages(all + from, n);
        unsigned char *first = all + from + (page - (uintptr_t)(all + from) % page) % page;
        size_t whole = n < page ? 0 : (size_t)(all + from + n - first) / page;
        if (whole) assert_int_equal(mincore(first, whole * page, resident), 0);
        for (size_t i = 0; i < whole; i++) pages += resident[i] & 1;
        assert_int_equal(pages, n < 1 << 25 ? whole : 0);
        for (size_t i = 0; i < n; i++) zeros += !all[from + i];
        assert_int_equal(zeros, n);
        assert_int_equal(all[from - 1], 7);
        assert_int_equal(all[from + n], 7);
    }
    fli_free(all);
}

/* A disk that runs full: the writer hears of it, and no half-written file is left. */
static void notices_full_disk(void **state)
{
    fl_ctx *ctx = *state;
    char dir[] = "/tmp/fedloom-base-XXXXXX", path[64], block[4096];
    fli_writer out;
    struct rlimit old, low;
    memset(block, 'x', sizeof block);
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    low = (struct rlimit){10000, old.rlim_max};
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &low), 0);
    for (int blocks = 1; blocks < 6; blocks++) {
        fl_status s = fli_writer_open(ctx, path, &out);
        if (!s) {
            for (int i = 0; i < blocks; i++) fli_writer_bytes(&out, block, sizeof block);
            fli_writer_printf(&out, "%s", "the end");
            s = fli_writer_close(&out);
        }
        int left = fli_path_kind(path);
        if (blocks <= 2)
            assert_ok(ctx, s);
        else
            assert_fails(ctx, s, FL_EIO, "cannot be written: File too large");
        assert_int_equal(left, blocks <= 2 ? 2 : 0);
        unlink(path);
    }
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, handler);
    assert_int_equal(rmdir(dir), 0);
}

static void notices_full_device(void **state)
{
    fl_ctx *ctx = *state;
    fli_writer out;
    if (access("/dev/full", W_OK)) skip();
    assert_ok(ctx, fli_writer_open(ctx, "/dev/full", &out));
    fli_writer_text(&out, "x");
    assert_fails(ctx, fli_writer_close(&out), FL_EIO, "/dev/full: cannot be written: No space left on device");
    assert_int_equal(access("/dev/full", F_OK), 0); /* only plain files are removed */
}

static void makes_and_removes_folders(void **state)
{
    fl_ctx *ctx = *state;
    char dir[] = "/tmp/fedloom-base-XXXXXX", path[64], file[128], other[64], link[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/a/b//c/", dir);
    assert_ok(ctx, fli_make_folders(ctx, path));
    assert_ok(ctx, fli_make_folders(ctx, path));
    assert_int_equal(fli_path_kind(path), 1);
    snprintf(file, sizeof file, "%s/a/b/c/file", dir);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    assert_fails(ctx, fli_make_folders(ctx, file), FL_EIO, "something else has that name");
    strcat(file, "/x");
    assert_fails(ctx, fli_make_folders(ctx, file), FL_EIO, "the folder cannot be created: Not a directory");
    assert_fails(ctx, fli_make_folders(ctx, ""), FL_EIO, "cannot be created");

    /* A link inside goes, what it points to stays; a link in place of the folder is refused. */
    snprintf(other, sizeof other, "%s-other", dir);
    assert_ok(ctx, fli_make_folders(ctx, other));
    snprintf(link, sizeof link, "%s/link", dir);
    assert_int_equal(symlink(other, link), 0);
    assert_fails(ctx, fli_remove_folder(ctx, link), FL_EIO, "it is not a folder");
    snprintf(file, sizeof file, "%s/kept", other);
    close(open(file, O_CREAT | O_WRONLY, 0600));
    assert_fails(ctx, fli_remove_folder(ctx, file), FL_EIO, "it is not a folder");
    assert_ok(ctx, fli_remove_folder(ctx, dir));
    assert_int_equal(fli_path_kind(dir), 0);
    assert_int_equal(fli_path_kind(file), 2);
    assert_ok(ctx, fli_remove_folder(ctx, other));
    assert_ok(ctx, fli_remove_folder(ctx, other)); /* a missing one is fine */
}

/* ---- pool ---------------------------------------------------------------------------------------------- */

enum { ITEMS = 1000, WORKERS = 8 };

typedef struct {
    atomic_int done[ITEMS];
    atomic_int busy[WORKERS]; /* per worker: inside fn */
    atomic_int clashes;
    size_t threads;
} tally;

static void count_item(void *arg, size_t item, size_t worker)
{
    tally *t = arg;
    if (worker >= t->threads || atomic_fetch_add(&t->busy[worker], 1)) atomic_fetch_add(&t->clashes, 1);
    atomic_fetch_add(&t->done[item], 1);
    atomic_fetch_sub(&t->busy[worker], 1);
}

static void pool_does_each_item_once(void **state)
{
    fl_ctx *ctx = *state;
    static const size_t counts[] = {0, 1, 2, 3, 7, 8, 9, 100, ITEMS};
    for (size_t threads = 1; threads <= WORKERS; threads++) {
        fli_pool *pool = NULL;
        assert_ok(ctx, fli_pool_new(ctx, threads, &pool));
        assert_int_equal(fli_pool_threads(pool), threads);
        for (int repeat = 0; repeat < 50; repeat++)
            for (size_t c = 0; c < sizeof counts / sizeof *counts; c++) {
                static tally t;
                memset(&t, 0, sizeof t);
                t.threads = threads;
                fli_pool_run(pool, counts[c], count_item, &t);
                assert_int_equal(t.clashes, 0);
                for (size_t i = 0; i < ITEMS; i++) assert_int_equal(t.done[i], i < counts[c]);
            }
        fli_pool_free(pool);
    }
    fli_pool_free(NULL);
}

static void pool_starts_and_fails_cleanly(void **state)
{
    fl_ctx *ctx = *state;
    fli_pool *pool = NULL;
    assert_ok(ctx, fli_pool_new(ctx, 0, &pool));
    assert_true(fli_pool_threads(pool) >= 1);
    fli_pool_free(pool);
    for (size_t k = 1; k <= 2; k++) {
        fli_ctx_fail_alloc(ctx, k);
        assert_fails(ctx, fli_pool_new(ctx, 4, &pool), FL_ENOMEM, "out of memory");
    }
}

/* ---- structs that callers fill --------------------------------------------------------------------------- */

typedef struct {
    size_t size, first, second;
} known;
typedef struct {
    known old;
    size_t third, fourth;
} newer;

static void takes_structs_of_other_versions(void **state)
{
    fl_ctx *ctx = *state;
    known got = {9, 9, 9};
    newer given = {{sizeof(known), 1, 2}, 3, 4};
    assert_ok(ctx, fli_take_versioned(ctx, "known", &given, given.old.size, &got, sizeof got));
    assert_true(got.size == sizeof got && got.first == 1 && got.second == 2);
    given.old.size = 2 * sizeof(size_t); /* from before there was a second */
    assert_ok(ctx, fli_take_versioned(ctx, "known", &given, given.old.size, &got, sizeof got));
    assert_true(got.first == 1 && got.second == 0);
    given.old.size = sizeof given;
    assert_fails(ctx, fli_take_versioned(ctx, "known", &given, given.old.size, &got, sizeof got), FL_ECONFIG,
                 "known has 40 bytes, and something is set beyond the 24");
    assert_true(got.size == 0 && got.first == 0);
    given.third = 0;
    assert_fails(ctx, fli_take_versioned(ctx, "known", &given, given.old.size, &got, sizeof got), FL_ECONFIG, "beyond");
    given.fourth = 0;
    assert_ok(ctx, fli_take_versioned(ctx, "known", &given, given.old.size, &got, sizeof got));
    assert_true(got.first == 1 && got.second == 2);
}

static void refuses_sizes_that_are_none(void **state)
{
    fl_ctx *ctx = *state;
    known got, given = {.first = 1};
    const size_t sizes[] = {0, 1, sizeof(size_t), 17, 23, sizeof given + 1, 1 << 20, SIZE_MAX - 7, SIZE_MAX};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        assert_fails(ctx, fli_take_versioned(ctx, "known", &given, sizes[i], &got, sizeof got), FL_ECONFIG,
                     "but must be sizeof(known), which is 24");
}

typedef struct {
    pthread_mutex_t lock;
    pthread_cond_t cond;
    int woken;
} sleeper;

static void *wake(void *s_)
{
    sleeper *s = s_;
    pthread_mutex_lock(&s->lock);
    s->woken = 1;
    pthread_cond_broadcast(&s->cond);
    pthread_mutex_unlock(&s->lock);
    return NULL;
}

static void a_wait_ends_on_time(void **state)
{
    sleeper s = {.lock = PTHREAD_MUTEX_INITIALIZER};
    pthread_t thread;
    (void)state;
    assert_int_equal(fli_clock_cond(&s.cond), 0);
    pthread_mutex_lock(&s.lock);
    double begun = fli_clock_now();
    assert_int_equal(fli_clock_wait(&s.cond, &s.lock, -INFINITY), 1);
    assert_int_equal(fli_clock_wait(&s.cond, &s.lock, begun), 1);
    while (!fli_clock_wait(&s.cond, &s.lock, begun + 0.02)) continue;
    assert_true(fli_clock_now() >= begun + 0.02);
    assert_int_equal(pthread_create(&thread, NULL, wake, &s), 0);
    while (!s.woken) assert_int_equal(fli_clock_wait(&s.cond, &s.lock, INFINITY), 0);
    pthread_mutex_unlock(&s.lock);
    assert_int_equal(pthread_join(thread, NULL), 0);
    pthread_cond_destroy(&s.cond);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(keeps_first_error),
        TEST(bounds_errors),
        TEST(fails_in_threads),
        TEST(names_statuses),
        TEST(log_lines_reach_the_callback),
        TEST(allocated_memory_is_aligned_and_zero),
        TEST(growing_keeps_the_contents),
        TEST(arrays_are_taken),
        TEST(fails_on_demand),
        TEST(arena_gives_separate_memory),
        TEST(builds_text),
        TEST(guesses_words),
        TEST(writes_files),
        TEST(zeros_without_pages),
        TEST(notices_full_disk),
        TEST(notices_full_device),
        TEST(makes_and_removes_folders),
        TEST(pool_does_each_item_once),
        TEST(pool_starts_and_fails_cleanly),
        TEST(a_wait_ends_on_time),
        TEST(takes_structs_of_other_versions),
        TEST(refuses_sizes_that_are_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
