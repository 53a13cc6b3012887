/* Signals. Their state is global, because a signal handler can reach nothing else. */
#include "cli/cli.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

static _Atomic(fl_run *) watched;
static _Atomic(fl_ctx *) context;
static volatile sig_atomic_t seen, silent;
static int together, agreed; /* ranks run together; what they agreed on */

/* A terminal that closes may send SIGHUP twice, by the kernel and by the shell: these count as one request, and so do
 * the signals of a batch system. */
static void on_signal(int number)
{
    static const char note[] = "\nfedloom: stopping after this round; a second Ctrl-C ends it at once\n";
    static const char plain[] = "fedloom: stopping after this round\n";
    int key = number == SIGINT || number == SIGTERM;
    int keep = errno;
    if (seen && !key) return;
    if (seen) {
        signal(number, SIG_DFL);
        raise(number); /* takes effect when this handler returns */
        return;
    }
    seen = number;
    fl_run *run = atomic_load(&watched);
    fl_ctx *ctx = atomic_load(&context);
    if (run) fl_run_stop(run);
    if (ctx && !together) fl_ctx_stop(ctx);
    if (!silent) (void)!write(STDERR_FILENO, key ? note : plain, (key ? sizeof note : sizeof plain) - 1);
    errno = keep;
}

/* A signal that was ignored when the program started (nohup, a background job) stays ignored. */
void interrupt_also(int number)
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
    interrupt_also(SIGINT);
    interrupt_also(SIGTERM);
    interrupt_also(SIGHUP);
}

void interrupt_together(void) { together = 1; }

void interrupt_agreed(void) { agreed = seen ? seen : SIGUSR1; }

int interrupt_watch(fl_run *run)
{
    atomic_store(&watched, run);
    if (together && run && seen) fl_run_stop(run);
    return together ? 0 : seen;
}

void interrupt_context(fl_ctx *ctx)
{
    atomic_store(&context, ctx);
    if (ctx && seen && !together) fl_ctx_stop(ctx);
}

int interrupt_seen(void) { return together ? agreed : seen; }
