/* Small runs for tests that look at what a run does and leaves. */
#ifndef TESTS_RUNS_H
#define TESTS_RUNS_H

#include "fixture.h"

#include "run/state.h"

#include <dirent.h>
#include <sys/wait.h>

#define BLOBS "data: {kind: blobs, classes: 3, features: 4, samples: 120, test_samples: 60}\n"
#define SMALL                                                                                                          \
    BLOBS "seed: 5\nrounds: 6\nthreads: 2\nmodel: softmax\npartition: {kind: iid, clients: 8}\n"                       \
          "participation: {kind: uniform, count: 4}\nlocal: {batch: 5, lr: 0.1}\n"

/* The YAML with assignments on top, separated by ';'. */
static inline fl_config *config_of(fixture *f, const char *yaml, const char *assignments)
{
    char text[2048], *save = NULL;
    fl_config *cfg = fixture_config(f, yaml);
    snprintf(text, sizeof text, "%s", assignments);
    for (char *a = strtok_r(text, ";", &save); a; a = strtok_r(NULL, ";", &save))
        assert_ok(f->ctx, fl_config_set(cfg, a));
    return cfg;
}

static inline fl_run *run_new(fixture *f, const char *yaml, const char *assignments)
{
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, yaml, assignments);
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg); /* a run does not need its configuration */
    return run;
}

static inline fl_run *run_done(fixture *f, const char *yaml, const char *assignments)
{
    fl_run *run = run_new(f, yaml, assignments);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    return run;
}

/* The same run on other terms: its executor, and what stands on it, made anew from this. To be called before it
 * goes. */
UNUSED static void run_anew(fixture *f, fl_run *run, const fli_exec_spec *spec)
{
    fli_measure_free(run->measure);
    fli_async_free(run->async);
    fli_exec_free(run->exec);
    run->measure = NULL;
    run->async = NULL;
    assert_ok(f->ctx, fli_exec_new(f->ctx, spec, &run->exec));
    assert_ok(f->ctx,
              fli_measure_new(f->ctx, run->exec, &run->plan.settings->metrics, &run->plan.ask_params, &run->measure));
    if (fli_algo_is_async(run->plan.setup.algo)) assert_ok(f->ctx, fli_arrivals_prepare(run));
    assert_ok(f->ctx, fli_model_start(f->ctx, run->plan.model, (uint64_t)run->plan.settings->top.seed,
                                      fli_exec_server(run->exec)[0]));
    fli_exec_server_changed(run->exec);
}

/* What a child process that does this exits with; -1 if a signal ended it. */
UNUSED static int in_child(int (*work)(fixture *f), fixture *f)
{
    int status;
    pid_t child = fork();
    if (!child) _exit(work(f));
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

/* The training loss before and after a run. */
static inline double final_loss(fixture *f, const char *yaml, const char *assignments, double *start)
{
    const fl_row *rows;
    fl_run *run = run_done(f, yaml, assignments);
    size_t n = fl_run_rows(run, &rows);
    double last = fl_row_get(&rows[n - 1], "train_loss");
    *start = fl_row_get(&rows[0], "train_loss");
    fl_run_free(run);
    return last;
}

/* A configuration that no run can be made of. */
static inline void refuse(fixture *f, const char *yaml, const char *text)
{
    fl_run *run = NULL;
    fl_config *cfg = fixture_config(f, yaml);
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, text);
    fl_config_free(cfg);
}

/* Names in a folder; -1 if there is none. */
static inline int entries(const char *path)
{
    int n = 0;
    DIR *dir = opendir(path);
    if (!dir) return -1;
    for (struct dirent *e; (e = readdir(dir));) n += e->d_name[0] != '.';
    closedir(dir);
    return n;
}

#endif
