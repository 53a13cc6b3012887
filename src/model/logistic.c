/* Logistic regression with labels 0 and 1, no intercept ([GiA] (3) without its regulariser). With a_j the rows of A:
 *
 *     f(x) = 1/n sum_j [ log(1 + exp(a_j'x)) - b_j a_j'x ],
 *     grad f(x) = A'(s - b)/n,   Hessian = A' diag(s (1-s)) A / n
 *
 * where s_j = 1/(1 + exp(-a_j'x)). */
#include "model/model.h"

#include <math.h>

/* The logits, and A v for hvp. */
static size_t scratch(const fli_model *m, size_t n)
{
    (void)m;
    return 2 * fli_scratch_pad(n);
}

static double grad(const fli_model *m, const void *x, const fli_batch *b, void *g, size_t *correct, void *scratch_)
{
    const fli_ops *ops = m->space.ops;
    size_t n = b->n, hits;
    void *z = scratch_;
    fli_batch_mul(b, 1, x, z);
    double loss = ops->logistic_xent(n, b->label, 1.0 / (double)n, z, &hits);
    /* g = A'z; z now holds (s - b)/n */
    if (g) fli_batch_tmul(b, 1, 1, z, g);
    if (correct) *correct = hits;
    return loss / (double)n;
}

/* u = s (1-s) u / n for the logits z. s (1-s) = e/(1+e)^2 with e = exp(-|z|): no overflow, no cancellation. */
static void curve(const fli_ops *ops, size_t n, const void *z, void *u)
{
    double zs[64], us[64];
    for (size_t i = 0; i < n; i += 64) {
        size_t k = n - i < 64 ? n - i : 64;
        ops->to_f64(k, fli_cat(ops, z, i), zs);
        ops->to_f64(k, fli_cat(ops, u, i), us);
        for (size_t j = 0; j < k; j++) {
            double e = exp(-fabs(zs[j]));
            us[j] *= e / ((1 + e) * (1 + e) * (double)n);
        }
        ops->from_f64(k, us, fli_at(ops, u, i));
    }
}

static void hvp(const fli_model *m, const void *x, const fli_batch *b, const void *v, void *out, void *scratch_)
{
    const fli_ops *ops = m->space.ops;
    size_t n = b->n;
    void *z = scratch_, *u = fli_at(ops, scratch_, fli_scratch_pad(n));
    fli_batch_mul(b, 1, x, z);
    fli_batch_mul(b, 1, v, u);
    curve(ops, n, z, u);
    fli_batch_tmul(b, 1, 1, u, out);
}

/* The probabilities 1 - s and s, both without cancellation. */
static void predict(const fli_model *m, const void *x, const fli_batch *b, double *out, void *scratch_)
{
    const fli_ops *ops = m->space.ops;
    fli_batch_mul(b, 1, x, scratch_);
    for (size_t i = 0; i < b->n; i++) {
        double z;
        ops->to_f64(1, fli_cat(ops, scratch_, i), &z);
        double e = exp(-fabs(z)), likely = 1 / (1 + e), other = e / (1 + e);
        out[2 * i] = z > 0 ? other : likely;
        out[2 * i + 1] = z > 0 ? likely : other;
    }
}

static int network(const fli_model *m, fli_network *out)
{
    *out = (fli_network){.loss = FLI_NET_LOGISTIC, .parameters = m->space.n, .features = m->features, .classes = 2};
    out->depth = 1;
    out->layer[0] = (fli_net_layer){.kind = FLI_NET_FC, .in = {m->features, 1, 1}, .out = {1, 1, 1}};
    return 1;
}

static void layers(const fli_model *m, fli_text *t) { fli_linear_layers(m, "sigmoid", t); }

const fli_model_desc fli_model_logistic = {
    .name = "logistic",
    .title = "logistic regression for two classes, no intercept",
    .traits = FLI_MODEL_CLASSIFIER | FLI_MODEL_BINARY | FLI_MODEL_CONVEX | FLI_MODEL_SPARSE | FLI_MODEL_GLM |
              FLI_MODEL_NONNEGATIVE,
    .curvature = 0.25, /* s (1-s) <= 1/4 */
    .setup = fli_linear_setup,
    .scratch = scratch,
    .grad = grad,
    .hvp = hvp,
    .predict = predict,
    .network = network,
    .layers = layers,
};
