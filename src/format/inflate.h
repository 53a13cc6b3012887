/* zlib with this program's memory. */
#ifndef FLI_FORMAT_INFLATE_H
#define FLI_FORMAT_INFLATE_H

#include "base/ctx.h"

#include <zlib.h>

/* Prepares to unpack what next_in and avail_in of `z` say; window_bits as for inflateInit2. `path` is for the message.
 * To be ended by inflateEnd, unless it fails. */
fl_status fli_inflate_start(fl_ctx *ctx, const char *path, int window_bits, z_stream *z);

#endif
