/* Whole numbers and reals as little-endian bytes, on every machine. Each call returns the position after its bytes. */
#ifndef FLI_BASE_BYTES_H
#define FLI_BASE_BYTES_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

static inline unsigned char *fli_put_u64(unsigned char *out, uint64_t v, size_t bytes)
{
    for (size_t i = 0; i < bytes; i++) *out++ = (unsigned char)(v >> 8 * i);
    return out;
}

static inline const unsigned char *fli_get_u64(const unsigned char *in, uint64_t *v, size_t bytes)
{
    *v = 0;
    for (size_t i = 0; i < bytes; i++) *v |= (uint64_t)*in++ << 8 * i;
    return in;
}

static inline unsigned char *fli_put_real(unsigned char *out, double v)
{
    uint64_t bits;
    memcpy(&bits, &v, sizeof bits);
    return fli_put_u64(out, bits, sizeof bits);
}

static inline const unsigned char *fli_get_real(const unsigned char *in, double *v)
{
    uint64_t bits;
    in = fli_get_u64(in, &bits, sizeof bits);
    memcpy(v, &bits, sizeof bits);
    return in;
}

#endif
