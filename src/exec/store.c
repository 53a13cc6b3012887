#include "exec/store.h"

#include <stdatomic.h>

/* One allocation per touched client: the table of its vectors, its scalars, then the vectors themselves. */
typedef struct {
    double *scalars;
    void *vectors[];
} entry;

struct fli_store {
    fl_ctx *ctx;
    fli_space space;
    size_t clients, vectors, scalars;
    entry **entries;
    atomic_size_t bytes;
};

fl_status fli_store_new(fl_ctx *ctx, const fli_space *space, size_t clients, size_t vectors, size_t scalars,
                        fli_store **out)
{
    fli_store *s = fli_alloc(ctx, 1, sizeof *s);
    if (!s) return FL_ENOMEM;
    *s = (fli_store){.ctx = ctx, .space = *space, .clients = clients, .vectors = vectors, .scalars = scalars};
    atomic_init(&s->bytes, 0);
    if (vectors + scalars && !(s->entries = fli_alloc(ctx, clients, sizeof *s->entries))) {
        fli_free(s);
        return FL_ENOMEM;
    }
    *out = s;
    return FL_OK;
}

void fli_store_free(fli_store *s)
{
    if (!s) return;
    for (size_t i = 0; s->entries && i < s->clients; i++) fli_free(s->entries[i]);
    fli_free(s->entries);
    fli_free(s);
}

static size_t round_up(size_t bytes) { return (bytes + 63) / 64 * 64; }

static entry *entry_new(fli_store *s)
{
    size_t head = round_up(sizeof(entry) + s->vectors * sizeof(void *)),
           scalars = round_up(s->scalars * sizeof(double));
    size_t vector = round_up(fli_bytes(&s->space)), bytes = head + scalars + s->vectors * vector;
    entry *e = fli_alloc(s->ctx, bytes, 1);
    if (!e) return NULL;
    e->scalars = (double *)((char *)e + head);
    for (size_t v = 0; v < s->vectors; v++) e->vectors[v] = (char *)e + head + scalars + v * vector;
    atomic_fetch_add(&s->bytes, bytes);
    return e;
}

fl_status fli_store_get(fli_store *s, size_t client, fli_kept *out)
{
    *out = (fli_kept){0};
    if (!s->entries) return FL_OK;
    entry *e = s->entries[client];
    out->first = !e;
    if (!e && !(e = s->entries[client] = entry_new(s))) return FL_ENOMEM;
    out->vectors = e->vectors;
    out->scalars = e->scalars;
    return FL_OK;
}

void *const *fli_store_peek(const fli_store *s, size_t client)
{
    return s->entries && s->entries[client] ? s->entries[client]->vectors : NULL;
}

const double *fli_store_peek_scalars(const fli_store *s, size_t client)
{
    return s->entries && s->entries[client] ? s->entries[client]->scalars : NULL;
}

size_t fli_store_bytes(const fli_store *s) { return atomic_load(&s->bytes); }
