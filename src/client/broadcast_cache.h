/* The parts of a round's broadcasts that a client keeps (FL_PART_KEEP), so that later phases need not send them again.
 * They are forgotten when the next cohort starts. Clients that are sent the same may share one. */
#ifndef FLI_CLIENT_BROADCAST_CACHE_H
#define FLI_CLIENT_BROADCAST_CACHE_H

#include "message/exchange.h"
#include "message/setup.h"

typedef struct fli_broadcast_cache fli_broadcast_cache;

/* What is kept has its place with the messages' vectors; NULL: plain memory. *out is NULL for methods whose clients
 * keep nothing. */
fl_status fli_broadcast_cache_new(fl_ctx *ctx, const fli_setup *setup, fli_place *place, fli_broadcast_cache **out);
void fli_broadcast_cache_free(fli_broadcast_cache *c);
/* Takes what a message brings with that ask. The same message again changes nothing. */
fl_status fli_broadcast_cache_take(fli_broadcast_cache *c, const fl_ask *ask, const fli_message *down);
/* The message as the client has it now, with what it keeps in place of what was not sent. */
const fli_message *fli_broadcast_cache_view(const fli_broadcast_cache *c);
/* All that is kept. Loading is for one that has taken nothing. */
void fli_broadcast_cache_save(const fli_broadcast_cache *c, fli_saver *out);
fl_status fli_broadcast_cache_load(fli_broadcast_cache *c, fli_loader *in);
/* What keeping takes at most, in model vectors, in rounds of this many phases. */
size_t fli_broadcast_cache_vectors(const fl_method *a, const void *params, size_t phases);

#endif
