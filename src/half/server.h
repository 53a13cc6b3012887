/* A run whose clients are other programs, made from the cards with which they joined. For server.c, and for tests. */
#ifndef FLI_HALF_SERVER_H
#define FLI_HALF_SERVER_H

#include "data/federation/remote_data.h"
#include "run/state.h"

typedef struct {
    fli_plan data; /* what the run's plan borrows: fed, the digest of the cards, the remote queue */
    fl_run *run;
} fli_remote_run;

/* One look per client; `cards` is their digest. All fails in the configuration's context. */
fl_status fli_remote_run_init(fl_config *cfg, const fli_settings *s, const fli_data_shape *clients,
                              const fli_digest *cards, fli_remote_run *j);
void fli_remote_run_fini(fli_remote_run *j);

#endif
