#include "base/file.h"

#include "base/number.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static fl_status out_open(fl_ctx *ctx, const char *path, int flags, mode_t mode, fli_out *out)
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

fl_status fli_out_open(fl_ctx *ctx, const char *path, fli_out *out)
{
    return out_open(ctx, path, O_WRONLY | O_CREAT | O_TRUNC, 0666, out);
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
    locale_t before = fli_locale_enter();
    errno = 0;
    if (vfprintf(out->f, fmt, ap) < 0) out->error = errno ? errno : EIO;
    fli_locale_leave(before);
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

static fl_status replace(fl_ctx *ctx, const char *path, mode_t mode, const void *p, size_t n)
{
    fli_out out;
    char *draft = fli_strf(ctx, "%s.tmp", path);
    if (!draft) return FL_ENOMEM;
    unlink(draft); /* of a run that was killed; a link of that name must not be followed, it may lead anywhere */
    fl_status s = out_open(ctx, draft, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW, mode, &out);
    if (!s) {
        fli_out_bytes(&out, p, n);
        s = fli_out_close(&out);
    }
    if (!s && rename(draft, path)) {
        s = fli_fail(ctx, FL_EIO, "%s: cannot be put in place: %s", path, strerror(errno));
        unlink(draft);
    }
    fli_free(draft);
    return s;
}

fl_status fli_file_replace(fl_ctx *ctx, const char *path, const void *p, size_t n)
{
    return replace(ctx, path, 0666, p, n);
}

fl_status fli_file_private(fl_ctx *ctx, const char *path, const void *p, size_t n)
{
    return replace(ctx, path, 0600, p, n);
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

/* The folders above have the mode that the user's mask leaves. */
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
            if ((s = fli_sync_above(ctx, p))) rmdir(p); /* or it would be there the next time, and pass for flushed */
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
