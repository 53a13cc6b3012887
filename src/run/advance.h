/* How a run goes forward: in rounds, or from one upload to the next. */
#ifndef FLI_RUN_ADVANCE_H
#define FLI_RUN_ADVANCE_H

#include "run/run.h"

/* Rounds (rounds.c): the turns that some methods ask of everyone first, and one round. */
fl_status fli_rounds_prepare(fl_run *run);
fl_status fli_rounds_warm_up(fl_run *run);
fl_status fli_rounds_next(fl_run *run);

/* Arrivals (arrivals.c): on the real clock as many server steps as until the next measurement, else one. */
fl_status fli_arrivals_prepare(fl_run *run);
fl_status fli_arrivals_next(fl_run *run);

#endif
