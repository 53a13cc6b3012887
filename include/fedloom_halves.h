/* The two halves of a federation, for whoever carries messages between them: a network, another framework, a test.
 *
 * A server gives out asks and takes answers; a client turns an ask into an answer. Both are bytes, and nothing else
 * passes between the two:
 *
 *     client: fl_client_new, fl_client_card  ->  server: fl_server_join
 *     server: fl_server_begin, fl_server_terms  ->  client: fl_client_accept
 *     server: fl_server_next  ->  client: fl_client_work  ->  server: fl_server_answer      until FL_EDONE
 *
 * What comes out is what a simulation of the same federation gives, bit by bit, where nobody is dropped; who is dropped
 * is as if it had not been invited. The bytes are safe to read from anybody: what cannot be is refused.
 *
 * A client and its context belong to one thread at a time, as everything that is made from a context. A server is for
 * any number of threads: all its functions but fl_server_new, _observe and _free may be called from any of them at any
 * time. */
#ifndef FEDLOOM_HALVES_H
#define FEDLOOM_HALVES_H

#include "fedloom.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* To be given back by fl_bytes_free. */
typedef struct {
    unsigned char *data;
    size_t n;
} fl_bytes;
void fl_bytes_free(fl_bytes *b);

/* ---- the clients' half ------------------------------------------------------------------------------------ */

typedef struct fl_client fl_client;

/* Its samples are what the configuration's `data` section, or fl_config_data, gives: all training samples, whatever it
 * says of partitions, and as they are: test parts and scaling are in the terms. Of the rest two keys are looked at:
 * `precision`, since where it is not that of the terms files are read once more; and `local.solver`: a solver of this
 * process (fl_solver_register) that takes the place of SGD here, and of whatever the terms name for it. The server need
 * not know of it. What the client keeps between turns stays in memory: nothing is written to a disk. */
fl_status fl_client_new(fl_config *cfg, fl_client **out);
void fl_client_free(fl_client *c);
/* Whether all of its labels are of a federation with so many classes: called class_name[0], class_name[1], ..., or
 * 0, 1, ... if that is NULL. FL_EMISMATCH with the first label that is not. For before it joins: fl_client_accept
 * checks it as well, but a client that has joined by then holds a place that another one could have had. */
fl_status fl_client_labels(fl_client *c, size_t classes, const char *const *class_name);
/* What the server must know of it: how many samples it has, and, if wanted, their digest. */
fl_status fl_client_card(fl_client *c, int digest, fl_bytes *out);
/* Makes model and method from the terms. Its samples have to suit them. Again with the same terms: nothing happens. */
fl_status fl_client_accept(fl_client *c, const void *terms, size_t n);
/* The most bytes that an ask may have, by the terms and the client's limits: whoever carries messages need not read
 * more. 0 before it has accepted terms. */
size_t fl_client_ask_bytes(const fl_client *c);
/* An answer to an ask. A turn that fails gives an answer too, which says so; for the client it has not been.
 * FL_EFORMAT: that is no ask, or not to this client. FL_EREFUSED: it is beyond the client's limits, or was stopped.
 * FL_EMISMATCH: the server builds on a turn that this client has not taken, or cannot go back to. In all these cases
 * there is no answer, and nothing has changed.
 *
 * The same ask may come again, and gives the same answer. A client keeps what it was before its last turn and before
 * its last round: every ask says which of its turns counts, and those after that one have not been. So nobody needs to
 * know which answers have arrived. */
fl_status fl_client_work(fl_client *c, const void *ask, size_t n, fl_bytes *out);
/* Ends the turn under way, or else the next one, with FL_EREFUSED. From any thread; a signal handler too. */
void fl_client_stop(fl_client *c);
/* All that the client keeps between asks (measuring changes nothing of it), and its return, into one that has accepted
 * the same terms: for those whose clients do not stay in memory. Equal states are equal bytes. A state that was written
 * before an answer is sent is as good as a client that never went away. */
fl_status fl_client_state(fl_client *c, fl_bytes *out);
fl_status fl_client_restore(fl_client *c, const void *state, size_t n);

/* What a client lets a server ask for. 0 and NULL: anything. Begins with its size, as all structs that one fills. */
typedef struct {
    size_t size;
    uint64_t bytes;             /* of the terms, and of an ask */
    uint64_t memory;            /* bytes that model, method and solver take, beside the samples */
    uint64_t steps;             /* of a turn, as it is asked for */
    uint64_t samples;           /* that are passed over in a turn, each as often as it is: steps times batch, about */
    double seconds;             /* of a turn; looked at between steps, so one that takes few of them may be longer */
    const char *const *methods; /* names, up to a NULL: these alone */
    const char *const *models;
} fl_client_limits;

/* Holds from now on, for terms that were accepted too; the struct is copied. What is beyond is refused with FL_EREFUSED
 * before anything is computed. NULL: no limits. */
fl_status fl_client_limit(fl_client *c, const fl_client_limits *limits);

/* A message in words, for people: what it is, row by row what is in it with sizes and norms, and what is not. Of cards,
 * terms, asks and answers; asks and answers need a client that has accepted the terms. Text in out, with a 0 behind its
 * n bytes. */
fl_status fl_client_describe(fl_client *c, const void *message, size_t n, fl_bytes *out);

/* ---- the server's half ------------------------------------------------------------------------------------ */

typedef struct fl_server fl_server;

/* A configuration without samples: `data: {kind: joined, shape: [1, 28, 28], classes: 10}` says what clients' samples
 * look like, `partition.clients` how many clients there are. A test set may come by fl_config_data, with no training
 * samples. Everything else is as for a run.
 *
 * Where the result goes is taken from here on, as fl_run_prepare_save takes it. FL_EBUSY: another run or server has it.
 *
 * What is wrong whoever joins is refused here: a run is made for clients as they might be, and given up again. So
 * methods and objectives of the program's own are made here once more than there are runs. */
fl_status fl_server_new(fl_config *cfg, fl_server **out);
/* Ends a run under way, and waits until every other thread has left the server's functions. Not from the observer. */
void fl_server_free(fl_server *s);
/* What was wrong with the last call of this thread that failed: fl_ctx_error has the last of all threads. */
const char *fl_server_error(const fl_server *s);
/* Client number `client` is there. The same card again: nothing happens. FL_EREFUSED: it claims more samples than
 * server.largest_samples. */
fl_status fl_server_join(fl_server *s, uint32_t client, const void *card, size_t n);
size_t fl_server_missing(const fl_server *s); /* how many have not joined */
/* How many samples a client says it has, which only the client can count; 0: it has not joined. */
uint64_t fl_server_samples(const fl_server *s, uint32_t client);
/* Everybody is there: makes the plan and starts the run, on a thread of its own. With `checkpoint_every` it goes on
 * from the newest checkpoint of its `output`, if there is one of the same settings and cards: the round that was under
 * way is asked again. FL_EDONE: that run was finished already. */
fl_status fl_server_begin(fl_server *s);
fl_status fl_server_terms(fl_server *s, uint32_t client, fl_bytes *out);

/* Called by the run's thread after every round, as fl_run_go calls it, and so is what fl_ctx_on_log was given. It may
 * call fl_server_stop; the run waits for it. To be set before fl_server_begin. */
void fl_server_observe(fl_server *s, fl_observer_fn *fn, void *arg);

/* Called by the run's thread for each checkpoint. To be set before fl_server_begin. */
void fl_server_on_checkpoint(fl_server *s, fl_checkpoint_fn *fn, void *arg);

/* The next ask, and to whom. Waits for one at most this long; out->n is 0 if there was none. Several may be out at the
 * same time, one per client at most. FL_EDONE: the run is over. Anything else: it failed. */
fl_status fl_server_next(fl_server *s, double seconds, uint32_t *client, fl_bytes *out);
/* An answer. One that does not belong to an ask that is out is refused with FL_EMISMATCH, one that cannot be with
 * FL_EFORMAT; neither changes anything. FL_EREFUSED: it is beyond what the `server` section lets in, and its client is
 * dropped; where nobody can be, the run fails. */
fl_status fl_server_answer(fl_server *s, uint32_t client, const void *answer, size_t n);
/* The most bytes that an answer may have: whoever carries messages need not read more. 0 before the run has begun. */
size_t fl_server_answer_bytes(fl_server *s);
/* How many answers are awaited now, those included whose asks nobody has fetched yet; the first `most` of the clients
 * are written to `clients`, which may be NULL. A client may be there twice: while it is at work in an asynchronous run,
 * and to be measured when it has come back. */
size_t fl_server_awaited(fl_server *s, uint32_t *clients, size_t most);
/* The round, or the measurement, goes on without this client's answer to the ask that is out or comes next; what it did
 * for it does not count. FL_EMISMATCH: nobody waits for that client just now. FL_EREFUSED: nobody can be dropped from
 * what is under way (rounds of several exchanges, methods that need everyone); nothing has changed. */
fl_status fl_server_drop(fl_server *s, uint32_t client, const char *why);
/* As fl_server_drop, of a client that will not do what it is asked. A round that every client of its cohort refuses
 * ends the run with FL_EIO and the first one's reason: the cause is then more likely a setting than a client. */
fl_status fl_server_refused(fl_server *s, uint32_t client, const char *why);
/* A client will not answer the ask that is out or comes next: the run ends with FL_EIO and this sentence. FL_EMISMATCH:
 * nobody waits for that client just now. */
fl_status fl_server_lost(fl_server *s, uint32_t client, const char *why);
void fl_server_stop(fl_server *s); /* after the round under way, as fl_run_stop; from any thread */

/* The run, once fl_server_next has said that it is over, well or not: for its rows and model, and to be saved. It goes
 * with the server. NULL before. */
fl_run *fl_server_run(fl_server *s);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
