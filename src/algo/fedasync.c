/* FedAsync: the server mixes every arriving model into its own; the older the model, the smaller its share.
 *
 *   client   x_i = Q_i steps of SGD on f_i(z) + rho/2 ||z - x||^2 from x, the model it was given          up: x_i
 *   server   x <- (1 - a) x + a x_i,   a = alpha s(t)  for an upload that is t server steps old
 *            s(t) = 1 (constant), (t + 1)^-power (polynomial), 1 if t <= hinge else 1/(slope (t - hinge) + 1) (hinge)
 *
 * Xie, Koyejo, Gupta: Asynchronous federated optimization, OPT 2020. */
#include "algo/algo.h"

#include <math.h>

enum { X };
enum { X_I };
enum { CONSTANT, POLYNOMIAL, HINGE };

typedef struct {
    double alpha, rho, power, slope;
    int64_t hinge, tau;
    int staleness;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, alpha, "0.6", FLI_ABOVE_0, 1, "share of a fresh upload in the new model"),
    FLI_KEY_REAL(params, rho, "0.005", 0, FLI_NO_MAX, "holds the local model to the one the client was given"),
    FLI_KEY_CHOICE(params, staleness, "polynomial", "constant|polynomial|hinge", "how the share falls with age"),
    FLI_KEY_REAL(params, power, "0.5", 0, FLI_NO_MAX, "of the polynomial"),
    FLI_KEY_INT(params, hinge, "4", 0, 1e9, "age up to which the hinge does not lower the share"),
    FLI_KEY_REAL(params, slope, "10", FLI_ABOVE_0, FLI_NO_MAX, "of the hinge"),
    FLI_KEY_INT(params, tau, "0", 0, 1e9, "bound on the age of an upload, in server steps; 0: none"),
    FLI_KEY_END,
};

static const char *const server[] = {"x", NULL};
static const fl_part down[] = {{"x", FL_PART_VECTOR, X}, {NULL}};
static const fl_part up[] = {{"x_i", FL_PART_VECTOR, X_I, FL_PART_VALUE}, {NULL}};

static fl_pace pace(const void *p) { return (fl_pace){1, (size_t)((const params *)p)->tau}; }

static int pose(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[X];
    p->anchor = t->down[X];
    p->rho = ((const params *)t->bound)->rho;
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    fli_copy(&t->space, a->z, t->up[X_I]);
    return 0;
}

static double lowered(const params *p, size_t age)
{
    double t = (double)age, over = t - (double)p->hinge;
    if (p->staleness == POLYNOMIAL) return pow(t + 1, -p->power);
    if (p->staleness == HINGE && over > 0) return 1 / (p->slope * over + 1);
    return 1;
}

static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    const params *p = s->bound;
    double a = p->alpha * lowered(p, t->staleness);
    /* x = (1 - a) x + a x_i */
    fli_lin(&s->space, 1 - a, s->vec[X], a, t->up[X_I], s->vec[X]);
    return 0;
}

static int advance(const fl_coordinator *s)
{
    (void)s;
    return 0;
}

static const fl_tune_range tune[] = {FLI_TUNE_LR, {"algorithm.alpha", 0.1, 1, 0}, {NULL}};

const fl_method fli_algo_fedasync = {
    .name = "fedasync",
    .title = "asynchronous: uploads are mixed in one by one, weighted by age",
    .citation = "Xie, Koyejo and Gupta, OPT 2020",
    .traits = FL_METHOD_UNIFORM,
    .remedy = "a smaller local.lr or algorithm.rho",
    .tune = tune,
    .keys = keys,
    .params_size = sizeof(params),
    .server = server,
    .down = down,
    .up = up,
    .async.pace = pace,
    .pose = pose,
    .answer = answer,
    .absorb = absorb,
    .advance = advance,
};
