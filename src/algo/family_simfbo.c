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
    FLI_KEY_REAL(fli_simfbo_params, coef_decay, "1", FLI_ABOVE_0, 1, "multiplies a_k by coef_decay^k"),
    {"radius", FLI_REALS, offsetof(fli_simfbo_params, radius), "auto", FLI_ABOVE_0, FLI_NO_MAX, "auto",
     "the server keeps ||v|| within it; auto: L_f/mu_g, with the largest ||grad_y f_i|| seen so far for L_f and "
     "bilevel.l2 for mu_g; without l2 there is no radius"},
    FLI_KEY_END,
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
    (void)clients;
    if (!a->coef.n) return fli_fail(ctx, FL_ECONFIG, "algorithm.coef is empty");
    if (a->radius.n <= 1) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "algorithm.radius is one number or auto, not a list of %zu", a->radius.n);
}

/* Lemma 2 lets ||v|| shrink with every local step: no factor 1 - lr a_k times an eigenvalue of g_yy may be negative. */
void fli_simfbo_check(const void *params, const fli_facts *f, fli_conditions *out)
{
    const fli_simfbo_params *a = params;
    double most = 0;
    for (size_t k = 0; k < f->steps && k < 1000; k++) most = fmax(most, fli_coef(&a->coef, a->coef_decay, k));
    fli_condition(out, "Lemma 2", "lr_v a_k L_i <= 1", f, a->lr_v * most * f->smoothness, 1);
    fli_assumption(out, "Assumption 1",
                   "g_i is strongly convex in y, which bilevel.l2 makes sure of for convex losses");
    fli_assumption(out, "Theorem 1", "the step sizes are small enough for constants that nobody can measure here");
}

void fli_simfbo_fix(const void *params, const fli_facts *worst, fli_fixes *out)
{
    (void)worst;
    fli_fix_shrink(out, "Lemma 2", "algorithm.lr_v", ((const fli_simfbo_params *)params)->lr_v, NULL);
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
                             .coef = &a->coef,
                             .coef_decay = a->coef_decay};
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
