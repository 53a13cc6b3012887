/* The context: last error, log, allocation. Every function that can fail gets one. Also the reading of structs that a
 * caller fills. */
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
/* Clears the last error. Public entry points call it first. */
void fli_clear(fl_ctx *ctx);

void fli_log(fl_ctx *ctx, fl_log_level level, const char *fmt, ...) __attribute__((format(printf, 3, 4)));
/* Stops or resumes logging: for work whose messages were logged before. */
void fli_log_quiet(fl_ctx *ctx, int quiet);

/* Marks the beginning and end of work that fl_ctx_stop may end: reading data. Saving a result also reads files, but
 * must not be stopped. Does not nest. */
void fli_ctx_stoppable(fl_ctx *ctx, int on);
/* Whether fl_ctx_stop was called within such work. */
int fli_ctx_stopped(const fl_ctx *ctx);
/* From now on fl_ctx_stop of `other` also stops `ctx`. */
void fli_ctx_stop_with(fl_ctx *ctx, const fl_ctx *other);

/* Whether tables are to be JSON (fl_ctx_format). */
int fli_wants_json(const fl_ctx *ctx);

/* From now on failures, fli_clear and log of `ctx` go to `other`: for an object that has a context of its own and is
 * passed to the owner of another one. Not while another thread uses `ctx`. */
void fli_ctx_follow(fl_ctx *ctx, fl_ctx *other);

/* Zeroed memory for count * size bytes, aligned to 64; NULL with the error set if there is none (or the product
 * overflows). Never returns NULL for 0 bytes. Release with fli_free. */
void *fli_alloc(fl_ctx *ctx, size_t count, size_t size);
/* Memory that is not zeroed, to be written before it is read: pages that are never used take no memory. */
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

/* Structs that a caller fills and that later versions may extend: they begin with their own size. */

/* Copies the struct `given`, whose field `size` gives its number of bytes, into one of `into_size` bytes. Members that
 * an older, shorter struct lacks become zero. In a newer, longer one the members that this library does not know must
 * be zero. FL_ECONFIG with a sentence otherwise, and if the size was not set; `into` is then zero. `what` is the
 * struct's name. */
fl_status fli_take_versioned(fl_ctx *ctx, const char *what, const void *given, size_t size, void *into,
                             size_t into_size);

#endif
