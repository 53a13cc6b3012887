#include "base/file.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

fl_status fli_out_open(fl_ctx *ctx, const char *path, fli_out *out)
{
    memset(out, 0, sizeof *out);
    out->ctx = ctx;
    out->path = fli_strdup(ctx, path);
    if (!out->path) return FL_ENOMEM;
    out->f = fopen(path, "wb");
    if (out->f) return FL_OK;
    fl_status s = fli_fail(ctx, FL_EIO, "%s: cannot be written: %s", path, strerror(errno));
    fli_free(out->path);
    return s;
}

void fli_out_bytes(fli_out *out, const void *p, size_t n)
{
    errno = 0;
    if (!out->error && n && fwrite(p, 1, n, out->f) != n) out->error = errno ? errno : EIO;
}

void fli_out_text(fli_out *out, const char *s) { fli_out_bytes(out, s, strlen(s)); }

void fli_out_printf(fli_out *out, const char *fmt, ...)
{
    va_list ap;
    if (out->error) return;
    va_start(ap, fmt);
    errno = 0;
    if (vfprintf(out->f, fmt, ap) < 0) out->error = errno ? errno : EIO;
    va_end(ap);
}

fl_status fli_out_close(fli_out *out)
{
    fl_status s = FL_OK;
    struct stat st;
    int plain = !fstat(fileno(out->f), &st) && S_ISREG(st.st_mode); /* a device such as /dev/full must stay */
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

int fli_path_kind(const char *path)
{
    struct stat st;
    if (lstat(path, &st)) return 0;
    return S_ISDIR(st.st_mode) ? 1 : 2;
}

fl_status fli_make_folders(fl_ctx *ctx, const char *path)
{
    fl_status s = FL_OK;
    char *p = fli_strdup(ctx, path);
    if (!p) return FL_ENOMEM;
    for (char *c = p + 1; s == FL_OK; c++) {
        char keep = *c;
        if (keep != '/' && keep) continue;
        *c = 0;
        if (mkdir(p, 0777) && errno != EEXIST)
            s = fli_fail(ctx, FL_EIO, "%s: the folder cannot be made: %s", p, strerror(errno));
        *c = keep;
        if (!keep) break;
    }
    struct stat st;
    if (s == FL_OK && (stat(p, &st) || !S_ISDIR(st.st_mode)))
        s = fli_fail(ctx, FL_EIO, "%s: the folder cannot be made: something else has that name", p);
    fli_free(p);
    return s;
}

fl_status fli_lock_folder(fl_ctx *ctx, const char *path, int *lock)
{
    int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return fli_fail(ctx, FL_EIO, "%s: the folder cannot be opened: %s", path, strerror(errno));
    if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
        close(fd);
        return fli_fail(ctx, FL_EIO, "%s: another run is working in this folder", path);
    }
    *lock = fd;
    return FL_OK;
}

fl_status fli_remove_folder(fl_ctx *ctx, const char *path)
{
    fl_status s = FL_OK;
    if (fli_path_kind(path) == 2) /* above all a link: its target is not ours */
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
