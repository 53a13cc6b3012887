#include "base/memory.h"

#include "base/os.h"

#include <math.h>
#include <stdint.h>
#include <string.h>

/* ==== arenas ================================================================================================ */

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

/* ==== arrays that grow ====================================================================================== */

/* The limit that forbids this many elements in addition to the old ones; {INFINITY}: none. */
static fli_limit obstacle(const fli_array *a, size_t capacity)
{
    enum { SMALL = 1 << 20 };
    double old = (double)a->n * (double)a->size, fresh = (double)capacity * (double)a->size;
    fli_limit all = {INFINITY, ""}, left = all;
    if (fresh > SMALL) all = fli_limit_memory();
    if (old + fresh > all.bytes) return all;
    if (fresh > SMALL) left = fli_limit_free();
    return fresh > left.bytes ? left : (fli_limit){INFINITY, ""};
}

/* Doubles the array; if that is too much, adds a quarter. */
static fl_status grow(fl_ctx *ctx, fli_array *a, size_t count)
{
    size_t capacity = a->capacity + (a->capacity > count ? a->capacity : count);
    if (capacity < 64) capacity = 64;
    if (capacity < count) return fli_fail(ctx, FL_ENOMEM, "out of memory: %zu more elements", count);
    if (isfinite(obstacle(a, capacity).bytes)) capacity = a->n + (a->n / 4 > count ? a->n / 4 : count);
    fli_limit limit = obstacle(a, capacity);
    if (isfinite(limit.bytes))
        return fli_fail(ctx, FL_ENOMEM,
                        "out of memory: %s is too large: reading it takes %.4g GiB so far, and %s is %.4g GiB",
                        a->of ? a->of : "what is read", (double)(a->n + capacity) * (double)a->size * 0x1p-30,
                        limit.what, limit.bytes * 0x1p-30);
    fl_status s = fli_grow(ctx, &a->p, a->n, capacity, a->size);
    if (!s) a->capacity = capacity;
    return s;
}

fl_status fli_array_add(fl_ctx *ctx, fli_array *a, size_t count, void **room)
{
    fl_status s = count > a->capacity - a->n ? grow(ctx, a, count) : FL_OK;
    if (s) return s;
    *room = (char *)a->p + a->n * a->size;
    memset(*room, 0, count * a->size);
    a->n += count;
    return FL_OK;
}

fl_status fli_array_take(fl_ctx *ctx, fli_array *a, void **out)
{
    int spare = a->capacity > a->n && !isfinite(obstacle(a, a->n).bytes); /* there is room for a copy */
    if (spare || !a->p) {
        fl_status s = fli_grow(ctx, &a->p, a->n, a->n, a->size);
        if (s) return s;
    }
    *out = a->p;
    *a = (fli_array){.size = a->size, .of = a->of};
    return FL_OK;
}

void fli_array_fini(fli_array *a)
{
    fli_free(a->p);
    *a = (fli_array){.size = a->size, .of = a->of};
}
