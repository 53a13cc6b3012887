/* The server's side: its vectors, sums and scalars. It absorbs uploads and advances. It has no data; of clients it
 * knows their numbers of samples and their uploads. It runs no clients: executor/ does. At the end: the intake, which
 * absorbs uploads while other clients of the cohort still train. */
#ifndef FLI_SERVER_SERVER_STATE_H
#define FLI_SERVER_SERVER_STATE_H

#include "base/pool.h"
#include "message/codec.h"
#include "message/exchange.h"
#include "message/setup.h"
#include "ranks/ranks.h"
#include "regularizer/regularizer.h"

typedef struct fli_server_state fli_server_state;

/* Called after every absorbed upload, for tests of methods; may be NULL. */
typedef struct {
    void (*call)(void *arg);
    void *arg;
} fli_after_absorb;

/* All pointers are borrowed and must outlive the server state. */
typedef struct {
    const fli_setup *setup;
    fli_place *place;                               /* of the server's vectors; NULL: plain memory */
    size_t samples;                                 /* of all clients */
    size_t (*size)(const void *arg, size_t client); /* n_i */
    const void *arg;
    size_t slice; /* entries of a slice; 0: chosen for speed; at a place there is one slice */
    fli_after_absorb after_absorb;
    /* The clients', if they are in this process; NULL: the server's own. In a run over ranks the server has its own,
     * too: other ranks do not know the failures of the clients here. Each rank has the whole server, and works on some
     * slices. */
    fli_user_failure *user_failure;
} fli_server_state_spec;

fl_status fli_server_state_new(fl_ctx *ctx, const fli_server_state_spec *spec, fli_server_state **out);
void fli_server_state_free(fli_server_state *c);

/* How many step lengths the server remembers (fl_potential.remembers), beside a vector; 0: none. */
size_t fli_server_state_remembers(const fl_method *a, const void *params, int measure_potential);
/* The server's vectors; [0] is the model x. The caller sets the start model. */
void *const *fli_server_state_vectors(const fli_server_state *c);
double fli_server_state_weight(const fli_server_state *c, size_t client); /* w_i */
double fli_server_state_regularizer(fli_server_state *c);                 /* g(x); 0 if there is none */

/* Calls the method's `start` now, unless it was called: scalars in the broadcast then have their first values. */
void fli_server_state_start(fli_server_state *c);
/* The method's potential, from the weighted sums of the clients' contributions. */
double fli_server_state_potential(fli_server_state *c, const double *sum);

/* The length of the proximal step in the method's optimality gap (fl_gap.eta); 0: the method has none. */
double fli_server_state_gap_eta(fli_server_state *c);

/* The current broadcast. It aliases the server's vectors; `serial` changes with every server step. */
const fli_message *fli_server_state_broadcast(const fli_server_state *c);
/* Bytes of a broadcast's vectors, which are contiguous. */
size_t fli_server_state_broadcast_bytes(const fli_server_state *c);

/* Sets what the server knows of a client in an ask: its weight, and whether it needs the start model. */
void fli_server_state_address(const fli_server_state *c, fl_ask *ask);
/* Notes that the client of this ask has got the start model. */
void fli_server_state_note(fli_server_state *c, const fl_ask *ask);
/* Takes that back: the ask does not count. */
void fli_server_state_forget(fli_server_state *c, const fl_ask *ask);

/* A server step. */
typedef struct {
    size_t round, cohort;
    double cohort_weight; /* sum of w_i over the cohort */
    size_t phase, phases;
    int warm_up;
    int spread; /* over the ranks; their parts are put together when the server advances */
} fli_step;

/* A step: begin, absorb any number of uploads, advance. */
void fli_server_state_begin(fli_server_state *c, const fli_step *step);
/* Continues a step that fli_server_state_load has restored: uploads that were absorbed before stay. */
void fli_server_state_resume(fli_server_state *c, const fli_step *step);
void fli_server_state_absorb(fli_server_state *c, const fli_exchange *x, size_t staleness);
/* Uses the pool's threads if the method allows it; pool NULL: this thread. */
fl_status fli_server_state_advance(fli_server_state *c, fli_pool *pool);

/* The entries of a rank's slices, from the first up to but excluding the last; all, if there is one process. */
fli_entries fli_server_state_range(const fli_server_state *c, uint32_t rank);
/* Counts an upload that all slices have absorbed, or will have before the server advances. */
void fli_server_state_count(fli_server_state *c, const fli_exchange *x);

/* FL_ECALLBACK, with the sentence, after a user's method has failed in `start`, `begin` or `absorb`; none of its
 * functions is called any more. FL_OK otherwise. */
fl_status fli_server_state_status(const fli_server_state *c);
/* The status of a failed exchange, with a sentence for the user. */
fl_status fli_server_state_failed(const fli_server_state *c, const fli_exchange *x);

/* Uploads absorbed since the start. *uploads: all of them; returned: those of solvers that missed their accuracy. */
size_t fli_server_state_missed(const fli_server_state *c, size_t *uploads);

/* Everything that changes, between steps or within one. Load only before the first step. */
void fli_server_state_save(const fli_server_state *c, fli_saver *out);
void fli_server_state_load(fli_server_state *c, fli_loader *in);

/* ==== the intake: absorbing uploads while other clients train =============================================== */

/* Takes uploads while other clients of the cohort still work. The thread that has filled an exchange reports it. An
 * exchange may be absorbed once all before it in the cohort are filled. The reporting thread then absorbs, slice by
 * slice of the server's vectors, with one thread at a slice. Every slice takes the uploads in the cohort's order, so
 * the bits do not depend on threads or time. */

typedef struct fli_intake fli_intake;

/* For at most `most` exchanges at a time. The server is borrowed. */
fl_status fli_intake_new(fl_ctx *ctx, fli_server_state *server, size_t most, fli_intake **out);
void fli_intake_free(fli_intake *in);

/* Announces exchanges that will be filled. One that fails is not absorbed, nor are those after it. */
void fli_intake_open(fli_intake *in, fli_exchange *const *list, size_t n);
/* Reports that exchange i of the list is filled. Safe from any thread. */
void fli_intake_filled(void *intake, size_t i);
/* Call when all exchanges are filled: absorbs the rest. */
void fli_intake_close(fli_intake *in, fli_pool *pool);
/* Absorbs any number of exchanges that are all filled already. */
void fli_intake_all(fli_intake *in, fli_exchange *const *list, size_t n, fli_pool *pool);

#endif
