/* Zip archives: reading their members, and writing arrays as NumPy's .npz. Other compressed files: format/stream.h. */
#ifndef FLI_FORMAT_ZIP_H
#define FLI_FORMAT_ZIP_H

#include "base/ctx.h"
#include "base/file.h"
#include "base/text.h"

#include <stdint.h>

/* ==== zlib ================================================================================================== */

struct z_stream_s; /* zlib.h has macros that are not for everyone */

/* With memory from fli_alloc. Prepares to unpack what next_in and avail_in of `z` say; window_bits as for inflateInit2.
 * `path` is for the message. To be ended by inflateEnd, unless it fails. */
fl_status fli_inflate_start(fl_ctx *ctx, const char *path, int window_bits, struct z_stream_s *z);

/* ==== reading =============================================================================================== */

/* Members of an archive, also of ZIP64 as NumPy writes it: stored or deflated, found through the central directory,
 * checked against size and checksum. Nothing is believed that the file does not have: offsets are checked, and the
 * directory takes memory in proportion to its bytes. */
typedef struct fli_zip fli_zip;

/* Reads the directory. The descriptor, of a file that can be read at any place, is borrowed. */
fl_status fli_zip_open(fl_ctx *ctx, const char *path, int fd, fli_zip **out);
void fli_zip_close(fli_zip *z);

/* The files in it, in the order of the directory; folders, and what macOS adds, do not count. */
size_t fli_zip_count(const fli_zip *z);
const char *fli_zip_name(const fli_zip *z, size_t i);
/* "a, b, c, ..." of at most ten names; an ending such as ".npy" is left out. */
void fli_zip_print_names(const fli_zip *z, const char *ending, fli_text *t);

/* Turns to a file; reading begins with its first byte. */
fl_status fli_zip_start(fli_zip *z, size_t i);
/* The next bytes of that file, at most n and at least one before its end. */
fl_status fli_zip_read(fli_zip *z, void *buf, size_t n, size_t *got);

/* ==== writing NumPy archives ================================================================================ */

/* As numpy.savez writes them: arrays in a zip file, not compressed. */

/* An array in the machine's own byte order, row by row. */
typedef struct {
    const char *name; /* without .npy */
    char kind;        /* 'u' unsigned, 'i' signed, 'f' float */
    size_t width;     /* bytes of a value */
    size_t dims, size[4];
    const void *data;
} fli_npz_array;

/* FL_ECONFIG for more than 4 GiB, which would need another kind of zip file. */
fl_status fli_npz_write(fl_ctx *ctx, const char *path, const fli_npz_array *array, size_t count);

#endif
