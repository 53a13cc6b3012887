/* The context: last error, log, allocation. Every function that can fail has one at hand. Also the reading of structs
 * that a caller fills. */
#ifndef FLI_BASE_CTX_H
#define FLI_BASE_CTX_H

#include "fedloom.h"

#include <stdarg.h>
#include <stddef.h>

/* Sets the error sentence and returns `status`, so that `return fli_fail(ctx, FL_EIO, "...")` reads well. Safe from
 * worker threads: the first failure wins until fli_clear. */
fl_status fli_fail(fl_ctx *ctx, fl_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Adds a further sentence on its own line (a configuration reports all its problems at once). */
fl_status fli_fail_also(fl_ctx *ctx, fl_status status, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Forgets the last error. Public entry points call it first. */
void fli_clear(fl_ctx *ctx);

void fli_log(fl_ctx *ctx, fl_log_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Logs nothing from now on, or everything again: for what has been said already. */
void fli_log_quiet(fl_ctx *ctx, int quiet);

/* Around what fl_ctx_stop may end: the reading of data. Saving a result reads files, too, and goes on. Does not nest.
 * */
void fli_ctx_stoppable(fl_ctx *ctx, int on);
/* Whether fl_ctx_stop was called, between these two. */
int fli_ctx_stopped(const fl_ctx *ctx);
/* fl_ctx_stop of `other` stops `ctx`, too. */
void fli_ctx_stop_with(fl_ctx *ctx, const fl_ctx *other);

/* Whether tables are to be JSON (fl_ctx_format). */
int fli_wants_json(const fl_ctx *ctx);

/* What happens to `ctx` from now on, failures, their being forgotten and the log, happens to `other` instead: for what
 * was made from a context of its own and is handed to the owner of another. Not while another thread uses `ctx`. */
void fli_ctx_follow(fl_ctx *ctx, fl_ctx *other);

/* Zeroed memory for count * size bytes, aligned to 64; NULL with the error set when there is none (or the product
 * overflows). Never returns NULL for 0 bytes. Release with fli_free. */
void *fli_alloc(fl_ctx *ctx, size_t count, size_t size);
/* Not zeros, for memory that is written before it is read: where much of it is never used, it takes none. */
void *fli_alloc_unset(fl_ctx *ctx, size_t count, size_t size);
/* Grows *p (allocated by fli_alloc, or NULL) from `old` to `count` elements, keeping the contents, zeroing the rest. */
fl_status fli_grow(fl_ctx *ctx, void **p, size_t old, size_t count, size_t size);
void fli_free(void *p);
char *fli_strdup(fl_ctx *ctx, const char *s);
/* Formatted string on the heap; NULL with the error set when out of memory. */
char *fli_strf(fl_ctx *ctx, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* For torture tests: the k-th allocation from now fails (k = 1 is the next one; 0 turns it off). */
void fli_ctx_fail_alloc(fl_ctx *ctx, size_t k);

/* ==== versioned structs ===================================================================================== */

/* Structs that a caller fills, and that may grow from one version to the next: they begin with their own size. */

/* Copies the struct `given`, whose field `size` says that it has that many bytes, into one of `into_size` bytes. What
 * an older, shorter one lacks is zero. A newer, longer one must be zero where this library cannot understand it.
 * FL_ECONFIG with a sentence otherwise, and where the size was not set; `into` is then zero. `what` is the struct's
 * name. */
fl_status fli_take_versioned(fl_ctx *ctx, const char *what, const void *given, size_t size, void *into,
                             size_t into_size);

#endif
