/* Evaluation of models on any number of samples, in bounded memory: losses and gradients, the solvers that answer with
 * a gradient over all samples, and a client's whole objective. */
#include "model/model.h"
#include "model/semi.h"
#include "solver/minibatch.h"
#include "solver/worker.h"

#include <math.h>

/* ==== losses and gradients ================================================================================ */

/* The memory for rows of the second block. */
static size_t rows_bytes(const fli_model *m)
{
    if (!m->latent || m->latent->every) return 0;
    return 2 * fli_piece_of(m) * m->latent->size(m) * m->space.ops->size;
}

fl_status fli_eval_init(fl_ctx *ctx, const fli_model *m, fli_eval *out)
{
    *out = (fli_eval){.model = m};
    fl_status s = fli_model_batch(ctx, m, fli_piece_of(m), &out->batch);
    if (s) return s;
    out->scratch = fli_alloc_unset(ctx, fli_model_scratch(m, fli_piece_of(m)), 1);
    out->part = fli_alloc_unset(ctx, m->space.n, m->space.ops->size);
    if (rows_bytes(m)) out->rows = fli_alloc(ctx, rows_bytes(m), 1);
    if (out->scratch && out->part && (out->rows || !rows_bytes(m))) return FL_OK;
    fli_eval_fini(out);
    return FL_ENOMEM;
}

void fli_eval_fini(fli_eval *e)
{
    fli_batch_fini(&e->batch);
    fli_free(e->scratch);
    fli_free(e->part);
    fli_free(e->rows);
    *e = (fli_eval){0};
}

double fli_eval_bytes(const fli_model *m)
{
    size_t piece = fli_piece_of(m);
    double batch = m->sparse ? 0 : (double)piece * (double)m->features * (double)m->space.ops->size;
    return (double)fli_bytes(&m->space) + (double)fli_model_scratch(m, piece) + (double)rows_bytes(m) + batch;
}

double fli_eval_loss(fli_eval *e, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, void *g,
                     size_t *correct)
{
    const fli_model *m = e->model;
    if (e->elsewhere) return e->elsewhere->loss(e->elsewhere->arg, ds, idx, n, x, g, correct);
    fli_pieces p = fli_pieces_of(e, ds, idx, n);
    double loss = 0;
    size_t hits = 0;
    if (g) fli_zero(&m->space, g);
    while (fli_pieces_next(&p)) {
        size_t hit = 0;
        loss += fli_pieces_share(&p) * m->desc->grad(m, x, &e->batch, g ? e->part : NULL, &hit, e->scratch);
        if (g) fli_pieces_add(&p, g);
        hits += hit;
    }
    if (correct) *correct = hits;
    return loss;
}

double fli_eval_pair(fli_eval *e, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, const void *own,
                     double mix, size_t *correct)
{
    if (e->elsewhere) return e->elsewhere->pair(e->elsewhere->arg, ds, idx, n, x, own, mix, correct);
    fli_pieces p = fli_pieces_of(e, ds, idx, n);
    double loss = 0;
    *correct = 0;
    while (fli_pieces_next(&p)) {
        size_t hits = 0;
        loss += fli_pieces_share(&p) * fli_pair_loss(e->model, x, own, mix, &e->batch, p.n, NULL, &hits, e->scratch);
        *correct += hits;
    }
    return loss;
}

/* ==== solvers that answer with a gradient ================================================================= */

/* The gradient of f_i at the start of a local problem, over all of the client's samples: for methods that exchange
 * gradients in addition to models. Alone, or before the steps of SGD on the same problem, which have the same bits as
 * in sgd.c. */

enum { GRADIENT, ANSWERS }; /* of the task */

size_t fli_start_gradient(fli_worker *w, const fli_task *t, void *g)
{
    const fli_view *v = t->view;
    const void *x = t->problem.start;
    fli_eval_loss(w->eval, v->ds, v->train, v->n_train, x, g, NULL);
    if (w->model->weight_decay > 0) fli_axpy(&w->model->space, fli_model_decay(w->model, v->n_train), x, g);
    return fli_epoch_steps(&w->spec, v->n_train);
}

static int solve_gradient(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_answer *out, fl_failure *f)
{
    const fli_local *e = l->engine;
    void *g = fl_local_vector(l, GRADIENT);
    (void)arg, (void)p, (void)z, (void)f;
    out->steps = fli_start_gradient(e->worker, e->task, g);
    out->gradient = g;
    return FL_OK;
}

static int solve_sgd(void *arg, const fl_local *l, const fl_problem *p, void *z, fl_answer *out, fl_failure *f)
{
    const fli_local *e = l->engine;
    void *g = fl_local_vector(l, GRADIENT);
    (void)arg, (void)p, (void)z, (void)f;
    size_t spent = fli_start_gradient(e->worker, e->task, g);
    *out = fli_sgd_train(e->worker, e->task, NULL);
    out->gradient = g;
    out->steps += spent;
    return FL_OK;
}

/* Without FL_SOLVER_AUGMENTS: a correction by this gradient would be wrong by the effect of augmentation. Together with
 * SGD the method uses it as a direction only. */
const fl_solver fli_solver_gradient = {
    .name = "gradient", .traits = FL_SOLVER_FULL_GRADIENT, .solve = solve_gradient, .vectors = ANSWERS};

const fl_solver fli_solver_sgd_gradient = {.name = "sgd-gradient",
                                           .traits =
                                               FL_SOLVER_FULL_GRADIENT | FL_SOLVER_AUGMENTS | FL_SOLVER_COUNTS_STEPS,
                                           .solve = solve_sgd,
                                           .vectors = ANSWERS};

/* ==== a client's whole objective ========================================================================== */

/* Between two turns: f_i(x, y_i), with the client's current second block, or F_i of a personalised pair ([CPSL] (4),
 * (6c)). */

/* Whether the outputs of two models are mixed; otherwise there is one model. */
static int mixes(const fli_objective_at *at) { return at->own && at->mix < 1; }
static const void *only(const fli_objective_at *at) { return at->own ? at->own : at->x; }

static int has_rows(const fli_model *m) { return m->latent && !m->latent->every; }

/* y of the samples in the batch, in the evaluation's memory. */
static void *rows_now(const fli_pieces *p, const fli_objective_at *at)
{
    fli_eval *e = p->eval;
    const fli_model *m = e->model;
    if (!fli_latents_now(m, p->all, p->at, p->n, at->kept, e->rows) || at->ahead)
        m->latent->improve(m, at->x, &e->batch, p->all, e->rows, e->scratch);
    return e->rows;
}

static double over_latents(fli_eval *e, const fli_view *v, const fli_objective_at *at, void *g)
{
    const fli_model *m = e->model;
    double sum = 0;
    size_t hits;
    fli_pieces p = fli_pieces_of(e, v->ds, v->unlabelled, v->n_unlabelled);
    while (fli_pieces_next(&p)) {
        const void *y = rows_now(&p, at);
        double f = mixes(at) ? fli_pair_loss(m, at->x, at->own, at->mix, &e->batch, 0, y, &hits, e->scratch)
                             : m->latent->grad(m, only(at), &e->batch, 0, y, g ? e->part : NULL, e->scratch);
        if (mixes(at) && g) fli_pair_grad(m, at->x, at->own, at->mix, &e->batch, 0, y, NULL, e->part, e->scratch);
        sum += fli_pieces_share(&p) * f;
        if (g) fli_pieces_add(&p, g);
    }
    return sum;
}

/* The gradient of the mixture's mean loss over labelled samples, in the own model. */
static void pair_gradient(fli_eval *e, const fli_view *v, const fli_objective_at *at, void *g)
{
    const fli_model *m = e->model;
    fli_pieces p = fli_pieces_of(e, v->ds, v->train, v->n_train);
    fli_zero(&m->space, g);
    while (fli_pieces_next(&p)) {
        fli_pair_grad(m, at->x, at->own, at->mix, &e->batch, p.n, NULL, NULL, e->part, e->scratch);
        fli_pieces_add(&p, g);
    }
}

fli_objective fli_eval_objective(fli_eval *e, const fli_view *v, const fli_objective_at *at, void *g)
{
    fli_objective o = {0};
    if (e->elsewhere) return e->elsewhere->objective(e->elsewhere->arg, v, at, g);
    if (mixes(at)) {
        o.labelled = fli_eval_pair(e, v->ds, v->train, v->n_train, at->x, at->own, at->mix, &o.correct);
        if (g) pair_gradient(e, v, at, g);
    } else
        o.labelled = fli_eval_loss(e, v->ds, v->train, v->n_train, only(at), g, &o.correct);
    o.value = o.labelled;
    if (has_rows(e->model) && v->n_unlabelled) o.value += over_latents(e, v, at, g);
    return o;
}

double fli_eval_second_block(fli_eval *e, const fli_view *v, const fli_objective_at *at)
{
    const fli_model *m = e->model;
    const fli_ops *ops = m->space.ops;
    double sum = 0;
    if (!has_rows(m)) return 0;
    if (e->elsewhere) return e->elsewhere->second_block(e->elsewhere->arg, v, at);
    fli_pieces p = fli_pieces_of(e, v->ds, v->unlabelled, v->n_unlabelled);
    while (fli_pieces_next(&p)) {
        size_t reals = p.n * m->latent->size(m);
        void *before = rows_now(&p, at), *after = fli_at(ops, before, reals);
        memcpy(after, before, reals * ops->size);
        m->latent->improve(m, at->x, &e->batch, p.all, after, e->scratch);
        ops->axpy(reals, -1, before, after);
        sum += ops->dot(reals, after, after);
    }
    return sum;
}

double fli_eval_block_slope(fli_eval *e, const fli_view *v, const fli_objective_at *at)
{
    const fli_model *m = e->model;
    const fli_ops *ops = m->space.ops;
    double sum = 0, lr = 0;
    size_t steps, drawn = has_rows(m) && m->latent->batch ? m->latent->batch(m, &steps) : 0;
    if (!has_rows(m) || !m->latent->kept || !at->kept || e->elsewhere) return NAN;
    if (drawn && drawn < v->n_unlabelled) return NAN; /* turns take steps of another size than a step over all */
    fli_pieces p = fli_pieces_of(e, v->ds, v->unlabelled, v->n_unlabelled);
    while (fli_pieces_next(&p)) {
        size_t reals = p.n * m->latent->size(m);
        void *before = rows_now(&p, at), *after = fli_at(ops, before, reals);
        lr = m->latent->rule(m, at->x, &e->batch, p.all, e->scratch).lr;
        memcpy(after, before, reals * ops->size);
        m->latent->step(m, at->x, &e->batch, p.all, after, e->scratch);
        ops->axpy(reals, -1, before, after);
        sum += ops->dot(reals, after, after);
    }
    return sum > 0 ? sum / (lr * lr) : 0;
}
