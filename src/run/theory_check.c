/* `fedloom check`: which step-size conditions of the method's theorem hold for this federation, by how much each fails,
 * what has to be assumed, and a setting that would satisfy them. */
#include "algo/conditions.h"
#include "model/latent.h"
#include "run/theory_facts.h"

#include <math.h>

typedef struct {
    fli_plan plan;
    fli_measured facts;
    fli_conditions found;
} checker;

/* Each condition is monotone in the number of steps, but not all in the same direction: both ends are asked. */
static void ask(checker *c, const fli_facts *f)
{
    const fli_plan *p = &c->plan;
    fli_facts least = *f;
    least.steps = f->least_steps;
    p->algo->theory.check(p->settings.algorithm.params, f, &c->found);
    if (f->least_steps != f->steps) p->algo->theory.check(p->settings.algorithm.params, &least, &c->found);
}

static void ask_all(checker *c)
{
    const fli_system_common *system = &c->plan.settings.system;
    if (!c->plan.algo->theory.check) return;
    for (size_t i = 0; i < c->facts.measured; i++) ask(c, &c->facts.client[i]);
    if (system->deadline > 0 || system->wait_for < 1)
        fli_assumption(&c->found, "p_i",
                       "nobody is late every time; p_i is the chance to be invited, not to be in time");
}

static void advise(fli_text *t, const checker *c)
{
    const fli_plan *p = &c->plan;
    const fli_reals *factors = &p->settings.local.lr_factors;
    int equal = 1;
    for (size_t i = 0; i < factors->n; i++) equal &= factors->v[i] == 1;
    if (!(c->facts.worst.probability > 0)) {
        fli_text_add(t, "no setting satisfies them while a client never takes part\n");
        return;
    }
    if (fli_regularizer_weak_convexity(p->regularizer, p->settings.regularizer.params) > 0) {
        fli_text_addf(t, "no setting of the method satisfies them with regularizer %s, which is not convex\n",
                      p->regularizer->name);
        return;
    }
    fli_text_add(t, "a setting that satisfies all of them: ");
    p->algo->theory.advise(p->settings.algorithm.params, &c->facts.worst, t);
    fli_text_add(t, equal ? "\n" : ", local.lr_factors = 1\n");
}

/* The solver of the stage in which steps are taken, or of the first. */
static const fli_solver *working_solver(const fli_plan *p)
{
    const fli_solvers *all = &p->solvers;
    size_t i = 0;
    while (i < all->count && !all->at[i]->counts_steps) i++;
    return all->at[i < all->count ? i : 0];
}

static int gradients_over_all(const fli_plan *p)
{
    const fli_solvers *all = &p->solvers;
    int any = 0;
    for (size_t i = 0; i < all->count; i++) any |= all->at[i]->full_gradient;
    return any;
}

/* What a turn is: steps as `local` asks for them, unless the method's solver has its own. */
static void print_work(fli_text *t, const checker *c)
{
    const fli_plan *p = &c->plan;
    const fli_solver *solver = working_solver(p);
    fli_text_add(t, "local work  ");
    if (gradients_over_all(p)) fli_text_add(t, "one gradient over all samples of a client, then ");
    if (solver->full_gradient && !solver->counts_steps)
        fli_text_add(t, "the method's own steps");
    else if (!solver->counts_steps && !p->model->bilevel)
        fli_text_addf(t, "as many steps as the solver `%s` needs", solver->name);
    else {
        if (c->facts.worst.least_steps != c->facts.worst.steps) fli_text_addf(t, "%zu to ", c->facts.worst.least_steps);
        fli_text_addf(t, "%zu steps", c->facts.worst.steps);
        if (!p->model->bilevel) fli_text_addf(t, " of size %g", p->settings.local.lr); /* else the method has its own */
    }
    fli_text_addf(t, "; %s with probability %.4g at least\n\n",
                  p->algo->traits & FLI_ALGO_BYSTANDERS ? "a client is in the cohort" : "takes part",
                  c->facts.worst.probability);
}

static void print_head(fli_text *t, const checker *c)
{
    const fli_plan *p = &c->plan;
    fli_text_addf(t, "method      %s, %s\n", p->algo->name, p->algo->citation);
    fli_text_addf(t, "smoothness  L_i from %.4g to %.4g (%zu of %zu clients measured, at the start model",
                  c->facts.all.least_smoothness, c->facts.worst.smoothness, c->facts.measured, p->fed->clients);
    if (p->model->bilevel) fli_text_add(t, ", of the lower level in y");
    if (p->model->latent && !p->model->latent->every) fli_text_add(t, ", on labelled samples alone");
    if (p->fed->largest > FLI_MEASURED_SAMPLES) fli_text_addf(t, ", on at most %d samples each", FLI_MEASURED_SAMPLES);
    fli_text_add(t, p->model->desc->traits & FLI_MODEL_CONVEX ? ")\n" : "; the model is not convex: an estimate)\n");
    if (!isnan(c->facts.all.convexity))
        fli_text_addf(t, "convexity   mu_i from %.4g to %.4g, of the same Hessians\n", c->facts.all.convexity,
                      c->facts.all.most_convexity);
    print_work(t, c);
}

static void print_condition(fli_text *t, const checker *c, const fli_condition_seen *s)
{
    int assumed = s->kind == FLI_CONDITION_ASSUMED, bound = s->kind == FLI_CONDITION_BOUND;
    fli_text_addf(t, "%-9s%-14s %s\n", assumed ? "assumed" : s->failing ? "FAILS" : "holds", s->name, s->formula);
    if (bound) fli_text_addf(t, "         tightest at client %u: %.4g <= %.4g", s->client, s->have, s->most);
    if (bound && s->failing)
        fli_text_addf(t, ", too large by a factor of %.3g;", fli_condition_excess(s->have, s->most));
    if (s->failing)
        fli_text_addf(t, "%s fails at %zu of %zu clients", bound ? "" : "        ", s->failing, c->facts.measured);
    if (bound || s->failing) fli_text_add(t, "\n");
}

static void print(fli_text *t, const checker *c)
{
    int all = 1, assumed = 0;
    print_head(t, c);
    if (!c->found.count) {
        fli_text_add(t, "no step-size conditions are known here for this method\n");
        return;
    }
    for (size_t i = 0; i < c->found.count; i++) {
        print_condition(t, c, &c->found.seen[i]);
        all &= !c->found.seen[i].failing;
        assumed |= c->found.seen[i].kind == FLI_CONDITION_ASSUMED;
    }
    if (!all)
        fli_text_add(
            t, "\nthe theorem does not apply; theorems are cautious, and the method may work well all the same\n");
    else
        fli_text_addf(t, "\nall conditions hold at the clients that were measured: the theorem applies%s\n",
                      assumed ? ", if what is assumed is true" : "");
    if (!all && c->plan.algo->theory.advise) advise(t, c);
}

fl_status fl_check(fl_config *cfg, fl_text_fn *out, void *arg)
{
    checker c = {0};
    fli_text text;
    fli_clear(cfg->ctx);
    fli_text_init(&text, cfg->ctx);
    fl_status s = fli_plan_data(cfg, NULL, &c.plan);
    if (!s) s = fli_plan_finish(&c.plan, cfg);
    if (!s) s = fli_measure_facts(cfg->ctx, &c.plan, &c.facts);
    if (!s) {
        ask_all(&c);
        print(&text, &c);
        s = fli_text_ok(&text);
    }
    if (!s) out(arg, fli_text_get(&text));
    fli_measured_free(&c.facts);
    fli_plan_fini(&c.plan);
    fli_text_fini(&text);
    return s;
}
