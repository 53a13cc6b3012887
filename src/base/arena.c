#include "base/arena.h"

#include <stdint.h>
#include <string.h>

enum { BLOCK = 8192, GRAIN = 16 };

struct fli_arena_block {
    struct fli_arena_block *next;
    size_t used, size;
    max_align_t data[];
};

void fli_arena_init(fli_arena *a, fl_ctx *ctx)
{
    a->ctx = ctx;
    a->blocks = NULL;
}

void fli_arena_fini(fli_arena *a)
{
    while (a->blocks) {
        struct fli_arena_block *next = a->blocks->next;
        fli_free(a->blocks);
        a->blocks = next;
    }
}

void *fli_arena_alloc(fli_arena *a, size_t count, size_t size)
{
    if (size && count > (SIZE_MAX / 2) / size) count = SIZE_MAX / 2, size = 1; /* fails below */
    size_t bytes = (count * size + GRAIN - 1) / GRAIN * GRAIN;
    struct fli_arena_block *b = a->blocks;
    if (!b || b->size - b->used < bytes) {
        size_t room = bytes > BLOCK ? bytes : BLOCK;
        b = fli_alloc(a->ctx, 1, sizeof *b + room);
        if (!b) return NULL;
        b->size = room;
        b->next = a->blocks;
        a->blocks = b;
    }
    void *p = (char *)b->data + b->used;
    b->used += bytes;
    return p;
}

char *fli_arena_strdup(fli_arena *a, const char *s)
{
    size_t n = strlen(s) + 1;
    char *copy = fli_arena_alloc(a, n, 1);
    return copy ? memcpy(copy, s, n) : NULL;
}
