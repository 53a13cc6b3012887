/* Zip archives: reading their members, and writing arrays as NumPy's .npz. Other compressed files: format/stream.h. */
#ifndef FLI_FORMAT_ZIP_H
#define FLI_FORMAT_ZIP_H

#include "base/ctx.h"
#include "base/file.h"
#include "base/text.h"

#include <stdint.h>

/* ==== zlib ================================================================================================== */

struct z_stream_s; /* not included: zlib.h defines many macros */

/* Prepares to unpack next_in and avail_in of `z`, with memory from fli_alloc; window_bits as for inflateInit2. `path`
 * is for the message. After success call inflateEnd. */
fl_status fli_inflate_start(fl_ctx *ctx, const char *path, int window_bits, struct z_stream_s *z);

/* ==== reading =============================================================================================== */

/* Members of an archive, also of ZIP64 as NumPy writes it: stored or deflated, found through the central directory,
 * checked against size and checksum. Headers are not trusted: offsets are checked, and the memory for the directory is
 * in proportion to its bytes. */
typedef struct fli_zip fli_zip;

/* Reads the directory. The descriptor is borrowed; its file must allow reads at any offset. */
fl_status fli_zip_open(fl_ctx *ctx, const char *path, int fd, fli_zip **out);
void fli_zip_close(fli_zip *z);

/* The number of files, in the order of the directory, without folders and macOS's additions. */
size_t fli_zip_count(const fli_zip *z);
const char *fli_zip_name(const fli_zip *z, size_t i);
/* Prints "a, b, c, ..." with at most ten names, without an ending such as ".npy". */
void fli_zip_print_names(const fli_zip *z, const char *ending, fli_text *t);

/* Selects a file and starts at its first byte. */
fl_status fli_zip_start(fli_zip *z, size_t i);
/* Reads the next bytes of that file, at most n and at least one before its end. */
fl_status fli_zip_read(fli_zip *z, void *buf, size_t n, size_t *got);

/* ==== writing NumPy archives ================================================================================ */

/* Arrays in an uncompressed zip file, as numpy.savez writes them. */

/* An array in the machine's byte order, row by row. */
typedef struct {
    const char *name; /* without .npy */
    char kind;        /* 'u' unsigned, 'i' signed, 'f' float */
    size_t width;     /* bytes of a value */
    size_t dims, size[4];
    const void *data;
} fli_npz_array;

/* FL_ECONFIG for more than 4 GiB, which would need ZIP64. */
fl_status fli_npz_write(fl_ctx *ctx, const char *path, const fli_npz_array *array, size_t count);

#endif
