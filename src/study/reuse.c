/* Runs that are there already. A finished trial is a result folder like any other: after an interruption those that are
 * whole, with the settings and from the data that are wanted, count as done. Finished runs that are something else are
 * replaced only on request. */
#include "study/study.h"

#include "run/checkpoint.h"

static fl_status read_rows(fl_ctx *ctx, const char *folder, fli_outcome *o)
{
    char *path = fli_strf(ctx, "%s/metrics.jsonl", folder);
    fl_status status = path ? fli_rows_read(ctx, path, &o->rows, &o->count) : FL_ENOMEM;
    fli_free(path);
    o->capacity = o->count;
    return status;
}

/* Whether the rows go forward to at most the last round. */
static int in_order(const fli_trial *t, const fli_outcome *o)
{
    for (size_t i = 0; i < o->count; i++)
        if (fl_row_round(&o->rows[i]) > t->rounds || (i && fl_row_round(&o->rows[i]) <= fl_row_round(&o->rows[i - 1])))
            return 0;
    return o->count > 0;
}

/* What stands in a trial's folder. `samples`: the digest of its samples as they are now; NULL: data are not looked
 * at. */
static fl_status look(fl_study *s, const fli_trial *t, const fli_digest *samples, fli_standing *out)
{
    fli_arena scratch;
    fli_settings settings;
    fli_digest data;
    fli_arena_init(&scratch, s->ctx);
    fl_status status = fli_settings_bind(s->ctx, &scratch, t->cfg->root, &settings);
    if (!status && samples) status = fli_plan_digest(s->ctx, &settings, samples, &data);
    if (!status) status = fli_standing_find(s->ctx, t->folder, &settings, samples ? &data : NULL, out);
    fli_arena_fini(&scratch);
    return status;
}

/* The trial must be run. */
static void reopen(fli_outcome *o, fli_standing standing)
{
    fli_free(o->rows);
    fli_free(o->clients);
    *o = (fli_outcome){.data = o->data, .standing = standing};
}

fl_status fli_reuse_find(fl_study *s, size_t i)
{
    const fli_trial *t = &s->x.trials[i];
    fli_outcome *o = &s->outcomes[i];
    if (o->state != FLI_TRIAL_OPEN) return FL_OK;
    fl_status status = look(s, t, NULL, &o->standing);
    if (status || o->standing != FLI_STANDS_SAME) return status;
    fli_free(o->rows); /* of a run that was stopped */
    status = read_rows(s->ctx, t->folder, o);
    if (!status && in_order(t, o)) {
        o->state = FLI_TRIAL_DONE;
        return FL_OK;
    }
    reopen(o, FLI_STANDS_BROKEN);
    if (status != FL_ENOMEM) fli_clear(s->ctx);
    return status == FL_ENOMEM ? status : FL_OK;
}

/* ---- the data they were made from ------------------------------------------------------------------------- */

/* Data that are gone do not make a result worthless: a table can still be printed. */
static fl_status not_known(fl_study *s, const char *place, fli_standing *standing)
{
    fli_log(s->ctx, FL_LOG_WARNING, "%s: it is not known whether it was made from the current data: %s", place,
            fl_ctx_error(s->ctx));
    fli_clear(s->ctx);
    *standing = FLI_STANDS_SAME;
    return FL_OK;
}

static fl_status check_trials(fl_study *s, size_t shared, const fli_digest *samples)
{
    fl_status status = FL_OK;
    for (size_t i = 0; i < s->x.count && !status; i++) {
        fli_standing standing;
        fli_outcome *o = &s->outcomes[i];
        if (o->data != shared || o->state != FLI_TRIAL_DONE || o->checked) continue;
        status = look(s, &s->x.trials[i], samples, &standing);
        if (status == FL_EIO) status = not_known(s, s->x.trials[i].folder, &standing);
        o->checked = !status;
        if (!status && standing != FLI_STANDS_SAME) reopen(o, standing);
    }
    return status;
}

/* The first trial of shared data that was taken over and not looked at yet; x.count if there is none. */
static size_t unchecked(const fl_study *s, size_t shared)
{
    for (size_t i = 0; i < s->x.count; i++)
        if (s->outcomes[i].data == shared && s->outcomes[i].state == FLI_TRIAL_DONE && !s->outcomes[i].checked)
            return i;
    return s->x.count;
}

static fl_status check_data(fl_study *s, size_t shared)
{
    size_t first = unchecked(s, shared);
    fli_plan plan;
    fli_standing unused;
    if (first == s->x.count) return FL_OK;
    fl_status status = fli_plan_data(s->x.trials[first].cfg, NULL, &plan);
    if (status && status != FL_ENOMEM)
        status = not_known(s, s->x.output, &unused);
    else if (!status) {
        status = check_trials(s, shared, &plan.samples);
        if (!status && !shared && !s->histogram.all_clients)
            status = fli_holdings_take(s->ctx, plan.fed, &s->histogram);
    }
    fli_plan_fini(&plan);
    return status;
}

/* ---- what may go ------------------------------------------------------------------------------------------ */

static size_t count_standing(const fl_study *s, fli_standing standing, const char **first)
{
    size_t n = 0;
    for (size_t i = 0; i < s->x.count; i++)
        if (s->outcomes[i].state == FLI_TRIAL_OPEN && s->outcomes[i].standing == standing && !n++)
            *first = s->x.trials[i].folder;
    return n;
}

static fl_status check_replaced(fl_study *s)
{
    static const struct {
        fli_standing standing;
        int keep; /* unless replacing was requested */
        const char *what;
    } rows[] = {{FLI_STANDS_UNKNOWN, 1, "is a result without a manifest, or cannot be read"},
                {FLI_STANDS_OTHER_VERSION, 1, "is a result of another version of fedloom"},
                {FLI_STANDS_OTHER_SETTINGS, 1, "is a finished run with other settings"},
                {FLI_STANDS_OTHER_DATA, 1, "is a finished run from data that have changed since"},
                {FLI_STANDS_STOPPED, 0, "is from a run that was stopped"},
                {FLI_STANDS_BROKEN, 0, "is not a complete result"}};
    fl_status status = FL_OK;
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        const char *first = NULL, *what = rows[k].what;
        size_t n = count_standing(s, rows[k].standing, &first);
        if (!n) continue;
        if (rows[k].keep && !s->options.force)
            status = fli_fail_also(s->ctx, FL_EIO,
                                   "%s: %s (%zu such here); choose another output, or ask to replace them (--force)",
                                   first, what, n);
        else
            fli_log(s->ctx, FL_LOG_INFO, "%s: %s (%zu such here), and is run again", first, what, n);
    }
    return status;
}

fl_status fli_reuse_settle(fl_study *s)
{
    fl_status status = FL_OK;
    for (size_t i = 0; i < s->x.count && !status; i++) status = fli_reuse_find(s, i); /* another process may have run */
    for (size_t k = 0; k < s->shared_count && !status; k++) status = check_data(s, k);
    for (size_t i = 0; i < s->x.count && !status; i++) /* of a run that was killed just before its end */
        if (s->outcomes[i].state == FLI_TRIAL_DONE) status = fli_checkpoint_clear(s->ctx, s->x.trials[i].folder);
    return status ? status : check_replaced(s);
}
