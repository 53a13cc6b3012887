/* How much memory an executor takes at least, before it takes any. Beside exec.c, whose allocations it adds up; a test
 * holds it to them. */
#ifndef FLI_ENGINE_FOOTPRINT_H
#define FLI_ENGINE_FOOTPRINT_H

#include "engine/exec.h"

typedef struct {
    double server;  /* the model and what else the server has */
    double workers; /* gradients, batches, scratch: of all threads */
    double turns;   /* uploads and models of clients at work */
    double state;   /* what the clients of one cohort keep, or `memory` where that is less */
    double total;
} fli_footprint;

/* Of a spec that names its solver. `cohort`: clients per round, or at work. `async`: each of them has a model of its
 * own. */
fli_footprint fli_footprint_of(const fli_exec_spec *spec, size_t cohort, int async);
/* At a site, where a spec has none yet: bytes of all vectors there. */
double fli_footprint_there(const fli_exec_spec *spec, size_t cohort, int async);
/* Of a single client that is elsewhere than its server, with so many samples, and without them. */
double fli_footprint_client(const fli_clients_spec *spec, size_t samples);
/* Address space that is reserved beside it, by BLAS and for the stacks and heaps of this many threads. */
double fli_footprint_address(size_t threads);

#endif
