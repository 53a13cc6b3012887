#include "client/spill.h"

#include "base/file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct fli_spill {
    fl_ctx *ctx;
    char *folder; /* for messages */
    size_t bytes;
    int fd;
};

/* A file that never had a name or, where the file system knows no such thing, one that loses it at once. Nobody else
 * can come to write to it: programs that are started from here do not inherit it, and what is printed cannot land in
 * it. */
static int open_unnamed(const char *folder, char *name)
{
    int fd = fli_fd_open(folder, O_TMPFILE | O_RDWR | O_EXCL, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0) unlink(name);
    return fli_fd_high(fd);
}

fl_status fli_spill_new(fl_ctx *ctx, const char *folder, size_t bytes, fli_spill **out)
{
    fl_status status = FL_ENOMEM;
    fli_spill *s = fli_alloc(ctx, 1, sizeof *s);
    char *name = fli_strf(ctx, "%s/fedloom-XXXXXX", folder);
    if (!s || !name || !(s->folder = fli_strdup(ctx, folder))) goto done;
    s->ctx = ctx;
    s->bytes = bytes;
    s->fd = open_unnamed(folder, name);
    status = s->fd < 0 ? fli_fail(ctx, FL_EIO, "%s: no file for client state can be created here: %s", folder,
                                  strerror(errno))
                       : FL_OK;
    if (!status) *out = s;
done:
    fli_free(name);
    if (status && s) {
        fli_free(s->folder);
        fli_free(s);
    }
    return status;
}

void fli_spill_free(fli_spill *s)
{
    if (!s) return;
    close(s->fd);
    fli_free(s->folder);
    fli_free(s);
}

static fl_status failed(fli_spill *s, const char *what, int error)
{
    return fli_fail(s->ctx, FL_EIO,
                    "%s: client state beyond `memory` cannot be %s here: %s; TMPDIR names another folder", s->folder,
                    what, strerror(error));
}

fl_status fli_spill_write(fli_spill *s, size_t place, const void *p)
{
    for (size_t at = 0; at < s->bytes;) {
        ssize_t n = pwrite(s->fd, (const char *)p + at, s->bytes - at, (off_t)(place * s->bytes + at));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return failed(s, "written", n ? errno : ENOSPC);
        at += (size_t)n;
    }
    return FL_OK;
}

fl_status fli_spill_read(fli_spill *s, size_t place, void *p)
{
    for (size_t at = 0; at < s->bytes;) {
        ssize_t n = pread(s->fd, (char *)p + at, s->bytes - at, (off_t)(place * s->bytes + at));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return failed(s, "read", n ? errno : EIO);
        at += (size_t)n;
    }
    return FL_OK;
}
