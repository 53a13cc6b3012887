/* No regulariser: g(x) = 0, and its prox is the identity. */
#include "regularizer/regularizer.h"

static double value(const void *params, size_t n, const double *x)
{
    (void)params, (void)n, (void)x;
    return 0;
}

static void prox(const void *params, double eta, size_t n, double *x, double *work)
{
    (void)params, (void)eta, (void)n, (void)x, (void)work;
}

const fl_regularizer fli_reg_none = {
    .name = "none",
    .title = "no regulariser",
    .value = value,
    .prox = prox,
};
