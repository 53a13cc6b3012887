/* FedBuff: asynchronous, but the server takes a step only for every K uploads.
 *
 *   client   x_i = Q_i steps of SGD on f_i from x, the model it was given                         up: x_i - x
 *   server   D += (1 + t)^-power (x_i - x)  for an upload that is t server steps old;
 *            after K of them  x <- x + server_lr D/K,  D <- 0
 *
 * The paper's power is 1/2. A client that returns while the buffer fills gets the same model again.
 *
 * Nguyen, Malik, Zhan, Yousefpour, Rabbat, Malek, Huba: Federated learning with buffered asynchronous aggregation,
 * AISTATS 2022. */
#include "algo/algo.h"

#include <math.h>

enum { X };
enum { DX };

typedef struct {
    int64_t buffer, tau;
    double server_lr, power;
} params;

static const fl_key keys[] = {
    FLI_KEY_INT(params, buffer, "10", 1, 1e6, "uploads per server step"),
    FLI_KEY_REAL(params, server_lr, "1", FLI_ABOVE_0, FLI_NO_MAX, "step size of the server"),
    FLI_KEY_REAL(params, power, "0.5", 0, FLI_NO_MAX, "an upload of age t counts (1 + t)^-power"),
    FLI_KEY_INT(params, tau, "0", 0, 1e9, "bound on the age of an upload, in server steps; 0: none"),
    FLI_KEY_END,
};

static const char *const server[] = {"x", NULL};
static const fl_part down[] = {{"x", FL_PART_VECTOR, X}, {NULL}};
static const fl_part up[] = {{"x_i - x", FL_PART_VECTOR, DX, FL_PART_CHANGE}, {NULL}};
static const char *const sums[] = {"weighted sum of the x_i - x", NULL};

static fl_pace pace(const void *p)
{
    const params *a = p;
    return (fl_pace){(size_t)a->buffer, (size_t)a->tau};
}

static int pose(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[X];
    return 0;
}

static int answer(const fl_turn *t, const fl_answer *a)
{
    fli_sub(&t->space, a->z, t->down[X], t->up[DX]);
    return 0;
}

static int absorb(const fl_coordinator *s, const fl_upload *t)
{
    const params *p = s->bound;
    /* D += (1 + t)^-power (x_i - x) */
    fli_axpy(&s->space, pow(1 + (double)t->staleness, -p->power), t->up[DX], s->sum[DX]);
    return 0;
}

static int advance(const fl_coordinator *s)
{
    const params *p = s->bound;
    /* x += server_lr D/K */
    fli_axpy(&s->space, p->server_lr / (double)p->buffer, s->sum[DX], s->vec[X]);
    return 0;
}

static const fl_tune_range tune[] = {FLI_TUNE_LR, {"algorithm.server_lr", 0.1, 10, 1}, {NULL}};

const fl_method fli_algo_fedbuff = {
    .name = "fedbuff",
    .title = "asynchronous: a server step for every K uploads",
    .citation = "Nguyen et al., AISTATS 2022",
    .traits = FL_METHOD_UNIFORM,
    .tune = tune,
    .keys = keys,
    .params_size = sizeof(params),
    .server = server,
    .down = down,
    .up = up,
    .sums = sums,
    .async.pace = pace,
    .pose = pose,
    .answer = answer,
    .absorb = absorb,
    .advance = advance,
};
