/* FedGiA, FedDR and asyncFedDR on quadratics in one dimension, f_i(x) = h_i/2 x^2 - b_i x, with the functions that
 * their theorems are about: for tests of what is true of them at all. */
#ifndef TESTS_ONE_DIMENSION_H
#define TESTS_ONE_DIMENSION_H

#include "check.h"

#include "base/rng.h"

static inline double between(fli_rng *r, double low, double high) { return low + (high - low) * fli_rng_uniform(r); }

/* ---- FedGiA ------------------------------------------------------------------------------------------------ */

enum { MOST = 6 };

/* H_i = r_i, at least |h_i|. */
typedef struct {
    size_t m;
    double h[MOST], r[MOST], b[MOST], sigma;
    double x[MOST], pi[MOST], bar; /* bar: the average that the round began with */
} gia;

static inline double gia_gradient(const gia *g, size_t i, double x) { return (g->h[i] * x - g->b[i]) / (double)g->m; }

/* (8) */
static inline double gia_lagrangian(const gia *g)
{
    double sum = 0;
    for (size_t i = 0; i < g->m; i++) {
        double far = g->x[i] - g->bar;
        sum += (g->h[i] * g->x[i] * g->x[i] / 2 - g->b[i] * g->x[i]) / (double)g->m + far * g->pi[i] +
               g->sigma / 2 * far * far;
    }
    return sum;
}

static inline void gia_average(gia *g)
{
    g->bar = 0;
    for (size_t i = 0; i < g->m; i++) g->bar += (g->x[i] + g->pi[i] / g->sigma) / (double)g->m;
}

/* (13), (14) for the clients whose bit is set, (16), (17) for the others. */
static inline void gia_step(gia *g, unsigned chosen)
{
    for (size_t i = 0; i < g->m; i++) {
        double gradient = gia_gradient(g, i, g->bar);
        if (chosen >> i & 1) {
            g->x[i] = g->bar - (gradient + g->pi[i]) / (g->r[i] / (double)g->m + g->sigma);
            g->pi[i] += g->sigma * (g->x[i] - g->bar);
        } else {
            g->x[i] = g->bar;
            g->pi[i] = -gradient;
        }
    }
}

/* ---- FedDR ------------------------------------------------------------------------------------------------- */

/* With exact proxes and g = 0: ||G_eta|| is |grad f(xbar)|. */
typedef struct {
    size_t n;
    double h[MOST], b[MOST], alpha, eta, x[MOST], y[MOST], bar;
} feddr;

static inline double feddr_f(const feddr *d, double x)
{
    double sum = 0;
    for (size_t i = 0; i < d->n; i++) sum += (d->h[i] * x * x / 2 - d->b[i] * x) / (double)d->n;
    return sum;
}

static inline double feddr_gradient(const feddr *d, double x)
{
    double sum = 0;
    for (size_t i = 0; i < d->n; i++) sum += (d->h[i] * x - d->b[i]) / (double)d->n;
    return sum;
}

/* (25) */
static inline double feddr_potential(const feddr *d)
{
    double sum = 0;
    for (size_t i = 0; i < d->n; i++) {
        double x = d->x[i], far = d->bar - x;
        sum += (d->h[i] * x * x / 2 - d->b[i] * x + (d->h[i] * x - d->b[i]) * far + far * far / (2 * d->eta)) /
               (double)d->n;
    }
    return sum;
}

static inline double feddr_prox(const feddr *d, size_t i, double y)
{
    return (y + d->eta * d->b[i]) / (1 + d->eta * d->h[i]);
}

static inline void feddr_begin(feddr *d, double x0)
{
    d->bar = x0;
    for (size_t i = 0; i < d->n; i++) d->y[i] = x0, d->x[i] = feddr_prox(d, i, x0);
}

/* With the clients whose bit is set. */
static inline void feddr_round(feddr *d, unsigned cohort)
{
    double sum = 0;
    for (size_t i = 0; i < d->n; i++) {
        if (cohort >> i & 1) {
            d->y[i] += d->alpha * (d->bar - d->x[i]);
            d->x[i] = feddr_prox(d, i, d->y[i]);
        }
        sum += (2 * d->x[i] - d->y[i]) / (double)d->n;
    }
    d->bar = sum;
}

/* ---- asyncFedDR -------------------------------------------------------------------------------------------- */

enum { CLIENTS = 2, TAU = 3 };

/* With b_i = 0, |h_i| <= 1 and g = 0, exact from the start: xbar^0 is the prox of the first xt, as (61) takes it. */
typedef struct {
    double h[CLIENTS], x[CLIENTS], y[CLIENTS], bar[TAU + 1], tilde, alpha, eta;
    size_t steps;
} async;

/* V~ with the factor of (53). */
static inline double async_potential(const async *a)
{
    double sum = 0;
    for (size_t i = 0; i < CLIENTS; i++) {
        double x = a->x[i], far = a->bar[0] - x;
        sum += (a->h[i] * x * x / 2 + a->h[i] * x * far + far * far / (2 * a->eta)) / CLIENTS;
    }
    for (size_t d = 0; d < TAU && d < a->steps; d++)
        sum += TAU / (CLIENTS * a->eta) * (double)(TAU - d) * pow(a->bar[d] - a->bar[d + 1], 2);
    return sum;
}

static inline void async_step(async *a, size_t i, size_t delay)
{
    double old = 2 * a->x[i] - a->y[i];
    a->y[i] += a->alpha * (a->bar[delay] - a->x[i]);
    a->x[i] = a->y[i] / (1 + a->eta * a->h[i]);
    memmove(a->bar + 1, a->bar, TAU * sizeof *a->bar);
    a->tilde += (2 * a->x[i] - a->y[i] - old) / CLIENTS;
    a->bar[0] = a->tilde;
    a->steps++;
}

static inline void async_begin(async *a)
{
    for (size_t i = 0; i < CLIENTS; i++) {
        a->x[i] = a->y[i] / (1 + a->eta * a->h[i]);
        a->tilde += (2 * a->x[i] - a->y[i]) / CLIENTS;
    }
    a->bar[0] = a->tilde;
}

/* The root of 2 - (2 + c) alpha = alpha u + (2 + (1 + c) alpha) u^2 has 12 c under the root, the paper 4 c. */
static inline double etabar(double alpha, double c, double times)
{
    return (sqrt(16 - 8 * alpha - (7 + times * c + 4 * c * c) * alpha * alpha) - alpha) / (2 * (2 + (1 + c) * alpha));
}

#endif
