/* A run on its way to a folder of checkpoints and back. The folder is called as the result, with ".checkpoint" after
 * it, and holds the resolved configuration and the last two checkpoints. Each has all that changes; a run that goes on
 * from one ends with the same bits as one that was never stopped. Every module saves and loads its own part; see
 * format/snapshot.h.
 *
 * Where several ranks make a run, rank 0 writes all that they have in common, and every rank a part with its own
 * clients. A checkpoint counts once rank 0's file is in place, which comes last and has the seals of the parts. As many
 * ranks as one likes go on from it, also one process. Functions are for all ranks together, unless they say that rank 0
 * alone calls them. */
#ifndef FLI_RUN_CHECKPOINT_H
#define FLI_RUN_CHECKPOINT_H

#include "run/run.h"

/* Rank 0: checkpoints of an earlier run with this output are refused or, with `replace`, removed, unless this run goes
 * on from them. */
fl_status fli_checkpoint_discard(fl_run *run, int replace);
/* Rank 0: makes the folder; of checkpoints in it that is true as well. */
fl_status fli_checkpoint_make(fl_run *run, int replace);
/* The folder is there; checkpoints of an earlier run in it are refused. */
fl_status fli_checkpoint_prepare(fl_run *run);
/* Before a round: writes one if it is time for it, or if the run was asked to stop. A full disk does not end a run: it
 * is only said. Unless the clients are elsewhere: they must not be ahead of what a server can go back to. */
fl_status fli_checkpoint_due(fl_run *run, int asked);
/* Whether there is one to go on from, where the settings ask for checkpoints. */
int fli_checkpoint_exists(fl_run *run);
/* Rank 0: FL_EDONE if the result of this very run is there already; what is left of its checkpoints is removed. */
fl_status fli_checkpoint_check_finished(fl_run *run);
/* Goes on from the newest one that is whole; what is damaged is said. */
fl_status fli_checkpoint_take(fl_run *run);
/* Rank 0: the run is finished, removes them. */
fl_status fli_checkpoint_remove(fl_run *run);
/* Likewise, by the name of the result: what a run left that was killed after it had saved. A folder with anything else
 * in it stays. */
fl_status fli_checkpoint_clear(fl_ctx *ctx, const char *output);

#endif
