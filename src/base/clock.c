#include "base/clock.h"

#include <errno.h>
#include <math.h>
#include <time.h>

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
