/* How a run goes forward: in rounds, or from one upload to the next. */
#ifndef FLI_RUN_ADVANCE_H
#define FLI_RUN_ADVANCE_H

#include "run/run.h"

/* What a client that said this when it joined is asked to do in a turn that begins after `round` server steps: its
 * stream, steps, lr and probability. */
fli_ask fli_ask_for(const fli_plan *p, const fli_card *card, size_t round, size_t turn, uint32_t client);
/* Simulated seconds of the turn that such an ask is for; the run must have a system. */
double fli_ask_seconds(const fl_run *run, const fli_ask *ask);

/* Rounds (rounds.c): the turns that some methods ask of everyone first, and one round. */
fl_status fli_rounds_prepare(fl_run *run);
fl_status fli_rounds_warm_up(fl_run *run);
fl_status fli_rounds_next(fl_run *run);

/* Arrivals (arrivals.c): on the real clock as many server steps as until the next measurement, else one. */
fl_status fli_arrivals_prepare(fl_run *run);
fl_status fli_arrivals_next(fl_run *run);

#endif
