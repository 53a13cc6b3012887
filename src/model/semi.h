/* Learning from few labels: cross-entropy on the labelled samples, cross-entropy against pseudo labels nu on the
 * others, and entropy terms that keep both from being too certain ([CPSL] (4), (41)-(43)):
 *
 *   f_i(x, nu) = mean CE(y, h) + alpha_p mean CE(nu, h) + alpha_r (mean KL(nu, 1/C) + mean KL(h, 1/C))
 *
 * h are the class probabilities of any classifier with `logits` and `pullback`. */
#ifndef FLI_MODEL_SEMI_H
#define FLI_MODEL_SEMI_H

#include "model/model.h"

#define FLI_SEMI_WORDS "none|closed_form|projected"
enum { FLI_SEMI_NONE, FLI_SEMI_CLOSED_FORM, FLI_SEMI_PROJECTED };

typedef struct {
    int labels;          /* FLI_SEMI_: how pseudo labels are computed */
    double alpha_p;      /* weight of the pseudo labels */
    double alpha_r;      /* weight of the entropy terms */
    double confidence;   /* closed form: a sample whose largest probability is below this gets no label */
    double label_lr;     /* projected: step size (0: automatic), */
    int64_t label_steps; /* steps per turn, */
    int64_t label_batch; /* and samples per step, drawn for each step; 0: all */
    int64_t batch;       /* unlabelled samples per step of x; 0: by the rule for labelled ones */
} fli_semi;

/* Makes the model's objective semi-supervised; `semi` must outlive it. Does nothing for FLI_SEMI_NONE. */
fl_status fli_model_use_semi(fl_ctx *ctx, fli_model *m, const fli_semi *semi);

/* Improves n rows of y from known logits (n x classes); f_i is a mean over `all` samples. `steps` projected steps:
 * fli_latent.improve takes label_steps, fli_latent.step one; the closed form takes none. work: 4 classes of doubles. */
void fli_semi_improve(const fli_model *m, size_t n, const double *logits, size_t all, int64_t steps, void *y,
                      double *work);

/* The two gradients of a personalised pair on one batch ([CPSL] (6b), (6c)): g = gradient of f_i at x; own_g = gradient
 * by `own` of f_i with h replaced by the mixture mix h(own) + (1 - mix) h(x). Rows as in model.h; y NULL: all are
 * plain; g NULL: own_g alone. Scratch as for the model. */
void fli_pair_grad(const fli_model *m, const void *x, const void *own, double mix, const fli_batch *b, size_t plain,
                   const void *y, void *g, void *own_g, void *scratch);

/* Returns F_i of the mixture on one batch; *correct = the hits among its plain rows. */
double fli_pair_loss(const fli_model *m, const void *x, const void *own, double mix, const fli_batch *b, size_t plain,
                     const void *y, size_t *correct, void *scratch);
/* Returns the likeliest class of one row of logits; *probability = its probability. */
size_t fli_likeliest(const fli_model *m, const void *z, double *probability);

#endif
