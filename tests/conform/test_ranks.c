/* The same bits over any number of ranks: for every algorithm that is listed. The ranks are threads (team.h), each with a
 * context, a configuration and a run of its own. */
#include "outcome.h"
#include "team.h"

#include "algo/algo.h"
#include "run/config.h"

static const char base[] =
    "rounds: 4\n"
    "data: {kind: blobs, classes: 4, features: 6, samples: 240, test_samples: 50, test_fraction: 0.2}\n"
    "partition: {kind: iid, clients: 12}\nsystem: {kind: lognormal, jitter: 0.3}\n"
    "local: {batch: 5, lr: 0.1, uneven: range, range: [1, 3]}\n"
    "metrics: {gradient: true}\n";

/* What a rank is to do, and what came out. */
typedef struct {
    const char *settings; /* assignments, separated by ';' */
    size_t slice;
    outcome out;
    fl_status status;
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
    fl_status s = fl_config_text(cfg, base, "base");
    for (char *a = strtok_r(text, ";", &save); !s && a; a = strtok_r(NULL, ";", &save)) s = fl_config_set(cfg, a);
    if (!s) s = fl_config_ranks(cfg, ranks);
    cfg->slice = t->slice;
    if (!s) s = fl_run_new(cfg, &run);
    if (!s) s = fl_run_go(run, NULL, NULL);
    t->status = s;
    snprintf(t->why, sizeof t->why, "%s", fl_ctx_error(ctx));
    if (!s) t->out = outcome_of(run);
    fl_run_free(run);
    fl_config_free(cfg);
    fl_ctx_free(ctx);
}

enum { MOST = 5 };

/* As so many ranks; all of them must find the same. */
static task run_of(const char *settings, uint32_t ranks, size_t slice)
{
    task tasks[MOST] = {0};
    void *args[MOST];
    for (uint32_t i = 0; i < ranks; i++) {
        tasks[i] = (task){.settings = settings, .slice = slice};
        args[i] = &tasks[i];
    }
    team_run(ranks, make_run, args);
    for (uint32_t i = 1; i < ranks; i++) {
        if (tasks[i].status != tasks[0].status || strcmp(tasks[i].why, tasks[0].why))
            fail_msg("%s: rank 0 says %d, %s; rank %u of %u %d, %s", settings, tasks[0].status, tasks[0].why, i, ranks,
                     tasks[i].status, tasks[i].why);
        if (!tasks[0].status && !same(&tasks[0].out, &tasks[i].out))
            fail_msg("%s: rank %u of %u has other bits than rank 0", settings, i, ranks);
        if (!tasks[i].status) outcome_free(&tasks[i].out);
    }
    return tasks[0];
}

static void same_over_ranks(const char *settings)
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

static void every_algorithm(void **state)
{
    (void)state;
    for (const fli_algo *const *a = fli_algo_list; *a; a++) {
        static const char *const models[] = {"softmax", "{kind: mlp, hidden: [9, 5]}"};
        for (size_t m = 0; m < 2; m++) {
            char text[512];
            snprintf(text, sizeof text, "algorithm=%s;participation=%s;model=%s;precision=%s;threads=2%s", (*a)->name,
                     (*a)->traits & FLI_ALGO_EVERYONE ? "everyone" : "{kind: uniform, count: 7}", models[m],
                     m ? "f64" : "f32", levels_for(*a, models[m]));
            same_over_ranks(text);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_algorithm),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
