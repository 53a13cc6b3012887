/* What passes between a server and a client: an ask, and the parts of a method's messages.
 *
 * An ask is plain numbers. A message is a table of parts, row by row: which vector or scalar, which block of it, when,
 * and what becomes of it. What a table names is what is shipped, what is counted, and what an executor may touch. */
#ifndef FLI_ALGO_MESSAGE_H
#define FLI_ALGO_MESSAGE_H

#include "fedloom_extend.h"

/* What a client is asked for. */
enum {
    FLI_ASK_TURN,      /* work on the method's local problem */
    FLI_ASK_FIGURES,   /* say how models do on its samples: see message/exchange.h */
    FLI_ASK_OWN_MODEL, /* show its own model */
    FLI_ASK_LEVELS     /* a derivative of a two-level problem over all of its samples: see message/exchange.h */
};

/* Flags of an ask. What figures are asked for lies above them. */
enum {
    FLI_ASK_HAS_BODY = 1, /* the broadcast changed since this client's last turn, and is sent */
    FLI_ASK_REPLY = 2,    /* an upload is wanted */
    /* as bytes: fl_ask.bystander and warm_up, which no flags have otherwise */
    FLI_ASK_BYSTANDER = 4,
    FLI_ASK_WARM_UP = 8,
    FLI_ASK_FIRST = 16, /* the client has not had a turn: FL_AT_FIRST holds */
    /* of asynchronous methods, when figures are asked for: the client has begun the turn named by `stream`, and the
     * server has not absorbed its answer */
    FLI_ASK_AWAY = 32
};
#define FLI_ASK_FLAG_BITS 8

enum { FLI_MOST_PHASES = 1 << 20 }; /* of a round */

/* An ask's little-endian form. Reading refuses nothing: the reader of outside bytes checks them. */
enum { FLI_ASK_BYTES = 6 * 8 + 6 * 4 };
void fli_ask_write(const fl_ask *a, unsigned char *out);
void fli_ask_read(const unsigned char *in, fl_ask *a);
/* Why an ask of a federation of that size cannot be, as the end of a sentence; NULL: it can. */
const char *fli_ask_wrong(const fl_ask *a, size_t clients);

/* Clients begin at the start model, and put it into their own state. */
#define FLI_START_PART                                                                                                 \
    {                                                                                                                  \
        "x0", FL_PART_START, 0, FL_PART_FORGET, FL_AT_FIRST                                                            \
    }

/* Whether it is a vector, or a block of one. */
int fli_part_is_vector(const fl_part *p);
/* How many numbers a part has; 0 for vectors. */
size_t fli_part_numbers(const fl_part *p);
/* Whether it is sent at such a moment: the bits of a stage or of the warm-up, and FL_AT_FIRST if that holds. */
int fli_part_sent(const fl_part *p, unsigned moment);
/* Vectors and scalars that a table of parts speaks of; NULL is empty. */
size_t fli_parts_vectors(const fl_part *parts);
size_t fli_parts_numbers(const fl_part *parts);
/* A vector's elements from *first on, of n with `upper` in the upper block; 0 for a scalar. */
size_t fli_part_range(const fl_part *p, size_t n, size_t upper, size_t *first);

#endif
