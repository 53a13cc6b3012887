/* Simplex: g is the indicator of {x >= 0, sum_i x_i = total}, 0 inside and infinite outside. Its prox is the projection
 * for any eta: z_i = max(x_i - tau, 0), where tau makes the sum `total`.
 *
 * The sum decreases in tau, so tau is unique. If the k largest entries are the positive ones, tau_k = (their sum -
 * total)/k; the next one u is positive, too, if and only if u > tau_k. So entries are taken in descending order until
 * one is not positive. They come from a heap in `work`: n + k log n operations, without sorting entries that become
 * zero (fli_simplex_threshold).
 *
 * All of this uses y_i = (x_i - max x)/total, so that y <= 0 and tau is in [-1, 0): subtracting the maximum shifts tau
 * alone, and no sum overflows. If 1e5 entries share a rounding error of tau, the sum is off by 1e5 times that error, so
 * the result is rescaled at the end.
 *
 * Duchi, Shalev-Shwartz, Singer, Chandra: Efficient projections onto the l1-ball for learning in high dimensions, ICML
 * 2008; the heap as in van den Berg and Friedlander: Probing the Pareto frontier for basis pursuit solutions, SIAM J.
 * Sci. Comput. 2008. */
#include "regularizer/regularizer.h"

typedef struct {
    double total;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, total, "1", FLI_ABOVE_0, FLI_NO_MAX, "what the parameters add up to"),
    FLI_KEY_END,
};

/* sum_i x_i / unit with a running correction, so that rounding of many small terms does not look like a violation. */
static double kahan_sum(size_t n, const double *x, double unit)
{
    double sum = 0, lost = 0;
    for (size_t i = 0; i < n; i++) {
        double term = x[i] / unit - lost, next = sum + term;
        lost = (next - sum) - term;
        sum = next;
    }
    return sum;
}

static double value(const void *params_, size_t n, const double *x)
{
    const params *p = params_;
    for (size_t i = 0; i < n; i++)
        if (!(x[i] >= -FLI_REG_SLACK * p->total && x[i] <= p->total * (1 + FLI_REG_SLACK))) return INFINITY;
    return fabs(kahan_sum(n, x, p->total) - 1) <= FLI_REG_SLACK ? 0 : INFINITY;
}

static void prox(const void *params_, double eta, size_t n, double *x, double *work)
{
    const params *p = params_;
    double top = fli_finite_max(n, x);
    size_t candidates = 0;
    (void)eta;
    for (size_t i = 0; i < n; i++) {
        x[i] = (x[i] - top) / p->total;
        if (x[i] > -1) work[candidates++] = x[i]; /* tau >= -1, so the others become 0 */
    }
    double tau = fli_simplex_threshold(candidates, work);
    for (size_t i = 0; i < n; i++) x[i] = x[i] <= tau ? 0 : x[i] - tau;
    double sum = kahan_sum(n, x, 1);
    for (size_t i = 0; i < n; i++) x[i] = x[i] / sum * p->total;
}

void fli_simplex_nearest(size_t n, double *x, double *work) { prox(&(params){1}, 1, n, x, work); }

const fli_regularizer fli_reg_simplex = {
    .name = "simplex",
    .title = "no negative parameters, and a given sum",
    .citation = "Duchi et al.: Efficient projections onto the l1-ball for learning in high dimensions, ICML 2008",
    .keys = keys,
    .params_size = sizeof(params),
    .value = value,
    .prox = prox,
};
