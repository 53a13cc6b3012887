/* The core of rng.h, for CPUs and devices: random bits as a function of a key and a counter. */
#ifndef FLI_BASE_PHILOX_H
#define FLI_BASE_PHILOX_H

#include <stdint.h>

/* Marks functions that run on both. */
#ifdef __CUDACC__
#define FLI_BOTH static inline __host__ __device__
#else
#define FLI_BOTH static inline
#endif

/* Philox4x32-10 */
FLI_BOTH void fli_philox(const uint32_t key[2], const uint32_t ctr[4], uint32_t out[4])
{
    enum { ROUNDS = 10 };
    uint32_t k0 = key[0], k1 = key[1];
    uint32_t c0 = ctr[0], c1 = ctr[1], c2 = ctr[2], c3 = ctr[3];
    for (int i = 0; i < ROUNDS; i++) {
        uint64_t p0 = (uint64_t)0xD2511F53u * c0, p1 = (uint64_t)0xCD9E8D57u * c2;
        c0 = (uint32_t)(p1 >> 32) ^ c1 ^ k0;
        c1 = (uint32_t)p1;
        c2 = (uint32_t)(p0 >> 32) ^ c3 ^ k1;
        c3 = (uint32_t)p0;
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    out[0] = c0;
    out[1] = c1;
    out[2] = c2;
    out[3] = c3;
}

/* Whether the 64 random bits v give a number below n, which is then v % n. Values below 2^64 mod n are rejected, so
 * that the others give every remainder with equal probability. The first comparison nearly always spares a division. */
FLI_BOTH int fli_philox_fair(uint64_t v, uint64_t n) { return v >= n || v >= (0 - n) % n; }

/* 0 .. n-1 from 32 random bits; nearly equally likely, for small n. */
FLI_BOTH uint32_t fli_philox_part(uint32_t bits, uint32_t n) { return (uint32_t)((uint64_t)bits * n >> 32); }

/* The counter of one item in one of up to 2^24 epochs. */
FLI_BOTH void fli_philox_item(uint32_t purpose, uint32_t round, uint32_t client, uint32_t epoch, uint32_t item,
                              uint32_t ctr[4])
{
    ctr[0] = item;
    ctr[1] = purpose | epoch << 8;
    ctr[2] = round;
    ctr[3] = client;
}

#endif
