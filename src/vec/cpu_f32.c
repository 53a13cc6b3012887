/* Single precision on the CPU. */
#include <stdint.h>
#include <string.h>

/* e^x for x <= 0 without a call, so that loops over it become vectors; within two units of the last place, 0 below the
 * smallest normal number, NaN for NaN. With k = x/ln 2 rounded (adding 1.5 2^23 rounds, and leaves k in the last bits),
 * r = x - k ln 2: e^x = 2^k e^r, and e^r = 1 + r + r^2 p(r) with the polynomial of Cephes' expf. */
static inline float exp_below_0(float x)
{
    const float rounder = 12582912.0f;
    float shifted = x * 1.44269504f + rounder, k = shifted - rounder, power;
    float r = x - k * 0.693359375f + k * 2.12194440e-4f;
    float p = 1.9875691500e-4f;
    uint32_t bits;
    p = p * r + 1.3981999507e-3f;
    p = p * r + 8.3334519073e-3f;
    p = p * r + 4.1665795894e-2f;
    p = p * r + 1.6666665459e-1f;
    p = p * r + 5.0000001201e-1f;
    memcpy(&bits, &shifted, sizeof bits);
    bits = (bits + 127) << 23;
    memcpy(&power, &bits, sizeof power);
    return x < -87.0f ? 0 : (1 + (r + r * r * p)) * power;
}

#include "vec/real_f32.h"
#define REAL_EXP  exp_below_0
#define REAL_GEMM cblas_sgemm
#define REAL_GEMV cblas_sgemv
#define OPS       LEVELLED(fli_ops_f32)
#define OPS_NAME  "f32"
#define OPS_IMAGE LEVELLED(fli_image_f32)
#include "vec/cpu.inc"
