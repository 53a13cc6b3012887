/* Tuning: the candidates of a method, the goal that orders them, and the rungs: how many candidates and seeds each has,
 * running it, which candidates stay. tune_space.c has the box of a method, tune_output.c the files. */
#include "study/tune.h"

#include "algo/algo.h"
#include "base/ctx.h"
#include "base/file.h"
#include "base/number.h"
#include "study/experiment.h"

#include <math.h>
#include <string.h>

/* ==== candidates ============================================================================================ */

/* The candidates of a method: points that fill its box evenly, the same ones every time. They are the first points of a
 * sequence, so a larger budget adds points to those of a smaller one. */

enum { TRIES = 64 }; /* points tried per candidate, because whole numbers and choices repeat */

/* The generalised golden ratio: the root of x^(d+1) = x + 1. Multiples of its powers, modulo 1, are spread evenly in d
 * dimensions for any number of points (Roberts, "The unreasonable effectiveness of quasirandom sequences", 2018). */
static double golden(size_t d)
{
    double x = 2;
    for (int i = 0; i < 64; i++) x = pow(1 + x, 1 / ((double)d + 1));
    return x;
}

/* Coordinate j of point k, in [0, 1). */
static double coordinate(double phi, size_t k, size_t j)
{
    double whole;
    return modf(0.5 + (double)k * pow(phi, -(double)(j + 1)), &whole);
}

/* Rounds to three digits: enough for a search, and readable. */
static void write_number(const fli_span *r, double u, char *text, size_t size)
{
    double v = r->log ? r->from * pow(r->to / r->from, u) : r->from + u * (r->to - r->from);
    if (r->whole) {
        v = fmin(fmax(round(v), ceil(r->from)), floor(r->to));
        fli_snprintf(text, size, "%.0f", v);
        return;
    }
    fli_snprintf(text, size, "%.3g", v);
    double read = fli_strtod(text, NULL);
    if (read < r->from) fli_snprintf(text, size, "%.15g", r->from);
    if (read > r->to) fli_snprintf(text, size, "%.15g", r->to);
}

/* The value of a range at u, as a node with the range's place in the file. */
static fli_node *value_at(fl_tune *t, const fli_span *r, double u)
{
    char text[64];
    fli_node *n;
    if (r->values) {
        const fli_node *v = r->values->first;
        for (size_t pick = (size_t)(u * (double)r->count); pick-- && v->next;) v = v->next;
        if (!(n = fli_arena_alloc(&t->arena, 1, sizeof *n))) return NULL;
        *n = *v;
        n->next = NULL;
    } else {
        write_number(r, u, text, sizeof text);
        if (!(n = fli_node_new(&t->arena, FLI_NODE_SCALAR, NULL, text))) return NULL;
        if (r->at) n->origin = r->at->origin, n->line = r->at->line, n->column = r->at->column;
    }
    n->key = r->key;
    return n;
}

static fli_node *point_at(fl_tune *t, const fli_tuned *c, size_t k)
{
    fli_node *point = fli_node_new(&t->arena, FLI_NODE_MAP, NULL, NULL);
    double phi = golden(c->range_count);
    for (size_t j = 0; point && j < c->range_count; j++) {
        fli_node *v = value_at(t, &c->ranges[j], coordinate(phi, k, j));
        if (!v) return NULL;
        fli_node_append(point, v);
    }
    return point;
}

/* A candidate's values as one text, equal for equal values. Numbers are compared by value: the file may have 0.10. */
static fl_status describe(fl_tune *t, const fli_tuned *c, const fli_candidate *k, const char **out)
{
    fl_status s = FL_OK;
    fli_text all;
    fli_text_init(&all, t->ctx);
    for (size_t j = 0; j < c->range_count && !s; j++) {
        char *end;
        fli_text value;
        fli_text_init(&value, t->ctx);
        fli_candidate_value(c, k, c->ranges[j].key, &value);
        double v = fli_strtod(fli_text_get(&value), &end);
        if (value.n && !*end)
            fli_text_addf(&all, "%.17g\n", v);
        else
            fli_text_addf(&all, "%s\n", fli_text_get(&value));
        s = fli_text_ok(&value);
        fli_text_fini(&value);
    }
    if (!s) s = fli_text_ok(&all);
    if (!s && !(*out = fli_arena_strdup(&t->arena, fli_text_get(&all)))) s = FL_ENOMEM;
    fli_text_fini(&all);
    return s;
}

static int is_new(const fli_tuned *c, const char *values)
{
    for (size_t i = 0; i < c->count; i++)
        if (!strcmp(c->candidates[i].values, values)) return 0;
    return 1;
}

fl_status fli_tune_candidates(fl_tune *t, fli_tuned *c, size_t count)
{
    c->candidates = fli_arena_alloc(&t->arena, count, sizeof *c->candidates);
    c->remaining = fli_arena_alloc(&t->arena, count, sizeof *c->remaining);
    if (!c->candidates || !c->remaining) return FL_ENOMEM;
    if (!(c->candidates[0].point = fli_node_new(&t->arena, FLI_NODE_MAP, NULL, NULL))) return FL_ENOMEM;
    fl_status s = describe(t, c, &c->candidates[0], &c->candidates[0].values);
    c->count = 1;
    for (size_t k = 0; c->count < count && k < TRIES * count && !s; k++) {
        fli_candidate next = {.point = point_at(t, c, k)};
        s = next.point ? describe(t, c, &next, &next.values) : FL_ENOMEM;
        if (!s && is_new(c, next.values)) c->candidates[c->count++] = next;
    }
    if (s) return s;
    if (c->count < count)
        fli_log(t->ctx, FL_LOG_INFO, "%s has only %zu different settings", c->method->label, c->count);
    for (size_t i = 0; i < c->count; i++) c->remaining[i] = i;
    c->remaining_count = c->count;
    return FL_OK;
}

/* ==== the goal ============================================================================================== */

/* ---- the file's goal ------------------------------------------------------------------------------------ */

static fl_status bad_goal(fl_tune *t, const fli_node *at, const char *what, const char *text)
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

/* Finds a cost: a metric that grows during a run and should be small. Not the machine's seconds, which vary. */
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
    if (end == text || !isfinite(g->target)) return bad_goal(t, node, "after `to` stands a number", node->text);
    if (!strncmp(end, " of ", 4))
        g->value = find_metric(end + 4, strlen(end + 4));
    else if (*end)
        return bad_goal(t, node, "after the number may stand ` of ` and a metric", node->text);
    else
        g->value = fli_metric_goal(&t->tuned[0].settings->metrics);
    return FL_OK;
}

/* Refuses, before anything is run, a goal that no run or every run reaches: it cannot order candidates. */
static fl_status check_possible(fl_tune *t, const fli_node *node)
{
    const fli_goal *g = &t->goal;
    int clock = g->value == &fli_metric_simulated_seconds || g->cost == &fli_metric_simulated_seconds;
    for (size_t i = 0; i < t->x.method_count && clock; i++)
        if (!strcmp(t->tuned[i].settings->devices.item.name, "none"))
            return bad_goal(t, node, "simulated seconds need a `system`, which these runs have not", node->text);
    if (g->cost && g->value->is.unit == FL_UNIT_SHARE && !(g->target >= 0 && g->target <= 1))
        return bad_goal(t, node, "the target is a share, so it must be from 0 to 1", node->text);
    return FL_OK;
}

static fl_status not_a_metric(fl_tune *t, const fli_node *node)
{
    const char *of = strstr(node->text, " of ");
    char what[256], meant[FLI_MEANT_LEN];
    fli_snprintf(what, sizeof what, "that is not a metric to choose by%s docs/reference.md lists the metrics",
                 *fli_meant(fl_nearest(of ? of + 4 : node->text, metric_name, NULL), meant) ? meant : ";");
    return bad_goal(t, node, what, node->text);
}

/* Reads "train_loss", "communications to 0.9" or "rounds to 0.1 of test_loss". */
static fl_status read_goal(fl_tune *t, const fli_node *node)
{
    fli_goal g = {.target = NAN};
    fl_status s = FL_OK;
    if (!node) return FL_OK;
    if (node->type != FLI_NODE_SCALAR)
        return bad_goal(t, node, "it must be a metric, such as train_loss, or `rounds to 0.9`", "no text");
    const char *to = strstr(node->text, " to ");
    if (to) {
        if (!(g.cost = find_cost(node->text, (size_t)(to - node->text))))
            return bad_goal(t, node, "before `to` stands what is counted: rounds, communications, bytes_up, ...",
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

/* ---- without a goal in the file ------------------------------------------------------------------------- */

/* Whether some finished run has a value of the metric at its end. */
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

static fl_status settle_goal(fl_tune *t)
{
    const fli_settings *s = t->tuned[0].settings;
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

/* The score of the method's setting `at` (index among the remaining ones) in the last rung. */
static void score_of(const fl_tune *t, size_t method, size_t at, fli_score *out)
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

/* -1: a is better, 1: b is, 0: neither. A score without a value is worse. */
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

/* ==== rungs ================================================================================================= */

enum { KEEP = 3, MOST_CANDIDATES = 1000 }; /* one in KEEP stays, at least one, and also the file's own setting */

typedef struct {
    int64_t seeds, budget;
} tune_settings;

static const fl_key tune_table[] = {
    FLI_KEY_INT(tune_settings, seeds, "3", 1, 1000, "tuning seeds of the settings that come to the last rung"),
    FLI_KEY_INT(tune_settings, budget, "20", 1, 1e6, "full-length runs with one seed, for every method"),
    FLI_KEY_END,
};

/* ---- the budget ----------------------------------------------------------------------------------------- */

/* Plans the rungs for this number of candidates; returns their cost in runs. */
static size_t plan_rungs(fl_tune *t, size_t candidates)
{
    size_t cost = 0, seeds = 1, before = 0, field = candidates;
    for (t->rungs = 0; t->rungs < FLI_TUNE_RUNGS; t->rungs++) {
        t->seeds_at[t->rungs] = seeds;
        t->candidates_at[t->rungs] = field;
        cost += field * (seeds - before);
        if (seeds == t->seeds) {
            t->rungs++;
            break;
        }
        before = seeds;
        seeds = KEEP * seeds < t->seeds ? KEEP * seeds : t->seeds;
        field = 1 + (field > KEEP ? field / KEEP : 1);
    }
    return cost;
}

static fl_status spend(fl_tune *t)
{
    size_t n = 2, least = plan_rungs(t, n);
    if (least > t->budget)
        return fli_fail(t->ctx, FL_ECONFIG,
                        "a budget of %zu runs per method is too small: two settings over %zu seeds take %zu", t->budget,
                        t->seeds, least);
    while (n < MOST_CANDIDATES && plan_rungs(t, n + 1) <= t->budget) n++;
    plan_rungs(t, n);
    return FL_OK;
}

/* ---- a rung --------------------------------------------------------------------------------------------- */

static fli_node *points_of(const fli_tuned *c, fli_arena *a)
{
    fli_node *list = fli_node_new(a, FLI_NODE_LIST, "points", NULL);
    for (size_t i = 0; list && i < c->remaining_count; i++) {
        fli_node *copy = fli_arena_alloc(a, 1, sizeof *copy);
        if (!copy) return NULL;
        *copy = *c->candidates[c->remaining[i]].point;
        fli_node_append(list, copy);
    }
    return list;
}

/* Gives every method of the tree its points. */
static fl_status put_points(fl_tune *t, fl_config *cfg)
{
    fli_node *root = fli_config_change(cfg), *methods = fli_node_find(root, "methods");
    fli_node *at = methods ? methods->first : root;
    for (size_t i = 0; i < t->x.method_count; i++, at = at->next) {
        fli_node *points = points_of(&t->tuned[i], &cfg->arena);
        if (!points) return FL_ENOMEM;
        fli_node_put(at, points);
    }
    return FL_OK;
}

/* Makes the current rung's comparison: the file with points and tuning seeds, models not saved. */
static fl_status make_rung(fl_tune *t)
{
    char seed[40];
    fl_study_options o = t->options;
    fl_config *cfg = fl_config_copy(t->cfg);
    char *folder = fli_strf(t->ctx, "%s/trials", t->output);
    fl_status s = cfg && folder ? FL_OK : FL_ENOMEM;
    fli_snprintf(seed, sizeof seed, "%llu", (unsigned long long)t->first_seed);
    if (!s) s = fli_config_put(cfg, "seed", seed);
    if (!s) s = fli_config_put(cfg, "output_model", "false");
    if (!s) s = put_points(t, cfg);
    o.seeds = t->seeds_at[t->rung];
    o.output = folder;
    if (!s) s = fl_study_new(cfg, &o, &t->study);
    fl_config_free(cfg);
    fli_free(folder);
    return s;
}

static int any_done(const fl_tune *t, size_t method)
{
    for (size_t i = 0; i < t->study->x.count; i++)
        if (t->study->x.trials[i].method == method && t->study->outcomes[i].state == FLI_TRIAL_DONE) return 1;
    return 0;
}

/* Fails if a run failed for any reason but divergence: the choice would depend on it. Divergence is a result; a method
 * that always diverges has no winner. */
static fl_status check_failures(fl_tune *t)
{
    for (size_t i = 0; i < t->study->x.count; i++) {
        const fli_outcome *o = &t->study->outcomes[i];
        const fli_trial *k = &t->study->x.trials[i];
        if (o->state == FLI_TRIAL_FAILED && o->status != FL_EDIVERGED)
            return fli_fail(t->ctx, o->status, "%s, seed %llu: %s", k->folder, (unsigned long long)k->seed,
                            o->error ? o->error : fl_status_text(o->status));
    }
    size_t lost = 0;
    for (size_t i = 0; i < t->x.method_count; i++) lost += t->tuned[i].all_diverged = !any_done(t, i);
    return lost == t->x.method_count ? fl_tune_verdict(t) : FL_OK;
}

fl_status fl_tune_verdict(fl_tune *t)
{
    fl_status s = FL_OK;
    fli_clear(t->ctx);
    for (size_t i = 0; i < t->x.method_count; i++)
        if (t->tuned[i].all_diverged)
            s = fli_fail_also(t->ctx, FL_EDIVERGED, "every setting of %s diverged; try lower ranges (%s)",
                              t->tuned[i].method->label, t->tuned[i].ranges[0].key);
    return s;
}

/* ---- which candidates stay ------------------------------------------------------------------------------ */

/* Orders the remaining candidates, the best first; among equals, the one made first. */
static void rank(const fl_tune *t, const fli_tuned *c, size_t *order)
{
    for (size_t i = 0; i < c->remaining_count; i++) {
        size_t k = i;
        const fli_score *score = &c->candidates[c->remaining[i]].score;
        for (; k && fli_goal_beats(&t->goal, score, &c->candidates[order[k - 1]].score); k--) order[k] = order[k - 1];
        order[k] = c->remaining[i];
    }
}

/* Marks the candidates that stay: the best ones and the file's own setting, without diverged ones if that leaves
 * any. */
static void choose(fli_tuned *c, const size_t *order, size_t room)
{
    fli_candidate *own = &c->candidates[0];
    size_t left = room - !own->score.failed;
    own->stays = !own->score.failed;
    for (size_t i = 0; i < c->remaining_count && left; i++) {
        fli_candidate *k = &c->candidates[order[i]];
        if (k->stays || k->score.failed) continue;
        k->stays = 1;
        left--;
    }
    if (left == room) c->candidates[order[0]].stays = 1;
}

/* Numbers the candidates, those that stay first; these are the remaining ones of the next rung. */
static void number(fli_tuned *c, const size_t *order)
{
    size_t in = 0, out = 0, next = 0;
    for (size_t i = 0; i < c->remaining_count; i++) out += c->candidates[order[i]].stays;
    for (size_t i = 0; i < c->remaining_count; i++) {
        fli_candidate *k = &c->candidates[order[i]];
        k->place = k->stays ? ++in : ++out;
    }
    for (size_t i = 0; i < c->remaining_count; i++)
        if (c->candidates[c->remaining[i]].stays) c->remaining[next++] = c->remaining[i];
    c->remaining_count = next;
}

static fl_status judge(fl_tune *t, size_t method)
{
    fli_tuned *c = &t->tuned[method];
    size_t more = t->seeds_at[t->rung] - (t->rung ? t->seeds_at[t->rung - 1] : 0);
    size_t *order = fli_alloc(t->ctx, c->remaining_count, sizeof *order);
    if (!order) return FL_ENOMEM;
    for (size_t i = 0; i < c->remaining_count; i++) {
        fli_candidate *k = &c->candidates[c->remaining[i]];
        score_of(t, method, i, &k->score);
        k->rung = t->rung;
        k->stays = t->rung + 1 == t->rungs;
    }
    c->runs += c->remaining_count * more;
    rank(t, c, order);
    if (t->rung + 1 < t->rungs) choose(c, order, t->candidates_at[t->rung + 1]);
    number(c, order);
    fli_free(order);
    return FL_OK;
}

/* Runs the current rung. *whole: it was completed. */
static fl_status run_rung(fl_tune *t, fl_study_fn *observer, void *arg, int *whole)
{
    size_t done;
    fl_status s = t->study ? FL_OK : make_rung(t);
    if (s) return s;
    size_t total = fl_study_runs(t->study, &done);
    fli_log(t->ctx, FL_LOG_INFO, "rung %zu of %zu: up to %zu settings of each method over %zu seed%s, %zu runs",
            t->rung + 1, t->rungs, t->candidates_at[t->rung], t->seeds_at[t->rung],
            t->seeds_at[t->rung] == 1 ? "" : "s", total);
    s = fl_study_go(t->study, observer, arg);
    *whole = !t->stop_requested;
    for (size_t i = 0; i < t->study->x.count; i++) *whole &= t->study->outcomes[i].state != FLI_TRIAL_OPEN;
    if (s || !*whole) return s;
    if (!(s = check_failures(t)) && !t->rung) s = settle_goal(t);
    for (size_t i = 0; i < t->x.method_count && !s; i++) s = judge(t, i);
    fl_study_free(t->study);
    t->study = NULL;
    return s;
}

/* Finished runs of an earlier comparison, of winners that this tuning may not find again, would block the comparison
 * after it: refuses them before the budget is spent. */
static fl_status check_above(fl_tune *t)
{
    int same = 1;
    fl_status s = fli_output_claim_check(&t->compare_claim, fli_study_files);
    for (size_t i = 0; i < t->x.count && !t->options.force && same && !s; i++) {
        const char *folder = t->x.trials[i].folder;
        if (!fli_path_kind(folder)) continue;
        s = fli_tune_was_same(t, &same);
        if (!s && !same)
            s = fli_fail(t->ctx, FL_EIO,
                         "%s: is a run whose settings this tuning has not found; choose another output, or ask to "
                         "replace such runs (--force)",
                         folder);
    }
    return s;
}

/* Locks the folders that this tuning writes, and refuses to overwrite files of others. */
static fl_status claim_folders(fl_tune *t, const char *const *names)
{
    fl_status s = FL_OK;
    if (t->compare_next && !(s = fli_output_claim_take(&t->compare_claim))) s = check_above(t);
    if (!s) s = fli_output_claim_take(&t->claim);
    return s ? s : fli_output_claim_check(&t->claim, names);
}

/* The end of a range to which a value is close; NULL: none. A value of the file outside the range is not close to an
 * end, and an end at the key's own limit cannot be moved. */
static const char *end_near(const fli_tuned *c, const fli_span *r, double v)
{
    static const double near = 0.1; /* of the range */
    const fl_key *row = fli_settings_key(c->settings, r->key);
    int bounded = row && row->min < row->max;
    if (!(v >= r->from && v <= r->to)) return NULL;
    double at = fli_span_place(r, v);
    if (at < near && !(bounded && r->from <= row->min)) return "lower";
    return at > 1 - near && !(bounded && r->to >= row->max) ? "upper" : NULL;
}

static void warn_of_end(fl_tune *t, const fli_tuned *c, const fli_span *r)
{
    fli_text text;
    char *rest;
    fli_text_init(&text, t->ctx);
    fli_candidate_value(c, fli_tuned_winner(c), r->key, &text);
    double v = fli_strtod(fli_text_get(&text), &rest);
    const char *end = r->values || *rest || !text.n ? NULL : end_near(c, r, v);
    if (end)
        fli_log(t->ctx, FL_LOG_WARNING,
                "%s: the best %s is %s, at the %s end of its range (%g to %g); a wider one may hold a better value",
                c->method->label, r->key, fli_text_get(&text), end, r->from, r->to);
    fli_text_fini(&text);
}

/* Warns if a winner is so close to the end of a range that a wider range may be better. */
static void tune_warn(fl_tune *t)
{
    for (size_t i = 0; i < t->x.method_count; i++)
        for (size_t j = 0; j < t->tuned[i].range_count && !t->tuned[i].all_diverged; j++)
            warn_of_end(t, &t->tuned[i], &t->tuned[i].ranges[j]);
}

fl_status fl_tune_go(fl_tune *t, fl_study_fn *observer, void *arg)
{
    int whole = 1;
    fli_arena a;
    fli_clear(t->ctx);
    t->stop_requested = 0;
    fli_arena_init(&a, t->ctx);
    const char *const *names = fli_tune_files(t, &a);
    fl_status s = names ? claim_folders(t, names) : FL_ENOMEM;
    while (!s && t->rung < t->rungs && whole) {
        s = run_rung(t, observer, arg, &whole);
        if (!s && whole) t->rung++;
    }
    fli_arena_fini(&a);
    if (!s && whole) tune_warn(t);
    return s;
}

void fl_tune_stop(fl_tune *t)
{
    t->stop_requested = 1;
    if (t->study) fl_study_stop(t->study);
}

/* ---- life ----------------------------------------------------------------------------------------------- */

/* Copies the file, with its `quick` part applied if that was requested. */
static fl_status copy_file(fl_tune *t, const fl_config *cfg)
{
    if (!(t->cfg = fl_config_copy(cfg))) return FL_ENOMEM;
    if (!t->options.quick) return FL_OK;
    fli_node *root = fli_config_change(t->cfg);
    fl_status s = fli_experiment_apply_quick(&t->cfg->arena, root);
    fli_node_take(root, "quick");
    return s;
}

/* Seeds, budget and folder, from the options or else from the file. */
static fl_status read_own(fl_tune *t, const fl_tune_options *o)
{
    tune_settings own;
    fli_node *map = fli_node_new(&t->arena, FLI_NODE_MAP, NULL, NULL);
    for (const fl_key *k = tune_table; map && k->name; k++) {
        const fli_node *n = fli_node_find(t->x.tune, k->name);
        fli_node *copy = n ? fli_arena_alloc(&t->arena, 1, sizeof *copy) : NULL;
        if (n && !copy) return FL_ENOMEM;
        if (n) *copy = *n, fli_node_put(map, copy);
    }
    fl_status s = map ? fli_bind(t->ctx, &t->arena, "tune", map, NULL, &(fli_table){tune_table, &own}, 1) : FL_ENOMEM;
    if (s) return s;
    t->seeds = t->options.seeds ? t->options.seeds : (size_t)own.seeds;
    t->budget = o->budget ? o->budget : (size_t)own.budget;
    if (t->seeds > 1000)
        return fli_fail(t->ctx, FL_ECONFIG, "%zu tuning seeds are too many; at most 1000 are possible", t->seeds);
    uint64_t most = (uint64_t)1 << 53, far = FLI_TUNE_SEED_OFFSET;
    t->first_seed = t->x.first_seed + 2 * far < most ? t->x.first_seed + far : t->x.first_seed - far;
    int named = t->options.output && *t->options.output && !o->compare_next;
    char *path = fli_strf(t->ctx, "%s%s", t->x.output, named ? "" : "/tune");
    t->output = path ? fli_arena_strdup(&t->arena, path) : NULL;
    fli_free(path);
    t->claim = (fli_output_claim){t->ctx, t->output, NULL};
    t->compare_claim = (fli_output_claim){t->ctx, t->x.output, NULL};
    return t->output ? FL_OK : FL_ENOMEM;
}

/* Refuses grids and points: tuning chooses the settings to try. */
static fl_status check_methods(fl_tune *t)
{
    char where[512];
    for (size_t i = 0; i < t->x.method_count; i++) {
        const fli_method *m = &t->x.methods[i];
        const fli_node *at = m->grid ? m->grid->first : m->points;
        if (at)
            return fli_fail(t->ctx, FL_ECONFIG,
                            "%sa grid or points cannot be tuned; give the values as tune: {KEY: {values: [...]}}",
                            fli_node_where(at, where, sizeof where));
    }
    return FL_OK;
}

static fl_status prepare(fl_tune *t, const fl_tune_options *o)
{
    if (t->options.data && !(t->options.data = fli_arena_strdup(&t->arena, t->options.data))) return FL_ENOMEM;
    fl_study_options as_is = t->options;
    as_is.seeds = 1;
    fl_status s = fli_experiment_init(t->cfg, &as_is, &t->x);
    if (!s) s = check_methods(t);
    if (!s) s = read_own(t, o);
    if (!s && !(t->tuned = fli_arena_alloc(&t->arena, t->x.method_count, sizeof *t->tuned))) s = FL_ENOMEM;
    for (size_t i = 0; i < t->x.method_count && !s; i++) t->tuned[i].method = &t->x.methods[i];
    if (!s) s = fli_tune_ranges(t);
    if (!s) s = read_goal(t, fli_node_find(t->x.tune, "goal"));
    if (!s) s = spend(t);
    for (size_t i = 0; i < t->x.method_count && !s; i++) s = fli_tune_candidates(t, &t->tuned[i], t->candidates_at[0]);
    return s ? s : make_rung(t);
}

fl_status fl_tune_new(fl_config *cfg, const fl_tune_options *options, fl_tune **out)
{
    fl_tune_options o = {.size = sizeof o};
    fl_study_options study;
    fli_clear(cfg->ctx);
    fl_status s =
        options ? fli_take_versioned(cfg->ctx, "fl_tune_options", options, options->size, &o, sizeof o) : FL_OK;
    if (!s) s = fli_study_options_take(cfg->ctx, o.study, &study);
    if (s) return s;
    fl_tune *t = fli_alloc(cfg->ctx, 1, sizeof *t);
    if (!t) return FL_ENOMEM;
    t->ctx = cfg->ctx;
    t->options = study;
    t->options.size = sizeof t->options;
    t->options.tensorboard = NULL;
    t->compare_next = o.compare_next;
    fli_arena_init(&t->arena, t->ctx);
    s = copy_file(t, cfg);
    if (!s) s = prepare(t, &o);
    if (s)
        fl_tune_free(t);
    else
        *out = t;
    return s;
}

void fl_tune_free(fl_tune *t)
{
    if (!t) return;
    fl_study_free(t->study);
    fli_output_claim_leave(&t->claim);
    fli_output_claim_leave(&t->compare_claim);
    fli_experiment_fini(&t->x);
    fl_config_free(t->cfg);
    fli_arena_fini(&t->arena);
    fli_free(t);
}

const char *fl_tune_output(const fl_tune *t) { return t->output; }

int fl_tune_done(const fl_tune *t) { return t->rung == t->rungs; }
