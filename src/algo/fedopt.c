/* FedAdam, FedYogi, FedAdagrad: FedAvg whose server uses the average change as a gradient in an adaptive method.
 *
 *   client   x_i = Q_i steps of SGD on f_i from x                              up: x_i - x
 *   server   D = sum_S (w_i / sum_S w) (x_i - x);  m <- beta1 m + (1 - beta1) D
 *            v <- beta2 v + (1 - beta2) D^2                      FedAdam
 *                 v - (1 - beta2) D^2 sign(v - D^2)              FedYogi
 *                 v + D^2                                        FedAdagrad
 *            x <- x + server_lr m / (sqrt(v) + tau)              elementwise
 *   start    m = 0, v = tau^2; no bias correction
 *
 * Reddi, Charles, Zaheer, Garrett, Rush, Konecny, Kumar, McMahan: Adaptive federated optimization, ICLR 2021, Algorithm
 * 2. */
#include "algo/family_average.h"
#include "algo/algo.h"

#include <math.h>

enum { X, M, V }; /* server */
enum { DX };      /* up, sum */

typedef struct {
    double server_lr, beta1, beta2, tau;
} params;

/* As in the paper's experiments, Adagrad's momentum defaults to 0. */
#define KEYS(momentum)                                                                                                 \
    FLI_KEY_REAL(params, server_lr, "0.01", FLI_ABOVE_0, FLI_NO_MAX, "step size of the server"),                       \
        FLI_KEY_REAL(params, beta1, momentum, 0, FLI_BELOW_1, "how much of m, the mean of past changes, stays"),       \
        FLI_KEY_REAL(params, beta2, "0.99", 0, FLI_BELOW_1,                                                            \
                     "how much of v stays; fedadagrad ignores this and keeps all of it"),                              \
        FLI_KEY_REAL(params, tau, "0.001", FLI_ABOVE_0, FLI_NO_MAX,                                                    \
                     "added to sqrt(v): the larger, the less adaptive; v starts at its square")

static const fl_key keys[] = {KEYS("0.9"), FLI_KEY_END};
static const fl_key adagrad_keys[] = {KEYS("0"), FLI_KEY_END};

static const char *const server[] = {"x", "m", "v", NULL};

static int start(const fl_coordinator *s)
{
    double tau = ((const params *)s->bound)->tau;
    fli_fill(&s->space, tau * tau, s->vec[V]);
    return 0;
}

static int pose(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[X];
    return 0;
}

/* The update of an entry of v from one of D. */
typedef double second_fn(const params *p, double v, double d2);

static double adam(const params *p, double v, double d2) { return p->beta2 * v + (1 - p->beta2) * d2; }
static double yogi(const params *p, double v, double d2)
{
    return v - (1 - p->beta2) * d2 * (v > d2 ? 1 : v < d2 ? -1 : 0);
}
static double adagrad(const params *p, double v, double d2)
{
    (void)p;
    return v + d2;
}

typedef struct {
    const params *params;
    second_fn *second;
} rule;

/* fli_map_fn: (x, m, v, D) */
static void step(const void *arg, double *e)
{
    const rule *r = arg;
    const params *p = r->params;
    double d = e[3];
    e[1] = p->beta1 * e[1] + (1 - p->beta1) * d;
    e[2] = r->second(p, e[2], d * d);
    e[0] += p->server_lr * e[1] / (sqrt(e[2]) + p->tau);
}

static int advance(const fl_coordinator *s, second_fn *second)
{
    const rule r = {s->bound, second};
    fli_scale(&s->space, 1 / s->cohort_weight, s->sum[DX]);
    fli_map(&s->space, 4, (void *const[]){s->vec[X], s->vec[M], s->vec[V], s->sum[DX]}, step, &r);
    return 0;
}

static int advance_adam(const fl_coordinator *s) { return advance(s, adam); }
static int advance_yogi(const fl_coordinator *s) { return advance(s, yogi); }
static int advance_adagrad(const fl_coordinator *s) { return advance(s, adagrad); }

static const fl_tune_range tune[] = {
    FLI_TUNE_LR, {"algorithm.server_lr", 0.001, 1, 1}, {"algorithm.tau", 0.0001, 0.1, 1}, {NULL}};

#define PARTS                                                                                                          \
    .citation = "Reddi et al., ICLR 2021", .remedy = "a smaller algorithm.server_lr or local.lr", .tune = tune,        \
    .params_size = sizeof(params), .server = server, .down = fli_average_down, .up = fli_average_up,                   \
    .sums = fli_average_sums, .start = start, .pose = pose, .answer = fli_average_answer, .absorb = fli_average_sum

const fl_method fli_algo_fedadam = {
    .name = "fedadam",
    .title = "FedAvg with Adam on the server",
    .keys = keys,
    PARTS,
    .advance = advance_adam,
};

const fl_method fli_algo_fedyogi = {
    .name = "fedyogi",
    .title = "FedAvg with Yogi on the server, whose step sizes change more slowly than Adam's",
    .keys = keys,
    PARTS,
    .advance = advance_yogi,
};

const fl_method fli_algo_fedadagrad = {
    .name = "fedadagrad",
    .title = "FedAvg with Adagrad on the server, whose step sizes only shrink",
    .keys = adagrad_keys,
    PARTS,
    .advance = advance_adagrad,
};
