/* Non-negativity: g is the indicator of {x >= 0}, 0 inside and infinite outside. Its prox is the projection for any
 * eta: z_i = max(x_i, 0).
 *
 * Parikh and Boyd: Proximal algorithms, 2014. */
#include "regularizer/regularizer.h"

#include <math.h>

/* No slack: the bound is 0, and the projection meets it exactly. */
static double value(const void *params, size_t n, const double *x)
{
    (void)params;
    for (size_t i = 0; i < n; i++)
        if (!(x[i] >= 0)) return INFINITY;
    return 0;
}

/* NaN stays NaN, so that divergence is detected. */
static void prox(const void *params, double eta, size_t n, double *x, double *work)
{
    (void)params, (void)eta, (void)work;
    for (size_t i = 0; i < n; i++)
        if (x[i] < 0) x[i] = 0;
}

const fli_regularizer fli_reg_nonnegative = {
    .name = "nonnegative",
    .title = "no negative parameters",
    .citation = "Parikh and Boyd: Proximal algorithms, 2014",
    .value = value,
    .prox = prox,
};
