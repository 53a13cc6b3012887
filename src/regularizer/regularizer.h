/* Regularisers g of composite problems F = f + g: their value and their proximal operator. One per file, one line in
 * list.c.
 *
 * They act on the whole parameter vector, in double: a method calls the prox once per round, on the server. */
#ifndef FLI_REGULARIZER_REGULARIZER_H
#define FLI_REGULARIZER_REGULARIZER_H

#include "format/keys.h"

#include <math.h>
#include <stddef.h>

typedef struct fli_regularizer {
    const char *name, *title, *citation;
    const fl_key *keys;
    size_t params_size;
    /* The least m for which g(x) + m/2 ||x||^2 is convex; INFINITY if there is none. NULL: g is convex for all
     * parameters. */
    double (*weak_convexity)(const void *params);
    /* FL_ECONFIG for parameters that no single row can refuse, for vectors of length n; NULL: all are valid. */
    fl_status (*validate)(fl_ctx *ctx, const void *params, size_t n);
    /* g(x); INFINITY outside the set of an indicator (up to rounding: a relative 1e-12). */
    double (*value)(const void *params, size_t n, const double *x);
    /* x <- argmin_z g(z) + 1/(2 eta) ||z - x||^2, the global minimiser even if there are local ones. `work` has room
     * for n doubles. */
    void (*prox)(const void *params, double eta, size_t n, double *x, double *work);
} fli_regularizer;

double fli_regularizer_weak_convexity(const fli_regularizer *g, const void *params); /* 0: convex, or g is NULL */

/* ==== the list ============================================================================================== */

/* To add one: its file, a line here, a line in list.c. */
extern const fli_regularizer *const fli_regularizer_list[]; /* NULL-terminated */
extern const fli_regularizer fli_reg_none;
extern const fli_regularizer fli_reg_l1;
extern const fli_regularizer fli_reg_l2;
extern const fli_regularizer fli_reg_elastic;
extern const fli_regularizer fli_reg_group;
extern const fli_regularizer fli_reg_nonnegative;
extern const fli_regularizer fli_reg_box;
extern const fli_regularizer fli_reg_ball;
extern const fli_regularizer fli_reg_simplex;
extern const fli_regularizer fli_reg_mcp;
extern const fli_regularizer fli_reg_linf;

/* ==== for the files of this folder ========================================================================== */

/* Functions that several regularisers share; models use fli_simplex_nearest, too. */

/* Distance from its set, relative to the size of the set, that rounding alone may cause. */
#define FLI_REG_SLACK 1e-12

/* Soft threshold argmin_z t|z| + 1/2 (z - x)^2 for t >= 0: moves x by t towards 0, to 0 if |x| <= t. NaN stays NaN. */
static inline double fli_soft(double x, double t) { return fabs(x) <= t ? 0 : x - copysign(t, x); }

/* ||x||_2 = *unit * (returned value), with *unit a power of two near max|x_i|. Neither the squares nor a division by
 * *unit overflow, even if the norm itself does. */
double fli_norm_split(size_t n, const double *x, double *unit);

/* The largest entry; NaN if an entry is not finite. */
double fli_finite_max(size_t n, const double *x);

/* tau with sum_i max(y_i - tau, 0) = 1, for entries y <= 0, at least one of them 0. Entries of -1 and below may be left
 * out. Destroys y. */
double fli_simplex_threshold(size_t n, double *y);

/* x <- the nearest point of {x >= 0, sum x = 1}; work: n doubles */
void fli_simplex_nearest(size_t n, double *x, double *work);

#endif
