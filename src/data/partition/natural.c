/* The natural owners: each group that comes with the data (writer, user, generated client) is a client, in order of the
 * group ids. */
#include "data/partition/partition.h"

typedef struct {
    int64_t min_size;
} natural_params;

static const fl_key keys[] = {
    FLI_KEY_INT(natural_params, min_size, "1", 1, 1e9, "leave out owners with fewer samples"),
    FLI_KEY_END,
};

/* size[g]: in, samples of group g; out, its client, or FLI_NOBODY if it is left out. Returns the number of clients. */
static size_t number(uint32_t *size, size_t groups, uint32_t min_size, size_t most)
{
    size_t clients = 0;
    for (size_t g = 0; g < groups; g++)
        size[g] = size[g] >= min_size && clients < most ? (uint32_t)clients++ : FLI_NOBODY;
    return clients;
}

static fl_status assign(fl_ctx *ctx, const void *params, const fli_dataset *ds, uint64_t seed, size_t *clients,
                        uint32_t *owner)
{
    const natural_params *p = params;
    size_t wanted = *clients;
    (void)seed;
    if (!ds->group)
        return fli_fail(ctx, FL_ECONFIG,
                        "partition natural: the data do not say who owns the samples; name a file of owners with "
                        "data.groups, use data that have them (leaf, synthetic, linreg; a program gives an "
                        "fl_holding), or another partition");
    uint32_t *size = fli_alloc(ctx, ds->groups, sizeof *size);
    if (!size) return FL_ENOMEM;
    for (size_t s = 0; s < ds->n; s++) size[ds->group[s]]++;
    *clients = number(size, ds->groups, (uint32_t)p->min_size, wanted ? wanted : ds->groups);
    for (size_t s = 0; s < ds->n; s++) owner[s] = size[ds->group[s]];
    fli_free(size);
    if (*clients < wanted || !*clients)
        return fli_fail(ctx, FL_ECONFIG,
                        "partition natural: only %zu of the %zu groups in the data have min_size %lld samples, but %zu "
                        "clients are needed",
                        *clients, ds->groups, (long long)p->min_size, wanted ? wanted : 1);
    if (*clients < ds->groups)
        fli_log(ctx, FL_LOG_INFO,
                "partition natural: %zu of the %zu groups in the data are clients, the others are left out", *clients,
                ds->groups);
    return FL_OK;
}

const fli_partitioner fli_partitioner_natural = {
    .name = "natural",
    .title = "the owners that come with the data: writers, users, generated clients",
    .keys = keys,
    .params_size = sizeof(natural_params),
    .sets_clients = 1,
    .assign = assign,
};
