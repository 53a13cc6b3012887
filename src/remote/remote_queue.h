/* An executor whose clients are in other processes. Its exchanges wait in a queue. Carriers, any number of threads,
 * take them out as packets, bring them to their clients and return the answers, in any order. The run waits in a
 * function of fli_executor_remote until its asks are answered or, if allowed, continues without some. A client's turn
 * counts when the run has taken its answer; every ask names the client's last turn that counts. Nothing here uses
 * sockets: net/ is one carrier. */
#ifndef FLI_REMOTE_REMOTE_QUEUE_H
#define FLI_REMOTE_REMOTE_QUEUE_H

#include "executor/executor.h"
#include "remote/admission.h"

typedef struct fli_remote_queue fli_remote_queue;

/* `cards`: digest of the cards of all clients; part of the run's identity. `secret`: a number that clients do not know,
 * so that they cannot learn about others from the run's digest or the numbers of asks; 0: none. */
fl_status fli_remote_queue_new(fl_ctx *ctx, const fli_digest *cards, uint64_t secret, const fli_admission *rules,
                               fli_remote_queue **out);
void fli_remote_queue_free(fli_remote_queue *q); /* no thread may be in any of its functions */

/* The functions below are safe from any thread; they write error sentences to `ctx`. */

/* The terms for a client. Needs an open executor. */
fl_status fli_remote_queue_terms(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, fl_bytes *out);
/* Waits for an ask, `seconds` at most; *found is 0 if there was none. FL_EDONE: the queue is closed. */
fl_status fli_remote_queue_next(fli_remote_queue *q, fl_ctx *ctx, double seconds, uint32_t *client, int *found,
                                fli_ask_packet *out);
/* Takes an answer. FL_EMISMATCH: it is not awaited; FL_EFORMAT: it is invalid; neither changes anything. FL_EREFUSED:
 * the rules do not accept it, and the ask is settled. *answer becomes NULL if the queue keeps it. */
fl_status fli_remote_queue_answer(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, fli_incoming **answer);
/* Room to receive an answer of n bytes. */
fl_status fli_remote_queue_upload(fli_remote_queue *q, fl_ctx *ctx, size_t n, fli_incoming **out);
/* See fl_server_answer_bytes, fl_server_awaited, fl_server_drop and fl_server_refused. */
size_t fli_remote_queue_answer_bytes(const fli_remote_queue *q);
size_t fli_remote_queue_awaited(fli_remote_queue *q, uint32_t *clients, size_t most);
fl_status fli_remote_queue_drop(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, const char *why);
fl_status fli_remote_queue_refused(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, const char *why);
/* Writes which client has uploaded the longest vector to this process. Returns 0 if none has uploaded any. */
int fli_remote_queue_longest(fli_remote_queue *q, char *sentence, size_t n);
/* The client will not answer: its exchange, and all of the same batch, fail with FL_EIO and this sentence. */
fl_status fli_remote_queue_lost(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, const char *why);
/* Closes the queue: wakes all waiters; asks under way and all later ones fail with FL_EDONE. */
void fli_remote_queue_close(fli_remote_queue *q);

/* The executor of spec->remote_queue. It is not in the list of executors: no configuration can choose it. */
extern const fli_executor fli_executor_remote;

#endif
