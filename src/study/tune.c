/* Tuning from rung to rung: how many candidates and seeds each has, running it, who goes on. */
#include "study/tune.h"

#include "base/file.h"
#include "base/number.h"
#include "base/sized.h"
#include "format/yaml.h"
#include "study/variants.h"

#include <string.h>

enum { KEEP = 3, MOST_CANDIDATES = 1000 }; /* one in KEEP goes on, but at least one, and the file's own setting */

typedef struct {
    int64_t seeds, budget;
} own_settings;

static const fli_key own_table[] = {
    FLI_KEY_INT(own_settings, seeds, "3", 1, 1000, "tuning seeds of the settings that come to the last rung"),
    FLI_KEY_INT(own_settings, budget, "20", 1, 1e6, "full-length runs with one seed, for every method"),
    FLI_KEY_END,
};

/* ---- the budget ----------------------------------------------------------------------------------------- */

/* Lays out the rungs for this many candidates; returns what they cost, in runs. */
static size_t plan_rungs(fl_tune *t, size_t candidates)
{
    size_t cost = 0, seeds = 1, before = 0, field = candidates;
    for (t->rungs = 0; t->rungs < FLI_TUNE_RUNGS; t->rungs++) {
        t->seeds_at[t->rungs] = seeds;
        t->field_at[t->rungs] = field;
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

static fli_node *points_of(const fli_contest *c, fli_arena *a)
{
    fli_node *list = fli_node_new(a, FLI_NODE_LIST, "points", NULL);
    for (size_t i = 0; list && i < c->field_count; i++) {
        fli_node *copy = fli_arena_alloc(a, 1, sizeof *copy);
        if (!copy) return NULL;
        *copy = *c->candidates[c->field[i]].point;
        fli_node_append(list, copy);
    }
    return list;
}

/* Gives every method of the tree its points. */
static fl_status put_points(fl_tune *t, fl_config *cfg)
{
    fli_node *methods = fli_node_find(cfg->root, "methods"), *at = methods ? methods->first : cfg->root;
    for (size_t i = 0; i < t->x.method_count; i++, at = at->next) {
        fli_node *points = points_of(&t->contests[i], &cfg->arena);
        if (!points) return FL_ENOMEM;
        fli_node_put(at, points);
    }
    return FL_OK;
}

/* The comparison that the present rung is: the file with points and tuning seeds, models not kept. */
static fl_status make_rung(fl_tune *t)
{
    char seed[40];
    fl_study_options o = t->options;
    fl_config *cfg = fl_config_copy(t->cfg);
    char *folder = fli_strf(t->ctx, "%s/trials", t->output);
    fl_status s = cfg && folder ? FL_OK : FL_ENOMEM;
    fli_snprintf(seed, sizeof seed, "%llu", (unsigned long long)t->first_seed);
    if (!s) {
        fli_node *first = fli_node_new(&cfg->arena, FLI_NODE_SCALAR, "seed", seed);
        fli_node *light = fli_node_new(&cfg->arena, FLI_NODE_SCALAR, "output_model", "false");
        if (first) fli_node_put(cfg->root, first);
        if (light) fli_node_put(cfg->root, light);
        s = first && light ? put_points(t, cfg) : FL_ENOMEM;
    }
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

/* Divergence is a result, and a method that always diverges has no winner; anything else that stops a run would spoil
 * the choice. */
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
    for (size_t i = 0; i < t->x.method_count; i++) lost += t->contests[i].lost = !any_done(t, i);
    return lost == t->x.method_count ? fl_tune_verdict(t) : FL_OK;
}

fl_status fl_tune_verdict(fl_tune *t)
{
    fl_status s = FL_OK;
    fli_clear(t->ctx);
    for (size_t i = 0; i < t->x.method_count; i++)
        if (t->contests[i].lost)
            s = fli_fail_also(t->ctx, FL_EDIVERGED, "every setting of %s diverged; try lower ranges (%s)",
                              t->contests[i].method->label, t->contests[i].ranges[0].key);
    return s;
}

/* ---- who goes on ---------------------------------------------------------------------------------------- */

/* The field in order, the best first; of equals the one that was made first. */
static void rank(const fl_tune *t, const fli_contest *c, size_t *order)
{
    for (size_t i = 0; i < c->field_count; i++) {
        size_t k = i;
        const fli_score *score = &c->candidates[c->field[i]].score;
        for (; k && fli_goal_beats(&t->goal, score, &c->candidates[order[k - 1]].score); k--) order[k] = order[k - 1];
        order[k] = c->field[i];
    }
}

/* Marks those that go on: the best, and the file's own setting beside them; none that has diverged, if that leaves
 * any. */
static void choose(fli_contest *c, const size_t *order, size_t room)
{
    fli_candidate *own = &c->candidates[0];
    size_t left = room - !own->score.failed;
    own->stays = !own->score.failed;
    for (size_t i = 0; i < c->field_count && left; i++) {
        fli_candidate *k = &c->candidates[order[i]];
        if (k->stays || k->score.failed) continue;
        k->stays = 1;
        left--;
    }
    if (left == room) c->candidates[order[0]].stays = 1;
}

/* Those that stay stand before those that do not, and make up the next field. */
static void number(fli_contest *c, const size_t *order)
{
    size_t in = 0, out = 0, next = 0;
    for (size_t i = 0; i < c->field_count; i++) out += c->candidates[order[i]].stays;
    for (size_t i = 0; i < c->field_count; i++) {
        fli_candidate *k = &c->candidates[order[i]];
        k->standing = k->stays ? ++in : ++out;
    }
    for (size_t i = 0; i < c->field_count; i++)
        if (c->candidates[c->field[i]].stays) c->field[next++] = c->field[i];
    c->field_count = next;
}

static fl_status judge(fl_tune *t, size_t method)
{
    fli_contest *c = &t->contests[method];
    size_t more = t->seeds_at[t->rung] - (t->rung ? t->seeds_at[t->rung - 1] : 0);
    size_t *order = fli_alloc(t->ctx, c->field_count, sizeof *order);
    if (!order) return FL_ENOMEM;
    for (size_t i = 0; i < c->field_count; i++) {
        fli_candidate *k = &c->candidates[c->field[i]];
        fli_goal_score(t, method, i, &k->score);
        k->rung = t->rung;
        k->stays = t->rung + 1 == t->rungs;
    }
    c->runs += c->field_count * more;
    rank(t, c, order);
    if (t->rung + 1 < t->rungs) choose(c, order, t->field_at[t->rung + 1]);
    number(c, order);
    fli_free(order);
    return FL_OK;
}

/* Runs the present rung. *whole: all of it was run. */
static fl_status run_rung(fl_tune *t, fl_study_fn *observer, void *arg, int *whole)
{
    size_t done;
    fl_status s = t->study ? FL_OK : make_rung(t);
    if (s) return s;
    size_t total = fl_study_runs(t->study, &done);
    fli_log(t->ctx, FL_LOG_INFO, "rung %zu of %zu: up to %zu settings of each method over %zu seed%s, %zu runs",
            t->rung + 1, t->rungs, t->field_at[t->rung], t->seeds_at[t->rung], t->seeds_at[t->rung] == 1 ? "" : "s",
            total);
    s = fl_study_go(t->study, observer, arg);
    *whole = !t->asked;
    for (size_t i = 0; i < t->study->x.count; i++) *whole &= t->study->outcomes[i].state != FLI_TRIAL_OPEN;
    if (s || !*whole) return s;
    if (!(s = check_failures(t)) && !t->rung) s = fli_goal_settle(t);
    for (size_t i = 0; i < t->x.method_count && !s; i++) s = judge(t, i);
    fl_study_free(t->study);
    t->study = NULL;
    return s;
}

/* Runs that a comparison has left, of winners that this tuning may not find again, would be in the way at the end of
 * it: that is said before the budget is spent. */
static fl_status check_above(fl_tune *t)
{
    int same = 1;
    fl_status s = fli_claim_check(&t->above, fli_study_files);
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

/* Nobody else writes where this tuning will, and it overwrites nothing that is somebody's own. */
static fl_status claim_folders(fl_tune *t, const char *const *names)
{
    fl_status s = FL_OK;
    if (t->compare_next && !(s = fli_claim_take(&t->above))) s = check_above(t);
    if (!s) s = fli_claim_take(&t->claim);
    return s ? s : fli_claim_check(&t->claim, names);
}

fl_status fl_tune_go(fl_tune *t, fl_study_fn *observer, void *arg)
{
    int whole = 1;
    fli_arena a;
    fli_clear(t->ctx);
    t->asked = 0;
    fli_arena_init(&a, t->ctx);
    const char *const *names = fli_tune_files(t, &a);
    fl_status s = names ? claim_folders(t, names) : FL_ENOMEM;
    while (!s && t->rung < t->rungs && whole) {
        s = run_rung(t, observer, arg, &whole);
        if (!s && whole) t->rung++;
    }
    fli_arena_fini(&a);
    if (!s && whole) fli_tune_warn(t);
    return s;
}

void fl_tune_stop(fl_tune *t)
{
    t->asked = 1;
    if (t->study) fl_study_stop(t->study);
}

/* ---- life ----------------------------------------------------------------------------------------------- */

/* The file with its `quick` part applied, if that is wanted. */
static fl_status copy_file(fl_tune *t, const fl_config *cfg)
{
    if (!(t->cfg = fl_config_copy(cfg))) return FL_ENOMEM;
    if (!t->options.quick) return FL_OK;
    fl_status s = fli_experiment_hurry(&t->cfg->arena, t->cfg->root);
    for (fli_node **at = &t->cfg->root->first; *at; at = &(*at)->next)
        if (!strcmp((*at)->key, "quick")) {
            *at = (*at)->next;
            break;
        }
    return s;
}

/* Seeds, budget and folder, by the options or else by the file. */
static fl_status read_own(fl_tune *t, const fl_tune_options *o)
{
    own_settings own;
    fli_node *map = fli_node_new(&t->arena, FLI_NODE_MAP, NULL, NULL);
    for (const fli_key *k = own_table; map && k->name; k++) {
        const fli_node *n = fli_node_find(t->x.tune, k->name);
        fli_node *copy = n ? fli_arena_alloc(&t->arena, 1, sizeof *copy) : NULL;
        if (n && !copy) return FL_ENOMEM;
        if (n) *copy = *n, fli_node_put(map, copy);
    }
    fl_status s = map ? fli_bind(t->ctx, &t->arena, "tune", map, NULL, &(fli_table){own_table, &own}, 1) : FL_ENOMEM;
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
    t->claim = (fli_claim){t->ctx, t->output, NULL};
    t->above = (fli_claim){t->ctx, t->x.output, NULL};
    return t->output ? FL_OK : FL_ENOMEM;
}

/* A grid says what is tried, and so does tuning. */
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
    if (!s && !(t->contests = fli_arena_alloc(&t->arena, t->x.method_count, sizeof *t->contests))) s = FL_ENOMEM;
    for (size_t i = 0; i < t->x.method_count && !s; i++) t->contests[i].method = &t->x.methods[i];
    if (!s) s = fli_tune_ranges(t);
    if (!s) s = fli_goal_read(t, fli_node_find(t->x.tune, "goal"));
    if (!s) s = spend(t);
    for (size_t i = 0; i < t->x.method_count && !s; i++) s = fli_tune_candidates(t, &t->contests[i], t->field_at[0]);
    return s ? s : make_rung(t);
}

fl_status fl_tune_new(fl_config *cfg, const fl_tune_options *options, fl_tune **out)
{
    fl_tune_options o = {.size = sizeof o};
    fl_study_options study;
    fli_clear(cfg->ctx);
    fl_status s = options ? fli_take_sized(cfg->ctx, "fl_tune_options", options, options->size, &o, sizeof o) : FL_OK;
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
    fli_claim_leave(&t->claim);
    fli_claim_leave(&t->above);
    fli_experiment_fini(&t->x);
    fl_config_free(t->cfg);
    fli_arena_fini(&t->arena);
    fli_free(t);
}

const char *fl_tune_output(const fl_tune *t) { return t->output; }

int fl_tune_done(const fl_tune *t) { return t->rung == t->rungs; }
