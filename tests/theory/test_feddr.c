/* FedDR and FedSplit: what the paper proves, on heterogeneous least squares in double precision. Lemma A.1, the
 * gradient mapping (23), sure descent (29) of the Lyapunov function (25), and the composite optimum, computed here by
 * proximal gradient steps from the raw data. */
#include "composite.h"

enum { SUBSETS = (1 << N) - 1 };

/* The clients whose bit is set. */
static size_t subset(size_t bits, uint32_t *cohort)
{
    size_t m = 0;
    for (uint32_t i = 0; i < N; i++)
        if (bits >> i & 1) cohort[m++] = i;
    return m;
}

/* Every non-empty subset once in 63 rounds, in an order that mixes them. */
static void round_with(engine *e, size_t round)
{
    uint32_t cohort[N];
    size_t m = subset(1 + round * 37 % SUBSETS, cohort);
    engine_round(e, cohort, m, 0.05);
}

static void assert_vectors(const double *a, const double *b, double tolerance)
{
    for (size_t k = 0; k < DIM; k++) assert_near(a[k], b[k], tolerance);
}

/* ---- invariants ---------------------------------------------------------------------------------------- */

static const double away_from_zero[DIM] = {0.5, -1, 0.3, 2, -0.4};

/* xt is the mean of all 2 x_i - y_i and xbar its prox, whoever took part, however the local problems are solved. */
static void mean_of_reflections(fixture *f, const char *params, const term *g)
{
    engine e;
    quadratics p;
    int lazy = strstr(params, "init=lazy") != NULL;
    start(&e, f, "feddr", params, g, away_from_zero, 1, &p);
    for (size_t r = 0; r < 2 * SUBSETS; r++) {
        double mean[DIM] = {0};
        for (size_t i = 0; i < N; i++) e.steps[i] = 1 + (r + i) % 4;
        if (r || lazy) round_with(&e, r);
        for (size_t i = 0; i < N; i++)
            for (size_t k = 0; k < DIM; k++) mean[k] += (2 * seen_x[i][k] - seen_y[i][k]) / N;
        assert_vectors(server(&e, 1), mean, 1e-12);
        g_prox(g, 0.3, mean);
        assert_vectors(server(&e, 0), r || lazy ? mean : away_from_zero, 1e-12); /* after the warm-up it is still x0 */
    }
    assert_true(distance(DIM, server(&e, 0), away_from_zero) > 0.1);
    engine_fini(&e);
}

static void the_server_averages_reflections(void **state)
{
    mean_of_reflections(*state, "eta=0.3;init=lazy;solver=exact", &none);
    mean_of_reflections(*state, "eta=0.3;init=exact;solver=exact", &none);
    mean_of_reflections(*state, "eta=0.3;init=lazy;solver=exact;alpha=0.7", &l1);
    mean_of_reflections(*state, "eta=0.3;init=exact;solver=exact;alpha=0.7", &box);
    mean_of_reflections(*state, "eta=0.3;init=lazy;solver=sgd", &l1);
    mean_of_reflections(*state, "eta=0.3;init=exact;solver=sgd;alpha=1", &ball);
}

/* Lemma A.1: y_i = x_i + eta grad f_i(x_i) for everyone at all times, after an exact start. */
static void lemma_a1(void **state)
{
    engine e;
    quadratics p;
    start(&e, *state, "feddr", "eta=0.7;init=exact;solver=exact;alpha=1.3", &l1, away_from_zero, 1, &p);
    for (size_t r = 0; r < SUBSETS; r++) {
        for (size_t i = 0; i < N; i++) {
            double g[DIM];
            gradient(&p, i, seen_x[i], g);
            for (size_t k = 0; k < DIM; k++) assert_near(seen_y[i][k], seen_x[i][k] + 0.7 * g[k], 1e-11);
        }
        round_with(&e, r);
    }
    engine_fini(&e);
}

/* A first lazy round of everyone leaves the clients and xt where the exact start does. From there on both are the same
 * where xbar is: when it is put back to x0, and by itself when the prox of xt is x0. */
static void lazy_and_exact(fixture *f, const term *g, const double *x0, int put_back)
{
    engine lazy, exact;
    quadratics p;
    double y[N][DIM], x[N][DIM];
    start(&exact, f, "feddr", "eta=0.3;init=exact;solver=exact;alpha=1.5", g, x0, 1, &p);
    memcpy(y, seen_y, sizeof y);
    memcpy(x, seen_x, sizeof x);
    start(&lazy, f, "feddr", "eta=0.3;init=lazy;solver=exact;alpha=1.5", g, x0, 1, &p);
    assert_memory_equal(server(&lazy, 0), server(&exact, 0), sizeof y[0]);
    engine_round(&lazy, lazy.everyone, N, 0.05);
    for (size_t i = 0; i < N; i++) {
        assert_vectors(seen_y[i], y[i], 1e-14);
        assert_vectors(seen_x[i], x[i], 1e-14);
    }
    assert_vectors(server(&lazy, 1), server(&exact, 1), 1e-14);
    if (put_back)
        memcpy(fli_exec_server(lazy.exec)[0], server(&exact, 0), sizeof y[0]);
    else
        assert_memory_equal(server(&lazy, 0), server(&exact, 0), sizeof y[0]);
    for (size_t r = 0; r < SUBSETS; r++) {
        round_with(&lazy, r);
        round_with(&exact, r);
        assert_vectors(server(&lazy, 0), server(&exact, 0), 1e-12);
        assert_vectors(server(&lazy, 1), server(&exact, 1), 1e-12);
    }
    assert_true(distance(DIM, server(&exact, 1), away_from_zero) > 0.1);
    engine_fini(&lazy);
    engine_fini(&exact);
}

static void both_starts_lead_to_one_path(void **state)
{
    static const term strong = {"l1", "weight=30", 30, 0}; /* xbar = 0 at first, and at last */
    lazy_and_exact(*state, &strong, NULL, 0);
    lazy_and_exact(*state, &none, away_from_zero, 1);
    lazy_and_exact(*state, &l1, NULL, 1);
}

/* ---- Lemma A.5: sure descent ----------------------------------------------------------------------------- */

/* The method's own potential, which must be (25) written down once more. */
static double v_eta(engine *e, const quadratics *p, const term *g, double eta)
{
    double v = engine_potential(e, 0.05), want = lyapunov(p, g, eta, server(e, 0));
    if (!(fabs(v - want) < 1e-12 * (1 + fabs(want)))) fail_msg("V_eta is %.15g, and not %.15g", v, want);
    return v;
}

/* Runs through all subsets twice with eta = share (2 - alpha)/(2 L). Returns by how much (25) ever missed (29), or
 * increased when share > 1; checks the bound (23) on the way. */
static double descent(fixture *f, const term *g, double alpha, double share)
{
    engine e;
    quadratics p;
    char params[128];
    double missed = -INFINITY, first, v;
    start(&e, f, "feddr", "solver=exact", g, NULL, 1, &p);
    engine_fini(&e);
    double eta = share * (2 - alpha) / (2 * p.l), le = p.l * eta;
    double slope = (2 - alpha * (le + 1) - 2 * le * le) / (2 * alpha * eta * N);
    assert_true((slope > 0) == (share < 1)); /* the condition as the paper has it */
    snprintf(params, sizeof params, "eta=%.17g;alpha=%.17g;init=exact;solver=exact", eta, alpha);
    start(&e, f, "feddr", params, g, NULL, 1, &p);
    first = v = v_eta(&e, &p, g, eta);
    for (size_t r = 0; r < 2 * SUBSETS; r++) {
        double before[N][DIM], bar[DIM], moved = 0, apart = 0;
        memcpy(before, seen_x, sizeof before);
        memcpy(bar, server(&e, 0), sizeof bar);
        round_with(&e, r);
        double next = v_eta(&e, &p, g, eta), step = distance(DIM, bar, server(&e, 0));
        for (size_t i = 0; i < N; i++) {
            moved += pow(distance(DIM, before[i], seen_x[i]), 2);
            apart += pow(distance(DIM, server(&e, 0), seen_x[i]), 2);
        }
        missed = fmax(missed, next - v + (share < 1 ? slope * moved + step * step / (2 * eta) : 0));
        v = next;
        double mapping = gradient_mapping(&p, g, eta, server(&e, 0));
        assert_true(mapping * mapping <= (1 + le) * (1 + le) / (N * eta * eta) * apart * (1 + 1e-9) + 1e-20);
    }
    if (share < 1) assert_true(v < first - 0.01);
    engine_fini(&e);
    return missed;
}

static void sure_descent(void **state)
{
    static const term *const terms[] = {&none, &l1, &positive, &box, &ball};
    static const double alphas[] = {0.4, 1, 1.5, 1.9};
    for (size_t t = 0; t < sizeof terms / sizeof *terms; t++)
        for (size_t a = 0; a < 4; a++)
            for (double share = 0.99; share > 0.1; share /= 3) {
                double missed = descent(*state, terms[t], alphas[a], share);
                if (!(missed < 1e-12))
                    fail_msg("%s, alpha %g, %g of the largest eta: (29) is missed by %g", terms[t]->name, alphas[a],
                             share, missed);
            }
    /* far outside the condition (25) does increase: the test can tell */
    assert_true(descent(*state, &none, 1.9, 400) > 1e-3);
}

/* ---- the same with errors -------------------------------------------------------------------------------- */

/* prox_{eta f_i}(y) */
static void exact_prox(const quadratics *p, size_t i, double eta, const double *y, double *out)
{
    double a[DIM * DIM];
    memcpy(a, p->h[i], sizeof a);
    for (size_t k = 0; k < DIM; k++) {
        a[k * DIM + k] += 1 / eta;
        out[k] = p->q[i][k] + y[k] / eta;
    }
    solve_linear(DIM, a, out);
}

/* ||e_i||^2 = ||x_i - prox_{eta f_i}(y_i)||^2 of everyone */
static void squared_errors(const quadratics *p, double eta, double *e)
{
    for (size_t i = 0; i < N; i++) {
        double z[DIM];
        exact_prox(p, i, eta, seen_y[i], z);
        e[i] = pow(distance(DIM, seen_x[i], z), 2);
    }
}

/* What the errors may add in (29) with gamma_3 = 1. */
static double allowance(double eta, double le, double alpha, double gamma4, const int *in, const double *before,
                        const double *after)
{
    double all = 0, cohort = 0;
    for (size_t i = 0; i < N; i++) {
        all += after[i]; /* those who stayed away have the error they had */
        if (in[i]) cohort += before[i] + after[i];
    }
    return (1 + le * le) / (eta * N) * all + 2 * (1 + le) * (1 + le) / (gamma4 * eta * alpha * alpha * N) * cohort;
}

typedef struct {
    double missed;  /* by how much (29) ever was, */
    double without; /* and how much of that the error terms are needed for */
    double error;   /* the largest seen */
} inexact;

/* Lemma A.5 along a run with errors: (29) for several gamma_4 and every cohort, and that the errors are what was asked
 * for. */
static inexact inexact_descent(fixture *f, const term *g, double alpha, double share, double accuracy, double relative)
{
    static const double gammas[] = {0.003, 0.03, 0.2};
    engine e;
    quadratics p;
    char params[256];
    inexact out = {-INFINITY, -INFINITY, 0};
    double after[N];
    start(&e, f, "feddr", "solver=exact", g, NULL, 1, &p);
    engine_fini(&e);
    double eta = share * (2 - alpha) / (2 * p.l), le = p.l * eta;
    snprintf(params, sizeof params,
             "eta=%.17g;alpha=%.17g;init=exact;solver=accurate;accuracy=%.17g;relative=%.17g;accuracy_power=0.6", eta,
             alpha, accuracy, relative);
    start(&e, f, "feddr", params, g, NULL, 1, &p); /* g(0) is finite */
    squared_errors(&p, eta, after);
    for (size_t r = 0; r < 2 * SUBSETS; r++) {
        double x[N][DIM], before[N], v = lyapunov(&p, g, eta, server(&e, 0)), moved = 0;
        uint32_t cohort[N];
        int in[N] = {0};
        size_t m = subset(1 + r * 37 % SUBSETS, cohort);
        for (size_t i = 0; i < m; i++) in[cohort[i]] = 1;
        memcpy(x, seen_x, sizeof x);
        memcpy(before, after, sizeof before);
        engine_round(&e, cohort, m, 0.05);
        squared_errors(&p, eta, after);
        double gain = lyapunov(&p, g, eta, server(&e, 0)) - v;
        for (size_t i = 0; i < N; i++) {
            double step = distance(DIM, x[i], seen_x[i]), error = sqrt(after[i]);
            moved += step * step;
            out.error = fmax(out.error, error);
            if (in[i] && accuracy > 0) assert_true(error <= accuracy / pow((double)r + 1, 0.6) + 1e-13);
            if (in[i] && relative > 0) assert_true(error <= relative * step + 1e-13);
        }
        for (size_t k = 0; k < 3; k++) {
            double slope =
                (2 - alpha * (le + 1) - 2 * le * le - 4 * alpha * gammas[k] * (1 + le * le)) / (2 * alpha * eta * N);
            out.missed =
                fmax(out.missed, gain + slope * moved - allowance(eta, le, alpha, gammas[k], in, before, after));
        }
        out.without = fmax(out.without, gain);
    }
    engine_fini(&e);
    return out;
}

static void sure_descent_with_errors(void **state)
{
    static const term *const terms[] = {&none, &l1, &box, &ball};
    static const double alphas[] = {0.4, 1, 1.9};
    double increase = 0, error = 0;
    for (size_t t = 0; t < sizeof terms / sizeof *terms; t++)
        for (size_t a = 0; a < 3; a++)
            for (int rule = 0; rule < 2; rule++)
                for (double loose = 1; loose > 0.01; loose /= 10) {
                    inexact got = inexact_descent(*state, terms[t], alphas[a], 0.9, rule ? 0 : loose, rule ? loose : 0);
                    if (!(got.missed < 1e-12))
                        fail_msg("%s, alpha %g, %s %g: (29) is missed by %g", terms[t]->name, alphas[a],
                                 rule ? "relative" : "accuracy", loose, got.missed);
                    increase = fmax(increase, got.without);
                    error = fmax(error, got.error);
                }
    /* the errors matter: they are not small, and there are rounds in which (25) does increase */
    assert_true(error > 0.01);
    assert_true(increase > 1e-6);
}

/* ---- the optimum --------------------------------------------------------------------------------------- */

static void reaches(fixture *f, const char *method, const char *params, const term *g, int everyone, size_t rounds,
                    double tolerance)
{
    engine e;
    quadratics p;
    double want[DIM];
    start(&e, f, method, params, g, NULL, 1, &p);
    optimum(&p, g, want);
    assert_true(gradient_mapping(&p, g, 0.1, want) < 1e-13);
    for (size_t i = 0; i < N; i++) e.steps[i] = 400; /* for SGD; with full batches it is gradient descent */
    double begin = gradient_mapping(&p, g, 0.1, server(&e, 0));
    assert_true(begin > 0.1);
    for (size_t r = 0; r < rounds; r++)
        if (everyone)
            engine_round(&e, e.everyone, N, 0.05);
        else
            round_with(&e, r);
    const double *x = server(&e, 0);
    double mapping = gradient_mapping(&p, g, 0.1, x), d = distance(DIM, x, want);
    if (!(mapping < 10 * tolerance && d < tolerance))
        fail_msg("%s %s, %s: gradient mapping %g, %g from the optimum", method, params, g->name, mapping, d);
    for (size_t k = 0; k < DIM; k++) { /* what is on the edge is there exactly */
        if (g == &l1) assert_int_equal(x[k] == 0, want[k] == 0);
        if (g == &positive || g == &box) {
            assert_int_equal(x[k] == g->a, want[k] == g->a);
            assert_int_equal(x[k] == g->b, want[k] == g->b);
        }
    }
    engine_fini(&e);
}

/* The problems are not trivial: some coordinates are on the edge, others are not. */
static void some_coordinates_lie_on_the_edge(void **state)
{
    static const term *const terms[] = {&l1, &positive, &box};
    quadratics p;
    double want[DIM];
    fli_fed *fed = quadratics_of(((fixture *)*state)->ctx, &p);
    for (size_t t = 0; t < 3; t++) {
        size_t on = 0;
        optimum(&p, terms[t], want);
        for (size_t k = 0; k < DIM; k++)
            on += terms[t] == &l1 ? want[k] == 0 : want[k] == terms[t]->a || want[k] == terms[t]->b;
        if (!on || on == DIM) fail_msg("%s: %zu of %d on the edge", terms[t]->name, on, DIM);
    }
    optimum(&p, &none, want);
    double free_norm = distance(DIM, want, (double[DIM]){0});
    optimum(&p, &ball, want);
    assert_true(free_norm > 0.5);
    assert_near(distance(DIM, want, (double[DIM]){0}), 0.4, 1e-12);
    fli_fed_free(fed);
}

static void composite_optimum(void **state)
{
    static const term *const terms[] = {&none, &l1, &positive, &box, &ball};
    for (size_t t = 0; t < sizeof terms / sizeof *terms; t++) {
        reaches(*state, "feddr", "eta=0.5;solver=exact", terms[t], 1, 1500, 1e-9);
        reaches(*state, "feddr", "eta=0.5;alpha=1;init=exact;solver=exact", terms[t], 0, 3000, 1e-9);
        reaches(*state, "feddr", "eta=0.2;alpha=1.5;solver=exact", terms[t], 0, 3000, 1e-9);
        reaches(*state, "feddr", "eta=0.5;alpha=1.5;init=exact", terms[t], 0, 1500, 1e-9); /* SGD, 400 steps */
    }
    reaches(*state, "fedsplit", "eta=0.5;solver=exact", &none, 1, 1500, 1e-9);
    reaches(*state, "fedsplit", "eta=0.5;solver=accurate;relative=0.1", &none, 1, 1500, 1e-9);
    reaches(*state, "fedsplit", "eta=0.5;init=exact;solver=exact", &none, 1, 1500, 1e-9);
}

/* eps_k = 1/(k+1) leaves no more than that when it ends; a relative accuracy leaves nothing. */
static void composite_optimum_with_errors(void **state)
{
    static const term *const terms[] = {&none, &l1, &positive, &box, &ball};
    for (size_t t = 0; t < sizeof terms / sizeof *terms; t++) {
        reaches(*state, "feddr", "eta=0.2;alpha=1;init=exact;solver=accurate;accuracy=1", terms[t], t % 2, 1000, 2e-3);
        reaches(*state, "feddr", "eta=0.2;alpha=1.5;solver=accurate;accuracy=1;accuracy_power=2", terms[t], 0, 1000,
                1e-5);
        reaches(*state, "feddr", "eta=0.1;alpha=1;init=exact;solver=accurate;relative=0.01", terms[t], 0, 1500, 1e-9);
        reaches(*state, "feddr", "eta=0.2;alpha=1.5;solver=accurate;relative=0.2", terms[t], 1, 1000, 1e-9);
    }
}

/* Composite FedAvg with one full step is the proximal gradient method, step by step, whatever the server's step size;
 * with several steps on different data it ends elsewhere. */
static void composite_fedavg(void **state)
{
    static const term *const terms[] = {&none, &l1, &box, &ball};
    static const struct {
        const char *method, *params;
        double server_lr;
    } ways[] = {{"fedavg", "", 1},
                {"fedavg", "aggregation=unbiased;server_lr=0.5", 0.5},
                {"local-sgd", "", 1},
                {"fedprox", "mu=3", 1}};
    for (size_t t = 0; t < 4 * 4; t++) {
        const term *g = terms[t / 4];
        double x[DIM], y[DIM], best[DIM];
        engine e;
        quadratics p;
        start(&e, *state, ways[t % 4].method, ways[t % 4].params, g, away_from_zero, 2, &p);
        spy.answer = watched->answer; /* there is no client state to watch */
        memcpy(x, away_from_zero, sizeof x);
        for (size_t r = 0; r < 400; r++) {
            engine_rounds(&e, 1, 1, 1 / p.l);
            forward_backward(&p, g, ways[t % 4].server_lr / p.l, x, y);
            memcpy(x, y, sizeof x);
            assert_true(distance(DIM, server(&e, 0), x) < 1e-12);
        }
        optimum(&p, g, best);
        assert_true(distance(DIM, server(&e, 0), best) < 1e-3);
        for (size_t r = 0; r < 400; r++) engine_rounds(&e, 1, 20, 1 / p.l);
        if (g != &box) assert_true(distance(DIM, server(&e, 0), best) > 1e-2);
        engine_fini(&e);
    }
}

static void fedsplit_is_feddr(void **state)
{
    static const char *const params[] = {"eta=0.4;init=lazy", "eta=0.4;init=exact", "eta=0.4;init=exact;solver=exact"};
    for (size_t i = 0; i < 3; i++) {
        char with_alpha[128];
        engine split, dr;
        quadratics p;
        snprintf(with_alpha, sizeof with_alpha, "%s;alpha=2", params[i]);
        start(&dr, *state, "feddr", with_alpha, &none, away_from_zero, 1, &p);
        double first = distance(DIM, server(&dr, 0), away_from_zero);
        for (size_t r = 0; r < 20; r++) engine_rounds(&dr, 1, 3, 0.05);
        start(&split, *state, "fedsplit", params[i], &none, away_from_zero, 1, &p);
        for (size_t r = 0; r < 20; r++) engine_rounds(&split, 1, 3, 0.05);
        assert_true(first == 0 && distance(DIM, server(&dr, 0), away_from_zero) > 0.1);
        assert_memory_equal(server(&dr, 0), server(&split, 0), DIM * sizeof(double));
        assert_memory_equal(server(&dr, 1), server(&split, 1), DIM * sizeof(double));
        engine_fini(&split);
        engine_fini(&dr);
    }
}

/* ---- runs ---------------------------------------------------------------------------------------------- */

static const char base[] = "rounds: 5\nthreads: 1\nprecision: f64\ndata: {kind: linreg, clients: 70, features: 9, "
                           "min_size: 4, max_size: 20}\nmodel: {kind: least_squares, weight_decay: 0.01}\n"
                           "participation: {kind: uniform, count: 12}\nlocal: {batch: 0, steps: 2, lr: 0.05}\n"
                           "regularizer: {kind: l1, weight: 0.02}\n"
                           "algorithm: {kind: feddr, eta: 0.5, init: exact, solver: exact}\n";

/* The base with assignments on top, separated by '|'. */
static fl_status planned(fixture *f, const char *assignments, fl_run **out)
{
    char text[512], *save = NULL;
    fl_config *cfg = fixture_config(f, base);
    fl_status s = FL_OK;
    snprintf(text, sizeof text, "%s", assignments);
    *out = NULL;
    for (char *a = strtok_r(text, "|", &save); a && !s; a = strtok_r(NULL, "|", &save)) s = fl_config_set(cfg, a);
    if (!s) s = fl_run_new(cfg, out);
    fl_config_free(cfg);
    return s;
}

/* The proximal step is as long as what the clients went: the sum of the gradients' weights, more with momentum and less
 * with a proximal term of their own. Within one round local steps know nothing of g, so it is the prox of what comes
 * out without it. */
static void composite_step_length(void **state)
{
    fixture *f = *state;
    enum { STEPS = 7 };
    static const double lr = 0.03, mu = 4;
    static const struct {
        const char *method, *momentum;
        double reach;
    } ways[] = {{"fedavg", "0", STEPS * 0.03}, {"fedavg", "0.5", 0}, {"{kind: fedprox, mu: 4}", "0", 0}};
    for (size_t k = 0; k < 3; k++) {
        double x[2][9], reach = ways[k].reach, v = 0, z = 0;
        for (size_t q = 0; q < STEPS && !ways[k].reach; q++) { /* against a constant gradient of 1 */
            v = (k == 1 ? 0.5 * v : 0) + 1 + (k == 2 ? mu * z : 0);
            z -= lr * v;
            reach = -z;
        }
        for (int with = 0; with < 2; with++) {
            char set[300];
            fl_run *run;
            snprintf(
                set, sizeof set,
                "algorithm=%s|local.momentum=%s|rounds=1|local.steps=7|local.lr=0.03|regularizer=%s|weights=uniform",
                ways[k].method, ways[k].momentum, with ? "{kind: l1, weight: 0.02}" : "none");
            assert_ok(f->ctx, planned(f, set, &run));
            assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
            assert_int_equal(fl_run_model(run, x[with], 9), 9);
            fl_run_free(run);
        }
        size_t moved = 0;
        for (size_t i = 0; i < 9; i++) {
            double soft = fmax(fabs(x[0][i]) - 0.02 * reach, 0);
            assert_near(x[1][i], copysign(soft, x[0][i]), 1e-12);
            moved += soft > 0;
        }
        assert_true(moved > 0);
    }
}

static fl_run *finished(fixture *f, const char *assignments)
{
    fl_run *r;
    assert_ok(f->ctx, planned(f, assignments, &r));
    assert_ok(f->ctx, fl_run_go(r, NULL, NULL));
    return r;
}

static void observe(void *arg, const fl_run *run, const fl_row *row, int fresh)
{
    double x[9], sum = 0;
    size_t *rows = arg;
    assert_true(fresh);
    assert_int_equal(fl_run_model(run, x, 9), 9);
    for (size_t k = 0; k < 9; k++) sum += 0.02 * fabs(x[k]);
    assert_near(fl_row_get(row, "regularizer"), sum, 1e-15);
    assert_true(fl_row_round(row) == 0 || fl_row_get(row, "regularizer") > 0);
    ++*rows;
}

static void regularizer_is_reported(void **state)
{
    fixture *f = *state;
    fl_run *r;
    size_t rows = 0;
    assert_ok(f->ctx, planned(f, "", &r));
    assert_ok(f->ctx, fl_run_go(r, observe, &rows));
    assert_int_equal(rows, 6);
    fl_run_free(r);
    r = finished(f, "regularizer=none");
    assert_true(isnan(fl_row_get(fl_run_row(r), "regularizer")));
    fl_run_free(r);
    r = finished(f, "regularizer=nonnegative");
    assert_true(fl_row_get(fl_run_row(r), "regularizer") == 0);
    fl_run_free(r);
    r = finished(f, "regularizer={kind: box, low: 1, high: 2}|rounds=0");
    assert_true(fl_row_get(fl_run_row(r), "regularizer") == INFINITY); /* the start model is not in it */
    fl_run_free(r);
}

static void one_vector_each_way(void **state)
{
    fixture *f = *state;
    const fl_row *rows;
    static const double vector = 9 * sizeof(double);
    for (int exact = 0; exact < 2; exact++) {
        fl_run *r = finished(f, exact ? "" : "algorithm.init=lazy");
        size_t n = fl_run_rows(r, &rows);
        assert_int_equal(n, 6);
        for (size_t k = 0; k < n; k++) {
            double turns = 12 * (double)k + (exact ? 70 : 0); /* everyone before the first round */
            assert_true(fl_row_get(&rows[k], "bytes_up") == turns * vector);
            /* lazy: the start model as well, in a client's first turn */
            double first = fl_row_get(&rows[k], "bytes_down") / vector - turns;
            assert_true(exact ? first == 0 : k ? first >= 12 && first <= 70 : first == 0);
        }
        fl_run_free(r);
    }
    fl_run *r = finished(f, "precision=f32|regularizer=none|algorithm=fedsplit|participation=everyone");
    assert_true(fl_row_get(fl_run_row(r), "bytes_up") == 5 * 70 * vector / 2);
    fl_run_free(r);
}

/* 70 clients are more than a block; both ways of factoring are among them. */
static void threads_agree(void **state)
{
    fixture *f = *state;
    for (int f32 = 0; f32 < 2; f32++) {
        double first[9], x[9];
        for (int t = 1; t <= 8; t++) {
            char set[128];
            snprintf(set, sizeof set, "threads=%d|precision=%s", t, f32 ? "f32" : "f64");
            fl_run *r = finished(f, set);
            fl_run_model(r, t == 1 ? first : x, 9);
            if (t > 1) assert_memory_equal(first, x, sizeof x);
            fl_run_free(r);
        }
        assert_true(distance(9, x, (double[9]){0}) > 1e-3);
    }
}

/* The run in single precision goes the same way. */
static void precisions_agree(void **state)
{
    fixture *f = *state;
    double x[9], y[9];
    fl_run *r = finished(f, "");
    fl_run_model(r, x, 9);
    fl_run_free(r);
    r = finished(f, "precision=f32");
    fl_run_model(r, y, 9);
    fl_run_free(r);
    for (size_t k = 0; k < 9; k++) assert_near(x[k], y[k], 1e-5);
    assert_memory_not_equal(x, y, sizeof x);
}

static void wrong_input(void **state)
{
    fixture *f = *state;
    fl_run *r;
    static const char blobs[] =
        "data={kind: blobs, classes: 2, samples: 60}|partition={kind: iid, clients: 6}|participation=everyone";
    char set[400];
    snprintf(set, sizeof set, "%s|model=logistic", blobs);
    assert_fails(f->ctx, planned(f, set, &r), FL_ECONFIG,
                 "the exact solver is for least squares; model logistic needs another");
    snprintf(set, sizeof set, "%s|model=logistic|algorithm.solver=sgd", blobs);
    assert_ok(f->ctx, planned(f, set, &r));
    fl_run_free(r);
    assert_fails(f->ctx, planned(f, "algorithm=scaffold", &r), FL_ECONFIG,
                 "algorithm scaffold takes no proximal step, so regularizer.kind must be none, not l1");
    assert_fails(f->ctx, planned(f, "algorithm=fedsplit|participation=everyone", &r), FL_ECONFIG,
                 "algorithm fedsplit takes no proximal step");
    assert_fails(f->ctx, planned(f, "algorithm=fedsplit|regularizer=none", &r), FL_ECONFIG,
                 "algorithm fedsplit needs every client in every round");
    assert_fails(f->ctx, planned(f, "regularizer={kind: box, low: 2, high: 1}", &r), FL_ECONFIG, "regularizer.low");
    assert_fails(f->ctx, planned(f, "weights=samples", &r), FL_ECONFIG, "weighs clients equally");
    assert_fails(f->ctx, planned(f, "algorithm.eta=0", &r), FL_ECONFIG, "algorithm.eta");
    assert_fails(f->ctx, planned(f, "algorithm.alpha=2.1", &r), FL_ECONFIG, "algorithm.alpha");
    assert_fails(f->ctx, planned(f, "algorithm.solver=accurate", &r), FL_ECONFIG,
                 "algorithm.solver is accurate, which needs algorithm.accuracy or algorithm.relative > 0");
    assert_fails(f->ctx, planned(f, "algorithm.solver=accurate|algorithm.relative=0.1|algorithm.weak_convexity=2", &r),
                 FL_ECONFIG, "algorithm.eta = 0.5 is too large for algorithm.weak_convexity = 2");
    assert_ok(f->ctx, planned(f, "algorithm.solver=accurate|algorithm.accuracy=1|algorithm.weak_convexity=1.9", &r));
    fl_run_free(r);
    assert_ok(f->ctx, planned(f, "algorithm.weak_convexity=2", &r)); /* not asked by the exact solver */
    fl_run_free(r);
}

static void count_line(void *arg, fl_log_level level, const char *line)
{
    if (level != FL_LOG_WARNING) return;
    if (!strstr(line, "fedsplit") || !strstr(line, "needs convex objectives")) fail_msg("\"%s\"", line);
    ++*(size_t *)arg;
}

static void fedsplit_wants_convexity(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *set;
        size_t lines;
    } cases[] = {{"model=softmax|algorithm=fedsplit", 0},
                 {"model={kind: mlp, hidden: [3]}|algorithm=fedsplit", 1},
                 {"model={kind: mlp, hidden: [3]}|algorithm=feddr", 0}};
    for (size_t i = 0; i < 3; i++) {
        fl_run *r;
        char set[400];
        size_t lines = 0;
        snprintf(set, sizeof set,
                 "data={kind: blobs, samples: 60}|partition={kind: iid, clients: 6}|participation=everyone|"
                 "regularizer=none|algorithm.solver=sgd|%s",
                 cases[i].set);
        fl_ctx_on_log(f->ctx, count_line, &lines);
        assert_ok(f->ctx, planned(f, set, &r));
        fl_ctx_on_log(f->ctx, NULL, NULL);
        fl_run_free(r);
        assert_int_equal(lines, cases[i].lines);
    }
}

/* Allocation 1, 2, ... fails in a run with warm-up, factors and regulariser. */
static void memory_may_run_out(void **state)
{
    fixture *f = *state;
    static const char small[] = "data.clients=4|rounds=2|participation.count=2|threads=%d";
    for (int threads = 1; threads < 4; threads += 2) {
        size_t k = 0;
        fl_status s;
        fl_config *cfg = fixture_config(f, base);
        char text[128], *save = NULL;
        snprintf(text, sizeof text, small, threads);
        for (char *a = strtok_r(text, "|", &save); a; a = strtok_r(NULL, "|", &save))
            assert_ok(f->ctx, fl_config_set(cfg, a));
        do {
            fl_run *r = NULL;
            fli_clear(f->ctx);
            fli_ctx_fail_alloc(f->ctx, ++k);
            s = fl_run_new(cfg, &r);
            if (!s) s = fl_run_go(r, NULL, NULL);
            fli_ctx_fail_alloc(f->ctx, 0);
            fl_run_free(r);
            if (s && s != FL_ENOMEM) fail_msg("allocation %zu: status %d (%s)", k, (int)s, fl_ctx_error(f->ctx));
        } while (s && k < 2000);
        assert_true(k > 50 && k < 2000);
        fl_config_free(cfg);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(the_server_averages_reflections),
        FIXTURE_TEST(lemma_a1),
        FIXTURE_TEST(both_starts_lead_to_one_path),
        FIXTURE_TEST(sure_descent),
        FIXTURE_TEST(sure_descent_with_errors),
        FIXTURE_TEST(some_coordinates_lie_on_the_edge),
        FIXTURE_TEST(composite_optimum),
        FIXTURE_TEST(composite_optimum_with_errors),
        FIXTURE_TEST(composite_fedavg),
        FIXTURE_TEST(composite_step_length),
        FIXTURE_TEST(fedsplit_is_feddr),
        FIXTURE_TEST(regularizer_is_reported),
        FIXTURE_TEST(one_vector_each_way),
        FIXTURE_TEST(threads_agree),
        FIXTURE_TEST(precisions_agree),
        FIXTURE_TEST(wrong_input),
        FIXTURE_TEST(fedsplit_wants_convexity),
        FIXTURE_TEST(memory_may_run_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
