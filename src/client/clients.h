/* The clients' side: state, data and local solvers of as many clients as live in this process. It turns an ask and a
 * message down into a message up, and sees nothing else of the server. */
#ifndef FLI_CLIENT_CLIENTS_H
#define FLI_CLIENT_CLIENTS_H

#include "client/store.h"
#include "data/federation/federation.h"
#include "message/exchange.h"
#include "message/setup.h"
#include "ranks/rank_owner.h"
#include "ranks/ranks.h"

typedef struct fli_clients fli_clients;
/* How clients work, beside what they work on. All borrowed; must outlive the clients. */
typedef struct {
    const fli_setup *setup;
    size_t memory;                  /* bytes of client state in memory (store.h); 0: no limit */
    const char *folder;             /* for what is beyond that */
    const fli_site *site;           /* where turns are computed, as many together as it likes; NULL: here */
    size_t together;                /* tasks that a workspace poses and solves together; 0 counts as 1 */
    fli_user_failure *user_failure; /* that of the server, where it is in this process; NULL: the clients' own */
    const fli_halt *halt;           /* how turns under way are ended; NULL: they are not */
    int poison;                     /* scratch vectors are filled with NaN before every turn */
} fli_clients_spec;

/* With this many workspaces, each on its own evals[i], which are borrowed. */
fl_status fli_clients_new(fl_ctx *ctx, const fli_clients_spec *spec, size_t workspaces, fli_eval *evals,
                          fli_clients **out);
void fli_clients_free(fli_clients *c);

/* Answers asks of different clients: poses all of them, solves them together, answers for all, as many at a time as
 * there are tasks. x->down is what the client has (broadcast_cache.h). Any thread may call it; a workspace serves
 * one call at a time. */
void fli_clients_work(fli_clients *c, fli_exchange *const *list, size_t n, size_t workspace);
/* After it: at a site, whether answers are finite is known only now. x->status is FL_EDIVERGED where they are not. */
void fli_clients_settle(fli_clients *c, size_t workspace);
/* How long an ask takes, up to a factor: samples passed over. */
double fli_clients_effort(const fli_clients *c, const fl_ask *ask);

/* Bytes of client state in memory, and of what is in a file because it is beyond `memory`. */
size_t fli_clients_state(const fli_clients *c, size_t *spilled);
/* Between turns: copies in plain memory of vector k and of the scalars that a client keeps, unless NULL. *there: it has
 * had a turn. */
fl_status fli_clients_peek(fli_clients *c, uint32_t client, size_t k, void *vector, double *scalars, int *there);
/* Between turns: all that changes, of the clients that are here. Loading is for clients that have not worked; clients
 * of other ranks are passed over, and it may be done once for each of several files. */
void fli_clients_save(fli_clients *c, fli_saver *out);
fl_status fli_clients_load(fli_clients *c, fli_loader *in);

/* ==== figures ============================================================================================== */

/* The clients' side of figures (message/exchange.h): models on a client's samples. All borrowed. */
typedef struct {
    fl_ctx *ctx;
    const fli_setup *setup;
    fl_space space; /* of vectors in messages and state */
    fli_store *store;
    void *const *kept; /* per client that is here: where a solver keeps the second block; NULL: hidden */
} fli_evaluate_side;

/* Answers asks that are no turns; each has its status then. */
void fli_evaluate(const fli_evaluate_side *side, fli_eval *eval, fli_exchange *const *list, size_t n);

#endif
