/* What whoever carries a client's packets has to see of them. This is the one place of the network's client that knows
 * what is inside; all else goes by fedloom_halves.h. */
#ifndef FLI_NET_COMMON_PACKET_PEEK_H
#define FLI_NET_COMMON_PACKET_PEEK_H

#include "base/digest.h"

/* Of an ask. */
typedef struct {
    uint64_t number, round, steps;
    int turn; /* work on the model; 0: a measurement, which changes nothing of what the client keeps */
} fli_ask_glance;

/* FL_EFORMAT: it is no ask. */
fl_status fli_peek_ask(fl_ctx *ctx, const void *packet, size_t n, fli_ask_glance *out);
/* The number of an ask of which only the beginning is there; 0: that is not enough. */
uint64_t fli_peek_number(const void *beginning, size_t n);
/* Which run terms belong to. */
fl_status fli_peek_terms(fl_ctx *ctx, const void *packet, size_t n, fli_digest *run);

/* The digest in a card that was made with one. */
fl_status fli_peek_samples(fl_ctx *ctx, const void *card, size_t n, fli_digest *samples);

/* What a federation says of samples. */
typedef struct {
    size_t shape[3], classes;
} fli_wanted;

/* Why the client with this card cannot join, as the end of a sentence; NULL: it can, as far as is seen from here. */
const char *fli_peek_wrong(fl_ctx *ctx, const void *card, size_t n, const fli_wanted *wanted, char *sentence,
                           size_t size);

#endif
