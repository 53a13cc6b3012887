/* How long a rank waits for the others: a table that passes every call on, and looks at the clock around those that may
 * wait. */
#ifndef FLI_RANKS_WAITS_H
#define FLI_RANKS_WAITS_H

#include "ranks/ranks.h"

typedef struct {
    fl_ranks table;
    double seconds; /* waited so far */
} fli_waits;

/* *out is that table for these ranks. Borrows `w`. */
void fli_waits_init(fli_waits *w, const fl_ranks *ranks, fl_ranks *out);

#endif
