/* FedGiA: what the paper proves, in double precision. The method is written down once more with dense matrices from the
 * raw data, which gives x_i and pi_i of everyone after every inner step; the engine must go the same way for any choice
 * of C, and along it Lemma B.1, descent (38) of the augmented Lagrangian (8) and convergence to the optimum, found here
 * by Newton's method, are checked. */
#include "runs.h"

enum { DIM = 6, N = 5, GRAM = 0, DIAGONAL = 1 };
static const size_t sizes[N] = {3, 14, 6, 25, 9}; /* client 0 has fewer samples than features, client 2 as many */
static const double l2 = 0.02;

/* ---- the problem ----------------------------------------------------------------------------------------- */

typedef struct {
    fli_fed *fed; /* borrowed */
    int logistic;
    double h[N][DIM * DIM]; /* Theta_i */
    double r_i[N], r;
} problem;

/* f_i(x), and its gradient and Hessian unless NULL */
static double f_of(const problem *p, size_t i, const double *x, double *g, double *hessian)
{
    const fli_dataset *ds = p->fed->train;
    size_t first = p->fed->part.start[i], n = p->fed->part.start[i + 1] - first;
    double value = 0;
    for (size_t j = 0; j < DIM; j++) value += l2 / 2 * x[j] * x[j];
    for (size_t j = 0; g && j < DIM; j++) g[j] = l2 * x[j];
    for (size_t j = 0; hessian && j < DIM * DIM; j++) hessian[j] = j % (DIM + 1) ? 0 : l2;
    for (size_t s = first; s < first + n; s++) {
        const double *row = (const double *)ds->x + s * DIM;
        double dot = 0, off, curve = 1;
        for (size_t j = 0; j < DIM; j++) dot += row[j] * x[j];
        if (p->logistic) {
            double sigmoid = 1 / (1 + exp(-dot));
            value += (log(1 + exp(dot)) - ds->label[s] * dot) / (double)n;
            off = sigmoid - ds->label[s];
            curve = sigmoid * (1 - sigmoid);
        } else {
            off = dot - ds->target[s];
            value += off * off / 2 / (double)n;
        }
        for (size_t j = 0; g && j < DIM; j++) g[j] += off * row[j] / (double)n;
        for (size_t j = 0; hessian && j < DIM * DIM; j++) hessian[j] += curve * row[j / DIM] * row[j % DIM] / (double)n;
    }
    return value;
}

static void multiply(const double *h, const double *x, double *out)
{
    for (size_t i = 0; i < DIM; i++) {
        out[i] = 0;
        for (size_t j = 0; j < DIM; j++) out[i] += h[i * DIM + j] * x[j];
    }
}

static double norm(const double *x) { return distance(DIM, x, (double[DIM]){0}); }

/* Clients, their Theta_i = the Hessian at zero, and r_i by very many steps of power iteration. */
static void problem_init(problem *p, fl_ctx *ctx, int logistic, int variant)
{
    memset(p, 0, sizeof *p);
    p->logistic = logistic;
    p->fed = random_fed(ctx, N, sizes, DIM, logistic ? 2 : 0, 11);
    for (size_t i = 0; i < N; i++) {
        double v[DIM] = {1, 2, 3, -1, 1, 1}, w[DIM], zero[DIM] = {0};
        f_of(p, i, zero, NULL, p->h[i]);
        for (size_t k = 0; k < 20000; k++) {
            multiply(p->h[i], v, w);
            p->r_i[i] = norm(w);
            for (size_t j = 0; j < DIM; j++) v[j] = w[j] / p->r_i[i];
        }
        p->r = fmax(p->r, p->r_i[i]);
        for (size_t j = 0; variant == DIAGONAL && j < DIM * DIM; j++) p->h[i][j] = j % (DIM + 1) ? 0 : p->r_i[i];
    }
}

/* The minimiser of (1/N) sum f_i. */
static void optimum(const problem *p, double *x)
{
    memset(x, 0, DIM * sizeof *x);
    for (size_t k = 0; k < 50; k++) {
        double g[DIM] = {0}, h[DIM * DIM] = {0};
        for (size_t i = 0; i < N; i++) {
            double gi[DIM], hi[DIM * DIM];
            f_of(p, i, x, gi, hi);
            for (size_t j = 0; j < DIM; j++) g[j] += gi[j] / N;
            for (size_t j = 0; j < DIM * DIM; j++) h[j] += hi[j] / N;
        }
        solve_linear(DIM, h, g);
        for (size_t j = 0; j < DIM; j++) x[j] -= g[j];
    }
}

/* ---- the method, as the paper has it --------------------------------------------------------------------- */

typedef struct {
    const problem *p;
    double sigma;
    double x[DIM], xi[N][DIM], pi[N][DIM];
    double worst; /* the largest violation of (38) so far */
    double value; /* of (8) after the last step; NaN: not to be compared with */
} method;

static void method_init(method *m, const problem *p, double sigma)
{
    memset(m, 0, sizeof *m);
    m->p = p;
    m->sigma = sigma;
    m->value = NAN;
    m->worst = -INFINITY;
}

/* (8) */
static double lagrangian(const method *m)
{
    double sum = 0;
    for (size_t i = 0; i < N; i++) {
        sum += f_of(m->p, i, m->xi[i], NULL, NULL) / N;
        for (size_t j = 0; j < DIM; j++) {
            double apart = m->xi[i][j] - m->x[j];
            sum += apart * m->pi[i][j] + m->sigma / 2 * apart * apart;
        }
    }
    return sum;
}

/* (13) and (14) for i in C, (16) and (17) for the others; g is grad f_i(x)/N. Checks (34). */
static void local_step(method *m, size_t i, int chosen, const double *g)
{
    double a[DIM * DIM], e[DIM], apart[DIM], hx[DIM];
    for (size_t j = 0; j < DIM * DIM; j++) a[j] = m->p->h[i][j] / N + (j % (DIM + 1) ? 0 : m->sigma);
    for (size_t j = 0; j < DIM; j++) e[j] = g[j] + m->pi[i][j];
    solve_linear(DIM, a, e);
    for (size_t j = 0; j < DIM; j++) {
        m->xi[i][j] = chosen ? m->x[j] - e[j] : m->x[j];
        m->pi[i][j] = chosen ? m->pi[i][j] + m->sigma * (m->xi[i][j] - m->x[j]) : -g[j];
        apart[j] = m->xi[i][j] - m->x[j];
    }
    multiply(m->p->h[i], apart, hx);
    for (size_t j = 0; j < DIM; j++) assert_near(g[j] + m->pi[i][j] + hx[j] / N, 0, 1e-12 * (1 + norm(g)));
}

/* (12), and (33) */
static void average(method *m)
{
    double left[DIM] = {0};
    memset(m->x, 0, sizeof m->x);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < DIM; j++) m->x[j] += (m->xi[i][j] + m->pi[i][j] / m->sigma) / N;
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < DIM; j++) left[j] += m->pi[i][j] / m->sigma + m->xi[i][j] - m->x[j];
    assert_true(norm(left) < 1e-10 * (1 + norm(m->x)));
}

/* A round: k0 steps from the average of what is there. Lemma B.2 compares one step with the one before, the change of x
 * included. */
static void method_round(method *m, unsigned chosen, size_t k0)
{
    double before[DIM], g[N][DIM], xi[DIM], r = m->p->r, sigma = m->sigma;
    double eta = sigma / 2 - 5 * r / (2 * N) - 3 * r * r / (sigma * N * N);
    memcpy(before, m->x, sizeof before);
    average(m);
    for (size_t i = 0; i < N; i++) {
        f_of(m->p, i, m->x, g[i], NULL);
        for (size_t j = 0; j < DIM; j++) g[i][j] /= N;
    }
    for (size_t k = 0; k < k0; k++) {
        double moved = k ? 0 : N * pow(distance(DIM, before, m->x), 2);
        for (size_t i = 0; i < N; i++) {
            memcpy(xi, m->xi[i], sizeof xi);
            local_step(m, i, (chosen >> i) & 1, g[i]);
            moved += pow(distance(DIM, xi, m->xi[i]), 2);
        }
        double value = lagrangian(m);
        if (!isnan(m->value)) m->worst = fmax(m->worst, value - m->value + eta * moved);
        m->value = value;
    }
}

/* What the server has after the round. */
static void next_x(const method *m, double *x)
{
    method copy = *m;
    average(&copy);
    memcpy(x, copy.x, sizeof copy.x);
}

/* ---- the engine beside it -------------------------------------------------------------------------------- */

static void engine_for(engine *e, fl_ctx *ctx, const problem *p, const char *params)
{
    engine_init(e, ctx, p->fed, p->logistic ? "logistic" : "least_squares", &fli_ops_f64, l2, algo_named("fedgia"),
                params, 0, (fli_sgd_spec){0}, 2);
    engine_warm_up(e, 0.1);
}

static void round_of(engine *e, unsigned chosen)
{
    uint32_t cohort[N];
    size_t m = 0;
    for (uint32_t i = 0; i < N; i++)
        if ((chosen >> i) & 1) cohort[m++] = i;
    engine_round(e, cohort, m, 0.1);
    assert_true(fli_exec_spent(e->exec).steps == N);
}

/* A random C; every eighth time everyone, or nobody. */
static unsigned choose(fli_rng *rng, size_t round)
{
    unsigned any = fli_rng_u32(rng) % (1u << N);
    return round % 8 == 3 ? 0 : round % 8 == 5 ? (1u << N) - 1 : any;
}

/* The engine goes the way of the paper's algorithm: gram and diagonal, least squares and logistic, any C, sigma large
 * and small, given and not. */
static void same_way(void **state)
{
    fixture *f = *state;
    static const size_t k0s[] = {1, 5, 30}; /* with 30 the eigenvalues come in on the way */
    for (int variant = 0; variant < 2; variant++)
        for (int logistic = 0; logistic < 2; logistic++)
            for (int given = 0; given < 3; given++)
                for (size_t k = 0; k < 3; k++) {
                    problem p;
                    method m;
                    engine e;
                    fli_rng rng;
                    char params[128];
                    double mean = 0, sigma;
                    problem_init(&p, f->ctx, logistic, variant);
                    for (size_t i = 0; i < N; i++) mean += p.r_i[i] / N;
                    sigma = (given == 2 ? 6.1 * p.r : given == 1 ? 0.4 * p.r : mean) / N;
                    snprintf(params, sizeof params, "variant=%s;k0=%zu", variant == GRAM ? "gram" : "diagonal", k0s[k]);
                    if (given == 1) strcat(params, ";t=0.4");
                    if (given == 2) sprintf(params + strlen(params), ";sigma=%.17g", sigma);
                    method_init(&m, &p, sigma);
                    engine_for(&e, f->ctx, &p, params);
                    fli_rng_init(&rng, 5, FLI_RNG_TEST, 0, 0);
                    for (size_t r = 0; r < 24; r++) {
                        unsigned chosen = choose(&rng, r);
                        double x[DIM];
                        method_round(&m, chosen, k0s[k]);
                        next_x(&m, x);
                        round_of(&e, chosen);
                        double *got = engine_vector(&e, 0), off = distance(DIM, x, got);
                        free(got);
                        if (!(off < 1e-10 * (1 + norm(x))))
                            fail_msg("%s, logistic %d, sigma %g: off by %g after round %zu", params, logistic, sigma,
                                     off, r);
                        double l = engine_potential(&e, 0.1); /* (8) */
                        if (!(fabs(l - m.value) < 1e-10 * (1 + fabs(m.value))))
                            fail_msg("%s: the Lagrangian is %.15g, and not %.15g", params, l, m.value);
                    }
                    engine_fini(&e);
                }
}

/* ---- theory ---------------------------------------------------------------------------------------------- */

/* Lemmas B.2 and B.3: for sigma > 6 r/N every step decreases the augmented Lagrangian by what (38) says, whatever C is.
 * The lemma's (34) is false for the start pi_i = 0, before anybody has taken a step, so that it is of use from the
 * second step on. */
static void lagrangian_descends(void **state)
{
    fixture *f = *state;
    size_t steps = 0;
    for (int variant = 0; variant < 2; variant++)
        for (int logistic = 0; logistic < 2; logistic++)
            for (uint32_t stream = 0; stream < 12; stream++) {
                problem p;
                method m;
                fli_rng rng;
                problem_init(&p, f->ctx, logistic, variant);
                fli_rng_init(&rng, 5, FLI_RNG_TEST, 1, stream);
                method_init(&m, &p, (stream % 2 ? 6.001 : 9) * p.r / N);
                for (size_t r = 0; r < 60; r++) {
                    size_t k0 = 1 + stream % 4;
                    method_round(&m, choose(&rng, r), k0);
                    steps += k0;
                    if (!(m.worst < 1e-13 * (1 + fabs(m.value))))
                        fail_msg("variant %d, logistic %d: (38) is off by %g in round %zu", variant, logistic, m.worst,
                                 r);
                    double x[DIM], mean = 0; /* Lemma B.3 ii) */
                    memcpy(x, m.x, sizeof x);
                    for (size_t i = 0; i < N; i++) mean += f_of(&p, i, x, NULL, NULL) / N;
                    assert_true(m.value >= mean - 1e-13);
                }
                fli_fed_free(p.fed);
            }
    assert_true(steps > 4000);
}

/* And for a small sigma, as in the paper's experiments, it need not: the test above can fail. */
static void no_descent_for_small_sigma(void **state)
{
    fixture *f = *state;
    problem p;
    method m;
    double last = INFINITY;
    int rises = 0;
    problem_init(&p, f->ctx, 0, GRAM);
    method_init(&m, &p, 0.15 * p.r / N);
    for (size_t r = 0; r < 20; r++) {
        method_round(&m, r % 3 ? 5 : 26, 1);
        rises += m.value > last + 1e-6;
        last = m.value;
    }
    assert_true(rises > 0);
    fli_fed_free(p.fed);
}

static void fedgia_converges_to_the_optimum(void **state)
{
    fixture *f = *state;
    static const struct {
        double t;
        size_t k0, rounds;
    } cases[] = {{6.1, 1, 25000}, {6.1, 5, 25000}, {1, 5, 4000}};
    for (int variant = 0; variant < 2; variant++)
        for (int logistic = 0; logistic < 2; logistic++)
            for (size_t c = 0; c < 3; c++) {
                problem p;
                engine e;
                fli_rng rng;
                char params[128];
                double best[DIM];
                problem_init(&p, f->ctx, logistic, variant);
                optimum(&p, best);
                snprintf(params, sizeof params, "variant=%s;k0=%zu;t=%g", variant == GRAM ? "gram" : "diagonal",
                         cases[c].k0, cases[c].t);
                engine_for(&e, f->ctx, &p, params);
                fli_rng_init(&rng, 5, FLI_RNG_TEST, 2, 0);
                for (size_t r = 0; r < cases[c].rounds; r++) round_of(&e, choose(&rng, r));
                double *x = engine_vector(&e, 0), off = distance(DIM, x, best);
                free(x);
                if (!(off < 1e-9)) fail_msg("%s, logistic %d: %g away from the optimum", params, logistic, off);
                engine_fini(&e);
            }
}

/* ---- configuration --------------------------------------------------------------------------------------- */

static const char base[] = "rounds: 3\nprecision: f64\ndata: {kind: linreg, clients: 4, features: 5}\n"
                           "partition: natural\nmodel: least_squares\n";

static void impossible_settings_are_refused(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *set, *say;
    } cases[] = {
        {"algorithm={kind: fedgia, sigma: -1}", "algorithm.sigma"},
        {"algorithm={kind: fedgia, t: 0}", "algorithm.t"},
        {"algorithm={kind: fedgia, t: -2}", "algorithm.t"},
        {"algorithm={kind: fedgia, t: [1, 2]}", "algorithm.t is one number or auto, not a list of 2"},
        {"algorithm={kind: fedgia, k0: 0}", "algorithm.k0"},
        {"algorithm={kind: fedgia, variant: full}", "algorithm.variant"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fl_run *run = NULL;
        fl_config *cfg = fixture_config(f, base);
        assert_ok(f->ctx, fl_config_set(cfg, cases[i].set));
        assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, cases[i].say);
        fl_config_free(cfg);
    }
    static const char *const models[] = {"softmax", "{kind: mlp, hidden: [3]}"};
    for (size_t i = 0; i < 2; i++) {
        char set[64];
        fl_run *run = NULL;
        fl_config *cfg = fixture_config(f, base);
        snprintf(set, sizeof set, "model=%s", models[i]);
        assert_ok(f->ctx, fl_config_set(cfg, set));
        assert_ok(f->ctx, fl_config_set(cfg, "data={kind: blobs, samples: 40}"));
        assert_ok(f->ctx, fl_config_set(cfg, "partition={kind: iid, clients: 4}"));
        assert_ok(f->ctx, fl_config_set(cfg, "algorithm={kind: fedgia, variant: gram}"));
        assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG,
                     "the gram solver is for least squares and logistic regression; model");
        fl_config_free(cfg);
    }
    fl_run *run = NULL;
    fl_config *cfg = fixture_config(f, base);
    assert_ok(f->ctx, fl_config_set(cfg, "algorithm=fedgia"));
    assert_ok(f->ctx, fl_config_set(cfg, "system={kind: constant, deadline: 5}"));
    assert_fails(f->ctx, fl_run_new(cfg, &run), FL_ECONFIG, "fedgia needs every client in every round");
    fl_config_free(cfg);
}

/* Without tuning, on least squares and logistic regression over clients that are alike, and that differ in size and
 * scale: `auto` takes a gradient below what is asked for, and N sigma is the mean of the r_i. */
static void auto_converges(void **state)
{
    static const char *const problems[] = {
        "data={kind: linreg, clients: 8, features: 5, min_size: 200, max_size: 200}",
        "data={kind: linreg, clients: 30, features: 5, min_size: 2, max_size: 40}",
        "data={kind: blobs, classes: 2, features: 4, samples: 400};partition={kind: iid, clients: 8};"
        "model={kind: logistic, weight_decay: 0.01}",
        "data={kind: blobs, classes: 2, features: 4, samples: 400};partition={kind: dirichlet, alpha: 0.3, clients: 8};"
        "model={kind: logistic, weight_decay: 0.01}",
    };
    static const char *const ways[] = {"k0: 1", "k0: 5", "k0: 40", "k0: 5, variant: gram"};
    for (size_t p = 0; p < sizeof problems / sizeof *problems; p++)
        for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
            for (int everyone = 0; everyone < 2; everyone++) {
                char set[512];
                snprintf(set, sizeof set,
                         "rounds=4000;metrics={every: 20, test: false, gradient: true};stop.gradient2=1e-16;"
                         "participation={kind: uniform, fraction: %s};%s;algorithm={kind: fedgia, %s}",
                         everyone ? "1" : "0.3", problems[p], ways[w]);
                fl_run *run = run_done(*state, base, set);
                double left = fl_row_get(fl_run_row(run), "gradient2");
                if (!(left <= 1e-16)) fail_msg("%s: %g left", set, left);
                fl_run_free(run);
            }
}

static double after_three_rounds(fixture *f, const char *params)
{
    engine e;
    fli_fed *fed = random_fed(f->ctx, 2, (size_t[]){1, 1}, 1, 0, 3);
    ((double *)fed->train->x)[0] = 1;
    ((double *)fed->train->x)[1] = 2;
    engine_init(&e, f->ctx, fed, "least_squares", &fli_ops_f64, 0, algo_named("fedgia"), params, 0, (fli_sgd_spec){0},
                1);
    engine_warm_up(&e, 0.1);
    for (size_t r = 0; r < 3; r++) engine_round(&e, (uint32_t[]){0}, 1, 0.1);
    double *v = engine_vector(&e, 0), x = *v;
    free(v);
    engine_fini(&e);
    return x;
}

/* Two clients with one sample of 1 and of 2: r_i = 1 and 4, so that N sigma is 2.5, or t times 4. */
static void auto_is_the_mean(void **state)
{
    double mean = after_three_rounds(*state, "k0=2;t=auto"), half = after_three_rounds(*state, "k0=2;t=0.5");
    assert_near(mean, after_three_rounds(*state, "k0=2;sigma=1.25"), 1e-12);
    assert_near(half, after_three_rounds(*state, "k0=2;sigma=1"), 1e-12);
    assert_true(fabs(mean - half) > 1e-3);
}

static void check_says(fixture *f, const char *algorithm, const char *model, const char *text)
{
    collected out = {0};
    fl_config *cfg = fixture_config(f, base);
    assert_ok(f->ctx, fl_config_set(cfg, algorithm));
    if (model) {
        assert_ok(f->ctx, fl_config_set(cfg, model));
        assert_ok(f->ctx, fl_config_set(cfg, "data={kind: blobs, samples: 40}"));
        assert_ok(f->ctx, fl_config_set(cfg, "partition={kind: iid, clients: 4}"));
    }
    assert_ok(f->ctx, fl_check(cfg, collect_text, &out));
    if (!strstr(out.s, text)) fail_msg("\"%s\" lacks \"%s\"", out.s, text);
    free(out.s);
    fl_config_free(cfg);
}

static void check_applies_the_theorem(void **state)
{
    check_says(*state, "algorithm=fedgia", NULL, "FAILS    Theorem IV.1");
    check_says(*state, "algorithm=fedgia", NULL, "algorithm.t = 6.1");
    check_says(*state, "algorithm=fedgia", NULL, ": 6 < 0."); /* the mean of what was measured over the largest */
    check_says(*state, "algorithm={kind: fedgia, t: 6.1}", NULL, "the theorem applies\n");
    check_says(*state, "algorithm={kind: fedgia, sigma: 1000}", NULL, "the theorem applies\n");
    check_says(*state, "algorithm={kind: fedgia, sigma: 0.1}", NULL,
               "a setting that satisfies all of them: algorithm.sigma = ");
    check_says(*state, "algorithm={kind: fedgia, t: 6}", NULL, "FAILS    Theorem IV.1"); /* strict */
    check_says(*state, "algorithm={kind: fedgia, t: 7}", "model=softmax", "the theorem applies\n");
    check_says(*state, "algorithm={kind: fedgia, t: 7}", "model={kind: mlp, hidden: [3]}",
               "if what is assumed is true");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(same_way),
        FIXTURE_TEST(lagrangian_descends),
        FIXTURE_TEST(no_descent_for_small_sigma),
        FIXTURE_TEST(fedgia_converges_to_the_optimum),
        FIXTURE_TEST(auto_converges),
        FIXTURE_TEST(auto_is_the_mean),
        FIXTURE_TEST(impossible_settings_are_refused),
        FIXTURE_TEST(check_applies_the_theorem),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
