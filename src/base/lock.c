#include "base/lock.h"

#include "base/file.h"
#include "base/number.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

struct fli_lock {
    char *path;
    int fd;
};

/* Whether the file that was opened still has its name: its last owner may have removed it in between. */
static int is_current(const fli_lock *l)
{
    struct stat a, b;
    return !fstat(l->fd, &a) && !lstat(l->path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void write_number(const fli_lock *l)
{
    char text[32];
    int n = fli_snprintf(text, sizeof text, "%ld\n", (long)getpid());
    /* the number is only there to be shown: a full disk does not stop a run here */
    if (!ftruncate(l->fd, 0)) (void)!pwrite(l->fd, text, (size_t)n, 0);
}

/* The process at work; 0 if it has not written its number yet, -1 if the file is not a lock. */
static long read_number(const fli_lock *l)
{
    char text[32] = "", *end = text;
    ssize_t n = pread(l->fd, text, sizeof text - 1, 0);
    long number = n > 0 ? strtol(text, &end, 10) : 0;
    return n <= 0 || (number > 0 && !strcmp(end, "\n")) ? number : -1;
}

/* It writes its number as soon as it has the lock: a moment later it is there. */
static long wait_for_number(const fli_lock *l)
{
    enum { TRIES = 50 };
    const struct timespec moment = {0, 2000000};
    long number = read_number(l);
    for (int i = 0; i < TRIES && number <= 0; i++) {
        nanosleep(&moment, NULL);
        number = read_number(l);
    }
    return number;
}

static fl_status busy(fl_ctx *ctx, const char *place, const fli_lock *l)
{
    long number = wait_for_number(l);
    if (number <= 0)
        return fli_fail(ctx, FL_EBUSY, "%s: another process is writing there; choose another output, or wait for it",
                        place);
    return fli_fail(ctx, FL_EBUSY, "%s: process %ld is writing there; choose another output, or wait for it", place,
                    number);
}

/* One attempt; *again if the file was removed while we waited for it. */
static fl_status attempt(fl_ctx *ctx, const char *place, fli_lock *l, int *again)
{
    *again = 0;
    l->fd = fli_fd_open(l->path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    if (l->fd < 0) return fli_fail(ctx, FL_EIO, "%s: cannot be created: %s", l->path, strerror(errno));
    if (flock(l->fd, LOCK_EX | LOCK_NB)) {
        if (errno == EWOULDBLOCK) return busy(ctx, place, l);
        fli_log(ctx, FL_LOG_WARNING, "%s: this file system has no locks (%s): make sure that no other run writes there",
                place, strerror(errno));
    } else if (!is_current(l)) {
        close(l->fd);
        *again = 1;
        return FL_OK;
    }
    if (read_number(l) < 0)
        return fli_fail(ctx, FL_EIO, "%s: is in the way: it is not a lock of fedloom, so it is left alone", l->path);
    write_number(l);
    return FL_OK;
}

/* The place itself or, if it is not there yet, its folder, which is made: without links and dots, so that however it is
 * called it is the same lock. To be freed by free. */
static fl_status resolve(fl_ctx *ctx, const char *place, char **real, const char **name)
{
    *name = "";
    if ((*real = realpath(place, NULL))) return FL_OK;
    int n = (int)fli_path_length(place);
    char *whole = fli_strf(ctx, "%.*s", n, place), *slash = whole ? strrchr(whole, '/') : NULL;
    if (!whole) return FL_ENOMEM;
    if (slash) *slash = 0;
    const char *parent = !slash ? "." : slash == whole ? "/" : whole;
    fl_status s = fli_make_folders(ctx, parent);
    if (!s && !(*real = realpath(parent, NULL)))
        s = fli_fail(ctx, FL_EIO, "%s: cannot be found: %s", parent, strerror(errno));
    *name = slash ? place + (slash + 1 - whole) : place;
    fli_free(whole);
    return s;
}

static fl_status name_lock(fl_ctx *ctx, const char *place, fli_lock *l)
{
    char *real = NULL;
    const char *name;
    fl_status s = resolve(ctx, place, &real, &name);
    int n = s ? 0 : (int)fli_path_length(name);
    if (!s && !(l->path = fli_strf(ctx, "%s%s%.*s.fedloom-lock", real, n ? "/" : "", n, name))) s = FL_ENOMEM;
    free(real);
    return s;
}

fl_status fli_lock_take(fl_ctx *ctx, const char *place, fli_lock **out)
{
    int again = 1;
    fli_lock *l = fli_alloc(ctx, 1, sizeof *l);
    if (!l) return FL_ENOMEM;
    l->fd = -1;
    fl_status s = name_lock(ctx, place, l);
    while (!s && again) s = attempt(ctx, place, l, &again);
    if (!s) {
        *out = l;
        return FL_OK;
    }
    if (l->fd >= 0) close(l->fd);
    fli_free(l->path);
    fli_free(l);
    return s;
}

void fli_lock_leave(fli_lock *l)
{
    if (!l) return;
    if (is_current(l)) unlink(l->path); /* before the lock goes, so that nobody else's is removed */
    close(l->fd);
    fli_free(l->path);
    fli_free(l);
}
