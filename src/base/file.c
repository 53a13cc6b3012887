#include "base/file.h"

#include "base/memory.h"
#include "base/number.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

/* ==== files and folders ===================================================================================== */

static fl_status out_open(fl_ctx *ctx, const char *path, int flags, mode_t mode, fli_writer *out)
{
    memset(out, 0, sizeof *out);
    out->ctx = ctx;
    out->path = fli_strdup(ctx, path);
    if (!out->path) return FL_ENOMEM;
    out->f = fli_file_open_mode(path, flags, mode);
    if (out->f) return FL_OK;
    fl_status s = fli_fail(ctx, FL_EIO, "%s: cannot be written: %s", path, strerror(errno));
    fli_free(out->path);
    return s;
}

fl_status fli_writer_open(fl_ctx *ctx, const char *path, fli_writer *out)
{
    return out_open(ctx, path, O_WRONLY | O_CREAT | O_TRUNC, 0666, out);
}

void fli_writer_bytes(fli_writer *out, const void *p, size_t n)
{
    errno = 0;
    if (!out->error && n && fwrite(p, 1, n, out->f) != n) out->error = errno ? errno : EIO;
}

void fli_writer_text(fli_writer *out, const char *s) { fli_writer_bytes(out, s, strlen(s)); }

void fli_writer_printf(fli_writer *out, const char *fmt, ...)
{
    va_list ap;
    if (out->error) return;
    va_start(ap, fmt);
    locale_t before = fli_locale_enter();
    errno = 0;
    if (vfprintf(out->f, fmt, ap) < 0) out->error = errno ? errno : EIO;
    fli_locale_leave(before);
    va_end(ap);
}

fl_status fli_writer_close(fli_writer *out)
{
    fl_status s = FL_OK;
    struct stat st;
    int plain = !fstat(fileno(out->f), &st) && S_ISREG(st.st_mode); /* a device such as /dev/full must not be removed */
    errno = 0;
    if (!out->error && (fflush(out->f) || (fsync(fileno(out->f)) && errno != EINVAL && errno != EROFS)))
        out->error = errno ? errno : EIO;
    if (fclose(out->f) && !out->error) out->error = errno ? errno : EIO;
    if (out->error) {
        if (plain) unlink(out->path);
        s = fli_fail(out->ctx, FL_EIO, "%s: cannot be written: %s", out->path, strerror(out->error));
    }
    fli_free(out->path);
    return s;
}

FILE *fli_plain_open(fl_ctx *ctx, const char *path, uint64_t *bytes)
{
    struct stat st;
    errno = 0;
    FILE *f = fli_file_open(path, O_RDONLY | O_NONBLOCK);
    if (f && !fstat(fileno(f), &st) && S_ISREG(st.st_mode)) {
        *bytes = (uint64_t)st.st_size;
        return f;
    }
    fli_fail(ctx, FL_EIO, "%s: cannot be read: %s", path, f ? "it is not a plain file" : strerror(errno));
    if (f) fclose(f);
    return NULL;
}

fl_status fli_file_read(fl_ctx *ctx, const char *path, size_t most, char **text, size_t *n)
{
    uint64_t bytes;
    fl_status s = FL_OK;
    *text = NULL;
    FILE *f = fli_plain_open(ctx, path, &bytes);
    if (!f) return FL_EIO;
    if (bytes > most)
        s = fli_fail(ctx, FL_EFORMAT, "%s: has %llu bytes, more than the %zu allowed", path, (unsigned long long)bytes,
                     most);
    else if (!(*text = fli_alloc(ctx, (size_t)bytes + 1, 1)))
        s = FL_ENOMEM;
    else {
        *n = fread(*text, 1, (size_t)bytes, f);
        if (ferror(f)) s = fli_fail(ctx, FL_EIO, "%s: cannot be read: %s", path, strerror(errno ? errno : EIO));
    }
    fclose(f);
    if (s) {
        fli_free(*text);
        *text = NULL;
    }
    return s;
}

static fl_status replace(fl_ctx *ctx, const char *path, mode_t mode, const void *head, size_t head_bytes, const void *p,
                         size_t n)
{
    fli_writer out;
    char *temporary = fli_strf(ctx, "%s.tmp", path);
    if (!temporary) return FL_ENOMEM;
    unlink(temporary); /* left by a killed run; a link of that name must not be followed, it may lead anywhere */
    fl_status s = out_open(ctx, temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode, &out);
    if (!s) {
        if (head_bytes) fli_writer_bytes(&out, head, head_bytes);
        fli_writer_bytes(&out, p, n);
        s = fli_writer_close(&out);
    }
    if (!s && rename(temporary, path)) {
        s = fli_fail(ctx, FL_EIO, "%s: cannot be put in place: %s", path, strerror(errno));
        unlink(temporary);
    }
    fli_free(temporary);
    return s;
}

fl_status fli_file_replace(fl_ctx *ctx, const char *path, const void *p, size_t n)
{
    return replace(ctx, path, 0666, NULL, 0, p, n);
}

fl_status fli_file_private(fl_ctx *ctx, const char *path, const void *p, size_t n)
{
    return replace(ctx, path, 0600, NULL, 0, p, n);
}

fl_status fli_file_private_parts(fl_ctx *ctx, const char *path, const void *head, size_t head_bytes, const void *p,
                                 size_t n)
{
    return replace(ctx, path, 0600, head, head_bytes, p, n);
}

fl_status fli_sync_folder(fl_ctx *ctx, const char *folder)
{
    fl_status s = FL_OK;
    int fd = fli_fd_open(folder, O_RDONLY | O_DIRECTORY, 0);
    if (fd < 0 ? errno != EACCES : fsync(fd) && errno != EINVAL && errno != EROFS)
        s = fli_fail(ctx, FL_EIO, "%s: the names in it cannot be written: %s", folder, strerror(errno));
    if (fd >= 0) close(fd);
    return s;
}

fl_status fli_sync_above(fl_ctx *ctx, const char *path)
{
    const char *slash = memrchr(path, '/', fli_path_length(path));
    char *folder = slash ? fli_strf(ctx, "%.*s", (int)(slash - path) + (slash == path), path) : fli_strdup(ctx, ".");
    fl_status s = folder ? fli_sync_folder(ctx, folder) : FL_ENOMEM;
    fli_free(folder);
    return s;
}

size_t fli_path_length(const char *path)
{
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    return n;
}

int fli_path_kind(const char *path)
{
    struct stat st;
    if (lstat(path, &st)) return 0;
    return S_ISDIR(st.st_mode) ? 1 : 2;
}

/* Parent folders get the mode of the user's mask. */
static fl_status make_folders(fl_ctx *ctx, const char *path, mode_t mode)
{
    fl_status s = FL_OK;
    size_t last = fli_path_length(path);
    char *p = fli_strdup(ctx, path);
    if (!p) return FL_ENOMEM;
    for (char *c = p + 1; s == FL_OK; c++) {
        char keep = *c;
        if (keep != '/' && keep) continue;
        *c = 0;
        if (!mkdir(p, c < p + last ? 0777 : mode)) {
            if ((s = fli_sync_above(ctx, p))) rmdir(p); /* else the next call would find it and take it for flushed */
        } else if (errno != EEXIST)
            s = fli_fail(ctx, FL_EIO, "%s: the folder cannot be created: %s", p, strerror(errno));
        *c = keep;
        if (!keep) break;
    }
    struct stat st;
    if (s == FL_OK && (stat(p, &st) || !S_ISDIR(st.st_mode)))
        s = fli_fail(ctx, FL_EIO, "%s: the folder cannot be created: something else has that name", p);
    fli_free(p);
    return s;
}

fl_status fli_make_folders(fl_ctx *ctx, const char *path) { return make_folders(ctx, path, 0777); }

fl_status fli_make_private_folder(fl_ctx *ctx, const char *path) { return make_folders(ctx, path, 0700); }

fl_status fli_remove_folder(fl_ctx *ctx, const char *path)
{
    fl_status s = FL_OK;
    if (fli_path_kind(path) == 2) /* in particular a link: its target must not be removed */
        return fli_fail(ctx, FL_EIO, "%s: the folder cannot be removed: it is not a folder", path);
    DIR *dir = opendir(path);
    if (!dir)
        return errno == ENOENT || errno == ENOTDIR
                   ? FL_OK
                   : fli_fail(ctx, FL_EIO, "%s: the folder cannot be removed: %s", path, strerror(errno));
    for (struct dirent *e; s == FL_OK && (e = readdir(dir));) {
        if (!strcmp(e->d_name, ".") || !strcmp(e->d_name, "..")) continue;
        char *child = fli_strf(ctx, "%s/%s", path, e->d_name);
        if (!child)
            s = FL_ENOMEM;
        else if (fli_path_kind(child) == 1)
            s = fli_remove_folder(ctx, child);
        else if (unlink(child))
            s = fli_fail(ctx, FL_EIO, "%s: cannot be removed: %s", child, strerror(errno));
        fli_free(child);
    }
    closedir(dir);
    if (s == FL_OK && rmdir(path))
        s = fli_fail(ctx, FL_EIO, "%s: the folder cannot be removed: %s", path, strerror(errno));
    return s;
}

/* ==== locks ================================================================================================= */

struct fli_lock {
    char *path;
    int fd;
};

/* Whether the opened file still has its name: the last owner may have removed it in between. */
static int is_current(const fli_lock *l)
{
    struct stat a, b;
    return !fstat(l->fd, &a) && !lstat(l->path, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void write_number(const fli_lock *l)
{
    char text[32];
    int n = fli_snprintf(text, sizeof text, "%ld\n", (long)getpid());
    /* the number is only for messages: a full disk does not stop a run here */
    if (!ftruncate(l->fd, 0)) (void)!pwrite(l->fd, text, (size_t)n, 0);
}

/* The number of the process that has the lock; 0 if it is not written yet, -1 if the file is not a lock. */
static long read_number(const fli_lock *l)
{
    char text[32] = "", *end = text;
    ssize_t n = pread(l->fd, text, sizeof text - 1, 0);
    long number = n > 0 ? strtol(text, &end, 10) : 0;
    return n <= 0 || (number > 0 && !strcmp(end, "\n")) ? number : -1;
}

/* Waits a moment for the number: a process writes it as soon as it has the lock. */
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

static fl_status refuse_busy(fl_ctx *ctx, const char *place, const fli_lock *l)
{
    long number = wait_for_number(l);
    if (number <= 0)
        return fli_fail(ctx, FL_EBUSY, "%s: another process is writing there; choose another output, or wait for it",
                        place);
    return fli_fail(ctx, FL_EBUSY, "%s: process %ld is writing there; choose another output, or wait for it", place,
                    number);
}

/* One attempt; *again is set if the file was removed during the attempt. */
static fl_status try_lock(fl_ctx *ctx, const char *place, fli_lock *l, int *again)
{
    *again = 0;
    l->fd = fli_fd_open(l->path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    if (l->fd < 0) return fli_fail(ctx, FL_EIO, "%s: cannot be created: %s", l->path, strerror(errno));
    if (flock(l->fd, LOCK_EX | LOCK_NB)) {
        if (errno == EWOULDBLOCK) return refuse_busy(ctx, place, l);
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

/* The place itself or, if it does not exist, its folder, which is made. The path has no links or dots, so that all
 * names of a place lead to the same lock. The caller frees it with free. */
static fl_status resolve_place(fl_ctx *ctx, const char *place, char **real, const char **name)
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
    fl_status s = resolve_place(ctx, place, &real, &name);
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
    while (!s && again) s = try_lock(ctx, place, l, &again);
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
    if (is_current(l)) unlink(l->path); /* before unlocking, so that no other lock is removed */
    close(l->fd);
    fli_free(l->path);
    fli_free(l);
}

/* ==== names in a folder ===================================================================================== */

static int by_name(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

static fl_status add(fl_ctx *ctx, fli_array *names, const char *name)
{
    void *room;
    fl_status s = fli_array_add(ctx, names, 1, &room);
    if (s == FL_OK && !(*(char **)room = fli_strdup(ctx, name))) s = FL_ENOMEM;
    return s;
}

fl_status fli_listing_read(fl_ctx *ctx, const char *path, fli_listing *out)
{
    fli_array names = {.size = sizeof(char *)};
    fl_status s = FL_OK;
    *out = (fli_listing){NULL, 0};
    DIR *dir = opendir(path);
    if (!dir) return fli_fail(ctx, FL_EIO, "%s: the folder cannot be read: %s", path, strerror(errno));
    errno = 0;
    for (struct dirent *e; s == FL_OK && (e = readdir(dir)); errno = 0)
        if (*e->d_name != '.') s = add(ctx, &names, e->d_name);
    if (s == FL_OK && errno) s = fli_fail(ctx, FL_EIO, "%s: the folder cannot be read: %s", path, strerror(errno));
    closedir(dir);
    *out = (fli_listing){names.p, names.n};
    if (s == FL_OK && names.n) qsort(out->name, out->n, sizeof *out->name, by_name);
    return s;
}

void fli_listing_fini(fli_listing *l)
{
    for (size_t i = 0; i < l->n; i++) fli_free(l->name[i]);
    fli_free(l->name);
    *l = (fli_listing){NULL, 0};
}
