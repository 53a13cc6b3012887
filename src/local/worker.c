/* The memory of a worker, gradients over any number of samples in it, and which models a solver is for. */
#include "local/local.h"

#include "model/semi.h"

/* Longer batches are computed in pieces of this many samples, unless the model asks for fewer, and summed: memory stays bounded, matrix
 * products are at full speed long before, and what a piece leaves behind for the next layer is still in the cache. */
enum { PIECE = 256 };

/* So that each vector starts on a cache line. */
static size_t stride(const fli_space *s) { return (fli_bytes(s) + 63) / 64 * 64; }

void *fli_worker_vector(const fli_worker *w, size_t i) { return (char *)w->extra + i * stride(&w->model->space); }

/* What mini-batches with a second block need; see draw.c. */
static fl_status latent_init(fl_ctx *ctx, size_t largest, fli_worker *w)
{
    const fli_model *m = w->model;
    if (!m->latent) return FL_OK;
    size_t size = m->latent->size(m) * m->space.ops->size;
    w->latent_order = fli_alloc(ctx, largest, sizeof *w->latent_order);
    w->index = fli_alloc(ctx, w->batch.capacity, sizeof *w->index);
    w->rows = fli_alloc(ctx, w->batch.capacity, size);
    if (!m->latent->kept) w->y = fli_alloc(ctx, largest, size);
    return w->latent_order && w->index && w->rows && (w->y || m->latent->kept) ? FL_OK : FL_ENOMEM;
}

fl_status fli_worker_init(fl_ctx *ctx, const fli_model *m, const fli_sgd_spec *spec, size_t largest, size_t vectors,
                          fli_worker *w)
{
    const fli_space *s = &m->space;
    *w = (fli_worker){.model = m, .spec = *spec};
    size_t piece = m->piece ? m->piece : PIECE;
    fl_status status = fli_model_batch(ctx, m, piece, &w->batch);
    if (status) return status;
    w->scratch = fli_alloc(ctx, fli_model_scratch(m, piece), 1);
    w->grad = fli_alloc(ctx, s->n, s->ops->size);
    w->part = fli_alloc(ctx, s->n, s->ops->size);
    w->linear = fli_alloc(ctx, s->n, s->ops->size);
    w->z = fli_alloc(ctx, s->n, s->ops->size);
    w->order = fli_alloc(ctx, largest, sizeof *w->order);
    if (spec->momentum > 0) w->buffer = fli_alloc(ctx, s->n, s->ops->size);
    if (vectors) w->extra = fli_alloc(ctx, vectors, stride(s));
    if (w->scratch && w->grad && w->part && w->linear && w->z && w->order && (w->buffer || spec->momentum <= 0) &&
        (w->extra || !vectors) && !latent_init(ctx, largest, w))
        return FL_OK;
    fli_worker_fini(w);
    return FL_ENOMEM;
}

double fli_worker_bytes(const fli_model *m, const fli_sgd_spec *spec, size_t largest, size_t vectors)
{
    size_t piece = m->piece ? m->piece : PIECE;
    double vector = (double)fli_bytes(&m->space), own = 4 + (spec->momentum > 0) + (double)vectors;
    double batch = m->sparse ? 0 : (double)piece * (double)m->features * (double)m->space.ops->size;
    return own * vector + (double)fli_model_scratch(m, piece) + batch + (double)largest * sizeof(uint32_t);
}

void fli_worker_fini(fli_worker *w)
{
    fli_batch_fini(&w->batch);
    fli_free(w->scratch);
    fli_free(w->grad);
    fli_free(w->part);
    fli_free(w->linear);
    fli_free(w->z);
    fli_free(w->order);
    fli_free(w->buffer);
    fli_free(w->extra);
    fli_free(w->latent_order);
    fli_free(w->index);
    fli_free(w->y);
    fli_free(w->rows);
    *w = (fli_worker){0};
}

const fli_solver *fli_solver_on(const fli_model *m, const fli_solver *wanted)
{
    return m->latent && wanted == &fli_solver_sgd ? &fli_solver_blocks : wanted;
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

double fli_worker_eval_pair(fli_worker *w, const fli_dataset *ds, const uint32_t *idx, size_t n, const void *x,
                            const void *own, double mix, size_t *correct)
{
    double loss = 0;
    *correct = 0;
    for (size_t at = 0; at < n; at += w->batch.n) {
        size_t piece = n - at < w->batch.capacity ? n - at : w->batch.capacity, hits = 0;
        fli_batch_gather(&w->batch, ds, idx + at, piece);
        loss += (double)piece / (double)n * fli_pair_loss(w->model, x, own, mix, &w->batch, &hits, w->scratch);
        *correct += hits;
    }
    return loss;
}
