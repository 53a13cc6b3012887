/* l1 norm, which makes parameters exactly zero:
 *
 *     g(x) = weight ||x||_1,   prox: z_i = sign(x_i) max(|x_i| - eta weight, 0).
 *
 * The problem splits into coordinates. In each, 0 is in weight d|z| + (z - x)/eta: either z = x - eta weight sign(z),
 * or z = 0 and |x| <= eta weight.
 *
 * Tibshirani: Regression shrinkage and selection via the lasso, JRSS B 1996; for the prox, Parikh and Boyd: Proximal
 * algorithms, 2014. */
#include "regularizer/regularizer.h"

typedef struct {
    double weight;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, weight, "0.01", 0, FLI_NO_MAX, "weight of the sum of absolute values"),
    FLI_KEY_END,
};

/* The weight is inside the sum, so that weight 0 gives 0 for any x. */
static double value(const void *params_, size_t n, const double *x)
{
    const params *p = params_;
    double sum = 0;
    for (size_t i = 0; i < n; i++) sum += p->weight * fabs(x[i]);
    return sum;
}

static void prox(const void *params_, double eta, size_t n, double *x, double *work)
{
    const params *p = params_;
    double t = eta * p->weight;
    (void)work;
    for (size_t i = 0; i < n; i++) x[i] = fli_soft(x[i], t);
}

const fli_regularizer fli_reg_l1 = {
    .name = "l1",
    .title = "l1 norm: sets parameters to zero",
    .citation = "Tibshirani: Regression shrinkage and selection via the lasso, JRSS B 1996",
    .keys = keys,
    .params_size = sizeof(params),
    .value = value,
    .prox = prox,
};
