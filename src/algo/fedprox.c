/* FedProx: FedAvg whose clients are held near the global model.
 *
 *   client   x_i = Q_i steps of SGD on f_i(z) + mu/2 ||z - x||^2 from x      rho = mu, anchor = x;  up: x_i - x
 *   server   as FedAvg
 *
 * Li, Sahu, Zaheer, Sanjabi, Talwalkar, Smith: Federated optimization in heterogeneous networks, MLSys 2020. */
#include "algo/algo.h"
#include "algo/family_average.h"

#include <math.h>

enum { X };

typedef struct {
    fli_average_params average; /* first: the shared steps read it */
    double mu;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, mu, "0.1", 0, FLI_NO_MAX, "weight of the proximal term; 0 is FedAvg"),
    FLI_AVERAGE_KEYS,
    FLI_KEY_END,
};

static int pose(const fl_turn *t, fl_problem *p)
{
    const params *a = t->bound;
    p->start = p->anchor = t->down[X];
    p->rho = a->mu;
    return 0;
}

/* The proximal term holds the client back: against a constant gradient it goes (1 - (1 - lr mu)^Q)/mu, not lr Q. */
static double reach(const params *p, double lr, double momentum, size_t steps)
{
    double mu = p->mu, far = lr * fli_sgd_weight(momentum, steps), q = (double)steps;
    double back = mu * far / q;
    return mu > 0 && back < 1 ? -expm1(q * log1p(-back)) / mu : mu > 0 ? 1 / mu : far;
}

static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    fli_average_add(s, t, reach(s->bound, t->ask.lr, s->momentum, t->ask.steps));
    return 0;
}

static void warn(const void *params_, const fl_facts *f, fli_text *out)
{
    fli_average_warn_reach(params_, f, reach(params_, f->lr, f->momentum, f->steps), out);
}

static const fl_tune_range tune[] = {FLI_TUNE_LR, {"algorithm.mu", 0.001, 1, 1}, {NULL}};

const fl_method fli_algo_fedprox = {
    .name = "fedprox",
    .title = "FedAvg with a proximal term that holds clients near the global model",
    .citation = "Li et al., MLSys 2020",
    .traits = FL_METHOD_COMPOSITE,
    .remedy = "a smaller local.lr or algorithm.mu",
    .tune = tune,
    .keys = keys,
    .params_size = sizeof(params),
    FLI_AVERAGE_PARTS,
    .absorb = absorb,
    .theory.warn = warn,
    .pose = pose,
};
