/* Files that people have and that no loader reads: told apart by how they begin, so that the message can name them. */
#ifndef FLI_FORMAT_FORMAT_H
#define FLI_FORMAT_FORMAT_H

#include "base/ctx.h"
#include "format/zip.h"

#include <stdint.h>

/* FL_EFORMAT with the format's name and a way out, if the first n bytes of `path` are those of a known format; `numpy`:
 * NPY is read here, and no such format. */
fl_status fli_format_check(fl_ctx *ctx, const char *path, const uint8_t *first, size_t n, int numpy);
/* Why an archive with several files cannot be read as one: what it is, if that is known, else what it holds. */
fl_status fli_format_refuse_zip(fl_ctx *ctx, const char *path, const fli_zip *zip);

#endif
