/* The second block of a client, and mini-batches of its samples with their gradients. */
#include "solver/minibatch.h"

#include "model/model.h"
#include "model/semi.h"

#include <math.h>

/* ==== the second block ==================================================================================== */

fli_latents fli_latents_of(const fli_model *m, const fli_view *v)
{
    if (!m->latent) return (fli_latents){0};
    return m->latent->every ? (fli_latents){v->train, v->n_train} : (fli_latents){v->unlabelled, v->n_unlabelled};
}

/* The client's stored y, after a header with its size in bytes. */
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

/* One step on rows now[0 .. count-1] of y, in pieces that the worker has memory for. */
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

/* Mini-batch steps, in passes over the rows of y as SGD makes them over samples. */
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

/* ==== mini-batches ======================================================================================== */

/* ---- sizes --------------------------------------------------------------------------------------------- */

size_t fli_batch_size(const fli_sgd_spec *spec, size_t n)
{
    size_t size = spec->batch;
    if (spec->fraction > 0) /* rounding: 0.07 * 100 is a little more than 7 */
        size = (size_t)fmax(1, ceil(spec->fraction * (double)n - 1e-9));
    return size && size < n ? size : n;
}

fli_sgd_spec fli_latent_spec(const fli_sgd_spec *spec)
{
    return spec->latent ? (fli_sgd_spec){.batch = spec->latent} : *spec;
}

size_t fli_epoch_steps(const fli_sgd_spec *spec, size_t n)
{
    size_t size = fli_batch_size(spec, n);
    return size ? (n + size - 1) / size : 1;
}

size_t fli_objective_steps(const fli_model *m, const fli_sgd_spec *spec, size_t labelled, size_t unlabelled)
{
    size_t plain = fli_epoch_steps(spec, labelled);
    fli_sgd_spec latent = fli_latent_spec(spec);
    int both = m->latent && !m->latent->every, asked = spec->epoch == FLI_EPOCH_UNLABELLED;
    if (!unlabelled || spec->epoch == FLI_EPOCH_LABELLED || !(both || asked)) return plain;
    size_t rest = fli_epoch_steps(&latent, unlabelled);
    return rest > plain || asked ? rest : plain;
}

/* ---- passes -------------------------------------------------------------------------------------------- */

fli_sample_pass fli_pass_over(const fli_sgd_spec *spec, uint32_t *order, size_t n)
{
    return (fli_sample_pass){.order = order, .n = n, .size = fli_batch_size(spec, n)};
}

int fli_pass_advance(fli_sample_pass *p)
{
    if (p->at && p->at == p->n) {
        p->at = 0;
        p->epoch++;
    }
    int begins = p->at == 0;
    p->now = p->order + p->at;
    p->count = p->size < p->n - p->at ? p->size : p->n - p->at;
    p->at += p->count;
    return begins;
}

void fli_pass_next(fli_sample_pass *p, fli_rng *rng)
{
    if (fli_pass_advance(p) && p->size < p->n) fli_rng_shuffle(rng, p->n, p->order);
}

void fli_minibatch_init(fli_worker *w, const fli_view *v, const uint32_t *labelled, size_t n, const void *y,
                        fli_rng *rng, fli_minibatch *b)
{
    const fli_model *m = w->model;
    fli_latents l = fli_latents_of(m, v);
    fli_sgd_spec latent = fli_latent_spec(&w->spec);
    if (m->latent && m->latent->every) n = 0;
    *b = (fli_minibatch){.w = w, .ds = v->ds, .latent = l.samples, .y = y, .rng = rng};
    b->plain = fli_pass_over(&w->spec, w->order, n);
    b->rest = fli_pass_over(&latent, w->latent_order, l.n);
    memmove(w->order, labelled, n * sizeof *w->order);
    for (size_t i = 0; i < l.n; i++) w->latent_order[i] = (uint32_t)i;
}

void fli_minibatch_next(fli_minibatch *b)
{
    fli_pass_next(&b->plain, b->rng);
    if (b->rest.n) fli_pass_next(&b->rest, b->rng);
}

/* ---- gathering ----------------------------------------------------------------------------------------- */

/* Gathers samples idx[0 .. n-1] into the worker's batch from row `first` on. */
static void augment(fli_minibatch *b, const uint32_t *idx, size_t first, size_t n, uint32_t epoch)
{
    fli_batch part = b->w->eval->batch;
    part.x = fli_at(part.ops, part.x, first * part.dim);
    part.n = n;
    fli_batch_augment(&part, b->ds, idx, b->rng, epoch);
}

/* Gathers labelled samples plain[0 .. np-1] into the worker's batch and, after them, the samples of rows rest[0 ..
 * nr-1] of y, with these rows. */
static void gather(fli_minibatch *b, const uint32_t *plain, size_t np, const uint32_t *rest, size_t nr)
{
    fli_worker *w = b->w;
    const fli_model *m = w->model;
    const uint32_t *idx = plain;
    if (nr) {
        size_t bytes = m->latent->size(m) * m->space.ops->size;
        if (np) memcpy(w->index, plain, np * sizeof *plain);
        for (size_t i = 0; i < nr; i++) {
            w->index[np + i] = b->latent[rest[i]];
            memcpy((char *)w->rows + i * bytes, (const char *)b->y + rest[i] * bytes, bytes);
        }
        idx = w->index;
    }
    if (!b->ds->augment) {
        fli_batch_gather(&w->eval->batch, b->ds, idx, np + nr);
        return;
    }
    fli_batch_gather_answers(&w->eval->batch, b->ds, idx, np + nr);
    augment(b, idx, 0, np, b->plain.epoch);
    augment(b, idx + np, np, nr, b->rest.epoch);
}

size_t fli_minibatch_samples(const fli_minibatch *b) { return b->plain.n ? b->plain.count : b->rest.count; }

/* Gathers the whole current mini-batch into the worker's batch; returns 0 if it is too long. */
static int minibatch_gather(fli_minibatch *b)
{
    if (b->plain.count + b->rest.count > b->w->eval->batch.capacity) return 0;
    /* the batch is always the same */
    int only = b->plain.count == b->plain.n && b->rest.count == b->rest.n && !b->ds->augment;
    if (!only || !b->gathered) gather(b, b->plain.now, b->plain.count, b->rest.now, b->rest.count);
    b->gathered = only;
    return 1;
}

/* ---- gradients ----------------------------------------------------------------------------------------- */

/* The gradient over the worker's batch, whose first `plain` samples are labelled. */
static double batch_grad(fli_minibatch *b, const fli_point *p, size_t plain, void *g, void *own_g)
{
    fli_worker *w = b->w;
    const fli_model *m = w->model;
    if (p->own) {
        fli_pair_grad(m, p->x, p->own, p->mix, &w->eval->batch, plain, w->rows, g, own_g, w->eval->scratch);
        return NAN;
    }
    if (m->latent) return m->latent->grad(m, p->x, &w->eval->batch, plain, w->rows, g, w->eval->scratch);
    return m->desc->grad(m, p->x, &w->eval->batch, g, NULL, w->eval->scratch);
}

/* Adds a piece of one kind, weighted by its share of that kind's mean. */
static double add_piece(fli_minibatch *b, const fli_point *p, size_t plain, const fli_pieces *piece)
{
    double loss = batch_grad(b, p, plain, b->w->eval->part, p->own_part);
    fli_pieces_add(piece, p->g);
    if (p->own) fli_axpy(&b->w->model->space, fli_pieces_share(piece), p->own_part, p->own_g);
    return fli_pieces_share(piece) * loss;
}

/* For more samples than a worker has memory for: one kind after the other, in pieces. */
static double grad_in_pieces(fli_minibatch *b, const fli_point *p)
{
    const fl_space *s = &b->w->model->space;
    double loss = 0;
    fli_pieces plain = fli_pieces_of(b->w->eval, b->ds, b->plain.now, b->plain.count);
    fli_pieces rest = fli_pieces_of(b->w->eval, b->ds, b->rest.now, b->rest.count);
    fli_zero(s, p->g);
    if (p->own) fli_zero(s, p->own_g);
    while (fli_pieces_advance(&plain)) {
        gather(b, plain.samples + plain.at, plain.n, NULL, 0);
        loss += add_piece(b, p, plain.n, &plain);
    }
    while (fli_pieces_advance(&rest)) {
        gather(b, NULL, 0, rest.samples + rest.at, rest.n);
        loss += add_piece(b, p, 0, &rest);
    }
    return loss;
}

double fli_minibatch_grad(fli_minibatch *b, const fli_point *p)
{
    return minibatch_gather(b) ? batch_grad(b, p, b->plain.count, p->g, p->own_g) : grad_in_pieces(b, p);
}

void fli_minibatch_step(fli_minibatch *b, const fli_sgd_step *step, void *z)
{
    fli_worker *w = b->w;
    const fli_model *m = w->model;
    if (m->desc->step && !m->latent && minibatch_gather(b)) {
        m->desc->step(m, &w->eval->batch, step, w->grad, z, w->eval->scratch);
        return;
    }
    fli_minibatch_grad(b, &(fli_point){.x = z, .g = w->grad});
    m->space.ops->sgd(m->space.n, step, z);
}
