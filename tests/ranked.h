/* Runs that several ranks make together, held to the bits of one process. The ranks are threads (team.h), each with a
 * context, a configuration and a run of its own. */
#ifndef TESTS_RANKED_H
#define TESTS_RANKED_H

#include "many_settings.h"
#include "outcome.h"
#include "team.h"

#include "config/config.h"
#include "run/state.h"

/* What a rank is to do, and what came out. */
typedef struct {
    const char *settings; /* assignments, separated by ';' */
    size_t slice;
    void (*begin)(fl_run *run, const fl_ranks *ranks); /* called before it goes; NULL: nobody is */
    fl_observer_fn *observer;
    size_t stored; /* training samples that this rank has, */
    size_t tests;  /* and those of the test set */
    size_t bytes;  /* that all ranks sent */
    outcome out;
    fl_status status;
    fl_stop stopped;
    char why[1024];
} task;

static void make_run(const fl_ranks *ranks, void *arg)
{
    task *t = arg;
    fl_ctx *ctx = fl_ctx_new();
    fl_config *cfg = fl_config_new(ctx);
    fl_run *run = NULL;
    char text[1024], *save = NULL;
    snprintf(text, sizeof text, "%s", t->settings);
    fl_status s = fl_config_text(cfg, many_base, "base");
    for (char *a = strtok_r(text, ";", &save); !s && a; a = strtok_r(NULL, ";", &save)) s = fl_config_set(cfg, a);
    if (!s) s = fl_config_ranks(cfg, ranks);
    cfg->slice = t->slice;
    if (!s) s = fl_run_new(cfg, &run);
    if (!s && *fl_run_output(run)) s = fl_run_prepare_save(run, 0);
    if (!s && t->begin) t->begin(run, ranks);
    if (!s) s = fl_run_go(run, t->observer, (void *)ranks);
    if (!s && *fl_run_output(run)) s = fl_run_save(run);
    t->status = s;
    snprintf(t->why, sizeof t->why, "%s", fl_ctx_error(ctx));
    if (!s) t->out = outcome_of(run);
    t->stored = !s && run->plan.fed->train ? run->plan.fed->train->n : 0;
    t->tests = !s && run->plan.fed->test ? run->plan.fed->test->n : 0;
    if (!s) t->stopped = fl_run_stopped_by(run);
    fl_run_free(run);
    fl_config_free(cfg);
    fl_ctx_free(ctx);
}

enum { MOST = 5 };

/* As so many ranks, as `like` says; all of them must find the same. What they have stored is that of all. */
UNUSED static task run_like(const task *like, uint32_t ranks)
{
    task tasks[MOST] = {0};
    void *args[MOST] = {0};
    for (uint32_t i = 0; i < ranks; i++) {
        tasks[i] = *like;
        args[i] = &tasks[i];
    }
    tasks[0].bytes = team_run(ranks, make_run, args);
    for (uint32_t i = 1; i < ranks; i++) {
        if (tasks[i].status != tasks[0].status || strcmp(tasks[i].why, tasks[0].why))
            fail_msg("%s: rank 0 says %d, %s; rank %u of %u %d, %s", like->settings, tasks[0].status, tasks[0].why, i,
                     ranks, tasks[i].status, tasks[i].why);
        if (!tasks[0].status && !same(&tasks[0].out, &tasks[i].out))
            fail_msg("%s: rank %u of %u has other bits than rank 0", like->settings, i, ranks);
        if (!tasks[i].status) outcome_free(&tasks[i].out);
        tasks[0].stored += tasks[i].stored;
        tasks[0].tests += tasks[i].tests;
    }
    return tasks[0];
}

UNUSED static task run_of(const char *settings, uint32_t ranks, size_t slice)
{
    return run_like(&(task){.settings = settings, .slice = slice}, ranks);
}

UNUSED static void same_over_ranks(const char *settings)
{
    task one = run_of(settings, 1, 0);
    if (one.status) fail_msg("%s: %s", settings, one.why);
    for (uint32_t ranks = 2; ranks <= MOST; ranks++) {
        task many = run_of(settings, ranks, ranks == 3 ? 0 : 7);
        if (many.status) fail_msg("%s: %u ranks: %s", settings, ranks, many.why);
        if (!same(&one.out, &many.out)) fail_msg("%s: %u ranks give other bits", settings, ranks);
        outcome_free(&many.out);
    }
    outcome_free(&one.out);
}

#endif
