/* What passes between a server and a client: an ask, and the parts of a method's messages.
 *
 * An ask is plain numbers. A message is a table of parts, row by row: which vector or scalar, which block of it, when,
 * and what becomes of it. What a table names is what is shipped, what is counted, and what an executor may touch. */
#ifndef FLI_ALGO_MESSAGE_H
#define FLI_ALGO_MESSAGE_H

#include <stddef.h>
#include <stdint.h>

/* What a client is asked for. */
enum {
    FLI_ASK_TURN,      /* work on the method's local problem */
    FLI_ASK_FIGURES,   /* say how models do on its samples: see message/exchange.h */
    FLI_ASK_OWN_MODEL, /* show its own model */
    FLI_ASK_LEVELS     /* a derivative of a two-level problem over all of its samples: see message/exchange.h */
};

/* Flags of an ask. What figures are asked for lies above them. */
enum {
    FLI_ASK_HAS_BODY = 1,  /* the broadcast changed since this client's last turn, and is sent */
    FLI_ASK_REPLY = 2,     /* an upload is wanted */
    FLI_ASK_BYSTANDER = 4, /* not in the cohort */
    FLI_ASK_WARM_UP = 8,   /* before the first round */
    FLI_ASK_FIRST = 16,    /* the client has not had a turn: FLI_AT_FIRST holds */
    /* of asynchronous methods, when figures are asked for: the client has begun the turn named by `stream`, and the
     * server has not absorbed its answer */
    FLI_ASK_AWAY = 32
};
#define FLI_ASK_FLAG_BITS 8

typedef struct {
    uint64_t round;     /* server steps when it was made */
    uint64_t stream;    /* names its mini-batches: a client never has the same twice */
    uint64_t steps;     /* Q_i */
    double lr;          /* of a step; by a schedule that counts steps, their mean */
    double weight;      /* w_i */
    double probability; /* p_i: how likely the client takes part in a round */
    uint32_t client;
    uint32_t kind;
    uint32_t cohort;        /* m = |S| */
    uint32_t phase, phases; /* which exchange of the round this is, of how many */
    uint32_t flags;
} fli_ask;

/* Its little-endian form. Reading refuses nothing: whoever reads it from outside checks it. */
enum { FLI_ASK_BYTES = 6 * 8 + 6 * 4 };
void fli_ask_write(const fli_ask *a, unsigned char *out);
void fli_ask_read(const unsigned char *in, fli_ask *a);
/* Why an ask of a federation of that size cannot be, as the end of a sentence; NULL: it can. */
const char *fli_ask_wrong(const fli_ask *a, size_t clients);

typedef enum {
    FLI_WHOLE, /* a vector, or a block of it */
    FLI_UPPER,
    FLI_LOWER,
    FLI_NUMBER, /* a scalar */
    FLI_START   /* the start model; of messages down alone */
} fli_part_kind;

typedef enum {
    FLI_FORGET,    /* is gone when the turn is over */
    FLI_KEEP,      /* the client has it until the round is over, and later parts are written into it */
    FLI_KEEP_EACH, /* the same, and what it was in every phase in which it was sent: see fli_turn.history */
    FLI_VALUE,     /* up: takes the place of what the server has; */
    FLI_CHANGE     /* up: is added, scaled, to what the server has, so that it shrinks as a run converges */
} fli_part_use;

/* When a part is sent. 0: always. A method's stages are numbered from 0, see fli_algo.stage. */
enum { FLI_STAGES = 24 };              /* at most this many */
#define FLI_IN(stage)  (1u << (stage)) /* below that */
#define FLI_IN_ROUNDS  0x00ffffffu
#define FLI_IN_WARM_UP 0x01000000u
#define FLI_AT_FIRST   0x02000000u /* to clients that have not had a turn, whatever the stage */

typedef struct {
    const char *name; /* NULL: the end of the table */
    fli_part_kind what;
    size_t at; /* which one: down of the server's vectors or scalars, up of the upload's */
    fli_part_use use;
    unsigned when;
    size_t count; /* FLI_NUMBER: this many from `at` on; 0 counts as 1 */
} fli_part;

/* Clients begin at the start model, and put it into their own state. */
#define FLI_START_PART                                                                                                 \
    {                                                                                                                  \
        "x0", FLI_START, 0, FLI_FORGET, FLI_AT_FIRST                                                                   \
    }

/* How many numbers a part has; 0 for vectors. */
size_t fli_part_numbers(const fli_part *p);
/* Whether it is sent at such a moment: the bits of a stage or of the warm-up, and FLI_AT_FIRST if that holds. */
int fli_part_sent(const fli_part *p, unsigned moment);
/* Vectors and scalars that a table of parts speaks of; NULL is empty. */
size_t fli_parts_vectors(const fli_part *parts);
size_t fli_parts_numbers(const fli_part *parts);
/* A vector's elements from *first on, of n with `upper` in the upper block; 0 for a scalar. */
size_t fli_part_range(const fli_part *p, size_t n, size_t upper, size_t *first);

#endif
