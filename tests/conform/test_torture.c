/* Every allocation fails in turn, from the configuration to the saved result: always FL_ENOMEM with a sentence, no
 * crash, nothing left behind (the address sanitizer watches for leaks), and the next attempt works. Memory of jansson
 * and libyaml is their own. */
#include "fixture.h"

#include "algo/algo.h"

#include <dirent.h>

enum { MOST = 20000 };

/* A thing that may run out of memory. `f->path` is at its disposal. */
typedef fl_status job(fixture *f, const void *arg);

/* Fails allocation 1, 2, ... until the job gets through this many times in a row; returns how often it did not. */
static size_t torture_until(fixture *f, job *fn, const void *arg, size_t times)
{
    size_t failures = 0, passed = 0;
    for (size_t k = 1; k < MOST; k++) {
        fli_clear(f->ctx);
        fli_ctx_fail_alloc(f->ctx, k);
        fl_status s = fn(f, arg);
        fli_ctx_fail_alloc(f->ctx, 0);
        if (s == FL_OK && ++passed == times) return failures;
        if (s == FL_OK) continue;
        passed = 0;
        failures++;
        if (s != FL_ENOMEM) fail_msg("allocation %zu: status %d (%s)", k, (int)s, fl_ctx_error(f->ctx));
        if (!strstr(fl_ctx_error(f->ctx), "out of memory")) fail_msg("allocation %zu: \"%s\"", k, fl_ctx_error(f->ctx));
    }
    fail_msg("more than %d allocations", MOST);
    return 0;
}

static size_t torture(fixture *f, job *fn, const void *arg) { return torture_until(f, fn, arg, 1); }

static size_t entries(const char *path)
{
    size_t n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir)) n++;
    closedir(dir);
    return n - 2;
}

/* ---- configuration, run, result ---------------------------------------------------------------------------- */

typedef struct {
    const char *file; /* configuration */
    const char *set;  /* assignments, separated by ';' */
    int save;
} whole;

static fl_status load(fl_config *cfg, const whole *w)
{
    fl_status s = fl_config_load(cfg, w->file);
    char text[512], *save = NULL;
    snprintf(text, sizeof text, "%s", w->set);
    for (char *a = strtok_r(text, ";", &save); !s && a; a = strtok_r(NULL, ";", &save)) s = fl_config_set(cfg, a);
    return s;
}

static fl_status whole_run(fixture *f, const void *arg)
{
    const whole *w = arg;
    fl_run *run = NULL;
    fl_config *cfg = fl_config_new(f->ctx);
    if (!cfg) return FL_ENOMEM;
    fl_status s = load(cfg, w);
    if (!s) s = fl_run_new(cfg, &run);
    fl_config_free(cfg);
    if (!s && w->save) s = fl_run_prepare_save(run, 1);
    if (!s) s = fl_run_go(run, NULL, NULL);
    if (!s && w->save) s = fl_run_save(run);
    fl_run_free(run);
    return s;
}

static const char config[] =
    "rounds: 2\nthreads: %d\nprecision: f64\n%s"
    "data: {kind: blobs, classes: 2, features: 3, samples: 24, test_samples: 6, test_fraction: 0.2}\n"
    "partition: {kind: dirichlet, clients: 4, min_size: 2}\nmodel: {kind: mlp, hidden: [3]}\n"
    "participation: %s\nsystem: lognormal\nlocal: {batch: 3, momentum: 0.5}\nmetrics: {gradient: true, targets: [0.5, "
    "0.9]}\n";

static void configuration_to_result(void **state)
{
    fixture *f = *state;
    char text[1024], output[128], file[128];
    snprintf(output, sizeof output, "output: %s/out\n", f->folder);
    snprintf(text, sizeof text, config, 1, output, "{kind: uniform, count: 3}");
    snprintf(file, sizeof file, "%s", fixture_write(f, "config.yaml", text));
    whole w = {file, "algorithm=scaffold", 1};
    assert_true(torture(f, whole_run, &w) > 50);
    assert_int_equal(entries(f->folder), 2); /* config.yaml and out: nothing half-written */
    assert_int_equal(entries(fixture_path(f, "out")), 7);
    assert_true(torture(f, whole_run, &w) > 50); /* again, now with a result that is replaced */
    assert_int_equal(entries(f->folder), 2);
}

static fl_status stopped_and_resumed(fixture *f, const void *arg)
{
    fl_run *run = NULL;
    whole w = *(const whole *)arg;
    char folder[128];
    snprintf(folder, sizeof folder, "%s/out.checkpoint", f->folder);
    nftw(fixture_path(f, "out"), remove_entry, 16, FTW_DEPTH | FTW_PHYS); /* or there would be nothing left to do */
    fl_config *cfg = fl_config_new(f->ctx);
    if (!cfg) return FL_ENOMEM;
    fl_status s = load(cfg, &w);
    if (!s) s = fl_run_new(cfg, &run);
    if (!s) s = fl_run_prepare_save(run, 1);
    if (!s) fl_run_stop(run);
    if (!s) s = fl_run_go(run, NULL, NULL); /* stops at once, with a checkpoint */
    fl_run_free(run);
    fl_config_free(cfg);
    run = NULL;
    cfg = s ? NULL : fl_config_new(f->ctx);
    if (!s) s = cfg ? fl_config_resume(cfg, folder) : FL_ENOMEM;
    if (!s) s = fl_run_resume(cfg, &run);
    if (!s) s = fl_run_prepare_save(run, 1);
    if (!s) s = fl_run_go(run, NULL, NULL);
    if (!s) s = fl_run_save(run);
    fl_run_free(run);
    fl_config_free(cfg);
    return s;
}

/* Checkpoints, and client state beyond its budget. */
static void checkpoints_survive_failing_allocations(void **state)
{
    fixture *f = *state;
    static const char *const methods[] = {"algorithm=scaffold",
                                          "algorithm=fedbuff",
                                          "algorithm=scaffold;executor=loopback",
                                          "algorithm=fedbuff;executor=loopback",
                                          "algorithm=apfl;executor=loopback",
                                          "algorithm=scaffold;device=twin",
                                          "algorithm=fedbuff;device=twin",
                                          "algorithm=apfl;device=twin"};
    char text[1024], output[160], file[128];
    snprintf(output, sizeof output, "memory: 1\ncheckpoint_every: 1\noutput: %s/out\n", f->folder);
    snprintf(text, sizeof text, config, 1, output, "{kind: uniform, count: 3}");
    snprintf(file, sizeof file, "%s", fixture_write(f, "config.yaml", text));
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        whole w = {file, methods[i], 1};
        assert_true(torture_until(f, stopped_and_resumed, &w, 20) > 100);
        assert_int_equal(entries(f->folder), 2);
    }
}

/* Sparse data, from the file to sparse batches and back to dense rows (the exact solver, networks). */
static void sparse_data(void **state)
{
    fixture *f = *state;
    char text[1024], data[128], file[128];
    snprintf(data, sizeof data, "%s", fixture_write(f, "s.txt", "1 1:1 90:2\n-1 3:4\n1 7:1\n-1 3:2 8:1\n"));
    snprintf(text, sizeof text,
             "rounds: 2\nthreads: 1\ndata: {kind: libsvm, train: %s, test: %s, normalize: columns}\n"
             "partition: {kind: iid, clients: 2}\nparticipation: everyone\nmodel: logistic\nlocal: {batch: 1}\n",
             data, data);
    snprintf(file, sizeof file, "%s", fixture_write(f, "config.yaml", text));
    static const char *const sets[] = {"model=logistic", "model={kind: mlp, hidden: [3]}", "data.storage=dense"};
    for (size_t i = 0; i < 3; i++) {
        whole w = {file, sets[i], 0};
        assert_true(torture(f, whole_run, &w) > 50);
    }
}

static void every_algorithm(void **state)
{
    fixture *f = *state;
    char text[1024], file[128], set[256];
    snprintf(text, sizeof text, config, 1, "", "everyone");
    snprintf(file, sizeof file, "%s", fixture_write(f, "config.yaml", text));
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        snprintf(set, sizeof set, "algorithm=%s%s", (*a)->name, levels_for(*a, "mlp"));
        whole w = {file, set, 0};
        assert_true(torture_until(f, whole_run, &w, fli_algo_is_async(*a) ? 20 : 1) > 30);
    }
    whole slices = {file, "algorithm=scaffold;model={kind: mlp, hidden: [5000]}", 0}; /* of the server's vectors */
    assert_true(torture(f, whole_run, &slices) > 30);
}

/* Labels taken away and guessed, own models, and mixtures that the clients choose. */
static void pseudo_labels(void **state)
{
    fixture *f = *state;
    static const char *const methods[] = {
        "fedavg", "fedshvrp", "fedvra-u", "apfl", "{kind: apsfl, mix: auto}", "{kind: fedcpsl, mix: auto}"};
    for (size_t k = 0; k < 12; k++) {
        char text[1024], file[128], set[64];
        snprintf(text, sizeof text,
                 "rounds: 2\nthreads: 1\nmodel: {kind: mlp, hidden: [3]}\nparticipation: {kind: uniform, count: 2}\n"
                 "data: {kind: blobs, classes: 2, features: 3, samples: 60, test_samples: 6, unlabelled: 0.5}\n"
                 "partition: {kind: iid, clients: 3}\nlocal: {batch: 3}\nsemi: {labels: %s}\nmetrics: {local: true}\n",
                 k % 2 ? "projected" : "closed_form");
        snprintf(file, sizeof file, "%s", fixture_write(f, "config.yaml", text));
        snprintf(set, sizeof set, "algorithm=%s", methods[k / 2]);
        whole w = {file, set, 0};
        assert_true(torture(f, whole_run, &w) > 30);
    }
}

/* Vectors, solvers and evaluations elsewhere. */
static void on_a_device(void **state)
{
    fixture *f = *state;
    static const char *const sets[] = {
        "algorithm=fedvra", "algorithm=fedadam", "algorithm=fedlin",
        "algorithm={kind: fedcpsl, mix: auto};data.unlabelled=0.5;semi.labels=closed_form;metrics.local=true",
        "algorithm=fedvra-u;data.unlabelled=0.5;semi={labels: projected, label_batch: 1}"};
    char text[1024], file[128];
    snprintf(text, sizeof text, config, 1, "device: twin\n", "everyone");
    snprintf(file, sizeof file, "%s", fixture_write(f, "config.yaml", text));
    for (size_t i = 0; i < sizeof sets / sizeof *sets; i++) {
        whole w = {file, sets[i], 0};
        assert_true(torture(f, whole_run, &w) > 50);
    }
}

/* Workers allocate as well (client state, data on demand): one fails, the others carry on to the end of the block. */
static void several_threads(void **state)
{
    fixture *f = *state;
    char file[128];
    snprintf(
        file, sizeof file, "%s",
        fixture_write(
            f, "config.yaml",
            "rounds: 2\nthreads: 3\nmodel: softmax\nparticipation: everyone\nlocal: {batch: 10}\n"
            "data: {kind: synthetic, on_demand: true, clients: 5, features: 4, classes: 3, sizes: fixed, size: 12}\n"));
    whole w = {file, "algorithm=scaffold", 0};
    assert_true(torture(f, whole_run, &w) > 30);
}

/* Turns are computed ahead, and a failure ends the run at once. */
static void asynchronous_runs_survive_failing_allocations(void **state)
{
    fixture *f = *state;
    static const char *const methods[] = {"{kind: asyncfeddr, solver: exact, tau: 4}", "fedasync",
                                          "{kind: fedbuff, buffer: 2}"};
    char text[1024], file[128], trace[128], set[128];
    snprintf(trace, sizeof trace, "%s", fixture_write(f, "devices", "1 5 7\n2\n0.5 # fast\n"));
    for (int threads = 1; threads <= 3; threads += 2) {
        snprintf(text, sizeof text,
                 "rounds: 6\nthreads: %d\nprecision: f64\nmodel: least_squares\nparticipation: {kind: "
                 "uniform, count: 3}\nlocal: {batch: 3}\nsystem: {kind: trace, path: %s}\n"
                 "data: {kind: linreg, clients: 5, features: 3, min_size: 4, max_size: 6}\n",
                 threads, trace);
        snprintf(file, sizeof file, "%s", fixture_write(f, "config.yaml", text));
        for (size_t m = 0; m < 3; m++) {
            snprintf(set, sizeof set, "algorithm=%s", methods[m]);
            whole w = {file, set, 0};
            assert_true(torture_until(f, whole_run, &w, 20) > 40);
        }
    }
}

/* A trace of devices, and rounds with a deadline. */
static void traced_devices_survive_failing_allocations(void **state)
{
    fixture *f = *state;
    char text[1024], file[128], set[256];
    snprintf(set, sizeof set, "system={kind: trace, path: %s, deadline: 2, wait_for: 0.5}",
             fixture_write(f, "devices", "1\n0.1 2 3\n"));
    snprintf(text, sizeof text, config, 1, "", "everyone");
    snprintf(file, sizeof file, "%s", fixture_write(f, "config.yaml", text));
    whole w = {file, set, 0};
    assert_true(torture(f, whole_run, &w) > 30);
}

static void every_way_of_taking_part(void **state)
{
    fixture *f = *state;
    char text[1024], file[128], trace[256];
    snprintf(trace, sizeof trace, "participation={kind: trace, path: %s}", fixture_write(f, "trace", "0 1\n2\n\n3\n"));
    const char *const ways[] = {"participation={kind: bernoulli, probability: [0.5, 0.5, 1, 1]}",
                                "participation={kind: weighted, count: 2}", "participation={kind: cyclic, count: 2}",
                                trace};
    snprintf(text, sizeof text, config, 1, "", "everyone");
    snprintf(file, sizeof file, "%s", fixture_write(f, "config.yaml", text));
    for (size_t i = 0; i < 4; i++) {
        whole w = {file, ways[i], 0};
        assert_true(torture(f, whole_run, &w) > 30);
    }
}

/* ---- the rest of the public header ------------------------------------------------------------------------- */

static fl_status verify(fixture *f, const void *arg)
{
    double error;
    return fl_verify(f->ctx, arg, 1e-9, &error);
}

static void golden_cases(void **state)
{
    static const char *const names[] = {"scaffold",
                                        "fedpd",
                                        "fedprox",
                                        "feddr-exact-l1",
                                        "asyncfeddr-exact-l1",
                                        "fedgia-gram",
                                        "fedcpsl",
                                        "fedvra-u-projected",
                                        "fedgia-diagonal-logistic",
                                        "shrofbo",
                                        "fbo-aggitd"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[512];
        snprintf(path, sizeof path, TEST_ROOT "/golden/%s.json", names[i]);
        assert_true(torture(*state, verify, path) > 10);
    }
}

static void ignore_text(void *arg, const char *text)
{
    (void)arg;
    (void)text;
}

static fl_status describe(fixture *f, const void *arg)
{
    fl_config *cfg = fl_config_new(f->ctx);
    if (!cfg) return FL_ENOMEM;
    fl_status s = fl_config_load(cfg, arg);
    if (!s) s = fl_config_check(cfg);
    if (!s) s = fl_data_describe(cfg, NULL, 3, fixture_path(f, "parts.json"), ignore_text, NULL);
    fl_config_free(cfg);
    return s;
}

static void descriptions_survive_failing_allocations(void **state)
{
    fixture *f = *state;
    char text[1024], file[128];
    snprintf(text, sizeof text, config, 1, "", "everyone");
    snprintf(file, sizeof file, "%s", fixture_write(f, "config.yaml", text));
    assert_true(torture(f, describe, file) > 20);
}

/* A mistake is still reported as one, or as out of memory, when memory runs out while it is being described. */
static void mistakes_are_reported_without_memory(void **state)
{
    fixture *f = *state;
    char file[128];
    snprintf(file, sizeof file, "%s",
             fixture_write(f, "config.yaml", "data: blobs\nmodel: softmax\nroundz: 1\nlocal: {lr: x}\n"));
    for (size_t k = 1; k < 200; k++) {
        fli_ctx_fail_alloc(f->ctx, k);
        fl_status s = describe(f, file);
        fli_ctx_fail_alloc(f->ctx, 0);
        assert_true(s == FL_ENOMEM || s == FL_ECONFIG);
        assert_true(fl_ctx_error(f->ctx)[0]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(configuration_to_result),
        FIXTURE_TEST(checkpoints_survive_failing_allocations),
        FIXTURE_TEST(sparse_data),
        FIXTURE_TEST(every_algorithm),
        FIXTURE_TEST(pseudo_labels),
        FIXTURE_TEST(on_a_device),
        FIXTURE_TEST(several_threads),
        FIXTURE_TEST(asynchronous_runs_survive_failing_allocations),
        FIXTURE_TEST(traced_devices_survive_failing_allocations),
        FIXTURE_TEST(every_way_of_taking_part),
        FIXTURE_TEST(golden_cases),
        FIXTURE_TEST(descriptions_survive_failing_allocations),
        FIXTURE_TEST(mistakes_are_reported_without_memory),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
