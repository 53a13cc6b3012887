/* The client store: files that are whole or not there, their owner's alone, one process at a time. */
#include "context.h"

#include "base/file.h"
#include "net/client/client_store.h"

#include <fcntl.h>
#include <sys/stat.h>

static char folder[64];

static int setup(void **state)
{
    snprintf(folder, sizeof folder, "/tmp/fedloom-keep-XXXXXX");
    return !mkdtemp(folder) || context_setup(state);
}

static int teardown(void **state)
{
    context *c = *state;
    fli_remove_folder(c->ctx, folder);
    return context_teardown(state);
}

static fli_client_store *open_store(context *c)
{
    char path[128];
    fli_client_store *k = NULL;
    snprintf(path, sizeof path, "%s/mine/", folder);
    assert_ok(c->ctx, fli_client_store_open(c->ctx, path, &k));
    return k;
}

static const fli_digest one = {{1}}, two = {{2}};

static const char *in_folder(const char *name)
{
    static char path[256];
    snprintf(path, sizeof path, "%s/mine/%s", folder, name);
    return path;
}

static int mode_of(const char *name)
{
    struct stat st;
    return stat(in_folder(name), &st) ? -1 : (int)(st.st_mode & 0777);
}

static void assert_stored(context *c, fli_client_store *k, fli_client_store_kind kind, const char *text)
{
    unsigned char *p;
    size_t n;
    assert_ok(c->ctx, fli_client_store_read(k, kind, &p, &n));
    assert_int_equal(n, text ? strlen(text) : 0);
    assert_true(!p == !text);
    if (text) assert_memory_equal(p, text, n);
    fli_free(p);
}

static void what_was_written_is_there(void **state)
{
    context *c = *state;
    mode_t mask = umask(0);
    fli_client_store *k = open_store(c);
    assert_ok(c->ctx, fli_client_store_run(k, &one));
    assert_stored(c, k, FLI_CLIENT_STORE_STATE, NULL);
    assert_ok(c->ctx, fli_client_store_write(k, FLI_CLIENT_STORE_STATE, "state", 5));
    assert_ok(c->ctx, fli_client_store_write(k, FLI_CLIENT_STORE_ANSWER, "first", 5));
    assert_ok(c->ctx, fli_client_store_write(k, FLI_CLIENT_STORE_ANSWER, "second", 6));
    umask(mask);
    fli_client_store_close(k);
    assert_int_equal(mode_of(""), 0700);
    assert_int_equal(mode_of("run-0100000000000000"), 0700);
    assert_int_equal(mode_of("run-0100000000000000/state"), 0600);
    assert_int_equal(mode_of("run-0100000000000000/answer"), 0600);
    k = open_store(c);
    assert_ok(c->ctx, fli_client_store_run(k, &one));
    assert_stored(c, k, FLI_CLIENT_STORE_STATE, "state");
    assert_stored(c, k, FLI_CLIENT_STORE_ANSWER, "second");
    assert_ok(c->ctx, fli_client_store_forget(k, FLI_CLIENT_STORE_ANSWER));
    assert_ok(c->ctx, fli_client_store_forget(k, FLI_CLIENT_STORE_ANSWER));
    assert_stored(c, k, FLI_CLIENT_STORE_ANSWER, NULL);
    fli_client_store_close(k);
}

static void runs_are_kept_apart(void **state)
{
    context *c = *state;
    fli_client_store *k = open_store(c);
    assert_ok(c->ctx, fli_client_store_run(k, &one));
    assert_ok(c->ctx, fli_client_store_write(k, FLI_CLIENT_STORE_STATE, "of one", 6));
    assert_ok(c->ctx, fli_client_store_run(k, &two));
    assert_stored(c, k, FLI_CLIENT_STORE_STATE, NULL);
    assert_ok(c->ctx, fli_client_store_run(k, &one));
    assert_stored(c, k, FLI_CLIENT_STORE_STATE, "of one");
    for (int i = 0; i < 2; i++) { /* over, and taken up again: its server may have been wrong */
        assert_ok(c->ctx, fli_client_store_over(k));
        assert_int_equal(mode_of("run-0100000000000000"), -1);
        assert_int_equal(mode_of("run-0100000000000000.over"), 0700);
        assert_ok(c->ctx, fli_client_store_run(k, &one));
        assert_int_equal(mode_of("run-0100000000000000.over"), -1);
        assert_stored(c, k, FLI_CLIENT_STORE_STATE, "of one");
    }
    assert_ok(c->ctx, fli_client_store_over(k));
    assert_ok(c->ctx, fli_client_store_over(k)); /* of no run */
    fli_client_store_close(k);
}

static void old_runs_go(void **state)
{
    enum { RUNS = 20, STAY = 8 };
    context *c = *state;
    char name[64];
    fli_client_store *k = open_store(c);
    assert_int_equal(mkdir(in_folder("mine.over"), 0700), 0);        /* is nobody's */
    assert_ok(c->ctx, fli_client_store_run(k, &(fli_digest){{99}})); /* was given up */
    for (int i = 0; i < RUNS; i++) {
        struct timespec at[2] = {{.tv_sec = 1000 + i}, {.tv_sec = 1000 + i}};
        assert_ok(c->ctx, fli_client_store_run(k, &(fli_digest){{(unsigned char)(RUNS - i)}}));
        assert_ok(c->ctx, fli_client_store_write(k, FLI_CLIENT_STORE_STATE, "state", 5));
        assert_ok(c->ctx, fli_client_store_over(k));
        snprintf(name, sizeof name, "run-%02x00000000000000.over", RUNS - i);
        assert_int_equal(utimensat(AT_FDCWD, in_folder(name), at, 0), 0);
    }
    for (int i = 0; i < RUNS; i++) {
        snprintf(name, sizeof name, "run-%02x00000000000000.over", RUNS - i);
        assert_int_equal(mode_of(name), i < RUNS - STAY ? -1 : 0700);
    }
    assert_int_equal(mode_of("mine.over"), 0700);
    assert_int_equal(mode_of("run-6300000000000000"), 0700);
    fli_client_store_close(k);
}

static void one_process_at_a_time(void **state)
{
    context *c = *state;
    fli_client_store *k = open_store(c), *other = NULL;
    assert_fails(c->ctx, fli_client_store_open(c->ctx, in_folder(""), &other), FL_EBUSY, "");
    fli_client_store_close(k);
    fli_client_store_close(open_store(c));
}

/* Every byte, and every length. */
static void damage_is_noticed(void **state)
{
    context *c = *state;
    unsigned char *p, bytes[64];
    size_t n, length;
    const char *file = "run-0100000000000000/state";
    fli_client_store *k = open_store(c);
    assert_ok(c->ctx, fli_client_store_run(k, &one));
    assert_ok(c->ctx, fli_client_store_write(k, FLI_CLIENT_STORE_STATE, "kept", 4));
    FILE *f = fopen(in_folder(file), "rb");
    length = fread(bytes, 1, sizeof bytes, f);
    fclose(f);
    for (size_t i = 0; i < 2 * length; i++) {
        f = fopen(in_folder(file), "wb");
        size_t whole = i < length ? length : i - length;
        if (i < length) bytes[i] ^= 1;
        fwrite(bytes, 1, whole, f);
        fclose(f);
        if (i < length) bytes[i] ^= 1;
        assert_fails(c->ctx, fli_client_store_read(k, FLI_CLIENT_STORE_STATE, &p, &n), FL_EFORMAT, "is damaged");
        assert_null(p);
    }
    f = fopen(in_folder("run-0100000000000000/answer"), "wb"); /* the one in the other's place */
    fwrite(bytes, 1, length, f);
    fclose(f);
    assert_fails(c->ctx, fli_client_store_read(k, FLI_CLIENT_STORE_ANSWER, &p, &n), FL_EFORMAT, "kind is wrong");
    fli_client_store_close(k);
}

static void what_cannot_be_written_leaves_the_old(void **state)
{
    context *c = *state;
    fli_client_store *k = open_store(c);
    assert_ok(c->ctx, fli_client_store_run(k, &one));
    assert_ok(c->ctx, fli_client_store_write(k, FLI_CLIENT_STORE_STATE, "old", 3));
    assert_int_equal(mkdir(in_folder("run-0100000000000000/state.tmp"), 0700), 0);
    assert_fails(c->ctx, fli_client_store_write(k, FLI_CLIENT_STORE_STATE, "new", 3), FL_EIO, "cannot be written");
    assert_stored(c, k, FLI_CLIENT_STORE_STATE, "old");
    fli_client_store_close(k);
}

/* A folder's number is its own from the first start on; what cannot be a number is drawn again. */
static void the_instance_stays(void **state)
{
    static const char *const damaged[] = {"", "0123456789abcde\n", "0123456789abcdeg\n", "0123456789abcdef0\n"};
    context *c = *state;
    fli_client_store *k = open_store(c);
    uint64_t first = 0, number = 0;
    assert_ok(c->ctx, fli_client_store_instance(k, &first));
    assert_int_equal(mode_of("instance"), 0600);
    fli_client_store_close(k);
    k = open_store(c);
    assert_ok(c->ctx, fli_client_store_instance(k, &number));
    assert_true(number == first && number);
    for (size_t i = 0; i < sizeof damaged / sizeof *damaged; i++) {
        FILE *f = fopen(in_folder("instance"), "wb");
        uint64_t again = 0;
        assert_non_null(f);
        fputs(damaged[i], f);
        fclose(f);
        assert_ok(c->ctx, fli_client_store_instance(k, &number));
        assert_true(number != first && number && number != 0x0123456789abcdef && number != 0x0123456789abcde);
        assert_ok(c->ctx, fli_client_store_instance(k, &again));
        assert_true(again == number);
    }
    fli_client_store_close(k);
}

#define KEEP_TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {
        KEEP_TEST(what_was_written_is_there),
        KEEP_TEST(runs_are_kept_apart),
        KEEP_TEST(old_runs_go),
        KEEP_TEST(one_process_at_a_time),
        KEEP_TEST(damage_is_noticed),
        KEEP_TEST(what_cannot_be_written_leaves_the_old),
        KEEP_TEST(the_instance_stays),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
