/* A run whose clients are other programs, made from the cards with which they joined: for server.c, and for tests. And
 * what net/ uses of a server beyond fedloom_halves.h: messages that are not copied. */
#ifndef FLI_HALF_SERVER_H
#define FLI_HALF_SERVER_H

#include "data/federation/remote_data.h"
#include "remote/packet.h"
#include "run/state.h"

typedef struct {
    fli_plan data; /* what the run's plan borrows: fed, the digest of the cards, the remote queue */
    fl_run *run;
} fli_remote_run;

/* One look per client; `cards` is their digest. All fails in the configuration's context. */
fl_status fli_remote_run_init(fl_config *cfg, const fli_settings *s, const fli_data_shape *clients,
                              const fli_digest *cards, fli_remote_run *j);
void fli_remote_run_fini(fli_remote_run *j);

/* As fl_server_next, of which the body is not copied; *found is 0 if there was none. */
fl_status fli_server_next(fl_server *s, double seconds, uint32_t *client, int *found, fli_ask_packet *out);
/* As fl_server_answer, of an upload that has come in; *answer becomes NULL where the server keeps it. */
fl_status fli_server_upload(fl_server *s, size_t n, fli_incoming **out);
fl_status fli_server_answer(fl_server *s, uint32_t client, fli_incoming **answer);

#endif
