/* Runs on a device: `twin` does in plain C what a GPU does, by the very functions of the CPU. So every method that is
 * listed has the same bits on it as on the CPU, or is refused in words before anything runs: on every model that
 * devices compute, with pseudo labels, images that are augmented, and all metrics; and a checkpoint is the same
 * wherever it was written. */
#include "outcome.h"
#include "runs.h"

#include "algo/algo.h"

static const char base[] =
    "rounds: 3\nseed: 3\nthreads: 2\n"
    "data: {kind: blobs, classes: 4, features: 6, samples: 240, test_samples: 50, test_fraction: 0.2}\n"
    "partition: {kind: dirichlet, clients: 12, alpha: 1}\nsystem: {kind: lognormal, jitter: 0.3}\n"
    "participation: {kind: uniform, count: 7}\nlocal: {batch: 5, lr: 0.1, uneven: range, range: [1, 3]}\n"
    "metrics: {gradient: true, gradient_mapping: true}\n";

#define DIGITS "data={kind: digits, samples: 240, test_samples: 40"

static outcome run_of(fixture *f, const char *set, const char *device)
{
    char text[1024];
    snprintf(text, sizeof text, "%s;device=%s", set, device);
    fl_run *run = run_done(f, base, text);
    assert_true(!run->device == !strcmp(device, "cpu"));
    outcome o = outcome_of(run);
    fl_run_free(run);
    return o;
}

static void agree(fixture *f, const char *set)
{
    outcome here = run_of(f, set, "cpu"), there = run_of(f, set, "twin");
    if (!same(&here, &there)) fail_msg("%s: the twin gives other bits", set);
    outcome_free(&here);
    outcome_free(&there);
}

/* ---- methods --------------------------------------------------------------------------------------------- */

typedef enum { AGREED, NOT_THERE, NOT_TOGETHER } verdict;

static fl_status makes(fixture *f, const char *set, const char *device)
{
    fl_run *run = NULL;
    char text[1024];
    snprintf(text, sizeof text, "%s;device=%s", set, device);
    fl_config *cfg = config_of(f, base, text);
    fli_clear(f->ctx);
    fl_status s = fl_run_new(cfg, &run);
    fl_run_free(run);
    fl_config_free(cfg);
    return s;
}

/* What does not run there, but on the CPU, is refused in words. */
static verdict try(fixture *f, const char *set)
{
    fl_status s = makes(f, set, "twin");
    if (!s) {
        agree(f, set);
        return AGREED;
    }
    assert_int_equal(s, FL_ECONFIG);
    if (strstr(fl_ctx_error(f->ctx), "the cpu alone")) return NOT_THERE;
    assert_int_equal(makes(f, set, "cpu"), FL_ECONFIG);
    return NOT_TOGETHER;
}

static void every_algorithm(void **state)
{
    static const char *const ways[] = {
        "model={kind: softmax, weight_decay: 0.01};precision=f64",
        "model={kind: mlp, hidden: [9, 5]};local.momentum=0.8",
        DIGITS "};metrics.gradient=false;metrics.gradient_mapping=false;rounds=2;"
               "model={kind: cnn, layers: 'conv 5x5 stride 2, pool 2, conv 6x3 same, fc 8'}",
        "data.classes=2;model=logistic;local.schedule=sqrt",
    };
    enum { WAYS = sizeof ways / sizeof *ways };
    size_t count[3] = {0};
    for (const fl_method *const *a = fli_algo_list; *a; a++)
        for (size_t k = 0; k < WAYS; k++) {
            char set[512];
            snprintf(set, sizeof set, "algorithm=%s;%s%s%s", (*a)->name, ways[k],
                     (*a)->traits & FL_METHOD_EVERYONE ? ";participation=everyone" : "",
                     (*a)->traits & FL_METHOD_BILEVEL ? ";bilevel=hyper_representation;metrics.gradient_mapping=false"
                                                      : "");
            count[try(*state, set)]++;
        }
    assert_true(count[AGREED] >= 100);
    assert_int_equal(count[NOT_THERE], WAYS * (5 + 1)); /* two levels, and FedGiA's quadratics */
    assert_int_equal(count[NOT_TOGETHER], 3);           /* pairs are of class probabilities, not for logistic models */
}

/* ---- settings -------------------------------------------------------------------------------------------- */

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

/* Models, samples, solvers and metrics of all kinds. */
static void other_settings(void **state)
{
    static const char *const sets[] = {
        "model=logistic;data.classes=2;precision=f64;algorithm=scaffold",
        "data={kind: digits, samples: 200, test_samples: 40, crop: 20, augment: crop};local.batch=20;"
        "model={kind: cnn, layers: 'conv 3x5, pool 4, conv 4x3 same, avgpool 2, fc 6'}",
        "model={kind: mlp, hidden: [7, 5]};local.momentum=0.9;local.schedule=sqrt;local.schedule_by=step",
        "model=softmax;local.batch=0;local.steps=3",
        "model={kind: softmax, weight_decay: 0.5, weight_decay_by: batch};local.batch_fraction=0.3",
        "model=softmax;metrics.local=true;algorithm={kind: fedcpsl, freeze_after: 2};participation=everyone",
        "model=softmax;metrics.local=true;algorithm=apfl",
        "model={kind: mlp, hidden: [5]};data.unlabelled=0.7;algorithm=fedvra-u;"
        "semi={labels: projected, label_steps: 3, label_batch: 2}",
        "model=softmax;data.unlabelled=0.7;algorithm=fedcpsl;metrics.local=true;"
        "semi={labels: closed_form, confidence: 0.3}",
        "model=softmax;metrics.potential=true;algorithm=fedvra",
        "model=softmax;regularizer={kind: l1, weight: 0.01};algorithm=feddr",
        "model=softmax;participation={kind: bernoulli, probability: 0.3};system.deadline=0.01",
        "model=softmax;algorithm=scaffold;memory=1000",
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

/* A run that stops on one goes on on the other, and says so beside its result. */
static void resumed_elsewhere(void **state)
{
    fixture *f = *state;
    static const char *const devices[] = {"cpu", "twin"};
    double model[2][200];
    for (int k = 0; k < 2; k++) {
        char set[1200], path[600], text[4096];
        fl_run *run;
        snprintf(path, sizeof path, "%s/%s", f->folder, devices[k]);
        snprintf(set, sizeof set, "model=softmax;algorithm=scaffold;checkpoint_every=2;rounds=4;device=%s;output=%s",
                 devices[k], path);
        run = run_new(f, base, set);
        for (int r = 0; r < 2; r++) assert_ok(f->ctx, fl_run_step(run, NULL));
        fl_run_free(run);
        fl_config *cfg = fl_config_new(f->ctx);
        assert_ok(f->ctx, fl_config_resume(cfg, path));
        snprintf(set, sizeof set, "device=%s", devices[1 - k]);
        assert_ok(f->ctx, fl_config_set(cfg, set));
        assert_ok(f->ctx, fl_run_resume(cfg, &run));
        fl_config_free(cfg);
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        assert_ok(f->ctx, fl_run_save(run));
        assert_int_equal(fl_run_model(run, model[k], 200), 28);
        fl_run_free(run);
        snprintf(set, sizeof set, "%s/manifest.json", path);
        FILE *in = fopen(set, "r");
        text[fread(text, 1, sizeof text - 1, in)] = 0;
        fclose(in);
        assert_non_null(strstr(text, "on twin"));
        assert_non_null(strstr(text, "; "));
    }
    assert_memory_equal(model[0], model[1], 28 * sizeof(double));
}

/* ---- what there is --------------------------------------------------------------------------------------- */

static void text_of(void *arg, const char *text) { snprintf(arg, 1000, "%s", text); }

static void all_devices_are_listed(void **state)
{
    fixture *f = *state;
    char text[1000];
    assert_ok(f->ctx, fl_list(f->ctx, "devices", NULL, text_of, text));
    assert_non_null(strstr(text, "cpu "));
    assert_non_null(strstr(text, "twin "));
    assert_non_null(strstr(text, "cuda"));
    assert_fails(f->ctx, fl_list(f->ctx, "device", "twin", text_of, text), FL_ECONFIG, "fedloom list devices");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_algorithm),  FIXTURE_TEST(pseudo_labels),     FIXTURE_TEST(other_settings),
        FIXTURE_TEST(checkpoints_move), FIXTURE_TEST(resumed_elsewhere), FIXTURE_TEST(all_devices_are_listed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
