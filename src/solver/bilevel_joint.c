/* All three sequences of a bilevel problem at once ([FBO], Algorithm 1, client): from (x, y, v) Q_i steps
 * k = 0, 1, ...
 *
 *     d_y = grad_y g_i,   d_v = g_yy v - grad_y f_i,   d_x = grad_x f_i - g_xy v   (at the values before the step)
 *     y <- y - lr_y a_k d_y;   v <- v - lr_v a_k d_v;   x <- x - lr_x a_k d_x;   q += a_k d
 *
 * lr_x is the problem's lr. */
#include "solver/bilevel_work.h"

#include <math.h>

double fli_coef(const fli_coefs *c, size_t k)
{
    return c->v[k < c->n ? k : c->n - 1] * pow(c->decay, (double)k) * c->scale;
}

double fli_coef_sum(const fli_coefs *c, size_t steps)
{
    double sum = 0;
    for (size_t k = 0; k < steps; k++) sum += fli_coef(c, k);
    return sum;
}

/* d_x and d_y in one vector, d_v in another. */
typedef struct {
    void *z, *v;
} direction;

static direction directions(fli_bilevel_work *w, const void *z, const void *v)
{
    void *f = w->worker->grad, *g = fli_work_vector(w, FLI_W_G), *hv = fli_work_vector(w, FLI_W_H);
    fli_pass_next(&w->validation, w->rng);
    fli_work_f(w, z, f);
    fli_pass_next(&w->train, w->rng);
    fli_work_g(w, z, g);
    fli_work_hv(w, z, v, hv);
    if (isnan(w->out->levels.norm)) w->out->levels.norm = sqrt(fli_dot(&w->lower, fli_low(w, f), fli_low(w, f)));
    /* d_v = g_yy v - grad_y f */
    fli_sub(&w->lower, fli_low(w, hv), fli_low(w, f), fli_low(w, hv));
    /* d_x = grad_x f - g_xy v */
    fli_sub(&w->upper, f, hv, g);
    return (direction){g, hv};
}

void fli_work_together(fli_bilevel_work *w)
{
    const fli_problem *p = w->problem;
    const fli_levels *l = &p->levels;
    const fli_space *all = &w->model->space;
    void *z = fli_work_vector(w, FLI_W_U), *v = fli_work_direction(w), *q = w->z, *qv = w->qv;
    fli_copy(all, p->start, z);
    fli_zero(all, q);
    fli_zero(all, qv);
    w->out->levels.norm = NAN;
    for (size_t k = 0; k < p->steps && !fli_halted(w->worker->halt); k++) {
        double a = fli_coef(&l->coefs, k);
        direction d = directions(w, z, v);
        fli_axpy(all, a, d.z, q);
        fli_axpy(&w->lower, a, fli_low(w, d.v), fli_low(w, qv));
        fli_axpy(&w->lower, -l->lr_y * a, fli_low(w, d.z), fli_low(w, z));
        fli_axpy(&w->lower, -l->lr_v * a, fli_low(w, d.v), fli_low(w, v));
        fli_axpy(&w->upper, -p->lr * a, d.z, z);
    }
    w->out->levels.v = qv;
    w->out->weight = fli_coef_sum(&l->coefs, p->steps);
}
