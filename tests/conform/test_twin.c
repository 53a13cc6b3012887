/* Whole runs on the plain twin of a device have the bits of the CPU: every method whose local work is SGD on every
 * model that devices compute, pseudo labels, images that are augmented, checkpoints. Settings are in
 * test_devices.c. */
#include "outcome.h"
#include "runs.h"

#include "algo/algo.h"
#include "device/device.h"

static const char base[] =
    "rounds: 3\nseed: 3\nthreads: 2\n"
    "data: {kind: blobs, classes: 4, features: 6, samples: 240, test_samples: 50, test_fraction: 0.2}\n"
    "partition: {kind: iid, clients: 12}\nsystem: {kind: lognormal, jitter: 0.3}\n"
    "participation: {kind: uniform, count: 7}\n"
    "local: {batch: 5, lr: 0.1, uneven: range, range: [1, 3]}\n"
    "metrics: {gradient: true}\n";

#define DIGITS "data={kind: digits, samples: 240, test_samples: 40"

static void agree(fixture *f, const char *set)
{
    char there[1024];
    outcome o[2];
    snprintf(there, sizeof there, "%s;device=twin", set);
    for (int k = 0; k < 2; k++) {
        fl_run *run = run_done(f, base, k ? there : set);
        o[k] = outcome_of(run);
        fl_run_free(run);
    }
    if (!same(&o[0], &o[1])) fail_msg("%s: other bits on the twin", set);
    for (int k = 0; k < 2; k++) outcome_free(&o[k]);
}

/* ---- methods --------------------------------------------------------------------------------------------- */

/* Whether the method, as it is by default, has its solvers there. */
static int eligible(fixture *f, const fli_algo *a)
{
    fli_arena arena;
    fli_arena_init(&arena, f->ctx);
    const void *params = bound(f->ctx, &arena, a->keys, a->params_size, "");
    int all = 1;
    for (size_t stage = 0; stage < FLI_STAGES; stage++)
        all &= fli_device_solver(a->solver ? a->solver(params, stage) : &fli_solver_sgd) != NULL;
    fli_arena_fini(&arena);
    return all;
}

static int pairs(const fli_algo *a) { return a->personal.mix != NULL; }

static void settings(char *out, size_t size, const fli_algo *a, const char *more)
{
    snprintf(out, size, "algorithm=%s;participation=%s;%s", a->name,
             a->traits & FLI_ALGO_EVERYONE ? "everyone" : "{kind: uniform, count: 7}", more);
}

static void every_method(void **state)
{
    static const char *const ways[] = {
        "model={kind: softmax, weight_decay: 0.01}",
        "model={kind: mlp, hidden: [9, 5]};precision=f64;local.momentum=0.8",
        DIGITS
        "};metrics.gradient=false;rounds=2;model={kind: cnn, layers: 'conv 5x5 stride 2, pool 2, conv 6x3 same, fc 8'}",
        "data.classes=2;model=logistic;local.schedule=sqrt",
    };
    char set[512];
    size_t count = 0;
    for (const fli_algo *const *a = fli_algo_list; *a; a++) {
        if (!eligible(*state, *a)) continue;
        count++;
        for (size_t k = 0; k < 4; k++) {
            if (k == 3 && pairs(*a)) continue; /* mixtures are of class probabilities */
            settings(set, sizeof set, *a, ways[k]);
            agree(*state, set);
        }
    }
    assert_true(count >= 20);
}

/* Pseudo labels of either kind, by whoever takes them. */
static void pseudo_labels(void **state)
{
    static const char *const ways[] = {
        "model=softmax;semi={labels: closed_form, alpha_p: 0.5, alpha_r: 0.4}",
        "model={kind: mlp, hidden: [6]};precision=f64;semi={labels: projected, label_lr: 9, batch: 3}",
        "model=softmax;local.momentum=0.8;semi={labels: projected, label_steps: 3, label_batch: 2}",
    };
    static const char *const methods[] = {"fedavg",  "fedvra-u", "fedcpsl", "{kind: fedcpsl, mix: auto}",
                                          "fedbuff", "apfl"};
    char set[512];
    for (size_t m = 0; m < sizeof methods / sizeof *methods; m++)
        for (size_t k = 0; k < 3; k++) {
            snprintf(set, sizeof set, "algorithm=%s;data.unlabelled=0.6;%s;metrics.local=%s", methods[m], ways[k],
                     strcmp(methods[m], "fedbuff") ? "true" : "false");
            agree(*state, set);
        }
}

/* Images that are changed in every epoch, also for pairs; what else test_devices.c leaves out. */
static void other_settings(void **state)
{
    static const char *const sets[] = {
        DIGITS ", augment: cifar};metrics.gradient=false;rounds=2;"
               "model={kind: cnn, layers: \"conv 5x5 stride 2, pool 2, fc 8\"};algorithm=scaffold;local.steps=9",
        DIGITS ", crop: 17, augment: crop, normalize: image};rounds=2;"
               "model={kind: cnn, layers: \"conv 6x5 same, avgpool 2, fc 8\"};algorithm=scaffold",
        DIGITS ", augment: cifar};model=softmax;rounds=2;"
               "algorithm={kind: fedcpsl, mix: auto}",
        "model=softmax;local.batch=1000;algorithm={kind: fedpd, skip: 0.5};participation=everyone",
        "model={kind: mlp, hidden: [5]};metrics.local=true;algorithm={kind: apfl, mix: auto}",
    };
    for (size_t k = 0; k < sizeof sets / sizeof *sets; k++) agree(*state, sets[k]);
}

/* ---- checkpoints ----------------------------------------------------------------------------------------- */

/* What a run has to save. */
static unsigned char *image_of(fixture *f, const fl_run *run, size_t *n)
{
    fli_saver *out;
    unsigned char *bytes;
    assert_ok(f->ctx, fli_saver_open_memory(f->ctx, &out));
    fli_exec_save(run->exec, out);
    assert_ok(f->ctx, fli_saver_take(out, &bytes, n));
    return bytes;
}

/* A checkpoint is the same wherever it was written, and can be read in either place: also pseudo labels, which clients
 * keep. */
static void checkpoints_move(void **state)
{
    static const char set[] = "model={kind: mlp, hidden: [5]};data.unlabelled=0.6;algorithm=fedcpsl;"
                              "semi={labels: projected, label_steps: 2};participation=everyone;device=";
    fixture *f = *state;
    fl_run *run[3];
    fli_loader *in;
    size_t n[3];
    unsigned char *bytes[3];
    for (int k = 0; k < 3; k++) {
        char text[512];
        snprintf(text, sizeof text, "%s%s", set, k ? "twin" : "cpu");
        run[k] = run_new(f, base, text);
        for (int r = 0; k < 2 && r < 2; r++) assert_ok(f->ctx, fl_run_step(run[k], NULL));
        if (k == 2) { /* it reads what the CPU has written */
            assert_ok(f->ctx, fli_loader_open_memory(f->ctx, "image", bytes[0], n[0], &in));
            assert_ok(f->ctx, fli_exec_load(run[k]->exec, in));
            assert_ok(f->ctx, fli_loader_end(in));
            fli_loader_close(in);
        }
        bytes[k] = image_of(f, run[k], &n[k]);
        assert_int_equal(n[0], n[k]);
        assert_memory_equal(bytes[0], bytes[k], n[0]);
    }
    for (int k = 0; k < 3; k++) {
        fli_free(bytes[k]);
        fl_run_free(run[k]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_method),
        FIXTURE_TEST(pseudo_labels),
        FIXTURE_TEST(other_settings),
        FIXTURE_TEST(checkpoints_move),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
