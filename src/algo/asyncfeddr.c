/* asyncFedDR: FedDR without rounds. Whenever a client comes back the server applies FedDR's update of that single
 * client, which worked from xbar of d server steps ago, and hands it the newest xbar.
 *
 *   client   y_i <- y_i + alpha (xbar^{k-d} - x_i);  x_i ~ prox_{eta f_i}(y_i);  up: the change of xh_i = 2 x_i - y_i
 *   server   xt <- xt + (1/n) (change of xh_i);  xbar = prox_{eta g}(xt)
 *   start    as FedDR's: lazy, y_i = x_i = xh_i = xt = x0; exact, x_i = prox(y_i) on every client before the first step
 *
 *   theory   Lemma B.2, for convex g, exact local solutions, delays of at most tau, and every client coming back again
 *            and again. It rests on (21), y_i = x_i + eta grad f_i(x_i) of everyone at all times, and so on an exact
 *            start: it has no room for errors as FedDR's theorem has. With c = max(0, (2 tau^2 - n)/n^2):
 *            alpha < 2/(2 + c)  and  2 - (2 + c) alpha > (2 + (1 + c) alpha) (L eta)^2 + alpha L eta.
 *            The paper needs alpha < 1 where FedDR itself allows alpha < 2. It loses a factor of 2 after (61), which
 *            convex f_i do not need, since then ||a - b||^2 <= ||a||^2 + ||b||^2 there; for others c is twice that.
 *            (61) also takes xbar^0 = x0 for the prox of the first xt: where c > 0 the first step may climb.
 *            Solved for eta it has 4 c in the place of 12 c.
 *
 *   potential (62) with the factor tau/(n eta) of (53); the factor 1/(n eta) that is printed there does not descend:
 *            V~ = V_eta + tau/(n eta) sum_{l = k-tau}^{k-1} (l - (k - tau) + 1) ||xbar^{l+1} - xbar^l||^2
 *            V_eta is FedDR's, of the x_i that the server knows of: a client whose answer has not been absorbed counts
 *            with its x_i of before that turn, which it keeps for this. Of xbar's past the server remembers the lengths
 *            of its last tau steps. Without a bound tau there is no such function.
 *
 * Tran-Dinh, Pham, Phan, Nguyen: FedDR - randomized Douglas-Rachford splitting algorithms for nonconvex federated
 * composite optimization, NeurIPS 2021, Algorithm 2. */
#include "algo/algo.h"
#include "algo/family_dr.h"

#include <math.h>

enum { X_I = 1, X_BEFORE }; /* client; the second, which only the potential needs, is x_i before the last turn, */
enum { LAST };              /* and this scalar is 1 + the number of that turn */

static const fl_key keys[] = {
    FLI_DR_KEYS,
    FLI_KEY_REAL(fli_dr_params, alpha, "1", FLI_ABOVE_0, 2, "relaxation; theory wants it below 1"),
    FLI_KEY_INT(fli_dr_params, tau, "0", 0, 1e9, "bound on the age of an upload, in server steps; 0: none"),
    FLI_KEY_END,
};

static fl_pace pace(const void *p) { return (fl_pace){1, (size_t)((const fli_dr_params *)p)->tau}; }

/* c of (63), corrected as described above. */
static double delay_term(double tau, const fl_facts *f)
{
    double n = (double)f->clients;
    return (f->convex ? 1 : 2) * fmax(0, (2 * tau * tau - n) / (n * n));
}

/* The largest L eta: the positive root of (2 + (1 + c) alpha) u^2 + alpha u = 2 - (2 + c) alpha. */
static double most_eta(double alpha, double c)
{
    double a = 2 + (1 + c) * alpha, b = alpha, rest = 2 - (2 + c) * alpha;
    return rest > 0 ? (sqrt(b * b + 4 * a * rest) - b) / (2 * a) : 0;
}

static void check(const void *params, const fl_facts *f, fl_conditions *out)
{
    const fli_dr_params *p = params;
    fli_require_convex_g(out, f);
    fl_requirement(out, "Assumption 4.1", "algorithm.tau is set: the delay has a bound", f, p->tau > 0);
    fl_requirement(out, "(51)", "every client comes back again and again, p_i > 0", f, f->probability > 0);
    fl_requirement(out, "(21)", "algorithm.init is exact: y_i = x_i + eta grad f_i(x_i) from the start", f, p->init);
    if (p->solver != FLI_DR_EXACT) fl_assumption(out, "Lemma B.2", "local problems are solved exactly");
    fli_dr_assume(p, f, out);
    if (!p->tau) return;
    double c = delay_term((double)p->tau, f);
    fl_condition_below(out, "(63) alpha",
                       f->convex ? "alpha < 2/(2 + c), c = max(0, (2 tau^2 - n)/n^2)"
                                 : "alpha < 2/(2 + c), c = 2 max(0, (2 tau^2 - n)/n^2)",
                       f, p->alpha, 2 / (2 + c));
    fl_condition_below(out, "(63) eta", "(2 + (1 + c) alpha) (L_i eta)^2 + alpha L_i eta < 2 - (2 + c) alpha", f,
                       fli_dr_eta(p), most_eta(p->alpha, c) / f->smoothness);
}

/* (74), with the factor T + tau + 1 that the paper loses, needs T of Assumption 4.1. */
static void promise(const void *params, const fl_facts_all *all, const fl_start_values *start, fl_promise *out)
{
    (void)params;
    (void)all;
    (void)start;
    *out = (fl_promise){.theorem = "[DR] Theorem 4.1",
                        .missing = "it counts by T, the server steps within which every client comes back with a known "
                                   "chance, and no setting says what T is"};
}

/* Lemma B.2, with exact proxes from the beginning. The first step may climb: see above. */
static void falls(const void *params, const fl_facts *f, fl_conditions *out)
{
    const fli_dr_params *p = params;
    check(params, f, out);
    fl_requirement(out, "Lemma B.2", "solver is exact", f, p->solver == FLI_DR_EXACT);
}

static size_t remembers(const void *params) { return (size_t)((const fli_dr_params *)params)->tau; }

/* Whether the server has not absorbed the client's last answer yet. */
static int is_ahead(const fl_turn *t) { return t->state && t->away && t->scalars[LAST] == 1 + (double)t->ask.stream; }

static const void *point(const fl_turn *t) { return is_ahead(t) ? t->state[X_BEFORE] : fli_dr_point(t); }

static void contribute(const fl_turn *t, double f, void *gradient, double *out)
{
    fli_dr_contribute_at(t, point(t), f, gradient, out);
}

static double potential(const fl_coordinator *s, const double *sum, double g)
{
    const fli_dr_params *p = s->bound;
    double tau = (double)p->tau, memory = 0;
    if (!s->moves) return NAN;
    for (size_t j = 0; j < (size_t)p->tau; j++) memory += (tau - (double)j) * s->moves[j];
    return fli_dr_potential(s, sum, g) + tau / ((double)s->clients * fli_dr_eta(p)) * memory;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    if (t->watched) {
        fli_copy(&t->space, t->state[X_I], t->state[X_BEFORE]);
        t->scalars[LAST] = t->ask.warm_up ? 0 : 1 + (double)t->ask.stream;
    }
    return fli_dr_answer(t, a);
}

static void fix(const void *params, const fl_facts *worst, fl_fixes *out)
{
    static const char conditions[] = "Assumption 4.1|(63)";
    const fli_dr_params *p = params;
    double tau = p->tau ? (double)p->tau : fmax(1, (double)worst->clients - 1), c = delay_term(tau, worst);
    double alpha = 1 / (2 + c); /* half of what the theorem allows */
    fli_dr_fix_steps(worst, out);
    fl_fix_word(out, "(21)", "algorithm.init", "exact", NULL);
    fl_fix_least(out, conditions, "algorithm.tau", tau, NULL);
    fl_fix_most(out, conditions, "algorithm.alpha", alpha, NULL);
    fl_fix_most(out, conditions, "algorithm.eta", 0.99 * most_eta(alpha, c) / worst->smoothness, NULL);
    fli_dr_fix_auto(p, worst, out);
}

static const fl_tune_range tune[] = {
    FLI_TUNE_LR, {"algorithm.eta", 0.1, 1000, 1}, {"algorithm.alpha", 0.5, 1, 0}, {NULL}};

const fl_method fli_algo_asyncfeddr = {
    .name = "asyncfeddr",
    .title = "FedDR without rounds: a server that never waits",
    .citation = "Tran-Dinh et al., NeurIPS 2021",
    .traits = FL_METHOD_UNIFORM | FL_METHOD_COMPOSITE,
    .tune = tune,
    .keys = keys,
    FLI_DR_PARTS,
    .answer = answer,
    .async.pace = pace,
    .theory.check = check,
    .theory.promise = promise,
    .theory.fix = fix,
    .theory.warn = fli_dr_warn,
    .theory.potential = {.name = "the Lyapunov function of (62), with the factor tau/(n eta) of (53)",
                         .vectors = 1,
                         .scalars = 1,
                         .remembers = remembers,
                         .point = point,
                         .client = contribute,
                         .server = potential,
                         .falls = falls,
                         .after = 1},
};
