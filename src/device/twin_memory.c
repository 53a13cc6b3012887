#include "device/twin_memory.h"

#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

static size_t pages(size_t bytes)
{
    const size_t page = 65536; /* a multiple of every page size there is */
    return (bytes / page + 1) * page;
}

/* The number of blocks that begin at or before the address. */
static size_t before(const fli_twin_memory *m, const void *there)
{
    size_t low = 0, high = m->count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)m->block[middle].there <= (uintptr_t)there)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static fl_status block_new(fl_ctx *ctx, size_t bytes, fli_twin_block *b)
{
    *b = (fli_twin_block){.bytes = bytes, .here = fli_alloc(ctx, bytes, 1)};
    if (!b->here) return FL_ENOMEM;
    b->there = mmap(NULL, pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (b->there != MAP_FAILED) return FL_OK;
    fli_free(b->here);
    return fli_fail(ctx, FL_ENOMEM, "out of memory: no addresses for %zu bytes of the twin's", bytes);
}

static void block_free(const fli_twin_block *b)
{
    munmap(b->there, pages(b->bytes));
    fli_free(b->here);
}

void *fli_twin_alloc(fli_twin_memory *m, fl_ctx *ctx, size_t bytes)
{
    fli_twin_block b;
    if (m->count == m->room) {
        if (fli_grow(ctx, (void **)&m->block, m->room, 2 * m->room + 16, sizeof *m->block)) return NULL;
        m->room = 2 * m->room + 16;
    }
    if (block_new(ctx, bytes, &b)) return NULL;
    size_t at = before(m, b.there);
    memmove(m->block + at + 1, m->block + at, (m->count++ - at) * sizeof b);
    m->block[at] = b;
    return b.there;
}

void fli_twin_release(fli_twin_memory *m, void *there)
{
    size_t at = before(m, there);
    if (!at || m->block[at - 1].there != there) return;
    block_free(&m->block[at - 1]);
    memmove(m->block + at - 1, m->block + at, (m->count-- - at) * sizeof *m->block);
}

void fli_twin_memory_fini(fli_twin_memory *m)
{
    for (size_t i = 0; i < m->count; i++) block_free(&m->block[i]);
    fli_free(m->block);
    *m = (fli_twin_memory){0};
}

void *fli_twin_here(const fli_twin_memory *m, const void *there)
{
    size_t at = before(m, there);
    if (!at) return NULL;
    const fli_twin_block *b = &m->block[at - 1];
    size_t offset = (size_t)((const char *)there - b->there);
    return offset <= b->bytes ? b->here + offset : NULL;
}
