#include "local/draw.h"

#include "model/semi.h"

/* ---- the second block ---------------------------------------------------------------------------------- */

fli_latents fli_latents_of(const fli_model *m, const fli_view *v)
{
    if (!m->latent) return (fli_latents){0};
    return m->latent->every ? (fli_latents){v->train, v->n_train} : (fli_latents){v->unlabelled, v->n_unlabelled};
}

/* What a client keeps: its y, behind a line that says how much that is. */
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

fl_status fli_latents_improve(fl_ctx *ctx, fli_worker *w, const fli_view *v, const void *x, void **cache, void **y)
{
    const fli_model *m = w->model;
    fli_latents l = fli_latents_of(m, v);
    *y = NULL;
    if (!l.n) return FL_OK;
    *y = w->y;
    fl_status s = m->latent->kept ? kept_y(ctx, m, l.n, cache, y) : FL_OK;
    if (s) return s;
    for (size_t at = 0; at < l.n; at += w->eval->batch.n) {
        size_t piece = l.n - at < w->eval->batch.capacity ? l.n - at : w->eval->batch.capacity;
        fli_batch_gather(&w->eval->batch, v->ds, l.samples + at, piece);
        m->latent->improve(m, x, &w->eval->batch, l.n, fli_at(m->space.ops, *y, at * m->latent->size(m)),
                           w->eval->scratch);
    }
    return FL_OK;
}

/* ---- passes -------------------------------------------------------------------------------------------- */

/* Samples with a y per step. */
static size_t latent_size(const fli_sgd_spec *spec, size_t n)
{
    fli_sgd_spec s = *spec;
    if (spec->latent) s = (fli_sgd_spec){.batch = spec->latent};
    return fli_batch_size(&s, n);
}

size_t fli_objective_steps(const fli_model *m, const fli_sgd_spec *spec, size_t labelled, size_t unlabelled)
{
    size_t plain = fli_epoch_steps(spec, labelled), rest = 0;
    if (!m->latent || m->latent->every || !unlabelled) return plain;
    rest = (unlabelled + latent_size(spec, unlabelled) - 1) / latent_size(spec, unlabelled);
    return rest > plain ? rest : plain;
}

void fli_draw_init(fli_worker *w, const fli_view *v, const uint32_t *labelled, size_t n, void *y, fli_rng *rng,
                   fli_draw *d)
{
    const fli_model *m = w->model;
    fli_latents l = fli_latents_of(m, v);
    if (m->latent && m->latent->every) n = 0;
    *d = (fli_draw){.w = w, .ds = v->ds, .latent = l.samples, .y = y, .rng = rng};
    d->plain = (fli_pass){.order = w->order, .n = n, .size = fli_batch_size(&w->spec, n)};
    d->rest = (fli_pass){.order = w->latent_order, .n = l.n, .size = latent_size(&w->spec, l.n)};
    memmove(w->order, labelled, n * sizeof *w->order);
    for (size_t i = 0; i < l.n; i++) w->latent_order[i] = (uint32_t)i;
}

void fli_draw_next(fli_draw *d)
{
    fli_pass_next(&d->plain, d->rng);
    fli_pass_next(&d->rest, d->rng);
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* Samples idx[0 .. n-1], which are in the worker's batch from row `first` on. */
static void augment(fli_draw *d, const uint32_t *idx, size_t first, size_t n, uint32_t epoch)
{
    fli_batch part = d->w->eval->batch;
    if (!d->ds->augment) return;
    part.x = fli_at(part.ops, part.x, first * part.dim);
    part.n = n;
    fli_batch_augment(&part, d->ds, idx, d->rng, epoch);
}

/* Brings samples plain[0 .. np-1] and those of the rows rest[0 .. nr-1] of y into the worker's batch and rows. */
static void gather(fli_draw *d, const uint32_t *plain, size_t np, const uint32_t *rest, size_t nr)
{
    const fli_model *m = d->w->model;
    const fli_ops *ops = m->space.ops;
    if (!nr) {
        fli_batch_gather(&d->w->eval->batch, d->ds, plain, np);
        augment(d, plain, 0, np, d->plain.epoch);
        return;
    }
    size_t size = m->latent->size(m), bytes = size * ops->size;
    if (np) memcpy(d->w->index, plain, np * sizeof *plain);
    for (size_t i = 0; i < nr; i++) {
        d->w->index[np + i] = d->latent[rest[i]];
        memcpy((char *)d->w->rows + i * bytes, (const char *)d->y + rest[i] * bytes, bytes);
    }
    fli_batch_gather(&d->w->eval->batch, d->ds, d->w->index, np + nr);
    augment(d, d->w->index, 0, np, d->plain.epoch);
    augment(d, d->w->index + np, np, nr, d->rest.epoch);
}

static void piece_grad(fli_draw *d, const fli_point *p, size_t plain, void *g, void *own_g)
{
    fli_worker *w = d->w;
    const fli_model *m = w->model;
    if (p->own)
        fli_pair_grad(m, p->x, p->own, p->mix, &w->eval->batch, plain, w->rows, g, own_g, w->eval->scratch);
    else if (m->latent)
        m->latent->grad(m, p->x, &w->eval->batch, plain, w->rows, g, w->eval->scratch);
    else
        m->desc->grad(m, p->x, &w->eval->batch, g, NULL, w->eval->scratch);
}

/* A piece of one kind, weighted by its share of that kind's mean. */
static void add_piece(fli_draw *d, const fli_point *p, size_t plain, double share)
{
    const fli_space *s = &d->w->model->space;
    piece_grad(d, p, plain, d->w->eval->part, p->own_part);
    fli_axpy(s, share, d->w->eval->part, p->g);
    if (p->own) fli_axpy(s, share, p->own_part, p->own_g);
}

/* More samples than a worker holds at a time: kind by kind, in pieces. */
static void grad_in_pieces(fli_draw *d, const fli_point *p)
{
    const fli_space *s = &d->w->model->space;
    size_t most = d->w->eval->batch.capacity;
    fli_zero(s, p->g);
    if (p->own) fli_zero(s, p->own_g);
    for (size_t at = 0, n; at < d->plain.count; at += n) {
        n = d->plain.count - at < most ? d->plain.count - at : most;
        gather(d, d->plain.now + at, n, NULL, 0);
        add_piece(d, p, n, (double)n / (double)d->plain.count);
    }
    for (size_t at = 0, n; at < d->rest.count; at += n) {
        n = d->rest.count - at < most ? d->rest.count - at : most;
        gather(d, NULL, 0, d->rest.now + at, n);
        add_piece(d, p, 0, (double)n / (double)d->rest.count);
    }
}

void fli_draw_grad(fli_draw *d, const fli_point *p)
{
    if (d->plain.count + d->rest.count > d->w->eval->batch.capacity) {
        grad_in_pieces(d, p);
        return;
    }
    /* always the same batch */
    int only = d->plain.count == d->plain.n && d->rest.count == d->rest.n && !d->ds->augment;
    if (!only || !d->gathered) gather(d, d->plain.now, d->plain.count, d->rest.now, d->rest.count);
    d->gathered = only;
    piece_grad(d, p, d->plain.count, p->g, p->own_g);
}
