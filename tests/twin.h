/* Small objectives and methods in plain double arithmetic, beside the library's: least squares, logistic and softmax
 * regression, softmax with pseudo labels; their curvature bounds; FedVRA, FedVRA-U and FedCPSL with the potentials of
 * their theorems. A state is a plain struct, so that every cohort can be tried from the same one. */
#ifndef TESTS_TWIN_H
#define TESTS_TWIN_H

#include "fixture.h"

enum { MOST_CLIENTS = 6, MOST_FEATURES = 5, MOST_X = 64, MOST_OPEN = 12 };

typedef enum { LEAST_SQUARES, LOGISTIC, SOFTMAX } twin_kind;

/* One client: `plain` rows of features with a label or a target, then `open` rows without. */
typedef struct {
    size_t plain, open;
    double *row;   /* (plain + open) x features, borrowed */
    double *value; /* plain: the target, or the class */
    double decay, weight;
} twin_client;

typedef struct {
    twin_kind kind;
    size_t clients, features, classes, n; /* n: parameters */
    double alpha_p, alpha_r;
    twin_client at[MOST_CLIENTS];
} twin;

/* ---- objectives ------------------------------------------------------------------------------------------ */

/* Pseudo labels of a client, a row per sample. */
typedef double twin_labels[MOST_OPEN][10];

/* The probabilities h of a row's classes, and their logarithms, which h may be too small for. */
static void twin_probabilities(const twin *t, const double *x, const double *row, double *h, double *log_h)
{
    double most = -INFINITY, sum = 0;
    for (size_t c = 0; c < t->classes; c++) {
        log_h[c] = x[t->classes * t->features + c];
        for (size_t j = 0; j < t->features; j++) log_h[c] += x[c * t->features + j] * row[j];
        most = fmax(most, log_h[c]);
    }
    for (size_t c = 0; c < t->classes; c++) sum += exp(log_h[c] - most);
    for (size_t c = 0; c < t->classes; c++) log_h[c] -= most + log(sum), h[c] = exp(log_h[c]);
}

/* A row of softmax with label y or, if that is NAN, with pseudo label nu; u receives the derivative by the logits. */
static double twin_row(const twin *t, const double *h, const double *log_h, double y, const double *nu, double *u)
{
    double f = 0, mean = 0;
    if (!isnan(y)) {
        for (size_t c = 0; c < t->classes; c++) u[c] = h[c] - (c == (size_t)y);
        return -log_h[(size_t)y];
    }
    for (size_t c = 0; c < t->classes; c++) mean += h[c] * log_h[c];
    for (size_t c = 0; c < t->classes; c++) {
        double k = nu[c] > 0 ? nu[c] * log(nu[c] * (double)t->classes) : 0;
        f += -t->alpha_p * nu[c] * log_h[c] + t->alpha_r * (k + h[c] * (log_h[c] + log((double)t->classes)));
        u[c] = t->alpha_p * (h[c] - nu[c]) + t->alpha_r * h[c] * (log_h[c] - mean);
    }
    return f;
}

static double twin_softmax(const twin *t, size_t i, const double *x, twin_labels nu, double *g)
{
    const twin_client *c = &t->at[i];
    double f = 0, h[16], log_h[16], u[16];
    for (size_t s = 0; s < c->plain + (nu ? c->open : 0); s++) {
        const double *row = c->row + s * t->features;
        double share = s < c->plain ? 1 / (double)c->plain : 1 / (double)c->open;
        twin_probabilities(t, x, row, h, log_h);
        f += share * twin_row(t, h, log_h, s < c->plain ? c->value[s] : NAN, s < c->plain ? NULL : nu[s - c->plain], u);
        for (size_t k = 0; k < t->classes; k++) {
            for (size_t j = 0; j < t->features; j++) g[k * t->features + j] += share * u[k] * row[j];
            g[t->classes * t->features + k] += share * u[k];
        }
    }
    return f;
}

static double twin_linear(const twin *t, size_t i, const double *x, double *g)
{
    const twin_client *c = &t->at[i];
    double f = 0, share = 1 / (double)c->plain;
    for (size_t s = 0; s < c->plain; s++) {
        const double *row = c->row + s * t->features;
        double z = 0, u;
        for (size_t j = 0; j < t->features; j++) z += row[j] * x[j];
        if (t->kind == LEAST_SQUARES) {
            u = z - c->value[s];
            f += share * u * u / 2;
        } else {
            double m = c->value[s] > 0 ? z : -z;
            f += share * (m > 0 ? log1p(exp(-m)) : log1p(exp(m)) - m);
            u = 1 / (1 + exp(-z)) - (c->value[s] > 0);
        }
        for (size_t j = 0; j < t->features; j++) g[j] += share * u * row[j];
    }
    return f;
}

/* f_i(x), or f_i(x, nu), and its gradient in x. */
static double twin_f(const twin *t, size_t i, const double *x, twin_labels nu, double *g)
{
    memset(g, 0, t->n * sizeof *g);
    double f = t->kind == SOFTMAX ? twin_softmax(t, i, x, nu, g) : twin_linear(t, i, x, g);
    for (size_t j = 0; j < t->n; j++) {
        f += t->at[i].decay / 2 * x[j] * x[j];
        g[j] += t->at[i].decay * x[j];
    }
    return f;
}

UNUSED static double twin_loss(const twin *t, const double *x)
{
    double f = 0, g[MOST_X];
    for (size_t i = 0; i < t->clients; i++) f += t->at[i].weight * twin_f(t, i, x, NULL, g);
    return f;
}

/* The largest eigenvalue of (1/n) sum a a', a with a 1 behind it where the model has a bias. */
static double twin_gram(const twin *t, const double *row, size_t n)
{
    size_t d = t->features + (t->kind == SOFTMAX);
    double v[MOST_FEATURES + 1], l = 0;
    for (size_t j = 0; j < d; j++) v[j] = 1 + 0.37 * (double)j;
    for (size_t it = 0; it < 2000 && n; it++) {
        double out[MOST_FEATURES + 1] = {0}, norm = 0;
        for (size_t s = 0; s < n; s++) {
            double z = 0;
            for (size_t j = 0; j < d; j++) z += v[j] * (j < t->features ? row[s * t->features + j] : 1) / (double)n;
            for (size_t j = 0; j < d; j++) out[j] += z * (j < t->features ? row[s * t->features + j] : 1);
        }
        for (size_t j = 0; j < d; j++) norm += out[j] * out[j];
        norm = sqrt(norm);
        for (size_t j = 0; j < d && norm > 0; j++) v[j] = out[j] / norm;
        if (fabs(norm - l) < 1e-12 * norm) break;
        l = norm;
    }
    return l;
}

/* The least L that holds for every x: the Hessian of a row is at most 1, 1/4, or 1/2 times a a'. Labelled rows only. */
UNUSED static double twin_smoothness(const twin *t, size_t i)
{
    static const double most[] = {1, 0.25, 0.5};
    return most[t->kind] * twin_gram(t, t->at[i].row, t->at[i].plain) + t->at[i].decay;
}

/* Of the unlabelled rows at x = 0, where h is uniform: (alpha_p + alpha_r)/C of the Gram matrix, at least its part. */
UNUSED static double twin_open_curvature(const twin *t, size_t i)
{
    const twin_client *c = &t->at[i];
    if (!c->open) return 0;
    return (t->alpha_p + t->alpha_r) / (double)t->classes * twin_gram(t, c->row + c->plain * t->features, c->open);
}

/* ---- pseudo labels --------------------------------------------------------------------------------------- */

/* Onto the simplex: max(v - s, 0), with s such that the sum is 1. */
static void twin_project(double *v, size_t n)
{
    double high = v[0], low;
    for (size_t j = 1; j < n; j++) high = fmax(high, v[j]);
    low = high - 1;
    for (int it = 0; it < 100; it++) {
        double s = (low + high) / 2, sum = 0;
        for (size_t j = 0; j < n; j++) sum += fmax(v[j] - s, 0);
        if (sum > 1)
            low = s;
        else
            high = s;
    }
    for (size_t j = 0; j < n; j++) v[j] = fmax(v[j] - (low + high) / 2, 0);
}

/* One projected gradient step of a client's labels. */
static void twin_label_step(const twin *t, size_t i, const double *x, double lr, twin_labels nu)
{
    const twin_client *c = &t->at[i];
    for (size_t s = 0; s < c->open; s++) {
        double h[16], log_h[16];
        twin_probabilities(t, x, c->row + (c->plain + s) * t->features, h, log_h);
        for (size_t k = 0; k < t->classes; k++)
            nu[s][k] -=
                lr / (double)c->open *
                (-t->alpha_p * log_h[k] + t->alpha_r * (log(fmax(nu[s][k], 1e-12)) + 1 + log((double)t->classes)));
        twin_project(nu[s], t->classes);
    }
}

/* ---- FedVRA and FedVRA-U --------------------------------------------------------------------------------- */

typedef struct {
    double a, d, gamma[MOST_CLIENTS], lr[MOST_CLIENTS], p[MOST_CLIENTS];
    size_t steps;
    int labels; /* FedVRA-U with projected labels */
    double label_lr;
    size_t label_steps;
} vra_settings;

typedef struct {
    double x[MOST_X], lam[MOST_CLIENTS][MOST_X];
    twin_labels nu[MOST_CLIENTS];
} vra_state;

UNUSED static void vra_begin(const twin *t, const double *x, vra_state *s)
{
    memset(s, 0, sizeof *s);
    memcpy(s->x, x, t->n * sizeof *x);
    for (size_t i = 0; i < t->clients; i++)
        for (size_t k = 0; k < MOST_OPEN; k++)
            for (size_t c = 0; c < t->classes; c++) s->nu[i][k][c] = 1 / (double)t->classes;
}

static double vra_beta(const twin *t, const vra_settings *v)
{
    double sum = 0;
    for (size_t i = 0; i < t->clients; i++) sum += t->at[i].weight * v->gamma[i];
    return 1 / sum;
}

static double vra_follow(const vra_settings *v, size_t i)
{
    return v->a * (1 - pow(1 - v->gamma[i] * v->lr[i], (double)v->steps)); /* a gamma lr Qt */
}

static void vra_turn(const twin *t, const vra_settings *v, size_t i, vra_state *s, double *z)
{
    double g[MOST_X];
    if (v->labels)
        for (size_t q = 0; q < v->label_steps; q++) twin_label_step(t, i, s->x, v->label_lr, s->nu[i]);
    memcpy(z, s->x, t->n * sizeof *z);
    for (size_t q = 0; q < v->steps; q++) {
        twin_f(t, i, z, v->labels ? s->nu[i] : NULL, g);
        for (size_t j = 0; j < t->n; j++) z[j] -= v->lr[i] * (g[j] - s->lam[i][j] + v->gamma[i] * (z[j] - s->x[j]));
    }
    for (size_t j = 0; j < t->n; j++) s->lam[i][j] += v->a * v->gamma[i] * (s->x[j] - z[j]);
}

/* A round with the clients whose bit is set. */
UNUSED static void vra_round(const twin *t, const vra_settings *v, unsigned cohort, vra_state *s)
{
    double step[MOST_X] = {0}, beta = vra_beta(t, v), z[MOST_X];
    for (size_t i = 0; i < t->clients; i++) {
        if (!(cohort >> i & 1)) continue;
        vra_turn(t, v, i, s, z);
        for (size_t j = 0; j < t->n; j++) step[j] += t->at[i].weight * v->d * v->gamma[i] * (z[j] - s->x[j]);
    }
    for (size_t i = 0; i < t->clients; i++)
        for (size_t j = 0; j < t->n; j++) step[j] -= t->at[i].weight * s->lam[i][j];
    for (size_t j = 0; j < t->n; j++) s->x[j] += beta * step[j];
}

/* P^r of (45); with labels, of (101), which without its 1 - p_i is what falls for p_i = 1, too. */
UNUSED static double vra_potential(const twin *t, const vra_settings *v, vra_state *s)
{
    double sum = 0, beta = vra_beta(t, v), g[MOST_X];
    for (size_t i = 0; i < t->clients; i++) {
        double f = twin_f(t, i, s->x, v->labels ? s->nu[i] : NULL, g), far = 0;
        double factor = !v->labels ? 4 : v->p[i] < 1 ? 8 / (1 - v->p[i]) : 8;
        for (size_t j = 0; j < t->n; j++) far += (g[j] - s->lam[i][j]) * (g[j] - s->lam[i][j]);
        sum += t->at[i].weight * (f + factor * beta * far / (v->p[i] * vra_follow(v, i)));
    }
    return sum;
}

/* By how much (79), or (151) with labels, makes the mean of P fall at least: the part with Xi_i. */
UNUSED static double vra_descent(const twin *t, const vra_settings *v, vra_state *s)
{
    double sum = 0, beta = vra_beta(t, v), g[MOST_X];
    for (size_t i = 0; i < t->clients; i++) {
        double far = 0, p = v->p[i], c2 = vra_follow(v, i), c1 = c2 * (1 + v->d / v->a), u = p * c2;
        twin_f(t, i, s->x, v->labels ? s->nu[i] : NULL, g);
        for (size_t j = 0; j < t->n; j++) far += (g[j] - s->lam[i][j]) * (g[j] - s->lam[i][j]);
        double factor = v->labels ? p * c1 : p * (c1 + c2) / 2;
        if (v->labels && p < 1) factor += (8 + u - 2 * p) * u / (4 * (1 - p));
        sum += t->at[i].weight * beta * factor * far;
    }
    return sum;
}

/* ---- FedCPSL's global model ------------------------------------------------------------------------------ */

typedef struct {
    double lr, server_lr, momentum, l; /* server_lr 0: the steps */
    size_t steps, cohort;
    int labels;
    double label_lr;
} cpsl_settings;

typedef struct {
    double x[MOST_X], c[MOST_CLIENTS][MOST_X];
    twin_labels nu[MOST_CLIENTS];
} cpsl_state;

static double cpsl_rate(const cpsl_settings *v) { return v->server_lr > 0 ? v->server_lr : (double)v->steps; }

UNUSED static double cpsl_steps(double momentum, size_t steps)
{
    double sum = 0, b = 0;
    for (size_t t = 0; t < steps; t++) sum += b = 1 + momentum * b;
    return sum;
}

UNUSED static void cpsl_round(const twin *t, const cpsl_settings *v, unsigned cohort, cpsl_state *s)
{
    double c[MOST_X] = {0}, step[MOST_X] = {0}, qt = cpsl_steps(v->momentum, v->steps);
    for (size_t i = 0; i < t->clients; i++)
        for (size_t j = 0; j < t->n; j++) c[j] += t->at[i].weight * s->c[i][j];
    for (size_t i = 0; i < t->clients; i++) {
        double z[MOST_X], m[MOST_X] = {0}, g[MOST_X];
        if (!(cohort >> i & 1)) continue;
        if (v->labels) twin_label_step(t, i, s->x, v->label_lr, s->nu[i]);
        memcpy(z, s->x, sizeof z);
        for (size_t q = 0; q < v->steps; q++) {
            twin_f(t, i, z, v->labels ? s->nu[i] : NULL, g);
            for (size_t j = 0; j < t->n; j++) m[j] = v->momentum * m[j] + g[j] - s->c[i][j] + c[j];
            for (size_t j = 0; j < t->n; j++) z[j] -= v->lr * m[j];
        }
        for (size_t j = 0; j < t->n; j++) {
            double moved = (z[j] - s->x[j]) / qt;
            step[j] += t->at[i].weight * moved;
            s->c[i][j] -= c[j] + moved / v->lr;
        }
    }
    double factor = cpsl_rate(v) * (double)t->clients / (double)v->cohort;
    for (size_t j = 0; j < t->n; j++) s->x[j] += factor * step[j];
}

/* P^r of (48). */
UNUSED static double cpsl_potential(const twin *t, const cpsl_settings *v, cpsl_state *s)
{
    double sum = 0, g[MOST_X], far = 0, ratio = (double)t->clients / (double)v->cohort;
    for (size_t i = 0; i < t->clients; i++) {
        sum += t->at[i].weight * twin_f(t, i, s->x, v->labels ? s->nu[i] : NULL, g);
        for (size_t j = 0; j < t->n; j++) far += t->at[i].weight * (g[j] - s->c[i][j]) * (g[j] - s->c[i][j]);
    }
    return sum + 24 * pow(v->lr * cpsl_rate(v) * ratio, 2) * v->l * far;
}

/* By how much (69) makes the mean of P fall at least. */
UNUSED static double cpsl_descent(const twin *t, const cpsl_settings *v, cpsl_state *s)
{
    double sum[MOST_X] = {0}, g[MOST_X], norm = 0;
    for (size_t i = 0; i < t->clients; i++) {
        twin_f(t, i, s->x, v->labels ? s->nu[i] : NULL, g);
        for (size_t j = 0; j < t->n; j++) sum[j] += t->at[i].weight * g[j];
    }
    for (size_t j = 0; j < t->n; j++) norm += sum[j] * sum[j];
    return v->lr * cpsl_rate(v) / 4 * norm;
}

/* ---- cohorts ----------------------------------------------------------------------------------------------- */

typedef enum { EVERYONE, UNIFORM, BERNOULLI } sampling;

/* The probability of this cohort; `count` of all for UNIFORM, p_i for BERNOULLI. */
UNUSED static double cohort_probability(sampling how, size_t clients, size_t count, const double *p, unsigned cohort)
{
    double chance = 1, ways = 1;
    size_t size = 0;
    for (size_t i = 0; i < clients; i++) size += cohort >> i & 1;
    if (how == EVERYONE) return size == clients;
    if (how == UNIFORM) {
        for (size_t k = 0; k < count; k++) ways *= (double)(clients - k) / (double)(k + 1);
        return size == count ? 1 / ways : 0;
    }
    for (size_t i = 0; i < clients; i++) chance *= cohort >> i & 1 ? p[i] : 1 - p[i];
    return chance;
}

#endif
