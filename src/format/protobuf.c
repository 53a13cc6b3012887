#include "format/protobuf.h"

#include <string.h>

enum { NUMBER = 0, LENGTH = 2 }; /* wire types */
enum { LENGTH_BYTES = 5 };

void fli_protobuf_fini(fli_protobuf *b)
{
    fli_free(b->p);
    *b = (fli_protobuf){.ctx = b->ctx};
}

static uint8_t *add(fli_protobuf *b, size_t n)
{
    if (b->status) return NULL;
    if (n > b->capacity - b->n) {
        size_t capacity = 2 * b->capacity + n + 64;
        void *p = b->p;
        if ((b->status = fli_grow(b->ctx, &p, b->n, capacity, 1))) return NULL;
        b->p = p;
        b->capacity = capacity;
    }
    b->n += n;
    return b->p + b->n - n;
}

/* Seven bits per byte, the lowest first; all but the last have the eighth. */
static void add_number(fli_protobuf *b, uint64_t v)
{
    for (uint8_t *to; (to = add(b, 1)); v >>= 7) {
        *to = (uint8_t)(v & 127);
        if (v < 128) return;
        *to |= 128;
    }
}

void fli_protobuf_number(fli_protobuf *b, unsigned field, uint64_t v)
{
    add_number(b, field << 3 | NUMBER);
    add_number(b, v);
}

void *fli_protobuf_room(fli_protobuf *b, unsigned field, size_t n)
{
    add_number(b, field << 3 | LENGTH);
    add_number(b, n);
    uint8_t *to = add(b, n);
    return to ? memset(to, 0, n) : NULL;
}

void fli_protobuf_text(fli_protobuf *b, unsigned field, const char *text)
{
    size_t n = strlen(text);
    void *to = fli_protobuf_room(b, field, n);
    if (to) memcpy(to, text, n);
}

size_t fli_protobuf_open(fli_protobuf *b, unsigned field)
{
    add_number(b, field << 3 | LENGTH);
    add(b, LENGTH_BYTES);
    return b->n;
}

void fli_protobuf_close(fli_protobuf *b, size_t opened)
{
    size_t n = b->n - opened;
    if (!b->status && n > INT32_MAX)
        b->status = fli_fail(b->ctx, FL_EFORMAT, "a message of %zu bytes is too long for protocol buffers: 2 GiB", n);
    for (size_t i = 0; !b->status && i < LENGTH_BYTES; i++, n >>= 7)
        b->p[opened - LENGTH_BYTES + i] = (uint8_t)((n & 127) | (i + 1 < LENGTH_BYTES ? 128 : 0));
}
