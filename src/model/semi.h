/* Learning from few labels: cross-entropy on the labelled samples, cross-entropy against pseudo labels nu on the
 * others, and entropy terms that keep both from being too sure ([CPSL] (4), (41)-(43)):
 *
 *     f_i(x, nu) = mean CE(y, h) + alpha_p mean CE(nu, h) + alpha_r (mean KL(nu, 1/C) + mean KL(h, 1/C))
 *
 * h are the class probabilities of any classifier with the two halves `logits` and `pullback`. */
#ifndef FLI_MODEL_SEMI_H
#define FLI_MODEL_SEMI_H

#include "model/model.h"

#define FLI_SEMI_WORDS "none|closed_form|projected"
enum { FLI_SEMI_NONE, FLI_SEMI_CLOSED_FORM, FLI_SEMI_PROJECTED };

typedef struct {
    int labels;          /* how pseudo labels are found */
    double alpha_p;      /* weight of the pseudo labels */
    double alpha_r;      /* weight of the entropy terms */
    double confidence;   /* closed form: samples whose largest probability is below get no label */
    double label_lr;     /* projected: step size, 0: chosen, */
    int64_t label_steps; /* steps per turn, */
    int64_t label_batch; /* and samples per step, drawn anew for each; 0: all */
    int64_t batch;       /* unlabelled samples per step; 0: by the same rule as labelled ones */
} fli_semi;

/* Makes the model's objective semi-supervised; `semi` must outlive it. Does nothing for FLI_SEMI_NONE. */
fl_status fli_model_use_semi(fl_ctx *ctx, fli_model *m, const fli_semi *semi);

/* The second block by logits that are known already (n x classes): rows of y, of n among `all` samples, brought up to
 * date in place as fli_latent.improve does, or with one of `steps` as fli_latent.step. work: 4 classes of doubles. */
void fli_semi_improve(const fli_model *m, size_t n, const double *logits, size_t all, int64_t steps, void *y,
                      double *work);

/* The two gradients of a personalised pair on one batch ([CPSL] (6b), (6c)): g of f_i at x, and own_g of f_i with h
 * replaced by the mixture mix h(own) + (1 - mix) h(x), by `own`. Rows as in model.h; y NULL if all are plain; g NULL:
 * own_g alone. Scratch as for the model. */
void fli_pair_grad(const fli_model *m, const void *x, const void *own, double mix, const fli_batch *b, size_t plain,
                   const void *y, void *g, void *own_g, void *scratch);

/* F_i of the mixture on one batch, and how many of its plain rows it gets right. */
double fli_pair_loss(const fli_model *m, const void *x, const void *own, double mix, const fli_batch *b, size_t plain,
                     const void *y, size_t *correct, void *scratch);
/* The likeliest class of one row of logits, and its probability. */
size_t fli_likeliest(const fli_model *m, const void *z, double *probability);

#endif
