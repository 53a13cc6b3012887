/* FedDR: Douglas-Rachford splitting for the composite problem F = (1/n) sum f_i + g.
 *
 *   client   y_i <- y_i + alpha (xbar - x_i)
 *            x_i ~ prox_{eta f_i}(y_i): minimises f_i(z) + 1/(2 eta) ||z - y_i||^2 from the previous x_i
 *            rho = 1/eta, anchor = y_i, start = x_i (warm);  up: the change of xh_i = 2 x_i - y_i
 *   server   xt <- xt + (1/n) sum_S (change of xh_i);  xbar = prox_{eta g}(xt)
 *
 *   start    y_i = x0. lazy: x_i = xh_i = xt = x0, no extra round. exact: x_i = prox(y_i) on every client before round
 *            1, xt the mean of the xh_i, xbar = x0. Either way xt is the mean of all xh_i at all times.
 *
 *   eta      auto is a rule of thumb (family_dr.h), far above what theory allows.
 *
 *   theory   with exact local solutions, any cohorts with p_i > 0 and convex g: eta < (2 - alpha)/(2 L). That is (33)
 *            for gamma_4 = 0, whose 2 - alpha (L eta + 1) - 2 L^2 eta^2 > 0 factors into (2 - alpha - 2 L eta)(1 + L
 *            eta) > 0; the bound on alpha that is printed beside it excludes the alpha = 1 of Corollary 3.1, and alpha
 *            < 2 follows from eta > 0 anyway.
 *
 *            Inexact solutions: Theorem 3.1 covers them while their squared errors are summable (Lemma A.6 then takes
 *            some small gamma_4 > 0). An error stays until the client's next turn, 1/p_i rounds on average, so that sum
 *            over the rounds of accuracy^2/(k+1)^(2 accuracy_power) decides. Theorem A.1 covers errors within
 *            sqrt(theta_i) ||x_i+ - x_i||, theta_i = theta p_i, for alpha = 1: (42) asks for 1 - u - 2 u^2 - 4 gamma_4
 *            (1 + u^2) - 8 C theta > 0 with u = L eta and, since gamma_4 < 1/4, C = 2 (1 + u)^2/gamma_4. The best
 *            gamma_4 is 2 (1 + u) sqrt(theta/(1 + u^2)); with r = 16 sqrt(theta) there remains 1 - 2 u > r sqrt(1 +
 *            u^2), that is u < (2 - r sqrt(5 - r^2))/(4 - r^2), for r < 1. It starts from exact proxes; another start
 *            adds its squared errors, a constant, to F(x0) - F* in (43).
 *
 *   potential (25): V_eta = g(xbar) + (1/n) sum [f_i(x_i) + <grad f_i(x_i), xbar - x_i> + ||xbar - x_i||^2/(2 eta)].
 *            Lemma A.5: it never rises, whatever the cohorts are, if proxes are exact from the start on and (33) holds.
 *
 * Tran-Dinh, Pham, Phan, Nguyen: FedDR - randomized Douglas-Rachford splitting algorithms for nonconvex federated
 * composite optimization, NeurIPS 2021. The paper's text writes the server step once with xbar where it means xt. */
#include "algo/algo.h"
#include "algo/family_dr.h"

#include <math.h>

static const fl_key keys[] = {
    FLI_DR_KEYS,
    FLI_KEY_REAL(fli_dr_params, alpha, "1.95", FLI_ABOVE_0, 2, "relaxation; theory wants it below 2"),
    FLI_KEY_END,
};

/* The relative errors decide: no absolute accuracy makes their squares summable. */
static int relative_errors(const fli_dr_params *p)
{
    return p->solver == FLI_DR_ACCURATE && p->relative > 0 && !(p->accuracy > 0 && p->accuracy_power > 0.5);
}

/* The largest L eta of (42), gamma_4 chosen best, for theta_i = relative^2; 0: none. */
static double largest_u(double relative, double probability)
{
    double r = 16 * relative / sqrt(probability);
    return r < 1 ? (2 - r * sqrt(5 - r * r)) / (4 - r * r) : 0;
}

static void check(const void *params, const fl_facts *f, fl_conditions *out)
{
    const fli_dr_params *p = params;
    double p_i = f->probability, l = f->smoothness;
    fli_require_convex_g(out, f);
    if (relative_errors(p)) {
        fl_requirement(out, "Theorem A.1", "alpha = 1, for relative errors", f, p->alpha == 1);
        fl_condition_below(out, "(42)", "eta < etabar(L_i, relative^2/p_i), for the best gamma_4", f, fli_dr_eta(p),
                           p_i > 0 ? largest_u(p->relative, p_i) / l : 0);
    } else {
        fl_condition_below(out, "(33)", "eta < (2 - alpha)/(2 L_i), p_i > 0", f, fli_dr_eta(p),
                           p_i > 0 ? (2 - p->alpha) / (2 * l) : 0);
        if (p->solver == FLI_DR_ACCURATE)
            fl_requirement(out, "Theorem 3.1", "accuracy_power > 0.5: the squared errors are summable", f,
                           p->accuracy_power > 0.5);
        if (p->solver == FLI_DR_SGD)
            fl_assumption(out, "Theorem 3.1", "the squared errors of the local solver are summable");
    }
    fli_dr_assume(p, f, out);
    if (f->planned && p_i < 1)
        fl_assumption(out, "Assumption 3.1",
                      "the rate holds for cohorts that follow a plan, too; the proof is for ones "
                      "drawn independently (descent holds for all)");
}

/* An upper bound of V_eta at the start, for x_i = prox(y_i) at y_i = xbar = x0 (docs/theory.md), as ||grad f_i(x_i)||
 * is at most ||grad f_i(x0)||/(1 - L eta). The paper has F(x0), which would need x_i = x0. */
static double first_potential(double u, double eta, const fl_facts_all *all, const fl_start_values *start)
{
    double mean = 0;
    for (size_t i = 0; i < all->count; i++) mean += start->client_slope2[i] / (double)all->count;
    return start->value + eta * (1 + u) / 2 * mean / ((1 - u) * (1 - u));
}

/* (5): the mean of ||G_eta||^2 is at most C_1 V/(K+1) with exact proxes, C_1 = 2 (1 + u)^2/(eta^2 beta) and beta of
 * (35); at alpha = 1 and eta = 1/(3L) that is 160 L/(3 p). For relative errors (43), with 1/C~ where the paper prints
 * C~. */
static void promise(const void *params, const fl_facts_all *all, const fl_start_values *start, fl_promise *out)
{
    const fli_dr_params *a = params;
    double eta = fli_dr_eta(a), u = eta * all->smoothness, p = all->probability, alpha = a->alpha;
    int relative = relative_errors(a);
    *out = (fl_promise){.theorem = relative ? "[DR] Theorem A.1" : "[DR] Theorem 3.1",
                        .bounds = "the mean of ||G_eta(xbar)||^2 over the rounds",
                        .metric = "gradient_mapping",
                        .squared = 1,
                        .expected = p < 1};
    if (a->solver == FLI_DR_SGD) out->missing = "the errors of the local solver are not known";
    if (a->solver == FLI_DR_ACCURATE && !relative)
        out->missing =
            "C_2 and C_3 of absolute errors depend on gamma_1 to gamma_4, which are free; give exact or relative";
    if (!a->init) out->missing = "algorithm.init is lazy: the errors of the start have no bound here";
    if (!start || out->missing) return;
    double c1;
    if (!relative) {
        double beta = p * alpha * (2 - alpha * (u + 1) - 2 * u * u) / (2 * eta * (1 + u * u));
        c1 = 2 * (1 + u) * (1 + u) / (eta * eta * beta);
    } else {
        double theta = a->relative * a->relative / p, gamma = 2 * (1 + u) * sqrt(theta / (1 + u * u));
        double room = 1 - u - 2 * u * u - 4 * gamma * (1 + u * u) - 16 * (1 + u) * (1 + u) / gamma * theta;
        c1 = 4 * (4 * (1 + u * u + 2 * theta) + p * theta) * (1 + u) * (1 + u) / (p * p * eta * room);
    }
    out->times_eps = c1 * first_potential(u, eta, all, start);
}

/* Lemma A.5 with exact proxes from the beginning; it holds for every cohort, also for a chosen one. */
static void falls(const void *params, const fl_facts *f, fl_conditions *out)
{
    const fli_dr_params *p = params;
    fli_require_convex_g(out, f);
    fl_requirement(out, "(18)", "solver is exact", f, p->solver == FLI_DR_EXACT);
    fl_requirement(out, "(21)", "init is exact", f, p->init);
    fl_condition_below(out, "(33)", "eta < (2 - alpha)/(2 L_i)", f, fli_dr_eta(p),
                       (2 - p->alpha) / (2 * f->smoothness));
}

static void fix(const void *params, const fl_facts *worst, fl_fixes *out)
{
    static const char relative_[] = "Theorem A.1|(42)", absolute[] = "(33)";
    const fli_dr_params *p = params;
    fli_dr_fix_steps(worst, out);
    if (relative_errors(p)) {
        double relative = fmin(p->relative, sqrt(worst->probability) / 64);
        fl_fix_word(out, relative_, "algorithm.alpha", "1", NULL);
        fl_fix_most(out, relative_, "algorithm.relative", relative, NULL);
        fl_fix_most(out, relative_, "algorithm.eta", 0.9 * largest_u(relative, worst->probability) / worst->smoothness,
                    "Theorem A.1");
        fli_dr_fix_auto(p, worst, out);
        return;
    }
    fl_fix_word(out, absolute, "algorithm.alpha", "1", NULL);
    fl_fix_most(out, absolute, "algorithm.eta", 1 / (3 * worst->smoothness), "Corollary 3.1: 1/(3 L)");
    fl_fix_word(out, "Theorem 3.1", "algorithm.accuracy_power", "1", NULL);
    fli_dr_fix_auto(p, worst, out);
}

static const fl_tune_range tune[] = {
    FLI_TUNE_LR, {"algorithm.eta", 0.1, 1000, 1}, {"algorithm.alpha", 0.5, 1.99, 0}, {NULL}};

static void dr_contribute(const fl_turn *t, double f, void *gradient, double *out)
{
    fli_dr_contribute_at(t, fli_dr_point(t), f, gradient, out);
}

const fl_method fli_algo_feddr = {
    .name = "feddr",
    .title = "Douglas-Rachford splitting for composite problems, with sampling",
    .citation = "Tran-Dinh et al., NeurIPS 2021",
    .traits = FL_METHOD_UNIFORM | FL_METHOD_COMPOSITE,
    .tune = tune,
    .keys = keys,
    FLI_DR_PARTS,
    .answer = fli_dr_answer,
    .theory.check = check,
    .theory.promise = promise,
    .theory.fix = fix,
    .theory.warn = fli_dr_warn,
    .theory.potential = {.name = "the Lyapunov function V_eta of (25)",
                         .point = fli_dr_point,
                         .client = dr_contribute,
                         .server = fli_dr_potential,
                         .falls = falls},
};
