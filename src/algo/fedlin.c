/* FedLin: local steps along the federation's gradient, corrected by how the client's own one changes. A round has two
 * exchanges:
 *
 *   gradient  up: grad f_i(x);  server: g = sum_S (w_i / sum_S w) grad f_i(x)
 *   steps     x_i = Q_i steps of SGD on f_i(z) + <g - grad f_i(x), z> from x      shift = g - grad f_i(x);  up: x_i - x
 *             server: x <- sum_S (w_i / sum_S w) x_i
 *
 * grad f_i(x) is over all of the client's samples, and the client keeps it from the first exchange to the second. At
 * the optimum of the federation g = 0, so that no client moves, for any Q_i and lr. The paper's sparsified gradients
 * are left out.
 *
 *   theory    everyone takes part, full gradients, f_i strongly convex: lr Q_i = 1/(6 L) at every client gives a
 *             linear rate. At one client L_i stands for L.
 *
 * Mitra, Jaafar, Pappas, Hassani: Linear convergence in federated learning: tackling client heterogeneity and sparse
 * gradients, NeurIPS 2021. */
#include "algo/algo.h"

enum { X, G };            /* server */
enum { G_I };             /* client: grad f_i(x) */
enum { U };               /* up, sum */
enum { SHIFT };           /* work */
enum { GRADIENT, STEPS }; /* stages */

static const char *const server[] = {"x", "g", NULL};
static const char *const client[] = {"grad f_i(x)", NULL};
static const fl_part down[] = {{"x", FL_PART_VECTOR, X, FL_PART_KEEP, FL_IN_PHASE(GRADIENT)},
                               {"g", FL_PART_VECTOR, G, FL_PART_FORGET, FL_IN_PHASE(STEPS)},
                               {NULL}};
static const fl_part up[] = {{"grad f_i(x)", FL_PART_VECTOR, U, FL_PART_VALUE, FL_IN_PHASE(GRADIENT)},
                             {"x_i - x", FL_PART_VECTOR, U, FL_PART_CHANGE, FL_IN_PHASE(STEPS)},
                             {NULL}};
static const char *const sums[] = {"sum w_i grad f_i(x), or w_i (x_i - x)", NULL};

static int pose(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[X];
    if (t->stage == GRADIENT) return 0;
    fli_sub(&t->space, t->down[G], t->state[G_I], t->work[SHIFT]);
    p->shift = t->work[SHIFT];
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    if (t->stage == STEPS) {
        fli_sub(&t->space, a->z, t->down[X], t->up[U]);
        return 0;
    }
    fli_copy(&t->space, a->gradient, t->state[G_I]);
    fli_copy(&t->space, a->gradient, t->up[U]);
    return 0;
}

static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    fli_axpy(&s->space, t->ask.weight, t->up[U], s->sum[U]);
    return 0;
}

static int advance(const fl_coordinator *s)
{
    double share = 1 / s->cohort_weight;
    if (s->stage == GRADIENT)
        fli_lin(&s->space, share, s->sum[U], 0, s->sum[U], s->vec[G]);
    else
        fli_axpy(&s->space, share, s->sum[U], s->vec[X]);
    return 0;
}

static void check(const void *params, const fl_facts *f, fl_conditions *out)
{
    (void)params;
    fl_condition(out, "bound on lr", "6 L_i lr Q_i <= 1", f, 6 * f->smoothness * f->lr * (double)f->steps, 1);
    fl_requirement(out, "participation", "everyone takes part in every round", f, f->probability >= 1);
    fl_requirement(out, "convexity", "f_i convex", f, f->convex);
    fli_ask_strong_convexity(out, f);
    fl_requirement(out, "step sizes", "lr Q_i is the same at all clients, by local.lr_factors where Q_i differ", f,
                   f->all->reach <= f->all->least_reach * (1 + 1e-9));
    fl_requirement(out, "schedule", "lr is the same in all rounds", f, f->constant_lr);
    fl_requirement(out, "plain SGD", "local steps have no momentum", f, f->momentum == 0);
    fl_requirement(out, "gradients", "local steps are over all samples (local.batch 0): the errors of others remain", f,
                   f->full_batch);
}

static void fix(const void *params, const fl_facts *worst, fl_fixes *out)
{
    (void)params;
    fl_fix_most(out, "bound on lr", "local.lr", 1 / (6 * worst->smoothness * (double)worst->steps), "1/(6 L Q)");
    fl_fix_everyone(out, "participation");
    fl_fix_word(out, "step sizes", "local.uneven", "fixed", NULL);
    fl_fix_word(out, "step sizes", "local.lr_factors", "1", NULL);
    fl_fix_most(out, "step sizes", "local.steps", (double)worst->least_steps, "the fewest that anyone takes now");
    fl_fix_constant_lr(out, "schedule");
    fl_fix_plain_steps(out, "plain SGD");
    fl_fix_full_batch(out, "gradients");
}

const fl_method fli_algo_fedlin = {
    .name = "fedlin",
    .title = "local steps along the federation's gradient; two exchanges per round",
    .citation = "Mitra et al., NeurIPS 2021",
    .server = server,
    .down = down,
    .client = client,
    .up = up,
    .sums = sums,
    .work = 1,
    .theory.check = check,
    .theory.fix = fix,
    .phases = 2,
    .solver = "gradient|sgd",
    .pose = pose,
    .answer = answer,
    .absorb = absorb,
    .advance = advance,
};
