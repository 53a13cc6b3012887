#include "net/client/backoff.h"

#include "base/clock.h"

#include <math.h>
#include <string.h>
#include <sys/random.h>

void fli_backoff_init(fli_backoff *b)
{
    memset(b, 0, sizeof *b);
    if (getrandom(&b->random, sizeof b->random, GRND_NONBLOCK) != (ssize_t)sizeof b->random)
        b->random = (uint64_t)(1e9 * fli_clock_now()); /* a machine that has just started */
    b->random |= 1;
}

/* xorshift64*: which number it is matters to nobody. */
static double uniform(uint64_t *state)
{
    uint64_t x = *state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    *state = x;
    return (double)((x * 0x2545F4914F6CDD1Du) >> 11) * 0x1p-53;
}

double fli_backoff_next(fli_backoff *b, double least)
{
    const double first = 0.5, most = 30;
    double bound = first;
    if (!b->tries) b->since = fli_clock_now();
    for (unsigned i = 0; i < b->tries && bound < most; i++) bound *= 2;
    b->tries++;
    return fmin(least, FLI_BACKOFF_LEAST) + uniform(&b->random) * fmin(bound, most);
}

double fli_backoff_for(const fli_backoff *b) { return b->tries ? fli_clock_now() - b->since : 0; }

void fli_backoff_reset(fli_backoff *b) { b->tries = 0; }
