/* Scaffnew (ProxSkip for federated learning): local steps corrected by control variates, and exchanges at random
 * times.
 *
 *   round    Q steps, the same for all clients: coin throws until the first "exchange", which has probability p
 *   client   x_i = Q steps of SGD on f_i(z) - <h_i, z> from x                         shift = -h_i;  up: x_i - x
 *   server   x+ = (1/N) sum x_i
 *   client   h_i <- h_i + (p/lr) (x+ - x_i)
 *
 * Everyone takes part, with equal weights and equal lr, so that sum h_i = 0 at all times. Q does not depend on `local`.
 *
 * The last line needs x+, which a client sees when its next turn begins. Between turns it keeps M_i + s x_i with
 * M_i = -h_i and s = p/lr, and the scalar s; with the new broadcast x+, M_i <- (M_i + s x_i) - s x+. On the first
 * turn both are 0. With local momentum lr is replaced by the total weight of a gradient in the model, lr/(1 - momentum)
 * except for the last steps.
 *
 *   theory   full gradients, f_i mu-strongly convex and L-smooth, lr <= 1/L: an expected linear rate of
 *            1 - min(lr mu, p^2) per step. p = sqrt(mu/L) costs no rate and saves the most exchanges.
 *
 * Mishchenko, Malinovsky, Stich, Richtarik: ProxSkip: yes! Local gradient steps provably lead to communication
 * acceleration! Finally!, ICML 2022, Algorithm 2. */
#include "algo/family_average.h"
#include "algo/algo.h"

#include <math.h>

enum { X };
enum { M_I }; /* client: the shift -h_i during a turn, M_i + s x_i between turns */
enum { S };   /* client scalar */

typedef struct {
    double p;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, p, "0.1", 1e-5, 1,
                 "probability that a local step ends the round: 1/p steps on average, the same number for "
                 "everyone, whatever `local` says of epochs and steps"),
    FLI_KEY_END,
};

static const char *const client[] = {"-h_i", NULL};

/* The number of throws up to the first success, from one uniform number: P(Q > k) = (1 - p)^k. */
static size_t steps(const void *params_, double coin)
{
    double p = ((const params *)params_)->p;
    return 1 + (size_t)(log1p(-coin) / log1p(-p));
}

static int pose(const fl_turn *t, fl_problem *p)
{
    /* M_i = (M_i + s x_i) - s x+ */
    fli_axpy(&t->space, -t->scalars[S], t->down[X], t->state[M_I]);
    p->start = t->down[X];
    p->shift = t->state[M_I];
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    double p = ((const params *)t->bound)->p;
    t->scalars[S] = p / (t->ask.lr * (a->weight / (double)t->ask.steps));
    fli_axpy(&t->space, t->scalars[S], a->z, t->state[M_I]);
    return fli_average_answer(t, a);
}

static int advance(const fl_coordinator *s)
{
    /* x+ = (1/N) sum x_i = x + (1/N) sum (x_i - x) */
    fli_axpy(&s->space, 1 / s->cohort_weight, s->sum[0], s->vec[X]);
    return 0;
}

static void check(const void *params_, const fl_facts *f, fl_conditions *out)
{
    (void)params_;
    fl_condition(out, "bound on lr", "L_i lr <= 1", f, f->smoothness * f->lr, 1);
    fl_requirement(out, "convexity", "f_i convex", f, f->convex);
    fli_ask_strong_convexity(out, f);
    fl_requirement(out, "step sizes", "lr is the same in all rounds", f, f->constant_lr);
    fl_requirement(out, "plain SGD", "local steps have no momentum", f, f->momentum == 0);
    fl_requirement(out, "gradients", "local steps are over all samples (local.batch 0): the errors of others remain", f,
                   f->full_batch);
}

static void fix(const void *params_, const fl_facts *worst, fl_fixes *out)
{
    (void)params_;
    fl_fix_most(out, "bound on lr", "local.lr", 1 / worst->smoothness, "1/L");
    fl_fix_constant_lr(out, "step sizes");
    fl_fix_plain_steps(out, "plain SGD");
    fl_fix_full_batch(out, "gradients");
}

const fl_method fli_algo_scaffnew = {
    .name = "scaffnew",
    .title = "control variates, and a random number of local steps between exchanges with everyone",
    .citation = "Mishchenko et al., ICML 2022",
    .traits = FL_METHOD_EVERYONE | FL_METHOD_UNIFORM | FL_METHOD_EQUAL_LR | FL_METHOD_PLAIN_SGD,
    .keys = keys,
    .params_size = sizeof(params),
    .server = fli_average_server,
    .down = fli_average_down,
    .client = client,
    .client_scalars = 1,
    .up = fli_average_up,
    .sums = fli_average_sums,
    .theory.check = check,
    .theory.fix = fix,
    .rounds.steps = steps,
    .pose = pose,
    .answer = answer,
    .absorb = fli_average_sum,
    .advance = advance,
};
