/* Writing files and folders so that a failure is noticed and nothing half-written passes for a result; locks, so that
 * one process at a time writes to a place; the names in a folder. Opening a file is in base/os.h. */
#ifndef FLI_BASE_FILE_H
#define FLI_BASE_FILE_H

#include "base/ctx.h"
#include "base/os.h"

#include <fcntl.h>
#include <stdio.h>

/* ==== files and folders ===================================================================================== */

/* A file being written. Errors are sticky and surface at close, which also flushes to the disk. */
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

/* A plain file for reading, and its length; NULL with the error set if it cannot be read, or is something else. */
FILE *fli_plain_open(fl_ctx *ctx, const char *path, uint64_t *bytes);
/* A whole plain file of at most `most` bytes into memory from fli_alloc, terminated. FL_EIO if it cannot be read, or is
 * something else: a pipe must not hold us up. */
fl_status fli_file_read(fl_ctx *ctx, const char *path, size_t most, char **text, size_t *n);

/* Puts a whole file in the place of what had that name, or leaves that as it was: written and flushed under a name of
 * its own first. */
fl_status fli_file_replace(fl_ctx *ctx, const char *path, const void *p, size_t n);
/* The same, and nobody but its owner may ever read it: mode 600 from the moment it exists. */
fl_status fli_file_private(fl_ctx *ctx, const char *path, const void *p, size_t n);
/* The same of two parts that lie apart. */
fl_status fli_file_private_parts(fl_ctx *ctx, const char *path, const void *head, size_t head_bytes, const void *p,
                                 size_t n);

/* Flushes a folder: only then does a file that was made, renamed or removed there survive a crash of the machine under
 * that name. FL_EIO names the folder. Where the file system has no such thing, or the folder may not be read, there is
 * nothing more to be done, which is FL_OK. */
fl_status fli_sync_folder(fl_ctx *ctx, const char *folder);
/* The folder that `path` is in. */
fl_status fli_sync_above(fl_ctx *ctx, const char *path);

/* Creates a folder and its parents, which then survive a crash of the machine. An existing folder is fine. */
fl_status fli_make_folders(fl_ctx *ctx, const char *path);
/* The same; the last one, if it is new, is its owner's alone: mode 700. */
fl_status fli_make_private_folder(fl_ctx *ctx, const char *path);
/* Removes a folder with the plain files and folders in it. A missing one is fine. */
fl_status fli_remove_folder(fl_ctx *ctx, const char *path);
/* The length of a path without slashes at its end. */
size_t fli_path_length(const char *path);
/* 0: nothing there, 1: a folder, 2: something else. */
int fli_path_kind(const char *path);

/* ==== locks ================================================================================================= */

/* Who may write to a place. The lock is a file beside it, called as the place with ".fedloom-lock" after it, that holds
 * the number of the process at work. The system lets go of it when that process ends, however it ends; a file that a
 * crash has left behind is nobody's. */

typedef struct fli_lock fli_lock;

/* FL_EBUSY, with the number of the other process, if somebody has it: also another run of this process. Makes the
 * folders above. Where a file system knows no locks there is none, and that is said. */
fl_status fli_lock_take(fl_ctx *ctx, const char *place, fli_lock **out);
/* Removes the file. NULL is fine. */
void fli_lock_leave(fli_lock *lock);

/* ==== names in a folder ===================================================================================== */

/* What is in a folder, in an order that does not depend on the file system. */

typedef struct {
    char **name; /* without hidden ones, in ascending order of their bytes */
    size_t n;
} fli_listing;

/* *out needs a fini in any case. */
fl_status fli_listing_read(fl_ctx *ctx, const char *path, fli_listing *out);
void fli_listing_fini(fli_listing *l);

#endif
