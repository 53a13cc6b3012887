/* Minimax concave penalty: near 0 an l1 norm, constant for large parameters, which it does not shrink. With key
 * `gamma`,
 *
 *     g(x) = sum_i h(x_i),   h(t) = weight |t| - t^2/(2 gamma)   for |t| <= gamma weight,
 *                                   gamma weight^2 / 2           beyond.
 *
 * It is not convex: h'' = -1/gamma near 0, so 1/gamma is the least m for which g + m/2 ||x||^2 is convex.
 *
 * The prox splits into coordinates. Let x >= 0; z is in [0, x]. For eta < gamma the coordinate's problem is strongly
 * convex, and where its derivative vanishes gives the firm threshold
 *
 *     z = 0 for x <= eta weight,   (x - eta weight)/(1 - eta/gamma) up to x = gamma weight,   x beyond.
 *
 * For eta >= gamma it is concave on [0, gamma weight], so its minimiser is an end of this piece or lies beyond it. For
 * x <= gamma weight the derivative at the upper end, (gamma weight - x)/eta, is not negative, so the problem increases
 * on the whole piece: z = 0. For larger x the candidates are 0, with value x^2/(2 eta), and x itself, with value
 * gamma weight^2/2: the hard threshold z = x for x > weight sqrt(eta gamma), else 0. At equality both are minimisers.
 *
 * Zhang: Nearly unbiased variable selection under minimax concave penalty, Annals of Statistics 2010. */
#include "regularizer/regularizer.h"

typedef struct {
    double weight, gamma;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, weight, "0.01", 0, FLI_NO_MAX, "slope at zero: the weight of the l1 norm it begins as"),
    FLI_KEY_REAL(params, gamma, "3", FLI_ABOVE_0, FLI_NO_MAX,
                 "parameters beyond gamma times weight are not made smaller; large: like l1. Proximal steps should be "
                 "shorter than gamma"),
    FLI_KEY_END,
};

static double weak_convexity(const void *params_)
{
    const params *p = params_;
    return p->weight > 0 ? 1 / p->gamma : 0;
}

static double value(const void *params_, size_t n, const double *x)
{
    const params *p = params_;
    double sum = 0, end = p->gamma * p->weight;
    for (size_t i = 0; i < n; i++) {
        double size = fabs(x[i]);
        sum += size > end ? end * p->weight / 2 : p->weight * size - size * size / (2 * p->gamma);
    }
    return sum;
}

/* The prox for eta < gamma. The last line prevents a result larger than x by rounding. */
static double firm_threshold(const params *p, double eta, double x)
{
    if (fabs(x) > p->gamma * p->weight) return x;
    double z = fli_soft(x, eta * p->weight) * (p->gamma / (p->gamma - eta));
    return fabs(z) > fabs(x) ? x : z;
}

static void prox(const void *params_, double eta, size_t n, double *x, double *work)
{
    const params *p = params_;
    double jump = p->weight * sqrt(eta * p->gamma);
    (void)work;
    for (size_t i = 0; i < n; i++) x[i] = eta < p->gamma ? firm_threshold(p, eta, x[i]) : fabs(x[i]) <= jump ? 0 : x[i];
}

const fli_regularizer fli_reg_mcp = {
    .name = "mcp",
    .title = "minimax concave penalty: sets parameters to zero and leaves large ones alone",
    .citation = "Zhang: Nearly unbiased variable selection under minimax concave penalty, Ann. Statist. 2010",
    .keys = keys,
    .params_size = sizeof(params),
    .weak_convexity = weak_convexity,
    .value = value,
    .prox = prox,
};
