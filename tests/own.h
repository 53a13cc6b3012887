/* Softmax regression written as a user would, for blobs of 3 classes and 4 features: beside fedloom's own it must give
 * the same numbers but for rounding. It fails, or gives NaN, where a test tells it to. */
#ifndef TESTS_OWN_H
#define TESTS_OWN_H

#include "runs.h"

#include "fedloom_extend.h"

#include <stdatomic.h>

#define OWN "model=own_softmax"

enum { OWN_CLASSES = 3, OWN_FEATURES = 4, OWN_PARAMETERS = OWN_CLASSES * (OWN_FEATURES + 1) };

/* arg of all functions. */
typedef struct {
    atomic_int calls, running, most; /* of batch; at the same time, and the most of that */
    int fail_batch, fail_product, fail_start, fail_measure,
        fail_test;                    /* 1: the function fails; batch: from that call */
    int nan_loss, nan_gradient, hits; /* hits > 0: what it claims */
    double start;
} own_arg;

static inline double own_get(const void *v, size_t real, size_t i)
{
    return real == sizeof(float) ? (double)((const float *)v)[i] : ((const double *)v)[i];
}

static inline void own_put(void *v, size_t real, size_t i, double a)
{
    if (real == sizeof(float))
        ((float *)v)[i] = (float)a;
    else
        ((double *)v)[i] = a;
}

/* Class probabilities of sample i; returns -log of that of its label. */
static inline double own_predict(const fl_batch *b, size_t i, const void *x, double *p, int *hit)
{
    double most = -INFINITY, sum = 0;
    size_t best = 0, y = (size_t)b->label[i];
    for (size_t c = 0; c < OWN_CLASSES; c++) {
        p[c] = own_get(x, b->real, OWN_CLASSES * OWN_FEATURES + c);
        for (size_t j = 0; j < OWN_FEATURES; j++)
            p[c] += own_get(x, b->real, c * OWN_FEATURES + j) * own_get(b->x, b->real, i * OWN_FEATURES + j);
        if (p[c] > most) most = p[best = c];
    }
    for (size_t c = 0; c < OWN_CLASSES; c++) sum += p[c] = exp(p[c] - most);
    for (size_t c = 0; c < OWN_CLASSES; c++) p[c] /= sum;
    *hit = best == y;
    return -log(p[y]);
}

static inline void own_add(double *g, size_t c, const fl_batch *b, size_t i, double a)
{
    for (size_t j = 0; j < OWN_FEATURES; j++)
        g[c * OWN_FEATURES + j] += a * own_get(b->x, b->real, i * OWN_FEATURES + j) / (double)b->n;
    g[OWN_CLASSES * OWN_FEATURES + c] += a / (double)b->n;
}

static inline int own_batch(void *arg, const fl_batch *b, const void *x, void *g, double *loss, size_t *correct,
                            fl_failure *f)
{
    own_arg *o = arg;
    double sum[OWN_PARAMETERS] = {0}, p[OWN_CLASSES];
    int hit, now = atomic_fetch_add(&o->running, 1) + 1, calls = atomic_fetch_add(&o->calls, 1) + 1;
    for (int most = atomic_load(&o->most); now > most && !atomic_compare_exchange_weak(&o->most, &most, now);) continue;
    *loss = 0;
    for (size_t i = 0; i < b->n; i++) {
        *loss += own_predict(b, i, x, p, &hit) / (double)b->n;
        *correct += (size_t)hit;
        for (size_t c = 0; g && c < OWN_CLASSES; c++) own_add(sum, c, b, i, p[c] - (c == (size_t)b->label[i]));
    }
    for (size_t k = 0; g && k < OWN_PARAMETERS; k++) own_put(g, b->real, k, o->nan_gradient ? NAN : sum[k]);
    if (o->nan_loss) *loss = NAN;
    if (o->hits) *correct = (size_t)o->hits;
    atomic_fetch_sub(&o->running, 1);
    if ((o->fail_batch && calls >= o->fail_batch) || (o->fail_test && b->test)) return fl_failed(f, "no more paper"), 1;
    return 0;
}

/* sum_i (diag p - p p') (V a_i) a_i'/n */
static inline int own_product(void *arg, const fl_batch *b, const void *x, const void *v, void *out, fl_failure *f)
{
    own_arg *o = arg;
    double sum[OWN_PARAMETERS] = {0}, p[OWN_CLASSES], u[OWN_CLASSES];
    int hit;
    if (o->fail_product) return fl_failed(f, "no curvature today"), 1;
    for (size_t i = 0; i < b->n; i++) {
        double mean = 0;
        own_predict(b, i, x, p, &hit);
        for (size_t c = 0; c < OWN_CLASSES; c++) {
            u[c] = own_get(v, b->real, OWN_CLASSES * OWN_FEATURES + c);
            for (size_t j = 0; j < OWN_FEATURES; j++)
                u[c] += own_get(v, b->real, c * OWN_FEATURES + j) * own_get(b->x, b->real, i * OWN_FEATURES + j);
            mean += p[c] * u[c];
        }
        for (size_t c = 0; c < OWN_CLASSES; c++) own_add(sum, c, b, i, p[c] * (u[c] - mean));
    }
    for (size_t k = 0; k < OWN_PARAMETERS; k++) own_put(out, b->real, k, sum[k]);
    return 0;
}

static inline int own_start(void *arg, uint64_t seed, double *x, fl_failure *f)
{
    const own_arg *o = arg;
    (void)seed;
    if (o->fail_start) return fl_failed(f, NULL), 1;
    for (size_t k = 0; k < OWN_PARAMETERS; k++) x[k] = o->start;
    return 0;
}

/* ||x||_1 and the last parameter. */
static inline int own_measure(void *arg, size_t real, const void *x, double *out, fl_failure *f)
{
    const own_arg *o = arg;
    if (o->fail_measure) return fl_failed(f, "no ruler"), 1;
    out[0] = 0;
    for (size_t k = 0; k < OWN_PARAMETERS; k++) out[0] += fabs(own_get(x, real, k));
    out[1] = own_get(x, real, OWN_PARAMETERS - 1);
    return 0;
}

static const fl_tensor own_tensors[] = {{"weight", 0, 2, {OWN_CLASSES, OWN_FEATURES}},
                                        {"bias", OWN_CLASSES *OWN_FEATURES, 1, {OWN_CLASSES}}};

UNUSED static fl_objective own_softmax(own_arg *arg)
{
    return (fl_objective){.size = sizeof(fl_objective),
                          .name = "own_softmax",
                          .title = "softmax regression, once more",
                          .arg = arg,
                          .traits = FL_OBJECTIVE_CONVEX | FL_OBJECTIVE_CLASSIFIER,
                          .parameters = OWN_PARAMETERS,
                          .tensors = own_tensors,
                          .tensor_count = 2,
                          .batch = own_batch,
                          .product = own_product};
}

/* Registered for the time of a test: arg must last until own_forget. */
UNUSED static void own_register(fixture *f, own_arg *arg)
{
    fl_objective o = own_softmax(arg);
    assert_ok(f->ctx, fl_objective_register(f->ctx, &o));
}

UNUSED static void own_forget(fixture *f) { assert_ok(f->ctx, fl_forget(f->ctx, "model", "own_softmax")); }

/* The largest difference between two runs' models. */
UNUSED static double own_distance(const fl_run *a, const fl_run *b)
{
    double x[OWN_PARAMETERS], y[OWN_PARAMETERS], most = 0;
    assert_int_equal(fl_run_model(a, x, OWN_PARAMETERS), OWN_PARAMETERS);
    assert_int_equal(fl_run_model(b, y, OWN_PARAMETERS), OWN_PARAMETERS);
    for (size_t k = 0; k < OWN_PARAMETERS; k++) most = fmax(most, fabs(x[k] - y[k]));
    return most;
}

/* fl_observer_fn: stops its run, which is arg too. */
UNUSED static void own_stop_after_three(void *arg, const fl_run *run, const fl_row *row, int measured)
{
    (void)row, (void)measured;
    if (fl_run_round(run) == 3) fl_run_stop(arg);
}

/* A run that cannot be made, or ends with an error, and stays so. */
UNUSED static void own_fails(fixture *f, const char *set, fl_status expected, const char *text)
{
    fl_run *run = NULL;
    fl_config *cfg = config_of(f, SMALL, set);
    fl_status s = fl_run_new(cfg, &run);
    if (!s) s = fl_run_go(run, NULL, NULL);
    assert_fails(f->ctx, s, expected, text);
    if (run) assert_fails(f->ctx, fl_run_go(run, NULL, NULL), expected, "the run has failed");
    fl_run_free(run);
    fl_config_free(cfg);
}

#endif
