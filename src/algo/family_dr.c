#include "algo/family_dr.h"

#include <float.h>
#include <math.h>

enum { X, XT };    /* server: xbar, the global model, and xt, the mean of all xh_i */
enum { Y_I, X_I }; /* client; x_i is its own model; xh_i = 2 x_i - y_i is not stored */
enum { DXH };      /* up, sum */

const char *const fli_dr_server[] = {"xbar", "xt", NULL};
const char *const fli_dr_client[] = {"y_i", "x_i", NULL};
const fl_part fli_dr_down[] = {{"xbar", FL_PART_VECTOR, X, FL_PART_FORGET, FL_IN_ROUNDS}, FLI_START_PART, {NULL}};
const fl_part fli_dr_up[] = {{"the change of 2 x_i - y_i", FL_PART_VECTOR, DXH, FL_PART_CHANGE}, {NULL}};
const char *const fli_dr_sums[] = {"sum of the changes", NULL};

double fli_dr_eta(const fli_dr_params *p) { return p->eta.n ? p->eta.v[0] : 1; }

unsigned fli_dr_unsettled(const void *params)
{
    const fli_dr_params *p = params;
    return p->eta.n ? 0 : p->solver == FLI_DR_SGD ? FL_SETTLES_BY_WORK : FL_SETTLES_BY_SMOOTHNESS;
}

void fli_dr_settle(void *params, const fl_facts *f)
{
    fli_dr_params *p = params;
    p->settled =
        p->solver == FLI_DR_SGD ? f->first_round.travel / (1 - f->momentum) : (f->convex ? 10 : 1) / f->smoothness;
    /* if a weak convexity is given: the local problem is strongly convex by at least rho/2 */
    if (p->weak_convexity > 0) p->settled = fmin(p->settled, 1 / (2 * p->weak_convexity));
    if (!(p->settled > 0 && isfinite(p->settled))) p->settled = 1; /* samples of zeros: any eta is good */
    p->eta = (fl_reals){1, &p->settled};
}

/* The local problem's strong convexity: rho - L_-. The weight decay of the model, which is unknown here, would add to
 * it. */
static double modulus(const fli_dr_params *p) { return 1 / fli_dr_eta(p) - p->weak_convexity; }

int fli_dr_validate(const void *params, size_t clients, fl_failure *f)
{
    const fli_dr_params *p = params;
    (void)clients;
    if (p->eta.n > 1) return fli_refuse(f, "algorithm.eta is one number or auto, not a list of %zu", p->eta.n);
    if (p->solver != FLI_DR_ACCURATE && (p->accuracy > 0 || p->relative > 0))
        return fli_refuse(f,
                          "algorithm.accuracy and algorithm.relative are for algorithm.solver = accurate, which is not "
                          "what is set");
    if (p->solver != FLI_DR_ACCURATE) return 0;
    if (!(p->accuracy > 0 || p->relative > 0))
        return fli_refuse(f, "algorithm.solver is accurate, which needs algorithm.accuracy or algorithm.relative > 0");
    if (p->eta.n && !(modulus(p) > 0))
        return fli_refuse(f,
                          "algorithm.eta = %g is too large for algorithm.weak_convexity = %g: the local problem is "
                          "strongly convex only below %g",
                          fli_dr_eta(p), p->weak_convexity, 1 / p->weak_convexity);
    return 0;
}

const char *fli_dr_solver(const void *params, size_t stage)
{
    (void)stage;
    static const char *const solvers[] = {"sgd", "exact", "accurate"};
    return solvers[((const fli_dr_params *)params)->solver];
}

/* Steps of SGD on a problem with a curvature of up to L_i + 1/eta: longer steps overshoot, and errors grow where the
 * theorem needs them to be summable. */
static void require_short_steps(const fli_dr_params *p, const fl_facts *f, fl_conditions *out)
{
    fl_condition(out, "local steps", "lr (L_i + 1/eta) <= 1 - momentum: SGD on the local problem does not overshoot", f,
                 f->lr * (f->smoothness + 1 / fli_dr_eta(p)), 1 - f->momentum);
}

void fli_dr_fix_steps(const fl_facts *worst, fl_fixes *out)
{
    fl_fix_shrink(out, "local steps", "local.lr", worst->base_lr, NULL);
}

void fli_dr_fix_auto(const fli_dr_params *p, const fl_facts *worst, fl_fixes *out)
{
    if (p->settled > 0 && worst->base_lr >= (1 - worst->momentum) * fli_dr_eta(p))
        fl_fix_most(out, "local steps", "algorithm.eta", fli_dr_eta(p), NULL);
}

void fli_dr_assume(const fli_dr_params *p, const fl_facts *f, fl_conditions *out)
{
    if (p->solver == FLI_DR_SGD) require_short_steps(p, f, out);
    if (p->solver != FLI_DR_ACCURATE) return;
    fl_assumption(out, "most_steps", "every local problem is solved to its accuracy within algorithm.most_steps");
    if (!f->convex) fl_assumption(out, "L_-", "no f_i curves downwards by more than algorithm.weak_convexity");
}

void fli_dr_warn(const void *params, const fl_facts *f, fli_text *out)
{
    fli_warn_long_prox(f, fli_dr_eta(params), "algorithm.eta", out);
}

double fli_dr_mapping_eta(const void *params) { return fli_dr_eta(params); }

/* x_i, which is x0 before the first turn */
const void *fli_dr_point(const fl_turn *t) { return t->state ? t->state[X_I] : t->initial ? t->initial : t->down[X]; }

/* f_i(x_i) + <grad f_i(x_i), xbar - x_i> + ||xbar - x_i||^2/(2 eta) */
void fli_dr_contribute_at(const fl_turn *t, const void *x, double f, void *gradient, double *out)
{
    const void *bar = t->down[X];
    double slope = fli_dot(&t->space, gradient, bar) - fli_dot(&t->space, gradient, x);
    fli_sub(&t->space, bar, x, gradient);
    out[0] = f + slope + fli_dot(&t->space, gradient, gradient) / (2 * fli_dr_eta(t->bound));
    out[1] = 0;
}

double fli_dr_potential(const fl_coordinator *s, const double *sum, double g) { return (void)s, sum[0] + g; }

int fli_dr_warms_up(const void *params) { return ((const fli_dr_params *)params)->init; }

int fli_dr_start(const fl_coordinator *s)
{
    /* xt = x0: with y_i = x_i = x0 everywhere it is the mean of all xh_i */
    fli_copy(&s->space, s->vec[X], s->vec[XT]);
    return 0;
}

int fli_dr_pose(const fl_turn *t, fl_problem *p)
{
    const fli_dr_params *a = t->bound;
    if (t->first) {
        fli_copy(&t->space, t->initial, t->state[Y_I]);
        fli_copy(&t->space, t->initial, t->state[X_I]);
    }
    if (!t->ask.warm_up) {
        /* y_i += alpha (xbar - x_i) */
        fli_axpy(&t->space, a->alpha, t->down[X], t->state[Y_I]);
        fli_axpy(&t->space, -a->alpha, t->state[X_I], t->state[Y_I]);
    }
    p->start = t->state[X_I];
    p->anchor = t->state[Y_I];
    p->rho = 1 / fli_dr_eta(a);
    if (a->solver != FLI_DR_ACCURATE) return 0;
    p->stop.accuracy = a->accuracy / pow((double)t->ask.round + 1, a->accuracy_power);
    if (a->accuracy > 0) p->stop.accuracy = fmax(p->stop.accuracy, DBL_MIN); /* 0 would mean: not required */
    p->stop.relative = a->relative;
    p->stop.modulus = modulus(a);
    p->stop.most_steps = (size_t)a->most_steps;
    return 0;
}

int fli_dr_answer(const fl_turn *t, const fl_answer *a)
{
    double alpha = t->ask.warm_up ? 0 : ((const fli_dr_params *)t->bound)->alpha;
    /* xh_i+ - xh_i = 2 (x_i+ - x_i) - alpha (xbar - x_i) */
    fli_lin(&t->space, 2, a->z, alpha - 2, t->state[X_I], t->up[DXH]);
    if (alpha > 0) fli_axpy(&t->space, -alpha, t->down[X], t->up[DXH]);
    fli_copy(&t->space, a->z, t->state[X_I]);
    return 0;
}

int fli_dr_absorb(const fl_coordinator *s, const fl_upload *t)
{
    fli_axpy(&s->space, 1, t->up[DXH], s->sum[DXH]);
    return 0;
}

int fli_dr_advance(const fl_coordinator *s)
{
    /* xt += (1/n) sum_S (xh_i+ - xh_i) */
    fli_axpy(&s->space, 1 / (double)s->clients, s->sum[DXH], s->vec[XT]);
    if (s->warm_up) return 0; /* xbar^0 = x0 */
    /* xbar = prox_{eta g}(xt) */
    fli_copy(&s->space, s->vec[XT], s->vec[X]);
    fl_prox(s, fli_dr_eta(s->bound), s->vec[X]);
    return 0;
}
