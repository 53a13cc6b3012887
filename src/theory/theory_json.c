/* What `fedloom check` prints, as JSON: the same facts, with all their digits. */
#include "theory/theory_check.h"

#include <math.h>

static void put_facts(fli_json *j, const fli_check *c)
{
    const fli_facts_all *all = &c->facts.all;
    fli_json_map(j, "measured");
    fli_json_whole(j, "clients", c->facts.measured);
    fli_json_whole(j, "of_clients", c->plan.fed->clients);
    fli_json_real(j, "least_smoothness", all->least_smoothness);
    fli_json_real(j, "smoothness", c->facts.worst.smoothness);
    if (!isnan(all->convexity)) {
        fli_json_real(j, "convexity", all->convexity);
        fli_json_real(j, "most_convexity", all->most_convexity);
    }
    if (all->upper_smoothness > 0) fli_json_real(j, "upper_smoothness", all->upper_smoothness);
    fli_json_whole(j, "least_steps", c->facts.worst.least_steps);
    fli_json_whole(j, "steps", c->facts.worst.steps);
    fli_json_real(j, "probability", c->facts.worst.probability);
    fli_json_end(j);
}

static void put_condition(fli_json *j, const fli_condition_seen *s)
{
    int bound = s->kind == FLI_CONDITION_BOUND || s->kind == FLI_CONDITION_PRINTED;
    fli_json_map(j, NULL);
    fli_json_text(j, "name", s->name);
    fli_json_text(j, "formula", s->formula);
    fli_json_text(j, "verdict", fli_condition_verdict(s));
    if ((bound || s->kind == FLI_CONDITION_REQUIRED) && !s->whole) fli_json_whole(j, "failing_clients", s->failing);
    if (bound) {
        if (!s->whole) fli_json_whole(j, "tightest_client", s->client);
        fli_json_real(j, "have", s->have);
        fli_json_real(j, "most", s->most);
        fli_json_truth(j, "strict", s->strict);
    }
    if (fli_condition_fails(s)) fli_json_truth(j, "has_fix", s->has_fix);
    fli_json_end(j);
}

static void put_fix(fli_json *j, const fli_fix *f)
{
    fli_json_map(j, NULL);
    fli_json_text(j, "key", f->key);
    fli_json_text(j, "value", f->value);
    fli_json_text(j, "why", f->why);
    fli_json_end(j);
}

void fli_check_json(fli_json *j, const fli_check *c)
{
    fli_json_text(j, "method", c->plan.algo->name);
    fli_json_text(j, "from", c->plan.algo->citation);
    fli_json_text(j, "settled", c->plan.settled);
    put_facts(j, c);
    fli_json_truth(j, "has_conditions", c->found.count > 0);
    fli_json_truth(j, "applies", c->found.count > 0 && !fli_check_failing(c));
    fli_json_list(j, "conditions");
    for (size_t i = 0; i < c->found.count; i++) put_condition(j, &c->found.seen[i]);
    fli_json_end(j);
    fli_json_list(j, "fixes");
    for (size_t i = 0; i < c->fixes.count; i++) put_fix(j, &c->fixes.at[i]);
    fli_json_end(j);
    fli_check_json_rounds(j, c);
}
