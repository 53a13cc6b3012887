/* Many small things with one lifetime: allocate piecemeal, free at once. */
#ifndef FLI_BASE_ARENA_H
#define FLI_BASE_ARENA_H

#include "base/ctx.h"

typedef struct {
    fl_ctx *ctx;
    struct fli_arena_block *blocks;
} fli_arena;

void fli_arena_init(fli_arena *a, fl_ctx *ctx);
void fli_arena_fini(fli_arena *a);
void *fli_arena_alloc(fli_arena *a, size_t count, size_t size); /* zeroed; NULL with the error set */
char *fli_arena_strdup(fli_arena *a, const char *s);

#endif
