/* Messages in the wire format of protocol buffers, in memory: only what a writer of a few fixed messages needs. A
 * message within another is opened and closed; its length always takes five bytes, which every reader accepts. */
#ifndef FLI_FORMAT_PROTOBUF_H
#define FLI_FORMAT_PROTOBUF_H

#include "base/ctx.h"

#include <stdint.h>

/* Set ctx, zero the rest. The first failure is kept, and nothing is written after it. */
typedef struct {
    fl_ctx *ctx;
    uint8_t *p; /* from fli_alloc */
    size_t n, capacity;
    fl_status status;
} fli_protobuf;

void fli_protobuf_fini(fli_protobuf *b);

void fli_protobuf_number(fli_protobuf *b, unsigned field, uint64_t v);
void fli_protobuf_text(fli_protobuf *b, unsigned field, const char *text);
/* Space for n zeroed bytes, to be filled before the next call; NULL after a failure. */
void *fli_protobuf_room(fli_protobuf *b, unsigned field, size_t n);

/* Returns the argument for its end. FL_EFORMAT for a message of 2 GiB or more. */
size_t fli_protobuf_open(fli_protobuf *b, unsigned field);
void fli_protobuf_close(fli_protobuf *b, size_t opened);

#endif
