/* The generator against known answers, the distributions against their moments and distribution functions. Seeds are
 * fixed, so a test passes always or never; the limits are those of a test at about one in a hundred thousand. */
#include "check.h"
#include "base/rng.h"

enum { DRAWS = 100000 };

/* Kolmogorov-Smirnov: sqrt(n) D exceeds 2.47 with probability 2 exp(-2 * 2.47^2) = 1e-5. */
#define KS_LIMIT 2.47
/* A standard normal exceeds this with probability 7e-6. */
#define SIGMAS 4.5

static fli_rng stream(uint32_t client)
{
    fli_rng r;
    fli_rng_init(&r, 20240229, FLI_RNG_TEST, 0, client);
    return r;
}

/* ---- Philox4x32-10 --------------------------------------------------------------------------------------- */

/* The vectors published with Random123. */
static void matches_known_answers(void **state)
{
    static const struct {
        uint32_t ctr[4], key[2], out[4];
    } known[] = {
        {{0, 0, 0, 0}, {0, 0}, {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}},
        {{0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff},
         {0xffffffff, 0xffffffff},
         {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}},
        {{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344},
         {0xa4093822, 0x299f31d0},
         {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}},
    };
    (void)state;
    for (size_t i = 0; i < 3; i++) {
        fli_rng r = {0};
        memcpy(r.ctr, known[i].ctr, sizeof r.ctr);
        memcpy(r.key, known[i].key, sizeof r.key);
        for (int k = 0; k < 4; k++) assert_int_equal(fli_rng_u32(&r), known[i].out[k]);
    }
}

static void streams_are_keyed(void **state)
{
    (void)state;
    fli_rng base, again, other[5];
    uint64_t first[6];
    fli_rng_init(&base, 1, FLI_RNG_BATCH, 2, 3);
    fli_rng_init(&again, 1, FLI_RNG_BATCH, 2, 3);
    fli_rng_init(&other[0], 2, FLI_RNG_BATCH, 2, 3);
    fli_rng_init(&other[1], 1, FLI_RNG_STEPS, 2, 3);
    fli_rng_init(&other[2], 1, FLI_RNG_BATCH, 3, 3);
    fli_rng_init(&other[3], 1, FLI_RNG_BATCH, 2, 4);
    fli_rng_init(&other[4], 1 | UINT64_C(1) << 32, FLI_RNG_BATCH, 2, 3);
    first[5] = fli_rng_u64(&base);
    assert_true(first[5] == fli_rng_u64(&again));
    for (int i = 0; i < 5; i++) first[i] = fli_rng_u64(&other[i]);
    for (int i = 0; i < 6; i++)
        for (int k = 0; k < i; k++) assert_true(first[i] != first[k]);
    for (int i = 0; i < 1000; i++) assert_true(fli_rng_u64(&base) == fli_rng_u64(&again));
}

/* ---- distributions --------------------------------------------------------------------------------------- */

static int ascending(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* sqrt(n) sup |F_n - F|; sorts v. */
static double kolmogorov(double *v, size_t n, double (*cdf)(double))
{
    double d = 0;
    qsort(v, n, sizeof *v, ascending);
    for (size_t i = 0; i < n; i++) {
        double f = cdf(v[i]);
        d = fmax(d, fmax(f - (double)i / (double)n, (double)(i + 1) / (double)n - f));
    }
    return sqrt((double)n) * d;
}

/* Mean and variance of v against the truth, within SIGMAS; `fourth` is the fourth central moment. */
static void assert_moments(const double *v, size_t n, double mean, double variance, double fourth)
{
    double m = 0, s = 0;
    for (size_t i = 0; i < n; i++) m += v[i] / (double)n;
    for (size_t i = 0; i < n; i++) s += (v[i] - mean) * (v[i] - mean) / (double)n;
    assert_near(m, mean, SIGMAS * sqrt(variance / (double)n));
    assert_near(s, variance, SIGMAS * sqrt((fourth - variance * variance) / (double)n));
}

static double uniform_cdf(double x) { return x; }
static double normal_cdf(double x) { return 0.5 * erfc(-x / sqrt(2)); }
static double student3_cdf(double t)
{
    double u = t / sqrt(3);
    return 0.5 + (u / (1 + u * u) + atan(u)) / M_PI;
}
static double cauchy_cdf(double t) { return 0.5 + atan(t) / M_PI; }

/* The regularised lower incomplete gamma function by its power series: slow and plain, good for moderate x. */
static double gamma_cdf(double shape, double x)
{
    double term = 1 / shape, sum = term;
    if (x <= 0) return 0;
    for (int k = 1; k < 10000 && term > 1e-17 * sum; k++) sum += term *= x / (shape + k);
    return fmin(1, sum * exp(-x + shape * log(x) - lgamma(shape)));
}
static double gamma01_cdf(double x) { return gamma_cdf(0.1, x); }
static double gamma1_cdf(double x) { return -expm1(-x); }
static double gamma5_cdf(double x) { return gamma_cdf(5, x); }

static double draws[DRAWS];

static void draws_uniform(void **state)
{
    (void)state;
    fli_rng r = stream(1);
    for (size_t i = 0; i < DRAWS; i++) {
        draws[i] = fli_rng_uniform(&r);
        assert_true(draws[i] >= 0 && draws[i] < 1);
    }
    assert_moments(draws, DRAWS, 0.5, 1.0 / 12, 1.0 / 80);
    assert_true(kolmogorov(draws, DRAWS, uniform_cdf) < KS_LIMIT);
    for (size_t i = 0; i < DRAWS; i++) {
        double v = fli_rng_range(&r, -3, 5);
        assert_true(v >= -3 && v < 5);
        draws[i] = (v + 3) / 8;
    }
    assert_true(kolmogorov(draws, DRAWS, uniform_cdf) < KS_LIMIT);
}

static void draws_normal(void **state)
{
    (void)state;
    fli_rng r = stream(2);
    double together = 0;
    for (size_t i = 0; i < DRAWS; i++) draws[i] = fli_rng_normal(&r);
    for (size_t i = 0; i < DRAWS; i += 2) together += draws[i] * draws[i + 1]; /* the two of a pair are independent */
    assert_near(together / (DRAWS / 2), 0, SIGMAS / sqrt(DRAWS / 2));
    assert_moments(draws, DRAWS, 0, 1, 3);
    assert_true(kolmogorov(draws, DRAWS, normal_cdf) < KS_LIMIT);
}

static void draws_gamma(void **state)
{
    static const struct {
        double shape;
        double (*cdf)(double);
    } cases[] = {{0.1, gamma01_cdf}, {1, gamma1_cdf}, {5, gamma5_cdf}};
    (void)state;
    for (size_t c = 0; c < 3; c++) {
        fli_rng r = stream(3 + (uint32_t)c);
        double k = cases[c].shape;
        for (size_t i = 0; i < DRAWS; i++) {
            draws[i] = fli_rng_gamma(&r, k);
            assert_true(draws[i] >= 0 && isfinite(draws[i]));
        }
        assert_moments(draws, DRAWS, k, k, 3 * k * k + 6 * k);
        assert_true(kolmogorov(draws, DRAWS, cases[c].cdf) < KS_LIMIT);
    }
}

static void draws_student(void **state)
{
    (void)state;
    fli_rng r = stream(6);
    for (size_t i = 0; i < DRAWS; i++) draws[i] = fli_rng_student(&r, 3);
    assert_true(kolmogorov(draws, DRAWS, student3_cdf) < KS_LIMIT);
    for (size_t i = 0; i < DRAWS; i++) draws[i] = fli_rng_student(&r, 1);
    assert_true(kolmogorov(draws, DRAWS, cauchy_cdf) < KS_LIMIT);
}

/* The limits can fail: a wrong distribution is noticed. */
static void notices_wrong_draws(void **state)
{
    (void)state;
    fli_rng r = stream(7);
    for (size_t i = 0; i < DRAWS; i++) draws[i] = 1.05 * fli_rng_normal(&r);
    assert_true(kolmogorov(draws, DRAWS, normal_cdf) > KS_LIMIT);
    for (size_t i = 0; i < DRAWS; i++) draws[i] = fli_rng_gamma(&r, 0.11);
    assert_true(kolmogorov(draws, DRAWS, gamma01_cdf) > KS_LIMIT);
}

static void draws_dirichlet(void **state)
{
    static const double alphas[] = {1e-6, 1e-3, 0.1, 1, 100, 1e6};
    enum { N = 10, TIMES = 4000 };
    (void)state;
    for (size_t a = 0; a < sizeof alphas / sizeof *alphas; a++) {
        fli_rng r = stream(10 + (uint32_t)a);
        double mean[N] = {0}, square = 0, p[N];
        for (int t = 0; t < TIMES; t++) {
            double sum = 0;
            fli_rng_dirichlet(&r, alphas[a], N, p);
            for (int i = 0; i < N; i++) {
                assert_true(p[i] >= 0 && p[i] <= 1);
                sum += p[i];
                mean[i] += p[i] / TIMES;
                square += p[i] * p[i] / TIMES;
            }
            assert_near(sum, 1, 1e-12);
        }
        /* Var p_i = (1/N)(1 - 1/N) / (N alpha + 1), E sum p_i^2 = N Var + 1/N */
        double variance = (1.0 / N) * (1 - 1.0 / N) / (N * alphas[a] + 1);
        for (int i = 0; i < N; i++) assert_near(mean[i], 1.0 / N, SIGMAS * sqrt(variance / TIMES));
        assert_near(square, N * variance + 1.0 / N, 0.02 * N * variance + 1e-9);
    }
    double one;
    fli_rng r = stream(9);
    fli_rng_dirichlet(&r, 0.5, 1, &one);
    assert_true(one == 1);
}

/* ---- choosing -------------------------------------------------------------------------------------------- */

/* Every cell has the same expectation: the statistic against its mean and spread. */
static void assert_even(const size_t *count, size_t cells, double expected)
{
    double chi2 = 0, dof = (double)cells - 1;
    for (size_t i = 0; i < cells; i++) chi2 += ((double)count[i] - expected) * ((double)count[i] - expected) / expected;
    if (chi2 > dof + SIGMAS * sqrt(2 * dof) + 10) fail_msg("chi-square %g with %g degrees of freedom", chi2, dof);
}

static void draws_below(void **state)
{
    (void)state;
    fli_rng r = stream(20);
    size_t count[7] = {0};
    for (int i = 0; i < DRAWS; i++) {
        uint64_t v = fli_rng_below(&r, 7);
        assert_true(v < 7);
        count[v]++;
    }
    assert_even(count, 7, DRAWS / 7.0);
    for (int i = 0; i < 100; i++) assert_int_equal(fli_rng_below(&r, 1), 0);
    /* 2^63 + 1 rejects almost half of the raw numbers; without rejection the lower half would come twice as often. */
    uint64_t n = (UINT64_C(1) << 63) + 1;
    int low = 0;
    for (int i = 0; i < DRAWS; i++) {
        uint64_t v = fli_rng_below(&r, n);
        assert_true(v < n);
        low += v < n / 2;
    }
    assert_near(low, DRAWS / 2.0, SIGMAS * sqrt(DRAWS / 4.0));
}

static void permutes_evenly(void **state)
{
    (void)state;
    fli_rng r = stream(21);
    size_t count[24] = {0};
    uint32_t v[4];
    for (int i = 0; i < 24000; i++) {
        fli_rng_permutation(&r, 4, v);
        size_t rank = 0, seen = 0;
        for (int k = 0; k < 4; k++) {
            size_t smaller = 0;
            for (int j = k + 1; j < 4; j++) smaller += v[j] < v[k];
            rank = rank * (size_t)(4 - k) + smaller;
            seen |= (size_t)1 << v[k];
        }
        assert_int_equal(seen, 15);
        count[rank]++;
    }
    assert_even(count, 24, 1000);
    uint32_t *big = malloc(1000 * sizeof *big);
    char hit[1000] = {0};
    assert_non_null(big);
    fli_rng_permutation(&r, 1000, big);
    for (int i = 0; i < 1000; i++) hit[big[i]]++;
    for (int i = 0; i < 1000; i++) assert_int_equal(hit[i], 1);
    free(big);
    fli_rng_permutation(&r, 0, NULL);
}

static void assert_sample(const uint32_t *v, size_t n, size_t m)
{
    for (size_t i = 0; i < m; i++) {
        assert_true(v[i] < n);
        if (i) assert_true(v[i - 1] < v[i]);
    }
}

/* All subsets of a small set, in both regimes: few of many, and more than half. */
static void samples_subsets_evenly(void **state)
{
    static const struct {
        size_t n, m, subsets;
    } cases[] = {{7, 2, 21}, {6, 3, 20}, {8, 3, 56}, {5, 4, 5}, {9, 1, 9}};
    (void)state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        fli_rng r = stream(30 + (uint32_t)c);
        size_t by_mask[512] = {0}, count[64], used = 0, times = 1000 * cases[c].subsets;
        uint32_t v[8];
        for (size_t t = 0; t < times; t++) {
            size_t mask = 0;
            fli_rng_sample(&r, cases[c].n, cases[c].m, v);
            assert_sample(v, cases[c].n, cases[c].m);
            for (size_t i = 0; i < cases[c].m; i++) mask |= (size_t)1 << v[i];
            by_mask[mask]++;
        }
        for (size_t mask = 0; mask < 512; mask++)
            if (by_mask[mask]) count[used++] = by_mask[mask];
        assert_int_equal(used, cases[c].subsets);
        assert_even(count, used, 1000);
    }
}

/* Large cohorts take another way through the code; each element is equally likely there too. */
static void samples_large(void **state)
{
    static const size_t sizes[] = {100, 4096, 4097, 9000, 19999, 20000};
    enum { N = 20000, CELLS = 50 };
    (void)state;
    uint32_t *v = malloc(N * sizeof *v);
    assert_non_null(v);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
        fli_rng r = stream(40 + (uint32_t)s);
        size_t count[CELLS] = {0}, m = sizes[s];
        int times = 40;
        for (int t = 0; t < times; t++) {
            fli_rng_sample(&r, N, m, v);
            assert_sample(v, N, m);
            for (size_t i = 0; i < m; i++) count[v[i] / (N / CELLS)]++;
        }
        assert_even(count, CELLS, (double)times * (double)m / CELLS);
    }
    fli_rng r = stream(50);
    fli_rng_sample(&r, 4000000000u, 1000, v); /* few of very many costs little */
    assert_sample(v, 4000000000u, 1000);
    assert_true(v[999] > 3900000000u);
    fli_rng_sample(&r, 10, 0, v);
    fli_rng_sample(&r, 0, 0, v);
    free(v);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(matches_known_answers),
        cmocka_unit_test(streams_are_keyed),
        cmocka_unit_test(draws_uniform),
        cmocka_unit_test(draws_normal),
        cmocka_unit_test(draws_gamma),
        cmocka_unit_test(draws_student),
        cmocka_unit_test(notices_wrong_draws),
        cmocka_unit_test(draws_dirichlet),
        cmocka_unit_test(draws_below),
        cmocka_unit_test(permutes_evenly),
        cmocka_unit_test(samples_subsets_evenly),
        cmocka_unit_test(samples_large),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
