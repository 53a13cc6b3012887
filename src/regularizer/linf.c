/* l-infinity norm, which makes the largest parameters equal in size:
 *
 *     g(x) = weight max_i |x_i|,   prox: z_i = sign(x_i) min(|x_i|, tau),  tau with sum_i max(|x_i| - tau, 0) = t,
 *
 * where t = eta weight, and z = 0 if ||x||_1 <= t. The conjugate of g is the indicator of the l1 ball of radius
 * `weight`, so by Moreau's identity z is x minus its projection onto the l1 ball of radius t. The projection subtracts
 * tau from every |x_i|, down to 0, where tau is the simplex's threshold for these sizes (simplex.c). The remainder is
 * min(|x_i|, tau), which needs no difference of x and a point close to it.
 *
 * Parikh and Boyd: Proximal algorithms, 2014; Duchi, Shalev-Shwartz, Singer, Chandra: Efficient projections onto the
 * l1-ball for learning in high dimensions, ICML 2008. */
#include "regularizer/regularizer.h"

typedef struct {
    double weight;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, weight, "0.01", 0, FLI_NO_MAX, "weight of the largest absolute value"),
    FLI_KEY_END,
};

static double value(const void *params_, size_t n, const double *x)
{
    const params *p = params_;
    double top = 0;
    for (size_t i = 0; i < n; i++) {
        if (isnan(x[i])) return NAN;
        if (fabs(x[i]) > top) top = fabs(x[i]);
    }
    return p->weight * top;
}

/* tau as above, at least 0; NaN if an entry is not finite. Sizes are y_i = (|x_i| - max)/t, as in simplex.c: tau is
 * then at least -1, and no sum overflows. */
static double level(double t, size_t n, const double *x, double *work)
{
    size_t candidates = 0;
    for (size_t i = 0; i < n; i++) work[i] = fabs(x[i]);
    double top = fli_finite_max(n, work);
    for (size_t i = 0; i < n; i++) {
        double y = (work[i] - top) / t;
        if (y > -1) work[candidates++] = y;
    }
    double tau = top + t * fli_simplex_threshold(candidates, work);
    return tau < 0 ? 0 : tau;
}

static void prox(const void *params_, double eta, size_t n, double *x, double *work)
{
    const params *p = params_;
    double t = eta * p->weight;
    if (t == 0) return;
    double tau = level(t, n, x, work);
    for (size_t i = 0; i < n; i++)
        if (!(fabs(x[i]) <= tau)) x[i] = copysign(tau, x[i]);
}

const fli_regularizer fli_reg_linf = {
    .name = "linf",
    .title = "l-infinity norm: makes the largest parameters equal in size",
    .citation = "Parikh and Boyd: Proximal algorithms, 2014",
    .keys = keys,
    .params_size = sizeof(params),
    .value = value,
    .prox = prox,
};
