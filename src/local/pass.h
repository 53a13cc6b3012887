/* Passes over some of a client's samples, mini-batch by mini-batch: a fresh random order for every pass, whose last batch may be short. If all
 * fit into one step they keep their order. Private to this folder. */
#ifndef FLI_LOCAL_PASS_H
#define FLI_LOCAL_PASS_H

#include "base/rng.h"

#include <stddef.h>
#include <stdint.h>

typedef struct {
    uint32_t *order;     /* the samples, in whatever way they are numbered; shuffled in place */
    size_t n, size, at;  /* samples, samples per step, place in the pass */
    uint32_t epoch;      /* which pass it is, from 0 */
    const uint32_t *now; /* the mini-batch under way, */
    size_t count;        /* and its length */
} fli_pass;

/* The next mini-batch. */
void fli_pass_next(fli_pass *p, fli_rng *rng);

#endif
