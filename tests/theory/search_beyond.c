/* How far from necessary conditions are: problems in which settings lie beyond one condition by a factor, and all
 * others hold, are searched for a rise of the function that the theorem shows to fall. The search is Nelder and Mead's,
 * from random starts. Conditions are sufficient, so what is found is printed and not asserted. Not part of a test run:
 *
 *     cmake --build build --target search_beyond && build/tests/search_beyond [NAME [RESTARTS]]
 *
 * Problems are quadratics in one dimension with up to four clients; with sampling the function's mean over all cohorts
 * is looked at. A line with "nothing found" says just that. */
#include "one_dimension.h"
#include "twin.h"

enum { MOST_P = 16, ROUNDS = 6 };

/* The rise of the function, relative to its size, at parameters p in (0, 1) with the settings beyond by this factor. */
typedef double rise_fn(const double *p, double factor);

typedef struct {
    const char *name, *what;
    size_t parameters;
    rise_fn *rise;
} condition;

/* ---- the search -------------------------------------------------------------------------------------------- */

static double at(const condition *c, const double *z, double factor)
{
    double p[MOST_P];
    for (size_t j = 0; j < c->parameters; j++) p[j] = 1 / (1 + exp(-z[j]));
    double rise = c->rise(p, factor);
    return isnan(rise) ? -INFINITY : rise;
}

/* Nelder and Mead's simplex, upwards; z becomes the best point, and its value is returned. */
static double climb(const condition *c, double *z, double factor, size_t evaluations)
{
    size_t n = c->parameters;
    double v[MOST_P + 1][MOST_P], f[MOST_P + 1];
    for (size_t i = 0; i <= n; i++) {
        memcpy(v[i], z, n * sizeof *z);
        if (i) v[i][i - 1] += 1;
        f[i] = at(c, v[i], factor);
    }
    for (size_t used = n + 1; used < evaluations; used += 2) {
        double mean[MOST_P] = {0}, next[MOST_P];
        size_t low = 0, high = 0;
        for (size_t i = 1; i <= n; i++) low = f[i] < f[low] ? i : low, high = f[i] > f[high] ? i : high;
        for (size_t i = 0; i <= n; i++)
            for (size_t j = 0; j < n && i != low; j++) mean[j] += v[i][j] / (double)n;
        static const double ways[] = {1, 2, -0.5, 0.5};
        int better = 0;
        for (size_t w = 0; w < 4 && !better; w++) {
            for (size_t j = 0; j < n; j++) next[j] = mean[j] + ways[w] * (mean[j] - v[low][j]);
            double g = at(c, next, factor);
            used++;
            if (!(g > f[low])) continue;
            better = 1;
            f[low] = g;
            memcpy(v[low], next, sizeof next);
        }
        for (size_t i = 0; i <= n && !better; i++) {
            for (size_t j = 0; j < n; j++) v[i][j] = (v[i][j] + v[high][j]) / 2;
            f[i] = at(c, v[i], factor);
        }
    }
    size_t best = 0;
    for (size_t i = 1; i <= n; i++)
        if (f[i] > f[best]) best = i;
    memcpy(z, v[best], n * sizeof *z);
    return f[best];
}

static void search(const condition *c, size_t restarts)
{
    static const double factors[] = {1, 1.05, 1.2, 1.5, 2, 3, 5, 10, 30, 100};
    printf("%s, %s\n", c->name, c->what);
    for (size_t k = 0; k < sizeof factors / sizeof *factors; k++) {
        double most = -INFINITY;
        size_t seed = 0;
        for (size_t s = 0; s < restarts; s++) {
            double z[MOST_P];
            fli_rng r;
            fli_rng_init(&r, s, FLI_RNG_TEST, 0, 0);
            for (size_t j = 0; j < c->parameters; j++) z[j] = 2 * fli_rng_normal(&r);
            double rise = climb(c, z, factors[k], 300);
            if (rise > most) most = rise, seed = s;
        }
        if (most > 1e-9)
            printf("  beyond by factor %-4g: rises by %.3g of its size, seed %zu\n", factors[k], most, seed);
        else
            printf("  beyond by factor %-4g: nothing found\n", factors[k]);
        fflush(stdout);
    }
}

static double size_of(double low, double high, double p) { return low * pow(high / low, p); }

/* ---- [VRA] Theorem 1 --------------------------------------------------------------------------------------- */

typedef struct {
    twin t;
    vra_settings v;
    double row[3], value[3], l[3], x;
    sampling how;
} vra_problem;

/* Two or three clients; gamma_i as (17) has them, or one for all, times what makes the averaged condition tight, over
 * `factor`. */
static void vra_make(const double *p, int sampled, vra_problem *f)
{
    memset(f, 0, sizeof *f);
    f->t = (twin){.kind = LEAST_SQUARES, .clients = 2, .features = 1, .n = 1};
    f->v = (vra_settings){.a = size_of(0.1, 10, p[0]), .d = size_of(0.1, 10, p[1]), .steps = 1 + (size_t)(5 * p[2])};
    f->how = sampled ? BERNOULLI : EVERYONE;
    f->x = 10 * (p[3] - 0.5);
    for (size_t i = 0; i < 2; i++) {
        f->l[i] = size_of(0.01, 100, p[4 + i]);
        f->row[i] = sqrt(f->l[i]);
        f->value[i] = f->row[i] * 10 * (p[6 + i] - 0.5);
        f->v.p[i] = sampled ? 0.02 + 0.98 * p[8 + i] : 1;
        f->t.at[i] = (twin_client){.plain = 1,
                                   .row = &f->row[i],
                                   .value = &f->value[i],
                                   .weight = i ? 1 - f->t.at[0].weight : size_of(0.005, 0.995, p[10])};
    }
}

static double vra_averaged(const vra_problem *f)
{
    double sum = 0, beta = vra_beta(&f->t, &f->v);
    for (size_t i = 0; i < 2; i++) {
        double u = f->v.p[i] * vra_follow(&f->v, i), l = f->l[i];
        sum += f->t.at[i].weight * (l / 2 + 4 * beta / u * (1 + 4 / u) * l * l);
    }
    return sum * 2 * beta;
}

/* gamma_i with gamma_i lr_i = q so that the averaged condition's sides have the ratio `factor`. */
static void vra_settle(vra_problem *f, const double *ratio, double q, double factor)
{
    double low = 1e-6, high = 1e9;
    for (int it = 0; it < 100; it++) {
        double s = sqrt(low * high);
        for (size_t i = 0; i < 2; i++) f->v.gamma[i] = s * ratio[i], f->v.lr[i] = q / f->v.gamma[i];
        if (vra_averaged(f) > factor)
            low = s;
        else
            high = s;
    }
}

static double vra_rise(vra_problem *f)
{
    vra_state *s = calloc(2, sizeof *s);
    double most = -INFINITY;
    vra_begin(&f->t, &f->x, s);
    for (size_t k = 0; k < ROUNDS; k++) {
        double before = vra_potential(&f->t, &f->v, s), mean = 0;
        for (unsigned cohort = 0; cohort < 4; cohort++) {
            double p = cohort_probability(f->how, 2, 2, f->v.p, cohort);
            if (p == 0) continue;
            s[1] = s[0];
            vra_round(&f->t, &f->v, cohort, &s[1]);
            mean += p * vra_potential(&f->t, &f->v, &s[1]);
        }
        most = fmax(most, (mean - before) / fmax(before, 1e-12));
        vra_round(&f->t, &f->v, f->how == EVERYONE ? 3 : 1 + (unsigned)k % 3, s);
    }
    free(s);
    return most;
}

/* (18), with the steps that vra_settle has chosen. */
static int vra_18(const vra_problem *f)
{
    for (size_t i = 0; i < 2; i++) {
        double g = f->v.gamma[i], moved = 1 - pow(1 - g * f->v.lr[i], (double)f->v.steps);
        if (g * f->v.lr[i] > 1 || (f->v.a + f->v.d) * moved > 1 + 1e-9 || sqrt(6) * moved * f->l[i] > g * (1 + 1e-9))
            return 0;
    }
    return 1;
}

static double least_product(const vra_problem *f)
{
    double share = fmin(1 / (f->v.a + f->v.d), 0.999);
    return 1 - pow(1 - share, 1 / (double)f->v.steps); /* (18) third with equality, where a + d > 1 */
}

static double vra_17_one(const double *p, double factor)
{
    vra_problem f;
    vra_make(p, 0, &f);
    vra_settle(&f, (double[]){1, 1}, least_product(&f) * p[11], factor);
    return vra_18(&f) ? vra_rise(&f) : -1;
}

static double vra_17_many(const double *p, double factor)
{
    vra_problem f;
    vra_make(p, 0, &f);
    vra_settle(&f, (double[]){1, size_of(1e-3, 1e3, p[12])}, least_product(&f) * p[11], factor);
    return vra_18(&f) ? vra_rise(&f) : -1;
}

static double vra_17_sampled(const double *p, double factor)
{
    vra_problem f;
    vra_make(p, 1, &f);
    vra_settle(&f, (double[]){1, size_of(1e-3, 1e3, p[12])}, least_product(&f) * p[11], factor);
    return vra_18(&f) ? vra_rise(&f) : -1;
}

/* (17) as printed: every gamma_i times 1/factor, whatever the averaged condition says of them. */
static double vra_17_printed(const double *p, double factor)
{
    vra_problem f;
    vra_make(p, 0, &f);
    double q = least_product(&f) * p[11], s = f.v.a * (1 - pow(1 - q, (double)f.v.steps));
    for (size_t i = 0; i < 2; i++) {
        f.v.gamma[i] = fmax(f.l[i] / 2 + 6.5 * f.l[i] / s, sqrt(6) * f.l[i] * s / f.v.a) / factor;
        f.v.lr[i] = q / f.v.gamma[i];
    }
    return vra_rise(&f);
}

/* (18) third: (a + d) gamma lr Qt = factor; the averaged condition with equality. */
static double vra_18_third(const double *p, double factor)
{
    vra_problem f;
    vra_make(p, 0, &f);
    double share = factor / (f.v.a + f.v.d);
    if (!(share < 1)) return -1;
    vra_settle(&f, (double[]){1, size_of(1e-3, 1e3, p[12])}, 1 - pow(1 - share, 1 / (double)f.v.steps), 1);
    for (size_t i = 0; i < 2; i++)
        if (sqrt(6) * share * f.l[i] > f.v.gamma[i]) return -1;
    return vra_rise(&f);
}

/* ---- [DR] -------------------------------------------------------------------------------------------------- */

static double dr_33(const double *p, double factor)
{
    feddr d = {.n = 3, .alpha = 0.05 + 1.9 * p[0]};
    double most = -INFINITY;
    unsigned cohorts = (unsigned)(p[1] * 511.99) + 1;
    for (size_t i = 0; i < 3; i++) d.h[i] = 2 * p[2 + i] - 1, d.b[i] = 10 * (p[5 + i] - 0.5);
    d.h[0] = 1;
    d.eta = factor * (2 - d.alpha) / 2; /* L = 1 */
    if (d.eta >= 0.999) return -1;      /* the prox of a concave f_i */
    feddr_begin(&d, 10 * (p[8] - 0.5));
    for (size_t k = 0; k < ROUNDS; k++) {
        double before = feddr_potential(&d), size = 1e-9;
        for (size_t i = 0; i < 3; i++) size += d.x[i] * d.x[i] + d.b[i] * d.b[i];
        feddr_round(&d, cohorts >> k % 3 * 3 & 7 ? cohorts >> k % 3 * 3 & 7 : 7);
        most = fmax(most, (feddr_potential(&d) - before) / size);
    }
    return most;
}

static double dr_63(const double *p, double factor, int convex)
{
    double c = (2.0 * TAU * TAU - CLIENTS) / (CLIENTS * CLIENTS) * (convex ? 1 : 2), most = -INFINITY;
    async a = {.alpha = p[0] * 2 / (2 + c)};
    a.eta = factor * etabar(a.alpha, c, 12);
    if (!convex && a.eta >= 0.999) return -1;
    for (size_t i = 0; i < CLIENTS; i++) a.h[i] = convex ? p[1 + i] : 2 * p[1 + i] - 1, a.y[i] = p[3 + i] - 0.5;
    async_begin(&a);
    for (size_t k = 0; k < 8; k++) {
        double before = async_potential(&a), size = 1e-9;
        size_t delay = (size_t)(p[6 + k % 4] * (TAU + 0.99));
        for (size_t i = 0; i < CLIENTS; i++) size += a.x[i] * a.x[i];
        async_step(&a, (size_t)(p[10 + k % 4] * (CLIENTS - 0.01)), delay < a.steps ? delay : a.steps);
        most = fmax(most, (async_potential(&a) - before) / size);
    }
    return most;
}

static double dr_63_convex(const double *p, double factor) { return dr_63(p, factor, 1); }
static double dr_63_any(const double *p, double factor) { return dr_63(p, factor, 0); }

/* ---- [GiA] ------------------------------------------------------------------------------------------------- */

static double gia_6(const double *p, double factor)
{
    gia g = {.m = 3, .sigma = 6.0 / 3 / factor}; /* r = 1 */
    double most = -INFINITY;
    size_t k0 = 1 + (size_t)(4 * p[0]);
    unsigned chosen = (unsigned)(p[1] * 511.99);
    for (size_t i = 0; i < 3; i++) {
        g.r[i] = i ? p[2 + i] : 1;
        g.h[i] = g.r[i] * (2 * p[5 + i] - 1);
        g.b[i] = 10 * (p[8 + i] - 0.5);
        g.x[i] = 10 * (p[11] - 0.5);
    }
    for (size_t k = 0; k < 8 * k0; k++) {
        double before = gia_lagrangian(&g), size = 1e-9;
        for (size_t i = 0; i < 3; i++) size += g.x[i] * g.x[i] + g.b[i] * g.b[i];
        if (k % k0 == 0) gia_average(&g);
        gia_step(&g, chosen >> k / k0 % 3 * 3 & 7);
        if (k) most = fmax(most, (gia_lagrangian(&g) - before) / size);
    }
    return most;
}

/* ---- [CPSL] Theorem 1 -------------------------------------------------------------------------------------- */

/* Three clients, a cohort of one, two or all; lr beyond the least of (34) by the factor. */
static double cpsl_34(const double *p, double factor)
{
    twin t = {.kind = LEAST_SQUARES, .clients = 3, .features = 1, .n = 1};
    cpsl_settings v = {
        .momentum = 0.95 * p[0], .steps = 1 + (size_t)(6 * p[1]), .cohort = 1 + (size_t)(2.99 * p[2]), .l = 1};
    double row[3], value[3], total = 0, most = -INFINITY;
    v.server_lr = size_of(0.01, 100, p[3]);
    for (size_t i = 0; i < 3; i++) {
        row[i] = i ? p[4 + i] : 1;
        value[i] = row[i] * 10 * (p[7 + i] - 0.5);
        t.at[i] = (twin_client){.plain = 1, .row = &row[i], .value = &value[i], .weight = 0.01 + p[10 + i]};
        total += t.at[i].weight;
    }
    for (size_t i = 0; i < 3; i++) t.at[i].weight /= total;
    double share = (double)v.cohort / 3, q = cpsl_steps(v.momentum, v.steps), g = v.server_lr;
    v.lr = factor * fmin(fmin(share / (48 * g), 1 / (8 * q)),
                         fmin(3 * g / (100 * share * q * q), share / (32 * g) / sqrt(1 + 2 / share)));
    cpsl_state *s = calloc(2, sizeof *s);
    s->x[0] = 10 * (p[13] - 0.5);
    for (size_t k = 0; k < ROUNDS; k++) {
        double before = cpsl_potential(&t, &v, s), mean = 0;
        unsigned next = 0;
        for (unsigned cohort = 0; cohort < 8; cohort++) {
            double chance = cohort_probability(UNIFORM, 3, v.cohort, NULL, cohort);
            if (chance == 0) continue;
            s[1] = s[0];
            cpsl_round(&t, &v, cohort, &s[1]);
            mean += chance * cpsl_potential(&t, &v, &s[1]);
            if (!next || (p[14] > 0.5 && k % 2)) next = cohort;
        }
        most = fmax(most, (mean - before) / fmax(before, 1e-12));
        cpsl_round(&t, &v, next, s);
    }
    free(s);
    return most;
}

int main(int argc, char **argv)
{
    static const condition all[] = {
        {"[VRA] (17)", "as printed, gamma_i that differ, everyone: P^r", 12, vra_17_printed},
        {"[VRA] (17) averaged", "one gamma, everyone: P^r", 12, vra_17_one},
        {"[VRA] (17) averaged", "gamma_i that differ, everyone: P^r", 13, vra_17_many},
        {"[VRA] (17) averaged", "gamma_i that differ, Bernoulli sampling: mean of P^r", 13, vra_17_sampled},
        {"[VRA] (18) third", "the averaged condition tight, everyone: P^r", 13, vra_18_third},
        {"[DR] (33)", "f_i convex or not, any cohorts: V_eta", 9, dr_33},
        {"[DR] (63) corrected", "convex f_i, n = 2, tau = 3: V~", 14, dr_63_convex},
        {"[DR] (63) corrected", "f_i convex or not, n = 2, tau = 3: V~", 14, dr_63_any},
        {"[GiA] 6 r/m < sigma", "f_i convex or not, any C, from L^1 on: L", 12, gia_6},
        {"[CPSL] (34)", "convex f_i, N = 3: mean of P^r", 15, cpsl_34},
    };
    size_t restarts = argc > 2 ? (size_t)strtoul(argv[2], NULL, 10) : 40;
    for (size_t k = 0; k < sizeof all / sizeof *all; k++)
        if (argc < 2 || strstr(all[k].name, argv[1])) search(&all[k], restarts);
    return 0;
}
