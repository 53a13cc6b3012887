/* What makes a setting better than another. */
#include "study/tune.h"

#include "base/number.h"

#include <math.h>
#include <string.h>

/* ---- what the file says --------------------------------------------------------------------------------- */

static fl_status wrong(fl_tune *t, const fli_node *at, const char *what, const char *text)
{
    char where[512];
    return fli_fail(t->ctx, FL_ECONFIG, "%stune.goal is %s; %s", fli_node_where(at, where, sizeof where), text, what);
}

/* fl_name_fn */
static const char *metric_name(const void *unused, size_t i)
{
    const fl_metric *m = fl_metric_at(i);
    (void)unused;
    return m ? m->name : NULL;
}

static const fli_metric *find_metric(const char *name, size_t n)
{
    const fli_metric *m;
    for (size_t k = 0; (m = fli_metric_at(k)); k++)
        if (strlen(m->is.name) == n && !strncmp(m->is.name, name, n)) return m;
    return NULL;
}

/* What grows as a run goes on, and the less the better. The machine's seconds differ from run to run. */
static const fli_metric *find_cost(const char *name, size_t n)
{
    const fli_metric *m = n == 6 && !strncmp(name, "rounds", 6) ? &fli_metric_round : find_metric(name, n);
    return m && m->count && m->is.better == FL_BETTER_LOW && m != &fli_metric_seconds && m != &fli_metric_potential_rise
               ? m
               : NULL;
}

/* `text` behind " to ": a number, and " of METRIC" if it is not about accuracy. */
static fl_status read_target(fl_tune *t, const fli_node *node, const char *text, fli_goal *g)
{
    char *end;
    g->target = fli_strtod(text, &end);
    if (end == text || !isfinite(g->target)) return wrong(t, node, "after `to` stands a number", node->text);
    if (!strncmp(end, " of ", 4))
        g->value = find_metric(end + 4, strlen(end + 4));
    else if (*end)
        return wrong(t, node, "after the number may stand ` of ` and a metric", node->text);
    else
        g->value = fli_metric_goal(&t->contests[0].settings->metrics);
    return FL_OK;
}

/* A goal that no run can have, or none can miss, chooses nothing: that is said before anything is run. */
static fl_status check_possible(fl_tune *t, const fli_node *node)
{
    const fli_goal *g = &t->goal;
    int clock = g->value == &fli_metric_simulated_seconds || g->cost == &fli_metric_simulated_seconds;
    for (size_t i = 0; i < t->x.method_count && clock; i++)
        if (!strcmp(t->contests[i].settings->devices.item.name, "none"))
            return wrong(t, node, "simulated seconds need a `system`, which these runs have not", node->text);
    if (g->cost && g->value->is.unit == FL_UNIT_SHARE && !(g->target >= 0 && g->target <= 1))
        return wrong(t, node, "the target is a share, so it must be from 0 to 1", node->text);
    return FL_OK;
}

static fl_status not_a_metric(fl_tune *t, const fli_node *node)
{
    const char *of = strstr(node->text, " of ");
    char what[256], meant[FLI_MEANT_LEN];
    fli_snprintf(what, sizeof what, "that is not a metric to choose by%s docs/reference.md lists the metrics",
                 *fli_meant(fl_nearest(of ? of + 4 : node->text, metric_name, NULL), meant) ? meant : ";");
    return wrong(t, node, what, node->text);
}

fl_status fli_goal_read(fl_tune *t, const fli_node *node)
{
    fli_goal g = {.target = NAN};
    fl_status s = FL_OK;
    if (!node) return FL_OK;
    if (node->type != FLI_NODE_SCALAR)
        return wrong(t, node, "it must be a metric, such as train_loss, or `rounds to 0.9`", "no text");
    const char *to = strstr(node->text, " to ");
    if (to) {
        if (!(g.cost = find_cost(node->text, (size_t)(to - node->text))))
            return wrong(t, node, "before `to` stands what is counted: rounds, communications, bytes_up, ...",
                         node->text);
        s = read_target(t, node, to + 4, &g);
    } else
        g.value = find_metric(node->text, strlen(node->text));
    if (s) return s;
    if (!g.value || g.value->is.better == FL_BETTER_NEITHER || g.value == &fli_metric_seconds)
        return not_a_metric(t, node);
    t->goal = g;
    return check_possible(t, node);
}

/* ---- where it does not ---------------------------------------------------------------------------------- */

/* Whether some finished run has a value of it at its end. */
static int was_measured(const fl_tune *t, const fli_metric *m)
{
    for (size_t i = 0; i < t->study->x.count; i++) {
        const fli_outcome *o = &t->study->outcomes[i];
        if (o->state == FLI_TRIAL_DONE && o->count && isfinite(fli_row_get(&o->rows[o->count - 1], m))) return 1;
    }
    return 0;
}

static double highest_target(const fli_settings *s)
{
    double best = s->stop.target > 0 ? s->stop.target : NAN;
    for (size_t k = 0; k < s->metrics.targets.n; k++) best = fmax(isnan(best) ? 0 : best, s->metrics.targets.v[k]);
    return best;
}

static void say_test(const fl_tune *t)
{
    const char *name = t->goal.value->is.name;
    if (strncmp(name, "test", 4) && strncmp(name, "local_test", 10)) return;
    fli_log(t->ctx, FL_LOG_INFO,
            "settings are chosen by %s, on the test samples themselves; tune: {goal: train_loss} chooses without them",
            name);
}

fl_status fli_goal_settle(fl_tune *t)
{
    const fli_settings *s = t->contests[0].settings;
    fli_goal *g = &t->goal;
    if (!g->value) {
        *g = (fli_goal){.value = fli_metric_goal(&s->metrics), .target = highest_target(s)};
        if (!isnan(g->target)) g->cost = &fli_metric_round;
        if (!was_measured(t, g->value)) *g = (fli_goal){.value = &fli_metric_train_loss, .target = NAN};
    }
    if (!was_measured(t, g->value))
        return fli_fail(t->ctx, FL_ECONFIG, "settings would be chosen by %s, which these runs do not measure",
                        g->value->is.name);
    say_test(t);
    return FL_OK;
}

void fli_goal_words(fli_text *text, const fli_goal *g)
{
    if (g->cost)
        fli_text_addf(text, "%s to %s %g", g->cost->is.title, g->value->is.title, g->target);
    else
        fli_text_add(text, g->value->is.title);
}

/* ---- scores --------------------------------------------------------------------------------------------- */

static void take_run(const fli_goal *g, const fli_outcome *o, fli_score *out)
{
    size_t k = 0;
    const fl_row *last = &o->rows[o->count - 1];
    fli_stat_take(&out->value, fli_row_get(last, g->value));
    fli_stat_take(&out->loss, fli_row_get(last, &fli_metric_train_loss));
    if (!g->cost) return;
    while (k < o->count && !fli_metric_reaches(g->value, fli_row_get(&o->rows[k], g->value), g->target)) k++;
    if (k == o->count) return;
    out->reached++;
    fli_stat_take(&out->cost, fli_row_get(&o->rows[k], g->cost));
}

void fli_goal_score(const fl_tune *t, size_t method, size_t at, fli_score *out)
{
    const fl_study *s = t->study;
    for (size_t i = 0; i < method; i++) at += s->x.methods[i].settings;
    *out = (fli_score){0};
    for (size_t i = at; i < s->x.count; i += fli_study_stride(s)) {
        const fli_outcome *o = &s->outcomes[i];
        out->seeds++;
        out->failed += o->state == FLI_TRIAL_FAILED;
        if (o->state == FLI_TRIAL_DONE && o->count) take_run(&t->goal, o, out);
    }
    fli_stat_finish(&out->value);
    fli_stat_finish(&out->cost);
    fli_stat_finish(&out->loss);
}

/* -1: a is better, 1: b is, 0: neither. One that has no value is the worse one. */
static int compare(const fl_metric *m, const fli_stat *a, const fli_stat *b)
{
    if (!a->n || !b->n) return (a->n == 0) - (b->n == 0);
    return fl_metric_beats(m, b->mean, a->mean) - fl_metric_beats(m, a->mean, b->mean);
}

int fli_goal_beats(const fli_goal *g, const fli_score *a, const fli_score *b)
{
    int order = (a->failed > b->failed) - (a->failed < b->failed);
    if (!order && g->cost) order = (a->reached < b->reached) - (a->reached > b->reached);
    if (!order && g->cost) order = compare(&g->cost->is, &a->cost, &b->cost);
    if (!order) order = compare(&g->value->is, &a->value, &b->value);
    if (!order) order = compare(&fli_metric_train_loss.is, &a->loss, &b->loss);
    return order < 0;
}
