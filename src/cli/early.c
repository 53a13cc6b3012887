/* Before the libraries start. OpenBLAS begins its own threads, each with its own stack and buffer, when it is loaded,
 * before main; under a limit on address space (ulimit -v) it asks for them for ever. One thread is all that fedloom
 * wants of it, and the environment is the only thing it listens to by then. So, under such a limit, the program
 * restarts itself with that set. */
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { MOST = 4096 };

static int is_said(char **env)
{
    for (; *env; env++)
        if (!strncmp(*env, "OPENBLAS_NUM_THREADS=", 21)) return 1;
    return 0;
}

/* Neither the C library nor any other is set up yet: system calls and the stack are all there is. */
static void early(int argc, char **argv, char **env)
{
    static char one[] = "OPENBLAS_NUM_THREADS=1";
    char *with[MOST];
    struct rlimit limit;
    size_t n = 0;
    (void)argc;
    if (getrlimit(RLIMIT_AS, &limit) || limit.rlim_cur == RLIM_INFINITY || is_said(env)) return;
    with[n++] = one;
    for (; *env && n + 1 < MOST; env++) with[n++] = *env;
    with[n] = NULL;
    if (!*env) execve("/proc/self/exe", argv, with); /* if that fails, things are as they were */
}

__attribute__((section(".preinit_array"), used)) static void (*const before_all)(int, char **, char **) = early;
