/* The table of a tuning as JSON: per method what the file's own setting and the best one have shown. */
#include "study/tune.h"

static void put_setting(fli_json *j, const fli_contest *c, const fli_candidate *k)
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

static void put_candidate(fli_json *j, const char *key, const fl_tune *t, const fli_contest *c, const fli_candidate *k)
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

static void put_method(fli_json *j, const fl_tune *t, const fli_contest *c)
{
    fli_json_map(j, NULL);
    fli_json_text(j, "method", c->method->label);
    fli_json_whole(j, "tried", c->count);
    fli_json_whole(j, "runs", c->runs);
    put_candidate(j, "as_it_was", t, c, &c->candidates[0]);
    if (c->lost)
        fli_json_text(j, "best", NULL);
    else
        put_candidate(j, "best", t, c, fli_contest_winner(c));
    fli_json_end(j);
}

void fli_tune_json(fli_text *text, const fl_tune *t)
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
    for (size_t i = 0; i < t->x.method_count; i++) put_method(&j, t, &t->contests[i]);
    fli_json_end(&j);
    fli_json_end(&j);
}
