#ifndef FLI_SERVER_LOCAL_STEPS_H
#define FLI_SERVER_LOCAL_STEPS_H

#include "format/keys.h"

/* How much the clients of a cohort do: heterogeneous local updates. */
typedef enum {
    FLI_UNEVEN_FIXED, /* everyone the same */
    FLI_UNEVEN_RANGE, /* uniform in [low, high], drawn per client and round */
    FLI_UNEVEN_SPEEDS /* every client has one of the given speeds for good; work is multiplied by it */
} fli_uneven;
#define FLI_UNEVEN_WORDS "fixed|range|speeds"

typedef struct {
    int64_t epochs, steps; /* steps if above 0, otherwise epochs */
    int uneven;
    fli_ints range;   /* [low, high], in epochs or steps */
    fli_reals speeds; /* in (0, 1] */
} fli_local_work;

/* Q_i of one client in one round, at least 1; per_epoch is the number of steps in one of its epochs. */
size_t fli_local_steps(const fli_local_work *e, uint64_t seed, size_t round, uint32_t client, size_t per_epoch);

#endif
