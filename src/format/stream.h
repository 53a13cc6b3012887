/* Reads files that may be compressed: plain, gzip, xz, or the only file in a zip archive, recognised by the first
 * bytes. Errors name the file and the offset in the uncompressed data, or in the archive if that is damaged. Also for
 * readers of files: parts of a file mapped into memory, formats that are recognised in order to be refused, and the
 * fields of a line. */
#ifndef FLI_FORMAT_STREAM_H
#define FLI_FORMAT_STREAM_H

#include "base/ctx.h"
#include "base/memory.h"
#include "format/zip.h"

#include <stddef.h>
#include <stdint.h>

/* ==== files as memory ======================================================================================= */

/* A part of a file, mapped read-only. Its pages are the system's cache of the file: processes on one machine share
 * them, and the system can drop them when memory is short.
 *
 * Use it only for a short time: if another process truncates the file, reading it raises SIGBUS. */

typedef struct {
    void *base; /* NULL: not mapped */
    size_t length;
} fli_mapping;

/* Does nothing to a mapping that is closed, or was never opened (zeroed). */
void fli_mapping_close(fli_mapping *m);

/* ==== foreign formats ======================================================================================= */

/* Common file formats that no loader reads, recognised by their first bytes, so that the message can name them. */

/* FL_EFORMAT with the format's name and advice if the first n bytes of `path` are those of a known format. `numpy`: the
 * caller reads NPY, which is then accepted. */
fl_status fli_format_check(fl_ctx *ctx, const char *path, const uint8_t *first, size_t n, int numpy);

/* ==== streams =============================================================================================== */

typedef struct fli_stream fli_stream;

fl_status fli_stream_open(fl_ctx *ctx, const char *path, fli_stream **out);
/* Opens one array of a zip archive as numpy.savez writes it. An unknown name is FL_EFORMAT. */
fl_status fli_stream_open_array(fl_ctx *ctx, const char *path, const char *member, fli_stream **out);
void fli_stream_close(fli_stream *s);
/* The file's name for messages, with the array's name for an archive. */
const char *fli_stream_path(const fli_stream *s);
uint64_t fli_stream_offset(const fli_stream *s); /* uncompressed bytes read so far */

/* The next bytes without consuming them, at least one before the end; valid until the next call. */
fl_status fli_stream_peek(fli_stream *s, const uint8_t **first, size_t *n);
/* Skips the byte order mark that some programs write before UTF-8. */
fl_status fli_stream_skip_mark(fli_stream *s);
/* Up to n bytes; *got < n only at the end. A truncated or corrupt compressed file is FL_EFORMAT. */
fl_status fli_stream_read(fli_stream *s, void *buf, size_t n, size_t *got);
/* Reads exactly n bytes; FL_EFORMAT if the file is shorter, with `what` in the message. */
fl_status fli_stream_need(fli_stream *s, void *buf, size_t n, const char *what);
/* Maps the next n bytes of a regular file, instead of reading them, if they begin at a multiple of `alignment`, and
 * skips them. NULL: nothing has changed, and the caller must read them. */
void *fli_stream_map(fli_stream *s, size_t n, size_t alignment, fli_mapping *m);
/* FL_EFORMAT unless the end is reached. */
fl_status fli_stream_end(fli_stream *s);
/* The next line without its end (LF or CRLF), NUL-terminated; *line is NULL at the end. At most 64 MiB. Valid until the
 * next call. A NUL byte in a line is FL_EFORMAT. */
fl_status fli_stream_line(fli_stream *s, char **line, size_t *length);
/* Reads the rest, at most `limit` bytes, into memory from fli_alloc, NUL-terminated. */
fl_status fli_stream_all(fli_stream *s, size_t limit, char **data, size_t *n);

/* `dir`/`name`, or `dir`/`name`.gz, or .xz, or .zip, whichever exists. Otherwise FL_EIO names the files that were
 * tried, or the obstacle (a folder, a broken link, no permission). Result from fli_alloc. `dir` may be "", and is
 * ignored if `name` starts with a slash. */
fl_status fli_find_file(fl_ctx *ctx, const char *dir, const char *name, char **path);

/* ==== fields of a line ====================================================================================== */

/* Splits `line`, of a table, at the separator, in place. Blanks around a field are removed; a field may be enclosed in
 * double quotes (doubled within), without line breaks. The separator ' ' is any number of blanks. `field`, an array of
 * `char *`, is emptied first; path and number are for messages. */
fl_status fli_fields_split(fl_ctx *ctx, char *line, char separator, const char *path, size_t number, fli_array *field);

#endif
