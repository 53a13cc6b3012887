/* zlib with this program's memory. */
#ifndef FLI_FORMAT_INFLATE_H
#define FLI_FORMAT_INFLATE_H

#include "base/ctx.h"

struct z_stream_s; /* zlib.h has macros that are not for everyone */

/* Prepares to unpack what next_in and avail_in of `z` say; window_bits as for inflateInit2. `path` is for the message.
 * To be ended by inflateEnd, unless it fails. */
fl_status fli_inflate_start(fl_ctx *ctx, const char *path, int window_bits, struct z_stream_s *z);

#endif
