/* A federation at work: the server's side (server/), the clients' side behind an executor (executor/), and the rounds
 * between them. Uploads are absorbed in the cohort's order, so the result depends neither on the executor nor on the
 * number of threads. */
#ifndef FLI_ENGINE_ENGINE_H
#define FLI_ENGINE_ENGINE_H

#include "executor/executor.h"
#include "server/server_state.h"

typedef struct fli_exec fli_exec;

/* All pointers are borrowed and must outlive the federation. */
typedef struct {
    const fli_setup *setup;
    size_t threads;                /* 0: one per processor */
    size_t memory;                 /* bytes of client state in memory (client/store.h); 0: no limit */
    const char *folder;            /* of the file for state beyond `memory` */
    size_t slice;                  /* see fli_server_state_spec */
    fli_after_absorb after_absorb; /* see fli_server_state_spec */
    const fli_executor *executor;  /* NULL: threads */
    const fli_site *site; /* computes everything; the executor must be threads, with one thread. NULL: this processor */
} fli_exec_spec;

fl_status fli_exec_new(fl_ctx *ctx, const fli_exec_spec *spec, fli_exec **out);
void fli_exec_free(fli_exec *e);

/* The client's card, without a digest. */
fli_card fli_exec_card(const fli_exec *e, uint32_t client);
const fli_setup *fli_exec_setup(const fli_exec *e); /* of the spec */
const fli_exec_spec *fli_exec_spec_of(const fli_exec *e);
fli_server_state *fli_exec_server_state(fli_exec *e);
fli_workers *fli_exec_workers(fli_exec *e);
/* The space of all vectors in messages and state. */
const fl_space *fli_exec_space(const fli_exec *e);
/* The server's vectors in plain memory; [0] is the model x. At a site they are a copy of the present values. The caller
 * sets the start model, and then calls fli_exec_server_changed. */
void *const *fli_exec_server(fli_exec *e);
void fli_exec_server_changed(fli_exec *e);
/* Whether the site has failed, maybe some time ago. Checked after every round, measurement and checkpoint. */
fl_status fli_exec_status(const fli_exec *e);

typedef struct {
    size_t round;
    uint32_t flags; /* FLI_ASK_HAS_BODY and _REPLY, of all asks */
    int warm_up;    /* the warm-up before the first round */
    /* of the cohort, distinct clients: client, stream, steps, lr and probability are set; the rest is filled in */
    const fl_ask *asks;
    size_t count;
    size_t phases; /* exchanges of the round; 0 counts as 1 */
    /* the phases with this cohort, if others have their own: from `from` up to but excluding `until`; 0: to the end */
    size_t from, until;
} fli_round;

/* Whether the method needs a warm-up: a round of all clients with warm_up set, before the first round. */
int fli_exec_warms_up(const fli_exec *e);
/* Runs a round, or those of its phases that belong to this cohort. The cohort takes turns, or with FL_METHOD_BYSTANDERS
 * all clients. With remote clients, and if a round is a single exchange, it may go on without missing clients, as if
 * they had not been invited. A client's model that is no longer finite ends it with FL_EDIVERGED. */
fl_status fli_exec_round(fli_exec *e, const fli_round *r);
/* The full ask of a client in a phase, from the client's own part of it. */
fl_ask fli_round_ask(const fli_exec *e, const fli_round *r, const fl_ask *own, size_t phase);

/* Exchanges outside of rounds. The first makes memory for an upload; free it with fli_message_fini. */
fl_status fli_exec_upload_new(fli_exec *e, fli_message *up);
void fli_exec_run(fli_exec *e, fli_exchange *const *list, size_t n);
/* The same, but the run may go on without missing clients: each has a status. Returns the status that ends the run,
 * with a sentence. */
fl_status fli_exec_gather(fli_exec *e, fli_exchange *const *list, size_t n);
/* The executor and its argument, for asynchronous methods, which continue while turns are under way. */
typedef struct {
    const fli_executor *executor;
    void *self;
} fli_carried_by;
fli_carried_by fli_exec_carried_by(const fli_exec *e);
/* Bytes that an ask sends down and up. */
size_t fli_exec_bytes_down(const fli_exec *e, const fl_ask *ask);
size_t fli_exec_bytes_up(const fli_exec *e, const fl_ask *ask);

/* Copies the client's own model, or what replaces it, to plain memory; *mix, unless NULL: the model's share in the
 * client's predictions. */
fl_status fli_exec_own_model(fli_exec *e, uint32_t client, void *out, double *mix);

/* Costs of the last round. */
typedef struct {
    double down, up; /* bytes of all messages */
    double steps;    /* of the local solvers */
    size_t came;     /* clients of the cohort that answered */
} fli_spent;
fli_spent fli_exec_spent(const fli_exec *e);
/* Bytes of client state in memory; *spilled: bytes in the file. */
size_t fli_exec_state(const fli_exec *e, size_t *spilled);
/* Between rounds: copies vector k and the scalars of a client to plain memory; NULL: not wanted. *there: the client has
 * had a turn. */
fl_status fli_exec_peek(fli_exec *e, size_t client, size_t k, void *vector, double *scalars, int *there);

/* Between rounds: everything that changes. Load only before the first round. */
void fli_exec_save(fli_exec *e, fli_saver *out);
fl_status fli_exec_load(fli_exec *e, fli_loader *in);
/* Only the clients: in a run over ranks, all ranks have the same server, and each its own clients. */
void fli_exec_save_clients(fli_exec *e, fli_saver *out);
fl_status fli_exec_load_clients(fli_exec *e, fli_loader *in);

/* ==== memory =============================================================================================== */

/* An estimate of the memory that a federation needs at least, before it takes any. engine.c adds up its own
 * allocations; a test compares them. */

typedef struct {
    double server;  /* the model and everything else of the server */
    double workers; /* gradients, batches, scratch memory of all threads */
    double turns;   /* uploads and models of clients at work */
    double state;   /* state of the clients of one cohort, or `memory` if that is less */
    double total;
} fli_footprint;

/* For a spec that names its solver. `cohort`: clients per round, or at work. `async`: each of them has its own
 * model. */
fli_footprint fli_footprint_of(const fli_exec_spec *spec, size_t cohort, int async);
/* The same before there is a site: bytes of all vectors there. */
double fli_footprint_there(const fli_exec_spec *spec, size_t cohort, int async);
/* Memory of one remote client with `samples` samples (their own storage not counted). */
double fli_footprint_client(const fli_clients_spec *spec, size_t samples);

#endif
