/* An executor whose clients are in other processes. Its exchanges wait in a queue. Carriers, which may be any number of
 * threads, take them out as packets, bring them to their clients and hand in the answers, in any order. The run waits
 * in one of the functions of fli_executor_remote until its asks are answered or, where that is allowed, goes on without
 * some. A client's turn counts when the run has taken its answer: every ask says which turn of its client was the last
 * that counts. This file knows nothing of sockets: net/ is one of the possible carriers. */
#ifndef FLI_REMOTE_REMOTE_QUEUE_H
#define FLI_REMOTE_REMOTE_QUEUE_H

#include "executor/executor.h"
#include "remote/admission.h"

typedef struct fli_remote_queue fli_remote_queue;

/* `cards`: what the clients said when they joined, as a digest; it is part of the run's identity. `secret`: a number
 * that clients do not know, so that neither the identity nor the numbers of asks tell them of others; 0: none. */
fl_status fli_remote_queue_new(fl_ctx *ctx, const fli_digest *cards, uint64_t secret, const fli_admission *rules,
                               fli_remote_queue **out);
void fli_remote_queue_free(fli_remote_queue *q); /* no thread may be in one of its functions */

/* What follows is safe from any thread; sentences go to `ctx`. */

/* What a client is told. Once the executor is open. */
fl_status fli_remote_queue_terms(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, fl_bytes *out);
/* The next ask, waiting for one at most this long; *found is 0 if there was none. FL_EDONE: the queue is closed. */
fl_status fli_remote_queue_next(fli_remote_queue *q, fl_ctx *ctx, double seconds, uint32_t *client, int *found,
                                fli_ask_packet *out);
/* FL_EMISMATCH: nobody waits for this answer; FL_EFORMAT: it cannot be. Neither changes anything. FL_EREFUSED: it is
 * not let in, and nobody waits for it any more. *answer becomes NULL where it stays here. */
fl_status fli_remote_queue_answer(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, fli_incoming **answer);
/* Where an answer of n bytes can come in. */
fl_status fli_remote_queue_upload(fli_remote_queue *q, fl_ctx *ctx, size_t n, fli_incoming **out);
/* See fl_server_answer_bytes, fl_server_awaited, fl_server_drop and fl_server_refused. */
size_t fli_remote_queue_answer_bytes(const fli_remote_queue *q);
size_t fli_remote_queue_awaited(fli_remote_queue *q, uint32_t *clients, size_t most);
fl_status fli_remote_queue_drop(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, const char *why);
fl_status fli_remote_queue_refused(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, const char *why);
/* Says who has uploaded the longest vector to this process; 0: nobody has uploaded any. */
int fli_remote_queue_longest(fli_remote_queue *q, char *sentence, size_t n);
/* That client will not answer: its exchange, and those with it, fail with FL_EIO and this sentence. */
fl_status fli_remote_queue_lost(fli_remote_queue *q, fl_ctx *ctx, uint32_t client, const char *why);
/* Closes the queue: wakes all waiters; asks under way and all later ones fail with FL_EDONE. */
void fli_remote_queue_close(fli_remote_queue *q);

/* Its queue is spec->remote_queue. It is in no list: no configuration can choose it. */
extern const fli_executor fli_executor_remote;

#endif
