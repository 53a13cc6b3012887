/* Turns on the real clock, where several ranks make a run together: each is taken by a thread of the rank that has the
 * client, while all ranks go on, and comes in at every rank, in the same order. */
#ifndef FLI_EXECUTOR_INFLUX_H
#define FLI_EXECUTOR_INFLUX_H

#include "ranks/ranks.h"
#include "message/wire.h"

typedef struct fli_influx fli_influx;

/* All borrowed; must outlive it. */
typedef struct {
    const fl_ranks *ranks;
    const fli_model *model;
    size_t classes;
    const fli_algo *algo;
    const void *params;
    size_t threads; /* of this rank */
    /* A turn of this rank's, on any of its threads. */
    void (*work)(void *arg, fli_exchange *x, size_t worker);
    void *arg;
} fli_influx_spec;

fl_status fli_influx_new(fl_ctx *ctx, const fli_influx_spec *spec, fli_influx **out);
void fli_influx_free(fli_influx *f);

/* The rank with the fewest turns under way. */
uint32_t fli_influx_lightest(const fli_influx *f);
/* On every rank: x->rank is to take this turn. And the next that has come, see fli_executor. */
fl_status fli_influx_send(fli_influx *f, fli_exchange *x);
fl_status fli_influx_await(fli_influx *f, double seconds, fli_exchange **out);
/* Returns when no turn is under way at this rank; those that have not begun wait until somebody is awaited again. */
void fli_influx_rest(fli_influx *f);
double fli_influx_idle(fli_influx *f); /* see fli_hands_idle */

/* Of a turn that failed everybody gets the sentence, which x->rank has, in x or in its context. */
fl_status fli_share_sentence(fl_ctx *ctx, const fl_ranks *r, fli_exchange *x);

#endif
