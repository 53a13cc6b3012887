/* Wall time. */
#ifndef FLI_BASE_CLOCK_H
#define FLI_BASE_CLOCK_H

#include <pthread.h>

double fli_clock_now(void); /* seconds, monotonic, from an arbitrary origin */

/* A condition variable that waits by the same clock, which nobody sets. As pthread_cond_init: 0, or it failed. */
int fli_clock_cond(pthread_cond_t *c);
/* Waits for one of these, as pthread_cond_timedwait, until fli_clock_now would be `until`. 1: that time has come. */
int fli_clock_wait(pthread_cond_t *c, pthread_mutex_t *lock, double until);

#endif
