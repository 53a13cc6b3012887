/* Heterogeneous least squares with a regulariser in double precision, for the theory of Douglas-Rachford methods: the
 * problem as quadratics from the raw data, its optimum by proximal gradient steps, proximal operators written down once
 * more, the Lyapunov function (25) of [DR], and an executor whose clients are watched. */
#ifndef TESTS_COMPOSITE_H
#define TESTS_COMPOSITE_H

#include "fixture.h"

#include "algo/algo.h"
#include "regularizer/regularizer.h"

enum { DIM = 5, N = 6 };
static const size_t sizes[N] = {3, 12, 20, 9, 15, 30}; /* client 0 has fewer samples than features */
UNUSED static const double l2 = 0.1;

/* ---- the problem: f = (1/N) sum f_i, g ------------------------------------------------------------------- */

typedef struct {
    const char *name, *params;
    double a, b; /* what the parameters say */
} term;

UNUSED static const term none = {"none", "", 0, 0}, l1 = {"l1", "weight=0.3", 0.3, 0},
                         positive = {"nonnegative", "", 0, INFINITY}, box = {"box", "low=-0.2;high=0.15", -0.2, 0.15},
                         ball = {"l2_ball", "radius=0.4", 0.4, 0};

static double g_value(const term *g, const double *x)
{
    double sum = 0;
    for (size_t i = 0; i < DIM; i++) sum += fabs(x[i]);
    return g == &l1 ? g->a * sum : 0; /* the others are asked inside their sets */
}

static void g_prox(const term *g, double eta, double *x)
{
    double norm = 0;
    for (size_t i = 0; i < DIM; i++) norm += x[i] * x[i];
    norm = sqrt(norm);
    for (size_t i = 0; i < DIM; i++) {
        if (g == &l1) x[i] = x[i] > eta * g->a ? x[i] - eta * g->a : x[i] < -eta * g->a ? x[i] + eta * g->a : 0;
        if (g == &positive || g == &box) x[i] = fmin(fmax(x[i], g->a), g->b);
        if (g == &ball && norm > g->a) x[i] *= g->a / norm;
    }
}

typedef struct {
    double h[N][DIM * DIM], q[N][DIM], c[N]; /* f_i(x) = x'hx/2 - q'x + c */
    double l;                                /* the largest L_i */
} quadratics;

static void gradient(const quadratics *p, size_t i, const double *x, double *out)
{
    for (size_t r = 0; r < DIM; r++) {
        out[r] = -p->q[i][r];
        for (size_t k = 0; k < DIM; k++) out[r] += p->h[i][r * DIM + k] * x[k];
    }
}

static double value(const quadratics *p, size_t i, const double *x)
{
    double g[DIM], v = p->c[i];
    gradient(p, i, x, g);
    for (size_t k = 0; k < DIM; k++) v += (g[k] - p->q[i][k]) * x[k] / 2;
    return v;
}

/* y = x - eta grad f(x), then its prox: a step of the proximal gradient method */
static void forward_backward(const quadratics *p, const term *g, double eta, const double *x, double *y)
{
    double own[DIM];
    memcpy(y, x, DIM * sizeof *y);
    for (size_t i = 0; i < N; i++) {
        gradient(p, i, x, own);
        for (size_t k = 0; k < DIM; k++) y[k] -= eta * own[k] / N;
    }
    g_prox(g, eta, y);
}

static void optimum(const quadratics *p, const term *g, double *x)
{
    double y[DIM];
    memset(x, 0, DIM * sizeof *x);
    for (size_t t = 0; t < 5000; t++) {
        forward_backward(p, g, 1 / p->l, x, y);
        memcpy(x, y, sizeof y);
    }
}

/* ||G_eta(x)|| = ||x - prox_{eta g}(x - eta grad f(x))||/eta, (4) */
static double gradient_mapping(const quadratics *p, const term *g, double eta, const double *x)
{
    double y[DIM];
    forward_backward(p, g, eta, x, y);
    return distance(DIM, x, y) / eta;
}

static double smoothness(const double *h)
{
    double v[DIM] = {1, 0.7, 0.4, -0.6, 0.2}, norm = 0;
    for (size_t t = 0; t < 5000; t++) {
        double hv[DIM] = {0};
        norm = 0;
        for (size_t r = 0; r < DIM; r++)
            for (size_t k = 0; k < DIM; k++) hv[r] += h[r * DIM + k] * v[k];
        for (size_t r = 0; r < DIM; r++) norm += hv[r] * hv[r];
        norm = sqrt(norm);
        for (size_t r = 0; r < DIM; r++) v[r] = hv[r] / norm;
    }
    return norm;
}

/* Of N clients with samples of DIM features. */
UNUSED static void quadratics_from(fl_ctx *ctx, const fli_fed *fed, quadratics *p)
{
    p->l = 0;
    for (size_t i = 0; i < N; i++) {
        fli_view v;
        client_quadratic(ctx, fed, i, l2, p->h[i], p->q[i]);
        p->l = fmax(p->l, smoothness(p->h[i]));
        p->c[i] = 0;
        assert_ok(ctx, fli_view_open(ctx, fed, i, &v));
        for (size_t s = 0; s < v.n_train; s++)
            p->c[i] += v.ds->target[v.train[s]] * v.ds->target[v.train[s]] / (2 * (double)v.n_train);
        fli_view_close(&v);
    }
}

UNUSED static fli_fed *quadratics_of(fl_ctx *ctx, quadratics *p)
{
    fli_fed *fed = random_fed(ctx, N, sizes, DIM, 0, 11);
    quadratics_from(ctx, fed, p);
    return fed;
}

/* ---- the engine, watched ------------------------------------------------------------------------------- */

static const fl_method *watched;
static fl_method spy;
static double seen_y[N][DIM], seen_x[N][DIM]; /* of all clients, also those that have not had a turn */

static int watch_answer(const fl_turn *t, const fl_answer *a)
{
    watched->answer(t, a);
    memcpy(seen_y[t->ask.client], t->state[0], sizeof seen_y[0]);
    memcpy(seen_x[t->ask.client], t->state[1], sizeof seen_x[0]);
    return 0;
}

UNUSED static const fl_regularizer *regularizer_named(const char *name)
{
    const fl_regularizer *const *r = fli_regularizer_list;
    while (*r && strcmp((*r)->name, name)) r++;
    assert_non_null(*r);
    return *r;
}

/* Any start model, x0; NULL: zero. The first vectors of all clients are x0. */
static void start(engine *e, fixture *f, const char *method, const char *params, const term *g, const double *x0,
                  size_t threads, quadratics *p)
{
    const fl_regularizer *reg = regularizer_named(g->name);
    watched = algo_named(method);
    spy = *watched;
    spy.answer = watch_answer;
    fli_fed *fed = quadratics_of(f->ctx, p);
    engine_init(e, f->ctx, fed, "least_squares", &fli_ops_f64, l2, &spy, params, 0, (fli_sgd_spec){0}, threads);
    fli_exec_free(e->exec); /* the one with a regulariser instead */
    e->exec = NULL;
    e->setup = setup_of(e->model, fed, &spy, bound(f->ctx, &e->arena, spy.keys, spy.params_size, params));
    e->setup.regularizer = reg;
    e->setup.regularizer_params = bound(f->ctx, &e->arena, reg->keys, reg->params_size, g->params);
    e->setup.measure_potential = spy.theory.potential.name != NULL;
    fli_exec_spec spec = {.setup = &e->setup, .threads = threads};
    assert_ok(f->ctx, fli_exec_new(f->ctx, &spec, &e->exec));
    double *x = fli_exec_server(e->exec)[0];
    for (size_t k = 0; k < DIM; k++) x[k] = x0 ? x0[k] : 0;
    for (size_t i = 0; i < N; i++) memcpy(seen_x[i], x, sizeof seen_x[i]);
    memcpy(seen_y, seen_x, sizeof seen_y);
    engine_warm_up(e, 0.05);
}

UNUSED static const double *server(engine *e, size_t v) { return fli_exec_server(e->exec)[v]; }

/* (25) */
static double lyapunov(const quadratics *p, const term *g, double eta, const double *xbar)
{
    double v = g_value(g, xbar);
    for (size_t i = 0; i < N; i++) {
        double own[DIM];
        gradient(p, i, seen_x[i], own);
        v += value(p, i, seen_x[i]) / N;
        for (size_t k = 0; k < DIM; k++) {
            double d = xbar[k] - seen_x[i][k];
            v += (own[k] * d + d * d / (2 * eta)) / N;
        }
    }
    return v;
}

#endif
