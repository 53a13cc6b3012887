/* Heterogeneous local updates: how many steps a client takes. */
#include "server/local_steps.h"

#include "base/rng.h"

#include <math.h>

/* Stands for no round: what a client draws once for good. */
#define ALWAYS UINT32_MAX

size_t fli_local_steps(const fli_local_work *e, uint64_t seed, size_t round, uint32_t client, size_t per_epoch)
{
    double work = (double)(e->steps ? e->steps : e->epochs);
    size_t unit = e->steps ? 1 : per_epoch;
    fli_rng rng;
    if (e->uneven == FLI_UNEVEN_RANGE) {
        fli_rng_init(&rng, seed, FLI_RNG_STEPS, (uint32_t)round, client);
        work = (double)(e->range.v[0] + (int64_t)fli_rng_below(&rng, (uint64_t)(e->range.v[1] - e->range.v[0] + 1)));
    } else if (e->uneven == FLI_UNEVEN_SPEEDS) {
        fli_rng_init(&rng, seed, FLI_RNG_STEPS, ALWAYS, client);
        work *= e->speeds.v[fli_rng_below(&rng, e->speeds.n)];
    }
    long long steps = llround(work * (double)unit);
    return steps < 1 ? 1 : (size_t)steps;
}
