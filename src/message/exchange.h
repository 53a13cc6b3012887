/* An exchange: what a client is asked, what it is sent, and what comes back. Plain data between the server's side and
 * the clients'; an executor carries it from one to the other, by pointers or by bytes. */
#ifndef FLI_MESSAGE_EXCHANGE_H
#define FLI_MESSAGE_EXCHANGE_H

#include "algo/algo.h"

/* Vectors and numbers as the tables of parts number them. */
typedef struct {
    void **vec;
    double *num;
    const void *start;          /* down: the start model; NULL where nobody is shown it */
    const void *const *history; /* down, for a client: see fli_turn.history */
    uint64_t serial;            /* down: two messages of one serial are the same; 0: nothing is said of it */
    fli_place *place;           /* of the vectors, where fli_message_init has made them */
} fli_message;

typedef struct {
    fli_ask ask;
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
     * context instead, and what a function of the user's said is also in the fault that both sides share */
    fl_failure why;
} fli_exchange;

enum { FLI_MOST_PHASES = 1 << 20 }; /* of a round, in what comes from elsewhere */

/* A zeroed message with this many vectors, in one piece from vec[0] on, and numbers. */
fl_status fli_message_init(fl_ctx *ctx, const fli_space *s, size_t vectors, size_t numbers, fli_message *m);
void fli_message_fini(fli_message *m);
/* Room for what a method's clients upload. */
fl_status fli_upload_init(fl_ctx *ctx, const fli_space *s, const fli_algo *a, fli_message *m);

/* How it went in little-endian bytes, which come up with every answer. FL_EFORMAT: that cannot be. */
enum { FLI_OUTCOME_BYTES = 8 + 3 * 4 };
void fli_outcome_write(const fli_exchange *x, unsigned char *out);
fl_status fli_outcome_read(const unsigned char *in, fli_exchange *x);

/* Parts of checkpoints. */
void fli_save_vectors(const fli_space *s, void *const *vectors, size_t count, fli_saver *out);
void fli_load_vectors(const fli_space *s, void *const *vectors, size_t count, fli_loader *in);
void fli_save_reals(const double *v, size_t count, fli_saver *out);
void fli_load_reals(double *v, size_t count, fli_loader *in);
/* What was asked and, if it is there, what came up and how it went; not what was sent down. Loading returns whether it
 * is. */
void fli_exchange_save(const fli_space *s, const fli_algo *a, const fli_exchange *x, int there, fli_saver *out);
int fli_exchange_load(const fli_space *s, const fli_algo *a, size_t clients, fli_exchange *x, fli_loader *in);

#endif
