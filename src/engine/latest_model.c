#include "engine/latest_model.h"

#include <stdatomic.h>
#include <string.h>

typedef struct {
    atomic_size_t readers; /* at it, or about to find out that it is no longer the newest */
    size_t version;
    char *contents;
} sheet;

struct fli_latest {
    size_t bytes, count;
    atomic_size_t newest; /* index of the sheet to read */
    char *memory;
    sheet sheets[];
};

fl_status fli_latest_new(fl_ctx *ctx, size_t bytes, size_t readers, fli_latest **out)
{
    size_t count = readers + 2, stride = (bytes + 63) / 64 * 64;
    fli_latest *b = fli_alloc(ctx, 1, sizeof *b + count * sizeof *b->sheets);
    if (!b) return FL_ENOMEM;
    b->bytes = bytes;
    b->count = count;
    b->memory = fli_alloc(ctx, count, stride);
    if (!b->memory) {
        fli_free(b);
        return FL_ENOMEM;
    }
    atomic_init(&b->newest, 0);
    for (size_t i = 0; i < count; i++) {
        atomic_init(&b->sheets[i].readers, 0);
        b->sheets[i].contents = b->memory + i * stride;
    }
    *out = b;
    return FL_OK;
}

void fli_latest_free(fli_latest *b)
{
    if (!b) return;
    fli_free(b->memory);
    fli_free(b);
}

/* Every reader holds at most one sheet, and one is the newest: of count = readers + 2 at least one is free. A reader
 * that comes to the free sheet late, having looked for the newest long ago, sees that it is not the newest and leaves
 * without reading. */
static size_t free_sheet(fli_latest *b)
{
    size_t newest = atomic_load(&b->newest);
    for (size_t i = 0;; i = (i + 1) % b->count)
        if (i != newest && !atomic_load(&b->sheets[i].readers)) return i;
}

void fli_latest_write(fli_latest *b, const void *contents, size_t version)
{
    size_t i = free_sheet(b);
    memcpy(b->sheets[i].contents, contents, b->bytes);
    b->sheets[i].version = version;
    atomic_store(&b->newest, i);
}

size_t fli_latest_read(fli_latest *b, void *contents)
{
    for (;;) {
        size_t i = atomic_load(&b->newest);
        sheet *s = &b->sheets[i];
        atomic_fetch_add(&s->readers, 1);
        if (atomic_load(&b->newest) == i) {
            memcpy(contents, s->contents, b->bytes);
            size_t version = s->version;
            atomic_fetch_sub(&s->readers, 1);
            return version;
        }
        atomic_fetch_sub(&s->readers, 1);
    }
}
