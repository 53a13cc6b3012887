#include "base/os.h"

#include "base/number.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

/* ==== time ================================================================================================== */

double fli_clock_now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

int fli_clock_cond(pthread_cond_t *c)
{
    pthread_condattr_t a;
    int failed = pthread_condattr_init(&a);
    if (failed) return failed;
    failed = pthread_condattr_setclock(&a, CLOCK_MONOTONIC);
    if (!failed) failed = pthread_cond_init(c, &a);
    pthread_condattr_destroy(&a);
    return failed;
}

int fli_clock_wait(pthread_cond_t *c, pthread_mutex_t *lock, double until)
{
    const double longest = 1e9; /* infinity is no time_t */
    double whole, part = modf(fmax(0, fmin(until, fli_clock_now() + longest)), &whole);
    struct timespec t = {.tv_sec = (time_t)whole, .tv_nsec = (long)(part * 1e9)};
    return pthread_cond_timedwait(c, lock, &t) == ETIMEDOUT && fli_clock_now() >= until;
}

/* ==== opening files ========================================================================================= */

int fli_fd_high(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO) return fd;
    int high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1), error = errno;
    close(fd);
    errno = error;
    return high;
}

int fli_fd_open(const char *path, int flags, mode_t mode) { return fli_fd_high(open(path, flags | O_CLOEXEC, mode)); }

/* The file is made without a name or, if the file system cannot do that, loses it at once. No other process can write
 * to it: child processes do not inherit the descriptor, and printed text cannot go to it. */
int fli_fd_unnamed(const char *folder)
{
    char name[4096];
    int fd = fli_fd_open(folder, O_TMPFILE | O_RDWR | O_EXCL, 0600);
    if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL)) return fd;
    int n = snprintf(name, sizeof name, "%s/fedloom-XXXXXX", folder);
    if (n < 0 || (size_t)n >= sizeof name) return errno = ENAMETOOLONG, -1;
    fd = mkostemp(name, O_CLOEXEC);
    if (fd >= 0) unlink(name);
    return fli_fd_high(fd);
}

FILE *fli_file_open_mode(const char *path, int flags, mode_t mode)
{
    int fd = fli_fd_open(path, flags, mode);
    FILE *f = fd < 0 ? NULL : fdopen(fd, (flags & O_ACCMODE) == O_RDONLY ? "rb" : "wb");
    if (!f && fd >= 0) close(fd);
    return f;
}

FILE *fli_file_open(const char *path, int flags) { return fli_file_open_mode(path, flags, 0666); }

/* ==== unused memory ========================================================================================= */

void fli_zero_pages(void *p, size_t bytes)
{
    enum { LARGE = 1 << 25 }; /* smaller pieces are not worth two system calls */
    size_t page = (size_t)sysconf(_SC_PAGESIZE), before = (page - (uintptr_t)p % page) % page;
    size_t whole = bytes < LARGE ? 0 : (bytes - before) / page * page;
    char *pages = (char *)p + before;
    if (!whole || madvise(pages, whole, MADV_DONTNEED)) { /* fails for locked memory */
        memset(p, 0, bytes);
        return;
    }
    memset(p, 0, before);
    memset(pages + whole, 0, bytes - before - whole);
}

/* ==== limits of memory ====================================================================================== */

enum { PATH_ROOM = 4096 };

/* Reads the first line of a small file; returns 0 if there is none. */
static int first_line(const char *path, char *line, size_t size)
{
    FILE *f = fli_file_open(path, O_RDONLY);
    int there = f && fgets(line, (int)size, f);
    if (f) fclose(f);
    return there;
}

/* "max" in version 2, or a number beyond all memory in version 1, means no limit. */
static double read_limit(const char *path)
{
    char line[64], *end;
    if (!first_line(path, line, sizeof line)) return INFINITY;
    double v = fli_strtod(line, &end);
    return end == line || !(v > 0) || v >= 0x1p62 ? INFINITY : v;
}

double fli_limit_group(const char *root, const char *group, const char *file)
{
    char at[PATH_ROOM], path[PATH_ROOM + 64];
    double least = INFINITY;
    if (fli_snprintf(at, sizeof at, "%s", group) >= PATH_ROOM) return INFINITY;
    for (;;) {
        fli_snprintf(path, sizeof path, "%s%s/%s", root, at, file);
        least = fmin(least, read_limit(path));
        char *slash = strrchr(at, '/');
        if (!slash) return least;
        *slash = 0;
    }
}

/* The limit of this process's group: in version 2 the line "0::GROUP", in version 1 "N:memory:GROUP". */
static double group_limit(void)
{
    char line[PATH_ROOM];
    double least = INFINITY;
    FILE *f = fli_file_open("/proc/self/cgroup", O_RDONLY);
    while (f && fgets(line, sizeof line, f)) {
        char *kind = strchr(line, ':'), *group = kind ? strchr(kind + 1, ':') : NULL;
        if (!group) continue;
        *group++ = 0;
        group[strcspn(group, "\n")] = 0;
        if (!kind[1]) least = fmin(least, fli_limit_group("/sys/fs/cgroup", group, "memory.max"));
        if (!strcmp(kind + 1, "memory"))
            least = fmin(least, fli_limit_group("/sys/fs/cgroup/memory", group, "memory.limit_in_bytes"));
    }
    if (f) fclose(f);
    return least;
}

static fli_limit memory;

static void find_memory(void)
{
    long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    double machine = pages > 0 && page > 0 ? (double)pages * (double)page : INFINITY, group = group_limit();
    memory = group < machine ? (fli_limit){group, "the limit of its control group"}
                             : (fli_limit){machine, "the memory of this machine"};
}

fli_limit fli_limit_memory(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_memory);
    return memory;
}

fli_limit fli_limit_free(void)
{
    char line[128];
    double kib = 0;
    int known = 0;
    FILE *f = fli_file_open("/proc/meminfo", O_RDONLY);
    while (f && fgets(line, sizeof line, f)) {
        int available = !strncmp(line, "MemAvailable:", 13);
        if (!available && strncmp(line, "SwapFree:", 9)) continue;
        kib += fli_strtod(strchr(line, ':') + 1, NULL);
        known |= available;
    }
    if (f) fclose(f);
    return (fli_limit){known ? 1024 * kib : INFINITY, "what is free of the memory of this machine"};
}

fli_limit fli_limit_room(void)
{
    static const char what[] = "what is left of the limit on address space (ulimit -v)";
    struct rlimit limit;
    char line[64];
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY) return (fli_limit){INFINITY, what};
    double used =
        first_line("/proc/self/statm", line, sizeof line) ? fli_strtod(line, NULL) * (double)sysconf(_SC_PAGESIZE) : 0;
    return (fli_limit){fmax(0, (double)limit.rlim_cur - used), what};
}
