/* FedVRA: ADMM with two additional step sizes per client, which adapt it to differences between clients. It contains
 * FedAvg, FedProx, FedNova, FedDyn and ADMM, and sends one vector, not two.
 *
 *   client   x_i = Q_i steps of SGD on f_i(z) - <lam_i, z> + gamma_i/2 ||z - x||^2 from x
 *            that is rho = gamma_i, anchor = x, shift = -lam_i
 *            lam_i <- lam_i + a_i gamma_i (x - x_i);  up: gamma_i (x_i - x) and the scalar a_i
 *   server   lam <- lam + sum_S w_i a_i gamma_i (x - x_i);  beta = 1 / sum_{all i} w_i gamma_i
 *            x <- x + beta sum_S w_i d_i gamma_i (x_i - x) - beta lam                                (the new lam)
 *
 *   gamma = 0 is the limit beta gamma_i = 1, lam = 0; the change x_i - x is sent without a factor.
 *
 *   balanced: two numbers describe the three step sizes. A local turn moves x_i by about lr Qt_i times the gradient
 *   of the posed problem, so
 *     s = p_i (a_i + d_i)             is the server's step along the mean displacement (FedAvg and FedDyn: 1),
 *     theta_i = a_i gamma_i lr Qt_i   is the fraction of the way to its gradient that a dual moves in a turn.
 *   theta = 1/2 (half way: neither stale nor pure noise) and a_i = d_i in the mean determine all:
 *     a_i = s/(2 p_i), at most 1/(gamma lr Qt_i), so that theta_i <= 1 for clients with many steps;
 *     gamma = p/(s T) for all clients, with the means p of p_i and T of lr_i Q_i in the first round, weighted by w_i;
 *     d_i = s/(p_i W) - a_i, with W = sum_S w_i/p_i, which is 1 in the mean; dividing by W removes the noise of cohorts
 *           that weigh more or less than their share.
 *   s = 2/T, but at least 1 and at most 2: the server goes further along changes of clients that hardly move in a turn.
 *   2 is what the paper's own settings amount to; larger values were unstable.
 *
 *   auto ([VRA] Remark 1): d_i = 1/p_i; a_i the largest value with (a_i + d_i) lr gamma_i Qt_i <= 1, at least 0, where
 *   Qt_i = sum_{t<Q_i} (1 - gamma_i lr)^t.
 *
 * Presets (section III): fedavg a = 0, gamma = 0, d = N/m; fedprox a = 0, d = N/m; admm a = d = 1; fednova a = 0,
 * gamma = 0, d_i = Qeff/(Q_i sum_S w) with Qeff = sum_S w_i Q_i / sum_S w; feddyn a = 1, d = N/m; scaffold
 * a_i = 1/(gamma_i lr Q_i), d = 1. A preset sets the values that it names and no others. Comparison with the originals:
 *   fedavg, fedprox  equal to those methods with `aggregation: unbiased`; fednova and admm equal to fednova and
 *                    fedadmm.
 *   feddyn           equal to feddyn with alpha = gamma, if weights are uniform. (The paper calls it an approximation
 *                    because it means a FedDyn that solves local problems exactly.)
 *   scaffold         not SCAFFOLD. (24): lam_i is the mean gradient of a turn up to a multiple of gamma, as SCAFFOLD's
 *                    c_i. (23): with the server's x = y - lam/gamma the local problem is SCAFFOLD's at y plus gamma/2
 *                    ||z - y||^2. But local steps start at x, not at y, and x runs away from y as gamma goes to 0: the
 *                    problems have a limit, the runs do not.
 *
 * Wang, Xu, Wang, Chang, Quek, Sun: Beyond ADMM: a unified client-variance-reduced adaptive federated learning
 * framework, 2023. */
#include "algo/algo.h"
#include "algo/family_vra.h"

#include <math.h>

typedef struct {
    int preset; /* index into `presets` */
    fl_reals gamma, a, d, step, a_rounds, d_rounds;
    double balanced_gamma, balanced_step; /* the plan's settled values */
} params;

enum { STEPS, W };       /* scalar sums, see absorb */
enum { BALANCED, AUTO }; /* words of a and d; gamma has only the first */

/* The rule by which a preset replaces the keys a and d; GIVEN: it does not, the key counts. */
typedef enum { A_GIVEN, A_ZERO, A_ONE, A_MEAN_GRADIENT /* 1/(gamma_i lr Q_i) */ } a_rule;
typedef enum { D_GIVEN, D_ONE, D_COHORT /* N/m for the cohort as it came */, D_NORMALISED /* see absorb */ } d_rule;

typedef struct {
    const char *name;
    int no_gamma; /* gamma = 0 */
    a_rule a;
    d_rule d;
} preset;

/* In the order of the key's words. */
/* clang-format off */
static const preset presets[] = {
    {"none",     0, A_GIVEN,         D_GIVEN},
    {"fedavg",   1, A_ZERO,          D_COHORT},
    {"fedprox",  0, A_ZERO,          D_COHORT},
    {"fednova",  1, A_ZERO,          D_NORMALISED},
    {"admm",     0, A_ONE,           D_ONE},
    {"feddyn",   0, A_ONE,           D_COHORT},
    {"scaffold", 0, A_MEAN_GRADIENT, D_ONE},
};
/* clang-format on */

static const preset *preset_of(const params *p) { return &presets[p->preset]; }

static const fl_key keys[] = {
    FLI_KEY_PER_CLIENT(params, gamma, "balanced", 0, FLI_NO_MAX, "balanced",
                       "proximal parameter gamma_i; 0 for all: no dual part; balanced: p/(s T), see the notes"),
    FLI_KEY_PER_CLIENT(params, a, "balanced", 0, FLI_NO_MAX, "balanced|auto",
                       "dual step size a_i: how fast the correction follows; balanced: s/(2 p_i); auto: Remark 1"),
    FLI_KEY_PER_CLIENT(params, d, "balanced", 0, FLI_NO_MAX, "balanced|auto",
                       "aggregation step size d_i; balanced: s/p_i - a_i for a cohort of the usual weight, and 1/p_i "
                       "where a is not balanced; auto: 1/p_i"),
    {"step", FL_KEY_REALS, "balanced", FLI_ABOVE_0, FLI_NO_MAX, "balanced",
     "the server's step s along the mean displacement, for balanced gamma, a and d; balanced: 2/T, from 1 to 2, see "
     "the notes",
     offsetof(params, step)},
    FLI_KEY_REALS(params, a_rounds, "1", 0, FLI_NO_MAX, "factors of a given a in rounds 1, 2, ...; the last one stays"),
    FLI_KEY_REALS(params, d_rounds, "1", 0, FLI_NO_MAX,
                  "factors of d, unless balanced, in rounds 1, 2, ...; the last one stays"),
    FLI_KEY_CHOICE(params, preset, "none", "none|fedavg|fedprox|fednova|admm|feddyn|scaffold",
                   "settings that make it another method: FedAvg or FedProx with unbiased aggregation, FedNova, ADMM, "
                   "FedDyn if weights are uniform; scaffold comes close to SCAFFOLD's local problem only"),
    FLI_KEY_END,
};

/* ---- the rule `balanced` ------------------------------------------------------------------------------------- */

static int balances_a(const params *p) { return preset_of(p)->a == A_GIVEN && !p->a.n && p->a.word == BALANCED; }

/* If a follows another rule there is nothing to balance: d_i = 1/p_i then. */
static int balances_d(const params *p)
{
    return preset_of(p)->d == D_GIVEN && !p->d.n && p->d.word == BALANCED && balances_a(p);
}

/* Everything is 1 until it is settled. */
static double step_of(const params *p) { return p->step.n ? p->step.v[0] : 1; }

static unsigned unsettled(const void *params_)
{
    const params *p = params_;
    int gamma = !p->gamma.n && !preset_of(p)->no_gamma;
    return gamma || (!p->step.n && balances_a(p)) ? FL_SETTLES_BY_WORK : 0;
}

static void settle(void *params_, const fl_facts *f)
{
    params *p = params_;
    double travel = f->first_round.travel > 0 ? f->first_round.travel : 1;
    double likely = f->first_round.probability > 0 ? f->first_round.probability : 1;
    int dual = !p->gamma.n || p->gamma.v[0] > 0;
    p->balanced_step = p->step.n ? p->step.v[0] : dual ? fmin(2, fmax(1, 2 / travel)) : 1;
    p->balanced_gamma = likely / (p->balanced_step * travel);
    if (balances_a(p)) p->step = (fl_reals){1, &p->balanced_step, 0};
    if (!p->gamma.n) p->gamma = (fl_reals){1, &p->balanced_gamma, 0};
}

static double gamma_at(const params *p, size_t client)
{
    if (preset_of(p)->no_gamma) return 0;
    return p->gamma.n ? fli_reals_at(&p->gamma, client) : 1;
}

static double by_round(const fl_reals *factors, size_t round)
{
    return factors->v[round < factors->n ? round : factors->n - 1];
}

/* One client in one round. */
typedef struct {
    size_t client, round, steps;
    double lr, probability; /* with the actual cohort, for presets that need it */
} moment;

/* For a balanced d this is a_i + d_i: the rest needs the cohort's weight, see advance. */
static double d_at(const params *p, const moment *m)
{
    double factor = by_round(&p->d_rounds, m->round);
    switch (preset_of(p)->d) {
    case D_GIVEN:
        if (balances_d(p)) return step_of(p) / m->probability;
        return factor * (p->d.n ? fli_reals_at(&p->d, m->client) : 1 / m->probability);
    case D_COHORT: return factor / m->probability;
    default: return factor; /* normalised: see absorb and advance */
    }
}

/* Factors by round apply to given values only: the other rules bound a_i themselves. */
static double a_at(const params *p, const moment *m, double gamma, double d)
{
    a_rule rule = preset_of(p)->a;
    if (rule == A_ONE) return 1;
    if (rule == A_ZERO || gamma == 0) return 0;
    if (rule == A_MEAN_GRADIENT) return 1 / (gamma * m->lr * (double)m->steps);
    if (p->a.n) return fli_reals_at(&p->a, m->client) * by_round(&p->a_rounds, m->round);
    double most = 1 / (m->lr * gamma * fli_vra_steps(gamma, m->lr, m->steps));
    return p->a.word == AUTO ? fmax(0, most - d) : fmin(step_of(p) / (2 * m->probability), most);
}

static fli_vra at(const params *p, const moment *m)
{
    double gamma = gamma_at(p, m->client), d = d_at(p, m);
    return (fli_vra){gamma, a_at(p, m, gamma, d), d};
}

static fli_vra at_turn(const params *p, size_t clients, const fl_ask *ask)
{
    int by_cohort = preset_of(p)->d == D_COHORT;
    moment m = {ask->client, ask->round, ask->steps, ask->lr,
                by_cohort ? (double)ask->cohort / (double)clients : ask->probability};
    return at(p, &m);
}

/* The same in theory, for cohorts of the usual weight. */
static fli_vra in_theory(const params *p, const fl_facts *f, size_t round)
{
    moment m = {f->client, round, f->steps, f->lr, f->probability};
    fli_vra c = at(p, &m);
    if (balances_d(p)) c.d -= c.a;
    return c;
}

/* gamma = 0 is a limit for all clients together; FedDyn has one alpha. */
static int validate(const void *params_, size_t clients, fl_failure *f)
{
    const params *p = params_;
    const preset *as = preset_of(p);
    size_t zeros = 0, others = 0, n = p->gamma.n;
    (void)clients;
    for (size_t i = 0; i < n; i++) {
        zeros += p->gamma.v[i] == 0;
        others += p->gamma.v[i] != p->gamma.v[0];
    }
    if (zeros && zeros < n)
        return fli_refuse(f, "algorithm.gamma is 0 for %zu clients and positive for %zu; it must be one or the other",
                          zeros, n - zeros);
    if ((as->a == A_ONE || as->a == A_MEAN_GRADIENT) && zeros)
        return fli_refuse(f, "algorithm.preset is %s, which needs algorithm.gamma > 0", as->name);
    if (as->a == A_ONE && as->d == D_COHORT && others)
        return fli_refuse(f, "algorithm.preset is %s, which has one algorithm.gamma for all clients", as->name);
    if (p->step.n > 1) return fli_refuse(f, "algorithm.step is one number or balanced, not a list of %zu", p->step.n);
    if (!p->a_rounds.n || !p->d_rounds.n)
        return fli_refuse(f, "algorithm.a_rounds and algorithm.d_rounds need at least one value");
    return 0;
}

static int start(const fl_coordinator *s)
{
    const params *p = s->bound;
    double one = 1;
    fli_vra_start(s, preset_of(p)->no_gamma ? NULL : p->gamma.n ? &p->gamma : &(fl_reals){1, &one, 0});
    return 0;
}

static int pose(const fl_turn *t, fl_problem *p)
{
    fli_vra c = at_turn(t->bound, t->clients, &t->ask);
    fli_vra_pose(t, &c, p);
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    fli_vra c = at_turn(t->bound, t->clients, &t->ask);
    fli_vra_answer(t, &c, a);
    return 0;
}

/* Qeff of fednova and the cohort's weight W of a balanced d are known only after the last upload: this uses 1/Q_i and
 * a_i + d_i with W = 1; advance corrects it. */
static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    fli_vra c = at_turn(s->bound, s->clients, &t->ask);
    if (preset_of(s->bound)->d == D_NORMALISED) c.d /= (double)t->ask.steps;
    fli_vra_absorb(s, &c, t);
    s->scalar_sum[STEPS] += t->ask.weight * (double)t->ask.steps;
    s->scalar_sum[W] += t->ask.weight / t->ask.probability;
    return 0;
}

static int advance(const fl_coordinator *s)
{
    double w = s->cohort_weight;
    if (preset_of(s->bound)->d == D_NORMALISED) fli_scale(&s->space, s->scalar_sum[STEPS] / (w * w), s->sum[0]);
    if (balances_d(s->bound)) /* d_i = (a_i + d_i)/W - a_i; both sums are of gamma_i (x_i - x) */
        fli_lin(&s->space, 1 / s->scalar_sum[W], s->sum[0], -1, s->sum[1], s->sum[0]);
    return fli_vra_advance(s);
}

/* 1 / sum w_j gamma_j; `gamma` is the value of all clients if it is not a list. */
static double beta_of(const params *p, const fl_facts *f, double gamma)
{
    double sum = 0;
    if (p->gamma.n <= 1) return 1 / gamma;
    for (size_t i = 0; i < f->clients; i++) sum += f->all->weights[i] * p->gamma.v[i];
    return 1 / sum;
}

static int one_gamma(const params *p) { return preset_of(p)->no_gamma || fli_reals_equal(&p->gamma); }

/* Whether d is the same in all rounds. If it depends on the cohort, all cohorts must weigh the same. */
static int steady_d(const params *p, const fl_facts *f)
{
    int everyone = f->probability == 1, same = everyone || (f->uniform_cohort && f->all->equal_weights);
    switch (preset_of(p)->d) {
    case D_COHORT: return f->all->cohort > 0;
    case D_NORMALISED: return everyone;
    default: return balances_d(p) ? same : 1;
    }
}

static void check_by(int blocks, const params *p, const fl_facts *f, fl_conditions *out)
{
    size_t rounds = p->a_rounds.n > p->d_rounds.n ? p->a_rounds.n : p->d_rounds.n;
    fli_require_convex_g(out, f);
    for (size_t r = 0; r < rounds; r++) { /* factors are constant after that */
        fli_vra c = in_theory(p, f, r);
        if (blocks)
            fli_vra_check_blocks(&c, one_gamma(p), beta_of(p, f, c.gamma), f, out);
        else
            fli_vra_check(&c, one_gamma(p), f, out);
    }
    if (blocks && p->a_rounds.n > 1)
        fl_requirement(out, "a_i^r", "a_i is the same in all rounds, as p_i and Q_i", f, fli_reals_equal(&p->a_rounds));
    fl_requirement(out, "d_i",
                   "d_i is the same for all cohorts: balanced ones, and those of presets, are not where "
                   "cohorts differ in weight or size",
                   f, steady_d(p, f));
}

/* With the smallest a and the smallest d of all rounds, for sums over clients. */
static fli_vra in_any_round(const void *params_, const fl_facts *f)
{
    const params *p = params_;
    fli_vra least = in_theory(p, f, 0);
    for (size_t r = 1; r < p->a_rounds.n || r < p->d_rounds.n; r++) {
        fli_vra c = in_theory(p, f, r);
        least.a = fmin(least.a, c.a);
        least.d = fmin(least.d, c.d);
    }
    return least;
}

static void check_sum(int blocks, const params *p, const fl_facts_all *all, fl_conditions *out)
{
    if (one_gamma(p)) return;
    fli_vra_check_sum(blocks, beta_of(p, &all->each[0], NAN), in_any_round, p, all, out);
}

static void check_all(const void *p, const fl_facts_all *all, fl_conditions *out) { check_sum(0, p, all, out); }
static void check_all_u(const void *p, const fl_facts_all *all, fl_conditions *out) { check_sum(1, p, all, out); }
static void promise(const void *p, const fl_facts_all *all, const fl_start_values *start, fl_promise *out)
{
    fli_vra_promise(in_any_round, p, beta_of(p, &all->each[0], gamma_at(p, 0)), all, start, out);
}

/* (155) bounds the mean of the gap (98) by D_3 (P^0 - f)/R. */
static void promise_u(const void *p, const fl_facts_all *all, const fl_start_values *start, fl_promise *out)
{
    (void)p;
    (void)all;
    (void)start;
    *out = (fl_promise){.theorem = "[VRA] Theorem 2", .missing = "D_3 of (155) is not computed here"};
}

static void check(const void *params_, const fl_facts *f, fl_conditions *out) { check_by(0, params_, f, out); }
static void check_u(const void *params_, const fl_facts *f, fl_conditions *out) { check_by(1, params_, f, out); }
static void contribute(const fl_turn *t, double f, void *gradient, double *out)
{
    fli_vra c = at_turn(t->bound, t->clients, &t->ask);
    fli_vra_contribute(t, &c, f, gradient, out);
}

static void falls(const void *params_, const fl_facts *f, fl_conditions *out)
{
    const params *p = params_;
    fli_vra c = in_theory(p, f, 0);
    fli_vra_falls(&c, one_gamma(p), f, out);
    fl_requirement(out, "a, d", "the same in all rounds", f, p->a_rounds.n == 1 && p->d_rounds.n == 1);
}

static void warn(const void *params_, const fl_facts *f, fli_text *out)
{
    const params *p = params_;
    fli_vra c = in_theory(p, f, 0);
    int automatic = preset_of(p)->a == A_GIVEN && !p->a.n && p->a.word == AUTO && c.gamma > 0 &&
                    f->probability > 0; /* 0: never takes part */
    fli_vra_warn(c.gamma, f, out);
    if (!*fli_text_get(out) && preset_of(p)->a == A_MEAN_GRADIENT)
        fli_text_add(out, "algorithm.preset scaffold is not SCAFFOLD: for small algorithm.gamma its local "
                          "problems come close, but its runs grow without bound; for SCAFFOLD itself set "
                          "algorithm.kind to scaffold");
    if (*fli_text_get(out) || !automatic || c.a > 0) return;
    fli_text_addf(
        out,
        "client %u: algorithm.a is auto and becomes 0, because d_i lr_i gamma_i Qt_i = %.3g leaves nothing of "
        "the 1 it may share: without the dual part this is FedProx; make algorithm.gamma or algorithm.d "
        "smaller, or give algorithm.a",
        f->client, c.d * f->lr * c.gamma * fli_vra_steps(c.gamma, f->lr, f->steps));
}

/* A preset that sets a or d keeps it, unless no gamma would satisfy the conditions or its d depends on the cohort;
 * factors by round would multiply the values set here. */
static void fix_by(int blocks, const params *p, const fl_facts *worst, fl_fixes *out)
{
    fli_vra c = in_theory(p, worst, 0);
    double d = balances_d(p) ? (c.a + c.d) / 2 : c.d, a = d;
    a_rule rule = preset_of(p)->a;
    if (rule == A_GIVEN && p->a.n && fli_reals_at(&p->a, worst->client) > 0) a = fli_reals_at(&p->a, worst->client);
    if (rule == A_ONE) a = 1;
    int leave = rule == A_ZERO || rule == A_MEAN_GRADIENT || (rule == A_ONE && !steady_d(p, worst));
    if (leave) fl_fix_word(out, FLI_VRA_CONDITIONS, "algorithm.preset", "none", NULL);
    if (leave || rule != A_ONE) {
        fl_fix_most(out, FLI_VRA_CONDITIONS, "algorithm.a", a, NULL);
        fl_fix_most(out, FLI_VRA_CONDITIONS, "algorithm.d", d, NULL);
    }
    if (p->a_rounds.n > 1 || p->a_rounds.v[0] != 1)
        fl_fix_word(out, FLI_VRA_CONDITIONS "|a_i^r", "algorithm.a_rounds", "1", NULL);
    if (p->d_rounds.n > 1 || p->d_rounds.v[0] != 1)
        fl_fix_word(out, FLI_VRA_CONDITIONS, "algorithm.d_rounds", "1", NULL);
    fli_vra_fix(blocks, a, d, worst, out);
}

static void fix(const void *params_, const fl_facts *w, fl_fixes *out) { fix_by(0, params_, w, out); }
static void fix_u(const void *params_, const fl_facts *w, fl_fixes *out) { fix_by(1, params_, w, out); }

/* (101), without its expectations: [VRA]'s potential for a second block has 8 beta/(1 - p_i) in place of 4 beta, so it
 * does not exist for clients that always take part. */
static void contribute_u(const fl_turn *t, double f, void *gradient, double *out)
{
    fli_vra c = at_turn(t->bound, t->clients, &t->ask);
    fli_vra_contribute(t, &c, f, gradient, out);
    out[1] *= 2 / (1 - t->ask.probability);
}

/* (98): G^r = ||x - P_X(x - beta grad_x f(x, y+))||^2/beta^2 + sum w_i ||y_i - P(y_i - eta_y grad_y f_i)||^2/eta_y^2,
 * with the y+ of a next turn of all clients, which is the paper's y^{r+1} with full participation. */
static double gap_u(double slope, double moves, double block_slopes, double smoothness)
{
    (void)moves;
    (void)smoothness;
    return slope + block_slopes;
}

/* FedVRA-U ([VRA] Algorithm 3): f_i(x, y_i) with a block y_i that stays with the client, x in a convex set X. The local
 * solver finds y_i first; the server then only projects x onto X, which is the proximal step of X's indicator. With
 * other regularisers g the server's problem min_x g(x) + 1/(2 beta) ||x - ...||^2 needs a proximal step of length beta;
 * in the limit gamma = 0 that problem does not exist, and g can only be an indicator. */
static int advance_u(const fl_coordinator *s)
{
    double beta = fli_vra_beta(s);
    advance(s);
    fl_prox(s, beta > 0 ? beta : 1, s->vec[0]);
    return 0;
}

/* beta is at least 1 / (the largest gamma). */
static void warn_u(const void *params_, const fl_facts *f, fli_text *out)
{
    const params *p = params_;
    double most = gamma_at(p, 0);
    for (size_t i = 1; i < p->gamma.n; i++) most = fmax(most, gamma_at(p, i));
    warn(params_, f, out);
    if (!*fli_text_get(out))
        fli_warn_long_prox(f, most > 0 ? 1 / most : 1, "1/algorithm.gamma (by a larger gamma)", out);
}

#define PARTS                                                                                                          \
    .citation = "Wang et al., Beyond ADMM, 2023", .keys = keys, .params_size = sizeof(params), FLI_VRA_PARTS,          \
    .settling = {unsettled, settle}, .scalar_sums = 2,                                                                 \
    .remedy = "a smaller algorithm.a or local.lr, or a larger algorithm.gamma", .validate = validate, .start = start,  \
    .pose = pose, .answer = answer, .absorb = absorb

const fl_method fli_algo_fedvra = {
    .name = "fedvra",
    .title = "adaptive client-variance reduction; contains FedAvg, FedProx, FedNova, FedDyn and ADMM",
    .traits = FL_METHOD_PLAIN_SGD,
    PARTS,
    .theory.check = check,
    .theory.check_all = check_all,
    .theory.promise = promise,
    .theory.fix = fix,
    .theory.warn = warn,
    .theory.potential = {.name = FLI_VRA_POTENTIAL,
                         .point = fli_vra_point,
                         .client = contribute,
                         .server = fli_vra_potential,
                         .falls = falls},
    .advance = advance,
};

const fl_method fli_algo_fedvra_u = {
    .name = "fedvra-u",
    .title = "FedVRA for problems with a second block on the clients: pseudo labels, clusters",
    .traits = FL_METHOD_PLAIN_SGD | FL_METHOD_COMPOSITE | FL_METHOD_BLOCKS,
    PARTS,
    .theory.check = check_u,
    .theory.check_all = check_all_u,
    .theory.promise = promise_u,
    .theory.fix = fix_u,
    .theory.warn = warn_u,
    .theory.potential = {.name = "P^r of (101)",
                         .point = fli_vra_point,
                         .client = contribute_u,
                         .server = fli_vra_potential},
    .theory.gap = {.name = "G^r of (98)", .eta = fli_vra_beta, .ahead = 1, .value = gap_u},
    .advance = advance_u,
};
