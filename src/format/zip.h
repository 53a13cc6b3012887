/* Reading members of a zip archive, also ZIP64 as NumPy writes it: stored or deflated, found through the central
 * directory, checked against size and checksum. Nothing is believed that the file does not have: offsets are checked,
 * and the directory takes memory in proportion to its bytes. */
#ifndef FLI_FORMAT_ZIP_H
#define FLI_FORMAT_ZIP_H

#include "base/ctx.h"
#include "base/text.h"

#include <stdint.h>

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

#endif
