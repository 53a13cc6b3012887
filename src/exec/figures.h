/* Figures: what clients say of models on their samples, because a server has none. An ask of another kind: the model under measurement goes
 * down, sums over a client's samples come up. It leaves no trace in the client, and is counted apart from training. */
#ifndef FLI_EXEC_FIGURES_H
#define FLI_EXEC_FIGURES_H

#include "data/fed.h"
#include "exec/exchange.h"
#include "exec/store.h"

enum {                                             /* flags of such an ask */
       FLI_FIGURES_TRAIN = 1 << FLI_ASK_FLAGS,     /* loss and hits on the training samples */
       FLI_FIGURES_TEST = 2 << FLI_ASK_FLAGS,      /* on the client's own test part, if it has one */
       FLI_FIGURES_EITHER = 4 << FLI_ASK_FLAGS,    /* on the training samples where there is no test part */
       FLI_FIGURES_GRADIENT = 8 << FLI_ASK_FLAGS,  /* of the training loss, without weight decay; with TRAIN */
       FLI_FIGURES_OWN = 16 << FLI_ASK_FLAGS,      /* the same of the client's own model */
       FLI_FIGURES_PSEUDO = 32 << FLI_ASK_FLAGS,   /* pseudo labels that are right */
       FLI_FIGURES_CLUSTERS = 64 << FLI_ASK_FLAGS, /* which classes are in which clusters */
};

/* Numbers up. */
enum {
    FLI_FIGURE_HAS, /* bits FLI_HAS_..., of what follows */
    FLI_FIGURE_TRAIN_N,
    FLI_FIGURE_TEST_N,
    FLI_FIGURE_TRAIN_LOSS, /* mean, weight decay included */
    FLI_FIGURE_TRAIN_HITS,
    FLI_FIGURE_TEST_LOSS, /* mean */
    FLI_FIGURE_TEST_HITS,
    FLI_FIGURE_OWN_TRAIN_LOSS,
    FLI_FIGURE_OWN_TRAIN_HITS,
    FLI_FIGURE_OWN_TEST_LOSS,
    FLI_FIGURE_OWN_TEST_HITS,
    FLI_FIGURE_OWN_MIX, /* share of the own model in what the client predicts with */
    FLI_FIGURE_PSEUDO_N,
    FLI_FIGURE_PSEUDO_HITS,
    FLI_FIGURES, /* the clusters' table, clusters x classes, lies behind them */
};
enum { FLI_HAS_TRAIN = 1, FLI_HAS_TEST = 2, FLI_HAS_OWN = 4, FLI_HAS_PSEUDO = 8 };

/* The parts of the messages of such an ask, or of one for an own model. */
enum { FLI_FIGURES_PARTS = 4 };
extern const fli_part fli_figures_down[];
void fli_figures_up(const fli_ask *ask, size_t cells, fli_part parts[FLI_FIGURES_PARTS]);
/* Cells of the clusters' table; 0: the model has no clusters, or the data no classes. */
size_t fli_figures_cells(const fli_model *m, size_t classes);

/* The clients' side. */
typedef struct {
    fl_ctx *ctx;
    const fli_model *model;
    const fli_fed *fed;
    const fli_algo *algo;
    const void *params;
    fli_store *store;
} fli_figures_side;

/* Answers an ask for figures, or for an own model. */
fl_status fli_figures_answer(const fli_figures_side *side, fli_eval *eval, fli_exchange *x);

#endif
