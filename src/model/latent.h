/* The second block: objectives f_i(x, y_i) in which every sample of some kind has an unknown of its own, a point of the
 * simplex: pseudo labels of unlabelled samples, memberships in clusters. A client holds its y_i, brings it up to date
 * at the global model, and then trains x with y_i as it is.
 *
 * Rows of a batch come in two parts: first `plain` ones, which have labels, then those that have a y. */
#ifndef FLI_MODEL_LATENT_H
#define FLI_MODEL_LATENT_H

#include "model/model.h"

/* How `improve` improves. */
typedef struct {
    size_t steps;      /* projected gradient steps on f_i in each turn; 0: the best y, by a formula or exactly */
    double lr;         /* their size; NAN without steps */
    double smoothness; /* L of f_i in y, at the y that a client starts from */
    int drawn;         /* a step is over a mini-batch of the samples */
} fli_latent_steps;

struct fli_latent {
    int every; /* all samples have a y, and none a label that counts */
    int kept;  /* y_i is improved from what it was; otherwise it is a function of x, and nobody needs to remember it */
    size_t (*size)(const fli_model *m); /* values of y per sample */
    /* Further reals of scratch for a batch of n, behind what grad needs. */
    size_t (*scratch)(const fli_model *m, size_t n);
    /* y (n x size) of the batch's samples, brought up to date at x; f_i is a mean over `all` such samples. Where y is
     * improved, it comes in as it was; at first every row is the centre of the simplex. */
    void (*improve)(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *y, void *scratch);
    /* Stochastic steps in y instead: how many a turn, each over a mini-batch of this many of the samples that have one;
     * 0: by improve, over all of them. NULL: always 0. */
    size_t (*batch)(const fli_model *m, size_t *steps);
    /* One such step for these samples of a mini-batch of `all`. */
    void (*step)(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *y, void *scratch);
    /* g = gradient in x of f_i on this batch: a mean over each of the two parts, without weight decay. Returns f_i. */
    double (*grad)(const fli_model *m, const void *x, const fli_batch *b, size_t plain, const void *y, void *g,
                   void *scratch);
    /* How y is improved at x by a client with `all` such samples, some of which are in the batch. */
    fli_latent_steps (*rule)(const fli_model *m, const void *x, const fli_batch *b, size_t all, void *scratch);
};

/* Scratch in a batch of n behind the model's own. */
static inline void *fli_latent_extra(const fli_model *m, size_t n, void *scratch)
{
    return fli_at(m->space.ops, scratch, fli_scratch_pad(m->desc->scratch(m, n)));
}

#endif
