/* The parts of a round's broadcasts that a client keeps (FL_PART_KEEP), so that later phases need not send them again.
 * The next cohort's first message discards them. Clients that get the same messages may share one cache. */
#ifndef FLI_CLIENT_BROADCAST_CACHE_H
#define FLI_CLIENT_BROADCAST_CACHE_H

#include "message/exchange.h"
#include "message/setup.h"

typedef struct fli_broadcast_cache fli_broadcast_cache;

/* Kept vectors live at `place`, as the messages' do; NULL: plain memory. *out is NULL for methods whose clients keep
 * nothing. */
fl_status fli_broadcast_cache_new(fl_ctx *ctx, const fli_setup *setup, fli_place *place, fli_broadcast_cache **out);
void fli_broadcast_cache_free(fli_broadcast_cache *c);
/* Stores the parts to keep of a message with that ask. The same message again changes nothing. */
fl_status fli_broadcast_cache_take(fli_broadcast_cache *c, const fl_ask *ask, const fli_message *down);
/* The last message, with kept vectors in place of those that were not sent. */
const fli_message *fli_broadcast_cache_view(const fli_broadcast_cache *c);
/* Everything that is kept. Load only into a cache that has taken nothing. */
void fli_broadcast_cache_save(const fli_broadcast_cache *c, fli_saver *out);
fl_status fli_broadcast_cache_load(fli_broadcast_cache *c, fli_loader *in);
/* The most vectors of the model that a cache needs, in rounds of this many phases. */
size_t fli_broadcast_cache_vectors(const fl_method *a, const void *params, size_t phases);

#endif
