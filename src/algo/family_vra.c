#include "algo/family_vra.h"

#include <math.h>

enum { X, LAM };      /* server */
enum { MINUS_LAM_I }; /* client: -lam_i, which is the shift itself */
enum { U };           /* up and first sum */
enum { SUM_D, SUM_A };
enum { A_I };  /* scalar up */
enum { BETA }; /* server scalar; 0 stands for the limit gamma = 0 */

const char *const fli_vra_server[] = {"x", "lam", NULL};
const char *const fli_vra_client[] = {"-lam_i", NULL};
const fl_part fli_vra_down[] = {{"x", FL_PART_VECTOR, X}, {NULL}};
const fl_part fli_vra_up[] = {
    {"gamma_i (x_i - x)", FL_PART_VECTOR, U, FL_PART_CHANGE}, {"a_i", FL_PART_NUMBER, A_I, FL_PART_VALUE}, {NULL}};
const char *const fli_vra_sums[] = {"sum w_i d_i gamma_i (x_i - x)", "sum w_i a_i gamma_i (x_i - x)", NULL};

void fli_vra_start(const fl_coordinator *s, const fl_reals *gamma)
{
    double sum = 0;
    if (gamma && gamma->n == 1)
        sum = gamma->v[0]; /* the weights add up to 1 */
    else
        for (size_t i = 0; gamma && i < s->clients; i++) sum += fl_weight(s, i) * gamma->v[i];
    s->scalars[BETA] = sum > 0 ? 1 / sum : 0;
}

double fli_vra_beta(const fl_coordinator *s) { return s->scalars[BETA]; }

void fli_vra_pose(const fl_turn *t, const fli_vra *c, fl_problem *p)
{
    p->start = p->anchor = t->down[X];
    p->rho = c->gamma;
    p->shift = t->state[MINUS_LAM_I];
}

void fli_vra_answer(const fl_turn *t, const fli_vra *c, const fl_answer *a)
{
    double g = c->gamma > 0 ? c->gamma : 1; /* in the limit gamma = 0 the change itself is sent */
    /* up = gamma_i (x_i - x) */
    fli_lin(&t->space, g, a->z, -g, t->down[X], t->up[U]);
    t->up_scalars[A_I] = c->a;
    /* -lam_i <- -lam_i + a_i gamma_i (x_i - x) */
    if (c->gamma > 0) fli_axpy(&t->space, c->a, t->up[U], t->state[MINUS_LAM_I]);
}

void fli_vra_absorb(const fl_coordinator *s, const fli_vra *c, const fl_upload *t)
{
    fli_axpy(&s->space, t->ask.weight * c->d, t->up[U], s->sum[SUM_D]);
    fli_axpy(&s->space, t->ask.weight * t->up_scalars[A_I], t->up[U], s->sum[SUM_A]);
}

int fli_vra_advance(const fl_coordinator *s)
{
    double beta = s->scalars[BETA];
    if (beta == 0) { /* beta gamma_i = 1 and lam = 0 */
        fli_axpy(&s->space, 1, s->sum[SUM_D], s->vec[X]);
        return 0;
    }
    /* lam += sum_S w_i a_i gamma_i (x - x_i) */
    fli_axpy(&s->space, -1, s->sum[SUM_A], s->vec[LAM]);
    /* x += beta sum_S w_i d_i gamma_i (x_i - x) - beta lam */
    fli_axpy(&s->space, beta, s->sum[SUM_D], s->vec[X]);
    fli_axpy(&s->space, -beta, s->vec[LAM], s->vec[X]);
    return 0;
}

const void *fli_vra_point(const fl_turn *t) { return t->down[X]; }

void fli_vra_contribute(const fl_turn *t, const fli_vra *c, double f, void *gradient, double *out)
{
    const fl_ask *ask = &t->ask;
    double moves = c->a * c->gamma * ask->lr * fli_vra_steps(c->gamma, ask->lr, (size_t)ask->steps);
    if (t->state) fli_axpy(&t->space, 1, t->state[MINUS_LAM_I], gradient);
    out[0] = f;
    out[1] = 4 * fli_dot(&t->space, gradient, gradient) / (ask->probability * moves);
}

double fli_vra_potential(const fl_coordinator *s, const double *sum, double g)
{
    return sum[0] + s->scalars[BETA] * sum[1] + g;
}

double fli_vra_steps(double gamma, double lr, size_t steps)
{
    double r = 1 - gamma * lr;
    return r == 1 ? (double)steps : (1 - pow(r, (double)steps)) / (1 - r);
}

/* u_i = p_i C_i, where C_i = a_i gamma_i lr Qt_i is the fraction of the way to its gradient that a dual moves. */
static double follow(const fli_vra *c, const fl_facts *f, size_t steps)
{
    return c->a * c->gamma * f->lr * fli_vra_steps(c->gamma, f->lr, steps);
}

/* ---- conditions of both theorems at one client ----- */

static void require_plain_steps(const fl_facts *f, fl_conditions *out)
{
    fl_requirement(out, "plain SGD", "local steps have no momentum, so that Lemma 1 describes them", f,
                   f->momentum == 0);
    fl_requirement(out, "step sizes", "lr is the same in all rounds: the bound on gamma_i fails as it falls", f,
                   f->constant_lr);
}

static int steady(const fl_facts *f) { return f->least_steps == f->steps && f->probability == f->most_likely; }

/* A theorem's expectation over a round needs cohorts that are drawn at random. */
static void require_chance(const fl_facts *f, fl_conditions *out)
{
    fl_requirement(out, "sampling", "cohorts are drawn, so that p_i^r > 0 in every round; no plan or trace", f,
                   !f->planned || f->probability == 1);
}

void fli_vra_check(const fli_vra *c, int one_gamma, const fl_facts *f, fl_conditions *out)
{
    double qt = fli_vra_steps(c->gamma, f->lr, f->steps), l = f->smoothness;
    double lower = l / 2 + 13 * l / (2 * f->probability * c->a * c->gamma * f->lr * qt);
    fl_condition(out, "Lemma 1", "gamma_i lr <= 1", f, c->gamma * f->lr, 1);
    if (one_gamma)
        fl_condition(out, "(17)", "L_i/2 + 13 L_i/(2 p_i a_i gamma_i lr Qt_i) <= gamma_i", f, lower, c->gamma);
    else
        fl_as_printed(out, "(17)", "L_i/2 + 13 L_i/(2 p_i a_i gamma_i lr Qt_i) <= gamma_i", f, lower, c->gamma);
    fl_condition(out, "(18) first", "lr <= 1/(sqrt(6) Qt_i L_i)", f, f->lr, 1 / (sqrt(6) * qt * l));
    fl_condition(out, "(18) third", "lr <= 1/((a_i + d_i) gamma_i Qt_i)", f, f->lr,
                 1 / ((c->a + c->d) * c->gamma * qt));
    require_plain_steps(f, out);
    require_chance(f, out);
    if (!steady(f))
        fl_not_covered(out, "(45)",
                       "P^r, whose factors change with p_i, a_i and Q_i; with the smallest u_i over the rounds "
                       "in P^r and (17), as here, the proof covers rounds that change");
}

void fli_vra_falls(const fli_vra *c, int one_gamma, const fl_facts *f, fl_conditions *out)
{
    fli_vra_check(c, one_gamma, f, out);
    fl_requirement(out, "p_i", "everyone takes part in every round", f, f->probability == 1 && !f->dropped);
    fl_requirement(out, "sigma", "steps over all samples, the same in every round", f, f->full_batch && steady(f));
}

/* L_i bounds f_i in x and y together. The curvatures in x and, at the start of y, in y are known. */
static double curvature(const fl_facts *f)
{
    return f->second_block ? fmax(f->smoothness, f->block.smoothness) : f->smoothness;
}

/* The theorem's conditions on steps in y. docs/theory.md treats p_i = 1, which the paper leaves out. */
static void check_second_block(double beta, double c, const fl_facts *f, fl_conditions *out)
{
    double p = f->probability, u = p * c, l = curvature(f), q = 4 * beta * (double)f->block.steps * l * l;
    if (!f->second_block) return;
    fl_requirement(out, "(25)", "every y_i is in Y_i: no sample goes without a pseudo label, semi.confidence is 0", f,
                   f->confidence == 0);
    fl_assumption(out, "L_i in y",
                  "the curvature of f_i in y, and between x and y, is at most L_i away from the start, "
                  "too; that of entropy terms is not, where a label comes close to 0");
    if (!f->block.steps) {
        fl_assumption(out, "(29)", "y_i in closed form, where the theorem takes gradient steps, does no harm");
        return;
    }
    if (p == 1)
        fl_condition(out, "(29) for p = 1", "L_i + 4 beta Q_y L_i^2 (32 + 5 u)/u^2 <= 1/lr_y, u = a_i gamma_i lr Qt_i",
                     f, l + q * (32 + 5 * u) / (u * u), 1 / f->block.lr);
    else
        fl_condition(out, "(29) as (146)",
                     "L_i + 4 beta Q_y L_i^2 (1 + (4 + u)^2/(u^2 (1 - p_i))) <= 1/lr_y, u = p_i a_i gamma_i lr Qt_i: "
                     "what the proof needs",
                     f, l + q * (1 + (4 + u) * (4 + u) / (u * u * (1 - p))), 1 / f->block.lr);
    fl_as_printed(out, "(29)", "L_i + 4 beta Q_y L_i^2 (1 + 400/(a_i gamma_i lr Qt_i)^2) <= 1/lr_y", f,
                  l + q * (1 + 400 / (c * c)), 1 / f->block.lr);
}

/* The right side of (27), or of the condition that replaces it for p_i = 1. */
static double least_gamma(double l, double p, double u)
{
    return p < 1 ? l / 2 + 9 * l / (u * sqrt(1 - p)) : l / 2 + 17 * l / u;
}

void fli_vra_check_blocks(const fli_vra *c, int one_gamma, double beta, const fl_facts *f, fl_conditions *out)
{
    double qt = fli_vra_steps(c->gamma, f->lr, f->steps), l = curvature(f), p = f->probability;
    double share = follow(c, f, f->steps), least = least_gamma(l, p, p * share);
    static const char printed[] = "L_i/2 + 9 L_i/(p_i a_i gamma_i lr Qt_i sqrt(1 - p_i)) <= gamma_i";
    fl_requirement(out, "p_i", "0 < p_i", f, p > 0);
    if (one_gamma && p < 1)
        fl_condition(out, "(27)", printed, f, least, c->gamma);
    else if (one_gamma)
        fl_condition(out, "(27) for p = 1", "L_i/2 + 17 L_i/(a_i gamma_i lr Qt_i) <= gamma_i", f, least, c->gamma);
    else if (p < 1)
        fl_as_printed(out, "(27)", printed, f, least, c->gamma);
    fl_condition(out, "(28) first", "lr <= 1/(sqrt(6) Qt_i L_i)", f, f->lr, 1 / (sqrt(6) * qt * l));
    fl_condition(out, "(28) second", "gamma_i lr <= 1", f, c->gamma * f->lr, 1);
    fl_condition(out, "(28) third", "lr <= 1/((a_i + d_i) gamma_i Qt_i)", f, f->lr,
                 1 / ((c->a + c->d) * c->gamma * qt));
    require_plain_steps(f, out);
    require_chance(f, out);
    fl_requirement(out, "u_i", "p_i, a_i and Q_i are the same in all rounds: the proof does not cover others", f,
                   steady(f));
    check_second_block(beta, share, f, out);
}

/* ---- conditions on all clients --------------------- */

/* A client's term on the left side of the averaged conditions: the coefficient of ||x+ - x||^2 in the proofs. */
static double load_of(const fli_vra *c, int blocks, double beta, const fl_facts *f)
{
    double p = f->probability, u = p * follow(c, f, f->steps), l = blocks ? curvature(f) : f->smoothness;
    if (!blocks) return l / 2 + 4 * beta / u * (1 + 4 / u) * l * l;
    return l / 2 + (p < 1 ? 8 * beta / (u * (1 - p)) * (1 + 4 / u) : 16 * beta / u * (1 + 8 / u)) * l * l;
}

/* The printed proofs replace every gamma_i by the least one, but need every gamma_i against 1/beta = sum w gamma; this
 * condition is the step before that replacement. */
void fli_vra_check_sum(int blocks, double beta, fli_vra (*at)(const void *params, const fl_facts *f),
                       const void *params, const fl_facts_all *all, fl_conditions *out)
{
    double sum = 0, weight = 0;
    for (size_t i = 0; i < all->count; i++) {
        fl_facts most = all->each[i], fewest = most;
        fewest.steps = most.least_steps;
        fli_vra c = at(params, &most), d = at(params, &fewest);
        sum += most.weight * fmax(load_of(&c, blocks, beta, &most), load_of(&d, blocks, beta, &fewest));
        weight += most.weight;
    }
    if (blocks)
        fl_condition(out, "(27) averaged",
                     "sum w_i [L_i/2 + 8 beta/(u_i (1 - p_i)) (1 + 4/u_i) L_i^2] <= 1/(2 beta), u_i = p_i a_i gamma_i "
                     "lr Qt_i: (27) for gamma_i that differ; with p_i = 1, 16 beta/u_i (1 + 8/u_i) L_i^2",
                     NULL, sum / weight, 1 / (2 * beta));
    else
        fl_condition(
            out, "(17) averaged",
            "sum w_i [L_i/2 + 4 beta/u_i (1 + 4/u_i) L_i^2] <= 1/(2 beta), u_i = p_i a_i gamma_i lr Qt_i: (17) "
            "for gamma_i that differ",
            NULL, sum / weight, 1 / (2 * beta));
}

/* (19) with sigma = 0: the mean of ||grad f(x)||^2 over R rounds is at most 2 D_1 (P^0 - f)/(beta R), where D_1 = sum
 * 9/(p_i (2 a_i + d_i) gamma_i lr Qt_i) and P^0 = f(x0) + sum w_i 4 beta ||grad f_i(x0)||^2/u_i. */
void fli_vra_promise(fli_vra (*at)(const void *params, const fl_facts *f), const void *params, double beta,
                     const fl_facts_all *all, const fl_start_values *start, fl_promise *out)
{
    *out = (fl_promise){.theorem = "[VRA] (19)",
                        .bounds = "the mean of ||grad f(x)||^2 over the rounds",
                        .metric = "gradient2",
                        .expected = all->probability < 1,
                        .full = 1};
    if (!start) return;
    double d1 = 0, p0 = start->value;
    for (size_t i = 0; i < all->count; i++) {
        const fl_facts *f = &all->each[i];
        fli_vra c = at(params, f);
        double step = c.gamma * f->lr * fli_vra_steps(c.gamma, f->lr, f->least_steps);
        d1 += 9 / (f->probability * (2 * c.a + c.d) * step);
        p0 += f->weight * 4 * beta * start->client_slope2[i] / (f->probability * c.a * step);
    }
    out->times_eps = 2 * d1 * p0 / beta;
}

void fli_vra_warn(double gamma, const fl_facts *f, fli_text *out)
{
    if (gamma * f->lr > 1)
        fli_text_addf(
            out,
            "client %u: gamma_i lr_i = %g x %g = %g, but Lemma 1 asks for at most 1: the local steps overshoot; make "
            "algorithm.gamma or local.lr smaller",
            f->client, gamma, f->lr, gamma * f->lr);
}

/* With gamma lr = 1/(2 (a + d) Q) for the largest Q, gamma lr Qt = 1 - (1 - gamma lr)^Q no longer depends on gamma;
 * (18) requires gamma >= sqrt(6) L/(2 (a + d)), and (17), strictest for the smallest Q, is explicit in gamma. The
 * result gets a margin of 5%, since L is measured and the numbers are rounded. */
void fli_vra_fix(int blocks, double a, double d, const fl_facts *w, fl_fixes *out)
{
    double q = (double)w->steps, l = curvature(w), product = 1 / (2 * (a + d) * q), p = w->probability;
    double s = 1 - pow(1 - product, (double)w->least_steps);
    double share = !blocks ? 6.5 : p < 1 ? 9 / sqrt(1 - p) : 17;
    double gamma = 1.05 * fmax(sqrt(6) * l / (2 * (a + d)), l / 2 + share * l / (p * a * s));
    fl_fix_least(out, FLI_VRA_CONDITIONS, "algorithm.gamma", gamma, NULL);
    fl_fix_most(out, FLI_VRA_CONDITIONS, "local.lr", product / gamma, NULL);
    fl_fix_plain_steps(out, "plain SGD");
    fl_fix_constant_lr(out, "step sizes");
    if (w->least_steps != w->steps) fl_fix_word(out, "u_i", "local.uneven", "fixed", NULL);
    if (w->probability != w->most_likely) fl_fix_everyone(out, "u_i");
    fl_fix_word(out, "sampling", "participation.kind", "uniform", NULL);
    if (!blocks) return;
    fl_fix_word(out, "(25)", "semi.confidence", "0", NULL);
    fl_fix_shrink(out, "(29) as (146)|(29) for p = 1",
                  w->model_traits & FLI_MODEL_UNSUPERVISED ? "model.membership_lr" : "semi.label_lr", w->block.lr,
                  NULL);
}
