#include "algo/family_control_variates.h"

#include <math.h>

enum { X = FLI_CONTROL_X, C = FLI_CONTROL_C, C_I = FLI_CONTROL_C_I, DX = FLI_CONTROL_DX, QT = FLI_CONTROL_QT };
enum { CORRECTION }; /* work */
enum { SUM_D, SUM_G };
enum { SUM_W, SUM_STEPS };

const char *const fli_control_server[] = {"x", "c", NULL};
const fli_part fli_control_down[] = {{"x", FLI_WHOLE, X}, {"c", FLI_WHOLE, C}, {NULL}};
const char *const fli_control_sums[] = {"sum w_i (x_i - x)/Qt_i", "sum w_i (x_i - x)/(lr_i Qt_i)", NULL};

void fli_control_pose(const fli_turn *t, fli_problem *p)
{
    /* shift = c - c_i */
    fli_sub(t->space, t->down[C], t->state[C_I], t->work[CORRECTION]);
    p->start = t->down[X];
    p->shift = t->work[CORRECTION];
}

void fli_control_answer(const fli_turn *t, const fli_answer *a, void *dc)
{
    void *change = dc ? dc : t->work[CORRECTION]; /* the correction has done its work */
    /* up = x_i - x, Qt_i */
    fli_sub(t->space, a->z, t->down[X], t->up[DX]);
    t->up_scalars[QT] = a->weight;
    /* c_i+ - c_i = -c - (x_i - x)/(lr Qt_i) */
    fli_lin(t->space, -1, t->down[C], -1 / (t->ask->lr * a->weight), t->up[DX], change);
    fli_axpy(t->space, 1, change, t->state[C_I]);
}

void fli_control_absorb(const fli_server *s, const fli_upload *t)
{
    double qt = t->up_scalars[QT];
    fli_axpy(s->space, t->ask->weight / qt, t->up[DX], s->sum[SUM_D]);
    fli_axpy(s->space, t->ask->weight / (t->ask->lr * qt), t->up[DX], s->sum[SUM_G]);
    s->scalar_sum[SUM_W] += t->ask->weight;
    s->scalar_sum[SUM_STEPS] += (double)t->ask->steps;
}

void fli_control_advance(const fli_server *s, double server_lr)
{
    double m = (double)s->cohort, rate = server_lr > 0 ? server_lr : s->scalar_sum[SUM_STEPS] / m;
    /* x += server_lr (N/m) sum_S w_i (x_i - x)/Qt_i */
    fli_axpy(s->space, rate * (double)s->clients / m, s->sum[SUM_D], s->vec[X]);
    /* c -= sum_S w_i (c + (x_i - x)/(lr Qt_i)) */
    fli_lin(s->space, 1 - s->scalar_sum[SUM_W], s->vec[C], -1, s->sum[SUM_G], s->vec[C]);
}

/* Theorem 1 is about one step (10). L bounds the Hessian in model and labels together, so it is at least what either
 * has alone. */
static void check_labels(const fli_facts *f, fli_conditions *out)
{
    if (!f->second_block) return;
    if (!f->block.steps) {
        fli_assumption(out, "pseudo labels",
                       "the best ones (7a) do as well as the steps (10) that the theorem is about; Remark 4 says so");
        return;
    }
    fli_condition(out, "eta_v", "semi.label_lr <= 1/(4 L), with L of the labels at their start where that is larger", f,
                  f->block.lr, 1 / (4 * fmax(f->smoothness, f->block.smoothness)));
    fli_requirement(out, "(10)", "pseudo labels take one step per turn: semi.label_steps is 1", f, f->block.steps == 1);
}

void fli_control_check(double server_lr, const fli_facts *f, fli_conditions *out)
{
    double qt = fli_sgd_weight(f->momentum, f->steps), l = f->smoothness, p = f->probability; /* m/N */
    double rate = server_lr > 0 ? server_lr : (double)f->steps;
    fli_condition(out, "(34) first", "lr <= m/(48 server_lr N L)", f, f->lr, p / (48 * rate * l));
    fli_condition(out, "(34) second", "lr <= 1/(8 L Qt)", f, f->lr, 1 / (8 * l * qt));
    fli_condition(out, "(34) third", "lr <= 3 server_lr N/(100 m L Qt^2)", f, f->lr,
                  3 * rate / (100 * p * l * qt * qt));
    fli_condition(out, "(34) fourth", "lr <= m/(32 server_lr N L) (1 + 2N/m)^(-1/2)", f, f->lr,
                  p / (32 * rate * l) / sqrt(1 + 2 / p));
    fli_requirement(out, "sampling", "m of N clients uniformly, without replacement, or everyone", f,
                    f->uniform_cohort);
    check_labels(f, out);
}

/* All of (34) are bounds on lr. */
void fli_control_fix(const void *params, const fli_facts *worst, fli_fixes *out)
{
    (void)params;
    fli_fix_shrink(out, "(34)|(36)", "local.lr", worst->base_lr, NULL);
    fli_fix_shrink(out, "eta_v", "semi.label_lr", worst->block.lr, NULL);
    fli_fix_word(out, "(10)", "semi.label_steps", "1", NULL);
    fli_fix_word(out, "sampling", "participation.kind", "uniform", NULL);
}
