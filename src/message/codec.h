/* Messages as bytes: the parts that a moment sends, in the order of their table, one after the other and without a
 * header, since both sides know the table. Numbers are IEEE doubles, vectors in the model's precision, all
 * little-endian. Runs count the bytes of parts; asks and outcomes, of a few bytes each, are not counted. */
#ifndef FLI_MESSAGE_CODEC_H
#define FLI_MESSAGE_CODEC_H

#include "message/exchange.h"
#include "message/setup.h"

/* A range of the entries of vectors. */
typedef struct {
    size_t from, to;
} fli_entries;

/* ==== the parts of a message ================================================================================ */

/* A part that a message of some moment sends, or its entries in a range. Wire bytes, the tensors of packets, and the
 * checks of what arrives all use this loop. */
typedef struct {
    const fl_part *part;
    size_t first, count; /* of a vector: the first element and the number of elements; else the number of numbers */
    size_t size;         /* bytes of an element */
} fli_sent_part;

typedef struct {
    const fl_part *next;
    unsigned moment;
    const fli_model *model;
    fli_entries range;
    fli_sent_part is;
} fli_sent_parts;

/* Starts the loop; range NULL: whole vectors. */
fli_sent_parts fli_parts_walk(const fl_part *parts, unsigned moment, const fli_model *m, const fli_entries *range);
/* Moves to the next part, in w->is. Returns 0 at the end. */
int fli_parts_next(fli_sent_parts *w);
/* The address of the part in a message; `start` for the start model. */
void *fli_sent_place(const fli_sent_part *p, const fli_model *m, const fli_message *message, void *start);
/* The size of the part in bytes; fli_sent_write writes that many, fli_sent_read reads them back. */
static inline size_t fli_sent_bytes(const fli_sent_part *p) { return p->count * p->size; }
void fli_sent_write(const fli_sent_part *p, const fli_model *m, const fli_message *from, void *out);
void fli_sent_read(const fli_sent_part *p, const fli_model *m, const void *in, fli_message *to, void *start);

/* ==== bytes, one part after the other ======================================================================= */

size_t fli_wire_bytes(const fl_part *parts, unsigned moment, const fli_model *m);

/* The same for a range of the vectors' entries; includes all numbers. */
size_t fli_wire_slice_bytes(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range);
void fli_wire_slice_write(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range,
                          const fli_message *from, unsigned char *out);
/* Reads fli_wire_slice_bytes bytes. */
void fli_wire_slice_read(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range,
                         const unsigned char *in, fli_message *to, void *start);
/* Visits the vectors of a slice in a message of plain memory, for callers that need no copy. The first failure ends
 * it. */
typedef fl_status fli_wire_piece(void *arg, void *bytes, size_t n);
fl_status fli_wire_slice_pieces(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range,
                                const fli_message *of, fli_wire_piece *visit, void *arg);
void fli_wire_write(const fl_part *parts, unsigned moment, const fli_model *m, const fli_message *from,
                    unsigned char *out);
/* Reads n bytes into a message that has memory; `start` receives the start model. FL_EFORMAT if n is not
 * fli_wire_bytes. */
fl_status fli_wire_read(fl_ctx *ctx, const fl_part *parts, unsigned moment, const fli_model *m, const unsigned char *in,
                        size_t n, fli_message *to, void *start);

/* The parts that an ask sends down and up. For asks other than turns they are made in `room`, so do not copy the
 * struct. */
typedef struct {
    const fl_part *down, *up;
    unsigned moment;
    fl_part room[2][FLI_FIGURES_PARTS];
} fli_wire;
void fli_wire_of(const fli_setup *s, const fl_ask *ask, fli_wire *out);
/* Bytes of an exchange: none down without FLI_ASK_HAS_BODY, none up without FLI_ASK_REPLY. */
size_t fli_wire_down(const fli_wire *w, const fli_model *m, const fl_ask *ask);
size_t fli_wire_up(const fli_wire *w, const fli_model *m, const fl_ask *ask);

#endif
