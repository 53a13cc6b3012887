/* Clients lie one behind the other on a line, each as long as it has samples, and the line is cut into equal parts. A
 * client belongs to the part that its middle is in. So a part loses or gains half a client at each of its ends. */
#include "exec/shards.h"

#include <string.h>

static size_t length(fli_shard_size *size, const void *arg, size_t client)
{
    size_t n = size(arg, client);
    return n ? n : 1;
}

fl_status fli_shards_init(fl_ctx *ctx, size_t ranks, size_t clients, fli_shard_size *size, const void *arg,
                          fli_shards *out)
{
    unsigned __int128 total = 0, before = 0;
    size_t rank = 0;
    *out = (fli_shards){.ranks = ranks, .first = fli_alloc(ctx, ranks + 1, sizeof *out->first)};
    if (!out->first) return FL_ENOMEM;
    for (size_t i = 0; i < clients; i++) total += length(size, arg, i);
    for (size_t i = 0; i < clients; i++) {
        size_t n = length(size, arg, i);
        size_t owner = (size_t)((2 * before + n) * ranks / (2 * total));
        while (rank < owner) out->first[++rank] = i;
        before += n;
    }
    while (rank < ranks) out->first[++rank] = clients;
    return FL_OK;
}

void fli_shards_fini(fli_shards *s)
{
    fli_free(s->first);
    memset(s, 0, sizeof *s);
}

/* The last rank that begins at or before it: those that begin there too and come earlier have none. */
size_t fli_shards_owner(const fli_shards *s, size_t client)
{
    size_t low = 0, high = s->ranks;
    while (high - low > 1) {
        size_t middle = low + (high - low) / 2;
        if (s->first[middle] <= client)
            low = middle;
        else
            high = middle;
    }
    return low;
}
