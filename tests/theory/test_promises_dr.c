/* What `fedloom check` promises of FedDR, asyncFedDR and FedGiA, held against random small problems: see
 * test_promises.c. */
#include "promises.h"

static double largest_smoothness(const twin *t)
{
    double l = 0;
    for (size_t i = 0; i < t->clients; i++) l = fmax(l, twin_smoothness(t, i));
    return l;
}

/* All of these methods weigh clients equally. */
static wish draw_equal(fli_rng *r)
{
    wish w = draw_wish(r);
    w.equal = 1;
    return w;
}

/* Any participation at all: what is promised holds for every cohort. */
static void draw_any_sampling(drawn *d, fli_rng *r)
{
    double p[MOST_CLIENTS];
    size_t count = 1 + one_of(r, d->t.clients - 1);
    static const char *const kinds[] = {"cyclic", "weighted"};
    if (chance(r, 0.8))
        draw_sampling(d, r, &count, p);
    else
        say(d, "participation:\n  kind: %s\n  count: %zu\n", kinds[one_of(r, 2)], count);
}

/* ---- [DR] Theorem 3.1: FedDR ----------------------------------------------------------------------------- */

/* Some convex g, none half of the time. */
static void draw_regularizer(drawn *d, fli_rng *r)
{
    static const char *const some[] = {"kind: l1\n  weight: 0.1", "kind: nonnegative", "kind: l2\n  weight: 0.5",
                                       "kind: box\n  low: -0.5\n  high: 0.3"};
    if (chance(r, 0.5)) say(d, "regularizer:\n  %s\n", some[one_of(r, 4)]);
}

/* (39) and (23) with everyone in every round: sum ||G_eta||^2 <= 2 (1 + L eta)^2/(eta^2 beta) (V^0 - V^K), beta of
 * (35). For exact proxes, that is least squares. */
static promise feddr_promise(const drawn *d, const char *text)
{
    double eta = number(text, "algorithm", "eta", NAN), a = number(text, "algorithm", "alpha", NAN);
    double u = eta * largest_smoothness(&d->t), beta = a * (2 - a * (u + 1) - 2 * u * u) / (2 * eta * (1 + u * u));
    if (d->t.kind != LEAST_SQUARES || !strstr(text, "kind: everyone") || !(beta > 0)) return (promise){0};
    return (promise){.gap = "gradient_mapping", .squared = 1, .factor = 2 * (1 + u) * (1 + u) / (eta * eta * beta)};
}

/* Least squares have exact proxes; those of the others end within 1e-10/(k+1), a sum of squares below 2e-20. */
static void feddr_problem(tally *t, fixture *f, size_t problem)
{
    static drawn d;
    fli_rng r;
    verdict said;
    fli_rng_init(&r, 21, FLI_RNG_TEST, 0, (uint32_t)problem);
    wish w = draw_equal(&r);
    int mend = chance(&r, 0.4), exact = w.kind == LEAST_SQUARES;
    draw_data(&d, f, &r, &w);
    draw_any_sampling(&d, &r);
    draw_regularizer(&d, &r);
    double alpha = chance(&r, 0.3) ? 1 : between(&r, 0.3, 1.9), edge = (2 - alpha) / (2 * largest_smoothness(&d.t));
    double eta = edge * (mend ? spread(&r, 1, 20) : chance(&r, 0.7) ? between(&r, 0.8, 0.999) : spread(&r, 1.01, 5));
    say(&d, "algorithm:\n  kind: feddr\n  alpha: %.17g\n  eta: %.17g\n  init: exact\n  solver: %s\n", alpha, eta,
        exact ? "exact" : "accurate\n  accuracy: 1e-10\n  accuracy_power: 1\n  most_steps: 100000");
    char *text = promised(t, f, d.text, mend, &said);
    if (text) {
        double true_edge = (2 - number(text, "algorithm", "alpha", NAN)) / (2 * largest_smoothness(&d.t));
        if (!(number(text, "algorithm", "eta", NAN) < true_edge * (1 + 1e-3)))
            tally_add(t, &t->untrue, problem, text, "(33)");
        promise p = feddr_promise(&d, text);
        hold(t, f, problem, text, p.gap ? "metrics.gradient_mapping=true" : "", &p);
    }
    free(text);
    free(said.json);
}

static void feddr_theorem_3_1(void **state)
{
    tally t = {.theorem = "[DR] Theorem 3.1"};
    for (size_t k = problems(1400); k-- > 0;) feddr_problem(&t, *state, k);
    tally_end(&t, 40);
}

/* ---- [DR] Theorem A.1: relative errors ------------------------------------------------------------------- */

/* The potential need not fall in every round, but its sum over the rounds is bounded: ||G_eta|| vanishes, which is seen
 * where f_i are convex enough. */
static void relative_problem(tally *t, fixture *f, size_t problem)
{
    static drawn d;
    const fl_row *rows;
    fli_rng r;
    verdict said;
    fli_rng_init(&r, 22, FLI_RNG_TEST, 0, (uint32_t)problem);
    wish w = draw_equal(&r);
    draw_data(&d, f, &r, &w);
    draw_regularizer(&d, &r);
    say(&d,
        "participation:\n  kind: everyone\nalgorithm:\n  kind: feddr\n  alpha: 1\n  eta: %.17g\n  init: exact\n"
        "  solver: accurate\n  relative: %.17g\n",
        between(&r, 0.1, 0.6) / largest_smoothness(&d.t), spread(&r, 1e-3, 0.05));
    char *text = promised(t, f, d.text, 1, &said);
    if (text) {
        double u = number(text, "algorithm", "eta", NAN) * largest_smoothness(&d.t);
        double root = number(text, "algorithm", "relative", NAN); /* of theta, p_i being 1 */
        if (!(1 - 2 * u > 16 * root * sqrt(1 + u * u) - 1e-3)) tally_add(t, &t->untrue, problem, text, "(42)");
        fl_run *run = run_text(f, text, "metrics.gradient_mapping=true;rounds=60");
        t->runs++;
        size_t n = run ? fl_run_rows(run, &rows) : 0;
        double least = INFINITY, first = n ? fl_row_get(rows, "gradient_mapping") : NAN;
        for (size_t i = 1; i < n; i++) least = fmin(least, fl_row_get(&rows[i], "gradient_mapping"));
        if (!(least < first || first < 1e-10)) tally_add(t, &t->broken, problem, text, "||G_eta|| does not fall");
        if (run) fl_run_free(run);
    }
    free(text);
    free(said.json);
}

static void feddr_theorem_a_1(void **state)
{
    tally t = {.theorem = "[DR] Theorem A.1"};
    for (size_t k = problems(200); k-- > 0;) relative_problem(&t, *state, k);
    tally_end(&t, 60);
}

/* ---- [DR] Lemma B.2, Theorem 4.1: asyncFedDR -------------------------------------------------------------- */

enum { MOST_TAU = 6 };

/* asyncFedDR for least squares with g = weight ||x||_1, from an exact start. */
typedef struct {
    double x[MOST_CLIENTS][MOST_FEATURES], y[MOST_CLIENTS][MOST_FEATURES];
    double bar[MOST_TAU + 1][MOST_FEATURES], tilde[MOST_FEATURES]; /* bar[d]: d server steps ago */
    size_t steps;
} async_state;

typedef struct {
    const twin *t;
    double alpha, eta, weight;
    size_t tau;
} async_settings;

/* prox_{eta f_i}(y): (A'A/n + (decay + 1/eta) I) x = A'b/n + y/eta */
static void async_prox(const async_settings *v, size_t i, const double *y, double *x)
{
    const twin_client *c = &v->t->at[i];
    size_t n = v->t->features;
    double a[MOST_FEATURES * MOST_FEATURES] = {0};
    for (size_t j = 0; j < n; j++) {
        a[j * n + j] = c->decay + 1 / v->eta;
        x[j] = y[j] / v->eta;
    }
    for (size_t s = 0; s < c->plain; s++)
        for (size_t j = 0; j < n; j++) {
            x[j] += c->row[s * n + j] * c->value[s] / (double)c->plain;
            for (size_t k = 0; k < n; k++) a[j * n + k] += c->row[s * n + j] * c->row[s * n + k] / (double)c->plain;
        }
    solve_linear(n, a, x);
}

static double shrunk(double v, double by) { return v > by ? v - by : v < -by ? v + by : 0; }

static void async_begin(const async_settings *v, const double *x0, async_state *s)
{
    memset(s, 0, sizeof *s);
    for (size_t i = 0; i < v->t->clients; i++) {
        memcpy(s->y[i], x0, v->t->features * sizeof *x0);
        async_prox(v, i, s->y[i], s->x[i]);
        for (size_t j = 0; j < v->t->features; j++)
            s->tilde[j] += (2 * s->x[i][j] - s->y[i][j]) / (double)v->t->clients;
    }
    memcpy(s->bar[0], x0, v->t->features * sizeof *x0);
}

static void async_step(const async_settings *v, size_t i, size_t delay, async_state *s)
{
    double old[MOST_FEATURES];
    size_t n = v->t->features;
    for (size_t j = 0; j < n; j++) old[j] = 2 * s->x[i][j] - s->y[i][j];
    for (size_t j = 0; j < n; j++) s->y[i][j] += v->alpha * (s->bar[delay][j] - s->x[i][j]);
    async_prox(v, i, s->y[i], s->x[i]);
    memmove(s->bar[1], s->bar[0], MOST_TAU * sizeof *s->bar);
    for (size_t j = 0; j < n; j++) {
        s->tilde[j] += (2 * s->x[i][j] - s->y[i][j] - old[j]) / (double)v->t->clients;
        s->bar[0][j] = shrunk(s->tilde[j], v->eta * v->weight);
    }
    s->steps++;
}

/* V~ of (62) with the factor tau/(n eta) of (53). */
static double async_potential(const async_settings *v, const async_state *s)
{
    double sum = 0, g[MOST_X];
    size_t n = v->t->features, clients = v->t->clients;
    for (size_t j = 0; j < n; j++) sum += v->weight * fabs(s->bar[0][j]);
    for (size_t i = 0; i < clients; i++) {
        sum += twin_f(v->t, i, s->x[i], NULL, g) / (double)clients;
        for (size_t j = 0; j < n; j++) {
            double far = s->bar[0][j] - s->x[i][j];
            sum += (g[j] * far + far * far / (2 * v->eta)) / (double)clients;
        }
    }
    for (size_t d = 0; d < v->tau && d < s->steps; d++)
        for (size_t j = 0; j < n; j++)
            sum += (double)v->tau / ((double)clients * v->eta) * (double)(v->tau - d) *
                   pow(s->bar[d][j] - s->bar[d + 1][j], 2);
    return sum;
}

/* From a state some steps from the start, every client with every delay. Where c > 0 the first step does not count:
 * (61) takes xbar^0 for the prox of the first xt. */
static void async_steps(tally *t, fli_rng *r, const async_settings *v, size_t problem, const char *text)
{
    async_state s, next;
    double x0[MOST_FEATURES];
    char why[200];
    for (size_t j = 0; j < v->t->features; j++) x0[j] = fli_rng_normal(r);
    async_begin(v, x0, &s);
    for (size_t k = 1 + one_of(r, 8); k > 0; k--)
        async_step(v, one_of(r, v->t->clients), one_of(r, (v->tau < s.steps ? v->tau : s.steps) + 1), &s);
    double before = async_potential(v, &s);
    t->states++;
    for (size_t i = 0; i < v->t->clients; i++)
        for (size_t delay = 0; delay <= v->tau && delay <= s.steps; delay++) {
            next = s;
            async_step(v, i, delay, &next);
            double after = async_potential(v, &next);
            if (!tally_rise(t, before, after)) continue;
            snprintf(why, sizeof why, "V~ rises from %.10g to %.10g by client %zu with delay %zu", before, after, i,
                     delay);
            tally_add(t, &t->broken, problem, text, why);
            return;
        }
}

static double async_edge(const async_settings *v)
{
    double n = (double)v->t->clients, tau = (double)v->tau, c = fmax(0, (2 * tau * tau - n) / (n * n)), a = v->alpha;
    double rest = 2 - (2 + c) * a, q = 2 + (1 + c) * a;
    return rest > 0 ? (sqrt(a * a + 4 * q * rest) - a) / (2 * q) / largest_smoothness(v->t) : 0;
}

static void async_problem(tally *t, fixture *f, size_t problem)
{
    static drawn d;
    fli_rng r;
    verdict said;
    fli_rng_init(&r, 23, FLI_RNG_TEST, 0, (uint32_t)problem);
    wish w = draw_equal(&r);
    w.kind = LEAST_SQUARES;
    w.classes = 0;
    int mend = chance(&r, 0.4);
    draw_data(&d, f, &r, &w);
    async_settings v = {
        .t = &d.t, .tau = 1 + one_of(&r, MOST_TAU), .weight = chance(&r, 0.5) ? 0 : spread(&r, 0.01, 1)};
    v.alpha = between(&r, 0.1, 0.95);
    v.eta = async_edge(&v) * (chance(&r, 0.8) ? between(&r, 0.8, 0.999) : spread(&r, 1.01, 4));
    if (!(v.eta > 0)) v.eta = 1 / largest_smoothness(&d.t);
    if (v.weight > 0) say(&d, "regularizer:\n  kind: l1\n  weight: %.17g\n", v.weight);
    say(&d,
        "participation:\n  kind: uniform\n  count: %zu\nsystem:\n  kind: lognormal\nalgorithm:\n  kind: asyncfeddr\n"
        "  alpha: %.17g\n  eta: %.17g\n  tau: %zu\n  init: exact\n  solver: exact\n",
        v.tau < w.clients ? v.tau + 1 : w.clients, v.alpha, v.eta, v.tau);
    char *text = promised(t, f, d.text, mend, &said);
    if (text) {
        v.alpha = number(text, "algorithm", "alpha", NAN);
        v.eta = number(text, "algorithm", "eta", NAN);
        v.tau = (size_t)number(text, "algorithm", "tau", NAN);
        if (!(v.eta < async_edge(&v) * (1 + 1e-3))) tally_add(t, &t->untrue, problem, text, "(63)");
        for (size_t k = 0; k < 4; k++) async_steps(t, &r, &v, problem, text);
        if (algo_named("asyncfeddr")->theory.potential.name)
            hold(t, f, problem, text, "rounds=40",
                 &(promise){.after = algo_named("asyncfeddr")->theory.potential.after + 1});
    }
    free(text);
    free(said.json);
}

static void async_lemma_b_2(void **state)
{
    tally t = {.theorem = "[DR] Lemma B.2, asyncFedDR"};
    for (size_t k = problems(1400); k-- > 0;) async_problem(&t, *state, k);
    tally_end(&t, 40);
}

/* ---- [GiA] Theorems IV.1 to IV.3 ------------------------------------------------------------------------- */

/* The end of Theorem IV.3's proof, from L^1 on: sum ||grad f||^2 <= 5 N sigma^2/eta (L^1 - L^K), eta of (39). */
static promise gia_promise(const drawn *d, const char *text, int given)
{
    double n = (double)d->t.clients, r = largest_smoothness(&d->t) / n, sigma = number(text, "algorithm", "sigma", 0);
    double eta = sigma / 2 - 5 * r / 2 - 3 * r * r / sigma;
    if (!given || !(eta > 0)) return (promise){.after = 1};
    return (promise){.after = 1, .gap = "gradient2", .factor = 5 * n * sigma * sigma / eta};
}

static void gia_problem(tally *t, fixture *f, size_t problem)
{
    static drawn d;
    fli_rng r;
    verdict said;
    fli_rng_init(&r, 24, FLI_RNG_TEST, 0, (uint32_t)problem);
    wish w = draw_equal(&r);
    int mend = chance(&r, 0.4), given = chance(&r, 0.6), gram = w.kind != SOFTMAX && chance(&r, 0.5);
    draw_data(&d, f, &r, &w);
    draw_any_sampling(&d, &r);
    double t_ = mend ? spread(&r, 0.1, 6) : chance(&r, 0.8) ? between(&r, 6.001, 6.5) : between(&r, 5, 6);
    double l = largest_smoothness(&d.t), n = (double)d.t.clients;
    say(&d, "algorithm:\n  kind: fedgia\n  variant: %s\n  k0: %zu\n  %s: %.17g\n", gram ? "gram" : "diagonal",
        1 + one_of(&r, 8), given ? "sigma" : "t", given ? t_ * l / n : t_);
    char *text = promised(t, f, d.text, mend, &said);
    if (text) {
        if (given && !(number(text, "algorithm", "sigma", 0) > (1 - 1e-3) * 6 * l / n))
            tally_add(t, &t->untrue, problem, text, "6 r/N < sigma");
        if (!given && !(number(text, "algorithm", "t", 0) > 6)) tally_add(t, &t->untrue, problem, text, "6 < t");
        promise p = gia_promise(&d, text, given);
        hold(t, f, problem, text, "", &p);
    }
    free(text);
    free(said.json);
}

static void gia_theorem_iv(void **state)
{
    tally t = {.theorem = "[GiA] Theorems IV.1 to IV.3"};
    for (size_t k = problems(1400); k-- > 0;) gia_problem(&t, *state, k);
    tally_end(&t, 40);
}

/* Bounds are strict: at t = 6 the eta of (39) is 0, and at sigma = 6 r/N, eta = (2 - alpha)/(2 L), too. */
static void bounds_are_strict(void **state)
{
    static const char *const at[] = {"algorithm={kind: fedgia, t: 6}", "algorithm={kind: fedgia, sigma: 3}",
                                     "algorithm={kind: feddr, alpha: 1, eta: 0.5, solver: exact, init: exact}"};
    fixture *f = *state;
    char text[1000]; /* one sample of 1 per client: L_i = 1 */
    fixture_write(f, "data.csv", "0,1,1\n1,1,2\n");
    snprintf(text, sizeof text,
             "precision: f64\nthreads: 1\npartition: natural\nmodel: least_squares\nlocal: {batch: 0}\n"
             "data: {kind: csv, train: %s, group_column: 0, task: regression, storage: f64}\n",
             f->path);
    for (size_t k = 0; k < 3; k++) {
        collected c = {0};
        fl_config *cfg = config_of(f, text, at[k]);
        fl_ctx_format(f->ctx, FL_FORMAT_JSON);
        assert_ok(f->ctx, fl_check(cfg, collect_text, &c));
        fl_ctx_format(f->ctx, FL_FORMAT_TEXT);
        fl_config_free(cfg);
        if (!strncmp(behind(c.s, "applies"), "true", 4))
            fail_msg("%s lies on the bound, and is said to satisfy it", at[k]);
        free(c.s);
    }
}

/* f and the least of it, by gradient descent. */
static double least_loss(const twin *t)
{
    double x[MOST_X] = {0}, l = 0;
    for (size_t i = 0; i < t->clients; i++) l += t->at[i].weight * twin_smoothness(t, i);
    for (size_t k = 0; k < 4000; k++) {
        double sum[MOST_X] = {0}, g[MOST_X];
        for (size_t i = 0; i < t->clients; i++) {
            twin_f(t, i, x, NULL, g);
            for (size_t j = 0; j < t->n; j++) sum[j] += t->at[i].weight * g[j];
        }
        for (size_t j = 0; j < t->n; j++) x[j] -= sum[j] / l;
    }
    return twin_loss(t, x);
}

/* (f(x) - least)/(start - least) after 300 rounds; sigma 0: as t says. */
static double share_left(fixture *f, const char *text, double sigma, double start, double least)
{
    char more[200];
    snprintf(more, sizeof more, "rounds=300;metrics.every=300;algorithm.sigma=%.17g", sigma);
    fl_run *run = run_text(f, text, more);
    double end = run ? fl_row_get(fl_run_row(run), "train_loss") : NAN;
    if (run) fl_run_free(run);
    return (end - least) / (start - least);
}

/* `t: auto` is no theorem's. What is said of it is that it converges without tuning: with clients outside C that is
 * gradient descent with a step of 1/mean r_i, which is short enough if no r_i is less than f_i's curvature. */
static void auto_problem(tally *t, fixture *f, size_t problem)
{
    static drawn d;
    fli_rng r;
    char why[200];
    fli_rng_init(&r, 25, FLI_RNG_TEST, 0, (uint32_t)problem);
    wish w = {.kind = SOFTMAX,
              .clients = 2 + one_of(&r, 4),
              .features = 2 + one_of(&r, 2),
              .classes = 10,
              .most = 12,
              .alike = 1,
              .equal = 1};
    draw_data(&d, f, &r, &w);
    say(&d, "participation:\n  kind: uniform\n  count: 1\nalgorithm:\n  kind: fedgia\n  k0: %zu\n",
        20 + one_of(&r, 80));
    double start = twin_loss(&d.t, (double[MOST_X]){0}), least = least_loss(&d.t), mean = 0;
    for (size_t i = 0; i < w.clients; i++) mean += twin_smoothness(&d.t, i) / (double)w.clients;
    t->drawn++;
    if (!(share_left(f, d.text, mean / (double)w.clients, start, least) < 0.1)) return; /* too flat for 300 rounds */
    double left = share_left(f, d.text, 0, start, least);
    t->yes++, t->runs++;
    if (left < 0.1) return;
    snprintf(why, sizeof why,
             "after 300 rounds %g of the way to the least loss is left, with the bound on r_i less than 0.1", left);
    tally_add(t, &t->broken, problem, d.text, why);
}

static void gia_auto_converges(void **state)
{
    tally t = {.theorem = "[GiA] t: auto, softmax with two of ten classes"};
    for (size_t k = problems(120); k-- > 0;) auto_problem(&t, *state, k);
    tally_end(&t, 20);
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(feddr_theorem_3_1), FIXTURE_TEST(feddr_theorem_a_1),
                                       FIXTURE_TEST(async_lemma_b_2),   FIXTURE_TEST(gia_theorem_iv),
                                       FIXTURE_TEST(bounds_are_strict), FIXTURE_TEST(gia_auto_converges)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
