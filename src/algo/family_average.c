#include "algo/family_average.h"

enum { X };
enum { DX };
enum { STEP }; /* scalar sum */

const char *const fli_average_server[] = {"x", NULL};
const fl_part fli_average_down[] = {{"x", FL_PART_VECTOR, X}, {NULL}};
const fl_part fli_average_up[] = {{"x_i - x", FL_PART_VECTOR, DX, FL_PART_CHANGE}, {NULL}};
const char *const fli_average_sums[] = {"sum w_i (x_i - x)", NULL};

int fli_average_answer(const fl_turn *t, const fl_answer *a)
{
    /* up = x_i - x */
    fli_sub(&t->space, a->z, t->down[X], t->up[DX]);
    return 0;
}

int fli_average_sum(const fl_coordinator *s, const fl_upload *t)
{
    /* D += w_i (x_i - x) */
    fli_axpy(&s->space, t->ask.weight, t->up[DX], s->sum[DX]);
    return 0;
}

void fli_average_add(const fl_coordinator *s, const fl_upload *t, double reach)
{
    fli_average_sum(s, t);
    /* h += w_i reach_i */
    s->scalar_sum[STEP] += t->ask.weight * reach;
}

int fli_average_absorb(const fl_coordinator *s, const fl_upload *t)
{
    fli_average_add(s, t, t->ask.lr * fli_sgd_weight(s->momentum, t->ask.steps));
    return 0;
}

int fli_average_advance(const fl_coordinator *s)
{
    const fli_average_params *p = s->bound;
    double share = p->aggregation == 0 ? 1 / s->cohort_weight : (double)s->clients / (double)s->cohort;
    /* x += server_lr D / sum_S w   or   x += server_lr (N/m) D */
    fli_axpy(&s->space, p->server_lr * share, s->sum[DX], s->vec[X]);
    /* x = prox_{server_lr h g}(x), h scaled like D: with Q_i = 1 this is the proximal gradient method */
    fl_prox(s, p->server_lr * share * s->scalar_sum[STEP], s->vec[X]);
    return 0;
}

void fli_average_warn_reach(const void *params, const fl_facts *f, double reach, fli_text *out)
{
    fli_warn_long_prox(f, ((const fli_average_params *)params)->server_lr * reach, "local.lr or algorithm.server_lr",
                       out);
}

void fli_average_warn(const void *params, const fl_facts *f, fli_text *out)
{
    fli_average_warn_reach(params, f, f->lr * fli_sgd_weight(f->momentum, f->steps), out);
}
