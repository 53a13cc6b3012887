/* What is said when several processes are ended from outside, because one of them died or somebody wants it: where the
 * run can go on. A launcher sends SIGTERM, and SIGKILL a second later, so the sentence is ready before, and the signal
 * handler writes it. One process of each machine does: that which is first to set a number all of them see. */
#include "cli/cli.h"

#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

typedef struct {
    size_t n;
    char text[2048];
} sentence;

static sentence sentences[2]; /* the one that is ready, and the one that is being written */
static _Atomic(const sentence *) ready;
static _Atomic(atomic_int *) said;

void last_words_prepare(const char *fmt, ...)
{
    sentence *next = atomic_load(&ready) == &sentences[0] ? &sentences[1] : &sentences[0];
    char line[sizeof next->text - 16];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(line, sizeof line, fmt, ap);
    va_end(ap);
    next->n = (size_t)snprintf(next->text, sizeof next->text, "fedloom: %s\n", say_clean(line));
    atomic_store(&ready, next);
}

void last_words_forget(void) { atomic_store(&ready, NULL); }

/* Safe in a signal handler. */
void last_words_say(void)
{
    const sentence *s = atomic_load(&ready);
    atomic_int *once = atomic_load(&said);
    if (s && once && !atomic_exchange(once, 1)) (void)!write(STDERR_FILENO, s->text, s->n);
}

static void on_end(int number)
{
    (void)number;
    last_words_say();
    _exit(CLI_INTERRUPTED);
}

void last_words_install(void *common)
{
    struct sigaction act;
    memset(&act, 0, sizeof act);
    act.sa_handler = on_end;
    sigemptyset(&act.sa_mask);
    atomic_store(&said, common);
    sigaction(SIGINT, &act, NULL);
    sigaction(SIGTERM, &act, NULL);
}
