/* Shuffled equal parts: all clients have the same distribution, and sizes differ by at most one. */
#include "data/partition/partition.h"

static fl_status assign(fl_ctx *ctx, const void *params, const fli_dataset *ds, uint64_t seed, size_t *clients,
                        uint32_t *owner)
{
    fli_rng r;
    (void)ctx;
    (void)params;
    for (size_t s = 0; s < ds->n; s++) owner[s] = (uint32_t)(s % *clients);
    fli_rng_init(&r, seed, FLI_RNG_PARTITION, 0, 0);
    fli_rng_shuffle(&r, ds->n, owner);
    return FL_OK;
}

const fli_partitioner fli_partitioner_iid = {
    .name = "iid",
    .title = "shuffled equal parts",
    .assign = assign,
};
