/* Optimality gaps and potentials that metrics have: against their formulas, computed here from raw samples, along runs
 * that are followed by hand: [VRA]'s (98) and (101), [CPSL]'s (33) and the gap of its Theorem 2. And of these and of
 * the potentials of methods without rounds and for two levels: that measuring changes nothing, that executors agree,
 * and that a resumed run has the same. */
#include "runs.h"

#include "metric/measure.h"
#include "theory/check.h"

enum { C = 3, DIM = 4, PARAMETERS = C * DIM + C, CLIENTS = 4, MOST = 40 };

static const double decay = 0.1, alpha_p = 0.3, alpha_r = 0.2, label_lr = 0.5, lr = 0.1, radius = 0.5;
static const double gamma_ = 1.5, a_ = 0.7;
enum { LABEL_STEPS = 2, STEPS = 2 };

#define FEW                                                                                                            \
    "seed: 5\nrounds: 6\nthreads: 2\nprecision: f64\n"                                                                 \
    "data: {kind: blobs, classes: 3, features: 4, samples: 110, test_samples: 30, unlabelled: 0.6}\n"                  \
    "partition: {kind: quantity, clients: 4}\nparticipation: {kind: uniform, count: 2}\n"                              \
    "model: {kind: softmax, weight_decay: 0.1}\nlocal: {batch: 0, steps: 2, lr: 0.1}\n"                                \
    "semi: {labels: projected, alpha_p: 0.3, alpha_r: 0.2, label_lr: 0.5, label_steps: 2}\n"
#define VRA_U "algorithm={kind: fedvra-u, gamma: 1.5, a: 0.7, d: 0.8};regularizer={kind: l2_ball, radius: 0.5}"
#define CPSL  "algorithm={kind: fedcpsl, mix: 0.6}"

/* ---- the objective by hand --------------------------------------------------------------------------------- */

/* Class probabilities. */
static void outputs(const fl_run *run, const double *x, const double *a, double *h)
{
    const fl_tensor *w = &run->plan.model->tensors[0], *b = w + 1;
    double sum = 0;
    for (size_t k = 0; k < C; k++) {
        double z = x[b->offset + k];
        for (size_t j = 0; j < DIM; j++) z += x[w->offset + k * DIM + j] * a[j];
        sum += h[k] = exp(z);
    }
    for (size_t k = 0; k < C; k++) h[k] /= sum;
}

/* Adds the gradient in own of `scale` times a loss of q = mix h(own) + (1 - mix) h(x), given its slopes in q. */
static void pull(const fl_run *run, const double *p, const double *slope, double scale, const double *a, double *g)
{
    const fl_tensor *w = &run->plan.model->tensors[0], *b = w + 1;
    double mean = 0;
    for (size_t k = 0; k < C; k++) mean += p[k] * slope[k];
    for (size_t k = 0; k < C; k++) {
        double z = scale * p[k] * (slope[k] - mean);
        g[b->offset + k] += z;
        for (size_t j = 0; j < DIM; j++) g[w->offset + k * DIM + j] += z * a[j];
    }
}

/* What a client has: its samples, and pseudo labels. */
typedef struct {
    fli_view v;
    double nu[MOST][C], lam[PARAMETERS];
} client;

/* F_i of the mixture, weight decay of own included, and its gradient in own; with own = x, f_i. */
static double objective(const fl_run *run, const client *c, double nu[][C], const double *x, const double *own,
                        double mix, double *g)
{
    double f = 0;
    size_t n = c->v.n_train, u = c->v.n_unlabelled;
    for (size_t k = 0; k < PARAMETERS; k++) f += decay / 2 * own[k] * own[k];
    for (size_t k = 0; k < PARAMETERS; k++) g[k] = decay * own[k];
    for (size_t i = 0; i < n + u; i++) {
        double a[DIM], p[C], h[C], slope[C];
        uint32_t s = i < n ? c->v.train[i] : c->v.unlabelled[i - n];
        fli_dataset_row(c->v.ds, s, a);
        outputs(run, own, a, p);
        outputs(run, x, a, h);
        for (size_t k = 0; k < C; k++) {
            double q = mix * p[k] + (1 - mix) * h[k], y = i < n ? (int32_t)k == c->v.ds->label[s] : nu[i - n][k];
            double weight = i < n ? 1 / (double)n : 1 / (double)u, pull_to = i < n ? 1 : alpha_p;
            f -= weight * pull_to * y * log(q);
            slope[k] = -pull_to * y / q;
            if (i < n) continue;
            f += weight * alpha_r * (q * log(q * C) + (y > 0 ? y * log(y * C) : 0));
            slope[k] += alpha_r * (log(q * C) + 1);
        }
        pull(run, p, slope, mix / (double)(i < n ? n : u), a, g);
    }
    return f;
}

/* The nearest point of the simplex: max(v - t, 0), with t by sorting. */
static void nearest(double *v)
{
    double s[C], sum = 0, t = 0;
    memcpy(s, v, sizeof s);
    for (size_t i = 0; i < C; i++)
        for (size_t j = i + 1; j < C; j++)
            if (s[j] > s[i]) {
                double swap = s[i];
                s[i] = s[j];
                s[j] = swap;
            }
    for (size_t k = 0; k < C; k++) {
        sum += s[k];
        if (s[k] - (sum - 1) / (double)(k + 1) > 0) t = (sum - 1) / (double)(k + 1);
    }
    for (size_t k = 0; k < C; k++) v[k] = fmax(v[k] - t, 0);
}

/* Projected gradient steps in nu at x, by which out differs from nu; squared length of that. */
static double label_steps(const fl_run *run, const client *c, const double *x, size_t steps, double out[][C])
{
    double moved = 0;
    size_t u = c->v.n_unlabelled;
    for (size_t i = 0; i < u; i++) {
        double a[DIM], h[C];
        fli_dataset_row(c->v.ds, c->v.unlabelled[i], a);
        outputs(run, x, a, h);
        memcpy(out[i], c->nu[i], sizeof h);
        for (size_t t = 0; t < steps; t++) {
            for (size_t k = 0; k < C; k++)
                out[i][k] -=
                    label_lr / (double)u * (alpha_r * (log(fmax(out[i][k], 1e-12) * C) + 1) - alpha_p * log(h[k]));
            nearest(out[i]);
        }
        for (size_t k = 0; k < C; k++) moved += (out[i][k] - c->nu[i][k]) * (out[i][k] - c->nu[i][k]);
    }
    return moved;
}

/* ---- along a run ------------------------------------------------------------------------------------------- */

typedef struct {
    client c[CLIENTS];
    double weight[CLIENTS], largest; /* largest: L */
    size_t rows;
} followed;

static void clients_begin(const fl_run *run, followed *s)
{
    double equal = s->largest;
    memset(s, 0, sizeof *s);
    s->largest = equal;
    for (size_t i = 0; i < CLIENTS; i++) {
        assert_ok(run->ctx, fli_view_open(run->ctx, run->plan.fed, i, &s->c[i].v));
        assert_in_range(s->c[i].v.n_unlabelled, 2, MOST);
        s->weight[i] = fli_server_state_weight(fli_exec_server_state(run->exec), i);
        for (size_t k = 0; k < MOST * C; k++) ((double *)s->c[i].nu)[k] = 1.0 / C;
    }
}

static void clients_end(followed *s)
{
    for (size_t i = 0; i < CLIENTS; i++) fli_view_close(&s->c[i].v);
}

/* A cohort's turns from x: labels first, then steps on f_i(z, nu+) - <lam_i, z> + gamma/2 ||z - x||^2. */
static void next_round(const fl_run *run, followed *s, size_t round, const double *x)
{
    uint32_t cohort[CLIENTS];
    size_t m = fli_participation_pick(run->plan.participation, 5, round, cohort);
    for (size_t i = 0; i < m; i++) {
        client *c = &s->c[cohort[i]];
        double next[MOST][C], z[PARAMETERS], g[PARAMETERS];
        label_steps(run, c, x, LABEL_STEPS, next);
        memcpy(c->nu, next, sizeof next);
        memcpy(z, x, sizeof z);
        for (size_t t = 0; t < STEPS; t++) {
            objective(run, c, c->nu, z, z, 1, g);
            for (size_t k = 0; k < PARAMETERS; k++) z[k] -= lr * (g[k] - c->lam[k] + gamma_ * (z[k] - x[k]));
        }
        for (size_t k = 0; k < PARAMETERS; k++) c->lam[k] += a_ * gamma_ * (x[k] - z[k]);
    }
}

static void near(double have, double want, const char *what, size_t row)
{
    if (!(fabs(have - want) <= 1e-12 * fmax(1, fabs(want))))
        fail_msg("%s, row %zu: %.17g and %.17g", what, row, have, want);
}

static double square(size_t n, const double *v)
{
    double sum = 0;
    for (size_t k = 0; k < n; k++) sum += v[k] * v[k];
    return sum;
}

/* (98) and (101), with beta = 1/gamma, p = 1/2 and Qt = 1 + (1 - gamma lr). */
static void check_vra_u(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    followed *s = arg;
    double x[PARAMETERS], ahead[PARAMETERS] = {0}, step[PARAMETERS], slopes = 0, p = 0, beta = 1 / gamma_;
    double moves = a_ * gamma_ * lr * (2 - gamma_ * lr);
    assert_true(measured);
    assert_int_equal(fl_run_model(run, x, PARAMETERS), PARAMETERS);
    if (!fl_row_round(row)) clients_begin(run, s);
    for (size_t i = 0; i < CLIENTS; i++) {
        double next[MOST][C], g[PARAMETERS], away = 0, f;
        label_steps(run, &s->c[i], x, LABEL_STEPS, next);
        objective(run, &s->c[i], next, x, x, 1, g);
        for (size_t k = 0; k < PARAMETERS; k++) ahead[k] += s->weight[i] * g[k];
        slopes += s->weight[i] * label_steps(run, &s->c[i], x, 1, next) / (label_lr * label_lr);
        f = objective(run, &s->c[i], s->c[i].nu, x, x, 1, g);
        for (size_t k = 0; k < PARAMETERS; k++) away += pow(g[k] - s->c[i].lam[k], 2);
        p += s->weight[i] * (f + 8 * beta * away / (0.5 * moves * (1 - 0.5)));
    }
    for (size_t k = 0; k < PARAMETERS; k++) step[k] = x[k] - beta * ahead[k];
    double norm = sqrt(square(PARAMETERS, step));
    for (size_t k = 0; k < PARAMETERS; k++) step[k] = x[k] - step[k] * (norm > radius ? radius / norm : 1);
    near(fl_row_get(row, "gap"), square(PARAMETERS, step) / (beta * beta) + slopes, "(98)", s->rows);
    near(fl_row_get(row, "potential"), p, "(101)", s->rows);
    assert_true(square(PARAMETERS, step) > 1e-6 && s->rows == fl_row_round(row));
    assert_true(s->rows ? slopes > 1e-6 : slopes < 1e-20); /* at the start all classes are as likely */
    next_round(run, s, s->rows++, x);
}

/* (33), and the gap of Theorem 2. */
static void check_cpsl(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    followed *s = arg;
    double x[PARAMETERS], sum[PARAMETERS] = {0}, moves = 0, own_slopes = 0;
    assert_true(measured);
    assert_int_equal(fl_run_model(run, x, PARAMETERS), PARAMETERS);
    if (!fl_row_round(row)) clients_begin(run, s);
    for (size_t i = 0; i < CLIENTS; i++) {
        double next[MOST][C], g[PARAMETERS], own[PARAMETERS], mix;
        moves += s->weight[i] * label_steps(run, &s->c[i], x, LABEL_STEPS, next);
        objective(run, &s->c[i], s->c[i].nu, x, x, 1, g);
        for (size_t k = 0; k < PARAMETERS; k++) sum[k] += s->weight[i] * g[k];
        assert_ok(run->ctx, fli_exec_own_model(run->exec, (uint32_t)i, own, &mix));
        assert_true(mix == 0.6);
        objective(run, &s->c[i], s->c[i].nu, x, own, mix, g);
        own_slopes += s->weight[i] * square(PARAMETERS, g);
    }
    near(fl_row_get(row, "gap"), square(PARAMETERS, sum) + 31 * s->largest / 64 * moves, "(33)", s->rows);
    near(fl_row_get(row, "local_gradient2"), own_slopes, "the gap of Theorem 2", s->rows);
    assert_true((moves > 1e-6 || !s->rows) && s->largest > 0.1 && own_slopes > 1e-6);
    next_round(run, s, s->rows++, x);
}

static void followed_by_hand(void **state)
{
    fixture *f = *state;
    static followed s;
    fl_run *run = run_new(f, FEW, VRA_U ";metrics={gradient: true, potential: true}");
    assert_ok(f->ctx, fl_run_go(run, check_vra_u, &s));
    assert_int_equal(s.rows, 7);
    clients_end(&s);
    fl_run_free(run);
    run = run_new(f, FEW, CPSL ";metrics={gradient: true, local: true}");
    assert_ok(f->ctx, fli_theory_smoothness(&run->plan, 1, &s.largest));
    assert_ok(f->ctx, fl_run_go(run, check_cpsl, &s));
    assert_int_equal(s.rows, 7);
    clients_end(&s);
    fl_run_free(run);
}

/* Without mixing it is the gradient of f_i at the client's own model, and without such models that at x. */
static void gradients_of_own_models(void **state)
{
    static const char *const methods[] = {"algorithm={kind: feddr, eta: 0.5}", "algorithm=fedavg",
                                          "algorithm={kind: apfl, mix: 1}"};
    fixture *f = *state;
    static followed s;
    for (size_t m = 0; m < 3; m++) {
        char set[256];
        double own[PARAMETERS], g[PARAMETERS], want = 0;
        snprintf(set, sizeof set, "semi.labels=none;data.unlabelled=0;metrics={gradient: true, local: true};%s",
                 methods[m]);
        fl_run *run = run_done(f, FEW, set);
        for (size_t i = 0; i < CLIENTS; i++) {
            client *c = &s.c[i];
            assert_ok(f->ctx, fli_view_open(f->ctx, run->plan.fed, i, &c->v));
            assert_ok(f->ctx, fli_exec_own_model(run->exec, (uint32_t)i, own, NULL));
            objective(run, c, c->nu, own, own, 1, g);
            want += fli_server_state_weight(fli_exec_server_state(run->exec), i) * square(PARAMETERS, g);
            fli_view_close(&c->v);
        }
        near(fl_row_get(fl_run_row(run), "local_gradient2"), want, methods[m], 6);
        fl_run_free(run);
    }
}

/* What is not there: a gap without steps in the labels, or of stochastic ones; (101) where everyone takes part. */
static void not_known(void **state)
{
    static const struct {
        const char *set, *column;
    } cases[] = {
        {VRA_U ";semi.labels=closed_form;metrics={gradient: true}", "gap"},
        {VRA_U ";semi.labels=closed_form;metrics={potential: true}", "potential"},
        {VRA_U ";participation=everyone;metrics={potential: true}", "potential"},
        {VRA_U ";semi.label_batch=2;metrics={gradient: true}", "gap"},
        {CPSL ";semi.labels=closed_form;metrics={gradient: true}", "gap"},
        {"algorithm=fedavg;metrics={gradient: true}", "gap"},
        {CPSL, "gap"},
        {CPSL ";metrics={gradient: true}", "local_gradient2"},
    };
    fixture *f = *state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fl_run *run = run_done(f, FEW, cases[i].set);
        double v = fl_row_get(fl_run_row(run), cases[i].column);
        if (!isnan(v)) fail_msg("%s: %s is %g", cases[i].set, cases[i].column, v);
        fl_run_free(run);
    }
}

/* ---- two levels -------------------------------------------------------------------------------------------- */

#define LEVELS                                                                                                         \
    "seed: 5\nrounds: 6\nthreads: 2\nprecision: f64\nmodel: softmax\nbilevel: regularization\n"                        \
    "data: {kind: blobs, classes: 3, features: 4, samples: 90, test_samples: 30}\n"                                    \
    "partition: {kind: quantity, clients: 5}\nparticipation: {kind: uniform, count: 3}\n"                              \
    "local: {batch: 4, steps: 5, uneven: speeds, speeds: [1, 0.4]}\n"

/* SimFBO's weights are p_i ||a_i||_1, made to add up to 1; with the means of ||a_i||_1 over what may be drawn. */
static void weights_of_work(void **state)
{
    static const struct {
        const char *set;
        int by_work, drawn; /* drawn: 1, 2 or 3 epochs, whatever the round */
    } cases[] = {
        {"algorithm={kind: simfbo, coef: [1, 0.5]}", 1, 0},
        {"algorithm={kind: simfbo, coef: [1, 0.5], coef_rounds: [1, 3]};local={batch: 4, uneven: range, range: [1, 3]}",
         1, 1},
        {"algorithm=simfbo;local={batch: 4, steps: 5}", 0, 0},
        {"algorithm=shrofbo", 0, 0},
    };
    fixture *f = *state;
    for (size_t c = 0; c < sizeof cases / sizeof *cases; c++) {
        char set[256];
        double w[5], sum = 0;
        snprintf(set, sizeof set, "%s;metrics={hypergradient: true, potential: true}", cases[c].set);
        fl_run *run = run_done(f, LEVELS, set);
        for (size_t i = 0; i < 5; i++) {
            size_t samples = fli_fed_size(run->plan.fed, i), epoch = (samples + 3) / 4;
            double q = (double)fli_local_steps(&run->plan.settings->local.work, 5, 0, (uint32_t)i, 0), length = 0;
            if (!cases[c].drawn) length = 1 + 0.5 * (q - 1);
            for (double e = 1; cases[c].drawn && e <= 3; e++) length += (1 + 0.5 * (e * (double)epoch - 1)) / 3;
            sum += w[i] = fli_server_state_weight(fli_exec_server_state(run->exec), i) * length;
        }
        for (size_t i = 0; i < 5; i++) w[i] /= sum;
        fli_levels_solved by_p, by_w;
        fli_counts counts = {0};
        void *const *server = fli_exec_server(run->exec);
        const fl_row *row = fl_run_row(run);
        assert_ok(f->ctx, fli_hypergradient(f->ctx, run->exec, server[0], server[1], NULL, &counts, &by_p));
        assert_ok(f->ctx, fli_hypergradient(f->ctx, run->exec, server[0], server[1], cases[c].by_work ? w : NULL,
                                            &counts, &by_w));
        near(fl_row_get(row, "hypergradient"), by_p.hypergradient, "||grad Phi||", c);
        near(fl_row_get(row, "lower_distance"), by_p.lower_distance, "||y - y*||", c);
        near(fl_row_get(row, "weighted_hypergradient"), by_w.hypergradient, "||grad Phi~||", c);
        near(fl_row_get(row, "potential"),
             by_w.value + by_w.lower_distance * by_w.lower_distance + by_w.system_distance * by_w.system_distance,
             "Psi", c);
        if (cases[c].by_work) assert_true(fabs(by_p.hypergradient - by_w.hypergradient) > 1e-6);
        fl_run_free(run);
    }
}

/* ---- the same everywhere ----------------------------------------------------------------------------------- */

#define DELAYS                                                                                                         \
    "seed: 3\nrounds: 40\nthreads: 2\nprecision: f64\nmodel: {kind: least_squares, weight_decay: 0.1}\n"               \
    "data: {kind: linreg, clients: 6, features: 4}\nparticipation: {kind: uniform, count: 4}\n"                        \
    "system: {kind: lognormal, sigma: 1, jitter: 0.5}\n"

static const struct {
    const char *yaml, *set, *off;
    const char *columns[3];
} everywhere[] = {
    {FEW, VRA_U ";metrics={gradient: true, potential: true}", "metrics={}", {"gap", "potential"}},
    {FEW, CPSL ";metrics={gradient: true, local: true}", "metrics={}", {"gap", "local_gradient2"}},
    {FEW, CPSL ";metrics={gradient: true, local: true};precision=f32", "metrics={}", {"gap", "local_gradient2"}},
    {LEVELS,
     "algorithm=simfbo;metrics={hypergradient: true, potential: true}",
     "metrics={}",
     {"weighted_hypergradient", "potential", "hypergradient"}},
    {LEVELS, "algorithm=shrofbo;metrics={potential: true}", "metrics={}", {"potential"}},
    {DELAYS,
     "algorithm={kind: asyncfeddr, eta: 0.02, tau: 7, init: exact, solver: exact};metrics={potential: true}",
     "metrics={}",
     {"potential"}},
    {DELAYS,
     "algorithm={kind: asyncfeddr, eta: 0.02, tau: 7};metrics={potential: true};regularizer={kind: l1, weight: 0.2};"
     "local={lr: 0.005, batch: 3}",
     "metrics={}",
     {"potential"}},
};

static void assert_same(const fl_run *a, const fl_run *b, const char *column, const char *what)
{
    const fl_row *x, *y;
    size_t n = fl_run_rows(a, &x);
    assert_int_equal(fl_run_rows(b, &y), n);
    for (size_t i = 0; i < n; i++) {
        double v = fl_row_get(&x[i], column), w = fl_row_get(&y[i], column);
        if (v != w && !(isnan(v) && isnan(w))) fail_msg("%s, %s, row %zu: %.17g and %.17g", what, column, i, v, w);
    }
}

static void stop_there(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    (void)run;
    (void)measured;
    if (fl_row_round(row) == 3) fl_run_stop(arg);
}

/* Stopped after three rounds, and resumed. */
static fl_run *resumed(fixture *f, const char *yaml, const char *set, size_t k)
{
    char all[1024];
    snprintf(all, sizeof all, "%s;checkpoint_every=1;output=%s/out%zu", set, f->folder, k);
    fl_run *run = run_new(f, yaml, all);
    assert_ok(f->ctx, fl_run_go(run, stop_there, run));
    assert_int_equal(fl_run_stopped_by(run), FL_STOP_ASKED);
    fl_run_free(run);
    fl_config *cfg = fl_config_new(f->ctx);
    snprintf(all, sizeof all, "%s/out%zu", f->folder, k);
    assert_ok(f->ctx, fl_config_resume(cfg, all));
    assert_ok(f->ctx, fl_run_resume(cfg, &run));
    fl_config_free(cfg);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    return run;
}

static void same_everywhere(void **state)
{
    static const char *const others[] = {"train_loss", "test_loss", "bytes_up", "bytes_down", "local_steps"};
    fixture *f = *state;
    for (size_t k = 0; k < sizeof everywhere / sizeof *everywhere; k++) {
        char apart[1024], single[1024], off[1024];
        const char *set = everywhere[k].set, *yaml = everywhere[k].yaml;
        snprintf(apart, sizeof apart, "%s;executor=loopback", set);
        snprintf(single, sizeof single, "%s;threads=1", set);
        snprintf(off, sizeof off, "%s;%s", set, everywhere[k].off);
        fl_run *runs[] = {run_done(f, yaml, set), run_done(f, yaml, apart), run_done(f, yaml, single),
                          resumed(f, yaml, set, k), run_done(f, yaml, off)};
        for (size_t c = 0; c < 3 && everywhere[k].columns[c]; c++) {
            const char *column = everywhere[k].columns[c];
            for (size_t i = 1; i < 4; i++) assert_same(runs[0], runs[i], column, set);
            assert_true(isfinite(fl_row_get(fl_run_row(runs[0]), column)));
            assert_true(isnan(fl_row_get(fl_run_row(runs[4]), column)));
        }
        for (size_t c = 0; c < 5; c++) assert_same(runs[0], runs[4], others[c], set);
        assert_same(runs[0], runs[1], "evaluation_bytes_up", set);
        assert_same(runs[0], runs[1], "evaluation_bytes_down", set);
        for (size_t i = 0; i < 5; i++) fl_run_free(runs[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {FIXTURE_TEST(followed_by_hand), FIXTURE_TEST(gradients_of_own_models),
                                       FIXTURE_TEST(not_known), FIXTURE_TEST(weights_of_work),
                                       FIXTURE_TEST(same_everywhere)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
