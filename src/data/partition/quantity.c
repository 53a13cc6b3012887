/* Quantity skew: sizes in proportions from Dirichlet(alpha), the same contents. Sizes are drawn again until every
 * client has min_size samples. */
#include "data/partition/partition.h"

#include <string.h>

typedef struct {
    double alpha;
    int64_t min_size, retries;
} quantity_params;

static const fl_key keys[] = {
    FLI_KEY_REAL(quantity_params, alpha, "1", FLI_ABOVE_0, FLI_NO_MAX,
                 "concentration; small: very uneven sizes, large: all alike"),
    FLI_KEY_INT(quantity_params, min_size, "10", 1, 1e9,
                "draw again until every client has at least this many samples"),
    FLI_KEY_INT(quantity_params, retries, "1000", 1, 1e6, "give up after this many draws"),
    FLI_KEY_END,
};

/* Fills owner with client 0, then client 1, ..., by their shares; returns the size of the smallest client. */
static size_t lay_out(const double *share, size_t clients, size_t n, uint32_t *owner)
{
    double sum = 0;
    size_t from = 0, least = n;
    for (size_t i = 0; i < clients; i++) {
        sum += share[i];
        size_t upto = i + 1 == clients ? n : (size_t)(sum * (double)n);
        if (upto > n) upto = n;
        if (upto - from < least) least = upto - from;
        while (from < upto) owner[from++] = (uint32_t)i;
    }
    return least;
}

static fl_status assign(fl_ctx *ctx, const void *params, const fli_dataset *ds, uint64_t seed, size_t *clients,
                        uint32_t *owner)
{
    const quantity_params *p = params;
    fli_size_search search = {"quantity", p->alpha, p->min_size, p->retries, *clients, 0};
    fl_status s = fli_min_size_check(ctx, "quantity", ds->n, *clients, p->min_size);
    if (s) return s;
    double *share = fli_alloc(ctx, *clients, sizeof *share);
    if (!share) return FL_ENOMEM;
    for (int64_t attempt = 0; attempt < p->retries; attempt++) {
        fli_rng r;
        fli_rng_init(&r, seed, FLI_RNG_PARTITION, (uint32_t)attempt, 0);
        fli_rng_dirichlet(&r, p->alpha, *clients, share);
        size_t least = lay_out(share, *clients, ds->n, owner);
        if (least > search.best) search.best = least;
        if (least < (uint64_t)p->min_size) continue;
        fli_rng_shuffle(&r, ds->n, owner);
        goto done;
    }
    s = fli_size_search_failed(ctx, &search);
done:
    fli_free(share);
    return s;
}

const fli_partitioner fli_partitioner_quantity = {
    .name = "quantity",
    .title = "quantity skew: sizes from Dirichlet(alpha), contents alike",
    .citation = "Li, Diao, Chen, He: Federated learning on non-IID data silos (NIID-Bench), ICDE 2022",
    .keys = keys,
    .params_size = sizeof(quantity_params),
    .assign = assign,
};
