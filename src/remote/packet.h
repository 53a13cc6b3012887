/* The packets between the two halves of a federation. Input is untrusted. A packet is
 *
 *     "flpacket" | version u16 | kind u16 | checksum u32 | number u64 | client u32 | bytes of the head u32 |
 *     bytes of the body u64 | settled u64 | digest of the run, 32 bytes | head | body
 *
 * little-endian. The checksum (CRC-32C) covers all bytes but its own. The head is plain numbers, such as an ask; the
 * body of asks and answers holds vectors and numbers in the safetensors format, named as in the method's tables, so
 * that any language can read it. A packet is checked to its last byte before it is used. */
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
    FLI_PACKET_ASK,    /* head: an ask; body: what is sent down, or nothing */
    FLI_PACKET_ANSWER, /* head: the outcome, and a sentence after a failure; body: what is sent up */
    FLI_PACKET_STATE   /* body: the client's state */
} fli_packet_kind;

typedef struct {
    fli_packet_kind kind;
    uint32_t client;
    uint64_t number;  /* of an ask and of its answer; 0 otherwise */
    uint64_t settled; /* of an ask: the number of the client's last turn that counts; 0: none */
    fli_digest run;   /* zeros in a card */
    const unsigned char *head, *body;
    size_t head_bytes, body_bytes;
} fli_packet;

fl_status fli_packet_write(fl_ctx *ctx, const fli_packet *p, fl_bytes *out);
/* The kind that a packet claims; 0: not a packet of this version. It may still be damaged. */
fli_packet_kind fli_packet_says(const void *in, size_t n);
/* Head and body point into `in`. FL_EFORMAT for anything but an intact packet of that kind. */
fl_status fli_packet_read(fl_ctx *ctx, fli_packet_kind kind, const void *in, size_t n, fli_packet *out);
/* Reads a packet that has been received completely; its checksum is known. FL_EIO: the file cannot be read. */
fl_status fli_packet_received(fl_ctx *ctx, fli_packet_kind kind, fli_incoming *in, fli_packet *out);
/* The number of a packet from its first bytes, which may be damaged; 0: they are too few. */
uint64_t fli_packet_number(const void *beginning, size_t n);

/* ---- asks and answers ---------------------------------------------------------------------------------- */

/* What both sides must know to read each other's packets: the setup and the run's digest. */
typedef struct {
    const fli_setup *setup;
    fli_digest run;
} fli_protocol;

/* A body that is shared by packets to several clients: packed once, reference counted. */
typedef struct {
    fl_bytes bytes;
    uint32_t checksum;
    atomic_uint users;
} fli_shared_body;
void fli_shared_body_release(fli_shared_body *b); /* NULL is fine */

/* An ask in two pieces: the front, which only this client gets, and the body. */
enum { FLI_ASK_FRONT = 48 + sizeof(fli_digest) + FLI_ASK_BYTES };
typedef struct {
    unsigned char front[FLI_ASK_FRONT];
    fli_shared_body *body; /* holds a reference; NULL: no body */
} fli_ask_packet;

/* The most bytes of an ask of any kind. */
size_t fli_ask_bytes(const fli_setup *s);
/* Packs what an ask with FLI_ASK_HAS_BODY sends down; *out has one reference. */
fl_status fli_ask_body(fl_ctx *ctx, const fli_setup *setup, const fli_exchange *x, fli_shared_body **out);
/* Writes out->front for out->body, which must be set. */
void fli_ask_front(const fli_protocol *p, uint64_t number, uint64_t settled, const fli_exchange *x,
                   fli_ask_packet *out);
/* Both pieces as one; releases the body. */
fl_status fli_ask_join(fl_ctx *ctx, fli_ask_packet *ask, fl_bytes *out);
/* A received ask with its own memory; what was not sent is NaN. The answer goes into x.up. */
typedef struct {
    uint64_t number, settled;
    fli_exchange x;
    fli_wire parts;
    fli_message inbox;
    void *start;
} fli_received_ask;
/* FL_EFORMAT: not a valid ask of this run to this client. Call fli_received_ask_fini also after a failure. Not to be
 * copied. */
fl_status fli_received_ask_read(fl_ctx *ctx, const fli_protocol *p, uint32_t client, const void *in, size_t n,
                                fli_received_ask *e);
void fli_received_ask_fini(fli_received_ask *e);

/* The most bytes of an answer of any kind. */
size_t fli_answer_bytes(const fli_setup *s);
fl_status fli_answer_pack(fl_ctx *ctx, const fli_protocol *p, const fli_received_ask *e, fl_bytes *out);
/* Reads an answer's body and outcome into its exchange, completely or not at all. Makes the sentence of a failure
 * printable. If the exchange borrows, its vectors stay in the packet's memory: x->up.lent is set to `lent`, and owns it
 * from then on. */
fl_status fli_answer_read(fl_ctx *ctx, const fli_setup *setup, const fli_packet *packet, fli_lent *lent,
                          fli_exchange *x);

#endif
