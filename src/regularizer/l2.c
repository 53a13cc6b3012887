/* Squared l2 norm, which shrinks all parameters by the same factor:
 *
 *     g(x) = weight/2 ||x||^2,   prox: z = x / (1 + eta weight),
 *
 * from weight z + (z - x)/eta = 0.
 *
 * Hoerl and Kennard: Ridge regression, Technometrics 1970. */
#include "regularizer/regularizer.h"

typedef struct {
    double weight;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, weight, "0.01", 0, FLI_NO_MAX, "weight of half the squared norm"),
    FLI_KEY_END,
};

/* The weight is inside the sum, so that weight 0 gives 0 for any x. */
static double value(const void *params_, size_t n, const double *x)
{
    const params *p = params_;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += p->weight / 2 * x[i] * x[i];
    return sum;
}

static void prox(const void *params_, double eta, size_t n, double *x, double *work)
{
    const params *p = params_;
    double shrink = 1 + eta * p->weight;
    (void)work;
    for (size_t i = 0; i < n; i++) x[i] /= shrink;
}

const fli_regularizer fli_reg_l2 = {
    .name = "l2",
    .title = "half the squared l2 norm: shrinks parameters",
    .citation = "Hoerl and Kennard: Ridge regression, Technometrics 1970",
    .keys = keys,
    .params_size = sizeof(params),
    .value = value,
    .prox = prox,
};
