/* Who may write to a place: one run at a time, of this process or another, until it ends, however it ends. */
#include "runs.h"

#include "base/file.h"

#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>

static void one_at_a_time(void **state)
{
    fixture *f = *state;
    fli_lock *a = NULL, *b = NULL;
    char place[600], name[600], number[64];
    snprintf(place, sizeof place, "%s", fixture_path(f, "below/out"));
    snprintf(name, sizeof name, "%s", fixture_path(f, "below/out.fedloom-lock"));
    assert_ok(f->ctx, fli_lock_take(f->ctx, place, &a)); /* also makes the folder above */
    char *text = read_whole(name, NULL);
    snprintf(number, sizeof number, "%ld\n", (long)getpid());
    assert_string_equal(text, number);
    free(text);
    snprintf(number, sizeof number, "process %ld is writing there", (long)getpid());
    assert_fails(f->ctx, fli_lock_take(f->ctx, place, &b), FL_EBUSY, number);
    strcat(place, "///"); /* the same place */
    assert_fails(f->ctx, fli_lock_take(f->ctx, place, &b), FL_EBUSY, number);
    assert_int_equal(access(name, F_OK), 0);
    char other[700]; /* by another way, and by a link */
    snprintf(other, sizeof other, "%s/./../%s/below/out", f->folder, strrchr(f->folder, '/') + 1);
    assert_fails(f->ctx, fli_lock_take(f->ctx, other, &b), FL_EBUSY, number);
    assert_int_equal(symlink("below", fixture_path(f, "link")), 0);
    assert_fails(f->ctx, fli_lock_take(f->ctx, fixture_path(f, "link/out"), &b), FL_EBUSY, number);
    fli_lock_leave(a);
    assert_int_equal(access(name, F_OK), -1);
    assert_ok(f->ctx, fli_lock_take(f->ctx, place, &b));
    fli_lock_leave(b);
    fli_lock_leave(NULL);
}

/* A folder that is there already has one lock, whatever it is called. */
static void names_of_a_folder(void **state)
{
    fixture *f = *state;
    fli_lock *a = NULL, *b = NULL;
    char here[1000], place[600];
    assert_non_null(getcwd(here, sizeof here));
    snprintf(place, sizeof place, "%s", fixture_path(f, "out"));
    assert_int_equal(mkdir(place, 0700), 0);
    assert_int_equal(chdir(place), 0);
    assert_ok(f->ctx, fli_lock_take(f->ctx, ".", &a));
    assert_fails(f->ctx, fli_lock_take(f->ctx, place, &b), FL_EBUSY, "is writing there");
    assert_fails(f->ctx, fli_lock_take(f->ctx, "../out/", &b), FL_EBUSY, "is writing there");
    assert_int_equal(chdir(here), 0);
    assert_int_equal(entries(place), 0); /* beside the folder, not in it */
    fli_lock_leave(a);
}

/* A process that is killed leaves the file, but not the lock. */
static void a_crash_releases(void **state)
{
    fixture *f = *state;
    fli_lock *lock = NULL;
    int ready[2], status;
    char place[600], busy[100], byte;
    snprintf(place, sizeof place, "%s", fixture_path(f, "out"));
    assert_int_equal(pipe(ready), 0);
    pid_t child = fork();
    if (!child) {
        fl_status s = fli_lock_take(f->ctx, place, &lock);
        if (write(ready[1], s ? "n" : "y", 1) == 1) pause();
        _exit(1);
    }
    assert_int_equal(read(ready[0], &byte, 1), 1);
    assert_int_equal(byte, 'y');
    snprintf(busy, sizeof busy, "process %ld is writing there", (long)child);
    assert_fails(f->ctx, fli_lock_take(f->ctx, place, &lock), FL_EBUSY, busy);
    kill(child, SIGKILL);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(access(fixture_path(f, "out.fedloom-lock"), F_OK), 0);
    assert_ok(f->ctx, fli_lock_take(f->ctx, place, &lock));
    fli_lock_leave(lock);
    assert_int_equal(entries(f->folder), 0);
    close(ready[0]);
    close(ready[1]);
}

/* A file that merely has the name is left alone; so is what a link of that name leads to. */
static void not_a_lock(void **state)
{
    fixture *f = *state;
    fli_lock *lock = NULL;
    char place[600];
    static const char *const texts[] = {"mine\n", "12 and more\n", "-3\n", "0\n"};
    snprintf(place, sizeof place, "%s", fixture_path(f, "out"));
    for (size_t i = 0; i < 4; i++) {
        fixture_write(f, "out.fedloom-lock", texts[i]);
        assert_fails(f->ctx, fli_lock_take(f->ctx, place, &lock), FL_EIO, "is not a lock of fedloom");
        char *text = read_whole(fixture_path(f, "out.fedloom-lock"), NULL);
        assert_string_equal(text, texts[i]);
        free(text);
    }
    unlink(fixture_path(f, "out.fedloom-lock"));
    char target[600];
    snprintf(target, sizeof target, "%s", fixture_write(f, "precious", ""));
    assert_int_equal(symlink(target, fixture_path(f, "out.fedloom-lock")), 0);
    assert_fails(f->ctx, fli_lock_take(f->ctx, place, &lock), FL_EIO, "out.fedloom-lock: cannot be created");
    char *text = read_whole(target, NULL);
    assert_string_equal(text, "");
    free(text);
}

/* Many processes take and leave the same lock: never two at once. */
static void never_two(void **state)
{
    fixture *f = *state;
    enum { PROCESSES = 4, TIMES = 400 };
    pid_t child[PROCESSES];
    char place[600], owner[600];
    snprintf(place, sizeof place, "%s", fixture_path(f, "out"));
    snprintf(owner, sizeof owner, "%s", fixture_path(f, "owner"));
    for (size_t k = 0; k < PROCESSES; k++) {
        if ((child[k] = fork())) continue;
        size_t had = 0;
        for (size_t i = 0; had < TIMES && i < 1000000; i++) {
            fli_lock *lock = NULL;
            fl_status s = fli_lock_take(f->ctx, place, &lock);
            fli_clear(f->ctx);
            if (s == FL_EBUSY) continue;
            if (s || mkdir(owner, 0700)) _exit(1); /* only the owner of the lock makes this folder */
            if (rmdir(owner)) _exit(2);
            fli_lock_leave(lock);
            had++;
        }
        _exit(had < TIMES ? 3 : 0);
    }
    for (size_t k = 0; k < PROCESSES; k++) {
        int status;
        assert_int_equal(waitpid(child[k], &status, 0), child[k]);
        assert_int_equal(status, 0);
    }
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

/* Two runs with one output: the second is refused before its first round, and the first one's result is whole. */
static void two_runs(void **state)
{
    fixture *f = *state;
    char set[200], busy[100];
    snprintf(set, sizeof set, "output=%s/out", f->folder);
    snprintf(busy, sizeof busy, "out: process %ld is writing there", (long)getpid());
    fl_run *first = run_new(f, SMALL, set), *second = run_new(f, SMALL, set);
    assert_ok(f->ctx, fl_run_prepare_save(first, 0));
    assert_fails(f->ctx, fl_run_prepare_save(second, 1), FL_EBUSY, busy);
    assert_fails(f->ctx, fl_run_checkpoint(second), FL_EBUSY, busy);
    assert_ok(f->ctx, fl_run_go(first, NULL, NULL));
    assert_fails(f->ctx, fl_run_save(second), FL_EBUSY, busy);
    assert_ok(f->ctx, fl_run_save(first));
    assert_ok(f->ctx, fl_run_prepare_save(second, 1)); /* the first one has ended its work there */
    fl_run_free(first);
    fl_run_free(second);
    assert_int_equal(entries(f->folder), 2); /* config.yaml, out */
}

static void two_comparisons(void **state)
{
    fixture *f = *state;
    fl_study *first = NULL, *second = NULL;
    fl_config *cfg = fixture_config(f, SMALL "methods: [{algorithm: fedavg}]\n");
    char out[200], busy[100];
    snprintf(out, sizeof out, "%s/out", f->folder);
    snprintf(busy, sizeof busy, "out: process %ld is writing there", (long)getpid());
    fl_study_options o = {.size = sizeof o, .output = out};
    assert_ok(f->ctx, fl_study_new(cfg, &o, &first));
    assert_ok(f->ctx, fl_study_new(cfg, &o, &second));
    assert_ok(f->ctx, fl_study_go(first, NULL, NULL));
    assert_fails(f->ctx, fl_study_go(second, NULL, NULL), FL_EBUSY, busy);
    assert_fails(f->ctx, fl_study_write(second), FL_EBUSY, busy);
    assert_ok(f->ctx, fl_study_write(first));
    fl_study_free(first);
    assert_ok(f->ctx, fl_study_go(second, NULL, NULL)); /* takes over what the other one has made meanwhile */
    assert_ok(f->ctx, fl_study_write(second));
    fl_study_free(second);
    fl_config_free(cfg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(one_at_a_time),   FIXTURE_TEST(names_of_a_folder), FIXTURE_TEST(a_crash_releases),
        FIXTURE_TEST(not_a_lock),      FIXTURE_TEST(never_two),         FIXTURE_TEST(two_runs),
        FIXTURE_TEST(two_comparisons),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
