/* The instance of solvers that run on a CPU: its memory. */
#include "solver/worker.h"

#include "model/model.h"

void *fli_worker_vector(const fli_worker *w, size_t i)
{
    return (char *)w->extra + i * fli_vector_stride(&w->model->space);
}

/* Memory for mini-batches with a second block; see minibatch.c. */
static fl_status latent_init(fl_ctx *ctx, size_t largest, fli_worker *w)
{
    const fli_model *m = w->model;
    if (!m->latent) return FL_OK;
    size_t size = m->latent->size(m) * m->space.ops->size, capacity = w->eval->batch.capacity;
    w->latent_order = fli_alloc(ctx, largest, sizeof *w->latent_order);
    w->index = fli_alloc(ctx, capacity, sizeof *w->index);
    w->rows = fli_alloc(ctx, capacity, size);
    if (!m->latent->kept) w->y = fli_alloc(ctx, largest, size);
    return w->latent_order && w->index && w->rows && (w->y || m->latent->kept) ? FL_OK : FL_ENOMEM;
}

fl_status fli_worker_open(fl_ctx *ctx, const fl_solver *solver, const fli_open *how, void **instance)
{
    const fl_space *s = &how->model->space;
    int momentum = how->sgd.momentum > 0;
    fli_worker *w = fli_alloc(ctx, 1, sizeof *w);
    if (!w) return FL_ENOMEM;
    *w = (fli_worker){.model = how->model, .spec = how->sgd, .eval = how->eval, .halt = how->halt};
    w->grad = fli_alloc(ctx, s->n, s->ops->size);
    w->linear = fli_alloc(ctx, s->n, s->ops->size);
    w->order = fli_alloc(ctx, how->largest, sizeof *w->order);
    if (momentum) w->buffer = fli_alloc(ctx, s->n, s->ops->size);
    if (solver->work) w->extra = fli_alloc(ctx, solver->work, fli_vector_stride(s));
    if (w->grad && w->linear && w->order && (w->buffer || !momentum) && (w->extra || !solver->work) &&
        !latent_init(ctx, how->largest, w)) {
        *instance = w;
        return FL_OK;
    }
    fli_worker_close(w);
    return FL_ENOMEM;
}

void fli_worker_close(void *instance)
{
    fli_worker *w = instance;
    if (!w) return;
    fli_free(w->grad);
    fli_free(w->linear);
    fli_free(w->order);
    fli_free(w->buffer);
    fli_free(w->extra);
    fli_free(w->latent_order);
    fli_free(w->index);
    fli_free(w->y);
    fli_free(w->rows);
    fli_free(w);
}

double fli_worker_bytes(const fl_solver *solver, const fli_open *how)
{
    double vectors = 2 + (how->sgd.momentum > 0) + (double)solver->work;
    return vectors * (double)fli_bytes(&how->model->space) + (double)how->largest * sizeof(uint32_t);
}
