/* The two halves of a federation, for a program that carries the messages between them: a network, another framework, a
 * test.
 *
 * A server produces asks and takes answers; a client turns an ask into an answer. Both are bytes, and the two halves
 * exchange nothing else:
 *
 *     client: fl_client_new, fl_client_card  ->  server: fl_server_join
 *     server: fl_server_begin, fl_server_terms  ->  client: fl_client_accept
 *     server: fl_server_next  ->  client: fl_client_work  ->  server: fl_server_answer      until FL_EDONE
 *
 * If no client is dropped, the result has the same bits as a simulation of the same federation; a dropped client counts
 * as not invited. Bytes may come from untrusted senders: invalid ones are refused.
 *
 * A client and its context belong to one thread at a time, as all that is made from a context. Any number of threads
 * may use a server: all its functions but fl_server_new, _observe and _free may be called from any thread at any
 * time. */
#ifndef FEDLOOM_HALVES_H
#define FEDLOOM_HALVES_H

#include "fedloom.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Freed by fl_bytes_free. */
typedef struct {
    unsigned char *data;
    size_t n;
} fl_bytes;
void fl_bytes_free(fl_bytes *b);

/* ---- the clients' half ------------------------------------------------------------------------------------ */

typedef struct fl_client fl_client;

/* The client's samples are all training samples of the configuration's `data` section, or of fl_config_data; partitions
 * are ignored, and so are test parts and scaling, which the terms contain. Two other keys count: `precision` (if the
 * terms have another, files are read again) and `local.solver`: a registered solver that replaces SGD, and the solver
 * that the terms name for SGD's problems. The server need not have it. The client's state stays in memory: nothing is
 * written to disk. */
fl_status fl_client_new(fl_config *cfg, fl_client **out);
void fl_client_free(fl_client *c);
/* Whether all labels of the client belong to a federation with `classes` classes, named class_name[0], class_name[1],
 * ..., or 0, 1, ... if that is NULL. FL_EMISMATCH names the first label that does not. Call it before joining:
 * fl_client_accept makes the same check, but by then the client has taken the place of another. */
fl_status fl_client_labels(fl_client *c, size_t classes, const char *const *class_name);
/* What the server must know of the client: its number of samples and, if `digest` is set, their digest. */
fl_status fl_client_card(fl_client *c, int digest, fl_bytes *out);
/* Makes model and method from the terms; the samples must fit them. Accepting the same terms again does nothing. */
fl_status fl_client_accept(fl_client *c, const void *terms, size_t n);
/* The largest size of an ask, by the terms and the client's limits: a transport need not read more. 0 before the client
 * has accepted terms. */
size_t fl_client_ask_bytes(const fl_client *c);
/* Computes the answer to an ask. A turn that fails also gives an answer, which says so, and leaves the client
 * unchanged. FL_EFORMAT: the bytes are not an ask, or not for this client. FL_EREFUSED: the ask exceeds the client's
 * limits, or the turn was stopped. FL_EMISMATCH: the server builds on a turn that this client has not taken, or cannot
 * undo to. In all these cases there is no answer, and nothing has changed.
 *
 * The same ask may come again, and gives the same answer. A client keeps its state from before its last turn and from
 * before its last round. Every ask names the last of the client's turns that counts; the client undoes later ones. So
 * neither side needs to know which answers have arrived. */
fl_status fl_client_work(fl_client *c, const void *ask, size_t n, fl_bytes *out);
/* Ends the current turn, or else the next one, with FL_EREFUSED. Safe from any thread and in a signal handler. */
void fl_client_stop(fl_client *c);
/* Writes and restores all that the client keeps between asks; measuring does not change it. Restore it into a client
 * that has accepted the same terms. Equal states are equal bytes. If the state is written before each answer is sent, a
 * client that was restarted cannot be told from one that was not. */
fl_status fl_client_state(fl_client *c, fl_bytes *out);
fl_status fl_client_restore(fl_client *c, const void *state, size_t n);

/* What a client allows a server to ask for. 0 and NULL: no limit. `size` first, as in all such structs. */
typedef struct {
    size_t size;
    uint64_t bytes;             /* of the terms; also of an ask */
    uint64_t memory;            /* bytes for model, method and solver, samples excluded */
    uint64_t steps;             /* of a turn, as asked for */
    uint64_t samples;           /* read in a turn, counted as often as they are read: about steps times batch */
    double seconds;             /* of a turn; checked between steps, so a turn of few steps may take longer */
    const char *const *methods; /* allowed names, NULL-terminated */
    const char *const *models;
} fl_client_limits;

/* Holds from now on, also for terms that were accepted before; the struct is copied. What exceeds a limit is refused
 * with FL_EREFUSED before anything is computed. NULL: no limits. */
fl_status fl_client_limit(fl_client *c, const fl_client_limits *limits);

/* Describes a message for people: its kind, its rows with sizes and norms, and what is wrong with it. It takes cards,
 * terms, asks and answers; asks and answers need a client that has accepted the terms. `out` is text: n bytes and a
 * 0. */
fl_status fl_client_describe(fl_client *c, const void *message, size_t n, fl_bytes *out);

/* ---- the server's half ------------------------------------------------------------------------------------ */

typedef struct fl_server fl_server;

/* The configuration has no samples: `data: {kind: joined, shape: [1, 28, 28], classes: 10}` describes the clients'
 * samples, `partition.clients` gives the number of clients. fl_config_data may give a test set, without training
 * samples. Everything else is as for a run.
 *
 * Reserves the place of the result, as fl_run_prepare_save does. FL_EBUSY: another run or server has it.
 *
 * Errors that do not depend on which clients join are reported here: a trial run with assumed clients is made and
 * freed. So a registered method or objective is begun once more than there are runs. */
fl_status fl_server_new(fl_config *cfg, fl_server **out);
/* Ends the run, and waits until all other threads have left the server's functions. Not from the observer. */
void fl_server_free(fl_server *s);
/* The error of this thread's last call that failed; fl_ctx_error has the last error of all threads. */
const char *fl_server_error(const fl_server *s);
/* Client number `client` joins with its card. The same card again does nothing. FL_EREFUSED: it claims more samples
 * than server.largest_samples. */
fl_status fl_server_join(fl_server *s, uint32_t client, const void *card, size_t n);
size_t fl_server_missing(const fl_server *s); /* clients that have not joined */
/* The number of samples that a client claims to have; the server cannot verify it. 0: the client has not joined. */
uint64_t fl_server_samples(const fl_server *s, uint32_t client);
/* Call it when all clients have joined. Makes the plan and starts the run on its own thread. With `checkpoint_every`
 * the run continues from the newest checkpoint of its `output`, if there is one with the same settings and cards: the
 * server repeats the asks of the interrupted round. FL_EDONE: that run had already finished. */
fl_status fl_server_begin(fl_server *s);
fl_status fl_server_terms(fl_server *s, uint32_t client, fl_bytes *out);

/* `fn` is called on the run's thread after every round, as by fl_run_go; the function given to fl_ctx_on_log is called
 * there, too. It may call fl_server_stop; the run waits for it. Set it before fl_server_begin. */
void fl_server_observe(fl_server *s, fl_observer_fn *fn, void *arg);

/* `fn` is called on the run's thread for each checkpoint. Set it before fl_server_begin. */
void fl_server_on_checkpoint(fl_server *s, fl_checkpoint_fn *fn, void *arg);

/* The next ask, and its client. Waits for one at most `seconds`; then out->n is 0. Several asks may be pending at the
 * same time, at most one per client. FL_EDONE: the run is over. Any other status: it failed. */
fl_status fl_server_next(fl_server *s, double seconds, uint32_t *client, fl_bytes *out);
/* Takes a client's answer. FL_EMISMATCH: it does not belong to a pending ask. FL_EFORMAT: it is invalid. Neither
 * changes anything. FL_EREFUSED: it exceeds what the `server` section allows, and its client is dropped; if no client
 * can be dropped, the run fails. */
fl_status fl_server_answer(fl_server *s, uint32_t client, const void *answer, size_t n);
/* The largest size of an answer: a transport need not read more. 0 before the run has begun. */
size_t fl_server_answer_bytes(fl_server *s);
/* The number of answers that the server waits for, including those whose asks have not been fetched. Writes the first
 * `most` of their clients to `clients`, which may be NULL. A client may be listed twice: while it is at work in an
 * asynchronous run, and for a measurement when it has finished. */
size_t fl_server_awaited(fl_server *s, uint32_t *clients, size_t most);
/* The round, or the measurement, continues without this client's answer to its pending or next ask; its work for that
 * ask does not count. FL_EMISMATCH: the server does not wait for that client now. FL_EREFUSED: the exchange needs all
 * its clients (rounds of several exchanges, methods that need everyone); nothing has changed. */
fl_status fl_server_drop(fl_server *s, uint32_t client, const char *why);
/* As fl_server_drop, for a client that refuses an ask. If all clients of a cohort refuse, the run ends with FL_EIO and
 * the first one's reason: the cause is then more likely a setting than a client. */
fl_status fl_server_refused(fl_server *s, uint32_t client, const char *why);
/* A client will not answer its pending or next ask: the run ends with FL_EIO and this sentence. FL_EMISMATCH: the
 * server does not wait for that client now. */
fl_status fl_server_lost(fl_server *s, uint32_t client, const char *why);
void fl_server_stop(fl_server *s); /* ends the run after the current round, as fl_run_stop; from any thread */

/* The run, after fl_server_next has reported that it is over, finished or failed: to read its rows and model, and to
 * save it. The server owns it. NULL before. */
fl_run *fl_server_run(fl_server *s);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
