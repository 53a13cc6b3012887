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
const fli_part fli_vra_down[] = {{"x", FLI_WHOLE, X}, {NULL}};
const fli_part fli_vra_up[] = {
    {"gamma_i (x_i - x)", FLI_WHOLE, U, FLI_CHANGE}, {"a_i", FLI_NUMBER, A_I, FLI_VALUE}, {NULL}};
const char *const fli_vra_sums[] = {"sum w_i d_i gamma_i (x_i - x)", "sum w_i a_i gamma_i (x_i - x)", NULL};

void fli_vra_start(const fli_server *s, const fli_reals *gamma)
{
    double sum = 0;
    if (gamma && gamma->n == 1)
        sum = gamma->v[0]; /* the weights add up to 1 */
    else
        for (size_t i = 0; gamma && i < s->clients; i++) sum += s->weight(s->weight_arg, i) * gamma->v[i];
    s->scalars[BETA] = sum > 0 ? 1 / sum : 0;
}

double fli_vra_beta(const fli_server *s) { return s->scalars[BETA]; }

void fli_vra_pose(const fli_turn *t, const fli_vra *c, fli_problem *p)
{
    p->start = p->anchor = t->down[X];
    p->rho = c->gamma;
    p->shift = t->state[MINUS_LAM_I];
}

void fli_vra_answer(const fli_turn *t, const fli_vra *c, const fli_answer *a)
{
    double g = c->gamma > 0 ? c->gamma : 1; /* in the limit gamma = 0 the change itself is sent */
    /* up = gamma_i (x_i - x) */
    fli_lin(t->space, g, a->z, -g, t->down[X], t->up[U]);
    t->up_scalars[A_I] = c->a;
    /* -lam_i <- -lam_i + a_i gamma_i (x_i - x) */
    if (c->gamma > 0) fli_axpy(t->space, c->a, t->up[U], t->state[MINUS_LAM_I]);
}

void fli_vra_absorb(const fli_server *s, const fli_vra *c, const fli_upload *t)
{
    fli_axpy(s->space, t->ask->weight * c->d, t->up[U], s->sum[SUM_D]);
    fli_axpy(s->space, t->ask->weight * t->up_scalars[A_I], t->up[U], s->sum[SUM_A]);
}

void fli_vra_advance(const fli_server *s)
{
    double beta = s->scalars[BETA];
    if (beta == 0) { /* beta gamma_i = 1 and lam = 0 */
        fli_axpy(s->space, 1, s->sum[SUM_D], s->vec[X]);
        return;
    }
    /* lam += sum_S w_i a_i gamma_i (x - x_i) */
    fli_axpy(s->space, -1, s->sum[SUM_A], s->vec[LAM]);
    /* x += beta sum_S w_i d_i gamma_i (x_i - x) - beta lam */
    fli_axpy(s->space, beta, s->sum[SUM_D], s->vec[X]);
    fli_axpy(s->space, -beta, s->vec[LAM], s->vec[X]);
}

const void *fli_vra_point(const fli_turn *t) { return t->down[X]; }

void fli_vra_contribute(const fli_turn *t, const fli_vra *c, double f, void *gradient, double *out)
{
    const fli_ask *ask = t->ask;
    double moves = c->a * c->gamma * ask->lr * fli_vra_steps(c->gamma, ask->lr, (size_t)ask->steps);
    if (t->state) fli_axpy(t->space, 1, t->state[MINUS_LAM_I], gradient);
    out[0] = f;
    out[1] = 4 * fli_dot(t->space, gradient, gradient) / (ask->probability * moves);
}

double fli_vra_potential(const fli_server *s, const double *sum, double g)
{
    return sum[0] + s->scalars[BETA] * sum[1] + g;
}

void fli_vra_falls(const fli_vra *c, const fli_facts *f, fli_conditions *out)
{
    fli_vra_check(c, f, out);
    fli_requirement(out, "p_i", "everyone takes part in every round", f, f->probability == 1);
    fli_requirement(out, "sigma", "plain steps over all samples, the same in every round", f,
                    f->full_batch && f->constant_lr && f->momentum == 0 && f->least_steps == f->steps);
}

double fli_vra_steps(double gamma, double lr, size_t steps)
{
    double r = 1 - gamma * lr;
    return r == 1 ? (double)steps : (1 - pow(r, (double)steps)) / (1 - r);
}

/* Of either theorem. */
static void require_plain_steps(const fli_facts *f, fli_conditions *out)
{
    fli_requirement(out, "plain SGD", "local steps have no momentum, so that Lemma 1 describes them", f,
                    f->momentum == 0);
    fli_requirement(out, "step sizes", "lr is the same in all rounds: the bound on gamma_i fails as it falls", f,
                    f->constant_lr);
}

void fli_vra_check(const fli_vra *c, const fli_facts *f, fli_conditions *out)
{
    double qt = fli_vra_steps(c->gamma, f->lr, f->steps), l = f->smoothness;
    fli_condition(out, "Lemma 1", "gamma_i lr <= 1", f, c->gamma * f->lr, 1);
    fli_condition(out, "(17)", "L_i/2 + 13 L_i/(2 p_i a_i gamma_i lr Qt_i) <= gamma_i", f,
                  l / 2 + 13 * l / (2 * f->probability * c->a * c->gamma * f->lr * qt), c->gamma);
    fli_condition(out, "(18) first", "lr <= 1/(sqrt(6) Qt_i L_i)", f, f->lr, 1 / (sqrt(6) * qt * l));
    fli_condition(out, "(18) third", "lr <= 1/((a_i + d_i) gamma_i Qt_i)", f, f->lr,
                  1 / ((c->a + c->d) * c->gamma * qt));
    require_plain_steps(f, out);
}

/* The left side of (29), for Q_y steps in y; follow = a_i gamma_i lr Qt_i. */
static double curvature_met(double l, double beta, size_t steps, double follow)
{
    return l + 4 * beta * (double)steps * l * l * (1 + 400 / (follow * follow));
}

/* L_i is of f_i in x and y together. Known of it are the curvatures in x and, where y starts, in y. */
static double curvature(const fli_facts *f)
{
    return f->second_block ? fmax(f->smoothness, f->block.smoothness) : f->smoothness;
}

/* What the theorem asks of steps in y. */
static void check_second_block(double beta, double follow, const fli_facts *f, fli_conditions *out)
{
    if (!f->second_block) return;
    if (f->block.steps)
        fli_condition(out, "(29)", "L_i + 4 beta Q_y L_i^2 (1 + 400/(a_i gamma_i lr Qt_i)^2) <= 1/lr_y", f,
                      curvature_met(curvature(f), beta, f->block.steps, follow), 1 / f->block.lr);
    else
        fli_assumption(out, "(29)", "y_i in closed form, where the theorem takes gradient steps, does no harm");
    fli_assumption(out, "L_i", "the curvature of f_i between x and y, and away from the start, is no larger");
}

void fli_vra_check_blocks(const fli_vra *c, double beta, const fli_facts *f, fli_conditions *out)
{
    double qt = fli_vra_steps(c->gamma, f->lr, f->steps), l = curvature(f);
    double follow = c->a * c->gamma * f->lr * qt, p = f->probability;
    fli_requirement(out, "p_i", "0 < p_i < 1", f, p > 0 && p < 1);
    fli_condition(out, "(27)", "L_i/2 + 9 L_i/(p_i a_i gamma_i lr Qt_i sqrt(1 - p_i)) <= gamma_i", f,
                  l / 2 + 9 * l / (p * follow * sqrt(1 - p)), c->gamma);
    fli_condition(out, "(28) first", "lr <= 1/(sqrt(6) Qt_i L_i)", f, f->lr, 1 / (sqrt(6) * qt * l));
    fli_condition(out, "(28) second", "gamma_i lr <= 1", f, c->gamma * f->lr, 1);
    fli_condition(out, "(28) third", "lr <= 1/((a_i + d_i) gamma_i Qt_i)", f, f->lr,
                  1 / ((c->a + c->d) * c->gamma * qt));
    require_plain_steps(f, out);
    check_second_block(beta, follow, f, out);
}

void fli_vra_warn(double gamma, const fli_facts *f, fli_text *out)
{
    if (gamma * f->lr > 1)
        fli_text_addf(
            out,
            "client %u: gamma_i lr_i = %g x %g = %g, but Lemma 1 asks for at most 1: the local steps overshoot; make "
            "algorithm.gamma or local.lr smaller",
            f->client, gamma, f->lr, gamma * f->lr);
}

/* With gamma lr = 1/(2 (a + d) Q) for the largest Q: gamma lr Qt = 1 - (1 - gamma lr)^Q does not depend on gamma any
 * more, (18) asks for gamma >= sqrt(6) L/(2 (a + d)), and (17), hardest for the smallest Q, is explicit in gamma. 5% on
 * top, since L is measured and the numbers are rounded. */
void fli_vra_fix(int blocks, double a, double d, const fli_facts *w, fli_fixes *out)
{
    double q = (double)w->steps, l = curvature(w), product = 1 / (2 * (a + d) * q), p = w->probability;
    double s = 1 - pow(1 - product, (double)w->least_steps);
    double share = blocks ? 9 / sqrt(1 - fmin(p, 0.99)) : 6.5; /* p = 1 is mended by itself */
    double gamma = 1.05 * fmax(sqrt(6) * l / (2 * (a + d)), l / 2 + share * l / (p * a * s));
    fli_fix_least(out, FLI_VRA_CONDITIONS, "algorithm.gamma", gamma, NULL);
    fli_fix_most(out, FLI_VRA_CONDITIONS, "local.lr", product / gamma, NULL);
    fli_fix_plain_steps(out, "plain SGD");
    fli_fix_constant_lr(out, "step sizes");
    if (!blocks) return;
    fli_fix_word(out, "p_i", "participation.kind", "uniform", NULL);
    fli_fix_most(out, "p_i", "participation.count", (double)w->clients - 1, NULL);
    fli_fix_shrink(out, "(29)", w->model_traits & FLI_MODEL_UNSUPERVISED ? "model.membership_lr" : "semi.label_lr",
                   w->block.lr, NULL);
}
