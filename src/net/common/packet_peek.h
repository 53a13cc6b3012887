/* The few packet fields that the network code needs. Only packet_peek.c looks into packets; other files of net pass
 * them to fedloom_halves.h. */
#ifndef FLI_NET_COMMON_PACKET_PEEK_H
#define FLI_NET_COMMON_PACKET_PEEK_H

#include "base/digest.h"

typedef struct {
    uint64_t number, round, steps;
    int turn; /* 1: a turn, which changes the client's state; 0: a measurement, which does not */
} fli_peeked_ask;

/* FL_EFORMAT: the packet is not an ask. */
fl_status fli_peek_ask(fl_ctx *ctx, const void *packet, size_t n, fli_peeked_ask *out);
/* The number of an ask from the first n bytes of its packet; 0: they are too few, or not a packet. */
uint64_t fli_peek_number(const void *beginning, size_t n);
/* The digest of the run that the terms belong to. */
fl_status fli_peek_terms(fl_ctx *ctx, const void *packet, size_t n, fli_digest *run);

/* The digest of the samples in a card. FL_EFORMAT if the card has none. */
fl_status fli_peek_samples(fl_ctx *ctx, const void *card, size_t n, fli_digest *samples);

/* The samples that a federation expects: channels, height, width (features: 1, 1, dim), and the number of classes. */
typedef struct {
    size_t shape[3], classes;
} fli_wanted_samples;

/* Why the client with this card cannot join, as the end of a sentence; NULL: nothing speaks against it so far. Uses
 * `sentence`, of `size` bytes. */
const char *fli_peek_card_wrong(fl_ctx *ctx, const void *card, size_t n, const fli_wanted_samples *wanted,
                                char *sentence, size_t size);

#endif
