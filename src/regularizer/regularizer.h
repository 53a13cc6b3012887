/* Regularisers g of composite problems F = f + g: their value and their proximal operator. One per file (reg_*.c), one line in
 * reg_list.c.
 *
 * They act on the whole parameter vector, in double: a method calls the prox once per round, on the server. */
#ifndef FLI_REGULARIZER_REGULARIZER_H
#define FLI_REGULARIZER_REGULARIZER_H

#include "base/keys.h"

typedef struct fli_regularizer {
    const char *name, *title, *citation;
    const fli_key *keys;
    size_t params_size;
    int convex;
    /* Refuses parameters no single row can refuse, for vectors of length n; NULL: nothing to refuse. */
    fl_status (*validate)(fl_ctx *ctx, const void *params, size_t n);
    /* g(x); INFINITY outside the set of an indicator (up to rounding: a relative 1e-12). */
    double (*value)(const void *params, size_t n, const double *x);
    /* x <- argmin_z g(z) + 1/(2 eta) ||z - x||^2. `work` has room for n doubles. */
    void (*prox)(const void *params, double eta, size_t n, double *x, double *work);
} fli_regularizer;

extern const fli_regularizer *const fli_regularizer_list[]; /* NULL-terminated */

#endif
