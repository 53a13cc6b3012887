/* Clients are dealt in rows of neighbours, one row per `ranks` clients. Each rank gets one client of a row, the largest
 * going to the rank with the fewest samples so far. So the difference between two ranks either shrinks, or it is at
 * most the difference between two clients of this row.
 *
 * A cohort, or the block of it that is being computed, may consist of neighbours, or of every tenth client. All ranks
 * work at the same time only if each owns some of its clients. So a random number, the same at all ranks, decides among
 * ranks with equally many samples. */
#include "ranks/rank_owner.h"

#include "base/rng.h"

#include <stdlib.h>
#include <string.h>

/* A client of a row, or a rank. */
typedef struct {
    size_t samples;
    uint64_t tie_break;
    uint32_t which;
} candidate;

static int fewer(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->samples != y->samples) return x->samples < y->samples ? -1 : 1;
    if (x->tie_break != y->tie_break) return x->tie_break < y->tie_break ? -1 : 1;
    return x->which < y->which ? -1 : x->which > y->which;
}

/* Deals the n clients of `row`, whose samples are set. `ranks` is room for one candidate per rank. */
static void deal(fli_rank_owner *s, candidate *row, size_t n, candidate *ranks)
{
    fli_rng tie_break;
    fli_rng_init(&tie_break, 0, FLI_RNG_RANK_OWNER, 0, row[0].which);
    for (uint32_t r = 0; r < s->ranks; r++) ranks[r] = (candidate){s->of[r].samples, fli_rng_u64(&tie_break), r};
    qsort(ranks, s->ranks, sizeof *ranks, fewer);
    qsort(row, n, sizeof *row, fewer);
    for (size_t k = 0; k < n; k++) {
        const candidate *client = &row[n - 1 - k];
        fli_rank_clients *part = &s->of[ranks[k].which];
        s->owner[client->which] = ranks[k].which;
        part->clients++;
        part->samples += client->samples;
    }
}

fl_status fli_rank_owner_init(fl_ctx *ctx, size_t ranks, size_t clients, fli_rank_clients_size *size, const void *arg,
                              fli_rank_owner *out)
{
    *out = (fli_rank_owner){.ranks = ranks,
                            .clients = clients,
                            .of = fli_alloc(ctx, ranks, sizeof *out->of),
                            .owner = fli_alloc(ctx, clients, sizeof *out->owner)};
    candidate *row = fli_alloc(ctx, ranks, sizeof *row), *room = fli_alloc(ctx, ranks, sizeof *room);
    fl_status s = out->of && out->owner && row && room ? FL_OK : FL_ENOMEM;
    for (size_t i = 0; !s && i < clients;) {
        size_t n = 0;
        for (; n < ranks && i < clients; n++, i++) {
            size_t samples = size(arg, i);
            row[n] = (candidate){.samples = samples ? samples : 1, .which = (uint32_t)i};
        }
        deal(out, row, n, room);
    }
    fli_free(row);
    fli_free(room);
    return s;
}

void fli_rank_owner_fini(fli_rank_owner *s)
{
    fli_free(s->of);
    fli_free(s->owner);
    memset(s, 0, sizeof *s);
}

void fli_rank_owner_list(const fli_rank_owner *s, size_t rank, uint32_t *out)
{
    for (size_t i = 0; i < s->clients; i++)
        if (s->owner[i] == rank) *out++ = (uint32_t)i;
}
