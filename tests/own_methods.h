/* Methods that come with fedloom, written again by the public header alone: as users would write theirs. */
#ifndef TESTS_OWN_METHODS_H
#define TESTS_OWN_METHODS_H

#include "fedloom_extend.h"

#include <math.h>

/* ---- SCAFFOLD ---------------------------------------------------------------------------------------------- */

enum { SC_X, SC_C };   /* server */
enum { SC_C_I };       /* client */
enum { SC_DX, SC_DC }; /* up and sums */

static int scaffold_pose(const fl_turn *t, fl_problem *p)
{
    fl_vec_lin(&t->space, 1, t->down[SC_C], -1, t->state[SC_C_I], t->work[0]);
    p->start = t->down[SC_X];
    p->shift = t->work[0];
    return 0;
}

static int scaffold_answer(const fl_turn *t, const fl_answer *a)
{
    double rate = 1 / (a->weight * t->ask.lr);
    fl_vec_lin(&t->space, 1, a->z, -1, t->down[SC_X], t->up[SC_DX]);
    fl_vec_lin(&t->space, -1, t->down[SC_C], -rate, t->up[SC_DX], t->up[SC_DC]);
    fl_vec_axpy(&t->space, 1, t->up[SC_DC], t->state[SC_C_I]);
    return 0;
}

static int scaffold_absorb(const fl_coordinator *s, const fl_upload *u)
{
    fl_vec_axpy(&s->space, u->ask.weight, u->up[SC_DX], s->sum[SC_DX]);
    fl_vec_axpy(&s->space, u->ask.weight, u->up[SC_DC], s->sum[SC_DC]);
    return 0;
}

static int scaffold_advance(const fl_coordinator *s)
{
    fl_vec_axpy(&s->space, s->params[0] / s->cohort_weight, s->sum[SC_DX], s->vec[SC_X]);
    fl_vec_axpy(&s->space, 1, s->sum[SC_DC], s->vec[SC_C]);
    return 0;
}

static const fl_key scaffold_keys[] = {{"server_lr", FL_KEY_REAL, "1", 1e-300, 1e300, NULL, "step size of the server"},
                                       {NULL}};
static const fl_part scaffold_down[] = {{"x", FL_PART_VECTOR, SC_X}, {"c", FL_PART_VECTOR, SC_C}, {NULL}};
static const fl_part scaffold_up[] = {
    {"x_i - x", FL_PART_VECTOR, SC_DX, FL_PART_CHANGE}, {"c_i+ - c_i", FL_PART_VECTOR, SC_DC, FL_PART_CHANGE}, {NULL}};

static const fl_method own_scaffold = {
    .size = sizeof(fl_method),
    .name = "own_scaffold",
    .title = "SCAFFOLD again",
    .traits = FL_METHOD_PLAIN_SGD,
    .keys = scaffold_keys,
    .server = (const char *const[]){"x", "c", NULL},
    .client = (const char *const[]){"c_i", NULL},
    .sums = (const char *const[]){"dx", "dc", NULL},
    .work = 1,
    .down = scaffold_down,
    .up = scaffold_up,
    .pose = scaffold_pose,
    .answer = scaffold_answer,
    .absorb = scaffold_absorb,
    .advance = scaffold_advance,
};

/* ---- FedProx ----------------------------------------------------------------------------------------------- */

enum { PROX_MU, PROX_AGGREGATION, PROX_SERVER_LR }; /* parameters */

static int fedprox_pose(const fl_turn *t, fl_problem *p)
{
    p->start = p->anchor = t->down[0];
    p->rho = t->params[PROX_MU];
    return 0;
}

static int difference_answer(const fl_turn *t, const fl_answer *a)
{
    fl_vec_lin(&t->space, 1, a->z, -1, t->down[0], t->up[0]);
    return 0;
}

/* How far a client goes against a constant gradient, without momentum. */
static double fedprox_reach(double mu, double lr, double steps)
{
    double far = lr * steps, back = mu * far / steps;
    return mu > 0 && back < 1 ? -expm1(steps * log1p(-back)) / mu : mu > 0 ? 1 / mu : far;
}

static int fedprox_absorb(const fl_coordinator *s, const fl_upload *u)
{
    fl_vec_axpy(&s->space, u->ask.weight, u->up[0], s->sum[0]);
    s->scalar_sum[0] += u->ask.weight * fedprox_reach(s->params[PROX_MU], u->ask.lr, (double)u->ask.steps);
    return 0;
}

static int fedprox_advance(const fl_coordinator *s)
{
    double share = s->params[PROX_AGGREGATION] == 0 ? 1 / s->cohort_weight : (double)s->clients / (double)s->cohort;
    double rate = s->params[PROX_SERVER_LR] * share;
    fl_vec_axpy(&s->space, rate, s->sum[0], s->vec[0]);
    fl_prox(s, rate * s->scalar_sum[0], s->vec[0]);
    return 0;
}

static const fl_key fedprox_keys[] = {
    {"mu", FL_KEY_REAL, "0.1", 0, 1e300, NULL, "weight of the proximal term; 0 is FedAvg"},
    {"aggregation", FL_KEY_CHOICE, "normalized", 0, 0, "normalized|unbiased", "weights of the average"},
    {"server_lr", FL_KEY_REAL, "1", 1e-300, 1e300, NULL, "step size of the server"},
    {NULL}};
static const fl_part x_down[] = {{"x", FL_PART_VECTOR, 0}, {NULL}};
static const fl_part dx_up[] = {{"x_i - x", FL_PART_VECTOR, 0, FL_PART_CHANGE}, {NULL}};

static const fl_method own_fedprox = {
    .size = sizeof(fl_method),
    .name = "own_fedprox",
    .traits = FL_METHOD_COMPOSITE,
    .keys = fedprox_keys,
    .server = (const char *const[]){"x", NULL},
    .sums = (const char *const[]){"dx", NULL},
    .scalar_sums = 1,
    .down = x_down,
    .up = dx_up,
    .pose = fedprox_pose,
    .answer = difference_answer,
    .absorb = fedprox_absorb,
    .advance = fedprox_advance,
};

/* ---- FedDyn: h stays on the server ------------------------------------------------------------------------- */

static int feddyn_pose(const fl_turn *t, fl_problem *p)
{
    p->start = p->anchor = t->down[0];
    p->rho = t->params[0];
    p->shift = t->state[0];
    return 0;
}

static int feddyn_answer(const fl_turn *t, const fl_answer *a)
{
    difference_answer(t, a);
    fl_vec_axpy(&t->space, t->params[0], t->up[0], t->state[0]);
    return 0;
}

static int feddyn_absorb(const fl_coordinator *s, const fl_upload *u)
{
    fl_vec_axpy(&s->space, 1, u->up[0], s->sum[0]);
    return 0;
}

static int feddyn_advance(const fl_coordinator *s)
{
    double alpha = s->params[0];
    fl_vec_axpy(&s->space, -alpha / (double)s->clients, s->sum[0], s->vec[1]);
    fl_vec_axpy(&s->space, 1 / (double)s->cohort, s->sum[0], s->vec[0]);
    fl_vec_axpy(&s->space, -1 / alpha, s->vec[1], s->vec[0]);
    return 0;
}

static const fl_key feddyn_keys[] = {
    {"alpha", FL_KEY_REAL, "0.1", 1e-300, 1e300, NULL, "weight of the dynamic regulariser"}, {NULL}};

static const fl_method own_feddyn = {
    .size = sizeof(fl_method),
    .name = "own_feddyn",
    .traits = FL_METHOD_UNIFORM,
    .keys = feddyn_keys,
    .server = (const char *const[]){"x", "h", NULL},
    .client = (const char *const[]){"-h_i", NULL},
    .sums = (const char *const[]){"dx", NULL},
    .down = x_down,
    .up = dx_up,
    .pose = feddyn_pose,
    .answer = feddyn_answer,
    .absorb = feddyn_absorb,
    .advance = feddyn_advance,
};

/* ---- FedLin: two phases ------------------------------------------------------------------------------------ */

enum { LIN_GRADIENT, LIN_STEPS };

static int fedlin_pose(const fl_turn *t, fl_problem *p)
{
    p->start = t->down[0];
    if (t->ask.phase == LIN_GRADIENT) return 0;
    fl_vec_lin(&t->space, 1, t->down[1], -1, t->state[0], t->work[0]);
    p->shift = t->work[0];
    return 0;
}

static int fedlin_answer(const fl_turn *t, const fl_answer *a)
{
    if (t->ask.phase == LIN_STEPS) return difference_answer(t, a);
    fl_vec_copy(&t->space, a->gradient, t->state[0]);
    fl_vec_copy(&t->space, a->gradient, t->up[0]);
    return 0;
}

static int fedlin_absorb(const fl_coordinator *s, const fl_upload *u)
{
    fl_vec_axpy(&s->space, u->ask.weight, u->up[0], s->sum[0]);
    return 0;
}

static int fedlin_advance(const fl_coordinator *s)
{
    double share = 1 / s->cohort_weight;
    if (s->phase == LIN_GRADIENT)
        fl_vec_lin(&s->space, share, s->sum[0], 0, s->sum[0], s->vec[1]);
    else
        fl_vec_axpy(&s->space, share, s->sum[0], s->vec[0]);
    return 0;
}

static const fl_part fedlin_down[] = {{"x", FL_PART_VECTOR, 0, FL_PART_KEEP, FL_IN_PHASE(LIN_GRADIENT)},
                                      {"g", FL_PART_VECTOR, 1, FL_PART_FORGET, FL_IN_PHASE(LIN_STEPS)},
                                      {NULL}};
static const fl_part fedlin_up[] = {{"grad f_i(x)", FL_PART_VECTOR, 0, FL_PART_VALUE, FL_IN_PHASE(LIN_GRADIENT)},
                                    {"x_i - x", FL_PART_VECTOR, 0, FL_PART_CHANGE, FL_IN_PHASE(LIN_STEPS)},
                                    {NULL}};

static const fl_method own_fedlin = {
    .size = sizeof(fl_method),
    .name = "own_fedlin",
    .server = (const char *const[]){"x", "g", NULL},
    .client = (const char *const[]){"grad f_i(x)", NULL},
    .sums = (const char *const[]){"sum", NULL},
    .work = 1,
    .down = fedlin_down,
    .up = fedlin_up,
    .solver = "gradient|sgd",
    .phases = 2,
    .pose = fedlin_pose,
    .answer = fedlin_answer,
    .absorb = fedlin_absorb,
    .advance = fedlin_advance,
};

/* ---- FedAsync, with the polynomial ------------------------------------------------------------------------- */

enum { ASYNC_ALPHA, ASYNC_RHO, ASYNC_POWER };

static int fedasync_pose(const fl_turn *t, fl_problem *p)
{
    p->start = p->anchor = t->down[0];
    p->rho = t->params[ASYNC_RHO];
    return 0;
}

static int fedasync_answer(const fl_turn *t, const fl_answer *a)
{
    fl_vec_copy(&t->space, a->z, t->up[0]);
    return 0;
}

static int fedasync_absorb(const fl_coordinator *s, const fl_upload *u)
{
    double a = s->params[ASYNC_ALPHA] * pow((double)u->staleness + 1, -s->params[ASYNC_POWER]);
    fl_vec_lin(&s->space, 1 - a, s->vec[0], a, u->up[0], s->vec[0]);
    return 0;
}

static int no_advance(const fl_coordinator *s)
{
    (void)s;
    return 0;
}

static const fl_key fedasync_keys[] = {
    {"alpha", FL_KEY_REAL, "0.6", 1e-300, 1, NULL, "share of a fresh upload in the new model"},
    {"rho", FL_KEY_REAL, "0.005", 0, 1e300, NULL, "holds the local model to the one the client was given"},
    {"power", FL_KEY_REAL, "0.5", 0, 1e300, NULL, "of the polynomial"},
    {NULL}};
static const fl_part x_i_up[] = {{"x_i", FL_PART_VECTOR, 0, FL_PART_VALUE}, {NULL}};

static const fl_method own_fedasync = {
    .size = sizeof(fl_method),
    .name = "own_fedasync",
    .traits = FL_METHOD_UNIFORM,
    .keys = fedasync_keys,
    .server = (const char *const[]){"x", NULL},
    .down = x_down,
    .up = x_i_up,
    .buffer = 1,
    .pose = fedasync_pose,
    .answer = fedasync_answer,
    .absorb = fedasync_absorb,
    .advance = no_advance,
};

#endif
