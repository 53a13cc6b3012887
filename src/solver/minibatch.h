/* Mini-batches of a client's samples. A pass goes through some of them, one mini-batch after the other, in a fresh
 * random order. A mini-batch of an objective has labelled samples and, with a second block (model/latent.h), samples
 * that have a y: each kind has passes and a batch size of its own. Private to this folder and
 * to device/. */
#ifndef FLI_SOLVER_MINIBATCH_H
#define FLI_SOLVER_MINIBATCH_H

#include "solver/worker.h"

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

/* Images are augmented anew in every pass. */
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

/* Brings the whole mini-batch under way into the worker's batch; 0: it is too long for that. */
int fli_minibatch_gather(fli_minibatch *b);

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

#endif
