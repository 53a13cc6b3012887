/* Box: g is the indicator of {low <= x_i <= high}, 0 inside and infinite outside. Its prox is the projection for any
 * eta: z_i = min(max(x_i, low), high).
 *
 * Parikh and Boyd: Proximal algorithms, 2014. */
#include "regularizer/regularizer.h"

typedef struct {
    double low, high;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, low, "-1", -FLI_NO_MAX, FLI_NO_MAX, "smallest value of a parameter"),
    FLI_KEY_REAL(params, high, "1", -FLI_NO_MAX, FLI_NO_MAX, "largest value of a parameter"),
    FLI_KEY_END,
};

static fl_status validate(fl_ctx *ctx, const void *params_, size_t n)
{
    const params *p = params_;
    (void)n;
    if (p->low <= p->high) return FL_OK;
    return fli_fail(ctx, FL_ECONFIG, "regularizer.low is %g, but must not be above regularizer.high, which is %g",
                    p->low, p->high);
}

static double value(const void *params_, size_t n, const double *x)
{
    const params *p = params_;
    double low = p->low - FLI_REG_SLACK * fabs(p->low), high = p->high + FLI_REG_SLACK * fabs(p->high);
    for (size_t i = 0; i < n; i++)
        if (!(x[i] >= low && x[i] <= high)) return INFINITY;
    return 0;
}

/* NaN stays NaN, so that divergence is detected. */
static void prox(const void *params_, double eta, size_t n, double *x, double *work)
{
    const params *p = params_;
    (void)eta, (void)work;
    for (size_t i = 0; i < n; i++) x[i] = x[i] < p->low ? p->low : x[i] > p->high ? p->high : x[i];
}

const fli_regularizer fli_reg_box = {
    .name = "box",
    .title = "every parameter between two bounds",
    .citation = "Parikh and Boyd: Proximal algorithms, 2014",
    .keys = keys,
    .params_size = sizeof(params),
    .validate = validate,
    .value = value,
    .prox = prox,
};
