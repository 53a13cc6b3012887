/* An executor carries asks to clients and brings back what they answer. It knows neither rounds nor methods' rules: the
 * caller hands over exchanges, and finds them filled. `threads` has the clients in this process; others may
 * have them elsewhere. */
#ifndef FLI_EXECUTOR_EXECUTOR_H
#define FLI_EXECUTOR_EXECUTOR_H

#include "client/workers.h"
#include "client/card.h"
#include "message/codec.h"

/* Told of an exchange once it is filled, by its place in the list: on the thread that filled it, in any order. */
typedef struct {
    void (*tell)(void *arg, size_t place);
    void *arg;
    /* Of uploads that come from other ranks these entries alone are wanted at each rank; NULL: all, everywhere. */
    const fli_entries *ranges;
} fli_on_filled;

typedef struct fli_executor {
    const char *name, *title;
    int lends; /* it brings uploads in memory of its own: an exchange needs none (fli_message_borrower) */
    int apart; /* clients keep their parts of a round's broadcasts each for itself, in this process */
    /* The clients, before their first turn. `workers` is borrowed. */
    fl_status (*open)(fl_ctx *ctx, const fli_clients_spec *spec, fli_workers *workers, void **out);
    /* What a client said of itself when it joined: available at any time. Only the digest of its samples can fail; it
     * takes a pass over them. */
    fl_status (*join)(void *executor, uint32_t client, int digest, fli_card *out);
    /* Fills exchanges with different clients; each says in its status how it went. The order is up to the executor,
     * and must not matter. `filled` is told of each; NULL: no one is told. */
    void (*run)(void *executor, fli_exchange *const *list, size_t n, const fli_on_filled *filled);
    /* The same where the others may go on without somebody: whoever has not come has a status, FL_EREFUSED unless its
     * turn failed, and what it did does not count. Returns what ends the run, as the first exchange with that status
     * says; FL_OK, also if nobody has come: it goes on. NULL: everybody always comes. */
    fl_status (*gather)(void *executor, fli_exchange *const *list, size_t n);
    /* For the real clock: `send` lets a client begin, `await` hands out the next exchange that is filled or has failed,
     * NULL if there is none in that time. FL_EDONE: there will be none any more. `withdraw` forgets those that are
     * under way. All or none of them. */
    fl_status (*send)(void *executor, fli_exchange *x);
    fl_status (*await)(void *executor, double seconds, fli_exchange **out);
    void (*withdraw)(void *executor);
    /* How long an ask takes, up to a factor. NULL: not known. */
    double (*effort)(const void *executor, const fl_ask *ask);
    /* Bytes of client state in memory here, and in a file. */
    size_t (*state)(const void *executor, size_t *spilled);
    /* Between rounds: what clients keep, as fli_clients_save writes it, so that a run may go on under another
     * executor; with ranks, those of this one. Loading is for one that has not run. */
    void (*save)(void *executor, fli_saver *out);
    fl_status (*load)(void *executor, fli_loader *in);
    /* Between rounds: copies vector k, and the scalars, of what a client keeps to where they are wanted, unless that is
     * NULL. *there: it has had a turn. NULL: what clients keep is not known here. */
    fl_status (*peek)(void *executor, uint32_t client, size_t k, void *vector, double *scalars, int *there);
    void (*close)(void *executor);
} fli_executor;

extern const fli_executor fli_executor_threads, fli_executor_loopback;
/* `threads` at every rank, each with its own clients; not listed, for it is where there are ranks. */
extern const fli_executor fli_executor_ranks;
extern const fli_executor *const fli_executor_list[]; /* NULL-terminated */

#endif
