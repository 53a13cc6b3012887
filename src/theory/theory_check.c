/* Holding a configuration against its method's theorem. */
#include "theory/theory_check.h"

#include "base/number.h"
#include "solver/smoothness.h"
#include "theory/theory_fix.h"

#include <string.h>

/* ---- what goes for all methods ---- */

/* Constants at the start model, or of some clients, are no more than that. */
static void ask_of_constants(fli_check *c)
{
    const fli_facts *f = &c->facts.worst;
    if (c->plan.model->bilevel)
        fli_assumption(&c->found, "L_1",
                       "measured at the start model, over a sample of at most 512 samples of each "
                       "client and level; elsewhere assumed");
    else if (!fli_bounded(c->plan.model))
        fli_assumption(&c->found, "L_i",
                       "measured at the start model, over a sample of at most 512 samples of each "
                       "client; elsewhere assumed: a network has no L_i that holds everywhere, and "
                       "with ReLU not even near every point");
    else if (!f->bounded)
        fli_assumption(&c->found, "L_i", "measured on images as they are stored; augmented ones curve f_i no more");
    if (c->facts.measured < c->plan.fed->clients)
        fli_assumption(&c->found, "clients", "those that were not measured are like those that were, a random choice");
}

/* A step on a mini-batch then takes more decay than f_i has, and no theorem is about that. */
static void ask_of_decay(fli_check *c)
{
    const fli_model *m = c->plan.model;
    if (m->weight_decay > 0 && m->decay_by == FLI_DECAY_BY_BATCH)
        fli_requirement(&c->found, "weight decay",
                        "mini-batches take the weight decay of f_i: weight_decay_by is not "
                        "batch, or steps are over all samples",
                        &c->facts.worst, c->facts.worst.full_batch);
}

/* Pseudo labels, or memberships, with a method whose theorem has no f_i(x, y_i). */
static int is_beside_theory(const fli_plan *p) { return p->model->latent && !(p->algo->traits & FLI_ALGO_BLOCKS); }

static void ask_of_blocks(fli_check *c)
{
    if (is_beside_theory(&c->plan))
        fli_requirement(
            &c->found, "one block",
            "clients have no y_i of their own, of which this theorem knows nothing: semi.labels is none, or "
            "the method one with a second block, such as fedvra-u",
            NULL, 0);
}

static void ask_of_cohorts(fli_check *c)
{
    const fli_plan *p = &c->plan;
    const fli_system_common *system = &p->settings.system;
    const fli_admission *server = &p->settings.server;
    if (system->deadline > 0)
        fli_assumption(&c->found, "p_i", "no client is late: p_i is the chance to be invited, not that to be in time");
    if (system->wait_for < 1)
        fli_requirement(&c->found, "wait_for",
                        "a round waits for all who are invited: system.wait_for is 1; p_i does not say who is "
                        "left out",
                        NULL, 0);
    if (server->deadline > 0 || server->wait_for < 1 || server->largest_norm > 0)
        fli_assumption(&c->found, "server",
                       "where clients are elsewhere: server.deadline, wait_for and largest_norm leave out no "
                       "client and shorten no upload");
    if (!strcmp(p->participation->desc->name, "weighted"))
        fli_assumption(&c->found, "p_i of draws", "p_i of weighted draws is right to a few per cent");
}

static void ask_all(fli_check *c)
{
    const fli_theory *theory = &c->plan.algo->theory;
    if (!theory->check) return;
    for (size_t i = 0; i < c->facts.measured; i++)
        fli_ask_theory(&c->plan, theory->check, &c->facts.client[i], &c->found);
    if (theory->check_all) theory->check_all(c->plan.params, &c->facts.all, &c->found);
    if (!c->found.count) return;
    if (fli_settings_solver(&c->plan.settings))
        fli_assumption(&c->found, "solver", "the local solver does at least what steps of SGD would do");
    ask_of_decay(c);
    ask_of_blocks(c);
    ask_of_cohorts(c);
    ask_of_constants(c);
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

static int is_asked_for(fli_check *c, const fli_fix *f)
{
    int asked = 0;
    for (size_t i = 0; i < c->found.count; i++) {
        fli_condition_seen *s = &c->found.seen[i];
        if (!fli_condition_fails(s) || !fli_fix_is_for(f, s->name)) continue;
        s->has_fix = asked = 1;
    }
    return asked;
}

/* Of two numbers for one key the smaller one: both are upper bounds. */
static void keep_fix(fli_fixes *out, const fli_fix *f)
{
    size_t i = 0;
    while (i < out->count && strcmp(out->at[i].key, f->key)) i++;
    if (i == out->count)
        out->at[out->count++] = *f;
    else if (f->relative && fli_strtod(f->value, NULL) < fli_strtod(out->at[i].value, NULL))
        out->at[i] = *f;
}

/* While a client never takes part no step size helps. */
static void find_fixes(fli_check *c)
{
    const fli_plan *p = &c->plan;
    fli_fixes all = {.found = &c->found};
    c->fixes = (fli_fixes){.found = &c->found};
    if (!p->algo->theory.fix || !fli_check_failing(c) || !(c->facts.worst.probability > 0)) return;
    p->algo->theory.fix(p->params, &c->facts.worst, &all);
    if (p->model->decay_by == FLI_DECAY_BY_BATCH)
        fli_fix_word(&all, "weight decay", "model.weight_decay_by", "samples", NULL);
    if (is_beside_theory(p) && !p->model->latent->every) fli_fix_word(&all, "one block", "semi.labels", "none", NULL);
    if (p->settings.system.wait_for < 1) fli_fix_word(&all, "wait_for", "system.wait_for", "1", NULL);
    for (size_t i = 0; i < all.count; i++)
        if (is_asked_for(c, &all.at[i])) keep_fix(&c->fixes, &all.at[i]);
    equal_factors(p, &c->fixes);
}

size_t fli_check_failing(const fli_check *c)
{
    size_t n = 0;
    for (size_t i = 0; i < c->found.count; i++) n += fli_condition_fails(&c->found.seen[i]);
    return n + c->found.full;
}

/* No row changes the model, its start or its weight decay; of pseudo labels they may. */
static int same_curvatures(const fli_plan *a, const fli_plan *b)
{
    const fli_semi *s = &a->settings.semi, *t = &b->settings.semi;
    if (!a->model->latent || !b->model->latent) return a->model->latent == b->model->latent;
    return fli_bounded(b->model) && s->alpha_p == t->alpha_p && s->alpha_r == t->alpha_r;
}

static fl_status make(fl_config *cfg, const fli_plan *like, const fli_check *before, fli_check *c)
{
    memset(c, 0, sizeof *c);
    fl_status s = fli_plan_data(cfg, like, &c->plan);
    if (!s) s = fli_plan_finish(&c->plan, cfg);
    if (s) return s;
    if (before && same_curvatures(&before->plan, &c->plan))
        s = fli_measure_again(cfg->ctx, &c->plan, &before->facts, &c->facts);
    else
        s = fli_measure_facts(cfg->ctx, &c->plan, 1, &c->facts);
    if (s) return s;
    ask_all(c);
    find_fixes(c);
    return fli_check_rounds(c);
}

fl_status fli_check_make(fl_config *cfg, const fli_plan *like, fli_check *c) { return make(cfg, like, NULL, c); }

fl_status fli_check_again(fl_config *cfg, const fli_check *before, fli_check *c)
{
    return make(cfg, &before->plan, before, c);
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

static fl_status tell(fl_config *cfg, int run, fl_text_fn *out, void *arg)
{
    fli_check c;
    fli_text text;
    fli_clear(cfg->ctx);
    fli_text_init(&text, cfg->ctx);
    fl_status s = fli_check_make(cfg, NULL, &c);
    if (!s) s = fli_settle_fixes(cfg, &c);
    if (!s && run) s = fli_check_run(cfg, &c);
    if (!s) {
        print(&text, &c, fli_wants_json(cfg->ctx));
        s = fli_text_ok(&text);
    }
    if (!s) out(arg, fli_text_get(&text));
    fli_check_fini(&c);
    fli_text_fini(&text);
    return s;
}

fl_status fl_check(fl_config *cfg, fl_text_fn *out, void *arg) { return tell(cfg, 0, out, arg); }
fl_status fl_check_run(fl_config *cfg, fl_text_fn *out, void *arg) { return tell(cfg, 1, out, arg); }
