/* Messages as bytes: the parts that a moment sends, in the order of their table, numbers as IEEE doubles and vectors in the model's
 * precision, little-endian, one after the other. Both sides know the table, so nothing else is in it. What is written here is what is
 * counted. */
#ifndef FLI_EXEC_WIRE_H
#define FLI_EXEC_WIRE_H

#include "exec/exchange.h"

size_t fli_wire_bytes(const fli_part *parts, unsigned moment, const fli_model *m);
void fli_wire_write(const fli_part *parts, unsigned moment, const fli_model *m, const fli_message *from,
                    unsigned char *out);
/* Into a message with room for it; `start` receives the start model. */
void fli_wire_read(const fli_part *parts, unsigned moment, const fli_model *m, const unsigned char *in, fli_message *to,
                   void *start);

/* What an ask sends down and brings up. `up` of asks that are no turns is made in `room`. */
enum { FLI_WIRE_ROOM = 4 };
typedef struct {
    const fli_part *down, *up;
    unsigned moment;
    fli_part room[FLI_WIRE_ROOM];
} fli_wire;
void fli_wire_of(const fli_model *m, size_t classes, const fli_algo *a, const void *params, const fli_ask *ask,
                 fli_wire *out);
/* Bytes of an exchange: nothing goes down without news, and nothing comes up unless a reply is wanted. */
size_t fli_wire_down(const fli_wire *w, const fli_model *m, const fli_ask *ask);
size_t fli_wire_up(const fli_wire *w, const fli_model *m, const fli_ask *ask);

/* How an exchange went, which comes up with every answer; reading refuses what cannot be with FL_EFORMAT. */
enum { FLI_OUTCOME_BYTES = 8 + 3 * 4 };
void fli_outcome_write(const fli_exchange *x, unsigned char *out);
fl_status fli_outcome_read(fl_ctx *ctx, const unsigned char *in, fli_exchange *x);

#endif
