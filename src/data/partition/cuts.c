/* Shuffled samples, cut at random points: uneven sizes, the same contents. Each partition in which every client has
 * more than the share `least` of the mean size is equally likely. Drawing cuts until the smallest part is large enough
 * would give the same distribution, but takes a thousand draws for 64 clients.
 *
 * For many clients and a small `least`, sizes are almost exponential, so that 1/d_i is about twice as large on average
 * as for equal parts. */
#include "data/partition/partition.h"

typedef struct {
    double least;
} cuts_params;

static const fl_key keys[] = {
    FLI_KEY_REAL(cuts_params, least, "0.1", 0, 0.9,
                 "every client has more than this share of the mean number of samples"),
    FLI_KEY_END,
};

/* Fills owner with client 0, then client 1, ..., each at least `least` times. The samples beyond the minimum are cut at
 * positions drawn in ascending order; each of the remaining positions is equally likely. */
static void lay_out(fli_rng *r, size_t n, size_t clients, size_t least, uint32_t *owner)
{
    size_t at = 0, gaps = n - clients * (least - 1) - 1, cuts = clients - 1;
    for (size_t i = 0; i < clients; i++) {
        for (size_t k = 1; k < least; k++) owner[at++] = (uint32_t)i;
        for (int cut = 0; !cut;) {
            owner[at++] = (uint32_t)i;
            if (!gaps) break;
            cut = fli_rng_below(r, gaps--) < cuts;
            cuts -= (size_t)cut;
        }
    }
}

static fl_status assign(fl_ctx *ctx, const void *params, const fli_dataset *ds, uint64_t seed, size_t *clients,
                        uint32_t *owner)
{
    const cuts_params *p = params;
    double mean = (double)ds->n / (double)*clients;
    size_t least = (size_t)(p->least * mean) + 1;
    fli_rng r;
    if (least > ds->n / *clients)
        return fli_fail(ctx, FL_ECONFIG,
                        "partition cuts: %zu clients cannot all have more than %g of the mean of %g samples; "
                        "partition.least must be smaller",
                        *clients, p->least, mean);
    fli_rng_init(&r, seed, FLI_RNG_PARTITION, 0, 0);
    lay_out(&r, ds->n, *clients, least, owner);
    fli_rng_shuffle(&r, ds->n, owner);
    return FL_OK;
}

const fli_partitioner fli_partitioner_cuts = {
    .name = "cuts",
    .title = "shuffled, then cut at random points: uneven sizes, contents alike",
    .citation = "Zhou, Li: Efficient and convergent federated learning (FedGiA), Example V.2, as in its program",
    .keys = keys,
    .params_size = sizeof(cuts_params),
    .assign = assign,
};
