/* Local work on a bilevel problem: which samples belong to which level, and derivatives over mini-batches of them.
 *
 * Every step takes one mini-batch of the training samples, for grad_y g and the products with g's second derivatives,
 * and one of the validation samples, for f. A client's split is the same in all its turns: a random order keyed by
 * seed and client, the validation samples first. */
#include "solver/bilevel_work.h"

#include "solver/pieces.h"

#include <math.h>
#include <string.h>

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

/* Without validation samples of their own both levels see all of the client's, in passes of one order: each shuffles
 * it anew. */
static void split(fli_bilevel_work *w, const fli_task *t)
{
    const fli_sgd_spec all = {.batch = 0}, *spec = t->problem.levels.full ? &all : &w->worker->spec;
    uint32_t *order = w->worker->order;
    size_t n = w->view->n_train, held = fli_levels_split(w->model, w->view, t->seed, t->client, order);
    w->validation = fli_pass_over(spec, order, held ? held : n);
    w->train = fli_pass_over(spec, order + held, n - held);
}

/* One derivative over a batch that was gathered. */
typedef void piece_fn(const fli_model *m, const void *z, const fli_batch *b, const void *v, void *out, void *scratch);

static void piece_f(const fli_model *m, const void *z, const fli_batch *b, const void *v, void *out, void *scratch)
{
    (void)v;
    fli_bilevel_upper(m, z, b, out, scratch);
}

static void piece_g(const fli_model *m, const void *z, const fli_batch *b, const void *v, void *out, void *scratch)
{
    (void)v;
    fli_bilevel_lower(m, z, b, out, scratch);
}

/* The mean over a mini-batch, in pieces that fit the worker's memory. */
static void over(fli_bilevel_work *w, const fli_sample_pass *pass, piece_fn *fn, const void *z, const void *v,
                 void *out)
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

void *fli_work_direction(const fli_bilevel_work *w)
{
    void *v = fli_work_vector(w, FLI_W_V);
    fli_zero(&w->upper, v);
    fli_copy(&w->lower, fli_clow(w, w->problem->levels.v), fli_low(w, v));
    return v;
}

void fli_work_f(fli_bilevel_work *w, const void *z, void *d) { over(w, &w->validation, piece_f, z, NULL, d); }
void fli_work_g(fli_bilevel_work *w, const void *z, void *d) { over(w, &w->train, piece_g, z, NULL, d); }
void fli_work_hv(fli_bilevel_work *w, const void *z, const void *v, void *out)
{
    over(w, &w->train, fli_bilevel_product, z, v, out);
}

fli_epochs fli_epochs_of(const fli_model *m, const fli_sgd_spec *spec, size_t labelled, size_t unlabelled)
{
    fli_epochs e = {.all = fli_objective_steps(m, spec, labelled, unlabelled)};
    size_t held = m->bilevel ? fli_validation_count(m->bilevel->common.validation, labelled) : 0;
    e.upper = fli_epoch_steps(spec, held ? held : labelled);
    e.lower = fli_epoch_steps(spec, labelled - held);
    return e;
}

/* Steps on one level, of which epochs have as many as its samples need. */
static size_t steps_of(const fli_levels *l, size_t steps, const fli_epochs *e)
{
    if (!l->epochs) return steps;
    return l->epochs * (l->work == FLI_WORK_LOWER_STEPS ? e->lower : e->upper);
}

size_t fli_levels_cost(const fli_levels *l, size_t steps, const fli_epochs *e)
{
    size_t f = l->full ? e->upper : 1, g = l->full ? e->lower : 1, n = steps_of(l, steps, e);
    switch (l->work) {
    case FLI_WORK_LOWER_GRADIENT:
    case FLI_WORK_PRODUCT: return g;
    case FLI_WORK_UPPER_GRADIENT: return f;
    case FLI_WORK_HYPERGRADIENT: return f + g;
    case FLI_WORK_TOGETHER: return (f + 2 * g) * n; /* of f, of g, a product */
    case FLI_WORK_LOWER_STEPS: return (l->shift ? 2 : 1) * g * n;
    case FLI_WORK_UPPER_STEPS: return 2 * f * n;
    case FLI_WORK_OWN_STEPS: return (f + (l->neumann + 1) * g) * n;
    }
    return steps;
}

static fli_bilevel_fn *const kinds[] = {
    [FLI_WORK_TOGETHER] = fli_work_together,
    [FLI_WORK_LOWER_GRADIENT] = fli_work_lower_gradient,
    [FLI_WORK_UPPER_GRADIENT] = fli_work_upper_gradient,
    [FLI_WORK_PRODUCT] = fli_work_product,
    [FLI_WORK_HYPERGRADIENT] = fli_work_hypergradient,
    [FLI_WORK_LOWER_STEPS] = fli_work_lower_steps,
    [FLI_WORK_UPPER_STEPS] = fli_work_upper_steps,
    [FLI_WORK_OWN_STEPS] = fli_work_own_steps,
};

static fl_status solve_task(fl_ctx *ctx, fli_worker *worker, fli_task *t)
{
    const fli_model *m = worker->model;
    fli_bilevel_work w = {.worker = worker,
                          .model = m,
                          .view = t->view,
                          .problem = &t->problem,
                          .rng = &t->rng,
                          .z = t->z,
                          .qv = fli_task_vector(t, QV),
                          .out = &t->answer};
    (void)ctx;
    w.upper = fli_upper_space(&m->space, m->bilevel->upper);
    w.lower = fli_lower_space(&m->space, m->bilevel->upper);
    fli_epochs e = fli_epochs_of(m, &worker->spec, t->view->n_train, 0);
    t->answer = (fli_answer){.z = t->z, .steps = fli_levels_cost(&t->problem.levels, t->problem.steps, &e)};
    t->problem.steps = steps_of(&t->problem.levels, t->problem.steps, &e);
    split(&w, t);
    kinds[t->problem.levels.work](&w);
    return FL_OK;
}

static void solve(fl_ctx *ctx, void *instance, fli_task *const *tasks, size_t n)
{
    fli_worker_each(ctx, instance, tasks, n, solve_task);
}

const fli_solver fli_solver_bilevel = {
    .name = "bilevel", .vectors = FLI_W_VECTORS, .answers = ANSWERS, .solve = solve, FLI_WORKER_INSTANCE};
