/* Calls of the operating system: monotonic time, descriptors of files, memory and its limits. */
#ifndef FLI_BASE_OS_H
#define FLI_BASE_OS_H

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

/* ==== time ================================================================================================== */

double fli_clock_now(void); /* seconds, monotonic, from an arbitrary origin */

/* A condition variable that waits by the same clock, which cannot be set. Returns as pthread_cond_init. */
int fli_clock_cond(pthread_cond_t *c);
/* Waits as pthread_cond_timedwait, until fli_clock_now reaches `until`. Returns 1 at that time. */
int fli_clock_wait(pthread_cond_t *c, pthread_mutex_t *lock, double until);

/* ==== opening files ========================================================================================= */

/* open and fopen, but the descriptor is never below 3: if a program has closed a standard descriptor, the next file
 * would get its number, and printed text would go to that file. NULL or -1 with errno set. `flags` are those of
 * open. */
int fli_fd_open(const char *path, int flags, mode_t mode);
FILE *fli_file_open(const char *path, int flags);
FILE *fli_file_open_mode(const char *path, int flags, mode_t mode);
/* A file for reading and writing in this folder, without a name, so that it is removed when the process ends. */
int fli_fd_unnamed(const char *folder);
/* The same file with a descriptor of at least 3; closes the given one if it was lower. Returns -1 for -1. */
int fli_fd_high(int fd);

/* ==== unused memory ========================================================================================= */

/* Zeroes memory from fli_alloc. The pages of a large piece are returned to the system until they are written. */
void fli_zero_pages(void *p, size_t bytes);

/* ==== limits of memory ====================================================================================== */

/* The memory that this process may have, and what limits it: the machine, a control group (a container's limit), or
 * ulimit -v. */

typedef struct {
    double bytes;     /* INFINITY: no limit is known */
    const char *what; /* the limit's name, for a message */
} fli_limit;

/* The limit of all memory: the machine's, or a smaller one of a control group. Determined once. */
fli_limit fli_limit_memory(void);
/* Memory that is free now, including swap; INFINITY if unknown. */
fli_limit fli_limit_free(void);
/* The rest of the address space under RLIMIT_AS. Libraries reserve much more of it than they use. */
fli_limit fli_limit_room(void);

/* The smallest limit of a control group and the groups above it; INFINITY if there is none. `group` is the process's,
 * as in its line of /proc/self/cgroup, below `root`, where groups are mounted; `file` contains the limit. For
 * fli_limit_memory, and its tests. */
double fli_limit_group(const char *root, const char *group, const char *file);

#endif
