/* Samples as models see them: the sample of a mini-batch's row, and the normalised value of a feature, with the bits of
 * the CPU (data/dataset.c, data/images.c): every product is rounded before an addition.
 *
 * In most data sets a feature is one read (fli_stored_value, if fli_data_simple). For images that are cropped,
 * augmented, or scaled by their own mean, a warp first opens the sample. */
#ifndef FLI_CUDA_SAMPLE_CUH
#define FLI_CUDA_SAMPLE_CUH

#include "base/rng.h"
#include "cuda/kernels/kernel.cuh"
#include "cuda/kernels/kernels.h"
#include "data/augment.h"

/* ---- arithmetic, a rounding after each operation --------------------------------------------------------- */

static __device__ __forceinline__ float fli_mul_add(float a, float b, float c) { return __fadd_rn(__fmul_rn(a, b), c); }
static __device__ __forceinline__ double fli_mul_add(double a, double b, double c)
{
    return __dadd_rn(__dmul_rn(a, b), c);
}

/* Byte i of a word as a float: put into the low bits of 2^23, which is then subtracted. */
static __device__ __forceinline__ float fli_byte(uint32_t word, uint32_t i)
{
    return __uint_as_float(__byte_perm(word, 0x4b000000u, 0x7440u + i)) - 8388608.0f;
}

/* ---- the sample of a row --------------------------------------------------------------------------------- */

/* Rows of the mini-batch of a step: plain ones, then rest ones. */
static __device__ __forceinline__ uint32_t fli_rows_plain(const fli_cuda_lane *l, uint32_t step)
{
    return fli_cuda_drawn(l->n, l->size, step);
}
static __device__ __forceinline__ uint32_t fli_rows_rest(const fli_cuda_lane *l, uint32_t step)
{
    return fli_cuda_drawn(l->rest_n, l->rest_size, step);
}
/* The number of row r's sample. */
static __device__ __forceinline__ uint32_t fli_row_sample(const fli_cuda_lane *l, uint32_t step, uint32_t r)
{
    uint32_t plain = fli_rows_plain(l, step);
    if (r < plain) return l->order[(size_t)step * l->stride + r];
    return l->rest_sample[l->rest[(size_t)step * l->rest_stride + (r - plain)]];
}
/* Its epoch. */
static __device__ __forceinline__ uint32_t fli_row_epoch(const fli_cuda_lane *l, uint32_t step, uint32_t r)
{
    if (r < fli_rows_plain(l, step)) return fli_cuda_epoch(l->n, l->size, step);
    return fli_cuda_epoch(l->rest_n, l->rest_size, step);
}

/* ---- features of simple sets ----------------------------------------------------------------------------- */

static inline int fli_data_simple(const fli_cuda_data *d, int augmented)
{
    return !d->frame[0] && !d->each && !(augmented && d->augment);
}

/* A stored value, scaled. Of features that have a scale each (single) the arithmetic is in double precision. */
template <class REAL, class STORED>
static __device__ __forceinline__ REAL fli_scaled(STORED v, double scale, double shift, int single)
{
    if (single) return (REAL)fli_mul_add((double)v, scale, shift);
    return fli_mul_add((REAL)v, (REAL)scale, (REAL)shift);
}

/* Features of one run. */
static __device__ __forceinline__ uint32_t fli_data_run(const fli_cuda_data &d)
{
    return d.scale ? (uint32_t)(d.length / d.segments) : (uint32_t)d.length;
}

/* Feature j, whose stored value is v. run: fli_data_run. */
template <class REAL, class STORED>
static __device__ __forceinline__ REAL fli_feature(const fli_cuda_data &d, uint32_t run, STORED v, uint32_t j)
{
    if (!d.scale) return (REAL)v;
    uint32_t s = j / run;
    return fli_scaled<REAL, STORED>(v, d.scale[s], d.shift[s], run == 1);
}

/* Feature j of a sample, of a simple set. */
template <class REAL, class STORED>
static __device__ __forceinline__ REAL fli_stored_value(const fli_cuda_data &d, uint32_t run, uint32_t sample,
                                                        uint32_t j)
{
    return fli_feature<REAL, STORED>(d, run, ((const STORED *)d.x)[(size_t)sample * d.length + j], j);
}

/* ---- images ---------------------------------------------------------------------------------------------- */

/* An open sample: the start of its values, its visible part and, for sets scaled by `each`, its own scale. */
typedef struct {
    size_t first;
    fli_crop crop;
    double scale, shift;
} fli_sample;

static __device__ __forceinline__ fli_crop_sizes fli_data_sizes(const fli_cuda_data &d)
{
    fli_crop_sizes z = {d.shape[1], d.shape[2], d.frame[0], d.frame[1]};
    return z;
}

/* The part of a sample that training sees in an epoch. */
static __device__ __forceinline__ fli_crop fli_crop_training(const fli_cuda_data &d, const fli_cuda_lane *l,
                                                             uint32_t sample, uint32_t epoch)
{
    const fli_crop_sizes z = fli_data_sizes(d);
    uint32_t ctr[4], bits[4];
    fli_philox_item(FLI_RNG_AUGMENT, l->round, l->client, epoch, d.number ? d.number[sample] : d.from + sample, ctr);
    fli_philox(l->key, ctr, bits);
    return fli_crop_random((int)d.augment, d.still, &z, bits);
}

enum { FLI_WARP = 32 };
#define FLI_ALL_OF_WARP 0xffffffffu

static __device__ __forceinline__ unsigned long long fli_warp_sum(unsigned long long v)
{
    for (int k = FLI_WARP / 2; k; k /= 2) v += __shfl_xor_sync(FLI_ALL_OF_WARP, v, k);
    return v;
}

/* Sums over the visible part, by all threads of a warp; all get the result. */
typedef struct {
    fli_crop_part part;
    uint32_t lines, line, plane; /* lines seen in all channels, values in a stored line, in a stored channel */
} fli_area;

static __device__ __forceinline__ fli_area fli_area_of(const fli_cuda_data &d, const fli_crop *l)
{
    const fli_crop_sizes z = fli_data_sizes(d);
    fli_area a;
    a.part = fli_crop_seen(&z, l);
    a.lines = d.shape[0] * (a.part.bottom - a.part.top);
    a.line = d.frame[0] ? d.frame[1] : d.shape[2];
    a.plane = d.frame[0] ? d.frame[0] * d.frame[1] : d.shape[1] * d.shape[2];
    return a;
}

/* Where line k of those starts. */
static __device__ __forceinline__ uint32_t fli_area_line(const fli_area &a, uint32_t k)
{
    uint32_t height = a.part.bottom - a.part.top;
    return k / height * a.plane + (a.part.top + k % height) * a.line + a.part.left;
}

static __device__ __forceinline__ void fli_byte_moments(unsigned long long sum, unsigned long long squares, double n,
                                                        double *mean, double *var)
{
    double s = (double)sum;
    *mean = s / n;
    *var = fli_mul_add((double)squares, n, -fli_mul_add(s, s, 0.0)) / (n * n);
}

/* Of bytes: whole numbers, so the order is free. */
static __device__ __forceinline__ void fli_moments(const uint8_t *x, const fli_area &a, double n, double, unsigned lane,
                                                   double *mean, double *var)
{
    unsigned long long sum = 0, squares = 0;
    uint32_t width = a.part.right - a.part.left;
    for (uint32_t k = 0; k < a.lines; k++) {
        const uint8_t *line = x + fli_area_line(a, k);
        for (uint32_t i = lane; i < width; i += FLI_WARP) {
            sum += line[i];
            squares += (uint32_t)line[i] * line[i];
        }
    }
    fli_byte_moments(fli_warp_sum(sum), fli_warp_sum(squares), n, mean, var);
}

/* Of reals: the lines in their order, and every line in its own. */
template <class STORED>
static __device__ __forceinline__ void fli_moments(const STORED *x, const fli_area &a, double n, double inside,
                                                   unsigned lane, double *mean, double *var)
{
    uint32_t width = a.part.right - a.part.left;
    *mean = 0;
    for (int pass = 0; pass < 2; pass++) {
        double sum = 0;
        for (uint32_t from = 0; from < a.lines; from += FLI_WARP) {
            double mine = 0;
            for (uint32_t i = 0; from + lane < a.lines && i < width; i++) {
                double v = (double)x[fli_area_line(a, from + lane) + i];
                mine = pass ? fli_mul_add(v - *mean, v - *mean, mine) : mine + v;
            }
            for (uint32_t k = 0; k < FLI_WARP && from + k < a.lines; k++)
                sum += __shfl_sync(FLI_ALL_OF_WARP, mine, (int)k);
        }
        if (pass)
            *var = fli_mul_add(fli_mul_add(n - inside, *mean, 0.0), *mean, sum) / n;
        else
            *mean = sum / n;
    }
}

/* The scale of a sample with n values of this mean and variance. */
static __device__ __forceinline__ void fli_sample_scale(fli_sample *s, double n, double mean, double var)
{
    s->scale = 1 / fmax(sqrt(var), 1 / sqrt(n));
    s->shift = -mean * s->scale;
}

/* Sample number `sample` as `crop` shows it. All threads of a warp call it together; lane: the thread's place in
 * it. */
template <class STORED>
static __device__ __forceinline__ fli_sample fli_sample_open(const fli_cuda_data &d, uint32_t sample, fli_crop crop,
                                                             unsigned lane)
{
    fli_sample s = {(size_t)sample * d.length, crop, 0, 0};
    if (!d.each) return s;
    const fli_area a = fli_area_of(d, &crop);
    double n = (double)d.dim, mean, var;
    double inside = (double)a.lines * (double)(a.part.right - a.part.left);
    fli_moments((const STORED *)d.x + s.first, a, n, inside, lane, &mean, &var);
    fli_sample_scale(&s, n, mean, var);
    return s;
}

/* The value at channel c, line y, column x of the visible part. */
template <class REAL, class STORED>
static __device__ __forceinline__ REAL fli_sample_value(const fli_cuda_data &d, const fli_sample &s, uint32_t c,
                                                        uint32_t y, uint32_t x)
{
    const fli_crop &l = s.crop;
    int32_t row = (int32_t)y - l.down, col = (int32_t)x - l.right;
    int inside = row >= 0 && row < (int32_t)d.shape[1] && col >= 0 && col < (int32_t)d.shape[2];
    if (l.mirror) col = (int32_t)d.shape[2] - 1 - col;
    uint32_t line = d.frame[0] ? d.frame[1] : d.shape[2], lines = d.frame[0] ? d.frame[0] : d.shape[1];
    /* values outside of the image use the scale of their target, because cropped images are not moved */
    uint32_t place =
        inside ? (c * lines + l.top + (uint32_t)row) * line + l.left + (uint32_t)col : (c * lines + y) * line + x;
    uint32_t run = d.each ? (uint32_t)d.length : fli_data_run(d), k = place / run;
    int scaled = d.each || d.scale;
    double scale = d.each ? s.scale : scaled ? d.scale[k] : 1, shift = d.each ? s.shift : scaled ? d.shift[k] : 0;
    if (!inside) return (REAL)shift;
    STORED v = ((const STORED *)d.x)[s.first + place];
    if (!scaled) return (REAL)v;
    return fli_scaled<REAL, STORED>(v, scale, shift, run == 1 || (d.frame[0] && d.shape[2] == 1));
}

#endif
