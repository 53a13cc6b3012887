/* VRL-SGD: variance-reduced local SGD. Everyone takes part; each client learns how far its gradient is from the
 * average.
 *
 *   client   x_i = Q_i steps of SGD on f_i(z) - <D_i, z> from x                      shift = -D_i;  up: x_i - x
 *   server   x+ = sum w_i x_i
 *   client   D_i <- D_i + (x+ - x_i)/(Q_i lr)
 *
 * Liang, Shen, Liu, Pan, Chen, Cheng: Variance reduced local SGD with lower communication complexity, 2019.
 *
 * Its fixed point is the optimum only if all clients take the same number of steps: with unequal Q_i use FedNova or
 * SCAFFOLD.
 *
 * The last line needs x+, which a client sees when its next turn begins. Between turns it keeps M_i + s x_i with M_i =
 * -D_i and s = 1/(Q_i lr), and the scalar s; with the new broadcast x+, M_i <- (M_i + s x_i) - s x+. On the first
 * turn both are 0. */
#include "algo/algo.h"
#include "algo/family_average.h"

enum { X };
enum { M_I }; /* client: the shift -D_i during a turn, M_i + s x_i between turns */
enum { S };   /* client scalar */

static const char *const client[] = {"-D_i", NULL};

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
    t->scalars[S] = 1 / (a->weight * t->ask.lr);
    fli_axpy(&t->space, t->scalars[S], a->z, t->state[M_I]);
    return fli_average_answer(t, a);
}

static int advance(const fl_coordinator *s)
{
    /* x+ = sum w_i x_i = x + sum w_i (x_i - x), since everyone is here */
    fli_axpy(&s->space, 1 / s->cohort_weight, s->sum[0], s->vec[X]);
    return 0;
}

const fl_method fli_algo_vrl_sgd = {
    .name = "vrl-sgd",
    .title = "variance-reduced local SGD with everyone taking part",
    .citation = "Liang et al., 2019",
    .traits = FL_METHOD_EVERYONE | FL_METHOD_PLAIN_SGD,
    .server = fli_average_server,
    .down = fli_average_down,
    .client = client,
    .client_scalars = 1,
    .up = fli_average_up,
    .sums = fli_average_sums,
    .pose = pose,
    .answer = answer,
    .absorb = fli_average_sum,
    .advance = advance,
};
