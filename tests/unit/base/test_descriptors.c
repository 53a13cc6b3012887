/* A program that has closed its standard descriptors, and prints all the same: none of that may land in a file of the
 * library's. */
#include "runs.h"

#include "base/file.h"
#include "client/store.h"

#include <fcntl.h>

static int open_files(fixture *f)
{
    fli_spill *spill = NULL;
    fli_writer out;
    for (int fd = 0; fd < 3; fd++) close(fd);
    int a = fli_fd_open(fixture_path(f, "a"), O_WRONLY | O_CREAT, 0600);
    FILE *b = fli_file_open(fixture_path(f, "a"), O_RDONLY);
    if (a < 3 || !b || fileno(b) < 3 || !(fcntl(a, F_GETFD) & FD_CLOEXEC)) return 1;
    if (fli_writer_open(f->ctx, fixture_path(f, "c"), &out) || fileno(out.f) < 3) return 2;
    if (fli_spill_new(f->ctx, f->folder, 8, &spill)) return 3;
    for (int fd = 0; fd < 3; fd++)
        if (fcntl(fd, F_GETFD) != -1) return 4; /* all three are as closed as before */
    if (fli_fd_open(fixture_path(f, "none"), O_RDONLY, 0) != -1) return 5;
    return 0;
}

static void never_a_standard_one(void **state) { assert_int_equal(in_child(open_files, *state), 0); }

/* ---- a whole run ----------------------------------------------------------------------------------------- */

static void print_about(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    (void)arg;
    (void)run;
    (void)row;
    (void)measured;
    for (int fd = 0; fd < 3; fd++) (void)!write(fd, "progress progress progress", 26);
}

#define STATE "memory=1;algorithm=scaffold;rounds=20"

static fl_status run_into(fixture *f, const char *name)
{
    char set[300];
    fl_run *run = NULL;
    snprintf(set, sizeof set, STATE ";checkpoint_every=5;output=%s/%s", f->folder, name);
    fl_config *cfg = config_of(f, SMALL, set);
    fl_status s = fl_run_new(cfg, &run);
    if (!s) s = fl_run_prepare_save(run, 0);
    if (!s) s = fl_run_go(run, print_about, NULL);
    if (!s) s = fl_run_save(run);
    fl_run_free(run);
    fl_config_free(cfg);
    return s;
}

static int closed_run(fixture *f)
{
    for (int fd = 0; fd < 3; fd++) close(fd);
    return (int)run_into(f, "closed");
}

static void same_results(void **state)
{
    fixture *f = *state;
    size_t n, m;
    assert_int_equal(in_child(closed_run, f), FL_OK);
    char set[300];
    snprintf(set, sizeof set, STATE ";output=%s/open", f->folder);
    fl_run *run = run_done(f, SMALL, set);
    assert_ok(f->ctx, fl_run_save(run));
    fl_run_free(run);
    char *a = read_whole(fixture_path(f, "open/model.safetensors"), &n);
    char *b = read_whole(fixture_path(f, "closed/model.safetensors"), &m);
    assert_int_equal(n, m);
    assert_memory_equal(a, b, n);
    free(a);
    free(b);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(never_a_standard_one), FIXTURE_TEST(same_results)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
