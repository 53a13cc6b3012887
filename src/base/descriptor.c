#include "base/descriptor.h"

#include <errno.h>
#include <unistd.h>

int fli_fd_high(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(fd);
    errno = error;
    return high;
}

int fli_fd_open(const char *path, int flags, mode_t mode) { return fli_fd_high(open(path, flags | O_CLOEXEC, mode)); }

FILE *fli_file_open_mode(const char *path, int flags, mode_t mode)
{
    int fd = fli_fd_open(path, flags, mode);
    FILE *f = fd < 0 ? NULL : fdopen(fd, (flags & O_ACCMODE) == O_RDONLY ? "rb" : "wb");
    if (!f && fd >= 0) close(fd);
    return f;
}

FILE *fli_file_open(const char *path, int flags) { return fli_file_open_mode(path, flags, 0666); }
