#include "algo/family_simfbo.h"

#include <math.h>

enum { Z, V };   /* server, broadcast: (x, y), and v in the lower block */
enum { Q, Q_V }; /* up, sums: (q_x, q_y), and q_v in the lower block */

const fl_key fli_simfbo_keys[] = {
    FLI_KEY_REAL(fli_simfbo_params, lr_y, "0.2", FLI_ABOVE_0, FLI_NO_MAX, "local step size of y, the lower level"),
    FLI_KEY_REAL(fli_simfbo_params, lr_v, "0.1", FLI_ABOVE_0, FLI_NO_MAX,
                 "local step size of v, which stands for the inverse Hessian times grad_y f"),
    FLI_KEY_REAL(fli_simfbo_params, lr_x, "0.05", FLI_ABOVE_0, FLI_NO_MAX,
                 "local step size of x, the upper level; none of the three depends on local.lr"),
    FLI_KEY_REAL(fli_simfbo_params, server_lr_y, "0.2", FLI_ABOVE_0, FLI_NO_MAX, "step size of the server for y"),
    FLI_KEY_REAL(fli_simfbo_params, server_lr_v, "0.1", FLI_ABOVE_0, FLI_NO_MAX, "step size of the server for v"),
    FLI_KEY_REAL(fli_simfbo_params, server_lr_x, "0.05", FLI_ABOVE_0, FLI_NO_MAX, "step size of the server for x"),
    FLI_KEY_REALS(fli_simfbo_params, coef, "1", FLI_ABOVE_0, FLI_NO_MAX,
                  "coefficients a_k of the local steps k = 0, 1, ...; the last one holds for all later steps"),
    FLI_KEY_INT(
        fli_simfbo_params, coef_steps, "0", 0, 1000000,
        "0: all clients share coef; above: coef has this many numbers for each client, one client after the other"),
    FLI_KEY_REALS(fli_simfbo_params, coef_rounds, "1", FLI_ABOVE_0, FLI_NO_MAX,
                  "multiplies all coefficients of a round, by rounds; the last one holds for all later rounds"),
    FLI_KEY_REAL(fli_simfbo_params, coef_decay, "1", FLI_ABOVE_0, 1, "multiplies a_k by coef_decay^k"),
    {"radius", FL_KEY_REALS, "auto", FLI_ABOVE_0, FLI_NO_MAX, "auto",
     "the server keeps ||v|| within it; auto: L_f/mu_g, with the largest ||grad_y f_i|| seen so far for L_f and "
     "bilevel.l2 for mu_g; without l2 there is no radius",
     offsetof(fli_simfbo_params, radius)},
    FLI_KEY_END,
};

/* The server's steps only: with a single local step the clients' steps change nothing. */
const fl_tune_range fli_simfbo_tune[] = {
    {"algorithm.server_lr_y", 0.01, 1, 1},
    {"algorithm.server_lr_v", 0.01, 1, 1},
    {"algorithm.server_lr_x", 0.01, 1, 1},
    {NULL},
};

const char *const fli_simfbo_server[] = {"(x, y)", "v", NULL};
const fl_part fli_simfbo_down[] = {{"(x, y)", FL_PART_VECTOR, Z}, {"v", FL_PART_LOWER, V}, {NULL}};
const char *const fli_simfbo_sums[] = {"sum pt_i (q_x, q_y)", "sum pt_i q_v", NULL};

size_t fli_simfbo_counts_as(const void *params, size_t stage, size_t steps, const fl_epochs *e)
{
    (void)stage;
    (void)params;
    return fli_levels_cost(&(fl_levels){.work = FL_WORK_TOGETHER}, steps, e);
}

int fli_simfbo_validate(const void *params, size_t clients, fl_failure *f)
{
    const fli_simfbo_params *a = params;
    size_t each = (size_t)a->coef_steps;
    if (!a->coef.n) return fli_refuse(f, "algorithm.coef is empty");
    if (!a->coef_rounds.n) return fli_refuse(f, "algorithm.coef_rounds is empty");
    if (each && a->coef.n != each * clients)
        return fli_refuse(
            f,
            "algorithm.coef has %zu numbers, but with algorithm.coef_steps = %zu and %zu clients it needs "
            "%zu",
            a->coef.n, each, clients, each * clients);
    if (a->radius.n <= 1) return 0;
    return fli_refuse(f, "algorithm.radius is one number or auto, not a list of %zu", a->radius.n);
}

/* a_i^(t,k) of a client in round t, for all k. */
static fl_coefs coefs_of(const fli_simfbo_params *a, size_t client, size_t round)
{
    size_t n = a->coef_steps ? (size_t)a->coef_steps : a->coef.n, last = a->coef_rounds.n - 1;
    return (fl_coefs){.v = a->coef.v + (a->coef_steps ? client * n : 0),
                      .n = n,
                      .decay = a->coef_decay,
                      .scale = a->coef_rounds.v[round < last ? round : last]};
}

double fli_simfbo_length(const void *params, size_t client, size_t steps)
{
    fl_coefs c = coefs_of(params, client, 0);
    return fli_coef_sum(&c, steps);
}

double fli_simfbo_potential(double value, double lower_distance, double system_distance)
{
    return value + lower_distance * lower_distance + system_distance * system_distance;
}

/* The client's coefficients in the round in which they are largest, or smallest. */
static fl_coefs extreme_coefs(const fli_simfbo_params *a, size_t client, int largest)
{
    size_t best = 0;
    for (size_t t = 1; t < a->coef_rounds.n; t++)
        if (largest ? a->coef_rounds.v[t] > a->coef_rounds.v[best] : a->coef_rounds.v[t] < a->coef_rounds.v[best])
            best = t;
    return coefs_of(a, client, best);
}

/* The largest, and the smallest, ||a_i||_1 over the rounds. */
static double most_work(const fli_simfbo_params *a, const fl_facts *f)
{
    fl_coefs c = extreme_coefs(a, f->client, 1);
    return fli_coef_sum(&c, f->steps);
}

static double least_work(const fli_simfbo_params *a, const fl_facts *f)
{
    fl_coefs c = extreme_coefs(a, f->client, 0);
    return fli_coef_sum(&c, f->least_steps);
}

/* Lemma 2 needs ||v|| to shrink with every local step: no factor 1 - lr a_k times an eigenvalue of g_yy may be
 * negative. c_a tau alpha_max of (39) is the least bound on all ||a_i||_1. */
void fli_simfbo_check(const void *params, const fl_facts *f, fl_conditions *out)
{
    const fli_simfbo_params *a = params;
    fl_coefs c = extreme_coefs(a, f->client, 1);
    double most = 0, l1 = fmax(f->all->upper_smoothness, f->all->smoothness), local = most_work(a, f) * l1 * l1;
    double mu = isnan(f->sure_convexity) ? f->all->convexity : f->sure_convexity, ratio = mu / l1; /* mu_g */
    for (size_t k = 0; k < f->steps && k < 1000; k++) most = fmax(most, fli_coef(&c, k));
    fl_condition(out, "Lemma 2", "lr_v a_k L_i <= 1", f, a->lr_v * most * f->smoothness, 1);
    fl_condition(out, "(39) lr_x", "lr_x^2 ||a_i||_1 L_1^2 <= 1/2", f, a->lr_x * a->lr_x * local, 0.5);
    fl_condition(out, "(39) lr_y", "lr_y^2 ||a_i||_1 L_1^2 <= min(1/4, (mu_g/L_1)^2/96)", f, a->lr_y * a->lr_y * local,
                 fmin(0.25, ratio * ratio / 96));
    fl_requirement(out, "sampling", "as many clients in every round, uniformly and without replacement, or everyone", f,
                   f->uniform_cohort);
    if (isnan(f->sure_convexity))
        fl_assumption(out, "Assumption 1", "g_i is strongly convex in y; for a convex loss bilevel.l2 makes it so");
    else
        fl_requirement(out, "Assumption 1", "g_i is strongly convex in y: bilevel.l2 > 0", f, f->sure_convexity > 0);
}

/* The largest, or the smallest, p_i ||a_i||_1. */
static double work_of(const fli_simfbo_params *a, const fl_facts *f, int most)
{
    return f->weight * (most ? most_work(a, f) : least_work(a, f));
}

/* The sum of the `count` largest values, or of the smallest. Halving finds a threshold that fewer than `count` values
 * exceed; the remaining ones equal it. */
static double extreme_sum(const fli_simfbo_params *a, const fl_facts_all *all, size_t count, int most)
{
    double low = 0, high = 0, sum = 0, sign = most ? 1 : -1;
    size_t beyond = 0;
    for (size_t i = 0; i < all->count; i++) high = fmax(high, work_of(a, &all->each[i], most));
    for (int halving = 0; halving < 60; halving++) {
        double middle = (low + high) / 2;
        size_t n = 0;
        for (size_t i = 0; i < all->count; i++) n += sign * (work_of(a, &all->each[i], most) - middle) > 0;
        *((n < count) == most ? &high : &low) = middle;
    }
    double edge = most ? high : low;
    for (size_t i = 0; i < all->count; i++) {
        double x = work_of(a, &all->each[i], most);
        if (sign * (x - edge) > 0) sum += x, beyond++;
    }
    return sum + (beyond < count ? (double)(count - beyond) * edge : 0);
}

/* rho = sum_S (N/P) p_i ||a_i||_1: its largest and smallest value over all cohorts of the size, and its mean. */
typedef struct {
    double most, least, mean;
} work_rates;

static work_rates rates_of(const fli_simfbo_params *a, const fl_facts_all *all)
{
    /* the measured clients stand for all: the same share of them */
    double share = all->probability;
    size_t count = (size_t)fmax(1, floor(share * (double)all->count + 0.5));
    work_rates r = {.most = extreme_sum(a, all, count, 1) / share, .least = extreme_sum(a, all, count, 0) / share};
    double weight = 0;
    for (size_t i = 0; i < all->count; i++) {
        r.mean += (work_of(a, &all->each[i], 1) + work_of(a, &all->each[i], 0)) / 2;
        weight += all->each[i].weight;
    }
    return (work_rates){r.most / weight, r.least / weight, r.mean / weight};
}

/* The known constants of (13), (38) and (39): with L_2 = L_3 = 0 and beta_gh = 1, which are lower bounds of the unknown
 * ones. A condition that fails with these fails with the true ones. */
typedef struct {
    double l1, mu, ly, lv, lphi, k1, share; /* k1: K_1 c_gamma_y; share: beta_max/P */
} known_constants;

static known_constants constants_of(const fl_facts_all *all)
{
    const fl_facts *first = &all->each[0];
    known_constants k = {.l1 = fmax(all->upper_smoothness, all->smoothness)};
    double heaviest = 0, l = k.l1;
    k.mu = isnan(first->sure_convexity) ? all->convexity : first->sure_convexity;
    for (size_t i = 0; i < all->clients; i++) heaviest = fmax(heaviest, all->weights[i]);
    k.share = heaviest / all->probability; /* beta_max = N times that, P = N p */
    k.ly = l / k.mu;
    k.lv = sqrt(2) * k.ly * sqrt(1 + k.ly * k.ly);
    k.lphi = l * (1 + k.ly) * (1 + k.ly);
    k.k1 = 2 * (40 * l * l / k.mu + 768 * pow(l, 4) / pow(k.mu, 3));
    return k;
}

/* (38), and the bounds of (39) on the server's steps. c_y gamma_x is server_lr_y there and c_v gamma_x server_lr_v. */
static void check_server_steps(const fli_simfbo_params *a, const known_constants *k, double rho, fl_conditions *out)
{
    double l2 = k->l1 * k->l1, cy = a->server_lr_y / a->server_lr_x, cv = a->server_lr_v / a->server_lr_x;
    double k2 = 6 * l2 / (k->mu * cv), drift = k->k1 / cy * k->ly * k->ly + k2 * k->lv * k->lv;
    double moving = fmax(36 * l2 * k->share * k->lv * k->lv / (k->mu * cv), 8 * drift); /* grows with server_lr_x */
    double y = fmin(k->mu / (36 * l2 * (2 * k->share + 3)), k->mu / (12 * ((2 * k->share + 6) * l2 + 2 * k->share)));
    fl_condition(out, "(38) gamma_y",
                 "c server_lr_x <= server_lr_y, c^2 = 512 L_1/mu_g^2 (40 L_1^2/mu_g + 768 L_1^4/mu_g^3): at least",
                 NULL, sqrt(256 * k->ly / k->mu * k->k1) * a->server_lr_x, a->server_lr_y);
    fl_condition(out, "(38) gamma_v", "c server_lr_x <= server_lr_v, c^2 = 1536 L_1^2 L_v/mu_g^2: at least", NULL,
                 sqrt(1536 * l2 * k->lv) / k->mu * a->server_lr_x, a->server_lr_v);
    fl_condition(out, "(39) gamma_x", "rho server_lr_x <= min(P/(6 L_Phi beta_max), 4/L_Phi), L_Phi at least", NULL,
                 rho * a->server_lr_x, fmin(1 / (6 * k->lphi * k->share), 4 / k->lphi));
    fl_condition(out, "(39) Psi",
                 "rho server_lr_x max(8 (K_1 L_y^2 + K_2 L_v^2), 36 L_1^2 beta_max L_v^2/(P mu_g c_gamma_v)) <= 1: at "
                 "least",
                 NULL, rho * a->server_lr_x * moving, 1);
    fl_condition(out, "(39) gamma_v", "rho server_lr_v <= min(4, mu_g/(12 L_1^2))", NULL, rho * a->server_lr_v,
                 fmin(4, k->mu / (12 * l2)));
    fl_condition(out, "(39) gamma_y",
                 "rho server_lr_y <= min(4, mu_g/(36 L_1^2 (2 beta_max/P + 3))), and the same with beta_gh = 1", NULL,
                 rho * a->server_lr_y, fmin(4, y));
}

static void check_radius(const fli_simfbo_params *a, const known_constants *k, const fl_facts_all *all,
                         fl_conditions *out)
{
    if (a->radius.n)
        fl_condition(out, "Lemma 1", "L_f/mu_g <= radius, with the largest ||grad_y f_i|| at the start for L_f", NULL,
                     all->upper_slope / k->mu, a->radius.v[0]);
    else
        fl_requirement(out, "Lemma 1", "v is kept within a radius: bilevel.l2 > 0, or algorithm.radius is given", NULL,
                       all->each[0].sure_convexity > 0);
    fl_assumption(out, "L_f", "no ||grad_y f_i|| is larger than those that were seen, from which the radius follows");
}

/* The least ||a_i||_1 in the rounds in which coefficients are largest. */
static double least_of_most(const fli_simfbo_params *a, const fl_facts *f)
{
    fl_coefs c = extreme_coefs(a, f->client, 1);
    return fli_coef_sum(&c, f->least_steps);
}

/* If work differs between clients, SimFBO's Theorem 1 holds for weights other than p_i. ShroFBO divides by ||a_i||_1,
 * so that it holds for p_i. */
static void check_work(const fli_simfbo_params *a, int divides, const work_rates *r, const fl_facts_all *all,
                       fl_conditions *out)
{
    double most = 0, least = INFINITY;
    for (size_t i = 0; i < all->count; i++) {
        most = fmax(most, most_work(a, &all->each[i]));
        least = fmin(least, least_of_most(a, &all->each[i]));
    }
    if (!divides)
        fl_requirement(out, "equal work",
                       "||a_i||_1 is the same at all clients: else Theorem 1 is about weights p_i ||a_i||_1; "
                       "method shrofbo is right about p_i",
                       NULL, most <= least * (1 + 1e-12));
    fl_condition(out, "rho",
                 "rho stays within 1/2 and 3/2 of its mean: the largest over all cohorts, or half the mean "
                 "over the smallest",
                 NULL, fmax(r->most / (1.5 * r->mean), r->mean / (2 * r->least)), 1);
}

void fli_simfbo_check_all(int divides, const void *params, const fl_facts_all *all, fl_conditions *out)
{
    const fli_simfbo_params *a = params;
    known_constants k = constants_of(all);
    work_rates r = rates_of(a, all);
    check_server_steps(a, &k, r.most, out);
    check_radius(a, &k, all, out);
    check_work(a, divides, &r, all, out);
    fl_assumption(out, "(39) the rest",
                  "the server's steps are small enough for L_2, L_3 and beta_gh, how fast second "
                  "derivatives change and how much clients differ, too: above are lower bounds");
    fl_assumption(out, "(38) the rate", "step sizes shrink with the number of rounds, for a rate");
}

void fli_simfbo_promise(const void *params, const fl_facts_all *all, const fl_start_values *start, fl_promise *out)
{
    (void)params;
    (void)all;
    (void)start;
    *out = (fl_promise){.theorem = "[FBO] Theorems 1 and 2",
                        .missing = "M_1 to M_3 need L_2, L_3 and beta_gh, which are not known"};
}

/* Whether work differs from round to round. */
static int work_is_drawn(const fl_facts_all *all)
{
    for (size_t i = 0; i < all->count; i++)
        if (all->each[i].least_steps != all->each[i].steps) return 1;
    return 0;
}

void fli_simfbo_fix(const void *params, const fl_facts *worst, fl_fixes *out)
{
    const fli_simfbo_params *a = params;
    fl_fix_shrink(out, "Lemma 2", "algorithm.lr_v", a->lr_v, NULL);
    fl_fix_shrink_root(out, "(39) lr_x", "algorithm.lr_x", a->lr_x, NULL);
    fl_fix_shrink_root(out, "(39) lr_y", "algorithm.lr_y", a->lr_y, NULL);
    fl_fix_shrink(out, "(39) gamma_v", "algorithm.server_lr_v", a->server_lr_v, NULL);
    fl_fix_shrink(out, "(39) gamma_y", "algorithm.server_lr_y", a->server_lr_y, NULL);
    /* server_lr_x has to shrink in proportion to the steps above */
    fl_fix_shrink(out, "(38)|(39) gamma_x", "algorithm.server_lr_x", a->server_lr_x, NULL);
    fl_fix_shrink_root(out, "(39) Psi", "algorithm.server_lr_x", a->server_lr_x, NULL);
    if (a->radius.n && worst->sure_convexity > 0) fl_fix_word(out, "Lemma 1", "algorithm.radius", "auto", NULL);
    fl_fix_word(out, "sampling", "participation.kind", "uniform", NULL);
    if (worst->least_steps != worst->steps)
        fl_fix_word(out, work_is_drawn(worst->all) ? "equal work|rho" : "equal work", "local.uneven", "fixed", NULL);
    if (a->coef_rounds.n > 1) fl_fix_word(out, "rho", "algorithm.coef_rounds", "1", NULL);
    if (worst->probability < 1) fl_fix_everyone(out, "rho");
}

int fli_simfbo_pose(const fl_turn *t, fl_problem *p)
{
    const fli_simfbo_params *a = t->bound;
    p->start = t->down[Z];
    p->lr = a->lr_x;
    p->levels = (fl_levels){.work = FL_WORK_TOGETHER,
                            .v = t->down[V],
                            .lr_y = a->lr_y,
                            .lr_v = a->lr_v,
                            .coefs = coefs_of(a, t->ask.client, (size_t)t->ask.round)};
    return 0;
}

void fli_simfbo_upload(const fl_turn *t, const fl_answer *a, double scale)
{
    fli_lin(&t->space, scale, a->z, 0, a->z, t->up[Q]);
    fli_lin(&t->space, scale, a->levels.v, 0, a->levels.v, t->up[Q_V]);
    t->up_scalars[FLI_FBO_L_F] = a->levels.norm;
}

int fli_simfbo_absorb(const fl_coordinator *s, const fl_upload *t)
{
    /* pt_i = (N/m) p_i */
    double share = (double)s->clients / (double)s->cohort * t->ask.weight;
    fli_axpy(&s->space, share, t->up[Q], s->sum[Q]);
    fli_axpy(&s->space, share, t->up[Q_V], s->sum[Q_V]);
    if (s->stage == FLI_FBO_AUTO_RADIUS)
        s->scalars[FLI_FBO_L_F] = fmax(s->scalars[FLI_FBO_L_F], t->up_scalars[FLI_FBO_L_F]);
    return 0;
}

/* r = L_f/mu_g */
static double radius(const fl_coordinator *s)
{
    const fli_simfbo_params *a = s->bound;
    double l2 = s->bilevel->common.l2;
    if (a->radius.n) return a->radius.v[0];
    return l2 > 0 ? s->scalars[FLI_FBO_L_F] / l2 : INFINITY;
}

void fli_simfbo_step(const fl_coordinator *s, double scale)
{
    const fli_simfbo_params *a = s->bound;
    size_t n = s->bilevel->upper;
    fl_space upper = fli_upper_space(&s->space, n), lower = fli_lower_space(&s->space, n);
    const fli_ops *ops = s->space.ops;
    void *v = fli_at(ops, s->vec[V], n);
    fli_axpy(&lower, -scale * a->server_lr_y, fli_at(ops, s->sum[Q], n), fli_at(ops, s->vec[Z], n));
    fli_axpy(&upper, -scale * a->server_lr_x, s->sum[Q], s->vec[Z]);
    /* v <- P_r(v - lr q_v), P_r(v) = min(1, r/||v||) v */
    fli_axpy(&lower, -scale * a->server_lr_v, fli_at(ops, s->sum[Q_V], n), v);
    double norm = sqrt(fli_dot(&lower, v, v)), r = radius(s);
    if (norm > r) fli_scale(&lower, r / norm, v);
}

size_t fli_simfbo_stage(const void *params, size_t phase, size_t phases)
{
    (void)phase;
    (void)phases;
    return ((const fli_simfbo_params *)params)->radius.n ? FLI_FBO_FIXED_RADIUS : FLI_FBO_AUTO_RADIUS;
}
