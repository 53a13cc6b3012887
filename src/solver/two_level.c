/* Local work on a bilevel problem: which samples belong to which level, derivatives over mini-batches of them or over
 * all, and the kinds of work: steps on all blocks at once, and the single steps of nested loops.
 *
 * Every step takes one mini-batch of the training samples, for grad_y g and the products with g's second derivatives,
 * and one of the validation samples, for f. A client's split is the same in all its turns: a random order keyed by
 * seed and client, the validation samples first. */
#include "solver/two_level.h"

#include "solver/minibatch.h"

#include <math.h>
#include <string.h>

/* ==== samples, mini-batches, costs ======================================================================== */

enum { QV, ANSWERS }; /* of the task */

size_t fli_validation_count(double share, size_t n)
{
    double wanted = floor(share * (double)n + 0.5);
    if (!(share > 0) || n < 2) return 0;
    if (wanted < 1) return 1;
    return wanted < (double)n ? (size_t)wanted : n - 1;
}

size_t fli_levels_split(const fli_model *m, const fli_view *v, uint64_t seed, uint32_t client, uint32_t *order)
{
    size_t n = v->n_train, held = fli_validation_count(m->bilevel->common.validation, n);
    fli_rng rng;
    memcpy(order, v->train, n * sizeof *order);
    fli_rng_init(&rng, seed, FLI_RNG_SPLIT, 1, client);
    if (held) fli_rng_shuffle(&rng, n, order);
    return held;
}

/* Without separate validation samples both levels use all of the client's, in passes over one order, which each of them
 * shuffles again. */
static void split_samples(fli_bilevel_work *w, const fli_task *t)
{
    const fli_sgd_spec all = {.batch = 0}, *spec = t->problem.levels.full ? &all : &w->worker->spec;
    uint32_t *order = w->worker->order;
    size_t n = w->view->n_train, held = fli_levels_split(w->model, w->view, t->seed, t->client, order);
    w->validation = fli_pass_over(spec, order, held ? held : n);
    w->train = fli_pass_over(spec, order + held, n - held);
}

/* One derivative over a gathered batch. */
typedef void batch_fn(const fli_model *m, const void *z, const fli_batch *b, const void *v, void *out, void *scratch);

static void batch_f(const fli_model *m, const void *z, const fli_batch *b, const void *v, void *out, void *scratch)
{
    (void)v;
    fli_bilevel_upper(m, z, b, out, scratch);
}

static void batch_g(const fli_model *m, const void *z, const fli_batch *b, const void *v, void *out, void *scratch)
{
    (void)v;
    fli_bilevel_lower(m, z, b, out, scratch);
}

/* The mean over a mini-batch, in pieces that fit the worker's memory. */
static void mean_over_batch(fli_bilevel_work *w, const fli_sample_pass *pass, batch_fn *fn, const void *z,
                            const void *v, void *out)
{
    fli_eval *e = w->worker->eval;
    fli_pieces p = fli_pieces_of(e, w->view->ds, pass->now, pass->count);
    if (pass->count <= e->batch.capacity) {
        fli_pieces_next(&p);
        fn(w->model, z, &e->batch, v, out, e->scratch);
        return;
    }
    fli_zero(&w->model->space, out);
    while (fli_pieces_next(&p)) {
        fn(w->model, z, &e->batch, v, e->part, e->scratch);
        fli_pieces_add(&p, out);
    }
}

/* The problem's v in scratch, with zeros above: only the lower block of a direction is used. */
static void *work_direction(const fli_bilevel_work *w)
{
    void *v = fli_work_vector(w, FLI_W_V);
    fli_zero(&w->upper, v);
    fli_copy(&w->lower, fli_clow(w, w->problem->levels.v), fli_low(w, v));
    return v;
}

/* Derivatives over the current mini-batch: grad f by both blocks, grad_y g (the upper block of d is undefined), and
 * (g_xy v, g_yy v). */
static void work_f(fli_bilevel_work *w, const void *z, void *d)
{
    mean_over_batch(w, &w->validation, batch_f, z, NULL, d);
}
static void work_g(fli_bilevel_work *w, const void *z, void *d) { mean_over_batch(w, &w->train, batch_g, z, NULL, d); }
static void work_hv(fli_bilevel_work *w, const void *z, const void *v, void *out)
{
    mean_over_batch(w, &w->train, fli_bilevel_product, z, v, out);
}

fl_epochs fli_epochs_of(const fli_model *m, const fli_sgd_spec *spec, size_t labelled, size_t unlabelled)
{
    fl_epochs e = {.all = fli_objective_steps(m, spec, labelled, unlabelled)};
    size_t held = m->bilevel ? fli_validation_count(m->bilevel->common.validation, labelled) : 0;
    e.upper = fli_epoch_steps(spec, held ? held : labelled);
    e.lower = fli_epoch_steps(spec, labelled - held);
    return e;
}

/* The number of steps on one level; an epoch has as many as the level's samples need. */
static size_t steps_of(const fl_levels *l, size_t steps, const fl_epochs *e)
{
    if (!l->epochs) return steps;
    return l->epochs * (l->work == FL_WORK_LOWER_STEPS ? e->lower : e->upper);
}

size_t fli_levels_cost(const fl_levels *l, size_t steps, const fl_epochs *e)
{
    size_t f = l->full ? e->upper : 1, g = l->full ? e->lower : 1, n = steps_of(l, steps, e);
    switch (l->work) {
    case FL_WORK_LOWER_GRADIENT:
    case FL_WORK_PRODUCT: return g;
    case FL_WORK_UPPER_GRADIENT: return f;
    case FL_WORK_HYPERGRADIENT: return f + g;
    case FL_WORK_TOGETHER: return (f + 2 * g) * n; /* of f, of g, a product */
    case FL_WORK_LOWER_STEPS: return (l->shift ? 2 : 1) * g * n;
    case FL_WORK_UPPER_STEPS: return 2 * f * n;
    case FL_WORK_OWN_STEPS: return (f + (l->neumann + 1) * g) * n;
    }
    return steps;
}

/* The kinds of work, one function each. */
typedef void work_fn(fli_bilevel_work *w);
static work_fn work_together, work_lower_gradient, work_upper_gradient, work_product, work_hypergradient,
    work_lower_steps, work_upper_steps, work_own_steps;

static work_fn *const kinds[] = {
    [FL_WORK_TOGETHER] = work_together,
    [FL_WORK_LOWER_GRADIENT] = work_lower_gradient,
    [FL_WORK_UPPER_GRADIENT] = work_upper_gradient,
    [FL_WORK_PRODUCT] = work_product,
    [FL_WORK_HYPERGRADIENT] = work_hypergradient,
    [FL_WORK_LOWER_STEPS] = work_lower_steps,
    [FL_WORK_UPPER_STEPS] = work_upper_steps,
    [FL_WORK_OWN_STEPS] = work_own_steps,
};

static int solve(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_answer *out, fl_failure *f)
{
    const fli_local *at = l->engine;
    fli_task *t = at->task;
    const fli_model *m = at->worker->model;
    fli_bilevel_work w = {.worker = at->worker,
                          .model = m,
                          .view = t->view,
                          .problem = p,
                          .rng = &t->rng,
                          .z = z,
                          .qv = fl_local_vector(l, QV),
                          .out = out};
    (void)arg, (void)f;
    w.upper = fli_upper_space(&m->space, m->bilevel->upper);
    w.lower = fli_lower_space(&m->space, m->bilevel->upper);
    fl_epochs e = fli_epochs_of(m, &at->worker->spec, l->samples, 0);
    out->steps = fli_levels_cost(&p->levels, p->steps, &e);
    t->problem.steps = steps_of(&p->levels, p->steps, &e);
    split_samples(&w, t);
    kinds[p->levels.work](&w);
    return FL_OK;
}

const fl_solver fli_solver_bilevel = {.name = "bilevel", .solve = solve, .work = FLI_W_VECTORS, .vectors = ANSWERS};

/* ==== derivatives over all samples ======================================================================== */

/* For metrics. The samples of either level are those of the client's turns. */

/* One piece of the samples; returns the mean of f for an upper gradient. */
static double derivative_of_piece(const fli_model *m, const fli_derivative *d, const void *direction, fli_eval *e)
{
    if (d->work == FL_WORK_UPPER_GRADIENT) return fli_bilevel_upper(m, d->z, &e->batch, e->part, e->scratch);
    if (d->work == FL_WORK_LOWER_GRADIENT)
        fli_bilevel_lower(m, d->z, &e->batch, e->part, e->scratch);
    else
        fli_bilevel_product(m, d->z, &e->batch, direction, e->part, e->scratch);
    return 0;
}

fl_status fli_derivative_over(fl_ctx *ctx, fli_eval *e, const fli_view *view, const fli_derivative *d, void *out)
{
    const fli_model *m = e->model;
    const fli_ops *ops = m->space.ops;
    size_t n = view->n_train, p = m->bilevel->upper;
    double value = 0;
    fl_space upper = fli_upper_space(&m->space, p), lower = fli_lower_space(&m->space, p);
    uint32_t *order = fli_alloc(ctx, n, sizeof *order);
    void *direction = fli_alloc(ctx, m->space.n, ops->size); /* zero in the upper block */
    fl_status s = order && direction ? FL_OK : FL_ENOMEM;
    if (s) goto done;
    if (d->v) fli_copy(&lower, fli_cat(ops, d->v, p), fli_at(ops, direction, p));
    size_t held = fli_levels_split(m, view, d->seed, d->client, order);
    fli_pieces at = fli_pieces_of(e, view->ds, order + held, n - held);
    if (held && d->work == FL_WORK_UPPER_GRADIENT) at = fli_pieces_of(e, view->ds, order, held);
    fli_zero(&m->space, out);
    while (fli_pieces_next(&at)) {
        value += fli_pieces_share(&at) * derivative_of_piece(m, d, direction, e);
        fli_pieces_add(&at, out);
    }
    if (d->work == FL_WORK_LOWER_GRADIENT) fli_zero(&upper, out);
    if (d->value) *d->value = value;
done:
    fli_free(order);
    fli_free(direction);
    return s;
}

/* ==== all blocks at once ================================================================================== */

/* All three sequences of a bilevel problem at once ([FBO], Algorithm 1, client): from (x, y, v) Q_i steps
 * k = 0, 1, ...
 *
 *     d_y = grad_y g_i,   d_v = g_yy v - grad_y f_i,   d_x = grad_x f_i - g_xy v   (at the values before the step)
 *     y <- y - lr_y a_k d_y;   v <- v - lr_v a_k d_v;   x <- x - lr_x a_k d_x;   q += a_k d
 *
 * lr_x is the problem's lr. */

double fli_coef(const fl_coefs *c, size_t k)
{
    return c->v[k < c->n ? k : c->n - 1] * pow(c->decay, (double)k) * c->scale;
}

double fli_coef_sum(const fl_coefs *c, size_t steps)
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
    work_f(w, z, f);
    fli_pass_next(&w->train, w->rng);
    work_g(w, z, g);
    work_hv(w, z, v, hv);
    if (isnan(w->out->levels.norm)) w->out->levels.norm = sqrt(fli_dot(&w->lower, fli_low(w, f), fli_low(w, f)));
    /* d_v = g_yy v - grad_y f */
    fli_sub(&w->lower, fli_low(w, hv), fli_low(w, f), fli_low(w, hv));
    /* d_x = grad_x f - g_xy v */
    fli_sub(&w->upper, f, hv, g);
    return (direction){g, hv};
}

static void work_together(fli_bilevel_work *w)
{
    const fl_problem *p = w->problem;
    const fl_levels *l = &p->levels;
    const fl_space *all = &w->model->space;
    void *z = fli_work_vector(w, FLI_W_U), *v = work_direction(w), *q = w->z, *qv = w->qv;
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

/* ==== one block at a time ================================================================================= */

/* The work of methods with nested loops: single derivatives at (x, y), and steps on one block.
 *
 * With a shift, steps are variance reduced: u <- u - lr (d_i(u) - d_i(start) + shift), both derivatives over the same
 * mini-batch. */

static void work_lower_gradient(fli_bilevel_work *w)
{
    fli_pass_next(&w->train, w->rng);
    work_g(w, w->problem->start, w->z);
    fli_zero(&w->upper, w->z);
}

static void work_upper_gradient(fli_bilevel_work *w)
{
    fli_pass_next(&w->validation, w->rng);
    work_f(w, w->problem->start, w->z);
}

static void work_product(fli_bilevel_work *w)
{
    fli_pass_next(&w->train, w->rng);
    work_hv(w, w->problem->start, work_direction(w), w->z);
}

/* f holds grad f at z; its upper block becomes grad_x f - g_xy v */
static void hypergradient(fli_bilevel_work *w, const void *z, const void *v, void *f)
{
    void *hv = fli_work_vector(w, FLI_W_H);
    work_hv(w, z, v, hv);
    fli_sub(&w->upper, f, hv, f);
}

static void work_hypergradient(fli_bilevel_work *w)
{
    fli_pass_next(&w->validation, w->rng);
    fli_pass_next(&w->train, w->rng);
    work_f(w, w->problem->start, w->z);
    hypergradient(w, w->problem->start, work_direction(w), w->z);
    fli_zero(&w->lower, fli_low(w, w->z));
}

static void work_lower_steps(fli_bilevel_work *w)
{
    const fl_problem *p = w->problem;
    const void *shift = p->levels.shift;
    void *z = w->z, *g = w->worker->grad, *at_start = fli_work_vector(w, FLI_W_G);
    for (size_t k = 0; k < p->steps && !fli_halted(w->worker->halt); k++) {
        fli_pass_next(&w->train, w->rng);
        work_g(w, z, g);
        if (shift) {
            work_g(w, p->start, at_start);
            fli_axpy(&w->lower, -1, fli_low(w, at_start), fli_low(w, g));
            fli_axpy(&w->lower, 1, fli_clow(w, shift), fli_low(w, g));
        }
        fli_axpy(&w->lower, -p->lr, fli_low(w, g), fli_low(w, z));
    }
}

static void work_upper_steps(fli_bilevel_work *w)
{
    const fl_problem *p = w->problem;
    void *z = w->z, *f = w->worker->grad, *at_start = fli_work_vector(w, FLI_W_G);
    for (size_t k = 0; k < p->steps && !fli_halted(w->worker->halt); k++) {
        fli_pass_next(&w->validation, w->rng);
        work_f(w, z, f);
        work_f(w, p->start, at_start);
        fli_axpy(&w->upper, -1, at_start, f);
        fli_axpy(&w->upper, 1, p->levels.shift, f);
        fli_axpy(&w->upper, -p->lr, f, z);
    }
}

/* v's lower block = (1/ell) sum_{n=0..N} (I - H/ell)^n grad_y f, with H = g_yy over the current mini-batch; f holds
 * grad f at z */
static void neumann(fli_bilevel_work *w, const void *z, const void *f, void *v)
{
    const fl_levels *l = &w->problem->levels;
    void *term = fli_work_vector(w, FLI_W_U), *hv = fli_work_vector(w, FLI_W_H);
    fli_zero(&w->upper, term);
    fli_copy(&w->lower, fli_clow(w, f), fli_low(w, term));
    fli_copy(&w->model->space, term, v);
    for (size_t n = 0; n < l->neumann && !fli_halted(w->worker->halt); n++) {
        work_hv(w, z, term, hv);
        fli_axpy(&w->lower, -1 / l->ell, fli_low(w, hv), fli_low(w, term));
        fli_axpy(&w->lower, 1, fli_low(w, term), fli_low(w, v));
    }
    fli_scale(&w->lower, 1 / l->ell, fli_low(w, v));
}

static void work_own_steps(fli_bilevel_work *w)
{
    const fl_problem *p = w->problem;
    void *z = w->z, *d = w->worker->grad, *v = fli_work_vector(w, FLI_W_V);
    for (size_t k = 0; k < p->steps && !fli_halted(w->worker->halt); k++) {
        fli_pass_next(&w->validation, w->rng);
        fli_pass_next(&w->train, w->rng);
        work_f(w, z, d);
        neumann(w, z, d, v);
        hypergradient(w, z, v, d);
        fli_axpy(&w->upper, -p->lr, d, z);
    }
}
