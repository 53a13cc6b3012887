/* Gathers what metrics are made of: clients are asked for their figures (message/exchange.h); the test set is the
 * server's. What is asked for follows from the metrics that are wanted (metric.h), which then take their values from
 * it. Sums run over a fixed number of lanes, each in order, so that they do not depend on the number of threads. Also
 * the hypergradient of two-level problems, which takes many exchanges of its own. */
#ifndef FLI_METRIC_MEASURE_H
#define FLI_METRIC_MEASURE_H

#include "config/config.h"
#include "engine/async.h"
#include "metric/metric.h"

/* ==== the hypergradient ==================================================================================== */

/* The hypergradient of a two-level problem, exactly: over all samples of all clients, with the lower level solved.
 *
 *     y* = argmin_y G(x, y)         Newton's method, each step by conjugate gradients
 *     v* = G_yy^-1 grad_y F(x, y*)  conjugate gradients
 *     grad Phi(x) = grad_x F(x, y*) - G_xy v*
 *
 * Every derivative is a sum over the clients, who are asked for it one after the other (FLI_ASK_LEVELS). Both solutions
 * are found to a gradient or residual of 1e-10 in f64 and of 1e-5 in f32, relative to what it was at the start but to
 * no less than 1; the error in y* and v* is at most that over the modulus of strong convexity. */

/* Of one set of weights. */
typedef struct {
    double value, hypergradient;            /* F(x, y*(x)), ||grad Phi(x)|| */
    double lower_distance, system_distance; /* ||y - y*(x)||, ||v - v*(x)|| */
} fli_levels_solved;

/* At z = (x, y), with the server's v, or NULL where it has none: its distance is NaN then. `weights`: of all clients,
 * adding up to 1; NULL: their p_i. All are NaN, with a warning, where the lower level cannot be solved. What is sent is
 * added to the counts. */
fl_status fli_hypergradient(fl_ctx *ctx, fli_exec *exec, const void *z, const void *v, const double *weights,
                            fli_counts *counts, fli_levels_solved *out);

/* ==== measuring ============================================================================================ */

typedef struct fli_measure fli_measure;

fl_status fli_measure_new(fl_ctx *ctx, fli_exec *exec, const fli_metrics_settings *what,
                          const fli_ask_params *ask_params, fli_measure **out);
void fli_measure_free(fli_measure *m);
/* Of an asynchronous method, whose clients may be ahead of the server: those that are will be told. */
void fli_measure_follow(fli_measure *m, const fli_async *a);
/* The largest L_i, for metrics that have it in them. */
void fli_measure_smooth(fli_measure *m, double smoothness);
/* What it takes at least, in bytes. */
double fli_measure_bytes(const fli_model *model, const fli_metrics_settings *what, size_t clients);
/* Measures x, which is a vector of the federation's space, and fills a row, counted metrics included; what that sent is
 * added to the counts. */
fl_status fli_measure_take(fli_measure *m, const void *x, fli_counts *counts, fl_row *row);
/* The newest per-client figures; 0 before the first measurement, or when clients are not measured. */
size_t fli_measure_clients(const fli_measure *m, const fli_client_figures **out);
/* Whether any client that the newest measurement asked has answered; remote clients may not. */
int fli_measure_heard(const fli_measure *m);

#endif
