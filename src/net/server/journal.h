/* The history of a run for viewers: its rounds and metrics, its checkpoints, and the mishaps of clients. Its memory is
 * bounded, however long the run is. Safe from any thread. */
#ifndef FLI_NET_SERVER_JOURNAL_H
#define FLI_NET_SERVER_JOURNAL_H

#include "base/ctx.h"

#include "fedloom_halves.h"

#include <jansson.h>

typedef struct fli_journal fli_journal;

fl_status fli_journal_new(fl_ctx *ctx, fli_journal **out);
void fli_journal_free(fli_journal *j); /* NULL is fine */

/* Call when a round has finished: `round` of `rounds` are done; `row` has its metrics, or is NULL. */
void fli_journal_round(fli_journal *j, size_t round, size_t rounds, const fl_row *row);
void fli_journal_checkpoint(fli_journal *j, const fl_checkpoint *c);
/* `what` is a string literal; `name` may be NULL. Only the newest mishaps are kept. Equal ones of one client are
 * counted in one entry, so that no client displaces the others. */
void fli_journal_mishap(fli_journal *j, const char *what, uint32_t client, const char *name, const char *why);

/* ---- looking ------------------------------------------------------------------------------------------------- */

/* Upper bounds of the histogram of seconds per round in /metrics. */
enum { FLI_JOURNAL_BOUNDS = 9 };
extern const double fli_journal_bounds[FLI_JOURNAL_BOUNDS];

typedef struct {
    size_t round, rounds;
    double since;                                 /* seconds since the last round ended; -1: none has */
    uint64_t counted, within[FLI_JOURNAL_BOUNDS]; /* rounds; those that took at most bounds[i] */
    double seconds, last, longest; /* of all rounds together; of the last and the longest one, -1: none */
    uint64_t checkpoints, failures;
    size_t checkpoint_round;   /* of the newest */
    double checkpoint_seconds; /* that it took; of all together: */
    double checkpoint_total;
    uint64_t checkpoint_bytes;
    double checkpoint_time; /* when it was written, in seconds since 1970; 0: there is none */
    char broken[400];       /* why the last checkpoint could not be written; "": it was */
} fli_journal_sums;
void fli_journal_look(fli_journal *j, fli_journal_sums *out);

/* The newest metrics. Returns 0 if there are none yet. */
int fli_journal_newest(fli_journal *j, fl_row *out);
/* {"columns": [name, ...], "titles": [...], "rows": [[...], ...]}: a few hundred rows of the metrics that charts show.
 * NULL: no memory. */
json_t *fli_journal_metrics(fli_journal *j);
/* [{"time": "...", "what": ..., "client": ..., "name": ..., "why": ..., "times": ...}, ...], newest first; "why" is the
 * newest reason. NULL: out of memory. */
json_t *fli_journal_mishaps(fli_journal *j);

#endif
