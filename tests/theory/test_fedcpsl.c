/* FedCPSL and its relatives: what the paper says of the control variates, (21)-(24), beside a plain implementation of
 * Algorithm 1 on a small softmax problem; and convergence to a point where the gradient vanishes. */
#include "fixture.h"

enum { DIM = 3, C = 3, P = DIM * C + C, N = 5, MOST = 24, STEPS = 6 };
static const size_t sizes[N] = {9, 14, 20, 7, 12};
static const uint32_t hidden[N] = {5, 10, 12, 0, 11};
static const double l2 = 0.05;

/* ---- the engine, watched ------------------------------------------------------------------------------- */

static const fl_method *watched;
/* What clients have after their last turns. */
static double seen_z[N][P], seen_c[N][P], seen_own[N][P], seen_mix[N];

static int watch_answer(const fl_turn *t, const fl_answer *a)
{
    watched->answer(t, a);
    memcpy(seen_z[t->ask.client], a->z, sizeof seen_z[0]);
    memcpy(seen_c[t->ask.client], t->state[0], sizeof seen_c[0]);
    if (fli_algo_own_model(watched))
        memcpy(seen_own[t->ask.client], t->state[fli_algo_own_model(watched) - 1], sizeof seen_own[0]);
    if (watched->personal.mix) seen_mix[t->ask.client] = watched->personal.mix(t->bound, t->ask.client, t->scalars);
    return 0;
}

static fl_method spy;

static void start(engine *e, fixture *f, const char *name, const char *params, const fli_semi *semi, int uniform,
                  double momentum)
{
    fli_fed *fed = random_fed(f->ctx, N, sizes, DIM, C, 21);
    assert_ok(f->ctx, fli_fed_hide(f->ctx, fed, hidden));
    watched = algo_named(name);
    spy = *watched;
    spy.answer = watch_answer;
    memset(seen_c, 0, sizeof seen_c);
    engine_init_semi(e, f->ctx, fed, "softmax", &fli_ops_f64, l2, semi, &spy, params, uniform,
                     (fli_sgd_spec){0, momentum}, 1);
}

static const double *server(engine *e, size_t v) { return fli_exec_server(e->exec)[v]; }

/* ---- f_i and F_i, plainly ------------------------------------------------------------------------------ */

static void probabilities(const double *x, const double *a, double *p)
{
    double sum = 0;
    for (size_t k = 0; k < C; k++) {
        p[k] = x[DIM * C + k];
        for (size_t j = 0; j < DIM; j++) p[k] += x[k * DIM + j] * a[j];
        sum += p[k] = exp(p[k]);
    }
    for (size_t k = 0; k < C; k++) p[k] /= sum;
}

/* g += factor times the gradient by the parameters, of something whose derivatives by the probabilities p are u */
static void add_chain(const double *a, const double *p, const double *u, double factor, double *g)
{
    double mean = 0;
    for (size_t k = 0; k < C; k++) mean += p[k] * u[k];
    for (size_t k = 0; k < C; k++) {
        double d = factor * p[k] * (u[k] - mean);
        for (size_t j = 0; j < DIM; j++) g[k * DIM + j] += d * a[j];
        g[DIM * C + k] += d;
    }
}

/* The gradient by own of f_i of the mixture; own = x and mix = 1: that of f_i. */
static void gradient(engine *e, size_t i, const double *x, const double *own, double mix, double nu[MOST][C], double *g)
{
    fli_view v;
    assert_ok(e->ctx, fli_view_open(e->ctx, e->fed, i, &v));
    for (size_t j = 0; j < P; j++) g[j] = l2 * own[j];
    for (size_t s = 0; s < v.n_train + v.n_unlabelled; s++) {
        int plain = s < v.n_train;
        uint32_t sample = plain ? v.train[s] : v.unlabelled[s - v.n_train];
        const double *a = (const double *)v.ds->x + sample * DIM;
        double p[C], h[C], u[C];
        probabilities(own, a, p);
        probabilities(x, a, h);
        for (size_t k = 0; k < C; k++) {
            double q = mix * p[k] + (1 - mix) * h[k];
            if (plain)
                u[k] = k == (size_t)v.ds->label[sample] ? -1 / q : 0;
            else
                u[k] = -e->semi.alpha_p * nu[s - v.n_train][k] / q + e->semi.alpha_r * (log(q * C) + 1);
        }
        add_chain(a, p, u, mix / (double)(plain ? v.n_train : v.n_unlabelled), g);
    }
    fli_view_close(&v);
}

/* (7a): proportional to h^(alpha_p/alpha_r) */
static void find_labels(engine *e, size_t i, const double *x, double nu[MOST][C])
{
    fli_view v;
    assert_ok(e->ctx, fli_view_open(e->ctx, e->fed, i, &v));
    for (size_t s = 0; s < v.n_unlabelled; s++) {
        double sum = 0;
        probabilities(x, (const double *)v.ds->x + v.unlabelled[s] * DIM, nu[s]);
        for (size_t k = 0; k < C; k++) sum += nu[s][k] = pow(nu[s][k], e->semi.alpha_p / e->semi.alpha_r);
        for (size_t k = 0; k < C; k++) nu[s][k] /= sum;
    }
    fli_view_close(&v);
}

/* ||sum w_i grad f_i(x, nu_i)||^2 with the nu_i that are best at x */
static double gradient2(engine *e, const double *x)
{
    double sum[P] = {0}, g[P], nu[MOST][C], norm2 = 0;
    for (size_t i = 0; i < N; i++) {
        find_labels(e, i, x, nu);
        gradient(e, i, x, x, 1, nu, g);
        for (size_t j = 0; j < P; j++) sum[j] += fli_server_state_weight(fli_exec_server_state(e->exec), i) * g[j];
    }
    for (size_t j = 0; j < P; j++) norm2 += sum[j] * sum[j];
    return norm2;
}

/* ---- Algorithm 1, plainly ------------------------------------------------------------------------------ */

typedef struct {
    double x[P], c[P], c_i[N][P], own[N][P];
    double lr, own_lr, gam, mix[N], server_lr; /* 0: the average number of steps */
    int dissimilarity;                         /* mix goes by it */
} plain;

/* ||c_i - c||/(||c_i - c|| + ||c||), and [CPSL]'s 0.75 while both are 0. */
static double dissimilarity(const plain *p, size_t i)
{
    double apart = 0, mean = 0;
    for (size_t j = 0; j < P; j++) {
        apart += (p->c_i[i][j] - p->c[j]) * (p->c_i[i][j] - p->c[j]);
        mean += p->c[j] * p->c[j];
    }
    return apart + mean > 0 ? sqrt(apart) / (sqrt(apart) + sqrt(mean)) : 0.75;
}

/* A turn; c_i by (22), from the gradients themselves, with b_t = (1 - gam^(Q-t))/(1 - gam). Returns Qt. */
static double turn(engine *e, plain *p, size_t i, size_t steps, double *z)
{
    double nu[MOST][C], mu[P] = {0}, mu_own[P] = {0}, mean[P] = {0}, total = 0;
    find_labels(e, i, p->x, nu);
    memcpy(z, p->x, P * sizeof *z);
    if (p->dissimilarity) p->mix[i] = dissimilarity(p, i);
    for (size_t t = 0; t < steps; t++) {
        double g[P], own_g[P], b = 0;
        for (size_t k = 0; k < steps - t; k++) b += pow(p->gam, (double)k);
        total += b;
        gradient(e, i, z, z, 1, nu, g);
        gradient(e, i, z, p->own[i], p->mix[i], nu, own_g);
        for (size_t j = 0; j < P; j++) {
            mean[j] += b * g[j];
            z[j] -= p->lr * (mu[j] = p->gam * mu[j] + g[j] - p->c_i[i][j] + p->c[j]);
            p->own[i][j] -= p->own_lr * (mu_own[j] = p->gam * mu_own[j] + own_g[j]);
        }
    }
    for (size_t j = 0; j < P; j++) p->c_i[i][j] = mean[j] / total;
    return total;
}

/* c by its definition, the mean of the c_i. */
static void round_by_hand(engine *e, plain *p, const uint32_t *cohort, size_t m)
{
    double step[P] = {0}, steps = 0, z[P];
    for (size_t k = 0; k < m; k++) {
        size_t i = cohort[k];
        double qt = turn(e, p, i, e->steps[i], z);
        steps += (double)e->steps[i] / (double)m;
        for (size_t j = 0; j < P; j++)
            step[j] += fli_server_state_weight(fli_exec_server_state(e->exec), i) * (z[j] - p->x[j]) / qt;
        for (size_t j = 0; j < P; j++) assert_near(seen_z[i][j], z[j], 1e-12);
    }
    for (size_t j = 0; j < P; j++) {
        p->x[j] += (p->server_lr > 0 ? p->server_lr : steps) * N / (double)m * step[j];
        p->c[j] = 0;
        for (size_t i = 0; i < N; i++)
            p->c[j] += fli_server_state_weight(fli_exec_server_state(e->exec), i) * p->c_i[i][j];
    }
}

static void draw(engine *e, fli_rng *r, uint32_t *cohort, size_t *m)
{
    *m = 1 + (size_t)fli_rng_below(r, N);
    fli_rng_sample(r, N, *m, cohort);
    for (size_t i = 0; i < N; i++) e->steps[i] = 1 + (size_t)fli_rng_below(r, STEPS);
}

static void follow(fixture *f, double momentum, const char *params, double server_lr, double own_lr)
{
    engine e;
    fli_rng r;
    fli_semi semi = {.labels = FLI_SEMI_CLOSED_FORM, .alpha_p = 0.4, .alpha_r = 0.3};
    plain p = {.lr = 0.1,
               .own_lr = own_lr,
               .gam = momentum,
               .mix = {0, 0.3, 0.75, 1, 0.5},
               .server_lr = server_lr,
               .dissimilarity = strstr(params, "dissimilarity") != NULL};
    start(&e, f, "fedcpsl", params, &semi, 0, momentum);
    fli_rng_init(&r, 3, FLI_RNG_TEST, 0, 0);
    for (size_t round = 0; round < 25; round++) {
        uint32_t cohort[N];
        size_t m;
        draw(&e, &r, cohort, &m);
        engine_round(&e, cohort, m, 0.1);
        round_by_hand(&e, &p, cohort, m);
        for (size_t j = 0; j < P; j++) {
            double sum = 0;
            for (size_t i = 0; i < N; i++)
                sum += fli_server_state_weight(fli_exec_server_state(e.exec), i) * seen_c[i][j];
            assert_near(server(&e, 0)[j], p.x[j], 1e-11);
            assert_near(server(&e, 1)[j], p.c[j], 1e-11);
            assert_near(server(&e, 1)[j], sum, 1e-13); /* c = sum w_i c_i, whoever took part */
            for (size_t k = 0; k < m; k++) assert_near(seen_c[cohort[k]][j], p.c_i[cohort[k]][j], 1e-11);
            for (size_t k = 0; k < m; k++) assert_near(seen_own[cohort[k]][j], p.own[cohort[k]][j], 1e-11);
        }
        for (size_t k = 0; k < m; k++) assert_near(seen_mix[cohort[k]], p.mix[cohort[k]], 1e-11);
    }
    engine_fini(&e);
}

static void algorithm_1(void **state)
{
    follow(*state, 0, "mix=[0, 0.3, 0.75, 1, 0.5];server_lr=1.7;lr_local=0.15", 1.7, 0.15);
    follow(*state, 0.8, "mix=[0, 0.3, 0.75, 1, 0.5];server_lr=1.7;lr_local=0.15", 1.7, 0.15);
    follow(*state, 0.8, "mix=[0, 0.3, 0.75, 1, 0.5]", 0, 0.2); /* the average number of steps; twice lr */
}

static void mix_by_dissimilarity(void **state)
{
    follow(*state, 0.8, "mix=dissimilarity;lr_local=0.15", 0, 0.15);
    follow(*state, 0, "mix=dissimilarity;server_lr=1.7", 1.7, 0.2);
}

/* ---- relatives ----------------------------------------------------------------------------------------- */

/* Without momentum, with equal steps, weights and labels, (23)-(24): that is SCAFFOLD. */
static void plain_fedcpsl_is_scaffold(void **state)
{
    fli_semi none = {.labels = FLI_SEMI_NONE};
    double *x[2];
    for (size_t k = 0; k < 2; k++) {
        engine e;
        fli_rng r;
        start(&e, *state, k ? "scaffold" : "fedcpsl", "", &none, 1, 0);
        fli_rng_init(&r, 4, FLI_RNG_TEST, 0, 0);
        for (size_t i = 0; i < N; i++) e.steps[i] = 4;
        for (size_t round = 0; round < 20; round++) {
            uint32_t cohort[N];
            size_t m = 1 + (size_t)fli_rng_below(&r, N);
            fli_rng_sample(&r, N, m, cohort);
            engine_round(&e, cohort, m, 0.1);
        }
        x[k] = engine_vector(&e, 0);
        engine_fini(&e);
    }
    for (size_t j = 0; j < P; j++) assert_near(x[0][j], x[1][j], 1e-13);
    assert_true(fabs(x[0][0]) > 1e-3);
    free(x[0]);
    free(x[1]);
}

/* ---- convergence --------------------------------------------------------------------------------------- */

/* Small plain steps, uneven and by a changing half of the clients: the gradient of f at (x, nu(x)) vanishes, with exact
 * gradients at a linear rate. Averaging as it is, on the same problem, stops short of that. */
static void fedcpsl_converges_where_averaging_stops(void **state)
{
    static const char *const names[] = {"fedcpsl", "fedshvrp", "apsfl"};
    static const char *const params[] = {"server_lr=3", "server_lr=3", ""};
    fli_semi semi = {.labels = FLI_SEMI_CLOSED_FORM, .alpha_p = 0.1, .alpha_r = 0.2};
    double last[3];
    for (size_t k = 0; k < 3; k++) {
        engine e;
        fli_rng r;
        start(&e, *state, names[k], params[k], &semi, 0, 0);
        fli_rng_init(&r, 5, FLI_RNG_TEST, 0, 0);
        double first = gradient2(&e, server(&e, 0));
        for (size_t round = 0; round < 4000; round++) {
            uint32_t cohort[N];
            fli_rng_sample(&r, N, 3, cohort);
            for (size_t i = 0; i < N; i++) e.steps[i] = 1 + (size_t)fli_rng_below(&r, STEPS);
            engine_round(&e, cohort, 3, 0.05);
        }
        last[k] = gradient2(&e, server(&e, 0));
        assert_true(first > 1e-3);
        engine_fini(&e);
    }
    assert_true(last[0] < 1e-20);
    assert_true(last[1] < 1e-20);
    assert_true(last[2] > 1e-7);
}

/* Pseudo labels by one projected step per turn, kept by the clients: in the end those of the closed form, and the same
 * model. */
static void projected_labels_converge(void **state)
{
    double *x[2];
    for (size_t k = 0; k < 2; k++) {
        engine e;
        fli_semi semi = {.labels = k ? FLI_SEMI_PROJECTED : FLI_SEMI_CLOSED_FORM,
                         .alpha_p = 0.1,
                         .alpha_r = 0.2,
                         .label_lr = 2,
                         .label_steps = 1};
        start(&e, *state, "fedcpsl", "server_lr=3", &semi, 0, 0);
        engine_rounds(&e, 4000, 3, 0.05);
        assert_true(gradient2(&e, server(&e, 0)) < 1e-20);
        x[k] = engine_vector(&e, 0);
        engine_fini(&e);
    }
    for (size_t j = 0; j < P; j++) assert_near(x[0][j], x[1][j], 1e-9);
    free(x[0]);
    free(x[1]);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(algorithm_1),
        FIXTURE_TEST(mix_by_dissimilarity),
        FIXTURE_TEST(plain_fedcpsl_is_scaffold),
        FIXTURE_TEST(fedcpsl_converges_where_averaging_stops),
        FIXTURE_TEST(projected_labels_converge),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
