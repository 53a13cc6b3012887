/* What "train loss" says with few labels: the objective that is minimised, recomputed from the raw numbers: f_i with
 * its pseudo labels for the global model, F_i for mixtures, also of clients that have not had a turn yet. And how own
 * models are trained unless a file says otherwise. */
#include "fixture.h"

#include "regularizer/regularizer.h"
#include "run/state.h"

enum { DIM = 3, C = 3, P = DIM * C + C, CLIENTS = 4, ROUNDS = 4, MOST = 40 };

static const double alpha_p = 0.7, alpha_r = 0.4, decay = 0.03, share = 0.6, label_lr = 3;

/* Client 3 never has a turn, client 2 its first in round 3. */
static const char trace[] = "0 1\n1\n0 2\n1 2\n";
static const int takes_part[ROUNDS][CLIENTS] = {{1, 1, 0, 0}, {0, 1, 0, 0}, {1, 0, 1, 0}, {0, 1, 1, 0}};

/* Pseudo labels that clients keep, by hand. */
typedef struct {
    int projected, personal;
    double nu[CLIENTS][MOST][C], before[P]; /* x at the start of the round */
    size_t rows;
} by_hand;

/* ---- the objective by hand ------------------------------------------------------------------------------- */

static void probabilities(const fli_dataset *ds, uint32_t sample, const double *x, double *p)
{
    double a[DIM], sum = 0;
    fli_dataset_row(ds, sample, a);
    for (size_t k = 0; k < C; k++) {
        p[k] = x[C * DIM + k];
        for (size_t j = 0; j < DIM; j++) p[k] += x[k * DIM + j] * a[j];
        sum += p[k] = exp(p[k]);
    }
    for (size_t k = 0; k < C; k++) p[k] /= sum;
}

static void mixed(const fli_dataset *ds, uint32_t sample, const double *x, const double *own, double mix, double *q)
{
    double h[C], p[C];
    probabilities(ds, sample, x, h);
    probabilities(ds, sample, own, p);
    for (size_t k = 0; k < C; k++) q[k] = mix * p[k] + (1 - mix) * h[k];
}

/* KL(p, 1/C) */
static double kl(const double *p)
{
    double sum = log(C);
    for (size_t k = 0; k < C; k++) sum += p[k] > 0 ? p[k] * log(p[k]) : 0;
    return sum;
}

/* (7a) */
static void best_labels(const fli_dataset *ds, uint32_t sample, const double *x, double *nu)
{
    double sum = 0;
    probabilities(ds, sample, x, nu);
    for (size_t k = 0; k < C; k++) sum += nu[k] = pow(nu[k], alpha_p / alpha_r);
    for (size_t k = 0; k < C; k++) nu[k] /= sum;
}

/* (10), projected */
static void improve(const fli_view *v, const double *x, double (*nu)[C])
{
    for (size_t i = 0; i < v->n_unlabelled; i++) {
        double p[C], work[C];
        probabilities(v->ds, v->unlabelled[i], x, p);
        for (size_t k = 0; k < C; k++)
            nu[i][k] -= label_lr / (double)v->n_unlabelled *
                        (alpha_r * (log(fmax(nu[i][k], 1e-12)) + 1 + log(C)) - alpha_p * log(p[k]));
        fli_simplex_nearest(C, nu[i], work);
    }
}

typedef struct {
    double value, labelled;
} objective;

/* F_i, without weight decay; with mix 0 f_i. */
static objective objective_of(const fli_view *v, const double *x, const double *own, double mix, double (*nu)[C])
{
    objective o = {0};
    double q[C], rest = 0;
    for (size_t i = 0; i < v->n_train; i++) {
        mixed(v->ds, v->train[i], x, own, mix, q);
        o.labelled -= log(q[v->ds->label[v->train[i]]]) / (double)v->n_train;
    }
    for (size_t i = 0; i < v->n_unlabelled; i++) {
        mixed(v->ds, v->unlabelled[i], x, own, mix, q);
        for (size_t k = 0; k < C; k++) rest -= alpha_p * nu[i][k] * log(q[k]);
        rest += alpha_r * (kl(nu[i]) + kl(q));
    }
    o.value = o.labelled + rest / (double)v->n_unlabelled;
    return o;
}

static double half_square(const double *x)
{
    double sum = 0;
    for (size_t j = 0; j < P; j++) sum += x[j] * x[j];
    return decay / 2 * sum;
}

/* Adds weight times the gradient of f_i, by central differences. */
static void add_gradient(const fli_view *v, const double *x, double (*nu)[C], double weight, double *g)
{
    double y[P], h = 1e-5;
    memcpy(y, x, sizeof y);
    for (size_t j = 0; j < P; j++) {
        y[j] = x[j] + h;
        double up = objective_of(v, y, y, 0, nu).value + half_square(y);
        y[j] = x[j] - h;
        g[j] += weight * (up - objective_of(v, y, y, 0, nu).value - half_square(y)) / (2 * h);
        y[j] = x[j];
    }
}

/* ---- runs ------------------------------------------------------------------------------------------------ */

static fl_config *small_config(fixture *f, const char *more)
{
    char yaml[1500];
    fixture_write(f, "trace", trace);
    snprintf(yaml, sizeof yaml,
             "data: {kind: blobs, classes: %d, features: %d, samples: 160, test_samples: 20, test_fraction: 0.2, "
             "unlabelled: 0.6}\nprecision: f64\nrounds: %d\nmodel: {kind: softmax, weight_decay: %g}\n"
             "partition: {kind: dirichlet, clients: %d, alpha: 5}\nparticipation: {kind: trace, path: %s/trace}\n"
             "local: {batch: 5, steps: 6, lr: 0.2}\nmetrics: {local: true, gradient: true}\n%s",
             C, DIM, ROUNDS, decay, CLIENTS, f->folder, more);
    return fixture_config(f, yaml);
}

static fl_run *small_run(fixture *f, const char *more)
{
    fl_run *run = NULL;
    fl_config *cfg = small_config(f, more);
    assert_ok(f->ctx, fl_run_new(cfg, &run));
    fl_config_free(cfg);
    return run;
}

/* The labels that client i has after this round; how far they would move at x. */
static double labels_now(by_hand *h, size_t i, size_t round, const fli_view *v, const double *x, double (*nu)[C])
{
    double move = 0;
    assert_true(v->n_unlabelled > 0 && v->n_unlabelled <= MOST);
    if (h->projected && round && takes_part[round - 1][i]) improve(v, h->before, h->nu[i]);
    for (size_t k = 0; k < v->n_unlabelled; k++)
        if (h->projected)
            memcpy(nu[k], h->nu[i][k], sizeof nu[k]);
        else
            best_labels(v->ds, v->unlabelled[k], x, nu[k]);
    if (!h->projected) return 0;
    double next[MOST][C];
    memcpy(next, nu, v->n_unlabelled * sizeof *next);
    improve(v, x, next);
    for (size_t k = 0; k < v->n_unlabelled; k++)
        for (size_t c = 0; c < C; c++) move += (next[k][c] - nu[k][c]) * (next[k][c] - nu[k][c]);
    return move;
}

/* Observer: every row. */
static void check_row(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    by_hand *h = arg;
    double x[P], own[P], g[P] = {0}, f = 0, big_f = 0, labelled = 0, move = 0, square = 0, mix;
    size_t round = fl_row_round(row);
    assert_true(measured);
    assert_int_equal(fl_run_model(run, x, P), P);
    for (size_t i = 0; i < CLIENTS; i++) {
        double nu[MOST][C], w = (double)fli_fed_size(run->plan.fed, i) / (double)run->plan.fed->samples;
        fli_view v;
        assert_ok(run->ctx, fli_view_open(run->ctx, run->plan.fed, i, &v));
        move += w * labels_now(h, i, round, &v, x, nu);
        assert_ok(run->ctx, fli_exec_own_model(run->exec, (uint32_t)i, own, &mix));
        assert_true(mix == (h->personal ? share : 1)); /* with or without a turn */
        objective o = objective_of(&v, x, x, 0, nu);
        f += w * (o.value + half_square(x));
        labelled += w * o.labelled;
        big_f += w * (objective_of(&v, x, own, mix, nu).value + half_square(own));
        add_gradient(&v, x, nu, w, g);
        fli_view_close(&v);
    }
    for (size_t j = 0; j < P; j++) square += g[j] * g[j];
    assert_near(fl_row_get(row, "train_loss"), f, 1e-12);
    assert_near(fl_row_get(row, "labelled_loss"), labelled, 1e-12);
    assert_near(fl_row_get(row, "local_train_loss"), big_f, 1e-12);
    assert_near(fl_row_get(row, "gradient2"), square, 1e-6 * (1 + square));
    if (h->projected)
        assert_near(fl_row_get(row, "labels_move"), move, 1e-12);
    else
        assert_true(isnan(fl_row_get(row, "labels_move")));
    if (round && h->personal) assert_true(fabs(big_f - f) > 1e-3); /* there is something to tell apart */
    assert_true(fabs(labelled - f) > 1e-3);
    memcpy(h->before, x, sizeof x);
    h->rows++;
}

static void objective_of_a_run(fixture *f, const char *method, int projected, int personal)
{
    static const char *const executors[] = {"threads", "loopback"};
    for (size_t e = 0; e < 2; e++) {
        by_hand h = {.projected = projected, .personal = personal};
        char more[512];
        for (size_t i = 0; i < CLIENTS; i++)
            for (size_t k = 0; k < MOST; k++)
                for (size_t c = 0; c < C; c++) h.nu[i][k][c] = 1.0 / C;
        snprintf(more, sizeof more,
                 "algorithm: %s\nexecutor: %s\nsemi: {labels: %s, alpha_p: %g, alpha_r: %g, label_lr: %g}\n", method,
                 executors[e], projected ? "projected" : "closed_form", alpha_p, alpha_r, label_lr);
        fl_run *run = small_run(f, more);
        double *x = fli_exec_server(run->exec)[0];
        for (size_t j = 0; j < P; j++) x[j] = 0.3 - 0.1 * (double)(j % 5); /* softmax starts at zero */
        assert_ok(f->ctx, fl_run_go(run, check_row, &h));
        assert_int_equal(h.rows, ROUNDS + 1);
        fl_run_free(run);
    }
}

static void closed_form_labels(void **state)
{
    objective_of_a_run(*state, "fedshvrp", 0, 0);
    objective_of_a_run(*state, "{kind: fedcpsl, mix: 0.6}", 0, 1);
    objective_of_a_run(*state, "{kind: apsfl, mix: 0.6}", 0, 1);
}

static void kept_labels(void **state)
{
    objective_of_a_run(*state, "fedshvrp", 1, 0);
    objective_of_a_run(*state, "{kind: fedcpsl, mix: 0.6}", 1, 1);
}

/* A pass over all samples is more than a pass over the test parts: who wants no train loss does not pay for it. */
static void only_beside_train_loss(void **state)
{
    fixture *f = *state;
    for (int semi = 0; semi < 2; semi++) {
        char more[200];
        snprintf(more, sizeof more, "algorithm: fedcpsl\nsemi: {labels: %s}\n", semi ? "closed_form" : "none");
        fl_config *cfg = small_config(f, more);
        fl_run *run = NULL;
        assert_ok(f->ctx, fl_config_set(cfg, "metrics.train=false"));
        assert_ok(f->ctx, fl_run_new(cfg, &run));
        fl_config_free(cfg);
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        assert_int_equal(isfinite(fl_row_get(fl_run_row(run), "local_train_loss")) != 0, !semi);
        assert_true(isfinite(fl_row_get(fl_run_row(run), "local_test_accuracy")));
        assert_true(isnan(fl_row_get(fl_run_row(run), "labelled_loss")));
        fl_run_free(run);
    }
}

/* Without pseudo labels the objective is over labelled samples alone, and there is no part of it to show. */
static void labelled_samples_alone(void **state)
{
    fixture *f = *state;
    fl_run *run = small_run(f, "algorithm: apfl\nsemi: {labels: closed_form}\n"),
           *plain = small_run(f, "algorithm: apfl\n");
    const fl_row *a, *b;
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    assert_ok(f->ctx, fl_run_go(plain, NULL, NULL));
    assert_int_equal(fl_run_rows(run, &a), fl_run_rows(plain, &b));
    for (size_t i = 0; i <= ROUNDS; i++) {
        assert_true(fl_row_get(&a[i], "train_loss") == fl_row_get(&b[i], "train_loss"));
        assert_true(fl_row_get(&a[i], "local_train_loss") == fl_row_get(&b[i], "local_train_loss"));
        assert_true(isnan(fl_row_get(&a[i], "labelled_loss")) && isnan(fl_row_get(&a[i], "labels_move")));
    }
    fl_run_free(run);
    fl_run_free(plain);
}

/* Clients of asynchronous methods are at work while others are measured: nobody looks at what they keep, and any number
 * of threads sees the same. */
static void asynchronous_clients(void **state)
{
    fixture *f = *state;
    fl_row last[2];
    for (size_t i = 0; i < 2; i++) {
        char more[400];
        snprintf(more, sizeof more,
                 "algorithm: fedasync\nsystem: constant\nmetrics: {local: false}\nparticipation: everyone\n"
                 "threads: %d\nsemi: {labels: projected, alpha_p: 0.7, alpha_r: 0.4}\n",
                 i ? 4 : 1);
        char yaml[1000];
        snprintf(yaml, sizeof yaml,
                 "data: {kind: blobs, classes: 3, features: 3, samples: 160, unlabelled: 0.6}\nrounds: 30\n"
                 "partition: {kind: iid, clients: 8}\nmodel: softmax\nlocal: {batch: 5, lr: 0.2}\n%s",
                 more);
        fl_run *run = NULL;
        fl_config *cfg = fixture_config(f, yaml);
        assert_ok(f->ctx, fl_config_set(cfg, "metrics.gradient=true"));
        assert_ok(f->ctx, fl_run_new(cfg, &run));
        fl_config_free(cfg);
        assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
        last[i] = *fl_run_row(run);
        fl_run_free(run);
    }
    assert_true(isfinite(fl_row_get(&last[0], "train_loss")) && isnan(fl_row_get(&last[0], "labels_move")));
    assert_true(fl_row_get(&last[0], "train_loss") == fl_row_get(&last[1], "train_loss"));
    assert_true(fl_row_get(&last[0], "gradient2") == fl_row_get(&last[1], "gradient2"));
}

/* ---- own models' step sizes ------------------------------------------------------------------------------ */

static double own_loss(fixture *f, const char *method, const char *lr_local)
{
    char more[200];
    snprintf(more, sizeof more, "algorithm: {kind: %s, lr_local: %s}\nsemi: {labels: closed_form}\n", method, lr_local);
    fl_run *run = small_run(f, more);
    assert_ok(f->ctx, fl_run_go(run, NULL, NULL));
    double loss = fl_row_get(fl_run_row(run), "local_train_loss");
    fl_run_free(run);
    return loss;
}

/* local.lr is 0.2 here. */
static void usual_step_sizes(void **state)
{
    fixture *f = *state;
    double twice = own_loss(f, "fedcpsl", "0.4"), once = own_loss(f, "apsfl", "0.2"),
           plain = own_loss(f, "apfl", "0.2");
    assert_true(own_loss(f, "fedcpsl", "0") == twice && own_loss(f, "fedcpsl", "0.2") != twice);
    assert_true(own_loss(f, "apsfl", "0") == once && own_loss(f, "apsfl", "0.4") != once);
    assert_true(own_loss(f, "apfl", "0") == plain && own_loss(f, "apfl", "0.4") != plain);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        FIXTURE_TEST(closed_form_labels),     FIXTURE_TEST(kept_labels),          FIXTURE_TEST(only_beside_train_loss),
        FIXTURE_TEST(labelled_samples_alone), FIXTURE_TEST(asynchronous_clients), FIXTURE_TEST(usual_step_sizes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
