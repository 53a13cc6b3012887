#include "exec/shards.h"

/* A client costs something even if it has no samples. */
static double load(size_t samples) { return samples ? (double)samples : 1; }

fl_status fli_shards_init(fl_ctx *ctx, size_t ranks, size_t clients, size_t (*size)(const void *arg, size_t client),
                          const void *arg, fli_shards *out)
{
    double all = 0, before = 0;
    *out = (fli_shards){ranks, fli_alloc(ctx, ranks + 1, sizeof *out->first)};
    if (!out->first) return FL_ENOMEM;
    for (size_t i = 0; i < clients; i++) all += load(size(arg, i));
    size_t rank = 1;
    for (size_t i = 0; i < clients; i++) {
        double own = load(size(arg, i));
        /* a client belongs where its middle is */
        while (rank < ranks && before + own / 2 >= all * (double)rank / (double)ranks) out->first[rank++] = i;
        before += own;
    }
    while (rank <= ranks) out->first[rank++] = clients;
    return FL_OK;
}

void fli_shards_fini(fli_shards *s)
{
    fli_free(s->first);
    *s = (fli_shards){0};
}

size_t fli_shards_owner(const fli_shards *s, size_t client)
{
    size_t low = 0, high = s->ranks; /* first[low] <= client < first[high] */
    while (high - low > 1) {
        size_t middle = (low + high) / 2;
        *(s->first[middle] <= client ? &low : &high) = middle;
    }
    return low;
}
