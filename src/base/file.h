/* Writing files and folders so that failures are noticed and incomplete files never appear under their final name;
 * locks, so that one process at a time writes to a place; the names in a folder. Opening a file is in base/os.h. */
#ifndef FLI_BASE_FILE_H
#define FLI_BASE_FILE_H

#include "base/ctx.h"
#include "base/os.h"

#include <fcntl.h>
#include <stdio.h>

/* ==== files and folders ===================================================================================== */

/* A file being written. Errors are sticky; close reports them, after flushing to disk. */
typedef struct {
    fl_ctx *ctx;
    char *path;
    FILE *f;
    int error; /* errno of the first failure */
} fli_writer;

fl_status fli_writer_open(fl_ctx *ctx, const char *path, fli_writer *out);
void fli_writer_text(fli_writer *out, const char *s);
void fli_writer_bytes(fli_writer *out, const void *p, size_t n);
void fli_writer_printf(fli_writer *out, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* FL_EIO with the file's name and the reason if anything failed since open; the file is then removed. */
fl_status fli_writer_close(fli_writer *out);

/* Opens a regular file for reading, and gives its length; NULL with the error set on failure. */
FILE *fli_plain_open(fl_ctx *ctx, const char *path, uint64_t *bytes);
/* Reads a whole regular file of at most `most` bytes into memory from fli_alloc, NUL-terminated. FL_EIO if it cannot be
 * read or is something else: reading a pipe could block. */
fl_status fli_file_read(fl_ctx *ctx, const char *path, size_t most, char **text, size_t *n);

/* Replaces a file, or leaves it unchanged after a failure: writes and flushes the new one as a temporary file first. */
fl_status fli_file_replace(fl_ctx *ctx, const char *path, const void *p, size_t n);
/* The same with mode 600 from the moment the file exists: only its owner can ever read it. */
fl_status fli_file_private(fl_ctx *ctx, const char *path, const void *p, size_t n);
/* The same for contents in two parts. */
fl_status fli_file_private_parts(fl_ctx *ctx, const char *path, const void *head, size_t head_bytes, const void *p,
                                 size_t n);

/* Flushes a folder: only then does a file that was made, renamed or removed in it survive a crash of the machine under
 * that name. FL_EIO names the folder. FL_OK also if the file system cannot flush folders, or the folder may not be
 * read. */
fl_status fli_sync_folder(fl_ctx *ctx, const char *folder);
/* Flushes the folder that contains `path`. */
fl_status fli_sync_above(fl_ctx *ctx, const char *path);

/* Creates a folder and its parents, and flushes them. An existing folder is fine. */
fl_status fli_make_folders(fl_ctx *ctx, const char *path);
/* The same; the last folder, if it is new, has mode 700. */
fl_status fli_make_private_folder(fl_ctx *ctx, const char *path);
/* Removes a folder with the regular files and folders in it. A missing one is fine. */
fl_status fli_remove_folder(fl_ctx *ctx, const char *path);
/* The length of a path without trailing slashes. */
size_t fli_path_length(const char *path);
/* 0: does not exist, 1: a folder, 2: something else. */
int fli_path_kind(const char *path);

/* ==== locks ================================================================================================= */

/* The right to write to a place. The lock is a file beside it, with the name of the place and ".fedloom-lock" appended;
 * it contains the number of the process that holds it. The system releases the lock when that process ends in any way;
 * a file left by a crash does not lock. */

typedef struct fli_lock fli_lock;

/* FL_EBUSY, with the number of the other process, if another process or run has it. Makes the folders above. On a file
 * system without locks it takes none, and logs that. */
fl_status fli_lock_take(fl_ctx *ctx, const char *place, fli_lock **out);
/* Releases the lock and removes the file. NULL is fine. */
void fli_lock_leave(fli_lock *lock);

/* ==== names in a folder ===================================================================================== */

/* The contents of a folder, in an order that does not depend on the file system. */

typedef struct {
    char **name; /* without hidden ones, in ascending order of their bytes */
    size_t n;
} fli_listing;

/* Call fini in any case. */
fl_status fli_listing_read(fl_ctx *ctx, const char *path, fli_listing *out);
void fli_listing_fini(fli_listing *l);

#endif
