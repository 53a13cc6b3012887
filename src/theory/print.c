/* Prints the result of `fedloom check`, as text and as JSON: the step-size conditions of the method's theorem that hold
 * for this federation, by how much others fail, the assumptions, and settings that would satisfy the conditions. */
#include "model/model.h"
#include "solver/curvature.h"
#include "theory/check.h"

#include <math.h>

/* ==== as text =============================================================================================== */

/* The solver of the stage that takes steps, or of the first stage. */
static const fl_solver *working_solver(const fli_plan *p)
{
    const fli_solvers *all = &p->setup.solvers;
    size_t i = 0;
    while (i < all->count && !(all->at[i]->traits & FL_SOLVER_COUNTS_STEPS)) i++;
    return all->at[i < all->count ? i : 0];
}

static int gradients_over_all(const fli_plan *p)
{
    const fli_solvers *all = &p->setup.solvers;
    int any = 0;
    for (size_t i = 0; i < all->count; i++) any |= (all->at[i]->traits & FL_SOLVER_FULL_GRADIENT) != 0;
    return any;
}

/* Describes a turn: steps by `local`, unless the method's solver has its own. */
static void print_work(fli_text *t, const fli_check *c)
{
    const fli_plan *p = &c->plan;
    const fl_solver *solver = working_solver(p);
    int steps = (solver->traits & FL_SOLVER_COUNTS_STEPS) != 0;
    fli_text_add(t, "local work  ");
    if (gradients_over_all(p)) fli_text_add(t, "one gradient over all samples of a client, then ");
    if (solver->traits & FL_SOLVER_FULL_GRADIENT && !steps)
        fli_text_add(t, "the method's own steps");
    else if (!steps && !p->model->bilevel)
        fli_text_addf(t, "as many steps as the solver `%s` needs", solver->name);
    else {
        if (c->facts.worst.least_steps != c->facts.worst.steps) fli_text_addf(t, "%zu to ", c->facts.worst.least_steps);
        fli_text_addf(t, "%zu steps", c->facts.worst.steps);
        if (!p->model->bilevel) fli_text_addf(t, " of size %g", p->settings->local.lr); /* else it has its own */
    }
    fli_text_addf(t, "; %s with probability %.4g at least\n\n",
                  p->setup.algo->traits & FL_METHOD_BYSTANDERS ? "a client is in the cohort" : "takes part",
                  c->facts.worst.probability);
}

/* Describes which Hessians were measured, and over which samples. */
static void print_how_measured(fli_text *t, const fli_check *c)
{
    const fli_plan *p = &c->plan;
    int pseudo = p->model->latent && !p->model->latent->every;
    if (p->model->bilevel) fli_text_add(t, "of the lower level in y, ");
    if (fli_bounded(p->model))
        fli_text_addf(t, "for every model, over all samples%s)\n", pseudo ? ", unlabelled terms included" : "");
    else
        fli_text_addf(t, "at the start model, over at most %d samples each, drawn at random%s: estimates)\n",
                      FLI_MEASURED_SAMPLES, pseudo ? ", unlabelled terms included" : "");
}

static void print_head(fli_text *t, const fli_check *c)
{
    const fli_plan *p = &c->plan;
    fli_text_addf(t, "method      %s, %s\n", p->setup.algo->name, p->setup.algo->citation);
    if (!c->facts.measured) return;
    fli_text_addf(t, "smoothness  L_i from %.4g to %.4g (%zu of %zu clients measured; ", c->facts.all.least_smoothness,
                  c->facts.worst.smoothness, c->facts.measured, p->fed->clients);
    print_how_measured(t, c);
    if (!isnan(c->facts.all.convexity))
        fli_text_addf(t, "convexity   mu_i from %.4g to %.4g, measured in the same way\n", c->facts.all.convexity,
                      c->facts.all.most_convexity);
    if (c->facts.all.upper_smoothness > 0)
        fli_text_addf(
            t, "levels      L_1 of at least %.4g (of f_i in x and y, and of g_i in y), mu_g = %.4g (bilevel.l2)\n",
            fmax(c->facts.all.upper_smoothness, c->facts.all.smoothness), p->model->bilevel->common.l2);
    if (p->settled) fli_text_addf(t, "settled     %s\n", p->settled);
    print_work(t, c);
}

static void print_sides(fli_text *t, const fli_condition_seen *s)
{
    fli_text_add(t, "         ");
    if (!s->whole) fli_text_addf(t, "tightest at client %u: ", s->client);
    fli_text_addf(t, "%.4g %s %.4g", s->have, s->strict ? "<" : "<=", s->most);
    double excess = fli_condition_excess(s->have, s->most);
    if (s->failing && excess < 1.0005) /* a factor of 1 is not worth printing */
        fli_text_add(t, s->strict && excess == 1 ? ", and the two are equal" : ", just too large");
    else if (s->failing)
        fli_text_addf(t, ", too large by a factor of %.3g", excess);
}

/* "holds", "fails", "assumed", "printed" or "left out". */
static const char *condition_verdict(const fli_condition_seen *s)
{
    static const char *const others[] = {
        [FLI_CONDITION_ASSUMED] = "assumed", [FLI_CONDITION_PRINTED] = "printed", [FLI_CONDITION_OUTSIDE] = "left out"};
    if (s->kind == FLI_CONDITION_BOUND || s->kind == FLI_CONDITION_REQUIRED) return s->failing ? "fails" : "holds";
    return others[s->kind];
}

static void print_condition(fli_text *t, const fli_check *c, const fli_condition_seen *s)
{
    int bound = s->kind == FLI_CONDITION_BOUND || s->kind == FLI_CONDITION_PRINTED;
    fli_text_addf(t, "%-9s%-14s %s\n", fli_condition_fails(s) ? "FAILS" : condition_verdict(s), s->name, s->formula);
    if (bound) print_sides(t, s);
    if (s->failing && !s->whole)
        fli_text_addf(t, "%s fails at %zu of %zu clients", bound ? ";" : "        ", s->failing, c->facts.measured);
    if (bound || (s->failing && !s->whole)) fli_text_add(t, "\n");
}

/* Lists the failing conditions that no row is for. */
static void print_unfixed(fli_text *t, const fli_check *c)
{
    const char *before = "no setting satisfies: ";
    for (size_t i = 0; i < c->found.count; i++) {
        const fli_condition_seen *s = &c->found.seen[i];
        if (!fli_condition_fails(s) || s->has_fix) continue;
        fli_text_addf(t, "%s%s", before, s->name);
        before = ", ";
    }
    if (*before == ',') fli_text_add(t, "\n");
}

static void advise(fli_text *t, const fli_check *c)
{
    const fli_plan *p = &c->plan;
    size_t fixed = 0;
    for (size_t i = 0; i < c->found.count; i++)
        fixed += fli_condition_fails(&c->found.seen[i]) && c->found.seen[i].has_fix;
    const char *how_far = !c->left                                  ? "a setting that satisfies all of them"
                          : c->left <= fli_check_failing(c) - fixed ? "a setting that satisfies the others"
                                                                    : "settings that come closer";
    if (!(c->facts.worst.probability > 0)) {
        fli_text_add(t, "no setting satisfies them while a client never takes part\n");
        return;
    }
    if (fli_regularizer_weak_convexity(p->setup.regularizer, p->settings->regularizer.params) > 0) {
        fli_text_addf(t, "no setting of the method satisfies them with regularizer %s, which is not convex\n",
                      p->setup.regularizer->name);
        return;
    }
    if (fixed) fli_text_addf(t, "%s: ", how_far);
    for (size_t i = 0; i < c->fixes.count; i++) {
        const fli_fix *f = &c->fixes.at[i];
        fli_text_addf(t, "%s%s = %s", i ? ", " : "", f->key, f->value);
        if (f->why) fli_text_addf(t, " (%s)", f->why);
    }
    if (fixed) fli_text_add(t, "\n");
    print_unfixed(t, c);
}

const char *fli_check_extent(const fli_check *c)
{
    return c->facts.measured < c->plan.fed->clients ? " at the clients that were measured" : "";
}

/* Prints "all conditions hold: the theorem applies", with its assumptions. */
static void print_verdict(fli_text *t, const fli_check *c)
{
    size_t of[FLI_CONDITION_OUTSIDE + 1] = {0};
    for (size_t i = 0; i < c->found.count; i++) of[c->found.seen[i].kind]++;
    if (fli_check_failing(c)) {
        fli_text_add(
            t, "\nthe theorem does not apply; theorems are cautious, and the method may work well all the same\n");
        return;
    }
    fli_text_addf(t, "\nall conditions hold%s: the theorem applies%s%s\n", fli_check_extent(c),
                  of[FLI_CONDITION_ASSUMED] ? ", if what is assumed is true" : "",
                  of[FLI_CONDITION_OUTSIDE] ? "; it says nothing about what is left out" : "");
}

static void check_print_rounds(fli_text *t, const fli_check *c)
{
    const fl_promise *p = &c->rounds;
    if (!p->theorem) return;
    fli_text_addf(t, "\na priori    %s: ", p->theorem);
    if (p->missing) {
        fli_text_addf(t, "no number of rounds: %s\n", p->missing);
        return;
    }
    fli_text_addf(t, "rounds until %s has been at most eps%s\n", p->bounds,
                  p->expected ? ", in the mean over cohorts" : "");
    fli_text_addf(t, "            %-12s %-14s%s\n", "eps", "at most", c->ran ? "this run" : "");
    for (size_t k = 0; k < FLI_CHECK_EPS; k++) {
        fli_text_addf(t, "            %-12.4g %-14.4g", c->eps[k].eps, c->eps[k].at_most);
        if (c->ran && isfinite(c->eps[k].run)) fli_text_addf(t, "%.0f", c->eps[k].run);
        if (c->ran && !isfinite(c->eps[k].run)) fli_text_addf(t, "not in %zu", c->ran);
        fli_text_add(t, "\n");
    }
}

void fli_check_print(fli_text *t, const fli_check *c)
{
    print_head(t, c);
    if (!c->found.count) {
        fli_text_add(t, "no step-size conditions are known here for this method\n");
        return;
    }
    for (size_t i = 0; i < c->found.count; i++) print_condition(t, c, &c->found.seen[i]);
    print_verdict(t, c);
    if (fli_check_failing(c)) advise(t, c);
    check_print_rounds(t, c);
}

/* ==== as JSON =============================================================================================== */

/* The same facts, with all their digits. */

static void put_facts(fli_json *j, const fli_check *c)
{
    const fl_facts_all *all = &c->facts.all;
    fli_json_map(j, "measured");
    fli_json_whole(j, "clients", c->facts.measured);
    fli_json_whole(j, "of_clients", c->plan.fed->clients);
    if (!c->facts.measured) {
        fli_json_end(j);
        return;
    }
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
    fli_json_text(j, "verdict", condition_verdict(s));
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

/* The rounds that the theorem promises, beside those of a run if there was one: as text, and as keys of an open map.
 * For print.c. */
static void check_json_rounds(fli_json *j, const fli_check *c)
{
    const fl_promise *p = &c->rounds;
    if (!p->theorem) return;
    fli_json_map(j, "rounds");
    fli_json_text(j, "theorem", p->theorem);
    if (p->missing)
        fli_json_text(j, "missing", p->missing);
    else {
        fli_json_text(j, "quantity", p->bounds);
        fli_json_truth(j, "in_expectation", p->expected);
        fli_json_real(j, "times_eps", p->times_eps);
        fli_json_list(j, "until");
        for (size_t k = 0; k < FLI_CHECK_EPS; k++) {
            fli_json_map(j, NULL);
            fli_json_real(j, "eps", c->eps[k].eps);
            fli_json_real(j, "at_most", c->eps[k].at_most);
            if (c->ran) fli_json_real(j, "run", c->eps[k].run);
            fli_json_end(j);
        }
        fli_json_end(j);
        if (c->ran) fli_json_whole(j, "rounds_run", c->ran);
    }
    fli_json_end(j);
}

void fli_check_json(fli_json *j, const fli_check *c)
{
    fli_json_text(j, "method", c->plan.setup.algo->name);
    fli_json_text(j, "from", c->plan.setup.algo->citation);
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
    check_json_rounds(j, c);
}
