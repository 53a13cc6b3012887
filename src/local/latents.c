#include "local/latents.h"

#include "local/pieces.h"
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

/* The client's own y, at first the centre of the simplex in every row. */
static fl_status kept_y(fl_ctx *ctx, const fli_model *m, size_t n, void **cache, void **y)
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

fl_status fli_latents_improve(fl_ctx *ctx, fli_worker *w, const fli_view *v, const void *x, void **cache, void **y)
{
    const fli_model *m = w->model;
    fli_latents l = fli_latents_of(m, v);
    *y = NULL;
    if (!l.n) return FL_OK;
    *y = w->y;
    fl_status s = m->latent->kept ? kept_y(ctx, m, l.n, cache, y) : FL_OK;
    if (s) return s;
    fli_pieces p = fli_pieces_of(w->eval, v->ds, l.samples, l.n);
    while (fli_pieces_next(&p)) {
        void *rows = fli_at(m->space.ops, *y, p.at * m->latent->size(m));
        m->latent->improve(m, x, &w->eval->batch, l.n, rows, w->eval->scratch);
    }
    return FL_OK;
}
