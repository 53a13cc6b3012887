/* A comparison's life: trials that share data, and results of an earlier call that are taken over. A finished trial is a result folder
 * like any other: after an interruption the folders that are there, with the settings that are wanted, count as done. */
#include "study/study.h"

#include "base/file.h"
#include "data/stream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- life ---------------------------------------------------------------------------------------------- */

static fl_status share_data(fl_study *s)
{
    s->shared = fli_alloc(s->ctx, s->x.count, sizeof *s->shared);
    if (!s->shared) return FL_ENOMEM;
    for (size_t i = 0; i < s->x.count; i++) {
        size_t k = 0;
        while (k < s->shared_count && strcmp(s->shared[k].key, s->x.trials[i].data_key)) k++;
        if (k == s->shared_count) {
            s->shared[s->shared_count++].key = s->x.trials[i].data_key;
            pthread_mutex_init(&s->shared[k].lock, NULL);
        }
        s->outcomes[i].data = k;
    }
    return FL_OK;
}

/* Two resolved configurations, but for what does not change the result. */
static int same_config(const char *a, const char *b)
{
    static const char *const ignored[] = {"threads:", "output:", "name:", "memory:", "checkpoint_every:"};
    while (*a && *b) {
        size_t n = strcspn(a, "\n"), m = strcspn(b, "\n");
        int skip = 0;
        for (size_t i = 0; i < sizeof ignored / sizeof *ignored; i++)
            skip |= !strncmp(a, ignored[i], strlen(ignored[i])) && !strncmp(b, ignored[i], strlen(ignored[i]));
        if (!skip && (n != m || memcmp(a, b, n))) return 0;
        a += n + (a[n] == '\n');
        b += m + (b[m] == '\n');
    }
    return !*a && !*b;
}

/* A small text file of a result. */
static fl_status read_text(fl_ctx *ctx, const char *folder, const char *name, char **text)
{
    enum { MOST = 1 << 20 };
    size_t n;
    fli_stream *in = NULL;
    char *path = fli_strf(ctx, "%s/%s", folder, name);
    fl_status status = !path ? FL_ENOMEM : fli_path_kind(path) ? fli_stream_open(ctx, path, &in) : FL_EIO;
    if (!status) status = fli_stream_all(in, MOST, text, &n);
    fli_stream_close(in);
    fli_free(path);
    return status;
}

static fl_status read_rows(fl_ctx *ctx, const char *folder, fli_outcome *o)
{
    char *path = fli_strf(ctx, "%s/metrics.jsonl", folder);
    fl_status status = path ? fli_rows_read(ctx, path, &o->rows, &o->count) : FL_ENOMEM;
    fli_free(path);
    return status;
}

/* Whether the rows go forward to at most the last round. */
static int in_order(const fli_trial *t, const fli_outcome *o)
{
    for (size_t i = 0; i < o->count; i++)
        if (o->rows[i].round > t->rounds || (i && o->rows[i].round <= o->rows[i - 1].round)) return 0;
    return o->count > 0;
}

/* Whether the settings of a result are those of the trial. They are read as a configuration, so that a key that did not exist when
 * the result was made has its default. */
static fl_status check_config(fl_ctx *ctx, const fli_trial *t)
{
    fli_text text;
    fl_config *cfg = fl_config_new(ctx);
    char *path = fli_strf(ctx, "%s/config.yaml", t->folder);
    fl_status status = !cfg || !path ? FL_ENOMEM : fli_path_kind(path) ? fl_config_load(cfg, path) : FL_EIO;
    fli_text_init(&text, ctx);
    if (!status) status = fl_config_print(cfg, fli_collect, &text);
    if (!status) status = fli_text_ok(&text);
    if (!status && !same_config(fli_text_get(&text), t->config)) status = FL_EMISMATCH;
    fli_text_fini(&text);
    fl_config_free(cfg);
    fli_free(path);
    return status;
}

/* Takes over a result that is there already. Anything unreadable, different or interrupted just means that the trial is run. */
static fl_status take_over(fl_study *s, size_t i)
{
    const fli_trial *t = &s->x.trials[i];
    fli_outcome *o = &s->outcomes[i];
    char *result = NULL;
    fl_status status = check_config(s->ctx, t);
    if (!status) status = read_text(s->ctx, t->folder, "result.json", &result);
    if (!status && strstr(result, "\"stopped_by\": \"asked\"")) status = FL_EMISMATCH;
    if (!status) status = read_rows(s->ctx, t->folder, o);
    if (!status && in_order(t, o)) o->state = FLI_TRIAL_DONE;
    if (o->state == FLI_TRIAL_DONE)
        o->capacity = o->count;
    else {
        fli_free(o->rows);
        *o = (fli_outcome){.data = o->data};
    }
    fli_free(result);
    if (status != FL_ENOMEM) fli_clear(s->ctx);
    return status == FL_ENOMEM ? status : FL_OK;
}

static fl_status read_goal(fl_study *s)
{
    fli_settings *settings = fli_arena_alloc(&s->x.arena, 1, sizeof *settings);
    if (!settings) return FL_ENOMEM;
    fl_status status = fli_settings_bind(s->ctx, &s->x.arena, s->x.trials[0].cfg->root, settings);
    s->local_goal = !status && settings->metrics.goal == FLI_GOAL_LOCAL;
    return status;
}

fl_status fl_study_new(fl_config *cfg, const fl_study_options *options, fl_study **out)
{
    static const fl_study_options none;
    fl_status status;
    fli_clear(cfg->ctx);
    if (!options) options = &none;
    fl_study *s = fli_alloc(cfg->ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    s->ctx = cfg->ctx;
    s->options = (fl_study_options){.jobs = options->jobs};
    atomic_init(&s->asked, 0);
    pthread_mutex_init(&s->lock, NULL);
    if ((status = fli_experiment_init(cfg, options, &s->x))) goto failed;
    if (options->tensorboard && !(s->options.tensorboard = fli_arena_strdup(&s->x.arena, options->tensorboard))) {
        status = FL_ENOMEM;
        goto failed;
    }
    if ((status = read_goal(s))) goto failed;
    s->outcomes = fli_alloc(s->ctx, s->x.count, sizeof *s->outcomes);
    if (!s->outcomes || share_data(s)) {
        status = FL_ENOMEM;
        goto failed;
    }
    for (size_t i = 0; i < s->x.count; i++)
        if ((status = take_over(s, i))) goto failed;
    *out = s;
    return FL_OK;
failed:
    fl_study_free(s);
    return status;
}

void fli_shared_unload(fli_shared *d)
{
    if (d->loaded) fli_plan_fini(&d->plan);
    fl_config_free(d->cfg);
    fl_ctx_free(d->ctx);
    d->loaded = 0;
    d->cfg = NULL;
    d->ctx = NULL;
}

void fl_study_free(fl_study *s)
{
    if (!s) return;
    fli_live_free(s->live);
    for (size_t i = 0; s->outcomes && i < s->x.count; i++) {
        fli_free(s->outcomes[i].rows);
        fli_free(s->outcomes[i].error);
    }
    for (size_t k = 0; k < s->shared_count; k++) {
        fli_shared_unload(&s->shared[k]);
        pthread_mutex_destroy(&s->shared[k].lock);
    }
    fli_free(s->histogram.count);
    fli_free(s->shared);
    fli_free(s->outcomes);
    fli_experiment_fini(&s->x);
    pthread_mutex_destroy(&s->lock);
    fli_free(s);
}

void fl_study_stop(fl_study *s) { s->asked = 1; }

const char *fl_study_output(const fl_study *s) { return s->x.output; }

size_t fl_study_runs(const fl_study *s, size_t *done)
{
    *done = 0;
    for (size_t i = 0; i < s->x.count; i++) *done += s->outcomes[i].state == FLI_TRIAL_DONE;
    return s->x.count;
}
