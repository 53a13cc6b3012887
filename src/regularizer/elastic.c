/* Elastic net:
 *
 *     g(x) = l1 ||x||_1 + l2/2 ||x||^2,   prox: z_i = soft(x_i, eta l1) / (1 + eta l2)
 *
 * with the soft threshold of l1.c: completing the square in l2/2 z^2 + 1/(2 eta) (z - x)^2 leaves the l1 problem at
 * x / (1 + eta l2) with step eta / (1 + eta l2), and the factor comes out of the threshold.
 *
 * Zou and Hastie: Regularization and variable selection via the elastic net, JRSS B 2005. */
#include "regularizer/regularizer.h"

typedef struct {
    double l1, l2;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, l1, "0.01", 0, FLI_NO_MAX, "weight of the sum of absolute values"),
    FLI_KEY_REAL(params, l2, "0.01", 0, FLI_NO_MAX, "weight of half the squared norm"),
    FLI_KEY_END,
};

/* The weights are inside the sum, so that weight 0 gives 0 for any x. */
static double value(const void *params_, size_t n, const double *x)
{
    const params *p = params_;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += p->l1 * fabs(x[i]) + p->l2 / 2 * x[i] * x[i];
    return sum;
}

static void prox(const void *params_, double eta, size_t n, double *x, double *work)
{
    const params *p = params_;
    double t = eta * p->l1, shrink = 1 + eta * p->l2;
    (void)work;
    for (size_t i = 0; i < n; i++) x[i] = fli_soft(x[i], t) / shrink;
}

const fli_regularizer fli_reg_elastic = {
    .name = "elastic_net",
    .title = "l1 norm plus half the squared l2 norm",
    .citation = "Zou and Hastie: Regularization and variable selection via the elastic net, JRSS B 2005",
    .keys = keys,
    .params_size = sizeof(params),
    .value = value,
    .prox = prox,
};
