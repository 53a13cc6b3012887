/* Tables that are large once they are unpacked: it is said how far they are, and they are refused before they take more
 * memory than there is. The machine and its clock are this file's. */
#include "data_files.h"

#include "base/os.h"

#include <dlfcn.h>
#include <math.h>
#include <time.h>
#include <unistd.h>

enum { MACHINE = 64 << 20, FEATURES = 7 };

/* In place of the C library's. */
long sysconf(int name)
{
    long (*real)(int);
    *(void **)&real = dlsym(RTLD_NEXT, "sysconf");
    return name == _SC_PHYS_PAGES ? MACHINE / real(_SC_PAGESIZE) : real(name);
}

static long seconds, step; /* by the clock; each look takes a step */

int clock_gettime(clockid_t id, struct timespec *t)
{
    (void)id;
    *t = (struct timespec){seconds += step, 0};
    return 0;
}

/* Rows of zeros with a label, packed. */
static const char *table(scratch *d, size_t rows)
{
    static const char row[] = "0,0,0,0,0,0,0,0\n";
    size_t n = sizeof row - 1;
    char *text = malloc(rows * n);
    for (size_t i = 0; i < rows; i++) {
        memcpy(text + i * n, row, n);
        text[i * n + n - 2] = (char)('0' + i % 2);
    }
    const char *path = put_gz(d, "table.csv.gz", text, rows * n);
    free(text);
    return path;
}

static fl_status load(scratch *d, const char *path, fli_dataset **train)
{
    fli_dataset *test;
    return load_source(d->ctx, &fli_source_csv, KEYS("train", path, "header", "false"), train, &test);
}

static void too_large(void **state)
{
    scratch *d = *state;
    fli_dataset *train;
    assert_true(fli_limit_memory().bytes <= MACHINE);
    assert_ok(d->ctx,
              load(d, table(d, (16 << 20) / (FEATURES * sizeof(float))), &train)); /* a quarter of the machine */
    assert_int_equal(train->dim, FEATURES);
    fli_dataset_free(train);
    const char *path = table(d, (48 << 20) / (FEATURES * sizeof(float)));
    assert_fails(d->ctx, load(d, path, &train), FL_ENOMEM, "table.csv.gz is too large: reading it takes 0.");
    assert_fails(d->ctx, load(d, path, &train), FL_ENOMEM, "so far, and the memory of this machine is 0.0625 GiB");
}

/* fl_log_fn */
static void count_lines(void *arg, fl_log_level level, const char *line)
{
    if (!strstr(line, "table.csv.gz: ") || !strstr(line, " MiB of it are unpacked so far")) return;
    assert_int_equal(level, FL_LOG_INFO);
    ++*(long *)arg;
}

/* Lines while a table is read of which every piece takes so many seconds. */
static long lines(scratch *d, const char *path, long each)
{
    long count = 0;
    fli_dataset *train;
    fl_ctx_on_log(d->ctx, count_lines, &count);
    step = each;
    assert_ok(d->ctx, load(d, path, &train));
    step = 0;
    fl_ctx_on_log(d->ctx, NULL, NULL);
    fli_dataset_free(train);
    return count;
}

static void how_far_it_is(void **state)
{
    scratch *d = *state;
    const char *path = table(d, 100000); /* 25 pieces of 64 KiB */
    assert_int_equal(lines(d, path, 0), 0);
    assert_in_range(lines(d, path, 10), 20, 30);
    assert_in_range(lines(d, path, 5), 10, 15);
}

/* fl_log_fn: a person who sees that it will take long. */
static void stop_it(void *ctx, fl_log_level level, const char *line)
{
    (void)level;
    if (strstr(line, " unpacked so far")) fl_ctx_stop(ctx);
}

/* A run is not made if it is asked to stop while its data are read. */
static void is_stopped(void **state)
{
    scratch *d = *state;
    char set[300];
    fl_run *run = NULL;
    fl_config *cfg = fl_config_new(d->ctx);
    snprintf(set, sizeof set, "data={kind: csv, train: '%s', header: false}", table(d, 100000));
    assert_ok(d->ctx, fl_config_set(cfg, set));
    assert_ok(d->ctx, fl_config_set(cfg, "partition={kind: iid, clients: 2}"));
    assert_ok(d->ctx, fl_config_set(cfg, "model=softmax"));
    fl_ctx_on_log(d->ctx, stop_it, d->ctx);
    step = 5;
    assert_fails(d->ctx, fl_run_new(cfg, &run), FL_ESTOPPED, "table.csv.gz: reading was stopped");
    step = 0;
    assert_null(run);
    fl_ctx_on_log(d->ctx, NULL, NULL);
    fl_config_free(cfg);
}

#define SCRATCH_TEST(f) cmocka_unit_test_setup_teardown(f, scratch_setup, scratch_teardown)

int main(void)
{
    const struct CMUnitTest tests[] = {SCRATCH_TEST(too_large), SCRATCH_TEST(how_far_it_is), SCRATCH_TEST(is_stopped)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
