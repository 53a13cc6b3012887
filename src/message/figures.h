/* Figures: what clients say of models on their samples, because a server has none. An ask of another kind: the model
 * under measurement goes down, sums over a client's samples come up. It leaves no trace in the client, and is counted
 * separately from training. */
#ifndef FLI_MESSAGE_FIGURES_H
#define FLI_MESSAGE_FIGURES_H

#include "message/exchange.h"

enum {                                                   /* flags of such an ask */
       FLI_FIGURES_TRAIN = 1 << FLI_ASK_FLAG_BITS,       /* loss and hits on the training samples */
       FLI_FIGURES_TEST = 2 << FLI_ASK_FLAG_BITS,        /* on the client's own test part, if it has one */
       FLI_FIGURES_EITHER = 4 << FLI_ASK_FLAG_BITS,      /* on the training samples where there is no test part */
       FLI_FIGURES_GRADIENT = 8 << FLI_ASK_FLAG_BITS,    /* of the training loss, without weight decay; implies TRAIN */
       FLI_FIGURES_OWN = 16 << FLI_ASK_FLAG_BITS,        /* the client's own model on its own test part */
       FLI_FIGURES_PSEUDO = 32 << FLI_ASK_FLAG_BITS,     /* pseudo labels that are right */
       FLI_FIGURES_CLUSTERS = 64 << FLI_ASK_FLAG_BITS,   /* which classes are in which clusters */
       FLI_FIGURES_OWN_TRAIN = 128 << FLI_ASK_FLAG_BITS, /* with OWN: that model on the training samples as well */
       FLI_FIGURES_POTENTIAL = 256 << FLI_ASK_FLAG_BITS, /* what the client contributes to the method's potential */
       FLI_FIGURES_AHEAD = 512 << FLI_ASK_FLAG_BITS, /* with GRADIENT: the same where the second block would go next */
       FLI_FIGURES_OWN_GRADIENT = 1024 << FLI_ASK_FLAG_BITS, /* with OWN: of that model's training objective */
};

/* Which derivative FLI_ASK_LEVELS asks for: (x, y) goes down, for a product v as well, and one vector comes up. */
enum {
    FLI_LEVELS_LOWER = 1 << FLI_ASK_FLAG_BITS,  /* grad_y g_i, in the lower block */
    FLI_LEVELS_UPPER = 2 << FLI_ASK_FLAG_BITS,  /* grad f_i, and f_i as a number */
    FLI_LEVELS_PRODUCT = 4 << FLI_ASK_FLAG_BITS /* (g_xy v, g_yy v) */
};

/* Numbers up. */
enum {
    FLI_FIGURE_HAS, /* bits FLI_HAS_..., of what follows */
    FLI_FIGURE_TRAIN_N,
    FLI_FIGURE_TEST_N,
    FLI_FIGURE_TRAIN_LOSS, /* f_i at the client's second block, weight decay included */
    FLI_FIGURE_TRAIN_HITS,
    FLI_FIGURE_TEST_LOSS, /* mean */
    FLI_FIGURE_TEST_HITS,
    FLI_FIGURE_OWN_TRAIN_LOSS, /* F_i of a mixture, f_i of an own model alone; likewise */
    FLI_FIGURE_OWN_TRAIN_HITS,
    FLI_FIGURE_OWN_TEST_LOSS,
    FLI_FIGURE_OWN_TEST_HITS,
    FLI_FIGURE_OWN_MIX, /* share of the own model in what the client predicts with */
    FLI_FIGURE_PSEUDO_N,
    FLI_FIGURE_PSEUDO_HITS,
    FLI_FIGURE_LABELLED_LOSS, /* with TRAIN: the part of f_i over labelled samples, without weight decay */
    FLI_FIGURE_LABELS_MOVE,   /* with GRADIENT: ||y+ - y||^2, how far the second block would move at x */
    FLI_FIGURE_LABELS_SLOPE,  /* with AHEAD: ||y - P(y - lr grad_y f_i)||^2/lr^2 of a step in it */
    FLI_FIGURE_OWN_GRADIENT2, /* with OWN_GRADIENT: its squared length, weight decay included */
    FLI_FIGURES,              /* in every answer; the others where they are asked for: */
    FLI_FIGURES_POTENTIAL_AT = FLI_FIGURES,
    FLI_FIGURES_CLUSTERS_AT = FLI_FIGURES_POTENTIAL_AT + FLI_POTENTIAL_TERMS, /* a table, clusters x classes */
};
enum { FLI_HAS_TRAIN = 1, FLI_HAS_TEST = 2, FLI_HAS_OWN = 4, FLI_HAS_PSEUDO = 8 };

/* The parts of the messages of all asks but turns; `numbers`: that the method sends down. */
enum { FLI_FIGURES_PARTS = 6 };
void fli_figures_parts(const fli_ask *ask, size_t numbers, size_t cells, fli_part down[FLI_FIGURES_PARTS],
                       fli_part up[FLI_FIGURES_PARTS]);
/* Cells of the clusters' table; 0: the model has no clusters, or the data no classes. */
size_t fli_figures_cells(const fli_model *m, size_t classes);
/* Why numbers that came up cannot be, as the end of a sentence; NULL: they can. */
const char *fli_figures_wrong(const double *num);
/* The same for losses of this model, with the value: one that cannot be negative is. */
const char *fli_losses_wrong(const fli_model *m, const double *num, char *sentence, size_t n);

#endif
