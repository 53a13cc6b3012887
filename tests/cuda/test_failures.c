/* Runs with `device: cuda` in which something fails, wherever that may be: they end with a status and a sentence, never
 * with numbers that mean nothing; nothing is left behind (the address sanitizer watches for leaks), and the next run
 * works. */
#include "brief.h"
#include "fails.h"
#include "runs.h"

static const char base[] =
    "rounds: 2\nseed: 3\nthreads: 1\ndevice: cuda\n"
    "data: {kind: blobs, classes: 3, features: 4, samples: 48, test_samples: 6, test_fraction: 0.2}\n"
    "partition: {kind: iid, clients: 4}\nparticipation: {kind: uniform, count: 3}\n"
    "local: {batch: 3, steps: 2, momentum: 0.5}\nmetrics: {gradient: true}\nsystem: lognormal\n";

/* What the device is used for: plain turns, terms that are merged, maps on plain memory, pairs with pseudo labels and a
 * mixture to find, gradients, events instead of rounds. */
static const char *const sets[] = {
    "model=softmax;algorithm=fedavg",
    "model={kind: mlp, hidden: [3]};algorithm=fedvra;local.steps=4;memory=100",
    "model=softmax;algorithm=fedadam",
    ("model=softmax;algorithm={kind: fedcpsl, mix: auto};data.unlabelled=0.5;semi={labels: projected};"
     "metrics.local=true"),
    "model=softmax;algorithm=fedlin",
    "model=softmax;algorithm=fedbuff",
};
enum { SETS = sizeof sets / sizeof *sets, MOST = 20000 };

static fl_status whole_run(fixture *f, const char *set)
{
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, base, set);
    fl_status s = fl_run_new(cfg, &run);
    fl_config_free(cfg);
    if (!s) s = fl_run_go(run, NULL, NULL);
    fl_run_free(run);
    return s;
}

/* Makes the k-th of something fail; 0: nothing any more. */
typedef void breaker(fixture *f, size_t k);

/* The first, the second, later on every few of them, until the run does without it. How often it failed. An allocation
 * that fails because the device has is still one that failed. */
static size_t break_all(fixture *f, const char *set, breaker *spoil, fl_status status, const char *text)
{
    size_t failures = 0;
    for (size_t k = 1; k < MOST; k += 1 + k / (brief() ? 3 : 10), failures++) {
        fli_clear(f->ctx);
        fl_config *cfg = config_of(f, base, set); /* in which nothing fails */
        fl_run *run = NULL;
        spoil(f, k);
        fl_status s = fl_run_new(cfg, &run);
        if (!s) s = fl_run_go(run, NULL, NULL);
        spoil(f, 0);
        fl_run_free(run);
        fl_config_free(cfg);
        if (!s) return failures;
        if ((s != status && s != FL_ENOMEM) || !strstr(fl_ctx_error(f->ctx), text))
            fail_msg("%s, number %zu: status %d (%s)", set, k, (int)s, fl_ctx_error(f->ctx));
    }
    fail_msg("more than %d of them", MOST);
    return 0;
}

static void fail_here(fixture *f, size_t k) { fli_ctx_fail_alloc(f->ctx, k); }

static void no_memory_here(void **state)
{
    for (size_t k = 0; k < SETS; k++) {
        assert_true(break_all(*state, sets[k], fail_here, FL_ENOMEM, "memory") > (brief() ? 10 : 25));
        assert_ok(((fixture *)*state)->ctx, whole_run(*state, sets[k]));
    }
}

#ifdef FLI_CUDA_EMULATED
static void fail_memory(fixture *f, size_t k)
{
    (void)f;
    fli_emulated_fail_from(k, k ? 2 : 0);
}
static void fail_call(fixture *f, size_t k)
{
    (void)f;
    fli_emulated_fail_from(k, k ? 700 : 0);
}

static void no_memory_there(void **state)
{
    for (size_t k = 0; k < SETS; k++) {
        assert_true(break_all(*state, sets[k], fail_memory, FL_ENOMEM, "memory") > 3);
        assert_ok(((fixture *)*state)->ctx, whole_run(*state, sets[k]));
    }
}

static void a_device_that_fails(void **state)
{
    for (size_t k = 0; k < SETS; k++) {
        assert_true(break_all(*state, sets[k], fail_call, FL_ESYSTEM, "illegal memory access") > (brief() ? 10 : 25));
        assert_ok(((fixture *)*state)->ctx, whole_run(*state, sets[k]));
    }
}
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(no_memory_here),
#ifdef FLI_CUDA_EMULATED
        FIXTURE_TEST(no_memory_there),
        FIXTURE_TEST(a_device_that_fails),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
