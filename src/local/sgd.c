/* Mini-batch SGD with momentum on the local problem. The terms of the problem (weight decay, shift, proximal) are folded into
 * the update, one pass over the parameters per step, or none of its own where the model can step while it computes its gradient. */
#include "local/worker.h"

#include <math.h>

size_t fli_batch_size(const fli_sgd_spec *spec, size_t n)
{
    size_t size = spec->batch;
    if (spec->fraction > 0) /* 0.07 * 100 is a little more than 7 */
        size = (size_t)fmax(1, ceil(spec->fraction * (double)n - 1e-9));
    return size && size < n ? size : n;
}

size_t fli_epoch_steps(const fli_sgd_spec *spec, size_t n)
{
    size_t size = fli_batch_size(spec, n);
    return size ? (n + size - 1) / size : 1;
}

/* Where a client is in its pass over the data. */
typedef struct {
    const fli_view *v;
    fli_rng *rng;
    void *z;
    size_t at; /* next sample in the worker's order */
    uint32_t epoch;
} cursor;

static void gather(fli_worker *w, const cursor *c, const uint32_t *idx, size_t n)
{
    fli_batch_gather(&w->eval->batch, c->v->ds, idx, n);
    if (c->v->ds->augment) fli_batch_augment(&w->eval->batch, c->v->ds, idx, c->rng, c->epoch);
}

/* The gradient of f_i without weight decay over samples idx[0 .. n-1]. */
static void gradient(fli_worker *w, const cursor *c, const uint32_t *idx, size_t n, int gathered)
{
    const fli_model *m = w->model;
    size_t capacity = w->eval->batch.capacity;
    if (n <= capacity) {
        if (!gathered) gather(w, c, idx, n);
        m->desc->grad(m, c->z, &w->eval->batch, w->grad, NULL, w->eval->scratch);
        return;
    }
    fli_zero(&m->space, w->grad);
    for (size_t at = 0; at < n; at += capacity) {
        size_t piece = n - at < capacity ? n - at : capacity;
        gather(w, c, idx + at, piece);
        m->desc->grad(m, c->z, &w->eval->batch, w->eval->part, NULL, w->eval->scratch);
        fli_axpy(&m->space, (double)piece / (double)n, w->eval->part, w->grad);
    }
}

static void take_step(fli_worker *w, const cursor *c, const uint32_t *idx, size_t n, int gathered,
                      const fli_sgd_step *step)
{
    const fli_model *m = w->model;
    if (!m->desc->step || n > w->eval->batch.capacity) {
        gradient(w, c, idx, n, gathered);
        m->space.ops->sgd(m->space.n, step, c->z);
        return;
    }
    if (!gathered) gather(w, c, idx, n);
    m->desc->step(m, &w->eval->batch, step, w->grad, c->z, w->eval->scratch);
}

/* The next mini-batch of the pass; a fresh order when the last one is used up. */
static void next_batch_step(fli_worker *w, cursor *c, const fli_sgd_step *step)
{
    size_t n = c->v->n_train, size = fli_batch_size(&w->spec, n);
    if (c->at == n) c->at = 0, c->epoch++;
    if (c->at == 0) fli_rng_shuffle(c->rng, n, w->order);
    if (size > n - c->at) size = n - c->at;
    take_step(w, c, w->order + c->at, size, 0, step);
    c->at += size;
}

/* shift + rho (z - anchor) = (shift - rho anchor) + rho z: a vector less to read in every step, for one to write in the first. */
static void merge_terms(fli_worker *w, const fli_problem *p, fli_sgd_step *step)
{
    if (!p->shift || !p->anchor || p->steps < 3) return;
    fli_lin(&w->model->space, 1, p->shift, -p->rho, p->anchor, w->linear);
    step->shift = w->linear;
    step->anchor = NULL;
    step->wd += p->rho;
}

double fli_sgd_weight(double momentum, size_t steps)
{
    double q = (double)steps, g = momentum;
    return g > 0 ? q / (1 - g) - g * (1 - pow(g, q)) / ((1 - g) * (1 - g)) : q;
}

fli_sgd_step fli_sgd_begin(fli_worker *w, const fli_problem *p)
{
    if (w->buffer) fli_zero(&w->model->space, w->buffer);
    fli_sgd_step step = {.lr = p->lr,
                         .wd = w->model->weight_decay,
                         .rho = p->rho,
                         .momentum = w->spec.momentum,
                         .grad = w->grad,
                         .shift = p->shift,
                         .anchor = p->anchor,
                         .buffer = w->buffer};
    merge_terms(w, p, &step);
    return step;
}

static fl_status solve_task(fl_ctx *ctx, fli_worker *w, fli_task *t)
{
    const fli_problem *p = &t->problem;
    const fli_view *v = t->view;
    int full = fli_batch_size(&w->spec, v->n_train) == v->n_train;
    cursor c = {.v = v, .rng = &t->rng, .z = t->z};
    fli_sgd_step step = fli_sgd_begin(w, p);
    (void)ctx;
    fli_copy(&w->model->space, p->start, t->z);
    if (!full) memcpy(w->order, v->train, v->n_train * sizeof *w->order);
    for (size_t k = 0; k < p->steps; k++) {
        if (full) {
            c.epoch = (uint32_t)k;
            take_step(w, &c, v->train, v->n_train, k > 0 && !v->ds->augment, &step);
        } else {
            next_batch_step(w, &c, &step);
        }
    }
    t->answer = (fli_answer){.z = t->z, .weight = fli_sgd_weight(w->spec.momentum, p->steps), .steps = p->steps};
    return FL_OK;
}

static void solve(fl_ctx *ctx, void *instance, fli_task *const *tasks, size_t n)
{
    fli_worker_each(ctx, instance, tasks, n, solve_task);
}

const fli_solver fli_solver_sgd = {
    .name = "sgd", .augments = 1, .counts_steps = 1, .latent = &fli_solver_blocks, .solve = solve, FLI_WORKER_INSTANCE};
