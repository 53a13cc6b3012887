/* Structs that a caller fills, and that may grow from one version to the next: they begin with their own size. */
#ifndef FLI_BASE_SIZED_H
#define FLI_BASE_SIZED_H

#include "base/ctx.h"

/* Copies the struct `given`, whose field `size` says that it has that many bytes, into one of `into_size` bytes. What
 * an older, shorter one lacks is zero. A newer, longer one must be zero where this library cannot understand it.
 * FL_ECONFIG with a sentence otherwise, and where the size was not set; `into` is then zero. `what` is the struct's
 * name. */
fl_status fli_take_sized(fl_ctx *ctx, const char *what, const void *given, size_t size, void *into, size_t into_size);

#endif
