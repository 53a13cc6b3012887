/* What can fail on a disk. The linker brings the library's calls here (--wrap, CMakeLists.txt), and one of them fails:
 * so the library has nothing in it for this. Calls count between disk_begin and disk_end, the test's own, too. */
#ifndef TESTS_DISK_H
#define TESTS_DISK_H

#include "check.h"

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <sys/wait.h>

typedef enum {
    DISK_FAILS, /* one call does nothing, and says that there was an error */
    DISK_SHORT, /* one call that writes does half, and the others fail as above */
    DISK_FULL,  /* from one call on, all that write or flush fail; after half of it, the first */
    DISK_GONE,  /* from one call on, all fail */
    DISK_ENDS,  /* the process ends in the place of one call */
    DISK_KINDS
} disk_kind;

static const char *const disk_names[] = {"fails", "is short", "is full", "is gone", "ends"};

static struct {
    atomic_int on;
    atomic_size_t calls;
    size_t at; /* the call with this number fails; 0: none */
    disk_kind kind;
    int error;       /* its errno; 0: what such a call has most often */
    int no_exchange; /* two names cannot change places, as on many file systems */
    /* What would be lost if the machine crashed now: bytes that the system has (1) or a buffer (2), and names
     * in this many folders. */
    atomic_int unsynced;
    ino_t folders[16];
    size_t unsynced_folders;
    atomic_size_t early; /* files that were renamed with such bytes */
} disk;

static void disk_begin(disk_kind kind, size_t at)
{
    disk.kind = kind;
    disk.at = at;
    atomic_store(&disk.calls, 0);
    atomic_store(&disk.early, 0);
    atomic_store(&disk.unsynced, 0);
    disk.unsynced_folders = 0;
    atomic_store(&disk.on, 1);
}

/* Whether the call that was to fail has come. */
static int disk_end(void)
{
    atomic_store(&disk.on, 0);
    return atomic_load(&disk.calls) >= disk.at;
}

/* A name in the folder that the path is in has changed, or all of that folder's are flushed. */
static void disk_name(ino_t folder, int flushed)
{
    size_t i = 0;
    if (!atomic_load(&disk.on)) return;
    while (i < disk.unsynced_folders && disk.folders[i] != folder) i++;
    if (flushed && i < disk.unsynced_folders) disk.folders[i] = disk.folders[--disk.unsynced_folders];
    if (!flushed && i == disk.unsynced_folders && i < sizeof disk.folders / sizeof *disk.folders)
        disk.folders[disk.unsynced_folders++] = folder;
}

static void disk_named(const char *path)
{
    char above[512];
    struct stat st;
    const char *slash = strrchr(path, '/');
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    if (!stat(*above ? above : "/", &st)) disk_name(st.st_ino, 0);
}

/* 0: the call goes on; 1: it fails; 2: it writes half. */
static int disk_verdict(int writes)
{
    if (!atomic_load(&disk.on)) return 0;
    size_t n = atomic_fetch_add(&disk.calls, 1) + 1;
    int later = disk.kind == DISK_GONE || (disk.kind == DISK_FULL && writes);
    if (!disk.at || n < disk.at || (n > disk.at && !later)) return 0;
    if (disk.kind == DISK_ENDS) _exit(0);
    errno = disk.error ? disk.error : writes ? ENOSPC : EIO;
    return writes && n == disk.at && (disk.kind == DISK_SHORT || disk.kind == DISK_FULL) ? 2 : 1;
}

/* ---- the calls ------------------------------------------------------------------------------------------------ */

#define DISK_CALL(type, name, ...)                                                                                     \
    type __real_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__);                                                                                   \
    type __wrap_##name(__VA_ARGS__)

DISK_CALL(size_t, fwrite, const void *p, size_t size, size_t n, FILE *f)
{
    int bad = disk_verdict(1), error = errno;
    atomic_store(&disk.unsynced, 2);
    if (!bad) return __real_fwrite(p, size, n, f);
    n = bad == 2 ? __real_fwrite(p, 1, size * n / 2, f) / size : 0;
    errno = error;
    return n;
}

DISK_CALL(ssize_t, pwrite, int fd, const void *p, size_t n, off_t at)
{
    int bad = disk_verdict(1), error = errno;
    if (at) atomic_store(&disk.unsynced, 1); /* the number in a lock, at its beginning, need not last */
    errno = error;
    return bad ? bad == 2 ? __real_pwrite(fd, p, n / 2, at) : -1 : __real_pwrite(fd, p, n, at);
}

static void disk_leave_buffer(void)
{
    if (atomic_load(&disk.unsynced) == 2) atomic_store(&disk.unsynced, 1);
}

DISK_CALL(int, fflush, FILE *f)
{
    if (disk_verdict(1)) return EOF;
    disk_leave_buffer();
    return __real_fflush(f);
}

DISK_CALL(int, fclose, FILE *f)
{
    int bad = disk_verdict(0), error = errno, closed = __real_fclose(f);
    disk_leave_buffer();
    if (!bad) return closed;
    errno = error;
    return EOF;
}

/* No test crashes the machine, so that nothing has to be flushed, which would take long. */
static int disk_sync(int fd)
{
    struct stat st;
    if (disk_verdict(1)) return -1;
    if (fstat(fd, &st)) return -1;
    if (S_ISDIR(st.st_mode))
        disk_name(st.st_ino, 1);
    else if (atomic_load(&disk.unsynced) == 1)
        atomic_store(&disk.unsynced, 0);
    return 0;
}

DISK_CALL(int, fsync, int fd) { return disk_sync(fd); }
DISK_CALL(int, fdatasync, int fd) { return disk_sync(fd); }
DISK_CALL(int, ftruncate, int fd, off_t n) { return disk_verdict(1) ? -1 : __real_ftruncate(fd, n); }

static void disk_renamed(const char *to)
{
    if (atomic_load(&disk.unsynced)) atomic_fetch_add(&disk.early, 1);
    disk_named(to);
}

DISK_CALL(int, rename, const char *from, const char *to)
{
    if (disk_verdict(0)) return -1;
    disk_renamed(to);
    return __real_rename(from, to);
}

DISK_CALL(int, renameat2, int a, const char *from, int b, const char *to, unsigned flags)
{
    if (disk_verdict(0)) return -1;
    if (disk.no_exchange) {
        errno = EINVAL;
        return -1;
    }
    disk_renamed(to);
    return __real_renameat2(a, from, b, to, flags);
}

/* To write, or to flush a folder. */
int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list ap;
    va_start(ap, flags);
    mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;
    va_end(ap);
    int counts = (flags & O_ACCMODE) != O_RDONLY || flags & O_DIRECTORY;
    return counts && disk_verdict(0) ? -1 : __real_open(path, flags, mode);
}

/* Of one that is there already nothing is written. */
DISK_CALL(int, mkdir, const char *path, mode_t mode)
{
    if (!access(path, F_OK)) return __real_mkdir(path, mode);
    if (disk_verdict(0)) return -1;
    disk_named(path);
    return __real_mkdir(path, mode);
}

#endif
