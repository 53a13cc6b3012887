/* Messages in the wire format of protocol buffers, into memory: what a writer of a few fixed messages needs. A message
 * within another is opened and closed; its length has five bytes whatever it is, which every reader takes. */
#ifndef FLI_FORMAT_PROTOBUF_H
#define FLI_FORMAT_PROTOBUF_H

#include "base/ctx.h"

#include <stdint.h>

/* Set ctx, zero the rest. The first failure stays, and nothing more is written. */
typedef struct {
    fl_ctx *ctx;
    uint8_t *p; /* from fli_alloc */
    size_t n, capacity;
    fl_status status;
} fli_protobuf;

void fli_protobuf_fini(fli_protobuf *b);

void fli_protobuf_number(fli_protobuf *b, unsigned field, uint64_t v);
void fli_protobuf_text(fli_protobuf *b, unsigned field, const char *text);
/* Room for n bytes, zeroed, to be filled before the next call; NULL after a failure. */
void *fli_protobuf_room(fli_protobuf *b, unsigned field, size_t n);

/* Returns what its end needs. Messages are shorter than 2 GiB: FL_EFORMAT. */
size_t fli_protobuf_open(fli_protobuf *b, unsigned field);
void fli_protobuf_close(fli_protobuf *b, size_t opened);

#endif
