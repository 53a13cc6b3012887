/* The server's side: its vectors, sums and scalars. It absorbs uploads and advances. It has no data, and knows of the
 * clients only what they say: how many samples they have, and what they upload. Nothing here runs clients: that is
 * executor/. At the end: the intake, which absorbs uploads while others of the cohort still train. */
#ifndef FLI_SERVER_SERVER_STATE_H
#define FLI_SERVER_SERVER_STATE_H

#include "base/pool.h"
#include "message/codec.h"
#include "message/exchange.h"
#include "message/setup.h"
#include "ranks/ranks.h"
#include "regularizer/regularizer.h"

typedef struct fli_server_state fli_server_state;

/* Called after every upload that is absorbed, for tests of methods; NULL: nothing is. */
typedef struct {
    void (*call)(void *arg);
    void *arg;
} fli_after_absorb;

/* All borrowed; must outlive the server state. */
typedef struct {
    const fli_setup *setup;
    fli_place *place;                               /* of the server's vectors; NULL: plain memory */
    size_t samples;                                 /* of all clients */
    size_t (*size)(const void *arg, size_t client); /* n_i */
    const void *arg;
    size_t slice; /* entries of a slice; 0: what is fast; with a place there is only one */
    fli_after_absorb after_absorb;
    /* That of the clients, where they are in this process; NULL: the server's own. Where ranks make a run together, the
     * server's is its own as well, for that of the clients here is not known to the others. Each of these has the whole
     * server, and a part of its slices. */
    fli_user_failure *user_failure;
} fli_server_state_spec;

fl_status fli_server_state_new(fl_ctx *ctx, const fli_server_state_spec *spec, fli_server_state **out);
void fli_server_state_free(fli_server_state *c);

/* How many numbers its memory has (fl_potential.remembers), beside a vector; 0: there is none. */
size_t fli_server_state_remembers(const fl_method *a, const void *params, int measure_potential);
/* The server's vectors; [0] is the model x. The caller sets the start model. */
void *const *fli_server_state_vectors(const fli_server_state *c);
double fli_server_state_weight(const fli_server_state *c, size_t client); /* w_i */
double fli_server_state_regularizer(fli_server_state *c);                 /* g(x); 0 if there is none */

/* What would happen before anybody's first turn happens now, unless it has: numbers that are sent down have their first
 * values. */
void fli_server_state_start(fli_server_state *c);
/* The method's potential, given the weighted sums of what clients contribute. */
double fli_server_state_potential(fli_server_state *c, const double *sum);

/* The length of the proximal step in the method's optimality gap (fl_gap.eta); 0: there is none. */
double fli_server_state_gap_eta(fli_server_state *c);

/* The current broadcast. It aliases the server's vectors; its serial changes with every server step. */
const fli_message *fli_server_state_broadcast(const fli_server_state *c);
/* The vectors of a broadcast lie in one piece of this many bytes. */
size_t fli_server_state_broadcast_bytes(const fli_server_state *c);

/* Fills what the server knows of a client into an ask: its weight, and whether it has to be shown the start model. */
void fli_server_state_address(const fli_server_state *c, fl_ask *ask);
/* The client of this ask has been shown the start model. */
void fli_server_state_note(fli_server_state *c, const fl_ask *ask);
/* It has not after all: what it was asked does not count. */
void fli_server_state_forget(fli_server_state *c, const fl_ask *ask);

/* A server step. */
typedef struct {
    size_t round, cohort;
    double cohort_weight; /* sum of w_i over the cohort */
    size_t phase, phases;
    int warm_up;
    int spread; /* over the ranks, as the spec says: what they have absorbed is put together when the server advances */
} fli_step;

/* Begin, absorb any number of uploads, advance. */
void fli_server_state_begin(fli_server_state *c, const fli_step *step);
/* Begins again, after fli_server_state_load, a step that had begun: the uploads absorbed so far stay. */
void fli_server_state_resume(fli_server_state *c, const fli_step *step);
void fli_server_state_absorb(fli_server_state *c, const fli_exchange *x, size_t staleness);
/* On the pool's threads where the method allows it; pool NULL: on this one. */
fl_status fli_server_state_advance(fli_server_state *c, fli_pool *pool);

/* Those that this rank has, from the first up to but without the last; all, where there is one process. And the entries
 * of a rank's slices. */
fli_entries fli_server_state_range(const fli_server_state *c, uint32_t rank);
/* All slices have absorbed this upload, or will have before the server goes forward. */
void fli_server_state_count(fli_server_state *c, const fli_exchange *x);

/* FL_ECALLBACK, with the sentence, once a function of a user's method has failed in starting, beginning or absorbing:
 * nothing more of it is called. FL_OK for all others. */
fl_status fli_server_state_status(const fli_server_state *c);
/* The status of an exchange that failed, with a sentence for a person. */
fl_status fli_server_state_failed(const fli_server_state *c, const fli_exchange *x);

/* Uploads absorbed since the start, and how many of them came from solvers that missed their accuracy. */
size_t fli_server_state_missed(const fli_server_state *c, size_t *uploads);

/* Between steps, or in one: all that changes. Loading is for one that has not begun. */
void fli_server_state_save(const fli_server_state *c, fli_saver *out);
void fli_server_state_load(fli_server_state *c, fli_loader *in);

/* ==== uploads while others still train ===================================================================== */

/* Uploads on their way into the server, while others of the cohort still work. Any thread that has filled an exchange
 * says so; as soon as all those before it in the cohort are filled too it may be absorbed. The thread that says so then
 * absorbs, slice by slice of the server's vectors, one thread at a slice. A slice takes the uploads in the cohort's
 * order, hence the same bits whichever thread does it and whenever. */

typedef struct fli_intake fli_intake;

/* For at most this many exchanges at a time. The server is borrowed. */
fl_status fli_intake_new(fl_ctx *ctx, fli_server_state *server, size_t most, fli_intake **out);
void fli_intake_free(fli_intake *in);

/* These will be filled. One that fails is not absorbed, nor are those after it. */
void fli_intake_open(fli_intake *in, fli_exchange *const *list, size_t n);
/* Exchange i of the list is filled. On any thread. */
void fli_intake_filled(void *intake, size_t i);
/* All are; absorbs what is left of them. */
void fli_intake_close(fli_intake *in, fli_pool *pool);
/* The same of any number that are all filled already. */
void fli_intake_all(fli_intake *in, fli_exchange *const *list, size_t n, fli_pool *pool);

#endif
