/* Federations of quadratic bilevel problems, and their solution by elimination: independent of the library's
 * arithmetic. */
#ifndef TESTS_QUADRATIC_LEVELS_H
#define TESTS_QUADRATIC_LEVELS_H

#include "fixture.h"

#include "bilevel/bilevel.h"

enum { UP = 3, LOW = 4, ROW = LOW * LOW + 2 * LOW * UP + 2 * LOW + UP };

/* A sample: g = y'Ay/2 - y'(Bx + c), f = ||y - t||^2/2 + 1/2 ||x - s||^2 + x'Ey. */
typedef struct {
    double a[LOW * LOW], b[LOW * UP], c[LOW], t[LOW], s[UP], e[UP * LOW];
} quadratic;
_Static_assert(sizeof(quadratic) == ROW * sizeof(double), "a sample is a row of features");

/* A is positive definite: the identity plus a small square. */
UNUSED static quadratic quadratic_random(fli_rng *r)
{
    quadratic q;
    double *d = (double *)&q, m[LOW * LOW];
    for (size_t i = 0; i < ROW; i++) d[i] = 0.7 * fli_rng_normal(r);
    for (size_t i = 0; i < LOW * LOW; i++) m[i] = 0.3 * fli_rng_normal(r);
    for (size_t i = 0; i < LOW; i++)
        for (size_t j = 0; j < LOW; j++) {
            q.a[i * LOW + j] = i == j;
            for (size_t k = 0; k < LOW; k++) q.a[i * LOW + j] += m[i * LOW + k] * m[j * LOW + k];
        }
    for (size_t i = 0; i < UP * LOW; i++) q.e[i] *= 0.3;
    return q;
}

/* sum_i w_i q_i */
UNUSED static quadratic quadratic_mean(size_t n, const quadratic *q, const double *w)
{
    quadratic mean = {{0}};
    for (size_t i = 0; i < n; i++)
        for (size_t j = 0; j < ROW; j++) ((double *)&mean)[j] += w[i] * ((const double *)&q[i])[j];
    return mean;
}

/* y = A^-1 (Bx + c) */
UNUSED static void quadratic_lower(const quadratic *q, const double *x, double *y)
{
    double a[LOW * LOW];
    memcpy(a, q->a, sizeof a);
    for (size_t i = 0; i < LOW; i++) {
        y[i] = q->c[i];
        for (size_t j = 0; j < UP; j++) y[i] += q->b[i * UP + j] * x[j];
    }
    solve_linear(LOW, a, y);
}

/* The gradient of Phi: x - s + Ey + B'v, v = A^-1 (y - t + E'x). */
UNUSED static void quadratic_gradient(const quadratic *q, const double *x, double *grad)
{
    double y[LOW], v[LOW], a[LOW * LOW];
    quadratic_lower(q, x, y);
    memcpy(a, q->a, sizeof a);
    for (size_t i = 0; i < LOW; i++) {
        v[i] = y[i] - q->t[i];
        for (size_t j = 0; j < UP; j++) v[i] += q->e[j * LOW + i] * x[j];
    }
    solve_linear(LOW, a, v);
    for (size_t j = 0; j < UP; j++) {
        grad[j] = x[j] - q->s[j];
        for (size_t i = 0; i < LOW; i++) grad[j] += q->e[j * LOW + i] * y[i] + q->b[i * UP + j] * v[i];
    }
}

/* Where the gradient, which is affine in x, vanishes. */
UNUSED static void quadratic_solution(const quadratic *q, double *x)
{
    double zero[UP] = {0}, at0[UP], m[UP * UP];
    quadratic_gradient(q, zero, at0);
    for (size_t j = 0; j < UP; j++) {
        double unit[UP] = {0}, g[UP];
        unit[j] = 1;
        quadratic_gradient(q, unit, g);
        for (size_t i = 0; i < UP; i++) m[i * UP + j] = g[i] - at0[i];
    }
    for (size_t i = 0; i < UP; i++) x[i] = -at0[i];
    solve_linear(UP, m, x);
}

/* `each` samples for every client, taken from q in order. */
UNUSED static fli_fed *quadratic_fed(fl_ctx *ctx, size_t clients, size_t each, const quadratic *q)
{
    fli_dataset *ds = NULL;
    fli_fed *fed = NULL;
    size_t n = clients * each;
    fli_partition part = {.clients = clients};
    part.start = fli_alloc(ctx, clients + 1, sizeof *part.start);
    part.index = fli_alloc(ctx, n, sizeof *part.index);
    assert_ok(ctx, fli_dataset_new(ctx, FLI_X_F64, n, ROW, 0, &ds));
    memcpy(ds->x, q, n * sizeof *q);
    for (size_t i = 0; i < n; i++) part.index[i] = (uint32_t)i;
    for (size_t i = 0; i <= clients; i++) part.start[i] = i * each;
    assert_ok(ctx, fli_fed_take(ctx, ds, NULL, &part, &fed));
    return fed;
}

UNUSED static fli_model *quadratic_model(fl_ctx *ctx, fli_arena *a, double l2)
{
    fli_model *m = NULL;
    const fli_model_desc *d = &fli_model_quadratic_bilevel;
    char text[64];
    snprintf(text, sizeof text, "upper=%d;lower=%d", (int)UP, (int)LOW);
    assert_ok(ctx, fli_model_new(ctx, d, bound(ctx, a, d->keys, d->params_size, text), &fli_ops_f64, ROW, 0, 0, &m));
    assert_ok(ctx, fli_bilevel_give(ctx, m, &fli_bilevel_quadratic, NULL, &(fli_bilevel_common){.l2 = l2}));
    return m;
}

/* An executor on such a federation, which it takes; use engine_fini. Uniform weights; the start is zero. */
UNUSED static void levels_init(engine *e, fl_ctx *ctx, fli_fed *fed, double l2, const char *algo, const char *params,
                               size_t batch, uint64_t seed)
{
    const fl_method *a = algo_named(algo);
    *e = (engine){.ctx = ctx, .fed = fed};
    fli_arena_init(&e->arena, ctx);
    e->model = quadratic_model(ctx, &e->arena, l2);
    e->setup = setup_of(e->model, fed, a, bound(ctx, &e->arena, a->keys, a->params_size, params));
    e->setup.seed = seed;
    e->setup.sgd = (fli_sgd_spec){batch, 0, 0};
    fli_exec_spec spec = {.setup = &e->setup, .threads = 1};
    assert_ok(ctx, fli_exec_new(ctx, &spec, &e->exec));
    e->everyone = fli_alloc(ctx, fed->clients, sizeof *e->everyone);
    e->steps = fli_alloc(ctx, fed->clients, sizeof *e->steps);
    for (size_t i = 0; i < fed->clients; i++) e->everyone[i] = (uint32_t)i, e->steps[i] = 1;
}

/* A round of this many exchanges with the cohort. */
UNUSED static void levels_round(engine *e, const uint32_t *who, size_t count, size_t phases)
{
    engine_ask(e, e->round++, who, count, 0, phases, 0, FLI_ASK_HAS_BODY | FLI_ASK_REPLY);
}

#endif
