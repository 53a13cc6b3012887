/* Memory for many small things: arenas, and arrays that grow. */
#ifndef FLI_BASE_MEMORY_H
#define FLI_BASE_MEMORY_H

#include "base/ctx.h"

/* ==== arenas ================================================================================================ */

/* Many small allocations with one lifetime: made one by one, freed together. */

typedef struct {
    fl_ctx *ctx;
    struct fli_arena_block *blocks;
} fli_arena;

void fli_arena_init(fli_arena *a, fl_ctx *ctx);
void fli_arena_fini(fli_arena *a);
void *fli_arena_alloc(fli_arena *a, size_t count, size_t size); /* zeroed; NULL with the error set */
char *fli_arena_strdup(fli_arena *a, const char *s);

/* ==== arrays that grow ====================================================================================== */

/* Set `size` (bytes per element) and `of` (the file that they are read from, for messages); zero the rest. */
typedef struct {
    size_t size, n, capacity;
    void *p;
    const char *of;
} fli_array;

/* Appends `count` zeroed elements; *room points to the first until the next call. Before taking more memory than there
 * is it returns FL_ENOMEM, naming the file: a small file may unpack to any size. */
fl_status fli_array_add(fl_ctx *ctx, fli_array *a, size_t count, void **room);
/* Passes the elements to the caller, trimmed to their number and never NULL; the array is then empty. */
fl_status fli_array_take(fl_ctx *ctx, fli_array *a, void **out);
void fli_array_fini(fli_array *a);

#endif
