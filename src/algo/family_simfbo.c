#include "algo/family_simfbo.h"

#include <math.h>

enum { Z, V };   /* server, broadcast: (x, y), and v in the lower block */
enum { Q, Q_V }; /* up, sums: (q_x, q_y), and q_v in the lower block */

const fli_key fli_simfbo_keys[] = {
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
        "0: coef is every client's; above: coef has so many numbers for each client, one client after the other"),
    FLI_KEY_REALS(fli_simfbo_params, coef_rounds, "1", FLI_ABOVE_0, FLI_NO_MAX,
                  "multiplies all coefficients of a round, by rounds; the last one holds for all later rounds"),
    FLI_KEY_REAL(fli_simfbo_params, coef_decay, "1", FLI_ABOVE_0, 1, "multiplies a_k by coef_decay^k"),
    {"radius", FLI_REALS, offsetof(fli_simfbo_params, radius), "auto", FLI_ABOVE_0, FLI_NO_MAX, "auto",
     "the server keeps ||v|| within it; auto: L_f/mu_g, with the largest ||grad_y f_i|| seen so far for L_f and "
     "bilevel.l2 for mu_g; without l2 there is no radius"},
    FLI_KEY_END,
};

/* Those of the server: with a single local step the clients' own change nothing. */
const fli_tune_range fli_simfbo_tune[] = {
    {"algorithm.server_lr_y", 0.01, 1, 1},
    {"algorithm.server_lr_v", 0.01, 1, 1},
    {"algorithm.server_lr_x", 0.01, 1, 1},
    {NULL},
};

const char *const fli_simfbo_server[] = {"(x, y)", "v", NULL};
const fli_part fli_simfbo_down[] = {{"(x, y)", FLI_WHOLE, Z}, {"v", FLI_LOWER, V}, {NULL}};
const char *const fli_simfbo_sums[] = {"sum pt_i (q_x, q_y)", "sum pt_i q_v", NULL};

const fli_solver *fli_simfbo_solver(const void *params, size_t stage)
{
    (void)stage;
    (void)params;
    return &fli_solver_bilevel;
}

size_t fli_simfbo_counts_as(const void *params, size_t stage, size_t steps, const fli_epochs *e)
{
    (void)stage;
    (void)params;
    return fli_levels_cost(&(fli_levels){.work = FLI_WORK_TOGETHER}, steps, e);
}

fl_status fli_simfbo_validate(fl_ctx *ctx, const void *params, size_t clients)
{
    const fli_simfbo_params *a = params;
    size_t each = (size_t)a->coef_steps;
    if (!a->coef.n) return fli_fail(ctx, FL_ECONFIG, "algorithm.coef is empty");
    if (!a->coef_rounds.n) return fli_fail(ctx, FL_ECONFIG, "algorithm.coef_rounds is empty");
    if (each && a->coef.n != each * clients)
        return fli_fail(ctx, FL_ECONFIG,
                        "algorithm.coef has %zu numbers, but with algorithm.coef_steps = %zu and %zu clients it needs "
                        "%zu",
                        a->coef.n, each, clients, each * clients);
    if (a->radius.n <= 1) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "algorithm.radius is one number or auto, not a list of %zu", a->radius.n);
}

/* a_i^(t,k) of a client in a round, by k. */
static fli_coefs coefs_of(const fli_simfbo_params *a, size_t client, size_t round)
{
    size_t n = a->coef_steps ? (size_t)a->coef_steps : a->coef.n, last = a->coef_rounds.n - 1;
    return (fli_coefs){.v = a->coef.v + (a->coef_steps ? client * n : 0),
                       .n = n,
                       .decay = a->coef_decay,
                       .scale = a->coef_rounds.v[round < last ? round : last]};
}

double fli_simfbo_length(const void *params, size_t client, size_t steps)
{
    fli_coefs c = coefs_of(params, client, 0);
    return fli_coef_sum(&c, steps);
}

double fli_simfbo_potential(double value, double lower_distance, double system_distance)
{
    return value + lower_distance * lower_distance + system_distance * system_distance;
}

/* The client's coefficients in the round in which they are largest. */
static fli_coefs largest_coefs(const fli_simfbo_params *a, size_t client)
{
    size_t most = 0;
    for (size_t t = 1; t < a->coef_rounds.n; t++)
        if (a->coef_rounds.v[t] > a->coef_rounds.v[most]) most = t;
    return coefs_of(a, client, most);
}

/* What (39) asks of step sizes, as far as its constants are known. c_a tau alpha_max there is the least bound on all
 * ||a_i||_1, c_y gamma_x is server_lr_y and c_v gamma_x server_lr_v; rho is at most the largest ||a_i||_1. */
static void check_39(const fli_simfbo_params *a, const fli_facts *f, double length, fli_conditions *out)
{
    double l1 = fmax(f->all->upper_smoothness, f->all->smoothness), participants = f->probability * (double)f->clients;
    double share = f->weight * (double)f->clients / participants;                 /* beta_max/P */
    double mu = isnan(f->sure_convexity) ? f->all->convexity : f->sure_convexity; /* mu_g */
    double local = length * l1 * l1, ratio = mu / l1;
    fli_condition(out, "(39) lr_x", "lr_x^2 ||a_i||_1 L_1^2 <= 1/2", f, a->lr_x * a->lr_x * local, 0.5);
    fli_condition(out, "(39) lr_y", "lr_y^2 ||a_i||_1 L_1^2 <= min(1/4, (mu_g/L_1)^2/96)", f, a->lr_y * a->lr_y * local,
                  fmin(0.25, ratio * ratio / 96));
    fli_condition(out, "(39) gamma_v", "rho server_lr_v <= min(4, mu_g/(12 L_1^2))", f, length * a->server_lr_v,
                  fmin(4, mu / (12 * l1 * l1)));
    fli_condition(out, "(39) gamma_y", "rho server_lr_y <= min(4, mu_g/(36 L_1^2 (2 beta_max/P + 3)))", f,
                  length * a->server_lr_y, fmin(4, mu / (36 * l1 * l1 * (2 * share + 3))));
}

/* Lemma 2 lets ||v|| shrink with every local step: no factor 1 - lr a_k times an eigenvalue of g_yy may be negative. */
void fli_simfbo_check(const void *params, const fli_facts *f, fli_conditions *out)
{
    const fli_simfbo_params *a = params;
    fli_coefs c = largest_coefs(a, f->client);
    double most = 0;
    for (size_t k = 0; k < f->steps && k < 1000; k++) most = fmax(most, fli_coef(&c, k));
    fli_condition(out, "Lemma 2", "lr_v a_k L_i <= 1", f, a->lr_v * most * f->smoothness, 1);
    check_39(a, f, fli_coef_sum(&c, f->steps), out);
    fli_assumption(out, "Assumption 1",
                   "g_i is strongly convex in y, which bilevel.l2 makes sure of for convex losses");
    fli_assumption(out, "L_1",
                   "no second derivative of f_i, or of g_i, is larger than those measured at the start model");
    fli_assumption(
        out, "(39) the rest",
        "server_lr_x is small enough for L_2, L_3 and beta_gh, how fast second derivatives change and how much "
        "clients differ, which nobody can measure here");
    fli_assumption(out, "(38)", "step sizes shrink with the number of rounds as it says");
}

void fli_simfbo_fix(const void *params, const fli_facts *worst, fli_fixes *out)
{
    const fli_simfbo_params *a = params;
    (void)worst;
    fli_fix_shrink(out, "Lemma 2", "algorithm.lr_v", a->lr_v, NULL);
    fli_fix_shrink(out, "(39) lr_x", "algorithm.lr_x", a->lr_x, NULL);
    fli_fix_shrink(out, "(39) lr_y", "algorithm.lr_y", a->lr_y, NULL);
    fli_fix_shrink(out, "(39) gamma_v", "algorithm.server_lr_v", a->server_lr_v, NULL);
    fli_fix_shrink(out, "(39) gamma_y", "algorithm.server_lr_y", a->server_lr_y, NULL);
}

void fli_simfbo_pose(const fli_turn *t, fli_problem *p)
{
    const fli_simfbo_params *a = t->params;
    p->start = t->down[Z];
    p->lr = a->lr_x;
    p->levels = (fli_levels){.work = FLI_WORK_TOGETHER,
                             .v = t->down[V],
                             .lr_y = a->lr_y,
                             .lr_v = a->lr_v,
                             .coefs = coefs_of(a, t->ask->client, (size_t)t->ask->round)};
}

void fli_simfbo_upload(const fli_turn *t, const fli_answer *a, double scale)
{
    fli_lin(t->space, scale, a->z, 0, a->z, t->up[Q]);
    fli_lin(t->space, scale, a->levels.v, 0, a->levels.v, t->up[Q_V]);
    t->up_scalars[FLI_FBO_L_F] = a->levels.norm;
}

void fli_simfbo_absorb(const fli_server *s, const fli_upload *t)
{
    /* pt_i = (N/m) p_i */
    double share = (double)s->clients / (double)s->cohort * t->ask->weight;
    fli_axpy(s->space, share, t->up[Q], s->sum[Q]);
    fli_axpy(s->space, share, t->up[Q_V], s->sum[Q_V]);
    if (s->stage == FLI_FBO_AUTO_RADIUS)
        s->scalars[FLI_FBO_L_F] = fmax(s->scalars[FLI_FBO_L_F], t->up_scalars[FLI_FBO_L_F]);
}

/* r = L_f/mu_g */
static double radius(const fli_server *s)
{
    const fli_simfbo_params *a = s->params;
    double l2 = s->bilevel->common.l2;
    if (a->radius.n) return a->radius.v[0];
    return l2 > 0 ? s->scalars[FLI_FBO_L_F] / l2 : INFINITY;
}

void fli_simfbo_step(const fli_server *s, double scale)
{
    const fli_simfbo_params *a = s->params;
    size_t n = s->bilevel->upper;
    fli_space upper = fli_upper_space(s->space, n), lower = fli_lower_space(s->space, n);
    const fli_ops *ops = s->space->ops;
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
