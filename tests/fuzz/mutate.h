/* Small changes of a text in a format, for replays of fuzz targets. */
#ifndef TESTS_FUZZ_MUTATE_H
#define TESTS_FUZZ_MUTATE_H

#include "base/rng.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Tokens of the format, some of which are put in at random places. */
typedef struct {
    const char *const *token;
    size_t count;
    size_t longest; /* the text grows up to this */
    int digits;     /* digits change instead of ends being cut off: most of what comes out is still well formed */
} dialect;

/* Changes the n bytes in buf, which has room for the longest text; returns how many there are now. */
static size_t mutate(const dialect *d, fli_rng *r, uint8_t *buf, size_t n)
{
    size_t at = (size_t)fli_rng_below(r, n + 1), cut = (size_t)fli_rng_below(r, 9);
    const char *token = d->token[fli_rng_below(r, d->count)];
    size_t more = strlen(token);
    if (cut > n - at) cut = n - at;
    switch (fli_rng_below(r, 4)) {
    case 0:
        if (at < n) buf[at] = (uint8_t)fli_rng_u32(r);
        return n;
    case 1: memmove(buf + at, buf + at + cut, n - at - cut); return n - cut;
    case 2:
        if (!d->digits) return at;
        if (at < n) buf[at] = (uint8_t)('0' + fli_rng_below(r, 10));
        return n;
    default:
        if (n + more > d->longest) return n;
        memmove(buf + at + more, buf + at, n - at);
        memcpy(buf + at, token, more);
        return n + more;
    }
}

/* Runs a target on so many texts, each made from one that is well formed by a few changes; returns main's value. */
static inline int fuzz_texts(const char *name, int argc, char **argv, const dialect *d, const char *seed,
                             int (*target)(const uint8_t *, size_t))
{
    long times = argc > 1 ? atol(argv[1]) : 20000;
    fli_rng r;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    uint8_t *buf = malloc(d->longest);
    if (!buf) return 1;
    for (long i = 0; i < times; i++) {
        size_t n = strlen(seed);
        memcpy(buf, seed, n);
        for (uint64_t k = fli_rng_below(&r, 6); k; k--) n = mutate(d, &r, buf, n);
        target(buf, n);
    }
    free(buf);
    printf("%s: %ld inputs, no failure\n", name, times);
    return 0;
}

#endif
