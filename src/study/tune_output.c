/* The output of a tuning: the table (text, JSON), all candidates (tried.csv, tried.svg), the winners as files to
 * run. */
#include "base/file.h"
#include "base/number.h"
#include "format/yaml.h"
#include "report/internal.h"
#include "study/experiment.h"
#include "study/tune.h"

#include <math.h>
#include <string.h>

/* ==== tried.svg ============================================================================================= */

/* The index of a text among the panel's words; NaN: not one of them. */
static double choice_of(const fli_panel *p, const char *text)
{
    for (size_t k = 0; k < p->word_count; k++)
        if (!strcmp(p->words[k], text)) return (double)k;
    return NAN;
}

static fl_status x_of(fl_tune *t, const fli_tuned *c, const fli_candidate *k, const fli_panel *p, double *out)
{
    char *end;
    fli_text text;
    fli_text_init(&text, t->ctx);
    fli_candidate_value(c, k, p->x_title, &text);
    *out = fli_strtod(fli_text_get(&text), &end);
    if (*end || !text.n || (p->log && !(*out > 0))) *out = NAN;
    if (p->words) *out = choice_of(p, fli_text_get(&text));
    fl_status s = fli_text_ok(&text);
    fli_text_fini(&text);
    return s;
}

static double y_of(const fl_tune *t, const fli_candidate *k)
{
    const fli_stat *st = t->goal.cost ? &k->score.cost : &k->score.value;
    return st->n && !k->score.failed ? st->mean : NAN;
}

static fl_status words_of(fl_tune *t, fli_arena *a, const fli_span *r, fli_panel *out)
{
    const char **words = fli_arena_alloc(a, r->count, sizeof *words);
    if (!words) return FL_ENOMEM;
    for (const fli_node *v = r->values->first; v; v = v->next) {
        fli_text text;
        fli_text_init(&text, t->ctx);
        fli_value_words(&text, v);
        const char *word = text.failed ? NULL : fli_arena_strdup(a, fli_text_get(&text));
        fli_text_fini(&text);
        if (!word) return FL_ENOMEM;
        words[out->word_count++] = word;
    }
    out->words = words;
    return FL_OK;
}

static fl_status make_panel(fl_tune *t, fli_arena *a, const fli_tuned *c, const fli_span *r, fli_panel *out)
{
    fli_panel_dot *dots = fli_arena_alloc(a, c->count, sizeof *dots);
    if (!dots) return FL_ENOMEM;
    *out = (fli_panel){.title = c->method->label, .x_title = r->key, .from = r->from, .to = r->to, .log = r->log};
    fl_status s = r->values ? words_of(t, a, r, out) : FL_OK;
    for (size_t i = 0; i < c->count && !s; i++) {
        const fli_candidate *k = &c->candidates[i];
        dots[i] = (fli_panel_dot){.y = y_of(t, k), .rung = k->rung};
        dots[i].mark = k->place == 1 ? FLI_DOT_WINNER : i ? FLI_DOT_PLAIN : FLI_DOT_OWN;
        s = x_of(t, c, k, out, &dots[i].x);
    }
    out->dots = dots;
    out->count = c->count;
    return s;
}

/* The goal in words. */
static void goal_words(fli_text *text, const fli_goal *g)
{
    if (g->cost)
        fli_text_addf(text, "%s to %s %g", g->cost->is.title, g->value->is.title, g->target);
    else
        fli_text_add(text, g->value->is.title);
}

/* Draws all candidates: the goal against each key, a panel per method and key. */
static fl_status draw_tried(fl_tune *t, fli_arena *a, fli_text *out)
{
    fl_status s = FL_OK;
    fli_text goal;
    fli_panels p = {.title = t->x.name, .seeds = t->seeds_at, .rungs = t->rungs};
    p.y = t->goal.cost ? &t->goal.cost->is : &t->goal.value->is;
    for (size_t i = 0; i < t->x.method_count; i++)
        if (t->tuned[i].range_count > p.columns) p.columns = t->tuned[i].range_count;
    p.count = t->x.method_count * p.columns;
    fli_panel *panels = fli_arena_alloc(a, p.count, sizeof *panels);
    if (!panels) return FL_ENOMEM;
    for (size_t i = 0; i < t->x.method_count; i++)
        for (size_t j = 0; j < t->tuned[i].range_count && !s; j++)
            s = make_panel(t, a, &t->tuned[i], &t->tuned[i].ranges[j], &panels[i * p.columns + j]);
    p.panels = panels;
    fli_text_init(&goal, t->ctx);
    goal_words(&goal, &t->goal);
    p.y_title = fli_text_get(&goal);
    if (!s) s = fli_text_ok(&goal);
    if (!s) s = fli_panels_svg(out, &p);
    fli_text_fini(&goal);
    return s;
}

/* ==== the table as JSON ===================================================================================== */

/* Per method, the results of the file's own setting and of the best one. */

static void put_setting(fli_json *j, const fli_tuned *c, const fli_candidate *k)
{
    fli_json_map(j, "setting");
    for (size_t i = 0; i < c->range_count; i++) {
        fli_text value;
        fli_text_init(&value, j->t->ctx);
        fli_candidate_value(c, k, c->ranges[i].key, &value);
        fli_json_text(j, c->ranges[i].key, fli_text_get(&value));
        j->t->failed |= value.failed;
        fli_text_fini(&value);
    }
    fli_json_end(j);
}

static void put_candidate(fli_json *j, const char *key, const fl_tune *t, const fli_tuned *c, const fli_candidate *k)
{
    fli_json_map(j, key);
    fli_json_whole(j, "seeds", k->score.seeds);
    fli_json_whole(j, "diverged", k->score.failed);
    fli_stat_json(j, t->goal.value->is.name, &k->score.value);
    if (t->goal.cost) {
        fli_json_whole(j, "reached", k->score.reached);
        fli_stat_json(j, "cost", &k->score.cost);
    }
    put_setting(j, c, k);
    fli_json_end(j);
}

static void put_method(fli_json *j, const fl_tune *t, const fli_tuned *c)
{
    fli_json_map(j, NULL);
    fli_json_text(j, "method", c->method->label);
    fli_json_whole(j, "tried", c->count);
    fli_json_whole(j, "runs", c->runs);
    put_candidate(j, "as_it_was", t, c, &c->candidates[0]);
    if (c->all_diverged)
        fli_json_text(j, "best", NULL);
    else
        put_candidate(j, "best", t, c, fli_tuned_winner(c));
    fli_json_end(j);
}

static void print_json(fli_text *text, const fl_tune *t)
{
    fli_json j;
    fli_json_init(&j, text);
    fli_json_map(&j, NULL);
    fli_json_text(&j, "fedloom", FL_VERSION);
    fli_json_text(&j, "name", t->x.name);
    fli_json_map(&j, "goal");
    fli_json_text(&j, "metric", t->goal.value->is.name);
    fli_json_text(&j, "cost", t->goal.cost ? t->goal.cost->is.name : NULL);
    fli_json_real(&j, "target", t->goal.target);
    fli_json_end(&j);
    fli_json_whole(&j, "budget", t->budget);
    fli_json_whole(&j, "first_seed", t->first_seed);
    fli_json_whole(&j, "seeds", t->seeds);
    fli_json_list(&j, "methods");
    for (size_t i = 0; i < t->x.method_count; i++) put_method(&j, t, &t->tuned[i]);
    fli_json_end(&j);
    fli_json_end(&j);
}

/* ==== tables and files ====================================================================================== */

const fli_candidate *fli_tuned_winner(const fli_tuned *c)
{
    size_t i = 0;
    while (i + 1 < c->count && c->candidates[i].place != 1) i++;
    return &c->candidates[i];
}

void fli_candidate_value(const fli_tuned *c, const fli_candidate *k, const char *key, fli_text *out)
{
    fli_text text;
    const fli_node *own = fli_node_find(k->point, key);
    fli_text_init(&text, out->ctx);
    if (own)
        fli_value_words(&text, own);
    else
        fli_settings_print_key(&text, c->settings, key);
    const char *s = fli_text_get(&text);
    int one = text.n > 2 && s[0] == '[' && !strchr(s, ','); /* a list of one number is printed as that number */
    fli_text_addn(out, one ? s + 1 : s, one ? text.n - 2 : text.n);
    out->failed |= text.failed;
    fli_text_fini(&text);
}

/* ---- words ---------------------------------------------------------------------------------------------- */

/* "local.lr=0.1, algorithm.mu=1" */
static void add_setting(fli_text *t, const fli_tuned *c, const fli_candidate *k)
{
    for (size_t j = 0; j < c->range_count; j++) {
        fli_text_addf(t, "%s%s=", j ? ", " : "", c->ranges[j].key);
        fli_candidate_value(c, k, c->ranges[j].key, t);
    }
}

static void add_box(fli_text *t, const fli_tuned *c)
{
    for (size_t j = 0; j < c->range_count; j++) {
        const fli_span *r = &c->ranges[j];
        fli_text_addf(t, "%s%s ", j ? ", " : "", r->key);
        if (r->values)
            fli_value_words(t, r->values);
        else
            fli_text_addf(t, "%g to %g%s", r->from, r->to, r->log ? " (log)" : "");
    }
}

/* "93.10 ± 0.20", or "120 (2/3)" rounds to a target, or "never, 88.20" */
static void add_score(fli_text *t, const fli_goal *g, const fli_score *k)
{
    if (k->failed == k->seeds) {
        fli_text_add(t, "diverged");
        return;
    }
    if (g->cost && k->reached) {
        fli_stat_words(t, &g->cost->is, &k->cost);
        if (k->reached < k->seeds) fli_text_addf(t, " (%zu/%zu)", k->reached, k->seeds);
        return;
    }
    if (g->cost) fli_text_add(t, "never, ");
    fli_stat_words(t, &g->value->is, &k->value);
}

static void add_effort(fli_text *t, const fl_tune *u)
{
    unsigned long long first = u->first_seed;
    fli_text_addf(t,
                  "Settings were tuned with a budget of %zu runs for every method: up to %zu settings each, by "
                  "successive halving over the seeds %llu to %llu, chosen by ",
                  u->budget, u->candidates_at[0], first, first + u->seeds - 1);
}

/* How settings were found, for a reader of the results. */
static void add_story(fli_text *t, const fl_tune *u)
{
    add_effort(t, u);
    goal_words(t, &u->goal);
    fli_text_add(t, ". Ranges: ");
    for (size_t i = 0; i < u->x.method_count; i++) {
        fli_text_addf(t, "%s%s: ", i ? "; " : "", u->tuned[i].method->label);
        add_box(t, &u->tuned[i]);
    }
    fli_text_add(t, ".");
}

/* ---- edges ---------------------------------------------------------------------------------------------- */

/* ---- tried.csv ------------------------------------------------------------------------------------------ */

/* The keys of all boxes, each once. */
static fl_status all_keys(fl_tune *t, fli_arena *a, const char ***out, size_t *count)
{
    size_t most = 0;
    for (size_t i = 0; i < t->x.method_count; i++) most += t->tuned[i].range_count;
    *out = fli_arena_alloc(a, most, sizeof **out);
    *count = 0;
    if (!*out) return FL_ENOMEM;
    for (size_t i = 0; i < t->x.method_count; i++)
        for (size_t j = 0; j < t->tuned[i].range_count; j++) {
            size_t k = 0;
            while (k < *count && strcmp((*out)[k], t->tuned[i].ranges[j].key)) k++;
            if (k == *count) (*out)[(*count)++] = t->tuned[i].ranges[j].key;
        }
    return FL_OK;
}

static void csv_head(fli_text *text, const fl_tune *t, const char *const *keys, size_t count)
{
    const char *value = t->goal.value->is.name;
    fli_text_add(text, "method,candidate,standing,rung,seeds,diverged");
    if (t->goal.cost) {
        fli_text_addf(text, ",reached,%s_to_%g,%s_to_%g_std", t->goal.cost->is.name, t->goal.target,
                      t->goal.cost->is.name, t->goal.target);
    }
    fli_text_addf(text, ",%s,%s_std", value, value);
    for (size_t k = 0; k < count; k++) fli_text_addf(text, ",%s", keys[k]);
    fli_text_add(text, "\n");
}

static void csv_row(fli_text *text, const fl_tune *t, const fli_tuned *c, size_t i, const char *const *keys,
                    size_t count)
{
    const fli_candidate *k = &c->candidates[i];
    fli_csv_text(text, c->method->label);
    fli_text_addf(text, ",%zu,%zu,%zu,%zu,%zu", i, k->place, k->rung + 1, k->score.seeds, k->score.failed);
    if (t->goal.cost) {
        fli_text_addf(text, ",%zu", k->score.reached);
        fli_stat_csv(text, &k->score.cost);
    }
    fli_stat_csv(text, &k->score.value);
    for (size_t j = 0; j < count; j++) {
        size_t r = 0;
        while (r < c->range_count && strcmp(c->ranges[r].key, keys[j])) r++;
        fli_text value;
        fli_text_init(&value, t->ctx);
        if (r < c->range_count) fli_candidate_value(c, k, keys[j], &value);
        fli_text_add(text, ",");
        if (value.n) fli_csv_text(text, fli_text_get(&value));
        text->failed |= value.failed;
        fli_text_fini(&value);
    }
    fli_text_add(text, "\n");
}

static fl_status make_csv(fl_tune *t, fli_arena *a, fli_text *text)
{
    const char **keys;
    size_t count;
    fl_status s = all_keys(t, a, &keys, &count);
    if (s) return s;
    csv_head(text, t, keys, count);
    for (size_t i = 0; i < t->x.method_count; i++) {
        const fli_tuned *c = &t->tuned[i];
        for (size_t place = 1; place <= c->count; place++)
            for (size_t k = 0; k < c->count; k++)
                if (c->candidates[k].place == place) csv_row(text, t, c, k, keys, count);
    }
    return FL_OK;
}

/* ---- the winners ---------------------------------------------------------------------------------------- */

/* Overrides a map of settings with a point. */
static fl_status lay_over(fl_ctx *ctx, fli_arena *a, fli_node *map, const fli_node *point)
{
    fl_status s = FL_OK;
    for (const fli_node *k = point->first; k && !s; k = k->next) {
        fli_node *over = fli_nest(a, k->key, k);
        s = over ? fli_yaml_merge(ctx, a, map, over) : FL_ENOMEM;
    }
    return s;
}

static fl_status put_description(fl_tune *t, fl_config *cfg)
{
    fli_text text;
    fli_text_init(&text, t->ctx);
    fli_text_addf(&text, "%s%s", t->x.description, *t->x.description ? " " : "");
    add_story(&text, t);
    fl_status s = fli_text_ok(&text);
    if (!s) s = fli_config_put(cfg, "description", fli_text_get(&text));
    fli_text_fini(&text);
    return s;
}

/* Sets each method to its best setting, and removes methods without one. */
static fl_status put_winners(fl_tune *t, fl_config *cfg)
{
    fl_status s = FL_OK;
    fli_node *root = fli_config_change(cfg), *methods = fli_node_find(root, "methods");
    fli_node **at = methods ? &methods->first : &root;
    for (size_t i = 0; i < t->x.method_count && !s; i++) {
        if (t->tuned[i].all_diverged) { /* other methods have winners, so this is a list */
            *at = (*at)->next;
            continue;
        }
        fli_node_take(*at, "tune");
        s = lay_over(t->ctx, &cfg->arena, *at, fli_tuned_winner(&t->tuned[i])->point);
        at = &(*at)->next;
    }
    return s;
}

fl_status fl_tune_winners(fl_tune *t, fl_config **out)
{
    fli_clear(t->ctx);
    if (!fl_tune_done(t)) return fli_fail(t->ctx, FL_ECONFIG, "the tuning is not finished");
    fl_config *cfg = fl_config_copy(t->cfg);
    if (!cfg) return FL_ENOMEM;
    fli_node_take(fli_config_change(cfg), "tune");
    fl_status s = put_winners(t, cfg);
    if (!s) s = put_description(t, cfg);
    if (!s) s = fli_config_put(cfg, "output", t->x.output);
    /* the points' places refer to the tuning's memory; a copy has its own */
    if (!s && !(*out = fl_config_copy(cfg))) s = FL_ENOMEM;
    fl_config_free(cfg);
    return s;
}

/* best.yaml: an experiment under a name of its own. */
static fl_status make_best(fl_tune *t, fli_arena *a, fli_text *text)
{
    fl_config *cfg = NULL;
    (void)a;
    fl_status s = fl_tune_winners(t, &cfg);
    if (s) return s;
    char *name = fli_strf(t->ctx, "%s-tuned", t->x.name);
    fli_node_take(fli_config_change(cfg), "output");
    s = name ? fli_config_put(cfg, "name", name) : FL_ENOMEM;
    if (!s) fli_yaml_print(text, cfg->root, NULL, 0);
    fli_free(name);
    fl_config_free(cfg);
    return s;
}

/* A method's file: the whole configuration, as in a result's folder. */
static fl_status make_method(fl_tune *t, size_t i, fli_text *text)
{
    const fli_tuned *c = &t->tuned[i];
    const fli_candidate *best = fli_tuned_winner(c);
    fl_config *cfg = fl_config_copy(t->x.trials[i].cfg);
    if (!cfg) return FL_ENOMEM;
    fli_text_add(text, "# tuned: ");
    add_setting(text, c, best);
    fli_text_add(text, "\n# ");
    goal_words(text, &t->goal);
    fli_text_add(text, ": ");
    add_score(text, &t->goal, &best->score);
    fli_text_addf(text, " over the seeds %llu to %llu\n", (unsigned long long)t->first_seed,
                  (unsigned long long)(t->first_seed + best->score.seeds - 1));
    fl_status s = fli_text_ok(text);
    if (!s) s = lay_over(t->ctx, &cfg->arena, fli_config_change(cfg), best->point);
    if (!s) s = fli_config_put(cfg, "output", "");
    if (!s) s = fl_config_print(cfg, fli_collect, text);
    fl_config_free(cfg);
    return s;
}

/* ---- all of it ------------------------------------------------------------------------------------------ */

static fl_status (*const makers[])(fl_tune *t, fli_arena *a, fli_text *text) = {make_csv, draw_tried, make_best};
static const char *const made[] = {"tried.csv", "tried.svg", "best.yaml"};
enum { MADE = sizeof made / sizeof *made };

const char *const *fli_tune_files(fl_tune *t, fli_arena *a)
{
    const char **names = fli_arena_alloc(a, MADE + t->x.method_count + 1, sizeof *names);
    if (!names) return NULL;
    memcpy(names, made, sizeof made);
    for (size_t i = 0, n = MADE; i < t->x.method_count; i++) {
        const char *folder = t->x.methods[i].folder;
        if (t->tuned[i].all_diverged) continue;
        char *name = fli_strf(t->ctx, "%s%s.yaml", strcmp(folder, "best") ? "" : "method-", folder);
        names[n] = name ? fli_arena_strdup(a, name) : NULL;
        fli_free(name);
        if (!names[n++]) return NULL;
    }
    return names;
}

fl_status fli_tune_was_same(fl_tune *t, int *same)
{
    enum { MOST_BYTES = 1 << 24 };
    size_t n;
    char *found = NULL, *path = fli_strf(t->ctx, "%s/best.yaml", t->output);
    fli_text effort;
    fli_text_init(&effort, t->ctx);
    add_effort(&effort, t);
    fl_status s = path ? fli_text_ok(&effort) : FL_ENOMEM;
    *same = 0;
    if (!s && fli_path_kind(path)) s = fli_file_read(t->ctx, path, MOST_BYTES, &found, &n);
    if (!s && found) *same = strstr(found, fli_text_get(&effort)) != NULL;
    fli_text_fini(&effort);
    fli_free(found);
    fli_free(path);
    return s;
}

/* The text of every file, in the order of their names. */
static fl_status make_texts(fl_tune *t, fli_arena *a, fli_text *texts)
{
    fl_status s = FL_OK;
    for (size_t i = 0; i < MADE && !s; i++) {
        s = makers[i](t, a, texts);
        if (!s) s = fli_text_ok(texts++);
    }
    for (size_t i = 0; i < t->x.method_count && !s; i++) {
        if (t->tuned[i].all_diverged) continue;
        s = make_method(t, i, texts);
        if (!s) s = fli_text_ok(texts++);
    }
    return s;
}

fl_status fl_tune_write(fl_tune *t)
{
    fli_arena a;
    fli_clear(t->ctx);
    if (!fl_tune_done(t)) return fli_fail(t->ctx, FL_ECONFIG, "the tuning is not finished");
    size_t count = MADE + t->x.method_count;
    fli_arena_init(&a, t->ctx);
    const char *const *names = fli_tune_files(t, &a);
    fli_text *texts = names ? fli_arena_alloc(&a, count, sizeof *texts) : NULL;
    fl_status s = texts ? fli_output_claim_take(&t->claim) : FL_ENOMEM;
    for (size_t i = 0; texts && i < count; i++) fli_text_init(&texts[i], t->ctx);
    if (!s) s = make_texts(t, &a, texts);
    if (!s) s = fli_output_claim_write(&t->claim, names, texts);
    for (size_t i = 0; texts && i < count; i++) fli_text_fini(&texts[i]);
    fli_arena_fini(&a);
    return s;
}

/* A cell of the table below. */
static void add_cell(fli_text *text, const fl_tune *t, const fli_tuned *c, size_t column)
{
    const fli_candidate *best = fli_tuned_winner(c);
    switch (column) {
    case 0: fli_text_add(text, c->method->label); break;
    case 1: fli_text_addf(text, "%zu", c->count); break;
    case 2: fli_text_addf(text, "%zu", c->runs); break;
    case 3: add_score(text, &t->goal, &c->candidates[0].score); break;
    case 4: add_score(text, &t->goal, &best->score); break;
    default: c->all_diverged ? fli_text_add(text, "none") : add_setting(text, c, best); break;
    }
}

static void add_head(fli_text *text, const fl_tune *t, size_t column)
{
    static const char *const heads[] = {"method", "tried", "runs", "", "", "best setting"};
    const fl_metric *m = &t->goal.value->is;
    fli_text_add(text, heads[column]);
    if (column != 3 && column != 4) return;
    goal_words(text, &t->goal);
    if (m->unit == FL_UNIT_SHARE && !t->goal.cost) fli_text_add(text, " %");
    fli_text_add(text, column == 3 ? ", as it was" : ", tuned");
}

static fl_status add_table(fl_tune *t, fli_text *out)
{
    enum { COLUMNS = 6 };
    fli_arena a;
    fli_text text;
    fl_status s = FL_OK;
    fli_arena_init(&a, t->ctx);
    size_t cells = COLUMNS * (t->x.method_count + 1);
    const char **cell = fli_arena_alloc(&a, cells, sizeof *cell);
    for (size_t i = 0; cell && i < cells && !s; i++) {
        fli_text_init(&text, t->ctx);
        if (i < COLUMNS)
            add_head(&text, t, i);
        else
            add_cell(&text, t, &t->tuned[i / COLUMNS - 1], i % COLUMNS);
        s = fli_text_ok(&text);
        if (!s && !(cell[i] = fli_arena_strdup(&a, fli_text_get(&text)))) s = FL_ENOMEM;
        fli_text_fini(&text);
    }
    if (!cell) s = FL_ENOMEM;
    if (!s) fli_grid_text(out, &(fli_grid){cell, t->x.method_count + 1, COLUMNS, NULL});
    fli_arena_fini(&a);
    return s;
}

fl_status fl_tune_table(fl_tune *t, fl_text_fn *out, void *arg)
{
    fli_text text;
    fl_status s = FL_OK;
    fli_clear(t->ctx);
    if (!fl_tune_done(t)) return fli_fail(t->ctx, FL_ECONFIG, "the tuning is not finished");
    fli_text_init(&text, t->ctx);
    if (fli_wants_json(t->ctx))
        print_json(&text, t);
    else
        s = add_table(t, &text);
    if (!s) s = fli_text_ok(&text);
    if (!s) out(arg, fli_text_get(&text));
    fli_text_fini(&text);
    return s;
}
