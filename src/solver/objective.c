/* A client's whole objective between two turns: f_i(x, y_i), with the second block as the client has it, or F_i of a
 * personalised pair ([CPSL] (4), (6c)). */
#include "solver/latents.h"
#include "solver/pieces.h"
#include "model/latent.h"
#include "model/semi.h"

#include <math.h>

/* Where two models' outputs are mixed; else there is one. */
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
