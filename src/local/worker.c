/* The memory of a worker, gradients over any number of samples in it, and which models a solver is for. */
#include "local/local.h"

/* Longer batches are computed in pieces of this many samples and summed: memory stays bounded, BLAS is at full speed long before. */
enum { PIECE = 512 };

/* So that each vector starts on a cache line. */
static size_t stride(const fli_space *s) { return (fli_bytes(s) + 63) / 64 * 64; }

void *fli_worker_vector(const fli_worker *w, size_t i) { return (char *)w->extra + i * stride(&w->model->space); }

fl_status fli_worker_init(fl_ctx *ctx, const fli_model *m, const fli_sgd_spec *spec, size_t largest, size_t vectors,
                          fli_worker *w)
{
    const fli_space *s = &m->space;
    *w = (fli_worker){.model = m, .spec = *spec};
    fl_status status = fli_model_batch(ctx, m, PIECE, &w->batch);
    if (status) return status;
    w->scratch = fli_alloc(ctx, fli_model_scratch(m, PIECE), 1);
    w->grad = fli_alloc(ctx, s->n, s->ops->size);
    w->part = fli_alloc(ctx, s->n, s->ops->size);
    w->z = fli_alloc(ctx, s->n, s->ops->size);
    w->order = fli_alloc(ctx, largest, sizeof *w->order);
    if (spec->momentum > 0) w->buffer = fli_alloc(ctx, s->n, s->ops->size);
    if (vectors) w->extra = fli_alloc(ctx, vectors, stride(s));
    if (w->scratch && w->grad && w->part && w->z && w->order && (w->buffer || spec->momentum <= 0) &&
        (w->extra || !vectors))
        return FL_OK;
    fli_worker_fini(w);
    return FL_ENOMEM;
}

void fli_worker_fini(fli_worker *w)
{
    fli_batch_fini(&w->batch);
    fli_free(w->scratch);
    fli_free(w->grad);
    fli_free(w->part);
    fli_free(w->z);
    fli_free(w->order);
    fli_free(w->buffer);
    fli_free(w->extra);
    *w = (fli_worker){0};
}

fl_status fli_solver_fits(fl_ctx *ctx, const fli_solver *solver, const fli_model *m)
{
    if ((m->desc->traits & solver->model_traits) == solver->model_traits) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "the %s solver is for %s; model %s needs another", solver->name, solver->models,
                    m->desc->name);
}

double fli_worker_eval(fli_worker *w, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x, void *g,
                       size_t *correct)
{
    const fli_model *m = w->model;
    double loss = 0;
    size_t hits = 0;
    if (g) fli_zero(&m->space, g);
    for (size_t at = 0; at < n; at += w->batch.n) {
        size_t piece = n - at < w->batch.capacity ? n - at : w->batch.capacity, hit = 0;
        double share = (double)piece / (double)n;
        fli_batch_gather(&w->batch, ds, idx + at, piece);
        loss += share * m->desc->grad(m, x, &w->batch, g ? w->part : NULL, &hit, w->scratch);
        if (g) fli_axpy(&m->space, share, w->part, g);
        hits += hit;
    }
    if (correct) *correct = hits;
    return loss;
}
