/* An exchange: what a client is asked, what it is sent, and what comes back. Plain data between the server's side and
 * the clients'; an executor carries it from one to the other, by pointers or by bytes (codec.h). Also here: the first
 * failure of a user's function, which both sides share; vectors in checkpoints; and figures, the asks that measure. */
#ifndef FLI_MESSAGE_EXCHANGE_H
#define FLI_MESSAGE_EXCHANGE_H

#include "algo/algo.h"
#include "format/snapshot.h"
#include "vec/space.h"

#include <stdatomic.h>

/* ==== the first failure of a user's function =============================================================== */

/* The first failure of a function that the user brought, in a federation or on one side of it. After it no function of
 * the user is called there any more. Safe from any thread. Zeroed: nothing has failed. */
typedef struct {
    atomic_int taken, there;
    fl_failure first; /* the sentence, once `there` is set */
} fli_user_failure;

static inline int fli_user_failure_there(const fli_user_failure *f)
{
    return atomic_load_explicit(&f->there, memory_order_acquire);
}

/* The first sentence stays. An empty one changes nothing: it comes from a caller that has only seen that another call
 * has failed. */
void fli_user_failure_note(fli_user_failure *f, const fl_failure *why);

/* Makes "method NAME failed in pose, client 3, round 5: WHY" of a failure's text; `ask` NULL: no client's. */
void fli_user_failure_word(fl_failure *why, const fl_method *a, const char *call, const fl_ask *ask, size_t round);

/* ==== vectors in checkpoints =============================================================================== */

/* Memory that holds vectors, to a checkpoint and back. The file has the same bytes whether the vectors are in plain
 * memory or on a device. */
void fli_save_piece(const fl_space *s, const void *v, size_t bytes, fli_saver *out);
void fli_load_piece(const fl_space *s, void *v, size_t bytes, fli_loader *in);

/* ==== messages and exchanges =============================================================================== */

/* Memory of the carrier of a message, in which its vectors lie until it is given back. */
typedef struct fli_lent {
    void (*release)(struct fli_lent *l);
    /* These bytes, which may lie elsewhere, were read, and will not be soon again; NULL: that does not matter. */
    void (*used)(struct fli_lent *l, const void *from, size_t bytes);
} fli_lent;

/* Vectors and numbers as the tables of parts number them. */
typedef struct {
    void **vec;
    double *num;
    const void *start;          /* down: the start model; NULL where nobody is shown it */
    const void *const *history; /* down, for a client: see fl_turn.history */
    uint64_t serial;            /* down: two messages of one serial are the same; 0: nothing is said of it */
    fli_place *place;           /* of the vectors, where fli_message_init has made them */
    size_t borrows;             /* number of vectors, each NULL until it is lent or needed */
    fli_lent *lent;
    void *own; /* what was allocated for vectors that could not be lent */
} fli_message;

typedef struct {
    fl_ask ask;
    const fli_message *down; /* must stay until the client has worked */
    fli_message up;          /* to be filled */
    uint32_t rank;           /* who takes the turn, where a run is made by several ranks; set by the executor */
    /* how it went: */
    uint64_t spent;   /* inner steps of the local solver */
    int missed;       /* it did not reach the required accuracy */
    double norm;      /* of the longest vector that came up, once a server has let it in */
    int own_diverged; /* of a turn that failed: it was the client's own model that left the finite range */
    fl_status status;
    /* the sentence where it failed and the client has one of its own; what went wrong in this process may be in the
     * context instead, and what a function of the user said is also in the
     * fli_user_failure that both sides share */
    fl_failure why;
} fli_exchange;

/* A zeroed message with this many vectors, in one piece from vec[0] on, and numbers. */
fl_status fli_message_init(fl_ctx *ctx, const fl_space *s, size_t vectors, size_t numbers, fli_message *m);
void fli_message_fini(fli_message *m);
/* A message without vectors: who brings one lends them, and sets lent. */
fl_status fli_message_borrower(fl_ctx *ctx, size_t vectors, size_t numbers, fli_message *m);
/* Memory of its own for the vectors that a borrower has not; zeros. Others have theirs. */
fl_status fli_message_own(fl_ctx *ctx, const fl_space *s, fli_message *m);
/* What was lent goes back; a borrower has no vectors then. */
void fli_message_return(fli_message *m);
/* Room for what a method's clients upload. */
fl_status fli_upload_init(fl_ctx *ctx, const fl_space *s, const fl_method *a, fli_message *m);

/* How it went in little-endian bytes, which come up with every answer. FL_EFORMAT: that cannot be. */
enum { FLI_OUTCOME_BYTES = 8 + 3 * 4 };
void fli_outcome_write(const fli_exchange *x, unsigned char *out);
fl_status fli_outcome_read(const unsigned char *in, fli_exchange *x);

/* Parts of checkpoints. */
void fli_save_vectors(const fl_space *s, void *const *vectors, size_t count, fli_saver *out);
void fli_load_vectors(const fl_space *s, void *const *vectors, size_t count, fli_loader *in);
void fli_save_reals(const double *v, size_t count, fli_saver *out);
void fli_load_reals(double *v, size_t count, fli_loader *in);
/* This many vectors and numbers of a message, sent or not, behind their counts. */
void fli_save_message(const fl_space *s, const fli_message *m, size_t vectors, size_t numbers, fli_saver *out);
void fli_load_message(const fl_space *s, fli_message *m, size_t vectors, size_t numbers, fli_loader *in);

/* ==== figures: measurements by clients ===================================================================== */

/* Figures: losses, hits and gradients of a model on a client's samples, because the server has no samples. An ask of
 * another kind: the model under measurement goes down, sums over a client's samples come up. It leaves no trace in the
 * client, and is counted separately from training. */

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
    FLI_FIGURE_OWN_TRAIN_LOSS, /* F_i of a mixture, f_i of an own model alone; with weight decay */
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
    FLI_FIGURES_CLUSTERS_AT = FLI_FIGURES_POTENTIAL_AT + FL_POTENTIAL_TERMS, /* a table, clusters x classes */
};
enum { FLI_HAS_TRAIN = 1, FLI_HAS_TEST = 2, FLI_HAS_OWN = 4, FLI_HAS_PSEUDO = 8 };

/* Parts of a message of an ask that is no turn, at most. */
enum { FLI_FIGURES_PARTS = 6 };
/* Cells of the clusters' table; 0: the model has no clusters, or the data no classes. */
size_t fli_figures_cells(const fli_model *m, size_t classes);
/* Why numbers that came up cannot be, as the end of a sentence; NULL: they can. */
const char *fli_figures_wrong(const double *num);

#endif
