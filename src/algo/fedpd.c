/* FedPD: a primal-dual method in which all clients work in every round and exchange only now and then.
 *
 *   client   x_i = Q_i steps of SGD on f_i(z) + <lam_i, z> + 1/(2 eta) ||z - x0_i||^2 from the previous x_i
 *            rho = 1/eta, anchor = x0_i, shift = lam_i, start = x_i
 *            lam_i <- lam_i + (x_i - x0_i)/eta;  x0_i <- x_i + eta lam_i
 *   coin     with probability 1 - skip (the paper's p is `skip`) the clients upload x0_i, the server averages and
 *            broadcasts, x0_i <- x; otherwise they keep their own x0_i and nothing is sent
 *
 * On different data a larger `skip` communicates less, with a less exact fixed point.
 *
 * Zhang, Hong, Dhople, Yin, Liu: FedPD: a federated learning framework with adaptivity to non-IID data, IEEE TSP
 * 2021. */
#include "algo/algo.h"

enum { X };                /* server */
enum { LAM_I, X_I, X0_I }; /* client */
enum { UP_X0 };            /* up, sum */

typedef struct {
    double eta, skip;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, eta, "1", FLI_ABOVE_0, FLI_NO_MAX, "the local problem's proximal parameter: rho = 1/eta"),
    FLI_KEY_REAL(params, skip, "0", 0, 0.999, "probability that a round ends without communication (p in the paper)"),
    FLI_KEY_END,
};

static const char *const server[] = {"x", NULL};
static const char *const client[] = {"lam_i", "x_i", "x0_i", NULL};
static const fl_part down[] = {{"x", FL_PART_VECTOR, X}, {NULL}};
static const fl_part up[] = {{"x0_i", FL_PART_VECTOR, UP_X0, FL_PART_VALUE}, {NULL}};
static const char *const sums[] = {"sum w_i x0_i", NULL};

static int exchanges(const void *p, size_t round, double coin)
{
    return (void)round, coin >= ((const params *)p)->skip;
}

static int pose(const fl_turn *t, fl_problem *p)
{
    const params *a = t->bound;
    if (t->first) fli_copy(&t->space, t->down[X], t->state[X_I]);
    if (t->sent) fli_copy(&t->space, t->down[X], t->state[X0_I]);
    p->start = t->state[X_I];
    p->anchor = t->state[X0_I];
    p->rho = 1 / a->eta;
    p->shift = t->state[LAM_I];
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    const params *b = t->bound;
    fli_copy(&t->space, a->z, t->state[X_I]);
    /* lam_i += (x_i - x0_i)/eta */
    fli_axpy(&t->space, 1 / b->eta, t->state[X_I], t->state[LAM_I]);
    fli_axpy(&t->space, -1 / b->eta, t->state[X0_I], t->state[LAM_I]);
    /* x0_i = x_i + eta lam_i */
    fli_lin(&t->space, 1, t->state[X_I], b->eta, t->state[LAM_I], t->state[X0_I]);
    fli_copy(&t->space, t->state[X0_I], t->up[UP_X0]);
    return 0;
}

static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    fli_axpy(&s->space, t->ask.weight, t->up[UP_X0], s->sum[UP_X0]);
    return 0;
}

static int advance(const fl_coordinator *s)
{
    /* x = mean x0_i */
    fli_copy(&s->space, s->sum[UP_X0], s->vec[X]);
    return 0;
}

static const fl_tune_range tune[] = {FLI_TUNE_LR, {"algorithm.eta", 0.1, 1000, 1}, {NULL}};

const fl_method fli_algo_fedpd = {
    .name = "fedpd",
    .title = "primal-dual with everyone at work and random communication",
    .citation = "Zhang et al., IEEE TSP 2021",
    .traits = FL_METHOD_EVERYONE | FL_METHOD_UNIFORM,
    .remedy = "a smaller local.lr, or a larger algorithm.eta",
    .tune = tune,
    .keys = keys,
    .params_size = sizeof(params),
    .server = server,
    .down = down,
    .client = client,
    .own_model = "x_i",
    .up = up,
    .sums = sums,
    .rounds.exchanges = exchanges,
    .pose = pose,
    .answer = answer,
    .absorb = absorb,
    .advance = advance,
};
