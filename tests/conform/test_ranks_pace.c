/* How fast ranks go together: who waits for whom. */
#include "ranked.h"

#include "exec/waits.h"
#include "run/folder.h"
#include "run/run.h"

#include <time.h>
#include <unistd.h>

/* ---- idle time --------------------------------------------------------------------------------------------- */

static fl_status slow_gather(void *arg, void *all, const size_t *at)
{
    (void)arg, (void)all, (void)at;
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    return FL_OK;
}

static fl_status slow_arrived(void *arg, int wait, size_t *mark, int *there)
{
    *mark = *there = 0;
    return wait ? slow_gather(arg, NULL, NULL) : FL_OK;
}

/* Waiting is counted, calling is not; what the calls are told and say is passed on. */
static void waits_are_counted(void **state)
{
    (void)state;
    fl_ranks slow = {.size = sizeof slow, .count = 2, .gather = slow_gather, .arrived = slow_arrived}, watched;
    fli_waits w;
    size_t mark, at[3] = {0};
    int there;
    fli_waits_init(&w, &slow, &watched);
    assert_int_equal(watched.arrived(watched.arg, 0, &mark, &there), FL_OK);
    assert_true(w.seconds == 0);
    assert_int_equal(watched.gather(watched.arg, NULL, at), FL_OK);
    assert_true(w.seconds >= 0.02);
    assert_int_equal(watched.arrived(watched.arg, 1, &mark, &there), FL_OK);
    assert_true(w.seconds >= 0.04);
    slow.count = 1;
    fli_waits_init(&w, &slow, &watched); /* one process waits for nobody */
    assert_ptr_equal(watched.gather, slow.gather);
}

static void said(void *arg, fl_log_level level, const char *line)
{
    (void)level;
    if (strstr(line, "they waited for each other")) ++*(int *)arg;
}

static int lines_said;
static void listen(fl_run *run, const fl_ranks *ranks)
{
    if (!ranks->rank) fl_ctx_on_log(run->ctx, said, &lines_said);
}

static atomic_int right, wrong; /* rows; a rank is not the thread of the test, so it cannot fail it */

static void look(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    const fl_ranks *ranks = arg;
    double idle = fl_row_get(row, "idle"), most = fl_row_get(row, "idle_most");
    (void)run;
    if (!measured) return;
    if (ranks->count == 1 || fl_row_round(row) == 0)
        ++*(isnan(idle) && isnan(most) ? &right : &wrong);
    else
        ++*(idle > 0 && idle <= most && most <= 1 ? &right : &wrong);
}

/* A row per rank, which together have all clients and samples. */
static void check_table(const char *path, size_t ranks)
{
    char line[256];
    unsigned rank, clients, samples, all_clients = 0, all_samples = 0;
    double work, idle;
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    assert_non_null(fgets(line, sizeof line, f));
    assert_string_equal(line, "rank,clients,samples,seconds_at_work,seconds_idle\n");
    for (unsigned i = 0; i < ranks; i++) {
        assert_non_null(fgets(line, sizeof line, f));
        assert_int_equal(sscanf(line, "%u,%u,%u,%lf,%lf", &rank, &clients, &samples, &work, &idle), 5);
        assert_true(rank == i && work > 0 && idle > 0);
        all_clients += clients;
        all_samples += samples;
    }
    assert_null(fgets(line, sizeof line, f));
    assert_int_equal(all_clients, 12);
    assert_int_equal(all_samples, 192); /* a fifth of 240 is for tests */
    fclose(f);
}

/* The result is whole, with what its manifest lists. */
static void check_files(fixture *f, const char *name)
{
    fli_manifest m;
    fli_manifest_init(&m, f->ctx);
    assert_ok(f->ctx, fli_result_check(f->ctx, fixture_path(f, name), &m));
    assert_int_equal(fli_manifest_lists(&m, "ranks.csv"), strcmp(name, "r1") != 0);
    fli_manifest_fini(&m);
}

static void idle_time(void **state)
{
    fixture *f = *state;
    char settings[700], table[600];
    for (uint32_t ranks = 1; ranks <= 3; ranks += 2) {
        char name[16];
        snprintf(name, sizeof name, "r%u", ranks);
        snprintf(table, sizeof table, "%s/ranks.csv", fixture_path(f, name));
        snprintf(settings, sizeof settings, "output=%s;model=softmax;metrics.every=2;rounds=5", fixture_path(f, name));
        lines_said = right = wrong = 0;
        task t = run_like(&(task){.settings = settings, .begin = listen, .observer = look}, ranks);
        if (t.status) fail_msg("%s", t.why);
        outcome_free(&t.out);
        assert_true(right == 4 * (int)ranks && !wrong); /* rounds 0, 2, 4 and 5 */
        assert_int_equal(lines_said, ranks > 1);
        check_files(f, name);
        if (ranks > 1)
            check_table(table, ranks);
        else
            assert_int_equal(access(table, F_OK), -1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_are_counted),
        FIXTURE_TEST(idle_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
