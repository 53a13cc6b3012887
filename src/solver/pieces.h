/* A list of samples, piece by piece: as many at a time as an evaluation holds, in the order of the list.
 *
 *     fli_pieces p = fli_pieces_of(eval, ds, samples, n);
 *     while (fli_pieces_next(&p)) mean += fli_pieces_share(&p) * (the mean over eval->batch);
 *
 * Where the pieces begin depends on the model and on n alone, so that sums over them always have the same bits. */
#ifndef FLI_SOLVER_PIECES_H
#define FLI_SOLVER_PIECES_H

#include "solver/local.h"

/* No piece is longer, and a model may ask for fewer: memory stays bounded, matrix products are at full speed long
 * before, and what a piece leaves behind for the next layer is still in the cache. */
enum { FLI_PIECE_MOST = 256 };
static inline size_t fli_piece_of(const fli_model *m)
{
    return m->piece && m->piece < FLI_PIECE_MOST ? m->piece : FLI_PIECE_MOST;
}

typedef struct {
    fli_eval *eval;
    const fli_dataset *ds;
    const uint32_t *samples; /* the whole list, */
    size_t all;              /* and its length */
    size_t at, n;            /* the piece under way: samples[at .. at + n - 1] */
} fli_pieces;

static inline fli_pieces fli_pieces_of(fli_eval *e, const fli_dataset *ds, const uint32_t *samples, size_t n)
{
    return (fli_pieces){.eval = e, .ds = ds, .samples = samples, .all = n};
}

/* Moves on to the next piece and leaves the batch alone, for callers who gather in their own way; 0: there is none. */
static inline int fli_pieces_advance(fli_pieces *p)
{
    size_t most = p->eval->batch.capacity, left = p->all - p->at - p->n;
    p->at += p->n;
    p->n = left < most ? left : most;
    return p->n > 0;
}

/* The same, with the piece gathered into the evaluation's batch. */
static inline int fli_pieces_next(fli_pieces *p)
{
    if (!fli_pieces_advance(p)) return 0;
    fli_batch_gather(&p->eval->batch, p->ds, p->samples + p->at, p->n);
    return 1;
}

/* What the piece weighs in a mean over all samples. */
static inline double fli_pieces_share(const fli_pieces *p) { return (double)p->n / (double)p->all; }

/* Adds the piece's vector, in eval->part, to a mean over all samples. */
static inline void fli_pieces_add(const fli_pieces *p, void *mean)
{
    fli_axpy(&p->eval->model->space, fli_pieces_share(p), p->eval->part, mean);
}

#endif
