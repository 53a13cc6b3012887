/* Where [DR] and [GiA] print something that does not hold: each fault as numbers, and beside it what is true. Which of
 * the three factors of asyncFedDR's function is right is in test_asyncfeddr.c. The page is docs/theory.md. */
#include "one_dimension.h"

/* ---- [GiA] Lemma B.3 i) at k = 0 --------------------------------------------------------------------------- */

static void gia_draw(fli_rng *r, gia *g, int at_gradient)
{
    double most = 0, start = 3 * fli_rng_normal(r);
    *g = (gia){.m = 1 + (size_t)fli_rng_below(r, MOST)};
    for (size_t i = 0; i < g->m; i++) {
        g->r[i] = exp(between(r, -2, 2));
        g->h[i] = g->r[i];
        g->b[i] = 3 * fli_rng_normal(r);
        most = fmax(most, g->r[i]);
    }
    g->sigma = between(r, 6.01, 12) * most / (double)g->m;
    for (size_t i = 0; i < g->m; i++) {
        g->x[i] = start;
        g->pi[i] = at_gradient ? -gia_gradient(g, i, start) : 0;
    }
    g->bar = start;
}

/* Whether L falls in all of 20 rounds of k0 steps, from the first change that counts on. */
static int gia_falls(gia *g, fli_rng *r, size_t k0, int first)
{
    unsigned chosen = 0;
    for (size_t k = 0; k < 20 * k0; k++) {
        double before = gia_lagrangian(g);
        if (k % k0 == 0) {
            gia_average(g);
            chosen = (unsigned)fli_rng_below(r, 1U << g->m);
        }
        gia_step(g, chosen);
        if ((k > 0 || first) && gia_lagrangian(g) > before + 1e-12 * (1 + fabs(before))) return 0;
    }
    return 1;
}

/* pi^0 = 0 is not what (34) says of pi^k for k >= 1, and Lemma B.2 compares pi^1 with it. Where f_i is as curved as H_i
 * = r_i I, L^1 - L^0 is sum over C of (sigma - r_i/m)/2 ||x_i^1 - x||^2 > 0: with everyone in C the very first step
 * always raises L, by at most sum ||grad f_i(x^0)||^2/(2 m^2 sigma). From L^1 on it falls; and from L^0, if pi_i^0 =
 * -grad f_i(x^0)/m. */
static void gia_first_step(void **state)
{
    fli_rng r;
    size_t rises = 0;
    (void)state;
    fli_rng_init(&r, 1, FLI_RNG_TEST, 0, 0);
    for (size_t k = 0; k < 2000; k++) {
        gia g;
        double want = 0, most = 0;
        gia_draw(&r, &g, 0);
        double before = gia_lagrangian(&g);
        gia_average(&g);
        gia_step(&g, (1U << g.m) - 1);
        for (size_t i = 0; i < g.m; i++) {
            want += (g.sigma - g.r[i] / (double)g.m) / 2 * pow(g.x[i] - g.bar, 2);
            most += pow(gia_gradient(&g, i, g.bar), 2) / (2 * g.sigma);
        }
        double rise = gia_lagrangian(&g) - before;
        assert_near(rise, want, 1e-9 * (1 + fabs(before)));
        assert_true(rise <= most * (1 + 1e-9) + 1e-12);
        rises += rise > 0;
        gia_draw(&r, &g, 0);
        assert_true(gia_falls(&g, &r, 1 + (size_t)fli_rng_below(&r, 4), 0));
        gia_draw(&r, &g, 1);
        assert_true(gia_falls(&g, &r, 1 + (size_t)fli_rng_below(&r, 4), 1));
    }
    printf(
        "the first step raises L in %zu of 2000 problems; from L^1 on it never rises, nor from pi_i^0 = -grad f_i/m\n",
        rises);
    assert_int_equal(rises, 2000);
}

/* ---- [DR] Theorem 3.1, Theorem A.1 ------------------------------------------------------------------------- */

static double feddr_draw(fli_rng *r, feddr *d)
{
    double l = 0, x0 = 3 * fli_rng_normal(r);
    *d = (feddr){.n = 1 + (size_t)fli_rng_below(r, MOST), .alpha = 1};
    for (size_t i = 0; i < d->n; i++)
        d->h[i] = exp(between(r, -1, 3)), d->b[i] = 3 * fli_rng_normal(r), l = fmax(l, d->h[i]);
    d->eta = between(r, 0.05, 0.49) / l;
    feddr_begin(d, x0);
    return l;
}

/* The proof of Theorem 3.1 takes V^0 = F(x^0) "from x_i^0 = x^0"; Algorithm 1 begins with x_i^0 = prox(y_i^0), without
 * which (21) is false. Then V^0 > F(x^0) for a single convex quadratic with L eta < 1, and in general V^0 - F(x^0) <=
 * eta (1 + L eta)/(2 n) sum ||grad f_i(x_i^0)||^2. */
static void feddr_v_0(void **state)
{
    fli_rng r;
    size_t above = 0;
    (void)state;
    fli_rng_init(&r, 2, FLI_RNG_TEST, 0, 0);
    for (size_t k = 0; k < 2000; k++) {
        feddr d;
        double l = feddr_draw(&r, &d), most = 0, rise = feddr_potential(&d) - feddr_f(&d, d.bar);
        for (size_t i = 0; i < d.n; i++)
            most += d.eta * (1 + l * d.eta) / (2 * (double)d.n) * pow(d.h[i] * d.x[i] - d.b[i], 2);
        above += rise > 0;
        assert_true(rise <= most * (1 + 1e-9));
        if (d.n == 1) assert_true(rise > 0);
    }
    printf("V^0 is above F(x^0) in %zu of 2000 problems\n", above);
    assert_int_equal(above, 2000);
}

/* (43) has C~ of (44) where its proof, (46) and (49), gives 1/C~. With exact solutions theta is 0; gamma_4 = 0.01. */
static void feddr_43(void **state)
{
    fli_rng r;
    double printed = 0, right = 0;
    (void)state;
    fli_rng_init(&r, 3, FLI_RNG_TEST, 0, 0);
    for (size_t k = 0; k < 500; k++) {
        feddr d;
        double l = feddr_draw(&r, &d), u = l * d.eta, mean = 0, g4 = 0.01;
        double most = (sqrt(1 + 8 * (1 + 2 * g4) * (1 - 4 * g4)) - 1) / (4 * (1 + 2 * g4)); /* (42) */
        if (!(u < most)) continue;
        double c = d.eta * (1 - u - 2 * u * u - 4 * g4 * (1 + u * u)) / (16 * (1 + u * u) * (1 + u) * (1 + u));
        double slope = 0, offset = 0, v0 = feddr_potential(&d);
        for (size_t i = 0; i < d.n; i++) slope += d.h[i] / (double)d.n, offset += d.b[i] / (double)d.n;
        double least = feddr_f(&d, offset / slope), gap = feddr_f(&d, d.bar) - least;
        for (size_t round = 0; round < 10; round++) {
            mean += pow(feddr_gradient(&d, d.bar), 2) / 10;
            feddr_round(&d, (1U << d.n) - 1);
        }
        printed = fmax(printed, mean / (c * gap / 10));
        right = fmax(right, mean / ((v0 - least) / c / 10));
    }
    printf("mean ||G_eta||^2 is up to %.3g times (43) as printed, and up to %.3g times with 1/C~ and V^0\n", printed,
           right);
    assert_true(printed > 100 && right <= 1);
}

/* ---- [DR] Lemma B.2: the printed etabar -------------------------------------------------------------------- */

static async async_draw(fli_rng *r, double alpha, double eta, int convex)
{
    async a = {.alpha = alpha, .eta = eta};
    for (size_t i = 0; i < CLIENTS; i++) {
        a.h[i] = convex ? between(r, 0, 1) : fli_rng_below(r, 2) ? 1 : -1;
        a.y[i] = fli_rng_normal(r);
    }
    async_begin(&a);
    return a;
}

static void async_random_step(async *a, fli_rng *r)
{
    async_step(a, (size_t)fli_rng_below(r, CLIENTS), (size_t)fli_rng_below(r, (a->steps < TAU ? a->steps : TAU) + 1));
}

/* The largest rise of V~, relative to the sum of the squares that the state has, from many random starts. */
static double async_rise(double alpha, double eta, int convex)
{
    fli_rng r;
    double most = -INFINITY;
    fli_rng_init(&r, 4, FLI_RNG_TEST, 0, 0);
    for (size_t k = 0; k < 3000; k++) {
        async a = async_draw(&r, alpha, eta, convex);
        for (size_t t = 0; t < 12; t++) {
            double before = async_potential(&a), size = 1e-9;
            for (size_t i = 0; i < CLIENTS; i++) size += a.x[i] * a.x[i];
            async_random_step(&a, &r);
            most = fmax(most, (async_potential(&a) - before) / size);
        }
    }
    return most;
}

static void async_etabar(void **state)
{
    const double n = CLIENTS, tau = TAU, c = (2 * tau * tau - n) / (n * n);
    (void)state;
    for (double alpha = 0.05; alpha < 2 / (2 + c); alpha += 0.02) { /* which of the two is the root */
        double u = etabar(alpha, c, 12), w = etabar(alpha, c, 4);
        assert_near(alpha * u + (2 + (1 + c) * alpha) * u * u, 2 - (2 + c) * alpha, 1e-12);
        assert_true(alpha * w + (2 + (1 + c) * alpha) * w * w > 2 - (2 + c) * alpha);
    }
    double printed = -INFINITY, convex = -INFINITY, any = -INFINITY;
    for (double share = 0.5; share < 1; share += 0.245) {
        double alpha = share * 2 / (2 + c);
        printed = fmax(printed, async_rise(alpha, 0.99 * etabar(alpha, c, 4), 0));
        convex = fmax(convex, async_rise(alpha, 0.99 * etabar(alpha, c, 12), 1));
        alpha = share * 2 / (2 + 2 * c);
        any = fmax(any, async_rise(alpha, 0.99 * etabar(alpha, 2 * c, 12), 0));
    }
    printf("V~ rises by %.2g under (63) as printed, by %.2g with 12 c and convex f_i, by %.2g with c doubled\n",
           printed, convex, any);
    assert_true(printed > 1e-3 && convex < 1e-12 && any < 1e-12);
}

/* (74) sums V~^t - V~^{t+1} over t from k - tau to k + T and over k from 0 to K, and bounds that by V~^0 - V~^{K+T+1}.
 * Each difference is there up to T + tau + 1 times: that factor is lost. V~^t before the start is V~^0. */
static void async_74(void **state)
{
    enum { ROUNDS = 40, LATE = 4 };
    fli_rng r;
    double most = 0;
    (void)state;
    fli_rng_init(&r, 5, FLI_RNG_TEST, 0, 0);
    for (size_t k = 0; k < 200; k++) {
        double v[ROUNDS + LATE + 2], sum = 0, alpha = 0.25;
        async a = async_draw(&r, alpha, 0.9 * etabar(alpha, 4, 12), 1);
        for (size_t t = 0; t < sizeof v / sizeof *v; t++) {
            v[t] = async_potential(&a);
            async_random_step(&a, &r);
        }
        for (int from = 0; from <= ROUNDS; from++)
            for (int t = from - TAU > 0 ? from - TAU : 0; t <= from + LATE; t++) sum += v[t] - v[t + 1];
        double end = v[0] - v[ROUNDS + LATE + 1];
        assert_true(sum <= (LATE + TAU + 1) * end);
        most = fmax(most, sum / end);
    }
    printf("the double sum of (74) is up to %.3g times its bound; T + tau + 1 = %d\n", most, LATE + TAU + 1);
    assert_true(most > 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(gia_first_step), cmocka_unit_test(feddr_v_0),
                                       cmocka_unit_test(feddr_43), cmocka_unit_test(async_etabar),
                                       cmocka_unit_test(async_74)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
