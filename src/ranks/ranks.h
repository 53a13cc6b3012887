/* Operations of the ranks of a run, beyond the table of fedloom_ranks.h. All ranks make the same calls in the same
 * order; share, most and agree do nothing in a single process (`r` NULL, or a count of 0 or 1). At the end: a table
 * that also measures how long a rank waits. */
#ifndef FLI_RANKS_RANKS_H
#define FLI_RANKS_RANKS_H

#include "base/ctx.h"
#include "fedloom_ranks.h"

static inline int fli_ranked(const fl_ranks *r) { return r && r->count > 1; }
/* True for the process that writes results: the only one, or rank 0. */
static inline int fli_ranks_first(const fl_ranks *r) { return !fli_ranked(r) || r->rank == 0; }

/* Number of threads of this process. `asked` is configured; 0: ranks of one machine share its processors. */
size_t fli_ranks_threads(const fl_ranks *r, size_t asked);

/* See fl_ranks.gather. */
fl_status fli_ranks_gather(fl_ctx *ctx, const fl_ranks *r, void *all, const size_t *at);
/* See fl_ranks.add. */
fl_status fli_ranks_add(fl_ctx *ctx, const fl_ranks *r, void *v, size_t n, size_t real);
/* Copies the n bytes of rank `from` to all ranks. */
fl_status fli_ranks_share(fl_ctx *ctx, const fl_ranks *r, uint32_t from, void *bytes, size_t n);
/* v[i] = the largest v[i] of all ranks. */
fl_status fli_ranks_most(fl_ctx *ctx, const fl_ranks *r, double *v, size_t n);
/* Returns the same status at all ranks: that of the lowest rank that failed, with its sentence in the context. */
fl_status fli_ranks_agree(fl_ctx *ctx, const fl_ranks *r, fl_status s);

/* ==== timing =============================================================================================== */

/* Measures how long a rank waits for others: a table that forwards every call, and takes the time of calls that may
 * wait. */
typedef struct {
    fl_ranks table;
    double seconds; /* waited so far */
} fli_timed_ranks;

/* *out = a table that forwards to `ranks` and measures. Borrows `t`. */
void fli_timed_ranks_init(fli_timed_ranks *t, const fl_ranks *ranks, fl_ranks *out);

#endif
