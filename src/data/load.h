/* What loaders share: reading bodies without trusting their headers, numbers in text, quoting input in messages. */
#ifndef FLI_DATA_LOAD_H
#define FLI_DATA_LOAD_H

#include "base/memory.h"
#include "data/dataset.h"
#include "format/stream.h"

#include <float.h>

#define FLI_TASK_WORDS "auto|classification|regression"
enum { FLI_TASK_AUTO, FLI_TASK_CLASSIFICATION, FLI_TASK_REGRESSION };
#define FLI_TASK_HELP                                                                                                  \
    "; auto: labels, unless they look like values to predict (numbers with a fraction, or many different ones), "      \
    "which "                                                                                                           \
    "is refused"

/* ---- files ---------------------------------------------------------------------------------------------- */

/* Finds the file (fli_find_file) and opens it. A format that no loader reads is FL_EFORMAT with advice
 * (fli_format_check). */
fl_status fli_load_open(fl_ctx *ctx, const char *dir, const char *name, fli_stream **out);
fl_status fli_load_open_npy(fl_ctx *ctx, const char *name, fli_stream **out);  /* the same for NPY files */
fl_status fli_load_open_text(fl_ctx *ctx, const char *name, fli_stream **out); /* the same; skips a byte order mark */

/* *values = the product of `count` sizes from a header. FL_EFORMAT for a zero size, more samples (the first size) than
 * can be indexed, or more than 64 GiB of `element`-byte values. */
fl_status fli_load_volume(fl_ctx *ctx, const char *path, const uint64_t *size, size_t count, size_t element,
                          size_t *values);

/* Reads exactly `bytes` bytes into new memory. The memory grows with what was read, so that a header which promises
 * more than the file has costs at most twice the file. */
fl_status fli_load_body(fl_ctx *ctx, fli_stream *s, size_t bytes, const char *what, void **out);

/* Reads ds->x, values of `size` bytes that are stored as the file has them; `map`: they may stay in the file,
 * mapped. */
fl_status fli_load_values(fl_ctx *ctx, fli_stream *s, size_t bytes, size_t size, const char *what, int map,
                          fli_dataset *ds);

/* FL_EFORMAT unless the test set has the training set's features. */
fl_status fli_load_check_test(fl_ctx *ctx, const char *path, const fli_dataset *train, const fli_dataset *test);
/* Sets ds->origin, for messages. */
fl_status fli_load_origin(fl_ctx *ctx, const char *path, fli_dataset *ds);
/* Ends a loader: passes both sets to the caller (b may be NULL), or frees them unless status is FL_OK. Returns
 * status. */
fl_status fli_load_hand_out(fl_status status, fli_dataset *a, fli_dataset *b, fli_dataset **train, fli_dataset **test);

/* ---- features in one precision or the other ------------------------------------------------------------- */

/* Features are floats, or doubles if `wide`. */
static inline double fli_largest_real(int wide) { return wide ? DBL_MAX : (double)FLT_MAX; }
static inline void fli_store_real(void *p, int wide, size_t i, double v)
{
    if (wide)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

/* ---- text ----------------------------------------------------------------------------------------------- */

/* Reads the whole text as a decimal number of magnitude at most `largest`. Returns NULL on success, else what is wrong
 * (FLI_NO_NUMBER, or a complaint about its size), which a message puts behind the text. */
#define FLI_NO_NUMBER "is not a number"
const char *fli_number_read(const char *text, double largest, double *out);

#endif
