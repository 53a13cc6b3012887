#include "base/rng.h"

#include "base/philox.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

void fli_rng_init(fli_rng *r, uint64_t seed, fli_rng_purpose purpose, uint32_t round, uint32_t client)
{
    memset(r, 0, sizeof *r);
    r->key[0] = (uint32_t)seed;
    r->key[1] = (uint32_t)(seed >> 32);
    r->ctr[1] = (uint32_t)purpose;
    r->ctr[2] = round;
    r->ctr[3] = client;
}

void fli_rng_item(const fli_rng *like, fli_rng_purpose purpose, uint32_t epoch, uint32_t item, fli_rng *r)
{
    fli_rng_init(r, like->key[0] | (uint64_t)like->key[1] << 32, purpose, like->ctr[2], like->ctr[3]);
    fli_philox_item(purpose, like->ctr[2], like->ctr[3], epoch, item, r->ctr);
}

uint32_t fli_rng_u32(fli_rng *r)
{
    if (!r->left) {
        fli_philox(r->key, r->ctr, r->out);
        r->ctr[0]++;
        r->left = 4;
    }
    return r->out[4 - r->left--];
}

uint64_t fli_rng_u64(fli_rng *r)
{
    uint64_t lo = fli_rng_u32(r);
    return lo | (uint64_t)fli_rng_u32(r) << 32;
}

double fli_rng_uniform(fli_rng *r) { return (double)(fli_rng_u64(r) >> 11) * 0x1p-53; }

double fli_rng_range(fli_rng *r, double lo, double hi) { return lo + (hi - lo) * fli_rng_uniform(r); }

uint64_t fli_rng_below(fli_rng *r, uint64_t n)
{
    for (;;) {
        uint64_t v = fli_rng_u64(r);
        if (fli_philox_fair(v, n)) return v % n;
    }
}

double fli_rng_normal(fli_rng *r)
{
    if (r->has_spare) {
        r->has_spare = 0;
        return r->spare;
    }
    double u = 1.0 - fli_rng_uniform(r); /* (0, 1]: log is finite */
    double radius = sqrt(-2.0 * log(u)), angle = 6.283185307179586477 * fli_rng_uniform(r);
    r->spare = radius * sin(angle);
    r->has_spare = 1;
    return radius * cos(angle);
}

/* The log of a Gamma(shape) draw: below shape 1 the draw may underflow, its logarithm does not. */
static double log_gamma_draw(fli_rng *r, double shape)
{
    double boost = 0;
    if (shape < 1) {
        boost = log(1.0 - fli_rng_uniform(r)) / shape;
        shape += 1;
    }
    double d = shape - 1.0 / 3, c = 1 / sqrt(9 * d);
    for (;;) {
        double x = fli_rng_normal(r), v = 1 + c * x;
        if (v <= 0) continue;
        v = v * v * v;
        if (log(1.0 - fli_rng_uniform(r)) < 0.5 * x * x + d - d * v + d * log(v)) return log(d * v) + boost;
    }
}

double fli_rng_gamma(fli_rng *r, double shape) { return exp(log_gamma_draw(r, shape)); }

void fli_rng_dirichlet(fli_rng *r, double alpha, size_t n, double *p)
{
    double top = -INFINITY, sum = 0;
    for (size_t i = 0; i < n; i++) {
        p[i] = log_gamma_draw(r, alpha);
        if (p[i] > top) top = p[i];
    }
    for (size_t i = 0; i < n; i++) sum += p[i] = exp(p[i] - top);
    for (size_t i = 0; i < n; i++) p[i] /= sum;
}

double fli_rng_student(fli_rng *r, double dof)
{
    double z = fli_rng_normal(r);
    return z / sqrt(2 * fli_rng_gamma(r, dof / 2) / dof);
}

void fli_rng_shuffle(fli_rng *r, size_t n, uint32_t *v)
{
    for (size_t i = n; i > 1; i--) {
        size_t j = (size_t)fli_rng_below(r, i);
        uint32_t t = v[i - 1];
        v[i - 1] = v[j];
        v[j] = t;
    }
}

void fli_rng_permutation(fli_rng *r, size_t n, uint32_t *v)
{
    for (size_t i = 0; i < n; i++) v[i] = (uint32_t)i;
    fli_rng_shuffle(r, n, v);
}

/* First position in sorted v[0..k) whose value is >= x. */
static size_t lower_bound(const uint32_t *v, size_t k, uint32_t x)
{
    size_t lo = 0;
    while (lo < k) {
        size_t mid = lo + (k - lo) / 2;
        if (v[mid] < x)
            lo = mid + 1;
        else
            k = mid;
    }
    return lo;
}

/* Takes each of 0 .. n-1 with the probability that makes every subset equally likely (Knuth's algorithm S). */
static void sample_by_walk(fli_rng *r, size_t n, size_t m, uint32_t *v)
{
    for (size_t i = 0, k = 0; k < m; i++)
        if (fli_rng_below(r, n - i) < m - k) v[k++] = (uint32_t)i;
}

/* Floyd's algorithm on a sorted array: for j = n-m .. n-1 take t <= j at random, or j if t was taken before. */
static void sample_by_insertion(fli_rng *r, size_t n, size_t m, uint32_t *v)
{
    for (size_t k = 0; k < m; k++) {
        uint32_t j = (uint32_t)(n - m + k), t = (uint32_t)fli_rng_below(r, (uint64_t)j + 1);
        size_t at = lower_bound(v, k, t);
        if (at < k && v[at] == t) {
            v[k] = j; /* larger than all so far */
            continue;
        }
        memmove(v + at + 1, v + at, (k - at) * sizeof *v);
        v[at] = t;
    }
}

void fli_rng_sample(fli_rng *r, size_t n, size_t m, uint32_t *v)
{
    enum { INSERTION_MAX = 4096 }; /* for more, moving the sorted tail costs more than walking over n */
    if (m <= INSERTION_MAX && m < n / 2)
        sample_by_insertion(r, n, m, v);
    else
        sample_by_walk(r, n, m, v);
}
