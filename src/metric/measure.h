/* Gathers the data of metrics: asks clients for their figures (message/exchange.h) and evaluates the server's test set.
 * The wanted metrics (metric.h) determine what is asked, and take their values from the result. Sums run over a fixed
 * number of lanes, each in order, so that they do not depend on the number of threads. Also the hypergradient of
 * two-level problems, which takes many exchanges of its own. */
#ifndef FLI_METRIC_MEASURE_H
#define FLI_METRIC_MEASURE_H

#include "config/config.h"
#include "engine/async.h"
#include "metric/metric.h"

/* ==== the hypergradient ==================================================================================== */

/* The exact hypergradient of a two-level problem: over all samples of all clients, with the lower level solved.
 *
 *     y* = argmin_y G(x, y)         Newton's method, each step by conjugate gradients
 *     v* = G_yy^-1 grad_y F(x, y*)  conjugate gradients
 *     grad Phi(x) = grad_x F(x, y*) - G_xy v*
 *
 * Every derivative is a sum over the clients, which are asked for it one after the other (FLI_ASK_LEVELS). Both
 * solutions are computed to a gradient or residual of 1e-10 in f64 and of 1e-5 in f32, relative to its value at the
 * start or to 1 if that is smaller; the error in y* and v* is at most that over the modulus of strong convexity. */

/* The results for one set of weights. */
typedef struct {
    double value, hypergradient;            /* F(x, y*(x)), ||grad Phi(x)|| */
    double lower_distance, system_distance; /* ||y - y*(x)||, ||v - v*(x)|| */
} fli_levels_solved;

/* At z = (x, y), with the server's v, or NULL if it has none: its distance is NaN then. `weights`: of all clients,
 * adding up to 1; NULL: their p_i. All are NaN, with a warning, if the lower level cannot be solved. Adds the traffic
 * to the counts. */
fl_status fli_hypergradient(fl_ctx *ctx, fli_exec *exec, const void *z, const void *v, const double *weights,
                            fli_counts *counts, fli_levels_solved *out);

/* ==== measuring ============================================================================================ */

typedef struct fli_measure fli_measure;

fl_status fli_measure_new(fl_ctx *ctx, fli_exec *exec, const fli_metrics_settings *what,
                          const fli_ask_params *ask_params, fli_measure **out);
void fli_measure_free(fli_measure *m);
/* For an asynchronous method, whose clients may be ahead of the server: their asks then say so. */
void fli_measure_follow(fli_measure *m, const fli_async *a);
/* Sets the largest L_i, for metrics that use it. */
void fli_measure_smooth(fli_measure *m, double smoothness);
/* The least memory that it needs, in bytes. */
double fli_measure_bytes(const fli_model *model, const fli_metrics_settings *what, size_t clients);
/* Measures x, a vector of the federation's space, and fills a row, counters included; adds traffic to the counts. */
fl_status fli_measure_take(fli_measure *m, const void *x, fli_counts *counts, fl_row *row);
/* The newest per-client figures; 0 before the first measurement, or when clients are not measured. */
size_t fli_measure_clients(const fli_measure *m, const fli_client_figures **out);
/* Whether any client has answered the newest measurement; remote clients may not. */
int fli_measure_heard(const fli_measure *m);

#endif
