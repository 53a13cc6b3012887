/* Messages on their way in: in memory, and beyond the budget in a file. */
#include "fixture.h"

#include "base/digest.h"
#include "remote/incoming.h"

#include <sys/resource.h>
#include <signal.h>

enum { SIZE = 300007 };

static void fill(unsigned char *bytes, size_t n, unsigned seed)
{
    for (size_t i = 0; i < n; i++) bytes[i] = (unsigned char)((i * 2654435761u >> 7) + seed);
}

/* As it comes from a connection: in pieces of any length. */
static void receive(fli_incoming *m, const unsigned char *bytes, size_t n)
{
    for (size_t at = 0, piece = 1; at < n; at += piece, piece = piece * 7 % 16001 + 1) {
        if (piece > n - at) piece = n - at;
        assert_int_equal(fli_incoming_left(m), n - at);
        assert_int_equal(fli_incoming_add(m, bytes + at, piece), FL_OK);
    }
    assert_int_equal(fli_incoming_left(m), 0);
    assert_int_equal(fli_incoming_add(m, bytes, 1), FL_EFORMAT);
}

static void assert_is(fli_incoming *m, const unsigned char *bytes, size_t n)
{
    size_t front;
    const unsigned char *start = fli_incoming_front(m, &front);
    assert_int_equal(fli_incoming_size(m), n);
    assert_int_equal(front, n < 80 ? n : 80);
    assert_memory_equal(start, bytes, front);
    assert_memory_equal(fli_incoming_bytes(m), bytes, n);
    assert_int_equal((uintptr_t)fli_incoming_bytes(m) % 8, 4);
    if (n < 16) return;
    assert_int_equal(fli_incoming_checksum(m), fli_crc32c_more(fli_crc32c(bytes, 12), bytes + 16, n - 16));
}

/* The first one is in memory, for which there is room, the others are in the file; all of them at the same time. */
static void all_kept(void **state)
{
    enum { N = 4 };
    fixture *f = *state;
    fli_incoming_store *all;
    fli_incoming *m[N];
    static unsigned char bytes[N][SIZE];
    assert_ok(f->ctx, fli_incoming_store_new(f->ctx, f->folder, 350000, &all));
    for (int again = 0; again < 3; again++) {
        for (unsigned i = 0; i < N; i++) {
            fill(bytes[i], SIZE, 17 * i + (unsigned)again);
            assert_ok(f->ctx, fli_incoming_new(all, f->ctx, SIZE - i, &m[i]));
            assert_int_equal(fli_incoming_lent(m[i])->used != NULL, i > 0);
            receive(m[i], bytes[i], SIZE - i);
        }
        for (unsigned i = 0; i < N; i++) assert_is(m[i], bytes[i], SIZE - i);
        for (unsigned i = 1; i < N; i++) { /* out of memory, and read again */
            fli_lent *lent = fli_incoming_lent(m[i]);
            for (size_t at = 0; at < SIZE - i; at += 50000)
                lent->used(lent, fli_incoming_bytes(m[i]) + at, SIZE - i - at < 50000 ? SIZE - i - at : 50000);
            lent->used(lent, bytes, sizeof bytes); /* lies elsewhere, and stays */
            assert_is(m[i], bytes[i], SIZE - i);
        }
        for (unsigned i = 0; i < N; i++) fli_incoming_free(m[(i + 2) % N]);
    }
    fli_incoming_store_free(all);
}

static void the_shortest_messages_arrive_whole(void **state)
{
    fixture *f = *state;
    fli_incoming_store *all;
    unsigned char bytes[100];
    fill(bytes, sizeof bytes, 3);
    for (size_t budget = 1; budget <= 1 << 20; budget <<= 20) {
        assert_ok(f->ctx, fli_incoming_store_new(f->ctx, f->folder, budget, &all));
        for (size_t n = 0; n <= sizeof bytes; n++) {
            fli_incoming *m;
            assert_ok(f->ctx, fli_incoming_new(all, f->ctx, n, &m));
            receive(m, bytes, n);
            assert_is(m, bytes, n);
            fli_incoming_free(m);
        }
        fli_incoming_store_free(all);
    }
}

/* One that an exchange was lent is there until it is given back, also after its store. */
static void outlives_its_store(void **state)
{
    fixture *f = *state;
    fli_incoming_store *all;
    fli_incoming *m;
    unsigned char bytes[1000];
    fill(bytes, sizeof bytes, 5);
    for (size_t budget = 1; budget <= 1 << 20; budget <<= 20) {
        assert_ok(f->ctx, fli_incoming_store_new(f->ctx, f->folder, budget, &all));
        assert_ok(f->ctx, fli_incoming_new(all, f->ctx, sizeof bytes, &m));
        receive(m, bytes, sizeof bytes);
        fli_incoming_store_free(all);
        assert_is(m, bytes, sizeof bytes);
        fli_lent *lent = fli_incoming_lent(m);
        lent->release(lent);
    }
}

/* A disk without room, and a folder that does not exist: there is none for this upload, and memory still works. */
static void no_room(void **state)
{
    fixture *f = *state;
    fli_incoming_store *all;
    fli_incoming *m, *small;
    struct rlimit before;
    assert_ok(f->ctx, fli_incoming_store_new(f->ctx, fixture_path(f, "nowhere"), 1 << 17, &all));
    assert_fails(f->ctx, fli_incoming_new(all, f->ctx, SIZE, &m), FL_EIO, "nowhere: no room for an upload");
    assert_null(m);
    assert_ok(f->ctx, fli_incoming_new(all, f->ctx, 1000, &small));
    fli_incoming_free(small);
    fli_incoming_store_free(all);
    assert_ok(f->ctx, fli_incoming_store_new(f->ctx, f->folder, 1, &all));
    assert_ok(f->ctx, fli_incoming_new(all, f->ctx, SIZE, &m));
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){3 << 20, before.rlim_max}), 0);
    fli_clear(f->ctx);
    assert_fails(f->ctx, fli_incoming_new(all, f->ctx, SIZE, &small), FL_EIO, "no room for an upload");
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_ok(f->ctx, fli_incoming_new(all, f->ctx, SIZE, &small));
    fli_incoming_free(small);
    fli_incoming_free(m);
    fli_incoming_store_free(all);
}

/* The disk fails in the middle of an upload, for which it had promised room: it says where and why, and its place in
 * the file is used again by one that is whole. */
static void fails_half_way(void **state)
{
    fixture *f = *state;
    fli_incoming_store *all;
    fli_incoming *m;
    struct rlimit before;
    char why[512], want[400];
    static unsigned char bytes[2][SIZE];
    fill(bytes[0], SIZE, 1);
    fill(bytes[1], SIZE, 2);
    assert_ok(f->ctx, fli_incoming_store_new(f->ctx, f->folder, 1, &all));
    assert_ok(f->ctx, fli_incoming_new(all, f->ctx, SIZE, &m));
    assert_int_equal(fli_incoming_add(m, bytes[0], 1000), FL_OK);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &(struct rlimit){SIZE / 2, before.rlim_max}), 0);
    fl_status s = fli_incoming_add(m, bytes[0] + 1000, SIZE - 1000);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(s, FL_EIO);
    fli_incoming_why(m, why, sizeof why);
    snprintf(want, sizeof want, "%s: an upload cannot be written beyond its first 1000 bytes: File too large",
             f->folder);
    assert_string_equal(why, want);
    fli_incoming_free(m);
    assert_ok(f->ctx, fli_incoming_new(all, f->ctx, SIZE, &m));
    receive(m, bytes[1], SIZE);
    assert_is(m, bytes[1], SIZE);
    fli_incoming_free(m);
    fli_incoming_store_free(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(all_kept),           FIXTURE_TEST(the_shortest_messages_arrive_whole),
        FIXTURE_TEST(outlives_its_store), FIXTURE_TEST(no_room),
        FIXTURE_TEST(fails_half_way),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
