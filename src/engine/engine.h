/* A federation at work: the server's side (server/), the clients' side behind an executor (executor/), and the
 * rounds between them. Asks go one way, uploads the other; uploads are absorbed in the cohort's order, so that the
 * result depends neither on the executor nor on the number of threads. */
#ifndef FLI_ENGINE_ENGINE_H
#define FLI_ENGINE_ENGINE_H

#include "executor/executor.h"
#include "server/server_state.h"

typedef struct fli_exec fli_exec;

/* All borrowed; must outlive the federation. */
typedef struct {
    const fli_setup *setup;
    size_t threads;                /* 0: one per processor */
    size_t memory;                 /* bytes of client state in memory (client/store.h); 0: no limit */
    const char *folder;            /* for what is beyond that */
    size_t slice;                  /* see fli_server_state_spec */
    fli_after_absorb after_absorb; /* see fli_server_state_spec */
    const fli_executor *executor;  /* NULL: threads */
    const fli_site *site; /* where all this is computed; NULL: here. Else executor is threads, of which there is one */
} fli_exec_spec;

fl_status fli_exec_new(fl_ctx *ctx, const fli_exec_spec *spec, fli_exec **out);
void fli_exec_free(fli_exec *e);

/* What a client said when it joined, without a digest. */
fli_card fli_exec_card(const fli_exec *e, uint32_t client);
const fli_setup *fli_exec_setup(const fli_exec *e); /* what it was made for, */
const fli_exec_spec *fli_exec_spec_of(const fli_exec *e);
fli_server_state *fli_exec_server_state(fli_exec *e);
fli_workers *fli_exec_workers(fli_exec *e);
/* The space of all vectors in messages and state. */
const fl_space *fli_exec_space(const fli_exec *e);
/* The server's vectors in plain memory; [0] is the model x. At a site they are copies as of now. The caller sets the
 * start model, and says so. */
void *const *fli_exec_server(fli_exec *e);
void fli_exec_server_changed(fli_exec *e);
/* Whether the site has failed, which may have been a while ago: asked after every round, measurement and checkpoint. */
fl_status fli_exec_status(const fli_exec *e);

typedef struct {
    size_t round;
    uint32_t flags; /* FLI_ASK_HAS_BODY and _REPLY, of all clients that are asked */
    int warm_up;    /* before the first round */
    const fl_ask
        *asks; /* of the cohort, distinct clients: client, stream, steps, lr and probability; the rest is filled in */
    size_t count;
    size_t phases; /* exchanges of the round; 0 counts as 1 */
    /* those with this cohort, where others have theirs: from, and up to but without; 0: to the end */
    size_t from, until;
} fli_round;

/* Whether the method wants everyone to take a turn before the first round: a round of all clients with
 * that is a warm-up. */
int fli_exec_warms_up(const fli_exec *e);
/* Runs one round, or those of its phases that belong to this cohort: the turns of its cohort, or of all clients for a
 * method with FL_METHOD_BYSTANDERS. Where clients are elsewhere, and a round is one exchange with a cohort, it may go
 * on without some: as if they had not been invited. A client whose model leaves the finite range ends it with
 * FL_EDIVERGED. */
fl_status fli_exec_round(fli_exec *e, const fli_round *r);
/* What a round asks in a phase of a client with this ask of its own. */
fl_ask fli_round_ask(const fli_exec *e, const fli_round *r, const fl_ask *own, size_t phase);

/* Exchanges outside of rounds. Room for one's upload, to be given back by fli_message_fini. */
fl_status fli_exec_upload_new(fli_exec *e, fli_message *up);
void fli_exec_run(fli_exec *e, fli_exchange *const *list, size_t n);
/* The same, where the others may go on without somebody: whoever has not come has a status. Returns what ends the run,
 * in words. */
fl_status fli_exec_gather(fli_exec *e, fli_exchange *const *list, size_t n);
/* What carries exchanges, and what its functions are given: for asynchronous methods, which go on while turns are under
 * way. */
typedef struct {
    const fli_executor *executor;
    void *self;
} fli_carried_by;
fli_carried_by fli_exec_carried_by(const fli_exec *e);
/* Bytes that an ask sends down and brings up. */
size_t fli_exec_bytes_down(const fli_exec *e, const fl_ask *ask);
size_t fli_exec_bytes_up(const fli_exec *e, const fl_ask *ask);

/* A copy in plain memory of the client's own model, or of what stands for it, and unless NULL its share in what the
 * client predicts with. */
fl_status fli_exec_own_model(fli_exec *e, uint32_t client, void *out, double *mix);

/* What the last round sent and took. */
typedef struct {
    double down, up; /* bytes of all messages */
    double steps;    /* of the local solvers */
    size_t came;     /* clients of the cohort, without those that are left out */
} fli_spent;
fli_spent fli_exec_spent(const fli_exec *e);
/* Bytes of client state in memory, and of what is in a file because it is beyond `memory`. */
size_t fli_exec_state(const fli_exec *e, size_t *spilled);
/* Between rounds: copies in plain memory of vector k and of the scalars that a client keeps, unless NULL. *there: it
 * has had a turn. */
fl_status fli_exec_peek(fli_exec *e, size_t client, size_t k, void *vector, double *scalars, int *there);

/* Between rounds: all that changes. Loading is for one that has not run. */
void fli_exec_save(fli_exec *e, fli_saver *out);
fl_status fli_exec_load(fli_exec *e, fli_loader *in);
/* Of that the clients alone: where several ranks make a run, all have the same server, and each its own clients. */
void fli_exec_save_clients(fli_exec *e, fli_saver *out);
fl_status fli_exec_load_clients(fli_exec *e, fli_loader *in);

/* ==== memory =============================================================================================== */

/* How much memory a federation takes at least, estimated before it takes any. engine.c adds up its own allocations; a
 * test compares them. */

typedef struct {
    double server;  /* the model and what else the server has */
    double workers; /* gradients, batches, scratch: of all threads */
    double turns;   /* uploads and models of clients at work */
    double state;   /* what the clients of one cohort keep, or `memory` where that is less */
    double total;
} fli_footprint;

/* Of a spec that names its solver. `cohort`: clients per round, or at work. `async`: each of them has a model of its
 * own. */
fli_footprint fli_footprint_of(const fli_exec_spec *spec, size_t cohort, int async);
/* At a site, where a spec has none yet: bytes of all vectors there. */
double fli_footprint_there(const fli_exec_spec *spec, size_t cohort, int async);
/* Memory of one remote client with `samples` samples (their own storage not counted). */
double fli_footprint_client(const fli_clients_spec *spec, size_t samples);

#endif
