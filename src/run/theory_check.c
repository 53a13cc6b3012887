/* Holding a configuration against its method's theorem. */
#include "run/theory_check.h"

#include <string.h>

typedef void checks(const void *params, const fli_facts *f, fli_conditions *out);

/* Conditions are monotone in the number of steps and in p_i, but not all in the same direction: both ends are asked. */
static void ask(const fli_plan *p, checks *check, const fli_facts *f, fli_conditions *out)
{
    for (int k = 0; k < 4; k++) {
        fli_facts at = *f;
        if (k & 1) at.steps = f->least_steps;
        if (k & 2) at.probability = f->most_likely;
        if ((k & 1 && at.steps == f->steps) || (k & 2 && at.probability == f->probability)) continue;
        check(p->params, &at, out);
    }
}

fl_status fli_theory_smoothness(const fli_plan *p, double *largest)
{
    fli_measured facts;
    fl_status s = fli_measure_facts(p->ctx, p, &facts);
    *largest = facts.all.smoothness;
    fli_measured_free(&facts);
    return s;
}

fl_status fli_theory_falls(const fli_plan *p, int *falls)
{
    checks *check = p->algo->theory.potential.falls;
    fli_conditions found = {.count = 0};
    fli_measured facts;
    *falls = 0;
    if (!check || !p->model->desc->hvp) return FL_OK;
    fl_status s = fli_measure_facts(p->ctx, p, &facts);
    for (size_t i = 0; !s && i < facts.measured; i++) ask(p, check, &facts.client[i], &found);
    *falls = !s;
    for (size_t i = 0; i < found.count; i++) *falls &= !found.seen[i].failing;
    fli_measured_free(&facts);
    return s;
}

static void ask_all(fli_check *c)
{
    const fli_system_common *system = &c->plan.settings.system;
    if (!c->plan.algo->theory.check) return;
    for (size_t i = 0; i < c->facts.measured; i++)
        ask(&c->plan, c->plan.algo->theory.check, &c->facts.client[i], &c->found);
    if (fli_settings_solver(&c->plan.settings))
        fli_assumption(&c->found, "solver", "the local solver does at least what steps of SGD would do");
    if (system->deadline > 0 || system->wait_for < 1)
        fli_assumption(&c->found, "p_i",
                       "nobody is late every time; p_i is the chance to be invited, not to be in time");
}

/* Methods choose local.lr for clients that all use it. */
static void equal_factors(const fli_plan *p, fli_fixes *f)
{
    const fli_reals *factors = &p->settings.local.lr_factors;
    const fli_fix *lr = NULL;
    int equal = 1;
    for (size_t i = 0; i < factors->n; i++) equal &= factors->v[i] == 1;
    for (size_t i = 0; i < f->count; i++)
        if (!strcmp(f->at[i].key, "local.lr") && !f->at[i].relative) lr = &f->at[i];
    if (lr && !equal) fli_fix_word(f, lr->conditions, "local.lr_factors", "1", NULL);
}

static int is_asked_for(const fli_check *c, const fli_fix *f)
{
    for (size_t i = 0; i < c->found.count; i++)
        if (c->found.seen[i].failing && fli_fix_is_for(f, c->found.seen[i].name)) return 1;
    return 0;
}

/* While a client never takes part no step size helps. */
static void find_fixes(fli_check *c)
{
    const fli_plan *p = &c->plan;
    fli_fixes all = {.found = &c->found};
    c->fixes = (fli_fixes){.found = &c->found};
    if (!p->algo->theory.fix || !fli_check_failing(c) || !(c->facts.worst.probability > 0)) return;
    p->algo->theory.fix(p->params, &c->facts.worst, &all);
    for (size_t i = 0; i < all.count; i++)
        if (is_asked_for(c, &all.at[i])) c->fixes.at[c->fixes.count++] = all.at[i];
    equal_factors(p, &c->fixes);
}

size_t fli_check_failing(const fli_check *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->found.count; i++) n += c->found.seen[i].failing > 0;
    return n;
}

int fli_check_has_fix(const fli_check *c, const fli_condition_seen *s)
{
    for (size_t i = 0; i < c->fixes.count; i++)
        if (fli_fix_is_for(&c->fixes.at[i], s->name)) return 1;
    return 0;
}

fl_status fli_check_make(fl_config *cfg, const fli_plan *like, fli_check *c)
{
    memset(c, 0, sizeof *c);
    fl_status s = fli_plan_data(cfg, like, &c->plan);
    if (!s) s = fli_plan_finish(&c->plan, cfg);
    if (!s) s = fli_measure_facts(cfg->ctx, &c->plan, &c->facts);
    if (s) return s;
    ask_all(c);
    find_fixes(c);
    return FL_OK;
}

void fli_check_fini(fli_check *c)
{
    fli_measured_free(&c->facts);
    fli_plan_fini(&c->plan);
}

static void print(fli_text *t, const fli_check *c, int json)
{
    fli_json j;
    fli_json_init(&j, t);
    if (!json) {
        fli_check_print(t, c);
        return;
    }
    fli_json_map(&j, NULL);
    fli_check_json(&j, c);
    fli_json_end(&j);
}

fl_status fl_check(fl_config *cfg, fl_text_fn *out, void *arg)
{
    fli_check c;
    fli_text text;
    fli_clear(cfg->ctx);
    fli_text_init(&text, cfg->ctx);
    fl_status s = fli_check_make(cfg, NULL, &c);
    if (!s) {
        print(&text, &c, fli_wants_json(cfg->ctx));
        s = fli_text_ok(&text);
    }
    if (!s) out(arg, fli_text_get(&text));
    fli_check_fini(&c);
    fli_text_fini(&text);
    return s;
}
