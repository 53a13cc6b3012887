/* How fast ranks go together: who waits for whom, and how a run ends. */
#include "ranked.h"

#include "ranks/ranks.h"
#include "run/output.h"
#include "run/state.h"

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
    fli_timed_ranks w;
    size_t mark, at[3] = {0};
    int there;
    fli_timed_ranks_init(&w, &slow, &watched);
    assert_int_equal(watched.arrived(watched.arg, 0, &mark, &there), FL_OK);
    assert_true(w.seconds == 0);
    assert_int_equal(watched.gather(watched.arg, NULL, at), FL_OK);
    assert_true(w.seconds >= 0.02);
    assert_int_equal(watched.arrived(watched.arg, 1, &mark, &there), FL_OK);
    assert_true(w.seconds >= 0.04);
    slow.count = 1;
    fli_timed_ranks_init(&w, &slow, &watched); /* one process waits for nobody */
    assert_ptr_equal(watched.gather, slow.gather);
}

static void said(void *arg, fl_log_level level, const char *line)
{
    (void)level;
    if (strstr(line, "3 ranks: idle ")) ++*(int *)arg;
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

/* A row per rank, which together have all clients and samples; none was at it for longer than `most` seconds. */
static void check_table(const char *path, size_t ranks, double most)
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
        assert_true(rank == i && work > 0 && idle > 0 && work + idle <= most);
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
        lines_said = 0;
        right = 0;
        wrong = 0;
        double begin = fli_clock_now();
        task t = run_like(&(task){.settings = settings, .begin = listen, .observer = look}, ranks);
        double took = fli_clock_now() - begin;
        if (t.status) fail_msg("%s", t.why);
        outcome_free(&t.out);
        assert_true(right == 4 * (int)ranks && !wrong); /* rounds 0, 2, 4 and 5 */
        assert_int_equal(lines_said, ranks > 1);
        check_files(f, name);
        if (ranks > 1)
            check_table(table, ranks, took);
        else
            assert_int_equal(access(table, F_OK), -1);
    }
}

/* ---- what they compute with -------------------------------------------------------------------------------- */

typedef struct {
    const char *kernels;
    fl_status status;
    char why[1024];
} machine;

static void compare_kernels(const fl_ranks *ranks, void *arg)
{
    machine *m = arg;
    char own[FLI_COMPUTED_WITH] = "";
    fl_ctx *ctx = fl_ctx_new();
    strcpy(own, m->kernels);
    m->status = fli_run_same_kernels(ctx, ranks, own);
    snprintf(m->why, sizeof m->why, "%s", fl_ctx_error(ctx));
    fl_ctx_free(ctx);
}

/* Processors of two kinds would give other bits for the same client: nobody begins. */
static void other_kernels(void **state)
{
    machine m[3] = {{.kernels = "x86-64-v3"}, {.kernels = "x86-64-v3"}, {.kernels = "x86-64-v3"}};
    void *args[] = {&m[0], &m[1], &m[2]};
    (void)state;
    team_run(3, compare_kernels, args);
    for (size_t i = 0; i < 3; i++) assert_int_equal(m[i].status, FL_OK);
    m[2].kernels = "x86-64-v4";
    team_run(3, compare_kernels, args);
    for (size_t i = 0; i < 3; i++) {
        assert_int_equal(m[i].status, FL_ECONFIG);
        assert_non_null(strstr(m[i].why, "rank 2 computes with kernels for x86-64-v4, but rank 0 with those for "
                                         "x86-64-v3"));
        assert_non_null(strstr(m[i].why, "FEDLOOM_KERNELS"));
    }
}

static size_t three(char *why, size_t room)
{
    (void)why, (void)room;
    return 3;
}

/* Ranks of one machine take its devices in turn, unless the name says which. */
static void devices_in_turn(void **state)
{
    fli_backend b = {.name = "cuda", .count = three};
    (void)state;
    for (size_t local = 0; local < 7; local++) {
        assert_int_equal(fli_device_of_rank("cuda", &b, 0, local), local % 3);
        assert_int_equal(fli_device_of_rank("cuda:1", &b, 1, local), 1);
    }
}

/* ---- the end ----------------------------------------------------------------------------------------------- */

static pthread_t stopper;

static void *stop_soon(void *run)
{
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    fl_run_stop(run);
    return NULL;
}

static void ask_rank_1(fl_run *run, const fl_ranks *ranks)
{
    if (ranks->rank == 1 && pthread_create(&stopper, NULL, stop_soon, run)) abort();
}

/* However long it would go on, and whichever rank is asked. */
static void all_end_together(void **state)
{
    static const char *const ways[] = {"algorithm=scaffold", "algorithm=fedasync"};
    (void)state;
    for (size_t k = 0; k < sizeof ways / sizeof *ways; k++) {
        char text[512];
        snprintf(text, sizeof text, "%s;model=softmax;rounds=1000000000;metrics={every: 1000000000}", ways[k]);
        task t = run_like(&(task){.settings = text, .begin = ask_rank_1}, 3);
        pthread_join(stopper, NULL);
        if (t.status) fail_msg("%s: %s", text, t.why);
        assert_int_equal(t.stopped, FL_STOP_ASKED);
        outcome_free(&t.out);
        snprintf(text, sizeof text, "%s;model=softmax;rounds=1000000000;metrics={every: 1000000000};stop.seconds=0.05",
                 ways[k]);
        t = run_of(text, 3, 0);
        if (t.status) fail_msg("%s: %s", text, t.why);
        assert_int_equal(t.stopped, FL_STOP_TIME);
        outcome_free(&t.out);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(waits_are_counted), FIXTURE_TEST(idle_time),           cmocka_unit_test(all_end_together),
        cmocka_unit_test(other_kernels),     cmocka_unit_test(devices_in_turn),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
