/* An exchange: an ask to a client, the message down and the message up. Plain data between the server's side and the
 * clients'; an executor carries it, as pointers or as bytes (codec.h). Also here: the first failure of a user's
 * function, which both sides share; vectors in checkpoints; and figures, the asks that measure. */
#ifndef FLI_MESSAGE_EXCHANGE_H
#define FLI_MESSAGE_EXCHANGE_H

#include "algo/algo.h"
#include "format/snapshot.h"
#include "vec/space.h"

#include <stdatomic.h>

/* ==== the first failure of a user's function =============================================================== */

/* The first failure of a user's function, in a federation or on one side of it. After it no user function is called
 * there. Safe from any thread. Zeroed: no failure. */
typedef struct {
    atomic_int taken, there;
    fl_failure first; /* the sentence, once `there` is set */
} fli_user_failure;

static inline int fli_user_failure_there(const fli_user_failure *f)
{
    return atomic_load_explicit(&f->there, memory_order_acquire);
}

/* Keeps the first sentence. Ignores an empty one: its caller has only seen that another call has failed. */
void fli_user_failure_note(fli_user_failure *f, const fl_failure *why);

/* Makes "method NAME failed in pose, client 3, round 5: WHY" of a failure's text; ask NULL: without a client. */
void fli_user_failure_word(fl_failure *why, const fl_method *a, const char *call, const fl_ask *ask, size_t round);

/* ==== vectors in checkpoints =============================================================================== */

/* Writes memory that holds vectors to a checkpoint, and reads it back. The bytes in the file are the same for plain
 * memory and a device. */
void fli_save_piece(const fl_space *s, const void *v, size_t bytes, fli_saver *out);
void fli_load_piece(const fl_space *s, void *v, size_t bytes, fli_loader *in);

/* ==== messages and exchanges =============================================================================== */

/* Memory of a message's carrier. It holds the message's vectors until `release` is called. */
typedef struct fli_lent {
    void (*release)(struct fli_lent *l);
    /* These bytes, which may lie outside the memory, were read and will not be read again soon. May be NULL. */
    void (*used)(struct fli_lent *l, const void *from, size_t bytes);
} fli_lent;

/* Vectors and numbers, indexed as in the method's tables of parts. */
typedef struct {
    void **vec;
    double *num;
    const void *start;          /* down: the start model; NULL: not sent */
    const void *const *history; /* down, for a client: see fl_turn.history */
    uint64_t serial;            /* down: two messages with one serial are equal; 0: unknown */
    fli_place *place;           /* of the vectors, if fli_message_init has allocated them */
    size_t borrows;             /* number of vectors, each NULL until it is lent or allocated */
    fli_lent *lent;
    void *own; /* allocated for vectors that could not be lent */
} fli_message;

typedef struct {
    fl_ask ask;
    const fli_message *down; /* must stay valid until the client has worked */
    fli_message up;          /* the client fills it */
    uint32_t rank;           /* the rank that takes the turn, in a run over ranks; set by the executor */
    /* the outcome: */
    uint64_t spent;   /* inner steps of the local solver */
    int missed;       /* the solver did not reach the required accuracy */
    double norm;      /* of the longest vector of the upload, once a server has accepted it */
    int own_diverged; /* the turn failed because the client's own model is no longer finite */
    fl_status status;
    /* the sentence of a failure, if the client has one. For a failure in this process it may be in the context instead;
     * that of a user's function is also in the fli_user_failure that both sides share */
    fl_failure why;
} fli_exchange;

/* A message with `vectors` zeroed vectors, contiguous from vec[0] on, and `numbers` numbers. */
fl_status fli_message_init(fl_ctx *ctx, const fl_space *s, size_t vectors, size_t numbers, fli_message *m);
void fli_message_fini(fli_message *m);
/* A message without vectors: a carrier lends them, and sets `lent`. */
fl_status fli_message_borrower(fl_ctx *ctx, size_t vectors, size_t numbers, fli_message *m);
/* Allocates the vectors that a borrower lacks, zeroed. No effect on other messages. */
fl_status fli_message_own(fl_ctx *ctx, const fl_space *s, fli_message *m);
/* Returns what was lent; a borrower then has no vectors. */
void fli_message_return(fli_message *m);
/* A message for the uploads of a method's clients. */
fl_status fli_upload_init(fl_ctx *ctx, const fl_space *s, const fl_method *a, fli_message *m);

/* The outcome in little-endian bytes, which are part of every answer. FL_EFORMAT: impossible values. */
enum { FLI_OUTCOME_BYTES = 8 + 3 * 4 };
void fli_outcome_write(const fli_exchange *x, unsigned char *out);
fl_status fli_outcome_read(const unsigned char *in, fli_exchange *x);

/* Sections of checkpoints. */
void fli_save_vectors(const fl_space *s, void *const *vectors, size_t count, fli_saver *out);
void fli_load_vectors(const fl_space *s, void *const *vectors, size_t count, fli_loader *in);
void fli_save_reals(const double *v, size_t count, fli_saver *out);
void fli_load_reals(double *v, size_t count, fli_loader *in);
/* The first `vectors` vectors and `numbers` numbers of a message, with their counts. */
void fli_save_message(const fl_space *s, const fli_message *m, size_t vectors, size_t numbers, fli_saver *out);
void fli_load_message(const fl_space *s, fli_message *m, size_t vectors, size_t numbers, fli_loader *in);

/* ==== figures: measurements by clients ===================================================================== */

/* Figures: losses, hits and gradients of a model on a client's samples; the server has no samples. The ask sends the
 * model down, and gets sums over the client's samples up. It does not change the client, and its bytes are counted
 * separately from training. */

enum {                                                   /* flags of such an ask */
       FLI_FIGURES_TRAIN = 1 << FLI_ASK_FLAG_BITS,       /* loss and hits on the training samples */
       FLI_FIGURES_TEST = 2 << FLI_ASK_FLAG_BITS,        /* on the client's own test part, if it has one */
       FLI_FIGURES_EITHER = 4 << FLI_ASK_FLAG_BITS,      /* on the training samples if there is no test part */
       FLI_FIGURES_GRADIENT = 8 << FLI_ASK_FLAG_BITS,    /* of the training loss, without weight decay; implies TRAIN */
       FLI_FIGURES_OWN = 16 << FLI_ASK_FLAG_BITS,        /* of the client's own model on its own test part */
       FLI_FIGURES_PSEUDO = 32 << FLI_ASK_FLAG_BITS,     /* correct pseudo labels */
       FLI_FIGURES_CLUSTERS = 64 << FLI_ASK_FLAG_BITS,   /* how many samples of each class are in each cluster */
       FLI_FIGURES_OWN_TRAIN = 128 << FLI_ASK_FLAG_BITS, /* with OWN: also of that model on the training samples */
       FLI_FIGURES_POTENTIAL = 256 << FLI_ASK_FLAG_BITS, /* what the client contributes to the method's potential */
       FLI_FIGURES_AHEAD = 512 << FLI_ASK_FLAG_BITS,     /* with GRADIENT: also after the second block has moved */
       FLI_FIGURES_OWN_GRADIENT = 1024 << FLI_ASK_FLAG_BITS, /* with OWN: of that model's training objective */
};

/* The derivatives of FLI_ASK_LEVELS: (x, y) goes down, for a product also v, and one vector comes up. */
enum {
    FLI_LEVELS_LOWER = 1 << FLI_ASK_FLAG_BITS,  /* grad_y g_i, in the lower block */
    FLI_LEVELS_UPPER = 2 << FLI_ASK_FLAG_BITS,  /* grad f_i, and f_i as a number */
    FLI_LEVELS_PRODUCT = 4 << FLI_ASK_FLAG_BITS /* (g_xy v, g_yy v) */
};

/* The numbers of an answer. */
enum {
    FLI_FIGURE_HAS, /* bits FLI_HAS_...: which of the following are set */
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
    FLI_FIGURE_OWN_MIX, /* share of the own model in the client's predictions */
    FLI_FIGURE_PSEUDO_N,
    FLI_FIGURE_PSEUDO_HITS,
    FLI_FIGURE_LABELLED_LOSS, /* with TRAIN: the part of f_i over labelled samples, without weight decay */
    FLI_FIGURE_LABELS_MOVE,   /* with GRADIENT: ||y+ - y||^2, the squared step of the second block at x */
    FLI_FIGURE_LABELS_SLOPE,  /* with AHEAD: ||y - P(y - lr grad_y f_i)||^2/lr^2, for a step of the second block */
    FLI_FIGURE_OWN_GRADIENT2, /* with OWN_GRADIENT: its squared length, weight decay included */
    FLI_FIGURES,              /* those above are in every answer, those below only if asked for: */
    FLI_FIGURES_POTENTIAL_AT = FLI_FIGURES,
    FLI_FIGURES_CLUSTERS_AT = FLI_FIGURES_POTENTIAL_AT + FL_POTENTIAL_TERMS, /* a table, clusters x classes */
};
enum { FLI_HAS_TRAIN = 1, FLI_HAS_TEST = 2, FLI_HAS_OWN = 4, FLI_HAS_PSEUDO = 8 };

/* The most parts of a message for an ask that is not a turn. */
enum { FLI_FIGURES_PARTS = 6 };
/* The size of the clusters' table; 0: the model has no clusters, or the data no classes. */
size_t fli_figures_cells(const fli_model *m, size_t classes);
/* Why the numbers of an answer are impossible, as the end of a sentence; NULL: they are not. */
const char *fli_figures_wrong(const double *num);

#endif
