/* A client's samples as solvers use them: its second block, mini-batches, and pieces of a list. A pass goes through
 * some samples, one mini-batch after the other, in a new random order. A mini-batch has labelled samples and, for
 * objectives with a second block (model/model.h), samples that have a y: each kind has its own passes and batch size.
 * For this folder, device/ and client/. */
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

/* Updates y_i at x, from samples without augmentation. If the objective takes stochastic steps in y, rng draws their
 * mini-batches. `*y` is in the worker's memory, or in the client's own `*cache`, which is made if it is NULL. `*y` is
 * NULL if no sample has a y. */
fl_status fli_latents_improve(fl_ctx *ctx, fli_worker *w, const fli_view *v, const void *x, fli_rng *rng, void **cache,
                              void **y);

/* The client's own y, n rows; initially every row is the centre of the simplex. */
fl_status fli_latents_kept(fl_ctx *ctx, const fli_model *m, size_t n, void **cache, void **y);

/* Rows at .. at + n - 1 of the `all` rows of y, for evaluation between turns: the client's state in *kept, initially
 * the centre of the simplex. Returns 0 if the rows are only the start of an update: y is not kept, or kept is NULL. */
int fli_latents_now(const fli_model *m, size_t all, size_t at, size_t n, void *const *kept, void *rows);

/* Cache functions of a solver's engine; fli_free frees the cache. A y that is kept is state. */
#define FLI_LATENTS_KEPT .save = fli_latents_save, .load = fli_latents_load
void fli_latents_save(const void *cache, fli_saver *out);
fl_status fli_latents_load(fl_ctx *ctx, fli_loader *in, void **cache);

/* ==== passes and mini-batches ============================================================================= */

/* A pass. Its last mini-batch may be short. If all samples fit into one, they keep their order. */
typedef struct {
    uint32_t *order;     /* the samples, by any numbering; shuffled in place */
    size_t n, size, at;  /* samples, samples per step, place in the pass */
    uint32_t epoch;      /* index of the pass, from 0 */
    const uint32_t *now; /* the current mini-batch, */
    size_t count;        /* and its length */
} fli_sample_pass;

/* A pass over order[0 .. n-1], with batches by the client's rule. */
fli_sample_pass fli_pass_over(const fli_sgd_spec *spec, uint32_t *order, size_t n);
/* Advances to the next mini-batch. */
void fli_pass_next(fli_sample_pass *p, fli_rng *rng);
/* The same without shuffling, for counting; returns whether a pass begins. */
int fli_pass_advance(fli_sample_pass *p);
/* The rule by which samples with a y are drawn. */
fli_sgd_spec fli_latent_spec(const fli_sgd_spec *spec);

/* A client's mini-batches. Images are augmented again in every pass. */
typedef struct {
    fli_worker *w;
    const fli_dataset *ds;
    const uint32_t *latent; /* the samples that have a y, in the order of its rows */
    const void *y;
    fli_rng *rng;
    fli_sample_pass plain; /* labelled samples, by their numbers in the data set */
    fli_sample_pass rest;  /* samples with a y, by their rows in it */
    int gathered;          /* the current batch is in the worker already: it is the only one, and not augmented */
} fli_minibatch;

/* labelled[0 .. n-1] are the client's labelled samples in use; they may be the worker's order itself. y comes from
 * fli_latents_improve. */
void fli_minibatch_init(fli_worker *w, const fli_view *v, const uint32_t *labelled, size_t n, const void *y,
                        fli_rng *rng, fli_minibatch *b);
void fli_minibatch_next(fli_minibatch *b);
/* The samples of the current batch: the labelled ones or, if all samples have a y, those. */
size_t fli_minibatch_samples(const fli_minibatch *b);

/* The point of a gradient; own NULL: of a single model. */
typedef struct {
    const void *x, *own;
    double mix;
    void *g, *own_g;
    void *own_part; /* a spare vector beside own_g */
} fli_point;
/* The gradients over the current mini-batch of any length, without weight decay. Returns the loss, or NaN for a
 * pair. */
double fli_minibatch_grad(fli_minibatch *b, const fli_point *p);
/* A step of one model on the batch; step->grad is the worker's. */
void fli_minibatch_step(fli_minibatch *b, const fli_sgd_step *step, void *z);

/* fl_local.engine, for one task. */
typedef struct {
    fl_ctx *ctx;
    fli_worker *worker;
    fli_task *task;
    fli_minibatch batch; /* for fl_local_next, */
    int drawing;         /* set by its first call */
} fli_local;

/* ==== pieces of a list of samples ========================================================================= */

/* A list of samples, piece by piece: as many at a time as an evaluation holds, in the order of the list.
 *
 *     fli_pieces p = fli_pieces_of(eval, ds, samples, n);
 *     while (fli_pieces_next(&p)) mean += fli_pieces_share(&p) * (the mean over eval->batch);
 *
 * Where the pieces begin depends on the model and on n alone, so that sums over them always have the same bits. */

/* The longest piece; a model may ask for shorter ones. Memory stays bounded, matrix products run at full speed, and the
 * outputs of a piece are still in the cache for the next layer. */
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
    size_t at, n;            /* the current piece: samples[at .. at + n - 1] */
} fli_pieces;

static inline fli_pieces fli_pieces_of(fli_eval *e, const fli_dataset *ds, const uint32_t *samples, size_t n)
{
    return (fli_pieces){.eval = e, .ds = ds, .samples = samples, .all = n};
}

/* Moves on to the next piece without gathering it, for callers that gather differently; returns 0 after the last. */
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

/* The piece's weight in a mean over all samples. */
static inline double fli_pieces_share(const fli_pieces *p) { return (double)p->n / (double)p->all; }

/* Adds the piece's vector, in eval->part, to a mean over all samples. */
static inline void fli_pieces_add(const fli_pieces *p, void *mean)
{
    fli_axpy(&p->eval->model->space, fli_pieces_share(p), p->eval->part, mean);
}

#endif
