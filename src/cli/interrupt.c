/* Signals and descriptors. The only mutable global state of the program, because a signal handler can reach nothing
 * else. */
#include "cli.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static _Atomic(fl_run *) watched;
static volatile sig_atomic_t seen, silent;

void surroundings_secure(void)
{
    for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; fd++) /* open takes the lowest free number: the missing one */
        if (fcntl(fd, F_GETFD) < 0 && errno == EBADF)
            (void)!open("/dev/null", fd == STDIN_FILENO ? O_RDONLY : O_WRONLY);
    signal(SIGPIPE, SIG_IGN);
    signal(SIGXFSZ, SIG_IGN);
}

/* A terminal that closes may send SIGHUP twice, by the kernel and by the shell: that is still one wish. */
static void on_signal(int number)
{
    static const char note[] = "\nfedloom: stopping after this round; a second Ctrl-C ends it at once\n";
    int keep = errno;
    if (seen && number == SIGHUP) return;
    if (seen) {
        signal(number, SIG_DFL);
        raise(number); /* takes effect when this handler returns */
        return;
    }
    seen = number;
    fl_run *run = atomic_load(&watched);
    if (run) fl_run_stop(run);
    if (!silent) (void)!write(STDERR_FILENO, note, sizeof note - 1);
    errno = keep;
}

/* Whoever started the program may have wanted the signal ignored (nohup, a background job): that stays. */
static void install(int number)
{
    struct sigaction old, act;
    memset(&act, 0, sizeof act);
    act.sa_handler = on_signal;
    act.sa_flags = SA_RESTART;
    sigemptyset(&act.sa_mask);
    if (!sigaction(number, NULL, &old) && old.sa_handler != SIG_IGN) sigaction(number, &act, NULL);
}

void interrupt_install(int quiet)
{
    silent = quiet;
    install(SIGINT);
    install(SIGTERM);
    install(SIGHUP);
}

int interrupt_watch(fl_run *run)
{
    atomic_store(&watched, run);
    return seen;
}

int interrupt_seen(void) { return seen; }
