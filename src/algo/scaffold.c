/* SCAFFOLD: control variates estimate how a client's gradient differs from the federation's, and correct every local
 * step.
 *
 *   client   x_i = Q_i steps of SGD on f_i(z) + <c - c_i, z> from x                  shift = c - c_i
 *            c_i+ = c_i - c + (x - x_i)/(Q_i lr)   (option II)
 *            up: x_i - x and c_i+ - c_i: two vectors, twice FedAvg's upload
 *   server   x <- x + server_lr sum_S (w_i / sum_S w) (x_i - x);  c <- c + sum_S w_i (c_i+ - c_i)
 *
 * Karimireddy, Kale, Mohri, Reddi, Stich, Suresh: SCAFFOLD: stochastic controlled averaging for federated learning,
 * ICML 2020. With local momentum Q_i is the gradients' total weight in the displacement, so that c_i stays an average
 * of gradients. */
#include "algo/algo.h"

enum { X, C };       /* server and broadcast */
enum { C_I };        /* client */
enum { DX, DC };     /* up and sums */
enum { CORRECTION }; /* work */

typedef struct {
    double server_lr;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, server_lr, "1", FLI_ABOVE_0, FLI_NO_MAX, "step size of the server"),
    FLI_KEY_END,
};

static const char *const server[] = {"x", "c", NULL};
static const char *const client[] = {"c_i", NULL};
static const fl_part down[] = {{"x", FL_PART_VECTOR, X}, {"c", FL_PART_VECTOR, C}, {NULL}};
static const fl_part up[] = {
    {"x_i - x", FL_PART_VECTOR, DX, FL_PART_CHANGE}, {"c_i+ - c_i", FL_PART_VECTOR, DC, FL_PART_CHANGE}, {NULL}};
static const char *const sums[] = {"sum w_i (x_i - x)", "sum w_i (c_i+ - c_i)", NULL};

static int pose(const fl_turn *t, fl_problem *p)
{
    /* shift = c - c_i */
    fli_sub(&t->space, t->down[C], t->state[C_I], t->work[CORRECTION]);
    p->start = t->down[X];
    p->shift = t->work[CORRECTION];
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    double rate = 1 / (a->weight * t->ask.lr);
    /* up = x_i - x */
    fli_sub(&t->space, a->z, t->down[X], t->up[DX]);
    /* c_i+ - c_i = -c - (x_i - x)/(Q_i lr) */
    fli_lin(&t->space, -1, t->down[C], -rate, t->up[DX], t->up[DC]);
    /* c_i <- c_i+ */
    fli_axpy(&t->space, 1, t->up[DC], t->state[C_I]);
    return 0;
}

static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    fli_axpy(&s->space, t->ask.weight, t->up[DX], s->sum[DX]);
    fli_axpy(&s->space, t->ask.weight, t->up[DC], s->sum[DC]);
    return 0;
}

static int advance(const fl_coordinator *s)
{
    const params *a = s->bound;
    /* x += server_lr sum_S (w_i / sum_S w) (x_i - x) */
    fli_axpy(&s->space, a->server_lr / s->cohort_weight, s->sum[DX], s->vec[X]);
    /* c += sum_S w_i (c_i+ - c_i) */
    fli_axpy(&s->space, 1, s->sum[DC], s->vec[C]);
    return 0;
}

const fl_method fli_algo_scaffold = {
    .name = "scaffold",
    .title = "control variates against client drift; two vectors up",
    .citation = "Karimireddy et al., ICML 2020",
    .traits = FL_METHOD_PLAIN_SGD,
    .keys = keys,
    .params_size = sizeof(params),
    .server = server,
    .down = down,
    .client = client,
    .up = up,
    .sums = sums,
    .work = 1,
    .pose = pose,
    .answer = answer,
    .absorb = absorb,
    .advance = advance,
};
