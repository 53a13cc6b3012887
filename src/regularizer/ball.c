/* l2 ball: g is the indicator of {||x||_2 <= radius}, 0 inside and infinite outside. Its prox is the projection for any
 * eta: x itself inside, radius x / ||x|| outside.
 *
 * Parikh and Boyd: Proximal algorithms, 2014. */
#include "regularizer/regularizer.h"

typedef struct {
    double radius;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, radius, "1", FLI_ABOVE_0, FLI_NO_MAX, "largest norm of the parameter vector"),
    FLI_KEY_END,
};

static double value(const void *params_, size_t n, const double *x)
{
    const params *p = params_;
    double unit, norm = fli_norm_split(n, x, &unit);
    return unit * norm <= p->radius * (1 + FLI_REG_SLACK) ? 0 : INFINITY;
}

/* radius x / ||x|| is (radius / norm) (x / unit): ||x|| itself may overflow. */
static void prox(const void *params_, double eta, size_t n, double *x, double *work)
{
    const params *p = params_;
    double unit, norm = fli_norm_split(n, x, &unit);
    (void)eta, (void)work;
    if (unit * norm <= p->radius) return;
    for (size_t i = 0; i < n; i++) x[i] = p->radius / norm * (x[i] / unit);
}

const fli_regularizer fli_reg_ball = {
    .name = "l2_ball",
    .title = "parameter vector within a distance of zero",
    .citation = "Parikh and Boyd: Proximal algorithms, 2014",
    .keys = keys,
    .params_size = sizeof(params),
    .value = value,
    .prox = prox,
};
