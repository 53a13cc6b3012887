/* Random numbers that depend on their purpose, never on the thread or the time of the draw.
 *
 * Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel random numbers: as easy as 1, 2, 3, SC 2011) maps a 128-bit
 * counter under a 64-bit key to 128 random bits. The seed is the key; the counter is (block, purpose, round, client),
 * so streams of different keys never overlap, and making a stream costs nothing. */
#ifndef FLI_BASE_RNG_H
#define FLI_BASE_RNG_H

#include <stddef.h>
#include <stdint.h>

/* The purpose of a stream. Values are part of the results: never renumber, only append. */
typedef enum {
    FLI_RNG_DATA = 1,  /* generators: (item, client) */
    FLI_RNG_PARTITION, /* partitioners: (attempt, 0) */
    FLI_RNG_SPLIT, /* of a client's samples: test (0, client), validation (1, client), choosing a mixture (2, client) */
    FLI_RNG_INIT,  /* start model */
    FLI_RNG_COHORT,     /* clients that take part: (round, 0); clients that go to work next: (turn, 1) */
    FLI_RNG_STEPS,      /* heterogeneous local updates: (round, client) */
    FLI_RNG_BATCH,      /* mini-batches: (round, client), of asynchronous methods (turn, client) */
    FLI_RNG_ALGO,       /* an algorithm's own coins: (round, 0); seeds of a round's further phases: (phase, 1),
                       and of their cohorts: (phase, 2) */
    FLI_RNG_PROBE,      /* power iteration and the like */
    FLI_RNG_TEST,       /* tests */
    FLI_RNG_SYSTEM,     /* speeds of devices and links: (turn, client) */
    FLI_RNG_LABELS,     /* which of a client's samples keep their labels: (0, client) */
    FLI_RNG_AUGMENT,    /* changes to samples: (round, client) and, by fli_rng_item, (epoch, sample) */
    FLI_RNG_RANK_OWNER, /* assigns clients to ranks, for any seed: (0, client) */
    FLI_RNG_NUMBERS     /* numbers asks that go out together: (the last one's, in two halves) */
} fli_rng_purpose;

typedef struct {
    uint32_t key[2];
    uint32_t ctr[4]; /* block, purpose, round, client */
    uint32_t out[4];
    unsigned left; /* unused words in out */
    double spare;  /* second normal of a pair */
    int has_spare;
} fli_rng;

void fli_rng_init(fli_rng *r, uint64_t seed, fli_rng_purpose purpose, uint32_t round, uint32_t client);
/* Four numbers (fli_rng_u32) for one item in one of up to 2^24 epochs, with the seed, round and client of `like`; its
 * position does not matter. */
void fli_rng_item(const fli_rng *like, fli_rng_purpose purpose, uint32_t epoch, uint32_t item, fli_rng *r);

uint32_t fli_rng_u32(fli_rng *r);
uint64_t fli_rng_u64(fli_rng *r);
double fli_rng_uniform(fli_rng *r);                     /* [0, 1), 53 bits */
double fli_rng_range(fli_rng *r, double lo, double hi); /* [lo, hi) */
uint64_t fli_rng_below(fli_rng *r, uint64_t n);         /* 0 .. n-1 without bias; n >= 1 */
double fli_rng_normal(fli_rng *r);                      /* N(0, 1), Box-Muller */
double fli_rng_gamma(fli_rng *r, double shape);         /* scale 1; Marsaglia and Tsang 2000 */
/* Dirichlet(alpha, ..., alpha); never all zero, also for tiny alpha. */
void fli_rng_dirichlet(fli_rng *r, double alpha, size_t n, double *p);
double fli_rng_student(fli_rng *r, double dof); /* Student's t */
void fli_rng_shuffle(fli_rng *r, size_t n, uint32_t *v);
void fli_rng_permutation(fli_rng *r, size_t n, uint32_t *v); /* v = a random order of 0 .. n-1 */
/* m distinct numbers of 0 .. n-1, ascending, every subset equally likely; cheap for any n. m <= n. */
void fli_rng_sample(fli_rng *r, size_t n, size_t m, uint32_t *v);

#endif
