/* Names and numbers of clients, also on the disk: after any end of the process, even in the middle of a line. */
#include "fixture.h"

#include "net/server/roster.h"

#include <signal.h>
#include <sys/resource.h>

static fli_roster *open_roster(fixture *f, size_t clients, const char *list)
{
    fli_roster *r;
    char file[512];
    snprintf(file, sizeof file, "%s", fixture_path(f, "roster"));
    assert_ok(f->ctx, fli_roster_open(f->ctx, &(fli_roster_spec){clients, file, list}, &r));
    return r;
}

static uint32_t enter(fixture *f, fli_roster *r, const char *name, const char *card)
{
    uint32_t client;
    assert_ok(f->ctx, fli_roster_reserve(r, f->ctx, name, &client));
    assert_ok(f->ctx, fli_roster_enter(r, f->ctx, client, card, strlen(card)));
    return client;
}

static void numbers_and_cards(void **state)
{
    fixture *f = *state;
    uint32_t client;
    size_t n;
    fli_roster *r = open_roster(f, 3, NULL);
    assert_int_equal(fli_roster_find(r, "alice"), FLI_NO_CLIENT);
    assert_int_equal(enter(f, r, "alice", "card of alice"), 0);
    assert_int_equal(enter(f, r, "bob", "card of bob"), 1);
    assert_int_equal(enter(f, r, "alice", "card of alice"), 0);
    assert_int_equal(fli_roster_entered(r), 2);
    assert_ok(f->ctx, fli_roster_reserve(r, f->ctx, "carol", &client));
    assert_int_equal(fli_roster_find(r, "carol"), FLI_NO_CLIENT); /* not before it is entered */
    assert_null(fli_roster_name(r, 2));
    assert_fails(f->ctx, fli_roster_reserve(r, f->ctx, "dave", &client), FL_EMISMATCH, "all 3 places");
    fli_roster_release(r, 2);
    assert_int_equal(enter(f, r, "dave", "card of dave"), 2);
    fli_roster_release(r, 2); /* not any more */
    assert_string_equal(fli_roster_name(r, 2), "dave");
    assert_ok(f->ctx, fli_roster_acknowledge(r, f->ctx, 1));
    assert_ok(f->ctx, fli_roster_acknowledge(r, f->ctx, 1));
    assert_true(fli_roster_acknowledged(r, 1) && !fli_roster_acknowledged(r, 0));
    fli_roster_free(r);
    r = open_roster(f, 3, NULL);
    assert_int_equal(fli_roster_entered(r), 3);
    assert_int_equal(fli_roster_find(r, "bob"), 1);
    assert_memory_equal(fli_roster_card(r, 1, &n), "card of bob", 11);
    assert_int_equal(n, 11);
    assert_true(fli_roster_acknowledged(r, 1) && !fli_roster_acknowledged(r, 0));
    fli_roster_free(r);
}

/* A client whose card is not let in any more joins again, under the same name or gives its number to another one. */
static void a_client_that_left_makes_room(void **state)
{
    fixture *f = *state;
    size_t n;
    fli_roster *r = open_roster(f, 2, NULL);
    enter(f, r, "alice", "old card");
    enter(f, r, "bob", "card of bob");
    assert_ok(f->ctx, fli_roster_leave(r, f->ctx, 0));
    for (int again = 0; again < 2; again++) { /* also from the file */
        assert_int_equal(fli_roster_entered(r), 1);
        assert_int_equal(fli_roster_find(r, "alice"), FLI_NO_CLIENT);
        assert_null(fli_roster_name(r, 0));
        assert_null(fli_roster_card(r, 0, &n));
        assert_int_equal(fli_roster_find(r, "bob"), 1);
        fli_roster_free(r);
        r = open_roster(f, 2, NULL);
    }
    assert_int_equal(enter(f, r, "carol", "card of carol"), 0);
    fli_roster_free(r);
    r = open_roster(f, 2, NULL);
    assert_int_equal(fli_roster_find(r, "carol"), 0);
    assert_int_equal(fli_roster_entered(r), 2);
    uint32_t client; /* and without a start in between, also where all numbers were looked at */
    assert_fails(f->ctx, fli_roster_reserve(r, f->ctx, "dave", &client), FL_EMISMATCH, "all 2 places");
    assert_ok(f->ctx, fli_roster_leave(r, f->ctx, 0));
    assert_int_equal(enter(f, r, "dave", "card of dave"), 0);
    fli_roster_free(r);
}

/* One connection of a client is turned away while another one of the same name is about to be entered. */
static void two_at_one_place(void **state)
{
    fixture *f = *state;
    uint32_t first, second, other;
    fli_roster *r = open_roster(f, 2, NULL);
    assert_ok(f->ctx, fli_roster_reserve(r, f->ctx, "alice", &first));
    assert_ok(f->ctx, fli_roster_reserve(r, f->ctx, "alice", &second));
    assert_int_equal(first, second);
    fli_roster_release(r, second);
    assert_ok(f->ctx, fli_roster_reserve(r, f->ctx, "bob", &other));
    assert_int_not_equal(first, other);
    assert_ok(f->ctx, fli_roster_enter(r, f->ctx, first, "card of alice", 13));
    assert_string_equal(fli_roster_name(r, first), "alice");
    fli_roster_free(r);
    r = open_roster(f, 2, NULL);
    assert_int_equal(fli_roster_find(r, "alice"), first);
    fli_roster_free(r);
}

/* However much of it is there, what is read is a whole number of lines, and it can be added to. */
static void cut_anywhere(void **state)
{
    fixture *f = *state;
    fli_roster *r = open_roster(f, 3, NULL);
    enter(f, r, "alice", "a");
    enter(f, r, "bob", "b");
    fli_roster_free(r);
    size_t whole = 0;
    char *text = read_whole(fixture_path(f, "roster"), &whole);
    for (size_t n = 0; n <= whole; n++) {
        FILE *out = fopen(fixture_path(f, "roster"), "wb");
        assert_int_equal(fwrite(text, 1, n, out), n);
        fclose(out);
        r = open_roster(f, 3, NULL);
        size_t kept = fli_roster_entered(r);
        size_t lines = 0;
        for (size_t i = 0; i < n; i++) lines += text[i] == '\n';
        assert_int_equal(kept, lines ? lines - 1 : 0);
        enter(f, r, "carol", "c");
        fli_roster_free(r);
        r = open_roster(f, 3, NULL);
        assert_int_equal(fli_roster_entered(r), kept + 1);
        assert_int_not_equal(fli_roster_find(r, "carol"), FLI_NO_CLIENT);
        fli_roster_free(r);
    }
    free(text);
}

static void damaged_files(void **state)
{
    static const struct {
        const char *text, *why;
        fl_status status;
    } bad[] = {
        {"hello\n", "damaged", FL_EFORMAT},
        {"{\"roster\": 9, \"clients\": 3}\n", "no roster that this version knows", FL_EFORMAT},
        {"{\"roster\": 1, \"clients\": 4}\n", "has 4 clients, and this one 3", FL_ECONFIG},
        {"{\"roster\": 1, \"clients\": 3}\n{\"client\": 3, \"name\": \"a\", \"card\": \"00\"}\n", ":2:", FL_EFORMAT},
        {"{\"roster\": 1, \"clients\": 3}\n{\"client\": 0, \"name\": \"../a\", \"card\": \"00\"}\n", ":2:", FL_EFORMAT},
        {"{\"roster\": 1, \"clients\": 3}\n{\"client\": 0, \"name\": \"a\", \"card\": \"0x\"}\n", ":2:", FL_EFORMAT},
        {"{\"roster\": 1, \"clients\": 3}\n{\"client\": 0, \"name\": \"a\", \"card\": \"00\"}\n"
         "{\"client\": 1, \"name\": \"a\", \"card\": \"00\"}\n",
         ":3:", FL_ECONFIG},
        {"{\"roster\": 1, \"clients\": 3}\n{\"client\": 0, \"name\": \"a\", \"card\": \"00\"}\n"
         "{\"client\": 0, \"name\": \"b\", \"card\": \"00\"}\n",
         ":3:", FL_ECONFIG},
        {"{\"roster\": 1, \"clients\": 3}\n{\"client\": 0, \"name\": \"a\", \"card\": \"00\"}\n"
         "{\"client\": 0, \"name\": \"a\", \"card\": \"01\"}\n",
         ":3:", FL_ECONFIG},                                                     /* which card is it? */
        {"{\"roster\": 1, \"clients\": 3}\n{\"told\": 0}\n", ":2:", FL_EFORMAT}, /* it has not joined */
        {"{\"roster\": 1, \"clients\": 3}\n{\"told\": 3}\n", ":2:", FL_EFORMAT},
        {"{\"roster\": 1, \"clients\": 3}\n{\"left\": 0}\n", ":2:", FL_EFORMAT},
        {"{\"roster\": 1, \"clients\": 3}\n{\"left\": 3}\n", ":2:", FL_EFORMAT},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fli_roster *r;
        char file[512];
        snprintf(file, sizeof file, "%s", fixture_write(f, "roster", bad[i].text));
        assert_fails(f->ctx, fli_roster_open(f->ctx, &(fli_roster_spec){3, file, NULL}, &r), bad[i].status, bad[i].why);
        assert_null(r);
    }
}

static void a_list_fixes_names_and_numbers(void **state)
{
    fixture *f = *state;
    uint32_t client;
    char list[512];
    fli_roster *r;
    snprintf(list, sizeof list, "%s", fixture_write(f, "list", "carol\r\nalice\nbob\n"));
    r = open_roster(f, 3, list);
    assert_int_equal(enter(f, r, "bob", "b"), 2);
    assert_int_equal(enter(f, r, "carol", "c"), 0);
    assert_fails(f->ctx, fli_roster_reserve(r, f->ctx, "dave", &client), FL_EMISMATCH, "dave is not on the list");
    assert_ok(f->ctx, fli_roster_reserve(r, f->ctx, "alice", &client));
    fli_roster_release(r, client); /* its place is its own all the same */
    assert_int_equal(enter(f, r, "alice", "a"), 1);
    fli_roster_free(r);
    r = open_roster(f, 3, list);
    assert_int_equal(fli_roster_entered(r), 3);
    fli_roster_free(r);
    char file[512];
    snprintf(file, sizeof file, "%s", fixture_path(f, "roster"));
    static const char *const bad[][2] = {{"alice\nbob\ncarol\n", "not what the list of names says"},
                                         {"alice\nbob\n", "has 2 names, but there are 3"},
                                         {"a\nb\nc\nd\n", "one more"},
                                         {"a\nb\na\n", "a is there twice"},
                                         {"a\nb b\nc\n", ":2: this is no name"}};
    for (size_t i = 0; i < 5; i++) {
        fixture_write(f, "list", bad[i][0]);
        assert_fails(f->ctx, fli_roster_open(f->ctx, &(fli_roster_spec){3, file, list}, &r), FL_ECONFIG, bad[i][1]);
    }
}

/* What cannot be written is not entered, and can be later. */
static void full_disk(void **state)
{
    fixture *f = *state;
    uint32_t client;
    struct rlimit before, none;
    fli_roster *r = open_roster(f, 3, NULL);
    enter(f, r, "alice", "a");
    assert_ok(f->ctx, fli_roster_reserve(r, f->ctx, "bob", &client));
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    none = before;
    none.rlim_cur = 90; /* in the middle of the line */
    signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    fl_status s = fli_roster_enter(r, f->ctx, client, "b", 1);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    assert_int_equal(s, FL_EIO);
    assert_int_equal(fli_roster_entered(r), 1);
    assert_int_equal(fli_roster_find(r, "bob"), FLI_NO_CLIENT);
    assert_int_equal(enter(f, r, "bob", "b"), client);
    fli_roster_free(r);
    r = open_roster(f, 3, NULL);
    assert_int_equal(fli_roster_find(r, "bob"), client);
    fli_roster_free(r);
}

/* The descriptor of a roster. */
static int descriptor(const char *path)
{
    char link[64], to[512];
    for (int fd = 3; fd < 256; fd++) {
        snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
        ssize_t n = readlink(link, to, sizeof to - 1);
        to[n > 0 ? n : 0] = 0;
        if (!strcmp(to, path)) return fd;
    }
    return -1;
}

/* A line that can neither be written nor taken back; nothing comes behind its rest. */
static void two_faults(void **state)
{
    static const char rest[] =
        "{\"client\": 1, \"name\": \"a name that is longer than what comes later\", \"card\": \"62";
    fixture *f = *state;
    uint32_t client;
    int ends[2];
    fli_roster *r = open_roster(f, 3, NULL);
    enter(f, r, "alice", "a");
    assert_ok(f->ctx, fli_roster_reserve(r, f->ctx, "bob", &client));
    int fd = descriptor(fixture_path(f, "roster")), file = dup(fd);
    assert_true(file >= 0 && !pipe(ends));
    assert_true(pwrite(file, rest, sizeof rest - 1, lseek(file, 0, SEEK_END)) == sizeof rest - 1);
    assert_int_equal(dup2(ends[1], fd), fd); /* a pipe has no places, and cannot be cut */
    assert_fails(f->ctx, fli_roster_enter(r, f->ctx, client, "b", 1), FL_EIO, "cannot be written");
    assert_fails(f->ctx, fli_roster_enter(r, f->ctx, client, "b", 1), FL_EIO, "no client can join until");
    assert_int_equal(dup2(file, fd), fd);
    assert_int_equal(enter(f, r, "bob", "b"), client);
    fli_roster_free(r);
    close(file), close(ends[0]), close(ends[1]);
    r = open_roster(f, 3, NULL);
    assert_int_equal(fli_roster_entered(r), 2);
    assert_int_equal(fli_roster_find(r, "bob"), client);
    fli_roster_free(r);
}

static void many_names(void **state)
{
    enum { MANY = 3000 };
    fixture *f = *state;
    fli_roster *r;
    char name[32];
    assert_ok(f->ctx, fli_roster_open(f->ctx, &(fli_roster_spec){MANY, NULL, NULL}, &r));
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "client-%u", i * 7919u);
        assert_int_equal(enter(f, r, name, "x"), i);
    }
    for (uint32_t i = 0; i < MANY; i++) {
        snprintf(name, sizeof name, "client-%u", i * 7919u);
        assert_int_equal(fli_roster_find(r, name), i);
    }
    fli_roster_free(r);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(numbers_and_cards), FIXTURE_TEST(a_client_that_left_makes_room),
                                       FIXTURE_TEST(two_at_one_place),  FIXTURE_TEST(cut_anywhere),
                                       FIXTURE_TEST(damaged_files),     FIXTURE_TEST(a_list_fixes_names_and_numbers),
                                       FIXTURE_TEST(full_disk),         FIXTURE_TEST(two_faults),
                                       FIXTURE_TEST(many_names)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
