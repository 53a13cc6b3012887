#include "solver/latents.h"

#include "solver/minibatch.h"
#include "solver/pieces.h"
#include "model/latent.h"

fli_latents fli_latents_of(const fli_model *m, const fli_view *v)
{
    if (!m->latent) return (fli_latents){0};
    return m->latent->every ? (fli_latents){v->train, v->n_train} : (fli_latents){v->unlabelled, v->n_unlabelled};
}

/* What a client keeps: its y, behind a line that says how many bytes that is. */
enum { HEAD = 64 };

static void *kept_new(fl_ctx *ctx, size_t bytes)
{
    size_t *kept = fli_alloc(ctx, HEAD + bytes, 1);
    if (kept) *kept = bytes;
    return kept;
}

void fli_latents_save(const void *cache, fli_saver *out)
{
    size_t bytes = *(const size_t *)cache;
    fli_save_count(out, bytes);
    fli_save_bytes(out, (const char *)cache + HEAD, bytes);
}

fl_status fli_latents_load(fl_ctx *ctx, fli_loader *in, void **cache)
{
    uint64_t bytes = fli_load_count(in, SIZE_MAX / 2);
    fl_status s = fli_loader_status(in);
    if (s) return s;
    if (!(*cache = kept_new(ctx, (size_t)bytes))) return FL_ENOMEM;
    fli_load_bytes(in, (char *)*cache + HEAD, (size_t)bytes);
    return fli_loader_status(in);
}

fl_status fli_latents_kept(fl_ctx *ctx, const fli_model *m, size_t n, void **cache, void **y)
{
    size_t size = m->latent->size(m), bytes = n * size * m->space.ops->size;
    if (*cache && *(const size_t *)*cache != bytes)
        return fli_fail(ctx, FL_EFORMAT,
                        "the checkpoint's pseudo labels or memberships do not fit the client's samples");
    if (!*cache) {
        if (!(*cache = kept_new(ctx, bytes))) return FL_ENOMEM;
        m->space.ops->fill(n * size, 1 / (double)size, (char *)*cache + HEAD);
    }
    *y = (char *)*cache + HEAD;
    return FL_OK;
}

int fli_latents_now(const fli_model *m, size_t all, size_t at, size_t n, void *const *kept, void *rows)
{
    const fli_ops *ops = m->space.ops;
    size_t size = m->latent->size(m);
    const void *cache = m->latent->kept && kept ? *kept : NULL;
    if (cache && *(const size_t *)cache == all * size * ops->size)
        memcpy(rows, fli_cat(ops, (const char *)cache + HEAD, at * size), n * size * ops->size);
    else
        ops->fill(n * size, 1 / (double)size, rows);
    return m->latent->kept && kept;
}

/* Rows now[0 .. count-1] of y by one step, in pieces that the worker holds. */
static void step_rows(fli_worker *w, const fli_view *v, const fli_latents *l, const void *x, const fli_sample_pass *now,
                      void *y)
{
    const fli_model *m = w->model;
    const fli_ops *ops = m->space.ops;
    size_t bytes = m->latent->size(m) * ops->size;
    fli_pieces p = fli_pieces_of(w->eval, v->ds, now->now, now->count);
    while (fli_pieces_advance(&p)) {
        const uint32_t *row = now->now + p.at;
        for (size_t i = 0; i < p.n; i++) {
            w->index[i] = l->samples[row[i]];
            memcpy((char *)w->rows + i * bytes, (const char *)y + row[i] * bytes, bytes);
        }
        fli_batch_gather(&w->eval->batch, v->ds, w->index, p.n);
        m->latent->step(m, x, &w->eval->batch, now->count, w->rows, w->eval->scratch);
        for (size_t i = 0; i < p.n; i++) memcpy((char *)y + row[i] * bytes, (const char *)w->rows + i * bytes, bytes);
    }
}

/* Mini-batch after mini-batch, in passes over the rows of y as SGD makes them over samples. */
static void stochastic_steps(fli_worker *w, const fli_view *v, const fli_latents *l, const void *x, size_t batch,
                             size_t steps, fli_rng *rng, void *y)
{
    const fli_sgd_spec spec = {.batch = batch};
    fli_sample_pass pass = fli_pass_over(&spec, w->latent_order, l->n);
    for (size_t i = 0; i < l->n; i++) w->latent_order[i] = (uint32_t)i;
    for (size_t i = 0; i < steps && !fli_halted(w->halt); i++) {
        fli_pass_next(&pass, rng);
        step_rows(w, v, l, x, &pass, y);
    }
}

fl_status fli_latents_improve(fl_ctx *ctx, fli_worker *w, const fli_view *v, const void *x, fli_rng *rng, void **cache,
                              void **y)
{
    const fli_model *m = w->model;
    fli_latents l = fli_latents_of(m, v);
    size_t steps = 0, batch = m->latent && m->latent->batch ? m->latent->batch(m, &steps) : 0;
    *y = NULL;
    if (!l.n) return FL_OK;
    *y = w->y;
    fl_status s = m->latent->kept ? fli_latents_kept(ctx, m, l.n, cache, y) : FL_OK;
    if (s) return s;
    if (batch && batch < l.n) {
        stochastic_steps(w, v, &l, x, batch, steps, rng, *y);
        return FL_OK;
    }
    fli_pieces p = fli_pieces_of(w->eval, v->ds, l.samples, l.n);
    while (fli_pieces_next(&p)) {
        void *rows = fli_at(m->space.ops, *y, p.at * m->latent->size(m));
        m->latent->improve(m, x, &w->eval->batch, l.n, rows, w->eval->scratch);
    }
    return FL_OK;
}
