/* The few fields of packets that a client's side of the network needs. No other file of it looks into packets: the rest
 * goes by fedloom_halves.h. */
#ifndef FLI_NET_COMMON_PACKET_PEEK_H
#define FLI_NET_COMMON_PACKET_PEEK_H

#include "base/digest.h"

typedef struct {
    uint64_t number, round, steps;
    int turn; /* work on the model; 0: a measurement, which changes nothing of what the client keeps */
} fli_peeked_ask;

/* FL_EFORMAT: it is no ask. */
fl_status fli_peek_ask(fl_ctx *ctx, const void *packet, size_t n, fli_peeked_ask *out);
/* The number of an ask of which only the beginning is there; 0: too little is. */
uint64_t fli_peek_number(const void *beginning, size_t n);
/* Which run terms belong to. */
fl_status fli_peek_terms(fl_ctx *ctx, const void *packet, size_t n, fli_digest *run);

/* The digest in a card that was made with one. */
fl_status fli_peek_samples(fl_ctx *ctx, const void *card, size_t n, fli_digest *samples);

/* What a federation says of samples. */
typedef struct {
    size_t shape[3], classes;
} fli_wanted_samples;

/* Why the client with this card cannot join, as the end of a sentence; NULL: it can, as far as is seen from here. */
const char *fli_peek_card_wrong(fl_ctx *ctx, const void *card, size_t n, const fli_wanted_samples *wanted,
                                char *sentence, size_t size);

#endif
