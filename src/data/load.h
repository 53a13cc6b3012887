/* What the loaders share: reading bodies whose headers may lie, numbers in text, showing input in messages. */
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

/* fli_find_file, then open. A file of a format that no loader reads is FL_EFORMAT, with a way out
 * (fli_format_check). */
fl_status fli_load_open(fl_ctx *ctx, const char *dir, const char *name, fli_stream **out);
fl_status fli_load_open_npy(fl_ctx *ctx, const char *name, fli_stream **out);  /* the same for NPY files */
fl_status fli_load_open_text(fl_ctx *ctx, const char *name, fli_stream **out); /* the same, behind a byte order mark */

/* The product of `count` sizes from a header. A zero size, more samples (the first size) than can be indexed, or more
 * than 64 GiB of `element`-byte values is FL_EFORMAT. */
fl_status fli_load_volume(fl_ctx *ctx, const char *path, const uint64_t *size, size_t count, size_t element,
                          size_t *values);

/* Exactly `bytes` bytes into fresh memory, which grows with what really comes: a header that promises more than the
 * file has costs no more memory than twice the file. */
fl_status fli_load_body(fl_ctx *ctx, fli_stream *s, size_t bytes, const char *what, void **out);

/* The same for the features of a set that are stored as the file has them, values of `size` bytes; if `map`, they may
 * stay there. */
fl_status fli_load_values(fl_ctx *ctx, fli_stream *s, size_t bytes, size_t size, const char *what, int map,
                          fli_dataset *ds);

/* A test set must have the features of the training set. */
fl_status fli_load_check_test(fl_ctx *ctx, const char *path, const fli_dataset *train, const fli_dataset *test);
/* Notes where the samples are from, for messages. */
fl_status fli_load_origin(fl_ctx *ctx, const char *path, fli_dataset *ds);
/* The end of a loader: hands both parts out (b may be NULL) or, unless status is FL_OK, frees them. Returns status. */
fl_status fli_load_hand_out(fl_status status, fli_dataset *a, fli_dataset *b, fli_dataset **train, fli_dataset **test);

/* ---- features in one precision or the other ------------------------------------------------------------- */

/* Features are floats, or doubles where they are `wide`. */
static inline double fli_largest_real(int wide) { return wide ? DBL_MAX : (double)FLT_MAX; }
static inline void fli_store_real(void *p, int wide, size_t i, double v)
{
    if (wide)
        ((double *)p)[i] = v;
    else
        ((float *)p)[i] = (float)v;
}

/* ---- text ----------------------------------------------------------------------------------------------- */

/* The whole text as a decimal number of magnitude at most `largest`. NULL if it is one, else what is wrong
 * (FLI_NO_NUMBER, or something about its size), to be put behind the text in a message. */
#define FLI_NO_NUMBER "is not a number"
const char *fli_number_read(const char *text, double largest, double *out);

#endif
