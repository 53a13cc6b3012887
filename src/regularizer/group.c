/* Group lasso: parameters become zero together.
 *
 *     g(x) = weight sum_G ||x_G||_2,   prox: z_G = max(1 - eta weight / ||x_G||, 0) x_G.
 *
 * A group is a run of `group` neighbouring entries; the last one is shorter if `group` does not divide n. Groups have
 * no factor sqrt(|G|): with equal sizes it would only rescale the weight.
 *
 * A group's z lies along x_G. For z != 0 the condition weight z/||z|| + (z - x)/eta = 0 gives ||z|| = ||x|| - eta
 * weight; z = 0 is the minimiser if ||x|| <= eta weight.
 *
 * Yuan and Lin: Model selection and estimation in regression with grouped variables, JRSS B 2006. */
#include "regularizer/regularizer.h"

typedef struct {
    double weight;
    int64_t group;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, weight, "0.01", 0, FLI_NO_MAX, "weight of the sum of the groups' norms"),
    FLI_KEY_INT(params, group, "10", 1, 1e9, "neighbouring parameters per group, the last group may be shorter"),
    FLI_KEY_END,
};

/* Number of entries in the group that starts at `i`. */
static size_t group_at(const params *p, size_t i, size_t n)
{
    return n - i < (size_t)p->group ? n - i : (size_t)p->group;
}

static double value(const void *params_, size_t n, const double *x)
{
    const params *p = params_;
    double sum = 0, unit;
    for (size_t i = 0, k; i < n; i += k) {
        k = group_at(p, i, n);
        double norm = fli_norm_split(k, x + i, &unit);
        sum += p->weight * unit * norm;
    }
    return sum;
}

/* t / ||x_G|| is computed as t / unit / norm, because ||x_G|| may overflow. */
static void shrink_group(double t, size_t n, double *x)
{
    double unit, norm = fli_norm_split(n, x, &unit);
    double keep = t / unit >= norm ? 0 : 1 - t / unit / norm;
    for (size_t i = 0; i < n; i++) x[i] *= keep;
}

static void prox(const void *params_, double eta, size_t n, double *x, double *work)
{
    const params *p = params_;
    (void)work;
    for (size_t i = 0, k; i < n; i += k) {
        k = group_at(p, i, n);
        shrink_group(eta * p->weight, k, x + i);
    }
}

const fli_regularizer fli_reg_group = {
    .name = "group_l2",
    .title = "l2 norms of groups of neighbours: sets whole groups to zero",
    .citation = "Yuan and Lin: Model selection and estimation in regression with grouped variables, JRSS B 2006",
    .keys = keys,
    .params_size = sizeof(params),
    .value = value,
    .prox = prox,
};
