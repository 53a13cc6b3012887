/* The work of methods that go down one level and come back: single derivatives at (x, y), and steps on one block.
 *
 * With a shift, steps are variance reduced: u <- u - lr (d_i(u) - d_i(start) + shift), both derivatives over the same
 * mini-batch. */
#include "solver/bilevel_work.h"

void fli_work_lower_gradient(fli_bilevel_work *w)
{
    fli_pass_next(&w->train, w->rng);
    fli_work_g(w, w->problem->start, w->z);
    fli_zero(&w->upper, w->z);
}

void fli_work_upper_gradient(fli_bilevel_work *w)
{
    fli_pass_next(&w->validation, w->rng);
    fli_work_f(w, w->problem->start, w->z);
}

void fli_work_product(fli_bilevel_work *w)
{
    fli_pass_next(&w->train, w->rng);
    fli_work_hv(w, w->problem->start, fli_work_direction(w), w->z);
}

/* f holds grad f at z; its upper block becomes grad_x f - g_xy v */
static void hypergradient(fli_bilevel_work *w, const void *z, const void *v, void *f)
{
    void *hv = fli_work_vector(w, FLI_W_H);
    fli_work_hv(w, z, v, hv);
    fli_sub(&w->upper, f, hv, f);
}

void fli_work_hypergradient(fli_bilevel_work *w)
{
    fli_pass_next(&w->validation, w->rng);
    fli_pass_next(&w->train, w->rng);
    fli_work_f(w, w->problem->start, w->z);
    hypergradient(w, w->problem->start, fli_work_direction(w), w->z);
    fli_zero(&w->lower, fli_low(w, w->z));
}

void fli_work_lower_steps(fli_bilevel_work *w)
{
    const fli_problem *p = w->problem;
    const void *shift = p->levels.shift;
    void *z = w->z, *g = w->worker->grad, *at_start = fli_work_vector(w, FLI_W_G);
    fli_copy(&w->model->space, p->start, z);
    for (size_t k = 0; k < p->steps && !fli_halted(w->worker->halt); k++) {
        fli_pass_next(&w->train, w->rng);
        fli_work_g(w, z, g);
        if (shift) {
            fli_work_g(w, p->start, at_start);
            fli_axpy(&w->lower, -1, fli_low(w, at_start), fli_low(w, g));
            fli_axpy(&w->lower, 1, fli_clow(w, shift), fli_low(w, g));
        }
        fli_axpy(&w->lower, -p->lr, fli_low(w, g), fli_low(w, z));
    }
}

void fli_work_upper_steps(fli_bilevel_work *w)
{
    const fli_problem *p = w->problem;
    void *z = w->z, *f = w->worker->grad, *at_start = fli_work_vector(w, FLI_W_G);
    fli_copy(&w->model->space, p->start, z);
    for (size_t k = 0; k < p->steps && !fli_halted(w->worker->halt); k++) {
        fli_pass_next(&w->validation, w->rng);
        fli_work_f(w, z, f);
        fli_work_f(w, p->start, at_start);
        fli_axpy(&w->upper, -1, at_start, f);
        fli_axpy(&w->upper, 1, p->levels.shift, f);
        fli_axpy(&w->upper, -p->lr, f, z);
    }
}

/* v's lower block = (1/ell) sum_{n=0..N} (I - H/ell)^n grad_y f, with H = g_yy over the mini-batch under way; f holds
 * grad f at z */
static void neumann(fli_bilevel_work *w, const void *z, const void *f, void *v)
{
    const fli_levels *l = &w->problem->levels;
    void *term = fli_work_vector(w, FLI_W_U), *hv = fli_work_vector(w, FLI_W_H);
    fli_zero(&w->upper, term);
    fli_copy(&w->lower, fli_clow(w, f), fli_low(w, term));
    fli_copy(&w->model->space, term, v);
    for (size_t n = 0; n < l->neumann && !fli_halted(w->worker->halt); n++) {
        fli_work_hv(w, z, term, hv);
        fli_axpy(&w->lower, -1 / l->ell, fli_low(w, hv), fli_low(w, term));
        fli_axpy(&w->lower, 1, fli_low(w, term), fli_low(w, v));
    }
    fli_scale(&w->lower, 1 / l->ell, fli_low(w, v));
}

void fli_work_own_steps(fli_bilevel_work *w)
{
    const fli_problem *p = w->problem;
    void *z = w->z, *d = w->worker->grad, *v = fli_work_vector(w, FLI_W_V);
    fli_copy(&w->model->space, p->start, z);
    for (size_t k = 0; k < p->steps && !fli_halted(w->worker->halt); k++) {
        fli_pass_next(&w->validation, w->rng);
        fli_pass_next(&w->train, w->rng);
        fli_work_f(w, z, d);
        neumann(w, z, d, v);
        hypergradient(w, z, v, d);
        fli_axpy(&w->upper, -p->lr, d, z);
    }
}
