/* A run on its way to a folder of checkpoints and back. The folder is called as the result, with ".checkpoint" after
 * it, and holds the resolved configuration and the last two checkpoints. Each has all that changes; a run that goes on
 * from one ends with the same bits as one that was never stopped. Every module saves and loads its own part; see
 * base/snapshot.h. */
#ifndef FLI_RUN_CHECKPOINT_H
#define FLI_RUN_CHECKPOINT_H

#include "run/run.h"

/* Checkpoints of an earlier run with this output are refused or, with `replace`, removed, unless this run goes on from
 * them. */
fl_status fli_checkpoint_discard(fl_run *run, int replace);
/* Makes the folder. Checkpoints of an earlier run in it are refused or, with `replace`, removed, unless this run goes
 * on from them. */
fl_status fli_checkpoint_prepare(fl_run *run, int replace);
/* Before a round: writes one if it is time for it, or if the run was asked to stop. A full disk does not end a run: it
 * is only said. Unless the clients are elsewhere: they must not be ahead of what a server can go back to. */
fl_status fli_checkpoint_due(fl_run *run, int asked);
/* Whether there is one to go on from, where the settings ask for checkpoints. */
int fli_checkpoint_exists(fl_run *run);
/* FL_EDONE if the result of this very run is there already; what is left of its checkpoints is removed. */
fl_status fli_checkpoint_check_finished(fl_run *run);
/* Goes on from the newest one that is whole; what is damaged is said. */
fl_status fli_checkpoint_take(fl_run *run);
/* The run is finished: removes them. */
fl_status fli_checkpoint_remove(fl_run *run);
/* Likewise, by the name of the result: what a run left that was killed after it had saved. A folder with anything else
 * in it stays. */
fl_status fli_checkpoint_clear(fl_ctx *ctx, const char *output);

#endif
