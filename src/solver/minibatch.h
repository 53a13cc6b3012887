/* What solvers go through a client's samples with: its second block, mini-batches, and pieces of a list. A pass goes
 * through some samples, one mini-batch after the other, in a fresh random order. A mini-batch of an objective has
 * labelled samples and, with a second block (model/model.h), samples that have a y: each kind has passes and a batch
 * size of its own. For this folder, device/ and client/. */
#ifndef FLI_SOLVER_MINIBATCH_H
#define FLI_SOLVER_MINIBATCH_H

#include "solver/solver.h"
#include "solver/worker.h"

/* ==== the second block ==================================================================================== */

/* A client's second block y_i (model/model.h): pseudo labels of its unlabelled samples, or memberships in clusters. */

/* The samples of a client that have a y, in the order of its rows; none without a second block. */
typedef struct {
    const uint32_t *samples;
    size_t n;
} fli_latents;
fli_latents fli_latents_of(const fli_model *m, const fli_view *v);

/* Brings y_i up to date at x, by the samples as they are, without augmentation. Where the objective takes stochastic
 * steps in y, rng draws their mini-batches. `*y` is the worker's, or the client's own in `*cache`, which is made when
 * it is NULL. `*y` is NULL where no sample has a y. */
fl_status fli_latents_improve(fl_ctx *ctx, fli_worker *w, const fli_view *v, const void *x, fli_rng *rng, void **cache,
                              void **y);

/* The client's own y, n rows: at first the centre of the simplex in every one. */
fl_status fli_latents_kept(fl_ctx *ctx, const fli_model *m, size_t n, void **cache, void **y);

/* Rows at .. at + n - 1 of the `all` rows of y, for evaluation between turns: what the client keeps in *kept, at first
 * the centre of the simplex. Returns 0 where that is only what improving begins with, because y is not kept or nobody
 * may look (kept is NULL). */
int fli_latents_now(const fli_model *m, size_t all, size_t at, size_t n, void *const *kept, void *rows);

/* What a solver's engine says of its cache, which fli_free forgets: a y that is kept is state. */
#define FLI_LATENTS_KEPT .save = fli_latents_save, .load = fli_latents_load
void fli_latents_save(const void *cache, fli_saver *out);
fl_status fli_latents_load(fl_ctx *ctx, fli_loader *in, void **cache);

/* ==== passes and mini-batches ============================================================================= */

/* The last mini-batch of a pass may be short. If all samples fit into one, they keep their order. */
typedef struct {
    uint32_t *order;     /* the samples, in whatever way they are numbered; shuffled in place */
    size_t n, size, at;  /* samples, samples per step, place in the pass */
    uint32_t epoch;      /* which pass it is, from 0 */
    const uint32_t *now; /* the mini-batch under way, */
    size_t count;        /* and its length */
} fli_sample_pass;

/* Over order[0 .. n-1], with batches by the client's rule. */
fli_sample_pass fli_pass_over(const fli_sgd_spec *spec, uint32_t *order, size_t n);
/* The next mini-batch. */
void fli_pass_next(fli_sample_pass *p, fli_rng *rng);
/* The same without a new order, for those who only count; returns whether a pass begins. */
int fli_pass_advance(fli_sample_pass *p);
/* How samples with a y are drawn. */
fli_sgd_spec fli_latent_spec(const fli_sgd_spec *spec);

/* Images are augmented afresh in every pass. */
typedef struct {
    fli_worker *w;
    const fli_dataset *ds;
    const uint32_t *latent; /* the samples that have a y, in the order of its rows */
    const void *y;
    fli_rng *rng;
    fli_sample_pass plain; /* labelled samples, by their numbers in the data set */
    fli_sample_pass rest;  /* those with a y, by their rows in it */
    int gathered; /* the batch under way is in the worker already: the only one there is, and it is not augmented */
} fli_minibatch;

/* labelled[0 .. n-1]: those of the client's labelled samples that are used; may be the worker's order itself.
 * y as fli_latents_improve gives it. */
void fli_minibatch_init(fli_worker *w, const fli_view *v, const uint32_t *labelled, size_t n, const void *y,
                        fli_rng *rng, fli_minibatch *b);
void fli_minibatch_next(fli_minibatch *b);
/* Samples of the one under way: the labelled ones, or where all samples have a y, those. */
size_t fli_minibatch_samples(const fli_minibatch *b);

/* Where gradients are wanted; own NULL: of one model alone. */
typedef struct {
    const void *x, *own;
    double mix;
    void *g, *own_g;
    void *own_part; /* a spare vector beside own_g */
} fli_point;
/* Gradients over the mini-batch under way, however long it is, without weight decay. Returns the loss; NaN: of two
 * models nobody wants it. */
double fli_minibatch_grad(fli_minibatch *b, const fli_point *p);
/* A step of one model on it; step->grad is the worker's. */
void fli_minibatch_step(fli_minibatch *b, const fli_sgd_step *step, void *z);

/* fl_local.engine: of one task. */
typedef struct {
    fl_ctx *ctx;
    fli_worker *worker;
    fli_task *task;
    fli_minibatch batch; /* of fl_local_next, */
    int drawing;         /* once it has been asked for one */
} fli_local;

/* ==== pieces of a list of samples ========================================================================= */

/* A list of samples, piece by piece: as many at a time as an evaluation holds, in the order of the list.
 *
 *     fli_pieces p = fli_pieces_of(eval, ds, samples, n);
 *     while (fli_pieces_next(&p)) mean += fli_pieces_share(&p) * (the mean over eval->batch);
 *
 * Where the pieces begin depends on the model and on n alone, so that sums over them always have the same bits. */

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
