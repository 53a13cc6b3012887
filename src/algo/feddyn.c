/* FedDyn: dynamic regularisation. It changes each client's objective to move its stationary points to the
 * federation's.
 *
 *   client   x_i = Q_i steps of SGD on f_i(z) - <h_i, z> + alpha/2 ||z - x||^2 from x
 *            that is rho = alpha, anchor = x, shift = -h_i
 *            h_i <- h_i - alpha (x_i - x);  up: x_i - x
 *   server   h <- h - (alpha/N) sum_S (x_i - x);  x <- mean_S x_i - h/alpha                    (uniform weights)
 *
 * Acar, Zhao, Matas Navarro, Mattina, Whatmough, Saligrama: Federated learning based on dynamic regularization, ICLR
 * 2021. The client keeps -h_i, which is the shift itself. */
#include "algo/algo.h"

enum { X, H };      /* server */
enum { MINUS_H_I }; /* client */
enum { DX };        /* up, sum */

typedef struct {
    double alpha;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, alpha, "0.1", FLI_ABOVE_0, FLI_NO_MAX, "weight of the dynamic regulariser"),
    FLI_KEY_END,
};

static const char *const server[] = {"x", "h", NULL};
static const char *const client[] = {"-h_i", NULL};
static const fl_part down[] = {{"x", FL_PART_VECTOR, X}, {NULL}};
static const fl_part up[] = {{"x_i - x", FL_PART_VECTOR, DX, FL_PART_CHANGE}, {NULL}};
static const char *const sums[] = {"sum (x_i - x)", NULL};

static int pose(const fl_turn *t, fl_problem *p)
{
    const params *a = t->bound;
    p->start = p->anchor = t->down[X];
    p->rho = a->alpha;
    p->shift = t->state[MINUS_H_I];
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    const params *b = t->bound;
    /* up = x_i - x */
    fli_sub(&t->space, a->z, t->down[X], t->up[DX]);
    /* -h_i <- -h_i + alpha (x_i - x) */
    fli_axpy(&t->space, b->alpha, t->up[DX], t->state[MINUS_H_I]);
    return 0;
}

static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    fli_axpy(&s->space, 1, t->up[DX], s->sum[DX]);
    return 0;
}

static int advance(const fl_coordinator *s)
{
    const params *a = s->bound;
    /* h -= (alpha/N) sum_S (x_i - x) */
    fli_axpy(&s->space, -a->alpha / (double)s->clients, s->sum[DX], s->vec[H]);
    /* x = mean_S x_i - h/alpha = x + (1/m) sum_S (x_i - x) - h/alpha */
    fli_axpy(&s->space, 1 / (double)s->cohort, s->sum[DX], s->vec[X]);
    fli_axpy(&s->space, -1 / a->alpha, s->vec[H], s->vec[X]);
    return 0;
}

static const fl_tune_range tune[] = {FLI_TUNE_LR, {"algorithm.alpha", 0.001, 1, 1}, {NULL}};

const fl_method fli_algo_feddyn = {
    .name = "feddyn",
    .title = "dynamic regularisation: the clients' optima are made to agree",
    .citation = "Acar et al., ICLR 2021",
    .traits = FL_METHOD_UNIFORM,
    .remedy = "a smaller local.lr or algorithm.alpha",
    .tune = tune,
    .keys = keys,
    .params_size = sizeof(params),
    .server = server,
    .down = down,
    .client = client,
    .up = up,
    .sums = sums,
    .pose = pose,
    .answer = answer,
    .absorb = absorb,
    .advance = advance,
};
