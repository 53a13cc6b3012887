/* What passes between the two halves of a federation, as bytes that may come from anybody. A packet is
 *
 *     "flpacket" | version u16 | kind u16 | checksum u32 | number u64 | client u32 | bytes of the head u32 |
 *     bytes of the body u64 | settled u64 | which run, 32 bytes | head | body
 *
 * little-endian. The checksum (CRC-32C) is of all bytes but its own. The head is plain numbers, such as an ask; the
 * body of asks and answers holds vectors and numbers in the safetensors format, by the names of the method's tables, so
 * that any language can read it. What is read is checked to the last byte before anything is made of it. */
#ifndef FLI_REMOTE_PACKET_H
#define FLI_REMOTE_PACKET_H

#include "client/card.h"
#include "remote/incoming.h"
#include "message/codec.h"

#include "fedloom_halves.h"

#include <stdatomic.h>

typedef enum {
    FLI_PACKET_NONE,
    FLI_PACKET_CARD,   /* head: a card */
    FLI_PACKET_TERMS,  /* body: terms */
    FLI_PACKET_ASK,    /* head: an ask; body: what is sent down, nothing where nothing is */
    FLI_PACKET_ANSWER, /* head: how it went, and a sentence if it went wrong; body: what comes up */
    FLI_PACKET_STATE   /* body: what a client keeps */
} fli_packet_kind;

typedef struct {
    fli_packet_kind kind;
    uint32_t client;
    uint64_t number;  /* of an ask, and of its answer; else 0 */
    uint64_t settled; /* of an ask: the number of the client's last turn that counts for the server; 0: none */
    fli_digest run;   /* zeros in a card */
    const unsigned char *head, *body;
    size_t head_bytes, body_bytes;
} fli_packet;

fl_status fli_packet_write(fl_ctx *ctx, const fli_packet *p, fl_bytes *out);
/* What a packet says it is; 0: it is none of this version. It may be damaged all the same. */
fli_packet_kind fli_packet_says(const void *in, size_t n);
/* Head and body lie in `in`. FL_EFORMAT for what is no packet of that kind, is cut short, too long or damaged. */
fl_status fli_packet_read(fl_ctx *ctx, fli_packet_kind kind, const void *in, size_t n, fli_packet *out);
/* Of what has come in completely, whose checksum is known. FL_EIO: it cannot be read back. */
fl_status fli_packet_received(fl_ctx *ctx, fli_packet_kind kind, fli_incoming *in, fli_packet *out);
/* The number in a packet that may be damaged, of which the beginning is there; 0: too little is. */
uint64_t fli_packet_number(const void *beginning, size_t n);

/* ---- asks and answers ---------------------------------------------------------------------------------- */

/* What both sides know: how a message of theirs is made, and which run it belongs to. */
typedef struct {
    const fli_setup *setup;
    fli_digest run;
} fli_protocol;

/* A body that packets to any number of clients share: packed once, freed with its last user. */
typedef struct {
    fl_bytes bytes;
    uint32_t checksum;
    atomic_uint users;
} fli_shared_body;
void fli_shared_body_release(fli_shared_body *b); /* NULL is fine */

/* An ask in two pieces: what is this client's alone, and the body. */
enum { FLI_ASK_FRONT = 48 + sizeof(fli_digest) + FLI_ASK_BYTES };
typedef struct {
    unsigned char front[FLI_ASK_FRONT];
    fli_shared_body *body; /* one user of it; NULL: there is none */
} fli_ask_packet;

/* The largest number of bytes of an ask of any kind. */
size_t fli_ask_bytes(const fli_setup *s);
/* What an ask with FLI_ASK_HAS_BODY sends down, with one user. */
fl_status fli_ask_body(fl_ctx *ctx, const fli_setup *setup, const fli_exchange *x, fli_shared_body **out);
/* In front of out->body. */
void fli_ask_front(const fli_protocol *p, uint64_t number, uint64_t settled, const fli_exchange *x,
                   fli_ask_packet *out);
/* Both pieces as one; the body's user goes. */
fl_status fli_ask_join(fl_ctx *ctx, fli_ask_packet *ask, fl_bytes *out);
/* An ask that arrived, with memory of its own; all that was not sent is NaN. The answer goes into x.up. */
typedef struct {
    uint64_t number, settled;
    fli_exchange x;
    fli_wire parts;
    fli_message inbox;
    void *start;
} fli_received_ask;
/* FL_EFORMAT: it is none of this run to this client. To be given back in either case; must not be copied. */
fl_status fli_received_ask_read(fl_ctx *ctx, const fli_protocol *p, uint32_t client, const void *in, size_t n,
                                fli_received_ask *e);
void fli_received_ask_fini(fli_received_ask *e);

/* The largest number of bytes of an answer of any kind. */
size_t fli_answer_bytes(const fli_setup *s);
fl_status fli_answer_pack(fl_ctx *ctx, const fli_protocol *p, const fli_received_ask *e, fl_bytes *out);
/* An answer's body and outcome into the exchange that it belongs to, all of it or nothing. What it says of a failure is
 * made printable. Where the exchange borrows, its vectors stay in the packet's memory, `lent`, which is its own from
 * then on: x->up.lent is set. */
fl_status fli_answer_read(fl_ctx *ctx, const fli_setup *setup, const fli_packet *packet, fli_lent *lent,
                          fli_exchange *x);

#endif
