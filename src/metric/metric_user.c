/* Metrics of objectives that users register: they follow those of metric_list.c, in the order in which their names were
 * first given. A name keeps its place until the process ends, since rows are read by place. */
#include "metric/metric.h"

#include "base/number.h"
#include "base/own.h"
#include "model/own.h"

#include <math.h>
#include <stdatomic.h>
#include <string.h>

typedef struct {
    fli_metric metric;
    char name[64], event[72];
} slot;

static slot slots[FL_METRICS_MAX];
static atomic_size_t used;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

const fli_metric *fli_metric_at(size_t k)
{
    size_t ours = fli_metrics_count();
    if (k < ours) return fli_metrics[k];
    return k - ours < atomic_load(&used) ? &slots[k - ours].metric : NULL;
}

/* What comes with fedloom is found by its name, and by what charts call it. */
static int is_ours(const char *name)
{
    for (size_t k = 0; fli_metrics[k]; k++) {
        const char *chart = fli_metrics[k]->is.shown[FL_VIEW_CHART].label;
        if (!strcmp(fli_metrics[k]->is.name, name) || (chart && !strcmp(chart, name))) return 1;
    }
    return 0;
}

static int is_there(const char *name)
{
    for (size_t i = 0; i < atomic_load(&used); i++)
        if (!strcmp(slots[i].name, name)) return 1;
    return 0;
}

/* Readers see it when it is whole. */
static void add(const char *name)
{
    size_t at = atomic_load(&used);
    slot *s = &slots[at];
    fli_snprintf(s->name, sizeof s->name, "%s", name);
    fli_snprintf(s->event, sizeof s->event, "own/%s", name);
    s->metric.is = (fl_metric){.name = s->name,
                               .title = s->name,
                               .help = "a metric of an objective that was registered",
                               .scale = FL_SCALE_WIDE,
                               .shown = {[FL_VIEW_EVENTS] = {s->event},
                                         [FL_VIEW_CHART] = {s->name},
                                         [FL_VIEW_STUDY] = {s->name},
                                         [FL_VIEW_STUDY_FILES] = {s->name}}};
    atomic_store(&used, at + 1);
}

static fl_status check_names(fl_ctx *ctx, const char *const *names)
{
    for (size_t i = 0; names[i]; i++) {
        fl_status s = fli_own_check_name(ctx, "a metric", names[i]);
        if (s) return s;
        if (is_ours(names[i]))
            return fli_fail(ctx, FL_ECONFIG, "metric %s comes with fedloom; another one needs another name", names[i]);
        for (size_t j = 0; j < i; j++)
            if (!strcmp(names[i], names[j])) return fli_fail(ctx, FL_ECONFIG, "metric %s is named twice", names[i]);
    }
    return FL_OK;
}

fl_status fli_metrics_add(fl_ctx *ctx, const char *const *names)
{
    size_t new = 0, room = FL_METRICS_MAX - fli_metrics_count();
    fl_status s = names ? check_names(ctx, names) : FL_OK;
    if (s || !names) return s;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; names[i]; i++) new += !is_there(names[i]);
    if (atomic_load(&used) + new > room)
        s = fli_fail(ctx, FL_ECONFIG, "a process has room for %zu metrics of its own, and %zu names were used already",
                     room, atomic_load(&used));
    for (size_t i = 0; !s && names[i]; i++)
        if (!is_there(names[i])) add(names[i]);
    pthread_mutex_unlock(&lock);
    return s;
}

/* ---- of a run ------------------------------------------------------------------------------------------------ */

/* The place of the model's metric i. */
static size_t place_of(const fli_model *m, size_t i) { return fl_metric_place(fl_metric_find(m->desc->metrics[i])); }

fli_columns fli_columns_of(const fli_model *m)
{
    fli_columns c = {.n = 0};
    while (c.n < fli_metrics_count()) c.at[c.n] = c.n, c.n++;
    for (size_t i = 0; m->desc->metrics && m->desc->metrics[i]; i++) c.at[c.n++] = place_of(m, i);
    return c;
}

fl_status fli_row_measure_own(fl_row *row, fli_moment *m)
{
    const fli_model_desc *d = m->model->desc;
    double value[FLI_OWN_METRICS];
    fli_row_clear_own(row);
    if (!d->metrics) return FL_OK;
    d->measure(m->model, m->x, value);
    for (size_t i = 0; d->metrics[i]; i++) row->value[place_of(m->model, i)] = value[i];
    return fli_model_status(m->ctx, m->model, " when its metrics were taken, round %.0f",
                            fli_row_get(row, fli_metrics[0]));
}

void fli_row_clear_own(fl_row *row)
{
    for (size_t k = fli_metrics_count(); k < FL_METRICS_MAX; k++) row->value[k] = NAN;
}
