/* A run has vectors of a few lengths, so the heap has pieces of a few sizes. Small ones are cut from slabs,
 * permanently. Large ones are allocated one by one, and returned to CUDA when memory runs out. */
#include "cuda/host/host.h"

enum { LINE = 256, NO_MEMORY = 2 }; /* cudaErrorMemoryAllocation */
enum {
    LARGE = 4 << 20,
    SLAB = 2 * LARGE,
    SLAB_MOST = 64 << 20
};                 /* the first slab; each further one is twice as large */
enum { NONE = 0 }; /* numbers of pieces and sizes count from 1 */

typedef struct {
    char *at;
    uint32_t size, next, chain; /* number of its size; the next free piece of that size; the next piece in its bucket */
    int large;
} piece;

typedef struct {
    size_t bytes;
    uint32_t free; /* the first free piece */
} size_class;

struct fli_cuda_heap {
    fli_cuda_stream stream;
    piece *pieces;
    size_t count, room;
    uint32_t spare; /* the first unused record of a piece */
    size_class *sizes;
    size_t sizes_count, sizes_room;
    uint32_t *bucket; /* pieces by address; a power of two */
    size_t buckets;
    void **slab;
    size_t slabs, slabs_room, slab_bytes, left; /* bytes of the last slab, and what is left of it */
};

static piece *piece_of(fli_cuda_heap *h, uint32_t number) { return &h->pieces[number - 1]; }

/* ---- room for one more ---- */
static int grow(fl_ctx *ctx, void *array, size_t count, size_t *room, size_t size)
{
    size_t more = *room ? 2 * *room : 64;
    if (count < *room) return 0;
    if (fli_grow(ctx, (void **)array, *room, more, size)) return NO_MEMORY;
    *room = more;
    return 0;
}

/* ---- pieces by address ---- */
static uint32_t *bucket_of(fli_cuda_heap *h, const void *at)
{
    uint64_t mixed = (uint64_t)(uintptr_t)at / LINE * 0x9e3779b97f4a7c15u;
    return &h->bucket[(size_t)(mixed >> 32) & (h->buckets - 1)];
}

static void enter(fli_cuda_heap *h, uint32_t number)
{
    uint32_t *first = bucket_of(h, piece_of(h, number)->at);
    piece_of(h, number)->chain = *first;
    *first = number;
}

static int more_buckets(fli_cuda_heap *h, fl_ctx *ctx)
{
    uint32_t *more = fli_alloc(ctx, 2 * h->buckets, sizeof *more);
    if (!more) return NO_MEMORY;
    fli_free(h->bucket);
    h->bucket = more;
    h->buckets *= 2;
    for (uint32_t i = 1; i <= h->count; i++)
        if (piece_of(h, i)->at) enter(h, i);
    return 0;
}

static void forget(fli_cuda_heap *h, uint32_t number)
{
    piece *p = piece_of(h, number);
    uint32_t *link = bucket_of(h, p->at);
    while (*link != number) link = &piece_of(h, *link)->chain;
    *link = p->chain;
    *p = (piece){.next = h->spare};
    h->spare = number;
}

/* ---- memory from CUDA ---- */
/* Returns free large pieces to CUDA. */
static void trim(fli_cuda_heap *h)
{
    fli_cuda_wait(h->stream);
    for (size_t i = 0; i < h->sizes_count; i++) {
        size_class *s = &h->sizes[i];
        while (s->free && piece_of(h, s->free)->large) {
            uint32_t number = s->free;
            s->free = piece_of(h, number)->next;
            fli_cuda_release(piece_of(h, number)->at);
            forget(h, number);
        }
    }
}

static int find_memory(fli_cuda_heap *h, size_t bytes, void **out)
{
    int code = fli_cuda_alloc(bytes, out);
    if (code != NO_MEMORY) return code;
    fli_cuda_last(); /* clears CUDA's error, which is handled here */
    trim(h);
    code = fli_cuda_alloc(bytes, out);
    if (code) fli_cuda_last();
    return code;
}

static int cut(fli_cuda_heap *h, fl_ctx *ctx, size_t bytes, char **out)
{
    if (h->left < bytes) {
        size_t more = !h->slabs ? SLAB : h->slab_bytes < SLAB_MOST ? 2 * h->slab_bytes : SLAB_MOST;
        int code = grow(ctx, &h->slab, h->slabs, &h->slabs_room, sizeof *h->slab);
        if (!code) code = find_memory(h, more, &h->slab[h->slabs]);
        if (code) return code;
        h->slabs++;
        h->slab_bytes = h->left = more;
    }
    *out = (char *)h->slab[h->slabs - 1] + (h->slab_bytes - h->left);
    h->left -= bytes;
    return 0;
}

/* ---- sizes ---- */
/* The smallest size with a free piece that is large enough but not much too large; NONE if there is none. */
static uint32_t fitting(const fli_cuda_heap *h, size_t bytes)
{
    uint32_t best = NONE;
    for (uint32_t i = 1; i <= h->sizes_count; i++) {
        const size_class *s = &h->sizes[i - 1];
        if (!s->free || s->bytes < bytes || s->bytes - bytes > bytes / 4) continue;
        if (!best || s->bytes < h->sizes[best - 1].bytes) best = i;
    }
    return best;
}

static int size_of(fli_cuda_heap *h, fl_ctx *ctx, size_t bytes, uint32_t *out)
{
    for (*out = 1; *out <= h->sizes_count; ++*out)
        if (h->sizes[*out - 1].bytes == bytes) return 0;
    int code = grow(ctx, &h->sizes, h->sizes_count, &h->sizes_room, sizeof *h->sizes);
    if (!code) h->sizes[h->sizes_count++] = (size_class){.bytes = bytes};
    return code;
}

/* Adds a new, free piece. */
static int add_piece(fli_cuda_heap *h, fl_ctx *ctx, size_t bytes)
{
    uint32_t size, number;
    char *at = NULL;
    int large = bytes > LARGE;
    int code = size_of(h, ctx, bytes, &size);
    if (!code) code = grow(ctx, &h->pieces, h->count, &h->room, sizeof *h->pieces);
    if (!code && h->count >= h->buckets) code = more_buckets(h, ctx);
    if (!code) code = large ? find_memory(h, bytes, (void **)&at) : cut(h, ctx, bytes, &at);
    if (code) return code;
    if (h->spare) {
        number = h->spare;
        h->spare = piece_of(h, number)->next;
    } else {
        number = (uint32_t)++h->count;
    }
    *piece_of(h, number) = (piece){.at = at, .size = size, .next = h->sizes[size - 1].free, .large = large};
    h->sizes[size - 1].free = number;
    enter(h, number);
    return 0;
}

/* ---- interface ---- */
int fli_cuda_heap_take(fli_cuda_heap *h, fl_ctx *ctx, size_t bytes, void **out)
{
    size_t unit = bytes > LARGE ? 64 * 1024 : LINE;
    size_t rounded = (bytes + (bytes == 0) + unit - 1) / unit * unit;
    if (rounded < bytes) return NO_MEMORY;
    uint32_t size = fitting(h, rounded);
    int code = size ? 0 : add_piece(h, ctx, rounded);
    if (code) return code;
    size_class *s = &h->sizes[(size ? size : fitting(h, rounded)) - 1];
    *out = piece_of(h, s->free)->at;
    code = fli_cuda_zero(h->stream, *out, rounded);
    if (!code) s->free = piece_of(h, s->free)->next;
    return code;
}

void fli_cuda_heap_give(fli_cuda_heap *h, void *p)
{
    uint32_t number = p ? *bucket_of(h, p) : NONE;
    while (number && piece_of(h, number)->at != p) number = piece_of(h, number)->chain;
    if (!number) return;
    size_class *s = &h->sizes[piece_of(h, number)->size - 1];
    piece_of(h, number)->next = s->free;
    s->free = number;
}

fli_cuda_heap *fli_cuda_heap_new(fl_ctx *ctx, fli_cuda_stream s)
{
    fli_cuda_heap *h = fli_alloc(ctx, 1, sizeof *h);
    if (!h) return NULL;
    *h = (fli_cuda_heap){.stream = s, .buckets = 64};
    h->bucket = fli_alloc(ctx, h->buckets, sizeof *h->bucket);
    if (h->bucket) return h;
    fli_free(h);
    return NULL;
}

void fli_cuda_heap_free(fli_cuda_heap *h)
{
    if (!h) return;
    for (size_t i = 0; i < h->count; i++)
        if (h->pieces[i].large) fli_cuda_release(h->pieces[i].at);
    for (size_t i = 0; i < h->slabs; i++) fli_cuda_release(h->slab[i]);
    fli_free(h->pieces);
    fli_free(h->sizes);
    fli_free(h->bucket);
    fli_free(h->slab);
    fli_free(h);
}
