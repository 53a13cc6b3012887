/* Regularisers g of composite problems F = f + g: their value and their proximal operator. One per file, one line in
 * list.c.
 *
 * They act on the whole parameter vector, in double: a method calls the prox once per round, on the server. */
#ifndef FLI_REGULARIZER_REGULARIZER_H
#define FLI_REGULARIZER_REGULARIZER_H

#include "format/keys.h"

typedef struct fli_regularizer {
    const char *name, *title, *citation;
    const fli_key *keys;
    size_t params_size;
    /* How far g is from convex: the least m for which g(x) + m/2 ||x||^2 is convex; INFINITY: there is none. NULL: g is
     * convex whatever the parameters are. */
    double (*weak_convexity)(const void *params);
    /* Refuses parameters no single row can refuse, for vectors of length n; NULL: nothing to refuse. */
    fl_status (*validate)(fl_ctx *ctx, const void *params, size_t n);
    /* g(x); INFINITY outside the set of an indicator (up to rounding: a relative 1e-12). */
    double (*value)(const void *params, size_t n, const double *x);
    /* x <- argmin_z g(z) + 1/(2 eta) ||z - x||^2: the global minimiser, where there are several local ones. `work` has
     * room for n doubles. */
    void (*prox)(const void *params, double eta, size_t n, double *x, double *work);
} fli_regularizer;

double fli_regularizer_weak_convexity(const fli_regularizer *g, const void *params); /* 0: convex, or g is NULL */

extern const fli_regularizer *const fli_regularizer_list[]; /* NULL-terminated */

#endif
