/* How much of a run's time its ranks wait for each other: the columns `idle` and `idle_most`, and ranks.csv. Where
 * there is one process all of it is nothing. */
#ifndef FLI_RUN_IDLE_H
#define FLI_RUN_IDLE_H

#include "run/run.h"

/* Before the run goes forward, and after. */
void fli_idle_begin(fl_run *run);
void fli_idle_end(fl_run *run);
/* On every rank, before a row: its columns are about the time since the last one. */
fl_status fli_idle_take(fl_run *run);
/* At the end, to the log; and as a table, a row per rank. */
void fli_idle_report(const fl_run *run);
void fli_idle_csv(fli_text *t, const fl_run *run);

#endif
