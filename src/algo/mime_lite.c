/* Mime-lite: every local step uses the server's momentum, which is fixed during the round.
 *
 *   client   x_i = Q_i steps z <- z - lr ((1 - beta) g_i(z) + beta m) from x          up: x_i - x and grad f_i(x)
 *   server   x <- sum_S (w_i / sum_S w) x_i
 *            m <- (1 - beta) sum_S (w_i / sum_S w) grad f_i(x) + beta m,  with the model x from before the round
 *
 * As a local problem the steps are SGD of step size (1 - beta) lr with shift = beta/(1 - beta) m. grad f_i(x) is over
 * all of the client's samples: a pass more than FedAvg's work, and a second vector up. With beta = 0 the model is
 * FedAvg's.
 *
 * Karimireddy, Jaggi, Kale, Mohri, Reddi, Stich, Suresh: Breaking the centralized barrier for cross-device federated
 * learning, NeurIPS 2021: MimeLite with momentum SGD as the base method. */
#include "algo/algo.h"

enum { X, M };  /* server and broadcast */
enum { DX, G }; /* up and sums */
enum { SHIFT }; /* work */

typedef struct {
    double beta;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, beta, "0.9", 0, FLI_BELOW_1, "the momentum's share in every local step"),
    FLI_KEY_END,
};

static const char *const server[] = {"x", "m", NULL};
static const fl_part down[] = {{"x", FL_PART_VECTOR, X}, {"m", FL_PART_VECTOR, M}, {NULL}};
static const fl_part up[] = {
    {"x_i - x", FL_PART_VECTOR, DX, FL_PART_CHANGE}, {"grad f_i(x)", FL_PART_VECTOR, G, FL_PART_VALUE}, {NULL}};
static const char *const sums[] = {"sum w_i (x_i - x)", "sum w_i grad f_i(x)", NULL};

static int pose(const fl_turn *t, fl_problem *p)
{
    double beta = ((const params *)t->bound)->beta;
    p->start = t->down[X];
    p->lr *= 1 - beta;
    if (!(beta > 0)) return 0;
    fli_lin(&t->space, beta / (1 - beta), t->down[M], 0, t->down[M], t->work[SHIFT]);
    p->shift = t->work[SHIFT];
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    fli_sub(&t->space, a->z, t->down[X], t->up[DX]);
    fli_copy(&t->space, a->gradient, t->up[G]);
    return 0;
}

static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    fli_axpy(&s->space, t->ask.weight, t->up[DX], s->sum[DX]);
    fli_axpy(&s->space, t->ask.weight, t->up[G], s->sum[G]);
    return 0;
}

static int advance(const fl_coordinator *s)
{
    double beta = ((const params *)s->bound)->beta;
    fli_axpy(&s->space, 1 / s->cohort_weight, s->sum[DX], s->vec[X]);
    fli_lin(&s->space, (1 - beta) / s->cohort_weight, s->sum[G], beta, s->vec[M], s->vec[M]);
    return 0;
}

static void warn(const void *params_, const fl_facts *f, fli_text *out)
{
    (void)params_;
    if (f->momentum > 0)
        fli_text_add(out,
                     "local.momentum comes on top of the momentum that mime-lite puts into every step; set it to 0");
}

static const fl_tune_range tune[] = {FLI_TUNE_LR, {"algorithm.beta", 0.5, 0.99, 0}, {NULL}};

const fl_method fli_algo_mime_lite = {
    .name = "mime-lite",
    .title = "momentum of the server in every local step; two vectors up",
    .citation = "Karimireddy et al., NeurIPS 2021",
    .tune = tune,
    .keys = keys,
    .params_size = sizeof(params),
    .server = server,
    .down = down,
    .up = up,
    .sums = sums,
    .work = 1,
    .theory.warn = warn,
    .solver = "sgd_gradient",
    .pose = pose,
    .answer = answer,
    .absorb = absorb,
    .advance = advance,
};
