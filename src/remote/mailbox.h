/* An executor whose clients are elsewhere: its exchanges lie in a mailbox until somebody carries them, as packets, to
 * their clients and brings the answers back. Carriers may be any threads, and as many as one likes; answers may come in
 * any order. The run waits, in one of the functions of fli_executor_mailbox, until what it asked for is there or, where
 * that is allowed, until it goes on without. What a client did counts when the run has taken it: every ask says which
 * turn of its client was the last that does. */
#ifndef FLI_REMOTE_MAILBOX_H
#define FLI_REMOTE_MAILBOX_H

#include "remote/admission.h"
#include "executor/executor.h"

typedef struct fli_mailbox fli_mailbox;

/* `cards`: what the clients said when they joined, as a digest; it is part of the run's identity. `secret`: a number
 * that clients do not know, so that neither the identity nor the numbers of asks tell them of others; 0: none. */
fl_status fli_mailbox_new(fl_ctx *ctx, const fli_digest *cards, uint64_t secret, const fli_admission *rules,
                          fli_mailbox **out);
void fli_mailbox_free(fli_mailbox *b); /* nobody may be in it any more */

/* What follows is safe from any thread; sentences go to `ctx`. */

/* What a client is told. Once the executor is open. */
fl_status fli_mailbox_terms(fli_mailbox *b, fl_ctx *ctx, uint32_t client, fl_bytes *out);
/* The next ask, waiting for one at most this long; out->n is 0 if there was none. FL_EDONE: the mailbox is closed. */
fl_status fli_mailbox_next(fli_mailbox *b, fl_ctx *ctx, double seconds, uint32_t *client, fl_bytes *out);
/* FL_EMISMATCH: nobody waits for this answer; FL_EFORMAT: it cannot be. Neither changes anything. FL_EREFUSED: it is
 * not let in, and nobody waits for it any more. */
fl_status fli_mailbox_answer(fli_mailbox *b, fl_ctx *ctx, uint32_t client, const void *answer, size_t n);
/* See fl_server_answer_bytes, fl_server_awaited, fl_server_drop and fl_server_refused. */
size_t fli_mailbox_answer_bytes(const fli_mailbox *b);
size_t fli_mailbox_awaited(fli_mailbox *b, uint32_t *clients, size_t most);
fl_status fli_mailbox_drop(fli_mailbox *b, fl_ctx *ctx, uint32_t client, const char *why);
fl_status fli_mailbox_refused(fli_mailbox *b, fl_ctx *ctx, uint32_t client, const char *why);
/* Says who has uploaded the longest vector to this process; 0: nobody has uploaded any. */
int fli_mailbox_longest(fli_mailbox *b, char *sentence, size_t n);
/* That client will not answer: its exchange, and those with it, fail with FL_EIO and this sentence. */
fl_status fli_mailbox_lost(fli_mailbox *b, fl_ctx *ctx, uint32_t client, const char *why);
/* Who waits in the mailbox goes away: asks that are out and all later ones fail with FL_EDONE. */
void fli_mailbox_close(fli_mailbox *b);

/* Its mailbox is spec->mailbox. It is in no list: no file can choose it. */
extern const fli_executor fli_executor_mailbox;

#endif
