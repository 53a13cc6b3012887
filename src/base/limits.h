/* How much memory this process may have, by whoever limits it: the machine, a control group (a container's limit),
 * ulimit -v. */
#ifndef FLI_BASE_LIMITS_H
#define FLI_BASE_LIMITS_H

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
