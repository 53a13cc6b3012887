/* The data that a server and a client exchange: an ask, and the parts of a method's messages.
 *
 * An ask is plain numbers. A message is a table of parts, row by row: which vector or scalar, which block of it, when
 * it is sent, and how it is used. The table alone determines what is sent, what is counted, and what an executor may
 * touch. */
#ifndef FLI_ALGO_MESSAGE_H
#define FLI_ALGO_MESSAGE_H

#include "fedloom_extend.h"

/* The kinds of asks. */
enum {
    FLI_ASK_TURN,      /* work on the method's local problem */
    FLI_ASK_FIGURES,   /* evaluate models on its samples: see message/exchange.h */
    FLI_ASK_OWN_MODEL, /* return its own model */
    FLI_ASK_LEVELS     /* a derivative of a two-level problem over all its samples: see message/exchange.h */
};

/* Flags of an ask. The bits above them say which figures are wanted. */
enum {
    FLI_ASK_HAS_BODY = 1, /* the broadcast changed since this client's last turn, and is sent */
    FLI_ASK_REPLY = 2,    /* an upload is wanted */
    /* fl_ask.bystander and warm_up, only in the ask's bytes */
    FLI_ASK_BYSTANDER = 4,
    FLI_ASK_WARM_UP = 8,
    FLI_ASK_FIRST = 16, /* the client's first turn: FL_AT_FIRST holds */
    /* asks for figures in asynchronous methods: the client has begun the turn named by `stream`, and the server has not
     * absorbed its answer */
    FLI_ASK_AWAY = 32
};
#define FLI_ASK_FLAG_BITS 8

enum { FLI_MOST_PHASES = 1 << 20 }; /* of a round */

/* An ask's little-endian form. Reading refuses nothing: the code that reads outside bytes checks them. */
enum { FLI_ASK_BYTES = 6 * 8 + 6 * 4 };
void fli_ask_write(const fl_ask *a, unsigned char *out);
void fli_ask_read(const unsigned char *in, fl_ask *a);
/* The end of a sentence that says why such an ask is invalid for a federation of that size; NULL: it is valid. */
const char *fli_ask_wrong(const fl_ask *a, size_t clients);

/* down: the start model, which clients put into their state. */
#define FLI_START_PART                                                                                                 \
    {                                                                                                                  \
        "x0", FL_PART_START, 0, FL_PART_FORGET, FL_AT_FIRST                                                            \
    }

/* Whether a part is a vector, or a block of one. */
int fli_part_is_vector(const fl_part *p);
/* The number of scalars in a part; 0 for vectors. */
size_t fli_part_numbers(const fl_part *p);
/* Whether a part is sent at a moment: the bits of a stage or of the warm-up, and FL_AT_FIRST if that holds. */
int fli_part_sent(const fl_part *p, unsigned moment);
/* The number of vectors, and of scalars, that a table of parts refers to; NULL is empty. */
size_t fli_parts_vectors(const fl_part *parts);
size_t fli_parts_numbers(const fl_part *parts);
/* Returns the number of a vector part's elements, which begin at *first, given n in all and `upper` in the upper block;
 * 0 for a scalar. */
size_t fli_part_range(const fl_part *p, size_t n, size_t upper, size_t *first);

#endif
