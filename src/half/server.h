/* For server.c and its tests: a run whose clients are other programs, made from their cards. For net/: what it needs of
 * a server beyond fedloom_halves.h, namely messages that are not copied. */
#ifndef FLI_HALF_SERVER_H
#define FLI_HALF_SERVER_H

#include "data/federation/remote_data.h"
#include "remote/packet.h"
#include "run/state.h"

typedef struct {
    fli_plan data; /* borrowed by the run's plan: fed, the digest of the cards, the remote queue */
    fl_run *run;
} fli_remote_run;

/* `clients`: one per client; `cards`: the digest of their cards. Errors go to the configuration's context. */
fl_status fli_remote_run_init(fl_config *cfg, const fli_settings *s, const fli_data_shape *clients,
                              const fli_digest *cards, fli_remote_run *j);
void fli_remote_run_fini(fli_remote_run *j);

/* fl_server_next without a copy of the body; *found is 0 if there was no ask. */
fl_status fli_server_next(fl_server *s, double seconds, uint32_t *client, int *found, fli_ask_packet *out);
/* fl_server_answer for an upload that was received; *answer becomes NULL if the server keeps it. */
fl_status fli_server_upload(fl_server *s, size_t n, fli_incoming **out);
fl_status fli_server_answer(fl_server *s, uint32_t client, fli_incoming **answer);

#endif
