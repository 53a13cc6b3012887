/* An executor carries asks to clients and their answers back. It knows neither rounds nor the rules of methods: the
 * caller passes exchanges, and the executor fills them. `threads` has the clients in this process; other executors may
 * have them elsewhere. */
#ifndef FLI_EXECUTOR_EXECUTOR_H
#define FLI_EXECUTOR_EXECUTOR_H

#include "client/workers.h"
#include "client/card.h"
#include "message/codec.h"

/* `tell` is called for each filled exchange, with its index in the list: on the thread that filled it, in any order. */
typedef struct {
    void (*tell)(void *arg, size_t place);
    void *arg;
    /* Of uploads from other ranks, each rank needs only these entries; NULL: all. */
    const fli_entries *ranges;
} fli_on_filled;

typedef struct fli_executor {
    const char *name, *title;
    int lends; /* it lends uploads in its own memory: exchanges need none (fli_message_borrower) */
    int apart; /* each client has its own broadcast cache, in this process */
    /* Makes the clients, before their first turn. `workers` is borrowed. */
    fl_status (*open)(fl_ctx *ctx, const fli_clients_spec *spec, fli_workers *workers, void **out);
    /* A client's card, at any time. Only the digest of its samples can fail; it takes a pass over them. */
    fl_status (*join)(void *executor, uint32_t client, int digest, fli_card *out);
    /* Fills exchanges with different clients, and sets each status. The executor chooses the order, which must not
     * matter. `filled`, unless NULL, is told of each. */
    void (*run)(void *executor, fli_exchange *const *list, size_t n, const fli_on_filled *filled);
    /* The same if the run may go on without missing clients. Each of these has a status, FL_EREFUSED unless its turn
     * failed, and its turn does not count. Returns the status that ends the run, with the sentence in the first
     * exchange of that status; FL_OK: the run goes on, even if all are missing. NULL: no client is ever missing. */
    fl_status (*gather)(void *executor, fli_exchange *const *list, size_t n);
    /* For the real clock; all three or none. `send` begins a turn. `await` waits for the next exchange that is filled
     * or has failed; NULL: none came in time. FL_EDONE: none will come any more. `withdraw` forgets the turns under
     * way. */
    fl_status (*send)(void *executor, fli_exchange *x);
    fl_status (*await)(void *executor, double seconds, fli_exchange **out);
    void (*withdraw)(void *executor);
    /* The estimated effort of an ask, up to a factor. May be NULL. */
    double (*effort)(const void *executor, const fl_ask *ask);
    /* Bytes of client state in memory here; *spilled: in a file. */
    size_t (*state)(const void *executor, size_t *spilled);
    /* Between rounds: the clients' state, as fli_clients_save writes it, so that another executor can continue the run;
     * with ranks, of this rank's clients. Load only before the first round. */
    void (*save)(void *executor, fli_saver *out);
    fl_status (*load)(void *executor, fli_loader *in);
    /* Between rounds: copies vector k and the scalars of a client; NULL: not wanted. *there: the client has had a turn.
     * NULL: the state is not known here. */
    fl_status (*peek)(void *executor, uint32_t client, size_t k, void *vector, double *scalars, int *there);
    void (*close)(void *executor);
} fli_executor;

extern const fli_executor fli_executor_threads, fli_executor_loopback;
/* `threads` at every rank, each with its own clients. Not in the list: it is used whenever there are ranks. */
extern const fli_executor fli_executor_ranks;
extern const fli_executor *const fli_executor_list[]; /* NULL-terminated */

#endif
