/* Models on any number of samples, in bounded memory. */
#include "solver/pieces.h"

#include "model/latent.h"
#include "model/semi.h"

/* Of the second block, for looks at it. */
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
    out->scratch = fli_alloc(ctx, fli_model_scratch(m, fli_piece_of(m)), 1);
    out->part = fli_alloc(ctx, m->space.n, m->space.ops->size);
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
