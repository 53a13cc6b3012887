/* Label skew by shards: samples sorted by label are cut into equal shards, and each client gets a few of them. */
#include "data/partition/partition.h"

typedef struct {
    int64_t shards_per_client;
} shards_params;

static const fl_key keys[] = {
    FLI_KEY_INT(shards_params, shards_per_client, "2", 1, 1e6, "shards dealt to each client"),
    FLI_KEY_END,
};

static fl_status assign(fl_ctx *ctx, const void *params, const fli_dataset *ds, uint64_t seed, size_t *clients,
                        uint32_t *owner)
{
    const shards_params *p = params;
    size_t each = (size_t)p->shards_per_client, shards = *clients * each;
    fli_by_class by = {0, NULL, NULL};
    uint32_t *deck = NULL;
    fli_rng r;
    if (each > ds->n / *clients)
        return fli_fail(ctx, FL_ECONFIG,
                        "partition shards: %zu clients with shards_per_client %zu need %zu samples, but the "
                        "data have %zu",
                        *clients, each, shards, ds->n);
    fl_status s = fli_by_class_init(ctx, ds, &by);
    if (s) return s;
    deck = fli_alloc(ctx, shards, sizeof *deck);
    if (!deck) {
        s = FL_ENOMEM;
        goto done;
    }
    fli_rng_init(&r, seed, FLI_RNG_PARTITION, 0, 0);
    fli_by_class_shuffle(&by, &r);
    fli_rng_permutation(&r, shards, deck);
    for (size_t j = 0; j < shards; j++)
        for (size_t k = j * ds->n / shards; k < (j + 1) * ds->n / shards; k++)
            owner[by.sample[k]] = (uint32_t)(deck[j] / each);
done:
    fli_by_class_fini(&by);
    fli_free(deck);
    return s;
}

const fli_partitioner fli_partitioner_shards = {
    .name = "shards",
    .title = "label skew: a few shards of the samples sorted by label",
    .citation =
        "McMahan et al.: Communication-efficient learning of deep networks from decentralized data, AISTATS 2017",
    .keys = keys,
    .params_size = sizeof(shards_params),
    .needs_labels = 1,
    .assign = assign,
};
