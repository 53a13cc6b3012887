/* The hypergradient of a two-level problem, exactly: over all samples of all clients, with the lower level solved.
 *
 *     y* = argmin_y G(x, y)         Newton's method, each step by conjugate gradients
 *     v* = G_yy^-1 grad_y F(x, y*)  conjugate gradients
 *     grad Phi(x) = grad_x F(x, y*) - G_xy v*
 *
 * Every derivative is a sum over the clients, who are asked for it one after the other (FLI_ASK_LEVELS). Both solutions
 * are found to a gradient or residual of 1e-10 in f64 and of 1e-5 in f32, relative to what it was at the start but to
 * no less than 1; the error in y* and v* is at most that over the modulus of strong convexity. */
#ifndef FLI_METRIC_HYPERGRADIENT_H
#define FLI_METRIC_HYPERGRADIENT_H

#include "metric/metric.h"

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
/* Bytes that it takes. */
double fli_hypergradient_bytes(const fli_model *model, size_t clients);

#endif
