/* Regularisation tuning: the upper level is the strength of regularisation of each feature, the lower level a model.
 *
 *     x_j = log of feature j's weight
 *     y = the parameters of a softmax, logistic or least squares model, W_cj those of feature j
 *     f = mean loss of y over validation samples
 *     g = mean loss of y over training samples + 1/2 sum_j exp(x_j) sum_c W_cj^2
 *         (+ l2/2 ||y||^2, which the bias needs)
 *
 *     g_xy v: exp(x_j) sum_c W_cj V_cj,   g_yy v: (Hessian of the loss) v + exp(x_j) V_cj
 *
 * The model is changed in place: x is prepended to its parameters. Its loss does not depend on x. */
#include "bilevel/bilevel.h"

#include <math.h>

typedef struct {
    double start;
} params;

static const fl_key keys[] = {
    FLI_KEY_REAL(params, start, "0.01", FLI_ABOVE_0, FLI_NO_MAX, "every feature's l2 weight at the start"),
    FLI_KEY_END,
};

/* The model before the change. */
static const fli_model *inner(const fli_model *m) { return m->priv; }

static const void *tail(const fli_model *m, const void *z) { return fli_cat(m->space.ops, z, m->features); }
static void *tail_of(const fli_model *m, void *z) { return fli_at(m->space.ops, z, m->features); }

/* ---- the model with x in front -------------------------------------------------------------------------- */

static void zero_front(const fli_model *m, void *z) { m->space.ops->fill(m->features, 0, z); }

static size_t scratch_for(const fli_model *m, size_t n) { return inner(m)->desc->scratch(inner(m), n); }

static double grad(const fli_model *m, const void *z, const fli_batch *b, void *g, size_t *correct, void *scratch)
{
    if (g) zero_front(m, g);
    return inner(m)->desc->grad(inner(m), tail(m, z), b, g ? tail_of(m, g) : NULL, correct, scratch);
}

static void hvp(const fli_model *m, const void *z, const fli_batch *b, const void *v, void *out, void *scratch)
{
    zero_front(m, out);
    inner(m)->desc->hvp(inner(m), tail(m, z), b, tail(m, v), tail_of(m, out), scratch);
}

static void init(const fli_model *m, fli_rng *r, double *z)
{
    const params *p = m->bilevel->params;
    for (size_t j = 0; j < m->features; j++) z[j] = log(p->start);
    if (inner(m)->desc->init) inner(m)->desc->init(inner(m), r, z + m->features);
}

/* True for the supported models: one weight per feature and output, row by row, before all other parameters. */
static int is_linear(const fli_model *m)
{
    const fli_tensor *w = m->tensors;
    return m->desc->hvp && m->tensor_count && !w->offset &&
           (w->cols ? w->cols == m->features : w->rows == m->features) && m->tensor_count <= 2 &&
           (m->tensor_count < 2 || !m->tensors[1].cols);
}

static fl_status put_in_front(fli_model *m)
{
    size_t d = m->features;
    fli_model *was = fli_arena_alloc(&m->arena, 1, sizeof *was);
    fli_model_desc *desc = fli_arena_alloc(&m->arena, 1, sizeof *desc);
    fli_tensor *t = fli_arena_alloc(&m->arena, m->tensor_count + 1, sizeof *t);
    if (!was || !desc || !t) return FL_ENOMEM;
    *was = *m;
    was->arena = (fli_arena){0}; /* the memory belongs to m */
    *desc = *m->desc;
    desc->traits &= ~(unsigned)(FLI_MODEL_GLM | FLI_MODEL_QUADRATIC | FLI_MODEL_SOFTMAX);
    desc->logits = NULL; /* the two halves do not know x */
    desc->pullback = NULL;
    desc->scratch = scratch_for;
    desc->init = init;
    desc->grad = grad;
    desc->hvp = hvp;
    t[0] = (fli_tensor){.name = "log_l2", .rows = d};
    for (size_t i = 0; i < m->tensor_count; i++) {
        t[i + 1] = m->tensors[i];
        t[i + 1].offset += d;
    }
    m->desc = desc;
    m->priv = was;
    m->tensors = t;
    m->tensor_count++;
    m->space.n += d;
    return FL_OK;
}

static fl_status setup(fl_ctx *ctx, fli_model *m, const void *p, fli_range *upper, fli_range *lower)
{
    (void)p;
    if (!is_linear(m))
        return fli_fail(ctx, FL_ECONFIG,
                        "bilevel.kind is regularization, which needs a model with one weight per feature (softmax, "
                        "logistic or least_squares), not %s",
                        m->desc->name);
    fl_status s = put_in_front(m);
    *upper = (fli_range){0, m->features};
    *lower = (fli_range){m->features, m->space.n - m->features};
    return s;
}

/* ---- the levels ------------------------------------------------------------------------------------------ */

static double upper(const fli_model *m, const void *z, const fli_batch *b, void *d, void *scratch)
{
    return grad(m, z, b, d, NULL, scratch);
}

/* Adds exp(x_j) w_j to the lower block of `out`, if not NULL, and sets its upper block to sum_c exp(x_j) w_cj u_cj, if
 * u is not NULL. Processes up to 64 features at a time. Returns sum exp(x_j) w_j^2. */
static double penalise(const fli_model *m, const void *z, const void *w, const void *u, void *out)
{
    const fli_ops *ops = m->space.ops;
    size_t d = m->features, outs = m->tensors[1].cols ? m->tensors[1].rows : 1;
    double x[64], ws[64], us[64], to[64], front[64], sum = 0;
    for (size_t j = 0; j < d; j += 64) {
        size_t k = d - j < 64 ? d - j : 64;
        ops->to_f64(k, fli_cat(ops, z, j), x);
        for (size_t i = 0; i < k; i++) x[i] = exp(x[i]), front[i] = 0;
        for (size_t c = 0; c < outs; c++) {
            size_t at = d + c * d + j;
            ops->to_f64(k, fli_cat(ops, w, at), ws);
            if (u) ops->to_f64(k, fli_cat(ops, u, at), us);
            if (out) ops->to_f64(k, fli_cat(ops, out, at), to);
            for (size_t i = 0; i < k; i++) {
                to[i] = (out ? to[i] : 0) + x[i] * ws[i];
                if (u) front[i] += x[i] * ws[i] * us[i];
                sum += x[i] * ws[i] * ws[i];
            }
            if (out) ops->from_f64(k, to, fli_at(ops, out, at));
        }
        if (u) ops->from_f64(k, front, fli_at(ops, out, j));
    }
    return sum;
}

static double lower(const fli_model *m, const void *z, const fli_batch *b, void *d, void *scratch)
{
    double loss = grad(m, z, b, d, NULL, scratch);
    return loss + penalise(m, z, z, NULL, d) / 2;
}

static void product(const fli_model *m, const void *z, const fli_batch *b, const void *v, void *out, void *scratch)
{
    hvp(m, z, b, v, out, scratch);
    penalise(m, z, v, z, out);
}

const fli_bilevel_desc fli_bilevel_regularization = {
    .name = "regularization",
    .title = "each feature's l2 weight above, a linear model below",
    .citation = "Franceschi et al., ICML 2018",
    .keys = keys,
    .params_size = sizeof(params),
    .setup = setup,
    .upper = upper,
    .lower = lower,
    .product = product,
};
