/* Messages as bytes: the parts that a moment sends, in the order of their table, numbers as IEEE doubles and vectors
 * in the model's precision, little-endian, one after the other. Both sides know the table, so nothing else is in it.
 * The bytes of parts are what is counted; asks and outcomes, of a few bytes each, are not. */
#ifndef FLI_MESSAGE_CODEC_H
#define FLI_MESSAGE_CODEC_H

#include "message/exchange.h"
#include "message/setup.h"

/* A range of the entries of vectors. */
typedef struct {
    size_t from, to;
} fli_entries;

/* ==== the parts of a message ================================================================================ */

/* A part that a message of some moment sends, or what of it lies in a range. Bytes one after the other, tensors of a
 * packet and the checks of what arrives all go by this walk. */
typedef struct {
    const fl_part *part;
    size_t first, count; /* elements of its vector, from that one on; or numbers */
    size_t size;         /* bytes of an element */
} fli_sent_part;

typedef struct {
    const fl_part *next;
    unsigned moment;
    const fli_model *model;
    fli_entries range;
    fli_sent_part is;
} fli_sent_parts;

/* Before the first of them; `range` NULL: whole vectors. */
fli_sent_parts fli_parts_walk(const fl_part *parts, unsigned moment, const fli_model *m, const fli_entries *range);
/* The next one is in w->is; 0: there is none. */
int fli_parts_next(fli_sent_parts *w);
/* Where it lies in a message; of the start model, in `start`. */
void *fli_sent_place(const fli_sent_part *p, const fli_model *m, const fli_message *message, void *start);
/* Into this many bytes, and back. */
static inline size_t fli_sent_bytes(const fli_sent_part *p) { return p->count * p->size; }
void fli_sent_write(const fli_sent_part *p, const fli_model *m, const fli_message *from, void *out);
void fli_sent_read(const fli_sent_part *p, const fli_model *m, const void *in, fli_message *to, void *start);

/* ==== bytes, one part after the other ======================================================================= */

size_t fli_wire_bytes(const fl_part *parts, unsigned moment, const fli_model *m);

/* The same for a range of the vectors' entries alone, with all numbers. */
size_t fli_wire_slice_bytes(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range);
void fli_wire_slice_write(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range,
                          const fli_message *from, unsigned char *out);
/* As many bytes as that has. */
void fli_wire_slice_read(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range,
                         const unsigned char *in, fli_message *to, void *start);
/* Where its vectors lie in a message of plain memory, for callers that need no copy. The first failure ends it. */
typedef fl_status fli_wire_piece(void *arg, void *bytes, size_t n);
fl_status fli_wire_slice_pieces(const fl_part *parts, unsigned moment, const fli_model *m, fli_entries range,
                                const fli_message *of, fli_wire_piece *visit, void *arg);
void fli_wire_write(const fl_part *parts, unsigned moment, const fli_model *m, const fli_message *from,
                    unsigned char *out);
/* The n bytes of a message into one with room for it; `start` receives the start model. FL_EFORMAT where n is another
 * number. */
fl_status fli_wire_read(fl_ctx *ctx, const fl_part *parts, unsigned moment, const fli_model *m, const unsigned char *in,
                        size_t n, fli_message *to, void *start);

/* What an ask sends down and brings up. Those of asks other than turns are made in `room`, so it must not be copied. */
typedef struct {
    const fl_part *down, *up;
    unsigned moment;
    fl_part room[2][FLI_FIGURES_PARTS];
} fli_wire;
void fli_wire_of(const fli_setup *s, const fl_ask *ask, fli_wire *out);
/* Bytes of an exchange: nothing goes down without FLI_ASK_HAS_BODY, and nothing comes up without FLI_ASK_REPLY. */
size_t fli_wire_down(const fli_wire *w, const fli_model *m, const fl_ask *ask);
size_t fli_wire_up(const fli_wire *w, const fli_model *m, const fl_ask *ask);

#endif
