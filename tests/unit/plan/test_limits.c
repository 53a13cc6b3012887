/* Memory: what limits there are, what a run takes at least, and that a run without room is refused before it takes
 * any. */
#include "runs.h"

#include "algo/algo.h"
#include "base/os.h"
#include "engine/engine.h"

#include <malloc.h>
#include <sys/resource.h>
#include <sys/stat.h>

/* The sanitizers reserve terabytes of address space, and their allocators do not tell what is in use. */
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define PLAIN_BUILD 0
#else
#define PLAIN_BUILD 1
#endif

/* ---- limits -------------------------------------------------------------------------------------------- */

/* The tightest group on the way up counts; what is no number is no limit. */
static void the_tightest_group_counts(void **state)
{
    fixture *f = *state;
    const char *root = f->folder;
    assert_true(isinf(fli_limit_group(root, "/a/b", "memory.max")));
    mkdir(fixture_path(f, "a"), 0700);
    mkdir(fixture_path(f, "a/b"), 0700);
    fixture_write(f, "a/b/memory.max", "max\n");
    assert_true(isinf(fli_limit_group(root, "/a/b", "memory.max")));
    fixture_write(f, "a/memory.max", "1048576\n");
    assert_true(fli_limit_group(root, "/a/b", "memory.max") == 1048576);
    fixture_write(f, "memory.max", "4096\n");
    assert_true(fli_limit_group(root, "/a/b", "memory.max") == 4096);
    assert_true(fli_limit_group(root, "/", "memory.max") == 4096);
    fixture_write(f, "a/b/memory.max", "9223372036854771712\n"); /* how version 1 says that there is none */
    fixture_write(f, "memory.max", "");
    assert_true(fli_limit_group(root, "/a/b", "memory.max") == 1048576);
    fixture_write(f, "a/memory.max", "-1\n");
    assert_true(isinf(fli_limit_group(root, "/a/b", "memory.max")));
    fli_limit machine = fli_limit_memory();
    assert_true(machine.bytes > 0x1p24 && machine.bytes < 0x1p50 && *machine.what);
}

static int limit_address_space(rlim_t bytes)
{
    struct rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = bytes;
    return setrlimit(RLIMIT_AS, &limit);
}

/* An emulator has no limits on address space, and the memory of sanitizers is not the program's. */
static int limits_hold(void) { return PLAIN_BUILD && !getenv("FEDLOOM_EMULATED"); }

static int look_at_room(fixture *f)
{
    (void)f;
    if (!isinf(fli_limit_room().bytes)) return 1;
    if (limit_address_space((rlim_t)1 << 40)) return 2;
    double room = fli_limit_room().bytes;
    return room < 0x1p40 && room > 0x1p38 ? 0 : 3;
}

static void room_shrinks_with_the_limit(void **state)
{
    if (!limits_hold()) skip();
    assert_int_equal(in_child(look_at_room, *state), 0);
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

/* The limit leaves 200 MiB, which is room for one thread's BLAS buffer, but not for eight. */
static int run_without_room(fixture *f)
{
    fl_run *run = NULL;
    double used = 0x1p40;
    if (limit_address_space((rlim_t)1 << 40)) return 1;
    used -= fli_limit_room().bytes;
    if (limit_address_space((rlim_t)(used + 200 * 0x1p20))) return 2;
    fl_config *cfg = config_of(f, SMALL, "threads=8;model={kind: mlp, hidden: [50]}");
    fl_status s = fl_run_new(cfg, &run);
    if (s != FL_ENOMEM || !strstr(fl_ctx_error(f->ctx), "(threads: 8), but what is left of the limit on address space"))
        return 3;
    if (fl_config_set(cfg, "threads=1")) return 4;
    for (int i = 0; i < 3; i++) { /* what one run has reserved the next one has */
        if (fl_run_new(cfg, &run) || fl_run_go(run, NULL, NULL)) return 5;
        fl_run_free(run);
    }
    fl_config_free(cfg);
    return 0;
}

static void no_room_for_threads(void **state)
{
    if (!limits_hold()) skip();
    assert_int_equal(in_child(run_without_room, *state), 0);
}

/* A slip of a few zeros: refused at once, and the sentence says what would have been so large. */
static void too_large_for_the_machine(void **state)
{
    fixture *f = *state;
    fl_run *run = NULL;
    fl_config *cfg =
        config_of(f, SMALL, "model={kind: mlp, hidden: [65536, 65536, 65536, 65536, 65536, 65536]};threads=1");
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ENOMEM, "out of memory: the run takes at least ");
    fl_config_free(cfg);
}

/* ---- the estimate ----------------------------------------------------------------------------------------- */

static double in_use(void)
{
    struct mallinfo2 m = mallinfo2();
    return (double)m.uordblks + (double)m.hblkhd;
}

typedef struct {
    double most;
} meter;

static void look(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    meter *m = arg;
    (void)run;
    (void)row;
    (void)measured;
    m->most = fmax(m->most, in_use());
}

/* "At least" must be true of every method, and not far below what is really taken. */
static void the_estimate(void **state)
{
    fixture *f = *state;
    if (!PLAIN_BUILD) skip();
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        char set[512];
        meter m = {0};
        fl_run *run = NULL;
        int bilevel = ((*a)->traits & FL_METHOD_BILEVEL) != 0;
        snprintf(set, sizeof set,
                 "algorithm=%s;rounds=2;model={kind: mlp, hidden: "
                 "[20000]};local.lr=1e-4;stop.diverged=0;participation=%s;system=lognormal%s",
                 (*a)->name, (*a)->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 4}",
                 bilevel ? ";bilevel=hyper_representation" : "");
        double before = in_use();
        fl_config *cfg = config_of(f, SMALL, set);
        assert_ok(f->ctx, fl_run_new(cfg, &run));
        fl_config_free(cfg);
        assert_ok(f->ctx, fl_run_go(run, look, &m));
        double said = fl_run_memory(run), taken = m.most - before;
        if (said > taken || said < 0.5 * taken)
            fail_msg("%s: at least %.2f MiB were said, %.2f MiB were taken", (*a)->name, said / 0x1p20, taken / 0x1p20);
        fl_run_free(run);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(the_tightest_group_counts),
        FIXTURE_TEST(room_shrinks_with_the_limit),
        FIXTURE_TEST(no_room_for_threads),
        FIXTURE_TEST(too_large_for_the_machine),
        FIXTURE_TEST(the_estimate),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
