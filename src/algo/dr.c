#include "algo/dr.h"

enum { X, XT };    /* server: xbar, the global model, and xt, the mean of all xh_i */
enum { Y_I, X_I }; /* client, x_i being its own model; xh_i = 2 x_i - y_i needs no memory of its own */
enum { DXH };      /* up, sum */

const char *const fli_dr_server[] = {"xbar", "xt", NULL};
const char *const fli_dr_client[] = {"y_i", "x_i", NULL};
const char *const fli_dr_up[] = {"the change of 2 x_i - y_i", NULL};
const char *const fli_dr_sums[] = {"sum of the changes", NULL};

const fli_solver *fli_dr_solver(const void *params)
{
    return ((const fli_dr_params *)params)->solver ? &fli_solver_exact : &fli_solver_sgd;
}

int fli_dr_warms_up(const void *params) { return ((const fli_dr_params *)params)->init; }

void fli_dr_start(const fli_server *s)
{
    /* xt = x0: with y_i = x_i = x0 everywhere it is the mean of all xh_i */
    fli_copy(s->space, s->vec[X], s->vec[XT]);
}

void fli_dr_pose(const fli_turn *t, fli_problem *p)
{
    const fli_dr_params *a = t->params;
    if (t->first) {
        fli_copy(t->space, t->initial, t->state[Y_I]);
        fli_copy(t->space, t->initial, t->state[X_I]);
    }
    if (!t->warm_up) {
        /* y_i += alpha (xbar - x_i) */
        fli_axpy(t->space, a->alpha, t->down[X], t->state[Y_I]);
        fli_axpy(t->space, -a->alpha, t->state[X_I], t->state[Y_I]);
    }
    p->start = t->state[X_I];
    p->anchor = t->state[Y_I];
    p->rho = 1 / a->eta;
}

void fli_dr_answer(const fli_turn *t, const fli_answer *a)
{
    double alpha = t->warm_up ? 0 : ((const fli_dr_params *)t->params)->alpha;
    /* xh_i+ - xh_i = 2 (x_i+ - x_i) - alpha (xbar - x_i) */
    fli_lin(t->space, 2, a->z, alpha - 2, t->state[X_I], t->up[DXH]);
    if (alpha > 0) fli_axpy(t->space, -alpha, t->down[X], t->up[DXH]);
    fli_copy(t->space, a->z, t->state[X_I]);
}

void fli_dr_absorb(const fli_server *s, const fli_turn *t) { fli_axpy(s->space, 1, t->up[DXH], s->sum[DXH]); }

void fli_dr_advance(const fli_server *s)
{
    const fli_dr_params *a = s->params;
    /* xt += (1/n) sum_S (xh_i+ - xh_i) */
    fli_axpy(s->space, 1 / (double)s->clients, s->sum[DXH], s->vec[XT]);
    if (s->warm_up) return; /* xbar^0 = x0 */
    /* xbar = prox_{eta g}(xt) */
    fli_copy(s->space, s->vec[XT], s->vec[X]);
    s->prox(s->prox_arg, a->eta, s->vec[X]);
}
