#include "algo/family_control_variates.h"

#include <math.h>

enum { X = FLI_CONTROL_X, C = FLI_CONTROL_C, C_I = FLI_CONTROL_C_I, DX = FLI_CONTROL_DX, QT = FLI_CONTROL_QT };
enum { CORRECTION }; /* work */
enum { SUM_D, SUM_G };
enum { SUM_W, SUM_STEPS };

const char *const fli_control_server[] = {"x", "c", NULL};
const fl_part fli_control_down[] = {{"x", FL_PART_VECTOR, X}, {"c", FL_PART_VECTOR, C}, {NULL}};
const char *const fli_control_sums[] = {"sum w_i (x_i - x)/Qt_i", "sum w_i (x_i - x)/(lr_i Qt_i)", NULL};

int fli_control_pose(const fl_turn *t, fl_problem *p)
{
    /* shift = c - c_i */
    fli_sub(&t->space, t->down[C], t->state[C_I], t->work[CORRECTION]);
    p->start = t->down[X];
    p->shift = t->work[CORRECTION];
    return 0;
}

void fli_control_answer(const fl_turn *t, const fl_answer *a, void *dc)
{
    void *change = dc ? dc : t->work[CORRECTION]; /* `correction` is no longer needed after the solve */
    /* up = x_i - x, Qt_i */
    fli_sub(&t->space, a->z, t->down[X], t->up[DX]);
    t->up_scalars[QT] = a->weight;
    /* c_i+ - c_i = -c - (x_i - x)/(lr Qt_i) */
    fli_lin(&t->space, -1, t->down[C], -1 / (t->ask.lr * a->weight), t->up[DX], change);
    fli_axpy(&t->space, 1, change, t->state[C_I]);
}

int fli_control_absorb(const fl_coordinator *s, const fl_upload *t)
{
    double qt = t->up_scalars[QT];
    fli_axpy(&s->space, t->ask.weight / qt, t->up[DX], s->sum[SUM_D]);
    fli_axpy(&s->space, t->ask.weight / (t->ask.lr * qt), t->up[DX], s->sum[SUM_G]);
    s->scalar_sum[SUM_W] += t->ask.weight;
    s->scalar_sum[SUM_STEPS] += (double)t->ask.steps;
    return 0;
}

void fli_control_advance(const fl_coordinator *s, double server_lr)
{
    double m = (double)s->cohort, rate = server_lr > 0 ? server_lr : s->scalar_sum[SUM_STEPS] / m;
    /* x += server_lr (N/m) sum_S w_i (x_i - x)/Qt_i */
    fli_axpy(&s->space, rate * (double)s->clients / m, s->sum[SUM_D], s->vec[X]);
    /* c -= sum_S w_i (c + (x_i - x)/(lr Qt_i)) */
    fli_lin(&s->space, 1 - s->scalar_sum[SUM_W], s->vec[C], -1, s->sum[SUM_G], s->vec[C]);
}

/* Theorem 1 is about one step (10). L bounds the Hessian in model and labels together, so it is at least that of
 * either. Assumption 2 needs f_i strongly convex in the labels, which alpha_r ensures. A sample without a label belongs
 * to another objective than (4). */
static void check_labels(double l, const fl_facts *f, fl_conditions *out)
{
    if (!f->second_block) return;
    fl_requirement(out, "Assumption 2", "semi.alpha_r > 0, so that f_i is strongly convex in the pseudo labels", f,
                   f->label_entropy > 0);
    fl_requirement(out, "(4)", "every unlabelled sample has a pseudo label: semi.confidence is 0", f,
                   f->confidence == 0);
    fl_assumption(out, "L in nu",
                  "f_i is curved in the pseudo labels, and between them and the model, by no more than L; "
                  "its entropy term is, where a label comes close to 0");
    if (!f->block.steps) {
        fl_assumption(out, "pseudo labels",
                      "the best ones (7a) do as well as the steps (10) that the theorem is about; Remark 4 says so");
        return;
    }
    fl_condition(out, "eta_v", "semi.label_lr <= 1/(4 L), with L of the labels at their start where that is larger", f,
                 f->block.lr, 1 / (4 * l));
    fl_requirement(out, "(10)",
                   "pseudo labels take one step per turn, over all samples: semi.label_steps is 1, label_batch 0", f,
                   f->block.steps == 1 && !f->block.drawn);
}

/* L of f_i in model and labels. */
static double curvature(const fl_facts *f)
{
    return f->second_block ? fmax(f->smoothness, f->block.smoothness) : f->smoothness;
}

void fli_control_check(const fl_facts *f, fl_conditions *out)
{
    fl_requirement(out, "sampling", "m of N clients uniformly, without replacement, or everyone", f, f->uniform_cohort);
    fl_requirement(out, "step sizes", "lr is the same in all rounds and at all clients", f,
                   f->constant_lr && f->all->lr == f->all->least_lr);
    check_labels(curvature(f), f, out);
}

/* The largest L, the largest and the smallest Qt over clients and rounds, and the range of server_lr: if it is not
 * given, it is the cohort's mean number of steps, which with full participation is the mean over all clients. */
fli_control_terms fli_control_terms_of(double server_lr, const fl_facts_all *all)
{
    fli_control_terms t = {.most_rate = server_lr, .least_rate = server_lr, .share = all->probability};
    double most = 0, least = 0, momentum = all->each[0].momentum;
    for (size_t i = 0; i < all->count; i++) {
        t.l = fmax(t.l, curvature(&all->each[i]));
        most += (double)all->each[i].steps / (double)all->count;
        least += (double)all->each[i].least_steps / (double)all->count;
    }
    t.qt = fli_sgd_weight(momentum, all->steps);
    t.least_qt = fli_sgd_weight(momentum, all->least_steps);
    if (server_lr > 0) return t;
    t.most_rate = t.share == 1 ? most : (double)all->steps;
    t.least_rate = t.share == 1 ? least : (double)all->least_steps;
    return t;
}

void fli_control_check_all(double server_lr, const fl_facts_all *all, fl_conditions *out)
{
    fli_control_terms t = fli_control_terms_of(server_lr, all);
    double p = t.share; /* m/N */
    fl_condition(out, "(34) first", "lr <= m/(48 server_lr N L), L the largest", NULL, all->lr,
                 p / (48 * t.most_rate * t.l));
    fl_condition(out, "(34) second", "lr <= 1/(8 L Qt), both the largest", NULL, all->lr, 1 / (8 * t.l * t.qt));
    fl_condition(out, "(34) third", "lr <= 3 server_lr N/(100 m L Qt^2), L and Qt the largest", NULL, all->lr,
                 3 * t.least_rate / (100 * p * t.l * t.qt * t.qt));
    fl_condition(out, "(34) fourth", "lr <= m/(32 server_lr N L) (1 + 2N/m)^(-1/2), L the largest", NULL, all->lr,
                 p / (32 * t.most_rate * t.l) / sqrt(1 + 2 / p));
    fl_requirement(out, "server_lr", "the server's step is the same in all rounds", NULL, t.most_rate == t.least_rate);
}

/* (35) with sigma = 0: the mean of the gap (33), which is at least ||grad f||^2, over R rounds is at most 4 P^0/(lr
 * server_lr R), where P^0 of (48) is f + 24 (lr server_lr N/m)^2 L sum w_i ||grad f_i||^2, with c_i = 0. */
void fli_control_promise(double server_lr, const fl_facts_all *all, const fl_start_values *start, fl_promise *out)
{
    fli_control_terms t = fli_control_terms_of(server_lr, all);
    double step = all->lr * t.least_rate, spread = 0;
    *out = (fl_promise){.theorem = "[CPSL] (35)",
                        .bounds = "the mean of ||grad f(x, nu)||^2 over the rounds",
                        .metric = "gradient2",
                        .expected = all->probability < 1,
                        .full = 1};
    if (!start) return;
    for (size_t i = 0; i < all->count; i++) spread += all->each[i].weight * start->client_slope2[i];
    out->times_eps = 4 * (start->value + 24 * step * step * t.l / (t.share * t.share) * spread) / step;
}

/* All of (34) are bounds on lr. */
void fli_control_fix(const void *params, const fl_facts *worst, fl_fixes *out)
{
    (void)params;
    fl_fix_shrink(out, "(34)|(36)", "local.lr", worst->base_lr, NULL);
    fl_fix_shrink(out, "eta_v", "semi.label_lr", worst->block.lr, NULL);
    fl_fix_word(out, "(10)", "semi.label_steps", "1", NULL);
    fl_fix_word(out, "(10)", "semi.label_batch", "0", NULL);
    fl_fix_word(out, "sampling", "participation.kind", "uniform", NULL);
    fl_fix_word(out, "(4)", "semi.confidence", "0", NULL);
    if (!(worst->label_entropy > 0)) fl_fix_word(out, "Assumption 2", "semi.alpha_r", "0.01", NULL);
    fl_fix_constant_lr(out, "step sizes");
    if (worst->all->lr != worst->all->least_lr) fl_fix_word(out, "step sizes", "local.lr_factors", "1", NULL);
    fl_fix_most(out, "server_lr", "algorithm.server_lr", (double)(worst->all->steps + worst->all->least_steps) / 2,
                NULL);
}
