/* The newest model, for one writer and many readers at the same time: the server's memory in asynchronous runs.
 *
 * The dual-memory server of [DR] B.1 keeps two copies: users read one while the server writes the other, then the two
 * change places. That is torn as soon as a slow reader of the old copy is still at it when the server writes the model
 * after the next. Here there are two copies more than readers, so that the writer always finds one that nobody reads:
 * readers never block the writer nor each other, and never see half a model. */
#ifndef FLI_ENGINE_LATEST_MODEL_H
#define FLI_ENGINE_LATEST_MODEL_H

#include "base/ctx.h"

#include <stddef.h>

typedef struct fli_latest fli_latest;

/* Room for `bytes` at a time; at most `readers` threads read at the same moment. */
fl_status fli_latest_new(fl_ctx *ctx, size_t bytes, size_t readers, fli_latest **out);
void fli_latest_free(fli_latest *b);

/* Puts up new contents. One thread at a time. */
void fli_latest_write(fli_latest *b, const void *contents, size_t version);
/* Copies the newest complete contents; returns their version. Something must have been written before. */
size_t fli_latest_read(fli_latest *b, void *contents);

#endif
