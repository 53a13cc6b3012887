/* FedNova: normalised averaging. A client that takes more steps does not pull the average towards its own optimum.
 *
 *   client   x_i = Q_i steps of SGD on f_i from x                     up: (x_i - x)/Q_i and Q_i
 *   server   x <- x + Qeff sum_S (w_i / sum_S w) (x_i - x)/Q_i,  Qeff = sum_S w_i Q_i / sum_S w        [VRA] (22)
 *
 * Wang, Liu, Liang, Joshi, Poor: Tackling the objective inconsistency problem in heterogeneous federated optimization,
 * NeurIPS 2020. With local momentum Q_i is the sum of the weights that its gradients have in the displacement (their
 * ||a_i||_1). */
#include "algo/algo.h"

enum { X };
enum { RATE }; /* up, sum */
enum { Q };    /* scalar up, scalar sum */

static const char *const server[] = {"x", NULL};
static const fl_part down[] = {{"x", FL_PART_VECTOR, X}, {NULL}};
static const fl_part up[] = {
    {"(x_i - x)/Q_i", FL_PART_VECTOR, RATE, FL_PART_CHANGE}, {"Q_i", FL_PART_NUMBER, Q, FL_PART_VALUE}, {NULL}};
static const char *const sums[] = {"sum w_i (x_i - x)/Q_i", NULL};

static int pose(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[X];
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    /* up = (x_i - x)/Q_i */
    fli_lin(&t->space, 1 / a->weight, a->z, -1 / a->weight, t->down[X], t->up[RATE]);
    t->up_scalars[Q] = a->weight;
    return 0;
}

static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    /* R += w_i (x_i - x)/Q_i;  q += w_i Q_i */
    fli_axpy(&s->space, t->ask.weight, t->up[RATE], s->sum[RATE]);
    s->scalar_sum[Q] += t->ask.weight * t->up_scalars[Q];
    return 0;
}

static int advance(const fl_coordinator *s)
{
    double w = s->cohort_weight, qeff = s->scalar_sum[Q] / w;
    /* x += Qeff R / sum_S w */
    fli_axpy(&s->space, qeff / w, s->sum[RATE], s->vec[X]);
    return 0;
}

const fl_method fli_algo_fednova = {
    .name = "fednova",
    .title = "normalised averaging for clients that take different numbers of steps",
    .citation = "Wang et al., NeurIPS 2020",
    .traits = FL_METHOD_NORMALISES,
    .server = server,
    .down = down,
    .up = up,
    .sums = sums,
    .scalar_sums = 1,
    .pose = pose,
    .answer = answer,
    .absorb = absorb,
    .advance = advance,
};
