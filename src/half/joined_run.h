/* A run whose clients are elsewhere: made from what they said when they joined, and rehearsed before they are there. */
#ifndef FLI_HALF_JOINED_RUN_H
#define FLI_HALF_JOINED_RUN_H

#include "data/federation/joined.h"
#include "run/run.h"

typedef struct {
    fli_plan data; /* what the run's plan borrows: fed, the digest of the cards, the mailbox */
    fl_run *run;
} fli_joined_run;

/* One look per client; `cards` is their digest. All fails in the configuration's context. */
fl_status fli_joined_run_init(fl_config *cfg, const fli_settings *s, const fli_look *clients, const fli_digest *cards,
                              fli_joined_run *j);
void fli_joined_run_fini(fli_joined_run *j);

/* Refuses settings from which no run can be made, whoever joins, by the sentences that fli_joined_run_init would have
 * then. `all` is what the settings say of the clients' samples, `room` has a place for each client. */
fl_status fli_joined_run_rehearse(fl_config *cfg, const fli_settings *s, const fli_look *all, fli_look *room);
/* Refuses a client with which no run can be made, neither if all others are like it nor if they have ordinary sizes, by
 * the sentence that fli_joined_run_init would have then: FL_ECONFIG, FL_EMISMATCH or FL_EFORMAT. `place` is its number.
 * Logs nothing. */
fl_status fli_joined_run_suits(fl_config *cfg, const fli_settings *s, uint32_t place, const fli_look *client);

#endif
