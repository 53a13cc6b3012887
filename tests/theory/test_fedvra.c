/* FedVRA and federated ADMM: what the paper proves and claims, on heterogeneous quadratics in double precision. Section
 * III (what it contains), Lemma 1 in the form (13)-(14), Theorem 1, Remark 1. A plain implementation of Algorithm 1
 * stands beside the engine. */
#include "fixture.h"

#include "algo/family_vra.h"
#include "run/state.h"

enum { DIM = 3, N = 6, MOST = 8 /* steps */ };
static const size_t sizes[N] = {8, 12, 20, 9, 15, 30};

typedef struct {
    double h[N][DIM * DIM], q[N][DIM], w[N];
} quadratics;

static void gradient(const quadratics *p, size_t i, const double *z, double *g)
{
    for (size_t r = 0; r < DIM; r++) {
        g[r] = -p->q[i][r];
        for (size_t k = 0; k < DIM; k++) g[r] += p->h[i][r * DIM + k] * z[k];
    }
}

/* ||grad f(x)||^2 of f = sum w_i f_i */
static double gradient2(const quadratics *p, const double *x)
{
    double sum[DIM] = {0}, g[DIM], norm2 = 0;
    for (size_t i = 0; i < N; i++) {
        gradient(p, i, x, g);
        for (size_t k = 0; k < DIM; k++) sum[k] += p->w[i] * g[k];
    }
    for (size_t k = 0; k < DIM; k++) norm2 += sum[k] * sum[k];
    return norm2;
}

/* The largest eigenvalue of a client's Hessian. */
static double smoothness(const quadratics *p, size_t i)
{
    double v[DIM] = {1, 0.7, 0.4}, norm = 0;
    for (size_t t = 0; t < 2000; t++) {
        double hv[DIM] = {0};
        norm = 0;
        for (size_t r = 0; r < DIM; r++)
            for (size_t k = 0; k < DIM; k++) hv[r] += p->h[i][r * DIM + k] * v[k];
        for (size_t r = 0; r < DIM; r++) norm += hv[r] * hv[r];
        norm = sqrt(norm);
        for (size_t r = 0; r < DIM; r++) v[r] = hv[r] / norm;
    }
    return norm;
}

/* ---- the engine, watched ------------------------------------------------------------------------------- */

static const fl_method *watched;
/* What the clients had after their last turns: the solution x_i, their first own vector, the first scalar they sent. */
static double seen_x[N][DIM], seen_state[N][DIM], seen_a[N];

static int watch_answer(const fl_turn *t, const fl_answer *a)
{
    watched->answer(t, a);
    memcpy(seen_x[t->ask.client], a->z, sizeof seen_x[0]);
    if (watched->client) memcpy(seen_state[t->ask.client], t->state[0], sizeof seen_state[0]);
    if (fli_parts_numbers(watched->up)) seen_a[t->ask.client] = t->up_scalars[0];
    return 0;
}

static fl_method spy;

static int uniform; /* whether the engines below weigh clients equally */

/* An engine for the method, and the quadratics it works on unless p is NULL. */
static void start_method(engine *e, fixture *f, const fl_method *a, const char *params, size_t batch, quadratics *p)
{
    const double l2 = 1;
    fli_fed *fed = random_fed(f->ctx, N, sizes, DIM, 0, 11);
    for (size_t i = 0; i < N && p; i++) {
        client_quadratic(f->ctx, fed, i, l2, p->h[i], p->q[i]);
        p->w[i] = uniform ? 1.0 / N : (double)sizes[i] / (double)fed->samples;
    }
    engine_init(e, f->ctx, fed, "least_squares", &fli_ops_f64, l2, a, params, uniform, (fli_sgd_spec){batch, 0}, 1);
}

static void start(engine *e, fixture *f, const char *name, const char *params, size_t batch, quadratics *p)
{
    start_method(e, f, algo_named(name), params, batch, p);
}

static void start_watched(engine *e, fixture *f, const char *name, const char *params, quadratics *p)
{
    watched = algo_named(name);
    spy = *watched;
    spy.answer = watch_answer;
    memset(seen_x, 0, sizeof seen_x);
    memset(seen_state, 0, sizeof seen_state);
    memset(seen_a, 0, sizeof seen_a);
    start_method(e, f, &spy, params, 0, p);
}

/* What a round is asked, for every client of the federation. */
typedef struct {
    size_t q[N];
    double lr[N], probability[N];
} demand;

static void round_of(engine *e, const uint32_t *cohort, size_t m, const demand *d)
{
    fl_ask asks[N];
    size_t round = e->round++;
    for (size_t i = 0; i < m; i++)
        asks[i] = (fl_ask){.client = cohort[i],
                           .stream = round,
                           .steps = d->q[cohort[i]],
                           .lr = d->lr[cohort[i]],
                           .probability = d->probability[cohort[i]]};
    fli_round r = {.round = round, .flags = FLI_ASK_HAS_BODY | FLI_ASK_REPLY, .asks = asks, .count = m};
    assert_ok(e->ctx, fli_exec_round(e->exec, &r));
}

static const double *server(engine *e, size_t v) { return fli_exec_server(e->exec)[v]; }

/* Everything differs by client and round. */
static size_t draw(fli_rng *rng, demand *d, uint32_t *cohort)
{
    size_t m = 1 + (size_t)fli_rng_below(rng, N);
    fli_rng_sample(rng, N, m, cohort);
    for (size_t i = 0; i < N; i++) {
        d->q[i] = 1 + (size_t)fli_rng_below(rng, MOST);
        d->lr[i] = 0.01 + 0.04 * fli_rng_uniform(rng);
        d->probability[i] = 0.2 + 0.8 * fli_rng_uniform(rng);
    }
    return m;
}

/* ---- Algorithm 1, plainly ------------------------------------------------------------------------------ */

typedef struct {
    double x[DIM], lam[DIM], lam_i[N][DIM];
} plain;

typedef struct {
    double gamma[N], a[N], d[N];
} knobs;

static double beta_of(const quadratics *p, const knobs *k)
{
    double sum = 0;
    for (size_t i = 0; i < N; i++) sum += p->w[i] * k->gamma[i];
    return 1 / sum;
}

/* Qt_i, term by term */
static double weighted_steps(double gamma, double lr, size_t q)
{
    double sum = 0, term = 1;
    for (size_t t = 0; t < q; t++, term *= 1 - gamma * lr) sum += term;
    return sum;
}

/* Steps 3 to 20; path[t] receives the iterates of every client of the cohort, if wanted. */
static void plain_round(const quadratics *p, const knobs *k, const demand *ask, const uint32_t *cohort, size_t m,
                        plain *s, double (*path)[MOST + 1][DIM])
{
    double beta = beta_of(p, k), sum[DIM] = {0}, g[DIM];
    for (size_t c = 0; c < m; c++) {
        size_t i = cohort[c];
        double z[DIM];
        memcpy(z, s->x, sizeof z);
        for (size_t t = 0; t < ask->q[i]; t++) {
            if (path) memcpy(path[i][t], z, sizeof z);
            gradient(p, i, z, g);
            for (size_t j = 0; j < DIM; j++) g[j] += -s->lam_i[i][j] + k->gamma[i] * (z[j] - s->x[j]);
            for (size_t j = 0; j < DIM; j++) z[j] -= ask->lr[i] * g[j];
        }
        if (path) memcpy(path[i][ask->q[i]], z, sizeof z);
        for (size_t j = 0; j < DIM; j++) {
            double u = k->gamma[i] * (z[j] - s->x[j]);
            s->lam_i[i][j] -= k->a[i] * u;
            s->lam[j] -= p->w[i] * k->a[i] * u;
            sum[j] += p->w[i] * k->d[i] * u;
        }
    }
    for (size_t j = 0; j < DIM; j++) s->x[j] += beta * (sum[j] - s->lam[j]);
}

static void assert_vector(const double *got, const double *want, double tolerance)
{
    for (size_t j = 0; j < DIM; j++) assert_near(got[j], want[j], tolerance * fmax(1, fabs(want[j])));
}

/* ---- section III: what FedVRA contains ------------------------------------------------------------------ */

/* Both methods over the same random cohorts (of m clients; 0: of any size), efforts, step sizes and mini-batches: the
 * models agree after every round, to rounding or bit by bit. */
static void equal(fixture *f, const char *one, const char *params, const char *vra, size_t m, double tolerance)
{
    engine a, b;
    fli_rng rng;
    uint32_t cohort[N];
    demand d;
    double moved = 0;
    start(&a, f, one, params, 3, NULL);
    start(&b, f, "fedvra", vra, 3, NULL);
    fli_rng_init(&rng, 3, FLI_RNG_TEST, 0, 0);
    for (size_t r = 0; r < 40; r++) {
        size_t count = draw(&rng, &d, cohort);
        if (m) fli_rng_sample(&rng, N, count = m, cohort);
        for (size_t i = 0; i < N && m; i++) d.probability[i] = (double)m / N;
        round_of(&a, cohort, count, &d);
        round_of(&b, cohort, count, &d);
        for (size_t j = 0; j < DIM; j++) {
            double x = server(&a, 0)[j], y = server(&b, 0)[j];
            if (!(fabs(x - y) <= tolerance * fmax(1, fabs(x))))
                fail_msg("round %zu: %s %s is at %.17g, fedvra %s at %.17g", r, one, params, x, vra, y);
            moved = fmax(moved, fabs(x));
        }
    }
    assert_true(moved > 0.05);
    engine_fini(&a);
    engine_fini(&b);
}

static void contains_fedavg(void **state)
{
    equal(*state, "fedavg", "aggregation=unbiased", "preset=fedavg", 0, 1e-13);
    equal(*state, "fedavg", "aggregation=unbiased", "gamma=0;a=0;d=2", 3, 1e-13);
    equal(*state, "fedavg", "aggregation=unbiased", "gamma=0;d=auto", 2, 1e-13); /* d = 1/p_i */
    equal(*state, "fedavg", "", "gamma=0;d=1", 6, 1e-13);
}

static void contains_fedprox(void **state)
{
    equal(*state, "fedprox", "mu=0.7;aggregation=unbiased", "preset=fedprox;gamma=0.7", 0, 1e-13);
    equal(*state, "fedprox", "mu=0.7;aggregation=unbiased", "gamma=0.7;a=0;d=2", 3, 1e-13);
    equal(*state, "fedprox", "mu=0.7;aggregation=unbiased", "gamma=[0.7,0.7,0.7,0.7,0.7,0.7];a=0;d=auto", 2, 1e-13);
}

static void contains_fednova(void **state)
{
    fixture *f = *state;
    static const uint32_t cohort[] = {0, 2, 3, 5};
    const demand ask = {.q = {1, 2, 3, 4, 5, 6}, .lr = {0.05, 0.05, 0.05, 0.05, 0.05, 0.05}};
    double w[N], total = 0, qeff = 0;
    char params[256] = "gamma=0;a=0;d=[", number[40];
    engine a, b;
    equal(f, "fednova", "", "preset=fednova", 0, 1e-13);
    /* without the preset: d_i = Qeff/(Q_i sum_S w), for a cohort that stays */
    for (size_t i = 0; i < N; i++) w[i] = (double)sizes[i] / 94;
    for (size_t c = 0; c < 4; c++) total += w[cohort[c]];
    for (size_t c = 0; c < 4; c++) qeff += w[cohort[c]] * (double)ask.q[cohort[c]] / total;
    for (size_t i = 0; i < N; i++) {
        snprintf(number, sizeof number, "%s%.17g", i ? "," : "", qeff / ((double)ask.q[i] * total));
        strcat(params, number);
    }
    strcat(params, "]");
    start(&a, f, "fednova", "", 0, NULL);
    start(&b, f, "fedvra", params, 0, NULL);
    for (size_t r = 0; r < 10; r++) {
        round_of(&a, cohort, 4, &ask);
        round_of(&b, cohort, 4, &ask);
        assert_vector(server(&b, 0), server(&a, 0), 1e-13);
    }
    engine_fini(&a);
    engine_fini(&b);
}

static void contains_admm(void **state)
{
    equal(*state, "fedadmm", "gamma=0.7", "preset=admm;gamma=0.7", 0, 0);
    equal(*state, "fedadmm", "gamma=[1,2,3,1.5,0.7,4]", "preset=admm;gamma=[1,2,3,1.5,0.7,4];a=3;d=9", 0, 0);
    equal(*state, "fedadmm", "gamma=[1,2,3,1.5,0.7,4]", "gamma=[1,2,3,1.5,0.7,4];a=1;d=1", 0, 0);
}

/* FedDyn whose local problems are solved by SGD, as feddyn's are: for any cohorts, efforts and step sizes, if all
 * weights are equal. */
static void contains_feddyn(void **state)
{
    uniform = 1;
    equal(*state, "feddyn", "alpha=0.7", "preset=feddyn;gamma=0.7", 0, 1e-12);
    equal(*state, "feddyn", "alpha=3", "preset=feddyn;gamma=[3,3,3,3,3,3];a=9;d=5", 0, 1e-12);
    equal(*state, "feddyn", "alpha=0.7", "gamma=0.7;a=1;d=2", 3, 1e-12);
    equal(*state, "feddyn", "alpha=0.7", "preset=admm;gamma=0.7", N, 1e-12); /* everyone: d = 1 */
    uniform = 0;
}

/* (24) in the first round, where nothing has been corrected yet: with a = 1/(gamma lr Q) the dual variable is
 * SCAFFOLD's control variate, and x_i its local model, up to a multiple of gamma. */
static void first_round_tends_to_scaffold(void **state)
{
    fixture *f = *state;
    const demand ask = {
        .q = {5, 5, 5, 5, 5, 5}, .lr = {0.05, 0.05, 0.05, 0.05, 0.05, 0.05}, .probability = {1, 1, 1, 1, 1, 1}};
    double x[N][DIM], c[N][DIM], last[2] = {0};
    engine e;
    start_watched(&e, f, "scaffold", "", NULL);
    round_of(&e, e.everyone, N, &ask);
    memcpy(x, seen_x, sizeof x);
    memcpy(c, seen_state, sizeof c);
    engine_fini(&e);
    for (double gamma = 1e-2; gamma > 5e-6; gamma /= 10) {
        char params[100];
        double off[2] = {0};
        snprintf(params, sizeof params, "gamma=%g;preset=scaffold", gamma);
        start_watched(&e, f, "fedvra", params, NULL);
        round_of(&e, e.everyone, N, &ask);
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < DIM; j++) {
                off[0] = fmax(off[0], fabs(seen_x[i][j] - x[i][j]));
                off[1] = fmax(off[1], fabs(-seen_state[i][j] - c[i][j]));
            }
        for (size_t k = 0; k < 2; k++) {
            assert_true(off[k] > 0);
            if (last[k] > 0) assert_near(last[k] / off[k], 10, 0.1);
            last[k] = off[k];
        }
        engine_fini(&e);
    }
}

/* After one step each both are equal, with any gamma, efforts and step sizes apart: c_i = lam_i, c = lam, and
 * SCAFFOLD's model is the y of x = y - lam/gamma. */
static void one_step_is_scaffolds(void **state)
{
    fixture *f = *state;
    const demand ask = {.q = {1, 1, 1, 1, 1, 1}, .lr = {0.05, 0.02, 0.03, 0.01, 0.05, 0.04}};
    double c_i[N][DIM], c[DIM], x[DIM], y[DIM];
    engine e;
    start_watched(&e, f, "scaffold", "", NULL);
    round_of(&e, e.everyone, N, &ask);
    memcpy(c_i, seen_state, sizeof c_i);
    memcpy(x, server(&e, 0), sizeof x);
    memcpy(c, server(&e, 1), sizeof c);
    engine_fini(&e);
    start_watched(&e, f, "fedvra", "gamma=0.8;preset=scaffold;a=9;d=9", NULL);
    round_of(&e, e.everyone, N, &ask);
    for (size_t i = 0; i < N; i++)
        for (size_t j = 0; j < DIM; j++) assert_near(-seen_state[i][j], c_i[i][j], 1e-13);
    for (size_t j = 0; j < DIM; j++) y[j] = server(&e, 0)[j] + server(&e, 1)[j] / 0.8;
    assert_vector(server(&e, 1), c, 1e-13);
    assert_vector(y, x, 1e-13);
    assert_true(fabs(c[0]) > 0.05);
    engine_fini(&e);
}

/* But whole runs do not tend to SCAFFOLD's: after one round x lies c/gamma away from its model, and small gamma
 * diverge. */
static void runs_do_not_tend_to_scaffolds(void **state)
{
    fixture *f = *state;
    const demand ask = {.q = {5, 5, 5, 5, 5, 5}, .lr = {0.05, 0.05, 0.05, 0.05, 0.05, 0.05}};
    double last = 0, after[2];
    engine a, b;
    for (double gamma = 1e-1; gamma > 5e-4; gamma /= 10) {
        char params[64];
        snprintf(params, sizeof params, "gamma=%g;preset=scaffold", gamma);
        start(&a, f, "scaffold", "", 0, NULL);
        start(&b, f, "fedvra", params, 0, NULL);
        for (size_t r = 0; r < 2; r++) {
            round_of(&a, a.everyone, N, &ask);
            round_of(&b, b.everyone, N, &ask);
            after[r] = distance(DIM, server(&a, 0), server(&b, 0));
        }
        if (last > 0) assert_near(after[0] / last, 10, 0.5);
        assert_true(after[1] > 5 * after[0]);
        last = after[0];
        engine_fini(&a);
        engine_fini(&b);
    }
}

/* (23): after a server step x = y - lam/gamma the problem posed to a client is SCAFFOLD's, with c = lam and c_i =
 * lam_i, plus gamma/2 ||z - y||^2. So its gradients, and steps from any common point, differ by a multiple of gamma.
 * (The method itself starts at x, which runs away from y as gamma goes to 0: the limit is that of the problem, not of
 * whole runs.) */
static void posed_problem_tends_to_scaffolds(void **state)
{
    fixture *f = *state;
    static const double y[DIM] = {0.3, -0.2, 0.5}, c[DIM] = {0.4, 0.1, -0.6}, c_i[DIM] = {-0.2, 0.7, 0.3}, lr = 0.05;
    double minus_lam_i[DIM], x[DIM], correction[DIM], end[DIM] = {1, 1, 1}, g[DIM], last = 0;
    const fl_space space = fli_space_of(&fli_ops_f64, DIM, NULL);
    quadratics p;
    engine e;
    start(&e, f, "fedavg", "", 0, &p);
    for (size_t j = 0; j < DIM; j++) minus_lam_i[j] = -c_i[j];

    fl_problem scaffold = {0}, vra = {0};
    const fl_ask ask = {.cohort = N, .steps = 5, .lr = lr, .probability = 1, .phases = 1};
    fl_turn t = {.space = space, .ask = ask, .clients = N};
    t.down = (const void *const[]){y, c};
    t.state = (void *const[]){(void *)(uintptr_t)c_i};
    t.work = (void *const[]){correction};
    algo_named("scaffold")->pose(&t, &scaffold);
    for (size_t s = 0; s < 5; s++) {
        gradient(&p, 0, end, g);
        for (size_t j = 0; j < DIM; j++) end[j] -= lr * (g[j] + ((const double *)scaffold.shift)[j]);
    }
    for (double gamma = 1e-2; gamma > 5e-6; gamma /= 10) {
        char params[64];
        double z[DIM] = {1, 1, 1};
        snprintf(params, sizeof params, "gamma=%g;a=1;d=1", gamma);
        t.params = bound(f->ctx, &e.arena, algo_named("fedvra")->keys, algo_named("fedvra")->params_size, params);
        for (size_t j = 0; j < DIM; j++) x[j] = y[j] - c[j] / gamma;
        t.down = (const void *const[]){x};
        t.state = (void *const[]){minus_lam_i};
        algo_named("fedvra")->pose(&t, &vra);
        for (size_t s = 0; s < 5; s++) {
            gradient(&p, 0, z, g);
            for (size_t j = 0; j < DIM; j++)
                z[j] -=
                    lr * (g[j] + ((const double *)vra.shift)[j] + vra.rho * (z[j] - ((const double *)vra.anchor)[j]));
        }
        double off = distance(DIM, z, end);
        assert_true(off > 0);
        if (last > 0) assert_near(last / off, 10, 0.1);
        last = off;
    }
    assert_true(last < 1e-5);
    engine_fini(&e);
}

/* ---- Algorithm 1 and Lemma 1 --------------------------------------------------------------------------- */

/* The engine against the plain implementation and the identities, with everything unequal. At every round: x, lam and
 * lam_i of the engine; lam = sum w_i lam_i; (13) at every local step and (14) after them. */
static void the_engine_satisfies_the_identities(void **state)
{
    fixture *f = *state;
    const knobs k = {.gamma = {1, 2, 3, 1.5, 0.7, 4}, .a = {2, 1, 3, 0.5, 4, 1}, .d = {1, 2, 1.5, 3, 2, 1}};
    quadratics p;
    engine e;
    fli_rng rng;
    demand ask;
    uint32_t cohort[N];
    plain s = {0};
    static double path[N][MOST + 1][DIM];
    double x[DIM], from[DIM] = {0}, lam[DIM], lam_i[N][DIM], largest = 0;
    start_watched(&e, f, "fedvra", "gamma=[1,2,3,1.5,0.7,4];a=[2,1,3,0.5,4,1];d=[1,2,1.5,3,2,1]", &p);
    double beta = beta_of(&p, &k);
    fli_rng_init(&rng, 8, FLI_RNG_TEST, 0, 0);
    for (size_t r = 0; r < 60; r++) {
        double sum[DIM] = {0};
        size_t m = draw(&rng, &ask, cohort);
        memcpy(x, server(&e, 0), sizeof x);
        memcpy(lam, server(&e, 1), sizeof lam);
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < DIM; j++) lam_i[i][j] = -seen_state[i][j];
        plain_round(&p, &k, &ask, cohort, m, &s, path);
        round_of(&e, cohort, m, &ask);

        assert_vector(server(&e, 0), s.x, 1e-11);
        assert_vector(server(&e, 1), s.lam, 1e-11);
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < DIM; j++) {
                sum[j] -= p.w[i] * seen_state[i][j];
                assert_near(-seen_state[i][j], s.lam_i[i][j], 1e-11);
            }
        assert_vector(server(&e, 1), sum, 1e-12);
        for (size_t c = 0; c < m; c++) {
            size_t i = cohort[c], q = ask.q[i];
            double gl = k.gamma[i] * ask.lr[i], qt = weighted_steps(k.gamma[i], ask.lr[i], q), mean[DIM] = {0}, g[DIM];
            assert_vector(seen_x[i], path[i][q], 1e-11);
            for (size_t t = 0; t < q; t++) {
                gradient(&p, i, path[i][t], g);
                for (size_t j = 0; j < DIM; j++) {
                    double correction = g[j] + k.gamma[i] * beta * lam[j] - lam_i[i][j];
                    double next = (1 - gl) * (path[i][t][j] - ask.lr[i] / (1 - gl) * correction) + gl * from[j];
                    assert_near(path[i][t + 1][j], next, 1e-11); /* (13) */
                    mean[j] += pow(1 - gl, (double)(q - 1 - t)) / qt * g[j];
                }
            }
            for (size_t j = 0; j < DIM; j++) {
                double share = k.a[i] * gl * qt;
                assert_near(-seen_state[i][j], share * mean[j] + (1 - share) * lam_i[i][j], 1e-11); /* (14) */
                largest = fmax(largest, fabs(seen_state[i][j]));
            }
        }
        /* the next round's x_0^{r-1} + beta sum w_j d_j gamma_j (x_j^r - x_0^{r-1}), over this round's cohort */
        for (size_t j = 0; j < DIM; j++) {
            from[j] = x[j];
            for (size_t c = 0; c < m; c++) {
                size_t i = cohort[c];
                from[j] += beta * p.w[i] * k.d[i] * k.gamma[i] * (seen_x[i][j] - x[j]);
            }
        }
    }
    assert_true(largest > 0.1); /* not 0 = 0 */
    engine_fini(&e);
}

/* x + beta lam after a round of this cohort, which follows two rounds of everyone; `before`: x ahead of it. */
static void after_cohort(fixture *f, const char *params, double beta, const uint32_t *cohort, size_t m, double *out,
                         double *before)
{
    static const uint32_t everyone[N] = {0, 1, 2, 3, 4, 5};
    const demand ask = {.q = {1, 2, 3, 4, 5, 6}, .lr = {0.01, 0.02, 0.03, 0.04, 0.05, 0.02}};
    quadratics p;
    engine e;
    start_watched(&e, f, "fedvra", params, &p);
    for (size_t r = 0; r < 2; r++) round_of(&e, everyone, N, &ask);
    memcpy(before, server(&e, 0), sizeof(double[DIM]));
    round_of(&e, cohort, m, &ask);
    for (size_t j = 0; j < DIM; j++) out[j] = server(&e, 0)[j] + beta * server(&e, 1)[j];
    engine_fini(&e);
}

/* (16): what d does to the mean of the global model over all cohorts of m clients. With d = N/m the mean is that of the
 * local models, as if everyone took part; with d = 1 it lags behind with the share of those who do not. */
static void mean_over_cohorts(void **state)
{
    enum { M = 2 };
    static const uint32_t everyone[N] = {0, 1, 2, 3, 4, 5};
    static const double gamma[N] = {1, 2, 3, 1.5, 0.7, 4};
    double lag = 0;
    for (size_t way = 0; way < 2; way++) {
        double d = way ? (double)N / M : 1, beta = 0, mean[DIM] = {0}, local[DIM] = {0}, x[DIM], one[DIM], w[N];
        char params[100];
        size_t cohorts = 0;
        snprintf(params, sizeof params, "gamma=[1,2,3,1.5,0.7,4];a=1.5;d=%.17g", d);
        for (size_t i = 0; i < N; i++) w[i] = (double)sizes[i] / 94;
        for (size_t i = 0; i < N; i++) beta += w[i] * gamma[i];
        beta = 1 / beta;
        after_cohort(*state, params, beta, everyone, N, one, x);
        for (size_t i = 0; i < N; i++)
            for (size_t j = 0; j < DIM; j++) local[j] += beta * w[i] * gamma[i] * seen_x[i][j];
        for (uint32_t i = 0; i < N; i++)
            for (uint32_t k = i + 1; k < N; k++, cohorts++) {
                after_cohort(*state, params, beta, (uint32_t[M]){i, k}, M, one, x);
                for (size_t j = 0; j < DIM; j++) mean[j] += one[j] / 15;
            }
        assert_int_equal(cohorts, 15);
        for (size_t j = 0; j < DIM; j++) {
            assert_near(mean[j], way ? local[j] : (1 - (double)M / N) * x[j] + (double)M / N * local[j], 1e-12);
            lag = fmax(lag, fabs(x[j] - local[j]));
        }
    }
    assert_true(lag > 0.01); /* the two are not the same */
}

/* Remark 1: d_i = 1/p_i; a_i as large as (a_i + d_i) lr gamma_i Qt_i <= 1 lets it be, but not below 0. */
static void automatic_weights_follow_remark_1(void **state)
{
    fixture *f = *state;
    knobs k = {.gamma = {1, 2, 30, 1.5, 0.7, 25}};
    quadratics p;
    engine e;
    fli_rng rng;
    demand ask;
    uint32_t cohort[N];
    plain s = {0};
    size_t zero = 0, positive = 0;
    start_watched(&e, f, "fedvra", "gamma=[1,2,30,1.5,0.7,25];a=auto;d=auto", &p);
    fli_rng_init(&rng, 5, FLI_RNG_TEST, 0, 0);
    for (size_t r = 0; r < 60; r++) {
        size_t m = draw(&rng, &ask, cohort);
        for (size_t i = 0; i < N; i++) {
            double most = 1 / (ask.lr[i] * k.gamma[i] * weighted_steps(k.gamma[i], ask.lr[i], ask.q[i]));
            k.d[i] = 1 / ask.probability[i];
            k.a[i] = most > k.d[i] ? most - k.d[i] : 0;
        }
        plain_round(&p, &k, &ask, cohort, m, &s, NULL);
        round_of(&e, cohort, m, &ask);
        assert_vector(server(&e, 0), s.x, 1e-10); /* d_i is seen here */
        for (size_t c = 0; c < m; c++) {
            size_t i = cohort[c];
            double qt = weighted_steps(k.gamma[i], ask.lr[i], ask.q[i]);
            double used = (seen_a[i] + 1 / ask.probability[i]) * ask.lr[i] * k.gamma[i] * qt;
            assert_true(seen_a[i] >= 0);
            assert_near(seen_a[i], k.a[i], 1e-11 * fmax(1, k.a[i]));
            if (seen_a[i] > 0)
                assert_near(used, 1, 1e-12);
            else
                assert_true(used >= 1);
            *(seen_a[i] > 0 ? &positive : &zero) += 1;
        }
    }
    assert_true(zero > 10 && positive > 10);
    engine_fini(&e);

    /* one of the two given: the other one follows it */
    start_watched(&e, f, "fedvra", "gamma=2;a=auto;d=1.5", &p);
    size_t m = draw(&rng, &ask, cohort);
    round_of(&e, cohort, m, &ask);
    for (size_t c = 0; c < m; c++) {
        size_t i = cohort[c];
        assert_near((seen_a[i] + 1.5) * ask.lr[i] * 2 * weighted_steps(2, ask.lr[i], ask.q[i]), 1, 1e-12);
    }
    engine_fini(&e);
}

/* The rule `balanced`, with s and gamma settled and everything else unequal: a_i bounded, d_i from the cohort. */
static void balanced_weights_follow_their_rule(void **state)
{
    fixture *f = *state;
    static const struct {
        double step, gamma;
        const char *params;
    } cases[] = {
        {1, 1, ""}, {1, 0.2, "gamma=0.2;step=1"}, {1.25, 0.25, "gamma=0.25;step=1.25"}, {2, 30, "gamma=30;step=2"}};
    size_t all_bounded = 0;
    for (size_t o = 0; o < sizeof cases / sizeof *cases; o++) {
        knobs k;
        quadratics p;
        engine e;
        fli_rng rng;
        demand ask;
        uint32_t cohort[N];
        plain s = {0};
        size_t bounded = 0, turns = 0;
        start_watched(&e, f, "fedvra", cases[o].params, &p);
        fli_rng_init(&rng, 6, FLI_RNG_TEST, 0, 0);
        for (size_t r = 0; r < 40; r++) {
            size_t m = draw(&rng, &ask, cohort);
            double weight = 0;
            for (size_t c = 0; c < m; c++) weight += p.w[cohort[c]] / ask.probability[cohort[c]];
            for (size_t i = 0; i < N; i++) {
                double step = cases[o].step / ask.probability[i], gamma = k.gamma[i] = cases[o].gamma;
                double most = 1 / (ask.lr[i] * gamma * weighted_steps(gamma, ask.lr[i], ask.q[i]));
                k.a[i] = fmin(step / 2, most);
                k.d[i] = step / weight - k.a[i];
            }
            plain_round(&p, &k, &ask, cohort, m, &s, NULL);
            round_of(&e, cohort, m, &ask);
            assert_vector(server(&e, 0), s.x, 1e-10);
            for (size_t c = 0; c < m; c++) {
                size_t i = cohort[c];
                assert_near(seen_a[i], k.a[i], 1e-12 * fmax(1, k.a[i]));
                bounded += k.a[i] < cases[o].step / ask.probability[i] / 2;
                turns++;
            }
        }
        assert_true(bounded <= turns);
        all_bounded += bounded;
        engine_fini(&e);
    }
    assert_true(all_bounded > 10);
}

static void factors_by_round(void **state)
{
    fixture *f = *state;
    static const double a_factor[] = {1, 0.5, 0.25, 0.25, 0.25, 0.25}, d_factor[] = {2, 1, 1, 1, 1, 1};
    quadratics p;
    engine e;
    fli_rng rng;
    demand ask;
    uint32_t cohort[N];
    plain s = {0};
    start_watched(&e, f, "fedvra", "gamma=2;a=[1,2,3,4,5,6];d=1.5;a_rounds=[1,0.5,0.25];d_rounds=[2,1]", &p);
    fli_rng_init(&rng, 5, FLI_RNG_TEST, 0, 0);
    for (size_t r = 0; r < 6; r++) {
        size_t m = draw(&rng, &ask, cohort);
        knobs k;
        for (size_t i = 0; i < N; i++) {
            k.gamma[i] = 2;
            k.a[i] = (double)(i + 1) * a_factor[r];
            k.d[i] = 1.5 * d_factor[r];
        }
        plain_round(&p, &k, &ask, cohort, m, &s, NULL);
        round_of(&e, cohort, m, &ask);
        for (size_t c = 0; c < m; c++) assert_near(seen_a[cohort[c]], k.a[cohort[c]], 1e-14);
        assert_vector(server(&e, 0), s.x, 1e-12);
        assert_vector(server(&e, 1), s.lam, 1e-12);
    }
    engine_fini(&e);
}

/* ---- Theorem 1 ------------------------------------------------------------------------------------------- */

enum { BERNOULLI, CYCLIC, EVERYONE };
static const double coins[N] = {0.4, 0.9, 0.5, 1, 0.7, 0.6};

static size_t cohort_of(int way, size_t round, fli_rng *rng, uint32_t *cohort)
{
    size_t m = 0;
    for (uint32_t i = 0; i < N; i++)
        if (way == EVERYONE || (way == CYCLIC && i / 2 == round % 3) ||
            (way == BERNOULLI && fli_rng_uniform(rng) < coins[i]))
            cohort[m++] = i;
    return m;
}

/* (17) and (18), written out from the paper, for one client and one number of steps. */
static int theorem_holds(double l, double p, double a, double d, double gamma, double lr, size_t q)
{
    double qt = weighted_steps(gamma, lr, q);
    return gamma >= l / 2 + 13 * l / (2 * p * a * gamma * lr * qt) && lr <= 1 / (sqrt(6) * qt * l) && lr <= 1 / gamma &&
           lr <= 1 / ((a + d) * gamma * qt);
}

/* gamma and lr as advised. `least` and `most` steps. */
static void advised(const quadratics *p, double probability, double a, double d, size_t least, size_t most,
                    double *gamma, double *lr)
{
    fl_facts w = {.clients = N, .probability = probability, .steps = most, .least_steps = least};
    fl_fixes rows = {0};
    for (size_t i = 0; i < N; i++) w.smoothness = fmax(w.smoothness, smoothness(p, i));
    fli_vra_fix(0, a, d, &w, &rows);
    assert_true(rows.count >= 2);
    assert_string_equal(rows.at[0].key, "algorithm.gamma");
    assert_string_equal(rows.at[1].key, "local.lr");
    *gamma = strtod(rows.at[0].value, NULL);
    *lr = strtod(rows.at[1].value, NULL);
}

/* Runs over random efforts from `least` to `most`; returns the largest ||grad f||^2 of the last 50 rounds. */
static double run(engine *e, const quadratics *p, int way, double probability, size_t least, size_t most, double lr,
                  size_t rounds)
{
    fli_rng rng;
    demand ask;
    uint32_t cohort[N];
    double worst = 0;
    fli_rng_init(&rng, 9, FLI_RNG_TEST, 0, 0);
    for (size_t r = 0; r < rounds; r++) {
        size_t m = cohort_of(way, r, &rng, cohort);
        for (size_t i = 0; i < N; i++) {
            /* the first clients are lasting slow ones: uneven in the mean, not only from round to round */
            size_t top = i < 3 ? (least + most) / 2 : most;
            ask.q[i] = least + (size_t)fli_rng_below(&rng, top - least + 1);
            ask.lr[i] = lr;
            ask.probability[i] = way == BERNOULLI ? coins[i] : probability;
        }
        round_of(e, cohort, m, &ask);
        if (r + 50 >= rounds) worst = fmax(worst, gradient2(p, server(e, 0)));
    }
    return worst;
}

static void converges(fixture *f, int way, const char *method, const char *params, double probability, double a,
                      double d, size_t least, size_t most, size_t rounds)
{
    quadratics p;
    engine e;
    char all[200];
    double gamma, lr;
    start(&e, f, "fedavg", "", 0, &p);
    double begin = gradient2(&p, server(&e, 0));
    assert_true(begin > 0.1);
    double stalled = run(&e, &p, way, probability, least, most, 0.02, 2000);
    if (!(stalled > 1e-4)) fail_msg("FedAvg reached ||grad f||^2 = %g", stalled);
    engine_fini(&e);

    advised(&p, probability, a, d, least, most, &gamma, &lr);
    for (size_t i = 0; i < N; i++)
        for (size_t q = least; q <= most; q++)
            assert_true(
                theorem_holds(smoothness(&p, i), way == BERNOULLI ? coins[i] : probability, a, d, gamma, lr, q));
    snprintf(all, sizeof all, "gamma=%.17g%s", gamma, params);
    start(&e, f, method, all, 0, &p);
    double reached = run(&e, &p, way, probability, least, most, lr, rounds);
    if (!(reached < 1e-12)) fail_msg("%s %s, lr %g: ||grad f||^2 is still %g", method, all, lr, reached);
    engine_fini(&e);
}

static void theorem_1(void **state)
{
    converges(*state, BERNOULLI, "fedvra", ";a=2.5;d=2.5", 0.4, 2.5, 2.5, 2, 4, 20000);
    converges(*state, CYCLIC, "fedvra", ";a=3;d=3", 1.0 / 3, 3, 3, 1, 4, 30000);
    converges(*state, EVERYONE, "fedvra", ";a=1;d=1", 1, 1, 1, 2, 8, 20000);
    converges(*state, BERNOULLI, "fedadmm", "", 0.4, 1, 1, 3, 6, 30000);
}

/* P^r of (45) without its expectations and up to a constant, with p_i = 1; -lam_i is what clients keep. */
static double potential(const quadratics *p, const knobs *k, const size_t *steps, double lr, const double *x)
{
    double sum = 0, g[DIM];
    for (size_t i = 0; i < N; i++) {
        double f = 0, apart = 0, c = k->a[i] * k->gamma[i] * lr * weighted_steps(k->gamma[i], lr, steps[i]);
        gradient(p, i, x, g);
        for (size_t j = 0; j < DIM; j++) {
            f += (g[j] - p->q[i][j]) * x[j] / 2;
            apart += (g[j] + seen_state[i][j]) * (g[j] + seen_state[i][j]);
        }
        sum += p->w[i] * (f + 4 * beta_of(p, k) * apart / c);
    }
    return sum;
}

static void potential_is_the_papers(void **state)
{
    static const uint32_t cohorts[] = {0, 2, 5, 1, 4, 3};
    const knobs k = {{2, 3, 4, 2, 5, 6}, {1, 0.5, 0.7, 1, 1, 2}, {1, 1, 1, 1, 1, 1}};
    const double lr = 0.02;
    quadratics p;
    engine e;
    start_watched(&e, *state, "fedvra", "gamma=[2, 3, 4, 2, 5, 6];a=[1, 0.5, 0.7, 1, 1, 2];d=1", &p);
    for (size_t i = 0; i < N; i++) e.steps[i] = 1 + i;
    double had = engine_potential(&e, lr), wanted = potential(&p, &k, e.steps, lr, server(&e, 0));
    for (size_t r = 0; r < 8; r++) {
        engine_round(&e, cohorts + r % 3, 3, lr);
        double has = engine_potential(&e, lr), wants = potential(&p, &k, e.steps, lr, server(&e, 0));
        if (!(fabs(has - had - (wants - wanted)) < 1e-11 * (1 + fabs(wanted)) && fabs(has - had) > 1e-6))
            fail_msg("it went from %.15g to %.15g, and not by %.15g", had, has, wants - wanted);
        had = has;
        wanted = wants;
    }
    engine_fini(&e);
}

/* ---- bytes, wrong input, the warning --------------------------------------------------------------------- */

static const char base[] = "seed: 5\nrounds: 4\nthreads: 1\nprecision: f64\nmodel: softmax\nalgorithm: fedvra\n"
                           "data: {kind: blobs, classes: 3, features: 4, samples: 90, test_samples: 30}\n"
                           "partition: {kind: iid, clients: 5}\nparticipation: {kind: uniform, count: 3}\n"
                           "local: {batch: 4, lr: 0.1}\n";

/* The base configuration with assignments on top, separated by '|'. */
static fl_status planned(fixture *f, const char *assignments, fl_run **run)
{
    char text[512], *save = NULL;
    fl_config *cfg = fixture_config(f, base);
    snprintf(text, sizeof text, "%s", assignments);
    for (char *a = strtok_r(text, "|", &save); a; a = strtok_r(NULL, "|", &save))
        assert_ok(f->ctx, fl_config_set(cfg, a));
    *run = NULL;
    fl_status s = fl_run_new(cfg, run);
    fl_config_free(cfg);
    return s;
}

static double uploaded(fixture *f, const char *assignments)
{
    fl_run *r;
    assert_ok(f->ctx, planned(f, assignments, &r));
    assert_ok(f->ctx, fl_run_go(r, NULL, NULL));
    double bytes = fl_row_get(fl_run_row(r), "bytes_up");
    fl_run_free(r);
    return bytes;
}

static void one_vector_and_a_number(void **state)
{
    double avg = uploaded(*state, "algorithm=fedavg"), turns = 4 * 3;
    assert_true(avg == turns * 8 * 3 * 5); /* f64; 3 classes of 4 weights and a bias */
    assert_true(uploaded(*state, "algorithm=fedvra") == avg + turns * 8);
    assert_true(uploaded(*state, "algorithm=fedadmm") == avg + turns * 8);
    assert_true(uploaded(*state, "algorithm=scaffold") == 2 * avg);
}

/* What the plan settles: five clients, 5 steps of 0.1 each, three of them in a round, so that T = 0.5 and p = 0.6; and
 * step sizes that differ. What is given stays. */
static void settled_by_the_plan(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *set;
        double gamma, step; /* 0: not settled */
    } cases[] = {
        {"local.epochs=1", 0.6, 2},
        {"local.epochs=1|local.lr_factors=[1, 2, 3, 4, 5]|local.lr=1", 0.04, 1},
        {"local.epochs=1|algorithm.step=1.5", 0.8, 0},
        {"local.epochs=1|algorithm.gamma=0.3", 0, 2},
        {"algorithm.gamma=0", 0, 1},
        {"algorithm.gamma=0.3|algorithm.a=auto|algorithm.d=auto", 0, 0},
        {"algorithm.gamma=0.3|algorithm.a=1|algorithm.d=1", 0, 0},
        {"algorithm.preset=feddyn|algorithm.gamma=0.1", 0, 0},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fl_run *r;
        assert_ok(f->ctx, planned(f, cases[i].set, &r));
        const char *said = r->plan.settled ? r->plan.settled : "", *gamma = strstr(said, "gamma = ["),
                   *step = strstr(said, "step = [");
        assert_near(gamma ? strtod(gamma + 9, NULL) : 0, cases[i].gamma, 1e-12);
        assert_near(step ? strtod(step + 8, NULL) : 0, cases[i].step, 1e-12);
        fl_run_free(r);
    }
}

static void wrong_input(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *set, *says;
    } cases[] = {
        {"algorithm.gamma=-1", "algorithm.gamma is -1, but must be a list of numbers >= 0"},
        {"algorithm.gamma=[1, 1, -2, 1, 1]", "algorithm.gamma is -2, but must be"},
        {"algorithm.gamma=[1, 0, 2, 0, 1]", "algorithm.gamma is 0 for 2 clients and positive for 3"},
        {"algorithm.gamma=[1, 2]", "algorithm.gamma has 2 values, but there are 5 clients"},
        {"algorithm.gamma=[]", "algorithm.gamma is empty, but must be"},
        {"algorithm.a=[]", "algorithm.a is empty, but must be"},
        {"algorithm.gamma=auto", "algorithm.gamma is auto, but must be"},
        {"algorithm.a=[1, 2, 3]", "algorithm.a has 3 values, but there are 5 clients"},
        {"algorithm.d=[1, 2, 3, 4, 5, 6]", "algorithm.d has 6 values, but there are 5 clients"},
        {"algorithm.a=[1, auto, 2, 3, 4]", "algorithm.a is auto, but must be"},
        {"algorithm.a=aut", "algorithm.a is aut, but must be a list of numbers >= 0: one, or one per client; or "
                            "balanced or auto"},
        {"algorithm.step=[1, 2]", "algorithm.step is one number or balanced, not a list of 2"},
        {"algorithm.a_rounds=[]", "need at least one value"},
        {"algorithm.d_rounds=[]", "need at least one value"},
        {"local.lr_factors=[1, 2, 3, 4]", "local.lr_factors has 4 values, but there are 5 clients"},
        {"local.lr_factors=0", "local.lr_factors is 0, but must be"},
        {"algorithm.preset=admm|algorithm.gamma=0", "algorithm.preset is admm, which needs algorithm.gamma > 0"},
        {"algorithm.preset=feddyn|algorithm.gamma=0", "algorithm.preset is feddyn, which needs algorithm.gamma > 0"},
        {"algorithm.preset=scaffold|algorithm.gamma=0", "preset is scaffold, which needs algorithm.gamma > 0"},
        {"algorithm.preset=feddyn|algorithm.gamma=[1, 1, 1, 1, 2]", "has one algorithm.gamma for all clients"},
        {"algorithm=fedadmm|algorithm.gamma=0", "algorithm.gamma is 0, but must be a list of numbers > 0"},
        {"algorithm=fedadmm|algorithm.gamma=[1, 2]", "algorithm.gamma has 2 values, but there are 5 clients"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fl_run *r;
        assert_fails(f->ctx, planned(f, cases[i].set, &r), FL_ECONFIG, cases[i].says);
        assert_null(r);
    }
}

typedef struct {
    size_t count;
    fl_log_level level;
    char line[512];
} logged;

static void keep_line(void *arg, fl_log_level level, const char *line)
{
    logged *l = arg;
    if (level == FL_LOG_INFO) return; /* what was settled */
    l->count++;
    l->level = level;
    snprintf(l->line, sizeof l->line, "%s", line);
}

/* Lemma 1 asks for gamma_i lr_i <= 1, and the rule of `auto` should leave something for a_i: one warning when a run is
 * planned, with the first client of which it is not so. */
static void doubts_are_said(void **state)
{
    fixture *f = *state;
    static const struct {
        const char *set, *says; /* NULL: nothing */
    } cases[] = {
        {"algorithm.gamma=10|algorithm.a=1", NULL}, /* exactly 1 */
        {"algorithm.gamma=10", NULL},               /* balanced: never 0 */
        {"algorithm.gamma=10|algorithm.a=auto|algorithm.d=auto",
         "client 0: algorithm.a is auto and becomes 0, because d_i lr_i gamma_i Qt_i = "},
        {"algorithm.gamma=10|algorithm.a=auto|algorithm.d=0.5", NULL},
        {"algorithm.gamma=10|algorithm.preset=admm", NULL},
        {"algorithm.gamma=10.5", "fedvra, client 0: gamma_i lr_i = 10.5 x 0.1 = 1.05, but Lemma 1 asks for at most 1"},
        {"algorithm.gamma=[1, 1, 1, 20, 30]", "client 3: gamma_i lr_i = 20 x 0.1 = 2,"},
        {"algorithm.gamma=6|algorithm.a=1|local.lr_factors=[1, 1, 2, 1, 1]", "client 2: gamma_i lr_i = 6 x 0.2 = 1.2,"},
        {"algorithm.gamma=20|algorithm.preset=fedavg", NULL}, /* gamma is not used */
        {"algorithm.gamma=20|algorithm.preset=fedprox", "= 2,"},
        {"algorithm.preset=feddyn", NULL},
        {"algorithm.preset=scaffold", "fedvra, algorithm.preset scaffold is not SCAFFOLD"},
        {"algorithm=fedadmm|algorithm.gamma=20", "fedadmm, client 0: "},
        {"algorithm=fedavg|local.lr=30", NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        logged l = {0};
        fl_run *r;
        fl_ctx_on_log(f->ctx, keep_line, &l);
        assert_ok(f->ctx, planned(f, cases[i].set, &r));
        fl_ctx_on_log(f->ctx, NULL, NULL);
        fl_run_free(r);
        if (l.count != (cases[i].says != NULL)) fail_msg("%s: %zu lines, \"%s\"", cases[i].set, l.count, l.line);
        if (!cases[i].says) continue;
        assert_int_equal(l.level, FL_LOG_WARNING);
        if (!strstr(l.line, cases[i].says)) fail_msg("%s: \"%s\"", cases[i].set, l.line);
    }
}

/* A client that never takes part has d_i = 1/0, but nothing to be warned about. */
static void bystanders_are_not_doubted(void **state)
{
    fixture *f = *state;
    logged l = {0};
    char set[400];
    fl_run *r;
    snprintf(set, sizeof set, "participation={kind: trace, path: %s}", fixture_write(f, "trace.txt", "1 2\n3 4\n"));
    fl_ctx_on_log(f->ctx, keep_line, &l);
    assert_ok(f->ctx, planned(f, set, &r));
    fl_ctx_on_log(f->ctx, NULL, NULL);
    fl_run_free(r);
    if (l.count) fail_msg("\"%s\"", l.line);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(contains_fedavg),
        FIXTURE_TEST(contains_fedprox),
        FIXTURE_TEST(contains_fednova),
        FIXTURE_TEST(contains_admm),
        FIXTURE_TEST(contains_feddyn),
        FIXTURE_TEST(first_round_tends_to_scaffold),
        FIXTURE_TEST(one_step_is_scaffolds),
        FIXTURE_TEST(runs_do_not_tend_to_scaffolds),
        FIXTURE_TEST(posed_problem_tends_to_scaffolds),
        FIXTURE_TEST(the_engine_satisfies_the_identities),
        FIXTURE_TEST(mean_over_cohorts),
        FIXTURE_TEST(automatic_weights_follow_remark_1),
        FIXTURE_TEST(balanced_weights_follow_their_rule),
        FIXTURE_TEST(settled_by_the_plan),
        FIXTURE_TEST(factors_by_round),
        FIXTURE_TEST(theorem_1),
        FIXTURE_TEST(potential_is_the_papers),
        FIXTURE_TEST(one_vector_and_a_number),
        FIXTURE_TEST(wrong_input),
        FIXTURE_TEST(doubts_are_said),
        FIXTURE_TEST(bystanders_are_not_doubted),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
