/* A comparison's life: trials that share data, and results of an earlier call that are taken over (reuse.c). */
#include "study/study.h"

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

static fl_status read_goal(fl_study *s)
{
    fli_settings *settings = fli_arena_alloc(&s->x.arena, 1, sizeof *settings);
    if (!settings) return FL_ENOMEM;
    fl_status status = fli_settings_bind(s->ctx, &s->x.arena, s->x.trials[0].cfg->root, settings);
    s->goal = status ? NULL : fli_metric_goal(&settings->metrics);
    s->targets = &settings->metrics.targets;
    return status;
}

static fl_status keep_texts(fl_study *s, const fl_study_options *o)
{
    if (o->tensorboard) s->options.tensorboard = fli_arena_strdup(&s->x.arena, o->tensorboard);
    if (o->command) s->options.command = fli_arena_strdup(&s->x.arena, o->command);
    return !s->options.tensorboard == !o->tensorboard && !s->options.command == !o->command ? FL_OK : FL_ENOMEM;
}

fl_status fl_study_new(fl_config *cfg, const fl_study_options *options, fl_study **out)
{
    fl_study_options o;
    fli_clear(cfg->ctx);
    fl_status status = fli_study_options_take(cfg->ctx, options, &o);
    if (status) return status;
    fl_study *s = fli_alloc(cfg->ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    s->ctx = cfg->ctx;
    s->options = (fl_study_options){.jobs = o.jobs, .force = o.force};
    atomic_init(&s->asked, 0);
    pthread_mutex_init(&s->lock, NULL);
    if ((status = fli_experiment_init(cfg, &o, &s->x))) goto failed;
    if ((status = keep_texts(s, &o))) goto failed;
    s->claim = (fli_claim){s->ctx, s->x.output, NULL};
    if ((status = read_goal(s))) goto failed;
    s->outcomes = fli_alloc(s->ctx, s->x.count, sizeof *s->outcomes);
    if (!s->outcomes || share_data(s)) {
        status = FL_ENOMEM;
        goto failed;
    }
    for (size_t i = 0; i < s->x.count; i++)
        if ((status = fli_reuse_find(s, i))) goto failed;
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
    fli_claim_leave(&s->claim);
    for (size_t i = 0; s->outcomes && i < s->x.count; i++) {
        fli_free(s->outcomes[i].rows);
        fli_free(s->outcomes[i].error);
        fli_free(s->outcomes[i].clients);
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
    fli_free(s->stopped);
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
