/* A run that goes on from a checkpoint ends with the same bytes as one that was never stopped: for every algorithm that
 * is listed, however it was stopped, and also with client state beyond its budget. */
#include "fixture.h"

#include "algo/algo.h"
#include "base/os.h"

#include <signal.h>
#include <sys/wait.h>
#include <time.h>

static const char base[] =
    "rounds: 9\n"
    "data: {kind: blobs, classes: 4, features: 6, samples: 240, test_samples: 50, test_fraction: 0.2}\n"
    "partition: {kind: iid, clients: 12}\nsystem: {kind: lognormal, sigma: 1, jitter: 0.3}\n"
    "local: {batch: 5, lr: 0.05, uneven: range, range: [1, 3]}\nmodel: {kind: mlp, hidden: [5]}\n"
    "metrics: {gradient: true, every: 2, targets: [0.3, 0.99]}\n";

/* The base configuration, assignments on top (separated by ';'), and where its result goes. */
static fl_config *config_of(fixture *f, const char *assignments, const char *output)
{
    char text[1024], *save = NULL;
    fl_config *cfg = fixture_config(f, base);
    snprintf(text, sizeof text, "%s;output=%s/%s", assignments, f->folder, output);
    for (char *a = strtok_r(text, ";", &save); a; a = strtok_r(NULL, ";", &save))
        assert_ok(f->ctx, fl_config_set(cfg, a));
    return cfg;
}

typedef struct {
    fl_run *run;
    size_t stop, die; /* after this many rounds; SIZE_MAX: never */
} ending;

static void end_at(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    ending *e = arg;
    (void)run;
    (void)measured;
    if (fl_row_round(row) >= e->die) kill(getpid(), SIGKILL);
    if (fl_row_round(row) >= e->stop) fl_run_stop(e->run);
}

/* Goes on until the end or the ending; saves what is finished. */
static void go(fixture *f, fl_run *run, ending e)
{
    e.run = run;
    assert_ok(f->ctx, fl_run_go(run, end_at, &e));
    if (fl_run_stopped_by(run) != FL_STOP_ASKED) assert_ok(f->ctx, fl_run_save(run));
    fl_run_free(run);
}

static const ending to_the_end = {NULL, SIZE_MAX, SIZE_MAX};

static void begin(fixture *f, const char *assignments, const char *output, ending e)
{
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, assignments, output);
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    go(f, run, e);
}

/* On the executor of that name; NULL: the one it began on. */
static void resume_on(fixture *f, const char *executor, const char *output, ending e)
{
    fl_run *run = NULL;
    char set[64];
    fl_config *cfg = fl_config_new(f->ctx);
    assert_ok(f->ctx, fl_config_resume(cfg, fixture_path(f, output)));
    snprintf(set, sizeof set, "executor=%s", executor ? executor : "");
    if (executor) assert_ok(f->ctx, fl_config_set(cfg, set));
    assert_ok(f->ctx, fl_run_resume(cfg, &run));
    fl_config_free(cfg);
    go(f, run, e);
}

static void resume(fixture *f, const char *output, ending e) { resume_on(f, NULL, output, e); }

/* The same in a process that is killed: by itself after a round, or from outside after this many microseconds (0: not).
 * Returns whether it came to its end. */
static int in_a_process(fixture *f, const char *assignments, const char *output, ending e, long microseconds)
{
    int status;
    pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        char file[64];
        snprintf(file, sizeof file, "%s.checkpoint/config.yaml", output);
        if (!access(fixture_path(f, output), F_OK)) _exit(0); /* it was killed after its result was there */
        if (access(fixture_path(f, file), F_OK))
            begin(f, assignments, output, e);
        else
            resume(f, output, e);
        _exit(0);
    }
    if (microseconds) {
        nanosleep(&(struct timespec){microseconds / 1000000, microseconds % 1000000 * 1000}, NULL);
        kill(child, SIGKILL);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_true(WIFSIGNALED(status) ? WTERMSIG(status) == SIGKILL : WEXITSTATUS(status) == 0);
    return WIFEXITED(status);
}

/* A file of a result, wall-clock seconds taken out. */
static char *contents(fixture *f, const char *output, const char *name, size_t *size)
{
    char path[600];
    snprintf(path, sizeof path, "%s/%s/%s", f->folder, output, name);
    char *text = read_whole(path, size);
    if (!text) fail_msg("%s is missing", path);
    for (char *at = text; !strcmp(name, "metrics.jsonl") && (at = strstr(at, "\"seconds\": "));)
        for (at += strlen("\"seconds\": "); *at != ','; at++) *at = '0';
    return text;
}

/* How long wall-clock seconds are written differs too. */
static size_t squeeze(char *text, size_t size)
{
    size_t n = 0;
    for (size_t i = 0; i < size; i++)
        if (!(n > 10 && text[i] == '0' && text[n - 1] == '0' && !strncmp(text + n - 2, " 0", 2))) text[n++] = text[i];
    return n;
}

static void same_results(fixture *f, const char *a, const char *b, const char *what)
{
    static const char *const names[] = {"metrics.jsonl", "model.safetensors", "clients.csv"};
    for (size_t i = 0; i < 3; i++) {
        size_t n, m;
        char *x = contents(f, a, names[i], &n), *y = contents(f, b, names[i], &m);
        if (!i) {
            n = squeeze(x, n);
            m = squeeze(y, m);
        }
        if (n != m || memcmp(x, y, n)) fail_msg("%s: %s differs", what, names[i]);
        free(x);
        free(y);
    }
}

static void forget(fixture *f, const char *name)
{
    nftw(fixture_path(f, name), remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

/* Stopped and killed in turn, with each of the budgets, on either executor, and from one to the other. */
static void goes_on(fixture *f, const char *assignments)
{
    static const char *const budgets[] = {"auto", "1", "3KiB"}, *const executors[] = {"threads", "loopback", "threads"};
    char text[800];
    begin(f, assignments, "whole", to_the_end);
    for (size_t k = 0; k < 3; k++) {
        snprintf(text, sizeof text, "%s;checkpoint_every=%zu;memory=%s;executor=%s", assignments, 1 + k, budgets[k],
                 executors[k]);
        begin(f, text, "stopped", (ending){NULL, 3, SIZE_MAX}); /* in the observer, without a row of its own */
        resume_on(f, executors[(k + 1) % 3], "stopped", (ending){NULL, 6, SIZE_MAX}); /* with one */
        resume(f, "stopped", to_the_end);
        same_results(f, "whole", "stopped", text);
        if (!in_a_process(f, text, "killed", (ending){NULL, SIZE_MAX, 5}, 0)) resume(f, "killed", to_the_end);
        same_results(f, "whole", "killed", text);
        assert_int_not_equal(access(fixture_path(f, "killed.checkpoint"), F_OK), 0); /* nothing is left */
        forget(f, "stopped");
        forget(f, "killed");
    }
    forget(f, "whole");
}

static void every_algorithm(void **state)
{
    fixture *f = *state;
    for (const fl_method *const *a = fli_algo_list; *a; a++) {
        char text[256];
        int local = !fli_algo_is_async(*a), levels = ((*a)->traits & FL_METHOD_BILEVEL) != 0;
        snprintf(text, sizeof text, "algorithm=%s;participation=%s;threads=%d;precision=%s;metrics.local=%s;bilevel=%s",
                 (*a)->name, (*a)->traits & FL_METHOD_EVERYONE ? "everyone" : "{kind: uniform, count: 7}",
                 local ? 2 : 1, local ? "f64" : "f32", local ? "true" : "false",
                 levels ? "hyper_representation" : "none");
        goes_on(f, text);
    }
}

#define LINEAR                                                                                                         \
    "data={kind: linreg, clients: 12, features: 20, min_size: 10, max_size: 30};partition={};"                         \
    "model={kind: least_squares, weight_decay: 0.01};participation={kind: uniform, count: 5};metrics.targets=[];"

/* Solvers that keep something, rounds that leave clients behind or exchange nothing, buffers, bounds on ages, other
 * ways of taking part. */
static void other_settings(void **state)
{
    static const char *const settings[] = {
        "bilevel=hyper_representation;participation={kind: uniform, count: 7};metrics.hypergradient=true;rounds=8;"
        "algorithm={kind: fednest, inner_rounds: 2, cohort: each, anchor: full}",
        LINEAR "algorithm={kind: feddr, eta: 0.1, init: exact, solver: exact};regularizer={kind: l1, "
               "weight: 0.05}",
        LINEAR "algorithm={kind: fedgia, variant: gram, k0: 9}",
        LINEAR "algorithm={kind: fedgia, variant: gram, k0: 40, t: "
               "0.001};precision=f64;stop.diverged=0", /* eigenvalues from the second turn on */
        LINEAR "algorithm={kind: fedgia, variant: diagonal};precision=f64",
        LINEAR "algorithm={kind: asyncfeddr, eta: 0.1, solver: exact};regularizer={kind: l1, weight: "
               "0.05};rounds=40",
        "algorithm={kind: feddr, eta: 0.5, alpha: 1, solver: accurate, relative: 0.1, accuracy: 1, "
        "most_steps: 9}",
        "algorithm={kind: fedpd, skip: 0.5};participation=everyone",
        "algorithm=scaffold;system.wait_for=0.5;system.deadline=0.02;local.momentum=0.9",
        "algorithm=feddyn;participation={kind: weighted, count: "
        "4};local.uneven=speeds;local.schedule=exponential",
        "algorithm=feddyn;participation={kind: weighted, count: 4};local.uneven=range;local.schedule=log2;"
        "local.schedule_by=step;model.weight_decay=0.5;model.weight_decay_by=samples",
        "algorithm=fedvra;participation={kind: cyclic, count: 5};metrics.local=true;metrics.every=1",
        "algorithm={kind: fedvra, d: auto, a: 1, gamma: 0.1};participation={kind: bernoulli, probability: 0.3, "
        "factors: [1, 2, 0.5]}",
        "algorithm={kind: fedbuff, buffer: 3, tau: 4};rounds=30;participation={kind: uniform, count: "
        "5};metrics.every=7",
        "algorithm={kind: fedasync, staleness: hinge, tau: "
        "11};rounds=40;participation=everyone;metrics.every=3",
        "algorithm=fedvra-u;data.unlabelled=0.5;semi.labels=projected;semi.label_steps=3",
        "algorithm=fedvra-u;data.unlabelled=0.5;semi.labels=projected;semi.label_steps=3;semi.label_batch=2",
        "algorithm={kind: fedcpsl, mix: "
        "auto};data.unlabelled=0.5;semi.labels=projected;metrics.local=true;local.momentum="
        "0.8",
        /* several slices of the server's vectors */
        "algorithm={kind: fedbuff, buffer: 3};rounds=12;participation={kind: uniform, count: 5};"
        "model={kind: mlp, hidden: [3000]}",
        "algorithm=fednova;participation={kind: uniform, count: 5};model={kind: mlp, hidden: [3000]}",
        "algorithm=scaffold;data={kind: synthetic, on_demand: true, clients: 9, features: 5, classes: "
        "3};partition={};metrics.targets=[]",
    };
    for (size_t i = 0; i < sizeof settings / sizeof *settings; i++) goes_on(*state, settings[i]);
}

/* kill -9 at any moment, again and again: while a round is under way, while a checkpoint is written, while the result
 * is. */
static void killed_at_any_moment(void **state)
{
    fixture *f = *state;
    static const char *const methods[] = {"scaffold", "{kind: fedbuff, buffer: 2}", "fedvra"};
    fli_rng rng;
    fli_rng_init(&rng, 11, FLI_RNG_TEST, 0, 0);
    for (size_t k = 0; k < 3; k++) {
        char text[256];
        snprintf(text, sizeof text, "algorithm=%s;rounds=400;checkpoint_every=3;memory=4KiB;metrics.every=10",
                 methods[k]);
        double start = fli_clock_now();
        begin(f, text, "whole", to_the_end);
        uint64_t third = (uint64_t)((fli_clock_now() - start) * 1e6 / 3) + 1; /* fast machines and slow ones */
        int done = 0;
        for (int kills = 0; !done && kills < 25; kills++)
            done = in_a_process(f, text, "killed", to_the_end, 1 + (long)fli_rng_below(&rng, third));
        if (!done) in_a_process(f, text, "killed", to_the_end, 0);
        same_results(f, "whole", "killed", text);
        forget(f, "whole");
        forget(f, "killed");
        forget(f, "killed.partial");
        forget(f, "killed.checkpoint");
    }
}

/* ---- comparisons ------------------------------------------------------------------------------------------- */

typedef struct {
    fl_study *study;
    int stop;     /* after six rounds */
    size_t first; /* round that was seen */
} watcher;

static void watch_study(void *arg, const fl_study_progress *p)
{
    watcher *w = arg;
    if (w->first == SIZE_MAX) w->first = p->round;
    if (w->stop && p->round >= 6) fl_study_stop(w->study);
}

/* A comparison that was stopped goes on within its runs. */
static void a_stopped_comparison_goes_on(void **state)
{
    fixture *f = *state;
    char text[1200];
    for (int k = 0; k < 3; k++) { /* whole; stopped; going on */
        snprintf(text, sizeof text, "%sseeds: 1\nmethods: [{label: a, algorithm: scaffold}]\noutput: %s/%s\n%s", base,
                 f->folder, k ? "stopped" : "whole", k ? "checkpoint_every: 1\n" : "");
        fl_config *cfg = fixture_config_named(f, "compare.yaml", text);
        watcher w = {NULL, k == 1, SIZE_MAX};
        assert_ok(f->ctx, fl_study_new(cfg, NULL, &w.study));
        assert_ok(f->ctx, fl_study_go(w.study, watch_study, &w));
        assert_int_equal(w.first, k == 2 ? 6 : 0);
        if (k == 1) {
            assert_int_equal(access(fixture_path(f, "stopped/runs/a/seed-1.checkpoint/6.checkpoint"), F_OK), 0);
            assert_int_not_equal(access(fixture_path(f, "stopped/runs/a/seed-1"), F_OK), 0);
        } else
            assert_ok(f->ctx, fl_study_write(w.study));
        fl_study_free(w.study);
        fl_config_free(cfg);
    }
    same_results(f, "whole/runs/a/seed-1", "stopped/runs/a/seed-1", "comparison");
    assert_int_not_equal(access(fixture_path(f, "stopped/runs/a/seed-1.checkpoint"), F_OK), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(every_algorithm),
        FIXTURE_TEST(other_settings),
        FIXTURE_TEST(killed_at_any_moment),
        FIXTURE_TEST(a_stopped_comparison_goes_on),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
