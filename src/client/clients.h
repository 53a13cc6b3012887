/* The clients' side: state, data and local solvers of the clients in this process. It turns an ask and a message down
 * into a message up, and sees nothing else of the server. */
#ifndef FLI_CLIENT_CLIENTS_H
#define FLI_CLIENT_CLIENTS_H

#include "client/store.h"
#include "data/federation/federation.h"
#include "message/exchange.h"
#include "message/setup.h"
#include "ranks/rank_owner.h"
#include "ranks/ranks.h"

typedef struct fli_clients fli_clients;
/* How the clients work. All pointers are borrowed and must outlive the clients. */
typedef struct {
    const fli_setup *setup;
    size_t memory;                  /* bytes of client state in memory (store.h); 0: no limit */
    const char *folder;             /* of the file for state beyond `memory` */
    const fli_site *site;           /* where turns are computed; NULL: on this processor */
    size_t together;                /* turns that one call poses and solves together; 0 counts as 1 */
    fli_user_failure *user_failure; /* the server's, if it is in this process; NULL: the clients have their own */
    const fli_halt *halt;           /* can stop turns under way; NULL: nothing can */
    int poison;                     /* fill scratch vectors with NaN before every turn */
} fli_clients_spec;

/* Makes workspaces 0 .. workspaces - 1; number i uses evals[i], which is borrowed. */
fl_status fli_clients_new(fl_ctx *ctx, const fli_clients_spec *spec, size_t workspaces, fli_eval *evals,
                          fli_clients **out);
void fli_clients_free(fli_clients *c);

/* Answers asks of different clients, `together` at a time: poses all, solves them together, answers all. x->down is the
 * message as the client has it (broadcast_cache.h). Safe from any thread, but a workspace serves one call at a time. */
void fli_clients_work(fli_clients *c, fli_exchange *const *list, size_t n, size_t workspace);
/* Call after it: at a site it is only known now whether the answers are finite. x->status is FL_EDIVERGED if not. */
void fli_clients_settle(fli_clients *c, size_t workspace);
/* The estimated effort of an ask, up to a factor: samples processed. */
double fli_clients_effort(const fli_clients *c, const fl_ask *ask);

/* Bytes of client state in memory; *spilled: bytes in the file. */
size_t fli_clients_state(const fli_clients *c, size_t *spilled);
/* Copies vector k and the scalars of a client to plain memory; NULL: not wanted. *there: the client has had a turn.
 * Only between turns. */
fl_status fli_clients_peek(fli_clients *c, uint32_t client, size_t k, void *vector, double *scalars, int *there);
/* The state of the clients that are here. Only between turns. Load only before clients have worked; clients of other
 * ranks are skipped, and each of several files may be loaded once. */
void fli_clients_save(fli_clients *c, fli_saver *out);
fl_status fli_clients_load(fli_clients *c, fli_loader *in);

/* ==== figures ============================================================================================== */

/* The clients' side of figures (message/exchange.h): evaluates models on a client's samples. All borrowed. */
typedef struct {
    fl_ctx *ctx;
    const fli_setup *setup;
    fl_space space; /* of vectors in messages and state */
    fli_store *store;
    void *const *kept; /* by client here: where a solver keeps the second block; NULL: hidden */
} fli_evaluate_side;

/* Answers asks that are not turns, and sets each status. */
void fli_evaluate(const fli_evaluate_side *side, fli_eval *eval, fli_exchange *const *list, size_t n);

#endif
