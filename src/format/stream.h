/* Reading a file that may be compressed: plain, gzip, xz, or the only file in a zip archive, told apart by its first
 * bytes. Errors name the file and the offset in the uncompressed data, or in the archive where that is what is
 * wrong. Also what readers of files share: parts of a file as memory, formats that are recognised only to be refused,
 * and the fields of a line. */
#ifndef FLI_FORMAT_STREAM_H
#define FLI_FORMAT_STREAM_H

#include "base/ctx.h"
#include "base/memory.h"
#include "format/zip.h"

#include <stddef.h>
#include <stdint.h>

/* ==== files as memory ======================================================================================= */

/* A part of a file as memory that is only read. Its pages are those that the system has of the file anyway: processes
 * on one machine share them, and they count for nobody when memory is short.
 *
 * For a short while alone: who reads a mapped file that another process cuts short is killed by SIGBUS. */

typedef struct {
    void *base; /* NULL: nothing is mapped */
    size_t length;
} fli_mapping;

/* One that is closed, or never was open (zeroed), is fine. */
void fli_mapping_close(fli_mapping *m);

/* ==== foreign formats ======================================================================================= */

/* Files that people have and that no loader reads: told apart by how they begin, so that the message can name them. */

/* FL_EFORMAT with the format's name and a way out, if the first n bytes of `path` are those of a known format; `numpy`:
 * NPY is read here, and no such format. */
fl_status fli_format_check(fl_ctx *ctx, const char *path, const uint8_t *first, size_t n, int numpy);

/* ==== streams =============================================================================================== */

typedef struct fli_stream fli_stream;

fl_status fli_stream_open(fl_ctx *ctx, const char *path, fli_stream **out);
/* One array of a zip archive as numpy.savez writes it; a name that is not there is FL_EFORMAT, with those that are. */
fl_status fli_stream_open_array(fl_ctx *ctx, const char *path, const char *member, fli_stream **out);
void fli_stream_close(fli_stream *s);
/* For messages: an array of an archive has its name behind the file's. */
const char *fli_stream_path(const fli_stream *s);
uint64_t fli_stream_offset(const fli_stream *s); /* uncompressed bytes read so far */

/* The next bytes without reading them, at least one before the end; gone with the next call. */
fl_status fli_stream_peek(fli_stream *s, const uint8_t **first, size_t *n);
/* Skips the byte order mark that some programs put in front of UTF-8. */
fl_status fli_stream_skip_mark(fli_stream *s);
/* Up to n bytes; *got < n only at the end. A truncated or corrupt compressed file is FL_EFORMAT. */
fl_status fli_stream_read(fli_stream *s, void *buf, size_t n, size_t *got);
/* Exactly n bytes; a shorter file is FL_EFORMAT, with `what` in the message. */
fl_status fli_stream_need(fli_stream *s, void *buf, size_t n, const char *what);
/* Maps the next n bytes of a plain file instead of reading them, where they begin at a multiple of `alignment`, and
 * goes on behind them. NULL, and nothing has happened: read them. */
void *fli_stream_map(fli_stream *s, size_t n, size_t alignment, fli_mapping *m);
/* FL_EFORMAT unless the end is reached. */
fl_status fli_stream_end(fli_stream *s);
/* The next line without its end (LF or CRLF), terminated; *line NULL at the end. Lines are bounded (64 MiB). Valid
 * until the next call. A NUL byte in a line is FL_EFORMAT. */
fl_status fli_stream_line(fli_stream *s, char **line, size_t *length);
/* Everything that is left, at most `limit` bytes, into memory from fli_alloc (terminated by an extra NUL). */
fl_status fli_stream_all(fli_stream *s, size_t limit, char **data, size_t *n);

/* `dir`/`name`, or `dir`/`name`.gz, or .xz, or .zip, whichever exists; FL_EIO naming what was looked for, or what is in
 * the way (a folder, a link to nothing, no permission) otherwise. Result from fli_alloc. `dir` may be "", and does not
 * count when `name` starts with a slash. */
fl_status fli_find_file(fl_ctx *ctx, const char *dir, const char *name, char **path);

/* ==== fields of a line ====================================================================================== */

/* Cuts `line`, of a table, at the separator, in place; blanks around a field go, and a field may stand in double quotes
 * (doubled within), without line breaks in it. The separator ' ' is any number of blanks. `field`, an array of `char
 * *`, is emptied first; path and number are for messages. */
fl_status fli_fields_split(fl_ctx *ctx, char *line, char separator, const char *path, size_t number, fli_array *field);

#endif
