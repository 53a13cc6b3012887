/* What the system is asked for: monotonic time, descriptors of files, memory and its limits. */
#ifndef FLI_BASE_OS_H
#define FLI_BASE_OS_H

#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>

/* ==== time ================================================================================================== */

double fli_clock_now(void); /* seconds, monotonic, from an arbitrary origin */

/* A condition variable that waits by the same clock, which nobody sets. As pthread_cond_init: 0, or it failed. */
int fli_clock_cond(pthread_cond_t *c);
/* Waits for one of these, as pthread_cond_timedwait, until fli_clock_now would be `until`. 1: that time has come. */
int fli_clock_wait(pthread_cond_t *c, pthread_mutex_t *lock, double until);

/* ==== opening files ========================================================================================= */

/* open and fopen, but never with a descriptor below 3: where a program has closed one of its standard ones, the next
 * file would get its number, and whatever is printed would land in that file. NULL or -1 with errno set. `flags` are
 * those of open. */
int fli_fd_open(const char *path, int flags, mode_t mode);
FILE *fli_file_open(const char *path, int flags);
FILE *fli_file_open_mode(const char *path, int flags, mode_t mode);
/* A file for reading and writing in this folder that has no name, and so ends with the process. */
int fli_fd_unnamed(const char *folder);
/* The same file behind a descriptor from 3 on; closes the one given if it was lower. Passes -1 on. */
int fli_fd_high(int fd);

/* ==== memory that is not used =============================================================================== */

/* Zeros in memory of fli_alloc's. The pages of a large piece go back to the system until something is written there. */
void fli_zero_pages(void *p, size_t bytes);

/* ==== limits of memory ====================================================================================== */

/* How much memory this process may have, by whoever limits it: the machine, a control group (a container's limit),
 * ulimit -v. */

typedef struct {
    double bytes;     /* INFINITY: no limit is known */
    const char *what; /* who sets it, for a message */
} fli_limit;

/* Of memory in all: the machine's, or that of the tightest control group, if it is smaller. Looked at once. */
fli_limit fli_limit_memory(void);
/* Of memory that nothing uses just now, swap included; INFINITY where that is not known. */
fli_limit fli_limit_free(void);
/* What is left of the address space under RLIMIT_AS. Libraries reserve much more of it than they use. */
fli_limit fli_limit_room(void);

/* The smallest limit of a control group and those above it; INFINITY if there is none. `group` is the process's, as its
 * line in /proc/self/cgroup says, below `root`, where the groups are mounted; `file` has the limit. For
 * fli_limit_memory, and its tests. */
double fli_limit_group(const char *root, const char *group, const char *file);

#endif
